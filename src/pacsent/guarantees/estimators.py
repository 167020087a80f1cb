"""Predictions of any classifier: scikit-learn's, a pipeline, a fitted model, a function.

A classifier with `predict_with_scores(X)`, which returns labels and log-probabilities, is asked for
both in one pass; one whose attribute `only_texts` is true receives lists of texts.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.special import log_expit
from sklearn.base import clone
from sklearn.utils.validation import has_fit_parameter

from pacsent.classify.inputs import as_column, few
from pacsent.classify.multilabel import known_sets
from pacsent.guarantees.samples import as_samples, n_samples
from pacsent.maths.temperature import log_probabilities

_MIN_PROBABILITY = 1e-300  # a probability of 0 has a logarithm that can be compared and stored


class Predictions(NamedTuple):
    """Labels of rows, and log-probabilities where the classifier has scores."""

    labels: np.ndarray  # (n,); multi-label (n, n_labels) of bool
    log_proba: np.ndarray | None  # (n, n_classes)


def predict_any(
    classifier: Any, classes: np.ndarray | None, X: Any, multilabel: bool = False
) -> Predictions:
    """Labels of any classifier and, where it has them, log-probabilities.

    Decision values replace missing probabilities: any score keeps the guarantees of prediction sets
    and of abstention. `classes` are the classes in the order of columns; `multilabel` states that
    each text has a set of them.
    """
    if hasattr(classifier, "predict_with_scores"):
        return Predictions(*classifier.predict_with_scores(X))
    n = n_samples(X)
    answers = classifier.predict(X) if hasattr(classifier, "predict") else classifier(X)
    if multilabel and classes is not None:
        labels = known_sets(classes, answers, n, len(classes))
        return Predictions(labels, _scores(classifier, classes, X, n, multilabel))
    if getattr(answers, "ndim", 1) == 2 and answers.shape[1] > 1 and classes is not None:
        log_proba = _logarithms(answers, n, classes, classifier)
        return Predictions(classes[log_proba.argmax(axis=1)], log_proba)
    column = as_column(answers, "predictions")
    if len(column) != n:
        raise ValueError(
            f"The estimator must predict one label for each of the {n:,} rows. "
            f"{name_of(classifier)} gave {len(column):,} instead."
        )
    if classes is not None:
        check_spelling(column, classes.tolist())
    return Predictions(np.asarray(column), _scores(classifier, classes, X, n))


def check_spelling(predictions: Sequence, classes: Sequence) -> None:
    """Reject predictions that are a class but for their type, case or padding: all were wrong."""
    spelling = {str(name).strip().casefold(): name for name in classes}
    for label in set(predictions) - set(classes):
        name = spelling.get(str(label).strip().casefold())
        if name is not None:
            raise ValueError(
                f"Predictions must be spelled as the classes. Got {label!r} "
                f"({type(label).__name__}) for {name!r} ({type(name).__name__})."
            )


def are_predictions(model: Any) -> bool:
    """Whether these are predictions themselves, such as a list or an array, and no classifier."""
    return not hasattr(model, "predict") and not callable(model)


def samples_for(classifier: Any, X: Any) -> Any:
    """X as this classifier takes it."""
    model = getattr(classifier, "estimator_", classifier)
    return as_samples(X, only_texts=getattr(model, "only_texts", False))


def is_multilabel(classifier: Any) -> bool:
    """Whether a classifier gives sets of labels."""
    return getattr(classifier, "targets_", "classes") != "classes"


def _scores(estimator, classes, X, n, multilabel=False):
    if hasattr(estimator, "predict_proba"):
        proba = estimator.predict_proba(X)
        if multilabel and isinstance(proba, list):  # of scikit-learn's trees and neighbours
            proba = np.stack([of_label[:, 1] for of_label in proba], axis=1)
        return _logarithms(proba, n, classes, estimator)
    if not hasattr(estimator, "decision_function"):
        return None
    values = np.asarray(estimator.decision_function(X), np.float64).reshape(n, -1)
    # One-versus-one values are of pairs of classes; with three classes there are three of them.
    is_of_pairs = any(
        name.endswith("decision_function_shape") and value == "ovo"
        for name, value in getattr(estimator, "get_params", dict)().items()
    )
    if is_of_pairs or values.shape[1] not in (1, len(classes)) or not np.isfinite(values).all():
        return None
    return log_expit(values) if multilabel else log_probabilities(values, 1.0)


def _logarithms(probabilities, n, classes, estimator):
    columns = getattr(probabilities, "columns", None)
    is_named = columns is not None and type(columns).__name__ != "RangeIndex"
    if is_named and set(columns) == set(classes.tolist()):
        probabilities = np.column_stack([probabilities[name] for name in classes.tolist()])
    probabilities = np.asarray(probabilities, np.float64)
    if probabilities.shape != (n, len(classes)):
        raise ValueError(
            f"Probabilities must be a table of {n:,} rows and one column for each of the "
            f"{len(classes)} classes ({few(classes)}). {name_of(estimator)} gave the shape "
            f"{probabilities.shape} instead."
        )
    if not (np.isfinite(probabilities).all() and (probabilities >= 0).all()):
        raise ValueError(
            f"Probabilities must be finite and at least 0. {name_of(estimator)} gave others."
        )
    return np.log(np.maximum(probabilities, _MIN_PROBABILITY))


def classes_of(estimator: Any, given: Any, labels: Sequence) -> np.ndarray:
    """The classes in the order of columns: the estimator's own, the given, or those that occur."""
    own = getattr(estimator, "classes_", None)
    if own is None:
        own = sorted(set(labels)) if given is None else as_column(given, "classes")
    elif given is not None and list(given) != np.asarray(own).tolist():
        raise ValueError(
            f"classes must be those of the estimator ({few(own)}), or None. Got {few(given)} "
            "instead."
        )
    classes = np.asarray(own)
    if classes.ndim != 1 or len(set(classes.tolist())) != len(classes) or len(classes) < 2:
        raise ValueError(
            f"classes must be at least two different labels. Got {few(classes.tolist())} instead."
        )
    return classes


def fit_clone(estimator: Any, X: Any, y: np.ndarray, weights: Any, groups: Any) -> Any:
    """A clone of an estimator, fitted; groups are passed if its `fit` takes them."""
    options = {}
    if weights is not None:
        if not has_fit_parameter(estimator, "sample_weight"):
            raise ValueError(
                f"sample_weight must be None for an estimator whose fit does not take it. "
                f"{name_of(estimator)} does not. Leave it out, or set class_weight there."
            )
        options["sample_weight"] = weights
    if groups is not None and has_fit_parameter(estimator, "groups"):
        options["groups"] = groups
    return clone(estimator).fit(X, y, **options)


def name_of(estimator: Any) -> str:
    """The name of a classifier in messages."""
    return getattr(estimator, "__name__", type(estimator).__name__)
