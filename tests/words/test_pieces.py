"""unknown="pieces": an OOV word is read as the pieces it consists of."""

import itertools

import numpy as np
import pytest

from pacsent import Vocabulary
from pacsent.words.pieces import _first_characters
from pacsent.words.text_encoding import encode_bytes

WORDS = ["the", "tour", "tourist", "film", "##s", "##er", "##ers", "##é", "x", "##y"]


def split_plainly(word, words):
    """The rule in plain Python: the longest beginning, then the longest marked piece, ..."""
    pieces = []
    start = 0
    while start < len(word):
        mark = "##" if start > 0 else ""
        for end in range(len(word), start, -1):
            piece = mark + word[start:end]
            if piece in words:
                break
        else:
            return []
        pieces.append(piece)
        start = end
    return pieces


def encode_to_words(vocabulary, texts):
    """The words and pieces of each text, and its number of unknown words."""
    ids, offsets, n_unknown = vocabulary.encode(texts)
    words = [vocabulary.words[i] for i in ids]
    words_of_texts = [words[start:end] for start, end in itertools.pairwise(offsets)]
    return words_of_texts, n_unknown.tolist()


@pytest.mark.parametrize("normalize", ["paper", "unicode"])
def test_an_unknown_word_is_read_as_its_longest_pieces(normalize):
    vocabulary = Vocabulary(WORDS, normalize=normalize, unknown="pieces")
    texts = ["The TOURISTERS film", "films zebra", "", "xyyy tour"]

    words, n_unknown = encode_to_words(vocabulary, texts)

    assert words == [
        ["the", "tourist", "##ers", "film"],
        ["film", "##s"],
        [],
        ["x", "##y", "##y", "##y", "tour"],
    ]
    assert n_unknown == [0, 1, 0, 0]


def test_lists_of_tokens_are_split_too():
    vocabulary = Vocabulary(WORDS, normalize="unicode", unknown="pieces")

    words, n_unknown = encode_to_words(vocabulary, [["filmé", "é", "tours"], ["the"]])

    assert words == [["film", "##é", "tour", "##s"], ["the"]]
    assert n_unknown == [1, 0]


def test_letters_beyond_ascii_are_pieces_too():
    vocabulary = Vocabulary(WORDS, normalize="unicode", unknown="pieces")

    words, _ = encode_to_words(vocabulary, ["filmé films ééé"])

    assert words == [["film", "##é", "film", "##s"]]


def test_a_mark_in_a_text_is_no_mark():
    vocabulary = Vocabulary(WORDS, unknown="pieces")

    words, n_unknown = encode_to_words(vocabulary, ["##er tour"])

    assert words == [["tour"]]
    assert n_unknown == [1]


@pytest.mark.parametrize("normalize", ["paper", "unicode"])
def test_random_words_are_split_as_plain_python_splits_them(rng, normalize):
    letters = list("abcd")

    def draw_words(n_words):
        sizes = rng.integers(1, 9, n_words)
        return ["".join(rng.choice(letters, size)) for size in sizes]

    whole_words = draw_words(60)
    marked_words = ["##" + word for word in draw_words(60)]
    known = {*whole_words, *marked_words}
    vocabulary = Vocabulary(sorted(known), normalize=normalize, unknown="pieces")
    texts = [draw_words(6) for _ in range(300)]

    words, n_unknown = encode_to_words(vocabulary, [" ".join(text) for text in texts])

    expected_words = []
    expected_n_unknown = []
    for text in texts:
        parts = [[word] if word in known else split_plainly(word, known) for word in text]
        expected_words.append([piece for pieces in parts for piece in pieces])
        expected_n_unknown.append(parts.count([]))
    assert words == expected_words
    assert n_unknown == expected_n_unknown
    assert 0 < sum(n_unknown) < 1800


@pytest.fixture
def vocabulary_of_long_words():
    return Vocabulary(["a", "##a", "b" * 70], unknown="pieces")


# 64 letters can be split, 65 cannot; a known word of any length is itself.
LONG_WORDS = ["a" * 64, "a" * 65, "b" * 70, "9"]


def test_words_too_long_to_split_stay_unknown(vocabulary_of_long_words):
    words, _ = encode_to_words(vocabulary_of_long_words, LONG_WORDS)

    assert [len(pieces) for pieces in words] == [64, 0, 1, 0]


def test_bytes_of_words_too_long_to_split_stay_unknown(vocabulary_of_long_words):
    data = np.frombuffer("".join(LONG_WORDS).encode(), dtype=np.uint8)
    bounds = np.cumsum([0, *map(len, LONG_WORDS)])

    encoded = encode_bytes(vocabulary_of_long_words, data, bounds)

    assert np.diff(encoded.offsets).tolist() == [64, 0, 1, 0]


def test_repeated_pieces_have_the_same_id(vocabulary_of_long_words):
    assert vocabulary_of_long_words.encode(["aaa"]).ids.tolist() == [0, 1, 1]


def test_pieces_are_learned_on_the_first_characters_of_the_texts():
    texts = ["good film", "bad film", "never read"]

    assert list(_first_characters(texts, 12)) == ["good film", "bad"]


def test_texts_behind_the_first_characters_are_not_read():
    texts = iter(["good film", "the one too many", "bad film"])

    assert list(_first_characters(texts, 9)) == ["good film"]
    assert list(texts) == ["bad film"]


def test_what_is_no_text_is_refused_before_pieces_are_learned_on_it():
    texts = ["good film", None]

    with pytest.raises(TypeError, match=r"one str per text\. Got None .* in row 1"):
        list(_first_characters(texts, 100))
