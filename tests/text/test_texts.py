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


def assert_plain_strings(texts):
    assert type(texts) is list
    assert set(map(type, texts)) == {str}


@pytest.mark.parametrize(
    "column",
    [
        pytest.param(list(TEXTS), id="list"),
        pytest.param(tuple(TEXTS), id="tuple"),
        pytest.param((text for text in TEXTS), id="generator"),
        pytest.param(dict(enumerate(TEXTS)).values(), id="values of a dict"),
        pytest.param(np.array(TEXTS), id="array of str"),
        pytest.param(np.array(TEXTS, dtype=object), id="array of objects"),
        pytest.param(pd.Series(TEXTS, dtype="string"), id="Series of strings"),
        pytest.param(pd.Series(TEXTS, dtype="category"), id="categorical Series"),
        pytest.param(pd.DataFrame({"body": TEXTS}, index=[2, 1, 0]), id="pandas, one column"),
        pytest.param(pl.Series(TEXTS), id="polars Series"),
        pytest.param(pl.DataFrame({"body": TEXTS}), id="polars, one column"),
        pytest.param(pa.array(TEXTS), id="pyarrow array"),
        pytest.param(pa.chunked_array([TEXTS[:1], TEXTS[1:]]), id="pyarrow chunks"),
        pytest.param(pa.table({"body": TEXTS}), id="pyarrow, one column"),
    ],
)
def test_every_kind_of_column_gives_the_same_list_of_plain_strings(column):
    texts = as_texts(column)

    assert texts == TEXTS
    assert_plain_strings(texts)


TWO_COLUMNS = {"id": [1, 2, 3], "body": TEXTS}


def assert_rejected(texts, message):
    """The error is one line, names the parameter, and contains the message."""
    with pytest.raises((TypeError, ValueError)) as error:
        as_texts(texts, "queries")

    line = str(error.value)
    assert message in line
    assert line.startswith("queries must ")
    assert "\n" not in line


@pytest.mark.parametrize(
    "table", [pd.DataFrame(TWO_COLUMNS), pa.table(TWO_COLUMNS)], ids=["pandas", "pyarrow"]
)
def test_a_table_of_two_columns_is_rejected_with_their_names(table):
    assert_rejected(table, "a table of 2 columns ('id', 'body')")


def test_a_table_without_columns_is_rejected():
    assert_rejected(pd.DataFrame(index=[1, 2]), "a table of 0 columns instead")


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        pytest.param(pl.LazyFrame({"body": TEXTS}), "a LazyFrame instead. Collect it", id="lazy"),
        pytest.param(set(TEXTS), "a set instead, which has no order", id="set"),
        pytest.param(dict.fromkeys(TEXTS), "a dict instead", id="dict"),
        pytest.param(b"good film", "bytes instead. Decode", id="bytes"),
        pytest.param("good film", "the single string 'good film' instead", id="str"),
        pytest.param(None, "None instead", id="None"),
        pytest.param(3, "int '3' instead", id="number"),
        pytest.param(np.array([TEXTS]).T, "of shape (3, 1) instead. Pass one", id="2-d array"),
        pytest.param(np.array("good"), "a single value in an array", id="0-d array"),
    ],
)
def test_what_is_no_column_is_rejected(texts, message):
    assert_rejected(texts, message)


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        pytest.param(["a", None], "None (a missing value) in row 1", id="None"),
        pytest.param(["a", float("nan")], "nan (a missing value) in row 1", id="nan"),
        pytest.param(pd.Series(["a", None], dtype="string"), "(a missing value) in row 1", id="NA"),
        pytest.param(pa.array(["a", None]), "None (a missing value) in row 1", id="pyarrow null"),
    ],
)
def test_a_missing_value_is_rejected_with_its_row(texts, message):
    assert_rejected(texts, message)


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        ([1, 2], "int '1' in row 0"),
        ([["good", "film"]], "a list in row 0 (rows count from 0) instead"),
        ([b"good"], "bytes \"b'good'\" in row 0"),
    ],
    ids=["numbers", "token lists", "bytes"],
)
def test_an_element_that_is_no_string_is_rejected_with_its_row(texts, message):
    assert_rejected(texts, message)


def test_the_list_is_a_copy():
    texts = ["good"]
    assert as_texts(texts) is not texts


def test_subclasses_of_str_become_str():
    texts = as_texts([Kind.GOOD, np.str_("quiet")])

    assert texts == ["good film", "quiet"]
    assert_plain_strings(texts)


def test_no_texts_are_an_empty_list():
    assert as_texts([]) == []
