"""Drift of rows and of distinct texts: which of both differs decides what guarantees rest on."""

import numpy as np
import pytest

from helpers import FittedStub
from pacsent.certify import DriftMonitor
from pacsent.certify.drift_check import DriftCheck
from pacsent.certify.drift_monitor import describe_condition
from pacsent.certify.repeats import COPIES, TRAFFIC
from pacsent.certify.row_status import NEW, REPEATED
from pacsent.predict.calibration import Calibration


def draw_log_proba(rng, n, scale=1.0):
    """Logarithms of the probabilities of three classes; the smaller the scale, the flatter."""
    z = rng.normal(scale=scale, size=(n, 3))
    return z - np.log(np.exp(z).sum(axis=1, keepdims=True))


@pytest.fixture
def classifier(rng):
    """A classifier with two hundred calibration rows, which are arrays and no texts."""
    log_proba = draw_log_proba(rng, 200, scale=3.0)
    calibration = Calibration(log_proba, log_proba.argmax(axis=1))
    return FittedStub(classes_=np.arange(3), calibration_=calibration, seed_=0)


def test_guarantees_rest_on_copies_where_the_repeated_rows_alone_differ(classifier, rng):
    monitor = DriftMonitor(classifier, random_state=0)
    flat = draw_log_proba(rng, 200, scale=0.1)

    monitor.update_arrays(flat, status=np.full(200, REPEATED))

    assert not monitor.alarm
    assert monitor.holds_only_if == COPIES
    assert "guarantees hold only if repeats are copies" in describe_condition(COPIES)


def test_guarantees_rest_on_traffic_where_the_distinct_texts_alone_differ(classifier, rng):
    """One row in thirty is a new text of another kind, the others repeat usual ones."""
    monitor = DriftMonitor(classifier, random_state=0)
    is_text = np.arange(1800) % 30 == 29
    log_proba = draw_log_proba(rng, 1800, scale=3.0)
    log_proba[is_text] = draw_log_proba(rng, 60, scale=0.1)

    monitor.update_arrays(log_proba, status=np.where(is_text, NEW, REPEATED))

    assert not monitor.alarm
    assert monitor.holds_only_if == TRAFFIC
    assert "guarantees hold only if repeats are traffic" in describe_condition(TRAFFIC)


def test_rows_like_those_of_calibration_leave_guarantees_as_they_are(classifier, rng):
    monitor = DriftMonitor(classifier, random_state=0)

    monitor.update_arrays(draw_log_proba(rng, 200, scale=3.0))

    assert not monitor.alarm
    assert monitor.holds_only_if is None


def test_an_alarm_of_both_tests_leaves_no_condition(classifier, rng):
    monitor = DriftMonitor(classifier, random_state=0)

    monitor.update_arrays(draw_log_proba(rng, 200, scale=0.1))

    assert monitor.alarm
    assert monitor.holds_only_if is None


def test_the_test_of_the_stated_reason_raises_the_alarm_by_itself(classifier, rng):
    monitor = DriftMonitor(classifier, repeats=TRAFFIC, random_state=0)
    flat = draw_log_proba(rng, 200, scale=0.1)

    monitor.update_arrays(flat, status=np.full(200, REPEATED))

    assert monitor.alarm
    assert monitor.holds_only_if is None


def test_labels_are_given_always_or_never(classifier, rng):
    monitor = DriftMonitor(classifier, random_state=0)
    log_proba = draw_log_proba(rng, 10)
    monitor.update_arrays(log_proba)

    with pytest.raises(ValueError, match="update must be given labels always or never"):
        monitor.update_arrays(log_proba, y=np.zeros(10, int))


# ---- Files ----


def test_a_file_of_vectors_is_compared_by_its_probabilities(classifier, rng):
    check = DriftCheck(classifier)
    vectors = rng.normal(size=(300, 4))

    check.add(vectors, draw_log_proba(rng, 300, scale=0.1))

    comparison = check.result()
    assert comparison.differs
    assert comparison.counts.n_rows == 300
    assert comparison.left_out == ()


def test_a_file_of_vectors_of_the_same_kind_does_not_differ(classifier, rng):
    check = DriftCheck(classifier)
    vectors = rng.normal(size=(300, 4))

    check.add(vectors, draw_log_proba(rng, 300, scale=3.0))

    assert check.result().differs is False


def test_a_file_without_rows_is_not_compared(classifier):
    comparison = DriftCheck(classifier).result()

    assert comparison.differs is None
    assert comparison.message.startswith("Not checked: 0 distinct texts are too few")
