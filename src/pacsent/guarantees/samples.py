"""The rows of anything that a classifier takes: texts, arrays, tables, lists of objects.

Rows are counted, selected, hashed, and compared with those that a model was fitted on.
"""

import hashlib
import json
from collections.abc import Sequence
from typing import Any

import numpy as np

from pacsent.storage import State
from pacsent.text.near_duplicates import KnownTexts
from pacsent.text.ngrams import fingerprints
from pacsent.text.texts import as_sentences, as_texts

_NO_EFFECT = ("n_jobs", "batch_size", "verbose")  # parameters that decide nothing


def as_samples(X: Any, *, only_texts: bool = False) -> Any:
    """X with rows that can be counted and selected: a list of texts, an array, a table, a list."""
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
    """How many rows X has."""
    return int(X.shape[0]) if hasattr(X, "shape") else len(X)


def is_texts(X: Any) -> bool:
    """Whether these rows of `as_samples` are texts."""
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


def select_rows(X: Any, rows: Sequence[int] | np.ndarray) -> Any:
    """These rows, in the form of X."""
    if isinstance(X, list):
        return [X[row] for row in rows]
    if hasattr(X, "iloc"):
        return X.iloc[rows]
    return X.take(rows) if hasattr(X, "column_names") else X[np.asarray(rows)]


def seen_before(model: Any, X: Any) -> tuple[np.ndarray, np.ndarray]:
    """Which rows a model was fitted on, and which texts are near-duplicates of such rows, (n,).

    None is where the model does not record what it was fitted on (`is_recorded`).
    """
    exact = near = np.zeros(n_samples(X), bool)
    known, known_sketches = recorded(model, "fingerprints"), recorded(model, "sketches")
    if known is not None:
        exact = np.isin(row_fingerprints(X), known)
    if known_sketches is not None and is_texts(text_column(X)):
        near = KnownTexts(known_sketches).are_near(text_column(X)) & ~exact
    return exact, near


def is_recorded(model: Any) -> bool:
    """Whether a model, or the one inside a certified one, records what it was fitted on."""
    return recorded(model, "fingerprints") is not None


def recorded(model: Any, what: str) -> np.ndarray | None:
    """The "fingerprints" or "sketches" of what a model, or the one inside, was fitted on."""
    own = getattr(model, f"training_{what}_", None)
    return getattr(getattr(model, "estimator_", None), f"training_{what}_", own)


# ---- hashes -------------------------------------------------------------------------------------


def row_fingerprints(X: Any) -> np.ndarray:
    """A 64-bit hash of each row, (n,): equal rows have equal hashes."""
    X = text_column(X)
    if is_texts(X):
        return fingerprints(X)
    hashes = (hashlib.blake2b(row, digest_size=8).digest() for row in _row_bytes(X))
    return np.fromiter((int.from_bytes(h, "little") for h in hashes), np.uint64, n_samples(X))


def _row_bytes(X):
    """Bytes of each row that are equal for equal rows, whatever contains them.

    A row of numbers is its nonzero values as float64 and their columns; any other its plain values.
    """
    if hasattr(X, "tocsr"):
        X = X.astype(np.float64)
        X.sum_duplicates()
        X.eliminate_zeros()
        for start, stop in zip(X.indptr[:-1], X.indptr[1:]):
            yield X.indices[start:stop].astype(np.int64).tobytes() + X.data[start:stop].tobytes()
        return
    if hasattr(X, "columns") or hasattr(X, "column_names"):
        table = X if hasattr(X, "iloc") else X.to_pandas()
        X = table.itertuples(index=False, name=None)
    for row in X:
        values = np.asarray(row) if isinstance(row, np.ndarray | list | tuple) else np.array("")
        if values.ndim and values.dtype.kind in "biuf":
            columns = np.flatnonzero(values)
            yield columns.astype(np.int64).tobytes() + values.flat[columns].astype(float).tobytes()
        else:
            yield repr(row.tolist() if values.ndim and hasattr(row, "tolist") else row).encode()


def digests(model: Any, X: Any, labels: Any, predictions: Any) -> dict[str, str]:
    """SHA-256 of what a certificate is about, as far as it is given and can be read."""
    values = {"labels": digest(labels), "predictions": digest(predictions)}
    if X is not None:
        values["texts"] = digest(X)
    model = getattr(model, "estimator_", model)
    if hasattr(model, "state"):
        values["model"] = _state_digest(model.state())
    return values


def digest(values: Any) -> str:
    """SHA-256 of labels or texts, or of the rows of an array or a table, in their order."""
    values = text_column(values)
    if isinstance(values, list) and not hasattr(next(iter(values), ""), "shape"):
        return hashlib.sha256(json.dumps(values, default=repr).encode()).hexdigest()
    return hashlib.sha256(row_fingerprints(values).tobytes()).hexdigest()


def _state_digest(state: State) -> str:
    """SHA-256 of a model's parameters and arrays, and of those of its parts."""
    config = dict(state.config)
    parameters = config.get("parameters", {})
    config["parameters"] = {k: v for k, v in parameters.items() if k not in _NO_EFFECT}
    total = hashlib.sha256(json.dumps(config, sort_keys=True, default=repr).encode())
    for name, array in sorted(state.tensors.items()):
        total.update(f"{name} {array.dtype} {array.shape}".encode())
        total.update(np.ascontiguousarray(array).tobytes())
    for name, part in sorted(state.parts.items()):
        of_part = part.digest() if hasattr(part, "digest") else _state_digest(part.state())
        total.update(f"{name} {of_part}".encode())
    return total.hexdigest()
