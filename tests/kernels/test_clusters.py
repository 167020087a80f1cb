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


def number_words(texts):
    """Texts as `cluster_by_edits` takes them: words as numbers, the rarest is 0, and bounds."""
    words_of_texts = [text.split() for text in texts]
    words = [word for words in words_of_texts for word in words]
    _, places, n_uses = np.unique(words, return_inverse=True, return_counts=True)
    rarest_first = np.argsort(n_uses, kind="stable")
    numbers = np.argsort(rarest_first).astype(np.int32)
    starts = np.cumsum([0, *map(len, words_of_texts)])
    return numbers[places], starts


def count_common_words(words, starts):
    """How many words each two texts share, shape (n_texts, n_texts)."""
    lengths = np.diff(starts)
    text = np.repeat(np.arange(lengths.size), lengths)

    # The second use of a word in a text is another word: a product counts what two texts share.
    order = np.lexsort((words, text))
    words_in_order = words[order]
    is_new = np.diff(text[order] * (words.max() + 1) + words_in_order, prepend=-1) != 0
    run_starts = np.flatnonzero(is_new)
    use = np.arange(words.size) - run_starts[np.cumsum(is_new) - 1]
    _, columns = np.unique(words_in_order * words.size + use, return_inverse=True)
    table = sparse.csr_matrix((np.ones(words.size), (text[order], columns)))
    return (table @ table.T).toarray()


def distances_of_near_texts(words, starts):
    """Of all pairs of texts within a quarter of the longer one: (i, j), i > j -> their distance."""
    lengths = np.diff(starts)
    longer = np.maximum(lengths[:, None], lengths)
    limits = longer // 4

    # Words that only one of two texts has are edits.
    n_edits = longer - count_common_words(words, starts)
    can_be_near = np.tril(n_edits <= limits, -1)
    distances = {}
    for i, j in np.argwhere(can_be_near).tolist():
        limit = int(limits[i, j])
        first = words[starts[i] : starts[i + 1]]
        second = words[starts[j] : starts[j + 1]]
        distance = edit_distance(first, second, limit)
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
        first = set(words[starts[i] : starts[i + 1]].tolist())
        second = set(words[starts[j] : starts[j + 1]].tolist())
        return min(first & second)

    representative = list(range(n_texts))
    joined_directly = [False] * n_texts
    for i in range(n_texts):
        near_representatives = []
        near_copies = []
        for j, distance in near[i]:
            if representative[j] == j:
                near_representatives.append((distance, rarest_common_word(i, j), j))
            elif joined_directly[j] and distance <= 1:
                near_copies.append((rarest_common_word(i, j), j))

        if near_representatives:
            representative[i] = min(near_representatives)[-1]
            joined_directly[i] = True
        elif near_copies:
            representative[i] = representative[min(near_copies)[-1]]
    return np.array(representative)


def edit_text(rng, text, vocabulary):
    """The text with up to three words inserted, deleted or replaced."""
    words = text.split()
    for _ in range(rng.integers(0, 4)):
        place = rng.integers(len(words) + 1)
        words[place : place + rng.integers(2)] = [rng.choice(vocabulary)]
    return " ".join(words)


def random_texts(rng, n_texts, vocabulary=WORDS, longest=20):
    """Texts of which many are edits of another one."""
    texts = []
    for _ in range(n_texts):
        if texts and rng.random() < 0.7:
            other = texts[rng.integers(len(texts))]
            texts.append(edit_text(rng, other, vocabulary))
        else:
            length = rng.integers(1, longest)
            texts.append(" ".join(rng.choice(vocabulary, size=length)))
    return texts


N_TEXTS = 2000  # all different; fewer of kinds of which most are near each other
MANY_WORDS = np.array([f"w{number}" for number in range(300)])


def messages(rng):
    texts, _ = load_banking("train")
    return texts


