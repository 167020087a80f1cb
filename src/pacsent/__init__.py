"""Sentence vectors, text classification and search, with PAC-Bayes guarantees.

The public names are imported where they are first used, so that `import pacsent` stays light:
neither numba, scikit-learn nor torch is loaded before something needs it.
"""

from typing import TYPE_CHECKING

from pacsent.lazy import offer

__version__ = "0.1.0"

_HOMES = {
    "load": "storage",
    "save": "storage",
    "push_to_hub": "storage",
    "TextClassifier": "classify",
    "CertifiedClassifier": "guarantees",
    "certify_encoder": "guarantees",
    "certify_predictions": "guarantees",
    "Index": "search",
    "distill": "guarantees",
    "METHODS": "encoders",
    "make": "encoders",
    "Vocabulary": "words",
    "Corpus": "words",
    "WordVectors": "words",
    "SkipGram": "words",
    "evaluate": "paper",
}
_MODULES = (
    "classify",
    "encoders", "guarantees", "maths", "paper", "scale", "search", "text", "web", "words",
)  # fmt: skip

__all__ = ["__version__", *_HOMES, *_MODULES]

if TYPE_CHECKING:
    from pacsent import (
        classify,
        encoders,
        guarantees,
        maths,
        paper,
        scale,
        search,
        text,
        web,
        words,
    )
    from pacsent.classify.classifier import TextClassifier
    from pacsent.encoders.methods import METHODS, make
    from pacsent.guarantees.certified_classifier import CertifiedClassifier
    from pacsent.guarantees.continuation import certify_encoder
    from pacsent.guarantees.distillation import distill
    from pacsent.guarantees.predictions import certify_predictions
    from pacsent.paper.evaluation import evaluate
    from pacsent.search.index import Index
    from pacsent.storage import load, push_to_hub, save
    from pacsent.words.corpus import Corpus
    from pacsent.words.skipgram import SkipGram
    from pacsent.words.vectors import WordVectors
    from pacsent.words.vocabulary import Vocabulary

__getattr__, __dir__ = offer(__name__, _HOMES, _MODULES)
