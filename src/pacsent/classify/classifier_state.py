"""A fitted classifier as arrays, and back: everything that is read is checked before use."""

import json
from functools import partial
from typing import Any

import numpy as np

from pacsent.certify.labels import as_classes, as_labels
from pacsent.certify.near_duplicates import SKETCH
from pacsent.classify.fitting import CharacterWeight, OutOfFold
from pacsent.classify.options import as_ngram_sizes
from pacsent.sentences.encoder import check_encoder
from pacsent.storage import checked_tensor
from pacsent.text.ngrams import NGrams

_TARGETS = ("classes", "sets", "indicator")
_MAX_WEIGHT = 1e12  # with larger ones a sum in single precision may overflow
_weights = partial(checked_tensor, low=-_MAX_WEIGHT, below=_MAX_WEIGHT)


def to_arrays(classifier: Any) -> dict[str, np.ndarray]:
    """What `fit` learned, as arrays; values that JSON can hold as the bytes of `description`."""
    names, values = classifier.named_features_
    out_of_fold = classifier.out_of_fold_
    description = {
        "classes": classifier.classes_.tolist(),
        "inverse_temperature": classifier.inverse_temperature_.tolist(),
        "targets": classifier.target_type_,
        "selection": classifier.selection_,
        "names": names,
        "min_coverage": classifier.min_coverage_,
        "sizes": list(classifier.ngrams_.sizes),
        "character_sizes": list(classifier.characters_.sizes),
    }
    arrays = {
        "hashes": classifier.ngrams_.hashes,
        "idf": classifier.ngrams_.idf,
        "coef_ngrams": classifier.coef_ngrams_,
        "characters.hashes": classifier.characters_.hashes,
        "characters.idf": classifier.characters_.idf,
        "characters.coef": classifier.coef_characters_,
        "characters.intercept": classifier.intercept_characters_,
        "characters.share": np.array(classifier.character_weight_),
        "coef_dense": classifier.coef_dense_,
        "intercept": classifier.intercept_,
        "mean_vector": classifier.mean_vector_,
        "fingerprints": classifier.training_fingerprints_,
        "sketches": classifier.training_sketches_,
        "named": values,
        "out_of_fold.log_proba": out_of_fold.log_proba,
        "out_of_fold.labels": out_of_fold.labels,
    }
    if classifier.target_type_ != "classes":
        arrays["out_of_fold.labels"] = out_of_fold.labels.astype(np.uint8)
        arrays["thresholds"] = classifier.thresholds_
        description["min_labels"] = classifier.min_labels_
    text = json.dumps(description, ensure_ascii=False).encode()
    return {**arrays, "description": np.frombuffer(text, np.uint8)}


def from_arrays(state: Any, encoder: Any = None) -> dict[str, Any]:
    """The attributes of a fitted classifier from `to_arrays`, or ValueError where they are not.

    The arrays may have been written by somebody else: all shapes agree with each other, and all
    numbers are finite and in their range.
    """
    description = json.loads(checked_tensor(state, "description", np.uint8, (None,)).tobytes())
    names, targets = as_labels(description["classes"], name="classes"), description["targets"]
    if targets not in _TARGETS:
        raise ValueError(f"targets must be one of {_TARGETS}. Got {targets!r} instead")
    in_order = names == sorted(names) or targets == "indicator"
    if len(set(names)) != len(names) or len(names) < 2 or not in_order:
        raise ValueError("classes must be at least two, all different and in order")
    scales = description["inverse_temperature"]
    if not (
        isinstance(scales, list)
        and scales
        and all(type(scale) in (int, float) and 0 < scale < _MAX_WEIGHT for scale in scales)
    ):
        raise ValueError(f"inverse_temperature must be positive numbers. Got {scales!r} instead")
    named = description["names"]
    if not (isinstance(named, list) and all(isinstance(name, str) for name in named)):
        raise ValueError("names must be a list of strings")
    if not isinstance(description["selection"], dict):
        raise ValueError("selection must be an object")
    min_coverage = description["min_coverage"]
    if type(min_coverage) not in (int, float) or not 0 <= min_coverage <= 1:
        raise ValueError(f"min_coverage must be from 0 to 1. Got {min_coverage!r} instead")
    share = checked_tensor(state, "characters.share", np.float64, (2,), low=0)
    if (share > 1).any():
        raise ValueError(f"characters.share must be at most 1. Got {share.max()} instead")

    k = len(names)
    n_columns = 1 if k == 2 and targets == "classes" else k
    n_dims = None if encoder is None else check_encoder(encoder).n_dims
    coef_dense = _weights(state, "coef_dense", np.float32, (n_dims, n_columns))
    if coef_dense.size and encoder is None:
        raise ValueError("it has weights for sentence vectors and no encoder")
    ngrams = _ngrams(state, description["sizes"])
    characters = _ngrams(state, description["character_sizes"], "characters.")

    def weights(name, n, dtype=np.float32):
        return _weights(state, name, dtype, (n, n_columns))

    learned = {
        "classes_": as_classes(names),
        "target_type_": targets,
        "inverse_temperature_": np.array(scales),
        "selection_": description["selection"],
        "min_coverage_": float(min_coverage),
        "ngrams_": ngrams,
        "coef_ngrams_": weights("coef_ngrams", len(ngrams)),
        "characters_": characters,
        "coef_characters_": weights("characters.coef", len(characters)),
        "intercept_characters_": _weights(state, "characters.intercept", np.float64, (n_columns,)),
        "character_weight_": CharacterWeight(*share.tolist()),
        "encoder_": encoder,
        "coef_dense_": coef_dense,
        "intercept_": _weights(state, "intercept", np.float64, (n_columns,)),
        "mean_vector_": _weights(state, "mean_vector", np.float64, (n_dims,)),
        "training_fingerprints_": checked_tensor(state, "fingerprints", np.uint64, (None,)),
        "training_sketches_": checked_tensor(state, "sketches", np.uint32, (None, SKETCH)),
        "named_features_": (named, weights("named", len(named), np.float64)),
    }
    if targets == "classes":
        labels = checked_tensor(state, "out_of_fold.labels", np.int64, (None,), low=0, below=k)
    else:
        labels = checked_tensor(state, "out_of_fold.labels", np.uint8, (None, k), low=0, below=2)
        labels = labels.astype(bool)
        learned["thresholds_"] = checked_tensor(state, "thresholds", np.float64, (k,), low=0)
        min_labels = description["min_labels"]
        if min_labels not in (0, 1):
            raise ValueError(f"min_labels must be 0 or 1. Got {min_labels!r} instead")
        learned["min_labels_"] = int(min_labels)
    log_proba = checked_tensor(state, "out_of_fold.log_proba", np.float64, (len(labels), k))
    return learned | {"out_of_fold_": OutOfFold(log_proba, labels)}


def _ngrams(state, sizes, part=""):
    """The n-grams of words, or of characters, of a saved model."""
    hashes = checked_tensor(state, f"{part}hashes", np.uint64, (None,), low=1)
    if (hashes[1:] <= hashes[:-1]).any():
        raise ValueError(f"{part}hashes must be all different and in order")
    ngram_sizes = as_ngram_sizes(sizes)
    if ngram_sizes is None:
        raise ValueError(f"sizes must be two integers. Got {sizes!r} instead")
    idf = _weights(state, f"{part}idf", np.float32, (hashes.size,))
    return NGrams(ngram_sizes, hashes, idf, characters=bool(part))
