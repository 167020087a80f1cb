import math
import re

import numpy as np
import pytest

from pacsent.kernels.ngrams import HashTable
from pacsent.text.ngrams import (
    NGrams,
    as_bytes,
    fingerprints,
    names,
    unknown_shares,
    word_hashes,
)

TEXTS = ["A good film, good!", "It isn't a bad film.", "", "Ça alors, déjà-vu ’tis", "..."]


def is_word_character(letter):
    return letter.isalnum() or letter == "_"


def tokenize_plainly(text):
    """Tokens as the kernels should find them, in plain Python."""
    text = text.replace("’", "'")
    tokens = []
    word = ""
    for i, letter in enumerate(text):
        next_letter = text[i + 1 : i + 2]
        is_inner_apostrophe = letter == "'" and word and is_word_character(next_letter)
        if is_word_character(letter) or is_inner_apostrophe:
            word += letter.lower()
            continue

        if word:
            tokens.append(word)
        word = ""
        if letter in '!?,.-:;()"':
            tokens.append(letter)

    if word:
        tokens.append(word)
    return tokens


def word_grams_plainly(text, low, high):
    """N-grams of words; the beginning of a text is a token, but no n-gram of its own."""
    tokens = tokenize_plainly(text)
    if not tokens:
        return []
    tokens = ["^", *tokens]
    grams = []
    for size in range(low, high + 1):
        for start in range(len(tokens) - size + 1):
            grams.append(" ".join(tokens[start : start + size]))
    return [gram for gram in grams if gram != "^"]


def character_grams_plainly(text, low, high):
    """N-grams of characters of each word; | is an edge of a word."""
    data, _ = as_bytes([text])
    normalized = data.tobytes().decode().lower()
    inside = r"(?:\w|[^\x00-\x7f\w])"
    grams = []
    for word in re.findall(rf"{inside}+(?:'{inside}+)*", normalized):
        padded = f"|{word}|"
        for size in range(low, high + 1):
            for start in range(len(padded) - size + 1):
                grams.append(padded[start : start + size])
    return [gram for gram in grams if gram != "|"]


def assert_counts_equal(counts, expected_grams):
    """The counts of each text are those of its n-grams, in any order of columns."""
    for row, grams in zip(counts.toarray(), expected_grams, strict=True):
        expected = sorted(grams.count(gram) for gram in set(grams))
        assert sorted(row[row > 0].astype(int).tolist()) == expected


def count_distinct(grams_of_texts):
    return len(set().union(*grams_of_texts))


# ---- N-grams of words ---------------------------------------------------------------------------


@pytest.mark.parametrize("n_threads", [1, 3])
@pytest.mark.parametrize("sizes", [(1, 1), (1, 2), (2, 3), (1, 3)])
def test_counts_are_those_of_plain_python_on_any_number_of_threads(sizes, n_threads):
    expected = [word_grams_plainly(text, *sizes) for text in TEXTS]

    ngrams = NGrams.of(TEXTS, sizes, n_threads=1)

    assert len(ngrams) == count_distinct(expected)
    assert_counts_equal(ngrams.counts(TEXTS, n_threads), expected)


@pytest.mark.parametrize("sizes", [(1, 1), (1, 2), (2, 3), (1, 3)])
def test_ngrams_and_idf_do_not_depend_on_the_number_of_threads(sizes):
    ngrams = NGrams.of(TEXTS, sizes, n_threads=1)
    threaded = NGrams.of(TEXTS, sizes, n_threads=3)

    assert np.array_equal(ngrams.hashes, threaded.hashes)
    assert np.array_equal(ngrams.idf, threaded.idf)


def test_tf_idf_rows_have_length_one():
    rows = NGrams.of(TEXTS, (1, 2)).tf_idf(TEXTS)

    lengths = np.linalg.norm(rows.toarray(), axis=1)
    assert np.allclose(lengths, [1, 1, 0, 1, 1], atol=1e-6)


def test_scores_are_the_product_of_tf_idf_and_coefficients():
    ngrams = NGrams.of(TEXTS, (1, 2))
    coef = np.random.default_rng(0).normal(size=(len(ngrams), 3)).astype(np.float32)

    scores = ngrams.scores(TEXTS, coef)

    assert np.allclose(scores, ngrams.tf_idf(TEXTS) @ coef, atol=1e-5)


