"""The paper's certificates: what they guarantee, that the parts give the total, refusals."""

import dataclasses
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


def certify(vectorizer, texts, kind="A", *, return_posterior=False, **options):
    """One of the kinds of the paper, with a fixed seed."""
    options = {"random_state": 0, **options}
    if kind == "B" and isinstance(vectorizer, AverageVectorizer):
        options = {"posterior": "prior", **options}
    kind_of_options, module = simulation.MEASURED[kind]
    pair = module.measure(prepare(vectorizer, texts, kind_of_options(**options)))
    return pair if return_posterior else pair[0]


@pytest.fixture
def uncalibrated(monkeypatch):
    """Kind A with scale 1 and shift 0."""
    monkeypatch.setattr(word_certificate, "calibrate", lambda m, *_: (1.0, np.zeros(m.shape[1])))


@pytest.fixture(scope="module")
def vectorizer(language):
    return AverageVectorizer(language.words, n_jobs=1)


@pytest.fixture(scope="module", params=KINDS)
def certificate(request, vectorizer, documents):
    test_size = 0.25 if request.param == "B" else 0.1  # B counts documents: enough of them
    return certify(vectorizer, documents, request.param, test_size=test_size)


class TestEveryKind:
    def test_the_bound_is_above_the_held_out_risk_and_not_far(self, certificate):
        assert certificate.empirical_risk > 0
        assert certificate.error_upper > certificate.held_out_risk
        assert certificate.error_upper < 1.35 * certificate.held_out_risk

    def test_it_states_the_guarantee_and_its_origin(self, certificate, documents, language):
        text = certificate.details()
        assert f"Certificate {certificate.kind}: with 95% confidence" in text
        assert f"{certificate.n:,} " in text and "not about its mean" in text
        assert f"Assumption: {certificate.assumption}" in text
        assert str(certificate).endswith(f"Valid if {certificate.assumption}")
        assert certificate.text_digest == language.words.vocabulary.digest(documents)
        assert len(certificate.vectors_digest) == 64 and certificate.pacsent_version
        assert certificate.encoder.startswith("AverageVectorizer(")

    def test_the_same_seed_gives_the_same_certificate(self, vectorizer, documents):
        first, same, other = (certify(vectorizer, documents, random_state=n) for n in (0, 0, 1))
        assert first == same and first.error_upper != other.error_upper


class TestTheLinkToTheorem1:
    """KL, n and the paper's own bound, beside the bound that a certificate uses."""

    def test_a_certificate_of_the_prior_says_so(self, vectorizer, documents):
        for kind in ("A", "B"):
            summary = certify(vectorizer, documents, kind).summary()
            assert summary.endswith("KL = 0: the prior is certified.")

    def test_a_posterior_that_looked_is_named_with_its_kl(self, vectorizer, documents):
        certificate = certify(vectorizer, documents, posterior="vectorizer")
        assert certificate.kl > 0
        assert f"KL = {certificate.kl:,.4g} nats: a posterior that dep" in certificate.summary()

    def test_at_the_best_lambda_it_is_the_smallest_of_many(self):
        lams = np.geomspace(1, 1e4, 4001)
        for risk, kl, n in ((0.1164, 0.0, 146), (0.3, 12.0, 500)):
            best = bounds.catoni(risk, kl, n, 0.05, lam=lams).min()
            text = theorem_1(risk, n, 0.05, 0.5, "another bound", kl=kl)
            stated = float(re.search(r"gives (\d\.\d+)", text)[1])
            assert best - 1e-4 <= stated <= best + 2e-4

    def test_a_best_lambda_is_no_certificate_if_the_posterior_looked(self):
        text = theorem_1(0.3, 500, 0.05, 0.5, "another bound", kl=12.0)
        over_grid = bounds.catoni_over_grid(0.3, 12.0, 500, 0.05)
        assert "no certificate" in text and f"over a grid of lambdas {over_grid:.2f}" in text

    def test_details_show_it_and_a_printed_certificate_does_not(self, vectorizer, documents):
        for kind in ("continuation", "A", "B"):
            certificate = certify(vectorizer, documents, kind)
            assert "Theorem 1 of Nozawa and Sato: " in certificate.details()
            assert "Theorem 1" not in str(certificate)

    def test_a_loss_without_a_bound_has_none(self, vectorizer, documents):
        assert "Theorem 1" not in certify(vectorizer, documents, "C").details()

    @pytest.mark.parametrize("kind", ["continuation", "A", "C"])
    def test_one_function_makes_every_kind(self, vectorizer, documents, kind):
        same = certify_encoder(vectorizer, documents, kind=kind, random_state=0)
        assert same == certify(vectorizer, documents, kind)

    def test_an_unknown_kind_is_an_error(self, vectorizer, documents):
        with pytest.raises(ValueError, match=r"kind must be one of .*'A'.*Got 'Z' instead"):
            certify_encoder(vectorizer, documents, kind="Z")

    def test_an_option_of_another_kind_is_an_error(self, vectorizer, documents):
        with pytest.raises(ValueError, match="posterior must be left out for kind='continuation'"):
            certify_encoder(vectorizer, documents, posterior="prior")


