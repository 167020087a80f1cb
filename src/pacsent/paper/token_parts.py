"""Parts of documents: tokens of the prior, tokens of the sample, and tokens that are held out.

The tokens of every document are divided at random. What is computed from the first part alone is
independent of the sample, so that a choice made there needs no correction. The inequalities are in
`pacsent.bounds.pac_bayes`.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.special import ndtr

from pacsent.bounds.pac_bayes import kl_inverse
from pacsent.paper.encoder_certificate import Sample
from pacsent.text.encoded import Encoded, some_tokens

# Prior standard deviations to choose from, over the typical length of a prior mean.
SPREADS = (0.02, 0.03, 0.05, 0.1, 0.2)
# Steps to choose from, as fractions of the way from prior mean to posterior mean.
STEPS = (0.0, 0.1, 0.25, 0.5, 0.75, 1.0)
# Tokens and negatives that an estimate reads.
_MAX_TOKENS = 20_000
_MAX_NOISE = 8_000
# Relative rounding error of a float32 number.
_FLOAT_UNIT = 2.0**-24


class TextParts(NamedTuple):
    """The documents that can be split, their rows in the input, and their three parts."""

    rows: np.ndarray  # (n_documents,)
    prior: Encoded  # A: builds the prior
    sample: Encoded  # B: what the bound is computed on
    held_out: Encoded  # H: held out

    @property
    def n_sample(self) -> np.ndarray:
        return np.diff(self.sample.offsets)


def mean_by_document(values: np.ndarray, n_tokens: np.ndarray) -> np.ndarray:
    """Mean of the tokens' values in each document, (n_documents,); 0 for an empty document.

    >>> mean_by_document(np.array([1.0, 3.0, 5.0]), np.array([2, 1]))
    array([2., 5.])
    """
    document = np.repeat(np.arange(n_tokens.size), n_tokens)
    sums = np.bincount(document, values, n_tokens.size)
    return sums / np.maximum(n_tokens, 1)


def split_tokens(
    encoded: Encoded, share_prior: float, share_held_out: float, rng: np.random.Generator
) -> TextParts:
    """Divide the tokens of each document at random; sizes depend on its length only.

    Of n tokens, round(share_prior n) go to the prior and floor(share_held_out n) are held out, but
    at least one goes to the prior and one to the sample. Documents of fewer than two tokens are
    left out.
    """
    n = np.diff(encoded.offsets)
    rows = np.flatnonzero(n >= 2)

    # Sizes of the parts of each document, (n_documents,).
    max_n_prior = np.maximum(n - 1, 1)
    n_prior = np.clip(np.rint(share_prior * n), 1, max_n_prior).astype(np.int64)
    max_n_held_out = n - n_prior - 1
    n_held_out = np.minimum(np.floor(share_held_out * n), max_n_held_out).astype(np.int64)
    n_held_out = np.maximum(n_held_out, 0)
    n_sample = n - n_prior - n_held_out

    # The tokens of each document in random order, and the place of each there, (n_tokens,).
    document = np.repeat(np.arange(n.size), n)
    n_tokens = encoded.ids.size
    random_keys = document + rng.random(n_tokens)
    order = np.argsort(random_keys, kind="stable")
    shuffled = encoded.ids[order]
    place = np.arange(n_tokens) - np.repeat(encoded.offsets[:-1], n)

    # A document of one token is in no part.
    is_divided = n[document] >= 2
    is_prior = place < n_prior[document]
    is_last = place >= (n - n_held_out)[document]

    prior = shuffled[is_divided & is_prior]
    sample = shuffled[is_divided & ~is_prior & ~is_last]
    held_out = shuffled[is_divided & is_last & ~is_prior]
    return TextParts(
        rows=rows,
        prior=Encoded.from_lengths(prior, n_prior[rows]),
        sample=Encoded.from_lengths(sample, n_sample[rows]),
        held_out=Encoded.from_lengths(held_out, n_held_out[rows]),
    )


def join(first: Encoded, second: Encoded) -> Encoded:
    """The documents with the tokens of both parts."""
    first_lengths = np.diff(first.offsets)
    second_lengths = np.diff(second.offsets)

    document_of_first = np.repeat(np.arange(first_lengths.size), first_lengths)
    document_of_second = np.repeat(np.arange(second_lengths.size), second_lengths)
    document = np.concatenate([document_of_first, document_of_second])

    order = np.argsort(document, kind="stable")
    ids = np.concatenate([first.ids, second.ids])[order]
    return Encoded.from_lengths(ids, first_lengths + second_lengths)


def choose(
    prior_means: np.ndarray,
    posterior_means: np.ndarray,
    tokens: Encoded,
    sample: Sample,
    *,
    variances: Sequence[float],
    steps: Sequence[float],
    n: int,
    budget: float,
    budget_of_staying: float,
) -> tuple[float, float]:
    """(variance, step from prior mean to posterior mean) with the smallest bound.

    An estimate on some tokens and some negatives: it only has to rank. `n` is the size of the
    sample the bound will be computed on, `budget` = ln(xi(n) / delta), and ln(1 / delta) for a step
    of 0, which learns nothing from the sample. The KL of a step t is
    t^2 |posterior_means - prior_means|^2 / (2 variance).
    """
    A_hat = sample.A_hat
    p_noise = sample.p_noise
    bias = sample.bias
    rng = sample.rng

    # Scores of true words by both means, (n_tokens,).
    document, word = some_tokens(tokens, _MAX_TOKENS, rng)
    vectors = np.asarray(A_hat[word], dtype=np.float32)  # (n_tokens, n_dims)
    norms = np.linalg.norm(vectors, axis=1).astype(float)
    prior_scores = _row_products(prior_means[document], vectors)
    posterior_scores = _row_products(posterior_means[document], vectors)

    # Pairs of a document, drawn by its number of tokens, and a negative.
    noise_documents = rng.choice(document, _MAX_NOISE)
    noise_words = rng.choice(p_noise.size, _MAX_NOISE, p=p_noise)
    noise_vectors = np.asarray(A_hat[noise_words], np.float32)
    noise_norms = np.linalg.norm(noise_vectors, axis=1).astype(float)
    prior_noise_scores = _row_products(prior_means[noise_documents], noise_vectors)
    posterior_noise_scores = _row_products(posterior_means[noise_documents], noise_vectors)

    differences = (posterior_means - prior_means).astype(float)
    square_distance = (differences**2).sum()
    square_lengths = (prior_means.astype(float) ** 2).sum(axis=1)  # (n_documents,)
    length = np.sqrt(square_lengths.mean())

    settings = []
    positive_risks = []
    noise_risks = []
    complexities = []
    for variance in variances:
        sd = np.sqrt(variance)
        margin = 0.4 * A_hat.shape[1] * _FLOAT_UNIT * length / sd

        for t in steps:
            scores = (1 - t) * prior_scores + t * posterior_scores + bias
            noise_scores = (1 - t) * prior_noise_scores + t * posterior_noise_scores + bias

            # Probability of a wrong answer for each word; a zero vector is decided by the bias.
            with np.errstate(divide="ignore", invalid="ignore"):
                missed = ndtr(-scores / (sd * norms))
                false = ndtr(noise_scores / (sd * noise_norms))
            missed = np.where(norms > 0, missed, float(bias <= 0))
            false = np.where(noise_norms > 0, false, float(bias >= 0))

            kl = t * t * square_distance / (2 * variance)
            budget_of_step = budget if t else budget_of_staying
            settings.append((float(variance), float(t)))
            positive_risks.append(missed.mean())
            noise_risks.append(false.mean() + margin)
            complexities.append(kl + budget_of_step)

    positive_bounds = kl_inverse(np.minimum(positive_risks, 1.0), np.array(complexities) / n)
    noise_bounds = np.minimum(1.0, noise_risks)
    bounds = 0.5 * positive_bounds + 0.5 * noise_bounds
    best = int(np.argmin(bounds))
    return settings[best]


def _row_products(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The inner product of each row of a with the same row of b, (n_rows,)."""
    return np.einsum("ij,ij->i", a, b).astype(float)