def test_the_table_grows_with_many_ngrams():
    words = [f"w{i}" for i in range(60_000)]
    texts = [" ".join(words[start : start + 400]) for start in range(0, 60_000, 400)]

    assert len(NGrams.of(texts, (1, 1))) == 60_000


def test_names_are_found_in_the_texts():
    ngrams = NGrams.of(TEXTS, (1, 2), min_texts=2)

    assert set(names(TEXTS, (1, 2), ngrams.hashes)) == {"a", "film", ".", ","}


def test_the_idf_is_the_smoothed_one():
    texts = ["a b", "a", "a c"]

    ngrams = NGrams.of(texts, (1, 1))

    idf = dict(zip(names(texts, (1, 1), ngrams.hashes), ngrams.idf))
    assert idf["a"] == pytest.approx(1.0)
    assert idf["b"] == pytest.approx(math.log(4 / 2) + 1)


# ---- Normalized texts ---------------------------------------------------------------------------


def test_spacing_and_capitals_do_not_change_a_fingerprint():
    spaced, capitals, reordered, empty = fingerprints(
        ["A good  film", "a GOOD film", "film good a", " "]
    )

    assert spaced == capitals
    assert capitals != reordered
    assert empty == 0


def test_letters_of_any_script_become_small():
    data, bounds = as_bytes(["ÉTÉ…oui", "plain"])

    assert data.tobytes()[bounds[0] : bounds[1]].decode() == "été oui"


# ---- N-grams of characters ----------------------------------------------------------------------

MANY_SCRIPTS = [
    "A good film, don't'a 'b c''d", "", "我爱你，你呢？ok abc我", "é", "x", "สวัสดี ครับ", "...",
    "Don't", "नमस्ते दुनिया", "cafe\u0301 ❤️ 1️⃣", "مرحبا بالعالم", "ab", "c",
]  # fmt: skip


@pytest.mark.parametrize("sizes", [(2, 5), (1, 3), (2, 2), (3, 4)])
def test_characters_are_those_of_plain_python(sizes):
    expected = [character_grams_plainly(text, *sizes) for text in MANY_SCRIPTS]

    ngrams = NGrams.of(MANY_SCRIPTS, sizes, characters=True)

    assert len(ngrams) == count_distinct(expected)
    assert_counts_equal(ngrams.counts(MANY_SCRIPTS), expected)
    for text, grams in zip(MANY_SCRIPTS, expected):
        assert len(ngrams.occurrences(text).columns) == len(grams)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("我爱film東京、かな สวัสดี", [*"我爱", "film", *"東京かな", *"สวัสดี"]),
        # signs of vowels and accents stay in their words, and symbols are tokens
        (
            "नमस्ते दुनिया cafe\u0301 ❤️ok😀😡 5€ £3→★ x² …",
            ["नमस्ते", "दुनिया", "café", "❤", "ok", "😀", "😡", "5", "€", "£", "3", "→", "★", "x²"],
        ),
    ],
)
def test_tokens_of_many_scripts(text, words):
    occurrences = NGrams.of([text], (1, 1)).occurrences(text)

    assert [text[start:end] for start, end in occurrences.spans] == words


def test_values_of_characters_are_shared_by_characters_and_not_by_edges():
    ngrams = NGrams.of(["ab c", "ab"], (2, 3), characters=True)
    occurrences = ngrams.occurrences("ab c")
    n_grams = len(occurrences.columns)

    values = occurrences.shared(np.ones(n_grams))

    value_of_span = {
        (start, end): value for (start, end), value in zip(occurrences.spans, values) if end > start
    }
    # |a, |ab, ab, ab|, b| : a has 1 + 1/2 + 1/2 + 1/2; |c, |c|, c| : c has 3
    assert value_of_span == pytest.approx({(0, 1): 2.5, (1, 2): 2.5, (3, 4): 3.0})
    assert values.sum() == pytest.approx(n_grams)


# ---- OOV rates ----------------------------------------------------------------------------------


def test_unknown_words_are_those_of_plain_python():
    first_words = {"a", "good"}
    second_words = {"good", "film", "déjà", "isn't"}
    tables = [HashTable(word_hashes([*words])) for words in (first_words, second_words)]

    rates = unknown_shares(TEXTS, tables)

    expected_rates = []
    for text in TEXTS:
        words = [token for token in tokenize_plainly(text) if token[0].isalnum()]
        is_oov = [word not in first_words | second_words for word in words]
        expected_rates.append(sum(is_oov) / max(len(words), 1))
    assert rates.tolist() == expected_rates
    assert max(expected_rates) > 0
