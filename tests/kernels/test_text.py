"""Words, hash tables and tokenisers: the compiled code against Python and hand-made cases."""

import os
from itertools import chain, pairwise

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from helpers import run_python
from pacsent.kernels import text
from pacsent.text.normalize import tokenise_paper, tokenise_unicode
from pacsent.words import Vocabulary, text_encoding
from pacsent.words.text_encoding import encode_bytes
from pacsent.words.word_table import concat_utf8, n_slots
from reference.text_reference import count_dropped

# One to twelve letters are packed in a key; all else is hashed.
WORDS = [
    "a", "six", "abcdefghijkl", "abcdefghijklm", "", "Film", "film", "café", "日本", "\udce9",
    "don't", "x" * 64, "x" * 65, "##s", "zzzzzzzzzzzz", "`", "{", "f", "##ilm", "##i", "s", "##ix",
]  # fmt: skip
LIKELY = np.frombuffer(b"abzAZ019 @[`{/:_'.,;\xe4\xff", dtype=np.uint8)


def build_words(words):
    word_bytes, offsets = concat_utf8(words)
    table, repeated = text.build_table(word_bytes, offsets, n_slots(len(words)))
    assert repeated == -1
    return text.Words(table, word_bytes, offsets)


def join_texts(texts):
    """The bytes of all texts, and where each begins."""
    data = np.frombuffer(b"".join(texts), np.uint8)
    bounds = np.cumsum([0, *map(len, texts)])
    return data, bounds


