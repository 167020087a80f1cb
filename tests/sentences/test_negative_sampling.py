"""PB-neg, w-PB-neg and PV-DBOW: formulas and solvers by more than one route each."""

import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.exceptions import ConvergenceWarning

from pacsent import Vocabulary, WordVectors, make_encoder
from pacsent.kernels import word_posteriors
from pacsent.kernels.random import draw_indices, normal_numbers
from pacsent.sentences import PBNegVectorizer, PVDBOWVectorizer, WordPBNegVectorizer
from pacsent.sentences.methods.sampled_methods import learning_rates
from pacsent.sentences.solvers import pb_neg as pb_neg_objective
from pacsent.sentences.solvers import pb_neg_sampled, w_pb_neg
from pacsent.sentences.solvers.pb_neg_sampled import inclusion_probabilities
from pacsent.words.noise import alias
from reference import pb_neg_reference as reference
from reference import w_pb_neg_reference as w_reference


@pytest.fixture(scope="module")
def example(golden):
    """The worked example of the golden file: seven words, four dimensions, three sentences."""
    rows = golden("methods")
    facts = rows["example"]
    tables = np.array(facts["I"]), np.array(facts["O"])
    words = WordVectors(Vocabulary(list("abcdefg"), facts["counts"]), *tables)
    X = [["abcdefg"[w] for w in sentence] for sentence in facts["sentences"]]
    return rows, facts, words, X, words.vocabulary.count(X)


def random_words(rng, n_words=60, n_dims=5, scale=0.8, dtype=np.float64):
    names = [f"w{i}" for i in range(n_words)]
    counts = np.sort(rng.integers(1, 500, n_words))[::-1]
    tables = scale * rng.standard_normal((2, n_words, n_dims))
    return WordVectors(Vocabulary(names, counts), *tables.astype(dtype))


def counts_and_priors(words, X, swap=False):
    """Word counts of sentences, and the means of their priors."""
    counts = words.vocabulary.count(X)
    return counts, counts @ words.roles(swap=swap)[1] / counts.sum(axis=1).A1[:, None]


def random_sentences(rng, words, lengths):
    p = words.vocabulary.counts / words.vocabulary.counts.sum()
    names = np.array(words.vocabulary.words)
    return [names[rng.choice(words.n_words, n, p=p)].tolist() for n in lengths]


def test_expected_objective_and_gradients_are_the_golden_ones(example):
    rows, facts, words, _, counts = example
    at = rows["pb_neg_expected"]
    mu, rho, noise = (np.array(x) for x in (at["mu"], at["rho"], facts["p_n"]))

    for row in at["rows"]:
        s = row["sentence"]
        A_hat, B_hat = words.roles(swap=row["method"].startswith("i-"))
        m = (counts @ B_hat) / counts.sum(axis=1).A1[:, None]

        settings = {"lam": row["lam"], "var_P": row["sigma_P2"], "kl": row["kl"]}
        result = reference.expected_objective(
            mu, rho, counts, A_hat, m, noise, n_negatives=at["k"], **settings
        )

        for name in ("data", "mean_penalty", "var_penalty", "total", "grad_mu", "grad_rho"):
            assert_allclose(getattr(result, name)[s], row[name], rtol=1e-10, atol=1e-10)
        assert_allclose(result.trace[s], row["trace_H"], rtol=1e-10)


def test_exact_solver_finds_the_golden_optima(example):
    rows, _, words, X, _ = example
    for row in rows["optima"]["pb_neg"]:
        if row["kl"] == "paper":  # the paper's penalty is checked by the reference objective only
            continue
        settings = {"lam": row["lam"], "prior_variance": row["sigma_P2"]}
        vectorizer = PBNegVectorizer(words, tol=1e-9, **settings).fit(X)
        means, variances = vectorizer.posterior(X)

        assert_allclose(means[row["sentence"]], row["mu"], atol=1e-7)
        assert_allclose(np.log(variances[row["sentence"]]), row["rho"], atol=1e-7)
        assert vectorizer.gradient_norm_.max() < 1e-7
        assert vectorizer.n_unconverged_ == 0


