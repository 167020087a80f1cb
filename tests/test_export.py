"""Methods as one table for other libraries: their reading of the files, written out, is ours.

benchmarks/export.py compares with the real libraries.
"""

import json
import re

import numpy as np
import pytest
from click.testing import CliRunner

from pacsent import Vocabulary, WordVectors, make
from pacsent.cli import cli
from pacsent.sentences.export import as_table, export
from pacsent.storage import read_tensors

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
@pytest.mark.parametrize("name", ["Average", "i-Average", "SIF", "uSIF", "SIF-sum", "both"])
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


def test_the_command_exports_english(tmp_path):
    done = CliRunner().invoke(cli, ["export", "english", str(tmp_path / "out")])
    assert done.exit_code == 0, done.output
    assert (tmp_path / "out" / "modules.json").is_file()
