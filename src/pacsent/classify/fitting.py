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
from itertools import groupby, product, starmap
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
_PARTS = {"tf-idf": WEIGHTINGS[:1], "naive-bayes": WEIGHTINGS[1:2], "both": WEIGHTINGS[:2]}
N_FOLDS = 5
# Folds follow from the labels and the order of the texts.
FOLD_SEED = 0

# With at most MAX_FEW_TEXTS texts, candidates are averaged by their loss, and DENSE_SCALES go on
# with the WIDER_SCALES: few labels teach little about n-grams (chosen on training parts:
# benchmarks/few_labels.py).
MAX_FEW_TEXTS = 200
WIDER_SCALES = (1.6, 3.2, 6.4)
_MAX_AVERAGED_BY_LOSS = 16
_MAX_HELD_OUT = 4000  # texts held out in all; with more texts, fewer folds are used
# With more than MAX_FEW_CLASSES, one candidate is chosen on a sample of the classes
# (benchmarks/many_classes.py).
_SAMPLED_CLASSES = ((50, 4), (150, 1))  # classes, and candidates that stay
_MIN_CHOOSING_TEXTS = 20
_MAX_HELD_OUT_OF_MANY = 2000
# Texts of the first fold from which on it decides which candidates go on.
_MIN_SCREENING_TEXTS = 100
# Tolerances of `solve` and of `solve_rare`: on folds, and for the weights of the classifier.
_CROSS_VALIDATED = {"tol": 2e-3, "rare_tol": 0.25, "max_epochs": 30}
_FINAL = {"tol": 5e-4, "rare_tol": 0.1, "max_epochs": 100}
# Regressions solved side by side in one pass over the features; 16 fit into registers.
_COLUMNS_PER_SOLVE = 16
_RARE_COLUMNS_PER_SOLVE = 32  # what a solve does once for all columns is more with rare classes
# Averaging the best candidates is more accurate than the best one, which is best partly by chance
# (chosen on training parts). A candidate's weight grows by a factor of e with each
# _WEIGHT_TEMPERATURE further correct predictions. Candidates below _MIN_WEIGHT times the largest
# weight do not change predictions and are dropped.
_MAX_AVERAGED = 8
_WEIGHT_TEMPERATURE = 3.0
_MIN_WEIGHT = 0.02
CHARACTER_SHARES = np.arange(0, 1.01, 0.125)  # weights of the character model that are tried
# Standard errors by which characters must lower the loss: below _FEWEST_TEXTS texts, and above.
_MIN_STANDARD_ERRORS = (2.0, 1.0)
_FEWEST_TEXTS = 80
# Nats per text by which characters must lower the log-loss: a second model doubles the time of a
# prediction.
_MIN_CHARACTER_GAIN = 0.002
# The weight of characters rises with the fraction of a text's words that are out of vocabulary:
# from this quantile of the out-of-fold fractions on, to one at UNKNOWN_RAMP above it.
UNKNOWN_QUANTILE = 0.9
UNKNOWN_RAMP = 0.5
MAX_SELECTION_TEXTS = 10_000  # texts used to choose candidates; the solution uses all of them


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
        return [1] if is_binary else list(range(self.n_classes))

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
    """The share of the n-grams of characters in the decision on a text.

    It rises from `least` where more than `usual` of the text's words are unknown.

    >>> CharacterWeight(0.25, 0.1).of(np.array([0.05, 0.2, 0.8]))
    array([0.25, 0.4 , 1.  ])
    """

    least: float = 0.0
    usual: float = 1.0

    def of(self, unknown: np.ndarray) -> np.ndarray:
        """The shares of texts by the part of their words that are unknown."""
        more = np.clip((unknown - self.usual) / UNKNOWN_RAMP, 0.0, 1.0)
        return self.least + (1.0 - self.least) * more


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
    left_out: tuple = ()  # rows, and their decision values by models not fitted on them
    characters: Characters | None = None


class OutOfFold(NamedTuple):
    """Predictions for training texts by models that were not fitted on them, and their classes."""

    log_proba: np.ndarray  # (n, n_classes)
    labels: np.ndarray  # (n,)


