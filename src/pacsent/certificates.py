"""Certificates: what can be promised about a sentence representation, and every ingredient of it.

`certify` measures how well vectors built from one part of each document tell the document's other
words from noise, and bounds the risk on words not seen. The promise, its assumption and its proof
are in docs/certificates.md; the inequalities in `bounds`, the exact risks in `risks`, and what may
be chosen before the sample is read in `priors`.
"""

import hashlib
import json
import math
import warnings
from dataclasses import asdict, dataclass, fields
from typing import NamedTuple

import numpy as np
from scipy import sparse

import pacsent
from pacsent import bounds, priors
from pacsent.posterior import kl_gaussians
from pacsent.progress import bar
from pacsent.risks import noise_risk, paper_weights, token_errors
from pacsent.sentence_vectors import n_threads
from pacsent.vocabulary import Encoded

KINDS = ("A", "A'", "B", "C")
ASSUMPTIONS = {
    "A": (
        "Given each document, its tokens are drawn independently from one distribution of its own; "
        "documents may be anything. Word vectors and noise distribution do not depend on them."
    ),
    "A'": (
        "None about language: the texts are fixed, and the chance is that of the random choice of "
        "words alone."
    ),
    "B": (
        "Documents are drawn independently from one distribution; nothing is assumed within a "
        "document. Word vectors, prior and noise distribution do not depend on them."
    ),
    "C": (
        "Given each document, its tokens are drawn independently from one distribution of its own; "
        "documents may be anything. Word vectors do not depend on them."
    ),
}
# max over 0 <= x <= 1 of (1 + x)^4/32 - x^2/2, at x = sqrt(5) - 2: see docs/certificates.md
KAPPA = (5 * math.sqrt(5) - 11) / 4
_ROUNDING = 1e-12  # relative; sums in float64 are off by less


class VacuousBoundWarning(UserWarning):
    """The bound is no better than guessing, so it promises nothing."""


