"""Kernels on sequences of words: edit distances, and clusters around representatives."""

from itertools import chain

import numpy as np

from pacsent.kernels.library import INT32, INT64, SIZE, entry_point, needs_twins

_edit_distance = entry_point(
    "edit_distance",
    *(INT64, SIZE),  # the words of a, their number
    *(INT64, SIZE),  # the words of b, their number
    SIZE,  # limit
    INT32,  # room for n_b + 1 numbers
    returns=SIZE,
)
_cluster_by_edits = entry_point(
    "cluster_by_edits",
    *(INT64, INT64),  # words, starts
    *(SIZE, SIZE),  # texts begin to end
    *(INT64, INT64),  # rare words, rare starts
    *(INT64, INT64),  # where the list of each rare word begins, and ends
    *(INT32, INT32, INT32, INT32),  # room: row, n_common, candidates, listed
    INT64,  # representative
)

_BATCH_TEXTS = 4096  # texts in a call: Ctrl-C works between calls


def edit_distance(a: np.ndarray, b: np.ndarray, limit: int) -> int:
    """Insertions, deletions and replacements of words between a and b; limit + 1 if more."""
    return _edit_distance(a, a.size, b, b.size, limit, np.empty(b.size + 1, np.int32))


def edit_distance_plainly(a: np.ndarray, b: np.ndarray, limit: int) -> int:
    """As `edit_distance`: the textbook's recursion over prefixes, row by row."""
    costs = np.arange(b.size + 1)
    for i, word in enumerate(a, start=1):
        replaced = costs[:-1] + (b != word)
        deleted = costs[1:] + 1
        costs = np.concatenate([[i], np.minimum(replaced, deleted)])

        # An insertion costs one more than the cell to the left: a running minimum.
        steps = np.arange(b.size + 1)
        costs = np.minimum.accumulate(costs - steps) + steps
    return int(min(costs[-1], limit + 1))


def cluster_by_edits(
    words: np.ndarray,
    starts: np.ndarray,
    rare: np.ndarray,
    rare_starts: np.ndarray,
    begins: np.ndarray,
) -> np.ndarray:
    """The representative of each text, the first of its cluster, (n_texts,).

    A text joins the nearest earlier representative within a quarter of the longer text, or else
    that of an earlier text from which it differs in one word, if that text joined in the first way.

    Parameters
    ----------
    words, starts : int64 arrays
        words[starts[i]:starts[i + 1]] are those of text i.
    rare, rare_starts : int64 arrays
        rare[rare_starts[i]:rare_starts[i + 1]] are numbers of the rarest words of text i: of n
        words these are n // 4 + 1 + n // 6, so that two texts within the distance have at least
        1 + n // 6 of them in common, n being that of the shorter text.
    begins : int64 array
        begins[word]: how many times rare words of smaller numbers are in `rare`.
    """
    if needs_twins():
        return cluster_by_edits_plainly(words, starts, rare, rare_starts, begins)

    n_texts = starts.size - 1
    if rare_starts.size != starts.size or rare_starts[-1] != rare.size:
        raise ValueError("The rare words do not belong to these texts.")

    longest = np.diff(starts).max(initial=0)
    row = np.zeros(longest + 1, np.int32)
    n_common = np.zeros(n_texts, np.int32)
    candidates = np.zeros(n_texts, np.int32)
    listed = np.zeros(rare.size, np.int32)
    ends = begins.copy()  # of the list of each rare word
    representative = np.empty(n_texts, np.int64)
    for begin in range(0, n_texts, _BATCH_TEXTS):
        _cluster_by_edits(
            *(words, starts, begin, min(begin + _BATCH_TEXTS, n_texts)),
            *(rare, rare_starts, begins, ends),
            *(row, n_common, candidates, listed, representative),
        )
    return representative


def cluster_by_edits_plainly(words, starts, rare, rare_starts, begins):
    """As `cluster_by_edits`, with lists and dictionaries."""
    n_texts = starts.size - 1
    representative = np.arange(n_texts)
    texts_with: dict[int, list[int]] = {}  # a rare word -> the earlier texts that list it
    for i in range(n_texts):
        a = words[starts[i] : starts[i + 1]]
        own = rare[rare_starts[i] : rare_starts[i + 1]]
        others = chain.from_iterable(texts_with.get(word, ()) for word in own)
        n_common: dict[int, int] = {}
        for other in others:
            n_common[other] = n_common.get(other, 0) + 1

        best, joins_directly = a.size, True
        for other, n in n_common.items():
            b = words[starts[other] : starts[other + 1]]
            if n <= min(a.size, b.size) // 6:
                continue
            is_first = representative[other] == other
            limit = max(a.size, b.size) // 4
            if not is_first:
                limit = min(limit, 1) if representative[i] == i else -1
            elif joins_directly:
                limit = min(limit, best - 1)
            distance = edit_distance_plainly(a, b, limit)
            if distance <= limit:
                best, joins_directly = distance, is_first
                representative[i] = representative[other]

        if joins_directly:
            for word in own:
                texts_with.setdefault(word, []).append(i)
    return representative
