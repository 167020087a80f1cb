"""w-PB-neg and PV-DBOW as the paper trains them: one sentence a step, its own negative samples.

w-PB-neg has a posterior N(mu_w, e^rho_w I) for each word. A step on the sentence S draws one vector
h_v for each *type* of S, takes the gradient of the data term in the words of S, and that of the
penalty in all words. Most words do not occur in S; lazy stochastic gradients (Carpenter, 2008)
leave them alone and make up for the penalty when they next occur.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit

from pacsent.paper.printed.negative_sampling import negative_sampling_loss
from pacsent.paper.printed.sgd import learning_rates

Draw = Callable[[int, int], tuple[np.ndarray, np.ndarray]]
PENALTIES = ("every step", "lump", "decay")


def word_variances(counts: ArrayLike) -> np.ndarray:
    """Prior variance of each word, eq. 22: T/freq(w), T the number of tokens.

    inf for words that do not occur. Frequent words are held tighter. The paper argues against a
    constant variance, under which they would move most.

    Parameters
    ----------
    counts : array, shape (n_words,)
        Occurrences of every word.

    Returns
    -------
    array, shape (n_words,)

    References
    ----------
    Nozawa and Sato (2019), equation 22.

    Examples
    --------
    >>> word_variances([2, 1, 1])
    array([2., 4., 4.])
    """
    counts = np.asarray(counts, dtype=float)
    with np.errstate(divide="ignore"):
        return counts.sum() / counts


def lump(away: Any, rate: float, total: float) -> Any:
    """Distance mu - o_w after Carpenter's lump: the penalty of all skipped steps in a single one.

    away - (sum of learning rates) rate away.  First order only: past (sum) rate = 2 it grows.

    Parameters
    ----------
    away : float or array
        Distance before the skipped steps.
    rate : float
        Rate of the penalty.
    total : float
        Sum of the learning rates of the skipped steps.

    Returns
    -------
    float or array

    Examples
    --------
    >>> lump(1.0, rate=0.5, total=12.0)
    -5.0
    """
    return away * (1.0 - total * rate)


def decay(away: Any, rate: float, total: float) -> Any:
    """Distance mu - o_w after the same time of the penalty's exact flow: away e^(-rate total).

    Parameters
    ----------
    away, rate, total
        As in `lump`.

    Returns
    -------
    float or array

    Examples
    --------
    >>> round(float(decay(1.0, rate=0.5, total=12.0)), 6)
    0.002479
    """
    return away * np.exp(-rate * total)


class WordPosteriors(NamedTuple):
    """Means and log variances of the words' posteriors, and the loss seen at every step."""

    mu: np.ndarray  # (n_words, n_dims)
    rho: np.ndarray  # (n_words,)
    losses: np.ndarray  # (n_steps,), the sampled data term of each step's sentence


