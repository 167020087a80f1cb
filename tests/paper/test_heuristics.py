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


class TestTheBound:
    def test_the_closed_form_is_the_general_bound_of_its_posterior(self):
        rng = np.random.default_rng(0)
        losses = rng.beta(2, 5, (80, 30))
        log_prior = np.log(rng.dirichlet(np.ones(30)))
        bet, delta = 0.4, 0.05
        products = log_products(losses, bet)

        found = bound_of_bet(products, losses.mean(axis=0), log_prior, 80, delta, bet)

        exponent = (found.weights @ products - found.kl + np.log(delta)) / 80
        assert_allclose(found.bound, -np.expm1(exponent) / bet, rtol=1e-9)

    def test_no_other_posterior_has_a_smaller_bound(self):
        rng = np.random.default_rng(1)
        losses = rng.beta(2, 5, (80, 30))
        log_prior = np.full(30, -np.log(30))
        products = log_products(losses, 0.4)
        found = bound_of_bet(products, losses.mean(axis=0), log_prior, 80, 0.05, 0.4)

        for weights in rng.dirichlet(np.ones(30), 50):
            kl = float(weights @ (np.log(weights) - log_prior))
            exponent = (weights @ products - kl + np.log(0.05)) / 80
            assert -np.expm1(exponent) / 0.4 > found.bound

    def test_for_errors_of_0_and_1_it_is_theorem_1(self):
        rng = np.random.default_rng(2)
        losses = (rng.random((200, 10)) < 0.3).astype(float)
        bet, log_prior = 0.28, np.full(10, -np.log(10))
        products = log_products(losses, bet)

        found = bound_of_bet(products, losses.mean(axis=0), log_prior, 200, 0.05, bet)

        lam = -200 * np.log1p(-bet)
        theorem_1 = bounds.catoni(found.empirical_risk, found.kl, 200, 0.05, lam=lam)
        assert_allclose(found.bound, theorem_1, rtol=1e-9)

    def test_small_spread_makes_it_smaller_than_the_kl_bound(self):
        rng = np.random.default_rng(3)
        losses = np.clip(rng.normal(0.35, 0.1, (2000, 50)), 0, 1)
        _, _, found = best_of_bets(losses, np.full(50, -np.log(50)), 0.05)
        by_kl = bounds.maurer(found.empirical_risk, found.kl, 2000, 0.05, constant="xi")
        assert found.bound < by_kl - 0.02

    def test_it_holds_and_fails_if_the_choice_is_not_paid_for(self):
        true_risk, n, n_hypotheses, delta = 0.4, 100, 1000, 0.1
        log_prior = np.full(n_hypotheses, -np.log(n_hypotheses))
        n_broken = n_broken_unpaid = 0
        for seed in range(60):
            rng = np.random.default_rng([7, seed])
            # every hypothesis has the mean 0.4
            losses = (rng.random((n, n_hypotheses)) < true_risk).astype(float)
            n_broken += best_of_bets(losses, log_prior, delta)[2].bound < true_risk

            best = losses[:, [losses.mean(axis=0).argmin()]]
            n_broken_unpaid += best_of_bets(best, np.zeros(1), delta)[2].bound < true_risk
        assert n_broken <= 6
        assert n_broken_unpaid > 30


@pytest.fixture(scope="module")
def reference(language):
    return language.draw(np.random.default_rng(1))[0]


@pytest.fixture(scope="module")
def heuristics(language, reference):
    return make_heuristics(language.words, reference, np.random.default_rng(0))


