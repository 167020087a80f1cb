"""Readers of saved files: the function that makes an object of a file, by the kind it states.

`storage` opens folders and `certify` reads certificates of classes in packages above them. A module
registers the readers of its own kinds; `MODULES` says which module that is, so that it is imported
when the first file of the kind is read, and nothing else is imported because a file says so.
"""

import importlib
from collections.abc import Callable
from typing import Any

# group of readers: {kind: module that registers its reader}
MODULES = {
    "model": {
        "WordVectors": "pacsent.words.vectors",
        "SentenceVectorizer": "pacsent.sentences.methods",
        "ExternalEncoder": "pacsent.sentences.external_encoders",
        "ConcatenatedEncoder": "pacsent.sentences.external_encoders",
        "StaticEncoder": "pacsent.sentences.static_encoder",
        "Index": "pacsent.search.index",
        "TextClassifier": "pacsent.classify.classifier",
        "CertifiedClassifier": "pacsent.predict.certified_classifier",
    },
    "file": {
        "word vectors": "pacsent.words.formats",
    },
    # Word vectors may be saved with one of these instead of a fitted encoder of sentences.
    "sentence encoder": {
        "mean": "pacsent.sentences.methods",
        "unit": "pacsent.sentences.static_encoder",
    },
    # These encode without scikit-learn, in place of the encoder of that name.
    "plain encoder": {
        "StaticEncoder": "pacsent.sentences.plain_encoder",
        "mean": "pacsent.sentences.plain_encoder",
        "unit": "pacsent.sentences.plain_encoder",
    },
    "certificate": {
        "error": "pacsent.certify.error_certificate",
        "multilabel": "pacsent.certify.multilabel_certificate",
        "anytime error": "pacsent.certify.count_certificates",
        "search": "pacsent.search.certificate",
        "label check": "pacsent.classify.label_checking",
        "fidelity": "pacsent.sentences.distillation_certificate",
        "continuation": "pacsent.paper.continuation",
        "A": "pacsent.paper.word_certificate",
        "B": "pacsent.paper.document_certificate",
        "C": "pacsent.paper.squared_certificate",
        "D": "pacsent.paper.heuristic_certificate",
    },
}
# (group, kind): reader; filled when modules are imported
_READERS: dict[tuple[str, str], Callable[..., Any]] = {}


def register(group: str, kind: str, reader: Callable[..., Any]) -> None:
    """Use `reader` for files of this kind."""
    _READERS[group, kind] = reader


def find_reader(group: str, kind: Any) -> Callable[..., Any] | None:
    """Return the reader of a kind; None if there is none."""
    if not isinstance(kind, str):
        return None
    module = MODULES.get(group, {}).get(kind)
    if module is not None and (group, kind) not in _READERS:
        importlib.import_module(module)
    return _READERS.get((group, kind))


def kinds(group: str) -> list[str]:
    """Return the kinds that can be read."""
    return list(MODULES.get(group, {}))