def draw_blocks(rng, size):
    words_of_63_letters = np.frombuffer(b"a" * 63 + b" ", np.uint8)
    return [
        rng.choice(LIKELY, size),
        rng.integers(0, 256, size).astype(np.uint8),
        np.full(size, ord("a"), np.uint8),  # one word, longer than a piece
        np.full(size, ord("7"), np.uint8),
        rng.choice(LIKELY[:2], size),
        np.tile(words_of_63_letters, size // 64 + 1)[:size],
    ]


def draw_texts(rng, characters, lengths):
    return [rng.choice(characters, length).tobytes() for length in lengths]


def assert_all_equal(results, expected):
    for values, expected_values in zip(results, expected, strict=True):
        assert values.dtype == expected_values.dtype
        assert_array_equal(values, expected_values)


# ---- The hash table -----------------------------------------------------------------------------


WORD_LISTS = [[], WORDS, [f"w{i}" for i in range(3000)]]


@pytest.mark.parametrize("words", WORD_LISTS)
def test_a_table_is_the_plain_one(words):
    data, offsets = concat_utf8(words)

    table, repeated = text.build_table(data, offsets, n_slots(len(words)))

    plain_table, plain_repeated = text.build_table_plainly(data, offsets, n_slots(len(words)))
    assert repeated == plain_repeated == -1
    assert_array_equal(table, plain_table)


@pytest.mark.parametrize("words", WORD_LISTS)
def test_every_word_of_a_table_is_found_and_no_other(words):
    absent_words = ["unknown", "abcdefghijkm", "films"]
    data, offsets = concat_utf8([*words, *absent_words, *words])

    ids = text.find_words(data, offsets, build_words(words))

    word_ids = list(range(len(words)))
    assert ids.tolist() == [*word_ids, -1, -1, -1, *word_ids]


@pytest.mark.parametrize("build", [text.build_table, text.build_table_plainly])
def test_the_first_id_of_a_repeated_word_is_returned(build):
    data, offsets = concat_utf8([*WORDS, "new", "café", "film"])

    _, repeated = build(data, offsets, 64)

    assert repeated == len(WORDS) + 1


LETTER_Z = 26


@pytest.mark.parametrize(
    ("word", "key"),
    [
        (b"ab", 1 + (2 << 5)),
        (b"zzzzzzzzzzzz", LETTER_Z * sum(32**i for i in range(12))),
        (b"", 0xCBF29CE484222325),  # FNV-1a has its highest bit set
        (b"A", 0xAF63FC4C860222EC),  # of the tables of FNV-1a
    ],
)
def test_keys_counted_by_hand(word, key):
    assert text.key_plainly(word) == key


@pytest.mark.parametrize("slots", [0, 1, 2, 6])
def test_tables_without_a_free_slot_are_rejected(slots):
    data, offsets = concat_utf8(["a", "b"])

    with pytest.raises(ValueError, match="a power of two of slots, more than 2 words"):
        text.build_table(data, offsets, slots)


def test_words_outside_their_bytes_are_rejected():
    data, offsets = concat_utf8(["a", "b"])

    with pytest.raises(ValueError, match="Words must lie in their bytes"):
        text.build_table(data[:1], offsets, 4)


@pytest.mark.parametrize("bounds", [[0, 3], [-1, 1], []])
def test_texts_outside_their_bytes_are_rejected(bounds):
    data, _ = concat_utf8(["a", "b"])
    bounds = np.array(bounds, np.int64)

    with pytest.raises(ValueError, match="Texts must lie in their 2 bytes"):
        text.find_words(data, bounds, build_words(["a"]))


# ---- Text to ids --------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [0, 1, 63, 64, 65, 127, 128, 129, 2047, 2048, 2049, 2113])
def test_words_are_found_across_blocks_and_pieces_of_any_bytes(rng, size):
    blocks = [block.tobytes() for block in draw_blocks(rng, size)]
    tokens_of_blocks = [tokenise_paper(block.decode("latin-1")) for block in blocks]
    all_tokens = set().union(*tokens_of_blocks)
    words = sorted(all_tokens)[::2]
    data, bounds = join_texts(blocks)

    encoded = encode_bytes(Vocabulary(words), data, bounds)

    for i, (start, end) in enumerate(pairwise(encoded.offsets)):
        known_tokens = [token for token in tokens_of_blocks[i] if token in words]
        n_dropped = count_dropped(blocks[i].decode("utf-8", "replace"))
        n_unknown = len(tokens_of_blocks[i]) - len(known_tokens) + n_dropped
        assert [words[id_] for id_ in encoded.ids[start:end]] == known_tokens
        assert encoded.n_unknown[i] == n_unknown


@pytest.mark.parametrize("encode", ["encode_paper", "encode_ascii"])
@pytest.mark.parametrize("splits", [False, True])
def test_ids_are_those_of_the_plain_loop(rng, splits, encode):
    compiled = getattr(text, encode)
    plain = getattr(text, f"{encode}_plainly")
    words = build_words([*WORDS, "b", "##b", "##z", "bzzbzzbzz", "_", "a_b", "##_"])
    texts = [b"", b"Films 6 6", b"film" * 20, b"x" * 64, b"X" * 65, b"bzzbzzbzzbZZbzzbbb"]
    texts += draw_texts(rng, LIKELY, rng.integers(0, 300, 50))
    data, bounds = join_texts(texts)
    inner_bounds = bounds[3:-3].copy()  # bytes around it

    encoded = compiled(data, bounds, words, splits)
    inner = compiled(data, inner_bounds, words, splits)

    assert_all_equal(encoded, plain(data, bounds, words, splits))
    assert_all_equal(inner, plain(data, inner_bounds, words, splits))


def test_subwords_counted_by_hand():
    """The name of a digit is split as other words are; all parts must be known."""
    vocabulary = Vocabulary(["f", "##il", "##i", "##lm", "s", "##ix", "a"], unknown="pieces")

    encoded = vocabulary.encode(["FILM 6", "six films", "fi", "a"])

    assert encoded.ids.tolist() == [4, 5, 4, 5, 0, 2, 6]
    assert encoded.offsets.tolist() == [0, 2, 4, 6, 7]
    assert encoded.n_unknown.tolist() == [1, 1, 0, 0]  # f-il-m: the longest part is taken


def draw_sentences(rng, words):
    """Twenty texts of up to 29 words, with other characters between them."""
    separators = [" ", "  ", ", ", "!", "-"]
    texts = []
    for n_words in rng.integers(0, 30, 20):
        drawn_words = rng.choice(words, n_words)
        drawn_separators = rng.choice(separators, n_words)
        pairs = np.column_stack([drawn_words, drawn_separators])
        texts.append("".join(pairs.ravel()))
    return texts


@pytest.mark.parametrize("normalize", ["paper", "unicode"])
@pytest.mark.parametrize("unknown", ["drop", "pieces"])
@pytest.mark.parametrize("max_dict", [-1, 1 << 12])
def test_texts_have_the_ids_of_their_token_lists(rng, monkeypatch, normalize, unknown, max_dict):
    words = ["film", "good", "a", "bad", "don't", "naïve", "0", "one", "supercalifragilistic", "6"]
    known_words = [*words[:4], *"bcdefghs", "##d", "##o", "##ne", "##ix"]
    vocabulary = Vocabulary(known_words, normalize=normalize, unknown=unknown)
    texts = draw_sentences(rng, words)
    token_lists = [list(vocabulary.tokens(text)) for text in texts]

    monkeypatch.setattr(text_encoding, "_MAX_DICT_CHARACTERS", max_dict)
    encoded = vocabulary.encode(texts)

    assert_all_equal(encoded, vocabulary.encode(token_lists))


@pytest.fixture
def film_texts(rng):
    """The bytes and bounds of forty texts of two words, some empty."""
    return join_texts([b"film good " * n_repeats for n_repeats in rng.integers(0, 30, 40)])


def test_bytes_in_many_calls_have_the_ids_of_one(film_texts, monkeypatch):
    data, bounds = film_texts
    vocabulary = Vocabulary(["film", "a"])
    encoded_at_once = encode_bytes(vocabulary, data, bounds[2:])

    monkeypatch.setattr(text_encoding, "_BATCH_BYTES", 100)
    encoded_in_batches = encode_bytes(vocabulary, data, bounds[2:])

    assert_all_equal(encoded_in_batches, encoded_at_once)


def test_no_texts_have_no_ids(film_texts):
    data, bounds = film_texts

    encoded = encode_bytes(Vocabulary(["film", "a"]), data, bounds[:1])

    assert encoded.offsets.tolist() == [0]


@pytest.mark.parametrize("size", [0, 1, 7, 500])
def test_tokens_of_ascii_are_those_of_the_plain_code(rng, size):
    texts = draw_texts(rng, LIKELY[LIKELY < 128], [size] * 30)
    data, bounds = join_texts(texts)

    found = text.split_ascii(data, bounds)

    assert_all_equal(found, text.split_ascii_plainly(data, bounds))


@pytest.mark.parametrize("size", [0, 1, 7, 500])
def test_tokens_of_ascii_are_those_of_the_unicode_rules(rng, size):
    texts = draw_texts(rng, LIKELY[LIKELY < 128], [size] * 30)

    token_bytes, starts, ends = text.split_ascii(*join_texts(texts))

    tokens = [token_bytes[start:end].tobytes().decode() for start, end in pairwise(starts)]
    token_lists = [tokenise_unicode(text.decode()) for text in texts]
    n_tokens = [len(token_list) for token_list in token_lists]
    assert tokens == list(chain.from_iterable(token_lists))
    assert ends.tolist() == np.cumsum(n_tokens).tolist()


# ---- Growing tables -----------------------------------------------------------------------------


class GrowingCount:
    """A count of the words of texts, by calls that each have room for a few new words."""

    def __init__(self, texts):
        self.data, self.bounds = join_texts(texts)
        names, self.offsets = concat_utf8(text.DIGIT_NAMES)
        self.word_bytes = np.concatenate([names, np.zeros(self.data.size, np.uint8)])
        self.counts = np.zeros(10, np.int64)
        self.ids = np.zeros(self.data.size, np.int32)
        self.ends = np.zeros(len(texts), np.int64)
        self.state = np.array([0, 0, 0, 10])

    @property
    def n_ids(self):
        return self.state[2]

    @property
    def n_words(self):
        return self.state[3]

    def call(self):
        """Count on with more room; whether all texts are counted."""
        room = np.zeros(text.NEW_WORDS + self.n_words - self.counts.size, np.int64)
        self.counts = np.concatenate([self.counts, room])
        self.offsets = np.concatenate([self.offsets, room])

        word_offsets = self.offsets[: self.n_words + 1].copy()
        n_table_slots = n_slots(self.counts.size)
        table, _ = text.build_table(self.word_bytes, word_offsets, n_table_slots)
        words = (table, self.word_bytes, self.offsets)
        return text.count_paper(
            self.data, self.bounds, words, self.counts, self.ids, self.ends, self.state
        )


def test_words_are_counted_in_as_many_calls_as_there_is_room_for(rng):
    texts = draw_texts(rng, LIKELY[:11], rng.integers(0, 9000, 12))
    count = GrowingCount(texts)

    n_calls = 1
    while not count.call():
        n_calls += 1

    words, ids, ends = text.count_paper_plainly(count.data, count.bounds)
    assert n_calls > 2
    assert count.ids[: count.n_ids].tolist() == ids
    assert count.ends.tolist() == ends
    assert_array_equal(count.counts[: count.n_words], np.bincount(ids, minlength=count.n_words))
    word_bytes, offsets = concat_utf8(words)
    assert_array_equal(count.word_bytes[: word_bytes.size], word_bytes)
    assert_array_equal(count.offsets[: count.n_words + 1], offsets)


class CountOfOneWord:
    """The arguments of a count of a text of one word, in which there is room for three letters."""

    def __init__(self, n_word_bytes=3, n_ids=3):
        self.data, self.bounds = concat_utf8(["abc"])
        self.table = np.zeros((4096, 2), np.uint64)
        self.word_bytes = np.zeros(n_word_bytes, np.uint8)
        self.offsets = np.zeros(2000, np.int64)
        self.counts = np.zeros(2000, np.int64)
        self.ids = np.zeros(n_ids, np.int32)
        self.ends = np.zeros(1, np.int64)

    def run(self):
        words = (self.table, self.word_bytes, self.offsets)
        state = np.zeros(4, np.int64)
        return text.count_paper(
            self.data, self.bounds, words, self.counts, self.ids, self.ends, state
        )


def test_a_text_of_one_word_is_counted():
    count = CountOfOneWord()

    is_done = count.run()

    assert is_done
    assert (count.ids[0], count.ends[0], count.counts[0]) == (0, 1, 1)


@pytest.mark.parametrize("room", [{"n_word_bytes": 2}, {"n_ids": 2}])
def test_counting_without_room_is_rejected(room):
    count = CountOfOneWord(**room)

    with pytest.raises(ValueError, match="no room for the words of this text"):
        count.run()


@pytest.fixture
def growing_words():
    """Two words with room for more: the table, the bytes and their offsets."""
    data, offsets = concat_utf8(["a", "film"])
    table, _ = text.build_table(data, offsets, 16)
    word_bytes = np.concatenate([data, np.zeros(99, np.uint8)])
    offsets_with_room = np.concatenate([offsets, np.zeros(5, np.int64)])
    return table, word_bytes, offsets_with_room


ADDED_WORDS = concat_utf8(["naïve", "film", "naïve", "b", "a"])


def test_words_are_merged_into_a_table(growing_words):
    ids, n_words = text.merge_words(*ADDED_WORDS, growing_words, 2)

    assert ids.tolist() == [2, 1, 2, 3, 0]
    assert n_words == 4
    _, word_bytes, offsets = growing_words
    assert word_bytes[: offsets[4]].tobytes().decode() == "afilmnaïveb"


def test_merging_without_room_for_bytes_is_rejected(growing_words):
    table, word_bytes, offsets = growing_words
    words = (table, word_bytes[:16], offsets)

    with pytest.raises(ValueError, match="no room for these words"):
        text.merge_words(*ADDED_WORDS, words, 2)


def test_merging_without_a_free_slot_is_rejected(growing_words):
    table, word_bytes, offsets = growing_words
    words = (table[:8], word_bytes, offsets)

    with pytest.raises(ValueError, match="more than 8 words"):
        text.merge_words(*ADDED_WORDS, words, 3)


FINAL_IDS = np.array([3, -1, 0, -1, 1], np.int32)


@pytest.mark.parametrize("n_ids", [0, 1, 50])
def test_ids_are_renumbered(rng, n_ids):
    ids = rng.integers(0, 5, n_ids).astype(np.int32)
    ends = np.sort(rng.integers(0, n_ids + 1, 7))
    plain_ids, plain_ends = text.renumber_plainly(ids, ends, FINAL_IDS)

    n_kept = text.renumber(ids, ends, FINAL_IDS)

    assert_array_equal(ids[:n_kept], plain_ids)
    assert_array_equal(ends, plain_ends)


@pytest.mark.parametrize("unknown_id", [-1, 5])
def test_ids_of_no_word_are_not_renumbered(unknown_id):
    ids = np.array([0, unknown_id], np.int32)
    ends = np.zeros(1, np.int64)
    message = f"Ids must be numbers of 5 words. Got {unknown_id} instead"

    with pytest.raises(ValueError, match=message):
        text.renumber(ids, ends, FINAL_IDS)


# ---- Without the library ------------------------------------------------------------------------


ENCODING = """
import warnings
from pacsent import Vocabulary
words = ["film", "good", "don't", "a", "##b", "naïve"]
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    for normalize in ("paper", "unicode"):
        vocabulary = Vocabulary(words, normalize=normalize, unknown="pieces")
        vocabulary = Vocabulary.from_arrays(vocabulary.arrays(), normalize, unknown="pieces")
        vocabulary.table.check()
        print(*vocabulary.encode(["Good film 6", "", "don't abb, naïve", "films"]))
print([str(warning.message)[:51] for warning in caught])
"""


def test_without_the_library_texts_have_the_same_ids_with_one_warning():
    without_library = {**os.environ, "PACSENT_LIBRARY": "none"}

    *plain, warning = run_python(ENCODING, env=without_library).splitlines()
    *compiled, no_warning = run_python(ENCODING).splitlines()

    assert plain == compiled
    assert warning == "['The compiled kernels of pacsent could not be loaded']"
    assert no_warning == "[]"
