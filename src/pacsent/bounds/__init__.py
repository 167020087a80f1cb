"""Bounds as pure functions: numbers and arrays in, numbers out; they need NumPy and SciPy only."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submodules=["binomial", "means", "pac_bayes", "rounding"],
)
