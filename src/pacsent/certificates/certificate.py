"""Certificate: a promise with every ingredient of it.

What a kind of certificate promises, under which assumption, and how the total follows from the
parts. How the parts are measured is in one file per kind; how it is said in words and pictures is
in `wording.py`; the door is `certifying.certify`.
"""

import base64
import binascii
import hashlib
import json
import math
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field, fields
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from pacsent.certificates import wording
from pacsent.maths import bounds
from pacsent.maths.checks import is_count, is_number
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
    losses = np.clip(losses, 0.0, 1.0)
    steps = np.floor(losses * _STEPS)
    steps += steps / _STEPS < losses  # by the very division that `unpacked_losses` does
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
    >>> from pacsent import certify, make
    >>> from pacsent.certificates import Certificate
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
    n_dims: int | None = None  # C
    mean_square: float | None = None  # C: of the distance to the farthest word, over tokens
    mean_fourth: float | None = None  # C: of the same distance to the fourth power
    largest_square: float | None = None  # C: largest n_s times squared distance of a document
    share: float | None = None  # continuation: the first part of a document that makes its vector
    split: float | None = None  # share of the tokens (B, continuation: documents) set aside
    holdout: float | None = None
    held_out_risk: float | None = None  # on tokens (B, continuation: documents) that nothing read
    n_held_out: int | None = None
    n_documents: int = 0
    n_left_out: int = 0  # documents too short to split
    n_overlapping: int = 0  # documents that the vectors had seen, left out
    n_duplicates: int = 0  # documents with the same known words as an earlier one, left out
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
        self._check_types()
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
        # relative: a margin of 1e-5 may not be off by a hundredth of itself
        if stated is None or not abs(stated - value) <= tolerance * abs(value) + 1e-15:
            raise ValueError(
                f"{name} must be {value:.12g}, by its own ingredients. Got {stated} instead. "
                "This certificate was changed, or made by another formula."
            )

    @property
    def complexity(self) -> float:
        """Kind C: what is added to the KL before it is divided by `lam`."""
        return bounds.squared_loss_complexity(
            self.lam, self.n, self.delta / self.n_choices, self.prior_variance, self.n_dims,
            (self.mean_square, self.mean_fourth, self.largest_square),
        )  # type: ignore[arg-type]  # fmt: skip

    def _check_ranges(self):
        """Refuse what cannot be, whatever the arithmetic says."""

        def refuse(name, rule):
            raise ValueError(
                f"{name} must be {rule}. Got {getattr(self, name)!r} instead. This certificate was "
                "changed."
            )

        if self.kind not in KINDS:
            refuse("kind", f"one of {KINDS}")
        if self.provenance not in PROVENANCES:
            refuse("provenance", f"one of {PROVENANCES}")
        squares = self.kind == "C"
        for name, (right, rule) in _RANGES.items():
            value = getattr(self, name)
            if squares and name in ("risk_bound", "empirical_risk", "trivial_value"):
                right, rule = _at_least_zero, "a finite number >= 0"
            needed = name in _OF_ALL or name in _OF_KIND[self.kind]
            if value is None and needed:
                refuse(name, "given for this kind")
            if value is not None and not right(value):
                refuse(name, rule)
            if value is not None and squares and name in ("noise_risk", "noise_margin"):
                refuse(name, "left out for this kind")
        if (self.held_out_risk is None) != (self.n_held_out is None):
            refuse("n_held_out", "given exactly where something was held out")
        if self.held_out_risk is not None and not self.holdout:
            refuse("holdout", "more than 0 where something was held out")
        if self.held_out_risk is not None and not squares and self.held_out_risk > 1:
            refuse("held_out_risk", "in [0, 1]")
        if self.kind in ("B", "continuation") and self.n_documents != self.n:
            refuse("n_documents", f"{self.n}, the number of examples")
        if self.n_documents > self.n:
            refuse("n_documents", f"at most {self.n}, the number of examples")
        self._check_corrections(refuse)
        self._check_options(refuse)
        if squares:
            self._check_moments(refuse)
            inside = self.lam**2 * self.prior_variance * self.largest_square  # type: ignore[operator]
            if not inside < self.n**2:
                refuse("lam", "small enough for the complexity to be finite")
            return
        self._check_weights_and_losses(refuse)

    def _check_moments(self, refuse):
        """Of distances: what a largest value and means of powers can be to each other."""
        total = self.n * self.mean_square  # type: ignore[operator]
        if not total / self.n_documents * (1 - 1e-9) <= self.largest_square <= total * (1 + 1e-9):
            refuse("largest_square", f"between {total / self.n_documents:.6g} and {total:.6g}")
        if not self.mean_square**2 * (1 - 1e-9) <= self.mean_fourth:
            refuse("mean_fourth", f"at least {self.mean_square**2:.6g}")

    def _check_corrections(self, refuse):
        if not all(is_count(count, least=1) for count in self.paid.values()):
            raise ValueError(
                f"paid must be whole numbers from 1, by what was chosen. Got {self.paid} instead. "
                "This certificate does not pay for its choices."
            )
        n_paid = math.prod(self.paid.values()) if self.paid else 1
        if n_paid != self.n_choices:
            raise ValueError(
                f"n_choices must be {n_paid}, the product of what was chosen {self.paid}. Got "
                f"{self.n_choices} instead. This certificate does not pay for its choices."
            )

    def _check_options(self, refuse):
        """Fields that are options of `certify` as well must agree with what it recorded."""
        for name in ("delta", "noise_power", "random_state", "split", "holdout", "share"):
            given = self.options.get(name)
            if given is not None and getattr(self, name) not in (None, given):
                refuse(name, f"{given}, which `options` records")
        candidates = self.options.get("n_candidates", 1)
        if self.paid.get("candidates", 1) != candidates:
            refuse("paid", f"{candidates} candidates, which `options` records")

    def _check_weights_and_losses(self, refuse):
        weights = (0.5, 0.5) if self.weights is None else self.weights
        if len(weights) != 2 or not all(is_number(share) for share in weights):
            refuse("weights", "two shares that add up to one")
        if min(weights) < 0 or not math.isclose(sum(weights), 1.0, abs_tol=1e-12):
            refuse("weights", "two shares that add up to one")
        if not math.isclose(self.trivial_value, min(weights), abs_tol=1e-12):
            refuse("trivial_value", f"{min(weights)}, what guessing achieves")
        if self.losses is None and (
            self.kind == "continuation" or (self.kind, self.kl) == ("B", 0)
        ):
            refuse("losses", "kept for this kind")
        if self.kind == "continuation" and self.kl != 0:
            refuse("kl", "0 for this kind")
        if self.losses is not None and self.kl == 0:
            if self.bound_name not in MEAN_BOUNDS:
                refuse("bound_name", f"one of {tuple(MEAN_BOUNDS)}")
            if unpacked_losses(self.losses).size != self.n:
                refuse("n", f"{unpacked_losses(self.losses).size}, one loss a document")
        elif self.bound_name == "chernoff" and self.kl > 0:
            refuse("kl", "0 for Chernoff's bound")

    def to_json(self) -> str:
        """One JSON object with a checksum; `from_json` reads it back, every number exactly."""
        values = asdict(self)
        return json.dumps({**values, "checksum": checksum(values)}, indent=1, ensure_ascii=False)

    @classmethod
    def from_json(cls, text: str) -> "Certificate":
        """The certificate that `to_json` wrote; a file that was changed since is refused."""
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
        stated = values.pop("checksum", None)
        if values["format_version"] != 2 or not set(values) <= set(known):
            raise ValueError(
                f"format_version must be 2. Got {values['format_version']} instead, with the "
                f"fields {sorted(set(values) - set(known))}. Read it with the pacsent that wrote "
                f"it ({values.get('pacsent_version', 'unknown')})."
            )
        expected = checksum(values)
        if isinstance(values.get("weights"), list):
            values["weights"] = tuple(values["weights"])
        try:
            found = cls(**values)
        except TypeError as error:
            raise ValueError(
                f"The certificate is not whole ({error}). Give the file as it was written."
            ) from None
        found._check_types()
        if stated != expected:
            raise ValueError(
                f"checksum must be {expected!r}, by the other fields. Got {stated!r} instead. This "
                "certificate was changed after it was written. Give the file as it was written."
            )
        return found

    def _check_types(self):
        for item in fields(self):
            rule = str(getattr(item.type, "__name__", item.type))
            kinds = _PLAIN.get(rule.removesuffix(" | None"))
            value = getattr(self, item.name)
            optional = rule.endswith("| None") and value is None
            wrong = not isinstance(value, kinds) or isinstance(value, bool) if kinds else False
            if wrong and not optional:
                raise ValueError(
                    f"{item.name} must be of type {rule}. Got {value!r} instead. This certificate "
                    "was changed."
                )

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


