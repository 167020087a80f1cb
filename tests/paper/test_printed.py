"""The paper as printed and as corrected, each by two routes; golden numbers have forty digits."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import optimize, sparse, stats

from pacsent import WordVectors, paper
from pacsent.arrays import unit_rows
from pacsent.bounds import pac_bayes as bounds
from pacsent.paper import evaluation, printed, reproduction
from pacsent.paper.features import features
from pacsent.paper.method_rows import ROWS
from pacsent.paper.printed import sgd, word_training
from pacsent.paper.printed.bound_over_posteriors import terms
from pacsent.sentences import AverageVectorizer, PBNegVectorizer
from pacsent.text.encoded import Encoded


@pytest.fixture(scope="module")
def numbers(golden):
    """The golden numbers of the methods."""
    return golden("methods")


@pytest.fixture(scope="module")
def given():
    """The worked example."""
    return printed.example()


@pytest.fixture(scope="module")
def counts(given):
    """Of the words of the example in each of its sentences."""
    vocabulary = given.words.vocabulary
    encoded = vocabulary.encode(given.texts)
    return sparse.csr_matrix(vocabulary.count(encoded), dtype=float)


def tables_of(name, given):
    """Both matrices in the order of a method: its prefix "i-" swaps them."""
    if name.startswith("i-"):
        return given.O_hat, given.I_hat
    return given.I_hat, given.O_hat


def kl_of(row):
    """The name of the penalty of a golden row."""
    return "printed" if row["kl"] == "paper" else "exact"


def test_the_example_is_the_golden_one(numbers, given):
    facts = numbers["example"]
    assert_array_equal(given.I_hat, facts["I"])
    assert_array_equal(given.O_hat, facts["O"])
    assert_allclose(given.p_noise, facts["p_n"], rtol=1e-15)
    assert_allclose(given.idf, facts["idf"], rtol=1e-15)
    assert [list(s) for s in given.sentences] == facts["sentences"]


class Sentence:
    """One sentence of the example: its tokens, their rows of both matrices and their IDF."""

    def __init__(self, given, number):
        self.tokens = given.sentences[number]
        self.inputs = given.I_hat[self.tokens]
        self.outputs = given.O_hat[self.tokens]
        self.idf = given.idf[self.tokens]
        self.tables = self.inputs, self.outputs


@pytest.fixture(scope="module")
def sentences(given):
    """Those of the example."""
    return [Sentence(given, number) for number in range(3)]


@pytest.fixture(scope="module")
def sentence(sentences):
    """The first, of five tokens."""
    return sentences[0]


def minimise(loss):
    """The mean and the variance at which loss(mean, variance) is smallest."""

    def of_vector(x):
        return loss(x[:-1], np.exp(x[-1]))

    options = {"ftol": 1e-16, "gtol": 1e-9}
    found = optimize.minimize(of_vector, np.zeros(5), method="L-BFGS-B", options=options)
    return found.x[:-1], np.exp(found.x[-1])


def kl_of_gaussians(mean, variance, prior_mean, prior_variance):
    """Between two spherical Gaussians of four dimensions, written out."""
    ratio = variance / prior_variance
    of_means = np.sum((mean - prior_mean) ** 2, axis=-1) / prior_variance
    return 0.5 * (of_means + 4 * (ratio - 1 - np.log(ratio)))


# ---- the KL ----------------------------------------------------------------------------------


def test_kl_as_printed_and_exact_are_golden(numbers, sentences):
    for row in numbers["kl"]:
        outputs = sentences[row["sentence"]].outputs
        posterior = row["mu"], np.exp(row["rho"])

        exact = printed.kl_exact(*posterior, outputs, row["sigma_P2"])
        as_printed = printed.kl_printed(*posterior, outputs, row["sigma_P2"])

        assert_allclose(exact, row["KL_exact_poe"], rtol=1e-13)
        assert_allclose(as_printed, row["paper_eq_explicit_kl_poe_WRONG"], rtol=1e-13)


def test_parts_of_the_kl_are_golden(numbers, sentences):
    for row in numbers["kl"]:
        outputs = sentences[row["sentence"]].outputs

        normaliser = printed.log_normaliser(outputs, row["sigma_P2"])
        entropy = printed.entropy(np.exp(row["rho"]), 4)

        assert_allclose(normaliser, row["logZ"], rtol=1e-13)
        assert_allclose(entropy, row["entropy_Q"], rtol=1e-13)


def test_the_printed_penalty_is_golden(numbers, sentences):
    for row in numbers["kl"]:
        outputs = sentences[row["sentence"]].outputs
        posterior = row["mu"], np.exp(row["rho"])

        parts = printed.penalty_printed(*posterior, outputs, lam=1.0, var_P=row["sigma_P2"])

        assert_allclose(sum(parts), row["paper_penalty_times_lambda"], rtol=1e-13)


POSTERIOR_MEAN = np.array([0.2, -0.1, 0.3, 0.0])


def test_kl_exact_is_the_mean_log_ratio_of_densities_and_kl_printed_is_not(sentence, rng):
    posterior = stats.multivariate_normal(POSTERIOR_MEAN, 0.4)
    experts = [stats.multivariate_normal(mean) for mean in sentence.outputs]
    drawn = POSTERIOR_MEAN + 0.4**0.5 * rng.standard_normal((400_000, 4))

    log_product = sum(expert.logpdf(drawn) for expert in experts)
    log_prior = log_product - printed.log_normaliser(sentence.outputs)
    log_ratio = posterior.logpdf(drawn) - log_prior

    exact = printed.kl_exact(POSTERIOR_MEAN, 0.4, sentence.outputs)
    as_printed = printed.kl_printed(POSTERIOR_MEAN, 0.4, sentence.outputs)
    standard_error = log_ratio.std() / 400_000**0.5
    assert abs(log_ratio.mean() - exact) < 4 * standard_error
    assert as_printed < 0 < exact


def test_printed_penalty_is_exact_for_the_geometric_mean_of_the_priors(sentence):
    prior_mean = sentence.outputs.mean(axis=0)
    kl = kl_of_gaussians(POSTERIOR_MEAN, 0.4, prior_mean, 0.7)

    parts = printed.penalty_printed(POSTERIOR_MEAN, 0.4, sentence.outputs, lam=2.0, var_P=0.7)

    constant = 5 * 4 / (2 * 2.0)  # of n tokens, d dimensions and lambda
    assert_allclose(sum(parts), 5 / 2.0 * kl + constant, rtol=1e-14)


# ---- squared loss ----------------------------------------------------------------------------


def closed_form(row, given, form):
    """Mean and variance of the method of a golden row."""
    name, _, variant = row["method"].partition("/")
    A_hat, B_hat = tables_of(name, given)
    tokens = given.sentences[row["sentence"]]
    tables = A_hat[tokens], B_hat[tokens]
    settings = {"lam": row["lam"], "form": form}
    if "IDF" not in name:
        return printed.l2_posterior(*tables, var_P=row["sigma_P2"], **settings)
    has_unit_prior = variant == "unit-prior"
    weights = given.idf[tokens]
    return printed.idf_l2_posterior(*tables, weights, unit_prior=has_unit_prior, **settings)


@pytest.mark.parametrize(
    ("form", "key"),
    [("printed", "var_printed"), ("printed loss", "var_paper_loss"), ("exact", "var_exact_kl")],
)
def test_closed_forms_are_golden_in_all_three_forms(numbers, given, form, key):
    n_tested = 0
    for row in numbers["closed_form"]:
        if "PB" not in row["method"]:
            continue

        mu, var_Q = closed_form(row, given, form)

        assert_allclose(mu, row["mu"], rtol=1e-12, atol=1e-15)
        if key in row:
            assert_allclose(var_Q, row[key], rtol=1e-13)
            n_tested += 1
    assert n_tested > 66


def minimise_squared_loss(sentence, weights, beta, form):
    """The mean and the variance of the method, by a general minimiser at lambda 2."""
    var_P = 1.0 / weights

    def sum_of_kls(mu, var_Q):
        distances = np.sum((mu - sentence.outputs) ** 2, axis=1)
        ratio = var_Q / var_P
        return 0.5 * np.sum(distances / var_P + 4 * (ratio - np.log(ratio)))

    def loss(mu, var_Q):
        data = printed.squared_loss(mu, var_Q, sentence.inputs, beta)
        if form == "exact":
            return data + printed.kl_exact(mu, var_Q, sentence.outputs, var_P) / 2.0
        return data + sum_of_kls(mu, var_Q) / 2.0

    return minimise(loss)


@pytest.fixture(params=["PB-L2", "PB-IDF-L2"])
def both_routes(request, sentence):
    """A function of the form of the loss: a general minimiser's result and the closed form."""

    def solve(form):
        if request.param == "PB-L2":
            found = minimise_squared_loss(sentence, np.ones(5), 1.0, form)
            return found, printed.l2_posterior(*sentence.tables, lam=2.0, form=form)
        found = minimise_squared_loss(sentence, sentence.idf, 5 * sentence.idf, form)
        return found, printed.idf_l2_posterior(*sentence.tables, sentence.idf, lam=2.0, form=form)

    return solve


