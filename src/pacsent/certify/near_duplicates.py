"""Near-duplicates: texts that repeat each other, word for word or almost.

The word has two meanings here, by what is kept of the texts:

- Of texts that are all given, `near_duplicate_clusters` compares words in their order: a quarter of
  them, at most, was changed. Clusters decide which texts count once and are held out together.
- Of texts of which only `sketches` were kept, such as those that a saved model was fitted on,
  `KnownTexts` compares sets of words and of pairs of words: the cosine of tf-idf is at least
  `MIN_COSINE`. It decides which new texts repeat one that a model has seen.

Neither contains the other: a text whose words were put into another order is near by the second
alone.
"""

import contextlib
import weakref
from collections.abc import Sequence
from unicodedata import normalize

import numpy as np
from scipy import sparse

from pacsent.kernels.clusters import cluster_by_edits
from pacsent.kernels.ngrams import HashTable
from pacsent.text.ngrams import NGrams, fingerprints, word_sequences

MIN_COSINE = 0.5  # cosine of tf-idf from which on a text is a near-duplicate of a known one
_ROUNDING = 1e-6
_PREFIX_MARGIN = 1e-4  # more than rounding: a prefix may be too long, never too short
SKETCH_SIZE = 64  # words and pairs of words of a text that are kept: those with the smallest hashes
_FEW_PAIRS = 2_000  # that are compared at once
_BATCH_TEXTS = 256  # texts that are compared with all known ones together
_INVISIBLE = dict.fromkeys(map(ord, "\u00ad\u200b\u200c\u200d\u2060\ufeff"))  # soft hyphen, ...


def near_duplicate_clusters(texts: Sequence[str]) -> np.ndarray:
    """The number of the near-duplicate cluster that each text belongs to, (n_texts,).

    A text joins the nearest earlier text that represents a cluster, if the words to insert, delete
    or replace are at most a quarter of the longer text, or a text that joined so and differs in one
    word; otherwise it represents a new cluster. There are no chains of texts that are each near the
    next. Case, spacing, punctuation, full-width letters and soft hyphens do not count. Texts of
    fewer than four words are near if their words are the same. Paraphrases, and copies of which
    more than a quarter was rewritten, are not found.

    >>> texts = ["a dull film with no plot", "A dull  film with no plot", "a dull film with no end"]
    >>> near_duplicate_clusters([*texts, "so good"])
    array([0, 0, 0, 1])
    """
    if not len(texts):
        return np.empty(0, np.int64)
    texts = _visible(texts)
    first_rows, text_of_row = _number_by_occurrence(fingerprints(texts))
    hashes, starts = word_sequences([texts[row] for row in first_rows.tolist()])
    representatives = cluster_by_edits(_number_by_rarity(hashes), starts)

    _, clusters = np.unique(representatives, return_inverse=True)  # (n_distinct,)
    return clusters[text_of_row]


def _number_by_occurrence(values):
    """(the first row of each distinct value, in their order; the number of each row's value)."""
    _, first_rows, sorted_number = np.unique(values, return_index=True, return_inverse=True)
    by_occurrence = np.argsort(first_rows)  # (n_distinct,): the first value is number 0
    number_of_sorted = np.argsort(by_occurrence)
    return first_rows[by_occurrence], number_of_sorted[sorted_number]


def _number_by_rarity(hashes):
    """The number of each word, (n_tokens,) of int32: the rarest is 0."""
    different = np.sort(hashes)  # np.unique with the inverse takes several times as long
    different = different[np.diff(different, prepend=np.uint64(0)) > 0]  # 0 is no word
    number_in_order = HashTable(different).find(hashes)  # (n_tokens,)

    n_uses = np.bincount(number_in_order)
    by_rarity = np.argsort(n_uses, kind="stable")  # (n_words,)
    number_by_rarity = np.empty(different.size, np.int32)
    number_by_rarity[by_rarity] = np.arange(different.size, dtype=np.int32)
    return number_by_rarity[number_in_order]


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
    out = np.zeros((len(texts), SKETCH_SIZE), np.uint32)
    if not len(texts):
        return out
    visible = _visible(texts)
    if counted is None or visible != list(texts):
        grams = NGrams.of(visible, (1, 2))
        counted = grams, grams.counts(visible)
    grams, X = counted

    X.sort_indices()  # columns are in the order of their hashes
    steps = np.arange(SKETCH_SIZE)
    is_there = steps < np.diff(X.indptr)[:, None]  # (n_texts, SKETCH_SIZE)
    entries = (X.indptr[:-1, None] + steps)[is_there]
    out[is_there] = grams.hashes[X.indices[entries]] >> np.uint64(32)
    return out


_LAST_KNOWN: list[tuple[weakref.ref, "KnownTexts"]] = []  # one at most


def known_texts(known: np.ndarray) -> "KnownTexts":
    """`KnownTexts(known)`, made once for an array: a monitor asks with every batch of texts."""
    for reference, made in list(_LAST_KNOWN):
        if reference() is known:
            return made
    made = KnownTexts(known)
    with contextlib.suppress(TypeError):  # something that cannot be referred to is not kept
        _LAST_KNOWN[:] = [(weakref.ref(known, _forget), made)]
    return made


