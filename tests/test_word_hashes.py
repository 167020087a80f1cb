"""Hashes of the words of a vocabulary: from their bytes as from the strings."""

import pytest
from numpy.testing import assert_array_equal

from pacsent import Vocabulary, load
from pacsent.text.ngrams import word_hashes
from pacsent.words.word_hashes import are_subwords, vocabulary_hashes

ASCII = ["film", "Good", "don't", "#", "##ing", "two words", "x"]


@pytest.mark.parametrize("words", [ASCII, [*ASCII, "Ärger", "naïve", "映画"], ["a"], []])
def test_hashes_are_those_of_the_strings(words):
    vocabulary = Vocabulary(words)

    assert_array_equal(vocabulary_hashes(vocabulary), word_hashes(words))
    assert are_subwords(vocabulary).tolist() == [word.startswith("##") for word in words]


def test_hashes_of_the_english_model_are_made_without_its_strings():
    vocabulary = load("english").vocabulary
    hashes = vocabulary_hashes(vocabulary)

    assert "words" not in vars(vocabulary.table)
    assert_array_equal(hashes, word_hashes(vocabulary.words))
