"""Posteriors in closed form: Average, PB-L2, IDF-Average, PB-IDF-L2 (`solvers.gaussians`)."""

from dataclasses import dataclass
from functools import partial
from numbers import Real
from typing import Any, ClassVar

import numpy as np
from scipy import sparse

from pacsent.parameter_checks import Interval, StrOptions
from pacsent.sentences.encoding import BatchPosterior
from pacsent.sentences.fitted_state import Learned
from pacsent.sentences.plain_encoder import batch_size
from pacsent.sentences.pooling import PoolTable, pool, token_sums
from pacsent.sentences.posterior_terms import ObjectiveTerms, Sentences
from pacsent.sentences.sentence_vectorizer import ROLES, Name, SentenceVectorizer
from pacsent.sentences.solvers.gaussians import idf, l2_coefficients, l2_lam
from pacsent.sentences.solvers.risks import row_norms
from pacsent.text.encoded import Encoded
from pacsent.words.vector_table import VectorTable


class ClosedForm(SentenceVectorizer):
    """Posteriors that are weighted sums of rows: mu = c_A sum beta_w A_w + c_B sum p_w B_w."""

    _parameter_constraints: ClassVar[dict] = {
        **SentenceVectorizer._parameter_constraints,
        "lam": [Interval(Real, 0, None, closed="right")],
        "prior_variance": [Interval(Real, 0, None, closed="neither")],
    }

    def _batch_size(self, n_sentences: int, n_jobs: int) -> int:
        return batch_size(self.batch_size, n_sentences, n_jobs)

    def _pool_tables(self) -> list[PoolTable | None]:
        """(A_hat, B_hat) for `pool`, made once."""

        def build() -> list[PoolTable | None]:
            A_hat, B_hat = self._vector_tables()
            A_pool = PoolTable(A_hat, self._dtype)
            B_pool = None if B_hat is None else PoolTable(B_hat, self._dtype)
            return [A_pool, B_pool]

        return self._derived("pool tables", build)


@dataclass(eq=False, repr=False, kw_only=True)
class _SquaredLoss(ObjectiveTerms, ClosedForm):
    """Base of Average and IDF: the parameters of the paper's squared loss."""

    _parameter_constraints: ClassVar[dict] = {
        **ClosedForm._parameter_constraints,
        **ROLES,
        "lam_mode": [StrOptions({"fixed", "per-token"})],
    }

    lam: float = 1.0
    lam_mode: str = "fixed"
    prior_variance: float = 1.0
    swap_roles: bool = False

    def _token_weights(self) -> np.ndarray:
        """Weight of each word in loss and prior precision, (n_words,)."""
        return np.ones(self.word_vectors.n_words)

    def _prior_terms(self, counts: sparse.csr_matrix) -> tuple[np.ndarray, np.ndarray]:
        weights = self._token_weights()
        total = counts @ weights  # (n_sentences,)
        _, B_hat = self._tables()
        count_fractions = sparse.diags_array(1.0 / total) @ counts
        fractions = count_fractions @ sparse.diags_array(weights)
        means = sum_rows(fractions, B_hat)
        return means, self.prior_variance / total

    def _squared_distance(self, sentences: Sentences, weights: sparse.csr_matrix) -> np.ndarray:
        """Sum over words of weight/2 E|A_w - h|^2, (n_sentences,).

        `weights` are (n_sentences, n_words). The expected square is written out:
        sum of weight |A_w|^2 - 2 (sum of weight A_w).mu + (sum of weight) (|mu|^2 + n_dims var_Q).
        """
        A_hat, _ = self._tables()
        mu = sentences.mu
        squares = row_norms(A_hat) ** 2
        total = np.asarray(weights.sum(axis=1)).ravel()
        cross = np.einsum("sd,sd->s", sum_rows(weights, A_hat), mu)
        lengths = np.einsum("sd,sd->s", mu, mu)
        spread = mu.shape[1] * sentences.var_Q
        squared_distance = weights @ squares - 2.0 * cross + total * (lengths + spread)
        return 0.5 * squared_distance


def sum_rows(weights: sparse.csr_matrix, table: np.ndarray) -> np.ndarray:
    """weights @ table in float64; only the rows of words that occur are widened."""
    weights = sparse.csr_matrix(weights)
    words, places = np.unique(weights.indices, return_inverse=True)
    shape = (weights.shape[0], words.size)
    narrow = sparse.csr_matrix((weights.data, places, weights.indptr), shape=shape)
    return narrow @ np.asarray(table[words], dtype=float)


