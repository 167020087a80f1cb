"""What the paper's certificates share: options, the Gibbs posterior, and the base class."""

import math
from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from pacsent.guarantees.encoder_certificate import (
    ROUNDING,
    CertifyOptions,
    EncoderCertificate,
    Sample,
    finite_list,
    n_negatives_of,
)
from pacsent.maths import bounds
from pacsent.maths.checks import is_count, is_number
from pacsent.maths.risks import paper_weights
from pacsent.paper.token_parts import STEPS, TextParts

BOUND_NAMES = ("chernoff", "kl inverse with xi(n)")


@dataclass(frozen=True, kw_only=True)
class GibbsOptions(CertifyOptions):
    """Options of the paper's certificates, with those of `CertifyOptions`.

    For kinds A and C, `split` is the share of each document's tokens that builds the prior and
    `holdout` the share that is held out.

    Attributes
    ----------
    posterior : {"auto", "prior", "vectorizer", "bound"} or (means, variances), default="auto"
        Which Q is certified. "prior": the vector of the prior's part. "vectorizer": the vector of
        all the tokens read. "auto": the best step from one to the other. "bound": moved further by
        minimising the bound itself. A pair of arrays with one row per document (B: per word): any
        posterior, in the encoder's coordinates.
    prior_variance : float, list of float, or None
        Of the prior. None chooses it by the prior's part, which needs no correction; a list (A)
        is searched on the sample and corrected for. B: the variance of a word is this (0.01 by
        default) times median(count)/count(w).
    bias : float, list of float, or None
        As in `CertifyOptions`; a list (A) is searched on the sample and corrected for.
    weighting : {"balanced", "paper"}, default="balanced"
        True words and noise weigh 1/2 each, or 1/(k+1) and k/(k+1) with k = `n_negatives`.
    n_negatives : int or None
        k above; None: as the vectors were trained.
    """

    split: float = 0.7
    posterior: Any = "auto"
    prior_variance: Any = None
    weighting: str = "balanced"
    n_negatives: int | None = None

    def __post_init__(self):
        super().__post_init__()
        self._must(self.weighting in ("balanced", "paper"), "weighting", "'balanced' or 'paper'")
        right = self.n_negatives is None or is_count(self.n_negatives, 1)
        self._must(right, "n_negatives", "an integer of at least 1, or None")
        if self.prior_variance is not None:
            finite_list("prior_variance", self.prior_variance, above=0.0)
        steps("prior" if self.posterior == "given" else self.posterior)

    @property
    def variances(self) -> list[float] | None:
        return None if self.prior_variance is None else finite_list("", self.prior_variance)

    @property
    def n_branches(self) -> int:
        """2 where the sample may decide between staying at the prior and moving."""
        return 2 if isinstance(self.posterior, str) and self.posterior in ("auto", "bound") else 1

    def weights(self, words: Any) -> tuple[float, float]:
        """Of true words and noise words in the risk."""
        if self.weighting == "balanced":
            return 0.5, 0.5
        return paper_weights(self.n_negatives or n_negatives_of(words))

    def recorded(self) -> dict[str, Any]:
        given = isinstance(self.posterior, tuple)
        return {**super().recorded(), "posterior": "given" if given else self.posterior}


def steps(posterior: Any) -> tuple[float, ...]:
    """How far from the prior to the method's posterior a search may go, in shares of the way.

    >>> steps('prior'), steps('vectorizer')
    ((0.0,), (1.0,))
    """
    if isinstance(posterior, tuple) or (isinstance(posterior, str) and posterior == "vectorizer"):
        return (1.0,)
    if posterior == "prior":
        return (0.0,)
    if posterior in ("auto", "bound"):
        return STEPS
    raise ValueError(
        "posterior must be 'auto', 'prior', 'vectorizer', 'bound' or a pair (means, variances). "
        f"Got {posterior!r} instead."
    )


class GibbsPosterior(NamedTuple):
    """The posteriors that a certificate is about, and the parts of the text they came from."""

    means: np.ndarray  # (n_documents, n_dims): of the classifier's vector, calibrated
    variances: np.ndarray  # (n_documents,)
    prior_means: np.ndarray
    prior_variances: np.ndarray
    bias: float
    p_noise: np.ndarray
    parts: TextParts
    scale: float
    shift: np.ndarray
    word_means: np.ndarray | None = None  # B: the words' posteriors, (n_words, n_dims)
    word_variances: np.ndarray | None = None