def train_words(
    sentences: list[np.ndarray],
    A_hat: np.ndarray,
    B_hat: np.ndarray,
    *,
    lam: float = 1.0,
    var_P: np.ndarray | None = None,
    weighting: str = "token",
    penalty: str = "decay",
    n_negatives: int = 15,
    noise_power: float = 0.75,
    n_epochs: int = 40,
    learning_rate: float = 0.025,
    draw: Draw | None = None,
    random_state: Any = None,
) -> WordPosteriors:
    """w-PB-neg by stochastic gradients, literally: one sentence a step.

    Parameters
    ----------
    sentences : list of arrays of word ids
    A_hat, B_hat : array, shape (n_words, n_dims)
        Vectors by which words are predicted, and prior means of the words.
    lam : float, default=1.0
    var_P : array, shape (n_words,), or None
        None takes `word_variances`. Words with an infinite variance are left at B_hat.
    weighting : {"token", "sentence"}
        Whether the data term of a sentence is weighted by its length, which is the loss as printed
        (the mean over all pairs (S, w)), or every sentence counts the same.
    penalty : {"every step", "lump", "decay"}
        The gradient of the penalty in every word at every step, as eq. 21 has
        it; or only in the words of the sentence, making up for the skipped steps by Carpenter's
        lump or by the exact flow of the penalty. "decay" equals applying that flow to all words at
        every step.
    draw : callable or None
        draw(epoch, sentence) -> (epsilon (n_words, n_dims), negatives (n_tokens, k)), instead of
        random ones; sentences then come in their order.
    random_state : int, Generator or None, default=None

    Returns
    -------
    WordPosteriors

    References
    ----------
    Nozawa and Sato (2019), equations 21 and 22; Carpenter (2008), Lazy Sparse Stochastic Gradient
    Descent for Regularized Multinomial Logistic Regression.

    Examples
    --------
    >>> from pacsent.paper.printed import example
    >>> ex = example()
    >>> trained = train_words(ex.sentences, ex.I_hat, ex.O_hat, n_epochs=2, random_state=0)
    >>> trained.mu.shape, trained.losses.shape
    ((7, 4), (6,))
    """
    if weighting not in ("token", "sentence"):
        raise ValueError(f"weighting must be 'token' or 'sentence'. Got {weighting!r} instead.")
    if penalty not in PENALTIES:
        raise ValueError(f"penalty must be one of {PENALTIES}. Got {penalty!r} instead.")
    rng = np.random.default_rng(random_state)
    n_words, n_dims = A_hat.shape
    n_sentences = len(sentences)
    counts = np.bincount(np.concatenate(sentences), minlength=n_words)
    if var_P is None:
        var_P = word_variances(counts)
    var_P = np.asarray(var_P, dtype=float)
    is_trained = np.isfinite(var_P)
    cumulative_noise = _cumulative_noise(counts, noise_power)

    weights = np.ones(n_sentences)
    if weighting == "token":
        n_tokens = np.array([len(sentence) for sentence in sentences])
        weights = n_tokens * n_sentences / n_tokens.sum()

    state = _Words(B_hat, var_P, lam, penalty, is_trained)
    losses = []
    for epoch, eta in enumerate(learning_rates(n_epochs, learning_rate)):
        order = np.arange(n_sentences) if draw else rng.permutation(n_sentences)
        for s in order:
            tokens = np.asarray(sentences[s])
            types, times = np.unique(tokens, return_counts=True)
            if draw:
                epsilon_of_words, negatives = draw(epoch, int(s))
                epsilon = epsilon_of_words[types]
            else:
                epsilon = rng.standard_normal((types.size, n_dims))
                uniform = rng.random((tokens.size, n_negatives))
                negatives = np.searchsorted(cumulative_noise, uniform, side="right")
                negatives = np.minimum(negatives, n_words - 1)

            # h = sum of (c_v/n) h_v, one draw h_v from the posterior of each type.
            state.apply_lazy_penalty(types)
            fraction = times / tokens.size  # (n_types,), c_v/n
            deviation = np.exp(state.rho[types] / 2.0)
            h_of_types = state.mu[types] + deviation[:, None] * epsilon
            h = fraction @ h_of_types
            loss, gradient_sum = negative_sampling_loss(h, tokens, negatives, A_hat)
            losses.append(loss / tokens.size)

            gradient = weights[s] * gradient_sum / tokens.size  # in h, (n_dims,)
            grad_mu = fraction[:, None] * gradient
            grad_rho = fraction * deviation / 2.0 * (epsilon @ gradient)
            state.step(types, grad_mu, grad_rho, eta)

    state.apply_lazy_penalty(np.flatnonzero(is_trained))
    return WordPosteriors(state.mu, state.rho, np.array(losses))


def _cumulative_noise(counts: np.ndarray, noise_power: float) -> np.ndarray:
    """Cumulative probabilities of negative samples, count^noise_power, (n_words,)."""
    noise = counts**noise_power
    return np.cumsum(noise / noise.sum())


class _Words:
    """The posteriors of all words, and the penalty that each has not had applied yet."""

    def __init__(
        self,
        B_hat: np.ndarray,
        var_P: np.ndarray,
        lam: float,
        penalty: str,
        is_trained: np.ndarray,
    ):
        self.B_hat = np.asarray(B_hat, dtype=float)
        self.penalty = penalty
        self.is_trained = is_trained
        n_words, n_dims = self.B_hat.shape

        # A posterior begins at its prior N(B_hat, e^rho_P I).
        self.mu = self.B_hat.copy()
        self.rho = np.log(np.where(is_trained, var_P, 1.0))
        self.rho_P = self.rho.copy()

        # Rates of the penalty in mu, (n_words,), and in rho.
        self.rate = np.where(is_trained, 1.0 / (var_P * lam), 0.0)
        self.c = 0.5 * n_dims / lam

        # Sum of the learning rates so far, and up to which sum a word has had the penalty applied.
        self.clock = 0.0
        self.applied_until = np.zeros(n_words)

    def apply_lazy_penalty(self, words: np.ndarray) -> None:
        """Apply to some words the penalty of the steps that they skipped."""
        waited = self.clock - self.applied_until[words]
        self.applied_until[words] = self.clock
        if self.penalty == "every step" or not np.any(waited):
            return

        distance = self.mu[words] - self.B_hat[words]
        u = self.rho[words] - self.rho_P[words]  # ln(var_Q/var_P)
        if self.penalty == "lump":
            factor = 1.0 - waited * self.rate[words]
            u = u - waited * self.c * np.expm1(u)
        else:
            factor = np.exp(-waited * self.rate[words])
            # The precision e^-u = var_P/var_Q relaxes to 1 at the rate c.
            excess = np.expm1(-u) * np.exp(-waited * self.c)
            u = -np.log1p(excess)
        self.mu[words] = self.B_hat[words] + distance * factor[:, None]
        self.rho[words] = self.rho_P[words] + u

    def step(
        self, words: np.ndarray, grad_mu: np.ndarray, grad_rho: np.ndarray, eta: float
    ) -> None:
        """Take one step of the data term in `words`, and of the penalty."""
        if self.penalty == "every step":
            mu_slope = self.rate[:, None] * (self.mu - self.B_hat)
            rho_slope = self.c * np.expm1(self.rho - self.rho_P)
            self.mu[self.is_trained] -= eta * mu_slope[self.is_trained]
            self.rho[self.is_trained] -= eta * rho_slope[self.is_trained]
        self.mu[words] -= eta * grad_mu
        self.rho[words] -= eta * grad_rho
        self.clock += eta


