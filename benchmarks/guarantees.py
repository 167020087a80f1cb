"""Count how often guarantees of classifiers are broken in ordinary use, on real texts.

    python benchmarks/guarantees.py [--data FOLDER] [--sets subj mr trec 20news imdb] [--draws 400]
        [--parts calibration multilabel fitting] [--processes 16] [--save]

Texts are of training parts alone. `draws` are those of one condition, over all sets. delta is 0.05
everywhere, so about 5 % may be broken; a guarantee that starts with "control" ignores a correction
and must break.

`calibration`: a TextClassifier with the English vectors is fitted on 400 texts and stays fixed.
300 calibration texts are drawn again and again from at most 3,000 others, and the remaining ones
say what is true. Conditions: random order, sorted by label, sorted by confidence, each text five
times, each text again with one word changed, and the best of 20 candidate models for each guarantee
(two sets), with n_candidates=20 and, as a control, without.
`multilabel`: the same for sets of labels (GoEmotions, 500 calibration texts).
`fitting`: tf-idf with logistic regression is fitted anew each time by CertifiedClassifier on 200
texts: each a second time (copied, or with one word changed), each five times in a group, and the
hold-out with the smallest bound of 20 seeds. Controls split and count rows.
Of 20news and TREC five classes for `fitting`.
"""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import warnings
from collections import Counter
from functools import cache

import numpy as np
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

import target_data
from harness import finish, parser_for, run_jobs
from pacsent import CertifiedClassifier, TextClassifier, certify_predictions
from pacsent.bounds.binomial import upper_limit
from pacsent.certify import DriftMonitor, compare
from pacsent.certify.error_certificate import error_certificate
from pacsent.paper import benchmark_datasets as datasets
from pacsent.predict import control_risk

SETS = ("subj", "mr", "trec", "20news", "imdb")
CHOICE_SETS = ("subj", "trec")  # where candidates are compared, which takes longest
ORDERS = ("random order", "sorted by label", "sorted by confidence", "five times", "one changed")
CONDITIONS = (*ORDERS, "copies", "groups of five", "best of 20", "best of 20 seeds")
N_FIT, N_CALIBRATION, DELTA, ERROR, PRECISION, RECALL = 400, 300, 0.05, 0.1, 0.8, 0.7
N_POOL, N_CANDIDATES, IN_GROUP = 3000, 20, 10
DRAWS_PER_JOB = 10


@cache
def loaded(name, data, few_classes=False):
    """Different training texts and their labels; of the five largest classes with few_classes."""
    dataset = datasets.load(name, data)
    label_of = dict(zip(dataset.train_texts, np.asarray(dataset.train_labels).tolist()))
    texts, labels = list(label_of), np.array(list(label_of.values()))
    if few_classes:
        largest = np.argsort(-np.bincount(labels), kind="stable")[:5]
        rows = np.flatnonzero(np.isin(labels, largest))
        texts, labels = [texts[i] for i in rows], labels[rows]
    return texts, labels


