"""Statements that were false in ordinary use: each of these tests fails before the fix.

A section for each of them; those that repeat draws are marked slow.
"""

import numpy as np
import pytest
from scipy import stats

from pacsent import CertifiedClassifier
from pacsent.maths import binomial

# ---- 1. Predictions that are taken for labels ----


# ---- 2. A machine that saw the labels ----


# ---- 3. Texts that repeat ----


# ---- 4. The random number of abstention ----


def test_abstention_with_a_usual_seed_answers_wrongly_no_more_often_than_allowed():
    """Everybody who tests 65 texts with random_state=0 shared one number that favours passing."""

    def constant(X):
        return np.tile([0.9, 0.1], (len(X), 1))

    error = 0.1  # every answer is wrong with a probability just above this
    rng = np.random.default_rng(0)
    answers = {}  # number of wrong texts among those tested -> whether it answers
    for _ in range(150):
        y = (rng.random(92) < rng.uniform(0.0, 0.2)).astype(int)
        certified = CertifiedClassifier(constant, classes=[0, 1], random_state=0)
        certified.fit(np.arange(92.0)[:, None], y)
        tested = certified.calibration_.tested
        assert tested.labels.size == 65
        answers[int(tested.wrong.sum())] = certified.abstain(error=error).coverage > 0
    assert set(range(8)) <= set(answers)

    n_wrong = [k for k, answered in answers.items() if answered]
    assert n_wrong
    assert stats.binom.pmf(n_wrong, 65, error).sum() <= 0.05


def chance_to_answer(n, error, delta, uniform, accepted_fraction):
    """P(the one threshold passes), if an answer is wrong with probability `error`."""
    low, high = stats.binom.interval(1 - 1e-12, n, accepted_fraction)
    n_accepted = np.arange(low, high + 1)
    weights = stats.binom.pmf(n_accepted, n, accepted_fraction)

    # Fewer errors pass, more fail: of these few numbers it is decided one by one.
    middle = stats.binom.ppf(delta, n_accepted, error)
    n_errors = middle[:, None] + np.arange(-2, 3)  # (n_accepted.size, 5)
    passed = binomial.passes(n_accepted[:, None], n_errors, error, delta, uniform)
    assert passed[:, 0].all() and not passed[:, -1].any()

    chances = stats.binom.cdf(n_errors[:, 0], n_accepted, error)
    probabilities = stats.binom.pmf(n_errors[:, 1:], n_accepted[:, None], error)
    chances += (passed[:, 1:] * probabilities).sum(axis=1)
    return float(weights @ chances)


@pytest.mark.slow
@pytest.mark.parametrize("accepted_fraction", [1.0, 0.6])
@pytest.mark.parametrize("error", [0.05, 0.1, 0.2])
def test_abstention_is_exact_for_every_number_of_texts_and_a_shared_random_number_is_noticed(
    error, accepted_fraction
):
    sizes = range(30, 1001)

    def chances(uniforms):
        return np.array(
            [
                chance_to_answer(n, error, 0.05, uniform, accepted_fraction)
                for n, uniform in zip(sizes, uniforms)
            ]
        )

    without = chances([1.0] * len(sizes))
    shared = chances([np.random.default_rng([0, n]).random() for n in sizes])

    assert without.max() <= 0.05 * (1 + 1e-9)
    assert shared.max() > 0.06
    assert np.mean(shared > 0.05) > 0.4


# ---- 5. A model that is changed under its certificate ----


# ---- 6. Bounds that hold each by itself, or together ----


# ---- 7. Drift ----


# ---- 8. Answers of a person in check_labels ----


# ---- 9. Empty texts ----


# ---- 10. A language that the model does not know ----


# ---- 11. Texts dropped by audit before training ----


# ---- 12. A flood of one new text ----


# ---- 13. Edges and rounding ----


# ---- Security, lost files and crashes ----
