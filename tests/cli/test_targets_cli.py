"""`train` and `predict` for multi-label models."""

import json

import pandas as pd
import pytest

from helpers import draw_multilabel_texts, invoke


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with a table of two hundred texts and their labels, and two new texts."""
    folder = tmp_path_factory.mktemp("targets")
    texts, labels = draw_multilabel_texts(200)
    joined = ["; ".join(sorted(names)) for names in labels]
    table = pd.DataFrame({"text": texts, "tags": joined})
    table.to_csv(folder / "tags.csv", index=False)
    (folder / "new.txt").write_text("goal team match\nfilm actor and sauce\n")
    return folder


COLUMNS = ["--label-column", "tags", "--label-separator", ";"]


@pytest.fixture(scope="module")
def tags(place):
    """A model of these labels."""
    options = [*COLUMNS, "--encoder", "none", "--random-state", 0]
    done = invoke("train", place / "tags.csv", *options, "-o", place / "tags", status=0)
    assert "3 labels, exact match" in done.output
    return place / "tags"


# ---- Predictions ----


def test_labels_are_written_with_commas_between_them(place, tags):
    done = invoke("predict", tags, place / "new.txt", "--quiet", status=0)

    head, *rows = [line.split("\t") for line in done.stdout.splitlines()]
    labels_of_rows = [row[-2].split(",") for row in rows]
    assert head[-2:] == ["predictions", "probabilities"]
    assert labels_of_rows[0] == ["sport"]
    assert set(labels_of_rows[1]) == {"film", "food"}


def test_labels_are_lists_in_json_with_the_most_probable_first(place, tags):
    out = place / "out.jsonl"

    invoke("predict", tags, place / "new.txt", "-o", out, "--quiet", status=0)

    first, second = [json.loads(line) for line in out.read_text().splitlines()]
    assert first["predictions"] == ["sport"]
    assert len(second["probabilities"]) == 2
    assert second["probabilities"] == sorted(second["probabilities"], reverse=True)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (
            "train @tags.csv --label-column tags --label-separator ; --balanced -o @none",
            "class_weight must be None and selection auto or folds",
        ),
        (
            "train @tags.csv --label-column tags --label-separator= -o @none",
            "Row 1 must have labels",
        ),
        ("train @empty.csv --label-separator , -o @none", "Row 2 must have labels"),
        ("predict @tags @new.txt --error 0.1", "error is for models that give one class"),
        ("certify @tags @tags.csv --label-column tags", ""),
    ],
)
def test_options_that_mean_nothing_are_refused(place, tags, line, message):
    (place / "empty.csv").write_text('text,label\none,"a,b"\ntwo,"a,,b"\n')
    arguments = line.replace("@", f"{place}/").split()

    done = invoke(*arguments)

    assert done.exit_code != 0
    assert message in done.output
    assert "Traceback" not in done.output
    assert not (place / "none").exists()


# ---- Certificates of sets of labels ----


@pytest.fixture(scope="module")
def certified(place):
    """A model of these labels with its certificate."""
    options = ["--encoder", "none", "--calibration-size", 0.4, "--random-state", 1]
    model = place / "certified"
    done = invoke("train", place / "tags.csv", *COLUMNS, *options, "-o", model, status=0)
    assert "micro F1 is at least" in done.output
    return model


def test_sets_of_labels_are_verified_with_their_table(place, certified):
    done = invoke("verify", certified, place / "tags.csv", *COLUMNS, status=0)

    assert "the counts follow from the texts" in done.output


def test_sets_of_labels_are_not_verified_with_another_table(place, certified, tmp_path):
    head, *rows = (place / "tags.csv").read_text().splitlines()
    other = tmp_path / "other.csv"
    other.write_text("\n".join([head, *rows[:0:-1]]) + "\n")

    done = invoke("verify", certified, other, *COLUMNS, status=1)

    assert "X must be the texts that were certified" in done.output


def test_sets_of_labels_are_not_verified_without_their_separator(place, certified):
    done = invoke("verify", certified, place / "tags.csv", "--label-column", "tags", status=2)

    assert "multi-label: pass --label-separator" in done.output


# ---- Certificates of predictions ----

HEAD = "text,label,p"


@pytest.fixture
def prediction_rows():
    """Rows with a text, a label and a prediction; every seventh text is wrong where odd."""
    rows = []
    for n in range(80):
        label = "ab"[n % 2]
        prediction = "a" if n % 7 == 0 else label
        rows.append(f"text {n},{label},{prediction}")
    return rows


@pytest.fixture
def table(prediction_rows, tmp_path):
    """A table of predictions, and beside it their certificate, c.json."""
    path = tmp_path / "t.csv"
    path.write_text("\n".join([HEAD, *prediction_rows]) + "\n")
    invoke("certify", path, "--prediction-column", "p", "-o", tmp_path / "c.json", status=0)
    return path


def test_predictions_are_verified_with_their_table(table, tmp_path):
    done = invoke("verify", tmp_path / "c.json", table, "--prediction-column", "p", status=0)

    assert "the counts follow" in done.output


def test_predictions_in_another_order_are_not_verified(table, prediction_rows, tmp_path):
    first, *others = prediction_rows
    table.write_text("\n".join([HEAD, *others, first]) + "\n")

    done = invoke("verify", tmp_path / "c.json", table, "--prediction-column", "p", status=1)

    assert "must be" in done.output