def test_the_objective_never_rises(rng):
    words = random_words(rng, scale=2.0)  # long vectors: far from quadratic
    X = random_sentences(rng, words, [1, 2, 5, 15, 60])
    counts, m = counts_and_priors(words, X)
    p = words.vocabulary.noise_probabilities(0.75)
    noise = pb_neg_objective.noise_of(words.vocabulary.counts, words.roles(), m.mean(axis=0))

    before = np.full(len(X), np.inf)
    for max_iter in range(1, 25):
        result = pb_neg_objective.solve(
            counts, words.input_vectors, m, noise, lam=50.0, tol=1e-10, max_iter=max_iter
        )

        after = reference.expected_objective(
            result.mu, np.log(result.var_Q), counts, words.input_vectors, m, p, lam=50.0
        ).total

        assert np.all(after <= before + 1e-9 * np.abs(before[np.isfinite(before)]).sum())
        before = after


def test_unconverged_sentences_are_counted_and_warned_about(rng):
    words = random_words(rng)
    X = random_sentences(rng, words, [5, 9])
    vectorizer = PBNegVectorizer(words, tol=1e-9, max_iter=2).fit(X)

    with pytest.warns(ConvergenceWarning, match="2 of 2 sentences did not reach tol=1e-09"):
        vectorizer.transform(X)

    assert vectorizer.n_unconverged_ == 2
    assert_allclose(vectorizer.n_iter_, 2)
    assert np.all(vectorizer.gradient_norm_ > 0)


@pytest.mark.parametrize(
    ("method", "settings", "X", "message"),
    [
        ("PB-neg", {"lam": np.inf}, [["w1"]], r"'lam' parameter of .* in the range \(0.0, inf\)"),
        ("w-PB-neg", {"lam": np.inf}, [["w1"]], r"'lam' parameter of .* in the range \(0.0, inf"),
        (
            "PB-neg",
            {"on_empty": "ignore"},
            [["zzz"], []],
            "X must have words that the vectors know",
        ),
        ("w-PB-neg", {}, [["w0", "w3"], ["w3", "w1"]], "learning_rate must be small enough"),
    ],
)
def test_what_cannot_be_solved_is_refused(rng, monkeypatch, method, settings, X, message):
    lost = np.full((2, 5), np.nan), np.zeros(2)
    monkeypatch.setattr(w_pb_neg, "train", lambda *args, **settings: lost)

    with pytest.raises(ValueError, match=message):
        make_encoder(method, random_words(rng), **settings).fit(X)


@pytest.fixture(scope="module")
def large():
    """A problem that may be sampled, with topics and mostly negative scores, as Skip-gram has."""
    rng = np.random.default_rng(1)
    n_words, n_dims, n_topics = 6000, 50, 10
    topic = rng.integers(0, n_topics, n_words)
    centres = rng.standard_normal((2, n_topics, n_dims))
    I_hat, O_hat = 0.15 * centres[:, topic] + 0.3 * rng.standard_normal((2, n_words, n_dims))

    counts = (1e6 / np.arange(1, n_words + 1)).astype(int)
    words = WordVectors(
        Vocabulary([f"w{i}" for i in range(n_words)], counts),
        (I_hat + 0.2).astype(np.float32),
        (O_hat - 0.25).astype(np.float32),
    )

    X = []
    for n in rng.integers(10, 300, 200):
        p = counts * np.where(topic == rng.integers(n_topics), 5.0, 1.0)
        X.append([f"w{i}" for i in rng.choice(n_words, n, p=p / p.sum())])

    return words, X


