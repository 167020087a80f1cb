"""Near-duplicates of known texts: the compiled code against Python."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from pacsent.certify import near_duplicates
from pacsent.certify.near_duplicates import KnownTexts, index_known, sketches
from pacsent.kernels import known_texts


@pytest.fixture
def numbers(rng):
    """Rows of numbers of ids, of which some are unknown, absent, or there twice."""
    rows = rng.integers(known_texts.ABSENT, 40, size=(300, 20))
    rows.sort(axis=1)
    rows[:5] = known_texts.ABSENT
    rows[5:10] = known_texts.UNKNOWN
    return rows.astype(np.int32)


@pytest.mark.parametrize("least", [0.0, 0.5, 0.9])
def test_prefixes_are_those_of_the_plain_loop(numbers, rng, monkeypatch, least):
    monkeypatch.setattr(known_texts, "_BATCH_ROWS", 7)
    rising = np.sort(1 + 5 * rng.random(40))
    idf = rising[::-1].copy()

    found = known_texts.find_prefixes(numbers, idf, 7.0, least)
    expected = known_texts.find_prefixes_plainly(numbers, idf, 7.0, least)

    assert_array_equal(found.entries, expected.entries)
    assert_array_equal(found.starts, expected.starts)
    assert_allclose(found.remainders, expected.remainders, rtol=1e-6)
    assert_allclose(found.lengths, expected.lengths)


def test_rows_are_listed_as_in_the_plain_loop(numbers, rng, monkeypatch):
    monkeypatch.setattr(known_texts, "_BATCH_ROWS", 7)
    idf = np.linspace(6, 1, 40)
    prefixes = known_texts.find_prefixes(numbers, idf, 7.0, 0.5)
    some_rows = rng.permutation(1000)[: len(numbers)]
    rows = some_rows.astype(np.int32)

    found = known_texts.list_rows(prefixes, rows, 45)
    expected = known_texts.list_rows_plainly(prefixes, rows, 45)

    for name, array in found._asdict().items():
        assert_array_equal(array, getattr(expected, name))


def test_sketches_of_too_many_columns_are_refused():
    numbers = np.zeros((1, 65), np.int32)
    idf = np.ones(1)

    with pytest.raises(ValueError, match=r"at most 64 columns\. Got 65"):
        known_texts.find_prefixes(numbers, idf, 1.0, 0.5)


def random_texts(rng, n_texts):
    """Texts of up to eight words, each of which is one of twelve letters."""
    letters = np.array(list("abcdefghijkl"))
    texts = []
    for _ in range(n_texts):
        n_words = rng.integers(0, 9)
        texts.append(" ".join(rng.choice(letters, size=n_words)))
    return texts


def test_near_texts_are_those_of_the_plain_loop(rng, monkeypatch):
    known = random_texts(rng, 400)
    new = random_texts(rng, 400)
    monkeypatch.setattr(known_texts, "_BATCH_TEXTS", 7)
    compiled = KnownTexts(sketches(known)).are_near(new)

    monkeypatch.setattr(near_duplicates, "are_near", known_texts.are_near_plainly)
    monkeypatch.setattr(near_duplicates, "find_prefixes", known_texts.find_prefixes_plainly)
    monkeypatch.setattr(near_duplicates, "list_rows", known_texts.list_rows_plainly)
    plain = KnownTexts(sketches(known)).are_near(new)

    assert 0 < compiled.sum() < 400
    assert_array_equal(compiled, plain)


def test_an_id_that_texts_have_twice_counts_twice():
    """As two hashes that agree in their first half, of which no text is known."""
    known = np.array([[5, 5, 7, 9], [3, 4, 6, 8]], np.uint32)
    new = np.array([[5, 5, 6, 0], [4, 6, 6, 8], [0, 1, 2, 3]], np.uint32)

    own = KnownTexts(known)._look_up(new)
    index = index_known(known)
    is_id = np.vstack([known, new])[:, :, None] == index.ids  # (5 rows, 4 columns, n_ids)
    table = (is_id * index.idf[index.numbers]).sum(axis=1)  # (5 rows, n_ids)
    lengths = np.concatenate([index.lengths, own.prefixes.lengths])
    cosines = (table[2:] @ table[:2].T) / np.outer(lengths[2:], lengths[:2])

    for least in (0.55, 0.7, 0.9):
        found = known_texts.are_near(own, known, index.lengths, index.postings, least, 0.5)
        assert_array_equal(found, (cosines >= least).any(axis=1))
