"""Certificate C: the squared distance between a document's vector and a further word of it.

The prior's part of the text is read first, everything is chosen by that alone, and only then is the
sample read: Theorem 27 of docs/theory.md.
"""

import math
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
from scipy import sparse

from pacsent.bounds.rounding import rounded_up
from pacsent.paper import token_parts
from pacsent.paper.encoder_certificate import ROUNDING, Sample, check_sample, prepare, vectors_of
from pacsent.paper.gibbs_certificate import (
    GibbsCertificate,
    GibbsOptions,
    GibbsPosterior,
    given_posterior,
)
from pacsent.paper.token_parts import TextParts
from pacsent.sentences.solvers.gaussians import kl_gaussians
from pacsent.text.encoded import Encoded

# max over 0 <= x <= 1 of (1 + x)^4/32 - x^2/2, at x = sqrt(5) - 2
KAPPA = (5 * math.sqrt(5) - 11) / 4

# Prior variances to choose from, as fractions of the mean squared distance per dimension between a
# document's words and its prior mean.
_PRIOR_VARIANCE_FACTORS = (1e-3, 1e-2, 0.1, 0.5)

# Inner products of documents and words that are computed at once: 64 MB of float32.
_BLOCK_PRODUCTS = 16_000_000


class Distances(NamedTuple):
    """Moments of D_s, the distance of the farthest word from the prior's mean of a document."""

    mean_square: float  # sum_s n_s D_s^2 / n
    mean_fourth: float  # sum_s n_s D_s^4 / n
    largest_square: float  # max_s n_s D_s^2

    @classmethod
    def of(cls, n_s: np.ndarray, D: np.ndarray) -> "Distances":
        """Of documents with n_s tokens each."""
        n = float(np.sum(n_s))
        squares = n_s * D**2  # (n_documents,)
        return cls(
            mean_square=float(squares.sum() / n),
            mean_fourth=float((squares * D**2).sum() / n),
            largest_square=float(squares.max()),
        )


def squared_loss_complexity(
    lam: float, n: int, delta: float, variance: float, n_dims: int, distances: Distances
) -> float:
    """Complexity that Theorem 27 adds to the KL before dividing by lam; infinite for a large lam.

    With x_s = lam^2 n_s D_s^2 variance / n^2 it has a sum of -ln(1 - x_s), which is at most the sum
    of x_s times -ln(1 - largest) / largest. Rounded up.
    """
    scale = lam**2 * variance / n
    largest = scale * distances.largest_square / n
    if not largest < 1:
        return math.inf

    factor = 1.0
    if largest > 0:
        factor = -math.log1p(-largest) / largest
    spread = KAPPA * lam**2 * distances.mean_fourth / n
    sum_of_logarithms = 0.5 * n_dims * factor * scale * distances.mean_square
    total = -math.log(delta) + spread + sum_of_logarithms
    return float(total * (1 + 1e-10))


