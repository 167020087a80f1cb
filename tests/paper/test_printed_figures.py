"""The eight panels show what the paper's printed forms do differently."""

from unittest.mock import Mock

import numpy as np
import pytest

from pacsent.paper.printed import family_spreads, figures
from pacsent.paper.printed.stability import FAMILIES

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def drawn():
    return figures.panels()


@pytest.fixture(scope="module")
def panels(drawn):
    return {panel.title: panel.curves for panel in drawn}


@pytest.mark.parametrize("title", ["PB-L2: variance", "PB-IDF-L2: variance"])
def test_printed_variance_does_not_fall_with_the_length_and_the_corrected_one_does(panels, title):
    printed, corrected = panels[title]
    assert printed.is_printed
    assert printed.y[-1] > 0.8 * printed.y[0]
    assert corrected.y[-1] < 0.1 * corrected.y[0]


def test_printed_kl_is_negative_for_every_length(panels):
    printed, corrected = panels["KL(Q‖P)"]
    assert np.all(printed.y < 0)
    assert np.all(corrected.y > 0)


def test_first_prior_grows_with_the_length(panels):
    first, product = panels["First prior: length of the mean"]
    assert first.y[-1] > 10 * product.y[-1]


def test_factor_of_the_main_text_moves_further_to_the_data(panels):
    main, appendix = panels["PB-IDF-L2: weight of the data"]
    assert np.all(main.y > appendix.y)
    np.testing.assert_allclose(main.y[:-1], appendix.y[1:], rtol=1e-12)  # lambda is doubled


def test_weights_by_pi_make_calling_everything_noise_hard_to_beat(panels):
    by_pi, balanced = panels["Zero-one risk of the prior"]
    at_zero = np.flatnonzero(by_pi.x == 0.0)[0]
    np.testing.assert_allclose(by_pi.y[at_zero], 1 / 6, atol=1e-3)  # k = 5
    assert by_pi.y.min() > 1 / 6 - 1e-3
    assert balanced.y.min() < 0.495


def test_literal_steps_run_away_beyond_184_words_and_stable_ones_do_not(panels):
    literal, stable = panels["PB-neg after 40 epochs, λ = 1"]
    assert np.all(literal.y[literal.x < 184] < 0.1)
    assert np.all(literal.y[literal.x > 184] > 1.0)
    assert np.all(stable.y < 0.1)


def test_constant_variance_moves_frequent_words_most(panels):
    constant, printed = panels["w-PB-neg: prior variance"]
    assert constant.y[-1] / constant.y[0] > 3 * printed.y[-1] / printed.y[0]


def test_each_panel_is_drawn_on_axes_of_its_own_with_both_curves(drawn):
    axes = np.array([[Mock() for _ in range(4)] for _ in range(2)])
    figures.draw(axes, drawn)
    for axis, panel in zip(axes.ravel(), drawn, strict=True):
        names = [call.kwargs["label"] for call in axis.plot.call_args_list]
        assert names == [curve.name for curve in panel.curves]


def test_families_have_the_fourteen_rows_and_their_spread_is_highest_minus_lowest():
    rows = [row for names in FAMILIES.values() for row in names]
    assert len(set(rows)) == 14
    accuracies = dict.fromkeys(rows, 0.9) | {"PB-neg": 0.95, "i-PB-L2": 0.8}
    found = family_spreads(accuracies)
    np.testing.assert_allclose(found["zero-one loss"], (0.9, 0.95, 0.05))
    np.testing.assert_allclose(found["squared loss"], (0.8, 0.9, 0.1))
    assert found["heuristics"].spread == 0.0
