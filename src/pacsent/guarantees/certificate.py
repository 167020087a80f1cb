"""The base class of all certificates, and the shapes that they have.

There are three shapes: a count of errors (`CountCertificate`), a mean of losses in [0, 1]
(`MeanCertificate`), and sets of labels (`MultilabelCertificate`). A kind of certificate is one of
these with words of its own. Its class registers itself under its kind.
"""

import json
import math
from abc import ABC, abstractmethod
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any, ClassVar, NamedTuple, Self

import pacsent
from pacsent import guarantees
from pacsent.guarantees.delta import confidence, divide_delta
from pacsent.maths import bounds
from pacsent.maths.binomial import upper_limit
from pacsent.maths.checks import is_count
from pacsent.maths.means import betting
from pacsent.maths.rounding import rounded_up
from pacsent.storage.checksums import checksum, read_certificate_json
from pacsent.storage.tensor_files import unpack_losses
from pacsent.text.pages import render

FORMAT = 5
_MAX_CHOICES = 10**12  # of each kind; far more, and delta is no longer a number
# What a number of a certificate may be, by the name of its field.
_PROBABILITY = (lambda x: 0 < x < 1, "strictly between 0 and 1")
_POSITIVE_COUNT = (lambda x: is_count(x, least=1), "an integer of at least 1")
_COUNT = (is_count, "an integer of at least 0")
_FRACTION = (lambda x: 0 <= x <= 1, "in [0, 1]")
_NONNEGATIVE = (lambda x: 0 <= x < math.inf, "a finite number >= 0")
_POSITIVE = (lambda x: 0 < x < math.inf, "a finite number > 0")
RANGES: dict[str, tuple[Any, str]] = {
    name: rule
    for names, rule in (
        ("delta", _PROBABILITY),
        ("n n_documents n_dims n_neighbours n_hits n_rows", _POSITIVE_COUNT),
        ("n_left_out n_overlapping n_duplicates n_held_out n_errors n_repeated_errors", _COUNT),
        ("random_state n_groups n_collection n_texts n_training", _COUNT),
        ("n_read n_corrected n_unread", _COUNT),
        ("error_upper positive_error_upper balanced_error_upper new_error_upper", _FRACTION),
        ("empirical_risk shuffled_risk noise_risk step", _FRACTION),
        ("calibration_size micro_f1_lower macro_f1_lower", _FRACTION),
        ("kl noise_margin shift_norm held_out_risk constant_risk", _NONNEGATIVE),
        ("mean_square mean_fourth largest_square", _NONNEGATIVE),
        ("lam prior_variance", _POSITIVE),
        ("bias scale", (math.isfinite, "a finite number")),
    )
    for name in names.split()
}
_TYPES: dict[str, Any] = {kind.__name__: kind for kind in (str, int, dict, list, tuple)}
_TYPES["float"] = float, int


class Verified(NamedTuple):
    """What `verify` found to be right, and what it could not check; true as a condition."""

    checked: str
    unchecked: str = ""

    def __repr__(self) -> str:
        unchecked = f" Not checked: {self.unchecked}." if self.unchecked else ""
        return f"Verified: {self.checked}.{unchecked}"