@dataclass(frozen=True)
class Candidates:
    """What is tried: every C with every scale of the vectors, under every weighting."""

    Cs: tuple[float, ...]
    dense_scales: tuple[float, ...]
    weightings: tuple[str, ...]


def with_characters(
    words: Linear, characters: Linear, rows: Labelled, unknown: np.ndarray | None
) -> Linear:
    """Both models in one: the share of the characters' is chosen by the loss on texts left out.

    It is 0 unless the loss falls by more than its standard error, or two with very few texts, and
    larger for a text with more OOV words than are usual: `unknown` is the part of them in each
    row, were it left out. None: the share is the same for all texts. Both models left out the same
    rows. Decision values are brought to one spread first.
    """
    which, values = words.left_out
    other = characters.left_out[1]
    factor = np.sqrt(np.mean(values**2) / max(np.mean(other**2), 1e-30))
    other = factor * other
    mixed = [values + share * (other - values) for share in CHARACTER_SHARES]
    labels, weights = rows.labels[which], rows.weights[which]
    losses = np.empty((len(mixed), labels.size))
    for at, decisions in enumerate(mixed):
        log_p = log_probabilities(decisions, fit_inverse_temperature(decisions, labels, weights))
        losses[at] = -weights * log_p[np.arange(labels.size), labels]
    at = int(np.argmin(losses.sum(axis=1)))
    gains = losses[0] - losses[at]
    proven = _MIN_STANDARD_ERRORS[int(gains.size >= _FEWEST_TEXTS)]
    is_small = gains.sum() < _MIN_CHARACTER_GAIN * weights.sum()
    if is_small or gains.sum() <= proven * np.sqrt(gains.size) * gains.std():
        at = 0
    share, mean = CharacterWeight(float(CHARACTER_SHARES[at])), mixed[at]
    if unknown is not None:
        share = share._replace(usual=float(np.quantile(unknown[which], UNKNOWN_QUANTILE)))
        mean = values + share.of(unknown[which])[:, None] * (other - values)
    report = words.report | _judged(mean, rows, which)
    report |= {"character_weight": share.least, "oov_rate_quantile": share.usual}
    combined = replace(words, report=report, left_out=(which, mean))
    if share == CharacterWeight():  # characters never count
        return combined
    coef, intercept = characters.sparse * np.float32(factor), factor * characters.intercept
    return replace(combined, characters=Characters(coef, intercept, share))


