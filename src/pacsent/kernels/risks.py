"""Kernels of risks: the chances to be wrong about negatives and own words, and their gradients.

For sentence s and negative u, with z = (scores[s, u] + bias) / (sd[s] * norms[u]):

    noise[s] = sum over u of p_noise[u] Phi(z),
    grad_rho[s] = -sum over u of p_noise[u] phi(z) z / 2,
    scores[s, u] becomes p_noise[u] phi(z) / (sd[s] norms[u]), which times A is the gradient in mu.
"""

from functools import cache

import numpy as np
from scipy.special import ndtr

from pacsent.kernels.library import (
    DOUBLE,
    FLOAT,
    FLOAT32,
    FLOAT64,
    INT64,
    SIZE,
    entry_point,
    needs_twins,
)

_noise_errors = entry_point(
    "noise_errors",
    *(FLOAT64, SIZE, SIZE, DOUBLE),  # scores, their rows and columns, bias
    *(FLOAT64, FLOAT64, FLOAT64),  # sd, norms, p_noise
    *(FLOAT64, SIZE, DOUBLE),  # the table, its nodes, how many per unit
    *(FLOAT64, FLOAT64),  # noise, grad_rho
)
_noise_errors_32 = entry_point(
    "noise_errors_32",
    *(FLOAT32, SIZE, SIZE, FLOAT),  # scores, their rows and columns, bias
    *(FLOAT32, FLOAT32, FLOAT32),  # 1 / sd, 1 / norms, p_noise
    *(FLOAT64, FLOAT64),  # noise, grad_rho
)
_own_errors = entry_point(
    "own_errors",
    *(FLOAT64, SIZE, SIZE, FLOAT64, DOUBLE),  # mu, its rows and columns, sd, bias
    *(FLOAT64, INT64, FLOAT64, FLOAT64),  # words, offsets, norms, shares
    *(FLOAT64, FLOAT64, FLOAT64),  # positive, grad_mu, grad_rho
)

_NODES_PER_UNIT = 512.0  # of the table of Phi
_LIMIT = 8.5  # where the table ends: beyond, Phi is 0 or 1 to 1e-17


