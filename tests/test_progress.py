"""Progress bars: the lines that a log has in their place."""

import pytest

from pacsent.progress import Bar


@pytest.fixture
def training():
    """The bar of a training on a thousand texts, of which a fourth is done."""
    bar = Bar("Training", 1000, "texts")
    bar.update(250)
    return bar


def test_less_than_two_minutes_are_left_in_seconds(training):
    assert training.line(39).endswith("25%, 117 s left, 6 texts/s")


def test_less_than_two_hours_are_left_in_minutes(training):
    assert "25%, 3 min left" in training.line(60)
    assert "25%, 119 min left" in training.line(60 * 119 / 3)


def test_more_than_two_hours_are_left_in_hours_and_minutes(training):
    hour = 60 * 60

    assert "25%, 2 h 0 min left" in training.line(hour * 2 / 3)
    assert "25%, 7 h 30 min left" in training.line(hour * 2.5)


def test_slow_work_states_the_time_of_each_item(training):
    assert training.line(1000).endswith("4 s each")


def test_a_line_states_how_long_it_took_while_nothing_is_completed():
    waiting = Bar("Downloading", 1000, "bytes")

    assert waiting.line(300) == "Downloading: 0 bytes, 0%, 5 min so far"


def test_large_numbers_are_short():
    counting = Bar("Counting", None, "words")
    counting.update(2_500_000)

    assert counting.line(10) == "Counting: 2.5 M words, 250.0 k words/s"


def test_a_note_stands_behind_the_line_until_another_one_is_given(training):
    training.update(500, note="loss 0.25")
    training.advance(250)

    assert training.line(60).endswith(", loss 0.25")
