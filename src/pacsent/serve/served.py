"""What is served: a vectorizer, and beside it a classifier, an index, certificates."""

import json
import os
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from pacsent.certificates import Certificate
from pacsent.classify import ErrorCertificate, TextClassifier
from pacsent.encoders import METHODS, Index, SentenceVectorizer, make
from pacsent.loading import certificate_from_json, load
from pacsent.maths.plane import main_plane
from pacsent.storage import place
from pacsent.words import WordVectors


@dataclass(frozen=True)
class Promises:
    """What the classifier's calibration allows: thresholds of sets and of answering at all."""

    thresholds: np.ndarray | None = None  # log-probability with which a class enters a set
    answers_from: float | None = None  # probability from which on it answers
    why_not: str | None = None  # why there are no sets
    why_silent: str | None = None  # why it never answers


class Served:
    """Models made ready for being asked again and again, by one thread.

    Parameters
    ----------
    name : str
        What clients call the model.
    vectorizer : fitted vectorizer
    classifier : TextClassifier, optional
    index : Index, optional
    certificates : sequence of Certificate or ErrorCertificate

    Examples
    --------
    >>> from pacsent import make
    >>> served = Served("english", make("SIF-sum", "english"))
    >>> means, variances = served.solve(served.encode(["a glass of wine"]))
    >>> means.shape
    (1, 256)
    """

    def __init__(
        self,
        name: str,
        vectorizer: SentenceVectorizer | None = None,
        classifier: TextClassifier | None = None,
        index: Index | None = None,
        certificates: Sequence[Certificate | ErrorCertificate] = (),
    ):
        self.name = name
        self.classifier: Any = classifier
        self.index: Any = index
        self.certificates = list(certificates)
        self.vectorizer = _one_thread(vectorizer)
        self.promises = Promises()
        self._map: dict[str, Any] | None = None
        if self.vectorizer is not None:
            if not hasattr(self.vectorizer, "n_sentences_"):
                self.vectorizer.fit([])
            self.vocabulary = self.vectorizer.word_vectors.vocabulary
            self.n_dims = int(self.vectorizer._n_features_out)
            self.encode = self.vocabulary.encoder()
            self.solve = self.vectorizer.prepared()
        if classifier is not None:
            classifier.set_params(n_jobs=1)
            if classifier.vectorizer_ is not None:
                _one_thread(classifier.vectorizer_)
        if index is not None:
            _one_thread(index.vectorizer)
        certificate = getattr(classifier, "certificate_", None)
        if certificate is not None:
            self.certificates.append(certificate)

    def promise(self, error: float, delta: float) -> "Served":
        """Work out the classifier's thresholds; returns self."""
        if self.classifier is not None:
            self.promises = _promises(self.classifier, error, delta)
        return self

    def warm_up(self) -> "Served":
        """Do everything once, so that no request waits for it; returns self."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            texts = ["warm water", "", "naïve — 東京"]
            if self.vectorizer is not None:
                self.solve(self.encode(texts))
                self.solve(self.encode(texts[:1]))
            if self.classifier is not None:
                self.classifier.predict_log_proba(texts)
                self.classifier.explain(texts[0])
            if self.index is not None:
                self.index.search(texts, 1)
                self.map()  # before the fork: shared
        return self

    def about(self) -> dict[str, Any]:
        """The model in a few words, for /v1/models."""
        found: dict[str, Any] = {"class": None}
        if self.vectorizer is not None:
            words = self.vectorizer.word_vectors
            found = {
                "class": type(self.vectorizer).__name__,
                "method": self.vectorizer.method_name,
                "dimensions": self.n_dims,
                "words": words.n_words,
            }
        if self.classifier is not None:
            found["classes"] = [str(name) for name in self.classifier.classes_.tolist()]
        if self.index is not None:
            found["texts"] = len(self.index)
        return found

    def map(self) -> dict[str, Any]:
        """Where each text of the index lies on the plane of most variance; made once.

        Beside a classifier, `classes` names its classes and `group` is its answer to each text.
        """
        if self._map is None:
            ids, vectors = self.index.rows()
            x, y = main_plane(vectors).T.round(4)
            self._map = {"ids": ids.tolist(), "x": x.tolist(), "y": y.tolist()}
            if self.classifier is not None:
                texts = (self.index.text(number) for number in self._map["ids"])
                classes = self.classifier.classes_
                group = np.searchsorted(classes, self.classifier.predict(texts))
                self._map |= {"classes": [str(n) for n in classes], "group": group.tolist()}
        return self._map

    def spelled_certificates(self) -> list[dict[str, Any]]:
        """Each certificate in plain words, and as the numbers that anybody can check."""
        found = []
        for certificate in self.certificates:
            numbers = json.loads(certificate.to_json())
            about = "sentences" if isinstance(certificate, Certificate) else "classifier"
            found.append({"about": about, "in_words": str(certificate), "certificate": numbers})
        return found


def _one_thread(vectorizer):
    """The workers are the parallelism; and an empty text is no reason to warn on a server."""
    if vectorizer is not None:
        vectorizer.set_params(n_jobs=1, on_empty="ignore")
    return vectorizer


def _promises(classifier, error, delta) -> Promises:
    if not hasattr(classifier, "calibration_"):
        return Promises(why_not="The classifier kept no labelled texts to promise from: fit it "
                        "with a holdout.")  # fmt: skip
    try:
        thresholds = classifier.set_thresholds(error=error, delta=delta)
        why_not = None
    except ValueError as reason:
        thresholds, why_not = None, str(reason)
    abstaining = classifier.abstain(error=error, delta=delta)
    return Promises(thresholds, abstaining.threshold, why_not, abstaining.no_answers)


@dataclass(frozen=True)
class Sources:
    """Where the served models lie, so that they can be opened again when they change."""

    model: str
    method: str = "SIF-sum"
    classifier: str | None = None
    index: str | None = None
    certificates: tuple[str, ...] = ()
    name: str | None = None
    error: float = 0.05
    delta: float = 0.05
    _files: tuple[Path, ...] = field(init=False, default=())

    def __post_init__(self):
        folders = [place(path) for path in (self.model, self.classifier, self.index) if path]
        files = [folder / "config.json" for folder in folders] + list(map(Path, self.certificates))
        object.__setattr__(self, "_files", tuple(files))

    def signature(self) -> tuple:
        """Changes whenever one of the models was saved again; None for one that is not there."""
        found: list[tuple | None] = []
        for path in self._files:
            try:
                stat = os.stat(path)
                found.append((stat.st_ino, stat.st_size, stat.st_mtime_ns))
            except OSError:
                found.append(None)
        return tuple(found)


def open_served(sources: Sources) -> Served:
    """Open the models and make them ready.

    Examples
    --------
    >>> open_served(Sources("english")).about()["dimensions"]
    256
    """
    model = load(sources.model)
    classifier = load(sources.classifier) if sources.classifier else None
    index = load(sources.index) if sources.index else None
    vectorizer = None
    if isinstance(model, TextClassifier):
        classifier, vectorizer = model, model.vectorizer_
    elif isinstance(model, Index):
        index, vectorizer = model, model.vectorizer
    elif isinstance(model, WordVectors):
        vectorizer = _ready(sources.method, model)
    else:
        vectorizer = model
    for given, kind, what in ((classifier, TextClassifier, "classifier"), (index, Index, "index")):
        if given is not None and not isinstance(given, kind):
            raise ValueError(
                f"{getattr(sources, what)} must be a folder that holds a {kind.__name__}. It holds "
                f"a {type(given).__name__} instead."
            )
    certificates = [
        certificate_from_json(Path(path).read_text(encoding="utf-8"), path)
        for path in sources.certificates
    ]
    name = sources.name or Path(sources.model).name or "pacsent"
    served = Served(name, vectorizer, classifier, index, certificates)
    return served.promise(sources.error, sources.delta).warm_up()


def _ready(method, words):
    if method not in METHODS:
        raise ValueError(f"method must be one of {', '.join(METHODS)}. Got {method!r} instead.")
    vectorizer = make(method, words)
    if vectorizer.learns_from_text:
        raise ValueError(
            f"{method} learns from text first. Fit and save it (pacsent fit {method}), and serve "
            "that folder."
        )
    return vectorizer