@pytest.mark.parametrize("form", ["printed loss", "exact"])
def test_a_blind_minimiser_ends_at_the_corrected_forms(both_routes, form):
    (mu, var_Q), (formula_mu, formula_var_Q) = both_routes(form)

    assert_allclose(mu, formula_mu, atol=1e-5)
    assert_allclose(var_Q, formula_var_Q, rtol=1e-5)


def test_a_blind_minimiser_ends_at_the_printed_mean_and_not_at_the_printed_variance(both_routes):
    (mu, var_Q), (formula_mu, formula_var_Q) = both_routes("printed")

    assert_allclose(mu, formula_mu, atol=1e-5)
    assert abs(var_Q / formula_var_Q - 1.0) > 0.2


def test_factor_of_the_main_text_doubles_lambda(sentence):
    arguments = *sentence.tables, sentence.idf

    main_text, _ = printed.idf_l2_posterior(*arguments, lam=2.0, factor="main text")
    appendix, _ = printed.idf_l2_posterior(*arguments, lam=2.0)
    appendix_doubled, _ = printed.idf_l2_posterior(*arguments, lam=4.0)

    assert_allclose(main_text, appendix_doubled, rtol=1e-15)
    assert np.abs(main_text - appendix).max() > 0.01


def test_first_prior_has_n_times_the_mean_of_the_product(sentence):
    of_product, _ = printed.product_prior(sentence.outputs)

    mean, variance = printed.sum_prior(sentence.outputs)

    assert_allclose(mean, 5 * of_product)
    assert variance == 1.0


