"""How certificates are measured: one function per kind, from encoded text to `Certificate`.

Each reads first what builds its prior, chooses by that alone, and only then reads its sample. The
inequalities are in `bounds`, the exact risks in `risks`, the proofs in docs/certificates.md.
"""

import math
import warnings
from dataclasses import fields
from typing import NamedTuple

import numpy as np
from scipy import sparse

from pacsent import bounds, priors
from pacsent.certificate import ROUNDING, Certificate
from pacsent.negative_sampling import WordPBNegVectorizer
from pacsent.posterior import kl_gaussians
from pacsent.progress import bar
from pacsent.risks import gibbs_risk, noise_risk, token_errors, token_margin
from pacsent.vocabulary import Encoded

# max over 0 <= x <= 1 of (1 + x)^4/32 - x^2/2, at x = sqrt(5) - 2: see docs/certificates.md
KAPPA = (5 * math.sqrt(5) - 11) / 4


class GibbsPosterior(NamedTuple):
    """The posteriors a certificate speaks of, and the parts of the text it came from."""

    means: np.ndarray  # (n_documents, n_dims): of the classifier's vector, calibrated
    variances: np.ndarray  # (n_documents,)
    prior_means: np.ndarray
    prior_variances: np.ndarray
    bias: float
    p_noise: np.ndarray
    parts: priors.Parts
    scale: float
    shift: np.ndarray
    word_means: np.ndarray | None = None  # B: the words' posteriors, (n_words, n_dims)
    word_variances: np.ndarray | None = None


class Setting(NamedTuple):
    """What the certifiers share: the arguments of `certify`, checked."""

    vectorizer: object
    words: object
    A_hat: np.ndarray
    B_hat: np.ndarray
    p_noise: np.ndarray
    kind: str
    delta: float
    rng: np.random.Generator
    biases: list
    variances: list | None
    posterior: object
    calibrate: bool
    split: float
    holdout: float
    refit: bool
    weights: tuple
    precision: str
    n_jobs: int
    verbose: bool
    record: dict


def _vectors(setting, vectorizer, encoded) -> np.ndarray:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return np.asarray(vectorizer.transform(encoded), dtype=np.float32)


def fitted(setting, encoded):
    """A clone fitted on the prior's part, or the vectorizer as it is."""
    from sklearn.base import clone

    if not setting.refit:
        return setting.vectorizer
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return clone(setting.vectorizer).fit(encoded)


# ------------------------------------------------------------------------------------------------
# A and A': words
# ------------------------------------------------------------------------------------------------


