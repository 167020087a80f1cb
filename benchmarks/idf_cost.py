"""Does IDF weighting cost less with a larger source corpus? Accuracy with and without it.

    python benchmarks/idf_cost.py [--vectors 3M 6M 12M 477M] [--datasets subj 20news] [--save]

Each folder has word vectors of the reproduction (input*.npy, output*.npy, vocab.tsv), named by the
number of tokens they were trained on. Those of the stored result are Skip-gram with the settings of
Nozawa and Sato (2019) on the first 3, 6 and 12.6 million tokens of enwik8:

    pacsent vectors clean --wiki enwik8 -o enwik8.txt
    cut -d ' ' -f 1-3000000 enwik8.txt > 3M.txt
    pacsent vectors train 3M.txt --device cuda --n-epochs 5 --normalize paper -o 3M
"""

from pathlib import Path

import numpy as np

from harness import finish, parser_for, skip
from pacsent.paper import benchmark_datasets as datasets
from pacsent.paper import evaluation
from pacsent.paper.evaluation import Prepared, Protocol
from pacsent.paper.method_rows import ROWS

# Each averaging method and the same method with IDF weights.
PAIRS = (("Average-0", "IDF-Average-0"), ("i-Average-0", "i-IDF-Average-0"))


def measure(dataset, vectors, seeds, Cs):
    """One row of the table for each pair of methods."""
    words = datasets.load_word_vectors(vectors)
    prepared = Prepared(dataset, words, n_jobs=1)
    protocol = Protocol(seeds=seeds, Cs=Cs, n_jobs=1)

    rows = []
    for plain_name, weighted_name in PAIRS:
        plain = evaluation.run_row(ROWS[plain_name], prepared, protocol)
        weighted = evaluation.run_row(ROWS[weighted_name], prepared, protocol)
        differences = [a["accuracy"] - b["accuracy"] for a, b in zip(plain.scores, weighted.scores)]
        published = ROWS[plain_name].paper, ROWS[weighted_name].paper
        at = evaluation.PAPER_DATASETS.index(dataset.name)
        row = {
            "dataset": dataset.name,
            "vectors": vectors.name,
            "words": words.n_words,
            "coverage": plain.details["coverage"],
            "method": plain.label,
            "accuracy": plain.accuracy,
            "with IDF": weighted.accuracy,
            "cost of IDF": float(np.mean(differences)),
            "standard error": float(np.std(differences) / np.sqrt(len(differences))),
            "cost in the paper": round(published[0][at] - published[1][at], 4),
        }
        print(row, flush=True)
        rows.append(row)
    return rows


def main():
    parser = parser_for(__doc__)
    parser.add_argument("--vectors", type=Path, nargs="+", default=[])
    parser.add_argument("--datasets", nargs="+", default=["subj", "20news"])
    parser.add_argument("--n-seeds", type=int, default=10)
    given = parser.parse_args()
    if not given.vectors:
        skip("idf_cost", "no word vectors: name their folders with --vectors")

    rows = []
    for name in given.datasets:
        dataset = datasets.load(name, given.data)
        seeds = range(3 if dataset.has_fixed_split else given.n_seeds)
        for folder in given.vectors or [given.data / "vectors"]:
            rows += measure(dataset, folder, tuple(seeds), (1.0, 10.0, 100.0))

    finish("idf_cost", rows, summary={"n_rows": len(rows)}, save=given.save, name=given.name)


if __name__ == "__main__":
    main()
