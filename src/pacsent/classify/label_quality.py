"""Labelled texts: which labels are probably wrong, what else is, and how many more are needed."""

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy import stats
from sklearn.base import clone
from sklearn.utils import check_random_state

from pacsent.classify import inputs
from pacsent.classify.classifier import TextClassifier
from pacsent.classify.fitting import FOLD_SEED
from pacsent.maths.binomial import upper_limit
from pacsent.maths.checks import check_count, check_probability
from pacsent.maths.rounding import percent
from pacsent.storage import load
from pacsent.text.near_duplicates import text_units
from pacsent.text.ngrams import fingerprints, nonempty_rows
from pacsent.text.texts import as_texts

_FOLDS = 5
# Nats from which on a label is suspicious; right labels often have a smaller score.
_MIN_SCORE = 1.0
# Nats that each near-duplicate with another label adds to the score of a label.
_DUPLICATE_SCORE = 1.0
# Learning curves start at four labels per class: with fewer whole classes are missing, and the
# error does not follow a power law.
_MIN_CLASS_LABELS = 4
_CURVE_PARTS = 4
_CURVE_DRAWS = 2_000
_CONFIDENCE = 0.9
_MAX_EXTRAPOLATION = 20  # curves are not extrapolated to more than 20 times the labels at hand
_HOLDOUTS = (0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5)


def _fit_others(model, texts, y, rows):
    """`model` fitted on the rows of classes with at least two of them; None below two classes."""
    counts = np.bincount(y[rows], minlength=int(y.max()) + 1)
    rows = rows[counts[y[rows]] >= 2]
    if np.unique(y[rows]).size < 2:
        return None
    return clone(model).fit([texts[i] for i in rows.tolist()], y[rows])


class SuspiciousLabel(NamedTuple):
    """A label that is probably wrong; `score` is the log-odds of the suggested class against it.

    >>> SuspiciousLabel(3, "ham", "spam", 4.2, "near-duplicates have other labels").suggested
    'spam'
    """

    row: int
    label: Any
    suggested: Any
    score: float
    reason: str


def suspicious_labels(X: Iterable[str], y: Any, *, model: Any = None) -> list[SuspiciousLabel]:
    """Rows whose label is probably wrong, the most suspicious first, with a reason each.

    Every text gets probabilities from a classifier that was fitted on other texts (five folds, with
    near-duplicates in one). A label is suspicious where another class is likelier and the odds are
    at least e against the label, each class compared with the mean probability of its own texts
    (confident learning, Northcutt et al. 2021). A near-duplicate with another label counts as e.

    Hold out labels for a guarantee before: a certificate is not valid on rows of which suspicious
    ones were corrected or dropped.

    Parameters
    ----------
    X : iterable of str
        Empty texts are left out.
    y : array of str or int, one for each text
    model : unfitted classifier with `predict_proba`, optional
        `TextClassifier("english")` by default.

    Examples
    --------
    >>> from pacsent import TextClassifier
    >>> from pacsent.classify import suspicious_labels
    >>> texts = [f"{word} film{n} plot{n}" for n in range(30) for word in ("good", "bad")]
    >>> labels = ["up", "down"] * 30
    >>> labels[7] = "up"
    >>> first = suspicious_labels(texts, labels, model=TextClassifier(None))[0]
    >>> first.row, first.suggested
    (7, 'down')
    """
    all_texts = as_texts(X)
    kept = nonempty_rows(all_texts).tolist()
    names_of_rows = inputs.as_labels(y, len(all_texts))
    texts = [all_texts[row] for row in kept]
    classes, y = inputs.encoded_labels([names_of_rows[row] for row in kept], texts)
    clusters = text_units(texts)
    log_p = out_of_fold_log_proba(texts, y, clusters, model)

    # Log-odds of the likeliest other class against the given one, each class measured by the mean
    # probability of its own texts. That of a class that cannot be learnt is near 0, so that others
    # are measured by at least 1 / n_classes, and must be likelier than that and the label.
    rows, log_chance = np.arange(y.size), -np.log(classes.size)
    log_usual = np.log([np.exp(log_p[y == c, c]).mean() for c in range(classes.size)])
    own, others = log_p[rows, y], log_p.copy()
    others[rows, y] = -np.inf
    likeliest, log_other = others.argmax(axis=1), others.max(axis=1)
    score = log_other - np.maximum(log_usual, log_chance)[likeliest] - (own - log_usual[y])
    is_likelier = (log_other > own) & (log_other > log_chance)
    score = np.where(is_likelier, score, np.minimum(score, 0.0))
    # Near-duplicates with another label, less those with the same one.
    votes = np.zeros((int(clusters.max()) + 1, classes.size), np.int64)
    np.add.at(votes, (clusters, y), 1)
    votes = votes[clusters]
    n_same = votes[rows, y] - 1
    votes[rows, y] = 0
    n_other = np.maximum(votes.sum(axis=1) - n_same, 0)
    suggested = np.where((n_other > 0) & (score <= 0), votes.argmax(axis=1), likeliest)
    score = score + _DUPLICATE_SCORE * n_other

    names, suspicious = classes.tolist(), []
    for i in np.argsort(-score, kind="stable")[: int((score > _MIN_SCORE).sum())].tolist():
        label, other, n = y[i], suggested[i], int(n_other[i])
        duplicates = f"{n:,} near-duplicate{'s' * (n > 1)} with another label; " if n else ""
        reason = (
            f"{duplicates}without this text, {names[other]} has probability "
            f"{np.exp(log_p[i, other]):.2f} and {names[label]} {np.exp(log_p[i, label]):.2f}"
        )
        suspicious.append(
            SuspiciousLabel(kept[i], names[label], names[other], float(score[i]), reason)
        )
    return suspicious


