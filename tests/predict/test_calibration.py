"""The calibration set: which of its rows plan abstention, and which of them test it."""

import numpy as np
import pytest

from pacsent.certify import ErrorCertificate
from pacsent.certify.repeats import COPIES, TRAFFIC
from pacsent.predict.calibration import Calibration, DrawnRows

N_CLUSTERS = 200
CLUSTERS = np.repeat(np.arange(N_CLUSTERS), 3)  # every row three times
IS_FIRST = np.arange(CLUSTERS.size) % 3 == 0


def divide(members):
    """The rows of each sample that are tested, and those that plan, by their positions."""
    certificate = ErrorCertificate.from_parts(
        delta=0.05, n=CLUSTERS.size, n_errors=0, random_state=0
    )
    rows = np.arange(CLUSTERS.size)
    calibration = Calibration(log_proba=rows, labels=rows, members=members)
    drawn = DrawnRows(calibration, CLUSTERS[:, None].astype(float), CLUSTERS)

    tested, planning = drawn.divide(certificate)

    rows_of_samples = {name: sample.labels for name, sample in tested.samples(tested=True).items()}
    return rows_of_samples, planning.labels


@pytest.fixture(scope="module")
def of_both():
    """A calibration set of two samples: all rows, and the first row of each cluster."""
    return divide({TRAFFIC: np.ones(CLUSTERS.size, bool), COPIES: IS_FIRST})


def test_no_cluster_that_is_tested_has_a_row_that_plans(of_both):
    tested, planning = of_both

    is_seen = np.isin(CLUSTERS[tested[COPIES]], CLUSTERS[planning])

    assert not is_seen.any()


def test_one_row_of_a_cluster_is_tested_and_about_half_of_the_clusters(of_both):
    tested, _ = of_both

    assert IS_FIRST[tested[COPIES]].all()
    assert 0.4 * N_CLUSTERS < tested[COPIES].size < 0.6 * N_CLUSTERS


def test_no_row_of_traffic_that_is_tested_plans_but_its_copies_may(of_both):
    tested, planning = of_both

    has_copy_that_plans = np.isin(CLUSTERS[tested[TRAFFIC]], CLUSTERS[planning])

    assert not np.isin(tested[TRAFFIC], planning).any()
    assert has_copy_that_plans.any()
    assert 0.4 * CLUSTERS.size < tested[TRAFFIC].size < 0.6 * CLUSTERS.size


def test_the_only_sample_of_a_calibration_set_in_which_rows_repeat_is_divided_as_traffic(of_both):
    tested_of_both, planning_of_both = of_both

    tested, planning = divide({})

    assert list(tested) == [TRAFFIC]
    assert tested[TRAFFIC].tolist() == tested_of_both[TRAFFIC].tolist()
    assert planning.tolist() == planning_of_both.tolist()
