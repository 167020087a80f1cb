"""Fitting on many texts holds each large array once."""

import sys

import numpy as np
import pytest

from helpers import run_python
from pacsent import memory
from pacsent.classify.training import standardize
from pacsent.sentences.external_encoders import ConcatenatedEncoder
from pacsent.text import ngrams
from pacsent.text.ngrams import NGrams


@pytest.fixture(scope="module")
def texts():
    rng = np.random.default_rng(0)
    words = np.array([f"wörd{i}" for i in range(300)])
    rows = [" ".join(words[rng.integers(300, size=8)]) for _ in range(1_000)]
    return ["", *rows, "unknown", rows[0]]


@pytest.mark.parametrize("characters", [False, True])
@pytest.mark.parametrize("n_threads", [1, 3])
def test_rows_of_tf_idf_do_not_depend_on_the_blocks(texts, characters, n_threads, monkeypatch):
    grams = NGrams.of(texts[:-2], (1, 3), characters=characters)
    rows, lengths = grams.tf_idf_and_lengths(texts)
    counts = grams.counts(texts)

    monkeypatch.setattr(ngrams, "_BLOCK_TEXTS", 17)
    rows_of_blocks, lengths_of_blocks = grams.tf_idf_and_lengths(texts, n_threads)
    counts_of_blocks = grams.counts(texts, n_threads)

    for name in ("data", "indices", "indptr"):
        np.testing.assert_array_equal(getattr(rows_of_blocks, name), getattr(rows, name))
        np.testing.assert_array_equal(getattr(counts_of_blocks, name), getattr(counts, name))
        assert getattr(rows_of_blocks, name).dtype == getattr(rows, name).dtype
    np.testing.assert_array_equal(lengths_of_blocks, lengths)


def test_rows_of_tf_idf_are_those_of_the_formula(texts):
    grams = NGrams.of(texts, (1, 2))
    counts = grams.counts(texts).toarray().astype(float)

    rows, lengths = grams.tf_idf_and_lengths(texts)

    weights = np.where(counts > 0, 1 + np.log(np.maximum(counts, 1)), 0) * grams.idf
    expected = np.linalg.norm(weights, axis=1)
    np.testing.assert_allclose(lengths, expected, rtol=1e-6)
    np.testing.assert_allclose(
        rows.toarray(), weights / np.maximum(expected, 1e-30)[:, None], rtol=1e-5, atol=1e-7
    )


def test_no_text_has_no_row(texts):
    grams = NGrams.of(texts, (1, 2))
    rows, lengths = grams.tf_idf_and_lengths([])
    assert rows.shape == (0, len(grams)) and lengths.shape == (0,)


@pytest.mark.parametrize("order", ["C", "F"])
def test_vectors_are_centred_and_scaled_to_a_mean_square_of_one(order):
    rng = np.random.default_rng(0)
    vectors = np.array(rng.normal(2.0, 3.0, (20_000, 5)), np.float32, order=order)
    before = vectors.copy()

    standardized, mean, scale = standardize(vectors)

    np.testing.assert_array_equal(vectors, before)
    np.testing.assert_allclose(mean, before.mean(axis=0, dtype=float))
    np.testing.assert_allclose(standardized, (before - mean) / scale, rtol=1e-4, atol=1e-5)
    assert (standardized**2).sum(axis=1).mean() == pytest.approx(1.0, rel=1e-5)
    assert standardized.flags.c_contiguous and standardized.dtype == np.float32


def test_encoders_whose_batches_differ_in_size_are_refused():
    sizes = iter([2, 3])

    def encode(texts):
        return np.ones((len(texts), next(sizes)))

    encoder = ConcatenatedEncoder([encode]).parts[0]
    with pytest.raises(ValueError, match="must give vectors of one size"):
        encoder.posterior(["a text"] * 5_000)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="glibc")
def test_freed_memory_is_returned():
    code = """
import numpy as np
from pacsent.memory import return_freed_memory

def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096 / 1e6

np.ones(1 << 21).sum()  # from now on the allocator keeps smaller arrays
arrays = [np.ones(1 << 17) for _ in range(200)]  # 210 MB
last = np.ones(1 << 10)
before = resident()
del arrays
return_freed_memory()
print(before - resident())
"""
    assert float(run_python(code)) > 150


def test_without_glibc_nothing_is_done(monkeypatch):
    monkeypatch.setattr(memory, "_malloc_trim", lambda: None)
    memory.return_freed_memory()
