"""`next_to_label`: which texts to label next, so that few labels teach much."""

from collections.abc import Iterable
from typing import Any

import numpy as np
from sklearn.cluster import KMeans
from sklearn.decomposition import TruncatedSVD
from sklearn.utils import check_random_state

from pacsent.bounds.checks import check_count
from pacsent.certify.near_duplicates import near_duplicate_clusters
from pacsent.classify.classifier import TextClassifier
from pacsent.classify.training import make_text_encoder
from pacsent.sentences.encoder import Encoder
from pacsent.text.ngrams import NGrams
from pacsent.text.texts import as_texts

# Texts that clusters are made of, at most.
_MAX_POOL_TEXTS = 5_000
# The n texts are spread over this many times n texts with the smallest margin.
_POOL_FACTOR = 10
# Dimensions of the points, where the model has no vectors.
_N_DIMS = 50


def next_to_label(
    model: Any,
    X: Iterable[str],
    n: int = 10,
    *,
    labelled: Iterable[str] = (),
    random_state: int | np.random.RandomState | None = None,
) -> np.ndarray:
    """The n texts whose labels would teach most, the first one first: their rows, (n,).

    Of the texts that the model is least sure about (by the margin: the probability of the likeliest
    class less that of the second), the n in the middle of as many clusters, so that no two say the
    same. Before there is a model: the n in the middle of clusters of all texts. Texts that repeat
    each other or one in `labelled`, almost or exactly, are chosen once at most while there are
    others.

    Parameters
    ----------
    model : fitted classifier with `predict_proba`, unfitted TextClassifier, or None
        An unfitted TextClassifier gives the vectors of its `encoder` to the clusters; None clusters
        by words.
    X : iterable of str
        Texts without labels.
    n : int, default=10
        How many; all of them, where there are fewer.
    labelled : iterable of str
        Texts that have labels already.
    random_state : int, RandomState or None, default=None

    Returns
    -------
    array of shape (n,)
        Rows of `X`, from 0.

    Examples
    --------
    >>> from pacsent import TextClassifier
    >>> from pacsent.classify import next_to_label
    >>> texts = [f"{word} film{n} plot{n}" for n in range(40) for word in ("good", "bad")]
    >>> model = TextClassifier(None).fit(texts, ["up", "down"] * 40)
    >>> new = ["a good film", "neither this nor that", "a bad film"]
    >>> next_to_label(model, new, 1)
    array([1])
    """
    texts = as_texts(X)
    labelled = as_texts(labelled, "labelled")
    n = min(check_count("n", n), len(texts))
    rng = check_random_state(random_state)
    if not n:
        return np.zeros(0, np.int64)

    # Rows that may be chosen, and the weight of each, (n_pool,).
    if hasattr(model, "classes_"):
        sorted_proba = np.sort(model.predict_proba(texts), axis=1)
        margins = sorted_proba[:, -1] - sorted_proba[:, -2]  # (n_texts,)
        surest_last = np.argsort(margins, kind="stable")
        pool = surest_last[: _POOL_FACTOR * n]
        weights = 1.0 - margins[pool] + 1e-6
    else:
        n_pool = max(_MAX_POOL_TEXTS, _POOL_FACTOR * n)
        shuffled = rng.permutation(len(texts))
        pool = np.sort(shuffled[:n_pool])
        weights = np.ones(pool.size)

    # Texts that repeat no earlier one and none that is labelled.
    pool_texts = [texts[row] for row in pool]
    clusters = near_duplicate_clusters([*labelled, *pool_texts])
    _, first_of_cluster = np.unique(clusters, return_index=True)
    is_unlabelled = first_of_cluster >= len(labelled)
    distinct = np.sort(first_of_cluster[is_unlabelled]) - len(labelled)
    if distinct.size >= n:
        pool = pool[distinct]
        weights = weights[distinct]

    points = _make_points(model, [texts[row] for row in pool])
    return pool[_spread(points, weights, n, rng)]


def _make_points(model: Any, texts: list[str]) -> np.ndarray:
    """Texts as points that are near each other where they say the same, of length one."""
    encoder = _find_encoder(model, texts)
    if encoder is not None:
        points = np.asarray(encoder.transform(texts), np.float64)
    else:
        points = _make_word_points(texts)
    lengths = np.linalg.norm(points, axis=1, keepdims=True)
    return points / np.maximum(lengths, 1e-12)


def _make_word_points(texts: list[str]) -> np.ndarray:
    """The tf-idf of the words of texts, in at most `_N_DIMS` dimensions where there are more."""
    words = NGrams.of(texts, (1, 1))
    X = words.tf_idf(texts).astype(np.float64)
    if X.shape[1] == 0:
        return np.zeros((len(texts), 1))
    if min(X.shape) <= _N_DIMS:
        return X.toarray()
    return TruncatedSVD(_N_DIMS, random_state=0).fit_transform(X)


def _find_encoder(model: Any, texts: list[str]) -> Encoder | None:
    """The encoder of a text classifier, fitted on these texts if the classifier is not fitted."""
    classifier = getattr(model, "estimator_", model)  # of one with guarantees, the one inside it
    if not isinstance(classifier, TextClassifier) or classifier.encoder is None:
        return None
    if hasattr(classifier, "fitted_"):
        return classifier.encoder_
    encoder = make_text_encoder(classifier.encoder, classifier.method, classifier.n_jobs)
    return None if encoder is None else encoder.fit(texts)


def _spread(
    points: np.ndarray, weights: np.ndarray, n: int, rng: np.random.RandomState
) -> np.ndarray:
    """Rows of n points, each the nearest to the centroid of its cluster, heaviest cluster first."""
    heaviest_first = np.argsort(-weights, kind="stable")
    if len(points) <= n:
        return heaviest_first
    if n == 1:
        return np.array([int(np.argmax(weights))])

    n_different = len(np.unique(points.round(9), axis=0))
    clustering = KMeans(min(n, n_different), n_init=1, random_state=rng)
    clustering.fit(points, sample_weight=weights)
    cluster_of_point = clustering.labels_

    # The nearest point of each cluster.
    differences = points - clustering.cluster_centers_[cluster_of_point]
    distances = np.square(differences).sum(axis=1)  # (n_points,)
    order = np.lexsort((distances, cluster_of_point))
    _, first_of_cluster = np.unique(cluster_of_point[order], return_index=True)
    nearest = order[first_of_cluster]
    nearest = nearest[np.argsort(-weights[nearest], kind="stable")]

    # Where points repeat each other, there are fewer clusters than n.
    others = np.setdiff1d(heaviest_first, nearest, assume_unique=True)
    return np.concatenate([nearest, others[: n - nearest.size]])
