"""PB-neg and w-PB-neg solved on a GPU: matrix products over the whole vocabulary.

    scores = mu A'                                    (n_sentences, n_words)
    grad   = (kp * f1 - share * (1 - f1)) A + penalty

Nothing is sampled: the noise words are integrated over the vocabulary and h over its Gaussian, as
in `pacsent.maths.pb_neg_objective`. Single precision on a GPU, sums in double; the
means agree with the CPU's to about 1e-5. Sentences are worked on in batches as large as memory
allows.
"""

import ctypes
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from pacsent.gpu.device import (
    exact_products,
    free_memory,
    kernel,
    require,
    rows_that_fit,
    too_little,
    torch,
)
from pacsent.maths.arrays import Numbers
from pacsent.maths.lbfgs import minimise, one_at_most

_MEMORY = 6  # pairs that L-BFGS remembers, for the memory that it takes
_SMALLEST_TOL = 2e-5  # what single precision can tell


# ---- expectations -------------------------------------------------------------------------------


_WIDE = 25.0  # variance beyond which an expansion is better than a sum over nodes


@lru_cache
def expectation_rule() -> tuple[Any, ...]:
    """(limits, starts, nodes, weights): which sum of sigmoids to use up to which variance.

    Gauss-Hermite for a narrow Gaussian; for a wide one the plain trapezoid rule, whose error falls
    with exp(-2 pi^2 / (deviation * spacing)) because the sigmoid's poles lie pi away.
    """
    rules = []
    for limit, n_nodes in ((0.01, 3), (0.09, 4), (0.25, 5), (1.0, 10)):
        nodes, weights = np.polynomial.hermite.hermgauss(n_nodes)
        rules.append((limit, nodes * np.sqrt(2.0), weights / np.sqrt(np.pi)))
    for limit, n_nodes in ((4.0, 20), (9.0, 28), (_WIDE, 44)):
        nodes = np.linspace(-5.3, 5.3, n_nodes)
        weights = np.exp(-0.5 * nodes**2)
        rules.append((limit, nodes, weights / weights.sum()))
    limits = np.array([limit for limit, _, _ in rules])
    starts = np.cumsum([0, *(len(nodes) for _, nodes, _ in rules)])
    nodes = np.concatenate([nodes for _, nodes, _ in rules])
    weights = np.concatenate([weights for _, _, weights in rules])
    return limits, starts, nodes, weights


def wide_expectations(a: "torch.Tensor", v: "torch.Tensor") -> "tuple[torch.Tensor, torch.Tensor]":
    """(f1, f2) for v > 25, by Edgeworth's expansion; to 4e-6, and better the larger v.

    The sigmoid is the distribution function of a logistic variable, so f1 is that of its sum with
    a Gaussian: nearly Gaussian, with variance v + pi^2/3 and the logistic's higher cumulants.
    """
    variance = v + np.pi**2 / 3
    deviation = variance.sqrt()
    z = a / deviation
    k4 = (2 * np.pi**4 / 15) / variance**2
    c4, c6, c8 = k4 / 24, (16 * np.pi**6 / 63) / variance**3 / 720, k4 * k4 / 1152
    density = torch.exp(-0.5 * z * z) / np.sqrt(2 * np.pi)
    q = z * z
    odd = c4 * (q - 3) + c6 * (q * (q - 10) + 15) + c8 * (q * (q * (q - 21) + 105) - 105)
    even = c4 * (q * (q - 6) + 3) + c6 * (q * (q * (q - 15) + 45) - 15)
    even = even + c8 * (q * (q * (q * (q - 28) + 210) - 420) + 105)
    return torch.special.ndtr(z) - density * z * odd, density / deviation * (1 + even)


def expectations(a: "torch.Tensor", v: "torch.Tensor") -> "tuple[torch.Tensor, torch.Tensor]":
    """(f1, f2) = (E sigmoid(x), E sigmoid'(x)) for x ~ N(a, v), elementwise on tensors."""
    limits, starts, nodes, weights = expectation_rule()
    f1, f2 = torch.zeros_like(a), torch.zeros_like(a)
    if a.numel() == 0:
        return f1, f2
    largest = float(v.max())
    level = min(int(np.searchsorted(limits, largest)), limits.size - 1)
    deviation = v.clamp_max(_WIDE).sqrt()
    for i in range(starts[level], starts[level + 1]):
        p = torch.sigmoid(torch.addcmul(a, deviation, deviation.new_tensor(nodes[i])))
        f1 += weights[i] * p
        f2 += weights[i] * p * (1 - p)
    if largest > _WIDE:
        wide = v > _WIDE
        wide_f1, wide_f2 = wide_expectations(a, v.clamp_min(_WIDE))
        f1, f2 = torch.where(wide, wide_f1, f1), torch.where(wide, wide_f2, f2)
    return f1, f2


