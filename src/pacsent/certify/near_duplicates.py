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
from collections.abc import Mapping, Sequence
from typing import NamedTuple
from unicodedata import normalize

import numpy as np
from scipy import sparse

from pacsent.kernels.clusters import cluster_by_edits
from pacsent.kernels.known_texts import (
    ABSENT,
    UNKNOWN,
    Prefixes,
    PrefixPostings,
    Sketches,
    are_near,
    find_prefixes,
    list_rows,
)
from pacsent.kernels.ngrams import HashTable
from pacsent.storage import checked_tensor
from pacsent.text.ngrams import NGrams, fingerprints, word_sequences

MIN_COSINE = 0.5  # cosine of tf-idf from which on a text is a near-duplicate of a known one
_ROUNDING = 1e-6
# The cosine for which prefixes are long enough: by more than rounding below `MIN_COSINE`, because a
# prefix may be too long, never too short.
_LEAST_BOUND = MIN_COSINE - 1e-4
SKETCH_SIZE = 64  # words and pairs of words of a text that are kept: those with the smallest hashes
_BLOCK_ROWS = 1 << 14  # known texts that are indexed together
# Remainders are saved in these parts of the length of a text. They are at most 8: as long as the
# text, but where one id stands for many.
_REMAINDER_STEPS = 1 << 12
_MIN_INDEXED_TEXTS = 10_000  # fewer are indexed in less than a tenth of a second
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

    visible = _visible(texts)
    first_rows, text_of_row = _number_by_occurrence(fingerprints(visible))
    distinct_texts = [visible[row] for row in first_rows.tolist()]
    hashes, starts = word_sequences(distinct_texts)
    words = _number_by_rarity(hashes)  # (n_tokens,)
    representatives = cluster_by_edits(words, starts)

    _, clusters = np.unique(representatives, return_inverse=True)  # (n_distinct,)
    return clusters[text_of_row]


