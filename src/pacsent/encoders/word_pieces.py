"""Which pieces of words a student learns, besides whole words.

A word outside the vocabulary is read as the longest known word that it begins with and pieces that
go on (`Vocabulary(..., unknown="pieces")`). The pieces are chosen here, from the rare words of the
texts: those that a longest-match reading of these words uses most.
"""

import math
from collections import defaultdict
from collections.abc import Collection, Iterable

MARK = "##"  # in front of a piece that continues a word
_LONGEST = 8  # letters of a piece
_MOST_WORDS = 200_000  # rare words that are looked at, the most frequent ones


def split(word: str, starts: Collection[str], pieces: Collection[str]) -> list[str]:
    """The longest of `starts` that the word begins with, then the longest of `pieces`, and so on.

    What `Vocabulary` does; empty where no piece fits.

    >>> split("tourists", {"tour", "t"}, {"is", "ist", "s", "t"})
    ['tour', '##ist', '##s']
    """
    found, at = [], 0
    while at < len(word):
        end = len(word) if not at else min(len(word), at + _LONGEST)
        allowed = pieces if at else starts
        while end > at and word[at:end] not in allowed:
            end -= 1
        if end == at:
            return []
        found.append((MARK if at else "") + word[at:end])
        at = end
    return found


def learn_pieces(rare: Iterable[tuple[str, int]], known: Iterable[str], n_pieces: int) -> list[str]:
    """Pieces for words outside the vocabulary, most used first, with their mark.

    `rare` are words outside the vocabulary with their counts, most frequent first. Besides
    `n_pieces`, every letter that continues a rare word is kept.

    >>> learn_pieces([("tourism", 2), ("tourists", 2), ("artists", 1)], {"tour", "art"}, 20)[:2]
    ['##ists', '##ism']
    """
    known = set(known)
    weighted = [(word, 1.0 + math.log(count)) for word, count in list(rare)[:_MOST_WORDS]]
    # letters begin a word that no known word begins
    starts = known | {word[0] for word, _ in weighted}
    seen: defaultdict[str, float] = defaultdict(float)
    for word, weight in weighted:
        for at in range(1, len(word)):
            for end in range(at + 1, min(len(word), at + _LONGEST) + 1):
                seen[word[at:end]] += weight
    letters = [piece for piece in seen if len(piece) == 1]
    longer = sorted((p for p in seen if len(p) > 1), key=lambda p: (-seen[p] * (len(p) - 1), p))
    pieces = set(longer[: 6 * n_pieces]) | set(letters)
    for keep in (3 * n_pieces, n_pieces):
        used: defaultdict[str, float] = defaultdict(float)
        for word, weight in weighted:
            for piece in split(word, starts, pieces)[1:]:
                used[piece[len(MARK) :]] += weight
        longer = sorted((p for p in used if len(p) > 1), key=lambda p: (-used[p] * len(p), p))
        pieces = set(longer[:keep]) | set(letters)
    letters.sort(key=lambda p: (-seen[p], p))
    return [MARK + piece for piece in longer[:n_pieces] + letters]
