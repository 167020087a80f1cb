"""The paper's certificates: what they guarantee, that the parts give the total, refusals."""

import dataclasses
import functools
import json
import re

import numpy as np
import pytest
from numpy.testing import assert_allclose

from helpers import invoke
from pacsent.bounds import pac_bayes as bounds
from pacsent.bounds.binomial import two_sided_limits
from pacsent.certify import read_certificate
from pacsent.certify.certificate import checksum, theorem_1
from pacsent.paper import (
    certify_encoder,
    document_certificate,
    simulation,
    squared_certificate,
    token_parts,
    word_certificate,
)
from pacsent.paper.encoder_certificate import prepare
from pacsent.sentences import as_encoder
from pacsent.sentences.methods import make_encoder
from pacsent.sentences.methods.closed_forms import AverageVectorizer, IDFVectorizer
from pacsent.sentences.solvers.gaussians import kl_gaussians
from pacsent.sentences.solvers.risks import gibbs_risk
from pacsent.text.encoded import Encoded
from pacsent.words.vectors import WordVectors
from pacsent.words.vocabulary import Vocabulary

KINDS = ["A", "B", "C"]


def certify_with_posterior(vectorizer, texts, kind="A", **options):
    """A certificate of the paper with a fixed seed, and the posterior that it is about."""
    options = {"random_state": 0, **options}
    if kind == "B" and isinstance(vectorizer, AverageVectorizer):
        options = {"posterior": "prior", **options}
    kind_of_options, module = simulation.MEASURED[kind]
    return module.measure(prepare(vectorizer, texts, kind_of_options(**options)))


def certify(vectorizer, texts, kind="A", **options):
    """A certificate of the paper with a fixed seed."""
    certificate, _ = certify_with_posterior(vectorizer, texts, kind, **options)
    return certificate


def kl_to_prior(gibbs):
    """The sum over the sentences."""
    posterior = gibbs.means, gibbs.variances
    return kl_gaussians(*posterior, gibbs.prior_means, gibbs.prior_variances).sum()


@pytest.fixture
def uncalibrated(monkeypatch):
    """Kind A with scale 1 and shift 0."""

    def unchanged(means, *_):
        return 1.0, np.zeros(means.shape[1])

    monkeypatch.setattr(word_certificate, "calibrate", unchanged)


@pytest.fixture(scope="module")
def vectorizer(language):
    """The average of the words' vectors."""
    return AverageVectorizer(language.words, n_jobs=1)


@pytest.fixture(scope="module")
def certificate_of(vectorizer, documents):
    """certificate_of(kind): of the average, with the options as they are by default."""
    return functools.cache(lambda kind: certify(vectorizer, documents, kind))


@pytest.fixture(scope="module")
def learned(vectorizer, documents):
    """Kind A of the posterior of the method."""
    return certify(vectorizer, documents, posterior="vectorizer")


@pytest.fixture(scope="module", params=KINDS)
def certificate(request, vectorizer, documents):
    """Of each kind, with texts held out."""
    test_size = 0.25 if request.param == "B" else 0.1  # B counts documents: enough of them
    return certify(vectorizer, documents, request.param, test_size=test_size)


class TestEveryKind:
    def test_the_bound_is_above_the_held_out_risk_and_not_far(self, certificate):
        assert certificate.empirical_risk > 0
        assert certificate.error_upper > certificate.held_out_risk
        assert certificate.error_upper < 1.35 * certificate.held_out_risk

    def test_it_states_the_guarantee(self, certificate):
        text = certificate.details()

        assert f"Certificate {certificate.kind}: with 95% confidence" in text
        assert f"{certificate.n:,} " in text
        assert "not about its mean" in text

    def test_it_states_the_assumption(self, certificate):
        assert f"Assumption: {certificate.assumption}" in certificate.details()
        assert str(certificate).endswith(f"Valid if {certificate.assumption}")

    def test_it_records_its_origin(self, certificate, documents, language):
        digest_of_texts = language.words.vocabulary.digest(documents)

        assert certificate.text_digest == digest_of_texts
        assert len(certificate.vectors_digest) == 64
        assert certificate.pacsent_version
        assert certificate.encoder.startswith("AverageVectorizer(")

    def test_the_same_seed_gives_the_same_certificate(self, vectorizer, documents):
        first = certify(vectorizer, documents, random_state=0)
        same = certify(vectorizer, documents, random_state=0)
        other = certify(vectorizer, documents, random_state=1)

        assert first == same
        assert first.error_upper != other.error_upper


