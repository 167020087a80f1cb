"""Certificate: a promise with every ingredient of it.

What a kind of certificate promises, under which assumption, and how the total follows from the
parts. How the parts are measured is in one file per kind; how it is said in words and pictures is
in `wording.py`; the door is `certifying.certify`.
"""

import base64
import binascii
import json
import math
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field, fields
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from pacsent.certificates import wording
from pacsent.maths import bounds
from pacsent.maths.means import MEAN_BOUNDS

if TYPE_CHECKING:
    from pacsent.encoders.sentence_vectorizer import SentenceVectorizer

KINDS = ("continuation", "A", "A'", "B", "C")
PROVENANCES = ("checked", "unknown")
ASSUMPTIONS = {
    "continuation": (
        "Documents are drawn independently from one population; nothing is assumed about the "
        "words inside a document. Word vectors, noise and everything that was fitted or chosen do "
        "not depend on the certified documents."
    ),
    "A": (
        "Given its document, every token is drawn independently of all others from the document's "
        "own distribution, which may be anything. Real text is not like that: words come in bursts "
        "and topics drift, and on real documents the words that follow break this bound. Word "
        "vectors and noise do not depend on the text."
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
        "own distribution, which may be anything; real text is not like that. Word vectors do not "
        "depend on the text."
    ),
}
ROUNDING = 1e-12  # relative; sums in float64 are off by less
_STEPS = 65_535  # a kept loss is a multiple of 1/65535, rounded up


def packed_losses(losses: np.ndarray) -> str:
    """Losses in [0, 1] rounded up to 16 bits, as text: what a certificate keeps of them.

    Examples
    --------
    >>> import numpy as np
    >>> unpacked_losses(packed_losses(np.array([0.0, 1.0])))
    array([0., 1.])
    """
    # a loss that is a multiple already must not move up by a rounding error
    steps = np.ceil(np.clip(losses, 0.0, 1.0) * _STEPS - 1e-9)
    return base64.b64encode(steps.astype("<u2").tobytes()).decode()


def unpacked_losses(text: str) -> np.ndarray:
    """The losses that `packed_losses` kept, (n,) float64.

    Examples
    --------
    >>> import numpy as np
    >>> unpacked_losses(packed_losses(np.array([0.5]))) >= 0.5  # rounded up, never down
    array([ True])
    """
    try:
        raw = base64.b64decode(text, validate=True)
        return np.frombuffer(raw, dtype="<u2").astype(float) / _STEPS
    except (binascii.Error, ValueError):
        raise ValueError(
            "losses must be what certify recorded. Got damaged text instead. Certify again."
        ) from None


