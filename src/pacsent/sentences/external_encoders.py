"""Encoders of other programs, behind the interface of the methods of pacsent: `as_encoder`."""

import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from numbers import Real
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin

from pacsent import registry
from pacsent.arrays import unit_rows
from pacsent.bounds.checks import is_number
from pacsent.optional import import_optional
from pacsent.sentences.encoding import EmptySentenceWarning, EncoderMixin, iter_batches
from pacsent.sentences.methods import DEFAULT, as_vectorizer
from pacsent.sentences.probe import MIN_PROBE_COSINE, PROBE, probe_cosines
from pacsent.sentences.remote_encoder import RemoteEncoder
from pacsent.sentences.sentence_vectorizer import SentenceVectorizer
from pacsent.storage import State, checked_tensor, is_model_name, is_url, load
from pacsent.text.texts import as_sentences, as_texts
from pacsent.words.vectors import WordVectors

# Words of a text below which SIF-sum counts less beside a distilled encoder. Chosen on the training
# part of 20news and the dev part of STS-B.
_FADE_WORDS = 50

_BATCH_TEXTS = 4096  # passed to the encoder at a time


class AnyEncoder(ClassNamePrefixFeaturesOutMixin, EncoderMixin, BaseEstimator, ABC):
    """Base of encoders that are no methods of pacsent; a class adds `_encode` and `n_dims`."""

    learns_from_text = False

    @property
    @abstractmethod
    def n_dims(self) -> int:
        """Numbers of a vector."""

    def posterior(self, X: Iterable[str]) -> tuple[np.ndarray, np.ndarray]:
        """The vectors, (n, n_dims), float32, and nan for their variances."""
        parts = [means for means, _ in self.stream(as_texts(X))]
        if len({part.shape[1] for part in parts}) > 1:
            raise ValueError(f"{self.method_name} must give vectors of one size. Got several.")
        vectors = np.concatenate(parts) if parts else np.zeros((0, self.n_dims), np.float32)
        return vectors, np.full(len(vectors), np.nan)

    def stream(self, X: Iterable[str]) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """`posterior` in batches; sets `n_sentences_` and `n_empty_` (vectors of zeros)."""
        n, empty = 0, []
        for texts in iter_batches(as_sentences(X), _BATCH_TEXTS):
            vectors = self._encode(as_texts(texts), n)
            empty += (np.flatnonzero(~vectors.any(axis=1)) + n).tolist()
            n += len(texts)
            yield vectors, np.full(len(texts), np.nan)
        self.n_sentences_, self.n_empty_, self.coverage_ = n, len(empty), None
        parts = getattr(self, "encoders", [self])  # those of a classifier may be empty
        if empty and any(getattr(part, "on_empty", "") != "ignore" for part in parts):
            rows = f"{', '.join(map(str, empty[:3]))}{', ...' * (len(empty) > 3)}, counted from 0"
            message = f"{len(empty):,} of {n:,} texts have no vector (row {rows})."
            warnings.warn(message, EmptySentenceWarning, stacklevel=3)

    @property
    def _n_features_out(self) -> int:
        return self.n_dims

    @property
    @abstractmethod
    def method_name(self) -> str:
        """What messages call it."""

    def __sklearn_is_fitted__(self) -> bool:
        return True

    @abstractmethod
    def _encode(self, texts: list[str], start: int) -> np.ndarray:
        """Vectors of a batch, the first text of which is row `start`."""


