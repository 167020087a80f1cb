"""Any classifier: the rows (texts, arrays, tables, objects) that it takes, and what it predicts.

A classifier with `predict_with_scores(X)`, which returns labels and log-probabilities, is asked for
both in one pass; one whose attribute `only_texts` is true receives lists of texts.
"""

import hashlib
import json
from typing import Any, NamedTuple

import numpy as np
from scipy.special import log_expit

from pacsent.arrays import are_among
from pacsent.certify.columns import as_column, few
from pacsent.certify.labels import as_labels, to_indicator
from pacsent.certify.scores import log_probabilities
from pacsent.storage import row_bytes
from pacsent.text.rows import as_samples, is_texts, n_samples, rows_with_text, text_column
from pacsent.text.rows import select_rows as select_rows

MIN_PROBABILITY = 1e-300  # a probability of 0 has a logarithm that can be compared and stored


def seen_before(model: Any, X: Any) -> tuple[np.ndarray, np.ndarray]:
    """Which rows a model is known to be fitted on, and which texts are near-duplicates of these."""
    exact = near = np.zeros(n_samples(X), bool)
    known, known_sketches = recorded(model, "fingerprints"), recorded(model, "sketches")
    kept = rows_with_text(X)
    if known is not None:
        exact = are_among(row_fingerprints(X), known)
    if known_sketches is not None and is_texts(text_column(X)):
        from pacsent.certify.near_duplicates import known_texts  # loads compiled kernels

        near = known_texts(known_sketches).are_near(text_column(X)) & ~exact
    if kept is not None:
        is_text = np.zeros(n_samples(X), bool)
        is_text[kept] = True
        return exact & is_text, near & is_text
    return exact, near


def recorded(model: Any, what: str) -> np.ndarray | None:
    """The "fingerprints" or "sketches" of what a model, or the one inside, was fitted on."""
    own = getattr(model, f"training_{what}_", None)
    return getattr(getattr(model, "estimator_", None), f"training_{what}_", own)


def row_fingerprints(X: Any) -> np.ndarray:
    """A 64-bit hash of each row, (n,): equal rows have equal hashes."""
    X = text_column(X)
    if is_texts(X):
        from pacsent.text.ngrams import fingerprints  # loads compiled kernels

        return fingerprints(X)
    hashes = (hashlib.blake2b(row, digest_size=8).digest() for row in row_bytes(X))
    return np.fromiter((int.from_bytes(h, "little") for h in hashes), np.uint64, n_samples(X))


def digests(model: Any, X: Any, labels: Any, predictions: Any) -> dict[str, str]:
    """SHA-256 of what a certificate is about, as far as it is given and can be read."""
    values = {"labels": digest(labels), "predictions": digest(predictions)}
    if X is not None:
        values["texts"] = digest(X)
    model = getattr(model, "estimator_", model)
    if hasattr(model, "state"):
        state = model.state()
        values["model"] = state.digest()
        values["weights"] = state.digest(with_word_vectors=False)
    return values


def check_unchanged(model: Any, digests: dict[str, str]) -> None:
    """Refuse a model whose weights are not those that a certificate recorded.

    Word vectors are not read: this takes milliseconds. Where nothing is recorded, as for models of
    other libraries, the certificate says so.
    """
    stated = digests.get("weights")
    if stated is None:
        return
    own = model.state().digest(with_word_vectors=False) if hasattr(model, "state") else "none"
    if own != stated:
        raise ValueError(
            "The model must be the one that was certified (SHA-256 of its weights "
            f"{stated[:12]}...). Got another ({own[:12]}...): it was fitted or changed since, so "
            "that neither its certificate nor its calibration set is about it. Calibrate it again, "
            "on labelled texts that it was not fitted on."
        )


def digest(values: Any) -> str:
    """SHA-256 of labels or texts, or of the rows of an array or a table, in their order."""
    values = text_column(values)
    if isinstance(values, list) and not np.ndim(next(iter(values), "")):
        return hashlib.sha256(json.dumps(values, default=repr).encode()).hexdigest()
    return hashlib.sha256(row_fingerprints(values).tobytes()).hexdigest()


class Predictions(NamedTuple):
    """Labels of rows, and log-probabilities where the classifier has scores."""

    labels: np.ndarray  # (n,); multi-label (n, n_labels) of bool
    log_proba: np.ndarray | None  # (n, n_classes)


