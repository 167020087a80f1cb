"""PB-neg, w-PB-neg and PV-DBOW: formulas and solvers by more than one route each."""

import copy
import functools
import warnings
from itertools import chain

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
    _, B_hat = words.roles(swap=swap)
    n_tokens = counts.sum(axis=1).A1
    return counts, counts @ B_hat / n_tokens[:, None]


def random_sentences(rng, words, lengths):
    p = words.vocabulary.counts / words.vocabulary.counts.sum()
    names = np.array(words.vocabulary.words)
    sentences = []
    for length in lengths:
        rows = rng.choice(words.n_words, length, p=p)
        sentences.append(names[rows].tolist())
    return sentences


def noise_distribution(frequency):
    """The distribution of negative samples of word2vec."""
    weights = frequency**0.75
    return weights / weights.sum()


def logistic(scores):
    return 1 / (1 + np.exp(-scores))


def test_expected_objective_and_gradients_are_the_golden_ones(example):
    rows, facts, words, _, counts = example
    golden_rows = rows["pb_neg_expected"]
    mu = np.array(golden_rows["mu"])
    rho = np.array(golden_rows["rho"])
    noise = np.array(facts["p_n"])
    n_tokens = counts.sum(axis=1).A1

    for row in golden_rows["rows"]:
        s = row["sentence"]
        A_hat, B_hat = words.roles(swap=row["method"].startswith("i-"))
        m = (counts @ B_hat) / n_tokens[:, None]

        result = reference.expected_objective(
            mu,
            rho,
            counts,
            A_hat,
            m,
            noise,
            n_negatives=golden_rows["k"],
            lam=row["lam"],
            var_P=row["sigma_P2"],
            kl=row["kl"],
        )

        for name in ("data", "mean_penalty", "var_penalty", "total", "grad_mu", "grad_rho"):
            assert_allclose(getattr(result, name)[s], row[name], rtol=1e-10, atol=1e-10)
        assert_allclose(result.trace[s], row["trace_H"], rtol=1e-10)


def test_exact_solver_finds_the_golden_optima(example):
    rows, _, words, X, _ = example
    for row in rows["optima"]["pb_neg"]:
        if row["kl"] == "paper":  # the paper's penalty is checked by the reference objective only
            continue
        vectorizer = PBNegVectorizer(
            words, tol=1e-9, lam=row["lam"], prior_variance=row["sigma_P2"]
        )
        means, variances = vectorizer.fit(X).posterior(X)

        s = row["sentence"]
        assert_allclose(means[s], row["mu"], atol=1e-7)
        assert_allclose(np.log(variances[s]), row["rho"], atol=1e-7)
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

        rho = np.log(result.var_Q)
        after = reference.expected_objective(
            result.mu, rho, counts, words.input_vectors, m, p, lam=50.0
        ).total

        finite_values = before[np.isfinite(before)]
        rounding = 1e-9 * np.abs(finite_values).sum()
        assert np.all(after <= before + rounding)
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
def test_problems_that_cannot_be_solved_are_rejected(
    rng, monkeypatch, method, settings, X, message
):
    diverged_means = np.full((2, 5), np.nan)
    diverged = (diverged_means, np.zeros(2))
    monkeypatch.setattr(w_pb_neg, "train", lambda *args, **settings: diverged)

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
    vocabulary = Vocabulary([f"w{i}" for i in range(n_words)], counts)
    input_vectors = (I_hat + 0.2).astype(np.float32)
    output_vectors = (O_hat - 0.25).astype(np.float32)

    X = []
    for n_tokens in rng.integers(10, 300, 200):
        is_in_topic = topic == rng.integers(n_topics)
        p = counts * np.where(is_in_topic, 5.0, 1.0)
        ids = rng.choice(n_words, n_tokens, p=p / p.sum())
        X.append([f"w{i}" for i in ids])

    return WordVectors(vocabulary, input_vectors, output_vectors), X


def solve_fast(words, X, texts, tol=1e-3, **settings):
    """(fitted fast solver, means, relative errors of mu - m) where both solvers agree to 2 tol."""
    fast = PBNegVectorizer(words, tol=tol, batch_size=64, random_state=0, **settings).fit(X)
    means, variances = fast.posterior(texts)
    assert fast.n_unconverged_ == 0

    exact = PBNegVectorizer(words, tol=1e-8, **settings).fit(X)
    assert not exact.sample_words_.size
    exact_means, exact_variances = exact.posterior(texts)

    _, m = counts_and_priors(words, texts)
    distances = np.linalg.norm(means - exact_means, axis=1)
    errors = distances / np.linalg.norm(exact_means - m, axis=1)

    assert errors.max() < 2 * tol
    assert_allclose(variances, exact_variances, rtol=2 * tol)
    return fast, means, errors


