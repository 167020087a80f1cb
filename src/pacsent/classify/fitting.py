"""Fit one linear model: candidates are compared by cross-validation, and the best are averaged.

Candidates are logistic regressions on n-grams and vectors (`solvers.sparse_regressions`) with
different penalties and scales. With many labels those with the fewest errors on held-out folds are
averaged. With few labels, folds are too small to tell the best candidates apart: more of them are
averaged, with equal weights, among larger scales of the vectors, and they are compared by their
loss, which says more about a text than an error does.

With more than MAX_FEW_CLASSES classes the time is that of one regression per class and candidate.
Then the candidates are compared on a sample of the classes, and only the best is solved for all.
"""

import warnings
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import groupby, product, starmap
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from scipy.special import softmax

from pacsent.certify.scores import log_loss, log_probabilities
from pacsent.classify.solvers.sparse_regressions import Solutions, log_ratios, solve, solve_rare
from pacsent.classify.solvers.temperature import fit_inverse_temperature, inverse_temperatures
from pacsent.threads import one_blas_thread

# Candidates. CS weigh the labels against the penalty, DENSE_SCALES are the scales of the vectors
# relative to n-grams of length one, chosen on training parts.
CS = (1.0, 6.0, 36.0, 216.0)
DENSE_SCALES = (0.1, 0.2, 0.4, 0.8)
WEIGHTINGS = ("tf-idf", "naive-bayes", "both")
# The single weightings whose decision values are averaged under each weighting.
_SINGLE_WEIGHTINGS = ("tf-idf", "naive-bayes")
_PARTS = {
    "tf-idf": ("tf-idf",),
    "naive-bayes": ("naive-bayes",),
    "both": _SINGLE_WEIGHTINGS,
}

N_FOLDS = 5
# Folds follow from the labels and the order of the texts.
FOLD_SEED = 0
# Texts used to choose candidates; the solution uses all of them.
MAX_SELECTION_TEXTS = 10_000
# Texts held out in all; with more texts, fewer folds are used.
_MAX_HELD_OUT = 4000

# With at most MAX_FEW_TEXTS texts, candidates are averaged by their loss, and DENSE_SCALES go on
# with the WIDER_SCALES: few labels teach little about n-grams (chosen on training parts:
# benchmarks/few_labels.py).
MAX_FEW_TEXTS = 200
WIDER_SCALES = (1.6, 3.2, 6.4)
_MAX_AVERAGED_BY_LOSS = 16

# With more than MAX_FEW_CLASSES, one candidate is chosen on a sample of the classes: each pair is
# the number of sampled classes, and that of the candidates that stay (benchmarks/many_classes.py).
_SAMPLED_CLASSES = ((50, 4), (150, 1))
_MIN_CHOOSING_TEXTS = 20
_MAX_HELD_OUT_OF_MANY = 2000
# Texts of the first fold from which on it decides which candidates go on.
_MIN_SCREENING_TEXTS = 100

# Regressions solved side by side in one pass over the features; 16 fit into registers. With rare
# classes a solve does more once for all columns, so more of them share it.
_COLUMNS_PER_SOLVE = 16
_RARE_COLUMNS_PER_SOLVE = 32

# Averaging the best candidates is more accurate than the best one, which is best partly by chance
# (chosen on training parts). A candidate's weight grows by a factor of e with each
# _WEIGHT_TEMPERATURE further correct predictions. Candidates below _MIN_WEIGHT times the largest
# weight do not change predictions and are dropped.
_MAX_AVERAGED = 8
_WEIGHT_TEMPERATURE = 3.0
_MIN_WEIGHT = 0.02

# Weights of the character model that are held_out.
CHARACTER_SHARES = np.arange(0, 1.01, 0.125)
# Standard errors by which characters must lower the loss: below _MIN_TEXTS_FOR_ONE_ERROR texts,
# and with more.
_MIN_STANDARD_ERRORS = (2.0, 1.0)
_MIN_TEXTS_FOR_ONE_ERROR = 80
# Nats per text by which characters must lower the log-loss: a second model doubles the time of a
# prediction.
_MIN_CHARACTER_GAIN = 0.002
# The weight of characters rises with the fraction of a text's words that are out of vocabulary:
# from this quantile of the out-of-fold fractions on, to one at UNKNOWN_RAMP above it.
UNKNOWN_QUANTILE = 0.9
UNKNOWN_RAMP = 0.5


class Precision(NamedTuple):
    """Where the solvers stop: tolerances of `solve` and of `solve_rare`, and passes at most."""

    tol: float
    rare_tol: float
    max_epochs: int


_CROSS_VALIDATED = Precision(tol=2e-3, rare_tol=0.25, max_epochs=30)
_FINAL = Precision(tol=5e-4, rare_tol=0.1, max_epochs=100)


@dataclass(frozen=True)
class Labelled:
    """Rows of training texts with their classes and weights."""

    X: sparse.csr_matrix  # (n, n_features), tf-idf
    E: np.ndarray  # (n, n_dims)
    labels: np.ndarray  # (n,), 0 .. n_classes - 1; multi-label (n, n_classes) of bool
    n_classes: int
    weights: np.ndarray  # (n,)
    are_rare: bool = False  # whether every class is a small part of the texts, for `solve_rare`

    @property
    def columns(self) -> list[int]:
        """Classes that have a decision value: the second of two, or all."""
        is_binary = self.n_classes == 2 and self.labels.ndim == 1
        if is_binary:
            return [1]
        return list(range(self.n_classes))

    def select(self, rows: np.ndarray) -> "Labelled":
        """Some of the rows."""
        return replace(
            self,
            X=self.X[rows],
            E=self.E[rows],
            labels=self.labels[rows],
            weights=self.weights[rows],
        )


