"""Certificates A and A': the words of documents against noise, with a prior from a part of them.

A is about a further word of a document, if words were independent draws; A' about words of these
very texts, with nothing assumed.
"""

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from pacsent.certificates import priors
from pacsent.certificates.certificate import ROUNDING
from pacsent.certificates.terms import (
    GibbsPosterior,
    Terms,
    check_sample,
    finished,
    fitted,
    given_posterior,
    steps,
    vectors_of,
)
from pacsent.maths import bounds
from pacsent.maths.gaussians import kl_gaussians
from pacsent.maths.pb_01_objective import minimise_bound
from pacsent.maths.risks import noise_risk, token_errors, token_margin
from pacsent.progress import bar

if TYPE_CHECKING:
    from pacsent.certificates.certificate import Certificate
    from pacsent.text.encoded import Encoded


class _Prior(NamedTuple):
    """What the prior's part of the text decided."""

    vectorizer: object
    means: np.ndarray  # calibrated, (n_documents, n_dims)
    variances: list  # one, unless several are to be searched and paid for
    scale: float
    shift: np.ndarray

    def calibrated(self, means) -> np.ndarray:
        return (self.scale * means + self.shift).astype(np.float32)


class _Posterior(NamedTuple):
    means: np.ndarray
    variances: np.ndarray
    prior_variance: float
    bias: float
    step: float | None
    stayed: bool = False  # at the prior, by the choice among the steps that is paid for


def certify_words(terms: Terms, encoded: "Encoded") -> "tuple[Certificate, GibbsPosterior]":
    """Certificate A or A', about words, and the posteriors it is about."""
    parts = priors.split_tokens(encoded, terms.split, terms.holdout, terms.rng)
    check_sample(parts.sample.ids.size, encoded)
    n = int(parts.sample.ids.size)
    price = bounds.ln_xi(n) - math.log(terms.share_of_delta)
    prior = _prior_of(terms, parts.prior, n, price)
    # staying at the prior, which no ln xi(n) is paid for, is one of two branches unless fixed
    terms = terms.pay(
        bias=len(terms.biases),
        prior_variance=len(prior.variances),
        branches=2 if terms.posterior in ("auto", "bound") else 1,
    )
    price = bounds.ln_xi(n) - math.log(terms.share_of_delta)
    # From here on the sample is read; Q may depend on it in any way.
    Q = _posterior_of(terms, parts, prior, encoded, price)
    return _measured(terms, parts, prior, Q, encoded)


