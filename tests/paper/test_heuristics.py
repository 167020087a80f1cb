"""Certificate D: the bound, the losses of the heuristics, and the posterior over them."""

import dataclasses

import numpy as np
import pytest
from numpy.testing import assert_allclose

from pacsent import certify_encoder
from pacsent.bounds import pac_bayes as bounds
from pacsent.bounds.gibbs_betting import BETS, best_of_bets, bound_of_bet, log_products
from pacsent.certify import read_certificate
from pacsent.paper import certify_heuristics, simulation
from pacsent.paper.continuation import cut
from pacsent.paper.heuristics import hypothesis_names, make_heuristics, word_weights


def uniform(n):
    """The logarithm of a uniform prior."""
    return np.full(n, -np.log(n))


def bound_of(losses, log_prior, bet):
    """The posterior of the smallest bound for one bet at delta 0.05, with its bound."""
    products = log_products(losses, bet)
    risks = losses.mean(axis=0)
    return bound_of_bet(products, risks, log_prior, len(losses), 0.05, bet)


def general_bound(weights, kl, losses, bet):
    """That of any posterior over the hypotheses, at delta 0.05."""
    products = log_products(losses, bet)
    exponent = (weights @ products - kl + np.log(0.05)) / len(losses)
    return -np.expm1(exponent) / bet


def draw_errors(rng, n, n_hypotheses, mean):
    """Of 0 or 1, all with the same mean."""
    is_wrong = rng.random((n, n_hypotheses)) < mean
    return is_wrong.astype(float)


class TestTheBound:
    def test_the_closed_form_is_the_general_bound_of_its_posterior(self):
        rng = np.random.default_rng(0)
        losses = rng.beta(2, 5, (80, 30))
        log_prior = np.log(rng.dirichlet(np.ones(30)))

        found = bound_of(losses, log_prior, 0.4)

        general = general_bound(found.weights, found.kl, losses, 0.4)
        assert_allclose(found.bound, general, rtol=1e-9)

    def test_no_other_posterior_has_a_smaller_bound(self):
        rng = np.random.default_rng(1)
        losses = rng.beta(2, 5, (80, 30))
        log_prior = uniform(30)

        found = bound_of(losses, log_prior, 0.4)

        for weights in rng.dirichlet(np.ones(30), 50):
            kl = float(weights @ (np.log(weights) - log_prior))
            assert general_bound(weights, kl, losses, 0.4) > found.bound

    def test_for_errors_of_0_and_1_it_is_theorem_1(self):
        rng = np.random.default_rng(2)
        losses = draw_errors(rng, 200, 10, 0.3)

        found = bound_of(losses, uniform(10), 0.28)

        lam = -200 * np.log1p(-0.28)
        theorem_1 = bounds.catoni(found.empirical_risk, found.kl, 200, 0.05, lam=lam)
        assert_allclose(found.bound, theorem_1, rtol=1e-9)

    def test_small_spread_makes_it_smaller_than_the_kl_bound(self):
        rng = np.random.default_rng(3)
        losses = np.clip(rng.normal(0.35, 0.1, (2000, 50)), 0, 1)

        _, _, found = best_of_bets(losses, uniform(50), 0.05)

        by_kl = bounds.maurer(found.empirical_risk, found.kl, 2000, 0.05, constant="xi")
        assert found.bound < by_kl - 0.02

    def test_it_holds_and_fails_if_the_choice_is_not_paid_for(self):
        """A thousand hypotheses that are wrong in 40% of all cases."""
        n_broken = 0
        n_broken_unpaid = 0
        for seed in range(60):
            rng = np.random.default_rng([7, seed])
            losses = draw_errors(rng, 100, 1000, 0.4)
            _, _, paid = best_of_bets(losses, uniform(1000), 0.1)
            best = losses.mean(axis=0).argmin()
            _, _, unpaid = best_of_bets(losses[:, [best]], np.zeros(1), 0.1)
            n_broken += paid.bound < 0.4
            n_broken_unpaid += unpaid.bound < 0.4

        assert n_broken <= 6
        assert n_broken_unpaid > 30


@pytest.fixture(scope="module")
def reference(language):
    """Documents that set the thresholds of the hypotheses."""
    return language.draw(np.random.default_rng(1))[0]


@pytest.fixture(scope="module")
def heuristics(language, reference):
    """The hypotheses."""
    return make_heuristics(language.words, reference, np.random.default_rng(0))


def tokens_of(encoded, row):
    """Ids of the tokens of a document."""
    return encoded.ids[encoded.offsets[row] : encoded.offsets[row + 1]]