def _forget(reference: weakref.ref) -> None:
    _LAST_KNOWN[:] = [entry for entry in _LAST_KNOWN if entry[0] is not reference]


class KnownTexts:
    """Recognises near-duplicates of texts of which only `sketches` are known.

    The cosine is that of the idf of the words and pairs that are kept; exact for texts that have no
    more than these.

    Not every text is compared with every known one. Words and pairs are ordered by the number of
    known texts that hold them, the rarest first. Of each text, those of the end that together are
    shorter than `near` are left out; what is left is its prefix. Two texts whose prefixes share
    nothing have a cosine below `near`: the rarest word or pair that both have lies outside the
    prefix of one of them, hence all that they share, and by Cauchy and Schwarz its length bounds
    the cosine. The others are compared exactly.

    >>> known = sketches(["a dull film with no plot", "so good", "a film without an end"])
    >>> KnownTexts(known).are_near(["a dull film without any plot", "A dull film with no end"])
    array([False,  True])
    """

    def __init__(self, known: np.ndarray, near: float = MIN_COSINE):
        self._near = near
        self._ids, n_texts = np.unique(known[known > 0], return_counts=True)
        by_rarity = np.argsort(n_texts, kind="stable")
        self._column = np.argsort(by_rarity)  # of each id: the rarest is column 0
        n_known_texts = np.append(n_texts[by_rarity], 0)  # of each column, of other ids
        self._idf = np.log((1.0 + len(known)) / (1.0 + n_known_texts)) + 1.0

        # What is known several times is compared once.
        self._known = self._table(np.unique(known, axis=0))  # (n_different, n_ids)
        self._postings = self._prefixes(self._known).T.tocsr()  # (n_ids, n_different)

    def are_near(self, texts: Sequence[str]) -> np.ndarray:
        """Which texts are near-duplicates of a known one, (n,) of bool."""
        is_near = np.zeros(len(texts), bool)
        if not self._ids.size or not len(texts):
            return is_near
        own = self._table(sketches(texts))
        prefixes = self._prefixes(own)
        for first in range(0, len(texts), _BATCH_TEXTS):
            batch = slice(first, first + _BATCH_TEXTS)
            is_near[batch] = self._are_rows_near(own[batch], prefixes[batch])
        return is_near

    def _are_rows_near(self, own: sparse.csr_matrix, prefixes: sparse.csr_matrix) -> np.ndarray:
        """`are_near` for texts as rows of tf-idf, (n,) of bool."""
        is_near = np.zeros(own.shape[0], bool)
        n_shared = prefixes @ self._postings  # (n, n_different), where prefixes share anything
        row = np.repeat(np.arange(own.shape[0]), np.diff(n_shared.indptr))
        candidate = n_shared.indices

        # Those that share most come first, so that few are compared of a text that is near.
        order = np.lexsort((-n_shared.data, row))
        row, candidate = row[order], candidate[order]
        place = np.arange(row.size) - n_shared.indptr[row]  # among the candidates of its text
        n_compared = 0
        while row.size:
            n_next = row.size if row.size <= _FEW_PAIRS else max(4, n_compared)
            is_next = place < n_compared + n_next
            cosines = own[row[is_next]].multiply(self._known[candidate[is_next]]).sum(axis=1)
            is_near[row[is_next][np.ravel(cosines) >= self._near - _ROUNDING]] = True

            n_compared += n_next
            is_left = ~is_next & ~is_near[row]
            row, candidate, place = row[is_left], candidate[is_left], place[is_left]
        return is_near

    def _prefixes(self, rows: sparse.csr_matrix) -> sparse.csr_matrix:
        """1 for each word and pair in the prefix of a row, (n_rows, n_ids)."""
        row = np.repeat(np.arange(rows.shape[0]), np.diff(rows.indptr))
        squares = rows.data**2
        before = np.concatenate([[0.0], np.cumsum(squares)])
        to_the_end = before[rows.indptr[row + 1]] - before[:-1]  # squares from here on, summed
        is_in_prefix = to_the_end >= (self._near - _PREFIX_MARGIN) ** 2

        columns = rows.indices[is_in_prefix]
        ends = np.concatenate([[0], np.cumsum(is_in_prefix)])[rows.indptr]
        return sparse.csr_matrix((np.ones(columns.size), columns, ends), rows.shape)

    def _table(self, rows: np.ndarray) -> sparse.csr_matrix:
        """Sketches as rows of tf-idf of length 1, (n_texts, n_ids); unknown ids have no column.

        The entries of a row are in the order of their columns.
        """
        n_ids = self._ids.size
        if not n_ids:
            return sparse.csr_matrix((len(rows), 0))
        nearest = np.minimum(np.searchsorted(self._ids, rows), n_ids - 1)
        is_known = self._ids[nearest] == rows
        column_of = np.where(is_known, self._column[nearest], n_ids)  # (n_texts, SKETCH_SIZE)

        row, place = np.nonzero(rows)
        columns = column_of[row, place]
        lengths = np.sqrt(np.bincount(row, self._idf[columns] ** 2, len(rows)))
        values = self._idf[columns] / lengths[row]

        has_column = columns < n_ids
        entries = values[has_column], (row[has_column], columns[has_column])
        table = sparse.csr_matrix(entries, (len(rows), n_ids))
        table.sort_indices()
        return table
