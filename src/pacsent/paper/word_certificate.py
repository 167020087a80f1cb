"""Certificate A: further words of a document against noise, if words were independent draws."""

import math
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from pacsent.bounds import pac_bayes as bounds
from pacsent.bounds.rounding import percent
from pacsent.paper import token_parts
from pacsent.paper.encoder_certificate import ROUNDING, Sample, check_sample, prepare, vectors_of
from pacsent.paper.gibbs_certificate import (
    BOUND_NAMES,
    GibbsOptions,
    GibbsPosterior,
    WordRiskCertificate,
    given_posterior,
    steps,
)
from pacsent.paper.token_parts import TextParts
from pacsent.paper.word_calibration import calibrate
from pacsent.progress import bar
from pacsent.sentences.solvers.gaussians import kl_gaussians
from pacsent.sentences.solvers.risks import noise_risk, token_errors, token_margin
from pacsent.text.encoded import Encoded
from pacsent.threads import n_threads


@dataclass(frozen=True, kw_only=True)
class WordCertificate(WordRiskCertificate):
    """Kind A: a further word of one of the documents, if words were independent draws.

    `positive_error_upper` bounds the risk for true words alone.
    """

    kind: ClassVar[str] = "A"
    options_class: ClassVar[type[GibbsOptions]] = GibbsOptions
    unit: ClassVar[str] = "words"
    assumption: ClassVar[str] = (
        "the words of a document are independent draws from the document's own distribution, which "
        "is false for real text (the words that follow in real documents violate this bound), and "
        "the text was not used to train the word vectors or to select the noise distribution."
    )
    needs_texts: ClassVar[tuple[str, ...]] = (*WordRiskCertificate.needs_texts, "n_documents")

    n_documents: int
    positive_error_upper: float = math.nan

    def recompute(self) -> dict[str, Any]:
        bound = self.bound_on_words()
        noise = min(1.0, self.noise_risk + self.noise_margin)
        bound_on_both = 0.5 * (bound + noise) * (1 + ROUNDING)
        return {
            "positive_error_upper": bound,
            "error_upper": min(1.0, bound_on_both),
        }

    def _check(self) -> None:
        super()._check()
        if self.bound_name not in BOUND_NAMES:
            self._refuse("bound_name", f"one of {BOUND_NAMES}")
        if self.bound_name == "chernoff" and self.kl > 0:
            self._refuse("kl", "0 for Chernoff's bound")
        if self.n_documents > self.n:
            self._refuse("n_documents", f"at most {self.n}, the number of words")

    def measure_again(self, sample: Sample) -> "WordCertificate":
        certificate, _ = measure(sample)
        return certificate

    def summary(self) -> str:
        return (
            f"Certificate A: with {self.confidence} confidence, a classifier that tells a further "
            "word of one of these documents, if words were independent, from a random word, by the "
            f"document's vector, is wrong at most {percent(self.error_upper)} of the "
            f"time (guessing: {100 * self.trivial_value:.4g}%). {self.certified_distribution()}"
        )

    def theorem_1(self) -> str:
        return f"on true words, {super().theorem_1()}"

    def parts(self) -> str:
        noise = f" on true words, {self.noise_risk:.4f} on noise (exact)"
        return f"{noise}{super().parts()}, in {self.n_documents:,} documents"

    @property
    def observed(self) -> float:
        noise = self.noise_risk + self.noise_margin
        return 0.5 * (self.empirical_risk + noise)

    def why(self) -> str:
        if self.observed < self.trivial_value:
            return super().why()
        part = "true words" if self.empirical_risk > self.noise_risk else "noise"
        return f"{super().why()} Most of it is on {part}: choose another bias."


def certify_words(encoder: Any, texts: Any, **options: Any) -> WordCertificate:
    """Certificate A: further words of these documents, if words were independent draws.

    Parameters
    ----------
    encoder, texts
        As in `certify_encoder`.
    **options
        Those of `GibbsOptions`.

    Returns
    -------
    WordCertificate

    Examples
    --------
    >>> from pacsent.paper.simulation import SETTINGS, Language
    >>> encoder, texts = Language(SETTINGS["topics"]).sample()
    >>> bool(certify_words(encoder, texts, random_state=0).verify())
    True
    """
    sample = prepare(encoder, texts, GibbsOptions(**options))
    certificate, _ = measure(sample)
    return certificate


