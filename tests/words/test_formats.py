"""Foreign files: read right, or refused in one clear line; nothing in them is ever run."""

import bz2
import json
import pickle
import re
import struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from helpers import invoke
from pacsent import Vocabulary, WordVectors, load, save
from pacsent.cli import main
from pacsent.kernels.formats import parse_lines_plainly
from pacsent.paper import benchmark_datasets as datasets
from pacsent.words import formats
from pacsent.words.formats.writing import format_of_name

WORDS = ["film", "good", "café", "a.b", "日本"]


@pytest.fixture
def words(rng):
    """Five words with counts, input vectors and output vectors."""
    vocabulary = Vocabulary(WORDS, [50, 40, 30, 20, 10])
    tables = rng.normal(size=(2, len(WORDS), 4))
    tables = tables.astype(np.float32)
    return WordVectors(vocabulary, tables[0], tables[1])


@pytest.fixture
def text_pair(tmp_path, words):
    """The path of the input vectors; those of the output vectors lie beside them."""
    path = tmp_path / "v.txt"
    formats.write(words, path)
    return path


@pytest.fixture
def binary_pair(tmp_path, words):
    """As `text_pair`, in the binary format."""
    path = tmp_path / "v.bin"
    formats.write(words, path)
    return path


def assert_same_vectors(found, expected):
    assert list(found.words) == list(expected.words)
    assert_array_equal(found.input_vectors, expected.input_vectors)

    if expected.output_vectors is None:
        assert found.output_vectors is None
    else:
        assert_array_equal(found.output_vectors, expected.output_vectors)


def assert_refused(path, match, **options):
    with pytest.raises((ValueError, FileNotFoundError), match=match) as error:
        formats.read(path, **options)

    message = str(error.value)
    assert "\n" not in message


# --- word2vec pairs, and counts


@pytest.mark.parametrize("name", ["v.txt", "v.bin"])
def test_a_pair_is_written_to_two_files(tmp_path, words, name):
    path = tmp_path / name
    context = tmp_path / f"context_{name}"

    assert formats.write(words, path) == [path, context]


@pytest.mark.parametrize("block", [7, 33, 100, 1 << 20])
@pytest.mark.parametrize("name", ["v.txt", "v.bin"])
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_a_word2vec_pair_comes_back_as_it_was(tmp_path, words, monkeypatch, name, dtype, block):
    monkeypatch.setattr(formats.word2vec, "BLOCK_BYTES", block)
    path = tmp_path / name
    words = words.astype(dtype)
    formats.write(words, path)

    again = formats.read(path)

    assert_same_vectors(again, words)
    assert again.input_vectors.dtype == np.float32
    assert again.counts is None


COUNTS = "".join(f"{word}\t{count}\n" for count, word in enumerate(reversed(WORDS)))
COUNTS_BUT_ONE = COUNTS.partition("\n")[2]


def test_counts_are_matched_by_word(tmp_path, binary_pair):
    counts = tmp_path / "counts"
    counts.write_text("extra\t7\n" + COUNTS)

    again = formats.read(binary_pair, counts=counts)

    assert_array_equal(again.counts, [4, 3, 2, 1, 0])


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (COUNTS_BUT_ONE, r"1 have none, the first is '日本'"),
        ("film\n", r"Line 1 of .* a word and its count"),
        ("film 3\ngood x\n", r"Line 2 of .* a word and its count"),
        ("film 3", r"must end with a line break"),
    ],
)
def test_mistakes_in_counts_are_named(tmp_path, binary_pair, content, message):
    counts = tmp_path / "counts"
    counts.write_text(content)

    assert_refused(binary_pair, message, counts=counts)


def test_counts_must_be_a_file_that_exists(tmp_path, binary_pair):
    nowhere = tmp_path / "nowhere"

    assert_refused(binary_pair, r"a file that exists. Got .*nowhere", counts=nowhere)


def test_input_vectors_are_read_without_output_vectors_on_request(text_pair):
    alone = formats.read(text_pair, context=None)

    assert alone.output_vectors is None


def test_output_vectors_are_read_alone_only_on_request(text_pair, words):
    context = text_pair.with_name("context_v.txt")

    alone = formats.read(context, context=None)

    assert_array_equal(alone.input_vectors, words.output_vectors)
    assert_refused(context, r"has the output vectors of the pair.*Read v.txt")


