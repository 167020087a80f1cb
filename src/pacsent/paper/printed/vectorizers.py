"""Methods as printed, with `fit` and `transform`, for the rows of the table.

They are scikit-learn transformers from texts to vectors and nothing more: they have no posterior
interface, and are not among `list_encoders()`.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, TransformerMixin

from pacsent.paper.printed import sgd
from pacsent.paper.printed.negative_sampling import PrintedPBNegVectorizer
from pacsent.sentences.methods.pv_dbow import PVDBOWVectorizer
from pacsent.sentences.sentence_vectorizer import SentenceVectorizer
from pacsent.sentences.solvers.gaussians import idf
from pacsent.text.encoded import Encoded
from pacsent.words.noise import noise_probabilities
from pacsent.words.vectors import WordVectors


class _Transformer(TransformerMixin, BaseEstimator):
    """Word counts of texts, and the matrices of word vectors."""

    word_vectors: WordVectors
    swap_roles: bool

    def _encoded(self, X: Any) -> Encoded:
        return self.word_vectors.vocabulary.encode(X)

    def _counts(self, X: Any) -> sparse.csr_matrix:
        counts = self.word_vectors.vocabulary.count(self._encoded(X))
        return sparse.csr_matrix(counts, dtype=np.float64)

    def _matrices(self) -> tuple[np.ndarray, np.ndarray]:
        A_hat, B_hat = self.word_vectors.roles(swap=self.swap_roles)
        return np.asarray(A_hat, dtype=np.float32), np.asarray(B_hat, dtype=np.float32)


def _row_sums(counts: Any) -> np.ndarray:
    return np.asarray(counts.sum(axis=1)).ravel()


class WeightedL2Vectorizer(_Transformer):
    """PB-L2 and PB-IDF-L2 with other weights in the loss and in the prior; means only.

        mu = (sum beta_w i_w + 1/lam sum p_w o_w) / (sum beta_w + 1/lam sum p_w)

    Parameters
    ----------
    word_vectors : WordVectors
    lam : float, default=1.0
    kind : {"unit prior", "sum prior", "sub-sampled"}, default="unit prior"
        "unit prior": PB-IDF-L2 with prior variance 1 for every word, as in the paper's
        experiments. "sum prior": PB-L2 with the first prior N(sum of o_w, I). "sub-sampled": PB-L2
        where each token counts with its chance to be kept by Skip-gram's sub-sampling at 1e-4,
        in the frequencies of the source: what the paper names as future work.
    swap_roles : bool, default=False
    subsample : float, default=1e-4

    Examples
    --------
    >>> from pacsent.paper.printed import example
    >>> ex = example()
    >>> WeightedL2Vectorizer(ex.words).fit(ex.texts).transform([["a", "b"]]).shape
    (1, 4)
    """

    def __init__(
        self,
        word_vectors: WordVectors,
        *,
        lam: float = 1.0,
        kind: str = "unit prior",
        swap_roles: bool = False,
        subsample: float = 1e-4,
    ):
        self.word_vectors = word_vectors
        self.lam = lam
        self.kind = kind
        self.swap_roles = swap_roles
        self.subsample = subsample

    def fit(self, X: Any, y: Any = None) -> "WeightedL2Vectorizer":
        """Learn the IDF of the training texts, if the kind needs it.

        Parameters
        ----------
        X : iterable of str or of token lists, or Encoded
            The training texts.
        y : ignored

        Returns
        -------
        self
        """
        if self.kind not in ("unit prior", "sum prior", "sub-sampled"):
            raise ValueError(
                "kind must be 'unit prior', 'sum prior' or 'sub-sampled'. Got "
                f"{self.kind!r} instead."
            )
        if self.kind == "unit prior":
            counts = self._counts(X)
            n_containing = np.bincount(counts.indices, minlength=counts.shape[1])
            self.idf_ = idf(n_containing, counts.shape[0])
        return self

    def transform(self, X: Any) -> np.ndarray:
        """Means of the posteriors; 0 for texts without an in-vocabulary word.

        Parameters
        ----------
        X : iterable of str or of token lists, or Encoded

        Returns
        -------
        array, shape (n_texts, n_dims)
        """
        counts = self._counts(X)
        A_hat, B_hat = self._matrices()
        n = _row_sums(counts)  # (n_texts,)

        if self.kind == "unit prior":
            weighted = counts @ sparse.diags_array(self.idf_)
            numerator = weighted @ A_hat + counts @ B_hat / self.lam
            denominator = _row_sums(weighted) + n / self.lam
        elif self.kind == "sum prior":
            safe_n = np.maximum(n, 1.0)
            data_mean = (counts @ A_hat) / safe_n[:, None]
            numerator = data_mean + counts @ B_hat / self.lam
            denominator = np.full(n.size, 1.0 + 1.0 / self.lam)
        else:
            keep = self.word_vectors.vocabulary.keep_probabilities(self.subsample)
            kept = counts @ sparse.diags_array(keep)
            n_kept = np.maximum(_row_sums(kept), 1e-12)  # in expectation
            alpha = n_kept / self.lam  # n_kept/(var_P lam)
            numerator = (kept @ A_hat + alpha[:, None] * (kept @ B_hat)) / n_kept[:, None]
            denominator = 1.0 + alpha

        denominator = np.where(n > 0, denominator, 1.0)
        return (numerator / denominator[:, None]).astype(np.float32)


class SGDPBNegVectorizer(_Transformer):
    """PB-neg by the paper's optimiser, `pacsent.paper.printed.sgd.train`.

    Parameters
    ----------
    word_vectors : WordVectors
    lam : float, default=1.0
    kl : {"printed", "exact"}, default="printed"
    literal : bool, default=False
        The steps as the paper takes them, which diverge for long sentences.
    n_epochs : int, default=40
    learning_rate : float, default=0.025
    n_negatives : int, default=15
    swap_roles : bool, default=False
    random_state : int or None, default=None

    Examples
    --------
    >>> from pacsent.paper.printed import example
    >>> ex = example()
    >>> SGDPBNegVectorizer(ex.words).fit(ex.texts).transform([["a", "b"]]).shape
    (1, 4)
    """

    def __init__(
        self,
        word_vectors: WordVectors,
        *,
        lam: float = 1.0,
        kl: str = "printed",
        literal: bool = False,
        n_epochs: int = 40,
        learning_rate: float = 0.025,
        n_negatives: int = 15,
        swap_roles: bool = False,
        random_state: int | None = None,
    ):
        self.word_vectors = word_vectors
        self.lam = lam
        self.kl = kl
        self.literal = literal
        self.n_epochs = n_epochs
        self.learning_rate = learning_rate
        self.n_negatives = n_negatives
        self.swap_roles = swap_roles
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> "SGDPBNegVectorizer":
        """Learn the noise distribution, count^0.75 over the training texts.

        Parameters
        ----------
        X : iterable of str or of token lists, or Encoded
            The training texts.
        y : ignored

        Returns
        -------
        self
        """
        encoded = self._encoded(X)
        counts = np.bincount(encoded.ids, minlength=self.word_vectors.n_words)
        self.p_noise_ = noise_probabilities(counts)
        return self

    def transform(self, X: Any) -> np.ndarray:
        """Means of the posteriors after the last epoch.

        Parameters
        ----------
        X : iterable of str or of token lists, or Encoded

        Returns
        -------
        array, shape (n_texts, n_dims)
        """
        A_hat, B_hat = self._matrices()
        trained = sgd.train(
            self._encoded(X),
            A_hat,
            B_hat,
            self.p_noise_,
            lam=self.lam,
            kl=self.kl,
            literal=self.literal,
            n_negatives=self.n_negatives,
            n_epochs=self.n_epochs,
            learning_rate=self.learning_rate,
            random_state=self.random_state,
        )
        return trained.mu.astype(np.float32)


def from_scratch(word_vectors: WordVectors) -> WordVectors:
    """Word vectors of zeros for the same words: where PV-DBOW starts if it starts from scratch.

    Parameters
    ----------
    word_vectors : WordVectors
        The words to keep.

    Returns
    -------
    WordVectors

    Examples
    --------
    >>> from pacsent.paper.printed import example
    >>> ex = example()
    >>> bool(from_scratch(ex.words).input_vectors.any())
    False
    """
    shape = word_vectors.input_vectors.shape
    return WordVectors(word_vectors.vocabulary, np.zeros(shape, dtype=np.float32))


def make_printed(name: str, word_vectors: WordVectors, **params: Any) -> Any:
    """Return the transformer behind a name of the paper that pacsent otherwise corrects.

    Parameters
    ----------
    name : str
        A key of `PRINTED`.
    word_vectors : WordVectors
    **params
        Parameters of the transformer.

    Returns
    -------
    transformer

    Examples
    --------
    >>> sorted(PRINTED)[:2]
    ['PB-IDF-L2 (unit prior)', 'PB-L2 (sub-sampled)']
    """
    if name not in PRINTED:
        raise ValueError(f"name must be one of {', '.join(PRINTED)}. Got {name!r} instead.")
    return PRINTED[name](word_vectors, **params)


def _pv_dbow_from_scratch(word_vectors: WordVectors, **params: Any) -> SentenceVectorizer:
    return PVDBOWVectorizer(from_scratch(word_vectors), **params)


def _weighted(kind: str) -> Callable[..., WeightedL2Vectorizer]:
    def make(word_vectors: WordVectors, **params: Any) -> WeightedL2Vectorizer:
        return WeightedL2Vectorizer(word_vectors, kind=kind, **params)

    return make


PRINTED: dict[str, Any] = {
    "PB-neg (printed)": PrintedPBNegVectorizer,
    "PB-neg (SGD)": SGDPBNegVectorizer,
    "PV-DBOW (scratch)": _pv_dbow_from_scratch,
    "PB-IDF-L2 (unit prior)": _weighted("unit prior"),
    "PB-L2 (sum prior)": _weighted("sum prior"),
    "PB-L2 (sub-sampled)": _weighted("sub-sampled"),
}
