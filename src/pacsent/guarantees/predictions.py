"""`certify_predictions`: how often anybody's predictions are wrong, from labels alone."""

from collections.abc import Sequence
from typing import Any

from pacsent.classify.inputs import as_classes, as_groups, as_labels, counted, few
from pacsent.classify.multilabel import known_sets, label_matrix
from pacsent.guarantees.error_certificate import ErrorCertificate, error_certificate
from pacsent.guarantees.independence import dependent_clusters
from pacsent.guarantees.multilabel_certificate import (
    MultilabelCertificate,
    multilabel_certificate,
)
from pacsent.guarantees.samples import as_samples, digests, n_samples
from pacsent.maths.checks import check_count


def certify_predictions(
    labels: Any,
    predictions: Any,
    *,
    texts: Any = None,
    groups: Sequence | None = None,
    classes: Sequence | None = None,
    recall: Any = (),
    precision: Any = (),
    batch_size: int | None = None,
    delta: float = 0.05,
    n_candidates: int = 1,
    random_state: int | None = None,
) -> ErrorCertificate | MultilabelCertificate:
    """Bound how often predictions are wrong on new texts; all bounds hold together.

    The predictions may come from any model, from a language model or from people. The texts must be
    drawn as the new ones will be, and whatever predicted them must neither have been fitted nor
    chosen on their labels.

    Parameters
    ----------
    labels, predictions : lists, arrays or columns
        The right class and the predicted class of each text; multi-label: sets of labels, or
        indicator matrices.
    texts : list of str, or rows of an array or a table, optional
        Finds duplicates and near-duplicates, which are no independent examples. Without it they are
        not looked for.
    groups : list, optional
        The author, the book, the day of each text. The guarantee is then for new groups, each of
        which counts as one example; with fewer than 8 groups it is not, and says so.
    classes : list, optional
        All classes; those among the labels, in order, if omitted. Needed for sets of labels.
    recall, precision : list of classes, or "all"
        Bound the error rate among the texts of these classes (1 - recall; with all classes also the
        mean of them, the balanced error), and among the texts predicted to be of these
        (1 - precision). A multi-label certificate has a bound for every label.
    batch_size : int, optional
        Number of texts of a batch from which these were drawn at random without replacement. The
        bound is then on the error rate of the batch, by the hypergeometric distribution: smaller
        than that for new texts. Repeated texts count as often as they occur.
    delta : float, default=0.05
        Probability that some bound of the certificate is false.
    n_candidates : int, default=1
        How many models, prompts or settings were compared on these labels before this one was kept.
    random_state : int or None
        Seed of which repeated texts are counted and of the order of losses. None draws one; it is
        recorded.

    Returns
    -------
    certificate : ErrorCertificate, or MultilabelCertificate

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
    >>> round(certify_predictions(labels, answers, batch_size=400).bound, 4)
    0.0425
    """
    labels = counted(labels)
    n = n_samples(labels)
    if not n:
        raise ValueError("labels must hold at least one label. Got none instead.")
    if batch_size is not None:
        check_count("batch_size", batch_size, least=n)
        if groups is not None or len(recall) or len(precision):
            raise ValueError("batch_size must be None with groups, recall or precision.")
    options: dict[str, Any] = {
        "group_of": as_groups(groups, n),
        "delta": delta,
        "n_candidates": n_candidates,
        "seed": random_state,
    }
    unknown = ", and duplicates were not looked for: texts are not given"
    if texts is not None:
        texts, unknown = as_samples(texts), ""
        clusters = dependent_clusters(texts, n_rows=n)
        options["clusters"] = clusters if batch_size is None else None
    provenance = f"given; whether whatever predicted them was fitted on them is not known{unknown}"
    fields: dict[str, Any] = {"provenance": provenance}
    matrix = label_matrix(labels, n)
    if matrix is not None:
        if batch_size is not None or len(recall) or len(precision):
            raise ValueError("batch_size, recall and precision are for one class a text.")
        if classes is None and not matrix.are_sets:
            classes = matrix.names
        width = matrix.has.shape[1] if classes is None else len(classes)
        has, assigned = (known_sets(classes, sets, n, width) for sets in (labels, predictions))
        names = list(range(width)) if classes is None else list(classes)
        fields["digests"] = digests(None, texts, has, assigned)
        return multilabel_certificate(has, assigned, names, fields=fields, **options)
    true, predicted = as_labels(labels), as_labels(predictions, n, name="predictions")
    names = sorted(set(true)) if classes is None else as_labels(classes, name="classes")
    if len(set(names)) != len(names) or not names:
        raise ValueError(f"classes must be all different, at least one. Got {few(names)} instead.")
    names = as_classes(names).tolist()
    chosen: dict[str, Any] = {}
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
    fields |= {"digests": digests(None, texts, true, predicted), "batch_size": batch_size}
    return error_certificate(true, predicted, **chosen, fields=fields, **options)
