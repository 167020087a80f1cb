"""The closed-form vectorizers against the formulas, and what is special to them."""

import tracemalloc

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from pacsent import Vocabulary, WordVectors, make_encoder
from pacsent.sentences import AverageVectorizer, EmptySentenceWarning, IDFVectorizer
from reference.gaussian_reference import idf_l2_posterior, l2_posterior

INF = float("inf")
pytestmark = pytest.mark.filterwarnings("ignore::pacsent.sentences.EmptySentenceWarning")


def random_words(rng, dtype, n_words=40, n_dims=7):
    names = [f"{first}{second}" for first in "abcdefgh" for second in "vwxyz"]
    counts = 100 * np.arange(n_words, 0, -1)
    vocabulary = Vocabulary(names[:n_words], counts)

    tables = rng.normal(size=(2, n_words, n_dims)).astype(dtype)
    tables[:, -1] = 0
    return WordVectors(vocabulary, *tables)


def random_texts(rng, words, n=30):
    lengths = rng.integers(0, 12, size=n)
    lengths[3] = 0
    names = [*words.vocabulary.words, "unknown"]
    texts = [" ".join(rng.choice(names, size=length)) for length in lengths]
    texts[5] = "unknown unknown"
    return texts


def vectors_of(method, words, texts, **settings):
    """What a method fitted to the texts makes of them."""
    return make_encoder(method, words, **settings).fit_transform(texts)


def assert_means_equal(means, expected, dtype):
    """Means are sums in the precision of the word vectors, and at least in single precision."""
    is_double = dtype == np.float64
    assert means.dtype == (np.float64 if is_double else np.float32)
    assert_allclose(means, expected, atol=1e-14 if is_double else 2e-6)


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16])
@pytest.mark.parametrize("swap", [False, True])
@pytest.mark.parametrize(
    ("settings", "in_the_formula"),
    [
        ({"lam": 0.5, "prior_variance": 2.0}, {"lam": 0.5, "var_P": 2.0}),
        ({"alpha": 0.0}, {"alpha": 0.0}),
        ({"alpha": 0.7}, {"alpha": 0.7}),
        ({"lam": 3.0, "lam_mode": "per-token"}, {"lam": 3.0, "lam_mode": "per-token"}),
        ({"lam": INF}, {"lam": INF}),
    ],
)
def test_average_is_the_formula(rng, dtype, swap, settings, in_the_formula):
    words = random_words(rng, dtype)
    texts = random_texts(rng, words)
    vectorizer = AverageVectorizer(words, swap_roles=swap, **settings).fit(texts)

    means, variances = vectorizer.posterior(texts)

    counts = words.vocabulary.count(texts)
    mu, var_Q = l2_posterior(counts, *words.roles(swap=swap), **in_the_formula)
    assert_means_equal(means, mu, dtype)
    assert_allclose(variances, var_Q, rtol=1e-14)


@pytest.mark.parametrize("dtype", [np.float64, np.float16])
@pytest.mark.parametrize("lam", [0.5, INF])
def test_idf_is_the_formula(rng, dtype, lam):
    words = random_words(rng, dtype)
    texts = random_texts(rng, words)
    vectorizer = IDFVectorizer(words, lam=lam).fit(texts[:6])

    means, variances = vectorizer.posterior(texts)

    counts = words.vocabulary.count(texts)
    mu, var_Q = idf_l2_posterior(counts, *words.roles(), vectorizer.idf_, lam=lam)
    assert_means_equal(means, mu, dtype)
    assert_allclose(variances, var_Q, rtol=1e-13)


def test_idf_is_learned_from_the_fitted_texts(rng):
    words = random_words(rng, np.float64)
    texts = random_texts(rng, words)[:6]

    vectorizer = IDFVectorizer(words).fit(texts)

    is_in_text = words.vocabulary.count(texts) > 0
    n_with_word = is_in_text.sum(axis=0).A1
    n_at_least_one = np.maximum(n_with_word, 1)  # an unseen word counts as seen once
    # texts 3 and 5 are empty, and count
    assert_allclose(vectorizer.idf_, np.log(6 / n_at_least_one) + 1, rtol=1e-15)


@pytest.fixture(scope="module")
def example(golden):
    """The word vectors and the tokenised sentences of the worked example."""
    facts = golden("methods")["example"]
    names = [f"w{i}" for i in range(facts["V"])]
    vocabulary = Vocabulary(names, facts["counts"])
    words = WordVectors(vocabulary, np.array(facts["I"]), np.array(facts["O"]))
    sentences = [[names[i] for i in sentence] for sentence in facts["sentences"]]
    return words, sentences


def settings_of(row):
    """The parameters of the estimator of a golden row."""
    settings = {}
    if "lam" in row:
        settings["lam"] = row["lam"]
    if "sigma_P2" in row:
        settings["prior_variance"] = row["sigma_P2"]
    if "inv_lambda" in row:
        inverse = row["inv_lambda"]
        settings["lam"] = 1 / inverse if inverse else INF
    if row["method"].endswith("Average") and "alpha" in row:
        settings["alpha"] = row["alpha"]
    return settings


def test_golden_numbers_through_the_estimators(golden, example):
    words, sentences = example

    for row in golden("methods")["closed_form"]:
        name = row["method"]
        if name.endswith("/unit-prior"):  # the reading of the paper that is not implemented
            continue
        vectorizer = make_encoder(name, words, **settings_of(row)).fit(sentences)

        means, variances = vectorizer.posterior(sentences)

        s = row["sentence"]
        assert_allclose(means[s], row["mu"], rtol=1e-12, atol=1e-14)
        if "var_exact_kl" in row:
            assert_allclose(variances[s], row["var_exact_kl"], rtol=1e-12)