def test_output_vectors_in_another_order_are_matched_by_word(text_pair, words):
    context = text_pair.with_name("context_v.txt")
    content = context.read_bytes()
    header, *lines = content.splitlines(keepends=True)
    lines.reverse()
    context.write_bytes(header + b"".join(lines))

    again = formats.read(text_pair)

    assert_same_vectors(again, words)


ONE_DIMENSION = "5 1\n" + "".join(f"{word} 1\n" for word in WORDS)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("2 4\nfilm 1 2 3 4\nother 1 2 3 4\n", r"the same words to be a pair. Got 5 and 2"),
        (ONE_DIMENSION, r"same dimensions .*Got 4 and 1"),
        ("film 1 2\nother 1 2\n", r"must be a word2vec file like .* It is GloVe text"),
    ],
)
def test_files_that_are_no_pair_are_refused(text_pair, content, message):
    context = text_pair.with_name("context_v.txt")
    context.write_text(content)

    assert_refused(text_pair, message)


def test_the_output_vectors_may_lie_elsewhere(text_pair, tmp_path, words):
    context = text_pair.with_name("context_v.txt")
    elsewhere = tmp_path / "elsewhere"
    context.rename(elsewhere)

    alone = formats.read(text_pair)
    pair = formats.read(text_pair, context=elsewhere)

    assert alone.output_vectors is None
    assert_same_vectors(pair, words)


def test_output_vectors_that_are_named_must_exist(text_pair, tmp_path):
    nowhere = tmp_path / "nowhere"

    assert_refused(text_pair, r"There is no file .*nowhere", context=nowhere)


@pytest.mark.parametrize("end", [b"", b"\n"])
def test_binary_records_may_or_may_not_end_with_a_line_break(tmp_path, rng, end):
    path = tmp_path / "v.bin"
    rows = rng.normal(size=(2, 4))
    rows = rows.astype("<f4")
    rows[0, 0] = np.frombuffer(b"\n\n\n\n", "<f4")[0]  # bytes of a number are never separators
    rows[1, 1] = np.frombuffer(b"    ", "<f4")[0]
    first = b"a " + rows[0].tobytes() + end
    second = b"bb " + rows[1].tobytes() + end
    path.write_bytes(b"2 4\n" + first + second)

    found = formats.read(path)

    assert list(found.words) == ["a", "bb"]
    assert_array_equal(found.input_vectors, rows)


letters = st.characters(exclude_categories=["Cs"], exclude_characters=" \t\n\r\v\f")
odd_word = st.text(letters, min_size=1, max_size=8)
odd_vocabularies = st.lists(odd_word, min_size=3, max_size=8, unique=True)
numbers = st.floats(width=32, allow_nan=False, allow_infinity=False)
rows_of_three = st.lists(numbers, min_size=3, max_size=3)


@settings(max_examples=60)
@given(odd_vocabularies, st.data())
@pytest.mark.parametrize("name", ["v.txt", "v.bin"])
def test_odd_words_and_any_numbers_come_back(tmp_path, name, odd_words, data):
    path = tmp_path / name
    n_words = len(odd_words)
    rows = data.draw(st.lists(rows_of_three, min_size=n_words, max_size=n_words))
    table = np.array(rows, dtype=np.float32)
    words = WordVectors(Vocabulary(odd_words), table, -table)

    formats.write(words, path, overwrite=True)
    again = formats.read(path)

    assert_same_vectors(again, words)


# --- mistakes in word2vec files, and what other writers do


@pytest.fixture(params=["compiled", "plain"])
def parser(request, monkeypatch):
    """Of lines of text: the compiled one, or that in Python."""
    if request.param == "plain":
        monkeypatch.setattr(formats.word2vec, "parse_lines", parse_lines_plainly)


