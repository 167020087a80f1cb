"""PB-neg solved with a sample of the noise words and a control variate, in single precision.

The noise term is expanded around the mean of the prior means; the sample corrects the expansion,
so that a few hundred words stand for all. Sentences for which the estimated error is too large are
solved again with all noise words.
"""

from dataclasses import dataclass
from functools import cached_property
from threading import Lock

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from pacsent.maths.arrays import Numbers
from pacsent.maths.lbfgs import minimise_all
from pacsent.maths.logistic import gaussian_logistic, higher_derivatives, sigmoid_fits
from pacsent.maths.pb_neg_exact import preconditioner, solve
from pacsent.maths.pb_neg_objective import (
    SCORES_AT_ONCE,
    Noise,
    Penalty,
    SentenceProblems,
    Solution,
    squared_lengths,
)

_WHOLE_BELOW = 2048  # noise words that no sample need stand for
_MOST_STEPS = 30  # with the rest as it was measured; usual are five
_LOCK = Lock()  # of the expansions that threads share


@dataclass(frozen=True)
class NoiseSample:
    """Some noise words that stand for all, with a control variate that is exact for all.

    The noise term G(mu, var_Q) is common to all sentences. Around a centre (mu_0, var_0) it is
    written as its second-order expansion, and the third order along a few directions and in mu and
    var_Q together, summed once over the whole vocabulary, plus the rest, summed over a fixed sample
    of words, each weighted by 1/inclusion. The rest is small, so the sample's error is; it is
    estimated for each sentence from the sample itself.
    """

    noise: Noise  # in single precision, rows sorted by their length
    chosen: np.ndarray  # (n_sample,), increasing: rows of `noise` in the sample
    inclusion: np.ndarray  # (n_sample,), chance of each to be in it; 1 for those that always are

    @cached_property
    def rows(self) -> np.ndarray:
        return np.ascontiguousarray(self.noise.A[self.chosen])  # (n_sample, n_dims)

    @cached_property
    def weights(self) -> np.ndarray:
        """(nu, w, e) of the sampled words: squared length, weight, and weight in the error."""
        nu, w = self.noise.nu[self.chosen], self.noise.kp[self.chosen] / self.inclusion
        e = (1.0 - self.inclusion) * w**2 * nu
        return np.stack([nu, w, e]).astype(np.float32)

    @cached_property
    def whole(self) -> "NoiseSample":
        """All noise words, nothing left to the expansion."""
        everything = NoiseSample(
            self.noise, np.arange(self.noise.kp.size), np.ones(self.noise.kp.size)
        )
        everything.__dict__["rows"] = self.noise.A  # they are all there: no copy
        everything.__dict__["_expansions"] = self._expansions  # sums over all words: the same
        return everything

    def double(self, A_hat: np.ndarray) -> Noise:
        """All noise words in double precision, for sentences that need it; made once."""
        with _LOCK:
            if "_double" not in self.__dict__:
                noise = self.noise
                A, centre = A_hat[noise.words].astype(float), noise.centre.astype(float)
                self.__dict__["_double"] = Noise(noise.words, noise.kp, A, centre, noise.frequency)
            return self.__dict__["_double"]

    @cached_property
    def _expansions(self):
        return {}

    @cached_property
    def _controls(self):
        return {}

    def expansion(self, var_0: float) -> "_Expansion":
        """The noise term at (centre, var_0), its sums over all words."""
        with _LOCK:
            if var_0 not in self._expansions:
                self._expansions[var_0] = _Expansion(self.noise, var_0)
            return self._expansions[var_0]

    def control(self, var_0: float) -> tuple[tuple, np.ndarray]:
        """(what the sampled words must subtract there, their rows along the main directions)."""
        expansion = self.expansion(var_0)
        with _LOCK:
            if var_0 not in self._controls:
                parts = np.ascontiguousarray(expansion.by_word[:, self.chosen])
                low = np.ascontiguousarray(expansion.low[self.chosen])
                self._controls[var_0] = (np.float32(var_0), parts), low
            return self._controls[var_0]


