"""Units of dependence: texts that repeat each other or share a group stay on one side of a split.

A guarantee needs independent examples. Copies, near-duplicates and texts of one group are not; they
are one unit each, held out or fitted as a whole.
"""

import secrets
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from pacsent.guarantees.samples import is_texts, n_samples, row_fingerprints, text_column
from pacsent.maths.checks import is_count, is_number
from pacsent.text.near_duplicates import NEAR, text_units

FEWEST_GROUPS = 8  # held out: with fewer, no bound on the mean over groups is below one half
# The share with the smallest certified error: (units up to which, share), by
# benchmarks/choose_holdout.py on training sets.
SHARES = ((300, 0.4), (1000, 0.3), (float("inf"), 0.2))


def as_seed(random_state: Any) -> int:
    """The seed that is given, or one drawn from the system.

    Examples
    --------
    >>> as_seed(3)
    3
    """
    if random_state is None:
        return secrets.randbits(62)
    if not is_count(random_state):
        raise ValueError(
            f"random_state must be an integer of at least 0, or None. Got {random_state!r} instead."
        )
    return int(random_state)


def units_of(X: Any, near: float | None = NEAR, n_rows: int | None = None) -> np.ndarray:
    """The unit of each text, or of each row of an array, a sparse matrix or a table, (n,).

    Texts are in one unit where they are the same but for spacing, capitals and marks, or where the
    cosine of their words' tf-idf is at least `near`; rows where they are equal.

    Examples
    --------
    >>> units_of(["a dull film with no plot", "a dull film without plot", "so good"])
    array([0, 0, 1])
    >>> units_of(np.array([[1.0, 2.0], [1.0, 2.0], [3.0, 4.0]]))
    array([0, 0, 1])
    """
    X = text_column(X)
    if n_rows is not None and n_samples(X) != n_rows:
        raise ValueError(
            f"texts must be one for each of the {n_rows:,} labels. Got {n_samples(X):,} instead."
        )
    if is_texts(X):
        return text_units(X, near)
    _, first, units = np.unique(row_fingerprints(X), return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[units]  # numbered as they come


def one_of_each(units: np.ndarray, seed: int) -> np.ndarray:
    """One row of each unit, drawn at random, in order: independent where units are.

    Examples
    --------
    >>> one_of_each(np.array([0, 1, 2, 2]), seed=0).size
    3
    """
    order = np.random.default_rng(seed).permutation(units.size)
    return np.sort(order[np.unique(units[order], return_index=True)[1]])


def counted_rows(
    n: int, units: np.ndarray | None, group_of: np.ndarray | None, seed: int
) -> tuple[np.ndarray, dict[str, Any]]:
    """Independent rows, one of each unit or of each group, and what a certificate says of them.

    Examples
    --------
    >>> rows, said = counted_rows(4, np.array([0, 1, 2, 2]), None, seed=0)
    >>> rows.size, said
    (3, {'n_duplicates': 1, 'scope': 'texts', 'n_groups': 0})
    """
    n_groups = 0 if group_of is None else np.unique(group_of).size
    scope = "groups" if n_groups >= FEWEST_GROUPS else "same groups" if n_groups else "texts"
    chosen = group_of if scope == "groups" else np.arange(n) if units is None else units
    rows = one_of_each(np.asarray(chosen), seed)
    n_groups = n_groups if scope == "same groups" else 0
    return rows, {"n_duplicates": n - rows.size, "scope": scope, "n_groups": n_groups}


def holdout_share(holdout: Any, n_units: int) -> float:
    """The share to hold out of `n_units`, where `holdout` is a share or "auto".

    Examples
    --------
    >>> holdout_share("auto", 100), holdout_share("auto", 5000), holdout_share(0.25, 100)
    (0.4, 0.2, 0.25)
    """
    if isinstance(holdout, str) and holdout == "auto":
        return next(share for most, share in SHARES if n_units <= most)
    if not is_number(holdout) or not 0 < holdout < 1:
        raise ValueError(
            f"holdout must be 'auto' or a share strictly between 0 and 1. Got {holdout!r} instead."
        )
    return float(holdout)


class Split(NamedTuple):
    """Rows held out and rows to fit, and what a guarantee from those held out is about.

    `units` says which rows belong together; `scope` is that of `ErrorCertificate`.
    """

    held_out: np.ndarray
    rest: np.ndarray
    units: np.ndarray  # (n,)
    seed: int
    share: float
    scope: str = "texts"


def split(
    units: np.ndarray,
    holdout: Any = "auto",
    seed: int | None = None,
    groups: Sequence | np.ndarray | None = None,
) -> Split:
    """Hold out a random share of the units; of the groups, where there are enough of them.

    Parameters
    ----------
    units : array of int
        `units_of(X)`.
    holdout : float or "auto"
        Share of the units, or "auto": by their number, see `SHARES`.
    seed : int or None
        None draws one from the system; it is returned.
    groups : array, optional
        Numbers of groups. Whole groups are held out, and the guarantee is for new groups. Where
        fewer than `FEWEST_GROUPS` would be held out, units are, and the scope is "same groups".

    Examples
    --------
    >>> found = split(np.array([3, 3, 5, 5]), 0.5, seed=0)
    >>> sorted([found.held_out.tolist(), found.rest.tolist()])
    [[0, 1], [2, 3]]
    >>> split(np.arange(40), 0.5, seed=0, groups=np.arange(40) // 10).scope
    'same groups'
    """
    seed = as_seed(seed)
    scope, units = "texts", np.asarray(units)
    if groups is not None:
        n_groups = np.unique(groups).size
        enough = round(holdout_share(holdout, n_groups) * n_groups) >= FEWEST_GROUPS
        scope, units = ("groups", np.asarray(groups)) if enough else ("same groups", units)
    _, first, of_row = np.unique(units, return_index=True, return_inverse=True)
    share = holdout_share(holdout, first.size)
    drawn = np.random.default_rng(seed).permutation(first.size)
    held_out = np.zeros(first.size, bool)
    # units are numbered as they come, whatever their names
    held_out[np.argsort(first)[drawn[: max(1, round(share * first.size))]]] = True
    kept = held_out[of_row]
    return Split(np.flatnonzero(kept), np.flatnonzero(~kept), units, seed, share, scope)