class TestTheLinkToTheorem1:
    """KL, n and the paper's own bound, beside the bound that a certificate uses."""

    @pytest.mark.parametrize("kind", ["A", "B"])
    def test_a_certificate_of_the_prior_says_so(self, certificate_of, kind):
        summary = certificate_of(kind).summary()

        assert summary.endswith("KL = 0: the prior is certified.")

    def test_a_posterior_that_looked_is_named_with_its_kl(self, learned):
        assert learned.kl > 0
        assert f"KL = {learned.kl:,.4g} nats: a posterior that dep" in learned.summary()

    @pytest.mark.parametrize(("risk", "kl", "n"), [(0.1164, 0.0, 146), (0.3, 12.0, 500)])
    def test_at_the_best_lambda_it_is_the_smallest_of_many(self, risk, kl, n):
        lams = np.geomspace(1, 1e4, 4001)
        best = bounds.catoni(risk, kl, n, 0.05, lam=lams).min()

        text = theorem_1(risk, n, 0.05, 0.5, "another bound", kl=kl)

        stated = float(re.search(r"gives (\d\.\d+)", text)[1])
        assert best - 1e-4 <= stated <= best + 2e-4

    def test_a_best_lambda_is_no_certificate_if_the_posterior_looked(self):
        over_grid = bounds.catoni_over_grid(0.3, 12.0, 500, 0.05)

        text = theorem_1(0.3, 500, 0.05, 0.5, "another bound", kl=12.0)

        assert "no certificate" in text
        assert f"over a grid of lambdas {over_grid:.2f}" in text

    @pytest.mark.parametrize("kind", ["continuation", "A", "B"])
    def test_details_show_it_and_a_printed_certificate_does_not(self, certificate_of, kind):
        certificate = certificate_of(kind)

        assert "Theorem 1 of Nozawa and Sato: " in certificate.details()
        assert "Theorem 1" not in str(certificate)

    def test_a_loss_without_a_bound_has_none(self, certificate_of):
        assert "Theorem 1" not in certificate_of("C").details()


class TestOneFunctionForAllKinds:
    @pytest.mark.parametrize("kind", ["continuation", "A", "C"])
    def test_it_makes_every_kind(self, vectorizer, documents, certificate_of, kind):
        same = certify_encoder(vectorizer, documents, kind=kind, random_state=0)

        assert same == certificate_of(kind)

    def test_an_unknown_kind_is_an_error(self, vectorizer, documents):
        with pytest.raises(ValueError, match=r"kind must be one of .*'A'.*Got 'Z' instead"):
            certify_encoder(vectorizer, documents, kind="Z")

    def test_an_option_of_another_kind_is_an_error(self, vectorizer, documents):
        with pytest.raises(ValueError, match="posterior must be left out for kind='continuation'"):
            certify_encoder(vectorizer, documents, posterior="prior")


@pytest.fixture(scope="module")
def word_encoder(language):
    """w-PB-neg, with a few epochs."""
    return make_encoder("w-PB-neg", language.words, n_epochs=5, n_jobs=1, random_state=0)


class TestPosteriorsOfWPBNeg:
    """Kind B with the posteriors of the method itself."""

    @pytest.mark.parametrize("lam", [0.1, 1.0])
    def test_prior_and_posterior_have_one_scale(self, language, documents, lam):
        encoder = make_encoder("w-PB-neg", language.words, lam=lam, n_epochs=5, n_jobs=1)

        own = certify(encoder, documents, "B", posterior="vectorizer")

        assert 0 < own.kl < own.n
        assert own.error_upper < 0.6

    def test_a_prior_of_another_scale_costs_much_more(self, language, documents, word_encoder):
        own = certify(word_encoder, documents, "B", posterior="vectorizer")
        fitted = word_encoder.fit(documents)  # with variances from the counts of these documents
        variances = np.ones(language.words.n_words)
        variances[fitted.words_] = fitted.word_variances_
        means = language.words.output_vectors.copy()
        means[fitted.words_] = fitted.word_means_

        other = certify(word_encoder, documents, "B", posterior=(means, variances))

        assert other.kl > 100 * own.kl

    def test_the_posterior_is_trained_under_the_prior_that_was_given(
        self, language, documents, word_encoder
    ):
        narrow = np.full(language.words.n_words, 1e-8)

        words, means, variances = word_encoder.word_posteriors(documents, narrow, 1.0)

        assert_allclose(means, language.words.output_vectors[words], atol=1e-4)
        assert_allclose(variances, 1e-8, rtol=1e-3)


