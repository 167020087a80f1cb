"""What a certified TextClassifier adds to its folder, as arrays, and back, checked."""

import json
from typing import Any

import numpy as np

from pacsent.guarantees.calibration_set import Calibration
from pacsent.guarantees.error_certificate import ErrorCertificate
from pacsent.guarantees.multilabel_certificate import MultilabelCertificate
from pacsent.guarantees.stream_watcher import MONITORS
from pacsent.storage import checked_tensor


def to_arrays(certified: Any) -> dict[str, np.ndarray]:
    """The calibration set and the certificate, as arrays."""
    described = {"certificate": certified.certificate_.to_dict(), "seed": certified.seed_}
    text = json.dumps(described, ensure_ascii=False).encode()
    labels = certified.calibration_.labels
    return {
        "calibration.log_proba": certified.calibration_.log_proba,
        "calibration.labels": labels.astype(np.uint8) if labels.ndim == 2 else labels,
        "calibration.monitors": certified.calibration_.monitors,
        "description": np.frombuffer(text, np.uint8),
    }


def from_arrays(state: Any, estimator: Any) -> dict[str, Any]:
    """The attributes of a certified classifier from `to_arrays`, or ValueError.

    The arrays may have been written by somebody else: all shapes agree, all numbers are finite and
    in their range, and the certificate is verified.
    """
    description = checked_tensor(state, "description", np.uint8, (None,))
    described = json.loads(description.tobytes())
    n_classes, seed = estimator.classes_.size, described["seed"]
    if seed is not None and type(seed) is not int:
        raise ValueError(f"seed must be an integer or none. Got {seed!r} instead")
    several = estimator.targets_ != "classes"
    kind, width, most = (
        (np.uint8, (None, n_classes), 2) if several else (np.int64, (None,), n_classes)
    )
    labels = checked_tensor(state, "calibration.labels", kind, width, low=0, below=most)
    labels = labels.astype(bool) if several else labels
    shape = len(labels), n_classes
    log_proba = checked_tensor(state, "calibration.log_proba", np.float64, shape)
    shape = len(labels), len(MONITORS)
    monitors = checked_tensor(state, "calibration.monitors", np.float64, shape, low=-1)
    of: Any = MultilabelCertificate if several else ErrorCertificate
    certificate = of.from_dict(described["certificate"])
    certificate.verify()
    return {
        "estimator_": estimator,
        "classes_": estimator.classes_,
        "seed_": seed,
        "targets_": estimator.targets_,
        "training_fingerprints_": estimator.training_fingerprints_,
        "training_sketches_": estimator.training_sketches_,
        "calibration_": Calibration(log_proba, labels, monitors=monitors),
        "out_of_fold_": estimator.out_of_fold_,
        "certificate_": certificate,
    }
