"""Sentences in batches, and batches of vectors as one array."""

from collections import deque
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

import numpy as np

from pacsent.text.encoded import Encoded
from pacsent.text.texts import n_sentences

Pair = tuple[np.ndarray, np.ndarray]


def length(X: Any) -> int | None:
    """Return the number of sentences, where it is known beforehand."""
    return X.n_sentences if isinstance(X, Encoded) else n_sentences(X)


def batches(X: Any, size: int) -> Iterator:
    """Cut X into batches of `size` sentences; raise where its length is not that of its items."""
    if isinstance(X, Encoded):
        for start in range(0, X.n_sentences, size):
            stop = min(start + size, X.n_sentences)
            offsets = X.offsets[start : stop + 1]
            ids = X.ids[offsets[0] : offsets[-1]]
            yield Encoded(ids, offsets - offsets[0], X.n_unknown[start:stop])
        return
    expected = n_sentences(X)
    rest, done = iter(X), 0
    while batch := list(islice(rest, size)):
        done += len(batch)
        if expected is not None and done > expected:  # there is no place for them
            break
        yield batch
    if expected is not None and done != expected:
        more = "more" if done > expected else f"{done:,}"
        raise ValueError(
            f"X must hold as many sentences as its length says, {expected:,}. Got {more} instead "
            f"from this {type(X).__name__}. Pass list(X)."
        )


def joined(stream: Iterable[Pair], means: np.ndarray) -> Pair:
    """Return (means, variances) of a stream whose means are written to `means` already."""
    variances, done = np.empty(len(means)), 0
    for _, some in stream:
        variances[done : done + some.size] = some
        done += some.size
    return means, variances


def gathered(stream: Iterable[Pair], n_dims: int, dtype: Any) -> Pair:
    """Return (means, variances) of a stream of unknown length.

    Each batch is freed once copied, so memory never holds the result twice.
    """
    pieces = deque(stream)
    n = sum(some.size for _, some in pieces)
    means, variances = np.empty((n, n_dims), dtype), np.empty(n)
    done = 0
    while pieces:
        some_means, some = pieces.popleft()
        means[done : done + some.size], variances[done : done + some.size] = some_means, some
        done += some.size
    return means, variances
