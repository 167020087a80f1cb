"""The work on the texts of a shard: `Embed` and `Predict`.

A job is a few settings that are sent to other processes and machines. `load` opens the model there,
memory-mapped, and returns a function of texts and a mask of bad rows (empty texts) to a `Batch`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from pacsent import storage
from pacsent.storage.checksums import checksum_of_json
from pacsent.text.encoded import Encoded
from pacsent.text.ngrams import is_empty
from pacsent.text.result_files import TypedColumn
from pacsent.text.tables import as_list
from pacsent.words.text_encoding import encode_bytes
from pacsent.words.word_table import concat_utf8

if TYPE_CHECKING:
    from pacsent.predict.abstaining import Answered, AnswerRule

_ONE_WORD = Encoded(np.zeros(1, np.int32), np.array([0, 1]), np.zeros(1, np.int64))


class Scored(NamedTuple):
    """Texts and their log-probabilities, which are compared with the calibration set."""

    texts: list[str]
    log_proba: np.ndarray  # (n, n_classes)


class Batch(NamedTuple):
    """The results of some texts."""

    columns: dict[str, Any]  # of the output: lists, arrays, an array of shape (n, n_dims)
    n_known: int = 0
    n_unknown: int = 0
    n_empty: int = 0
    n_answered: int = 0
    n_fitted: int = 0  # texts that the model was fitted on
    scored: Scored | None = None


class _Job:
    """A model, an encoder and the settings that the manifest records: the base of both jobs."""

    model: str
    encoder: str | None
    command: str

    def settings(self) -> dict:
        """Return what the results depend on.

        Without the encoder, as one with other vectors is rejected anyway.
        """
        fields = dict(vars(self))
        fields.pop("encoder", None)
        fields["model"] = storage.public_url(self.model)

        description = {"encoder": fields["model"]}
        if storage.is_model_name(self.model):
            # The description of a model contains the checksums of its parts.
            description = storage.read_config(storage.place(self.model))
        fields["model_digest"] = checksum_of_json(description)
        fields["command"] = self.command
        return fields

    def caveats(self, opened: Any) -> list[str]:
        """Return reasons why guarantees are missing; `opened` is what `open` returned."""
        return []


@dataclass(frozen=True)
class Embed(_Job):
    """From texts to vectors.

    Parameters
    ----------
    model : str
        The folder of a fitted method or of word vectors, "english", or an external encoder: its URL
        or a folder of sentence-transformers.
    method : str, optional
        For word vectors, one that learns nothing from text; None is the sentence encoder that they
        come with, or SIF-sum.
    encoder : str, optional
        The external encoder that a model was made with.
    """

    model: str
    method: str | None = None
    encoder: str | None = None

    command = "embed"
    batch_size = 1 << 13  # texts

    def open(self) -> Any:
        """Open the model.

        Returns
        -------
        encoder : encoder
            The fitted method, its parameters set and checked.
        """
        from pacsent.sentences.encoder import EncoderMixin
        from pacsent.sentences.external_encoders import open_any
        from pacsent.sentences.methods import as_vectorizer

        opened = open_any(self.model, self.encoder)
        if self.method is not None and isinstance(opened, EncoderMixin):
            raise ValueError("method is for word vectors. The model holds a fitted method.")
        encoder = as_vectorizer(opened, self.method, source=self.model)
        return encoder.set_known_params(on_empty="ignore", n_jobs=1, batch_size=self.batch_size)

    def load(self, encoder: Any = None) -> Callable[..., Batch]:
        """Return a thread-safe function from a list or an Arrow column of texts to a `Batch`.

        Parameters
        ----------
        encoder : encoder, optional
            The result of `open`, if that was called before.

        Returns
        -------
        embed : callable
        """
        encoder = encoder or self.open()
        if encoder.word_vectors is None:
            return partial(_embed_externally, encoder)

        vocabulary = encoder.word_vectors.vocabulary
        encoder.posterior(_ONE_WORD)  # compiled and checked
        posterior = encoder.posterior
        # Closed forms compute once what all batches share. Methods that minimise report texts that
        # did not converge, and on_empty="error" raises: both need `posterior` itself.
        if "n_negatives" not in encoder.get_params() and encoder.on_empty != "error":
            posterior = encoder.prepared()

        def embed(texts: Any, is_bad: Any = None) -> Batch:
            encoded = encode_bytes(vocabulary, *text_bytes(texts))
            means, variances = posterior(encoded)
            if not np.isfinite(means.sum()):
                encoder.posterior(encoded)  # warns that the method diverged
            return Batch(
                {"mean": means.astype(np.float32, copy=False), "variance": variances},
                n_known=encoded.ids.size,
                n_unknown=int(encoded.n_unknown.sum()),
                n_empty=int(np.isnan(variances).sum()),  # empty texts have mean 0, variance nan
            )

        return embed


def _embed_externally(encoder: Any, texts: Any, is_bad: Any = None) -> Batch:
    strings = texts if isinstance(texts, list) else texts.to_pylist()
    means, variances = encoder.posterior(strings)
    is_zero = ~means.any(axis=1)  # (n,)
    return Batch({"mean": means, "variance": variances}, n_empty=int(is_zero.sum()))


def _text_classifier(opened: Any, source: str) -> Any:
    """The text classifier that was opened, or that a certified one calls."""
    from pacsent.classify import TextClassifier
    from pacsent.predict import CertifiedClassifier

    if isinstance(opened, CertifiedClassifier):
        return opened.estimator_
    if isinstance(opened, TextClassifier):
        return opened
    raise ValueError(
        f"{source} must be a classifier. Got {type(opened).__name__} instead. Train one: "
        "pacsent train DATA -o MODEL."
    )


@dataclass(frozen=True)
class Predict(_Job):
    """From texts to classes.

    Parameters
    ----------
    model : str
        The folder of a classifier.
    error : float, optional
        The rate at which prediction sets may miss the true class, and answers may be wrong; None is
        chosen by `AnswerRule`.
    delta : float, optional
        The probability that this guarantee fails; None is that of the classifier.
    encoder : str, optional
        As of `Embed`.
    """

    model: str
    error: float | None = None
    delta: float | None = None
    encoder: str | None = None

    command = "predict"
    batch_size = 1 << 12  # texts

    def open(self) -> tuple[Any, Any]:
        """Open the model.

        Returns
        -------
        classifier : TextClassifier or CertifiedClassifier
        rule : AnswerRule or None
            The rule for its answers; None if it is multi-label.
        """
        from pacsent.predict.abstaining import AnswerRule

        classifier = storage.load(self.model, encoder=self.encoder)
        _text_classifier(classifier, self.model).set_params(n_jobs=1)
        if classifier.target_type_ == "classes":
            return classifier, AnswerRule(classifier, error=self.error, delta=self.delta)
        if self.error is not None:
            raise ValueError("error is for models that give one class to each text. Leave it out.")
        return classifier, None

    def caveats(self, opened: tuple[Any, Any]) -> list[str]:
        """Return reasons why there are no prediction sets, or why every text abstains."""
        _, rule = opened
        if rule is None:
            return []
        reasons = (rule.no_sets, rule.no_answers)
        return [reason for reason in reasons if reason]

    def load(self, opened: tuple[Any, Any] | None = None) -> Callable[..., Batch]:
        """Return a thread-safe function from a list or an Arrow column of texts to a `Batch`.

        Parameters
        ----------
        opened : tuple, optional
            The result of `open`, if that was called before.

        Returns
        -------
        predict : callable
        """
        classifier, rule = opened or self.open()
        names = np.array([str(name) for name in classifier.classes_], dtype=object)
        if rule is None:
            estimator = _text_classifier(classifier, self.model)
            return partial(_assign_labels, estimator, names)
        return partial(_answer, rule, names)


def _assign_labels(estimator: Any, names: np.ndarray, texts: Any, is_bad: Any = None) -> Batch:
    """The labels of each text, the likeliest first; `names` are those of the classes."""
    strings = as_list(texts)
    proba = estimator.predict_proba(strings)  # (n, n_classes)
    is_assigned = estimator.assign_labels(proba)
    labels: list[list[str]] = []
    probabilities: list[list[float]] = []
    for row_proba, row_is_assigned in zip(proba, is_assigned):
        by_proba = np.argsort(-row_proba, kind="stable")
        assigned = by_proba[row_is_assigned[by_proba]]
        labels.append(names[assigned].tolist())
        probabilities.append(row_proba[assigned].tolist())

    columns = {
        "predictions": TypedColumn(labels, "list<string>"),
        "probabilities": TypedColumn(probabilities, "list<double>"),
    }
    empty_rows = _clear_empty(columns, strings)
    return Batch(columns, n_empty=len(empty_rows))


def _answer(rule: "AnswerRule", names: np.ndarray, texts: Any, is_bad: Any = None) -> Batch:
    """The class of each text, its prediction set, and whether it is an answer."""
    strings = as_list(texts)
    answers = rule.answer(strings)
    columns = _answer_columns(answers, names)
    empty_rows = _clear_empty(columns, strings)

    n_answered = 0
    if answers.abstained is not None:
        for row in empty_rows:
            columns["abstained"][row] = True
        is_answered = ~answers.abstained
        is_answered[empty_rows] = False
        n_answered = int(is_answered.sum())
    return Batch(
        columns,
        n_empty=len(empty_rows),
        n_answered=n_answered,
        scored=Scored(strings, answers.log_proba),
    )


def _answer_columns(answers: "Answered", names: np.ndarray) -> dict[str, TypedColumn]:
    from pacsent.certify.coverage import REASON

    sets: list = [None] * answers.best.size
    abstained: list = [None] * answers.best.size
    if answers.inside is not None:
        sets = [names[is_inside].tolist() for is_inside in answers.inside]
    if answers.abstained is not None:
        abstained = answers.abstained.tolist()
    reasons = [None if is_covered else REASON for is_covered in answers.covered]
    return {
        "prediction": TypedColumn(names[answers.best].tolist(), "string"),
        "probability": TypedColumn(answers.probability.tolist(), "double"),
        "set": TypedColumn(sets, "list<string>"),
        "abstained": TypedColumn(abstained, "bool"),
        "reason": TypedColumn(reasons, "string"),
    }


DRIFT = "drift: no guarantee"  # the reason of every row of a file with drift


def withdraw_guarantee(columns: Mapping[str, Any]) -> dict[str, Any]:
    """The columns of answers if the texts differ from the calibration texts.

    Every row abstains and has no prediction set, and its reason says why; predictions and
    probabilities stay.
    """
    reasons = [f"{reason}; {DRIFT}" if reason else DRIFT for reason in columns["reason"]]
    n_rows = len(reasons)
    return {
        **columns,
        "set": TypedColumn([None] * n_rows, "list<string>"),
        "abstained": TypedColumn([True] * n_rows, "bool"),
        "reason": TypedColumn(reasons, "string"),
    }


def _clear_empty(columns: dict[str, TypedColumn], strings: list[str]) -> list[int]:
    """Remove the results of empty texts, which bad rows are too; returns their rows."""
    from pacsent.certify.row_status import EMPTY, REASONS

    empty_rows = [row for row, text in enumerate(strings) if is_empty(text)]
    for name, column in columns.items():
        value = REASONS[EMPTY] if name == "reason" else None
        for row in empty_rows:
            column[row] = value
    return empty_rows


def text_bytes(texts: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return the bytes of a list of texts, or of an Arrow column without a copy, and bounds."""
    if isinstance(texts, list):
        return concat_utf8(texts)
    column = texts.cast("large_string")
    if column.null_count:
        column = column.fill_null("")
    if len(column) == 0:
        return np.zeros(0, np.uint8), np.zeros(1, np.int64)
    _, offsets, data = column.buffers()
    all_bounds = np.frombuffer(offsets, np.int64)
    bounds = all_bounds[column.offset : column.offset + len(column) + 1]
    return np.frombuffer(data or b"", np.uint8), bounds
