"""Texts that repeat: which rows are independent draws, and what holds whichever it is.

A table does not say why some of its texts repeat. There are two reasons:

- traffic: rows are independent draws, and frequent texts are drawn again. A new row may repeat too.
- copies: distinct texts are independent draws, and collecting them made copies of some. Clusters of
  near-duplicates are the draws, and a new text is a new cluster.

Each has its own sample and its own bound. The larger of the two bounds, each at delta, is false
with probability at most delta for either reason: Theorem 23 of docs/theory.md.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

TRAFFIC = "traffic"
COPIES = "copies"
# The name of the one sample of rows that do not repeat, or whose repeats make no difference.
SAME = ""
# What guarantees are about, by the value of `repeats`.
NEW_TEXTS = {
    None: "new texts",
    TRAFFIC: "new rows, repeats included,",
    COPIES: "new distinct texts",
}


def check_repeats(repeats: Any) -> str | None:
    """The argument `repeats`, or a ValueError."""
    if repeats not in (None, TRAFFIC, COPIES):
        raise ValueError(
            f"repeats must be '{TRAFFIC}', '{COPIES}' or None, which is valid for both. Got "
            f"{repeats!r} instead."
        )
    return repeats


def one_row_per_cluster(clusters: np.ndarray, seed: int | None) -> np.ndarray:
    """One row of each cluster in a random order, both drawn by the seed; the first ones if None."""
    order = np.arange(clusters.size)
    if seed is not None:
        order = np.random.default_rng(seed).permutation(clusters.size)
    return order[np.sort(np.unique(clusters[order], return_index=True)[1])]


def draw_samples(
    clusters: np.ndarray, repeats: str | None, seed: int | None
) -> dict[str, np.ndarray]:
    """The rows of each sample, by its name, of rows that nothing was fitted on; in a random order.

    >>> {name: rows.size for name, rows in draw_samples(np.array([0, 1, 1, 1]), None, 0).items()}
    {'traffic': 4, 'copies': 2}
    """
    copies = one_row_per_cluster(clusters, seed)
    if copies.size == clusters.size:
        return {repeats or SAME: copies}

    rows = np.arange(clusters.size)
    if seed is not None:
        rows = np.random.default_rng([seed, 4]).permutation(rows)
    samples = {TRAFFIC: rows, COPIES: copies}
    return samples if repeats is None else {repeats: samples[repeats]}


class Division(NamedTuple):
    """Rows that may be used for anything, and two samples that these do not depend on."""

    is_free: np.ndarray  # (n,) of bool: rows to fit, or to plan, on
    samples: dict[str, np.ndarray]  # of rows


def divide_rows(
    clusters: np.ndarray,
    fraction: float,
    rng: np.random.Generator,
    *,
    n_labelled: int | None = None,
    cluster_rows: Callable[[np.ndarray], np.ndarray] | None = None,
) -> Division:
    """Hold out a sample of rows, and a sample of clusters, such that both are fair.

    Each row is in the sample of rows with probability `fraction`, by a coin of its own. A cluster
    is in the sample of clusters if none of its rows is free, which has one probability for all
    clusters, however many rows they have. Which rows are free depends on rows outside the sample of
    rows, and on coins. Theorem 30 of docs/theory.md.

    Parameters
    ----------
    clusters : array, (n,)
        The near-duplicate cluster of each row.
    fraction : float
        Probability with which a row is in the sample of rows; above 1/2 clusters that repeat cost
        part of the sample of clusters.
    n_labelled : int, optional
        Rows after the first `n_labelled` are in no sample (a machine labelled them).
    cluster_rows : callable, optional
        `cluster_rows(rows)` finds the clusters of some rows without looking at others; by default
        those of `clusters`.
    """
    n = clusters.size
    is_labelled = np.arange(n) < (n if n_labelled is None else n_labelled)

    in_traffic = is_labelled & (rng.random(n) < fraction)
    if not in_traffic.any():  # of so few rows that no bound is useful
        in_traffic[rng.integers(np.count_nonzero(is_labelled))] = True

    # Rows that are left, and their clusters: those of the sample of rows must not influence them.
    left = np.flatnonzero(~in_traffic)
    found = clusters[left] if cluster_rows is None else cluster_rows(left)
    cluster_of_left = _number(found)
    n_left = np.bincount(cluster_of_left, is_labelled[left]).astype(int)
    n_machine = np.bincount(cluster_of_left, ~is_labelled[left]).astype(int)
    chances = _chance_to_exclude(n_left, n_machine, fraction)
    is_excluded = rng.random(chances.size) < chances
    is_free = np.zeros(n, bool)
    is_free[left] = ~is_excluded[cluster_of_left]

    cluster_of = _number(clusters)
    n_free = np.bincount(cluster_of, is_free)
    n_labelled_rows = np.bincount(cluster_of, is_labelled).astype(int)
    n_machine_rows = np.bincount(cluster_of, ~is_labelled).astype(int)
    is_sampled = (n_free == 0) & (n_labelled_rows > 0)
    if fraction > 0.5:
        chances = _chance_of_no_free_row(n_labelled_rows, n_machine_rows, fraction)
        smallest = chances[n_labelled_rows > 0].min()
        is_sampled &= rng.random(chances.size) * chances < smallest
    order = rng.permutation(np.flatnonzero(is_labelled & is_sampled[cluster_of]))
    _, first = np.unique(cluster_of[order], return_index=True)
    copies = np.sort(order[first])

    traffic = np.flatnonzero(in_traffic)
    if np.array_equal(traffic, copies):
        return Division(is_free, {SAME: traffic})
    return Division(is_free, {TRAFFIC: traffic, COPIES: copies})


def _chance_to_exclude(n_left, n_machine, fraction):
    """Probability that the rows of a cluster that are left are not free, by their numbers.

    With c = `fraction` and m ~ Bin(M, 1 - c) of M rows left, the mean of (-c / (1 - c))^m is 0 for
    every M >= 1. So a cluster of M rows has no free row with probability c, whatever M is.
    """
    if fraction > 0.5:  # the formula would leave [0, 1]
        return np.where(n_machine > 0, n_left >= 1, n_left >= 2).astype(float)
    power = (-fraction / (1.0 - fraction)) ** n_left
    # With rows of a machine: none is excluded unless a labelled row is left, so that those of the
    # sample of rows have no influence.
    return np.where(n_machine > 0, fraction * (1.0 - power), fraction + (1.0 - fraction) * power)


def _chance_of_no_free_row(n_labelled, n_machine, fraction):
    """Probability that a cluster has no free row, by its numbers of rows, for fractions > 1/2."""
    n_labelled = np.maximum(n_labelled, 1)
    one_left = n_labelled * (1.0 - fraction) * fraction ** (n_labelled - 1.0)
    return 1.0 - np.where(n_machine > 0, fraction**n_labelled, one_left)


def _number(clusters):
    return np.unique(clusters, return_inverse=True)[1]


def cautious(bounds: Mapping[str, Any], others: Mapping[str, Any]) -> dict[str, Any]:
    """The bounds that are implied by both: the larger upper ones and the smaller lower ones.

    >>> cautious({"error_upper": 0.1, "f1_lower": {"a": 0.5}}, {"error_upper": 0.2, "f1_lower": {}})
    {'error_upper': 0.2, 'f1_lower': {'a': 0.5}}
    """
    combined: dict[str, Any] = {}
    for name, value in bounds.items():
        larger = max if name.endswith("_upper") else min
        other = others[name]
        if isinstance(value, Mapping):
            combined[name] = {
                key: larger(bound, other.get(key, bound)) for key, bound in value.items()
            }
        else:
            combined[name] = None if value is None or other is None else larger(value, other)
    return combined
