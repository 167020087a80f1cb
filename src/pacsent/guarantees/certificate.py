"""The base class of all certificates.

A certificate is a guarantee with everything that is needed to recompute it. Each kind is a small
class of its own, next to the function that measures it; this module holds what they share.
"""

import hashlib
import json
import math
from abc import ABC, abstractmethod
from dataclasses import asdict, dataclass, field, fields
from typing import Any, ClassVar, NamedTuple, Self

import pacsent
from pacsent.guarantees.certificate_page import ChartBar, as_html
from pacsent.maths.checks import is_count

FORMAT = 3
# What a number of a certificate may be, by the name of its field.
_RULES = (
    (lambda x: 0 < x < 1, "strictly between 0 and 1", "delta"),
    (lambda x: is_count(x, least=1), "an integer of at least 1", "n n_documents n_dims "
     "n_neighbours n_hits"),
    (is_count, "an integer of at least 0", "n_left_out n_overlapping n_duplicates n_held_out "
     "n_errors random_state n_repeated_errors n_groups seed n_collection "
     "n_texts n_taught"),
    (lambda x: 0 <= x <= 1, "in [0, 1]", "bound empirical_risk positive_bound noise_risk step "
     "balanced_bound holdout neighbour_bound micro_f1_bound macro_f1_bound"),
    (lambda x: 0 <= x < math.inf, "a finite number >= 0", "kl noise_margin shift_norm "
     "held_out_risk constant_risk mean_square mean_fourth largest_square"),
    (lambda x: 0 < x < math.inf, "a finite number > 0", "lam prior_variance"),
    (math.isfinite, "a finite number", "bias scale"),
)  # fmt: skip
RANGES = {name: (right, rule) for right, rule, names in _RULES for name in names.split()}
_TYPES: dict[str, Any] = {kind.__name__: kind for kind in (str, int, dict, list, tuple)}
_TYPES["float"] = float, int


class Verified(NamedTuple):
    """What `verify` found to be right, and what it could not check; true as a condition.

    >>> bool(Verified("the bound follows from its parts", "the texts"))
    True
    """

    checked: str
    unchecked: str = ""

    def __repr__(self) -> str:
        rest = f" Not checked: {self.unchecked}." if self.unchecked else ""
        return f"Verified: {self.checked}.{rest}"


