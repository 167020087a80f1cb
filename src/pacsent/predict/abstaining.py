"""Answers whose error is guaranteed: texts that are not sure enough are left unanswered.

Thresholds and their order are planned on training texts (predictions by models that were not fitted
on them) and tested on the calibration texts: Theorem 14 of docs/theory.md.
"""

import secrets
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.special import betaincinv

from pacsent.bounds.binomial import chance_to_pass, format_needed, n_needed, passes, rank_for_sets
from pacsent.bounds.checks import check_probability
from pacsent.bounds.delta import confidence as format_confidence
from pacsent.bounds.delta import divide_delta
from pacsent.bounds.rounding import format_count
from pacsent.certify import coverage
from pacsent.certify.labels import class_indices
from pacsent.certify.repeats import NEW_TEXTS
from pacsent.certify.samples import samples_for
from pacsent.predict.calibration import Calibration

_N_THRESHOLDS = 30  # more of them fail by chance, fewer lie too far apart
# Quantiles of the posterior of an error rate over which the chance to pass is averaged.
_RATE_QUANTILES = (np.arange(5) + 0.5) / 5
_DEFAULT_COVERAGE = 0.5  # fraction of the texts that are answered with the default error
# From which an error is chosen where none is given.
ROUND_ERRORS = (0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5)


def confidences(
    classifier: Any, log_proba: np.ndarray, covered: np.ndarray | None = None
) -> np.ndarray:
    """The probability of each likeliest class, (n,); -1, never answered, where it means nothing.

    That is a text without known features, or one of which too few words are known: not `covered`.
    The same rule applies to calibration texts, so that abstention keeps its guarantee.
    """
    confidence = np.exp(log_proba.max(axis=1))
    if covered is not None:
        confidence[~covered] = -1.0

    model = getattr(classifier, "estimator_", classifier)
    if hasattr(model, "has_no_features"):
        fitted_log_proba = log_proba
        if log_proba.shape[1] != len(model.classes_):  # some classes had too few texts to be fitted
            fitted_columns = class_indices(classifier.classes_, model.classes_)
            fitted_log_proba = log_proba[:, fitted_columns]
        has_no_features = model.has_no_features(fitted_log_proba)
        confidence[has_no_features] = -1.0
    return confidence


def prediction_set_thresholds(
    calibration: Calibration, error: float, delta: float, per_class: bool
) -> np.ndarray:
    """Smallest log-probability with which a class enters a prediction set, (n_classes,).

    It is that of the true label with rank `rank_for_sets`; per class: of that class's texts.
    """
    check_probability("delta", delta)
    check_probability("error", error)
    n, n_classes = calibration.log_proba.shape

    true_log_proba = calibration.log_proba[np.arange(n), calibration.labels]  # (n,)
    if calibration.covered is not None:
        # The set of a text of which too few words are known has all classes: it omits none.
        true_log_proba = np.where(calibration.covered, true_log_proba, np.inf)

    if not per_class:
        threshold = _set_threshold(true_log_proba, error, delta)
        return np.full(n_classes, threshold)
    level = divide_delta(delta, n_classes)
    thresholds = np.empty(n_classes)
    for c in range(n_classes):
        of_class = true_log_proba[calibration.labels == c]
        thresholds[c] = _set_threshold(of_class, error, level, f" of class number {c}")
    return thresholds


def _set_threshold(
    true_log_proba: np.ndarray, error: float, delta: float, of_class: str = ""
) -> float:
    """The log-probability of a true label that has the rank `rank_for_sets`, from the top."""
    scores = np.sort(-true_log_proba)
    k = rank_for_sets(scores.size, error, delta)
    if k is None:
        needed = max(n_needed(error, delta), scores.size + 1)
        missing = needed - scores.size
        raise ValueError(
            f"Prediction sets that miss at most {error:g} with confidence {1 - delta:g} need "
            f"{format_needed(needed)} calibration texts{of_class}. Got {scores.size:,}, so "
            f"{format_needed(missing)} are missing. Label more texts, or allow a "
            "larger error."
        )
    return -scores[k - 1]


