"""Bounds with a second labeller: exact, valid for any judge, smaller with a good one."""

import dataclasses
from dataclasses import dataclass

import numpy as np
import pytest
from scipy import stats

from helpers import invoke
from pacsent.bounds import binomial
from pacsent.bounds.rounding import interval, rounded_up
from pacsent.certify import certify_predictions, judges, read_certificate

DELTA = 0.1
REPLICATES = 120
N_ROWS = 2000
N_SAMPLED = 80
MOST_VIOLATIONS = stats.binom.isf(1e-4, REPLICATES, DELTA)
FIRST_ROWS = np.arange(100)


@dataclass
class Batch:
    """Labels, predictions and the labels of a judge, and which rows have a label of a person."""

    labels: np.ndarray
    predictions: np.ndarray
    judge: np.ndarray

    def certify(self, rows=FIRST_ROWS, **options):
        others = np.delete(np.arange(N_ROWS), rows)
        return certify_predictions(
            self.labels[rows],
            self.predictions[rows],
            judge=self.judge[rows],
            unlabelled=(self.predictions[others], self.judge[others]),
            **options,
        )

    def limit(self, rows):
        """The stratified limit of the error in the batch."""
        others = np.delete(np.arange(N_ROWS), rows)
        columns = [self.judge[rows], self.predictions[others], self.judge[others]]
        counts = judges.count_judged(
            self.labels[rows].tolist(),
            self.predictions[rows].tolist(),
            [column.tolist() for column in columns],
        )
        strata = counts["judge_counts"]
        sizes, n, n_errors = zip(strata["disagree"], strata["agree"])
        return binomial.stratified_limit(n_errors, n, sizes, DELTA)


def draw_batch(rng, accuracy):
    labels = rng.random(N_ROWS) < 0.4
    predictions = labels ^ (rng.random(N_ROWS) < 0.2)
    judge = labels ^ (rng.random(N_ROWS) < 1 - accuracy)
    return Batch(labels, predictions, judge)


# ---- The limit ----


def stratified_limit_by_hand(n_errors, n, sizes):
    """The largest number of errors of all divisions among two strata that are not rejected.

    A division is possible if each stratum is within its own limit at a twentieth of delta, and if
    samples with an estimate as small as this one have a probability above nine tenths of delta.
    """
    pmf = stats.hypergeom.pmf
    fewest = sizes[0] - binomial.most_errors(n[0] - n_errors[0], n[0], sizes[0], 0.05 * DELTA)
    most = binomial.most_errors(n_errors[1], n[1], sizes[1], 0.05 * DELTA)
    first, second = np.indices([n[0] + 1, n[1] + 1])  # errors in the samples
    of_first = sizes[0] * n[1] * (first - n_errors[0])
    of_second = sizes[1] * n[0] * (second - n_errors[1])
    is_small = of_first + of_second <= 0

    possible = []
    for wrong_first in range(fewest, sizes[0] - n[0] + n_errors[0] + 1):
        of_first = pmf(first, sizes[0], wrong_first, n[0])
        for wrong_second in range(n_errors[1], most + 1):
            chances = of_first * pmf(second, sizes[1], wrong_second, n[1])
            if chances[is_small].sum() > 0.9 * DELTA:
                possible.append(wrong_first + wrong_second)
    return max(possible) / sum(sizes)


def test_the_limit_of_two_strata_is_that_of_all_divisions_of_the_errors():
    rng = np.random.default_rng(0)

    for _ in range(15):
        sizes = rng.integers(5, 25, 2).tolist()
        n = rng.integers(1, sizes, endpoint=True).tolist()
        n_errors = rng.integers(0, n, endpoint=True).tolist()
        limit = binomial.stratified_limit(n_errors, n, sizes, DELTA)
        assert limit == stratified_limit_by_hand(n_errors, n, sizes)


def test_all_rows_of_a_stratum_without_a_sample_may_be_wrong():
    limit = binomial.stratified_limit((0, 1), (0, 9), (5, 10), 0.05)

    assert limit * 15 == 5 + 2


