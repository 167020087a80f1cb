"""What an older checkout took and what this one takes, turn by turn in one run.

    git worktree add --detach ../before 6fdc1a0
    python benchmarks/before_after.py --before ../before [--data FOLDER] [--rounds 2] [--save]

Both trees do the same jobs through the same public names, with all cores: train Skip-gram on the
first two million words of enwik8 (300 numbers, one epoch, the vocabulary counted too), encode
10,000 texts of IMDb by averages, solve PB-neg of 3,000 documents of 20news, and w-PB-neg of 5,000
texts of IMDb. A tree runs a job once to compile, then `--repeat` times; the best
of all rounds counts. Nothing else should run meanwhile. Without --before this tree is measured
alone. Features of the processor are hidden from both trees as benchmarks/train.py says, for example
with NUMBA_CPU_NAME=generic NUMBA_CPU_FEATURES=+neon on ARM.
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from harness import finish, hidden, parser_for, wikipedia

JOBS = {  # what a child runs: `few` to compile, `all` to measure, and how many units that is
    "train, words/s": """
from pacsent import SkipGram
lines = open(given["text"]).read().split(None, 2_000_000)[:2_000_000]
lines = [" ".join(lines[i : i + 1000]) for i in range(0, len(lines), 1000)]
how = {"n_dims": 300, "window": 5, "subsample": 1e-4, "n_negatives": 15, "n_epochs": 1}
few = lambda: SkipGram(**how, random_state=0).fit(lines[:100])
all_ = lambda: SkipGram(**how, random_state=0).fit(lines)
units = 2_000_000
""",
    "encode, MB/s": """
texts = datasets.load("imdb", given["data"]).test_texts[:10_000]
encoder = make("Average", words).fit(texts[:100])
few, all_ = (lambda: encoder.transform(texts[:100])), (lambda: encoder.transform(texts))
units = sum(len(text.encode()) for text in texts) / 1e6
""",
    "PB-neg, documents/s": """
data = datasets.load("20news", given["data"])
solver = make("PB-neg", words, random_state=0).fit(data.train_texts)
texts = data.test_texts[:3000]
few, all_ = (lambda: solver.transform(texts[:100])), (lambda: solver.transform(texts))
units = len(texts)
""",
    "w-PB-neg, texts/s": """
texts = datasets.load("imdb", given["data"]).train_texts[::5]
few = lambda: make("w-PB-neg", words, random_state=0).fit(texts[:100])
all_ = lambda: make("w-PB-neg", words, random_state=0).fit(texts)
units = len(texts)
""",
}
_CHILD = """
import json, os, sys, time, warnings
warnings.simplefilter("ignore")
given = json.loads(sys.argv[1])
from pacsent import make
from pacsent.bench import datasets
if os.environ.get("PACSENT_TINY"):
    sys.path.insert(0, given["benchmarks"])
    import tiny
    tiny.install()
from pacsent.words import formats
words = formats.read(given["data"] + "/vectors") if given["words"] else None
exec(given["job"])
few()
times = []
for _ in range(given["repeat"]):
    start = time.perf_counter()
    all_()
    times.append(time.perf_counter() - start)
print(json.dumps(units / min(times)))
"""


def rate(tree: Path, job: str, given: dict) -> float:
    """Units a second of one job in one tree."""
    told = {**given, "job": JOBS[job], "words": not job.startswith("train")}
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
    parser.add_argument("--rounds", type=int, default=2, help="turns of each tree")
    parser.add_argument("--repeat", type=int, default=2, help="times a job is done in a turn")
    given = parser.parse_args()
    trees = {"before": given.before, "after": Path(__file__).parents[1]}
    trees = {name: tree.resolve() for name, tree in trees.items() if tree is not None}
    best: dict = {job: dict.fromkeys(trees, 0.0) for job in JOBS}
    with tempfile.TemporaryDirectory() as folder:
        text = wikipedia(given.data, Path(folder))
        here = str(Path(__file__).parent)
        told = {
            "data": str(given.data), "text": str(text), "repeat": given.repeat, "benchmarks": here,
        }  # fmt: skip
        for _ in range(given.rounds):
            for job, found in best.items():
                for name, tree in trees.items():
                    found[name] = max(found[name], rate(tree, job, told))
    rows = [
        {"job": job, **found, "ratio": found["after"] / found.get("before", found["after"])}
        for job, found in best.items()
    ]
    title = "The same jobs before and after, turn by turn on all cores"
    smallest = min(row["ratio"] for row in rows)
    summary = {"smallest ratio": smallest, "hidden": hidden()}
    finish("before_after", rows, summary=summary, title=title, save=given.save, name=given.name)


if __name__ == "__main__":
    main()
