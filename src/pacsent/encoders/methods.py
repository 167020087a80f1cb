"""The methods by name: `METHODS`, and `make`, which builds the estimator behind a name."""

from typing import Any

from pacsent.encoders.closed_forms import AverageVectorizer, IDFVectorizer
from pacsent.encoders.pb_01 import PB01Vectorizer
from pacsent.encoders.pb_neg import PBNegVectorizer
from pacsent.encoders.pv_dbow import PVDBOWVectorizer
from pacsent.encoders.sentence_vectorizer import SentenceVectorizer
from pacsent.encoders.sif import BothVectorizer, SIFSumVectorizer, SIFVectorizer
from pacsent.encoders.w_pb_neg import WordPBNegVectorizer
from pacsent.words.storing import load_words
from pacsent.words.vectors import WordVectors

# name -> (class, parameters that the name stands for, defaults)
_METHODS: dict[str, tuple[type[SentenceVectorizer], dict, dict]] = {
    "Average": (AverageVectorizer, {}, {"alpha": 0.0}),
    "IDF-Average": (IDFVectorizer, {}, {"lam": float("inf")}),
    "PB-L2": (AverageVectorizer, {"alpha": None}, {}),
    "PB-IDF-L2": (IDFVectorizer, {}, {}),
    "PB-neg": (PBNegVectorizer, {}, {}),
    "w-PB-neg": (WordPBNegVectorizer, {}, {}),
    "PV-DBOW": (PVDBOWVectorizer, {}, {}),
    "PB-01": (PB01Vectorizer, {}, {}),
    "SIF": (SIFVectorizer, {"weights": "SIF"}, {}),
    "uSIF": (SIFVectorizer, {"weights": "uSIF"}, {}),
    "SIF-sum": (SIFSumVectorizer, {}, {}),
    "both": (BothVectorizer, {}, {}),
}
_ONE_TABLE = {"PV-DBOW", "SIF-sum", "both"}  # no roles to swap

METHODS: tuple[str, ...] = (
    *_METHODS,
    *(f"i-{name}" for name in _METHODS if name not in _ONE_TABLE),
)

# what a saved folder may name
ESTIMATORS = {estimator.__name__: estimator for estimator, *_ in _METHODS.values()}


def make(name: str, word_vectors: WordVectors | str, **params: Any) -> SentenceVectorizer:
    """The estimator called `name`, one of METHODS: the paper's names, and SIF, uSIF, SIF-sum, both.

    Parameters
    ----------
    name : str
        `i-` in front swaps the roles of the two tables. 'Average' starts with alpha=0 and
        'IDF-Average' with lam=inf, the plain means of the loss's table.
    word_vectors : WordVectors or str
        A str is the folder of word vectors, or "english", the model that comes with the package.
    **params
        Parameters of the estimator.

    Examples
    --------
    >>> import numpy as np
    >>> from pacsent import Vocabulary, WordVectors, make
    >>> words = WordVectors(Vocabulary(["good", "film"]), np.eye(2), -np.eye(2))
    >>> make("i-PB-L2", words, lam=2.0)
    i-PB-L2: AverageVectorizer(lam=2.0, swap_roles=True,
                               word_vectors=WordVectors(n_words=2, n_dims=2))
    >>> make("SIF-sum", "english").fit_transform(["a glass of wine", "some beer"]).shape
    (2, 256)
    """
    if name not in METHODS:
        raise ValueError(
            f"name must be one of METHODS. Got {name!r} instead. Choose from {', '.join(METHODS)}."
        )
    estimator, fixed, defaults = _METHODS[name.removeprefix("i-")]
    if name not in _ONE_TABLE:
        fixed = {**fixed, "swap_roles": name.startswith("i-")}
    for key, value in fixed.items():
        if key in params and params[key] != value:
            raise ValueError(
                f"{key} must be {value!r} for the method {name!r}. Got {params[key]!r} instead. "
                f"Choose another name, or build a {estimator.__name__} yourself."
            )
    if name.endswith("Average") and "alpha" in defaults and "lam" in params:
        raise ValueError(
            f"{name!r} must be given alpha, not lam. Got lam={params['lam']!r} instead. Use "
            f"{name.replace('Average', 'PB-L2')!r} for a posterior that depends on lam."
        )
    if isinstance(word_vectors, str):
        word_vectors = load_words(word_vectors)
    return estimator(word_vectors, **{**defaults, **fixed, **params})


def check_gives_vectors(opened: Any, source: Any) -> None:
    """Refuse what a folder holds unless it is word vectors or a method.

    Examples
    --------
    >>> check_gives_vectors(load_words("english"), "english")
    """
    if not isinstance(opened, (WordVectors, SentenceVectorizer)):
        raise ValueError(
            f"{source} must hold word vectors or a fitted method. It holds a "
            f"{type(opened).__name__} instead. Give another model, such as english."
        )


def ready(name: str, word_vectors: WordVectors | str) -> SentenceVectorizer:
    """A method that learns nothing from text, ready for sentences.

    >>> ready("SIF-sum", "english").transform(["a glass of wine"]).shape
    (1, 256)
    """
    vectorizer = make(name, word_vectors)
    if vectorizer.learns_from_text:
        raise ValueError(f"{name} learns from text first. Run: pacsent fit {name}")
    return vectorizer.fit([])
