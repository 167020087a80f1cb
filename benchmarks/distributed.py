"""Skip-gram on 1, 2, 4 and 8 workers: quality, and the bytes that each schedule costs.

    python benchmarks/distributed.py [--data FOLDER] [--save] [--name NAME] [--megabytes N]

The workers are threads of one process that make the same updates as machines would: each trains its
shard on its own tables, and rows meet as the schedule says. enwik8, cleaned as the paper does;
WordSim-353, SimLex-999 and Google's analogies with the input table. One worker is trained with
three seeds, which shows what chance does. Bytes are those that a worker hands to the sum over
all; a ring sends each of them at most twice. At this rate, a GPU that trains 200 M
words/s needs 0.2 GB/s of network for each byte, and twice that in a ring. Configurations run side
by side, as many as there are cores for their workers; `--seconds` ends those that take longer.
`--figure FILE` draws bytes against quality from the saved result.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).parent))

from harness import RESULTS, finish, parser_for, wikipedia
from pacsent import Corpus
from pacsent.scale.distributed_training import Schedule, train_worker
from pacsent.scale.groups import Threads
from pacsent.words.tasks import evaluate_words

TASKS = {"WordSim-353": "WordSim", "SimLex-999": "SimLex", "analogies": "analogies"}


def configurations(quick: bool) -> list[dict]:
    """Workers, numbers of a vector, seed and schedule of every run; the most important first."""

    def one(workers, n_dims=100, seed=0, **schedule):
        return {"workers": workers, "n_dims": n_dims, "seed": seed, "schedule": schedule}

    found = [one(1), one(8), one(4, every=131_072), one(2, every=131_072)]
    if quick:
        return found
    found = [one(1, seed=1), one(1, seed=2), *found, one(1, 300), one(8, 300)]
    found += [one(8, every=32_768), one(8, every=131_072), one(8, warm_up=4), one(8, seed=1)]
    found += [one(8, every=1 << 21, warm_up=4), one(4, 300), one(2, 300)]
    found += [one(8, seed=2), one(4, seed=1), one(2, seed=1), one(8, 300, every=32_768)]
    return found


def train(corpus_dir: str, data: Path, settings: dict, what: dict) -> dict:
    """One configuration; its scores and bytes."""
    corpus = Corpus.open(corpus_dir)
    schedule = Schedule(**what["schedule"])
    start = time.perf_counter()
    results = Threads.run(
        what["workers"],
        lambda group: train_worker(
            corpus,
            group,
            schedule=schedule,
            random_state=what["seed"],
            n_dims=what["n_dims"],
            **settings,
        ),
    )
    words, report = results[0]
    row = {
        "workers": what["workers"], "n_dims": what["n_dims"], "seed": what["seed"],
        **vars(schedule),
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


CORES = {1: 1, 2: 2, 4: 3, 8: 4}  # that workers who wait for each other keep busy


def side_by_side(tasks: list[dict], start, n_cores: int, seconds: float) -> list[dict]:
    """The rows that the processes start(task) print, as many at a time as there are cores for.

    What has not ended after `seconds` is ended and left out.
    """
    rows: list = [None] * len(tasks)
    until = time.monotonic() + seconds
    waiting = list(enumerate(tasks))
    running: dict = {}
    while (waiting or running) and time.monotonic() < until:
        used = sum(CORES[task["workers"]] for task, _ in running.values())
        if waiting and (not running or used + CORES[waiting[0][1]["workers"]] <= n_cores):
            number, task = waiting.pop(0)
            running[number] = task, start(task)
            continue
        for number, (_, process) in list(running.items()):
            if process.poll() is not None:
                del running[number]
                if process.returncode:
                    print(f"failed: {tasks[number]}", file=sys.stderr, flush=True)
                    continue
                rows[number] = json.loads(process.stdout.read().splitlines()[-1])
                print(json.dumps(rows[number]), file=sys.stderr, flush=True)
        time.sleep(0.1)
    for _, process in running.values():
        process.kill()
    return [row for row in rows if row is not None]


SHOWN = {8: "o", 4: "s", 2: "^"}


def figure(path: Path, name: str) -> None:
    """Bytes against quality; the band is one point around the mean of one worker's seeds."""
    import matplotlib

    matplotlib.use("svg")
    import matplotlib.pyplot as plt

    rows = json.loads((RESULTS / "distributed" / f"{name}.json").read_text())["rows"]
    shown, axes = plt.subplots(1, 3, figsize=(9, 3.6), layout="constrained")
    rows = [row for row in rows if row["n_dims"] == 100]
    for axis, task in zip(axes, TASKS.values()):
        alone = [row[task] for row in rows if row["workers"] == 1]
        mean = sum(alone) / len(alone)
        axis.axhspan(mean - 1, mean + 1, alpha=0.15, label="one worker, ±1")
        for workers, marker in SHOWN.items():
            many = [row for row in rows if row["workers"] == workers
                    and row.get("deal", "in turn") == "in turn"]  # fmt: skip
            axis.scatter([row["MB a worker and epoch"] for row in many],
                         [row[task] for row in many], marker=marker,
                         label=f"{workers} workers")  # fmt: skip
        axis.set(xscale="log", xlabel="MB a worker and epoch", title=task)
        axis.minorticks_off()
        axis.set_xticks(ticks := [250, 500, 1000, 2000], [f"{tick:,}" for tick in ticks])
    shown.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
    shown.savefig(path, metadata={"Date": None})