class TestWords:
    """Kind A."""

    @pytest.fixture(scope="class")
    def learned_with_posterior(self, vectorizer, documents):
        return certify_with_posterior(vectorizer, documents, posterior="vectorizer")

    def test_its_risks_are_those_of_the_posterior(self, learned_with_posterior, language):
        certificate, gibbs = learned_with_posterior
        words = language.words
        counts = words.vocabulary.count(gibbs.parts.sample)
        noise = words.vocabulary.noise_probabilities()
        posterior = gibbs.means, gibbs.variances

        risk = gibbs_risk(*posterior, counts, words.input_vectors, noise, bias=gibbs.bias)

        weights = gibbs.parts.n_sample / gibbs.parts.n_sample.sum()
        noise_error = weights @ risk.noise - certificate.noise_risk
        assert_allclose(certificate.empirical_risk, weights @ risk.positive, rtol=1e-9)
        assert abs(noise_error) <= certificate.noise_margin

    def test_its_kl_is_that_of_the_posterior_to_the_prior(self, learned_with_posterior):
        certificate, gibbs = learned_with_posterior

        assert certificate.kl > 1.0
        assert_allclose(certificate.kl, kl_to_prior(gibbs), rtol=1e-9)

    def test_it_counts_the_words_of_the_sample(self, learned_with_posterior):
        certificate, gibbs = learned_with_posterior

        assert certificate.n == gibbs.parts.n_sample.sum()

    def test_its_bias_is_the_logarithm_of_the_vectors_number_of_negatives(self, learned):
        assert learned.bias == np.float32(np.log(5))

    def test_its_bound_is_that_of_its_parts(self, learned):
        complexity = learned.kl + bounds.ln_xi(learned.n) + np.log(20)
        positive = bounds.kl_inverse(learned.empirical_risk, complexity / learned.n)
        noise = learned.noise_risk + learned.noise_margin

        assert_allclose(learned.error_upper, 0.5 * (positive + noise), rtol=1e-10)

    def test_nothing_the_prior_is_made_of_depends_on_the_sample(self, language, documents):
        encoder = IDFVectorizer(language.words)

        first, gibbs = certify_with_posterior(encoder, with_other_samples(documents, seed=1))
        second, other_gibbs = certify_with_posterior(encoder, with_other_samples(documents, seed=2))

        assert np.array_equal(gibbs.prior_means, other_gibbs.prior_means)
        assert first.prior_variance == second.prior_variance
        assert not np.array_equal(gibbs.parts.sample.ids, other_gibbs.parts.sample.ids)

    @pytest.mark.usefixtures("uncalibrated")
    @pytest.mark.parametrize(
        ("method", "settings"), [("PB-L2", {}), ("PB-neg", {"n_negatives": 5})]
    )
    def test_any_posterior_may_be_certified_against_the_exact_kl(
        self, vectorizer, documents, method, settings
    ):
        encoder = make_encoder(method, vectorizer.word_vectors, **settings)
        means, variances = encoder.fit(documents).posterior(documents)

        certificate, gibbs = certify_with_posterior(
            vectorizer, documents, posterior=(means, variances)
        )

        assert certificate.posterior == "given"
        assert_allclose(gibbs.means, means, rtol=1e-6)
        assert_allclose(gibbs.variances, variances, rtol=1e-6)
        assert_allclose(certificate.kl, kl_to_prior(gibbs), rtol=1e-6)

    def test_strings_and_short_documents(self, language):
        texts = [f"w0 w1 w2 w3 w4 w{i}" for i in range(30)]
        texts += [f"w9 w{i}" for i in range(30)]
        too_short = ["", "w7", "OOV words only"] * 30
        known = language.words.vocabulary
        vocabulary = Vocabulary(known.words, known.counts, normalize=str.split)
        words = WordVectors(vocabulary, language.words.input_vectors, language.words.output_vectors)

        certificate = certify(AverageVectorizer(words), texts + too_short)

        assert certificate.n_documents == 60
        assert certificate.n_left_out == 90


