"""Parts that certificates of encoders share: options, the checked sample and its measurement."""

import math
import warnings
from abc import abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, ClassVar

import numpy as np
from sklearn.base import clone

from pacsent.bounds.checks import check_count, check_probability, is_number
from pacsent.bounds.delta import divide_delta
from pacsent.certify.certificate import Certificate, Verified
from pacsent.certify.error_certificate import candidates
from pacsent.certify.independence import as_seed
from pacsent.sentences import EmptySentenceWarning, SentenceVectorizer
from pacsent.storage.tensor_files import unpack_losses
from pacsent.text.encoded import Encoded, LowCoverageWarning
from pacsent.words.vectors import WordVectors

# Relative error that sums in float64 stay below.
ROUNDING = 1e-12
# Fraction of a document, from its start, that makes its vector.
READ = 0.8
# Power of the counts by which negative samples are drawn, as in the training of word2vec.
NOISE_POWER = 0.75
NOISE_IN_WORDS = (
    "Random words are drawn with probability proportional to their count in the training text of "
    f"the vectors, to the power {NOISE_POWER:g}."
)
# Smallest fraction of the words of all documents that the vectors must have: documents of another
# language have less.
_MIN_COVERAGE = 0.5
# Negative samples of vectors that do not record with how many they were trained.
_N_NEGATIVES = 15
# Fraction of the documents that fits and calibrates the rule, below and from this number on.
_LARGE_SPLIT = 0.3
_SMALL_SPLIT = 0.1
_MANY_DOCUMENTS = 2000
# The name of overlap="error" in the files of certificates.
_OVERLAP_ERROR = "refuse"
# Parameters of an encoder that do not change its vectors, or are recorded by a digest.
_NOT_RECORDED = ("word_vectors", "n_jobs", "batch_size", "on_empty", "verbose")


@dataclass(frozen=True, kw_only=True)
class CertifyOptions:
    """Options of every certificate of an encoder: those of `pacsent.certify_encoder`."""

    delta: float = 0.05
    n_candidates: int = 1
    random_state: Any = None
    test_size: float = 0.0
    split: float | None = None
    overlap: str = "error"
    bias: float | None = None
    verbose: bool = False

    def __post_init__(self) -> None:
        check_probability("delta", self.delta)
        check_count("n_candidates", self.n_candidates)
        seed = as_seed(self.random_state)
        object.__setattr__(self, "random_state", seed)
        if self.overlap == _OVERLAP_ERROR:
            object.__setattr__(self, "overlap", "error")
        self._must(self.overlap in ("error", "drop"), "overlap", "'error' or 'drop'")
        self._must(self.bias is None or is_number(self.bias), "bias", "a finite number")

        split = 0.1 if self.split is None else self.split
        fractions = (split, self.test_size)
        are_fractions = all(is_number(value) and 0 <= value < 1 for value in fractions)
        if not are_fractions or sum(fractions) >= 1:
            raise ValueError(
                f"split and test_size must be shares with a positive rest. Got {self.split!r} and "
                f"{self.test_size!r} instead."
            )

    def _must(self, is_valid: bool, name: str, rule: str) -> None:
        """Raise a ValueError if an option is not valid."""
        if not is_valid:
            raise ValueError(f"{name} must be {rule}. Got {getattr(self, name)!r} instead.")

    def recorded(self) -> dict[str, Any]:
        """Options that a certificate keeps: all but its own fields and what changes nothing."""
        options = asdict(self)
        if self.overlap == "error":
            options["overlap"] = _OVERLAP_ERROR
        for name in ("delta", "n_candidates", "random_state", "verbose"):
            del options[name]
        for name, value in options.items():
            if isinstance(value, np.generic):
                options[name] = value.item()
        return options