class TestPosteriorsOfWPBNeg:
    """Kind B with the posteriors of the method itself."""

    @pytest.mark.parametrize("lam", [0.1, 1.0])
    def test_prior_and_posterior_have_one_scale(self, language, documents, lam):
        encoder = make_encoder("w-PB-neg", language.words, lam=lam, n_epochs=5, n_jobs=1)
        own = certify(encoder, documents, "B", posterior="vectorizer")
        assert 0 < own.kl < own.n
        assert own.error_upper < 0.6

    def test_a_prior_of_another_scale_costs_much_more(self, language, documents):
        encoder = make_encoder("w-PB-neg", language.words, n_epochs=5, n_jobs=1, random_state=0)
        own = certify(encoder, documents, "B", posterior="vectorizer")

        learned = encoder.fit(documents)  # with variances from the counts of these documents
        variances = np.ones(language.words.n_words)
        variances[learned.words_] = learned.word_variances_
        means = language.words.output_vectors.copy()
        means[learned.words_] = learned.word_means_
        other = certify(encoder, documents, "B", posterior=(means, variances))
        assert other.kl > 100 * own.kl

    def test_the_posterior_is_trained_under_the_prior_that_was_given(self, language, documents):
        encoder = make_encoder("w-PB-neg", language.words, n_epochs=5, n_jobs=1, random_state=0)
        variances = np.full(language.words.n_words, 1e-8)
        words, means, trained = encoder.word_posteriors(documents, variances, 1.0)
        assert_allclose(means, language.words.output_vectors[words], atol=1e-4)
        assert_allclose(trained, 1e-8, rtol=1e-3)


