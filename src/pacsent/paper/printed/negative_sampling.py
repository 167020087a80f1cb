"""PB-neg as printed (eq. 18), for one draw and in expectation, and its optimum.

    L = E_h (1/n) sum_w l_neg(h, i_w) + n/(2 var_P lam) |mu - m|^2 + V,     h ~ N(mu, var_Q I)

V is n d/(2 lam) (ln(var_P/var_Q) + var_Q/var_P) as printed, and d/(2 lam) (r - 1 - ln r) with
r = n var_Q/var_P exactly (`pacsent.paper.printed.kl`).
"""

from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from scipy.special import expit

from pacsent.paper.printed.kl import PENALTIES
from pacsent.sentences.methods.pb_neg import PBNegVectorizer
from pacsent.sentences.sentence_vectorizer import Name
from pacsent.sentences.solvers import pb_neg as pb_neg_objective


def negative_sampling_loss(
    h: ArrayLike, tokens: ArrayLike, negatives: ArrayLike, A_hat: np.ndarray
) -> tuple[float, np.ndarray]:
    """Sum over the tokens of l_neg(h, i_w), eq. 2, and its gradient in h.

    l_neg(h, i_w) = -ln sigma(h.i_w) - sum over the negative samples u of w of ln sigma(-h.i_u)

    Parameters
    ----------
    h : array, shape (n_dims,)
    tokens : array of int, shape (n_tokens,)
    negatives : array of int, shape (n_tokens, k)
        The k negative samples of each token.
    A_hat : array, shape (n_words, n_dims)

    Returns
    -------
    loss : float
    gradient : array, shape (n_dims,)

    References
    ----------
    Nozawa and Sato (2019), equation 2.

    Examples
    --------
    >>> from pacsent.paper.printed import example
    >>> ex = example()
    >>> loss = negative_sampling_loss(ex.O_hat[0], [1, 2], [[3, 4, 5], [0, 1, 6]], ex.I_hat)[0]
    >>> round(float(loss), 4)
    6.2183
    """
    h = np.asarray(h, dtype=float)
    positive_rows = A_hat[np.asarray(tokens)]  # (n_tokens, n_dims)
    negative_rows = A_hat[np.asarray(negatives)]  # (n_tokens, k, n_dims)
    positive_scores = positive_rows @ h
    negative_scores = negative_rows @ h

    # -ln sigma(x) = ln(1 + e^-x)
    positive_loss = np.logaddexp(0.0, -positive_scores).sum()
    negative_loss = np.logaddexp(0.0, negative_scores).sum()
    loss = positive_loss + negative_loss

    positive_errors = -expit(-positive_scores)  # (n_tokens,)
    negative_errors = expit(negative_scores)  # (n_tokens, k)
    gradient = positive_errors @ positive_rows
    gradient += np.einsum("tk,tkd->d", negative_errors, negative_rows)
    return float(loss), gradient


class SampledLoss(NamedTuple):
    """Eq. proposed-loss for one draw of h and of the negative samples, and its gradients."""

    data: float
    mean_penalty: float
    variance_penalty: float
    grad_mu: np.ndarray
    grad_rho: float  # rho = ln var_Q

    @property
    def total(self) -> float:
        return self.data + self.mean_penalty + self.variance_penalty


def sampled_loss(
    mu: ArrayLike,
    rho: float,
    epsilon: ArrayLike,
    tokens: ArrayLike,
    negatives: ArrayLike,
    A_hat: np.ndarray,
    B_hat: np.ndarray,
    *,
    lam: float = 1.0,
    var_P: float = 1.0,
    kl: str = "printed",
) -> SampledLoss:
    """Eq. proposed-loss by the reparameterisation trick: h = mu + e^(rho/2) epsilon.

    `kl` is "printed" or "exact".

    Parameters
    ----------
    mu : array, shape (n_dims,)
        Mean of Q.
    rho : float
        Logarithm of the variance of Q.
    epsilon : array, shape (n_dims,)
        Standard normal draw.
    tokens : array of int, shape (n_tokens,)
        Word ids of the sentence.
    negatives : array of int, shape (n_tokens, k)
        The k negative samples of each token.
    A_hat, B_hat : array, shape (n_words, n_dims)
    lam : float, default=1.0
        Inverse temperature.
    var_P : float, default=1.0
        Variance of the prior of a word.
    kl : {"printed", "exact"}, default="printed"
        The penalty.

    Returns
    -------
    SampledLoss

    References
    ----------
    Nozawa and Sato (2019), equation 18.

    Examples
    --------
    >>> from pacsent.paper.printed import example
    >>> ex = example()
    >>> O_S = ex.O_hat[ex.sentences[0]]
    >>> m = O_S.mean(axis=0)
    >>> negatives = [[0, 5, 3]] * len(O_S)
    >>> loss = sampled_loss(m, -0.4, m, ex.sentences[0], negatives, ex.I_hat, ex.O_hat, lam=0.25)
    >>> round(float(loss.grad_rho), 4)
    -13.1661
    """
    mu = np.asarray(mu, dtype=float)
    epsilon = np.asarray(epsilon, dtype=float)
    B = B_hat[np.asarray(tokens)].astype(float)
    n, d = B.shape
    deviation = np.exp(rho / 2.0)
    var_Q = np.exp(rho)

    h = mu + deviation * epsilon
    loss, gradient_sum = negative_sampling_loss(h, tokens, negatives, A_hat)
    gradient = gradient_sum / n  # of the data term in h, (n_dims,)
    mean_penalty, variance_penalty = PENALTIES[kl](mu, var_Q, B, lam=lam, var_P=var_P)

    m = B.mean(axis=0)
    n_logarithms = n if kl == "printed" else 1  # how often -rho occurs in the penalty
    penalty_slope = d / (2.0 * lam) * (n * var_Q / var_P - n_logarithms)
    return SampledLoss(
        data=loss / n,
        mean_penalty=mean_penalty,
        variance_penalty=variance_penalty,
        grad_mu=gradient + n / (var_P * lam) * (mu - m),
        grad_rho=float(deviation / 2.0 * (gradient @ epsilon) + penalty_slope),
    )