def passages(rng):
    texts = [passage.text for passage in load_books()]
    beginnings_omitted = [" ".join(text.split()[9:]) for text in texts]
    return [*texts[: N_TEXTS // 2], *beginnings_omitted[: N_TEXTS // 2]]


def edited_copies(rng):
    return random_texts(rng, 2 * N_TEXTS)


def long_edited_copies(rng):
    return random_texts(rng, N_TEXTS, MANY_WORDS, longest=150)


def frequent_words(rng):
    """Texts whose words have frequencies as in Zipf's law."""
    frequencies = 1.0 / np.arange(1, MANY_WORDS.size + 1)
    frequencies /= frequencies.sum()
    lengths = rng.integers(1, 25, size=N_TEXTS)
    return [" ".join(rng.choice(MANY_WORDS, size=n, p=frequencies)) for n in lengths]


def few_words(rng):
    lengths = rng.integers(0, 9, size=2 * N_TEXTS)
    return [" ".join(rng.choice(WORDS[:5], size=length)) for length in lengths]


def almost_alike(rng):
    return [f"the same words again and again {i}" for i in range(300)]


def templates(rng):
    template = "dear w{} your order {} of {} items was sent to v{} in may"
    return [template.format(i % 40, i, i % 7, i % 90) for i in range(900)]


def one_word_in_common(rng):
    return [f"common w{i} v{i} and u{i % 900}" for i in range(N_TEXTS)]


def one_word_repeated(rng):
    return ["again " * (i % 60) + f"w{i % 50}" for i in range(N_TEXTS)]


@pytest.mark.parametrize(
    "make_texts",
    [
        messages,
        passages,
        edited_copies,
        long_edited_copies,
        frequent_words,
        few_words,
        almost_alike,
        templates,
        one_word_in_common,
        one_word_repeated,
    ],
)
def test_clusters_are_those_of_comparing_all_pairs(make_texts, rng):
    texts = list(dict.fromkeys(make_texts(rng)))[:N_TEXTS]
    words, starts = number_words(texts)

    found = clusters.cluster_by_edits(words, starts)

    assert_array_equal(found, cluster_by_all_pairs(words, starts))


def test_clusters_are_those_of_the_plain_loop(rng, monkeypatch):
    texts = random_texts(rng, 150)
    compiled = near_duplicate_clusters(texts)

    monkeypatch.setattr(
        "pacsent.certify.near_duplicates.cluster_by_edits", clusters.cluster_by_edits_plainly
    )

    assert 1 < compiled.max() < 149  # some are near-duplicates, and some are not
    assert_array_equal(compiled, near_duplicate_clusters(texts))


def test_several_calls_give_the_clusters_of_one(rng, monkeypatch):
    texts = random_texts(rng, 300)
    of_one_call = near_duplicate_clusters(texts)

    monkeypatch.setattr(clusters, "_BATCH_WORDS", 70)

    assert_array_equal(near_duplicate_clusters(texts), of_one_call)


def test_counts_that_runs_share_change_nothing(rng, monkeypatch):
    """A table that is too small for the runs only makes more texts be compared."""
    words, starts = number_words(random_texts(rng, 500))
    expected = clusters.cluster_by_edits(words, starts)

    monkeypatch.setattr(clusters, "_MAX_COUNTS", 16)

    assert_array_equal(clusters.cluster_by_edits(words, starts), expected)


def test_texts_without_words_are_clusters_by_themselves():
    words = np.array([0, 0], np.int32)
    starts = np.array([0, 0, 1, 1, 2])

    assert clusters.cluster_by_edits(words, starts).tolist() == [0, 1, 2, 1]


def test_texts_without_any_words_are_clusters_by_themselves():
    no_words = np.empty(0, np.int32)
    assert clusters.cluster_by_edits(no_words, np.zeros(4, np.int64)).tolist() == [0, 1, 2]


def test_words_of_other_texts_are_refused():
    with pytest.raises(ValueError, match=r"must have 4 words\. They have 3"):
        clusters.cluster_by_edits(np.zeros(4, np.int32), np.array([0, 2, 3]))