@dataclass(eq=False, repr=False, kw_only=True)
class AverageVectorizer(_SquaredLoss):
    """Sentence vectors as exact posterior means under squared loss (Average, PB-L2).

        mu_S = (mean of A_hat + alpha * mean of B_hat) / (1 + alpha),  alpha = n_tokens/(var_P*lam)
        var_Q = 1 / (lam * (1 + alpha))

    Parameters
    ----------
    word_vectors : WordVectors
    lam : float, default=1.0
        Weight of the data. Larger values pull from the prior to the mean of `A_hat`; `inf` gives
        that mean.
    alpha : float or None, default=None
        Weight of the prior, the same for every length. Given, it replaces `lam`.
    lam_mode : {"fixed", "per-token"}, default="fixed"
        With "per-token", lambda is `lam * n_tokens` and alpha is 1/(lam * prior_variance) at every
        length. With "fixed", as in the paper, longer sentences lean more to the prior.
    prior_variance : float, default=1.0
        Variance of each word's prior. Larger values let a sentence move further from it.
    swap_roles : bool, default=False
        Whether output vectors take the place of input vectors and the reverse (`i-`).
    on_empty : {"warn", "error", "ignore"}, default="warn"
        What to do about sentences of OOV words only: mean 0, variance nan, and one warning;
        or stop.
    batch_size : int, default=1024
        Sentences worked on at once. The result does not depend on it.
    n_jobs : int or None, default=None
        Threads; None or -1 for all cores. The result does not depend on it.

    Examples
    --------
    >>> import numpy as np
    >>> from pacsent import Vocabulary, WordVectors
    >>> from pacsent.sentences import AverageVectorizer
    >>> vocabulary = Vocabulary(["good", "film"])
    >>> words = WordVectors(vocabulary, np.eye(2), -np.eye(2))
    >>> vectorizer = AverageVectorizer(words, lam=2.0).fit(["a good film"])
    >>> vectorizer.transform(["Good, good film!"])
    array([[-0.13333333, -0.06666667]])
    """

    names: ClassVar = {
        "Average": Name(fixed={"lam": 1.0}, defaults={"alpha": 0.0}),
        "PB-L2": Name(fixed={"alpha": None}),
    }

    _parameter_constraints: ClassVar[dict] = {
        **_SquaredLoss._parameter_constraints,
        "alpha": [Interval(Real, 0, None, closed="left"), None],
    }

    alpha: float | None = None

    @property
    def _paper_name(self) -> str:
        return "PB-L2" if self.alpha is None else "Average"

    def summed_table(self) -> VectorTable | None:
        return self._vector_tables()[0] if self.alpha == 0 else None

    def _needs_prior_table(self) -> bool:
        if self.alpha is not None:
            return self.alpha != 0
        return not np.isinf(self.lam)

    def _reason_without_posterior(self) -> str:
        if self._needs_prior_table():
            return ""
        setting = "alpha=0" if self.alpha is not None else "lam=inf"
        return f"with {setting} its posterior is a point, infinitely far from every Gaussian prior"

    def _lambda_of(self, n_tokens: np.ndarray) -> np.ndarray:
        return l2_lam(
            n_tokens,
            lam=self.lam,
            alpha=self.alpha,
            var_P=self.prior_variance,
            lam_mode=self.lam_mode,
        )

    def _data_terms(self, sentences: Sentences) -> Any:
        fractions = sparse.diags_array(1.0 / sentences.n_tokens) @ sentences.counts
        return self._squared_distance(sentences, fractions)

    def _prepared(self) -> BatchPosterior:
        A_hat, B_hat = self._pool_tables()
        lam_of_length = partial(
            l2_lam,
            lam=self.lam,
            alpha=self.alpha,
            var_P=self.prior_variance,
            lam_mode=self.lam_mode,
        )
        var_P = self.prior_variance

        def posterior(encoded: Encoded, means: np.ndarray) -> tuple[np.ndarray, Any]:
            n_tokens = np.diff(encoded.offsets).astype(float)
            lam = lam_of_length(n_tokens)
            has_tokens = n_tokens > 0
            c_A, c_B, var_Q = l2_coefficients(has_tokens, 1.0, n_tokens / var_P, lam)

            # beta_w = 1 / n_tokens, and the prior of each word has the precision 1 / var_P.
            scale_A = c_A / np.maximum(n_tokens, np.finfo(float).tiny)
            scale_B = c_B / var_P
            pool(encoded, [(A_hat, None, scale_A), (B_hat, None, scale_B)], means)
            return var_Q, None

        return posterior


