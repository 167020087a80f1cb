"""`certify_predictions`: how often anybody's predictions are wrong, from labels alone.

The predictions may come from any model, from a language model or from people; nothing but labels
and predictions is needed.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from pacsent.classify.inputs import as_classes, as_groups, as_labels, few
from pacsent.guarantees.error_certificate import (
    BRIER,
    LARGEST_LOSS,
    LOG_LOSS,
    MIN_PROBABILITY,
    ErrorCertificate,
    error_certificate,
)
from pacsent.guarantees.independence import dependent_clusters
from pacsent.guarantees.samples import as_samples, digests

_SUM_TOLERANCE = 1e-3  # by which probabilities of one text may fail to add up to 1


def certify_predictions(
    labels: Any,
    predictions: Any,
    *,
    probabilities: Any = None,
    texts: Any = None,
    groups: Sequence | None = None,
    classes: Sequence | None = None,
    recall: Any = (),
    precision: Any = (),
    delta: float = 0.05,
    n_candidates: int = 1,
    random_state: int | None = None,
) -> ErrorCertificate:
    """Bound how often predictions are wrong on new texts; all bounds hold together.

    The texts must be drawn as the new ones will be, and whatever predicted them must neither have
    been fitted nor chosen on their labels.

    Parameters
    ----------
    labels, predictions : lists, arrays or columns
        The right class and the predicted class of each text.
    probabilities : array, optional
        Shape (n,): of the predicted class being right; (n, n_classes): of all classes, in their
        order. Bounds the Brier score and the log-loss.
    texts : list of str, or rows of an array or a table, optional
        Finds duplicates and near-duplicates, which are no independent examples. Without it they are
        not looked for.
    groups : list, optional
        The author, the book, the day of each text. The guarantee is then for new groups, each of
        which counts as one example; with fewer than 8 groups it is not, and says so.
    classes : list, optional
        All classes; those among the labels, in order, if omitted.
    recall, precision : list of classes, or "all"
        Bound the error rate among the texts of these classes (1 - recall; with all classes also the
        mean of them, the balanced error), and among the texts predicted to be of these
        (1 - precision).
    delta : float, default=0.05
        Probability that some bound of the certificate is false.
    n_candidates : int, default=1
        How many models, prompts or settings were compared on these labels before this one was kept.
    random_state : int or None
        Seed of the order of losses. None draws one; it is recorded.

    Returns
    -------
    certificate : ErrorCertificate

    Examples
    --------
    >>> from pacsent.guarantees import certify_predictions
    >>> labels = ["spam", "mail"] * 100
    >>> answers = ["spam", "mail"] * 95 + ["mail"] * 10
    >>> certificate = certify_predictions(labels, answers, recall="all", precision=["spam"])
    >>> round(certificate.bound, 3), round(certificate.class_bounds["spam"], 3)
    (0.057, 0.128)
    >>> round(1 - certificate.answer_bounds["spam"], 3)  # precision is at least
    0.951
    """
    true = as_labels(labels)
    predicted = as_labels(predictions, len(true), name="predictions")
    if not true:
        raise ValueError("labels must hold at least one label. Got none instead.")
    names = sorted(set(true)) if classes is None else as_labels(classes, name="classes")
    if len(set(names)) != len(names) or not names:
        raise ValueError(f"classes must be all different, at least one. Got {few(names)} instead.")
    names = as_classes(names).tolist()
    chosen = {}
    for what, values in (("recall", recall), ("precision", precision)):
        if isinstance(values, str):
            values = names if values == "all" else [values]
        chosen[what] = list(dict.fromkeys(as_labels(values, name=what)))
    known = set(names)
    for what, values in {"labels": true, "predictions": predicted, **chosen}.items():
        row = next((row for row, value in enumerate(values) if value not in known), None)
        if row is not None:
            raise ValueError(
                f"{what} must be among the classes ({few(names)}). Got {values[row]!r} in row "
                f"{row:,} instead. Name all classes, such as classes=A,B, or correct the row."
            )
    clusters, unknown = None, ", and duplicates were not looked for: texts are not given"
    if texts is not None:
        texts, unknown = as_samples(texts), ""
        clusters = dependent_clusters(texts, n_rows=len(true))
    wrong = np.array([label != answer for label, answer in zip(true, predicted)], bool)
    return error_certificate(
        true,
        predicted,
        clusters=clusters,
        group_of=as_groups(groups, len(true)),
        **chosen,
        row_losses=_row_losses(probabilities, wrong, true, names),
        delta=delta,
        n_candidates=n_candidates,
        seed=random_state,
        fields={
            "provenance": "given; whether whatever predicted them was fitted on them is not known"
            + unknown,
            "digests": digests(None, texts, true, predicted),
        },
    )


def _row_losses(probabilities, wrong, true, names) -> dict[str, np.ndarray]:
    """Brier score and log-loss of each text, both scaled to [0, 1]."""
    if probabilities is None:
        return {}
    rule = (
        f"probabilities must be one number in [0, 1] for each of the {len(true):,} texts, or one "
        f"for each of the {len(names)} classes"
    )
    try:
        p = np.asarray(probabilities, np.float64)
    except (TypeError, ValueError):
        raise ValueError(f"{rule}. Got something else instead.") from None
    if p.shape not in ((len(true),), (len(true), len(names))):
        raise ValueError(f"{rule}. Got shape {p.shape} instead.")
    outside = np.argwhere(~((p >= 0) & (p <= 1)))  # also nan
    if outside.size:
        raise ValueError(f"{rule}. Got {p[tuple(outside[0])]} in row {outside[0][0]:,} instead.")
    if p.ndim == 1:
        brier, p_true = (p - ~wrong) ** 2, np.where(wrong, 1 - p, p)
    else:
        off = np.flatnonzero(np.abs(p.sum(axis=1) - 1) > _SUM_TOLERANCE)
        if off.size:
            raise ValueError(
                f"probabilities of a text must add up to 1. Got {p[off[0]].sum():g} in row "
                f"{off[0]:,} instead."
            )
        place = {name: at for at, name in enumerate(names)}
        hit = np.zeros_like(p)
        hit[np.arange(len(true)), [place[name] for name in true]] = 1.0
        brier, p_true = ((p - hit) ** 2).sum(axis=1) / 2, (p * hit).sum(axis=1)
    log_loss = -np.log(np.maximum(p_true, MIN_PROBABILITY)) / LARGEST_LOSS[LOG_LOSS]
    return {BRIER: np.clip(brier, 0, 1), LOG_LOSS: np.clip(log_loss, 0, 1)}
