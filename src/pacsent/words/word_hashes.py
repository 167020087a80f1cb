"""The words of a vocabulary as the hashes that n-grams of one word have."""

from functools import lru_cache

import numpy as np

from pacsent.text.ngrams import hashes_of_words, word_hashes
from pacsent.words.vocabulary import Vocabulary

_HASH_SIGN = ord("#")


@lru_cache(maxsize=8)
def vocabulary_hashes(vocabulary: Vocabulary) -> np.ndarray:
    """`word_hashes` of all words, (n_words,); no string is made of words in ASCII."""
    stored = vocabulary.table.word_hashes
    if stored is not None:
        return stored

    word_bytes, offsets = vocabulary.table.arrays
    if word_bytes.size and word_bytes.max() >= 128:
        return word_hashes(vocabulary.words)
    return hashes_of_words(np.ascontiguousarray(word_bytes), np.ascontiguousarray(offsets))


def are_subwords(vocabulary: Vocabulary) -> np.ndarray:
    """Mask of the words of a vocabulary that are ends of words, written ##end, (n_words,)."""
    word_bytes, offsets = vocabulary.table.arrays
    starts = offsets[:-1]
    is_long = offsets[1:] - starts >= 2
    is_hash_sign = np.zeros(word_bytes.size + 2, bool)  # two more: the last word may be empty
    np.equal(word_bytes, _HASH_SIGN, out=is_hash_sign[:-2])
    return is_long & is_hash_sign[starts] & is_hash_sign[starts + 1]
