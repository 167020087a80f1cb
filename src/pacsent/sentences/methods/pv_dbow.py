"""PV-DBOW: paragraph vectors, what PB-neg becomes without prior and expectation."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np
from scipy import sparse

from pacsent.arrays import GOLDEN, splitmix64
from pacsent.kernels.pv_dbow import GROUP_SIZE, pv_dbow
from pacsent.progress import bar
from pacsent.sentences.encoding import BatchPosterior
from pacsent.sentences.fitted_state import WORD_IDS, Learned
from pacsent.sentences.methods.sampled_methods import SCHEDULED, NegativeSampling, learning_rates
from pacsent.sentences.sentence_vectorizer import Name
from pacsent.text.encoded import Encoded
from pacsent.threads import n_threads


@dataclass(eq=False, repr=False, kw_only=True)
class PVDBOWVectorizer(NegativeSampling):
    """Paragraph vectors by negative sampling (PV-DBOW), starting from the word vectors.

        minimise the sum over sentences and tokens of
            softplus(-h_S.A_w) + sum over negative samples of softplus(h_S.A_u),      in h_S and A

    What PB-neg becomes without a prior (lam to infinity), without an expectation over h, and with
    word vectors that are trained too. `fit` trains A on the training sentences; `transform` infers
    the vector of any sentence with A fixed, from a start that depends on its words only and with
    the same negatives for every sentence, so the same sentence always gets the same vector. There
    is no posterior: variances are 0.

    Parameters
    ----------
    word_vectors : WordVectors
        `A` starts at its input vectors (output vectors with `swap_roles`).
    n_epochs : int, default=40
        Passes over the training sentences.
    learning_rate : float, default=0.025
        First step; it falls linearly, epoch by epoch, to 0.
    n_negatives, noise_power, swap_roles, on_empty, batch_size, n_jobs, random_state, verbose
        As in WordPBNegVectorizer; inference is always repeatable.

    Attributes
    ----------
    words_ : array of int, shape (n_trained,)
        The words of the training sentences.
    word_vectors_ : array, shape (n_trained, n_dims)
        Their trained vectors; all others keep theirs.
    noise_counts_ : array, shape (n_words,)

    Examples
    --------
    >>> from pacsent import make_encoder
    >>> vectorizer = make_encoder("PV-DBOW", "english", n_epochs=2, n_jobs=1)
    >>> vectorizer.fit_transform(["a good film", "a quiet film"]).shape
    (2, 256)
    """

    names: ClassVar = {"PV-DBOW": Name(swaps=False)}
    learned: ClassVar = {
        **NegativeSampling.learned,
        "words": WORD_IDS,
        "word_vectors": Learned(None, ("words", "n_dims")),
    }
    _parameter_constraints: ClassVar[dict] = {
        **NegativeSampling._parameter_constraints,
        **SCHEDULED,
    }

    n_epochs: int = 40
    learning_rate: float = 0.025
    verbose: bool | int = False

    _no_posterior: ClassVar[str] = "its vectors are points, trained without a prior"

    def _needs_prior_table(self) -> bool:
        return False

    def _start(self, counts: sparse.csr_matrix, seed: int) -> np.ndarray:
        """Small random vectors, seeded by the sentences' words and counts alone."""
        # A sum of hashes does not depend on the order of the words.
        scaled_counts = np.rint(counts.data * 256.0).astype(np.uint64)
        words = counts.indices.astype(np.uint64)
        with np.errstate(over="ignore"):
            word_hashes = splitmix64(words + np.uint64(seed) + GOLDEN)
            word_hashes *= scaled_counts * np.uint64(2) + np.uint64(1)  # odd: nothing is lost
            running_sums = np.cumsum(word_hashes, dtype=np.uint64)
            totals = np.concatenate([[np.uint64(0)], running_sums])
            totals_at_bounds = totals[counts.indptr]  # (n_sentences + 1,)
            sentence_sums = np.diff(totals_at_bounds)
            seeds = splitmix64(sentence_sums + GOLDEN)
        seeds = np.maximum(seeds, np.uint64(1))

        n_dims = self.word_vectors.n_dims
        start = [np.random.default_rng(own_seed).random(n_dims) - 0.5 for own_seed in seeds]
        vectors = np.array(start).reshape(-1, n_dims) / n_dims
        return vectors.astype(np.float32)

    def _learn(self, encoded: Encoded) -> dict[str, Any]:
        values = super()._learn(encoded)
        A_hat, _ = self._tables()
        A = np.array(A_hat, dtype=np.float32)  # a copy, which is trained
        counts = self.word_vectors.vocabulary.count(encoded)
        vectors = self._start(counts, values["seed"])
        sentences = (encoded.ids, encoded.offsets)
        noise = self._alias_table(values["noise_counts"])

        rng = np.random.default_rng(values["seed"])
        n_jobs = n_threads(self.n_jobs)
        is_shown = bool(self.verbose)
        with (
            bar("PV-DBOW", total=self.n_epochs, unit="epochs", enabled=is_shown) as progress,
            ThreadPoolExecutor(n_jobs) as pool,
        ):
            for eta in learning_rates(self.n_epochs, self.learning_rate):
                order = rng.permutation(encoded.n_sentences)
                members = rng.permutation(_groups(encoded.offsets, order))
                states = rng.integers(1, 2**63, len(members), dtype=np.uint64)
                rates = np.array([eta], np.float32)

                futures = []
                for thread in range(n_jobs):
                    thread_members = members[thread::n_jobs].copy()
                    thread_states = states[None, thread::n_jobs].copy()
                    groups = (thread_members, thread_states)
                    future = pool.submit(pv_dbow, groups, sentences, A, noise, rates, True, vectors)
                    futures.append(future)
                for future in futures:
                    future.result()
                progress.advance()

        words = np.flatnonzero(values["noise_counts"])
        values["words"] = words
        values["word_vectors"] = A[words].astype(self._dtype, copy=False)
        return values

    def _table(self) -> np.ndarray:
        """A after training, in single precision."""
        A_hat, _ = self._tables()
        A = np.array(A_hat, dtype=np.float32)  # a copy
        A[self.words_] = self.word_vectors_
        return A

    def _prepared(self) -> BatchPosterior:
        table = self._derived("table", self._table)
        noise = self._derived("alias", partial(self._alias_table, self.noise_counts_))

        def posterior(encoded: Encoded, means: np.ndarray) -> tuple[np.ndarray, Any]:
            counts = self.word_vectors.vocabulary.count(encoded)
            vectors = self._start(counts, self.seed_)
            rates = learning_rates(self.n_epochs, self.learning_rate)
            rates = rates.astype(np.float32)

            # Words in the order of their ids, so that the order in the text changes nothing.
            times = counts.data.astype(np.int64)
            ids = np.repeat(counts.indices, times)
            sentences = (ids, encoded.offsets)

            # All groups begin an epoch in one state of random numbers: every sentence gets the same
            # negative samples, so that its company changes nothing.
            members = _groups(encoded.offsets, np.arange(encoded.n_sentences))
            rng = np.random.default_rng(self.seed_)
            epoch_states = [rng.integers(1, 2**63, dtype=np.uint64) for _ in rates]
            column = np.array(epoch_states, np.uint64)[:, None]
            states = np.tile(column, len(members))  # (n_epochs, n_groups)
            groups = (members, states)

            # `vectors` are moved in place; the table is fixed.
            pv_dbow(groups, sentences, table, noise, rates, train_words=False, vectors=vectors)
            means[...] = vectors
            variances = np.zeros(encoded.n_sentences)
            return variances, None

        return posterior


def _groups(offsets: np.ndarray, order: np.ndarray) -> np.ndarray:
    """Sentences of about equal length together, long ones first, (n, GROUP_SIZE); -1 for none."""
    lengths = np.diff(offsets)[order]
    by_length = order[np.argsort(-lengths, kind="stable")]
    n_groups = -(-order.size // GROUP_SIZE)
    members = np.full(n_groups * GROUP_SIZE, -1)
    members[: order.size] = by_length
    return members.reshape(-1, GROUP_SIZE)
