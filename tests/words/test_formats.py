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


@pytest.mark.parametrize("name", ["v.txt", "v.bin"])
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_a_word2vec_pair_comes_back_as_it_was(tmp_path, words, monkeypatch, name, dtype):
    words = words.astype(dtype)
    written = formats.write(words, tmp_path / name)
    assert written == [tmp_path / name, tmp_path / f"context_{name}"]

    for block in (7, 33, 100, 1 << 20):
        monkeypatch.setattr(formats.word2vec, "BLOCK_BYTES", block)
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
    refused(context, r"has the output vectors of the pair.*Read v.txt")
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
        records = [w + b" " + r.tobytes() + end for w, r in zip((b"a", b"bb", b"ccc"), rows)]
        (tmp_path / "v.bin").write_bytes(b"3 4\n" + b"".join(records))
        found = formats.read(tmp_path / "v.bin")
        assert list(found.words) == ["a", "bb", "ccc"]
        assert_array_equal(found.input_vectors, rows)


letters = st.characters(exclude_categories=["Cs"], exclude_characters=" \t\n\r\v\f")
word = st.text(letters, min_size=1, max_size=8)


@settings(max_examples=60)
@given(st.lists(word, min_size=3, max_size=8, unique=True), st.data())
@pytest.mark.parametrize("name", ["v.txt", "v.bin"])
def test_odd_words_and_any_numbers_come_back(tmp_path, name, odd, data):
    number = st.floats(width=32, allow_nan=False, allow_infinity=False)
    row = st.lists(number, min_size=3, max_size=3)
    rows = data.draw(st.lists(row, min_size=len(odd), max_size=len(odd)))
    table = np.array(rows, dtype=np.float32).reshape(len(odd), 3)
    words = WordVectors(Vocabulary(odd), table, -table)

    formats.write(words, tmp_path / name, overwrite=True)
    same_tables(formats.read(tmp_path / name), words)


NUMBER = b"\xff\xff\x00\x01"
MISTAKES = [
    ("v.txt", b"2 3\na 1 2 3\nb 1 2\n", r"Line 3 of .* Got 2 numbers .*after 'b'"),
    ("v.txt", b"2 3\na 1 2 3\nb 1 2 3 4\n", r"Line 3 of .* Got 4 numbers instead"),
    ("v.txt", b"2 3\na 1 2 3\nb 1 x 3\n", r"Line 3 of .* Got 'x' where a number should be"),
    ("v.txt", b"1 2\na 1_0 3\n", r"Got '1_0' where a number should be"),
    ("v.txt", b"2 2\na 1 2\nb nan 3\n", r"Line 3 of .* finite numbers. Got 'nan'"),
    ("v.txt", b"2 2\na 1 2\nb 1 1e39\n", r"Line 3 of .* finite numbers. Got '1e39'"),
    ("v.txt", b"3 1\na 1\nb 2\n", r"must have 3 words, as its first line says. Got 2"),
    ("v.txt", b"1 1\na 1\nb 2\n", r"must have 1 words, as its first line says. Got more"),
    ("v.txt", b"5 0\na\n", r"at least one word of one dimension"),
    ("v.txt", b"999999999999 300\na 1\n", r"Line 2 of .* and 300 finite numbers. Got 1"),
    ("v.txt", b"1 2\n 1 2\n", r"must begin with a word"),
    ("v.txt", b"1 2\na 1 2", r"must end with a line break.*cut off"),
    ("v.bin", b"3 1\na 1234\nb 1234\n", r"must have 3 words of 1 .* It ends after 2"),
    ("v.bin", b"1 1\na 1234\nb 1234\n", r"must have 1 words of 1 .* More follows"),
    ("v.bin", b"2 1\na " + NUMBER + b"\n " + NUMBER + b"\n", r"at word 2 is not a word"),
    ("v.bin", b"1 1\na \x00\x00\xc0\x7f\n", r"finite numbers.*row 0 \('a'\)"),
    ("v.bin", b"999999999999 300\na " + NUMBER + b"\n", r"It ends after 0"),
    ("v.bin", b"1 1\n" + b"\xff" * 20_000, r"It ends after 0|is not a word"),
]


@pytest.fixture(params=["compiled", "plain"])
def parser(request, monkeypatch):
    """Of lines of text: the compiled one, or that in Python."""
    if request.param == "plain":
        monkeypatch.setattr(formats.word2vec, "parse_lines", parse_lines_plainly)