class _Expansion:
    """The noise term to second order at (centre, var_0), to third order along main directions."""

    def __init__(self, noise: Noise, var_0: float):
        nu = noise.nu.astype(float)
        a = (noise.A @ noise.centre).astype(float)
        _, f1, f2 = gaussian_logistic(a, var_0 * nu)
        f3, f4 = higher_derivatives(a, var_0 * nu)
        single = np.float32

        def total(weight):
            return (weight.astype(single) @ noise.A).astype(single)

        self.var_0 = var_0
        self.gradient = total(noise.kp * f1)
        self.gradient_by_var = total(0.5 * noise.kp * nu * f3)
        self.trace = float(noise.kp @ (nu * f2))
        self.trace_by_mu = total(noise.kp * nu * f3)
        self.trace_by_var = float(0.5 * noise.kp @ (nu * nu * f4))
        self.hessian = (noise.A * (noise.kp * f2)[:, None].astype(single)).T @ noise.A
        by_var = (0.5 * noise.kp * nu * f4)[:, None].astype(single)
        self.hessian_by_var = (noise.A * by_var).T @ noise.A
        own = (noise.A * (0.2 * noise.frequency)[:, None].astype(single)).T @ noise.A
        values, self.U = np.linalg.eigh((self.hessian + own).astype(float))
        self.eigenvalues = np.maximum(values, 0.0)
        self.bend = _largest_bend(noise.A, noise.kp * f3)
        P = np.zeros((noise.A.shape[1], 1)) if noise.directions is None else noise.directions
        self.P = P.astype(single)
        low = self.low = noise.A @ self.P  # (n_support, n_directions)
        i, j = self.pairs = np.triu_indices(low.shape[1])
        weight, twice = (noise.kp * 0.5 * f3).astype(single), np.where(i == j, 1.0, 2.0)
        self.third = np.zeros((i.size, noise.A.shape[1]), single)
        for at in range(0, len(low), 4096):  # pairs of directions are many: a part at a time
            part = low[at : at + 4096]
            pairs = (part * weight[at : at + 4096, None])[:, i] * part[:, j]
            self.third += pairs.T @ noise.A[at : at + 4096]
        self.third *= twice[:, None].astype(single)
        by_word = (a, f1, f2, 0.5 * nu * f3, 0.5 * f3, f2, f3, 0.5 * nu * f4)
        self.by_word = np.stack(by_word).astype(single)


def _largest_bend(A, weight):
    """Largest change of sum_u weight_u A_u A_u' (A_u.v), as an operator, over unit vectors v.

    The maximum of the cubic form sum weight (A.v)^3, climbed by power iteration from a few starts.
    """
    weight = np.abs(weight).astype(A.dtype)
    best = 0.0
    for u in np.argsort(weight * np.einsum("ud,ud->u", A, A) ** 1.5)[:-3:-1]:
        v = A[u] / max(float(np.linalg.norm(A[u])), np.finfo(A.dtype).tiny)
        for _ in range(6):
            along = A @ v
            v = (weight * along * np.abs(along)) @ A
            v /= max(float(np.linalg.norm(v)), np.finfo(A.dtype).tiny)
        best = max(best, float(weight @ np.abs(A @ v) ** 3))
    return best


def _sorted_by_length(noise: Noise) -> Noise:
    """The same noise in single precision with its rows sorted by |A_u|, as the kernels want it."""
    order = np.argsort(noise.nu, kind="stable")
    A, centre = np.asarray(noise.A[order], dtype=np.float32), noise.centre.astype(np.float32)
    words, kp, frequency = noise.words[order], noise.kp[order], noise.frequency[order]
    return Noise(words, kp, np.ascontiguousarray(A), centre, frequency, noise.directions)


def sample_of(noise: Noise, words: np.ndarray, inclusion: ArrayLike) -> NoiseSample:
    """The NoiseSample of these words of `noise`, as `draw_sample` once drew them."""
    noise = _sorted_by_length(noise)
    place = np.full(int(noise.words.max()) + 1, -1)
    place[noise.words] = np.arange(noise.words.size)
    chosen = place[words]
    order = np.argsort(chosen)
    return NoiseSample(noise, chosen[order], np.asarray(inclusion)[order])


def inclusion_probabilities(importance: ArrayLike, size: int) -> np.ndarray:
    """min(1, c * importance) with c such that they sum to `size`."""
    importance = np.asarray(importance, dtype=float)
    if size >= np.count_nonzero(importance):
        return (importance > 0).astype(float)
    sure = np.zeros(importance.size, dtype=bool)
    while True:
        rest = np.where(sure, 0.0, importance)
        p = np.where(sure, 1.0, (size - sure.sum()) * rest / rest.sum())
        if np.all(p <= 1.0):
            return p
        sure |= p > 1.0


