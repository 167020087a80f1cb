"""The compiled loops of the fast solver of PB-neg, in single precision.

A score is Gaussian, x ~ N(score, v); f1 and f2 are E sigmoid(x) and E sigmoid'(x).
"""

import ctypes

import numpy as np
from numpy.polynomial import polynomial
from scipy.special import expit, ndtr

from pacsent.kernels.library import (
    FLOAT,
    FLOAT32,
    FLOAT64,
    INT32,
    INT64,
    SIZE,
    BoundStruct,
    Struct,
    entry_point,
    needs_twins,
)

_FITS = Struct(starts=FLOAT32, scales=FLOAT32, coefficients=FLOAT32, n_fits=SIZE)
_OWN_WORDS = Struct(
    starts=INT64,
    words=INT32,
    fractions=FLOAT64,
    A=FLOAT32,
    nu=FLOAT32,
    n_sentences=SIZE,
    n_places=SIZE,
    n_words=SIZE,
    n_dims=SIZE,
)
_own_slopes = entry_point(
    "own_slopes",
    *(_OWN_WORDS, _FITS),
    *(INT64, SIZE),  # rows, how many
    *(FLOAT32, FLOAT32),  # mu, var_Q
    *(FLOAT32, FLOAT64),  # grad, trace
    returns=ctypes.c_int,  # 0; 1 for a row that is no sentence, 2 for a word without a vector
)
_sampled_noise_terms = entry_point(
    "sampled_noise_terms",
    *(FLOAT32, FLOAT32, FLOAT32, SIZE),  # shifts, low, var_Q, rows
    *(FLOAT, FLOAT32, FLOAT32, SIZE),  # var_0, control, sample, words
    _FITS,
    *(FLOAT64, FLOAT64),  # trace, error
)


# ---- Expected sigmoids --------------------------------------------------------------------------


class Fits:
    """The table of `logistic.sigmoid_fits`: from starts[j] to 2 starts[j], sqrt(2) apart."""

    def __init__(self, starts: np.ndarray, scales: np.ndarray, coefficients: np.ndarray) -> None:
        if starts.size == 0 or scales.shape != starts.shape:
            raise ValueError("Every fit needs a start and a scale.")
        if coefficients.shape != (starts.size, 7, 5):
            raise ValueError(f"A fit has 7 x 5 coefficients. Got {coefficients.shape} for all.")
        self.starts = starts
        self.scales = scales
        self.coefficients = coefficients
        self.struct = BoundStruct(
            _FITS, starts=starts, scales=scales, coefficients=coefficients, n_fits=starts.size
        )


def expected_sigmoids_plainly(
    scores: np.ndarray, v: np.ndarray, fits: Fits
) -> tuple[np.ndarray, np.ndarray]:
    """(f1, f2) of scores with variances v; they broadcast. Within 2e-5."""
    scores, v = np.broadcast_arrays(np.asarray(scores, float), np.asarray(v, float))
    f1, f2 = np.zeros((2, *scores.shape))

    # Small variances: Gauss-Hermite quadrature.
    is_small = v <= fits.starts[0]
    nodes, weights = np.polynomial.hermite_e.hermegauss(20)
    for node, weight in zip(nodes, weights / weights.sum()):
        x = expit(scores[is_small] + node * np.sqrt(v[is_small]))
        f1[is_small] += weight * x
        f2[is_small] += weight * x * (1.0 - x)

    # Large ones: a wide Gaussian absorbs the sigmoid.
    is_large = v >= 2.0 * fits.starts[-1]
    width = np.sqrt(v[is_large] + np.pi**2 / 3.0)
    z = scores[is_large] / width
    f1[is_large] = ndtr(z)
    f2[is_large] = np.exp(-0.5 * z**2) / np.sqrt(2.0 * np.pi) / width

    # In between, the fits of `logistic.sigmoid_fits`: P = p (1 - p), y = 4 P.
    for j in range(fits.starts.size):
        above = np.inf if j + 1 == fits.starts.size else fits.starts[j + 1]
        here = (v >= fits.starts[j]) & (v < above) & ~is_small & ~is_large
        scale = float(fits.scales[j])
        c = fits.coefficients[j].astype(float)
        p = expit(scale * scores[here])
        slope = p * (1.0 - p)

        y = 4.0 * slope
        t = 2.0 * v[here] / fits.starts[j] - 3.0
        g = polynomial.polyval2d(y, t, c)
        by_y = polynomial.polyval2d(y, t, polynomial.polyder(c))
        f1[here] = p + slope * (1.0 - 2.0 * p) * g
        f2[here] = scale * slope * (1.0 + (1.0 - 6.0 * slope) * g + y * (1.0 - y) * by_y)
    return f1, f2


# ---- The sentences' own words -------------------------------------------------------------------


class OwnWords:
    """The words of a batch of sentences and their vectors, for many calls of `own_slopes`.

    Parameters
    ----------
    starts, words, fractions : arrays
        The words of sentence s are words[starts[s]:starts[s + 1]], their fractions of it likewise.
    A, nu : arrays, shape (n_words, n_dims), (n_words,)
        Vectors, and their squared lengths. If not float32 and contiguous, the rows that occur are
        copied.
    """

    def __init__(
        self,
        starts: np.ndarray,
        words: np.ndarray,
        fractions: np.ndarray,
        A: np.ndarray,
        nu: np.ndarray,
    ) -> None:
        if fractions.shape != words.shape or nu.shape != A.shape[:1]:
            raise ValueError("Every word needs a fraction, and every vector its squared length.")
        if A.dtype != np.float32 or not A.flags.c_contiguous:
            used, words = np.unique(words, return_inverse=True)
            if used.size and not 0 <= used[0] <= used[-1] < len(A):
                raise ValueError("A word has no vector.")
            A = A[used]
            nu = nu[used]

        self.starts = np.ascontiguousarray(starts, np.int64)
        self.words = np.ascontiguousarray(words, np.int32)
        self.fractions = np.ascontiguousarray(fractions, np.float64)
        self.A = np.ascontiguousarray(A, np.float32)
        self.nu = np.ascontiguousarray(nu, np.float32)
        self.struct = BoundStruct(
            _OWN_WORDS,
            starts=self.starts,
            words=self.words,
            fractions=self.fractions,
            A=self.A,
            nu=self.nu,
            n_sentences=self.starts.size - 1,
            n_places=self.words.size,
            n_words=len(self.A),
            n_dims=self.A.shape[1],
        )


