"""Labels well spent: what to label next, which labels are wrong, when to stop.

    python benchmarks/labels.py [--part next|wrong|curve|stop|goal] [--draws 20] [--save]

next: accuracy on test texts after 50, 100, 200 and 500 labels, chosen at random, by margins with
UncertaintySampling of scikit-activeml, and by `next_to_label`. The classifier is the same.
wrong: 5 % of the labels of a training part are flipped; the share of flipped ones among as many of
the most suspicious rows, by `suspicious_labels` and by cleanlab, which gets the same
probabilities, and those of tf-idf with logistic regression.
curve: `fit_learning_curve` of 200 labels estimates the error with 1,000; how often the true one, of
the same classifier fitted on these and 800 more, is within the 90 % interval.
stop: simulated labelling where the error of every model is known; how often the bound is false at
some time. Negative controls: texts that active selection left over judge, or those it chose.
goal: the exact mean bound of a classifier that is wrong about a tenth of the texts, beside that of
one classifier, looked at once.
"""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import time
import warnings
from functools import cache, partial

import numpy as np
from scipy import stats

from harness import finish, parser_for, run_jobs
from pacsent import TextClassifier
from pacsent.bounds.binomial import upper_limit
from pacsent.certify import certify_stream
from pacsent.classify import fit_learning_curve, next_to_label
from pacsent.paper import benchmark_datasets as datasets

SETS = ("subj", "mr", "trec", "20news", "imdb")
SHOWN = (50, 100, 200, 500)
REFITS = (20, 35, 50, 75, 100, 150, 200, 350, 500)
_POOL, _TESTED, _FLIPPED = 5_000, 2_000, 1_000  # texts of a draw


@cache
def loaded(name, data):
    return datasets.load(name, data).split()


def drawn(name, data, seed, n_pool):
    """Texts and labels to learn from, and those that test, in the order of a draw."""
    found = loaded(name, data)
    rng = np.random.default_rng([seed, 28])
    rows = rng.permutation(len(found.train_texts))[:n_pool]
    tested = rng.permutation(len(found.test_texts))[:_TESTED]
    return (
        [found.train_texts[i] for i in rows], found.train_labels[rows],
        [found.test_texts[i] for i in tested], found.test_labels[tested],
    )  # fmt: skip


def new_model():
    """One candidate in place of a search, so that twenty draws take minutes; the same for all."""
    one = {"selection": "folds", "weighting": "tf-idf", "Cs": (6.0,), "dense_scales": (0.4,)}
    return TextClassifier("english", n_jobs=1, **one)


def fitted(texts, labels):
    """A classifier of the classes that have two texts; None where there are not two of these."""
    counts = np.bincount(labels)
    kept = np.flatnonzero(counts[labels] >= 2)
    if np.unique(labels[kept]).size < 2:
        return None
    return new_model().fit([texts[i] for i in kept], labels[kept])


# ---- what to label next --------------------------------------------------------------------------


def by_chance(model, texts, n, labelled, rng):
    return rng.permutation(len(texts))[:n]


def by_ours(model, texts, n, labelled, rng):
    start = new_model() if model is None else model
    return next_to_label(start, texts, n, labelled=labelled, random_state=int(rng.integers(2**31)))


def by_activeml(model, texts, n, labelled, rng):
    from skactiveml.base import SkactivemlClassifier
    from skactiveml.pool import UncertaintySampling

    if model is None:
        return by_chance(model, texts, n, labelled, rng)

    class Fitted(SkactivemlClassifier):
        def fit(self, X, y, sample_weight=None):
            self.classes_ = np.arange(model.classes_.size)
            return self

        def predict_proba(self, X):
            return model.predict_proba([texts[int(row[0])] for row in X])

    rows = np.arange(len(texts))[:, None].astype(float)
    unknown = np.full(len(texts), np.nan)
    sampler = UncertaintySampling("margin_sampling", random_state=int(rng.integers(2**31)))
    one = Fitted(classes=list(range(model.classes_.size))).fit(None, None)
    return sampler.query(rows, unknown, one, fit_clf=False, batch_size=n)


WAYS = {"random": by_chance, "scikit-activeml": by_activeml, "next_to_label": by_ours}


