"""Fit a table of word vectors whose sums point where a teacher's vectors point.

    x_s = sum of E_w over the words w of text s,  y_s = x_s / |x_s|,  t_s the teacher's unit vector

Two steps. The first is exact: with the squared loss and a Gaussian prior N(P_w, variance) on every
word the posterior is Gaussian, and conjugate gradients find its mean,

    min over E of  sum_s |x_s / sqrt(n_s) - t_s|^2 + ridge * sum_w |E_w - P_w|^2

which is w-PB-L2 with the teacher's vectors as targets. The second refines that mean by Adam on

    1 - cos(y_s, t_s) + KL(softmax of t_s.t_r over r || softmax of y_s.y_r over r)

over batches of texts r: the directions and, above all, which texts are near each other.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from pacsent.arrays import unit_rows
from pacsent.kernels.pooling import adam_step, pool_rows
from pacsent.text.encoded import Encoded
from pacsent.threads import in_order, n_cores

# The least-squares table is multiplied by this before the gradient steps. Only directions of sums
# matter, but steps of Adam are absolute: a larger table moves less.
START_SCALE = 5.0

_BLOCK_TEXTS = 16_384  # texts of one matrix product
_WARM_UP_STEPS = 100  # in which the step size rises
_MIN_LENGTH = 1e-6  # by which shorter sums of word vectors are divided


@dataclass(frozen=True)
class SolverOptions:
    """Settings of the two steps.

    `n_epochs` passes in batches of `batch_size` texts, the largest step `rate`, cosines times
    `inverse_temperature` before the softmax; before that `n_iterations` of conjugate gradients with
    a prior that counts as much as `ridge` texts.
    """

    n_epochs: int = 3
    batch_size: int = 1024
    rate: float = 1e-3
    inverse_temperature: float = 20.0
    ridge: float = 1.0
    n_iterations: int = 10
    random_state: int = 0


class WordGroups(NamedTuple):
    """Tokens by word: text sentences[t] contains words[j] for starts[j] <= t < starts[j + 1]."""

    words: np.ndarray
    sentences: np.ndarray  # int32
    starts: np.ndarray

    @classmethod
    def of(cls, encoded: Encoded) -> "WordGroups":
        """Group the tokens of texts by word."""
        order = np.argsort(encoded.ids, kind="stable")
        sentences = np.arange(encoded.n_sentences, dtype=np.int32)
        sentence_of_token = np.repeat(sentences, np.diff(encoded.offsets))
        words, starts = np.unique(encoded.ids[order], return_index=True)
        return cls(
            words=words,
            sentences=sentence_of_token[order],
            starts=np.append(starts, encoded.ids.size),
        )

    def sums(self, gradients: np.ndarray) -> np.ndarray:
        """For each word, the sum of its texts' rows; on all cores, the same for any number."""
        out = np.empty((self.words.size, gradients.shape[1]), dtype=gradients.dtype)
        ones = np.ones(self.words.size, gradients.dtype)

        # Equal numbers of tokens per thread, not of words.
        token_bounds = np.linspace(0, self.starts[-1], n_cores() + 1)
        cuts = np.searchsorted(self.starts, token_bounds[1:-1])
        word_bounds = np.unique([0, *cuts.tolist(), self.words.size]).tolist()

        def sum_part(part: tuple[int, int]) -> None:
            first, last = part
            starts = self.starts[first : last + 1]
            words = slice(first, last)
            pool_rows(self.sentences, starts, gradients, None, ones[words], out[words])

        list(in_order(sum_part, pairwise(word_bounds), None))
        return out


