"""Guarantees for search on real queries: how often are they broken?

    python benchmarks/simulate_search.py --save

Queries with known answers: subjects of test posts of 20 Newsgroups that find their bodies, and
first sentences of passages of books that find the rest. Many times, some of the queries calibrate
and all others are new: a guarantee is broken where the share of new queries with their right text
among the hits is below what was stated, the limit of `certify` where it is below their share of
misses. The negative control takes the same quantiles without the correction for chance. The new
queries are a finite sample, which adds noise of its own: breaks of exact guarantees may exceed
delta a little.
"""

import numpy as np

from choose_fusion import tasks
from harness import finish, parser_for
from pacsent import Index, make
from pacsent.maths.binomial import upper_limit
from pacsent.search.calibration import CalibrationQueries, ThresholdRule

LEVELS, DELTA, K = (0.7, 0.8, 0.9), 0.1, 10
N_CALIBRATION = 200


def share(rule, asked) -> np.ndarray:
    """Whether the right text of each query is returned."""
    return (asked.best >= rule.floor) & (asked.best - asked.right <= rule.width)


def control(asked, level) -> ThresholdRule:
    error = (1 - level) / 2
    width = np.quantile(asked.best - asked.right, 1 - error)
    return ThresholdRule(float(width), float(np.quantile(asked.best, error)), "")


def main():
    parser = parser_for(__doc__)
    parser.add_argument("--draws", type=int, default=2000)
    given = parser.parse_args()
    rows = []
    encoder = make("SIF-sum", "english", on_empty="ignore").fit([])
    for task, queries, texts, right in tasks(given.data, "test", 3000):
        if task not in ("20news subjects", "books") or not queries:
            continue
        index = Index(encoder, "exact", lexical=True)
        index.add(texts)
        index.certify(queries, right, k=K)
        asked = index.calibration_
        there = np.isfinite(asked.right)
        asked = CalibrationQueries(asked.best[there], asked.right[there])
        n = asked.best.size
        first = index.search(queries, K)
        found = [bool({h.id for h in hits} & set(r)) for hits, r in zip(first, right)]
        missed = ~np.array(found)
        for level in LEVELS:
            rng = np.random.default_rng(0)
            broken, alarms, plain, limits, shares = 0, 0, 0, 0, []
            for _ in range(given.draws):
                order = rng.permutation(n)
                some, new = order[:N_CALIBRATION], order[N_CALIBRATION:]
                calibration = CalibrationQueries(asked.best[some], asked.right[some])
                others = CalibrationQueries(asked.best[new], asked.right[new])
                rule = ThresholdRule.of(calibration, level, DELTA)
                shares.append(share(rule, others).mean())
                broken += shares[-1] < level
                alarms += (others.best < rule.floor).mean() > (1 - level) / 2
                plain += share(control(calibration, level), others).mean() < level
                order = rng.permutation(missed.size)
                some, new = order[:N_CALIBRATION], order[N_CALIBRATION:]
                limits += (
                    upper_limit(int(missed[some].sum()), some.size, DELTA) < missed[new].mean()
                )
            hits = [len(some) for some in index.search(queries[:100], guarantee=level)]
            rows.append({
                "queries": f"{task} ({n:,})", "guarantee": level, "found": float(np.mean(shares)),
                "broken": broken / given.draws, "false alarms broken": alarms / given.draws,
                "certify broken": limits / given.draws, "negative control": plain / given.draws,
                "median hits": float(np.median(hits)), "mean hits": float(np.mean(hits)),
            })  # fmt: skip
    finish(
        "simulate_search", rows,
        title=f"Guarantees of search: {given.draws:,} draws of {N_CALIBRATION} queries, "
        f"delta = {DELTA}",
        summary={"most broken": max(row["broken"] for row in rows),
                 "least negative control": min(row["negative control"] for row in rows)},
        save=given.save, name=given.name,
    )  # fmt: skip


if __name__ == "__main__":
    main()
