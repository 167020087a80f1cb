"""Solvers and calibration of the classifier, on arrays; no estimator, no file."""