@dataclass(frozen=True, kw_only=True)
class EncoderCertificate(Certificate):
    """A guarantee about the vectors of an encoder; each kind adds its own parts.

    The `empirical_risk` is measured on the sample and rounded up, `held_out_risk` on `n_held_out`
    examples that nothing used. Documents below two in-vocabulary words (`n_left_out`) and documents
    that the word vectors were trained on (`n_overlapping`) are left out.
    """

    unit: ClassVar[str] = "documents"
    scope: ClassVar[str] = ""  # what the risk is about
    options_class: ClassVar[type[CertifyOptions]] = CertifyOptions
    _counted = ("held_out_risk", "n_held_out", "n_left_out", "n_overlapping", "n_duplicates")
    needs_texts: ClassVar[tuple[str, ...]] = (*_counted, "random_state", "options")

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

    @property
    def trivial_value(self) -> float:
        """The risk of guessing; a bound above it guarantees nothing."""
        return 0.5

    @property
    def observed(self) -> float:
        return self.empirical_risk

    @property
    def is_vacuous(self) -> bool:
        return not self.error_upper < self.trivial_value

    @abstractmethod
    def measure_again(self, sample: "Sample") -> "EncoderCertificate":
        """Certify a sample once more, by the function that measures this kind of certificate.

        Parameters
        ----------
        sample : Sample
            Documents and encoder, prepared as for the first time.

        Returns
        -------
        EncoderCertificate
            A certificate to compare with this one.
        """

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

        sample = prepare(encoder, texts, self.original_options())
        again = self.measure_again(sample)
        self._must_have_same_fields(again)
        self._must_have_same_losses(again)
        return Verified("the parts follow from the texts and the model, the bound from the parts")

    def _must_have_same_fields(self, again: "EncoderCertificate") -> None:
        # Other versions may word the note in another way; losses are compared on their own.
        not_compared = ("pacsent_version", "provenance_note", "losses")
        # The digests come first: they say which of the arguments is another one.
        names = ["text_digest", "vectors_digest", "encoder"]
        names += [field.name for field in fields(self)]
        for name in names:
            if name not in not_compared:
                self._must_equal(name, getattr(again, name), tolerance=1e-6)

    def _must_have_same_losses(self, again: "EncoderCertificate") -> None:
        losses = unpack_losses(getattr(self, "losses", ""))
        measured = unpack_losses(getattr(again, "losses", ""))
        # Another processor may round a score in another way.
        if losses.size != measured.size or np.abs(losses - measured).max(initial=0.0) > 1e-3:
            raise ValueError("losses must be those of the texts. This certificate was changed.")

    def original_options(self) -> Any:
        """Options of the function that made the certificate."""
        return self.options_class(
            **self.options,
            delta=self.delta,
            random_state=self.random_state,
            n_candidates=self.corrections.get("candidates", 1),
        )

    def _check(self) -> None:
        super()._check()
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

    def statements(self) -> list[tuple[str, str]]:
        if not self.is_vacuous:
            return []
        return [("No guarantee", f"the bound is no better than guessing: {self.why()}")]

    def measurements(self) -> list[tuple[str, str]]:
        measured = f"{self.n:,} {self.unit}; empirical risk {self.empirical_risk:.4f}"
        measured += f"{self.parts()}."
        if self.n_left_out:
            measured += f" Omitted, with fewer than two in-vocabulary words: {self.n_left_out:,}."
        if self.n_overlapping:
            measured += f" Omitted, as in the training text: {self.n_overlapping:,}."
        measured += f" The seed is {self.random_state}."
        rows = [("Scope", self.scope), ("Measured on", measured)]

        if self.held_out_risk is not None:
            side = "below" if self.held_out_risk <= self.error_upper else "ABOVE"
            held_out = (
                f"on {self.n_held_out:,} further {self.unit} the risk is "
                f"{self.held_out_risk:.4f}, {side} the bound."
            )
            rows.append(("Held out", held_out))

        theorem_1 = self.theorem_1()
        if theorem_1:
            rows.append(("Theorem 1 of Nozawa and Sato", theorem_1))
        return rows

    def theorem_1(self) -> str:
        """Bound of Theorem 1 of the paper on the same numbers.

        Returns
        -------
        str
            A sentence; empty for a loss that the theorem does not cover.
        """
        return ""

    def parts(self) -> str:
        """Further numbers of the kind, after the empirical risk."""
        return ""

    def why(self) -> str:
        """Sentence that names the part which makes the bound as large as it is."""
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
    rows: np.ndarray  # of the certified documents among the texts that were given
    n_texts: int
    encoded: Encoded  # the certified documents
    record: dict[str, Any]  # fields that all kinds share
    corrections: dict[str, int]

    def corrected(self, **choices: int) -> "Sample":
        """The same sample with further choices among several values."""
        corrections = dict(self.corrections)
        for name, n_values in choices.items():
            if n_values > 1:
                corrections[name] = n_values
        return replace(self, corrections=corrections)

    @property
    def delta_each(self) -> float:
        return divide_delta(self.options.delta, *self.corrections.values())

    def unfitted(self) -> Any:
        """A clone of the encoder, whose random numbers depend on the seed of the certificate."""
        encoder = clone(self.encoder)
        params = encoder.get_params(deep=False)
        if params.get("random_state", 0) is None:
            encoder.set_params(random_state=self.options.random_state % 2**32)
        return encoder

    def fitted(self, encoded: Encoded) -> Any:
        """A clone of the encoder, fitted on text that is not certified."""
        with _quiet_about_parts():
            return self.unfitted().fit(encoded)

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
        vectors = encoder.transform(encoded)
    return np.asarray(vectors, dtype=np.float32)