@dataclass(frozen=True, kw_only=True)
class Certificate(ABC):
    """A guarantee that holds with probability 1 - delta, with all that is needed to recompute it.

    `print` shows the guarantee and when it is valid, `details` all that it rests on, and a notebook
    a figure; `verify` recomputes the bound; `to_json` keeps it.

    Attributes
    ----------
    error_upper : float
        With probability 1 - delta the error, of which the class says what it is, is at most this.
    delta : float
        Probability that the guarantee fails.
    n : int
        Independent examples that it was measured on.
    corrections : dict
        Choices that were made on these examples, by name, and how many values each had. A union
        bound divides delta by their product.
    provenance : str
        What is known about whether the examples were used in training.
    n_duplicates : int
        Examples that repeat an earlier one. Copies are counted once.

    Examples
    --------
    >>> from pacsent.guarantees import ErrorCertificate
    >>> certificate = ErrorCertificate.from_parts(delta=0.05, n=200, n_errors=20)
    >>> certificate.verify()
    Verified: the bound follows from its parts. Not checked: n_duplicates, ...
    >>> read_certificate(certificate.to_json()) == certificate
    True
    """

    classes: ClassVar[dict[str, type["Certificate"]]] = {}  # of all kinds, by their kind
    kind: ClassVar[str] = ""
    assumption: ClassVar[str] = ""
    unit: ClassVar[str] = "texts"  # what n counts
    unbounded: ClassVar[tuple[str, ...]] = ()  # fields that may exceed 1, unlike most risks
    needs_texts: ClassVar[tuple[str, ...]] = ()  # fields that cannot be checked without the texts

    error_upper: float
    delta: float
    n: int
    corrections: dict = field(default_factory=dict)
    provenance: str = "unknown"
    n_duplicates: int = 0
    pacsent_version: str = pacsent.__version__

    def __init_subclass__(cls) -> None:
        if "kind" in vars(cls):
            Certificate.classes[cls.kind] = cls

    @property
    def n_candidates(self) -> int:
        """How many alternatives the union bound covers."""
        return math.prod(self.corrections.values())

    @property
    def delta_each(self) -> float:
        """The part of delta that each alternative has."""
        return divide_delta(self.delta, self.n_candidates)

    @property
    def confidence(self) -> str:
        """1 - delta in per cent, rounded down."""
        return confidence(self.delta)

    @property
    @abstractmethod
    def observed(self) -> float:
        """What was measured on the n examples; the bound is on what is expected."""

    @abstractmethod
    def recompute(self) -> dict[str, Any]:
        """The bound, and every other total, from the parts alone: field name -> value."""

    @classmethod
    def from_parts(cls, **parts: Any) -> Self:
        """A certificate whose bounds are computed from its parts."""
        draft = cls(**{"error_upper": math.nan, **parts})
        return replace(draft, **draft.recompute())

    def verify(self) -> Verified:
        """Check that every field is possible and that the bound follows from the parts.

        Returns what was checked, or raises a ValueError that names the field.
        """
        self._check_types()
        for item in fields(self):
            value = getattr(self, item.name)
            if item.name in RANGES and value is not None:
                right, rule = RANGES["kl" if item.name in self.unbounded else item.name]
                if not right(value):
                    self._refuse(item.name, rule)
        counts = self.corrections.values()
        if not all(is_count(count, least=1) and count <= _MAX_CHOICES for count in counts):
            self._refuse("corrections", f"integers from 1 to {_MAX_CHOICES:,}, by what was chosen")
        self._check()
        for name, value in self.recompute().items():
            self._must_equal(name, value)
        unchecked = (*self.needs_texts, "choices beyond corrections")
        return Verified("the bound follows from its parts", ", ".join(unchecked))

    def _check(self) -> None:  # noqa: B027 - not every kind has more to refuse
        """Refuse what is impossible for this kind."""

    def _refuse(self, name: str, rule: str) -> None:
        raise ValueError(
            f"{name} must be {rule}. Got {getattr(self, name)!r} instead. This certificate was "
            "changed."
        )

    def _check_types(self) -> None:
        for item in fields(self):
            rule = str(getattr(item.type, "__name__", item.type))
            value, plain = getattr(self, item.name), _TYPES[rule.removesuffix(" | None")]
            if value is None and rule.endswith("| None"):
                continue
            if not isinstance(value, plain) or isinstance(value, bool):
                self._refuse(item.name, f"of type {rule}")

    def _must_equal(self, name: str, value: Any, tolerance: float = 1e-9) -> None:
        """Refuse a field that is not what its parts give; numbers within a relative tolerance."""
        stated = getattr(self, name)
        if not _same(stated, value, tolerance):
            raise ValueError(
                f"{name} must be {value!r}, computed from its parts. Got {stated!r} instead. This "
                "certificate was changed, or is about other texts or another model."
            )

    def to_dict(self) -> dict[str, Any]:
        """All fields, with the kind and the assumption, as JSON can hold them."""
        return {"kind": self.kind, "assumption": self.assumption, **asdict(self)}

    def to_json(self) -> str:
        """One JSON object with a checksum, which `read_certificate` reads, every number exactly."""
        values = {"format_version": FORMAT, **self.to_dict()}
        return json.dumps({**values, "checksum": checksum(values)}, indent=1, ensure_ascii=False)

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Self:
        """The certificate of `to_dict`. Its kind is that of the class."""
        no_fields = ("format_version", "kind", "assumption")
        try:
            certificate = cls(**{k: v for k, v in values.items() if k not in no_fields})
            if values.get("assumption", cls.assumption) != cls.assumption:
                raise TypeError(f"assumption must be {cls.assumption!r}")
        except TypeError as error:
            raise ValueError(
                f"The certificate is incomplete or was changed ({error}). Give the file as it was "
                "written."
            ) from None
        certificate._check_types()
        return certificate

    @abstractmethod
    def summary(self) -> str:
        """The guarantee itself, in one or two sentences."""

    def statements(self) -> list[tuple[str, str]]:
        """Further bounds: (title, text)."""
        return []

    def measurements(self) -> list[tuple[str, str]]:
        """What was measured: (title, text)."""
        return []

    def rows(self) -> list[tuple[str, str]]:
        """What the guarantee rests on: (title, text)."""
        repeated = [("Duplicates", self.repeated())] if self.repeated() else []
        return [
            *(self.statements() + self.measurements() + repeated),
            ("Assumption", self.assumption),
            ("Provenance", self.origin()),
            ("Corrections", self.corrected_for()),
        ]

    def repeated(self) -> str:
        """Which examples repeat others; empty where none does."""
        return f"{self.n_duplicates:,} not counted." if self.n_duplicates else ""

    def origin(self) -> str:
        """Where the examples come from."""
        return f"{self.provenance}."

    def corrected_for(self) -> str:
        """The choices that a union bound covers, in words."""
        if self.n_candidates == 1:
            return "none. If this is the best of J models or settings, pass n_candidates=J."
        chosen = ", ".join(f"{n} {name}" for name, n in self.corrections.items())
        return f"a union bound over {self.n_candidates:,} alternatives ({chosen})."

    def __str__(self) -> str:
        shown = {"Duplicates": self.repeated(), "Provenance": f"{self.provenance}."}
        if self.provenance.startswith(("checked", "held out")) and ";" not in self.provenance:
            del shown["Provenance"]
        if self.n_candidates > 1:
            shown["Corrections"] = self.corrected_for()
        rows = [*self.statements(), *shown.items()]
        lines = [f"{title}: {text}" for title, text in rows if text]
        return "\n".join([self.summary(), *lines, f"Valid if {self.assumption}"])

    def details(self) -> str:
        """The summary and everything that the guarantee rests on, one line each."""
        return "\n".join([self.summary(), *(f"{title}: {text}" for title, text in self.rows())])

    def _repr_html_(self) -> str:
        bars = [
            ("observed", self.observed, f"{self.observed:.4f}"),
            ("certified", self.error_upper, rounded_up(self.error_upper)),
        ]
        return render(
            "certificate.html",
            sentence=self.summary(),
            bars=bars,
            longest=max(self.observed, self.error_upper) or 1.0,
            rows=self.rows(),
        )


