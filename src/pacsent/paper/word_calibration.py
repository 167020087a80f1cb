"""The scale and shift with which vectors of documents recognise the documents' words."""

import numpy as np
from scipy.special import expit

from pacsent.text.encoded import Encoded, some_tokens

# Pairs of a document and a word, of each label.
_MAX_PAIRS = 40_000
_MAX_NEWTON_STEPS = 50


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
    # As many negatives as true words, each with the document of a true word.
    document, word = some_tokens(tokens, _MAX_PAIRS, rng)
    noise = rng.choice(p_noise.size, document.size, p=p_noise)
    rows = np.concatenate([document, document])
    words = np.concatenate([word, noise])
    vectors = np.asarray(A_hat[words], dtype=np.float32)  # (n_pairs, n_dims)
    labels = np.repeat([1.0, 0.0], document.size)
    signs = (1 - 2 * labels).astype(np.float32)

    document_vectors = np.asarray(means, dtype=np.float32)[rows]
    scores = np.einsum("ij,ij->i", document_vectors, vectors)
    features = np.concatenate([scores[:, None], vectors], axis=1)  # (n_pairs, 1 + n_dims)

    # theta = (a, c) begins at a = 1 and c = 0.
    identity = np.eye(features.shape[1])
    start = identity[0]

    def loss(theta: np.ndarray) -> float:
        x = features @ theta.astype(np.float32) + bias
        penalty = np.sum((theta - start) ** 2) / 2
        data_loss = np.logaddexp(0, signs * x).sum(dtype=float)
        return float(data_loss + penalty)

    theta = start
    value = loss(theta)
    for _ in range(_MAX_NEWTON_STEPS):
        p = expit(features @ theta.astype(np.float32) + bias)
        errors = (p - labels).astype(np.float32)
        gradient = features.T @ errors + (theta - start)
        curvature = (p * (1 - p)).astype(np.float32)
        hessian = (features * curvature[:, None]).T @ features + identity

        # Damped by a little, so that a separable handful of tokens cannot run away.
        damped_hessian = hessian.astype(float) + 1e-6 * identity
        step = np.linalg.solve(damped_hessian, gradient)
        largest = max(np.abs(step).max(), 1e-12)
        step *= min(1.0, 4.0 / largest)
        if np.abs(step).max() < 1e-4:
            theta = theta - step
            break

        # A complete step may overshoot, and then swing between saturated ends.
        limit = value + 1e-6 * abs(value)
        next_value = loss(theta - step)
        while next_value > limit and np.abs(step).max() > 1e-6:
            step /= 2
            next_value = loss(theta - step)

        theta = theta - step
        value = next_value
    return float(theta[0]), theta[1:]
