"""certify_predictions: bounds for anybody's predictions, alone and together, texts and groups."""

import dataclasses
import json
import re
import time

import numpy as np
import polars as pl
import pytest
from scipy import stats
from scipy.sparse import csr_matrix

from helpers import invoke
from pacsent import CertifiedClassifier, TextClassifier
from pacsent.bounds import binomial
from pacsent.bounds.pac_bayes import kl_inverse
from pacsent.bounds.rounding import rounded_down, rounded_up
from pacsent.certify import ErrorCertificate, certify, certify_predictions, read_certificate
from pacsent.certify.error_certificate import joint_bounds

DELTA = 0.1
REPLICATES = 250
CLASSES = ["no", "so", "yes"]
ERRORS = np.array([0.3, 0.1, 0.2])  # chance of a wrong prediction, by class
FREQUENCIES = np.array([0.2, 0.3, 0.5])


def most_violations(replicates=REPLICATES, delta=DELTA):
    """Violations that a true guarantee exceeds with a chance of 1e-4."""
    return stats.binom.ppf(1 - 1e-4, replicates, delta)


def draw_predictions(rng, n):
    """Labels, and predictions that err with the chances ERRORS, always to the next class."""
    labels = rng.choice(3, n, p=FREQUENCIES)
    is_wrong = rng.random(n) < np.take(ERRORS, labels)
    return labels, (labels + is_wrong) % 3


def name_classes(ids):
    return [CLASSES[i] for i in ids]


def predict_yes_or_no(is_wrong):
    """Predictions for texts whose label is "yes"."""
    return ["no" if wrong else "yes" for wrong in is_wrong]


# ---- Numbers by hand ----

LABELS = ["yes"] * 60 + ["no"] * 40
PREDICTIONS = ["yes"] * 55 + ["no"] * 5 + ["no"] * 38 + ["yes"] * 2


@pytest.fixture(scope="module")
def with_classes():
    """A certificate of 7 wrong predictions of 100, with the recall of all classes as well."""
    return certify_predictions(LABELS, PREDICTIONS, recall="all", precision=["yes"], delta=0.06)


def test_errors_are_counted_overall_by_class_and_by_prediction(with_classes):
    assert (with_classes.n, with_classes.n_errors, with_classes.error) == (100, 7, 0.07)
    assert with_classes.class_counts == {"no": [40, 2], "yes": [60, 5]}
    assert with_classes.prediction_counts == {"yes": [57, 2]}


def test_half_of_delta_is_for_the_error_and_the_rest_divided_among_classes(with_classes):
    of_classes = with_classes.class_error_upper

    assert with_classes.error_upper == binomial.upper_limit(7, 100, 0.03)
    assert of_classes["no"] == binomial.upper_limit(2, 40, 0.01)
    assert with_classes.prediction_error_upper["yes"] == binomial.upper_limit(2, 57, 0.01)
    assert with_classes.balanced_error_upper == pytest.approx(sum(of_classes.values()) / 2)


def test_the_error_alone_has_all_of_delta():
    certificate = certify_predictions(LABELS, PREDICTIONS, delta=0.06)

    sentence = "(7 of 100 given texts were wrong: 0.0700; always answering yes: 0.4000)"
    assert certificate.error_upper == binomial.upper_limit(7, 100, 0.06)
    assert sentence in str(certificate)


def test_the_mean_over_classes_needs_the_recall_of_all():
    certificate = certify_predictions(LABELS, PREDICTIONS, recall=["no"])

    assert certificate.balanced_error_upper is None


def test_one_of_five_candidates_has_a_fifth_of_delta():
    certificate = certify_predictions(LABELS, PREDICTIONS, n_candidates=5)

    assert certificate.error_upper == binomial.upper_limit(7, 100, 0.01)


def test_a_single_row_is_certified():
    right = certify_predictions(["a"], ["a"])
    wrong = certify_predictions(["a"], ["b"], classes=["a", "b"])

    assert right.error_upper == pytest.approx(0.95)
    assert wrong.error_upper == 1.0


