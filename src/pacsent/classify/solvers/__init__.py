"""What fits the classifier: solvers and calibration on arrays; no estimator, no file."""
