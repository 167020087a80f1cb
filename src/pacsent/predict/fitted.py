"""The state of a fitted `CertifiedClassifier`, frozen: what `fit` computes and `save` writes."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from pacsent.bounds.checks import check_count
from pacsent.certify import samples
from pacsent.certify.error_certificate import ErrorCertificate, HeldOutCertificate
from pacsent.certify.labels import (
    Labels,
    as_classes,
    class_indices,
    classes_of,
    label_type,
    names_and_target_type,
)
from pacsent.certify.multilabel_certificate import MultilabelCertificate
from pacsent.predict.calibration import Calibration
from pacsent.storage import State, checked_tensor

if TYPE_CHECKING:
    from pacsent.classify.fitting import OutOfFold


@dataclass(frozen=True, eq=False)
class FittedModel:
    """A fitted estimator, and the classes that its predictions are about.

    Its fields are named as attributes of a classifier, so that everything that certifies takes it
    for one.
    """

    estimator_: Any
    classes_: np.ndarray  # all, also those that had too few texts to be fitted
    fitted_classes_: np.ndarray  # in the order of the estimator's columns
    target_type_: str  # "classes", "sets" or "indicator"
    # What recognises the rows that were fitted, and their near-duplicates; None if not known.
    training_fingerprints_: np.ndarray | None = None
    training_sketches_: np.ndarray | None = None

    @classmethod
    def of_given(cls, estimator: Any, classes: Any, X: Any, y: Any) -> "FittedModel":
        """An estimator that was fitted elsewhere: its classes, those given, or those of y."""
        names, type_of_y = names_and_target_type(y, samples.n_samples(X))
        columns = classes_of(estimator, classes, names)
        target_type = getattr(estimator, "target_type_", type_of_y)
        return cls(estimator, columns, columns, target_type)

    @property
    def label_type(self) -> type[Labels]:
        """The type of labels: one class for each row, or a set of labels."""
        return label_type(self)

    @property
    def has_all_classes(self) -> bool:
        """True if every class had enough texts to be fitted."""
        return len(self.fitted_classes_) == len(self.classes_)

    def predict_with_scores(self, X: Any) -> samples.Predictions:
        """Labels (multi-label: a matrix) and log-probabilities, if there are any, in one pass."""
        X = samples.samples_for(self, X)
        is_multilabel = self.label_type.is_multilabel
        predict = samples.predict_label_sets if is_multilabel else samples.predict_any
        labels, log_proba = predict(self.estimator_, self.fitted_classes_, X)
        return samples.Predictions(labels, self._with_all_classes(log_proba))

    def predict_log_proba_each(self, groups: Sequence[list[str]]) -> np.ndarray | None:
        """Log-probabilities of each group of texts, bit for bit as of calls for each group.

        None if the estimator has no scores.
        """
        if hasattr(self.estimator_, "predict_log_proba_each"):
            log_proba = self.estimator_.predict_log_proba_each(groups)
            return self._with_all_classes(log_proba)

        parts = []
        for texts in groups:
            log_proba = self.predict_with_scores(texts).log_proba
            if log_proba is None:
                return None
            parts.append(log_proba)
        return np.concatenate(parts)

    def _with_all_classes(self, log_proba: Any) -> Any:
        """Add columns for classes that had too few texts to be fitted: they are not predicted."""
        if log_proba is None or self.has_all_classes:
            return log_proba

        shape = (len(log_proba), len(self.classes_))
        of_all = np.full(shape, np.log(samples.MIN_PROBABILITY))
        fitted_columns = class_indices(self.classes_, self.fitted_classes_)
        of_all[:, fitted_columns] = log_proba
        return of_all

    def out_of_fold(self) -> "OutOfFold | None":
        """Out-of-fold probabilities of the estimator, where it has them, for all classes."""
        own = getattr(self.estimator_, "out_of_fold_", None)
        if own is None or self.has_all_classes:
            return own

        position_of_fitted = class_indices(self.classes_, self.fitted_classes_)
        labels = position_of_fitted[own.labels]
        return own._replace(log_proba=self._with_all_classes(own.log_proba), labels=labels)


@dataclass(frozen=True, eq=False)
class FittedCertifiedClassifier:
    """A fitted model, its certificate, and the calibration set of what else it guarantees."""

    model: FittedModel
    certificate: Any  # ErrorCertificate or MultilabelCertificate
    calibration: Calibration
    out_of_fold: "OutOfFold | None"  # plans abstention

    @property
    def seed(self) -> int:
        """The seed that decided which rows were held out."""
        return self.certificate.random_state

    def to_state(self, parameters: dict[str, Any]) -> State:
        """The state that `pacsent.save` writes, with the parameters of the classifier."""
        randomized = parameters["randomized_tests"]
        description = {
            "certificate": self.certificate.to_dict(),
            "classes": self.model.classes_.tolist(),
        }
        text = json.dumps(description, ensure_ascii=False)
        arrays = self.calibration.to_arrays(randomized=randomized)
        arrays["description"] = np.frombuffer(text.encode(), np.uint8)
        return State({"parameters": parameters}, arrays, {"estimator": self.model.estimator_})

    @classmethod
    def from_state(cls, state: State, *, randomized: bool) -> "FittedCertifiedClassifier":
        """The inverse of `to_state`, for arrays that anybody may have written: all are checked."""
        tensors = state.tensors
        estimator = state.parts["estimator"]
        text = checked_tensor(tensors, "description", np.uint8, (None,)).tobytes()
        description = json.loads(text)

        model = _read_model(estimator, description)
        is_multilabel = model.label_type.is_multilabel
        kind: type[HeldOutCertificate] = (
            MultilabelCertificate if is_multilabel else ErrorCertificate
        )
        certificate: Any = kind.from_dict(description["certificate"])
        certificate.verify()
        samples.check_unchanged(estimator, certificate.digests)
        check_count("random_state", certificate.random_state, least=0)

        calibration = Calibration.from_arrays(
            tensors, certificate, model.label_type, model.classes_.size, randomized=randomized
        )
        return cls(model, certificate, calibration, model.out_of_fold())


def _read_model(estimator: Any, description: dict[str, Any]) -> FittedModel:
    """The estimator of a saved classifier, with the classes of its description.

    They can be more than those of the estimator: some had too few texts to be fitted.
    """
    fitted_classes = estimator.classes_
    model = FittedModel(
        estimator_=estimator,
        classes_=fitted_classes,
        fitted_classes_=fitted_classes,
        target_type_=estimator.target_type_,
        training_fingerprints_=estimator.training_fingerprints_,
        training_sketches_=estimator.training_sketches_,
    )
    # Of labels in sets all are fitted: the estimator has them.
    if model.label_type.is_multilabel:
        return model

    classes = as_classes(description["classes"])
    fitted_among_all = classes[np.isin(classes, fitted_classes)]
    if fitted_among_all.tolist() != fitted_classes.tolist():
        raise ValueError("its classes are not those of its estimator, in their order")
    return replace(model, classes_=classes)
