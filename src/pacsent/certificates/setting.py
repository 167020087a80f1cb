"""What the kinds of certificate share: the checked arguments, and the pieces of a measurement."""

import math
import warnings
from contextlib import contextmanager
from dataclasses import fields
from typing import NamedTuple

import numpy as np

from pacsent.certificates import priors
from pacsent.certificates.certificate import Certificate
from pacsent.sentences.base import EmptySentenceWarning
from pacsent.words.encoded import LowCoverageWarning


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


@contextmanager
def without_warnings_about_parts():
    """A part of a document may well be empty; every other warning is the user's to see."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", EmptySentenceWarning)
        warnings.simplefilter("ignore", LowCoverageWarning)
        yield


def vectors_of(setting, vectorizer, encoded) -> np.ndarray:
    with without_warnings_about_parts():
        return np.asarray(vectorizer.transform(encoded), dtype=np.float32)


def fitted(setting, encoded):
    """A clone fitted on the prior's part, or the vectorizer as it is."""
    from sklearn.base import clone

    if not setting.refit:
        return setting.vectorizer
    with without_warnings_about_parts():
        return clone(setting.vectorizer).fit(encoded)


def finished(setting, **parts) -> Certificate:
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


def given_posterior(setting, parts, encoded, n_dims):
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


def check_sample(n, encoded):
    if n == 0:
        raise ValueError(
            "texts must hold at least one document of two known words. Got "
            f"{encoded.n_sentences:,} documents with {encoded.ids.size:,} known words instead."
        )