def with_other_samples(documents, seed):
    """The same documents with other words wherever the sample will be."""
    rng = np.random.default_rng(0)  # the seed that certify will use
    lengths = np.diff(documents.offsets)
    document = np.repeat(np.arange(lengths.size), lengths)
    order = np.argsort(document + rng.random(documents.ids.size), kind="stable")
    place = np.arange(documents.ids.size) - documents.offsets[document]
    is_later = place >= np.rint(0.7 * lengths)[document]

    later = order[is_later]
    ids = documents.ids.copy()
    ids[later] = np.random.default_rng(seed).integers(0, 200, later.size)
    return Encoded(ids, documents.offsets, documents.n_unknown)


class TestStayingAtThePrior:
    """Kind A, where the sample may choose between the prior and the posterior of the method."""

    @pytest.fixture(scope="class")
    def stay(self, vectorizer, documents):
        return certify(vectorizer, documents, posterior="prior")

    @pytest.fixture(scope="class")
    def auto(self, vectorizer, documents):
        return certify(vectorizer, documents, posterior="auto")

    def test_the_choice_is_paid(self, stay, auto):
        assert stay.corrections == {}
        assert auto.corrections == {"branches": 2}

    def test_the_choice_is_the_better_one(self, stay, auto):
        has_stayed = auto.kl == 0

        assert (auto.bound_name == "chernoff") == has_stayed
        assert auto.error_upper <= stay.error_upper + 2e-3  # ranked by an estimate

    def test_which_posterior_is_asked_for_does_not_change_the_prior(self, stay, auto, learned):
        assert stay.prior_variance == auto.prior_variance
        assert stay.prior_variance == learned.prior_variance

    def test_staying_pays_no_logarithm_of_n(self, stay):
        chernoff = bounds.kl_inverse(stay.empirical_risk, np.log(20) / stay.n)
        with_xi = bounds.maurer(stay.empirical_risk, 0.0, stay.n, 0.05, constant="xi")

        assert stay.kl == 0.0
        assert stay.bound_name == "chernoff"
        assert_allclose(stay.positive_error_upper, chernoff, rtol=1e-9)
        assert stay.positive_error_upper < with_xi


class TestDocuments:
    """Kind B."""

    @pytest.fixture(scope="class")
    def encoder(self, language):
        return make_encoder(
            "w-PB-neg",
            language.words,
            prior_variance=0.01,
            n_negatives=5,
            n_epochs=3,
            n_jobs=1,
            random_state=0,
        )

    def test_the_prior_of_words_is_certified_if_asked_for(self, encoder, documents):
        stay = certify(encoder, documents, "B", posterior="prior")

        assert stay.posterior == "prior"
        assert stay.kl == 0.0

    def test_it_may_choose_between_prior_and_posterior(self, encoder, documents):
        stay = certify(encoder, documents, "B", posterior="prior")

        auto = certify(encoder, documents, "B")

        assert auto.verify()
        assert auto.step is not None
        assert auto.error_upper <= stay.error_upper + 0.02

    def test_its_kl_is_the_sum_over_the_words(self, encoder, documents):
        certificate, gibbs = certify_with_posterior(encoder, documents, "B", posterior="vectorizer")

        posterior = gibbs.word_means, gibbs.word_variances
        kls = kl_gaussians(*posterior, gibbs.prior_means, gibbs.prior_variances)
        assert_allclose(certificate.kl, kls.sum(), rtol=1e-6)

    def test_the_prior_of_the_words_is_the_sources(self, language, documents):
        encoder = AverageVectorizer(language.words)

        _, gibbs = certify_with_posterior(encoder, documents, "B")

        counts = language.words.vocabulary.counts
        assert_allclose(gibbs.prior_variances, 0.01 * np.median(counts) / counts)
        assert_allclose(gibbs.prior_means, language.words.output_vectors)

    def test_one_draw_per_word_type(self):
        encoded = Encoded.from_lengths(np.array([0, 0, 1]), [3])
        means = np.array([[3.0], [6.0]])
        variances = np.array([1.0, 4.0])

        mean, variance = document_certificate.mixed(encoded, means, variances)

        assert_allclose(mean, [[4.0]])
        assert_allclose(variance, [4 / 9 + 4 / 9])


def tokens_of(encoded, row):
    """Ids of the tokens of a sentence."""
    return encoded.ids[encoded.offsets[row] : encoded.offsets[row + 1]]


