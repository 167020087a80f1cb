"""How much a second labeller tightens the bound on a batch, and how often bounds are broken.

    python benchmarks/judges.py [--draws 1000] [--processes 2] [--save]

A batch of 10,000 rows of two classes; predictions err in 5, 10 or 20 % of the rows, and a judge is
right in 50 to 95 %, independently. n rows are drawn at random and labelled. Bounds at 95 %: of
Clopper and Pearson for a batch, with the judge (`certify_predictions`), and the asymptotic ones of
the normal approximation and of ppi_py (pip install ppi-python), where it is installed.
"""

import numpy as np
from scipy import stats

from harness import finish, parser_for, run_jobs
from pacsent.bounds.binomial import batch_limit, stratified_limit

try:
    from ppi_py import ppi_mean_ci
except ImportError:
    ppi_mean_ci = None
N, DELTA = 10_000, 0.05
ERRORS, ACCURACIES, SIZES = (0.05, 0.1, 0.2), (0.5, 0.85, 0.9, 0.95), (30, 100, 500)


def measure(job):
    """The mean excess of each bound over the true error, and how often it is below it."""
    error, accuracy, n, draws = job
    rng = np.random.default_rng([int(1000 * error), int(100 * accuracy), n])
    wrong = rng.permutation(N) < round(error * N)
    disagrees = wrong ^ (rng.random(N) < 1 - accuracy)  # two classes: it is wrong, or the judge is
    sizes, known, excess = (int(disagrees.sum()), int((~disagrees).sum())), {}, {}
    for _ in range(draws):
        rows, others = np.split(rng.permutation(N), [n])
        k = int((wrong & disagrees)[rows].sum()), int((wrong & ~disagrees)[rows].sum())
        n_of = int(disagrees[rows].sum()), n - int(disagrees[rows].sum())
        if (k, n_of) not in known:
            exact = batch_limit(sum(k), n, N, DELTA), stratified_limit(k, n_of, sizes, DELTA)
            known[k, n_of] = dict(zip(("Clopper-Pearson", "with judge"), exact))
        margin = stats.norm.ppf(1 - DELTA) * np.sqrt(wrong[rows].var() / n)
        bounds = known[k, n_of] | {"normal": sum(k) / n + margin}
        if ppi_mean_ci is not None:
            parts = (x.astype(float) for x in (wrong[rows], disagrees[rows], disagrees[others]))
            with np.errstate(all="ignore"):
                interval = ppi_mean_ci(*parts, alpha=DELTA, alternative="smaller")
            bounds["ppi_py"] = float(np.ravel(interval[1])[0])
        for name, bound in bounds.items():
            excess.setdefault(name, []).append(bound - error)
    row = {"error": error, "judge right": accuracy, "labels": n}
    for name, values in excess.items():
        row[f"{name}, excess"] = float(np.mean(values))
        row[f"{name}, broken (%)"] = 100 * float(np.mean(np.array(values) < 0))
    return row


def main():
    parser = parser_for(__doc__)
    parser.add_argument("--draws", type=int, default=1000)
    parser.add_argument("--processes", type=int, default=2)
    given = parser.parse_args()
    jobs = [(e, a, n, given.draws) for n in SIZES for e in ERRORS for a in ACCURACIES]
    rows = run_jobs(measure, jobs, given.processes)
    summary = {f"most {k}": max(row[k] for row in rows) for k in rows[0] if "broken" in k}
    summary["draws"], title = given.draws, "Upper bounds on the error of a batch with a judge"
    finish("judges", rows, title=title, summary=summary, save=given.save, name=given.name)


if __name__ == "__main__":
    main()
