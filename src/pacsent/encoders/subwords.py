"""Subwords of a distilled vocabulary.

A word outside the vocabulary is read as the longest known word that it begins with, followed by
subwords (`Vocabulary(..., unknown="pieces")`). The subwords are learned here from rare words of the
texts: those that a longest-match segmentation of these words uses most.
"""

import math
from collections import defaultdict
from collections.abc import Collection, Iterable

MARK = "##"  # in front of a subword that continues a word
_MAX_LETTERS = 8
_MAX_RARE_WORDS = 200_000  # the most frequent ones; more take long and change little


def segment(word: str, starts: Collection[str], subwords: Collection[str]) -> list[str]:
    """Longest-match segmentation, as `Vocabulary` does it; empty if there is none.

    >>> segment("tourists", {"tour", "t"}, {"is", "ist", "s", "t"})
    ['tour', '##ist', '##s']
    """
    segments: list[str] = []
    begin = 0
    while begin < len(word):
        end = len(word) if not begin else min(len(word), begin + _MAX_LETTERS)
        allowed = subwords if begin else starts
        while end > begin and word[begin:end] not in allowed:
            end -= 1
        if end == begin:
            return []
        segments.append((MARK if begin else "") + word[begin:end])
        begin = end
    return segments


def learn_subwords(
    rare: Iterable[tuple[str, int]], known: Iterable[str], n_subwords: int
) -> list[str]:
    """Subwords for words outside the vocabulary, most used first, with their mark.

    `rare` are words outside the vocabulary with their counts, most frequent first. Besides
    `n_subwords`, every letter that continues a rare word is kept.

    >>> learn_subwords([("tourism", 2), ("tourists", 2), ("artists", 1)], {"tour", "art"}, 20)[:2]
    ['##ists', '##ism']
    """
    weighted = [(word, 1.0 + math.log(count)) for word, count in list(rare)[:_MAX_RARE_WORDS]]
    # A single letter begins a word that no known word begins.
    starts = set(known) | {word[0] for word, _ in weighted}
    weights: defaultdict[str, float] = defaultdict(float)
    for word, weight in weighted:
        for begin in range(1, len(word)):
            for end in range(begin + 1, min(len(word), begin + _MAX_LETTERS) + 1):
                weights[word[begin:end]] += weight
    letters = [s for s in weights if len(s) == 1]
    longer = sorted(
        (s for s in weights if len(s) > 1), key=lambda s: (-weights[s] * (len(s) - 1), s)
    )
    subwords = set(longer[: 6 * n_subwords]) | set(letters)
    # Candidates overlap, so that their frequency overstates their use. Two rounds keep those that
    # the segmentation uses.
    for n_kept in (3 * n_subwords, n_subwords):
        used: defaultdict[str, float] = defaultdict(float)
        for word, weight in weighted:
            for marked in segment(word, starts, subwords)[1:]:
                used[marked[len(MARK) :]] += weight
        longer = sorted((s for s in used if len(s) > 1), key=lambda s: (-used[s] * len(s), s))
        subwords = set(longer[:n_kept]) | set(letters)
    letters.sort(key=lambda s: (-weights[s], s))
    return [MARK + s for s in longer[:n_subwords] + letters]
