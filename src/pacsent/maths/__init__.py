"""Formulas and solvers: arrays and numbers in, arrays and numbers out; no estimator, no file."""

from pacsent.lazy import offer

__getattr__, __dir__ = offer(
    __name__,
    {
        "binomial": "binomial",
        "bounds": "bounds",
        "gaussian_process": "gaussian_process",
        "gaussians": "gaussians",
        "lbfgs": "lbfgs",
        "logistic": "logistic",
        "pb_01_objective": "pb_01_objective",
        "pb_neg_objective": "pb_neg_objective",
        "regressions": "regressions",
        "risks": "risks",
        "sparse_regressions": "sparse_regressions",
        "temperature": "temperature",
        "w_pb_neg_objective": "w_pb_neg_objective",
        "weights": "weights",
    },
)
