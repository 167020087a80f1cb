"""Methods as one table for other libraries: their reading of the files, written out, is ours.

The libraries themselves are compared where they are installed (extra `[bench]`).
"""

import json
import re

import numpy as np
import pytest

from helpers import invoke
from pacsent import Vocabulary, WordVectors, make_encoder
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
    assert all(len(token) > 1 for token in vocab)  # no letter of an OOV word is a token
    pieces = [mark + piece for piece in text.split(" ")]
    return [vocab[piece] for piece in pieces if piece in vocab]


@pytest.mark.parametrize("name", ["Average", "i-Average", "SIF", "uSIF", "SIF-sum", "concat"])
def test_the_mean_of_the_exported_rows_is_our_vector(words, name, tmp_path):
    vectorizer = make_encoder(name, words, on_empty="ignore").fit([])
    folder = export(vectorizer, tmp_path / "out")
    [table] = read_tensors(folder / "model.safetensors").values()
    tokenizer = json.loads((folder / "tokenizer.json").read_text())
    found = []
    for text in TEXTS:
        ids = read_tokens(tokenizer, text)
        found.append(table[ids].mean(axis=0) if ids else np.zeros(table.shape[1]))
    np.testing.assert_allclose(found, vectorizer.transform(TEXTS), atol=1e-5)
    with pytest.raises(ValueError, match="exists"):
        export(vectorizer, folder)
    export(vectorizer, folder, overwrite=True)


def test_what_cannot_be_exported_is_refused_and_other_folders_are_left_alone(words, tmp_path):
    for name in ("PB-L2", "IDF-Average", "PB-neg"):
        vectorizer = make_encoder(name, words, on_empty="ignore").fit(["the good film", "a film"])
        with pytest.raises(ValueError, match="is not the mean of one row for each word"):
            export(vectorizer, tmp_path / "out")
    # with one balance for every length it is
    vectorizer = make_encoder("PB-L2", words, lam_mode="per-token").fit([])
    assert as_table(vectorizer).shape == (len(WORDS), 6)
    other = WordVectors(Vocabulary(WORDS, normalize="unicode"), words.input_vectors)
    with pytest.raises(ValueError, match="Only a vocabulary with normalize='paper'"):
        export(make_encoder("Average", other).fit([]), tmp_path / "out")
    assert not (tmp_path / "out").exists()
    letter = tmp_path / "mine" / "letter.txt"
    letter.parent.mkdir()
    letter.write_text("dear")
    with pytest.raises(ValueError, match="exists"):
        export(make_encoder("Average", words).fit([]), letter.parent, overwrite=True)
    assert letter.read_text() == "dear"


@pytest.mark.parametrize("name", ["Average", "SIF", "uSIF", "SIF-sum", "concat"])
@pytest.mark.extra(needs="static")
def test_the_libraries_give_our_vectors(words, name, tmp_path):
    model2vec = pytest.importorskip("model2vec", reason="the extra [bench] is not installed")
    library = pytest.importorskip("sentence_transformers", reason="the extra [bench] is not there")
    vectorizer = make_encoder(name, words, on_empty="ignore").fit([])
    folder = str(export(vectorizer, tmp_path / "out"))
    static = model2vec.StaticModel.from_pretrained(folder, normalize=False)
    for theirs in (
        library.SentenceTransformer(folder, device="cpu").encode(TEXTS),
        static.encode(TEXTS, max_length=None),
    ):
        np.testing.assert_allclose(theirs, vectorizer.transform(TEXTS), atol=1e-5)


def test_an_exported_table_is_read_again(words, tmp_path):
    vectorizer = make_encoder("SIF", words, on_empty="ignore").fit([])
    folder = export(vectorizer, tmp_path / "out")
    assert formats.detect(folder) == "static"
    again = formats.read(folder)  # without the library: only text needs it
    assert again.words == [f"▁{word}" for word in WORDS] and again.counts is None
    np.testing.assert_array_equal(again.input_vectors, as_table(vectorizer).astype(np.float32))
    as_words = formats.read(folder, normalize=lambda text: [f"▁{w}" for w in text.lower().split()])
    assert as_words.vocabulary.encode(["The film"]).ids.tolist() == [0, 1]