class CharacterWeight(NamedTuple):
    """The weight of the n-grams of characters in the decision on a text.

    It rises from `least` where more than `usual` of the text's words are unknown.

    >>> CharacterWeight(0.25, 0.1).of(np.array([0.05, 0.2, 0.8]))
    array([0.25, 0.4 , 1.  ])
    """

    least: float = 0.0
    usual: float = 1.0

    def of(self, unknown: np.ndarray) -> np.ndarray:
        """The weights for texts by the fraction of their words that are unknown."""
        ramp = np.clip((unknown - self.usual) / UNKNOWN_RAMP, 0.0, 1.0)
        return self.least + (1.0 - self.least) * ramp


class Characters(NamedTuple):
    """The model on n-grams of characters, its decision values brought to those of the words."""

    coef: np.ndarray  # (n_character_features, n_columns)
    intercept: np.ndarray  # (n_columns,)
    share: CharacterWeight


@dataclass(frozen=True)
class Linear:
    """Decision values are X @ sparse + E @ dense + intercept, averaged with those of characters."""

    sparse: np.ndarray  # (n_features, n_columns)
    dense: np.ndarray  # (n_dims, n_columns)
    intercept: np.ndarray  # (n_columns,)
    report: dict = field(default_factory=dict)
    # Rows, and their decision values by models not fitted on them.
    left_out: tuple = ()
    characters: Characters | None = None


class OutOfFold(NamedTuple):
    """Predictions for training texts by models that were not fitted on them, and their classes."""

    log_proba: np.ndarray  # (n, n_classes)
    labels: np.ndarray  # (n,)


@dataclass(frozen=True)
class Candidates:
    """Settings to compare: every C with every scale of the vectors, under every weighting."""

    Cs: tuple[float, ...]
    dense_scales: tuple[float, ...]
    weightings: tuple[str, ...]


def with_characters(
    words: Linear, characters: Linear, rows: Labelled, unknown: np.ndarray | None
) -> Linear:
    """Both models in one: the weight of the characters' is chosen by the loss on texts left out.

    Decision values are brought to one spread first.

    Parameters
    ----------
    words, characters : Linear
        Both models left out the same rows.
    rows : Labelled
    unknown : array of shape (n,), or None
        The fraction of OOV words of each row, were it left out. The weight of the characters is
        larger for a text with more of them than usual. None: it is the same for all texts.

    Returns
    -------
    Linear
        `words` alone if the characters do not lower the loss clearly: `_choose_character_weight`.
    """
    tested, word_values = words.left_out
    character_values = characters.left_out[1]
    word_square = np.mean(word_values**2)
    character_square = max(np.mean(character_values**2), 1e-30)
    factor = np.sqrt(word_square / character_square)
    character_values = factor * character_values

    differences = character_values - word_values
    mixtures = [word_values + share * differences for share in CHARACTER_SHARES]
    labels = rows.labels[tested]
    text_weights = rows.weights[tested]
    chosen = _choose_character_weight(mixtures, labels, text_weights)
    least = float(CHARACTER_SHARES[chosen])
    weight = CharacterWeight(least)
    combined_values = mixtures[chosen]
    if unknown is not None:
        oov_rates = unknown[tested]
        usual = float(np.quantile(oov_rates, UNKNOWN_QUANTILE))
        weight = CharacterWeight(least, usual)
        weight_of_text = weight.of(oov_rates)[:, None]
        combined_values = word_values + weight_of_text * differences

    report = words.report | _evaluate(combined_values, rows, tested)
    report["character_weight"] = weight.least
    report["oov_rate_quantile"] = weight.usual
    combined = replace(words, report=report, left_out=(tested, combined_values))
    never_counts = weight == CharacterWeight()
    if never_counts:
        return combined

    scaled_characters = Characters(
        coef=characters.sparse * np.float32(factor),
        intercept=factor * characters.intercept,
        share=weight,
    )
    return replace(combined, characters=scaled_characters)


def _choose_character_weight(
    mixtures: list[np.ndarray], labels: np.ndarray, weights: np.ndarray
) -> int:
    """The position of the mixture with the least loss; 0, words alone, unless the loss is clear.

    The loss must fall by more than its standard error, or two of them with very few texts.
    `mixtures` are decision values on texts left out, (n, n_columns) each.
    """
    all_rows = np.arange(labels.size)
    losses = np.empty((len(mixtures), labels.size))
    for position, decisions in enumerate(mixtures):
        scale = fit_inverse_temperature(decisions, labels, weights)
        log_proba = log_probabilities(decisions, scale)  # (n, n_classes)
        losses[position] = -weights * log_proba[all_rows, labels]

    total_losses = losses.sum(axis=1)  # (n_mixtures,)
    best = int(np.argmin(total_losses))
    gains = losses[0] - losses[best]  # (n,)
    total_gain = gains.sum()
    if total_gain < _MIN_CHARACTER_GAIN * weights.sum():
        return 0

    has_many_texts = gains.size >= _MIN_TEXTS_FOR_ONE_ERROR
    n_errors = _MIN_STANDARD_ERRORS[int(has_many_texts)]
    if total_gain <= n_errors * np.sqrt(gains.size) * gains.std():
        return 0
    return best


def _evaluate(values: np.ndarray, rows: Labelled, tested: np.ndarray) -> dict[str, Any]:
    """Inverse temperature, accuracy and probabilities from decision values of held-out texts."""
    labels = rows.labels[tested]
    weights = rows.weights[tested]
    scales = inverse_temperatures(values, labels, weights)
    log_proba = log_probabilities(values, scales)  # (n_tested, n_classes)
    return {
        "accuracy": _accuracy(values, labels, weights),
        "n_tested": int(labels.size),
        "inverse_temperature": scales.tolist(),
        "out_of_fold": OutOfFold(log_proba, labels),
    }