class TestTheHypotheses:
    def test_there_are_1008_with_different_names(self, heuristics):
        names = set(hypothesis_names())

        assert len(names) == heuristics.n_hypotheses == 1008

    @pytest.mark.parametrize("role", ["input", "output"])
    def test_the_loss_of_the_both_average_by_hand(self, language, heuristics, documents, role):
        few = documents.take(np.arange(5))
        A, B = language.words.roles(swap=role == "output")
        p_noise = language.words.vocabulary.noise_probabilities()
        name = f"role {role}, alpha 1, weights uniform, threshold above 0.7 of random words"
        column = hypothesis_names().index(name)
        threshold = heuristics.thresholds.ravel()[column]

        losses = heuristics.expected_losses(few)[:, column]

        heads, tails = cut(few)
        by_hand = []
        for row in range(5):
            head = tokens_of(heads, row)
            mean = (A[head].mean(axis=0) + B[head].mean(axis=0)) / 2
            is_predicted = A @ mean > threshold
            missed = 1 - is_predicted[tokens_of(tails, row)].mean()
            by_hand.append(0.5 * missed + 0.5 * p_noise @ is_predicted)
        assert_allclose(losses, by_hand, atol=1e-6)

    def test_weights_are_those_of_the_source_counts(self, language):
        counts = language.words.vocabulary.counts
        frequencies = counts / counts.sum()

        weights = word_weights(language.words)

        assert_allclose(weights[1], -np.log(frequencies))
        assert_allclose(weights[3], 1e-3 / (1e-3 + frequencies))

    def test_random_words_are_an_unbiased_draw(self, heuristics, documents):
        few = documents.take(np.arange(40))

        draws = [heuristics.losses(few, np.random.default_rng(seed)) for seed in range(20)]

        expected = heuristics.expected_losses(few).mean(axis=0)
        assert_allclose(np.mean(draws, axis=(0, 1)), expected, atol=0.01)


@pytest.fixture(scope="module")
def encoder(language):
    """An encoder with word vectors of another draw of the language."""
    encoder, _ = language.sample(1)
    return encoder


@pytest.fixture(scope="module")
def certificate(encoder, documents, reference):
    """With documents held out."""
    return certify_heuristics(
        encoder, documents, reference=reference, random_state=0, test_size=0.2
    )


class TestTheCertificate:
    def test_the_posterior_moves_from_the_prior_and_the_bound_is_not_vacuous(self, certificate):
        assert certificate.kl > 0.5
        assert certificate.held_out_risk < certificate.error_upper < 0.45

    def test_it_says_what_it_is(self, certificate):
        details = certificate.details()

        assert f"KL = {certificate.kl:.4g} nats: the posterior was chosen" in certificate.summary()
        assert "Most probable: role " in details
        assert "Theorem 1 of Nozawa and Sato: KL = " in details
        assert "(8 bets)" in details

    def test_the_bound_follows_from_the_parts_that_are_kept(self, certificate):
        opened = read_certificate(certificate.to_json())

        assert certificate.verify()
        assert opened == certificate
        assert certificate.corrections == {"bets": len(BETS)}

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            ({"kl": 0.0}, "kl must be"),
            ({"bet": 0.5}, "bet must be one of"),
            ({"corrections": {}}, "corrections must be 8 for bets"),
            ({"error_upper": 0.1}, "error_upper must be"),
            ({"mean_losses": [0.1]}, "mean_losses must have 1,008"),
        ],
    )
    def test_a_changed_field_is_named(self, certificate, change, message):
        changed = dataclasses.replace(certificate, **change)

        with pytest.raises(ValueError, match=message):
            changed.verify()

    def test_products_that_no_losses_give_are_refused(self, certificate):
        halved = [product / 2 for product in certificate.log_products]
        changed = dataclasses.replace(certificate, log_products=halved)

        with pytest.raises(ValueError, match="log_products must be possible"):
            changed.verify()

    def test_word_vectors_of_another_language_need_a_reference(self, encoder, documents):
        with pytest.raises(ValueError, match=r"Got 0% instead.*reference="):
            certify_encoder(encoder, documents, kind="D")

    @pytest.mark.parametrize("option", [{"split": 0.3}, {"bias": 1.0}])
    def test_nothing_is_set_aside_and_no_bias_is_used(self, encoder, documents, reference, option):
        [name] = option

        with pytest.raises(ValueError, match=f"{name} must be left out for kind 'D'"):
            certify_heuristics(encoder, documents, reference=reference, **option)

    @pytest.mark.slow
    def test_with_the_passages_as_reference_the_texts_give_it_again(self):
        from pacsent import load, make_encoder
        from pacsent.datasets import load_banking

        encoder = make_encoder("Average", load("english"))
        texts, *_ = load_banking(n_classes=12)
        certified = texts[:300]

        certificate = certify_encoder(encoder, certified, kind="D", random_state=0)

        assert certificate.verify(certified, encoder)
        with pytest.raises(ValueError, match="text_digest must be"):
            certificate.verify(certified[1:], encoder)

    @pytest.mark.slow
    @pytest.mark.parametrize("setting", ["topics", "memorising"])
    def test_it_is_kept_in_many_replicates(self, setting):
        coverage = simulation.simulate("D", setting, 60, delta=0.1, random_state=3)

        assert coverage.n_violations <= 6
        assert coverage.mean_gap < 0.05