class ExternalEncoder(AnyEncoder):
    """An encoder of another program as a transformer of pacsent.

    Parameters
    ----------
    encoder : object with `encode` or `transform`, or callable
        What turns a list of str into an array of shape (n, n_dims).
    name : str, optional
        What messages and saved models call it. By default the name of its class or function.

    Attributes
    ----------
    probe_ : array, shape (10, n_dims)
        The vectors of ten fixed sentences. A saved model keeps them and refuses an encoder that
        gives others.

    Examples
    --------
    >>> encoder = ExternalEncoder(lambda texts: [[len(text), 1.0] for text in texts], name="length")
    >>> encoder.encode(["four", "sixsix"])
    array([[4., 1.],
           [6., 1.]], dtype=float32)
    """

    kind = "ExternalEncoder"

    def __init__(self, encoder: Any, *, name: str | None = None):
        self.encoder = encoder
        self.name = name

    @property
    def method_name(self) -> str:
        inner = self.encoder
        source = inner.source if isinstance(inner, RemoteEncoder) else None
        return str(self.name or source or getattr(inner, "__name__", type(inner).__name__))

    @property
    def n_dims(self) -> int:
        return self.fit().probe_.shape[1]

    def fit(self, X: Any = None, y: Any = None) -> "ExternalEncoder":
        """Encode the ten sentences of the probe, once; the encoder learns nothing."""
        if not hasattr(self, "probe_"):
            if isinstance(self.encoder, StoredVectors):  # nothing can be encoded, only looked up
                n_dims = self.encoder.vectors.shape[1]
                self.probe_ = np.zeros((len(PROBE), n_dims), np.float32)
            else:
                self.probe_ = self._encode(list(PROBE), 0)
        return self

    def __sklearn_clone__(self) -> "ExternalEncoder":
        return self  # it learns nothing, and may be too large to copy

    def _encode(self, texts: list[str], start: int) -> np.ndarray:
        output = _encode_function(self.encoder, self.method_name)(texts)
        try:
            vectors = _as_vectors(output)
        except (ValueError, TypeError, OverflowError):
            vectors = np.zeros(0, np.float32)
        if vectors.ndim != 2 or len(vectors) != len(texts) or not vectors.shape[1]:
            raise ValueError(
                f"{self.method_name} must give an array of shape (n_texts, n_dims). Got "
                f"{getattr(output, 'shape', None) or type(output).__name__} for {len(texts):,} "
                "texts instead. Check what it returns for a list of str."
            )
        wrong = np.flatnonzero(~np.isfinite(vectors).all(axis=1))
        if wrong.size:
            raise ValueError(
                f"{self.method_name} must give finite numbers. Got nan or inf for {wrong.size:,} "
                f"of {len(texts):,} texts (first: row {start + int(wrong[0])}, counted from 0: "
                f"{texts[wrong[0]][:40]!r}). Leave such texts out, or replace their vectors."
            )
        return vectors

    def state(self) -> State:
        """What `pacsent.save` writes: its name and the probe."""
        return State({"name": self.method_name}, {"probe": self.fit().probe_})

    @classmethod
    def from_state(cls, state: State) -> "ExternalEncoder":
        """The inverse of `state`, without the encoder, which must be attached.

        A URL among the names is not contacted: whoever wrote the folder would receive the texts.
        """
        name = str(state.config.get("name"))
        encoder = cls(partial(_refuse_without_encoder, name), name=name)
        encoder.probe_ = checked_tensor(state.tensors, "probe", np.float32, (len(PROBE), None))
        return encoder

    def attach(self, encoder: Any) -> "ExternalEncoder":
        """Use this encoder, if it gives the vectors of the one that was saved."""
        other = as_encoder(encoder)
        inner = getattr(other, "encoder", None)
        if isinstance(inner, RemoteEncoder):  # the server's vectors of now, not those in the cache
            probe = inner.request(list(PROBE))
        elif isinstance(inner, StoredVectors):
            probe = other.fit().probe_
        else:
            probe = np.asarray(other.posterior(list(PROBE))[0], np.float32)
        if probe.shape != self.probe_.shape:
            raise ValueError(
                f"encoder must give vectors of {self.probe_.shape[1]} numbers, as "
                f"{self.method_name} did when this model was made. Got {probe.shape[1]} instead. "
                "Pass that encoder."
            )
        cosines = probe_cosines(probe, self.probe_)
        if cosines.min() < MIN_PROBE_COSINE:
            raise ValueError(
                f"encoder must be {self.method_name}, which this model was made with. Got another "
                f"instead: the cosine of its vectors with those is {cosines.min():.3f} for "
                f"{PROBE[int(cosines.argmin())]!r}. Pass that encoder."
            )
        if isinstance(inner, RemoteEncoder):
            inner.compare_with_cache(probe)
        self.encoder = other
        return self


def _refuse_without_encoder(name: str, texts: list[str]) -> None:
    """Stands for an encoder that a saved model was made with, until it is attached."""
    raise ValueError(
        f"This model was made with the encoder {name}, which is not saved with it. Open it with "
        "that encoder: load(path, encoder=...), or --encoder PATH|URL in the shell."
    )


