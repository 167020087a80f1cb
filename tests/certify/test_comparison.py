"""The comparison of two classifiers: what it says about their difference, and about repeats."""

from pacsent.certify import Comparison
from pacsent.certify.repeats import COPIES, TRAFFIC


def compared(only_a_right, only_b_right, n=1000, **options):
    """The comparison of two classifiers on n texts, by the texts that one of them got right."""
    return Comparison(
        n=n, only_a_right=only_a_right, only_b_right=only_b_right, delta=0.05, **options
    )


def test_the_better_classifier_is_named_with_the_least_difference():
    shown = str(compared(only_a_right=150, only_b_right=20))

    assert shown.startswith("With 95% confidence, a errs less than b, by at least 0.")
    assert "(observed +0.1300 on 1,000 texts; p = " in shown


def test_the_other_classifier_is_named_where_it_is_better():
    shown = str(compared(only_a_right=20, only_b_right=150))

    assert shown.startswith("With 95% confidence, b errs less than a, by at least 0.")


def test_few_texts_do_not_say_which_is_better():
    shown = str(compared(only_a_right=5, only_b_right=4, n=100))

    assert "the error of b minus that of a is from -0." in shown
    assert shown.endswith("these texts are too few to say which is better.")


def test_neither_is_said_to_be_better_where_it_depends_on_why_texts_repeat():
    """Of the rows more are right with a, of the distinct texts more are right with b."""
    of_texts = {"only_a_right": 20, "only_b_right": 60, "n": 800}
    comparison = compared(150, 20, sample=TRAFFIC, other=of_texts, n_duplicates=200)
    assert comparison.p_value < 0.001

    verdict, *_ = str(comparison).splitlines()

    assert "errs less" not in verdict
    assert comparison.difference_lower < 0 < comparison.difference_upper
    assert verdict.endswith("which is better depends on why texts repeat.")


def test_copies_of_texts_are_said_not_to_be_counted():
    comparison = compared(150, 20, sample=COPIES, repeats=COPIES, n_duplicates=3)

    shown = str(comparison)

    assert "on 1,000 distinct texts" in shown
    assert "Repeats: 3 near-duplicates not counted: valid if copies of texts were made." in shown


def test_repeated_rows_of_traffic_are_said_to_count():
    comparison = compared(150, 20, sample=TRAFFIC, repeats=TRAFFIC, n_duplicates=1)

    shown = str(comparison)

    assert "on 1,000 rows" in shown
    assert "Repeats: 1 row repeats others, and count: valid for rows drawn from traffic." in shown


def test_two_samples_are_both_covered_where_the_reason_of_repeats_is_unknown():
    of_texts = {"only_a_right": 60, "only_b_right": 20, "n": 800}
    comparison = compared(150, 20, sample=TRAFFIC, other=of_texts, n_duplicates=200)

    repeats = str(comparison).partition("Repeats: ")[2]

    assert repeats.startswith("200 rows repeat others. The interval covers both the difference")
    assert "new distinct texts (800 here)" in repeats


def test_nothing_is_said_about_repeats_where_there_are_none():
    assert "Repeats" not in str(compared(150, 20))


def test_the_limits_of_two_samples_contain_those_of_each():
    of_rows = compared(150, 20)
    of_texts = compared(60, 20, n=800)
    other = {"only_a_right": 60, "only_b_right": 20, "n": 800}

    of_both = compared(150, 20, sample=TRAFFIC, other=other, n_duplicates=200)

    assert of_both.p_value == max(of_rows.p_value, of_texts.p_value)
    assert of_both.difference_lower == min(of_rows.difference_lower, of_texts.difference_lower)
    assert of_both.difference_upper == max(of_rows.difference_upper, of_texts.difference_upper)
