"""Edit distances and clusters: the compiled code against Python and against hand-made cases."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from pacsent.certify.near_duplicates import near_duplicate_clusters
from pacsent.kernels import edits

WORDS = np.array(
    ["a", "dull", "film", "with", "no", "plot", "and", "an", "end", "that", "is", "good"]
)


@pytest.mark.parametrize("limit", [0, 1, 3, 20])
def test_the_distance_is_that_of_the_plain_recursion(rng, limit):
    for _ in range(200):
        a = rng.integers(0, 4, size=rng.integers(0, 9))
        b = rng.integers(0, 4, size=rng.integers(0, 9))

        expected = edits.edit_distance_plainly(a, b, limit)

        assert edits.edit_distance(a, b, limit) == expected
        assert edits.edit_distance(b, a, limit) == expected


def test_distances_counted_by_hand():
    kitten, sitting = (np.array([ord(c) for c in word]) for word in ("kitten", "sitting"))

    assert edits.edit_distance(kitten, sitting, 10) == 3
    assert edits.edit_distance(kitten, sitting, 2) == 3  # more than the limit: limit + 1
    assert edits.edit_distance(kitten, kitten[:0], 10) == 6


def random_texts(rng, n_texts):
    """Texts of which many are another one with words inserted, deleted or replaced."""
    texts = []
    for _ in range(n_texts):
        if texts and rng.random() < 0.7:
            words = texts[rng.integers(len(texts))].split()
            for _ in range(rng.integers(0, 4)):
                place = rng.integers(len(words) + 1)
                words[place : place + rng.integers(2)] = [rng.choice(WORDS)]
        else:
            words = list(rng.choice(WORDS, size=rng.integers(1, 20)))
        texts.append(" ".join(words))
    return texts


def test_clusters_are_those_of_the_plain_loop(rng, monkeypatch):
    texts = random_texts(rng, 300)
    compiled = near_duplicate_clusters(texts)

    monkeypatch.setattr(edits, "_BATCH_TEXTS", 7)  # several calls give the same
    in_batches = near_duplicate_clusters(texts)
    monkeypatch.setattr(
        "pacsent.certify.near_duplicates.cluster_by_edits", edits.cluster_by_edits_plainly
    )
    plain = near_duplicate_clusters(texts)

    assert 1 < compiled.max() < 299  # some are near-duplicates, and some are not
    assert_array_equal(compiled, plain)
    assert_array_equal(in_batches, plain)


def test_rare_words_of_other_texts_are_refused():
    numbers = np.arange(4)

    with pytest.raises(ValueError, match="do not belong to these texts"):
        edits.cluster_by_edits(numbers, np.array([0, 2, 4]), numbers, np.array([0, 2, 3]), numbers)
