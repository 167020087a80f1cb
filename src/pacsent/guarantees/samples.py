"""The rows of anything that a classifier takes: texts, arrays, tables, lists of objects."""

import hashlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from pacsent.text.near_duplicates import near_known
from pacsent.text.ngrams import fingerprints
from pacsent.text.texts import as_sentences, as_texts


def as_samples(X: Any, *, only_texts: bool = False) -> Any:
    """X with rows that can be counted and taken: a list of texts, an array, a table, a list.

    Parameters
    ----------
    X : texts, array, sparse matrix, DataFrame, or iterable of objects
    only_texts : bool
        Whether the classifier takes texts alone.

    Examples
    --------
    >>> as_samples(text for text in ("a film", "a book"))
    ['a film', 'a book']
    >>> as_samples(np.eye(2)).shape
    (2, 2)
    """
    if only_texts:
        return as_texts(X, "X")
    if hasattr(X, "tocsr"):
        return X.tocsr()
    is_table = hasattr(X, "columns") or hasattr(X, "column_names")
    if is_table or getattr(X, "ndim", 1) > 1:
        return X
    rows = as_sentences(X, "X")
    rows = rows.tolist() if hasattr(rows, "tolist") else list(rows)
    return as_texts(rows, "X") if any(isinstance(row, str) for row in rows) else rows


def n_samples(X: Any) -> int:
    """How many rows `as_samples` found.

    Examples
    --------
    >>> n_samples(np.eye(2))
    2
    """
    return int(X.shape[0]) if hasattr(X, "shape") else len(X)


def is_texts(X: Any) -> bool:
    """Whether these rows of `as_samples` are texts.

    Examples
    --------
    >>> is_texts(["a film"]), is_texts(np.eye(2))
    (True, False)
    """
    return isinstance(X, list) and all(type(row) is str for row in X)


def text_column(X: Any) -> Any:
    """The texts of a table with one column of them; anything else as it is."""
    names = getattr(X, "column_names", getattr(X, "columns", ()))
    if len(names) != 1:
        return X
    try:
        return as_texts(X)
    except (TypeError, ValueError):
        return X


def taken(X: Any, rows: Sequence[int] | np.ndarray) -> Any:
    """Some rows, in the form of X.

    Examples
    --------
    >>> taken(["a", "b", "c"], [2, 0])
    ['c', 'a']
    """
    if isinstance(X, list):
        return [X[row] for row in rows]
    if hasattr(X, "iloc"):
        return X.iloc[rows]
    return X.take(rows) if hasattr(X, "column_names") else X[np.asarray(rows)]


def row_fingerprints(X: Any) -> np.ndarray:
    """A 64-bit hash of each row, (n,): equal rows have equal hashes.

    Examples
    --------
    >>> first, second, third = row_fingerprints(np.array([[1, 2], [1, 3], [1, 2]]))
    >>> bool(first == third), bool(first == second)
    (True, False)
    """
    X = text_column(X)
    if is_texts(X):
        return fingerprints(X)
    return np.fromiter(map(_hashed, _described(X)), np.uint64, n_samples(X))


def seen_before(model: Any, X: Any) -> tuple[np.ndarray, np.ndarray]:
    """Which rows a model was fitted on, and which texts are near-duplicates of such rows, (n,).

    None is where the model does not record what it was fitted on (`is_recorded`).
    """
    exact = near = np.zeros(n_samples(X), bool)
    known, sketched = _recorded(model, "fingerprints"), _recorded(model, "sketches")
    if known is not None:
        exact = np.isin(row_fingerprints(X), known)
    if sketched is not None and is_texts(text_column(X)):
        near = near_known(text_column(X), sketched) & ~exact
    return exact, near


def is_recorded(model: Any) -> bool:
    """Whether a model, or the one inside a certified one, records what it was fitted on."""
    return _recorded(model, "fingerprints") is not None


def _recorded(model, what):
    own = getattr(model, f"training_{what}_", None)
    return getattr(getattr(model, "estimator_", None), f"training_{what}_", own)


def _described(X):
    """Bytes of each row that are equal for equal rows."""
    if hasattr(X, "tocsr"):
        X = X.sorted_indices()
        for a, b in zip(X.indptr[:-1], X.indptr[1:]):
            yield X.indices[a:b].astype(np.int64).tobytes() + X.data[a:b].tobytes()
    elif hasattr(X, "iloc") or hasattr(X, "column_names") or hasattr(X, "rows"):
        table = X.to_pandas() if not hasattr(X, "iloc") else X
        yield from (repr(row).encode() for row in table.itertuples(index=False, name=None))
    else:
        for row in X:
            values = np.asarray(row) if isinstance(row, (np.ndarray, list, tuple)) else None
            whole = values is not None and values.dtype.kind in "biuf"
            yield values.tobytes() if whole else repr(row).encode()


def _hashed(row: bytes) -> int:
    return int.from_bytes(hashlib.blake2b(row, digest_size=8).digest(), "little")
