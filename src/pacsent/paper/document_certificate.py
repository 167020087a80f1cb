"""Certificate B: one document is one example, and w-PB-neg's posteriors of words are its Q."""

import math
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
from scipy import sparse

from pacsent.encoders.methods.w_pb_neg import WordPBNegVectorizer
from pacsent.guarantees.calibration import calibrate
from pacsent.guarantees.certificate import mean_bound, pack_losses, unpack_losses
from pacsent.guarantees.encoder_certificate import (
    ROUNDING,
    CertifyOptions,
    EncoderCertificate,
    Sample,
    divided,
    prepare,
)
from pacsent.maths import bounds
from pacsent.maths.gaussians import kl_gaussians
from pacsent.maths.risks import gibbs_risk, noise_risk, token_errors, token_margin
from pacsent.maths.rounding import percent
from pacsent.paper import token_parts
from pacsent.paper.gibbs_certificate import (
    BOUND_NAMES,
    GibbsOptions,
    GibbsPosterior,
    WordRiskCertificate,
    steps,
)
from pacsent.text.encoded import Encoded
from pacsent.threads import n_threads
from pacsent.words.vocabulary import Vocabulary


@dataclass(frozen=True, kw_only=True)
class DocumentOptions(GibbsOptions):
    """Options of kind B: those of `GibbsOptions`; split and holdout count documents."""

    split: float = 0.1


@dataclass(frozen=True, kw_only=True)
class DocumentCertificate(WordRiskCertificate):
    """Kind B: half of a new document's words against noise, by posteriors of words.

    Attributes
    ----------
    losses : str
        Of each document, where Q is the prior; empty where it was learned.
    """

    kind: ClassVar[str] = "B"
    options_class: ClassVar[type[CertifyOptions]] = DocumentOptions
    assumption: ClassVar[str] = (
        "documents are drawn independently from one distribution; nothing is assumed within a "
        "document. Word vectors, prior and noise distribution do not depend on them."
    )
    needs_texts: ClassVar[tuple[str, ...]] = (
        *WordRiskCertificate.needs_texts,
        "noise_risk", "noise_margin",
    )  # fmt: skip

    losses: str

    def recompute(self) -> dict[str, Any]:
        if self.kl == 0:
            return {
                "empirical_risk": float(unpack_losses(self.losses).mean()),
                "bound": mean_bound(self.losses, self.delta_each),
            }
        return {"bound": self.bound_on_words()}

    def _check(self) -> None:
        super()._check()
        names = BOUND_NAMES[1:] if self.kl else ("betting",)
        if self.bound_name not in names:
            self._refuse("bound_name", f"one of {names}")
        size = unpack_losses(self.losses).size
        if size != (0 if self.kl else self.n):
            self._refuse("n", f"{size}, the number of losses")

    def measure_again(self, sample: Sample) -> EncoderCertificate:
        return measure(sample)[0]

    def sentence(self) -> str:
        return (
            f"Certificate B: with {self.confidence} confidence, on a new document from the same "
            "source a classifier that tells one half of the document's words, chosen at random, "
            f"from random words, by a vector made of the other half, is wrong at "
            f"most {percent(self.bound)} of the time (guessing: {100 * self.trivial_value:.4g} %)."
        )


def certify_documents(encoder: Any, texts: Any, **options: Any) -> DocumentCertificate:
    """Certificate B: new documents, by w-PB-neg's posteriors of words.

    The arguments are those of `certify_encoder`; the options are those of `DocumentOptions`.

    Examples
    --------
    >>> from pacsent.paper.simulation import SETTINGS, Language
    >>> encoder, texts = Language(SETTINGS["topics"]).sample()
    >>> bool(certify_documents(encoder, texts, random_state=0, posterior="prior").verify())
    True
    """
    return measure(prepare(encoder, texts, DocumentOptions(**options)))[0]


