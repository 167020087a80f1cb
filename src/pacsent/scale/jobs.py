"""What is computed from the texts of a shard: `Embed` and `Predict`.

A job is a few settings that are sent to other processes and machines. `ready` opens the model there
once, memory-mapped, and returns a function from texts to an `Answer`.
"""

import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from pacsent import storage
from pacsent.optional import import_optional
from pacsent.storage.checksums import checksum_of_json
from pacsent.text.encoded import Encoded

UNIT = 1 << 13  # texts worked on at once
_ONE_WORD = Encoded(np.zeros(1, np.int32), np.array([0, 1]), np.zeros(1, np.int64))


class Answer(NamedTuple):
    """The results of some texts."""

    columns: dict[str, Any]  # of the output: lists, arrays, an array of shape (n, n_dims)
    n_known: int
    n_unknown: int
    n_empty: int


def pyarrow() -> Any:
    """The package, or one line that says how to get it."""
    return import_optional("pyarrow", "Many files are read with pyarrow", "scale")


def text_bytes(texts: Any) -> tuple[np.ndarray, np.ndarray]:
    """The bytes of a list or an Arrow column of texts, and where each text begins and ends.

    An Arrow column of strings is not copied.

    >>> import pyarrow as pa
    >>> data, bounds = text_bytes(pa.array(["ab", "", "c"]).slice(1))
    >>> bytes(data[bounds[0] : bounds[-1]]), bounds.tolist()
    (b'c', [2, 2, 3])
    """
    pa = pyarrow()
    if isinstance(texts, list):
        texts = pa.array(texts, pa.large_string())
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
    """From texts to vectors.

    `model` is the folder of a fitted method or of word vectors, "english", or an encoder of another
    program: its URL, or a folder of sentence-transformers. For word vectors,
    `method` is one that learns nothing from text; None for the encoder of sentences they come with,
    or SIF-sum. `params` are parameters of the method that are set after it was opened. `encoder` is
    the URL or folder of the encoder that a model was made with, if it is one of another program.

    Examples
    --------
    >>> import pyarrow as pa
    >>> answer = Embed("english").ready()(pa.array(["a glass of wine"]))
    >>> answer.n_known
    4
    """

    model: str
    method: str | None = None
    params: dict = field(default_factory=dict)
    encoder: str | None = None

    command = "embed"
    unit = UNIT

    def settings(self) -> dict:
        """The settings that the vectors depend on, for the manifest."""
        return _settings(self)

    def names(self) -> list[str]:
        return ["mean", "variance"]

    def vectorizer(self) -> Any:
        """The fitted method."""
        from pacsent.encoders.external_encoders import open_any
        from pacsent.encoders.methods import as_vectorizer

        opened = open_any(self.model, self.encoder)
        if self.method is not None and hasattr(opened, "stream"):
            raise ValueError("method is for word vectors. The model holds a fitted method.")
        opened = as_vectorizer(opened, self.method, source=self.model)
        given = {"on_empty": "ignore", "n_jobs": 1, "batch_size": self.unit, **self.params}
        known = opened.get_params(deep=False)
        for name in self.params:
            if name not in known:
                raise ValueError(f"{opened.method_name} takes no {name}. Leave it out.")
        opened.set_params(**{name: value for name, value in given.items() if name in known})
        if hasattr(opened, "word_vectors"):
            opened._validate_params()
        return opened

    def ready(self) -> Callable:
        """The function from a list or an Arrow column of texts to an `Answer`, thread-safe."""
        vectorizer = self.vectorizer()
        if not hasattr(vectorizer, "word_vectors"):
            return partial(_answer_of_another, vectorizer)
        vocabulary = vectorizer.word_vectors.vocabulary
        posterior = _posterior_of(vectorizer)

        def answer(texts) -> Answer:
            encoded = vocabulary.encode_bytes(*text_bytes(texts))
            means, variances = posterior(encoded)
            columns = {"mean": means.astype(np.float32, copy=False), "variance": variances}
            n_unknown, n_empty = int(encoded.n_unknown.sum()), int(np.isnan(variances).sum())
            return Answer(columns, encoded.ids.size, n_unknown, n_empty)

        return answer

    def without(self, found: Answer, bad: np.ndarray) -> Answer:
        """The results with none for bad rows: an empty text has mean 0 and variance nan already."""
        return found

    def check(self) -> None:
        """Refuse, before any file is read, a model or parameters that cannot be used."""
        self.vectorizer()


