"""Fit a table of word vectors whose sums point where a teacher's vectors point.

    x_s = sum of E_w over the words w of text s,  y_s = x_s / |x_s|,  t_s the teacher's unit vector

Two steps. The first is exact: with the squared loss and a Gaussian prior N(P_w, variance) on every
word the posterior is Gaussian, and conjugate gradients find its mean,

    min over E of  sum_s |x_s / sqrt(n_s) - t_s|^2 + ridge * sum_w |E_w - P_w|^2

which is w-PB-L2 with the teacher's vectors as targets. The second refines that mean by Adam on

    1 - cos(y_s, t_s) + KL(softmax of t_s.t_r over r || softmax of y_s.y_r over r)

over batches of texts r: the directions and, above all, which texts are near each other.
"""

from collections.abc import Callable
from dataclasses import dataclass
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


@dataclass(frozen=True)
class SolverOptions:
    """How the table is learned.

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
        of_token = np.arange(encoded.n_sentences, dtype=np.int32)
        sentence = np.repeat(of_token, np.diff(encoded.offsets))
        words, starts = np.unique(encoded.ids[order], return_index=True)
        return cls(words, sentence[order], np.append(starts, encoded.ids.size))

    def sums(self, gradients: np.ndarray) -> np.ndarray:
        """For each word, the sum of its texts' rows; on all cores, the same for any number."""
        out = np.empty((self.words.size, gradients.shape[1]), dtype=gradients.dtype)
        # Equal numbers of tokens per thread, not of words.
        cuts = np.searchsorted(self.starts, np.linspace(0, self.starts[-1], n_cores() + 1)[1:-1])
        bounds = np.unique([0, *cuts.tolist(), self.words.size])

        ones = np.ones(self.words.size, gradients.dtype)

        def work(part):
            a, b = part
            starts = self.starts[a : b + 1]
            pool_rows(self.sentences, starts, gradients, None, ones[a:b], out[a:b])

        list(in_order(work, zip(bounds[:-1].tolist(), bounds[1:].tolist()), None))
        return out


