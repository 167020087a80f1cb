"""Rows that depend on each other, those of them that are counted, and those that are held out.

Why texts repeat decides which rows are independent draws (`repeats`); texts of one group never are:
each group is held out or fitted as a whole, and counts as one example.
"""

import secrets
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from pacsent.bounds.checks import check_count, is_number
from pacsent.bounds.means import ratio_at_least
from pacsent.certify.repeats import (
    COPIES,
    SAME,
    TRAFFIC,
    check_repeats,
    divide_rows,
    draw_samples,
    one_row_per_cluster,
)
from pacsent.certify.samples import is_texts, n_samples, row_fingerprints, select_rows, text_column

# What a certificate says about rows of numbers and of tables with several columns.
NOT_SEARCHED = "near-copies were not looked for: these are no texts, and only equal rows repeat"
# With fewer groups held out, no bound on the mean over groups is below one half.
MIN_HELD_OUT_GROUPS = 8
GENERATORS = (np.random.RandomState, np.random.Generator)  # as values of `random_state`
# The fraction held out, by the number of rows, clusters or groups (what is held out) up to which it
# is used: the one with the smallest certified error on the training parts of SUBJ, MR and TREC.
HOLDOUT_FRACTIONS = ((300, 0.4), (1000, 0.3), (float("inf"), 0.2))


def as_seed(random_state: Any) -> int:
    """The seed that is given, or one drawn by a generator, or from the system."""
    if random_state is None:
        return secrets.randbits(62)
    if isinstance(random_state, GENERATORS):
        return int.from_bytes(random_state.bytes(7), "little")
    return check_count("random_state", random_state, 0)


def dependent_clusters(X: Any, *, n_rows: int | None = None) -> np.ndarray:
    """The cluster of each text, or of each row of an array, a sparse matrix or a table, (n,).

    Near-duplicates, and equal rows, share a number; numbers follow first occurrence.

    >>> dependent_clusters(["a dull film with no plot", "a dull film with a plot", "so good"])
    array([0, 0, 1])
    """
    X = text_column(X)
    if n_rows is not None and n_samples(X) != n_rows:
        raise ValueError(
            f"texts must be one for each of the {n_rows:,} labels. Got {n_samples(X):,} instead."
        )
    if is_texts(X):
        from pacsent.certify.near_duplicates import (
            near_duplicate_clusters,  # loads compiled kernels
        )

        return near_duplicate_clusters(X)

    fingerprints = row_fingerprints(X)
    _, first_rows, sorted_number = np.unique(fingerprints, return_index=True, return_inverse=True)
    by_occurrence = np.argsort(first_rows)  # (n_distinct,)
    number_of_sorted = np.argsort(by_occurrence)
    return number_of_sorted[sorted_number]


def traffic_error_upper(
    y_true: Any,
    y_pred: Any,
    texts: Any,
    *,
    max_repeats: int,
    delta: float = 0.05,
    random_state: Any = None,
) -> float:
    """Upper bound on the error rate of traffic in which texts repeat, by Theorem 21.

    It is valid if clusters of near-duplicates are independent draws, each with as many rows as it
    has, of which `max_repeats`, fixed beforehand, is the largest possible number. If rows are
    independent draws, `certify_predictions(repeats="traffic")` is, and needs no such number.

    Parameters
    ----------
    y_true, y_pred : array, (n,)
    texts : list of str, or other rows
    max_repeats : int
        Largest possible number of rows of a cluster.
    delta : float, default=0.05
        Probability that the bound is false.
    random_state : int, RandomState, Generator or None, default=None
        Draws the order of the clusters.

    Returns
    -------
    float

    References
    ----------
    Theorem 21 of docs/theory.md.

    Examples
    --------
    >>> texts = [f"t{n // 2}a t{n // 2}b" for n in range(200)]  # each text twice
    >>> round(traffic_error_upper([1] * 200, [1] * 190 + [0] * 10, texts, max_repeats=2), 1)
    0.1
    """
    true = np.asarray(y_true)
    clusters = dependent_clusters(texts, n_rows=len(true))
    sizes = np.bincount(clusters)  # (n_clusters,)
    largest = sizes.max()
    if largest > check_count("max_repeats", max_repeats):
        raise ValueError(f"max_repeats must be at least {largest}: a text occurs so often.")

    rng = np.random.default_rng(as_seed(random_state))
    order = rng.permutation(sizes.size)
    is_right = true == np.asarray(y_pred)
    n_right = np.bincount(clusters, weights=is_right)
    return 1.0 - ratio_at_least(n_right[order], sizes[order], float(max_repeats), delta)


