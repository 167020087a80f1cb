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
    drawn = []
    for n_pieces in rng.integers(0, 30, size=60):
        pieces = rng.choice(PIECES, size=n_pieces)
        drawn.append("".join(pieces))
    return ["", "x", "'", *drawn, "😀", ""]


@pytest.fixture
def twin_texts(texts, monkeypatch):
    """The bytes and bounds of the texts, read by kernels whose tables must grow."""
    monkeypatch.setattr(kernels, "_FIRST_SLOTS", 16)
    return as_bytes(texts)


def assert_all_equal(results, expected):
    for values, expected_values in zip(results, expected, strict=True):
        assert values.dtype == expected_values.dtype
        assert_array_equal(values, expected_values)


@pytest.mark.parametrize("settings", SETTINGS)
def test_tokens_are_those_of_regular_expressions(texts, settings):
    texts = as_bytes(texts)

    tokens = kernels.hash_texts(*texts, settings)
    expected = kernels.hash_texts_plainly(*texts, settings)
    assert_all_equal(tokens, expected)


@pytest.mark.parametrize("settings", SETTINGS)
def test_tokens_of_any_bytes_are_those_of_regular_expressions(rng, settings):
    choices = np.frombuffer(
        b" aZ'!\x7f\x80\xbf\xc2\xa3\xe0\xb8\xe2\x86\x90\xe3\xe4\xf0\x9f\xff", np.uint8
    )
    data = rng.choice(choices, size=3000)  # no valid UTF-8: characters end anywhere
    inner_bounds = rng.integers(0, data.size, size=500)
    bounds = np.sort(np.append(inner_bounds, [0, data.size]))

    tokens = kernels.hash_texts(data, bounds, settings)

    expected = kernels.hash_texts_plainly(data, bounds, settings)
    assert_all_equal(tokens, expected)


def test_a_token_has_the_hash_that_stored_models_have():
    tokens = kernels.hash_texts(*as_bytes(["Film!"]), WORDS)

    assert [hex(h) for h in tokens.hashes] == [
        "0xa0761d6478bd642f",
        "0xf7c72ae6e6746ba3",
        "0x88b8c63d00ec1215",
    ]
    assert tokens.spans.tolist() == [[0, 0], [0, 4], [4, 5]]
    assert tokens.is_word.tolist() == [False, True, False]


def test_an_edge_is_no_unigram():
    a = np.uint64(5)
    b = np.uint64(7)
    hashes = np.array([kernels.EDGE, a, b, kernels.EDGE])

    unigrams = kernels.hash_grams(hashes, 1, 1)

    assert_array_equal(unigrams, [a, b])


def test_a_run_of_tokens_begins_or_ends_with_an_edge_and_has_none_inside():
    a = np.uint64(5)
    b = np.uint64(7)
    edge = np.uint64(kernels.EDGE)
    hashes = np.array([edge, a, b, edge, a])

    bigrams_and_trigrams = kernels.hash_grams(hashes, 2, 3)

    with np.errstate(over="ignore"):
        edge_a = kernels.join_hashes(edge, a)
        edge_a_b = kernels.join_hashes(edge_a, b)
        ab = kernels.join_hashes(a, b)
        ab_edge = kernels.join_hashes(ab, edge)
        b_edge = kernels.join_hashes(b, edge)
    # In the order of their first token; after the inner edge there is no (b, edge, a).
    expected = np.array([edge_a, edge_a_b, ab, ab_edge, b_edge, edge_a])
    assert_array_equal(bigrams_and_trigrams, expected)


@pytest.mark.parametrize("sizes", [(1, 1), (1, 3), (2, 5), (4, 4)])
@pytest.mark.parametrize("n_tokens", [0, 1, 2, 3, 200])
def test_runs_of_tokens_are_those_of_the_plain_code(rng, sizes, n_tokens):
    token_hashes = rng.integers(1, 1 << 63, size=5).astype(np.uint64)
    choices = np.append(token_hashes, kernels.EDGE)
    hashes = rng.choice(choices, size=n_tokens)

    grams = kernels.hash_grams(hashes, *sizes)

    expected = kernels.hash_grams_plainly(hashes, *sizes)
    assert_array_equal(grams, expected)


