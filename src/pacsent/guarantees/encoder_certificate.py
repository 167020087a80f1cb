"""What the certificates of encoders share: options, the checked sample, and how to measure on it.

`prepare` checks the arguments, encodes the texts, and leaves out what the encoder has seen and
copies. Each kind then measures on the `Sample` that it returns.
"""

import copy
import math
import warnings
from abc import abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any, ClassVar

import numpy as np
from sklearn.base import clone, is_classifier

from pacsent.encoders import EmptySentenceWarning
from pacsent.encoders.external_encoders import as_encoder, name_of
from pacsent.guarantees.certificate import Certificate, Verified, unpack_losses
from pacsent.guarantees.delta import divide_delta
from pacsent.guarantees.error_certificate import candidates
from pacsent.guarantees.independence import as_seed
from pacsent.guarantees.mapped_encoder import MappedEncoder
from pacsent.guarantees.provenance import first_copies, provenance_of, refuse_overlap
from pacsent.maths.checks import check_count, check_probability, is_number
from pacsent.maths.rounding import rounded_up
from pacsent.text.encoded import Encoded, LowCoverageWarning
from pacsent.threads import n_threads
from pacsent.words.vectors import WordVectors, as_word_vectors

ROUNDING = 1e-12  # relative; sums in float64 are off by less
# Noise words are drawn by their count in the source to this power, as in word2vec's training.
NOISE_POWER = 0.75
NOISE_IN_WORDS = (
    "Random words are drawn with probability proportional to their count in the training text of "
    f"the vectors, to the power {NOISE_POWER:g}."
)
_N_NEGATIVES = 15  # of vectors that do not record with how many they were trained


class VacuousBoundWarning(UserWarning):
    """The bound is no better than guessing, so it guarantees nothing."""


# ---- options ------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class CertifyOptions:
    """Options of every certificate of an encoder: those of `pacsent.certify_encoder`."""

    any_encoder: ClassVar[bool] = False  # whether encoders without word vectors can be certified

    delta: float = 0.05
    n_candidates: int = 1
    random_state: int | None = None
    holdout: float = 0.0
    split: float | None = None
    overlap: str = "refuse"
    bias: float | None = None
    n_jobs: int | None = None
    verbose: bool = False

    def __post_init__(self):
        check_probability("delta", self.delta)
        check_count("n_candidates", self.n_candidates)
        if self.random_state is not None:
            as_seed(self.random_state)
        self._must(self.overlap in ("refuse", "drop"), "overlap", "'refuse' or 'drop'")
        self._must(isinstance(self.verbose, bool | np.bool_), "verbose", "True or False")
        self._must(self.bias is None or is_number(self.bias), "bias", "a finite number")
        fractions = 0.1 if self.split is None else self.split, self.holdout
        if not all(is_number(x) and 0 <= x < 1 for x in fractions) or sum(fractions) >= 1:
            raise ValueError(
                f"split and holdout must be shares with a positive rest. Got {self.split!r} and "
                f"{self.holdout!r} instead."
            )

    def _must(self, right, name, rule):
        if not right:
            raise ValueError(f"{name} must be {rule}. Got {getattr(self, name)!r} instead.")

    def recorded(self) -> dict[str, Any]:
        """What a certificate keeps of them: all but its own fields and what changes nothing."""
        left_out = ("delta", "n_candidates", "random_state", "n_jobs", "verbose")
        return {
            name: value.item() if isinstance(value, np.generic) else value
            for name, value in asdict(self).items()
            if name not in left_out
        }


