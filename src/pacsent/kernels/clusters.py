"""Kernels that find clusters: texts that are few edits from the representative of a cluster.

A text is compared with few of the earlier ones. Let the limit of two texts be a quarter of the
longer one, in words. A representative of n words is divided into n // 3 + 1 segments: one more than
the limit can be for a text that is not too long to be near. An edit changes one segment at most, so
that a near text has the others, each moved by as many words as edits before it have added or
removed. Representatives are listed by their segments; the runs of words of a new text are looked
up, and representatives compared that have enough segments in common with it.

Any division into segments is right. The one whose segments occur least often is chosen, so that
phrases that many texts share stand beside a rarer word. A run of words that occurs once is in no
other text and is not listed. How often runs occur is counted by their hashes, in a table of limited
size: some counts are too large, none is too small.
"""

from collections import Counter
from collections.abc import Iterator
from itertools import chain

import numpy as np

from pacsent.kernels.edits import edit_distance_plainly
from pacsent.kernels.library import (
    INT32,
    INT64,
    SIZE,
    UINT16,
    Array,
    entry_point,
    needs_twins,
)

# As in clusters.c: a part of a text, the list of a slot, and what is in it.
SEGMENT = np.dtype([("key", np.uint32), ("position", np.int32)])
SLOT = np.dtype([("begin", np.uint32), ("n_listed", np.int32)])
LISTED = np.dtype([("text", np.int32), ("position", np.int32), ("n_words", np.int32)])
HALF = np.dtype([("key", np.uint32), ("earlier", np.int32)])
CANDIDATE = np.dtype([("text", np.int32), ("n_words", np.int32)])
_TEXTS = (INT32, INT64, SIZE, SIZE)  # words, starts, texts begin to end
_COUNTS = (UINT16, SIZE)  # of runs, their number

_count_runs = entry_point("count_runs", *_TEXTS, *_COUNTS)
_choose_segments = entry_point(
    "choose_segments",
    *_TEXTS,
    INT32,  # uses of each word
    *_COUNTS,
    SIZE,  # segments so far
    *(Array(SEGMENT), INT64),  # segments, and where those of each text begin
    returns=SIZE,
)
_cluster_texts = entry_point(
    "cluster_texts",
    *_TEXTS,
    INT32,  # uses of each word
    *_COUNTS,
    *(Array(SEGMENT), INT64),  # segments, and where those of each text begin
    *(Array(SLOT), SIZE, Array(LISTED)),  # slots, their number, what they list
    *(INT32, SIZE, Array(HALF)),  # slots of members, their number, halves of members
    *(INT32, INT32, Array(CANDIDATE)),  # room: row, n_common, candidates
    INT64,  # representative
)

_BATCH_WORDS = 1 << 17  # words in a call, about: Ctrl-C works between calls
_RUNS_PER_WORD = 3  # of 2, 3 and 4 words
_MAX_COUNTS = 1 << 26  # 128 MB: with more runs, more of them share a count
_MIN_SLOTS = 1 << 10
_MAX_CLASSES = 5  # of lengths, from three quarters of a length to four thirds