@dataclass(frozen=True)
class Certificate:
    """A promise about a sentence representation, with all that is needed to recompute it.

    `print` it for a paragraph in plain words; `verify` recomputes the bound from the parts;
    `to_json` and `from_json` keep it. Fields that a kind does not use are None.
    """

    kind: str
    risk_bound: float  # what is promised: the risk is at most this, with chance 1 - delta
    trivial_value: float  # what guessing achieves; a bound above it promises nothing
    empirical_risk: float  # measured on the sample, rounded up
    kl: float  # KL(Q||P) in nats, the exact one, rounded up
    n: int  # examples in the sample: tokens (A, A', C) or documents (B)
    delta: float
    n_choices: int  # settings chosen after seeing the sample; each is paid: delta / n_choices
    paid: dict  # what they were
    bound_name: str
    assumption: str
    positive_bound: float | None = None  # on the risk for true words alone (A, A')
    noise_risk: float | None = None  # exact risk for noise words
    noise_margin: float | None = None  # numerical error of noise_risk, added to it
    weights: tuple | None = None  # of true words and noise words in the risk
    bias: float | None = None
    prior_variance: float | None = None
    scale: float | None = None  # of the calibrated prior mean: scale * mean + shift
    shift_norm: float | None = None
    step: float | None = None  # from the prior's mean (0) to the whole document's vector (1)
    posterior: str = ""
    lam: float | None = None  # C
    complexity: float | None = None  # C: what is added to kl before dividing by lam
    split: float | None = None  # share of the tokens (B: documents) that built the prior
    holdout: float | None = None
    held_out_risk: float | None = None  # on tokens that nothing read
    n_held_out: int | None = None
    n_documents: int = 0
    n_left_out: int = 0  # documents too short to split
    vectorizer: str = ""
    text_digest: str = ""
    vectors_digest: str = ""
    random_state: int = 0
    pacsent_version: str = ""
    format_version: int = 1

    @property
    def is_vacuous(self) -> bool:
        return not self.risk_bound < self.trivial_value

    @property
    def gap(self) -> float | None:
        """Bound minus the risk on held-out tokens, where some were held out."""
        return None if self.held_out_risk is None else self.risk_bound - self.held_out_risk

    def recompute(self) -> dict[str, float]:
        """The bound once more, from the ingredients alone."""
        share = self.delta / self.n_choices
        if self.kind == "C":
            rest = (self.kl + self.complexity) / self.lam  # type: ignore[operator]
            return {"risk_bound": (self.empirical_risk + rest) * (1 + _ROUNDING)}
        bound = bounds.maurer(self.empirical_risk, self.kl, self.n, share, constant="xi")
        if self.kind == "B":
            return {"risk_bound": bound}
        noise = min(1.0, self.noise_risk + self.noise_margin)  # type: ignore[operator]
        total = self.weights[0] * bound + self.weights[1] * noise  # type: ignore[index]
        return {"positive_bound": bound, "risk_bound": min(1.0, total * (1 + _ROUNDING))}

    def verify(self) -> bool:
        """Recompute the bound from the parts; True, or a ValueError naming what does not fit."""
        if not 0 < self.delta < 1:
            raise ValueError(f"delta must be strictly between 0 and 1. Got {self.delta} instead.")
        n_paid = math.prod(self.paid.values()) if self.paid else 1
        if n_paid != self.n_choices:
            raise ValueError(
                f"n_choices must be {n_paid}, the product of what was chosen {self.paid}. Got "
                f"{self.n_choices} instead. This certificate does not pay for its choices."
            )
        if self.kind != "C" and self.trivial_value != min(self.weights or (0.5, 0.5)):
            raise ValueError(
                f"trivial_value must be {min(self.weights or (0.5, 0.5))}. Got "
                f"{self.trivial_value} instead."
            )
        if self.kind == "C":
            smallest = math.log(self.n_choices / self.delta)
            if not (self.lam and self.lam > 0 and (self.complexity or 0) >= smallest - 1e-9):
                raise ValueError(
                    f"complexity must be at least ln(n_choices / delta) = {smallest:.6g}. Got "
                    f"{self.complexity} instead. This certificate was loosened."
                )
        for name, value in self.recompute().items():
            stated = getattr(self, name)
            if stated is None or abs(stated - value) > 1e-9 * max(1.0, abs(value)):
                raise ValueError(
                    f"{name} must be {value:.12g}, by its own ingredients. Got {stated} instead. "
                    "This certificate was changed, or made by another formula."
                )
        return True

    def to_json(self) -> str:
        """One JSON object; `from_json` reads it back, every number exactly."""
        return json.dumps(asdict(self), indent=1, ensure_ascii=False)

    @classmethod
    def from_json(cls, text: str) -> "Certificate":
        """The certificate that `to_json` wrote."""
        values = json.loads(text)
        known = {field.name for field in fields(cls)}
        if not isinstance(values, dict) or not {"kind", "risk_bound", "format_version"} <= set(
            values
        ):
            raise ValueError(
                "text must be a certificate as to_json writes it. Got something else instead."
            )
        if values["format_version"] != 1 or not set(values) <= known:
            raise ValueError(
                f"format_version must be 1. Got {values['format_version']} instead, with the "
                f"fields {sorted(set(values) - known)}. Read it with a newer pacsent."
            )
        if values.get("weights") is not None:
            values["weights"] = tuple(values["weights"])
        return cls(**values)

    def __str__(self) -> str:
        sure = f"{100 * (1 - self.delta):g} %"
        lines = [_HEADLINES[self.kind](self, sure)]
        if self.is_vacuous:
            lines.append(
                f"This is no better than guessing ({self.trivial_value:.4g}), so it promises "
                f"nothing: {vacuous_reason(self)}"
            )
        lines.append(_measured(self))
        if self.held_out_risk is not None:
            lines.append(
                f"On {self.n_held_out:,} further words that nothing read, the risk was "
                f"{self.held_out_risk:.4f}, {self.risk_bound - self.held_out_risk:.4f} below it."
            )
        lines.append(f"Assumption: {self.assumption}")
        lines.append(
            "It speaks of a vector drawn from the posterior, not of its mean. Another random_state "
            "gives another split: reporting the best of J splits takes delta / J."
        )
        return "\n".join(lines)


def _headline_words(self, sure):
    unseen = (
        "a further word of one of these documents"
        if self.kind == "A"
        else "a word of these documents that did not build its vector"
    )
    what = (
        "decides wrongly at most"
        if self.weights == (0.5, 0.5)
        else f"(true words weighted {self.weights[0]:.4g}) decides wrongly at most"
    )
    return (
        f"Certificate {self.kind}: with {sure} confidence, a classifier that tells {unseen} from a "
        f"random word of the language, by the document's vector, {what} "
        f"{100 * self.risk_bound:.2f} % of the time. Guessing is wrong "
        f"{100 * self.trivial_value:.4g} % of the time."
    )


