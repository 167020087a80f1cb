"""Pages about classifiers of many classes, and of predictions."""

import json
import re

import numpy as np
import pytest

from helpers import invoke
from pacsent import TextClassifier, save
from pacsent.classify import label_quality
from pacsent.classify.diagnostics import Diagnostics, report_predictions

N_CLASSES = 25  # too many for a matrix of all pairs
CLASSES = [f"class{number:02}" for number in range(N_CLASSES)]


def cells_of(page, after):
    """The cells of each row of the first table behind this text."""
    _, _, rest = page.partition(after)
    table, _, _ = rest.partition("</table>")
    rows = re.findall("<tr>(.*?)</tr>", table, flags=re.DOTALL)
    return [re.findall("<bdi>(.*?)</bdi>", row) for row in rows]


def test_the_errors_of_many_classes_are_listed_the_most_frequent_first():
    labels = CLASSES * 4
    predictions = list(labels)
    predictions[0] = predictions[25] = predictions[50] = "class07"  # of class00
    predictions[3] = "class04"
    result = report_predictions(labels, predictions)

    rows = cells_of(result.to_html(), after="true class")

    assert rows == [["class00", "class07", "3"], ["class03", "class04", "1"]]


def test_the_errors_of_few_classes_are_a_matrix():
    result = report_predictions(CLASSES[:3] * 4, [*CLASSES[:3] * 3, *["class00"] * 3])

    page = result.to_html()

    assert r"true class \ predicted" in page
    assert "columns are predictions" in page


@pytest.fixture
def command(tmp_path, monkeypatch):
    """The words of a command that writes a report about a small classifier."""
    monkeypatch.setattr(label_quality, "_CURVE_PARTS", 2)
    monkeypatch.setattr(Diagnostics, "figures", lambda self: [])  # they take a second
    rng = np.random.default_rng(0)
    nouns = [first + end for first in ("sun", "tea", "sea", "fox") for end in ("pot", "bow", "bed")]
    texts = []
    for word in ["lovely", "boring"] * 20:
        texts.append(" ".join([word, *rng.permutation(nouns)[:5]]))
    labels = ["up", "down"] * 20
    save(TextClassifier(None, ngrams=(1, 1)).fit(texts, labels), tmp_path / "model")
    lines = [f"{text},{label}\n" for text, label in zip(texts, labels)]
    (tmp_path / "data.csv").write_text("text,label\n" + "".join(lines))
    page = tmp_path / "page.html"
    all_rows = ("--overlap", "keep")  # the model was fitted on each
    return ["report", tmp_path / "model", tmp_path / "data.csv", "-o", page, *all_rows]


def test_a_report_has_an_audit_and_a_learning_curve_if_asked_for(command, tmp_path):
    done = invoke(*command, "--audit", "--curve", "--json", "--quiet", status=0)

    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "The learning curve is of classifiers fitted on parts of all 40 texts" in page
    assert "Suspicious labels (0)" in page
    assert json.loads(done.stdout)["audit"]["suspicious"] == []


def test_a_report_has_a_learning_curve_without_an_audit(command, tmp_path):
    invoke(*command, "--curve", "--quiet", status=0)

    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "The learning curve is of classifiers" in page
    assert "Suspicious labels" not in page
