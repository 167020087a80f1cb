"""Hashes of the words of a vocabulary: from their bytes as from the strings."""

import pytest
from numpy.testing import assert_array_equal

from pacsent import Vocabulary, load, save
from pacsent.storage.model_folder import PACKAGED
from pacsent.text.ngrams import word_hashes
from pacsent.words.word_hashes import are_subwords, vocabulary_hashes

ASCII = ["film", "Good", "don't", "#", "##ing", "two words", "x"]


@pytest.mark.parametrize("words", [ASCII, [*ASCII, "Ärger", "naïve", "映画"], ["a"], []])
def test_hashes_are_those_of_the_strings(words):
    vocabulary = Vocabulary(words)

    assert_array_equal(vocabulary_hashes(vocabulary), word_hashes(words))
    assert are_subwords(vocabulary).tolist() == [word.startswith("##") for word in words]


def test_hashes_of_a_model_are_made_without_its_strings(tmp_path):
    vocabulary = load(save(load("english"), tmp_path / "copy")).vocabulary
    hashes = vocabulary_hashes(vocabulary)

    assert "words" not in vars(vocabulary.table)
    assert_array_equal(hashes, word_hashes(vocabulary.words))


@pytest.mark.parametrize("folder", ["english", "english/sentences/words"])
def test_what_is_shipped_with_a_model_is_what_its_words_give(folder):
    opened = load(PACKAGED / folder).vocabulary
    computed = Vocabulary(opened.words)

    assert opened.table.word_hashes is not None
    assert_array_equal(vocabulary_hashes(opened), vocabulary_hashes(computed))
    assert_array_equal(opened.table.lookup.table, computed.table.lookup.table)


def test_a_copy_of_a_shipped_model_computes_its_own(tmp_path):
    words = load("english")
    copied = load(save(words, tmp_path / "copy")).vocabulary

    assert copied.table.word_hashes is None
    assert_array_equal(vocabulary_hashes(copied), vocabulary_hashes(words.vocabulary))
    assert_array_equal(copied.table.lookup.table, words.vocabulary.table.lookup.table)
