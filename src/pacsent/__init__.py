"""Text classification with error bounds you can verify, on a CPU.

The public names, listed in `__init__.pyi`, are imported when they are first used: `import pacsent`
loads neither NumPy, numba, scikit-learn nor torch.
"""

import lazy_loader

__version__ = "0.1.0"

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
__all__ += ["__version__"]
