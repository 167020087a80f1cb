"""The paper's optimiser of PB-neg: 40 epochs of stochastic gradients, sentence by sentence.

Every step draws h once by the reparameterisation trick and k negative samples per word, all anew.
The learning rate falls linearly by the epoch, and a sentence is a mini-batch, so each sentence has
40 steps in all. The start is uniform on (-0.5/300, 0.5/300) for mu and, read as ln var_Q, for the
variance: read as var_Q it would be negative half of the time.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit

from pacsent.text.encoded import Encoded

# Where the product of the factors 1 - x (1 - e/E) over many epochs E begins to exceed 1: the root
# of (x - 1) ln(x - 1) = x, x = learning_rate n/(var_P lam). With 0.025 this is n = 184 lam.
_DIVERGES_AT = 4.591

_MAX_ROWS = 1 << 15  # word vectors gathered at once, which bounds the memory


def learning_rates(n_epochs: int = 40, learning_rate: float = 0.025) -> np.ndarray:
    """The rate of each epoch: learning_rate (1 - e/n_epochs), e = 0 ... n_epochs - 1.

    Parameters
    ----------
    n_epochs : int, default=40
    learning_rate : float, default=0.025
        Rate of the first epoch.

    Returns
    -------
    array, shape (n_epochs,)

    Examples
    --------
    >>> learning_rates(4, 1.0)
    array([1.  , 0.75, 0.5 , 0.25])
    """
    return learning_rate * (1.0 - np.arange(n_epochs) / n_epochs)


def diverges(
    n_tokens: ArrayLike, *, lam: float, var_P: float = 1.0, learning_rate: float = 0.025
) -> np.ndarray:
    """Sentences that the paper's own update drives away from their prior: n >= 184 lam.

    Each step multiplies mu - m by 1 - x (1 - e/n_epochs), x = learning_rate n/(var_P lam). Over
    many epochs the product falls to 0 if x < 4.591 and grows without limit if x is larger. That of
    exactly forty exceeds 1 at 182 and 183 lam as well, and is 0 where a factor is: at 200 and
    320 lam, for example.

    Parameters
    ----------
    n_tokens : int or array of int
        Lengths of sentences.
    lam : float
        Inverse temperature.
    var_P : float, default=1.0
        Variance of the prior of a word.
    learning_rate : float, default=0.025
        Rate of the first epoch.

    Returns
    -------
    array of bool, of the shape of `n_tokens`

    Examples
    --------
    >>> diverges([10, 183, 184], lam=1.0)
    array([False, False,  True])
    """
    n = np.asarray(n_tokens, dtype=float)
    x = learning_rate * n / (var_P * lam)
    return x >= _DIVERGES_AT


class Trained(NamedTuple):
    """Posteriors after the last epoch."""

    mu: np.ndarray  # (n_sentences, n_dims)
    rho: np.ndarray  # (n_sentences,), ln var_Q


def train(
    encoded: Encoded,
    A_hat: np.ndarray,
    B_hat: np.ndarray,
    p_noise: np.ndarray,
    *,
    lam: float = 1.0,
    var_P: float = 1.0,
    kl: str = "printed",
    literal: bool = False,
    n_negatives: int = 15,
    n_epochs: int = 40,
    learning_rate: float = 0.025,
    random_state: Any = None,
) -> Trained:
    """Posteriors of all sentences by the paper's schedule.

    Parameters
    ----------
    encoded : Encoded
        Sentences; one without a word keeps its prior mean 0 and gets nan.
    A_hat, B_hat : array, shape (n_words, n_dims)
    p_noise : array, shape (n_words,)
    kl : {"printed", "exact"}
        The penalty of the variance.
    literal : bool, default=False
        Whether a step subtracts learning rate times gradient, as the paper does. This diverges in
        mu for long sentences (`diverges`) and in rho for almost all of them. Otherwise the step
        holds the sampled gradient and integrates the penalty exactly (an exponential integrator),
        which is stable for every n and lam.
    random_state : int, Generator or None

    Examples
    --------
    >>> from pacsent.paper.printed import example
    >>> ex = example()
    >>> encoded = ex.words.vocabulary.encode(ex.texts)
    >>> trained = train(encoded, ex.I_hat, ex.O_hat, ex.p_noise, random_state=0)
    >>> trained.mu.shape
    (3, 4)
    """
    rng = np.random.default_rng(random_state)
    lengths = np.diff(encoded.offsets)
    n_dims = A_hat.shape[1]
    cumulative = np.cumsum(p_noise)
    cumulative /= cumulative[-1]
    rates = learning_rates(n_epochs, learning_rate)

    mu = np.zeros((lengths.size, n_dims))
    rho = np.full(lengths.size, np.nan)
    # Sentences of one length are trained side by side; none of them sees another.
    for n in np.unique(lengths[lengths > 0]):
        rows_of_length = np.flatnonzero(lengths == n)
        penalty = _Penalty(n, n_dims, lam, var_P, kl, literal)
        size = max(1, _MAX_ROWS // (n * (n_negatives + 1)))
        for start in range(0, rows_of_length.size, size):
            rows = rows_of_length[start : start + size]
            positions = encoded.offsets[rows][:, None] + np.arange(n)
            tokens = encoded.ids[positions]  # (n_rows, n)
            mu[rows], rho[rows] = _train_group(
                tokens, (A_hat, B_hat), cumulative, penalty, rates, n_negatives, rng
            )
    return Trained(mu, rho)


def _train_group(
    tokens: np.ndarray,
    tables: tuple[np.ndarray, np.ndarray],
    cumulative: np.ndarray,
    penalty: "_Penalty",
    rates: np.ndarray,
    n_negatives: int,
    rng: np.random.Generator,
) -> tuple[np.ndarray, np.ndarray]:
    """Posteriors (mu, rho) of sentences of one length, `tokens` of shape (n_rows, n)."""
    A_hat, B_hat = tables
    n_rows, n = tokens.shape
    n_dims = A_hat.shape[1]
    prior_rows = B_hat[tokens].astype(float)  # (n_rows, n, n_dims)
    prior_mean = prior_rows.mean(axis=1)  # (n_rows, n_dims)
    positive_rows = A_hat[tokens]  # (n_rows, n, n_dims)

    mu = (rng.random((n_rows, n_dims)) - 0.5) / n_dims
    rho = (rng.random(n_rows) - 0.5) / n_dims
    for eta in rates:
        # h = mu + e^(rho/2) epsilon, one draw from each posterior.
        epsilon = rng.standard_normal((n_rows, n_dims))
        deviation = np.exp(rho / 2.0)
        h = mu + deviation[:, None] * epsilon
        h = h.astype(A_hat.dtype)

        uniform = rng.random((n_rows, n * n_negatives))
        negatives = np.searchsorted(cumulative, uniform, side="right")
        negatives = np.minimum(negatives, len(A_hat) - 1)
        negative_rows = A_hat[negatives]  # (n_rows, n * n_negatives, n_dims)

        positive_scores = np.einsum("sd,std->st", h, positive_rows)
        negative_scores = np.matmul(negative_rows, h[:, :, None])[:, :, 0]
        positive_errors = expit(-positive_scores)
        negative_errors = expit(negative_scores)

        # Slopes of the data term in h, (n_rows, n_dims), and in rho, (n_rows,).
        pull_to_words = np.einsum("st,std->sd", positive_errors, positive_rows)
        push_from_noise = np.matmul(negative_errors[:, None, :], negative_rows)[:, 0]
        gradient = push_from_noise - pull_to_words
        gradient = gradient.astype(float) / n
        slope = deviation / 2.0 * np.einsum("sd,sd->s", gradient, epsilon)
        mu, rho = penalty.step(mu, rho, prior_mean, gradient, slope, eta)
    return mu, rho


class _Penalty:
    """The penalty of one length, and one step of either kind.

    penalty = kappa/2 |mu - m|^2 + c (e^(rho - rho_P) - rho)
    """

    def __init__(self, n: int, n_dims: int, lam: float, var_P: float, kl: str, literal: bool):
        if kl not in ("printed", "exact"):
            raise ValueError(f"kl must be 'printed' or 'exact'. Got {kl!r} instead.")
        self.kappa = n / (var_P * lam)
        if kl == "printed":
            self.c = n * n_dims / (2.0 * lam)
            self.rho_P = np.log(var_P)
        else:
            self.c = n_dims / (2.0 * lam)
            self.rho_P = np.log(var_P / n)
        self.step = self._step_literally if literal else self._step_exponentially

    def _step_literally(
        self,
        mu: np.ndarray,
        rho: np.ndarray,
        m: np.ndarray,
        gradient: np.ndarray,
        slope: np.ndarray,
        eta: float,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Learning rate times gradient, as the paper subtracts it."""
        with np.errstate(over="ignore", invalid="ignore"):
            mu_slope = self.kappa * (mu - m)
            rho_slope = self.c * (np.exp(rho - self.rho_P) - 1.0)
            next_mu = mu - eta * (gradient + mu_slope)
            next_rho = rho - eta * (slope + rho_slope)
        return next_mu, next_rho

    def _step_exponentially(
        self,
        mu: np.ndarray,
        rho: np.ndarray,
        m: np.ndarray,
        gradient: np.ndarray,
        slope: np.ndarray,
        eta: float,
    ) -> tuple[np.ndarray, np.ndarray]:
        """The sampled gradient is held, the flow of the penalty integrated.

        next_mu = m + decay (mu - m) - (1 - decay)/kappa gradient,   decay = e^(-eta kappa)
        """
        decay = np.exp(-eta * self.kappa)
        next_mu = m + decay * (mu - m) - (1.0 - decay) / self.kappa * gradient

        # z = e^(rho_P - rho) obeys z' = c - (c - slope) z while slope is held.
        rate = self.c - slope
        z = np.exp(self.rho_P - rho)
        next_z = z * np.exp(-rate * eta) + self.c * _decay_integral(rate, eta)
        next_rho = self.rho_P - np.log(next_z)
        return next_mu, next_rho


def _decay_integral(rate: np.ndarray, time: float) -> np.ndarray:
    """Integral of e^(-rate s) over s from 0 to `time`: (1 - e^(-rate time))/rate."""
    is_constant = rate == 0.0
    safe_rate = np.where(is_constant, 1.0, rate)
    integral = -np.expm1(-safe_rate * time) / safe_rate
    return np.where(is_constant, time, integral)
