"""The paper as printed and as corrected, each by two routes; golden numbers have forty digits."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import optimize, sparse, stats

from pacsent import WordVectors, paper
from pacsent.bounds import pac_bayes as bounds
from pacsent.paper import evaluation, printed, reproduction
from pacsent.paper.method_rows import ROWS, features
from pacsent.paper.printed import sgd, word_training
from pacsent.paper.printed.bound_over_posteriors import terms
from pacsent.sentences import AverageVectorizer
from pacsent.text.encoded import Encoded


@pytest.fixture(scope="module")
def numbers(golden):
    return golden("methods")


@pytest.fixture(scope="module")
def given():
    return printed.example()


@pytest.fixture(scope="module")
def encoded(given):
    return given.words.vocabulary.encode(given.texts)


@pytest.fixture(scope="module")
def counts(given, encoded):
    return sparse.csr_matrix(given.words.vocabulary.count(encoded), dtype=float)


def tables_of(name, given):
    tables = given.I_hat, given.O_hat
    return tables[::-1] if name.startswith("i-") else tables


def test_the_example_is_the_golden_one(numbers, given):
    facts = numbers["example"]
    assert_array_equal(given.I_hat, facts["I"])
    assert_array_equal(given.O_hat, facts["O"])
    assert_allclose(given.p_noise, facts["p_n"], rtol=1e-15)
    assert_allclose(given.idf, facts["idf"], rtol=1e-15)
    assert [list(s) for s in given.sentences] == facts["sentences"]


# ---- the KL ----------------------------------------------------------------------------------


def test_kl_as_printed_and_exact_are_golden(numbers, given):
    for row in numbers["kl"]:
        B = given.O_hat[given.sentences[row["sentence"]]]
        var_P = row["sigma_P2"]
        mu = row["mu"]
        var_Q = np.exp(row["rho"])

        exact = printed.kl_exact(mu, var_Q, B, var_P)
        as_printed = printed.kl_printed(mu, var_Q, B, var_P)

        assert_allclose(exact, row["KL_exact_poe"], rtol=1e-13)
        assert_allclose(as_printed, row["paper_eq_explicit_kl_poe_WRONG"], rtol=1e-13)


def test_parts_of_the_kl_are_golden(numbers, given):
    for row in numbers["kl"]:
        B = given.O_hat[given.sentences[row["sentence"]]]
        var_P = row["sigma_P2"]
        var_Q = np.exp(row["rho"])

        penalty = printed.penalty_printed(row["mu"], var_Q, B, lam=1.0, var_P=var_P)

        assert_allclose(printed.log_normaliser(B, var_P), row["logZ"], rtol=1e-13)
        assert_allclose(printed.entropy(var_Q, 4), row["entropy_Q"], rtol=1e-13)
        assert_allclose(sum(penalty), row["paper_penalty_times_lambda"], rtol=1e-13)


def test_kl_exact_is_the_mean_log_ratio_of_densities_and_kl_printed_is_not(given, rng):
    B = given.O_hat[given.sentences[0]]
    mu = np.array([0.2, -0.1, 0.3, 0.0])
    var_Q = 0.4
    h = mu + np.sqrt(var_Q) * rng.standard_normal((400_000, 4))

    log_Q = stats.multivariate_normal(mu, var_Q * np.eye(4)).logpdf(h)
    log_experts = sum(stats.multivariate_normal(o, np.eye(4)).logpdf(h) for o in B)
    ratio = log_Q - log_experts + printed.log_normaliser(B)

    standard_error = ratio.std() / 400_000**0.5
    exact = printed.kl_exact(mu, var_Q, B)
    assert abs(ratio.mean() - exact) < 4 * standard_error
    assert printed.kl_printed(mu, var_Q, B) < 0 < exact


def test_printed_penalty_is_exact_for_the_geometric_mean_of_the_priors(given):
    B = given.O_hat[given.sentences[0]]
    n, d = B.shape
    lam = 2.0
    var_P = 0.7
    mu = np.array([0.2, -0.1, 0.3, 0.0])
    var_Q = 0.4

    penalty = sum(printed.penalty_printed(mu, var_Q, B, lam=lam, var_P=var_P))

    ratio = var_Q / var_P
    of_means = np.sum((mu - B.mean(axis=0)) ** 2) / (2 * var_P)
    kl = of_means + d / 2 * (ratio - 1 - np.log(ratio))
    assert_allclose(penalty, n / lam * kl + n * d / (2 * lam), rtol=1e-14)


# ---- squared loss ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("form", "key"),
    [("printed", "var_printed"), ("printed loss", "var_paper_loss"), ("exact", "var_exact_kl")],
)
def test_closed_forms_are_golden_in_all_three_forms(numbers, given, form, key):
    n_tested = 0
    for row in numbers["closed_form"]:
        if "PB" not in row["method"]:
            continue
        name, _, variant = row["method"].partition("/")
        A_hat, B_hat = tables_of(name, given)
        tokens = given.sentences[row["sentence"]]
        A = A_hat[tokens]
        B = B_hat[tokens]
        lam = row["lam"]
        if "IDF" in name:
            mu, var_Q = printed.idf_l2_posterior(
                A, B, given.idf[tokens], lam=lam, unit_prior=variant == "unit-prior", form=form
            )
        else:
            mu, var_Q = printed.l2_posterior(A, B, lam=lam, var_P=row["sigma_P2"], form=form)

        assert_allclose(mu, row["mu"], rtol=1e-12, atol=1e-15)
        if key in row:
            assert_allclose(var_Q, row[key], rtol=1e-13)
            n_tested += 1
    assert n_tested > 66


@pytest.mark.parametrize("has_idf", [False, True])
@pytest.mark.parametrize("form", ["printed", "printed loss", "exact"])
def test_a_blind_minimiser_ends_at_the_corrected_forms_and_not_at_the_printed_variance(
    given, has_idf, form
):
    tokens = given.sentences[0]
    A = given.I_hat[tokens]
    B = given.O_hat[tokens]
    n = 5
    lam = 2.0
    weights = given.idf[tokens] if has_idf else np.ones(n)
    var_P = 1.0 / weights
    beta = n * weights if has_idf else 1.0

    def loss(x):
        mu = x[:-1]
        var_Q = np.exp(x[-1])
        data = printed.squared_loss(mu, var_Q, A, beta)
        if form == "exact":
            return data + printed.kl_exact(mu, var_Q, B, var_P) / lam
        of_means = np.sum((mu - B) ** 2, axis=1) / var_P
        of_variances = 4 * (np.log(var_P / var_Q) + var_Q / var_P)
        return data + 0.5 / lam * np.sum(of_means + of_variances)

    if has_idf:
        mu, var_Q = printed.idf_l2_posterior(A, B, weights, lam=lam, form=form)
    else:
        mu, var_Q = printed.l2_posterior(A, B, lam=lam, form=form)

    options = {"ftol": 1e-16, "gtol": 1e-9}
    x = optimize.minimize(loss, np.zeros(5), method="L-BFGS-B", options=options).x
    ratio = np.exp(x[-1]) / var_Q
    assert_allclose(x[:-1], mu, atol=1e-5)
    if form == "printed":
        assert abs(ratio - 1.0) > 0.2
    else:
        assert_allclose(ratio, 1.0, rtol=1e-5)


def test_factor_of_the_main_text_doubles_lambda(given):
    tokens = given.sentences[0]
    arguments = given.I_hat[tokens], given.O_hat[tokens], given.idf[tokens]

    main_text, _ = printed.idf_l2_posterior(*arguments, lam=2.0, factor="main text")
    appendix, _ = printed.idf_l2_posterior(*arguments, lam=2.0)
    appendix_doubled, _ = printed.idf_l2_posterior(*arguments, lam=4.0)

    assert_allclose(main_text, appendix_doubled, rtol=1e-15)
    assert np.abs(main_text - appendix).max() > 0.01


def test_first_prior_has_n_times_the_mean_of_the_product(given):
    B = given.O_hat[given.sentences[0]]

    mean, variance = printed.sum_prior(B)

    assert_allclose(mean, 5 * printed.product_prior(B)[0])
    assert variance == 1.0


def test_first_posterior_minimises_its_own_objective(given):
    tokens = given.sentences[0]
    A = given.I_hat[tokens]
    B = given.O_hat[tokens]
    mean, _ = printed.sum_prior(B)

    def loss(x):
        ratio = np.exp(x[-1])
        kl = np.sum((x[:-1] - mean) ** 2) / 2 + 2 * (ratio - 1 - x[-1])
        return printed.squared_loss(x[:-1], ratio, A) + kl / 3.0

    mu, var_Q = printed.sum_prior_posterior(A, B, lam=3.0)

    x = optimize.minimize(loss, np.zeros(5), method="L-BFGS-B", options={"ftol": 1e-16}).x
    of_product, _ = printed.l2_posterior(A, B, lam=3.0)
    assert_allclose(x[:-1], mu, atol=1e-4)
    assert_allclose(np.exp(x[-1]), var_Q, rtol=1e-4)
    assert np.linalg.norm(mu - of_product) > 0.05


def test_dividing_the_loss_by_its_largest_value_is_a_smaller_lambda(given):
    tokens = given.sentences[1]
    A = given.I_hat[tokens]
    B = given.O_hat[tokens]

    def loss(x):
        var_Q = np.exp(x[-1])
        data = printed.squared_loss(x[:-1], var_Q, A) / 25.0
        return data + printed.kl_exact(x[:-1], var_Q, B) / 8.0

    lam = printed.rescaled_loss_lambda(8.0, largest=25.0)

    mu, _ = printed.l2_posterior(A, B, lam=lam)
    x = optimize.minimize(loss, np.zeros(5), method="L-BFGS-B", options={"ftol": 1e-16}).x
    assert_allclose(x[:-1], mu, atol=1e-4)


def test_unit_prior_of_its_row_is_the_formula(given):
    vectorizer = printed.make_printed("PB-IDF-L2 (unit prior)", given.words, lam=2.0)

    vectors = vectorizer.fit(given.texts).transform(given.texts)

    for vector, tokens in zip(vectors, given.sentences):
        A = given.I_hat[tokens]
        B = given.O_hat[tokens]
        mu, _ = printed.idf_l2_posterior(A, B, given.idf[tokens], lam=2.0, unit_prior=True)
        assert_allclose(vector, mu, atol=1e-6)


def test_sum_prior_of_its_row_is_the_formula(given):
    vectorizer = printed.make_printed("PB-L2 (sum prior)", given.words, lam=2.0)

    vectors = vectorizer.fit(given.texts).transform(given.texts)

    for vector, tokens in zip(vectors, given.sentences):
        mu, _ = printed.sum_prior_posterior(given.I_hat[tokens], given.O_hat[tokens], lam=2.0)
        assert_allclose(vector, mu, atol=1e-6)


def test_sub_sampling_weighs_each_token_by_its_chance_to_be_kept(given):
    keep = given.words.vocabulary.keep_probabilities(0.05)
    tokens = given.sentences[0]
    weights = keep[tokens]
    n = weights.sum()
    alpha = n / 2.0
    A = weights @ given.I_hat[tokens] / n
    B = weights @ given.O_hat[tokens] / n

    vectorizer = printed.make_printed("PB-L2 (sub-sampled)", given.words, lam=2.0, subsample=0.05)
    vectorizer.fit(given.texts)

    assert keep[2] < keep[0] < 1.0  # the frequent word is kept less often
    vector = vectorizer.transform(given.texts)[0]
    assert_allclose(vector, (A + alpha * B) / (1 + alpha), atol=1e-6)
    assert_array_equal(vectorizer.transform([["unknown"]]), np.zeros((1, 4)))


# ---- negative sampling -----------------------------------------------------------------------


def test_sampled_loss_and_gradients_are_golden_for_both_penalties(numbers, given):
    sampled = numbers["pb_neg_sampled"]
    for row in sampled["rows"]:
        s = row["sentence"]
        A_hat, B_hat = tables_of(row["method"], given)
        kl = "printed" if row["kl"] == "paper" else "exact"
        found = printed.sampled_loss(
            sampled["mu"][s],
            sampled["rho"][s],
            sampled["eps"][s],
            given.sentences[s],
            sampled["negatives"][s],
            A_hat,
            B_hat,
            lam=row["lam"],
            var_P=row["sigma_P2"],
            kl=kl,
        )
        assert_allclose(found.data, row["data"], rtol=1e-12)
        assert_allclose(found.mean_penalty, row["mean_penalty"], rtol=1e-12)
        assert_allclose(found.variance_penalty, row["var_penalty"], rtol=1e-12)
        assert_allclose(found.total, row["total"], rtol=1e-12)
        assert_allclose(found.grad_mu, row["grad_mu"], rtol=1e-11, atol=1e-13)
        assert_allclose(found.grad_rho, row["grad_rho"], rtol=1e-11)


def test_expected_loss_is_golden_for_both_penalties(numbers, given, counts):
    at = numbers["pb_neg_expected"]
    mu, var_Q = np.array(at["mu"]), np.exp(at["rho"])
    for row in at["rows"]:
        settings = {"lam": row["lam"], "var_P": row["sigma_P2"], "n_negatives": at["k"]}
        kl = "printed" if row["kl"] == "paper" else "exact"
        tables = tables_of(row["method"], given)
        found = printed.expected_loss(mu, var_Q, counts, tables, given.p_noise, kl=kl, **settings)
        assert_allclose(found[row["sentence"]], row["total"], rtol=1e-9)


def test_the_solver_of_pb_neg_ends_at_the_golden_optima_of_the_printed_loss(numbers, given, counts):
    n_tested = 0
    for row in numbers["optima"]["pb_neg"]:
        if row["kl"] == "exact":
            continue
        settings = {"lam": row["lam"], "prior_variance": row["sigma_P2"], "tol": 1e-9}
        made = printed.PrintedPBNegVectorizer(given.words, **settings).fit(given.texts)
        means, variances = made.posterior(given.texts)
        s = row["sentence"]
        assert_allclose(means[s], row["mu"], atol=1e-7)
        assert_allclose(np.log(variances[s]), row["rho"], atol=1e-7)
        tables = given.I_hat, given.O_hat
        loss = {"lam": row["lam"], "var_P": row["sigma_P2"], "kl": "printed"}
        value = printed.expected_loss(means, variances, counts, tables, given.p_noise, **loss)
        assert_allclose(value[s], row["value"], rtol=1e-9)
        n_tested += 1
    assert n_tested > 3


def test_printed_loss_has_another_optimum_than_pb_neg(given):
    from pacsent.sentences import PBNegVectorizer

    made = [
        cls(given.words, lam=8.0, tol=1e-9).fit(given.texts).posterior(given.texts)
        for cls in (printed.PrintedPBNegVectorizer, PBNegVectorizer)
    ]
    assert np.all(np.linalg.norm(made[0][0] - made[1][0], axis=1) > 0.01)
    assert np.all(made[0][1] > 2 * made[1][1])  # the variance stays near var_P, not var_P/n


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


@pytest.mark.parametrize("n_epochs", [40, 4001])  # of the paper; many, a prime number
def test_literal_steps_diverge_where_the_product_of_their_factors_exceeds_one(n_epochs):
    n_tokens = np.arange(1, 500)
    rates = sgd.learning_rates(n_epochs)
    with np.errstate(divide="ignore"):  # a factor of 0
        logs = np.log(np.abs(1.0 - rates[:, None] * n_tokens)).sum(axis=0)
    differing = n_tokens[(logs > 0) != printed.diverges(n_tokens, lam=1.0)]
    assert differing.tolist() == ([182, 183, 200, 320] if n_epochs == 40 else [])


def test_stable_steps_end_near_the_optimum_where_literal_ones_run_away(given, rng):
    """n = 203 at lam = 1: beyond 184."""
    tokens = rng.choice(7, 203, p=given.p_noise)
    words = [given.words.vocabulary.words[token] for token in tokens]
    vectorizer = printed.PrintedPBNegVectorizer(given.words, tol=1e-9).fit(given.texts)
    vectorizer.noise_counts_ = given.words.vocabulary.counts
    means, _ = vectorizer.posterior([words])
    best = means[0]

    sentence = Encoded.from_lengths(tokens, np.array([203]))
    arguments = sentence, given.I_hat, given.O_hat, given.p_noise
    with np.errstate(all="ignore"):
        literal = sgd.train(*arguments, literal=True, random_state=0)
    stable = sgd.train(*arguments, random_state=0)

    assert np.linalg.norm(stable.mu[0] - best) < 0.05 * np.linalg.norm(best)
    assert np.linalg.norm(literal.mu[0] - best) > np.linalg.norm(best)


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
    mixed = Encoded.from_lengths(np.array([0, 1, 2, 3, 4, 5]), np.array([3, 0, 2, 1]))
    made = sgd.train(mixed, given.I_hat, given.O_hat, given.p_noise, random_state=0)
    assert np.isfinite(made.mu).all()
    assert_array_equal(np.isnan(made.rho), [False, True, False, False])
    assert_array_equal(made.mu[1], 0.0)


# ---- training of words -----------------------------------------------------------------------


def golden_draw(numbers):
    at = numbers["w_pb_neg_sampled"]

    def draw(epoch, s):
        return np.array(at["eps"][s]) * (1 + epoch / 4), np.array(at["negatives"][s])

    return draw


def test_word_training_follows_the_golden_trajectories(numbers, given):
    penalties = {"euler": "every step", "flow": "decay"}
    n_tested = 0
    for run in numbers["w_pb_neg_sgd"]["runs"]:
        if run["scheme"] not in penalties:
            continue
        made = printed.train_words(
            given.sentences,
            given.I_hat,
            given.O_hat,
            lam=run["lam"],
            weighting="sentence",
            penalty=penalties[run["scheme"]],
            n_epochs=3,
            draw=golden_draw(numbers),
        )
        assert_allclose(made.losses, run["step_losses"], rtol=1e-11)
        assert_allclose(made.mu, run["mu_w"], atol=1e-12)
        assert_allclose(made.rho, run["rho_w"], atol=1e-12)
        n_tested += 1
    assert n_tested == 4


def train_with_weighting(numbers, given, n_sentences, weighting):
    return printed.train_words(
        given.sentences[:n_sentences],
        given.I_hat,
        given.O_hat,
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
        return printed.train_words(
            given.sentences,
            given.I_hat,
            given.O_hat,
            penalty=penalty,
            n_epochs=30,
            lam=0.01,
            random_state=1,
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
        trained = printed.train_words(
            sentences,
            given.I_hat,
            given.O_hat,
            var_P=var_P,
            n_epochs=10,
            lam=0.02,
            random_state=0,
        )
        moves = np.linalg.norm(trained.mu - given.O_hat, axis=1)
        return moves[0] / moves[-3:].mean()

    with_printed = move_of_frequent_word(None)
    with_constant = move_of_frequent_word(np.full(7, 7.0))

    assert with_printed < 0.5 * with_constant


def test_pv_dbow_loss_and_gradients_are_golden(numbers, given):
    at = numbers["pv_dbow"]
    negatives = [np.array(x) for x in at["negatives"]]
    loss, grad_h, grad_A = printed.pv_dbow_loss(at["h"], given.sentences, negatives, given.I_hat)
    assert_allclose(loss, at["loss_sum"], rtol=1e-13)
    assert_allclose(grad_h, at["grad_h"], rtol=1e-12, atol=1e-14)
    assert_allclose(grad_A, at["grad_I"], rtol=1e-12, atol=1e-14)


def test_pv_dbow_is_pb_neg_only_with_weights_of_the_length(numbers, given):
    at = numbers["pv_dbow"]
    total = weighted = 0.0
    for s, tokens in enumerate(given.sentences):
        loss = printed.sampled_loss(
            at["h"][s], -80.0, np.zeros(4), tokens, at["negatives"][s], given.I_hat, given.O_hat
        )
        total += loss.data
        weighted += len(tokens) * loss.data
    assert_allclose(weighted, at["loss_sum"], rtol=1e-13)
    assert abs(total / at["loss_sum"] * 4 - 1) > 0.01


def test_pv_dbow_from_scratch_learns_what_belongs_together(rng):
    """Two topics of words that never meet: sentences of one topic lie together."""
    topics = [np.arange(6), np.arange(6, 12)]
    sentences = [rng.choice(topics[s % 2], 10) for s in range(20)]
    made = printed.train_pv_dbow(sentences, 12, 8, n_negatives=5, learning_rate=0.1, random_state=0)
    unit = made.h / np.linalg.norm(made.h, axis=1, keepdims=True)
    cosines = unit @ unit.T
    same = np.equal.outer(np.arange(20) % 2, np.arange(20) % 2)
    assert cosines[same].mean() > cosines[~same].mean() + 0.5


def test_the_row_of_pv_dbow_starts_from_zeros(given):
    made = printed.make_printed("PV-DBOW (scratch)", given.words, n_epochs=1, n_jobs=1)
    assert not made.word_vectors.input_vectors.any()
    assert np.isfinite(made.fit_transform(given.texts)).all()


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


def test_dataset_of_a_sentence_has_k_negative_samples_per_word_and_the_share_pi(given):
    D_S = printed.labelled_words_of(given.sentences[0], given.p_noise, random_state=0)
    assert D_S.words.size == 5 * 16
    assert_array_equal(D_S.words[D_S.labels == 1], given.sentences[0])
    assert (D_S.labels == 1).mean() == 1 / 16
    observed = np.bincount(D_S.words[D_S.labels == -1], minlength=7)
    assert stats.chisquare(observed, given.p_noise * 75).pvalue > 1e-3


@pytest.mark.slow
def test_risk_of_many_draws_is_the_golden_gibbs_risk_weighted_by_pi(numbers, given, rng):
    at = numbers["gibbs01"]
    for row in at["rows"]:
        if (
            row["bias"] != 0.0
            or row["weighting"] != "paper"
            or row.get("method", "").startswith("i")
        ):
            continue
        s = row["sentence"]
        tokens = given.sentences[s]
        phi = np.bincount(tokens, minlength=7) / tokens.size
        data = printed.draw_labelled_words(phi, given.p_noise, 20_000, random_state=rng)
        deviation = np.exp(at["rho"][s] / 2)
        risks = [
            printed.zero_one_risk(
                at["mu"][s] + deviation * rng.standard_normal(4), given.I_hat, data
            )
            for _ in range(400)
        ]
        assert abs(np.mean(risks) - row["risk"]) < 4 * np.std(risks) / 20 + 0.01


@pytest.mark.slow
def test_words_of_the_paris_example_are_in_order_and_every_sign_says_noise():
    rows = printed.generalisation_example()

    scores = {row.word: row.score for row in rows}
    scores_of_kinds = {"own": [], "unseen": [], "noise": []}
    for row in rows:
        scores_of_kinds[row.kind].append(row.score)
    means = {kind: np.mean(of_kind) for kind, of_kind in scores_of_kinds.items()}
    own_signs = [row.sign_with_bias for row in rows if row.kind == "own"]
    assert scores["paris"] > scores["france"] > scores["tax"]
    assert means["own"] > means["unseen"] > means["noise"]
    assert all(row.sign == -1 for row in rows)
    assert own_signs.count(1) >= 3


# ---- minimising the bound --------------------------------------------------------------------


@pytest.fixture(scope="module")
def problem(given):
    tokens = np.tile(given.sentences[0], 8)
    return printed.problem_of(tokens, given.I_hat, given.O_hat, given.p_noise, n_negatives=3)


def test_terms_have_the_slopes_of_finite_differences(problem):
    mu = problem.prior_mean + 0.1
    rho = -2.0
    step = 1e-6

    risk, _, gradient, slope = terms(mu, rho, problem)

    for j in range(4):
        moved_risk, *_ = terms(mu + step * np.eye(4)[j], rho, problem)
        assert_allclose((moved_risk - risk) / step, gradient[j], atol=1e-5)
    risk_above, kl_above, *_ = terms(mu, rho + step, problem)
    risk_below, kl_below, *_ = terms(mu, rho - step, problem)
    assert_allclose((risk_above - risk_below) / (2 * step), gradient[-1], atol=1e-6)
    assert_allclose((kl_above - kl_below) / (2 * step), slope, atol=1e-5)


@pytest.mark.parametrize("lam", [8.0, 160.0, 2000.0])
def test_minimising_theorem_1_at_a_fixed_lambda_is_minimising_risk_plus_kl(problem, lam):
    by_sum = printed.minimise_at_fixed_lambda(problem, lam)
    by_bound = printed.minimise_theorem_1(problem, lam)
    assert_allclose(by_bound.mu, by_sum.mu, atol=2e-4)
    assert_allclose(by_bound.var_Q, by_sum.var_Q, rtol=2e-3)
    numbers = by_bound.risk, by_bound.kl, problem.n, 0.05
    assert_allclose(by_bound.value, bounds.catoni(*numbers, lam=lam, clip=False), rtol=1e-9)


def test_minimising_the_kl_inverse_is_another_posterior_with_a_smaller_value_of_it(problem):
    best = printed.minimise_kl_inverse(problem)
    assert_allclose(best.value, bounds.maurer(best.risk, best.kl, problem.n, 0.05), rtol=1e-9)
    others = [printed.minimise_at_fixed_lambda(problem, lam) for lam in (8.0, 160.0, 2000.0)]
    values = [bounds.maurer(m.risk, m.kl, problem.n, 0.05) for m in others]
    assert best.value < min(values) + 1e-9
    assert max(np.abs(m.mu - best.mu).max() for m in others) > 1e-3


def test_certificate_a_searches_between_prior_and_posterior(language, documents):
    from pacsent.paper import certify_words

    found = certify_words(AverageVectorizer(language.words), documents, random_state=0)
    assert 0.0 < found.error_upper < 1.0


# ---- remarks ---------------------------------------------------------------------------------


def test_bound_tends_to_one_and_its_minimiser_to_the_empirical_one_as_lambda_grows(problem):
    values = bounds.catoni(0.1, 5.0, 200, 0.05, lam=np.array([1.0, 8.0, 200.0, 1e6]))
    assert values[0] == 1.0
    assert values[2] < values[1]
    assert values[3] > 0.9999
    risks = [printed.minimise_at_fixed_lambda(problem, lam).risk for lam in (1.0, 100.0, 1e5)]
    assert risks[0] > risks[1] > risks[2]


def test_alpha_of_one_needs_a_lambda_of_the_length(given):
    tokens = given.sentences[0]
    A = given.I_hat[tokens]
    B = given.O_hat[tokens]
    with_alpha_one = (A.mean(axis=0) + B.mean(axis=0)) / 2

    of_length, _ = printed.l2_posterior(A, B, lam=5.0)
    of_one, _ = printed.l2_posterior(A, B, lam=1.0)

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
    """Texts of the generative model, and random word vectors for their words."""
    corpus = paper.generate(60, n_topics=2, n_words=60, n_tokens=12, random_state=0)
    tables = np.random.default_rng(0).standard_normal((2, 60, 8)).astype(np.float32)
    return corpus.dataset(), WordVectors(corpus.vocabulary, *tables)


@pytest.mark.parametrize("name", PRINTED_ROWS)
def test_a_row_as_printed_has_other_vectors_than_the_row_it_stands_beside(name, small_task):
    dataset, words = small_task
    source, _, _ = evaluation.Prepared(dataset, words, n_jobs=1).part(0)
    row = ROWS[name]
    lam = row.lams[-1] if row.lams else None
    beside = ROWS[name.rpartition("-")[0]]
    made = features(row, source, lam)
    other = features(beside, source, lam)
    assert made.test.shape == other.test.shape == (12, 8)
    assert np.isfinite(made.train).all()
    assert np.abs(made.test - other.test).max() > 1e-3


def test_the_table_runs_the_paper_s_optimiser_on_short_texts_only():
    listed = reproduction.tasks()
    assert {task.dataset for task in listed if task.row == "PB-neg-SGD"} == {"subj"}
    assert {task.dataset for task in listed if task.row == "PB-neg-printed"} >= {"20news", "imdb"}
    assert not [task for task in reproduction.tasks(["paper"]) if task.row in PRINTED_ROWS]