def draw(name, data, n, seed, few_classes=False):
    """(n texts, their labels, others, their labels)"""
    texts, labels = loaded(name, data, few_classes)
    order = np.random.default_rng([seed, n]).permutation(len(texts))[: n + N_POOL]
    first, others = np.split(order, [min(n, len(order) // 2)])
    return [texts[i] for i in first], labels[first], [texts[i] for i in others], labels[others]


def tf_idf():
    return make_pipeline(TfidfVectorizer(sublinear_tf=True), LogisticRegression(C=30.0))


def with_word_changed(text, rng):
    """The text with one word replaced by another that is in no other text."""
    words = text.split()
    words[rng.integers(len(words))] = "q" + "".join(rng.choice(list("abcdefghij"), 7))
    return " ".join(words)


class KnownModel:
    """A fitted classifier whose probabilities are looked up, by text or by row number."""

    def __init__(self, classes, log_proba, texts=()):
        self.classes_, self.log_proba = classes, log_proba
        self.row_of = {text: row for row, text in enumerate(texts)}

    def fit(self, X, y):
        raise NotImplementedError("it is fitted")

    def predict_proba(self, X):
        rows = [self.row_of[x] if isinstance(x, str) else int(x[0]) for x in X]
        return np.exp(self.log_proba[rows])

    def predict(self, X):
        return self.classes_[self.predict_proba(X).argmax(axis=1)]


# ---- one fixed classifier, calibrated again and again --------------------------------------------


@cache
def fixed_models(name, data):
    """Two fitted classifiers, other texts, and the position of the class of each of these."""
    texts, labels, pool, true = draw(name, data, N_FIT, 0)
    models = [TextClassifier("english", n_jobs=1).fit(texts, labels), tf_idf().fit(texts, labels)]
    classes = models[0].classes_
    known = np.flatnonzero(np.isin(true, classes))
    pool, true = [pool[i] for i in known], classes.searchsorted(true[known])
    tables = [np.log(np.maximum(model.predict_proba(pool), 1e-300)) for model in models]
    return [KnownModel(classes, table, pool) for table in tables], pool, true


def calibration(name, data, condition, seed):
    models, pool, true = fixed_models(name, data)
    rng = np.random.default_rng([seed, 1])
    order = rng.permutation(len(pool))
    rows, others = np.split(order, [min(N_CALIBRATION, len(order) // 2)])
    if condition == "best of 20":
        return best_candidates(models[0], rows, others, true, rng)
    model = KnownModel(models[0].classes_, models[0].log_proba)
    model.row_of = dict(models[0].row_of)
    confidence = model.log_proba.max(axis=1)
    if condition == "sorted by label":
        rows = rows[np.argsort(true[rows], kind="stable")]
    elif condition == "sorted by confidence":
        rows = rows[np.argsort(confidence[rows])]
    texts = [pool[i] for i in rows]
    if condition == "five times":
        texts, rows = texts * 5, np.tile(rows, 5)
    elif condition == "one changed":
        changed = [with_word_changed(text, rng) for text in texts]
        model.row_of |= dict(zip(changed, rows.tolist()))
        texts, rows = texts + changed, np.tile(rows, 2)
    labels = model.classes_[true[rows]]
    log_proba, right = model.log_proba[others], true[others]
    wrong = log_proba.argmax(axis=1) != right
    broken, three = {}, {}
    for simultaneous in (False, True):
        certified = CertifiedClassifier(
            model, prefit=True, delta=DELTA, simultaneous=simultaneous, random_state=seed
        ).calibrate(texts, labels)
        broken_here = broken_rules(certified, log_proba, right, wrong)
        three = {key: broken_here[key] for key in ("error", "prediction sets", "abstention")}
        if simultaneous:
            broken["all three, simultaneous"] = any(three.values())
        else:
            broken = broken_here | {"control: any of three": any(three.values())}
            stream = rng.permutation(others)[:300]
            if condition == "five times":
                stream = rng.permutation(np.tile(stream[:60], 5))
            monitor = DriftMonitor(certified, alpha=DELTA, random_state=seed)
            monitor.update([pool[i] for i in stream])
            broken["drift: false alarm"] = monitor.alarm
    classes = model.classes_.tolist()
    certificate = certify_predictions(
        labels, model.predict(texts), texts=texts, classes=classes,
        recall="all", precision="all", delta=DELTA, random_state=seed,
    )  # fmt: skip
    parts = (
        (certificate.class_error_upper, right),
        (certificate.prediction_error_upper, log_proba.argmax(axis=1)),
    )
    broken["certify_predictions, all bounds"] = wrong.mean() > certificate.error_upper or any(
        (of == c).any() and wrong[of == c].mean() > bounds[str(label)]
        for c, label in enumerate(classes)
        for bounds, of in parts
    )
    n_wrong = int((model.log_proba[rows].argmax(axis=1) != true[rows]).sum())
    if condition in ("five times", "one changed"):
        broken["control: every row counted"] = wrong.mean() > upper_limit(n_wrong, len(rows), DELTA)
    other = KnownModel(model.classes_, models[1].log_proba)
    other.row_of = model.row_of
    compared = compare(model, other, texts, labels, random_state=seed)
    other_wrong = other.log_proba[others].argmax(axis=1) != right
    difference = other_wrong.mean() - wrong.mean()
    broken["compare"] = not compared.difference_lower <= difference <= compared.difference_upper
    if condition == "random order":
        broken |= broken_groups(model, confidence, true, rng)
    return broken


def broken_rules(certified, log_proba, right, wrong):
    """Which of the error bound, prediction sets, abstention and thresholds are broken."""
    sets = log_proba >= certified.prediction_set_thresholds(error=ERROR)
    rule, own = certified.abstain(error=ERROR), certified.abstain(error=None)
    confidence = np.exp(log_proba.max(axis=1))
    answered, own_answered = confidence >= rule.threshold, confidence >= own.threshold
    broken = {
        "error": wrong.mean() > certified.certificate_.error_upper,
        "prediction sets": (~sets[np.arange(right.size), right]).mean() > ERROR,
        "abstention": bool(answered.any() and wrong[answered].mean() > ERROR),
        "abstention, its own error": bool(
            own_answered.any() and wrong[own_answered].mean() > own.error
        ),
    }
    is_class = right[:, None] == np.arange(log_proba.shape[1])
    for what, least in (("precision", PRECISION), ("recall", RECALL)):
        chosen = certified.tune_thresholds(**{what: least}).thresholds
        limits = [chosen[label] for label in certified.classes_.tolist()]
        named = np.exp(log_proba) >= [np.inf if limit is None else limit for limit in limits]
        both = (named & is_class).sum(axis=0)
        whole = (named if what == "precision" else is_class).sum(axis=0)
        usable = [limit is not None and n > 0 for limit, n in zip(limits, whole)]
        broken[f"thresholds, {what}"] = bool((both < least * whole)[usable].any())
    return broken


def best_candidates(model, rows, others, true, rng):
    """For each guarantee the best of 20 models that are equally good: the first one with noise."""
    best: dict[str, tuple] = {}
    X = rows[:, None].astype(float)
    for _ in range(N_CANDIDATES):
        noisy = model.log_proba + rng.normal(0, 1.0, model.log_proba.shape)
        noisy -= np.logaddexp.reduce(noisy, axis=1, keepdims=True)
        log_proba, right = noisy[others], true[others]
        wrong = log_proba.argmax(axis=1) != right
        for n_candidates, kind in ((N_CANDIDATES, ""), (1, "control: ")):
            certified = CertifiedClassifier(
                KnownModel(model.classes_, noisy), prefit=True, delta=DELTA,
                n_candidates=n_candidates, random_state=0,
            ).calibrate(X, model.classes_[true[rows]])  # fmt: skip
            broken = broken_rules(certified, log_proba, right, wrong)
            sets = (
                (log_proba >= certified.prediction_set_thresholds(error=ERROR)).sum(axis=1).mean()
            )
            answered = np.exp(log_proba.max(axis=1)) >= certified.abstain(error=ERROR).threshold
            scores = {
                "error": certified.certificate_.error_upper,
                "prediction sets": sets,
                "abstention": -answered.mean(),
            }
            for what, score in scores.items():
                key = f"{kind}{what}"
                best[key] = min(best.get(key, (np.inf, False)), (score, broken[what]))
    return {key: bool(is_broken) for key, (_, is_broken) in best.items()}


def broken_groups(model, confidence, true, rng):
    """40 groups of neighbours in confidence: the bound for new groups, and of groups ignored."""
    n_groups = len(true) // IN_GROUP
    group_of = np.argsort(np.argsort(confidence)) // IN_GROUP
    drawn = rng.permutation(n_groups)[:40]
    is_drawn = np.isin(group_of, drawn)
    predicted = model.log_proba.argmax(axis=1)
    wrong = predicted != true
    certificate = error_certificate(
        true[is_drawn].tolist(), predicted[is_drawn].tolist(),
        group_of=group_of[is_drawn], delta=DELTA, random_state=0,
    )  # fmt: skip
    naive = upper_limit(int(wrong[is_drawn].sum()), int(is_drawn.sum()), DELTA)
    error = wrong[~is_drawn & (group_of < n_groups)].mean()
    return {"groups": error > certificate.error_upper, "control: groups ignored": error > naive}


# ---- sets of labels ------------------------------------------------------------------------------


@cache
def fixed_multilabel(data):
    dataset = target_data.load_goemotions(data)
    texts, has = dataset.texts["train"], dataset.targets["train"]
    fit, others = np.array_split(np.random.default_rng(0).permutation(len(texts))[:6000], 2)
    frequent = np.flatnonzero(has[fit].sum(axis=0) >= 40)
    model = TextClassifier("english", n_jobs=1).fit([texts[i] for i in fit], has[fit][:, frequent])
    proba = model.predict_proba([texts[i] for i in others])
    return model, has[others][:, frequent].astype(bool), proba


def multilabel(name, data, condition, seed):
    model, has, proba = fixed_multilabel(data)
    order = np.random.default_rng([seed, 2]).permutation(len(has))
    rows, others = np.split(order, [min(500, len(has) // 2)])
    if condition == "sorted by label":
        rows = rows[np.lexsort(has[rows].T)]
    elif condition == "sorted by confidence":
        rows = rows[np.argsort(proba[rows].max(axis=1))]
    true, given = has[others], model.assign_labels(proba)
    certificate = certify_predictions(has[rows], given[rows], delta=DELTA, random_state=seed)
    counts = np.array([
        (a & b).sum(axis=0) for a, b in ((true, given[others]), (~true, given[others]),
                                         (true, ~given[others]))
    ])  # fmt: skip
    f1 = 2 * counts[0] / np.maximum(2 * counts[0] + counts[1] + counts[2], 1)
    total = counts.sum(axis=1)
    differs = true != given[others]
    few = control_risk(has[rows], proba[rows], false_negatives=0.2, delta=DELTA, random_state=seed)
    missed = (true & ~few.predict(proba[others])).sum(axis=1) / np.maximum(true.sum(axis=1), 1)
    plan = model.out_of_fold_.labels, np.exp(model.out_of_fold_.log_proba)
    sure = control_risk(
        has[rows], proba[rows], false_discoveries=0.4, delta=DELTA, planning=plan, random_state=seed
    ).predict(proba[others])
    some = sure.any(axis=1)
    false = (sure & ~true).sum(axis=1)[some] / sure.sum(axis=1)[some]
    return {
        "exact match": differs.any(axis=1).mean() > certificate.error_upper,
        "micro F1": 2 * total[0] / (2 * total[0] + total[1:].sum()) < certificate.micro_f1_lower,
        "macro F1": f1.mean() < certificate.macro_f1_lower,
        "error of some label": (
            differs.mean(axis=0) > np.array(list(certificate.label_error_upper.values()))
        ).any(),
        "F1 of some label": (f1 < np.array(list(certificate.label_f1_lower.values()))).any(),
        "control_risk, false negatives": missed.mean() > 0.2,
        "control_risk, false discoveries": false.size > 0 and false.mean() > 0.4,
    }


# ---- fitted anew each time -----------------------------------------------------------------------


def fitting(name, data, condition, seed):
    rng = np.random.default_rng([seed, 3])
    texts, labels, pool, true = draw(name, data, 200, seed, few_classes=True)
    pool, true = pool[:1500], true[:1500]
    groups = None
    if condition == "best of 20 seeds":
        tried = []
        for split_seed in range(N_CANDIDATES):
            certified = CertifiedClassifier(tf_idf(), random_state=split_seed).fit(texts, labels)
            error, given = (certified.predict(pool) != true).mean(), certified.certificate_
            corrected = upper_limit(given.n_errors, given.n, DELTA / N_CANDIDATES)
            tried.append((given.error_upper, error, corrected))
        bound, error, corrected = min(tried)
        return {"error": error > corrected, "control: every row counted": error > bound}
    if condition == "groups of five":
        texts, labels = texts[::2], labels[::2]
        groups = np.repeat(np.arange(len(texts)), 5)
    n = 5 if groups is not None else 2
    X = [
        text if condition == "copies" or not i else with_word_changed(text, rng)
        for text in texts
        for i in range(n)
    ]
    y = np.repeat(labels, n)
    certified = CertifiedClassifier(tf_idf(), random_state=seed).fit(X, y, groups=groups)
    order = rng.permutation(len(X))
    held_out, training = np.split(order, [round(0.4 * len(X))])
    naive = tf_idf().fit([X[i] for i in training], y[training])
    n_wrong = int((naive.predict([X[i] for i in held_out]) != y[held_out]).sum())
    naive_bound = upper_limit(n_wrong, held_out.size, DELTA)
    return {
        "error": (certified.predict(pool) != true).mean() > certified.certificate_.error_upper,
        "control: every row counted": (naive.predict(pool) != true).mean() > naive_bound,
    }


# ---- all of it -----------------------------------------------------------------------------------


PARTS = {
    "calibration": (calibration, "Guarantees of one class a text that were broken, %"),
    "multilabel": (multilabel, "Guarantees of sets of labels that were broken, %"),
    "fitting": (fitting, "Error bounds broken where the classifier is fitted each time, %"),
}


def cells(part, sets):
    if part == "multilabel":
        return [("goemotions", condition) for condition in ORDERS[:3]]
    conditions = ORDERS if part == "calibration" else ("copies", "one changed", "groups of five")
    choice = "best of 20" if part == "calibration" else "best of 20 seeds"
    chosen = [(name, choice) for name in sets if name in CHOICE_SETS]
    return chosen + [(name, condition) for condition in conditions for name in sets]


def work(job):
    warnings.simplefilter("ignore")
    part, name, data, condition, seeds = job
    counts = Counter()
    for seed in seeds:
        broken = PARTS[part][0](name, data, condition, seed)
        counts.update({guarantee: int(value) for guarantee, value in broken.items()})
    return condition, len(seeds), dict(counts)


def main():
    parser = parser_for(__doc__, name="")
    parser.add_argument("--sets", nargs="+", default=list(SETS))
    parser.add_argument("--parts", nargs="+", default=list(PARTS), choices=PARTS)
    parser.add_argument("--draws", type=int, default=400)
    parser.add_argument("--processes", type=int, default=2)
    options = parser.parse_args()
    for part in options.parts:
        for name in options.sets:  # once, before there are processes
            if part == "calibration":
                fixed_models(name, options.data)
            elif part == "multilabel":
                fixed_multilabel(options.data)
            loaded(name, options.data, few_classes=True)
        n_sets = Counter(condition for _, condition in cells(part, options.sets))
        jobs = [
            (part, name, options.data, condition, range(first, first + DRAWS_PER_JOB))
            for name, condition in cells(part, options.sets)
            for first in range(0, options.draws // n_sets[condition], DRAWS_PER_JOB)
        ]
        counts: dict[str, Counter] = {}  # of each condition, for each guarantee
        n_draws: Counter = Counter()
        for condition, n, broken in run_jobs(work, jobs, options.processes):
            counts.setdefault(condition, Counter()).update(broken)
            n_draws[condition] += n
        guarantees = {guarantee for broken in counts.values() for guarantee in broken}
        rows = [
            {"guarantee": guarantee}
            | {
                condition: 100 * counts[condition][guarantee] / n_draws[condition]
                if guarantee in counts[condition]
                else None
                for condition in sorted(counts, key=CONDITIONS.index)
            }
            for guarantee in sorted(guarantees, key=lambda name: (name.startswith("control"), name))
        ]
        shares = [
            value
            for row in rows if not row["guarantee"].startswith("control")
            for value in list(row.values())[1:] if value is not None
        ]  # fmt: skip
        summary = {"draws of a condition": min(n_draws.values()), "most broken (%)": max(shares)}
        finish("guarantees", rows, title=PARTS[part][1], summary=summary, save=options.save,
               name=options.name or part)  # fmt: skip


if __name__ == "__main__":
    main()
