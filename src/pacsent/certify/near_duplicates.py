"""Near-duplicates: texts that repeat each other, word for word or almost."""

from collections.abc import Sequence
from unicodedata import normalize

import numpy as np
from scipy import sparse

from pacsent.kernels.edit_kernels import cluster_by_edits
from pacsent.text.ngrams import NGrams, fingerprints, word_sequences

NEAR = 0.5  # cosine of tf-idf from which on a text is a near-duplicate of a known one
_ROUNDING = 1e-6
SKETCH = 64  # words and pairs of words of a text that are kept: those with the smallest hashes
_AT_ONCE = 256  # texts that are compared with all known ones together
_INVISIBLE = dict.fromkeys(map(ord, "\u00ad\u200b\u200c\u200d\u2060\ufeff"))  # soft hyphen, ...


def text_units(texts: Sequence[str]) -> np.ndarray:
    """The number of the near-duplicate cluster that each text belongs to, (n_texts,).

    A text joins the nearest earlier text that represents a cluster, if the words to insert, delete
    or replace are at most a quarter of the longer text, or a text that joined so and differs in one
    word; otherwise it represents a new cluster. There are no chains of texts that are each near the
    next. Case, spacing, punctuation, full-width letters and soft hyphens do not count. Texts of
    fewer than four words are near if their words are the same. Paraphrases, and copies of which
    more than a quarter was rewritten, are not found.

    >>> texts = ["a dull film with no plot", "A dull  film with no plot", "a dull film with no end"]
    >>> text_units([*texts, "so good"])
    array([0, 0, 0, 1])
    """
    texts = _visible(texts)
    _, first, of_text = np.unique(fingerprints(texts), return_index=True, return_inverse=True)
    order = np.argsort(first)  # as they come: the first of a cluster represents it
    hashes, starts = word_sequences([texts[i] for i in first[order]])
    text = np.repeat(np.arange(order.size), np.diff(starts))
    _, word, n_uses = np.unique(hashes, return_inverse=True, return_counts=True)
    # Words are numbered by rarity. The second use in a text is another word, to count common ones.
    word = np.argsort(np.argsort(n_uses, kind="stable"))[word]
    cell = text * n_uses.size + word
    by_rarity = np.argsort(cell, kind="stable")
    run = np.flatnonzero(np.diff(cell[by_rarity], prepend=-1))
    use = np.arange(word.size) - np.repeat(run, np.diff(np.append(run, word.size)))
    # The rarest words of each text, as many as two near texts must share some of.
    n_words = np.diff(starts)
    n_rare = np.minimum(n_words, n_words // 4 + 1 + n_words // 6)
    is_rare = np.arange(word.size) - np.repeat(starts[:-1], n_words) < np.repeat(n_rare, n_words)
    rows, use = by_rarity[is_rare], use[is_rare]
    _, rare, n_texts = np.unique(
        word[rows] * (use.max(initial=0) + 1) + use, return_inverse=True, return_counts=True
    )
    rare_starts = np.concatenate([[0], np.cumsum(n_rare)])
    lists = np.tile(np.cumsum(n_texts) - n_texts, (2, 1))
    room = np.zeros((3, max(order.size, n_words.max(initial=0) + 1)), np.int32)
    clusters = cluster_by_edits(word, starts, rare, rare_starts, lists, room)
    _, number = np.unique(clusters, return_inverse=True)
    return number[np.argsort(order)][of_text] if len(texts) else np.empty(0, np.int64)


def _visible(texts):
    """Texts as they look: without invisible characters, full-width letters as others (NFKC)."""
    return [t if t.isascii() else normalize("NFKC", t.translate(_INVISIBLE)) for t in texts]


def sketches(
    texts: Sequence[str], counted: tuple[NGrams, sparse.csr_matrix] | None = None
) -> np.ndarray:
    """The smallest 64 hashes of each text's words and pairs of words, 0 where it has fewer.

    By these, `KnownTexts` recognises near-duplicates of texts that are not kept themselves.
    `counted` saves counting all words and pairs once more; the indices of its rows get sorted.
    """
    out = np.zeros((len(texts), SKETCH), np.uint32)
    if not len(texts):
        return out
    visible = _visible(texts)
    if counted is None or visible != list(texts):
        grams = NGrams.of(visible, (1, 2))
        counted = grams, grams.counts(visible)
    grams, X = counted
    X.sort_indices()  # columns are in the order of their hashes
    steps = np.arange(SKETCH)
    there = steps < np.diff(X.indptr)[:, None]
    out[there] = grams.hashes[X.indices[(X.indptr[:-1, None] + steps)[there]]] >> np.uint64(32)
    return out


class KnownTexts:
    """Recognises near-duplicates of texts of which only `sketches` are known.

    The cosine is that of the idf of the words and pairs that are kept; exact for texts that have no
    more than these.

    >>> known = sketches(["a dull film with no plot", "so good", "a film without an end"])
    >>> KnownTexts(known).are_near(["a dull film without any plot", "A dull film with no end"])
    array([False,  True])
    """

    def __init__(self, known: np.ndarray):
        self._ids, n_texts = np.unique(known[known > 0], return_counts=True)
        # of those, of others
        self._idf = np.log((1.0 + len(known)) / (1.0 + np.append(n_texts, 0))) + 1.0
        self._known = self._table(known).T.tocsr() if self._ids.size else None

    def are_near(self, texts: Sequence[str], near: float = NEAR) -> np.ndarray:
        """Which texts are near-duplicates of a known one, (n,) of bool."""
        is_near = np.zeros(len(texts), bool)
        if self._known is None or not len(texts):
            return is_near
        own = self._table(sketches(texts))
        for first in range(0, len(texts), _AT_ONCE):
            cosines = own[first : first + _AT_ONCE] @ self._known
            largest = cosines.max(axis=1).toarray().ravel()
            is_near[first : first + largest.size] = largest >= near - _ROUNDING
        return is_near

    def _table(self, rows):
        at = np.minimum(np.searchsorted(self._ids, rows), self._ids.size - 1)
        at = np.where(self._ids[at] == rows, at, self._ids.size)
        row, place = np.nonzero(rows)
        columns = at[row, place]
        lengths = np.sqrt(np.bincount(row, self._idf[columns] ** 2, len(rows)))
        values = self._idf[columns] / lengths[row]
        inside = columns < self._ids.size
        shape = len(rows), self._ids.size
        return sparse.csr_matrix((values[inside], (row[inside], columns[inside])), shape)