def _number_by_occurrence(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(the first row of each distinct value, in their order; the number of each row's value)."""
    _, first_rows, sorted_number = np.unique(values, return_index=True, return_inverse=True)
    by_occurrence = np.argsort(first_rows)  # (n_distinct,): the first value is number 0
    number_of_sorted = np.argsort(by_occurrence)
    return first_rows[by_occurrence], number_of_sorted[sorted_number]


def _number_by_rarity(hashes: np.ndarray) -> np.ndarray:
    """The number of each word, (n_tokens,) of int32: the rarest is 0."""
    # np.unique with the inverse takes several times as long.
    in_order = np.sort(hashes)
    is_first = np.diff(in_order, prepend=np.uint64(0)) > 0  # 0 is no word
    different = in_order[is_first]
    number_in_order = HashTable(different).find(hashes)  # (n_tokens,)

    n_uses = np.bincount(number_in_order)
    by_rarity = np.argsort(n_uses, kind="stable")  # (n_words,)
    number_by_rarity = np.empty(different.size, np.int32)
    number_by_rarity[by_rarity] = np.arange(different.size, dtype=np.int32)
    return number_by_rarity[number_in_order]


def _visible(texts: Sequence[str]) -> list[str]:
    """Texts as they look: without invisible characters, full-width letters as others (NFKC)."""
    return [text if text.isascii() else _normalize(text) for text in texts]


def _normalize(text: str) -> str:
    return normalize("NFKC", text.translate(_INVISIBLE))


def sketches(
    texts: Sequence[str], counted: tuple[NGrams, sparse.csr_matrix] | None = None
) -> np.ndarray:
    """The smallest 64 hashes of each text's words and pairs of words, 0 where it has fewer.

    By these, `KnownTexts` recognises near-duplicates of texts that are not kept themselves.

    Parameters
    ----------
    texts : list of str
    counted : (NGrams, sparse matrix), optional
        The words and pairs of words of the texts, and their counts: it saves counting them once
        more. The indices of the matrix get sorted.

    Returns
    -------
    array of uint32, (n_texts, 64)
    """
    hashes = np.zeros((len(texts), SKETCH_SIZE), np.uint32)
    if not len(texts):
        return hashes

    visible = _visible(texts)
    if counted is None or visible != list(texts):
        grams = NGrams.of(visible, (1, 2))
        counted = grams, grams.counts(visible)
    grams, X = counted

    X.sort_indices()  # columns are in the order of their hashes
    steps = np.arange(SKETCH_SIZE)
    n_grams = np.diff(X.indptr)  # (n_texts,)
    is_there = steps < n_grams[:, None]  # (n_texts, SKETCH_SIZE)
    entries = X.indptr[:-1, None] + steps
    columns = X.indices[entries[is_there]]
    hashes[is_there] = grams.hashes[columns] >> np.uint64(32)
    return hashes


class KnownIndex(NamedTuple):
    """The ids of known texts, numbered from the rarest on, and which texts to compare for each."""

    ids: np.ndarray  # uint32 (n_ids,), in order
    numbers: np.ndarray  # int32 (n_ids,): of each of these
    n_texts: np.ndarray  # (n_ids,), by numbers: of known texts with the id
    idf: np.ndarray  # (n_ids,), by numbers
    unknown_idf: float  # of ids that no known text has
    lengths: np.ndarray  # (n_known,): of the known texts; 0 of those that are not listed
    postings: PrefixPostings  # of the first of texts with the same sketch


def index_known(known: np.ndarray) -> KnownIndex:
    """The index of texts by their sketches, (n_known, SKETCH_SIZE)."""
    ids, n_texts = np.unique(known[known > 0], return_counts=True)
    by_rarity = np.argsort(n_texts, kind="stable")
    number_of = np.empty(ids.size, np.int32)  # of each id
    number_of[by_rarity] = np.arange(ids.size, dtype=np.int32)
    n_texts = n_texts[by_rarity]
    idf, unknown_idf = _inverse_frequencies(n_texts, len(known))
    table = HashTable(ids.astype(np.uint64))

    # What is known several times is compared once.
    rows = _find_different_rows(known)
    blocks = []
    for first in range(0, rows.size, _BLOCK_ROWS):
        block_rows = rows[first : first + _BLOCK_ROWS]
        block = known[block_rows]
        is_there = block > 0
        positions = table.find(block[is_there].astype(np.uint64))
        numbers = np.full(block.shape, ABSENT, np.int32)
        numbers[is_there] = number_of[positions]
        prefixes_of_block = find_prefixes(numbers, idf, unknown_idf, _LEAST_BOUND)
        blocks.append(prefixes_of_block)

    prefixes = _join(blocks)
    lengths = np.zeros(len(known))
    lengths[rows] = prefixes.lengths
    postings = list_rows(prefixes, rows, ids.size)
    return KnownIndex(ids, number_of, n_texts, idf, unknown_idf, lengths, postings)


def _inverse_frequencies(n_texts: np.ndarray, n_known: int) -> tuple[np.ndarray, float]:
    """The idf of ids that `n_texts` known texts have, and that of ids that none has."""
    ratios = (1.0 + n_known) / (1.0 + n_texts)
    idf = np.log(ratios) + 1.0
    unknown_idf = np.log(1.0 + n_known) + 1.0
    return idf, float(unknown_idf)


def _join(blocks: list[Prefixes]) -> Prefixes:
    """The prefixes of the rows of all blocks."""
    # The first part of each fixes the type, also of no blocks.
    entries = [np.empty(0, np.int32)]
    remainders = [np.empty(0, np.float32)]
    sizes = [np.zeros(1, np.int64)]
    lengths = [np.empty(0)]
    for block in blocks:
        entries.append(block.entries)
        remainders.append(block.remainders)
        sizes.append(np.diff(block.starts))
        lengths.append(block.lengths)

    return Prefixes(
        entries=np.concatenate(entries),
        remainders=np.concatenate(remainders),
        starts=np.concatenate(sizes).cumsum(),
        lengths=np.concatenate(lengths),
    )


def _find_different_rows(sketches: np.ndarray) -> np.ndarray:
    """The first of equal rows, in order, (n,) of int32."""
    # Equal rows have equal sums; rows that differ and have equal sums are kept.
    rng = np.random.default_rng(0)
    factors = rng.integers(1 << 63, size=sketches.shape[1], dtype=np.uint64)
    sums = np.empty(len(sketches), np.uint64)
    for first in range(0, len(sketches), _BLOCK_ROWS):
        block = slice(first, first + _BLOCK_ROWS)
        sums[block] = sketches[block].astype(np.uint64) @ factors

    order = np.argsort(sums, kind="stable")
    same_sum = np.flatnonzero(np.diff(sums[order]) == 0)  # as the one after it in this order
    before = order[same_sum]
    after = order[same_sum + 1]
    is_equal = sketches[before] == sketches[after]
    is_repeat = np.zeros(len(sketches), bool)
    is_repeat[after] = is_equal.all(axis=1)
    return np.flatnonzero(~is_repeat).astype(np.int32)


# The index of each array of sketches that is in use.
_INDEXES: list[tuple[weakref.ref, KnownIndex]] = []


def known_texts(known: np.ndarray) -> "KnownTexts":
    """`KnownTexts(known)`, indexed once for an array: a monitor asks with every batch of texts."""
    return KnownTexts(known, _index_once(known))


def _index_once(known: np.ndarray) -> KnownIndex:
    for reference, index in list(_INDEXES):
        if reference() is known:
            return index
    index = index_known(known)
    _keep(known, index)
    return index


def _keep(known: np.ndarray, index: KnownIndex) -> None:
    with contextlib.suppress(TypeError):  # something that cannot be referred to is not kept
        _INDEXES.append((weakref.ref(known, _forget), index))


def _forget(reference: weakref.ref) -> None:
    _INDEXES[:] = [entry for entry in _INDEXES if entry[0] is not reference]


def index_arrays(known: np.ndarray) -> dict[str, np.ndarray]:
    """The index of many known texts as arrays, to be saved; none for few, which take no time.

    The hashes in it are those in the sketches.
    """
    if len(known) < _MIN_INDEXED_TEXTS:
        return {}

    index = _index_once(known)
    postings = index.postings
    # Rounded up, so that no text is passed over.
    remainder_steps = np.ceil(postings.remainders * _REMAINDER_STEPS)
    return {
        "known.ids": index.ids,
        "known.numbers": index.numbers,
        "known.n_texts": index.n_texts.astype(np.uint32),
        "known.lengths": index.lengths,
        "known.postings.rows": postings.rows,
        "known.postings.remainders": remainder_steps.astype(np.uint16),
        "known.postings.starts": postings.starts.astype(np.uint32),
    }


def keep_index(known: np.ndarray, arrays: Mapping[str, np.ndarray]) -> None:
    """Use a saved index of known texts, if there is one; ValueError for one that cannot be theirs.

    The arrays may have been written by somebody else: what compiled code relies on is checked.
    """
    if "known.ids" not in arrays:
        return

    ids = checked_tensor(arrays, "known.ids", np.uint32, (None,), low=1)
    if (ids[1:] <= ids[:-1]).any():
        raise ValueError("known.ids must be all different and in order")

    n_ids = ids.size
    n_known = len(known)
    numbers = checked_tensor(arrays, "known.numbers", np.int32, (n_ids,), low=0, below=n_ids)
    n_texts = checked_tensor(arrays, "known.n_texts", np.uint32, (n_ids,), low=1)
    lengths = checked_tensor(arrays, "known.lengths", np.float64, (n_known,), low=0)

    starts = checked_tensor(arrays, "known.postings.starts", np.uint32, (n_ids + 1,))
    rows = checked_tensor(arrays, "known.postings.rows", np.int32, (None,), low=0, below=n_known)
    covers_rows = starts[0] == 0 and starts[-1] == rows.size
    falls = (starts[1:] < starts[:-1]).any()
    if not covers_rows or falls:
        raise ValueError("known.postings.starts must be the bounds of known.postings.rows")
    steps = checked_tensor(arrays, "known.postings.remainders", np.uint16, (rows.size,))

    remainders = steps.astype(np.float32) / np.float32(_REMAINDER_STEPS)
    postings = PrefixPostings(rows, remainders, starts.astype(np.int64))
    idf, unknown_idf = _inverse_frequencies(n_texts, n_known)
    index = KnownIndex(ids, numbers, n_texts, idf, unknown_idf, lengths, postings)
    _keep(known, index)


class KnownTexts:
    """Recognises near-duplicates of texts of which only `sketches` are known.

    The cosine is that of the idf of the words and pairs that are kept; exact for texts that have no
    more than these.

    Not every text is compared with every known one. Words and pairs are ordered by the number of
    known texts that hold them, the rarest first. Of each text, those of the end that together are
    shorter than `MIN_COSINE` are left out; what is left is its prefix. Two texts whose prefixes
    share nothing have a cosine below that: the rarest word or pair that both have lies outside the
    prefix of one of them, hence all that they share, and by Cauchy and Schwarz its length bounds
    the cosine. So do the lengths of what remains of both from that word on, multiplied. The others
    are compared exactly.

    >>> known = sketches(["a dull film with no plot", "so good", "a film without an end"])
    >>> KnownTexts(known).are_near(["a dull film without any plot", "A dull film with no end"])
    array([False,  True])
    """

    def __init__(self, known: np.ndarray, index: KnownIndex | None = None):
        self._known = known
        self._index = index_known(known) if index is None else index

    def are_near(self, texts: Sequence[str]) -> np.ndarray:
        """Recognise near-duplicates of known texts.

        Parameters
        ----------
        texts : list of str

        Returns
        -------
        array of bool, (n_texts,)
        """
        index = self._index
        if not index.ids.size or not len(texts):
            return np.zeros(len(texts), bool)

        new_sketches = self._look_up(sketches(texts))
        return are_near(
            new_sketches,
            np.ascontiguousarray(self._known),
            index.lengths,
            index.postings,
            least=MIN_COSINE - _ROUNDING,
            least_bound=_LEAST_BOUND,
        )

    def _look_up(self, ids: np.ndarray) -> Sketches:
        """New texts by their sketches, (n, SKETCH_SIZE), with the idf of the known ones."""
        index = self._index
        nearest = np.searchsorted(index.ids, ids)  # (n, SKETCH_SIZE)
        nearest = np.minimum(nearest, index.ids.size - 1)
        is_known = index.ids[nearest] == ids  # (n, SKETCH_SIZE)
        numbers = np.full(ids.shape, ABSENT, np.int32)
        numbers[ids > 0] = UNKNOWN
        numbers[is_known] = index.numbers[nearest[is_known]]
        prefixes = find_prefixes(numbers, index.idf, index.unknown_idf, _LEAST_BOUND)
        idf = np.where(is_known, index.idf[numbers], 0.0)
        return Sketches(ids, idf**2, prefixes)
