"""What is served: a vectorizer, a classifier, an index, certificates."""

import json
import os
import re
import sys
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

import numpy as np

from pacsent._kernels.patience import Patience
from pacsent.classify import TextClassifier
from pacsent.encoders import SentenceVectorizer
from pacsent.encoders.external_encoders import as_encoder, name_of, open_any
from pacsent.encoders.methods import as_vectorizer
from pacsent.guarantees import AnswerRule, Certificate, CertifiedClassifier
from pacsent.maths.plane import main_plane
from pacsent.paper import certificate_from_json
from pacsent.search import Index, SearchCertificate, clusters
from pacsent.storage import is_model_name, place
from pacsent.text.encoded import Encoded
from pacsent.words import WordVectors

_WORD = re.compile(r"\w+")
_SCRIPTS = re.compile(r"[\x00-\x7f]+|[^\x00-\x7f]+")  # ASCII and everything else, apart
_CLASSIFIERS = TextClassifier, CertifiedClassifier
_LEAST_GROUPED = 30  # texts that are grouped on the map
_MOST_RULES = 64  # error rates whose thresholds are remembered


class _AnyWords:
    """What stands for the vocabulary of an encoder of another program: every word is known."""

    def tokens(self, text: str) -> list[str]:
        return _WORD.findall(text)

    def id_of(self, word: str) -> int:
        return -1

    def encode(self, texts) -> Encoded:
        n = [len(self.tokens(text) if isinstance(text, str) else text) for text in texts]
        offsets = np.concatenate([[0], np.cumsum(n, dtype=np.int64)])
        return Encoded(np.zeros(offsets[-1], np.int32), offsets, np.zeros(len(n), np.int64))


