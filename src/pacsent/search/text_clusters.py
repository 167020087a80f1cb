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
_CANDIDATES_PER_WORD = 3  # columns that are spelled out for each word of a group


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

    Returns
    -------
    groups : Clusters

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
        means, _ = as_encoder(encoder).posterior(texts)
        vectors = np.asarray(means)
    X = unit_rows(np.asarray(vectors, dtype=np.float32))
    rows = np.flatnonzero(X.any(axis=1))  # with a vector

    if n is None:
        n = max(1, min(_MAX_DEFAULT_CLUSTERS, round((len(texts) / 2) ** 0.5)))
    n_clusters = min(check_count("n", n), max(1, rows.size))

    labels = np.full(len(texts), -1)
    if rows.size:
        kmeans: Any = KMeans(n_clusters, n_init=3, random_state=random_state)
        if rows.size > _MAX_KMEANS_TEXTS:
            kmeans = MiniBatchKMeans(
                n_clusters, n_init=3, batch_size=4096, random_state=random_state
            )
        labels[rows] = kmeans.fit_predict(X[rows])

    words = _characteristic_words(texts, labels, n_clusters, n_words, n_threads(n_jobs))
    names = []
    for number, cluster_words in enumerate(words, 1):
        names.append(", ".join(cluster_words[:3]) or f"group {number}")

    return Clusters(
        labels=labels,
        names=names,
        words=words,
        sizes=np.bincount(labels[rows], minlength=n_clusters).tolist(),
        examples=_nearest_to_centres(X, labels, n_clusters),
    )


def _nearest_to_centres(X: np.ndarray, labels: np.ndarray, n_clusters: int) -> list[int]:
    """The row nearest to the centre of each cluster; -1 for one without rows."""
    rows = np.flatnonzero(labels >= 0)
    sums = np.zeros((n_clusters, X.shape[1]), np.float32)
    np.add.at(sums, labels[rows], X[rows])
    centres = unit_rows(sums)
    cosines = np.einsum("ij,ij->i", X, centres[labels])

    nearest = []
    for cluster in range(n_clusters):
        members = np.flatnonzero(labels == cluster)
        row = -1
        if members.size:
            row = int(members[cosines[members].argmax()])
        nearest.append(row)
    return nearest


def _characteristic_words(
    texts: Sequence[str], labels: np.ndarray, n_clusters: int, n_words: int, n_threads: int
) -> list[list[str]]:
    """The words of each cluster with the largest c-tf-idf."""
    ngrams = NGrams.of(texts, (1, 1), n_threads=n_threads, marks="")
    counts = ngrams.counts(texts, n_threads)  # (n_texts, n_columns)

    # Occurrences of each word in each cluster, (n_clusters, n_columns).
    rows = np.flatnonzero(labels >= 0)
    ones = np.ones(rows.size, np.float32)
    shape = (n_clusters, len(texts))
    membership = sparse.csr_matrix((ones, (labels[rows], rows)), shape=shape)
    cluster_counts = (membership @ counts).tocsr()
    words_per_cluster = np.asarray(cluster_counts.sum(axis=1)).ravel()
    words_per_cluster = np.maximum(words_per_cluster, 1)

    idf = _cluster_idf(ngrams, counts, words_per_cluster)
    n_candidates = _CANDIDATES_PER_WORD * n_words
    best_columns = []  # of each cluster
    for cluster in range(n_clusters):
        begin, end = cluster_counts.indptr[cluster : cluster + 2]
        columns = cluster_counts.indices[begin:end]
        frequencies = cluster_counts.data[begin:end] / words_per_cluster[cluster]
        order = np.argsort(-frequencies * idf[columns], kind="stable")
        best_columns.append(columns[order][:n_candidates])

    spellings = _spell_out(texts, ngrams, idf, best_columns)
    words = []
    for columns in best_columns:
        spelled_words = [spellings[column] for column in columns if column in spellings]
        words.append(spelled_words[:n_words])
    return words


def _spell_out(
    texts: Sequence[str], ngrams: NGrams, idf: np.ndarray, columns: list[np.ndarray]
) -> dict[int, str]:
    """The words of columns that can name a cluster; of the others the n-grams have a hash only."""
    all_columns = np.concatenate([*columns, np.empty(0, np.int64)])
    distinct_columns = np.unique(all_columns.astype(np.int64))
    names = ngram_names(texts, (1, 1), ngrams.hashes[distinct_columns], marks="")

    spellings = {}
    for column, word in zip(distinct_columns, names):
        is_long = len(word) > 2 or not word.isascii()
        is_word = is_long and not word.isdigit() and "'" not in word
        if is_word and idf[column] > 0:
            spellings[column] = word
    return spellings


def _cluster_idf(
    ngrams: NGrams, counts: sparse.csr_matrix, words_per_cluster: np.ndarray
) -> np.ndarray:
    """ln(1 + mean of words_per_cluster / occurrences of the word), for each word.

    It is 0 for words that may name no cluster, because they occur in too many texts or too few.
    """
    n_texts = counts.shape[0]
    occurrences = np.asarray(counts.sum(axis=0)).ravel()
    occurrences = np.maximum(occurrences, 1)

    # English texts are counted together with general English, so that words that are frequent in
    # English weigh little in few texts as well.
    background = Background.of(load("english").vocabulary)
    if background.covers(ngrams.hashes, occurrences):
        frequencies = background.frequencies_of(ngrams.hashes)
        occurrences = occurrences + _BACKGROUND_TOKENS * frequencies
    idf = np.log1p(words_per_cluster.mean() / occurrences)

    n_documents = np.bincount(counts.indices, minlength=len(ngrams))  # with each word
    n_clusters = words_per_cluster.size
    max_fraction = max(_MAX_DOCUMENT_FREQUENCY, 1 / n_clusters)
    max_documents = max(_MIN_DOCUMENTS, max_fraction * n_texts)
    idf[n_documents > max_documents] = 0
    if n_texts > _MIN_TEXTS_FOR_RARE_WORDS:
        idf[n_documents < _MIN_DOCUMENTS] = 0
    return idf