@pytest.mark.usefixtures("parser")
@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"2 3\na 1 2 3\nb 1 2\n", r"Line 3 of .* Got 2 numbers .*after 'b'"),
        (b"2 3\na 1 2 3\nb 1 2 3 4\n", r"Line 3 of .* Got 4 numbers instead"),
        (b"2 3\na 1 2 3\nb 1 x 3\n", r"Line 3 of .* Got 'x' where a number should be"),
        (b"1 2\na 1_0 3\n", r"Got '1_0' where a number should be"),
        (b"2 2\na 1 2\nb nan 3\n", r"Line 3 of .* finite numbers. Got 'nan'"),
        (b"2 2\na 1 2\nb 1 1e39\n", r"Line 3 of .* finite numbers. Got '1e39'"),
        (b"3 1\na 1\nb 2\n", r"must have 3 words, as its first line says. Got 2"),
        (b"1 1\na 1\nb 2\n", r"must have 1 words, as its first line says. Got more"),
        (b"5 0\na\n", r"at least one word of one dimension"),
        (b"999999999999 300\na 1\n", r"Line 2 of .* and 300 finite numbers. Got 1"),
        (b"1 2\n 1 2\n", r"must begin with a word"),
        (b"1 2\na 1 2", r"must end with a line break.*cut off"),
    ],
)
def test_mistakes_in_text_are_named_with_their_place(tmp_path, content, message):
    path = tmp_path / "v.txt"
    path.write_bytes(content)

    assert_refused(path, message, format="word2vec-text")


NUMBER = b"\xff\xff\x00\x01"
NO_WORD = b"2 1\na " + NUMBER + b"\n " + NUMBER + b"\n"
TOO_FEW = b"999999999999 300\na " + NUMBER + b"\n"
NO_SPACE = b"1 1\n" + b"\xff" * 20_000


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"3 1\na 1234\nb 1234\n", r"must have 3 words of 1 .* It ends after 2"),
        (b"1 1\na 1234\nb 1234\n", r"must have 1 words of 1 .* More follows"),
        (NO_WORD, r"at word 2 is not a word"),
        (b"1 1\na \x00\x00\xc0\x7f\n", r"finite numbers.*row 0 \('a'\)"),
        (TOO_FEW, r"It ends after 0"),
        (NO_SPACE, r"It ends after 0|is not a word"),
    ],
)
def test_mistakes_in_binary_files_are_named_with_their_place(tmp_path, content, message):
    path = tmp_path / "v.bin"
    path.write_bytes(content)

    assert_refused(path, message, format="word2vec-binary")


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
@pytest.mark.usefixtures("parser")
def test_text_of_many_writers_is_read(tmp_path, text, expected):
    path = tmp_path / "v.txt"
    path.write_bytes(text.encode())

    found = formats.read(path)

    assert list(found.words) == expected
    assert_array_equal(found.input_vectors, [[1, 2], [3, 4]])


@pytest.mark.parametrize("lines", [b"2 2\nwi\0ne 1 0\ntea 0 1\n", b"wi\0ne 1 0\ntea 0 1\n"])
def test_a_zero_byte_in_the_first_word_does_not_make_text_binary(tmp_path, lines):
    path = tmp_path / "words.txt"
    path.write_bytes(lines)

    found = formats.read(path)

    assert list(found.words) == ["wi\0ne", "tea"]


def test_words_that_are_not_utf8_are_read_with_a_warning(tmp_path):
    path = tmp_path / "v.bin"
    row = np.float32([1, -2]).tobytes()
    records = [word + b" " + row for word in (b"a", b"caf\xc3", b"\xff\xfe")]
    path.write_bytes(b"3 2\n" + b"".join(records))

    with pytest.warns(UserWarning, match=r"2 words are not UTF-8 .*the first is b'caf\\xc3'"):
        found = formats.read(path)

    assert list(found.words) == ["a", "caf\\xc3", "\\xff\\xfe"]


def test_words_that_occur_again_are_left_out_with_a_warning(tmp_path):
    path = tmp_path / "v.txt"
    context = tmp_path / "context_v.txt"
    path.write_text("3 2\na 1 2\nb 3 4\na 5 6\n")
    context.write_text("3 2\na 7 8\nb 9 0\na 1 1\n")

    with pytest.warns(UserWarning, match=r"1 words occur again .*left out \(the first is 'a'\)"):
        found = formats.read(path)

    assert_array_equal(found.input_vectors, [[1, 2], [3, 4]])
    assert_array_equal(found.output_vectors, [[7, 8], [9, 0]])


# --- writing


