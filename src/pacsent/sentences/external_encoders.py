"""Encoders of other programs, and several encoders side by side; `as_encoder` adapts them all."""

import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin

from pacsent import registry
from pacsent.arrays import unit_rows
from pacsent.bounds.checks import is_number
from pacsent.optional import import_optional
from pacsent.sentences.encoder import Encoder, EncoderMixin, Posteriors
from pacsent.sentences.encoding import EmptySentenceWarning, iter_batches
from pacsent.sentences.methods import DEFAULT, as_vectorizer
from pacsent.sentences.probe import MIN_PROBE_COSINE, PROBE, probe_cosines
from pacsent.sentences.remote_encoder import RemoteEncoder
from pacsent.sentences.sentence_vectorizer import SentenceVectorizer
from pacsent.sentences.vector_sources import (
    ForeignSource,
    StoredVectors,
    VectorSource,
    as_float_array,
)
from pacsent.storage import State, checked_tensor, is_model_name, is_url, load
from pacsent.text.texts import as_sentences, as_texts
from pacsent.words.vectors import WordVectors

# Words of a text below which SIF-sum counts less beside a distilled encoder. Chosen on the training
# part of 20news and the dev part of STS-B.
_SHORT_TEXT_WORDS = 50

_BATCH_TEXTS = 4096  # passed to the encoder at a time


class BaseEncoder(ClassNamePrefixFeaturesOutMixin, EncoderMixin, BaseEstimator, ABC):
    """Base of encoders that are no methods of pacsent; a class adds `_encode` and `n_dims`."""

    word_vectors = None
    is_fitted = True
    on_empty = "warn"

    @property
    @abstractmethod
    def n_dims(self) -> int:
        """Numbers of a vector."""

    @property
    @abstractmethod
    def method_name(self) -> str:
        """Name in messages."""

    @abstractmethod
    def _encode(self, texts: list[str], start: int) -> np.ndarray:
        """Vectors of a batch, the first text of which is row `start`."""

    def posterior(self, X: Iterable[str]) -> Posteriors:
        """The vectors, (n, n_dims), float32, and nan for their variances."""
        texts = as_texts(X)
        vectors = None
        start = 0
        for part, _ in self.stream(texts):
            if vectors is None:  # batches are written into one array, which is not needed twice
                vectors = np.empty((len(texts), part.shape[1]), part.dtype)
            if part.shape[1] != vectors.shape[1]:
                raise ValueError(f"{self.method_name} must give vectors of one size. Got several.")
            vectors[start : start + len(part)] = part
            start += len(part)
        if vectors is None:
            vectors = np.zeros((0, self.n_dims), np.float32)
        return vectors, np.full(len(texts), np.nan)

    def stream(self, X: Iterable[str]) -> Iterator[Posteriors]:
        """`posterior` in batches; sets `n_sentences_` and `n_empty_` (vectors of zeros)."""
        n_texts = 0
        empty_rows: list[int] = []
        for texts in iter_batches(as_sentences(X), _BATCH_TEXTS):
            vectors = self._encode(as_texts(texts), n_texts)
            is_empty = ~vectors.any(axis=1)
            empty_rows += (np.flatnonzero(is_empty) + n_texts).tolist()
            n_texts += len(texts)
            yield vectors, np.full(len(texts), np.nan)

        self.n_sentences_ = n_texts
        self.n_empty_ = len(empty_rows)
        self.coverage_ = None
        # Texts without a vector are expected where every part ignores them.
        if empty_rows and any(part.on_empty != "ignore" for part in self.parts):
            rows = ", ".join(map(str, empty_rows[:3]))
            if len(empty_rows) > 3:
                rows += ", ..."
            warnings.warn(
                f"{len(empty_rows):,} of {n_texts:,} texts have no vector (row {rows}, counted "
                "from 0).",
                EmptySentenceWarning,
                stacklevel=3,
            )

    def __sklearn_is_fitted__(self) -> bool:
        return True


