"""Groups of texts: k-means on their vectors, each group named by the words that set it apart."""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from pacsent.encoders.external_encoders import as_encoder
from pacsent.maths.arrays import unit_rows
from pacsent.maths.checks import check_count
from pacsent.search.lexical import Background
from pacsent.storage import load
from pacsent.text.ngrams import NGrams
from pacsent.text.ngrams import names as spelled
from pacsent.text.texts import as_texts
from pacsent.threads import n_cores

_MANY = 20_000  # texts from which on k-means learns from parts of them
_COMMON = 0.1  # share of all texts, or that of a group: a word of more texts names none
_GENERAL = 1e5  # tokens of general English that are counted with English texts


class Clusters(NamedTuple):
    """Groups of texts.

    `labels` is the group of each text, (n,), -1 where it has no vector; `words` those that set each
    group apart, the best first; `names` the first three of them; `sizes` the number of its texts;
    `examples` the place of the text nearest to its centre.
    """

    labels: np.ndarray
    names: list[str]
    words: list[list[str]]
    sizes: list[int]
    examples: list[int]

    def __repr__(self) -> str:
        shown = ", ".join(f"{name} ({size:,})" for name, size in zip(self.names, self.sizes))
        return f"Clusters({shown})"


def clusters(
    texts: Iterable[str],
    n: int | None = None,
    *,
    encoder: Any = "english",
    vectors: np.ndarray | None = None,
    n_words: int = 10,
    random_state: int = 0,
) -> Clusters:
    """Group texts by meaning and name the groups by their words.

    The groups are those of k-means on unit vectors. A word's weight in a group is its share of the
    group's words times ln(1 + mean words of a group / occurrences in all texts), the c-tf-idf of
    BERTopic. With English texts, 100,000 tokens of general English are counted as occurrences, so
    that common words name no group. Words of more than a tenth of all texts, or more than there
    are in a group on average, are left out.

    Parameters
    ----------
    texts : iterable of str
    n : int, optional
        Number of groups; sqrt(n_texts / 2), at most 50, by default.
    encoder : encoder, default="english"
        What `Index` takes.
    vectors : array, shape (n_texts, n_dims), optional
        Vectors that are known already, in place of the encoder's.
    n_words : int, default=10
        Words of each group.
    random_state : int, default=0

    Examples
    --------
    >>> found = clusters(["red wine", "white wine", "the cat slept", "a sleeping kitten"], n=2)
    >>> found.labels[0] == found.labels[1] != found.labels[2] == found.labels[3]
    np.True_
    """
    texts = as_texts(texts)
    if not texts:
        raise ValueError("texts must hold at least one text. Got none.")
    if vectors is None:
        vectors = np.asarray(as_encoder(encoder).posterior(texts)[0])
    X = unit_rows(np.asarray(vectors, dtype=np.float32))
    there = np.flatnonzero(X.any(axis=1))
    default = max(1, min(50, round((len(texts) / 2) ** 0.5)))
    n = min(default if n is None else check_count("n", n), max(1, there.size))
    labels = np.full(len(texts), -1)
    if there.size:
        labels[there] = _grouped(X[there], n, random_state)
    centres = np.zeros((n, X.shape[1]), np.float32)
    np.add.at(centres, labels[there], X[there])
    nearness = np.einsum("ij,ij->i", X, unit_rows(centres)[labels])
    examples = []
    for c in range(n):
        inside = np.flatnonzero(labels == c)
        examples.append(int(inside[nearness[inside].argmax()]) if inside.size else -1)
    words = _words(texts, labels, n, n_words)
    named = [", ".join(some[:3]) or f"group {c + 1}" for c, some in enumerate(words)]
    sizes = np.bincount(labels[there], minlength=n).tolist()
    return Clusters(labels, named, words, sizes, examples)


def _grouped(X, n, random_state) -> np.ndarray:
    from sklearn.cluster import KMeans, MiniBatchKMeans

    made: Any = KMeans(n, n_init=3, random_state=random_state)
    if len(X) > _MANY:
        made = MiniBatchKMeans(n, n_init=3, batch_size=4096, random_state=random_state)
    return made.fit_predict(X)


def _words(texts: Sequence[str], labels, n, n_words) -> list[list[str]]:
    """The words of each group with the largest c-tf-idf."""
    from scipy import sparse

    grams = NGrams.of(texts, (1, 1), n_threads=n_cores(), marks="")
    counts = grams.counts(texts, n_cores())
    n_with = np.bincount(counts.indices, minlength=len(grams))
    rows = np.flatnonzero(labels >= 0)
    ones = np.ones(rows.size, np.float32)
    member = sparse.csr_matrix((ones, (labels[rows], rows)), shape=(n, len(texts)))
    table = (member @ counts).tocsr()  # (n, n_columns)
    of_group = np.maximum(np.asarray(table.sum(axis=1)).ravel(), 1)
    in_all = np.maximum(np.asarray(counts.sum(axis=0)).ravel(), 1)
    background = Background.of(load("english").vocabulary)
    if background.knows(grams.hashes, in_all):
        in_all = in_all + _GENERAL * background.shares_of(grams.hashes)
    rare = np.log1p(of_group.mean() / in_all)
    rare[n_with > max(3, max(_COMMON, 1 / n) * len(texts))] = 0
    if len(texts) > 200:
        rare[n_with < 3] = 0  # names and misspellings
    best = []
    for c in range(n):
        line = slice(table.indptr[c], table.indptr[c + 1])
        columns = table.indices[line]
        weights = table.data[line] / of_group[c] * rare[columns]
        best.append(columns[np.argsort(-weights, kind="stable")][: 3 * n_words])
    wanted = np.unique(np.concatenate([*best, np.empty(0, np.int64)]).astype(np.int64))
    name = dict(zip(wanted.tolist(), spelled(texts, (1, 1), grams.hashes[wanted], marks="")))
    return [
        [name[i] for i in some.tolist() if _is_word(name[i]) and rare[i] > 0][:n_words]
        for some in best
    ]


def _is_word(word: str) -> bool:
    return (len(word) > 2 or not word.isascii()) and not word.isdigit() and "'" not in word
