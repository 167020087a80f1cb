"""Archives of every kind are read to their end, and none decompresses without end."""

import bz2
import gzip
import lzma
import tarfile

import pyarrow as pa
import pytest

from pacsent.paper import benchmark_datasets as datasets
from pacsent.text import clean_files, reading
from pacsent.words import formats


def zst(data):
    compressed = pa.BufferOutputStream()
    with pa.CompressedOutputStream(compressed, "zstd") as file:
        file.write(data)
    return compressed.getvalue().to_pybytes()


PACKERS = {".gz": gzip.compress, ".bz2": bz2.compress, ".xz": lzma.compress, ".zst": zst}


@pytest.mark.parametrize("kind", PACKERS)
def test_an_archive_that_decompresses_without_end_is_refused(tmp_path, monkeypatch, kind):
    path = tmp_path / f"bomb.txt{kind}"
    path.write_bytes(PACKERS[kind](b"\n" * 4_000_000) * 4)  # streams one after the other
    assert clean_files([path], tmp_path / "small") == 16_000_000
    monkeypatch.setattr(reading, "UNCHECKED_BYTES", 6_000_000)
    with pytest.raises(ValueError, match=r"must decompress to at most 200 times its size"):
        clean_files([path], tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_word_vectors_and_datasets_have_the_same_limit(tmp_path, monkeypatch):
    monkeypatch.setattr(reading, "UNCHECKED_BYTES", 1_000_000)
    (tmp_path / "v.txt.gz").write_bytes(gzip.compress(b"2 1\na 1\n" + b"\n" * 8_000_000))
    with pytest.raises(ValueError, match="must decompress to at most"):
        formats.read(tmp_path / "v.txt.gz", format="word2vec-text")
    (tmp_path / "plot.tok.gt9.5000").write_bytes(b"\n" * 8_000_000)
    with tarfile.open(tmp_path / "rotten_imdb.tar.gz", "w:gz") as archive:
        archive.add(tmp_path / "plot.tok.gt9.5000", "plot.tok.gt9.5000")
    with pytest.raises(ValueError, match="must decompress to at most"):
        datasets.load("subj", tmp_path)


@pytest.mark.parametrize("kind", PACKERS)
@pytest.mark.parametrize("n", [0, 1, 1 << 20, 1_500_000])
def test_bytes_come_back_whatever_the_block(tmp_path, kind, n):
    data = bytes(range(256)) * (n // 256) + b"\n" * (n % 256)
    path = tmp_path / f"a{kind}"
    path.write_bytes(PACKERS[kind](data) + PACKERS[kind](b"the end"))
    for size in (1 << 20, 700_001):
        with reading.Source(path) as source:
            assert b"".join(iter(lambda s=source, k=size: s.read(k), b"")) == data + b"the end"


def test_a_dataset_comes_packed_in_any_of_these_ways(tmp_path):
    """Also what follows the last member is read: a cut checksum is noticed."""
    for name in ("plot.tok.gt9.5000", "quote.tok.gt9.5000"):
        (tmp_path / name).write_bytes(b"a sentence\n")
    with tarfile.open(tmp_path / "plain.tar", "w") as archive:
        for name in ("plot.tok.gt9.5000", "quote.tok.gt9.5000"):
            archive.add(tmp_path / name, name)
    plain = (tmp_path / "plain.tar").read_bytes()
    for kind in (".gz", ".bz2", ".xz", ".zst"):
        folder = tmp_path / kind[1:]
        folder.mkdir()
        path = folder / f"rotten_imdb.tar{kind}"
        path.write_bytes(PACKERS[kind](plain))
        with pytest.raises(ValueError, match=r"must hold 10,000 train.*Got 2 train"):
            datasets.load("subj", folder)
        path.write_bytes(PACKERS[kind](plain)[:-3])
        with pytest.raises(
            ValueError, match=r"must be a whole .* archive. Got one that is cut off"
        ):
            datasets.load("subj", folder)