class ExternalEncoder(BaseEncoder):
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
        The vectors of ten fixed sentences, None before they are needed. A saved model keeps them
        and refuses an encoder that gives others.

    Examples
    --------
    >>> encoder = ExternalEncoder(lambda texts: [[len(text), 1.0] for text in texts], name="length")
    >>> encoder.encode(["four", "sixsix"])
    array([[4., 1.],
           [6., 1.]], dtype=float32)
    """

    kind = "ExternalEncoder"
    probe_ = cast(np.ndarray | None, None)

    def __init__(self, encoder: Any, *, name: str | None = None):
        self.encoder = encoder
        self.name = name

    @property
    def _source(self) -> VectorSource:
        if isinstance(self.encoder, VectorSource):
            return self.encoder
        return ForeignSource(self.encoder)

    @property
    def method_name(self) -> str:
        return str(self.name or self._source.name)

    @property
    def n_dims(self) -> int:
        return self._probe().shape[1]

    def fit(self, X: Any = None, y: Any = None) -> "ExternalEncoder":
        """Encode the ten sentences of the probe, once; the encoder learns nothing.

        Parameters
        ----------
        X, y : ignored

        Returns
        -------
        self
        """
        self._probe()
        return self

    def _probe(self) -> np.ndarray:
        if self.probe_ is None:
            self.probe_ = self._checked(self._source.probe(), list(PROBE), 0)
        return self.probe_

    def __sklearn_clone__(self) -> "ExternalEncoder":
        return self  # it learns nothing, and may be too large to copy

    def _encode(self, texts: list[str], start: int) -> np.ndarray:
        return self._checked(self._source.encode(texts), texts, start)

    def _checked(self, output: Any, texts: list[str], start: int) -> np.ndarray:
        """The vectors that the source gave for some texts, if they are one for each."""
        try:
            vectors = as_float_array(output)
        except (ValueError, TypeError, OverflowError):
            vectors = np.zeros(0, np.float32)

        if vectors.ndim != 2 or len(vectors) != len(texts) or not vectors.shape[1]:
            raise ValueError(
                f"{self.method_name} must give an array of shape (n_texts, n_dims). Got "
                f"{getattr(output, 'shape', None) or type(output).__name__} for {len(texts):,} "
                "texts instead. Check what it returns for a list of str."
            )

        is_finite = np.isfinite(vectors).all(axis=1)  # (n_texts,)
        if not is_finite.all():
            wrong = np.flatnonzero(~is_finite)
            raise ValueError(
                f"{self.method_name} must give finite numbers. Got nan or inf for {wrong.size:,} "
                f"of {len(texts):,} texts (first: row {start + int(wrong[0])}, counted from 0: "
                f"{texts[wrong[0]][:40]!r}). Leave such texts out, or replace their vectors."
            )
        return vectors

    def probe_vectors(self) -> np.ndarray:
        """Encode ten fixed sentences, by which encoders are distinguished.

        Returns
        -------
        array of float32, shape (10, n_dims)
            Vectors computed now: those of a server never come from its cache.
        """
        return self._checked(self._source.current_probe(), list(PROBE), 0)

    def accept_probe(self, vectors: np.ndarray) -> None:
        """Compare the vectors of the ten sentences with those in the cache of a server.

        Parameters
        ----------
        vectors : array of float32, shape (10, n_dims)
            Vectors of the probe, as `probe_vectors` returned them.
        """
        self._source.accept_probe(vectors)

    def state(self) -> State:
        """The state that `pacsent.save` writes: its name and the probe.

        Returns
        -------
        State
        """
        return State({"name": self.method_name}, {"probe": self._probe()})

    @classmethod
    def from_state(cls, state: State) -> "ExternalEncoder":
        """Inverse of `state`, without the encoder, which must be attached.

        A URL among the names is not contacted: whoever wrote the folder would receive the texts.

        Parameters
        ----------
        state : State
            Configuration and tensors, as `state` returned them.

        Returns
        -------
        ExternalEncoder
            The encoder, to be attached with `attach` before it encodes.
        """
        name = str(state.config.get("name"))
        encoder = cls(_MissingSource(name), name=name)
        encoder.probe_ = checked_tensor(state.tensors, "probe", np.float32, (len(PROBE), None))
        return encoder

    def attach(self, encoder: Any) -> "ExternalEncoder":
        """Use this encoder, if it gives the vectors of the one that was saved.

        Parameters
        ----------
        encoder : encoder
            Anything that `as_encoder` takes.

        Returns
        -------
        self
        """
        attached = as_encoder(encoder)
        expected = self._probe()
        probe = attached.probe_vectors()
        if probe.shape != expected.shape:
            raise ValueError(
                f"encoder must give vectors of {expected.shape[1]} numbers, as "
                f"{self.method_name} did when this model was made. Got {probe.shape[1]} instead. "
                "Pass that encoder."
            )

        cosines = probe_cosines(probe, expected)
        if cosines.min() < MIN_PROBE_COSINE:
            raise ValueError(
                f"encoder must be {self.method_name}, which this model was made with. Got another "
                f"instead: the cosine of its vectors with those is {cosines.min():.3f} for "
                f"{PROBE[int(cosines.argmin())]!r}. Pass that encoder."
            )

        attached.accept_probe(probe)
        self.encoder = attached
        return self


class _MissingSource(VectorSource):
    """Stands for an encoder that a saved model was made with, until it is attached."""

    def __init__(self, name: str):
        self._name = name

    @property
    def name(self) -> str:
        return self._name

    def encode(self, texts: Sequence[str]) -> np.ndarray:
        """Raise ValueError."""
        raise ValueError(
            f"This model was made with the encoder {self._name}, which is not saved with it. Open "
            "it with that encoder: load(path, encoder=...), or --encoder PATH|URL in the shell."
        )


class ConcatenatedEncoder(BaseEncoder):
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
    _parts = cast(tuple[Encoder, ...] | None, None)
    _parts_are_fitted = False

    def __init__(self, encoders: Sequence[Any], *, fade: float | None = None):
        self.encoders = encoders
        self.fade = fade

    @property
    def parts(self) -> tuple[Encoder, ...]:
        """The encoders whose vectors are concatenated."""
        if self._parts is None:
            self._parts = tuple(as_encoder(encoder) for encoder in self.encoders)
        return self._parts

    def fit(self, X: Any = None, y: Any = None) -> "ConcatenatedEncoder":
        """Make every encoder ready; those that learn from text learn from X."""
        self._parts = tuple(as_encoder(encoder) for encoder in self.encoders)
        for encoder in self._parts:
            if not encoder.learns_from_text:
                encoder.fit([])
            elif not encoder.is_fitted:
                encoder.fit(X)
        self._parts_are_fitted = True
        return self

    def _fitted_parts(self) -> tuple[Encoder, ...]:
        if not self._parts_are_fitted:
            self.fit([])
        return self.parts

    @property
    def method_name(self) -> str:
        return " + ".join(encoder.method_name for encoder in self.parts)

    @property
    def n_dims(self) -> int:
        return sum(encoder.n_dims for encoder in self._fitted_parts())

    def _encode(self, texts: list[str], start: int) -> np.ndarray:
        with warnings.catch_warnings(action="ignore", category=EmptySentenceWarning):
            vectors = [encoder.encode(texts) for encoder in self._fitted_parts()]
        blocks = [unit_rows(np.asarray(part, np.float32)) for part in vectors]
        if self.fade is None:
            return np.concatenate(blocks, axis=1) / np.float32(np.sqrt(len(blocks)))

        n_words = np.array([len(text.split()) for text in texts], np.float32)
        weights = np.minimum(1, n_words / np.float32(self.fade))  # (n_texts,)
        blocks[-1] = blocks[-1] * weights[:, None]
        return unit_rows(np.concatenate(blocks, axis=1))

    def state(self) -> State:
        """The state that `pacsent.save` writes: every encoder, as a part."""
        parts = {f"encoder{i}": encoder for i, encoder in enumerate(self._fitted_parts())}
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


def as_encoder(encoder: Any) -> Encoder:
    """Return an encoder of pacsent for anything that turns texts into vectors.

    Parameters
    ----------
    encoder : object
        A method of pacsent, word vectors, the name or folder of a model, a URL with OpenAI's
        embeddings interface, an object with `encode` or `transform`, a function from a list of str
        to an array, a pair (texts, vectors) computed elsewhere, or a list of these.

    Returns
    -------
    encoder : Encoder
        With everything that `pacsent.sentences.encoder.Encoder` lists; itself if it is one.

    Examples
    --------
    >>> as_encoder(lambda texts: [[1.0, len(text)] for text in texts]).encode(["two"])
    array([[1., 3.]], dtype=float32)
    """
    if isinstance(encoder, SentenceVectorizer | BaseEncoder):
        return encoder
    if isinstance(encoder, WordVectors):
        return as_vectorizer(encoder)
    if isinstance(encoder, str | Path):
        return _open_encoder(encoder)
    if is_stored(encoder):
        return ExternalEncoder(StoredVectors(*encoder), name="stored vectors")
    if isinstance(encoder, list | tuple):
        return ConcatenatedEncoder(list(encoder))
    if isinstance(encoder, VectorSource):
        return ExternalEncoder(encoder)
    ForeignSource(encoder)  # raises TypeError unless it is an encoder
    return ExternalEncoder(encoder)


def _open_encoder(source: str | Path) -> Encoder:
    """The encoder behind a name, a folder or a URL."""
    if is_model_name(source):
        return as_encoder(load(source))
    if is_url(source):
        return ExternalEncoder(RemoteEncoder(str(source)))
    needs = f"{source} is a folder of sentence-transformers"
    library = import_optional("sentence_transformers", needs)
    return ExternalEncoder(library.SentenceTransformer(str(source)), name=Path(source).name)


def as_search_encoder(encoder: Any) -> Encoder:
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
        return ConcatenatedEncoder(both, fade=_SHORT_TEXT_WORDS)
    return as_encoder(encoder)


def is_stored(encoder: Any) -> bool:
    """True for a pair of texts and their vectors, computed elsewhere."""
    return isinstance(encoder, tuple) and len(encoder) == 2 and getattr(encoder[1], "ndim", 0) == 2


def open_any(path: str | Path, encoder: Any = None, **options: Any) -> Any:
    """Open a model with the encoder that it was made with; or an encoder at a URL."""
    if is_model_name(path):
        return load(path, encoder=encoder, **options)
    return as_encoder(path)