class StoredVectors:
    """Vectors computed elsewhere, looked up by their texts."""

    def __init__(self, texts: Iterable[str], vectors: Any):
        texts, self.vectors = as_texts(texts), np.asarray(vectors)
        if self.vectors.ndim != 2 or len(self.vectors) != len(texts):
            raise ValueError(
                f"vectors must have shape ({len(texts)}, n_dims), one row for each text. Got "
                f"{self.vectors.shape} instead."
            )
        self._rows: dict[str, int] = {}
        for row, text in enumerate(texts):
            first = self._rows.setdefault(text, row)
            if not np.array_equal(self.vectors[first], self.vectors[row]):
                raise ValueError(
                    f"A text must have one vector. Got two for {text[:40]!r}, in rows {first} and "
                    f"{row}. Remove one of them."
                )

    def encode(self, texts: Sequence[str]) -> np.ndarray:
        """The rows of the texts."""
        if missing := [text for text in texts if text not in self._rows]:
            raise ValueError(
                f"{len(missing):,} of {len(texts):,} texts have no vector (first: "
                f"{missing[0][:40]!r}). Give the vectors of these texts too."
            )
        return self.vectors[[self._rows[text] for text in texts]]


class ConcatenatedEncoder(AnyEncoder):
    """Several encoders side by side, each scaled to unit length.

    Parameters
    ----------
    encoders : list of encoders
        Anything that `as_encoder` takes.
    fade : float or None, default=None
        In a text of fewer words than this, the last encoder counts in proportion to their number.

    Examples
    --------
    >>> both = ConcatenatedEncoder(["english", lambda texts: [[1.0, len(t)] for t in texts]])
    >>> both.fit([]).transform(["a glass of wine"]).shape
    (1, 258)
    """

    kind = "ConcatenatedEncoder"

    def __init__(self, encoders: Sequence[Any], *, fade: float | None = None):
        self.encoders = encoders
        self.fade = fade

    def fit(self, X: Any = None, y: Any = None) -> "ConcatenatedEncoder":
        """Make every encoder ready; those that learn from text learn from X."""
        self.encoders_: list[Any] = [as_encoder(encoder) for encoder in self.encoders]
        for encoder in self.encoders_:
            if not (encoder.learns_from_text and hasattr(encoder, "n_sentences_")):
                encoder.fit(X if encoder.learns_from_text else [])
        return self

    @property
    def method_name(self) -> str:
        return " + ".join(as_encoder(encoder).method_name for encoder in self.encoders)

    @property
    def n_dims(self) -> int:
        return sum(encoder._n_features_out for encoder in self._ready())

    def _ready(self):
        if not hasattr(self, "encoders_"):
            self.fit([])
        return self.encoders_

    def _encode(self, texts: list[str], start: int) -> np.ndarray:
        with warnings.catch_warnings(action="ignore", category=EmptySentenceWarning):
            parts = [encoder.posterior(texts)[0] for encoder in self._ready()]
        parts = [unit_rows(np.asarray(part, np.float32)) for part in parts]
        if self.fade is not None:
            n_words = np.array([len(text.split()) for text in texts], np.float32)
            parts[-1] = parts[-1] * np.minimum(1, n_words / np.float32(self.fade))[:, None]
            return unit_rows(np.concatenate(parts, axis=1))
        return np.concatenate(parts, axis=1) / np.float32(np.sqrt(len(parts)))

    def state(self) -> State:
        """What `pacsent.save` writes: every encoder, as a part."""
        parts = {f"encoder{i}": encoder for i, encoder in enumerate(self._ready())}
        return State({"parameters": {"fade": self.fade}}, {"order": np.arange(len(parts))}, parts)

    @classmethod
    def from_state(cls, state: State) -> "ConcatenatedEncoder":
        """The inverse of `state`."""
        parts = [state.parts[f"encoder{i}"] for i in range(len(state.parts))]
        fade = state.config["parameters"]["fade"]
        if not (fade is None or (is_number(fade) and 0 < fade < np.inf)):
            raise ValueError(f"fade must be a positive number or None. Got {fade!r} instead")
        return cls(parts, fade=fade).fit([])


