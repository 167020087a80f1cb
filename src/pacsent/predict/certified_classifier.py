"""CertifiedClassifier: a guarantee on the errors of any classifier, from labels held out."""

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, replace
from numbers import Integral, Real
from operator import attrgetter
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.frozen import FrozenEstimator
from sklearn.utils.validation import check_is_fitted

from pacsent import registry
from pacsent.bounds.checks import check_probability
from pacsent.bounds.delta import divide_delta
from pacsent.certify import coverage, error_bounds, independence, judges, samples
from pacsent.certify.columns import materialize
from pacsent.certify.drift_check import DriftCheck, TextComparison
from pacsent.certify.error_certificate import HeldOutCertificate
from pacsent.certify.labels import Labels, is_multilabel, parse_sets
from pacsent.certify.repeats import COPIES, TRAFFIC
from pacsent.parameter_checks import Interval, StrOptions, check_before, check_parameters
from pacsent.predict import abstaining, thresholds
from pacsent.predict.abstaining import cautious_set_thresholds
from pacsent.predict.calibration import Calibration, DrawnRows, draw_calibration
from pacsent.predict.fitted import FittedCertifiedClassifier, FittedModel
from pacsent.predict.holding_out import GivenRows, fit_estimator, split_rows, weights_of
from pacsent.storage import State

if TYPE_CHECKING:
    from pacsent.classify.diagnostics import Diagnostics
    from pacsent.classify.explanation import Explanation
    from pacsent.classify.fitting import OutOfFold

_N_JOINT_STATEMENTS = 3  # the error, prediction sets and abstention


