"""Similarity of sentences: correlations of cosines and human scores."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse, stats
from scipy.spatial.distance import cosine

from pacsent.paper.benchmark_datasets import Pairs
from pacsent.paper.evaluation import _correlations, row_space, similarity
from pacsent.paper.method_rows import ROWS


@pytest.fixture
def pairs(rng):
    """Vectors of ten first and ten second sentences, their cosines, and scores."""
    first = rng.normal(size=(10, 4))
    second = rng.normal(size=(10, 4))
    cosines = [1 - cosine(*pair) for pair in zip(first, second)]
    vectors = np.concatenate([first, second])
    return vectors, cosines, rng.uniform(0, 5, 10)


def test_correlations_are_those_of_cosines_and_scores(pairs):
    vectors, cosines, scores = pairs

    found = _correlations(vectors, scores)

    spearman, _ = stats.spearmanr(cosines, scores)
    pearson, _ = stats.pearsonr(cosines, scores)
    assert found["spearman"] == pytest.approx(spearman)
    assert found["pearson"] == pytest.approx(pearson)


def test_sparse_rows_of_unit_length_have_the_correlations_of_dense_ones(pairs):
    vectors, _, scores = pairs
    rows = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)

    found = _correlations(sparse.csr_matrix(rows), scores)

    assert found == pytest.approx(_correlations(vectors, scores))


def as_dense(rows):
    return rows


@pytest.mark.parametrize("form", [as_dense, sparse.csr_matrix])
def test_lengths_and_angles_stay_in_the_space_of_the_rows(rng, form):
    rows = rng.normal(size=(5, 30)).astype(np.float32)
    other = rng.normal(size=(3, 30)).astype(np.float32)

    inside, project = row_space(form(rows))

    own_products = rows @ rows.T
    products = other @ rows.T
    projected = project(form(other))
    assert inside.shape == (5, 5)
    assert_allclose(inside @ inside.T, own_products, atol=1e-4)
    assert_allclose(projected @ inside.T, products, atol=1e-4)


def test_as_many_rows_as_features_stay_as_they_are(rng):
    rows = rng.normal(size=(6, 6))

    inside, project = row_space(rows)

    assert inside is rows
    assert project(rows) is rows


def test_lambda_is_chosen_on_the_training_pairs_and_scored_on_the_test_pairs(toy_word_vectors, rng):
    sentences = ["good film", "quiet film", "film film good", "quiet good", "film", "good"]
    texts = {"train": sentences, "test": sentences[::-1]}
    others = {"train": sentences[1:] + sentences[:1], "test": sentences}
    scores = {"train": rng.uniform(0, 5, 6), "test": rng.uniform(0, 5, 6)}
    pairs = Pairs("toy", texts, others, scores, digest="")

    found = similarity(ROWS["PB-L2"], pairs, toy_word_vectors, n_jobs=1)

    curve = found["lam_curve"]
    best = max(curve, key=lambda candidate: candidate["train"]["spearman"])
    assert [candidate["lam"] for candidate in curve] == list(ROWS["PB-L2"].lams)
    assert found["lam"] == best["lam"]
    assert found["spearman"] == best["test"]["spearman"]
    assert found["pearson"] == best["test"]["pearson"]
