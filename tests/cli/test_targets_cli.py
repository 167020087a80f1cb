"""`train` and `predict` for multi-label models."""

import json

import pandas as pd
import pytest

from helpers import draw_multilabel_texts, invoke


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("targets")
    texts, labels = draw_multilabel_texts(200)
    joined = ["; ".join(sorted(names)) for names in labels]
    pd.DataFrame({"text": texts, "tags": joined}).to_csv(folder / "tags.csv", index=False)
    (folder / "new.txt").write_text("goal team match\nfilm actor and sauce\n")
    return folder


@pytest.fixture(scope="module")
def tags(place):
    options = ["--label-column", "tags", "--label-separator", ";", "--encoder", "none"]
    options += ["--random-state", 0]
    done = invoke("train", place / "tags.csv", *options, "-o", place / "tags", status=0)
    assert "3 labels, exact match" in done.output
    return place / "tags"


def test_labels_are_written_with_commas_or_as_lists(place, tags):
    done = invoke("predict", tags, place / "new.txt", "--quiet", status=0)
    head, first, second = done.stdout.strip().split("\n")
    assert head.split("\t")[-2:] == ["predictions", "probabilities"]
    assert first.split("\t")[-2] == "sport"
    assert set(second.split("\t")[-2].split(",")) == {"film", "food"}
    invoke("predict", tags, place / "new.txt", "-o", place / "out.jsonl", "--quiet", status=0)
    rows = [json.loads(line) for line in (place / "out.jsonl").read_text().splitlines()]
    assert rows[0]["predictions"] == ["sport"] and len(rows[1]["probabilities"]) == 2
    assert rows[1]["probabilities"][0] >= rows[1]["probabilities"][1]


WRONG = [
    ("train @tags.csv --label-column tags --label-separator ; --balanced -o @none",
     "class_weight must be None and selection auto or folds"),
    ("train @tags.csv --label-column tags --label-separator= -o @none", "Row 1 must have labels"),
    ("train @empty.csv --label-separator , -o @none", "Row 2 must have labels"),
    ("predict @tags @new.txt --error 0.1", "error is for models that give one class"),
    ("certify @tags @tags.csv --label-column tags", ""),
]  # fmt: skip


@pytest.mark.parametrize(("line", "message"), WRONG)
def test_options_that_mean_nothing_are_refused(place, tags, line, message):
    (place / "empty.csv").write_text('text,label\none,"a,b"\ntwo,"a,,b"\n')
    done = invoke(*line.replace("@", f"{place}/").split())
    assert done.exit_code != 0 and message in done.output and "Traceback" not in done.output
    assert not (place / "none").exists()


def test_sets_of_labels_are_certified_and_verified(place, tmp_path):
    """Held out, certified, checked again; another table or a missing separator is refused."""
    table, columns = place / "tags.csv", ("--label-column", "tags", "--label-separator", ";")
    done = invoke("train", table, *columns, "--encoder", "none", "--calibration-size", 0.4,
               "--random-state", 1, "-o", tmp_path / "m")  # fmt: skip
    assert done.exit_code == 0 and "micro F1 is at least" in done.output, done.output
    done = invoke("verify", tmp_path / "m", table, *columns)
    assert done.exit_code == 0 and "the counts follow from the texts" in done.output, done.output
    lines = table.read_text().splitlines()
    (tmp_path / "other.csv").write_text("\n".join([lines[0], *lines[:1:-1]]) + "\n")
    done = invoke("verify", tmp_path / "m", tmp_path / "other.csv", *columns)
    assert done.exit_code == 1 and "X must be the texts that were certified" in done.output
    done = invoke("verify", tmp_path / "m", table, "--label-column", "tags")
    assert done.exit_code == 2 and "multi-label: pass --label-separator" in done.output


def test_predictions_are_verified_with_their_table(tmp_path):
    rows = [f"text {n},{'ab'[n % 2]},{'ab'[n % 2 and n % 7 > 0]}" for n in range(80)]
    table, file, column = tmp_path / "t.csv", tmp_path / "c.json", ("--prediction-column", "p")
    table.write_text("\n".join(["text,label,p", *rows]) + "\n")
    invoke("certify", table, *column, "-o", file, status=0)
    done = invoke("verify", file, table, *column)
    assert done.exit_code == 0 and "the counts follow" in done.output, done.output
    table.write_text("\n".join(["text,label,p", *rows[1:], rows[0]]) + "\n")
    done = invoke("verify", file, table, *column)
    assert done.exit_code == 1 and "must be" in done.output
