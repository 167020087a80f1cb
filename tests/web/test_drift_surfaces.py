"""The same rows are counted and left out by every surface: Python, shell, certify and the page."""

import json
import re
import shutil
import subprocess

import numpy as np
import pytest

from helpers import invoke
from pacsent import CertifiedClassifier, TextClassifier, save
from pacsent.certify import DriftMonitor, certify
from pacsent.datasets import load_banking
from pacsent.predict.abstaining import AnswerRule
from pacsent.web import export_html

NODE = shutil.which("node")


@pytest.fixture(scope="module")
def messages():
    """The texts and labels of five classes, in a random order."""
    texts, labels = load_banking(n_classes=5)
    order = np.random.default_rng(0).permutation(len(texts))
    return np.array(texts)[order].tolist(), np.array(labels)[order].tolist()


@pytest.fixture(scope="module")
def model(messages):
    """A classifier of the first 250 messages."""
    texts, labels = messages
    model = CertifiedClassifier(TextClassifier(None), random_state=0)
    return model.fit(texts[:250], labels[:250])


@pytest.fixture(scope="module")
def rows(messages):
    """Rows of which some have no text or repeat training texts or other rows."""
    texts, _ = messages
    new = texts[250:500]
    nearly_repeated = [f"{text} please" for text in new[20:40]]
    rows = [*new, *texts[:30], *new[:20], *nearly_repeated, "", "  ", "\u200b", "你好,世界"]
    order = np.random.default_rng(1).permutation(len(rows))
    return [rows[number] for number in order]


@pytest.fixture(scope="module")
def comparison(model, rows):
    """What the classifier says in Python about the rows and its calibration texts."""
    return model.compare_with_calibration(rows)


@pytest.fixture(scope="module")
def model_folder(model, tmp_path_factory):
    """The classifier, saved."""
    return save(model, tmp_path_factory.mktemp("drift") / "model")


def read_json_lines(path):
    lines = path.read_text().splitlines()
    return [json.loads(line) for line in lines]


def write_json_lines(path, records):
    lines = [json.dumps(record) for record in records]
    path.write_text("\n".join(lines))


def test_the_rows_that_are_left_out_and_those_compared_are_all(comparison, rows):
    assert comparison.counts.n_empty == 3
    assert comparison.n == comparison.counts.n_distinct
    assert len(comparison.left_out) == len(rows) - comparison.n


def test_predict_and_monitor_leave_out_the_same_rows(model, rows, comparison):
    monitor = DriftMonitor(model, random_state=0)

    for start in range(0, len(rows), 64):
        batch = rows[start : start + 64]
        monitor.update(batch)

    assert monitor.counts == comparison.counts
    assert monitor.n_compared == comparison.n


def test_a_monitor_counts_rows_without_text_even_where_there_are_no_others(model):
    monitor = DriftMonitor(model, random_state=0)

    assert not monitor.update(["", "  "])

    assert monitor.counts.n_rows == 2
    assert monitor.counts.n_empty == 2
    assert monitor.n_compared == 0


def test_certify_counts_the_same_distinct_texts(model, rows, comparison):
    texts = [text for text in rows if text.strip(" \u200b")]
    labels = model.predict(texts)

    certificate = certify(model, texts, labels, overlap="drop", repeats="copies")

    assert certificate.n == comparison.counts.n_distinct
    assert certificate.n_duplicates == comparison.counts.n_repeated


def left_out_of(records):
    """The row, counted from 0, and the reason of each record of a file of rows left out."""
    return [(record["row"] - 1, record["reason"]) for record in records]


