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
    """Find rows that a model is known to be fitted on, and near-duplicates of its training texts.

    Parameters
    ----------
    model : any classifier
    X : texts or other rows, (n,)

    Returns
    -------
    is_equal, is_near : array of bool, (n,)
        Rows that equal a training row, and texts that are near-duplicates of one but equal none.
        Empty texts are neither.
    """
    n = n_samples(X)
    sketches = recorded(model, "sketches")
    is_equal = _equal_to_fitted(model, X)
    is_near = np.zeros(n, bool)
    if sketches is not None and is_texts(text_column(X)):
        from pacsent.certify.near_duplicates import known_texts  # loads compiled kernels

        training_texts = known_texts(sketches)
        is_near = training_texts.are_near(text_column(X)) & ~is_equal

    has_text = _have_text(X)
    return is_equal & has_text, is_near & has_text


def find_fitted(model: Any, X: Any) -> np.ndarray:
    """Rows that equal one that a model is known to be fitted on, (n,); no empty text does."""
    return _equal_to_fitted(model, X) & _have_text(X)


def _equal_to_fitted(model: Any, X: Any) -> np.ndarray:
    """Rows with the fingerprint of one that the model was fitted on, (n,)."""
    fingerprints = recorded(model, "fingerprints")
    if fingerprints is None:
        return np.zeros(n_samples(X), bool)
    return are_among(row_fingerprints(X), fingerprints)


def _have_text(X: Any) -> np.ndarray:
    """Rows that are no empty text, (n,)."""
    with_text = rows_with_text(X)
    if with_text is None:
        return np.ones(n_samples(X), bool)
    has_text = np.zeros(n_samples(X), bool)
    has_text[with_text] = True
    return has_text


def recorded(model: Any, what: str) -> np.ndarray | None:
    """The "fingerprints" or "sketches" of what a model, or the one inside, was fitted on."""
    name = f"training_{what}_"
    own = getattr(model, name, None)
    inner_model = getattr(model, "estimator_", None)
    return getattr(inner_model, name, own)


def row_fingerprints(X: Any) -> np.ndarray:
    """A 64-bit hash of each row, (n,): equal rows have equal hashes."""
    X = text_column(X)
    if is_texts(X):
        from pacsent.text.ngrams import fingerprints  # loads compiled kernels

        return fingerprints(X)

    hashes = (hashlib.blake2b(row, digest_size=8).digest() for row in row_bytes(X))
    numbers = (int.from_bytes(hash_bytes, "little") for hash_bytes in hashes)
    return np.fromiter(numbers, np.uint64, n_samples(X))


def digests(model: Any, X: Any, labels: Any, predictions: Any) -> dict[str, str]:
    """SHA-256 of what a certificate is about, as far as it is given and can be read."""
    values = {"labels": digest(labels), "predictions": digest(predictions)}
    if X is not None:
        values["texts"] = digest(X)

    inner_model = getattr(model, "estimator_", model)
    if hasattr(inner_model, "state"):
        state = inner_model.state()
        values["model"] = state.digest()
        values["weights"] = state.digest(with_word_vectors=False)
    return values


def check_unchanged(model: Any, digests: dict[str, str]) -> None:
    """Refuse a model whose weights are not those that a certificate recorded.

    Word vectors are not read, and the file of a loaded model is read once: this takes milliseconds.
    Where nothing is recorded, as for models of other libraries, the certificate says so.
    """
    stated = digests.get("weights")
    if stated is None:
        return

    own = "none"
    if hasattr(model, "state"):
        own = model.state().digest(with_word_vectors=False)
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
        content = json.dumps(values, default=repr).encode()
    else:
        content = row_fingerprints(values).tobytes()
    return hashlib.sha256(content).hexdigest()


class Predictions(NamedTuple):
    """Labels of rows, and log-probabilities where the classifier has scores."""

    labels: np.ndarray  # (n,); multi-label (n, n_labels) of bool
    log_proba: np.ndarray | None  # (n, n_classes)


def predict_any(classifier: Any, classes: np.ndarray | None, X: Any) -> Predictions:
    """Labels of any classifier and, where it has them, log-probabilities.

    Decision values replace missing probabilities: any score keeps the guarantees of prediction sets
    and of abstention.

    Parameters
    ----------
    classifier : classifier, or function from rows to labels or to probabilities
    classes : array, (n_classes,), or None
        In the order of columns; None if they are not known.
    X : rows as the classifier takes them

    Returns
    -------
    Predictions
    """
    if hasattr(classifier, "predict_with_scores"):
        return Predictions(*classifier.predict_with_scores(X))

    n = n_samples(X)
    answers = _predict(classifier, X)
    if _n_columns(answers) > 1 and classes is not None:
        log_proba = _logarithms(answers, n, classes, classifier)
        likeliest = log_proba.argmax(axis=1)
        return Predictions(classes[likeliest], log_proba)

    column = as_column(answers, "predictions")
    if len(column) != n:
        raise ValueError(
            f"The estimator must predict one label for each of the {n:,} rows. "
            f"{name_of(classifier)} gave {len(column):,} instead."
        )
    labels = as_labels(column, n, "predictions")
    if classes is not None:
        _check_spelling(labels, classes.tolist())
    return Predictions(np.asarray(labels), _scores(classifier, classes, X, n))


