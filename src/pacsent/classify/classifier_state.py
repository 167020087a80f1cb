"""A fitted classifier as arrays, and back: everything that is read is checked before use."""

import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from pacsent.certify.labels import as_classes, as_labels
from pacsent.classify.fitted_classifier import MAX_WEIGHT, FittedTextClassifier, TextModel
from pacsent.classify.fitting import CharacterWeight, OutOfFold
from pacsent.classify.multilabel import LabelThresholds
from pacsent.classify.options import check_ngram_sizes
from pacsent.sentences.encoder import check_encoder
from pacsent.storage import checked_tensor
from pacsent.storage.array_fields import read_fields, to_tensors
from pacsent.text.ngrams import NGrams

_TARGET_TYPES = ("classes", "sets", "indicator")


def to_arrays(fitted: FittedTextClassifier) -> dict[str, np.ndarray]:
    """The state as arrays; values that JSON can contain as the bytes of `description`.

    Fields with a `StoredArray` annotation are tensors; the encoder is saved beside them.
    """
    model = fitted.model
    names, named_values = fitted.named_features
    description = {
        "classes": fitted.classes.tolist(),
        "inverse_temperature": fitted.inverse_temperatures.tolist(),
        "targets": fitted.target_type,
        "selection": fitted.selection,
        "names": names,
        "min_coverage": fitted.min_coverage,
        "sizes": list(model.ngrams.sizes),
        "character_sizes": list(model.characters.sizes),
    }
    arrays = to_tensors(model) | to_tensors(fitted)
    arrays["hashes"] = model.ngrams.hashes
    arrays["idf"] = model.ngrams.idf
    arrays["characters.hashes"] = model.characters.hashes
    arrays["characters.idf"] = model.characters.idf
    arrays["characters.share"] = np.array(model.character_weight)
    arrays["named"] = named_values
    arrays["out_of_fold.log_proba"] = fitted.out_of_fold.log_proba
    arrays["out_of_fold.labels"] = fitted.out_of_fold.labels
    if fitted.label_thresholds is not None:
        arrays["out_of_fold.labels"] = fitted.out_of_fold.labels.astype(np.uint8)
        arrays["thresholds"] = fitted.label_thresholds.values
        description["min_labels"] = fitted.label_thresholds.min_labels

    text = json.dumps(description, ensure_ascii=False).encode()
    arrays["description"] = np.frombuffer(text, np.uint8)
    return arrays


def from_arrays(state: Mapping[str, np.ndarray], encoder: Any = None) -> FittedTextClassifier:
    """The inverse of `to_arrays`; ValueError for arrays that it cannot have written.

    The arrays may have been written by somebody else: all shapes agree with each other, and all
    numbers are finite and in their range.
    """
    description_bytes = checked_tensor(state, "description", np.uint8, (None,))
    description = json.loads(description_bytes.tobytes())
    classes, target_type = _read_classes(description)
    _check_description(description)
    character_weight = _read_character_weight(state)
    ngrams = _read_ngrams(state, description["sizes"])
    characters = _read_ngrams(state, description["character_sizes"], "characters.")

    # The arrays of the model and of the classifier must agree on these sizes.
    names = description["names"]
    n_names = len(names)
    n_classes = len(classes)
    is_binary = n_classes == 2 and target_type == "classes"
    n_columns = 1 if is_binary else n_classes
    n_dims = None
    if encoder is not None:
        n_dims = check_encoder(encoder).n_dims
    sizes = {
        "n_columns": n_columns,
        "n_dims": n_dims,
        "n_ngrams": len(ngrams),
        "n_character_ngrams": len(characters),
        "n_names": n_names,
        "n_classes": n_classes,
    }
    model = TextModel(
        ngrams=ngrams,
        encoder=encoder,
        characters=characters,
        character_weight=character_weight,
        **read_fields(TextModel, state, sizes),
    )
    if model.coef_dense.size and encoder is None:
        raise ValueError("it has weights for sentence vectors and no encoder")

    named_values = checked_tensor(
        state,
        "named",
        np.float64,
        (n_names, n_columns),
        low=-MAX_WEIGHT,
        below=MAX_WEIGHT,
    )
    label_thresholds = _read_label_thresholds(state, description, target_type, n_classes)
    return FittedTextClassifier(
        classes=classes,
        target_type=target_type,
        model=model,
        inverse_temperatures=np.array(description["inverse_temperature"]),
        label_thresholds=label_thresholds,
        min_coverage=float(description["min_coverage"]),
        selection=description["selection"],
        out_of_fold=_read_out_of_fold(state, target_type, n_classes),
        named_features=(names, named_values),
        **read_fields(FittedTextClassifier, state, sizes),
    )


