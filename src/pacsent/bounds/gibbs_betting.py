"""A PAC-Bayes bound for losses in [0, 1] that adapts to their variance, in closed form.

P is a distribution over finitely many hypotheses, fixed before the sample; l_t(h) is the loss of h
on example t, and g in (0, 1) a bet. The posterior and its bound are

    Q_g  proportional to  P(h) prod_t (1 - g l_t(h))
    R(Q) <= (1 - exp((E_Q sum_t ln(1 - g l_t) - KL(Q||P) - ln(K/delta)) / n)) / g      for every Q
          = (1 - exp((ln E_P prod_t (1 - g l_t) - ln(K/delta)) / n)) / g               for Q = Q_g

with probability 1 - delta for the K bets of a grid at once. Proof: E prod_t (1 - g l_t(h)) /
(1 - g R(h)) = 1 for each h, so its average under P exceeds K/delta with probability at most
delta/K (Markov). By the variational formula of Donsker and Varadhan, E_Q of the logarithm is at
most ln(K/delta) + KL(Q||P), and -ln(1 - g R) is convex in R (Jensen).

Theorem 1 of Nozawa and Sato replaces 1 - g l by exp(-lambda l / n), where g = 1 - exp(-lambda/n):
both are equal for losses of 0 or 1, and this one is smaller for all others.

References
----------
K. Nozawa and I. Sato, PAC-Bayes analysis of sentence representation, 2019: Theorem 1, after
Catoni (2007).
M. D. Donsker and S. R. S. Varadhan, Asymptotic evaluation of certain Markov process expectations
for large time I, Communications on Pure and Applied Mathematics 28, 1975.
"""

from typing import NamedTuple

import numpy as np
from scipy.special import logsumexp

# The grid of bets. The best one is about sqrt(2 (KL + ln(K/delta)) / (n variance)).
BETS = (0.05, 0.08, 0.12, 0.19, 0.28, 0.43, 0.65, 0.9)
# Relative; a float64 sum of a million logarithms is off by less.
_ROUNDING = 1e-12


class GibbsBound(NamedTuple):
    """The posterior of one bet, and what its bound is made of."""

    bound: float
    weights: np.ndarray  # (n_hypotheses,): Q
    kl: float  # KL(Q||P)
    empirical_risk: float  # E_Q of the mean loss


def log_products(losses: np.ndarray, bet: float) -> np.ndarray:
    """sum_t ln(1 - bet l_t(h)) of each hypothesis; `losses` are (n_examples, n_hypotheses)."""
    return np.log1p(-bet * losses).sum(axis=0)


def bound_of_bet(
    products: np.ndarray,
    mean_losses: np.ndarray,
    log_prior: np.ndarray,
    n: int,
    delta: float,
    bet: float,
) -> GibbsBound:
    """The posterior Q_g and its bound, from the `log_products` of its bet.

    `delta` is the part of the failure probability that this bet has: delta / K for a grid of K.

    >>> losses = np.tile([[0.2, 0.6], [0.4, 0.5]], (100, 1))
    >>> products, means = log_products(losses, 0.4), losses.mean(axis=0)
    >>> found = bound_of_bet(products, means, np.log([0.5, 0.5]), 200, 0.05, 0.4)
    >>> round(found.bound, 3), round(found.kl, 3)
    (0.342, 0.693)
    """
    evidence = float(logsumexp(log_prior + products))
    log_weights = log_prior + products - evidence
    weights = np.exp(log_weights)
    weights /= weights.sum()

    # 0 ln 0 = 0 for hypotheses whose weight underflows
    is_positive = weights > 0
    ratios = log_weights[is_positive] - log_prior[is_positive]
    kl = max(0.0, float(weights[is_positive] @ ratios))

    rounding = _ROUNDING * (1.0 + abs(evidence) + n)
    exponent = (evidence + np.log(delta) - rounding) / n
    bound = min(1.0, float(-np.expm1(exponent)) / bet)
    return GibbsBound(bound, weights, kl, float(weights @ mean_losses))


def best_of_bets(
    losses: np.ndarray, log_prior: np.ndarray, delta: float, bets: tuple[float, ...] = BETS
) -> tuple[float, np.ndarray, GibbsBound]:
    """Bet with the smallest bound of the grid, each at delta / K.

    Parameters
    ----------
    losses : array, shape (n_examples, n_hypotheses)
        In [0, 1].
    log_prior : array, shape (n_hypotheses,)
    delta : float
        Probability that the bound is false.
    bets : tuple of float
        The grid, fixed before the losses were seen.

    Returns
    -------
    bet : float
    products : array, shape (n_hypotheses,)
        Its `log_products`.
    bound : GibbsBound
    """
    n = len(losses)
    mean_losses = losses.mean(axis=0)  # (n_hypotheses,)
    delta_of_each = delta / len(bets)

    candidates = []
    for bet in bets:
        products = log_products(losses, bet)
        bound = bound_of_bet(products, mean_losses, log_prior, n, delta_of_each, bet)
        candidates.append((bet, products, bound))
    return min(candidates, key=lambda candidate: candidate[2].bound)
