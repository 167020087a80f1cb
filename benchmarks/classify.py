"""TextClassifier and its baselines: accuracy with all labels and with few, and speed.

    python benchmarks/classify.py [accuracy|few|tune|constants|speed|model] [--data FOLDER]
        [--sets subj ...] [--methods ...] [--jobs N] [--threads N] [--save]

FOLDER holds datasets/, vectors/ and books/ (default: PACSENT_DATA). All methods get the same texts
and the same vectors: those of FOLDER with all labels, else the English model of the package, which
has seen none of these texts. Whatever is chosen is chosen on training labels; where the test texts
are of other books, folds leave out whole books, for all methods.
`accuracy`: all labels, three seeds: of the split (80/20) where a set has no test part of its own,
and of the folds in which a method chooses. Baselines run once where a set has a test part.
`--seeds` makes more of them, in a file of their own: three splits may be easy or hard ones.
`few`: 20, 100, 300 and 1,000 labels, as many of each class, 20, 10, 5 and 3 draws from the
training part of one split, at most 2,000 test texts; the standard error is that of the differences
draw by draw.
`tune`: the weights of the grid of the Gaussian process with few labels, chosen by draws from the
training part that are scored by other texts of the training part: no test text is used.
`constants`: the other constants of the model (candidates, how many are averaged and with which
weights, n-gram sizes), each with alternatives, scored in the same way.
`speed`: fitting with the whole selection against GridSearchCV over the same candidates, once with
the folds that TextClassifier judges by and once with five, and predicting from raw text against a
tf-idf pipeline; in seconds of the processor, because other work may share the machine. Of many
classes scikit-learn searches three, and its seconds are multiplied.
`model`: size of a saved model, and seconds (best of five) to open it and to answer one text.
Rows of a saved result that this run does not make anew (other methods, other numbers of labels) are
kept with --save.
"""

import json
import lzma
import tempfile
import time
import tracemalloc
import warnings
from contextlib import nullcontext
from functools import cache
from multiprocessing import get_context
from pathlib import Path
from unittest.mock import patch

import numpy as np
from joblib import parallel_config
from scipy.special import softmax
from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, StratifiedGroupKFold, StratifiedKFold
from sklearn.multiclass import OneVsRestClassifier
from sklearn.svm import LinearSVC

from harness import RESULTS, finish, machine, parser_for
from pacsent import TextClassifier, make, save
from pacsent import load as open_model
from pacsent.classify import fitting
from pacsent.maths import gaussian_process
from pacsent.paper import benchmark_datasets as datasets
from pacsent.text.ngrams import fingerprints

CS = (0.3, 3.0, 30.0, 300.0)
DRAWS = {20: 20, 100: 10, 300: 5, 1000: 3}
N_SEEDS = 3
N_TIMED = 3  # classes that scikit-learn is timed on, of many
N_TEST = 2000
N_THREADS = 1  # of scikit-learn's searches
FIXED = ("20news", "imdb", "trec", "books, another book")  # have a test part of their own
SETS = ["subj", "mr", "trec", "20news", "imdb", "books", "books, another book"]


# ---- data ----------------------------------------------------------------------------------------


@cache
def passages(data):
    """Authors, books and texts."""
    with lzma.open(Path(data) / "books" / "passages.tsv.xz", "rt", encoding="utf-8") as file:
        rows = [line.rstrip("\n").split("\t") for line in file][1:]
    return tuple(map(np.array, zip(*rows)))


def groups_of(name, data, texts):
    """The book of each text, where new texts are of other books."""
    if name != "books, another book":
        return None
    _, book, text = passages(data)
    book_of = dict(zip(text, book))
    return np.array([book_of[one] for one in texts])


@cache
def load(name, data, seed):
    """(train texts, labels, test texts, labels)."""
    if name.startswith("books"):
        author, book, text = passages(data)
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