@dataclass(frozen=True, kw_only=True)
class CountCertificate(Certificate):
    """A count of `n_errors` among n independent examples: the limit of Clopper and Pearson."""

    needs_texts: ClassVar[tuple[str, ...]] = ("n_duplicates", "provenance")

    n_errors: int

    @property
    def observed(self) -> float:
        return self.n_errors / self.n

    def recompute(self) -> dict[str, Any]:
        return {"error_upper": upper_limit(self.n_errors, self.n, self.delta_each)}

    def _check(self) -> None:
        if self.n_errors > self.n:
            self._refuse("n_errors", f"at most {self.n}, the number of {self.unit}")


@dataclass(frozen=True, kw_only=True)
class MeanCertificate(Certificate):
    """A mean of losses in [0, 1] of n independent examples: a bound on their expectation.

    The `losses` are in an order fixed beforehand, rounded up to 16 bits (`unpack_losses`).
    """

    losses: str

    @property
    def observed(self) -> float:
        return float(unpack_losses(self.losses).mean())

    def recompute(self) -> dict[str, Any]:
        return {"error_upper": float(betting(unpack_losses(self.losses), self.delta_each))}

    def _check(self) -> None:
        size = unpack_losses(self.losses).size
        if self.n != size:
            self._refuse("n", f"{size}, the number of losses")