# ---- the certificate ----------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class EncoderCertificate(Certificate):
    """A guarantee about the vectors of an encoder; each kind adds its own parts.

    The `empirical_risk` is measured on the sample and rounded up, `held_out_risk` on `n_held_out`
    examples that nothing used, where there are any. Documents of fewer than two known words
    (`n_left_out`) and documents that the word vectors were trained on (`n_overlapping`) are left
    out. `options` are what the function that made it was given.
    """

    unit: ClassVar[str] = "documents"
    scope: ClassVar[str] = ""  # what the risk is about
    options_class: ClassVar[type[CertifyOptions]] = CertifyOptions
    needs_texts: ClassVar[tuple[str, ...]] = (
        "held_out_risk",
        "n_held_out",
        "n_left_out",
        "n_overlapping",
        "n_duplicates",
        "random_state",
        "options",
    )

    empirical_risk: float
    encoder: str
    options: dict
    text_digest: str
    vectors_digest: str
    random_state: int
    held_out_risk: float | None = None
    n_held_out: int = 0
    n_left_out: int = 0
    n_overlapping: int = 0
    provenance_note: str = ""
    candidates: list = field(default_factory=list)  # of several: encoder and bound of each

    @property
    def trivial_value(self) -> float:
        """The risk of guessing; a bound above it guarantees nothing."""
        return 0.5

    @property
    def observed(self) -> float:
        return self.empirical_risk

    @property
    def is_vacuous(self) -> bool:
        return not self.bound < self.trivial_value

    # ---- verification ------------------------------------------------------------------------

    @abstractmethod
    def made_again(self, encoder: Any, texts: Any) -> "EncoderCertificate":
        """The same certificate, measured once more with the recorded seed and options."""

    def verify(self, texts: Any = None, encoder: Any = None) -> Verified:
        """Check the certificate; raise a ValueError that names what does not fit.

        Alone: that all fields are possible and that the bound follows from the parts. With the
        texts and the encoder: that the parts follow from them, by certifying once more.
        """
        if (texts is None) != (encoder is None):
            raise ValueError("texts and encoder must be given together. Got one of them only.")
        verified = super().verify()
        if texts is None:
            return verified
        again = self.made_again(encoder, texts)
        for name in ("text_digest", "vectors_digest", "encoder"):
            if getattr(again, name) != getattr(self, name):
                raise ValueError(
                    f"{name} must be {getattr(self, name)!r}. Got {getattr(again, name)!r} "
                    "instead: the certificate is about other texts, word vectors or another method."
                )
        for item in fields(self):
            # other versions may word the note in another way; candidates follow from the losses
            if item.name in ("pacsent_version", "provenance_note", "candidates"):
                continue
            value, measured = getattr(self, item.name), getattr(again, item.name)
            if item.name != "losses":
                self._must_equal(item.name, measured, tolerance=1e-6)
                continue
            value, measured = unpack_losses(value), unpack_losses(measured)
            # another processor may round a score in another way
            if value.size != measured.size or np.abs(value - measured).max(initial=0.0) > 1e-3:
                raise ValueError(
                    "losses must be those of the texts. Got others instead. This certificate was "
                    "changed."
                )
        return Verified(
            "the parts follow from the texts and the model, and the bound from the parts"
        )

    def original_options(self) -> Any:
        """What the function that made it was given."""
        return self.options_class(
            **self.options,
            delta=self.delta,
            random_state=self.random_state,
            n_candidates=self.corrections.get("candidates", 1),
        )

    def _check(self) -> None:
        if self.provenance not in ("checked", "unknown"):
            self._refuse("provenance", "'checked' or 'unknown'")
        if (self.held_out_risk is None) != (self.n_held_out == 0):
            self._refuse("n_held_out", "0 exactly where nothing was held out")
        if self.held_out_risk is not None and self.held_out_risk > 1 and not self.unbounded:
            self._refuse("held_out_risk", "in [0, 1]")
        try:
            self.original_options()
        except (TypeError, ValueError) as error:
            raise ValueError(f"options must be those of certify. {error}") from None

    # ---- words -------------------------------------------------------------------------------

    def details(self) -> list[tuple[str, str]]:
        text = f"{self.n:,} {self.unit}; empirical risk {self.empirical_risk:.4f}{self.parts()}."
        if self.n_left_out:
            text += f" {self.n_left_out:,} documents of fewer than two known words are left out."
        if self.n_overlapping:
            text += f" {self.n_overlapping:,} documents of the training text are left out."
        text += (
            " certificate.verify(texts, encoder) repeats the measurement (seed "
            f"{self.random_state})."
        )
        rows = [("Scope", self.scope), ("Measured on", text)]
        if self.held_out_risk is not None:
            side = "below" if self.held_out_risk <= self.bound else "ABOVE"
            text = (
                f"on {self.n_held_out:,} further {self.unit} the risk is "
                f"{self.held_out_risk:.4f}, {side} the bound."
            )
            rows.append(("Held out", text))
        if self.is_vacuous:
            rows.insert(0, ("No guarantee", f"the bound is no better than guessing: {self.why()}"))
        return rows

    def parts(self) -> str:
        """Further numbers of the kind, after the empirical risk."""
        return ""

    def repeated(self) -> str:
        if not self.n_duplicates:
            return ""
        return (
            f"{self.n_duplicates:,} documents repeat the known words of an earlier one; copies "
            "count once."
        )

    def why(self) -> str:
        """Which part makes the bound as large as it is."""
        if self.observed >= self.trivial_value:
            return f"the empirical risk {self.observed:.4g} alone is no better."
        return f"n = {self.n:,} {self.unit} are too few for delta = {self.delta:g}. Certify more."

    def origin(self) -> str:
        if self.provenance == "checked":
            return f"checked. {self.provenance_note}"
        return (
            "UNKNOWN. The training text of these word vectors is not recorded; the guarantee holds "
            f"only if it does not contain the certified texts. {self.provenance_note}".rstrip()
        )

    def bars(self) -> list[tuple[str, float, str]]:
        bars = [("guessing", self.trivial_value, f"{self.trivial_value:.4g}")]
        if self.held_out_risk is not None:
            bars.append(("held out", self.held_out_risk, f"{self.held_out_risk:.4f}"))
        return [*bars, ("certified", self.bound, rounded_up(self.bound))]


