"""What is done to the texts of a shard: `Embed` and `Predict`.

A job is a few settings that travel to other processes and machines. `ready` opens the model there,
memory-mapped and once; what it gives turns an Arrow column of texts into an `Answer`.
"""

import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple

import numpy as np

from pacsent import loading, storage
from pacsent.encoders.sentence_vectorizer import SentenceVectorizer
from pacsent.scale.table_batches import pyarrow
from pacsent.seals import digest_of_json
from pacsent.text.encoded import Encoded

UNIT = 1 << 13  # texts worked on at once
_GPU_UNIT = 1 << 16
_ONE_WORD = Encoded(np.zeros(1, np.int32), np.array([0, 1]), np.zeros(1, np.int64))


class Answer(NamedTuple):
    """What a job says about some texts."""

    means: np.ndarray | None  # (n, n_dims) float32, for vectors
    columns: dict[str, Any]  # further columns, pyarrow arrays
    n_known: int
    n_unknown: int
    n_empty: int


def text_bytes(texts: Any) -> tuple[np.ndarray, np.ndarray]:
    """The bytes of an Arrow column of texts, and where each text begins and ends; not copied.

    >>> import pyarrow as pa
    >>> data, bounds = text_bytes(pa.array(["ab", "", "c"]).slice(1))
    >>> bytes(data[bounds[0] : bounds[-1]]), bounds.tolist()
    (b'c', [2, 2, 3])
    """
    pa = pyarrow()
    if not (pa.types.is_string(texts.type) or pa.types.is_large_string(texts.type)):
        texts = texts.cast(pa.large_string())
    if texts.null_count:
        texts = texts.fill_null("")
    wide = pa.types.is_large_string(texts.type)
    _, places, data = texts.buffers()
    if places is None or len(texts) == 0:
        return np.zeros(0, np.uint8), np.zeros(len(texts) + 1, np.int64)
    bounds = np.frombuffer(places, np.int64 if wide else np.int32)
    bounds = bounds[texts.offset : texts.offset + len(texts) + 1].astype(np.int64)
    if data is None:
        return np.zeros(0, np.uint8), bounds
    return np.frombuffer(data, np.uint8), bounds


@dataclass(frozen=True)
class Embed:
    """Texts to vectors.

    Parameters
    ----------
    model : str
        Folder of a fitted method or of word vectors, or "english".
    method : str or None
        For word vectors: a method that learns nothing from text; None for SIF-sum.
    unknown : {"drop", "nearest"} or None
    params : dict
        Parameters of the method that are set after it was opened.

    Examples
    --------
    >>> import pyarrow as pa
    >>> answer = Embed("english").ready()(pa.array(["a glass of wine"]))
    >>> answer.n_known
    4
    """

    model: str
    method: str | None = None
    unknown: str | None = None
    params: dict = field(default_factory=dict)

    command = "embed"

    def settings(self) -> dict:
        """What the vectors depend on, for the manifest."""
        return {**asdict(self), "model_digest": _model_digest(self.model), "command": self.command}

    def names(self) -> list[str]:
        return ["mean", "variance"]

    @property
    def on_gpu(self) -> bool:
        return self.params.get("device", "cpu") != "cpu"

    @property
    def unit(self) -> int:
        return _GPU_UNIT if self.on_gpu else UNIT

    def vectorizer(self) -> Any:
        """The method, ready for texts."""
        from pacsent.encoders.methods import check_gives_vectors, ready

        opened = loading.load(self.model, unknown=self.unknown)
        check_gives_vectors(opened, self.model)
        if not hasattr(opened, "stream"):
            opened = ready(self.method or "SIF-sum", opened)
        elif self.method is not None:
            raise ValueError("method is for word vectors. The model holds a fitted method.")
        given = {"on_empty": "ignore", "n_jobs": 1, "batch_size": self.unit, **self.params}
        known = opened.get_params(deep=False)
        for name in self.params:
            if name not in known:
                raise ValueError(f"{opened.method_name} takes no {name}. Leave it out.")
        opened.set_params(**{name: value for name, value in given.items() if name in known})
        opened._validate_params()
        return opened

    def ready(self) -> Callable:
        """The function from an Arrow column of texts to an `Answer`; threads may share it."""
        pa = pyarrow()
        vectorizer = self.vectorizer()
        vocabulary = vectorizer.word_vectors.vocabulary
        posterior = _posterior_of(vectorizer)

        def answer(texts) -> Answer:
            encoded = vocabulary.encode_bytes(*text_bytes(texts))
            means, variances = posterior(encoded)
            empty = np.isnan(variances)
            columns = {"variance": pa.array(variances, pa.float64(), mask=empty)}
            n_unknown = int(encoded.n_unknown.sum())
            means = means.astype(np.float32, copy=False)
            return Answer(means, columns, encoded.ids.size, n_unknown, int(empty.sum()))

        return answer

    def columns(self) -> dict:
        """Types of the further columns."""
        return {"variance": pyarrow().float64()}

    def check(self) -> None:
        """Refuse, before any file is read, a model or parameters that cannot be used."""
        self.vectorizer()


