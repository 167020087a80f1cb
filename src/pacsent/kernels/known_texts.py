"""Kernels that find near-duplicates of texts of which sketches are known.

A sketch is a row of hashes ("ids") of words and of pairs of words in ascending order, 0 where there
are fewer. `certify.near_duplicates.KnownTexts` says which texts are near and why few of the known
ones need to be compared.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from pacsent.kernels.library import (
    DOUBLE,
    FLOAT32,
    FLOAT64,
    INT32,
    INT64,
    SIZE,
    UINT8,
    Array,
    entry_point,
    needs_twins,
)

MAX_COLUMNS = 64  # of a sketch, as in known_texts.c
UNKNOWN = -1  # in place of the number of an id that no known text has
ABSENT = -2  # in place of the number of an id where a sketch has none
_IDS = Array(np.uint32)

_find_prefixes = entry_point(
    "find_prefixes",
    *(INT32, SIZE, SIZE, SIZE),  # numbers, columns, rows begin to end
    *(FLOAT64, DOUBLE, DOUBLE),  # idf, that of unknown ids, least
    SIZE,  # entries so far
    *(INT32, FLOAT32, INT64),  # entries, remainders, where those of each row begin
    FLOAT64,  # lengths
    returns=SIZE,
)
_list_rows = entry_point(
    "list_rows",
    *(INT32, FLOAT32, INT64),  # entries of prefixes, remainders, where those of each row begin
    *(INT32, SIZE, SIZE),  # rows, of which begin to end
    INT64,  # where the next row of each id is listed
    *(INT32, FLOAT32),  # postings: rows, remainders
)
_are_near = entry_point(
    "are_near",
    *(_IDS, FLOAT64, FLOAT64),  # sketches, squares, lengths
    *(SIZE, SIZE, SIZE),  # columns, texts begin to end
    *(INT32, FLOAT32, INT64),  # entries of prefixes, remainders, where those of each text begin
    *(_IDS, FLOAT64),  # known sketches, lengths
    *(INT32, FLOAT32, INT64),  # postings: rows, remainders, where those of each id begin
    *(DOUBLE, DOUBLE),  # least cosine, least bound
    INT32,  # room: last_compared
    UINT8,  # is_near
)

_BATCH_ROWS = 4096  # whose prefixes are found in a call: Ctrl-C works between calls
_BATCH_TEXTS = 64  # that are compared in a call


class Prefixes(NamedTuple):
    """The rarest ids of each row: those of row i are entries[starts[i]:starts[i + 1]]."""

    entries: np.ndarray  # int32: numbers of ids
    remainders: np.ndarray  # float32: the length of the row from here on, in parts of its length
    starts: np.ndarray  # (n_rows + 1,)
    lengths: np.ndarray  # (n_rows,): of the rows, by the idf of all their ids


class PrefixPostings(NamedTuple):
    """The rows whose prefixes have an id: those of id k are rows[starts[k]:starts[k + 1]]."""

    rows: np.ndarray  # int32
    remainders: np.ndarray  # float32, of their prefixes
    starts: np.ndarray  # (n_ids + 1,)


class Sketches(NamedTuple):
    """Texts that are compared with known ones."""

    ids: np.ndarray  # uint32 (n_texts, n_columns)
    squares: np.ndarray  # (n_texts, n_columns): of the idf of each id, 0 where it is not known
    prefixes: Prefixes


def find_prefixes(
    numbers: np.ndarray, idf: np.ndarray, unknown_idf: float, least: float
) -> Prefixes:
    """The ids of each row from the rarest on, as long as what remains is not shorter than `least`.

    Parameters
    ----------
    numbers : int32 array of shape (n_rows, n_columns)
        The number of each id, UNKNOWN or ABSENT; the rarest id is number 0.
    idf : float64 array of shape (n_ids,)
    unknown_idf : float
        The idf of ids that have no number. They count in the lengths.
    least : float
        In parts of the length of a row.
    """
    n_rows, n_columns = numbers.shape
    if n_columns > MAX_COLUMNS:
        raise ValueError(f"Sketches must have at most {MAX_COLUMNS} columns. Got {n_columns}.")
    if needs_twins():
        return find_prefixes_plainly(numbers, idf, unknown_idf, least)

    entries = np.empty(numbers.size, np.int32)
    remainders = np.empty(numbers.size, np.float32)
    starts = np.zeros(n_rows + 1, np.int64)
    lengths = np.empty(n_rows)
    n = 0
    for begin, end in _batches(n_rows, _BATCH_ROWS):
        n = _find_prefixes(
            *(numbers, n_columns, begin, end),
            *(idf, unknown_idf, least),
            *(n, entries, remainders, starts, lengths),
        )
    return Prefixes(entries[:n].copy(), remainders[:n].copy(), starts, lengths)


def find_prefixes_plainly(
    numbers: np.ndarray, idf: np.ndarray, unknown_idf: float, least: float
) -> Prefixes:
    """As `find_prefixes`, row by row."""
    entries = [np.empty(0, int)]
    remainders = [np.empty(0)]
    lengths = []
    for row in numbers:
        known = row[row >= 0]
        n_unknown = (row == UNKNOWN).sum()
        squared_length = (idf[known] ** 2).sum() + n_unknown * unknown_idf**2
        lengths.append(np.sqrt(squared_length))

        different, n_same = np.unique(known, return_counts=True)
        squares = (n_same * idf[different]) ** 2
        squared_remainders = squares[::-1].cumsum()[::-1]
        is_kept = squared_remainders >= least**2 * squared_length
        entries.append(different[is_kept])
        remainders.append(np.sqrt(squared_remainders[is_kept] / squared_length))
    return Prefixes(
        entries=np.concatenate(entries).astype(np.int32),
        remainders=np.concatenate(remainders).astype(np.float32),
        starts=np.cumsum([part.size for part in entries]),
        lengths=np.array(lengths, float),
    )


def list_rows(prefixes: Prefixes, rows: np.ndarray, n_ids: int) -> PrefixPostings:
    """The postings of some rows, by their prefixes; rows of an id are in the order of `rows`.

    `rows`, int32 of shape (n_rows,), are the numbers to be listed.
    """
    if needs_twins():
        return list_rows_plainly(prefixes, rows, n_ids)

    starts = np.zeros(n_ids + 1, np.int64)
    n_listed = np.bincount(prefixes.entries, minlength=n_ids)
    np.cumsum(n_listed, out=starts[1:])

    listed_rows = np.empty(prefixes.entries.size, np.int32)
    remainders = np.empty(prefixes.entries.size, np.float32)
    next_places = starts[:-1].copy()
    for begin, end in _batches(rows.size, _BATCH_ROWS):
        _list_rows(
            *(prefixes.entries, prefixes.remainders, prefixes.starts),
            *(rows, begin, end),
            next_places,
            *(listed_rows, remainders),
        )
    return PrefixPostings(listed_rows, remainders, starts)


def list_rows_plainly(prefixes: Prefixes, rows: np.ndarray, n_ids: int) -> PrefixPostings:
    """As `list_rows`: entries in the order of their ids."""
    order = np.argsort(prefixes.entries, kind="stable")
    row_of_entry = np.repeat(rows, np.diff(prefixes.starts))
    starts = np.searchsorted(prefixes.entries[order], np.arange(n_ids + 1))
    return PrefixPostings(row_of_entry[order], prefixes.remainders[order], starts)


def are_near(
    texts: Sketches,
    known: np.ndarray,
    known_lengths: np.ndarray,
    postings: PrefixPostings,
    least: float,
    least_bound: float,
) -> np.ndarray:
    """The texts that have a cosine of at least `least` with a known one, (n_texts,) of bool.

    Known texts are compared if they are listed for an id of a text's prefix, unless the lengths of
    what remains of both, multiplied, are below `least_bound`.

    Parameters
    ----------
    texts : Sketches
    known : uint32 array of shape (n_known, n_columns)
        Sketches of the known texts.
    known_lengths : float64 array of shape (n_known,)
    postings : PrefixPostings
        Of the known texts, by their rows in `known`.
    least, least_bound : float
    """
    if needs_twins():
        return are_near_plainly(texts, known, known_lengths, postings, least, least_bound)

    n_texts, n_columns = texts.ids.shape
    prefixes = texts.prefixes
    is_near = np.zeros(n_texts, np.uint8)
    last_compared = np.full(len(known), -1, np.int32)
    for begin, end in _batches(n_texts, _BATCH_TEXTS):
        _are_near(
            *(texts.ids, texts.squares, prefixes.lengths),
            *(n_columns, begin, end),
            *(prefixes.entries, prefixes.remainders, prefixes.starts),
            *(known, known_lengths),
            *postings,
            *(least, least_bound),
            *(last_compared, is_near),
        )
    return is_near.view(bool)


def are_near_plainly(
    texts: Sketches,
    known: np.ndarray,
    known_lengths: np.ndarray,
    postings: PrefixPostings,
    least: float,
    least_bound: float,
) -> np.ndarray:
    """As `are_near`: a text with all that are listed at a time, without the bound."""
    prefixes = texts.prefixes
    is_near = np.zeros(len(texts.ids), bool)
    for i in range(is_near.size):
        numbers = prefixes.entries[prefixes.starts[i] : prefixes.starts[i + 1]]
        listed = [postings.rows[postings.starts[k] : postings.starts[k + 1]] for k in numbers]
        candidates = np.unique(np.concatenate([postings.rows[:0], *listed]))

        products = np.zeros(candidates.size)
        for own_id, square in zip(texts.ids[i], texts.squares[i]):
            products += square * (known[candidates] == own_id).sum(axis=1)
        least_products = least * prefixes.lengths[i] * known_lengths[candidates]
        is_near[i] = (products >= least_products).any()
    return is_near


def _batches(n: int, size: int) -> Iterator[tuple[int, int]]:
    """The rows (begin, end) of each call."""
    for begin in range(0, n, size):
        yield begin, min(begin + size, n)
