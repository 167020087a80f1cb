"""Thresholds of chosen classes with a guaranteed precision, recall, or both.

A class is named for a text if its probability reaches the threshold of the class: Theorem 18
of docs/theory.md.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pacsent.classify.inputs import position
from pacsent.guarantees.abstaining import lowest_valid_threshold, plan
from pacsent.guarantees.calibration_set import Calibration
from pacsent.guarantees.delta import divide_delta
from pacsent.maths.binomial import rank_for_sets
from pacsent.maths.checks import check_probability


@dataclass(frozen=True)
class ClassThresholds:
    """Which classes are named, with a guarantee for each; several, or none, for one text.

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
    >>> texts = [f"a {word} film, number {n}" for n in range(150) for word in ("good", "bad")]
    >>> classifier = CertifiedClassifier(TextClassifier(), holdout=0.5, random_state=0)
    >>> _ = classifier.fit(texts, ["up", "down"] * 150)
    >>> sure = classifier.thresholds(precision=0.8)
    >>> sure.predict(["a good film"])
    [['up']]
    >>> print(sure)
    With 95 % confidence, for all of these classes together: of the texts for which a class is \
named at least 80 % are of it.
    """

    classifier: Any
    thresholds: dict
    precision: float | None
    recall: float | None
    delta: float

    def predict(self, X: Any) -> list[list]:
        """The classes that are named for each text."""
        names = self.classifier.classes_.tolist()
        thresholds = [self.thresholds.get(name) for name in names]
        lowest = np.array([np.inf if threshold is None else threshold for threshold in thresholds])
        is_named = np.exp(self.classifier.predict_log_proba(X)) >= lowest
        return [[name for name, named in zip(names, row) if named] for row in is_named]

    def __str__(self) -> str:
        statements = []
        if self.precision is not None:
            statements.append(
                f"of the texts for which a class is named at least {100 * self.precision:g} % are "
                "of it"
            )
        if self.recall is not None:
            statements.append(f"of the texts of a class at least {100 * self.recall:g} % are named")
        text = (
            f"With {100 * (1 - self.delta):g} % confidence, for all of these classes together: "
            f"{', and '.join(statements)}."
        )
        never = [str(name) for name, threshold in self.thresholds.items() if threshold is None]
        if never:
            text += f" Never named, as the calibration set is too small: {', '.join(never)}."
        return text


def _is_of_class(labels, c):
    return labels[:, c] if labels.ndim == 2 else labels == c


def class_thresholds(
    classifier: Any,
    calibration: Calibration,
    *,
    precision: float | None,
    recall: float | None,
    classes: Sequence | None,
    delta: float,
) -> ClassThresholds:
    """The lowest threshold of each class that guarantees its precision; for recall the highest."""
    if precision is None and recall is None:
        raise ValueError("thresholds needs precision or recall. Got neither instead.")
    for name, value in (("precision", precision), ("recall", recall), ("delta", delta)):
        if value is not None:
            check_probability(name, value)
    names = classifier.classes_.tolist()
    chosen = names if classes is None else classes
    columns = [position(classifier.classes_, name) for name in chosen]
    n_statements = 1 if precision is None or recall is None else 2
    each = divide_delta(delta, len(columns), n_statements)
    thresholds = {}
    for c in columns:
        proba, is_c = np.exp(calibration.log_proba[:, c]), _is_of_class(calibration.labels, c)
        highest = np.inf if recall is None else for_recall(proba[is_c], recall, each)
        threshold = highest
        if precision is not None:
            planning = classifier.out_of_fold_
            planned = np.exp(planning.log_proba[:, c]), ~_is_of_class(planning.labels, c)
            threshold = for_precision(planned, proba, is_c, precision, each)
        usable = highest is not None and threshold is not None and threshold <= highest
        thresholds[names[c]] = threshold if usable else None
    return ClassThresholds(classifier, thresholds, precision, recall, float(delta))


def for_recall(proba: np.ndarray, recall: float, delta: float) -> float | None:
    """The highest threshold that a share `recall` of texts like these reaches; None: too few."""
    k = rank_for_sets(proba.size, 1.0 - recall, delta)
    return None if k is None else float(np.sort(proba)[proba.size - k])


def for_precision(
    planned: tuple[np.ndarray, np.ndarray],
    proba: np.ndarray,
    is_class: np.ndarray,
    precision: float,
    delta: float,
) -> float | None:
    """The lowest threshold at which a share `precision` of texts like these is of the class.

    Tested as the thresholds of abstaining are: `planned` are probabilities, and whether the text is
    of another class, of texts that are not tested on.
    """
    error = 1.0 - precision
    planning = plan(*planned, proba.size, error, delta)
    passed = lowest_valid_threshold(planning, proba, ~is_class, error, delta)
    return None if passed is None else float(planning.thresholds[passed])
