"""Text kernels against plain Python; also run with NUMBA_DISABLE_JIT=1."""

from itertools import pairwise

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from pacsent.text.normalize import tokenise_paper
from pacsent.words import Vocabulary, text_encoding
from pacsent.words.text_encoding import encode_bytes
from reference.text_reference import count_dropped


def rows(ids, offsets):
    return [ids[a:b] for a, b in pairwise(offsets)]


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