def _headline_documents(self, sure):
    return (
        f"Certificate B: with {sure} confidence, on a new document from the same source a "
        f"classifier that tells the document's words from random words of the language, by the "
        f"document's vector, decides wrongly at most {100 * self.risk_bound:.2f} % of the time. "
        f"Guessing is wrong {100 * self.trivial_value:.4g} % of the time."
    )


def _headline_squares(self, sure):
    return (
        f"Certificate C: with {sure} confidence, half the squared distance between a document's "
        f"vector and a further word of it is at most {self.risk_bound:.4g} on average. Answering "
        f"the average word vector of the language came to {self.trivial_value:.4g}."
    )


_HEADLINES = {
    "A": _headline_words,
    "A'": _headline_words,
    "B": _headline_documents,
    "C": _headline_squares,
}


def _measured(self) -> str:
    unit = "documents" if self.kind == "B" else "words"
    text = (
        f"It was measured on {self.n:,} {unit} of {self.n_documents:,} documents: empirical risk "
        f"{self.empirical_risk:.4f}"
    )
    if self.kind in ("A", "A'"):
        text += f" on true words, exactly {self.noise_risk:.4f} on noise"
    text += f", KL {self.kl:.4g} nats, delta {self.delta:g}"
    if self.n_choices > 1:
        paid = ", ".join(f"{count} values of {name}" for name, count in self.paid.items())
        text += f", shared among {self.n_choices} choices ({paid})"
    return text + "."


def vacuous_reason(certificate: Certificate) -> str:
    """Which term makes the bound as large as it is."""
    c, n = certificate, certificate.n
    if c.kind == "C":
        if c.empirical_risk >= c.trivial_value:
            return f"the empirical risk {c.empirical_risk:.4g} alone exceeds it."
        if c.kl > (c.complexity or 0.0):
            return f"kl = {c.kl:.4g} nats is large for n = {n:,}."
        return f"the complexity {c.complexity:.4g} nats is large for n = {n:,}: words lie too far."
    risk = c.empirical_risk
    if c.kind != "B":
        risk = c.weights[0] * risk + c.weights[1] * (c.noise_risk + c.noise_margin)  # type: ignore
    if risk >= c.trivial_value:
        worse = ""
        if c.kind != "B":
            parts = {"true words": c.empirical_risk, "noise": c.noise_risk}
            name = max(parts, key=lambda key: parts[key] or 0.0)
            worse = f" (most of it on {name}: {parts[name]:.4g})"
        return f"the empirical risk {risk:.4g} alone is no better{worse}. Choose another bias."
    price = bounds.ln_xi(n) - math.log(c.delta / c.n_choices)
    if c.kl > price:
        return (
            f"kl = {c.kl:.4g} nats is large for n = {n:,}. Choose settings that stay closer to "
            "the prior, or certify on more examples."
        )
    return f"n = {n:,} examples are too few for delta = {c.delta:g}. Certify on more examples."


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


