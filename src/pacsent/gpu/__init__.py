"""Training and solving on a GPU: the same results as on the CPU, sooner. No numba here.

Needs the `[gpu]` extra (PyTorch) and an NVIDIA GPU; without one, a line says so. The functions are
called by the estimators' `device="cuda"`.

    skipgram   both tables of Skip-gram, from a corpus file of any size
    device     is there a GPU, is there memory; kernels compiled at run time
"""

from pacsent.gpu.device import require
from pacsent.gpu.skipgram import train_skipgram

__all__ = ["require", "train_skipgram"]
