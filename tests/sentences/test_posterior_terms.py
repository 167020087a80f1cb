"""prior, kl, objective and bound of the methods, each by a second route."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from pacsent import Vocabulary, WordVectors, list_encoders, make_encoder
from pacsent.paper.printed import simulate_bound
from pacsent.sentences.methods.closed_forms import ClosedForm
from pacsent.sentences.posterior_terms import ObjectiveTerms
from reference import w_pb_neg_reference

WITH_POSTERIOR = ("PB-L2", "PB-IDF-L2", "PB-neg", "PB-01")
NAMES = "abcdefg"


@pytest.fixture(scope="module")
def example(golden):
    """The worked example of the golden file, and its three sentences as token lists."""
    facts = golden("methods")["example"]
    tables = np.array(facts["I"]), np.array(facts["O"])
    training = {"n_negatives": 3}
    words = WordVectors(Vocabulary(list(NAMES), facts["counts"]), *tables, training=training)
    X = [[NAMES[w] for w in sentence] for sentence in facts["sentences"]]
    return words, X, facts


def product_of_experts(means, variances):
    """(mean, covariance) of the product of isotropic Gaussians, multiplied one by one."""
    n_dims = means.shape[1]
    precision = np.zeros((n_dims, n_dims))
    weighted = np.zeros(n_dims)
    for mean, variance in zip(means, variances):
        precision += np.eye(n_dims) / variance
        weighted += mean / variance
    covariance = np.linalg.inv(precision)
    return covariance @ weighted, covariance


def kl_of_any_gaussians(mu_Q, cov_Q, mu_P, cov_P):
    """The textbook formula with matrices."""
    inverse = np.linalg.inv(cov_P)
    away = mu_P - mu_Q
    log_ratio = np.linalg.slogdet(cov_P)[1] - np.linalg.slogdet(cov_Q)[1]
    return 0.5 * (np.trace(inverse @ cov_Q) + away @ inverse @ away - len(mu_Q) + log_ratio)


SWAPPED = tuple(f"i-{name}" for name in WITH_POSTERIOR)


def weights_of(name, sentence, facts):
    """IDF of the tokens for a method that uses it, else ones."""
    if "IDF" in name:
        return np.array(facts["idf"])[sentence]
    return np.ones(len(sentence))


def priors_by_hand(name, words, facts):
    """Mean and covariance of the product of experts of each sentence, of variance 0.7."""
    _, B_hat = words.roles(swap=name.startswith("i-"))
    for sentence in facts["sentences"]:
        weights = weights_of(name, sentence, facts)
        yield product_of_experts(B_hat[sentence], 0.7 / weights)


@pytest.mark.parametrize("name", [*WITH_POSTERIOR, *SWAPPED])
def test_prior_is_the_product_of_experts(example, name):
    words, X, facts = example
    encoder = make_encoder(name, words, lam=2.0, prior_variance=0.7).fit(X)

    prior_means, prior_variances = encoder.prior(X)

    for s, (mean, covariance) in enumerate(priors_by_hand(name, words, facts)):
        assert_allclose(prior_means[s], mean, rtol=1e-12)
        assert_allclose(prior_variances[s] * np.eye(4), covariance, rtol=1e-12)


@pytest.mark.parametrize("name", [*WITH_POSTERIOR, *SWAPPED])
def test_kl_is_that_of_matrices(example, name):
    words, X, facts = example
    encoder = make_encoder(name, words, lam=2.0, prior_variance=0.7).fit(X)
    means, variances = encoder.posterior(X)

    kls = encoder.kl(X)

    for s, prior in enumerate(priors_by_hand(name, words, facts)):
        covariance = variances[s] * np.eye(4)
        by_hand = kl_of_any_gaussians(means[s], covariance, *prior)
        assert_allclose(kls[s], by_hand, rtol=1e-9, atol=1e-14)


def test_objective_of_pb_neg_is_the_golden_value_of_the_optimum(example, golden):
    words, X, _ = example
    n_tested = 0
    for row in golden("methods")["optima"]["pb_neg"]:
        if row["kl"] == "paper":
            continue
        settings = {"lam": row["lam"], "prior_variance": row["sigma_P2"], "tol": 1e-9}
        encoder = make_encoder("PB-neg", words, **settings).fit(X)
        assert_allclose(encoder.objective(X)[row["sentence"]], row["value"], rtol=1e-10)
        n_tested += 1
    assert n_tested > 3


def draw_posterior(encoder, X, n_draws, rng):
    """Vectors of three sentences, of shape (n_draws, 3, 4)."""
    means, variances = encoder.posterior(X)
    deviations = np.sqrt(variances)[:, None]
    return means + deviations * rng.standard_normal((n_draws, 3, 4))


@pytest.mark.parametrize("name", ["PB-L2", "PB-IDF-L2"])
def test_objective_of_squared_loss_is_what_draws_from_the_posterior_cost(example, name, rng):
    words, X, facts = example
    encoder = make_encoder(name, words, lam=2.0).fit(X)
    vectors = draw_posterior(encoder, X, 200_000, rng)

    data_terms = encoder.objective(X) - encoder.kl(X) / 2.0

    for s, sentence in enumerate(facts["sentences"]):
        beta = weights_of(name, sentence, facts)
        if "IDF" in name:
            beta = beta * len(sentence)
        differences = words.input_vectors[sentence] - vectors[:, s, None]
        distances = (differences**2).sum(axis=2)  # (n_draws, n_tokens)
        losses = distances @ beta / (2 * len(sentence))
        error = 4 * losses.std() / np.sqrt(len(losses))
        assert abs(data_terms[s] - losses.mean()) < error


@pytest.mark.parametrize(
    ("name", "settings"),
    [("PB-L2", {"lam": 2.0}), ("PB-IDF-L2", {"lam": 2.0}), ("Average", {"alpha": 0.8})],
)
def test_no_other_gaussian_has_a_smaller_objective(example, name, settings, rng):
    words, X, _ = example
    encoder = make_encoder(name, words, **settings).fit(X)
    solved = encoder._solve_sentences(X)
    best = encoder.objective(X)
    lam = encoder._lambda_of(solved.n_tokens)
    for _ in range(50):
        mu = solved.mu + 0.1 * rng.standard_normal(solved.mu.shape)
        var_Q = solved.var_Q * np.exp(0.3 * rng.standard_normal(3))
        other = solved._replace(mu=mu, var_Q=var_Q)
        value = encoder._data_terms(other) + encoder._kl_terms(other) / lam
        assert np.all(value > best)


@pytest.mark.parametrize(("name", "settings"), [("PB-L2", {}), ("PB-neg", {"n_negatives": 3})])
def test_bound_is_theorem_1_of_the_drawn_risk(example, name, settings, rng):
    words, X, facts = example
    k = 3
    encoder = make_encoder(name, words, lam=2.0, **settings).fit(X)

    p_noise = np.array(facts["counts"]) ** 0.75
    p_noise /= p_noise.sum()
    n = np.array([len(sentence) for sentence in facts["sentences"]])
    N = (k + 1) * n
    lam = 3.0 * N

    claimed = encoder.bound(X, delta=0.1, lam=lam)

    vectors = draw_posterior(encoder, X, 100_000, rng)
    scores = vectors @ words.input_vectors.T  # (n_draws, n_sentences, n_words)
    complexities = (encoder.kl(X) - np.log(0.1)) / N
    for s, sentence in enumerate(facts["sentences"]):
        missed = (scores[:, s, sentence] <= 0).mean()
        false = ((scores[:, s] >= 0) @ p_noise).mean()
        risk = (missed + k * false) / (k + 1)
        exponent = 3.0 * risk + complexities[s]
        value = (1 - np.exp(-exponent)) / (1 - np.exp(-3.0))
        assert_allclose(claimed[s], min(value, 1.0), atol=0.004)


def test_bound_takes_the_lambda_of_the_method_where_none_is_given(example):
    words, X, _ = example
    encoder = make_encoder("PB-L2", words, lam=4.0, lam_mode="per-token").fit(X)
    n = np.array([len(x) for x in X])
    assert_allclose(encoder.bound(X), encoder.bound(X, lam=4.0 * n), rtol=1e-15)
    average = make_encoder("Average", words, alpha=0.5).fit(X)
    assert_allclose(average.bound(X), average.bound(X, lam=n / 0.5), rtol=1e-15)


def test_first_sentence_of_bound_says_that_it_guarantees_nothing():
    from pacsent.sentences import SentenceVectorizer

    first = SentenceVectorizer.bound.__doc__.split("\n")[0]
    assert "no guarantee" in first
    assert "prior is made of the words it is tested on" in first


def test_objective_of_w_pb_neg_is_that_of_the_corpus(example):
    words, X, facts = example
    counts = words.vocabulary.count(X)
    tables = words.input_vectors, words.output_vectors
    n_types = len(facts["counts"])
    for weighting in ("sentence", "token"):
        settings = {"prior_variance": "paper", "weighting": weighting, "n_epochs": 3}
        encoder = make_encoder("w-PB-neg", words, lam=2.0, n_jobs=1, random_state=0, **settings)
        encoder.fit(X)

        rho = np.log(encoder.word_variances_)

        settings = {"n_negatives": 15, "lam": 2.0, "weighting": weighting}
        value, _, _ = w_pb_neg_reference.expected_objective(
            encoder.word_means_,
            rho,
            counts,
            *tables,
            encoder.prior_variances_,
            facts["p_n"],
            **settings,
        )

        constant = 0.5 * 4 * n_types / 2.0  # the paper leaves -d of each word's KL out
        assert_allclose(encoder.objective(X), value - constant, rtol=1e-6)
        assert isinstance(encoder.kl(X), float)
        assert 0.0 < encoder.bound(X, lam=1000.0) <= 1.0


def test_prior_of_w_pb_neg_is_that_of_a_mean_of_words_drawn_once(example, rng):
    words, X, _ = example
    encoder = make_encoder("w-PB-neg", words, prior_variance="paper", n_epochs=1, n_jobs=1).fit(X)
    means, variances = encoder.prior(X)
    deviation = np.sqrt(encoder.prior_variances_)[:, None]
    h = words.output_vectors + deviation * rng.standard_normal((100_000, 7, 4))
    drawn = h[:, [NAMES.index(w) for w in X[2]]].mean(axis=1)  # one word three times
    assert_allclose(drawn.mean(axis=0), means[2], atol=0.03)
    assert_allclose(drawn.var(axis=0), variances[2], rtol=0.03)


@pytest.mark.parametrize(
    ("name", "settings", "reason"),
    [
        ("Average", {}, "Got Average instead: with alpha=0 its posterior is a point"),
        ("IDF-Average", {}, "Got IDF-Average instead: with lam=inf its posterior is a point"),
        ("PB-L2", {"lam": float("inf")}, "with lam=inf its posterior is a point"),
        ("PV-DBOW", {"n_epochs": 1}, "its vectors are points, trained without a prior"),
        ("SIF", {}, "its prior lies around 0 and knows nothing of the words"),
        ("concat", {"lam": 2.0}, "its prior lies around 0 and knows nothing of the words"),
    ],
)
@pytest.mark.parametrize("asked", ["prior", "kl", "objective", "bound"])
def test_methods_without_a_posterior_say_why(example, name, settings, reason, asked):
    words, X, _ = example
    encoder = make_encoder(name, words, **settings).fit(X)
    with pytest.raises(ValueError, match=reason):
        getattr(encoder, asked)(X)


def test_every_method_answers_or_says_why(example):
    words, X, _ = example
    answered = set()
    for name in list_encoders():
        encoder = make_encoder(name, words, n_jobs=1).fit(X)
        try:
            assert np.all(np.isfinite(encoder.objective(X)))
            answered.add(name)
        except ValueError as error:
            assert "must be asked of a method with a posterior" in str(error)
    assert answered == {p + n for n in (*WITH_POSTERIOR, "w-PB-neg") for p in ("", "i-")}


def test_a_method_with_a_posterior_must_define_its_terms(example):
    class WithoutTerms(ObjectiveTerms, ClosedForm):
        """A method that promises a posterior, and defines nothing of its objective."""

        def _prepared(self):
            return None

    words, _, _ = example
    with pytest.raises(TypeError, match=r"_data_terms.*_lambda_of.*_prior_terms"):
        WithoutTerms(words)


def test_sentences_without_a_known_word_have_no_terms(example):
    words, X, _ = example
    encoder = make_encoder("PB-neg", words, on_empty="ignore").fit(X)
    texts = [X[0], ["unknown"], X[1]]
    for values in (encoder.kl(texts), encoder.objective(texts), encoder.bound(texts)):
        assert np.isnan(values[1])
        assert np.isfinite(values[[0, 2]]).all()
    assert np.isnan(encoder.prior(texts)[1][1])


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_terms_of_narrow_tables_are_those_of_wide_ones(example, dtype):
    words, X, _ = example
    tables = words.input_vectors.astype(dtype), words.output_vectors.astype(dtype)
    narrow = WordVectors(words.vocabulary, *tables)
    wide = WordVectors(words.vocabulary, *(table.astype(float) for table in tables))
    for name in ("PB-L2", "PB-IDF-L2", "PB-neg"):
        settings = {"tol": 1e-6} if name == "PB-neg" else {}
        found = [make_encoder(name, each, **settings).fit(X) for each in (narrow, wide)]
        for asked in ("kl", "objective", "bound"):
            first, second = (getattr(encoder, asked)(X) for encoder in found)
            assert_allclose(first, second, rtol=2e-4)


def test_bound_is_below_the_risk_and_a_prior_of_other_words_mends_it():
    found = simulate_bound(8, random_state=0)
    assert found.n_violations == 8
    assert found.n_violations_split == 0
    assert found.mean_bound < found.mean_risk - 0.05


@pytest.mark.slow
def test_bound_is_below_the_risk_in_200_of_200_sentences():
    found = simulate_bound(200, random_state=0)
    assert found.n_violations == 200
    assert found.n_violations_split <= 0.05 * 200
    assert "in 200 of 200 sentences" in str(found)