@dataclass(frozen=True, kw_only=True)
class Certificate(ABC):
    """A guarantee that holds with probability 1 - delta, with all that is needed to recompute it.

    `print` shows it in words, and a notebook with a picture; `verify` recomputes the bound;
    `to_json` and `from_json` keep it.

    Attributes
    ----------
    bound : float
        With probability 1 - delta the risk is at most this.
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
    >>> from pacsent.maths.binomial import upper_limit
    >>> bound = upper_limit(20, 200, 0.05)
    >>> certificate = ErrorCertificate(bound=bound, delta=0.05, n=200, n_errors=20)
    >>> certificate.verify()
    Verified: the bound follows from its parts. Not checked: n_duplicates, ...
    >>> ErrorCertificate.from_json(certificate.to_json()) == certificate
    True
    """

    kind: ClassVar[str] = ""
    assumption: ClassVar[str] = ""
    unbounded: ClassVar[tuple[str, ...]] = ()  # fields that may exceed 1, unlike most risks
    needs_texts: ClassVar[tuple[str, ...]] = ()  # fields that cannot be checked without the texts

    bound: float
    delta: float
    n: int
    corrections: dict = field(default_factory=dict)
    provenance: str = "unknown"
    n_duplicates: int = 0
    pacsent_version: str = pacsent.__version__

    # ---- the numbers -------------------------------------------------------------------------

    @property
    def n_candidates(self) -> int:
        """How many alternatives the union bound covers."""
        return math.prod(self.corrections.values())

    @property
    def delta_each(self) -> float:
        """The share of delta that each alternative has."""
        return self.delta / self.n_candidates

    @property
    def confidence(self) -> str:
        """1 - delta in per cent.

        >>> from pacsent.guarantees import ErrorCertificate
        >>> ErrorCertificate(bound=0.1, delta=0.05, n=9, n_errors=0).confidence
        '95 %'
        """
        return f"{100 * (1 - self.delta):g} %"

    @abstractmethod
    def recompute(self) -> dict[str, Any]:
        """The bound, and every other total, from the parts alone: field name -> value."""

    def verify(self) -> Verified:
        """Check that every field is possible and that the bound follows from the parts.

        Returns what was checked, or raises a ValueError that names the field. The fields in
        `needs_texts` cannot be distinguished from other possible values this way.
        """
        self._check_types()
        self._check_ranges()
        self._check()
        for name, value in self.recompute().items():
            self._must_equal(name, value)
        return Verified("the bound follows from its parts", ", ".join(self.needs_texts))

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

    def _check_ranges(self) -> None:
        for item in fields(self):
            value = getattr(self, item.name)
            if item.name not in RANGES or value is None:
                continue
            right, rule = RANGES["kl" if item.name in self.unbounded else item.name]
            if not right(value):
                self._refuse(item.name, rule)
        if not all(is_count(count, least=1) for count in self.corrections.values()):
            self._refuse("corrections", "integers of at least 1, by what was chosen")

    def _must_equal(self, name: str, value: Any, tolerance: float = 1e-9) -> None:
        """Refuse a field that is not what its parts give; numbers within a relative tolerance."""
        stated = getattr(self, name)
        if not _same(stated, value, tolerance):
            raise ValueError(
                f"{name} must be {value!r}, computed from its parts. Got {stated!r} instead. This "
                "certificate was changed, or made by another formula."
            )

    # ---- files -------------------------------------------------------------------------------

    def to_dict(self) -> dict[str, Any]:
        """All fields, with the kind and the assumption, as JSON can hold them."""
        return {"kind": self.kind, "assumption": self.assumption, **asdict(self)}

    def to_json(self) -> str:
        """One JSON object with a checksum; `from_json` reads it back, every number exactly."""
        values = {"format_version": FORMAT, **self.to_dict()}
        return json.dumps({**values, "checksum": checksum(values)}, indent=1, ensure_ascii=False)

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Self:
        """The certificate of `to_dict`. Its kind is that of the class."""
        given = {k: v for k, v in values.items() if k not in ("kind", "assumption")}
        unknown = set(given) - {item.name for item in fields(cls)}
        if unknown:
            raise ValueError(
                f"A certificate of kind {cls.kind!r} must have its own fields only. Got "
                f"{sorted(unknown)} as well. This certificate was changed."
            )
        for item in fields(cls):
            if item.type is tuple and isinstance(given.get(item.name), list):
                given[item.name] = tuple(given[item.name])
        try:
            found = cls(**given)
        except TypeError as error:
            raise ValueError(
                f"The certificate is incomplete ({error}). Give the file as it was written."
            ) from None
        found._check_types()
        return found

    @classmethod
    def from_json(cls, text: str) -> Self:
        """The certificate of this kind that `to_json` wrote; a changed file is refused.

        `pacsent.paper.certificate_from_json` reads a certificate of any kind.
        """
        values = read_fields(text)
        if values["kind"] != cls.kind:
            raise ValueError(
                f"text must be a certificate of kind {cls.kind!r}. Got kind {values['kind']!r} "
                "instead."
            )
        return cls.from_dict(values)

    # ---- words -------------------------------------------------------------------------------

    @abstractmethod
    def sentence(self) -> str:
        """The guarantee itself, in one or two sentences."""

    @abstractmethod
    def rows(self) -> list[tuple[str, str]]:
        """What the guarantee rests on: (title, text)."""

    @abstractmethod
    def bars(self) -> list[ChartBar]:
        """What the picture compares."""

    def corrected_for(self) -> str:
        """The choices that a union bound covers, in words."""
        if self.n_candidates == 1:
            return (
                "none. If this is the best of J methods, settings or seeds, certify it with J "
                "candidates, which divides delta by J."
            )
        chosen = ", ".join(f"{n} {name}" for name, n in self.corrections.items())
        return f"a union bound over {self.n_candidates:,} alternatives ({chosen})."

    def __str__(self) -> str:
        return "\n".join([self.sentence(), *(f"{title}: {text}" for title, text in self.rows())])

    def _repr_html_(self) -> str:
        return as_html(self.sentence(), self.bars(), self.rows())


def _same(stated, value, tolerance) -> bool:
    if isinstance(value, dict):
        return (
            isinstance(stated, dict)
            and stated.keys() == value.keys()
            and all(_same(stated[key], value[key], tolerance) for key in value)
        )
    if isinstance(value, float) and isinstance(stated, float | int):
        # relative: a margin of 1e-5 must not be off by a hundredth of itself
        return abs(stated - value) <= tolerance * abs(value) + 1e-15
    return stated == value


def checksum(values: dict) -> str:
    """SHA-256 of a certificate's fields. It finds damage and changes, not forgery.

    >>> checksum({"n": 3, "delta": 0.05}) == checksum({"delta": 0.05, "n": 3})
    True
    """
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()


def read_fields(text: str, name: str = "text") -> dict[str, Any]:
    """The fields of a certificate in a JSON text, if it is one and its checksum is right.

    >>> read_fields("{}", "certificate.json")
    Traceback (most recent call last):
    ValueError: certificate.json must be a certificate as to_json writes it. Got something else ...
    """
    try:
        values = json.loads(text)
    except (ValueError, RecursionError):
        values = None
    if not isinstance(values, dict) or not {"kind", "bound", "format_version"} <= set(values):
        raise ValueError(
            f"{name} must be a certificate as to_json writes it. Got something else instead. Give "
            "the file that `pacsent certify -o` or to_json wrote."
        )
    if values["format_version"] != FORMAT:
        raise ValueError(
            f"{name}: format_version must be {FORMAT}. Got {values['format_version']} instead. "
            f"Read it with the pacsent that wrote it ({values.get('pacsent_version', 'unknown')})."
        )
    if values.pop("checksum", None) != checksum(values):
        raise ValueError(
            f"{name}: checksum must be that of the other fields. Got another instead. This "
            "certificate was changed after it was written. Give the file as it was written."
        )
    values.pop("format_version")
    return values