def _judged(values, rows, which):
    """Inverse temperature, accuracy and probabilities from decision values of held-out texts."""
    labels, weights = rows.labels[which], rows.weights[which]
    scales = inverse_temperatures(values, labels, weights)
    return {
        "accuracy": float((weights * right(values, labels)).sum() / weights.sum()),
        "n_tested": int(labels.size),
        "inverse_temperature": scales.tolist(),
        "out_of_fold": OutOfFold(log_probabilities(values, scales), labels),
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
    part, folds, chosen = selected(rows, rows.labels, groups, copies)
    tried = try_all(part, candidates, folds, n_threads)
    best, weights = tried.least_loss() if selection == "loss" else tried.fewest_errors()
    shares = tried.shares(best, weights)
    model = fit_mixture(rows, tried.table, shares, n_threads)

    mean = tried.values @ shares  # (n_tested, n_columns)
    leading = best[0] if selection == "loss" else int(np.argmax(shares * tried.spread))
    report = tried.table[leading] | _judged(mean, part, tried.tested)
    report |= {
        "selection": selection,
        "n_candidates": len(tried.table),
        "averaged": tried.averaged(shares),
        "candidates": tried.table,
    }
    return replace(model, report=report, left_out=(chosen[tried.tested], mean))


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
    learnable = np.flatnonzero(np.bincount(rows.labels)[rows.labels] >= 2)
    learnable_copies = None if copies is None else copies[learnable]
    chosen_from = rows.select(learnable)
    part, folds, _ = selected(chosen_from, chosen_from.labels, None, learnable_copies)
    tried = try_all(part, candidates, folds, n_threads)
    shares = tried.shares(*(tried.least_loss() if selection == "loss" else tried.fewest_errors()))
    is_averaged = shares > 0

    n_folds = int(fold_of_row.max()) + 1
    every_row = Folds(fold_of_row, n_folds, np.ones(fold_of_row.size, bool))
    cross_validation = CrossValidation(rows, candidates, every_row, n_threads, _FINAL)
    averaged = [candidate for candidate, is_kept in zip(tried.candidates, is_averaged) if is_kept]
    left_out = cross_validation.score(averaged)
    mean = left_out.values @ shares[is_averaged]  # (n, n_columns), fold by fold

    nothing = np.zeros((0, mean.shape[1]), np.float32)
    report = _judged(mean, rows, left_out.tested)
    return Linear(nothing, nothing, np.zeros(mean.shape[1]), report, (left_out.tested, mean))


def selected(
    rows: Labelled, kinds: np.ndarray, groups: Any, copies: Any
) -> tuple[Labelled, "Folds", np.ndarray]:
    """At most MAX_SELECTION_TEXTS rows, their folds (stratified by `kinds`), and their numbers."""
    rng = np.random.default_rng(FOLD_SEED)
    chosen = np.sort(rng.permutation(len(kinds))[:MAX_SELECTION_TEXTS])
    folds = folds_for(
        kinds[chosen],
        rng,
        None if groups is None else groups[chosen],
        None if copies is None else copies[chosen],
        max_held_out=_MAX_HELD_OUT_OF_MANY if rows.are_rare else _MAX_HELD_OUT,
    )
    return rows.select(chosen), folds, chosen


@dataclass(frozen=True)
class Folds:
    """Which fold holds out each row, and which rows are scored."""

    of: np.ndarray  # (n,), the number of folds for rows that are never held out
    n: int
    judged: np.ndarray  # (n,) of bool

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
    n_held_out = int(np.clip(-(-max_held_out * N_FOLDS // labels.size), 1, N_FOLDS))
    first_rows, text_of_row = distinct_texts(labels, copies)
    fold_of_text = np.empty(first_rows.size, np.int64)
    for c in np.unique(labels):
        texts = rng.permutation(np.flatnonzero(labels[first_rows] == c))
        fold_of_text[texts] = (np.arange(texts.size) + rng.integers(N_FOLDS)) % N_FOLDS
    fold_of_row = np.minimum(fold_of_text[text_of_row], n_held_out)
    return Folds(fold_of_row, n_held_out, fold_of_row < n_held_out)


def _split_groups(labels: np.ndarray, rng: np.random.Generator, groups: np.ndarray) -> Folds:
    """Folds of whole groups, as equal in their classes as groups allow."""
    n_groups = np.unique(groups).size
    if n_groups < 2:
        raise ValueError(
            "groups must be at least two. Got one instead. Leave groups out, or add other texts."
        )
    from sklearn.model_selection import StratifiedGroupKFold  # a second to import

    max_class_groups = max(np.unique(groups[labels == c]).size for c in np.unique(labels))
    n_folds = max(min(N_FOLDS, n_groups, max_class_groups), 2)
    seed = int(rng.integers(2**31))
    splits = StratifiedGroupKFold(n_folds, shuffle=True, random_state=seed)
    fold_of_row = np.zeros(labels.size, np.int64)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of classes smaller than the folds are many
        for f, (_, held_out) in enumerate(splits.split(labels, labels, groups)):
            fold_of_row[held_out] = f

    # A class that occurs in no other group cannot be learnt, so its rows are not scored.
    is_scored = np.zeros(labels.size, bool)
    for f in range(N_FOLDS):
        is_held_out = fold_of_row == f
        is_scored |= is_held_out & np.isin(labels, labels[~is_held_out])
    if not is_scored.any():
        raise ValueError(
            "groups must have texts of some class in two of them at least. Got every class in one "
            "group instead. Leave groups out, or add texts of other groups."
        )
    return Folds(fold_of_row, N_FOLDS, is_scored)


def distinct_texts(labels: np.ndarray, copies: Any) -> tuple[np.ndarray, np.ndarray]:
    """The first row of each text, in order, and the text of each row.

    Every row is its own text where a class would have fewer than two: folds could not hold one
    out and fit the other.
    """
    rows = np.arange(labels.size)
    if copies is None:
        return rows, rows
    first, text_of = np.unique(copies, return_index=True, return_inverse=True)[1:]
    n_texts = np.bincount(labels[first], minlength=labels.max() + 1)
    if (n_texts[np.unique(labels)] < 2).any():
        return rows, rows
    order = np.argsort(first)
    return first[order], np.argsort(order)[text_of]


@dataclass(frozen=True)
class Tried:
    """Decision values of all candidates on held-out rows."""

    candidates: list["Candidate"]
    table: list[dict]  # the options and the accuracy of each candidate
    values: np.ndarray  # (n_tested, n_columns, n_candidates)
    tested: np.ndarray  # (n_tested,) rows
    labels: np.ndarray  # (n_tested,)
    weights: np.ndarray  # (n_tested,)

    def losses(self) -> np.ndarray:
        """Loss of each candidate at its best inverse temperature, (n_candidates,)."""
        of_candidates = np.moveaxis(self.values, 2, 0)
        samples = [(values, self.labels, self.weights) for values in of_candidates]
        return np.array([log_loss(*s, fit_inverse_temperature(*s)) for s in samples])

    def fewest_errors(self) -> tuple[np.ndarray, np.ndarray]:
        """The most accurate candidates, and weights that grow with their accuracy, (n_best,)."""
        hits = np.array([row["accuracy"] for row in self.table]) * len(self.tested)
        weights = softmax(hits / _WEIGHT_TEMPERATURE)
        best = np.argsort(-weights, kind="stable")[:_MAX_AVERAGED]
        best = best[weights[best] > _MIN_WEIGHT * weights.max()]
        return best, weights[best]

    def least_loss(self) -> tuple[np.ndarray, np.ndarray]:
        """The candidates with the least loss, and equal weights, (n_best,).

        They are half of the candidates at most: of a few given ones the worse do not count.
        """
        n_best = min(_MAX_AVERAGED_BY_LOSS, (len(self.table) + 1) // 2)
        best = np.argsort(self.losses(), kind="stable")[:n_best]
        return best, np.ones(best.size)

    @property
    def spread(self) -> np.ndarray:
        """Root mean square of each candidate's decision values."""
        return np.sqrt(np.mean(np.square(self.values), axis=(0, 1))) + 1e-12

    def shares(self, best: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """Weights of the best candidates, divided by the spread of their decision values."""
        shares = np.zeros(len(self.table))
        shares[best] = weights
        shares /= shares.sum()
        return shares / self.spread * (shares @ self.spread)

    def averaged(self, shares: np.ndarray) -> list[dict]:
        """The options of the candidates that have a weight, with it."""
        keys = ("weighting", "C", "dense_scale")
        return [
            {**{key: row[key] for key in keys}, "share": float(share)}
            for row, share in zip(self.table, shares)
            if share > 0
        ]


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


def try_all(rows: Labelled, candidates: Candidates, folds: Folds, n_threads: int) -> Tried:
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
        chosen = cross_validation.choose(chosen or cross_validation.all_candidates(), n_best)
    return chosen


def sample_classes(rows: Labelled, folds: Folds, n_sampled: int) -> tuple[Labelled, Folds]:
    """The same texts with columns for some of the classes, and the texts of these to score.

    A class has the same regression as with all columns: its texts against all others. What is left
    out are the regressions of the other classes, which take most of the time.
    """
    rng = np.random.default_rng(FOLD_SEED)
    sampled = np.sort(rng.permutation(rows.n_classes)[:n_sampled])
    number_of_class = np.full(rows.n_classes, sampled.size)  # the others are one without a column
    number_of_class[sampled] = np.arange(sampled.size)
    labels = number_of_class[rows.labels]
    is_judged = folds.judged & (labels < sampled.size)
    return replace(rows, labels=labels, n_classes=sampled.size), replace(folds, judged=is_judged)


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
        precision: dict = _CROSS_VALIDATED,
    ):
        self.rows = rows
        self.precision = precision
        self.folds = folds
        self.n_threads = n_threads
        self.weightings = candidates.weightings
        # Without vectors their scale does not matter.
        dense_scales = candidates.dense_scales if rows.E.shape[1] else (1.0,)
        self.pairs = np.array(list(product(candidates.Cs, dense_scales)))  # (n_pairs, 2)
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
        self._solve(sorted({part for candidate in candidates for part in candidate.parts()}), [0])
        return self._best(candidates, n_best)

    def screen(self) -> list[Candidate]:
        """Candidates that are worth trying on all folds.

        A first fold of few texts could not tell them apart, and several labels per text choose
        their own candidates: then all of them.
        """
        all_pairs = range(len(self.pairs))
        is_multilabel = self.rows.labels.ndim == 2
        n_first = int(self.folds.judged[self.fold_rows[0]].sum())
        if is_multilabel or self.folds.n < 2 or n_first < _MIN_SCREENING_TEXTS:
            return self.all_candidates()

        leading, *others = self._solved_weightings()
        pair_candidates = self._candidates([leading], all_pairs)
        self._solve(pair_candidates, [0])
        n_kept_pairs = max(2, len(self.pairs) // 4)
        kept_pairs = [candidate.pair for candidate in self._best(pair_candidates, n_kept_pairs)]
        if others:
            self._solve(self._candidates(others, kept_pairs), [0])
        return self._best(self._candidates(self.weightings, kept_pairs), _MAX_AVERAGED)

    def score(self, candidates: list[Candidate]) -> Tried:
        """Decision values and accuracy of candidates on all folds."""
        all_folds = range(self.folds.n)
        parts = sorted({part for candidate in candidates for part in candidate.parts()})
        unsolved_folds = [f for f in all_folds if (parts[0], f) not in self._decisions]
        self._solve(parts, unsolved_folds)

        values = self._held_out_values(candidates, all_folds)
        evaluated_rows = self._evaluated_rows(all_folds)
        labels = self.rows.labels[evaluated_rows]
        weights = self.rows.weights[evaluated_rows]
        table = []
        for number, candidate in enumerate(candidates):
            C, dense_scale = self.pairs[candidate.pair].tolist()
            is_right = right(values[:, :, number], labels)  # (n_evaluated,)
            table.append(
                {
                    "weighting": candidate.weighting,
                    "C": C,
                    "dense_scale": dense_scale,
                    "accuracy": float((weights * is_right).sum() / weights.sum()),
                    "n_errors": int((~is_right).sum()),
                }
            )
        return Tried(candidates, table, values, evaluated_rows, labels, weights)

    def _candidates(self, weightings: Iterable[str], pairs: Iterable[int]) -> list[Candidate]:
        return list(starmap(Candidate, product(weightings, pairs)))

    def _solved_weightings(self) -> list[str]:
        """Single weightings of which the candidates are made, in the order of `WEIGHTINGS`."""
        solved = {part for weighting in self.weightings for part in _PARTS[weighting]}
        return [weighting for weighting in WEIGHTINGS if weighting in solved]

    def _best(self, candidates: list[Candidate], n: int) -> list[Candidate]:
        """The n candidates with the least loss on the first fold, in the order given."""
        rows = self._evaluated_rows([0])
        values = self._held_out_values(candidates, [0])
        tried = Tried(candidates, [], values, rows, self.rows.labels[rows], self.rows.weights[rows])
        best = np.argsort(tried.losses(), kind="stable")[:n]
        return [candidates[number] for number in np.sort(best)]

    def _evaluated_rows(self, folds: Sequence[int]) -> np.ndarray:
        """Rows of these folds that are scored, fold by fold, (n_evaluated,)."""
        rows = np.concatenate([self.fold_rows[f] for f in folds])
        return rows[self.folds.judged[rows]]

    def _held_out_values(self, candidates: list[Candidate], folds: Sequence[int]) -> np.ndarray:
        """Decision values of `_evaluated_rows`, (n_evaluated, n_columns, n_candidates)."""
        is_evaluated = self.folds.judged[np.concatenate([self.fold_rows[f] for f in folds])]
        values = []
        for candidate in candidates:
            parts = candidate.parts()
            by_fold = [sum(self._decisions[part, f] for part in parts) / len(parts) for f in folds]
            values.append(np.concatenate(by_fold)[is_evaluated])
        return np.stack(values, axis=2)

    def _solve(self, candidates: list[Candidate], folds: Sequence[int]) -> None:
        """Compute decision values of these folds by models of all other rows.

        Under tf-idf all folds, classes and pairs share their features and are solved side by side;
        naive Bayes' ratios differ by fold and class.
        """
        rows = self.rows
        n_columns = len(rows.columns)
        held_out_X = {}  # with the lengths that the rows would have as new texts
        for f in folds:
            X = rows.X[self.fold_rows[f]]
            factors = self.length_factors[self.fold_rows[f]].astype(np.float32)
            X.data *= np.repeat(factors, np.diff(X.indptr))
            held_out_X[f] = X
            for candidate in candidates:
                shape = (self.fold_rows[f].size, n_columns)
                self._decisions[candidate, f] = np.empty(shape)

        tasks = []
        for weighting in WEIGHTINGS[:2]:
            pairs = [candidate.pair for candidate in candidates if candidate.weighting == weighting]
            tasks += _tasks(weighting, list(product(folds, rows.columns, pairs)), rows.are_rare)

        def work(task: tuple[str, list[tuple]]) -> None:
            weighting, problems = task
            fold, classes, pair = np.array(problems).T  # (n_problems,) each
            training_rows = np.flatnonzero(self.folds.of != fold[0])
            Cs, dense_scales = np.ascontiguousarray(self.pairs[pair].T)
            solutions, ratios = _solved(
                rows,
                weighting,
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
                    weighted = X.data * ratios[X.indices]
                    X = sparse.csr_matrix((weighted, X.indices, X.indptr), X.shape)
                solved = np.flatnonzero(fold == f)
                decisions = solutions.take(solved).decisions(X, rows.E[self.fold_rows[f]])
                for problem, column in zip(solved, decisions.T):
                    values = self._decisions[Candidate(weighting, int(pair[problem])), f]
                    values[:, classes[problem] - rows.columns[0]] = column

        _in_threads(work, tasks, self.n_threads)


def _tasks(weighting: str, problems: list[tuple], are_rare: bool) -> list[tuple[str, list[tuple]]]:
    """Problems (fold, class, ...) that are solved together, each list with its weighting."""
    if weighting == "tf-idf":
        size = _RARE_COLUMNS_PER_SOLVE if are_rare else _COLUMNS_PER_SOLVE
        parts = [problems[i : i + size] for i in range(0, len(problems), size)]
    else:
        parts = [list(part) for _, part in groupby(problems, lambda problem: problem[:2])]
    return [(weighting, part) for part in parts]


def _in_threads(work: Callable, tasks: list, n_threads: int) -> list:
    with one_blas_thread(), ThreadPoolExecutor(n_threads) as pool:
        return list(pool.map(work, tasks))


class _PartialSum(NamedTuple):
    """What the solutions of one task add to the weighted sum of candidates."""

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

    # The weight of each problem: a single weighting, a class, C, and the scale of the vectors.
    weight_of: dict[tuple, float] = defaultdict(float)
    for row, candidate_shares in zip(table, shares):
        parts = _PARTS[row["weighting"]]
        for weighting, (column, share) in product(parts, zip(rows.columns, candidate_shares)):
            if share > 0:
                problem = weighting, column, row["C"], row["dense_scale"]
                weight_of[problem] += share / len(parts)
    tasks = []
    for weighting in WEIGHTINGS[:2]:
        problems = [
            (-1, *problem[1:], weight)
            for problem, weight in weight_of.items()
            if problem[0] == weighting
        ]
        tasks += _tasks(weighting, sorted(problems), rows.are_rare)

    all_rows = np.arange(len(rows.labels))

    def work(task: tuple[str, list[tuple]]) -> _PartialSum:
        weighting, problems = task
        _, classes, Cs, dense_scales, weights = (np.array(values) for values in zip(*problems))
        solutions, ratios = _solved(
            rows, weighting, classes, all_rows, Cs, dense_scales, precision=_FINAL
        )
        # Solutions of one class are added up, (n_problems, n_own_columns).
        own_columns = slice(classes[0] - rows.columns[0], classes[-1] + 1 - rows.columns[0])
        sums = np.zeros((classes.size, own_columns.stop - own_columns.start), np.float32)
        sums[np.arange(classes.size), classes - classes[0]] = weights
        sparse_weights = solutions.sparse_weights @ sums
        if ratios is not None:
            sparse_weights *= ratios[:, None]
        return _PartialSum(
            own_columns, sparse_weights, solutions.dense_weights @ sums, solutions.intercepts @ sums
        )

    sparse_weights = np.zeros((rows.X.shape[1], n_columns), np.float32)
    dense_weights = np.zeros((rows.E.shape[1], n_columns), np.float32)
    intercept = np.zeros(n_columns, np.float32)
    for part in _in_threads(work, tasks, n_threads):
        sparse_weights[:, part.columns] += part.sparse
        dense_weights[:, part.columns] += part.dense
        intercept[part.columns] += part.intercept
    return Linear(sparse_weights, dense_weights, intercept.astype(np.float64))


def growth(X: sparse.csr_matrix, folds: np.ndarray) -> np.ndarray:
    """What the features of a row must be multiplied by, were it a new text, (n,).

    The n-grams of a new text that no training text holds are unknown and do not count in its
    length. A row that is left out holds such n-grams too: those of its own fold alone.

    Examples
    --------
    >>> X = sparse.csr_matrix([[0.6, 0.8, 0.0], [0.0, 0.6, 0.8], [0.0, 1.0, 0.0]])
    >>> growth(X, np.array([0, 1, 1])).round(2)
    array([1.25, 1.67, 1.  ])
    """
    n_rows = np.bincount(X.indices, minlength=X.shape[1])
    row = np.repeat(np.arange(X.shape[0]), np.diff(X.indptr))  # (n_nonzero,)
    cells = folds[row] * X.shape[1] + X.indices
    n_own = np.bincount(cells)[cells]
    is_known = n_rows[X.indices] > n_own
    squares = np.bincount(row, is_known * X.data.astype(np.float64) ** 2, X.shape[0])
    return 1.0 / np.sqrt(np.where(squares > 0, squares, 1.0))


def _solved(
    rows: Labelled,
    weighting: str,
    classes: np.ndarray,
    training_rows: np.ndarray,
    Cs: np.ndarray,
    dense_scales: np.ndarray,
    *,
    precision: dict,
    **left_out: Any,
) -> tuple[Solutions, np.ndarray | None]:
    """Regressions, and naive Bayes' ratios that X was multiplied by; None under tf-idf."""
    X = rows.X
    ratios = None
    if weighting == "naive-bayes":
        labels = rows.labels[training_rows]
        is_positive = labels[:, classes[0]] if labels.ndim == 2 else labels == classes[0]
        ratios = np.abs(log_ratios(X[training_rows], is_positive))  # (n_features,)
        data = X.data * ratios[X.indices].astype(np.float32)

        # Rows keep their mean length, so that C means the same under either weighting.
        row_of = np.repeat(np.arange(len(rows.labels)), np.diff(X.indptr))
        squares = np.bincount(row_of, data.astype(np.float64) ** 2, len(rows.labels))  # (n,)
        factor = 1.0 / np.sqrt(max(squares[training_rows].mean(), 1e-30))
        data *= np.float32(factor)
        ratios = (ratios * factor).astype(np.float32)
        X = sparse.csr_matrix((data, X.indices, X.indptr), shape=X.shape)
    solve_columns = solve_rare if rows.are_rare else solve
    solutions = solve_columns(
        X,
        rows.E,
        rows.labels,
        Cs,
        dense_scales,
        positive=classes,
        text_weights=rows.weights,
        tol=precision["rare_tol" if rows.are_rare else "tol"],
        max_epochs=precision["max_epochs"],
        **left_out,
    )
    return solutions, ratios


def predicted(decisions: np.ndarray) -> np.ndarray:
    """The class of each row of decision values."""
    if decisions.shape[1] == 1:
        return (decisions[:, 0] > 0).astype(np.int64)
    return decisions.argmax(axis=1)


def right(decisions: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Which rows get their class, or all of their labels and no other, (n,)."""
    if labels.ndim == 2:
        return ((decisions > 0) == labels).all(axis=1)
    return predicted(decisions) == labels
