"""Weighted means for similarity and search: SIF, uSIF, SIF-sum, and both matrices concatenated.

Everything is learned from the table and its counts, so that `fit` is free and a new sentence costs
what Average costs; SIF and uSIF can take the texts given to `fit` instead (`solvers.weights`).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any, ClassVar, cast

import numpy as np

from pacsent.arrays import unit_rows
from pacsent.parameter_checks import Interval, StrOptions
from pacsent.sentences.encoding import BatchPosterior
from pacsent.sentences.fitted_state import Learned
from pacsent.sentences.methods.closed_forms import ClosedForm
from pacsent.sentences.pooling import PoolTable, pool
from pacsent.sentences.sentence_vectorizer import ROLES, Name
from pacsent.sentences.solvers.gaussians import l2_coefficients
from pacsent.sentences.solvers.weights import (
    damping,
    heaviest,
    main_directions,
    moments,
    sentence_moment,
    sif_weights,
    usif_a,
)
from pacsent.text.encoded import Encoded
from pacsent.words.vector_table import VectorTable

# A function (encoded, scale, means) that writes scale times the sums of sentences to the means.
AddSums = Callable[[Encoded, np.ndarray, np.ndarray], None]

_BLOCK_ROWS = 1 << 14  # rows of a table transformed at a time

# Directions that all sentences share and that are removed, as published: Arora et al. (2017) and
# Ethayarajh (2018).
_N_DIRECTIONS = {"SIF": 1, "uSIF": 5}

# Tokens of a typical sentence, used unless the length is measured on texts. Ethayarajh (2018).
_SENTENCE_LENGTH = 11.0

# How strongly SIF-sum damps shared directions; 0 would only rescale dimensions. Chosen on the
# training parts of STS-B (similarity) and 20news (search), whose optima lie on either side.
_APERTURE = 2.5


@dataclass(eq=False, repr=False, kw_only=True)
class _Weighted(ClosedForm):
    """Posteriors under a squared loss in which a token is its word only by the word's weight.

    loss = 1/n sum_w E(weight(w)/2 |T_w - h|^2 + (1 - weight(w))/2 |h|^2)
           + KL(Q || N(0, var_P I)) / lam
    mu_S = sum_w weight(w) T_w / n / (1 + 1/(lam var_P)),   var_Q = 1 / (lam + 1/var_P)
    """

    _no_posterior: ClassVar[str] = (
        "its prior lies around 0 and knows nothing of the words of a sentence"
    )

    lam: float = float("inf")
    prior_variance: float = 1.0

    def _fractions(self) -> np.ndarray:
        """Fraction of each word in the source corpus, (n_words,)."""
        vocabulary = self.word_vectors.vocabulary
        counts = vocabulary.require_counts(type(self).__name__)
        return counts / max(counts.sum(), 1)

    def _posterior_of(self, add_sums: AddSums) -> BatchPosterior:
        """The function of `_prepared`, where add_sums(encoded, scale, means) writes the sums."""
        # The same for every sentence that has a token.
        has_tokens = np.ones(1, bool)
        precision = 1.0 / self.prior_variance
        c_A, _, var_Q = l2_coefficients(has_tokens, 1.0, precision, self.lam)

        def posterior(encoded: Encoded, means: np.ndarray) -> tuple[np.ndarray, Any]:
            n_tokens = encoded.offsets[1:] - encoded.offsets[:-1]
            scale = c_A / np.maximum(n_tokens, 1)
            add_sums(encoded, scale, means)  # no token: an empty sum
            return np.where(n_tokens > 0, var_Q, np.nan), None

        return posterior


@dataclass(eq=False, repr=False, kw_only=True)
class SIFVectorizer(_Weighted):
    """Means where frequent words weigh less, minus the directions all sentences share.

        mu_S = (I - sum_k c_k u_k u_k') sum_w weight(w) A_w / n_tokens / (1 + 1/(lam var_P))
        weight(w) = a / (a + p(w)),   var_Q = 1 / (lam + 1/var_P)

    Smooth inverse frequency (Arora, Liang and Ma, 2017), and with `weights="uSIF"` its
    unsupervised form (Ethayarajh, 2018); at lam = inf the vectors are theirs. A token of weight w
    counts as its word by w and as nothing in particular, a vector around 0, by 1 - w. SIF removes
    one direction; uSIF five, each by its fraction c_k of their variance.

    Parameters
    ----------
    word_vectors : WordVectors
        With counts.
    weights : {"SIF", "uSIF"}, default="SIF"
        a / (a + p(w)); or a / (a/2 + p(w)) with `a` computed from the vocabulary.
    a : float, default=1e-3
        Where weights start to fall; not used by uSIF.
    learn_from : {"table", "texts"}, default="table"
        Where the shared directions come from: sentences of independent words of the source, which
        the table and its counts describe, or the texts given to `fit`.
    lam : float, default=inf
        Weight of the data. It changes the length of the means and the variance, not a direction.
    prior_variance : float, default=1.0
        Of the prior around 0.
    swap_roles, on_empty, batch_size, n_jobs
        As in AverageVectorizer.

    Attributes
    ----------
    a_ : float
    directions_ : array, shape (n_directions, n_dims)
    shares_ : array, shape (n_directions,)
        How much of each is removed, c_k above.

    Examples
    --------
    >>> import numpy as np
    >>> from pacsent import Vocabulary, WordVectors
    >>> from pacsent.sentences import SIFVectorizer
    >>> words = WordVectors(Vocabulary(["the", "good", "film"], [9, 2, 1]), np.eye(3))
    >>> SIFVectorizer(words, a=0.1).fit([]).transform(["the good film"]).round(2)
    array([[-0.09,  0.03,  0.11]])
    """

    names: ClassVar = {
        "SIF": Name(fixed={"weights": "SIF"}),
        "uSIF": Name(fixed={"weights": "uSIF"}),
    }

    learned: ClassVar = {
        "a": Learned(np.float64, ()),
        "directions": Learned(np.float64, (None, "n_dims")),
        "shares": Learned(np.float64, ("directions",)),
    }
    _parameter_constraints: ClassVar[dict] = {
        **_Weighted._parameter_constraints,
        **ROLES,
        "weights": [StrOptions({"SIF", "uSIF"})],
        "a": [Interval(Real, 0, None, closed="neither")],
        "learn_from": [StrOptions({"table", "texts"})],
    }

    weights: str = "SIF"
    a: float = 1e-3
    learn_from: str = "table"
    swap_roles: bool = False

    @property
    def learns_from_text(self) -> bool:  # type: ignore[override]
        """True if `fit` reads the texts it is given."""
        return self.learn_from == "texts"

    @property
    def _paper_name(self) -> str:
        return self.weights if isinstance(self.weights, str) else ""

    def _needs_prior_table(self) -> bool:
        return False

    def _learn(self, encoded: Encoded) -> dict[str, Any]:
        p = self._fractions()
        length = _SENTENCE_LENGTH
        if self.learn_from == "texts":
            if encoded.ids.size == 0:
                raise ValueError(
                    f"{type(self).__name__} with learn_from='texts' must be fitted on sentences "
                    f"with in-vocabulary words. Got {encoded.n_sentences:,} without any instead. "
                    "Pass texts, or learn_from='table'."
                )
            length = max(1.0, encoded.ids.size / encoded.n_sentences)

        a = float(self.a)
        if self.weights == "uSIF":
            a = float(usif_a(p, length))
        weights = self._word_weights(p, a)
        if self.learn_from == "texts":
            second = self._moment_of_texts(encoded, weights)
        else:
            second = self._moment_of_table(p, weights, length)

        directions, shares = main_directions(second, _N_DIRECTIONS[self.weights])
        if self.weights == "SIF":  # removed as a whole
            shares = np.ones(len(shares))
        return {"a": a, "directions": directions, "shares": shares}

    def _moment_of_texts(self, encoded: Encoded, weights: np.ndarray) -> np.ndarray:
        """Second moment of the weighted means of these texts, (n_dims, n_dims)."""
        A_hat, _ = self._vector_tables()
        table = PoolTable(A_hat, self._dtype)
        table_weights = weights.astype(self._dtype)
        n_tokens = np.diff(encoded.offsets)
        scale = 1.0 / np.maximum(n_tokens, 1)
        vectors = np.empty((encoded.n_sentences, self.n_dims), self._dtype)
        pool(encoded, [(table, table_weights, scale)], vectors)

        same_weights = np.full(len(vectors), 1.0 / len(vectors))
        _, second = moments(vectors, same_weights)
        return second

    def _moment_of_table(self, p: np.ndarray, weights: np.ndarray, length: float) -> np.ndarray:
        """The same of texts of `length` independent words of the source."""
        frequent = heaviest(p * weights)  # the others hardly occur, and are most of the table
        A_hat, _ = self._vector_tables()
        A = A_hat.read(frequent)
        p = p[frequent]
        weights = weights[frequent]
        _, second = moments(A, p * weights**2)
        mean = (p * weights) @ A.astype(float)
        return sentence_moment(mean, second, length)

    def _word_weights(self, p: np.ndarray, a: float) -> np.ndarray:
        if self.weights == "SIF":
            return sif_weights(p, a)
        return 2 * sif_weights(p, a / 2)  # a/(a/2 + p) = 2 (a/2) / (a/2 + p)

    def _prepared(self) -> BatchPosterior:
        table, _ = self._pool_tables()
        weights = self._word_weights(self._fractions(), self.a_)
        weights = weights.astype(self._dtype)
        U = self.directions_.astype(self._dtype)  # (n_directions, n_dims)
        removed = self.directions_ * self.shares_[:, None]  # c_k u_k
        removed = removed.astype(self._dtype)

        def add_sums(encoded: Encoded, scale: np.ndarray, means: np.ndarray) -> None:
            pool(encoded, [(table, weights, scale)], means)
            # One product for each direction: a sentence's vector does not depend on its batch.
            parts = [np.einsum("ij,j->i", means, u) for u in U]
            for part, direction in zip(parts, removed):
                means -= part[:, None] * direction

        return self._posterior_of(add_sums)


@dataclass(eq=False, repr=False, kw_only=True)
class SIFSumVectorizer(_Weighted):
    """The recipe for similarity and search: unit rows of both matrices summed, shared parts damped.

        T_w = ((A_w - a0)/|A_w - a0| + (B_w - b0)/|B_w - b0|) D
        mu_S = sum_w weight(w) T_w / n_tokens / (1 + 1/(lam var_P)),  weight(w)^2 = a/(a + p(w))

    a0 and b0 are the means of the tables, D evens out dimensions and damps the directions that
    words share (`solvers.weights.damping`), all under the distribution p(w) weight(w). Made for
    cosines: the vectors are not in the coordinates of either table.

    Parameters
    ----------
    word_vectors : WordVectors
        With both matrices and counts.
    a : float, default=1.5e-3
        Where weights start to fall.
    lam, prior_variance, on_empty, batch_size, n_jobs
        As in SIFVectorizer.

    Attributes
    ----------
    centres_ : array, shape (2, n_dims)
    map_ : array, shape (n_dims, n_dims)
        D above.

    Notes
    -----
    The first use makes T once, a table of float32 numbers as large as one of the two, and keeps it.

    Examples
    --------
    >>> import numpy as np
    >>> from pacsent import Vocabulary, WordVectors, make_encoder
    >>> words = WordVectors(Vocabulary(["good", "film"], [1, 3]), np.eye(2), -np.eye(2))
    >>> make_encoder("SIF-sum", words).fit_transform(["a good film"]).shape
    (1, 2)
    """

    names: ClassVar = {"SIF-sum": Name(swaps=False)}  # the sum is the same either way
    in_table_space: ClassVar[bool] = False
    learned: ClassVar = {
        "centres": Learned(np.float64, (2, "n_dims")),
        "map": Learned(np.float64, ("n_dims", "n_dims")),
    }
    _parameter_constraints: ClassVar[dict] = {
        **_Weighted._parameter_constraints,
        "a": [Interval(Real, 0, None, closed="neither")],
    }

    a: float = 1.5e-3

    def _word_weights(self) -> np.ndarray:
        return np.sqrt(sif_weights(self._fractions(), self.a))

    def _learn(self, encoded: Encoded) -> dict[str, Any]:
        weights = self._fractions() * self._word_weights()
        frequent = heaviest(weights)  # the others hardly occur, and are most of the table
        q = weights[frequent]
        total = max(q.sum(), np.finfo(float).tiny)
        q = q / total

        A_hat, B_hat = self._both_tables()
        rows = [A_hat.read(frequent), B_hat.read(frequent)]
        centres = np.stack([q @ table.astype(float) for table in rows])
        summed_rows = _sum_unit_rows(rows, centres)
        mean, second = moments(summed_rows, q)
        return {"centres": centres, "map": damping(mean, second, _APERTURE)}

    def _both_tables(self) -> tuple[VectorTable, VectorTable]:
        A_hat, B_hat = self._vector_tables()
        return A_hat, cast(VectorTable, B_hat)  # these settings always read it

    def table(self) -> np.ndarray:
        """T above, whose rows replace the words of a sentence.

        Returns
        -------
        T : array, shape (n_words, n_dims)
        """

        def build() -> np.ndarray:
            A_hat, B_hat = self._both_tables()
            map_ = self.map_.astype(self._dtype)
            table = np.empty(A_hat.shape, self._dtype)
            for start in range(0, len(table), _BLOCK_ROWS):
                block = slice(start, start + _BLOCK_ROWS)
                rows = [A_hat.read(block), B_hat.read(block)]
                table[block] = _sum_unit_rows(rows, self.centres_) @ map_
            return table

        return self._derived("table", build)

    def _prepared(self) -> BatchPosterior:
        table = self._derived("pool table", lambda: PoolTable(self.table(), self._dtype))
        weights = self._word_weights().astype(self._dtype)

        def add_sums(encoded: Encoded, scale: np.ndarray, means: np.ndarray) -> None:
            pool(encoded, [(table, weights, scale)], means)

        return self._posterior_of(add_sums)


@dataclass(eq=False, repr=False, kw_only=True)
class ConcatVectorizer(_Weighted):
    """The plain means of both matrices, concatenated: 2 n_dims numbers for a sentence.

        mu_S = (mean of A_hat, mean of B_hat) / (1 + 1/(lam var_P)),   var_Q = 1/(lam + 1/var_P)

    Parameters
    ----------
    word_vectors : WordVectors
        With both matrices.
    lam : float, default=inf
        Weight of the data; `inf` gives the means themselves.
    prior_variance, on_empty, batch_size, n_jobs
        As in SIFVectorizer.

    Examples
    --------
    >>> import numpy as np
    >>> from pacsent import Vocabulary, WordVectors, make_encoder
    >>> words = WordVectors(Vocabulary(["good", "film"]), np.eye(2), -np.eye(2))
    >>> make_encoder("concat", words).fit_transform(["good film"])
    array([[ 0.5,  0.5, -0.5, -0.5]])
    """

    names: ClassVar = {"concat": Name(swaps=False)}  # the order of the halves is no role
    in_table_space: ClassVar[bool] = False

    @property
    def n_dims(self) -> int:
        """Numbers of a vector: those of both matrices."""
        return 2 * self.word_vectors.n_dims

    def _prepared(self) -> BatchPosterior:
        n_dims = self.word_vectors.n_dims
        tables = self._pool_tables()

        def add_sums(encoded: Encoded, scale: np.ndarray, means: np.ndarray) -> None:
            halves = means[:, :n_dims], means[:, n_dims:]
            pooled = np.empty((len(means), n_dims), means.dtype)
            for half, table in zip(halves, tables):
                pool(encoded, [(table, None, scale)], pooled)
                half[...] = pooled

        return self._posterior_of(add_sums)


def _sum_unit_rows(tables: Sequence[np.ndarray], centres: np.ndarray) -> np.ndarray:
    """Unit rows of two centred tables, summed."""
    parts = []
    for table, centre in zip(tables, centres):
        dtype = np.float64 if table.dtype == np.float64 else np.float32
        centred = np.asarray(table, dtype) - centre.astype(dtype)
        parts.append(unit_rows(centred))
    return parts[0] + parts[1]
