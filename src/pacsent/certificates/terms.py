"""What the kinds of certificate share: the checked arguments, and the pieces of a measurement."""

import math
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone

from pacsent.certificates import priors
from pacsent.certificates.certificate import Certificate
from pacsent.encoders.text_report import EmptySentenceWarning
from pacsent.text.encoded import Encoded, LowCoverageWarning


class GibbsPosterior(NamedTuple):
    """The posteriors a certificate speaks of, and the parts of the text it came from."""

    means: np.ndarray  # (n_documents, n_dims): of the classifier's vector, calibrated
    variances: np.ndarray  # (n_documents,)
    prior_means: np.ndarray
    prior_variances: np.ndarray
    bias: float
    p_noise: np.ndarray
    parts: priors.TextParts
    scale: float
    shift: np.ndarray
    word_means: np.ndarray | None = None  # B: the words' posteriors, (n_words, n_dims)
    word_variances: np.ndarray | None = None


@dataclass(frozen=True)
class Terms:
    """The arguments of `certify`, checked, and what every kind needs beside them."""

    vectorizer: Any
    words: Any
    A_hat: np.ndarray
    B_hat: np.ndarray
    p_noise: np.ndarray
    kind: str
    delta: float
    rng: np.random.Generator
    biases: list
    variances: list | None
    posterior: Any
    calibrate: bool
    split: float
    holdout: float
    refit: bool
    weights: tuple
    precision: str
    n_jobs: int
    verbose: bool
    share: float  # continuation
    n_noise: int
    bound: str
    anytime: bool
    paid: dict = field(default_factory=dict)  # choices made before this measurement
    record: dict = field(default_factory=dict)

    def pay(self, **choices: int) -> "Terms":
        """The same terms with further choices among several values paid for."""
        return replace(self, paid={**self.paid, **{k: v for k, v in choices.items() if v > 1}})

    @property
    def n_choices(self) -> int:
        return math.prod(self.paid.values()) if self.paid else 1

    @property
    def share_of_delta(self) -> float:
        return self.delta / self.n_choices


@contextmanager
def without_warnings_about_parts() -> Iterator[None]:
    """A part of a document may well be empty; every other warning is the user's to see."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", EmptySentenceWarning)
        warnings.simplefilter("ignore", LowCoverageWarning)
        yield


def vectors_of(vectorizer: Any, encoded: Encoded) -> np.ndarray:
    """Vectors of parts of documents."""
    with without_warnings_about_parts():
        return np.asarray(vectorizer.transform(encoded), dtype=np.float32)


def fitted(terms: Terms, encoded: Encoded) -> Any:
    """A clone fitted on text that is not certified, or the vectorizer as it is."""
    if not terms.refit:
        return terms.vectorizer
    with without_warnings_about_parts():
        return clone(terms.vectorizer).fit(encoded)


def finished(terms: Terms, **parts: Any) -> Certificate:
    """A certificate with the totals that follow from its ingredients filled in."""
    draft = Certificate(
        **{
            "risk_bound": math.nan,
            "trivial_value": min(terms.weights),
            "bound_name": "kl inverse with xi(n)",
            "weights": terms.weights,
            "n_choices": terms.n_choices,
            "paid": terms.paid,
            **terms.record,
            **parts,
        }
    )
    return replace(draft, **draft.recompute())  # type: ignore[arg-type]


def steps(posterior: Any) -> tuple[float, ...]:
    """How far from the prior to the method's posterior a search may go, in shares of the way.

    Examples
    --------
    >>> steps('prior'), steps('vectorizer')
    ((0.0,), (1.0,))
    """
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


def given_posterior(
    terms: Terms, parts: priors.TextParts, encoded: Encoded, n_dims: int
) -> tuple[np.ndarray, np.ndarray]:
    """The caller's own posterior, for the documents that can be split."""
    means, variances = (np.asarray(a) for a in terms.posterior)
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


def check_sample(n: int, encoded: Encoded) -> None:
    """Refuse texts that leave nothing to certify."""
    if n == 0:
        raise ValueError(
            "texts must hold at least one document of two known words. Got "
            f"{encoded.n_sentences:,} documents with {encoded.ids.size:,} known words instead."
        )