@pytest.fixture
def both_tables(rng):
    """Word vectors with both tables."""
    return random_words(rng, np.float32)


@pytest.fixture
def one_table(both_tables):
    """The same word vectors without output vectors."""
    return WordVectors(both_tables.vocabulary, both_tables.input_vectors)


@pytest.mark.parametrize(
    ("method", "settings"), [("Average", {}), ("IDF-Average", {}), ("PB-L2", {"lam": INF})]
)
def test_no_output_table_is_needed_where_the_prior_is_not_read(
    rng, both_tables, one_table, method, settings
):
    texts = random_texts(rng, both_tables)

    vectors = vectors_of(method, one_table, texts, **settings)

    assert_array_equal(vectors, vectors_of(method, both_tables, texts, **settings))


@pytest.mark.parametrize(
    ("method", "settings"), [("PB-L2", {}), ("i-Average", {}), ("Average", {"alpha": 1.0})]
)
def test_methods_that_read_the_prior_ask_for_output_vectors(
    one_table, tiny_corpus, method, settings
):
    vectorizer = make_encoder(method, one_table, **settings)

    with pytest.raises(ValueError, match=r"needs output vectors.*Average with alpha=0"):
        vectorizer.fit(tiny_corpus)


@pytest.mark.parametrize(
    ("name", "settings", "message"),
    [
        ("Averag", {}, r"Got 'Averag' instead. Choose from Average, PB-L2, IDF-Average"),
        ("Average", {"lam": 2.0}, "lam must be 1.0 for the method 'Average'. Got 2.0 instead"),
        ("PB-L2", {"alpha": 1.0}, r"alpha must be None for the method 'PB-L2'. Got 1.0"),
        ("PB-L2", {"swap_roles": True}, r"swap_roles must be False for the method 'PB-L2'"),
    ],
)
def test_make_says_what_is_wrong_with_a_name(toy_word_vectors, name, settings, message):
    with pytest.raises(ValueError, match=message):
        make_encoder(name, toy_word_vectors, **settings)


@pytest.fixture
def in_batches(toy_word_vectors):
    """A fitted vectorizer that reads four sentences at a time."""
    vectorizer = make_encoder("PB-L2", toy_word_vectors, batch_size=4)
    return vectorizer.fit(["film"])


def test_a_stream_has_the_posteriors_of_all_sentences_in_batches(in_batches, tiny_corpus):
    batches = list(in_batches.stream(iter(tiny_corpus)))

    assert [len(variances) for _, variances in batches] == [4, 4, 2]
    means, variances = map(np.concatenate, zip(*batches))
    expected_means, expected_variances = in_batches.posterior(tiny_corpus)
    assert_array_equal(means, expected_means)
    assert_array_equal(variances, expected_variances)


def test_a_stream_counts_empty_sentences_until_its_end(in_batches, tiny_corpus):
    for _ in in_batches.stream(iter(tiny_corpus)):
        pass

    assert in_batches.n_empty_ == 2


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_a_generator_is_read_in_constant_memory(rng, n_jobs):
    words = random_words(rng, np.float32, n_dims=4)
    vectorizer = make_encoder("Average", words, n_jobs=n_jobs, batch_size=100, on_empty="ignore")
    sentence = " ".join(words.vocabulary.words)
    vectorizer.fit([sentence])

    def read(n):
        for _ in vectorizer.stream(f"{sentence}{i}" for i in range(n)):
            pass

    def peak_memory(n):
        tracemalloc.start()
        read(n)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        return peak

    read(300)
    assert peak_memory(4000) < 1.5 * peak_memory(1000)


@pytest.fixture
def small_batches(toy_word_vectors):
    """small_batches(n_jobs) -> a fitted vectorizer that reads two sentences at a time."""

    def make(n_jobs):
        vectorizer = make_encoder("Average", toy_word_vectors, batch_size=2, n_jobs=n_jobs)
        return vectorizer.fit(["film"])

    return make


def test_an_error_in_the_middle_of_a_generator_comes_through(small_batches):
    def broken():
        yield from ["film"] * 5
        raise RuntimeError("the disk is gone")

    with pytest.raises(RuntimeError, match="the disk is gone"):
        small_batches(n_jobs=2).transform(broken())


def test_only_the_first_three_empty_rows_are_named(small_batches):
    message = r"5 of 6 \(row 1, 2, 3, \.\.\., counted from 0\)"

    with pytest.warns(EmptySentenceWarning, match=message):
        small_batches(n_jobs=1).transform(["film", "", "", "zzz", "", ""])


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("method", ["PB-L2", "PB-IDF-L2", "SIF", "concat"])
def test_vectors_are_the_same_without_the_compiled_kernels(rng, monkeypatch, method, dtype):
    words = random_words(rng, dtype)
    texts = random_texts(rng, words)
    vectorizer = make_encoder(method, words).fit(texts)
    expected = vectorizer.transform(texts)

    monkeypatch.setattr("pacsent.kernels.pooling.needs_twins", lambda: True)

    assert_allclose(vectorizer.transform(texts), expected, atol=1e-6)


def test_a_float16_table_next_to_a_float64_one_is_summed_in_float64(rng):
    words = random_words(rng, np.float64)
    half = words.output_vectors.astype(np.float16)
    mixed = words.replace(output_vectors=half)
    wide = words.replace(output_vectors=half.astype(np.float64))
    texts = random_texts(rng, words)

    vectors = vectors_of("PB-L2", mixed, texts)

    assert_array_equal(vectors, vectors_of("PB-L2", wide, texts))