@pytest.mark.parametrize(
    ("accuracy", "gain"),
    [
        (0.0, 1),
        pytest.param(0.5, 1.03, marks=pytest.mark.slow),
        pytest.param(0.9, 0.9, marks=pytest.mark.slow),
        (0.98, 0.7),
    ],
)
def test_the_bound_holds_for_any_judge_and_a_good_one_makes_it_smaller(accuracy, gain):
    """The negative control is a judge that saw the labels, and else repeats most predictions."""
    rng = np.random.default_rng(3)
    batch = draw_batch(rng, accuracy)
    is_copy = rng.random(N_ROWS) >= 0.05
    repeated = np.where(is_copy, batch.predictions, ~batch.predictions)
    is_wrong = batch.labels != batch.predictions
    limits = {"judge": [], "no judge": [], "saw the labels": []}

    for _ in range(REPLICATES):
        rows = rng.permutation(N_ROWS)[:N_SAMPLED]
        limits["judge"].append(batch.limit(rows))

        n_errors = int(is_wrong[rows].sum())
        limits["no judge"].append(binomial.batch_limit(n_errors, N_SAMPLED, N_ROWS, DELTA))

        repeated[rows] = batch.labels[rows]
        limits["saw the labels"].append(
            Batch(batch.labels, batch.predictions, repeated).limit(rows)
        )
        repeated[rows] = batch.predictions[rows]

    excess = {name: np.array(values) - is_wrong.mean() for name, values in limits.items()}
    assert (excess["judge"] < 0).sum() <= MOST_VIOLATIONS
    assert (excess["saw the labels"] < 0).sum() > MOST_VIOLATIONS
    assert excess["judge"].mean() < gain * excess["no judge"].mean()


@pytest.mark.slow
def test_the_rates_and_the_bound_for_new_texts_hold_by_themselves(monkeypatch):
    monkeypatch.setattr(judges, "_REFUSAL_LEVEL", 0.0)  # one honest draw in a thousand is refused
    rng = np.random.default_rng(4)
    n_false = dict.fromkeys(["error", "accuracy", "sensitivity", "specificity", "frequency"], 0)

    for replicate in range(REPLICATES):
        # The last half have rows enough to use the judge.
        min_rows = 300 if replicate < 60 else 25
        monkeypatch.setattr(judges, "_MIN_ROWS_PER_LABEL", min_rows)
        batch = draw_batch(rng, 0.85)
        certificate = batch.certify(slice(N_SAMPLED), delta=DELTA)
        n_false["error"] += certificate.new_error_upper < 0.2

        rates = certificate.judge_rates
        true_rates = {
            "accuracy": (rates["accuracy"], 0.85),
            "sensitivity": (rates["sensitivity"]["True"], 0.85),
            "specificity": (rates["specificity"]["True"], 0.85),
            "frequency": (rates["frequency"]["True"], batch.labels.mean()),
        }
        for name, ((low, high), rate) in true_rates.items():
            n_false[name] += not low <= rate <= high

    assert max(n_false.values()) <= MOST_VIOLATIONS
    assert certificate.error_upper < certificate.new_error_upper < 0.4


# ---- Numbers by hand ----


def judge_100_labels(n_rows):
    """The counts of a judge of two classes: 100 of the rows have a label, and it is right for 85.

    It calls three rows in five "a": 50 of 55 labelled ones that are "a", and 10 of 45 that are not.
    It disagrees with a tenth of the predictions, of which 6 of 10 labelled ones are wrong.
    """
    n_disagree = n_rows // 10
    n_judged_a = n_rows * 3 // 5
    return {
        "judge_counts": {"disagree": [n_disagree, 10, 6], "agree": [n_rows - n_disagree, 90, 3]},
        "judge_class_counts": {
            "a": [n_judged_a, 60, 55, 50],
            "b": [n_rows - n_judged_a, 40, 45, 35],
        },
    }


def test_the_bound_for_new_texts_does_without_the_judge_where_the_batch_is_small():
    bounds = judges.judge_bounds(judge_100_labels(n_rows=29_990), DELTA)

    assert bounds["new_error_upper"] == binomial.upper_limit(9, 100, DELTA)


def test_the_bound_for_new_texts_spends_a_fifth_of_delta_on_the_step_from_a_large_batch():
    n_rows = 30_000
    of_batch = binomial.stratified_limit((6, 3), (10, 90), (3_000, 27_000), 0.8 * DELTA)
    n_errors_of_batch = round(of_batch * n_rows)

    bounds = judges.judge_bounds(judge_100_labels(n_rows), DELTA)

    assert bounds["new_error_upper"] == pytest.approx(
        binomial.upper_limit(n_errors_of_batch, n_rows, 0.2 * DELTA), rel=1e-9
    )


