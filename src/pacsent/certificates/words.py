"""Certificates A and A': the words of documents against noise, with a prior from a part of them."""

import math

import numpy as np

from pacsent.certificates import priors
from pacsent.certificates.certificate import ROUNDING
from pacsent.certificates.setting import (
    GibbsPosterior,
    check_sample,
    finished,
    fitted,
    given_posterior,
    steps,
    vectors_of,
)
from pacsent.maths import bounds
from pacsent.maths.gaussians import kl_gaussians
from pacsent.maths.risks import noise_risk, token_errors, token_margin
from pacsent.progress import bar

# ------------------------------------------------------------------------------------------------
# A and A': words
# ------------------------------------------------------------------------------------------------


def certify_words(setting, encoded):
    s = setting
    parts = priors.split_tokens(encoded, s.split, s.holdout, s.rng)
    check_sample(parts.sample.ids.size, encoded)
    n = int(parts.sample.ids.size)
    price = bounds.ln_xi(n) - math.log(s.delta)

    # From here to `prior` only the prior's part is read.
    vectorizer = fitted(s, parts.prior)
    inner = priors.split_tokens(parts.prior, 0.75, 0.0, s.rng)
    m_prior = vectors_of(s, vectorizer, parts.prior)  # (n_documents, n_dims)
    scale, shift = 1.0, np.zeros(m_prior.shape[1])
    variances = s.variances
    if inner.rows.size:
        m_inner = vectors_of(s, vectorizer, inner.prior)
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
        given = given_posterior(s, parts, encoded, prior.shape[1])
        far = (scale * given[0] + shift).astype(np.float32)
    elif s.posterior != "prior":
        m_all = vectors_of(s, vectorizer, priors.join(parts.prior, parts.sample))
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
        from pacsent.maths.pb_01 import minimise_bound

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
    certificate = finished(
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
