"""Skip-gram on 1, 2, 4 and 8 workers: quality, and the bytes that each schedule costs.

    python benchmarks/distributed.py [--data FOLDER] [--save] [--name NAME] [--megabytes N]

The workers are threads of one process that make the same updates as machines would: each trains its
shard on its own tables, and rows meet as the schedule says. enwik8, cleaned as the paper does;
WordSim-353, SimLex-999 and Google's analogies with the input table. One worker is trained with
three seeds, which shows what chance does. Bytes are those that a worker hands to the sum over
all; a ring sends each of them at most twice. At so many bytes a word, a GPU that trains 200 M
words/s needs 0.2 GB/s of network for each byte, and twice that in a ring. Configurations run side
by side, as many as there are
cores for their workers. `--figure FILE` draws bytes against quality from the saved result.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).parent))

from harness import RESULTS, finish, parser_for, wikipedia
from pacsent import Corpus
from pacsent.scale.groups import Threads
from pacsent.scale.training import Schedule, train_worker
from pacsent.words.tasks import evaluate_words

TASKS = {"WordSim-353": "WordSim", "SimLex-999": "SimLex", "analogies": "analogies"}


def configurations(quick: bool) -> list[dict]:
    """(workers, seed, schedule) of every run."""

    def one(workers, seed=0, **schedule):
        return {"workers": workers, "seed": seed, "schedule": schedule}

    every_row = {"touches": 0.0, "longest": 1}
    found = [one(1), one(8), one(4), one(2)]
    if quick:
        return [*found, one(8, **every_row, every=16_384)]
    found += [one(1, 1), one(8, 1)]
    for every, longest in ((4_096, 64), (1_024, 256), (65_536, 16)):
        found.append(one(8, every=every, longest=longest))
    for every, longest in ((4_096, 64), (1_024, 256), (16_384, 16)):
        for cap in (1.0, 4.0):
            found.append(one(8, every=every, longest=longest, merge="capped", cap=cap))
    found += [one(8, every=1_024, longest=256, merge="sum")]
    found += [one(8, every=4_096, longest=64, touches=touches) for touches in (32.0, 256.0)]
    found += [one(1, 2), one(4, 1), one(2, 1)]
    found += [one(8, **every_row, every=4_096), one(8, **every_row, every=16_384)]
    found += [one(8, merge="mean"), one(8, every=1_024, longest=256, touches=32.0)]
    return found


def train(corpus_dir: str, data: Path, settings: dict, what: dict) -> dict:
    """One configuration; its scores and bytes."""
    corpus = Corpus.open(corpus_dir)
    schedule = Schedule(**what["schedule"])
    start = time.perf_counter()
    results = Threads.run(
        what["workers"],
        lambda group: train_worker(
            corpus, group, schedule=schedule, random_state=what["seed"], **settings
        ),
    )
    words, report = results[0]
    row = {
        "workers": what["workers"], "seed": what["seed"], **vars(schedule),
        "rounds": report["rounds"],
        "MB a worker and epoch": round(report["bytes"] / 1e6 / settings["n_epochs"], 1),
        "bytes a word": round(report["bytes"] * what["workers"] / settings["n_epochs"]
                              / corpus.n_tokens, 1),
        "loss": round(report["loss"][-1], 4),
    }  # fmt: skip
    for found in evaluate_words(words, data / "words"):
        row[TASKS[found["task"]]] = round(found["input"], 2)
    row["seconds"] = round(time.perf_counter() - start, 1)
    return row


def side_by_side(tasks: list[dict], run, n_cores: int, seconds: float) -> list[dict]:
    """run(task) for all; together they never have more workers than there are cores.

    What has not begun after so many seconds is left out.
    """
    free = [n_cores]
    changed = threading.Condition()
    rows: list = [None] * len(tasks)
    until = time.monotonic() + seconds

    def work(number, task):
        need = min(n_cores, task["workers"])
        with changed:
            changed.wait_for(lambda: free[0] >= need)
            if time.monotonic() > until:
                return
            free[0] -= need
        try:
            rows[number] = run(task)
            print(json.dumps(rows[number]), file=sys.stderr, flush=True)
        finally:
            with changed:
                free[0] += need
                changed.notify_all()

    started = [threading.Thread(target=work, args=pair) for pair in enumerate(tasks)]
    for thread in started:
        thread.start()
        time.sleep(0.02)
    for thread in started:
        thread.join()
    return [row for row in rows if row is not None]


def figure(path: Path, name: str) -> None:
    """Bytes against quality, eight workers; the band is one worker's seeds."""
    import matplotlib

    matplotlib.use("svg")
    import matplotlib.pyplot as plt

    rows = json.loads((RESULTS / "distributed" / f"{name}.json").read_text())["rows"]
    shown, axes = plt.subplots(1, 3, figsize=(9, 3), layout="constrained")
    for axis, task in zip(axes, TASKS.values()):
        alone = [row[task] for row in rows if row["workers"] == 1]
        axis.axhspan(min(alone) - 1, max(alone) + 1, alpha=0.15, label="one worker, ±1")
        many = [row for row in rows if row["workers"] == 8]
        axis.scatter([row["MB a worker and epoch"] for row in many], [row[task] for row in many],
                     label="8 workers")  # fmt: skip
        axis.set(xscale="log", xlabel="MB a worker and epoch", title=task)
    axes[0].legend()
    shown.savefig(path)


