"""Alarms where new texts are of another kind, and none where they are not.

    python benchmarks/classify_alarms.py [--data FOLDER] [--repeats 200] [--save]

`check_exchangeable` on 20news by date (training part against test part), on books (first two books
of each author against the third), and on random halves of the same texts, which must raise the
alarm in at most 5 % of the repeats; a StreamWatcher of a classifier trained on 20news, on its own
random holdout and on the test part.
"""

import warnings

import numpy as np

from classify import load
from harness import finish, parser_for
from pacsent import CertifiedClassifier, TextClassifier
from pacsent.guarantees import StreamWatcher, check_exchangeable


def take(texts, n, seed):
    return [texts[i] for i in np.random.default_rng(seed).permutation(len(texts))[:n]]


def test_rows(data, n_repeats):
    rows = []
    for name, title in (("20news", "20news by date"), ("books, another book", "another book")):
        old, _, new, _ = load(name, data, 0)
        found = check_exchangeable(take(old, 600, 0), take(new, 600, 1), seed=0)
        rows.append({"texts": title, "alarms": int(found.alarm), "of": 1, "p": found.p_value})
        alarms = []
        for seed in range(n_repeats):
            pool = take(old, 200, seed)
            alarms.append(check_exchangeable(pool[:100], pool[100:], seed=seed).alarm)
        rows.append({"texts": f"{name.split(',')[0]}, random halves", "alarms": int(sum(alarms)),
                     "of": n_repeats, "p": None})  # fmt: skip
    return rows


def stream_rows(data):
    texts, labels, new, new_labels = load("20news", data, 0)
    order = np.random.default_rng(0).permutation(len(texts))[:3000]
    fitted, held = np.split(order, [2 * len(order) // 3])
    known, others = np.split(held, [len(held) // 2])
    classifier = TextClassifier(selection="folds", Cs=(36.0,), weighting="tf-idf", ngrams=(1, 1))
    classifier.fit([texts[i] for i in fitted], labels[fitted])
    classifier = CertifiedClassifier(classifier, prefit=True)
    classifier.calibrate([texts[i] for i in known], labels[known], overlap="drop")
    rows = []
    later = np.random.default_rng(1).permutation(len(new))[:2000]
    for title, some, right in (
        ("20news stream, same part", [texts[i] for i in others], labels[others]),
        ("20news stream, by date", [new[i] for i in later], new_labels[later]),
    ):
        watcher = StreamWatcher(classifier, seed=0)
        watcher.update(some, right)
        rows.append({"texts": title, "alarms": int(watcher.alarm), "of": 1, "p": None})
    return rows


def main():
    parser = parser_for(__doc__)
    parser.add_argument("--repeats", type=int, default=200)
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    rows = test_rows(given.data, given.repeats) + stream_rows(given.data)
    false = max(row["alarms"] / row["of"] for row in rows if "random" in row["texts"])
    finish("classify_alarms", rows, title="Alarms raised, and false ones at alpha 0.05",
           summary={"largest share of false alarms": false}, save=given.save,
           name=given.name)  # fmt: skip


if __name__ == "__main__":
    main()