class _Words(NamedTuple):
    """Posterior and prior of every word, in float64."""

    means: np.ndarray  # (n_words, n_dims)
    variances: np.ndarray  # (n_words,)
    prior_means: np.ndarray
    prior_variances: np.ndarray
    step: float | None = None

    @property
    def moved(self) -> np.ndarray:
        """Words whose posterior is not their prior."""
        changed = self.variances != self.prior_variances
        return np.flatnonzero(changed | (self.means != self.prior_means).any(axis=1))

    def kl(self) -> float:
        moved, total = self.moved, 0.0
        for rows in np.array_split(moved, max(1, moved.size // 8192)):
            total += float(
                kl_gaussians(
                    self.means[rows], self.variances[rows], self.prior_means[rows],
                    self.prior_variances[rows],
                ).sum()
            )  # fmt: skip
        return total * (1 + 1e-10) + 1e-13 * moved.size * self.means.shape[1] if moved.size else 0.0


def measure(sample: Sample) -> tuple[DocumentCertificate, GibbsPosterior]:
    """Certificate B, about new documents, and the posterior over words it is about."""
    options, encoded = sample.options, sample.encoded
    named = isinstance(options.posterior, tuple) or options.posterior == "prior"
    if not named and not isinstance(sample.encoder, WordPBNegVectorizer):
        raise ValueError(
            "kind 'B' certifies the words' posteriors of w-PB-neg. Got a "
            f"{type(sample.encoder).__name__} instead, which has none. Use certify_encoder for it, "
            "or posterior='prior' to certify the words' prior itself."
        )
    # in random order, as the betting bound needs it
    aside, rest, rows = divided(sample)
    documents = encoded.take(rows)
    # The prior is the source's alone, calibrated on documents set aside, with the prior's means.
    scale, shift = _calibrated(sample, encoded.take(np.sort(aside)))
    # staying at the prior, where any bound on a mean will do, is one of two branches unless fixed
    sample = sample.corrected(branches=options.n_branches)
    words = _word_posteriors(sample, documents, scale, shift)
    losses_of = _Measure(sample, words, scale, shift)
    risk, noise, margin, gibbs = losses_of(documents)
    held_out: dict = {}
    if rest.size:
        risk_rest, *_ = losses_of(encoded.take(np.sort(rest)))
        held_out = {"held_out_risk": float(risk_rest.mean()), "n_held_out": int(rest.size)}
    kl = words.kl()
    certificate = sample.certificate(
        DocumentCertificate,
        losses="" if kl else pack_losses(risk),
        bound_name=BOUND_NAMES[1] if kl else "betting",
        empirical_risk=min(1.0, float(risk.mean()) * (1 + ROUNDING)),
        kl=kl,
        n=int(rows.size),
        noise_risk=min(1.0, float(noise.mean())),  # a sum of shares may round above 1
        noise_margin=float(margin.mean()),
        bias=sample.bias,
        scale=scale,
        shift_norm=float(np.linalg.norm(shift)),
        posterior=(
            "prior"
            if not words.moved.size
            else "given"
            if isinstance(options.posterior, tuple)
            else options.posterior
        ),
        step=words.step,
        prior_variance=float(np.median(words.prior_variances)),
        n_left_out=int(encoded.n_sentences - rows.size - aside.size - rest.size),
        **held_out,
    )
    return certificate, gibbs


def _calibrated(sample: Sample, aside: Encoded):
    B_hat = np.asarray(sample.B_hat, dtype=float)
    if not aside.n_sentences:
        return 1.0, np.zeros(B_hat.shape[1])
    halves = token_parts.split_tokens(aside, 0.5, 0.0, sample.rng)
    means, _ = mixed(halves.prior, B_hat, np.zeros(len(B_hat)))
    return calibrate(means, halves.sample, sample.A_hat, sample.p_noise, sample.bias, sample.rng)


class _Measure:
    """Risks of documents: half of each makes its vector, the other half is scored."""

    def __init__(self, sample: Sample, words: _Words, scale, shift):
        self.sample, self.words, self.scale, self.shift = sample, words, scale, shift

    def __call__(self, documents: Encoded):
        sample, words, bias = self.sample, self.words, self.sample.bias
        halves = token_parts.split_tokens(documents, 0.5, 0.0, sample.rng)
        means, variances = mixed(halves.prior, words.means, words.variances)
        means, variances = self.scale * means + self.shift, self.scale**2 * variances
        errors = token_errors(means, variances, halves.sample, sample.A_hat, bias=bias)
        n = np.diff(halves.sample.offsets)
        positive = np.bincount(np.repeat(np.arange(n.size), n), errors, n.size) / n
        positive = np.minimum(1.0, positive + token_margin(means, variances))
        # the margin of noise_risk allows for this rounding of the means
        noise, margin = noise_risk(
            means.astype(np.float32), variances, sample.A_hat, sample.p_noise,
            bias=bias, n_jobs=n_threads(None),
        )  # fmt: skip
        risk = 0.5 * positive + 0.5 * np.minimum(1.0, noise + margin)
        gibbs = GibbsPosterior(
            means, variances, words.prior_means, words.prior_variances, bias, sample.p_noise,
            halves, self.scale, self.shift, word_means=words.means, word_variances=words.variances,
        )  # fmt: skip
        return risk, noise, margin, gibbs


def mixed(encoded: Encoded, mu_w: np.ndarray, var_w: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and variance of sum_v (c_v/n) h_v, one draw of h_v per word type."""
    n = np.diff(encoded.offsets)
    shares = sparse.csr_matrix(
        (np.repeat(1.0 / n, n), encoded.ids.copy(), encoded.offsets), shape=(n.size, len(mu_w))
    )
    shares.sum_duplicates()
    return shares @ mu_w, shares.multiply(shares) @ var_w


def source_variances(vocabulary: Vocabulary, scale: float) -> np.ndarray:
    """Prior variance of each word from source counts: scale * median(count) / count(w)."""
    counts = np.maximum(vocabulary.require_counts("the prior of the words"), 1).astype(float)
    return scale * np.median(counts) / counts


def _word_posteriors(sample: Sample, documents: Encoded, scale, shift) -> _Words:
    """Posterior and prior of every word; a learned one moves as far as the bound gains."""
    B_hat = np.asarray(sample.B_hat, dtype=float)
    posterior = sample.options.posterior
    scale_of_prior = sample.options.prior_variance or 0.01
    prior_var = source_variances(sample.words.vocabulary, scale_of_prior)
    if isinstance(posterior, tuple):
        means, spreads = _given(posterior, B_hat, prior_var)
        return _Words(means, spreads, B_hat, prior_var)
    steps(posterior)  # refuses other names
    if posterior == "prior":
        return _Words(B_hat, prior_var, B_hat, prior_var)
    learned = sample.fitted(documents)
    mu_w, var_w = B_hat.copy(), prior_var.copy()
    mu_w[learned.words_] = learned.word_means_
    if posterior == "vectorizer":
        var_w[learned.words_] = learned.word_variances_
        return _Words(mu_w, var_w, B_hat, prior_var)
    step = _best_step(sample, documents, mu_w, prior_var, scale, shift)
    return _Words(B_hat + step * (mu_w - B_hat), prior_var, B_hat, prior_var, step)


def _given(posterior, B_hat, prior_var):
    mu_w, var_w = (np.asarray(a, dtype=float) for a in posterior)
    if mu_w.shape != B_hat.shape or var_w.shape != prior_var.shape:
        raise ValueError(
            f"posterior must be means of shape {B_hat.shape} and variances of shape "
            f"{prior_var.shape}, one row per word, for kind 'B'. Got {mu_w.shape} and "
            f"{var_w.shape} instead."
        )
    if not np.isfinite(mu_w).all() or not (np.isfinite(var_w) & (var_w > 0)).all():
        raise ValueError(
            "posterior must have finite means and variances > 0. Got others instead. Without "
            "spread the exact KL is infinite."
        )
    return mu_w, var_w


def _best_step(sample: Sample, documents: Encoded, mu_w, prior_var, scale, shift):
    """How far from the prior's to the learned means; variances stay the prior's. An estimate."""
    B_hat = np.asarray(sample.B_hat, dtype=float)
    M = documents.n_sentences
    price = bounds.ln_xi(M) - math.log(sample.delta_each)
    rows = np.sort(sample.rng.choice(M, min(M, 300), replace=False))
    halves = token_parts.split_tokens(documents.take(rows), 0.5, 0.0, sample.rng)
    counts = sample.words.vocabulary.count(halves.sample)
    noise = sample.rng.choice(sample.p_noise.size, 400, p=sample.p_noise)
    kl = float((((mu_w - B_hat) ** 2).sum(axis=1) / (2 * prior_var)).sum())
    best = (math.inf, 0.0)
    for t in token_parts.STEPS:
        means, variances = mixed(halves.prior, B_hat + t * (mu_w - B_hat), prior_var)
        found = gibbs_risk(
            scale * means + shift, scale**2 * variances, counts, sample.A_hat,
            np.full(400, 1 / 400), bias=sample.bias, noise_words=noise,
        )  # fmt: skip
        risk = np.clip(found.risk, 0.0, 1.0)
        if t == 0:  # any bound on a mean will do: about what the betting bound gives
            spread = np.sqrt(2 * risk.var() * -math.log(sample.delta_each) / M)
            best = min(best, (float(risk.mean() + spread), t))
        else:
            price_t = (t * t * kl + price) / M
            best = min(best, (float(bounds.kl_inverse(float(risk.mean()), price_t)), t))
    return best[1]