def prepare(encoder: Any, texts: Any, options: CertifyOptions) -> Sample:
    """Check the encoder, encode the texts, and leave out what it has seen and copies."""
    _check_encoder(encoder)
    words = encoder.word_vectors
    words.check_finite()  # a negative sample may be one that no text contains
    encoded = words.vocabulary.encode(texts)
    if encoded.ids.size and encoded.coverage < _MIN_COVERAGE:
        raise ValueError(
            f"texts must have at least {_MIN_COVERAGE:.0%} of their words in the vocabulary. Got "
            f"{encoded.coverage:.0%} instead: a certificate would be about other texts. Use word "
            "vectors of the language of the texts."
        )
    is_overlapping, provenance = _provenance(encoder, encoded)
    if options.overlap == "error" and is_overlapping.any():
        _raise_overlap(is_overlapping)

    rows = _first_occurrences(encoded, np.flatnonzero(~is_overlapping))
    n_overlapping = int(is_overlapping.sum())
    n_duplicates = encoded.n_sentences - n_overlapping - rows.size

    A_hat, B_hat = words.roles(swap=encoder.swap_roles)
    bias = options.bias
    if bias is None:
        bias = math.log(words.training.get("n_negatives") or _N_NEGATIVES)
    return Sample(
        options=options,
        encoder=encoder,
        words=words,
        A_hat=A_hat,
        B_hat=B_hat,
        p_noise=words.vocabulary.noise_probabilities(NOISE_POWER),
        rng=np.random.default_rng(options.random_state),
        # a float32 number, so that the noise risk is that of the very same classifier
        bias=float(np.float32(bias)),
        rows=rows,
        n_texts=encoded.n_sentences,
        encoded=encoded.take(rows),
        record={
            "encoder": _describe(encoder),
            "text_digest": words.vocabulary.digest(encoded),
            "vectors_digest": words.digest(),
            "random_state": options.random_state,
            **provenance,
            "n_overlapping": n_overlapping,
            "n_duplicates": int(n_duplicates),
        },
        corrections=candidates(options.n_candidates),
    )


def _check_encoder(encoder: Any) -> None:
    """Raise an error unless the encoder has word vectors in whose coordinates its vectors are."""
    if not isinstance(encoder, SentenceVectorizer):
        raise TypeError(
            f"encoder must be a sentence encoder with word vectors. Got {type(encoder).__name__} "
            "instead. Make one: make_encoder('PB-L2', words). For a classifier call "
            "pacsent.certify.certify(classifier, texts, labels)."
        )
    if not encoder.in_table_space:
        raise ValueError(
            "The vectors must be in the coordinates of the word table to be certified. Got "
            f"{type(encoder).__name__} instead, whose are not. Certify SIF, Average, PB-L2 or "
            "another method of the paper."
        )
    if encoder.word_vectors.output_vectors is None:
        raise ValueError(
            "The word vectors must have output vectors to be certified. Got input vectors only "
            "instead. Train with pacsent vectors train, or convert a model that kept both."
        )


