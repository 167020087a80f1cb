"""Certificate B: one document is one example, the words' vectors are its posterior."""

import math

import numpy as np
from scipy import sparse

from pacsent.certificates import priors
from pacsent.certificates.certificate import ROUNDING
from pacsent.certificates.setting import GibbsPosterior, check_sample, finished, fitted, steps
from pacsent.maths import bounds
from pacsent.maths.gaussians import kl_gaussians
from pacsent.maths.risks import gibbs_risk, noise_risk, token_errors, token_margin
from pacsent.sentences.w_pb_neg import WordPBNegVectorizer
from pacsent.words.encoded import Encoded

# ------------------------------------------------------------------------------------------------
# B: documents
# ------------------------------------------------------------------------------------------------


def certify_documents(setting, encoded):
    s = setting
    n_tokens = np.diff(encoded.offsets)
    rows = np.flatnonzero(n_tokens >= 2)
    check_sample(rows.size, encoded)
    rows = s.rng.permutation(rows)
    n_aside, n_rest = int(s.split * rows.size), int(s.holdout * rows.size)
    aside, rest = np.sort(rows[:n_aside]), np.sort(rows[n_aside : n_aside + n_rest])
    rows = np.sort(rows[n_aside + n_rest :])
    sample = priors.some_documents(encoded, rows)
    M = int(rows.size)
    if M < 1:
        raise ValueError(f"split and holdout must leave documents to certify. Got {s.split} and "
                         f"{s.holdout} of {n_aside + n_rest} documents instead.")  # fmt: skip
    if len(s.biases) > 1 or (s.variances is not None and len(s.variances) > 1):
        raise ValueError(
            "bias and prior_variance must be single numbers for kind 'B'. Got a list instead. "
            "Set documents aside (split) and let calibrate choose."
        )
    bias = s.biases[0]
    B_hat = np.asarray(s.B_hat, dtype=float)

    # The prior: from the source alone. Calibrated on documents set aside, with the prior's means.
    mu_w, var_w, prior_var = _word_posteriors(s, sample)
    scale, shift = 1.0, np.zeros(B_hat.shape[1])
    if s.calibrate and aside.size:
        halves = priors.split_tokens(priors.some_documents(encoded, aside), 0.5, 0.0, s.rng)
        means, _ = mixed(halves.prior, B_hat, prior_var)
        scale, shift = priors.calibrate(means, halves.sample, s.A_hat, s.p_noise, bias, s.rng)
    step = None
    if s.posterior in ("auto", "bound") and mu_w is not B_hat:
        price = bounds.ln_xi(M) - math.log(s.delta)
        step = _best_step(s, sample, mu_w, prior_var, price, scale, shift)
        mu_w = B_hat + step * (mu_w - B_hat)
    changed = np.flatnonzero((var_w != prior_var) | (mu_w != B_hat).any(axis=1))
    kl = 0.0
    for some in np.array_split(changed, max(1, changed.size // 8192)):
        kl += float(kl_gaussians(mu_w[some], var_w[some], B_hat[some], prior_var[some]).sum())

    def document_risks(documents):
        """Half of each document makes its vector, the other half is scored; h is calibrated."""
        halves = priors.split_tokens(documents, 0.5, 0.0, s.rng)
        means, variances = mixed(halves.prior, mu_w, var_w)
        means, variances = scale * means + shift, scale**2 * variances
        errors = token_errors(means, variances, halves.sample, s.A_hat, bias=bias)
        n = np.diff(halves.sample.offsets)
        positive = np.bincount(np.repeat(np.arange(n.size), n), errors, n.size) / n
        positive = np.minimum(1.0, positive + token_margin(means, variances))
        # the margin of noise_risk allows for this rounding of the means
        noise, margin = noise_risk(
            means.astype(np.float32), variances, s.A_hat, s.p_noise,
            bias=bias, precision="float32", n_jobs=s.n_jobs,
        )  # fmt: skip
        words = {"word_means": mu_w, "word_variances": var_w}
        gibbs = GibbsPosterior(
            means, variances, B_hat, prior_var, bias, s.p_noise, halves, scale, shift, **words
        )
        return positive, noise, margin, gibbs

    positive, noise, margin, gibbs = document_risks(sample)
    risk = s.weights[0] * positive + s.weights[1] * np.minimum(1.0, noise + margin)
    held_out = {}
    if rest.size:
        positive_r, noise_r, _, _ = document_risks(priors.some_documents(encoded, rest))
        held_out = {
            "held_out_risk": float((s.weights[0] * positive_r + s.weights[1] * noise_r).mean()),
            "n_held_out": int(rest.size),
        }
    certificate = finished(
        s,
        empirical_risk=min(1.0, float(risk.mean()) * (1 + ROUNDING)),
        kl=kl * (1 + 1e-10) + 1e-13 * changed.size * B_hat.shape[1],
        n=M,
        n_choices=1,
        paid={},
        noise_risk=float(noise.mean()),
        noise_margin=float(margin.mean()),
        bias=bias,
        scale=scale,
        shift_norm=float(np.linalg.norm(shift)),
        posterior=_posterior_name(s, changed),
        step=step,
        prior_variance=float(np.median(prior_var)),
        n_documents=M,
        n_left_out=int(encoded.n_sentences - M - aside.size - rest.size),
        **held_out,
    )
    return certificate, gibbs


def _posterior_name(s, changed) -> str:
    if not changed.size:
        return "prior"
    return "given" if isinstance(s.posterior, tuple) else str(s.posterior)


def mixed(encoded: Encoded, mu_w, var_w):
    """Mean and variance of sum_v (c_v/n) h_v, one draw of h_v per word type."""
    n = np.diff(encoded.offsets)
    shares = sparse.csr_matrix(
        (np.repeat(1.0 / n, n), encoded.ids.copy(), encoded.offsets), shape=(n.size, len(mu_w))
    )
    shares.sum_duplicates()
    return shares @ mu_w, shares.multiply(shares) @ var_w


def source_variances(vocabulary, scale) -> np.ndarray:
    """Prior variance of each word from source counts: scale * median(count) / count(w)."""
    counts = np.maximum(vocabulary._known_counts("the prior of the words"), 1).astype(float)
    return scale * np.median(counts) / counts


def _word_posteriors(s, sample):
    """(means, variances, prior variances) of every word, in float64."""
    B_hat = np.asarray(s.B_hat, dtype=float)
    scale = 0.01 if s.variances is None else s.variances[0]
    prior_var = source_variances(s.words.vocabulary, scale)
    if isinstance(s.posterior, tuple):
        mu_w, var_w = (np.asarray(a, dtype=float) for a in s.posterior)
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
        return mu_w, var_w, prior_var
    steps(s.posterior)  # says what is wrong
    if s.posterior == "prior" or not isinstance(s.vectorizer, WordPBNegVectorizer):
        return B_hat, prior_var, prior_var
    learned = fitted(s, sample)
    mu_w, var_w = B_hat.copy(), prior_var.copy()
    mu_w[learned.words_] = learned.word_means_
    if s.posterior == "vectorizer":
        var_w[learned.words_] = learned.word_variances_
    return mu_w, var_w, prior_var


def _best_step(s, sample, mu_w, prior_var, price, scale, shift):
    """How far from the prior's to the learned means; variances stay the prior's. An estimate."""
    B_hat = np.asarray(s.B_hat, dtype=float)
    M = sample.n_sentences
    rows = np.sort(s.rng.choice(M, min(M, 300), replace=False))
    halves = priors.split_tokens(priors.some_documents(sample, rows), 0.5, 0.0, s.rng)
    counts = s.words.vocabulary.count(halves.sample)
    noise = s.rng.choice(s.p_noise.size, 400, p=s.p_noise)
    kl = float((((mu_w - B_hat) ** 2).sum(axis=1) / (2 * prior_var)).sum())
    best = (math.inf, 0.0)
    for t in priors.STEPS:
        means, variances = mixed(halves.prior, B_hat + t * (mu_w - B_hat), prior_var)
        found = gibbs_risk(
            scale * means + shift, scale**2 * variances, counts, s.A_hat, np.full(400, 1 / 400),
            bias=s.biases[0], weights=s.weights, noise_words=noise,
        )  # fmt: skip
        risk = min(1.0, float(found.risk.mean()))
        best = min(best, (bounds.kl_inverse(risk, (t * t * kl + price) / M), t))
    return best[1]