def main():
    parser = parser_for(__doc__, name="default")
    parser.add_argument("--megabytes", type=float, help="of the cleaned text; default: all")
    parser.add_argument("--n-dims", type=int, default=300)
    parser.add_argument("--n-epochs", type=int, default=5)
    parser.add_argument("--cores", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument(
        "--seconds", type=float, default=1e9, help="begin no further configuration after so many"
    )
    parser.add_argument("--quick", action="store_true", help="few configurations")
    parser.add_argument("--figure", type=Path, help="only draw, from the saved result")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    given = parser.parse_args()
    settings = {"n_dims": given.n_dims, "n_epochs": given.n_epochs}
    if given.figure:
        figure(given.figure, given.name)
        return
    if given.one:
        corpus_dir, what = json.loads(given.one)
        print(json.dumps(train(corpus_dir, given.data, settings, what)))
        return
    with tempfile.TemporaryDirectory() as folder:
        text = wikipedia(given.data, Path(folder))
        if given.megabytes:
            with text.open("r+b") as file:
                file.truncate(int(given.megabytes * 1e6))
        corpus = Corpus.build(text, Path(folder) / "corpus")
        small = Corpus.build(["a b c d e f g"] * 2000, Path(folder) / "small")
        train_worker(small, n_epochs=1, n_dims=given.n_dims)  # compiled once for all processes

        def run(what):
            command = [sys.executable, __file__, "--data", str(given.data), "--n-dims",
                       str(given.n_dims), "--n-epochs", str(given.n_epochs), "--one",
                       json.dumps([str(corpus.directory), what])]  # fmt: skip
            done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
            return json.loads(done.stdout.splitlines()[-1])

        rows = side_by_side(configurations(given.quick), run, given.cores, given.seconds)
    alone = [row for row in rows if row["workers"] == 1]
    summary = {"tokens": corpus.n_tokens, "words": len(corpus.vocabulary), **settings}
    for name in TASKS.values():
        base = sum(row[name] for row in alone) / len(alone)
        summary[f"{name}, one worker"] = round(base, 2)
        for row in rows:
            row[f"{name} difference"] = round(row[name] - base, 2)
    title = "Skip-gram on several workers: quality and bytes, enwik8"
    finish("distributed", rows, summary=summary, title=title, save=given.save, name=given.name)


if __name__ == "__main__":
    main()
