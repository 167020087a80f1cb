"""Readers of saved files: the function that makes an object of a file, by the kind it states.

`storage` opens folders and `certify` reads certificates of classes in packages above them. A module
registers the readers of its own kinds; `MODULES` says which module that is, so that it is imported
when the first file of the kind is read, and nothing else is imported because a file says so.
"""

import importlib
from collections.abc import Callable
from typing import Any

# ("what is read", "kind"): module
MODULES = {
    ("model", "WordVectors"): "pacsent.words.vectors",
    ("model", "SentenceVectorizer"): "pacsent.sentences.methods",
    ("model", "ExternalEncoder"): "pacsent.sentences.external_encoders",
    ("model", "ConcatenatedEncoder"): "pacsent.sentences.external_encoders",
    ("model", "StaticEncoder"): "pacsent.sentences.static_encoder",
    ("model", "Index"): "pacsent.search.index",
    ("model", "TextClassifier"): "pacsent.classify.classifier",
    ("model", "CertifiedClassifier"): "pacsent.predict.certified_classifier",
    ("file", "word vectors"): "pacsent.words.formats",
    # what word vectors are saved with instead of a fitted encoder of sentences
    ("sentence encoder", "mean"): "pacsent.sentences.methods",
    ("sentence encoder", "unit"): "pacsent.sentences.static_encoder",
    # what encodes by itself without scikit-learn, in place of the encoder of that name
    ("plain encoder", "StaticEncoder"): "pacsent.sentences.plain_encoder",
    ("plain encoder", "mean"): "pacsent.sentences.plain_encoder",
    ("plain encoder", "unit"): "pacsent.sentences.plain_encoder",
    ("certificate", "error"): "pacsent.certify.error_certificate",
    ("certificate", "multilabel"): "pacsent.certify.multilabel_certificate",
    ("certificate", "anytime error"): "pacsent.certify.count_certificates",
    ("certificate", "search"): "pacsent.search.certificate",
    ("certificate", "label check"): "pacsent.classify.label_checking",
    ("certificate", "fidelity"): "pacsent.sentences.distillation_certificate",
    ("certificate", "continuation"): "pacsent.paper.continuation",
    ("certificate", "A"): "pacsent.paper.word_certificate",
    ("certificate", "B"): "pacsent.paper.document_certificate",
    ("certificate", "C"): "pacsent.paper.squared_certificate",
    ("certificate", "D"): "pacsent.paper.heuristic_certificate",
}
_READERS: dict[tuple[str, str], Callable[..., Any]] = {}


def register(what: str, kind: str, reader: Callable[..., Any]) -> None:
    """Use `reader` for files of this kind."""
    _READERS[what, kind] = reader


def find_reader(what: str, kind: Any) -> Callable[..., Any] | None:
    """Return the reader of a kind; None if there is none."""
    if not isinstance(kind, str):
        return None
    if (what, kind) not in _READERS and (what, kind) in MODULES:
        importlib.import_module(MODULES[what, kind])
    return _READERS.get((what, kind))


def kinds(what: str) -> list[str]:
    """Return the kinds that can be read."""
    return [kind for group, kind in MODULES if group == what]
