"""Skip-gram and distillation on a GPU. No numba here.

Needs the `[gpu]` extra (PyTorch) and an NVIDIA GPU; without one, a line says so. The functions are
called by the estimators' `device="cuda"`.
"""

from pacsent.gpu.device import require
from pacsent.gpu.gpu_skipgram import train_skipgram
from pacsent.gpu.gpu_teaching import epoch_on_gpu

__all__ = ["epoch_on_gpu", "require", "train_skipgram"]
