"""Calibration: scale and shift that make a document's vector recognise the document's words."""

import numpy as np
from scipy.special import expit

from pacsent.text.encoded import Encoded

_MOST_PAIRS = 40_000  # of each label


def encode_ids(ids: np.ndarray, lengths: np.ndarray) -> Encoded:
    """Token ids and document lengths as `Encoded`."""
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    return Encoded(ids.astype(np.int32), offsets, np.zeros(len(lengths), dtype=np.int64))


def cut_documents(documents: Encoded, n_head: np.ndarray) -> tuple[Encoded, Encoded]:
    """The first `n_head` tokens of each document in reading order, and the others."""
    n = np.diff(documents.offsets)
    place = np.arange(documents.ids.size) - np.repeat(documents.offsets[:-1], n)
    first = place < np.repeat(n_head, n)
    return encode_ids(documents.ids[first], n_head), encode_ids(documents.ids[~first], n - n_head)


def some_tokens(
    encoded: Encoded, most: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """(document, word) of at most `most` tokens, drawn without replacement."""
    document = np.repeat(np.arange(encoded.n_sentences), np.diff(encoded.offsets))
    if document.size <= most:
        return document, encoded.ids
    chosen = np.sort(rng.choice(document.size, most, replace=False))
    return document[chosen], encoded.ids[chosen]


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
    theta = np.zeros(features.shape[1])
    theta[0] = 1.0
    start = theta.copy()
    ridge, signs = 1.0, (1 - 2 * y).astype(np.float32)

    def loss(theta):
        x = features @ theta.astype(np.float32) + bias
        penalty = ridge / 2 * np.sum((theta - start) ** 2)
        return float(np.logaddexp(0, signs * x).sum(dtype=float) + penalty)

    value = loss(theta)
    for _ in range(50):
        p = expit(features @ theta.astype(np.float32) + bias)
        gradient = features.T @ (p - y).astype(np.float32) + ridge * (theta - start)
        curve = (p * (1 - p)).astype(np.float32)
        hessian = (features * curve[:, None]).T @ features + ridge * np.eye(theta.size)
        # damped by a little, so that a separable handful of tokens cannot run away
        step = np.linalg.solve(hessian.astype(float) + 1e-6 * np.eye(theta.size), gradient)
        step *= min(1.0, 4.0 / max(np.abs(step).max(), 1e-12))
        if np.abs(step).max() < 1e-4:
            return float((theta - step)[0]), (theta - step)[1:]
        # a whole step may overshoot, and then swing between saturated ends
        while (after := loss(theta - step)) > value + 1e-6 * abs(value) and np.abs(
            step
        ).max() > 1e-6:
            step /= 2
        theta, value = theta - step, after
    return float(theta[0]), theta[1:]
