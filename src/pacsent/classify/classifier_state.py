"""A fitted classifier as arrays, and back: everything that is read is checked before use."""

import json
import math
from typing import Any

import numpy as np

from pacsent.classify.fitting import OutOfFold
from pacsent.classify.inputs import as_classes, as_labels, as_ngram_sizes
from pacsent.classify.ngrams import NGrams
from pacsent.storage import checked_tensor


def to_arrays(classifier: Any) -> dict[str, np.ndarray]:
    """What `fit` learned, as arrays."""
    names, values = classifier.named_features_
    described: dict[str, Any] = {
        "classes": classifier.classes_.tolist(),
        "selection": classifier.selection_,
        "names": names,
        "inverse_temperature": classifier.inverse_temperature_,
        "sizes": list(classifier.ngrams_.sizes),
    }
    state = {
        "hashes": classifier.ngrams_.hashes,
        "idf": classifier.ngrams_.idf,
        "coef_ngrams": classifier.coef_ngrams_,
        "coef_dense": classifier.coef_dense_,
        "intercept": classifier.intercept_,
        "mean_vector": classifier.mean_vector_,
        "fingerprints": classifier.training_fingerprints_,
        "out_of_fold.log_proba": classifier.out_of_fold_.log_proba,
        "out_of_fold.labels": classifier.out_of_fold_.labels,
        "named": values,
    }
    text = json.dumps(described, ensure_ascii=False).encode()
    return {**state, "description": np.frombuffer(text, np.uint8)}


def from_arrays(state: Any, vectorizer: Any = None) -> dict[str, Any]:
    """The attributes of a fitted classifier from `to_arrays`, or ValueError where they are not.

    The arrays may have been written by somebody else: all shapes agree with each other, and all
    numbers are finite and in their range.
    """
    description = checked_tensor(state, "description", np.uint8, (None,))
    described = json.loads(description.tobytes())
    names = as_labels(described["classes"], name="classes")
    classes = as_classes(names)
    if len(set(names)) != len(names) or len(names) < 2 or names != sorted(names):
        raise ValueError("classes must be at least two, all different and in order")
    n_columns = 1 if len(names) == 2 else len(names)
    hashes = checked_tensor(state, "hashes", np.uint64, (None,), low=1)
    if (hashes[1:] <= hashes[:-1]).any():
        raise ValueError("hashes must be all different and in order")
    n = hashes.size
    sizes = as_ngram_sizes(described["sizes"])
    if sizes is None:
        raise ValueError(f"sizes must be two integers. Got {described['sizes']!r} instead")
    known, n_dims = described["names"], vectorizer_dims(vectorizer)
    if not (isinstance(known, list) and all(isinstance(name, str) for name in known)):
        raise ValueError("names must be a list of strings")
    scale = described["inverse_temperature"]
    if type(scale) not in (int, float) or not 0 < scale < math.inf:
        raise ValueError(f"inverse_temperature must be positive and finite. Got {scale!r} instead")
    if not isinstance(described["selection"], dict):
        raise ValueError("selection must be an object")
    of_fold = checked_tensor(
        state, "out_of_fold.labels", np.int64, (None,), low=0, below=len(names)
    )
    shape = of_fold.size, len(names)
    log_proba = checked_tensor(state, "out_of_fold.log_proba", np.float64, shape)
    return {
        "classes_": classes,
        "selection_": described["selection"],
        "inverse_temperature_": float(scale),
        "ngrams_": NGrams(sizes, hashes, checked_tensor(state, "idf", np.float32, (n,))),
        "coef_ngrams_": checked_tensor(state, "coef_ngrams", np.float32, (n, n_columns)),
        "coef_dense_": checked_tensor(state, "coef_dense", np.float32, (n_dims, n_columns)),
        "intercept_": checked_tensor(state, "intercept", np.float64, (n_columns,)),
        "mean_vector_": checked_tensor(state, "mean_vector", np.float64, (n_dims,)),
        "training_fingerprints_": checked_tensor(state, "fingerprints", np.uint64, (None,)),
        "out_of_fold_": OutOfFold(log_proba, of_fold),
        "named_features_": (
            known, checked_tensor(state, "named", np.float64, (len(known), n_columns))
        ),
        "vectorizer_": vectorizer,
    }  # fmt: skip


def vectorizer_dims(vectorizer: Any) -> int | None:
    """How long the vectors of a vectorizer are; None where there is none: its absence is noticed.

    Examples
    --------
    >>> vectorizer_dims(None)
    """
    return None if vectorizer is None else int(vectorizer._n_features_out)