class Paragraphs(NamedTuple):
    """PV-DBOW: vectors of the training sentences and of the words."""

    h: np.ndarray  # (n_sentences, n_dims)
    A: np.ndarray  # (n_words, n_dims)


def pv_dbow_loss(
    h: ArrayLike, sentences: list[np.ndarray], negatives: list[np.ndarray], A: np.ndarray
) -> tuple[float, np.ndarray, np.ndarray]:
    """Loss of PV-DBOW with negative sampling, and its gradients in h and in A.

    loss = sum over sentences and their tokens of l_neg(h_S, A_w)

    The paper's corollary calls this eq. 18 with lam -> inf, A trained from scratch and
    no expectation. With A shared that holds only if each sentence's loss, a mean over its tokens,
    is weighted by its length |S|.

    Parameters
    ----------
    h : array, shape (n_sentences, n_dims)
        Vectors of the sentences.
    sentences : list of arrays of int
        Word ids of each sentence.
    negatives : list of arrays of int, shape (n_tokens, k)
        Negative samples of each token.
    A : array, shape (n_words, n_dims)
        Vectors of the words.

    Returns
    -------
    loss : float
    grad_h : array, shape (n_sentences, n_dims)
    grad_A : array, shape (n_words, n_dims)

    References
    ----------
    Nozawa and Sato (2019), corollary 2.3.

    Examples
    --------
    >>> from pacsent.paper.printed import example
    >>> ex = example()
    >>> h = ex.O_hat[[0]]
    >>> negatives = [np.array([[0, 5, 3]] * len(ex.sentences[0]))]
    >>> loss, grad_h, grad_A = pv_dbow_loss(h, ex.sentences[:1], negatives, ex.I_hat)
    >>> grad_h.shape, grad_A.shape
    ((1, 4), (7, 4))
    """
    h = np.asarray(h, dtype=float)
    loss = 0.0
    grad_h = np.zeros_like(h)
    grad_A = np.zeros(A.shape)
    for s, (tokens, sampled) in enumerate(zip(sentences, negatives)):
        loss_of_sentence, grad_h[s] = negative_sampling_loss(h[s], tokens, sampled, A)
        loss += loss_of_sentence

        positive_scores = A[tokens] @ h[s]  # (n_tokens,)
        negative_scores = A[sampled] @ h[s]  # (n_tokens, k)
        positive_errors = -expit(-positive_scores)
        negative_errors = expit(negative_scores)
        np.add.at(grad_A, tokens, positive_errors[:, None] * h[s])
        np.add.at(grad_A, sampled, negative_errors[..., None] * h[s])
    return loss, grad_h, grad_A


def train_pv_dbow(
    sentences: list[np.ndarray],
    n_words: int,
    n_dims: int,
    *,
    n_negatives: int = 15,
    noise_power: float = 0.75,
    n_epochs: int = 40,
    learning_rate: float = 0.025,
    random_state: Any = None,
) -> Paragraphs:
    """PV-DBOW with word vectors from scratch: A starts at 0, sentences near it, as in word2vec.

    Parameters
    ----------
    sentences : list of arrays of int
        Word ids of each sentence.
    n_words : int
        Size of the vocabulary.
    n_dims : int
    n_negatives : int, default=15
    noise_power : float, default=0.75
        Power of the counts by which negative samples are drawn.
    n_epochs : int, default=40
    learning_rate : float, default=0.025
        Rate of the first epoch.
    random_state : int, Generator or None, default=None

    Returns
    -------
    Paragraphs

    Examples
    --------
    >>> from pacsent.paper.printed import example
    >>> train_pv_dbow(example().sentences, 7, 4, n_epochs=2, random_state=0).h.shape
    (3, 4)
    """
    rng = np.random.default_rng(random_state)
    counts = np.bincount(np.concatenate(sentences), minlength=n_words)
    cumulative_noise = _cumulative_noise(counts, noise_power)
    uniform = rng.random((len(sentences), n_dims))
    h = (uniform - 0.5) / n_dims
    A = np.zeros((n_words, n_dims))

    # The first target is the token, the others are its negative samples.
    labels = np.zeros(1 + n_negatives)
    labels[0] = 1.0
    for eta in learning_rates(n_epochs, learning_rate):
        for s in rng.permutation(len(sentences)):
            for token in sentences[s]:
                uniform = rng.random(n_negatives)
                negatives = np.searchsorted(cumulative_noise, uniform, side="right")
                negatives = np.minimum(negatives, n_words - 1)
                targets = np.append(token, negatives)
                scores = A[targets] @ h[s]  # (1 + n_negatives,)
                error = expit(scores) - labels
                gradient = error @ A[targets]
                np.add.at(A, targets, -eta * error[:, None] * h[s])
                h[s] -= eta * gradient
    return Paragraphs(h, A)
