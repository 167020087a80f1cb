"""Misspelled words: what is taken for what, and that every method and every door knows it."""

import itertools
import pickle

import numpy as np
import pytest
from click.testing import CliRunner

from pacsent import Vocabulary, WordVectors, load, make, save
from pacsent._kernels.spelling_kernels import LONGEST, edits
from pacsent.cli import cli
from pacsent.words.spelling import Spelling

WORDS = ["there", "three", "wonderful", "film", "wonderfully", "cat", "actress", "naïve"]


@pytest.fixture
def vocabulary():
    return Vocabulary(WORDS, range(80, 0, -10), unknown="nearest")


def spelling_of(words):
    encoded = [word.encode() for word in words]
    starts = np.cumsum([0, *map(len, encoded)])
    return Spelling(np.frombuffer(b"".join(encoded), np.uint8), starts)


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("wonderfull", "wonderful"),  # an insertion
        ("wondrful", "wonderful"),  # a deletion
        ("wonderfyl", "wonderful"),  # a replacement
        ("wonedrful", "wonderful"),  # a swap
        ("wpnderfyl", "wonderful"),  # two edits, in a long word
        ("thrwe", "three"),  # one edit from "three", two from "there"
        ("theee", "there"),  # one edit from both: the more frequent
        ("flim", "film"),
        ("actreds", "actress"),
        ("fpln", None),  # two edits, in a short word
        ("cbt", None),  # too short to tell
        ("xylophone", None),
        ("w" * 90, None),
        ("naive", None),  # an accent is two bytes: two edits
    ],
)
def test_what_is_taken_for_what(typed, meant):
    found = spelling_of(WORDS)(typed)
    assert (WORDS[found] if found >= 0 else None) == meant


def slow_edits(a, b):
    """Optimal string alignment distance, by its definition."""
    d = {(i, j): i + j for i in range(len(a) + 1) for j in range(len(b) + 1) if i * j == 0}
    for i, j in itertools.product(range(1, len(a) + 1), range(1, len(b) + 1)):
        d[i, j] = min(d[i - 1, j] + 1, d[i, j - 1] + 1, d[i - 1, j - 1] + (a[i - 1] != b[j - 1]))
        if i > 1 and j > 1 and a[i - 1] == b[j - 2] and a[i - 2] == b[j - 1]:
            d[i, j] = min(d[i, j], d[i - 2, j - 2] + 1)
    return d[len(a), len(b)]


def test_edits_are_counted_as_their_definition_says(rng):
    rows = np.empty((3, LONGEST + 1), np.int64)
    for _ in range(500):
        a, b = (rng.integers(97, 100, rng.integers(0, 9)).astype(np.uint8) for _ in range(2))
        for most in (1, 2, 3):
            found = edits(a, b, most, rows)
            assert found == min(slow_edits(a.tobytes(), b.tobytes()), most + 1)


def test_unknown_words_are_dropped_unless_it_is_asked(vocabulary):
    text = ["a wonderfyl flim", ["wonderfyl", "flim"], "film", ""]
    plain = vocabulary.replace(unknown="drop").encode(text)
    assert [plain.ids.tolist(), plain.n_unknown.tolist()] == [[3], [3, 2, 0, 0]]
    found = vocabulary.encode(text)
    assert [found.ids.tolist(), found.n_unknown.tolist()] == [[2, 3, 2, 3, 3], [1, 0, 0, 0]]
    assert found.offsets.tolist() == [0, 2, 4, 5, 5]
    with pytest.raises(ValueError, match=r"must be one of \('drop', 'nearest', 'pieces'\)\. Got"):
        Vocabulary(["a"], unknown="guess")


def test_it_is_saved_loaded_pickled_and_may_be_changed_when_opened(vocabulary, tmp_path):
    tables = np.random.default_rng(0).normal(size=(2, len(WORDS), 4)).astype(np.float32)
    words = WordVectors(vocabulary, *tables)
    save(words, tmp_path / "words")
    assert load(tmp_path / "words").vocabulary.unknown == "nearest"
    assert load(tmp_path / "words", unknown="drop").vocabulary.unknown == "drop"
    again = pickle.loads(pickle.dumps(vocabulary))
    assert again.encode(["flim"]).ids.tolist() == [3]
    for name in ("Average", "SIF-sum", "PB-neg"):
        model = make(name, words).fit(["film there", "a wonderful actress"])
        typed, meant = model.transform(["wonderfyl flim", "wonderful film"])
        np.testing.assert_allclose(typed, meant, atol=1e-6)
        save(model, tmp_path / "model", overwrite=True)
        opened = load(tmp_path / "model", unknown="drop").set_params(on_empty="ignore")
        assert not opened.transform(["flim"]).any()
        assert load(tmp_path / "model").transform(["flim"]).any()


@pytest.mark.slow
def test_the_command_line_reads_misspelled_english():
    def embed(text, *options):
        done = CliRunner().invoke(
            cli, ["embed", "english", "--method", "Average", "--quiet", *options], input=text
        )
        assert done.exit_code == 0, done.output
        return np.array(done.stdout.split(), dtype=float)

    assert not embed("excelllent\n").any()
    typed = embed("excelllent\n", "--unknown", "nearest")
    np.testing.assert_allclose(typed, embed("excellent\n"), atol=1e-6)
