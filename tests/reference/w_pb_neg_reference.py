"""w-PB-neg and PV-DBOW as they are written down, and the flow of w-PB-neg's penalty."""

import numpy as np
from scipy import optimize, sparse
from scipy.special import expit

from pacsent.sentences.solvers.logistic import gaussian_logistic
from pacsent.sentences.solvers.w_pb_neg import sentence_weights
from reference.pb_neg_reference import negative_sampling_loss


def expected_objective(
    mu, rho, counts, A, B, var_P, noise, *, n_negatives=15, lam=1.0, weighting="token"
):
    """(loss, gradient in mu, gradient in rho), the negatives and all h_v integrated out."""
    n_tokens = np.asarray(counts.sum(axis=1)).ravel()
    inverse_lengths = 1.0 / np.maximum(n_tokens, 1.0)
    share = sparse.diags(inverse_lengths) @ counts.tocsr()  # (n_sentences, n_words)
    dense = share.toarray()
    squared_share = share.power(2)
    omega = sentence_weights(n_tokens, weighting)
    var_Q = np.exp(rho)

    # The expected loss of each sentence, and its derivatives in the mean and the variance.
    nu = np.sum(A**2, axis=1)
    kp = n_negatives * np.asarray(noise)
    a = share @ mu @ A.T  # (n_sentences, n_words)
    variances = squared_share @ var_Q
    f, f1, f2 = gaussian_logistic(a, variances[:, None] * nu)
    data = f @ kp + np.sum(dense * (f - a), axis=1)
    grad = (kp * f1 + dense * (f1 - 1.0)) @ A  # (n_sentences, n_dims)
    trace = f2 @ (kp * nu) + (dense * f2) @ nu

    # Twice lambda times the divergence of each word's posterior from its prior.
    d = mu.shape[1]
    away = mu - B
    ratio = var_Q / var_P
    penalty = np.sum(away**2, axis=1) / var_P + d * (ratio - np.log(ratio))

    loss = omega @ data + 0.5 / lam * penalty.sum()
    slope_mu = share.T @ (omega[:, None] * grad) + away / (var_P[:, None] * lam)
    slope_var = 0.5 * squared_share.T @ (omega * trace)
    slope_rho = var_Q * slope_var + 0.5 * d / lam * (ratio - 1.0)
    return float(loss), slope_mu, slope_rho


def minimum(counts, A, B, var_P, noise, **settings):
    """(mu, rho) where `expected_objective` is smallest, by L-BFGS in units of the prior."""
    n, d = A.shape
    sd_P = np.sqrt(var_P)
    scale = np.append(np.repeat(sd_P, d), np.ones(n))

    def split(x):
        """mu and rho at a point, whose numbers are steps away from the prior."""
        steps = x * scale
        away = steps[: n * d].reshape(n, d)
        return B + away, np.log(var_P) + steps[n * d :]

    def value(x):
        mu, rho = split(x)
        loss, slope_mu, slope_rho = expected_objective(
            mu, rho, counts, A, B, var_P, noise, **settings
        )
        gradient = np.append(slope_mu.ravel(), slope_rho)
        return loss, gradient * scale

    prior = np.zeros_like(scale)
    options = {"maxiter": 5000, "maxfun": 10_000, "maxcor": 50, "ftol": 0.0, "gtol": 1e-10}
    found = optimize.minimize(value, prior, jac=True, method="L-BFGS-B", options=options)
    return split(found.x)


def mean_step(D, rate, gradient, eta):
    """D after time eta of D' = -rate D - gradient, the data gradient held fixed."""
    return D * np.exp(-rate * eta) + np.expm1(-rate * eta) / rate * gradient


def precision_step(u, c, push, eta):
    """u after time eta of the penalty's flow with the data's gradient in the variance held fixed.

    push = var_P dL/dvar, never negative; z = e^-u obeys z' = c (1 - z) + push, so that no step,
    however large, can overshoot.
    """
    return -np.log1p(np.expm1(-u) * np.exp(-c * eta) - push * np.expm1(-c * eta) / c)


def pv_dbow_objective(h, sentences, negatives, A):
    """(loss, gradient in h, gradient in A): l_neg summed over sentences and tokens.

    h are the vectors of the sentences, `negatives` arrays of shape (n_tokens, n_negatives).
    """
    loss = 0.0
    grad_h = np.zeros_like(h)
    grad_A = np.zeros_like(A)
    for s, sentence in enumerate(sentences):
        tokens = np.asarray(sentence)
        noise = np.asarray(negatives[s])
        value, grad_h[s] = negative_sampling_loss(h[s], tokens, noise, A)
        loss += value

        # Slopes in the scores of negatives and of tokens.
        pushed = expit(A[noise] @ h[s])  # (n_tokens, n_negatives)
        pulled = expit(-A[tokens] @ h[s])  # (n_tokens,)
        np.add.at(grad_A, noise, pushed[..., None] * h[s])
        np.add.at(grad_A, tokens, -pulled[:, None] * h[s])
    return loss, grad_h, grad_A