def out_of_fold_log_proba(
    texts: Sequence[str], y: np.ndarray, clusters: np.ndarray, model: Any = None
) -> np.ndarray:
    """Log-probabilities of all classes for every text, by models fitted on other folds.

    Texts of a near-duplicate cluster are in one fold. A class that has fewer than two texts to fit
    has probability 0.
    """
    model = TextClassifier("english") if model is None else model
    order = np.random.default_rng(FOLD_SEED).permutation(int(clusters.max()) + 1)
    folds = (order % _FOLDS)[clusters]
    log_p = np.full((y.size, int(y.max()) + 1), np.log(1e-9))
    for fold in np.unique(folds):
        fold_model = _fit_others(model, texts, y, np.flatnonzero(folds != fold))
        if fold_model is None:
            raise ValueError(
                "texts must have two classes with at least two different texts each, in every "
                f"{_FOLDS - 1} of {_FOLDS} folds. Got fewer instead. Add texts."
            )
        tested = np.flatnonzero(folds == fold).tolist()
        proba = np.asarray(fold_model.predict_proba([texts[i] for i in tested]), np.float64)
        log_p[np.ix_(tested, fold_model.classes_)] = np.log(np.maximum(proba, 1e-9))
    return log_p


@dataclass(frozen=True, eq=False)
class Audit:
    """What is wrong with labelled texts; a section of `TextClassifier.report`.

    Attributes
    ----------
    texts, labels : lists
    counts : dict
        Texts of each class, without empty ones.
    suspicious : list of SuspiciousLabel
    duplicates, near_duplicates : list of lists of int
        Rows that have the same words, and those that almost have.
    empty : list of int
        Rows of empty texts, which are listed nowhere else.
    unknown : list of (int, float)
        Rows of which less than half of the words are in the vocabulary, and that fraction; empty
        without word vectors.
    rows : sequence of int
        The position in the file of each text, from 0; empty if these are all of it.
    """

    texts: list[str]
    labels: list
    counts: dict[Any, int]
    suspicious: list[SuspiciousLabel]
    duplicates: list[list[int]]
    near_duplicates: list[list[int]]
    empty: list[int]
    unknown: list[tuple[int, float]]
    rows: Sequence[int] = ()

    def position(self, row: int) -> int:
        """The position in the file of a text, from 0."""
        return self.rows[row] if len(self.rows) else row

    def to_dict(self) -> dict[str, Any]:
        """The numbers, and the suspicious rows; rows are counted from 0."""
        return {
            "n": len(self.texts),
            "classes": {str(k): n for k, n in self.counts.items()},
            "suspicious": [
                {**suspicion._asdict(), "row": self.position(suspicion.row)}
                for suspicion in self.suspicious
            ],
            "duplicates": [list(map(self.position, group)) for group in self.duplicates],
            "near_duplicates": [list(map(self.position, group)) for group in self.near_duplicates],
            "empty": list(map(self.position, self.empty)),
            "unknown": [self.position(row) for row, _ in self.unknown],
        }

    def __str__(self) -> str:
        groups = self.duplicates, self.near_duplicates
        n_copies, n_near = (sum(map(len, each)) - len(each) for each in groups)
        return (
            f"{len(self.texts):,} texts, {len(self.counts)} classes. Suspicious labels: "
            f"{len(self.suspicious):,}; duplicates: {n_copies:,}; near-duplicates: {n_near:,}; "
            f"empty: {len(self.empty):,}; mostly OOV words: {len(self.unknown):,}"
        )


