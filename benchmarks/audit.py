"""Count how often guarantees of classifiers are broken on real texts, singly and together.

    python benchmarks/audit.py [--data FOLDER] [--sets subj mr trec 20news] [--draws 100] [--save]

For each set a TextClassifier with the English vectors learns from 400 texts of the training part.
It then stays fixed, and calibration sets of 300 texts are drawn again and again from the others;
its true error is that on all the others. Counted are the draws in which the certified error, the
label sets (error 0.1), the abstaining rule (error 0.1) or the precision of a class (0.8) is broken,
any of the first three, and any of them with joint=True; delta is 0.05, so about 5 % may be. In the
rows "each text twice" every text comes a second time with one word changed: hold-outs are then
split by CertifiedClassifier itself, and for comparison by rows.
"""

import numpy as np

from harness import finish, parser_for
from pacsent import CertifiedClassifier, TextClassifier
from pacsent.bench import datasets
from pacsent.maths.binomial import upper_limit

N_FIT, N_CALIBRATION, DELTA, ERROR, PRECISION = 400, 300, 0.05, 0.1, 0.8
JUDGES = ("certificate", "label sets", "abstaining", "precision", "any of three", "joint")


class Known:
    """A fitted classifier whose probabilities are looked up."""

    def __init__(self, model, texts):
        self.classes_ = model.classes_
        self._rows = {t: i for i, t in enumerate(texts)}
        self.log_proba = model.predict_log_proba(texts)

    def fit(self, X, y):
        raise NotImplementedError("it is fitted")

    def predict_proba(self, texts):
        return np.exp(self.log_proba[[self._rows[t] for t in texts]])

    def predict(self, texts):
        return self.classes_[self.predict_proba(texts).argmax(axis=1)]


def broken(model, texts, labels, rng, joint=False):
    """Which guarantees of one drawn calibration set are broken, by name."""
    drawn = rng.permutation(len(texts))
    some, rest = drawn[:N_CALIBRATION], drawn[N_CALIBRATION:]
    certified = CertifiedClassifier(model, prefit=True, delta=DELTA, joint=joint, random_state=0)
    certified.calibrate([texts[i] for i in some], labels[some])
    log_proba = model.log_proba[rest]
    right = np.searchsorted(model.classes_, labels[rest])
    wrong = log_proba.argmax(axis=1) != right
    sets = log_proba >= certified.set_thresholds(error=ERROR, delta=DELTA)
    rule = certified.abstain(error=ERROR, delta=DELTA)
    answered = np.exp(log_proba.max(axis=1)) >= rule.threshold
    found = {
        "certificate": bool(wrong.mean() > certified.certificate_.bound),
        "label sets": bool((~sets[np.arange(len(rest)), right]).mean() > ERROR),
        "abstaining": bool(answered.any() and wrong[answered].mean() > ERROR),
    }
    found["any of three"] = any(found.values())
    chosen = certified.thresholds(precision=PRECISION)
    limits = [chosen.thresholds[c] for c in model.classes_.tolist()]
    named = np.exp(log_proba) >= [np.inf if limit is None else limit for limit in limits]
    is_class = right[:, None] == np.arange(model.classes_.size)
    shares = [is_class[n, k].mean() for k, n in enumerate(named.T) if n.any()]
    found["precision"] = bool(shares and min(shares) < PRECISION)
    return found, float(answered.mean())


def audit(name, data, n_draws):
    """A row of counts for one set."""
    found = datasets.load(name, data)
    texts = list(dict.fromkeys(found.train_texts))
    of = dict(zip(found.train_texts, np.asarray(found.train_labels).tolist()))
    labels = np.array([of[t] for t in texts])
    order = np.random.default_rng(0).permutation(len(texts))[:5000]
    fit, others = order[:N_FIT], order[N_FIT:]
    model = TextClassifier("english").fit([texts[i] for i in fit], labels[fit])
    pool, true = [texts[i] for i in others], labels[others]
    known, counts, answered = Known(model, pool), dict.fromkeys(JUDGES, 0), []
    for draw in range(n_draws):
        which, share = broken(known, pool, true, np.random.default_rng(draw))
        answered.append(share)
        for judge, failed in which.items():
            counts[judge] += failed
        together, _ = broken(known, pool, true, np.random.default_rng(draw), joint=True)
        counts["joint"] += together["any of three"]
    return {"set": name, "draws": n_draws, **counts, "answered": float(np.mean(answered))}


def twice(name, data, n_draws):
    """Bounds broken where every text comes twice with one word changed: by units, and by rows."""
    found = datasets.load(name, data)
    texts, labels = list(found.train_texts), np.asarray(found.train_labels)
    by_units = by_rows = 0
    for draw in range(n_draws):
        rng = np.random.default_rng(draw)
        order = rng.permutation(len(texts))
        learn, judge = order[:250], order[250:2250]
        doubled = [t for i in learn for t in (texts[i], changed(texts[i], rng))]
        y = np.repeat(labels[learn], 2)
        fresh, true = [texts[i] for i in judge], labels[judge]
        certified = CertifiedClassifier(TextClassifier("english"), random_state=draw)
        certified.fit(doubled, y)
        by_units += (certified.predict(fresh) != true).mean() > certified.certificate_.bound
        rows = rng.permutation(len(doubled))
        held_out, rest = rows[:150], rows[150:]
        naive = TextClassifier("english").fit([doubled[i] for i in rest], y[rest])
        n_wrong = int((naive.predict([doubled[i] for i in held_out]) != y[held_out]).sum())
        bound = upper_limit(n_wrong, len(held_out), DELTA)
        by_rows += (naive.predict(fresh) != true).mean() > bound
    return {"set": f"{name}, each text twice", "draws": n_draws, "certificate": int(by_units),
            "split by rows": int(by_rows)}  # fmt: skip


def changed(text, rng):
    """The text with one word replaced by another that is in no other text."""
    words = text.split()
    words[rng.integers(len(words))] = "q" + "".join(rng.choice(list("abcdefghij"), 7))
    return " ".join(words)


def main():
    parser = parser_for(__doc__, name="two-cores")
    parser.add_argument("--sets", nargs="+", default=["subj", "mr", "trec", "20news"])
    parser.add_argument("--draws", type=int, default=100)
    given = parser.parse_args()
    columns = ("set", "draws", *JUDGES, "answered", "split by rows")
    rows = []
    for name in given.sets:
        for row in (audit(name, given.data, given.draws), twice(name, given.data, 10)):
            rows.append({column: row.get(column, "") for column in columns})
            print(rows[-1], flush=True)
    single = [row for row in rows if row["joint"] != ""]
    n = sum(row["draws"] for row in single)
    summary = {judge: sum(row[judge] for row in single) / n for judge in JUDGES}
    finish("audit", rows, title="Guarantees that were broken, of the draws", summary=summary,
           save=given.save, name=given.name)  # fmt: skip


if __name__ == "__main__":
    main()
