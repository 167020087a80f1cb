"""Archives are read in bounded steps: none unfolds without end, none takes longer than it must."""

import bz2
import gzip
import lzma
import tarfile
import time

import pytest

from pacsent.paper import datasets
from pacsent.text import clean_files, reading
from pacsent.words import formats


def zst(data):
    return pytest.importorskip("zstandard").ZstdCompressor().compress(data)


PACKERS = {".gz": gzip.compress, ".bz2": bz2.compress, ".xz": lzma.compress, ".zst": zst}


def bomb(kind, n_times=1):
    """An archive of some hundred bytes or kilobytes that unfolds to n_times 4 MB of newlines."""
    return PACKERS[kind](b"\n" * 4_000_000) * n_times  # streams one after the other


@pytest.mark.parametrize("kind", PACKERS)
def test_an_archive_that_unfolds_without_end_is_refused_in_one_line(tmp_path, monkeypatch, kind):
    monkeypatch.setattr(reading, "UNFOLDED", 6_000_000, raising=False)
    path = tmp_path / f"bomb.txt{kind}"
    path.write_bytes(bomb(kind, 4))
    with pytest.raises(ValueError, match=r"must unfold to at most 200 times its size.*LIMIT=0"):
        clean_files([path], tmp_path / "out")
    assert not (tmp_path / "out").exists()
    monkeypatch.setenv("PACSENT_UNPACK_LIMIT", "0")
    assert clean_files([path], tmp_path / "out") == 16_000_000


def test_the_limit_can_be_raised_and_must_be_a_number(tmp_path, monkeypatch):
    monkeypatch.setattr(reading, "UNFOLDED", 1_000_000, raising=False)
    path = tmp_path / "a.gz"
    path.write_bytes(gzip.compress(b"\n" * 8_000_000))  # about 1,000 times
    monkeypatch.setenv("PACSENT_UNPACK_LIMIT", "2000")
    assert clean_files([path], tmp_path / "out") == 8_000_000
    monkeypatch.setenv("PACSENT_UNPACK_LIMIT", "much")
    with pytest.raises(ValueError, match=r"PACSENT_UNPACK_LIMIT must be .* Got 'much' instead"):
        clean_files([path], tmp_path / "other")


def test_word_vectors_and_datasets_have_the_same_limit(tmp_path, monkeypatch):
    monkeypatch.setattr(reading, "UNFOLDED", 1_000_000, raising=False)
    (tmp_path / "v.txt.gz").write_bytes(gzip.compress(b"2 1\na 1\n" + b"\n" * 8_000_000))
    with pytest.raises(ValueError, match="must unfold to at most"):
        formats.read(tmp_path / "v.txt.gz", format="word2vec-text")
    (tmp_path / "plot.tok.gt9.5000").write_bytes(b"\n" * 8_000_000)
    with tarfile.open(tmp_path / "rotten_imdb.tar.gz", "w:gz") as archive:
        archive.add(tmp_path / "plot.tok.gt9.5000", "plot.tok.gt9.5000")
    with pytest.raises(ValueError, match="must unfold to at most"):
        datasets.load("subj", tmp_path)


@pytest.mark.parametrize("kind", PACKERS)
def test_what_comes_out_at_a_time_is_bounded_whatever_goes_in(tmp_path, monkeypatch, kind):
    monkeypatch.setenv("PACSENT_UNPACK_LIMIT", "0")
    path = tmp_path / f"a{kind}"
    path.write_bytes(PACKERS[kind](b"\n" * 20_000_000))
    with reading.Source(path) as source:
        sizes = [len(piece) for piece in source._unpacked]
    assert sum(sizes) == 20_000_000
    assert max(sizes) <= 17 << 20  # all came at once, and were copied for every megabyte


@pytest.mark.slow
def test_long_runs_take_time_by_their_length(tmp_path, monkeypatch):
    """600 MB took 67 s: twice the length, four times the time."""
    monkeypatch.setenv("PACSENT_UNPACK_LIMIT", "0")
    path = tmp_path / "a.zst"
    path.write_bytes(zst(b"\n" * 300_000_000))
    started = time.perf_counter()
    n_bytes = n_pieces = 0
    with reading.Source(path) as source:
        while block := source.read(1 << 20):
            n_bytes += len(block)
            n_pieces += 1
    assert (n_bytes, n_pieces) == (300_000_000, 287)
    assert time.perf_counter() - started < 12  # a second on an idle core; 17 s before


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
