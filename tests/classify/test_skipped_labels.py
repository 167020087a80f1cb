"""check_labels: rows that the person skips, answers that are no class, and empty texts."""

import numpy as np
import pandas
import pytest
from scipy import stats

from pacsent.classify import check_labels

TEXTS = [f"row {n} w{n * 7 % 101}" for n in range(1000)]
RIGHT = ["a" if n % 3 else "b" for n in range(1000)]
MACHINE = ["a" if n % 20 == 0 else label for n, label in enumerate(RIGHT)]


class Person:
    """Gives the right label of each row, or skips it, and records the rows."""

    def __init__(self, is_skipped, skip=None):
        self.is_skipped = is_skipped
        self.skip = skip
        self.asked = []

    def answer(self, row, text):
        self.asked.append(row)
        return self.skip if self.is_skipped(row) else RIGHT[row]


def count_errors(labels):
    return sum(label != right for label, right in zip(labels, RIGHT))


def check(ask, texts=TEXTS, **options):
    return check_labels(
        texts, MACHINE, np.arange(1000), ask=ask, error=0.1, random_state=1, **options
    )


@pytest.mark.parametrize("skip", [None, np.nan, pandas.NA, pandas.NaT])
def test_a_skipped_row_has_no_label_and_counts_as_wrong(skip):
    person = Person(lambda row: row % 50 == 0, skip)

    labels, _, certificate, *_ = check(person.answer)

    skipped = sorted(row for row in person.asked if row % 50 == 0)
    without_label = [row for row, label in enumerate(labels) if label is None]
    assert skipped
    assert len(person.asked) == len(set(person.asked))
    assert without_label == skipped
    assert certificate.n_skipped == len(skipped)
    assert f"{len(skipped):,} were skipped, and count as wrong." in certificate.summary()
    assert count_errors(labels) / 1000 <= certificate.error_upper <= 0.1


def test_a_goal_that_skipped_rows_put_out_of_reach_ends_with_the_bound_that_was_reached():
    person = Person(lambda row: row % 3 == 0)

    labels, _, certificate, *_ = check(person.answer)

    assert count_errors(labels) / 1000 <= certificate.error_upper
    assert labels.count(None) == 101  # 100 wrong labels are allowed
    assert len(person.asked) < 400
    assert certificate.error_upper > 0.1
    certificate.verify()


@pytest.mark.parametrize("answer", ["l", "a ", "A", b"a", ["a"], {"a": 1}, "", 1, True])
def test_an_answer_that_is_no_class_is_refused(answer):
    with pytest.raises(ValueError, match=r"ask must return one of the classes \(.*or None to skip"):
        check(lambda row, text: answer)


def test_a_misspelled_answer_is_told_the_class():
    with pytest.raises(ValueError, match=r"Got 'A ' .* instead\. Did you mean 'a'\?"):
        check(lambda row, text: "A ")


def test_a_class_that_the_machine_never_gives_needs_to_be_named():
    with pytest.raises(ValueError, match="Pass classes= for those that the machine never gives"):
        check(lambda row, text: "c")


def test_a_class_that_is_named_may_be_given_although_the_machine_never_gives_it():
    assert "c" in check(lambda row, text: "c", classes=["c"]).labels


@pytest.mark.slow
def test_bounds_with_skipped_rows_hold_and_taking_a_skip_for_an_answer_is_noticed():
    n = 1000
    n_draws = 100
    n_false = {None: 0, "unclear": 0}

    for draw in range(n_draws):
        rng = np.random.default_rng(draw)
        doubt = rng.beta(0.5, 2.5, n)
        right = np.where(rng.random(n) < doubt, "b", "a")
        is_skipped = rng.random(n) < 0.15
        for skip in n_false:
            answers = np.where(is_skipped, skip, right.astype(object))
            checked = check_labels(
                TEXTS,
                ["a"] * n,
                -doubt,
                ask=lambda row, _: answers[row],  # noqa: B023
                classes=["b", "unclear"],
                error=0.1,
                delta=0.2,
                random_state=draw,
            )
            error = np.mean(np.array(checked.labels, object) != right)
            n_false[skip] += error > checked.certificate.error_upper

    assert n_false[None] <= stats.binom.ppf(0.999, n_draws, 0.2) < n_false["unclear"]


def test_empty_texts_are_not_asked_for():
    texts = list(TEXTS)
    texts[::100] = ["", " ", "\t", "…", "\u200b"] * 2
    person = Person(lambda row: False)

    labels, _, certificate, *_ = check(person.answer, texts=texts)

    assert certificate.n_rows == 990
    assert not any(row % 100 == 0 for row in person.asked)
    assert labels[::100] == [None] * 10