registry.register("model", "ExternalEncoder", ExternalEncoder.from_state)
registry.register("model", "ConcatenatedEncoder", ConcatenatedEncoder.from_state)


def as_encoder(encoder: Any) -> Any:
    """Return an encoder of pacsent for anything that turns texts into vectors.

    Parameters
    ----------
    encoder : object
        A method of pacsent, word vectors, the name or folder of a model, a URL with OpenAI's
        embeddings interface, an object with `encode` or `transform`, a function from a list of str
        to an array, a pair (texts, vectors) computed elsewhere, or a list of these.

    Examples
    --------
    >>> as_encoder(lambda texts: [[1.0, len(text)] for text in texts]).encode(["two"])
    array([[1., 3.]], dtype=float32)
    """
    if isinstance(encoder, SentenceVectorizer | AnyEncoder):
        return encoder
    if isinstance(encoder, WordVectors):
        return as_vectorizer(encoder)
    if isinstance(encoder, str | Path):
        if is_model_name(encoder):
            return as_encoder(load(encoder))
        if is_url(encoder):
            return ExternalEncoder(RemoteEncoder(str(encoder)))
        needs = f"{encoder} is a folder of sentence-transformers"
        library = import_optional("sentence_transformers", needs)
        return ExternalEncoder(library.SentenceTransformer(str(encoder)), name=Path(encoder).name)
    if is_stored(encoder):
        return ExternalEncoder(StoredVectors(*encoder), name="stored vectors")
    if isinstance(encoder, list | tuple):
        return ConcatenatedEncoder(list(encoder))
    _encode_function(encoder, type(encoder).__name__)
    return ExternalEncoder(encoder)


def as_search_encoder(encoder: Any) -> Any:
    """`as_encoder` for an index: word vectors that come with an encoder of sentences use both.

    The topic of long texts is in their words more than in a vector distilled on sentences, so
    SIF-sum is added, with less weight in texts of fewer than 50 words (benchmarks/encoders.py).

    >>> as_search_encoder("english").method_name
    'distilled + SIF-sum'
    """
    if isinstance(encoder, str | Path) and is_model_name(encoder):
        encoder = load(encoder)
    is_complete = isinstance(encoder, WordVectors) and encoder.sentences is not None
    if is_complete and encoder.counts is not None:
        both = [as_vectorizer(encoder), as_vectorizer(encoder, DEFAULT)]
        return ConcatenatedEncoder(both, fade=_FADE_WORDS)
    return as_encoder(encoder)


def is_stored(encoder: Any) -> bool:
    """Whether this is a pair of texts and their vectors, computed elsewhere."""
    return isinstance(encoder, tuple) and len(encoder) == 2 and getattr(encoder[1], "ndim", 0) == 2


def open_any(path: str | Path, encoder: Any = None, **options: Any) -> Any:
    """What `pacsent.load` opens, with the encoder it was made with; or an encoder at a URL."""
    if is_model_name(path):
        return load(path, encoder=encoder, **options)
    return as_encoder(path)


def _as_vectors(output: Any) -> np.ndarray:
    """What an encoder returned as an array of float32; TypeError if it is no array of numbers."""
    values = output.toarray() if hasattr(output, "toarray") else output
    if np.ma.isMaskedArray(values):
        values = np.ma.filled(values.astype(np.float32), np.nan)  # not a number: rejected below
    vectors = np.asarray(values)
    if vectors.dtype.kind == "O":
        is_number_array = all(isinstance(value, Real) for value in vectors.ravel())
    else:
        is_number_array = vectors.dtype.kind in "biuf"
    if not is_number_array:  # strings would be read as numbers, complex numbers cut to real ones
        raise TypeError
    return vectors.astype(np.float32)


def _encode_function(encoder, name):
    """The function of an encoder from a list of str to vectors; TypeError if there is none."""
    if not isinstance(encoder, type | str):
        for function in (getattr(encoder, "encode", 0), getattr(encoder, "transform", 0), encoder):
            if callable(function):
                return function
    raise TypeError(
        "encoder must be an object with encode or transform, a function from texts to vectors, a "
        f"URL, or a model of pacsent. Got {name} instead. Pass 'english', for example."
    )
