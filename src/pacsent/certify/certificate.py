"""The base class of all certificates, and the shapes that they have.

There are three shapes: a count of errors (`CountCertificate`), a mean of losses in [0, 1]
(`MeanCertificate`), and sets of labels (`MultilabelCertificate`). A kind of certificate is one of
these with words of its own. Its class registers itself under its kind.
"""

import json
import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any, ClassVar, NamedTuple, Self

import pacsent
from pacsent import registry
from pacsent.bounds import pac_bayes as bounds
from pacsent.bounds.binomial import upper_limit
from pacsent.bounds.checks import is_count
from pacsent.bounds.delta import confidence, divide_delta
from pacsent.bounds.means import betting
from pacsent.bounds.rounding import format_count, rounded_up
from pacsent.certify.repeats import COPIES, SAME, TRAFFIC, cautious
from pacsent.storage.checksums import checksum, read_certificate_json
from pacsent.storage.tensor_files import unpack_losses
from pacsent.text.pages import render

FORMAT = 5
_MAX_CHOICES = 10**12  # of each kind; far more, and delta is no longer a number
_MAX_COUNT = 2**53  # above it a float is no longer exact
_MAX_ROWS = 10**9  # of a table whose labels were checked: the bound looks at each number of errors
# What computing with the fields of a changed certificate may raise.
_BAD_FIELDS = (LookupError, TypeError, ArithmeticError, AttributeError, MemoryError)
# What a number of a certificate may be, by the name of its field.
_PROBABILITY = (lambda x: 0 < x < 1, "strictly between 0 and 1")
_POSITIVE_COUNT = (
    lambda x: is_count(x, least=1) and x <= _MAX_COUNT,
    f"an integer from 1 to {_MAX_COUNT:,}",
)
_COUNT = (lambda x: is_count(x) and x <= _MAX_COUNT, f"an integer from 0 to {_MAX_COUNT:,}")
_ROWS = (lambda x: is_count(x, least=1) and x <= _MAX_ROWS, f"an integer from 1 to {_MAX_ROWS:,}")
_SEED = (is_count, "an integer of at least 0")
_FRACTION = (lambda x: 0 <= x <= 1, "in [0, 1]")
_NONNEGATIVE = (lambda x: 0 <= x < math.inf, "a finite number >= 0")
_POSITIVE = (lambda x: 0 < x < math.inf, "a finite number > 0")
RANGES: dict[str, tuple[Any, str]] = {
    name: rule
    for names, rule in (
        ("delta", _PROBABILITY),
        ("n n_documents n_dims n_neighbours n_hits", _POSITIVE_COUNT),
        ("n_rows", _ROWS),
        ("n_left_out n_overlapping n_duplicates n_held_out n_errors n_repeated_errors", _COUNT),
        ("n_groups n_collection n_texts n_training", _COUNT),
        ("random_state", _SEED),
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
        Examples that repeat an earlier one. They are among the n if repeated texts count as often
        as they occur, and not if near-duplicates count once.

    Examples
    --------
    >>> from pacsent.certify import ErrorCertificate
    >>> certificate = ErrorCertificate.from_parts(delta=0.05, n=200, n_errors=20)
    >>> certificate.verify()
    Verified: the bound follows from its parts. Not checked: n_duplicates, ...
    >>> read_certificate(certificate.to_json()) == certificate
    True
    """

    kind: ClassVar[str] = ""
    assumption: ClassVar[str] = ""
    unit: ClassVar[str] = "texts"  # what n counts
    unbounded: ClassVar[tuple[str, ...]] = ()  # fields that may exceed 1, unlike most risks
    needs_texts: ClassVar[tuple[str, ...]] = ()  # fields that cannot be checked without the texts
    repeats_title: ClassVar[str] = "Duplicates"

    error_upper: float
    delta: float
    n: int
    corrections: dict = field(default_factory=dict)
    provenance: str = "unknown"
    n_duplicates: int = 0
    pacsent_version: str = pacsent.__version__

    def __init_subclass__(cls) -> None:
        if "kind" in vars(cls):
            registry.register("certificate", cls.kind, cls.from_dict)

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
        try:
            self._check_fields()
        except _BAD_FIELDS as error:
            raise ValueError(
                f"The fields must fit each other. They do not ({type(error).__name__}: {error}). "
                "This certificate was changed."
            ) from None
        unchecked = (*self.needs_texts, "choices beyond corrections")
        return Verified("the bound follows from its parts", ", ".join(unchecked))

    def _check_fields(self) -> None:
        self._check_ranges()
        counts = self.corrections.values()
        if not all(is_count(count, least=1) and count <= _MAX_CHOICES for count in counts):
            self._refuse("corrections", f"integers from 1 to {_MAX_CHOICES:,}, by what was chosen")
        self._check()
        for name, value in self.recompute().items():
            self._must_equal(name, value)

    def _check_ranges(self) -> None:
        for item in fields(self):
            value = getattr(self, item.name)
            if item.name in RANGES and value is not None:
                right, rule = RANGES["kl" if item.name in self.unbounded else item.name]
                if not right(value):
                    self._refuse(item.name, rule)

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
            if isinstance(value, int) and rule.startswith("float") and abs(value) > _MAX_COUNT:
                self._refuse(item.name, f"at most {_MAX_COUNT:,}")

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
            certificate._check_types()
            if values.get("assumption", certificate.assumption) != certificate.assumption:
                raise TypeError(f"assumption must be {certificate.assumption!r}")
        except _BAD_FIELDS as error:
            raise ValueError(
                f"The certificate is incomplete or was changed ({error}). Give the file as it was "
                "written."
            ) from None
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
        repeated = [(self.repeats_title, self.repeated())] if self.repeated() else []
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
        shown = {self.repeats_title: self.repeated(), "Provenance": f"{self.provenance}."}
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


@dataclass(frozen=True, kw_only=True)
class RepeatsCertificate(Certificate):
    """A certificate from texts that may repeat: of one sample, or the larger bound of two.

    Attributes
    ----------
    repeats : {"traffic", "copies"} or None
        Why texts repeat, as was stated: rows are drawn from traffic, or copies were made of
        distinct texts. None: it is not known, and the bound holds for both.
    sample : {"traffic", "copies", ""}
        What `n` and the other counts are of: rows, or one text of each near-duplicate cluster; ""
        where no text repeats. With repeats=None the one whose bound is larger.
    other : dict
        The same counts of the other sample; empty where there is none.
    """

    repeats_title = "Repeats"
    counted: ClassVar[tuple[str, ...]] = ()  # fields that each sample has of its own
    condition: ClassVar[str] = ""  # what is assumed beside the draws
    bounded: ClassVar[str] = ""  # what the bounds are on, where this must be said

    repeats: str | None = None
    sample: str = SAME
    other: dict = field(default_factory=dict)

    @property
    def assumption(self) -> str:  # type: ignore[override]
        """When the bound is valid."""
        draws = {
            SAME: f"these {self.unit} and new {self.unit} are drawn",
            TRAFFIC: "these rows and new rows, repeats included, are drawn",
            COPIES: (
                f"these distinct {self.unit} and new distinct {self.unit}, of which any number of "
                "copies may have been made, are drawn"
            ),
        }[self.sample]
        if self.other:
            draws = (
                f"either rows, repeats included, or distinct {self.unit}, of which any number of "
                "copies may have been made, these and new ones, are drawn"
            )
        return f"{draws} independently from one distribution, and {self.condition}"

    @abstractmethod
    def _bounds(self, parts: Mapping[str, Any]) -> dict[str, Any]:
        """The bounds that follow from the counts of one sample."""

    @property
    def samples(self) -> dict[str, dict[str, Any]]:
        """All fields with the counts of each sample, by its name."""
        own = {item.name: getattr(self, item.name) for item in fields(self)}
        if not self.other:
            return {self.sample: own}
        other_name = COPIES if self.sample == TRAFFIC else TRAFFIC
        return {self.sample: own, other_name: own | self.other}

    def bounds_of_samples(self) -> dict[str, dict[str, Any]]:
        """The bounds of each sample by itself: valid if texts repeat for this reason."""
        return {name: self._bounds(parts) for name, parts in self.samples.items()}

    def recompute(self) -> dict[str, Any]:
        bounds, *others = self.bounds_of_samples().values()
        for other in others:
            bounds = cautious(bounds, other)
        return bounds

    @classmethod
    def from_samples(cls, parts: Mapping[str, dict[str, Any]], **fields: Any) -> Self:
        """The certificate of one sample, or of two, of which the larger bound counts."""
        if len(parts) == 1:
            ((name, own),) = parts.items()
            return cls.from_parts(**{**own, **fields}, sample=name)
        counts = {name: {key: own[key] for key in cls.counted} for name, own in parts.items()}
        certificate = cls.from_parts(
            **{**parts[TRAFFIC], **fields}, sample=TRAFFIC, other=counts[COPIES]
        )
        if certificate._is_larger():
            return certificate
        return cls.from_parts(**{**parts[COPIES], **fields}, sample=COPIES, other=counts[TRAFFIC])

    def verify(self) -> Verified:
        """Check every field and both bounds; which sample is which is not known without texts."""
        verified = super().verify()
        if not self.other:
            return verified
        return verified._replace(unchecked=f"{verified.unchecked}, which sample is that of rows")

    def _is_larger(self) -> bool:
        own, other = (bounds["error_upper"] for bounds in self.bounds_of_samples().values())
        return own >= other

    def _check(self) -> None:
        if self.repeats not in (None, TRAFFIC, COPIES):
            self._refuse("repeats", f"{TRAFFIC!r}, {COPIES!r} or None")
        samples = (SAME, TRAFFIC, COPIES) if self.repeats is None else (self.repeats,)
        if self.sample not in samples:
            self._refuse("sample", f"one of {samples}")
        if not self.other:
            if self.sample != (self.repeats or SAME):
                self._refuse("other", "the counts of the other sample")
            return
        if self.repeats is not None or self.sample == SAME or set(self.other) != set(self.counted):
            self._refuse("other", f"{', '.join(self.counted)} of the other sample, with no repeats")
        (_, other_name) = self.samples
        twin = replace(self, **self.other, sample=other_name, repeats=other_name, other={})
        twin._check_types()
        twin._check_ranges()
        twin._check()
        if not self._is_larger():
            self._refuse("sample", "the one whose bound is larger")

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Self:
        if "repeats" not in values:  # written before there were two samples: one text per cluster
            has_texts = values.get("scope", "texts") != "groups" and not values.get("batch_size")
            repeats = COPIES if has_texts else None
            values = {**values, "repeats": repeats, "sample": repeats or SAME}
            values.pop("assumption", None)
        return super().from_dict(values)

    def describe_repeats(self) -> str:
        """Both bounds, where there are two; empty elsewhere."""
        if not self.other:
            return ""
        bounds = {
            name: rounded_up(bounds["error_upper"])
            for name, bounds in self.bounds_of_samples().items()
        }
        return (
            f" Of two bounds{self.bounded} the larger counts: {bounds[TRAFFIC]} for new rows, "
            f"repeats included, and {bounds[COPIES]} for new distinct {self.unit}."
        )

    def repeated(self) -> str:
        if not self.n_duplicates and not self.other:
            return ""
        if self.other:
            return (
                "these texts do not show why they repeat, so the larger of two bounds "
                "counts. If it is known how they were collected, state it: repeats='traffic' where "
                "frequent texts are drawn again, repeats='copies' where copies of texts were made. "
                "Do not choose by which number is smaller."
            )
        if self.sample == TRAFFIC:
            return (
                f"{self.n_duplicates:,} of the {self.n:,} rows repeat others, and count: valid if "
                "frequent texts are drawn again, as in traffic, and no copies were made."
            )
        return (
            f"{format_count(self.n_duplicates, 'near-duplicate')} not counted: valid if copies of "
            "texts were made, and not if frequent texts are drawn again, as in traffic."
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

    Error messages call the text `name`: its file.

    >>> from pacsent.certify import ErrorCertificate
    >>> written = ErrorCertificate(error_upper=0.5, delta=0.05, n=40, n_errors=0).to_json()
    >>> read_certificate(written, "certificate.json")
    Traceback (most recent call last):
    ValueError: certificate.json: error_upper must be 0.07..., computed from its parts. Got 0.5 ...
    """
    values = read_certificate_json(text, name, FORMAT)
    kind = values["kind"]
    from_dict = registry.find_reader("certificate", kind)
    if from_dict is None:
        kinds = tuple(registry.kinds("certificate"))
        raise ValueError(f"{name}: kind must be one of {kinds}. Got {kind!r} instead.")
    try:
        certificate = from_dict(values)
        if verify:
            certificate.verify()
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None
    return certificate