def in_order(*ids):
    """All ids together, sorted."""
    return np.sort(np.concatenate(ids)).tolist()


class TestSplit:
    def test_of_two_tokens_one_goes_to_the_prior_and_one_to_the_sample(self, rng):
        two_and_one = Encoded.from_lengths(np.array([3, 4, 5]), [2, 1])

        parts = token_parts.split_tokens(two_and_one, 0.9, 0.5, rng)

        assert parts.rows.tolist() == [0]
        assert parts.prior.ids.size == 1
        assert parts.sample.ids.size == 1
        assert parts.held_out.ids.size == 0

    def test_parts_are_disjoint_and_complete(self, documents, rng):
        parts = token_parts.split_tokens(documents, 0.5, 0.2, rng)

        assert parts.rows.size == documents.n_sentences
        for row in range(0, 600, 97):
            prior = tokens_of(parts.prior, row)
            sample = tokens_of(parts.sample, row)
            held_out = tokens_of(parts.held_out, row)
            assert prior.size >= 1
            assert sample.size >= 1
            assert in_order(prior, sample, held_out) == in_order(tokens_of(documents, row))

    def test_two_parts_are_joined_sentence_by_sentence(self, documents, rng):
        parts = token_parts.split_tokens(documents, 0.5, 0.2, rng)

        joined = token_parts.join(parts.prior, parts.sample)

        for row in range(0, 600, 97):
            prior = tokens_of(parts.prior, row)
            sample = tokens_of(parts.sample, row)
            assert in_order(tokens_of(joined, row)) == in_order(prior, sample)

    def test_every_token_is_as_likely_in_the_prior(self):
        encoded = Encoded.from_lengths(np.arange(6), [6])
        rng = np.random.default_rng(0)
        n_drawn = np.zeros(6)

        for _ in range(3000):
            parts = token_parts.split_tokens(encoded, 0.5, 0.0, rng)
            n_drawn[parts.prior.ids] += 1

        assert_allclose(n_drawn / 3000, 0.5, atol=0.05)


class TestSquares:
    """Kind C."""

    def test_kappa_is_the_maximum(self):
        ratios = np.linspace(0, 1, 100_001)

        values = (1 + ratios) ** 4 / 32 - ratios**2 / 2

        assert_allclose(values.max(), squared_certificate.KAPPA, atol=1e-9)

    def test_kappa_is_the_maximum_and_bounds_the_range(self, rng):
        """range^2 / 8 <= kappa D^4 + D^2 r^2 / 2 for words within D of m and |h - m| = r."""
        D = rng.uniform(0.1, 3, 1000)
        r = rng.uniform(0, 9, 1000)

        largest = (r + D) ** 2 / 2
        span = np.where(r >= D, 2 * r * D, largest)

        bound = squared_certificate.KAPPA * D**4 + D**2 * r**2 / 2
        assert np.all(span**2 / 8 <= bound + 1e-12)

    def test_the_farthest_word(self, rng):
        A_hat = rng.standard_normal((50, 4)).astype(np.float32)
        means = rng.standard_normal((7, 4))

        found = squared_certificate.farthest_word(A_hat, means)

        distances = np.linalg.norm(A_hat - means[:, None], axis=2)
        assert np.all(found >= distances.max(axis=1))
        assert_allclose(found, distances.max(axis=1), rtol=1e-4)

    def test_the_moments_of_the_distances_are_enough(self, rng):
        """Never below the sum over documents, and near it."""
        lengths = rng.integers(1, 40, 200)
        D = rng.uniform(1.0, 3.0, 200)
        n = int(lengths.sum())
        lam = 400.0
        moments = squared_certificate.Distances.of(lengths, D)

        found = squared_certificate.squared_loss_complexity(lam, n, 0.05, 0.02, 8, moments)

        scale = (lam / n) ** 2
        inside = scale * 0.02 * lengths * D**2
        spread = squared_certificate.KAPPA * scale * (lengths * D**4).sum()
        exact = np.log(20) + spread - 0.5 * 8 * np.log1p(-inside).sum()
        assert inside.max() > 0.03
        assert exact <= found <= exact * 1.05

    def test_a_prior_that_is_too_wide_for_lambda_has_no_bound(self, rng):
        lengths = rng.integers(1, 40, 200)
        n = int(lengths.sum())
        moments = squared_certificate.Distances.of(lengths, np.full(200, 2.0))

        wide = squared_certificate.squared_loss_complexity(400.0, n, 0.05, 2.0, 8, moments)

        assert wide == np.inf


