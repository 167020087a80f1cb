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

SPREADS = (0.02, 0.03, 0.05, 0.1, 0.2)  # prior sd over the typical length of a prior mean
_MOST_TOKENS, _MOST_NOISE = 20_000, 8_000  # that an estimate reads
_FLOAT_UNIT = 2.0**-24
STEPS = (0.0, 0.1, 0.25, 0.5, 0.75, 1.0)  # how far from prior to posterior mean


class TextParts(NamedTuple):
    """The documents that can be split, their rows in the input, and their three parts."""

    rows: np.ndarray  # (n_documents,)
    prior: Encoded  # A: builds the prior
    sample: Encoded  # B: what the bound is computed on
    held_out: Encoded  # H: held out

    @property
    def n_sample(self) -> np.ndarray:
        return np.diff(self.sample.offsets)


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
    n_prior = np.clip(np.rint(share_prior * n), 1, np.maximum(n - 1, 1)).astype(np.int64)
    n_held_out = np.minimum(np.floor(share_held_out * n), n - n_prior - 1).astype(np.int64)
    n_held_out = np.maximum(n_held_out, 0)
    document = np.repeat(np.arange(n.size), n)
    shuffled = encoded.ids[np.argsort(document + rng.random(encoded.ids.size), kind="stable")]
    place = np.arange(encoded.ids.size) - np.repeat(encoded.offsets[:-1], n)
    whole = n[document] >= 2
    first = place < n_prior[document]
    last = place >= (n - n_held_out)[document]
    sizes = (n_prior[rows], (n - n_prior - n_held_out)[rows], n_held_out[rows])
    masks = (first, ~first & ~last, last & ~first)
    parts = [Encoded.from_lengths(shuffled[whole & m], size) for m, size in zip(masks, sizes)]
    return TextParts(rows, *parts)


def join(first: Encoded, second: Encoded) -> Encoded:
    """The documents with the tokens of both parts."""
    sizes = [np.diff(part.offsets) for part in (first, second)]
    document = np.concatenate([np.repeat(np.arange(n.size), n) for n in sizes])
    ids = np.concatenate([first.ids, second.ids])[np.argsort(document, kind="stable")]
    return Encoded.from_lengths(ids, sizes[0] + sizes[1])


def choose(
    near: np.ndarray,
    far: np.ndarray,
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

    An estimate on some tokens and some negatives: it only has to rank. `near` and `far` are the
    prior's and the posterior's means, `n` the size of the sample the bound will be computed on,
    `budget` = ln(xi(n) / delta), and ln(1 / delta) for a step of 0, which learns nothing from the
    sample. The KL of a step t is t^2 |far - near|^2 / (2 variance).
    """
    A_hat, p_noise, rng, bias = sample.A_hat, sample.p_noise, sample.rng, sample.bias
    document, word = some_tokens(tokens, _MOST_TOKENS, rng)
    table = np.asarray(A_hat[word], dtype=np.float32)
    norms = np.linalg.norm(table, axis=1).astype(float)
    at_near = np.einsum("ij,ij->i", near[document], table).astype(float)
    at_far = np.einsum("ij,ij->i", far[document], table).astype(float)
    # Pairs of a document, drawn by its number of tokens, and a negative.
    noise_documents = rng.choice(document, _MOST_NOISE)
    noise_table = np.asarray(A_hat[rng.choice(p_noise.size, _MOST_NOISE, p=p_noise)], np.float32)
    noise_norms = np.linalg.norm(noise_table, axis=1).astype(float)
    noise_near = np.einsum("ij,ij->i", near[noise_documents], noise_table).astype(float)
    noise_far = np.einsum("ij,ij->i", far[noise_documents], noise_table).astype(float)
    distance = ((far - near).astype(float) ** 2).sum()
    length = np.sqrt((near.astype(float) ** 2).sum(axis=1).mean())
    settings, positives, noises, prices = [], [], [], []
    for variance in variances:
        sd = np.sqrt(variance)
        margin = 0.4 * A_hat.shape[1] * _FLOAT_UNIT * length / sd
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
            settings.append((float(variance), float(t)))
    bounds = 0.5 * kl_inverse(np.minimum(positives, 1.0), np.array(prices) / n)
    bounds = bounds + 0.5 * np.minimum(1.0, noises)
    return settings[int(np.argmin(bounds))]
