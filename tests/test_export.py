"""Methods as one table for other libraries: their reading of the files, written out, is ours.

The libraries themselves are compared where they are installed (extra `[bench]`).
"""

import json
import re
import warnings

import numpy as np
import pytest
from click.testing import CliRunner

from pacsent import Vocabulary, WordVectors, make
from pacsent.cli import cli
from pacsent.encoders.export import as_table, export
from pacsent.storage import read_tensors, write_tensors
from pacsent.words import formats

WORDS = ["the", "film", "one", "nine", "a", "good", "s", "it"]
TEXTS = ["The GOOD film!", "It's 19 films; naïve?", "", "unknown things", "a a a film"]


@pytest.fixture(scope="module")
def words():
    tables = np.random.default_rng(0).normal(size=(2, len(WORDS), 6)).astype(np.float32)
    return WordVectors(Vocabulary(WORDS, range(80, 0, -10)), *tables)


def read_tokens(tokenizer, text):
    """What the tokenizers library does with such a file."""
    for step in tokenizer["normalizer"]["normalizers"]:
        if step["type"] == "Lowercase":
            text = text.lower()
        elif step["type"] == "Strip":
            text = text.strip()
        else:
            (kind, pattern), *_ = step["pattern"].items()
            text = re.sub(pattern if kind == "Regex" else re.escape(pattern), step["content"], text)
    mark = tokenizer["pre_tokenizer"]["replacement"]
    vocab = tokenizer["model"]["vocab"]
    assert all(len(token) > 1 for token in vocab)  # no letter of an unknown word is a token
    pieces = [mark + piece for piece in text.split(" ")]
    return [vocab[piece] for piece in pieces if piece in vocab]


@pytest.mark.parametrize("to", ["model2vec", "sentence-transformers"])
@pytest.mark.parametrize("name", ["Average", "i-Average", "SIF", "uSIF", "SIF-sum", "concat"])
def test_the_mean_of_the_exported_rows_is_our_vector(words, name, to, tmp_path):
    vectorizer = make(name, words, on_empty="ignore").fit([])
    folder = export(vectorizer, tmp_path / "out", to)
    [table] = read_tensors(folder / "model.safetensors").values()
    tokenizer = json.loads((folder / "tokenizer.json").read_text())
    found = []
    for text in TEXTS:
        ids = read_tokens(tokenizer, text)
        found.append(table[ids].mean(axis=0) if ids else np.zeros(table.shape[1]))
    np.testing.assert_allclose(found, vectorizer.transform(TEXTS), atol=1e-5)
    with pytest.raises(ValueError, match="exists"):
        export(vectorizer, folder, to)
    export(vectorizer, folder, to, overwrite=True)


