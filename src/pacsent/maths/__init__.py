"""Formulas and solvers: arrays and numbers in, arrays and numbers out; no estimator, no file."""

from pacsent.lazy import offer

__getattr__, __dir__ = offer(__name__, {}, ("bounds", "gaussians", "logistic", "risks", "weights"))
