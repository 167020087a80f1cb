"""Fit one linear model: by evidence with few labels, by cross-validation with many.

With few labels, folds are too small to choose the scales of n-grams and vectors. A linear model
with a Gaussian prior on its weights is a Gaussian process over the texts, whose evidence uses all
labels at once; its predictions are averaged over the scales (`solvers.gaussian_process`).
With many labels the process is too slow and cross-validation is reliable: candidates are logistic
regressions (`solvers.sparse_regressions`), and the best are averaged. In between both are
fitted and averaged.
"""

import warnings
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from itertools import groupby, product
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from scipy.special import softmax

from pacsent.certify.scores import log_loss, log_probabilities
from pacsent.classify.solvers.gaussian_process import averaged, scales
from pacsent.classify.solvers.sparse_regressions import log_ratios, solve
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

# The Gaussian process takes columns * texts^3 operations per pair of scales. Up to this product it
# is used: 368 texts of two classes. On training parts it adds accuracy to the folds with 300 texts
# of MR and none with 600 of SUBJ, MR and IMDb, where it takes three quarters of the time.
MAX_PROCESS_COST = 5e7
# With fewer texts, folds of a handful of texts cannot choose candidates: the process decides alone.
MIN_FOLD_TEXTS = 80
_MAX_HELD_OUT = 4000  # texts held out in all; with more texts, fewer folds are used
# If fewer than this fraction of the rows are different texts, leaving out one row at a time would
# mostly test texts that are still fitted.
MIN_DISTINCT_FRACTION = 0.9
# Texts of the first fold from which on it decides which candidates go on.
_MIN_SCREENING_TEXTS = 100
# Regressions solved side by side in one pass over the features; 16 fit into registers.
_COLUMNS_PER_SOLVE = 16
# Columns of features that more than this fraction of the rows contain are multiplied as dense ones,
# at most _MAX_DENSE_COLUMNS at a time.
_DENSE_COLUMN_FRACTION = 1 / 16
_MAX_DENSE_COLUMNS = 4096
# Averaging the best candidates is more accurate than the best one, which is best partly by chance
# (chosen on training parts). A candidate's weight grows by a factor of e with each
# _WEIGHT_TEMPERATURE further correct predictions. Candidates below _MIN_WEIGHT times the largest
# weight do not change predictions and are dropped.
_MAX_AVERAGED = 8
_WEIGHT_TEMPERATURE = 3.0
_MIN_WEIGHT = 0.02
CHARACTER_SHARES = np.arange(0, 1.01, 0.125)  # weights of the character model that are tried
# Standard errors by which characters must lower the loss: below MIN_FOLD_TEXTS texts, and above.
_MIN_STANDARD_ERRORS = (2.0, 1.0)
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

    @property
    def columns(self) -> list[int]:
        """Classes that have a decision value: the second of two, or all."""
        two = self.n_classes == 2 and self.labels.ndim == 1
        return [1] if two else list(range(self.n_classes))


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


def is_few(n_texts: int, n_classes: int) -> bool:
    """Whether there are few enough labels for the Gaussian process."""
    return (1 if n_classes == 2 else n_classes) * float(n_texts) ** 3 <= MAX_PROCESS_COST


def fit_by_evidence(rows: Labelled, n_threads: int = 1, folds: "Folds | None" = None) -> Linear:
    """A Gaussian process for each column, averaged over its scales.

    Texts are held out one by one, or by `folds`.
    """
    grid = scales(len(rows.labels), len(rows.columns), rows.E.shape[1] > 0)
    # threads inside matrix products are slow where cores are shared with other work
    with one_blas_thread():
        process = averaged(
            products(rows.X).astype(np.float64),
            (rows.E @ rows.E.T).astype(np.float64),
            rows.labels,
            grid,
            n_classes=rows.n_classes,
            weights=rows.weights,
            n_threads=n_threads,
            folds=None if folds is None else (folds.of, folds.judged),
            growth=growth(rows.X, None if folds is None else folds.of),
        )
    judged = np.arange(len(rows.labels)) if folds is None else np.flatnonzero(folds.judged)
    report = _judged(process.left_out[judged], rows, judged)
    report |= {
        "selection": "evidence",
        "variances": process.best,
        "n_candidates": sum(map(len, grid)),
    }
    return Linear(
        (rows.X.T @ process.sparse).astype(np.float32),
        (rows.E.T @ process.dense).astype(np.float32),
        process.intercept,
        report,
        (judged, process.left_out[judged]),
    )


