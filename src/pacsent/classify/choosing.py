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

_POOL = 5_000  # texts that clusters are made of, at most
_UNSURE = 10  # times n texts with the smallest margin, of which n are spread
_DIMS = 50  # of the vectors, where the model has none


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
        largest = np.sort(model.predict_proba(texts), axis=1)
        margins = largest[:, -1] - largest[:, -2]  # (n_texts,)
        pool = np.argsort(margins, kind="stable")[: _UNSURE * n]
        weights = 1.0 - margins[pool] + 1e-6
    else:
        pool = np.sort(rng.permutation(len(texts))[: max(_POOL, _UNSURE * n)])
        weights = np.ones(pool.size)

    # Texts that repeat no earlier one and none that is labelled.
    clusters = near_duplicate_clusters([*labelled, *(texts[i] for i in pool)])
    _, first = np.unique(clusters, return_index=True)
    first = np.sort(first[first >= len(labelled)]) - len(labelled)
    if first.size >= n:
        pool = pool[first]
        weights = weights[first]

    points = _make_points(model, [texts[i] for i in pool])
    return pool[_spread(points, weights, n, rng)]


def _make_points(model: Any, texts: list[str]) -> np.ndarray:
    """Texts as points that are near each other where they say the same, of length one."""
    encoder = _find_encoder(model, texts)
    if encoder is not None:
        points = np.asarray(encoder.transform(texts), np.float64)
    else:
        X = NGrams.of(texts, (1, 1)).tf_idf(texts).astype(np.float64)
        if X.shape[1] == 0:
            points = np.zeros((len(texts), 1))
        elif min(X.shape) <= _DIMS:
            points = X.toarray()
        else:
            points = TruncatedSVD(_DIMS, random_state=0).fit_transform(X)
    return points / np.maximum(np.linalg.norm(points, axis=1, keepdims=True), 1e-12)


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
    if len(points) <= n:
        return np.argsort(-weights, kind="stable")
    if n == 1:
        return np.array([int(np.argmax(weights))])
    n_different = len(np.unique(points.round(9), axis=0))
    clustering = KMeans(min(n, n_different), n_init=1, random_state=rng)
    clustering.fit(points, sample_weight=weights)
    distances = np.square(points - clustering.cluster_centers_[clustering.labels_]).sum(axis=1)
    order = np.lexsort((distances, clustering.labels_))
    nearest = order[np.unique(clustering.labels_[order], return_index=True)[1]]
    nearest = nearest[np.argsort(-weights[nearest], kind="stable")]
    others = np.setdiff1d(np.argsort(-weights, kind="stable"), nearest, assume_unique=True)
    return np.concatenate([nearest, others[: n - nearest.size]])
