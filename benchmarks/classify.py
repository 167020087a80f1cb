"""TextClassifier and its baselines: accuracy with all labels and with few, and speed.

    python benchmarks/classify.py [accuracy|few|speed] [--data FOLDER] [--sets subj ...]
        [--methods ...] [--jobs N] [--threads N] [--save]

FOLDER holds datasets/, vectors/ and books/ (default: PACSENT_DATA). All methods get the same texts
and the same vectors: those of FOLDER with all labels, else the English model of the package, which
has seen none of these texts. Whatever is chosen is chosen on training labels; where the test texts
are of other books, folds leave out whole books, for all methods.
`accuracy`: all labels, three seeds: of the split (80/20) where a set has no test part of its own,
and of the folds in which a method chooses. Baselines run once where a set has a test part.
`few`: 20, 100, 300 and 1,000 labels, as many of each class, 20, 10, 5 and 3 draws from the
training part of one split, at most 2,000 test texts; the standard error is that of the differences
draw by draw.
`speed`: fitting with the whole selection against GridSearchCV over the same candidates, once with
the folds that TextClassifier judges by and once with five, and predicting from raw text against a
tf-idf pipeline; in seconds of the processor, because other work may share the machine. Of many
classes scikit-learn searches three, and its seconds are multiplied.
"""

import os

# Before NumPy is imported: threads that wait in loops would count as time of the processor.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import lzma
import tempfile
import time
import warnings
from functools import cache
from multiprocessing import get_context
from pathlib import Path

import numpy as np
from joblib import parallel_config
from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, StratifiedGroupKFold, StratifiedKFold
from sklearn.multiclass import OneVsRestClassifier
from sklearn.svm import LinearSVC

from harness import finish, parser_for
from pacsent import TextClassifier, make_encoder
from pacsent import load as open_model
from pacsent.classify import fitting
from pacsent.paper import benchmark_datasets as datasets

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
    vectorizer = make_encoder("Average", words, on_empty="ignore").fit(train)
    return on_vectors(vectorizer.transform(train), y, vectorizer.transform(test), seed, groups)


def on_vectors(X, y, Z, seed, groups=None):
    """Predictions for the vectors Z by a logistic regression on the vectors X."""
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
    return TextClassifier(words, n_jobs=1).fit(train, y, groups=groups).predict(test)


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


def accuracy(given, words):
    """One row for each set and method."""
    tasks = [
        (name, given.data, method, 0, seed, words)
        for name in given.sets
        for method in given.methods
        for seed in range(1 if name in FIXED and "TextClassifier" not in method else given.seeds)
    ]
    scores = in_parallel(score, tasks, given.jobs)
    rows = []
    for name, method in dict.fromkeys((task[0], task[2]) for task in tasks):
        values = np.array([s for s, task in zip(scores, tasks) if task[::2][:2] == (name, method)])
        rows.append({
            "set": plain(name), "method": method, "accuracy": float(values.mean()),
            "runs": len(values), "lowest": float(values.min()), "highest": float(values.max()),
            "standard error": standard_error(values),
        })  # fmt: skip
    return rows


def few(given, words):
    """One row for each set and number of labels."""
    sizes = [(name, n) for name in given.sets for n in label_counts(name, given)]
    tasks = [
        (name, given.data, method, n, seed, words)
        for name, n in sizes
        for method in given.methods
        for seed in range(DRAWS[n])
    ]
    scores = dict(zip([task[:5] for task in tasks], in_parallel(score, tasks, given.jobs)))
    rows = []
    for name, n in sizes:
        values = {
            method: np.array([scores[name, given.data, method, n, s] for s in range(DRAWS[n])])
            for method in given.methods
        }
        means = {method: float(some.mean()) for method, some in values.items()}
        baselines = [m for m in ("tf-idf 1-2-grams", "Average") if m in means]
        better = max(baselines, key=means.get, default=None)
        lead = values["TextClassifier"] - values.get(better, np.nan)
        rows.append({
            "set": plain(name), "labels": n, "draws": DRAWS[n], **means,
            "lead over the better": float(lead.mean()), "standard error": standard_error(lead),
        })  # fmt: skip
    return rows


