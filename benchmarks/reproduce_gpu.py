"""The paper's table on a GPU: what a finished run of `pacsent reproduce` found, and its time.

    python benchmarks/reproduce_gpu.py [--data FOLDER] [--save] [--name NAME]
    python benchmarks/reproduce_gpu.py --finished OUT --gpu "NVIDIA H200"

The second form takes the folder of a run of `pacsent reproduce --only paper --device cuda`.

Goal: 42 results (14 rows, three datasets, three seeds) in under ten minutes. The same run on two
cores is in docs/benchmarks.md.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

from harness import describe_gpu, finish, need_gpu, parser_for
from pacsent.paper.method_rows import PAPER_DATASETS
from pacsent.paper.reproduction import last_run, read_results


def main():
    parser = parser_for(__doc__, name="paper")
    parser.add_argument("--finished", type=Path, help="folder of a run")
    parser.add_argument("--gpu", help="the name of the GPU that made it")
    options = parser.parse_args()
    if options.finished is None:
        need_gpu("reproduce_gpu")
        with tempfile.TemporaryDirectory() as folder:
            report(reproduced(options.data, Path(folder) / "run"), options)
    elif options.gpu is None:
        parser.error("--finished needs --gpu NAME too")
    else:
        report(options.finished, options)


def reproduced(data, folder):
    """Make the run; its folder."""
    command = ["pacsent", "reproduce", "--data", data, "--words", data / "vectors", "-o", folder]
    command += ["--only", "paper", "--device", "cuda"]
    subprocess.run([sys.executable, "-m", *map(str, command)], check=True)
    return folder


def report(folder, options):
    from pacsent.gpu import require

    gpu = options.gpu or describe_gpu(require("cuda"))["gpu"]
    run = last_run(folder)
    results = read_results(folder / "results")
    found = {(r["row"], r["dataset"]): r for r in results}
    rows = []
    for row in dict.fromkeys(r["row"] for r in results):
        line = {"method": found[row, PAPER_DATASETS[0]]["label"]}
        seconds = 0.0
        for name in PAPER_DATASETS:
            line[name] = f"{found[row, name]['accuracy']:.4f}"
            seconds += found[row, name]["provenance"]["wall_seconds"]
        rows.append({**line, "seconds, all three": round(seconds, 1)})
    finish(
        "reproduce_gpu",
        rows,
        summary={
            "ratio": None,
            "results": run["n_done"],
            "minutes": round(run["seconds"] / 60, 2),
            "goal, minutes": 10,
            "peak memory, GB": round(run["peak_memory_bytes"] / 2**30, 1),
        },
        title="The paper's table on a GPU, three seeds",
        save=options.save,
        name=options.name,
        where={"gpu": gpu, "cores": run["n_cores"]},
    )


if __name__ == "__main__":
    main()