def _raise_overlap(is_overlapping: np.ndarray) -> None:
    """Raise a ValueError about documents that the word vectors were trained on."""
    n_overlapping = is_overlapping.sum()
    first_rows = np.flatnonzero(is_overlapping)[:3]
    documents = ", ".join(map(str, first_rows))
    if n_overlapping > 3:
        documents += ", ..."
    raise ValueError(
        f"The word vectors or the encoder were trained on {n_overlapping:,} of the "
        f"{is_overlapping.size:,} documents to certify, or on passages of them (document "
        f"{documents}), so that no bound holds. Certify other text, "
        "or leave these documents out: overlap='drop'."
    )


def _first_occurrences(encoded: Encoded, rows: np.ndarray) -> np.ndarray:
    """The rows without those that repeat the in-vocabulary words of an earlier one."""
    first_row: dict[Any, int] = {}
    for row in rows.tolist():
        ids = encoded.ids[encoded.offsets[row] : encoded.offsets[row + 1]]
        # Documents of fewer than two words are left out later, and counted one by one.
        key = ids.tobytes() if ids.size > 1 else row
        first_row.setdefault(key, row)
    return np.array(list(first_row.values()), dtype=np.int64)


def _describe(encoder: SentenceVectorizer) -> str:
    """Name and parameters of an encoder."""
    parameters = []
    for name, value in sorted(encoder.get_params(deep=False).items()):
        if name not in _NOT_RECORDED:
            parameters.append(f"{name}={value!r}")
    return f"{type(encoder).__name__}({', '.join(parameters)})"


def _provenance(encoder: SentenceVectorizer, encoded: Encoded) -> tuple[np.ndarray, dict[str, str]]:
    """Mask of documents that the word vectors were trained on, (n,), and how this is known."""
    words = encoder.word_vectors
    fingerprint = words.fingerprint
    is_same_corpus = words.corpus_digest == words.vocabulary.digest(encoded)
    is_overlapping = np.full(encoded.n_sentences, is_same_corpus)
    if fingerprint is None:
        note = "The word vectors have no fingerprint of the training text."
        return is_overlapping, {"provenance": "unknown", "provenance_note": note}

    is_overlapping |= fingerprint.overlap(words.vocabulary, encoded)
    typical_length = 0
    if encoded.n_sentences:
        typical_length = int(np.median(np.diff(encoded.offsets)))
    n_fingerprints = fingerprint.documents.size + fingerprint.runs.size
    note = (
        f"The word vectors have {n_fingerprints:,} "
        f"fingerprints; a document of {typical_length:,} words from the training text is "
        f"recognised with probability {fingerprint.chance_to_notice(typical_length):.2g}."
    )
    return is_overlapping, {"provenance": "checked", "provenance_note": note}


def check_sample(n: int, encoded: Encoded) -> None:
    """Raise a ValueError where nothing is left to certify."""
    if n == 0:
        raise ValueError(
            "texts must have at least one document of two in-vocabulary words. Got "
            f"{encoded.n_sentences:,} documents, {encoded.ids.size:,} in-vocabulary words instead."
        )


def divided(sample: Sample) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(set aside, held out, certified) documents of two words or more, in random order."""
    options = sample.options
    encoded = sample.encoded
    rows = np.flatnonzero(np.diff(encoded.offsets) >= 2)
    check_sample(rows.size, encoded)

    split = options.split
    if split is None:
        split = _SMALL_SPLIT if rows.size >= _MANY_DOCUMENTS else _LARGE_SPLIT
    n_set_aside = max(int(split > 0), int(split * rows.size))
    n_held_out = int(options.test_size * rows.size)
    n_not_certified = n_set_aside + n_held_out
    if n_not_certified >= rows.size:
        raise ValueError(
            f"split and test_size must leave documents to certify. Got {split} and "
            f"{options.test_size} of {rows.size} documents instead."
        )

    rows = sample.rng.permutation(rows)
    set_aside = rows[:n_set_aside]
    held_out = rows[n_set_aside:n_not_certified]
    certified = rows[n_not_certified:]
    return set_aside, held_out, certified
