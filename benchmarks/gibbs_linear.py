"""Linear Gibbs classifiers: how often they err, exactly, and posteriors that minimise the bound.

A text's decision value is offset + r.w with w drawn anew for each answer. With w ~ N(m, diag(v)) a
text of sign s is answered wrongly with probability Phi(-s (offset + r.m) / sqrt(r^2.v)). The prior
is N(m0, diag(v0)). With n texts that it was made without, and probability 1 - delta (Seeger 2002,
Maurer 2004), for all posteriors at once

    kl(mean error || true error) <= (KL(posterior || prior) + ln(2 sqrt(n) / delta)) / n.

Recursive priors (Wu et al. 2024): the posterior of one part of the texts is the prior of the next,
and only what one step gains over half of the error of the step before is bounded there.
"""

from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize
from scipy.special import ndtr

from pacsent.maths.bounds import kl_inverse

_WIDEST = 20.0  # logarithm of the largest change of a variance
_GAMMA = 0.5  # share of the error before that a step of the recursion is measured against


@dataclass(frozen=True)
class Normal:
    """N(mean, diag(variances)) over the weights."""

    mean: np.ndarray  # (d,)
    variances: np.ndarray  # (d,)

    @classmethod
    def standard(cls, n_dims: int, variance: float = 1.0) -> "Normal":
        return cls(np.zeros(n_dims), np.full(n_dims, float(variance)))

    def kl(self, prior: "Normal") -> float:
        """KL(self || prior) in nats."""
        ratio = self.variances / prior.variances
        moved = (self.mean - prior.mean) ** 2 / prior.variances
        return float(0.5 * (ratio - np.log(ratio) - 1.0 + moved).sum())

    def errors(
        self, R: np.ndarray, signs: np.ndarray, offset: np.ndarray | float = 0.0
    ) -> np.ndarray:
        """Probability of a wrong answer for each text, (n,)."""
        spread = np.sqrt(np.maximum((R * R) @ self.variances, 1e-30))
        return ndtr(-signs * (offset + R @ self.mean) / spread)


def bound(error: float, kl: float, n: int, delta: float) -> float:
    """The largest true error that the mean error on n texts leaves possible."""
    return float(kl_inverse(error, (kl + np.log(2.0 * np.sqrt(n) / delta)) / n))


def minimise_bound(
    R: np.ndarray,
    signs: np.ndarray,
    prior: Normal,
    delta: float,
    *,
    offset: np.ndarray | float = 0.0,
    n: int | None = None,
    n_steps: int = 150,
) -> Normal:
    """The posterior with the smallest bound, by descent (L-BFGS) from the prior.

    Parameters
    ----------
    R : array, (n_texts, d)
    signs : array of +-1, (n_texts,)
    prior : Normal
    delta : float
    offset : array, (n_texts,), optional
        Part of the decision values that is fixed.
    n : int, optional
        Texts that the bound will be taken on, if not these.
    """
    squares = R * R
    n = signs.size if n is None else n
    d = prior.mean.size
    root = np.sqrt(prior.variances)

    def value(x):
        post = Normal(prior.mean + root * x[:d], prior.variances * np.exp(x[d:]))
        spread = np.sqrt(np.maximum(squares @ post.variances, 1e-30))
        t = signs * (offset + R @ post.mean) / spread
        error = float(np.clip(ndtr(-t).mean(), 1e-9, 1 - 1e-9))
        p = bound(error, post.kl(prior), n, delta)
        p = min(max(p, error + 1e-12), 1 - 1e-9)
        by_p = (p - error) / (p * (1 - p))
        by_error = np.log(error / p) - np.log((1 - error) / (1 - p))
        density = np.exp(-0.5 * t * t) / np.sqrt(2 * np.pi) / t.size
        of_mean = -(density * signs / spread) @ R
        of_variances = (density * t / (2 * spread**2)) @ squares
        factor = np.exp(x[d:])
        gradient = np.concatenate(
            [
                -by_error * of_mean * root + x[:d] / n,
                -by_error * of_variances * post.variances + 0.5 * (factor - 1.0) / n,
            ]
        )
        return p, gradient / by_p

    start = np.concatenate([np.zeros(d), np.full(d, -0.5)])
    # a small step towards the classes: at the prior itself the error is flat where it is 1/2
    direction = root * (signs @ R)
    start[:d] = direction / max(np.linalg.norm(direction), 1e-30)
    limits = [(None, None)] * d + [(-_WIDEST, _WIDEST)] * d
    options = {"maxiter": n_steps}
    x = minimize(value, start, jac=True, method="L-BFGS-B", bounds=limits, options=options).x
    return Normal(prior.mean + root * x[:d], prior.variances * np.exp(x[d:]))


def recursive_bound(
    R: np.ndarray, signs: np.ndarray, prior: Normal, delta: float, parts: list[np.ndarray]
) -> float:
    """Bound on the error of the last posterior, each part's posterior the next part's prior."""
    return recursive_posterior(R, signs, prior, delta, parts)[1]


def recursive_posterior(
    R: np.ndarray,
    signs: np.ndarray,
    prior: Normal,
    delta: float,
    parts: list[np.ndarray],
    *,
    n_steps: int = 150,
) -> tuple[Normal, float]:
    """The last posterior, each part's the next part's prior, and the bound on its error.

    With e the error of this step's posterior and g that of the one before, drawn independently, the
    loss e - g / 2 is -1/2, 0, 1/2 or 1: half the sum of three indicators less a half, each bounded
    by itself on the texts that the prior of the step has not seen.
    """
    share = delta / len(parts)
    total = 1.0
    before = prior
    for step, part in enumerate(parts):
        unseen = np.concatenate(parts[step:])
        after = minimise_bound(R[part], signs[part], before, share, n=unseen.size, n_steps=n_steps)
        new = after.errors(R[unseen], signs[unseen])
        kl = after.kl(before)
        if step == 0:
            total = bound(float(new.mean()), kl, unseen.size, share)
        else:
            old = before.errors(R[unseen], signs[unseen])
            indicators = (new + (1 - new) * (1 - old), new, new * (1 - old))
            upper = [bound(float(one.mean()), kl, unseen.size, share / 3) for one in indicators]
            total = 0.5 * sum(upper) - _GAMMA + _GAMMA * total
        before = after
    return before, min(total, 1.0)