@pytest.mark.extra(needs="subwords")
def test_an_exported_folder_gives_the_vectors_of_the_method(words, tmp_path):
    pytest.importorskip("tokenizers", reason="the extra [subwords] is not installed")
    vectorizer = make_encoder("SIF", words, on_empty="ignore").fit([])
    folder = export(vectorizer, tmp_path / "out")
    invoke("model", "convert", folder, tmp_path / "back", status=0)
    average = make_encoder("Average", str(tmp_path / "back"), on_empty="ignore").fit([])
    np.testing.assert_allclose(average.transform(TEXTS), vectorizer.transform(TEXTS), atol=1e-5)


def static(folder, vocab, model="WordPiece", added=(), **tensors):
    folder.mkdir(parents=True)
    tokens = [{"id": i, "content": token} for token, i in added]
    model = {"type": model, "vocab": vocab, "unk_token": "[UNK]"}
    (folder / "tokenizer.json").write_text(json.dumps({"model": model, "added_tokens": tokens}))
    write_tensors(folder / "model.safetensors", tensors)
    return folder


def test_shared_rows_and_weights_of_model2vec_are_folded_in(tmp_path):
    vocab = {"[UNK]": 0, "film": 1, "##s": 2, "good": 3}
    table = np.arange(6, dtype=np.float32).reshape(2, 3)
    weights = {"mapping": np.array([0, 1, 0, 1]), "weights": np.array([1.0, 2, 1, 0.5])}
    folder = static(tmp_path / "m", vocab, added=[("[UNK]", 0)], embeddings=table, **weights)
    words = formats.read(folder)
    assert words.words == ["film", "##s", "good"]  # all but the token for OOV words
    np.testing.assert_array_equal(words.input_vectors, [2 * table[1], table[0], 0.5 * table[1]])


def test_tokens_keep_their_numbers_and_their_unknown_token_in_sentence_transformers(tmp_path):
    table = np.eye(4, dtype=np.float32)  # a row more than tokens, as trained models may have
    vocab, rows = {"[UNK]": 0, "b": 2, "a": 1}, {"embedding.weight": table}
    words = formats.read(static(tmp_path / "m" / "0_StaticEmbedding", vocab, **rows).parent)
    assert words.words == ["[UNK]", "a", "b"]
    np.testing.assert_array_equal(words.input_vectors, table[:3])
    unigram = static(tmp_path / "u", [["a", 0.0], ["b", -1.0]], model="Unigram", embeddings=table)
    assert formats.read(unigram).words == ["a", "b"]


def test_a_damaged_static_folder_is_refused_in_one_line(tmp_path):
    eye, nan = np.eye(2, dtype="f4"), np.full((1, 2), np.nan, "f4")
    for number, (vocab, tensors, message) in enumerate(
        (
            ({"a": 5}, {"embeddings": eye}, "must have a row for every token"),
            ({"a": -1}, {"embeddings": eye}, "must be a tokenizer with its tokens"),
            ({"a": "x"}, {"embeddings": eye}, "must be a tokenizer with its tokens"),
            ({"a": 0}, {"other": eye}, "must have a table named embeddings"),
            ({"[UNK]": 0}, {"embeddings": eye}, "must have tokens"),
            ({"a": 0}, {"embeddings": eye, "mapping": np.array([7, 0])}, "mapping must name rows"),
            ({"a": 0}, {"embeddings": eye, "weights": np.ones(3)}, "weights must have one number"),
            ({"a": 0}, {"embeddings": nan}, "finite"),
        )
    ):
        with pytest.raises(ValueError, match=message):
            formats.read(static(tmp_path / str(number), vocab, **tensors))
    folder = static(tmp_path / "n", {"a": 0}, embeddings=np.eye(1, dtype="f4"))
    for config in ("[]", "{", '{"max_length": 0}', '{"max_length": "x"}'):
        (folder / "config.json").write_text(config)
        with pytest.raises(ValueError, match=r"config.json must have|max_length must be an integ"):
            formats.read(folder)
