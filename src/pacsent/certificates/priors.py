"""What a certificate may choose before it looks at its sample: the split, and the prior's scale.

The tokens of every document are divided at random into a part that builds the prior, a part that
is the sample, and a rest that nothing reads. Whatever is computed from the first part alone is, to
the sample, as good as fixed in advance, so choosing by it costs no `delta`. The bounds themselves
are in `bounds.py` and what is promised in `certificates.py`.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.special import expit, ndtr

from pacsent.maths.bounds import kl_inverse
from pacsent.text.encoded import Encoded

SPREADS = (0.02, 0.03, 0.05, 0.1, 0.2)  # prior sd over the typical length of a prior mean
STEPS = (0.0, 0.1, 0.25, 0.5, 0.75, 1.0)  # how far from prior to posterior mean
_MOST_PAIRS = 40_000  # of each label, for calibrating


class TextParts(NamedTuple):
    """The documents that can be split, their rows in the input, and their three parts."""

    rows: np.ndarray  # (n_documents,)
    prior: Encoded  # A: builds the prior
    sample: Encoded  # B: what the bound is computed on
    rest: Encoded  # H: never used, for checking

    @property
    def n_sample(self) -> np.ndarray:
        return np.diff(self.sample.offsets)


def split_tokens(
    encoded: Encoded, share_prior: float, share_rest: float, rng: np.random.Generator
) -> TextParts:
    """Divide the tokens of each document at random; sizes depend on its length only.

    Of n tokens, round(share_prior n) go to the prior and floor(share_rest n) to the rest, but at
    least one to the prior and one to the sample. Documents of fewer than two tokens are left out.
    """
    n = np.diff(encoded.offsets)
    rows = np.flatnonzero(n >= 2)
    n_prior = np.clip(np.rint(share_prior * n), 1, np.maximum(n - 1, 1)).astype(np.int64)
    n_rest = np.minimum(np.floor(share_rest * n), n - n_prior - 1).astype(np.int64)
    n_rest = np.maximum(n_rest, 0)
    document = np.repeat(np.arange(n.size), n)
    shuffled = encoded.ids[np.argsort(document + rng.random(encoded.ids.size), kind="stable")]
    place = np.arange(encoded.ids.size) - np.repeat(encoded.offsets[:-1], n)
    whole = n[document] >= 2
    first = place < n_prior[document]
    last = place >= (n - n_rest)[document]
    sizes = (n_prior[rows], (n - n_prior - n_rest)[rows], n_rest[rows])
    return TextParts(
        rows,
        *(
            encode_ids(shuffled[whole & mask], size)
            for mask, size in zip((first, ~first & ~last, last & ~first), sizes)
        ),
    )


def encode_ids(ids: np.ndarray, lengths: np.ndarray) -> Encoded:
    """Token ids and document lengths as `Encoded`.

    Examples
    --------
    >>> import numpy as np
    >>> encode_ids(np.array([4, 2, 7]), np.array([1, 2])).offsets
    array([0, 1, 3])
    """
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    return Encoded(ids.astype(np.int32), offsets, np.zeros(len(lengths), dtype=np.int64))


def join(first: Encoded, second: Encoded) -> Encoded:
    """The documents with the tokens of both parts."""
    n_first, n_second = np.diff(first.offsets), np.diff(second.offsets)
    document = np.concatenate(
        [np.repeat(np.arange(n_first.size), n_first), np.repeat(np.arange(n_second.size), n_second)]
    )
    ids = np.concatenate([first.ids, second.ids])[np.argsort(document, kind="stable")]
    return encode_ids(ids, n_first + n_second)


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
    """Scale a and shift c that make a*mean + c tell a document's words from noise.

        min  mean log(1 + e^-x) over true words + mean log(1 + e^x) over noise,
        x = (a mean_s + c).A_w + bias

    A logistic regression on (mean_s.A_w, A_w) with a ridge towards a = 1, c = 0; Newton's method.

    Parameters
    ----------
    means : array, shape (n_documents, n_dims)
        Vectors of the documents that have not seen `tokens`.

    Returns
    -------
    scale : float
    shift : array, shape (n_dims,)
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
    ridge = 1.0
    for _ in range(12):
        p = expit(features @ theta.astype(np.float32) + bias)
        gradient = features.T @ (p - y).astype(np.float32) + ridge * (theta - start)
        curve = (p * (1 - p)).astype(np.float32)
        hessian = (features * curve[:, None]).T @ features + ridge * np.eye(theta.size)
        # damped by a little, so that a separable handful of tokens cannot run away
        step = np.linalg.solve(hessian.astype(float) + 1e-6 * np.eye(theta.size), gradient)
        theta = theta - step * min(1.0, 4.0 / max(np.abs(step).max(), 1e-12))
        if np.abs(step).max() < 1e-4:
            break
    return float(theta[0]), theta[1:]