def next_draw(job):
    name, way, seed, data = job
    texts, labels, tested, right = drawn(name, data, seed, _POOL)
    rng = np.random.default_rng([seed, 1])
    known = np.zeros(0, np.int64)
    model, found = None, {}
    for size in REFITS:
        rest = np.setdiff1d(np.arange(len(texts)), known)
        rows = WAYS[way](
            model, [texts[i] for i in rest], size - known.size, [texts[i] for i in known], rng
        )
        known = np.concatenate([known, rest[rows]])
        model = fitted([texts[i] for i in known], labels[known])
        if size in SHOWN:
            found[size] = 0.0 if model is None else float(np.mean(model.predict(tested) == right))
    return name, way, found


def next_rows(given, run):
    jobs = [(name, way, seed, given.data)
            for name in given.sets for seed in range(given.draws) for way in WAYS]  # fmt: skip
    found = {}
    for name, way, accuracy in run(next_draw, jobs):
        found.setdefault((name, way), []).append([accuracy[n] for n in SHOWN])
    rows = []
    for (name, way), values in found.items():
        values = 100 * np.array(values)
        row = {"dataset": name, "chosen by": way, "draws": len(values)}
        for n, mean, error in zip(SHOWN, values.mean(axis=0), _standard_error(values)):
            row |= {f"{n} labels": float(mean), f"± {n}": float(error)}
        rows.append(row)
    return sorted(rows, key=lambda row: (SETS.index(row["dataset"]), row["chosen by"]))


def _standard_error(values):
    return values.std(axis=0, ddof=1 if len(values) > 1 else 0) / np.sqrt(len(values))


# ---- wrong labels --------------------------------------------------------------------------------


def wrong_draw(job):
    from cleanlab.filter import find_label_issues
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import cross_val_predict
    from sklearn.pipeline import make_pipeline

    from pacsent.classify.label_quality import audit_left_out, predict_labels_left_out

    name, seed, data = job
    texts, right, _, _ = drawn(name, data, seed, _FLIPPED)
    rng = np.random.default_rng([seed, 2])
    flipped = rng.permutation(len(texts))[: round(0.05 * len(texts))]
    labels, n_classes = right.copy(), int(right.max()) + 1
    labels[flipped] = (right[flipped] + rng.integers(1, n_classes, flipped.size)) % n_classes

    def precision(rows):
        return float(np.isin(rows[: flipped.size], flipped).sum() / flipped.size)

    left_out = predict_labels_left_out(texts, labels, new_model())
    same = left_out.log_proba
    ours = audit_left_out(left_out).suspicious
    pipeline = make_pipeline(TfidfVectorizer(), LogisticRegression(max_iter=1000))
    usual = cross_val_predict(pipeline, texts, labels, cv=5, method="predict_proba")

    def cleanlab(proba):
        proba = proba / proba.sum(axis=1, keepdims=True)
        return find_label_issues(labels, proba, return_indices_ranked_by="self_confidence",
                                 n_jobs=1)  # fmt: skip

    return {
        "dataset": name, "flipped": int(flipped.size),
        "suspicious_labels": precision([one.row for one in ours]),
        "cleanlab, our probabilities": precision(cleanlab(np.exp(same))),
        "cleanlab, tf-idf": precision(cleanlab(usual)),
    }  # fmt: skip