def test_hashes_that_belong_into_the_same_slot_are_all_found(rng):
    high_bits = np.arange(1, 600, dtype=np.uint64) << np.uint64(40)
    crowded = high_bits | np.uint64(2047)
    scattered = rng.integers(1, 1 << 63, size=100).astype(np.uint64)
    hashes = np.append(crowded, scattered)
    absent = np.array([2047, 5, (700 << 40) | 2047], np.uint64)

    table = HashTable(hashes)

    places = np.arange(hashes.size)
    assert_array_equal(table.find(hashes), places)
    assert_array_equal(table.find(absent), [-1, -1, -1])
    assert_array_equal(kernels.find_plainly(table, hashes), places)
    assert_array_equal(kernels.find_plainly(table, absent), [-1, -1, -1])


def test_an_empty_table_has_nothing():
    table = HashTable(np.empty(0, np.uint64))

    places = table.find(np.array([1, 2], np.uint64))

    assert_array_equal(places, [-1, -1])


# ---- Counts and scores, in one call or in several -----------------------------------------------

all_settings = pytest.mark.parametrize("settings", SETTINGS)
all_batches = pytest.mark.parametrize("batch_bytes", [1, 100, 1 << 23])


@all_settings
@all_batches
def test_numbers_of_texts_are_those_of_the_plain_code(
    twin_texts, settings, batch_bytes, monkeypatch
):
    monkeypatch.setattr(kernels, "_BATCH_BYTES", batch_bytes)

    hashes, n_texts = kernels.count_texts(*twin_texts, settings)

    expected_hashes, expected_n_texts = kernels.count_texts_plainly(*twin_texts, settings)
    order = np.argsort(hashes)
    assert_array_equal(hashes[order], expected_hashes)
    assert_array_equal(n_texts[order], expected_n_texts)


@all_settings
@all_batches
def test_the_parts_of_a_count_are_the_count(twin_texts, settings, batch_bytes, monkeypatch):
    monkeypatch.setattr(kernels, "_BATCH_BYTES", batch_bytes)

    parts = [kernels.count_texts(*twin_texts, settings, part, 3) for part in range(3)]

    hashes = np.concatenate([part_hashes for part_hashes, _ in parts])
    expected_hashes, _ = kernels.count_texts_plainly(*twin_texts, settings)
    assert_array_equal(np.sort(hashes), expected_hashes)


@all_settings
@all_batches
def test_counts_of_ngrams_are_those_of_the_plain_code(
    twin_texts, settings, batch_bytes, monkeypatch
):
    monkeypatch.setattr(kernels, "_BATCH_BYTES", batch_bytes)
    hashes, _ = kernels.count_texts_plainly(*twin_texts, settings)
    table = HashTable(hashes[::2])

    counts = kernels.count_grams(*twin_texts, settings, table)

    expected = kernels.count_grams_plainly(*twin_texts, settings, table)
    for values, expected_values in zip(counts, expected, strict=True):
        assert_array_equal(values, expected_values)


@all_settings
@all_batches
def test_scores_are_those_of_the_plain_code(rng, twin_texts, settings, batch_bytes, monkeypatch):
    monkeypatch.setattr(kernels, "_BATCH_BYTES", batch_bytes)
    hashes, _ = kernels.count_texts_plainly(*twin_texts, settings)
    table = HashTable(hashes[::2])
    encoder_words = None if settings is CHARACTERS else HashTable(hashes[1::4])
    idf = BoundArray(rng.uniform(1, 9, size=table.n_hashes).astype(np.float32))
    coef = rng.normal(size=(table.n_hashes, 3)).astype(np.float32)
    arguments = (*twin_texts, settings, table, encoder_words, idf, coef)

    scores, oov_rates = kernels.score_texts(*arguments)

    expected_scores, expected_oov_rates = kernels.score_texts_plainly(*arguments)
    assert_allclose(scores, expected_scores, atol=1e-5)  # sums of float32 in another order
    assert_array_equal(oov_rates, expected_oov_rates)
    has_oov_words = oov_rates.max() > 0
    assert has_oov_words == (encoder_words is not None)


