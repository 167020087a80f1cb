"""A second labeller, the judge: bounds on a batch's errors from its answers for all of its rows.

Where the judge disagrees with a prediction errors are frequent, elsewhere rare. A bound that knows
how many rows are of either kind is smaller, and holds for any judge: Theorem 29 of docs/theory.md.
"""

from collections import Counter
from typing import Any

from pacsent.bounds.binomial import stratified_limit, two_sided_limits, upper_limit
from pacsent.bounds.delta import divide_delta
from pacsent.certify import samples
from pacsent.certify.labels import as_labels

# Rows per label from which the bound for new texts uses the judge. With 10 to 100 rows per label
# it would be wider than without.
_MIN_ROWS_PER_LABEL = 300
# Fraction of delta that the step from the batch to new texts has in this bound.
_NEW_FRACTION = 0.2
# Number of labelled rows for all of which a judge is hardly ever right: then there is a warning.
_MIN_PERFECT_ROWS = 50
# p-values of a judge that disagrees with predictions more often on labelled rows than on others:
# below the first there is a warning, below the second an error. A test that refused at the first
# one would refuse one honest judge in twenty (benchmarks/judge_leaks.py).
_WARNING_LEVEL = 0.05
_REFUSAL_LEVEL = 0.001
# The condition that certificates state.
CONDITION = "valid if no machine label was made with these labels"


def is_machine(labels: Any) -> bool:
    """Test for a model, or a function of texts, in place of labels."""
    return hasattr(labels, "predict") or callable(labels)


def machine_labels(model: Any, texts: Any, labelled_texts: Any) -> list:
    """The labels that a model gives to texts, if it was fitted on none of the labelled ones.

    This is known of classifiers of pacsent, which record what they were fitted on.

    Parameters
    ----------
    model : classifier, or function of texts
    texts : list of str
        The texts to label.
    labelled_texts : list of str
        The texts whose labels are used to certify; a ValueError if the model was fitted on them.

    Returns
    -------
    list
    """
    is_equal, is_near = samples.seen_before(model, labelled_texts)
    is_seen = is_equal | is_near
    if is_seen.any():
        first_row = int(is_seen.argmax())
        raise ValueError(
            "judge must not have been fitted on texts whose labels are used to certify. "
            f"{int(is_seen.sum()):,} of these {is_seen.size:,} texts, or near-duplicates of them, "
            f"were (first: row {first_row}, counted from 0). Leave them out, or fit "
            "the judge on other texts."
        )

    classes = getattr(model, "classes_", None)
    return samples.predict_any(model, classes, texts).labels.tolist()


def as_judged(judge: Any, unlabelled: Any, n: int) -> list[list]:
    """The judge's labels of n labelled rows, and predictions and judge's labels of the others.

    In place of its labels a model may be given: `judge` is then (texts, model), and `unlabelled`
    (predictions, texts).

    Parameters
    ----------
    judge : n labels, or (texts, model)
    unlabelled : (predictions, judge's labels), or (predictions, texts)
        Of the rows without a label.
    n : int
        Number of labelled rows.

    Returns
    -------
    list
        The judge's labels of the labelled rows; the predictions of the others; the judge's labels
        of the others.
    """
    is_pair = isinstance(unlabelled, list | tuple) and len(unlabelled) == 2
    has_model = isinstance(judge, tuple) and len(judge) == 2 and is_machine(judge[1])
    if judge is None or not is_pair:
        raise ValueError(
            "judge must be given together with unlabelled=(predictions, judge), those of the rows "
            "without a label: what it says about labelled rows alone changes no bound."
        )

    predictions_of_others, judge_of_others = unlabelled
    if has_model:
        labelled_texts, model = judge
        judge = machine_labels(model, labelled_texts, labelled_texts)
        judge_of_others = machine_labels(model, judge_of_others, labelled_texts)

    other_predictions = as_labels(predictions_of_others, name="unlabelled predictions")
    labelled_judge = as_labels(judge, n, "judge")
    other_judge = as_labels(judge_of_others, len(other_predictions), "judge")
    return [labelled_judge, other_predictions, other_judge]