class _Prior(NamedTuple):
    """The prior of the documents' vectors, as its part of the text decides it."""

    encoder: object
    means: np.ndarray  # calibrated, (n_documents, n_dims)
    variance: float
    scale: float
    shift: np.ndarray

    def calibrate(self, means: np.ndarray) -> np.ndarray:
        """Vectors of documents in the coordinates of the classifier."""
        return _calibrate(means, self.scale, self.shift)


def _calibrate(means: np.ndarray, scale: float, shift: np.ndarray) -> np.ndarray:
    calibrated = scale * means + shift
    return calibrated.astype(np.float32)


def measure(sample: Sample) -> tuple[WordCertificate, GibbsPosterior]:
    """Certificate A, and the posteriors it is about."""
    options = sample.options
    encoded = sample.encoded
    parts = token_parts.split_tokens(encoded, options.split, options.test_size, sample.rng)
    check_sample(parts.sample.ids.size, encoded)

    n = int(parts.sample.ids.size)
    complexity = bounds.ln_xi(n) - math.log(sample.delta_each)
    prior = _prior_of(sample, parts.prior, n, complexity)

    # Staying at the prior, which needs no ln xi(n), is one of two branches unless it is fixed.
    sample = sample.corrected(branches=options.n_branches)
    complexity = bounds.ln_xi(n) - math.log(sample.delta_each)

    # From here on the sample is read; Q may depend on it in any way.
    mu, var_Q, step = _posterior_of(sample, parts, prior, complexity)
    var_P = np.full(len(mu), prior.variance)

    # At the prior by the choice among the steps, which is corrected for.
    is_at_prior = step is not None and np.array_equal(mu, prior.means)
    kl = 0.0
    if not is_at_prior:
        document_kls = kl_gaussians(mu, var_Q, prior.means, var_P)  # (n_documents,)
        kl = float(document_kls.sum()) * (1 + 1e-10)
        has_other_variances = not np.array_equal(var_Q, var_P)
        kl += 1e-13 * mu.size * float(has_other_variances)

    # The risk on true words, of tokens, and on negatives, of documents.
    weight = parts.n_sample / n  # (n_documents,)
    errors = token_errors(mu, var_Q, parts.sample, sample.A_hat, bias=sample.bias)
    margin_on_words = weight @ token_margin(mu, var_Q)
    risk_on_words = float(errors.mean() + margin_on_words) * (1 + ROUNDING)
    with bar("noise", total=len(mu), unit="documents", enabled=options.verbose) as progress:
        noise, margin = noise_risk(
            mu,
            var_Q,
            sample.A_hat,
            sample.p_noise,
            bias=sample.bias,
            n_jobs=n_threads(None),
            progress=progress,
        )
    risk_on_noise = float(weight @ noise)  # weights may sum to just above 1
    margin_on_noise = float(weight @ margin) * (1 + ROUNDING) + 1e-12

    held_out: dict[str, Any] = {}
    n_held_out = int(parts.held_out.ids.size)
    if n_held_out:
        fresh_errors = token_errors(mu, var_Q, parts.held_out, sample.A_hat, bias=sample.bias)
        held_out["held_out_risk"] = _held_out_risk(parts, fresh_errors, noise)
        held_out["n_held_out"] = n_held_out

    # Nothing was learned from the sample at the prior: Chernoff's bound needs no ln xi(n).
    bound_name = "chernoff" if is_at_prior else "kl inverse with xi(n)"
    posterior = options.posterior
    if isinstance(posterior, tuple):
        posterior = "given"
    n_documents = int(parts.rows.size)
    certificate = sample.certificate(
        WordCertificate,
        empirical_risk=min(1.0, risk_on_words),
        kl=kl,
        bound_name=bound_name,
        n=n,
        noise_risk=min(1.0, risk_on_noise),
        noise_margin=margin_on_noise,
        bias=sample.bias,
        prior_variance=prior.variance,
        scale=prior.scale,
        shift_norm=float(np.linalg.norm(prior.shift)),
        step=step,
        posterior=posterior,
        n_documents=n_documents,
        n_left_out=encoded.n_sentences - n_documents,
        **held_out,
    )
    gibbs = GibbsPosterior(
        means=mu,
        variances=var_Q,
        prior_means=prior.means,
        prior_variances=var_P,
        bias=sample.bias,
        p_noise=sample.p_noise,
        parts=parts,
        scale=prior.scale,
        shift=prior.shift,
    )
    return certificate, gibbs


