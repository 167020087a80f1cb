"""Foreign files: read right, or refused in one clear line; nothing in them is ever run."""

import bz2
import gzip
import json
import lzma
import os
import pickle
import re
import struct
import warnings
from functools import partial

import numpy as np
import pyarrow as pa
import pytest
from click.testing import CliRunner
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from pacsent import Vocabulary, WordVectors, load, save
from pacsent.cli import cli
from pacsent.paper import benchmark_datasets as datasets
from pacsent.words import formats

WORDS = ["film", "good", "café", "a.b", "日本"]
EACH = 7 if os.environ.get("NUMBA_DISABLE_JIT") == "1" else 1  # cuts that are tried


@pytest.fixture
def words(rng):
    tables = rng.normal(size=(2, len(WORDS), 4)).astype(np.float32)
    return WordVectors(Vocabulary(WORDS, [50, 40, 30, 20, 10]), tables[0], tables[1])


def same_tables(a, b):
    assert list(a.words) == list(b.words)
    assert_array_equal(a.input_vectors, b.input_vectors)
    assert (a.output_vectors is None) == (b.output_vectors is None)
    if a.output_vectors is not None:
        assert_array_equal(a.output_vectors, b.output_vectors)


def refused(path, match, **options):
    with pytest.raises((ValueError, FileNotFoundError), match=match) as error:
        formats.read(path, **options)
    assert "\n" not in str(error.value)
    return str(error.value)


# -- word2vec -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["v.txt", "v.bin"])
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_a_word2vec_pair_comes_back_as_it_was(tmp_path, words, name, dtype):
    words = words.astype(dtype)
    assert formats.write(words, tmp_path / name) == [
        tmp_path / name,
        tmp_path / f"context_{name}",
    ]
    again = formats.read(tmp_path / name)
    same_tables(again, words)
    assert again.input_vectors.dtype == np.float32
    assert again.counts is None


def test_counts_are_matched_by_word_and_mistakes_are_named(tmp_path, words):
    formats.write(words, tmp_path / "v.bin")
    lines = [f"{word}\t{i}\n" for i, word in enumerate(reversed(WORDS))]
    counts = tmp_path / "counts"
    counts.write_text("extra\t7\n" + "".join(lines))
    again = formats.read(tmp_path / "v.bin", counts=counts)
    assert_array_equal(again.counts, [4, 3, 2, 1, 0])
    for content, message in (
        ("".join(lines[1:]), r"1 have none, the first is '日本'"),
        ("film\n", r"Line 1 of .* a word and its count"),
        ("film 3\ngood x\n", r"Line 2 of .* a word and its count"),
        ("film 3", r"must end with a line break"),
    ):
        counts.write_text(content)
        refused(tmp_path / "v.bin", message, counts=counts)
    refused(tmp_path / "v.bin", r"a file that exists. Got .*nowhere", counts=tmp_path / "nowhere")


def test_the_files_of_a_pair_are_read_together_or_alone(tmp_path, words):
    formats.write(words, tmp_path / "v.txt")
    assert formats.read(tmp_path / "v.txt", context=None).output_vectors is None
    context = tmp_path / "context_v.txt"
    refused(context, r"is the output table of the pair.*Read v.txt")
    alone = formats.read(context, context=None)
    assert_array_equal(alone.input_vectors, words.output_vectors)
    header, *lines = context.read_bytes().splitlines(keepends=True)
    context.write_bytes(header + b"".join(reversed(lines)))  # put in order
    same_tables(formats.read(tmp_path / "v.txt"), words)
    for content, message in (
        ("2 4\nfilm 1 2 3 4\nother 1 2 3 4\n", r"the same words to be a pair. Got 5 and 2"),
        (f"5 1\n{''.join(f'{w} 1{chr(10)}' for w in WORDS)}", r"same dimensions .*Got 4 and 1"),
        ("film 1 2\nother 1 2\n", r"must be a word2vec file like .* It is GloVe text"),
    ):
        context.write_text(content)
        refused(tmp_path / "v.txt", message)
    context.write_bytes(header + b"".join(lines))
    context.rename(tmp_path / "elsewhere")
    assert formats.read(tmp_path / "v.txt").output_vectors is None
    same_tables(formats.read(tmp_path / "v.txt", context=tmp_path / "elsewhere"), words)
    refused(tmp_path / "v.txt", r"There is no file .*nowhere", context=tmp_path / "nowhere")


def test_binary_records_may_or_may_not_end_with_a_line_break(tmp_path, rng):
    rows = rng.normal(size=(3, 4)).astype("<f4")
    rows[0, 0] = np.frombuffer(b"\n\n\n\n", "<f4")[0]  # bytes of a number are never separators
    rows[1, 1] = np.frombuffer(b"    ", "<f4")[0]
    for end in (b"", b"\n"):
        data = b"3 4\n" + b"".join(
            w + b" " + r.tobytes() + end for w, r in zip((b"a", b"bb", b"ccc"), rows)
        )
        (tmp_path / "v.bin").write_bytes(data)
        found = formats.read(tmp_path / "v.bin")
        assert list(found.words) == ["a", "bb", "ccc"]
        assert_array_equal(found.input_vectors, rows)


