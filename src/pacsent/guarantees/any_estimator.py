"""One way to ask any classifier: scikit-learn's, a pipeline, a fitted model, a function."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.special import log_expit
from sklearn.base import clone
from sklearn.utils.validation import has_fit_parameter

from pacsent.classify import TextClassifier, fitting
from pacsent.classify.fitting import OutOfFold
from pacsent.classify.inputs import as_column, few
from pacsent.classify.linear_text import LinearText
from pacsent.classify.multilabel import known_sets, rarest
from pacsent.guarantees.samples import as_samples, n_samples, taken
from pacsent.maths.temperature import log_probabilities

_SMALLEST = 1e-300  # a probability of 0 has a logarithm that can be compared and stored


class Answers(NamedTuple):
    """What a classifier says about some rows."""

    labels: np.ndarray  # (n,); of several labels a text (n, n_labels) of bool
    log_proba: np.ndarray | None  # (n, n_classes); None where it gives labels alone


def answers(estimator: Any, classes: np.ndarray | None, X: Any, several: bool = False) -> Answers:
    """Ask a classifier for labels and, where it has them, logarithms of probabilities.

    Decision values take the place of probabilities where there are none: any score keeps the
    guarantees of label sets and of abstaining. `classes` are the classes in the order of columns;
    `several` says that each text has a set of them.

    Examples
    --------
    >>> found = answers(lambda texts: ["yes" for _ in texts], None, ["a film"])
    >>> found.labels.tolist(), found.log_proba
    (['yes'], None)
    """
    n = n_samples(X)
    if isinstance(estimator, TextClassifier):  # one pass for both
        log_proba = estimator.predict_log_proba(X)
        if estimator.targets_ != "classes":
            return Answers(estimator.given(np.exp(log_proba)), log_proba)
        return Answers(estimator.classes_[log_proba.argmax(axis=1)], log_proba)
    given = estimator.predict(X) if hasattr(estimator, "predict") else estimator(X)
    if several and classes is not None:
        found = known_sets(classes, given, n, len(classes))
        return Answers(found, _scores(estimator, classes, X, n, several))
    if getattr(given, "ndim", 1) == 2 and given.shape[1] > 1 and classes is not None:
        log_proba = _logarithms(np.asarray(given, np.float64), n, classes, estimator)
        return Answers(classes[log_proba.argmax(axis=1)], log_proba)
    labels = as_column(given, "predictions")
    if len(labels) != n:
        raise ValueError(
            f"The estimator must predict one label for each of the {n:,} rows. {name_of(estimator)}"
            f" gave {len(labels):,} instead."
        )
    return Answers(np.asarray(labels), _scores(estimator, classes, X, n))


def asked(classifier: Any, X: Any, classes: np.ndarray) -> Answers:
    """`answers` of a classifier, certified or not."""
    return (
        classifier.answers(X) if hasattr(classifier, "answers") else answers(classifier, classes, X)
    )


def samples_for(classifier: Any, X: Any) -> Any:
    """X as this classifier takes it: texts alone for a TextClassifier."""
    model = getattr(classifier, "estimator_", classifier)
    return as_samples(X, only_texts=isinstance(model, LinearText))


def gives_several(classifier: Any) -> bool:
    """Whether a classifier gives sets of labels."""
    return getattr(classifier, "targets_", "classes") != "classes"


def gives_scores(estimator: Any) -> bool:
    """Whether a classifier has probabilities or decision values."""
    return hasattr(estimator, "predict_proba") or hasattr(estimator, "decision_function")


def _scores(estimator, classes, X, n, several=False):
    if hasattr(estimator, "predict_proba"):
        found = estimator.predict_proba(X)
        if several and isinstance(found, list):  # of scikit-learn's trees and neighbours
            found = np.stack([each[:, 1] for each in found], axis=1)
        return _logarithms(np.asarray(found), n, classes, estimator)
    if not hasattr(estimator, "decision_function"):
        return None
    values = np.asarray(estimator.decision_function(X), np.float64).reshape(n, -1)
    if values.shape[1] not in (1, len(classes)) or not np.isfinite(values).all():
        return None  # one-versus-one votes: no value for each class
    return log_expit(values) if several else log_probabilities(values, 1.0)


def _logarithms(probabilities, n, classes, estimator):
    shape = (n, len(classes))
    if probabilities.shape != shape:
        raise ValueError(
            f"Probabilities must be a table of {n:,} rows and one column for each of the "
            f"{len(classes)} classes ({few(classes)}). {name_of(estimator)} gave the shape "
            f"{probabilities.shape} instead."
        )
    if not (np.isfinite(probabilities).all() and (probabilities >= 0).all()):
        raise ValueError(
            f"Probabilities must be finite and at least 0. {name_of(estimator)} gave others."
        )
    return np.log(np.maximum(probabilities, _SMALLEST))


def classes_of(estimator: Any, given: Any, labels: Sequence) -> np.ndarray:
    """The classes in the order of columns: the estimator's own, those given, or those that occur.

    Examples
    --------
    >>> classes_of(len, ["yes", "no"], ["no", "no"]).tolist()
    ['yes', 'no']
    """
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


def fitted(estimator: Any, X: Any, y: np.ndarray, weights: Any, groups: Any) -> Any:
    """A clone of an estimator, fitted; groups go to one that takes them."""
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


def out_of_fold(
    estimator: Any, X: Any, y: np.ndarray, classes: np.ndarray, together: tuple, seed: int
) -> OutOfFold:
    """Probabilities of rows by classifiers that were fitted on the other folds.

    `together` is (groups or None, numbers of copies): rows with one number are left out together.
    """
    groups, copies = together
    several = y.ndim == 2
    kinds, target = (rarest(y), y.astype(int)) if several else (y, classes[y])
    folds = fitting.folds_for(kinds, np.random.default_rng(seed), groups, copies)
    found = np.full((len(y), classes.size), np.log(_SMALLEST))
    place = {name: at for at, name in enumerate(classes.tolist())}
    for left_out in filter(len, folds.held_out()):
        rest = np.setdiff1d(np.arange(len(y)), left_out)
        some = None if groups is None else groups[rest]
        model = fitted(estimator, taken(X, rest), target[rest], None, some)
        known = classes if several else model.classes_
        columns = np.array([place[name] for name in known.tolist()])
        scores = _scores(model, known, taken(X, left_out), left_out.size, several)
        found[np.ix_(left_out, columns)] = scores
    return OutOfFold(found[folds.judged], y[folds.judged])


def name_of(estimator: Any) -> str:
    """What messages call a classifier.

    Examples
    --------
    >>> name_of(len), name_of(TextClassifier())
    ('len', 'TextClassifier')
    """
    return getattr(estimator, "__name__", type(estimator).__name__)