def test_first_posterior_minimises_its_own_objective(sentence):
    prior_mean, _ = printed.sum_prior(sentence.outputs)

    def loss(mu, var_Q):
        kl = kl_of_gaussians(mu, var_Q, prior_mean, 1.0)
        return printed.squared_loss(mu, var_Q, sentence.inputs) + kl / 3.0

    mu, var_Q = printed.sum_prior_posterior(*sentence.tables, lam=3.0)

    best_mu, best_var_Q = minimise(loss)
    of_product, _ = printed.l2_posterior(*sentence.tables, lam=3.0)
    assert_allclose(best_mu, mu, atol=1e-4)
    assert_allclose(best_var_Q, var_Q, rtol=1e-4)
    assert np.linalg.norm(mu - of_product) > 0.05


def test_dividing_the_loss_by_its_largest_value_is_a_smaller_lambda(sentences):
    inputs, outputs = sentences[1].tables

    def loss(mu, var_Q):
        data = printed.squared_loss(mu, var_Q, inputs)
        return data / 25.0 + printed.kl_exact(mu, var_Q, outputs) / 8.0

    lam = printed.rescaled_loss_lambda(8.0, largest=25.0)
    mu, _ = printed.l2_posterior(inputs, outputs, lam=lam)

    best_mu, _ = minimise(loss)
    assert_allclose(best_mu, mu, atol=1e-4)


def test_unit_prior_of_its_row_is_the_formula(given, sentences):
    vectorizer = printed.make_printed("PB-IDF-L2 (unit prior)", given.words, lam=2.0)

    vectors = vectorizer.fit(given.texts).transform(given.texts)

    for vector, sentence in zip(vectors, sentences):
        arguments = *sentence.tables, sentence.idf
        mu, _ = printed.idf_l2_posterior(*arguments, lam=2.0, unit_prior=True)
        assert_allclose(vector, mu, atol=1e-6)


def test_sum_prior_of_its_row_is_the_formula(given, sentences):
    vectorizer = printed.make_printed("PB-L2 (sum prior)", given.words, lam=2.0)

    vectors = vectorizer.fit(given.texts).transform(given.texts)

    for vector, sentence in zip(vectors, sentences):
        mu, _ = printed.sum_prior_posterior(*sentence.tables, lam=2.0)
        assert_allclose(vector, mu, atol=1e-6)


def test_sub_sampling_keeps_a_frequent_word_less_often(given):
    keep = given.words.vocabulary.keep_probabilities(0.05)

    assert keep[2] < keep[0] < 1.0


@pytest.fixture(scope="module")
def sub_sampled(given):
    """The row of PB-L2 that weighs tokens by their chance to be kept, fitted to the example."""
    vectorizer = printed.make_printed("PB-L2 (sub-sampled)", given.words, lam=2.0, subsample=0.05)
    return vectorizer.fit(given.texts)


def test_sub_sampling_weighs_each_token_by_its_chance_to_be_kept(given, sentence, sub_sampled):
    keep = given.words.vocabulary.keep_probabilities(0.05)
    weights = keep[sentence.tokens]
    n_kept = weights.sum()
    alpha = n_kept / 2.0
    inputs = weights @ sentence.inputs / n_kept
    outputs = weights @ sentence.outputs / n_kept

    vector = sub_sampled.transform(given.texts)[0]

    assert_allclose(vector, (inputs + alpha * outputs) / (1 + alpha), atol=1e-6)


def test_sub_sampling_gives_zeros_to_a_text_of_unknown_words(sub_sampled):
    vector = sub_sampled.transform([["unknown"]])[0]

    assert_array_equal(vector, np.zeros(4))


# ---- negative sampling -----------------------------------------------------------------------


def sampled_loss(row, numbers, given):
    """The loss of a golden row, with the numbers that it was drawn at."""
    drawn = numbers["pb_neg_sampled"]
    sentence = row["sentence"]
    A_hat, B_hat = tables_of(row["method"], given)
    return printed.sampled_loss(
        drawn["mu"][sentence],
        drawn["rho"][sentence],
        drawn["eps"][sentence],
        given.sentences[sentence],
        drawn["negatives"][sentence],
        A_hat,
        B_hat,
        lam=row["lam"],
        var_P=row["sigma_P2"],
        kl=kl_of(row),
    )


def test_parts_of_the_sampled_loss_are_golden_for_both_penalties(numbers, given):
    for row in numbers["pb_neg_sampled"]["rows"]:
        found = sampled_loss(row, numbers, given)

        assert_allclose(found.data, row["data"], rtol=1e-12)
        assert_allclose(found.mean_penalty, row["mean_penalty"], rtol=1e-12)
        assert_allclose(found.variance_penalty, row["var_penalty"], rtol=1e-12)
        assert_allclose(found.total, row["total"], rtol=1e-12)


def test_gradients_of_the_sampled_loss_are_golden_for_both_penalties(numbers, given):
    for row in numbers["pb_neg_sampled"]["rows"]:
        found = sampled_loss(row, numbers, given)

        assert_allclose(found.grad_mu, row["grad_mu"], rtol=1e-11, atol=1e-13)
        assert_allclose(found.grad_rho, row["grad_rho"], rtol=1e-11)