def certify(
    vectorizer,
    texts,
    kind="A",
    *,
    delta=0.05,
    random_state=0,
    bias=None,
    prior_variance=None,
    posterior="auto",
    calibrate=True,
    split=None,
    holdout=None,
    refit=True,
    noise_power=0.75,
    weighting="balanced",
    n_negatives=None,
    precision="float32",
    n_jobs=None,
    verbose=False,
    return_posterior=False,
):
    """Certify how well a vectorizer's vectors tell a text's unseen words from noise.

        risk <= w+ kl_inverse(R+_hat, (KL(Q||P) + ln(xi(n)/delta)) / n) + w- R-       (A, A')

    Parameters
    ----------
    vectorizer : estimator of this package
        Gives the documents' vectors. It need not be fitted where `refit` is true.
    texts : iterable of str or of token lists, or Encoded
        The text to certify, one document each. The word vectors must not have been trained on it.
    kind : {"A", "A'", "B", "C"}, default="A"
        A: further words of these documents, tokens independent given the document. A': words of
        these very texts that were not drawn, no assumption. B: new documents (for w-PB-neg; other
        vectorizers certify their words' prior). C: squared loss, as A.
    delta : float, default=0.05
        Chance that the statement fails.
    random_state : int, default=0
        Seed of the split. Trying several and reporting the best must be paid: delta / number.
    bias : float, list of float, or None
        Added to every score. A number must be fixed before looking at the texts (None: ln of the
        number of negatives the vectors were trained with, or of 15). A list is a grid, searched
        on the sample and paid for.
    prior_variance : float, list of float, or None
        Of the prior. None chooses it by the prior's part of the text, which costs nothing; a list
        is searched on the sample and paid for.
    posterior : {"auto", "prior", "vectorizer", "bound"} or (means, variances), default="auto"
        Which Q is certified; free, the bound holds for all. "prior": the vector of the prior's
        part. "vectorizer": the vector of all the tokens read. "auto": the best step from the one to
        the other. "bound": moved further by minimising the bound itself. A pair of arrays with one
        row per document: any posterior, however it was learned, in the vectorizer's coordinates.
    calibrate : bool, default=True
        Replace the prior's mean m by scale * m + shift, fitted on the prior's part alone (B: on
        documents set aside).
    split, holdout : float, or None
        Share of each document's tokens that builds the prior, and share that nothing reads. Default
        0.7 and 0 (A, C), 0.5 and 0.25 (A'). B: `split` is the share of documents set aside to
        calibrate (0.1), `holdout` the share of documents that nothing reads (0).
    refit : bool, default=True
        Fit a clone of the vectorizer on the prior's part. False uses it as it was fitted, and
        refuses one that was fitted on the certified text.
    noise_power : float, default=0.75
        Noise distribution: source counts to this power.
    weighting : {"balanced", "paper"}, default="balanced"
        True words and noise weigh 1/2 each, or 1/(k+1) and k/(k+1) with k = `n_negatives`.
    n_negatives : int or None
        k above; None as for the bias.
    precision : {"float32", "float64"}, default="float32"
        Of the exact noise risk; its numerical error is bounded and added either way.
    n_jobs : int or None
        Threads. The result does not depend on it.
    verbose : bool, default=False
        Progress on stderr.
    return_posterior : bool, default=False
        Return (certificate, GibbsPosterior).

    Returns
    -------
    certificate : Certificate

    Warns
    -----
    VacuousBoundWarning
        Where the bound is no better than guessing, with the term that makes it so.

    Notes
    -----
    Docs: docs/certificates.md. The digest check catches vectors trained on the same text, token
    for token; it cannot see an overlap.
    """
    if kind not in KINDS:
        raise ValueError(f"kind must be one of {KINDS}. Got {kind!r} instead.")
    if not isinstance(delta, int | float) or not 0 < delta < 1:
        raise ValueError(f"delta must be strictly between 0 and 1. Got {delta!r} instead.")
    if not isinstance(random_state, int | np.integer) or random_state < 0:
        raise ValueError(
            f"random_state must be an integer >= 0, because a certificate records its seed. Got "
            f"{random_state!r} instead."
        )
    if weighting not in ("balanced", "paper"):
        raise ValueError(f"weighting must be 'balanced' or 'paper'. Got {weighting!r} instead.")
    words = vectorizer.word_vectors
    swap = getattr(vectorizer, "swap_roles", False)
    if words.output_vectors is None:
        raise ValueError(
            "The word vectors must have an output table to be certified. Got input vectors only "
            "instead. Train with pacsent train, or convert a model that kept both."
        )
    A_hat, B_hat = words.roles(swap=swap)
    encoded = words.vocabulary.encode(texts)
    text_digest = words.vocabulary.digest(encoded)
    if words.corpus_digest is not None and words.corpus_digest == text_digest:
        raise ValueError(
            "These word vectors were trained on the text being certified (digest "
            f"{text_digest[:4]}…{text_digest[-2:]}), so the prior has seen the sample and no "
            "PAC-Bayes bound holds. Train them on other text, or certify on held-out text."
        )
    if not refit and _fitted_on(vectorizer, encoded, text_digest):
        raise ValueError(
            "This vectorizer was fitted on the text being certified, so the prior has seen the "
            "sample and no PAC-Bayes bound holds. Fit it on other text, or pass refit=True."
        )
    k = n_negatives or words.training.get("n_negatives") or 15
    defaults = {"A": (0.7, 0.0), "A'": (0.5, 0.25), "B": (0.1, 0.0), "C": (0.7, 0.0)}[kind]
    split = defaults[0] if split is None else split
    holdout = defaults[1] if holdout is None else holdout
    least = 0.0 if kind == "B" else 1e-9
    if not (least <= split < 1 and 0 <= holdout < 1 and split + holdout < 1):
        raise ValueError(
            f"split and holdout must be shares with a positive rest. Got {split} and {holdout} "
            "instead."
        )
    if kind == "A'" and holdout <= 0:
        raise ValueError(
            'holdout must be > 0 for kind "A\'": it bounds the risk on all words outside the '
            f"prior's part, and the sample must leave some of them out. Got {holdout} instead."
        )
    setting = _Setting(
        vectorizer=vectorizer,
        words=words,
        A_hat=A_hat,
        B_hat=B_hat,
        p_noise=words.vocabulary.noise_probabilities(noise_power),
        kind=kind,
        delta=float(delta),
        rng=np.random.default_rng(int(random_state)),
        biases=_grid("bias", math.log(k) if bias is None else bias),
        variances=None if prior_variance is None else _grid("prior_variance", prior_variance, 0.0),
        posterior=posterior,
        calibrate=calibrate,
        split=float(split),
        holdout=float(holdout),
        refit=refit,
        weights=(0.5, 0.5) if weighting == "balanced" else paper_weights(k),
        precision=precision,
        n_jobs=n_threads(n_jobs),
        verbose=verbose,
        record={
            "kind": kind,
            "delta": float(delta),
            "assumption": ASSUMPTIONS[kind],
            "split": float(split),
            "holdout": float(holdout),
            "vectorizer": _describe(vectorizer),
            "text_digest": text_digest,
            "vectors_digest": vectors_digest(words),
            "random_state": int(random_state),
            "pacsent_version": pacsent.__version__,
        },
    )
    certifier = {"B": _certify_documents, "C": _certify_squares}.get(kind, _certify_words)
    certificate, gibbs = certifier(setting, encoded)
    if certificate.is_vacuous:
        warnings.warn(
            f"The bound is {certificate.risk_bound:.4g} and promises nothing: "
            f"{vacuous_reason(certificate)}",
            VacuousBoundWarning,
            stacklevel=2,
        )
    return (certificate, gibbs) if return_posterior else certificate