def products(X: sparse.csr_matrix) -> np.ndarray:
    """X @ X.T as a dense matrix; columns that many rows hold are multiplied as dense ones."""
    often = np.bincount(X.indices, minlength=X.shape[1]) > _DENSE_COLUMN_FRACTION * X.shape[0]
    by_column = X.tocsc()
    rare = by_column[:, ~often].tocsr()
    gram = (rare @ rare.T).toarray()
    columns = np.flatnonzero(often)
    with one_blas_thread():
        for start in range(0, columns.size, _MAX_DENSE_COLUMNS):
            dense = by_column[:, columns[start : start + _MAX_DENSE_COLUMNS]].toarray()
            gram += dense @ dense.T
    return gram


def fit_by_both(
    rows: Labelled, candidates: Candidates, n_threads: int, folds: "Folds", grouped: bool
) -> Linear:
    """The mean of the Gaussian process and of the candidates with the least loss on folds."""
    process = fit_by_evidence(rows, n_threads, folds if grouped else None)
    left_out = np.zeros((len(rows.labels), len(rows.columns)))
    left_out[process.left_out[0]] = process.left_out[1]
    tried = try_all(rows, candidates, folds, n_threads)
    shares = tried.shares(np.argsort(tried.losses(), kind="stable")[:_MAX_AVERAGED], 1.0)
    solved = fit_mixture(rows, tried.table, shares, n_threads)
    of_folds = tried.values @ shares
    of_process = left_out[tried.tested]
    factor = np.sqrt(np.mean(of_process**2) / max(np.mean(of_folds**2), 1e-30))
    mean = (of_process + factor * of_folds) / 2
    report = process.report | _judged(mean, rows, tried.tested)
    report |= {
        "selection": "evidence and folds",
        "n_candidates": process.report["n_candidates"] + len(tried.table),
        "averaged": tried.averaged(shares),
    }
    return Linear(
        (process.sparse + np.float32(factor) * solved.sparse) / 2,
        (process.dense + np.float32(factor) * solved.dense) / 2,
        (process.intercept + factor * solved.intercept) / 2,
        report,
        (tried.tested, mean),
    )


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
    proven = _MIN_STANDARD_ERRORS[int(gains.size >= MIN_FOLD_TEXTS)]
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
    n_threads: int,
    groups: np.ndarray | None = None,
    copies: np.ndarray | None = None,
) -> Linear:
    """The mean of the candidates with the fewest errors on held-out folds, solved on all rows."""
    part, folds, chosen = selected(rows, rows.labels, groups, copies)
    tried = try_all(part, candidates, folds, n_threads)
    hits = np.array([row["accuracy"] for row in tried.table]) * len(tried.tested)
    weights = softmax(hits / _WEIGHT_TEMPERATURE)
    best = np.argsort(-weights, kind="stable")[:_MAX_AVERAGED]
    best = best[weights[best] > _MIN_WEIGHT * weights.max()]
    shares = tried.shares(best, weights[best])
    model = fit_mixture(rows, tried.table, shares, n_threads)
    mean = tried.values @ shares
    report = tried.table[int(np.argmax(shares * tried.spread))] | _judged(mean, part, tried.tested)
    report |= {
        "selection": "folds",
        "n_candidates": len(tried.table),
        "averaged": tried.averaged(shares),
        "candidates": tried.table,
    }
    return replace(model, report=report, left_out=(chosen[tried.tested], mean))


