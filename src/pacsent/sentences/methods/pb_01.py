"""PB-01: posteriors that minimise the zero-one Gibbs risk or its bound."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np
from scipy import sparse
from sklearn.utils import check_random_state

from pacsent.sentences.encoding import BatchPosterior
from pacsent.sentences.fitted_state import WORD_IDS, Learned
from pacsent.sentences.methods.closed_forms import sum_rows
from pacsent.sentences.methods.pb_neg import PBNegVectorizer
from pacsent.sentences.posterior_terms import ObjectiveTerms, Sentences
from pacsent.sentences.sentence_vectorizer import Name, SentenceVectorizer
from pacsent.sentences.solvers.pb_01 import Documents, minimise
from pacsent.sentences.solvers.risks import gibbs_risk, row_norms
from pacsent.text.encoded import Encoded
from pacsent.threads import one_blas_thread
from pacsent.words.noise import noise_probabilities

# Largest lambda per token of the PB-neg problem that the search starts from: the optimum of a
# larger one lies far away and takes long.
_START_LAM = 8.0

# Negative samples, drawn once from p_n, that stand for all of them while searching; a smaller
# vocabulary is used whole.
_N_NOISE = 2048


@dataclass(eq=False, repr=False, kw_only=True)
class PB01Vectorizer(ObjectiveTerms, SentenceVectorizer):
    """Posteriors that minimise the zero-one Gibbs risk plus KL/lam; our own method.

        (mean_w Phi(-z_w) + sum_u p_n(u) Phi(z_u)) / 2 + KL(Q||P_S) / lam
        z_w = (mu.A_w + bias) / (sd_Q |A_w|),   P_S = N(mean of B_hat, prior_variance/n_tokens I)

    Parameters
    ----------
    word_vectors : WordVectors
    lam : float, default=1.0
        Weight of the data. Larger values let a sentence move further from its prior.
    lam_mode : {"fixed", "per-token"}, default="per-token"
        Whether lambda is `lam`, or `lam * n_tokens`.
    prior_variance : float, default=1.0
        Variance of each word's prior; that of the sentence is prior_variance / n_tokens.
    n_negatives : int, default=15
        The bias is ln(n_negatives), which undoes the offset of Skip-gram.
    noise_power : float, default=0.75
        p_n is the training counts to this power.
    max_iter : int, default=60
        Largest number of iterations per sentence.
    tol : float, default=1e-3
        Relative length of a step at which a sentence counts as solved.
    swap_roles, on_empty, batch_size, n_jobs
        As in AverageVectorizer.
    random_state : int, RandomState or None, default=None
        Seed of the negative samples.

    Attributes
    ----------
    start_ : PBNegVectorizer
        Where the search starts, fitted on the same sentences; with lambda per token its `lam` is
        at most 8, because the search may start anywhere.
    noise_words_, noise_weights_ : arrays

    Examples
    --------
    >>> from pacsent import make_encoder
    >>> vectorizer = make_encoder("PB-01", "english").fit(["a good film", "a quiet film"])
    >>> vectorizer.transform(["good film"]).shape
    (1, 256)
    """

    names: ClassVar = {"PB-01": Name()}
    learns_from_text: ClassVar[bool] = True
    learned: ClassVar = {
        "noise_words": WORD_IDS,
        "noise_weights": Learned(np.float64, ("noise_words",)),
    }

    _parameter_constraints: ClassVar[dict] = PBNegVectorizer._parameter_constraints

    lam: float = 1.0
    lam_mode: str = "per-token"
    prior_variance: float = 1.0
    n_negatives: int = 15
    noise_power: float = 0.75
    max_iter: int = 60
    tol: float = 1e-3
    swap_roles: bool = False
    batch_size: int = 256
    random_state: int | np.random.RandomState | None = None

    def _new_start(self) -> PBNegVectorizer:
        start_lam = self.lam
        if self.lam_mode == "per-token":
            start_lam = min(self.lam, _START_LAM)
        return PBNegVectorizer(
            self.word_vectors,
            lam=start_lam,
            lam_mode=self.lam_mode,
            prior_variance=self.prior_variance,
            n_negatives=self.n_negatives,
            noise_power=self.noise_power,
            swap_roles=self.swap_roles,
            tol=1e-2,
            on_empty="ignore",
            n_jobs=1,
            random_state=0,
        )

    def _learn(self, encoded: Encoded) -> dict[str, Any]:
        start = self._new_start().fit(encoded)
        p_noise = noise_probabilities(start.noise_counts_, self.noise_power)
        words = np.flatnonzero(p_noise)
        weights = p_noise[words]
        if words.size > _N_NOISE:
            rng = check_random_state(self.random_state)
            drawn = rng.choice(words, _N_NOISE, p=weights)
            words, n_drawn = np.unique(drawn, return_counts=True)
            weights = n_drawn / _N_NOISE
        return {"start": start, "noise_words": words, "noise_weights": weights}

    def _state(self) -> dict[str, np.ndarray]:
        state = super()._state()
        for name, array in self.start_._state().items():
            state[f"start_{name}"] = array
        return state

    def _read_values(self, state: Mapping[str, np.ndarray]) -> dict[str, Any]:
        values = super()._read_values(state)
        start_state = {}
        for name, array in state.items():
            if name.startswith("start_"):
                start_state[name.removeprefix("start_")] = array

        start = self._new_start()
        start._restore(start_state)
        return values | {"start": start}

    def _n_negatives_of_theorem(self) -> int:
        return self.n_negatives

    def _noise_power_of_theorem(self) -> float:
        return self.noise_power

    def _noise_counts_of_theorem(self) -> np.ndarray:
        return self.start_.noise_counts_

    def _prior_terms(self, counts: sparse.csr_matrix) -> tuple[np.ndarray, np.ndarray]:
        n_tokens = np.asarray(counts.sum(axis=1)).ravel()
        _, B_hat = self._tables()
        fractions = sparse.diags_array(1.0 / n_tokens) @ counts
        return sum_rows(fractions, B_hat), self.prior_variance / n_tokens

    def _lambda_of(self, n_tokens: np.ndarray) -> np.ndarray:
        lengths = n_tokens if self.lam_mode == "per-token" else np.ones_like(n_tokens)
        return self.lam * lengths

    def _data_terms(self, sentences: Sentences) -> Any:
        p_noise = noise_probabilities(self.start_.noise_counts_, self.noise_power)
        words = np.flatnonzero(p_noise)
        A_hat, _ = self._tables()
        gibbs = gibbs_risk(
            sentences.mu,
            sentences.var_Q,
            sentences.counts,
            A_hat,
            p_noise[words],
            bias=math.log(self.n_negatives),
            noise_words=words,
        )
        return gibbs.risk

    def _prepared(self) -> BatchPosterior:
        start = self._updated_start()
        A_hat, B_hat = start._float_tables()  # widened once, for both
        start_posterior = start._prepared()
        risk = partial(
            gibbs_risk,
            A_hat=A_hat,
            p_noise=self.noise_weights_,
            bias=math.log(self.n_negatives),
            noise_words=self.noise_words_,
            noise_table=A_hat[self.noise_words_],
            norms=self._derived("norms", lambda: row_norms(A_hat)),
        )

        def posterior(encoded: Encoded, means: np.ndarray) -> tuple[np.ndarray, Any]:
            variances = np.full(encoded.n_sentences, np.nan)
            rows = np.flatnonzero(np.diff(encoded.offsets) > 0)  # of sentences with a word
            if not rows.size:
                return variances, None

            counts = self.word_vectors.vocabulary.count(encoded)[rows]
            n_tokens = np.asarray(counts.sum(axis=1)).ravel()
            sums = np.asarray(counts.astype(B_hat.dtype) @ B_hat)
            documents = Documents(
                counts=counts,
                prior_means=sums / n_tokens[:, None],
                prior_variances=self.prior_variance / n_tokens,
                lam=self._lambda_of(n_tokens),
            )

            # Steps that overflow are not taken; the batches are the threads.
            with np.errstate(over="ignore", invalid="ignore"), one_blas_thread():
                start_variances, _ = start_posterior(encoded, means)
                mu = means[rows]
                var_Q = start_variances[rows]

                # Where PB-neg found no posterior, the search starts at the prior.
                is_valid = np.isfinite(mu).all(axis=1) & np.isfinite(var_Q) & (var_Q > 0)
                mu[~is_valid] = documents.prior_means[~is_valid]
                var_Q[~is_valid] = documents.prior_variances[~is_valid]

                means[rows], variances[rows], _, _ = minimise(
                    mu, var_Q, documents, risk, tol=self.tol, max_iter=self.max_iter
                )
            return variances, None

        return posterior

    def _updated_start(self) -> PBNegVectorizer:
        """PB-neg with the parameters as they are now, which may differ from those of `fit`."""
        start = self.start_
        fitted = start.get_params(deep=False)
        current = self._new_start().get_params(deep=False)
        changed = {name: value for name, value in current.items() if fitted[name] != value}
        start.set_params(**changed)
        return start
