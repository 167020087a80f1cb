"""Sentence vectors with a promise attached.

The public names, imported where they are first used, so that `import pacsent` stays light:
neither numba, scikit-learn nor torch is loaded before something needs it.
"""

import importlib
from typing import TYPE_CHECKING

__version__ = "0.1.0"

_HOME = {
    "Vocabulary": "vocabulary",
    "Corpus": "vocabulary",
    "WordVectors": "word_vectors",
    "SkipGram": "skipgram",
    "METHODS": "sentence_vectors",
    "make": "sentence_vectors",
    "AverageVectorizer": "sentence_vectors",
    "IDFVectorizer": "sentence_vectors",
    "PBNegVectorizer": "sentence_vectors",
    "WordPBNegVectorizer": "sentence_vectors",
    "PVDBOWVectorizer": "sentence_vectors",
    "PB01Vectorizer": "sentence_vectors",
    "Certificate": "certificates",
    "certify": "certificates",
    "evaluate": "evaluation",
    "load": "storage",
    "save": "storage",
}

__all__ = ["__version__", *_HOME]

if TYPE_CHECKING:
    from pacsent.certificates import Certificate, certify
    from pacsent.evaluation import evaluate
    from pacsent.sentence_vectors import (
        METHODS,
        AverageVectorizer,
        IDFVectorizer,
        PB01Vectorizer,
        PBNegVectorizer,
        PVDBOWVectorizer,
        WordPBNegVectorizer,
        make,
    )
    from pacsent.skipgram import SkipGram
    from pacsent.storage import load, save
    from pacsent.vocabulary import Corpus, Vocabulary
    from pacsent.word_vectors import WordVectors


def __getattr__(name):
    if name in _HOME:
        return getattr(importlib.import_module(f"pacsent.{_HOME[name]}"), name)
    raise AttributeError(f"module 'pacsent' has no attribute {name!r}")


def __dir__():
    return sorted([*globals(), *_HOME])