class TestWords:
    def test_ingredients_are_the_exact_ones(self, vectorizer, documents, language):
        certificate, gibbs = certify(
            vectorizer, documents, posterior="vectorizer", return_posterior=True
        )
        words = language.words
        counts = words.vocabulary.count(gibbs.parts.sample)
        noise = words.vocabulary.noise_probabilities()
        tables = counts, words.input_vectors, noise
        risk = gibbs_risk(gibbs.means, gibbs.variances, *tables, bias=gibbs.bias)
        weight = gibbs.parts.n_sample / gibbs.parts.n_sample.sum()
        kl = kl_gaussians(
            gibbs.means, gibbs.variances, gibbs.prior_means, gibbs.prior_variances
        ).sum()
        assert_allclose(certificate.empirical_risk, weight @ risk.positive, rtol=1e-9)
        assert abs(certificate.noise_risk - weight @ risk.noise) <= certificate.noise_margin
        assert_allclose(certificate.kl, kl, rtol=1e-9)
        assert certificate.kl > 1.0
        assert certificate.bias == np.float32(np.log(5))  # the vectors' own number of negatives
        assert certificate.n == gibbs.parts.n_sample.sum()
        complexity = certificate.kl + bounds.ln_xi(certificate.n) + np.log(20)
        by_hand = bounds.kl_inverse(certificate.empirical_risk, complexity / certificate.n)
        total = 0.5 * (by_hand + certificate.noise_risk + certificate.noise_margin)
        assert_allclose(certificate.error_upper, total, rtol=1e-10)

    def test_nothing_the_prior_is_made_of_depends_on_the_sample(self, vectorizer, documents):
        def shuffled(seed):
            """The same documents with other words wherever the sample will be."""
            rng = np.random.default_rng(0)  # the seed that certify will use
            n = np.diff(documents.offsets)
            document = np.repeat(np.arange(n.size), n)
            order = np.argsort(document + rng.random(documents.ids.size), kind="stable")
            place = np.arange(documents.ids.size) - np.repeat(documents.offsets[:-1], n)
            later = order[place >= np.rint(0.7 * n)[document]]
            ids = documents.ids.copy()
            ids[later] = np.random.default_rng(seed).integers(0, 200, later.size)
            return Encoded(ids, documents.offsets, documents.n_unknown)

        found = []
        for seed in (1, 2):
            certificate, gibbs = certify(
                IDFVectorizer(vectorizer.word_vectors), shuffled(seed), return_posterior=True
            )
            found.append((gibbs.prior_means, certificate.prior_variance, gibbs.parts.sample.ids))
        assert np.array_equal(found[0][0], found[1][0])
        assert found[0][1] == found[1][1]
        assert not np.array_equal(found[0][2], found[1][2])

    @pytest.mark.usefixtures("uncalibrated")
    def test_any_posterior_may_be_certified_against_the_exact_kl(self, vectorizer, documents):
        means, variances = vectorizer.fit(documents).posterior(documents)
        learned = make_encoder("PB-neg", vectorizer.word_vectors, n_negatives=5).fit(documents)
        for posterior in ((means, variances), learned.posterior(documents)):
            certificate, gibbs = certify(
                vectorizer, documents, posterior=posterior, return_posterior=True
            )
            assert certificate.posterior == "given"
            assert_allclose(gibbs.means, posterior[0], rtol=1e-6)
            kl = kl_gaussians(
                gibbs.means, posterior[1], gibbs.prior_means, gibbs.prior_variances
            ).sum()
            assert_allclose(certificate.kl, kl, rtol=1e-6)

    def test_staying_at_the_prior_is_paid_if_the_sample_may_choose_it(self, vectorizer, documents):
        stay, auto, learned = (
            certify(vectorizer, documents, posterior=posterior)
            for posterior in ("prior", "auto", "vectorizer")
        )
        assert (stay.corrections, auto.corrections) == ({}, {"branches": 2})
        assert (auto.bound_name == "chernoff") == (auto.kl == 0)
        assert auto.error_upper <= stay.error_upper + 2e-3  # ranked by an estimate
        # which posterior is asked for does not change the prior
        assert stay.prior_variance == auto.prior_variance == learned.prior_variance
        # staying pays no logarithm of n
        assert (stay.kl, stay.bound_name) == (0.0, "chernoff")
        chernoff = bounds.kl_inverse(stay.empirical_risk, np.log(20) / stay.n)
        assert_allclose(stay.positive_error_upper, chernoff, rtol=1e-9)
        with_xi = bounds.maurer(stay.empirical_risk, 0.0, stay.n, 0.05, constant="xi")
        assert stay.positive_error_upper < with_xi

    def test_strings_and_short_documents(self, language):
        texts = [f"w0 w1 w2 w3 w4 w{i}" for i in range(30)] + [f"w9 w{i}" for i in range(30)]
        texts += ["", "w7", "OOV words only"] * 30
        words = language.words
        vocabulary = Vocabulary(
            words.vocabulary.words, words.vocabulary.counts, normalize=str.split
        )
        words = WordVectors(vocabulary, words.input_vectors, words.output_vectors)
        certificate = certify(AverageVectorizer(words), texts)
        assert (certificate.n_documents, certificate.n_left_out) == (60, 90)


class TestDocuments:
    def test_word_posteriors_learned_from_the_documents(self, language, documents):
        settings = {"prior_variance": 0.01, "n_negatives": 5, "n_epochs": 3, "n_jobs": 1}
        learned = make_encoder("w-PB-neg", language.words, **settings)
        stay = certify(learned, documents, "B", posterior="prior")
        auto = certify(learned, documents, "B")
        assert (stay.posterior, stay.kl) == ("prior", 0.0)
        assert auto.verify() and auto.step is not None
        assert auto.error_upper <= stay.error_upper + 0.02
        exact, gibbs = certify(
            learned, documents, "B", posterior="vectorizer", return_posterior=True
        )
        kl = kl_gaussians(
            gibbs.word_means, gibbs.word_variances, gibbs.prior_means, gibbs.prior_variances
        ).sum()
        assert_allclose(exact.kl, kl, rtol=1e-6)

    def test_the_prior_of_the_words_is_the_sources(self, language, documents):
        _, gibbs = certify(AverageVectorizer(language.words), documents, "B", return_posterior=True)
        counts = language.words.vocabulary.counts
        assert_allclose(gibbs.prior_variances, 0.01 * np.median(counts) / counts)
        assert_allclose(gibbs.prior_means, language.words.output_vectors)

    def test_one_draw_per_word_type(self):
        encoded = Encoded.from_lengths(np.array([0, 0, 1]), [3])
        mean, variance = document_certificate.mixed(
            encoded, np.array([[3.0], [6.0]]), np.array([1.0, 4.0])
        )
        assert_allclose(mean, [[4.0]])
        assert_allclose(variance, [4 / 9 + 4 / 9])