# ---- the sample ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Sample:
    """The documents to certify, the encoder, and what every kind needs to measure."""

    options: Any
    encoder: Any
    words: WordVectors
    A_hat: np.ndarray
    B_hat: np.ndarray
    p_noise: np.ndarray
    rng: np.random.Generator
    bias: float
    n_jobs: int
    rows: np.ndarray  # of the certified documents among the texts that were given
    n_texts: int
    encoded: Encoded  # the certified documents
    record: dict[str, Any]  # fields that all kinds share
    corrections: dict[str, int]

    def corrected(self, **choices: int) -> "Sample":
        """The same sample with further choices among several values."""
        more = {name: n for name, n in choices.items() if n > 1}
        return replace(self, corrections={**self.corrections, **more})

    @property
    def delta_each(self) -> float:
        return divide_delta(self.options.delta, *self.corrections.values())

    def fitted(self, encoded: Encoded) -> Any:
        """A clone of the encoder, fitted on text that is not certified."""
        with _quiet_about_parts():
            return clone(self.encoder).fit(encoded)

    def certificate(self, kind: type[EncoderCertificate], **parts: Any) -> Any:
        """A certificate of these parts, with the bound that follows from them."""
        return kind.from_parts(
            delta=float(self.options.delta),
            corrections=self.corrections,
            options=self.options.recorded(),
            **self.record,
            **parts,
        )