def test_the_most_frequent_class_is_the_guess_to_compare_with():
    assert certify_predictions(["y", "n"] * 20, ["y"] * 40).guess_counts == {"n": [40, 20]}


# ---- Changed certificates ----


@pytest.fixture(scope="module")
def of_drawn_predictions():
    """A certificate of 200 drawn predictions, with recall and precision."""
    labels, predictions = draw_predictions(np.random.default_rng(2), 200)
    return certify_predictions(
        name_classes(labels),
        name_classes(predictions),
        recall="all",
        precision=["yes"],
        random_state=0,
    )


@pytest.mark.parametrize(
    "changes",
    [
        {"class_counts": {"yes": [100, 1, 2]}},
        {"class_counts": {"yes": [1, 2]}},
        {"class_counts": []},
        {"balanced_error_upper": None},
        {"class_error_upper": None},
        {"prediction_error_upper": None},
        {"provenance": 3},
        {"prediction_counts": {"yes": [90, 1]}},
        {"prediction_error_upper": {"yes": 0.01}},
        # The others would have had more of delta.
        {"prediction_counts": {}, "prediction_error_upper": {}},
        {"scope": "everything"},
        {"scope": "groups"},
        {"guess_counts": {"yes": [300, 2]}},
        {"guess_counts": {"yes": [0, 0]}},
        {"batch_size": 100},
        {"batch_size": 10**12},
        {"batch_size": 10**30},
        {"corrections": {"x": 10**400}},
        {"digests": {"labels": 3}},
    ],
    ids=str,
)
def test_changed_numbers_are_refused(of_drawn_predictions, changes):
    with pytest.raises(ValueError, match="must be"):
        dataclasses.replace(of_drawn_predictions, **changes).verify()


def test_larger_counts_with_the_bounds_that_follow_from_them_are_refused(of_drawn_predictions):
    class_counts = {name: [1000, 0] for name in of_drawn_predictions.class_counts}
    fields = {**vars(of_drawn_predictions), "class_counts": class_counts}
    bounds = joint_bounds(fields, 0.05)

    with pytest.raises(ValueError, match="must be"):
        dataclasses.replace(of_drawn_predictions, class_counts=class_counts, **bounds).verify()


# ---- Bad input ----

THREE = ["a", "b", "a"], ["a", "b", "b"]
SETS = [["a"], ["a", "b"]], [["a"], ["b"]]