def test_blocks_of_any_size_give_the_same_table(tmp_path, words, monkeypatch):
    for name in ("v.txt", "v.bin"):
        formats.write(words, tmp_path / name)
        for block in (7, 33, 100):
            monkeypatch.setattr(formats.word2vec, "BLOCK_BYTES", block)
            same_tables(formats.read(tmp_path / name), words)


@pytest.mark.parametrize("name", ["v.txt", "v.bin"])
def test_every_truncation_of_a_pair_is_refused(tmp_path, words, name):
    formats.write(words, tmp_path / name)
    for part in (name, f"context_{name}"):
        whole = (tmp_path / part).read_bytes()
        for cut in range(0, len(whole), EACH):
            (tmp_path / part).write_bytes(whole[:cut])
            refused(tmp_path / name, r"cut off|empty|is not a word|Download or copy it again")
        (tmp_path / part).write_bytes(whole)
    same_tables(formats.read(tmp_path / name), words)


odd_words = st.lists(
    st.text(
        st.characters(exclude_categories=["Cs"], exclude_characters=" \t\n\r\v\f"),
        min_size=1,
        max_size=8,
    ),
    min_size=1,
    max_size=8,
    unique=True,
)


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(odd_words, st.data())
@pytest.mark.parametrize("name", ["v.txt", "v.bin"])
def test_odd_words_and_any_numbers_come_back(tmp_path, name, odd, data):
    number = st.floats(width=32, allow_nan=False, allow_infinity=False)
    row = st.lists(number, min_size=3, max_size=3)
    rows = data.draw(st.lists(row, min_size=len(odd), max_size=len(odd)))
    table = np.array(rows, dtype=np.float32).reshape(len(odd), 3)
    words = WordVectors(Vocabulary(odd), table, -table)
    formats.write(words, tmp_path / name, overwrite=True)
    same_tables(formats.read(tmp_path / name), words)


NUMBERS = re.findall(
    r"\S+",
    """0 -0 +0.0 1 -1. .5 -.5e1 1e5 1E-5 1e+05 0.000000001 1e22 123456789012345678 1e38 0.1
    0.12345678901234567 1234567890123456789 0.1e-30 1e-44 16777217 16777217.000000001
    3.4028235e38 1.17549435e-38 9007199254740993 0.30000001192092896 0.3000000268220901
    1.00000005960464478 -2.9802322387695312e-08""",
)


def test_compiled_code_reads_every_number_as_python_does(rng):
    from pacsent._kernels.format_kernels import parse_lines

    forms = ("%.4f", "%.6g", "%.9g", "%.17g", "%r")
    more = [form % x for form in forms for x in rng.normal(size=300).tolist()]
    # numbers next to the middle between two float32, written with many digits
    near = np.float32(1).astype(float) + rng.integers(0, 1 << 20, 300) * 2.0**-23 + 2.0**-24
    more += [f"{x:.16f}" for x in near] + [f"{np.nextafter(x, 9):.17g}" for x in near]
    written = NUMBERS + more
    text = "".join(f"w{i} {number}\n" for i, number in enumerate(written)).encode()
    rows = np.zeros((len(written), 1), dtype=np.float32)
    word_ends, line_ends = np.zeros((2, len(written)), dtype=np.int64)
    n_odd = parse_lines(np.frombuffer(text, np.uint8), rows, word_ends, line_ends)
    read = word_ends >= 0
    assert n_odd == (~read).sum() < 0.3 * len(written)
    expected = np.array([float(number) for number in written]).astype(np.float32)
    assert_array_equal(rows[read, 0], expected[read])
    assert_array_equal(np.signbit(rows[read, 0]), np.signbit(expected[read]))


def test_large_text_is_read_as_small_text_is(tmp_path, words, monkeypatch, rng):
    table = rng.normal(size=(200, 6)) * 10.0 ** rng.integers(-30, 30, size=(200, 1))
    table[7] = 0
    lines = [
        f"{'two words' if i == 50 else f'w{i}'} " + " ".join(repr(float(x)) for x in row)
        for i, row in enumerate(table)
    ]
    (tmp_path / "v.txt").write_text("200 6\n" + " \n".join(lines) + "\n")
    small = formats.read(tmp_path / "v.txt")
    monkeypatch.setattr(formats.word2vec, "_MIN_COMPILED_BYTES", 0)
    monkeypatch.setattr(formats.word2vec, "BLOCK_BYTES", 1000)
    same_tables(formats.read(tmp_path / "v.txt"), small)
    assert_array_equal(small.input_vectors, table.astype(np.float32))
    assert small.words[50] == "two words"