def audit(X: Iterable[str], y: Sequence, *, model: Any = None) -> Audit:
    """Look for wrong labels, duplicates, empty texts and OOV words.

    As for `suspicious_labels`, hold out labels for a guarantee before.

    Parameters
    ----------
    X, y, model : see `suspicious_labels`

    Examples
    --------
    >>> from pacsent import TextClassifier
    >>> texts = [f"{word} film{n} plot{n}" for n in range(30) for word in ("good", "bad")]
    >>> result = audit([*texts, texts[0]], ["up", "down"] * 30 + ["up"], model=TextClassifier(None))
    >>> result.duplicates, result.counts
    ([[0, 60]], {'down': 30, 'up': 31})
    """
    texts = as_texts(X)
    names = inputs.as_labels(y, len(texts))
    suspicious = suspicious_labels(texts, names, model=model)
    groups: list[list[list[int]]] = []
    kept = nonempty_rows(texts).tolist()
    kept_texts = [texts[row] for row in kept]
    for ids in (fingerprints(kept_texts), text_units(kept_texts)):
        rows_of = defaultdict(list)
        for row, value in zip(kept, ids.tolist()):
            rows_of[value].append(row)
        groups.append([rows for rows in rows_of.values() if len(rows) > 1])
    duplicates, near = groups
    exact = set(map(tuple, duplicates))
    near = [rows for rows in near if tuple(rows) not in exact]
    empty = sorted(set(range(len(texts))).difference(kept))
    totals = Counter(names[row] for row in kept)
    counts = {name: totals[name] for name in sorted(totals, key=str)}
    unknown = []
    encoder = "english" if model is None else getattr(model, "encoder", None)
    if isinstance(encoder, str):
        n_known = np.diff(load(encoder).vocabulary.encode(texts).offsets).tolist()
        for row, text in enumerate(texts):
            n_words = sum(any(c.isalpha() for c in word) for word in text.split())
            if n_words and n_known[row] < n_words / 2:
                unknown.append((row, n_known[row] / n_words))
    return Audit(texts, names, counts, suspicious, duplicates, near, empty, unknown)


