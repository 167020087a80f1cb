"""Whether the paper's table still takes two hours: slow rows timed anew beside their result files.

    python benchmarks/table_time.py [--data FOLDER] [--save]

The last complete run left the wall time of every cell in results/reproduce. Here each slow row's
vectors of SUBJ (one split, lam 1) are made again on two cores, and their wall time compared with
what they took then, divided by the number of times they were made. The estimate for the whole is
every cell's time then, those of slow rows times the ratio of their method. A cell that was made on
another machine counts as its row on IMDb, by the share that w-PB-neg takes on the one and the other
dataset. Nothing else may run meanwhile.
"""

import json
import time

from harness import RESULTS, finish, parser_for
from pacsent import datasets, formats
from pacsent.bench import evaluation, rows
from pacsent.bench.rows import PAPER_DATASETS, ROWS

SLOW = ("PB-neg", "w-PB-neg", "PB-01", "PV-DBOW")
N_SEEDS = 3
N_CORES = 2


def stored():
    """Every result of the table, by row and dataset."""
    found = {}
    for path in (RESULTS / "reproduce").glob("*/*.json"):
        result = json.loads(path.read_text())
        if result.get("kind") == "classification":
            found[result["row"], result["dataset"]] = result
    return found


def then(result) -> float:
    """Seconds that making SUBJ's vectors once took."""
    spent = result["seconds"]["fit"] + result["seconds"]["encode"]
    return spent / (N_SEEDS * max(1, len(ROWS[result["row"]].lams)))


def now(name, source) -> float:
    row = ROWS[name]
    small = [source.train.take(range(50)), source.test.take(range(50))]
    some = rows.Texts(source.words, [], [], *small, n_jobs=N_CORES)
    rows.features(row, some, 1.0 if row.lams else None)  # compiled, and caches filled
    started = time.perf_counter()
    rows.features(row, source, 1.0 if row.lams else None)
    return time.perf_counter() - started


def estimate(before, ratios) -> dict:
    """Minutes of the whole table, by the cells' times then and the ratios of the slow rows."""
    here = {key: r["provenance"]["wall_seconds"] for key, r in before.items()
            if r["provenance"].get("device", "cpu") == "cpu"}  # fmt: skip
    table = [key for key in before if key[1] in PAPER_DATASETS]
    elsewhere = [key for key in table if key not in here]
    seconds = dict(here)
    for row, where in elsewhere:
        size = here["w-PB-neg", where] / here["w-PB-neg", "imdb"]
        seconds[row, where] = here[row, "imdb"] * size
    now = sum(seconds[key] * ratios.get(ROWS[key[0]].method.removeprefix("i-"), 1.0)
              for key in table)  # fmt: skip
    return {
        "ratio": None,
        "minutes then, of the cells made on two cores": sum(here[k] for k in table if k in here)
        / 60,
        "minutes then, estimate for all cells": sum(seconds[key] for key in table) / 60,
        "minutes now, estimate for all cells": now / 60,
        "cells made elsewhere": ", ".join(" on ".join(pair) for pair in elsewhere),
    }


def main():
    options = parser_for(__doc__, name="two-cores").parse_args()
    words = formats.read(options.data / "vectors")
    dataset = datasets.load("subj", options.data)
    source, _, _ = evaluation.Prepared(dataset, words, n_jobs=N_CORES).part(0)
    before = stored()
    lines = []
    for name in SLOW:
        took, takes = then(before[name, "subj"]), now(name, source)
        lines.append({"row": name, "seconds then": took, "now": takes,
                      "ratio": takes / took})  # fmt: skip
    summary = estimate(before, {line["row"]: line["ratio"] for line in lines})
    finish(
        "table_time",
        lines,
        summary=summary,
        title="The paper's table on two cores: slow rows timed anew, and an estimate of the whole",
        save=options.save,
        name=options.name,
    )  # fmt: skip


if __name__ == "__main__":
    main()
