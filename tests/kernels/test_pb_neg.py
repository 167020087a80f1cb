"""The loops of PB-neg: the compiled code against NumPy and against expectations by quadrature."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from pacsent import make_encoder
from pacsent.datasets import load_books
from pacsent.kernels import pb_neg
from pacsent.sentences.solvers.logistic import gaussian_logistic, sigmoid_fits

FITS = pb_neg.Fits(*sigmoid_fits())
VARIANCES = [0.001, 0.05, 2.0, 1e5]  # Taylor's series at both ends, fits, a wide Gaussian


@pytest.mark.parametrize("v", [1e-4, 0.15, 0.5, 30.0, 15_000.0, 2e4, 1e6])
def test_plain_expected_sigmoids_are_those_of_quadrature(v):
    scores = np.linspace(-30.0, 30.0, 61)

    f1, f2 = pb_neg.expected_sigmoids_plainly(scores, v, FITS)

    _, expected_f1, expected_f2 = gaussian_logistic(scores, v)
    assert_allclose(f1, expected_f1, atol=2e-5)
    assert_allclose(f2, expected_f2, atol=4e-5)


def draw_own_words(rng, dtype):
    """The words of three sentences, of which the second is empty."""
    A = rng.standard_normal((40, 83)).astype(dtype)
    A /= np.float32(3.0)
    nu = np.einsum("wd,wd->w", A, A)
    starts = np.array([0, 3, 3, 33], np.int32)
    words = rng.permutation(40)[:33].astype(np.int32)
    weights = rng.uniform(0.1, 0.5, 33)
    return pb_neg.OwnWords(starts, words, weights, A, nu)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])  # of the word vectors
@pytest.mark.parametrize("var_Q", VARIANCES)
def test_slopes_of_own_words_are_those_of_numpy(rng, var_Q, dtype):
    own = draw_own_words(rng, dtype)
    rows = np.array([2, 1, 0])
    mu = rng.standard_normal((3, 83)).astype(np.float32)
    variances = np.float32([1.3 * var_Q, 1.0, var_Q])
    grad, plain_grad = np.ones((2, 3, 83), np.float32)
    trace, plain_trace = np.ones((2, 3))

    pb_neg.own_slopes(own, rows, mu, variances, FITS, grad, trace)
    pb_neg.own_slopes_plainly(own, rows, mu, variances, FITS, plain_grad, plain_trace)

    assert_allclose(grad, plain_grad, atol=3e-4)
    assert_allclose(trace, plain_trace, rtol=1e-3)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_an_empty_sentence_adds_nothing_to_its_slopes(rng, dtype):
    own = draw_own_words(rng, dtype)
    mu = rng.standard_normal((1, 83)).astype(np.float32)
    variances = np.ones(1, np.float32)
    grad = np.ones((1, 83), np.float32)
    trace = np.ones(1)

    pb_neg.own_slopes(own, np.array([1]), mu, variances, FITS, grad, trace)

    assert_array_equal(grad, np.ones((1, 83)))
    assert trace[0] == 1.0


def draw_sample(rng):
    """Squared lengths, weights and errors of sampled negatives, (3, 700).

    Lengths are equal for more words than a block has, and far apart.
    """
    equal_lengths = np.full(600, 2.0)
    far_lengths = rng.uniform(0.1, 9.0, 100)
    nu = np.sort(np.concatenate([equal_lengths, far_lengths]))
    weights = rng.uniform(0.0, 2.0, 700)
    errors = rng.uniform(0.0, 1.0, 700)
    return np.stack([nu, weights, errors]).astype(np.float32)


@pytest.mark.parametrize("var_Q", VARIANCES)
def test_terms_of_the_negatives_are_those_of_numpy(rng, var_Q):
    sample = draw_sample(rng)
    control = rng.normal(0.0, 0.2, (8, 700)) / max(1.0, var_Q)
    shifts, low = rng.normal(size=(2, 3, 700)).astype(np.float32)
    variances = np.float32([var_Q, 1.2 * var_Q, 0.9 * var_Q])
    control_variate = (float(var_Q), control.astype(np.float32))
    arguments = (low, variances, control_variate, sample, FITS)
    terms = shifts.copy()
    plain_terms = shifts.copy()

    trace, error = pb_neg.sampled_noise_terms(terms, *arguments)

    plain_trace, plain_error = pb_neg.sampled_noise_terms_plainly(plain_terms, *arguments)
    assert_allclose(terms, plain_terms, atol=1e-4)
    assert_allclose(trace, plain_trace, rtol=1e-4, atol=2e-3)
    assert_allclose(error, plain_error, rtol=1e-4)


def test_sentences_have_the_same_posteriors_without_the_library(monkeypatch):
    texts = [passage.text for passage in load_books()[:12]]
    encoder = make_encoder("PB-neg", "english", random_state=0).fit(texts)
    means, variances = encoder.posterior(texts)

    monkeypatch.setattr(pb_neg, "needs_twins", lambda: True)
    plain_means, plain_variances = encoder.posterior(texts)

    largest = np.abs(means).max()
    assert_allclose(means, plain_means, atol=2e-3 * largest)
    assert_allclose(variances, plain_variances, rtol=2e-3)


def slopes_of_two_words(starts=(0, 2), words=(0, 1), rows=(0,), n_columns=3, dtype=np.float32):
    """Call `own_slopes` with one sentence of two words."""
    A = np.ones((2, 3), dtype)
    nu = np.ones(2, dtype)
    own = pb_neg.OwnWords(np.array(starts), np.array(words), np.ones(2), A, nu)
    mu = np.ones((1, 3), np.float32)[:, :n_columns]
    variances = np.ones(1, np.float32)
    pb_neg.own_slopes(own, np.array(rows), mu, variances, FITS, mu.copy(), np.ones(1))


@pytest.mark.parametrize("word", [-1, 2])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_words_without_a_vector_are_rejected(word, dtype):
    with pytest.raises(ValueError, match="A word has no vector"):
        slopes_of_two_words(words=(0, word), dtype=dtype)


@pytest.mark.parametrize(
    "changed", [{"rows": [1]}, {"rows": [-1]}, {"starts": [0, 3]}, {"starts": [-1, 2]}]
)
def test_rows_that_are_no_sentence_are_rejected(changed):
    with pytest.raises(ValueError, match="A row is no sentence"):
        slopes_of_two_words(**changed)


def test_two_words_of_one_sentence_are_accepted():
    slopes_of_two_words()


def test_means_of_other_dimensions_are_rejected():
    with pytest.raises(ValueError, match=r"must have the shape \(1, 3\)"):
        slopes_of_two_words(n_columns=2)


def test_a_sample_of_other_words_is_rejected():
    terms = np.ones((1, 3), np.float32)
    variances = np.ones(1, np.float32)
    control_variate = (1.0, np.ones((8, 3), np.float32))
    sample_of_two = np.ones((3, 2), np.float32)

    with pytest.raises(ValueError, match="Shapes of 3 words differ"):
        pb_neg.sampled_noise_terms(terms, terms, variances, control_variate, sample_of_two, FITS)


def test_fits_with_other_coefficients_are_rejected():
    one = np.ones(1, np.float32)
    turned = np.ones((1, 5, 7), np.float32)

    with pytest.raises(ValueError, match="7 x 5 coefficients"):
        pb_neg.Fits(one, one, turned)