def solved_fast(words, X, texts, tol=1e-3, **settings):
    """(fitted fast solver, means, relative errors of mu - m) where both solvers agree to 2 tol."""
    fast = PBNegVectorizer(words, tol=tol, batch_size=64, random_state=0, **settings).fit(X)
    means, variances = fast.posterior(texts)
    assert fast.n_unconverged_ == 0

    exact = PBNegVectorizer(words, tol=1e-8, **settings).fit(X)
    assert not exact.sample_words_.size
    wanted = exact.posterior(texts)

    _, m = counts_and_priors(words, texts)
    error = np.linalg.norm(means - wanted[0], axis=1) / np.linalg.norm(wanted[0] - m, axis=1)

    assert error.max() < 2 * tol
    assert_allclose(variances, wanted[1], rtol=2 * tol)
    return fast, means, error


@pytest.mark.parametrize("tol", [1e-3, 1e-2])
def test_a_sample_of_the_noise_words_is_as_good_as_it_says(large, tol):
    words, X = large
    fast, means, error = solved_fast(words, X, X[:40], tol)

    assert np.median(error) < tol
    if tol == 1e-2:
        sampled = fast.error_ > 0
        assert fast.sample_words_.size < 2000
        assert sampled.mean() > 0.5
        assert np.median(error[sampled]) < 2 * np.median(fast.error_[sampled])
        assert np.median(fast.error_[sampled]) < tol

    again = fast.set_params(batch_size=7).transform(X[:40][::-1])[::-1]
    assert_allclose(again, means, atol=1e-5)
    restored = PBNegVectorizer(words, tol=tol)
    restored._restore(fast._state())
    assert_allclose(restored.transform(X[:5]), means[:5], atol=1e-5)


@pytest.mark.parametrize("n_fitted", [1, 20, 200])
def test_few_or_many_training_texts_are_solved_to_the_same_tolerance(large, n_fitted):
    words, X = large
    texts = [x[:n] for x, n in zip(X, (1, 2, 3, 5, 10, 20, 60, 300))]  # phrases to documents

    solved_fast(words, X[:n_fitted], texts)


def test_long_documents_are_solved_in_few_evaluations(large):
    """log var_Q of a long document has few digits left in single precision: that is no error."""
    words, X = large
    long = [[w for x in X[i : i + 100] for w in x] * 3 for i in range(0, 100, 20)]
    assert min(map(len, long)) > 30_000

    fast, _, error = solved_fast(words, X, long)
    assert fast.n_iter_.max() < 25 and error.max() < 1e-3


@pytest.mark.parametrize("lam", [2.0, 20.0])
def test_sentences_far_from_the_centre_are_solved_in_single_precision(large, monkeypatch, lam):
    """With a large weight of the data no sample says enough: all negatives at every step do."""
    words, X = large
    monkeypatch.setattr(pb_neg_sampled, "solve", None)  # sixty times as slow: reference only

    fast, _, _ = solved_fast(words, X, X[:40], lam=lam, lam_mode="per-token")
    assert (fast.error_ == 0).sum() > (5 if lam == 20.0 else -1)  # solved with all negatives


@pytest.mark.parametrize("tol", [1e-3, 1e-6])
@pytest.mark.parametrize("lam", [1.0, 1e3, 1e6])
def test_a_sentence_that_counts_as_solved_is_within_its_tolerance(rng, lam, tol):
    words = random_words(rng, n_words=60, n_dims=8, scale=0.5)
    X = random_sentences(rng, words, [3, 8, 20, 60])
    swap = lam == 1.0
    counts, m = counts_and_priors(words, X, swap)
    noise = words.vocabulary.count(X).sum(axis=0).A1 ** 0.75
    kappa = counts.sum(axis=1).A1 / lam

    for max_iter in (4, 200):
        settings = {"lam": lam, "tol": tol, "max_iter": max_iter, "swap_roles": swap}
        vectorizer = PBNegVectorizer(words, random_state=0, **settings)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            mu, var_Q = vectorizer.fit(X).posterior(X)

        result = reference.expected_objective(
            mu, np.log(var_Q), counts, words.roles(swap=swap)[0], m, noise / noise.sum(), lam=lam
        )

        distance = np.linalg.norm(result.grad_mu, axis=1) / kappa  # at least |mu - mu*|
        bad = distance > 1.5 * tol * np.linalg.norm(mu - m, axis=1)
        assert bad.sum() <= vectorizer.n_unconverged_


