"""Count how often guarantees of classifiers are broken on real texts, singly and together.

    python benchmarks/guarantees.py [--data FOLDER] [--sets subj mr trec 20news imdb] [--draws 200]
        [--parts draws targets seeds copies] [--processes 16] [--save]

Texts are of training parts alone; delta is 0.05 everywhere, so about 5 % may be broken.
`draws`: a TextClassifier with the English vectors learns from 400 texts and stays fixed; 300
calibration texts are drawn again and again from at most 3,000 others, and the rest say what is
true. `groups ignored` counts the texts of groups (neighbours in confidence) as if they were
independent, which they are not: a guarantee that must break.
`targets`: the same for sets of labels (GoEmotions, 500 calibration texts).
`seeds`: the hold-out with the smallest bound of 50, from 200 texts; as it is, and with
n_candidates=50.
`copies`: 200 texts, each a second time (copied, or with one word changed) or five times in a group;
split by CertifiedClassifier, and for comparison by rows. `separate`: the classifier is fitted on
the texts and calibrated on their changed copies and as many others.
Of 20news five classes, and of TREC five, where texts are few.
"""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import multiprocessing
import time
import warnings
from functools import cache

import numba
import numpy as np
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

import target_data
from harness import finish, parser_for
from pacsent import CertifiedClassifier, TextClassifier, certify_predictions
from pacsent.guarantees import (
    DriftMonitor,
    compare,
    control_risk,
)
from pacsent.guarantees.error_certificate import error_certificate
from pacsent.maths.binomial import upper_limit
from pacsent.paper import benchmark_datasets as datasets

SETS = ("subj", "mr", "trec", "20news", "imdb")
PARTS = ("draws", "targets", "seeds", "copies")
N_FIT, N_CALIBRATION, DELTA, ERROR, PRECISION, RECALL = 400, 300, 0.05, 0.1, 0.8, 0.7
N_POOL, N_SEEDS, IN_GROUP = 3000, 50, 10
AT_ONCE = 25  # draws of one job


@cache
def loaded(name, data, few_classes=False):
    """Different training texts and their labels; of five classes at most."""
    found = datasets.load(name, data)
    of = dict(zip(found.train_texts, np.asarray(found.train_labels).tolist()))
    texts, labels = list(of), np.array(list(of.values()))
    if few_classes:
        often = np.argsort(-np.bincount(labels), kind="stable")[:5]
        kept = np.flatnonzero(np.isin(labels, often))
        texts, labels = [texts[i] for i in kept], labels[kept]
    return texts, labels