def noise_errors(
    scores: np.ndarray, bias: float, sd: np.ndarray, norms: np.ndarray, p_noise: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """(noise, grad_rho), and the gradients in place of the scores, in float64.

    Where sd or a norm is 0, the score is the bias for every draw. Phi comes from a table, erfc
    would cost ten times the matrix product before it: between nodes it is a cubic with the right
    slopes, off by at most max|Phi''''| / 384 / 512^4 < 6e-14.
    """
    _check_shapes(scores, sd, norms, p_noise)
    if needs_twins():
        return noise_errors_plainly(scores, bias, sd, norms, p_noise)

    table = normal_table()
    noise = np.empty(sd.size)
    grad_rho = np.empty(sd.size)
    _noise_errors(
        *(scores, *scores.shape, bias),
        *(sd, norms, p_noise),
        *(table, len(table), _NODES_PER_UNIT),
        *(noise, grad_rho),
    )
    return noise, grad_rho


def noise_errors_plainly(
    scores: np.ndarray, bias: float, sd: np.ndarray, norms: np.ndarray, p_noise: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """As `noise_errors`, in the precision of the scores."""
    spread = np.multiply.outer(sd, norms)
    is_spread = spread != 0.0
    divisor = np.where(is_spread, spread, 1.0)
    z = (scores + bias) / divisor

    density = p_noise * np.exp(-0.5 * z * z) / np.sqrt(2.0 * np.pi)
    density = np.where(is_spread, density, 0.0)
    scores[:] = density / divisor

    chance = np.where(is_spread, ndtr(z), z >= 0.0)
    return chance @ p_noise, -0.5 * (density * z).sum(axis=1)


def noise_errors_32(
    scores: np.ndarray,
    bias: float,
    inverse_sd: np.ndarray,
    inverse_norms: np.ndarray,
    p_noise: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """`noise_errors` in single precision, all arrays float32; Phi is off by at most 8e-7."""
    _check_shapes(scores, inverse_sd, inverse_norms, p_noise)
    if needs_twins():
        return noise_errors_32_plainly(scores, bias, inverse_sd, inverse_norms, p_noise)

    noise = np.empty(len(scores))
    grad_rho = np.empty(len(scores))
    _noise_errors_32(
        *(scores, *scores.shape, bias),
        *(inverse_sd, inverse_norms, p_noise),
        *(noise, grad_rho),
    )
    return noise, grad_rho


def noise_errors_32_plainly(
    scores: np.ndarray,
    bias: float,
    inverse_sd: np.ndarray,
    inverse_norms: np.ndarray,
    p_noise: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """As `noise_errors_32`, in double precision but for the scores."""
    sd = (1.0 / inverse_sd).astype(float)
    norms = (1.0 / inverse_norms).astype(float)
    return noise_errors_plainly(scores, bias, sd, norms, p_noise.astype(float))


@cache
def normal_table() -> np.ndarray:
    """Phi and phi / 512 at the nodes -8.5, -8.5 + 1/512, ..., 8.5, (n_nodes, 2)."""
    last_node = _LIMIT * _NODES_PER_UNIT
    nodes = np.arange(-last_node, last_node + 1) / _NODES_PER_UNIT
    slopes = np.exp(-0.5 * nodes**2) / (np.sqrt(2 * np.pi) * _NODES_PER_UNIT)
    return np.column_stack([ndtr(nodes), slopes])


def own_errors(
    mu: np.ndarray,
    sd: np.ndarray,
    bias: float,
    words: np.ndarray,
    offsets: np.ndarray,
    norms: np.ndarray,
    shares: np.ndarray,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(positive, grad_mu, grad_rho): the risk of a sentence's own words, and its gradients.

    Tokens offsets[s] to offsets[s + 1] are of sentence s; in float64, with t over these,

        z[t] = (words[t] @ mu[s] + bias) / (sd[s] * norms[t]),
        positive[s] = sum(shares * Phi(-z)),    grad_rho[s] = sum(shares * phi(z) * z) / 2,
        grad_mu[s] = -sum(shares * phi(z) * words / (sd * norms))
    """
    n_tokens = len(words)
    if words.shape != (n_tokens, mu.shape[1]) or not norms.shape == shares.shape == (n_tokens,):
        raise ValueError("Words must have the columns of mu, a norm and a share each.")
    if offsets.shape != (len(mu) + 1,) or sd.shape != (len(mu),):
        raise ValueError("Each row of mu must have a standard deviation and an offset.")
    if offsets[0] != 0 or offsets[-1] != n_tokens or (offsets[1:] < offsets[:-1]).any():
        raise ValueError("Offsets must rise from 0 to the number of words.")

    if needs_twins():
        return own_errors_plainly(mu, sd, bias, words, offsets, norms, shares)

    positive = np.empty_like(sd)
    grad_mu = np.empty_like(mu)
    grad_rho = np.empty_like(sd)
    _own_errors(
        *(mu, *mu.shape, sd, bias),
        *(words, offsets, norms, shares),
        *(positive, grad_mu, grad_rho),
    )
    return positive, grad_mu, grad_rho


def own_errors_plainly(
    mu: np.ndarray,
    sd: np.ndarray,
    bias: float,
    words: np.ndarray,
    offsets: np.ndarray,
    norms: np.ndarray,
    shares: np.ndarray,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """As `own_errors`, by `noise_errors_plainly` of each sentence with the signs turned."""
    positive = np.empty_like(sd)
    grad_mu = np.empty_like(mu)
    grad_rho = np.empty_like(sd)
    for s, mean in enumerate(mu):
        own = slice(offsets[s], offsets[s + 1])
        scores = -(words[own] @ mean)[None]
        own_sd = sd[s : s + 1]
        errors, slopes = noise_errors_plainly(scores, -bias, own_sd, norms[own], shares[own])
        positive[s] = errors[0]
        grad_rho[s] = slopes[0]
        grad_mu[s] = -scores[0] @ words[own]  # the scores have become derivatives
    return positive, grad_mu, grad_rho


def _check_shapes(
    scores: np.ndarray, sd: np.ndarray, norms: np.ndarray, p_noise: np.ndarray
) -> None:
    if scores.shape != (*sd.shape, *norms.shape) or norms.shape != p_noise.shape:
        raise ValueError(
            "Scores must have a row for each sd and a column for each norm and probability. Got "
            f"{scores.shape}, {sd.shape}, {norms.shape} and {p_noise.shape} instead."
        )
