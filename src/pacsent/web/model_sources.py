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
    """The place of one served model: an encoder, word vectors, a classifier or an index.

    Parameters
    ----------
    model : str
        A folder, a file of word vectors, a URL or a name, as `load` takes it.
    name : str, optional
        The name in requests; None is that of the folder.
    method : str, optional
        For word vectors: how they become sentence vectors.
    encoder : str, optional
        The external encoder that the model was made with.

    Examples
    --------
    >>> ModelSource("english", name="vectors").open().name
    'vectors'
    """

    model: str
    name: str | None = None
    method: str | None = None
    encoder: str | None = None

    def open(self) -> ServedModel:
        """Open the model and what it contains.

        Returns
        -------
        model : ServedModel
        """
        encoder = as_encoder(self.encoder) if self.encoder else None
        model = open_any(self.model, encoder)
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
    """Open the models of a server.

    Parameters
    ----------
    sources : sequence of ModelSource
        Models of different names.
    error, delta : float, optional
        If given, `ValueError` is raised unless all classifiers can guarantee this error rate of
        answers with probability 1 - delta.

    Returns
    -------
    models : list of ServedModel

    Examples
    --------
    >>> [model.name for model in open_models([ModelSource("english")])]
    ['english']
    """
    models = [source.open() for source in sources]
    names = [model.name for model in models]
    if len(set(names)) < len(names):
        shown_names = ", ".join(names)
        raise ValueError(
            f"Models must have different names. Got {shown_names}. Name them: NAME=MODEL."
        )

    if error is not None:
        classifiers = [model for model in models if model.classifier is not None]
        if not classifiers:
            raise ValueError(f"error is for a classifier, and none is served. Got {error}.")
        for model in classifiers:
            model.answer_rule(error, delta)
    return models