@pytest.mark.parametrize("word", ["two words", "tab\there", "line\nbreak", ""])
def test_words_that_word2vec_cannot_hold_are_refused_on_writing(tmp_path, word):
    table = np.ones((2, 2), np.float32)
    words = WordVectors(Vocabulary(["a", word]), table)
    path = tmp_path / "v.txt"

    with pytest.raises(ValueError, match=r"without spaces.*Got 1 with them.*pacsent folder"):
        formats.write(words, path)

    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def words_alone(words):
    """The same words without output vectors."""
    return WordVectors(words.vocabulary, words.input_vectors)


def test_input_vectors_are_not_overwritten_unasked(binary_pair, words):
    with pytest.raises(FileExistsError, match=r"v.bin exists. Choose another name"):
        formats.write(words, binary_pair)


@pytest.mark.parametrize("model", ["words", "words_alone"])
def test_output_vectors_of_others_are_not_overwritten_unasked(request, binary_pair, model):
    model = request.getfixturevalue(model)
    binary_pair.unlink()

    with pytest.raises(FileExistsError, match=r"context_v.bin exists. Choose another name"):
        formats.write(model, binary_pair)


@pytest.mark.parametrize("model", ["words", "words_alone"])
def test_no_output_vectors_of_others_are_left_by_overwriting(request, binary_pair, model):
    model = request.getfixturevalue(model)

    formats.write(model, binary_pair, overwrite=True)
    again = formats.read(binary_pair)

    assert_same_vectors(again, model)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("a.txt", "word2vec-text"),
        ("b.VEC", "word2vec-text"),
        ("a.bin", "word2vec-binary"),
        ("model", "pacsent"),
    ],
)
def test_the_format_follows_from_the_name(name, expected):
    assert format_of_name(name) == expected


def test_a_name_without_a_known_format_is_refused_on_writing(tmp_path, words):
    path = tmp_path / "v.pt"

    with pytest.raises(ValueError, match=r"must follow from its name.* Got '.pt'"):
        formats.write(words, path)


def test_a_format_that_is_only_read_is_refused_on_writing(tmp_path, words):
    path = tmp_path / "v.txt"

    with pytest.raises(ValueError, match=r"format must be one of .* Got 'glove'"):
        formats.write(words, path, format="glove")


def test_an_unknown_format_is_refused_on_reading(tmp_path):
    assert_refused(tmp_path, r"format must be one of 'word2vec-text'.* Got 'x'", format="x")


@pytest.fixture
def saved_folder(tmp_path, words):
    """The words in the format of this library, written by `formats.write`."""
    folder = tmp_path / "model"
    formats.write(words, folder)
    return folder


@pytest.mark.parametrize("read", [load, formats.read])
def test_a_pacsent_folder_is_written_and_read(saved_folder, words, read):
    again = read(saved_folder)

    assert_same_vectors(again, words)


@pytest.mark.parametrize(
    ("option", "message"),
    [("counts", "counts must be left out"), ("context", "context must be")],
)
def test_options_that_a_pacsent_folder_would_not_use_are_refused(
    saved_folder, tmp_path, option, message
):
    options = {option: tmp_path / "other"}

    assert_refused(saved_folder, message, **options)


# --- GloVe text, and what is not word vectors


def test_glove_text_is_read(tmp_path):
    path = tmp_path / "g.txt"
    path.write_text("the 1 2 3\n. . 4 5 6\nat x@y.com 7 8 9\n")

    vectors = formats.read(path)

    assert list(vectors.words) == ["the", ". .", "at x@y.com"]
    assert_array_equal(vectors.input_vectors, [[1, 2, 3], [4, 5, 6], [7, 8, 9]])
    assert vectors.output_vectors is None
    assert vectors.counts is None


def test_the_first_word_of_glove_text_may_have_spaces(tmp_path):
    path = tmp_path / "g.txt"
    path.write_text("a b c 1 2\nthe 3 4\n")

    vectors = formats.read(path)

    assert vectors.n_dims == 2


def test_glove_text_of_one_dimension_is_taken_for_counts_unless_named(tmp_path):
    path = tmp_path / "g.txt"
    path.write_text("the 500\nof 400\n")

    vectors = formats.read(path, format="glove")

    assert vectors.n_dims == 1
    assert_refused(path, r"a list of counts rather than vectors")


class OpensOnUnpickling:
    """A pickle of this creates the file when it is loaded."""

    def __init__(self, path):
        self.path = str(path)

    def __reduce__(self):
        return (open, (self.path, "w"))