@pytest.mark.parametrize(
    ("data", "options", "message"),
    [
        (([], []), {}, "labels must have at least one label"),
        ((["a", "b"], ["a"]), {}, "predictions must be one for each of the 2 texts. Got 1"),
        ((["a", None], ["a", "a"]), {}, "labels must all be known. Got 1 missing"),
        ((["a", "b"], ["a", float("nan")]), {}, "predictions must all be known. Got 1 missing"),
        ((["a", "b"], ["a", "c"]), {}, "must be among the classes .a, b.. Got 'c' in y.1."),
        ((["1", "0"], [1, 0]), {}, "predictions must be among the classes"),
        (("ab", ["a", "b"]), {}, "labels must be a list"),
        ((pl.LazyFrame({"y": ["a"]}), ["a"]), {}, "Got a LazyFrame instead. Collect it first"),
        (THREE, {"unlabelled": -1}, "unlabelled must be an integer of at least 0"),
        (THREE, {"unlabelled": 9, "recall": "all"}, "unlabelled must be None with"),
        (THREE, {"unlabelled": 9, "recall": ["a"]}, "unlabelled must be None with"),
        (THREE, {"unlabelled": 9, "precision": ["b"]}, "unlabelled must be None with"),
        (THREE, {"unlabelled": 9, "repeats": "traffic"}, "unlabelled must be None with"),
        (THREE, {"repeats": "copies"}, "repeats='copies' needs texts"),
        (SETS, {"unlabelled": 9}, "unlabelled, recall and precision are for one class"),
        (SETS, {"recall": ["a"]}, "unlabelled, recall and precision are for one class"),
        (THREE, {"classes": ["a"]}, "labels must be among the classes .a.. Got 'b'"),
        (THREE, {"classes": ["a", "a", "b"]}, "classes must be all different"),
        (THREE, {"recall": ["c"]}, "recall must be among the classes"),
        (THREE, {"groups": [1, 2]}, "groups must be one for each of the 3 texts"),
        (THREE, {"texts": ["one", "two"]}, "texts must be one for each of the 3 labels. Got 2"),
        (
            THREE,
            {"texts": [b"one", b"two", b"three"]},
            "texts must have one str per text. Got bytes",
        ),
        (THREE, {"texts": [["one"], ["two"], ["three"]]}, "Join tokens"),
        (THREE, {"texts": [None] * 3}, "Got None .a missing value. in row 0"),
        (THREE, {"delta": 0}, "delta must be strictly between 0 and 1"),
        (THREE, {"random_state": -1}, "random_state must be"),
    ],
)
def test_what_cannot_be_certified_is_refused(data, options, message):
    with pytest.raises((ValueError, TypeError), match=message):
        certify_predictions(*data, **options)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda label: label.encode(), r"Got bytes .* \[y\.decode\(\) for y in predictions\]"),
        (lambda label: None, "predictions must all be known. Got 40 missing ones"),
        (lambda label: float("nan"), "predictions must all be known"),
        (float, r"must be of the type of the classes \(str: 1, 2\). Got 1.0 \(float\)"),
        (int, r"must be spelled as the classes. Got . \(int\) for '.' \(str\)"),
    ],
)
def test_predictions_of_another_type_than_the_classes_are_not_counted_as_errors(change, message):
    texts = [f"row {row} w{row * row}" for row in range(40)]
    labels = ["1", "2"] * 20

    def model(X):
        return [change(label) for label in labels[: len(X)]]

    with pytest.raises(ValueError, match=message):
        certify(model, texts, labels)


def test_labels_may_be_a_sparse_column():
    labels = np.array([1, 2] * 20)
    column = csr_matrix(labels[:, None])

    assert certify_predictions(column, labels).n_errors == 0


def test_thresholds_of_no_class_are_refused():
    words = ["bad", "good"] * 50
    texts = [f"row {row} w{row * row} {word}" for row, word in enumerate(words)]
    classifier = CertifiedClassifier(TextClassifier(None), random_state=0)
    classifier.fit(texts, ["a", "b"] * 50)

    with pytest.raises(ValueError, match="classes must have at least one class"):
        classifier.tune_thresholds(precision=0.8, classes=[])


# ---- Near-duplicates ----


class Copied:
    """Eighty texts, each with a near-copy of it, and their labels and predictions."""

    def __init__(self):
        rng = np.random.default_rng(3)
        rows_of_words = [rng.integers(0, 5000, 12) for _ in range(80)]
        self.texts = [" ".join(f"w{word}" for word in row) for row in rows_of_words]
        copies = [text.replace(text.split()[3], "other", 1) for text in self.texts]
        self.all_texts = self.texts + copies

        labels, predictions = draw_predictions(rng, 80)
        self.labels = name_classes(labels)
        self.predictions = name_classes(predictions)

    def certify_all(self, **options):
        return certify_predictions(self.labels * 2, self.predictions * 2, **options)


@pytest.fixture(scope="module")
def copied():
    return Copied()


@pytest.mark.parametrize("is_column", [False, True])
def test_near_duplicates_do_not_make_a_bound_smaller(copied, is_column):
    once = certify_predictions(copied.labels, copied.predictions, texts=copied.texts)

    texts = np.array(copied.all_texts)[:, None] if is_column else copied.all_texts
    twice = copied.certify_all(texts=texts, repeats="copies")

    assert (once.n, twice.n, twice.n_duplicates) == (80, 80, 80)
    assert twice.error_upper == once.error_upper
    assert "80 near-duplicates not counted" in str(twice)


