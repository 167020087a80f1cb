"""CertifiedClassifier: a guarantee on the errors of any classifier, from labels held out."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from pacsent import registry
from pacsent.classify import TextClassifier, inputs, multilabel
from pacsent.classify.diagnostics import Diagnostics, report
from pacsent.classify.fitting import OutOfFold
from pacsent.guarantees import (
    abstaining,
    any_estimator,
    class_thresholds,
    comparison,
    error_bounds,
    label_sets,
    multilabel_thresholds,
)
from pacsent.guarantees.calibration_set import Calibration
from pacsent.guarantees.certified_estimator import CertifiedEstimator
from pacsent.guarantees.certified_state import from_arrays, to_arrays
from pacsent.guarantees.error_certificate import ErrorCertificate
from pacsent.guarantees.evidence import digests
from pacsent.guarantees.multilabel_certificate import (
    MultilabelCertificate,
    multilabel_certificate,
)
from pacsent.guarantees.predictions import error_certificate
from pacsent.guarantees.samples import as_samples, is_texts, n_samples, taken
from pacsent.guarantees.splitting import as_seed, one_of_each, split, units_of
from pacsent.guarantees.stream_watcher import monitors_of
from pacsent.storage import State

_PLANNED = 0.25  # of the calibration set of a fitted model: plans which thresholds are tested
_JOINT = 3  # the error, label sets and abstaining


@dataclass(eq=False, repr=False, kw_only=True)
class CertifiedClassifier(ClassifierMixin, CertifiedEstimator):
    """Any classifier, with a guarantee on its errors.

    A part of the labels is held out at random. The classifier is fitted on the rest; its errors on
    the held-out part bound its error rate on new texts, and set the thresholds of label sets and of
    abstaining. `y` may hold a set of labels for each text, or be an indicator matrix: the
    certificate then bounds the errors and the F1 of sets.

    Parameters
    ----------
    estimator : classifier, pipeline, function or None, default=None
        Anything with `fit` and `predict` as in scikit-learn. A function from rows to labels, or to
        probabilities where `classes` are given, and a fitted model (`prefit`, or scikit-learn's
        `FrozenEstimator`) are not fitted: all labels are then held-out ones. None takes
        `TextClassifier("english")`.
    holdout : float or "auto", default="auto"
        Share of the labels to hold out. "auto" takes 0.4 up to 300 labels, less with more.
    delta : float, default=0.05
        Chance that a guarantee is wrong: each by itself, or all together with `joint`.
    classes : sequence or None, default=None
        The classes in the order of the columns, for a model that has no `classes_`.
    prefit : bool, default=False
        Whether the estimator is fitted already, on other texts than those given here.
    n_candidates : int, default=1
        Number of classifiers, settings or seeds of which this one is kept by its guarantee.
    joint : bool, default=False
        Whether the error, label sets and abstaining hold together: each gets delta / 3.
    random_state : int or None, default=None
        Decides what is held out. None draws a seed, which the certificate records.

    Attributes
    ----------
    estimator_ : the fitted classifier
    classes_ : array
    targets_ : {"classes", "sets", "indicator"}
    certificate_ : ErrorCertificate or MultilabelCertificate
    calibration_ : Calibration
    out_of_fold_ : OutOfFold or None
        Probabilities that plan abstaining, by classifiers fitted on other folds (for an estimator
        other than TextClassifier up to five more fits) or, for a fitted model, a quarter of the
        calibration set, which abstaining is then not tested on. None for labels alone.

    Examples
    --------
    >>> from sklearn.feature_extraction.text import TfidfVectorizer
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.pipeline import make_pipeline
    >>> texts = [f"a {word} film, the {n}th" for n in range(99) for word in ("good", "bad")]
    >>> model = make_pipeline(TfidfVectorizer(), LogisticRegression())
    >>> certified = CertifiedClassifier(model, random_state=0).fit(texts, ["up", "down"] * 99)
    >>> certified.predict(["so good", "so bad"]).tolist()
    ['up', 'down']
    >>> certified.certificate_.n, round(certified.certificate_.bound, 3)
    (40, 0.072)
    >>> certified.predict_set(["so good"], error=0.1)
    [['up']]
    """

    classes: Sequence | None = None
    joint: bool = False

    _parameter_constraints: ClassVar[dict] = {
        **CertifiedEstimator._parameter_constraints,
        "classes": ["array-like", None],
        "joint": ["boolean"],
    }

    # ---- fitting -------------------------------------------------------------------------------

    def _fit(self, X, y, sample_weight, groups):
        estimator = TextClassifier("english") if self.estimator is None else self.estimator
        X, y = as_samples(X, only_texts=isinstance(estimator, TextClassifier)), inputs.counted(y)
        n = n_samples(X)
        classes, at = self._encoded(y, n)
        weights = None if sample_weight is None else np.asarray(sample_weight)
        group_of = inputs.as_groups(groups, n)
        units = units_of(X)
        found = split(units, self.holdout, self.random_state, group_of)
        rest, seed = found.rest, found.seed
        _check_left(classes, at, rest)
        some, rows = (None if group_of is None else group_of[rest]), taken(X, rest)
        several = any_estimator.gives_several(self)
        target = at[rest].astype(int) if several else classes[at[rest]]
        if several and isinstance(estimator, TextClassifier):
            target = taken(y if hasattr(y, "shape") else list(y), rest)
        self.estimator_ = any_estimator.fitted(
            estimator, rows, target, None if weights is None else weights[rest], some
        )
        self.classes_ = classes
        if not several:
            self.classes_ = any_estimator.classes_of(self.estimator_, None, classes)
        self._record(rows)
        self.seed_, self.out_of_fold_ = seed, None
        if isinstance(self.estimator_, TextClassifier):
            self.out_of_fold_ = self.estimator_.out_of_fold_
        elif any_estimator.gives_scores(self.estimator_):
            self.out_of_fold_ = any_estimator.out_of_fold(
                estimator, rows, at[rest], classes, (some, units[rest]), seed
            )
        self._certify_held_out(found, X, at, group_of)

    def _encoded(self, y, n):
        """The classes, and the position of each row's class, or whether it has each label."""
        self.targets_ = "classes"
        sets = multilabel.label_matrix(y, n)
        if sets is None:
            return inputs.encoded_labels(y, range(n))
        self.targets_ = "sets" if sets.are_sets else "indicator"
        return multilabel.encoded_sets(sets)

    def _calibrate(self, X, y, groups, overlap):
        if not hasattr(self, "estimator_"):
            self.estimator_ = self._unwrapped()
        X, y = any_estimator.samples_for(self, X), inputs.counted(y)
        sets = multilabel.label_matrix(y, n_samples(X))
        if not hasattr(self, "targets_"):
            kind = "classes" if sets is None else "sets" if sets.are_sets else "indicator"
            self.targets_ = getattr(self.estimator_, "targets_", kind)
        if not hasattr(self, "classes_"):
            names = y if sets is None else sets.names or range(sets.has.shape[1])
            known = inputs.as_labels(names, None if sets else n_samples(X), "y")
            self.classes_ = any_estimator.classes_of(self.estimator_, self.classes, known)
        found = error_bounds.unseen(self, X, y, overlap, groups)
        unplanned = not hasattr(self, "out_of_fold_") or self.calibration_.planned is not None
        self.seed_ = getattr(self, "seed_", self.random_state)
        self._take(found.X, found.y, found.groups, {"provenance": found.provenance})
        if unplanned:
            self._plan()

    def _plan(self):
        """Give a part of the calibration set to plan abstaining, if training did not."""
        self.out_of_fold_ = getattr(self.estimator_, "out_of_fold_", None)
        calibration = self.calibration_
        if self.out_of_fold_ is not None or calibration.log_proba is None:
            return
        self.seed_ = as_seed(self.seed_)
        planned = np.random.default_rng(self.seed_).random(len(calibration.labels)) < _PLANNED
        self.out_of_fold_ = OutOfFold(calibration.log_proba[planned], calibration.labels[planned])
        self.calibration_ = replace(calibration, planned=planned)

    def _take(self, X, y, group_of, noted):
        """Certify by these rows, and calibrate on one of each unit, or of each group."""
        found = self.answers(X)
        units = units_of(X)
        how: dict[str, Any] = {
            "units": units, "group_of": group_of, "delta": self._delta(None),
            "n_candidates": self.n_candidates, "seed": self.seed_,
        }  # fmt: skip
        if any_estimator.gives_several(self):
            predicted = None
            noted["digests"] = digests(self, X, y, found.labels)
            self.certificate_ = multilabel_certificate(
                y, found.labels, self.classes_.tolist(), noted=noted, **how
            )
        else:
            predicted = _positions(self.classes_, found.labels)
            labels, said = self.classes_[y].tolist(), found.labels.tolist()
            noted["digests"] = digests(self, X, labels, said)
            self.certificate_ = error_certificate(labels, said, noted=noted, **how)
        self.seed_ = self.certificate_.seed
        grouped = self.certificate_.scope == "groups"
        rows = one_of_each(group_of if grouped else units, self.seed_)
        log_proba = None if found.log_proba is None else found.log_proba[rows]
        monitors = monitors_of(self, X)[rows] if is_texts(X) else None
        predicted = None if predicted is None else predicted[rows]
        self.calibration_ = Calibration(log_proba, y[rows], predicted, monitors=monitors)

    # ---- predicting ----------------------------------------------------------------------------

    def answers(self, X: Any) -> any_estimator.Answers:
        """Labels and, where there are any, logarithms of probabilities, in one call."""
        if not hasattr(self, "estimator_"):
            check_is_fitted(self)
        rows = any_estimator.samples_for(self, X)
        several = any_estimator.gives_several(self)
        return any_estimator.answers(self.estimator_, self.classes_, rows, several)

    def predict(self, X: Any) -> np.ndarray | list[tuple]:
        """The label, or the labels, that the estimator gives: what the certificate is about."""
        found = self.answers(X).labels
        if not any_estimator.gives_several(self):
            return found
        return multilabel.as_given(found, self.classes_, self.targets_)

    def predict_log_proba(self, X: Any) -> np.ndarray:
        """Logarithms of `predict_proba`."""
        return self._scored("predict_proba", self.answers(X).log_proba)

    def predict_proba(self, X: Any) -> np.ndarray:
        """The estimator's probabilities, or normalised decision values, (n, n_classes)."""
        return np.exp(self.predict_log_proba(X))

    # ---- guarantees ----------------------------------------------------------------------------

    def certify(
        self, X: Any, y: Sequence, **settings: Any
    ) -> ErrorCertificate | MultilabelCertificate:
        """Bound the error rate by other held-out texts: `pacsent.guarantees.certify`."""
        return error_bounds.certify(self, X, y, **settings)

    def report(self, X: Any, y: Sequence) -> Diagnostics:
        """How it does on labelled texts that it was not fitted on: see `TextClassifier.report`."""
        check_is_fitted(self)
        return report(self, X, y)

    def compare(self, other: Any, X: Any, y: Sequence, **settings: Any) -> comparison.Comparison:
        """Bound how much more often another classifier errs: `pacsent.guarantees.compare`."""
        return comparison.compare(self, other, X, y, **settings)

    def predict_set(
        self, X: Any, *, error: float = 0.05, delta: float | None = None, per_class: bool = False
    ) -> list[list]:
        """For each row the classes that cannot be ruled out.

        With probability 1 - delta over the calibration set, the sets miss the right class for at
        most `error` of new rows; for every class by itself with `per_class`. A set can be empty.
        """
        thresholds = self.set_thresholds(error=error, delta=delta, per_class=per_class)
        return [self.classes_[row].tolist() for row in self.predict_log_proba(X) >= thresholds]

    def set_thresholds(
        self, *, error: float = 0.05, delta: float | None = None, per_class: bool = False
    ) -> np.ndarray:
        """Log-probability from which on each class is in the sets of `predict_set`."""
        calibration = self._with_scores("predict_set")
        return label_sets.set_thresholds(calibration, error, self._delta(delta), per_class)

    def abstain(
        self, *, error: float | None = None, delta: float | None = None
    ) -> abstaining.Abstaining:
        """Answer only where at most `error` of the answers are wrong, with confidence 1 - delta.

        None takes the smallest of 0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5 with which
        at least half of the calibration texts are answered, and corrects delta for this choice.
        """
        tested = self._with_scores("abstain").tested
        return abstaining.abstain(self, tested, error, self._delta(delta))

    def thresholds(
        self,
        *,
        precision: float | None = None,
        recall: float | None = None,
        classes: Sequence | None = None,
        delta: float | None = None,
    ) -> class_thresholds.ClassThresholds:
        """Thresholds with a guaranteed precision, recall, or both, for these classes together.

        Without `classes` for all of them; delta is shared by those that are given. Of several
        labels a text, each label is a class.
        """
        return class_thresholds.class_thresholds(
            self, self._with_scores("thresholds", several=True).tested, precision=precision,
            recall=recall, classes=classes, delta=self._delta(delta),
        )  # fmt: skip

    def label_threshold(
        self,
        *,
        false_negatives: float | None = None,
        false_discoveries: float | None = None,
        delta: float | None = None,
    ) -> multilabel_thresholds.LabelThreshold:
        """One threshold for all labels, with a guaranteed share of them missed, or given wrongly.

        With several labels a text: `control_false_negatives`, or `control_false_discoveries`
        planned on predictions of training texts that were left out.
        """
        if not any_estimator.gives_several(self):
            raise ValueError(
                "label_threshold is for several labels a text. Got one class a text instead. Use "
                "thresholds(precision=, recall=)."
            )
        if (false_negatives is None) == (false_discoveries is None):
            raise ValueError("Give false_negatives or false_discoveries, not both.")
        tested, delta = (
            self._with_scores("label_threshold", several=True).tested,
            self._delta(delta),
        )
        known = tested.labels, np.exp(tested.log_proba)
        if false_discoveries is None:
            return multilabel_thresholds.control_false_negatives(
                *known, error=false_negatives or 0.0, delta=delta
            )
        plan = self.out_of_fold_.labels, np.exp(self.out_of_fold_.log_proba)
        return multilabel_thresholds.control_false_discoveries(
            *known, error=false_discoveries, delta=delta, planning=plan
        )

    def _delta(self, delta):
        if delta is not None:
            return delta
        return self.delta / _JOINT if self.joint else self.delta

    def _with_scores(self, what, several=False):
        check_is_fitted(self)
        if any_estimator.gives_several(self) and not several:
            raise ValueError(
                f"{what} is for one class a text. Got several labels a text instead. Use "
                "thresholds(precision=, recall=) or label_threshold(false_negatives=)."
            )
        self._scored(what, self.calibration_.log_proba)
        return self.calibration_

    def _scored(self, what, log_proba):
        if log_proba is None:
            raise ValueError(
                f"{what} needs probabilities or decision values. "
                f"{any_estimator.name_of(self.estimator_)} gives labels alone. Give a function "
                "that returns probabilities, with classes=, or another estimator."
            )
        return log_proba

    # ---- files ---------------------------------------------------------------------------------

    kind = "CertifiedClassifier"

    def state(self) -> State:
        """What `pacsent.save` writes, for a TextClassifier: it, its certificate, its calibration.

        Others are saved in their own way (joblib, skops, ONNX), with `certificate_.to_json()`.
        """
        check_is_fitted(self)
        if not isinstance(self.estimator_, TextClassifier):
            raise TypeError(
                "save() takes a CertifiedClassifier around a TextClassifier. Got one around "
                f"{any_estimator.name_of(self.estimator_)} instead. Save the estimator in its own "
                "way and certificate_.to_json() beside it; after loading, "
                "CertifiedClassifier(estimator, prefit=True).calibrate(X, y)."
            )
        parameters = {
            name: value
            for name, value in self.get_params(deep=False).items()
            if name not in ("estimator", "classes", "prefit")
        }
        return State({"parameters": parameters}, to_arrays(self), {"estimator": self.estimator_})

    @classmethod
    def from_state(cls, state: State) -> "CertifiedClassifier":
        """The inverse of `state`. The certificate must follow from its numbers."""
        estimator = state.parts["estimator"]
        if not isinstance(estimator, TextClassifier):
            raise ValueError("its estimator is no TextClassifier")
        made = cls(estimator, **state.config["parameters"], prefit=True)
        made._validate_params()
        made.__dict__.update(from_arrays(state.tensors, estimator))
        return made


registry.register("kind", CertifiedClassifier.kind, CertifiedClassifier.from_state)


def _positions(classes, labels):
    """Where each predicted label is among the classes, (n,); -1 for one that is none of them."""
    place = {name: at for at, name in enumerate(classes.tolist())}
    return np.array([place.get(label, -1) for label in labels.tolist()], np.int64)


def _check_left(classes, y, rest):
    several = y.ndim == 2
    left = y[rest].sum(axis=0) if several else np.bincount(y[rest], minlength=classes.size)
    fewest = np.minimum(left, rest.size - left) if several else left
    if (fewest < 2).any():
        raise ValueError(
            "holdout must leave at least two texts of every class to fit. Class "
            f"{inputs.few(classes[fewest < 2])} has fewer left. Hold out less, or add texts."
        )