@dataclass(frozen=True)
class Certificate:
    """A promise about a sentence representation, with all that is needed to recompute it.

    `print` it for a paragraph in plain words (a notebook shows a picture too); `verify` recomputes
    the bound from the parts, and with the texts and the vectorizer the parts as well; `to_json` and
    `from_json` keep it. Fields that a kind does not use are None.

    Examples
    --------
    >>> import numpy as np
    >>> from pacsent import Certificate, certify, make
    >>> from pacsent.certificates.simulation import SETTINGS, Language
    >>> language = Language(SETTINGS["topics"])
    >>> texts, _ = language.draw(np.random.default_rng(0), np.tile(np.arange(60), 10))
    >>> certificate = certify(make("PB-L2", language.words), texts, random_state=0)
    >>> certificate.empirical_risk < certificate.risk_bound < certificate.trivial_value
    True
    >>> Certificate.from_json(certificate.to_json()) == certificate
    True
    """

    kind: str
    risk_bound: float  # what is promised: the risk is at most this, with chance 1 - delta
    trivial_value: float  # what guessing achieves; a bound above it promises nothing
    empirical_risk: float  # measured on the sample, rounded up
    kl: float  # KL(Q||P) in nats, the exact one, rounded up
    n: int  # examples in the sample: documents (continuation, B) or tokens (A, A', C)
    delta: float
    n_choices: int  # settings chosen after seeing the sample; each is paid: delta / n_choices
    paid: dict  # what they were
    bound_name: str
    assumption: str
    losses: str | None = None  # of each document, in order, rounded up to 16 bits (continuation, B)
    positive_bound: float | None = None  # on the risk for true words alone (A, A')
    noise_risk: float | None = None  # exact risk for noise words
    noise_margin: float | None = None  # numerical error of noise_risk, added to it
    noise_power: float = 0.75  # noise words have chances by source count to this power
    weights: tuple | None = None  # of true words and noise words in the risk
    bias: float | None = None
    prior_variance: float | None = None
    scale: float | None = None  # of the calibrated prior mean: scale * mean + shift
    shift_norm: float | None = None
    step: float | None = None  # from the prior's mean (0) to the whole document's vector (1)
    posterior: str = ""
    lam: float | None = None  # C
    complexity: float | None = None  # C: what is added to kl before dividing by lam
    share: float | None = None  # continuation: the first part of a document that makes its vector
    split: float | None = None  # share of the tokens (B, continuation: documents) set aside
    holdout: float | None = None
    held_out_risk: float | None = None  # on tokens (B, continuation: documents) that nothing read
    n_held_out: int | None = None
    n_documents: int = 0
    n_left_out: int = 0  # documents too short to split
    n_overlapping: int = 0  # documents that the vectors had seen, left out
    provenance: str = "unknown"  # whether it was checked that the vectors had not seen the text
    provenance_note: str = ""
    candidates: list = field(default_factory=list)  # of several: name and bound of each
    vectorizer: str = ""
    options: dict = field(default_factory=dict)  # what `certify` was called with
    text_digest: str = ""
    vectors_digest: str = ""
    random_state: int = 0
    pacsent_version: str = ""
    format_version: int = 2

    certify_again: ClassVar[Callable[..., "Certificate"]]  # `certify`, put here by its module

    @property
    def is_vacuous(self) -> bool:
        return not self.risk_bound < self.trivial_value

    @property
    def gap(self) -> float | None:
        """Bound minus the risk on what was held out, where something was."""
        return None if self.held_out_risk is None else self.risk_bound - self.held_out_risk

    def recompute(self) -> dict[str, float]:
        """The bound once more, from the ingredients alone."""
        share = self.delta / self.n_choices
        if self.kind == "C":
            rest = (self.kl + self.complexity) / self.lam  # type: ignore[operator]
            return {"risk_bound": (self.empirical_risk + rest) * (1 + ROUNDING)}
        if self.losses is not None and self.kl == 0:
            losses = unpacked_losses(self.losses)
            anytime = {"anytime": True} if self.options.get("anytime") else {}
            bound = MEAN_BOUNDS[self.bound_name](losses, share, **anytime)
            return {"empirical_risk": float(losses.mean()), "risk_bound": bound}
        if self.kl == 0 and self.bound_name == "chernoff":
            price = -math.log(share) / self.n * (1 + ROUNDING)
            bound = float(bounds.kl_inverse(self.empirical_risk, price))
        else:
            bound = bounds.maurer(self.empirical_risk, self.kl, self.n, share, constant="xi")
        if self.kind == "B":
            return {"risk_bound": bound}
        noise = min(1.0, self.noise_risk + self.noise_margin)  # type: ignore[operator]
        total = self.weights[0] * bound + self.weights[1] * noise  # type: ignore[index]
        return {"positive_bound": bound, "risk_bound": min(1.0, total * (1 + ROUNDING))}

    def verify(
        self, texts: Iterable | None = None, vectorizer: "SentenceVectorizer | None" = None
    ) -> bool:
        """Check the certificate; True, or a ValueError naming what does not fit.

        Alone: that all fields are possible and that the bound follows from the parts. With the
        texts and the vectorizer: that the parts follow from them, by certifying once more with the
        recorded seed and options.
        """
        if (texts is None) != (vectorizer is None):
            raise ValueError("texts and vectorizer must be given together. Got one of them only.")
        self._check_ranges()
        for name, value in self.recompute().items():
            self._must_be(name, value)
        if texts is None:
            return True
        again = type(self).certify_again(vectorizer, texts, **self.options)
        for digest in ("text_digest", "vectors_digest", "vectorizer"):
            if getattr(again, digest) != getattr(self, digest):
                raise ValueError(
                    f"{digest} must be {getattr(self, digest)!r}. Got {getattr(again, digest)!r} "
                    "instead: these are not the texts, the word vectors or the method it is about."
                )
        for item in fields(self):
            self._must_equal(item.name, getattr(again, item.name))
        return True

    def _must_equal(self, name, value):
        """Refuse a field that certifying once more does not give."""
        if name in ("pacsent_version", "provenance_note", "options", "candidates"):
            return  # other versions may word them otherwise; candidates follow from the losses
        stated = getattr(self, name)
        if isinstance(value, float):
            self._must_be(name, value, tolerance=1e-6)
        elif name == "losses" and value is not None:
            apart = np.abs(unpacked_losses(stated) - unpacked_losses(value))
            if not apart.max(initial=0.0) <= 1e-3:  # another processor may round a score otherwise
                raise ValueError(
                    "losses must be those of the texts. Got others instead. This certificate was "
                    "changed."
                )
        elif stated != value:
            raise ValueError(
                f"{name} must be {value!r}, by the texts and the vectorizer. Got {stated!r} "
                "instead. This certificate was changed."
            )

    def _must_be(self, name, value, tolerance=1e-9):
        stated = getattr(self, name)
        if stated is None or not abs(stated - value) <= tolerance * max(1.0, abs(value)):
            raise ValueError(
                f"{name} must be {value:.12g}, by its own ingredients. Got {stated} instead. "
                "This certificate was changed, or made by another formula."
            )

    def _check_ranges(self):
        """Refuse what cannot be, whatever the arithmetic says."""

        def refuse(name, rule):
            raise ValueError(
                f"{name} must be {rule}. Got {getattr(self, name)!r} instead. This certificate was "
                "changed."
            )

        if self.kind not in KINDS:
            refuse("kind", f"one of {KINDS}")
        if not 0 < self.delta < 1:
            refuse("delta", "strictly between 0 and 1")
        for name in ("n", "n_choices", "n_documents"):
            value = getattr(self, name)
            if not isinstance(value, int) or value < 1:
                refuse(name, "a positive whole number")
        for name in ("n_left_out", "n_overlapping", "random_state"):
            if not isinstance(getattr(self, name), int) or getattr(self, name) < 0:
                refuse(name, "a whole number >= 0")
        if self.provenance not in PROVENANCES:
            refuse("provenance", f"one of {PROVENANCES}")
        largest = math.inf if self.kind == "C" else 1.0
        for name in ("risk_bound", "empirical_risk", "trivial_value"):
            if not 0 <= getattr(self, name) <= largest:  # also refuses nan
                refuse(name, "in [0, 1]" if largest == 1 else "a number >= 0")
        if not 0 <= self.kl < math.inf:
            refuse("kl", "a finite number >= 0")
        for name in ("noise_margin", "noise_risk", "prior_variance"):
            value = getattr(self, name)
            if value is not None and not 0 <= value < math.inf:
                refuse(name, "a finite number >= 0")
        if self.held_out_risk is not None and self.n_held_out is None:
            refuse("n_held_out", "given where something was held out")
        if not all(type(count) is int for count in self.paid.values()):
            refuse("paid", "whole numbers, by what was chosen")
        n_paid = math.prod(self.paid.values()) if self.paid else 1
        if n_paid != self.n_choices or any(count < 1 for count in self.paid.values()):
            raise ValueError(
                f"n_choices must be {n_paid}, the product of what was chosen {self.paid}. Got "
                f"{self.n_choices} instead. This certificate does not pay for its choices."
            )
        if self.kind == "C":
            smallest = math.log(self.n_choices / self.delta)
            if not (self.lam and self.lam > 0 and (self.complexity or 0) >= smallest - 1e-9):
                raise ValueError(
                    f"complexity must be at least ln(n_choices / delta) = {smallest:.6g}. Got "
                    f"{self.complexity} instead. This certificate was loosened."
                )
            return
        self._check_weights_and_losses(refuse)

    def _check_weights_and_losses(self, refuse):
        weights = (0.5, 0.5) if self.weights is None else self.weights
        if len(weights) != 2 or not all(isinstance(share, float | int) for share in weights):
            refuse("weights", "two shares that add up to one")
        for name in ("noise_risk", "noise_margin", "weights"):
            if self.kind in ("A", "A'") and getattr(self, name) is None:
                refuse(name, "given for this kind")
        if min(weights) < 0 or not math.isclose(sum(weights), 1.0, abs_tol=1e-12):
            refuse("weights", "two shares that add up to one")
        if not math.isclose(self.trivial_value, min(weights), abs_tol=1e-12):
            refuse("trivial_value", f"{min(weights)}, what guessing achieves")
        if self.kind == "continuation" and self.losses is None:
            refuse("losses", "kept for this kind")
        if self.losses is not None and self.kl == 0:
            if self.bound_name not in MEAN_BOUNDS:
                refuse("bound_name", f"one of {tuple(MEAN_BOUNDS)}")
            if unpacked_losses(self.losses).size != self.n:
                refuse("n", f"{unpacked_losses(self.losses).size}, one loss a document")
        elif self.bound_name == "chernoff" and self.kl > 0:
            refuse("kl", "0 for Chernoff's bound")

    def to_json(self) -> str:
        """One JSON object; `from_json` reads it back, every number exactly."""
        return json.dumps(asdict(self), indent=1, ensure_ascii=False)

    @classmethod
    def from_json(cls, text: str) -> "Certificate":
        """The certificate that `to_json` wrote."""
        try:
            values = json.loads(text)
        except (ValueError, RecursionError):
            values = None
        if not isinstance(values, dict) or not {"kind", "risk_bound", "format_version"} <= set(
            values
        ):
            raise ValueError(
                "text must be a certificate as to_json writes it. Got something else instead. "
                "Give the file that `pacsent certify -o` or to_json wrote."
            )
        known = {item.name: item for item in fields(cls)}
        if values["format_version"] != 2 or not set(values) <= set(known):
            raise ValueError(
                f"format_version must be 2. Got {values['format_version']} instead, with the "
                f"fields {sorted(set(values) - set(known))}. Read it with the pacsent that wrote "
                f"it ({values.get('pacsent_version', 'unknown')})."
            )
        if isinstance(values.get("weights"), list):
            values["weights"] = tuple(values["weights"])
        try:
            found = cls(**values)
        except TypeError as error:
            raise ValueError(
                f"The certificate is not whole ({error}). Give the file as it was written."
            ) from None
        for name, item in known.items():
            rule = str(getattr(item.type, "__name__", item.type))
            kinds = _PLAIN.get(rule.removesuffix(" | None"))
            value = getattr(found, name)
            optional = rule.endswith("| None")
            if kinds and not isinstance(value, kinds) and not (optional and value is None):
                raise ValueError(
                    f"{name} must be of type {rule}. Got {value!r} instead. This certificate was "
                    "changed."
                )
        return found

    def __str__(self) -> str:
        return wording.in_words(self)

    def _repr_html_(self) -> str:
        return wording.as_html(self)


_PLAIN = {
    "str": (str,),
    "float": (float, int),
    "int": (int,),
    "dict": (dict,),
    "list": (list,),
    "tuple": (tuple,),
}
