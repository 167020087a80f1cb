"""CertifiedClassifier: a guarantee on the errors of any classifier, from labels held out."""

import copy
import secrets
from collections.abc import Sequence
from dataclasses import replace
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.frozen import FrozenEstimator
from sklearn.utils.validation import check_is_fitted

from pacsent.classify import TextClassifier, inputs
from pacsent.classify.fitting import OutOfFold
from pacsent.guarantees import (
    abstaining,
    any_estimator,
    class_thresholds,
    comparison,
    error_bounds,
    label_sets,
)
from pacsent.guarantees.calibration_set import Calibration
from pacsent.guarantees.certified_state import from_arrays, to_arrays
from pacsent.guarantees.error_certificate import ErrorCertificate
from pacsent.guarantees.evidence import digests
from pacsent.guarantees.predictions import error_certificate
from pacsent.guarantees.samples import as_samples, is_texts, n_samples, row_fingerprints, taken
from pacsent.guarantees.splitting import one_of_each, split, units_of
from pacsent.guarantees.stream_watcher import monitors_of
from pacsent.parameter_checks import Interval, StrOptions, fit_context
from pacsent.storage import State, Tensors

_PLANNED = 0.25  # of the calibration set of a fitted model: plans which thresholds are tested
_JOINT = 3  # the error, label sets and abstaining