def cautious_set_thresholds(
    samples: Mapping[str, Calibration], error: float, delta: float, per_class: bool
) -> np.ndarray:
    """The lower of the thresholds of all samples: its sets contain those of each."""
    thresholds = [
        prediction_set_thresholds(calibration, error, delta, per_class)
        for calibration in samples.values()
    ]
    return np.min(thresholds, axis=0)


def accepted(
    thresholds: np.ndarray, confidence: np.ndarray, wrong: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """(n accepted, n wrong among them) at each threshold, thresholds falling."""
    order = np.argsort(-confidence, kind="stable")
    falling_confidence = confidence[order]
    n_accepted = np.searchsorted(-falling_confidence, -thresholds, side="right")

    n_wrong_up_to = np.cumsum(wrong[order])
    n_wrong_of_first = np.concatenate([[0], n_wrong_up_to])  # (n + 1,)
    return n_accepted, n_wrong_of_first[n_accepted]


def plan(
    confidence: np.ndarray, wrong: np.ndarray, n: int, error: float, delta: float, least: float = 0
) -> np.ndarray:
    """Falling thresholds in the order of tests on n calibration texts, chosen by other texts.

    The test starts where a threshold most probably passes. Thresholds that answer less than `least`
    of them are left out.
    """
    quantiles = np.linspace(0.0, 1.0 - least, _N_THRESHOLDS + 1)
    rising_thresholds = np.unique(np.quantile(confidence, quantiles))
    thresholds = rising_thresholds[::-1]
    n_accepted, n_wrong = accepted(thresholds, confidence, wrong)
    n_right = n_accepted - n_wrong

    # The rate of wrong answers is not known exactly: five values of its posterior are averaged.
    rates = betaincinv(n_wrong + 0.5, n_right + 0.5, _RATE_QUANTILES[:, None])
    answered_fraction = n_accepted / confidence.size
    n_answered = np.rint(n * answered_fraction).astype(int)
    chances = chance_to_pass(n_answered, rates, error, delta)  # (5, n_thresholds)
    mean_chances = chances.mean(axis=0)
    start = int(np.argmax(mean_chances))
    return thresholds[start:]


def lowest_valid_threshold(
    thresholds: np.ndarray,
    confidence: np.ndarray,
    wrong: np.ndarray,
    error: float,
    delta: float,
    uniform: float,
) -> int | None:
    """Position of the lowest threshold that may be used; None where none may.

    Fixed-sequence testing: thresholds pass in their order up to the first that fails. Tests are
    randomised by `uniform`, drawn from [0, 1) independently of texts and labels; 1 randomises none.
    """
    n_accepted, n_wrong = accepted(thresholds, confidence, wrong)
    has_failed = ~passes(n_accepted, n_wrong, error, delta, uniform)

    n_passed = has_failed.size
    if has_failed.any():
        n_passed = int(np.argmax(has_failed))
    return n_passed - 1 if n_passed else None


def draw_uniform() -> float:
    """A number from [0, 1) for `Calibration.uniform`, drawn by the system and not by a seed.

    People use the same seeds and the same numbers of texts. A number that follows from these would
    be the same for all of them, and a test that it favours would be passed too often by all.
    """
    return secrets.randbits(53) / 2**53


def describe_randomization(uniform: float) -> str:
    """The sentence about tests that were randomised; empty where they were not."""
    if uniform == 1.0:
        return ""
    return (
        " The confidence is over the calibration texts and one random number, "
        f"{uniform:.4f}, which was drawn when the model was calibrated."
    )


def lowest_common_threshold(
    thresholds: np.ndarray,
    samples: Iterable[tuple[np.ndarray, np.ndarray]],
    error: float,
    delta: float,
    uniform: float,
) -> int | None:
    """Position of the lowest threshold up to which all pass on every sample; None if there is none.

    Each sample is (confidences, whether they are wrong), and has the same thresholds in the same
    order. The lower of two thresholds that pass on one sample each is not valid: precision may fall
    where the threshold rises.
    """
    positions = []
    for confidence, wrong in samples:
        position = lowest_valid_threshold(thresholds, confidence, wrong, error, delta, uniform)
        positions.append(position)
    if None in positions:
        return None
    return min(position for position in positions if position is not None)


@dataclass(frozen=True)
class Abstaining:
    """A classifier that answers only where at most `error` of its answers are wrong.

    Attributes
    ----------
    error, delta : float
        With confidence 1 - delta, at most this fraction of the answers to new texts is wrong. If
        the calibration texts permit no answers, this is true as well.
    threshold : float
        Smallest probability of the answer with which it answers; above 1 where it never does.
    coverage, n : float, int
        Fraction of the calibration texts it answers, and their number; of two samples the smaller.
    n_choices : int
        Errors and candidates that this one was chosen from, which share `delta`.
    n_errors : int
        Errors that this one was chosen from; 1 where it was given.
    no_answers : str or None
        Why it abstains from every text, and what the calibration texts do guarantee.
    uniform : float
        The random number of the test; 1 where it is not randomised.

    Examples
    --------
    >>> from pacsent import CertifiedClassifier, TextClassifier
    >>> texts = [f"{('good', 'bad')[n % 2]} film {n}" for n in range(80)]
    >>> classifier = CertifiedClassifier(TextClassifier(None), calibration_size=0.5, random_state=0)
    >>> _ = classifier.fit(texts, ["up", "down"] * 40)
    >>> careful = classifier.abstain(error=0.3)
    >>> careful.predict(["a good film"])
    ['up']
    >>> classifier.abstain(error=None).error  # the smallest that answers half of the texts
    0.15
    """

    classifier: Any
    error: float
    delta: float
    threshold: float
    coverage: float
    n: int
    n_choices: int = 1
    no_answers: str | None = None
    uniform: float = 1.0
    n_errors: int = 1

    def predict(self, X: Iterable[str]) -> list:
        """Predict classes, or None where the classifier abstains.

        Parameters
        ----------
        X : iterable of str
            Texts.

        Returns
        -------
        list of (label or None), of length n_texts
            The likeliest class of each text; None where its probability is below the threshold, or
            where no word of the text is known.
        """
        X = samples_for(self.classifier, X)
        log_proba = self.classifier.predict_log_proba(X)
        covered = coverage.are_covered(self.classifier, X)
        is_answered = confidences(self.classifier, log_proba, covered) >= self.threshold

        likeliest = log_proba.argmax(axis=1)
        labels = self.classifier.classes_[likeliest].tolist()
        return [label if answer else None for label, answer in zip(labels, is_answered)]

    def __str__(self) -> str:
        return " ".join(self.sentences())

    def sentences(self) -> list[str]:
        """The guarantee, the condition of an answer, and what the bound is corrected for.

        Returns
        -------
        list of str
        """
        if self.no_answers:
            return [self.no_answers]

        new_texts = NEW_TEXTS[getattr(self.classifier, "repeats", None)]
        error_percent = 100 * self.error
        coverage_percent = 100 * self.coverage
        sentences = [
            f"With {format_confidence(self.delta)} confidence, at most {error_percent:g}% of the "
            f"answers to {new_texts} from the same distribution are wrong.",
            "It answers a text if the predicted class has a probability of at least "
            f"{self.threshold:.4f} ({coverage_percent:.1f}% of the calibration texts).",
        ]
        if self.n_errors > 1:
            sentences.append(self._describe_choice_of_error())
        n_models = self.n_choices // self.n_errors
        if n_models > 1:
            sentences.append(f"Corrected for a selection among {n_models:,} models.")
        randomization = describe_randomization(self.uniform).strip()
        return [*sentences, randomization] if randomization else sentences

    def _describe_choice_of_error(self) -> str:
        """How the error was chosen, and what that costs."""
        rates = f"{self.n_errors} rates from {ROUND_ERRORS[0]:.0%} to {ROUND_ERRORS[-1]:.0%}"
        chosen = f"the smallest of {rates} that answers half of the calibration texts"
        if self.coverage < _DEFAULT_COVERAGE:
            chosen = f"the one of {rates} that answers most calibration texts"
        level = divide_delta(self.delta, self.n_choices)
        return (
            f"No error was given, so it is {chosen}, and each of them was tested with "
            f"{format_confidence(level)} confidence. One that is fixed beforehand, such as "
            "error=0.1, usually answers more."
        )


class _Rule(NamedTuple):
    """A threshold of answers; no coverage and a threshold above 1 where none passes."""

    coverage: float
    error: float
    threshold: float


def abstain(
    classifier: Any,
    samples: Mapping[str, Calibration],
    error: float | None,
    delta: float,
    n_candidates: int = 1,
) -> Abstaining:
    """The lowest threshold that passes the test of `lowest_valid_threshold` on all samples.

    With error=None the error is the smallest of `ROUND_ERRORS` with which at least half of the
    calibration texts are answered, or the one that answers most; each gets its part of delta.

    Parameters
    ----------
    classifier : CertifiedClassifier
    samples : dict
        The calibration set of each sample.
    error : float or None
        Largest fraction of wrong answers.
    delta : float
        Probability that more of the answers are wrong.
    n_candidates : int, default=1
        Number of classifiers that this one was chosen from.

    Returns
    -------
    Abstaining

    References
    ----------
    Theorem 14 of docs/theory.md.
    """
    check_probability("delta", delta)
    if error is not None:
        check_probability("error", error)

    planning = classifier.out_of_fold_
    planning_confidence = np.exp(planning.log_proba.max(axis=1))
    planning_wrong = planning.log_proba.argmax(axis=1) != planning.labels

    tested = []
    for calibration in samples.values():
        confidence = confidences(classifier, calibration.log_proba, calibration.covered)
        tested.append((confidence, calibration.wrong))
    n = min(confidence.size for confidence, _ in tested)
    uniform = next(iter(samples.values())).uniform

    n_errors_tried = len(ROUND_ERRORS) if error is None else 1
    n_choices = n_candidates * n_errors_tried
    level = divide_delta(delta, n_choices)

    def lowest_rule(error: float, least: float = 0.0) -> _Rule:
        """The rule of the lowest threshold that passes with this error."""
        thresholds = plan(planning_confidence, planning_wrong, n, error, level, least)
        position = lowest_common_threshold(thresholds, tested, error, level, uniform)
        if position is None:
            return _Rule(coverage=0.0, error=error, threshold=2.0)

        threshold = thresholds[position]
        coverages = [float(np.mean(confidence >= threshold)) for confidence, _ in tested]
        return _Rule(coverage=min(coverages), error=error, threshold=float(threshold))

    larger_errors: tuple[float, ...] = ()
    if error is None:
        rules = [lowest_rule(round_error, _DEFAULT_COVERAGE) for round_error in ROUND_ERRORS]
        # the first of those that answer half of the texts, which has the smallest error
        rule = max(rules, key=lambda rule: min(rule.coverage, _DEFAULT_COVERAGE))
        if not rule.coverage:
            rule = rules[-1]
    else:
        rule = lowest_rule(float(error))
        larger_errors = tuple(larger for larger in ROUND_ERRORS if larger > rule.error)

    no_answers = None
    if not rule.coverage:
        n_right_needed = format_needed(n_needed(rule.error, level))
        no_answers = (
            f"It abstains from every text: on the {format_count(n, 'calibration text')}, "
            f"no threshold has an error rate of at most {rule.error:g} with "
            f"{format_confidence(delta)} confidence. The {n_right_needed} most confident answers "
            "would have to be right, or a few errors among more of them."
        )
        larger_rules = (lowest_rule(larger) for larger in larger_errors)
        reachable = next((larger for larger in larger_rules if larger.coverage), None)
        if reachable is not None:
            percent = 100 * reachable.coverage
            no_answers += (
                f" An error rate of {reachable.error:g} would be guaranteed, with "
                f"{percent:.0f}% of the texts answered, if it had been chosen "
                "before calibration. If no error is given, one is selected, and the bound is "
                "corrected for this."
            )

    return Abstaining(
        classifier=classifier,
        error=rule.error,
        delta=delta,
        threshold=rule.threshold,
        coverage=rule.coverage,
        n=n,
        n_choices=n_choices,
        n_errors=n_errors_tried,
        no_answers=no_answers,
        uniform=uniform,
    )


class Answered(NamedTuple):
    """Answers to texts; `inside` and `abstained` are None without a calibration set."""

    best: np.ndarray  # (n,) positions in `classes_`
    probability: np.ndarray  # (n,)
    inside: np.ndarray | None  # (n, n_classes), whether a class is in the prediction set
    abstained: np.ndarray | None  # (n,)
    covered: np.ndarray  # (n,), whether the classifier knows enough words of the text
    log_proba: np.ndarray  # (n, n_classes)


def _smallest_set_error(classifier: Any, delta: float) -> float:
    """The smallest round error from 0.05 on that the calibration texts allow; else the largest."""
    samples = classifier.calibration_.samples().values()
    n = min(sample.labels.size for sample in samples)
    level = divide_delta(delta, classifier.n_candidates)

    errors = ROUND_ERRORS[2:]
    for error in errors:
        if n >= n_needed(error, level):
            return error
    return errors[-1]


class AnswerRule:
    """The prediction sets and answers of a classifier in the command line and the server.

    With error=None the error of answers is that of `abstain`; that of prediction sets is 0.05, or
    the smallest round one above that the calibration texts allow, which needs no correction. With
    delta=None it is that of the classifier.
    """

    error: float | None = None
    set_error: float | None = None
    threshold: float | None = None
    set_levels: np.ndarray | None = None
    no_sets: str | None = None
    no_answers: str | None = None
    sentences: list[str] | None = None

    def __init__(self, classifier: Any, *, error: float | None = None, delta: float | None = None):
        self.delta = getattr(classifier, "delta", 0.05) if delta is None else delta
        self._classifier = classifier

        if getattr(classifier, "target_type_", "classes") != "classes":
            raise ValueError(
                "classifier must give one class to each text. Got one that gives several labels "
                "instead. Use its predict, or `pacsent predict` with one file or stdin."
            )
        if not hasattr(classifier, "calibration_"):
            if error is not None:
                raise ValueError(
                    "error must be left out for a classifier without a calibration set. Got "
                    f"{error:g} instead. Fit a CertifiedClassifier, as `pacsent train` does."
                )
            return

        rule = classifier.abstain(error=error, delta=self.delta)
        self.error = rule.error
        self.threshold = rule.threshold
        self.no_answers = rule.no_answers
        self.sentences = [] if rule.no_answers else rule.sentences()

        set_error = _smallest_set_error(classifier, rule.delta) if error is None else error
        try:
            self.set_levels = classifier.prediction_set_thresholds(
                error=set_error, delta=self.delta
            )
        except ValueError as missing:
            self.no_sets = str(missing)
            return
        self.set_error = set_error

        new_texts = NEW_TEXTS[getattr(classifier, "repeats", None)].rstrip(",")
        start = "Separately, with" if self.sentences else "With"
        self.sentences.append(
            f"{start} {format_confidence(rule.delta)} confidence, the prediction sets of "
            f"{new_texts} omit the true class for at most {100 * set_error:g}% of them."
        )

    @property
    def statement(self) -> str | None:
        """What answers and prediction sets guarantee; None without a calibration set."""
        return None if self.sentences is None else " ".join(self.sentences)

    def answer(self, texts: list[str], log_proba: np.ndarray | None = None) -> Answered:
        """Answer texts, of which the logarithms of class probabilities may be known already."""
        if log_proba is None:
            log_proba = self._classifier.predict_log_proba(texts)
        covered = coverage.are_covered(self._classifier, texts)

        abstained = None
        if self.threshold is not None:
            is_answered = confidences(self._classifier, log_proba, covered) >= self.threshold
            abstained = ~is_answered

        inside = None
        if self.set_levels is not None:
            inside = (log_proba >= self.set_levels) | ~covered[:, None]

        return Answered(
            best=log_proba.argmax(axis=1),
            probability=np.exp(log_proba.max(axis=1)),
            inside=inside,
            abstained=abstained,
            covered=covered,
            log_proba=log_proba,
        )

    def answer_each(self, groups: Sequence[list[str]]) -> list[Answered]:
        """Answer groups of texts, each as `answer` does, bit for bit, but in fewer passes."""
        if len(groups) == 1:
            return [self.answer(groups[0])]

        texts = [text for group in groups for text in group]
        log_proba = self._classifier.predict_log_proba_each(groups)
        answers = self.answer(texts, log_proba)

        sizes = [len(group) for group in groups]
        ends = np.cumsum(sizes)[:-1]
        columns = []
        for column in answers:
            no_values = [None] * len(groups)
            columns.append(no_values if column is None else np.split(column, ends))
        return [Answered(*fields) for fields in zip(*columns)]