class Served:
    """Models prepared for many requests, each solved by one thread.

    `name` is that of the model in requests and answers; `classifier` may be a CertifiedClassifier.
    Each certificate must verify; the classifier's own is added to them.

    >>> from pacsent import make
    >>> served = Served("english", make("SIF-sum", "english"))
    >>> texts = ["a glass of wine"]
    >>> means, variances = served.solve(served.encode(texts), texts)
    >>> means.shape
    (1, 256)
    """

    def __init__(
        self,
        name: str,
        vectorizer: Any = None,
        classifier: TextClassifier | CertifiedClassifier | None = None,
        index: Index | None = None,
        certificates: Sequence[Certificate] = (),
    ):
        self.name = name
        self.classifier: Any = classifier
        self.index: Any = index
        self.certificates = list(certificates)
        self.vectorizer = _one_thread(vectorizer)
        self._rules: dict[tuple[float | None, float], AnswerRule] = {}
        self._map: dict[str, Any] | None = None
        self.is_fast = isinstance(self.vectorizer, SentenceVectorizer)
        if self.vectorizer is not None:
            if self.is_fast and not hasattr(self.vectorizer, "n_sentences_"):
                self.vectorizer.fit([])
            self.n_dims = int(self.vectorizer._n_features_out)  # makes several encoders ready
            self.vocabulary: Any = _AnyWords()
            self.encode = self.vocabulary.encode
            for one in getattr(self.vectorizer, "encoders_", [self.vectorizer]):
                if isinstance(one, SentenceVectorizer):  # the words that the first of several knows
                    self.vocabulary = one.word_vectors.vocabulary
                    self.encode = self.vocabulary.encoder()
                    break
            self._prepared = self.vectorizer.prepared() if self.is_fast else None
        self.explainer: Any = getattr(classifier, "estimator_", classifier)
        if self.explainer is not None:
            self.explainer.set_params(n_jobs=1)
            _one_thread(self.explainer.vectorizer_)
        if index is not None:
            _one_thread(index.vectorizer)
        for model in (classifier, index, self.vectorizer):
            certificate = getattr(model, "certificate_", None)
            if certificate is not None:
                self.certificates.append(certificate)
        for certificate in self.certificates:
            certificate.verify()

    def solve(self, encoded: Encoded, texts: Sequence) -> tuple[np.ndarray, np.ndarray]:
        """Means and variances of texts or lists of words, which are given in both forms."""
        if self._prepared is not None:
            return self._prepared(encoded)
        return self.vectorizer.posterior([t if isinstance(t, str) else " ".join(t) for t in texts])

    def rule(self, error: float | None, delta: float) -> AnswerRule:
        """When the classifier answers and which classes its sets hold, for this error rate."""
        key = (error, delta)
        found = self._rules.get(key)
        if found is None:
            if len(self._rules) >= _MOST_RULES:
                self._rules.clear()
            found = self._rules[key] = AnswerRule(self.classifier, error=error, delta=delta)
        return found

    def n_tokens(self, texts: list[str]) -> int:
        """The number of words in all texts; of runs of letters where there is no vocabulary."""
        if self.vectorizer is None:
            return sum(len(_WORD.findall(text)) for text in texts)
        encoded = self.encode(texts)
        return encoded.ids.size + int(encoded.n_unknown.sum())

    def numbers(self, words: list[str]) -> list[int]:
        """The numbers of words in the vocabulary; -1 where it has none."""
        return [int(self.vocabulary.id_of(word)) for word in words]

    def known(self, words: list[str]) -> list[bool]:
        """Which words the model knows, by themselves or by their pieces."""
        return (np.diff(self.encode([[word] for word in words]).offsets) > 0).tolist()

    def words(self, text: str, most: int = 1 << 30) -> list[str]:
        """The first words of a text as the vocabulary reads them.

        Letters that the vocabulary's tokens leave out, such as those of other scripts, are words
        too: the model does not know them.
        """
        tokens_of, found = self.vocabulary.tokens, []
        for piece in text.split():
            tokens = list(tokens_of(piece))
            if piece.isascii() or len("".join(tokens)) >= sum(map(str.isalnum, piece)):
                found += tokens
            else:
                for part in _SCRIPTS.findall(piece):
                    found += list(tokens_of(part)) or [part] * any(map(str.isalnum, part))
            if len(found) >= most:
                break
        return found[:most]

    def warm_up(self) -> "Served":
        """Do everything once, so that no request waits for compilation; returns self."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            texts = ["warm water", "", "naïve — 東京"]
            Patience.end()
            if self.vectorizer is not None:
                self.solve(self.encode(texts), texts)
                self.solve(self.encode(texts[:1]), texts[:1])
            if self.classifier is not None:
                self.classifier.predict_log_proba(texts)
                self.explainer.explain(texts[0])
            if self.index is not None:
                self.index.search(texts, 1)
                self.map()  # before the fork, so that workers share it
        return self

    def about(self) -> dict[str, Any]:
        """The model in a few words, for /v1/models."""
        found: dict[str, Any] = {"class": None}
        if self.vectorizer is not None:
            found = {
                "class": type(self.vectorizer).__name__,
                "method": name_of(self.vectorizer),
                "dimensions": self.n_dims,
            }
            if self._prepared is not None:
                found["words"] = self.vectorizer.word_vectors.n_words
        if self.classifier is not None:
            found["classes"] = [str(name) for name in self.classifier.classes_.tolist()]
        if self.index is not None:
            found["texts"] = len(self.index)
        return found

    def map(self) -> dict[str, Any]:
        """The place of each text of the index on the plane of most variance; computed once.

        With a classifier, `classes` holds its classes and `group` its answer to each text; without,
        the names of groups of similar texts, and `grouped` is true.
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
            elif len(ids) >= _LEAST_GROUPED:
                every = [self.index.text(number) for number in self._map["ids"]]
                found = clusters(every, vectors=vectors)
                named = [*found.names, *["no known word"] * bool((found.labels < 0).any())]
                group = np.where(found.labels < 0, len(found.names), found.labels)
                self._map |= {"classes": named, "group": group.tolist(), "grouped": True}
        return self._map

    def described_certificates(self) -> list[dict[str, Any]]:
        """Each certificate: what it is about, in words, and as numbers that can be verified."""
        found = []
        for certificate in self.certificates:
            numbers = json.loads(certificate.to_json())
            if isinstance(certificate, SearchCertificate):
                about, subject = "index", f"Search among {certificate.n_texts:,} texts"
            elif "encoder" in numbers:
                method = numbers["encoder"].partition("(")[0]
                about, subject = "encoder", f"Sentence vectors of {method}"
            elif "teacher" in numbers:
                about, subject = "encoder", f"Sentence vectors taught by {numbers['teacher']}"
            else:
                classes = [] if self.classifier is None else self.classifier.classes_.tolist()
                about, subject = "classifier", f"Classifier with the classes {_joined(classes)}"
            found.append({"about": about, "subject": subject, "in_words": str(certificate),
                          "certificate": numbers})  # fmt: skip
        return found


