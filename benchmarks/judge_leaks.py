"""Judges that saw the labels: how often the bound is broken, and how often this is noticed.

    python benchmarks/judge_leaks.py [--draws 300] [--processes 2] [--save]

A batch of 2,000 rows of 12 classes. Predictions err in 30 % of the rows. A judge repeats the
prediction in 0, 50 or 80 % of the rows, as a model of the same kind does, and is right in 80 % of
the others. n rows are drawn at random and labelled, and for a fraction of these the judge gives the
label itself, as a model that was fitted on them does. With that fraction 0 the judge is honest.
`certify_predictions` warns and refuses by the one-sided test of `pacsent.certify.judges`.
"""

import numpy as np

from harness import finish, parser_for, run_jobs
from pacsent.bounds.binomial import stratified_limit
from pacsent.certify import judges

N, N_CLASSES, ERROR, DELTA = 2_000, 12, 0.3, 0.05
ACCURACY, REPEATED = 0.8, (0.0, 0.5, 0.8)
SEEN, SIZES = (0.0, 0.25, 0.5, 1.0), (50, 100, 200)


def copy_with_errors(rng, labels, error):
    """The labels with another class in this fraction of the rows, (N,)."""
    others = (labels + rng.integers(1, N_CLASSES, N)) % N_CLASSES
    return np.where(rng.random(N) < error, others, labels)


def measure(job):
    """How often the bound is broken, warned of and refused, in per cent of the draws."""
    repeated, seen, n, draws = job
    rng = np.random.default_rng([int(100 * repeated), int(100 * seen), n])
    n_broken = n_warned = n_refused = n_unnoticed = 0
    for _ in range(draws):
        labels = rng.integers(N_CLASSES, size=N)
        predictions = copy_with_errors(rng, labels, ERROR)
        judge = copy_with_errors(rng, labels, 1 - ACCURACY)
        judge = np.where(rng.random(N) < repeated, predictions, judge)
        is_seen = (np.arange(N) < n) & (rng.random(N) < seen)  # the first n rows are labelled
        judge = np.where(is_seen, labels, judge)

        others = predictions[n:].tolist(), judge[n:].tolist()
        columns = [judge[:n].tolist(), *others]
        counts = judges.count_judged(labels[:n].tolist(), predictions[:n].tolist(), columns)
        rows, n_of, n_errors = zip(*(counts["judge_counts"][k] for k in ("disagree", "agree")))
        bound = stratified_limit(n_errors, n_of, rows, DELTA)
        p = judges.disagreement_p_value(counts["judge_counts"], "greater")

        is_broken = bound < np.mean(predictions != labels)
        n_broken += is_broken
        n_warned += p < 0.05
        n_refused += p < 0.001
        n_unnoticed += is_broken and p >= 0.05
    counts = {"broken": n_broken, "warned": n_warned, "refused": n_refused}
    counts["broken, not warned"] = n_unnoticed
    row = {"labels": n, "repeats predictions": repeated, "labels seen": seen}
    return row | {f"{name} (%)": 100 * float(count) / draws for name, count in counts.items()}


def main():
    parser = parser_for(__doc__)
    parser.add_argument("--draws", type=int, default=300)
    parser.add_argument("--processes", type=int, default=2)
    given = parser.parse_args()
    jobs = [(r, s, n, given.draws) for n in SIZES for r in REPEATED for s in SEEN]
    rows = run_jobs(measure, jobs, given.processes)
    title = "Judges that saw labels, found and not found"
    summary = {"draws": given.draws}
    finish("judge_leaks", rows, title=title, summary=summary, save=given.save, name=given.name)


if __name__ == "__main__":
    main()