def count_judged(true: list, predicted: list, judged: list[list]) -> dict[str, Any]:
    """The fields of an `ErrorCertificate` that its bounds with a judge are computed from.

    Parameters
    ----------
    true, predicted : list
        Labels and predictions of the labelled rows.
    judged : list
        Of `as_judged`.

    Returns
    -------
    dict
        `judge_counts` and `judge_class_counts`.
    """
    labelled_judge, other_predictions, other_judge = judged
    all_judge = labelled_judge + other_judge
    all_predictions = predicted + other_predictions
    agreement = [answer == label for answer, label in zip(all_predictions, all_judge)]
    if all(agreement):
        raise ValueError(
            "judge must be another labeller than whatever made the predictions. Got the "
            "predictions themselves instead. Give another column, or leave the judge out."
        )

    # Labelled rows come first: zip ends with them.
    n_rows = Counter(agreement)
    n_labelled = Counter(agreement[: len(true)])
    is_wrong = [label != answer for label, answer in zip(true, predicted)]
    n_errors = Counter(agrees for agrees, wrong in zip(agreement, is_wrong) if wrong)
    judge_counts = {}
    for name, agrees in (("disagree", False), ("agree", True)):
        judge_counts[name] = [n_rows[agrees], n_labelled[agrees], n_errors[agrees]]

    rows_judged = Counter(all_judge)
    labelled_judged = Counter(labelled_judge)
    labelled_of_class = Counter(true)
    both = Counter(label for label, judged_as in zip(true, labelled_judge) if label == judged_as)
    judge_class_counts = {}
    for name in sorted({*rows_judged, *labelled_of_class}):
        judge_class_counts[str(name)] = [
            rows_judged[name],
            labelled_judged[name],
            labelled_of_class[name],
            both[name],
        ]
    return {"judge_counts": judge_counts, "judge_class_counts": judge_class_counts}


def disagreement_p_value(counts: dict[str, list], alternative: str) -> float:
    """Fisher's exact test that a judge disagrees as often on labelled rows as on the others.

    A judge that knows the labels disagrees there with every wrong prediction. The bound is too
    small if it overlooks wrong predictions elsewhere, and so disagrees with labelled rows more
    often than with others (`alternative` "greater").

    Parameters
    ----------
    counts : dict
        `judge_counts` of an `ErrorCertificate`.
    alternative : {"greater", "less"}

    Returns
    -------
    float
    """
    from scipy import stats  # here, because it takes a second to import

    # Rows of the table are disagreement and agreement, columns labelled and unlabelled rows.
    table = []
    for kind in ("disagree", "agree"):
        n_rows, n_labelled, _ = counts[kind]
        table.append([n_labelled, n_rows - n_labelled])
    return float(stats.fisher_exact(table, alternative=alternative).pvalue)


def check_judge(counts: dict[str, list]) -> None:
    """Refuse a judge that almost certainly saw the labels, or rows that are no random sample."""
    p = disagreement_p_value(counts, "greater")
    if p >= _REFUSAL_LEVEL:
        return

    rows_apart, labelled_apart, _ = counts["disagree"]
    rows_agreeing, labelled_agreeing, _ = counts["agree"]
    n_labelled = labelled_apart + labelled_agreeing
    n_others = rows_apart + rows_agreeing - n_labelled
    labelled_fraction = labelled_apart / n_labelled
    others_fraction = (rows_apart - labelled_apart) / n_others
    raise ValueError(
        "judge must not have seen the labels, and the labelled rows must be drawn at random. Got "
        f"one that disagrees with {labelled_fraction:.1%} of the predictions of labelled rows and "
        f"with {others_fraction:.1%} of the others (p = {p:.1g}). Give one that was made without "
        "these labels, or leave the judge out."
    )


def judge_warnings(counts: dict[str, list], classes: dict[str, list]) -> str:
    """Signs against a random sample, or against a judge that has not seen the labels.

    Parameters
    ----------
    counts, classes : dict
        `judge_counts` and `judge_class_counts` of an `ErrorCertificate`.

    Returns
    -------
    str
        Sentences that begin with a space; empty if there is no sign.
    """
    warnings = ""
    p = disagreement_p_value(counts, "greater")
    if p < _WARNING_LEVEL:
        warnings = (
            " WARNING: the judge disagrees with the predictions of labelled texts more often than "
            f"with others (p = {p:.2g}): it may have seen the labels, or the labelled texts are NO "
            "random sample. One honest judge in twenty is warned of."
        )
    elif disagreement_p_value(counts, "less") < _REFUSAL_LEVEL:
        warnings = (
            " WARNING: the judge disagrees with the predictions of labelled texts less often than "
            "with others: they are NO random sample, or it saw the labels."
        )

    n_labelled = sum(n for _, n, _ in counts.values())
    n_right = sum(both for *_, both in classes.values())
    if n_labelled == n_right >= _MIN_PERFECT_ROWS:
        warnings += (
            f" WARNING: the judge is right for all {n_labelled:,} labelled texts: NOT valid if it "
            "saw the labels."
        )
    return warnings