def test_inclusion_probabilities_add_up_and_stop_at_one(rng):
    importance = rng.pareto(0.7, 500)
    for size in (5, 50, 400):
        p = inclusion_probabilities(importance, size)
        assert_allclose(p.sum(), size)
        ratios = (p / importance)[p < 1.0]
        assert p.max() <= 1.0 and np.ptp(ratios) < 1e-12 * ratios[0]

    assert_allclose(inclusion_probabilities([0.0, 1.0, 2.0], 5), [0.0, 1.0, 1.0])


def test_divergence_starts_at_184_tokens_per_lam():
    steps = learning_rates(40, 0.025)
    for n_tokens, lam, diverges in ((175, 1.0, False), (185, 1.0, True), (185, 2.0, False)):
        assert (np.abs(np.prod(1.0 - steps * n_tokens / lam)) > 1.0) == diverges


def test_the_golden_optima_of_words_are_minima(example):
    rows, facts, words, _, counts = example
    var_P = w_pb_neg.prior_variances(facts["counts"])
    assert_allclose(var_P, rows["w_pb_neg_sampled"]["sigma_P2_w"])

    problem = counts, *words.roles(), var_P, np.array(facts["p_n"])
    for row in rows["optima"]["w_pb_neg"]:
        settings = {"lam": row["lam"], "weighting": row["weighting"]}
        mu, rho = w_reference.minimum(*problem, **settings)
        assert_allclose(mu, row["mu_w"], atol=1e-6)
        assert_allclose(rho, row["rho_w"], atol=1e-6)

        value, _, _ = w_reference.expected_objective(mu, rho, *problem, **settings)
        assert_allclose(value, row["value"], atol=1e-10)


def test_the_penalty_over_time_is_the_golden_one(golden):
    def flow(D, u, rate, c, now):
        states = np.array([(np.exp(-u), 0.0, rate, 1.0)], word_posteriors.WORD_STATE)
        words = word_posteriors.LazyPosteriors(np.full((1, 1), D, np.float32), states, c)
        word_posteriors.apply_lazy_decay(words, now)
        return words.D[0, 0], -np.log(words.states["z"][0])

    for row in golden("methods")["lazy"]:
        if row["kind"].startswith("mean_euler"):
            segments = row.get("segments") or [[row["eta"], row["m"]]]
            time = sum(eta * m for eta, m in segments)
            assert_allclose(flow(1.0, 0.0, row["r"], 1.0, time)[0], row["factor_flow"], rtol=1e-6)
        elif row["kind"] == "rho_flow":
            result = flow(1.0, row["u0"], 1.0, 1.0, row["tau"])[1]
            assert_allclose(result, row["u"], rtol=1e-10, atol=1e-14)


@pytest.fixture
def word_problem(rng):
    words = random_words(rng, n_words=40, n_dims=6)
    X = random_sentences(rng, words, rng.integers(2, 30, 50))

    counts = words.vocabulary.count(X)
    seen = np.flatnonzero(counts.sum(axis=0).A1)
    counts = counts.tocsc()[:, seen].tocsr()

    frequency = counts.sum(axis=0).A1
    noise = frequency**0.75 / np.sum(frequency**0.75)
    A, B = (np.float32(table[seen]) for table in (words.input_vectors, words.output_vectors))
    return counts, A, B, w_pb_neg.prior_variances(frequency), noise


