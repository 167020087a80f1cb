"""Choose the share of labels that CertifiedClassifier holds out, on training data.

    python benchmarks/choose_holdout.py [--data FOLDER] [--draws N] [--save]

The error of TextClassifier is measured at several numbers of labels, on the rest of the training
part of SUBJ, MR and TREC; no test part is read. With a share f of n labels held out, the classifier
has (1 - f) n labels and the certificate f n: the expected Clopper-Pearson bound at delta 0.05 is
computed from the error at (1 - f) n, exactly, by the binomial distribution. What the choice costs
is how much larger that error is than the error at n.
"""

import numpy as np
from scipy import stats

from harness import finish, parser_for
from pacsent import TextClassifier
from pacsent.guarantees.independence import holdout_fraction
from pacsent.maths.binomial import upper_limit
from pacsent.paper import benchmark_datasets as datasets

SETS = ("subj", "mr", "trec")
SIZES = (25, 50, 100, 200, 400, 800, 1600, 3200)
LABELS = (50, 100, 200, 300, 500, 1000, 2000, 4000)
SHARES = (0.1, 0.2, 0.3, 0.4, 0.5)
DELTA = 0.05
_TESTED = 2000  # texts that measure an error


def learning_curve(data, draws, rng):
    """Mean error at each of SIZES, on training texts that were not fitted."""
    found = {}
    for size in SIZES:
        errors = []
        for _ in range(draws if size <= 400 else max(1, draws // 2)):
            order = rng.permutation(len(data.train_texts))
            rows, tested = order[:size], order[size : size + _TESTED]
            kept = np.isin(
                data.train_labels, np.flatnonzero(np.bincount(data.train_labels[rows]) > 1)
            )
            rows = rows[kept[rows]]  # a class needs two texts; others count as errors
            texts = [data.train_texts[i] for i in rows]
            model = TextClassifier("english").fit(texts, data.train_labels[rows])
            said = model.predict([data.train_texts[i] for i in tested])
            errors.append(float(np.mean(said != data.train_labels[tested])))
        found[size] = float(np.mean(errors))
        print(data.name, size, round(found[size], 4), flush=True)
    return found


def error_at(curve, n):
    """The error at n labels: straight lines between the measured ones on logarithmic axes."""
    sizes = np.log(list(curve))
    return float(np.exp(np.interp(np.log(n), sizes, np.log(list(curve.values())))))


def expected_bound(error, n):
    """Mean of the Clopper-Pearson bound on n texts with this error rate."""
    k = np.arange(n + 1)
    chance = stats.binom.pmf(k, n, error)
    some = np.flatnonzero(chance > 1e-9)
    return float(sum(chance[i] * upper_limit(int(i), n, DELTA) for i in some))


def main():
    parser = parser_for(__doc__, name="training-sets")
    parser.add_argument("--draws", type=int, default=4, help="fits at each size (%(default)s)")
    given = parser.parse_args()
    rng = np.random.default_rng(0)
    curves = {}
    for name in SETS:
        data = datasets.load(name, given.data).split()
        curves[name] = learning_curve(data, given.draws, rng)
    rows = []
    for n in LABELS:
        row = {"labels": n}
        bounds = {}
        for share in SHARES:
            held_out = round(share * n)
            found = [
                expected_bound(error_at(curve, n - held_out), held_out) for curve in curves.values()
            ]
            bounds[share] = row[f"bound, {share:g} held out"] = float(np.mean(found))
        auto = holdout_fraction("auto", n)
        held_out = round(auto * n)
        row["best share"] = min(bounds, key=bounds.get)
        row["auto"] = auto
        cost = [error_at(curve, n - held_out) - error_at(curve, n) for curve in curves.values()]
        row["error that auto adds"] = float(np.mean(cost))
        row["bound of auto over best"] = bounds[auto] - min(bounds.values())
        rows.append(row)
    worst = max(row["bound of auto over best"] for row in rows)
    summary = {
        "largest bound of auto over best": worst,
        "labels 100: bound at 0.2": rows[1]["bound, 0.2 held out"],
        "labels 100: bound of auto": rows[1][f"bound, {rows[1]['auto']:g} held out"],
    }
    finish("choose_holdout", rows, title="Share of labels to hold out, chosen on training sets",
           summary=summary, save=given.save, name=given.name)  # fmt: skip


if __name__ == "__main__":
    main()