@dataclass(frozen=True, kw_only=True)
class GibbsCertificate(EncoderCertificate):
    """A guarantee about a vector that is drawn from a posterior Q, with a prior P.

    `kl` is KL(Q||P) in nats, the exact one, rounded up; `posterior` says which Q it is.
    """

    searched: ClassVar[tuple[str, ...]] = ()  # what the sample may choose, if options are lists

    kl: float
    prior_variance: float
    posterior: str

    def _check(self) -> None:
        super()._check()
        options = self.original_options()
        for name in self.searched:
            several = options.n_branches if name == "branches" else np.size(getattr(options, name))
            if self.corrections.get(name, 1) != several:
                self._refuse("corrections", f"{several} for {name}, which the options record")

    def made_again(self, encoder: Any, texts: Any) -> EncoderCertificate:
        if self.posterior == "given":
            raise ValueError(
                "The posterior must be recorded to certify again. This one was given as arrays. "
                "Certify again with the same arrays, and compare."
            )
        return self.measure_again(encoder, texts)

    @abstractmethod
    def measure_again(self, encoder: Any, texts: Any) -> EncoderCertificate:
        """By the function that measures this kind."""

    def scope_in_words(self) -> str:
        return (
            "the guarantee is about a vector drawn from the posterior, not about its mean. "
            f"{self.noise_in_words()}"
        )

    def parts(self) -> str:
        return f", KL {self.kl:.4g} nats" if self.kl else ""

    def why(self) -> str:
        price = bounds.ln_xi(self.n) - math.log(self.delta_each)
        if self.observed < self.trivial_value and self.kl > price:
            return (
                f"kl = {self.kl:.4g} nats is large for n = {self.n:,}. Choose options that stay "
                "closer to the prior, or certify more."
            )
        return super().why()


@dataclass(frozen=True, kw_only=True)
class WordRiskCertificate(GibbsCertificate):
    """Kinds A and B: true words against noise words.

    `noise_risk` is the exact risk for noise words and `noise_margin` its numerical error, which is
    added; `weights` are those of true words and noise words in the risk; `step` leads from the
    prior's means (0) to those that were learned (1).
    """

    needs_texts: ClassVar[tuple[str, ...]] = (
        *GibbsCertificate.needs_texts, "bias", "scale", "shift_norm", "step", "prior_variance",
    )  # fmt: skip

    noise_risk: float
    noise_margin: float
    weights: tuple
    bound_name: str
    bias: float
    scale: float
    shift_norm: float
    step: float | None

    @property
    def trivial_value(self) -> float:
        return min(self.weights)

    @property
    def weighted(self) -> str:
        """What the headline says where true words and noise words do not weigh the same."""
        if tuple(self.weights) == (0.5, 0.5):
            return ""
        return f" (true words weighted {self.weights[0]:.4g}, noise {self.weights[1]:.4g})"

    def _check(self) -> None:
        super()._check()
        weights = self.weights
        right = len(weights) == 2 and all(is_number(x) and 0 <= x <= 1 for x in weights)
        if not right or not math.isclose(sum(weights), 1.0, abs_tol=1e-12):
            self._refuse("weights", "two shares that add up to one")
        if self.options["weighting"] == "balanced" and tuple(weights) != (0.5, 0.5):
            self._refuse("weights", "(0.5, 0.5), which the options record")

    def bound_on_words(self) -> float:
        """Chernoff's bound where Q is P, else the kl inverse with xi(n)."""
        if self.bound_name == "chernoff":
            price = -math.log(self.delta_each) / self.n * (1 + ROUNDING)
            return float(bounds.kl_inverse(self.empirical_risk, price))
        bound = bounds.maurer(self.empirical_risk, self.kl, self.n, self.delta_each, constant="xi")
        return float(bound)


def given_posterior(sample: Sample, parts: TextParts, n_dims: int) -> tuple[np.ndarray, np.ndarray]:
    """The caller's own posterior, for the documents that can be split."""
    means, variances = (np.asarray(a) for a in sample.options.posterior)
    shape = (sample.n_texts, n_dims)
    if means.shape != shape or variances.shape != shape[:1]:
        raise ValueError(
            f"posterior must be means of shape {shape} and variances of shape {shape[:1]}, one row "
            f"per text. Got {means.shape} and {variances.shape} instead."
        )
    rows = sample.rows[parts.rows]
    means, variances = means[rows], variances[rows].astype(float)
    if not np.isfinite(means).all() or not (np.isfinite(variances) & (variances > 0)).all():
        raise ValueError(
            "posterior must have finite means and variances > 0 for every text of two known words "
            "or more. Got others instead. Without spread the exact KL is infinite."
        )
    return means, variances
