"""The second step of distillation with PyTorch: the same batches, loss and steps as on the CPU."""

from collections.abc import Callable
from typing import Any

import numpy as np

from pacsent.words.gpu.device import require, require_torch


def epoch_on_gpu(
    work: Any, encoded: Any, targets: np.ndarray, advance: Callable[[int], None], device: str
) -> None:
    """One pass over the texts; equal to `work.run_epoch` but for rounding.

    `work` is a `solvers.distillation.Refinement`, changed in place; `targets` are (n_texts,
    n_dims); `advance` is called with the number of texts after every batch.
    """
    torch = require_torch()
    place = require(device)
    table = torch.from_numpy(work.table).to(place)
    first = torch.from_numpy(work.first).to(place)
    second = torch.from_numpy(work.second).to(place)

    first_step = work.epoch * work.n_batches
    for step, rows in enumerate(work.batches(), first_step):
        batch = encoded.take(rows)
        words, ids = np.unique(batch.ids, return_inverse=True)
        word_rows = torch.from_numpy(words).long().to(place)
        vectors = table[word_rows].requires_grad_(True)  # (n_batch_words, n_dims)

        # The sums of the texts' word vectors, and their directions.
        token_ids = torch.from_numpy(ids).long().to(place)
        text_starts = torch.from_numpy(batch.offsets[:-1]).to(place)
        sums = torch.nn.functional.embedding_bag(token_ids, vectors, text_starts, mode="sum")
        y = torch.nn.functional.normalize(sums, dim=1, eps=1e-6)

        batch_targets = np.asarray(targets[rows], dtype=np.float32)
        t = torch.from_numpy(batch_targets).to(place)
        t = torch.nn.functional.normalize(t, dim=1)

        loss = _batch_loss(torch, y, t, work.options.inverse_temperature)
        (gradient,) = torch.autograd.grad(loss, vectors)

        # A step of Adam on the rows of these words alone.
        bias_1 = 1 - 0.9 ** (step + 1)
        bias_2 = 1 - 0.999 ** (step + 1)
        with torch.no_grad():
            m = torch.lerp(first[word_rows], gradient, 0.1)
            v = torch.lerp(second[word_rows], gradient * gradient, 0.001)
            first[word_rows] = m
            second[word_rows] = v
            scaled_m = m * (work.rate(step) / bias_1)
            table[word_rows] -= scaled_m / ((v / bias_2).sqrt() + 1e-8)
        advance(len(rows))

    work.table[...] = table.cpu().numpy()
    work.first[...] = first.cpu().numpy()
    work.second[...] = second.cpu().numpy()
    work.epoch += 1


def _batch_loss(torch: Any, y: Any, t: Any, b: float) -> Any:
    """`solvers.distillation.batch_loss` of unit vectors, for `torch.autograd`."""
    loss = (1 - (y * t).sum(1)).mean()
    n = len(y)
    if n <= 2:
        return loss

    is_diagonal = torch.eye(n, device=y.device, dtype=torch.bool)
    scores_y = (b * y @ y.T).masked_fill(is_diagonal, -1e9)
    scores_t = (b * t @ t.T).masked_fill(is_diagonal, -1e9)
    log_p = torch.log_softmax(scores_y, dim=1)
    log_q = torch.log_softmax(scores_t, dim=1)
    kl = (log_q.exp() * (log_q - log_p)).sum() / n
    return loss + kl
