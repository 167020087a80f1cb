"""Several labels per text: one linear problem per label on shared features, solved together.

Every label has its own calibrated probability, sigmoid(slope * f + shift), and its own threshold:
`mix_thresholds`.
"""

from typing import NamedTuple

import numpy as np
from scipy.special import expit, log_expit, logit

from pacsent.classify import fitting

_MAX_AVERAGED = 4  # candidates that are averaged for each label
_SHARED_THRESHOLDS = np.arange(2, 61) / 100  # thresholds for all labels that are tried
_MIXING_WEIGHTS = (0.0, 0.25, 0.5, 0.75, 1.0)  # weights of each label's own threshold
# A weak pull towards the line that was fitted, for labels of which hardly any text was held out.
_LINE_PENALTY = 1e-4


class LabelThresholds(NamedTuple):
    """Probability from which on each label is assigned, and the fewest labels of a prediction."""

    values: np.ndarray  # (n_labels,)
    min_labels: int  # 0 or 1

    def apply(self, proba: np.ndarray) -> np.ndarray:
        """Labels that reach their threshold, (n, n_labels) of bool.

        With min_labels = 1, a text of which none does gets the one that comes nearest.
        """
        assigned = proba >= self.values
        if not self.min_labels:
            return assigned

        rows = np.flatnonzero(~assigned.any(axis=1))
        ratios = proba[rows] / np.maximum(self.values, 1e-12)
        nearest = ratios.argmax(axis=1)
        assigned[rows, nearest] = True
        return assigned


class LabelSigmoids(NamedTuple):
    """A sigmoid for each label: the logit of its probability is slope * f + shift."""

    slopes: np.ndarray  # (n_labels,), at least 0
    shifts: np.ndarray  # (n_labels,)
    losses: np.ndarray  # (n_labels,)

    def logits(self, decisions: np.ndarray) -> np.ndarray:
        """Log-odds of each label, (n, n_labels)."""
        return decisions * self.slopes + self.shifts


def fit(
    rows: fitting.Labelled,
    candidates: fitting.Candidates,
    n_threads: int,
    groups: np.ndarray | None = None,
    copies: np.ndarray | None = None,
) -> tuple[fitting.Linear, LabelThresholds]:
    """The calibrated linear model, and the thresholds of the labels.

    The candidates with the least loss on texts left out are averaged, for each label its own.
    """
    # Cross-validation: decision values of the candidates, (n_tested, n_labels, n_candidates).
    strata = rarest_labels(rows.labels)
    part, folds, _ = fitting.select_for_folds(rows, strata, groups, copies)
    tested = fitting.cross_validate(part, candidates, folds, n_threads)
    has = tested.labels  # (n_tested, n_labels) of bool
    weights = tested.weights  # (n_tested,)

    # The weight of each candidate in the decision value of each label, (n_candidates, n_labels).
    losses = calibration_losses(tested)
    mixture_weights = weigh_candidates(losses, tested.values)

    # The mixture is calibrated and thresholds are chosen on the held-out texts.
    held_out_values = np.einsum("nkc,ck->nk", tested.values, mixture_weights)
    sigmoids = calibrate(held_out_values, has, weights)
    logits = sigmoids.logits(held_out_values)  # (n_tested, n_labels)
    proba = expit(logits)
    every_text_has_labels = bool(rows.labels.any(axis=1).all())
    thresholds = mix_thresholds(proba, has, weights, min_labels=int(every_text_has_labels))

    # The same mixture is solved on all rows; its sigmoids become a part of its weights.
    model = fitting.fit_mixture(rows, tested.table, mixture_weights, n_threads)
    slopes = sigmoids.slopes.astype(np.float32)

    is_label_right = thresholds.apply(proba) == has  # (n_tested, n_labels)
    is_exact = is_label_right.all(axis=1)  # (n_tested,)
    best = losses.sum(axis=1).argmin()
    report = dict(tested.table[best])
    report["selection"] = "folds"
    report["n_candidates"] = len(tested.table)
    report["n_tested"] = len(has)
    report["accuracy"] = float(np.average(is_exact, weights=weights))
    report["candidates"] = tested.table
    report["out_of_fold"] = fitting.OutOfFold(log_expit(logits), has)
    linear = fitting.Linear(
        sparse=model.sparse * slopes,
        dense=model.dense * slopes,
        intercept=sigmoids.logits(model.intercept),
        report=report,
    )
    return linear, thresholds