@contextmanager
def _quiet_about_parts() -> Iterator[None]:
    """A part of a document may well be empty; every other warning is shown."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", EmptySentenceWarning)
        warnings.simplefilter("ignore", LowCoverageWarning)
        yield


def vectors_of(encoder: Any, encoded: Encoded) -> np.ndarray:
    """Vectors of parts of documents."""
    with _quiet_about_parts():
        return np.asarray(encoder.transform(encoded), dtype=np.float32)


def certified(encoder: Any, texts: Any, options: Any, measure: Callable) -> tuple[Any, Any]:
    """What `measure` returns for one encoder, or for the best of several with a union bound."""
    if not isinstance(encoder, list | tuple):
        certificate, measured = measure(prepare(encoder, texts, options))
    else:
        if not encoder:
            raise ValueError("encoder must be an encoder or a list of them. Got an empty list.")
        n_candidates = options.n_candidates * len(encoder)
        seed = as_seed(options.random_state)
        options = replace(options, n_candidates=n_candidates, random_state=seed)
        texts = texts if hasattr(texts, "__len__") else list(texts)
        pairs = [measure(prepare(candidate, texts, options)) for candidate in encoder]
        certificate, measured = min(pairs, key=lambda pair: pair[0].bound)
        table = [{"encoder": c.encoder, "bound": c.bound} for c, _ in pairs]
        certificate = replace(certificate, candidates=table)
    if certificate.is_vacuous:
        bound = rounded_up(certificate.bound)
        warnings.warn(
            f"The bound is {bound} and guarantees nothing: {certificate.why()}",
            VacuousBoundWarning,
            stacklevel=3,
        )
    return certificate, measured


def prepare(encoder: Any, texts: Any, options: CertifyOptions) -> Sample:
    """Check the encoder, encode the texts, and leave out what it has seen and copies."""
    encoder = _checked_encoder(encoder, options)
    seed = as_seed(options.random_state)
    words = encoder.word_vectors
    words.check_rows(np.arange(words.n_words))  # a noise word may be one that no text contains
    encoded = words.vocabulary.encode(texts)
    provenance = provenance_of(encoder, encoded)
    if options.overlap == "refuse":
        refuse_overlap(provenance)
    rows = np.flatnonzero(~provenance.seen)
    rows = rows[first_copies(encoded.take(rows))]
    A_hat, B_hat = words.roles(swap=getattr(encoder, "swap_roles", False))
    n_negatives = words.training.get("n_negatives") or _N_NEGATIVES
    bias = math.log(n_negatives) if options.bias is None else options.bias
    return Sample(
        options=replace(options, random_state=seed),
        encoder=encoder,
        words=words,
        A_hat=A_hat,
        B_hat=B_hat,
        p_noise=words.vocabulary.noise_probabilities(NOISE_POWER),
        rng=np.random.default_rng(seed),
        # a float32 number, so that the noise risk is that of the very same classifier
        bias=float(np.float32(bias)),
        n_jobs=n_threads(options.n_jobs),
        rows=rows,
        n_texts=encoded.n_sentences,
        encoded=encoded.take(rows),
        record={
            "encoder": _describe(encoder),
            "text_digest": words.vocabulary.digest(encoded),
            "vectors_digest": words.digest(),
            "random_state": seed,
            "provenance": provenance.status,
            "provenance_note": provenance.note,
            "n_overlapping": int(provenance.seen.sum()),
            "n_duplicates": int(encoded.n_sentences - provenance.seen.sum() - rows.size),
        },
        corrections=candidates(options.n_candidates),
    )


def _checked_encoder(encoder, options) -> Any:
    """The encoder, with a map into a word table where it is one of another program."""
    if hasattr(encoder, "__sklearn_tags__") and is_classifier(encoder):
        raise TypeError(
            f"encoder must be a sentence encoder. Got the classifier {type(encoder).__name__} "
            "instead. Call pacsent.guarantees.certify(classifier, texts, labels)."
        )
    is_distilled = getattr(encoder, "is_distilled", False) and options.any_encoder
    if is_distilled or not hasattr(encoder, "word_vectors"):
        if not options.any_encoder:
            raise TypeError(
                "encoder must be a sentence encoder with word vectors, or a list of some. Got "
                f"{type(encoder).__name__} instead. Make one: make('PB-L2', words)."
            )
        encoder = MappedEncoder(as_encoder(encoder))
    if isinstance(encoder, MappedEncoder):  # a copy: one that was fitted stays so
        words = as_word_vectors(encoder.word_vectors)
        encoder = copy.copy(encoder).set_params(word_vectors=words)
    if not getattr(encoder, "in_table_space", True):
        raise ValueError(
            "The vectors must be in the coordinates of the word table to be certified. Got "
            f"{type(encoder).__name__} instead, whose are not. Certify SIF, Average, PB-L2 or "
            "another method of the paper."
        )
    if encoder.word_vectors.output_vectors is None:
        raise ValueError(
            "The word vectors must have an output table to be certified. Got input vectors only "
            "instead. Train with pacsent train, or convert a model that kept both."
        )
    return encoder


def _describe(encoder) -> str:
    parameters = {
        key: value
        for key, value in encoder.get_params(deep=False).items()
        if key not in ("word_vectors", "n_jobs", "batch_size", "on_empty", "verbose")
    }
    if "encoder" in parameters:
        parameters["encoder"] = name_of(parameters["encoder"])
    inside = ", ".join(f"{key}={value!r}" for key, value in sorted(parameters.items()))
    return f"{type(encoder).__name__}({inside})"


def check_sample(n: int, encoded: Encoded) -> None:
    """Refuse texts that leave nothing to certify."""
    if n == 0:
        raise ValueError(
            "texts must hold at least one document of two known words. Got "
            f"{encoded.n_sentences:,} documents with {encoded.ids.size:,} known words instead."
        )


def divided(
    sample: Sample, rows: np.ndarray, split: float, *, least: int = 0
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(set aside, held out, certified) documents; at least `least` are set aside."""
    options, rows = sample.options, sample.rng.permutation(rows)
    n_aside = max(least, int(split * rows.size))
    n_rest = int(options.holdout * rows.size)
    if n_aside + n_rest >= rows.size:
        raise ValueError(
            f"split and holdout must leave documents to certify. Got {split} and "
            f"{options.holdout} of {rows.size} documents instead."
        )
    return rows[:n_aside], rows[n_aside : n_aside + n_rest], rows[n_aside + n_rest :]
