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
    "METHODS": "encoders.methods",
    "make": "encoders.methods",
    "AverageVectorizer": "encoders.methods.closed_forms",
    "IDFVectorizer": "encoders.methods.closed_forms",
    "PBNegVectorizer": "encoders.methods.pb_neg",
    "WordPBNegVectorizer": "encoders.methods.w_pb_neg",
    "PVDBOWVectorizer": "encoders.methods.pv_dbow",
    "PB01Vectorizer": "encoders.methods.pb_01",
    "Index": "encoders.index",
    "SIFVectorizer": "encoders.methods.sif",
    "SIFSumVectorizer": "encoders.methods.sif",
    "ConcatVectorizer": "encoders.methods.sif",
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
    "encoders": "encoders",
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
        encoders,
        gpu,
        maths,
        scale,
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
    from pacsent.encoders.index import Index
    from pacsent.encoders.methods import METHODS, make
    from pacsent.encoders.methods.closed_forms import AverageVectorizer, IDFVectorizer
    from pacsent.encoders.methods.pb_01 import PB01Vectorizer
    from pacsent.encoders.methods.pb_neg import PBNegVectorizer
    from pacsent.encoders.methods.pv_dbow import PVDBOWVectorizer
    from pacsent.encoders.methods.sif import ConcatVectorizer, SIFSumVectorizer, SIFVectorizer
    from pacsent.encoders.methods.w_pb_neg import WordPBNegVectorizer
    from pacsent.loading import load, push_to_hub, save
    from pacsent.maths import bounds, gaussians
    from pacsent.words import formats
    from pacsent.words.corpus import Corpus
    from pacsent.words.skipgram import SkipGram
    from pacsent.words.vectors import WordVectors
    from pacsent.words.vocabulary import Vocabulary

__getattr__, __dir__ = offer(__name__, {**_HOMES, **_MODULES})