def sums(encoded: Encoded, table: np.ndarray, scale: np.ndarray | None = None) -> np.ndarray:
    """Sum of the rows of each text's words, times its scale: (n_texts, n_dims)."""
    out = np.empty((encoded.n_sentences, table.shape[1]), dtype=table.dtype)
    if scale is None:
        scale = np.ones(encoded.n_sentences)
    scale = scale.astype(table.dtype)
    size = -(-encoded.n_sentences // n_cores()) or 1

    def work(start):
        part = slice(start, start + size)
        bounds = encoded.offsets[start : start + size + 1]
        pool_rows(encoded.ids, bounds, table, None, scale[part], out[part])

    list(in_order(work, range(0, encoded.n_sentences, size), None))
    return out


def fit_table(
    encoded: Encoded, targets: np.ndarray, prior: np.ndarray, options: SolverOptions
) -> tuple[np.ndarray, np.ndarray]:
    """Mean and variance of the words' Gaussian posteriors under the squared loss.

    `targets` are the teacher's vectors of texts with in-vocabulary words, `prior` the means of
    the prior, (n_words, n_dims). The variances, (n_words,), are from the diagonal of the precision.
    """
    n, ridge = encoded.n_sentences, prior.dtype.type(options.ridge)
    scale = 1.0 / np.sqrt(np.maximum(np.diff(encoded.offsets), 1))
    starts = range(0, n, _BLOCK_TEXTS)
    blocks = [encoded.take(np.arange(a, min(a + _BLOCK_TEXTS, n))) for a in starts]
    groups = [WordGroups.of(block) for block in blocks]

    def transposed(of_block):
        """A.T times what `of_block` gives for each block of texts."""
        total = np.zeros_like(prior)
        for start, block, group in zip(starts, blocks, groups):
            part = slice(start, start + _BLOCK_TEXTS)
            rows = of_block(part, block) * scale[part, None]
            total[group.words] += group.sums(np.ascontiguousarray(rows, dtype=prior.dtype))
        return total

    def product(E):
        return transposed(lambda part, block: sums(block, E, scale[part])) + ridge * E

    precision = np.full(len(prior), float(ridge))
    for start, block in zip(starts, blocks):
        weights = np.repeat(scale[start : start + _BLOCK_TEXTS] ** 2, np.diff(block.offsets))
        precision += np.bincount(block.ids, weights, minlength=len(prior))
    inverse = (1.0 / precision)[:, None].astype(prior.dtype)
    means = prior.copy()
    # Conjugate gradients, preconditioned by the diagonal: one system per dimension, all at once.
    residual = transposed(lambda part, block: unit_rows(np.asarray(targets[part], prior.dtype)))
    residual += ridge * prior - product(means)
    direction = inverse * residual
    norm = np.einsum("ij,ij->j", residual, direction)
    tiny = np.finfo(prior.dtype).tiny
    for _ in range(options.n_iterations):
        image = product(direction)
        step = norm / np.maximum(np.einsum("ij,ij->j", direction, image), tiny)
        means += step * direction
        residual -= step * image
        previous_norm, conditioned = norm, inverse * residual
        norm = np.einsum("ij,ij->j", residual, conditioned)
        direction = conditioned + norm / np.maximum(previous_norm, tiny) * direction
    error = 0.0
    for start, block in zip(starts, blocks):
        part = slice(start, start + _BLOCK_TEXTS)
        t = unit_rows(np.asarray(targets[part], prior.dtype))
        misfit = sums(block, means, scale[part]) - t
        error += float(np.einsum("ij,ij->", misfit, misfit, dtype=float))
    return means, error / (n * prior.shape[1]) / precision


def batch_loss(
    x: np.ndarray, t: np.ndarray, inverse_temperature: float
) -> tuple[float, np.ndarray]:
    """Loss of a batch, and its gradient with respect to the sums of word vectors.

        mean over s of  1 - y_s.t_s + KL(softmax_r of b t_s.t_r || softmax_r of b y_s.y_r),  r != s

    x are the sums, y = x / |x|, t the teacher's unit vectors, b the inverse temperature.
    """
    n = len(x)
    b = x.dtype.type(inverse_temperature)
    lengths = np.maximum(np.linalg.norm(x, axis=1, keepdims=True), x.dtype.type(1e-6))
    y = x / lengths
    loss = 1.0 - float(np.einsum("ij,ij->", y, t)) / n
    gradient = -t / n
    if n > 2:
        p, q = _log_softmax(b * (y @ y.T)), _log_softmax(b * (t @ t.T))
        expected = np.exp(q)
        loss += float(np.einsum("ij,ij->", expected, q - p)) / n
        np.exp(p, out=p)
        p -= expected
        gradient += (b / n) * ((p + p.T) @ y)
    return loss, (gradient - np.einsum("ij,ij->i", gradient, y)[:, None] * y) / lengths


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
        self.table, self.options, self.n_texts, self.epoch = table, options, n_texts, 0
        self.first, self.second = np.zeros_like(table), np.zeros_like(table)

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
        for number, rows in enumerate(self.batches(), self.epoch * self.n_batches):
            batch = encoded.take(rows)
            t = unit_rows(np.asarray(targets[rows], dtype=np.float32))
            loss, gradient = batch_loss(
                sums(batch, self.table), t, self.options.inverse_temperature
            )
            groups = WordGroups.of(batch)
            rates = (self.rate(number), 1 - 0.9 ** (number + 1), 1 - 0.999 ** (number + 1))
            of_words = groups.sums(gradient)
            adam_step(groups.words, of_words, self.table, self.first, self.second, rates)
            total += loss * len(rows)
            advance(len(rows))
        self.epoch += 1
        return total / self.n_texts
