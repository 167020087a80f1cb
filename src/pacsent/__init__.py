"""Sentence vectors with a promise attached.

The public names, imported where they are first used, so that `import pacsent` stays light:
neither numba, scikit-learn nor torch is loaded before something needs it.
"""

from typing import TYPE_CHECKING

from pacsent.lazy import offer

__version__ = "0.1.0"

_HOMES = {
    "Vocabulary": "words.vocabulary",
    "Corpus": "words.corpus",
    "WordVectors": "words.vectors",
    "SkipGram": "words.skipgram",
    "METHODS": "sentences.methods",
    "make": "sentences.methods",
    "AverageVectorizer": "sentences.closed_forms",
    "IDFVectorizer": "sentences.closed_forms",
    "PBNegVectorizer": "sentences.pb_neg",
    "WordPBNegVectorizer": "sentences.w_pb_neg",
    "PVDBOWVectorizer": "sentences.pv_dbow",
    "PB01Vectorizer": "sentences.pb_01",
    "Index": "sentences.index",
    "SIFVectorizer": "sentences.weighted",
    "SIFSumVectorizer": "sentences.weighted",
    "BothVectorizer": "sentences.weighted",
    "Certificate": "certificates.certifying",
    "certify": "certificates.certifying",
    "TextClassifier": "classify.classifier",
    "evaluate": "bench.evaluation",
    "load": "loading",
    "save": "loading",
    "push_to_hub": "loading",
}
# modules for people who want the formulas, the datasets or the files without the estimators
_MODULES = {
    "text": "text",
    "words": "words",
    "sentences": "sentences",
    "certificates": "certificates",
    "classify": "classify",
    "maths": "maths",
    "bench": "bench",
    "scale": "scale",
    "serve": "serve",
    "gpu": "gpu",
    "bounds": "maths.bounds",
    "gaussians": "maths.gaussians",
    "datasets": "bench.datasets",
    "formats": "words.formats",
    "simulation": "certificates.simulation",
}

__all__ = ["__version__", *_HOMES, *_MODULES]

if TYPE_CHECKING:
    from pacsent import (
        bench,
        certificates,
        classify,
        gpu,
        maths,
        scale,
        sentences,
        serve,
        text,
        words,
    )
    from pacsent.bench import datasets
    from pacsent.bench.evaluation import evaluate
    from pacsent.certificates import simulation
    from pacsent.certificates.certificate import Certificate
    from pacsent.certificates.certifying import certify
    from pacsent.classify.classifier import TextClassifier
    from pacsent.loading import load, push_to_hub, save
    from pacsent.maths import bounds, gaussians
    from pacsent.sentences.closed_forms import AverageVectorizer, IDFVectorizer
    from pacsent.sentences.index import Index
    from pacsent.sentences.methods import METHODS, make
    from pacsent.sentences.pb_01 import PB01Vectorizer
    from pacsent.sentences.pb_neg import PBNegVectorizer
    from pacsent.sentences.pv_dbow import PVDBOWVectorizer
    from pacsent.sentences.w_pb_neg import WordPBNegVectorizer
    from pacsent.sentences.weighted import BothVectorizer, SIFSumVectorizer, SIFVectorizer
    from pacsent.words import formats
    from pacsent.words.corpus import Corpus
    from pacsent.words.skipgram import SkipGram
    from pacsent.words.vectors import WordVectors
    from pacsent.words.vocabulary import Vocabulary

__getattr__, __dir__ = offer(__name__, {**_HOMES, **_MODULES})