@dataclass(frozen=True, eq=False)
class LearningCurve:
    """The error as a function of the number of labels, c + a n^-b, with its uncertainty.

    `curves` are draws of (error at `n`, b, c) from their posterior, given the errors at `sizes` on
    held-out texts; three numbers of an answer are the ends of a 90% interval around the median.

    Attributes
    ----------
    n : int
        Labels that were given.
    sizes, n_tested, n_errors : arrays
        Labels fitted on, held-out texts and errors on them.

    Examples
    --------
    >>> draws = np.array([[0.12, 0.5, 0.02]])  # an error of 0.12 with 400 labels, 0.02 in the end
    >>> curve = LearningCurve(400, np.ones(1), np.ones(1), np.ones(1), draws)
    >>> curve.summary(error=0.07)
    'An error rate of 7.0% needs about 1,200 more labels (1,200 to 1,200).'
    """

    n: int
    sizes: np.ndarray  # (n_sizes,)
    n_tested: np.ndarray  # (n_sizes,)
    n_errors: np.ndarray  # (n_sizes,)
    curves: np.ndarray  # (n_draws, 3)

    def error_at(self, n_labels: int) -> tuple[float, float, float]:
        """Low end, median and high end of the error with this number of labels."""
        at_n, b, c = self.curves.T
        n_labels = check_count("n_labels", n_labels)
        return _interval(np.clip(c + (at_n - c) * (n_labels / self.n) ** -b, 0.0, 1.0))

    def labels_for(self, error: float) -> tuple[float, float, float]:
        """Low end, median and high end of the labels that this error needs; inf: no number does."""
        error = check_probability("error", error)
        at_n, b, c = self.curves.T
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            ratio = (at_n - c) / (error - c)
            needed = np.where(error > c, self.n * ratio ** (1 / b), np.inf)
        return _interval(np.ceil(np.maximum(needed, 1.0)))

    def calibration_cost(self, n_held_out: int) -> tuple[float, float, float]:
        """Low end, median and high end of the accuracy lost by fitting on that many labels less."""
        at_n, b, c = self.curves.T
        n_fitted = max(1, self.n - check_count("n_held_out", n_held_out))
        return _interval((at_n - c) * ((n_fitted / self.n) ** -b - 1))

    def describe_calibration_cost(self, n_held_out: int) -> str:
        """What holding out that many labels costs, in a sentence."""
        low, middle, high = (100 * cost for cost in self.calibration_cost(n_held_out))
        sizes = " and ".join(f"{size:,.0f}" for size in self.sizes[[0, -1]])
        return (
            f"Holding out {n_held_out:,} of {self.n:,} labels costs about {middle:.1f} points of "
            f"accuracy ({low:.1f} to {high:.1f}), by the errors of fits on {sizes} labels."
        )

    def best_calibration_size(self, delta: float = 0.05) -> tuple[float, float]:
        """The fraction to hold out that certifies the smallest error, and that error, on average.

        With a fraction f of n labels held out, the classifier has (1 - f) n labels and its Clopper-
        Pearson bound f n.
        """
        n, candidates = self.n, []
        for fraction in _HOLDOUTS:
            n_held_out = max(1, round(fraction * n))
            error = self.error_at(max(1, n - n_held_out))[1]
            k = np.arange(stats.binom.ppf(1e-4, n_held_out, error), n_held_out + 1)
            chance = stats.binom.pmf(k, n_held_out, error)
            likely = chance > 1e-5
            bounds = [upper_limit(int(i), n_held_out, delta) for i in k[likely]]
            candidates.append((float(chance[likely] @ bounds / chance[likely].sum()), fraction))
        bound, fraction = min(candidates)
        return fraction, bound

    def summary(self, error: float | None = None) -> str:
        """How many more labels an error rate needs, in a sentence; without one, the whole curve."""
        if error is None:
            low, middle, high = self.error_at(self.n)
            fraction, bound = self.best_calibration_size()
            return (
                f"With {self.n:,} labels the error rate is about {middle:.1%} ({low:.1%} to "
                f"{high:.1%}). {self.summary(max(0.75 * middle, 1e-3))} To certify with the labels "
                f"at hand, hold out {fraction:.0%} of them: at most about {percent(bound, 1)}. "
                f"{self.describe_calibration_cost(max(1, round(fraction * self.n)))}"
            )
        low, middle, high = (max(0.0, size - self.n) for size in self.labels_for(error))
        largest = _MAX_EXTRAPOLATION * self.n
        if middle == 0:
            return f"The labels are probably enough for an error rate of {error:.1%}."
        if middle > largest:
            low, middle, high = self.error_at(largest)
            return (
                f"More labels of this kind will hardly help: with {_MAX_EXTRAPOLATION} times the "
                f"labels, the error rate levels off at about {middle:.1%} ({low:.1%} to "
                f"{high:.1%})."
            )
        # two digits, as an estimate deserves
        shown = [f"more than {largest:,}"] * 3
        for at, value in enumerate((low, middle, high)):
            if value <= largest:
                digits = max(0, math.floor(math.log10(max(value, 1.0))) - 1)
                shown[at] = f"{int(round(value, -digits)):,}"
        return (
            f"An error rate of {error:.1%} needs about {shown[1]} more labels ({shown[0]} to "
            f"{shown[2]})."
        )

    __str__ = summary

    def points(self) -> list[dict[str, float]]:
        """The curve with its interval at 40 sizes, and the errors that were measured."""
        sizes = np.geomspace(max(self.sizes[0], 2), 8 * self.n, 40)
        curve = [(n, *self.error_at(max(1, round(n)))) for n in sizes.tolist()]
        fitted = [{"labels": n, "low": a, "error": b, "high": c} for n, a, b, c in curve]
        measured = zip(self.sizes.tolist(), (self.n_errors / self.n_tested).tolist())
        return fitted + [{"labels": n, "measured": error} for n, error in measured]


def _interval(values) -> tuple[float, float, float]:
    ends = (1 - _CONFIDENCE) / 2, 0.5, (1 + _CONFIDENCE) / 2
    low, middle, high = np.quantile(values, ends, method="inverted_cdf")
    return float(low), float(middle), float(high)


def fit_holdout_curve(
    model: TextClassifier, texts: Sequence[str], labels: Sequence, groups: Sequence | None = None
) -> LearningCurve:
    """The curve through the out-of-fold errors of `model`, fitted on a part of the texts, and of a
    clone fitted on all of them. Errors of four fifths of the texts make the cost rather too high.
    """
    errors = []
    for fitted in (model, clone(model).fit(texts, labels, groups=groups)):
        log_proba, y = fitted.out_of_fold_
        errors.append((fitted.selection_["n_texts"], y.size, (log_proba.argmax(1) != y).sum()))
    sizes, tested, wrong = np.array(errors).T
    curves = _curve_posterior(sizes, tested, wrong, len(texts), np.random.default_rng(0))
    return LearningCurve(len(texts), sizes, tested, wrong, curves)


