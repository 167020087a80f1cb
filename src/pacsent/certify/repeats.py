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

    _, first_positions = np.unique(clusters[order], return_index=True)
    return order[np.sort(first_positions)]


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
    if repeats is None:
        return samples
    return {repeats: samples[repeats]}


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
    rows, and on coins.

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

    Returns
    -------
    Division

    References
    ----------
    Theorem 30 of docs/theory.md.
    """
    n = clusters.size
    is_labelled = np.ones(n, bool)
    if n_labelled is not None:
        is_labelled[n_labelled:] = False

    in_traffic = is_labelled & (rng.random(n) < fraction)
    if not in_traffic.any():  # of so few rows that no bound is useful
        only_row = rng.integers(np.count_nonzero(is_labelled))
        in_traffic[only_row] = True

    # Rows of the sample must not influence the clusters of the others.
    other_rows = np.flatnonzero(~in_traffic)
    other_clusters = clusters[other_rows] if cluster_rows is None else cluster_rows(other_rows)
    is_free = np.zeros(n, bool)
    is_free[other_rows] = _draw_free_rows(other_clusters, is_labelled[other_rows], fraction, rng)
    copies = _sample_one_per_cluster(clusters, is_labelled, is_free, fraction, rng)

    traffic = np.flatnonzero(in_traffic)
    if np.array_equal(traffic, copies):
        return Division(is_free, {SAME: traffic})
    return Division(is_free, {TRAFFIC: traffic, COPIES: copies})


def _draw_free_rows(
    clusters: np.ndarray, is_labelled: np.ndarray, fraction: float, rng: np.random.Generator
) -> np.ndarray:
    """Rows outside the sample of rows that may be used for anything, (n_others,) of bool."""
    number = _number(clusters)
    n_labelled = np.bincount(number, is_labelled).astype(int)  # (n_clusters,)
    n_machine = np.bincount(number, ~is_labelled).astype(int)

    chances = _chance_to_exclude(n_labelled, n_machine, fraction)
    is_excluded = rng.random(chances.size) < chances
    return ~is_excluded[number]


def _sample_one_per_cluster(
    clusters: np.ndarray,
    is_labelled: np.ndarray,
    is_free: np.ndarray,
    fraction: float,
    rng: np.random.Generator,
) -> np.ndarray:
    """One labelled row, drawn at random, of each cluster in the sample of clusters; in order."""
    number = _number(clusters)
    n_free = np.bincount(number, is_free)  # (n_clusters,)
    n_labelled = np.bincount(number, is_labelled).astype(int)
    n_machine = np.bincount(number, ~is_labelled).astype(int)

    is_sampled = (n_free == 0) & (n_labelled > 0)
    if fraction > 0.5:
        # Clusters are thinned until all have the chance of the least probable one.
        chances = _chance_of_no_free_row(n_labelled, n_machine, fraction)
        smallest = chances[n_labelled > 0].min()
        is_sampled &= rng.random(chances.size) * chances < smallest

    rows = np.flatnonzero(is_labelled & is_sampled[number])
    shuffled_rows = rng.permutation(rows)
    _, first_positions = np.unique(number[shuffled_rows], return_index=True)
    return np.sort(shuffled_rows[first_positions])


def _chance_to_exclude(n_left: np.ndarray, n_machine: np.ndarray, fraction: float) -> np.ndarray:
    """Probability that the rows of a cluster that are left are not free, by their numbers.

    With c = `fraction` and m ~ Bin(M, 1 - c) of M rows left, the mean of (-c / (1 - c))^m is 0 for
    every M >= 1. So a cluster of M rows has no free row with probability c, whatever M is.
    """
    if fraction > 0.5:  # the formula would leave [0, 1]
        return np.where(n_machine > 0, n_left >= 1, n_left >= 2).astype(float)

    power = (-fraction / (1.0 - fraction)) ** n_left
    without_machine = fraction + (1.0 - fraction) * power
    # With rows of a machine: none is excluded unless a labelled row is left, so that those of the
    # sample of rows have no influence.
    with_machine = fraction * (1.0 - power)
    return np.where(n_machine > 0, with_machine, without_machine)


def _chance_of_no_free_row(
    n_labelled: np.ndarray, n_machine: np.ndarray, fraction: float
) -> np.ndarray:
    """Probability that a cluster has no free row, by its numbers of rows, for fractions > 1/2."""
    n_rows = np.maximum(n_labelled, 1)
    none_left = fraction**n_rows
    one_left = n_rows * (1.0 - fraction) * fraction ** (n_rows - 1.0)
    return 1.0 - np.where(n_machine > 0, none_left, one_left)


def _number(clusters: np.ndarray) -> np.ndarray:
    """The number of each row's cluster, from 0 on without gaps."""
    _, numbers = np.unique(clusters, return_inverse=True)
    return numbers


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
        elif value is None or other is None:
            combined[name] = None
        else:
            combined[name] = larger(value, other)
    return combined
