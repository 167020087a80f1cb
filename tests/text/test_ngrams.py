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


def tokens(text):
    """What the kernels should find, in plain Python."""
    found, word = [], ""
    text = text.replace("’", "'")
    for i, letter in enumerate(text):
        inside = letter.isalnum() or letter == "_"
        after = text[i + 1 : i + 2]
        if inside or (letter == "'" and word and (after.isalnum() or after == "_")):
            word += letter.lower()
            continue
        if word:
            found.append(word)
        word = ""
        if letter in '!?,.-:;()"':
            found.append(letter)
    return found + [word] if word else found


def grams(text, low, high):
    words = tokens(text)
    if not words:
        return []
    words = ["^", *words]
    return [
        " ".join(words[i : i + size])
        for i in range(len(words))
        for size in range(low, high + 1)
        if i + size <= len(words) and words[i : i + size] != ["^"]
    ]


@pytest.mark.parametrize("sizes", [(1, 1), (1, 2), (2, 3), (1, 3)])
def test_counts_are_those_of_plain_python_on_any_number_of_threads(sizes):
    wanted = [grams(text, *sizes) for text in TEXTS]
    ngrams, threaded = (NGrams.of(TEXTS, sizes, n_threads=n) for n in (1, 3))
    assert np.array_equal(ngrams.hashes, threaded.hashes)
    assert np.array_equal(ngrams.idf, threaded.idf)
    assert len(ngrams) == len({gram for row in wanted for gram in row})
    for n_threads in (1, 3):
        for row, expected in zip(ngrams.counts(TEXTS, n_threads).toarray(), wanted):
            counts = sorted(expected.count(gram) for gram in set(expected))
            assert sorted(row[row > 0].astype(int).tolist()) == counts


def test_tf_idf_rows_have_length_one_and_scores_are_their_product():
    ngrams = NGrams.of(TEXTS, (1, 2))
    rows = ngrams.tf_idf(TEXTS)
    lengths = np.linalg.norm(rows.toarray(), axis=1)
    assert np.allclose(lengths, [1, 1, 0, 1, 1], atol=1e-6)
    coef = np.random.default_rng(0).normal(size=(len(ngrams), 3)).astype(np.float32)
    assert np.allclose(ngrams.scores(TEXTS, coef), rows @ coef, atol=1e-5)


def test_the_table_grows_with_many_ngrams():
    texts = [" ".join(f"w{i}" for i in range(j, j + 400)) for j in range(0, 60_000, 400)]
    assert len(NGrams.of(texts, (1, 1))) == 60_000


def test_names_are_found_in_the_texts_and_idf_is_the_smoothed_one():
    ngrams = NGrams.of(TEXTS, (1, 2), min_texts=2)
    assert set(names(TEXTS, (1, 2), ngrams.hashes)) == {"a", "film", ".", ","}
    texts = ["a b", "a", "a c"]
    ngrams = NGrams.of(texts, (1, 1))
    idf = dict(zip(names(texts, (1, 1), ngrams.hashes), ngrams.idf))
    assert idf["a"] == pytest.approx(1.0)
    assert idf["b"] == pytest.approx(math.log(4 / 2) + 1)


def test_spacing_and_capitals_of_any_script_do_not_matter():
    a, b, c, empty = fingerprints(["A good  film", "a GOOD film", "film good a", " "])
    assert a == b != c
    assert empty == 0
    data, bounds = as_bytes(["ÉTÉ…oui", "plain"])
    assert data.tobytes()[bounds[0] : bounds[1]].decode() == "été oui"


MANY_SCRIPTS = [
    "A good film, don't'a 'b c''d", "", "我爱你，你呢？ok abc我", "é", "x", "สวัสดี ครับ", "...",
    "Don't", "नमस्ते दुनिया", "cafe\u0301 ❤️ 1️⃣", "مرحبا بالعالم", "ab", "c",
]  # fmt: skip


def character_grams(text, low, high):
    """What the kernels should find, in plain Python; | is an edge of a word."""
    found = []
    text = as_bytes([text])[0].tobytes().decode().lower()
    inside = r"(?:\w|[^\x00-\x7f\w])"
    for word in re.findall(rf"{inside}+(?:'{inside}+)*", text):
        padded = f"|{word}|"
        for n in range(low, high + 1):
            grams = [padded[i : i + n] for i in range(len(padded) - n + 1)]
            found += [gram for gram in grams if gram != "|"]
    return found


@pytest.mark.parametrize("sizes", [(2, 5), (1, 3), (2, 2), (3, 4)])
def test_characters_are_those_of_plain_python(sizes):
    found = NGrams.of(MANY_SCRIPTS, sizes, characters=True)
    wanted = [character_grams(text, *sizes) for text in MANY_SCRIPTS]
    assert len(found) == len({gram for row in wanted for gram in row})
    for text, row, expected in zip(MANY_SCRIPTS, found.counts(MANY_SCRIPTS).toarray(), wanted):
        counts = sorted(expected.count(gram) for gram in set(expected))
        assert sorted(row[row > 0].astype(int).tolist()) == counts
        assert len(found.occurrences(text).columns) == len(expected)


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
    found = NGrams.of([text], (1, 1)).occurrences(text)
    assert [text[a:b] for a, b in found.spans] == words


def test_values_of_characters_are_shared_by_characters_and_not_by_edges():
    ngrams = NGrams.of(["ab c", "ab"], (2, 3), characters=True)
    found = ngrams.occurrences("ab c")
    shared = found.shared(np.ones(len(found.columns)))
    of = {span: value for span, value in zip(found.spans, shared) if span[1] > span[0]}
    # |a, |ab, ab, ab|, b| : a has 1 + 1/2 + 1/2 + 1/2; |c, |c|, c| : c has 3
    assert of == pytest.approx({(0, 1): 2.5, (1, 2): 2.5, (3, 4): 3.0})
    assert shared.sum() == pytest.approx(len(found.columns))


def test_unknown_words_are_those_of_plain_python():
    known = {"a", "good", "film", "déjà", "isn't"}
    tables = HashTable(word_hashes(["a", "good"])), HashTable(word_hashes([*known - {"a"}]))
    words = [[t for t in tokens(text) if t[0].isalnum()] for text in TEXTS]
    parts = [sum(word not in known for word in row) / max(len(row), 1) for row in words]
    assert unknown_shares(TEXTS, tables).tolist() == parts and max(parts) > 0
