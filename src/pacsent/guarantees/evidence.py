"""What a certificate of predictions rests on: counts, losses and digests."""

import hashlib
import json
from collections.abc import Sequence
from typing import Any

import numpy as np

from pacsent.guarantees.encoder_certificate import packed_losses
from pacsent.guarantees.samples import row_fingerprints, text_column
from pacsent.guarantees.splitting import FEWEST_GROUPS
from pacsent.storage import State

BRIER, LOG_LOSS = "Brier score", "log-loss"
LEAST_PROBABILITY = 0.001  # smaller ones count as this in the log-loss, which is unbounded
LARGEST = {LOG_LOSS: float(-np.log(LEAST_PROBABILITY))}  # of a loss, where it is not 1
_NO_CHANGE = ("n_jobs", "batch_size", "verbose")  # parameters that decide nothing


def evidence_of(
    labels: list,
    predictions: list,
    *,
    seed: int,
    units: np.ndarray | None = None,
    group_of: np.ndarray | None = None,
    recall: Sequence = (),
    precision: Sequence = (),
    row_losses: dict[str, np.ndarray] | None = None,
) -> dict[str, Any]:
    """Counts and losses: the fields of `ErrorCertificate` that its bounds are computed from.

    Parameters
    ----------
    labels, predictions : list
    seed : int
        Of the order of losses.
    units, group_of : array of int, optional
        Of each text: `splitting.units_of`, and the number of its group.
    recall, precision : classes
        Those whose texts, and whose predictions, are counted by themselves.
    row_losses : dict, optional
        Further losses in [0, 1] of each text, by name.

    >>> found = evidence_of(["a", "b"] * 3, ["a"] * 6, seed=0, units=np.arange(6) // 2)
    >>> found["n"], found["n_errors"], found["n_duplicates"]
    (3, 3, 3)
    """
    wrong = np.array([one != other for one, other in zip(labels, predictions)], bool)
    units = np.arange(wrong.size) if units is None else np.asarray(units)
    n_groups = 0 if group_of is None else np.unique(group_of).size
    grouped = n_groups >= FEWEST_GROUPS
    if grouped:
        units = np.asarray(group_of)
    losses = {name: _packed(units, values, seed) for name, values in (row_losses or {}).items()}
    if grouped:
        losses["error"] = _packed(units, wrong, seed)
    counts: dict[str, dict] = {"class": {}, "answer": {}}
    for kind, values, chosen in (("class", labels, recall), ("answer", predictions, precision)):
        for name in chosen:
            some = np.array([value == name for value in values], bool)
            counts[kind][str(name)] = _counts(units[some], wrong[some], grouped)
            if grouped and some.any():
                losses[f"{kind} {name}"] = _packed(units[some], wrong[some], seed)
    n = np.unique(units).size
    total = [n, int(wrong.sum()), wrong.size - n] if grouped else _counts(units, wrong)
    total = [*total, 0, 0][:4]
    return {
        "n": n,
        "n_errors": total[1],
        "n_duplicates": total[2],
        "n_repeated_errors": total[3],
        "class_counts": counts["class"],
        "answer_counts": counts["answer"],
        "losses": losses,
        "scope": "groups" if grouped else "same groups" if n_groups else "texts",
        "n_groups": 0 if grouped else n_groups,
    }


def _counts(units, wrong, grouped=False) -> list[int]:
    """[units, those with an error, further texts, further errors]; two numbers without further."""
    if grouped:  # how many texts: the bound is from the losses of groups
        return [int(wrong.size), int(wrong.sum())]
    _, of_row = np.unique(units, return_inverse=True)
    n = int(of_row.max(initial=-1)) + 1
    n_wrong = int((np.bincount(of_row, wrong, n) > 0).sum())
    found = [n, n_wrong, int(wrong.size) - n, int(wrong.sum()) - n_wrong]
    return found if found[2] else found[:2]


def _packed(units, values, seed) -> str:
    """The mean of each unit, in an order that does not depend on the values."""
    _, of_row = np.unique(units, return_inverse=True)
    means = np.bincount(of_row, values) / np.bincount(of_row)
    return packed_losses(np.random.default_rng([seed, 1]).permutation(means))


def digests(model: Any, X: Any, labels: Any, predictions: Any) -> dict[str, str]:
    """SHA-256 of what a certificate is about, as far as it is given and can be read."""
    found = {"labels": digest(labels), "predictions": digest(predictions)}
    if X is not None:
        found["texts"] = digest(X)
    model = getattr(model, "estimator_", model)
    if hasattr(model, "state"):
        found["model"] = _state_digest(model.state())
    return found


def digest(values: Any) -> str:
    """SHA-256 of labels or texts, or of the rows of an array or a table, in their order.

    >>> digest(["a", "b"])[:8], digest(["ab"])[:8]
    ('3554d2b8', 'f9ca6d37')
    """
    values = text_column(values)
    if isinstance(values, list) and not hasattr(next(iter(values), ""), "shape"):
        return hashlib.sha256(json.dumps(values, default=repr).encode()).hexdigest()
    return hashlib.sha256(row_fingerprints(values).tobytes()).hexdigest()


def _state_digest(state: State) -> str:
    """SHA-256 of a model's parameters and arrays, and of those of its parts."""
    config = dict(state.config)
    parameters = config.get("parameters", {})
    config["parameters"] = {k: v for k, v in parameters.items() if k not in _NO_CHANGE}
    total = hashlib.sha256(json.dumps(config, sort_keys=True, default=repr).encode())
    for name, array in sorted(state.tensors.items()):
        total.update(f"{name} {array.dtype} {array.shape}".encode())
        total.update(np.ascontiguousarray(array).tobytes())
    for name, part in sorted(state.parts.items()):
        whole = part.digest() if hasattr(part, "digest") else _state_digest(part.state())
        total.update(f"{name} {whole}".encode())
    return total.hexdigest()