def searched(X, y, seed, groups, model=None):
    """A logistic regression with C by cross-validation, groups left out together."""
    n_folds = int(min(5 if len(y) < 3000 else 3, np.bincount(y)[np.unique(y)].min()))
    one = LogisticRegression(solver="liblinear", tol=1e-3, max_iter=300)
    many = model is None and np.unique(y).size > 2
    model = OneVsRestClassifier(one) if many else model or one
    name = "estimator__C" if many else "C"
    if n_folds < 2:
        return model.set_params(**{name: 30.0}).fit(X, y)
    kind = StratifiedKFold if groups is None else StratifiedGroupKFold
    folds = kind(n_folds if groups is None else 2, shuffle=True, random_state=seed)
    with parallel_config("threading", n_jobs=N_THREADS):  # of scikit-learn; liblinear runs in them
        return GridSearchCV(model, {name: CS}, cv=folds).fit(X, y, groups=groups)


def tf_idf(train, y, test, words, seed, groups=None):
    vectorizer = TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True)
    model = searched(vectorizer.fit_transform(train), y, seed, groups)
    return model.predict(vectorizer.transform(test))


def average(train, y, test, words, seed, groups=None):
    vectorizer = make("Average", words, on_empty="ignore").fit(train)
    X, Z = vectorizer.transform(train), vectorizer.transform(test)
    mean = X.mean(axis=0)
    scale = 1 / np.sqrt(((X - mean) ** 2).sum(axis=1).mean())
    model = searched((X - mean) * scale, y, seed, groups, LogisticRegression(max_iter=1000))
    return model.predict((Z - mean) * scale)


def nb_svm(train, y, test, words, seed, groups=None):
    """Wang and Manning (2012): binary 1-2-grams times log-ratios, C = 1, interpolation 0.25."""
    vectorizer = CountVectorizer(ngram_range=(1, 2), binary=True, token_pattern=r"\S+")
    X, Z = vectorizer.fit_transform(train).astype(float), vectorizer.transform(test).astype(float)
    values = []
    for c in [1] if np.unique(y).size == 2 else np.unique(y):
        p, q = (1 + X[y == c].sum(axis=0).A1, 1 + X[y != c].sum(axis=0).A1)
        r = np.log(p / p.sum()) - np.log(q / q.sum())
        svm = LinearSVC(C=1.0, random_state=seed).fit(X.multiply(r).tocsr(), y == c)
        w = svm.coef_[0]
        if np.unique(y).size == 2:  # made for two classes; it harms one against the rest
            w = 0.25 * w + 0.75 * np.abs(w).mean()
        values.append(Z.multiply(r).tocsr() @ w + svm.intercept_[0])
    values = np.stack(values, axis=1)
    return (values[:, 0] > 0).astype(int) if values.shape[1] == 1 else values.argmax(axis=1)


def fasttext(train, y, test, words, seed, groups=None):
    """Supervised fastText with 2-grams; the rate of learning by a fifth of the training texts."""
    import fasttext as library

    def learn(rows, rate):
        with tempfile.NamedTemporaryFile("w", suffix=".txt", encoding="utf-8") as file:
            file.writelines(f"__label__{y[i]} {clean[i]}\n" for i in rows)
            file.flush()
            return library.train_supervised(
                file.name, wordNgrams=2, epoch=25, lr=rate, dim=100, bucket=500_000, thread=4,
                seed=seed, verbose=0,
            )  # fmt: skip

    def answers(model, texts):
        found, _ = model.predict(texts)
        return np.array([int(one[0].removeprefix("__label__")) for one in found])

    def hits(rate):
        return np.mean(answers(learn(order[n_held:], rate), [clean[i] for i in held]) == y[held])

    clean = [" ".join(text.lower().split()) for text in (*train, *test)]
    order = np.random.default_rng(seed).permutation(len(train))
    n_held = len(train) // 5
    held = order[:n_held]
    best = max((0.1, 0.5, 1.0), key=hits)
    return answers(learn(order, best), clean[len(train) :])