class TestTheHypotheses:
    def test_there_are_1008_with_different_names(self, heuristics):
        assert len(set(hypothesis_names())) == heuristics.n_hypotheses == 1008

    @pytest.mark.parametrize("role", ["input", "output"])
    def test_the_loss_of_the_both_average_by_hand(self, language, heuristics, documents, role):
        few = documents.take(np.arange(5))
        words = language.words
        A, B = words.input_vectors, words.output_vectors
        if role == "output":
            A, B = B, A
        p_noise = words.vocabulary.noise_probabilities()
        name = f"role {role}, alpha 1, weights uniform, threshold above 0.7 of random words"
        column = hypothesis_names().index(name)
        threshold = heuristics.thresholds.ravel()[column]

        heads, tails = cut(few)
        by_hand = []
        for i in range(5):
            head = heads.ids[heads.offsets[i] : heads.offsets[i + 1]]
            tail = tails.ids[tails.offsets[i] : tails.offsets[i + 1]]
            h = (A[head].mean(axis=0) + B[head].mean(axis=0)) / 2
            missed = (A[tail] @ h <= threshold).mean()
            by_hand.append(0.5 * missed + 0.5 * (p_noise @ (A @ h > threshold)))

        assert_allclose(heuristics.expected_losses(few)[:, column], by_hand, atol=1e-6)

    def test_weights_are_those_of_the_source_counts(self, language):
        weights = word_weights(language.words)
        counts = language.words.vocabulary.counts
        p = counts / counts.sum()
        assert_allclose(weights[1], -np.log(p))
        assert_allclose(weights[3], 1e-3 / (1e-3 + p))

    def test_random_words_are_an_unbiased_draw(self, heuristics, documents):
        few = documents.take(np.arange(40))
        draws = [heuristics.losses(few, np.random.default_rng(seed)) for seed in range(20)]
        mean = np.mean([draw.mean(axis=0) for draw in draws], axis=0)
        assert_allclose(mean, heuristics.expected_losses(few).mean(axis=0), atol=0.01)


@pytest.fixture(scope="module")
def certificate(language, documents, reference):
    encoder, _ = language.sample(1)
    options = {"reference": reference, "random_state": 0, "test_size": 0.2}
    return certify_heuristics(encoder, documents, **options)


class TestTheCertificate:
    def test_the_posterior_moves_from_the_prior_and_the_bound_is_not_vacuous(self, certificate):
        assert certificate.kl > 0.5
        assert certificate.held_out_risk < certificate.error_upper < 0.45

    def test_it_says_what_it_is(self, certificate):
        assert f"KL = {certificate.kl:.4g} nats: the posterior was chosen" in certificate.summary()
        details = certificate.details()
        assert "Most probable: role " in details
        assert "Theorem 1 of Nozawa and Sato: KL = " in details
        assert "(8 bets)" in details

    def test_the_bound_follows_from_the_parts_that_are_kept(self, certificate):
        assert certificate.verify()
        assert read_certificate(certificate.to_json()) == certificate
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
        with pytest.raises(ValueError, match=message):
            dataclasses.replace(certificate, **change).verify()

    def test_products_that_no_losses_give_are_refused(self, certificate):
        products = [x / 2 for x in certificate.log_products]
        with pytest.raises(ValueError, match="log_products must be possible"):
            dataclasses.replace(certificate, log_products=products).verify()

    def test_word_vectors_of_another_language_need_a_reference(self, language, documents):
        encoder, _ = language.sample(1)
        with pytest.raises(ValueError, match=r"Got 0% instead.*reference="):
            certify_encoder(encoder, documents, kind="D")

    def test_nothing_is_set_aside_and_no_bias_is_used(self, language, documents, reference):
        encoder, _ = language.sample(1)
        for option, value in (("split", 0.3), ("bias", 1.0)):
            with pytest.raises(ValueError, match=f"{option} must be left out for kind 'D'"):
                certify_heuristics(encoder, documents, reference=reference, **{option: value})

    @pytest.mark.slow
    def test_with_the_passages_as_reference_the_texts_give_it_again(self):
        from pacsent import load, make_encoder
        from pacsent.datasets import load_banking

        encoder = make_encoder("Average", load("english"))
        texts = load_banking(n_classes=12)[0][:300]
        certificate = certify_encoder(encoder, texts, kind="D", random_state=0)
        assert certificate.verify(texts, encoder)
        with pytest.raises(ValueError, match="text_digest must be"):
            certificate.verify(texts[1:], encoder)

    @pytest.mark.slow
    @pytest.mark.parametrize("setting", ["topics", "memorising"])
    def test_it_is_kept_in_many_replicates(self, setting):
        coverage = simulation.simulate("D", setting, 60, delta=0.1, random_state=3)
        assert coverage.n_violations <= 6
        assert coverage.mean_gap < 0.05
