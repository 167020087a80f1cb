"""Thresholds on probabilities with a guarantee: precision and recall of classes, risks of labels.

A class is named for a text if its probability reaches the threshold of the class: Theorem 18 of
docs/theory.md. Conformal risk control of labels in its high-probability form is Theorem 22.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import expit

from pacsent.bounds.binomial import rank_for_sets
from pacsent.bounds.checks import check_probability
from pacsent.bounds.delta import confidence, divide_delta
from pacsent.bounds.means import mean_is_below
from pacsent.certify.independence import as_seed, dependent_clusters
from pacsent.certify.labels import class_index, label_type, to_indicator
from pacsent.certify.repeats import COPIES, check_repeats, draw_samples
from pacsent.certify.samples import select_rows
from pacsent.predict.abstaining import describe_randomization, lowest_common_threshold, plan
from pacsent.predict.calibration import Calibration

GRID = expit(np.linspace(-8.0, 8.0, 321))  # thresholds of labels that are tested, rising
STARTS = (0.3, 0.5, 0.7, 0.9)  # where tests of false discoveries begin without a planning part
# Fractions of `error` on the planning part at which they begin with one.
_PLANNED_FRACTIONS = (0.4, 0.6, 0.75, 0.9)
_MIN_PLANNING_TEXTS = 30  # that get labels, for the planning part to say anything


@dataclass(frozen=True)
class ClassThresholds:
    """The classes that are named, with a guarantee for each; several, or none, for one text.

    Attributes
    ----------
    thresholds : dict of class to float or None
        Smallest probability with which a class is named; None where nothing can be guaranteed.
    precision, recall : float or None
        With confidence 1 - delta, for all these classes together: of the texts for which a class is
        named at least `precision` are of it, and of the texts of the class at least `recall` are
        named.

    Examples
    --------
    >>> from pacsent import CertifiedClassifier, TextClassifier
    >>> texts = [f"{word} film {n}" for n in range(150) for word in ("good", "bad")]
    >>> classifier = CertifiedClassifier(TextClassifier(None), calibration_size=0.5, random_state=0)
    >>> _ = classifier.fit(texts, ["up", "down"] * 150)
    >>> sure = classifier.tune_thresholds(precision=0.8)
    >>> sure.predict(["a good film"])
    [['up']]
    >>> print(sure)
    With 95% confidence, for all of these classes together: of the texts for which a class is \
