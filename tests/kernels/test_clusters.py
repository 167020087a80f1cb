"""Clusters around representatives: found by comparing few texts, the same as by comparing all."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from scipy import sparse

from pacsent.certify.near_duplicates import near_duplicate_clusters
from pacsent.datasets import load_banking, load_books
from pacsent.kernels import clusters
from pacsent.kernels.edits import edit_distance

WORDS = np.array(
    ["a", "dull", "film", "with", "no", "plot", "and", "an", "end", "that", "is", "good"]
)


def numbered(texts):
    """Texts as `cluster_by_edits` takes them: words as numbers, the rarest is 0, and bounds."""
    tokens = [word for text in texts for word in text.split()]
    _, number_in_order, n_uses = np.unique(tokens, return_inverse=True, return_counts=True)
    number = np.argsort(np.argsort(n_uses, kind="stable")).astype(np.int32)
    starts = np.concatenate([[0], np.cumsum([len(text.split()) for text in texts])])
    return number[number_in_order], starts


def distances_of_near_texts(words, starts):
    """Of all pairs of texts within a quarter of the longer one: (i, j), i > j -> their distance."""
    lengths = np.diff(starts)
    n_texts = lengths.size
    text = np.repeat(np.arange(n_texts), lengths)

    # The second use of a word in a text is another word: a product counts what two texts share.
    order = np.lexsort((words, text))
    is_new = np.diff(text[order] * (words.max() + 1) + words[order], prepend=-1) != 0
    run_starts = np.flatnonzero(is_new)
    use = np.arange(words.size) - run_starts[np.cumsum(is_new) - 1]
    _, column = np.unique(words[order] * words.size + use, return_inverse=True)
    table = sparse.csr_matrix((np.ones(words.size), (text[order], column)))
    n_common = (table @ table.T).toarray()  # (n_texts, n_texts)

    # Words that only one of two texts has are edits.
    longer = np.maximum(lengths[:, None], lengths)
    can_be_near = np.tril(longer - n_common <= longer // 4, -1)
    distances = {}
    for i, j in np.argwhere(can_be_near).tolist():
        limit = int(longer[i, j]) // 4
        a, b = (words[starts[k] : starts[k + 1]] for k in (i, j))
        distance = edit_distance(a, b, limit)
        if distance <= limit and lengths[i]:
            distances[i, j] = distance
    return distances


def cluster_by_all_pairs(words, starts):
    """`cluster_by_edits` by its definition: the number of its representative for each text."""
    n_texts = starts.size - 1
    near = [[] for _ in range(n_texts)]
    for (i, j), distance in distances_of_near_texts(words, starts).items():
        near[i].append((j, distance))

    def rarest_common_word(i, j):
        own, other = (set(words[starts[k] : starts[k + 1]].tolist()) for k in (i, j))
        return min(own & other)

    representative = list(range(n_texts))
    joined_directly = [False] * n_texts
    for i in range(n_texts):
        firsts = [
            (distance, rarest_common_word(i, j), j)
            for j, distance in near[i]
            if representative[j] == j
        ]
        if firsts:
            representative[i] = min(firsts)[-1]
            joined_directly[i] = True
            continue
        copies = [
            (rarest_common_word(i, j), j)
            for j, distance in near[i]
            if joined_directly[j] and distance <= 1
        ]
        if copies:
            representative[i] = representative[min(copies)[-1]]
    return np.array(representative)


def random_texts(rng, n_texts, words=WORDS, longest=20):
    """Texts of which many are another one with words inserted, deleted or replaced."""
    texts = []
    for _ in range(n_texts):
        if texts and rng.random() < 0.7:
            own = texts[rng.integers(len(texts))].split()
            for _ in range(rng.integers(0, 4)):
                place = rng.integers(len(own) + 1)
                own[place : place + rng.integers(2)] = [rng.choice(words)]
        else:
            own = list(rng.choice(words, size=rng.integers(1, longest)))
        texts.append(" ".join(own))
    return texts


def texts_of(kind, rng):
    """3,000 texts, all different; fewer of kinds of which most are near each other."""
    n_texts = 3000
    some = np.array([f"w{number}" for number in range(300)])
    frequencies = 1.0 / np.arange(1, some.size + 1)
    frequencies /= frequencies.sum()
    messages = list(load_banking("train")[0])
    passages = [passage.text for passage in load_books()]
    made = {
        "messages": messages,
        "passages": [*passages, *(" ".join(text.split()[9:]) for text in passages)],
        "edited copies": random_texts(rng, 2 * n_texts),
        "long edited copies": random_texts(rng, n_texts, some, longest=150),
        "frequent words": [
            " ".join(rng.choice(some, size=rng.integers(1, 25), p=frequencies))
            for _ in range(n_texts)
        ],
        "letters": [
            " ".join(rng.choice(WORDS[:5], size=rng.integers(0, 9))) for _ in range(2 * n_texts)
        ],
        "almost alike": [f"the same words again and again {i}" for i in range(600)],
        "templates": [
            f"dear w{i % 40} your order {i} of {i % 7} items was sent to v{i % 90} in may"
            for i in range(900)
        ],
        "one word in common": [f"common w{i} v{i} and u{i % 900}" for i in range(n_texts)],
        "one word repeated": ["again " * (i % 60) + f"w{i % 50}" for i in range(n_texts)],
    }
    return list(dict.fromkeys(made[kind]))[:n_texts]


@pytest.mark.parametrize(
    "kind",
    [
        *("messages", "passages", "edited copies", "long edited copies", "frequent words"),
        *("letters", "almost alike", "templates", "one word in common", "one word repeated"),
    ],
)
def test_clusters_are_those_of_comparing_all_pairs(kind, rng):
    words, starts = numbered(texts_of(kind, rng))
    expected = cluster_by_all_pairs(words, starts)

    found = clusters.cluster_by_edits(words, starts)

    assert_array_equal(found, expected)


def test_clusters_are_those_of_the_plain_loop(rng, monkeypatch):
    texts = random_texts(rng, 300)
    compiled = near_duplicate_clusters(texts)

    monkeypatch.setattr(clusters, "_BATCH_WORDS", 70)  # several calls give the same
    in_batches = near_duplicate_clusters(texts)
    monkeypatch.setattr(
        "pacsent.certify.near_duplicates.cluster_by_edits", clusters.cluster_by_edits_plainly
    )
    plain = near_duplicate_clusters(texts)

    assert 1 < compiled.max() < 299  # some are near-duplicates, and some are not
    assert_array_equal(compiled, plain)
    assert_array_equal(in_batches, plain)


def test_counts_that_runs_share_change_nothing(rng, monkeypatch):
    """A table that is too small for the runs only makes more texts be compared."""
    words, starts = numbered(random_texts(rng, 500))
    expected = clusters.cluster_by_edits(words, starts)

    monkeypatch.setattr(clusters, "_MAX_COUNTS", 16)

    assert_array_equal(clusters.cluster_by_edits(words, starts), expected)


def test_texts_without_words_are_clusters_by_themselves():
    words, starts = np.array([0, 0], np.int32), np.array([0, 0, 1, 1, 2])

    assert clusters.cluster_by_edits(words, starts).tolist() == [0, 1, 2, 1]
    assert clusters.cluster_by_edits(words[:0], np.zeros(4, np.int64)).tolist() == [0, 1, 2]


def test_words_of_other_texts_are_refused():
    with pytest.raises(ValueError, match=r"must have 4 words\. They have 3"):
        clusters.cluster_by_edits(np.zeros(4, np.int32), np.array([0, 2, 3]))