def fit_by_folds(
    rows: Labelled,
    candidates: Candidates,
    selection: str,
    n_threads: int,
    groups: np.ndarray | None = None,
    copies: np.ndarray | None = None,
) -> Linear:
    """The mean of the best candidates on held-out folds, solved on all rows.

    The best have the least loss (`selection="loss"`) or the fewest errors ("folds").
    """
    part, folds, chosen = select_for_folds(rows, rows.labels, groups, copies)
    held_out = cross_validate(part, candidates, folds, n_threads)
    best, weights = held_out.choose(selection)
    shares = held_out.shares(best, weights)  # (n_candidates,)
    model = fit_mixture(rows, held_out.table, shares, n_threads)

    mean = held_out.values @ shares  # (n_tested, n_columns)
    leading = best[0]
    if selection == "folds":
        weights_of_all = shares * held_out.spread  # (n_candidates,)
        leading = int(np.argmax(weights_of_all))
    report = held_out.table[leading] | _evaluate(mean, part, held_out.tested)
    report["selection"] = selection
    report["n_candidates"] = len(held_out.table)
    report["averaged"] = held_out.averaged(shares)
    report["candidates"] = held_out.table

    tested = chosen[held_out.tested]
    return replace(model, report=report, left_out=(tested, mean))


def predict_left_out(
    rows: Labelled,
    candidates: Candidates,
    selection: str,
    fold_of_row: np.ndarray,
    n_threads: int,
    copies: np.ndarray | None = None,
) -> Linear:
    """Decision values of every row by a model that was fitted on the other folds.

    Candidates are chosen once, as `fit_by_folds` chooses them, and their weights fitted anew
    without each fold. The result has only what `fit_by_folds` reports about texts left out.
    """
    # As in a fit, a class of a single text does not count: folds could not hold it out and fit it.
    n_in_class = np.bincount(rows.labels)[rows.labels]  # (n,)
    learnable = np.flatnonzero(n_in_class >= 2)
    learnable_rows = rows.select(learnable)
    learnable_copies = None if copies is None else copies[learnable]

    # The candidates that are averaged, and their weights.
    part, folds, _ = select_for_folds(learnable_rows, learnable_rows.labels, None, learnable_copies)
    held_out = cross_validate(part, candidates, folds, n_threads)
    best, weights = held_out.choose(selection)
    shares = held_out.shares(best, weights)  # (n_candidates,)
    averaged = np.flatnonzero(shares > 0)
    averaged_candidates = [held_out.candidates[number] for number in averaged]

    # The same candidates on the folds of the caller, to a tight tolerance.
    n_folds = int(fold_of_row.max()) + 1
    is_scored = np.ones(fold_of_row.size, bool)
    all_folds = Folds(fold_of_row, n_folds, is_scored)
    cross_validation = CrossValidation(rows, candidates, all_folds, n_threads, _FINAL)
    every_row = cross_validation.score(averaged_candidates)
    mean = every_row.values @ shares[averaged]  # (n, n_columns), fold by fold

    n_columns = mean.shape[1]
    no_weights = np.zeros((0, n_columns), np.float32)
    return Linear(
        sparse=no_weights,
        dense=no_weights,
        intercept=np.zeros(n_columns),
        report=_evaluate(mean, rows, every_row.tested),
        left_out=(every_row.tested, mean),
    )


def select_for_folds(
    rows: Labelled, strata: np.ndarray, groups: np.ndarray | None, copies: np.ndarray | None
) -> tuple[Labelled, "Folds", np.ndarray]:
    """At most MAX_SELECTION_TEXTS rows, their folds (stratified by `strata`), and their numbers."""
    rng = np.random.default_rng(FOLD_SEED)
    shuffled = rng.permutation(len(strata))
    chosen = np.sort(shuffled[:MAX_SELECTION_TEXTS])
    folds = folds_for(
        strata[chosen],
        rng,
        groups=None if groups is None else groups[chosen],
        copies=None if copies is None else copies[chosen],
        max_held_out=_MAX_HELD_OUT_OF_MANY if rows.are_rare else _MAX_HELD_OUT,
    )
    return rows.select(chosen), folds, chosen


@dataclass(frozen=True)
class Folds:
    """The fold that holds out each row, and the rows that are scored."""

    of: np.ndarray  # (n,), the number of folds for rows that are never held out
    n: int
    is_scored: np.ndarray  # (n,) of bool

    def held_out(self) -> list[np.ndarray]:
        """Rows of each fold."""
        return [np.flatnonzero(self.of == f) for f in range(self.n)]


def folds_for(
    labels: np.ndarray,
    rng: np.random.Generator,
    groups: np.ndarray | None = None,
    copies: np.ndarray | None = None,
    max_held_out: int = _MAX_HELD_OUT,
) -> Folds:
    """Five folds, fewer of them held out where there are many texts; groups stay together.

    `copies` has the same number for rows of the same text, which stay together too: a text that
    is also fitted is no held-out text.
    """
    if groups is None:
        return _split_texts(labels, rng, copies, max_held_out)
    return _split_groups(labels, rng, groups)


