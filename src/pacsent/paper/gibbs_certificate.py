"""Parts that the paper's certificates share: options, the Gibbs posterior, and the base class."""

import math
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from pacsent.bounds import pac_bayes as bounds
from pacsent.bounds.checks import is_number
from pacsent.certify.certificate import theorem_1
from pacsent.paper.encoder_certificate import (
    NOISE_IN_WORDS,
    ROUNDING,
    CertifyOptions,
    EncoderCertificate,
)
from pacsent.paper.token_parts import STEPS, TextParts

BOUND_NAMES = ("chernoff", "kl inverse with xi(n)")


@dataclass(frozen=True, kw_only=True)
class GibbsOptions(CertifyOptions):
    """Options of the paper's certificates, with those of `CertifyOptions`.

    For kinds A and C, `split` is the share of each document's tokens that builds the prior and
    `test_size` the share that is held out.
    `posterior` is the Q that is certified: "prior", the vector of the prior's part; "vectorizer",
    that of all the tokens read; "auto", the best step from one to the other; or means and
    variances, with one row per document (B: per word), in the encoder's coordinates.
    `prior_variance` None is chosen by the prior's part, which needs no correction. B: the variance
    of a word is this (0.01 by default) times median(count)/count(w).
    """

    prior_needs_tokens: ClassVar[bool] = True

    split: float = 0.7
    posterior: Any = "auto"
    prior_variance: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.prior_needs_tokens:
            self._must(self.split > 0, "split", "more than 0: the prior needs tokens")
        if self.prior_variance is not None:
            is_valid = is_number(self.prior_variance) and 0 < self.prior_variance < math.inf
            self._must(is_valid, "prior_variance", "finite and > 0")

        # "given" is what a certificate records of means and variances; they are not there to check.
        if self.posterior != "given":
            steps(self.posterior)

    @property
    def n_branches(self) -> int:
        """2 if the sample may decide between staying at the prior and moving."""
        if isinstance(self.posterior, str) and self.posterior == "auto":
            return 2
        return 1

    def recorded(self) -> dict[str, Any]:
        options = super().recorded()
        is_given = isinstance(self.posterior, tuple)
        options["posterior"] = "given" if is_given else self.posterior
        return options


def steps(posterior: Any) -> tuple[float, ...]:
    """Steps that a search may take from prior to posterior, as fractions of the way."""
    if isinstance(posterior, tuple):
        return (1.0,)
    steps_of_name = {"prior": (0.0,), "vectorizer": (1.0,), "auto": STEPS}
    if isinstance(posterior, str) and posterior in steps_of_name:
        return steps_of_name[posterior]
    raise ValueError(
        "posterior must be 'auto', 'prior', 'vectorizer' or a pair (means, variances). "
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

    scope: ClassVar[str] = (
        "the guarantee is about a vector drawn from the posterior, not about its mean. "
        f"{NOISE_IN_WORDS}"
    )
    # Whether the sample may decide between staying at the prior and moving, which is corrected for.
    chooses_branch: ClassVar[bool] = False

    kl: float
    prior_variance: float
    posterior: str

    def _check(self) -> None:
        super()._check()
        n_branches = 1
        if self.chooses_branch:
            n_branches = self.original_options().n_branches
        if self.corrections.get("branches", 1) != n_branches:
            self._refuse("corrections", f"{n_branches} for branches, which the options record")

    def parts(self) -> str:
        return f", KL {self.kl:.4g} nats"

    def certified_distribution(self) -> str:
        """Sentence on the KL: the prior is certified, or a posterior that depends on the sample."""
        if self.kl == 0:
            return "KL = 0: the prior is certified."
        return f"KL = {self.kl:,.4g} nats: a posterior that depends on the sample is certified."

    def why(self) -> str:
        complexity = bounds.ln_xi(self.n) - math.log(self.delta_each)
        if self.observed < self.trivial_value and self.kl > complexity:
            return (
                f"kl = {self.kl:.4g} nats is large for n = {self.n:,}. Choose options that stay "
                "closer to the prior, or certify more."
            )
        return super().why()


@dataclass(frozen=True, kw_only=True)
class WordRiskCertificate(GibbsCertificate):
    """Kinds A and B: true words against negatives.

    `noise_risk` is the exact risk for negatives and `noise_margin` its numerical error, which is
    added; true words and negatives count half each. `step` leads from the prior's means (0) to
    those that were learned (1).
    """

    chooses_branch: ClassVar[bool] = True
    needs_texts: ClassVar[tuple[str, ...]] = (
        *GibbsCertificate.needs_texts,
        *("bias", "scale", "shift_norm", "step", "prior_variance"),
    )

    noise_risk: float
    noise_margin: float
    bound_name: str
    bias: float
    scale: float
    shift_norm: float
    step: float | None

    def theorem_1(self) -> str:
        bound = self.error_upper
        if self.bound_name != "betting":
            bound = self.bound_on_words()
        names = {"chernoff": "Chernoff's bound", "betting": "the betting bound"}
        replaced_by = names.get(self.bound_name, self.bound_name)
        return theorem_1(
            self.empirical_risk, self.n, self.delta_each, bound, replaced_by, kl=self.kl
        )

    def bound_on_words(self) -> float:
        """Chernoff's bound where Q is P, else the kl inverse with xi(n)."""
        if self.bound_name == "chernoff":
            budget = -math.log(self.delta_each) / self.n * (1 + ROUNDING)
            return float(bounds.kl_inverse(self.empirical_risk, budget))
        bound = bounds.maurer(self.empirical_risk, self.kl, self.n, self.delta_each, constant="xi")
        return float(bound)


def given_posterior(
    posterior: tuple[Any, Any], shape: tuple[int, int], rows: Any = slice(None)
) -> tuple[np.ndarray, np.ndarray]:
    """The caller's own means, of this shape, and variances; `rows` of both."""
    means, variances = map(np.asarray, posterior)
    if means.shape != shape or variances.shape != shape[:1]:
        raise ValueError(
            f"posterior must be means of shape {shape} and variances of shape {shape[:1]}, one row "
            f"per text (B: per word). Got {means.shape} and {variances.shape} instead."
        )

    means = means[rows]
    variances = variances[rows].astype(float)
    row_numbers = np.arange(shape[0])[rows]
    has_invalid_mean = ~np.isfinite(means).all(axis=1)  # (n_rows,)
    has_invalid_variance = ~np.isfinite(variances) | (variances <= 0)  # (n_rows,)
    if has_invalid_mean.any() or has_invalid_variance.any():
        place = int(np.argmax(has_invalid_mean | has_invalid_variance))
        problem = f"a variance of {variances[place]:g}"
        if has_invalid_mean[place]:
            problem = "a mean that is not finite"
        raise ValueError(
            f"posterior must have finite means and variances > 0. Got {problem} in row "
            f"{row_numbers[place]} instead. Without spread the exact KL is infinite."
        )
    return means, variances
