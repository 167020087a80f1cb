"""Rows that were fitted, certified again in another container: found and refused in all of them."""

import itertools
from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
import pandas as pd
import pyarrow as pa
from scipy import sparse
from sklearn.base import BaseEstimator, ClassifierMixin

import pacsent
from hostile.material import WORDS
from hostile.running import Case

N_ROWS = 24
LABELS = ["up", "down"] * (N_ROWS // 2)
COLUMNS = ["a", "b", "c"]

# ---- containers ---------------------------------------------------------------------------------


def _generator(rows):
    return (row for row in rows)


def _object_array(rows):
    return np.array(rows, object)


def _series(rows):
    return pd.Series(rows, index=range(N_ROWS, 0, -1))


def _pyarrow_series(rows):
    return pd.Series(rows, dtype="string[pyarrow]")


def _chunked_array(rows):
    return pa.chunked_array([rows[:5], rows[5:]])


def _table_of_texts(rows):
    return pd.DataFrame({"body": rows})


def _pyarrow_table_of_texts(rows):
    return pa.table({"body": rows})


def _tuples(rows):
    return [tuple(row) for row in rows]


def _list_of_arrays(rows):
    return [np.array(row, object) for row in rows]


def _list_of_numeric_arrays(rows):
    return [np.array(row) for row in rows]


def _table(rows):
    return pd.DataFrame(rows, columns=COLUMNS)


def _pyarrow_table(rows):
    return pa.table(_table(rows))


def _fortran_array(rows):
    return np.array(rows, order="F")


def _sparse_array(rows):
    return sparse.csr_array(np.array(rows))


TEXT_FORMS: dict[str, Callable] = {
    "list": list,
    "tuple": tuple,
    "generator": _generator,
    "array": np.array,
    "object array": _object_array,
    "Series": _series,
    "pyarrow Series": _pyarrow_series,
    "pyarrow array": pa.array,
    "chunked array": _chunked_array,
    "DataFrame": _table_of_texts,
    "pyarrow table": _pyarrow_table_of_texts,
}
ROW_FORMS: dict[str, Callable] = {
    "lists": list,
    "tuples": _tuples,
    "object array": _object_array,
    "list of arrays": _list_of_arrays,
    "DataFrame": _table,
    "pyarrow table": _pyarrow_table,
}
NUMBER_FORMS: dict[str, Callable] = {
    **ROW_FORMS,
    "list of numeric arrays": _list_of_numeric_arrays,
    "array": np.array,
    "Fortran array": _fortran_array,
    "csr": sparse.csr_matrix,
    "csc": sparse.csc_matrix,
    "sparse array": _sparse_array,
}

# ---- rows ---------------------------------------------------------------------------------------


def _texts() -> list[str]:
    """Texts of which no two are near-duplicates."""
    texts = []
    for n in range(N_ROWS):
        word = WORDS[n % len(WORDS)]
        texts.append(f"{word} own{n} words{n} that{n} differ{n} alone{n}")
    return texts


def _near_duplicates(texts: list[str]) -> list[str]:
    return [text.replace("that", "which") for text in texts]


def _rows_of_numbers() -> list[list]:
    return [[float(n), 0.0, n / 3] for n in range(N_ROWS)]


def _rows_of_words_and_numbers() -> list[list]:
    return [[f"word{n}", n, n / 3] for n in range(N_ROWS)]


class AnyRows(ClassifierMixin, BaseEstimator):
    """Takes rows in any container and learns nothing."""

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        return self

    def predict(self, X):
        n_rows = X.shape[0] if hasattr(X, "shape") else len(X)
        return np.resize(self.classes_, n_rows)

    def predict_proba(self, X):
        n_rows = len(self.predict(X))
        return np.full((n_rows, 2), 0.5)


# ---- cases --------------------------------------------------------------------------------------


def _certify_fitted(fitted_form, form, fitted_rows, rows):
    """Certify a classifier on rows; those that it was fitted on must not count."""
    certified = pacsent.CertifiedClassifier(AnyRows(), calibration_size=0.3, random_state=0)
    certified.fit(fitted_form(fitted_rows), LABELS)

    certificate = pacsent.certify.certify(certified, form(rows), LABELS)

    n_unseen = round(0.3 * N_ROWS)
    if certificate.n != n_unseen:
        return f"{certificate.n} rows count, not {n_unseen}"
    return ""


def _pairs_of_forms(forms: dict[str, Callable]) -> Iterator[tuple[str, str, Callable]]:
    """Names of two containers, and `_certify_fitted` with them."""
    for fitted_name, name in itertools.product(forms, repeat=2):
        run = partial(_certify_fitted, forms[fitted_name], forms[name])
        yield fitted_name, name, run


def _same_rows(kind: str, forms: dict[str, Callable], rows: list) -> Iterator[Case]:
    for fitted_name, name, run in _pairs_of_forms(forms):
        title = f"certify {kind} in {name} that were fitted in {fitted_name}"
        yield Case(title, partial(run, rows, rows), "refused")


def cases() -> Iterator[Case]:
    texts = _texts()
    yield from _same_rows("texts", TEXT_FORMS, texts)
    yield from _same_rows("mixed rows", ROW_FORMS, _rows_of_words_and_numbers())
    yield from _same_rows("numbers", NUMBER_FORMS, _rows_of_numbers())

    near_duplicates = _near_duplicates(texts)
    for fitted_name, name, run in _pairs_of_forms(TEXT_FORMS):
        title = f"certify near-duplicates in {name} of texts in {fitted_name}"
        yield Case(title, partial(run, texts, near_duplicates), "ok")