@pytest.mark.usefixtures("parser")
@pytest.mark.parametrize(("name", "content", "message"), MISTAKES)
def test_mistakes_are_named_with_their_place(tmp_path, name, content, message):
    (tmp_path / name).write_bytes(content)
    kind = {"v.txt": "word2vec-text", "v.bin": "word2vec-binary"}[name]
    refused(tmp_path / name, message, format=kind)


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
    (tmp_path / "v.txt").write_bytes(text.encode())
    found = formats.read(tmp_path / "v.txt")

    assert list(found.words) == expected
    assert_array_equal(found.input_vectors, [[1, 2], [3, 4]])


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


def test_words_that_word2vec_cannot_hold_are_refused_on_writing(tmp_path):
    for word in ("two words", "tab\there", "line\nbreak", ""):
        words = WordVectors(Vocabulary(["a", word]), np.ones((2, 2), np.float32))
        with pytest.raises(ValueError, match=r"without spaces.*Got 1 with them.*pacsent folder"):
            formats.write(words, tmp_path / "v.txt")

    assert list(tmp_path.iterdir()) == []


def test_nothing_is_overwritten_unasked(tmp_path, words):
    path, alone = tmp_path / "v.bin", WordVectors(words.vocabulary, words.input_vectors)
    formats.write(words, path)

    with pytest.raises(FileExistsError, match=r"v.bin exists. Choose another name"):
        formats.write(words, path)

    path.unlink()
    for model in (words, alone):
        with pytest.raises(FileExistsError, match=r"context_v.bin exists. Choose another name"):
            formats.write(model, path)

    for model in (words, alone):  # no output table of others is left
        formats.write(model, path, overwrite=True)
        same_tables(formats.read(path), model)


def test_the_format_follows_from_the_name(tmp_path, words):
    assert format_of_name("a.txt") == format_of_name("b.VEC") == "word2vec-text"
    assert format_of_name("a.bin") == "word2vec-binary"
    assert format_of_name("model") == "pacsent"

    with pytest.raises(ValueError, match=r"must follow from its name.* Got '.pt'"):
        formats.write(words, tmp_path / "v.pt")
    with pytest.raises(ValueError, match=r"format must be one of .* Got 'glove'"):
        formats.write(words, tmp_path / "v.txt", format="glove")
    refused(tmp_path, r"format must be one of 'word2vec-text'.* Got 'x'", format="x")

    formats.write(words, tmp_path / "model")
    same_tables(load(tmp_path / "model"), words)
    same_tables(formats.read(tmp_path / "model"), words)

    # options that would not be used
    refused(tmp_path / "model", "counts must be left out", counts=tmp_path / "other")
    refused(tmp_path / "model", "context must be", context=tmp_path / "other")


def test_glove_text_is_read(tmp_path):
    path = tmp_path / "g.txt"
    path.write_text("the 1 2 3\n. . 4 5 6\nat x@y.com 7 8 9\n")
    vectors = formats.read(path)
    assert list(vectors.words) == ["the", ". .", "at x@y.com"]
    assert_array_equal(vectors.input_vectors, np.arange(1, 10).reshape(3, 3))
    assert vectors.output_vectors is None and vectors.counts is None

    path.write_text("a b c 1 2\nthe 3 4\n")  # spaces in the first word
    assert formats.read(path).n_dims == 2

    path.write_text("the 500\nof 400\n")
    refused(path, r"a list of counts rather than vectors")
    assert formats.read(path, format="glove").n_dims == 1


def test_what_is_not_word_vectors_gets_one_clear_error_and_is_never_run(tmp_path):
    class Bomb:
        def __reduce__(self):
            return (open, (str(tmp_path / "exploded"), "w"))

    path = tmp_path / "v.model"
    pickles = [pickle.dumps(Bomb(), protocol=protocol) for protocol in range(6)]
    page, pointer = b"<!DOCTYPE html>\n<html>404</html>", b"version https://git-lfs.github.com\n"

    for content in (*pickles, b"PK\x03\x04" + bytes(26), page, pointer, bytes(1000)):
        path.write_bytes(content)
        refused(path, r"must be word vectors in a known format.*It begins with .*never")

    (tmp_path / "wiki.xml.bz2").write_bytes(bz2.compress(b"<mediawiki>\n<page>"))
    refused(tmp_path / "wiki.xml.bz2", r"known format.*It begins with '<mediawiki")

    path.write_bytes(b"")
    refused(path, r"is empty")
    refused(tmp_path / "nowhere", r"There is no file or folder .*nowhere")
    refused(tmp_path, r"must be a folder of word vectors.*It is neither")

    assert not (tmp_path / "exploded").exists()


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


