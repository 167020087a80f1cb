"""w-PB-neg and PV-DBOW as they are written down, and the flow of w-PB-neg's penalty."""

import numpy as np
from scipy import optimize, sparse

from pacsent.sentences.solvers.logistic import gaussian_logistic
from pacsent.sentences.solvers.w_pb_neg import sentence_weights
from reference.pb_neg_reference import negative_sampling_loss


def expected_objective(
    mu, rho, counts, A, B, var_P, noise, *, n_negatives=15, lam=1.0, weighting="token"
):
    """(loss, gradient in mu, gradient in rho), the negatives and all h_v integrated out."""
    n_tokens = np.asarray(counts.sum(axis=1)).ravel()
    share = sparse.diags(1.0 / np.maximum(n_tokens, 1.0)) @ counts.tocsr()
    dense, omega = share.toarray(), sentence_weights(n_tokens, weighting)
    nu, kp = np.sum(A**2, axis=1), n_negatives * np.asarray(noise)
    a = share @ mu @ A.T  # (n_sentences, n_words)
    f, f1, f2 = gaussian_logistic(a, (share.power(2) @ np.exp(rho))[:, None] * nu)
    data = f @ kp + np.sum(dense * (f - a), axis=1)
    grad = (kp * f1 + dense * (f1 - 1.0)) @ A  # (n_sentences, n_dims)
    trace = f2 @ (kp * nu) + (dense * f2) @ nu
    d, away, ratio = mu.shape[1], mu - B, np.exp(rho) / var_P
    penalty = np.sum(away**2, axis=1) / var_P + d * (ratio - np.log(ratio))
    return (
        float(omega @ data) + 0.5 / lam * penalty.sum(),
        share.T @ (omega[:, None] * grad) + away / (var_P[:, None] * lam),
        0.5 * np.exp(rho) * (share.power(2).T @ (omega * trace)) + 0.5 * d / lam * (ratio - 1.0),
    )


def minimum(counts, A, B, var_P, noise, **settings):
    """(mu, rho) where `expected_objective` is smallest, by L-BFGS in units of the prior."""
    n, d = A.shape
    scale = np.append(np.repeat(np.sqrt(var_P), d), np.ones(n))

    def split(x):
        x = x * scale
        return B + x[: n * d].reshape(n, d), np.log(var_P) + x[n * d :]

    def value(x):
        loss, *slopes = expected_objective(*split(x), counts, A, B, var_P, noise, **settings)
        return loss, np.concatenate([slope.ravel() for slope in slopes]) * scale

    options = {"maxiter": 5000, "maxfun": 10_000, "maxcor": 50, "ftol": 0.0, "gtol": 1e-10}
    found = optimize.minimize(value, 0.0 * scale, jac=True, method="L-BFGS-B", options=options)
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
    loss, grad_h, grad_A = 0.0, np.zeros_like(h), np.zeros_like(A)
    for s, S in enumerate(sentences):
        tokens, noise = np.asarray(S), np.asarray(negatives[s])
        value, grad_h[s] = negative_sampling_loss(h[s], tokens, noise, A)
        loss += value
        np.add.at(grad_A, tokens, -np.outer(1.0 / (1.0 + np.exp(A[tokens] @ h[s])), h[s]))
        np.add.at(grad_A, noise, (1.0 / (1.0 + np.exp(-(A[noise] @ h[s]))))[..., None] * h[s])
    return loss, grad_h, grad_A
