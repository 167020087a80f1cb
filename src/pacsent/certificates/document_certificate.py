"""Certificate B: one document is one example, and w-PB-neg's posteriors of words are its Q."""

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy import sparse

from pacsent.certificates import priors
from pacsent.certificates.certificate import ROUNDING, packed_losses
from pacsent.certificates.terms import GibbsPosterior, Terms, check_sample, finished, fitted, steps
from pacsent.encoders.methods.w_pb_neg import WordPBNegVectorizer
from pacsent.maths import bounds
from pacsent.maths.gaussians import kl_gaussians
from pacsent.maths.risks import gibbs_risk, noise_risk, token_errors, token_margin
from pacsent.text.encoded import Encoded

if TYPE_CHECKING:
    from pacsent.certificates.certificate import Certificate
    from pacsent.words.vocabulary import Vocabulary


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
        for some in np.array_split(moved, max(1, moved.size // 8192)):
            total += float(
                kl_gaussians(
                    self.means[some], self.variances[some], self.prior_means[some],
                    self.prior_variances[some],
                ).sum()
            )  # fmt: skip
        return total * (1 + 1e-10) + 1e-13 * moved.size * self.means.shape[1] if moved.size else 0.0


def certify_documents(terms: Terms, encoded: Encoded) -> "tuple[Certificate, GibbsPosterior]":
    """Certificate B, about new documents, and the posterior over words it is about."""
    _check(terms)
    rows = np.flatnonzero(np.diff(encoded.offsets) >= 2)
    check_sample(rows.size, encoded)
    rows = terms.rng.permutation(rows)
    n_aside, n_rest = int(terms.split * rows.size), int(terms.holdout * rows.size)
    aside, rest = np.sort(rows[:n_aside]), np.sort(rows[n_aside : n_aside + n_rest])
    rows = rows[n_aside + n_rest :]  # in random order, as the betting bound wants it
    if not rows.size:
        raise ValueError(
            f"split and holdout must leave documents to certify. Got {terms.split} and "
            f"{terms.holdout} of {n_aside + n_rest} documents instead."
        )
    sample = encoded.take(rows)
    # The prior: from the source alone. Calibrated on documents set aside, with the prior's means.
    scale, shift = _calibrated(terms, encoded.take(aside))
    # staying at the prior, where any bound on a mean will do, is one of two branches unless fixed
    terms = terms.pay(branches=2 if terms.posterior in ("auto", "bound") else 1)
    words = _word_posteriors(terms, sample, scale, shift)
    measure = _Measure(terms, words, scale, shift)
    risk, noise, margin, gibbs = measure(sample)
    held_out: dict = {}
    if rest.size:
        risk_rest, *_ = measure(encoded.take(rest))
        held_out = {"held_out_risk": float(risk_rest.mean()), "n_held_out": int(rest.size)}
    kl = words.kl()
    learned = {} if kl else {"losses": packed_losses(risk), "bound_name": terms.bound}
    certificate = finished(
        terms,
        empirical_risk=min(1.0, float(risk.mean()) * (1 + ROUNDING)),
        kl=kl,
        n=int(rows.size),
        noise_risk=float(noise.mean()),
        noise_margin=float(margin.mean()),
        bias=terms.biases[0],
        scale=scale,
        shift_norm=float(np.linalg.norm(shift)),
        posterior=_posterior_name(terms, words),
        step=words.step,
        prior_variance=float(np.median(words.prior_variances)),
        n_documents=int(rows.size),
        n_left_out=int(encoded.n_sentences - rows.size - aside.size - rest.size),
        **learned,
        **held_out,
    )
    return certificate, gibbs


def _check(terms: Terms):
    if len(terms.biases) > 1 or (terms.variances is not None and len(terms.variances) > 1):
        raise ValueError(
            "bias and prior_variance must be single numbers for kind 'B'. Got a list instead. "
            "Set documents aside (split) and let calibrate choose."
        )
    named = isinstance(terms.posterior, tuple) or terms.posterior == "prior"
    if not named and not isinstance(terms.vectorizer, WordPBNegVectorizer):
        raise ValueError(
            f"kind 'B' certifies the words' posteriors of w-PB-neg. Got a "
            f"{type(terms.vectorizer).__name__} instead, which has none. Use "
            "kind='continuation' for it, or posterior='prior' to certify the words' prior itself."
        )


def _calibrated(terms: Terms, aside: Encoded):
    B_hat = np.asarray(terms.B_hat, dtype=float)
    if not (terms.calibrate and aside.n_sentences):
        return 1.0, np.zeros(B_hat.shape[1])
    halves = priors.split_tokens(aside, 0.5, 0.0, terms.rng)
    means, _ = mixed(halves.prior, B_hat, np.zeros(len(B_hat)))
    return priors.calibrate(
        means, halves.sample, terms.A_hat, terms.p_noise, terms.biases[0], terms.rng
    )


class _Measure:
    """Risks of documents: half of each makes its vector, the other half is scored."""

    def __init__(self, terms: Terms, words: _Words, scale, shift):
        self.terms, self.words, self.scale, self.shift = terms, words, scale, shift

    def __call__(self, documents: Encoded):
        terms, words, bias = self.terms, self.words, self.terms.biases[0]
        halves = priors.split_tokens(documents, 0.5, 0.0, terms.rng)
        means, variances = mixed(halves.prior, words.means, words.variances)
        means, variances = self.scale * means + self.shift, self.scale**2 * variances
        errors = token_errors(means, variances, halves.sample, terms.A_hat, bias=bias)
        n = np.diff(halves.sample.offsets)
        positive = np.bincount(np.repeat(np.arange(n.size), n), errors, n.size) / n
        positive = np.minimum(1.0, positive + token_margin(means, variances))
        # the margin of noise_risk allows for this rounding of the means
        noise, margin = noise_risk(
            means.astype(np.float32), variances, terms.A_hat, terms.p_noise,
            bias=bias, precision="float32", n_jobs=terms.n_jobs,
        )  # fmt: skip
        risk = terms.weights[0] * positive + terms.weights[1] * np.minimum(1.0, noise + margin)
        gibbs = GibbsPosterior(
            means, variances, words.prior_means, words.prior_variances, bias, terms.p_noise,
            halves, self.scale, self.shift, word_means=words.means, word_variances=words.variances,
        )  # fmt: skip
        return risk, noise, margin, gibbs


def _posterior_name(terms: Terms, words: _Words) -> str:
    if not words.moved.size:
        return "prior"
    return "given" if isinstance(terms.posterior, tuple) else str(terms.posterior)


def mixed(encoded: Encoded, mu_w: np.ndarray, var_w: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and variance of sum_v (c_v/n) h_v, one draw of h_v per word type."""
    n = np.diff(encoded.offsets)
    shares = sparse.csr_matrix(
        (np.repeat(1.0 / n, n), encoded.ids.copy(), encoded.offsets), shape=(n.size, len(mu_w))
    )
    shares.sum_duplicates()
    return shares @ mu_w, shares.multiply(shares) @ var_w


def source_variances(vocabulary: "Vocabulary", scale: float) -> np.ndarray:
    """Prior variance of each word from source counts: scale * median(count) / count(w)."""
    counts = np.maximum(vocabulary._known_counts("the prior of the words"), 1).astype(float)
    return scale * np.median(counts) / counts


def _word_posteriors(terms: Terms, sample, scale, shift) -> _Words:
    """Posterior and prior of every word; a learned one goes as far as pays."""
    B_hat = np.asarray(terms.B_hat, dtype=float)
    size = 0.01 if terms.variances is None else terms.variances[0]
    prior_var = source_variances(terms.words.vocabulary, size)
    if isinstance(terms.posterior, tuple):
        means, variances = _given(terms, B_hat, prior_var)
        return _Words(means, variances, B_hat, prior_var)
    steps(terms.posterior)  # says what is wrong
    if terms.posterior == "prior":
        return _Words(B_hat, prior_var, B_hat, prior_var)
    learned = fitted(terms, sample)
    mu_w, var_w = B_hat.copy(), prior_var.copy()
    mu_w[learned.words_] = learned.word_means_
    if terms.posterior == "vectorizer":
        var_w[learned.words_] = learned.word_variances_
        return _Words(mu_w, var_w, B_hat, prior_var)
    step = _best_step(terms, sample, mu_w, prior_var, scale, shift)
    return _Words(B_hat + step * (mu_w - B_hat), prior_var, B_hat, prior_var, step)


def _given(terms: Terms, B_hat, prior_var):
    mu_w, var_w = (np.asarray(a, dtype=float) for a in terms.posterior)
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


def _best_step(terms: Terms, sample, mu_w, prior_var, scale, shift):
    """How far from the prior's to the learned means; variances stay the prior's. An estimate."""
    B_hat = np.asarray(terms.B_hat, dtype=float)
    M = sample.n_sentences
    price = bounds.ln_xi(M) - math.log(terms.share_of_delta)
    rows = np.sort(terms.rng.choice(M, min(M, 300), replace=False))
    halves = priors.split_tokens(sample.take(rows), 0.5, 0.0, terms.rng)
    counts = terms.words.vocabulary.count(halves.sample)
    noise = terms.rng.choice(terms.p_noise.size, 400, p=terms.p_noise)
    kl = float((((mu_w - B_hat) ** 2).sum(axis=1) / (2 * prior_var)).sum())
    best = (math.inf, 0.0)
    for t in priors.STEPS:
        means, variances = mixed(halves.prior, B_hat + t * (mu_w - B_hat), prior_var)
        found = gibbs_risk(
            scale * means + shift, scale**2 * variances, counts, terms.A_hat,
            np.full(400, 1 / 400), bias=terms.biases[0], weights=terms.weights, noise_words=noise,
        )  # fmt: skip
        risk = np.clip(found.risk, 0.0, 1.0)
        if t == 0:  # any bound on a mean will do: about what the betting bound gives
            spread = np.sqrt(2 * risk.var() * -math.log(terms.share_of_delta) / M)
            best = min(best, (float(risk.mean() + spread), t))
        else:
            price_t = (t * t * kl + price) / M
            best = min(best, (float(bounds.kl_inverse(float(risk.mean()), price_t)), t))
    return best[1]