def cluster_by_edits(words: np.ndarray, starts: np.ndarray) -> np.ndarray:
    """The representative of each text, the first of its cluster, (n_texts,).

    A text joins the nearest earlier representative within a quarter of the longer text, or else
    that of an earlier text from which it differs in one word, if that text joined in the first way.
    Of several, the one with the rarest word in common comes first, then the earliest. Texts without
    words are representatives.

    Parameters
    ----------
    words : int32 array
        The words of all texts, numbered from 0: the rarer, the smaller.
    starts : int64 array
        words[starts[i]:starts[i + 1]] are those of text i.
    """
    if starts[-1] != words.size:
        raise ValueError(f"The texts must have {words.size:,} words. They have {starts[-1]:,}.")
    if needs_twins():
        return cluster_by_edits_plainly(words, starts)

    n_texts = starts.size - 1
    lengths = np.diff(starts)  # (n_texts,)
    uses = np.bincount(words, minlength=1).astype(np.int32)  # (n_words,)

    # uint16, which stops at its largest value: (n_counts,)
    n_counts = min(_power_of_two(2 * _RUNS_PER_WORD * words.size), _MAX_COUNTS)
    run_counts = np.zeros(n_counts, np.uint16)
    for begin, end in _batches(starts):
        _count_runs(words, starts, begin, end, run_counts, n_counts)

    segments = np.empty(_MAX_CLASSES * n_segments(lengths).sum(), SEGMENT)
    segment_starts = np.zeros(n_texts + 1, np.int64)
    n = 0
    for begin, end in _batches(starts):
        n = _choose_segments(
            *(words, starts, begin, end),
            *(uses, run_counts, n_counts),
            *(n, segments, segment_starts),
        )
    segments = segments[:n]

    # What each slot lists is a part of one array, with room for all texts.
    n_slots = _power_of_two(2 * n)
    slot_of = segments["key"] & np.uint32(n_slots - 1)  # (n,)
    n_per_slot = np.bincount(slot_of, minlength=n_slots)
    slots = np.zeros(n_slots, SLOT)
    slots["begin"] = np.cumsum(n_per_slot) - n_per_slot
    listed = np.empty(n, LISTED)

    n_member_slots = _power_of_two(n_texts)
    members = np.full(n_member_slots, -1, np.int32)
    halves = np.empty(2 * n_texts, HALF)

    longest = int(lengths.max(initial=0))
    row = np.zeros(longest + 1, np.int32)
    n_common = np.zeros(n_texts, np.int32)
    candidates = np.empty(n_texts, CANDIDATE)
    representative = np.empty(n_texts, np.int64)
    for begin, end in _batches(starts):
        _cluster_texts(
            *(words, starts, begin, end),
            *(uses, run_counts, n_counts),
            *(segments, segment_starts),
            *(slots, n_slots, listed),
            *(members, n_member_slots, halves),
            *(row, n_common, candidates),
            representative,
        )
    return representative


def n_segments(n_words: np.ndarray) -> np.ndarray:
    """The number of segments of a text: one more than a near text can change."""
    return np.where(n_words > 0, n_words // 3 + 1, 0)


def _power_of_two(n: int) -> int:
    """The smallest power of two that is at least n, but none that is tiny."""
    return 1 << (max(n, _MIN_SLOTS) - 1).bit_length()


def _batches(starts: np.ndarray) -> Iterator[tuple[int, int]]:
    """The texts (begin, end) of each call."""
    n_texts = starts.size - 1
    begin = 0
    while begin < n_texts:
        end = int(np.searchsorted(starts, starts[begin] + _BATCH_WORDS))
        end = min(max(end, begin + 1), n_texts)
        yield begin, end
        begin = end


def cluster_by_edits_plainly(words: np.ndarray, starts: np.ndarray) -> np.ndarray:
    """As `cluster_by_edits`: a text is compared with all that have enough rare words in common.

    Of n words the rarest n // 4 + 1 + n // 6 are looked at: of these two near texts have at least
    1 + n // 6 in common, n being that of the shorter one.
    """
    n_texts = starts.size - 1
    representative = np.arange(n_texts)
    texts_with: dict[tuple[int, int], list[int]] = {}  # a rare word -> earlier texts that have it
    for i in range(n_texts):
        a = words[starts[i] : starts[i + 1]]
        n_rarest = a.size // 4 + 1 + a.size // 6
        rarest = _number_uses(a)[:n_rarest]
        others = chain.from_iterable(texts_with.get(use, ()) for use in rarest)

        best = a.size  # the distance to the nearest one so far
        joins_directly = True
        for other, n_common in Counter(others).items():  # those with the rarest word come first
            b = words[starts[other] : starts[other + 1]]
            if n_common <= min(a.size, b.size) // 6:
                continue

            # A representative must be nearer than the best; another text may differ in one word,
            # and counts only while there is no representative.
            is_first = representative[other] == other
            limit = max(a.size, b.size) // 4
            if not is_first:
                limit = min(limit, 1) if representative[i] == i else -1
            elif joins_directly:
                limit = min(limit, best - 1)

            distance = edit_distance_plainly(a, b, limit)
            if distance <= limit:
                best = distance
                joins_directly = is_first
                representative[i] = representative[other]

        if joins_directly:
            for use in rarest:
                texts_with.setdefault(use, []).append(i)
    return representative


def _number_uses(words: np.ndarray) -> list[tuple[int, int]]:
    """(word, 0 for its first use in this text, 1 for the second, ...), the rarest words first."""
    n_uses: Counter[int] = Counter()
    uses = []
    for word in np.sort(words).tolist():
        uses.append((word, n_uses[word]))
        n_uses[word] += 1
    return uses