@pytest.fixture(scope="module")
def solve_sampled(large):
    """solve_sampled(tol) -> the solution of 40 texts with a sample of the noise words."""
    words, X = large
    return functools.cache(lambda tol: solve_fast(words, X, X[:40], tol))


@pytest.mark.parametrize("tol", [1e-3, 1e-2])
def test_a_sample_of_the_noise_words_is_good_enough(solve_sampled, tol):
    _, _, errors = solve_sampled(tol)

    assert np.median(errors) < tol


def test_the_error_of_a_sample_of_the_noise_words_is_estimated(solve_sampled):
    tol = 1e-2

    fast, _, errors = solve_sampled(tol)

    is_sampled = fast.error_ > 0
    median_estimate = np.median(fast.error_[is_sampled])
    assert fast.sample_words_.size < 2000
    assert is_sampled.mean() > 0.5
    assert np.median(errors[is_sampled]) < 2 * median_estimate
    assert median_estimate < tol


@pytest.mark.parametrize("tol", [1e-3, 1e-2])
def test_vectors_do_not_depend_on_batches_or_order(solve_sampled, large, tol):
    _, X = large
    fast, means, _ = solve_sampled(tol)
    in_small_batches = copy.copy(fast).set_params(batch_size=7)

    reversed_means = in_small_batches.transform(X[:40][::-1])

    assert_allclose(reversed_means[::-1], means, atol=1e-5)


@pytest.mark.parametrize("tol", [1e-3, 1e-2])
def test_a_restored_vectorizer_gives_the_same_vectors(solve_sampled, large, tol):
    words, X = large
    fast, means, _ = solve_sampled(tol)

    restored = PBNegVectorizer(words, tol=tol)
    restored._restore(fast._state())

    assert_allclose(restored.transform(X[:5]), means[:5], atol=1e-5)


@pytest.mark.parametrize("n_fitted", [1, 20, 200])
def test_few_or_many_training_texts_are_solved_to_the_same_tolerance(large, n_fitted):
    words, X = large
    lengths = (1, 2, 3, 5, 10, 20, 60, 300)  # phrases to documents
    texts = [tokens[:length] for tokens, length in zip(X, lengths)]

    solve_fast(words, X[:n_fitted], texts)


def test_long_documents_are_solved_in_few_evaluations(large):
    """log var_Q of a long document has few digits left in single precision: that is no error."""
    words, X = large
    documents = []
    for start in range(0, 100, 20):
        tokens = list(chain.from_iterable(X[start : start + 100]))
        documents.append(tokens * 3)
    assert min(map(len, documents)) > 30_000

    fast, _, errors = solve_fast(words, X, documents)

    assert fast.n_iter_.max() < 25
    assert errors.max() < 1e-3


@pytest.mark.parametrize("lam", [2.0, 20.0])
def test_sentences_far_from_the_centre_are_solved_in_single_precision(large, monkeypatch, lam):
    """With a large weight of the data no sample says enough: all negatives at every step do."""
    words, X = large
    monkeypatch.setattr(pb_neg_sampled, "solve", None)  # sixty times as slow: reference only

    fast, _, _ = solve_fast(words, X, X[:40], lam=lam, lam_mode="per-token")

    if lam == 20.0:
        is_solved_with_all_negatives = fast.error_ == 0
        assert is_solved_with_all_negatives.sum() > 5


@pytest.mark.parametrize("max_iter", [4, 200])
@pytest.mark.parametrize("tol", [1e-3, 1e-6])
@pytest.mark.parametrize(
    ("lam", "swap"), [(1.0, True), (1e3, False), (1e6, False)], ids=["1", "1e3", "1e6"]
)
def test_a_sentence_that_counts_as_solved_is_within_its_tolerance(rng, lam, swap, tol, max_iter):
    words = random_words(rng, n_words=60, n_dims=8, scale=0.5)
    X = random_sentences(rng, words, [3, 8, 20, 60])
    vectorizer = PBNegVectorizer(
        words, lam=lam, tol=tol, max_iter=max_iter, swap_roles=swap, random_state=0
    )

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        mu, var_Q = vectorizer.fit(X).posterior(X)

    counts, m = counts_and_priors(words, X, swap)
    A_hat, _ = words.roles(swap=swap)
    noise = noise_distribution(counts.sum(axis=0).A1)
    kappa = counts.sum(axis=1).A1 / lam
    result = reference.expected_objective(mu, np.log(var_Q), counts, A_hat, m, noise, lam=lam)
    distances = np.linalg.norm(result.grad_mu, axis=1) / kappa  # at least |mu - mu*|
    lengths = np.linalg.norm(mu - m, axis=1)
    is_unsolved = distances > 1.5 * tol * lengths
    assert is_unsolved.sum() <= vectorizer.n_unconverged_


