"""Results to files: what is written can be read back, and nothing half-written is left."""

import csv
import json

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from pacsent.text import result_files
from pacsent.text.tables import TextTable, output_names

SUFFIXES = [name for name in result_files.WRITERS if name.startswith(".")]


@pytest.fixture
def batches(rng):
    means = rng.normal(size=(7, 3)).astype(np.float32)
    variances = rng.uniform(size=7)
    variances[2] = np.nan
    means[2] = 0

    def make(**more):
        for rows in (slice(0, 0), slice(0, 3), slice(3, 6), slice(6, 7)):
            kept = {name: values[rows] for name, values in more.items()}
            yield {**kept, "mean": means[rows], "variance": variances[rows]}

    return means, variances, make


def read(path):
    """(means, variances or None) of a file."""
    suffix = path.suffix
    if suffix == ".npy":
        return np.load(path), None
    if suffix in (".csv", ".tsv"):
        with open(path, newline="") as file:
            rows = list(csv.DictReader(file, delimiter="," if suffix == ".csv" else "\t"))
        means = [[row[f"mean_{i}"] for i in range(3)] for row in rows]
        return np.array(means, np.float32), np.array([float(r["variance"] or "nan") for r in rows])
    if suffix == ".jsonl":
        rows = [json.loads(line) for line in path.read_text().splitlines()]
        spread = [np.nan if row["variance"] is None else row["variance"] for row in rows]
        return np.array([row["mean"] for row in rows], dtype=np.float32), np.array(spread)
    table = pytest.importorskip("pyarrow.parquet").read_table(path)
    means = np.array(table["mean"].to_pylist(), dtype=np.float32)
    return means, table["variance"].to_pandas().to_numpy()


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_what_is_written_comes_back_exactly(batches, tmp_path, suffix):
    means, variances, make = batches
    path = tmp_path / f"vectors{suffix}"
    path.write_text("an older file")
    assert result_files.write(make(), path, overwrite=True) == 7
    found_means, found_variances = read(path)
    assert_array_equal(found_means, means)
    if found_variances is not None:
        assert_array_equal(found_variances, variances)
    assert list(tmp_path.iterdir()) == [path]
    assert result_files.write([next(make())], path, overwrite=True) == 0
    assert len(read(path)[0]) == 0


@pytest.mark.parametrize("suffix", result_files.TABLES)
def test_columns_of_any_text_come_back_through_our_own_reader(batches, tmp_path, suffix):
    texts = ["some Ünicode", "a\ttab", "two\nlines", 'a "mark"', "a, comma", "back\\slash", ""]
    numbers = [1, None, 3, 4, 5, 6, 7]
    path = tmp_path / f"vectors{suffix}"
    assert result_files.write(batches[2](n=numbers, text=texts), path) == 7
    with TextTable(path) as table:
        (rows,) = table.batches(["n"])
    columns = [rows.texts, rows.columns["n"]]
    plain = [column if isinstance(column, list) else column.to_pylist() for column in columns]
    if suffix not in (".jsonl", ".parquet"):
        numbers = ["1", "", "3", "4", "5", "6", "7"]
    assert plain == [texts, numbers]


def test_plain_lines_have_neither_header_nor_quotes(rng, capfdbinary):
    means = rng.normal(size=(4, 3))
    batch = {"id": list('a"cd'), "mean": means, "text": ["x\ty"] * 4}
    result_files.write([batch], None, suffix="plain")  # to stdout
    printed = capfdbinary.readouterr().out.decode()
    lines = [line.split("\t", 4) for line in printed.splitlines()]
    assert [line[0] for line in lines] == list('a"cd') and lines[0][4] == "x\ty"
    assert_array_equal(np.array([line[1:4] for line in lines], float), means)  # float64, exactly


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_an_interrupted_write_leaves_what_was_there(batches, tmp_path, suffix):
    _, _, make = batches
    path = tmp_path / f"vectors{suffix}"
    path.write_text("an older file")

    def broken():
        yield next(make())
        raise RuntimeError("the disk is gone")

    with pytest.raises(RuntimeError, match="the disk is gone"):
        result_files.write(broken(), path, overwrite=True)
    assert path.read_text() == "an older file"
    assert list(tmp_path.iterdir()) == [path]


def test_what_cannot_be_written_is_named(tmp_path):
    mixed = [{"n": [1, 2]}, {"n": ["x", 3]}]
    for name, batches, error, message in (
        ("a.xls", [], ValueError, r"must end in .npy, .*Got .*a.xls' instead"),
        ("missing/a.npy", [], FileNotFoundError, r"in a folder that exists.*mkdir -p"),
        (
            "a.parquet",
            mixed,
            ValueError,
            r"column n must be of one type, int64. Got int and str instead \(.*'x'",
        ),
    ):
        with pytest.raises(error, match=message):
            result_files.write(batches, tmp_path / name)
    with pytest.raises(ValueError, match=r"must end in \.csv, .* or \.parquet to contain texts"):
        result_files.check_suffix("a.npy", texts=True)


def test_a_clashing_column_is_renamed_and_reported():
    names, messages = output_names(["id", "label", "input_label"], ["label", "set"], "a.csv")
    assert names == {"id": "id", "label": "input_input_label", "input_label": "input_label"}
    (message,) = messages
    assert "The column label of a.csv is named input_input_label in the output" in message
