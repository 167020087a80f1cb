"""The second step of distillation with PyTorch: the same batches, loss and steps as on the CPU."""

from collections.abc import Callable
from typing import Any

import numpy as np

from pacsent.words.gpu.device import require, require_torch


def epoch_on_gpu(
    work: Any, encoded: Any, targets: np.ndarray, advance: Callable[[int], None], device: str
) -> None:
    """One pass over the texts; equal to `work.run_epoch` but for rounding.

    `work` is a `distillation_solver.Refinement`, changed in place; `targets` are (n_texts,
    n_dims); `advance` is called with the number of texts after every batch.
    """
    torch, place = require_torch(), require(device)
    table, first, second = (
        torch.from_numpy(array).to(place) for array in (work.table, work.first, work.second)
    )
    b = work.options.inverse_temperature
    for step, rows in enumerate(work.batches(), work.epoch * work.n_batches):
        batch = encoded.take(rows)
        words, ids = np.unique(batch.ids, return_inverse=True)
        here = torch.from_numpy(words).long().to(place)
        own = table[here].requires_grad_(True)
        sums = torch.nn.functional.embedding_bag(
            torch.from_numpy(ids).long().to(place),
            own,
            torch.from_numpy(batch.offsets[:-1]).to(place),
            mode="sum",
        )
        y = torch.nn.functional.normalize(sums, dim=1, eps=1e-6)
        t = torch.from_numpy(np.asarray(targets[rows], dtype=np.float32)).to(place)
        t = torch.nn.functional.normalize(t, dim=1)
        loss = (1 - (y * t).sum(1)).mean()
        if len(rows) > 2:
            itself = torch.eye(len(rows), device=place, dtype=torch.bool)
            p, q = (
                torch.log_softmax((b * m @ m.T).masked_fill(itself, -1e9), dim=1) for m in (y, t)
            )
            loss = loss + (q.exp() * (q - p)).sum() / len(rows)
        (gradient,) = torch.autograd.grad(loss, own)
        with torch.no_grad():
            m = torch.lerp(first[here], gradient, 0.1)
            v = torch.lerp(second[here], gradient * gradient, 0.001)
            first[here], second[here] = m, v
            m = m * (work.rate(step) / (1 - 0.9 ** (step + 1)))
            table[here] -= m / ((v / (1 - 0.999 ** (step + 1))).sqrt() + 1e-8)
        advance(len(rows))
    for array, tensor in ((work.table, table), (work.first, first), (work.second, second)):
        array[...] = tensor.cpu().numpy()
    work.epoch += 1