def selected(
    rows: Labelled, kinds: np.ndarray, groups: Any, copies: Any
) -> tuple[Labelled, "Folds", np.ndarray]:
    """At most MAX_SELECTION_TEXTS rows, their folds (stratified by `kinds`), and their numbers."""
    rng = np.random.default_rng(FOLD_SEED)
    chosen = np.sort(rng.permutation(len(kinds))[:MAX_SELECTION_TEXTS])
    of_rows = {name: getattr(rows, name)[chosen] for name in ("X", "E", "labels", "weights")}
    chosen_groups = [None if each is None else each[chosen] for each in (groups, copies)]
    return replace(rows, **of_rows), folds_for(kinds[chosen], rng, *chosen_groups), chosen


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
) -> Folds:
    """Five folds, fewer of them held out where there are many texts; groups stay together.

    `copies` has the same number for rows of the same text, which stay together too: a text that
    is also fitted is no held-out text.
    """
    if groups is None:
        n_used = int(np.clip(-(-_MAX_HELD_OUT * N_FOLDS // labels.size), 1, N_FOLDS))
        first, text_of = distinct_texts(labels, copies)
        of = np.empty(first.size, np.int64)
        for c in np.unique(labels):
            rows = rng.permutation(np.flatnonzero(labels[first] == c))
            of[rows] = (np.arange(rows.size) + rng.integers(N_FOLDS)) % N_FOLDS
        of = np.minimum(of[text_of], n_used)
        return Folds(of, n_used, of < n_used)

    n_groups = np.unique(groups).size
    if n_groups < 2:
        raise ValueError(
            "groups must be at least two. Got one instead. Leave groups out, or add other texts."
        )
    from sklearn.model_selection import StratifiedGroupKFold  # a second to import

    n_class_groups = max(np.unique(groups[labels == c]).size for c in np.unique(labels))
    n_folds, state = min(N_FOLDS, n_groups, n_class_groups), int(rng.integers(2**31))
    splits = StratifiedGroupKFold(max(n_folds, 2), shuffle=True, random_state=state)
    of = np.zeros(labels.size, np.int64)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of classes smaller than the folds are many
        for f, (_, tested) in enumerate(splits.split(labels, labels, groups)):
            of[tested] = f
    # a class that occurs in no other group cannot be learnt, so its rows are not scored
    judged = np.any([np.isin(labels, labels[of != f]) & (of == f) for f in range(N_FOLDS)], axis=0)
    if not judged.any():
        raise ValueError(
            "groups must have texts of some class in two of them at least. Got every class in one "
            "group instead. Leave groups out, or add texts of other groups."
        )
    return Folds(of, N_FOLDS, judged)


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

    @property
    def spread(self) -> np.ndarray:
        """Root mean square of each candidate's decision values."""
        return np.sqrt(np.mean(np.square(self.values), axis=(0, 1))) + 1e-12

    def shares(self, best: np.ndarray, weights: np.ndarray | float) -> np.ndarray:
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


def try_all(rows: Labelled, candidates: Candidates, folds: Folds, n_threads: int) -> Tried:
    """Cross-validation of the candidates.

    Most of the time of a fit is spent here, and most candidates are far from the best. So all pairs
    of scales are tried on the first fold alone, under one weighting; only the best quarter of them
    is tried under the others, and only the best candidates of these are tried on the other folds.
    A first fold of few texts could not tell them apart, and several labels per text choose their
    own candidates: then all candidates are tried on all folds.
    """
    dense_scales = candidates.dense_scales if rows.E.shape[1] else (1.0,)
    pairs = np.array(list(product(candidates.Cs, dense_scales)))
    held_out, lengths = folds.held_out(), growth(rows.X, folds.of)
    names = list(product(candidates.weightings, range(len(pairs))))
    first = held_out[0][folds.judged[held_out[0]]]
    screened: dict = {}  # decision values in the first fold
    if rows.labels.ndim == 1 and len(held_out) > 1 and first.size >= _MIN_SCREENING_TEXTS:
        judged = folds.judged[held_out[0]]

        def best(names, n):
            values = np.stack([_candidate_values(screened, *name)[judged] for name in names], 2)
            tried = Tried([], values, first, rows.labels[first], rows.weights[first])
            return [names[at] for at in np.sort(np.argsort(tried.losses(), kind="stable")[:n])]

        tried_parts = {part for w in candidates.weightings for part in _PARTS[w]}
        leading, *others = [part for part in WEIGHTINGS if part in tried_parts]
        problems = list(product([leading], range(len(pairs))))
        screened |= _held_out_values(rows, problems, pairs, held_out[:1], lengths, n_threads)
        kept_pairs = [at for _, at in best(problems, max(2, len(pairs) // 4))]
        if others:
            problems = list(product(others, kept_pairs))
            screened |= _held_out_values(rows, problems, pairs, held_out[:1], lengths, n_threads)
        names = best(list(product(candidates.weightings, kept_pairs)), _MAX_AVERAGED)
    solved = {(part, at) for weighting, at in names for part in _PARTS[weighting]}
    remaining = held_out[1:] if screened else held_out
    values = _held_out_values(rows, sorted(solved), pairs, remaining, lengths, n_threads)
    if screened:
        values = {name: np.concatenate([screened[name], values[name]]) for name in values}
    tested = np.concatenate(held_out)
    judged, tested = folds.judged[tested], tested[folds.judged[tested]]
    stacked = np.stack([_candidate_values(values, *name)[judged] for name in names], axis=2)
    labels, weights = rows.labels[tested], rows.weights[tested]
    table = []
    for at, (weighting, pair) in enumerate(names):
        C, dense_scale = pairs[pair].tolist()
        hits = right(stacked[:, :, at], labels)
        measured = {
            "accuracy": float((weights * hits).sum() / weights.sum()),
            "n_errors": int((~hits).sum()),
        }
        table.append({"weighting": weighting, "C": C, "dense_scale": dense_scale, **measured})
    return Tried(table, stacked, tested, labels, weights)


def _candidate_values(values, weighting, pair):
    """Decision values of a candidate; those of "both" are the mean of the two others."""
    parts = [values[part, pair] for part in _PARTS[weighting]]
    return sum(parts) / len(parts)


def _held_out_values(rows, problems, pairs, held_out, lengths, n_threads):
    """Decision values of the rows in each of `held_out` by models of all other rows.

    For each problem (weighting, number of the pair of scales), (n_held_out, n_columns). Under
    tf-idf all folds, classes and pairs share their features and are solved side by side; naive
    Bayes' ratios differ by fold and class.
    """
    fold_of = np.full(len(rows.labels), len(held_out))
    new_X, places, start = [], [], 0
    for f, tested in enumerate(held_out):
        fold_of[tested] = f
        X = rows.X[tested]
        X.data *= np.repeat(lengths[tested].astype(np.float32), np.diff(X.indptr))
        new_X.append(X)
        places.append(slice(start, start + tested.size))
        start += tested.size
    values = {problem: np.empty((start, len(rows.columns))) for problem in problems}
    tasks = []
    for weighting in WEIGHTINGS[:2]:
        chosen = [pair for name, pair in values if name == weighting]
        tasks += _tasks(weighting, list(product(range(len(held_out)), rows.columns, chosen)))

    def work(task):
        weighting, problems = task
        fold, classes, at = np.array(problems).T
        learnt_from = np.flatnonzero(fold_of != fold[0])
        how = {"left_out": fold, "folds": fold_of, "tol": 2e-3, "max_epochs": 30}
        Cs, scales = np.ascontiguousarray(pairs[at].T)
        solution, r = _solved(rows, weighting, classes, learnt_from, Cs, scales, **how)
        for f in np.unique(fold):
            mine, X = np.flatnonzero(fold == f), new_X[f]
            if r is not None:
                X = sparse.csr_matrix((X.data * r[X.indices], X.indices, X.indptr), X.shape)
            decisions = solution.take(mine).decisions(X, rows.E[held_out[f]])
            for i, column in zip(mine, decisions.T):
                values[weighting, at[i]][places[f], classes[i] - rows.columns[0]] = column

    _in_threads(work, tasks, n_threads)
    return values


def _tasks(weighting, problems):
    """Problems (fold, class, ...) that are solved together, each list with its weighting."""
    if weighting == "tf-idf":
        size = _COLUMNS_PER_SOLVE
        parts = [problems[i : i + size] for i in range(0, len(problems), size)]
    else:
        parts = [list(part) for _, part in groupby(problems, lambda problem: problem[:2])]
    return [(weighting, part) for part in parts]


def _in_threads(work, tasks, n_threads):
    with one_blas_thread(), ThreadPoolExecutor(n_threads) as pool:
        return list(pool.map(work, tasks))


def fit_mixture(
    rows: Labelled, table: list[dict], shares: np.ndarray, n_threads: int = 1
) -> Linear:
    """The weighted sum of candidates, each solved on all rows to a tight tolerance.

    `shares` is (n_candidates,), or (n_candidates, n_columns) where columns have their own.
    """
    n_columns = len(rows.columns)
    if shares.ndim == 1:
        shares = np.repeat(shares[:, None], n_columns, axis=1)
    share_of: dict[tuple, float] = defaultdict(float)
    for row, of_columns in zip(table, shares):
        parts = _PARTS[row["weighting"]]
        for part, (column, share) in product(parts, zip(rows.columns, of_columns)):
            if share > 0:
                share_of[part, column, row["C"], row["dense_scale"]] += share / len(parts)
    tasks = []
    for weighting in WEIGHTINGS[:2]:
        problems = [(-1, *key[1:], share) for key, share in share_of.items() if key[0] == weighting]
        tasks += _tasks(weighting, sorted(problems))

    def work(task):
        weighting, problems = task
        _, classes, Cs, scales, share = (np.array(values) for values in zip(*problems))
        learnt_from = np.arange(len(rows.labels))
        how = {"tol": 5e-4, "max_epochs": 100}
        solution, r = _solved(rows, weighting, classes, learnt_from, Cs, scales, **how)
        sums = np.zeros((classes.size, classes[-1] + 1 - classes[0]), np.float32)
        sums[np.arange(classes.size), classes - classes[0]] = share
        w = solution.sparse_weights @ sums
        if r is not None:
            w *= r[:, None]
        parts = w, solution.dense_weights @ sums, solution.intercepts @ sums
        return classes[0] - rows.columns[0], *parts

    shapes = (rows.X.shape[1], n_columns), (rows.E.shape[1], n_columns), n_columns
    totals = [np.zeros(shape, np.float32) for shape in shapes]
    for first, *parts in _in_threads(work, tasks, n_threads):
        for total, part in zip(totals, parts):
            total[..., first : first + part.shape[-1]] += part
    return Linear(totals[0], totals[1], totals[2].astype(np.float64))


def growth(X: sparse.csr_matrix, folds: np.ndarray | None) -> np.ndarray:
    """What the features of a row must be multiplied by, were it a new text, (n,).

    The n-grams of a new text that no training text holds are unknown and do not count in its
    length. A row that is left out holds such n-grams too: those of its own fold alone. Without
    folds, rows are left out one by one.

    Examples
    --------
    >>> X = sparse.csr_matrix([[0.6, 0.8, 0.0], [0.0, 0.6, 0.8], [0.0, 1.0, 0.0]])
    >>> growth(X, np.array([0, 1, 1])).round(2), growth(X, None).round(2)
    (array([1.25, 1.67, 1.  ]), array([1.25, 1.67, 1.  ]))
    """
    n_rows = np.bincount(X.indices, minlength=X.shape[1])
    row, n_own = np.repeat(np.arange(X.shape[0]), np.diff(X.indptr)), np.ones(1)
    if folds is not None:
        cells = folds[row] * X.shape[1] + X.indices
        n_own = np.bincount(cells)[cells]
    is_known = n_rows[X.indices] > n_own
    squares = np.bincount(row, is_known * X.data.astype(np.float64) ** 2, X.shape[0])
    return 1.0 / np.sqrt(np.where(squares > 0, squares, 1.0))


def _solved(rows, weighting, classes, learnt_from, Cs, dense_scales, **how):
    """Regressions, and naive Bayes' ratios that X was multiplied by; None under tf-idf."""
    X, r = rows.X, None
    if weighting == "naive-bayes":
        labels = rows.labels[learnt_from]
        positive = labels[:, classes[0]] if labels.ndim == 2 else labels == classes[0]
        r = np.abs(log_ratios(X[learnt_from], positive))
        data = X.data * r[X.indices].astype(np.float32)
        # rows keep their mean length, so that C means the same under either weighting
        of_row = np.repeat(np.arange(len(rows.labels)), np.diff(X.indptr))
        squares = np.bincount(of_row, data.astype(np.float64) ** 2, len(rows.labels))
        factor = 1.0 / np.sqrt(max(squares[learnt_from].mean(), 1e-30))
        data *= np.float32(factor)
        r = (r * factor).astype(np.float32)
        X = sparse.csr_matrix((data, X.indices, X.indptr), shape=X.shape)
    how |= {"positive": classes, "text_weights": rows.weights}
    return solve(X, rows.E, rows.labels, Cs, dense_scales, **how), r


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
