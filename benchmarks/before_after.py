"""What an older checkout took and what this one takes, turn by turn in one run.

    git worktree add --detach ../before 52b4d2d
    python benchmarks/before_after.py --before ../before [--data FOLDER] [--rounds 3] [--save]
    python benchmarks/before_after.py --before ../before --invented --name 16-cores

Both trees do the same jobs through the same public names, with all cores unless it is said: train
Skip-gram on two million words of enwik8 (300 numbers, one epoch, the vocabulary counted too),
encode 10,000 texts of IMDb and the sentences of SUBJ by averages (float32), solve PB-neg of 3,000
documents of 20news, of 4,096 sentences of SUBJ and, with a large weight of the data, of 250 texts
of IMDb, w-PB-neg of 5,000 texts of IMDb, PB-01 of 1,024 sentences of SUBJ, two epochs of PV-DBOW
on texts of IMDb, and 5 folds and 20 classes of 20news: 9 penalties on averages.
On invented texts, in words of the English model: a table of 20,000 rows to Parquet, from CSV and
from Parquet, on one core; a TextClassifier fitted on 3,000 texts and its answers to 10,000; the
grid of 9 penalties, 5 folds and 5 classes on 3,000 vectors; and requests of one text to the server,
one after the other, server and client on a core each. With --invented all texts are, so that no
data is needed. A tree runs a job once to compile, then `--repeat` times; the best of all rounds
counts. Nothing else should run meanwhile; where others use the machine too, `--processor-time`
counts the seconds of all threads of the process instead of those on the clock. Without --before
this tree is measured alone. Features of the processor are hidden from both trees as
benchmarks/train.py says, for example with NUMBA_CPU_NAME=generic NUMBA_CPU_FEATURES=+neon on ARM.
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from harness import finish, hidden, parser_for, wikipedia

JOBS = {  # what a child runs: `few` to compile, `all_` to measure, and how many units that is
    "train, words/s": """
from pacsent import SkipGram
lines = (" ".join(invented(10_000)) if given["invented"] else open(given["text"]).read()).split(
    None, 2_000_000)[:2_000_000]
lines = [" ".join(lines[i : i + 1000]) for i in range(0, len(lines), 1000)]
how = {"n_dims": 300, "window": 5, "subsample": 1e-4, "n_negatives": 15, "n_epochs": 1}
few = lambda: SkipGram(**how, random_state=0).fit(lines[:100])
all_ = lambda: SkipGram(**how, random_state=0).fit(lines)
units = 1000 * len(lines)
""",
    "encode, MB/s": """
texts = real("imdb").test_texts[:10_000] if data else invented(10_000)
encoder = make_encoder("Average", words.astype(np.float32)).fit(texts[:100])
few, all_ = (lambda: encoder.transform(texts[:100])), (lambda: encoder.transform(texts))
units = sum(len(text.encode()) for text in texts) / 1e6
""",
    "encode short texts, MB/s": """
texts = real("subj").train_texts if data else [text[:130] for text in invented(10_000)]
encoder = make_encoder("Average", words.astype(np.float32)).fit(texts[:100])
few, all_ = (lambda: encoder.transform(texts[:100])), (lambda: encoder.transform(texts))
units = sum(len(text.encode()) for text in texts) / 1e6
""",
    "PB-neg, documents/s": """
train, texts = invented(3000), invented(3000, seed=1)
if data:
    train, texts = real("20news").train_texts, real("20news").test_texts[:3000]
solver = make_encoder("PB-neg", words, random_state=0).fit(train)
few, all_ = (lambda: solver.transform(texts[:100])), (lambda: solver.transform(texts))
units = len(texts)
""",
    "PB-neg of short texts, texts/s": """
texts = [*real("subj").train_texts, *real("subj").test_texts] if data else [
    text[:130] for text in invented(5000)]
solver = make_encoder("PB-neg", words, random_state=0, on_empty="ignore").fit(texts)
few, all_ = (lambda: solver.transform(texts[:1024])), (lambda: solver.transform(texts[:4096]))
units = len(texts[:4096])
""",
    "PB-neg, lam 8 for each token, texts/s": """
fitted, texts = (real("imdb").train_texts[::5], real("imdb").test_texts[::100]) if data else (
    invented(2000), invented(250, seed=1))
solver = make_encoder("PB-neg", words, lam=8.0, lam_mode="per-token", random_state=0).fit(fitted)
few, all_ = (lambda: solver.transform(texts[:20])), (lambda: solver.transform(texts))
units = len(texts)
""",
    "w-PB-neg, texts/s": """
