import numpy as np
import pytest

from pacsent import Vocabulary, WordVectors
from review_data import BAD, GOOD, OTHER


@pytest.fixture(scope="package")
def words():
    """Vectors of the words of reviews: their first number tells good words from bad ones."""
    names = GOOD + BAD + OTHER
    table = np.random.default_rng(0).normal(size=(len(names), 8)).astype(np.float32) * 0.3
    table[: len(GOOD), 0] += 1
    table[len(GOOD) : len(GOOD) + len(BAD), 0] -= 1
    return WordVectors(Vocabulary(names), table, table)
