"""Minutes that the paper's table with our rows takes, from the folder of one run.

    pacsent paper reproduce --data DATA --words WORDS -o OUT --only classification,subj,20news,imdb
    python benchmarks/table_time.py --run OUT [--save]

Every result file says how long its cell took, by the clock, and the run itself how long it took
from its start to its end, if nothing interrupted it. A run that lacks a cell is refused, so that
nothing is estimated. Without --run the cells in results/reproduce are added up, which may have been
made on several machines.
"""

import json
import sys
from pathlib import Path

from harness import RESULTS, finish, parser_for
from pacsent.paper.method_rows import PAPER_DATASETS, ROWS
from pacsent.paper.reproduction import last_run

SLOWEST = 5  # cells that the summary names


def seconds(folder: Path) -> dict:
    """Wall time of every cell of the table in a folder of results, by row and dataset."""
    found = {}
    for path in folder.glob("*/*.json"):
        result = json.loads(path.read_text())
        if result.get("kind") == "classification" and result["dataset"] in PAPER_DATASETS:
            found[result["row"], result["dataset"]] = result["provenance"]["wall_seconds"]
    return found


def main():
    parser = parser_for(__doc__, name="two-cores")
    parser.add_argument("--run", type=Path, help="folder that `pacsent paper reproduce` wrote")
    given = parser.parse_args()
    spent = seconds(given.run / "results" if given.run else RESULTS / "reproduce")
    missing = [f"{row} on {name}" for row in ROWS for name in PAPER_DATASETS
               if (row, name) not in spent]  # fmt: skip
    if given.run and missing:
        sys.exit(
            f"{given.run} lacks {len(missing)} cells of the table ({', '.join(missing[:3])}, …). "
            "Run the command above again with the same -o: it goes on where it stopped."
        )
    run = last_run(given.run) if given.run else None
    in_one_go = run is not None and not run["n_kept"]  # nothing was there before
    lines = []
    for title, in_paper in (("the paper's rows", True), ("ours beside them", False)):
        for name in PAPER_DATASETS:
            own = [
                taken
                for (row, where), taken in spent.items()
                if where == name and ROWS[row].in_paper == in_paper
            ]
            lines.append(
                {"rows": title, "dataset": name, "cells": len(own), "minutes": sum(own) / 60}
            )
    paper = [line for line in lines if line["rows"] == "the paper's rows"]
    slowest = sorted(spent, key=spent.get, reverse=True)[:SLOWEST]
    summary = {
        "ratio": None,
        "cells": len(spent),
        "minutes": sum(spent.values()) / 60,
        "minutes, from start to end": run["seconds"] / 60 if in_one_go else None,
        "cells, the paper's rows": sum(line["cells"] for line in paper),
        "minutes, the paper's rows": sum(line["minutes"] for line in paper),
        "slowest cells, minutes": ", ".join(
            f"{ROWS[row].label} on {name} {spent[row, name] / 60:.1f}" for row, name in slowest
        ),
    }
    finish("table_time", lines, summary=summary, save=given.save, name=given.name,
           title="The paper's table: minutes by the clock")  # fmt: skip


if __name__ == "__main__":
    main()
