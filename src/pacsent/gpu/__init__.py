"""Skip-gram and distillation on a GPU. No numba here.

Needs the `[gpu]` extra (PyTorch) and an NVIDIA GPU; without one, a line says so. The functions are
called by the estimators' `device="cuda"`.
"""

from pacsent.gpu.device import require
from pacsent.gpu.distillation import epoch_on_gpu
from pacsent.gpu.skipgram import train_skipgram

__all__ = ["epoch_on_gpu", "require", "train_skipgram"]
