"""The speed of two versions of pacsent, in interleaved rounds of new processes.

    git worktree add ../before COMMIT
    python scripts/compare_versions.py ../before/src src [--rounds 5] [--jobs fit search]

Every process runs a job once to compile and load, then three times, and reports the smallest CPU
time. The table has the median over the rounds of both versions and of their ratio. The texts are
the messages and passages that come with the package.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

JOBS: dict[str, Callable[[], Callable[[], object]]] = {}
REPEATS = 3


def job(prepare: Callable[[], Callable[[], object]]) -> Callable[[], Callable[[], object]]:
    """Add a function that prepares a job and returns what is timed."""
    JOBS[prepare.__name__] = prepare
    return prepare


def _messages(n: int) -> tuple[list[str], list[str]]:
    from pacsent.datasets import load_banking

    texts, labels = load_banking("train")[:2]
    return list(texts[:n]), list(labels[:n])


def _sentences() -> list[str]:
    from pacsent.datasets import load_books

    return [passage.text for passage in load_books()]


def _words():
    from pacsent import load

    return load("english")


def _trained():
    from pacsent import SkipGram

    return SkipGram(n_dims=50, n_epochs=1, n_jobs=1, random_state=0).fit(_sentences()).word_vectors_


@job
def encode_one_text():
    words = _words()
    return lambda: [words.encode(["a glass of wine on the old table"]) for _ in range(300)]


@job
def encode():
    words = _words()
    texts = _messages(5000)[0] * 4
    return lambda: words.encode(texts)


@job
def fit():
    from pacsent import TextClassifier

    texts, labels = _messages(1500)
    return lambda: TextClassifier("english", n_jobs=1).fit(texts, labels)


@job
def predict():
    from pacsent import TextClassifier

    texts, labels = _messages(5000)
    model = TextClassifier("english", n_jobs=1).fit(texts[:1000], labels[:1000])
    return lambda: model.predict(texts)


@job
def fit_certified():
    from pacsent import CertifiedClassifier, TextClassifier

    texts, labels = _messages(1500)
    classifier = TextClassifier("english", n_jobs=1)
    return lambda: CertifiedClassifier(classifier, random_state=0).fit(texts, labels)


@job
def certify_predictions():
    from pacsent import certify_predictions

    texts, labels = _messages(5000)
    return lambda: certify_predictions(labels, labels, texts=texts, random_state=0)


@job
def search():
    from pacsent import Index

    index = Index("english")
    index.add(_messages(5000)[0])
    queries = _messages(200)[0]
    return lambda: [index.search(query, 5) for query in queries]


@job
def index():
    from pacsent import Index

    texts = _messages(5000)[0]

    def build():
        index = Index("english")
        index.add(texts)
        return index.search(texts[0])

    return build


@job
def skipgram():
    from pacsent import SkipGram

    sentences = _sentences()
    return lambda: SkipGram(n_dims=100, n_epochs=1, n_jobs=1, random_state=0).fit(sentences)


def _posterior(method: str, n: int) -> Callable[[], object]:
    from pacsent import make_encoder

    encoder = make_encoder(method, _trained())
    sentences = _sentences()[:n]
    encoder.fit(sentences)
    return lambda: encoder.transform(sentences)


@job
def pb_neg():
    return _posterior("PB-neg", 2000)


@job
def w_pb_neg():
    return _posterior("w-PB-neg", 2000)


@job
def pb_01():
    return _posterior("PB-01", 500)


def run_job(name: str) -> float:
    """CPU seconds of a job in this process."""
    run = JOBS[name]()
    run()
    seconds = []
    for _ in range(REPEATS):
        start = time.process_time()
        run()
        seconds.append(time.process_time() - start)
    return min(seconds)


def measure(source: Path, name: str) -> float:
    """CPU seconds of a job in a new process, with the version in a folder."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(source), *_SITE])}
    environment |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    command = [sys.executable, __file__, "--job", name]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{name} with {source} failed:\n{done.stderr}")
    return float(done.stdout.split()[-1])


_SITE = [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("before", type=Path, nargs="?")
    parser.add_argument("after", type=Path, nargs="?")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--jobs", nargs="+", choices=list(JOBS), default=list(JOBS))
    parser.add_argument("--job", choices=list(JOBS), help=argparse.SUPPRESS)
    parser.add_argument("--out", type=Path, help="a file for the numbers as JSON")
    given = parser.parse_args()
    if given.job:
        print(run_job(given.job))
        return
    if given.after is None:
        parser.error("name the src folders of two versions")

    rows = []
    for name in given.jobs:
        pairs = [
            (measure(given.before, name), measure(given.after, name)) for _ in range(given.rounds)
        ]
        before, after = zip(*pairs, strict=True)
        ratio = statistics.median(b / a for a, b in pairs)
        row = {
            "job": name,
            "before": statistics.median(before),
            "after": statistics.median(after),
            "ratio": ratio,
        }
        rows.append(row)
        print(f"{name:22} {row['before']:8.3f} {row['after']:8.3f} {ratio:6.3f}", flush=True)
    if given.out:
        given.out.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