@pytest.mark.parametrize("names", [("a", "bb"), ("a", "", "dummy"), ("a", "</s>", "bb")])
def test_a_fasttext_file_by_hand(tmp_path, names):
    """An empty word is what -pretrainedVectors leaves for a line that begins with a space."""
    data, table, output = fasttext_file(words=names)
    (tmp_path / "f.bin").write_bytes(data)
    vectors = formats.read(tmp_path / "f.bin")

    assert list(vectors.words) == list(names)
    assert_array_equal(vectors.counts, [10, 9, 8][: len(names)])
    assert_array_equal(vectors.output_vectors, output)

    for row, name in enumerate(names):
        rows, _ = vectors.subwords.rows([name.encode()] if name != "</s>" else [])
        expected = (table[row] + table[len(names) :][rows].sum(axis=0)) / (1 + rows.size)
        assert_allclose(vectors.input(name), expected, rtol=1e-6)

    assert vectors.subwords.rows([b"a"])[0].size == 3  # <a  <a>  a>
    assert vectors.training["n_negatives"] == 5
    assert vectors.training["method"] == "skip-gram"


def test_fasttext_text_has_the_vectors_of_its_binary(tmp_path):
    """fastText writes five digits, and a space at the end of every line of its .vec."""
    (tmp_path / "f.bin").write_bytes(fasttext_file(words=("a", "bb", "</s>"), dim=3)[0])
    binary = formats.read(tmp_path / "f.bin")

    rows = [" ".join(f"{x:.5g}" for x in row) for row in binary.input_vectors]
    lines = ["3 3", *(f"{word} {row} " for word, row in zip(binary.words, rows))]
    (tmp_path / "f.vec").write_text("\n".join(lines) + "\n")
    text = formats.read(tmp_path / "f.vec")

    assert list(text.words) == list(binary.words) and text.output_vectors is None
    assert_allclose(text.input_vectors, binary.input_vectors, rtol=6e-5)


def test_a_fasttext_file_without_subwords_or_output_vectors(tmp_path):
    data, table, _ = fasttext_file(bucket=0, maxn=0, minn=0, loss=1)
    (tmp_path / "f.bin").write_bytes(data)

    with pytest.warns(UserWarning, match=r"hierarchical softmax.*nodes of a tree"):
        vectors = formats.read(tmp_path / "f.bin")

    assert vectors.subwords is None and vectors.output_vectors is None
    assert "hierarchical softmax" in vectors.training["output_table"]
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
    (tmp_path / "f.bin").write_bytes(fasttext_file(**changes)[0])
    refused(tmp_path / "f.bin", message)


def test_a_fasttext_file_of_before_its_first_bytes_were_fixed_is_named(tmp_path):
    (tmp_path / "f.bin").write_bytes(fasttext_file()[0][8:])  # as before 2017
    refused(tmp_path / "f.bin", r"must be word vectors in a known format")
    refused(tmp_path / "f.bin", r"again with a current fastText", format="fasttext")


@pytest.mark.parametrize("name", ["v.txt", "v.bin", "context_v.txt", "context_v.bin", "f.bin", "g"])
def test_every_truncation_is_refused(tmp_path, words, name):
    if name == "f.bin":
        (tmp_path / name).write_bytes(fasttext_file()[0])
    elif name == "g":
        (tmp_path / name).write_bytes(b"the 1.5 2.25 3\nof 4 -5 6e-1\nand 7 8 9\n")

    main = tmp_path / name.removeprefix("context_")
    if main.name.startswith("v"):
        formats.write(words, main)
    whole = (tmp_path / name).read_bytes()

    for cut in range(len(whole)):
        (tmp_path / name).write_bytes(whole[:cut])
        if name == "g" and whole[:cut].endswith(b"\n"):  # without a header nothing tells
            assert formats.read(main).n_dims == 3
        else:
            refused(main, r"cut off|empty|is not a word|Download or copy it again")

    if name == "f.bin":
        main.write_bytes(whole + b"x")
        refused(main, r"must end after its output table")


UNSEEN = ["unseenword", "ночевала", "日本語", "naïveté", "x", "a-b", "quelqu'un"]