def test_word_training_takes_the_steps_of_the_formulas(word_problem):
    """One sentence at a time, against NumPy with the same random numbers."""
    counts, A, B, var_P, noise = word_problem
    lam, k, epochs = 2.0, 3, 2
    result = w_pb_neg.train(
        counts, (A, B), var_P, noise, n_negatives=k, lam=lam, weighting="token",
        steps=learning_rates(epochs, 0.025), block=1, rng=np.random.default_rng(5),
    )  # fmt: skip

    rng = np.random.default_rng(5)
    state = np.maximum(rng.integers(0, 2**63, (1, 1), dtype=np.uint64), np.uint64(1))[0]
    keep, other = alias(noise)

    n_tokens = counts.sum(axis=1).A1
    weights = n_tokens / n_tokens.mean()
    rates, c = 1.0 / (var_P * lam), 0.5 * A.shape[1] / lam

    D, u, level, slope = np.zeros(B.shape), np.zeros(len(B)), 0.5, 0.0
    moment = A.T @ (noise[:, None] * A)

    for eta in learning_rates(epochs, 0.025):
        for s in rng.permutation(len(n_tokens)):
            share = counts[s].toarray().ravel() / n_tokens[s]
            var = share**2 * var_P * np.exp(u)
            eps = normal_numbers(state, A.shape[1])
            deviation = np.sqrt(var.sum())
            h = share @ (B + D) + deviation * eps

            n_drawn = k * int(n_tokens[s])
            drawn = draw_indices(state, keep, other, n_drawn)

            own = 1 / (1 + np.exp(-A @ h))
            g = (share * (own - 1)) @ A

            scores = A[drawn] @ h
            sigmoid = 1 / (1 + np.exp(-scores))
            slopes = sigmoid * (1 - sigmoid) / n_tokens[s], share * own * (1 - own)
            trace = slopes[0] @ (A[drawn] ** 2).sum(1) + slopes[1] @ (A**2).sum(1)

            g = g + (sigmoid - level - slope * scores) @ A[drawn] / n_tokens[s]
            g = g + k * (level * (noise @ A) + slope * moment @ h)
            slope, level = np.polyfit(scores, sigmoid, 1)

            D = w_reference.mean_step(D, rates[:, None], weights[s] * np.outer(share, g), eta)
            push = 0.5 * weights[s] * trace * share**2 * var_P
            u = w_reference.precision_step(u, c, push, eta)  # every word, every step: nothing lazy

    assert_allclose(result[0], B + D, atol=1e-5)
    assert_allclose(result[1], u + np.log(var_P), atol=1e-5)


@pytest.mark.parametrize("n_jobs", [1, 2])
@pytest.mark.parametrize("lam", [0.25, 8.0])
def test_word_training_goes_downhill_on_phrases_that_share_their_words(lam, n_jobs):
    rng = np.random.default_rng(4)
    words = random_words(rng, n_words=400, n_dims=60)
    p = 1.0 / np.arange(1, 401)  # Zipf's law: the same word many times in every block
    names = np.array(words.vocabulary.words)
    X = [rng.choice(names, k, p=p / p.sum()).tolist() for k in rng.integers(1, 4, 1500)]

    how = {"lam": lam, "n_jobs": n_jobs, "random_state": 0}
    for settings in ({"prior_variance": "paper"}, {"learning_rate": 0.5}):
        bold = WordPBNegVectorizer(words, n_epochs=4, **how, **settings).fit(X)
        assert all(np.isfinite(part).all() for part in bold.posterior(X))

    vectorizer = WordPBNegVectorizer(words, n_epochs=12, **how).fit(X)
    trained, var_P = vectorizer.words_, vectorizer.prior_variances_
    counts = words.vocabulary.count(X).tocsc()[:, trained].tocsr()
    A, B = words.input_vectors[trained], words.output_vectors[trained]
    noise = vectorizer.noise_counts_[trained] ** 0.75
    settings = {"weighting": "sentence", "lam": lam / vectorizer.prior_scale_}

    def value(mu, var):
        problem = counts, A, B, var_P, noise / noise.sum()
        return w_reference.expected_objective(mu, np.log(var), *problem, **settings)[0]

    assert value(vectorizer.word_means_, vectorizer.word_variances_) < value(B, var_P) - 0.1