class TestRefusals:
    def test_vectors_trained_on_the_certified_text(self, language, documents):
        words = language.words
        digest = words.vocabulary.digest(documents)
        tables = words.input_vectors, words.output_vectors
        trained_on_them = WordVectors(words.vocabulary, *tables, corpus_digest=digest)
        encoder = AverageVectorizer(trained_on_them)

        with pytest.raises(ValueError, match=r"were trained on 600 of the 600 documents"):
            certify(encoder, documents)

    def test_vectors_without_an_output_table(self, language):
        half = WordVectors(language.words.vocabulary, language.words.input_vectors)
        encoder = AverageVectorizer(half, alpha=0.0)

        with pytest.raises(ValueError, match="must have output vectors to be certified"):
            certify(encoder, ["w1 w2"])

    def test_what_is_no_encoder(self):
        with pytest.raises(TypeError, match="encoder must be"):
            certify(dict, ["good film"] * 20)

    def test_an_encoder_without_word_vectors(self):
        encoder = as_encoder(lambda texts: [[1.0, len(text)] for text in texts])

        with pytest.raises(TypeError, match=r"with word vectors\. Got ExternalEncoder"):
            certify(encoder, ["good film"] * 20)

    @pytest.mark.parametrize(
        "options, message",
        [
            ({"delta": 1.0}, r"delta must be strictly between 0 and 1. Got"),
            ({"delta": "0.05"}, r"delta must be strictly between 0 and 1. Got"),
            ({"random_state": -1}, "random_state must be an integer of at least 0"),
            ({"split": 0.9, "test_size": 0.2}, "split and test_size must be shares"),
            ({"n_candidates": True}, "n_candidates must be an integer of at least 1. Got True"),
            ({"overlap": "keep"}, "overlap must be 'error' or 'drop'"),
            ({"bias": [0.0, 1.0]}, "bias must be a finite number"),
            ({"prior_variance": 0.0}, "prior_variance must be finite and > 0"),
            ({"posterior": "best"}, "posterior must be 'auto', 'prior', 'vectorizer' or"),
            ({"posterior": (np.zeros((3, 2)), np.ones(3))}, "posterior must be means of shape"),
            (
                {"posterior": (np.zeros((600, 16)), np.zeros(600))},
                r"finite means and variances > 0. Got a variance of 0 in row \d+ instead",
            ),
            ({"kind": "C", "prior_variance": [1, 2]}, "prior_variance must be finite and > 0"),
            ({"texts": ["w1", ""]}, r"at least one document of two in-vocabulary words. Got 2"),
        ],
    )
    def test_mistakes(self, vectorizer, documents, options, message):
        arguments = {"texts": documents, **options}

        with pytest.raises(ValueError, match=message):
            certify(vectorizer, **arguments)

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ('{"a": 1}', "text must be a certificate as to_json writes it"),
            (
                '{"kind": "A", "error_upper": 1, "format_version": 1}',
                r"format_version must be 5. Got 1 instead",
            ),
        ],
    )
    def test_a_foreign_json(self, text, message):
        with pytest.raises(ValueError, match=message):
            read_certificate(text)

    def test_a_certificate_without_its_fields(self):
        values = {"kind": "A", "error_upper": 1, "format_version": 5}
        values["checksum"] = checksum(values)

        with pytest.raises(ValueError, match=r"incomplete or was changed .*'delta'"):
            read_certificate(json.dumps(values))


@pytest.mark.usefixtures("uncalibrated")
class TestVacuous:
    """A bound that is no better than guessing names what is too large."""

    def assert_vacuous(self, certificate, reason):
        pattern = f"\nNo guarantee: the bound is no better than guessing: {reason}"
        assert re.search(pattern, str(certificate))
        assert certificate.is_vacuous
        assert certificate.verify()

    def test_the_kl(self, vectorizer, documents):
        means, _ = vectorizer.fit(documents).posterior(documents)
        far = means + 5.0 * np.sign(means)
        narrow = np.full(len(means), 1e-4)

        certificate = certify(
            vectorizer, documents, posterior=(far, narrow), bias=1.6, prior_variance=0.01
        )

        self.assert_vacuous(certificate, "kl = .* nats is")

    def test_the_empirical_risk(self, vectorizer, documents):
        certificate = certify(vectorizer, documents, bias=-50.0)

        self.assert_vacuous(certificate, "the empirical risk .* alone is no better")

    def test_the_confidence_for_so_few_words(self, vectorizer, documents):
        two = documents.take(np.arange(2))

        certificate = certify(vectorizer, two, delta=1e-12)

        self.assert_vacuous(certificate, r"n = \d+ words are too few for")