def draw_sample(
    noise: Noise,
    counts: sparse.csr_matrix,
    A_hat: np.ndarray,
    m: np.ndarray,
    *,
    lam: Numbers,
    var_P: float,
    kl: str,
    error: float,
    rng: np.random.Generator,
) -> NoiseSample:
    """The sample of the noise words that saves most; all of them if none saves a fifth.

    The pilot sentences (`counts`, `m`) say how large the rest of the expansion is for each word,
    hence how likely a word should be in the sample. A sentence whose relative error of mu - m is
    above `error` is solved with all words too, so that a size costs itself and their share of all.
    """
    noise = _sorted_by_length(noise)
    whole = NoiseSample(noise, np.zeros(0, dtype=int), np.zeros(0)).whole
    if noise.kp.size <= _WHOLE_BELOW:
        return whole
    nu = squared_lengths(A_hat)
    rule, penalty = sigmoid_fits(), Penalty(lam, var_P, kl)
    pilot = SentenceProblems(counts, (A_hat, nu), m, penalty, rule, np.float32)
    x, levels = _levels(pilot, noise)
    squares = np.zeros((len(x), noise.kp.size), dtype=np.float32)  # of kp * rest * |A_u|
    size_of_data = np.empty(len(x))
    for level in np.unique(levels):
        rows = np.flatnonzero(levels == level)
        keep: list[np.ndarray] = []
        model = _Model(pilot, whole, whole.expansion(4.0**level))
        model.measure(rows, x[rows], keep)
        grad, _ = model.evaluate(rows, x[rows])
        squares[rows] = np.concatenate(keep) ** 2 * noise.nu
        size_of_data[rows] = np.linalg.norm(grad[:, :-1], axis=1)  # at m the penalty is 0
    importance = np.sqrt(squares.mean(axis=0, dtype=float))
    everything = noise.kp.size
    cheapest, p = 0.8 * everything, None
    for size in np.geomspace(512, everything, 24)[:-1]:
        chances = inclusion_probabilities(importance, int(size))
        with np.errstate(divide="ignore", invalid="ignore"):
            factor = np.where(chances > 0, (1.0 - chances) / chances, 0.0)
        relative = np.sqrt(squares @ factor.astype(np.float32)) / size_of_data
        cost = size + everything * np.mean(relative > error)
        if cost < cheapest:
            cheapest, p = cost, chances
    if p is None:
        return whole
    # systematic sampling in order of frequency: every stretch of it has its share
    order = np.argsort(noise.words)
    ticks = np.cumsum(p[order]) + rng.random()
    inside = np.floor(ticks) > np.floor(np.concatenate([[ticks[0] - p[order[0]]], ticks[:-1]]))
    chosen = np.sort(order[inside])
    return NoiseSample(noise, chosen, p[chosen])


def _levels(sentences, noise):
    """Where to start, and the power of four nearest to each start's variance."""
    trace = float(noise.kp @ (noise.nu * 0.06))  # 0.06: sigmoid' at a noise word's usual score
    x = sentences.start(trace)
    # below 4^-4 the expectation hardly differs from the value at the mean: one centre for all
    return x, np.maximum(np.rint(x[:, -1] / np.log(4.0)), -4).astype(int)


