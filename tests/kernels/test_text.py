"""Words, hash tables and tokenisers: the compiled code against Python and hand-made cases."""

import os
import subprocess
import sys
from itertools import pairwise

import numpy as np
import pytest
from numpy.testing import assert_array_equal

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


def words_of(words):
    word_bytes, offsets = concat_utf8(words)
    table, repeated = text.build_table(word_bytes, offsets, n_slots(len(words)))
    assert repeated == -1
    return text.Words(table, word_bytes, offsets)


def random_blocks(rng, size):
    return [
        rng.choice(LIKELY, size),
        rng.integers(0, 256, size).astype(np.uint8),
        np.full(size, 97, np.uint8),  # one word, longer than a piece
        np.full(size, 55, np.uint8),
        rng.choice(LIKELY[:2], size),
        np.tile(np.frombuffer(b"a" * 63 + b" ", np.uint8), size // 64 + 1)[:size],
    ]


def assert_all_equal(found, expected):
    for one, other in zip(found, expected, strict=True):
        assert one.dtype == other.dtype
        assert_array_equal(one, other)


# ---- The hash table -----------------------------------------------------------------------------


@pytest.mark.parametrize("words", [[], WORDS, [f"w{i}" for i in range(3000)]])
def test_a_table_is_the_plain_one_and_every_word_is_found(words):
    data, offsets = concat_utf8(words)

    table, repeated = text.build_table(data, offsets, n_slots(len(words)))

    plain, repeated_plainly = text.build_table_plainly(data, offsets, n_slots(len(words)))
    assert repeated == repeated_plainly == -1
    assert_array_equal(table, plain)

    others = [*words, "unknown", "abcdefghijkm", "films", *words]
    found = text.find_words(*concat_utf8(others), text.Words(table, data, offsets))
    assert found.tolist() == [words.index(word) if word in words else -1 for word in others]


@pytest.mark.parametrize("build", [text.build_table, text.build_table_plainly])
def test_the_first_id_of_a_repeated_word_is_told(build):
    assert build(*concat_utf8([*WORDS, "new", "café", "film"]), 64)[1] == len(WORDS) + 1


def test_keys_counted_by_hand():
    assert text.key_plainly(b"ab") == 1 + (2 << 5)
    assert text.key_plainly(b"zzzzzzzzzzzz") == 0b11010 * sum(32**i for i in range(12))
    assert text.key_plainly(b"") == 0xCBF29CE484222325  # FNV-1a has its highest bit set
    assert text.key_plainly(b"A") == 0xAF63FC4C860222EC  # of the tables of FNV-1a


def test_full_tables_and_words_outside_their_bytes_are_refused():
    data, offsets = concat_utf8(["a", "b"])

    for slots in (0, 1, 2, 6):
        with pytest.raises(ValueError, match="a power of two of slots, more than 2 words"):
            text.build_table(data, offsets, slots)
    with pytest.raises(ValueError, match="Words must lie in their bytes"):
        text.build_table(data[:1], offsets, 4)
    for bounds in ([0, 3], [-1, 1], []):
        with pytest.raises(ValueError, match="Texts must lie in their 2 bytes"):
            text.find_words(data, np.array(bounds, np.int64), words_of(["a"]))


# ---- Text to ids --------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [0, 1, 63, 64, 65, 127, 128, 129, 2047, 2048, 2049, 2113])
def test_words_are_found_across_blocks_and_pieces_of_any_bytes(rng, size):
    blocks = random_blocks(rng, size)
    tokens = [tokenise_paper(block.tobytes().decode("latin-1")) for block in blocks]
    known = sorted({token for some in tokens for token in some})[::2]
    data, bounds = np.concatenate(blocks), np.cumsum([0, *map(len, blocks)])

    encoded = encode_bytes(Vocabulary(known), data, bounds)

    for found, some in zip(pairwise(encoded.offsets), tokens, strict=True):
        assert [known[i] for i in encoded.ids[slice(*found)]] == [t for t in some if t in known]
    n_unknown = [sum(token not in known for token in some) for some in tokens]
    n_dropped = [count_dropped(block.tobytes().decode("utf-8", "replace")) for block in blocks]
    assert encoded.n_unknown.tolist() == np.add(n_unknown, n_dropped).tolist()


@pytest.mark.parametrize("encode", ["encode_paper", "encode_ascii"])
@pytest.mark.parametrize("splits", [False, True])
def test_ids_are_those_of_the_plain_loop(rng, splits, encode):
    compiled, plain = getattr(text, encode), getattr(text, f"{encode}_plainly")
    words = words_of([*WORDS, "b", "##b", "##z", "bzzbzzbzz", "_", "a_b", "##_"])
    texts = [b"", b"Films 6 6", b"film" * 20, b"x" * 64, b"X" * 65, b"bzzbzzbzzbZZbzzbbb"]
    texts += [rng.choice(LIKELY, n).tobytes() for n in rng.integers(0, 300, 50)]
    data = np.frombuffer(b"".join(texts), np.uint8)
    bounds = np.cumsum([0, *map(len, texts)])

    found = compiled(data, bounds, words, splits)

    assert_all_equal(found, plain(data, bounds, words, splits))
    inner = compiled(data, bounds[3:-3].copy(), words, splits)  # bytes around it
    assert_all_equal(inner, plain(data, bounds[3:-3], words, splits))


def test_subwords_counted_by_hand():
    """The name of a digit is split as other words are; all parts must be known."""
    vocabulary = Vocabulary(["f", "##il", "##i", "##lm", "s", "##ix", "a"], unknown="pieces")

    encoded = vocabulary.encode(["FILM 6", "six films", "fi", "a"])

    assert encoded.ids.tolist() == [4, 5, 4, 5, 0, 2, 6]
    assert encoded.offsets.tolist() == [0, 2, 4, 6, 7]
    assert encoded.n_unknown.tolist() == [1, 1, 0, 0]  # f-il-m: the longest part is taken


@pytest.mark.parametrize("normalize", ["paper", "unicode"])
@pytest.mark.parametrize("unknown", ["drop", "pieces"])
@pytest.mark.parametrize("max_dict", [-1, 1 << 12])
def test_texts_have_the_ids_of_their_token_lists(rng, monkeypatch, normalize, unknown, max_dict):
    words = ["film", "good", "a", "bad", "don't", "naïve", "0", "one", "supercalifragilistic", "6"]
    joins = [" ", "  ", ", ", "!", "-"]
    texts = [
        "".join(w + j for w, j in zip(rng.choice(words, n), rng.choice(joins, n)))
        for n in rng.integers(0, 30, 20)
    ]
    known = [*words[:4], *"bcdefghs", "##d", "##o", "##ne", "##ix"]
    vocabulary = Vocabulary(known, normalize=normalize, unknown=unknown)

    monkeypatch.setattr(text_encoding, "_MAX_DICT_CHARACTERS", max_dict)
    encoded = vocabulary.encode(texts)

    by_dict = vocabulary.encode([list(vocabulary.tokens(text)) for text in texts])
    assert_all_equal(encoded, by_dict)


def test_bytes_in_many_calls_have_the_ids_of_one(rng, monkeypatch):
    texts = ["film good " * n for n in rng.integers(0, 30, 40)]
    data = np.frombuffer("".join(texts).encode(), np.uint8)
    bounds = np.cumsum([0, *map(len, texts)])
    vocabulary = Vocabulary(["film", "a"])
    whole = encode_bytes(vocabulary, data, bounds[2:])

    monkeypatch.setattr(text_encoding, "_BATCH_BYTES", 100)

    assert_all_equal(encode_bytes(vocabulary, data, bounds[2:]), whole)
    assert encode_bytes(vocabulary, data, bounds[:1]).offsets.tolist() == [0]


@pytest.mark.parametrize("size", [0, 1, 7, 500])
def test_tokens_of_ascii_are_those_of_the_unicode_rules(rng, size):
    ascii_bytes = LIKELY[LIKELY < 128]
    texts = [rng.choice(ascii_bytes, size).tobytes() for _ in range(30)]
    data = np.frombuffer(b"".join(texts), np.uint8)
    bounds = np.cumsum([0, *map(len, texts)])

    found = text.split_ascii(data, bounds)

    assert_all_equal(found, text.split_ascii_plainly(data, bounds))
    tokens, starts, ends = found
    lists = [tokenise_unicode(text.decode()) for text in texts]
    words = [tokens[start:end].tobytes().decode() for start, end in pairwise(starts)]
    assert words == [token for some in lists for token in some]
    assert ends.tolist() == np.cumsum([len(some) for some in lists]).tolist()


# ---- Growing tables -----------------------------------------------------------------------------


def test_words_are_counted_in_as_many_calls_as_there_is_room_for(rng):
    texts = [rng.choice(LIKELY[:11], n).tobytes() for n in rng.integers(0, 9000, 12)]
    data = np.frombuffer(b"".join(texts), np.uint8)
    bounds = np.cumsum([0, *map(len, texts)])
    names, offsets = concat_utf8(text.DIGIT_NAMES)
    word_bytes = np.concatenate([names, np.zeros(data.size, np.uint8)])
    ids, ends = np.zeros(data.size, np.int32), np.zeros(len(texts), np.int64)
    state = np.array([0, 0, 0, 10])

    n_calls = 0
    counts = np.zeros(10, np.int64)
    is_done = False
    while not is_done:
        more = text.NEW_WORDS + state[3] - counts.size
        counts = np.concatenate([counts, np.zeros(more, np.int64)])
        offsets = np.concatenate([offsets, np.zeros(more, np.int64)])
        slots = n_slots(counts.size)
        table, _ = text.build_table(word_bytes, offsets[: state[3] + 1].copy(), slots)
        words = table, word_bytes, offsets
        is_done = text.count_paper(data, bounds, words, counts, ids, ends, state)
        n_calls += 1

    plain_words, plain_ids, plain_ends = text.count_paper_plainly(data, bounds)
    n_ids, n_words = state[2:]
    assert n_calls > 2
    assert ids[:n_ids].tolist() == plain_ids
    assert ends.tolist() == plain_ends
    assert_array_equal(counts[:n_words], np.bincount(plain_ids, minlength=n_words))
    joined, starts = concat_utf8(plain_words)
    assert_array_equal(word_bytes[: joined.size], joined)
    assert_array_equal(offsets[: n_words + 1], starts)


def test_counting_without_room_is_refused():
    data, offsets = concat_utf8(["abc"])
    table, room = np.zeros((4096, 2), np.uint64), np.zeros(2000, np.int64)
    word_bytes, ids, ends = np.zeros(3, np.uint8), np.zeros(3, np.int32), np.zeros(1, np.int64)

    def count(word_bytes, ids):
        words = table, word_bytes, room.copy()
        return text.count_paper(data, offsets, words, room, ids, ends, np.zeros(4, np.int64))

    assert count(word_bytes, ids)
    assert (ids[0], ends[0], room[0]) == (0, 1, 1)
    for arrays in ((word_bytes[:2], ids), (word_bytes, ids[:2])):
        with pytest.raises(ValueError, match="no room for the words of this text"):
            count(*arrays)


def test_words_are_merged_into_a_table():
    data, offsets = concat_utf8(["a", "film"])
    word_bytes = np.concatenate([data, np.zeros(99, np.uint8)])
    table, _ = text.build_table(data, offsets, 16)
    offsets = np.concatenate([offsets, np.zeros(5, np.int64)])
    added, starts = concat_utf8(["naïve", "film", "naïve", "b", "a"])

    ids, n_words = text.merge_words(added, starts, (table, word_bytes, offsets), 2)

    assert (ids.tolist(), n_words) == ([2, 1, 2, 3, 0], 4)
    assert word_bytes[: offsets[4]].tobytes().decode() == "afilmnaïveb"
    with pytest.raises(ValueError, match="no room for these words"):
        text.merge_words(added, starts, (table, word_bytes[:16], offsets), 2)
    with pytest.raises(ValueError, match="more than 8 words"):
        text.merge_words(added, starts, (table[:8], word_bytes, offsets), 3)


def test_ids_are_renumbered(rng):
    final = np.array([3, -1, 0, -1, 1], np.int32)
    for n_ids in (0, 1, 50):
        ids = rng.integers(0, 5, n_ids).astype(np.int32)
        ends = np.sort(rng.integers(0, n_ids + 1, 7))
        new_ids, new_ends = text.renumber_plainly(ids, ends, final)

        n = text.renumber(ids, ends, final)

        assert_array_equal(ids[:n], new_ids)
        assert_array_equal(ends, new_ends)
    for wrong in (-1, 5):
        with pytest.raises(ValueError, match="Ids must be numbers of 5 words"):
            text.renumber(np.array([0, wrong], np.int32), np.zeros(1, np.int64), final)


# ---- Without the library ------------------------------------------------------------------------


def test_without_the_library_texts_have_the_same_ids_with_one_warning():
    code = """
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

    def run(**variables):
        environment = {**os.environ, **variables}
        command = [sys.executable, "-c", code]
        done = subprocess.run(command, capture_output=True, text=True, env=environment)
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines()

    *plain, warning = run(PACSENT_LIBRARY="none")
    *compiled, no_warning = run()

    assert plain == compiled
    assert warning == "['The compiled kernels of pacsent could not be loaded']"
    assert no_warning == "[]"