def compute_all(texts):
    """What n-grams of texts are used for."""
    ngrams = NGrams.of(texts, (1, 2), min_texts=2)
    encoder_words = NGrams.of(texts[:20], (1, 1)).table
    coef = np.ones((len(ngrams), 2), np.float32)
    occurrences = ngrams.occurrences(texts[9])
    return {
        "hashes": ngrams.hashes,
        "counts": ngrams.counts(texts).toarray(),
        "columns of a text": occurrences.columns,
        "first tokens": occurrences.first,
        "sizes": occurrences.size,
        "fingerprints": fingerprints(texts),
        "unknown shares": unknown_shares(texts, [encoder_words]),
        "scores": ngrams.scores(texts, coef).round(4),
    }


def test_everything_works_without_the_compiled_code(texts, monkeypatch):
    compiled = compute_all(texts)
    monkeypatch.setattr(kernels, "needs_twins", lambda: True)
    plain = compute_all(texts)

    for name, values in plain.items():
        assert_array_equal(values, compiled[name], err_msg=name)


def test_a_table_that_was_pickled_finds_the_same(texts):
    ngrams = NGrams.of(texts, (1, 2))
    coef = np.ones((len(ngrams), 2), np.float32)
    content = pickle.dumps(ngrams)

    unpickled = pickle.loads(content)

    assert_array_equal(unpickled.scores(texts, coef), ngrams.scores(texts, coef))


@pytest.mark.parametrize("bounds", [[0, 3, 2, 4], [0, 5], [-1, 4]])
@pytest.mark.parametrize("hash_function", [kernels.hash_texts, kernels.hash_whole_texts])
def test_bounds_outside_the_data_are_rejected(bounds, hash_function):
    data = np.frombuffer(b"abcd", np.uint8)

    with pytest.raises(ValueError, match="bounds are not those"):
        hash_function(data, np.array(bounds), WORDS)


def score_one_text(settings=WORDS, n_idf=4, n_coef=4):
    """Score a text by a table of four n-grams."""
    table = HashTable(np.arange(1, 5, dtype=np.uint64))
    idf = BoundArray(np.ones(n_idf, np.float32))
    coef = np.ones((n_coef, 2), np.float32)
    return kernels.score_texts(*as_bytes(["a"]), settings, table, table, idf, coef)


@pytest.mark.parametrize(("n_idf", "n_coef"), [(4, 5), (5, 4)])
def test_weights_of_other_ngrams_are_rejected(n_idf, n_coef):
    with pytest.raises(ValueError, match="those of 4 n-grams"):
        score_one_text(n_idf=n_idf, n_coef=n_coef)


def test_ngrams_of_characters_have_no_oov_rate():
    with pytest.raises(ValueError, match="n-grams of words only"):
        score_one_text(CHARACTERS)


def test_sizes_of_no_ngram_are_rejected():
    with pytest.raises(ValueError, match="no n-grams of 2 to 1 tokens"):
        Settings.of(byte_kinds(), (2, 1), of_characters=False)


def test_every_byte_must_have_a_kind():
    kinds = byte_kinds()[:100]

    with pytest.raises(ValueError, match="each of the 256 bytes"):
        Settings.of(kinds, (1, 1), of_characters=False)


@pytest.mark.parametrize(
    ("encoder_words", "oov_rates"),
    [(HashTable(np.empty(0, np.uint64)), [0.0, 0.5]), (None, [0.0, 0.0])],
)
def test_an_encoder_without_words_is_not_the_same_as_no_count_of_oov_words(
    encoder_words, oov_rates
):
    texts = as_bytes(["good film", "bad zebra"])
    ngrams = NGrams.of(["good film", "bad film"], (1, 1))
    coef = np.zeros((len(ngrams), 1), np.float32)

    _, rates = kernels.score_texts(
        *texts, ngrams._settings, ngrams.table, encoder_words, ngrams._bound_idf, coef
    )

    assert rates.tolist() == oov_rates