@pytest.mark.parametrize("size", [5, 50, 400])
def test_inclusion_probabilities_add_up_and_are_proportional_below_one(rng, size):
    importance = rng.pareto(0.7, 500)

    p = inclusion_probabilities(importance, size)

    assert_allclose(p.sum(), size)
    assert p.max() <= 1.0
    ratios = (p / importance)[p < 1.0]
    assert np.ptp(ratios) < 1e-12 * ratios[0]


def test_words_without_importance_are_never_included():
    assert_allclose(inclusion_probabilities([0.0, 1.0, 2.0], 5), [0.0, 1.0, 1.0])


@pytest.mark.parametrize(
    ("n_tokens", "lam", "diverges"), [(175, 1.0, False), (185, 1.0, True), (185, 2.0, False)]
)
def test_divergence_starts_at_184_tokens_per_lam(n_tokens, lam, diverges):
    steps = learning_rates(40, 0.025)

    factors = 1.0 - steps * n_tokens / lam

    assert (np.abs(np.prod(factors)) > 1.0) == diverges


def test_the_golden_optima_of_words_are_minima(example):
    rows, facts, words, _, counts = example
    var_P = w_pb_neg.prior_variances(facts["counts"])
    assert_allclose(var_P, rows["w_pb_neg_sampled"]["sigma_P2_w"])

    problem = (counts, *words.roles(), var_P, np.array(facts["p_n"]))
    for row in rows["optima"]["w_pb_neg"]:
        lam = row["lam"]
        weighting = row["weighting"]
        mu, rho = w_reference.minimum(*problem, lam=lam, weighting=weighting)
        value, _, _ = w_reference.expected_objective(
            mu, rho, *problem, lam=lam, weighting=weighting
        )

        assert_allclose(mu, row["mu_w"], atol=1e-6)
        assert_allclose(rho, row["rho_w"], atol=1e-6)
        assert_allclose(value, row["value"], atol=1e-10)


def decay_one_word(u, rate, time):
    """(D, u) of a word that starts at D = 1, after the penalty has acted for some time."""
    D = np.ones((1, 1), np.float32)
    states = np.array([(np.exp(-u), 0.0, rate, 1.0)], word_posteriors.WORD_STATE)
    words = word_posteriors.LazyPosteriors(D, states, 1.0)

    word_posteriors.apply_lazy_decay(words, time)

    [z] = states["z"]
    return D[0, 0], -np.log(z)


def test_the_penalty_of_means_over_time_is_the_golden_one(golden):
    rows = [row for row in golden("methods")["lazy"] if row["kind"].startswith("mean_euler")]
    assert rows

    for row in rows:
        segments = row.get("segments") or [[row["eta"], row["m"]]]
        time = sum(eta * m for eta, m in segments)
        D, _ = decay_one_word(0.0, row["r"], time)
        assert_allclose(D, row["factor_flow"], rtol=1e-6)


def test_the_penalty_of_variances_over_time_is_the_golden_one(golden):
    rows = [row for row in golden("methods")["lazy"] if row["kind"] == "rho_flow"]
    assert rows

    for row in rows:
        _, u = decay_one_word(row["u0"], 1.0, row["tau"])
        assert_allclose(u, row["u"], rtol=1e-10, atol=1e-14)


@pytest.fixture
def word_problem(rng):
    words = random_words(rng, n_words=40, n_dims=6)
    X = random_sentences(rng, words, rng.integers(2, 30, 50))

    counts = words.vocabulary.count(X)
    seen = np.flatnonzero(counts.sum(axis=0).A1)
    counts = counts.tocsc()[:, seen].tocsr()

    frequency = counts.sum(axis=0).A1
    A = np.float32(words.input_vectors[seen])
    B = np.float32(words.output_vectors[seen])
    var_P = w_pb_neg.prior_variances(frequency)
    return counts, A, B, var_P, noise_distribution(frequency)


