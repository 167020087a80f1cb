"""Functions of higher packages that lower packages call, registered by the modules that have them.

`storage` opens folders of classes that it does not know, word vectors encode sentences by encoders
that are built on top of them, and `SkipGram` and `distill` train on a GPU. `MODULES` says which
module registers which function, so that it is imported when the function is first needed.
"""

import importlib
from collections.abc import Callable
from typing import Any

MODULES = {
    ("kind", "WordVectors"): "pacsent.words.vectors",
    ("kind", "SentenceVectorizer"): "pacsent.encoders.methods",
    ("kind", "ExternalEncoder"): "pacsent.encoders.external_encoders",
    ("kind", "ConcatenatedEncoder"): "pacsent.encoders.external_encoders",
    ("kind", "StaticEncoder"): "pacsent.encoders.static_encoder",
    ("kind", "Index"): "pacsent.search.index",
    ("kind", "TextClassifier"): "pacsent.classify.classifier",
    ("kind", "CertifiedClassifier"): "pacsent.guarantees.certified_classifier",
    ("reader", "word vectors"): "pacsent.words.formats",
    ("skipgram trainer", "cuda"): "pacsent.gpu.skipgram",
    ("distillation epoch", "cuda"): "pacsent.gpu.distillation",
    ("encoder certificate", "continuation"): "pacsent.guarantees.continuation",
    ("encoder certificate", "A"): "pacsent.paper.word_certificate",
    ("encoder certificate", "B"): "pacsent.paper.document_certificate",
    ("encoder certificate", "C"): "pacsent.paper.squared_certificate",
    ("encoder certificate", "D"): "pacsent.paper.heuristic_certificate",
    ("sentence encoder", "mean"): "pacsent.encoders.methods",
    ("sentence encoder", "unit"): "pacsent.encoders.static_encoder",
}
_FUNCTIONS: dict[tuple[str, str], Callable[..., Any]] = {}


def register(role: str, name: str, function: Callable[..., Any]) -> None:
    """Offer a function to lower packages under a role and a name."""
    _FUNCTIONS[role, name] = function


def find(role: str, name: str) -> Callable[..., Any] | None:
    """The function registered under a role and a name; None if there is none."""
    if (role, name) not in _FUNCTIONS and (role, name) in MODULES:
        importlib.import_module(MODULES[role, name])
    return _FUNCTIONS.get((role, name))
