"""CertifiedClassifier: a guarantee on the errors of any classifier, from labels held out."""

import copy
import json
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, replace
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.frozen import FrozenEstimator
from sklearn.utils.validation import check_is_fitted, has_fit_parameter

from pacsent import registry
from pacsent.bounds.checks import check_count, check_probability
from pacsent.bounds.delta import divide_delta
from pacsent.certify import coverage, error_bounds, independence, judges, samples
from pacsent.certify.columns import check_length, materialize, sample_weights
from pacsent.certify.drift_check import DriftCheck, TextComparison
from pacsent.certify.drift_monitor import MONITORS, monitors_of
from pacsent.certify.error_certificate import ErrorCertificate, HeldOutCertificate
from pacsent.certify.labels import (
    Labels,
    as_classes,
    as_labels,
    class_indices,
    classes_of,
    is_multilabel,
    label_type,
    parse_sets,
)
from pacsent.certify.multilabel_certificate import MultilabelCertificate
from pacsent.certify.near_duplicates import sketches
from pacsent.certify.repeats import (
    COPIES,
    SAME,
    TRAFFIC,
    divide_rows,
    draw_samples,
    one_row_per_cluster,
)
from pacsent.classify import TextClassifier, multilabel
from pacsent.classify.diagnostics import Diagnostics, report
from pacsent.classify.explanation import Explanation
from pacsent.classify.fitting import OutOfFold
from pacsent.parameter_checks import Interval, StrOptions, check_parameters, fit_context
from pacsent.predict import abstaining, thresholds
from pacsent.predict.abstaining import Calibration, cautious_set_thresholds
from pacsent.storage import State, checked_tensor
from pacsent.text.rows import describe_empty, rows_with_text, select_values
from pacsent.text.texts import as_texts

# Of the calibration set of a fitted model: plans which thresholds of abstention are tested.
_PLANNING_FRACTION = 0.25
_N_JOINT_STATEMENTS = 3  # the error, prediction sets and abstention
_FRACTION_WITH_JUDGE = 0.8  # held out where a machine's labels are there to fit on


def _with_machine_labels(X, y, groups, judge):
    """Texts and labels, and those of a machine after them, which may be a model."""
    texts, labels = judge if isinstance(judge, tuple | list) and len(judge) == 2 else (None, None)
    if texts is None or not samples.is_texts(X) or groups is not None:
        raise ValueError(
            "judge must be (texts, labels), or (texts, model), beside texts with one label each, "
            "without groups."
        )
    texts = as_texts(texts, "judge[0]")
    if judges.is_machine(labels):
        labels = judges.machine_labels(labels, texts, X)
    labels = as_labels(labels, len(texts))
    with_text = rows_with_text(texts)
    texts, labels = select_values(texts, with_text), select_values(labels, with_text)
    return [*X, *texts], [*as_labels(y, len(X), "y"), *labels]


