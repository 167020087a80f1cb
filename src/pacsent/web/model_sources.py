"""Open the models that a server is started with."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pacsent.classify import TextClassifier
from pacsent.encoders.external_encoders import as_encoder, open_any
from pacsent.encoders.methods import as_vectorizer
from pacsent.guarantees import CertifiedClassifier, read_certificate
from pacsent.search import Index
from pacsent.web.served_model import ServedModel
from pacsent.words import WordVectors

_CLASSIFIERS = TextClassifier, CertifiedClassifier


@dataclass(frozen=True)
class ModelSources:
    """The folders and files of one served model."""

    model: str | None
    method: str | None = None
    classifier: str | None = None
    index: str | None = None
    certificates: tuple[str, ...] = ()
    name: str | None = None
    encoder: str | None = None  # in place of a model, or what the models were made with


def open_models(
    sources: Sequence[ModelSources], error: float | None = None, delta: float = 0.05
) -> list[ServedModel]:
    """Open the models of a server; raise `ValueError` if the first cannot guarantee `error`."""
    models = [_open_model(source) for source in sources]
    names = [model.name for model in models]
    if len(set(names)) < len(names):
        raise ValueError(f"--model must give different names. Got {', '.join(names)}.")
    if error is not None:
        if models[0].classifier is None:
            raise ValueError(f"error must be left out without a classifier. Got {error} instead.")
        models[0].answer_rule(error, delta)
    return models


def _open_model(source: ModelSources) -> ServedModel:
    encoder = as_encoder(source.encoder) if source.encoder else None
    model, classifier, index = (
        None if path is None else open_any(path, encoder)
        for path in (source.model, source.classifier, source.index)
    )
    vectorizer = encoder if model is None else model
    if isinstance(model, _CLASSIFIERS):
        classifier, vectorizer = model, getattr(model, "estimator_", model).vectorizer_
    elif isinstance(model, Index):
        index, vectorizer = model, model.vectorizer
    elif isinstance(model, WordVectors):
        vectorizer = as_vectorizer(model, source.method)
    for part, kinds, what in ((classifier, _CLASSIFIERS, "classifier"), (index, Index, "index")):
        if part is not None and not isinstance(part, kinds):
            raise ValueError(
                f"{getattr(source, what)} must be a folder that contains a {what}. It contains "
                f"a {type(part).__name__} instead."
            )
    certificates = [
        read_certificate(Path(path).read_text(encoding="utf-8"), path)
        for path in source.certificates
    ]
    name = source.name or Path(source.model or str(source.encoder)).name or "pacsent"
    return ServedModel(name, vectorizer, classifier, index, certificates)
