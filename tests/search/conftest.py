"""Encoders and indexes that several files search with."""

import numpy as np
import pytest

from pacsent import Index, Vocabulary, WordVectors, make_encoder

N_WORDS = 500
WORDS = [f"word{i}" for i in range(N_WORDS)]


@pytest.fixture(scope="module")
def word_vectors():
    """Random vectors of 500 words, word0 to word499, from frequent to rare."""
    rng = np.random.default_rng(0)
    counts = np.geomspace(1e6, 5, N_WORDS).astype(int)
    vocabulary = Vocabulary(WORDS, counts, normalize="unicode")
    input_vectors, output_vectors = rng.normal(size=(2, N_WORDS, 16)).astype("f4")
    return WordVectors(vocabulary, input_vectors, output_vectors)


@pytest.fixture(scope="module")
def texts():
    """Seven hundred texts of twelve of these words."""
    rng = np.random.default_rng(1)
    return [" ".join(rng.choice(WORDS, 12)) for _ in range(700)]


@pytest.fixture
def average_encoder(word_vectors):
    """The mean of the word vectors."""
    return make_encoder("Average", word_vectors, on_empty="ignore").fit([])


@pytest.fixture
def faiss_index(average_encoder):
    """Five thousand short texts in lists of FAISS."""
    pytest.importorskip("faiss", reason="the extra [faiss] is not installed")
    rng = np.random.default_rng(2)
    index = Index(average_encoder, engine="faiss", lexical=False)
    index.add([" ".join(rng.choice(WORDS, 3)) for _ in range(5000)])
    return index