named at least 80% are of it.
    """

    classifier: Any
    thresholds: dict
    precision: float | None
    recall: float | None
    delta: float
    uniform: float = 1.0  # the random number of the tests of precision; 1: not randomised

    def predict(self, X: Any) -> list[list]:
        """The classes that are named for each text.

        Parameters
        ----------
        X : texts, or rows as the classifier takes them

        Returns
        -------
        list of list
        """
        names = self.classifier.classes_.tolist()
        lowest = np.array([self.thresholds.get(name) for name in names], float)  # nan: never
        is_named = np.exp(self.classifier.predict_log_proba(X)) >= lowest  # (n, n_classes)
        return [[name for name, named in zip(names, row) if named] for row in is_named]

    def __str__(self) -> str:
        guarantees = []
        if self.precision is not None:
            percent = 100 * self.precision
            guarantees.append(
                f"of the texts for which a class is named at least {percent:g}% are of it"
            )
        if self.recall is not None:
            percent = 100 * self.recall
            guarantees.append(f"of the texts of a class at least {percent:g}% are named")
        text = (
            f"With {confidence(self.delta)} confidence, for all of these classes together: "
            f"{', and '.join(guarantees)}."
        )

        never = [str(name) for name, threshold in self.thresholds.items() if threshold is None]
        if never:
            text += f" Never named, as the calibration set is too small: {', '.join(never)}."
        return text + describe_randomization(self.uniform)


def class_thresholds(
    classifier: Any,
    samples: Mapping[str, Calibration],
    *,
    precision: float | None,
    recall: float | None,
    classes: Sequence | None,
    delta: float,
    n_candidates: int = 1,
) -> ClassThresholds:
    """The lowest threshold of each class that guarantees its precision; for recall the highest.

    Parameters
    ----------
    classifier : CertifiedClassifier
    samples : dict
        The calibration set of each sample: what is guaranteed is so on all of them.
    precision, recall : float or None
        At least one of the two.
    classes : sequence or None
        The classes that may be named; None for all.
    delta : float
        Probability that any of the guarantees is false.
    n_candidates : int, default=1
        Number of classifiers that this one was chosen from.

    Returns
    -------
    ClassThresholds

    References
    ----------
    Theorem 18 of docs/theory.md.
    """
    if precision is None and recall is None:
        raise ValueError("tune_thresholds needs precision or recall. Got neither instead.")
    for name, value in (("precision", precision), ("recall", recall), ("delta", delta)):
        if value is not None:
            check_probability(name, value)

    columns = _columns_of(classifier, classes)
    n_statements = 1 if precision is None or recall is None else 2
    level = divide_delta(delta, n_candidates, len(columns), n_statements)
    uniform = 1.0
    if precision is not None:
        uniform = next(iter(samples.values())).uniform
    have_any = label_type(classifier).have_any

    names = classifier.classes_.tolist()
    thresholds = {}
    for c in columns:
        is_c = np.arange(len(names)) == c

        # recall holds up to the highest threshold, precision from the lowest on
        tested = [_class_scores(sample, is_c, have_any) for sample in samples.values()]
        highest = np.inf
        lowest = np.inf
        if recall is not None:
            highest = _highest_for_recall(tested, recall, level)
            lowest = highest
        if precision is not None:
            planning = _class_scores(classifier.out_of_fold_, is_c, have_any)
            lowest = _lowest_for_precision(planning, tested, precision, level, uniform)

        is_usable = np.isfinite(lowest) and lowest <= highest
        thresholds[names[c]] = float(lowest) if is_usable else None
    return ClassThresholds(classifier, thresholds, precision, recall, float(delta), uniform)


def _columns_of(classifier: Any, classes: Sequence | None) -> list[int]:
    """The positions of some classes of a classifier, or of all."""
    chosen = classifier.classes_.tolist() if classes is None else classes
    if not len(chosen):
        raise ValueError("classes must have at least one class. Got none. Leave it out for all.")
    return [class_index(classifier.classes_, name) for name in chosen]


def _class_scores(
    scored: Any, is_c: np.ndarray, have_any: Callable[[np.ndarray, np.ndarray], np.ndarray]
) -> tuple[np.ndarray, np.ndarray]:
    """(probabilities of a class, whether the texts are of it), (n,) each.

    `scored` are the log-probabilities and labels of a calibration set, or of out-of-fold texts.
    """
    (c,) = np.flatnonzero(is_c)
    proba = np.exp(scored.log_proba[:, c])
    return proba, have_any(scored.labels, is_c)


def _highest_for_recall(
    samples: list[tuple[np.ndarray, np.ndarray]], recall: float, delta: float
) -> float:
    """The highest threshold that names enough texts of a class, on all samples.

    Each sample is (probabilities of the class, whether the texts are of it), (n,) each.
    """
    highest = np.inf
    for proba, of_class in samples:
        n_of_class = int(of_class.sum())
        k = rank_for_sets(n_of_class, 1.0 - recall, delta)
        if k is None:
            return -np.inf
        sorted_proba = np.sort(proba[of_class])
        highest = min(highest, sorted_proba[-k])
    return highest


def _lowest_for_precision(
    planning: tuple[np.ndarray, np.ndarray],
    samples: list[tuple[np.ndarray, np.ndarray]],
    precision: float,
    delta: float,
    uniform: float,
) -> float:
    """The lowest threshold whose named texts are of the class often enough; infinite if none is.

    Planning texts and samples are (probabilities of the class, whether the texts are of it).
    """
    error = 1.0 - precision
    planning_proba, planning_of_class = planning
    n = min(proba.size for proba, _ in samples)
    steps = plan(planning_proba, ~planning_of_class, n, error, delta)

    tested = [(proba, ~of_class) for proba, of_class in samples]
    position = lowest_common_threshold(steps, tested, error, delta, uniform)
    return np.inf if position is None else steps[position]


@dataclass(frozen=True)
class LabelThreshold:
    """A threshold on the probabilities of labels, and what is guaranteed about it.

    Attributes
    ----------
    threshold : float or None
        Labels of at least this probability are given; None gives none.
    about : {"false negatives", "false discoveries"}
    error, delta : float
        With probability 1 - delta, the mean over new texts of the fraction of their labels that are
        missed (or of the labels given that are wrong) is at most `error`.
    n, random_state : int
        Calibration texts, and the seed of the order in which they were tested.

    Examples
    --------
    >>> has = np.tile([[True, False], [False, True]], (100, 1))
    >>> chosen = control_risk(has, np.where(has, 0.9, 0.2), false_negatives=0.1)
    >>> 0.5 < chosen.threshold <= 0.9, chosen.predict(np.array([[0.95, 0.1]])).tolist()
    (True, [[True, False]])
    """

    threshold: float | None
    about: str
    error: float
    delta: float
    n: int
    random_state: int

    def predict(self, probabilities: np.ndarray) -> np.ndarray:
        """The labels that each text is given.

        Parameters
        ----------
        probabilities : array, (n, n_labels)

        Returns
        -------
        array of bool, (n, n_labels)
        """
        threshold = np.array(self.threshold, float)  # nan for None: no label reaches it
        return np.asarray(probabilities, float) >= threshold

    def __str__(self) -> str:
        if self.threshold is None:
            return (
                f"No threshold can be guaranteed at {self.error:g} {self.about} from {self.n:,} "
                "texts: no label is given. Allow a larger error, or label more texts."
            )
        what = f"of the labels of a new text, on average, at most {self.error:g} are missed"
        if self.about == "false discoveries":
            what = (
                "of the labels given to a new text that gets any, on average over such texts, at "
                f"most {self.error:g} are wrong"
            )
        return (
            f"With {confidence(self.delta)} confidence, {what}: labels of probability "
            f"{self.threshold:.4f} and above are given ({self.n:,} calibration texts)."
        )


def control_risk(
    y_true: Any,
    y_proba: np.ndarray,
    *,
    false_negatives: float | None = None,
    false_discoveries: float | None = None,
    classes: Any = None,
    delta: float = 0.05,
    n_candidates: int = 1,
    random_state: Any = None,
    planning: tuple[Any, np.ndarray] | None = None,
    texts: Any = None,
    repeats: str | None = None,
) -> LabelThreshold:
    """The threshold on label probabilities that misses few labels, or gives few wrong ones.

    A text's loss is the fraction of its labels that are missed, which rises with the threshold:
    thresholds are tested from the lowest up to the first that fails. Or it is the fraction of the
    labels given to it that are wrong, over texts that get any, which may rise or fall: tests begin
    at four places, each with delta / 4, and go down to the first that fails (Theorem 22).

    Parameters
    ----------
    y_true : sets of labels, or an indicator matrix, of calibration texts
        Nothing may have been fitted or chosen on these texts.
    y_proba : array, (n, n_labels)
    false_negatives, false_discoveries : float or None
        Largest mean loss: one of the two.
    classes : array, optional
        The label of each column, for sets.
    delta : float, default=0.05
    n_candidates : int, default=1
        How many classifiers were compared on these texts before this one was kept.
    random_state : int, RandomState, Generator or None, default=None
        Decides the order. The seed, drawn unless it is an int, is recorded.
    planning : (y_true, y_proba), optional
        Of texts other than the calibration texts, such as out-of-fold predictions of training
        texts: they decide where tests of false discoveries begin.
    texts : list of str, optional
        The calibration texts. Without them, near-duplicates are not searched for.
    repeats : see `certify_predictions`
        Why texts repeat; if it is not known, a threshold passes for both reasons or fails.

    Returns
    -------
    LabelThreshold

    References
    ----------
    Theorem 22 of docs/theory.md.

    Examples
    --------
    >>> y_true = [{"joy"}, {"love"}] * 100
    >>> proba = np.tile([[0.9, 0.2], [0.1, 0.8]], (100, 1))
    >>> classes = ["joy", "love"]
    >>> 0.2 < control_risk(y_true, proba, classes=classes, false_negatives=0.1).threshold <= 0.8
    True
    >>> 0.2 < control_risk(y_true, proba, classes=classes, false_discoveries=0.2).threshold < 0.3
    True
    """
    check_repeats(repeats)
    samples = [(y_true, y_proba)]
    if texts is not None:
        random_state = as_seed(random_state)
        clusters = dependent_clusters(texts, n_rows=len(y_proba))
        drawn = draw_samples(clusters, repeats, random_state)

        labels = y_true if hasattr(y_true, "shape") else list(y_true)
        proba = np.asarray(y_proba)
        samples = [(select_rows(labels, rows), proba[rows]) for rows in drawn.values()]
    elif repeats == COPIES:
        raise ValueError("repeats='copies' needs texts, to find the copies. Got None instead.")
    return control_risk_on_samples(
        samples,
        false_negatives=false_negatives,
        false_discoveries=false_discoveries,
        classes=classes,
        delta=delta,
        n_candidates=n_candidates,
        random_state=random_state,
        planning=planning,
    )


def control_risk_on_samples(
    samples: Sequence[tuple[Any, np.ndarray]],
    *,
    false_negatives: float | None = None,
    false_discoveries: float | None = None,
    classes: Any = None,
    delta: float = 0.05,
    n_candidates: int = 1,
    random_state: Any = None,
    planning: tuple[Any, np.ndarray] | None = None,
) -> LabelThreshold:
    """`control_risk` for (y_true, y_proba) of each sample: a threshold passes on all, or fails."""
    if (false_negatives is None) == (false_discoveries is None):
        raise ValueError("Give false_negatives or false_discoveries, not both.")
    if false_discoveries is None:
        about = "false negatives"
        error = check_probability("error", false_negatives)
    else:
        about = "false discoveries"
        error = check_probability("error", false_discoveries)
    delta = check_probability("delta", delta)
    seed = as_seed(random_state)
    shuffled = [_shuffled_rows(y_true, proba, classes, seed) for y_true, proba in samples]
    level = divide_delta(delta, n_candidates)

    if false_discoveries is None:
        threshold = _highest_for_false_negatives(shuffled, error, level)
    else:
        starts = np.searchsorted(GRID, STARTS)
        if planning is not None:
            planning_labels, planning_proba = planning
            planned = _shuffled_rows(planning_labels, planning_proba, classes, seed)
            starts = _planned_starts(planned, error)
        threshold = _lowest_for_false_discoveries(shuffled, starts, error, level)

    n = min(len(proba) for _, proba in shuffled)
    return LabelThreshold(threshold, about, error, delta, n, seed)


def _highest_for_false_negatives(
    samples: list[tuple[np.ndarray, np.ndarray]], error: float, delta: float
) -> float | None:
    """The last threshold, from the lowest up, before the first that misses too many labels."""
    highest = None
    for threshold in GRID:
        losses = [_missed_fractions(has, proba, threshold) for has, proba in samples]
        if not all(mean_is_below(of_sample, error, delta) for of_sample in losses):
            break
        highest = float(threshold)
    return highest


def _planned_starts(planned: tuple[np.ndarray, np.ndarray], error: float) -> np.ndarray:
    """Positions in `GRID` where tests of false discoveries begin, by the planning texts."""
    has, proba = planned
    mean_losses = np.zeros(GRID.size)
    for at, threshold in enumerate(GRID):
        losses = _wrong_fractions(has, proba, threshold)
        if losses.size >= _MIN_PLANNING_TEXTS:
            mean_losses[at] = losses.mean()

    # the lowest threshold from which on all are below the fraction
    worst_from = np.maximum.accumulate(mean_losses[::-1])[::-1]
    return np.array([np.argmax(worst_from <= part * error) for part in _PLANNED_FRACTIONS])


def _lowest_for_false_discoveries(
    samples: list[tuple[np.ndarray, np.ndarray]], starts: np.ndarray, error: float, delta: float
) -> float | None:
    """The lowest threshold at which few given labels are wrong, of those that tests arrive at.

    From each start, with its part of delta, tests go down to the first threshold that fails.
    """
    delta_of_start = divide_delta(delta, len(starts))

    def passes(at: int) -> bool:
        losses = [_wrong_fractions(has, proba, GRID[at]) for has, proba in samples]
        return all(mean_is_below(of_sample, error, delta_of_start) for of_sample in losses)

    lowest = GRID.size
    for start in set(starts.tolist()):
        at = start
        while at >= 0 and passes(at):
            at -= 1
        if at < start:
            lowest = min(lowest, at + 1)
    return None if lowest == GRID.size else float(GRID[lowest])


def _missed_fractions(has: np.ndarray, proba: np.ndarray, threshold: float) -> np.ndarray:
    """The fraction of each text's labels that are missed, (n,)."""
    n_labels = np.maximum(has.sum(axis=1), 1)
    is_missed = has & (proba < threshold)
    return is_missed.sum(axis=1) / n_labels


def _wrong_fractions(has: np.ndarray, proba: np.ndarray, threshold: float) -> np.ndarray:
    """The fraction of wrong labels among those given, of each text that gets any."""
    is_given = proba >= threshold
    n_given = is_given.sum(axis=1)
    n_wrong = (is_given & ~has).sum(axis=1)
    rows = n_given > 0
    return n_wrong[rows] / n_given[rows]


def _shuffled_rows(
    labels: Any, probabilities: np.ndarray, classes: Any, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """Labels as a matrix and probabilities, in a random order: that of a file may be by label."""
    proba = np.asarray(probabilities, float)
    if proba.ndim != 2 or not ((proba >= 0) & (proba <= 1)).all():
        raise ValueError(
            "probabilities must be numbers in [0, 1], a row for each text and a column for each "
            f"label. Got shape {proba.shape} or other numbers instead."
        )

    n, n_labels = proba.shape
    order = np.random.default_rng([seed, 1]).permutation(n)
    has = to_indicator(classes, labels, n, n_labels)  # (n, n_labels) of bool
    return has[order], proba[order]