class TestSplit:
    def test_parts_are_disjoint_and_complete(self, documents, rng):
        small = token_parts.split_tokens(
            Encoded.from_lengths(np.array([3, 4, 5]), [2, 1]), 0.9, 0.5, rng
        )
        assert small.rows.tolist() == [0]  # of two tokens one goes to each
        assert (small.prior.ids.size, small.sample.ids.size, small.held_out.ids.size) == (1, 1, 0)
        parts = token_parts.split_tokens(documents, 0.5, 0.2, rng)
        assert parts.rows.size == documents.n_sentences
        for row in range(0, 600, 97):
            whole = documents.ids[documents.offsets[row] : documents.offsets[row + 1]]
            pieces = [
                part.ids[part.offsets[row] : part.offsets[row + 1]]
                for part in (parts.prior, parts.sample, parts.held_out)
            ]
            assert min(pieces[0].size, pieces[1].size) >= 1
            assert np.array_equal(np.sort(np.concatenate(pieces)), np.sort(whole))
            joined = token_parts.join(parts.prior, parts.sample).take([row]).ids
            assert np.array_equal(np.sort(joined), np.sort(np.concatenate(pieces[:2])))

    def test_every_token_is_as_likely_in_the_prior(self):
        encoded = Encoded.from_lengths(np.arange(6), [6])
        rng = np.random.default_rng(0)
        seen = np.zeros(6)
        for _ in range(3000):
            seen[token_parts.split_tokens(encoded, 0.5, 0.0, rng).prior.ids] += 1
        assert_allclose(seen / 3000, 0.5, atol=0.05)


class TestSquares:
    def test_kappa_is_the_maximum_and_bounds_the_range(self, rng):
        """range^2 / 8 <= kappa D^4 + D^2 r^2 / 2 for words within D of m and |h - m| = r."""
        x = np.linspace(0, 1, 100_001)
        assert_allclose(((1 + x) ** 4 / 32 - x**2 / 2).max(), squared_certificate.KAPPA, atol=1e-9)
        D, r = rng.uniform(0.1, 3, 1000), rng.uniform(0, 9, 1000)
        span = np.where(r >= D, 2 * r * D, (r + D) ** 2 / 2)
        assert np.all(span**2 / 8 <= squared_certificate.KAPPA * D**4 + D**2 * r**2 / 2 + 1e-12)

    def test_the_farthest_word(self, rng):
        A_hat = rng.standard_normal((50, 4)).astype(np.float32)
        m = rng.standard_normal((7, 4))
        true = np.linalg.norm(A_hat[None] - m[:, None], axis=2).max(axis=1)
        found = squared_certificate.farthest_word(A_hat, m)
        assert np.all(found >= true)
        assert_allclose(found, true, rtol=1e-4)

    def test_the_moments_of_the_distances_are_enough(self, rng):
        """Never below the sum over documents, and near it."""
        n_s, D = rng.integers(1, 40, 200), rng.uniform(1.0, 3.0, 200)
        n, lam, tau = int(n_s.sum()), 400.0, 0.02
        inside = lam**2 * n_s * D**2 * tau / n**2
        spread = squared_certificate.KAPPA * lam**2 * (n_s * D**4).sum() / n**2
        exact = np.log(20) + spread - 0.5 * 8 * np.log1p(-inside).sum()
        moments = squared_certificate.Distances.of(n_s, D)
        found = squared_certificate.squared_loss_complexity(lam, n, 0.05, tau, 8, moments)
        assert exact <= found <= exact * 1.05
        assert inside.max() > 0.03
        wide = squared_certificate.squared_loss_complexity(lam, n, 0.05, 2.0, 8, moments)
        assert wide == np.inf


