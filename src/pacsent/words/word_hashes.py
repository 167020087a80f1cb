"""The words of a vocabulary as the hashes that n-grams of one word have."""

from functools import lru_cache

import numpy as np

from pacsent.text.ngrams import hashes_of_words, word_hashes
from pacsent.words.vocabulary import Vocabulary

_HASH_SIGN = ord("#")


@lru_cache(maxsize=8)
def vocabulary_hashes(vocabulary: Vocabulary) -> np.ndarray:
    """`word_hashes` of all words, (n_words,); no string is made of words in ASCII."""
    word_bytes, offsets = vocabulary.table.arrays
    if word_bytes.size and word_bytes.max() >= 128:
        return word_hashes(vocabulary.words)
    return hashes_of_words(np.ascontiguousarray(word_bytes), np.ascontiguousarray(offsets))


def are_subwords(vocabulary: Vocabulary) -> np.ndarray:
    """Which entries of a vocabulary are ends of words, written ##end, (n_words,)."""
    word_bytes, offsets = vocabulary.table.arrays
    if word_bytes.size < 2:
        return np.zeros(offsets.size - 1, bool)
    starts = offsets[:-1]
    is_long = np.diff(offsets) >= 2
    first = word_bytes[np.where(is_long, starts, 0)]
    second = word_bytes[np.where(is_long, starts + 1, 0)]
    return is_long & (first == _HASH_SIGN) & (second == _HASH_SIGN)
