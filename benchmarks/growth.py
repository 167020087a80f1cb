"""CPU time and memory of each task against the number of texts, and the slope of the time.

    python benchmarks/growth.py --save
    python benchmarks/growth.py --tasks classify duplicates --largest 128000 --peers ../peers

Texts are sentences of IMDb's reviews with the label of their review. Every size is a
process of its own; the tasks of one group follow each other in it. `--peers` is a folder with other
packages (`pip install --no-deps --target`): cleanlab, datasketch, rensa, bm25s; those that are not
found are left out. The slope is that of a line through log(seconds) and log(n), over the sizes
where a task takes a tenth of a second and more; 1 is proportional to the texts.
"""

import json
import math
import os
import re
import subprocess
import sys
import tempfile
from multiprocessing.pool import ThreadPool
from pathlib import Path

import numpy as np

from harness import finish, parser_for
from pacsent.paper import benchmark_datasets

SIZES = (2_000, 8_000, 32_000, 128_000, 512_000)
LEAST_SECONDS = 0.1  # of a time that counts for the slope
N_NEW = 4_000

START = """
import itertools, json, time
from pathlib import Path
import numpy as np

n = {n}
folder = Path({folder!r})
new = (folder / "new.txt").read_text(encoding="utf-8").splitlines()
with open(folder / "sentences.txt", encoding="utf-8") as file:
    texts = [line.rstrip() for line in itertools.islice(file, n)]
labels = np.load(folder / "labels.npy")[:n].tolist()

def largest_resident_size():
    status = Path("/proc/self/status")  # ru_maxrss would be that of the parent, if larger
    lines = status.read_text().splitlines() if status.exists() else []
    kilobytes = [int(line.split()[1]) for line in lines if line.startswith("VmHWM")]
    return kilobytes[0] / 1024 if kilobytes else 0

def measure(task, call, n_texts=n):
    start = time.process_time()
    result = call()
    seconds = time.process_time() - start
    row = {{"task": task, "n": n_texts, "seconds": seconds, "memory": largest_resident_size()}}
    print(json.dumps(row), flush=True)
    return result
"""

