"""Sentence vectors, text classification and search, with PAC-Bayes guarantees.

The public names, listed in `__init__.pyi`, are imported when they are first used: `import pacsent`
loads neither NumPy, numba, scikit-learn nor torch.
"""

import lazy_loader

from pacsent.devices import register_trainer

__version__ = "0.1.0"

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
__all__ += ["__version__"]


def _load_cuda_trainer():
    from pacsent.gpu import train_skipgram

    return train_skipgram


register_trainer("cuda", _load_cuda_trainer)