def read_or_refused_in_one_line(path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            formats.read(path)
        except ValueError as error:
            assert "\n" not in str(error)


@settings(max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused_in_one_line(tmp_path, data):
    (tmp_path / "v").write_bytes(data)
    read_or_refused_in_one_line(tmp_path / "v")


@settings(max_examples=250, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
@pytest.mark.parametrize("name", ["v.txt", "v.bin", "fasttext.bin"])
def test_any_damaged_byte_is_read_or_refused_in_one_line(tmp_path, name, data):
    path = tmp_path / name
    if name == "fasttext.bin":
        path.write_bytes(fasttext_file()[0])
    else:
        words = WordVectors(Vocabulary(["a", "bb"]), np.array([[1, 2], [3, 4]], np.float32))
        formats.write(words, path, overwrite=True)
    whole = bytearray(path.read_bytes())
    whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    path.write_bytes(bytes(whole))
    read_or_refused_in_one_line(path)


TEXT_MISTAKES = {
    "one number short": (
        "2 3\na 1 2 3\nb 1 2\n",
        r"Line 3 of .* Got 2 numbers .*after 'b'",
    ),
    "one number more": ("2 3\na 1 2 3\nb 1 2 3 4\n", r"Line 3 of .* Got 4 numbers instead"),
    "short and long": ("2 3\na 1 2\nb 1 2 3 4\n", r"Line 2 of .* Got 2 numbers"),
    "no number": ("2 3\na 1 2 3\nb 1 x 3\n", r"Line 3 of .* Got 'x' where a number should be"),
    "underscore": ("1 2\na 1_0 3\n", r"Got '1_0' where a number should be"),
    "nan": ("2 2\na 1 2\nb nan 3\n", r"Line 3 of .* finite numbers. Got 'nan'"),
    "infinity": ("2 2\na 1 2\nb 1 -inf\n", r"Line 3 of .* finite numbers. Got '-inf'"),
    "too large": ("2 2\na 1 2\nb 1 1e39\n", r"Line 3 of .* finite numbers. Got '1e39'"),
    "too few": ("3 1\na 1\nb 2\n", r"must hold 3 words, as its first line says. Got 2"),
    "too many": ("1 1\na 1\nb 2\n", r"must hold 1 words, as its first line says. Got more"),
    "no words": ("0 5\n", r"at least one word"),
    "no dimensions": ("5 0\na\n", r"at least one word of one dimension"),
    "header only": ("22 5\n", r"must hold 22 words.*(Got|after) 0"),
    "huge header": (
        "999999999999 300\na 1\n",
        r"Line 2 of .* and 300 finite numbers. Got 1",
    ),
    "no word": ("1 2\n 1 2\n", r"must begin with a word"),
    "blank line": ("2 2\na 1 2\n\nb 1 2\n", r"Line 3 of .* Got 0 numbers"),
    "no last line break": ("1 2\na 1 2", r"must end with a line break.*cut off"),
}


@pytest.mark.parametrize("large", [False, True])
@pytest.mark.parametrize("mistake", TEXT_MISTAKES)
def test_mistakes_in_text_are_named_with_their_line(tmp_path, monkeypatch, mistake, large):
    if large:  # which compiled code reads
        monkeypatch.setattr(formats.word2vec, "_MIN_COMPILED_BYTES", 0)
    text, message = TEXT_MISTAKES[mistake]
    (tmp_path / "v.txt").write_text(text)
    refused(tmp_path / "v.txt", message)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2 2\na 1 2\nb 3 4\n", ["a", "b"]),
        ("2 2\r\na 1 2\r\nb 3 4\r\n", ["a", "b"]),
        ("2 2 \na 1 2 \nb 3 4 \n", ["a", "b"]),
        ("2 2\na\t1\t2\nb\t3\t4\n", ["a", "b"]),
        ("2 2\na  1  2\nb 3 4\n", ["a", "b"]),
        ("2 2\na x 1 2\nb 3 4\n", ["a x", "b"]),
        ("2 2\n. . . 1 2\nb 3 4\n", [". . .", "b"]),
        ("2 2\na\xa0x 1 2\n\x85 3 4\n", ["a\xa0x", "\x85"]),
        ("2 2\n1 1 2\n2 3 4\n", ["1", "2"]),
        ("\ufeff2 2\na 1 2\nb 3 4\n", ["a", "b"]),
        ("2 2\na +1 2.0e0\nb 3e+0 .4e1\n", ["a", "b"]),
    ],
)
@pytest.mark.parametrize("large", [False, True])
def test_text_of_many_writers_is_read(tmp_path, monkeypatch, text, expected, large):
    if large:
        monkeypatch.setattr(formats.word2vec, "_MIN_COMPILED_BYTES", 0)
    (tmp_path / "v.txt").write_bytes(text.encode())
    found = formats.read(tmp_path / "v.txt")
    assert list(found.words) == expected
    assert_array_equal(found.input_vectors, [[1, 2], [3, 4]])


BINARY_MISTAKES = {
    "too few": (b"3 1\na 1234\nb 1234\n", r"must hold 3 words of 1 .* It ends after 2"),
    "too many": (b"1 1\na 1234\nb 1234\n", r"must hold 1 words of 1 .* More follows"),
    "wrong dimensions": (b"2 2\na 1234\nb 1234\n", r"must hold 2 words|is not a word"),
    "no word": (b"2 1\na \xff\xff\x00\x01\n \xff\xff\x00\x01\n", r"at word 2 is not a word"),
    "mixed ends": (
        b"3 1\na \xff\xff\x00\x01\nb \xff\xff\x00\x01c \xff\xff\x00\x01\n",
        r"at word 2 is not a word",
    ),
    "nan": (b"1 1\na \x00\x00\xc0\x7f\n", r"finite numbers.*row 0 \('a'\)"),
    "huge header": (b"999999999999 300\na \xff\xff\x00\x01\n", r"It ends after 0"),
    "endless word": (b"1 1\n" + b"\xff" * 20_000, r"It ends after 0|is not a word"),
}


@pytest.mark.parametrize("mistake", BINARY_MISTAKES)
def test_mistakes_in_binary_files_are_named(tmp_path, mistake):
    data, message = BINARY_MISTAKES[mistake]
    (tmp_path / "v.bin").write_bytes(data)
    refused(tmp_path / "v.bin", message, format="word2vec-binary")


def test_words_that_are_not_utf8_or_occur_again_are_read_with_a_warning(tmp_path):
    row = np.float32([1, -2]).tobytes()
    data = b"3 2\n" + b"".join(w + b" " + row + b"\n" for w in (b"a", b"caf\xc3", b"\xff\xfe"))
    (tmp_path / "v.bin").write_bytes(data)
    with pytest.warns(UserWarning, match=r"2 words are not UTF-8 .*the first is b'caf\\xc3'"):
        found = formats.read(tmp_path / "v.bin")
    assert list(found.words) == ["a", "caf\\xc3", "\\xff\\xfe"]
    (tmp_path / "v.txt").write_text("3 2\na 1 2\nb 3 4\na 5 6\n")
    (tmp_path / "context_v.txt").write_text("3 2\na 7 8\nb 9 0\na 1 1\n")
    with pytest.warns(UserWarning, match=r"1 words occur again .*left out \(the first is 'a'\)"):
        found = formats.read(tmp_path / "v.txt")
    assert_array_equal(found.input_vectors, [[1, 2], [3, 4]])
    assert_array_equal(found.output_vectors, [[7, 8], [9, 0]])


def test_compressed_files_are_read_and_cut_ones_refused(tmp_path, words):
    formats.write(words, tmp_path / "v.bin")
    data = (tmp_path / "v.bin").read_bytes()
    zstd = partial(pa.Codec("zstd").compress, asbytes=True)
    compressors = {".gz": gzip.compress, ".bz2": bz2.compress, ".xz": lzma.compress, ".zst": zstd}
    for suffix, pack in compressors.items():
        packed = tmp_path / f"v.bin{suffix}"
        packed.write_bytes(pack(data))
        assert_array_equal(formats.read(packed).input_vectors, words.input_vectors)
        packed.write_bytes(pack(data)[:-12])
        refused(packed, rf"must be a whole \{suffix} archive. Got one that is (cut off|damaged)")


def test_words_that_word2vec_cannot_hold_are_refused_on_writing(tmp_path):
    for word in ("two words", "tab\there", "line\nbreak", ""):
        words = WordVectors(Vocabulary(["a", word]), np.ones((2, 2), np.float32))
        with pytest.raises(ValueError, match=r"without spaces.*Got 1 with them.*pacsent folder"):
            formats.write(words, tmp_path / "v.txt")
    assert list(tmp_path.iterdir()) == []


def test_nothing_is_overwritten_unasked(tmp_path, words):
    formats.write(words, tmp_path / "v.bin")
    with pytest.raises(FileExistsError, match=r"v.bin exists. Choose another name"):
        formats.write(words, tmp_path / "v.bin")
    (tmp_path / "v.bin").unlink()
    with pytest.raises(FileExistsError, match=r"context_v.bin exists. Choose another name"):
        formats.write(words, tmp_path / "v.bin")
    alone = WordVectors(words.vocabulary, words.input_vectors)
    with pytest.raises(FileExistsError, match=r"context_v.bin exists. Choose another name"):
        formats.write(alone, tmp_path / "v.bin")
    formats.write(words, tmp_path / "v.bin", overwrite=True)
    same_tables(formats.read(tmp_path / "v.bin"), words)
    formats.write(alone, tmp_path / "v.bin", overwrite=True)  # no output table of others is left
    same_tables(formats.read(tmp_path / "v.bin"), alone)


def test_the_format_follows_from_the_name(tmp_path, words):
    assert formats.format_of_name("a.txt") == formats.format_of_name("b.VEC") == "word2vec-text"
    assert formats.format_of_name("a.bin") == "word2vec-binary"
    assert formats.format_of_name("model") == "pacsent"
    with pytest.raises(ValueError, match=r"must follow from its name.* Got '.pt'"):
        formats.write(words, tmp_path / "v.pt")
    with pytest.raises(ValueError, match=r"format must be one of .* Got 'glove'"):
        formats.write(words, tmp_path / "v.txt", format="glove")
    refused(tmp_path, r"format must be one of 'word2vec-text'.* Got 'x'", format="x")
    formats.write(words, tmp_path / "model")
    same_tables(load(tmp_path / "model"), words)
    same_tables(formats.read(tmp_path / "model"), words)


# -- GloVe --------------------------------------------------------------------------------------


def test_glove_text_is_read(tmp_path):
    (tmp_path / "g.txt").write_text("the 1 2 3\n. . 4 5 6\nat x@y.com 7 8 9\n")
    found = formats.read(tmp_path / "g.txt")
    assert list(found.words) == ["the", ". .", "at x@y.com"]
    assert_array_equal(found.input_vectors, np.arange(1, 10).reshape(3, 3))
    assert found.output_vectors is None and found.counts is None
    # a first word with spaces does not change the dimensions
    (tmp_path / "g.txt").write_text("a b c 1 2\nthe 3 4\n")
    assert formats.read(tmp_path / "g.txt").n_dims == 2


def test_a_list_of_counts_is_not_taken_for_vectors(tmp_path):
    (tmp_path / "vocab.txt").write_text("the 500\nof 400\n")
    refused(tmp_path / "vocab.txt", r"a list of counts rather than vectors")
    assert formats.read(tmp_path / "vocab.txt", format="glove").n_dims == 1


def test_every_truncation_of_glove_text_but_at_a_line_end_is_refused(tmp_path):
    whole = b"the 1.5 2.25 3\nof 4 -5 6e-1\nand 7 8 9\n"
    for cut in range(0, len(whole), EACH):
        (tmp_path / "g.txt").write_bytes(whole[:cut])
        if cut and whole[cut - 1 : cut] == b"\n":  # without a header nothing tells
            assert formats.read(tmp_path / "g.txt").n_dims == 3
        else:
            refused(tmp_path / "g.txt", r"cut off|empty|Download or copy it again")


# -- what is not word vectors -------------------------------------------------------------------


FOREIGN = {
    "pickle": pickle.dumps({"a": 1}),
    "zip": b"PK\x03\x04" + bytes(26),
    "html": b"<!DOCTYPE html>\n<html>404</html>",
    "json": b'{"error": "not found"}',
    "lfs": b"version https://git-lfs.github.com/spec/v1\noid x\n",
    "hdf5": b"\x89HDF\r\n\x1a\n" + bytes(100),
    "prose": b"It was a dark and stormy night.\n",
    "zeros": bytes(1000),
    "npy": b"\x93NUMPY\x01\x00v\x00{'descr': '<f4', 'fortran_order': False}\n",
}


@pytest.mark.parametrize("kind", FOREIGN)
def test_a_file_of_another_kind_gets_one_clear_error(tmp_path, kind):
    (tmp_path / "v").write_bytes(FOREIGN[kind])
    refused(tmp_path / "v", r"must be word vectors in a known format.*It begins with .*never")


def test_a_pickle_is_never_opened(tmp_path):
    class Bomb:
        def __reduce__(self):
            return (open, (str(tmp_path / "exploded"), "w"))

    for protocol in range(6):
        (tmp_path / "v.model").write_bytes(pickle.dumps(Bomb(), protocol=protocol))
        with pytest.raises(ValueError, match=r"known format"):
            formats.read(tmp_path / "v.model")
    assert not (tmp_path / "exploded").exists()


def test_folders_and_files_that_are_empty_or_not_there(tmp_path):
    (tmp_path / "v").touch()
    refused(tmp_path / "v", r"is empty")
    refused(tmp_path / "nowhere", r"There is no file or folder .*nowhere")
    refused(tmp_path, r"must be a folder of word vectors.*It is neither")


# -- fastText -----------------------------------------------------------------------------------


def fasttext_file(
    *, version=12, model=2, loss=2, bucket=3, minn=2, maxn=3, words=("a", "bb"), quant=False, dim=2
):
    """A fastText .bin made by hand from made-up numbers."""
    settings = (dim, 5, 5, 1, 5, 1, loss, model, bucket, minn, maxn, 100)
    data = struct.pack("<2i", 793712314, version) + struct.pack("<12id", *settings, 1e-4)
    data += struct.pack("<3i2q", len(words), len(words), 0, 100, -1)
    for i, word in enumerate(words):
        data += word.encode() + b"\0" + struct.pack("<qb", 10 - i, 0)
    table = np.arange((len(words) + bucket) * dim, dtype="<f4").reshape(-1, dim)
    output = -np.arange(len(words) * dim, dtype="<f4").reshape(-1, dim)
    for flag, matrix in ((quant, table), (False, output)):
        data += struct.pack("<?2q", flag, *matrix.shape) + matrix.tobytes()
    return data, table, output


def read_fasttext(tmp_path, **settings):
    data, table, output = fasttext_file(**settings)
    (tmp_path / "f.bin").write_bytes(data)
    return formats.read(tmp_path / "f.bin"), table, output


@pytest.mark.parametrize("names", [("a", "bb"), ("a", "", "dummy"), ("a", "</s>", "bb")])
def test_a_fasttext_file_by_hand(tmp_path, names):
    """An empty word is what -pretrainedVectors leaves for a line that begins with a space."""
    found, table, output = read_fasttext(tmp_path, words=names)
    assert list(found.words) == list(names)
    assert_array_equal(found.counts, [10, 9, 8][: len(names)])
    assert_array_equal(found.output_vectors, output)
    for row, name in enumerate(names):
        rows, _ = found.subwords.rows([name.encode()] if name != "</s>" else [])
        expected = (table[row] + table[len(names) :][rows].sum(axis=0)) / (1 + rows.size)
        assert_allclose(found.input(name), expected, rtol=1e-6)
    assert found.subwords.rows([b"a"])[0].size == 3  # <a  <a>  a>
    assert found.training["n_negatives"] == 5
    assert found.training["method"] == "skip-gram"


def test_a_fasttext_file_without_subwords(tmp_path):
    found, table, _ = read_fasttext(tmp_path, bucket=0, maxn=0, minn=0)
    assert found.subwords is None
    assert_array_equal(found.input_vectors, table)
    with pytest.raises(ValueError, match=r"'zz' is not among"):
        found.input("zz")


def test_hierarchical_softmax_has_no_output_vectors(tmp_path):
    (tmp_path / "f.bin").write_bytes(fasttext_file(loss=1)[0])
    with pytest.warns(UserWarning, match=r"hierarchical softmax.*nodes of a tree"):
        found = formats.read(tmp_path / "f.bin")
    assert found.output_vectors is None
    assert "hierarchical softmax" in found.training["output_table"]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model": 3}, r"supervised fastText model.*labels.*fasttext skipgram"),
        ({"quant": True}, r"quantised fastText model"),
        ({"version": 13}, r"format 11 or 12. Got 13"),
        ({"model": 9}, r"damaged: model 9"),
        ({"loss": 9}, r"damaged: model 2 and loss 9"),
    ],
)
def test_other_fasttext_models_are_named(tmp_path, changes, message):
    (tmp_path / "f.bin").write_bytes(fasttext_file(**changes)[0])
    refused(tmp_path / "f.bin", message)


