"""Open the models that a server is started with."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pacsent.classify import TextClassifier
from pacsent.predict import CertifiedClassifier
from pacsent.search import Index
from pacsent.sentences.external_encoders import as_encoder, open_any
from pacsent.sentences.methods import as_vectorizer
from pacsent.storage import public_url
from pacsent.web.served_model import ServedModel
from pacsent.words import WordVectors


@dataclass(frozen=True)
class ModelSource:
    """Where one served model is: an encoder, word vectors, a classifier or an index."""

    model: str
    name: str | None = None  # in requests; by default that of the folder
    method: str | None = None  # for word vectors
    encoder: str | None = None  # the external encoder that the model was made with

    def open(self) -> ServedModel:
        """Open the model and what it contains."""
        model = open_any(self.model, as_encoder(self.encoder) if self.encoder else None)
        name = self.name or Path(public_url(self.model)).name or "pacsent"
        if isinstance(model, TextClassifier):
            return ServedModel(name, model.encoder_, model)
        if isinstance(model, CertifiedClassifier):
            return ServedModel(name, model.estimator_.encoder_, model)
        if isinstance(model, Index):
            return ServedModel(name, model.encoder, index=model)
        if isinstance(model, WordVectors):
            model = as_vectorizer(model, self.method)
        return ServedModel(name, model)


def open_models(
    sources: Sequence[ModelSource], error: float | None = None, delta: float | None = None
) -> list[ServedModel]:
    """Open the models of a server; raise `ValueError` if no classifier can guarantee `error`."""
    models = [source.open() for source in sources]
    names = [model.name for model in models]
    if len(set(names)) < len(names):
        raise ValueError(
            f"Models must have different names. Got {', '.join(names)}. Name them: NAME=MODEL."
        )
    if error is not None:
        classifiers = [model for model in models if model.classifier is not None]
        if not classifiers:
            raise ValueError(f"error is for a classifier, and none is served. Got {error}.")
        for model in classifiers:
            model.answer_rule(error, delta)
    return models