class _Setting(NamedTuple):
    """What the three certifiers share."""

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


def _grid(name, value, above=-math.inf) -> list[float]:
    values = [float(v) for v in np.atleast_1d(np.asarray(value, dtype=float))]
    if not values or not all(math.isfinite(v) and v > above for v in values):
        rule = "finite" if above == -math.inf else f"finite and > {above:g}"
        raise ValueError(f"{name} must be {rule}. Got {value!r} instead.")
    # float32 numbers, so that the noise risk is that of the very same classifier
    return [float(np.float32(v)) if name == "bias" else v for v in values]


def _describe(vectorizer) -> str:
    parameters = {
        key: value
        for key, value in vectorizer.get_params(deep=False).items()
        if key not in ("word_vectors", "n_jobs", "batch_size", "on_empty", "verbose")
    }
    inside = ", ".join(f"{key}={value!r}" for key, value in sorted(parameters.items()))
    return f"{type(vectorizer).__name__}({inside})"


def vectors_digest(words) -> str:
    """sha256 of the vocabulary and both tables."""
    total = hashlib.sha256("\n".join(words.vocabulary.words).encode() + b"\0")
    for table in (words.input_vectors, words.output_vectors):
        total.update(str(table.dtype).encode())
        total.update(np.ascontiguousarray(table).data)
    return total.hexdigest()


def _fitted_on(vectorizer, encoded, digest) -> bool:
    """Whether the vectorizer's fit saw this text; by digest, or by the counts it learned."""
    if getattr(vectorizer, "fit_digest_", None) == digest:
        return True
    counts = getattr(vectorizer, "noise_counts_", None)
    if counts is None:
        return hasattr(vectorizer, "idf_") and not hasattr(vectorizer, "fit_digest_")
    return bool(np.array_equal(counts, np.bincount(encoded.ids, minlength=len(counts))))