@pytest.mark.parametrize("protocol", range(6))
def test_a_pickle_is_refused_and_never_run(tmp_path, protocol):
    path = tmp_path / "v.model"
    exploded = tmp_path / "exploded"
    bomb = OpensOnUnpickling(exploded)
    path.write_bytes(pickle.dumps(bomb, protocol=protocol))

    assert_refused(path, r"must be word vectors in a known format.*It begins with .*never")
    assert not exploded.exists()


@pytest.mark.parametrize(
    "content",
    [
        b"PK\x03\x04" + bytes(26),
        b"<!DOCTYPE html>\n<html>404</html>",
        b"version https://git-lfs.github.com\n",
        bytes(1000),
    ],
    ids=["archive", "page", "pointer", "zeros"],
)
def test_what_is_not_word_vectors_is_refused_with_its_beginning(tmp_path, content):
    path = tmp_path / "v.model"
    path.write_bytes(content)

    assert_refused(path, r"must be word vectors in a known format.*It begins with .*never")


def test_the_beginning_of_a_compressed_file_is_shown_unpacked(tmp_path):
    path = tmp_path / "wiki.xml.bz2"
    path.write_bytes(bz2.compress(b"<mediawiki>\n<page>"))

    assert_refused(path, r"known format.*It begins with '<mediawiki")


def test_an_empty_file_is_named(tmp_path):
    path = tmp_path / "v.model"
    path.write_bytes(b"")

    assert_refused(path, r"is empty")


def test_a_path_where_nothing_is_is_named(tmp_path):
    nowhere = tmp_path / "nowhere"

    assert_refused(nowhere, r"There is no file or folder .*nowhere")


def test_a_folder_of_something_else_is_named(tmp_path):
    (tmp_path / "v.model").touch()

    assert_refused(tmp_path, r"must be a folder of word vectors.*It is neither")


# --- fastText


def fasttext_file(
    *, version=12, model=2, loss=2, bucket=3, minn=2, maxn=3, words=("a", "bb"), quant=False, dim=2
):
    """A fastText .bin made by hand from made-up numbers."""
    arguments = (dim, 5, 5, 1, 5, 1, loss, model, bucket, minn, maxn, 100)
    n_words = len(words)
    data = struct.pack("<2i", 793712314, version)
    data += struct.pack("<12id", *arguments, 1e-4)
    data += struct.pack("<3i2q", n_words, n_words, 0, 100, -1)
    for place, word in enumerate(words):
        data += word.encode() + b"\0"
        data += struct.pack("<qb", 10 - place, 0)

    n_rows = n_words + bucket
    table = np.arange(n_rows * dim, dtype="<f4").reshape(n_rows, dim)
    output = -np.arange(n_words * dim, dtype="<f4").reshape(n_words, dim)
    data += struct.pack("<?2q", quant, *table.shape)
    data += table.tobytes()
    data += struct.pack("<?2q", False, *output.shape)
    data += output.tobytes()

    return data, table, output


# An empty word is what -pretrainedVectors leaves for a line that begins with a space.
@pytest.mark.parametrize("names", [("a", "bb"), ("a", "", "dummy"), ("a", "</s>", "bb")])
def test_a_fasttext_file_has_its_words_counts_and_output_vectors(tmp_path, names):
    path = tmp_path / "f.bin"
    data, _, output = fasttext_file(words=names)
    path.write_bytes(data)

    vectors = formats.read(path)

    counts = [10, 9, 8]
    assert list(vectors.words) == list(names)
    assert_array_equal(vectors.counts, counts[: len(names)])
    assert_array_equal(vectors.output_vectors, output)


@pytest.mark.parametrize("names", [("a", "bb"), ("a", "", "dummy"), ("a", "</s>", "bb")])
def test_a_fasttext_vector_is_the_mean_of_its_word_and_subwords(tmp_path, names):
    path = tmp_path / "f.bin"
    data, table, _ = fasttext_file(words=names)
    path.write_bytes(data)

    vectors = formats.read(path)

    table_of_subwords = table[len(names) :]
    for row, name in enumerate(names):
        with_subwords = [] if name == "</s>" else [name.encode()]
        subwords, _ = vectors.subwords.rows(with_subwords)
        total = table[row] + table_of_subwords[subwords].sum(axis=0)
        expected = total / (1 + subwords.size)
        assert_allclose(vectors.input(name), expected, rtol=1e-6)


