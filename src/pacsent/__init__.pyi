# The public names: `lazy_loader` reads this file at import, type checkers read it too.
from . import classify as classify
from . import encoders as encoders
from . import guarantees as guarantees
from . import maths as maths
from . import paper as paper
from . import scale as scale
from . import search as search
from . import storage as storage
from . import text as text
from . import web as web
from . import words as words
from .classify.classifier import TextClassifier as TextClassifier
from .encoders.methods import list_encoders as list_encoders
from .encoders.methods import make_encoder as make_encoder
from .guarantees.certified_classifier import CertifiedClassifier as CertifiedClassifier
from .guarantees.continuation import certify_encoder as certify_encoder
from .guarantees.distillation import distill as distill
from .guarantees.error_bounds import certify_predictions as certify_predictions
from .paper.evaluation import evaluate as evaluate
from .search.index import Index as Index
from .storage import load as load
from .storage import save as save
from .words.corpus import Corpus as Corpus
from .words.skipgram import SkipGram as SkipGram
from .words.vectors import WordVectors as WordVectors
from .words.vocabulary import Vocabulary as Vocabulary

__version__: str
__all__: list[str]