@pytest.mark.parametrize(
    "source",
    [
        *("crime-and-punishment.bin", "toy-model.bin", "lee_fasttext_new.bin"),
        {"loss": "ns", "model": "skipgram", "minn": 1, "maxn": 2},
        {"loss": "ns", "model": "cbow", "minn": 0, "maxn": 0},
        {"loss": "softmax", "model": "skipgram", "minn": 2, "maxn": 5},
        {"loss": "hs", "model": "skipgram", "minn": 3, "maxn": 6},
    ],
)
@pytest.mark.extra(needs="fasttext")
@pytest.mark.filterwarnings("ignore:.*hierarchical softmax")
def test_fasttext_itself_gives_the_same_vectors(request, tmp_path, source, capfd):
    fasttext = pytest.importorskip("fasttext")

    if isinstance(source, str):
        path = request.getfixturevalue("data_dir") / "formats" / source
        if not path.exists():
            pytest.skip("the sample files of other programs are not here: set PACSENT_DATA")
        theirs, trained = fasttext.load_model(str(path)), {"loss": "ns", "maxn": 1}
    else:
        (tmp_path / "text").write_text("the naïve film was good and quiet 日本 film\n" * 30)
        more = {"dim": 6, "bucket": 50, "epoch": 2, "minCount": 1, "thread": 1, "verbose": 0}
        theirs = fasttext.train_unsupervised(str(tmp_path / "text"), **source, **more)
        path, trained = tmp_path / "f.bin", source
        theirs.save_model(str(path))

    ours = formats.read(path)
    assert list(ours.words) == theirs.get_words()
    known = np.array([theirs.get_word_vector(word) for word in ours.words])
    assert_allclose(ours.input_vectors, known, atol=1e-6)

    assert (ours.output_vectors is None) == (trained["loss"] == "hs")
    if ours.output_vectors is not None:
        assert_array_equal(ours.output_vectors, theirs.get_output_matrix())

    assert (ours.subwords is None) == (not trained["maxn"])
    for word in UNSEEN if trained["maxn"] else ():
        assert word not in ours
        assert_allclose(ours.input(word), theirs.get_word_vector(word), atol=1e-6)


@pytest.mark.parametrize("name", ["v.txt", "v.bin"])
@pytest.mark.extra(needs="gensim")
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


def test_the_provided_vectors_are_read(data_dir):
    if not (data_dir / "vectors").is_dir():
        pytest.skip("the provided vectors are not here: set PACSENT_DATA")

    found = datasets.load_word_vectors(data_dir / "vectors")
    assert (found.n_words, found.n_dims) == (108_333, 300)
    assert found.input_vectors.dtype == np.float16
    assert found.words[0] == "the" and found.counts[0] == 26_318_521
    assert isinstance(found.input_vectors.base, np.memmap)


def test_convert_goes_round_and_tells_scripts_what_was_read(tmp_path, words):
    save(words, tmp_path / "model")

    def convert(source, destination, *options):
        paths = tmp_path / source, tmp_path / destination
        return invoke("model", "convert", *paths, *options, status=0).output

    for source, destination in (("model", "v.txt"), ("v.txt", "v.bin"), ("v.bin", "again")):
        output = convert(source, destination)
        assert "5 words, 4 dimensions, float32, input and output vectors" in output

    same_tables(load(tmp_path / "again"), words)
    assert "counts known" not in output

    report = json.loads(convert("v.bin", "m", "--json"))
    shape = {"n_words": 5, "n_dims": 4, "dtype": "float32", "tables": ["input", "output"]}
    origin = {"format": "word2vec-binary", "to": "pacsent", "counts_known": False}
    assert report == report | shape | origin


def test_convert_has_one_line_for_a_bad_file_and_refuses_bad_options(tmp_path, capsys, monkeypatch):
    (tmp_path / "v").write_bytes(pickle.dumps([1]))
    (tmp_path / "v.txt").write_text("1 1\na 1\n")
    bad, good, target = (str(tmp_path / name) for name in ("v", "v.txt", "m"))

    for arguments, status, message in (
        ([bad, target], 1, "Error: .*known format"),
        ([bad, "out.w2v"], 1, "Error: .*known format"),  # before the name of the output
        ([bad, target, "--to", "x"], 2, "--to"),
        ([good, "-", "--to", "word2vec-binary", "--overwrite"], 1, "a file or a folder.*'-'"),
    ):
        monkeypatch.setattr("sys.argv", ["pacsent", "model", "convert", *arguments])
        with pytest.raises(SystemExit) as stopped:
            main()

        assert stopped.value.code == status
        shown = capsys.readouterr()
        assert "Traceback" not in shown.err and shown.out == ""
        assert re.search(message, shown.err)

    assert sorted(path.name for path in tmp_path.iterdir()) == ["v", "v.txt"]


@pytest.mark.parametrize("lines", [b"2 2\nwi\0ne 1 0\ntea 0 1\n", b"wi\0ne 1 0\ntea 0 1\n"])
def test_a_zero_byte_in_the_first_word_does_not_make_text_binary(tmp_path, lines):
    (tmp_path / "words.txt").write_bytes(lines)
    assert list(formats.read(tmp_path / "words.txt").words) == ["wi\0ne", "tea"]