def own_slopes(
    own: OwnWords,
    rows: np.ndarray,
    mu: np.ndarray,
    var_Q: np.ndarray,
    fits: Fits,
    grad: np.ndarray,
    trace: np.ndarray,
) -> None:
    """Add the gradient of the loss of the sentences' own words, and its trace, in place.

    With W the fractions of sentences `rows` as a dense matrix, and f1, f2 those of the scores
    mu @ A.T with variances var_Q[:, None] * nu,

        grad += (W * (f1 - 1)) @ A;   trace += (W * f2) @ nu
    """
    shape = rows.size, own.A.shape[1]
    if not (mu.shape == grad.shape == shape and var_Q.shape == trace.shape == rows.shape):
        raise ValueError(f"mu and grad must have the shape {shape}, var_Q and trace {shape[:1]}.")

    if needs_twins():
        own_slopes_plainly(own, rows, mu, var_Q, fits, grad, trace)
        return

    error = _own_slopes(
        *(own.struct, fits.struct),
        *(rows, rows.size),
        *(mu, var_Q),
        *(grad, trace),
    )
    if error == 2:
        raise ValueError("A word has no vector.")
    if error:
        raise ValueError("A row is no sentence.")


def own_slopes_plainly(
    own: OwnWords,
    rows: np.ndarray,
    mu: np.ndarray,
    var_Q: np.ndarray,
    fits: Fits,
    grad: np.ndarray,
    trace: np.ndarray,
) -> None:
    """As `own_slopes`, sentence by sentence."""
    for s, row in enumerate(rows):
        part = slice(own.starts[row], own.starts[row + 1])
        words = own.words[part]
        fractions = own.fractions[part]
        A = own.A[words]  # (n_own, n_dims)
        nu = own.nu[words]

        f1, f2 = expected_sigmoids_plainly(A @ mu[s], var_Q[s] * nu, fits)
        grad[s] += (fractions * (f1 - 1.0)) @ A
        trace[s] += (fractions * f2) @ nu


# ---- The remainder of the negatives -------------------------------------------------------------


def sampled_noise_terms(
    shifts: np.ndarray,
    low: np.ndarray,
    var_Q: np.ndarray,
    centre: tuple[float, np.ndarray],
    sample: np.ndarray,
    fits: Fits,
) -> tuple[np.ndarray, np.ndarray]:
    """Overwrite shifts with w * rest; sums for the trace, and for the error, of each sentence.

    With D = var_Q - var_0, and f1, f2 those of the scores a + shifts with variances var_Q * nu,

        rest = f1 - b0 - b1 * shifts - b2 * D - b3 * low**2 - t2 * D * shifts
        trace = (f2 - t0 - t1 * shifts - t2 * D) @ (w * nu);    error = rest**2 @ e

    Parameters
    ----------
    shifts, low : float32 arrays, shape (n_sentences, n_words)
        The shifts of the scores from the centre, and their part along a few directions.
    var_Q : float32 array, shape (n_sentences,)
    centre : tuple of float and float32 array, shape (8, n_words)
        var_0, and a, b0, b1, b2, b3, t0, t1, t2.
    sample : float32 array, shape (3, n_words)
        nu, w, e; nu must increase.
    """
    var_0, control = centre
    n_rows, n_words = shifts.shape
    if low.shape != shifts.shape or var_Q.shape != (n_rows,):
        raise ValueError(f"Shapes of {n_rows} sentences differ: {low.shape} and {var_Q.shape}.")
    if control.shape != (8, n_words) or sample.shape != (3, n_words):
        raise ValueError(f"Shapes of {n_words} words differ: {control.shape}, {sample.shape}.")

    if needs_twins():
        return sampled_noise_terms_plainly(shifts, low, var_Q, centre, sample, fits)

    trace, error = np.empty((2, n_rows))
    _sampled_noise_terms(
        *(shifts, low, var_Q, n_rows),
        *(var_0, control, sample, n_words),
        fits.struct,
        *(trace, error),
    )
    return trace, error


def sampled_noise_terms_plainly(
    shifts: np.ndarray,
    low: np.ndarray,
    var_Q: np.ndarray,
    centre: tuple[float, np.ndarray],
    sample: np.ndarray,
    fits: Fits,
) -> tuple[np.ndarray, np.ndarray]:
    """As `sampled_noise_terms`."""
    var_0, control = centre
    a, b0, b1, b2, b3, t0, t1, t2 = control
    nu, w, e = sample

    f1, f2 = expected_sigmoids_plainly(a + shifts, var_Q[:, None] * nu, fits)
    D = var_Q[:, None] - var_0
    rest = f1 - b0 - b1 * shifts - b2 * D - b3 * low**2 - t2 * D * shifts
    trace = (f2 - t0 - t1 * shifts - t2 * D) @ (w * nu)
    shifts[...] = w * rest
    return trace, rest**2 @ e
