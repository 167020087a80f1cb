"""Abstaining, alarms of streams and probabilities with few labels: before and after.

    python benchmarks/procedures.py [abstain|streams|few] [--data FOLDER]
        [--sets subj mr trec 20news imdb] [--labels 700] [--runs 40] [--save]

Texts are of training parts alone. A TextClassifier with the English vectors of the package is
fitted on `--labels` of them; at most 3,000 others are predicted. Each run draws 300 calibration
texts from these, and the rest say what is true.
`abstain`: share of texts that are answered and runs in which more than `error` of the answers are
wrong, delta .05: from where a perfect record of the calibration texts could pass ("before"), from
four starts spread over the range at delta / 4, as planned on out-of-fold predictions (which do not
depend on the calibration texts), and planned with the randomised tests that are used. "possible" is
the largest share with at most `error` wrong on all these texts. "simulated" are probabilities that
are right on average.
`streams`: streams of 300 texts that raise an alarm at alpha .05, and the median text of the alarm:
unchanged, the most frequent class removed, and that class three times as frequent; with one
martingale on the confidence ("before") and with all quantities.
`few`: 100 labels, four draws: confidence minus accuracy, expected calibration error in 15 bins and
log-loss, averaged over the posterior of the temperature; "before" with the one best temperature of
rows that are left out as they are, not scaled like new texts.
"""

import warnings
from unittest.mock import patch

import numpy as np

from classify import load
from harness import finish, parser_for
from pacsent import TextClassifier
from pacsent import load as open_model
from pacsent.classify import fitting
from pacsent.guarantees import StreamWatcher
from pacsent.guarantees.abstaining import Plan, accepted, lowest_valid_threshold, plan
from pacsent.guarantees.calibration_set import Calibration
from pacsent.guarantees.stream_watcher import growth, monitors_of
from pacsent.maths import temperature
from pacsent.maths.binomial import n_needed, p_values

DELTA = 0.05
N_CALIBRATION = 300
TITLES = {
    "abstain": "Share of texts answered with 300 calibration texts, delta 0.05",
    "streams": "Alarms in streams of 300 texts, alpha 0.05",
    "few": "Probabilities with 100 labels",
}


def drawn(name, data, n, seed, n_others, least=0.0):
    """(texts, labels, other texts, their labels) from the training part."""
    texts, labels, _, _ = load(name, data, 0)
    labels = np.asarray(labels)
    some = np.flatnonzero(np.bincount(labels)[labels] >= least * labels.size)
    texts, labels = [texts[i] for i in some], labels[some]
    order = np.random.default_rng([seed, n]).permutation(len(texts))
    first, rest = order[:n], order[n : n + n_others]
    return [texts[i] for i in first], labels[first], [texts[i] for i in rest], labels[rest]


def fitted(words, texts, labels):
    return TextClassifier(words, n_jobs=1).fit(texts, labels)


# ---- abstaining ----------------------------------------------------------------------------------


def quantiles(confidence):
    return np.unique(np.quantile(confidence, np.linspace(0, 1, 201)))[::-1]


def before(planning, pool, error):
    """From where a perfect record of these very calibration texts could pass."""
    thresholds = quantiles(planning[0])
    enough = accepted(thresholds, *pool)[0] >= n_needed(error, DELTA)
    planned = Plan(thresholds[int(np.argmax(enough)) :] if enough.any() else thresholds[:0], 1.0)
    return exactly_passed(planned, pool, error, DELTA)


def exactly_passed(planned, pool, error, delta):
    """The lowest threshold that passes without randomised tests, or None."""
    failed = p_values(*accepted(planned.thresholds, *pool), error) > delta
    n_passed = int(np.argmax(failed)) if failed.any() else failed.size
    return planned.thresholds[n_passed - 1] if n_passed else None


