"""Results to files: what is written can be read back, and nothing half-written is left."""

import csv
import datetime
import json

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from pacsent.text import result_files
from pacsent.text.tables import TextTable, output_names

SUFFIXES = [name for name in result_files.WRITERS if name.startswith(".")]


class Vectors:
    """The means and variances of seven texts, of which the third has no vector."""

    def __init__(self, rng):
        self.means = rng.normal(size=(7, 3)).astype(np.float32)
        self.variances = rng.uniform(size=7)
        self.means[2] = 0
        self.variances[2] = np.nan

    def batches(self, **columns):
        """Batches of none, three and one rows; other columns come before the vectors."""
        for rows in (slice(0, 0), slice(0, 3), slice(3, 6), slice(6, 7)):
            batch = {name: values[rows] for name, values in columns.items()}
            batch["mean"] = self.means[rows]
            batch["variance"] = self.variances[rows]
            yield batch


@pytest.fixture
def vectors(rng):
    return Vectors(rng)


@pytest.fixture(params=SUFFIXES)
def old_file(request, tmp_path):
    """A file of each format, alone in its folder."""
    path = tmp_path / f"vectors{request.param}"
    path.write_text("an older file")
    return path


def read(path):
    """(means, variances or None) of a file."""
    readers = {".npy": read_array, ".jsonl": read_json_lines, ".parquet": read_parquet}
    reader = readers.get(path.suffix, read_separated)
    return reader(path)


def read_array(path):
    return np.load(path), None


def read_separated(path):
    delimiter = "," if path.suffix == ".csv" else "\t"
    with open(path, newline="") as file:
        rows = list(csv.DictReader(file, delimiter=delimiter))

    means = [[row["mean_0"], row["mean_1"], row["mean_2"]] for row in rows]
    variances = [row["variance"] or "nan" for row in rows]
    return np.array(means, np.float32), np.array(variances, float)


def read_json_lines(path):
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    means = [row["mean"] for row in rows]
    variances = [row["variance"] for row in rows]
    return np.array(means, np.float32), np.array(variances, float)


def read_parquet(path):
    parquet = pytest.importorskip("pyarrow.parquet")
    table = parquet.read_table(path)
    means = table["mean"].to_pylist()
    return np.array(means, np.float32), table["variance"].to_pandas().to_numpy()


def test_what_is_written_comes_back_exactly(vectors, old_file):
    n_rows = result_files.write(vectors.batches(), old_file, overwrite=True)

    means, variances = read(old_file)
    assert n_rows == 7
    assert_array_equal(means, vectors.means)
    if variances is not None:
        assert_array_equal(variances, vectors.variances)


def test_no_rows_are_written_as_no_rows(vectors, old_file):
    empty_batch = next(vectors.batches())

    n_rows = result_files.write([empty_batch], old_file, overwrite=True)

    means, _ = read(old_file)
    assert n_rows == 0
    assert len(means) == 0


def test_nothing_else_is_left_beside_the_file(vectors, old_file):
    result_files.write(vectors.batches(), old_file, overwrite=True)

    assert list(old_file.parent.iterdir()) == [old_file]


def test_an_interrupted_write_leaves_what_was_there(vectors, old_file):
    def broken():
        yield next(vectors.batches())
        raise RuntimeError("the disk is gone")

    with pytest.raises(RuntimeError, match="the disk is gone"):
        result_files.write(broken(), old_file, overwrite=True)

    assert old_file.read_text() == "an older file"
    assert list(old_file.parent.iterdir()) == [old_file]


TEXTS = ["some Ünicode", "a\ttab", "two\nlines", 'a "mark"', "a, comma", "back\\slash", ""]
NUMBERS = [1, None, 3, 4, 5, 6, 7]


@pytest.fixture(params=result_files.TABLES)
def rows(request, vectors, tmp_path):
    """The rows that our own reader finds in a table of any text, and their column n."""
    path = tmp_path / f"vectors{request.param}"
    result_files.write(vectors.batches(n=NUMBERS, text=TEXTS), path)
    with TextTable(path) as table:
        [rows] = table.batches(["n"])
    return rows


def as_plain_list(column):
    return column if isinstance(column, list) else column.to_pylist()


def test_any_text_comes_back_through_our_own_reader(rows):
    assert as_plain_list(rows.texts) == TEXTS


def test_numbers_come_back_through_our_own_reader(rows, request):
    has_types = request.node.callspec.params["rows"] in (".jsonl", ".parquet")

    found = as_plain_list(rows.columns["n"])

    assert found == (NUMBERS if has_types else ["1", "", "3", "4", "5", "6", "7"])


def test_plain_lines_have_neither_header_nor_quotes(rng, capfdbinary):
    means = rng.normal(size=(4, 3))
    batch = {"id": ["a", '"', "c", "d"], "mean": means, "text": ["x\ty"] * 4}

    result_files.write([batch], None, suffix="plain")  # to stdout

    printed = capfdbinary.readouterr().out.decode()
    lines = [line.split("\t", 4) for line in printed.splitlines()]
    ids, *columns, texts = zip(*lines)
    assert ids == ("a", '"', "c", "d")
    assert texts[0] == "x\ty"
    assert_array_equal(np.array(columns, float).T, means)  # float64, exactly


def test_an_unknown_suffix_is_named(tmp_path):
    with pytest.raises(ValueError, match=r"must end in .npy, .*Got .*a.xls' instead"):
        result_files.write([], tmp_path / "a.xls")


def test_a_missing_folder_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"in a folder that exists.*mkdir -p"):
        result_files.write([], tmp_path / "missing" / "a.npy")


def test_a_column_of_two_types_is_named(tmp_path):
    batches = [{"n": [1, 2]}, {"n": ["x", 3]}]
    message = r"column n must be of one type, int64. Got int and str instead \(.*'x'"

    with pytest.raises(ValueError, match=message):
        result_files.write(batches, tmp_path / "a.parquet")


def test_an_array_cannot_contain_texts():
    with pytest.raises(ValueError, match=r"must end in \.csv, .* or \.parquet to contain texts"):
        result_files.check_suffix("a.npy", texts=True)


def test_bytes_are_not_written_as_json(tmp_path):
    path = tmp_path / "a.jsonl"

    with pytest.raises(ValueError, match=r"JSON lines hold no bytes\. Leave the column out"):
        result_files.write([{"photo": [b"\xff\xd8"]}], path)

    assert not path.exists()


def test_a_date_is_written_as_its_text_in_json_lines(tmp_path):
    path = tmp_path / "a.jsonl"
    day = datetime.date(2024, 2, 29)

    result_files.write([{"day": [day], "score": [np.nan]}], path)

    assert json.loads(path.read_text()) == {"day": "2024-02-29", "score": None}


def test_a_clashing_column_is_renamed_and_reported():
    names, [message] = output_names(["id", "label", "input_label"], ["label", "set"], "a.csv")

    assert names == {"id": "id", "label": "input_input_label", "input_label": "input_label"}
    assert "The column label of a.csv is named input_input_label in the output" in message
