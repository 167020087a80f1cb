"""Which sentence vectors help TextClassifier: posteriors, distilled vectors, or both.

    python benchmarks/vectors_in_classifier.py [--sets trec ...] [--draws 8] [--save]

The dense part of TextClassifier is, by default, Average of Skip-gram vectors beside vectors
distilled from transformers. Here it is another method beside the distilled vectors, one of the two
alone, or nothing. Few labels, all classifiers on the same draws; differences to the default in
points of test accuracy, with the standard error of the mean difference over draws. FOLDER holds
datasets/ and books/ (default: PACSENT_DATA); banking comes with pacsent.
"""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import warnings

import numpy as np

import classify
from harness import finish, parser_for
from pacsent import TextClassifier, make_encoder
from pacsent import load as open_model
from pacsent.datasets import load_banking

# Sets and their numbers of labels; banking has its twelve largest intents.
N_LABELS = {"banking": 500, "books": 300, "subj": 100, "mr": 100, "trec": 100}
N_TEST = 2000


def encoders() -> dict[str, dict]:
    """The arguments of TextClassifier for each row; the first is the default."""
    words = open_model("english")
    return {
        "Average + distilled (default)": {"encoder": words},
        "PB-L2 + distilled": {"encoder": words, "method": "PB-L2"},
        "PB-neg + distilled": {"encoder": words, "method": "PB-neg"},
        "w-PB-neg + distilled": {"encoder": words, "method": "w-PB-neg"},
        "distilled alone": {"encoder": words.sentences},
        "Average alone": {"encoder": make_encoder("Average", words, on_empty="ignore")},
    }


def split(name: str, data, seed: int) -> tuple:
    """Training texts, labels, test texts, labels."""
    if name != "banking":
        return classify.load(name, data, seed)
    texts, intents = load_banking(n_classes=12)
    labels = np.unique(intents, return_inverse=True)[1]
    order = np.random.default_rng(seed).permutation(len(texts))
    train, test = order[:500], order[500:]
    take = np.array(texts, dtype=object)
    return take[train].tolist(), labels[train], take[test].tolist(), labels[test]


def measure(name: str, data, n_draws: int) -> list[dict]:
    accuracies: dict[str, list[float]] = {}
    for seed in range(n_draws):
        texts, y, test_texts, test_y = split(name, data, seed)
        n = N_LABELS[name]
        rows = np.arange(n) if name == "banking" else classify.draw(y, n, seed)
        chosen = [texts[i] for i in rows]
        test = np.random.default_rng(seed).permutation(len(test_texts))[:N_TEST]
        shown = [test_texts[i] for i in test]
        for row, arguments in encoders().items():
            classifier = TextClassifier(n_jobs=1, **arguments).fit(chosen, y[rows])
            right = classifier.predict(shown) == test_y[test]
            accuracies.setdefault(row, []).append(float(np.mean(right)))
    default = np.array(next(iter(accuracies.values())))
    table = []
    for row, values in accuracies.items():
        difference = 100 * (np.array(values) - default)
        error = float(difference.std(ddof=1) / np.sqrt(n_draws)) if n_draws > 1 else None
        table.append(
            {
                "set": name,
                "labels": N_LABELS[name],
                "dense part": row,
                "draws": n_draws,
                "accuracy": round(float(np.mean(values)), 4),
                "difference in points": round(float(difference.mean()), 2),
                "standard error": None if error is None else round(error, 2),
            }
        )
        print(table[-1], flush=True)
    return table


if __name__ == "__main__":
    parser = parser_for(__doc__)
    parser.add_argument("--sets", nargs="+", default=list(N_LABELS), choices=list(N_LABELS))
    parser.add_argument("--draws", type=int, default=8)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    table = [row for name in options.sets for row in measure(name, options.data, options.draws)]
    finish(
        "vectors_in_classifier",
        table,
        summary={f"{row['set']}, {row['dense part']}": row["accuracy"] for row in table},
        title="The dense part of TextClassifier, few labels",
        save=options.save,
        name=options.name,
    )