def test_near_copies_of_rows_of_several_columns_are_not_looked_for(copied):
    columns = np.array([copied.all_texts, copied.all_texts]).T

    certificate = copied.certify_all(texts=columns)

    assert certificate.n == 160
    assert "Near-copies of rows were not looked for" in certificate.summary()


def test_a_certificate_without_texts_says_that_duplicates_were_not_searched(copied):
    once = certify_predictions(copied.labels, copied.predictions, texts=copied.texts)

    without_texts = copied.certify_all()

    assert without_texts.error_upper < once.error_upper
    assert "duplicates were not searched" in str(without_texts)


def test_one_of_the_texts_that_repeat_each_other_is_counted_drawn_by_the_seed():
    """Wrong clusters of three texts, of which one in three is wrong: an error of 1/3, not of 1."""
    texts = [f"w{i} x{i} y{i} z{i} v{i} u{i} number{k}" for i in range(150) for k in range(3)]
    labels = ["yes"] * 450
    predictions = ["no", "yes", "yes"] * 150

    certificates = [
        certify_predictions(
            labels,
            predictions,
            texts=texts,
            classes=["no", "yes"],
            repeats="copies",
            random_state=seed,
        )
        for seed in range(20)
    ]
    errors = [certificate.n_errors for certificate in certificates]

    assert abs(np.mean(errors) / 150 - 1 / 3) < 0.05
    assert len(set(errors)) > 5
    assert certificates[3].n == 150
    assert "new distinct texts" in str(certificates[3])
    assert certificates[3].verify(predictions, texts, labels)


# ---- Groups ----


def draw_groups(rng, n_groups, n_rows=10):
    """Errors of rows in groups whose error rates differ: the mean over groups is 0.2."""
    rates = rng.beta(0.5, 2.0, n_groups)
    is_wrong = rng.random((n_groups, n_rows)) < rates[:, None]
    return is_wrong.ravel(), np.repeat(np.arange(n_groups), n_rows)


def certify_yes(is_wrong, **options):
    """Certify predictions of rows with the label "yes"."""
    predictions = predict_yes_or_no(is_wrong)
    labels = ["yes"] * len(predictions)
    return certify_predictions(labels, predictions, classes=["no", "yes"], **options)


def test_bounds_for_new_groups_hold_and_those_of_texts_do_not():
    rng = np.random.default_rng(5)
    n_false_of_groups = 0
    n_false_of_texts = 0

    for _ in range(REPLICATES):
        is_wrong, groups = draw_groups(rng, 25)
        of_groups = certify_yes(is_wrong, groups=groups, delta=DELTA, random_state=0)
        of_texts = certify_yes(is_wrong, delta=DELTA, random_state=0)
        n_false_of_groups += of_groups.error_upper < 0.2
        n_false_of_texts += of_texts.error_upper < 0.2

    assert n_false_of_groups <= most_violations()
    # The negative control: texts of a group are not independent.
    assert n_false_of_texts > most_violations()


def test_a_certificate_for_new_groups_counts_one_row_of_each_and_is_read_back():
    is_wrong, groups = draw_groups(np.random.default_rng(5), 25)

    certificate = certify_yes(is_wrong, groups=groups, random_state=0)

    assert (certificate.scope, certificate.n) == ("groups", 25)
    assert read_certificate(certificate.to_json()) == certificate
    assert certificate.verify()
    assert "certified</td>" in certificate._repr_html_()


def test_few_groups_are_no_guarantee_for_new_ones():
    is_wrong, groups = draw_groups(np.random.default_rng(6), 7)

    certificate = certify_yes(is_wrong, groups=groups)

    assert certificate.scope == "same groups"
    assert "This is NOT a guarantee for new groups" in str(certificate).splitlines()[0]
    assert "of the same 7 groups" in certificate.summary()


