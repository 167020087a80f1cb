"""Two choices of the protocol that Nozawa and Sato leave open: the split of SUBJ, and the markup.

    python benchmarks/protocol.py [--part split|markup] [--vectors FOLDER] [--save]

SUBJ has no test part: each seed has its own random split, or one split serves all seeds. The texts
are cleaned by the last stage of wikifil.pl, or by all of it, which removes "<br />" from reviews.
"""

from pathlib import Path

from harness import finish, parser_for
from pacsent.paper import benchmark_datasets as datasets
from pacsent.paper import evaluation
from pacsent.paper.evaluation import Prepared, Protocol
from pacsent.paper.method_rows import ROWS

SPLIT_ROWS = ("Average-0", "Average-1", "IDF-Average-0", "i-Average-0")
MARKUP_ROWS = ("Average-0", "IDF-Average-0")
SEEDS = (0, 1, 2)
CS = (1.0, 10.0, 100.0)


def scored(name, prepared, choice, seeds, **protocol):
    """One row of the table."""
    found = evaluation.run_row(ROWS[name], prepared, Protocol(seeds=seeds, Cs=CS, **protocol))
    row = {
        "dataset": found.dataset,
        "method": found.label,
        "choice": choice,
        "accuracy": found.accuracy,
        "sd": found.sd,
        "paper": found.paper,
    }
    print(row, flush=True)
    return row


def splits(folder, data):
    """SUBJ with a split for each seed, and with one split."""
    prepared = Prepared(datasets.load("subj", data), datasets.load_word_vectors(folder))
    rows = []
    for name in SPLIT_ROWS:
        rows.append(scored(name, prepared, "a split for each seed", SEEDS))
        rows.append(scored(name, prepared, "one split", SEEDS, one_split=True))
    return rows


def markup(folder, data):
    """IMDb with and without its tags, one seed: the data set has its own split."""
    dataset = datasets.load("imdb", data)
    rows = []
    for normalize in ("paper", "wikifil"):
        prepared = Prepared(dataset, datasets.load_word_vectors(folder, normalize))
        rows += [scored(name, prepared, f"{normalize}", (0,)) for name in MARKUP_ROWS]
    return rows


PARTS = {"split": splits, "markup": markup}

if __name__ == "__main__":
    parser = parser_for(__doc__)
    parser.add_argument("--vectors", type=Path, help="default: DATA/vectors")
    parser.add_argument("--part", choices=list(PARTS), help="default: both, one file for each")
    given = parser.parse_args()

    for part in [given.part] if given.part else list(PARTS):
        rows = PARTS[part](given.vectors or given.data / "vectors", given.data)
        summary = {"part": part, "n_rows": len(rows)}
        finish("protocol", rows, summary=summary, save=given.save, name=part)
