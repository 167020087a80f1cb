"""The random number of abstention: one that several users share favours passing."""

import numpy as np
import pytest
from scipy import stats

from pacsent import CertifiedClassifier
from pacsent.bounds import binomial


def test_abstention_with_a_usual_seed_answers_wrongly_no_more_often_than_allowed():
    """Everybody who tests 65 texts with random_state=0 shared one number that favours passing."""

    def predict_proba(X):
        return np.tile([0.9, 0.1], (len(X), 1))

    error = 0.1  # every answer is wrong with a probability just above this
    rng = np.random.default_rng(0)
    answers_by_errors = {}  # number of wrong texts among those tested -> whether it answers
    for _ in range(60):
        y = (rng.random(92) < rng.uniform(0.0, 0.2)).astype(int)
        certified = CertifiedClassifier(predict_proba, classes=[0, 1], random_state=0)
        certified.fit(np.arange(92.0)[:, None], y)
        tested = certified.calibration_.samples(tested=True)[""]
        assert tested.labels.size == 65
        n_wrong = int(tested.wrong.sum())
        answers_by_errors[n_wrong] = certified.abstain(error=error).coverage > 0

    numbers_answered = [n_wrong for n_wrong, answers in answers_by_errors.items() if answers]
    assert set(range(8)) <= set(answers_by_errors)
    assert numbers_answered
    assert stats.binom.pmf(numbers_answered, 65, error).sum() <= 0.05


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

    def chances_to_answer(uniforms):
        chances = [
            chance_to_answer(n, error, 0.05, uniform, accepted_fraction)
            for n, uniform in zip(sizes, uniforms)
        ]
        return np.array(chances)

    without = chances_to_answer([1.0] * len(sizes))
    shared = chances_to_answer([np.random.default_rng([0, n]).random() for n in sizes])

    assert without.max() <= 0.05 * (1 + 1e-9)
    assert shared.max() > 0.06
    assert np.mean(shared > 0.05) > 0.4
