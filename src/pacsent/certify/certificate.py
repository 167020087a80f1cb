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
from pacsent.text.printable import format_columns

FORMAT = 5
_MAX_CHOICES = 10**12  # of each kind; far more, and delta is no longer a number
_MAX_COUNT = 2**53  # above it a float is no longer exact
_MAX_ROWS = 10**9  # of a table whose labels were checked: the bound looks at each number of errors
# What computing with the fields of a changed certificate may raise.
_BAD_FIELDS = (LookupError, TypeError, ArithmeticError, AttributeError, MemoryError)


def _is_probability(x: float) -> bool:
    return 0 < x < 1


def _is_exact_count(x: Any) -> bool:
    return is_count(x) and x <= _MAX_COUNT


def _is_positive_count(x: Any) -> bool:
    return is_count(x, least=1) and x <= _MAX_COUNT


def _is_number_of_rows(x: Any) -> bool:
    return is_count(x, least=1) and x <= _MAX_ROWS


def _is_number_of_choices(x: Any) -> bool:
    return is_count(x, least=1) and x <= _MAX_CHOICES


def _is_fraction(x: float) -> bool:
    return 0 <= x <= 1


def _is_nonnegative(x: float) -> bool:
    return 0 <= x < math.inf


def _is_positive(x: float) -> bool:
    return 0 < x < math.inf


_PROBABILITY = _is_probability, "strictly between 0 and 1"
_POSITIVE_COUNT = _is_positive_count, f"an integer from 1 to {_MAX_COUNT:,}"
_COUNT = _is_exact_count, f"an integer from 0 to {_MAX_COUNT:,}"
_ROWS = _is_number_of_rows, f"an integer from 1 to {_MAX_ROWS:,}"
_SEED = is_count, "an integer of at least 0"
_FRACTION = _is_fraction, "in [0, 1]"
_NONNEGATIVE = _is_nonnegative, "a finite number >= 0"
_POSITIVE = _is_positive, "a finite number > 0"
_FINITE = math.isfinite, "a finite number"

