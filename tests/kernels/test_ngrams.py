"""N-grams: the compiled code against plain Python, and against hand-made cases."""

import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from pacsent.kernels import ngrams as kernels
from pacsent.kernels.library import BoundArray
from pacsent.kernels.ngrams import HashTable, Settings
from pacsent.text.ngrams import NGrams, as_bytes, byte_kinds, fingerprints, unknown_shares

PIECES = [
    *("good", "Film", "ISN'T", "'tis", "dogs'", "a''b", "_x1", "!", "...", " ", "  ", "\t"),
    *("é", "Ça", "cafe\u0301", "ⴰⵎ", "我爱你", "don'我", "かな", "สวัสดี", "नमस्ते"),
    *("5€", "£3", "→", "😀", "❤️", "\u200b"),
]  # fmt: skip
WORDS = Settings.of(byte_kinds(), (1, 2), of_characters=False)
NO_MARKS = Settings.of(byte_kinds(""), (1, 3), of_characters=False)
CHARACTERS = Settings.of(byte_kinds(), (2, 4), of_characters=True)
SETTINGS = [WORDS, NO_MARKS, CHARACTERS]


@pytest.fixture
def texts(rng):
    """Texts of many scripts, some empty, some without a token."""
    lengths = rng.integers(0, 30, size=60)
    pieces = ["".join(rng.choice(PIECES, size=n)) for n in lengths]
    return ["", "x", "'", *pieces, "😀", ""]


@pytest.mark.parametrize("settings", SETTINGS)
def test_tokens_are_those_of_regular_expressions(texts, settings):
    texts = as_bytes(texts)

    tokens = kernels.hash_texts(*texts, settings)
    expected = kernels.hash_texts_plainly(*texts, settings)

    for values, wanted in zip(tokens, expected):
        assert values.dtype == wanted.dtype
        assert_array_equal(values, wanted)


@pytest.mark.parametrize("settings", SETTINGS)
def test_tokens_of_any_bytes_are_those_of_regular_expressions(rng, settings):
    choices = np.frombuffer(
        b" aZ'!\x7f\x80\xbf\xc2\xa3\xe0\xb8\xe2\x86\x90\xe3\xe4\xf0\x9f\xff", np.uint8
    )
    data = rng.choice(choices, size=3000)  # no valid UTF-8: characters end anywhere
    bounds = np.sort(np.append(rng.integers(0, data.size, size=500), [0, data.size]))

    tokens = kernels.hash_texts(data, bounds, settings)

    for values, wanted in zip(tokens, kernels.hash_texts_plainly(data, bounds, settings)):
        assert_array_equal(values, wanted)


def test_a_token_has_the_hash_that_stored_models_have():
    tokens = kernels.hash_texts(*as_bytes(["Film!"]), WORDS)

    assert [hex(h) for h in tokens.hashes] == [
        "0xa0761d6478bd642f",
        "0xf7c72ae6e6746ba3",
        "0x88b8c63d00ec1215",
    ]
    assert tokens.spans.tolist() == [[0, 0], [0, 4], [4, 5]]
    assert tokens.is_word.tolist() == [False, True, False]


def test_no_run_of_tokens_goes_on_after_an_edge():
    a, b, edge = np.uint64(5), np.uint64(7), kernels.EDGE
    hashes = np.array([edge, a, b, edge])

    grams = kernels.hash_grams(hashes, 2, 3)

    with np.errstate(over="ignore"):
        edge_a, ab, b_edge = (
            kernels.join_hashes(*np.array(p)) for p in ((edge, a), (a, b), (b, edge))
        )
        edge_a_b, ab_edge = kernels.join_hashes(edge_a, b), kernels.join_hashes(ab, edge)
    assert_array_equal(grams, np.array([edge_a, edge_a_b, ab, ab_edge, b_edge]))
    assert_array_equal(kernels.hash_grams(hashes, 1, 1), [a, b])


@pytest.mark.parametrize("sizes", [(1, 1), (1, 3), (2, 5), (4, 4)])
@pytest.mark.parametrize("n_tokens", [0, 1, 2, 3, 200])
def test_runs_of_tokens_are_those_of_the_plain_code(rng, sizes, n_tokens):
    some = np.append(rng.integers(1, 1 << 63, size=5).astype(np.uint64), kernels.EDGE)
    hashes = rng.choice(some, size=n_tokens)

    assert_array_equal(
        kernels.hash_grams(hashes, *sizes), kernels.hash_grams_plainly(hashes, *sizes)
    )


def test_hashes_that_belong_into_the_same_slot_are_all_found(rng):
    crowded = (np.arange(1, 600, dtype=np.uint64) << np.uint64(40)) | np.uint64(2047)
    absent = np.array([2047, 5, (700 << 40) | 2047], np.uint64)
    hashes = np.append(crowded, rng.integers(1, 1 << 63, size=100).astype(np.uint64))

    table = HashTable(hashes)

    assert_array_equal(table.find(hashes), np.arange(hashes.size))
    assert_array_equal(table.find(absent), [-1, -1, -1])
    assert_array_equal(kernels.find_plainly(table, hashes), np.arange(hashes.size))
    assert_array_equal(kernels.find_plainly(table, absent), [-1, -1, -1])


def test_an_empty_table_has_nothing():
    table = HashTable(np.empty(0, np.uint64))

    assert_array_equal(table.find(np.array([1, 2], np.uint64)), [-1, -1])


