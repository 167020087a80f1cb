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
    names = [f"{a}{b}" for a in "abcdefgh" for b in "vwxyz"][:n_words]
    tables = rng.normal(size=(2, n_words, n_dims)).astype(dtype)
    tables[:, -1] = 0
    return WordVectors(Vocabulary(names, np.arange(n_words, 0, -1) * 100), *tables)


def random_texts(rng, words, n=30):
    lengths = rng.integers(0, 12, size=n)
    lengths[3] = 0
    known = words.vocabulary.words
    texts = [" ".join(rng.choice([*known, "unknown"], size=k)) for k in lengths]
    texts[5] = "unknown unknown"
    return texts


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16])
@pytest.mark.parametrize("swap", [False, True])
@pytest.mark.parametrize(
    "settings",
    [
        {"lam": 0.5, "prior_variance": 2.0},
        {"alpha": 0.0},
        {"alpha": 0.7},
        {"lam": 3.0, "lam_mode": "per-token"},
        {"lam": INF},
    ],
)
def test_average_is_the_formula(rng, dtype, swap, settings):
    words = random_words(rng, dtype)
    texts = random_texts(rng, words)
    means, variances = (
        AverageVectorizer(words, swap_roles=swap, **settings).fit(texts).posterior(texts)
    )
    settings = dict(settings)
    if "prior_variance" in settings:
        settings["var_P"] = settings.pop("prior_variance")
    counts = words.vocabulary.count(texts)
    mu, var_Q = l2_posterior(counts, *words.roles(swap=swap), **settings)
    wide = dtype == np.float64
    assert means.dtype == (np.float64 if wide else np.float32)
    assert_allclose(means, mu, atol=1e-14 if wide else 2e-6)
    assert_allclose(variances, var_Q, rtol=1e-14)


@pytest.mark.parametrize("dtype", [np.float64, np.float16])
@pytest.mark.parametrize("settings", [{"lam": 0.5}, {"lam": INF}])
def test_idf_is_the_formula(rng, dtype, settings):
    words = random_words(rng, dtype)
    texts = random_texts(rng, words)
    vectorizer = IDFVectorizer(words, **settings).fit(texts[:6])
    counts = words.vocabulary.count(texts)
    seen = np.asarray((counts[:6] > 0).sum(axis=0)).ravel()
    expected = np.where(seen > 0, np.log(6 / np.maximum(seen, 1)) + 1, np.log(6) + 1)
    assert_allclose(vectorizer.idf_, expected, rtol=1e-15)  # texts 3 and 5 are empty, and count
    means, variances = vectorizer.posterior(texts)
    mu, var_Q = idf_l2_posterior(counts, *words.roles(), vectorizer.idf_, **settings)
    assert_allclose(means, mu, atol=1e-14 if dtype == np.float64 else 2e-6)
    assert_allclose(variances, var_Q, rtol=1e-13)


def test_golden_numbers_through_the_estimators(golden):
    numbers = golden("methods")
    given = numbers["example"]
    vocabulary = Vocabulary([f"w{i}" for i in range(given["V"])], given["counts"])
    words = WordVectors(vocabulary, np.array(given["I"]), np.array(given["O"]))
    X = [[f"w{i}" for i in sentence] for sentence in given["sentences"]]
    names = {"lam": "lam", "sigma_P2": "prior_variance"}
    for row in numbers["closed_form"]:
        name = row["method"]
        if name.endswith("/unit-prior"):  # the reading of the paper that is not implemented
            continue
        settings = {names[key]: row[key] for key in names if key in row}
        if "inv_lambda" in row:
            settings["lam"] = 1 / row["inv_lambda"] if row["inv_lambda"] else INF
        if name.endswith("Average") and "alpha" in row:
            settings["alpha"] = row["alpha"]
        means, variances = make_encoder(name, words, **settings).fit(X).posterior(X)
        assert_allclose(means[row["sentence"]], row["mu"], rtol=1e-12, atol=1e-14)
        if "var_exact_kl" in row:
            assert_allclose(variances[row["sentence"]], row["var_exact_kl"], rtol=1e-12)


def test_vectors_without_an_output_table_work_where_the_prior_is_not_read(rng, tiny_corpus):
    full = random_words(rng, np.float32)
    bare = WordVectors(full.vocabulary, full.input_vectors)
    for name, settings in (("Average", {}), ("IDF-Average", {}), ("PB-L2", {"lam": INF})):
        texts = random_texts(rng, full)
        assert_array_equal(
            make_encoder(name, bare, **settings).fit_transform(texts),
            make_encoder(name, full, **settings).fit_transform(texts),
        )
    for name, settings in (("PB-L2", {}), ("i-Average", {}), ("Average", {"alpha": 1.0})):
        with pytest.raises(ValueError, match=r"needs output vectors.*Average with alpha=0"):
            make_encoder(name, bare, **settings).fit(tiny_corpus)


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


def test_stream_yields_batches_and_the_report_at_the_end(toy_word_vectors, tiny_corpus):
    vectorizer = make_encoder("PB-L2", toy_word_vectors, batch_size=4).fit(["film"])
    batches = list(vectorizer.stream(iter(tiny_corpus)))
    assert [len(variances) for _, variances in batches] == [4, 4, 2]
    assert vectorizer.n_empty_ == 2
    for streamed, whole in zip(zip(*batches), vectorizer.posterior(tiny_corpus)):
        assert_array_equal(np.concatenate(streamed), whole)


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_a_generator_is_read_in_constant_memory(rng, n_jobs):
    words = random_words(rng, np.float32, n_dims=4)
    vectorizer = make_encoder("Average", words, n_jobs=n_jobs, batch_size=100, on_empty="ignore")
    sentence = " ".join(words.vocabulary.words)
    vectorizer.fit([sentence])
    list(vectorizer.stream(sentence for _ in range(300)))

    def peak(n):
        tracemalloc.start()
        for _ in vectorizer.stream(sentence + str(i) for i in range(n)):
            pass
        top = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return top

    assert peak(4000) < 1.5 * peak(1000)


def test_an_error_in_the_middle_of_a_generator_comes_through(toy_word_vectors):
    def broken():
        yield from ["film"] * 5
        raise RuntimeError("the disk is gone")

    vectorizer = make_encoder("Average", toy_word_vectors, batch_size=2, n_jobs=2).fit(["film"])
    with pytest.raises(RuntimeError, match="the disk is gone"):
        vectorizer.transform(broken())


def test_only_the_first_three_empty_rows_are_named(toy_word_vectors):
    vectorizer = make_encoder("Average", toy_word_vectors, batch_size=2, n_jobs=1).fit(["film"])
    with pytest.warns(
        EmptySentenceWarning, match=r"5 of 6 \(row 1, 2, 3, \.\.\., counted from 0\)"
    ):
        vectorizer.transform(["film", "", "", "zzz", "", ""])


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

    expected = make_encoder("PB-L2", wide).fit(texts).transform(texts)

    assert_array_equal(make_encoder("PB-L2", mixed).fit(texts).transform(texts), expected)
