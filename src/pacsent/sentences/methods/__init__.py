"""The methods by name: `METHODS`, and `make_encoder`, which builds the estimator behind a name.

Every file has one method or a few that belong together; `names` of a class are those in `METHODS`.
"""

from typing import Any, cast

from sklearn.base import clone

from pacsent import registry
from pacsent.sentences.encoder import Encoder, EncoderMixin
from pacsent.sentences.methods.closed_forms import AverageVectorizer, IDFVectorizer
from pacsent.sentences.methods.pb_01 import PB01Vectorizer
from pacsent.sentences.methods.pb_neg import PBNegVectorizer
from pacsent.sentences.methods.pv_dbow import PVDBOWVectorizer
from pacsent.sentences.methods.sif import ConcatVectorizer, SIFSumVectorizer, SIFVectorizer
from pacsent.sentences.methods.w_pb_neg import WordPBNegVectorizer
from pacsent.sentences.sentence_vectorizer import SentenceVectorizer
from pacsent.storage import State
from pacsent.words.vectors import WordVectors, as_word_vectors

_CLASSES: tuple[type[SentenceVectorizer], ...] = (
    AverageVectorizer,
    IDFVectorizer,
    PB01Vectorizer,
    PBNegVectorizer,
    PVDBOWVectorizer,
    SIFVectorizer,
    SIFSumVectorizer,
    ConcatVectorizer,
    WordPBNegVectorizer,
)
_METHODS = {name: (cls, meaning) for cls in _CLASSES for name, meaning in cls.names.items()}
_SWAPPED = [f"i-{name}" for name, (_, meaning) in _METHODS.items() if meaning.swaps]

METHODS = (*_METHODS, *_SWAPPED)

DEFAULT = "SIF-sum"  # of word vectors that come with no encoder of sentences
ESTIMATORS = {cls.__name__: cls for cls in _CLASSES}  # that a saved folder may name


def list_encoders() -> list[str]:
    """Return the names that `make_encoder` accepts.

    Returns
    -------
    names : list of str

    Examples
    --------
    >>> "PB-L2" in list_encoders()
    True
    """
    return list(METHODS)


def make_encoder(method: str, encoder: WordVectors | str, **params: Any) -> SentenceVectorizer:
    """Return the estimator of a method, by a name of the paper or another of `list_encoders`.

    Parameters
    ----------
    method : str
        `i-` in front swaps the roles of the two matrices. 'Average' starts with alpha=0 and
        'IDF-Average' with lam=inf, the plain means of the loss's table.
    encoder : WordVectors or str
        The word vectors that the method combines, or their folder, or "english".
    **params
        Parameters of the estimator.

    Returns
    -------
    SentenceVectorizer
        Not fitted.

    Examples
    --------
    >>> from pacsent import make_encoder
    >>> from pacsent.datasets import load_banking
    >>> texts, _ = load_banking(n_classes=12)  # messages to a bank
    >>> encoder = make_encoder("PB-neg", "english", lam=8).fit(texts)
    >>> mean, variance = encoder.posterior(["I was charged twice for my coffee"])
    >>> mean.shape, variance.round(3)
    ((1, 256), array([0.139]))

    Methods by their names, with vectors of your own:

    >>> import numpy as np
    >>> from pacsent import Vocabulary, WordVectors
    >>> words = WordVectors(Vocabulary(["good", "film"]), np.eye(2), -np.eye(2))
    >>> make_encoder("i-PB-L2", words, lam=2.0)
    i-PB-L2: AverageVectorizer(lam=2.0, swap_roles=True,
                               word_vectors=WordVectors(n_words=2, n_dims=2))
    >>> make_encoder("SIF-sum", "english").fit_transform(["a glass of wine", "some beer"]).shape
    (2, 256)
    """
    if method not in METHODS:
        raise ValueError(
            f"method must be one of list_encoders(). Got {method!r} instead. Choose from "
            f"{', '.join(METHODS)}."
        )

    estimator, meaning = _METHODS[method.removeprefix("i-")]
    fixed = dict(meaning.fixed)
    if meaning.swaps:
        fixed["swap_roles"] = method.startswith("i-")

    for key, value in fixed.items():
        if key in params and params[key] != value:
            raise ValueError(
                f"{key} must be {value!r} for the method {method!r}. Got {params[key]!r} instead. "
                f"Choose another name, or build a {estimator.__name__} yourself."
            )

    if isinstance(encoder, str):
        encoder = as_word_vectors(encoder)
    settings = {**meaning.defaults, **fixed, **params}
    return estimator(encoder, **settings)


def from_state(state: State) -> SentenceVectorizer:
    """The estimator of a saved state: one of those in METHODS, whatever its name says."""
    name = state.config.get("class")
    if name not in ESTIMATORS:
        version = state.config.get("pacsent_version", "?")
        raise ValueError(
            f"it holds a {name!r}, which this pacsent does not have. Install the version that "
            f"wrote it, {version}"
        )
    return ESTIMATORS[name].from_state(state)


registry.register("model", SentenceVectorizer.kind, from_state)
registry.register(
    "sentence encoder", "mean", lambda words: AverageVectorizer(words, alpha=0.0).fit([])
)


def as_vectorizer(
    opened: Any, method: str | None = None, *, source: Any = "The model", fitted: bool = True
) -> Encoder:
    """Return the fitted method that `pacsent.load` opened, or `method` on word vectors that it did.

    Without a method, word vectors give the encoder of sentences they come with, or SIF-sum; or
    averages (alpha = 0) where they have no output vectors. Anything else is refused; `source` names
    it in the message. The method must be ready for sentences unless `fitted` is False.

    >>> as_vectorizer(as_word_vectors("english")).method_name
    'distilled'
    """
    if isinstance(opened, EncoderMixin):  # a method, or an encoder of another program
        return cast(Encoder, opened)

    if not isinstance(opened, WordVectors):
        raise ValueError(
            f"{source} must be word vectors or a fitted method. Got a "
            f"{type(opened).__name__} instead. Give another model, such as english."
        )

    if method is None and opened.sentences is not None:
        own_encoder = clone(opened.sentences)  # with parameters of its own
        return own_encoder if own_encoder.learns_from_text else own_encoder.fit([])
    if method is None and "output" not in opened.tables:
        return make_encoder("Average", opened, alpha=0.0).fit([])

    vectorizer = make_encoder(method or DEFAULT, opened)
    if not fitted:
        return vectorizer
    if vectorizer.learns_from_text:
        raise ValueError(f"{method} learns from text first. Run: pacsent vectors fit {method}")
    return vectorizer.fit([])