def checksum(values: dict) -> str:
    """SHA-256 of a certificate's fields: finds damage and changes, not forgery.

    >>> checksum({"n": 3, "delta": 0.05}) == checksum({"delta": 0.05, "n": 3})
    True
    """
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()


def _at_least_zero(x):
    return 0 <= x < math.inf


def _share(x):
    return 0 <= x <= 1


_RULES = (
    (lambda x: 0 < x < 1, "strictly between 0 and 1", "delta share"),
    (lambda x: is_count(x, least=1), "a positive whole number",
     "n n_choices n_documents n_held_out n_dims"),
    (is_count, "a whole number >= 0", "n_left_out n_overlapping n_duplicates random_state"),
    (_share, "in [0, 1]", "risk_bound empirical_risk trivial_value positive_bound noise_risk step"),
    (_at_least_zero, "a finite number >= 0", "kl noise_margin noise_power shift_norm held_out_risk "
     "mean_square mean_fourth largest_square"),
    (lambda x: 0 < x < math.inf, "a finite number > 0", "lam prior_variance"),
    (math.isfinite, "a finite number", "bias scale"),
    (lambda x: 0 <= x < 1, "at least 0 and below 1", "split holdout"),
    (lambda x: x == 2, "2", "format_version"),
)  # fmt: skip
_RANGES = {name: (right, rule) for right, rule, names in _RULES for name in names.split()}
_OF_ALL = (
    "delta", "n", "n_choices", "n_documents", "n_left_out", "n_overlapping", "n_duplicates",
    "random_state", "risk_bound", "empirical_risk", "trivial_value", "kl", "noise_power", "split",
    "holdout", "format_version",
)  # fmt: skip
_WORDS = ("positive_bound", "noise_risk", "noise_margin", "weights", "bias", "scale", "shift_norm")
_OF_KIND = {
    "continuation": ("share", "bias", "scale", "shift_norm"),
    "A": (*_WORDS, "prior_variance"),
    "A'": (*_WORDS, "prior_variance"),
    "B": ("noise_risk", "noise_margin", "bias", "scale", "shift_norm", "prior_variance"),
    "C": ("lam", "n_dims", "prior_variance", "mean_square", "mean_fourth", "largest_square"),
}