@dataclass(eq=False, repr=False, kw_only=True)
class IDFVectorizer(_SquaredLoss):
    """Posterior means where rare words weigh more (IDF-Average, PB-IDF-L2).

        mu_S = sum of IDF * (A_hat + B_hat/lam) / ((1 + 1/lam) * b),     b = sum of IDF(w)
        var_Q = 1 / (b * (1 + lam)),                                     prior_variance = 1

    IDF(w) = ln(n_sentences / number of training sentences with w) + 1, learned by `fit`. A word
    that no training sentence contains counts as if one did.

    Parameters
    ----------
    word_vectors : WordVectors
    lam : float, default=1.0
        Weight of the data. Larger values pull from the prior to `A_hat`; `inf` leaves the prior
        out. The loss is a sum over tokens, so the balance is the same at every length.
    lam_mode : {"fixed", "per-token"}, default="fixed"
        With "per-token", lambda is `lam * n_tokens`: the prior fades with the length.
    prior_variance : float, default=1.0
        The prior of a word has variance prior_variance / IDF(w).
    swap_roles, on_empty, batch_size, n_jobs
        As in AverageVectorizer.

    Attributes
    ----------
    idf_ : array, shape (n_words,)
        The weights.

    Examples
    --------
    >>> from pacsent import make_encoder
    >>> vectorizer = make_encoder("PB-IDF-L2", "english").fit(["a good film", "a quiet film"])
    >>> vectorizer.transform(["good quiet film"]).shape
    (1, 256)
    """

    names: ClassVar = {"IDF-Average": Name(defaults={"lam": float("inf")}), "PB-IDF-L2": Name()}
    learned: ClassVar = {"idf": Learned(np.float64, ("n_words",), low=np.finfo(float).tiny)}
    learns_from_text: ClassVar[bool] = True

    @property
    def _paper_name(self) -> str:
        return "IDF-Average" if self.lam == float("inf") else "PB-IDF-L2"

    def _needs_prior_table(self) -> bool:
        return not np.isinf(self.lam)

    def _reason_without_posterior(self) -> str:
        if self._needs_prior_table():
            return ""
        return "with lam=inf its posterior is a point, infinitely far from every Gaussian prior"

    def _token_weights(self) -> np.ndarray:
        return self.idf_

    def _lambda_of(self, n_tokens: np.ndarray) -> np.ndarray:
        return l2_lam(n_tokens, lam=self.lam, lam_mode=self.lam_mode)

    def _data_terms(self, sentences: Sentences) -> Any:
        # The paper's mean over tokens of beta_w/2 |A_w - h|^2 with beta_w = n IDF(w)
        weighted = sentences.counts @ sparse.diags_array(self._token_weights())
        return self._squared_distance(sentences, weighted)

    def _learn(self, encoded: Encoded) -> dict[str, Any]:
        counts = self.word_vectors.vocabulary.count(encoded)
        n_containing = np.bincount(counts.indices, minlength=self.word_vectors.n_words)
        return {"idf": idf(n_containing, encoded.n_sentences)}

    def _prepared(self) -> BatchPosterior:
        A_hat, B_hat = self._pool_tables()
        weights = self.idf_.astype(self._dtype)
        var_P = self.prior_variance

        def posterior(encoded: Encoded, means: np.ndarray) -> tuple[np.ndarray, Any]:
            n_tokens = np.diff(encoded.offsets).astype(float)
            b = token_sums(encoded, self.idf_)
            lam = l2_lam(n_tokens, lam=self.lam, lam_mode=self.lam_mode)
            has_tokens = n_tokens > 0
            c_A, c_B, var_Q = l2_coefficients(has_tokens, b, b / var_P, lam)
            scale_B = c_B / var_P
            pool(encoded, [(A_hat, weights, c_A), (B_hat, weights, scale_B)], means)
            return var_Q, None

        return posterior