def _posterior_of(vectorizer) -> Callable:
    """`vectorizer.posterior` for an Encoded, with what all batches share done once."""
    vectorizer.posterior(_ONE_WORD)  # compiled and checked
    reports = type(vectorizer)._batches is not SentenceVectorizer._batches
    if reports or vectorizer.on_empty == "error":
        return vectorizer.posterior
    prepared = vectorizer._prepared()

    def posterior(encoded):
        means, variances = prepared(encoded)
        empty = vectorizer._is_empty(encoded)
        if empty.any():
            means[empty], variances[empty] = 0, np.nan
        if not np.isfinite(means.sum()):
            return vectorizer.posterior(encoded)  # says what is wrong
        return means, variances

    return posterior


@dataclass(frozen=True)
class Predict:
    """Texts to classes.

    Parameters
    ----------
    model : str
        Folder of a classifier.
    error, delta : float
        What label sets and answers may get wrong, and the chance that this promise fails.

    Examples
    --------
    >>> Predict("model/", error=0.1).names()
    ['label', 'probability', 'set', 'abstained']
    """

    model: str
    error: float = 0.05
    delta: float = 0.05

    command = "classify predict"
    unit = 1 << 12
    on_gpu = False

    def settings(self) -> dict:
        """What the answers depend on, for the manifest."""
        return {**asdict(self), "model_digest": _model_digest(self.model), "command": self.command}

    def names(self) -> list[str]:
        return ["label", "probability", "set", "abstained"]

    def classifier(self) -> Any:
        """The classifier, opened."""
        found = loading.load(self.model)
        if not hasattr(found, "predict_proba"):
            raise ValueError(
                f"{self.model} must hold a classifier. It holds {type(found).__name__} instead. "
                "Train one: pacsent classify train."
            )
        return found.set_params(n_jobs=1)

    def ready(self) -> Callable:
        """The function from an Arrow column of texts to an `Answer`; threads may share it."""
        from pacsent.classify import AnswerRule

        pa = pyarrow()
        classifier = self.classifier()
        answering = AnswerRule(classifier, error=self.error, delta=self.delta)
        names = np.array([str(name) for name in classifier.classes_], dtype=object)
        types = self.columns()

        def answer(texts) -> Answer:
            strings = texts.to_pylist()
            found = answering(classifier.decision_values(strings))
            sets = silent = None
            if found.inside is not None:
                sets = [names[row].tolist() for row in found.inside]
            if found.abstained is not None:
                silent = found.abstained
            columns = {
                "label": pa.array(names[found.best], pa.string()),
                "probability": pa.array(found.probability, pa.float64()),
                "set": pa.array(sets or [None] * len(strings), types["set"]),
                "abstained": pa.array([None] * len(strings) if silent is None else silent,
                                      pa.bool_()),
            }  # fmt: skip
            n_empty = sum(not one.strip() for one in strings)
            return Answer(None, columns, 0, 0, n_empty)

        return answer

    def columns(self) -> dict:
        """Types of the further columns."""
        pa = pyarrow()
        return {"label": pa.string(), "probability": pa.float64(),
                "set": pa.list_(pa.string()), "abstained": pa.bool_()}  # fmt: skip

    def check(self) -> None:
        """Refuse a model that is no classifier, before any file; say what cannot be promised."""
        from pacsent.classify import AnswerRule

        answering = AnswerRule(self.classifier(), error=self.error, delta=self.delta)
        for why in filter(None, (answering.no_sets, answering.no_answers)):
            warnings.warn(why, UserWarning, stacklevel=3)


def _model_digest(model: str) -> str:
    """Of the folder's description, which holds the digests of its parts."""
    return digest_of_json(storage.read_config(storage.place(model)))
