"""Certificate B: one document is one example, and w-PB-neg's posteriors of words are its Q."""

import math
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
from scipy import sparse

from pacsent.bounds import pac_bayes as bounds
from pacsent.bounds.means import betting
from pacsent.bounds.rounding import percent
from pacsent.paper import token_parts
from pacsent.paper.encoder_certificate import ROUNDING, Sample, divided, prepare
from pacsent.paper.gibbs_certificate import (
    BOUND_NAMES,
    GibbsOptions,
    GibbsPosterior,
    WordRiskCertificate,
    given_posterior,
)
from pacsent.paper.word_calibration import calibrate
from pacsent.sentences.methods.w_pb_neg import WordPBNegVectorizer
from pacsent.sentences.solvers.gaussians import kl_gaussians
from pacsent.sentences.solvers.risks import gibbs_risk, noise_risk, token_errors, token_margin
from pacsent.storage.tensor_files import pack_losses, unpack_losses
from pacsent.text.encoded import Encoded
from pacsent.threads import n_threads
from pacsent.words.vocabulary import Vocabulary

# Documents and negatives on which the step from the prior to the posterior is chosen.
_STEP_DOCUMENTS = 300
_STEP_NOISE = 400

_KL_BLOCK_WORDS = 8192  # words whose KL is computed at once, in float64


@dataclass(frozen=True, kw_only=True)
class DocumentOptions(GibbsOptions):
    """Options of kind B: those of `GibbsOptions`; split and test_size count documents."""

    prior_needs_tokens: ClassVar[bool] = False

    split: float = 0.1


@dataclass(frozen=True, kw_only=True)
class DocumentCertificate(WordRiskCertificate):
    """Kind B: half of a new document's words against noise, by posteriors of words.

    `losses` are those of each document where Q is the prior, empty where it was learned.
    """

    kind: ClassVar[str] = "B"
    options_class: ClassVar[type[DocumentOptions]] = DocumentOptions
    assumption: ClassVar[str] = (
        "these documents and new documents are drawn independently from one distribution (words "
        "within a document need not be), contain no near-duplicates, and were not used to train "
        "the word vectors or to select the prior and the noise distribution."
    )
    needs_texts: ClassVar[tuple[str, ...]] = (
        *WordRiskCertificate.needs_texts,
        *("noise_risk", "noise_margin"),
    )

    losses: str

    def recompute(self) -> dict[str, Any]:
        if self.kl != 0:
            return {"error_upper": self.bound_on_words()}

        losses = unpack_losses(self.losses)
        return {
            "empirical_risk": float(losses.mean()),
            "error_upper": float(betting(losses, self.delta_each)),
        }

    def _check(self) -> None:
        super()._check()
        names = BOUND_NAMES[1:] if self.kl else ("betting",)
        if self.bound_name not in names:
            self._refuse("bound_name", f"one of {names}")

        size = unpack_losses(self.losses).size
        expected_size = 0 if self.kl else self.n
        if size != expected_size:
            self._refuse("n", f"{size}, the number of losses")

    def measure_again(self, sample: Sample) -> "DocumentCertificate":
        return measure(sample)[0]

    def summary(self) -> str:
        return (
            f"Certificate B: with {self.confidence} confidence, on a new document from the same "
            "source a classifier that tells one half of the document's words, chosen at random, "
            "from random words, by a vector made of the other half, is wrong at most "
            f"{percent(self.error_upper)} of the time (guessing: {100 * self.trivial_value:.4g}%). "
            f"{self.certified_distribution()}"
        )