def _prior_of(terms: Terms, tokens, n, price) -> _Prior:
    """The prior, from its part of the text alone."""
    vectorizer = fitted(terms, tokens)
    inner = priors.split_tokens(tokens, 0.75, 0.0, terms.rng)
    means = vectors_of(vectorizer, tokens)  # (n_documents, n_dims)
    prior = _Prior(vectorizer, means, terms.variances or [], 1.0, np.zeros(means.shape[1]))
    m_inner = vectors_of(vectorizer, inner.prior) if inner.rows.size else None
    if m_inner is not None and terms.calibrate:
        scale, shift = priors.calibrate(
            m_inner, inner.sample, terms.A_hat, terms.p_noise, terms.biases[0], terms.rng
        )
        prior = prior._replace(scale=scale, shift=shift)
    prior = prior._replace(means=prior.calibrated(means))
    if terms.variances is not None:
        return prior
    length = np.sqrt((prior.means.astype(float) ** 2).sum(axis=1).mean())
    variances = [float((spread * max(length, 1e-6)) ** 2) for spread in priors.SPREADS]
    if m_inner is None:
        return prior._replace(variances=[variances[len(variances) // 2]])
    chosen = priors.choose(
        prior.calibrated(m_inner),
        prior.means[inner.rows],
        inner.sample,
        terms.A_hat,
        terms.p_noise,
        terms.rng,
        biases=terms.biases[:1],
        variances=variances,
        steps=priors.STEPS,  # the same whatever `posterior` is: the prior does not depend on it
        n=max(1, inner.sample.ids.size),
        # the sample is larger than this inner one: scale the price to match
        budget=price * inner.sample.ids.size / n,
        budget_of_staying=-math.log(terms.share_of_delta) * inner.sample.ids.size / n,
        weights=terms.weights,
    )
    return prior._replace(variances=[chosen.variance])


def _posterior_of(terms: Terms, parts, prior: _Prior, encoded, price) -> _Posterior:
    far, given = prior.means, None
    if isinstance(terms.posterior, tuple):
        given = given_posterior(terms, parts, encoded, prior.means.shape[1])
        far = prior.calibrated(given[0])
    elif terms.posterior != "prior":
        far = prior.calibrated(vectors_of(prior.vectorizer, priors.join(parts.prior, parts.sample)))
    chosen = priors.choose(
        prior.means,
        far,
        parts.sample,
        terms.A_hat,
        terms.p_noise,
        terms.rng,
        biases=terms.biases,
        variances=prior.variances,
        steps=steps(terms.posterior),
        n=int(parts.sample.ids.size),
        budget=price,
        budget_of_staying=-math.log(terms.share_of_delta),
        weights=terms.weights,
    )
    if given is not None:
        var_Q = prior.scale**2 * np.asarray(given[1], dtype=float)
        return _Posterior(far, var_Q, chosen.variance, chosen.bias, None)
    step = chosen.step
    mu = prior.means
    if step != 0:
        mu = ((1 - step) * prior.means + step * far).astype(np.float32)
    var_Q = np.full(len(mu), chosen.variance)
    if terms.posterior == "bound":
        mu, var_Q = minimise_bound(
            mu, prior.means, chosen.variance, parts.sample, terms.A_hat, terms.p_noise,
            bias=chosen.bias, price=price, weights=terms.weights, rng=terms.rng,
            verbose=terms.verbose,
        )  # fmt: skip
    stayed = np.array_equal(mu, prior.means) and bool(np.all(var_Q == chosen.variance))
    return _Posterior(mu, var_Q, chosen.variance, chosen.bias, step, stayed)


def _measured(terms: Terms, parts, prior: _Prior, Q: _Posterior, encoded):
    mu, var_Q, n = Q.means, Q.variances, int(parts.sample.ids.size)
    var_P = np.full(len(mu), Q.prior_variance)
    errors = token_errors(mu, var_Q, parts.sample, terms.A_hat, bias=Q.bias)
    kl = 0.0
    if not Q.stayed:
        kl = float(kl_gaussians(mu, var_Q, prior.means, var_P).sum())
        kl = kl * (1 + 1e-10) + 1e-13 * mu.size * float(not np.array_equal(var_Q, var_P))
    weight = parts.n_sample / n
    with bar("noise", total=len(mu), unit="documents", enabled=terms.verbose) as progress:
        noise, margin = noise_risk(
            mu, var_Q, terms.A_hat, terms.p_noise,
            bias=Q.bias, precision=terms.precision, n_jobs=terms.n_jobs, progress=progress,
        )  # fmt: skip
    given = isinstance(terms.posterior, tuple)
    certificate = finished(
        terms,
        empirical_risk=min(
            1.0, float(errors.mean() + weight @ token_margin(mu, var_Q)) * (1 + ROUNDING)
        ),
        kl=kl,
        # nothing was learned from the sample: Chernoff's bound needs no ln xi(n)
        bound_name="chernoff" if Q.stayed else "kl inverse with xi(n)",
        n=n,
        noise_risk=float(weight @ noise),
        noise_margin=float(weight @ margin) * (1 + ROUNDING) + 1e-12,
        bias=Q.bias,
        prior_variance=Q.prior_variance,
        scale=prior.scale,
        shift_norm=float(np.linalg.norm(prior.shift)),
        step=Q.step,
        posterior="given" if given else str(terms.posterior),
        n_documents=int(parts.rows.size),
        n_left_out=int(encoded.n_sentences - parts.rows.size),
        **_rest_risk(terms, parts, Q, noise),
    )
    gibbs = GibbsPosterior(
        mu, var_Q, prior.means, var_P, Q.bias, terms.p_noise, parts, prior.scale, prior.shift
    )
    return certificate, gibbs


def _rest_risk(terms: Terms, parts, Q: _Posterior, noise) -> dict:
    """Risk on the tokens that nothing read, weighted as the sample is."""
    n_rest = np.diff(parts.rest.offsets)
    if not n_rest.sum():
        return {}
    errors = token_errors(Q.means, Q.variances, parts.rest, terms.A_hat, bias=Q.bias)
    document = np.repeat(np.arange(n_rest.size), n_rest)
    mean = np.bincount(document, errors, n_rest.size) / np.maximum(n_rest, 1)
    weight = parts.n_sample * (n_rest > 0)
    weight = weight / weight.sum()
    risk = terms.weights[0] * float(weight @ mean) + terms.weights[1] * float(weight @ noise)
    return {"held_out_risk": risk, "n_held_out": int(n_rest.sum())}
