"""Solvers of the posteriors: objectives, gradients and solvers on arrays; no estimator, no file."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submodules=["gaussians", "logistic", "risks", "weights"],
)