@dataclass(frozen=True, kw_only=True)
class SquaredCertificate(GibbsCertificate):
    """Kind C: half the squared distance between a document's vector and a further word.

    `lam` is the trade-off between the empirical risk and the KL, chosen by the prior's part;
    `constant_risk` the measured risk of answering the average word vector of the language; the
    moments of the distances to the farthest word are those of `Distances`.
    """

    kind: ClassVar[str] = "C"
    options_class: ClassVar[type[GibbsOptions]] = GibbsOptions
    unit: ClassVar[str] = "words"
    assumption: ClassVar[str] = (
        "the words of a document are independent draws from the document's own distribution, which "
        "is false for real text, and the text was not used to train the word vectors."
    )
    unbounded: ClassVar[tuple[str, ...]] = ("error_upper", "empirical_risk")
    needs_texts: ClassVar[tuple[str, ...]] = (
        *GibbsCertificate.needs_texts,
        *("constant_risk", "n_documents", "largest_square"),
    )

    n_documents: int
    lam: float
    n_dims: int
    constant_risk: float
    mean_square: float
    mean_fourth: float
    largest_square: float

    @property
    def trivial_value(self) -> float:
        return self.constant_risk

    @property
    def complexity(self) -> float:
        """The complexity that is added to the KL before it is divided by `lam`."""
        moments = Distances(self.mean_square, self.mean_fourth, self.largest_square)
        return squared_loss_complexity(
            self.lam, self.n, self.delta_each, self.prior_variance, self.n_dims, moments
        )

    def recompute(self) -> dict[str, Any]:
        total = self.empirical_risk + (self.kl + self.complexity) / self.lam
        return {"error_upper": total * (1 + ROUNDING)}

    def _check(self) -> None:
        super()._check()
        if self.n_documents > self.n:
            self._refuse("n_documents", f"at most {self.n}, the number of words")

        # The largest of n_documents terms lies between their mean and their sum.
        total = self.n * self.mean_square
        mean = total / self.n_documents
        if not mean * (1 - 1e-9) <= self.largest_square <= total * (1 + 1e-9):
            self._refuse("largest_square", f"between {mean} and {total}")

        if not self.mean_square**2 * (1 - 1e-9) <= self.mean_fourth:
            self._refuse("mean_fourth", f"at least {self.mean_square**2}")

        if not math.isfinite(self.complexity):
            self._refuse("lam", "small enough for the complexity to be finite")

    def measure_again(self, sample: Sample) -> "SquaredCertificate":
        return measure(sample)[0]

    def summary(self) -> str:
        return (
            f"Certificate C: with {self.confidence} confidence, half the squared distance between "
            "a document's vector and a further word of it, if words were independent, is at most "
            f"{rounded_up(self.error_upper)} on average (the average word vector: "
            f"{self.trivial_value:.4g}). {self.certified_distribution()}"
        )

    def parts(self) -> str:
        return f"{super().parts()}, in {self.n_documents:,} documents"

    def why(self) -> str:
        if self.empirical_risk >= self.trivial_value:
            return super().why()

        if self.complexity > self.kl:
            return f"the complexity = {self.complexity:.4g} nats is large for n = {self.n:,}."
        return f"kl = {self.kl:.4g} nats is large for n = {self.n:,}."


def certify_squared_loss(encoder: Any, texts: Any, **options: Any) -> SquaredCertificate:
    """Certificate C: the squared loss on further words, if words were independent draws.

    Parameters
    ----------
    encoder, texts
        As in `pacsent.certify_encoder`.
    **options
        Those of `GibbsOptions`.

    Returns
    -------
    SquaredCertificate

    Examples
    --------
    >>> from pacsent.paper.simulation import SETTINGS, Language
    >>> encoder, texts = Language(SETTINGS["topics"]).sample()
    >>> bool(certify_squared_loss(encoder, texts, random_state=0).verify())
    True
    """
    return measure(prepare(encoder, texts, GibbsOptions(**options)))[0]


