"""Training and solving on a GPU: the same results as on the CPU, sooner. No numba here.

Needs the `[gpu]` extra (PyTorch) and an NVIDIA GPU; without one, a line says so. The functions are
called by the estimators' `device="cuda"`.
"""

from pacsent.gpu.device import require
from pacsent.gpu.gpu_logistic import fit as fit_logistic
from pacsent.gpu.gpu_logistic import fit_grid
from pacsent.gpu.gpu_sentences import WordMinimiser, WordSGD, fit_w_pb_neg, solve_pb_neg
from pacsent.gpu.gpu_skipgram import train_skipgram
from pacsent.gpu.gpu_teaching import epoch_on_gpu

__all__ = [
    "WordMinimiser", "WordSGD", "epoch_on_gpu", "fit_grid", "fit_logistic", "fit_w_pb_neg",
    "require", "solve_pb_neg", "train_skipgram",
]  # fmt: skip