def test_fourteen_groups_are_enough_for_a_guarantee_for_new_ones():
    is_wrong, _ = draw_groups(np.random.default_rng(6), 7)

    certificate = certify_yes(is_wrong, groups=np.arange(70) // 5)

    assert "texts of new groups" in certificate.summary()
    assert certificate.n == 14


# ---- Bounds by class ----


def read_printed_rows(certificate):
    """The cells of each printed line: columns of tables are two spaces apart."""
    return [re.split(r"\s{2,}", line.strip()) for line in str(certificate).splitlines()]


def test_the_mean_over_classes_is_over_those_that_occur():
    labels = ["a", "b"] * 40

    certificate = certify_predictions(labels, labels, classes=["a", "b", "c"], recall="all")

    of_a, of_b, of_c = certificate.class_error_upper.values()
    assert of_c == 1
    assert certificate.balanced_error_upper == (of_a + of_b) / 2 < 0.12
    printed = read_printed_rows(certificate)
    assert ["c", "-", "0", "0"] in printed
    assert ["mean over classes with texts", rounded_up(of_a)] in printed


def test_the_error_of_a_class_is_printed_rounded_up(with_classes):
    limit = rounded_up(binomial.upper_limit(2, 40, 0.01))

    phrases = dict(with_classes.statements())["Classes"]

    assert ["no", limit, "2", "40"] in read_printed_rows(with_classes)
    assert f"no at most {limit} (2 of 40);" in phrases


def test_the_precision_of_a_prediction_is_printed_rounded_down(with_classes):
    precision = rounded_down(1 - binomial.upper_limit(2, 57, 0.01))

    phrases = dict(with_classes.statements())["Precision"]

    assert ["yes", precision, "55", "57"] in read_printed_rows(with_classes)
    assert phrases == f"yes is right for at least {precision} (55 of 57)."


def test_many_classes_take_no_time():
    numbers = np.arange(20_000) % 10_000
    start = time.process_time()

    certificate = certify_predictions(numbers, numbers, recall="all")

    assert len(certificate.class_counts) == 10_000
    # A pass over the rows for each class took a minute.
    assert time.process_time() - start < 10


def test_all_bounds_hold_together_and_would_not_at_delta_each():
    rng = np.random.default_rng(7)
    right = FREQUENCIES * (1 - ERRORS)
    wrongly_predicted = np.roll(FREQUENCIES * ERRORS, 1)  # frequency, by predicted class
    errors_of_predictions = wrongly_predicted / (right + wrongly_predicted)
    by_class = [*ERRORS, *errors_of_predictions]
    everything = [*by_class, (FREQUENCIES * ERRORS).sum(), ERRORS.mean()]
    n_false_together = 0
    n_false_each = 0

    for _ in range(REPLICATES):
        labels, predictions = draw_predictions(rng, 120)
        certificate = certify_predictions(
            labels, predictions, recall="all", precision="all", delta=DELTA, classes=[0, 1, 2]
        )
        bounds = [
            *certificate.class_error_upper.values(),
            *certificate.prediction_error_upper.values(),
            certificate.error_upper,
            certificate.balanced_error_upper,
        ]
        n_false_together += np.less(bounds, everything).any()

        counts = [*certificate.class_counts.values(), *certificate.prediction_counts.values()]
        limits = [binomial.upper_limit(n_errors, n, DELTA) for n, n_errors in counts]
        n_false_each += np.less(limits, by_class).any()

    assert n_false_together <= most_violations()
    # The negative control: delta for each of them.
    assert n_false_each > most_violations()


# ---- The bound of a batch ----


@pytest.mark.parametrize(
    ("n_errors", "n", "batch_size"), [(0, 10, 30), (3, 20, 40), (20, 20, 25), (7, 50, 50)]
)
def test_the_bound_of_a_batch_is_that_of_enumeration(n_errors, n, batch_size):
    numbers = np.arange(n_errors, batch_size - n + n_errors + 1)  # of wrong texts in the batch
    is_possible = stats.hypergeom.cdf(n_errors, batch_size, numbers, n) > DELTA

    limit = binomial.batch_limit(n_errors, n, batch_size, DELTA)

    assert limit == numbers[is_possible].max() / batch_size


def test_the_bound_of_a_batch_is_smaller_than_that_of_new_texts_and_holds():
    """Draws from one batch; if the 400 texts are taken for 120, the bound fails."""
    rng = np.random.default_rng(11)
    is_wrong_in_batch = rng.permutation(400) < 80
    n_false = 0
    n_false_of_small_batch = 0

    for _ in range(REPLICATES):
        is_wrong = rng.permutation(is_wrong_in_batch)[:100]
        of_batch = certify_yes(is_wrong, unlabelled=300, delta=DELTA)
        of_new_texts = certify_yes(is_wrong, delta=DELTA)
        assert of_batch.error <= of_batch.error_upper < of_new_texts.error_upper
        n_false += of_batch.error_upper < 0.2
        n_errors = int(is_wrong.sum())
        n_false_of_small_batch += binomial.batch_limit(n_errors, 100, 120, DELTA) < 0.2

    assert n_false <= most_violations() < n_false_of_small_batch


def test_a_certificate_of_a_batch_states_its_size():
    certificate = certify_yes([True] * 20 + [False] * 80, unlabelled=300)

    assert certificate.verify()
    assert "on this batch of 400 texts" in certificate.summary()


def test_the_certificate_of_a_batch_assumes_a_random_sample_and_no_distribution():
    labels = ["a", "b"] * 50
    predictions = ["a", "b"] * 45 + ["b"] * 10

    of_batch = certify_predictions(labels, predictions, unlabelled=1000)
    of_new_texts = certify_predictions(labels, predictions)

    assert "Valid if the labelled texts were drawn from the batch at random" in str(of_batch)
    assert "distribution" not in of_batch.assumption
    assert "independently from one distribution" in of_new_texts.assumption
    assert read_certificate(of_batch.to_json()) == of_batch


def test_the_size_of_a_batch_may_be_a_numpy_integer():
    ones = [1] * 9

    assert certify_predictions(ones, ones, unlabelled=np.int64(11), classes=[1, 2]).verify()


def test_a_batch_of_more_than_a_billion_texts_is_refused():
    ones = [1] * 9

    with pytest.raises(ValueError, match=r"batch_size must be at most 1,000,000,000"):
        certify_predictions(ones, ones, unlabelled=10**12)


def test_what_verify_cannot_check_is_listed():
    is_wrong = [True] * 20 + [False] * 80
    certificate = certify_yes(is_wrong, unlabelled=300)
    invented = dataclasses.replace(certificate, digests={}, calibration_size=0.5)

    verified = invented.verify(predict_yes_or_no(is_wrong), list(range(100)), ["yes"] * 100)

    for name in ("corrections", "calibration_size", "batch_size", "these texts were certified"):
        assert name in verified.unchecked


# ---- In the shell ----


@pytest.fixture
def table(tmp_path):
    """A table of 120 labels and answers, of 12 authors."""
    labels, predictions = draw_predictions(np.random.default_rng(9), 120)
    rows = zip(name_classes(labels), name_classes(predictions))
    lines = [f"{label},{answer},a{i % 12}\n" for i, (label, answer) in enumerate(rows)]
    path = tmp_path / "answers.csv"
    path.write_text("label,answer,author\n" + "".join(lines))
    return path


def run_certify(*arguments):
    return invoke("certify", *arguments)


def test_a_table_is_certified_in_the_shell(table, tmp_path):
    out = tmp_path / "c.json"
    options = ("--prediction-column", "answer", "--per-class")

    done = run_certify(table, *options, "-o", out, "--json", "--quiet")

    certificate = read_certificate(done.stdout)
    assert done.exit_code == 0, done.output
    assert certificate.verify()
    assert set(certificate.class_error_upper) == set(CLASSES)
    assert json.loads(out.read_text()) == json.loads(done.stdout)


def test_the_tables_of_classes_with_long_names_fit_in_eighty_columns(rng):
    labels, predictions = draw_predictions(rng, 300)
    longest_name = "n" * 54
    names = {1: longest_name}

    certificate = certify_predictions(
        [names.get(label, f"class {label}") for label in labels],
        [names.get(label, f"class {label}") for label in predictions],
        recall="all",
        precision="all",
    )

    table_lines = [line for line in str(certificate).splitlines() if longest_name in line]
    assert len(table_lines) == 2
    assert max(map(len, table_lines)) <= 80


def test_a_certificate_that_exists_is_not_overwritten_in_the_shell(table, tmp_path):
    out = tmp_path / "c.json"
    out.write_text("{}")

    done = run_certify(table, "--prediction-column", "answer", "-o", out)

    assert done.exit_code == 1
    assert out.read_text() == "{}"


def test_the_columns_of_labels_and_predictions_must_differ(table):
    done = run_certify(table, "--prediction-column", "label")

    assert done.exit_code == 2
    assert "--prediction-column, --judge-column must differ" in done.stderr


def test_a_batch_is_certified_in_the_shell(table):
    done = run_certify(table, "--prediction-column", "answer", "--batch-size", 200)

    assert "on this batch of 200 texts" in done.stdout


def test_groups_are_certified_in_the_shell(table):
    done = run_certify(table, "--prediction-column", "answer", "--group-column", "author")

    assert "texts of new groups" in done.stdout
    assert "12 given groups" in done.stdout


def test_lines_of_json_are_certified_in_the_shell(tmp_path):
    path = tmp_path / "a.jsonl"
    lines = [json.dumps({"label": row % 2, "prediction": 1}) for row in range(20)]
    path.write_text("\n".join(lines))

    assert "10 of 20 given texts were wrong" in run_certify(path).stdout


@pytest.mark.parametrize(
    ("content", "arguments", "message"),
    [
        ("label,prediction\n", [], "must have predictions. Got no row"),
        ("label,prediction\na,\n", [], "Line 2 of t.csv must have a prediction. Got none"),
        (
            "label,prediction\n,a\n",
            [],
            "must have labels in the column label. Got 1 row",
        ),
        (
            "label,answer\na,a\n",
            [],
            "in a column prediction.*with --prediction-column",
        ),
        ("label,prediction\na,b\n", [], "among the classes .a.. Got .b. in row 1 .*--labels A,B"),
        ("label,prediction\na,a\n", ["--text-column", "t"], "must include t.*--text-column"),
    ],
)
def test_mistakes_in_a_table_are_one_line(tmp_path, content, arguments, message):
    path = tmp_path / "t.csv"
    path.write_text(content)

    done = run_certify(path, *arguments, "--quiet")

    assert done.exit_code == 1
    assert not done.stdout
    assert len(done.stderr.strip().splitlines()) == 1
    assert re.search(message, done.stderr)


# ---- Details ----


def test_details_show_theorem_1_and_the_exact_bound_that_replaces_it():
    certificate = ErrorCertificate.from_parts(delta=0.05, n=146, n_errors=17)

    sentence = (
        "Theorem 1 of Nozawa and Sato: KL = 0 and n = 146: at its best lambda it gives 0.1916; the "
        "exact binomial bound, 0.1696, replaces it."
    )
    assert sentence in certificate.details()
    assert "Theorem 1" not in str(certificate) + certificate.summary()


def test_theorem_1_has_the_part_of_delta_that_the_error_has():
    class_counts = {"a": [100, 9], "b": [46, 8]}
    certificate = ErrorCertificate.from_parts(
        delta=0.05, n=146, n_errors=17, class_counts=class_counts
    )

    at_half_of_delta = kl_inverse(17 / 146, np.log(2 / 0.05) / 146)

    assert f"gives {rounded_up(float(at_half_of_delta))}" in certificate.details()
