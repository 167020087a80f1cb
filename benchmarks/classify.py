"""TextClassifier beside its rivals: accuracy with all labels and with few, and speed.

    python benchmarks/classify.py [accuracy|few|speed] [--data FOLDER] [--sets subj ...] [--save]

FOLDER holds datasets/, vectors/ and books/ (default: PACSENT_DATA). All methods get the same
texts; whatever is chosen is chosen on training labels. `accuracy`: all labels; sets without a fixed
test part by three splits 80/20. `few`: 20, 100, 300 and 1,000 labels, as many of each class, three
draws, at most 2,000 test texts. `speed`: fitting with the whole selection against GridSearchCV over
the same candidates, predicting from raw text against a tf-idf pipeline; in seconds of the
processor, because other work may share the machine.
"""

import lzma
import time
import warnings
from pathlib import Path

import numpy as np
from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.multiclass import OneVsRestClassifier
from sklearn.svm import LinearSVC

from harness import finish, parser_for
from pacsent import TextClassifier, datasets, formats, make

CS = (0.3, 3.0, 30.0, 300.0)
FEW = (20, 100, 300, 1000)
N_TEST = 2000


# ---- data ----------------------------------------------------------------------------------------


def load(name, data, seed):
    """(train texts, labels, test texts, labels)."""
    if name.startswith("books"):
        path = Path(data) / "books" / "passages.tsv.xz"
        with lzma.open(path, "rt", encoding="utf-8") as file:
            rows = [line.rstrip("\n").split("\t") for line in file][1:]
        author, book, text = map(np.array, zip(*rows))
        if name == "books, another book":
            last = {a: list(dict.fromkeys(book[author == a]))[-1] for a in np.unique(author)}
            test = np.array([last[a] == b for a, b in zip(author, book)])
        else:
            test = np.zeros(len(text), bool)
            test[np.random.default_rng([seed, 80_20]).permutation(len(text))[: len(text) // 5]] = (
                True
            )
        labels = np.unique(author, return_inverse=True)[1]
        return text[~test].tolist(), labels[~test], text[test].tolist(), labels[test]
    d = datasets.load(name, Path(data) / "datasets").split(seed)
    return d.train_texts, d.train_labels, d.test_texts, d.test_labels


def draw(labels, n, seed):
    """Rows of n labels, the classes as even as they can be."""
    rng = np.random.default_rng([seed, n])
    classes = np.unique(labels)
    share = np.full(classes.size, n // classes.size)
    share[rng.permutation(classes.size)[: n - share.sum()]] += 1
    share = np.maximum(share, 2)
    rows = [rng.permutation(np.flatnonzero(labels == c))[:k] for c, k in zip(classes, share)]
    return rng.permutation(np.concatenate(rows))


# ---- methods -------------------------------------------------------------------------------------


def searched(X, y, model=None):
    """A logistic regression with C by cross-validation."""
    n_folds = int(min(5 if len(y) < 3000 else 3, np.bincount(y)[np.unique(y)].min()))
    model = model or LogisticRegression(solver="liblinear", tol=1e-3, max_iter=300)
    many = np.unique(y).size > 2
    model = OneVsRestClassifier(model) if many else model
    name = "estimator__C" if many else "C"
    if n_folds < 2:
        return model.set_params(**{name: 30.0}).fit(X, y)
    folds = StratifiedKFold(n_folds, shuffle=True, random_state=0)
    return GridSearchCV(model, {name: CS}, cv=folds).fit(X, y)


def tf_idf(train, y, test, words):
    vectorizer = TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True)
    return searched(vectorizer.fit_transform(train), y).predict(vectorizer.transform(test))


def average(train, y, test, words):
    vectorizer = make("Average", words, on_empty="ignore").fit(train)
    X, Z = vectorizer.transform(train), vectorizer.transform(test)
    mean = X.mean(axis=0)
    scale = 1 / np.sqrt(((X - mean) ** 2).sum(axis=1).mean())
    return searched((X - mean) * scale, y).predict((Z - mean) * scale)


def nb_svm(train, y, test, words):
    """Wang and Manning (2012): binary 1-2-grams times log-ratios, C = 1, interpolation 0.25."""
    vectorizer = CountVectorizer(ngram_range=(1, 2), binary=True, token_pattern=r"\S+")
    X, Z = vectorizer.fit_transform(train).astype(float), vectorizer.transform(test).astype(float)
    values = []
    for c in [1] if np.unique(y).size == 2 else np.unique(y):
        p, q = (1 + X[y == c].sum(axis=0).A1, 1 + X[y != c].sum(axis=0).A1)
        r = np.log(p / p.sum()) - np.log(q / q.sum())
        svm = LinearSVC(C=1.0).fit(X.multiply(r).tocsr(), y == c)
        w = svm.coef_[0]
        if np.unique(y).size == 2:  # made for two classes; it harms one against the rest
            w = 0.25 * w + 0.75 * np.abs(w).mean()
        values.append(Z.multiply(r).tocsr() @ w + svm.intercept_[0])
    values = np.stack(values, axis=1)
    return (values[:, 0] > 0).astype(int) if values.shape[1] == 1 else values.argmax(axis=1)


def fasttext(train, y, test, words):
    import tempfile

    import fasttext as library

    clean = [" ".join(text.lower().split()) for text in (*train, *test)]
    with tempfile.NamedTemporaryFile("w", suffix=".txt", encoding="utf-8") as file:
        file.writelines(f"__label__{c} {text}\n" for c, text in zip(y, clean))
        file.flush()
        model = library.train_supervised(
            file.name, wordNgrams=2, epoch=25, lr=0.5, dim=100, bucket=500_000, thread=2, verbose=0
        )
    found, _ = model.predict(clean[len(train) :])
    return np.array([int(one[0].removeprefix("__label__")) for one in found])


def ours(train, y, test, words):
    return TextClassifier(words).fit(train, y).predict(test)


def ngrams_only(train, y, test, words):
    return TextClassifier().fit(train, y).predict(test)


METHODS = {
    "TextClassifier": ours,
    "TextClassifier, no vectors": ngrams_only,
    "tf-idf 1-2-grams": tf_idf,
    "Average": average,
    "NB-SVM": nb_svm,
    "fastText": fasttext,
}


# ---- the three parts -----------------------------------------------------------------------------


def accuracy(name, data, words, methods, n_seeds):
    fixed = name in ("20news", "imdb", "trec", "books, another book")
    rows = []
    for method in methods:
        found, seconds = [], []
        for seed in range(1 if fixed else n_seeds):
            train, y, test, right = load(name, data, seed)
            started = time.process_time()
            found.append(float(np.mean(METHODS[method](train, y, test, words) == right)))
            seconds.append(time.process_time() - started)
        rows.append(
            {
                "method": method, "accuracy": float(np.mean(found)), "runs": len(found),
                "lowest": min(found), "highest": max(found), "CPU seconds": float(np.mean(seconds)),
            }
        )  # fmt: skip
        print(name, rows[-1], flush=True)
    return rows, {row["method"]: round(row["accuracy"], 4) for row in rows}


def few(name, data, words, methods, n_seeds):
    rows = []
    for n in FEW:
        found = {method: [] for method in methods}
        for seed in range(n_seeds):
            train, y, test, right = load(name, data, seed)
            if n > len(train) or n < 2 * np.unique(y).size:
                continue
            picked = draw(y, n, seed)
            shown = np.random.default_rng(seed).permutation(len(test))[:N_TEST]
            texts, labels = [train[i] for i in picked], y[picked]
            tests = [test[i] for i in shown]
            for method in methods:
                answer = METHODS[method](texts, labels, tests, words)
                found[method].append(float(np.mean(answer == right[shown])))
        if not found[methods[0]]:
            continue
        means = {method: float(np.mean(values)) for method, values in found.items()}
        better = max(v for m, v in means.items() if m in ("tf-idf 1-2-grams", "Average"))
        rows.append({"labels": n, **means, "over the better": means["TextClassifier"] - better})
        print(name, rows[-1], flush=True)
    worst = min(row["over the better"] for row in rows)
    return rows, {"smallest lead over the better of tf-idf and Average": worst}


def speed(name, data, words):
    """Seconds of the processor: fit with its selection, and predict from raw text."""
    train, y, test, _ = load(name, data, 0)
    candidates = {"Cs": (1.0, 6.0, 36.0, 216.0), "ngrams": (1, 2), "weighting": "tf-idf"}
    TextClassifier(selection="folds", **candidates).fit(train[::20], y[::20])  # compile
    clock = time.process_time
    start = clock()
    mine = TextClassifier(selection="folds", **candidates).fit(train, y)
    fit_seconds = clock() - start
    start = clock()
    mine.predict(test)
    predict_seconds = clock() - start
    vectorizer = TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True)
    start = clock()
    X = vectorizer.fit_transform(train)
    model = LogisticRegression(solver="liblinear", tol=1e-3, max_iter=300)
    model = OneVsRestClassifier(model) if np.unique(y).size > 2 else model
    key = "estimator__C" if np.unique(y).size > 2 else "C"
    search = GridSearchCV(model, {key: candidates["Cs"]}, cv=5).fit(X, y)
    their_fit = clock() - start
    start = clock()
    search.predict(vectorizer.transform(test))
    their_predict = clock() - start
    n_bytes = sum(len(text.encode()) for text in test)
    rows = [
        {"job": job, "pacsent CPU s": mine_s, "scikit-learn CPU s": their_s}
        for job, mine_s, their_s in (
            ("fit, four C on folds", fit_seconds, their_fit),
            ("predict raw text", predict_seconds, their_predict),
        )
    ]  # fmt: skip
    for row in rows:
        row["ratio"] = row["scikit-learn CPU s"] / row["pacsent CPU s"]
    summary = {
        "fit ratio": rows[0]["ratio"], "predict ratio": rows[1]["ratio"],
        "MB of text a CPU second": n_bytes / 1e6 / predict_seconds,
        "folds tested": mine.selection_["n_tested"], "training texts": len(train),
        "features": len(mine.ngrams_),
    }  # fmt: skip
    return rows, summary


def main():
    parser = parser_for(__doc__, name="")
    parser.add_argument("part", choices=["accuracy", "few", "speed"], nargs="?", default="accuracy")
    parser.add_argument("--sets", nargs="*", default=["subj", "mr", "trec", "20news", "imdb"])
    parser.add_argument("--methods", nargs="*", default=list(METHODS))
    parser.add_argument("--seeds", type=int, default=3)
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    words = None if given.part == "speed" else formats.read(Path(given.data) / "vectors")
    for name in given.sets:
        if given.part == "speed":
            rows, summary = speed(name, given.data, words)
        else:
            part = accuracy if given.part == "accuracy" else few
            rows, summary = part(name, given.data, words, given.methods, given.seeds)
        title = {
            "accuracy": "Test accuracy, all labels",
            "few": "Test accuracy by number of labels",
            "speed": "Fit and predict, seconds of the processor",
        }[given.part]
        name = name.replace(", ", "-").replace(" ", "-")
        finish("classify", rows, title=f"{title}: {name}", summary=summary, save=given.save,
               name="-".join(filter(None, (given.name, given.part, name))))  # fmt: skip


if __name__ == "__main__":
    main()
