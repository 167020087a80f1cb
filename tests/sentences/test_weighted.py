"""Weighted means: each is its formula, learned from the table alone or from texts, as asked."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from pacsent import Vocabulary, WordVectors, certify_encoder, make_encoder
from pacsent.sentences.solvers import weights as formulas

N_WORDS, N_DIMS = 200, 8
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
    rng = np.random.default_rng(4)
    return [rng.choice(WORDS, n, p=P**0.5 / (P**0.5).sum()).tolist() for n in range(1, 40)]


def word_ids(text):
    return [WORDS.index(word) for word in text]


def weighted_means(weights, vectors, texts):
    """The mean of the weighted vectors of the words of each text."""
    weighted_vectors = weights[:, None] * vectors
    return np.stack([weighted_vectors[word_ids(text)].mean(0) for text in texts])


def cosine(a, b):
    return np.sum(a * b, -1) / np.linalg.norm(a, axis=-1) / np.linalg.norm(b, axis=-1)


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
    vectorizer = make_encoder("uSIF", words).fit([])
    [vector] = vectorizer.transform([texts[20]])

    assert vectorizer.directions_.shape == (5, N_DIMS)
    assert_allclose(vectorizer.shares_.sum(), 1)
    a = usif_parameter()
    [mean] = weighted_means(a / (a / 2 + P), words.input_vectors, [texts[20]])
    expected = mean
    for u, fraction in zip(vectorizer.directions_, vectorizer.shares_):
        expected = expected - fraction * (mean @ u) * u
    assert_allclose(vector, expected, atol=1e-10)


@pytest.mark.slow
def test_directions_of_the_table_are_those_of_sentences_of_independent_words(words):
    rng = np.random.default_rng(5)
    sentences = [rng.choice(WORDS, 11, p=P).tolist() for _ in range(20_000)]

    from_table = make_encoder("SIF", words).fit([])
    from_texts = make_encoder("SIF", words, learn_from="texts").fit(sentences)

    cosine_of_directions = from_table.directions_[0] @ from_texts.directions_[0]
    assert abs(cosine_of_directions) > 0.999


def test_sif_sum_is_its_formula(words, texts):
    vectorizer = make_encoder("SIF-sum", words, a=1e-2).fit([])
    vectors = vectorizer.transform(texts)

    weights = np.sqrt(1e-2 / (1e-2 + P))
    q = P * weights
    light_words = np.setdiff1d(np.arange(N_WORDS), formulas.heaviest(q))
    q[light_words] = 0
    q /= q.sum()

    unit_tables = []
    for table in (words.input_vectors, words.output_vectors):
        centred = table - q @ table
        unit_tables.append(centred / np.linalg.norm(centred, axis=1, keepdims=True))
    T = unit_tables[0] + unit_tables[1]
    var_T = q @ T**2 - (q @ T) ** 2
    T = T / np.sqrt(var_T)

    R = (T * q[:, None]).T @ T
    R /= np.linalg.eigvalsh(R).mean()
    conceptor = R @ np.linalg.inv(R + 2.5**-2 * np.eye(N_DIMS))
    T = T @ (np.eye(N_DIMS) - conceptor)
    assert_allclose(vectors, weighted_means(weights, T, texts), rtol=1e-4, atol=1e-6)


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
    means, _ = make_encoder("concat", words, lam=np.inf).fit(texts).posterior(texts)

    input_means = make_encoder("Average", words).fit_transform(texts)
    output_means = make_encoder("i-Average", words).fit_transform(texts)
    assert_allclose(means, np.hstack([input_means, output_means]), atol=1e-12)


def test_vectors_in_the_coordinates_of_the_words_are_certified(words, texts):
    certificate = certify_encoder(make_encoder("SIF", words), texts * 5)

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


def test_the_posterior_minimises_its_objective(words):
    ids = [0, 150, 3]
    vectorizer = make_encoder("SIF", words, lam=2.0, prior_variance=0.7).fit([])
    [mean], [variance] = vectorizer.posterior([[WORDS[i] for i in ids]])

    weights = formulas.sif_weights(P, 1e-3)[ids]
    [u] = vectorizer.directions_
    vectors = words.input_vectors[ids] @ (np.eye(N_DIMS) - np.outer(u, u))

    def objective(m, v):
        distances = ((vectors - m) ** 2).sum(1)
        data = weights @ distances + (1 - weights).sum() * (m @ m)
        kl = 0.5 * (N_DIMS * v / 0.7 + m @ m / 0.7 - N_DIMS + N_DIMS * np.log(0.7 / v))
        return data / 6 + N_DIMS * v / 2 + kl / 2.0

    minimum = objective(mean, variance)
    rng = np.random.default_rng(0)
    for _ in range(50):
        step = 0.01 * rng.normal(size=N_DIMS)
        assert objective(mean + step, variance) > minimum
    assert objective(mean, variance * 1.02) > minimum
    assert objective(mean, variance * 0.98) > minimum


@pytest.mark.slow
def test_the_frozen_recipe_reaches_its_goals_on_real_similarity(data_dir):
    from scipy.stats import pearsonr, spearmanr

    from pacsent.paper import benchmark_datasets as datasets

    words = datasets.load_word_vectors(data_dir / "vectors")
    pairs = datasets.load("stsb", data_dir / "datasets")
    vectorizer = make_encoder("SIF-sum", words, on_empty="ignore").fit([])

    first = vectorizer.transform(pairs.first["test"])
    second = vectorizer.transform(pairs.second["test"])
    cosines = np.nan_to_num(cosine(first, second))

    scores = pairs.scores["test"]
    assert pearsonr(cosines, scores)[0] >= 0.73
    assert spearmanr(cosines, scores)[0] >= 0.70
