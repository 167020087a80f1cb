"""Certificate: a promise with every ingredient of it, in numbers and in words.

What a kind of certificate promises, under which assumption, and how the total follows from the
parts. How the parts are measured is in `certifying.py`, and the door is `certificates.certify`.
"""

import json
import math
from dataclasses import asdict, dataclass, fields

from pacsent.maths import bounds

KINDS = ("A", "A'", "B", "C")
ASSUMPTIONS = {
    "A": (
        "Given its document, every token is drawn independently of all others from the document's "
        "own distribution, which may be anything. Word vectors and noise do not depend on the text."
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
        "Given its document, every token is drawn independently of all others from the document's "
        "own distribution, which may be anything. Word vectors do not depend on the text."
    ),
}
ROUNDING = 1e-12  # relative; sums in float64 are off by less


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
            return {"risk_bound": (self.empirical_risk + rest) * (1 + ROUNDING)}
        bound = bounds.maurer(self.empirical_risk, self.kl, self.n, share, constant="xi")
        if self.kind == "B":
            return {"risk_bound": bound}
        noise = min(1.0, self.noise_risk + self.noise_margin)  # type: ignore[operator]
        total = self.weights[0] * bound + self.weights[1] * noise  # type: ignore[index]
        return {"positive_bound": bound, "risk_bound": min(1.0, total * (1 + ROUNDING))}

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
