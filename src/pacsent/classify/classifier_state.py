"""A fitted classifier as arrays, and back: everything that is read is checked before use."""

import json
import math
from typing import Any

import numpy as np

from pacsent.classify.fitting import CharacterShare, OutOfFold
from pacsent.classify.inputs import as_classes, as_labels, as_ngram_sizes
from pacsent.storage import checked_tensor
from pacsent.text.near_duplicates import SKETCH
from pacsent.text.ngrams import NGrams

TARGETS = ("classes", "sets", "indicator")


def linear_arrays(model: Any, **described: Any) -> dict[str, np.ndarray]:
    """The linear model of an estimator as arrays, and further values that JSON can hold."""
    names, values = model.named_features_
    described |= {
        "selection": model.selection_,
        "names": names,
        "sizes": list(model.ngrams_.sizes),
        "character_sizes": list(model.characters_.sizes),
    }
    text = json.dumps(described, ensure_ascii=False).encode()
    return {
        "hashes": model.ngrams_.hashes,
        "idf": model.ngrams_.idf,
        "coef_ngrams": model.coef_ngrams_,
        "characters.hashes": model.characters_.hashes,
        "characters.idf": model.characters_.idf,
        "characters.coef": model.coef_characters_,
        "characters.intercept": model.intercept_characters_,
        "characters.share": np.array(model.character_share_),
        "coef_dense": model.coef_dense_,
        "intercept": model.intercept_,
        "mean_vector": model.mean_vector_,
        "fingerprints": model.training_fingerprints_,
        "sketches": model.training_sketches_,
        "named": values,
        "description": np.frombuffer(text, np.uint8),
    }


def read_description(state: Any) -> dict[str, Any]:
    """The values that `linear_arrays` keeps as JSON."""
    return json.loads(checked_tensor(state, "description", np.uint8, (None,)).tobytes())


def linear_attributes(state: Any, described: dict, vectorizer: Any, n_columns: int) -> dict:
    """The attributes of a linear model from `linear_arrays`, or ValueError where they are not."""
    ngrams = _ngrams(state, described["sizes"])
    characters = _ngrams(state, described["character_sizes"], "characters.")
    n, shape = len(ngrams), (len(characters), n_columns)
    known, n_dims = described["names"], vectorizer_dims(vectorizer)
    if not (isinstance(known, list) and all(isinstance(name, str) for name in known)):
        raise ValueError("names must be a list of strings")
    if not isinstance(described["selection"], dict):
        raise ValueError("selection must be an object")
    coef_dense = checked_tensor(state, "coef_dense", np.float32, (n_dims, n_columns))
    if coef_dense.size and vectorizer is None:
        raise ValueError("it has weights for sentence vectors and no vectorizer")
    return {
        "selection_": described["selection"],
        "ngrams_": ngrams,
        "characters_": characters,
        "coef_characters_": checked_tensor(state, "characters.coef", np.float32, shape),
        "intercept_characters_": checked_tensor(
            state, "characters.intercept", np.float64, (n_columns,)
        ),
        "character_share_": _share(state),
        "coef_ngrams_": checked_tensor(state, "coef_ngrams", np.float32, (n, n_columns)),
        "coef_dense_": coef_dense,
        "intercept_": checked_tensor(state, "intercept", np.float64, (n_columns,)),
        "mean_vector_": checked_tensor(state, "mean_vector", np.float64, (n_dims,)),
        "training_fingerprints_": checked_tensor(state, "fingerprints", np.uint64, (None,)),
        "training_sketches_": checked_tensor(state, "sketches", np.uint32, (None, SKETCH)),
        "named_features_": (
            known,
            checked_tensor(state, "named", np.float64, (len(known), n_columns)),
        ),
        "vectorizer_": vectorizer,
    }


def _share(state):
    share = checked_tensor(state, "characters.share", np.float64, (2,), low=0)
    if (share > 1).any():
        raise ValueError(f"characters.share must be at most 1. Got {share.max()} instead")
    return CharacterShare(*share.tolist())


def _ngrams(state, sizes, part=""):
    """The n-grams of words, or of characters, of a saved model."""
    hashes = checked_tensor(state, f"{part}hashes", np.uint64, (None,), low=1)
    if (hashes[1:] <= hashes[:-1]).any():
        raise ValueError(f"{part}hashes must be all different and in order")
    ngram_sizes = as_ngram_sizes(sizes)
    if ngram_sizes is None:
        raise ValueError(f"sizes must be two integers. Got {sizes!r} instead")
    idf = checked_tensor(state, f"{part}idf", np.float32, (hashes.size,))
    return NGrams(ngram_sizes, hashes, idf, characters=bool(part))


def to_arrays(classifier: Any) -> dict[str, np.ndarray]:
    """What `fit` learned, as arrays."""
    out_of_fold = classifier.out_of_fold_
    described = {
        "classes": classifier.classes_.tolist(),
        "inverse_temperature": classifier.inverse_temperature_.tolist(),
        "targets": classifier.targets_,
    }
    state = {"out_of_fold.log_proba": out_of_fold.log_proba}
    if classifier.targets_ == "classes":
        state["out_of_fold.labels"] = out_of_fold.labels
    else:
        state["out_of_fold.labels"] = out_of_fold.labels.astype(np.uint8)
        state["thresholds"] = classifier.thresholds_
        described["min_labels"] = classifier.min_labels_
    return {**linear_arrays(classifier, **described), **state}


def from_arrays(state: Any, vectorizer: Any = None) -> dict[str, Any]:
    """The attributes of a fitted classifier from `to_arrays`, or ValueError where they are not.

    The arrays may have been written by somebody else: all shapes agree with each other, and all
    numbers are finite and in their range.
    """
    described = read_description(state)
    names = as_labels(described["classes"], name="classes")
    classes, targets = as_classes(names), described["targets"]
    if targets not in TARGETS:
        raise ValueError(f"targets must be one of {TARGETS}. Got {targets!r} instead")
    in_order = names == sorted(names) or targets == "indicator"
    if len(set(names)) != len(names) or len(names) < 2 or not in_order:
        raise ValueError("classes must be at least two, all different and in order")
    scales = described["inverse_temperature"]
    if not (isinstance(scales, list) and scales and all(map(_is_positive, scales))):
        raise ValueError(f"inverse_temperature must be positive numbers. Got {scales!r} instead")
    k = len(names)
    learned = linear_attributes(
        state, described, vectorizer, 1 if k == 2 and targets == "classes" else k
    )
    learned |= {"classes_": classes, "inverse_temperature_": np.array(scales), "targets_": targets}
    if targets == "classes":
        of_fold = checked_tensor(state, "out_of_fold.labels", np.int64, (None,), low=0, below=k)
    else:
        of_fold = checked_tensor(
            state, "out_of_fold.labels", np.uint8, (None, k), low=0, below=2
        ).astype(bool)
        learned["thresholds_"] = checked_tensor(state, "thresholds", np.float64, (k,), low=0)
        if described["min_labels"] not in (0, 1):
            raise ValueError(f"min_labels must be 0 or 1. Got {described['min_labels']!r} instead")
        learned["min_labels_"] = int(described["min_labels"])
    shape = len(of_fold), k
    log_proba = checked_tensor(state, "out_of_fold.log_proba", np.float64, shape)
    return learned | {"out_of_fold_": OutOfFold(log_proba, of_fold)}


def _is_positive(value):
    return type(value) in (int, float) and 0 < value < math.inf


def vectorizer_dims(vectorizer: Any) -> int | None:
    """Length of the vectors of a vectorizer; None without one."""
    return None if vectorizer is None else int(vectorizer._n_features_out)
