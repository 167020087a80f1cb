"""`WordVectors.encode` encodes as the estimators do, without importing scikit-learn."""

import warnings

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from helpers import run_python
from pacsent import Vocabulary, WordVectors, load, make_encoder
from pacsent.sentences import EmptySentenceWarning, StaticEncoder
from pacsent.words import compress

TEXTS = [f"a {word} film about number {i} and wine" for i in range(40) for word in ("good", "zz")]


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_mean_and_unit_give_the_numbers_of_the_estimators(dtype, rng):
    vocabulary = Vocabulary(["a", "good", "film", "about", "wine", "one", "two"])
    table = rng.normal(size=(7, 5)).astype(dtype)
    mean = WordVectors(vocabulary, table, sentences="mean")
    unit = WordVectors(vocabulary, table, sentences="unit")

    assert_array_equal(
        mean.encode(TEXTS), make_encoder("Average", mean, alpha=0.0).fit([]).encode(TEXTS)
    )
    assert_array_equal(unit.encode(TEXTS), StaticEncoder(unit).encode(TEXTS))
    assert mean.encode(TEXTS).dtype == (np.float64 if dtype == np.float64 else np.float32)
    assert_array_equal(
        unit.similarity(TEXTS[:2], TEXTS), unit.sentences.similarity(TEXTS[:2], TEXTS)
    )


def test_a_row_of_a_compressed_table_is_unpacked_when_it_is_first_read():
    words = load("english")
    few = words.encode(TEXTS[:4])
    table = words._plain_encoder.word_vectors.tables["input"]
    _, is_unpacked = table._unpacked
    assert 5 < is_unpacked.sum() < 20

    words.encode([" ".join(words.words[i : i + 50]) for i in range(0, 5000, 50)])
    assert is_unpacked.sum() > 4000

    distilled = load("english").sentences
    assert_array_equal(few, distilled.encode(TEXTS[:4]))
    assert_array_equal(words.encode(TEXTS[:4]), few)
    assert_array_equal(table.array, table.stored.unpack())


def test_damaged_numbers_are_found_in_the_rows_that_are_read(rng):
    words = compress(
        WordVectors(Vocabulary([f"w{i}" for i in range(400)]), np.eye(400, 20, dtype=np.float32)),
        bits=4,
    )
    packed = words.tables["input"].stored
    scales = packed.scales.copy()
    scales[7] = np.inf
    damaged = words.replace(
        input_vectors=type(packed)(
            packed.codes, packed.head, scales, packed.centre, packed.spread, packed.bits
        ),
    ).replace(sentences="mean")

    with np.errstate(invalid="ignore"):
        assert np.isfinite(damaged.encode([["w3"], ["w9"]])).all()
        with pytest.raises(ValueError, match=r"NaN or infinity in row 7 \('w7'\)"):
            damaged.encode([["w7"]])


def test_texts_without_a_known_word_are_reported_once():
    words = load("english")

    with pytest.warns(EmptySentenceWarning, match=r"1 of 2 \(row 1") as caught:
        vectors = words.encode(["a glass of wine", "…"])

    assert len(caught) == 1
    assert caught[0].filename == __file__  # the line of the caller
    assert vectors[0].any() and not vectors[1].any()


def test_words_without_an_encoder_of_sentences_say_what_to_choose():
    words = WordVectors(Vocabulary(["a"]), np.ones((1, 2), np.float32))

    with pytest.raises(ValueError, match="Choose a method"):
        words.encode(["a"])


def test_an_encoder_that_was_opened_is_the_one_that_encodes():
    words = load("english")
    assert words.sentences.encode(TEXTS[:2]).shape == (2, 256)

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert_array_equal(words.encode(TEXTS[:2]), words.sentences.encode(TEXTS[:2]))
    assert words._plain_encoder is words.sentences


def test_encoding_loads_neither_scikit_learn_nor_scipy():
    code = """
import sys
from pacsent import load
print(load("english").encode(["a glass of wine", "some beer"]).shape)
print(*{name.partition(".")[0] for name in sys.modules})
"""
    shape, modules = run_python(code).splitlines()

    assert shape == "(2, 256)"
    assert not {"sklearn", "scipy", "pandas", "joblib"} & set(modules.split())


def test_nothing_is_written_at_the_first_use(tmp_path):
    """So that it starts on a read-only file system as it does elsewhere."""
    code = """
import os, sys
sys.dont_write_bytecode = True
written = []
def note(event, arguments):
    if event == "open" and isinstance(arguments[2], int):
        if arguments[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
            written.append(str(arguments[0]))
sys.addaudithook(note)
from pacsent import CertifiedClassifier, load
load("english").encode(["a glass of wine"])
from pacsent.datasets import load_banking
texts, labels = load_banking("train")[:2]
CertifiedClassifier(random_state=0).fit(texts[:300], labels[:300]).predict(["my card is lost"])
print([path for path in written if path != os.devnull])
open("noted", "w")
print(written[-1])
"""
    *_, written, control = run_python(code, cwd=tmp_path).splitlines()
    assert written == "[]"
    assert control == "noted"
