"""Groups of texts: k-means on their vectors, each group named by the words that set it apart."""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from pacsent.arrays import unit_rows
from pacsent.bounds.checks import check_count
from pacsent.search.lexical import Background
from pacsent.sentences.external_encoders import as_encoder
from pacsent.storage import load
from pacsent.text.ngrams import NGrams
from pacsent.text.ngrams import names as ngram_names
from pacsent.text.texts import as_texts
from pacsent.threads import n_threads

_MAX_KMEANS_TEXTS = 20_000  # above which k-means learns from batches

# A word that occurs in more than this fraction of all texts, or in more texts than a cluster has on
# average, names no cluster.
_MAX_DOCUMENT_FREQUENCY = 0.1

_BACKGROUND_TOKENS = 1e5  # of general English, counted with English texts
_MIN_DOCUMENTS = 3  # of a name's words if there are many texts: rarer ones are often misspelled
_MIN_TEXTS_FOR_RARE_WORDS = 200  # above which they are left out
_MAX_DEFAULT_CLUSTERS = 50


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
    n_jobs: int | None = None,
    random_state: int | np.random.RandomState | None = None,
) -> Clusters:
    """Group texts by meaning and name the groups by their words.

    The groups are those of k-means on unit vectors. A word's weight in a group is its share of the
    group's words times ln(1 + mean words of a group / occurrences in all texts), the c-tf-idf of
    BERTopic. With English texts, 100,000 tokens of general English are counted as occurrences, so
    that common words name no group.

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
    n_jobs : int, optional
        Threads that count words; all cores by default.
    random_state : int, RandomState or None, default=None

    Examples
    --------
    >>> groups = clusters(["red wine", "white wine", "the cat slept", "a sleeping kitten"], n=2)
    >>> groups.labels[0] == groups.labels[1] != groups.labels[2] == groups.labels[3]
    np.True_
    """
    from sklearn.cluster import KMeans, MiniBatchKMeans

    texts = as_texts(texts)
    if not texts:
        raise ValueError("texts must contain at least one text. Got none.")
    if vectors is None:
        vectors = np.asarray(as_encoder(encoder).posterior(texts)[0])
    X = unit_rows(np.asarray(vectors, dtype=np.float32))
    known = np.flatnonzero(X.any(axis=1))  # rows with a vector
    if n is None:
        n = max(1, min(_MAX_DEFAULT_CLUSTERS, round((len(texts) / 2) ** 0.5)))
    n = min(check_count("n", n), max(1, known.size))

    labels = np.full(len(texts), -1)
    if known.size:
        kmeans: Any = KMeans(n, n_init=3, random_state=random_state)
        if known.size > _MAX_KMEANS_TEXTS:
            kmeans = MiniBatchKMeans(n, n_init=3, batch_size=4096, random_state=random_state)
        labels[known] = kmeans.fit_predict(X[known])

    words = _characteristic_words(texts, labels, n, n_words, n_threads(n_jobs))
    return Clusters(
        labels=labels,
        names=[", ".join(best[:3]) or f"group {c + 1}" for c, best in enumerate(words)],
        words=words,
        sizes=np.bincount(labels[known], minlength=n).tolist(),
        examples=_nearest_to_centres(X, labels, n),
    )


def _nearest_to_centres(X: np.ndarray, labels: np.ndarray, n: int) -> list[int]:
    """The row nearest to the centre of each cluster; -1 for one without rows."""
    known = np.flatnonzero(labels >= 0)
    centres = np.zeros((n, X.shape[1]), np.float32)
    np.add.at(centres, labels[known], X[known])
    cosines = np.einsum("ij,ij->i", X, unit_rows(centres)[labels])
    nearest = []
    for c in range(n):
        members = np.flatnonzero(labels == c)
        nearest.append(int(members[cosines[members].argmax()]) if members.size else -1)
    return nearest


def _characteristic_words(
    texts: Sequence[str], labels: np.ndarray, n: int, n_words: int, threads: int
) -> list[list[str]]:
    """The words of each cluster with the largest c-tf-idf."""
    ngrams = NGrams.of(texts, (1, 1), n_threads=threads, marks="")
    counts = ngrams.counts(texts, threads)  # (n_texts, n_columns)

    # Occurrences of each word in each cluster, (n, n_columns).
    rows = np.flatnonzero(labels >= 0)
    ones = np.ones(rows.size, np.float32)
    membership = sparse.csr_matrix((ones, (labels[rows], rows)), shape=(n, len(texts)))
    cluster_counts = (membership @ counts).tocsr()
    cluster_sizes = np.maximum(np.asarray(cluster_counts.sum(axis=1)).ravel(), 1)

    idf = _cluster_idf(ngrams, counts, cluster_sizes, n)
    best_columns = []  # of each cluster
    for c in range(n):
        part = slice(cluster_counts.indptr[c], cluster_counts.indptr[c + 1])
        columns = cluster_counts.indices[part]
        weights = cluster_counts.data[part] / cluster_sizes[c] * idf[columns]
        best_columns.append(columns[np.argsort(-weights, kind="stable")][: 3 * n_words])

    # Only these are spelled out: of a word the n-grams have a hash.
    columns = np.unique(np.concatenate([*best_columns, np.empty(0, np.int64)]).astype(np.int64))
    spellings = {}
    for column, word in zip(columns, ngram_names(texts, (1, 1), ngrams.hashes[columns], marks="")):
        is_long = len(word) > 2 or not word.isascii()
        if idf[column] > 0 and is_long and not word.isdigit() and "'" not in word:
            spellings[column] = word
    return [
        [spellings[column] for column in columns if column in spellings][:n_words]
        for columns in best_columns
    ]


def _cluster_idf(
    ngrams: NGrams, counts: sparse.csr_matrix, cluster_sizes: np.ndarray, n: int
) -> np.ndarray:
    """ln(1 + mean words of a cluster / occurrences) of each word; 0 for words that name none."""
    n_texts = counts.shape[0]
    occurrences = np.maximum(np.asarray(counts.sum(axis=0)).ravel(), 1)
    background = Background.of(load("english").vocabulary)
    if background.covers(ngrams.hashes, occurrences):
        occurrences = occurrences + _BACKGROUND_TOKENS * background.frequencies_of(ngrams.hashes)
    idf = np.log1p(cluster_sizes.mean() / occurrences)

    document_frequency = np.bincount(counts.indices, minlength=len(ngrams))
    max_documents = max(_MIN_DOCUMENTS, max(_MAX_DOCUMENT_FREQUENCY, 1 / n) * n_texts)
    idf[document_frequency > max_documents] = 0
    if n_texts > _MIN_TEXTS_FOR_RARE_WORDS:
        idf[document_frequency < _MIN_DOCUMENTS] = 0
    return idf