def standard_error(scores):
    """Of their mean; None for one score."""
    return float(scores.std(ddof=1) / np.sqrt(scores.size)) if scores.size > 1 else None


def plain(name):
    return name.replace(", ", "-").replace(" ", "-")


def label_counts(name, given):
    """Numbers of labels that this set has, two of each class at least."""
    _, y, _, _ = load(name, given.data, 0)
    return [n for n in given.labels if 2 * np.unique(y).size <= n <= len(y)]


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


def speed(name, given, words):
    """Seconds of the processor: fit with its selection, and predict from raw text."""
    train, y, test, right = load(name, given.data, 0)
    order = np.random.default_rng(5).permutation(len(train))
    train, y = [train[i] for i in order], y[order]
    candidates = {"Cs": (1.0, 6.0, 36.0, 216.0), "ngrams": (1, 2), "weighting": "tf-idf"}
    for model in (TextClassifier(None, selection="folds", **candidates), TextClassifier(words)):
        model.fit(train[:10_000], y[:10_000]).predict(test[:10])  # compiled, for large sets too
    clock = time.process_time
    times = {}

    def timed(job, work):
        start, wall = clock(), time.perf_counter()
        done = work()
        times[job] = clock() - start, time.perf_counter() - wall
        return done

    mine = timed(
        "fit", lambda: TextClassifier(None, selection="folds", **candidates).fit(train, y)
    )  # fmt: skip
    found = timed("predict", lambda: mine.predict(test))
    if not given.quick:
        timed("default", lambda: TextClassifier(words).fit(train, y))
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
        {"set": plain(name), "job": job, "pacsent CPU s": ours, "scikit-learn CPU s": others,
         "ratio": others / ours}
        for job, ours, others in rows
    ]  # fmt: skip
    print(f"{name}: accuracy {np.mean(found == right):.4f}, scikit-learn "
          f"{np.mean(answers == right):.4f}; default fit {times.get('default')}")  # fmt: skip
    return rows


def main():
    parser = parser_for(__doc__, name="")
    parser.add_argument("part", choices=["accuracy", "few", "speed"], nargs="?", default="accuracy")
    parser.add_argument("--sets", nargs="*", default=SETS)
    parser.add_argument("--methods", nargs="*", default=USUAL)
    parser.add_argument("--labels", type=int, nargs="*", default=[*DRAWS])
    parser.add_argument("--seeds", type=int, default=N_SEEDS, help="accuracy: splits")
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
    if given.part == "accuracy":
        words = datasets.load_word_vectors(Path(given.data) / "vectors")
    else:
        words = open_model("english")
    for name in given.sets:  # before there are processes
        load(name, given.data, 0)
    TextClassifier(words).fit(["good", "bad"] * 10, [0, 1] * 10).predict(["good"])  # compile
    TextClassifier(words, selection="folds").fit(["good", "bad", "so"] * 10, [0, 1, 2] * 10)
    if given.part == "accuracy":
        rows, title = accuracy(given, words), "Test accuracy, all labels"
        summary = {f"{row['set']}, {row['method']}": round(row["accuracy"], 4) for row in rows}
    elif given.part == "few":
        rows, title = few(given, words), "Test accuracy by number of labels"
        summary = {"smallest lead": min(row["lead over the better"] for row in rows)}
    else:
        rows = [row for name in given.sets for row in speed(name, given, words)]
        title = "Fit and predict, seconds of the processor"
        summary = {"smallest ratio": min(row["ratio"] for row in rows)}
    finish("classify", rows, title=title, summary=summary, save=given.save,
           name=given.name or given.part)  # fmt: skip


if __name__ == "__main__":
    main()