def test_the_subwords_of_a_fasttext_word_include_its_edges(tmp_path):
    path = tmp_path / "f.bin"
    data, _, _ = fasttext_file(minn=2, maxn=3)
    path.write_bytes(data)

    subwords = formats.read(path).subwords

    rows, _ = subwords.rows([b"a"])
    assert rows.size == 3  # <a  <a>  a>


def test_the_training_of_a_fasttext_file_is_known(tmp_path):
    path = tmp_path / "f.bin"
    data, _, _ = fasttext_file()
    path.write_bytes(data)

    training = formats.read(path).training

    assert training["n_negatives"] == 5
    assert training["method"] == "skip-gram"


def test_fasttext_text_has_the_vectors_of_its_binary(tmp_path):
    """fastText writes five digits, and a space at the end of every line of its .vec."""
    path = tmp_path / "f.bin"
    text_path = tmp_path / "f.vec"
    data, _, _ = fasttext_file(words=("a", "bb", "</s>"), dim=3)
    path.write_bytes(data)
    binary = formats.read(path)
    content = "3 3\n"
    for word, row in zip(binary.words, binary.input_vectors):
        numbers = " ".join(f"{x:.5g}" for x in row)
        content += f"{word} {numbers} \n"
    text_path.write_text(content)

    text = formats.read(text_path)

    assert list(text.words) == list(binary.words)
    assert text.output_vectors is None
    assert_allclose(text.input_vectors, binary.input_vectors, rtol=6e-5)


def test_hierarchical_softmax_leaves_no_output_vectors(tmp_path):
    path = tmp_path / "f.bin"
    data, _, _ = fasttext_file(loss=1)
    path.write_bytes(data)

    with pytest.warns(UserWarning, match=r"hierarchical softmax.*nodes of a tree"):
        vectors = formats.read(path)

    assert vectors.output_vectors is None
    assert "hierarchical softmax" in vectors.training["output_table"]


def test_a_fasttext_file_without_subwords_has_none_for_other_words(tmp_path):
    path = tmp_path / "f.bin"
    data, table, _ = fasttext_file(bucket=0, maxn=0, minn=0)
    path.write_bytes(data)

    vectors = formats.read(path)

    assert vectors.subwords is None
    assert_array_equal(vectors.input_vectors, table)
    with pytest.raises(ValueError, match=r"'zz' is not among"):
        vectors.input("zz")


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
    path = tmp_path / "f.bin"
    data, _, _ = fasttext_file(**changes)
    path.write_bytes(data)

    assert_refused(path, message)


def test_a_fasttext_file_of_before_its_first_bytes_were_fixed_is_named(tmp_path):
    path = tmp_path / "f.bin"
    data, _, _ = fasttext_file()
    path.write_bytes(data[8:])  # as before 2017

    assert_refused(path, r"must be word vectors in a known format")
    assert_refused(path, r"again with a current fastText", format="fasttext")


def test_a_fasttext_file_must_end_after_its_output_table(tmp_path):
    path = tmp_path / "f.bin"
    data, _, _ = fasttext_file()
    path.write_bytes(data + b"x")

    assert_refused(path, r"must end after its output table")


# --- truncated files

TRUNCATED = r"cut off|empty|is not a word|Download or copy it again"


@pytest.mark.parametrize("main", ["v.txt", "v.bin"])
@pytest.mark.parametrize("prefix", ["", "context_"])
def test_every_truncation_of_a_word2vec_file_is_refused(tmp_path, words, main, prefix):
    path = tmp_path / main
    formats.write(words, path)
    truncated = tmp_path / f"{prefix}{main}"
    whole = truncated.read_bytes()

    for end in range(len(whole)):
        truncated.write_bytes(whole[:end])
        assert_refused(path, TRUNCATED)


def test_every_truncation_of_a_fasttext_file_is_refused(tmp_path):
    path = tmp_path / "f.bin"
    whole, _, _ = fasttext_file()

    for end in range(len(whole)):
        path.write_bytes(whole[:end])
        assert_refused(path, TRUNCATED)