def test_every_truncation_of_a_fasttext_file_is_refused(tmp_path):
    whole, *_ = fasttext_file()
    for cut in range(0, len(whole), EACH):
        (tmp_path / "f.bin").write_bytes(whole[:cut])
        refused(tmp_path / "f.bin", r"cut off|is empty")
    (tmp_path / "f.bin").write_bytes(whole + b"x")
    refused(tmp_path / "f.bin", r"must end after its output table")


# -- real files ---------------------------------------------------------------------------------

REAL_FASTTEXT = {
    "crime-and-punishment.bin": (291, 5, 100),
    "toy-model.bin": (22, 5, 100),
    "lee_fasttext_new.bin": (1763, 10, 1000),
}
UNSEEN = ["unseenword", "ночевала", "日本語", "naïveté", "x", "a-b", "quelqu'un"]


@pytest.fixture(scope="session")
def format_dir(data_dir):
    folder = data_dir / "formats"
    if not folder.is_dir():
        pytest.skip("the sample files of other programs are not here: set PACSENT_DATA")
    return folder


@pytest.mark.parametrize("name", REAL_FASTTEXT)
def test_real_fasttext_files_are_read(format_dir, name):
    n_words, n_dims, n_buckets = REAL_FASTTEXT[name]
    found = formats.read(format_dir / name)
    assert (found.n_words, found.n_dims) == (n_words, n_dims)
    assert len(found.subwords.vectors) == n_buckets
    assert found.output_vectors.shape == (n_words, n_dims)
    assert (np.diff(found.counts) <= 0).all()  # most frequent first