def _fitted_attribute(path: str) -> Any:
    """A public attribute that is a field of the fitted state, such as "model.classes_"."""
    read = attrgetter(path)

    def get(classifier: Any) -> Any:
        if "fitted_" not in vars(classifier):
            check_is_fitted(classifier)  # raises
        return read(classifier.fitted_)

    return property(get)


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
    >>> from sklearn.model_selection import train_test_split
    >>> from pacsent.datasets import load_banking
    >>> texts, intents = load_banking(n_classes=12)  # messages to a bank
    >>> X, X_new, y, y_new = train_test_split(texts, intents, train_size=500, random_state=0)
    >>> classifier = CertifiedClassifier(random_state=0).fit(X, y)
    >>> print(classifier.certificate_.summary())
    With 95% confidence, the error rate on new texts is at most 0.1281 (12 of 148 held-out
    distinct texts were wrong: 0.0811; always answering card_payment_not_recognised: 0.8446). Of
    two bounds the larger counts: 0.1225 for new rows, repeats included, and 0.1281 for new
    distinct texts.
    >>> classifier.predict(["I was charged twice for my coffee"]).tolist()
    ['transaction_charged_twice']
    >>> classifier.predict_set(["I was charged twice", "is there a fee?"], error=0.1)
    [['transaction_charged_twice'], ['cash_withdrawal_charge', 'transfer_fee_charged']]
    >>> classifier.abstain(error=0.1).predict(["I was charged twice", "how much does it cost"])
    ['transaction_charged_twice', None]

    Any classifier of texts can be wrapped:

    >>> from sklearn.feature_extraction.text import TfidfVectorizer
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.pipeline import make_pipeline
    >>> model = make_pipeline(TfidfVectorizer(), LogisticRegression(C=30))
    >>> certified = CertifiedClassifier(model, random_state=0).fit(X, y)
    >>> certified.certificate_.n, round(certified.certificate_.error_upper, 3)
    (148, 0.198)
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
    estimator_ = _fitted_attribute("model.estimator_")
    classes_ = _fitted_attribute("model.classes_")
    fitted_classes_ = _fitted_attribute("model.fitted_classes_")
    target_type_ = _fitted_attribute("model.target_type_")
    training_fingerprints_ = _fitted_attribute("model.training_fingerprints_")
    training_sketches_ = _fitted_attribute("model.training_sketches_")
    certificate_ = _fitted_attribute("certificate")
    calibration_ = _fitted_attribute("calibration")
    out_of_fold_ = _fitted_attribute("out_of_fold")
    seed_ = _fitted_attribute("seed")
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

    @check_before
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

        Returns
        -------
        self
        """
        if self._is_fitted_already():
            if sample_weight is not None or judge is not None:
                raise ValueError(
                    "sample_weight and judge must be None for an estimator that is fitted already."
                )
            self.fitted_ = self._calibrate(None, X, y, groups, None)
        else:
            self.fitted_ = self._fit(X, y, sample_weight, groups, judge)
        return self

    def calibrate(
        self, X: Any, y: Any, *, groups: Sequence | None = None, overlap: str | None = None
    ) -> Self:
        """Certify the fitted estimator by labelled texts that nothing was fitted on.

        They replace the calibration set. Near-duplicates of texts that were fitted, where these are
        known, are left out. With repeats="traffic" rows that repeat a fitted text count, as new
        rows.

        Parameters
        ----------
        X : texts, or any array or table that the estimator takes
        y : one label, or set of labels, for each row
        groups : array, one for each row, optional
            As for `fit`.
        overlap : {"drop"} or None, default=None
            "drop" leaves out texts that were fitted; None raises ValueError for them.

        Returns
        -------
        self
        """
        check_parameters(self)
        fitted = getattr(self, "fitted_", None)
        if fitted is None and not self._is_fitted_already():
            check_is_fitted(self)
        self.fitted_ = self._calibrate(fitted, X, y, groups, overlap)
        return self

    def _is_fitted_already(self) -> bool:
        model = self.estimator
        is_usable = model is None or hasattr(model, "predict") or callable(model)
        if isinstance(model, type) or not is_usable:
            raise TypeError(
                "estimator must have fit and predict, as in scikit-learn, or be a function from "
                f"rows to labels. Got {samples.name_of(model)} instead. Add a classifier as "
                "its last step."
            )

        can_fit = model is None or hasattr(model, "fit")
        return self.prefit or isinstance(model, FrozenEstimator) or not can_fit

    def _fit(
        self, X: Any, y: Any, sample_weight: Any, groups: Any, judge: Any
    ) -> FittedCertifiedClassifier:
        """Hold out rows, fit on the others, certify."""
        estimator = self.estimator
        if estimator is None:
            from pacsent.classify import TextClassifier

            estimator = TextClassifier("english")

        only_texts = getattr(estimator, "only_texts", False)
        rows = GivenRows.of(X, y, sample_weight, groups, only_texts=only_texts)
        if judge is not None:
            rows = rows.with_judge(judge)
        X = rows.X
        labels = Labels.parse(rows.y, samples.n_samples(X))
        labels = labels.with_groups(rows.groups)

        split = split_rows(
            X,
            labels,
            independence.dependent_clusters(X),
            calibration_size=self.calibration_size,
            random_state=self.random_state,
            repeats=self.repeats,
            n_labelled=rows.n_labelled,
            has_judge=judge is not None,
        )
        weights = weights_of(estimator, rows.sample_weight, rows.n_labelled, len(labels))
        model = fit_estimator(estimator, X, labels, split.training_rows, weights)

        condition = "" if judge is None else f"; {judges.CONDITION}"
        fields: dict[str, Any] = {
            "provenance": f"held out by fit{rows.empty}{condition}",
            "calibration_size": split.fraction,
        }
        held_out = labels.select(split.held_out_rows)
        if split.scope != "groups":
            held_out = replace(held_out, groups=None)
        if split.scope == "same groups" and labels.groups is not None:
            fields["scope"] = split.scope
            fields["n_groups"] = np.unique(labels.groups).size

        drawn = split.positions() if len(split.samples) > 1 else None
        held_out_X = samples.select_rows(X, split.held_out_rows)
        return self._make_state(model, held_out_X, held_out, fields, seed=split.seed, drawn=drawn)

    def _calibrate(
        self,
        fitted: FittedCertifiedClassifier | None,
        X: Any,
        y: Any,
        groups: Any,
        overlap: str | None,
    ) -> FittedCertifiedClassifier:
        """Certify the model of a fitted state, or without one the estimator that was given."""
        estimator = self.estimator
        if fitted is not None:
            estimator = fitted.model.estimator_
        elif isinstance(estimator, FrozenEstimator):
            estimator = estimator.estimator

        only_texts = getattr(estimator, "only_texts", False)
        X = samples.as_samples(X, only_texts=only_texts)
        y = materialize(y)
        if fitted is None:
            model = FittedModel.of_given(estimator, self.classes, X, y)
        else:
            model = fitted.model
            parse_sets(y, samples.n_samples(X))  # refuses a mixture of labels and sets

        rows = error_bounds.exclude_training_overlap(
            model, X, y, overlap, groups, repeats=self.repeats
        )
        # Classes that were not fitted belong to it: their texts are errors.
        model = replace(model, classes_=rows.labels.classes)
        fields = {"provenance": rows.provenance}
        seed = self.random_state if fitted is None else fitted.seed
        return self._make_state(model, rows.X, rows.labels, fields, seed=seed)

    def _make_state(
        self,
        model: FittedModel,
        X: Any,
        labels: Labels,
        fields: dict[str, Any],
        *,
        seed: Any,
        drawn: dict[str, np.ndarray] | None = None,
    ) -> FittedCertifiedClassifier:
        """The state of a model that these rows certify and calibrate.

        `drawn` are the rows of two samples of them.
        """
        predictions = model.predict_with_scores(X)
        rows = error_bounds.LabelledRows(X, labels, "", np.arange(len(labels)))
        certificate = error_bounds.certify_rows(
            model,
            rows,
            predictions.labels,
            fields=fields,
            delta=self._delta(None),
            n_candidates=self.n_candidates,
            random_state=seed,
            repeats=self.repeats,
            drawn=drawn,
        )

        drawn_rows = draw_calibration(model, certificate, X, labels, predictions.log_proba, drawn)
        calibration, out_of_fold = self._plan_abstention(model, certificate, drawn_rows)
        return FittedCertifiedClassifier(model, certificate, calibration, out_of_fold)

    def _plan_abstention(
        self, model: FittedModel, certificate: HeldOutCertificate, rows: DrawnRows
    ) -> tuple[Calibration, "OutOfFold | None"]:
        """The calibration set, and the predictions that abstention is planned on.

        Without out-of-fold predictions a part of the calibration set plans, and is not tested.
        """
        calibration = rows.calibration
        out_of_fold = model.out_of_fold()
        if out_of_fold is None and calibration.log_proba is not None:
            from pacsent.classify.fitting import OutOfFold

            calibration, planning = rows.divide(certificate)
            out_of_fold = OutOfFold(planning.log_proba, planning.labels)

        if self.randomized_tests:
            uniform = abstaining.draw_uniform()
            calibration = replace(calibration, uniform=uniform)
        return calibration, out_of_fold

    def _check_calibration(
        self, X: Any, y: Any, group_of: np.ndarray | None, drawn: dict[str, np.ndarray] | None
    ) -> None:
        """Refuse a calibration set that does not follow from the rows that were certified."""
        model = self.fitted_.model
        labels = model.label_type.of_answers(model.classes_, y, group_of)
        log_proba = model.predict_with_scores(X).log_proba
        rows = draw_calibration(model, self.certificate_, X, labels, log_proba, drawn)
        rows.calibration.check_equal(self.calibration_)

    def predict_with_scores(self, X: Any) -> samples.Predictions:
        """Labels (multi-label: a matrix) and log-probabilities, if there are any, in one pass.

        Parameters
        ----------
        X : rows as the estimator takes them

        Returns
        -------
        Predictions
        """
        if "fitted_" not in vars(self):
            check_is_fitted(self)  # raises
        return self.fitted_.model.predict_with_scores(X)

    def predict(self, X: Any) -> np.ndarray | list[tuple]:
        """The label, or the labels, that the estimator gives: the certificate is about these.

        Parameters
        ----------
        X : rows as the estimator takes them

        Returns
        -------
        array, (n,); or list of tuple, or array, (n, n_labels), as `y` was given
        """
        labels = self.predict_with_scores(X).labels
        if not is_multilabel(self):
            return labels

        from pacsent.classify.multilabel import format_labels

        return format_labels(labels, self.classes_, self.target_type_)

    def predict_log_proba(self, X: Any) -> np.ndarray:
        """Logarithms of `predict_proba`.

        Parameters
        ----------
        X : rows as the estimator takes them

        Returns
        -------
        array, (n, n_classes)
        """
        log_proba = self.predict_with_scores(X).log_proba
        return self._check_scores("predict_proba", log_proba)

    def predict_log_proba_each(self, groups: Sequence[list[str]]) -> np.ndarray:
        """`predict_log_proba` of each group of texts, in fewer passes: see `TextClassifier`.

        Parameters
        ----------
        groups : list of list of str

        Returns
        -------
        array, (n, n_classes)
            The rows of all groups, one group after the other.
        """
        if "fitted_" not in vars(self):
            check_is_fitted(self)  # raises
        log_proba = self.fitted_.model.predict_log_proba_each(groups)
        return self._check_scores("predict_proba", log_proba)

    def predict_proba(self, X: Any) -> np.ndarray:
        """The estimator's probabilities, or normalised decision values.

        Parameters
        ----------
        X : rows as the estimator takes them

        Returns
        -------
        array, (n, n_classes)
        """
        return np.exp(self.predict_log_proba(X))

    def explain(self, text: str, label: Any = None) -> "Explanation":
        """The decision of a TextClassifier taken apart: see `TextClassifier.explain`.

        Parameters
        ----------
        text : str
        label : optional
            The class to explain; by default the one that is predicted.

        Returns
        -------
        Explanation
        """
        check_is_fitted(self)
        return self.estimator_.explain(text, label)

    def report(self, X: Any, y: Sequence) -> "Diagnostics":
        """Evaluate on labelled texts that it was not fitted on: see `TextClassifier.report`.

        Parameters
        ----------
        X : list of str
        y : one label, or set of labels, for each text

        Returns
        -------
        Diagnostics
        """
        from pacsent.classify.diagnostics import report

        check_is_fitted(self)
        return report(self, X, y)

    def compare_with_calibration(self, X: Any) -> TextComparison:
        """Compare new rows with the calibration set, which all guarantees assume to be alike.

        Parameters
        ----------
        X : rows as the estimator takes them

        Returns
        -------
        TextComparison
        """
        check = DriftCheck(self)
        X = samples.samples_for(self, X)
        log_proba = self.predict_log_proba(X)
        check.add(X, log_proba)
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
        most `error` of new rows.

        Parameters
        ----------
        X : rows as the estimator takes them
        error : float, default=0.05
            Largest fraction of new rows whose set misses the right class.
        delta : float or None, default=None
            Probability that the guarantee is false; None takes that of the constructor.
        per_class : bool, default=False
            Whether the guarantee is for the rows of every class by itself.
        as_mask : bool, default=False
            Whether to return an array in place of lists.

        Returns
        -------
        list of list, or array of bool, (n, n_classes)

        References
        ----------
        Theorem 13 of docs/theory.md.
        """
        thresholds = self.prediction_set_thresholds(error=error, delta=delta, per_class=per_class)
        X = samples.samples_for(self, X)
        is_in_set = self.predict_log_proba(X) >= thresholds  # (n, n_classes)
        is_covered = coverage.are_covered(self, X)  # (n,)
        is_in_set |= ~is_covered[:, None]
        if as_mask:
            return is_in_set
        return [self.classes_[row].tolist() for row in is_in_set]

    def prediction_set_thresholds(
        self, *, error: float = 0.05, delta: float | None = None, per_class: bool = False
    ) -> np.ndarray:
        """Log-probability from which on each class is in the sets of `predict_set`.

        Parameters
        ----------
        error, delta, per_class : see `predict_set`

        Returns
        -------
        array, (n_classes,)
        """
        calibration = self._scored_calibration("predict_set")
        level = divide_delta(self._delta(delta), self.n_candidates)
        return cautious_set_thresholds(calibration.samples(), error, level, per_class)

    def abstain(
        self, *, error: float | None = 0.05, delta: float | None = None
    ) -> abstaining.Abstaining:
        """Answer only where at most `error` of the answers are wrong, with confidence 1 - delta.

        Parameters
        ----------
        error : float or None, default=0.05
            Largest fraction of wrong answers. None takes the smallest of ten from 0.01 to 0.5 with
            which at least half of the calibration texts are answered, and corrects delta for this
            choice.
        delta : float or None, default=None
            Probability that the guarantee is false; None takes that of the constructor.

        Returns
        -------
        Abstaining

        References
        ----------
        Theorem 14 of docs/theory.md.
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

        Each label of a multi-label classifier is a class.

        Parameters
        ----------
        precision, recall : float or None, default=None
            Smallest precision, and recall, to guarantee: at least one of the two.
        classes : sequence or None, default=None
            The classes that may be named; they share delta. None takes all of them.
        delta : float or None, default=None
            Probability that any of the guarantees is false; None takes that of the constructor.

        Returns
        -------
        ClassThresholds

        References
        ----------
        Theorem 18 of docs/theory.md.
        """
        calibration = self._scored_calibration("tune_thresholds", any_labels=True)
        return thresholds.class_thresholds(
            self,
            calibration.samples(tested=True),
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
        """`pacsent.predict.control_risk` for multi-label classifiers, planned out of fold.

        Parameters
        ----------
        false_negatives, false_discoveries : float or None, default=None
            Largest mean loss: one of the two.
        delta : float or None, default=None
            Probability that the guarantee is false; None takes that of the constructor.

        Returns
        -------
        LabelThreshold

        References
        ----------
        Theorem 22 of docs/theory.md.
        """
        if not is_multilabel(self):
            raise ValueError(
                "control_risk is for several labels per text. Got one class a text instead. Use "
                "tune_thresholds(precision=, recall=)."
            )

        calibration = self._scored_calibration("control_risk", any_labels=True)
        tested_samples = calibration.samples(tested=True).values()
        labelled_proba = [(tested.labels, np.exp(tested.log_proba)) for tested in tested_samples]
        planning = self.out_of_fold_
        return thresholds.control_risk_on_samples(
            labelled_proba,
            false_negatives=false_negatives,
            false_discoveries=false_discoveries,
            delta=self._delta(delta),
            n_candidates=self.n_candidates,
            random_state=self.seed_,
            planning=(planning.labels, np.exp(planning.log_proba)),
        )

    def _delta(self, delta: float | None) -> float:
        """The part of delta, that of the call or of the constructor, that one statement has."""
        total = check_probability("delta", self.delta if delta is None else delta)
        n_statements = _N_JOINT_STATEMENTS if self.simultaneous else 1
        return divide_delta(total, n_statements)

    def _scored_calibration(self, method: str, *, any_labels: bool = False) -> Calibration:
        """The calibration set, if it has the scores that this method needs and belongs to it."""
        check_is_fitted(self)
        if is_multilabel(self) and not any_labels:
            raise ValueError(
                f"{method} is for one class a text. Got several labels per text instead. Use "
                "tune_thresholds(precision=, recall=) or control_risk(false_negatives=)."
            )
        self._check_scores(method, self.calibration_.log_proba)
        samples.check_unchanged(self.estimator_, self.certificate_.digests)
        return self.calibration_

    def _check_scores(self, method: str, log_proba: np.ndarray | None) -> np.ndarray:
        """The log-probabilities, or an error that names the method that needs them."""
        if log_proba is None:
            reason = "gives labels alone"
            if hasattr(self.estimator_, "decision_function"):
                reason = "has decision values that are not one finite number per class"
            raise ValueError(
                f"{method} needs probabilities or decision values. "
                f"{samples.name_of(self.estimator_)} {reason}. Give a function that returns "
                "probabilities, with classes=, or another estimator."
            )
        return log_proba

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.string = True
        return tags

    def state(self) -> State:
        """The state that `pacsent.save` writes: of a TextClassifier and what certifies it.

        Returns
        -------
        State
            Its parts are the estimator; its arrays the certificate and the calibration set.
        """
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
        return self.fitted_.to_state(parameters)

    @classmethod
    def from_state(cls, state: State) -> "CertifiedClassifier":
        """Inverse of `state`, for arrays that anybody may have written: all are checked.

        Parameters
        ----------
        state : State
            Configuration, tensors and parts, as `state` returned them.

        Returns
        -------
        CertifiedClassifier
            The fitted classifier. A ValueError says what does not fit.
        """
        estimator = state.parts["estimator"]
        if not hasattr(estimator, "out_of_fold_"):
            raise ValueError("its estimator is no TextClassifier")

        classifier = cls(estimator, **state.config["parameters"], prefit=True)
        check_parameters(classifier)
        randomized = classifier.randomized_tests
        classifier.fitted_ = FittedCertifiedClassifier.from_state(state, randomized=randomized)
        classifier.repeats = classifier.certificate_.repeats
        return classifier


registry.register("model", CertifiedClassifier.kind, CertifiedClassifier.from_state)