@dataclass(eq=False, repr=False)
class CertifiedClassifier(ClassifierMixin, BaseEstimator):
    """Any classifier, with a guarantee on its errors.

    A part of the labels is held out at random. The classifier is fitted on the rest; its errors on
    the held-out part bound its error rate on new texts, and set the thresholds of prediction sets
    and of abstention. For sets of labels the certificate bounds errors and F1.

    Parameters
    ----------
    estimator : classifier, pipeline, function or None, default=None
        Anything with `fit` and `predict` as in scikit-learn. A function from rows to labels, or to
        probabilities where `classes` are given, and a fitted model (`prefit`, or scikit-learn's
        `FrozenEstimator`) are not fitted: all labels are then held-out ones. None takes
        `TextClassifier("english")`.
    calibration_size : float or "auto", default="auto"
        Share of the labels to hold out. "auto" takes 0.4 up to 300 labels, less with more. Where
        texts repeat, and it is not stated why, each row is held out with this probability, and each
        cluster of near-duplicates as a whole: fewer texts are trained on, and above 0.5 fewer
        clusters are held out.
    delta : float, default=0.05
        Chance that a guarantee is wrong: each by itself, or all together with `simultaneous`.
    classes : sequence or None, default=None
        The classes in the order of the columns, for a model that has no `classes_`.
    prefit : bool, default=False
        Whether the estimator is fitted already, on other texts than those given here.
    n_candidates : int, default=1
        Number of classifiers, settings or seeds of which this one is kept by its guarantee.
    simultaneous : bool, default=False
        Whether the error, prediction sets and abstaining hold together: each gets delta / 3.
    randomized_tests : bool, default=False
        Whether abstention and thresholds of precision use randomised tests, which pass somewhat
        more often: if 5% of 100 answers are wrong, a threshold passes for an error of 10% with
        probability 0.576 instead of 0.436 (of 200: 0.850 instead of 0.796). The random number is
        drawn by the system at each `fit` or `calibrate`, whatever `random_state` is, and is saved
        with the model. Fitting again to draw another is a selection: see `n_candidates`.
    repeats : {"traffic", "copies"} or None, default=None
        Why texts repeat. "traffic": rows are drawn independently, and frequent texts are drawn
        again; guarantees are for new rows, repeats included. "copies": collecting the texts made
        copies; guarantees are for new distinct texts, and near-duplicates count once. None: it is
        not known, and what is guaranteed holds in both cases. Choose by how the texts were
        collected, never by which number is smaller.
    random_state : int, RandomState, Generator or None, default=None
        Decides what is held out. None, or a generator, draws a seed: the certificate records it.

    Attributes
    ----------
    estimator_ : the fitted classifier
    classes_, fitted_classes_ : array
        All classes, and those with at least two texts to fit. The others are never predicted:
        held-out texts of them count as errors.
    target_type_ : {"classes", "sets", "indicator"}
    certificate_ : ErrorCertificate or MultilabelCertificate
    calibration_ : Calibration
        `samples()` are the calibration sets of rows and of distinct texts, where texts repeat.
    out_of_fold_ : OutOfFold or None
        Plans abstention: out-of-fold probabilities of a TextClassifier, or of any other model for
        a quarter of the calibration set, which abstention is then not tested on.

    Examples
    --------
    >>> from sklearn.feature_extraction.text import TfidfVectorizer
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.pipeline import make_pipeline
    >>> texts = [f"{word} film {n}" for n in range(99) for word in ("good", "bad")]
    >>> model = make_pipeline(TfidfVectorizer(), LogisticRegression())
    >>> certified = CertifiedClassifier(model, random_state=0).fit(texts, ["up", "down"] * 99)
    >>> certified.predict(["so good", "so bad"]).tolist()
    ['up', 'down']
    >>> certified.certificate_.n, round(certified.certificate_.error_upper, 3)
    (79, 0.037)
    >>> certified.predict_set(["so good"], error=0.1)
    [['up']]
    """

    estimator: Any = None
    _: KW_ONLY
    calibration_size: float | str = "auto"
    delta: float = 0.05
    classes: Sequence | None = None
    prefit: bool = False
    n_candidates: int = 1
    simultaneous: bool = False
    randomized_tests: bool = False
    repeats: str | None = None
    random_state: Any = None

    kind = "CertifiedClassifier"
    _parameter_constraints: ClassVar[dict] = {
        "estimator": "no_validation",
        "calibration_size": [Interval(Real, 0, 1, closed="neither"), StrOptions({"auto"})],
        "delta": [Interval(Real, 0, 1, closed="neither")],
        "classes": ["array-like", None],
        "prefit": ["boolean"],
        "n_candidates": [Interval(Integral, 1, None, closed="left")],
        "simultaneous": ["boolean"],
        "randomized_tests": ["boolean"],
        "repeats": [StrOptions({TRAFFIC, COPIES}), None],
        "random_state": [
            Interval(Integral, 0, None, closed="left"),
            *independence.GENERATORS,
            None,
        ],
    }

    @fit_context(prefer_skip_nested_validation=False)
    def fit(
        self,
        X: Any,
        y: Any,
        sample_weight: ArrayLike | None = None,
        groups: Sequence | None = None,
        judge: tuple[Sequence[str], Any] | None = None,
    ) -> Self:
        """Hold out a part of the rows, fit the estimator on the rest, and certify it by them.

        Nothing that is fitted on may have been made with the labels y: see `judge`.

        Parameters
        ----------
        X : texts, or any array or table that the estimator takes
            Where texts repeat, `repeats` decides which rows are held out and count.
        y : one label, or set of labels, for each row
        sample_weight : array, optional
            How much each row counts in fitting. The guarantee counts every row once.
        groups : array, one for each row, optional
            The book, the author, the day a text is from. Whole groups are held out and the
            guarantee is for new groups, unless the certificate states that there are too few.
        judge : (texts, labels) or (texts, model), optional
            More texts, with labels that a machine gave, to fit on beside those of y. None of them
            may have been made with the labels y: not by a model fitted on these, nor with these as
            examples of a prompt. The guarantee then rests on y alone, however wrong they are. A
            model is compared by its record of training texts if it is one of pacsent; of labels
            alone it is not known, and the certificate states the condition. These texts must be
            other rows than X; near-duplicates of held-out texts are left out.
            calibration_size="auto" holds out four fifths of y, and half of it where texts repeat
            and it is not stated why.
        """
        fitted = copy.copy(self)
        for name in [name for name in vars(self) if name.endswith("_")]:
            delattr(fitted, name)
        if fitted._is_fitted_already():
            if sample_weight is not None or judge is not None:
                raise ValueError(
                    "sample_weight and judge must be None for an estimator that is fitted already."
                )
            fitted._calibrate(X, y, groups, None)
        else:
            fitted._fit(X, y, sample_weight, groups, judge)
        self.__dict__ = fitted.__dict__  # at the end, so that a failed fit changes nothing
        return self

    def calibrate(
        self, X: Any, y: Any, *, groups: Sequence | None = None, overlap: str | None = None
    ) -> Self:
        """Certify the fitted estimator by labelled texts that nothing was fitted on.

        They replace the calibration set. Texts that were fitted, where this is known, are rejected,
        or left out with overlap="drop"; near-duplicates of them are left out. With
        repeats="traffic" rows that repeat a fitted text count, as new rows.
        """
        check_parameters(self)
        calibrated = copy.copy(self)
        calibrated._calibrate(X, y, groups, overlap)
        self.__dict__ = calibrated.__dict__
        return self

    def _is_fitted_already(self) -> bool:
        model = self.estimator
        usable = model is None or hasattr(model, "predict") or callable(model)
        if isinstance(model, type) or not usable:
            raise TypeError(
                "estimator must have fit and predict, as in scikit-learn, or be a function from "
                f"rows to labels. Got {samples.name_of(model)} instead. Add a classifier as "
                "its last step."
            )
        can_fit = model is None or hasattr(model, "fit")
        return self.prefit or isinstance(model, FrozenEstimator) or not can_fit

    def _fit(self, X, y, sample_weight, groups, judge):
        estimator = TextClassifier("english") if self.estimator is None else self.estimator
        only_texts = getattr(estimator, "only_texts", False)
        X, y = samples.as_samples(X, only_texts=only_texts), materialize(y)
        n_given = samples.n_samples(X)
        with_text = rows_with_text(X)
        if with_text is not None:
            check_length(y, n_given, "y")
            X, y = samples.select_rows(X, with_text), select_values(y, with_text)
            groups = select_values(groups, with_text)
            sample_weight = select_values(sample_weight, with_text)
        n_certifiable, calibration_size = samples.n_samples(X), self.calibration_size
        if judge is not None:
            X, y = _with_machine_labels(X, y, groups, judge)
        n = samples.n_samples(X)
        labels = Labels.parse(y, n).with_groups(groups)
        group_of = labels.groups
        self.target_type_ = labels.target_type
        clusters = independence.dependent_clusters(X)
        if judge is not None and calibration_size == "auto":
            is_divided = self.repeats is None and np.unique(clusters).size < n
            calibration_size = 0.5 if is_divided else _FRACTION_WITH_JUDGE
        parts = independence.hold_out(
            clusters,
            calibration_size,
            self.random_state,
            group_of,
            repeats=self.repeats,
            n_labelled=n_certifiable,
            cluster_rows=independence.cluster_rows_of(X),
        )
        training, held_out = parts.training_rows, parts.held_out_rows
        by_machine = np.arange(n_certifiable, n)
        training = labels.training_rows(training, self.calibration_size, clusters)
        options = {}  # of the estimator's fit
        if sample_weight is not None:
            if not has_fit_parameter(estimator, "sample_weight"):
                raise ValueError(
                    f"sample_weight must be None for an estimator whose fit does not take it. "
                    f"{samples.name_of(estimator)} does not. Leave it out, or set class_weight "
                    "there."
                )
            weights = sample_weights(sample_weight, n_certifiable)
            weights = np.append(weights, np.ones(by_machine.size))
            options["sample_weight"] = weights[training]
        if group_of is not None and has_fit_parameter(estimator, "groups"):
            options["groups"] = group_of[training]
        training_X = samples.select_rows(X, training)
        target = labels.targets(training, as_given=only_texts)
        self.estimator_ = clone(estimator).fit(training_X, target, **options)
        self.classes_ = labels.classes
        self.fitted_classes_ = labels.estimator_classes(self.estimator_, training)
        # what recognises the rows that were fitted, and their near-duplicates
        self.training_fingerprints_ = np.unique(samples.row_fingerprints(training_X))
        texts = samples.text_column(training_X)
        self.training_sketches_ = sketches(texts) if samples.is_texts(texts) else None
        condition = "" if judge is None else f"; {judges.CONDITION}"
        fields = {
            "provenance": f"held out by fit{describe_empty(n_given, with_text)}{condition}",
            "calibration_size": parts.fraction,
        }
        if parts.scope == "same groups":
            fields |= {"scope": parts.scope, "n_groups": np.unique(group_of).size}
        self.seed_ = parts.seed
        drawn = parts.positions() if len(parts.samples) > 1 else None
        certified = labels.select(held_out)
        if parts.scope != "groups":
            certified = replace(certified, groups=None)
        self._certify(samples.select_rows(X, held_out), certified, fields, drawn)

    def _calibrate(self, X, y, groups, overlap):
        if not hasattr(self, "estimator_"):
            if not self._is_fitted_already():
                check_is_fitted(self)
            frozen = isinstance(self.estimator, FrozenEstimator)
            self.estimator_ = self.estimator.estimator if frozen else self.estimator
        X, y = samples.samples_for(self, X), materialize(y)
        sets = parse_sets(y, samples.n_samples(X))
        if not hasattr(self, "target_type_"):
            targets = "classes" if sets is None else "sets" if sets.are_sets else "indicator"
            self.target_type_ = getattr(self.estimator_, "target_type_", targets)
        if not hasattr(self, "classes_"):
            names = y if sets is None else sets.names or range(sets.has.shape[1])
            names = as_labels(names, None if sets else samples.n_samples(X), "y")
            self.classes_ = classes_of(self.estimator_, self.classes, names)
            self.fitted_classes_ = self.classes_
        rows = error_bounds.exclude_training_overlap(
            self, X, y, overlap, groups, repeats=self.repeats
        )
        # with those that were not fitted: their texts are errors
        self.classes_ = rows.labels.classes
        self.seed_ = getattr(self, "seed_", self.random_state)
        self._certify(rows.X, rows.labels, {"provenance": rows.provenance})

    def _certify(self, X, labels, fields, drawn=None):
        """Certify by these rows, and calibrate; `drawn` are the rows of two samples of them."""
        predictions = self.predict_with_scores(X)
        rows = error_bounds.LabelledRows(X, labels, "", np.arange(len(labels)))
        self.certificate_ = error_bounds.certify_rows(
            self,
            rows,
            predictions.labels,
            fields=fields,
            delta=self._delta(None),
            n_candidates=self.n_candidates,
            random_state=self.seed_,
            repeats=self.repeats,
            drawn=drawn,
        )
        self.seed_ = self.certificate_.random_state
        self.out_of_fold_ = self._out_of_fold()
        self.calibration_, planning = self._calibration_of(
            X, labels, predictions.log_proba, drawn, self.out_of_fold_ is None
        )
        if planning is not None:
            self.out_of_fold_ = OutOfFold(planning.log_proba, planning.labels)
        if self.randomized_tests:
            self.calibration_ = replace(self.calibration_, uniform=abstaining.draw_uniform())

    def _calibration_of(self, X, labels, log_proba, drawn, is_planned):
        """The calibration set, and rows of it that plan abstention if nothing else does.

        It has one row of each cluster, or of each group, or the rows of both samples.
        """
        grouped = self.certificate_.scope == "groups"
        clusters = labels.groups if grouped else independence.dependent_clusters(X)
        if grouped:
            drawn = {SAME: one_row_per_cluster(clusters, self.seed_)}
        elif drawn is None:
            drawn = draw_samples(clusters, self.repeats, self.seed_)
        if len(drawn) == 1:
            (kept,) = drawn.values()
            members = {}
        else:
            kept = np.unique(np.concatenate(list(drawn.values())))
            members = {name: np.isin(kept, rows) for name, rows in drawn.items()}

        monitors = monitors_of(self, X)[kept] if samples.is_texts(X) else None
        log_proba = None if log_proba is None else log_proba[kept]
        covered = coverage.are_covered(self, X)[kept]
        calibration = Calibration(
            log_proba, labels.encoded[kept], members=members, monitors=monitors, covered=covered
        )
        if log_proba is None or not is_planned:
            return calibration, None

        rng = np.random.default_rng([self.seed_, 2])
        clusters_kept = clusters[kept]
        if np.unique(clusters_kept).size == kept.size:
            is_planning = rng.random(kept.size) < _PLANNING_FRACTION
            all_members = members or {SAME: np.ones(kept.size, bool)}
            tested = {name: rows & ~is_planning for name, rows in all_members.items()}
        else:  # no row of a cluster that is tested may plan, and the rows tested are a sample
            find_clusters = independence.cluster_rows_of(samples.select_rows(X, kept))
            division = divide_rows(clusters_kept, 0.5, rng, cluster_rows=find_clusters)
            is_planning = division.is_free
            rows_of_traffic = division.samples.get(TRAFFIC, division.samples.get(SAME))
            in_traffic = np.isin(np.arange(kept.size), rows_of_traffic)
            has_planning = np.isin(clusters_kept, clusters_kept[is_planning])
            all_members = members or {TRAFFIC: np.ones(kept.size, bool)}
            tested = {}
            for name, rows in all_members.items():
                tested[name] = rows & (~has_planning if name == COPIES else in_traffic)
        calibration = replace(calibration, tested_members=tested)
        return calibration, calibration.select(np.flatnonzero(is_planning))

    def _check_calibration(
        self, X: Any, y: Any, group_of: np.ndarray | None, drawn: dict[str, np.ndarray] | None
    ) -> None:
        """Refuse a calibration set that does not follow from the rows that were certified."""
        labels = label_type(self).of_answers(self.classes_, y, group_of)
        log_proba = self.predict_with_scores(X).log_proba
        right, _ = self._calibration_of(X, labels, log_proba, drawn, False)
        if {k: v.tolist() for k, v in right.members.items()} != {
            k: v.tolist() for k, v in self.calibration_.members.items()
        }:
            raise ValueError(
                "The calibration set must be that of the certified texts. Got other samples "
                "instead: it was changed. Calibrate again."
            )
        for name in ("labels", "log_proba", "monitors", "covered"):
            stated, value = getattr(self.calibration_, name), getattr(right, name)
            # machines round sums differently; equality comes first for None
            if stated is not value and not np.allclose(stated, value, rtol=1e-4, atol=1e-6):
                raise ValueError(
                    f"The calibration set must be that of the certified texts. Got other {name} "
                    "instead: it was changed. Calibrate again."
                )

    def predict_with_scores(self, X: Any) -> samples.Predictions:
        """Labels (multi-label: a matrix) and log-probabilities, if there are any, in one pass."""
        check_is_fitted(self)
        X = samples.samples_for(self, X)
        predict = samples.predict_label_sets if is_multilabel(self) else samples.predict_any
        labels, log_proba = predict(self.estimator_, self.fitted_classes_, X)
        return samples.Predictions(labels, self._with_all_classes(log_proba))

    def _with_all_classes(self, log_proba):
        """Add columns for classes that had too few texts to be fitted: they are not predicted."""
        if log_proba is None or len(self.fitted_classes_) == len(self.classes_):
            return log_proba
        shape = len(log_proba), len(self.classes_)
        of_all = np.full(shape, np.log(samples.MIN_PROBABILITY))
        of_all[:, class_indices(self.classes_, self.fitted_classes_)] = log_proba
        return of_all

    def _out_of_fold(self):
        own = getattr(self.estimator_, "out_of_fold_", None)
        if own is None or len(self.fitted_classes_) == len(self.classes_):
            return own
        labels = class_indices(self.classes_, self.fitted_classes_)[own.labels]
        return OutOfFold(self._with_all_classes(own.log_proba), labels)

    def predict(self, X: Any) -> np.ndarray | list[tuple]:
        """The label, or the labels, that the estimator gives: what the certificate is about."""
        labels = self.predict_with_scores(X).labels
        if not is_multilabel(self):
            return labels
        return multilabel.format_labels(labels, self.classes_, self.target_type_)

    def predict_log_proba(self, X: Any) -> np.ndarray:
        """Logarithms of `predict_proba`."""
        return self._check_scores("predict_proba", self.predict_with_scores(X).log_proba)

    def predict_proba(self, X: Any) -> np.ndarray:
        """The estimator's probabilities, or normalised decision values, (n, n_classes)."""
        return np.exp(self.predict_log_proba(X))

    def explain(self, text: str, label: Any = None) -> Explanation:
        """The decision of a TextClassifier taken apart: see `TextClassifier.explain`."""
        check_is_fitted(self)
        return self.estimator_.explain(text, label)

    def report(self, X: Any, y: Sequence) -> Diagnostics:
        """How it does on labelled texts that it was not fitted on: see `TextClassifier.report`."""
        check_is_fitted(self)
        return report(self, X, y)

    def compare_with_calibration(self, X: Any) -> TextComparison:
        """Whether new rows are like the calibration set, as every guarantee about them assumes."""
        check = DriftCheck(self)
        X = samples.samples_for(self, X)
        check.add(X, self.predict_log_proba(X))
        return check.result()

    def predict_set(
        self,
        X: Any,
        *,
        error: float = 0.05,
        delta: float | None = None,
        per_class: bool = False,
        as_mask: bool = False,
    ) -> list[list] | np.ndarray:
        """For each row the classes that cannot be ruled out.

        With probability 1 - delta over the calibration set, the sets miss the right class for at
        most `error` of new rows; for every class by itself with `per_class`. With `as_mask` an
        array of bool, (n, n_classes).
        """
        thresholds = self.prediction_set_thresholds(error=error, delta=delta, per_class=per_class)
        X = samples.samples_for(self, X)
        mask = self.predict_log_proba(X) >= thresholds
        mask |= ~coverage.are_covered(self, X)[:, None]
        return mask if as_mask else [self.classes_[row].tolist() for row in mask]

    def prediction_set_thresholds(
        self, *, error: float = 0.05, delta: float | None = None, per_class: bool = False
    ) -> np.ndarray:
        """Log-probability from which on each class is in the sets of `predict_set`."""
        calibration = self._scored_calibration("predict_set")
        level = divide_delta(self._delta(delta), self.n_candidates)
        return cautious_set_thresholds(calibration.samples(), error, level, per_class)

    def abstain(
        self, *, error: float | None = 0.05, delta: float | None = None
    ) -> abstaining.Abstaining:
        """Answer only where at most `error` of the answers are wrong, with confidence 1 - delta.

        None takes the smallest of ten from 0.01 to 0.5 with which at least half of the calibration
        texts are answered, and corrects delta for this choice.
        """
        tested = self._scored_calibration("abstain").samples(tested=True)
        return abstaining.abstain(self, tested, error, self._delta(delta), self.n_candidates)

    def tune_thresholds(
        self,
        *,
        precision: float | None = None,
        recall: float | None = None,
        classes: Sequence | None = None,
        delta: float | None = None,
    ) -> thresholds.ClassThresholds:
        """Thresholds with a guaranteed precision, recall, or both, for these classes together.

        Without `classes` for all of them; delta is shared by those that are given. Each label of a
        multi-label classifier is a class.
        """
        return thresholds.class_thresholds(
            self,
            self._scored_calibration("tune_thresholds", any_labels=True).samples(tested=True),
            precision=precision,
            recall=recall,
            classes=classes,
            delta=self._delta(delta),
            n_candidates=self.n_candidates,
        )

    def control_risk(
        self,
        *,
        false_negatives: float | None = None,
        false_discoveries: float | None = None,
        delta: float | None = None,
    ) -> thresholds.LabelThreshold:
        """`pacsent.predict.control_risk` for multi-label classifiers, planned out of fold."""
        if not is_multilabel(self):
            raise ValueError(
                "control_risk is for several labels per text. Got one class a text instead. Use "
                "tune_thresholds(precision=, recall=)."
            )
        calibration = self._scored_calibration("control_risk", any_labels=True)
        return thresholds.control_risk_on_samples(
            [
                (tested.labels, np.exp(tested.log_proba))
                for tested in calibration.samples(tested=True).values()
            ],
            false_negatives=false_negatives,
            false_discoveries=false_discoveries,
            delta=self._delta(delta),
            n_candidates=self.n_candidates,
            random_state=self.seed_,
            planning=(self.out_of_fold_.labels, np.exp(self.out_of_fold_.log_proba)),
        )

    def _delta(self, delta):
        """What one statement has of delta: that of the call, or of the constructor."""
        delta = check_probability("delta", self.delta if delta is None else delta)
        return divide_delta(delta, _N_JOINT_STATEMENTS if self.simultaneous else 1)

    def _scored_calibration(self, what, any_labels=False):
        check_is_fitted(self)
        if is_multilabel(self) and not any_labels:
            raise ValueError(
                f"{what} is for one class a text. Got several labels per text instead. Use "
                "tune_thresholds(precision=, recall=) or control_risk(false_negatives=)."
            )
        self._check_scores(what, self.calibration_.log_proba)
        samples.check_unchanged(self.estimator_, self.certificate_.digests)
        return self.calibration_

    def _check_scores(self, what, log_proba):
        if log_proba is None:
            reason = "gives labels alone"
            if hasattr(self.estimator_, "decision_function"):
                reason = "has decision values that are not one finite number per class"
            raise ValueError(
                f"{what} needs probabilities or decision values. "
                f"{samples.name_of(self.estimator_)} {reason}. Give a function that returns "
                "probabilities, with classes=, or another estimator."
            )
        return log_proba

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.string = True
        return tags

    def state(self) -> State:
        """What `pacsent.save` writes: a TextClassifier, its certificate and its calibration set."""
        check_is_fitted(self)
        if not hasattr(self.estimator_, "state"):
            raise TypeError(
                "save() takes a CertifiedClassifier around a TextClassifier. Got one around "
                f"{samples.name_of(self.estimator_)} instead. Save the estimator in its own "
                "way and certificate_.to_json() beside it; after loading, "
                "CertifiedClassifier(estimator, prefit=True).calibrate(X, y)."
            )
        samples.check_unchanged(self.estimator_, self.certificate_.digests)
        parameters = self.get_params(deep=False)
        for name in ("estimator", "classes", "prefit"):
            del parameters[name]
        parameters["random_state"] = self.seed_
        described = json.dumps(
            {"certificate": self.certificate_.to_dict(), "classes": self.classes_.tolist()},
            ensure_ascii=False,
        )
        arrays = {
            "calibration.log_proba": self.calibration_.log_proba,
            "calibration.labels": self.calibration_.labels.astype(np.int64),
            "calibration.monitors": self.calibration_.monitors,
            "calibration.covered": self.calibration_.covered.astype(np.uint8),
            "description": np.frombuffer(described.encode(), np.uint8),
        }
        for name, rows in self.calibration_.members.items():
            arrays[f"calibration.in_{name}"] = rows.astype(np.uint8)
        if self.randomized_tests:
            arrays["calibration.uniform"] = np.array(self.calibration_.uniform)
        return State({"parameters": parameters}, arrays, {"estimator": self.estimator_})

    @classmethod
    def from_state(cls, state: State) -> "CertifiedClassifier":
        """The inverse of `state`, for arrays that anybody may have written: all are checked."""
        tensors, estimator = state.tensors, state.parts["estimator"]
        if not hasattr(estimator, "out_of_fold_"):
            raise ValueError("its estimator is no TextClassifier")
        made = cls(estimator, **state.config["parameters"], prefit=True)
        check_parameters(made)
        described = json.loads(checked_tensor(tensors, "description", np.uint8, (None,)).tobytes())
        made.estimator_, made.fitted_classes_ = estimator, estimator.classes_
        made.target_type_, made.classes_ = estimator.target_type_, estimator.classes_
        of_sets = is_multilabel(made)
        if not of_sets:
            made.classes_ = as_classes(described["classes"])
            fitted = made.classes_[np.isin(made.classes_, made.fitted_classes_)]
            if fitted.tolist() != made.fitted_classes_.tolist():
                raise ValueError("its classes are not those of its estimator, in their order")
        made.out_of_fold_ = made._out_of_fold()
        n_classes = made.classes_.size
        kind: type[HeldOutCertificate] = MultilabelCertificate if of_sets else ErrorCertificate
        made.certificate_ = kind.from_dict(described["certificate"])
        made.certificate_.verify()
        samples.check_unchanged(estimator, made.certificate_.digests)
        made.repeats = made.certificate_.repeats
        made.seed_ = check_count("random_state", made.certificate_.random_state, least=0)
        n = made.certificate_.n
        members = {}
        if made.certificate_.other:
            for name, parts in made.certificate_.samples.items():
                rows = checked_tensor(
                    tensors, f"calibration.in_{name}", np.uint8, (None,), low=0, below=2
                )
                if int(rows.sum()) != parts["n"]:
                    raise ValueError(f"its calibration set must have {parts['n']} rows of {name}")
                members[name] = rows.astype(bool)
            n = next(iter(members.values())).size
        shape, below = ((n, n_classes), 2) if of_sets else ((n,), n_classes)
        name = "calibration.labels"
        labels = checked_tensor(tensors, name, np.int64, shape, low=0, below=below)
        made.calibration_ = Calibration(
            checked_tensor(tensors, "calibration.log_proba", np.float64, (n, n_classes)),
            labels.astype(bool) if of_sets else labels,
            members=members,
            monitors=checked_tensor(
                tensors, "calibration.monitors", np.float64, (n, len(MONITORS)), low=-1
            ),
            covered=checked_tensor(
                tensors, "calibration.covered", np.uint8, (n,), low=0, below=2
            ).astype(bool),
        )
        if made.randomized_tests:
            uniform = checked_tensor(tensors, "calibration.uniform", np.float64, (), low=0, below=1)
            made.calibration_ = replace(made.calibration_, uniform=float(uniform))
        return made


registry.register("model", CertifiedClassifier.kind, CertifiedClassifier.from_state)