def _answer_of_another(encoder, texts) -> Answer:
    """The answer of an encoder of another program, which does not say what words it knows."""
    means, variances = encoder.posterior(texts if isinstance(texts, list) else texts.to_pylist())
    return Answer({"mean": means, "variance": variances}, 0, 0, int((~means.any(axis=1)).sum()))


def _posterior_of(vectorizer) -> Callable:
    """`vectorizer.posterior` for encoded texts; closed forms do what all batches share once."""
    vectorizer.posterior(_ONE_WORD)  # compiled and checked
    if "n_negatives" in vectorizer.get_params() or vectorizer.on_empty == "error":
        return vectorizer.posterior  # it reports texts that did not converge, or are empty
    solve = vectorizer.prepared()

    def posterior(encoded):
        means, variances = solve(encoded)
        if not np.isfinite(means.sum()):
            return vectorizer.posterior(encoded)  # raises an error that names the word
        return means, variances

    return posterior


@dataclass(frozen=True)
class Predict:
    """From texts to classes.

    `model` is the folder of a classifier. `error` is how often label sets may miss the right class
    and answers may be wrong; None chooses, as `guarantees.AnswerRule` does. `delta` is the chance
    that this guarantee fails. `encoder` is as of `Embed`.

    Examples
    --------
    >>> Predict("model/", error=0.1).names()
    ['label', 'probability', 'set', 'abstained']
    """

    model: str
    error: float | None = None
    delta: float = 0.05
    encoder: str | None = None

    command = "classify predict"
    unit = 1 << 12

    def settings(self) -> dict:
        """The settings that the answers depend on, for the manifest."""
        return _settings(self)

    def names(self) -> list[str]:
        return ["label", "probability", "set", "abstained"]

    def _opened(self) -> tuple[Any, Any]:
        """The classifier, and the rule for its answers."""
        from pacsent.guarantees import AnswerRule

        found = storage.load(self.model, encoder=self.encoder)
        if not hasattr(found, "predict_proba"):
            raise ValueError(
                f"{self.model} must hold a classifier. It holds {type(found).__name__} instead. "
                "Train one: pacsent classify train."
            )
        getattr(found, "estimator_", found).set_params(n_jobs=1)
        return found, AnswerRule(found, error=self.error, delta=self.delta)

    def ready(self) -> Callable:
        """The function from a list or an Arrow column of texts to an `Answer`, thread-safe."""
        pa = pyarrow()
        classifier, rule = self._opened()
        names = np.array([str(name) for name in classifier.classes_], dtype=object)

        def answer(texts) -> Answer:
            strings = texts if isinstance(texts, list) else texts.to_pylist()
            found = rule.of_log_proba(classifier.predict_log_proba(strings))
            missing = [None] * len(strings)
            sets = missing if found.inside is None else [names[row] for row in found.inside]
            abstained = missing if found.abstained is None else found.abstained
            columns = {
                "label": pa.array(names[found.best], pa.string()),
                "probability": found.probability,
                "set": pa.array(sets, pa.list_(pa.string())),
                "abstained": pa.array(abstained, pa.bool_()),
            }
            n_empty = sum(not one.strip() for one in strings)
            return Answer(columns, 0, 0, n_empty)

        return answer

    def without(self, found: Answer, bad: np.ndarray) -> Answer:
        """The results with null in every column for bad rows."""
        pa = pyarrow()
        rows = pa.array(np.arange(bad.size), mask=bad)
        columns = {name: pa.array(column).take(rows) for name, column in found.columns.items()}
        return found._replace(columns=columns)

    def check(self) -> None:
        """Refuse a model that is no classifier; warn of guarantees that it cannot give."""
        _, rule = self._opened()
        for why in filter(None, (rule.no_sets, rule.no_answers)):
            warnings.warn(why, UserWarning, stacklevel=3)


def _settings(job: Embed | Predict) -> dict:
    """The fields of a job, but for the encoder: one that gives other vectors is refused."""
    fields = {name: value for name, value in asdict(job).items() if name != "encoder"}
    return {**fields, "model_digest": _model_digest(job.model), "command": job.command}


def _model_digest(model: str) -> str:
    """The checksum of the folder's description, which holds the checksums of its parts."""
    if not storage.is_model_name(model):
        return checksum_of_json({"encoder": model})
    return checksum_of_json(storage.read_config(storage.place(model)))
