"""Formulas and solvers: arrays and numbers in, arrays and numbers out; no estimator, no file."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submodules=["bounds", "gaussians", "logistic", "risks", "weights"],
)