class Choice(NamedTuple):
    """Settings with the smallest estimated bound."""

    bound: float
    variance: float
    step: float
    bias: float


def choose(
    near: np.ndarray,
    far: np.ndarray,
    tokens: Encoded,
    A_hat: np.ndarray,
    p_noise: np.ndarray,
    rng: np.random.Generator,
    *,
    biases: Sequence[float],
    variances: Sequence[float],
    steps: Sequence[float],
    n: int,
    budget: float,
    budget_of_staying: float,
    weights: tuple[float, float],
    most_tokens: int = 20_000,
    most_noise: int = 8_000,
    float_unit: float = 2.0**-24,
) -> Choice:
    """Which variance, step from prior mean to posterior mean, and bias give the smallest bound.

    An estimate on some tokens and some noise words: it only has to rank. `near` and `far` are the
    prior's and the posterior's means, `n` the size of the sample the bound will be computed on,
    `budget` = ln(xi(n) / delta), and ln(1 / delta) for a step of 0, which learns nothing from the
    sample. The KL of a step t is t^2 |far - near|^2 / (2 variance).
    """
    document, word = some_tokens(tokens, most_tokens, rng)
    table = np.asarray(A_hat[word], dtype=np.float32)
    norms = np.linalg.norm(table, axis=1).astype(float)
    at_near = np.einsum("ij,ij->i", near[document], table).astype(float)
    at_far = np.einsum("ij,ij->i", far[document], table).astype(float)
    some = rng.choice(document, most_noise)  # a document by its number of tokens, and a noise word
    noise_table = np.asarray(A_hat[rng.choice(p_noise.size, most_noise, p=p_noise)], np.float32)
    noise_norms = np.linalg.norm(noise_table, axis=1).astype(float)
    noise_near = np.einsum("ij,ij->i", near[some], noise_table).astype(float)
    noise_far = np.einsum("ij,ij->i", far[some], noise_table).astype(float)
    distance = ((far - near).astype(float) ** 2).sum()
    length = np.sqrt((near.astype(float) ** 2).sum(axis=1).mean())
    settings, positives, noises, prices = [], [], [], []
    for bias in biases:
        for variance in variances:
            sd = np.sqrt(variance)
            margin = 0.4 * A_hat.shape[1] * float_unit * length / sd
            for t in steps:
                score = (1 - t) * at_near + t * at_far + bias
                noise_score = (1 - t) * noise_near + t * noise_far + bias
                with np.errstate(divide="ignore", invalid="ignore"):
                    wrong = ndtr(-score / (sd * norms))
                    false = ndtr(noise_score / (sd * noise_norms))
                positives.append(np.where(norms > 0, wrong, float(bias <= 0)).mean())
                noises.append(np.where(noise_norms > 0, false, float(bias >= 0)).mean() + margin)
                kl = t * t * distance / (2 * variance)
                prices.append(kl + (budget if t else budget_of_staying))
                settings.append((float(variance), float(t), float(bias)))
    bounds = weights[0] * kl_inverse(np.minimum(positives, 1.0), np.array(prices) / n)
    bounds = bounds + weights[1] * np.minimum(1.0, noises)
    best = int(np.argmin(bounds))
    return Choice(float(bounds[best]), *settings[best])
