"""Near-duplicates of known texts: found by comparing few, the same as by comparing all."""

import gc
import weakref

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from pacsent.arrays import are_among
from pacsent.certify import near_duplicates
from pacsent.certify.near_duplicates import (
    MIN_COSINE,
    KnownTexts,
    index_known,
    known_texts,
    sketches,
)
from pacsent.datasets import load_banking, load_books


def largest_cosines(known, new):
    """The largest cosine of each new text with any known one: every text with every other."""
    known, new = sketches(known), sketches(new)
    ids, n_texts = np.unique(known[known > 0], return_counts=True)
    columns = {0: 0} | {int(number): k for k, number in enumerate(ids, start=1)}
    other = len(columns)
    idf = np.log((1.0 + len(known)) / (1.0 + np.concatenate([[0], n_texts, [0]]))) + 1.0

    def unit_rows(rows):
        table = np.zeros((len(rows), other + 1))
        for row, numbers in enumerate(rows):
            for number in numbers[numbers > 0]:
                column = columns.get(int(number), other)
                # words that nobody knows count in the length, each by itself
                table[row, column] = np.hypot(table[row, column], idf[column])
        return table / np.maximum(np.linalg.norm(table, axis=1, keepdims=True), 1e-300)

    return (unit_rows(new)[:, :other] @ unit_rows(known)[:, :other].T).max(axis=1)


def edited(texts, rng):
    """Texts with some words removed or replaced."""
    for text in texts:
        words = text.split()
        start = rng.integers(len(words) + 1)
        yield " ".join(
            words[:start] + ["zebra"] * rng.integers(3) + words[start + rng.integers(4) :]
        )


def texts_of(kind, rng):
    books = [passage.text for passage in load_books()]
    bank = list(load_banking("train")[0])
    letters = np.array(list("abcdefghi"))
    made = {
        "passages": (books[:600], list(edited(books[300:700], rng))),
        "messages": (bank[:1000], bank[800:1300]),
        "all alike": (["the same words again"] * 400, ["the same words", "other words"] * 50),
        "a template": (
            [f"your order {i} of {i % 7} items was sent" for i in range(400)],
            [f"your order {i} of {i % 5} things was not sent now" for i in range(200)],
        ),
        "one word in common": (
            [f"common w{i} v{i}" for i in range(400)],
            [*(f"common x{i} y{i}" for i in range(200)), "common"],
        ),
        "letters": tuple(
            [" ".join(rng.choice(letters, size=rng.integers(1, 9))) for _ in range(500)]
            for _ in range(2)
        ),
    }
    return made[kind]


@pytest.mark.parametrize(
    "kind",
    ["passages", "messages", "all alike", "a template", "one word in common", "letters"],
)
def test_the_same_texts_are_found_as_by_comparing_all(kind, rng):
    known, new = texts_of(kind, rng)
    cosines = largest_cosines(known, new)
    # no cosine is so near to the limit that rounding decides
    assert np.abs(cosines - MIN_COSINE).min() > 2e-6

    found = KnownTexts(sketches(known)).are_near(new)

    assert_array_equal(found, cosines >= MIN_COSINE)


def test_few_known_texts_are_listed_for_a_new_one():
    """Of 2,000 passages and 1,000 others, less than three pairs in a hundred."""
    passages = [passage.text for passage in load_books()]
    postings = index_known(sketches(passages[:2000])).postings
    known = KnownTexts(sketches(passages[:2000]))
    own = known._look_up(sketches(passages[2000:]))

    n_listed = np.diff(postings.starts)[own.prefixes.entries].sum()

    assert n_listed < 0.03 * 2000 * 1000


def test_equal_known_texts_are_listed_once():
    index = index_known(sketches(["a dull film"] * 5 + ["a good film"]))

    assert np.unique(index.postings.rows).tolist() == [0, 5]


def test_nothing_known_and_nothing_new():
    assert KnownTexts(np.zeros((0, 64), np.uint32)).are_near(["a text"]).tolist() == [False]
    assert KnownTexts(np.zeros((3, 64), np.uint32)).are_near(["a text"]).tolist() == [False]
    assert KnownTexts(sketches(["a text"])).are_near([]).size == 0


def test_the_index_of_an_array_is_made_once_and_goes_with_it():
    first, second = sketches(["a dull film"]), sketches(["a good film"])

    assert known_texts(first)._index is known_texts(first)._index
    assert known_texts(second)._index is not known_texts(first)._index

    gone = weakref.ref(first)
    del first
    gc.collect()
    assert gone() is None
    assert near_duplicates._LAST_KNOWN == []


def test_values_among_sorted_ones_are_those_of_numpy(rng):
    known = np.unique(rng.integers(0, 50, size=20))
    values = rng.integers(-5, 60, size=100)

    assert_array_equal(are_among(values, known), np.isin(values, known))
    assert not are_among(values, known[:0]).any()
