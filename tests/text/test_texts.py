"""`as_texts`: what counts as texts for every public class and function."""

import enum

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from pacsent.text import as_texts

TEXTS = ["good film", "", "quiet plot"]


class Kind(str, enum.Enum):  # noqa: UP042
    GOOD = "good film"


TAKEN = {
    "list": lambda: list(TEXTS),
    "tuple": lambda: tuple(TEXTS),
    "generator": lambda: (text for text in TEXTS),
    "values of a dict": lambda: dict(enumerate(TEXTS)).values(),
    "array of str": lambda: np.array(TEXTS),
    "array of objects": lambda: np.array(TEXTS, dtype=object),
    "Series of strings": lambda: pd.Series(TEXTS, dtype="string"),
    "categorical Series": lambda: pd.Series(TEXTS, dtype="category"),
    "pandas, one column": lambda: pd.DataFrame({"body": TEXTS}, index=[2, 1, 0]),
    "polars Series": lambda: pl.Series(TEXTS),
    "polars, one column": lambda: pl.DataFrame({"body": TEXTS}),
    "pyarrow array": lambda: pa.array(TEXTS),
    "pyarrow chunks": lambda: pa.chunked_array([TEXTS[:1], TEXTS[1:]]),
    "pyarrow, one column": lambda: pa.table({"body": TEXTS}),
}

WIDE = {"id": [1, 2, 3], "body": TEXTS}
REFUSED = {
    "pandas, two columns": (lambda: pd.DataFrame(WIDE), "a table of 2 columns ('id', 'body')"),
    "pyarrow, two columns": (lambda: pa.table(WIDE), "a table of 2 columns ('id', 'body')"),
    "pandas, no column": (lambda: pd.DataFrame(index=[1, 2]), "a table of 0 columns instead"),
    "polars, lazy": (lambda: pl.LazyFrame({"body": TEXTS}), "a LazyFrame instead. Collect it"),
    "set": (lambda: set(TEXTS), "a set instead, which has no order"),
    "dict": (lambda: dict.fromkeys(TEXTS), "a dict instead"),
    "bytes": (lambda: b"good film", "bytes instead. Decode"),
    "str": (lambda: "good film", "the single string 'good film' instead"),
    "None": (lambda: None, "None instead"),
    "number": (lambda: 3, "int '3' instead"),
    "array of one column": (lambda: np.array([TEXTS]).T, "of shape (3, 1) instead. Pass one"),
    "array of no dimension": (lambda: np.array("good"), "a single value in an array"),
    "numbers": (lambda: [1, 2], "int '1' in row 0"),
    "a gap": (lambda: ["good", None], "None (a missing value) in row 1"),
    "nan": (lambda: ["good", float("nan")], "nan (a missing value) in row 1"),
    "pandas NA": (lambda: pd.Series(["a", None], dtype="string"), "(a missing value) in row 1"),
    "pyarrow null": (lambda: pa.array(["a", None]), "None (a missing value) in row 1"),
    "token lists": (lambda: [["good", "film"]], "a list in row 0 (rows count from 0) instead"),
    "elements of bytes": (lambda: [b"good"], "bytes \"b'good'\" in row 0"),
}


@pytest.mark.parametrize("kind", TAKEN)
def test_every_kind_of_column_gives_the_same_list_of_plain_strings(kind):
    found = as_texts(TAKEN[kind]())
    assert found == TEXTS
    assert type(found) is list and set(map(type, found)) == {str}


@pytest.mark.parametrize("kind", REFUSED)
def test_anything_else_is_refused_with_one_line_that_names_it(kind):
    make, message = REFUSED[kind]
    with pytest.raises((TypeError, ValueError)) as error:
        as_texts(make(), "queries")
    assert message in str(error.value)
    assert str(error.value).startswith("queries must ") and "\n" not in str(error.value)


def test_the_list_is_a_copy_and_subclasses_of_str_become_str():
    texts = ["good"]
    assert as_texts(texts) is not texts
    plain = as_texts([Kind.GOOD, np.str_("quiet")])
    assert plain == ["good film", "quiet"] and set(map(type, plain)) == {str}
    assert as_texts([]) == []