def model2vec(train, y, test, words, seed, groups=None):
    """The classifier head of model2vec over the same table of word vectors, trained end to end."""
    import torch
    from model2vec.train import StaticModelForClassification
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers

    table = np.asarray(words.input_vectors, np.float32)
    known = {word: i for i, word in enumerate(["[UNK]", "[PAD]", *words.vocabulary.words])}
    tokenizer = Tokenizer(models.WordLevel(known, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    rows = torch.from_numpy(np.vstack([np.zeros((2, table.shape[1]), np.float32), table]))
    head = StaticModelForClassification(vectors=rows, tokenizer=tokenizer, n_layers=1)
    head.fit(train, [str(c) for c in y])
    return np.array([int(c) for c in head.predict(test)])


def ours(train, y, test, words, seed, groups=None):
    return (
        TextClassifier(words, n_jobs=1, random_state=seed)
        .fit(train, y, groups=groups)
        .predict(test)
    )


def ngrams_only(train, y, test, words, seed, groups=None):
    return ours(train, y, test, None, seed, groups)


METHODS = {
    "TextClassifier": ours,
    "TextClassifier, no vectors": ngrams_only,
    "tf-idf 1-2-grams": tf_idf,
    "Average": average,
    "NB-SVM": nb_svm,
    "fastText": fasttext,
    "model2vec": model2vec,
}
USUAL = [*METHODS][:5]


# ---- the three parts -----------------------------------------------------------------------------


def score(task):
    """Accuracy of one method on one split or draw."""
    name, data, method, n, seed, words = task
    train, y, test, right = load(name, data, 0 if n or name in FIXED else seed)
    if n:
        picked = draw(y, n, seed)
        shown = np.random.default_rng(0).permutation(len(test))[:N_TEST]
        train, y = [train[i] for i in picked], y[picked]
        test, right = [test[i] for i in shown], right[shown]
    groups = groups_of(name, data, train)
    started = time.perf_counter()
    hits = float(np.mean(METHODS[method](train, y, test, words, seed, groups) == right))
    seconds = time.perf_counter() - started
    print(f"{name}: {method}, {n or 'all'} labels, {seed}: {hits:.4f}, {seconds:.0f} s", flush=True)
    return hits


def in_parallel(work, tasks, n_jobs):
    """Results of all tasks; with processes, what the first one has loaded is shared by all."""
    if n_jobs == 1:
        return [work(task) for task in tasks]
    with get_context("fork").Pool(n_jobs) as pool:
        return pool.map(work, tasks, chunksize=1)


def accuracy(name, given, words):
    tasks = [
        (name, given.data, method, 0, seed, words)
        for method in given.methods
        for seed in range(1 if name in FIXED and "TextClassifier" not in method else given.seeds)
    ]
    scores = given.scores(tasks)
    rows = []
    for method in given.methods:
        found = np.array([one for one, task in zip(scores, tasks) if task[2] == method])
        rows.append(
            {
                "method": method, "accuracy": float(found.mean()), "runs": len(found),
                "lowest": float(found.min()), "highest": float(found.max()),
                **({} if given.seeds == N_SEEDS else {"standard error": standard_error(found)}),
            }
        )  # fmt: skip
    if given.seeds == N_SEEDS:
        rows += kept(f"accuracy-{name}", "method", rows)
    rows.sort(key=lambda row: [*METHODS].index(row["method"]))
    return rows, {row["method"]: round(row["accuracy"], 4) for row in rows}


def standard_error(scores):
    """Of their mean; None for one score."""
    return float(scores.std(ddof=1) / np.sqrt(scores.size)) if scores.size > 1 else None


def kept(name, key, rows):
    """Rows of the saved result that this run has nothing newer for."""
    path = RESULTS / "classify" / f"{plain(name)}.json"
    if not path.exists():
        return []
    old = json.loads(path.read_text())["rows"]
    return [row for row in old if row[key] not in {row[key] for row in rows} and same(row, rows)]


def machines(name, rows):
    """This machine, and those of the rows that were kept."""
    path, here = RESULTS / "classify" / f"{name}.json", machine()
    old = json.loads(path.read_text()) if path.exists() else {"rows": []}
    if not any(row in old["rows"] for row in rows):
        return here
    known = old["machine"]["cpu"]
    added = known if here["cpu"].lower() in known.lower() else f"{known}, and {here['cpu']}"
    return {**old["machine"], "cpu": added}


def same(row, rows):
    return not rows or row.keys() == rows[0].keys()


def plain(name):
    return name.replace(", ", "-").replace(" ", "-")


def sizes(name, data, given_labels):
    """Numbers of labels that this set has, two of each class at least."""
    _, y, _, _ = load(name, data, 0)
    return [n for n in given_labels if 2 * np.unique(y).size <= n <= len(y)]


def few(name, given, words):
    rows = []
    for n in sizes(name, given.data, given.labels):
        keys = [(method, seed) for method in given.methods for seed in range(DRAWS[n])]
        tasks = [(name, given.data, method, n, seed, words) for method, seed in keys]
        scores = dict(zip(keys, given.scores(tasks)))
        found = {m: np.array([scores[m, s] for s in range(DRAWS[n])]) for m in given.methods}
        means = {method: float(values.mean()) for method, values in found.items()}
        baselines = [m for m in ("tf-idf 1-2-grams", "Average") if m in means]
        better = max(baselines, key=means.get, default=None)
        lead = found["TextClassifier"] - found.get(better, np.nan)
        rows.append(
            {
                "labels": n, "draws": DRAWS[n], **means, "lead over the better": float(lead.mean()),
                "standard error": standard_error(lead),
            }
        )  # fmt: skip
    rows = sorted(rows + kept(f"few-{name}", "labels", rows), key=lambda row: row["labels"])
    worst = min(row["lead over the better"] for row in rows)
    return rows, {"smallest lead over the better of tf-idf and Average": worst}


# ---- few labels: how the grid is averaged, tuned on training texts only --------------------------


RULES = {  # from log evidences, log-likelihoods of left-out labels and number of texts to weights
    "evidence": lambda e, v, n: softmax(e),
    "left out": lambda e, v, n: softmax(v),
    "product": lambda e, v, n: softmax(e + v),
    "half product, half left out": lambda e, v, n: 0.5 * softmax(e + v) + 0.5 * softmax(v),
    "equal": lambda e, v, n: np.full(e.size, 1.0 / e.size),
    "half left out, half equal": lambda e, v, n: 0.5 * softmax(v) + 0.5 / e.size,
    "thirds": lambda e, v, n: (softmax(e + v) + softmax(v) + 1.0 / e.size) / 3.0,
    "root of left out": lambda e, v, n: softmax(0.5 * v),
    "quarter of left out": lambda e, v, n: softmax(0.25 * v),
    "left out over root n": lambda e, v, n: softmax(v / np.sqrt(n)),
    "left out, 2 over root n": lambda e, v, n: softmax(2.0 * v / np.sqrt(n)),
}


def tuning_task(task):
    """Accuracy of every rule on one draw, judged by other texts of the training part."""
    name, data, n, seed, words = task
    train, y, _, _ = load(name, data, 0)
    picked = draw(y, n, 1000 + seed)
    rest = np.setdiff1d(np.arange(len(train)), picked)
    judged = np.random.default_rng(seed).permutation(rest)[:1000]
    texts, tests = [train[i] for i in picked], [train[i] for i in judged]
    known = []
    explore = gaussian_process.explore

    def once(*kernels, **settings):  # all rules weigh the same solutions
        if not known:
            known.append(explore(*kernels, **settings))
        return known[0]

    def accuracy_of(rule):
        def weigh(e, v):
            return rule(e, v, n)

        model = TextClassifier(words, n_jobs=1, selection="evidence")
        with patch.multiple(gaussian_process, explore=once, weigh=weigh):
            model.fit(texts, y[picked])
        return float(np.mean(model.predict(tests) == y[judged]))

    return {name: accuracy_of(rule) for name, rule in RULES.items()}


def tune(given, words, work):
    """Mean accuracy of what `work` compares, for every set and number of labels."""
    rows = []
    tasks = [
        (name, given.data, n, seed, words)
        for name in given.sets
        for n in sizes(name, given.data, given.labels)
        for seed in range(DRAWS[n])
    ]
    scores = in_parallel(work, tasks[::-1], given.jobs)[::-1]
    for name, n in dict.fromkeys((task[0], task[2]) for task in tasks):
        some = [one for one, task in zip(scores, tasks) if task[0] == name and task[2] == n]
        means = {rule: float(np.mean([one[rule] for one in some])) for rule in some[0]}
        rows.append({"set": name, "labels": n, **means})
    summary = {rule: float(np.mean([row[rule] for row in rows])) for rule in scores[0]}
    return rows, summary


CONSTANTS = {  # alternatives to the constants of `fitting` and to the options of TextClassifier
    "as they are": ({}, {}),
    **{f"average {n}": ({"_AVERAGED": n}, {}) for n in (1, 2, 4, 16)},
    **{f"exp(hits / {n})": ({"_HITS": float(n)}, {}) for n in (1, 10)},
    "Cs x 3": ({}, {"Cs": (3.0, 18.0, 108.0, 648.0)}),
    "Cs / 3": ({}, {"Cs": (1 / 3, 2.0, 12.0, 72.0)}),
    "two Cs": ({}, {"Cs": (6.0, 36.0)}),
    "dense_scales x 2": ({}, {"dense_scales": (0.2, 0.4, 0.8, 1.6)}),
    "dense_scales / 2": ({}, {"dense_scales": (0.05, 0.1, 0.2, 0.4)}),
    "one dense_scale": ({}, {"dense_scales": (0.3,)}),
    **{f"1-{n}-grams": ({}, {"ngrams": (1, n)}) for n in (1, 2, 3)},
}


def constants_task(task):
    """Accuracy of every alternative on one draw, scored by other texts of the training part."""
    name, data, n, seed, words = task
    train, y, _, _ = load(name, data, 0)
    picked = draw(y, n, 1000 + seed)
    rest = np.setdiff1d(np.arange(len(train)), picked)
    scored = np.random.default_rng(seed).permutation(rest)[:1000]
    texts, tests = [train[i] for i in picked], [train[i] for i in scored]
    found = {}
    for alternative, (constants, options) in CONSTANTS.items():
        changed = patch.multiple(fitting, **constants) if constants else nullcontext()
        with changed:
            model = TextClassifier(words, n_jobs=1, **options).fit(texts, y[picked])
        found[alternative] = float(np.mean(model.predict(tests) == y[scored]))
    return found


# ---- speed ---------------------------------------------------------------------------------------


def theirs(X, y, Cs, folds):
    """Seconds of the processor that GridSearchCV takes, and what it found.

    One against the rest, the classes are searched one after the other: of many, three are timed
    and the seconds multiplied.
    """
    model = LogisticRegression(solver="liblinear", tol=1e-3, max_iter=300)
    classes = np.unique(y)
    timed = classes[[1]] if classes.size == 2 else classes[:: -(-classes.size // N_TIMED)]
    found = []
    start = time.process_time()
    for c in timed:
        found.append(GridSearchCV(model, {"C": Cs}, cv=folds).fit(X, y == c))
    seconds = time.process_time() - start
    return seconds * (1 if classes.size == 2 else classes.size / timed.size), found


def their_answers(found, Z, n_classes):
    """Decisions of all classes (those not searched stand in for by another), and the answers."""
    if n_classes == 2:
        return found[0].predict(Z).astype(int)
    return np.argmax([found[c % len(found)].decision_function(Z) for c in range(n_classes)], axis=0)


def same_folds(y, seed=0):
    """Rows that TextClassifier learns from and judges by when it chooses, of at most 10,000."""
    rng = np.random.default_rng(seed)
    part = np.sort(rng.permutation(y.size)[: fitting.MAX_SELECTION_TEXTS])
    held_out = fitting.folds_for(y[part], rng).held_out()
    return [(np.delete(part, held), part[held]) for held in held_out]


def peak_megabytes(classifier, texts):
    """Most memory held at a time while texts stream through the classifier."""
    tracemalloc.start()
    for _ in classifier.stream(iter(texts)):
        pass
    peak = tracemalloc.get_traced_memory()[1] / 1e6
    tracemalloc.stop()
    return peak


def speed(name, given, words):
    """Seconds of the processor: fit with its selection, and predict from raw text."""
    train, y, test, right = load(name, given.data, 0)
    order = np.random.default_rng(5).permutation(len(train))
    train, y = [train[i] for i in order], y[order]
    candidates = {"Cs": (1.0, 6.0, 36.0, 216.0), "ngrams": (1, 2), "weighting": "tf-idf"}
    for model in (TextClassifier(selection="folds", **candidates), TextClassifier(words)):
        model.fit(train[:10_000], y[:10_000]).predict(test[:10])  # compiled, for large sets too
    clock = time.process_time
    times = {}

    def timed(job, work):
        start, wall = clock(), time.perf_counter()
        done = work()
        times[job] = clock() - start, time.perf_counter() - wall
        return done

    mine = timed(
        "fit", lambda: TextClassifier(selection="folds", **candidates).fit(train, y)
    )  # fmt: skip
    found = timed("predict", lambda: mine.predict(test))
    timed("floor", lambda: fingerprints(test))
    full = None if given.quick else timed("default", lambda: TextClassifier(words).fit(train, y))
    vectorizer = TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True)
    X = timed("their features", lambda: vectorizer.fit_transform(train))
    features = times["their features"][0]
    seconds, searches = theirs(X, y, candidates["Cs"], same_folds(y))
    rows = [("fit, 4 C, the same folds", times["fit"][0], features + seconds)]
    if not given.quick:
        seconds, searches = theirs(X, y, candidates["Cs"], 5)
        rows.append(("fit, 4 C, all five folds there", times["fit"][0], features + seconds))
    n_classes = np.unique(y).size
    answers = timed(
        "their predict", lambda: their_answers(searches, vectorizer.transform(test), n_classes)
    )
    rows.append(("predict raw text", times["predict"][0], times["their predict"][0]))
    rows = [
        {"job": job, "pacsent CPU s": a, "scikit-learn CPU s": b, "ratio": b / a}
        for job, a, b in rows
    ]
    n_bytes = sum(len(text.encode()) for text in test)
    times_over = -(-25_000 // len(test))
    summary = {
        "smallest fit ratio": min(row["ratio"] for row in rows[:-1]),
        "predict ratio": rows[-1]["ratio"],
        "accuracy": float(np.mean(found == right)),
        "accuracy of scikit-learn": float(np.mean(answers == right)) if n_classes == 2 else None,
        "classes that scikit-learn was timed on": len(searches), "classes": n_classes,
        "MB of text a CPU second": n_bytes / 1e6 / times["predict"][0],
        "floor, s: reading and hashing the words": times["floor"][0],
        "peak MB predicting": peak_megabytes(mine, test * times_over),
        "peak MB predicting twice as many": peak_megabytes(mine, test * 2 * times_over),
        "texts judged to choose": mine.selection_["n_tested"], "training texts": len(train),
        "features": len(mine.ngrams_),
    }  # fmt: skip
    if full is not None:
        summary |= {
            "default fit, candidates": full.selection_["n_candidates"],
            "default fit, CPU s": times["default"][0], "default fit, s": times["default"][1],
        }  # fmt: skip
    return rows, summary


def model_row(name, given, words):
    """What a saved model takes: bytes, and seconds to open it and to answer."""
    train, y, test, _ = load(name, given.data, 0)
    model = TextClassifier(words).fit(train, y)
    opening, answering = [], []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model"
        save(model, path)
        n_bytes = sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
        for _ in range(5):
            start = time.perf_counter()
            opened = open_model(path)
            between = time.perf_counter()
            opened.predict(test[:1])
            opening.append(between - start)
            answering.append(time.perf_counter() - between)
    return {
        "set": name, "texts": len(train), "n-grams": len(model.ngrams_), "MB": n_bytes / 1e6,
        "s to open": min(opening), "s to answer the first text": min(answering),
    }  # fmt: skip


class Scores:
    """Runs the tasks of all sets together, the long ones first, and hands out results."""

    def __init__(self, given, words):
        self.found = {}
        self.wanted = []
        self.n_jobs = given.jobs
        given.scores = self.collect
        part = accuracy if given.part == "accuracy" else few
        for name in given.sets:  # first only to learn what is wanted
            part(name, given, words)
        order = sorted(self.wanted, key=self.cost, reverse=True)
        results = in_parallel(score, order, self.n_jobs)
        self.found = {task[:5]: one for task, one in zip(order, results)}

    @staticmethod
    def cost(task):
        name, _, method, n, _, _ = task
        slow = {"20news": 8, "imdb": 4}.get(name, 1)
        return slow * (n or 10_000) * (3 if method == "tf-idf 1-2-grams" else 1)

    def collect(self, tasks):
        if not self.found:
            self.wanted += tasks
            return [0.0] * len(tasks)
        return [self.found[task[:5]] for task in tasks]


TITLES = {
    "accuracy": "Test accuracy, all labels",
    "few": "Test accuracy by number of labels",
    "speed": "Fit and predict, seconds of the processor",
}


TUNED = {
    "tune": (tuning_task, "Ways of averaging, few labels", "tuning"),
    "constants": (constants_task, "Constants of the model", "constants"),
}


def main():
    parser = parser_for(__doc__, name="")
    parser.add_argument("part", choices=[*TITLES, *TUNED, "model"], nargs="?", default="accuracy")
    parser.add_argument("--sets", nargs="*", default=SETS)
    parser.add_argument("--methods", nargs="*", default=USUAL)
    parser.add_argument("--labels", type=int, nargs="*", default=[*DRAWS])
    parser.add_argument(
        "--seeds", type=int, default=N_SEEDS, help=f"accuracy: splits (default: {N_SEEDS})"
    )
    parser.add_argument(
        "--quick", action="store_true", help="speed: without five folds and the default fit"
    )
    parser.add_argument("--jobs", type=int, default=1, help="processes (default: 1)")
    parser.add_argument(
        "--threads", type=int, default=1, help="of scikit-learn's searches (default: 1)"
    )
    given = parser.parse_args()
    global N_THREADS
    N_THREADS = given.threads
    given.data = str(given.data)
    warnings.simplefilter("ignore")
    own = Path(given.data) / "vectors"
    words = open_model("english") if given.part != "accuracy" else None
    if words is None and {"TextClassifier", "Average", "model2vec"} & set(given.methods):
        words = datasets.load_word_vectors(own)
    for name in given.sets:
        load(name, given.data, 0)
    TextClassifier(words).fit(["good", "bad"] * 10, [0, 1] * 10).predict(["good"])  # compile
    TextClassifier(words, selection="folds").fit(["good", "bad", "so"] * 10, [0, 1, 2] * 10)
    if given.part in TUNED:
        work, title, file = TUNED[given.part]
        rows, summary = tune(given, words, work)
        finish("classify", rows, title=f"{title}, training texts only", summary=summary,
               save=given.save, name=given.name or file)  # fmt: skip
        return
    if given.part == "model":
        rows = [model_row(name, given, words) for name in given.sets]
        finish("classify", rows, title="A saved model", summary=rows[-1], save=given.save,
               name=given.name or "model")  # fmt: skip
        return
    if given.part != "speed":
        Scores(given, words)
    for name in given.sets:
        rows, summary = {"accuracy": accuracy, "few": few, "speed": speed}[given.part](
            name, given, words
        )
        name = plain(name)
        if given.seeds != N_SEEDS:
            name += f"-{given.seeds}"
        file = "-".join(filter(None, (given.name, given.part, name)))
        finish("classify", rows, title=f"{TITLES[given.part]}: {name}", summary=summary,
               save=given.save, name=file, where=machines(file, rows))  # fmt: skip


if __name__ == "__main__":
    main()
