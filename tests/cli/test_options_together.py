"""Options of commands that depend on each other, or on what a file has."""

import json

import pytest

from helpers import invoke
from pacsent import Index, make_encoder, save
from pacsent.cli import vector_commands


@pytest.fixture
def table(tmp_path):
    """A few labelled texts."""
    path = tmp_path / "data.csv"
    path.write_text("text,label\ngood film,up\nbad film,down\n")
    return path


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--no-calibration", "--n-candidates", 3], "--n-candidates has no use with"),
        (["--keep-case", "--merge-labels"], "--keep-case and --merge-labels exclude each other"),
        (["--no-calibration", "--repeats", "traffic"], "--repeats has no use with"),
    ],
)
def test_options_of_train_that_exclude_each_other_are_refused(table, tmp_path, options, message):
    done = invoke("train", table, "-o", tmp_path / "model", *options, status=2)

    assert message in " ".join(done.stderr.split())
    assert not (tmp_path / "model").exists()


def test_a_column_of_predictions_is_refused_beside_a_model(table, tmp_path):
    (tmp_path / "model").mkdir()

    done = invoke("evaluate", tmp_path / "model", table, "--prediction-column", "label", status=2)

    assert "--prediction-column is for DATA without MODEL" in done.stderr


# ---- search --where ----


@pytest.fixture
def index(toy_word_vectors, tmp_path):
    """Three texts with a language and a year each, in a folder."""
    encoder = make_encoder("Average", toy_word_vectors, on_empty="ignore").fit([])
    made = Index(encoder, lexical=False)
    metadata = [
        {"language": "en", "year": 1999},
        {"language": "de", "year": 1999},
        {"language": "en", "year": "2001"},
    ]
    made.add(["good film", "quiet film", "good good film"], metadata=metadata)
    save(made, tmp_path / "index")
    return tmp_path / "index"


def find(index, *conditions):
    """The numbers of the texts that `pacsent search` finds, in their order."""
    options = []
    for condition in conditions:
        options += ["--where", condition]
    done = invoke("search", index, "good film", *options, "--json", status=0)
    (hits,) = json.loads(done.stdout)["results"]
    return sorted(hit["id"] for hit in hits)


def test_a_condition_finds_only_texts_with_this_value(index):
    assert find(index, "language=en") == [0, 2]


def test_texts_satisfy_all_conditions(index):
    assert find(index, "language=en", "year=1999") == [0]


def test_a_number_finds_numbers_and_texts_of_the_same_digits(index):
    assert find(index, "year=1999") == [0, 1]
    assert find(index, "year=2001") == [2]


@pytest.mark.parametrize("condition", ["language", "=en"])
def test_a_condition_without_a_column_or_a_value_is_refused(index, condition):
    done = invoke("search", index, "good film", "--where", condition, status=2)

    assert f"--where must be COLUMN=VALUE. Got '{condition}'" in " ".join(done.stderr.split())


# ---- vectors train ----


@pytest.fixture
def interrupted(tmp_path):
    """The folder of word vectors whose training with three dimensions was interrupted."""
    work_folder = tmp_path / "words.training"
    work_folder.mkdir()
    first_line = json.dumps({"settings": {"n_dims": 3, "n_epochs": 2}})
    (work_folder / "checkpoint").write_text(first_line + "\n")
    return tmp_path / "words"


def test_an_interrupted_training_is_not_continued_with_other_settings(interrupted, tmp_path):
    text = tmp_path / "text.txt"
    text.write_text("good film\n")
    options = ("--n-dims", 4, "--n-epochs", 2)

    done = invoke("vectors", "train", text, "-o", interrupted, *options, status=1)

    message = " ".join(done.stderr.split())
    assert "an unfinished training with another --n-dims. Give the same to resume it" in message
    assert not interrupted.exists()


def test_the_same_settings_and_those_that_were_not_typed_continue_a_training(interrupted):
    checkpoint = interrupted.with_name("words.training") / "checkpoint"
    options = {"n_dims": 3, "n_epochs": 5}

    vector_commands._check_same_settings(interrupted, checkpoint, ["n_dims"], options)

    with pytest.raises(ValueError, match="another n_epochs"):
        vector_commands._check_same_settings(interrupted, checkpoint, [*options], options)


def test_texts_of_several_tables_are_read_one_after_the_other(tmp_path):
    paths = [tmp_path / "a.csv", tmp_path / "b.csv"]
    paths[0].write_text("id,note\n1,good film\n2,bad film\n")
    paths[1].write_text("id,note\n3,quiet film\n")
    columns = {"text_column": "note", "input_format": None, "quiet": True}

    texts = vector_commands._read_documents([str(path) for path in paths], columns)

    assert list(texts) == ["good film", "bad film", "quiet film"]


# ---- check ----


def test_empty_texts_are_named_and_not_checked(tmp_path):
    path = tmp_path / "machine.csv"
    rows = [f"film number{i} word{7 * i},{'up' if i % 3 else 'down'},{i}" for i in range(12)]
    path.write_text("\n".join(["text,label,trust", "…,up,1", *rows, "   ,down,2"]))
    options = ("--terminal", "--random-state", 0, "--score-column", "trust")

    done = invoke("check", path, *options, input="")

    assert "Left out: 2 empty texts (rows 1, 14)" in done.stderr
