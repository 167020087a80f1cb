"""Which rows depend on each other, which of them are counted, and which are held out.

Copies, near-duplicates and texts of one group are not independent: each cluster or group is held
out or fitted as a whole, and counts as one example.
"""

import secrets
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from pacsent.guarantees.samples import is_texts, n_samples, row_fingerprints, text_column
from pacsent.maths.checks import check_count, is_number
from pacsent.maths.means import ratio_at_least
from pacsent.text.near_duplicates import text_units

# What a certificate says about rows of numbers and of tables with several columns.
NOT_SEARCHED = "equal rows count once, but near-duplicates are searched for among texts only"
# With fewer groups held out, no bound on the mean over groups is below one half.
MIN_HELD_OUT_GROUPS = 8
GENERATORS = (np.random.RandomState, np.random.Generator)  # as values of `random_state`
# The fraction held out, by the number of clusters up to which it is used: the one with the smallest
# certified error on the training parts of SUBJ, MR and TREC.
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

    Near-duplicates (`text_units`) are in one cluster, and equal rows; numbered as they come.

    >>> dependent_clusters(["a dull film with no plot", "a dull film with a plot", "so good"])
    array([0, 0, 1])
    """
    X = text_column(X)
    if n_rows is not None and n_samples(X) != n_rows:
        raise ValueError(
            f"texts must be one for each of the {n_rows:,} labels. Got {n_samples(X):,} instead."
        )
    if is_texts(X):
        return text_units(X)
    _, first, clusters = np.unique(row_fingerprints(X), return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[clusters]


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

    The bounds of certificates are for distinct new texts; here every text counts as often as it
    occurs. `max_repeats` is fixed beforehand: no cluster of near-duplicates, of these or of new
    texts, is larger.

    >>> texts = [f"t{n // 2}a t{n // 2}b" for n in range(200)]  # each text twice
    >>> round(traffic_error_upper([1] * 200, [1] * 190 + [0] * 10, texts, max_repeats=2), 1)
    0.1
    """
    y_true, y_pred = np.asarray(y_true), np.asarray(y_pred)
    clusters = dependent_clusters(texts, n_rows=len(y_true))
    sizes = np.bincount(clusters)
    if sizes.max() > check_count("max_repeats", max_repeats):
        raise ValueError(f"max_repeats must be at least {sizes.max()}: a text occurs so often.")
    order = np.random.default_rng(as_seed(random_state)).permutation(sizes.size)
    n_right = np.bincount(clusters, weights=y_true == y_pred)
    return 1.0 - ratio_at_least(n_right[order], sizes[order], float(max_repeats), delta)


def one_row_per_cluster(clusters: np.ndarray, seed: int | None) -> np.ndarray:
    """One row of each cluster in a random order, both drawn by the seed; the first ones if None."""
    order = np.arange(clusters.size)
    if seed is not None:
        order = np.random.default_rng(seed).permutation(clusters.size)
    return order[np.sort(np.unique(clusters[order], return_index=True)[1])]


def independent_rows(
    n: int, clusters: np.ndarray | None, group_of: np.ndarray | None, seed: int
) -> tuple[np.ndarray, dict[str, Any]]:
    """One row of each cluster or of each group, and the fields of a certificate about them."""
    n_groups = 0 if group_of is None else np.unique(group_of).size
    scope = "same groups" if n_groups else "texts"
    if n_groups >= MIN_HELD_OUT_GROUPS:
        scope, n_groups, clusters = "groups", 0, np.asarray(group_of)
    rows = one_row_per_cluster(np.arange(n) if clusters is None else clusters, seed)
    counts = {"n": rows.size, "n_duplicates": n - rows.size, "n_groups": n_groups}
    return rows, counts | {"scope": scope}


def holdout_fraction(calibration_size: Any, n_clusters: int) -> float:
    """The fraction of `n_clusters` to hold out; `calibration_size` is a fraction or "auto"."""
    if isinstance(calibration_size, str) and calibration_size == "auto":
        return next(fraction for most, fraction in HOLDOUT_FRACTIONS if n_clusters <= most)
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


def hold_out(
    clusters: np.ndarray,
    calibration_size: Any = "auto",
    seed: int | None = None,
    groups: Sequence | np.ndarray | None = None,
) -> Split:
    """Hold out a random part of the clusters, or whole groups: the guarantee is for new ones then.

    Where fewer than `MIN_HELD_OUT_GROUPS` groups would be held out, clusters are, and the scope is
    "same groups".
    """
    seed = as_seed(seed)
    scope, clusters = "texts", np.asarray(clusters)
    if groups is not None:
        n_groups, scope = np.unique(groups).size, "same groups"
        if round(holdout_fraction(calibration_size, n_groups) * n_groups) >= MIN_HELD_OUT_GROUPS:
            scope, clusters = "groups", np.asarray(groups)
    _, first, cluster = np.unique(clusters, return_index=True, return_inverse=True)
    fraction = holdout_fraction(calibration_size, first.size)
    shuffled = np.random.default_rng(seed).permutation(first.size)
    is_held_out = np.zeros(first.size, bool)
    # clusters are numbered as they come, whatever their names
    is_held_out[np.argsort(first)[shuffled[: max(1, round(fraction * first.size))]]] = True
    held_out_rows = np.flatnonzero(is_held_out[cluster])
    return Split(np.flatnonzero(~is_held_out[cluster]), held_out_rows, seed, fraction, scope)