def test_a_fasttext_file_with_pretrained_vectors_is_read_as_gensim_does(format_dir):
    found = formats.read(format_dir / "toy-model-pretrained.bin")
    assert found.n_words == 24
    assert_allclose(np.abs(found.input_vectors).sum(), 69.947769, rtol=1e-6)
    assert_allclose(np.abs(found.output_vectors).sum(), 42.439690, rtol=1e-6)
    assert_allclose(found.input("the")[:3], (0.953825, 1.408556, 1.020683), atol=1e-6)
    assert_allclose(found.input("dummy")[:3], (0.466494, 0.595854, 0.446587), atol=1e-6)


def test_a_fasttext_file_of_before_the_magic_number_is_refused(format_dir):
    refused(format_dir / "lee_fasttext.bin", r"known format")
    refused(format_dir / "lee_fasttext.bin", r"again with a current fastText", format="fasttext")


@pytest.mark.parametrize("name", ["crime-and-punishment", "toy-model"])
def test_real_fasttext_text_holds_the_vectors_of_its_binary(format_dir, name):
    binary = formats.read(format_dir / f"{name}.bin")
    text = formats.read(format_dir / f"{name}.vec")
    assert list(binary.words) == list(text.words)
    assert_allclose(text.input_vectors, binary.input_vectors, rtol=6e-5, atol=1e-6)  # five digits