def certify_documents(encoder: Any, texts: Any, **options: Any) -> DocumentCertificate:
    """Certificate B: new documents, by w-PB-neg's posteriors of words.

    Parameters
    ----------
    encoder, texts
        As in `certify_encoder`; to certify learned posteriors, a w-PB-neg encoder.
    **options
        Those of `DocumentOptions`.

    Returns
    -------
    DocumentCertificate

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
        has_other_variance = self.variances != self.prior_variances
        has_other_mean = (self.means != self.prior_means).any(axis=1)
        return np.flatnonzero(has_other_variance | has_other_mean)

    def kl(self) -> float:
        """KL of all words, in nats, rounded up; 0 exactly if no word has moved."""
        moved = self.moved
        if not moved.size:
            return 0.0

        total = 0.0
        n_blocks = max(1, moved.size // _KL_BLOCK_WORDS)
        for rows in np.array_split(moved, n_blocks):
            kl_of_words = kl_gaussians(
                self.means[rows],
                self.variances[rows],
                self.prior_means[rows],
                self.prior_variances[rows],
            )
            total += float(kl_of_words.sum())
        n_dims = self.means.shape[1]
        return total * (1 + 1e-10) + 1e-13 * moved.size * n_dims


def measure(sample: Sample) -> tuple[DocumentCertificate, GibbsPosterior]:
    """Certificate B, about new documents, and the posterior over words it is about."""
    options = sample.options
    encoded = sample.encoded
    is_given = isinstance(options.posterior, tuple)
    needs_learner = not is_given and options.posterior != "prior"
    if needs_learner and not isinstance(sample.encoder, WordPBNegVectorizer):
        name = sample.encoder.method_name or type(sample.encoder).__name__
        raise ValueError(
            f"kind 'B' certifies the words' posteriors of w-PB-neg. Got {name} instead, which has "
            "none. Use the method w-PB-neg (in the shell --method w-PB-neg), certify_encoder "
            "without kind, or posterior='prior' to certify the words' prior itself."
        )

    # In random order, as the betting bound needs it.
    aside, fresh, rows = divided(sample)
    documents = encoded.take(rows)
    scale, shift = _calibration(sample, encoded.take(np.sort(aside)))

    # Staying at the prior, where any bound on a mean will do, is one of two branches unless fixed.
    sample = sample.corrected(branches=options.n_branches)
    words = _word_posteriors(sample, documents, scale, shift)
    risks, gibbs = _document_risks(sample, words, scale, shift, documents)

    held_out: dict[str, Any] = {}
    if fresh.size:
        fresh_documents = encoded.take(np.sort(fresh))
        fresh_risks, _ = _document_risks(sample, words, scale, shift, fresh_documents)
        held_out = {
            "held_out_risk": float(fresh_risks.risk.mean()),
            "n_held_out": int(fresh.size),
        }

    kl = words.kl()
    posterior = "given" if is_given else options.posterior
    if not words.moved.size:
        posterior = "prior"

    # Fractions may sum to just above 1 by rounding.
    empirical_risk = float(risks.risk.mean()) * (1 + ROUNDING)
    noise = float(risks.noise.mean())
    n_used = rows.size + aside.size + fresh.size
    certificate = sample.certificate(
        DocumentCertificate,
        losses="" if kl else pack_losses(risks.risk),
        bound_name=BOUND_NAMES[1] if kl else "betting",
        empirical_risk=min(1.0, empirical_risk),
        kl=kl,
        n=int(rows.size),
        noise_risk=min(1.0, noise),
        noise_margin=float(risks.noise_margin.mean()),
        bias=sample.bias,
        scale=scale,
        shift_norm=float(np.linalg.norm(shift)),
        posterior=posterior,
        step=words.step,
        prior_variance=float(np.median(words.prior_variances)),
        n_left_out=int(encoded.n_sentences - n_used),
        **held_out,
    )
    return certificate, gibbs


def _calibration(sample: Sample, documents: Encoded) -> tuple[float, np.ndarray]:
    """Scale and shift of the vectors, from documents set aside, with the prior's means.

    The prior is the source's alone, so that one half of each document is enough for its vector.
    """
    if not documents.n_sentences:
        return 1.0, np.zeros(sample.B_hat.shape[1])

    halves = token_parts.split_tokens(documents, 0.5, 0.0, sample.rng)
    B_hat = np.asarray(sample.B_hat, dtype=float)
    means, _ = mixed(halves.prior, B_hat, np.zeros(len(B_hat)))
    return calibrate(means, halves.sample, sample.A_hat, sample.p_noise, sample.bias, sample.rng)


class _DocumentRisks(NamedTuple):
    """Risks of documents, each (n_documents,)."""

    risk: np.ndarray  # true words and negatives count half each; rounded up
    noise: np.ndarray  # for negatives alone
    noise_margin: np.ndarray  # numerical error of that


def _document_risks(
    sample: Sample, words: _Words, scale: float, shift: np.ndarray, documents: Encoded
) -> tuple[_DocumentRisks, GibbsPosterior]:
    """Risks of documents: half of each makes its vector, the other half is scored."""
    halves = token_parts.split_tokens(documents, 0.5, 0.0, sample.rng)
    means, variances = mixed(halves.prior, words.means, words.variances)
    means = scale * means + shift  # (n_documents, n_dims)
    variances = scale**2 * variances  # (n_documents,)

    # True words: the mean over the other half.
    errors = token_errors(means, variances, halves.sample, sample.A_hat, bias=sample.bias)
    positive = token_parts.mean_by_document(errors, np.diff(halves.sample.offsets))
    positive = np.minimum(1.0, positive + token_margin(means, variances))

    # Negatives: exact; the margin allows for the rounding of the means to float32.
    noise, noise_margin = noise_risk(
        means.astype(np.float32),
        variances,
        sample.A_hat,
        sample.p_noise,
        bias=sample.bias,
        n_jobs=n_threads(None),
    )
    negative = np.minimum(1.0, noise + noise_margin)

    risk = 0.5 * positive + 0.5 * negative
    risks = _DocumentRisks(risk, noise, noise_margin)
    gibbs = GibbsPosterior(
        means=means,
        variances=variances,
        prior_means=words.prior_means,
        prior_variances=words.prior_variances,
        bias=sample.bias,
        p_noise=sample.p_noise,
        parts=halves,
        scale=scale,
        shift=shift,
        word_means=words.means,
        word_variances=words.variances,
    )
    return risks, gibbs


def mixed(encoded: Encoded, mu_w: np.ndarray, var_w: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and variance of sum_v (c_v/n) h_v, one draw of h_v per word type."""
    n = np.diff(encoded.offsets)
    weights = np.repeat(1.0 / n, n)  # (n_tokens,)
    frequencies = sparse.csr_matrix(
        (weights, encoded.ids.copy(), encoded.offsets), shape=(n.size, len(mu_w))
    )
    frequencies.sum_duplicates()
    squares = frequencies.multiply(frequencies)
    return frequencies @ mu_w, squares @ var_w


