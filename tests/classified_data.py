"""Generated texts and rows of two classes, and a pipeline for them."""

import numpy as np
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline


def draw_texts(n, seed=0, noise=0.1):
    """Texts that begin with "good" or "bad", and labels of which a part `noise` is wrong."""
    rng = np.random.default_rng(seed)
    is_good = rng.random(n) < 0.5
    numbers = rng.integers(50, size=(3, n))
    texts = []
    for row, (good, film, house, plot) in enumerate(zip(is_good, *numbers)):
        first = "good" if good else "bad"
        texts.append(f"{first} film{film} house{house} plot{plot} {row}")
    is_wrong = rng.random(n) < noise
    return texts, np.where(is_good ^ is_wrong, "yes", "no")


def draw_rows(n, seed=0):
    """Rows of three numbers, and labels 0 and 1 that depend on the first of them."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    noisy = X[:, 0] + 0.5 * rng.normal(size=n)
    return X, np.where(noisy > 0, 1, 0)


def make_text_pipeline():
    return make_pipeline(TfidfVectorizer(), LogisticRegression())