def sums(encoded: Encoded, table: np.ndarray, scale: np.ndarray | None = None) -> np.ndarray:
    """Sum of the rows of each text's words, times its scale: (n_texts, n_dims)."""
    out = np.empty((encoded.n_sentences, table.shape[1]), dtype=table.dtype)
    if scale is None:
        scale = np.ones(encoded.n_sentences)
    scale = scale.astype(table.dtype)
    n_part = -(-encoded.n_sentences // n_cores()) or 1  # texts of a thread

    def sum_part(start: int) -> None:
        part = slice(start, start + n_part)
        offsets = encoded.offsets[start : start + n_part + 1]
        pool_rows(encoded.ids, offsets, table, None, scale[part], out[part])

    list(in_order(sum_part, range(0, encoded.n_sentences, n_part), None))
    return out


class _LeastSquares:
    """The matrix A of the least-squares problem, in blocks of texts.

    A[s, w] = count of w in s / sqrt(n_s)
    """

    def __init__(self, encoded: Encoded, prior: np.ndarray):
        n_texts = encoded.n_sentences
        starts = range(0, n_texts, _BLOCK_TEXTS)
        self.shape = prior.shape  # (n_words, n_dims) of the table
        self.dtype = prior.dtype
        self.scale = 1.0 / np.sqrt(np.maximum(np.diff(encoded.offsets), 1))  # (n_texts,)
        self.parts = [slice(start, start + _BLOCK_TEXTS) for start in starts]
        self.texts = []
        for start in starts:
            rows = np.arange(start, min(start + _BLOCK_TEXTS, n_texts))
            self.texts.append(encoded.take(rows))
        self.groups = [WordGroups.of(texts) for texts in self.texts]

    def blocks(self) -> Iterator[tuple[slice, Encoded]]:
        """Rows and texts of each block."""
        return zip(self.parts, self.texts)

    def times(self, E: np.ndarray, part: slice, texts: Encoded) -> np.ndarray:
        """A E for the texts of a block, (n_block, n_dims)."""
        return sums(texts, E, self.scale[part])

    def transposed_times(self, rows_of: Callable[[slice, Encoded], np.ndarray]) -> np.ndarray:
        """A' Y, (n_words, n_dims), where rows_of(part, texts) are the rows of Y for a block."""
        total = np.zeros(self.shape, self.dtype)
        for part, texts, groups in zip(self.parts, self.texts, self.groups):
            scaled = rows_of(part, texts) * self.scale[part, None]
            total[groups.words] += groups.sums(np.ascontiguousarray(scaled, dtype=self.dtype))
        return total

    def normal_times(self, E: np.ndarray) -> np.ndarray:
        """A' A E, (n_words, n_dims)."""
        return self.transposed_times(lambda part, texts: self.times(E, part, texts))

    def normal_diagonal(self, ridge: float) -> np.ndarray:
        """The diagonal of A' A + ridge, (n_words,)."""
        n_words = self.shape[0]
        diagonal = np.full(n_words, ridge)
        for part, texts in self.blocks():
            squares = np.repeat(self.scale[part] ** 2, np.diff(texts.offsets))
            diagonal += np.bincount(texts.ids, squares, minlength=n_words)
        return diagonal


def fit_table(
    encoded: Encoded, targets: np.ndarray, prior: np.ndarray, options: SolverOptions
) -> tuple[np.ndarray, np.ndarray]:
    """Mean and variance of the words' Gaussian posteriors under the squared loss.

    `targets` are the teacher's vectors of texts with in-vocabulary words, `prior` the means of
    the prior, (n_words, n_dims). The variances, (n_words,), are from the diagonal of the precision.
    """
    ridge = prior.dtype.type(options.ridge)
    tiny = np.finfo(prior.dtype).tiny
    problem = _LeastSquares(encoded, prior)
    precision = problem.normal_diagonal(float(ridge))
    inverse = (1.0 / precision)[:, None].astype(prior.dtype)

    def unit_targets(part: slice, texts: Encoded | None = None) -> np.ndarray:
        return unit_rows(np.asarray(targets[part], prior.dtype))

    def product(E: np.ndarray) -> np.ndarray:  # (A' A + ridge) E
        return problem.normal_times(E) + ridge * E

    # Conjugate gradients, preconditioned by the diagonal: one system per dimension, all at once.
    means = prior.copy()
    residual = problem.transposed_times(unit_targets)
    residual += ridge * prior - product(means)
    direction = inverse * residual
    norm = np.einsum("ij,ij->j", residual, direction)
    for _ in range(options.n_iterations):
        image = product(direction)
        curvature = np.einsum("ij,ij->j", direction, image)
        step = norm / np.maximum(curvature, tiny)
        means += step * direction
        residual -= step * image

        conditioned = inverse * residual
        previous_norm = norm
        norm = np.einsum("ij,ij->j", residual, conditioned)
        direction = conditioned + norm / np.maximum(previous_norm, tiny) * direction

    # The loss at the means estimates the variance of the noise.
    error = 0.0
    for part, texts in problem.blocks():
        misfit = problem.times(means, part, texts) - unit_targets(part)
        error += float(np.einsum("ij,ij->", misfit, misfit, dtype=float))
    noise_variance = error / (encoded.n_sentences * prior.shape[1])
    return means, noise_variance / precision


def batch_loss(
    x: np.ndarray, t: np.ndarray, inverse_temperature: float
) -> tuple[float, np.ndarray]:
    """Loss of a batch, and its gradient with respect to the sums of word vectors.

        mean over s of  1 - y_s.t_s + KL(softmax_r of b t_s.t_r || softmax_r of b y_s.y_r),  r != s

    x are the sums, y = x / |x|, t the teacher's unit vectors, b the inverse temperature.
    """
    n = len(x)
    b = x.dtype.type(inverse_temperature)
    lengths = np.linalg.norm(x, axis=1, keepdims=True)
    lengths = np.maximum(lengths, x.dtype.type(_MIN_LENGTH))
    y = x / lengths

    # Directions: 1 - cos.
    loss = 1.0 - float(np.einsum("ij,ij->", y, t)) / n
    gradient = -t / n  # in y

    # Neighbourhoods: with two texts there is one r, and nothing to compare.
    if n > 2:
        log_p = _log_softmax(b * (y @ y.T))
        log_q = _log_softmax(b * (t @ t.T))
        q = np.exp(log_q)
        loss += float(np.einsum("ij,ij->", q, log_q - log_p)) / n

        p = np.exp(log_p, out=log_p)
        p -= q
        gradient += (b / n) * ((p + p.T) @ y)

    # y has length 1: a change along it is none.
    along = np.einsum("ij,ij->i", gradient, y)
    return loss, (gradient - along[:, None] * y) / lengths


def _log_softmax(scores: np.ndarray) -> np.ndarray:
    """Of each row without its diagonal, in place."""
    np.fill_diagonal(scores, -1e9)  # its softmax is 0, without an infinity
    scores -= scores.max(axis=1, keepdims=True)
    scores -= np.log(np.exp(scores).sum(axis=1, keepdims=True))
    return scores


class Refinement:
    """The second step: Adam over batches, epoch by epoch, on `table`, which is changed in place.

    `epoch` is the number of epochs done; with the three tables it is all that a checkpoint needs.
    """

    def __init__(self, table: np.ndarray, n_texts: int, options: SolverOptions):
        self.table = table
        self.options = options
        self.n_texts = n_texts
        self.epoch = 0
        self.first = np.zeros_like(table)  # moments of the gradient
        self.second = np.zeros_like(table)

    @property
    def n_batches(self) -> int:
        """Batches of an epoch."""
        return max(1, round(self.n_texts / self.options.batch_size))

    def rate(self, step: int) -> float:
        """Size of a step: rising at first, then falling along a cosine."""
        warm_up = min(1.0, (step + 1) / _WARM_UP_STEPS)
        progress = step / (self.n_batches * self.options.n_epochs)
        return self.options.rate * warm_up * 0.5 * (1 + np.cos(np.pi * progress))

    def batches(self) -> list[np.ndarray]:
        """The rows of each batch of the next epoch; the same for the same seed and epoch."""
        rng = np.random.default_rng([self.options.random_state, self.epoch])
        return np.array_split(rng.permutation(self.n_texts), self.n_batches)

    def run_epoch(
        self, encoded: Encoded, targets: np.ndarray, advance: Callable[[int], None]
    ) -> float:
        """One pass over the texts; returns the mean loss."""
        total = 0.0
        first_step = self.epoch * self.n_batches
        for step, rows in enumerate(self.batches(), first_step):
            batch = encoded.take(rows)
            x = sums(batch, self.table)
            t = unit_rows(np.asarray(targets[rows], dtype=np.float32))
            loss, gradient = batch_loss(x, t, self.options.inverse_temperature)

            groups = WordGroups.of(batch)
            word_gradients = groups.sums(gradient)
            bias_1 = 1 - 0.9 ** (step + 1)
            bias_2 = 1 - 0.999 ** (step + 1)
            rates = (self.rate(step), bias_1, bias_2)
            adam_step(groups.words, word_gradients, self.table, self.first, self.second, rates)

            total += loss * len(rows)
            advance(len(rows))
        self.epoch += 1
        return total / self.n_texts