class _Model:
    """The noise term as its expansion plus a rest that is held, so that an evaluation is cheap."""

    def __init__(self, sentences, sample, expansion):
        self.sentences, self.sample, self.expansion = sentences, sample, expansion
        n, n_dims = sentences.m.shape
        self.rest, self.rest_trace = np.zeros((n, n_dims), np.float32), np.zeros(n)
        self.errors = np.zeros(n)  # squared, of the rest's gradient, from sampling

    def _place(self, rows, x):
        mu = self.sentences.m[rows] + x[:, :-1]
        return mu, np.exp(x[:, -1]).astype(np.float32), mu - self.sample.noise.centre

    def evaluate(self, rows, x):
        """Gradients, no values, of the objective with the rest as it was last measured."""
        mu, var_Q, away = self._place(rows, x)
        around = self.expansion
        change = var_Q - np.float32(around.var_0)
        grad = away @ around.hessian
        grad += around.gradient + change[:, None] * around.gradient_by_var
        grad += self.rest[rows]
        trace = around.trace + away @ around.trace_by_mu + change * around.trace_by_var
        # E sigmoid' >= 0: a negative trace is the expansion's error, and would send rho to infinity
        trace = np.maximum(trace.astype(float) + self.rest_trace[rows], 0.0)
        self.sentences.add_own_words(rows, mu, var_Q, grad, None, trace)
        return self.sentences.finish(rows, x, grad, None, trace)

    def _third_order(self, away, var_Q):
        """(gradient of the third order, as far as it is expanded, away along main directions)."""
        along = away @ self.expansion.P
        i, j = self.expansion.pairs
        grad = (along[:, i] * along[:, j]) @ self.expansion.third
        change = var_Q - np.float32(self.expansion.var_0)
        grad += change[:, None] * (away @ self.expansion.hessian_by_var)
        return grad, along

    def guess(self, rows, x):
        """Take the third order, as far as it is expanded, for the rest at x."""
        _, var_Q, away = self._place(rows, x)
        self.rest[rows], _ = self._third_order(away, var_Q)

    def measure(self, rows, x, keep=None):
        """Measure the rest at x by the sample; each word's part is appended to `keep`."""
        from pacsent._kernels.sampling_kernels import sampled_noise_terms

        _, var_Q, away = self._place(rows, x)
        nu = self.sample.weights[0]
        third, along = self._third_order(away, var_Q)
        control, low_rows = self.sample.control(self.expansion.var_0)
        step = max(128, SCORES_AT_ONCE // len(nu))
        for i in range(0, len(rows), step):
            part = slice(i, i + step)
            shifts = away[part] @ self.sample.rows.T  # (some sentences, n_sample)
            low = along[part] @ low_rows.T
            spread, square = np.empty(len(shifts)), np.empty(len(shifts))
            sampled_noise_terms(
                shifts, low, var_Q[part], control, self.sample.weights,
                self.sentences.rule, spread, square,
            )  # fmt: skip
            self.rest[rows[part]] = third[part] + shifts @ self.sample.rows
            self.rest_trace[rows[part]], self.errors[rows[part]] = spread, square
            if keep is not None:
                keep.append(shifts)

    def evaluate_anew(self, rows, x):
        """Gradients with the rest measured at x itself."""
        self.measure(rows, x)
        return self.evaluate(rows, x)

    def drift(self, rows, x, y):
        """About how much the rest's gradient differs between x and y, at most."""
        _, var_x, away = self._place(rows, x)
        distance = np.linalg.norm(away, axis=1) * np.linalg.norm(x[:, :-1] - y[:, :-1], axis=1)
        var_y = np.exp(y[:, -1])
        by_var = np.linalg.norm(self.expansion.gradient_by_var) * np.abs(var_x - var_y)
        return 0.25 * self.expansion.bend * distance + by_var  # measured: at most 0.7 of it


def _settle(model, x, rows, tol, max_iter, first=0):
    """Solve, measure the rest there, and solve again, until the rest would hardly change, in place.

    Where the rest weighs too much for that, as in phrases of a few words, it is measured at every
    step. Returns (evaluations, largest entries of the gradients, converged) of all sentences.
    `first=1`: the rest at x is measured already.
    """
    sentences, expansion = model.sentences, model.expansion
    precondition = preconditioner(sentences, expansion.eigenvalues, expansion.U)
    n_iter, norm = np.zeros(len(x), dtype=np.int64), np.full(len(x), np.inf)
    converged = np.zeros(len(x), dtype=bool)
    for turn in range(first, 3):
        goal = 0.25 * tol if turn else max(0.25 * tol, 3e-3)
        y, more, norm[rows], good = minimise_all(
            model.evaluate, precondition, x, goal, min(max_iter, _MOST_STEPS), rows,
            sentences.error_bound,
        )  # fmt: skip
        n_iter[rows] += more
        if turn:
            moved = sentences.kappa[rows] * np.linalg.norm(y[:, :-1], axis=1)
            settled = good & (model.drift(rows, x[rows], y) <= 0.75 * tol * moved)
            converged[rows[settled]] = True
        x[rows] = y
        rows = rows[~converged[rows] & (good | (turn == 0))]
        if not rows.size or turn == 2:
            break
        model.measure(rows, x[rows])
        n_iter[rows] += 1
        # far from the centre, with large lam, a sample says nothing: its error exceeds the pull
        pull = sentences.kappa[rows] * np.linalg.norm(x[rows, :-1], axis=1)
        rows = rows[np.sqrt(model.errors[rows]) <= np.maximum(pull, np.finfo(x.dtype).tiny)]
    if rows.size:
        x[rows], more, norm[rows], converged[rows] = minimise_all(
            model.evaluate_anew, precondition, x, tol, max_iter, rows, sentences.error_bound
        )
        n_iter[rows] += more
    return n_iter, norm, converged


def _solve_with_all(sentences, whole, var_0, x, rows, tol, max_iter):
    """Minima of rows of x, the noise term summed over all noise words at every step."""
    model = _Model(sentences, whole, whole.expansion(var_0))
    precondition = preconditioner(sentences, model.expansion.eigenvalues, model.expansion.U)
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        return minimise_all(
            model.evaluate_anew, precondition, x, tol, max_iter, rows, sentences.error_bound
        )


def solve_sampled(
    counts: sparse.csr_matrix,
    A_hat: np.ndarray,
    m: np.ndarray,
    sample: NoiseSample,
    *,
    lam: Numbers = 1.0,
    var_P: float = 1.0,
    kl: str = "exact",
    tol: float = 1e-3,
    max_iter: int = 200,
    nu: np.ndarray | None = None,
) -> Solution:
    """PB-neg posteriors of many sentences by a sample of the noise words, single precision.

    As `solve`, with the noise term of `NoiseSample`: its expansion is followed exactly, and the
    rest measured where the solution lies, once for most sentences, because it changes little on the
    way. A sentence whose estimated error is above `tol` is solved further with all noise words. One
    that does not settle, as with large lam, is solved with all of them at every step, and where
    single precision is not enough for that, by `solve`.
    """
    nu = squared_lengths(A_hat) if nu is None else nu
    rule, penalty = sigmoid_fits(), Penalty(lam, var_P, kl)
    sentences = SentenceProblems(counts, (A_hat, nu), m, penalty, rule, np.float32)
    sentences.rounding = 1e-6 * float(sample.noise.kp @ np.sqrt(sample.noise.nu))
    start, levels = _levels(sentences, sample.noise)
    n, x = len(start), start.copy()
    n_iter, norm = np.zeros(n, dtype=np.int64), np.empty(n)
    converged, error = np.zeros(n, dtype=bool), np.zeros(n)
    for level in np.unique(levels):
        rows = np.flatnonzero(levels == level)
        model = _Model(sentences, sample, sample.expansion(4.0**level))
        model.guess(rows, x[rows])
        # what runs away is solved below
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            found = _settle(model, x, rows, tol, max_iter)
            n_iter[rows], norm[rows], converged[rows] = (part[rows] for part in found)
            moved = sentences.kappa[rows] * np.linalg.norm(x[rows, :-1], axis=1)
            squares = model.errors[rows]
            error[rows] = np.where(squares > 0, np.sqrt(squares) / moved, 0.0)
        rows = rows[converged[rows] & ~(error[rows] <= tol)]
        if rows.size:
            model = _Model(sentences, sample.whole, sample.whole.expansion(4.0**level))
            model.measure(rows, x[rows])
            more, norms, good = _settle(model, x, rows, tol, max_iter, first=1)
            n_iter[rows] += more[rows] + 1
            norm[rows], converged[rows], error[rows] = norms[rows], good[rows], 0.0
        rows = np.flatnonzero((levels == level) & ~converged)
        if rows.size:
            lost = rows[~np.isfinite(x[rows]).all(axis=1)]
            x[lost] = start[lost]
            found = _solve_with_all(sentences, sample.whole, 4.0**level, x, rows, tol, max_iter)
            x[rows], more, norm[rows], converged[rows] = found
            n_iter[rows] += more
            error[rows] = 0.0
    mu, var_Q = np.asarray(m, dtype=float) + x[:, :-1], np.exp(x[:, -1].astype(float))
    unsure = np.flatnonzero(~converged)
    if unsure.size:
        lam = np.broadcast_to(np.asarray(lam, dtype=float), n)
        found = solve(
            counts[unsure], A_hat, m[unsure], sample.double(A_hat), lam=lam[unsure], var_P=var_P,
            kl=kl, tol=tol, max_iter=max_iter, nu=nu, start=x[unsure],
        )  # fmt: skip
        mu[unsure], var_Q[unsure], norm[unsure] = found.mu, found.var_Q, found.gradient_norm
        converged[unsure], error[unsure] = found.converged, 0.0
        n_iter[unsure] += found.n_iter
    return Solution(mu, var_Q, n_iter, norm, converged, error)
