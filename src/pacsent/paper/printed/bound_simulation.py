"""Theorem 1 as printed against the truth, on sentences whose distribution is known.

The paper's prior P_S is made of the words of S, and the theorem is then applied to the same words
as if they were a fresh sample. `simulate_bound` counts how often the bound is below the true risk,
and how often it is when the prior is made of one half of the words and the theorem applied to the
other half, which is what its proof asks for.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from pacsent.bounds import pac_bayes as bounds
from pacsent.bounds.rounding import rounded_up
from pacsent.certify.independence import as_seed
from pacsent.sentences.methods.closed_forms import AverageVectorizer
from pacsent.sentences.solvers.risks import gibbs_risk
from pacsent.text.encoded import Encoded
from pacsent.words.vectors import WordVectors
from pacsent.words.vocabulary import Vocabulary

# A sentence of 100 words out of 2,000, most of which it does not contain although it might, and
# random vectors that are long enough for a mean of 100 to remember which words it is made of.
_N_WORDS = 2000
_N_DIMS = 1000
_N_TOKENS = 100
_LENGTH = 25.0  # of a word vector
_CONCENTRATION = 0.5  # of each word in the Dirichlet distribution
_N_NEGATIVES = 1


@dataclass(frozen=True)
class BoundSimulation:
    """Counts of bounds below the true risk, as printed and with a prior of other words.

    Examples
    --------
    >>> simulate_bound(20, random_state=0).n_replicates
    20
    """

    n_replicates: int
    n_violations: int
    n_violations_split: int
    mean_bound: float
    mean_risk: float
    mean_bound_split: float
    mean_risk_split: float
    delta: float

    def __str__(self) -> str:
        bound = rounded_up(self.mean_bound, 3)
        bound_split = rounded_up(self.mean_bound_split, 3)
        return (
            f"Prior made of the words it is tested on, as printed: bound {bound}, "
            f"true risk {self.mean_risk:.3f} on average; the bound is below the risk in "
            f"{self.n_violations:,} of {self.n_replicates:,} sentences.\n"
            f"Prior made of the other half of the words: bound {bound_split}, true "
            f"risk {self.mean_risk_split:.3f}; below it in {self.n_violations_split:,} of "
            f"{self.n_replicates:,} (allowed: {self.delta:g} of them)."
        )


def simulate_bound(
    n_replicates: int = 200, *, delta: float = 0.05, random_state: Any = None
) -> BoundSimulation:
    """Count how often `encoder.bound`, Theorem 1 as printed, is below the true risk.

    Each replicate draws phi ~ Dirichlet, a sentence of 100 words from it, and asks PB-L2 for
    `bound` at lambda = N. Given phi the true risk of the posterior is a sum. The second count
    makes the prior (which is also the posterior, so that KL = 0) of the first 50 words and applies
    the same theorem to the other 50.

    Parameters
    ----------
    n_replicates : int, default=200
        Number of sentences.
    delta : float, default=0.05
        Probability with which the theorem may fail.
    random_state : int, RandomState, Generator or None, default=None

    Returns
    -------
    BoundSimulation
        Counts of violations, and means of bounds and risks.

    References
    ----------
    Nozawa and Sato (2019), Theorem 1.

    Examples
    --------
    >>> simulate_bound(3, random_state=0).n_violations
    3
    """
    rng = np.random.default_rng([as_seed(random_state), 41])
    names = [f"w{i}" for i in range(_N_WORDS)]
    vocabulary = Vocabulary(names, np.ones(_N_WORDS, int))
    deviation = _LENGTH / np.sqrt(_N_DIMS)
    vectors = rng.standard_normal((_N_WORDS, _N_DIMS)) * deviation
    vectors = vectors.astype(np.float32)
    training = {"n_negatives": _N_NEGATIVES}
    words = WordVectors(vocabulary, vectors, vectors, training=training)
    encoder = AverageVectorizer(words, lam=1.0, n_jobs=1).fit([])

    dirichlet_parameters = np.full(_N_WORDS, _CONCENTRATION)
    values = np.empty((n_replicates, 4))
    for replicate in range(n_replicates):
        phi = rng.dirichlet(dirichlet_parameters)
        ids = rng.choice(_N_WORDS, _N_TOKENS, p=phi)
        values[replicate] = _measure_sentence(encoder, ids, phi, delta)

    claimed, true, claimed_split, true_split = values.T
    return BoundSimulation(
        n_replicates=n_replicates,
        n_violations=int((claimed < true).sum()),
        n_violations_split=int((claimed_split < true_split).sum()),
        mean_bound=float(claimed.mean()),
        mean_risk=float(true.mean()),
        mean_bound_split=float(claimed_split.mean()),
        mean_risk_split=float(true_split.mean()),
        delta=delta,
    )


def _measure_sentence(
    encoder: AverageVectorizer, ids: np.ndarray, phi: np.ndarray, delta: float
) -> tuple[float, float, float, float]:
    """Values of one sentence: (bound, true risk) as printed, then with words split in halves."""
    words = encoder.word_vectors
    k = _N_NEGATIVES
    p_noise = words.vocabulary.noise_probabilities()

    def risk_of(means: np.ndarray, variances: np.ndarray, counts: sparse.csr_matrix) -> float:
        """R(Q) with the words of a text weighted by pi = 1/(k + 1)."""
        weights = (1.0 / (k + 1), k / (k + 1))
        gibbs = gibbs_risk(
            means.astype(float),
            variances,
            counts,
            words.input_vectors,
            p_noise,
            bias=0.0,
            weights=weights,
        )
        return float(gibbs.risk[0])

    # As printed, prior and theorem use the same words.
    truth = sparse.csr_matrix(phi[None])
    sentence = Encoded.from_lengths(ids, np.array([ids.size]))
    N = (k + 1) * ids.size
    claimed = encoder.bound(sentence, delta=delta, lam=N)[0]
    true = risk_of(*encoder.posterior(sentence), truth)

    # Split, the prior is made of the first half and the theorem applied to the second.
    half = ids.size // 2
    first = Encoded.from_lengths(ids[:half], np.array([half]))
    second = Encoded.from_lengths(ids[half:], np.array([ids.size - half]))
    prior = encoder.prior(first)
    empirical_risk = risk_of(*prior, words.vocabulary.count(second))
    empirical_risk = min(empirical_risk, 1.0)
    N = (k + 1) * (ids.size - half)
    claimed_split = bounds.catoni(empirical_risk, 0.0, N, delta, lam=N)
    true_split = risk_of(*prior, truth)
    return claimed, true, claimed_split, true_split