@pytest.mark.parametrize("name", REAL_FASTTEXT)
@pytest.mark.extra
def test_fasttext_itself_gives_the_same_vectors(format_dir, name, capfd):
    fasttext = pytest.importorskip("fasttext")
    found = formats.read(format_dir / name)
    theirs = fasttext.load_model(str(format_dir / name))
    known = np.array([theirs.get_word_vector(word) for word in found.words])
    assert_allclose(found.input_vectors, known, atol=1e-6)
    assert_array_equal(found.output_vectors, theirs.get_output_matrix())
    for word in UNSEEN:
        assert word not in found
        assert_allclose(found.input(word), theirs.get_word_vector(word), atol=1e-6)


@pytest.mark.parametrize(
    ("loss", "model", "minn", "maxn"),
    [
        ("ns", "skipgram", 1, 2),
        ("ns", "cbow", 0, 0),
        ("softmax", "skipgram", 2, 5),
        ("hs", "skipgram", 3, 6),
    ],
)
@pytest.mark.extra
def test_models_trained_by_fasttext_itself(tmp_path, loss, model, minn, maxn, capfd):
    fasttext = pytest.importorskip("fasttext")
    (tmp_path / "text").write_text("the naïve film was good and quiet 日本 film\n" * 30)
    theirs = fasttext.train_unsupervised(
        str(tmp_path / "text"), model=model, loss=loss, minn=minn, maxn=maxn, dim=6, bucket=50,
        epoch=2, minCount=1, thread=1, verbose=0,
    )  # fmt: skip
    theirs.save_model(str(tmp_path / "f.bin"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore" if loss == "hs" else "error")
        found = formats.read(tmp_path / "f.bin")
    assert list(found.words) == theirs.get_words()
    known = np.array([theirs.get_word_vector(word) for word in found.words])
    assert_allclose(found.input_vectors, known, atol=1e-6)
    if loss == "hs":
        assert found.output_vectors is None
    else:
        assert_array_equal(found.output_vectors, theirs.get_output_matrix())
    if maxn:
        for word in UNSEEN:
            assert_allclose(found.input(word), theirs.get_word_vector(word), atol=1e-6)
    else:
        assert found.subwords is None


@pytest.mark.extra
def test_a_quantised_model_made_by_fasttext_itself_is_refused(tmp_path, capfd):
    fasttext = pytest.importorskip("fasttext")
    lines = "".join(f"__label__{i % 2} word{i % 400} film\n" for i in range(1200))
    (tmp_path / "text").write_text(lines)
    theirs = fasttext.train_supervised(str(tmp_path / "text"), dim=4, epoch=1, thread=1, verbose=0)
    theirs.quantize(input=str(tmp_path / "text"), retrain=False, verbose=0)
    theirs.save_model(str(tmp_path / "f.ftz"))
    refused(tmp_path / "f.ftz", r"supervised fastText model")


@pytest.mark.parametrize("name", REAL_FASTTEXT)
@pytest.mark.extra
def test_gensim_gives_the_same_vectors_of_fasttext_files(format_dir, name):
    gensim = pytest.importorskip("gensim.models.fasttext")
    found = formats.read(format_dir / name)
    theirs = gensim.load_facebook_model(str(format_dir / name))
    assert theirs.wv.index_to_key == list(found.words)
    # gensim gives n-grams to the end of a sentence; fastText does not
    compared = [i for i, word in enumerate(found.words) if word != "</s>"]
    assert_allclose(found.input_vectors[compared], theirs.wv.vectors[compared], atol=1e-6)
    assert_array_equal(found.output_vectors, theirs.syn1neg)
    assert_array_equal(found.counts, theirs.wv.expandos["count"])
    for word in UNSEEN:
        assert_allclose(found.input(word), theirs.wv[word], atol=1e-6)


@pytest.mark.parametrize("name", ["euclidean_vectors.bin", "toy-model.vec", "test_glove.txt"])
@pytest.mark.extra
def test_gensim_gives_the_same_vectors_of_word2vec_and_glove_files(format_dir, name):
    models = pytest.importorskip("gensim.models")
    found = formats.read(format_dir / name)
    theirs = models.KeyedVectors.load_word2vec_format(
        str(format_dir / name), binary=name.endswith(".bin"), no_header=name == "test_glove.txt"
    )
    assert theirs.index_to_key == list(found.words)
    assert_array_equal(found.input_vectors, theirs.vectors)


@pytest.mark.parametrize("name", ["v.txt", "v.bin"])
@pytest.mark.extra
def test_gensim_reads_what_we_write_and_we_read_what_it_writes(tmp_path, words, name):
    models = pytest.importorskip("gensim.models")
    binary = name.endswith(".bin")
    formats.write(words, tmp_path / name)
    for file, table in ((name, words.input_vectors), (f"context_{name}", words.output_vectors)):
        theirs = models.KeyedVectors.load_word2vec_format(str(tmp_path / file), binary=binary)
        assert theirs.index_to_key == WORDS
        assert_array_equal(theirs.vectors, table)
        theirs.save_word2vec_format(str(tmp_path / "back"), binary=binary)
        back = formats.read(tmp_path / "back")
        assert list(back.words) == WORDS
        assert_array_equal(back.input_vectors, table)


def test_the_real_supervised_model_is_refused(format_dir):
    refused(format_dir / "pang_lee_polarity_fasttext.bin", r"supervised fastText model")


def test_a_wiki_dump_is_refused(format_dir):
    refused(format_dir / "enwiki-shortened.xml.bz2", r"known format.*It begins with '<mediawiki")


def cuts(size, every):
    """All of the first bytes and of the last ones, and every k-th between."""
    return sorted({*range(min(size, 300)), *range(300, size, every), *range(size - 60, size)})


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "every"),
    [
        ("toy-model.bin", 1),
        ("toy-model.vec", 1),
        ("crime-and-punishment.bin", 97),
        ("crime-and-punishment.vec", 97),
        ("euclidean_vectors.bin", 331),
        ("lee_fasttext_new.bin", 997),
        ("test_glove.txt", 97),
    ],
)
def test_truncations_of_real_files_are_refused(format_dir, tmp_path, name, every):
    whole = (format_dir / name).read_bytes()
    (tmp_path / name).write_bytes(whole)
    for cut in reversed(cuts(len(whole), every)):
        os.truncate(tmp_path / name, cut)
        if name == "test_glove.txt" and whole[cut - 1 : cut] == b"\n":
            continue
        refused(tmp_path / name, r"cut off|is empty|Download or copy it again")


