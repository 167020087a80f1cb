"""Certificates whose counts no labelled texts could have are refused."""

from dataclasses import replace

import pytest

from pacsent.certify import ErrorCertificate, certify_predictions
from pacsent.certify.repeats import COPIES, SAME, TRAFFIC

LABELS = ["up", "down"] * 50


def make_certificate(**options):
    """The certificate of a hundred labels, of which ten are predicted wrongly."""
    return ErrorCertificate.from_parts(delta=0.05, n=100, n_errors=10, **options)


def refuses(certificate, field):
    """Test that verifying names this field."""
    with pytest.raises(ValueError, match=f"^{field} must be"):
        certificate.verify()


# ---- Two samples ----


@pytest.fixture(scope="module")
def of_two_samples():
    """The certificate of rows, a fifth of which repeat others, for an unknown reason."""
    parts = {
        TRAFFIC: {"n": 100, "n_errors": 10, "n_duplicates": 20},
        COPIES: {"n": 80, "n_errors": 9, "n_duplicates": 20},
    }
    for counts in parts.values():
        counts |= {"class_counts": {}, "prediction_counts": {}, "guess_counts": {}}
    return ErrorCertificate.from_samples(parts, delta=0.05)


def test_the_sample_with_the_larger_bound_is_certified(of_two_samples):
    of_rows = make_certificate()
    of_texts = ErrorCertificate.from_parts(delta=0.05, n=80, n_errors=9)

    assert of_two_samples.verify()
    assert of_two_samples.sample == COPIES
    assert of_two_samples.error_upper == max(of_rows.error_upper, of_texts.error_upper)


def test_a_reason_of_repeats_that_is_not_known_is_refused(of_two_samples):
    refuses(replace(of_two_samples, repeats="luck"), "repeats")


def test_a_sample_that_does_not_fit_the_reason_of_repeats_is_refused():
    certificate = make_certificate(repeats=TRAFFIC, sample=TRAFFIC)
    assert certificate.verify()

    refuses(replace(certificate, sample=COPIES), "sample")


def test_a_sample_that_leaves_out_the_other_one_is_refused(of_two_samples):
    refuses(replace(of_two_samples, other={}), "other")


def test_counts_of_another_sample_are_refused_where_the_reason_of_repeats_is_known(of_two_samples):
    refuses(replace(of_two_samples, repeats=COPIES), "other")


def test_counts_of_another_sample_are_refused_where_there_is_one_only(of_two_samples):
    refuses(replace(of_two_samples, sample=SAME), "other")


def test_counts_of_another_sample_that_are_not_complete_are_refused(of_two_samples):
    other = dict(of_two_samples.other)
    del other["n_errors"]

    refuses(replace(of_two_samples, other=other), "other")


def test_the_sample_with_the_smaller_bound_is_refused_as_the_one_that_counts(of_two_samples):
    counts = {name: getattr(of_two_samples, name) for name in of_two_samples.other}

    refuses(replace(of_two_samples, **of_two_samples.other, other=counts), "sample")


# ---- A judge ----


@pytest.fixture(scope="module")
def judged():
    """The certificate of a hundred labels and of three hundred rows that a machine labelled."""
    predictions = ["up", "down"] * 45 + ["down", "up"] * 5
    machine = ["up", "down"] * 35 + ["down", "up"] * 15
    unlabelled = (["up", "down"] * 100, ["up", "down"] * 80 + ["down", "up"] * 20)
    return certify_predictions(LABELS, predictions, judge=machine, unlabelled=unlabelled)


@pytest.mark.parametrize(
    "wrong_counts",
    [
        pytest.param([10, 20, 5], id="more labelled rows than rows"),
        pytest.param([150, 10, 20], id="more errors than labelled rows"),
        pytest.param([150, 50], id="a number too few"),
        pytest.param([150, 50, 7], id="sums other than those of the certificate"),
    ],
)
def test_impossible_counts_of_the_rows_on_which_a_judge_agrees_are_refused(judged, wrong_counts):
    assert judged.verify()
    counts = {**judged.judge_counts, "agree": wrong_counts}

    refuses(replace(judged, judge_counts=counts), "judge_counts")


@pytest.mark.parametrize(
    "wrong_counts",
    [
        pytest.param([10, 20, 50, 5], id="more labelled rows than rows"),
        pytest.param([150, 50, 30, 40], id="more of both than of the class"),
        pytest.param([150, 50, 50], id="a number too few"),
        pytest.param([150, 50, 49, 35], id="sums other than those of the certificate"),
    ],
)
def test_impossible_counts_of_the_classes_that_a_judge_gives_are_refused(judged, wrong_counts):
    counts = {**judged.judge_class_counts, "up": wrong_counts}

    refuses(replace(judged, judge_class_counts=counts), "judge_class_counts")


def test_a_judge_that_neither_agrees_nor_disagrees_is_refused(judged):
    counts = {"same": judged.judge_counts["agree"], "other": judged.judge_counts["disagree"]}

    refuses(replace(judged, judge_counts=counts), "judge_counts")


# ---- What is verified ----


def test_a_certificate_is_verified_with_predictions_texts_and_labels_or_with_none_of_them():
    texts = [f"text number{i} word{7 * i}" for i in range(100)]
    predictions = ["up"] * 100
    certificate = certify_predictions(LABELS, predictions, texts=texts)

    with pytest.raises(ValueError, match="model, X and y must be given together"):
        certificate.verify(predictions, texts)