def source_variances(vocabulary: Vocabulary, scale: float) -> np.ndarray:
    """Prior variance of each word from source counts: scale * median(count) / count(w)."""
    counts = vocabulary.require_counts("the prior of the words")
    counts = np.maximum(counts, 1).astype(float)
    return scale * np.median(counts) / counts


def _word_posteriors(sample: Sample, documents: Encoded, scale: float, shift: np.ndarray) -> _Words:
    """Posterior and prior of every word; a learned one moves as far as the bound gains."""
    B_hat = np.asarray(sample.B_hat, dtype=float)
    posterior = sample.options.posterior
    prior_scale = sample.options.prior_variance or 0.01
    prior_var = source_variances(sample.words.vocabulary, prior_scale)
    if isinstance(posterior, tuple):
        means, variances = given_posterior(posterior, B_hat.shape)
        return _Words(means.astype(float), variances, B_hat, prior_var)
    if posterior == "prior":
        return _Words(B_hat, prior_var, B_hat, prior_var)

    # w-PB-neg under this very prior: under one of its own, with variances from the counts of these
    # documents, it would have spreads that have nothing to do with those of P, and an absurd KL.
    # The loss is a mean over documents, so that the data weigh as much as there are documents.
    learner = sample.unfitted()
    lam = learner.lam * documents.n_sentences
    learned_words, means, variances = learner.word_posteriors(documents, prior_var, lam)
    mu_w = B_hat.copy()
    mu_w[learned_words] = means
    if posterior == "vectorizer":
        var_w = prior_var.copy()
        var_w[learned_words] = variances
        return _Words(mu_w, var_w, B_hat, prior_var)

    step = _choose_step(sample, documents, scale, shift, mu_w, prior_var)
    mu_at_step = B_hat + step * (mu_w - B_hat)
    return _Words(mu_at_step, prior_var, B_hat, prior_var, step)


def _choose_step(
    sample: Sample,
    documents: Encoded,
    scale: float,
    shift: np.ndarray,
    mu_w: np.ndarray,
    prior_var: np.ndarray,
) -> float:
    """Step from the prior's to the learned means `mu_w`; variances stay the prior's.

    An estimate of the bound on some documents and some negatives.
    """
    rng = sample.rng
    B_hat = np.asarray(sample.B_hat, dtype=float)
    M = documents.n_sentences
    complexity = bounds.ln_xi(M) - math.log(sample.delta_each)
    square_distances = ((mu_w - B_hat) ** 2).sum(axis=1)  # (n_words,)
    kl = float((square_distances / (2 * prior_var)).sum())

    n_read = min(M, _STEP_DOCUMENTS)
    rows = np.sort(rng.choice(M, n_read, replace=False))
    halves = token_parts.split_tokens(documents.take(rows), 0.5, 0.0, rng)
    counts = sample.words.vocabulary.count(halves.sample)
    noise_words = rng.choice(sample.p_noise.size, _STEP_NOISE, p=sample.p_noise)
    equal_weights = np.full(_STEP_NOISE, 1 / _STEP_NOISE)

    best_bound = math.inf
    best_step = 0.0
    for t in token_parts.STEPS:
        means, variances = mixed(halves.prior, B_hat + t * (mu_w - B_hat), prior_var)
        risks = gibbs_risk(
            scale * means + shift,
            scale**2 * variances,
            counts,
            sample.A_hat,
            equal_weights,
            noise_words=noise_words,
            bias=sample.bias,
        )
        risk = np.clip(risks.risk, 0.0, 1.0)
        mean_risk = float(risk.mean())

        if t == 0:
            # Any bound on a mean will do: about what the betting bound gives.
            spread = np.sqrt(2 * risk.var() * -math.log(sample.delta_each) / M)
            bound = float(mean_risk + spread)
        else:
            budget = (t * t * kl + complexity) / M
            bound = float(bounds.kl_inverse(mean_risk, budget))

        if bound < best_bound:
            best_bound = bound
            best_step = t
    return best_step