# group: (largest n, the tasks in one process)
OURS = {
    "classify": (
        128_000,
        """
from pacsent import CertifiedClassifier, TextClassifier
from pacsent.certify import DriftMonitor
measure("TextClassifier.fit", lambda: TextClassifier().fit(texts, labels))
fitted = CertifiedClassifier(random_state=0)
model = measure("CertifiedClassifier.fit", lambda: fitted.fit(texts, labels))
measure("predict 4,000 new texts", lambda: model.predict(new))
measure("compare_with_calibration, 4,000 new texts", lambda: model.compare_with_calibration(new))
monitor = measure("DriftMonitor, start", lambda: DriftMonitor(model, random_state=0))
measure("DriftMonitor.update, 2,000 new texts", lambda: monitor.update(new[:2000]))
""",
    ),
    "predict": (
        512_000,
        """
from pacsent import TextClassifier
model = TextClassifier().fit(texts[:2000], labels[:2000])
measure("predict n texts", lambda: model.predict(texts))
""",
    ),
    "certify": (
        512_000,
        """
from pacsent import certify_predictions
predictions = [label if i % 10 else 1 - label for i, label in enumerate(labels)]
measure(
    "certify_predictions, with texts",
    lambda: certify_predictions(labels, predictions, texts=texts, random_state=0),
)
""",
    ),
    "duplicates": (
        512_000,
        """
from pacsent.certify.near_duplicates import near_duplicate_clusters
measure("near-duplicates", lambda: near_duplicate_clusters(texts))
""",
    ),
    "labels": (
        32_000,
        """
from pacsent.classify import audit, suspicious_labels
measure("suspicious_labels", lambda: suspicious_labels(texts, labels))
measure("audit", lambda: audit(texts, labels))
""",
    ),
    "check": (
        32_000,
        """
from pacsent.classify import check_labels
measure(
    "check_labels, a person who agrees",
    lambda: check_labels(texts, labels, ask=lambda row, text: labels[row], random_state=0),
)
""",
    ),
    "search": (
        512_000,
        """
from pacsent import Index
index = Index("english")
measure("Index.add", lambda: index.add(texts))
index.search(new[0])
measure("Index.search, 50 queries", lambda: [index.search(text) for text in new[:50]])
""",
    ),
    "train": (
        512_000,
        """
from pacsent import SkipGram
trained = SkipGram(n_dims=50, n_epochs=1, n_jobs=1, random_state=0)
measure("SkipGram.fit, 50 dimensions, one epoch", lambda: trained.fit(texts))
""",
    ),
    "encode": (
        512_000,
        """
from pacsent import load
measure("encode", lambda: load("english").encode(texts))
""",
    ),
    "posteriors": (
        128_000,
        """
from pacsent import SkipGram, make_encoder
words = SkipGram(n_dims=50, n_epochs=1, n_jobs=1, random_state=0).fit(new).word_vectors_
for method in ("PB-neg", "w-PB-neg"):
    encoder = make_encoder(method, words)
    measure(f"{method}, 50 dimensions", lambda: encoder.fit(texts).transform(texts))
""",
    ),
}
PEERS = {
    "scikit-learn": (
        "classify",
        128_000,
        """
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegressionCV
from sklearn.pipeline import make_pipeline
features = TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True)
model = make_pipeline(features, LogisticRegressionCV(Cs=4, cv=5, max_iter=1000))
measure("TextClassifier.fit", lambda: model.fit(texts, labels))
measure("predict 4,000 new texts", lambda: model.predict(new))
""",
    ),
    "datasketch": (
        "duplicates",
        32_000,
        """
from datasketch import MinHash, MinHashLSH
def find():
    index = MinHashLSH(threshold=0.8, num_perm=128)
    for i, text in enumerate(texts):
        sketch = MinHash(num_perm=128)
        sketch.update_batch([word.encode() for word in text.lower().split()])
        index.query(sketch)
        index.insert(i, sketch)
measure("near-duplicates", find)
""",
    ),
    "rensa": (
        "duplicates",
        512_000,
        """
from rensa import RMinHash, RMinHashLSH
def find():
    index = RMinHashLSH(threshold=0.8, num_perm=128, num_bands=16)
    for i, text in enumerate(texts):
        sketch = RMinHash(num_perm=128, seed=0)
        sketch.update(text.lower().split())
        index.query(sketch)
        index.insert(i, sketch)
measure("near-duplicates", find)
""",
    ),
    "cleanlab": (
        "labels",
        32_000,
        """
from cleanlab.filter import find_label_issues
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_predict
from sklearn.pipeline import make_pipeline
def find():
    model = make_pipeline(TfidfVectorizer(ngram_range=(1, 2)), LogisticRegression(max_iter=1000))
    proba = cross_val_predict(model, texts, labels, cv=5, method="predict_proba")
    find_label_issues(np.array(labels), proba, n_jobs=1)
measure("suspicious_labels", find)
""",
    ),
    "bm25s": (
        "search",
        512_000,
        """
import bm25s
index = bm25s.BM25()
tokenize = lambda texts: bm25s.tokenize(texts, show_progress=False)
measure("Index.add", lambda: index.index(tokenize(texts), show_progress=False))
def ask():
    for text in new[:50]:
        index.retrieve(tokenize([text]), k=10, show_progress=False)
measure("Index.search, 50 queries", ask)
""",
    ),
}