def test_the_rates_of_a_judge_have_the_intervals_of_their_counts():
    rates = judges.judge_bounds(judge_100_labels(n_rows=1_000), DELTA)["judge_rates"]

    assert tuple(rates["accuracy"]) == binomial.two_sided_limits(85, 100, DELTA)
    assert tuple(rates["sensitivity"]["a"]) == binomial.two_sided_limits(50, 55, DELTA)
    assert tuple(rates["specificity"]["a"]) == binomial.two_sided_limits(35, 45, DELTA)
    assert tuple(rates["sensitivity"]["b"]) == binomial.two_sided_limits(35, 45, DELTA)
    assert tuple(rates["specificity"]["b"]) == binomial.two_sided_limits(50, 55, DELTA)


def test_the_frequency_of_a_class_is_between_stratified_limits_with_half_of_delta_each():
    """The strata are the rows that the judge calls "a", and the others."""
    most_a = binomial.stratified_limit((50, 5), (60, 40), (600, 400), DELTA / 2)
    most_others = binomial.stratified_limit((35, 10), (40, 60), (400, 600), DELTA / 2)

    rates = judges.judge_bounds(judge_100_labels(n_rows=1_000), DELTA)["judge_rates"]

    assert rates["frequency"]["a"] == [1 - most_others, most_a]


def test_the_test_of_a_judge_is_that_of_fisher():
    """A judge that disagrees with 30 of 300 rows, 15 of them among 100 labelled ones."""
    counts = {"disagree": [30, 15, 0], "agree": [270, 85, 0]}
    n_disagreeing = stats.hypergeom(300, 30, 100)  # among the labelled rows

    more_often = judges.disagreement_p_value(counts, "greater")
    less_often = judges.disagreement_p_value(counts, "less")

    assert more_often == pytest.approx(n_disagreeing.sf(14))
    assert less_often == pytest.approx(n_disagreeing.cdf(15))


def test_a_refused_judge_is_told_how_often_it_disagrees():
    counts = {"disagree": [120, 75, 0], "agree": [880, 25, 0]}

    with pytest.raises(ValueError, match=r"with 75\.0% .* of labelled rows and with 5\.0% of the"):
        judges.check_judge(counts)


# ---- Certificates ----


@pytest.fixture(scope="module")
def certified_batch():
    batch = draw_batch(np.random.default_rng(5), 0.9)
    return batch, batch.certify()


def test_a_certificate_with_a_judge_is_read_back(certified_batch):
    _, certificate = certified_batch

    assert read_certificate(certificate.to_json()) == certificate


def test_the_bound_for_new_texts_and_the_accuracy_of_the_judge_are_printed(certified_batch):
    _, certificate = certified_batch
    limit = rounded_up(certificate.new_error_upper)
    accuracy = interval(certificate.judge_rates["accuracy"])

    statements = dict(certificate.statements())

    assert f"at most {limit} are wrong if" in statements["New texts"]
    assert f"right for {accuracy} of texts" in statements["Judge"]


def verify(certificate, batch, of_labelled):
    """Verify a certificate with these labels of the judge for the labelled rows."""
    predictions = batch.predictions
    return certificate.verify(
        predictions[:100],
        np.arange(100),
        batch.labels[:100],
        judge=(of_labelled, (predictions[100:], batch.judge[100:])),
    )


def test_a_certificate_with_a_judge_is_verified(certified_batch):
    batch, certificate = certified_batch

    verified = verify(certificate, batch, batch.judge[:100])

    assert "batch_size" not in verified.unchecked


def test_other_labels_of_the_judge_are_refused(certified_batch):
    batch, certificate = certified_batch

    with pytest.raises(ValueError, match="judge_counts must be"):
        verify(certificate, batch, ~batch.judge[:100])


@pytest.mark.parametrize("name", ["judge_counts", "judge_class_counts", "judge_rates"])
def test_a_changed_certificate_is_refused(certified_batch, name):
    _, certificate = certified_batch

    with pytest.raises(ValueError, match="must be"):
        dataclasses.replace(certificate, **{name: {}}).verify()


