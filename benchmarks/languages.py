"""Characters in TextClassifier: English with and without typos, Chinese, German.

    python benchmarks/languages.py [--parts english chinese german] [--labels 20 100 300 1000]
        [--sets subj mr trec 20news imdb] [--draws 5] [--processes 16] [--data FOLDER] [--save]

FOLDER holds datasets/ and languages/ (default: PACSENT_DATA). "words" is
TextClassifier(characters=None), "with characters" the default, "char_wb" scikit-learn's tf-idf of
characters 2 to 5 inside words with a logistic regression, its C by cross-validation. All get the
same labels, as many of each class, and answer the same texts: at most 2,000 of the test part.
`english`: the five sets, with the English model of the package; "typos" are the test texts with
one edit in every word of three letters or more: a letter left out, doubled by another, replaced, or
swapped with the next. Training texts have none.
`chinese`: reviews of a delivery service (waimai_10k), good or bad; 80/20, without word vectors.
`german`: news in nine classes (the test part of 10kGNAD), another 60/40 split for each draw, at
most 300 labels, without word vectors.
± is the standard error of the difference to "words", draw by draw.
"""

import csv
import io
import lzma
import os
import re
import time
import warnings
from functools import cache
from multiprocessing import get_context

import numpy as np
from sklearn.feature_extraction.text import TfidfVectorizer

from classify import draw, load, searched
from harness import finish, parser_for
from pacsent import TextClassifier

ENGLISH = ("subj", "mr", "trec", "20news", "imdb")
N_TEST = 2000


def typos(texts: list[str], seed: int) -> list[str]:
    """The texts with one edit in every word of three letters or more."""
    rng = np.random.default_rng([seed, 5])

    def edited(found):
        word, letter = found[0], chr(97 + int(rng.integers(26)))
        at, kind = int(rng.integers(len(word) - 1)), int(rng.integers(4))
        middle = (word[at + 1] + word[at] + word[at + 2 :], word[at + 1 :], letter + word[at:],
                  letter + word[at + 1 :])[kind]  # fmt: skip
        return word[:at] + middle

    return [re.sub(r"[^\W\d_]{3,}", edited, text) for text in texts]


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


def split(name, data, seed):
    """(train texts, labels, test texts, labels)."""
    if name in ENGLISH:
        return load(name, data, 0)
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


def one(task):
    """Accuracy of every method on one draw, and the seconds that it took to fit."""
    name, n, seed, data = task
    train, labels, test, truth = split(name, data, seed)
    labels, truth = np.asarray(labels), np.asarray(truth)
    rows = draw(labels, n, seed)
    some = np.random.default_rng(3).permutation(len(test))[:N_TEST]
    texts, y = [train[i] for i in rows], labels[rows]
    test, truth = [test[i] for i in some], truth[some]
    words = "english" if name in ENGLISH else None
    found = {}
    for method in ("words", "with characters", "char_wb"):
        start = time.process_time()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if method == "char_wb":
                predict = char_wb(texts, y, seed)
            else:
                options = {"characters": None} if method == "words" else {}
                model = TextClassifier(words, n_jobs=1, **options).fit(texts, y)
                predict = model.predict
            seconds = time.process_time() - start
            found[method] = float(np.mean(predict(test) == truth)), seconds
            if name in ENGLISH:
                found[f"{method}, typos"] = float(np.mean(predict(typos(test, seed)) == truth)), 0.0
    return found | {"share": (model.selection_.get("character_share", 0.0), 0.0)}


def rows_of(given):
    sets = [s for s in given.sets if "english" in given.parts]
    sets += [part for part in given.parts if part != "english"]
    places = [(name, n) for name in sets for n in given.labels if name != "german" or n <= 300]
    tasks = [(*place, seed, given.data) for place in places for seed in range(given.draws)]
    longest_first = sorted(range(len(tasks)), key=lambda i: -tasks[i][1])
    with get_context("spawn").Pool(given.processes) as pool:
        made = pool.map(one, [tasks[i] for i in longest_first], chunksize=1)
    answers = [made[longest_first.index(i)] for i in range(len(tasks))]
    for i, (name, n) in enumerate(places):
        some = answers[i * given.draws : (i + 1) * given.draws]

        def mean(method, what=0, some=some):
            return (
                float(np.mean([each[method][what] for each in some])) if method in some[0] else None
            )

        def error(a, b, some=some):
            differences = [each[a][0] - each[b][0] for each in some if a in each]
            if len(differences) < 2:
                return None
            return float(np.std(differences, ddof=1) / np.sqrt(len(differences)))

        yield {
            "set": name, "labels": n, "draws": given.draws, "words": mean("words"),
            "with characters": mean("with characters"), "±": error("with characters", "words"),
            "char_wb": mean("char_wb"), "typos: words": mean("words, typos"),
            "typos: with characters": mean("with characters, typos"),
            "typos ±": error("with characters, typos", "words, typos"),
            "typos: char_wb": mean("char_wb, typos"),
            "share": mean("share"), "s: words": mean("words", 1),
            "s: with characters": mean("with characters", 1),
        }  # fmt: skip


if __name__ == "__main__":
    parser = parser_for(__doc__, name="accuracy")
    parts = ("english", "chinese", "german")
    parser.add_argument("--parts", nargs="+", choices=parts, default=parts)
    parser.add_argument("--sets", nargs="+", choices=ENGLISH, default=ENGLISH)
    parser.add_argument("--labels", nargs="+", type=int, default=(20, 100, 300, 1000))
    parser.add_argument("--draws", type=int, default=5)
    parser.add_argument("--processes", type=int, default=os.cpu_count())
    given = parser.parse_args()
    rows = list(rows_of(given))
    gain = [row["with characters"] - row["words"] for row in rows]
    typo = [
        row["typos: with characters"] - row["typos: words"] for row in rows if row["typos: words"]
    ]
    summary = {"mean gain": float(np.mean(gain)), "least gain": float(np.min(gain))}
    if typo:
        summary |= {"mean gain, typos": float(np.mean(typo))}
    finish(
        "languages", rows, summary=summary, save=given.save, name=given.name,
        title="Accuracy with n-grams of characters, by the number of labels",
    )  # fmt: skip
