"""The demo about books: posteriors of texts, and the bound of Theorem 1, on a small language."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import stats

from pacsent import Vocabulary, WordVectors
from pacsent.demo import books, charts
from pacsent.demo.books import SplitTexts, bound_against_lam, choose_bias

NAMES = [letter * 3 for letter in "abcdefghijklmnopqrst"]


@pytest.fixture(scope="module")
def words():
    """Word vectors of four dimensions."""
    rng = np.random.default_rng(0)
    input_vectors, output_vectors = rng.normal(size=(2, 20, 4)).astype(np.float32)
    return WordVectors(Vocabulary(NAMES, np.arange(20, 0, -1)), input_vectors, output_vectors)


@pytest.fixture(scope="module")
def split(words):
    """Ten texts of thirty words, whose tokens are in three parts."""
    rng = np.random.default_rng(1)
    texts = [" ".join(rng.choice(NAMES, 30)) for _ in range(10)]
    return SplitTexts(words, texts, random_state=0)


def test_a_third_of_the_tokens_of_each_text_is_for_each_purpose(split):
    assert split.n_prior.tolist() == [10] * 10
    assert np.diff(split.sample.offsets).tolist() == [10] * 10
    assert np.diff(split.held_out.offsets).tolist() == [10] * 10


def test_the_posterior_with_lambda_0_is_the_prior(split):
    mean, variance = split.posterior(0.0)

    assert_allclose(mean, split.prior_mean)
    assert_allclose(variance, 1 / split.n_prior)


def test_the_posterior_mean_goes_from_the_prior_to_the_data(split):
    mean, variance = split.posterior(1e9)

    assert_allclose(mean, split.data_mean, atol=1e-6)
    assert_allclose(variance, 0, atol=1e-8)


def test_the_risk_of_tokens_is_the_probability_of_a_score_on_the_wrong_side(split):
    mean, variance = split.posterior(2.0)

    risk = split.token_risk(mean, variance, split.sample, bias=0.5)

    errors = []
    for text in range(10):
        for word in split.sample.take([text]).ids:
            vector = split.input_vectors[word]
            spread = np.sqrt(variance[text]) * np.linalg.norm(vector)
            errors.append(stats.norm.cdf(0, mean[text] @ vector + 0.5, spread))
    assert risk == pytest.approx(np.mean(errors))


def test_a_large_bias_calls_every_negative_sample_a_word_of_the_text(split):
    mean, variance = split.posterior(2.0)

    assert split.noise_risk(mean, variance, 1000.0) == pytest.approx(1)
    assert split.noise_risk(mean, variance, -1000.0) == pytest.approx(0)


def test_the_bias_is_the_one_with_the_smallest_balanced_risk_of_the_priors(split):
    mean, variance = split.posterior(0.0)

    def balanced_risk(bias):
        token_risk = split.token_risk(mean, variance, split.sample, bias)
        return token_risk + split.noise_risk(mean, variance, bias)

    chosen = choose_bias(split)

    assert balanced_risk(chosen) == min(map(balanced_risk, books.BIASES))


def test_there_is_a_row_of_the_bound_for_each_lambda(split):
    rows = bound_against_lam(split, bias=0.0)

    assert [row["lam"] for row in rows] == list(books.BOUND_LAMS)


def test_the_bound_of_the_prior_costs_no_divergence(split):
    [of_prior] = [row for row in bound_against_lam(split, bias=0.0) if row["lam"] == 0]

    assert of_prior["kl_term"] == pytest.approx(0)
    assert of_prior["noise_term"] + of_prior["risk_term"] < of_prior["bound"]


LETTERS = [letter * 3 for letter in "abcdefghijklmnop"]


@pytest.fixture
def words_of_letters():
    """Sixteen words of letters alone, as sentences of books have them."""
    table = np.eye(16, dtype=np.float32)
    return WordVectors(Vocabulary(LETTERS, np.arange(16, 0, -1)), table, table)


def test_the_sentence_of_the_figure_has_14_to_18_words_all_known(words_of_letters):
    known = " ".join(LETTERS[:14]).capitalize() + "."
    too_short = "Aaa bbb ccc."
    unknown = known.replace("ccc", "zzz")
    text = f"It begins so. {too_short} {unknown} {known}"

    assert books._short_sentence(["", text], words_of_letters) == known


def test_passages_without_such_a_sentence_are_refused(words_of_letters):
    with pytest.raises(ValueError, match="No passage has a sentence of 14 to 18"):
        books._short_sentence(["It begins so. Aaa bbb ccc."], words_of_letters)


def test_squares_of_the_chart_are_the_cosines_of_words(words):
    pytest.importorskip("altair")
    shown = ("aaa", "ddd")

    chart = charts.cosines(words, shown, "output")

    inputs = words.input_vectors[[0, 3]]
    outputs = words.output_vectors[[0, 3]]
    lengths = np.outer(np.linalg.norm(inputs, axis=1), np.linalg.norm(outputs, axis=1))
    values = [row["cosine"] for row in chart["data"]["values"]]
    assert_allclose(values, (inputs @ outputs.T / lengths).ravel(), atol=6e-4)
