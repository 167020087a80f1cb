"""Prior, KL, objective and the paper's bound of a posterior, for every method that has one.

A method with a posterior defines the terms of data term + KL(Q || P)/lambda (`ObjectiveTerms`); the
public methods, which every method has, put them together (`PosteriorTerms`). They are for reading
and checking the paper; nothing in pacsent certifies with them.
"""

from abc import ABC, abstractmethod
from typing import Any, ClassVar, NamedTuple

import numpy as np
from scipy import sparse

from pacsent.bounds import pac_bayes as bounds
from pacsent.sentences.solvers.gaussians import kl_gaussians
from pacsent.sentences.solvers.risks import gibbs_risk
from pacsent.words.noise import noise_probabilities

# Negative samples per word, and the power of the noise distribution, that the paper uses for every
# method; those of methods under the squared loss only occur in Theorem 1.
_N_NEGATIVES = 15
_NOISE_POWER = 0.75


class Sentences(NamedTuple):
    """Sentences with at least one in-vocabulary word, as the terms of an objective need them."""

    counts: sparse.csr_matrix  # (n_known, n_words)
    n_tokens: np.ndarray  # (n_known,)
    mu: np.ndarray  # (n_known, n_dims), means of their posteriors
    var_Q: np.ndarray  # (n_known,)
    known: np.ndarray  # (n_sentences,), which of the given sentences these are


class ObjectiveTerms(ABC):
    """Terms of the objective, which every method with a posterior defines.

    A method lists this class before `SentenceVectorizer` or a subclass of it.
    """

    def _reason_without_posterior(self) -> str:
        """Why these settings have no prior and KL; "" where they have them."""
        return ""

    @abstractmethod
    def _prior_terms(self, counts: sparse.csr_matrix) -> tuple[np.ndarray, np.ndarray]:
        """(means, variances) of the priors of sentences with these word counts, in float64."""

    @abstractmethod
    def _lambda_of(self, n_tokens: np.ndarray) -> np.ndarray:
        """The lambda that divides the KL of a sentence, (n_sentences,)."""

    @abstractmethod
    def _data_terms(self, sentences: Sentences) -> np.ndarray:
        """The expected loss of each sentence under its posterior, (n_sentences,)."""


