"""The evaluation grid's logistic regressions on a GPU: every class, C and fold in one go.

    minimise over w, b:   ||w||^2 / 2 + C * sum_i log(1 + exp(-s_i (x_i.w + b))),   s_i = +-1

The problems on all rows are solved by Newton's method, all classes and all C together; the folds
start there, with the inverse Hessian of the same class and C as preconditioner of an L-BFGS of
their own. `fit_grid` gives what `regressions.grid_search` gives, `fit` what `regressions.fit`
gives.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from pacsent.gpu.device import exact_products, free_memory, require, too_little, torch
from pacsent.maths.lbfgs import minimise

_MEMORY = 8  # pairs kept by L-BFGS
_CRUMB = 1e-6  # penalty of the intercept, so that its Hessian can be factored


class _Design:
    """Rows with a column of ones, labels of every one-vs-rest column, on the device."""

    def __init__(self, X, y, n_classes, device, dtype):
        n_rows, n_features = X.shape
        self.n_classes, self.device, self.dtype = n_classes, device, dtype
        self.Z = torch.ones(n_rows, n_features + 1, device=device, dtype=dtype)
        self.Z[:, :-1] = torch.from_numpy(np.ascontiguousarray(X)).to(device, dtype)
        # centred features leave the intercept to itself; without, averages of word vectors, which
        # have much in common, make Hessians that single precision cannot tell from singular ones
        self.centre = self.Z[:, :-1].mean(0, dtype=torch.float64)
        self.Z[:, :-1] -= self.centre.to(dtype)
        self.y = torch.from_numpy(np.ascontiguousarray(y, dtype=np.int64)).to(device)
        classes = torch.arange(n_classes, device=device)[1 if n_classes == 2 else 0 :]
        self.Y = (self.y[:, None] == classes).to(dtype)  # (n_rows, K)
        self.share = self.Y.double().mean(0)
        self.penalty = torch.ones(n_features + 1, device=device, dtype=dtype)
        self.penalty[-1] = 0

    @property
    def K(self):
        return self.Y.shape[1]

    def inside(self, weights):
        """Weights for the features as given -> weights for the centred ones."""
        W = weights.double().clone()
        W[..., -1] += W[..., :-1] @ self.centre
        return W.to(self.dtype)

    def outside(self, W):
        """The inverse of `inside`, in double precision."""
        weights = W.double().clone()
        weights[..., -1] -= weights[..., :-1] @ self.centre
        return weights

    def entropy(self):
        p = self.share.clamp(1e-12, 1 - 1e-12)
        return -(p * p.log() + (1 - p) * (1 - p).log())

    def penalised(self, C, H):
        """C H and the penalty, in double precision, for Hessians H of the data term."""
        M = C[:, None, None].double() * H.double()
        penalty = self.penalty.double()
        M.diagonal(dim1=1, dim2=2).add_(penalty + _CRUMB * (1 - penalty))
        return M


def _factor(M):
    """Cholesky factors; where rounding made a matrix indefinite, of a slightly larger one."""
    L, failed = torch.linalg.cholesky_ex(M)
    crumb = 1e-9 * M.diagonal(dim1=1, dim2=2).amax(1)
    for _ in range(8):
        if not bool(failed.any()):
            break
        crumb = 10 * crumb * (failed > 0)
        M.diagonal(dim1=1, dim2=2).add_(crumb[:, None])
        L, failed = torch.linalg.cholesky_ex(M)
    return L


def _newton(design, C, W, tol, max_iterations, batch):
    """Solutions on all rows: W (n_problems, n_weights), C (n_problems,), column (n_problems,).

    Returns the weights and the Hessians of the data term there, without C.
    """
    Z, n_rows = design.Z, design.Z.shape[0]
    n_problems = W.shape[0]
    column = torch.arange(n_problems, device=design.device) % design.K
    scale = C.double() * n_rows * design.entropy()[column]
    hessians = torch.empty(n_problems, Z.shape[1], Z.shape[1], device=Z.device, dtype=design.dtype)
    going = torch.arange(n_problems, device=design.device)
    n_iterations = 0

    def objective(w, at):
        F = Z @ w.T
        loss = torch.nn.functional.softplus(F) - design.Y[:, column[at]] * F
        return 0.5 * ((w * design.penalty) ** 2).double().sum(1) + C[
            at
        ].double() * loss.double().sum(0)

    value = torch.full((n_problems,), float("inf"), device=Z.device, dtype=torch.float64)
    for first in range(0, n_problems, batch):
        at = going[first : first + batch]
        value[at] = objective(W[at], at)
    while going.numel() and n_iterations < max_iterations:
        n_iterations += 1
        left = []
        for first in range(0, going.numel(), batch):
            at = going[first : first + batch]
            w = W[at]
            P = torch.sigmoid(Z @ w.T)  # (n_rows, n_at)
            G = C[at, None] * ((P - design.Y[:, column[at]]).T @ Z) + w * design.penalty
            root = (P * (1 - P)).sqrt().T.unsqueeze(2) * Z  # (n_at, n_rows, n_weights)
            H = root.transpose(1, 2) @ root
            del root, P
            hessians[at] = H
            factor = _factor(design.penalised(C[at], H))
            D = torch.cholesky_solve(G.double().unsqueeze(2), factor).squeeze(2)
            decrement = (G.double() * D).sum(1)
            step = torch.ones_like(decrement)
            new = (w.double() - D).to(design.dtype)
            now = objective(new, at)
            for _ in range(20):  # halve the steps that went up
                up = now > value[at] + 1e-6 * value[at].abs() * (design.dtype == torch.float32)
                up &= decrement > 2 * tol * scale[at]
                if not bool(up.any()):
                    break
                step[up] *= 0.5
                new[up] = (w.double() - step[:, None] * D).to(design.dtype)[up]
                now = objective(new, at)
            W[at], value[at] = new, now
            left.append(at[0.5 * decrement > tol * scale[at]])
        going = torch.cat(left)
    return W, hessians, n_iterations


def _start(design, Cs):
    """Intercepts at the classes' log-odds, all else zero."""
    W = torch.zeros(len(Cs), design.K, design.Z.shape[1], device=design.device, dtype=design.dtype)
    W[:, :, -1] = (design.share / (1 - design.share)).log().to(design.dtype)
    return W.flatten(0, 1)