def wrong_rows(given, run):
    draws = max(1, given.draws // 5)
    jobs = [(name, seed, given.data) for name in given.sets for seed in range(draws)]
    found = run(wrong_draw, jobs)
    rows = []
    for name in given.sets:
        some = [row for row in found if row["dataset"] == name]
        means = {k: 100 * float(np.mean([row[k] for row in some])) for k in list(some[0])[2:]}
        rows.append({"dataset": name, "draws": len(some), "flipped": some[0]["flipped"], **means})
    return rows


# ---- when to stop --------------------------------------------------------------------------------


SIZES = (25, 50, 100, 200, 400)  # labels that teach, at which a model is fitted
STREAMS = ("random texts judge", "control: what chosen texts left over judges",
           "control: chosen texts judge")  # fmt: skip
_SIMULATED = 1_000  # texts to label


def curve_draw(job):
    name, seed, data = job
    texts, labels, tested, right = drawn(name, data, seed, 1000)
    curve = fit_learning_curve(texts[:200], labels[:200], model=new_model(), random_state=seed)
    true = np.mean(new_model().fit(texts, labels).predict(tested) != right)
    return name, *curve.error_at(1000), float(true)


def curve_rows(given, run):
    jobs = [(name, seed, given.data) for name in given.sets for seed in range(given.draws)]
    by_set = {}
    for name, *values in run(curve_draw, jobs):
        by_set.setdefault(name, []).append(values)
    rows = []
    for name, values in by_set.items():
        low, middle, high, true = np.array(values).T
        inside = (low <= true) & (true <= high)
        rows.append({
            "dataset": name, "draws": true.size, "estimate": float(middle.mean()),
            "true error": float(true.mean()), "low end": float(low.mean()),
            "high end": float(high.mean()), "in the interval": int(inside.sum()),
        })  # fmt: skip
    return rows


def stop_draw(job, delta=0.05, n_dims=10):
    """Labelling of points of two classes, half of them judging: (bound was false, bias).

    Errors of a linear model are known exactly there. The bound is looked at after every label for
    every model; bias is the share of errors of the last model less its error.
    """
    stream, seed = job
    rng = np.random.default_rng([seed, 3, STREAMS.index(stream)])
    y = rng.choice([-1.0, 1.0], 2 * _SIMULATED)
    mean = np.full(n_dims, 1.5 / np.sqrt(n_dims))
    X = np.outer(y, mean) + rng.normal(size=(y.size, n_dims))
    judging, pool = np.arange(_SIMULATED, 2 * _SIMULATED), np.arange(_SIMULATED)
    taught = list(pool[: SIZES[0]])
    is_false, bias = False, 0.0
    for size in SIZES:
        w, b = 0.0, 0.0
        while True:  # refitted after every tenth label
            some = np.array(taught)
            A = np.column_stack([X[some], np.ones(some.size)])
            w_b = np.linalg.solve(A.T @ A + np.eye(n_dims + 1), A.T @ y[some])
            w, b = w_b[:-1], w_b[-1]
            if len(taught) >= size:
                break
            rest = np.setdiff1d(pool, taught)
            margin = np.abs(X[rest] @ w + b)
            taught += rest[np.argsort(margin)[: min(10, size - len(taught))]].tolist()
        length = np.linalg.norm(w)
        error = stats.norm.cdf(-(w @ mean + np.array([b, -b])) / length).mean()
        rest = np.setdiff1d(pool, taught)
        judges = {STREAMS[1]: rest, STREAMS[2]: np.array(taught)}.get(stream, judging)
        wrong = np.sign(X[judges] @ w + b) != y[judges]
        for n in range(size // 2, wrong.size, size // 20):
            certificate = certify_stream(wrong[:n], delta, n_training=size)
            is_false |= certificate is not None and certificate.error_upper < error
        bias = float(wrong.mean() - error)
    return bool(is_false), bias


def stop_rows(given, run):
    rows = []
    for stream in STREAMS:
        jobs = [(stream, seed) for seed in range(50 * given.draws)]
        is_false, bias = np.mean(run(stop_draw, jobs), axis=0)
        rows.append({
            "stream": stream, "repeats": len(jobs), "false at some time, %": 100 * float(is_false),
            "allowed, %": 5.0, "measured less true error, %": 100 * float(bias),
        })  # fmt: skip
    return rows


def goal_rows(given, run, rate=0.1, delta=0.05):
    rows = []
    for n in SIZES[1:]:
        bounds = {"while labelling": 0.0, "one look": 0.0}
        n_counted = certify_stream(np.zeros(n), delta, n_training=n).n
        for k in range(n_counted + 1):
            bound = certify_stream(np.arange(n) < k, delta, n_training=n).error_upper
            bounds["while labelling"] += stats.binom.pmf(k, n_counted, rate) * bound
        for k in range(n + 1):
            bounds["one look"] += stats.binom.pmf(k, n, rate) * upper_limit(k, n, delta)
        rows.append({"judging texts": n, "counted": n_counted, **bounds})
    return rows


PARTS = {
    "next": (next_rows, "Accuracy, %, after a number of labels"),
    "wrong": (wrong_rows, "Flipped labels among the most suspicious, %"),
    "curve": (curve_rows, "Error with 1,000 labels, estimated from 200"),
    "stop": (stop_rows, "Bounds that were false at some time of labelling"),
    "goal": (goal_rows, "Mean certified error where a tenth of the answers is wrong"),
}


def main():
    parser = parser_for(__doc__)
    parser.add_argument("--part", choices=PARTS, default="stop")
    parser.add_argument("--draws", type=int, default=20)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--sets", nargs="+", choices=SETS, default=list(SETS))
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    make, title = PARTS[given.part]
    begun = time.perf_counter()
    rows = make(given, partial(run_jobs, n_processes=given.processes))
    seconds = round(time.perf_counter() - begun)
    finish("labels", rows, summary={"part": given.part, "seconds": seconds}, title=title,
           save=given.save, name=given.part)  # fmt: skip


if __name__ == "__main__":
    main()
