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


def rows(text):
    return [WORDS.index(word) for word in text]


def cosine(a, b):
    return np.sum(a * b, -1) / np.linalg.norm(a, axis=-1) / np.linalg.norm(b, axis=-1)


def test_sif_is_the_weighted_mean_minus_the_first_direction_of_the_texts(words, texts):
    vectors = make_encoder("SIF", words, learn_from="texts").fit_transform(texts)
    weight = 1e-3 / (1e-3 + P)
    means = np.stack(
        [(weight[rows(t), None] * words.input_vectors[rows(t)]).mean(0) for t in texts]
    )
    u = np.linalg.svd(means)[2][0]
    assert_allclose(vectors, means - np.outer(means @ u, u), atol=1e-6)


def test_usif_takes_its_a_from_the_vocabulary_and_removes_five_directions_by_share(words, texts):
    vectorizer = make_encoder("uSIF", words).fit([])
    alpha = np.mean(P > 1 - (1 - 1 / N_WORDS) ** 11)
    a = (1 - alpha) / (alpha * 0.5 * N_WORDS)
    assert_allclose(vectorizer.a_, a)
    assert vectorizer.directions_.shape == (5, N_DIMS)
    assert_allclose(vectorizer.shares_.sum(), 1)
    [mean] = vectorizer.transform([texts[20]])
    weighted = (a / (a / 2 + P))[rows(texts[20]), None] * words.input_vectors[rows(texts[20])]
    plain = weighted.mean(0)
    for u, share in zip(vectorizer.directions_, vectorizer.shares_):
        plain = plain - share * (weighted.mean(0) @ u) * u
    assert_allclose(mean, plain, atol=1e-10)


@pytest.mark.slow
def test_directions_of_the_table_are_those_of_sentences_of_independent_words(words):
    rng = np.random.default_rng(5)
    drawn = [rng.choice(WORDS, 11, p=P).tolist() for _ in range(20_000)]
    table = make_encoder("SIF", words).fit([])
    text = make_encoder("SIF", words, learn_from="texts").fit(drawn)
    assert abs(table.directions_[0] @ text.directions_[0]) > 0.999


def test_sif_sum_is_its_formula(words, texts):
    vectorizer = make_encoder("SIF-sum", words, a=1e-2).fit([])
    weight = np.sqrt(1e-2 / (1e-2 + P))
    q = P * weight
    q[np.setdiff1d(np.arange(N_WORDS), formulas.heaviest(q))] = 0
    q /= q.sum()
    parts = []
    for table in (words.input_vectors, words.output_vectors):
        moved = table - q @ table
        parts.append(moved / np.linalg.norm(moved, axis=1, keepdims=True))
    T = parts[0] + parts[1]
    T = T / np.sqrt(q @ T**2 - (q @ T) ** 2)
    R = (T * q[:, None]).T @ T
    R /= np.linalg.eigvalsh(R).mean()
    conceptor = R @ np.linalg.inv(R + 2.5**-2 * np.eye(N_DIMS))
    T = T @ (np.eye(N_DIMS) - conceptor)
    expected = np.stack([(weight[rows(t), None] * T[rows(t)]).mean(0) for t in texts])
    assert_allclose(vectorizer.transform(texts), expected, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("name", ["SIF", "uSIF"])
def test_what_is_fitted_decides_only_where_it_was_asked_to(words, texts, name):
    one, other = make_encoder(name, words).fit(texts), make_encoder(name, words).fit(texts[:3])
    assert_allclose(one.transform(texts), other.transform(texts), atol=1e-12)
    assert not hasattr(one, "fingerprint_")
    one, other = (make_encoder(name, words, learn_from="texts").fit(t) for t in (texts, texts[:9]))
    assert np.abs(one.transform(texts) - other.transform(texts)).max() > 1e-3
    assert one.fingerprint_.n_runs != other.fingerprint_.n_runs
    with pytest.raises(ValueError, match="must be fitted on sentences with in-vocabulary words"):
        make_encoder(name, words, learn_from="texts").fit([])


@pytest.mark.parametrize("name", ["SIF", "uSIF", "SIF-sum", "concat"])
def test_lam_changes_lengths_and_variances_but_no_direction(words, texts, name):
    plain, _ = make_encoder(name, words, lam=np.inf).fit(texts).posterior(texts)
    means, variances = (
        make_encoder(name, words, lam=3.0, prior_variance=0.5).fit(texts).posterior(texts)
    )
    assert_allclose(means, plain / (1 + 1 / 1.5), atol=1e-9)
    assert_allclose(variances, 1 / (3 + 2))
    if name == "concat":
        halves = [make_encoder(n, words).fit_transform(texts) for n in ("Average", "i-Average")]
        assert_allclose(plain, np.hstack(halves), atol=1e-12)


def test_only_vectors_in_the_coordinates_of_the_words_are_certified(words, texts):
    assert 0 < certify_encoder(make_encoder("SIF", words), texts * 5).error_upper <= 1
    for name in ("SIF-sum", "concat"):
        with pytest.raises(ValueError, match="must be in the coordinates of the word table"):
            certify_encoder(make_encoder(name, words), texts)


def test_words_without_counts_are_refused_with_advice(words):
    bare = WordVectors(Vocabulary(WORDS), words.input_vectors, words.output_vectors)
    for name in ("SIF", "uSIF", "SIF-sum"):
        with pytest.raises(ValueError, match="needs word counts, and this vocabulary has none"):
            make_encoder(name, bare).fit([])


def test_the_mean_minimises_the_loss_it_is_said_to(words):
    vectorizer = make_encoder("SIF", words, lam=2.0, prior_variance=0.7).fit([])
    [mean], [variance] = vectorizer.posterior([[WORDS[0], WORDS[150], WORDS[3]]])
    ids = [0, 150, 3]
    weight, [u] = formulas.sif_weights(P, 1e-3)[ids], vectorizer.directions_
    table = words.input_vectors[ids] @ (np.eye(N_DIMS) - np.outer(u, u))

    def loss(m, v):
        spread = N_DIMS * v
        data = weight @ ((table - m) ** 2).sum(1) + (1 - weight).sum() * (m @ m)
        kl = 0.5 * (N_DIMS * v / 0.7 + m @ m / 0.7 - N_DIMS + N_DIMS * np.log(0.7 / v))
        return data / 6 + spread / 2 + kl / 2.0

    best = loss(mean, variance)
    rng = np.random.default_rng(0)
    for _ in range(50):
        assert loss(mean + 0.01 * rng.normal(size=N_DIMS), variance) > best
    assert loss(mean, variance * 1.02) > best < loss(mean, variance * 0.98)


@pytest.mark.slow
def test_the_frozen_recipe_reaches_its_goals_on_real_similarity(data_dir):
    from scipy.stats import pearsonr, spearmanr

    from pacsent.paper import benchmark_datasets as datasets

    words = datasets.load_word_vectors(data_dir / "vectors")
    pairs = datasets.load("stsb", data_dir / "datasets")
    vectorizer = make_encoder("SIF-sum", words, on_empty="ignore").fit([])
    first, second = (vectorizer.transform(part["test"]) for part in (pairs.first, pairs.second))
    cosines, scores = np.nan_to_num(cosine(first, second)), pairs.scores["test"]
    assert pearsonr(cosines, scores)[0] >= 0.73 and spearmanr(cosines, scores)[0] >= 0.70
