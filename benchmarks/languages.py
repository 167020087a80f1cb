"""Characters in TextClassifier, without word vectors: Chinese and German.

    python benchmarks/languages.py [--sets chinese german] [--labels 20 100 300] [--draws 5]
        [--processes 16] [--data FOLDER] [--save]

FOLDER holds languages/ (default: PACSENT_DATA). "with characters" is TextClassifier's default,
"words" the same model without characters, which answers as TextClassifier(None, characters=None)
does, "char_wb" scikit-learn's tf-idf of characters 2 to 5 inside words with a logistic regression,
its C by cross-validation. All get the same labels, as many of each class, and answer the same
texts: at most 2,000 of the test part.
`chinese`: reviews of a delivery service (waimai_10k), good or bad; 80/20.
`german`: news in nine classes (the test part of 10kGNAD), another 60/40 split for each draw, at
most 300 labels.
± is the standard error of the difference to "words", draw by draw.
"""

import csv
import io
import lzma
import os
import sys
import warnings
from functools import cache, lru_cache
from multiprocessing import get_context

import numpy as np
from sklearn.feature_extraction.text import TfidfVectorizer

from classify import draw, searched, standard_error
from harness import finish, parser_for
from pacsent import TextClassifier
from pacsent.classify.fitting import CharacterShare

SETS = ("chinese", "german")
N_TEST = 2000


@cache
def table(data, name):
    """Labels and texts of a file of languages/."""
    with lzma.open(data / "languages" / f"{name}.csv.xz", "rt", encoding="utf-8") as file:
        raw = file.read()
    german = name.startswith("10kGNAD")
    rows = list(csv.reader(io.StringIO(raw), delimiter=";" if german else ",",
                           quotechar="'" if german else '"'))  # fmt: skip
    rows = [row for row in rows[0 if german else 1 :] if len(row) > 1]
    labels = np.unique([row[0] for row in rows], return_inverse=True)[1]
    return np.array([row[1] for row in rows], object), labels


@lru_cache(1)
def split(name, data, seed):
    """(train texts, labels, test texts, labels)."""
    german = name == "german"
    texts, labels = table(data, "10kGNAD-test" if german else "waimai_10k")
    order = np.random.default_rng([seed if german else 0, 4]).permutation(len(texts))
    n = int(len(texts) * (0.6 if german else 0.8))
    train, test = order[:n], order[n:]
    return texts[train].tolist(), labels[train], texts[test].tolist(), labels[test]


def char_wb(train, y, seed):
    vectorizer = TfidfVectorizer(analyzer="char_wb", ngram_range=(2, 5), sublinear_tf=True)
    model = searched(vectorizer.fit_transform(train), y, seed, None)
    return lambda texts: model.predict(vectorizer.transform(texts))


def evaluate(task):
    """Accuracy of every method on one draw."""
    name, n, seed, data = task
    train, labels, test, truth = split(name, data, seed)
    rows = draw(labels, n, seed)
    texts, y = [train[i] for i in rows], labels[rows]
    asked = np.random.default_rng(3).permutation(len(test))[:N_TEST]
    test, truth = [test[i] for i in asked], truth[asked]
    warnings.simplefilter("ignore")
    model = TextClassifier(None, n_jobs=1).fit(texts, y)
    share = model.character_share_
    scores = {"share": share.least, "usual": share.usual}
    scores["with characters"] = float(np.mean(model.predict(test) == truth))
    model.character_share_ = CharacterShare()
    scores["words"] = float(np.mean(model.predict(test) == truth))
    scores["char_wb"] = float(np.mean(char_wb(texts, y, seed)(test) == truth))
    print(name, n, seed, {k: round(v, 4) for k, v in scores.items()}, file=sys.stderr, flush=True)
    return scores


def main():
    parser = parser_for(__doc__, name="others")
    parser.add_argument("--sets", nargs="+", choices=SETS, default=SETS)
    parser.add_argument("--labels", nargs="+", type=int, default=(20, 100, 300))
    parser.add_argument("--draws", type=int, default=5)
    parser.add_argument("--processes", type=int, default=os.cpu_count())
    options = parser.parse_args()
    places = [
        (name, n) for name in options.sets for n in options.labels if name != "german" or n <= 300
    ]
    tasks = [(*place, seed, options.data) for place in places for seed in range(options.draws)]
    with get_context("spawn").Pool(options.processes) as pool:
        answers = pool.map(evaluate, tasks, chunksize=1)
    rows = []
    for i, (name, n) in enumerate(places):
        draws = answers[i * options.draws : (i + 1) * options.draws]
        means = {key: float(np.mean([scores[key] for scores in draws])) for key in draws[0]}
        gains = np.array([scores["with characters"] - scores["words"] for scores in draws])
        rows.append({"set": name, "labels": n, "draws": len(draws), "±": standard_error(gains)})
        rows[-1] |= means
    gain = [row["with characters"] - row["words"] for row in rows]
    summary = {"mean gain": float(np.mean(gain)), "least gain": float(np.min(gain))}
    title = "Accuracy with n-grams of characters, by the number of labels"
    finish("languages", rows, summary=summary, save=options.save, name=options.name, title=title)


if __name__ == "__main__":
    main()