class Draws(NamedTuple):
    """Rows that count as independent draws, and the population of new draws."""

    samples: dict[str, np.ndarray]  # rows by the names of `repeats`
    clusters: np.ndarray  # (n,) of near-duplicates, or groups
    group_of: np.ndarray | None  # (n,), where the guarantee is for new groups
    scope: str
    n_groups: int

    def parts(self, name: str) -> dict[str, Any]:
        """The fields of a certificate about the rows of one sample."""
        rows = self.samples[name]
        sampled_clusters = self.clusters[rows]
        if name == TRAFFIC:
            n_repeats = rows.size - np.unique(sampled_clusters).size
        else:  # those that do not count
            n_rows_of_clusters = int(np.isin(self.clusters, sampled_clusters).sum())
            n_repeats = n_rows_of_clusters - rows.size
        return {
            "n": rows.size,
            "n_duplicates": n_repeats,
            "scope": self.scope,
            "n_groups": self.n_groups,
        }


def independent_draws(
    n: int,
    clusters: np.ndarray | None,
    group_of: np.ndarray | None,
    seed: int,
    repeats: str | None = None,
    samples: dict[str, np.ndarray] | None = None,
) -> Draws:
    """The samples of n rows that are given, or those of rows that nothing was fitted on.

    Parameters
    ----------
    n : int
    clusters : array, (n,), or None
        The near-duplicate cluster of each row; None if no rows repeat.
    group_of : array, (n,), or None
    seed : int
        Draws one row of each cluster, or of each group, and the order of the rows.
    repeats : {"traffic", "copies"} or None
        Why texts repeat.
    samples : dict of name to array, optional
        The rows of each sample, where not all rows may be in them.

    Returns
    -------
    Draws
    """
    n_groups = 0 if group_of is None else np.unique(group_of).size
    if n_groups >= MIN_HELD_OUT_GROUPS:
        refuse_repeats_of_groups(repeats)
        groups = np.asarray(group_of)
        samples_of_groups = {SAME: one_row_per_cluster(groups, seed)}
        return Draws(samples_of_groups, groups, groups, scope="groups", n_groups=0)

    if clusters is None:
        clusters = np.arange(n)
    if samples is None:
        samples = draw_samples(clusters, repeats, seed)
    else:  # in an order that does not depend on what the rows are
        rng = np.random.default_rng(seed)
        samples = {name: rng.permutation(np.sort(rows)) for name, rows in samples.items()}
    scope = "same groups" if n_groups else "texts"
    return Draws(samples, clusters, group_of=None, scope=scope, n_groups=n_groups)


def holdout_fraction(calibration_size: Any, n_units: int) -> float:
    """The fraction to hold out of `n_units` rows, clusters or groups: what is held out as a whole.

    `calibration_size` is this fraction, or "auto".
    """
    if isinstance(calibration_size, str) and calibration_size == "auto":
        return next(fraction for most, fraction in HOLDOUT_FRACTIONS if n_units <= most)
    if not is_number(calibration_size) or not 0 < calibration_size < 1:
        raise ValueError(
            "calibration_size must be 'auto' or a fraction strictly between 0 and 1. Got "
            f"{calibration_size!r} instead."
        )
    return float(calibration_size)


class Split(NamedTuple):
    """Rows to fit and rows held out, and the population that a guarantee from these refers to."""

    training_rows: np.ndarray
    held_out_rows: np.ndarray
    seed: int
    fraction: float
    scope: str
    samples: dict[str, np.ndarray]  # of held-out rows, by the names of `repeats`

    def positions(self) -> dict[str, np.ndarray]:
        """Where the rows of each sample are among the held-out rows."""
        return {
            name: np.searchsorted(self.held_out_rows, rows) for name, rows in self.samples.items()
        }


def cluster_rows_of(X: Any) -> Callable[[np.ndarray], np.ndarray]:
    """A function that finds the clusters of some rows of X without looking at the others."""
    return lambda rows: dependent_clusters(select_rows(X, rows))


