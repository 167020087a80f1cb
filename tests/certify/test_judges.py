"""Bounds with a second labeller: exact, valid for any judge, smaller with a good one."""

import dataclasses

import numpy as np
import pytest
from scipy import stats

from helpers import invoke
from pacsent.bounds import binomial
from pacsent.certify import certify_predictions, judges, read_certificate

DELTA, REPLICATES, N, SAMPLED = 0.1, 120, 2000, 80
ALLOWED = stats.binom.isf(1e-4, REPLICATES, DELTA)


def batch(rng, accuracy):
    labels = rng.random(N) < 0.4
    return labels, labels ^ (rng.random(N) < 0.2), labels ^ (rng.random(N) < 1 - accuracy)


def judged(truth, rows=slice(100)):
    labels, predicted, judge = truth
    others = np.delete(np.arange(N), rows)
    unlabelled = predicted[others], judge[others]
    return (labels[rows], predicted[rows]), {"judge": judge[rows], "unlabelled": unlabelled}


def limit(truth, rows):
    (labels, predicted), options = judged(truth, rows)
    columns = [column.tolist() for column in (options["judge"], *options["unlabelled"])]
    counts = judges.count_judged(labels.tolist(), predicted.tolist(), columns)["judge_counts"]
    sizes, n, k = zip(counts["disagree"], counts["agree"])
    return binomial.stratified_limit(k, n, sizes, DELTA)


def test_the_limit_of_two_strata_is_that_of_all_divisions_of_the_errors():
    rng, p = np.random.default_rng(0), stats.hypergeom.pmf
    for _ in range(15):
        size = rng.integers(5, 25, 2).tolist()
        n = rng.integers(1, size, endpoint=True).tolist()
        k = rng.integers(0, n, endpoint=True).tolist()
        fewest = size[0] - binomial.most_errors(n[0] - k[0], n[0], size[0], 0.05 * DELTA)
        most = binomial.most_errors(k[1], n[1], size[1], 0.05 * DELTA)
        a, b = np.indices([x + 1 for x in n])
        small = size[0] * n[1] * (a - k[0]) + size[1] * n[0] * (b - k[1]) <= 0
        possible = [
            first + second
            for first in range(fewest, size[0] - n[0] + k[0] + 1)
            for second in range(k[1], most + 1)
            if (p(a, size[0], first, n[0]) * p(b, size[1], second, n[1]))[small].sum() > 0.9 * DELTA
        ]
        assert binomial.stratified_limit(k, n, size, DELTA) == max(possible) / sum(size)
    assert binomial.stratified_limit((0, 1), (0, 9), (5, 10), 0.05) * 15 == 5 + 2


@pytest.mark.parametrize(("accuracy", "gain"), [(0.0, 1), (0.5, 1.03), (0.9, 0.9), (0.98, 0.7)])
def test_the_bound_holds_for_any_judge_and_a_good_one_makes_it_smaller(accuracy, gain):
    """The negative control is a judge that saw the labels, and else repeats most predictions."""
    rng = np.random.default_rng(3)
    labels, predicted, _ = truth = batch(rng, accuracy)
    copied = predicted ^ (rng.random(N) < 0.05)
    wrong, bounds, plain, saw = labels != predicted, [], [], []
    for _ in range(REPLICATES):
        rows = rng.permutation(N)[:SAMPLED]
        bounds.append(limit(truth, rows))
        plain.append(binomial.batch_limit(int(wrong[rows].sum()), SAMPLED, N, DELTA))
        copied[rows] = labels[rows]
        saw.append(limit((labels, predicted, copied), rows))
        copied[rows] = predicted[rows]
    excess = [np.array(values) - wrong.mean() for values in (bounds, plain, saw)]
    assert (excess[0] < 0).sum() <= ALLOWED < (excess[2] < 0).sum()
    assert excess[0].mean() < gain * excess[1].mean()


@pytest.mark.slow
def test_the_rates_and_the_bound_for_new_texts_hold_by_themselves(monkeypatch):
    monkeypatch.setattr(judges, "_REFUSAL_LEVEL", 0.0)  # one honest draw in a thousand is refused
    rng, broken = np.random.default_rng(4), np.zeros(5)
    for replicate in range(REPLICATES):  # the last half have rows enough to use the judge
        monkeypatch.setattr(judges, "_MIN_ROWS_PER_LABEL", 300 if replicate < 60 else 25)
        data, options = judged(truth := batch(rng, 0.85), slice(SAMPLED))
        found = certify_predictions(*data, **options, delta=DELTA)
        rates, values = found.judge_rates, (0.85, 0.85, 0.85, truth[0].mean())
        limits = [rates["accuracy"], *(rates[name]["True"] for name in list(rates)[:3])]
        broken[0] += found.new_error_upper < 0.2
        broken[1:] += [not low <= x <= high for (low, high), x in zip(limits, values)]
    assert broken.max() <= ALLOWED and found.error_upper < found.new_error_upper < 0.4


def test_certificates_are_kept_verified_and_refused_where_they_were_changed():
    (labels, predicted), options = judged(batch(np.random.default_rng(5), 0.9))
    found = certify_predictions(labels, predicted, **options)
    assert read_certificate(found.to_json()) == found
    judge, data = tuple(options.values()), (predicted, np.arange(100), labels)
    assert "batch_size" not in found.verify(*data, judge=judge).unchecked
    with pytest.raises(ValueError, match="judge_counts must be"):
        found.verify(*data, judge=(~judge[0], judge[1]))
    for name in ("judge_counts", "judge_class_counts", "judge_rates"):
        with pytest.raises(ValueError, match="must be"):
            dataclasses.replace(found, **{name: {}}).verify()


def test_what_ordinary_users_get_wrong():
    labels, predicted, judge = batch(np.random.default_rng(6), 0.8)

    def summary(judge, rows=slice(100)):
        data, options = judged((labels, predicted, judge), rows)
        return certify_predictions(*data, **options).summary()

    with pytest.raises(ValueError, match="Got the predictions themselves instead"):
        summary(predicted)
    with pytest.raises(ValueError, match="together with unlabelled"):
        certify_predictions([1, 0], [1, 0], judge=[1, 0])
    assert "WARNING" not in summary(judge)
    agreements = np.flatnonzero(predicted == judge)[:100]
    assert "less often than with others: they are NO random" in summary(judge, agreements)
    with pytest.raises(ValueError, match=r"disagrees with 100\.0% of the predictions of labelled"):
        summary(judge, np.flatnonzero(predicted != judge)[:100])
    copied = np.where(np.random.default_rng(0).random(N) < 0.2, ~predicted, predicted)
    assert "NOT valid if it saw" in summary(np.append(labels[:100], copied[100:]))


def test_a_table_with_a_judge_in_the_shell(tmp_path):
    path, columns = tmp_path / "t.csv", batch(np.random.default_rng(7), 0.9)
    lines = [f"{a if row < 90 else ''},{b},{c}" for row, (a, b, c) in enumerate(zip(*columns))]
    path.write_text("\n".join(["label,model,llm", *lines]))
    options = ["--prediction-column", "model", "--judge-column", "llm"]
    made = invoke("certify", path, *options, "-o", tmp_path / "c.json", "--details")
    assert "this batch of 2,000 texts" in made.stdout and "Frequency: False" in made.stdout
    assert "only rows 1 to 90 have a label, which are NO random sample unless" in made.stdout
    assert "Verified: the counts" in invoke("verify", tmp_path / "c.json", path, *options).stdout
    assert "must differ" in invoke("certify", path, *options[:3], "model").stderr