def four_starts(planning, pool, error):
    """From four starts spread over the range of training's confidences, each at delta / 4."""
    thresholds = quantiles(planning[0])
    share = accepted(thresholds, *planning)[0] / planning[0].size
    first = int(np.argmax(N_CALIBRATION * share >= n_needed(error, DELTA / 4)))
    found = []
    for start in np.linspace(first, thresholds.size - 1, 5)[:4].astype(int):
        one = exactly_passed(Plan(thresholds[start:], 1.0), pool, error, DELTA / 4)
        found += [] if one is None else [one]
    return min(found, default=None)


def as_planned(planning, pool, error):
    return exactly_passed(plan(*planning, N_CALIBRATION, error, DELTA), pool, error, DELTA)


def randomised(planning, pool, error):
    planned = plan(*planning, N_CALIBRATION, error, DELTA)
    at = lowest_valid_threshold(planned, *pool, error, DELTA)
    return None if at is None else planned.thresholds[at]


METHODS = {"before": before, "four starts": four_starts, "planned": as_planned,
           "randomised": randomised}  # fmt: skip


def abstain_rows(name, planning, pool, n_runs):
    """Rows for both errors; planning and pool are (confidence, wrong)."""
    rows = []
    order = np.argsort(-pool[0])
    shown = np.cumsum(pool[1][order]) / np.arange(1, order.size + 1)
    for error in (0.05, 0.1):
        good = np.flatnonzero(shown <= error)
        row = {
            "set": name,
            "error": error,
            "possible": (good[-1] + 1 if good.size else 0) / order.size,
        }
        for method, threshold_of in METHODS.items():
            rng = np.random.default_rng(1)
            covered, answering, broken = [], 0, 0
            for _ in range(n_runs):
                some = rng.permutation(order.size)
                known, new = some[:N_CALIBRATION], some[N_CALIBRATION:]
                threshold = threshold_of(planning, (pool[0][known], pool[1][known]), error)
                answers = pool[0][new] >= (2.0 if threshold is None else threshold)
                answering += bool(answers.any())
                broken += bool(answers.any() and pool[1][new][answers].mean() > error)
                covered.append(answers.mean())
            row |= {method: float(np.mean(covered)), f"{method}, answering": answering,
                    f"{method}, broken": broken}  # fmt: skip
        rows.append(row | {"runs": n_runs})
    return rows


def simulated(rng, n):
    confidence = 0.5 + rng.beta(4, 1.5, n) / 2
    return confidence, rng.random(n) < 1 - confidence


def abstain(given, words):
    rng = np.random.default_rng(0)
    rows = abstain_rows("simulated", simulated(rng, 700), simulated(rng, 3000), given.runs)
    for name in given.sets:
        texts, labels, others, true = drawn(name, given.data, given.labels, 0, 3000)
        model = fitted(words, texts, labels)
        found = model.predict_log_proba(others)
        of_fold = model.out_of_fold_
        rows += abstain_rows(
            name, *(
                (np.exp(p.max(axis=1)), p.argmax(axis=1) != model.classes_.searchsorted(y))
                for p, y in ((of_fold.log_proba, model.classes_[of_fold.labels]), (found, true))
            ), given.runs,
        )  # fmt: skip
    means = {m: float(np.mean([row[m] for row in rows])) for m in METHODS}
    return rows, {f"mean share answered, {m}": round(v, 3) for m, v in means.items()}


# ---- streams -------------------------------------------------------------------------------------


def by_confidence(known, stream, seed):
    """Text of the alarm of the simple jumper on the confidence alone, or None."""
    rng, scores, capital = np.random.default_rng(seed), sorted(known.tolist()), np.full(3, 1 / 3)
    for t, value in enumerate(stream.tolist(), 1):
        low, high = np.searchsorted(scores, value), np.searchsorted(scores, value, side="right")
        p = (low + rng.random() * (high - low + 1)) / (len(scores) + 1)
        scores.insert(high, value)
        capital = (0.01 * capital.mean() + 0.99 * capital) * growth(np.array([p]))[0, [0, 2, 4]]
        if capital.sum() >= 1 / DELTA:
            return t
    return None


