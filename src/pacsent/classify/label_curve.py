"""`learning_curve`: the error with more labels, and how many labels an error needs."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import stats
from sklearn.base import clone

from pacsent.classify import inputs
from pacsent.classify.classifier import TextClassifier
from pacsent.maths.binomial import upper_limit
from pacsent.maths.checks import check_count, check_probability
from pacsent.maths.rounding import percent
from pacsent.text.near_duplicates import text_units
from pacsent.text.texts import as_texts

_FOLDS = 5
_A_CLASS = 4  # labels, on average: with fewer whole classes are missing, and no power law holds
_DRAWS = 2_000  # curves that the answers are quantiles of
_CONFIDENCE = 0.9
MOST = 20  # times the labels at hand: further than that, curves say little
_SHARES = (0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5)


@dataclass(frozen=True, eq=False)
class LearningCurve:
    """The error as a function of the number of labels, c + a n^-b, with its uncertainty.

    `curves` are draws of (error at `n`, b, c) from their posterior, given the errors at `sizes` on
    texts left out; three numbers of an answer are the ends of a 90 % interval around the median.

    Attributes
    ----------
    n : int
        Labels that were given.
    sizes, n_tested, n_errors : arrays
        Labels fitted on, texts left out and errors on them.

    Examples
    --------
    >>> one = np.array([[0.12, 0.5, 0.02]])  # an error of 0.12 with 400 labels, 0.02 in the end
    >>> curve = LearningCurve(400, np.ones(1), np.ones(1), np.ones(1), one)
    >>> curve.more_labels(0.07)
    'About 1,200 more labels (1,200 to 1,200) for an error rate of 7.0%.'
    >>> curve.more_labels(0.01)
    'More labels of this kind will hardly help: ... the error rate levels off at about 4.2% ...'
    """

    n: int
    sizes: np.ndarray  # (n_sizes,)
    n_tested: np.ndarray  # (n_sizes,)
    n_errors: np.ndarray  # (n_sizes,)
    curves: np.ndarray  # (n_draws, 3)

    @classmethod
    def of(
        cls,
        n: int,
        sizes: np.ndarray,
        n_tested: np.ndarray,
        n_errors: np.ndarray,
        rng: np.random.Generator,
    ) -> "LearningCurve":
        """The curve of errors of models that were fitted on `sizes` labels, in ascending order."""
        curves = _posterior(sizes, n_tested, n_errors, n, rng)
        return cls(n, sizes, n_tested, n_errors, curves)

    def error_at(self, n_labels: int) -> tuple[float, float, float]:
        """Low end, median and high end of the error with this number of labels."""
        return self._quantiles(self._errors(check_count("n_labels", n_labels)))

    def labels_for(self, error: float) -> tuple[float, float, float]:
        """Low end, median and high end of the labels that this error needs; inf: no number does."""
        error = check_probability("error", error)
        at_n, b, c = self.curves.T
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            ratio = (at_n - c) / (error - c)
            needed = np.where(error > c, self.n * ratio ** (1 / b), np.inf)
        return self._quantiles(np.ceil(np.maximum(needed, 1.0)))

    def best_holdout(self, n_labels: int | None = None, delta: float = 0.05) -> tuple[float, float]:
        """The share to hold out that certifies the smallest error, and that error, on average.

        With a share f of n labels held out, the classifier has (1 - f) n labels and its Clopper-
        Pearson bound f n.
        """
        n = self.n if n_labels is None else check_count("n_labels", n_labels)
        candidates = []
        for share in _SHARES:
            held_out = max(1, round(share * n))
            error = float(np.median(self._errors(max(1, n - held_out))))
            k = np.arange(stats.binom.ppf(1e-4, held_out, error), held_out + 1)
            chance = stats.binom.pmf(k, held_out, error)
            likely = chance > 1e-5
            bounds = [upper_limit(int(i), held_out, delta) for i in k[likely]]
            candidates.append((float(chance[likely] @ bounds / chance[likely].sum()), share))
        bound, share = min(candidates)
        return share, bound

    def more_labels(self, error: float) -> str:
        """How many more labels an error needs, in a sentence."""
        low, middle, high = (max(0.0, each - self.n) for each in self.labels_for(error))
        if middle == 0:
            return f"The labels are probably enough for an error rate of {error:.1%}."
        if middle > MOST * self.n:
            return self.hardly_helps()
        return f"About {self.range_of(low, middle, high)} for an error rate of {error:.1%}."

    def hardly_helps(self) -> str:
        """That more labels change little, and the error with 20 times as many, in a sentence."""
        low, middle, high = self.error_at(MOST * self.n)
        return (
            "More labels of this kind will hardly help: with "
            f"{MOST} times the labels, the error rate levels off at about {middle:.1%} ({low:.1%} "
            f"to {high:.1%})."
        )

    def range_of(self, low: float, middle: float, high: float) -> str:
        """Numbers of further labels, rounded as estimates deserve."""
        end = "many more" if high > MOST * self.n else f"{rounded(high):,}"
        return f"{rounded(middle):,} more labels ({rounded(low):,} to {end})"

    def __str__(self) -> str:
        low, middle, high = self.error_at(self.n)
        share, bound = self.best_holdout()
        return (
            f"With {self.n:,} labels the error rate is about {middle:.1%} ({low:.1%} to "
            f"{high:.1%}). {self.more_labels(max(0.75 * middle, 1e-3))} To certify with the labels "
            f"at hand, hold out {share:.0%} of them: at most about {percent(bound, 1)}."
        )

    def points(self) -> list[dict[str, float]]:
        """The curve with its interval at 40 sizes, and the errors that were measured."""
        sizes = np.geomspace(max(self.sizes[0], 2), 8 * self.n, 40)
        curve = [(n, *self.error_at(max(1, round(n)))) for n in sizes.tolist()]
        fitted = [{"labels": n, "low": a, "error": b, "high": c} for n, a, b, c in curve]
        measured = zip(self.sizes.tolist(), (self.n_errors / self.n_tested).tolist())
        return fitted + [{"labels": n, "measured": error} for n, error in measured]

    def _errors(self, n_labels):
        at_n, b, c = self.curves.T
        return np.clip(c + (at_n - c) * (n_labels / self.n) ** -b, 0.0, 1.0)

    def _quantiles(self, values) -> tuple[float, float, float]:
        ends = (1 - _CONFIDENCE) / 2, 0.5, (1 + _CONFIDENCE) / 2
        low, middle, high = np.quantile(values, ends, method="inverted_cdf")
        return float(low), float(middle), float(high)


def learning_curve(
    texts: Iterable[str], labels: Sequence, *, model: Any = None, random_state: int = 0
) -> LearningCurve:
    """How the error falls with more labels, from the labels that are there.

    The classifier is fitted on parts of the labels of growing size, of four labels a class at
    least where there are enough, and its errors on texts left out (five folds, near-duplicates in
    one) give a posterior over curves c + a n^-b.

    Parameters
    ----------
    texts : iterable of str
    labels : array of str or int, one for each text
    model : unfitted classifier, optional
        `TextClassifier("english")` by default.
    random_state : int, default=0

    Examples
    --------
    >>> from pacsent import TextClassifier
    >>> from pacsent.classify import learning_curve
    >>> texts = [f"film {n} is {w} {n % 7}" for n in range(40) for w in ("good", "bad")]
    >>> curve = learning_curve(texts, ["up", "down"] * 40, model=TextClassifier())
    >>> low, middle, high = curve.error_at(160)
    >>> low <= middle <= high
    True
    """
    texts = as_texts(texts)
    _, y = inputs.encoded_labels(labels, texts)
    model = TextClassifier("english") if model is None else model
    rng = np.random.default_rng(random_state)
    units = text_units(texts)
    folds = (rng.permutation(int(units.max()) + 1) % _FOLDS)[units]
    parts = parts_of(len(texts) - len(texts) // _FOLDS, int(y.max()) + 1)
    counts = np.zeros((len(parts), 3))  # labels, texts left out, errors
    for fold in range(_FOLDS):
        tested = np.flatnonzero(folds == fold)
        training = rng.permutation(np.flatnonzero(folds != fold))
        for at, part in enumerate(parts):
            size = round(part * training.size)
            wrong = _n_wrong(model, texts, y, training[:size], tested)
            if wrong is not None:
                counts[at] += size, tested.size, wrong
    used = counts[:, 1] > 0
    if not used.any():
        raise ValueError(
            "texts must hold two classes with at least two different texts each, in every fold. "
            "Got fewer instead. Add labels."
        )
    n_folds = np.round(counts[:, 1] / max(counts[:, 1].max() / _FOLDS, 1))
    sizes = counts[used, 0] / np.maximum(n_folds[used], 1)
    tested, wrong = counts[used, 1], counts[used, 2]
    return LearningCurve.of(len(texts), sizes, tested, wrong, rng)


def parts_of(n: int, n_classes: int, least: float = 0.125, n_parts: int = 4) -> np.ndarray:
    """Shares of n labels to fit on, in equal ratios up to 1.

    >>> parts_of(160, 2)
    array([0.125, 0.25 , 0.5  , 1.   ])
    >>> parts_of(160, 20).round(2)  # 80 labels at least
    array([0.5 , 0.63, 0.79, 1.  ])
    """
    return np.geomspace(max(least, min(0.5, _A_CLASS * n_classes / n)), 1.0, n_parts)


def _n_wrong(model, texts, y, fitted, tested) -> int | None:
    """Errors on the tested texts; of a class with fewer than two texts to fit, all are."""
    counts = np.bincount(y[fitted], minlength=int(y.max()) + 1)
    fitted = fitted[counts[y[fitted]] >= 2]
    if np.unique(y[fitted]).size < 2 or not tested.size:
        return None
    fold_model = clone(model).fit([texts[i] for i in fitted], y[fitted])
    return int(np.sum(fold_model.predict([texts[i] for i in tested]) != y[tested]))


def _posterior(sizes, tested, wrong, n, rng) -> np.ndarray:
    """Draws of (error at n, b, c), by the likelihood of the errors on a grid, (_DRAWS, 3).

    The prior falls linearly with the share c / error at n, from curves that go to 0 to flat ones.
    """
    last = (wrong[-1] + 0.5) / (tested[-1] + 1)
    spread = math.sqrt(last * (1 - last) / tested[-1])
    at_n = np.linspace(max(last - 6 * spread, 1e-4), min(last + 3 * spread, 0.999), 41)
    b, share = np.linspace(0.05, 1.0, 20), np.linspace(0.0, 0.95, 20)
    E, B, S = (part.ravel() for part in np.meshgrid(at_n, b, share, indexing="ij"))
    C = S * E
    error = C[:, None] + (E - C)[:, None] * (sizes / n) ** -B[:, None]
    error = np.clip(error, 1e-6, 1 - 1e-6)
    # one text is left out at every size: errors at two sizes are about half as much evidence
    logs = 0.5 * (wrong * np.log(error) + (tested - wrong) * np.log1p(-error)).sum(axis=1)
    weights = np.exp(logs - logs.max()) * (1 - S)
    drawn = rng.choice(E.size, _DRAWS, p=weights / weights.sum())
    return np.stack([E[drawn], B[drawn], C[drawn]], axis=1)


def rounded(value: float) -> int:
    """A number of labels to two digits, as an estimate deserves.

    >>> rounded(1_234.0)
    1200
    """
    digits = max(0, math.floor(math.log10(max(value, 1.0))) - 1)
    return int(round(value, -digits))