def test_expected_loss_is_golden_for_both_penalties(numbers, given, counts):
    posterior = numbers["pb_neg_expected"]
    mu = np.array(posterior["mu"])
    var_Q = np.exp(posterior["rho"])
    for row in posterior["rows"]:
        found = printed.expected_loss(
            mu,
            var_Q,
            counts,
            tables_of(row["method"], given),
            given.p_noise,
            lam=row["lam"],
            var_P=row["sigma_P2"],
            n_negatives=posterior["k"],
            kl=kl_of(row),
        )

        assert_allclose(found[row["sentence"]], row["total"], rtol=1e-9)


@pytest.fixture(scope="module")
def solved(numbers, given):
    """Golden optima of the printed loss, each with the means and variances that PB-neg finds."""
    rows = [row for row in numbers["optima"]["pb_neg"] if row["kl"] != "exact"]
    assert len(rows) > 3

    pairs = []
    for row in rows:
        vectorizer = printed.PrintedPBNegVectorizer(
            given.words, lam=row["lam"], prior_variance=row["sigma_P2"], tol=1e-9
        )
        posterior = vectorizer.fit(given.texts).posterior(given.texts)
        pairs.append((row, posterior))
    return pairs


def test_the_solver_of_pb_neg_ends_at_the_golden_optima_of_the_printed_loss(solved):
    for row, (means, variances) in solved:
        sentence = row["sentence"]
        assert_allclose(means[sentence], row["mu"], atol=1e-7)
        assert_allclose(np.log(variances[sentence]), row["rho"], atol=1e-7)


def test_the_printed_loss_is_golden_at_its_optima(solved, given, counts):
    tables = (given.I_hat, given.O_hat)
    for row, posterior in solved:
        values = printed.expected_loss(
            *posterior,
            counts,
            tables,
            given.p_noise,
            lam=row["lam"],
            var_P=row["sigma_P2"],
            kl="printed",
        )

        assert_allclose(values[row["sentence"]], row["value"], rtol=1e-9)


def test_printed_loss_has_another_optimum_than_pb_neg(given):
    of_printed = printed.PrintedPBNegVectorizer(given.words, lam=8.0, tol=1e-9)
    corrected = PBNegVectorizer(given.words, lam=8.0, tol=1e-9)

    printed_means, printed_variances = of_printed.fit(given.texts).posterior(given.texts)
    means, variances = corrected.fit(given.texts).posterior(given.texts)

    distances = np.linalg.norm(printed_means - means, axis=1)
    assert np.all(distances > 0.01)
    assert np.all(printed_variances > 2 * variances)  # it stays near var_P, not var_P/n


# ---- the paper's optimiser -------------------------------------------------------------------


@pytest.fixture(scope="module")
def step_by_hand(given):
    """mu and rho of one sentence before and after a step, with the random numbers of seed 5."""
    tokens = np.array([4, 5, 0])
    rng = np.random.default_rng(5)
    mu = (rng.random((1, 4))[0] - 0.5) / 4
    rho = (rng.random(1)[0] - 0.5) / 4
    epsilon = rng.standard_normal((1, 4))[0]
    cumulative = np.cumsum(given.p_noise)
    uniforms = rng.random((1, 6))[0]
    negatives = np.searchsorted(cumulative / cumulative[-1], uniforms, "right").reshape(3, 2)
    loss = printed.sampled_loss(
        mu, rho, epsilon, tokens, negatives, given.I_hat, given.O_hat, lam=2.0
    )
    return mu - 0.025 * loss.grad_mu, rho - 0.025 * loss.grad_rho


def train_one_step(given, literal):
    sentence = Encoded.from_lengths(np.array([4, 5, 0]), np.array([3]))
    return sgd.train(
        sentence,
        given.I_hat,
        given.O_hat,
        given.p_noise,
        lam=2.0,
        n_epochs=1,
        n_negatives=2,
        literal=literal,
        random_state=5,
    )


def test_one_literal_step_is_the_gradient_of_the_printed_loss(given, step_by_hand):
    mu, rho = step_by_hand

    trained = train_one_step(given, literal=True)

    assert_allclose(trained.mu[0], mu, atol=1e-14)
    assert_allclose(trained.rho[0], rho, atol=1e-14)


def test_a_stable_step_differs_in_second_order_of_the_learning_rate_only(given, step_by_hand):
    mu, rho = step_by_hand

    trained = train_one_step(given, literal=False)

    assert_allclose(trained.mu[0], mu, atol=1e-3)
    assert_allclose(trained.rho[0], rho, atol=3e-3)
    assert np.abs(trained.mu[0] - mu).max() > 1e-6


@pytest.mark.parametrize(
    ("n_epochs", "exceptions"),
    [(40, [182, 183, 200, 320]), (4001, [])],  # of the paper; many, a prime number
)
def test_literal_steps_diverge_where_the_product_of_their_factors_exceeds_one(n_epochs, exceptions):
    n_tokens = np.arange(1, 500)
    rates = sgd.learning_rates(n_epochs)
    factors = np.abs(1.0 - rates[:, None] * n_tokens)  # (n_epochs, n_tokens.size)
    with np.errstate(divide="ignore"):  # a factor of 0
        exceeds_one = np.log(factors).sum(axis=0) > 0

    diverging = printed.diverges(n_tokens, lam=1.0)

    differing = n_tokens[exceeds_one != diverging]
    assert differing.tolist() == exceptions