def calibration_losses(tested: fitting.CandidateValues) -> np.ndarray:
    """Loss of each candidate for each label after calibration, (n_candidates, n_labels)."""
    n_candidates = tested.values.shape[2]
    losses = []
    for candidate in range(n_candidates):
        decisions = tested.values[:, :, candidate]
        sigmoids = calibrate(decisions, tested.labels, tested.weights)
        losses.append(sigmoids.losses)
    return np.stack(losses)


def rarest_labels(has: np.ndarray) -> np.ndarray:
    """The rarest label of each text, (n,), which folds are stratified by; n_labels without any."""
    n_texts, n_labels = has.shape
    n_with_label = has.sum(axis=0)  # (n_labels,)
    n_of_own_labels = np.where(has, n_with_label, n_texts + 1)  # (n_texts, n_labels)
    rarest = n_of_own_labels.argmin(axis=1)
    has_any = has.any(axis=1)
    return np.where(has_any, rarest, n_labels)


def weigh_candidates(losses: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Equal weights for the candidates with the least losses of each label.

    They are divided by the spread of the candidates' decision values.

    Parameters
    ----------
    losses : array of shape (n_candidates, n_labels)
    values : array of shape (n, n_labels, n_candidates)
        Decision values.

    Returns
    -------
    array of shape (n_candidates, n_labels)
    """
    order = np.argsort(losses, axis=0)
    best = order[:_MAX_AVERAGED]  # (n_best, n_labels)
    weights = np.zeros_like(losses)
    np.put_along_axis(weights, best, 1.0, axis=0)

    mean_squares = np.mean(np.square(values), axis=0).T  # (n_candidates, n_labels)
    spread = np.sqrt(mean_squares) + 1e-12
    return weights / weights.sum(axis=0) / spread


def calibrate(decisions: np.ndarray, has: np.ndarray, weights: np.ndarray) -> LabelSigmoids:
    """Platt's sigmoid for each label, from decision values of held-out texts, (n, n_labels)."""
    fits = []
    for label_decisions, has_label in zip(decisions.T, has.T):
        fits.append(fit_sigmoid(label_decisions, has_label, weights))
    slopes, shifts, losses = np.array(fits).T
    return LabelSigmoids(slopes, shifts, losses)


def fit_sigmoid(
    decisions: np.ndarray, has: np.ndarray, weights: np.ndarray
) -> tuple[float, float, float]:
    """The likeliest sigmoid(slope * f + shift) with slope >= 0: (slope, shift, log-loss).

    Parameters
    ----------
    decisions, has, weights : arrays of shape (n,)
        Decision values of one label, whether each text has it, and the weights of the texts.

    Returns
    -------
    (float, float, float)
    """
    mean_square = float(np.mean(decisions**2))
    scale = max(float(np.sqrt(mean_square)), 1e-12)
    z = decisions / scale
    fitted_line = np.array([scale, 0.0])
    total_weight = weights.sum()

    def loss_and_gradient(line: np.ndarray) -> tuple[float, np.ndarray]:
        logits = line[0] * z + line[1]
        losses = np.logaddexp(0, logits) - has * logits  # (n,)
        loss = (weights * losses).sum() / total_weight
        residuals = weights * (expit(logits) - has) / total_weight
        gradient = np.array([residuals @ z, residuals.sum()])

        pull = line - fitted_line
        penalty = _LINE_PENALTY * pull @ pull
        return loss + penalty, gradient + 2 * _LINE_PENALTY * pull

    from scipy.optimize import minimize  # a quarter of a second to import

    result = minimize(
        loss_and_gradient,
        fitted_line.tolist(),
        jac=True,
        method="L-BFGS-B",
        bounds=[(0, None), (None, None)],
    )
    slope, shift = result.x
    return slope / scale, shift, result.fun


def format_labels(
    assigned: np.ndarray, classes: np.ndarray, target_type: str
) -> np.ndarray | list[tuple]:
    """Labels as `predict` returns them: tuples, or an indicator matrix where one was fitted."""
    if target_type == "indicator":
        return assigned.astype(np.int64)
    return [tuple(classes[row].tolist()) for row in assigned]


def mix_thresholds(
    proba: np.ndarray, has: np.ndarray, weights: np.ndarray, min_labels: int
) -> LabelThresholds:
    """Thresholds between each label's own and one for all, on the scale of log-odds.

    A threshold per label maximises macro F1, and assigns too many labels; the shared one maximises
    micro F1. The weight of a label's own is the one with the best mean of micro and macro F1 on
    these texts, which were left out.
    """
    shared = _best_shared_threshold(proba, has, weights, min_labels)
    shared_logit = logit(shared)

    own = []
    for label_proba, has_label in zip(proba.T, has.T):
        own.append(best_threshold(label_proba, has_label, weights))
    own_logits = logit(np.clip(own, 1e-9, 1 - 1e-9))  # (n_labels,)

    def sum_of_f1(thresholds: LabelThresholds) -> float:
        return sum(_micro_and_macro_f1(thresholds, proba, has, weights))

    mixtures = []
    for own_weight in _MIXING_WEIGHTS:
        mixed_logits = own_weight * own_logits + (1 - own_weight) * shared_logit
        values = expit(mixed_logits)
        mixtures.append(LabelThresholds(values, min_labels))
    return max(mixtures, key=sum_of_f1)


def _best_shared_threshold(
    proba: np.ndarray, has: np.ndarray, weights: np.ndarray, min_labels: int
) -> float:
    """The threshold for all labels with the best micro F1; the median of equally good ones."""
    n_labels = proba.shape[1]
    micro = np.empty(_SHARED_THRESHOLDS.size)
    for number, value in enumerate(_SHARED_THRESHOLDS):
        values = np.full(n_labels, value)
        thresholds = LabelThresholds(values, min_labels)
        micro[number], _ = _micro_and_macro_f1(thresholds, proba, has, weights)
    is_best = micro >= micro.max() - 1e-12
    return float(np.median(_SHARED_THRESHOLDS[is_best]))


def _micro_and_macro_f1(
    thresholds: LabelThresholds, proba: np.ndarray, has: np.ndarray, weights: np.ndarray
) -> tuple[float, float]:
    """F1 of all assigned labels together, and the mean of the labels' own."""
    assigned = thresholds.apply(proba)
    n_right = weights @ (has & assigned)  # (n_labels,), weighted
    n_either = weights @ has + weights @ assigned
    micro = 2 * n_right.sum() / n_either.sum()
    f1_of_labels = 2 * n_right / np.maximum(n_either, 1e-12)
    return micro, f1_of_labels.mean()


def best_threshold(proba: np.ndarray, has: np.ndarray, weights: np.ndarray) -> float:
    """The threshold on calibrated probabilities with the best F1, between two of them.

    A text counts half by whether it has the label and half by its probability: few texts have a
    rare label.
    """
    order = np.argsort(-proba, kind="stable")
    sorted_proba = proba[order]
    sorted_weights = weights[order]
    expected = (has[order] + sorted_proba) / 2

    # F1 if the label is assigned to the first texts of this order, one more in each place.
    expected_weights = sorted_weights * expected
    n_right = np.cumsum(expected_weights)
    n_assigned = np.cumsum(sorted_weights)
    f1 = 2 * n_right / (n_assigned + expected_weights.sum())

    # A threshold cannot separate ties.
    equals_next = sorted_proba[:-1] == sorted_proba[1:]
    f1[:-1][equals_next] = -1.0

    last = int(np.argmax(f1))
    below = 0.0
    if last + 1 < proba.size:
        below = sorted_proba[last + 1]
    return float((sorted_proba[last] + below) / 2)
