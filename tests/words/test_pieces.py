"""unknown="pieces": an OOV word is read as the pieces it consists of."""

import itertools

import numpy as np
import pytest

from pacsent import Vocabulary
from pacsent.words.text_encoding import encode_bytes

WORDS = ["the", "tour", "tourist", "film", "##s", "##er", "##ers", "##é", "x", "##y"]


def split(word, words):
    """The rule in plain Python: the longest beginning, then the longest marked piece, ..."""
    found, start = [], 0
    while start < len(word):
        ends = range(len(word), start, -1)
        pieces = ((word[:end] if not start else "##" + word[start:end], end) for end in ends)
        piece, start = next(((p, end) for p, end in pieces if p in words), (None, len(word) + 1))
        found.append(piece)
    return [] if None in found else found


def named(vocabulary, texts):
    ids, offsets, n_unknown = vocabulary.encode(texts)
    names = [vocabulary.words[i] for i in ids]
    return [names[a:b] for a, b in itertools.pairwise(offsets)], n_unknown.tolist()


@pytest.mark.parametrize("normalize", ["paper", "unicode"])
def test_an_unknown_word_is_read_as_its_longest_pieces(normalize):
    vocabulary = Vocabulary(WORDS, normalize=normalize, unknown="pieces")
    found, n_unknown = named(vocabulary, ["The TOURISTERS film", "films zebra", "", "xyyy tour"])

    assert found == [
        ["the", "tourist", "##ers", "film"],
        ["film", "##s"],
        [],
        ["x", "##y", "##y", "##y", "tour"],
    ]
    assert n_unknown == [0, 1, 0, 0]


def test_token_lists_and_letters_beyond_ascii_are_split_too():
    vocabulary = Vocabulary(WORDS, normalize="unicode", unknown="pieces")
    lists = [["filmé", "é", "tours"], ["the"]]
    assert named(vocabulary, lists) == ([["film", "##é", "tour", "##s"], ["the"]], [1, 0])
    assert named(vocabulary, ["filmé films ééé"])[0] == [["film", "##é", "film", "##s"]]

    paper = Vocabulary(WORDS, unknown="pieces")
    assert named(paper, ["##er tour"]) == ([["tour"]], [1])  # a mark in a text is no mark


@pytest.mark.parametrize("normalize", ["paper", "unicode"])
def test_random_words_are_split_as_plain_python_splits_them(rng, normalize):
    def random_words(n):
        sizes = rng.integers(1, 9, n)
        return ["".join(rng.choice(list("abcd"), size)) for size in sizes]

    words = sorted({*random_words(60), *("##" + word for word in random_words(60))})
    vocabulary = Vocabulary(words, normalize=normalize, unknown="pieces")
    texts = [" ".join(random_words(6)) for _ in range(300)]
    known = set(words)
    expected = [
        [p for word in text.split() for p in ([word] if word in known else split(word, known))]
        for text in texts
    ]

    found, n_unknown = named(vocabulary, texts)
    assert found == expected

    lost = [sum(not split(w, known) and w not in known for w in text.split()) for text in texts]
    assert n_unknown == lost
    assert 0 < sum(lost) < 1800


def test_words_too_long_to_split_stay_unknown():
    vocabulary = Vocabulary(["a", "##a", "b" * 70], unknown="pieces")
    texts = ["a" * 64, "a" * 65, "b" * 70, "9"]
    assert [len(names) for names in named(vocabulary, texts)[0]] == [64, 0, 1, 0]

    data = np.frombuffer("".join(texts).encode(), dtype=np.uint8)
    encoded = encode_bytes(vocabulary, data, np.cumsum([0, *map(len, texts)]))
    assert np.diff(encoded.offsets).tolist() == [64, 0, 1, 0]

    assert vocabulary.encode(["aaa"]).ids.tolist() == [0, 1, 1]