texts = real("imdb").train_texts[::5] if data else invented(2000)
few = lambda: make_encoder("w-PB-neg", words, random_state=0).fit(texts[:100])
all_ = lambda: make_encoder("w-PB-neg", words, random_state=0).fit(texts)
units = len(texts)
""",
    "PB-01, texts/s": """
texts = [*real("subj").train_texts, *real("subj").test_texts] if data else [
    text[:130] for text in invented(5000)]
solver = make_encoder("PB-01", words, random_state=0, on_empty="ignore").fit(texts[:3000])
few, all_ = (lambda: solver.transform(texts[-100:])), (lambda: solver.transform(texts[-1024:]))
units = len(texts[-1024:])
""",
    "PV-DBOW, texts trained/s": """
texts = real("imdb").train_texts[::25] if data else invented(1000)
few = lambda: make_encoder("PV-DBOW", words, random_state=0, n_epochs=2).fit(texts[:100])
all_ = lambda: make_encoder("PV-DBOW", words, random_state=0, n_epochs=2).fit(texts)
units = len(texts)
""",
    "CSV to Parquet, rows/s": """
csv, texts = folder + "/texts.csv", invented(20_000)
with open(csv, "w") as file:
    file.write("id,text\\n")
    file.writelines(f"{i},{text}\\n" for i, text in enumerate(texts))
few = all_ = lambda: embedded(csv)
units = len(texts)
""",
    "Parquet to Parquet, rows/s": """
import pyarrow as pa, pyarrow.parquet as pq
table, texts = folder + "/texts.parquet", invented(20_000)
pq.write_table(pa.table({"id": range(len(texts)), "text": texts}), table)
few = all_ = lambda: embedded(table)
units = len(texts)
""",
    "classifier, texts fitted/s": """
from pacsent import TextClassifier
texts, labels = labelled(3000)
few = lambda: TextClassifier("english").fit(texts[:400], labels[:400])
all_ = lambda: TextClassifier("english").fit(texts, labels)
units = len(texts)
""",
    "classifier, texts answered/s": """
from pacsent import TextClassifier
classifier = TextClassifier("english").fit(*labelled(1000))
texts = labelled(10_000, seed=1)[0]
few, all_ = (lambda: classifier.predict(texts[:100])), (lambda: classifier.predict(texts))
units = len(texts)
""",
    "logistic grid, problems/s": """