@pytest.fixture(scope="module")
def long_sentence(given):
    """Tokens of a sentence of 203 words: at lam = 1 beyond 184, where literal steps diverge."""
    return np.random.default_rng(0).choice(7, 203, p=given.p_noise)


@pytest.fixture(scope="module")
def best_mean(given, long_sentence):
    """The mean of the long sentence that the solver finds."""
    vocabulary = given.words.vocabulary
    words = [vocabulary.words[token] for token in long_sentence]
    vectorizer = printed.PrintedPBNegVectorizer(given.words, tol=1e-9)
    vectorizer.fit(given.texts)
    vectorizer.noise_counts_ = vocabulary.counts
    means, _ = vectorizer.posterior([words])
    return means[0]


def mean_after_training(given, tokens, *, literal):
    """Of one sentence, with the settings of the paper."""
    sentence = Encoded.from_lengths(tokens, np.array([tokens.size]))
    tables = given.I_hat, given.O_hat
    with np.errstate(all="ignore"):
        trained = sgd.train(sentence, *tables, given.p_noise, literal=literal, random_state=0)
    return trained.mu[0]


def test_stable_steps_end_near_the_optimum(given, long_sentence, best_mean):
    mean = mean_after_training(given, long_sentence, literal=False)

    distance = np.linalg.norm(mean - best_mean)
    assert distance < 0.05 * np.linalg.norm(best_mean)


def test_literal_steps_run_away_from_the_optimum(given, long_sentence, best_mean):
    mean = mean_after_training(given, long_sentence, literal=True)

    distance = np.linalg.norm(mean - best_mean)
    assert distance > np.linalg.norm(best_mean)


@pytest.mark.parametrize("lam", [0.25, 1.0, 8.0])
def test_divergence_begins_where_the_product_over_the_epochs_exceeds_one(lam):
    """At 184 lam in the limit of many epochs, which `diverges` takes; with forty, near it."""
    n_tokens = np.arange(1, int(400 * lam))
    factors = 1.0 - sgd.learning_rates() * n_tokens[:, None] / lam  # (n_tokens.size, n_epochs)
    exceeds_one = np.abs(factors).prod(axis=1) > 1.0
    first_length = n_tokens[exceeds_one][0]

    diverging = printed.diverges([183 * lam, 185 * lam], lam=lam)

    assert abs(first_length / lam - 184) < 20
    assert_array_equal(diverging, [False, True])


def test_sentences_of_any_length_and_order_are_trained_alone(given):
    lengths = np.array([3, 0, 2, 1])
    mixed = Encoded.from_lengths(np.arange(6), lengths)

    trained = sgd.train(mixed, given.I_hat, given.O_hat, given.p_noise, random_state=0)

    assert np.isfinite(trained.mu).all()
    assert_array_equal(np.isnan(trained.rho), lengths == 0)
    assert_array_equal(trained.mu[1], 0.0)


# ---- training of words -----------------------------------------------------------------------


def golden_draw(numbers):
    """The draws of the golden trajectories, as a function of epoch and sentence."""
    sampled = numbers["w_pb_neg_sampled"]

    def draw(epoch, sentence):
        epsilon = np.array(sampled["eps"][sentence])
        negatives = np.array(sampled["negatives"][sentence])
        return epsilon * (1 + epoch / 4), negatives

    return draw


def train_words(given, sentences, **settings):
    """Posteriors of the words of the example, trained on sentences."""
    return printed.train_words(sentences, given.I_hat, given.O_hat, **settings)


@pytest.mark.parametrize(("scheme", "penalty"), [("euler", "every step"), ("flow", "decay")])
def test_word_training_follows_the_golden_trajectories(numbers, given, scheme, penalty):
    runs = [run for run in numbers["w_pb_neg_sgd"]["runs"] if run["scheme"] == scheme]
    assert len(runs) == 2

    for run in runs:
        trained = train_words(
            given,
            given.sentences,
            lam=run["lam"],
            weighting="sentence",
            penalty=penalty,
            n_epochs=3,
            draw=golden_draw(numbers),
        )

        assert_allclose(trained.losses, run["step_losses"], rtol=1e-11)
        assert_allclose(trained.mu, run["mu_w"], atol=1e-12)
        assert_allclose(trained.rho, run["rho_w"], atol=1e-12)


def train_with_weighting(numbers, given, n_sentences, weighting):
    return train_words(
        given,
        given.sentences[:n_sentences],
        weighting=weighting,
        n_epochs=1,
        draw=golden_draw(numbers),
        penalty="every step",
    )


def test_weighting_does_not_matter_to_a_single_sentence_which_has_the_mean_length(numbers, given):
    by_token = train_with_weighting(numbers, given, 1, "token")
    by_sentence = train_with_weighting(numbers, given, 1, "sentence")

    assert_array_equal(by_token.mu, by_sentence.mu)