@pytest.mark.parametrize(
    "counts",
    [
        {"disagree": [400, 20], "agree": [1600, 80]},
        {"disagree": [10, 20, 5], "agree": [1990, 80, 5]},
        {"disagree": [400, 20, 21], "agree": [1600, 80, 5]},
    ],
    ids=["without errors", "more labels than rows", "more errors than labels"],
)
def test_impossible_counts_of_a_judge_are_refused(certified_batch, counts):
    _, certificate = certified_batch

    with pytest.raises(ValueError, match="judge_counts must be possible counts of rows"):
        dataclasses.replace(certificate, judge_counts=counts).verify()


@pytest.mark.parametrize(
    "counts",
    [
        {"False": [1200, 60, 60], "True": [800, 40, 40]},
        {"False": [1200, 60, 60, 61], "True": [800, 40, 40, 40]},
        {"False": [1200, 60, 30, 31], "True": [800, 40, 70, 40]},
    ],
    ids=["without both", "more of both than judged", "more of both than of the class"],
)
def test_impossible_counts_of_a_class_are_refused(certified_batch, counts):
    _, certificate = certified_batch

    with pytest.raises(ValueError, match="judge_class_counts must be possible counts of rows"):
        dataclasses.replace(certificate, judge_class_counts=counts).verify()


def test_counts_of_a_judge_under_other_names_are_refused(certified_batch):
    _, certificate = certified_batch
    renamed = dict(zip(["yes", "no"], certificate.judge_counts.values()))

    with pytest.raises(ValueError, match="must be those of rows that agree and disagree"):
        dataclasses.replace(certificate, judge_counts=renamed).verify()


# ---- Usual mistakes ----


@pytest.fixture
def batch():
    return draw_batch(np.random.default_rng(6), 0.8)


def test_the_predictions_are_no_labels_of_a_judge(batch):
    with pytest.raises(ValueError, match="Got the predictions themselves instead"):
        Batch(batch.labels, batch.predictions, batch.predictions).certify()


def test_a_judge_needs_unlabelled_rows():
    with pytest.raises(ValueError, match="together with unlabelled"):
        certify_predictions([1, 0], [1, 0], judge=[1, 0])


def test_random_rows_are_not_warned_of(batch):
    assert "WARNING" not in batch.certify().summary()


def test_rows_on_which_the_judge_agrees_are_warned_of(batch):
    agreements = np.flatnonzero(batch.predictions == batch.judge)[:100]

    summary = batch.certify(agreements).summary()

    assert "less often than with others: they are NO random" in summary


def test_rows_on_which_the_judge_disagrees_are_refused(batch):
    disagreements = np.flatnonzero(batch.predictions != batch.judge)[:100]

    with pytest.raises(ValueError, match=r"disagrees with 100\.0% of the predictions of labelled"):
        batch.certify(disagreements)


def test_a_judge_that_may_have_seen_the_labels_is_warned_of(batch):
    is_wrong = np.random.default_rng(0).random(N_ROWS) < 0.2
    judge = np.where(is_wrong, ~batch.predictions, batch.predictions)
    judge[:100] = batch.labels[:100]

    summary = Batch(batch.labels, batch.predictions, judge).certify().summary()

    assert "NOT valid if it saw" in summary


# ---- In the shell ----

COLUMNS = ("--prediction-column", "model", "--judge-column", "llm")


@pytest.fixture
def table(tmp_path):
    """A table with labels in its first 90 rows."""
    batch = draw_batch(np.random.default_rng(7), 0.9)
    lines = ["label,model,llm"]
    for row, prediction in enumerate(batch.predictions):
        label = batch.labels[row] if row < 90 else ""
        lines.append(f"{label},{prediction},{batch.judge[row]}")
    path = tmp_path / "t.csv"
    path.write_text("\n".join(lines))
    return path


def test_a_table_with_a_judge_is_certified_in_the_shell(table, tmp_path):
    out = tmp_path / "c.json"

    done = invoke("certify", table, *COLUMNS, "-o", out, "--details")

    verified = invoke("verify", out, table, *COLUMNS)
    assert "this batch of 2,000 texts" in done.stdout
    assert "Frequency: False" in done.stdout
    assert "only rows 1 to 90 have a label, which are NO random sample unless" in done.stdout
    assert "Verified: the counts" in verified.stdout


def test_the_column_of_predictions_is_no_judge_in_the_shell(table):
    options = ("--prediction-column", "model", "--judge-column", "model")

    assert "must differ" in invoke("certify", table, *options).stderr
