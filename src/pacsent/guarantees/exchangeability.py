"""Whether new texts are exchangeable with the calibration texts: a test, and a stream watcher.

Every guarantee of a classifier is about new texts from the distribution of the held-out ones. That
can be tested: by a classifier that tells the two apart, or by watching the scores of a stream.
"""

import bisect
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import stats

from pacsent.classify.inputs import positions
from pacsent.guarantees.calibration_set import calibration_of
from pacsent.maths.checks import check_probability
from pacsent.text.texts import as_texts

_MOST = 1500  # texts of either kind that the test looks at


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
            return f"ALARM: the distribution has changed: {found}. Guarantees do not apply."
        return f"No alarm: {found}, as chance would. This does not prove exchangeability."


def check_exchangeable(
    calibration: Iterable[str],
    new: Iterable[str],
    *,
    words: Any = None,
    alpha: float = 0.05,
    seed: int | None = None,
) -> ExchangeabilityTest:
    """Test whether new texts are exchangeable with the calibration texts.

    A `TextClassifier` learns to distinguish half of both and is tested on the other halves. If the
    texts are exchangeable, its hits follow the hypergeometric distribution exactly: a false alarm
    has probability at most alpha.

    Parameters
    ----------
    calibration, new : lists of str
    words : WordVectors, optional
        Lets the test use meaning as well as words.
    alpha : float
    seed : int or None
        Decides the halves; None draws it from the system.

    Examples
    --------
    >>> old = [f"a good film, number {n}" for n in range(100)]
    >>> check_exchangeable(old, [f"a bad meal, number {n}" for n in range(100)], seed=0).alarm
    True
    """
    from pacsent.classify.classifier import TextClassifier

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
    called_new = np.zeros(2 * n, bool)
    called_new[np.argsort(-values, kind="stable")[:n]] = True  # half of them, whatever the bias
    hits = int(called_new[n:].sum())
    p_value = float(stats.hypergeom.sf(hits - 1, 2 * n, n, n))
    return ExchangeabilityTest(p_value, float(alpha), n, hits / n)


class StreamWatcher:
    """Raises an alarm once a stream of texts is no longer exchangeable with the calibration texts.

    Each text gets a conformal p-value: where its score lies among the calibration texts and all
    texts before it, ties broken at random. As long as all are exchangeable, these p-values are
    independent and uniform, and the capital of a bet against that is a martingale: the chance that
    it ever reaches 1 / alpha is at most alpha (Ville). The bet is Vovk's simple jumper.

    Parameters
    ----------
    classifier : TextClassifier
        Calibrated: `fit(..., holdout=...)` or `calibrate`.
    alpha : float, default=0.05
        Chance of a false alarm, ever.
    seed : int or None
        Decides ties.

    Attributes
    ----------
    capital : float
        The value of the martingale, 1 at the start.
    alarm_at : int or None
        Number of the text that raised the alarm.

    Examples
    --------
    >>> from pacsent import CertifiedClassifier, TextClassifier
    >>> texts = [f"a {word} film, number {n}" for n in range(40) for word in ("good", "bad")]
    >>> classifier = CertifiedClassifier(TextClassifier(), holdout=0.5, random_state=0)
    >>> _ = classifier.fit(texts, ["up", "down"] * 40)
    >>> watcher = StreamWatcher(classifier, seed=0)
    >>> watcher.update(["a good film, number 7"])
    False
    """

    _JUMP = 0.01

    def __init__(self, classifier: Any, *, alpha: float = 0.05, seed: int | None = None):
        check_probability("alpha", alpha)
        self.classifier = classifier
        self.alpha = alpha
        self._rng = np.random.default_rng(seed)
        calibration = calibration_of(classifier)
        self._by_label = -_of_labels(calibration.log_proba, calibration.labels)
        self._by_confidence = -calibration.log_proba.max(axis=1)
        self._scores: list[float] | None = None
        self._labelled: bool | None = None
        self._capitals = np.full(3, 1.0 / 3.0)
        self.n_seen = 0
        self.alarm_at: int | None = None

    @property
    def capital(self) -> float:
        return float(self._capitals.sum())

    @property
    def alarm(self) -> bool:
        return self.alarm_at is not None

    def update(self, texts: Iterable[str], labels: Sequence | None = None) -> bool:
        """Look at the next texts (with their labels, where known); whether there is an alarm."""
        texts = as_texts(texts, "texts")
        y = None if labels is None else positions(self.classifier.classes_, labels, len(texts))
        return self.see(self.classifier.predict_log_proba(texts), y)

    def see(self, log_proba: np.ndarray, y: np.ndarray | None = None) -> bool:
        """`update` where `predict_log_proba` is known already; y are positions in `classes_`."""
        labelled = y is not None
        if self._labelled is None:
            self._labelled = labelled
            # the order of calibration texts among themselves does not matter
            self._scores = sorted(self._by_label if labelled else self._by_confidence)
        if labelled != self._labelled:
            raise ValueError("update must be given labels always or never. Start another watcher.")
        if labelled:
            scores = -_of_labels(log_proba, y)
        else:
            scores = -log_proba.max(axis=1)
        for score in scores.tolist():
            self._bet(self._p_value(score))
        return self.alarm

    def _p_value(self, score):
        scores = self._scores
        assert scores is not None
        low, high = bisect.bisect_left(scores, score), bisect.bisect_right(scores, score)
        larger, equal = len(scores) - high, high - low + 1
        p = (larger + self._rng.random() * equal) / (len(scores) + 1)
        scores.insert(high, score)
        return p

    def _bet(self, p):
        self.n_seen += 1
        mixed = self._JUMP * self.capital / 3.0 + (1.0 - self._JUMP) * self._capitals
        self._capitals = mixed * (1.0 + np.array([-1.0, 0.0, 1.0]) * (p - 0.5) * 2.0 * 0.9)
        if self.alarm_at is None and self.capital >= 1.0 / self.alpha:
            self.alarm_at = self.n_seen

    def __str__(self) -> str:
        if self.alarm:
            return (
                f"ALARM at text {self.alarm_at:,} of {self.n_seen:,}: the stream is no longer "
                "exchangeable with the calibration texts. Guarantees do not apply."
            )
        return (
            f"No alarm in {self.n_seen:,} texts (capital {self.capital:.3g}, alarm at "
            f"{1 / self.alpha:g})."
        )


def _of_labels(log_proba, labels):
    return log_proba[np.arange(len(labels)), labels]