def expected_loss(
    mu: np.ndarray,
    var_Q: np.ndarray,
    counts: sparse.csr_matrix,
    tables: tuple[np.ndarray, np.ndarray],
    p_noise: np.ndarray,
    *,
    n_negatives: int = 15,
    lam: float = 1.0,
    var_P: float = 1.0,
    kl: str = "printed",
) -> np.ndarray:
    """Eq. proposed-loss of each sentence with h and the negative samples integrated out.

    `tables` are (A_hat, B_hat), `counts` word counts of the sentences, none of them empty.

    Parameters
    ----------
    mu : array, shape (n_sentences, n_dims)
        Means of the posteriors.
    var_Q : array, shape (n_sentences,)
        Their variances.
    counts : csr_matrix, shape (n_sentences, n_words)
        Word counts.
    tables : tuple of two arrays, shape (n_words, n_dims)
        A_hat and B_hat.
    p_noise : array, shape (n_words,)
        Distribution of negative samples.
    n_negatives : int, default=15
    lam : float, default=1.0
        Inverse temperature.
    var_P : float, default=1.0
        Variance of the prior of a word.
    kl : {"printed", "exact"}, default="printed"
        The penalty.

    Returns
    -------
    array, shape (n_sentences,)

    Examples
    --------
    >>> from pacsent.paper.printed import example
    >>> ex = example()
    >>> O_S = ex.O_hat[ex.sentences[0]]
    >>> m = O_S.mean(axis=0, keepdims=True)
    >>> counts = sparse.csr_matrix(np.bincount(ex.sentences[0], minlength=7)[None])
    >>> expected_loss(m, np.array([0.5]), counts, (ex.I_hat, ex.O_hat), ex.p_noise).round(3)
    array([24.969])
    """
    A_hat, B_hat = tables
    words = np.flatnonzero(p_noise)
    kp = n_negatives * p_noise[words]
    values = pb_neg_objective.expected_loss(mu, var_Q, counts, A_hat, words, kp)

    for s in range(len(values)):
        row = counts[s]
        tokens = np.repeat(row.indices, row.data.astype(int))
        penalties = PENALTIES[kl](mu[s], var_Q[s], B_hat[tokens], lam=lam, var_P=var_P)
        values[s] += sum(penalties)
    return values


class PrintedPBNegVectorizer(PBNegVectorizer):
    """PB-neg under the loss as printed, by the same solver as PB-neg.

    The printed penalty is that of PB-neg with lam/n in place of lam and n var_P in place of var_P,
    so no solver of its own is needed: kappa = n/(var_P lam) stays, the constant of -rho becomes
    n d/(2 lam), and the variance at which the penalty is smallest becomes var_P.

    Parameters as those of `PBNegVectorizer`.

    >>> from pacsent.paper.printed import example
    >>> ex = example()
    >>> vectorizer = PrintedPBNegVectorizer(ex.words, lam=0.1).fit(ex.texts)
    >>> vectorizer.posterior(ex.texts)[1].round(2)  # near var_P = 1, not near 1/n
    array([0.98, 0.96, 0.97])
    """

    names: ClassVar = {"PB-neg (printed)": Name()}

    def _prior_terms(self, counts: Any) -> tuple[np.ndarray, np.ndarray]:
        """The prior under which the printed penalty is n/lam KL + n d/(2 lam): N(m, var_P I)."""
        means, _ = super()._prior_terms(counts)
        variances = np.full(len(means), float(self.prior_variance))
        return means, variances

    def _lam(self, n_tokens: Any) -> Any:
        return super()._lam(n_tokens) / np.maximum(n_tokens, 1.0)

    def _prior_variances(self, n_tokens: Any) -> Any:
        return self.prior_variance * np.maximum(n_tokens, 1.0)