def _n_columns(answers: Any) -> int:
    """The number of values for each row, of what a classifier or a function returns."""
    if isinstance(answers, list | tuple):
        first_row: Any = next(iter(answers), None)
        if np.ndim(first_row):
            return np.size(first_row)
    shape = getattr(answers, "shape", ())
    return int(np.prod(shape[1:]))


def _check_spelling(labels: list, names: list) -> None:
    """Refuse predictions that are classes but for type, case or padding: they would be errors."""
    name_of_spelling = {str(name).strip().casefold(): name for name in names}
    for label in set(labels) - set(names):
        spelling = str(label).strip().casefold()
        name = name_of_spelling.get(spelling)
        if name is not None:
            raise ValueError(
                f"Predictions must be spelled as the classes. Got {label!r} "
                f"({type(label).__name__}) for {name!r} ({type(name).__name__})."
            )

    if names and labels and isinstance(labels[0], str) != isinstance(names[0], str):
        raise ValueError(
            f"Predictions must be of the type of the classes ({type(names[0]).__name__}: "
            f"{few(names)}). Got {labels[0]!r} ({type(labels[0]).__name__}) instead."
        )


def predict_label_sets(classifier: Any, classes: np.ndarray, X: Any) -> Predictions:
    """Sets of labels of any classifier as a matrix and, where it has them, log-probabilities."""
    if hasattr(classifier, "predict_with_scores"):
        return Predictions(*classifier.predict_with_scores(X))

    n = n_samples(X)
    answers = _predict(classifier, X)
    labels = to_indicator(classes, answers, n, len(classes))
    return Predictions(labels, _scores(classifier, classes, X, n, multilabel=True))


def _predict(classifier: Any, X: Any) -> Any:
    """The answers of a classifier, or of a function of rows."""
    if hasattr(classifier, "predict"):
        return classifier.predict(X)
    return classifier(X)


def are_predictions(model: Any) -> bool:
    """Test for predictions themselves, such as a list or an array, in place of a classifier."""
    return not hasattr(model, "predict") and not callable(model)


def samples_for(classifier: Any, X: Any) -> Any:
    """X as this classifier takes it."""
    model = getattr(classifier, "estimator_", classifier)
    return as_samples(X, only_texts=getattr(model, "only_texts", False))


def _scores(
    estimator: Any, classes: Any, X: Any, n: int, multilabel: bool = False
) -> np.ndarray | None:
    """Log-probabilities of each class, (n, n_classes); None if there is no score for each."""
    if hasattr(estimator, "predict_proba"):
        proba = estimator.predict_proba(X)
        if multilabel and isinstance(proba, list):  # of scikit-learn's trees and neighbours
            proba = np.stack([of_label[:, 1] for of_label in proba], axis=1)
        return _logarithms(proba, n, classes, estimator)
    if not hasattr(estimator, "decision_function"):
        return None

    decisions = estimator.decision_function(X)
    values = np.asarray(decisions, np.float64).reshape(n, -1)
    has_class_values = values.shape[1] in (1, len(classes)) and not _compares_pairs(estimator)
    if not has_class_values or not np.isfinite(values).all():
        return None
    return log_expit(values) if multilabel else log_probabilities(values, 1.0)


def _compares_pairs(estimator: Any) -> bool:
    """Test for one-versus-one decision values: of three classes there are as many as of pairs."""
    parameters: dict[str, Any] = getattr(estimator, "get_params", dict)()
    return any(
        value == "ovo"
        for name, value in parameters.items()
        if name.endswith("decision_function_shape")
    )


def _logarithms(probabilities: Any, n: int, classes: np.ndarray, estimator: Any) -> np.ndarray:
    """Logarithms of probabilities, (n, n_classes), of which those of 0 are finite."""
    table = _order_columns(probabilities, classes, estimator)
    expected_shape = (n, len(classes))
    try:
        values = np.asarray(table, np.float64)
        problem = "" if values.shape == expected_shape else f"the shape {values.shape}"
    except (TypeError, ValueError) as error:
        problem = f"other values ({error})"
    if problem:
        raise ValueError(
            f"Probabilities must be a table of {n:,} rows and one column for each of the "
            f"{len(classes)} classes ({few(classes)}). {name_of(estimator)} gave {problem} instead."
        )

    if not (np.isfinite(values).all() and (values >= 0).all()):
        raise ValueError(
            f"Probabilities must be finite and at least 0. {name_of(estimator)} gave others."
        )
    return np.log(np.maximum(values, MIN_PROBABILITY))


def _order_columns(probabilities: Any, classes: np.ndarray, estimator: Any) -> Any:
    """Probabilities with columns in the order of the classes, where the columns have names."""
    columns = getattr(probabilities, "column_names", getattr(probabilities, "columns", None))
    if columns is None or type(columns).__name__ == "RangeIndex":
        return probabilities

    names = classes.tolist()
    if set(columns) != set(names):
        raise ValueError(
            f"Columns of probabilities must be named as the classes ({few(classes)}). "
            f"{name_of(estimator)} gave {few(columns)} instead."
        )
    return np.column_stack([probabilities[name] for name in names])


def name_of(estimator: Any) -> str:
    """The name of a classifier in messages."""
    return getattr(estimator, "__name__", type(estimator).__name__)