def fit_grid(
    X: Any,
    y: ArrayLike,
    folds: ArrayLike,
    *,
    n_classes: int,
    Cs: Sequence[float],
    start: Any = None,
    tol: float = 1e-5,
    max_iterations: int = 100,
    device: str = "cuda",
) -> Any:
    """Cross-validated accuracy for every C, all folds of all repeats together.

    Parameters and result are those of `regressions.grid_search`; X must be dense.
    """
    from pacsent.maths.regressions import GridResult, Path, check_design

    device = require(device)
    y, folds = np.asarray(y), np.atleast_2d(np.asarray(folds))
    check_design(X, y, n_classes)
    Cs = tuple(float(C) for C in Cs)
    n_repeats, n_folds = folds.shape[0], int(folds.max()) + 1
    n_rows, n_weights = X.shape[0], X.shape[1] + 1
    n_sets = n_repeats * n_folds
    free = free_memory(device)
    n_problems = len(Cs) * (1 if n_classes == 2 else n_classes)
    needed = 4 * (n_rows * n_weights + n_problems * n_weights**2 + 3 * n_rows * n_problems)
    if needed > 0.8 * free:
        raise too_little(
            f"{n_problems} logistic regressions on {n_rows:,} x {n_weights - 1} numbers", needed,
            free, "Close other programs on the GPU, or use device='cpu'.",
        )  # fmt: skip
    with exact_products():
        design = _Design(X, y, n_classes, device, torch.float32)
        K = design.K
        C = torch.tensor(Cs, device=device, dtype=torch.float32).repeat_interleave(K)
        if start is not None and start.Cs == Cs:
            W = design.inside(torch.from_numpy(start.weights).to(device)).flatten(0, 1)
        else:
            W = _start(design, Cs)
        batch = int(max(1, 0.4 * free // (8 * n_rows * n_weights)))
        W, H, total = _newton(design, C, W.clone(), tol, max_iterations, batch)
        weights = design.outside(W).float().view(len(Cs), K, n_weights)
        path = Path(Cs, weights.cpu().numpy(), None)
        sets = torch.from_numpy(folds).to(device)  # (n_repeats, n_rows)
        numbers = torch.arange(n_folds, device=device)
        held_out = sets[:, None, :] == numbers[None, :, None]  # (n_repeats, n_folds, n_rows)
        held_out = held_out.reshape(n_sets, n_rows).T.contiguous()  # (n_rows, n_sets)
        hits = torch.zeros(n_sets, len(Cs), dtype=torch.float64)
        # problems of some C at a time: (n_rows, K * some * n_sets) residuals must fit
        some = int(max(1, 0.4 * free // (20 * n_rows * K * n_sets)))
        for first in range(0, len(Cs), some):
            at = slice(first * K, min(len(Cs), first + some) * K)
            problems = C[at], W[at], H[at]
            w, n_iterations = _folds(design, problems, held_out, n_folds, tol, max_iterations)
            total += n_iterations
            hits[:, first : first + some] = _hits(design, w, held_out).T.cpu()
    sizes = np.array([np.bincount(row, minlength=n_folds) for row in folds])
    accuracy = hits.numpy().reshape(n_repeats, n_folds, len(Cs)) / sizes[:, :, None]
    return GridResult(Cs, accuracy, path, total)


def _folds(design, problems, held_out, n_folds, tol, max_iterations):
    """Every fold's own minimum: (n_problems, n_sets, n_weights), n_problems = n_Cs * K.

    problems: (C, W, H) of the solutions on all rows, to start from and to condition by.
    """
    C, W, H = problems
    Z, dtype = design.Z, design.dtype
    n_problems, n_sets = W.shape[0], held_out.shape[1]
    share = 1 - 1 / n_folds
    inverse = torch.cholesky_inverse(_factor(design.penalised(share * C, H))).to(dtype)
    column = torch.arange(n_problems, device=Z.device) % design.K
    scale = C.double() * share * Z.shape[0] * design.entropy()[column]
    kept = (~held_out).to(dtype)  # (n_rows, n_sets)

    def evaluate(rows, w):
        problem, fold = rows // n_sets, rows % n_sets
        R = Z @ w.T  # (n_rows, n)
        R.sigmoid_()
        R -= design.Y[:, column[problem]]
        R *= kept[:, fold]
        return C[problem, None] * (R.T @ Z) + w * design.penalty, None

    def precondition(rows, q):
        out = torch.zeros(n_problems * n_sets, q.shape[1], device=q.device, dtype=dtype)
        out[rows] = q
        return (out.view(n_problems, n_sets, -1) @ inverse).flatten(0, 1)[rows]

    def is_solved(rows, _, G, D):
        return -0.5 * (G * D).sum(1).double() <= tol * scale[rows // n_sets]

    start = W.repeat_interleave(n_sets, 0)
    found = minimise(
        evaluate, precondition, start, is_solved, max_iter=max_iterations, memory=_MEMORY
    )
    return found.x.view(n_problems, n_sets, -1), int(found.n_iter.max())


def _hits(design, w, held_out):
    """Held-out rows classified rightly, (n_Cs, n_sets)."""
    n_problems, n_sets, _ = w.shape
    F = (design.Z @ w.flatten(0, 1).T).view(-1, n_problems // design.K, design.K, n_sets)
    guess = (F[:, :, 0] > 0).long() if design.n_classes == 2 else F.argmax(2)
    right = (guess == design.y[:, None, None]) & held_out[:, None, :]
    return right.sum(0).to(torch.float64)


def fit(
    X: Any,
    y: ArrayLike,
    C: float,
    *,
    n_classes: int,
    start: Any = None,
    tol: float = 1e-13,
    max_iterations: int = 200,
    device: str = "cuda",
) -> tuple[np.ndarray, np.ndarray]:
    """(coef, intercept) of one-vs-rest logistic regression in double precision; as
    `regressions.fit`.
    """
    device = require(device)
    design = _Design(X, np.asarray(y), n_classes, device, torch.float64)
    W = _start(design, (C,))
    if start is not None:
        near = int(np.argmin(np.abs(np.log(np.array(start.Cs) / C))))
        W = design.inside(torch.from_numpy(start.weights[near]).to(device))
    columns = torch.full((design.K,), float(C), device=device, dtype=torch.float64)
    free = free_memory(device)
    batch = int(max(1, 0.4 * free // (16 * design.Z.numel())))
    W, _, _ = _newton(design, columns, W.clone(), tol, max_iterations, batch)
    weights = design.outside(W).cpu().numpy()
    return weights[:, :-1].copy(), weights[:, -1].copy()