GLOVE_LINES = [b"the 1.5 2.25 3\n", b"of 4 -5 6e-1\n", b"and 7 8 9\n"]


def test_every_truncation_within_a_line_of_glove_text_is_refused(tmp_path):
    path = tmp_path / "g"

    for n_whole, last in enumerate(GLOVE_LINES):
        before = b"".join(GLOVE_LINES[:n_whole])
        for end in range(1, len(last)):
            path.write_bytes(before + last[:end])
            assert_refused(path, TRUNCATED)


@pytest.mark.parametrize("n_lines", [1, 2, 3])
def test_glove_text_that_ends_after_a_line_is_read(tmp_path, n_lines):
    """It has no header that gives the number of words."""
    path = tmp_path / "g"
    path.write_bytes(b"".join(GLOVE_LINES[:n_lines]))

    vectors = formats.read(path)

    assert vectors.n_dims == 3


# --- the same files in other programs

UNSEEN = ["unseenword", "ночевала", "日本語", "naïveté", "x", "a-b", "quelqu'un"]


@pytest.fixture
def fasttext():
    """fastText itself."""
    return pytest.importorskip("fasttext")


def assert_as_in_fasttext(ours, theirs):
    known = np.array([theirs.get_word_vector(word) for word in ours.words])

    assert list(ours.words) == theirs.get_words()
    assert_allclose(ours.input_vectors, known, atol=1e-6)
    if ours.output_vectors is not None:
        assert_array_equal(ours.output_vectors, theirs.get_output_matrix())


def assert_unseen_words_as_in_fasttext(ours, theirs):
    for word in UNSEEN:
        assert word not in ours
        assert_allclose(ours.input(word), theirs.get_word_vector(word), atol=1e-6)


@pytest.mark.parametrize(
    "name", ["crime-and-punishment.bin", "toy-model.bin", "lee_fasttext_new.bin"]
)
@pytest.mark.extra(needs="fasttext")
def test_sample_files_have_the_vectors_of_fasttext_itself(data_dir, fasttext, name):
    path = data_dir / "formats" / name
    if not path.exists():
        pytest.skip("the sample files of other programs are not here: set PACSENT_DATA")
    theirs = fasttext.load_model(str(path))

    ours = formats.read(path)

    assert_as_in_fasttext(ours, theirs)
    assert_unseen_words_as_in_fasttext(ours, theirs)
    assert ours.output_vectors is not None


@pytest.fixture
def train_fasttext(tmp_path, fasttext, capfd):
    """Trains a model of fastText, which prints, and returns it with the path of its file."""
    text = tmp_path / "text"
    path = tmp_path / "f.bin"
    text.write_text("the naïve film was good and quiet 日本 film\n" * 30)
    small = {"dim": 6, "bucket": 50, "epoch": 2, "minCount": 1, "thread": 1, "verbose": 0}

    def train(**settings):
        theirs = fasttext.train_unsupervised(str(text), **settings, **small)
        theirs.save_model(str(path))
        return theirs, path

    return train


@pytest.mark.parametrize(
    "settings",
    [
        {"loss": "ns", "model": "skipgram", "minn": 1, "maxn": 2},
        {"loss": "softmax", "model": "skipgram", "minn": 2, "maxn": 5},
    ],
)
@pytest.mark.extra(needs="fasttext")
def test_trained_files_have_the_vectors_of_fasttext_itself(train_fasttext, settings):
    theirs, path = train_fasttext(**settings)

    ours = formats.read(path)

    assert_as_in_fasttext(ours, theirs)
    assert_unseen_words_as_in_fasttext(ours, theirs)
    assert ours.output_vectors is not None


@pytest.mark.extra(needs="fasttext")
def test_files_trained_without_subwords_have_the_vectors_of_fasttext_itself(train_fasttext):
    theirs, path = train_fasttext(loss="ns", model="cbow", minn=0, maxn=0)

    ours = formats.read(path)

    assert_as_in_fasttext(ours, theirs)
    assert ours.output_vectors is not None
    assert ours.subwords is None


@pytest.mark.extra(needs="fasttext")
@pytest.mark.filterwarnings("ignore:.*hierarchical softmax")
def test_files_of_hierarchical_softmax_have_the_input_vectors_of_fasttext(train_fasttext):
    theirs, path = train_fasttext(loss="hs", model="skipgram", minn=3, maxn=6)

    ours = formats.read(path)

    assert_as_in_fasttext(ours, theirs)
    assert_unseen_words_as_in_fasttext(ours, theirs)
    assert ours.output_vectors is None


