"""The paper's table on a GPU: what a finished run of `pacsent reproduce` found, and its time.

    pacsent reproduce --data DATA --words DATA/vectors -o OUT --only paper --device cuda
    python benchmarks/reproduce_gpu.py OUT --gpu "NVIDIA H200" [--save]

Goal: 42 results (14 rows, three datasets, three seeds) in under ten minutes. The same run on two
cores is in docs/benchmarks.md.
"""

import argparse

from harness import finish
from pacsent.bench.reproduction import last_run, read_results
from pacsent.bench.rows import PAPER_DATASETS


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder")
    parser.add_argument("--gpu", required=True, help="Its name, for the table.")
    parser.add_argument("--save", action="store_true")
    options = parser.parse_args()
    run = last_run(options.folder)
    results = read_results(f"{options.folder}/results")
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
        name="paper",
        where={"gpu": options.gpu, "cores": run["n_cores"]},
    )


if __name__ == "__main__":
    main()
