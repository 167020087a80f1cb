"""Sentence vectors with PAC-Bayes bounds, and text classification with certified errors.

pacsent implements PAC-Bayes Analysis of Sentence Representation (Nozawa and Sato, 2019) and carries
its bound to your own texts: label a few hundred, and it proves an upper bound on the error rate of
its classifier.

The public names, listed in `__init__.pyi`, are imported when they are first used: `import pacsent`
loads neither NumPy, scikit-learn nor torch.
"""

import lazy_loader

__version__ = "0.1.0"

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
__all__ += ["__version__"]