def test_the_provided_vectors_are_read(data_dir):
    if not (data_dir / "vectors").is_dir():
        pytest.skip("the provided vectors are not here: set PACSENT_DATA")
    found = datasets.load_word_vectors(data_dir / "vectors")
    assert (found.n_words, found.n_dims) == (108_333, 300)
    assert found.input_vectors.dtype == np.float16
    assert found.words[0] == "the" and found.counts[0] == 26_318_521
    assert isinstance(found.input_vectors.base, np.memmap)


# -- command ------------------------------------------------------------------------------------


def test_convert_goes_round(tmp_path, words):
    save(words, tmp_path / "model")
    run = CliRunner()
    for source, destination in (
        ("model", "v.txt"),
        ("v.txt", "v.bin"),
        ("v.bin", "again"),
    ):
        result = run.invoke(
            cli, ["model", "convert", str(tmp_path / source), str(tmp_path / destination)]
        )
        assert result.exit_code == 0, result.output
        assert "5 words, 4 dimensions, float32, input and output tables" in result.output
    same_tables(load(tmp_path / "again"), words)
    assert "counts known" not in result.output


def test_convert_tells_scripts_what_was_read(tmp_path, words):
    formats.write(words, tmp_path / "v.bin")
    result = CliRunner().invoke(
        cli,
        ["model", "convert", str(tmp_path / "v.bin"), str(tmp_path / "m"), "--json"],
    )
    found = json.loads(result.output)
    assert found["format"] == "word2vec-binary" and found["to"] == "pacsent"
    assert found["n_words"] == 5 and found["n_dims"] == 4 and found["dtype"] == "float32"
    assert found["tables"] == ["input", "output"] and found["counts_known"] is False