class TestRefusals:
    def test_vectors_trained_on_the_certified_text(self, language, documents):
        words = language.words
        digest = words.vocabulary.digest(documents)
        seen = WordVectors(
            words.vocabulary, words.input_vectors, words.output_vectors, corpus_digest=digest
        )
        with pytest.raises(ValueError, match=r"were trained on 600 of the 600 documents"):
            certify(AverageVectorizer(seen), documents)
        half = WordVectors(words.vocabulary, words.input_vectors)
        with pytest.raises(ValueError, match="must have output vectors to be certified"):
            certify(AverageVectorizer(half, alpha=0.0), ["w1 w2"])
        with pytest.raises(TypeError, match="encoder must be"):
            certify(dict, ["good film"] * 20)
        lengths = as_encoder(lambda texts: [[1.0, len(text)] for text in texts])
        with pytest.raises(TypeError, match=r"with word vectors\. Got ExternalEncoder"):
            certify(lengths, ["good film"] * 20)

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
        with pytest.raises(ValueError, match=message):
            certify(vectorizer, **{"texts": documents, **options})

    def test_a_foreign_json(self):
        with pytest.raises(ValueError, match="text must be a certificate as to_json writes it"):
            read_certificate('{"a": 1}')
        with pytest.raises(ValueError, match=r"format_version must be 5. Got 1 instead"):
            read_certificate('{"kind": "A", "error_upper": 1, "format_version": 1}')
        values = {"kind": "A", "error_upper": 1, "format_version": 5}
        with pytest.raises(ValueError, match=r"incomplete or was changed .*'delta'"):
            read_certificate(json.dumps({**values, "checksum": checksum(values)}))


@pytest.mark.usefixtures("uncalibrated")
class TestVacuous:
    def test_it_names_what_is_too_large(self, vectorizer, documents):
        means, _ = vectorizer.fit(documents).posterior(documents)
        far = means + 5.0 * np.sign(means), np.full(len(means), 1e-4)
        for texts, options, reason in (
            (documents, {"posterior": far, "bias": 1.6, "prior_variance": 0.01}, "kl = .* nats is"),
            (documents, {"bias": -50.0}, r"the empirical risk .* alone is no better"),
            (documents.take(np.arange(2)), {"delta": 1e-12}, r"n = \d+ words are too few for"),
        ):
            certificate = certify(vectorizer, texts, **options)
            pattern = f"\nNo guarantee: the bound is no better than guessing: {reason}"
            assert re.search(pattern, str(certificate))
            assert certificate.is_vacuous and certificate.verify()


class TestMutations:
    """Loosen the bound in the three ways that matter: what is there must notice."""

    def test_dropping_the_logarithm_of_n(self, vectorizer, documents, monkeypatch):
        with monkeypatch.context() as patch:
            patch.setattr(bounds, "ln_xi", lambda n: 0.0 * n)
            loose = certify(vectorizer, documents, posterior="vectorizer")
        with pytest.raises(
            ValueError, match=r"positive_error_upper must be .* computed from its parts"
        ):
            loose.verify()

    def test_delta_where_a_share_of_it_is_due(self, vectorizer, documents):
        honest = certify(vectorizer, documents)
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
            assert coverage.paper_violations == 30
            assert kind != "A" or coverage.paper_mean_risk - coverage.paper_mean_bound > 0.05

    def test_mistakes(self):
        for arguments, message in (
            (("A", "poems"), "setting must be one of"),
            (("Z",), "kind must be one of"),
            (("A", "topics", 0), "n_replicates must be at least 1"),
            (("B", "drift", 1), r"must be 'continuation' or 'A' in drift. Got 'B'"),
        ):
            with pytest.raises(ValueError, match=message):
                simulation.simulate(*arguments)


def test_two_sided_limits_are_the_exact_ones():
    assert_allclose(two_sided_limits(3, 40, 0.05), [0.015736, 0.203864], atol=1e-5)
    assert two_sided_limits(40, 40, 0.05)[1] == 1.0


def test_the_command_prints_all_bounds():
    arguments = ["paper", "bound", "--risk", "0.1", "--kl", "5", "--n", "200"]
    printed = invoke(*arguments, status=0)
    assert "0.226466" in printed.output
    words = " ".join(printed.output.split())  # lines are as wide as the terminal
    assert "must be fixed before the sample is seen" in words
    rows = json.loads(invoke(*arguments, "--json").output)["bounds"]
    values = [value for _, value, _ in bounds.compare(0.1, 5, 200, 0.05)]
    assert [row["value"] for row in rows] == values
