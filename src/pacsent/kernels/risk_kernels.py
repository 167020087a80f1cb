"""Compiled parts of `risks`: scores of tokens, and the normal distribution function Phi.

A table replaces erfc, which would cost ten times the matrix product around it.
"""

import math

import numpy as np

from pacsent.kernels.compiling import njit
from pacsent.kernels.sampling_kernels import fetch_rows, power_of_two32

# Nodes per unit of the table of Phi, and where it ends: beyond, Phi is 0 or 1 to 1e-17.
FINE_STEPS, FINE_LIMIT = 512.0, 8.5


@njit(cache=True, nogil=True)
def token_scores(mu, A, ids, offsets, out):
    """Score of each token with its own sentence's vector, in place, in float64.

    out[offsets[s]:offsets[s + 1]] = A[ids of s].astype(float64) @ mu[s]
    """
    for s in range(offsets.size - 1):
        for t in range(offsets[s], offsets[s + 1]):
            word = ids[t]
            score = 0.0
            for j in range(mu.shape[1]):
                score += mu[s, j] * np.float64(A[word, j])
            out[t] = score


# Sums may be reordered (that is what lets them vectorise); nothing is assumed about nan or inf.
@njit(cache=True, nogil=True, fastmath={"reassoc", "contract"})
def noise_error_terms(scores, bias, sd, norms, p_noise, table, out):
    """Chance that a negative scores above 0 and its gradients, row by row, in float64, in place.

    z = (scores[s] + bias) / (sd[s] * norms):
    noise[s] = sum(p_noise * Phi(z)),   grad_rho[s] = -sum(p_noise * phi(z) * z) / 2,
    scores[s] = p_noise * phi(z) / (sd[s] * norms), which times A is the gradient in mu

    `table` holds Phi and phi / FINE_STEPS at its nodes. Between them Phi is a cubic with the right
    slopes: off by at most max|Phi''''| / 384 / FINE_STEPS^4 < 6e-14.
    """
    noise, grad_rho = out
    n_nodes = table.shape[0]
    middle = FINE_LIMIT * FINE_STEPS
    for s in range(scores.shape[0]):
        total, slope = 0.0, 0.0
        for u in range(scores.shape[1]):
            score = scores[s, u] + bias
            spread = sd[s] * norms[u]
            if spread == 0.0:  # the score is the bias, for every draw
                total += p_noise[u] if score >= 0.0 else 0.0
                scores[s, u] = 0.0
                continue
            z = score / spread
            place = min(max(z * FINE_STEPS + middle, 0.0), n_nodes - 1.0)
            node = min(int(place), n_nodes - 2)
            t = place - node
            low, high = table[node, 0], table[node + 1, 0]
            up_low, up_high = table[node, 1], table[node + 1, 1]
            rise = high - low
            bend = 3.0 * rise - 2.0 * up_low - up_high
            turn = up_low + up_high - 2.0 * rise
            total += p_noise[u] * (low + t * (up_low + t * (bend + t * turn)))
            density = p_noise[u] * FINE_STEPS * (up_low + t * (2.0 * bend + 3.0 * t * turn))
            slope -= density * z
            scores[s, u] = density / spread
        noise[s] = total
        grad_rho[s] = 0.5 * slope


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract"}, error_model="numpy")
def noise_error_terms32(scores, bias, inverse_sd, inverse_norms, p_noise, out):
    """`noise_error_terms` in single precision, for rows that are not zero; scores are float32.

    Phi is 1 - phi(z) times a polynomial in 1/(1 + 0.2316419 z) (Abramowitz and Stegun, 26.2.17),
    off by at most 8e-7, most of it from the exponential. Sums are in float64.
    """
    noise, grad_rho = out
    unit = np.float32(1.0)
    for s in range(scores.shape[0]):
        row, by = scores[s], np.float32(inverse_sd[s])
        total, slope = 0.0, 0.0
        for u in range(row.size):
            scale = by * inverse_norms[u]
            z = (row[u] + bias) * scale
            t = unit / (unit + np.float32(0.2316419) * abs(z))
            density = np.float32(0.3989422804) * power_of_two32(np.float32(-0.7213475204) * z * z)
            p = np.float32(1.330274429)
            p = p * t + np.float32(-1.821255978)
            p = p * t + np.float32(1.781477937)
            p = p * t + np.float32(-0.356563782)
            p = p * t + np.float32(0.319381530)
            upper = density * t * p
            density *= p_noise[u]
            total += np.float64(p_noise[u] * (unit - upper if z >= np.float32(0.0) else upper))
            slope -= np.float64(density * z)
            row[u] = density * scale
        noise[s] = total
        grad_rho[s] = 0.5 * slope


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract"})
def own_words(mu, sd, A, norms, tokens, bias, out):
    """Chance to be wrong about the sentence's own words, and its gradients, in place.

    z = (A @ mu[s] + bias) / (sd[s] * norms), shares sum to 1 in a sentence:
    positive[s] = sum(shares * Phi(-z)),   grad_mu[s] = -sum(shares * phi(z) * A / (sd * norms)),
    grad_rho[s] = sum(shares * phi(z) * z) / 2
    """
    ids, offsets, shares = tokens
    positive, grad_mu, grad_rho = out
    for s in range(mu.shape[0]):
        mean, slopes = mu[s], grad_mu[s]
        for t in range(offsets[s], offsets[s + 1]):
            fetch_rows(A, ids, t + 2, t + 3)
            row = A[ids[t]]
            score = bias
            for j in range(mean.size):
                score += mean[j] * np.float64(row[j])
            spread = sd[s] * norms[ids[t]]
            if spread == 0.0:  # the margin is the bias, for every draw
                positive[s] += shares[t] if score <= 0.0 else 0.0
                continue
            z = score / spread
            positive[s] += shares[t] * 0.5 * math.erfc(z / math.sqrt(2.0))
            density = shares[t] * math.exp(-0.5 * z * z) / math.sqrt(2.0 * math.pi)
            grad_rho[s] += 0.5 * density * z
            density /= spread
            for j in range(mean.size):
                slopes[j] -= density * np.float64(row[j])