def measure(sample: Sample) -> tuple[SquaredCertificate, GibbsPosterior]:
    """Certificate C, in squared loss, and the posterior it is about."""
    options = sample.options
    encoded = sample.encoded
    parts = token_parts.split_tokens(encoded, options.split, options.test_size, sample.rng)
    check_sample(parts.sample.ids.size, encoded)

    n_s = parts.n_sample.astype(float)  # (n_documents,)
    n = int(n_s.sum())
    A_hat = np.asarray(sample.A_hat, dtype=np.float32)
    n_dims = A_hat.shape[1]
    m, D, lam, tau = _prior_of(sample, parts, A_hat)
    var_P = np.full(len(m), tau)

    # From here on the sample is read.
    centre, square = _word_moments(parts.sample, A_hat)
    if isinstance(options.posterior, tuple):
        shape = (sample.n_texts, n_dims)
        rows = sample.rows[parts.rows]
        mu, var_Q = given_posterior(options.posterior, shape, rows)
        mu = mu.astype(float)
        posterior = "given"
    elif options.posterior == "prior":
        mu = m
        var_Q = var_P
        posterior = "prior"
    else:
        # The posterior that minimises this very bound is Gaussian: the Gibbs posterior.
        weight = lam * n_s / n  # (n_documents,)
        precision = 1.0 / tau + weight
        mu = (m / tau + weight[:, None] * centre) / precision[:, None]
        var_Q = 1.0 / precision
        posterior = "bound"

    # Mean over the document's tokens of |A_w - mu|^2 / 2, plus n_dims var_Q / 2.
    square_distance = ((centre - mu) ** 2).sum(axis=1)
    loss = 0.5 * (square + square_distance + n_dims * var_Q)
    empirical_risk = float((n_s * loss).sum() / n)
    kl = float(kl_gaussians(mu, var_Q, m, var_P).sum())

    # The loss of one vector for all documents: the mean of the negatives' vectors.
    average_word = sample.p_noise @ np.asarray(A_hat, dtype=float)
    constant_distance = ((centre - average_word) ** 2).sum(axis=1)
    constant_loss = 0.5 * (square + constant_distance)

    held_out = {}
    n_fresh = np.diff(parts.held_out.offsets)
    if n_fresh.sum():
        rows = np.flatnonzero(n_fresh > 0)
        fresh_centre, fresh_square = _word_moments(parts.held_out.take(rows), A_hat)
        fresh_distance = ((fresh_centre - mu[rows]) ** 2).sum(axis=1)
        fresh_loss = 0.5 * (fresh_square + fresh_distance + n_dims * var_Q[rows])
        held_out = {
            "held_out_risk": float((n_s[rows] * fresh_loss).sum() / n_s[rows].sum()),
            "n_held_out": int(n_fresh.sum()),
        }

    certificate = sample.certificate(
        SquaredCertificate,
        constant_risk=float((n_s * constant_loss).sum() / n),
        empirical_risk=empirical_risk * (1 + 1e-10),
        kl=kl * (1 + 1e-10) + 1e-13 * mu.size,
        n=n,
        lam=lam,
        n_dims=n_dims,
        **D._asdict(),
        prior_variance=tau,
        posterior=posterior,
        n_documents=int(parts.rows.size),
        n_left_out=int(encoded.n_sentences - parts.rows.size),
        **held_out,
    )
    gibbs = GibbsPosterior(
        means=mu,
        variances=var_Q,
        prior_means=m,
        prior_variances=var_P,
        bias=0.0,
        p_noise=sample.p_noise,
        parts=parts,
        scale=1.0,
        shift=np.zeros(n_dims),
    )
    return certificate, gibbs


