"""The simulation: populations whose true risks are known, by a second route on small ones."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from pacsent.paper import simulation
from pacsent.paper.continuation import cut
from pacsent.paper.document_certificate import source_variances
from pacsent.paper.encoder_certificate import vectors_of
from pacsent.paper.simulation import SETTINGS, Language, Trial


@pytest.fixture(scope="module")
def memorising():
    """A small language of random word vectors."""
    setting = replace(SETTINGS["memorising"], n_documents=20, n_words=50, n_dims=8)
    return Language(setting)


@pytest.fixture
def trial():
    """A certificate as it is made in every replicate."""
    return Trial(0.05, {})


# ---- Documents whose topic drifts ----


def test_drifting_documents_have_the_lengths_of_their_setting(language, rng):
    documents = language.draw_drifting(rng, 50)

    n_tokens = np.diff(documents.offsets)
    assert documents.n_sentences == 50
    assert n_tokens.min() >= language.setting.n_tokens / 2
    assert n_tokens.max() <= language.setting.n_tokens * 1.5
    assert documents.ids.max() < language.setting.n_words


def fraction_of_repeats(documents):
    """How often a word is one of the last words of its document."""
    is_repeat = []
    for document in np.split(documents.ids, documents.offsets[1:-1]):
        for t in range(1, document.size):
            start = max(0, t - simulation.REACH)
            is_repeat.append(document[t] in document[start:t])
    return np.mean(is_repeat)


def test_words_of_drifting_documents_come_in_bursts(language, rng):
    plain, _ = language.draw(rng)
    drifting = language.draw_drifting(rng, 100)

    assert fraction_of_repeats(drifting) > simulation.BURST
    assert fraction_of_repeats(drifting) > fraction_of_repeats(plain) + 0.1


def test_words_at_the_end_of_drifting_documents_are_others_than_at_the_start(language, rng):
    """Halves of a document share fewer words than those of a document with one topic."""

    def n_shared(documents):
        shared = []
        for document in np.split(documents.ids, documents.offsets[1:-1]):
            shared.append(np.intersect1d(document[:8], document[-8:]).size)
        return np.mean(shared)

    plain, _ = language.draw(rng, np.tile(np.arange(60), 5))

    assert n_shared(language.draw_drifting(rng, 300)) < n_shared(plain)


# ---- True risks ----


def test_the_expected_squared_loss_is_that_of_every_word_and_its_noise(memorising, rng):
    words = memorising.words
    target = rng.dirichlet(np.ones(50), 3)
    gibbs = SimpleNamespace(means=rng.normal(size=(3, 8)), variances=np.array([0.1, 0.5, 2.0]))

    found = simulation._squared_losses(gibbs, words, target)

    expected = np.zeros(3)
    for document in range(3):
        for word in range(50):
            difference = words.input_vectors[word] - gibbs.means[document]
            square = difference @ difference + 8 * gibbs.variances[document]
            expected[document] += 0.5 * target[document, word] * square
    assert_allclose(found, expected, rtol=1e-5)


def test_the_true_risk_of_continuations_is_the_mean_of_single_documents(language, rng, trial):
    population = simulation._Continuing(language, seed=0, size=30)
    _, measured = trial(rng, language.words, population.encoded, "continuation")
    rule = measured.rule

    risk = population.true_risk(rule)

    head, tail = cut(population.encoded)
    losses = []
    for document in range(30):
        [vector] = rule.calibrate(vectors_of(rule.encoder, head.take([document])))
        scores = rule.A_hat.astype(float) @ vector + rule.bias  # (n_words,)
        following = tail.take([document]).ids
        missed = np.mean(scores[following] <= 0)
        false = rule.p_noise[scores >= 0].sum()
        losses.append((missed + false) / 2)
    assert risk == pytest.approx(np.mean(losses), abs=1e-6)


def test_the_true_risk_of_heuristics_is_that_of_the_whole_population(language, rng, trial):
    population = simulation._Heuristics(language, seed=0, size=100, n_drawn=60)

    replicates = [population.replicate(rng, trial) for _ in range(2)]

    losses = population.risks  # of each hypothesis, computed once
    for replicate in replicates:
        assert losses.min() <= replicate.risk <= losses.max()
        assert replicate.risk < replicate.bound <= 1


# ---- Replicates ----


@pytest.mark.parametrize(
    ("kind", "setting", "expected"),
    [
        ("A", "topics", simulation._Redrawn),
        ("C", "topics", simulation._Redrawn),
        ("B", "topics", simulation._Population),
        ("continuation", "memorising", simulation._Continuing),
        ("D", "topics", simulation._Heuristics),
        ("A", "drift", simulation._Drifting),
    ],
)
def test_every_kind_has_the_population_that_its_theorem_is_about(
    kind, setting, expected, language, monkeypatch
):
    monkeypatch.setattr(simulation, "Language", lambda setting: language)

    assert type(simulation._make_population(kind, setting, 0)) is expected


def test_the_certificate_of_words_fails_on_documents_that_drift(language, trial):
    """Its assumption is violated, so the bound is below the risk of the words that follow."""
    population = simulation._Drifting(language, 0, "A")

    replicates = [population.replicate(np.random.default_rng(seed), trial) for seed in range(3)]

    assert all(bound < risk for bound, risk, _, _ in replicates)


def test_the_certificate_of_continuations_holds_on_documents_that_drift(language, rng, trial):
    replicate = simulation._Drifting(language, 0, "continuation").replicate(rng, trial)

    assert replicate.risk < replicate.bound <= 1


def test_the_certificate_of_the_squared_loss_holds_for_the_known_distributions(
    language, rng, trial
):
    replicate = simulation._Redrawn(language, "C").replicate(rng, trial)

    assert 0 < replicate.risk < replicate.bound


@pytest.fixture(scope="module")
def of_documents(memorising):
    """A small population of documents of the language that memorises."""
    return simulation._Population(memorising, seed=0, size=100, n_drawn=60)


def test_word_posteriors_that_are_learned_move_by_three_tenths_of_a_prior_deviation(
    of_documents, memorising
):
    sample = of_documents.encoded.take(np.arange(10))

    means, variances = of_documents.learn_posterior(sample)

    _, prior_means = memorising.words.roles()
    distances = np.linalg.norm(means - prior_means, axis=1)
    occurs = np.isin(np.arange(50), sample.ids)
    assert_array_equal(variances, source_variances(memorising.words.vocabulary, 0.01))
    assert_allclose(distances[occurs], 0.3 * np.sqrt(variances[occurs]), rtol=1e-4)
    assert_allclose(distances[~occurs], 0, atol=1e-6)


def test_the_certificate_of_documents_holds_and_the_printed_bound_does_not(
    of_documents, rng, trial
):
    """Random vectors know nothing of words that follow; the printed bound does not notice."""
    replicate = of_documents.replicate(rng, trial)

    assert replicate.risk < replicate.bound
    assert replicate.paper_bound < replicate.paper_risk
