"""Whether new texts are exchangeable with the calibration texts: a test of two samples.

Every guarantee of a classifier is about new texts from the distribution of the held-out ones. That
can be tested: by a classifier that learns to tell the two apart (Theorem 17 of docs/theory.md), or
by watching a stream (`StreamWatcher`).
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from pacsent.classify.classifier import TextClassifier
from pacsent.maths.checks import check_probability
from pacsent.text.texts import as_texts

_MOST = 1500  # texts of either kind that the test looks at
_SHARES = (0.02, 0.05, 0.1, 0.2, 0.35, 0.5)  # of the texts at either end of the judge's order
_PERMUTATIONS = 999
_N_NAMED = 5  # words of either kind that are named


@dataclass(frozen=True)
class ExchangeabilityTest:
    """Result of `check_exchangeable`.

    Examples
    --------
    >>> from pacsent.guarantees import check_exchangeable
    >>> old = [f"a good film, number {n}" for n in range(100)]
    >>> found = check_exchangeable(old, [f"a bad meal, number {n}" for n in range(100)], seed=0)
    >>> found.alarm, found.p_value < 0.05
    (True, True)
    """

    p_value: float
    alpha: float
    n: int  # texts of either kind that were classified
    accuracy: float  # 0.5 is chance
    changes: dict = field(default_factory=dict)  # name -> (calibration texts, new texts)

    @property
    def alarm(self) -> bool:
        return self.p_value <= self.alpha

    @property
    def note(self) -> str:
        """What a guarantee states about this check."""
        found = f"{self.n:,} of either kind, p = {self.p_value:.3g}"
        if self.alarm:
            return f"checked, ALARM ({found}): the guarantee does not apply"
        return f"checked, no alarm ({found})"

    def __str__(self) -> str:
        found = (
            f"a classifier distinguishes the texts with accuracy {self.accuracy:.3f} on "
            f"{2 * self.n:,} texts (p = {self.p_value:.3g})"
        )
        if self.alarm:
            said = [f"ALARM: the distribution has changed: {found}. Guarantees do not apply."]
            for name, (before, after) in self.changes.items():
                said.append(f"{name}: {before} (calibration texts), {after} (new texts).")
            return "\n".join(said)
        return f"No alarm: {found}, as chance would. This does not prove exchangeability."


def check_exchangeable(
    calibration: Iterable[str],
    new: Iterable[str],
    *,
    words: Any = None,
    classifier: Any = None,
    alpha: float = 0.05,
    seed: int | None = None,
) -> ExchangeabilityTest:
    """Test whether new texts are exchangeable with the calibration texts.

    A `TextClassifier` learns to distinguish half of both and puts the other halves in an order,
    ties broken at random. If the texts are exchangeable, every arrangement of old and new in this
    order is equally likely, so that a permutation test is exact: a false alarm has probability at
    most alpha. Its statistic is the largest of several, each in standard deviations: the sum of the
    ranks, and how many texts at either end of the order are of one kind, for ends of several sizes.
    So it finds a small change of all texts, and a large one of few.

    Parameters
    ----------
    calibration, new : lists of str
    words : WordVectors, optional
        Lets the test use meaning as well as words.
    classifier : classifier, optional
        Its predicted classes are compared in the description of an alarm.
    alpha : float
    seed : int or None
        Decides the halves; None draws it from the system.

    Examples
    --------
    >>> old = [f"a good film, number {n}" for n in range(100)]
    >>> check_exchangeable(old, [f"a bad meal, number {n}" for n in range(100)], seed=0).alarm
    True
    """
    check_probability("alpha", alpha)
    calibration, new = as_texts(calibration, "calibration"), as_texts(new, "new")
    n = min(len(calibration), len(new), _MOST) // 2
    if n < 10:
        raise ValueError(
            "check_exchangeable needs at least 20 texts of either kind. Got "
            f"{len(calibration):,} and {len(new):,} instead."
        )
    rng = np.random.default_rng(seed)
    old = [calibration[i] for i in rng.permutation(len(calibration))[: 2 * n]]
    fresh = [new[i] for i in rng.permutation(len(new))[: 2 * n]]
    judge = TextClassifier(words, ngrams=(1, 2), weighting="both", Cs=(10.0,), dense_scales=(0.3,))
    judge.fit(old[:n] + fresh[:n], np.repeat([0, 1], n))
    values = judge.decision_function(old[n:] + fresh[n:])
    p_value, accuracy = permutation_test(values, np.repeat([False, True], n), rng)
    changes = {}
    if p_value <= alpha:
        changes = _described(old, fresh, judge, classifier)
    return ExchangeabilityTest(p_value, float(alpha), n, accuracy, changes)


def permutation_test(
    values: np.ndarray, new: np.ndarray, rng: np.random.Generator
) -> tuple[float, float]:
    """(p-value that the values of new and old texts are exchangeable, accuracy of their order).

    There are as many of either kind. Exact for any values: only their order counts, with random
    ties, and if they are exchangeable it is a random permutation, as those it is compared with.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> permutation_test(np.arange(40.0), np.arange(40) >= 20, rng)
    (0.001, 1.0)
    """
    order = np.lexsort((rng.random(values.size), values))
    found = new[order]
    drawn = rng.permuted(np.tile(np.arange(values.size) % 2 == 0, (_PERMUTATIONS, 1)), axis=1)
    statistics = _statistics(np.vstack([found, drawn]))
    p_value = float((statistics >= statistics[0]).sum()) / (_PERMUTATIONS + 1)  # itself among them
    return p_value, float(found[values.size // 2 :].sum() / (values.size // 2))


def _statistics(arranged):
    """The largest z-score of each row: texts in the judge's order, True where new, (m,)."""
    size = arranged.shape[1]
    ranks = arranged @ np.arange(1.0, size + 1)
    z = [(ranks - size / 2 * (size + 1) / 2) / np.sqrt((size / 2) ** 2 * (size + 1) / 12)]
    for share in _SHARES:
        k = max(1, round(share * size))
        deviation = np.sqrt(k * (size - k) / (4.0 * (size - 1)))  # of the hypergeometric
        z.append((arranged[:, size - k :].sum(axis=1) - k / 2) / deviation)
        z.append((k / 2 - arranged[:, :k].sum(axis=1)) / deviation)
    return np.max(z, axis=0)


def _described(old, fresh, judge, classifier):
    """What differs between the two kinds of texts; a description that nothing is guaranteed of."""
    lengths = [f"{np.mean([len(text.split()) for text in some]):.1f}" for some in (old, fresh)]
    words = [", ".join(name for name, _ in judge.top_features(c, _N_NAMED)) for c in (0, 1)]
    changes = {"Typical words": tuple(words), "Mean length in words": tuple(lengths)}
    if classifier is not None:
        names = np.asarray(classifier.classes_)
        shares = [
            np.mean(np.asarray(classifier.predict(some))[:, None] == names, axis=0)
            for some in (old, fresh)
        ]
        most = np.argsort(-np.abs(shares[1] - shares[0]), kind="stable")[:_N_NAMED]
        changes["Predicted classes"] = tuple(
            ", ".join(f"{names[i]} {100 * share[i]:.0f} %" for i in most) for share in shares
        )
    return changes
