"""Weighted means: each is its formula, learned from the table alone or from texts, as asked."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from pacsent import Vocabulary, WordVectors, certify_encoder, make_encoder
from pacsent.sentences.solvers import weights as formulas

N_WORDS = 200
N_DIMS = 8
WORDS = [f"word{i}" for i in range(N_WORDS)]
COUNTS = np.geomspace(1e6, 5, N_WORDS).astype(int)
P = COUNTS / COUNTS.sum()


@pytest.fixture(scope="module")
def words():
    rng = np.random.default_rng(3)
    tables = rng.normal(0.3, 1.0, (2, N_WORDS, N_DIMS))
    return WordVectors(Vocabulary(WORDS, COUNTS), *tables)


@pytest.fixture(scope="module")
def texts():
    """Texts of one to 39 words, in which frequent words are less so than in the vocabulary."""
    rng = np.random.default_rng(4)
    p = np.sqrt(P) / np.sqrt(P).sum()
    return [rng.choice(WORDS, length, p=p).tolist() for length in range(1, 40)]


def weighted_means(weights, vectors, texts):
    """The mean of the weighted vectors of the words of each text."""
    weighted_vectors = weights[:, None] * vectors
    means = []
    for text in texts:
        ids = [WORDS.index(word) for word in text]
        means.append(weighted_vectors[ids].mean(axis=0))
    return np.stack(means)


def usif_parameter():
    """The a of Ethayarajh (2018), from the vocabulary alone."""
    threshold = 1 - (1 - 1 / N_WORDS) ** 11
    alpha = np.mean(threshold < P)
    return (1 - alpha) / (alpha * 0.5 * N_WORDS)


def test_sif_is_the_weighted_mean_minus_the_first_direction_of_the_texts(words, texts):
    vectors = make_encoder("SIF", words, learn_from="texts").fit_transform(texts)

    weights = 1e-3 / (1e-3 + P)
    means = weighted_means(weights, words.input_vectors, texts)
    _, _, directions = np.linalg.svd(means)
    u = directions[0]
    assert_allclose(vectors, means - np.outer(means @ u, u), atol=1e-6)


def test_usif_takes_its_a_from_the_vocabulary(words):
    vectorizer = make_encoder("uSIF", words).fit([])

    assert_allclose(vectorizer.a_, usif_parameter())


def test_usif_removes_a_fraction_of_five_directions(words, texts):
    text = texts[20]
    vectorizer = make_encoder("uSIF", words).fit([])

    [vector] = vectorizer.transform([text])

    a = usif_parameter()
    [mean] = weighted_means(a / (a / 2 + P), words.input_vectors, [text])
    expected = mean
    for u, fraction in zip(vectorizer.directions_, vectorizer.shares_):
        expected = expected - fraction * (mean @ u) * u
    assert_allclose(vector, expected, atol=1e-10)


def test_the_fractions_of_usif_add_up_to_one(words):
    vectorizer = make_encoder("uSIF", words).fit([])

    assert vectorizer.directions_.shape == (5, N_DIMS)
    assert_allclose(vectorizer.shares_.sum(), 1)


@pytest.mark.slow
def test_directions_of_the_table_are_those_of_sentences_of_independent_words(words):
    rng = np.random.default_rng(5)
    sentences = [rng.choice(WORDS, 11, p=P).tolist() for _ in range(20_000)]

    from_table = make_encoder("SIF", words).fit([])
    from_texts = make_encoder("SIF", words, learn_from="texts").fit(sentences)

    cosine_of_directions = from_table.directions_[0] @ from_texts.directions_[0]
    assert abs(cosine_of_directions) > 0.999


def sif_sum_table(words, a):
    """The vectors of words that SIF-sum averages, and their weights."""
    weights = np.sqrt(a / (a + P))
    q = P * weights
    light_words = np.setdiff1d(np.arange(N_WORDS), formulas.heaviest(q))
    q[light_words] = 0
    q /= q.sum()

    T = unit_rows_around_mean(words.input_vectors, q)
    T += unit_rows_around_mean(words.output_vectors, q)
    var_T = q @ T**2 - (q @ T) ** 2
    T /= np.sqrt(var_T)

    R = T.T @ (T * q[:, None])
    R /= np.linalg.eigvalsh(R).mean()
    identity = np.eye(N_DIMS)
    conceptor = R @ np.linalg.inv(R + 2.5**-2 * identity)
    return T @ (identity - conceptor), weights


def unit_rows_around_mean(table, q):
    centred = table - q @ table
    return centred / np.linalg.norm(centred, axis=1, keepdims=True)


def test_sif_sum_is_its_formula(words, texts):
    vectorizer = make_encoder("SIF-sum", words, a=1e-2).fit([])

    vectors = vectorizer.transform(texts)

    table, weights = sif_sum_table(words, 1e-2)
    assert_allclose(vectors, weighted_means(weights, table, texts), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("name", ["SIF", "uSIF"])
def test_by_default_the_fitted_texts_change_nothing(words, texts, name):
    first = make_encoder(name, words).fit(texts)
    second = make_encoder(name, words).fit(texts[:3])

    assert_allclose(first.transform(texts), second.transform(texts), atol=1e-12)
    assert not hasattr(first, "fingerprint_")


@pytest.mark.parametrize("name", ["SIF", "uSIF"])
def test_the_fitted_texts_decide_where_they_were_asked_to(words, texts, name):
    first = make_encoder(name, words, learn_from="texts").fit(texts)
    second = make_encoder(name, words, learn_from="texts").fit(texts[:9])

    differences = first.transform(texts) - second.transform(texts)
    assert np.abs(differences).max() > 1e-3
    assert first.fingerprint_.n_runs != second.fingerprint_.n_runs


@pytest.mark.parametrize("name", ["SIF", "uSIF"])
def test_nothing_is_learned_from_no_texts(words, name):
    vectorizer = make_encoder(name, words, learn_from="texts")

    with pytest.raises(ValueError, match="must be fitted on sentences with in-vocabulary words"):
        vectorizer.fit([])


@pytest.mark.parametrize("name", ["SIF", "uSIF", "SIF-sum", "concat"])
def test_lam_changes_lengths_and_variances_but_no_direction(words, texts, name):
    unshrunk = make_encoder(name, words, lam=np.inf).fit(texts)
    shrunk = make_encoder(name, words, lam=3.0, prior_variance=0.5).fit(texts)

    unshrunk_means, _ = unshrunk.posterior(texts)
    means, variances = shrunk.posterior(texts)

    assert_allclose(means, unshrunk_means / (1 + 1 / 1.5), atol=1e-9)
    assert_allclose(variances, 1 / (3 + 2))


def test_concat_is_both_averages_side_by_side(words, texts):
    vectorizer = make_encoder("concat", words, lam=np.inf)

    vectors = vectorizer.fit_transform(texts)

    input_means = make_encoder("Average", words).fit_transform(texts)
    output_means = make_encoder("i-Average", words).fit_transform(texts)
    assert_allclose(vectors, np.hstack([input_means, output_means]), atol=1e-12)


def test_vectors_in_the_coordinates_of_the_words_are_certified(words, texts):
    encoder = make_encoder("SIF", words)

    certificate = certify_encoder(encoder, texts * 5)

    assert 0 < certificate.error_upper <= 1


@pytest.mark.parametrize("name", ["SIF-sum", "concat"])
def test_vectors_in_other_coordinates_are_not_certified(words, texts, name):
    encoder = make_encoder(name, words)

    with pytest.raises(ValueError, match="must be in the coordinates of the word table"):
        certify_encoder(encoder, texts)


@pytest.mark.parametrize("name", ["SIF", "uSIF", "SIF-sum"])
def test_words_without_counts_are_rejected_with_advice(words, name):
    no_counts = WordVectors(Vocabulary(WORDS), words.input_vectors, words.output_vectors)
    vectorizer = make_encoder(name, no_counts)

    with pytest.raises(ValueError, match="needs word counts, and this vocabulary has none"):
        vectorizer.fit([])


@pytest.fixture
def posterior_and_objective(words):
    """The mean and variance of a text by SIF, and the function of both that they minimise."""
    ids = [0, 150, 3]
    text = [WORDS[i] for i in ids]
    vectorizer = make_encoder("SIF", words, lam=2.0, prior_variance=0.7).fit([])
    [mean], [variance] = vectorizer.posterior([text])

    weights = formulas.sif_weights(P, 1e-3)[ids]
    [u] = vectorizer.directions_
    vectors = words.input_vectors[ids]
    vectors = vectors - np.outer(vectors @ u, u)

    def objective(m, v):
        distances = ((vectors - m) ** 2).sum(axis=1)
        squared_length = m @ m
        data = weights @ distances + (1 - weights).sum() * squared_length
        ratio = v / 0.7
        kl = 0.5 * (squared_length / 0.7 + N_DIMS * (ratio - 1 - np.log(ratio)))
        return data / 6 + N_DIMS * v / 2 + kl / 2.0

    return mean, variance, objective


def test_the_mean_of_the_posterior_minimises_its_objective(posterior_and_objective):
    mean, variance, objective = posterior_and_objective
    steps = np.random.default_rng(0).normal(size=(50, N_DIMS))

    for step in steps:
        assert objective(mean + 0.01 * step, variance) > objective(mean, variance)


def test_the_variance_of_the_posterior_minimises_its_objective(posterior_and_objective):
    mean, variance, objective = posterior_and_objective

    assert objective(mean, variance * 1.02) > objective(mean, variance)
    assert objective(mean, variance * 0.98) > objective(mean, variance)


def cosines(a, b):
    """Of the rows of two arrays; 0 where a row is zero."""
    lengths = np.linalg.norm(a, axis=1) * np.linalg.norm(b, axis=1)
    products = (a * b).sum(axis=1)
    return np.divide(products, lengths, out=np.zeros(len(a)), where=lengths > 0)


@pytest.mark.slow
def test_the_frozen_recipe_reaches_its_goals_on_real_similarity(data_dir):
    from scipy.stats import pearsonr, spearmanr

    from pacsent.paper import benchmark_datasets as datasets

    words = datasets.load_word_vectors(data_dir / "vectors")
    pairs = datasets.load("stsb", data_dir / "datasets")
    scores = pairs.scores["test"]
    vectorizer = make_encoder("SIF-sum", words, on_empty="ignore").fit([])

    first = vectorizer.transform(pairs.first["test"])
    second = vectorizer.transform(pairs.second["test"])

    found = cosines(first, second)
    assert pearsonr(found, scores).statistic >= 0.73
    assert spearmanr(found, scores).statistic >= 0.70