def test_convert_has_one_line_for_a_bad_file_and_refuses_bad_options(tmp_path, capsys, monkeypatch):
    from pacsent.cli import main

    (tmp_path / "v").write_bytes(pickle.dumps([1]))
    (tmp_path / "v.txt").write_text("1 1\na 1\n")
    bad, good, target = (str(tmp_path / name) for name in ("v", "v.txt", "m"))
    for arguments, status, message in (
        ([bad, target], 1, "Error: .*known format"),
        ([bad, "out.w2v"], 1, "Error: .*known format"),  # before the name of the output
        ([bad, target, "--to", "x"], 2, "--to"),
        ([str(tmp_path / "nowhere"), target], 2, "does not exist"),
        ([good, "-"], 1, "must be a file or a folder.*'-'"),
        ([good, "-", "--to", "word2vec-binary", "--overwrite"], 1, "must be a file or a folder"),
    ):
        monkeypatch.setattr("sys.argv", ["pacsent", "model", "convert", *arguments])
        with pytest.raises(SystemExit) as stopped:
            main()
        assert stopped.value.code == status
        shown = capsys.readouterr()
        assert "Traceback" not in shown.err and shown.out == ""
        assert re.search(message, shown.err)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["v", "v.txt"]


@pytest.mark.parametrize(
    ("option", "message"), [("counts", "counts must be left out"), ("context", "context must be")]
)
def test_an_option_that_would_not_be_used_is_refused(tmp_path, words, option, message):
    formats.write(words, tmp_path / "model")
    refused(tmp_path / "model", message, **{option: tmp_path / "other"})