def _joined(names) -> str:
    shown = ", ".join(str(name) for name in names[:5])
    return f"{shown} and {len(names) - 5:,} others" if len(names) > 5 else shown


def _one_thread(vectorizer):
    """Parallelism comes from the workers; and an empty text is no reason for a warning here."""
    for one in getattr(vectorizer, "encoders_", [vectorizer]):
        if isinstance(one, SentenceVectorizer):
            one.set_params(n_jobs=1, on_empty="ignore")
    return vectorizer


def encoder_named(place: str) -> Any:
    """The encoder behind a URL, in a folder, or in Python as package.module:name."""
    if place.startswith(("http://", "https://")) or os.path.exists(place):
        return as_encoder(place)
    if not re.fullmatch(r"[\w.]+:[\w.]+", place):
        raise ValueError(
            "--encoder must be a URL, a folder, or package.module:name of an object with encode. "
            f"Got {place!r} instead."
        )
    sys.path.insert(0, os.getcwd())
    try:
        return as_encoder(resolve_name(place), name=place)
    except (ImportError, AttributeError) as error:
        raise ValueError(f"--encoder {place} cannot be imported: {error}.") from None
    finally:
        sys.path.remove(os.getcwd())


@dataclass(frozen=True)
class Sources:
    """The paths of the served models, so that they can be opened again when they change."""

    model: str | None
    method: str | None = None
    classifier: str | None = None
    index: str | None = None
    certificates: tuple[str, ...] = ()
    name: str | None = None
    encoder: str | None = None  # in place of a model, or what the models were made with
    _files: tuple[Path, ...] = field(init=False, default=())

    def __post_init__(self):
        paths = (self.model, self.classifier, self.index)
        folders = [place(path) for path in paths if path and is_model_name(path)]
        files = [folder / "config.json" for folder in folders] + list(map(Path, self.certificates))
        object.__setattr__(self, "_files", tuple(files))

    def signature(self) -> tuple:
        """A value that changes when one of the models is saved again; None for a missing one."""
        found: list[tuple | None] = []
        for path in self._files:
            try:
                stat = os.stat(path)
                found.append((stat.st_ino, stat.st_size, stat.st_mtime_ns))
            except OSError:
                found.append(None)
        return tuple(found)


def open_served(sources: Sources, error: float | None = None, delta: float = 0.05) -> Served:
    """Open the models and make them ready; with `error`, refuse where it cannot be guaranteed."""
    encoder = encoder_named(sources.encoder) if sources.encoder else None
    model, classifier, index = (
        None if path is None else open_any(path, encoder)
        for path in (sources.model, sources.classifier, sources.index)
    )
    model = encoder if model is None else model
    vectorizer = None
    if isinstance(model, _CLASSIFIERS):
        classifier, vectorizer = model, getattr(model, "estimator_", model).vectorizer_
    elif isinstance(model, Index):
        index, vectorizer = model, model.vectorizer
    elif isinstance(model, WordVectors):
        vectorizer = as_vectorizer(model, sources.method)
    else:
        vectorizer = model
    for given, kinds, what in ((classifier, _CLASSIFIERS, "classifier"), (index, Index, "index")):
        if given is not None and not isinstance(given, kinds):
            raise ValueError(
                f"{getattr(sources, what)} must be a folder that holds a {what}. It holds "
                f"a {type(given).__name__} instead."
            )
    certificates = [
        certificate_from_json(Path(path).read_text(encoding="utf-8"), path)
        for path in sources.certificates
    ]
    place = sources.model or str(sources.encoder).rpartition(":")[2].rstrip("/")
    name = sources.name or Path(place).name or "pacsent"
    served = Served(name, vectorizer, classifier, index, certificates)
    if error is not None:
        if classifier is None:
            raise ValueError(f"error must be left out without a classifier. Got {error} instead.")
        served.rule(error, delta)
    return served.warm_up()


def open_all(
    sources: Sequence[Sources], error: float | None = None, delta: float = 0.05
) -> list[Served]:
    """Open several models, with different names; `error` is for the first."""
    names = [one.name for one in sources[1:]]
    found = [open_served(one, None if i else error, delta) for i, one in enumerate(sources)]
    if len({one.name for one in found}) < len(found):
        raise ValueError(f"--model must give different names. Got {', '.join(map(str, names))}.")
    return found