def hold_out(
    clusters: np.ndarray,
    calibration_size: Any = "auto",
    seed: int | None = None,
    groups: Sequence | np.ndarray | None = None,
    *,
    repeats: str | None = None,
    n_labelled: int | None = None,
    cluster_rows: Callable[[np.ndarray], np.ndarray] | None = None,
) -> Split:
    """Hold out a random part of the rows for one or both reasons why texts repeat, or whole groups.

    Where no text repeats, and for one reason alone, a fixed number of rows or of clusters is held
    out; for both reasons that of `divide_rows`. With groups, the guarantee is for new ones: where
    fewer than `MIN_HELD_OUT_GROUPS` groups would be held out, texts are, and the scope is "same
    groups".

    Parameters
    ----------
    clusters : array, (n,)
        The near-duplicate cluster of each row.
    calibration_size, groups, repeats : see `CertifiedClassifier`
    seed : int, optional
        Draws the rows; what `as_seed` makes of a `random_state`.
    n_labelled, cluster_rows : see `divide_rows`
        Rows after the first `n_labelled` are held out with nothing, but fitted or left out.

    Returns
    -------
    Split
    """
    seed = as_seed(seed)
    check_repeats(repeats)
    if groups is not None:
        n_groups = np.unique(groups).size
        n_held_out = round(holdout_fraction(calibration_size, n_groups) * n_groups)
        if n_held_out >= MIN_HELD_OUT_GROUPS:
            refuse_repeats_of_groups(repeats)
            return _hold_out_groups(np.asarray(groups), calibration_size, seed)

    clusters = np.asarray(clusters)
    n = clusters.size if n_labelled is None else n_labelled
    is_free = np.ones(clusters.size, bool)
    if repeats == TRAFFIC:
        fraction, is_held_out = _hold_out_whole(np.arange(n), calibration_size, seed)
        is_free[:n] = ~is_held_out
        samples = {TRAFFIC: np.flatnonzero(is_held_out)}
    elif repeats == COPIES or np.unique(clusters).size == clusters.size:
        fraction, is_held_out = _hold_out_whole(clusters[:n], calibration_size, seed)
        rows = np.flatnonzero(is_held_out)
        held_out_clusters = clusters[rows]
        is_free = ~np.isin(clusters, held_out_clusters)  # of rows by a machine, copies are left out
        sampled = one_row_per_cluster(held_out_clusters, seed)
        samples = {repeats or SAME: rows[sampled]}
    else:
        fraction = holdout_fraction(calibration_size, n)
        rng = np.random.default_rng([seed, 3])
        division = divide_rows(clusters, fraction, rng, n_labelled=n, cluster_rows=cluster_rows)
        is_free, samples = division
        if COPIES in samples and not samples[COPIES].size:
            n_clusters = np.unique(clusters).size
            raise ValueError(
                "calibration_size must leave some texts out of training with all of their "
                f"near-duplicates. None were: {n:,} texts have {n_clusters:,} "
                "clusters. Give more texts, or state how they were collected, such as "
                "repeats='traffic'."
            )

    return Split(
        training_rows=np.flatnonzero(is_free),
        held_out_rows=np.flatnonzero(~is_free[:n]),
        seed=seed,
        fraction=fraction,
        scope="texts" if groups is None else "same groups",
        samples=samples,
    )


def _hold_out_groups(groups: np.ndarray, calibration_size: Any, seed: int) -> Split:
    """Hold out whole groups, for a guarantee for new ones."""
    fraction, is_held_out = _hold_out_whole(groups, calibration_size, seed)
    held_out_rows = np.flatnonzero(is_held_out)
    return Split(
        training_rows=np.flatnonzero(~is_held_out),
        held_out_rows=held_out_rows,
        seed=seed,
        fraction=fraction,
        scope="groups",
        samples={SAME: held_out_rows},
    )


def _hold_out_whole(
    units: np.ndarray, calibration_size: Any, seed: int
) -> tuple[float, np.ndarray]:
    """The fraction held out, and whether each row is of the units that are, drawn at random."""
    _, first_rows, unit_of = np.unique(units, return_index=True, return_inverse=True)
    n_units = first_rows.size
    fraction = holdout_fraction(calibration_size, n_units)
    n_held_out = max(1, round(fraction * n_units))

    # units are numbered as they come, whatever their names
    by_occurrence = np.argsort(first_rows)
    shuffled = np.random.default_rng(seed).permutation(n_units)
    held_out_units = by_occurrence[shuffled[:n_held_out]]

    is_held_out = np.zeros(n_units, bool)
    is_held_out[held_out_units] = True
    return fraction, is_held_out[unit_of]


def refuse_repeats_of_groups(repeats: str | None) -> None:
    """Refuse `repeats` for new groups: the mean error of a group counts each of its rows."""
    if repeats is not None:
        raise ValueError(
            "repeats must be None for a guarantee for new groups, whose texts all count. Got "
            f"{repeats!r} instead."
        )