from pacsent.maths.regressions import grid_search
y = np.arange(3000) % 5
X = (rng.normal(size=(3000, 300)) + 0.3 * rng.normal(size=(5, 300))[y]).astype(np.float32)
few = lambda: grid_search(X[:500], y[:500], np.arange(500) // 5 % 5, n_classes=5)
all_ = lambda: grid_search(X, y, np.arange(3000) // 5 % 5, n_classes=5)
units = 9 * 5 * 5
""",
    "logistic grid of documents, problems/s": """
from pacsent.maths.regressions import grid_search
texts, y = labelled(3000)
if data:
    texts, y = real("20news").train_texts, real("20news").train_labels
X = make_encoder("Average", words, on_empty="ignore").fit(texts).transform(texts)
y = np.unique(y, return_inverse=True)[1]
few = lambda: grid_search(X, y, np.arange(y.size) % 5, n_classes=y.max() + 1, Cs=(1.0,))
all_ = lambda: grid_search(X, y, np.arange(y.size) % 5, n_classes=y.max() + 1)
units = 9 * 5 * (y.max() + 1)
""",
    "HTTP, single texts/s": """
import http.client, socket, subprocess
with socket.socket() as free:
    free.bind(("127.0.0.1", 0))
    port = free.getsockname()[1]
cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
if cores:  # server and client wake each other: each keeps its core
    os.sched_setaffinity(0, cores[-1:])
server = subprocess.Popen(
    [sys.executable, "-m", "pacsent", "serve", "english", "--port", str(port)],
    stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
if cores:
    os.sched_setaffinity(0, cores[:1])
atexit.register(server.kill)
for _ in range(600):
    try:
        connection = http.client.HTTPConnection("127.0.0.1", port)
        connection.connect()
        break
    except OSError:
        time.sleep(0.1)
texts = invented(1000)
def ask(texts):
    for text in texts:
        body = json.dumps({"model": "english", "input": text[:200]})
        connection.request("POST", "/v1/embeddings", body, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        assert answer.read() and answer.status == 200
few, all_ = (lambda: ask(texts[:50])), (lambda: ask(texts))
units = len(texts)
""",
}
_CHILD = """
import atexit, json, os, shutil, sys, tempfile, time, warnings
warnings.simplefilter("ignore")
given = json.loads(sys.argv[1])
import numpy as np
from pacsent import Vocabulary, WordVectors, load
try:
    from pacsent import make_encoder
    from pacsent.paper import benchmark_datasets as datasets
except ImportError:  # as at 4870436
    from pacsent import make as make_encoder
    from pacsent.bench import datasets
if os.environ.get("PACSENT_TINY") and not given["invented"]:
    sys.path.insert(0, given["benchmarks"])
    import tiny
    tiny.install()
data, rng, folder = not given["invented"], np.random.default_rng(0), tempfile.mkdtemp()
atexit.register(shutil.rmtree, folder, ignore_errors=True)
def real(name):
    return datasets.load(name, given["data"])
def invented(n, seed=0, shift=0):
    # texts of 200 words of the English model, by Zipf's law
    known, rng = load("english").vocabulary.words, np.random.default_rng(seed)
    ranks = np.minimum(rng.zipf(1.3, (max(1, n // given["less"]), 200)) + shift, len(known) - 1)
    return [" ".join(known[i] for i in row) for row in ranks.tolist()]
def labelled(n, seed=0):
    both = [invented(n // 2, seed, shift) for shift in (0, 20)]
    texts = [text for pair in zip(*both) for text in pair]
    return texts, [("a", "b")[i % 2] for i in range(len(texts))]
def embedded(path):
    from pacsent.scale import embed_shards
    embed_shards("english", [path], tempfile.mkdtemp(dir=folder) + "/out", n_jobs=1)
words = None
if given["words"]:
    words = load("english")
    if data:
        lines = open(given["data"] + "/vectors/vocab.tsv").read().split()
        tables = [np.load(f"{given['data']}/vectors/{n}.f16.npy", "r") for n in ("input", "output")]
        counts = np.array(lines[1::2], dtype=np.int64)
        words = WordVectors(Vocabulary(lines[::2], counts), *tables)
exec(given["job"])
few()
times, clock = [], getattr(time, given["clock"])
for _ in range(given["repeat"]):
    start = clock()
    all_()
    times.append(clock() - start)
print(json.dumps(units / min(times)))
"""


def rate(tree: Path, job: str, given: dict) -> float:
    """Units a second of one job in one tree."""
    words = job.startswith(("encode", "PB-", "PV-", "w-PB-neg,", "logistic grid of documents"))
    told = {**given, "job": JOBS[job], "words": words}
    done = subprocess.run(
        [sys.executable, "-c", _CHILD, json.dumps(told)],
        env={**os.environ, "PYTHONPATH": str(tree / "src")},
        capture_output=True, text=True,
    )  # fmt: skip
    if done.returncode:
        raise SystemExit(f"{job} failed in {tree}: {done.stderr.strip().splitlines()[-1]}")
    found = json.loads(done.stdout.splitlines()[-1])
    print(f"{job} in {tree.name}: {found:,.1f}", file=sys.stderr, flush=True)
    return found


def main():
    parser = parser_for(__doc__, name="two-cores")
    parser.add_argument("--before", type=Path, help="root of the older checkout")
    parser.add_argument("--invented", action="store_true", help="invented texts, no data")
    parser.add_argument("--only", default="", help="jobs whose names contain this")
    parser.add_argument("--rounds", type=int, default=3, help="turns of each tree")
    parser.add_argument("--repeat", type=int, default=2, help="times a job is done in a turn")
    parser.add_argument("--processor-time", action="store_true", help="of all threads")
    given = parser.parse_args()
    trees = {"before": given.before, "after": Path(__file__).parents[1]}
    trees = {name: tree.resolve() for name, tree in trees.items() if tree is not None}
    best: dict = {job: dict.fromkeys(trees, 0.0) for job in JOBS if given.only in job}
    with tempfile.TemporaryDirectory() as folder:
        text = "" if given.invented else wikipedia(given.data, Path(folder))
        told = {
            "data": str(given.data), "text": str(text), "repeat": given.repeat,
            "invented": given.invented, "less": 50 if os.environ.get("PACSENT_TINY") else 1,
            "benchmarks": str(Path(__file__).parent),
            "clock": "process_time" if given.processor_time else "perf_counter",
        }  # fmt: skip
        for _ in range(given.rounds):
            for job, found in best.items():
                for name, tree in trees.items():
                    found[name] = max(found[name], rate(tree, job, told))
    rows = [
        {"job": job, **found, "ratio": found["after"] / found.get("before", found["after"])}
        for job, found in best.items()
    ]
    seconds = ", a second of processor time" if given.processor_time else ""
    title = f"The same jobs before and after, turn by turn on all cores{seconds}"
    smallest = min(row["ratio"] for row in rows)
    summary = {"smallest ratio": smallest, "hidden": hidden()}
    finish("before_after", rows, summary=summary, title=title, save=given.save, name=given.name)


if __name__ == "__main__":
    main()