def predict_any(classifier: Any, classes: np.ndarray | None, X: Any) -> Predictions:
    """Labels of any classifier and, where it has them, log-probabilities.

    Decision values replace missing probabilities: any score keeps the guarantees of prediction sets
    and of abstention. `classes` are in the order of columns.
    """
    if hasattr(classifier, "predict_with_scores"):
        return Predictions(*classifier.predict_with_scores(X))
    n = n_samples(X)
    answers = _ask(classifier, X)

    first: Any = next(iter(answers), None) if isinstance(answers, list | tuple) else None
    n_columns = np.size(first) if np.ndim(first) else np.prod(getattr(answers, "shape", ())[1:])
    if n_columns > 1 and classes is not None:
        log_proba = _logarithms(answers, n, classes, classifier)
        return Predictions(classes[log_proba.argmax(axis=1)], log_proba)

    column = as_column(answers, "predictions")
    if len(column) != n:
        raise ValueError(
            f"The estimator must predict one label for each of the {n:,} rows. "
            f"{name_of(classifier)} gave {len(column):,} instead."
        )
    column = as_labels(column, n, "predictions")
    # A prediction that is a class but for its type, case or padding would count as wrong.
    names = [] if classes is None else classes.tolist()
    spelling = {str(name).strip().casefold(): name for name in names}
    for label in set(column) - set(names):
        name = spelling.get(str(label).strip().casefold())
        if name is not None:
            raise ValueError(
                f"Predictions must be spelled as the classes. Got {label!r} "
                f"({type(label).__name__}) for {name!r} ({type(name).__name__})."
            )
    if names and column and isinstance(column[0], str) != isinstance(names[0], str):
        raise ValueError(
            f"Predictions must be of the type of the classes ({type(names[0]).__name__}: "
            f"{few(names)}). Got {column[0]!r} ({type(column[0]).__name__}) instead."
        )
    return Predictions(np.asarray(column), _scores(classifier, classes, X, n))


def predict_label_sets(classifier: Any, classes: np.ndarray, X: Any) -> Predictions:
    """Sets of labels of any classifier as a matrix and, where it has them, log-probabilities."""
    if hasattr(classifier, "predict_with_scores"):
        return Predictions(*classifier.predict_with_scores(X))
    n = n_samples(X)
    labels = to_indicator(classes, _ask(classifier, X), n, len(classes))
    return Predictions(labels, _scores(classifier, classes, X, n, multilabel=True))


def _ask(classifier, X):
    return classifier.predict(X) if hasattr(classifier, "predict") else classifier(X)


def are_predictions(model: Any) -> bool:
    """Whether these are predictions themselves, such as a list or an array, and no classifier."""
    return not hasattr(model, "predict") and not callable(model)


def samples_for(classifier: Any, X: Any) -> Any:
    """X as this classifier takes it."""
    model = getattr(classifier, "estimator_", classifier)
    return as_samples(X, only_texts=getattr(model, "only_texts", False))


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
    columns = getattr(probabilities, "column_names", getattr(probabilities, "columns", None))
    if columns is not None and type(columns).__name__ != "RangeIndex":
        if set(columns) != set(classes.tolist()):
            raise ValueError(
                f"Columns of probabilities must be named as the classes ({few(classes)}). "
                f"{name_of(estimator)} gave {few(columns)} instead."
            )
        probabilities = np.column_stack([probabilities[name] for name in classes.tolist()])
    try:
        probabilities = np.asarray(probabilities, np.float64)
        problem = f"the shape {probabilities.shape}"
    except (TypeError, ValueError) as error:
        problem = f"other values ({error})"
    if problem != f"the shape {(n, len(classes))}":
        raise ValueError(
            f"Probabilities must be a table of {n:,} rows and one column for each of the "
            f"{len(classes)} classes ({few(classes)}). {name_of(estimator)} gave {problem} instead."
        )
    if not (np.isfinite(probabilities).all() and (probabilities >= 0).all()):
        raise ValueError(
            f"Probabilities must be finite and at least 0. {name_of(estimator)} gave others."
        )
    return np.log(np.maximum(probabilities, MIN_PROBABILITY))


def name_of(estimator: Any) -> str:
    """The name of a classifier in messages."""
    return getattr(estimator, "__name__", type(estimator).__name__)