@pytest.fixture
def keyed_vectors():
    """The class of gensim that reads and writes word2vec files."""
    models = pytest.importorskip("gensim.models")
    return models.KeyedVectors


@pytest.mark.parametrize(("name", "binary"), [("v.txt", False), ("v.bin", True)])
@pytest.mark.extra(needs="gensim")
def test_gensim_reads_what_we_write(tmp_path, words, keyed_vectors, name, binary):
    path = tmp_path / name
    context = tmp_path / f"context_{name}"
    formats.write(words, path)

    inputs = keyed_vectors.load_word2vec_format(str(path), binary=binary)
    outputs = keyed_vectors.load_word2vec_format(str(context), binary=binary)

    assert inputs.index_to_key == WORDS
    assert outputs.index_to_key == WORDS
    assert_array_equal(inputs.vectors, words.input_vectors)
    assert_array_equal(outputs.vectors, words.output_vectors)


@pytest.mark.parametrize("binary", [False, True])
@pytest.mark.extra(needs="gensim")
def test_we_read_what_gensim_writes(tmp_path, words, keyed_vectors, binary):
    path = tmp_path / "v.txt"
    back_path = tmp_path / "back"
    formats.write(words, path)
    theirs = keyed_vectors.load_word2vec_format(str(path))
    theirs.save_word2vec_format(str(back_path), binary=binary)

    back = formats.read(back_path)

    assert list(back.words) == WORDS
    assert_array_equal(back.input_vectors, words.input_vectors)


def test_the_provided_vectors_are_read(data_dir):
    folder = data_dir / "vectors"
    if not folder.is_dir():
        pytest.skip("the provided vectors are not here: set PACSENT_DATA")

    found = datasets.load_word_vectors(folder)

    assert found.n_words == 108_333
    assert found.n_dims == 300
    assert found.input_vectors.dtype == np.float16
    assert isinstance(found.input_vectors.base, np.memmap)
    assert found.words[0] == "the"
    assert found.counts[0] == 26_318_521


# --- the command line


def test_convert_goes_round_and_says_what_was_read(tmp_path, words, monkeypatch):
    monkeypatch.chdir(tmp_path)
    save(words, "model")

    first = invoke("model", "convert", "model", "v.txt", status=0)
    second = invoke("model", "convert", "v.txt", "v.bin", status=0)
    third = invoke("model", "convert", "v.bin", "again", status=0)

    for done in (first, second, third):
        assert "5 words, 4 dimensions, float32, input and output vectors" in done.output
    assert "counts known" not in third.output
    assert_same_vectors(load("again"), words)


def test_convert_reports_to_scripts_what_was_read(binary_pair, tmp_path):
    done = invoke("model", "convert", binary_pair, tmp_path / "m", "--json", status=0)

    report = json.loads(done.output)
    assert report["n_words"] == 5
    assert report["n_dims"] == 4
    assert report["dtype"] == "float32"
    assert report["tables"] == ["input", "output"]
    assert report["format"] == "word2vec-binary"
    assert report["to"] == "pacsent"
    assert report["counts_known"] is False


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        ("v m", 1, "Error: .*known format"),
        ("v out.w2v", 1, "Error: .*known format"),  # before the name of the output
        ("v m --to x", 2, "--to"),
        ("v.txt - --to word2vec-binary --overwrite", 1, "a file or a folder.*'-'"),
    ],
)
def test_convert_has_one_line_for_a_bad_file_and_refuses_bad_options(
    tmp_path, capsys, monkeypatch, arguments, status, message
):
    (tmp_path / "v").write_bytes(pickle.dumps([1]))
    (tmp_path / "v.txt").write_text("1 1\na 1\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", ["pacsent", "model", "convert", *arguments.split()])

    with pytest.raises(SystemExit) as stopped:
        main()

    shown = capsys.readouterr()
    assert stopped.value.code == status
    assert shown.out == ""
    assert re.search(message, shown.err)
    assert "Traceback" not in shown.err
    assert {path.name for path in tmp_path.iterdir()} == {"v", "v.txt"}
