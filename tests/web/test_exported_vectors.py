"""The vectors of an exported page: which encoders a page can compute, and what it is given."""

import numpy as np
import pytest

from pacsent import Vocabulary, WordVectors, make_encoder
from pacsent.web.html_export import _summed_parts


@pytest.fixture
def words():
    """Two words in three dimensions."""
    table = np.array([[1.0, 2.0, 3.0], [0.0, -1.0, 0.5]], np.float32)
    vocabulary = Vocabulary(["good", "film"], [3, 2])
    return WordVectors(vocabulary, table, table)


def test_a_page_is_given_the_rows_of_an_encoder_that_sums_them(words):
    encoder = make_encoder("Average", words).fit(["good film"])

    part = _summed_parts(encoder, encoder)

    assert part["words"] == "good\nfilm"
    assert (part["dims"], part["subwords"], part["unit"]) == (3, False, False)
    assert part["head"].tolist() == words.input_vectors.tolist()
    assert part["codes"].size == 0


def test_vectors_that_are_no_sums_of_rows_cannot_be_exported(words):
    encoder = make_encoder("PB-L2", words, lam=2.0).fit(["good film"])

    with pytest.raises(ValueError, match=r"Only encoders that sum word vectors .* Got PB-L2"):
        _summed_parts(encoder, encoder)