def _held_out_risk(parts: TextParts, errors: np.ndarray, noise: np.ndarray) -> float:
    """The risk on tokens that nothing read, with documents weighted as in the sample.

    `errors` are those of the held-out tokens, `noise` the risks of the documents for negatives.
    """
    n_fresh = np.diff(parts.held_out.offsets)
    mean_errors = token_parts.mean_by_document(errors, n_fresh)

    # Documents without held-out tokens do not count.
    weight = parts.n_sample * (n_fresh > 0)
    weight = weight / weight.sum()
    risk_on_words = float(weight @ mean_errors)
    risk_on_noise = float(weight @ noise)
    return 0.5 * (risk_on_words + risk_on_noise)


def _prior_of(sample: Sample, tokens: Encoded, n: int, complexity: float) -> _Prior:
    """The prior, from its part of the text alone."""
    options = sample.options
    encoder = sample.fitted(tokens)
    inner = token_parts.split_tokens(tokens, 0.75, 0.0, sample.rng)
    n_inner = inner.sample.ids.size

    vectors = vectors_of(encoder, tokens)  # (n_documents, n_dims)
    inner_vectors = None
    scale = 1.0
    shift = np.zeros(vectors.shape[1])
    if inner.rows.size:
        inner_vectors = vectors_of(encoder, inner.prior)
        scale, shift = calibrate(
            inner_vectors, inner.sample, sample.A_hat, sample.p_noise, sample.bias, sample.rng
        )

    variance = float(options.prior_variance or 0)
    means = _calibrate(vectors, scale, shift)
    prior = _Prior(encoder, means, variance, scale, shift)
    if options.prior_variance is not None:
        return prior

    squares = prior.means.astype(float) ** 2
    square_lengths = squares.sum(axis=1)  # (n_documents,)
    length = max(np.sqrt(square_lengths.mean()), 1e-6)
    variances = [float((spread * length) ** 2) for spread in token_parts.SPREADS]
    if inner_vectors is None:
        middle = variances[len(variances) // 2]
        return prior._replace(variance=middle)

    # The sample is larger than this inner one: the complexity is scaled to match.
    budget = complexity * n_inner / n
    budget_of_staying = -math.log(sample.delta_each) * n_inner / n
    variance, _ = token_parts.choose(
        prior.calibrate(inner_vectors),
        prior.means[inner.rows],
        inner.sample,
        sample,
        variances=variances,
        steps=token_parts.STEPS,  # whatever `posterior` is: the prior does not depend on it
        n=max(1, n_inner),
        budget=budget,
        budget_of_staying=budget_of_staying,
    )
    return prior._replace(variance=variance)


def _posterior_of(
    sample: Sample, parts: TextParts, prior: _Prior, complexity: float
) -> tuple[np.ndarray, np.ndarray, float | None]:
    """Means and variances of the posterior, and its step from the prior; None if it is given."""
    options = sample.options
    if isinstance(options.posterior, tuple):
        shape = (sample.n_texts, prior.means.shape[1])
        rows = sample.rows[parts.rows]
        means, variances = given_posterior(options.posterior, shape, rows)
        calibrated_variances = prior.scale**2 * variances
        return prior.calibrate(means), calibrated_variances, None

    # Where a step of 1 arrives: at the vectors of all the tokens read.
    learned_means = prior.means
    if options.posterior != "prior":
        read = token_parts.join(parts.prior, parts.sample)
        learned_means = prior.calibrate(vectors_of(prior.encoder, read))

    _, step = token_parts.choose(
        prior.means,
        learned_means,
        parts.sample,
        sample,
        variances=[prior.variance],
        steps=steps(options.posterior),
        n=int(parts.sample.ids.size),
        budget=complexity,
        budget_of_staying=-math.log(sample.delta_each),
    )
    mu = prior.means
    if step != 0:
        mu = (1 - step) * prior.means + step * learned_means
    var_Q = np.full(len(mu), prior.variance)
    return mu.astype(np.float32), var_Q, step