def test_the_shell_writes_which_rows_are_left_out_with_their_names(
    model_folder, rows, comparison, tmp_path
):
    table = tmp_path / "in.jsonl"
    out = tmp_path / "out.jsonl"
    left = tmp_path / "left.jsonl"
    write_json_lines(table, [{"name": f"n{row}", "text": text} for row, text in enumerate(rows)])

    done = invoke(
        "predict", model_folder, table, "-o", out, "--left-out", left, "--id-column", "name"
    )

    records = read_json_lines(left)
    predictions = read_json_lines(out)
    assert left_out_of(records) == list(comparison.left_out)
    for record in records:
        row = record["row"] - 1
        assert record["name"] == f"n{row}"
    assert str(comparison.counts) in done.stderr
    assert predictions[3]["name"] == "n3"


@pytest.fixture
def labelled_table(model, rows, tmp_path):
    """The rows with names and with labels, of which that of the eighth row is wrong."""
    labels = model.predict(rows).tolist()
    classes = model.classes_.tolist()
    labels[7] = classes[1] if labels[7] == classes[0] else classes[0]
    records = [
        {"name": f"n{row}", "text": text, "label": label}
        for row, (text, label) in enumerate(zip(rows, labels))
    ]
    path = tmp_path / "in.jsonl"
    write_json_lines(path, records)
    return path


def test_certify_names_rows_as_predict_does(model_folder, labelled_table, comparison, tmp_path):
    left = tmp_path / "left.jsonl"
    options = ["--left-out", left, "--id-column", "name", "--overlap", "drop"]

    invoke("certify", model_folder, labelled_table, *options, status=0)

    expected = [(row, reason) for row, reason in comparison.left_out if reason != "no text"]
    assert left_out_of(read_json_lines(left)) == expected


def test_evaluate_names_rows_as_predict_does(model_folder, labelled_table):
    done = invoke(
        "evaluate", model_folder, labelled_table, "--id-column", "name", "--json", status=0
    )

    [error] = json.loads(done.stdout)["errors"]
    assert error["row"] == 8
    assert error["id"] == "n7"


CLASSIFY_AND_PRINT = """
(async () => {
  const { data, texts } = JSON.parse(require("fs").readFileSync(process.argv[2], "utf8"));
  await open(data);
  ACTIONS.start();
  const answers = ACTIONS.classify({ texts });
  console.log(JSON.stringify({ answers, drift: ACTIONS.finish() }));
})();
"""


@pytest.fixture(scope="module")
def of_page(model, rows, tmp_path_factory):
    """What the engine of the exported page answers for the rows, and says about drift."""
    if NODE is None:
        pytest.skip("node is not installed")
    folder = tmp_path_factory.mktemp("page")
    page = folder / "page.html"
    content = folder / "content.json"
    script = folder / "run.js"
    export_html(model, page, error=0.2)
    html = page.read_text(encoding="utf-8")
    data, engine = re.findall(r'<script id="(?:data|engine)"[^>]*>(.*?)</script>', html, re.S)
    content.write_text(json.dumps({"data": data, "texts": rows}), encoding="utf-8")
    code = f"globalThis.self = globalThis;\n{engine}\n{CLASSIFY_AND_PRINT}"
    script.write_text(code, encoding="utf-8")

    done = subprocess.run([NODE, script, content], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def test_the_exported_page_counts_rows_as_python(of_page, comparison):
    drift = of_page["drift"]

    assert str(comparison.counts) in drift["message"]
    assert f"{comparison.n} distinct texts" in drift["message"]
    assert drift["differs"] == comparison.differs


def test_the_exported_page_answers_as_python(of_page, model, rows, comparison):
    expected = AnswerRule(model, error=0.2).answer(rows)

    is_text = np.array([answer is not None for answer in of_page["answers"]])
    found = [answer for answer in of_page["answers"] if answer is not None]
    sets = [np.flatnonzero(row).tolist() for row in expected.inside[is_text]]
    assert np.count_nonzero(~is_text) == comparison.counts.n_empty
    assert [answer[2] for answer in found] == expected.abstained[is_text].tolist()
    assert [answer[3] for answer in found] == sets
    assert [answer[4] == "" for answer in found] == expected.covered[is_text].tolist()