def fit_learning_curve(
    X: Iterable[str],
    y: Any,
    *,
    model: Any = None,
    random_state: int | np.random.RandomState | None = None,
) -> LearningCurve:
    """How the error falls with more labels, from the labels that are there.

    The classifier is fitted on parts of the labels of growing size, of four labels per class at
    least where there are enough, and its errors on held-out texts (five folds, near-duplicates in
    one) give a posterior over curves c + a n^-b.

    Parameters
    ----------
    X : iterable of str
    y : array of str or int, one for each text
    model : unfitted classifier, optional
        `TextClassifier("english")` by default.
    random_state : int, RandomState or None, default=None

    Examples
    --------
    >>> from pacsent import TextClassifier
    >>> from pacsent.classify import fit_learning_curve
    >>> texts = [f"film {n} is {w} {n % 7}" for n in range(40) for w in ("good", "bad")]
    >>> curve = fit_learning_curve(texts, ["up", "down"] * 40, model=TextClassifier(None))
    >>> low, middle, high = curve.error_at(160)
    >>> low <= middle <= high
    True
    """
    texts = as_texts(X)
    names = inputs.as_labels(y, len(texts))
    kept = nonempty_rows(texts).tolist()
    texts = [texts[row] for row in kept]
    _, y = inputs.encoded_labels([names[row] for row in kept], texts)
    model = TextClassifier("english") if model is None else model
    rng = check_random_state(random_state)
    clusters = text_units(texts)
    folds = (rng.permutation(int(clusters.max()) + 1) % _FOLDS)[clusters]
    n_fitted = len(texts) - len(texts) // _FOLDS
    smallest = np.clip(_MIN_CLASS_LABELS * (int(y.max()) + 1) / n_fitted, 0.125, 0.5)
    parts = np.geomspace(smallest, 1.0, _CURVE_PARTS)
    totals = np.zeros((parts.size, 4))  # folds, labels, held-out texts, errors on them
    for fold in np.unique(folds):
        tested = np.flatnonzero(folds == fold)
        training = rng.permutation(np.flatnonzero(folds != fold))
        for at, part in enumerate(parts):
            size = round(part * training.size)
            fold_model = _fit_others(model, texts, y, training[:size])
            if fold_model is not None:
                wrong = fold_model.predict([texts[i] for i in tested]) != y[tested]
                totals[at] += 1, size, tested.size, wrong.sum()
    totals = totals[totals[:, 0] > 0]
    if not totals.size:
        raise ValueError(
            "texts must have two classes with at least two different texts each, in every fold. "
            "Got fewer instead. Add labels."
        )
    n_folds, sizes, n_tested, n_wrong = totals.T
    curves = _curve_posterior(sizes / n_folds, n_tested, n_wrong, len(texts), rng)
    return LearningCurve(len(texts), sizes / n_folds, n_tested, n_wrong, curves)


def _curve_posterior(sizes, tested, wrong, n, rng) -> np.ndarray:
    """Draws of (error at n, b, c), by the likelihood of the errors on a grid, (_CURVE_DRAWS, 3).

    The prior falls linearly with the ratio c / error at n, from curves that go to 0 to flat ones.
    """
    last = (wrong[-1] + 0.5) / (tested[-1] + 1)
    spread = math.sqrt(last * (1 - last) / tested[-1])
    at_n = np.linspace(max(last - 6 * spread, 1e-4), min(last + 3 * spread, 0.999), 41)
    b, ratio = np.linspace(0.05, 1.0, 20), np.linspace(0.0, 0.95, 20)
    E, B, S = (part.ravel() for part in np.meshgrid(at_n, b, ratio, indexing="ij"))
    C = S * E
    error = C[:, None] + (E - C)[:, None] * (sizes / n) ** -B[:, None]
    error = np.clip(error, 1e-6, 1 - 1e-6)
    # Each text is held out at every size: errors at two sizes are about half as much evidence.
    logs = 0.5 * (wrong * np.log(error) + (tested - wrong) * np.log1p(-error)).sum(axis=1)
    weights = np.exp(logs - logs.max()) * (1 - S)
    drawn = rng.choice(E.size, _CURVE_DRAWS, p=weights / weights.sum())
    return np.stack([E[drawn], B[drawn], C[drawn]], axis=1)