class _NoiseTerms:
    """scores -> kp * f1 in place, and the trace; by kernels on a GPU, by torch elsewhere."""

    def __init__(self, kp, nu):
        self.kp, self.nu = kp, nu
        self.kernel = None
        if kp.device.type == "cuda" and kp.dtype == torch.float32:
            self.kernel = kernel("sentences.cu", "noise_terms", (), kp.device)
            self.each = kernel("sentences.cu", "each_expectation", (), kp.device)
            limits, starts, nodes, weights = expectation_rule()
            tensors = [torch.tensor(x, dtype=torch.float32) for x in (nodes, weights, limits)]
            self.rule = [tensor.to(kp.device) for tensor in tensors]
            self.starts = torch.tensor(starts, dtype=torch.int32, device=kp.device)

    def expectations(self, a, v):
        """(f1, f2) of some scores, elementwise."""
        if self.kernel is None or a.numel() == 0:
            return expectations(a, v)
        f1, f2 = torch.empty_like(a), torch.empty_like(a)
        nodes, weights, limits = self.rule
        arguments = [
            a.contiguous(), v.contiguous(), f1, f2, nodes, weights, limits, self.starts,
            ctypes.c_int(limits.numel()), ctypes.c_int(nodes.numel()),
            ctypes.c_longlong(a.numel()),
        ]  # fmt: skip
        self.each.launch(-(-a.numel() // 256), 256, arguments, 8 * nodes.numel())
        return f1, f2

    def __call__(self, scores, var_Q):
        trace = torch.zeros(scores.shape[0], dtype=torch.float64, device=scores.device)
        if self.kernel is None:
            rows = max(1, (1 << 22) // scores.shape[1])
            for first in range(0, scores.shape[0], rows):
                part = slice(first, first + rows)
                f1, f2 = expectations(scores[part], var_Q[part, None] * self.nu)
                trace[part] = (f2 @ (self.kp * self.nu)).double()
                scores[part] = self.kp * f1
            return trace
        n_rows, n_words = scores.shape
        nodes, weights, limits = self.rule
        per_row = max(1, min(64, n_words // 4096))
        arguments = [
            scores, var_Q.contiguous(), self.nu, self.kp, nodes, weights, limits, self.starts,
            trace, ctypes.c_int(limits.numel()), ctypes.c_int(nodes.numel()),
            ctypes.c_longlong(n_words),
        ]  # fmt: skip
        self.kernel.launch((n_rows, per_row), 256, arguments, 8 * nodes.numel())
        return trace


# ---- PB-neg -------------------------------------------------------------------------------------


class _Vocabulary:
    """The rows of A_hat that matter: noise words, and the sentences' own words."""

    def __init__(self, counts, A_hat, noise, device, dtype):
        own = np.unique(counts.indices)
        extra = np.setdiff1d(own, noise.words)
        words = np.concatenate([noise.words, extra])
        A = np.concatenate([np.asarray(noise.A), np.asarray(A_hat[extra], dtype=noise.A.dtype)])
        kp = np.concatenate([noise.kp, np.zeros(extra.size)])
        order = np.argsort(np.einsum("ud,ud->u", A, A), kind="stable")  # like variances together
        self.position = np.full(int(words.max(initial=0)) + 1, -1, dtype=np.int64)
        self.position[words[order]] = np.arange(words.size)
        self.A = torch.from_numpy(np.ascontiguousarray(A[order])).to(device, dtype)
        self.kp = torch.from_numpy(kp[order]).to(device, dtype)
        self.nu = (self.A * self.A).sum(1)
        self.terms = _NoiseTerms(self.kp, self.nu)


def _curvature(vocabulary, noise):
    """(eigenvalues, eigenvectors, trace) of a typical Hessian of the data term, at noise.centre."""
    A = vocabulary.A
    frequency = np.zeros(vocabulary.kp.numel())
    frequency[vocabulary.position[noise.words]] = noise.frequency
    p = torch.sigmoid(A @ torch.as_tensor(noise.centre).to(A))
    # 0.2: sigmoid' at a true word's usual score
    weight = vocabulary.kp * p * (1 - p) + 0.2 * torch.as_tensor(frequency).to(A)
    values, U = torch.linalg.eigh(((A * weight[:, None]).T @ A).double())
    return values.clamp_min(0).to(A.dtype), U.to(A.dtype), float(weight @ vocabulary.nu)


def solve_pb_neg(
    counts: sparse.csr_matrix,
    A_hat: np.ndarray,
    m: np.ndarray,
    noise: Any,
    *,
    lam: Numbers = 1.0,
    var_P: float = 1.0,
    kl: str = "exact",
    tol: float = 1e-4,
    max_iter: int = 200,
    device: str = "cuda",
    dtype: Any = None,
) -> Any:
    """PB-neg posteriors of many sentences; `pb_neg_exact.solve` on a GPU.

    `tol` is the relative error of mu - m at which a sentence counts as solved, in single precision
    (`dtype=None`) not below 2e-5. The other parameters are those of `pb_neg_exact.solve`.
    """
    from pacsent.maths.pb_neg_objective import Solution

    device = require(device)
    dtype = dtype or torch.float32
    if dtype == torch.float32:
        tol = max(tol, _SMALLEST_TOL)
    counts = counts.tocsr()
    n, n_dims = counts.shape[0], A_hat.shape[1]
    n_tokens = np.asarray(counts.sum(axis=1), dtype=float).ravel()
    lam = np.broadcast_to(np.asarray(lam, dtype=float), n_tokens.shape)
    prior = n_tokens / var_P
    ones = n_tokens if kl == "paper" else np.ones(n)
    penalty = prior / lam, 0.5 * n_dims / lam, prior, ones
    coefficients = np.stack(np.broadcast_arrays(*penalty, lam))
    found = Solution(
        np.empty((n, n_dims)), np.empty(n), np.zeros(n, dtype=np.int64), np.empty(n),
        np.zeros(n, dtype=bool), np.zeros(n),
    )  # fmt: skip
    with exact_products():
        vocabulary = _Vocabulary(counts, A_hat, noise, device, dtype)
        values, U, trace = _curvature(vocabulary, noise)
        solver = _Solver(vocabulary, values, U, trace, tol, max_iter)
        batch = _batch_size(vocabulary, n_dims, device, dtype)
        by_length = np.argsort(n_tokens, kind="stable")  # a batch needs about equally many steps
        for first in range(0, n, batch):
            rows = by_length[first : first + batch]
            part = counts[rows]
            part.sort_indices()
            solver.solve(part, np.asarray(m)[rows], coefficients[:, rows], found, rows)
    return found


def _batch_size(vocabulary, n_dims, device, dtype) -> int:
    """How many sentences are solved side by side; an error where not even eight fit."""
    size = torch.finfo(dtype).bits // 8
    n_support = vocabulary.kp.numel()
    # scores, and (2 * memory + 8) vectors of L-BFGS for every sentence
    per_sentence = size * (n_support + (2 * _MEMORY + 8) * (n_dims + 1)) + 64
    free = free_memory(device)
    if per_sentence * 8 > 0.8 * free:
        raise too_little(
            f"The scores of 8 sentences over {n_support:,} words", per_sentence * 8, free,
            "Close other programs on the GPU, or use device='cpu'.",
        )  # fmt: skip
    return rows_that_fit(per_sentence, free, most=16384)


class _Sentences:
    """Counts of some sentences on the device, and the data term of their loss."""

    def __init__(self, counts, vocabulary):
        self.vocabulary = vocabulary
        device, dtype = vocabulary.A.device, vocabulary.A.dtype
        n = counts.shape[0]
        sentence = np.repeat(np.arange(n), np.diff(counts.indptr))
        shares = counts.data / np.bincount(sentence, counts.data, minlength=n)[sentence]
        self.shares = torch.from_numpy(shares).to(device, dtype)
        self.words = torch.from_numpy(vocabulary.position[counts.indices]).to(device)
        self.first = torch.from_numpy(counts.indptr.astype(np.int64)).to(device)

    def entries(self, rows):
        """(sentence among `rows`, entry) of every word of these sentences."""
        lengths = self.first[rows + 1] - self.first[rows]
        local = torch.repeat_interleave(torch.arange(rows.numel(), device=rows.device), lengths)
        shift = self.first[rows] - (lengths.cumsum(0) - lengths)
        entry = torch.arange(local.numel(), device=rows.device)
        return local, entry + torch.repeat_interleave(shift, lengths)

    def data_term(self, mu, var_Q, local, words, shares):
        """(gradient in h, trace of the Hessian) of the data term for h ~ N(mu, var_Q I).

        `local`, `words`, `shares`: sentence, word and share of every entry of these sentences.
        """
        vocabulary = self.vocabulary
        scores = mu @ vocabulary.A.T  # (n_rows, n_words)
        flat = local * scores.shape[1] + words  # where the sentences' own words stand
        nu = vocabulary.nu[words]
        f1, f2 = vocabulary.terms.expectations(scores.view(-1)[flat], var_Q[local] * nu)
        trace = vocabulary.terms(scores, var_Q)
        trace.index_add_(0, local, (shares * nu * f2).double())
        scores.view(-1).index_add_(0, flat, shares * (f1 - 1))
        return scores @ vocabulary.A, trace


@dataclass(frozen=True)
class _Solver:
    """PB-neg's problem apart from the sentences: the noise, its curvature, when to stop."""

    vocabulary: Any
    values: Any  # eigenvalues of a typical Hessian
    U: Any  # and its eigenvectors
    trace: float
    tol: float
    max_iter: int

    def solve(self, counts, m, coefficients, found, where):
        """Solve some sentences; their posteriors go to the rows `where` of `found`."""
        vocabulary = self.vocabulary
        device, dtype = vocabulary.A.device, vocabulary.A.dtype
        n, n_dims = m.shape
        kappa, c, A, B, lam = (torch.from_numpy(x.copy()).to(device) for x in coefficients)
        m = torch.from_numpy(np.ascontiguousarray(m)).to(device, dtype)
        sentences = _Sentences(counts, vocabulary)
        U = self.U
        scale = 1.0 / (kappa[:, None].to(dtype) + self.values)  # (n, n_dims)
        rho_curvature = (c * B).to(dtype)

        def evaluate(rows, x):
            # mu - m may be a thousandth of m: kept apart, it keeps its digits
            away, rho = x[:, :-1], x[:, -1].double()
            var_Q = rho.exp()
            local, entry = sentences.entries(rows)
            own = local, sentences.words[entry], sentences.shares[entry]
            grad_h, spread = sentences.data_term(m[rows] + away, var_Q.to(dtype), *own)
            grad = torch.empty_like(x)
            grad[:, :-1] = grad_h + kappa[rows, None].to(dtype) * away
            grad[:, -1] = (0.5 * var_Q * spread + c[rows] * (A[rows] * var_Q - B[rows])).to(dtype)
            return grad, None

        def precondition(rows, q):
            out = torch.empty_like(q)
            out[:, :-1] = ((q[:, :-1] @ U) * scale[rows]) @ U.T
            out[:, -1] = q[:, -1] / rho_curvature[rows]
            return out

        x = torch.zeros(n, n_dims + 1, device=device, dtype=dtype)
        x[:, -1] = (B / (A + lam / n_dims * self.trace)).log().to(dtype)
        smallest = 4 * torch.finfo(dtype).eps * m.norm(dim=1)  # a smaller step does not show in mu

        def is_solved(rows, x, _, direction):
            length = direction[:, :-1].norm(dim=1)
            moved = (x + direction)[:, :-1].norm(dim=1)
            enough = length <= self.tol * moved + smallest[rows]
            return enough & (direction[:, -1].abs() <= self.tol)

        x, n_iter, norm, converged = minimise(
            evaluate, precondition, x, is_solved, max_iter=self.max_iter, limit=one_at_most,
            last_step=True,
        )  # fmt: skip
        found.mu[where] = (m.double() + x[:, :-1].double()).cpu().numpy()
        found.var_Q[where] = x[:, -1].double().exp().cpu().numpy()
        found.n_iter[where] = n_iter.cpu().numpy()
        found.gradient_norm[where] = norm.double().cpu().numpy()
        found.converged[where] = converged.cpu().numpy()


# ---- w-PB-neg -----------------------------------------------------------------------------------


class _WordPosteriors:
    """Means and log-variances of the training words, on the device, and their penalties."""

    def __init__(self, counts, words, B_hat, var_P, lam, vocabulary, weighting):
        device, dtype = vocabulary.A.device, vocabulary.A.dtype
        self.sentences = _Sentences(counts, vocabulary)
        # from a column of the vocabulary's order to a row of these tables
        row_of = np.full(vocabulary.kp.numel(), -1, dtype=np.int64)
        row_of[vocabulary.position[words]] = np.arange(words.size)
        self.rows = torch.from_numpy(row_of).to(device)[self.sentences.words]
        self.B = torch.from_numpy(np.ascontiguousarray(B_hat[words])).to(device, dtype)
        var_P = torch.from_numpy(np.ascontiguousarray(var_P[words])).to(device, torch.float64)
        self.rho_P = var_P.log()
        self.r = 1 / (var_P * lam)  # (n_words,), pull of the prior on a mean
        self.c = 0.5 * B_hat.shape[1] / lam
        self.mu, self.rho = self.B.clone(), self.rho_P.clone()
        n = counts.shape[0]
        n_tokens = np.asarray(counts.sum(axis=1), dtype=float).ravel()
        weight = n_tokens * (n / n_tokens.sum()) if weighting == "token" else np.ones(n)
        self.weight = torch.from_numpy(weight).to(device)

    def batch(self, rows):
        """What `data_gradients` needs of some sentences: their entries, and their weights."""
        local, entry = self.sentences.entries(rows)
        words, columns = self.rows[entry], self.sentences.words[entry]
        return local, words, columns, self.sentences.shares[entry], self.weight[rows]

    def data_gradients(self, mu, rho, local, words, columns, shares, weight):
        """Gradients of the weighted sum over some sentences of their data terms."""
        dtype = mu.dtype
        means = torch.zeros(weight.numel(), mu.shape[1], device=mu.device, dtype=dtype)
        means.index_add_(0, local, shares[:, None] * mu[words])
        var = rho.exp()
        var_S = torch.zeros(weight.numel(), device=mu.device, dtype=torch.float64)
        squares = shares.double() ** 2
        var_S.index_add_(0, local, squares * var[words])
        var_S.clamp_min_(1e-30)
        grad_h, trace = self.sentences.data_term(means, var_S.to(dtype), local, columns, shares)
        grad_h *= weight[:, None].to(dtype)
        grad_mu = torch.zeros_like(mu)
        grad_mu.index_add_(0, words, shares[:, None] * grad_h[local])
        grad_rho = torch.zeros_like(rho)
        grad_rho.index_add_(0, words, (weight * trace)[local] * squares)
        return grad_mu, 0.5 * var * grad_rho

    def step(self, time, share, *batch):
        """Hold the data's gradients, `share` times their sum, and let the penalty flow for `time`.

        Both are tensors of one number: a recorded step may be repeated with other values.
        """
        g, b = self.data_gradients(self.mu, self.rho, *batch)
        g *= share.to(g.dtype)
        b *= share
        stay = torch.exp(-self.r * time)[:, None].to(g.dtype)
        push = decay_integral(self.r, time)[:, None].to(g.dtype)
        self.mu.copy_(self.B + stay * (self.mu - self.B) - push * g)
        # z = prior variance / variance obeys z' = c (1 - z) + b z, the last term held, as b ~ 1/z
        z = torch.exp(self.rho_P - self.rho)
        phi = -torch.expm1(-self.c * time) / self.c
        z = z * torch.exp(-self.c * time) + (self.c + b * z) * phi
        self.rho.copy_(self.rho_P - z.log())


class WordSGD(NamedTuple):
    """The paper's schedule, with noise words and h integrated out and the penalty exactly.

    The learning rate falls linearly epoch by epoch, one step of that size for each sentence;
    `batch_size` sentences are worked on together.
    """

    n_epochs: int = 40
    learning_rate: float = 0.025
    batch_size: int = 256
    random_state: int = 0


class WordMinimiser(NamedTuple):
    """L-BFGS on all sentences, to the minimum."""

    tol: float = 1e-4
    max_iter: int = 200


_SGD = WordSGD()


def fit_w_pb_neg(
    counts: sparse.csr_matrix,
    A_hat: np.ndarray,
    B_hat: np.ndarray,
    noise: np.ndarray,
    var_P: np.ndarray,
    *,
    lam: float = 1.0,
    weighting: str = "sentence",
    solver: WordSGD | WordMinimiser = _SGD,
    device: str = "cuda",
    dtype: Any = None,
) -> Any:
    """Word posteriors of w-PB-neg from training sentences.

        loss = mean over sentences of weight * data(S) + sum over words of KL(Q_w || P_w) / lam

    Every sentence must hold a word. With `weighting` "sentence" all weigh the same, with "token" as
    many tokens as they have. Returns the words that occur in the training sentences, their means
    and variances, and the number of passes over the sentences.
    """
    device = require(device)
    dtype = dtype or torch.float32
    counts = counts.tocsr()
    counts.sort_indices()
    words = np.unique(counts.indices)
    with exact_products():
        vocabulary = _Vocabulary(counts, A_hat, noise, device, dtype)
        state = _WordPosteriors(counts, words, B_hat, np.asarray(var_P), lam, vocabulary, weighting)
        size = torch.finfo(dtype).bits // 8
        free = free_memory(device)
        n_types = counts.nnz / max(1, counts.shape[0])
        per_sentence = size * (vocabulary.kp.numel() + 4 * A_hat.shape[1] * (n_types + 4))
        fit = rows_that_fit(int(per_sentence), free, most=8192)
        if isinstance(solver, WordSGD):
            n_iter = _sgd(state, solver._replace(batch_size=min(solver.batch_size, fit)))
        else:
            least = _SMALLEST_TOL if dtype == torch.float32 else 0.0
            n_iter = _minimise_words(state, noise, fit, max(solver.tol, least), solver.max_iter)
    return words, state.mu.double().cpu().numpy(), state.rho.exp().cpu().numpy(), n_iter


def decay_integral(a: "torch.Tensor", t: Any) -> "torch.Tensor":
    """(1 - e^(-a t)) / a, which is t at a = 0."""
    safe = torch.where(a.abs() * t < 1e-12, torch.ones_like(a), a)
    return torch.where(a.abs() * t < 1e-12, t * torch.ones_like(a), -torch.expm1(-safe * t) / safe)


def _sgd(state, solver: WordSGD):
    """The paper's schedule with the penalty's flow solved exactly over every step."""
    n_epochs, learning_rate, batch_size, random_state = solver
    device = state.mu.device
    n = state.weight.numel()
    rng = np.random.default_rng(int(random_state))
    orders = [rng.permutation(n) for _ in range(n_epochs)]
    lengths = state.sentences.first.diff().cpu().numpy()
    ends = [np.concatenate([[0], np.cumsum(lengths[order])]) for order in orders]
    cuts = np.append(np.arange(0, n, batch_size), n)
    most = max(int(np.diff(end[cuts]).max()) for end in ends)
    step = _Repeated(state, batch_size, most)
    for epoch, (order, end) in enumerate(zip(orders, ends)):
        rate = learning_rate * (1 - epoch / n_epochs)
        *entries, weight = state.batch(torch.from_numpy(order).to(device))
        for first, stop in pairwise(cuts):
            part = slice(int(end[first]), int(end[stop]))
            local, *rest = (entry[part] for entry in entries)
            size = int(stop - first)
            step(rate * size, 1 / size, local - int(first), *rest, weight[first:stop])
    return n_epochs


class _Repeated:
    """A step of w-PB-neg; on a GPU recorded once, on batches filled up to one size, and replayed.

    A step is some sixty small operations: starting them one by one takes longer than they do.
    """

    def __init__(self, state, n_rows, n_entries):
        self.state, self.device = state, state.mu.device
        self.graph = None
        self.recorded = state.sentences.vocabulary.terms.kernel is not None
        if not self.recorded:
            return
        # entries that count nothing, spread so that no two threads wait for each other
        number = torch.arange(n_entries, device=self.device)
        n_columns = state.sentences.vocabulary.kp.numel()
        shares = torch.zeros(n_entries, device=self.device, dtype=state.mu.dtype)
        weights = torch.zeros(n_rows, device=self.device, dtype=torch.float64)
        places = [number % n for n in (n_rows, state.mu.shape[0], n_columns)]
        self.idle = [*places, shares, weights]
        self.batch = [part.clone() for part in self.idle]
        self.numbers = torch.zeros(2, device=self.device, dtype=torch.float64)

    def __call__(self, time, share, *batch):
        if not self.recorded:
            numbers = torch.tensor([time, share], device=self.device, dtype=torch.float64)
            self.state.step(numbers[0], numbers[1], *batch)
            return
        for place, idle, part in zip(self.batch, self.idle, batch):
            place[: part.numel()] = part
            place[part.numel() :] = idle[part.numel() :]
        self.numbers[0] = time
        self.numbers[1] = share
        if self.graph is None:
            self._record()
        self.graph.replay()

    def _record(self):
        state = self.state
        before = state.mu.clone(), state.rho.clone()
        arguments = self.numbers[0], self.numbers[1], *self.batch
        stream = torch.cuda.Stream(self.device)
        stream.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(stream):  # libraries make their workspaces at the first call
            state.step(*arguments)
        torch.cuda.current_stream(self.device).wait_stream(stream)
        torch.cuda.synchronize(self.device)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            state.step(*arguments)
        state.mu.copy_(before[0])
        state.rho.copy_(before[1])


def _minimise_words(state, noise, batch, tol, max_iter):
    """L-BFGS on all means and log-variances together; the convex objective goes down or stays."""
    device, dtype = state.mu.device, state.mu.dtype
    n, n_words = state.weight.numel(), state.mu.shape[0]
    values, U, _ = _curvature(state.sentences.vocabulary, noise)
    # sum over sentences of weight * share: bounds the curvature that a word's mean feels
    mass = torch.zeros(n_words, device=device, dtype=torch.float64)
    local, entry = state.sentences.entries(torch.arange(n, device=device))
    mass.index_add_(
        0, state.rows[entry], (state.weight / n)[local] * state.sentences.shares[entry].double()
    )
    scale = 1 / (state.r[:, None].to(dtype) + mass[:, None].to(dtype) * values)

    def gradient(mu, rho):
        g, b = torch.zeros_like(mu), torch.zeros_like(rho)
        for first in range(0, n, batch):
            rows = torch.arange(first, min(n, first + batch), device=device)
            some_g, some_b = state.data_gradients(mu, rho, *state.batch(rows))
            g += some_g
            b += some_b
        g = g / n + state.r[:, None].to(dtype) * (mu - state.B)
        return g, b / n + state.c * (torch.exp(rho - state.rho_P) - 1)

    def dot(a, b):
        return (a[0] * b[0]).sum(dtype=torch.float64) + (a[1] * b[1]).sum()

    def plus(a, t, b):
        return a[0] + t.to(dtype) * b[0], a[1] + t * b[1]

    one = torch.ones((), device=device, dtype=torch.float64)
    x = (state.mu, state.rho)
    g = gradient(*x)
    pairs: list = []
    n_iter = 1
    while n_iter < max_iter:
        q = (-g[0], -g[1])
        alphas = []
        for s, y, r in reversed(pairs):
            alphas.append(r * dot(s, q))
            q = plus(q, -alphas[-1], y)
        q = ((q[0] @ U * scale) @ U.T, q[1] / state.c)
        for (s, y, r), alpha in zip(pairs, reversed(alphas)):
            q = plus(q, alpha - r * dot(y, q), s)
        if not bool(dot(q, g) < 0):
            if not pairs:
                break
            pairs = []
            continue
        q = (q[0], q[1].clamp(-1, 1))
        step = one
        while True:
            trial = plus(x, step, q)
            g_new = gradient(*trial)
            n_iter += 1
            before, after = dot(g, q), dot(g_new, q)
            if bool((after <= 0) | (before + after <= 1e-4 * before)) or n_iter >= max_iter:
                break
            step = step / 2
            if float(step) < 1e-4:  # rounding is all that is left
                state.mu, state.rho = x
                return n_iter
        s = (trial[0] - x[0], trial[1] - x[1])
        y = (g_new[0] - g[0], g_new[1] - g[1])
        sy = dot(s, y)
        if bool(sy > 0):
            pairs = [*pairs, (s, y, 1 / sy)][-_MEMORY:]
        x, g = trial, g_new
        moved = (x[0] - state.B).norm()
        if bool((s[0].norm() <= tol * moved) & (s[1].abs().max() <= tol)):
            break
    state.mu, state.rho = x
    return n_iter