def add_differences(rows: list[dict]) -> dict:
    """Into each row, how far it is from one worker, the mean of the seeds; these means."""
    means = {}
    for n_dims in sorted({row["n_dims"] for row in rows}):
        these = [row for row in rows if row["n_dims"] == n_dims]
        alone = [row for row in these if row["workers"] == 1]
        for name in TASKS.values() if alone else ():
            base = sum(row[name] for row in alone) / len(alone)
            means[f"{name}, one worker, {n_dims} numbers"] = round(base, 2)
            for row in these:
                row[f"{name} difference"] = round(row[name] - base, 2)
    return means


def main():
    parser = parser_for(__doc__, name="enwik8")
    parser.add_argument("--megabytes", type=float, help="of the cleaned text; default: all")
    parser.add_argument("--n-epochs", type=int, default=5)
    parser.add_argument("--cores", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument(
        "--seconds", type=float, default=1e9, help="for all; what has not ended then is left out"
    )
    parser.add_argument("--quick", action="store_true", help="few configurations")
    parser.add_argument("--workers", type=int, nargs="+", help="only these numbers of workers")
    parser.add_argument("--figure", type=Path, help="only draw, from the saved result")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    given = parser.parse_args()
    settings = {"n_epochs": given.n_epochs}
    if given.figure:
        figure(given.figure, given.name)
        return
    if given.one:
        corpus_dir, what = json.loads(given.one)
        print(json.dumps(train(corpus_dir, given.data, settings, what)))
        return
    begun = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        text = wikipedia(given.data, Path(folder))
        if given.megabytes:
            with text.open("r+b") as file:
                file.truncate(int(given.megabytes * 1e6))
        corpus = Corpus.build(text, Path(folder) / "corpus")
        small = Corpus.build(["a b c d e f g"] * 2000, Path(folder) / "small")
        train_worker(small, n_epochs=1, n_dims=16)  # compiled once for all processes

        def start(what):
            task = json.dumps([str(corpus.directory), what])
            command = [sys.executable, __file__, "--data", str(given.data), "--n-epochs",
                       str(given.n_epochs), "--one", task]  # fmt: skip
            return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)

        todo = [what for what in configurations(given.quick)
                if not given.workers or what["workers"] in given.workers]  # fmt: skip
        left = given.seconds - (time.monotonic() - begun)
        rows = side_by_side(todo, start, given.cores, left)
    summary = {"tokens": corpus.n_tokens, "words": len(corpus.vocabulary), **settings}
    summary |= add_differences(rows)
    title = "Skip-gram on several workers: quality and bytes, enwik8"
    finish("distributed", rows, summary=summary, title=title, save=given.save, name=given.name)


if __name__ == "__main__":
    main()
