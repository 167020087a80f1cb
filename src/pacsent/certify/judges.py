"""A second labeller, the judge: what its answers for a whole batch say about the batch's errors.

Where the judge disagrees with a prediction errors are frequent, elsewhere rare. A bound that knows
how many rows are of either kind is smaller, and holds for any judge: Theorem 29 of docs/theory.md.
"""

from collections import Counter
from typing import Any

from pacsent.bounds.binomial import stratified_limit, two_sided_limits, upper_limit
from pacsent.bounds.delta import divide_delta
from pacsent.certify import samples
from pacsent.certify.labels import as_labels

# Rows per label from which the bound for new texts uses the judge, and its part of delta for the
# step from the batch to new texts. With 10 to 100 rows per label it would be wider than without.
_MIN_ROWS_PER_LABEL, _NEW_FRACTION = 300, 0.2
_MANY = 50  # labelled rows in all of which a judge is hardly ever right
# p-values of a judge that disagrees with predictions more often on labelled rows than on others:
# below the first there is a warning, below the second an error. A test that refused at the first
# one would refuse one honest judge in twenty (benchmarks/judge_leaks.py).
_WARNING_LEVEL, _REFUSAL_LEVEL = 0.05, 0.001
CONDITION = "valid if no machine label was made with these labels"  # in certificates


def is_machine(labels: Any) -> bool:
    """Whether this is a model, or a function of texts, in place of labels."""
    return hasattr(labels, "predict") or callable(labels)


def machine_labels(model: Any, texts: Any, labelled_texts: Any) -> list:
    """The labels that a model gives to texts, if it was fitted on none of the labelled ones.

    This is known of classifiers of pacsent, which record what they were fitted on.
    """
    exact, near = samples.seen_before(model, labelled_texts)
    is_seen = exact | near
    if is_seen.any():
        raise ValueError(
            "judge must not have been fitted on texts whose labels are used to certify. "
            f"{int(is_seen.sum()):,} of these {is_seen.size:,} texts, or near-duplicates of them, "
            f"were (first: row {int(is_seen.argmax())}, counted from 0). Leave them out, or fit "
            "the judge on other texts."
        )
    return samples.predict_any(model, getattr(model, "classes_", None), texts).labels.tolist()


def as_judged(judge: Any, unlabelled: Any, n: int) -> list[list]:
    """The judge's labels of n labelled rows, and predictions and judge's labels of the others.

    In place of its labels a model may be given: `judge` is then (texts, model), and `unlabelled`
    (predictions, texts).
    """
    is_pair = isinstance(unlabelled, list | tuple) and len(unlabelled) == 2
    if is_pair and isinstance(judge, tuple) and len(judge) == 2 and is_machine(judge[1]):
        texts, model = judge
        judge = machine_labels(model, texts, texts)
        unlabelled = unlabelled[0], machine_labels(model, unlabelled[1], texts)
    if judge is None or not isinstance(unlabelled, list | tuple) or len(unlabelled) != 2:
        raise ValueError(
            "judge must be given together with unlabelled=(predictions, judge), those of the rows "
            "without a label: what it says about labelled rows alone changes no bound."
        )
    others = as_labels(unlabelled[0], name="unlabelled predictions")
    return [as_labels(judge, n, "judge"), others, as_labels(unlabelled[1], len(others), "judge")]


def count_judged(true: list, predicted: list, judged: list[list]) -> dict[str, Any]:
    """The fields of an `ErrorCertificate` that its bounds with a judge are computed from."""
    judge, others, judge_of_others = judged
    agreement = [a == b for a, b in zip(predicted + others, judge + judge_of_others)]
    if all(agreement):
        raise ValueError(
            "judge must be another labeller than whatever made the predictions. Got the "
            "predictions themselves instead. Give another column, or leave the judge out."
        )
    rows, n = Counter(agreement), Counter(agreement[: len(true)])
    wrong = Counter(agrees for agrees, a, b in zip(agreement, true, predicted) if a != b)
    rows_of, n_of, of_class = Counter(judge + judge_of_others), Counter(judge), Counter(true)
    both = Counter(a for a, b in zip(true, judge) if a == b)
    return {
        "judge_counts": {
            name: [rows[agrees], n[agrees], wrong[agrees]]
            for name, agrees in (("disagree", False), ("agree", True))
        },
        "judge_class_counts": {
            str(name): [rows_of[name], n_of[name], of_class[name], both[name]]
            for name in sorted({*rows_of, *of_class})
        },
    }