class CertifiedClassifier(ClassifierMixin, BaseEstimator):
    """Any classifier, with a guarantee on its errors.

    A part of the labels is held out at random. The classifier is fitted on the rest; its errors on
    the held-out part bound its error rate on new texts, and set the thresholds of label sets and of
    abstaining.

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
    certificate_ : ErrorCertificate
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

    _parameter_constraints: ClassVar[dict] = {
        "estimator": "no_validation",
        "holdout": [Interval(Real, 0, 1, closed="neither"), StrOptions({"auto"})],
        "delta": [Interval(Real, 0, 1, closed="neither")],
        "classes": ["array-like", None],
        "prefit": ["boolean"],
        "n_candidates": [Interval(Integral, 1, None, closed="left")],
        "joint": ["boolean"],
        "random_state": [Interval(Integral, 0, None, closed="left"), None],
    }

    def __init__(
        self,
        estimator: Any = None,
        *,
        holdout: float | str = "auto",
        delta: float = 0.05,
        classes: Sequence | None = None,
        prefit: bool = False,
        n_candidates: int = 1,
        joint: bool = False,
        random_state: int | None = None,
    ):
        self.estimator = estimator
        self.holdout = holdout
        self.delta = delta
        self.classes = classes
        self.prefit = prefit
        self.n_candidates = n_candidates
        self.joint = joint
        self.random_state = random_state

    # ---- fitting -------------------------------------------------------------------------------

    @fit_context(prefer_skip_nested_validation=False)
    def fit(
        self,
        X: Any,
        y: Sequence,
        sample_weight: ArrayLike | None = None,
        groups: Sequence | None = None,
    ) -> "CertifiedClassifier":
        """Hold out a part of the labels, fit the estimator on the rest, and certify it.

        Parameters
        ----------
        X : texts, or any array or table that the estimator takes
            Copies of a row, and texts that are near-duplicates, stay on one side and count once.
        y : array of str or int, one for each row
        sample_weight : array, optional
            How much each row counts in fitting. The guarantee counts every row once.
        groups : array, one for each row, optional
            The book, the author, the day a text is from. Whole groups are held out and the
            guarantee is for new groups; where there are too few groups for this, it is not, and the
            certificate says so.
        """
        new = copy.copy(self)
        for name in [name for name in vars(self) if name.endswith("_")]:
            delattr(new, name)
        if new._is_fitted_already():
            if sample_weight is not None:
                raise ValueError(
                    "sample_weight must be None for an estimator that is fitted already."
                )
            new._calibrate(X, y, groups, "refuse")
        else:
            new._fit(X, y, sample_weight, groups)
        self.__dict__ = new.__dict__  # at the end: a refused fit changes nothing
        return self

    def _is_fitted_already(self):
        model = self.estimator
        usable = model is None or hasattr(model, "predict") or callable(model)
        if isinstance(model, type) or not usable:
            raise TypeError(
                "estimator must have fit and predict, as in scikit-learn, or be a function from "
                f"rows to labels. Got {any_estimator.name_of(model)} instead. Add a classifier as "
                "its last step."
            )
        is_fit = model is None or hasattr(model, "fit")
        return self.prefit or isinstance(model, FrozenEstimator) or not is_fit

    def _fit(self, X, y, sample_weight, groups):
        estimator = TextClassifier("english") if self.estimator is None else self.estimator
        X = as_samples(X, only_texts=isinstance(estimator, TextClassifier))
        classes, at = inputs.encoded_labels(y, range(n_samples(X)))
        weights = None if sample_weight is None else np.asarray(sample_weight)
        group_of = inputs.as_groups(groups, at.size)
        units = units_of(X)
        found = split(units, self.holdout, self.random_state, group_of)
        held_out, rest, seed = found.held_out, found.rest, found.seed
        _check_left(classes, at, rest)
        some, rows = (None if group_of is None else group_of[rest]), taken(X, rest)
        self.estimator_ = any_estimator.fitted(
            estimator, rows, classes[at[rest]], None if weights is None else weights[rest], some
        )
        self.classes_ = any_estimator.classes_of(self.estimator_, None, classes)
        self.seed_, self.training_fingerprints_ = seed, np.unique(row_fingerprints(rows))
        self.out_of_fold_ = None
        if isinstance(self.estimator_, TextClassifier):
            self.out_of_fold_ = self.estimator_.out_of_fold_
        elif any_estimator.gives_scores(self.estimator_):
            self.out_of_fold_ = any_estimator.out_of_fold(
                estimator, rows, at[rest], classes, (some, units[rest]), seed
            )
        some = group_of[held_out] if group_of is not None and found.scope == "groups" else None
        noted: dict[str, Any] = {"provenance": "held out by fit", "holdout": found.share}
        if found.scope == "same groups":
            noted |= {"scope": found.scope, "n_groups": np.unique(group_of).size}
        self._take(taken(X, held_out), at[held_out], some, noted)

    def calibrate(
        self, X: Any, y: Sequence, *, groups: Sequence | None = None, overlap: str = "refuse"
    ) -> "CertifiedClassifier":
        """Certify the fitted classifier by labelled texts that nothing was fitted on.

        They replace the calibration set. With a fitted estimator (`prefit`) or a function, no `fit`
        is needed before. `overlap` says what to do with texts that were fitted, where this is
        known: "refuse" them, or "drop" them.
        """
        new = copy.copy(self)
        new._validate_params()
        new._calibrate(X, y, groups, overlap)
        self.__dict__ = new.__dict__
        return self

    def _calibrate(self, X, y, groups, overlap):
        if not hasattr(self, "estimator_"):
            if not self._is_fitted_already():
                check_is_fitted(self)
            model = self.estimator
            self.estimator_ = model.estimator if isinstance(model, FrozenEstimator) else model
        X = any_estimator.samples_for(self, X)
        labels = inputs.as_labels(y, n_samples(X), "y")
        if not hasattr(self, "classes_"):
            self.classes_ = any_estimator.classes_of(self.estimator_, self.classes, labels)
        found = error_bounds.unseen(self, X, labels, overlap, groups)
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
        if self.seed_ is None:
            self.seed_ = secrets.randbits(63)
        planned = np.random.default_rng(self.seed_).random(calibration.labels.size) < _PLANNED
        self.out_of_fold_ = OutOfFold(calibration.log_proba[planned], calibration.labels[planned])
        self.calibration_ = replace(calibration, planned=planned)

    def _take(self, X, y, group_of, noted):
        """Certify by these rows, and calibrate on one of each unit, or of each group."""
        found = self.answers(X)
        predicted = _positions(self.classes_, found.labels)
        labels, said = self.classes_[y].tolist(), found.labels.tolist()
        units = units_of(X)
        self.certificate_ = error_certificate(
            labels, said, units=units, group_of=group_of, delta=self._delta(None),
            n_candidates=self.n_candidates, seed=self.seed_,
            noted={**noted, "digests": digests(self, X, labels, said)},
        )  # fmt: skip
        self.seed_ = self.certificate_.seed
        grouped = self.certificate_.scope == "groups"
        rows = one_of_each(group_of if grouped else units, self.seed_)
        log_proba = None if found.log_proba is None else found.log_proba[rows]
        monitors = monitors_of(self, X)[rows] if is_texts(X) else None
        self.calibration_ = Calibration(log_proba, y[rows], predicted[rows], monitors=monitors)

    # ---- predicting ----------------------------------------------------------------------------

    def answers(self, X: Any) -> any_estimator.Answers:
        """Labels and, where there are any, logarithms of probabilities, in one call."""
        if not hasattr(self, "estimator_"):
            check_is_fitted(self)
        rows = any_estimator.samples_for(self, X)
        return any_estimator.answers(self.estimator_, self.classes_, rows)

    def predict(self, X: Any) -> np.ndarray:
        """The label that the estimator gives to each row: what the certificate is about."""
        return self.answers(X).labels

    def predict_log_proba(self, X: Any) -> np.ndarray:
        """Logarithms of `predict_proba`."""
        return self._scored("predict_proba", self.answers(X).log_proba)

    def predict_proba(self, X: Any) -> np.ndarray:
        """The estimator's probabilities, or normalised decision values, (n, n_classes)."""
        return np.exp(self.predict_log_proba(X))

    # ---- guarantees ----------------------------------------------------------------------------

    def certify(self, X: Any, y: Sequence, **settings: Any) -> ErrorCertificate:
        """Bound the error rate by other held-out texts: `pacsent.guarantees.certify`."""
        return error_bounds.certify(self, X, y, **settings)

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

        Without `classes` for all of them; delta is shared by those that are given.
        """
        return class_thresholds.class_thresholds(
            self, self._with_scores("thresholds").tested, precision=precision, recall=recall,
            classes=classes, delta=self._delta(delta),
        )  # fmt: skip

    def _delta(self, delta):
        if delta is not None:
            return delta
        return self.delta / _JOINT if self.joint else self.delta

    def _with_scores(self, what):
        check_is_fitted(self)
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
        return State(
            {"parameters": parameters}, Tensors(to_arrays(self)), {"estimator": self.estimator_}
        )

    @classmethod
    def from_state(cls, state: State) -> "CertifiedClassifier":
        """The inverse of `state`. The certificate must follow from its numbers."""
        state.tensors.verify()
        estimator = state.parts["estimator"]
        if not isinstance(estimator, TextClassifier):
            raise ValueError("its estimator is no TextClassifier")
        made = cls(estimator, **state.config["parameters"], prefit=True)
        made._validate_params()
        made.__dict__.update(from_arrays(state.tensors, estimator))
        return made

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.string = True
        return tags


def _positions(classes, labels):
    """Where each predicted label is among the classes, (n,); -1 for one that is none of them."""
    place = {name: at for at, name in enumerate(classes.tolist())}
    return np.array([place.get(label, -1) for label in labels.tolist()], np.int64)


def _check_left(classes, y, rest):
    left = np.bincount(y[rest], minlength=classes.size)
    if (left < 2).any():
        raise ValueError(
            "holdout must leave at least two texts of every class to fit. Class "
            f"{inputs.few(classes[left < 2])} has fewer left. Hold out less, or add texts."
        )