class NoiseLine:
    """The gradient of the negatives: a line through the sigmoids of their scores, and the rest.

    The expectation of a line of this level and slope is exact; only what the sigmoid has beyond it
    is estimated from the negatives that are drawn.
    """

    def __init__(self, A, noise, n_negatives):
        self.A = A
        self.alias_table = alias(noise)
        self.n_negatives = n_negatives
        self.mean = noise @ A
        self.moment = A.T @ (noise[:, None] * A)
        self.level = 0.5
        self.slope = 0.0

    def gradient_and_trace(self, state, h, n_tokens):
        drawn = draw_indices(state, *self.alias_table, self.n_negatives * n_tokens)
        vectors = self.A[drawn]
        scores = vectors @ h
        sigmoid = logistic(scores)
        residuals = sigmoid - self.level - self.slope * scores
        of_line = self.level * self.mean + self.slope * self.moment @ h
        gradient = self.n_negatives * of_line + residuals @ vectors / n_tokens

        slopes = sigmoid * (1 - sigmoid) / n_tokens
        trace = slopes @ (vectors**2).sum(axis=1)

        self.slope, self.level = np.polyfit(scores, sigmoid, 1)
        return gradient, trace


def train_by_formulas(word_problem, steps, lam, n_negatives, seed):
    """(means, log variances) after steps of one sentence at a time: nothing is lazy here."""
    counts, A, B, var_P, noise = word_problem
    rng = np.random.default_rng(seed)
    seeds = rng.integers(0, 2**63, (1, 1), dtype=np.uint64)
    state = np.maximum(seeds, np.uint64(1))[0]
    negatives = NoiseLine(A, noise, n_negatives)

    n_dims = A.shape[1]
    n_tokens = counts.sum(axis=1).A1.astype(int)
    weights = n_tokens / n_tokens.mean()
    rates = 1.0 / (var_P * lam)
    c = 0.5 * n_dims / lam
    norms = (A**2).sum(axis=1)

    D = np.zeros(B.shape)
    u = np.zeros(len(B))
    for eta in steps:
        for s in rng.permutation(len(n_tokens)):
            share = counts[s].toarray().ravel() / n_tokens[s]
            var = share**2 * var_P * np.exp(u)
            eps = normal_numbers(state, n_dims)
            h = share @ (B + D) + np.sqrt(var.sum()) * eps

            own = logistic(A @ h)
            own_slopes = share * own * (1 - own)
            own_gradient = (share * (own - 1)) @ A
            noise_gradient, noise_trace = negatives.gradient_and_trace(state, h, n_tokens[s])

            gradient = own_gradient + noise_gradient
            trace = own_slopes @ norms + noise_trace
            pull = weights[s] * np.outer(share, gradient)
            push = 0.5 * weights[s] * trace * share**2 * var_P
            D = w_reference.mean_step(D, rates[:, None], pull, eta)
            u = w_reference.precision_step(u, c, push, eta)

    return B + D, u + np.log(var_P)


def test_word_training_takes_the_steps_of_the_formulas(word_problem):
    """One sentence at a time, against NumPy with the same random numbers."""
    counts, A, B, var_P, noise = word_problem
    steps = learning_rates(2, 0.025)

    mu, rho = w_pb_neg.train(
        counts,
        (A, B),
        var_P,
        noise,
        n_negatives=3,
        lam=2.0,
        weighting="token",
        steps=steps,
        block=1,
        rng=np.random.default_rng(5),
    )

    expected_mu, expected_rho = train_by_formulas(word_problem, steps, 2.0, 3, seed=5)
    assert_allclose(mu, expected_mu, atol=1e-5)
    assert_allclose(rho, expected_rho, atol=1e-5)


@pytest.fixture(scope="module")
def phrases():
    """Word vectors, and 1,500 phrases of one to three words."""
    rng = np.random.default_rng(4)
    words = random_words(rng, n_words=400, n_dims=60)
    p = 1.0 / np.arange(1, 401)  # Zipf's law: the same word many times in every block
    p /= p.sum()
    names = np.array(words.vocabulary.words)
    X = [rng.choice(names, n, p=p).tolist() for n in rng.integers(1, 4, 1500)]
    return words, X


@pytest.mark.parametrize("n_jobs", [1, 2])
@pytest.mark.parametrize("lam", [0.25, 8.0])
@pytest.mark.parametrize("settings", [{"prior_variance": "paper"}, {"learning_rate": 0.5}])
def test_word_training_with_large_steps_stays_finite(phrases, lam, n_jobs, settings):
    words, X = phrases
    vectorizer = WordPBNegVectorizer(
        words, n_epochs=4, lam=lam, n_jobs=n_jobs, random_state=0, **settings
    )

    means, variances = vectorizer.fit(X).posterior(X)

    assert np.isfinite(means).all()
    assert np.isfinite(variances).all()


