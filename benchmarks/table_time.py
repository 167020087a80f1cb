"""Minutes that the paper's table takes, from the folder of a run; what is missing is estimated.

    pacsent reproduce --data DATA --words DATA/vectors -o OUT --only classification,subj,20news,imdb
    python benchmarks/table_time.py --run OUT [--save]

Every result file says how long its cell took, by the clock. Cells of the table that the run does
not hold are estimated: their time in results/reproduce, which may be of another machine, times how
much longer the same row took in this run than there, on SUBJ. Without --run the cells in
results/reproduce are added up.
"""

import json
from pathlib import Path

from harness import RESULTS, finish, parser_for
from pacsent.bench.method_rows import PAPER_DATASETS, ROWS


def seconds(folder: Path) -> dict:
    """Wall time of every cell of the table in a folder of results, by row and dataset."""
    found = {}
    for path in folder.glob("*/*.json"):
        result = json.loads(path.read_text())
        if result.get("kind") == "classification" and result["dataset"] in PAPER_DATASETS:
            found[result["row"], result["dataset"]] = result["provenance"]["wall_seconds"]
    return found


def estimate(now: dict, then: dict) -> dict:
    """Seconds of the cells that `now` lacks, from `then` and the row's ratio on SUBJ."""
    ratios = {row: now[row, "subj"] / then[row, "subj"] for row, name in now
              if name == "subj" and (row, name) in then}  # fmt: skip
    return {key: spent * ratios[key[0]] for key, spent in then.items()
            if key not in now and key[0] in ratios}  # fmt: skip


def main():
    parser = parser_for(__doc__, name="two-cores")
    parser.add_argument("--run", type=Path, help="folder that `pacsent reproduce` wrote")
    given = parser.parse_args()
    then = seconds(RESULTS / "reproduce")
    now = seconds(given.run / "results") if given.run else then
    missing = estimate(now, then)
    lines = []
    for title, in_paper in (("the paper's rows", True), ("ours beside them", False)):
        own, guessed = (
            {key: spent for key, spent in cells.items() if ROWS[key[0]].in_paper == in_paper}
            for cells in (now, missing)
        )
        for name in PAPER_DATASETS:
            here = [spent for (_, where), spent in own.items() if where == name]
            there = [spent for (_, where), spent in guessed.items() if where == name]
            lines.append({
                "rows": title, "dataset": name, "cells": len(here), "minutes": sum(here) / 60,
                "cells estimated": len(there), "minutes estimated": sum(there) / 60,
            })  # fmt: skip
    paper = [line for line in lines if line["rows"] == "the paper's rows"]
    summary = {
        "ratio": None,
        "minutes, the paper's rows": sum(line["minutes"] for line in paper),
        "cells, the paper's rows": sum(line["cells"] for line in paper),
        "minutes, everything measured": sum(now.values()) / 60,
        "minutes, everything with what is estimated": sum([*now.values(), *missing.values()]) / 60,
        "cells estimated": ", ".join(f"{row} on {name}" for row, name in sorted(missing)),
    }
    finish("table_time", lines, summary=summary, save=given.save, name=given.name,
           title="The paper's table: minutes by the clock")  # fmt: skip


if __name__ == "__main__":
    main()
