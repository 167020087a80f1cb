"""Kernels against their NumPy lines; also run with NUMBA_DISABLE_JIT=1, as plain Python."""

from itertools import pairwise

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from pacsent.kernels.half_precision import HALF_PRECISION
from pacsent.text.normalize import tokenise_paper
from pacsent.words import Vocabulary, text_encoding
from pacsent.words.text_encoding import encode_bytes
from reference.text_reference import count_dropped

intrinsics = pytest.importorskip("pacsent.kernels.intrinsics")
sentences = pytest.importorskip("pacsent.kernels.pooling_kernels")


@pytest.fixture
def encoded(rng):
    lengths = np.array([0, 1, 3, 4, 5, 130, 0, 7])
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    return rng.integers(0, 9, size=offsets[-1]).astype(np.int32), offsets


def rows(ids, offsets):
    return [ids[a:b] for a, b in pairwise(offsets)]


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("add", [False, True])
def test_pooled_rows_are_the_weighted_sums(rng, encoded, dtype, weighted, add):
    ids, offsets = encoded
    table = rng.normal(size=(9, 5)).astype(dtype)
    wide = np.float64 if dtype == np.float64 else np.float32
    weights = rng.uniform(size=9).astype(wide)
    scale = rng.uniform(size=8).astype(wide)
    out = rng.normal(size=(8, 5)).astype(wide)
    expected = add * out.astype(float)
    used = weights if weighted else np.ones(9)
    for s, words in enumerate(rows(ids, offsets)):
        expected[s] += scale[s] * (used[words, None] * table[words].astype(float)).sum(axis=0)
    if dtype == np.float16:
        table = table.view(np.uint16) if HALF_PRECISION else table.astype(np.float32)
    given = weights if weighted else weights[:0]
    sentences.pool_rows(ids, offsets, table, given, scale, out, add)
    assert_allclose(out, expected, rtol=1e-12 if wide == np.float64 else 1e-4, atol=1e-5)


def test_every_half_precision_number_is_widened_exactly():
    if not HALF_PRECISION:
        pytest.skip("no instruction for it here, or plain Python")
    numbers = np.arange(1 << 16, dtype=np.uint16)
    numbers = numbers[np.isfinite(numbers.view(np.float16))][:, None]
    ids, offsets = np.arange(numbers.size, dtype=np.int32), np.arange(numbers.size + 1)
    one = np.ones(numbers.size, np.float32)
    out = np.empty((numbers.size, 1), np.float32)
    sentences.pool_rows(ids, offsets, numbers, one[:0], one, out, False)
    assert_array_equal(out, numbers.view(np.float16).astype(np.float32))


@pytest.mark.parametrize("size", [0, 1, 63, 64, 65, 127, 128, 129, 2047, 2048, 2049, 2113])
def test_words_are_found_across_blocks_and_pieces_of_any_bytes(rng, size):
    likely = np.frombuffer(b"abzAZ019 @[`{/:\xe4\xff", dtype=np.uint8)
    blocks = [
        rng.choice(likely, size),
        rng.integers(0, 256, size).astype(np.uint8),
        np.full(size, 97, np.uint8),  # one word, longer than a piece
        np.full(size, 55, np.uint8),
        rng.choice(likely[:2], size),
        np.tile(np.frombuffer(b"a" * 63 + b" ", np.uint8), size // 64 + 1)[:size],
    ]
    texts = [block.tobytes().decode("latin-1") for block in blocks]
    tokens = [tokenise_paper(text) for text in texts]
    known = sorted({token for some in tokens for token in some})[::2]
    vocabulary = Vocabulary(known)
    data, bounds = np.concatenate(blocks), np.cumsum([0, *map(len, blocks)])
    encoded = encode_bytes(vocabulary, data, bounds)
    index = vocabulary.index
    assert [[known[i] for i in words] for words in rows(encoded.ids, encoded.offsets)] == [
        [token for token in some if token in index] for some in tokens
    ]
    dropped = [count_dropped(block.tobytes().decode("utf-8", "replace")) for block in blocks]
    n_unknown = [sum(t not in index for t in some) for some in tokens]
    assert (encoded.n_unknown - n_unknown).tolist() == dropped


@pytest.mark.parametrize("normalize", ["paper", "unicode"])
@pytest.mark.parametrize("unknown", ["drop", "pieces"])
def test_encoding_by_the_dict_gives_the_compiled_ids(rng, monkeypatch, normalize, unknown):
    words = ["film", "good", "a", "bad", "don't", "naïve", "0", "one", "supercalifragilistic"]
    joins = [" ", "  ", ", ", "!", "-"]
    texts = [
        "".join(w + j for w, j in zip(rng.choice(words, n), rng.choice(joins, n)))
        for n in rng.integers(0, 30, 20)
    ]
    names = dict.fromkeys([*words[:4], *"abcdefgh", "##d", "##o", "##ne"])
    known = Vocabulary(list(names), normalize=normalize, unknown=unknown)
    by_dict = known.encode(texts)
    monkeypatch.setattr(text_encoding, "_MAX_DICT_CHARACTERS", -1)
    for expected, compiled in zip(by_dict, known.encode(texts)):
        assert expected.dtype == compiled.dtype
        assert_array_equal(expected, compiled)