@pytest.mark.parametrize(
    ("lam", "n_jobs"),
    [
        (0.25, 1),
        (8.0, 2),
        pytest.param(0.25, 2, marks=pytest.mark.slow),
        pytest.param(8.0, 1, marks=pytest.mark.slow),
    ],
)
def test_word_training_goes_downhill_on_phrases_that_share_their_words(phrases, lam, n_jobs):
    words, X = phrases

    vectorizer = WordPBNegVectorizer(
        words, n_epochs=12, lam=lam, n_jobs=n_jobs, random_state=0
    ).fit(X)

    trained = vectorizer.words_
    var_P = vectorizer.prior_variances_
    counts = words.vocabulary.count(X).tocsc()[:, trained].tocsr()
    A = words.input_vectors[trained]
    B = words.output_vectors[trained]
    noise = noise_distribution(vectorizer.noise_counts_[trained])

    def objective(mu, var_Q):
        value, _, _ = w_reference.expected_objective(
            mu,
            np.log(var_Q),
            counts,
            A,
            B,
            var_P,
            noise,
            weighting="sentence",
            lam=lam / vectorizer.prior_scale_,
        )
        return value

    value_after = objective(vectorizer.word_means_, vectorizer.word_variances_)
    assert value_after < objective(B, var_P) - 0.1


def test_by_default_a_sentence_of_word_posteriors_is_as_wide_as_pb_negs_prior(rng):
    words = random_words(rng)
    X = random_sentences(rng, words, [20] * 200)

    vectorizer = WordPBNegVectorizer(words, n_epochs=3).fit(X)
    _, variances = vectorizer.posterior(X)

    assert 0.5 / 20 < np.median(variances) < 1.0 / 20
    word_counts = vectorizer.noise_counts_[vectorizer.words_]
    assert_allclose(vectorizer.prior_variances_, vectorizer.prior_scale_ * 4000 / word_counts)


def test_the_papers_prior_of_words_is_wide(rng):
    words = random_words(rng)
    X = random_sentences(rng, words, [20] * 200)

    vectorizer = WordPBNegVectorizer(words, n_epochs=3, prior_variance="paper").fit(X)
    _, variances = vectorizer.posterior(X)

    assert np.median(variances) > 1.0  # 60 words here; hundreds with a real vocabulary


@pytest.mark.parametrize("block", [1, 16])
def test_word_training_ends_near_the_exact_solution(word_problem, block):
    counts, A, B, _, noise = word_problem
    var_P = np.full(len(A), 0.5)
    settings = {"n_negatives": 15, "lam": 4.0, "weighting": "sentence"}
    steps = learning_rates(150, 0.05)

    means = []
    log_variances = []
    for seed in range(4):
        rng = np.random.default_rng(seed)
        mu, rho = w_pb_neg.train(
            counts, (A, B), var_P, noise, steps=steps, block=block, rng=rng, **settings
        )
        means.append(mu)
        log_variances.append(rho)

    exact_mu, exact_rho = w_reference.minimum(counts, A, B, var_P, noise, **settings)
    distance = np.linalg.norm(np.mean(means, axis=0) - exact_mu)
    assert distance < 0.15 * np.linalg.norm(exact_mu - B)
    assert_allclose(np.mean(log_variances, axis=0), exact_rho, atol=0.1)


def test_a_sentence_is_the_mean_of_its_words_and_unseen_words_keep_their_prior(rng):
    words = random_words(rng)
    vectorizer = WordPBNegVectorizer(words, n_epochs=2, n_jobs=1)
    vectorizer.fit([["w0", "w1", "w1", "w2"]])

    means, variances = vectorizer.posterior([["w1", "w1", "w2"], ["w50", "w0"], ["w50"]])

    mean_of = dict(zip(vectorizer.words_, vectorizer.word_means_))
    variance_of = dict(zip(vectorizer.words_, vectorizer.word_variances_))
    unseen = words.output_vectors[50]
    assert_allclose(means[0], (2 * mean_of[1] + mean_of[2]) / 3, rtol=1e-6)
    assert_allclose(means[1], (unseen + mean_of[0]) / 2, rtol=1e-6)
    assert_allclose(means[2], unseen, rtol=1e-6)
    # One draw for both w1.
    assert_allclose(variances[0], (4 * variance_of[1] + variance_of[2]) / 9)


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
    vectorizer = PVDBOWVectorizer(one_table, n_epochs=2)

    vectors = vectorizer.fit_transform([["w1", "w2"]])

    assert vectors.shape == (1, words.n_dims)
