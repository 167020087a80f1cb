"""Three meanings of "minimising the bound over Q" (Theorem 1 and the sentence before Theorem 2).

1. `minimise_at_fixed_lambda`: Theorem 1 at a fixed lambda. Its right-hand side grows with
   R_hat + KL/lambda and with nothing else that depends on Q, so both have the same minimiser: this
   is what the paper's Theorem 2 says, and what all methods of the paper do with a surrogate loss.
2. `minimise_kl_inverse`: the bound of Seeger and Maurer for each sentence, in which no lambda is
   chosen. With a prior that is made of the same words this is an objective, not a certificate.
3. `pacsent.paper.certify_words`, certificate A: the prior of each document is made of one part of
   its words, and the posterior that minimises the bound is searched between that prior and the
   method's posterior. This one holds.

Here the loss is the zero-one Gibbs risk itself on D_S, R_hat = (R+ + k R-)/(k + 1) by pi = 1/(k+1).
It is not convex: the search starts at the prior and finds a local minimum.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy import optimize, sparse

from pacsent.bounds import pac_bayes as bounds
from pacsent.paper.printed.kl import product_prior
from pacsent.sentences.solvers.gaussians import kl_gaussians
from pacsent.sentences.solvers.risks import gibbs_risk


class Problem(NamedTuple):
    """One sentence: its words, the two tables, the noise, and the prior that its words make."""

    tokens: np.ndarray
    A_hat: np.ndarray
    p_noise: np.ndarray
    prior_mean: np.ndarray
    prior_variance: float
    n_negatives: int

    @property
    def n(self) -> int:
        """N of the theorem: |S| positives and k |S| negative samples."""
        return (self.n_negatives + 1) * self.tokens.size


class Minimum(NamedTuple):
    """A posterior, and the terms of the bound there."""

    mu: np.ndarray
    var_Q: float
    risk: float
    kl: float
    value: float  # of what was minimised


def problem_of(
    tokens: ArrayLike,
    A_hat: np.ndarray,
    B_hat: np.ndarray,
    p_noise: np.ndarray,
    *,
    var_P: float = 1.0,
    n_negatives: int = 15,
) -> Problem:
    """The problem of a sentence, given as word ids.

    Parameters
    ----------
    tokens : array of int, shape (n_tokens,)
        Word ids of the sentence.
    A_hat, B_hat : array, shape (n_words, n_dims)
        Vectors by which words are scored, and prior means of the words.
    p_noise : array, shape (n_words,)
        Distribution of negative samples.
    var_P : float, default=1.0
        Variance of the prior of a word.
    n_negatives : int, default=15
        Negative samples per word.

    Returns
    -------
    Problem

    Examples
    --------
    >>> from pacsent.paper.printed import example
    >>> ex = example()
    >>> problem_of(ex.sentences[0], ex.I_hat, ex.O_hat, ex.p_noise)._fields
    ('tokens', 'A_hat', 'p_noise', 'prior_mean', 'prior_variance', 'n_negatives')
    """
    tokens = np.asarray(tokens)
    mean, variance = product_prior(B_hat[tokens], var_P)
    return Problem(tokens, A_hat, np.asarray(p_noise), mean, variance, n_negatives)


def terms(mu: ArrayLike, rho: float, problem: Problem) -> tuple[float, float, np.ndarray, float]:
    """Terms of the bound and their slopes: (R_hat, KL, gradient of R_hat in (mu, rho), dKL/drho).

    dKL/drho = d/2 (e^rho/var_P - 1)
    """
    mu = np.asarray(mu, dtype=float)
    k = problem.n_negatives
    count = np.bincount(problem.tokens, minlength=len(problem.A_hat))  # (n_words,)
    counts = sparse.csr_matrix(count[None])
    weights = (1.0 / (k + 1), k / (k + 1))
    gibbs = gibbs_risk(
        mu[None],
        np.exp([rho]),
        counts,
        problem.A_hat,
        problem.p_noise,
        weights=weights,
        gradients=True,
    )
    gradient = np.append(gibbs.grad_mu[0], gibbs.grad_rho[0])  # (n_dims + 1,)

    var_Q = np.exp(rho)
    kl = float(kl_gaussians(mu, var_Q, problem.prior_mean, problem.prior_variance))
    ratio = var_Q / problem.prior_variance
    kl_slope = 0.5 * mu.size * (ratio - 1.0)
    risk = float(gibbs.risk[0])
    return risk, kl, gradient, kl_slope


def _minimise(problem: Problem, combine: Callable) -> Minimum:
    """L-BFGS in (mu, ln var_Q) from the prior; combine(risk, kl) -> (value, slopes in both)."""
    scale = np.sqrt(problem.prior_variance)

    def mean_at(x: np.ndarray) -> np.ndarray:
        """The mean at x, whose last element is ln var_Q."""
        return problem.prior_mean + scale * x[:-1]

    def evaluate(x: np.ndarray) -> tuple[float, np.ndarray]:
        mu = mean_at(x)
        risk, kl, risk_gradient, kl_slope = terms(mu, x[-1], problem)
        value, by_risk, by_kl = combine(risk, kl)

        kl_gradient_mu = (mu - problem.prior_mean) / problem.prior_variance
        kl_gradient = np.append(kl_gradient_mu, kl_slope)
        gradient = by_risk * risk_gradient + by_kl * kl_gradient
        return value, np.append(scale * gradient[:-1], gradient[-1])

    n_dims = problem.prior_mean.size
    start = np.append(np.zeros(n_dims), np.log(problem.prior_variance))
    options = {"maxiter": 2000, "ftol": 1e-15, "gtol": 1e-10}
    optimum = optimize.minimize(evaluate, start, jac=True, method="L-BFGS-B", options=options)

    mu = mean_at(optimum.x)
    rho = optimum.x[-1]
    risk, kl, _, _ = terms(mu, rho, problem)
    return Minimum(mu, float(np.exp(rho)), risk, kl, float(optimum.fun))


def minimise_at_fixed_lambda(problem: Problem, lam: float) -> Minimum:
    """The Q that minimises R_hat(Q) + KL(Q || P_S)/lam.

    Parameters
    ----------
    problem : Problem
        The sentence and its prior.
    lam : float
        Lambda of Theorem 1.

    Returns
    -------
    Minimum

    References
    ----------
    Nozawa and Sato (2019), Theorems 1 and 2.

    Examples
    --------
    >>> from pacsent.paper.printed import example
    >>> ex = example()
    >>> tables = ex.I_hat, ex.O_hat, ex.p_noise
    >>> problem = problem_of([0, 1, 2, 1, 3] * 8, *tables, n_negatives=3)
    >>> minimise_at_fixed_lambda(problem, 160.0).mu.round(1)
    array([ 0.1,  0.1,  0.1, -0.1])
    """

    def combine(risk: float, kl: float) -> tuple[float, float, float]:
        return risk + kl / lam, 1.0, 1.0 / lam

    return _minimise(problem, combine)


def minimise_theorem_1(problem: Problem, lam: float, delta: float = 0.05) -> Minimum:
    """The Q that minimises the right-hand side of Theorem 1 itself, at this lambda.

        (1 - exp(-C R_hat - (KL + ln(1/delta))/N)) / (1 - exp(-C)),   C = lam/N

    Parameters
    ----------
    problem : Problem
        The sentence and its prior.
    lam : float
        Lambda of Theorem 1.
    delta : float, default=0.05
        Probability with which the bound may fail.

    Returns
    -------
    Minimum

    References
    ----------
    Nozawa and Sato (2019), Theorem 1.

    Examples
    --------
    >>> from pacsent.paper.printed import example
    >>> ex = example()
    >>> tables = ex.I_hat, ex.O_hat, ex.p_noise
    >>> problem = problem_of([0, 1, 2, 1, 3] * 8, *tables, n_negatives=3)
    >>> minimise_theorem_1(problem, 160.0).mu.round(1)  # as minimise_at_fixed_lambda
    array([ 0.1,  0.1,  0.1, -0.1])
    """
    C = lam / problem.n

    def combine(risk: float, kl: float) -> tuple[float, float, float]:
        exponent = C * risk + (kl - np.log(delta)) / problem.n
        normaliser = -np.expm1(-C)
        value = -np.expm1(-exponent) / normaliser

        # derivatives of the value, by the chain rule
        by_exponent = np.exp(-exponent) / normaliser
        by_risk = by_exponent * C
        by_kl = by_exponent / problem.n
        return value, by_risk, by_kl

    return _minimise(problem, combine)


def minimise_kl_inverse(problem: Problem, delta: float = 0.05) -> Minimum:
    """The Q that minimises kl^-1(R_hat, (KL + ln(2 sqrt N/delta))/N): an objective only.

    Parameters
    ----------
    problem : Problem
        The sentence and its prior.
    delta : float, default=0.05
        Probability with which the bound may fail.

    Returns
    -------
    Minimum

    References
    ----------
    Maurer (2004), A Note on the PAC Bayesian Theorem.

    Examples
    --------
    >>> from pacsent.paper.printed import example
    >>> ex = example()
    >>> tables = ex.I_hat, ex.O_hat, ex.p_noise
    >>> problem = problem_of([0, 1, 2, 1, 3] * 8, *tables, n_negatives=3)
    >>> minimum = minimise_kl_inverse(problem)
    >>> minimum.risk < minimum.value < 1.0
    True
    """
    n = problem.n

    def combine(risk: float, kl: float) -> tuple[float, float, float]:
        # implicit differentiation of kl(risk || p) = budget
        risk = min(max(risk, 1e-12), 1.0 - 1e-12)
        budget = (kl + np.log(2.0 * np.sqrt(n) / delta)) / n
        p = min(bounds.kl_inverse(risk, budget), 1.0 - 1e-12)
        ratio = risk / p
        rest_ratio = (1.0 - risk) / (1.0 - p)
        by_budget = 1.0 / (rest_ratio - ratio)
        by_risk = (np.log(rest_ratio) - np.log(ratio)) * by_budget
        return p, by_risk, by_budget / n

    return _minimise(problem, combine)