class PosteriorTerms:
    """Public methods `prior`, `kl`, `objective` and `bound` of the sentence methods."""

    # of SentenceVectorizer
    word_vectors: Any
    posterior: Any
    method_name: Any
    _check_ready: Any
    _sentences: Any
    _tables: Any

    # of ObjectiveTerms, if the method has a posterior
    _prior_terms: Any
    _lambda_of: Any
    _data_terms: Any

    _no_posterior: ClassVar[str] = (
        "it has no prior that is made of the words of a sentence, and minimises no bound"
    )

    def _reason_without_posterior(self) -> str:
        """Why this method has no prior and KL; `ObjectiveTerms` overrides it."""
        return self._no_posterior

    # ---- the public methods ---------------------------------------------------------------------

    def prior(self, X: Any) -> tuple[np.ndarray, np.ndarray]:
        """Means and variances of the priors N(mean, variance I), each made of a sentence's words.

        Parameters
        ----------
        X : iterable of str or of token lists, table of one column, or Encoded

        Returns
        -------
        means : array, shape (n_sentences, n_dims), float64
        variances : array, shape (n_sentences,)
            nan for sentences without an in-vocabulary word.
        """
        self._check_has_posterior()
        counts = self._counts_of(X)
        known = np.diff(counts.indptr) > 0

        means = np.zeros((known.size, self.word_vectors.n_dims))
        variances = np.full(known.size, np.nan)
        prior_means, prior_variances = self._prior_terms(counts[known])
        means[known] = prior_means
        variances[known] = prior_variances
        return means, variances

    def kl(self, X: Any) -> Any:
        """KL(Q_S || P_S) of each sentence, in nats; of w-PB-neg one number for all its words.

        Parameters
        ----------
        X : iterable of str or of token lists, table of one column, or Encoded

        Returns
        -------
        kl : array, shape (n_sentences,)
            nan for sentences without an in-vocabulary word. For w-PB-neg a float: the sum over
            the posteriors of all trained words, whatever the sentences.
        """
        sentences = self._solve_sentences(X)
        return _spread(self._kl_terms(sentences), sentences.known)

    def objective(self, X: Any) -> Any:
        """Value of what the method minimises at its solution: data term + KL(Q || P)/lambda.

        Parameters
        ----------
        X : iterable of str or of token lists, table of one column, or Encoded

        Returns
        -------
        objective : array, shape (n_sentences,)
            nan for sentences without an in-vocabulary word. For w-PB-neg a float, that of `X` as
            the corpus.
        """
        sentences = self._solve_sentences(X)
        kl = self._kl_terms(sentences)
        value = self._data_terms(sentences) + kl / self._lambda_of(sentences.n_tokens)
        return _spread(value, sentences.known)

    def bound(self, X: Any, *, delta: float = 0.05, lam: Any = None) -> Any:
        """Theorem 1 as printed, and no guarantee: the prior is made of the words it is tested on.

        It was below the true risk of 200 of 200 simulated sentences
        (`pacsent.paper.printed.simulate_bound`). For a guarantee use `pacsent.certify_encoder`.

            R(Q_S) <= (1 - exp(-lam R_hat/N - (KL - ln delta)/N)) / (1 - exp(-lam/N)),  N = (k+1) n
            R_hat = (R+ + k R-) / (k+1)

        R+ is the chance that sign(h.A_w), h ~ Q_S, calls a word of the sentence noise, and R- that
        it calls a negative sample one of its words. This is the zero-one Gibbs risk on the paper's
        D_S, with k negative samples per word and, as printed, no bias; R- is exact, because the
        distribution of the noise is known.

        Parameters
        ----------
        X : iterable of str or of token lists, table of one column, or Encoded
        delta : float, default=0.05
            Probability of failure of the theorem, if its assumptions held.
        lam : float, array or None, default=None
            lambda of the theorem; None takes that of the method. The loss of PB-neg is a sum over
            the k + 1 examples of a word, so that what it minimises is the bound at (k + 1) times
            its lambda, with log-losses. Useful values are of the order of N: for a small lam the
            bound is close to ln(1/delta)/lam or more.

        Returns
        -------
        bound : array, shape (n_sentences,)
            At most 1; nan for sentences without an in-vocabulary word. For w-PB-neg a float, that
            of `X` as the corpus.
        """
        sentences = self._solve_sentences(X)
        k = self._n_negatives_of_theorem()
        risk = self._zero_one_risk(sentences, k)

        kl = np.maximum(self._kl_terms(sentences), 0.0)
        lam = self._lambda_of(sentences.n_tokens) if lam is None else np.asarray(lam, dtype=float)
        size = (k + 1) * self._theorem_size(sentences.n_tokens)

        value = bounds.catoni(risk, kl, size, delta, lam=lam)
        return _spread(value, sentences.known)

    # ---- how it works ---------------------------------------------------------------------------

    def _check_has_posterior(self) -> None:
        self._check_ready()
        reason = self._reason_without_posterior()
        if reason:
            name = self.method_name or type(self).__name__
            raise ValueError(
                f"prior, kl, objective and bound must be asked of a method with a posterior. Got "
                f"{name} instead: {reason}. Use PB-L2, PB-IDF-L2, PB-neg or w-PB-neg."
            )

    def _counts_of(self, X: Any) -> sparse.csr_matrix:
        vocabulary = self.word_vectors.vocabulary
        encoded = vocabulary.encode(self._sentences(X))
        return sparse.csr_matrix(vocabulary.count(encoded), dtype=float)

    def _solve_sentences(self, X: Any) -> Sentences:
        """The sentences with a word, and their posteriors in float64."""
        self._check_has_posterior()
        encoded = self.word_vectors.vocabulary.encode(self._sentences(X))
        means, variances = self.posterior(encoded)
        counts = self._counts_of(encoded)

        known = np.diff(counts.indptr) > 0
        known_counts = counts[known]
        return Sentences(
            counts=known_counts,
            n_tokens=np.asarray(known_counts.sum(axis=1)).ravel(),
            mu=means[known].astype(float),
            var_Q=variances[known],
            known=known,
        )

    def _kl_terms(self, sentences: Sentences) -> Any:
        prior_means, prior_variances = self._prior_terms(sentences.counts)
        return kl_gaussians(sentences.mu, sentences.var_Q, prior_means, prior_variances)

    def _theorem_size(self, n_tokens: np.ndarray) -> Any:
        """Positive examples of the theorem: the tokens of a sentence, or of the corpus."""
        return n_tokens

    def _n_negatives_of_theorem(self) -> int:
        training = self.word_vectors.training or {}
        return int(training.get("n_negatives", _N_NEGATIVES))

    def _noise_power_of_theorem(self) -> float:
        return _NOISE_POWER

    def _noise_counts_of_theorem(self) -> np.ndarray:
        """Counts behind the noise distribution: those of the source, where `fit` learns none."""
        return self.word_vectors.vocabulary.require_counts("the noise distribution of Theorem 1")

    def _zero_one_risk(self, sentences: Sentences, n_negatives: int) -> np.ndarray:
        """(R+ + k R-)/(k+1) of each sentence, without a bias; at most 1 whatever the rounding."""
        counts = self._noise_counts_of_theorem()
        words = np.flatnonzero(counts)
        p_noise = noise_probabilities(counts[words], self._noise_power_of_theorem())

        A_hat, _ = self._tables()
        positive_weight = 1.0 / (n_negatives + 1)
        noise_weight = n_negatives / (n_negatives + 1)
        gibbs = gibbs_risk(
            sentences.mu,
            sentences.var_Q,
            sentences.counts,
            A_hat,
            p_noise,
            bias=0.0,
            weights=(positive_weight, noise_weight),
            noise_words=words,
        )
        return np.clip(gibbs.risk, 0.0, 1.0)


def _spread(values: Any, known: np.ndarray) -> Any:
    """Values of the known sentences at their places, nan elsewhere; a single number as it is."""
    if np.ndim(values) == 0:
        return float(values)
    out = np.full(known.size, np.nan)
    out[known] = values
    return out
