"""Word similarity and analogies, on vectors and files written out by hand."""

import sys
from pathlib import Path

import numpy as np
import pytest

from pacsent import Vocabulary, WordVectors

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
from word_tasks import word_scores


@pytest.fixture
def words():
    """king - man + woman = queen in the input vectors; the output vectors swaps some."""
    names = ["man", "woman", "king", "queen", "apple"]
    table = np.array([[1, 0, 0], [0, 1, 0], [1, 0, 1], [0, 1, 1], [-1, -1, 0.1]], np.float32)
    other = np.array([[0, 1, 0.2], [1, 0, 0], [1, 0, 1], [-1, -1, 0.1], [0, 1, 1]], np.float32)
    return WordVectors(Vocabulary(names, [9, 8, 7, 6, 5]), table, other)


def test_scores_by_hand(words, tmp_path):
    # cosines: king-man 0.71, king-queen 0.5, man-woman 0, king-apple < 0
    pairs = ["king\tman\t9", "King\tqueen\t7", "man\twoman\t3", "king\tapple\t1", "king\tthrone\t8"]
    (tmp_path / "wordsim353.tsv").write_text("\n".join(["# about", *pairs]))
    questions = ["man king woman queen", "Man King Woman Queen", "man woman king apple"]
    questions += ["man king woman throne"]  # not covered
    (tmp_path / "questions-words.txt").write_text("\n".join([": family", *questions]))
    scores = word_scores(words, tmp_path)
    assert scores["WordSim-353"][0] == pytest.approx(100)
    assert scores["analogies"] == pytest.approx([200 / 3, 100 / 3])