def test_weighting_by_token_multiplies_the_data_term_by_the_length(numbers, given):
    """Word 4 is in the second sentence only, which has 3 tokens; 4 is the average."""
    by_token = train_with_weighting(numbers, given, None, "token")
    by_sentence = train_with_weighting(numbers, given, None, "sentence")

    moved_by_token = by_token.mu[4] - given.O_hat[4]
    moved_by_sentence = by_sentence.mu[4] - given.O_hat[4]
    assert_allclose(moved_by_token, moved_by_sentence * 3 / 4, rtol=0.02)
    assert np.abs(moved_by_token - moved_by_sentence).max() > 1e-4


def test_the_decay_is_the_golden_flow(numbers):
    for row in numbers["lazy"]:
        if row["kind"] != "mean_euler":
            continue
        total = row["eta"] * row["m"]  # of the learning rates of m skipped steps

        distance = printed.decay(1.0, row["r"], total)

        assert_allclose(distance, row["factor_flow"], rtol=1e-13)


def test_the_lump_is_the_decay_to_first_order():
    after_lump = printed.lump(1.0, rate=0.01, total=1.0)
    after_decay = printed.decay(1.0, rate=0.01, total=1.0)

    assert_allclose(after_lump, after_decay, atol=1e-4)


def test_the_lump_runs_away_where_the_decay_does_not():
    """Past rate total = 2 the lump leaves a larger distance than there was."""
    after_lump = printed.lump(1.0, rate=1.0, total=12.0)
    after_decay = printed.decay(1.0, rate=1.0, total=12.0)

    assert abs(after_lump) > 10
    assert after_decay < 1e-5


def test_the_lump_in_training_departs_from_the_decay(given):
    def train(penalty):
        return train_words(
            given, given.sentences, penalty=penalty, n_epochs=30, lam=0.01, random_state=1
        )

    with np.errstate(all="ignore"):
        with_lump = train("lump")
        with_decay = train("decay")

    assert np.isfinite(with_decay.mu).all()
    assert not np.allclose(with_lump.rho, with_decay.rho, atol=0.1)


def test_word_variances_are_inverse_frequencies():
    counts = np.array([5, 3, 2])

    assert_array_equal(printed.word_variances(counts), counts.sum() / counts)


def test_constant_variance_moves_frequent_words_most_and_the_printed_one_holds_them(given, rng):
    p = np.array([0.5, 0.2, 0.1, 0.08, 0.06, 0.04, 0.02])
    sentences = [rng.choice(7, 8, p=p) for _ in range(60)]

    def move_of_frequent_word(var_P):
        """The move of the most frequent word, in moves of rare ones."""
        trained = train_words(given, sentences, var_P=var_P, n_epochs=10, lam=0.02, random_state=0)
        moves = np.linalg.norm(trained.mu - given.O_hat, axis=1)
        return moves[0] / moves[-3:].mean()

    with_printed = move_of_frequent_word(None)
    with_constant = move_of_frequent_word(np.full(7, 7.0))

    assert with_printed < 0.5 * with_constant


def test_pv_dbow_loss_and_gradients_are_golden(numbers, given):
    golden_numbers = numbers["pv_dbow"]
    negatives = [np.array(words) for words in golden_numbers["negatives"]]

    loss, grad_h, grad_A = printed.pv_dbow_loss(
        golden_numbers["h"], given.sentences, negatives, given.I_hat
    )

    assert_allclose(loss, golden_numbers["loss_sum"], rtol=1e-13)
    assert_allclose(grad_h, golden_numbers["grad_h"], rtol=1e-12, atol=1e-14)
    assert_allclose(grad_A, golden_numbers["grad_I"], rtol=1e-12, atol=1e-14)


@pytest.fixture(scope="module")
def pb_neg_losses(numbers, given):
    """The data term of PB-neg of each sentence at the vectors of PV-DBOW, without variance."""
    golden_numbers = numbers["pv_dbow"]
    losses = []
    for vector, tokens, negatives in zip(
        golden_numbers["h"], given.sentences, golden_numbers["negatives"]
    ):
        sampled = printed.sampled_loss(
            vector, -80.0, np.zeros(4), tokens, negatives, given.I_hat, given.O_hat
        )
        losses.append(sampled.data)
    return np.array(losses)


def test_pv_dbow_is_pb_neg_with_weights_of_the_length(numbers, given, pb_neg_losses):
    lengths = [len(tokens) for tokens in given.sentences]

    assert_allclose(lengths @ pb_neg_losses, numbers["pv_dbow"]["loss_sum"], rtol=1e-13)


def test_pv_dbow_is_not_pb_neg_without_weights(numbers, pb_neg_losses):
    ratio = pb_neg_losses.sum() / numbers["pv_dbow"]["loss_sum"]

    assert abs(4 * ratio - 1) > 0.01  # 4 is the mean length


def test_pv_dbow_from_scratch_learns_what_belongs_together(rng):
    """Two topics of words that never meet: sentences of one topic lie together."""
    topics = np.arange(12).reshape(2, 6)
    topic_of_sentence = np.arange(20) % 2
    sentences = [rng.choice(topics[topic], 10) for topic in topic_of_sentence]

    trained = printed.train_pv_dbow(
        sentences, 12, 8, n_negatives=5, learning_rate=0.1, random_state=0
    )

    unit = unit_rows(trained.h)
    cosines = unit @ unit.T
    same = np.equal.outer(topic_of_sentence, topic_of_sentence)
    assert cosines[same].mean() > cosines[~same].mean() + 0.5