def _split_texts(
    labels: np.ndarray, rng: np.random.Generator, copies: np.ndarray | None, max_held_out: int
) -> Folds:
    """Folds with the same number of each class; copies of a text stay together."""
    n_needed = -(-max_held_out * N_FOLDS // labels.size)
    n_held_out = int(np.clip(n_needed, 1, N_FOLDS))
    first_rows, text_of_row = distinct_texts(labels, copies)
    label_of_text = labels[first_rows]
    fold_of_text = np.empty(first_rows.size, np.int64)
    for c in np.unique(labels):
        of_class = np.flatnonzero(label_of_text == c)
        texts = rng.permutation(of_class)
        first_fold = rng.integers(N_FOLDS)
        positions = first_fold + np.arange(texts.size)
        fold_of_text[texts] = positions % N_FOLDS

    fold_of_row = np.minimum(fold_of_text[text_of_row], n_held_out)
    return Folds(fold_of_row, n_held_out, is_scored=fold_of_row < n_held_out)


def _split_groups(labels: np.ndarray, rng: np.random.Generator, groups: np.ndarray) -> Folds:
    """Folds of whole groups, as equal in their classes as groups allow."""
    n_groups = np.unique(groups).size
    if n_groups < 2:
        raise ValueError(
            "groups must be at least two. Got one instead. Leave groups out, or add other texts."
        )
    from sklearn.model_selection import StratifiedGroupKFold  # a second to import

    n_groups_of_class = [np.unique(groups[labels == c]).size for c in np.unique(labels)]
    n_useful_folds = min(N_FOLDS, n_groups, max(n_groups_of_class))
    n_folds = max(n_useful_folds, 2)
    seed = int(rng.integers(2**31))
    splits = StratifiedGroupKFold(n_folds, shuffle=True, random_state=seed)
    fold_of_row = np.zeros(labels.size, np.int64)
    with warnings.catch_warnings():
        # It warns of classes with fewer texts than there are folds.
        warnings.simplefilter("ignore", UserWarning)
        for f, (_, held_out) in enumerate(splits.split(labels, labels, groups)):
            fold_of_row[held_out] = f

    is_scored = _are_learnable(labels, fold_of_row)
    if not is_scored.any():
        raise ValueError(
            "groups must have texts of some class in two of them at least. Got every class in one "
            "group instead. Leave groups out, or add texts of other groups."
        )
    return Folds(fold_of_row, N_FOLDS, is_scored)


def _are_learnable(labels: np.ndarray, fold_of_row: np.ndarray) -> np.ndarray:
    """True where another fold has the class of a row, which could not be learnt else, (n,)."""
    is_learnable = np.zeros(labels.size, bool)
    for f in range(N_FOLDS):
        is_held_out = fold_of_row == f
        training_labels = labels[~is_held_out]
        is_learnable |= is_held_out & np.isin(labels, training_labels)
    return is_learnable


def distinct_texts(labels: np.ndarray, copies: Any) -> tuple[np.ndarray, np.ndarray]:
    """The first row of each text, in order, and the text of each row.

    Every row is its own text where a class would have fewer than two: folds could not hold one
    out and fit the other.
    """
    rows = np.arange(labels.size)
    if copies is None:
        return rows, rows

    _, first_rows, text_of_row = np.unique(copies, return_index=True, return_inverse=True)
    n_texts = np.bincount(labels[first_rows], minlength=labels.max() + 1)  # (n_classes,)
    n_texts_of_label = n_texts[np.unique(labels)]
    if n_texts_of_label.min() < 2:
        return rows, rows

    # Texts are numbered by their first rows.
    order = np.argsort(first_rows)
    number_of_text = np.argsort(order)
    return first_rows[order], number_of_text[text_of_row]


@dataclass(frozen=True)
class CandidateValues:
    """Decision values of all candidates on held-out rows."""

    candidates: list["Candidate"]
    table: list[dict]  # the options and the accuracy of each candidate
    values: np.ndarray  # (n_tested, n_columns, n_candidates)
    tested: np.ndarray  # (n_tested,) rows
    labels: np.ndarray  # (n_tested,)
    weights: np.ndarray  # (n_tested,)

    def losses(self) -> np.ndarray:
        """Loss of each candidate at its best inverse temperature, (n_candidates,)."""
        losses = []
        for decisions in np.moveaxis(self.values, 2, 0):
            scale = fit_inverse_temperature(decisions, self.labels, self.weights)
            losses.append(log_loss(decisions, self.labels, self.weights, scale))
        return np.array(losses)

    def choose(self, selection: str) -> tuple[np.ndarray, np.ndarray]:
        """The candidates to average by `selection`, "loss" or "folds", and weights, (n_best,)."""
        return self.least_loss() if selection == "loss" else self.fewest_errors()

    def fewest_errors(self) -> tuple[np.ndarray, np.ndarray]:
        """The most accurate candidates, and weights that grow with their accuracy, (n_best,)."""
        accuracies = np.array([row["accuracy"] for row in self.table])
        n_right = accuracies * len(self.tested)
        weights = softmax(n_right / _WEIGHT_TEMPERATURE)
        order = np.argsort(-weights, kind="stable")
        best = order[:_MAX_AVERAGED]

        matters = weights[best] > _MIN_WEIGHT * weights.max()
        best = best[matters]
        return best, weights[best]

    def least_loss(self) -> tuple[np.ndarray, np.ndarray]:
        """The candidates with the least loss, and equal weights, (n_best,).

        They are half of the candidates at most: of a few given ones the worse do not count.
        """
        half = (len(self.table) + 1) // 2
        n_best = min(_MAX_AVERAGED_BY_LOSS, half)
        order = np.argsort(self.losses(), kind="stable")
        return order[:n_best], np.ones(n_best)

    @property
    def spread(self) -> np.ndarray:
        """Root mean square of each candidate's decision values."""
        mean_squares = np.mean(np.square(self.values), axis=(0, 1))  # (n_candidates,)
        return np.sqrt(mean_squares) + 1e-12

    def shares(self, best: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """Weights of the best candidates, divided by the spread of their decision values."""
        shares = np.zeros(len(self.table))
        shares[best] = weights
        shares /= shares.sum()
        return shares / self.spread * (shares @ self.spread)

    def averaged(self, shares: np.ndarray) -> list[dict]:
        """The options of the candidates that have a weight, with it."""
        averaged = []
        for number in np.flatnonzero(shares > 0):
            row = self.table[number]
            averaged.append(
                {
                    "weighting": row["weighting"],
                    "C": row["C"],
                    "dense_scale": row["dense_scale"],
                    "share": float(shares[number]),
                }
            )
        return averaged


class Candidate(NamedTuple):
    """A weighting of the n-grams, and the number of a pair of scales: C, and that of the vectors.

    Decision values of "both" weightings are the mean of those of the two others. So only candidates
    of a single weighting are solved.
    """

    weighting: str
    pair: int

    def parts(self) -> list["Candidate"]:
        """The candidates of a single weighting that it is the mean of."""
        return [Candidate(weighting, self.pair) for weighting in _PARTS[self.weighting]]


def cross_validate(
    rows: Labelled, candidates: Candidates, folds: Folds, n_threads: int
) -> CandidateValues:
    """Cross-validate the candidates that a screening on the first fold leaves."""
    cross_validation = CrossValidation(rows, candidates, folds, n_threads)
    if rows.are_rare:
        chosen = choose_by_sampled_classes(rows, candidates, folds, n_threads)
    else:
        chosen = cross_validation.screen()
    return cross_validation.score(chosen)


def choose_by_sampled_classes(
    rows: Labelled, candidates: Candidates, folds: Folds, n_threads: int
) -> list[Candidate]:
    """The candidate with the least loss among some of many classes, on the first fold.

    All candidates are compared on few classes, and the best quarter of them on more.
    """
    chosen: list[Candidate] = []
    for n_sampled, n_best in _SAMPLED_CLASSES:
        sampled_rows, sampled_folds = sample_classes(rows, folds, n_sampled)
        cross_validation = CrossValidation(sampled_rows, candidates, sampled_folds, n_threads)
        compared = chosen or cross_validation.all_candidates()
        chosen = cross_validation.choose(compared, n_best)
    return chosen


def sample_classes(rows: Labelled, folds: Folds, n_sampled: int) -> tuple[Labelled, Folds]:
    """The same texts with columns for some of the classes, and the texts of these to score.

    A class has the same regression as with all columns: its texts against all others. What is left
    out are the regressions of the other classes, which take most of the time.
    """
    rng = np.random.default_rng(FOLD_SEED)
    shuffled = rng.permutation(rows.n_classes)
    sampled = np.sort(shuffled[:n_sampled])
    number_of_class = np.full(rows.n_classes, sampled.size)  # the others are one without a column
    number_of_class[sampled] = np.arange(sampled.size)
    labels = number_of_class[rows.labels]
    is_scored = folds.is_scored & (labels < sampled.size)
    sampled_rows = replace(rows, labels=labels, n_classes=sampled.size)
    sampled_folds = replace(folds, is_scored=is_scored)
    return sampled_rows, sampled_folds


class CrossValidation:
    """Decision values of candidates on held-out folds, each computed once.

    Most of the time of a fit is spent here, and most candidates are far from the best. So `screen`
    tries all pairs of scales on the first fold alone, under one weighting, and only the best
    quarter of them under the others. `score` tries the best candidates of these on all folds.
    """

    def __init__(
        self,
        rows: Labelled,
        candidates: Candidates,
        folds: Folds,
        n_threads: int,
        precision: Precision = _CROSS_VALIDATED,
    ):
        self.rows = rows
        self.precision = precision
        self.folds = folds
        self.n_threads = n_threads
        self.weightings = candidates.weightings

        # Without vectors their scale does not matter.
        dense_scales = candidates.dense_scales if rows.E.shape[1] else (1.0,)
        pairs = list(product(candidates.Cs, dense_scales))
        self.pairs = np.array(pairs)  # (n_pairs, 2)

        self.fold_rows = folds.held_out()
        self.length_factors = growth(rows.X, folds.of)  # (n,)
        # Decision values of a candidate's parts on the rows of a fold, (n_fold_rows, n_columns).
        self._decisions: dict[tuple[Candidate, int], np.ndarray] = {}

    def all_candidates(self) -> list[Candidate]:
        """Every pair of scales under every weighting."""
        return self._candidates(self.weightings, range(len(self.pairs)))

    def choose(self, candidates: list[Candidate], n_best: int) -> list[Candidate]:
        """The best of the candidates on the first fold; all where it has too few texts."""
        if self._evaluated_rows([0]).size < _MIN_CHOOSING_TEXTS:
            return candidates
        self._solve(_list_parts(candidates), [0])
        return self._best(candidates, n_best)

    def screen(self) -> list[Candidate]:
        """Candidates that are worth trying on all folds.

        A first fold of few texts could not tell them apart, and several labels per text choose
        their own candidates: then all of them.
        """
        all_pairs = range(len(self.pairs))
        is_multilabel = self.rows.labels.ndim == 2
        n_first = self._evaluated_rows([0]).size
        if is_multilabel or self.folds.n < 2 or n_first < _MIN_SCREENING_TEXTS:
            return self.all_candidates()

        # All pairs under one weighting, and the best of them under the others.
        leading, *others = self._solved_weightings()
        pair_candidates = self._candidates([leading], all_pairs)
        self._solve(pair_candidates, [0])
        n_kept_pairs = max(2, len(self.pairs) // 4)
        best_candidates = self._best(pair_candidates, n_kept_pairs)
        kept_pairs = [candidate.pair for candidate in best_candidates]
        if others:
            self._solve(self._candidates(others, kept_pairs), [0])

        kept_candidates = self._candidates(self.weightings, kept_pairs)
        return self._best(kept_candidates, _MAX_AVERAGED)

    def score(self, candidates: list[Candidate]) -> CandidateValues:
        """Decision values and accuracy of candidates on all folds."""
        all_folds = range(self.folds.n)
        parts = _list_parts(candidates)
        first_part = parts[0]  # a fold is solved for all parts or for none
        unsolved_folds = [f for f in all_folds if (first_part, f) not in self._decisions]
        self._solve(parts, unsolved_folds)

        values = self._held_out_values(candidates, all_folds)
        evaluated_rows = self._evaluated_rows(all_folds)
        labels = self.rows.labels[evaluated_rows]
        weights = self.rows.weights[evaluated_rows]
        table = []
        for number, candidate in enumerate(candidates):
            C, dense_scale = self.pairs[candidate.pair].tolist()
            decisions = values[:, :, number]  # (n_evaluated, n_columns)
            is_wrong = ~are_right(decisions, labels)  # (n_evaluated,)
            table.append(
                {
                    "weighting": candidate.weighting,
                    "C": C,
                    "dense_scale": dense_scale,
                    "accuracy": _accuracy(decisions, labels, weights),
                    "n_errors": int(is_wrong.sum()),
                }
            )
        return CandidateValues(candidates, table, values, evaluated_rows, labels, weights)

    def _candidates(self, weightings: Iterable[str], pairs: Iterable[int]) -> list[Candidate]:
        return list(starmap(Candidate, product(weightings, pairs)))

    def _solved_weightings(self) -> list[str]:
        """Single weightings of which the candidates are made, in the order of `WEIGHTINGS`."""
        solved: set[str] = set()
        for weighting in self.weightings:
            solved.update(_PARTS[weighting])
        return [weighting for weighting in WEIGHTINGS if weighting in solved]

    def _best(self, candidates: list[Candidate], n: int) -> list[Candidate]:
        """The n candidates with the least loss on the first fold, in the order given."""
        rows = self._evaluated_rows([0])
        values = self._held_out_values(candidates, [0])
        held_out = CandidateValues(
            candidates=candidates,
            table=[],
            values=values,
            tested=rows,
            labels=self.rows.labels[rows],
            weights=self.rows.weights[rows],
        )
        order = np.argsort(held_out.losses(), kind="stable")
        best = np.sort(order[:n])
        return [candidates[number] for number in best]

    def _evaluated_rows(self, folds: Sequence[int]) -> np.ndarray:
        """Rows of these folds that are scored, fold by fold, (n_evaluated,)."""
        rows = np.concatenate([self.fold_rows[f] for f in folds])
        return rows[self.folds.is_scored[rows]]

    def _held_out_values(self, candidates: list[Candidate], folds: Sequence[int]) -> np.ndarray:
        """Decision values of `_evaluated_rows`, (n_evaluated, n_columns, n_candidates)."""
        rows = np.concatenate([self.fold_rows[f] for f in folds])
        is_evaluated = self.folds.is_scored[rows]
        values = []
        for candidate in candidates:
            by_fold = [self._fold_decisions(candidate, f) for f in folds]
            values.append(np.concatenate(by_fold)[is_evaluated])
        return np.stack(values, axis=2)

    def _fold_decisions(self, candidate: Candidate, fold: int) -> np.ndarray:
        """Decision values of a candidate on the rows of a fold, (n_fold_rows, n_columns)."""
        parts = candidate.parts()
        n_fold_rows = self.fold_rows[fold].size
        total = np.zeros((n_fold_rows, len(self.rows.columns)))
        for part in parts:
            total += self._decisions[part, fold]
        return total / len(parts)

    def _solve(self, candidates: list[Candidate], folds: Sequence[int]) -> None:
        """Compute decision values of these folds by models of all other rows.

        Under tf-idf all folds, classes and pairs share their features and are solved side by side;
        naive Bayes' ratios differ by fold and class.
        """
        held_out_X = {f: self._new_rows(f) for f in folds}
        n_columns = len(self.rows.columns)
        for f in folds:
            n_fold_rows = self.fold_rows[f].size
            for candidate in candidates:
                self._decisions[candidate, f] = np.empty((n_fold_rows, n_columns))

        tasks: list[_Task] = []
        for weighting in _SINGLE_WEIGHTINGS:
            pairs = [candidate.pair for candidate in candidates if candidate.weighting == weighting]
            problems = list(starmap(_FoldProblem, product(folds, self.rows.columns, pairs)))
            tasks += _make_tasks(weighting, problems, self.rows.are_rare)

        work = partial(self._solve_task, held_out_X=held_out_X)
        _in_threads(work, tasks, self.n_threads)

    def _new_rows(self, fold: int) -> sparse.csr_matrix:
        """Features of the rows of a fold, with the lengths that they would have as new texts."""
        rows = self.fold_rows[fold]
        X = self.rows.X[rows]
        factors = self.length_factors[rows].astype(np.float32)
        row_sizes = np.diff(X.indptr)
        X.data *= np.repeat(factors, row_sizes)
        return X

    def _solve_task(self, task: "_Task", held_out_X: dict[int, sparse.csr_matrix]) -> None:
        """Solve the problems of a task, `_FoldProblem`s, and write their decision values."""
        fold, classes, pair = np.array(task.problems).T  # (n_problems,) each
        training_rows = np.flatnonzero(self.folds.of != fold[0])
        Cs, dense_scales = np.ascontiguousarray(self.pairs[pair].T)
        solutions, ratios = _solve_weighting(
            self.rows,
            task.weighting,
            classes,
            training_rows,
            Cs,
            dense_scales,
            left_out=fold,
            folds=self.folds.of,
            precision=self.precision,
        )

        for f in np.unique(fold):
            X = held_out_X[f]
            if ratios is not None:
                X = _replace_data(X, X.data * ratios[X.indices])
            E = self.rows.E[self.fold_rows[f]]
            solved = np.flatnonzero(fold == f)
            decisions = solutions.take(solved).decisions(X, E)  # (n_fold_rows, n_solved)
            for problem, problem_decisions in zip(solved, decisions.T):
                candidate = Candidate(task.weighting, int(pair[problem]))
                column = classes[problem] - self.rows.columns[0]
                self._decisions[candidate, f][:, column] = problem_decisions


def _list_parts(candidates: Iterable[Candidate]) -> list[Candidate]:
    """The candidates of a single weighting that these are means of, each once, in order."""
    parts: set[Candidate] = set()
    for candidate in candidates:
        parts.update(candidate.parts())
    return sorted(parts)


class _FoldProblem(NamedTuple):
    """A regression of cross-validation: it leaves a fold out, and has a pair of scales."""

    fold: int
    column: int  # the class
    pair: int


class _MixtureProblem(NamedTuple):
    """A regression on all rows, and its weight in the mixture."""

    fold: int  # -1: none is left out
    column: int  # the class
    C: float
    dense_scale: float
    weight: float


class _Task(NamedTuple):
    """Regressions under a single weighting that are solved together."""

    weighting: str
    problems: Sequence[_FoldProblem | _MixtureProblem]


def _make_tasks(
    weighting: str, problems: Sequence[_FoldProblem | _MixtureProblem], are_rare: bool
) -> list[_Task]:
    """Problems, sorted by fold and class, divided into those that are solved together."""
    if weighting == "tf-idf":
        size = _RARE_COLUMNS_PER_SOLVE if are_rare else _COLUMNS_PER_SOLVE
        starts = range(0, len(problems), size)
        return [_Task(weighting, problems[start : start + size]) for start in starts]

    # Under naive Bayes' ratios, only those of one fold and class share their features.
    by_fold_and_class = groupby(problems, attrgetter("fold", "column"))
    return [_Task(weighting, list(part)) for _, part in by_fold_and_class]


def _in_threads(work: Callable, tasks: list, n_threads: int) -> list:
    with one_blas_thread(), ThreadPoolExecutor(n_threads) as pool:
        return list(pool.map(work, tasks))


class _PartialSum(NamedTuple):
    """The part of the weighted sum of candidates that the solutions of one task make."""

    columns: slice
    sparse: np.ndarray  # (n_features, n_own_columns)
    dense: np.ndarray  # (n_dims, n_own_columns)
    intercept: np.ndarray  # (n_own_columns,)


def fit_mixture(
    rows: Labelled, table: list[dict], shares: np.ndarray, n_threads: int = 1
) -> Linear:
    """The weighted sum of candidates, each solved on all rows to a tight tolerance.

    `shares` is (n_candidates,), or (n_candidates, n_columns) where columns have their own.
    """
    n_columns = len(rows.columns)
    if shares.ndim == 1:
        shares = np.repeat(shares[:, None], n_columns, axis=1)

    tasks: list[_Task] = []
    for weighting in _SINGLE_WEIGHTINGS:
        problems = _mixture_problems(rows, table, shares, weighting)
        tasks += _make_tasks(weighting, problems, rows.are_rare)

    sparse_weights = np.zeros((rows.X.shape[1], n_columns), np.float32)
    dense_weights = np.zeros((rows.E.shape[1], n_columns), np.float32)
    intercept = np.zeros(n_columns, np.float32)
    solve_task = partial(_solve_mixture_task, rows=rows)
    for part in _in_threads(solve_task, tasks, n_threads):
        sparse_weights[:, part.columns] += part.sparse
        dense_weights[:, part.columns] += part.dense
        intercept[part.columns] += part.intercept
    return Linear(sparse_weights, dense_weights, intercept.astype(np.float64))


def _mixture_problems(
    rows: Labelled, table: list[dict], shares: np.ndarray, weighting: str
) -> list[_MixtureProblem]:
    """The regressions under a single weighting that have a weight, by class and scales.

    `shares` is (n_candidates, n_columns). A candidate of both weightings gives half to each.
    """
    weights: dict[tuple[int, float, float], float] = defaultdict(float)
    for row, candidate_shares in zip(table, shares):
        parts = _PARTS[row["weighting"]]
        if weighting not in parts:
            continue
        for number in np.flatnonzero(candidate_shares > 0):
            column = rows.columns[number]
            weights[column, row["C"], row["dense_scale"]] += candidate_shares[number] / len(parts)

    problems = []
    for (column, C, dense_scale), weight in sorted(weights.items()):
        problems.append(_MixtureProblem(-1, column, C, dense_scale, weight))
    return problems


def _solve_mixture_task(task: _Task, rows: Labelled) -> _PartialSum:
    """The weighted sum of the solutions of a task, of `_MixtureProblem`s, on all rows."""
    columns = [np.array(values) for values in zip(*task.problems)]
    _, classes, Cs, dense_scales, weights = columns  # (n_problems,) each
    all_rows = np.arange(len(rows.labels))
    solutions, ratios = _solve_weighting(
        rows, task.weighting, classes, all_rows, Cs, dense_scales, precision=_FINAL
    )

    # Solutions of one class are added up.
    n_problems = classes.size
    n_own_columns = classes[-1] + 1 - classes[0]
    own_column = classes - classes[0]  # (n_problems,)
    sums = np.zeros((n_problems, n_own_columns), np.float32)
    sums[np.arange(n_problems), own_column] = weights
    sparse_weights = solutions.sparse_weights @ sums
    if ratios is not None:
        sparse_weights *= ratios[:, None]

    first_column = classes[0] - rows.columns[0]
    return _PartialSum(
        columns=slice(first_column, first_column + n_own_columns),
        sparse=sparse_weights,
        dense=solutions.dense_weights @ sums,
        intercept=solutions.intercepts @ sums,
    )


def growth(X: sparse.csr_matrix, folds: np.ndarray) -> np.ndarray:
    """Factors of the features of each row, were it a new text, (n,).

    The n-grams of a new text that no training text holds are unknown and do not count in its
    length. A row that is left out holds such n-grams too: those of its own fold alone.

    Examples
    --------
    >>> X = sparse.csr_matrix([[0.6, 0.8, 0.0], [0.0, 0.6, 0.8], [0.0, 1.0, 0.0]])
    >>> growth(X, np.array([0, 1, 1])).round(2)
    array([1.25, 1.67, 1.  ])
    """
    n, n_features = X.shape
    row_of_entry = _row_of_entries(X)

    # A feature is known if more rows have it than those of the fold.
    n_rows_of_feature = np.bincount(X.indices, minlength=n_features)
    n_rows = n_rows_of_feature[X.indices]  # (n_nonzero,)
    cells = folds[row_of_entry] * n_features + X.indices
    n_rows_of_fold = np.bincount(cells)[cells]  # (n_nonzero,)
    is_known = n_rows > n_rows_of_fold

    known_squares = is_known * X.data.astype(np.float64) ** 2
    squares = np.bincount(row_of_entry, known_squares, n)  # (n,)
    squares = np.where(squares > 0, squares, 1.0)
    return 1.0 / np.sqrt(squares)


def _solve_weighting(
    rows: Labelled,
    weighting: str,
    classes: np.ndarray,
    training_rows: np.ndarray,
    Cs: np.ndarray,
    dense_scales: np.ndarray,
    *,
    precision: Precision,
    left_out: np.ndarray | None = None,
    folds: np.ndarray | None = None,
) -> tuple[Solutions, np.ndarray | None]:
    """Regressions, and naive Bayes' ratios that X was multiplied by; None under tf-idf."""
    X = rows.X
    ratios = None
    if weighting == "naive-bayes":
        X, ratios = _weigh_by_ratios(rows, classes[0], training_rows)

    solve_columns: Callable[..., Solutions] = solve
    tol = precision.tol
    if rows.are_rare:
        solve_columns = solve_rare
        tol = precision.rare_tol
    solutions = solve_columns(
        X,
        rows.E,
        rows.labels,
        Cs,
        dense_scales,
        positive=classes,
        left_out=left_out,
        folds=folds,
        text_weights=rows.weights,
        tol=tol,
        max_epochs=precision.max_epochs,
    )
    return solutions, ratios


def _weigh_by_ratios(
    rows: Labelled, positive: int, training_rows: np.ndarray
) -> tuple[sparse.csr_matrix, np.ndarray]:
    """X with features multiplied by naive Bayes' ratios of a class, and these, (n_features,)."""
    X = rows.X
    n = len(rows.labels)
    labels = rows.labels[training_rows]
    is_positive = labels[:, positive] if labels.ndim == 2 else labels == positive
    ratios = np.abs(log_ratios(X[training_rows], is_positive))  # (n_features,)
    ratio_of_entry = ratios[X.indices].astype(np.float32)
    data = X.data * ratio_of_entry

    # Rows keep their mean length, so that C means the same under either weighting.
    row_of_entry = _row_of_entries(X)
    squares = np.bincount(row_of_entry, data.astype(np.float64) ** 2, n)  # (n,)
    mean_square = max(squares[training_rows].mean(), 1e-30)
    factor = 1.0 / np.sqrt(mean_square)
    data *= np.float32(factor)
    ratios = (ratios * factor).astype(np.float32)
    return _replace_data(X, data), ratios


def predict_classes(decisions: np.ndarray) -> np.ndarray:
    """The class of each row of decision values."""
    if decisions.shape[1] == 1:
        return (decisions[:, 0] > 0).astype(np.int64)
    return decisions.argmax(axis=1)


def are_right(decisions: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """True where a row gets its class, or all of its labels and no other, (n,) of bool."""
    if labels.ndim == 2:
        has_label = decisions > 0  # (n, n_labels)
        return (has_label == labels).all(axis=1)
    return predict_classes(decisions) == labels


def _accuracy(decisions: np.ndarray, labels: np.ndarray, weights: np.ndarray) -> float:
    """The weighted fraction of `are_right`."""
    right_weights = weights * are_right(decisions, labels)
    return float(right_weights.sum() / weights.sum())


def _row_of_entries(X: sparse.csr_matrix) -> np.ndarray:
    """The row of each stored value of X, (n_nonzero,)."""
    row_sizes = np.diff(X.indptr)
    return np.repeat(np.arange(row_sizes.size), row_sizes)


def _replace_data(X: sparse.csr_matrix, data: np.ndarray) -> sparse.csr_matrix:
    """X with other values, (n_nonzero,), in the same places."""
    return sparse.csr_matrix((data, X.indices, X.indptr), shape=X.shape)