@pytest.mark.parametrize("settings", SETTINGS)
@pytest.mark.parametrize("batch_bytes", [1, 100, 1 << 23])
def test_counts_and_scores_are_those_of_the_plain_code(
    rng, texts, settings, batch_bytes, monkeypatch
):
    monkeypatch.setattr(kernels, "_FIRST_SLOTS", 16)  # which must grow
    monkeypatch.setattr(kernels, "_BATCH_BYTES", batch_bytes)  # several calls give the same
    texts = as_bytes(texts)

    hashes, n_texts = kernels.count_texts(*texts, settings)
    parts = [kernels.count_texts(*texts, settings, part, 3) for part in range(3)]
    wanted_hashes, wanted_n_texts = kernels.count_texts_plainly(*texts, settings)
    order = np.argsort(hashes)
    assert_array_equal(hashes[order], wanted_hashes)
    assert_array_equal(n_texts[order], wanted_n_texts)
    assert_array_equal(np.sort(np.concatenate([part for part, _ in parts])), wanted_hashes)

    table = HashTable(wanted_hashes[::2])
    for values, wanted in zip(
        kernels.count_grams(*texts, settings, table),
        kernels.count_grams_plainly(*texts, settings, table),
    ):
        assert_array_equal(values, wanted)

    known = None if settings is CHARACTERS else HashTable(wanted_hashes[1::4])
    idf = BoundArray(rng.uniform(1, 9, size=table.n_hashes).astype(np.float32))
    coef = rng.normal(size=(table.n_hashes, 3)).astype(np.float32)
    found = kernels.score_texts(*texts, settings, table, known, idf, coef)
    wanted = kernels.score_texts_plainly(*texts, settings, table, known, idf, coef)
    assert_allclose(found[0], wanted[0], atol=1e-5)  # sums of float32 in another order
    assert_array_equal(found[1], wanted[1])
    assert (found[1].max() > 0) == (known is not None)


def test_everything_works_without_the_compiled_code(texts, monkeypatch):
    def results():
        ngrams = NGrams.of(texts, (1, 2), min_texts=2)
        known = [NGrams.of(texts[:20], (1, 1)).table]
        occurrences = ngrams.occurrences(texts[9])
        return [
            *(ngrams.hashes, ngrams.counts(texts).toarray(), *occurrences[:3]),
            *(fingerprints(texts), unknown_shares(texts, known)),
            ngrams.scores(texts, np.ones((len(ngrams), 2), np.float32)).round(4),
        ]

    compiled = results()
    monkeypatch.setattr(kernels, "needs_twins", lambda: True)
    for values, wanted in zip(results(), compiled):
        assert_array_equal(values, wanted)


def test_a_table_that_was_pickled_finds_the_same(texts):
    ngrams = NGrams.of(texts, (1, 2))
    coef = np.ones((len(ngrams), 2), np.float32)
    scores = ngrams.scores(texts, coef)

    assert_array_equal(pickle.loads(pickle.dumps(ngrams)).scores(texts, coef), scores)


@pytest.mark.parametrize("bounds", [[0, 3, 2, 4], [0, 5], [-1, 4]])
def test_bounds_outside_the_data_are_refused(bounds):
    data = np.frombuffer(b"abcd", np.uint8)

    with pytest.raises(ValueError, match="bounds are not those"):
        kernels.hash_texts(data, np.array(bounds), WORDS)
    with pytest.raises(ValueError, match="bounds are not those"):
        kernels.hash_whole_texts(data, np.array(bounds), WORDS)


def test_weights_of_other_ngrams_and_impossible_settings_are_refused():
    table = HashTable(np.arange(1, 5, dtype=np.uint64))
    idf, coef = BoundArray(np.ones(4, np.float32)), np.ones((5, 2), np.float32)
    arguments = *as_bytes(["a"]), WORDS, table, table

    with pytest.raises(ValueError, match="those of 4 n-grams"):
        kernels.score_texts(*arguments, idf, coef)
    with pytest.raises(ValueError, match="those of 4 n-grams"):
        kernels.score_texts(*arguments, BoundArray(coef[:, 0].copy()), coef[:4])
    with pytest.raises(ValueError, match="n-grams of words only"):
        kernels.score_texts(*as_bytes(["a"]), CHARACTERS, table, table, idf, coef[:4])
    with pytest.raises(ValueError, match="no n-grams of 2 to 1 tokens"):
        Settings.of(byte_kinds(), (2, 1), of_characters=False)
    with pytest.raises(ValueError, match="each of the 256 bytes"):
        Settings.of(byte_kinds()[:100], (1, 1), of_characters=False)


def test_words_are_counted_as_oov_where_no_other_table_has_any():
    """An encoder without words is not the same as no count of OOV words."""
    texts = as_bytes(["good film", "bad zebra"])
    grams = NGrams.of(["good film", "bad film"], (1, 1))
    coef = np.zeros((len(grams), 1), np.float32)
    arguments = grams._settings, grams.table

    _, counted = kernels.score_texts(
        *texts, *arguments, HashTable(np.empty(0, np.uint64)), grams._bound_idf, coef
    )
    _, not_counted = kernels.score_texts(*texts, *arguments, None, grams._bound_idf, coef)

    assert counted.tolist() == [0.0, 0.5]
    assert not_counted.tolist() == [0.0, 0.0]