def test_the_row_of_pv_dbow_starts_from_zeros(given):
    vectorizer = printed.make_printed("PV-DBOW (scratch)", given.words, n_epochs=1, n_jobs=1)

    assert not vectorizer.word_vectors.input_vectors.any()
    assert np.isfinite(vectorizer.fit_transform(given.texts)).all()


# ---- D, D_S and the hypothesis ---------------------------------------------------------------


def test_labelled_words_have_the_share_and_the_distributions_of_d(rng):
    phi = rng.dirichlet(np.ones(6))
    p_noise = rng.dirichlet(np.ones(6))

    labelled = printed.draw_labelled_words(phi, p_noise, 40_000, pi=0.25, random_state=0)

    positive = labelled.words[labelled.labels == 1]
    negative = labelled.words[labelled.labels == -1]
    assert stats.binomtest(positive.size, 40_000, 0.25).pvalue > 1e-3
    for words, p in ((positive, phi), (negative, p_noise)):
        observed = np.bincount(words, minlength=6)
        assert stats.chisquare(observed, p * words.size).pvalue > 1e-3


@pytest.fixture(scope="module")
def dataset(given, sentence):
    """Labelled words of the first sentence."""
    return printed.labelled_words_of(sentence.tokens, given.p_noise, random_state=0)


def test_dataset_of_a_sentence_has_its_words_and_the_share_pi(dataset, sentence):
    positive = dataset.labels == 1

    assert_array_equal(dataset.words[positive], sentence.tokens)
    assert positive.mean() == 1 / 16


def test_dataset_of_a_sentence_has_k_negative_samples_per_word(dataset, given):
    negatives = dataset.words[dataset.labels == -1]
    observed = np.bincount(negatives, minlength=7)
    assert dataset.words.size == 5 * 16
    assert stats.chisquare(observed, given.p_noise * 75).pvalue > 1e-3


@pytest.mark.slow
@pytest.mark.parametrize("sentence", range(3))
def test_risk_of_many_draws_is_the_golden_gibbs_risk_weighted_by_pi(sentence, numbers, given, rng):
    gibbs = numbers["gibbs01"]
    tokens = given.sentences[sentence]
    phi = np.bincount(tokens, minlength=7) / tokens.size
    data = printed.draw_labelled_words(phi, given.p_noise, 20_000, random_state=rng)
    deviation = np.exp(gibbs["rho"][sentence] / 2)

    drawn = gibbs["mu"][sentence] + deviation * rng.standard_normal((400, 4))
    risks = [printed.zero_one_risk(vector, given.I_hat, data) for vector in drawn]

    error = np.mean(risks) - golden_gibbs_risk(gibbs, sentence)
    assert abs(error) < 4 * np.std(risks) / 20 + 0.01


def golden_gibbs_risk(gibbs, sentence):
    """The risk without a bias, weighted as in the paper, of the method with its own roles."""
    wanted = {"sentence": sentence, "bias": 0.0, "weighting": "paper"}
    for row in gibbs["rows"]:
        has_own_roles = not row.get("method", "").startswith("i")
        if has_own_roles and wanted.items() <= row.items():
            return row["risk"]
    raise KeyError(sentence)


def mean_score(rows, kind):
    """Of the words of one kind."""
    return np.mean([row.score for row in rows if row.kind == kind])


@pytest.mark.slow
def test_words_of_the_paris_example_are_in_order_and_every_sign_says_noise():
    rows = printed.generalisation_example()

    scores = {row.word: row.score for row in rows}
    own = mean_score(rows, "own")
    unseen = mean_score(rows, "unseen")
    noise = mean_score(rows, "noise")
    own_signs = [row.sign_with_bias for row in rows if row.kind == "own"]
    assert scores["paris"] > scores["france"] > scores["tax"]
    assert own > unseen > noise
    assert all(row.sign == -1 for row in rows)
    assert own_signs.count(1) >= 3


# ---- minimising the bound --------------------------------------------------------------------


@pytest.fixture(scope="module")
def problem(given):
    tokens = np.tile(given.sentences[0], 8)
    return printed.problem_of(tokens, given.I_hat, given.O_hat, given.p_noise, n_negatives=3)


def test_terms_have_the_slopes_of_finite_differences_in_the_mean(problem):
    mu = problem.prior_mean + 0.1
    step = 1e-6

    risk, _, gradient, _ = terms(mu, -2.0, problem)

    for j, direction in enumerate(np.eye(4)):
        moved_risk, *_ = terms(mu + step * direction, -2.0, problem)
        assert_allclose((moved_risk - risk) / step, gradient[j], atol=1e-5)


def test_terms_have_the_slopes_of_finite_differences_in_the_log_variance(problem):
    mu = problem.prior_mean + 0.1
    step = 1e-6

    _, _, gradient, slope = terms(mu, -2.0, problem)

    risk_above, kl_above, *_ = terms(mu, -2.0 + step, problem)
    risk_below, kl_below, *_ = terms(mu, -2.0 - step, problem)
    risk_slope = (risk_above - risk_below) / (2 * step)
    kl_slope = (kl_above - kl_below) / (2 * step)
    assert_allclose(risk_slope, gradient[-1], atol=1e-6)
    assert_allclose(kl_slope, slope, atol=1e-5)