def n_judge_statements(classes: dict[str, list]) -> int:
    """Number of bounds and intervals that `judge_bounds` states about these classes."""
    # the error of the batch, that of new texts and the judge's accuracy; and of each class
    # sensitivity, specificity and frequency
    return 3 + 3 * len(classes)


def judge_bounds(parts: dict[str, Any], delta: float) -> dict[str, Any]:
    """The bounds of an `ErrorCertificate` that has a judge; each holds by itself.

    With delta divided by `n_judge_statements` they hold together.

    Parameters
    ----------
    parts : dict
        `judge_counts` and `judge_class_counts`.
    delta : float
        Probability with which each of the bounds may be false.

    Returns
    -------
    dict
        `new_error_upper` and `judge_rates`; with a judge also `error_upper`.

    References
    ----------
    Theorem 29 of docs/theory.md.
    """
    if not parts["judge_counts"]:
        return {"new_error_upper": None, "judge_rates": {}}

    # Each is a pair: where the judge disagrees, and where it agrees.
    strata = [parts["judge_counts"][kind] for kind in ("disagree", "agree")]
    n_rows, n_labelled, n_errors = zip(*strata)
    return {
        "error_upper": stratified_limit(n_errors, n_labelled, n_rows, delta),
        "new_error_upper": _new_error_limit(n_errors, n_labelled, n_rows, delta),
        "judge_rates": _judge_rates(
            parts["judge_class_counts"], sum(n_rows), sum(n_labelled), delta
        ),
    }


def _new_error_limit(
    n_errors: tuple[int, int], n_labelled: tuple[int, int], n_rows: tuple[int, int], delta: float
) -> float:
    """Limit of the error rate of new texts: by way of the batch where this is large enough."""
    size = sum(n_rows)
    sample_size = sum(n_labelled)
    if size < _MIN_ROWS_PER_LABEL * sample_size:
        return upper_limit(sum(n_errors), sample_size, delta)

    # The labelled rows bound the errors of the batch, and these bound the errors of new texts.
    batch_delta = divide_delta(delta, fraction=1.0 - _NEW_FRACTION)
    batch_error = stratified_limit(n_errors, n_labelled, n_rows, batch_delta)
    n_batch_errors = round(batch_error * size)
    new_delta = divide_delta(delta, fraction=_NEW_FRACTION)
    return upper_limit(n_batch_errors, size, new_delta)


def _judge_rates(
    class_counts: dict[str, list[int]], n_rows: int, n_labelled: int, delta: float
) -> dict[str, Any]:
    """Intervals of the judge's rates and of the classes' frequency, each at delta."""
    half_delta = divide_delta(delta, 2)
    sensitivity = {}
    specificity = {}
    frequency = {}
    for name, (rows_judged, labelled_judged, labelled_of_class, both) in class_counts.items():
        sensitivity[name] = list(two_sided_limits(both, labelled_of_class, delta))
        missed = labelled_of_class - both
        wrongly_judged = labelled_judged - both
        neither = n_labelled - labelled_judged - missed
        not_of_class = n_labelled - labelled_of_class
        specificity[name] = list(two_sided_limits(neither, not_of_class, delta))

        # The strata are the rows that the judge gives this class, and all others: the class is
        # `both` of the first and `missed` of the second, and its complement the remaining ones.
        sizes = (rows_judged, n_rows - rows_judged)
        sampled = (labelled_judged, n_labelled - labelled_judged)
        upper = stratified_limit((both, missed), sampled, sizes, half_delta)
        complement_upper = stratified_limit(
            (neither, wrongly_judged), sampled[::-1], sizes[::-1], half_delta
        )
        frequency[name] = [1.0 - complement_upper, upper]

    n_right = sum(both for *_, both in class_counts.values())
    return {
        "sensitivity": sensitivity,
        "specificity": specificity,
        "frequency": frequency,
        "accuracy": list(two_sided_limits(n_right, n_labelled, delta)),
    }