def parted(order, n):
    """The first n, or half of them where there are few, and the rest."""
    return np.split(order, [min(n, len(order) // 2)])


def drawn(name, data, n, seed, few_classes=False):
    """(n texts, their labels, others, their labels); five of each class where there are few."""
    texts, labels = loaded(name, data, few_classes)
    rng = np.random.default_rng([seed, n])
    for _ in range(1000):
        first, rest = parted(rng.permutation(len(texts))[: n + N_POOL], n)
        if np.bincount(labels[first])[np.unique(labels)].min() >= 5 or not few_classes:
            break
    return [texts[i] for i in first], labels[first], [texts[i] for i in rest], labels[rest]


def ours():
    return TextClassifier("english", n_jobs=1)


def quick():
    return make_pipeline(TfidfVectorizer(sublinear_tf=True), LogisticRegression(C=30.0))


class Known:
    """A fitted classifier whose probabilities are looked up."""

    def __init__(self, model, texts):
        self.classes_ = model.classes_
        self._rows = {t: i for i, t in enumerate(texts)}
        self.log_proba = np.log(np.maximum(model.predict_proba(texts), 1e-300))

    def fit(self, X, y):
        raise NotImplementedError("it is fitted")

    def predict_proba(self, texts):
        return np.exp(self.log_proba[[self._rows[t] for t in texts]])

    def predict(self, texts):
        return self.classes_[self.predict_proba(texts).argmax(axis=1)]


# ---- one fixed classifier ------------------------------------------------------------------------


@cache
def fixed(name, data):
    texts, labels, pool, true = drawn(name, data, N_FIT, 0)
    known = Known(ours().fit(texts, labels), pool)
    other = Known(quick().fit(texts, labels), pool)
    kept = np.flatnonzero(np.isin(true, known.classes_))
    return known, other, [pool[i] for i in kept], true[kept]


def draws(name, data, seeds):
    """Counts of broken guarantees, and sums of widths, over some draws."""
    known, other, pool, true = fixed(name, data)
    counts = {}
    for seed in seeds:
        for key, value in one_draw(known, other, pool, true, np.random.default_rng(seed)).items():
            counts[key] = counts.get(key, 0.0) + float(value)
    return {"set": name, "draws": len(seeds), **counts}


def one_draw(known, other, pool, true, rng):
    order = rng.permutation(len(pool))
    some, rest = parted(order, N_CALIBRATION)
    texts, labels = [pool[i] for i in some], true[some]
    log_proba = known.log_proba[[known._rows[pool[i]] for i in rest]]
    right = known.classes_.searchsorted(true[rest])
    wrong = log_proba.argmax(axis=1) != right
    found = {}
    for joint in (False, True):
        certified = CertifiedClassifier(known, prefit=True, delta=DELTA, simultaneous=joint,
                                        random_state=0).calibrate(texts, labels)  # fmt: skip
        three = of_three(certified, log_proba, right, wrong, found)
        if joint:
            found["all three jointly"] = any(three.values())
        else:
            found |= three
            found["any of three"] = any(three.values())
            found |= of_thresholds(certified, log_proba, right)
    found |= of_predictions(known, texts, labels, log_proba, right, wrong)
    found |= of_groups(known, pool, true, rng)
    pair = compare(known, other, texts, labels)
    other_wrong = other.predict([pool[i] for i in rest]) != true[rest]
    difference = other_wrong.mean() - wrong.mean()
    found["compare"] = not pair.bounds[0] <= difference <= pair.bounds[1]
    stream = rng.permutation(len(rest))[:300]
    watcher = DriftMonitor(certified, alpha=DELTA, seed=0)
    watcher.see(log_proba[stream])
    found["alarm"] = watcher.alarm
    return found


def of_three(certified, log_proba, right, wrong, sums):
    sets = log_proba >= certified.set_thresholds(error=ERROR)
    rule, chosen = certified.abstain(error=ERROR), certified.abstain()
    answered = [np.exp(log_proba.max(axis=1)) >= one.threshold for one in (rule, chosen)]
    if not certified.simultaneous:
        sums["answered"] = answered[0].mean()
        some = wrong[answered[1]]
        sums["abstaining with its own error"] = bool(some.size and some.mean() > chosen.error)
    return {
        "certificate": wrong.mean() > certified.certificate_.bound,
        "label sets": (~sets[np.arange(right.size), right]).mean() > ERROR,
        "abstaining": bool(answered[0].any() and wrong[answered[0]].mean() > ERROR),
    }


def of_thresholds(certified, log_proba, right):
    found = {}
    is_class = right[:, None] == np.arange(log_proba.shape[1])
    for what, least in (("precision", PRECISION), ("recall", RECALL)):
        chosen = certified.tune_thresholds(**{what: least}).thresholds
        limits = [chosen[c] for c in certified.classes_.tolist()]
        named = np.exp(log_proba) >= [np.inf if limit is None else limit for limit in limits]
        both = (named & is_class).sum(axis=0)
        whole = (named if what == "precision" else is_class).sum(axis=0)
        usable = [limit is not None and n > 0 for limit, n in zip(limits, whole)]
        found[what] = bool((both < least * whole)[usable].any())
    return found


def of_predictions(known, texts, labels, log_proba, right, wrong):
    """`certify_predictions`: all bounds together."""
    classes = known.classes_.tolist()
    found = certify_predictions(
        labels, known.predict(texts), texts=texts,
        classes=classes, recall="all", precision="all", delta=DELTA, random_state=0,
    )  # fmt: skip
    said = log_proba.argmax(axis=1)
    broken = [wrong.mean() > found.bound]
    for c, name in enumerate(classes):
        for bounds, of in ((found.class_bounds, right), (found.answer_bounds, said)):
            broken.append((of == c).any() and wrong[of == c].mean() > bounds[str(name)])
    return {
        "certify_predictions": any(broken),
        "bound": found.bound,
        "true error": wrong.mean(),
    }


def of_groups(known, pool, true, rng):
    """40 groups of neighbours in confidence: the bound for new groups, and of groups ignored."""
    sure = known.log_proba.max(axis=1)[[known._rows[t] for t in pool]]
    n_groups = len(pool) // IN_GROUP
    group_of = np.argsort(np.argsort(sure)) // IN_GROUP
    held = rng.permutation(n_groups)[:40]
    some = np.flatnonzero(np.isin(group_of, held))
    wrong = known.predict(pool) != true
    rest = np.flatnonzero(~np.isin(group_of, held) & (group_of < n_groups))
    found = error_certificate(true[some].tolist(), known.predict([pool[i] for i in some]).tolist(),
                              group_of=group_of[some], delta=DELTA, seed=0)  # fmt: skip
    naive = upper_limit(int(wrong[some].sum()), some.size, DELTA)
    truth = wrong[rest].mean()
    return {"groups": truth > found.bound, "groups ignored": truth > naive}


# ---- sets of labels ------------------------------------------------------------------------------


@cache
def fixed_labels(data):
    found = target_data.load_targets("goemotions", data)
    order = np.random.default_rng(0).permutation(len(found.texts["train"]))
    fit, rest = parted(order[:6000], 3000)
    has = found.targets["train"]
    often = np.flatnonzero(has[fit].sum(axis=0) >= 40)
    texts = found.texts["train"]
    model = TextClassifier("english", n_jobs=1).fit([texts[i] for i in fit], has[fit][:, often])
    proba = model.predict_proba([texts[i] for i in rest])
    return model, has[rest][:, often].astype(bool), proba


def targets(name, data, seeds):
    counts = {}
    for seed in seeds:
        rng = np.random.default_rng(seed)
        one = one_of_labels(data, rng)
        for key, value in one.items():
            counts[key] = counts.get(key, 0.0) + float(value)
    return {"set": name, "draws": len(seeds), **counts}


def one_of_labels(data, rng):
    model, has, proba = fixed_labels(data)
    order = rng.permutation(len(has))
    a, b = order[:500], order[500:]
    given = model.given(proba)
    found = certify_predictions(has[a], given[a], delta=DELTA, random_state=0)
    parts = np.array([(x & y).sum(axis=0) for x, y in (
        (has[b], given[b]), (~has[b], given[b]), (has[b], ~given[b]))])  # fmt: skip
    each = 2 * parts[0] / np.maximum(2 * parts[0] + parts[1] + parts[2], 1)
    total = parts.sum(axis=1)
    broken = [
        (has[b] != given[b]).any(axis=1).mean() > found.bound,
        2 * total[0] / (2 * total[0] + total[1] + total[2]) < found.micro_f1_bound,
        each.mean() < found.macro_f1_bound,
        ((has[b] != given[b]).mean(axis=0) > np.array(list(found.label_bounds.values()))).any(),
        (each < np.array(list(found.label_f1_bounds.values()))).any(),
    ]
    few = control_risk(has[a], proba[a], false_negatives=0.2, delta=DELTA).predict(proba[b])
    missed = ((has[b] & ~few).sum(axis=1) / np.maximum(has[b].sum(axis=1), 1)).mean()
    plan = model.out_of_fold_.labels, np.exp(model.out_of_fold_.log_proba)
    sure = control_risk(has[a], proba[a], false_discoveries=0.4, delta=DELTA, planning=plan)
    sure = sure.predict(proba[b])
    some = sure.any(axis=1)
    false = (
        ((sure & ~has[b]).sum(axis=1)[some] / sure.sum(axis=1)[some]).mean() if some.any() else 0
    )
    return {
        "sets of labels": any(broken), "false negatives": missed > 0.2,
        "false discoveries": false > 0.4, "texts with a label": some.mean(),
    }  # fmt: skip


# ---- what breaks a guarantee ---------------------------------------------------------------------


def seeds(name, data, which):
    """The smallest bound of 50 hold-outs: how often it is broken, and with n_candidates=50."""
    found = {"set": name, "draws": len(which), "best of 50": 0, "corrected for 50": 0,
             "first seed": 0}  # fmt: skip
    for seed in which:
        texts, labels, pool, true = drawn(name, data, 200, seed, few_classes=True)
        tried = []
        for holdout_seed in range(N_SEEDS):
            try:
                one = CertifiedClassifier(quick(), random_state=holdout_seed).fit(texts, labels)
            except ValueError:  # a class with too few texts left
                continue
            error = (one.predict(pool) != true).mean()
            parts = one.certificate_
            corrected = upper_limit(parts.n_errors, parts.n, DELTA / N_SEEDS)
            tried.append((parts.bound, error, corrected))
        bound, error, corrected = min(tried)
        found["best of 50"] += int(error > bound)
        found["corrected for 50"] += int(error > corrected)
        found["first seed"] += int(tried[0][1] > tried[0][0])
    return found


def changed(text, rng):
    """The text with one word replaced by another that is in no other text."""
    words = text.split()
    words[rng.integers(len(words))] = "q" + "".join(rng.choice(list("abcdefghij"), 7))
    return " ".join(words)


def copies(name, data, which):
    """Bounds broken where texts repeat: split by units, or groups, and by rows."""
    found = {"set": name, "draws": len(which)}
    for seed in which:
        rng = np.random.default_rng(seed)
        texts, labels, pool, true = drawn(name, data, 200, seed, few_classes=True)
        pool, true = pool[:2000], true[:2000]
        for kind, n in (("copies", 2), ("near copies", 2), ("groups", 5)):
            some = range(len(texts)) if kind != "groups" else range(0, len(texts), 2)
            X = [t if kind == "copies" or not i else changed(t, rng)
                 for t in (texts[j] for j in some) for i in range(n)]  # fmt: skip
            y = np.repeat(labels[list(some)], n)
            groups = np.repeat(np.arange(len(some)), n) if kind == "groups" else None
            one = CertifiedClassifier(ours(), random_state=seed).fit(X, y, groups=groups)
            broken = (one.predict(pool) != true).mean() > one.certificate_.bound
            rows = rng.permutation(len(X))
            held, rest = rows[: round(0.4 * len(X))], rows[round(0.4 * len(X)) :]
            naive = ours().fit([X[i] for i in rest], y[rest])
            n_wrong = int((naive.predict([X[i] for i in held]) != y[held]).sum())
            by_rows = (naive.predict(pool) != true).mean() > upper_limit(n_wrong, held.size, DELTA)
            for key, value in ((kind, broken), (f"{kind} by rows", by_rows)):
                found[key] = found.get(key, 0) + int(value)
        one = CertifiedClassifier(ours().fit(texts, labels), prefit=True, random_state=seed)
        X = [*(changed(t, rng) for t in texts), *pool[:200]]
        one.calibrate(X, np.concatenate([labels, true[:200]]))
        n_wrong = int((one.predict(X) != np.concatenate([labels, true[:200]])).sum())
        error = (one.predict(pool[200:]) != true[200:]).mean()
        found["separate"] = found.get("separate", 0) + int(error > one.certificate_.bound)
        naive = upper_limit(n_wrong, len(X), DELTA)
        found["separate by rows"] = found.get("separate by rows", 0) + int(error > naive)
    return found


# ---- all of it -----------------------------------------------------------------------------------


def work(job):
    warnings.simplefilter("ignore")
    part, name, data, which = job
    began = time.process_time()
    return globals()[part](name, data, which), time.process_time() - began


def alone():
    """One thread for every process."""
    numba.set_num_threads(1)


def jobs_of(part, given):
    """Independent jobs of one part, those that take longest first."""
    few = max(1, given.draws // 20)  # repetitions of what is fitted anew each time
    which = {
        "draws": chunks(given.draws),
        "targets": chunks(given.draws),
        "seeds": [[seed] for seed in range(few)],
        "copies": [[seed] for seed in range(few)],
    }[part]
    names = ("goemotions",) if part == "targets" else given.sets
    return [(part, name, given.data, one) for one in which for name in names]


def chunks(n):
    return [list(range(first, min(first + AT_ONCE, n))) for first in range(0, n, AT_ONCE)]


def summed(rows):
    """The rows of one set added up; sums of shares and widths become means."""
    total = {}
    for row in rows:
        for key, value in row.items():
            total[key] = value if isinstance(value, str) else total.get(key, 0) + value
    means = ("answered", "bound", "true error", "texts with")
    return {key: value / total["draws"] if str(key).startswith(means) else
            value if isinstance(value, str) else int(value)
            for key, value in total.items()}  # fmt: skip


def main():
    parser = parser_for(__doc__, name="")
    parser.add_argument("--sets", nargs="+", default=list(SETS))
    parser.add_argument("--parts", nargs="+", default=list(PARTS), choices=PARTS)
    parser.add_argument("--draws", type=int, default=200)
    parser.add_argument("--processes", type=int, default=2)
    given = parser.parse_args()
    for name in given.sets:  # once, before there are processes
        loaded(name, given.data), loaded(name, given.data, True)
    some = drawn(given.sets[0], given.data, 100, 0, few_classes=True)
    CertifiedClassifier(ours(), random_state=0).fit(some[0], some[1])  # compiles
    titles = {
        "draws": "Guarantees that were broken, of the draws, delta 0.05",
        "targets": "Guarantees of sets of labels that were broken",
        "seeds": "The smallest bound of 50 hold-outs: broken",
        "copies": "Bounds broken where texts repeat each other",
    }
    for part in given.parts:
        made, found, seconds = jobs_of(part, given), [], 0.0
        with multiprocessing.get_context("fork").Pool(given.processes, alone) as pool:
            for row, took in pool.imap_unordered(work, made):
                found.append(row)
                seconds += took
        names = dict.fromkeys(row["set"] for row in found)
        rows = [summed([row for row in found if row["set"] == name]) for name in names]
        summary = {"core minutes": round(seconds / 60, 1)}
        for key in rows[0]:
            counts = [(row[key], row["draws"]) for row in rows if isinstance(row[key], int)]
            if counts and key != "draws":
                broken, n = np.sum(counts, axis=0)
                summary[f"share broken: {key}"] = float(broken / n)
        finish("guarantees", rows, title=titles[part], summary=summary, save=given.save,
               name=given.name or part)  # fmt: skip


if __name__ == "__main__":
    main()
