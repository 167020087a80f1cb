"""Word similarity and analogies, on vectors and files written out by hand."""

import json
import math

import numpy as np
import pytest
from click.testing import CliRunner

from pacsent import Vocabulary, WordVectors, save
from pacsent.cli import cli
from pacsent.words.tasks import (
    analogy_score,
    evaluate_words,
    read_analogies,
    read_similarities,
    similarity_score,
)


@pytest.fixture
def words():
    """king - man + woman = queen in the input table; the output table answers nothing right."""
    names = ["man", "woman", "king", "queen", "apple"]
    table = np.array([[1, 0, 0], [0, 1, 0], [1, 0, 1], [0, 1, 1], [-1, -1, 0.1]], np.float32)
    other = np.array([[0, 1, 0.2], [1, 0, 0], [1, 0, 1], [-1, -1, 0.1], [0, 1, 1]], np.float32)
    return WordVectors(Vocabulary(names, [9, 8, 7, 6, 5]), table, other)


def test_similarity_is_the_rank_correlation_of_covered_pairs(words):
    # cosines: king-man 0.71, king-queen 0.5, man-woman 0, king-apple < 0
    pairs = [("king", "man", 9.0), ("King", "queen", 7.0), ("man", "woman", 3.0)]
    pairs += [("king", "apple", 1.0), ("king", "throne", 8.0)]
    assert similarity_score(words, pairs) == (pytest.approx(100), 4)
    backwards = [(a, b, -rating) for a, b, rating in pairs]
    assert similarity_score(words, backwards)[0] == pytest.approx(-100)


def test_similarity_without_two_covered_pairs_is_nan(words):
    score, covered = similarity_score(words, [("king", "man", 1.0), ("a", "b", 2.0)])
    assert math.isnan(score)
    assert covered == 1


def test_analogies_are_answered_among_the_most_frequent_words_only(words):
    questions = [("man", "king", "woman", "queen"), ("Man", "King", "Woman", "Queen")]
    questions += [("man", "king", "woman", "throne"), ("man", "woman", "king", "apple")]
    assert analogy_score(words, questions) == (pytest.approx(200 / 3), 3)
    score, covered = analogy_score(words, questions, n_frequent=3)
    assert math.isnan(score)
    assert covered == 0


def task_files(folder):
    (folder / "wordsim353.tsv").write_text("# about\nking\tman\t9\nman\twoman\t3\nx\ty\t1\n")
    (folder / "questions-words.txt").write_text(": family\nman king woman queen\n")


def test_a_folder_is_scored_for_both_tables_with_what_was_covered(words, tmp_path):
    task_files(tmp_path)
    similarity, analogies = evaluate_words(words, tmp_path)
    assert similarity["task"] == "WordSim-353"
    assert (similarity["covered"], similarity["n"]) == (2, 3)
    assert analogies["input"] == 100.0
    assert analogies["output"] == 0.0


def test_a_folder_without_task_files_is_refused(words, tmp_path):
    with pytest.raises(FileNotFoundError, match=r"must hold at least one of wordsim353\.tsv"):
        evaluate_words(words, tmp_path)


def test_broken_lines_are_named(tmp_path):
    (tmp_path / "s").write_text("a\tb\tmany\n")
    (tmp_path / "q").write_text("a b c\n")
    with pytest.raises(ValueError, match=r"Line 1 of .* must be two words and a rating"):
        read_similarities(tmp_path / "s")
    with pytest.raises(ValueError, match=r"Line 1 of .* must be four words"):
        read_analogies(tmp_path / "q")


def test_the_command_prints_neighbours_and_scores(words, tmp_path):
    save(words, tmp_path / "model")
    task_files(tmp_path)
    run = CliRunner().invoke
    found = run(cli, ["words", str(tmp_path / "model"), "king", "-n", "2", "--json"])
    ways = json.loads(found.stdout)["neighbours"]["king"]
    assert set(ways) == {"input -> input", "output -> output", "input -> output", "output -> input"}
    assert ways["input -> input"][0][0] == "man"
    scored = run(cli, ["words", str(tmp_path / "model"), "--evaluate", str(tmp_path)])
    assert "WordSim-353" in scored.stdout
    assert "2 of 3" in scored.stdout
    unknown = run(cli, ["words", str(tmp_path / "model"), "kingg"])
    assert unknown.exit_code == 1
    assert "is not among these 5 words" in unknown.output


def test_real_task_files_have_their_known_sizes(data_dir):
    folder = data_dir / "words"
    assert len(read_similarities(folder / "wordsim353.tsv")) == 353
    assert len(read_similarities(folder / "simlex999.txt")) == 999
    assert len(read_analogies(folder / "questions-words.txt")) == 19_544