def theorem_1(
    empirical_risk: float, n: int, delta: float, bound: float, name: str, kl: float = 0.0
) -> str:
    """Theorem 1 of Nozawa and Sato on the same numbers, beside the bound that a certificate uses.

    What was fixed before the examples is its own prior and posterior, so KL(Q||P) = 0. At its best
    lambda Theorem 1 is then Chernoff's bound, which holds although lambda was chosen afterwards:

        min over lambda of catoni(risk, kl, n, delta) = kl^-1(risk, (kl + ln(1/delta)) / n)

    If KL > 0, the smallest value is no bound; a grid of lambdas that is fixed beforehand gives one.

    >>> theorem_1(17 / 146, 146, 0.05, 0.16952629, "the exact binomial bound")
    'KL = 0 and n = 146: at its best lambda it gives 0.1916; the exact binomial bound, 0.1696, ...'
    """
    complexity = (kl - math.log(delta)) / n
    best = rounded_up(float(bounds.kl_inverse(empirical_risk, complexity)))
    replacement = f"{name}, {rounded_up(bound)}, replaces it."
    if kl == 0:
        return f"KL = 0 and n = {n:,}: at its best lambda it gives {best}; {replacement}"

    over_grid = rounded_up(float(bounds.catoni_over_grid(empirical_risk, kl, n, delta)))
    return (
        f"KL = {kl:,.4g} nats and n = {n:,}: at its best lambda it gives {best}, which is no "
        f"certificate, because this lambda depends on the sample; over a grid of lambdas "
        f"{over_grid}; {replacement}"
    )


def _same(stated, value, tolerance) -> bool:
    if isinstance(value, dict) and isinstance(stated, dict) and stated.keys() == value.keys():
        return all(_same(stated[key], value[key], tolerance) for key in value)
    if isinstance(value, list) and isinstance(stated, list):
        return _same(dict(enumerate(stated)), dict(enumerate(value)), tolerance)
    if isinstance(value, float) and isinstance(stated, float | int):
        # relative: a margin of 1e-5 must not be off by a hundredth of itself
        return abs(stated - value) <= tolerance * abs(value) + 1e-15
    return stated == value


def read_certificate(text: str, name: str = "text", *, verify: bool = True) -> Certificate:
    """The certificate in a JSON text, verified unless `verify` is False.

    Error messages call the text `name`: its file. Certificates of the paper can be read once the
    module of `pacsent.paper` that makes them is imported.

    >>> from pacsent.guarantees import ErrorCertificate
    >>> written = ErrorCertificate(error_upper=0.5, delta=0.05, n=40, n_errors=0).to_json()
    >>> read_certificate(written, "certificate.json")
    Traceback (most recent call last):
    ValueError: certificate.json: error_upper must be 0.07..., computed from its parts. Got 0.5 ...
    """
    values = read_certificate_json(text, name, FORMAT)
    for public in guarantees.__all__:
        if public.endswith("Certificate"):
            getattr(guarantees, public)  # importing a class registers its kind
    kind, classes = values["kind"], Certificate.classes
    if not isinstance(kind, str) or kind not in classes:
        raise ValueError(f"{name}: kind must be one of {tuple(classes)}. Got {kind!r} instead.")
    try:
        certificate = classes[kind].from_dict(values)
        if verify:
            certificate.verify()
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None
    return certificate