class TestMutations:
    """Loosen the bound in the three ways that matter: what is there must notice."""

    def test_dropping_the_logarithm_of_n(self, vectorizer, documents, monkeypatch):
        with monkeypatch.context() as patch:
            patch.setattr(bounds, "ln_xi", lambda n: 0.0 * n)
            loose = certify(vectorizer, documents, posterior="vectorizer")

        message = r"positive_error_upper must be .* computed from its parts"
        with pytest.raises(ValueError, match=message):
            loose.verify()

    def test_delta_where_a_share_of_it_is_due(self, certificate_of):
        honest = certificate_of("A")
        unpaid = dataclasses.replace(honest, corrections={})
        unpaid = dataclasses.replace(unpaid, **unpaid.recompute())

        assert unpaid.error_upper < honest.error_upper
        with pytest.raises(ValueError, match="corrections must be 2 for branches"):
            unpaid.verify()

    @pytest.mark.slow
    @pytest.mark.usefixtures("uncalibrated")
    def test_a_prior_that_sees_all_words(self, monkeypatch):
        honest = simulation.simulate("A", "memorising", 15, posterior="prior", random_state=0)
        split = token_parts.split_tokens

        def leaking(encoded, share_prior, share_held_out, rng):
            parts = split(encoded, share_prior, share_held_out, rng)
            return parts._replace(prior=token_parts.join(parts.prior, parts.sample))

        monkeypatch.setattr(token_parts, "split_tokens", leaking)
        broken = simulation.simulate("A", "memorising", 15, posterior="prior", random_state=0)
        assert honest.n_violations == 0
        assert broken.n_violations == 15
        assert broken.low > broken.delta  # beyond chance


class TestGuarantee:
    @pytest.mark.slow
    @pytest.mark.parametrize("setting", ["topics", "memorising"])
    @pytest.mark.parametrize("kind", KINDS)
    def test_it_is_kept_in_many_replicates(self, kind, setting):
        """A thousand of each are a benchmark: benchmarks/simulate.py."""
        coverage = simulation.simulate(kind, setting, 30, random_state=1)

        assert coverage.rate <= coverage.delta, coverage
        if setting == "memorising":  # the paper's bound fails every time
            paper_gap = coverage.paper_mean_risk - coverage.paper_mean_bound
            assert coverage.paper_violations == 30
            assert kind != "A" or paper_gap > 0.05

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (("A", "poems"), "setting must be one of"),
            (("Z",), "kind must be one of"),
            (("A", "topics", 0), "n_replicates must be at least 1"),
            (("B", "drift", 1), r"must be 'continuation' or 'A' in drift. Got 'B'"),
        ],
    )
    def test_mistakes(self, arguments, message):
        with pytest.raises(ValueError, match=message):
            simulation.simulate(*arguments)


def test_two_sided_limits_are_the_exact_ones():
    limits = two_sided_limits(3, 40, 0.05)

    assert_allclose(limits, [0.015736, 0.203864], atol=1e-5)


def test_the_upper_limit_is_one_if_all_are_errors():
    _, upper = two_sided_limits(40, 40, 0.05)

    assert upper == 1.0


BOUND_COMMAND = ["paper", "bound", "--risk", "0.1", "--kl", "5", "--n", "200"]


def test_the_command_prints_bounds_with_what_they_require():
    printed = invoke(*BOUND_COMMAND, status=0).output

    words = " ".join(printed.split())  # lines are as wide as the terminal
    assert "0.226466" in words
    assert "must be fixed before the sample is seen" in words


def test_the_command_gives_all_bounds_as_json():
    printed = invoke(*BOUND_COMMAND, "--json", status=0).output

    rows = json.loads(printed)["bounds"]
    values = [value for _, value, _ in bounds.compare(0.1, 5, 200, 0.05)]
    assert [row["value"] for row in rows] == values