def streams(given, words):
    rows = []
    for name in given.sets:
        texts, labels, others, true = drawn(name, given.data, given.labels, 0, 3000)
        model = fitted(words, texts, labels)
        found, monitors = model.predict_log_proba(others), monitors_of(model, others)
        y = model.classes_.searchsorted(true)
        common = np.bincount(y).argmax()
        often = np.where(y == common, 3.0, 1.0)
        for kind, chance in (
            ("unchanged", np.ones(y.size)),
            ("class removed", (y != common) * 1.0),
            ("class x 3", often),
        ):
            at, before, named = [], [], 0
            for seed in range(given.runs):
                rng = np.random.default_rng(seed)
                order = rng.permutation(y.size)
                known, rest = order[:N_CALIBRATION], order[N_CALIBRATION:]
                left = chance[rest] / chance[rest].sum()
                size = min(300, int(0.5 * (left > 0).sum()))
                stream = rng.choice(rest, size, replace=False, p=left)
                model.calibration_ = Calibration(found[known], y[known], monitors=monitors[known])
                watcher = StreamWatcher(model, alpha=DELTA, seed=seed)
                watcher.see(found[stream], None, monitors[stream])
                at.append(watcher.alarm_at)
                named += any("class" in change.name for change in watcher.changes)
                confidence = found.max(axis=1)
                before.append(by_confidence(confidence[known], confidence[stream], seed))
            alarms = [t for t in at if t is not None]
            rows.append({
                "set": name, "stream": kind, "of": given.runs,
                "before": sum(t is not None for t in before), "alarms": len(alarms),
                "at text": float(np.median(alarms)) if alarms else None, "a class named": named,
            })  # fmt: skip
    same = [row for row in rows if row["stream"] == "unchanged"]
    false = sum(row["alarms"] for row in same) / sum(row["of"] for row in same)
    return rows, {"share of false alarms": round(false, 4)}


# ---- few labels ----------------------------------------------------------------------------------


def quality(log_proba, y):
    """Confidence minus accuracy, expected calibration error, log-loss."""
    sure, hits = np.exp(log_proba.max(axis=1)), log_proba.argmax(axis=1) == y
    bins = np.minimum((15 * sure).astype(int), 14)
    error = sum(abs((sure - hits)[bins == b].sum()) for b in range(15)) / y.size
    return [float(np.mean(sure - hits)), error, float(-log_proba[np.arange(y.size), y].mean())]


def not_grown(X, folds):
    return np.ones(X.shape[0])


def few(given, words):
    rows = []
    for name in given.sets:
        found = []
        for seed in range(4):
            texts, labels, others, true = drawn(name, given.data, 100, seed, 1500, 0.04)
            found.append([])
            for scaled in (False, True):
                with patch.object(fitting, "growth", fitting.growth if scaled else not_grown), \
                        patch.object(temperature, "_N_NODES", 9 if scaled else 1):  # fmt: skip
                    model = fitted(words, texts, labels)
                known = np.isin(true, model.classes_)
                y = model.classes_.searchsorted(true[known])
                some = [text for text, there in zip(others, known) if there]
                found[-1].append(quality(model.predict_log_proba(some), y))
        before, after = np.mean(found, axis=0)
        names = ("confidence - accuracy", "calibration error", "log-loss")
        rows.append({"set": name} | {
            f"{what}, {when}": round(float(value), 4)
            for when, values in (("before", before), ("after", after))
            for what, value in zip(names, values)
        })  # fmt: skip
    return rows, {
        key: round(float(np.mean([r[key] for r in rows])), 4) for key in rows[0] if key != "set"
    }


def main():
    parser = parser_for(__doc__)
    parser.add_argument("job", nargs="?", default="abstain", choices=list(TITLES))
    parser.add_argument("--sets", nargs="*", default=["subj", "mr", "trec", "20news", "imdb"])
    parser.add_argument("--labels", type=int, default=700)
    parser.add_argument("--runs", type=int, default=40)
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    jobs = {"abstain": abstain, "streams": streams, "few": few}
    words = open_model("english")
    rows, summary = jobs[given.job](given, words)
    name = given.job if given.name == "default" else given.name
    finish("procedures", rows, title=TITLES[given.job], summary=summary, save=given.save, name=name)


if __name__ == "__main__":
    main()