def test_by_default_a_sentence_of_word_posteriors_is_as_wide_as_pb_negs_prior(rng):
    words = random_words(rng)
    X = random_sentences(rng, words, [20] * 200)

    vectorizer = WordPBNegVectorizer(words, n_epochs=3).fit(X)
    _, variances = vectorizer.posterior(X)
    assert 0.5 / 20 < np.median(variances) < 1.0 / 20

    _, wide = WordPBNegVectorizer(words, n_epochs=3, prior_variance="paper").fit(X).posterior(X)
    assert np.median(wide) > 1.0  # 60 words here; hundreds with a real vocabulary
    assert_allclose(
        vectorizer.prior_variances_,
        vectorizer.prior_scale_ * 4000 / vectorizer.noise_counts_[vectorizer.words_],
    )


@pytest.mark.parametrize("block", [1, 16])
def test_word_training_ends_near_the_exact_solution(word_problem, block):
    counts, A, B, _, noise = word_problem
    var_P = np.full(len(A), 0.5)
    settings = {"n_negatives": 15, "lam": 4.0, "weighting": "sentence"}
    exact_mu, exact_rho = w_reference.minimum(counts, A, B, var_P, noise, **settings)

    ends = [
        w_pb_neg.train(
            counts, (A, B), var_P, noise, steps=learning_rates(150, 0.05), block=block,
            rng=np.random.default_rng(seed), **settings,
        )
        for seed in range(4)
    ]  # fmt: skip

    mu, rho = (np.mean([end[i] for end in ends], axis=0) for i in range(2))
    assert np.linalg.norm(mu - exact_mu) < 0.15 * np.linalg.norm(exact_mu - B)
    assert_allclose(rho, exact_rho, atol=0.1)


def test_a_sentence_is_the_mean_of_its_words_and_unseen_words_keep_their_prior(rng):
    words = random_words(rng)
    vectorizer = WordPBNegVectorizer(words, n_epochs=2, n_jobs=1).fit([["w0", "w1", "w1", "w2"]])
    means, variances = vectorizer.posterior([["w1", "w1", "w2"], ["w50", "w0"], ["w50"]])

    learned = dict(zip(vectorizer.words_, vectorizer.word_means_))
    var = dict(zip(vectorizer.words_, vectorizer.word_variances_))

    assert_allclose(means[0], (2 * learned[1] + learned[2]) / 3, rtol=1e-6)
    assert_allclose(variances[0], (4 * var[1] + var[2]) / 9)  # one draw for both w1
    assert_allclose(means[1], (words.output_vectors[50] + learned[0]) / 2, rtol=1e-6)
    assert_allclose(means[2], words.output_vectors[50], rtol=1e-6)


def test_pv_dbow_loss_and_gradients_are_the_golden_ones(example):
    rows, facts, words, *_ = example
    row = rows["pv_dbow"]

    loss, grad_h, grad_A = w_reference.pv_dbow_objective(
        np.array(row["h"]), facts["sentences"], row["negatives"], words.input_vectors
    )

    assert_allclose(loss, row["loss_sum"], rtol=1e-13)
    assert_allclose(grad_h, row["grad_h"], rtol=1e-12, atol=1e-13)
    assert_allclose(grad_A, row["grad_I"], rtol=1e-12, atol=1e-13)


def test_pv_dbow_needs_no_output_table(rng):
    words = random_words(rng)
    one_table = WordVectors(words.vocabulary, words.input_vectors)
    vectors = PVDBOWVectorizer(one_table, n_epochs=2).fit_transform([["w1", "w2"]])

    assert vectors.shape == (1, words.n_dims)