def _vectors(setting, vectorizer, encoded) -> np.ndarray:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return np.asarray(vectorizer.transform(encoded), dtype=np.float32)


def _fitted(setting, encoded):
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


def _certify_words(setting, encoded):
    s = setting
    parts = priors.split_tokens(encoded, s.split, s.holdout, s.rng)
    _check_sample(parts.sample.ids.size, encoded)
    n = int(parts.sample.ids.size)
    price = bounds.ln_xi(n) - math.log(s.delta)

    # From here to `prior` only the prior's part is read.
    vectorizer = _fitted(s, parts.prior)
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
                steps=priors.STEPS if s.posterior in ("auto", "bound") else _steps(s.posterior),
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
        steps=_steps(s.posterior),
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
        empirical_risk=min(1.0, (float(errors.mean()) + 1e-11) * (1 + _ROUNDING)),
        kl=kl * (1 + 1e-10) + 1e-13 * mu.size * float(not np.array_equal(var_Q, var_P)),
        n=n,
        n_choices=n_choices,
        paid=paid,
        noise_risk=float(weight @ noise),
        noise_margin=float(weight @ margin) * (1 + _ROUNDING) + 1e-12,
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


def _steps(posterior):
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


def _certify_documents(setting, encoded):
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
        means, _ = _mixed(halves.prior, B_hat, prior_var)
        scale, shift = priors.calibrate(means, halves.sample, s.A_hat, s.p_noise, bias, s.rng)
    changed = np.flatnonzero((var_w != prior_var) | (mu_w != B_hat).any(axis=1))
    kl = 0.0
    for some in np.array_split(changed, max(1, changed.size // 8192)):
        kl += float(kl_gaussians(mu_w[some], var_w[some], B_hat[some], prior_var[some]).sum())

    def document_risks(documents):
        """Half of each document makes its vector, the other half is scored; h is calibrated."""
        halves = priors.split_tokens(documents, 0.5, 0.0, s.rng)
        means, variances = _mixed(halves.prior, mu_w, var_w)
        means, variances = scale * means + shift, scale**2 * variances
        errors = token_errors(means, variances, halves.sample, s.A_hat, bias=bias)
        n = np.diff(halves.sample.offsets)
        positive = np.bincount(np.repeat(np.arange(n.size), n), errors, n.size) / n
        # the margin of noise_risk allows for this rounding of the means
        noise, margin = noise_risk(
            means.astype(np.float32), variances, s.A_hat, s.p_noise,
            bias=bias, precision="float32", n_jobs=s.n_jobs,
        )  # fmt: skip
        return positive, noise, margin, GibbsPosterior(
            means, variances, mu_w, var_w, bias, s.p_noise, halves, scale, shift
        )  # fmt: skip

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
        empirical_risk=min(1.0, (float(risk.mean()) + 1e-11) * (1 + _ROUNDING)),
        kl=kl * (1 + 1e-10) + 1e-13 * changed.size * B_hat.shape[1],
        n=M,
        n_choices=1,
        paid={},
        noise_risk=float(noise.mean()),
        noise_margin=float(margin.mean()),
        bias=bias,
        scale=scale,
        shift_norm=float(np.linalg.norm(shift)),
        posterior="words" if changed.size else "prior",
        prior_variance=float(np.median(prior_var)),
        n_documents=M,
        n_left_out=int(encoded.n_sentences - M - aside.size - rest.size),
        **held_out,
    )
    return certificate, gibbs


def _mixed(encoded: Encoded, mu_w, var_w):
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
    if s.posterior == "prior" or not hasattr(s.vectorizer, "word_posterior"):
        return B_hat, prior_var, prior_var
    vectorizer = _fitted(s, sample)
    return vectorizer.word_posterior()


# ------------------------------------------------------------------------------------------------
# C: squared loss
# ------------------------------------------------------------------------------------------------


def _certify_squares(setting, encoded):
    s = setting
    parts = priors.split_tokens(encoded, s.split, s.holdout, s.rng)
    _check_sample(parts.sample.ids.size, encoded)
    n_s = parts.n_sample.astype(float)
    n = int(n_s.sum())
    A_hat = np.asarray(s.A_hat, dtype=np.float32)
    n_dims = A_hat.shape[1]

    # From here to lam only the prior's part is read.
    vectorizer = _fitted(s, parts.prior)
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
