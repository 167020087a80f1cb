"""Vectors to files: what is written can be read back, and nothing half-written is left."""

import io
import json
import sys

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from pacsent.encoders import vector_files


@pytest.fixture
def batches(rng):
    means = rng.normal(size=(7, 3)).astype(np.float32)
    variances = rng.uniform(size=7)
    variances[2] = np.nan
    means[2] = 0
    return means, variances, lambda: ((means[i : i + 3], variances[i : i + 3]) for i in (0, 3, 6))


def read(path):
    """(means, variances or None) of a file."""
    suffix = path.suffix
    if suffix == ".npy":
        return np.load(path), None
    if suffix == ".npz":
        with np.load(path) as archive:
            return archive["mean"], archive["variance"]
    if suffix == ".tsv":
        return np.loadtxt(path, dtype=np.float32, ndmin=2, delimiter="\t"), None
    if suffix == ".jsonl":
        rows = [json.loads(line) for line in path.read_text().splitlines()]
        spread = [np.nan if row["variance"] is None else row["variance"] for row in rows]
        return np.array([row["mean"] for row in rows], dtype=np.float32), np.array(spread)
    table = pytest.importorskip("pyarrow.parquet").read_table(path)
    means = np.array(table["mean"].to_pylist(), dtype=np.float32)
    return means, table["variance"].to_pandas().to_numpy()


@pytest.mark.parametrize("suffix", vector_files.WRITERS)
def test_what_is_written_comes_back_exactly(batches, tmp_path, suffix):
    means, variances, make = batches
    path = tmp_path / f"vectors{suffix}"
    path.write_text("an older file")
    assert vector_files.write(make(), path, 3, overwrite=True) == 7
    found_means, found_variances = read(path)
    assert_array_equal(found_means, means)
    if found_variances is not None:
        assert_array_equal(found_variances, variances)
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("suffix", [".npz", ".tsv", ".jsonl", ".parquet"])
def test_ids_and_texts_go_with_the_vectors(batches, tmp_path, suffix):
    means, variances, _ = batches
    texts = suffix != ".npz"
    carried = vector_files.Carried(ids=True, texts=texts)
    list(carried.read(f"r{i}\tsome Ünicode\ttext {i}" for i in range(7)))
    path = tmp_path / f"vectors{suffix}"
    assert vector_files.check_name(path, ids=True, texts=texts) == suffix
    parts = ((means[i : i + 3], variances[i : i + 3]) for i in (0, 3, 6))
    vector_files.write(((*part, carried.take(len(part[1]))) for part in parts), path, 3)
    if suffix == ".npz":
        with np.load(path) as archive:
            rows = [{"id": str(name)} for name in archive["id"]]
    elif suffix == ".tsv":
        lines = [line.split("\t", 4) for line in path.read_text("utf-8").splitlines()]
        rows = [{"id": line[0], "text": line[4]} for line in lines]
    elif suffix == ".jsonl":
        rows = [json.loads(line) for line in path.read_text().splitlines()]
    else:
        rows = pytest.importorskip("pyarrow.parquet").read_table(path).to_pylist()
    assert [row["id"] for row in rows] == [f"r{i}" for i in range(7)]
    if texts:
        assert [row["text"] for row in rows] == [f"some Ünicode\ttext {i}" for i in range(7)]


def test_files_of_numbers_refuse_texts_before_any_work():
    with pytest.raises(ValueError, match=r"must end in \.tsv, \.jsonl or \.parquet to hold texts"):
        vector_files.check_name("a.npz", texts=True)
    with pytest.raises(ValueError, match="to hold ids"):
        vector_files.check_name("a.npy", ids=True)
    with pytest.raises(ValueError, match=r"Line 2 must be ID<TAB>TEXT\. Got 'no tab' without"):
        list(vector_files.Carried(ids=True).read(["a\tb", "no tab"]))


@pytest.mark.parametrize("suffix", [".npy", ".npz", ".parquet"])
def test_no_sentences_make_a_file_without_rows(tmp_path, suffix):
    path = tmp_path / f"vectors{suffix}"
    assert vector_files.write(iter([]), path, 3) == 0
    assert len(read(path)[0]) == 0


def test_float64_comes_back_exactly_from_text(tmp_path, rng):
    means = rng.normal(size=(4, 3))
    vector_files.write([(means, np.ones(4))], tmp_path / "a.tsv", 3)
    assert_array_equal(np.loadtxt(tmp_path / "a.tsv"), means)


@pytest.mark.parametrize("suffix", vector_files.WRITERS)
def test_an_interrupted_write_leaves_what_was_there(batches, tmp_path, suffix):
    _, _, make = batches
    path = tmp_path / f"vectors{suffix}"
    path.write_text("an older file")

    def broken():
        yield next(make())
        raise RuntimeError("the disk is gone")

    with pytest.raises(RuntimeError, match="the disk is gone"):
        vector_files.write(broken(), path, 3, overwrite=True)
    assert path.read_text() == "an older file"
    assert list(tmp_path.iterdir()) == [path]


def test_without_a_name_it_goes_to_stdout(batches, monkeypatch):
    means, _, make = batches
    stream = io.TextIOWrapper(io.BytesIO())
    monkeypatch.setattr(sys, "stdout", stream)
    vector_files.write(make(), None, 3)
    printed = stream.buffer.getvalue().decode()
    assert_array_equal(np.loadtxt(io.StringIO(printed), dtype=np.float32), means)


@pytest.mark.parametrize(
    ("name", "error", "message"),
    [
        ("a.csv", ValueError, r"must end in .npy, .npz, .*Got .*a.csv' instead"),
        ("missing/a.npy", FileNotFoundError, r"must be in a folder that exists.*mkdir -p"),
    ],
)
def test_a_wrong_place_is_refused(tmp_path, name, error, message):
    with pytest.raises(error, match=message):
        vector_files.write([], tmp_path / name, 3)


def test_parquet_without_pyarrow_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ImportError, match=r"pip install 'pacsent\[parquet\]'"):
        vector_files.write([], tmp_path / "a.parquet", 3)