def _read_classes(description: dict[str, Any]) -> tuple[np.ndarray, str]:
    """Classes and target type."""
    names = as_labels(description["classes"], name="classes")
    target_type = description["targets"]
    if target_type not in _TARGET_TYPES:
        raise ValueError(f"targets must be one of {_TARGET_TYPES}. Got {target_type!r} instead")

    # The columns of an indicator matrix may have any order.
    is_in_order = names == sorted(names) or target_type == "indicator"
    n_different = len(set(names))
    if n_different != len(names) or n_different < 2 or not is_in_order:
        raise ValueError("classes must be at least two, all different and in order")
    return as_classes(names), target_type


def _check_description(description: dict[str, Any]) -> None:
    """Check the values of `description` that need no array."""
    scales = description["inverse_temperature"]
    are_positive = isinstance(scales, list) and all(map(_is_positive_weight, scales))
    if not (are_positive and scales):
        raise ValueError(f"inverse_temperature must be positive numbers. Got {scales!r} instead")

    names = description["names"]
    are_strings = isinstance(names, list) and all(isinstance(name, str) for name in names)
    if not are_strings:
        raise ValueError("names must be a list of strings")

    if not isinstance(description["selection"], dict):
        raise ValueError("selection must be an object")

    min_coverage = description["min_coverage"]
    if type(min_coverage) not in (int, float) or not 0 <= min_coverage <= 1:
        raise ValueError(f"min_coverage must be from 0 to 1. Got {min_coverage!r} instead")


def _is_positive_weight(value: Any) -> bool:
    return type(value) in (int, float) and 0 < value < MAX_WEIGHT


def _read_character_weight(state: Mapping[str, np.ndarray]) -> CharacterWeight:
    """The weight of the n-grams of characters in the decision."""
    values = checked_tensor(state, "characters.share", np.float64, (2,), low=0)
    if (values > 1).any():
        raise ValueError(f"characters.share must be at most 1. Got {values.max()} instead")
    least, usual = values.tolist()
    return CharacterWeight(least, usual)


def _read_ngrams(state: Mapping[str, np.ndarray], sizes: Any, prefix: str = "") -> NGrams:
    """The n-grams of words, or of characters, of a saved model."""
    hashes = checked_tensor(state, f"{prefix}hashes", np.uint64, (None,), low=1)
    if (hashes[1:] <= hashes[:-1]).any():
        raise ValueError(f"{prefix}hashes must be all different and in order")

    ngram_sizes = check_ngram_sizes(sizes)
    idf = checked_tensor(
        state, f"{prefix}idf", np.float32, (hashes.size,), low=-MAX_WEIGHT, below=MAX_WEIGHT
    )
    return NGrams(ngram_sizes, hashes, idf, characters=bool(prefix))


def _read_label_thresholds(
    state: Mapping[str, np.ndarray], description: dict[str, Any], target_type: str, n_classes: int
) -> LabelThresholds | None:
    """Thresholds of labels; None with one class per text."""
    if target_type == "classes":
        return None

    values = checked_tensor(state, "thresholds", np.float64, (n_classes,), low=0)
    min_labels = description["min_labels"]
    if min_labels not in (0, 1):
        raise ValueError(f"min_labels must be 0 or 1. Got {min_labels!r} instead")
    return LabelThresholds(values, int(min_labels))


def _read_out_of_fold(
    state: Mapping[str, np.ndarray], target_type: str, n_classes: int
) -> OutOfFold:
    """Out-of-fold predictions and labels; several labels per text as (n, n_classes) of bool."""
    name = "out_of_fold.labels"
    if target_type == "classes":
        labels = checked_tensor(state, name, np.int64, (None,), low=0, below=n_classes)
    else:
        labels = checked_tensor(state, name, np.uint8, (None, n_classes), low=0, below=2)
        labels = labels.astype(bool)

    shape = (len(labels), n_classes)
    log_proba = checked_tensor(state, "out_of_fold.log_proba", np.float64, shape)
    return OutOfFold(log_proba, labels)
