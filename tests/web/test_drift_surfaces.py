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
def model_and_rows():
    """A classifier, and rows of which some have no text or repeat training texts or other rows."""
    columns = np.column_stack(load_banking(n_classes=5))
    texts, labels = np.random.default_rng(0).permutation(columns).T.tolist()
    model = CertifiedClassifier(TextClassifier(None), random_state=0)
    model.fit(texts[:250], labels[:250])
    new = texts[250:500]
    repeated = [*new[:20], *(f"{text} please" for text in new[20:40])]
    rows = [*new, *texts[:30], *repeated, "", "  ", "\u200b", "你好,世界"]
    order = np.random.default_rng(1).permutation(len(rows))
    return model, [rows[i] for i in order]


def counts_in(message):
    """The numbers of a sentence about rows that are left out."""
    left_out = re.search(r"Left out of ([\d,]+) rows: (.*?);", message)
    parts = re.findall(r"([\d,]+) (repeats?|ha(?:s|ve)) (\w+ \w+)", left_out[2])
    return int(left_out[1]), {what: int(n) for n, _, what in parts}


def test_predict_and_monitor_leave_out_the_same_rows(model_and_rows):
    model, rows = model_and_rows
    comparison = model.compare_with_calibration(rows)
    monitor = DriftMonitor(model, random_state=0)
    for start in range(0, len(rows), 64):
        monitor.update(rows[start : start + 64])
    assert comparison.counts == monitor.counts
    assert comparison.counts.n_empty == 3
    assert comparison.n == comparison.counts.n_distinct == monitor.n_compared
    assert len(comparison.left_out) == len(rows) - comparison.n


def test_a_monitor_counts_rows_without_text_even_where_there_are_no_others(model_and_rows):
    model, _ = model_and_rows
    monitor = DriftMonitor(model, random_state=0)

    assert not monitor.update(["", "  "])

    assert (monitor.counts.n_rows, monitor.counts.n_empty, monitor.n_compared) == (2, 2, 0)


def test_certify_counts_the_same_distinct_texts(model_and_rows):
    model, rows = model_and_rows
    counts = model.compare_with_calibration(rows).counts
    some = [text for text in rows if text.strip(" \u200b")]
    certificate = certify(model, some, model.predict(some), overlap="drop", repeats="copies")
    assert certificate.n == counts.n_distinct
    assert certificate.n_duplicates == counts.n_repeated


def test_the_shell_writes_which_rows_are_left_out_with_their_names(model_and_rows, tmp_path):
    model, rows = model_and_rows
    save(model, tmp_path / "model")
    table = [json.dumps({"name": f"n{i}", "text": text}) for i, text in enumerate(rows)]
    (tmp_path / "in.jsonl").write_text("\n".join(table))
    paths = [tmp_path / part for part in ("model", "in.jsonl", "out.jsonl", "left.jsonl")]
    how = ["predict", *paths[:2], "-o", paths[2], "--left-out", paths[3], "--id-column", "name"]
    stated = invoke(*how, status=None).stderr
    comparison = model.compare_with_calibration(rows)
    left_out = [json.loads(line) for line in paths[3].read_text().splitlines()]
    assert [(item["row"] - 1, item["reason"]) for item in left_out] == list(comparison.left_out)
    assert all(item["name"] == f"n{item['row'] - 1}" for item in left_out)
    assert str(comparison.counts) in stated
    assert json.loads(paths[2].read_text().splitlines()[3])["name"] == "n3"


def test_certify_and_evaluate_name_rows_as_predict_does(model_and_rows, tmp_path):
    model, rows = model_and_rows
    save(model, tmp_path / "model")
    labels = model.predict(rows).tolist()
    labels[7] = next(name for name in model.classes_.tolist() if name != labels[7])
    with open(tmp_path / "in.jsonl", "w") as file:
        for i, (text, label) in enumerate(zip(rows, labels)):
            file.write(json.dumps({"name": f"n{i}", "text": text, "label": label}) + "\n")
    paths = tmp_path / "model", tmp_path / "in.jsonl"
    how = ["--left-out", tmp_path / "left.jsonl", "--id-column", "name", "--overlap", "drop"]
    invoke("certify", *paths, *how, status=0)
    left_out = [json.loads(line) for line in (tmp_path / "left.jsonl").read_text().splitlines()]
    with_text = [
        item for item in model.compare_with_calibration(rows).left_out if item[1] != "no text"
    ]
    assert [(item["row"] - 1, item["reason"]) for item in left_out] == with_text
    evaluated = invoke("evaluate", *paths, "--id-column", "name", "--json", status=0)
    (error,) = json.loads(evaluated.stdout)["errors"]
    assert (error["row"], error["id"]) == (8, "n7")


@pytest.mark.skipif(NODE is None, reason="node is not installed")
def test_the_exported_page_counts_and_answers_as_python(model_and_rows, tmp_path):
    model, rows = model_and_rows
    export_html(model, tmp_path / "page.html", error=0.2)
    html = (tmp_path / "page.html").read_text(encoding="utf-8")
    data, engine = re.findall(r'<script id="(?:data|engine)"[^>]*>(.*?)</script>', html, re.S)
    content = {"data": data, "texts": rows}
    (tmp_path / "content.json").write_text(json.dumps(content), encoding="utf-8")
    run = """
(async () => {
  const { data, texts } = JSON.parse(require("fs").readFileSync(process.argv[2], "utf8"));
  await open(data);
  ACTIONS.start();
  const answers = ACTIONS.classify({ texts });
  console.log(JSON.stringify({ answers, drift: ACTIONS.finish() }));
})();
"""
    script = tmp_path / "run.js"
    script.write_text(f"globalThis.self = globalThis;\n{engine}\n{run}", encoding="utf-8")
    command = [NODE, str(script), str(tmp_path / "content.json")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    found = json.loads(done.stdout)

    comparison = model.compare_with_calibration(rows)
    assert str(comparison.counts) in found["drift"]["message"]
    assert found["drift"]["differs"] == comparison.differs
    assert f"{comparison.n} distinct texts" in found["drift"]["message"]
    answers = AnswerRule(model, error=0.2).answer(rows)
    is_text = np.array([answer is not None for answer in found["answers"]])
    assert (~is_text).sum() == comparison.counts.n_empty
    of_page = [answer for answer in found["answers"] if answer is not None]
    assert [answer[2] for answer in of_page] == answers.abstained[is_text].tolist()
    assert [answer[4] == "" for answer in of_page] == answers.covered[is_text].tolist()
    sets = [np.flatnonzero(row).tolist() for row in answers.inside[is_text]]
    assert [answer[3] for answer in of_page] == sets