# What a number of a certificate may be, by the names of its fields.
_RULES = (
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
    ("bias scale", _FINITE),
)
RANGES: dict[str, tuple[Any, str]] = {
    name: rule for names, rule in _RULES for name in names.split()
}
# What `isinstance` is asked for the annotation of a field.
_TYPES: dict[str, Any] = {
    "str": str,
    "int": int,
    "float": (float, int),
    "dict": dict,
    "list": list,
    "tuple": tuple,
}


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
        """The bound, and every other total, from the parts alone.

        Returns
        -------
        dict
            Names of fields and their values.
        """

    @classmethod
    def from_parts(cls, **parts: Any) -> Self:
        """A certificate whose bounds are computed from its parts.

        Parameters
        ----------
        **parts
            Fields of the class; those that `recompute` returns may be left out.

        Returns
        -------
        Certificate
        """
        draft = cls(**{"error_upper": math.nan, **parts})
        bounds = draft.recompute()
        return replace(draft, **bounds)

    def verify(self) -> Verified:
        """Check that every field is possible and that the bound follows from the parts.

        Returns
        -------
        Verified
            What was checked, and what could not be.

        Raises
        ------
        ValueError
            If a field is wrong; the message names it.
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
        if not all(map(_is_number_of_choices, self.corrections.values())):
            self._refuse("corrections", f"integers from 1 to {_MAX_CHOICES:,}, by what was chosen")
        self._check()
        for name, value in self.recompute().items():
            self._must_equal(name, value)

    def _check_ranges(self) -> None:
        for item in fields(self):
            value = getattr(self, item.name)
            if item.name not in RANGES or value is None:
                continue
            is_possible, rule = RANGES[item.name]
            if item.name in self.unbounded:
                is_possible, rule = _NONNEGATIVE
            if not is_possible(value):
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
            value = getattr(self, item.name)
            type_name = str(getattr(item.type, "__name__", item.type))
            plain_type = _TYPES[type_name.removesuffix(" | None")]
            if value is None and type_name.endswith("| None"):
                continue
            if not isinstance(value, plain_type) or isinstance(value, bool):
                self._refuse(item.name, f"of type {type_name}")

            is_integer_for_float = isinstance(value, int) and type_name.startswith("float")
            if is_integer_for_float and abs(value) > _MAX_COUNT:
                self._refuse(item.name, f"at most {_MAX_COUNT:,}")

    def _must_equal(self, name: str, value: Any, tolerance: float = 1e-9) -> None:
        """Refuse a field that is not what its parts give; numbers within a relative tolerance."""
        stated = getattr(self, name)
        if not _is_same(stated, value, tolerance):
            raise ValueError(
                f"{name} must be {value!r}, computed from its parts. Got {stated!r} instead. This "
                "certificate was changed, or is about other texts or another model."
            )

    def to_dict(self) -> dict[str, Any]:
        """All fields as JSON has them.

        Returns
        -------
        dict
            The fields by name, with `kind` and `assumption`.
        """
        return {"kind": self.kind, "assumption": self.assumption, **asdict(self)}

    def to_json(self) -> str:
        """One JSON object with a checksum, which `read_certificate` reads.

        Returns
        -------
        str
            Every number is kept exactly.
        """
        values = {"format_version": FORMAT, **self.to_dict()}
        signed_values = {**values, "checksum": checksum(values)}
        return json.dumps(signed_values, indent=1, ensure_ascii=False)

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Self:
        """The certificate of `to_dict`. Its kind is that of the class.

        Parameters
        ----------
        values : dict
            The result of `to_dict`.

        Returns
        -------
        Certificate
            With possible types; `verify` checks the values.
        """
        try:
            field_values = dict(values)
            for name in ("format_version", "kind", "assumption"):
                field_values.pop(name, None)
            certificate = cls(**field_values)
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
        """The guarantee itself, in one or two sentences.

        Returns
        -------
        str
        """

    def statements(self) -> list[tuple[str, str]]:
        """Further bounds.

        Returns
        -------
        list of (str, str)
            Title and text of each.
        """
        return []

    def measurements(self) -> list[tuple[str, str]]:
        """Measurements that the bounds were computed from.

        Returns
        -------
        list of (str, str)
            Title and text of each.
        """
        return []

    def rows(self) -> list[tuple[str, str]]:
        """Everything that the guarantee rests on.

        Returns
        -------
        list of (str, str)
            Title and text of the bounds, measurements, repeats, assumption, provenance and
            corrections.
        """
        rows = self.statements() + self.measurements()
        repeated = self.repeated()
        if repeated:
            rows.append((self.repeats_title, repeated))

        rows.append(("Assumption", self.assumption))
        rows.append(("Provenance", self.origin()))
        rows.append(("Corrections", self.corrected_for()))
        return rows

    def repeated(self) -> str:
        """Examples that were not counted because they repeat others.

        Returns
        -------
        str
            A sentence; empty where no example repeats another.
        """
        if not self.n_duplicates:
            return ""
        return f"{self.n_duplicates:,} not counted."

    def origin(self) -> str:
        """Origin of the examples: held out, checked against the training texts, or given.

        Returns
        -------
        str
            A sentence.
        """
        return f"{self.provenance}."

    def corrected_for(self) -> str:
        """Choices that a union bound covers, in words.

        Returns
        -------
        str
            A sentence.

        References
        ----------
        Theorem 11 of docs/theory.md.
        """
        if self.n_candidates == 1:
            return "none. If this is the best of J models or settings, pass n_candidates=J."
        chosen = ", ".join(f"{n} {name}" for name, n in self.corrections.items())
        return f"a union bound over {self.n_candidates:,} alternatives ({chosen})."

    def __str__(self) -> str:
        rows = list(self.statements())
        repeated = self.repeated()
        if repeated:
            rows.append((self.repeats_title, repeated))

        # Examples that were checked, with nothing to add, are the expected case.
        is_checked = self.provenance.startswith(("checked", "held out"))
        if not is_checked or ";" in self.provenance:
            rows.append(("Provenance", f"{self.provenance}."))
        if self.n_candidates > 1:
            rows.append(("Corrections", self.corrected_for()))
        return "\n".join([self.summary(), *self._lines(rows), f"Valid if {self.assumption}"])

    def details(self) -> str:
        """The summary and everything that the guarantee rests on.

        Returns
        -------
        str
            One line for each row, and tables of classes.
        """
        return "\n".join([self.summary(), *self._lines(self.rows())])

    def _tables(self) -> dict[str, list[tuple[str, ...]]]:
        """The rows of statements that are printed as a table, with a header, by title."""
        return {}

    def _lines(self, rows: list[tuple[str, str]]) -> list[str]:
        """Titles and texts, one line each, or a table in place of them."""
        tables = self._tables()
        lines = []
        for title, text in rows:
            if title in tables:
                lines += format_columns(tables[title])
            elif text:
                lines.append(f"{title}: {text}")
        return lines

    def _repr_html_(self) -> str:
        observed = self.observed
        observed_bar = ("observed", observed, f"{observed:.4f}")
        certified_bar = ("certified", self.error_upper, rounded_up(self.error_upper))
        longest = max(observed, self.error_upper) or 1.0
        return render(
            "certificate.html",
            sentence=self.summary(),
            bars=[observed_bar, certified_bar],
            longest=longest,
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
        losses = unpack_losses(self.losses)  # (n,)
        return float(losses.mean())

    def recompute(self) -> dict[str, Any]:
        losses = unpack_losses(self.losses)  # (n,)
        bound = betting(losses, self.delta_each)
        return {"error_upper": float(bound)}

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
        draws_of_sample = {
            SAME: f"these {self.unit} and new {self.unit} are drawn",
            TRAFFIC: "these rows and new rows, repeats included, are drawn",
            COPIES: (
                f"these distinct {self.unit} and new distinct {self.unit}, of which any number of "
                "copies may have been made, are drawn"
            ),
        }
        draws = draws_of_sample[self.sample]

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
        own_fields = {item.name: getattr(self, item.name) for item in fields(self)}
        samples = {self.sample: own_fields}
        if self.other:
            other_name = COPIES if self.sample == TRAFFIC else TRAFFIC
            samples[other_name] = own_fields | self.other
        return samples

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
            ((name, own_parts),) = parts.items()
            own_fields = {**own_parts, **fields}
            return cls.from_parts(**own_fields, sample=name)

        certificate = cls._from_sample(TRAFFIC, COPIES, parts, fields)
        if certificate._is_larger():
            return certificate
        return cls._from_sample(COPIES, TRAFFIC, parts, fields)

    @classmethod
    def _from_sample(
        cls, name: str, other_name: str, parts: Mapping[str, dict[str, Any]], fields: dict
    ) -> Self:
        """The certificate with the counts of one sample, and those of the other beside them."""
        own_fields = {**parts[name], **fields}
        other_counts = {key: parts[other_name][key] for key in cls.counted}
        return cls.from_parts(**own_fields, sample=name, other=other_counts)

    def verify(self) -> Verified:
        """Check every field and both bounds; which sample is which is not known without texts."""
        verified = super().verify()
        if not self.other:
            return verified
        return verified._replace(unchecked=f"{verified.unchecked}, which sample is that of rows")

    def _is_larger(self) -> bool:
        """Test that the bound of this sample is at least that of the other one."""
        own_bounds, other_bounds = self.bounds_of_samples().values()
        return own_bounds["error_upper"] >= other_bounds["error_upper"]

    def _check(self) -> None:
        self._check_sample()
        if self.other:
            self._check_other()
        elif self.sample != (self.repeats or SAME):
            self._refuse("other", "the counts of the other sample")

    def _check_sample(self) -> None:
        if self.repeats not in (None, TRAFFIC, COPIES):
            self._refuse("repeats", f"{TRAFFIC!r}, {COPIES!r} or None")

        samples: tuple[str, ...] = (SAME, TRAFFIC, COPIES)
        if self.repeats is not None:
            samples = (self.repeats,)
        if self.sample not in samples:
            self._refuse("sample", f"one of {samples}")

    def _check_other(self) -> None:
        """Refuse counts of the other sample that no certificate could have by itself."""
        has_two_samples = self.repeats is None and self.sample != SAME
        if not has_two_samples or set(self.other) != set(self.counted):
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
            is_of_groups = values.get("scope", "texts") == "groups"
            is_of_batch = bool(values.get("batch_size"))
            repeats = None if is_of_groups or is_of_batch else COPIES
            values = {**values, "repeats": repeats, "sample": repeats or SAME}
            values.pop("assumption", None)
        return super().from_dict(values)

    def describe_repeats(self) -> str:
        """Both bounds, where there are two; empty elsewhere."""
        if not self.other:
            return ""
        bounds = self.bounds_of_samples()
        bound_of_rows = rounded_up(bounds[TRAFFIC]["error_upper"])
        bound_of_texts = rounded_up(bounds[COPIES]["error_upper"])
        return (
            f" Of two bounds{self.bounded} the larger counts: {bound_of_rows} for new rows, "
            f"repeats included, and {bound_of_texts} for new distinct {self.unit}."
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

        near_duplicates = format_count(self.n_duplicates, "near-duplicate")
        return (
            f"{near_duplicates} not counted: valid if copies of "
            "texts were made, and not if frequent texts are drawn again, as in traffic."
        )


def _is_same(stated: Any, value: Any, tolerance: float) -> bool:
    """Test for equal values; numbers, also those in lists and dicts, within the tolerance."""
    if isinstance(value, list) and isinstance(stated, list):
        value = dict(enumerate(value))
        stated = dict(enumerate(stated))

    if isinstance(value, dict) and isinstance(stated, dict) and stated.keys() == value.keys():
        return all(_is_same(stated[key], value[key], tolerance) for key in value)
    if isinstance(value, float) and isinstance(stated, float | int):
        # relative: a margin of 1e-5 must not be off by a hundredth of itself
        return abs(stated - value) <= tolerance * abs(value) + 1e-15
    return stated == value


def read_certificate(text: str, name: str = "text", *, verify: bool = True) -> Certificate:
    """The certificate in a JSON text.

    Parameters
    ----------
    text : str
        The result of `Certificate.to_json`.
    name : str, default="text"
        The name of the text in error messages, such as that of its file.
    verify : bool, default=True
        Verify the certificate.

    Returns
    -------
    Certificate
        Of the class of its kind.

    Raises
    ------
    ValueError
        If the text is no certificate, or was changed.

    Examples
    --------
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