def kl_inverse(posterior, problem):
    """The bound at the risk and the KL of a posterior."""
    return bounds.maurer(posterior.risk, posterior.kl, problem.n, 0.05)


@pytest.mark.parametrize("lam", [8.0, 160.0, 2000.0])
def test_minimising_theorem_1_at_a_fixed_lambda_is_minimising_risk_plus_kl(problem, lam):
    by_sum = printed.minimise_at_fixed_lambda(problem, lam)

    by_bound = printed.minimise_theorem_1(problem, lam)

    assert_allclose(by_bound.mu, by_sum.mu, atol=2e-4)
    assert_allclose(by_bound.var_Q, by_sum.var_Q, rtol=2e-3)


@pytest.mark.parametrize("lam", [8.0, 160.0, 2000.0])
def test_the_value_of_theorem_1_is_catoni_s_bound(problem, lam):
    found = printed.minimise_theorem_1(problem, lam)

    bound = bounds.catoni(found.risk, found.kl, problem.n, 0.05, lam=lam, clip=False)
    assert_allclose(found.value, bound, rtol=1e-9)


def test_minimising_the_kl_inverse_is_another_posterior_with_a_smaller_value_of_it(problem):
    best = printed.minimise_kl_inverse(problem)

    others = [printed.minimise_at_fixed_lambda(problem, lam) for lam in (8.0, 160.0, 2000.0)]
    values = [kl_inverse(other, problem) for other in others]
    distances = [np.abs(other.mu - best.mu).max() for other in others]
    assert_allclose(best.value, kl_inverse(best, problem), rtol=1e-9)
    assert best.value < min(values) + 1e-9
    assert max(distances) > 1e-3


def test_certificate_a_searches_between_prior_and_posterior(language, documents):
    vectorizer = AverageVectorizer(language.words)

    certificate = paper.certify_words(vectorizer, documents, random_state=0)

    assert 0.0 < certificate.error_upper < 1.0


# ---- remarks ---------------------------------------------------------------------------------


def test_the_bound_tends_to_one_as_lambda_grows():
    lams = np.array([1.0, 8.0, 200.0, 1e6])

    values = bounds.catoni(0.1, 5.0, 200, 0.05, lam=lams)

    assert values[0] == 1.0
    assert values[2] < values[1]
    assert values[3] > 0.9999


def test_the_minimiser_of_the_bound_tends_to_the_empirical_one_as_lambda_grows(problem):
    posteriors = [printed.minimise_at_fixed_lambda(problem, lam) for lam in (1.0, 100.0, 1e5)]

    small, middle, large = (posterior.risk for posterior in posteriors)
    assert small > middle > large


def test_alpha_of_one_needs_a_lambda_of_the_length(sentence):
    vectors = np.concatenate(sentence.tables)
    with_alpha_one = vectors.mean(axis=0)

    of_length, _ = printed.l2_posterior(*sentence.tables, lam=5.0)
    of_one, _ = printed.l2_posterior(*sentence.tables, lam=1.0)

    assert_allclose(of_length, with_alpha_one)
    assert np.abs(of_one - with_alpha_one).max() > 0.01


def test_the_penalty_of_the_paper_s_text_is_the_lump():
    assert word_training.PENALTIES[1] == "lump"


# ---- rows of the table -----------------------------------------------------------------------

PRINTED_ROWS = (
    "PB-neg-printed",
    "PB-neg-SGD",
    "w-PB-neg-token",
    "PV-DBOW-scratch",
    "PB-IDF-L2-unit",
    "PB-L2-sum",
    "PB-L2-subsampled",
)


@pytest.fixture(scope="module")
def small_task():
    """The first part of texts of the generative model, with random vectors for their words."""
    corpus = paper.generate(60, n_topics=2, n_words=60, n_tokens=12, random_state=0)
    rng = np.random.default_rng(0)
    tables = rng.standard_normal((2, 60, 8)).astype(np.float32)
    words = WordVectors(corpus.vocabulary, *tables)
    prepared = evaluation.Prepared(corpus.dataset(), words, n_jobs=1)
    source, _, _ = prepared.part(0)
    return source


@pytest.mark.parametrize("name", PRINTED_ROWS)
def test_a_row_as_printed_has_other_vectors_than_the_row_it_stands_beside(name, small_task):
    row = ROWS[name]
    beside = ROWS[name.rpartition("-")[0]]
    lam = row.lams[-1] if row.lams else None

    as_printed = features(row, small_task, lam)
    corrected = features(beside, small_task, lam)

    assert as_printed.test.shape == corrected.test.shape == (12, 8)
    assert np.isfinite(as_printed.train).all()
    assert np.abs(as_printed.test - corrected.test).max() > 1e-3


def datasets_of(row):
    """That the table runs a row on."""
    return {task.dataset for task in reproduction.tasks() if task.row == row}


def test_the_table_runs_the_paper_s_optimiser_on_short_texts_only():
    assert datasets_of("PB-neg-SGD") == {"subj"}
    assert datasets_of("PB-neg-printed") >= {"20news", "imdb"}


def test_the_paper_s_own_table_has_no_row_as_printed():
    rows = {task.row for task in reproduction.tasks(["paper"])}

    assert rows.isdisjoint(PRINTED_ROWS)