def disagreement_p_value(counts: dict[str, list], alternative: str) -> float:
    """Fisher's exact test that a judge disagrees as often on labelled rows as on the others.

    A judge that knows the labels disagrees there with every wrong prediction. The bound is too
    small if it overlooks wrong predictions elsewhere, and so disagrees with labelled rows more
    often than with others (`alternative` "greater").
    """
    from scipy import stats  # here, because it takes a second to import

    table = [[n, rows - n] for rows, n, _ in (counts["disagree"], counts["agree"])]
    return float(stats.fisher_exact(table, alternative=alternative).pvalue)


def check_judge(counts: dict[str, list]) -> None:
    """Refuse a judge that almost certainly saw the labels, or rows that are no random sample."""
    p = disagreement_p_value(counts, "greater")
    if p >= _REFUSAL_LEVEL:
        return
    rows, n, _ = (sum(column) for column in zip(*counts.values()))
    n_rows_apart, n_apart, _ = counts["disagree"]
    others = (n_rows_apart - n_apart) / (rows - n)
    raise ValueError(
        "judge must not have seen the labels, and the labelled rows must be drawn at random. Got "
        f"one that disagrees with {n_apart / n:.1%} of the predictions of labelled rows and with "
        f"{others:.1%} of the others (p = {p:.1g}). Give one that was made without these labels, "
        "or leave the judge out."
    )


def judge_warnings(counts: dict[str, list], classes: dict[str, list]) -> str:
    """What speaks against a random sample, or against a judge that has not seen the labels."""
    n, right = sum(n for _, n, _ in counts.values()), sum(both for *_, both in classes.values())
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
    if n == right >= _MANY:
        warnings += f" WARNING: the judge is right for all {n:,} labelled texts: NOT valid if it "
        warnings += "saw the labels."
    return warnings


def n_judge_statements(classes: dict[str, list]) -> int:
    """How many bounds and intervals `judge_bounds` states about these classes."""
    # the error of the batch, that of new texts and the judge's accuracy; and of each class
    # sensitivity, specificity and frequency
    return 3 + 3 * len(classes)


def judge_bounds(parts: dict[str, Any], delta: float) -> dict[str, Any]:
    """The bounds of an `ErrorCertificate` that has a judge; each holds by itself.

    With delta divided by `n_judge_statements` they hold together.
    """
    if not parts["judge_counts"]:
        return {"new_error_upper": None, "judge_rates": {}}
    rows, n, n_errors = zip(*(parts["judge_counts"][name] for name in ("disagree", "agree")))
    n_rows, n_labelled, n_right = sum(rows), sum(n), 0
    half, new_error_upper = divide_delta(delta, 2), upper_limit(sum(n_errors), n_labelled, delta)
    if n_rows >= _MIN_ROWS_PER_LABEL * n_labelled:
        level = divide_delta(delta, fraction=1.0 - _NEW_FRACTION)
        n_wrong = round(stratified_limit(n_errors, n, rows, level) * n_rows)
        level = divide_delta(delta, fraction=_NEW_FRACTION)
        new_error_upper = upper_limit(n_wrong, n_rows, level)
    rates: dict[str, Any] = {"sensitivity": {}, "specificity": {}, "frequency": {}}
    for name, (rows_of, n_of, of_class, both) in parts["judge_class_counts"].items():
        n_right += both
        rates["sensitivity"][name] = list(two_sided_limits(both, of_class, delta))
        neither, others = n_labelled - n_of - of_class + both, n_labelled - of_class
        rates["specificity"][name] = list(two_sided_limits(neither, others, delta))
        sizes, sampled = (rows_of, n_rows - rows_of), (n_of, n_labelled - n_of)
        upper = stratified_limit((both, of_class - both), sampled, sizes, half)
        others_upper = stratified_limit((neither, n_of - both), sampled[::-1], sizes[::-1], half)
        rates["frequency"][name] = [1.0 - others_upper, upper]
    rates["accuracy"] = list(two_sided_limits(n_right, n_labelled, delta))
    return {
        "error_upper": stratified_limit(n_errors, n, rows, delta),
        "new_error_upper": new_error_upper,
        "judge_rates": rates,
    }
