"""w-PB-neg: one posterior for each word, shared by all sentences."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from scipy import sparse

from pacsent.parameter_checks import StrOptions
from pacsent.progress import bar
from pacsent.sentences.encoding import BatchPosterior
from pacsent.sentences.fitted_state import WORD_IDS, Learned
from pacsent.sentences.methods.closed_forms import sum_rows
from pacsent.sentences.methods.sampled_methods import (
    MINIMISED,
    POSITIVE,
    SCHEDULED,
    NegativeSampling,
    learning_rates,
)
from pacsent.sentences.pooling import PoolTable, pool
from pacsent.sentences.posterior_terms import ObjectiveTerms, Sentences
from pacsent.sentences.sentence_vectorizer import Name
from pacsent.sentences.solvers import pb_neg, w_pb_neg
from pacsent.sentences.solvers.gaussians import kl_gaussians
from pacsent.text.encoded import Encoded
from pacsent.threads import n_threads, one_blas_thread


@dataclass(eq=False, repr=False, kw_only=True)
class WordPBNegVectorizer(ObjectiveTerms, NegativeSampling):
    """Sentence vectors as means of word posteriors, learned from the training texts (w-PB-neg).

        mu_S = mean of mu_w over the tokens of S;  var_S = sum over types of (count/n)^2 var_w

    Every word of the training sentences has a posterior N(mu_w, var_w I), all learned together
    under the negative sampling loss of the sentences; see `pacsent.sentences.solvers.w_pb_neg`. A
    new sentence costs no more than an average. Words that do not occur in training keep their
    prior mean, `B_hat`, as if it were certain: they add nothing to the variance of a sentence,
    which is no measure of uncertainty where there are such words.

    Parameters
    ----------
    word_vectors : WordVectors
    lam : float, default=1.0
        Weight of the data. Larger values let words move further from their prior means.
    prior_variance : "matched", "paper" or float, default="matched"
        "paper": the prior variance of a word is T/count(w), T the number of training tokens. That
        is so wide that a draw from a posterior is noise; only the means are of use.
        "matched": s T/count(w), s such that the median training sentence has the variance
        1/n_tokens, as in PB-neg, and the data weigh lam/s: so the means are held as in the paper,
        and the posteriors are of use too. A number: that times (median p)/p(w), p = count/T, with
        the data weighing lam, which then ought to be of the order of the number of sentences.
    weighting : {"sentence", "token"}, default="sentence"
        Whether every training sentence counts the same, or every token.
    n_negatives, noise_power
        As in PBNegVectorizer.
    n_epochs : int, default=40
        Passes over the training sentences.
    learning_rate : float, default=0.025
        First step; it falls linearly, epoch by epoch, to 0.
    swap_roles, on_empty, batch_size
        As in PBNegVectorizer.
    n_jobs : int or None, default=None
        Threads; None or -1 for all cores. With more than one, training is not repeatable to the
        last digit: threads update common words without locks.
    random_state : int, RandomState or None, default=None
    verbose : bool, default=False
        Whether to show progress on stderr.

    Attributes
    ----------
    words_ : array of int, shape (n_trained,)
        The words of the training sentences.
    word_means_ : array, shape (n_trained, n_dims)
    word_variances_, prior_variances_ : array, shape (n_trained,)
    prior_scale_ : float
        s above; 1 unless `prior_variance` is "matched". The data weigh `lam / prior_scale_`.
    noise_counts_ : array, shape (n_words,)
    seed_ : int
        Of the order of sentences and of the negatives.

    Examples
    --------
    >>> from pacsent import make_encoder
    >>> vectorizer = make_encoder("w-PB-neg", "english", n_epochs=2, n_jobs=1)
    >>> vectorizer.fit_transform(["a good film", "a quiet film"]).shape
    (2, 256)
    """

    names: ClassVar = {"w-PB-neg": Name()}
    learned: ClassVar = {
        **NegativeSampling.learned,
        "words": WORD_IDS,
        "word_means": Learned(None, ("words", "n_dims")),
        "word_variances": Learned(np.float64, ("words",)),
        "prior_variances": Learned(np.float64, ("words",)),
        "prior_scale": Learned(np.float64, ()),
    }
    _parameter_constraints: ClassVar[dict] = {
        **NegativeSampling._parameter_constraints,
        "lam": MINIMISED["lam"],
        "prior_variance": [StrOptions({"matched", "paper"}), POSITIVE],
        "weighting": [StrOptions({"sentence", "token"})],
        **SCHEDULED,
    }

    lam: float = 1.0
    prior_variance: float | str = "matched"
    weighting: str = "sentence"
    n_epochs: int = 40
    learning_rate: float = 0.025
    verbose: bool | int = False

    def _learn(self, encoded: Encoded) -> dict[str, Any]:
        values = super()._learn(encoded)
        words, p_noise = self._noise_of_counts(values["noise_counts"])
        counts = self._trained_counts(encoded, words)

        prior_scale = 1.0
        if self.prior_variance == "matched":
            prior_scale = w_pb_neg.matched_scale(counts)
        median_variance = None
        if not isinstance(self.prior_variance, str):
            median_variance = self.prior_variance
        var_P_of_all = w_pb_neg.prior_variances(values["noise_counts"], median_variance)
        var_P = prior_scale * var_P_of_all[words]
        lam = self.lam / prior_scale

        mu, var_Q = self._train(counts, words, p_noise, var_P, lam, values["seed"])
        values["words"] = words
        values["word_means"] = mu.astype(self._dtype)
        values["word_variances"] = var_Q
        values["prior_variances"] = var_P
        values["prior_scale"] = prior_scale
        return values

    def word_posteriors(
        self, encoded: Encoded, prior_variances: np.ndarray, lam: float
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Posteriors of words under a prior that was fixed elsewhere, such as a certificate's.

        The parameters `prior_variance` and `lam` of the estimator are not used.

        Parameters
        ----------
        encoded : Encoded
            The training sentences.
        prior_variances : array, shape (n_words,)
            One for each word of the vectors.
        lam : float
            Weight of the data against this prior.

        Returns
        -------
        words : array of int, shape (n_trained,)
        means : array, shape (n_trained, n_dims)
        variances : array, shape (n_trained,)
        """
        noise = super()._learn(encoded)
        words, p_noise = self._noise_of_counts(noise["noise_counts"])
        counts = self._trained_counts(encoded, words)
        var_P = prior_variances[words]
        mu, var_Q = self._train(counts, words, p_noise, var_P, lam, noise["seed"])
        return words, mu, var_Q

    def _trained_counts(self, encoded: Encoded, words: np.ndarray) -> sparse.csr_matrix:
        """Counts of the trained words in each sentence that has any, (n_sentences, n_trained)."""
        all_counts = self.word_vectors.vocabulary.count(encoded)
        counts = all_counts.tocsc()[:, words].tocsr()
        has_words = np.diff(counts.indptr) > 0
        return counts[has_words]

    def _train(
        self,
        counts: sparse.csr_matrix,
        words: np.ndarray,
        p_noise: np.ndarray,
        var_P: np.ndarray,
        lam: float,
        seed: int,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Means and variances of the posteriors of `words`."""
        A_hat, B_hat = self._float_tables()
        A = np.asarray(A_hat[words], dtype=np.float32)
        B = np.asarray(B_hat[words], dtype=np.float32)
        steps = learning_rates(self.n_epochs, self.learning_rate)
        is_shown = bool(self.verbose)

        with (
            one_blas_thread(),
            bar("w-PB-neg", total=self.n_epochs, unit="epochs", enabled=is_shown) as progress,
        ):
            mu, rho = w_pb_neg.train(
                counts,
                (A, B),
                var_P,
                p_noise,
                steps=steps,
                n_negatives=self.n_negatives,
                lam=lam,
                weighting=self.weighting,
                n_threads=n_threads(self.n_jobs),
                rng=np.random.default_rng(seed),
                callback=lambda epoch: progress.advance(),
            )

        are_finite = np.isfinite(mu).all() and np.isfinite(rho).all()
        if not are_finite:
            raise ValueError(
                f"learning_rate must be small enough for training to end at numbers. Got "
                f"{self.learning_rate} instead, and posteriors that are not finite. Lower it, and "
                "check the word vectors for numbers that are not finite."
            )
        return mu, np.exp(rho)

    def _prior_terms(self, counts: sparse.csr_matrix) -> tuple[np.ndarray, np.ndarray]:
        """The prior of h_S = sum of (c_v/n) h_v that the priors of the words imply."""
        n_tokens = np.asarray(counts.sum(axis=1)).ravel()
        _, B_hat = self._float_tables()
        variances = np.zeros(self.word_vectors.n_words)
        variances[self.words_] = self.prior_variances_
        fractions = sparse.csr_matrix(sparse.diags_array(1.0 / n_tokens) @ counts)
        means = sum_rows(fractions, B_hat)
        return means, fractions.power(2) @ variances

    def _lambda_of(self, n_tokens: np.ndarray) -> np.ndarray:
        return self.lam / self.prior_scale_

    def _kl_terms(self, sentences: Sentences) -> Any:
        _, B_hat = self._float_tables()
        prior_means = B_hat[self.words_]
        kl = kl_gaussians(
            self.word_means_, self.word_variances_, prior_means, self.prior_variances_
        )  # (n_trained,)
        return float(kl.sum())

    def _data_terms(self, sentences: Sentences) -> Any:
        words, p_noise = self._noise_of_counts(self.noise_counts_)
        A_hat, _ = self._float_tables()
        kp = self.n_negatives * p_noise
        losses = pb_neg.expected_loss(
            sentences.mu, sentences.var_Q, sentences.counts, A_hat, words, kp
        )
        omega = w_pb_neg.sentence_weights(sentences.n_tokens, self.weighting)
        return float(omega @ losses)

    def _zero_one_risk(self, sentences: Sentences, n_negatives: int) -> Any:
        risks = super()._zero_one_risk(sentences, n_negatives)
        return float(sentences.n_tokens @ risks / sentences.n_tokens.sum())

    def _theorem_size(self, n_tokens: np.ndarray) -> Any:
        return n_tokens.sum()

    def _prepared(self) -> BatchPosterior:
        def build() -> tuple[PoolTable, np.ndarray]:
            _, B_hat = self._float_tables()
            means = B_hat.astype(self._dtype)  # a copy
            means[self.words_] = self.word_means_
            variances = np.zeros(self.word_vectors.n_words)
            variances[self.words_] = self.word_variances_
            return PoolTable(means, self._dtype), variances

        # The posteriors of all words: learned ones, and the prior mean of the others.
        table, word_variances = self._derived("tables", build)

        def posterior(encoded: Encoded, means: np.ndarray) -> tuple[np.ndarray, Any]:
            n_tokens = np.maximum(np.diff(encoded.offsets), 1)
            pool(encoded, [(table, None, 1.0 / n_tokens)], means)
            counts = self.word_vectors.vocabulary.count(encoded)
            sums = counts.power(2) @ word_variances  # (n_sentences,)
            return sums / n_tokens.astype(float) ** 2, None

        return posterior
