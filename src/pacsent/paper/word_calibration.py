"""The scale and shift with which vectors of documents recognise the documents' words."""

import numpy as np
from scipy.special import expit

from pacsent.text.encoded import Encoded, some_tokens

_MOST_PAIRS = 40_000  # of each label


def calibrate(
    means: np.ndarray,
    tokens: Encoded,
    A_hat: np.ndarray,
    p_noise: np.ndarray,
    bias: float,
    rng: np.random.Generator,
) -> tuple[float, np.ndarray]:
    """Scale a and shift c that make a*mean + c recognise a document's words.

        min  mean log(1 + e^-x) over true words + mean log(1 + e^x) over noise,
        x = (a mean_s + c).A_w + bias

    A logistic regression on (mean_s.A_w, A_w) with a ridge towards a = 1, c = 0; Newton's method.
    `means` are vectors of the documents that have not seen `tokens`.
    """
    document, word = some_tokens(tokens, _MOST_PAIRS, rng)
    noise = rng.choice(p_noise.size, document.size, p=p_noise)
    rows = np.concatenate([document, document])
    table = np.asarray(A_hat[np.concatenate([word, noise])], dtype=np.float32)
    own = np.einsum("ij,ij->i", np.asarray(means, dtype=np.float32)[rows], table)
    features = np.concatenate([own[:, None], table], axis=1)  # (n_pairs, 1 + n_dims)
    y = np.repeat([1.0, 0.0], document.size)
    theta = start = np.eye(features.shape[1])[0]
    signs = (1 - 2 * y).astype(np.float32)

    def loss(theta):
        x = features @ theta.astype(np.float32) + bias
        penalty = np.sum((theta - start) ** 2) / 2
        return float(np.logaddexp(0, signs * x).sum(dtype=float) + penalty)

    value = loss(theta)
    for _ in range(50):
        p = expit(features @ theta.astype(np.float32) + bias)
        gradient = features.T @ (p - y).astype(np.float32) + (theta - start)
        curve = (p * (1 - p)).astype(np.float32)
        hessian = (features * curve[:, None]).T @ features + np.eye(theta.size)
        # damped by a little, so that a separable handful of tokens cannot run away
        step = np.linalg.solve(hessian.astype(float) + 1e-6 * np.eye(theta.size), gradient)
        step *= min(1.0, 4.0 / max(np.abs(step).max(), 1e-12))
        if np.abs(step).max() < 1e-4:
            return float((theta - step)[0]), (theta - step)[1:]
        # a whole step may overshoot, and then swing between saturated ends
        limit = value + 1e-6 * abs(value)
        while (after := loss(theta - step)) > limit and np.abs(step).max() > 1e-6:
            step /= 2
        theta, value = theta - step, after
    return float(theta[0]), theta[1:]