@pytest.mark.parametrize("name", ["PB-L2", "IDF-Average", "PB-neg"])
def test_what_is_no_mean_of_rows_is_refused(words, name, tmp_path):
    vectorizer = make(name, words, on_empty="ignore").fit(["the good film", "a film"])
    with pytest.raises(ValueError, match="is not the mean of one row for each word"):
        export(vectorizer, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_pb_l2_with_one_balance_for_every_length_is_a_mean_of_rows(words):
    assert as_table(make("PB-L2", words, lam_mode="per-token").fit([])).shape == (len(WORDS), 6)


def test_texts_read_in_another_way_cannot_travel(words, tmp_path):
    other = Vocabulary(WORDS, normalise="unicode")
    words = WordVectors(other, words.input_vectors)
    with pytest.raises(ValueError, match="Only a vocabulary with normalise='paper'"):
        export(make("Average", words).fit([]), tmp_path / "out")
    with pytest.raises(ValueError, match="to must be one of"):
        export(make("Average", words).fit([]), tmp_path / "out", "gensim")


def test_a_folder_that_was_not_exported_is_left_alone(words, tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "letter.txt").write_text("dear")
    with pytest.raises(ValueError, match="exists"):
        export(make("Average", words).fit([]), tmp_path / "mine", overwrite=True)
    assert (tmp_path / "mine" / "letter.txt").read_text() == "dear"


@pytest.mark.slow
def test_the_command_exports_english(tmp_path):
    done = CliRunner().invoke(cli, ["export", "english", str(tmp_path / "out")])
    assert done.exit_code == 0, done.output
    assert (tmp_path / "out" / "modules.json").is_file()


# ---- the libraries themselves --------------------------------------------------------------------


def their_vectors(folder, to, texts):
    if to == "model2vec":
        model = pytest.importorskip("model2vec", reason="the extra [bench] is not installed")
        return model.StaticModel.from_pretrained(folder).encode(texts, max_length=None)
    library = pytest.importorskip(
        "sentence_transformers", reason="the extra [bench] is not installed"
    )
    return library.SentenceTransformer(str(folder), device="cpu").encode(texts)


@pytest.mark.parametrize("to", ["model2vec", "sentence-transformers"])
@pytest.mark.parametrize("name", ["Average", "SIF", "uSIF", "SIF-sum", "concat"])
@pytest.mark.extra
def test_the_libraries_give_our_vectors(words, name, to, tmp_path):
    vectorizer = make(name, words, on_empty="ignore").fit([])
    theirs = their_vectors(export(vectorizer, tmp_path / "out", to), to, TEXTS)
    np.testing.assert_allclose(theirs, vectorizer.transform(TEXTS), atol=1e-5)


# ---- and back ------------------------------------------------------------------------------------


@pytest.mark.parametrize("to", ["model2vec", "sentence-transformers"])
def test_an_exported_folder_is_read_again(words, to, tmp_path):
    vectorizer = make("SIF", words, on_empty="ignore").fit([])
    folder = export(vectorizer, tmp_path / "out", to)
    assert formats.detect(folder) == "static"
    again = formats.read(folder)
    assert again.words == WORDS and again.counts is None
    np.testing.assert_array_equal(again.input_vectors, as_table(vectorizer).astype(np.float32))
    done = CliRunner().invoke(cli, ["convert", str(folder), str(tmp_path / "back")])
    assert done.exit_code == 0, done.output
    average = make("Average", str(tmp_path / "back"), on_empty="ignore").fit([])
    np.testing.assert_allclose(average.transform(TEXTS), vectorizer.transform(TEXTS), atol=1e-5)


def static(folder, vocab, *, model="WordPiece", added=(), **tensors):
    folder.mkdir(parents=True)
    tokenizer = {"model": {"type": model, "vocab": vocab, "unk_token": "[UNK]"},
                 "added_tokens": [{"id": i, "content": token} for token, i in added]}  # fmt: skip
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
    write_tensors(folder / "model.safetensors", tensors)
    return folder


def test_shared_rows_and_weights_of_model2vec_are_folded_in(tmp_path):
    vocab = {"[UNK]": 0, "film": 1, "##s": 2, "good": 3}
    table = np.arange(6, dtype=np.float32).reshape(2, 3)
    folder = static(
        tmp_path / "m", vocab, added=[("[UNK]", 0)],
        embeddings=table, mapping=np.array([0, 1, 0, 1]), weights=np.array([1.0, 2, 1, 0.5]),
    )  # fmt: skip
    with pytest.warns(UserWarning, match="2 of 4 tokens are parts of words or special"):
        words = formats.read(folder)
    assert words.words == ["film", "good"]
    np.testing.assert_array_equal(words.input_vectors, [2 * table[1], 0.5 * table[1]])


@pytest.mark.parametrize("mark", ["▁", "Ġ"])
def test_words_lose_the_mark_of_their_tokenizer(mark, tmp_path):
    vocab = {f"{mark}film": 0, "s": 1, f"{mark}s": 2}
    table = np.eye(3, dtype=np.float32)
    folder = static(tmp_path / "m" / "0_StaticEmbedding", vocab, model="BPE",
                    **{"embedding.weight": table}).parent  # fmt: skip
    with pytest.warns(UserWarning, match="1 of 3 tokens"):
        words = formats.read(folder)
    assert words.words == ["film", "s"]
    np.testing.assert_array_equal(words.input_vectors, table[[0, 2]])
    unigram = static(tmp_path / "u", [["a", 0.0], ["b", -1.0]], model="Unigram", embeddings=table)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert formats.read(unigram).words == ["a", "b"]


@pytest.mark.parametrize(
    "vocab, tensors, message",
    [
        ({"a": 5}, {"embeddings": np.eye(2, dtype="f4")}, "must hold a row for every token"),
        ({"a": -1}, {"embeddings": np.eye(2, dtype="f4")}, "must hold a row for every token"),
        ({"a": "x"}, {"embeddings": np.eye(2, dtype="f4")}, "must be a tokenizer with its tokens"),
        ({"a": 0}, {"other": np.eye(2, dtype="f4")}, "must hold a table named embeddings"),
        ({"##a": 0}, {"embeddings": np.eye(2, dtype="f4")}, "must hold tokens that are words"),
        (
            {"a": 0},
            {"embeddings": np.eye(2, dtype="f4"), "mapping": np.array([7, 0])},
            "mapping must name rows",
        ),
        (
            {"a": 0},
            {"embeddings": np.eye(2, dtype="f4"), "weights": np.ones(3)},
            "weights must have one number",
        ),
        ({"a": 0}, {"embeddings": np.full((1, 2), np.nan, "f4")}, "finite"),
    ],
)
def test_a_damaged_static_folder_is_refused_in_one_line(vocab, tensors, message, tmp_path):
    folder = static(tmp_path / "m", vocab, **tensors)
    with pytest.raises(ValueError, match=message):
        formats.read(folder)


@pytest.mark.extra
def test_folders_written_by_the_libraries_are_read(tmp_path):
    model2vec = pytest.importorskip("model2vec", reason="the extra [bench] is not installed")
    library = pytest.importorskip("sentence_transformers", reason="not installed either")
    tokenizers = pytest.importorskip("tokenizers")
    from sentence_transformers.models import StaticEmbedding

    vocab = {"[UNK]": 0, "[PAD]": 1, "the": 2, "good": 3, "film": 4, "##s": 5}
    tokenizer = tokenizers.Tokenizer(tokenizers.models.WordPiece(vocab, unk_token="[UNK]"))
    tokenizer.normalizer = tokenizers.normalizers.Lowercase()
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    tokenizer.add_special_tokens(["[UNK]", "[PAD]"])
    table = np.random.default_rng(0).normal(size=(6, 4)).astype(np.float32)
    weights = np.arange(1, 7, dtype=np.float64)
    static_model = model2vec.StaticModel(table, tokenizer, weights=weights)
    static_model.save_pretrained(tmp_path / "m2v")
    module = StaticEmbedding(tokenizer, embedding_weights=table)
    library.SentenceTransformer(modules=[module], device="cpu").save(str(tmp_path / "st"))
    for name, rows in (("m2v", table * weights[:, None]), ("st", table)):
        with pytest.warns(UserWarning, match="3 of 6 tokens"):
            words = formats.read(tmp_path / name)
        assert words.words == ["the", "good", "film"]
        np.testing.assert_allclose(words.input_vectors, rows[2:5], rtol=1e-6)
    average = make("Average", words).fit([]).transform(["The good film"])
    np.testing.assert_allclose(
        average, library.SentenceTransformer(str(tmp_path / "st")).encode(["The good film"]),
        atol=1e-6,
    )  # fmt: skip