def certify_words(setting, encoded):
    s = setting
    parts = priors.split_tokens(encoded, s.split, s.holdout, s.rng)
    _check_sample(parts.sample.ids.size, encoded)
    n = int(parts.sample.ids.size)
    price = bounds.ln_xi(n) - math.log(s.delta)

    # From here to `prior` only the prior's part is read.
    vectorizer = fitted(s, parts.prior)
    inner = priors.split_tokens(parts.prior, 0.75, 0.0, s.rng)
    m_prior = _vectors(s, vectorizer, parts.prior)  # (n_documents, n_dims)
    scale, shift = 1.0, np.zeros(m_prior.shape[1])
    variances = s.variances
    if inner.rows.size:
        m_inner = _vectors(s, vectorizer, inner.prior)
        if s.calibrate:
            scale, shift = priors.calibrate(
                m_inner, inner.sample, s.A_hat, s.p_noise, s.biases[0], s.rng
            )
    prior = (scale * m_prior + shift).astype(np.float32)
    if variances is None:
        length = np.sqrt((prior.astype(float) ** 2).sum(axis=1).mean())
        variances = [float((spread * max(length, 1e-6)) ** 2) for spread in priors.SPREADS]
        if inner.rows.size:
            near = (scale * m_inner + shift).astype(np.float32)
            chosen = priors.choose(
                near,
                prior[inner.rows],
                inner.sample,
                s.A_hat,
                s.p_noise,
                s.rng,
                biases=s.biases[:1],
                variances=variances,
                steps=priors.STEPS if s.posterior in ("auto", "bound") else steps(s.posterior),
                n=max(1, inner.sample.ids.size),
                # the sample is larger than this inner one: scale the price to match
                budget=price * inner.sample.ids.size / n,
                weights=s.weights,
            )
            variances = [chosen.variance]
        else:
            variances = [variances[len(variances) // 2]]
    paid = {
        name: len(values)
        for name, values in (("bias", s.biases), ("prior_variance", variances))
        if len(values) > 1
    }
    n_choices = math.prod(paid.values()) if paid else 1
    price += math.log(n_choices)

    # From here on the sample is read; Q may depend on it in any way.
    far, given = prior, None
    if isinstance(s.posterior, tuple):
        given = _given(s, parts, encoded, prior.shape[1])
        far = (scale * given[0] + shift).astype(np.float32)
    elif s.posterior != "prior":
        m_all = _vectors(s, vectorizer, priors.join(parts.prior, parts.sample))
        far = (scale * m_all + shift).astype(np.float32)
    chosen = priors.choose(
        prior,
        far,
        parts.sample,
        s.A_hat,
        s.p_noise,
        s.rng,
        biases=s.biases,
        variances=variances,
        steps=steps(s.posterior),
        n=n,
        budget=price,
        weights=s.weights,
    )
    bias, variance, step = chosen.bias, chosen.variance, chosen.step
    mu = prior if step == 0 else ((1 - step) * prior + step * far).astype(np.float32)
    var_P = np.full(len(mu), variance)
    var_Q = var_P
    if given is not None:
        mu, var_Q = far, scale**2 * np.asarray(given[1], dtype=float)
    elif s.posterior == "bound":
        from pacsent.direct import minimise_bound

        mu, var_Q = minimise_bound(
            mu, prior, variance, parts.sample, s.A_hat, s.p_noise, bias=bias, price=price,
            weights=s.weights, rng=s.rng, verbose=s.verbose,
        )  # fmt: skip

    errors = token_errors(mu, var_Q, parts.sample, s.A_hat, bias=bias)
    kl = float(kl_gaussians(mu, var_Q, prior, var_P).sum())
    weight = parts.n_sample / n
    with bar("noise", total=len(mu), unit="documents", enabled=s.verbose) as progress:
        noise, margin = noise_risk(
            mu, var_Q, s.A_hat, s.p_noise,
            bias=bias, precision=s.precision, n_jobs=s.n_jobs, progress=progress,
        )  # fmt: skip
    rest = _rest_risk(s, parts, mu, var_Q, bias, noise)
    certificate = _finish(
        s,
        empirical_risk=min(
            1.0, float(errors.mean() + weight @ token_margin(mu, var_Q)) * (1 + ROUNDING)
        ),
        kl=kl * (1 + 1e-10) + 1e-13 * mu.size * float(not np.array_equal(var_Q, var_P)),
        n=n,
        n_choices=n_choices,
        paid=paid,
        noise_risk=float(weight @ noise),
        noise_margin=float(weight @ margin) * (1 + ROUNDING) + 1e-12,
        bias=bias,
        prior_variance=variance,
        scale=scale,
        shift_norm=float(np.linalg.norm(shift)),
        step=None if given is not None else step,
        posterior="given" if given is not None else str(s.posterior),
        n_documents=int(parts.rows.size),
        n_left_out=int(encoded.n_sentences - parts.rows.size),
        **rest,
    )
    gibbs = GibbsPosterior(mu, var_Q, prior, var_P, bias, s.p_noise, parts, scale, shift)
    return certificate, gibbs


def _finish(setting, **parts) -> Certificate:
    """A certificate by the kl bound: fill in the totals that follow from the ingredients."""
    draft = Certificate(
        risk_bound=math.nan,
        trivial_value=min(setting.weights),
        bound_name="kl inverse with xi(n)",
        weights=setting.weights,
        **setting.record,
        **parts,
    )
    totals = draft.recompute()
    return Certificate(**{**_values(draft), **totals})


def _values(certificate) -> dict:
    return {field.name: getattr(certificate, field.name) for field in fields(certificate)}


def steps(posterior):
    if isinstance(posterior, tuple) or posterior == "vectorizer":
        return (1.0,)
    if posterior == "prior":
        return (0.0,)
    if posterior in ("auto", "bound"):
        return priors.STEPS
    raise ValueError(
        "posterior must be 'auto', 'prior', 'vectorizer', 'bound' or a pair (means, variances). "
        f"Got {posterior!r} instead."
    )


def _given(setting, parts, encoded, n_dims):
    means, variances = (np.asarray(a) for a in setting.posterior)
    shape = (encoded.n_sentences, n_dims)
    if means.shape != shape or variances.shape != shape[:1]:
        raise ValueError(
            f"posterior must be means of shape {shape} and variances of shape {shape[:1]}, one row "
            f"per text. Got {means.shape} and {variances.shape} instead."
        )
    means, variances = means[parts.rows], variances[parts.rows].astype(float)
    if not np.isfinite(means).all() or not (np.isfinite(variances) & (variances > 0)).all():
        raise ValueError(
            "posterior must have finite means and variances > 0 for every text of two known words "
            "or more. Got others instead. Without spread the exact KL is infinite."
        )
    return means, variances


def _check_sample(n, encoded):
    if n == 0:
        raise ValueError(
            "texts must hold at least one document of two known words. Got "
            f"{encoded.n_sentences:,} documents with {encoded.ids.size:,} known words instead."
        )


def _rest_risk(s, parts, mu, var_Q, bias, noise) -> dict:
    """Risk on the tokens that nothing read, weighted as the sample is."""
    n_rest = np.diff(parts.rest.offsets)
    if not n_rest.sum():
        return {}
    errors = token_errors(mu, var_Q, parts.rest, s.A_hat, bias=bias)
    document = np.repeat(np.arange(n_rest.size), n_rest)
    mean = np.bincount(document, errors, n_rest.size) / np.maximum(n_rest, 1)
    weight = parts.n_sample * (n_rest > 0)
    weight = weight / weight.sum()
    risk = s.weights[0] * float(weight @ mean) + s.weights[1] * float(weight @ noise)
    return {"held_out_risk": risk, "n_held_out": int(n_rest.sum())}


# ------------------------------------------------------------------------------------------------
# B: documents
# ------------------------------------------------------------------------------------------------


def certify_documents(setting, encoded):
    s = setting
    n_tokens = np.diff(encoded.offsets)
    rows = np.flatnonzero(n_tokens >= 2)
    _check_sample(rows.size, encoded)
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
    certificate = _finish(
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


# ------------------------------------------------------------------------------------------------
# C: squared loss
# ------------------------------------------------------------------------------------------------


def certify_squares(setting, encoded):
    s = setting
    parts = priors.split_tokens(encoded, s.split, s.holdout, s.rng)
    _check_sample(parts.sample.ids.size, encoded)
    n_s = parts.n_sample.astype(float)
    n = int(n_s.sum())
    A_hat = np.asarray(s.A_hat, dtype=np.float32)
    n_dims = A_hat.shape[1]

    # From here to lam only the prior's part is read.
    vectorizer = fitted(s, parts.prior)
    m = _vectors(s, vectorizer, parts.prior).astype(float)
    if s.calibrate:
        m = _calibrated_squares(s, vectorizer, parts.prior, m)
    D = farthest_word(A_hat, m)
    inner = priors.split_tokens(parts.prior, 0.75, 0.0, s.rng)
    if inner.rows.size:
        guess, _ = _word_moments(inner.sample, A_hat)
        share = n_s[inner.rows]
        lam, tau = _choose_squares(
            n_s, n, D, n_dims, s, ((guess - m[inner.rows]) ** 2).sum(axis=1), share
        )
    else:
        lam, tau = _choose_squares(n_s, n, D, n_dims, s, np.ones(1), n_s[:1])

    # The posterior that minimises this very bound is Gaussian: the Gibbs posterior.
    centre, square = _word_moments(parts.sample, A_hat)
    if isinstance(s.posterior, tuple):
        mu, var_Q = _given(s, parts, encoded, n_dims)
        mu, kind = mu.astype(float), "given"
    elif s.posterior == "prior":
        mu, var_Q, kind = m, np.full(len(m), tau), "prior"
    else:
        precision = 1.0 / tau + lam * n_s / n
        mu = (m / tau + (lam * n_s / n)[:, None] * centre) / precision[:, None]
        var_Q, kind = 1.0 / precision, "bound"
    # mean over the document's tokens of |A_w - mu|^2 / 2, plus n_dims var_Q / 2
    loss = 0.5 * (square + ((centre - mu) ** 2).sum(axis=1) + n_dims * var_Q)
    kl = float(kl_gaussians(mu, var_Q, m, np.full(len(m), tau)).sum())
    complexity = squares_complexity(lam, n_s, D, tau, n_dims, s.delta)
    constant = s.p_noise @ np.asarray(A_hat, dtype=float)
    trivial = 0.5 * (square + ((centre - constant) ** 2).sum(axis=1))
    held_out = {}
    n_rest = np.diff(parts.rest.offsets)
    if n_rest.sum():
        some = np.flatnonzero(n_rest > 0)
        rest, rest_square = _word_moments(priors.some_documents(parts.rest, some), A_hat)
        on_rest = 0.5 * (rest_square + ((rest - mu[some]) ** 2).sum(axis=1) + n_dims * var_Q[some])
        held_out = {
            "held_out_risk": float((n_s[some] * on_rest).sum() / n_s[some].sum()),
            "n_held_out": int(n_rest.sum()),
        }
    draft = Certificate(
        risk_bound=math.nan,
        trivial_value=float((n_s * trivial).sum() / n),
        bound_name="Gaussian prior, squared loss",
        empirical_risk=float((n_s * loss).sum() / n) * (1 + 1e-10),
        kl=kl * (1 + 1e-10) + 1e-13 * mu.size,
        n=n,
        n_choices=1,
        paid={},
        lam=lam,
        complexity=complexity * (1 + 1e-10),
        prior_variance=tau,
        posterior=kind,
        n_documents=int(parts.rows.size),
        n_left_out=int(encoded.n_sentences - parts.rows.size),
        **s.record,
        **held_out,
    )
    certificate = Certificate(**{**_values(draft), **draft.recompute()})
    var_P = np.full(len(m), tau)
    gibbs = GibbsPosterior(mu, var_Q, m, var_P, 0.0, s.p_noise, parts, 1.0, np.zeros(n_dims))
    return certificate, gibbs


def squares_complexity(lam, n_s, D, tau, n_dims, delta) -> float:
    """What certificate C adds to the KL before dividing by lam; n_s tokens of each document.

        ln(1/delta) + kappa lam^2 sum_s n_s D_s^4 / n^2
                    - n_dims/2 sum_s ln(1 - lam^2 n_s D_s^2 tau / n^2)

    Infinite where lam^2 n_s D_s^2 tau >= n^2 for some document.
    """
    n = np.sum(n_s)
    inside = lam**2 * n_s * D**2 * tau / n**2
    if np.any(inside >= 1):
        return math.inf
    spread = KAPPA * lam**2 * np.sum(n_s * D**4) / n**2
    return float(-math.log(delta) + spread - 0.5 * n_dims * np.sum(np.log1p(-inside)))


def farthest_word(A_hat, m) -> np.ndarray:
    """max_u |A_u - m_s| for each row of m; rounded up."""
    norms = np.einsum("ij,ij->i", A_hat, A_hat, dtype=float)
    lengths = np.einsum("ij,ij->i", m, m)
    single = m.astype(np.float32)
    largest = np.empty(len(m))
    size = max(1, 16_000_000 // len(A_hat))
    for start in range(0, len(m), size):
        block = single[start : start + size] @ A_hat.T
        largest[start : start + size] = (norms - 2.0 * block).max(axis=1)
    # the dot products are off by (n_dims + 2) units of float32, as in noise_risk
    off = 2.0 * (A_hat.shape[1] + 2) * 2.0**-23 * np.sqrt(norms.max() * lengths)
    return np.sqrt(np.maximum(largest + lengths + off, 0.0)) * (1 + 1e-9)


def _word_moments(encoded: Encoded, A_hat):
    """Mean of the words' vectors, and mean squared distance from that mean, of each document."""
    n = np.diff(encoded.offsets)
    shares = sparse.csr_matrix(
        (np.repeat(1.0 / n, n), encoded.ids, encoded.offsets), shape=(n.size, len(A_hat))
    )
    used = np.unique(encoded.ids)
    table = np.asarray(A_hat[used], dtype=float)
    shares = shares[:, used]
    centre = shares @ table
    square = shares @ np.einsum("ij,ij->i", table, table) - (centre**2).sum(axis=1)
    return centre, np.maximum(square, 0.0)


def _calibrated_squares(s, vectorizer, prior_part, m):
    """scale * m + shift, the least-squares fit to the words of the prior's own inner sample."""
    inner = priors.split_tokens(prior_part, 0.75, 0.0, s.rng)
    if inner.rows.size < 2:
        return m
    x = _vectors(s, vectorizer, inner.prior).astype(float)
    y, _ = _word_moments(inner.sample, s.A_hat)
    weight = inner.n_sample / inner.n_sample.sum()
    x_bar, y_bar = weight @ x, weight @ y
    spread = weight @ ((x - x_bar) ** 2).sum(axis=1)
    slope = (weight @ ((x - x_bar) * (y - y_bar)).sum(axis=1)) / max(spread, 1e-12)
    return slope * (m - x_bar) + y_bar


def _choose_squares(n_s, n, D, n_dims, s, distances, share):
    """(lam, tau) with the smallest estimated bound: the posterior integrated out.

    min_Q R_hat + KL/lam = const + (1/lam) sum_s [e_s/(1 + e_s tau) |centre_s - m_s|^2 / 2
                                                 + n_dims/2 ln(1 + e_s tau)],  e_s = lam n_s / n
    """
    best = (math.inf, 1.0, 1.0)
    taus = s.variances or [float(np.mean(distances) * f / n_dims) for f in (1e-3, 1e-2, 0.1, 0.5)]
    if s.variances is not None and len(s.variances) > 1:
        raise ValueError(
            "prior_variance must be a single number for kind 'C'. Got a list instead. Leave it "
            "out: it is then chosen by the prior's part, which costs nothing."
        )
    largest = float((D**2).mean())
    scale = n_s.sum() / max(share.sum(), 1.0)
    for tau in taus:
        for lam in n / largest * 2.0 ** np.arange(-14, 9, 0.5):
            complexity = squares_complexity(lam, n_s, D, tau, n_dims, s.delta)
            e = lam * share / n
            each = 0.5 * e / (1 + e * tau) * distances + 0.5 * n_dims * np.log1p(e * tau)
            value = (complexity + scale * each.sum()) / lam
            if value < best[0]:
                best = (value, float(lam), float(tau))
    return best[1], best[2]
