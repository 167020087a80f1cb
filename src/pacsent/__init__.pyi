# The public names: `lazy_loader` reads this file at import, type checkers read it too.
from . import bounds as bounds
from . import certify as certify
from . import classify as classify
from . import paper as paper
from . import predict as predict
from . import scale as scale
from . import search as search
from . import sentences as sentences
from . import storage as storage
from . import text as text
from . import web as web
from . import words as words
from .certify.error_bounds import certify_predictions as certify_predictions
from .classify.classifier import TextClassifier as TextClassifier
from .paper.certification import certify_encoder as certify_encoder
from .paper.evaluation import evaluate as evaluate
from .predict.certified_classifier import CertifiedClassifier as CertifiedClassifier
from .search.index import Index as Index
from .sentences.distillation_certificate import distill as distill
from .sentences.methods import list_encoders as list_encoders
from .sentences.methods import make_encoder as make_encoder
from .storage import load as load
from .storage import save as save
from .words.corpus import Corpus as Corpus
from .words.skipgram import SkipGram as SkipGram
from .words.vectors import WordVectors as WordVectors
from .words.vocabulary import Vocabulary as Vocabulary

__version__: str
__all__: list[str]