def farthest_word(A_hat: np.ndarray, m: np.ndarray) -> np.ndarray:
    """max_u |A_u - m_s| for each row of m; rounded up."""
    # |A_u - m_s|^2 = |A_u|^2 - 2 A_u.m_s + |m_s|^2
    word_norms = np.einsum("ij,ij->i", A_hat, A_hat, dtype=float)
    mean_norms = np.einsum("ij,ij->i", m, m)

    largest = np.empty(len(m))
    single = m.astype(np.float32)
    n_block = max(1, _BLOCK_PRODUCTS // len(A_hat))
    for start in range(0, len(m), n_block):
        block = slice(start, start + n_block)
        products = single[block] @ A_hat.T  # (n_block, n_words)
        largest[block] = (word_norms - 2.0 * products).max(axis=1)

    # The dot products are off by (n_dims + 2) units of float32, as in noise_risk.
    n_dims = A_hat.shape[1]
    rounding = 2.0 * (n_dims + 2) * 2.0**-23 * np.sqrt(word_norms.max() * mean_norms)
    square = np.maximum(largest + mean_norms + rounding, 0.0)
    return np.sqrt(square) * (1 + 1e-9)


def _word_moments(encoded: Encoded, A_hat: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean of the words' vectors, and mean squared distance from that mean, of each document."""
    n = np.diff(encoded.offsets)
    weights = np.repeat(1.0 / n, n)  # (n_tokens,)
    frequencies = sparse.csr_matrix(
        (weights, encoded.ids, encoded.offsets), shape=(n.size, len(A_hat))
    )

    # Only the rows of words that occur are made float64.
    occurring = np.unique(encoded.ids)
    frequencies = frequencies[:, occurring]  # (n_documents, n_occurring)
    vectors = np.asarray(A_hat[occurring], dtype=float)  # (n_occurring, n_dims)

    centre = frequencies @ vectors
    mean_norm = frequencies @ np.einsum("ij,ij->i", vectors, vectors)
    square = mean_norm - (centre**2).sum(axis=1)
    return centre, np.maximum(square, 0.0)


def _prior_of(
    sample: Sample, parts: TextParts, A_hat: np.ndarray
) -> tuple[np.ndarray, Distances, float, float]:
    """(means, distances, lam, tau) of the prior, chosen by its part of the text alone.

    The means are scale * vector + shift, the least-squares fit to words of an inner sample. lam and
    the variance tau have the smallest estimated bound, with the posterior integrated out:

    min_Q R_hat + KL/lam = const + (1/lam) sum_s [e_s/(1 + e_s tau) |centre_s - m_s|^2 / 2
                                                 + n_dims/2 ln(1 + e_s tau)],  e_s = lam n_s / n
    """
    n_s = parts.n_sample.astype(float)
    n = int(n_s.sum())
    n_dims = A_hat.shape[1]
    encoder = sample.fitted(parts.prior)
    m = vectors_of(encoder, parts.prior).astype(float)  # (n_documents, n_dims)

    # Calibration: vectors of one part of the prior's tokens, words of another.
    inner = token_parts.split_tokens(parts.prior, 0.75, 0.0, sample.rng)
    if inner.rows.size >= 2:
        x = vectors_of(encoder, inner.prior).astype(float)
        y, _ = _word_moments(inner.sample, sample.A_hat)
        weight = inner.n_sample / inner.n_sample.sum()

        x_bar = weight @ x
        y_bar = weight @ y
        variance = weight @ ((x - x_bar) ** 2).sum(axis=1)
        covariance = weight @ ((x - x_bar) * (y - y_bar)).sum(axis=1)
        slope = covariance / max(variance, 1e-12)
        m = slope * (m - x_bar) + y_bar
    D = Distances.of(n_s, farthest_word(A_hat, m))

    # |centre_s - m_s|^2 as another division of the same tokens estimates it.
    inner = token_parts.split_tokens(parts.prior, 0.75, 0.0, sample.rng)
    distances = np.ones(1)
    inner_n_s = n_s[:1]
    if inner.rows.size:
        inner_centre, _ = _word_moments(inner.sample, A_hat)
        distances = ((inner_centre - m[inner.rows]) ** 2).sum(axis=1)
        inner_n_s = n_s[inner.rows]
    scale = n_s.sum() / max(inner_n_s.sum(), 1.0)  # from the inner documents to all

    mean_distance = np.mean(distances)
    taus = [float(mean_distance * factor / n_dims) for factor in _PRIOR_VARIANCE_FACTORS]
    if sample.options.prior_variance is not None:
        taus = [sample.options.prior_variance]
    lams = n / D.mean_square * 2.0 ** np.arange(-14, 9, 0.5)

    best_value = math.inf
    best_lam = 1.0
    best_tau = 1.0
    for tau in taus:
        for lam in lams:
            e = lam * inner_n_s / n
            distance_terms = 0.5 * e / (1 + e * tau) * distances
            log_terms = 0.5 * n_dims * np.log1p(e * tau)
            terms = distance_terms + log_terms  # (n_inner_documents,)
            complexity = squared_loss_complexity(lam, n, sample.delta_each, tau, n_dims, D)
            value = (complexity + scale * terms.sum()) / lam
            if value < best_value:
                best_value = value
                best_lam = float(lam)
                best_tau = float(tau)
    return m, D, best_lam, best_tau