def main() -> None:
    parser = parser_for(__doc__)
    parser.add_argument("--tasks", nargs="+", choices=OURS, default=list(OURS))
    parser.add_argument("--largest", type=int, default=SIZES[-1], help="number of texts")
    parser.add_argument("--peers", type=Path, help="folder with packages to compare with")
    parser.add_argument("--processes", type=int, default=1, help="groups measured side by side")
    given = parser.parse_args()

    with tempfile.TemporaryDirectory(prefix="growth-") as name:
        n_sentences = write_sentences(given.data, Path(name))
        largest = min(given.largest, n_sentences)
        jobs = [("pacsent", *OURS[group], None) for group in given.tasks]
        for program, (group, limit, code) in PEERS.items():
            if group in given.tasks:
                jobs.append((program, limit, code, given.peers))

        def work(job: tuple[str, int, str, Path | None]) -> list[dict]:
            program, limit, code, peers = job
            return measured(program, code, Path(name), min(limit, largest), peers)

        with ThreadPool(given.processes) as pool:
            rows = [row for found in pool.map(work, jobs, chunksize=1) for row in found]

    slopes = slopes_of(rows)
    for row in rows:
        row["slope"] = slopes[row["task"], row["program"]]
    steep = [task for (task, program), slope in slopes.items() if program == "pacsent" and slope]
    summary = {task: slopes[task, "pacsent"] for task in steep}
    title = "CPU seconds and MB by the number of texts"
    finish("growth", rows, summary=summary, title=title, save=given.save, name=given.name)


def write_sentences(data: Path, folder: Path) -> int:
    """Write sentences.txt, its labels.npy, and others as new.txt; the number of the first."""
    dataset = benchmark_datasets.load("imdb", data, verify=False)
    label_of: dict[str, int] = {}
    reviews = [*dataset.train_texts, *dataset.test_texts]
    labels_of_reviews = [*dataset.train_labels.tolist(), *dataset.test_labels.tolist()]
    for review, label in zip(reviews, labels_of_reviews):
        for sentence in re.split(r"(?<=[.!?])\s+|<br />", review):
            words = " ".join(sentence.split())
            if len(words) >= 20:
                label_of.setdefault(words, label)

    order = np.random.default_rng(0).permutation(len(label_of)).tolist()
    sentences = list(label_of)
    labels = list(label_of.values())
    n_new = min(N_NEW, len(order) // 2)
    write_lines(folder / "new.txt", [sentences[i] for i in order[:n_new]])
    write_lines(folder / "sentences.txt", [sentences[i] for i in order[n_new:]])
    np.save(folder / "labels.npy", np.array([labels[i] for i in order[n_new:]]))
    return len(order) - n_new


def write_lines(path: Path, lines: list[str]) -> None:
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def measured(
    program: str, code: str, folder: Path, largest: int, peers: Path | None
) -> list[dict[str, object]]:
    """The rows of one group of tasks, for each size up to the largest."""
    own = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    paths = [Path(__file__).parents[1] / "src", *([peers] if peers else [])]
    own |= {"PYTHONPATH": os.pathsep.join(str(path.resolve()) for path in paths)}
    own |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    rows = []
    for n in sizes_up_to(largest):
        start = START.format(n=n, folder=str(folder))
        command = [sys.executable, "-W", "ignore", "-c", start + code]
        done = subprocess.run(command, env=own, cwd=folder, capture_output=True, text=True)
        if done.returncode:
            last = done.stderr.strip().splitlines()[-1:]
            print(f"{program}, {n:,} texts: {' '.join(last)}", file=sys.stderr)
            return rows
        for line in done.stdout.splitlines():
            row = {"program": program, **json.loads(line)}
            row |= {"seconds": round(row["seconds"], 3), "memory": round(row["memory"])}
            print(json.dumps(row), file=sys.stderr)
            rows.append(row)
    return rows


def sizes_up_to(largest: int) -> list[int]:
    """The sizes below a number; that number itself where all are larger, as on tiny data."""
    return [n for n in SIZES if n <= largest] or [largest]


def slopes_of(rows: list[dict]) -> dict[tuple[str, str], float | None]:
    """For each task and program the slope of log(seconds) by log(n), None where times are short."""
    points: dict[tuple[str, str], list[tuple[float, float]]] = {}
    for row in rows:
        found = points.setdefault((row["task"], row["program"]), [])
        if row["seconds"] >= LEAST_SECONDS:
            found.append((math.log(row["n"]), math.log(row["seconds"])))
    return {
        key: round(float(np.polyfit(*zip(*found), 1)[0]), 2) if len(found) >= 2 else None
        for key, found in points.items()
    }


if __name__ == "__main__":
    main()
