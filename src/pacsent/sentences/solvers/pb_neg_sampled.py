"""The fast solver of PB-neg: up to 60 times as fast as `pb_neg.solve`, in single precision.

It minimises the same objective, `pb_neg.ExactObjective`, and differs in the noise term alone. That
term, G(mu, var_Q), is a sum over the whole vocabulary, and the same function for all sentences.

1. **Expansion.** Around a centre (mu_0, var_0), G is written as an expansion of second order, with
   the third order along the directions in which sentences differ most and in mu and var_Q together.
   Its coefficients are sums over all words, taken once (`expand`). There is one for each power of 4
   that var_0 may be, a *level*; a sentence uses the nearest.
2. **Control variate.** The remainder, G minus its expansion, is summed over a fixed sample of a few
   hundred negatives, each weighted by 1/inclusion probability (`NoiseSample`). The expansion takes
   most of each word's term away, so that few words are enough (`draw_sample`).
3. **Alternation.** The remainder costs far more than the expansion. So it is measured at one point
   and held fixed while L-BFGS minimises, then measured again, until it hardly changes: once for
   most sentences (`ControlVariateModel`, `_alternate`).
4. **Fallbacks.** The sampling error of the remainder is estimated for each sentence. Where it is
   above the tolerance, all negatives measure the remainder; where the alternation does not end,
   they do so at every step; and where single precision is not enough, `pb_neg.solve` takes over.

`tests/sentences/test_negative_sampling.py` compares both solvers: each sentence's posterior mean
and variance agree to twice the tolerance
(`test_a_sample_of_the_noise_words_is_as_good_as_it_says` and those that follow it).
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from pacsent.arrays import Numbers
from pacsent.kernels import pb_neg as kernels
from pacsent.sentences.solvers.lbfgs import Minima, minimise_all
from pacsent.sentences.solvers.logistic import gaussian_logistic, higher_derivatives, sigmoid_fits
from pacsent.sentences.solvers.pb_neg import (
    MAX_SCORES,
    MIN_SENTENCES,
    OWN_WORD_SLOPE,
    Noise,
    SentenceProblems,
    Solution,
    solve,
    squared_lengths,
)

# Smaller vocabularies are summed completely.
_MIN_SAMPLED_WORDS = 2048

# A sample must save at least a fifth of the work of summing over all words.
_MAX_RELATIVE_COST = 0.8
_MIN_SAMPLE_SIZE = 512
_N_SAMPLE_SIZES = 24  # that are compared

# sigmoid' at the usual score of a negative.
_NEGATIVE_SLOPE = 0.06

# Variances of the expansions are powers of this base; below the lowest they hardly matter.
_VAR_BASE = 4.0
_MIN_LEVEL = -4

_MAX_STEPS = 30  # of L-BFGS with the remainder held fixed; five are usual
_MAX_TURNS = 3  # of minimising and measuring

# The first solution uses a guess of the remainder: it need not be more precise than this.
_FIRST_TOL = 3e-3

# Of the tolerance: for the minimiser, and for the change of the remainder. They add up to 1.
_MINIMISER_PART = 0.25
_REMAINDER_PART = 0.75

# The remainder's gradient differs by at most 0.7 of this estimate on the five datasets.
_CUBIC_PART = 0.25

_PAIR_BLOCK_WORDS = 4096  # of which products of pairs of directions are made at once

_LOCK = Lock()  # of the expansions, which threads share


@cache
def _fits() -> kernels.Fits:
    return kernels.Fits(*sigmoid_fits())


# ---- The expansion ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Expansion:
    """The noise term to second order at (centre, var_0), to third order along main directions.

    Derivatives are in mu and in var_Q ("by_var"); d is n_dims, and the trace is that of the Hessian
    in mu.
    """

    var_0: float

    # First and second order
    gradient: np.ndarray  # (d,)
    gradient_by_var: np.ndarray  # (d,)
    hessian: np.ndarray  # (d, d)
    trace: float
    trace_by_mu: np.ndarray  # (d,)
    trace_by_var: float

    # Third order
    hessian_by_var: np.ndarray  # (d, d)
    directions: np.ndarray  # (d, n_directions), orthonormal
    pairs: tuple[np.ndarray, np.ndarray]  # (n_pairs,) each: directions i <= j
    third: np.ndarray  # (n_pairs, d), gradient of the cubic form for each pair
    cubic: float  # its largest value along a unit vector: how fast the Hessian can change

    # Curvature of a typical data term, for the preconditioner
    eigenvalues: np.ndarray  # (d,)
    eigenvectors: np.ndarray  # (d, d)

    # Single words
    projections: np.ndarray  # (n_support, n_directions): rows of A along the directions
    by_word: np.ndarray  # (8, n_support): a, b0 ... b3, t0 ... t2 of `sampled_noise_terms`


def expand(noise: Noise, var_0: float) -> Expansion:
    """Expand the noise term at (noise.centre, var_0), by sums over all words.

    With G_u = kp_u E softplus(h.A_u), h ~ N(mu, var_Q I), and f1 ... f4 the derivatives in the
    score, a derivative in mu is a factor A_u and one in var_Q a factor nu_u/2 with two orders more.
    """
    A = noise.A
    kp = noise.kp
    nu = noise.nu.astype(float)
    a = (A @ noise.centre).astype(float)  # (n_support,), scores at the centre
    _, f1, f2 = gaussian_logistic(a, var_0 * nu)
    f3, f4 = higher_derivatives(a, var_0 * nu)

    def vector(weight: np.ndarray) -> np.ndarray:  # sum_u weight_u A_u
        return weight.astype(np.float32) @ A

    def matrix(weight: np.ndarray) -> np.ndarray:  # sum_u weight_u A_u A_u'
        weighted = A * weight[:, None].astype(np.float32)
        return weighted.T @ A

    # First order, in mu and for the trace
    gradient = vector(kp * f1)
    trace = float(kp @ (nu * f2))

    # Second order
    hessian = matrix(kp * f2)
    gradient_by_var = vector(0.5 * kp * nu * f3)
    trace_by_mu = vector(kp * nu * f3)
    trace_by_var = float(0.5 * kp @ (nu * nu * f4))

    # Third order: in mu and var_Q together; in mu alone along the main directions.
    hessian_by_var = matrix(0.5 * kp * nu * f4)
    directions = noise.directions.astype(np.float32)
    projections = A @ directions  # (n_support, n_directions)
    pairs = np.triu_indices(projections.shape[1])
    third = _cubic_form(A, projections, pairs, (0.5 * kp * f3).astype(np.float32))

    # Curvature of the whole data term, with a typical sentence's own words
    own = matrix(OWN_WORD_SLOPE * noise.frequency)
    eigenvalues, eigenvectors = np.linalg.eigh((hessian + own).astype(float))

    by_word = (a, f1, f2, 0.5 * nu * f3, 0.5 * f3, f2, f3, 0.5 * nu * f4)
    return Expansion(
        var_0=var_0,
        gradient=gradient,
        gradient_by_var=gradient_by_var,
        hessian=hessian,
        trace=trace,
        trace_by_mu=trace_by_mu,
        trace_by_var=trace_by_var,
        hessian_by_var=hessian_by_var,
        directions=directions,
        pairs=pairs,
        third=third,
        cubic=_largest_cubic(A, kp * f3),
        eigenvalues=np.maximum(eigenvalues, 0.0),
        eigenvectors=eigenvectors,
        projections=projections,
        by_word=np.stack(by_word).astype(np.float32),
    )


def _cubic_form(
    A: np.ndarray,
    projections: np.ndarray,
    pairs: tuple[np.ndarray, np.ndarray],
    weight: np.ndarray,
) -> np.ndarray:
    """sum_u weight_u P_ui P_uj A_u for each pair of directions, twice where i != j."""
    i, j = pairs
    third = np.zeros((i.size, A.shape[1]), np.float32)

    for start in range(0, len(A), _PAIR_BLOCK_WORDS):  # bounds the memory of the products
        words = slice(start, start + _PAIR_BLOCK_WORDS)
        along = projections[words]
        weighted = along * weight[words, None]
        products = weighted[:, i] * along[:, j]  # (n_block, n_pairs)
        third += products.T @ A[words]
    third[i != j] *= 2.0
    return third


def _largest_cubic(A: np.ndarray, weight: np.ndarray) -> float:
    """Maximum over unit vectors v of sum_u |weight_u (A_u.v)^3|: how fast the Hessian can change.

    Climbed by power iteration from the two heaviest words.
    """
    weight = np.abs(weight).astype(A.dtype)
    tiny = np.finfo(A.dtype).tiny
    heaviness = weight * np.einsum("ud,ud->u", A, A) ** 1.5
    largest = 0.0
    for u in np.argsort(heaviness)[:-3:-1]:
        v = A[u] / max(float(np.linalg.norm(A[u])), tiny)
        for _ in range(6):
            along = A @ v
            v = (weight * along * np.abs(along)) @ A
            v /= max(float(np.linalg.norm(v)), tiny)
        largest = max(largest, float(weight @ np.abs(A @ v) ** 3))
    return largest


# ---- The sample of the negatives ----------------------------------------------------------------


@dataclass(frozen=True)
class NoiseSample:
    """Weighted sample of negatives, with control variates that are summed over all of them."""

    noise: Noise  # in single precision, rows sorted by their length
    chosen: np.ndarray  # (n_sample,), increasing: rows of `noise` in the sample
    inclusion: np.ndarray  # (n_sample,), probability to be in it; 1 for those that always are
    cache: dict = field(default_factory=dict)  # of `_cached`, common with `full_sample`

    @cached_property
    def rows(self) -> np.ndarray:
        """Rows of A_hat of the sampled words, (n_sample, n_dims)."""
        is_full = self.chosen.size == self.noise.kp.size
        return self.noise.A if is_full else self.noise.A[self.chosen]

    @cached_property
    def weights(self) -> np.ndarray:
        """(nu, w, e) of the sampled words: squared length, weight, and weight in the error."""
        nu = self.noise.nu[self.chosen]
        w = self.noise.kp[self.chosen] / self.inclusion
        e = (1.0 - self.inclusion) * w**2 * nu
        return np.stack([nu, w, e]).astype(np.float32)

    @cached_property
    def full_sample(self) -> "NoiseSample":
        """All negatives: nothing is left to chance."""
        n_words = self.noise.kp.size
        if self.chosen.size == n_words:
            return self
        return NoiseSample(self.noise, np.arange(n_words), np.ones(n_words), self.cache)

    def _cached(self, key: Any, make: Callable) -> Any:
        with _LOCK:
            if key not in self.cache:
                self.cache[key] = make()
            return self.cache[key]

    def float64_noise(self, A_hat: np.ndarray) -> Noise:
        """The same noise in double precision, for sentences that need it."""

        def make() -> Noise:
            A = A_hat[self.noise.words].astype(float)
            centre = self.noise.centre.astype(float)
            return replace(self.noise, A=A, centre=centre)

        return self._cached("double", make)

    def expansion(self, level: int) -> Expansion:
        """The noise term at (centre, 4^level), its sums over all words."""
        return self._cached(level, lambda: expand(self.noise, _VAR_BASE**level))

    def control(self, level: int) -> tuple[np.ndarray, np.ndarray]:
        """The control variates of the sampled words, and their rows along the main directions."""
        expansion = self.expansion(level)

        def make() -> tuple[np.ndarray, np.ndarray]:
            by_word = np.ascontiguousarray(expansion.by_word[:, self.chosen])
            return by_word, expansion.projections[self.chosen]

        return self._cached((level, self.chosen.size), make)


def _sorted_by_length(noise: Noise) -> Noise:
    """The same noise in single precision with its rows sorted by |A_u|, as the kernels want it."""
    order = np.argsort(noise.nu, kind="stable")
    return replace(
        noise,
        words=noise.words[order],
        kp=noise.kp[order],
        A=noise.A[order].astype(np.float32),
        centre=noise.centre.astype(np.float32),
        frequency=noise.frequency[order],
    )


def sample_of(noise: Noise, words: np.ndarray, inclusion: ArrayLike) -> NoiseSample:
    """The NoiseSample of these words of `noise`, as `draw_sample` once drew them."""
    noise = _sorted_by_length(noise)
    row_of_word = np.full(int(noise.words.max()) + 1, -1)
    row_of_word[noise.words] = np.arange(noise.words.size)
    rows = row_of_word[words]
    order = np.argsort(rows)
    return NoiseSample(noise, rows[order], np.asarray(inclusion)[order])


def inclusion_probabilities(importance: ArrayLike, size: int) -> np.ndarray:
    """min(1, c * importance) with c such that they sum to `size`."""
    importance = np.asarray(importance, dtype=float)
    if size >= np.count_nonzero(importance):
        return (importance > 0).astype(float)
    always = np.zeros(importance.size, dtype=bool)
    while True:
        other = np.where(always, 0.0, importance)
        scaled = (size - always.sum()) * other / other.sum()
        p = np.where(always, 1.0, scaled)
        if np.all(p <= 1.0):
            return p
        always |= p > 1.0


def draw_sample(
    noise: Noise,
    counts: sparse.csr_matrix,
    A_hat: np.ndarray,
    m: np.ndarray,
    *,
    lam: Numbers,
    var_P: Numbers,
    error: float,
    rng: np.random.Generator,
) -> NoiseSample:
    """The sample of the negatives that saves most; all of them if none saves a fifth.

    On the pilot sentences (`counts`, `m`) the remainder of every word is computed, hence how likely
    a word should be in the sample. A sentence whose relative error of mu - m is above `error` is
    solved with all words too, so that a sample costs its size plus the fraction of such sentences
    times the vocabulary.
    """
    noise = _sorted_by_length(noise)
    n_words = noise.kp.size
    full_sample = NoiseSample(noise, np.arange(n_words), np.ones(n_words))
    if n_words <= _MIN_SAMPLED_WORDS:
        return full_sample

    nu = squared_lengths(A_hat)
    pilot = SentenceProblems(counts, A_hat, nu, m, lam=lam, var_P=var_P, dtype=np.float32)
    squares, data_gradient = _remainders_by_word(pilot, full_sample)
    importance = np.sqrt(squares.mean(axis=0, dtype=float))  # (n_words,)

    lowest_cost = _MAX_RELATIVE_COST * n_words
    p = None
    for size in np.geomspace(_MIN_SAMPLE_SIZE, n_words, _N_SAMPLE_SIZES)[:-1]:
        candidate = inclusion_probabilities(importance, int(size))
        with np.errstate(divide="ignore", invalid="ignore"):
            variance = np.where(candidate > 0, (1.0 - candidate) / candidate, 0.0)
        sampling_errors = np.sqrt(squares @ variance.astype(np.float32))  # (n_pilot,)
        is_imprecise = sampling_errors / data_gradient > error
        cost = size + n_words * np.mean(is_imprecise)
        if cost < lowest_cost:
            lowest_cost = cost
            p = candidate
    if p is None:
        return full_sample

    # Systematic sampling in order of frequency: every stretch of it is represented. A word is
    # taken if the sum of the probabilities passes a whole number there.
    order = np.argsort(noise.words)
    sums = np.cumsum(p[order]) + rng.random()
    sum_before_first = sums[0] - p[order[0]]
    sums_before = np.concatenate([[sum_before_first], sums[:-1]])
    is_chosen = np.floor(sums) > np.floor(sums_before)
    chosen = np.sort(order[is_chosen])
    return NoiseSample(noise, chosen, p[chosen])


def _remainders_by_word(
    pilot: SentenceProblems, full_sample: NoiseSample
) -> tuple[np.ndarray, np.ndarray]:
    """Squares of kp * remainder * |A_u|, (n_pilot, n_words); lengths of the data gradients."""
    noise = full_sample.noise
    x, levels = _starts(pilot, noise)
    squares = np.zeros((len(x), noise.kp.size), dtype=np.float32)
    data_gradient = np.empty(len(x))
    for level in np.unique(levels):
        rows = np.flatnonzero(levels == level)
        model = ControlVariateModel(pilot, full_sample, level)
        terms = np.concatenate(model.measure(rows, x[rows]))  # (n_rows, n_words)
        squares[rows] = terms**2 * noise.nu
        grad, _ = model.evaluate(rows, x[rows])
        data_gradient[rows] = np.linalg.norm(grad[:, :-1], axis=1)  # at m the penalty is 0
    return squares, data_gradient


def _starts(sentences: SentenceProblems, noise: Noise) -> tuple[np.ndarray, np.ndarray]:
    """Starting points, and for each the level of the expansion with the nearest variance."""
    trace = float(noise.kp @ (noise.nu * _NEGATIVE_SLOPE))
    x = sentences.start(trace)
    levels = np.rint(x[:, -1] / np.log(_VAR_BASE))
    return x, np.maximum(levels, _MIN_LEVEL).astype(int)


# ---- The objective with a control variate -------------------------------------------------------


class ControlVariateModel:
    """The noise term as expansion plus a remainder that is held fixed, so that steps are cheap."""

    def __init__(self, sentences: SentenceProblems, sample: NoiseSample, level: int):
        self.sentences = sentences
        self.sample = sample
        self.level = level
        self.expansion = sample.expansion(level)
        self.precondition = sentences.preconditioner(
            self.expansion.eigenvalues, self.expansion.eigenvectors
        )
        n_sentences, n_dims = sentences.m.shape
        self.remainder = np.zeros((n_sentences, n_dims), np.float32)  # of the gradient in mu
        self.remainder_trace = np.zeros(n_sentences)
        self.errors = np.zeros(n_sentences)  # squared sampling error of the remainder

    def _coordinates(
        self, rows: np.ndarray, x: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """mu, var_Q, and the displacement of mu from the centre of the expansion."""
        mu = self.sentences.m[rows] + x[:, :-1]
        var_Q = np.exp(x[:, -1]).astype(np.float32)
        return mu, var_Q, mu - self.sample.noise.centre

    def evaluate(self, rows: np.ndarray, x: np.ndarray) -> tuple:
        """Gradients, no values, of the objective with the remainder as it was last measured."""
        mu, var_Q, displacement = self._coordinates(rows, x)
        expansion = self.expansion
        var_change = var_Q - np.float32(expansion.var_0)

        grad = displacement @ expansion.hessian
        grad += expansion.gradient + var_change[:, None] * expansion.gradient_by_var
        grad += self.remainder[rows]

        trace = expansion.trace + displacement @ expansion.trace_by_mu
        trace = trace + var_change * expansion.trace_by_var
        # E sigmoid' >= 0: a negative trace is the expansion's error, and would send rho to infinity
        trace = np.maximum(trace.astype(float) + self.remainder_trace[rows], 0.0)

        sentences = self.sentences
        kernels.own_slopes(sentences.own_words, rows, mu, var_Q, _fits(), grad, trace)
        return sentences.add_penalty(rows, x, grad, None, trace)

    def third_order(self, rows: np.ndarray, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Gradient of the third order as far as it is expanded; displacements along directions."""
        _, var_Q, displacement = self._coordinates(rows, x)
        expansion = self.expansion
        along = displacement @ expansion.directions  # (n_rows, n_directions)
        i, j = expansion.pairs
        products = along[:, i] * along[:, j]  # (n_rows, n_pairs)
        grad = products @ expansion.third
        var_change = var_Q - np.float32(expansion.var_0)
        grad += var_change[:, None] * (displacement @ expansion.hessian_by_var)
        return grad, along

    def measure(self, rows: np.ndarray, x: np.ndarray) -> list[np.ndarray]:
        """Measure the remainder at x by the sample; the terms of each word, block by block."""
        _, var_Q, displacement = self._coordinates(rows, x)
        third, along = self.third_order(rows, x)
        by_word, low_rows = self.sample.control(self.level)
        centre = self.expansion.var_0, by_word
        weights = self.sample.weights

        blocks = []
        n_block_rows = max(MIN_SENTENCES, MAX_SCORES // len(self.sample.chosen))
        for start in range(0, len(rows), n_block_rows):
            part = slice(start, start + n_block_rows)
            terms = displacement[part] @ self.sample.rows.T  # (n_block, n_sample), shifts of scores
            low = along[part] @ low_rows.T
            trace, error = kernels.sampled_noise_terms(
                terms, low, var_Q[part], centre, weights, _fits()
            )

            # The kernel has replaced the shifts by the weighted remainders of the words.
            block_rows = rows[part]
            self.remainder[block_rows] = third[part] + terms @ self.sample.rows
            self.remainder_trace[block_rows] = trace
            self.errors[block_rows] = error
            blocks.append(terms)
        return blocks

    def evaluate_anew(self, rows: np.ndarray, x: np.ndarray) -> tuple:
        """Gradients with the remainder measured at x itself."""
        self.measure(rows, x)
        return self.evaluate(rows, x)

    def remainder_change(self, rows: np.ndarray, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        """About how much the remainder's gradient differs between x and y, at most."""
        _, var_x, displacement = self._coordinates(rows, x)
        step = np.linalg.norm(x[:, :-1] - y[:, :-1], axis=1)
        distance = np.linalg.norm(displacement, axis=1) * step
        var_change = np.abs(var_x - np.exp(y[:, -1]))
        by_var = np.linalg.norm(self.expansion.gradient_by_var) * var_change
        return _CUBIC_PART * self.expansion.cubic * distance + by_var

    def minimise(
        self, evaluate: Callable, x: np.ndarray, rows: np.ndarray, tol: float, max_iter: int
    ) -> Minima:
        """L-BFGS from rows of x."""
        bound = self.sentences.error_bound
        return minimise_all(evaluate, self.precondition, x, tol, max_iter, rows, bound)


# ---- The solver ---------------------------------------------------------------------------------


class _Run:
    """A batch that is being solved: where its sentences are, and how well each is solved."""

    def __init__(self, sentences: SentenceProblems, start: np.ndarray, tol: float, max_iter: int):
        n_sentences = len(start)
        self.sentences = sentences
        self.start = start
        self.tol = tol
        self.max_iter = max_iter
        self.x = start.copy()
        self.n_iter = np.zeros(n_sentences, dtype=np.int64)
        self.gradient_norm = np.full(n_sentences, np.inf)
        self.converged = np.zeros(n_sentences, dtype=bool)
        self.error = np.zeros(n_sentences)  # of mu - m, relative, by sampling

    def pull(self, rows: np.ndarray, x: np.ndarray) -> np.ndarray:
        """Length of the penalty's gradient in mu at x."""
        return self.sentences.kappa[rows] * np.linalg.norm(x[:, :-1], axis=1)

    def minimise_anew(self, model: ControlVariateModel, rows: np.ndarray) -> None:
        """Minimise with the remainder measured at every step."""
        minima = model.minimise(model.evaluate_anew, self.x, rows, self.tol, self.max_iter)
        self.x[rows] = minima.x
        self.n_iter[rows] += minima.n_iter
        self.gradient_norm[rows] = minima.norm
        self.converged[rows] = minima.converged


def _alternate(
    run: _Run, model: ControlVariateModel, rows: np.ndarray, *, is_measured: bool = False
) -> None:
    """Alternate minimisation and measuring the remainder until it converges, in place.

    Where the remainder weighs too much for that, as in phrases of a few words, it is measured at
    every step. `is_measured` says that the remainder at x is known already.
    """
    run.converged[rows] = False
    for turn in range(int(is_measured), _MAX_TURNS):
        is_first = turn == 0
        tol = _MINIMISER_PART * run.tol
        if is_first:
            tol = max(tol, _FIRST_TOL)
        minima = model.minimise(model.evaluate, run.x, rows, tol, min(run.max_iter, _MAX_STEPS))
        run.gradient_norm[rows] = minima.norm
        run.n_iter[rows] += minima.n_iter
        if not is_first:
            change = model.remainder_change(rows, run.x[rows], minima.x)
            is_small = change <= _REMAINDER_PART * run.tol * run.pull(rows, minima.x)
            run.converged[rows[minima.converged & is_small]] = True
        run.x[rows] = minima.x

        rows = rows[~run.converged[rows] & (minima.converged | is_first)]
        if not rows.size or turn == _MAX_TURNS - 1:
            break
        model.measure(rows, run.x[rows])
        run.n_iter[rows] += 1
        # Far from the centre, with large lam, a sample is useless: its error exceeds the pull.
        pull = np.maximum(run.pull(rows, run.x[rows]), np.finfo(run.x.dtype).tiny)
        rows = rows[np.sqrt(model.errors[rows]) <= pull]
    if rows.size:
        run.minimise_anew(model, rows)


def _solve_level(run: _Run, sample: NoiseSample, level: int, rows: np.ndarray) -> None:
    """Solve the sentences that start at one level, in place; some may not converge."""
    model = ControlVariateModel(run.sentences, sample, level)
    model.remainder[rows], _ = model.third_order(rows, run.x[rows])  # the first guess
    _alternate(run, model, rows)
    squares = model.errors[rows]
    relative = np.sqrt(squares) / run.pull(rows, run.x[rows])
    run.error[rows] = np.where(squares > 0, relative, 0.0)

    # Where the sample is too small, all negatives measure the remainder.
    model = ControlVariateModel(run.sentences, sample.full_sample, level)
    imprecise = rows[run.converged[rows] & ~(run.error[rows] <= run.tol)]
    if imprecise.size:
        model.measure(imprecise, run.x[imprecise])
        run.n_iter[imprecise] += 1
        _alternate(run, model, imprecise, is_measured=True)
        run.error[imprecise] = 0.0

    # Where the alternation did not end, they do so at every step.
    unsolved = rows[~run.converged[rows]]
    if unsolved.size:
        is_lost = ~np.isfinite(run.x[unsolved]).all(axis=1)
        lost = unsolved[is_lost]
        run.x[lost] = run.start[lost]
        run.minimise_anew(model, unsolved)
        run.error[unsolved] = 0.0


def solve_sampled(
    counts: sparse.csr_matrix,
    A_hat: np.ndarray,
    m: np.ndarray,
    sample: NoiseSample,
    *,
    lam: Numbers = 1.0,
    var_P: Numbers = 1.0,
    tol: float = 1e-3,
    max_iter: int = 200,
    nu: np.ndarray | None = None,
) -> Solution:
    """PB-neg posteriors of many sentences by a sample of the negatives, in single precision.

    As `pb_neg.solve`, with the expansion of this module followed exactly and the remainder measured
    where the solution lies, once for most sentences. A sentence whose estimated error is above
    `tol`, or whose alternation does not end, as with large lam, is solved with all negatives at
    every step, or by `solve`. `nu` is `squared_lengths(A_hat)` where it is known already.
    """
    if nu is None:
        nu = squared_lengths(A_hat)
    sentences = SentenceProblems(counts, A_hat, nu, m, lam=lam, var_P=var_P, dtype=np.float32)
    sentences.rounding = 1e-6 * float(sample.noise.kp @ np.sqrt(sample.noise.nu))
    start, levels = _starts(sentences, sample.noise)
    run = _Run(sentences, start, tol, max_iter)

    # Sentences that run away overflow; they are solved again.
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        for level in np.unique(levels):
            _solve_level(run, sample, level, np.flatnonzero(levels == level))
    mu = np.asarray(m, dtype=float) + run.x[:, :-1]
    var_Q = np.exp(run.x[:, -1].astype(float))

    rows = np.flatnonzero(~run.converged)
    if rows.size:
        exact = solve(
            counts[rows],
            A_hat,
            m[rows],
            sample.float64_noise(A_hat),
            lam=sentences.lam[rows],
            var_P=np.broadcast_to(var_P, len(mu))[rows],
            tol=tol,
            max_iter=max_iter,
        )
        mu[rows] = exact.mu
        var_Q[rows] = exact.var_Q
        run.gradient_norm[rows] = exact.gradient_norm
        run.converged[rows] = exact.converged
        run.n_iter[rows] += exact.n_iter
    return Solution(mu, var_Q, run.n_iter, run.gradient_norm, run.converged, run.error)
