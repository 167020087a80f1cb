"""Labelling: two streams, a journal that loses nothing, and an error that may be watched."""

import dataclasses
import json
import os
import signal
import socket
import subprocess
import sys
import urllib.parse
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

import labels as benchmark
from helpers import KEY, Running, invoke
from pacsent import load
from pacsent.certify import certify_stream, read_certificate
from pacsent.web import Labelling, agreement
from pacsent.web.label_journal import Journal

GOOD = ("lovely", "warm", "great", "sweet", "bright")
BAD = ("boring", "cold", "awful", "sour", "dim")
ENDINGS = ("rise", "pot", "bow", "side", "trail", "land", "room", "light")
NOUNS = [a + b for a in ("sun", "tea", "rain", "sea", "fox") for b in ENDINGS]
TEXTS = [
    f"{word} {NOUNS[(7 * i + j) % 40]} near the {NOUNS[(i + 11 * j) % 40]} {i}{j}"
    for i, pair in enumerate(zip(GOOD, BAD))
    for j in range(20)
    for word in pair
]


def right(text):
    return "up" if text.split()[0] in GOOD else "down"


def opened(folder, **more):
    return Labelling(TEXTS, ["up", "down"], folder, encoder=None, **{"random_state": 5, **more})


def label(labelling, n, who="", answer=right):
    for _ in range(n):
        task = labelling.next(who)
        labelling.answer(task.row, answer(task.text), who)


def test_the_bound_is_false_no_more_often_than_it_may_be_in_labelling_that_may_stop_at_any_time():
    """A thousand repeats are a benchmark: benchmarks/labels.py --part stop."""
    false = [benchmark.stop_draw((benchmark.STREAMS[0], seed))[0] for seed in range(25)]
    assert sum(false) <= 4  # of 25 at 5%: more with probability below 1%


def test_what_active_selection_leaves_over_and_what_it_chooses_are_no_judges():
    runs = [benchmark.stop_draw((benchmark.STREAMS[1], seed)) for seed in range(4)]
    assert sum(false for false, _ in runs) >= 3
    assert np.mean([bias for _, bias in runs]) < -0.02
    biases = [benchmark.stop_draw((benchmark.STREAMS[2], seed))[1] for seed in range(4)]
    assert min(biases) > 0.04  # they are the difficult ones: nothing follows for other texts


def test_the_bound_by_a_second_route():
    losses = np.arange(500) % 10 == 3  # a tenth is wrong
    bounds = []
    for n, n_training in ((50, 50), (100, 100), (200, 200), (400, 200)):
        made = certify_stream(losses[:n], n_training=n_training)
        assert (made.n, made.n_errors) == (n, np.count_nonzero(losses[:n]))
        # one of eight models, each judged three times
        assert stats.binom.cdf(made.n_errors, n, made.error_upper) == pytest.approx(0.05 / 24)
        bounds.append(made.error_upper)
    # sixteen models that may be looked at after every label had these
    assert (np.array(bounds) < [0.309, 0.232, 0.186, 0.160]).all()
    assert certify_stream(losses[:99], n_training=100) is None  # planned for 100
    assert certify_stream(losses, n_training=30, evaluation_size=0.75).n == 2 * 90
    assert read_certificate(made.to_json()) == made
    with pytest.raises(ValueError, match="error_upper must be"):
        dataclasses.replace(made, corrections={"models": 8}).verify()


def test_labels_of_judging_texts_change_neither_the_models_nor_what_is_chosen(tmp_path):
    """What the theorem rests on: the model is independent of all evaluation labels."""
    seen = {}
    for name in ("right", "other"):
        with opened(tmp_path / name) as labelling:
            taught = []
            for _ in range(62):
                task = labelling.next()
                is_judge = task.stream == "evaluate"
                taught += [] if is_judge else [task.row]
                is_other = is_judge and name == "other"
                labelling.answer(task.row, "up" if is_other else right(task.text))
            labelling.wait()
            seen[name] = taught, labelling._models.certified.model.predict_proba(TEXTS).tolist()
            assert labelling._models.certified.n_training == 25
    assert seen["right"] == seen["other"]


def test_streams_are_apart_and_near_duplicates_are_offered_once(tmp_path):
    texts = [*TEXTS, *(f"{text}!" for text in TEXTS[:40]), "", "..."]
    with Labelling(texts, ["up", "down"], tmp_path, encoder=None) as labelling:
        judging, teaching = labelling.streams
    assert not set(judging) & set(teaching)
    assert len(judging) == pytest.approx(len(teaching), abs=1)
    offered = [texts[row].strip("!") for row in (*judging, *teaching)]
    assert len(set(offered)) == len(offered) <= len(TEXTS)


def test_a_text_that_waits_for_its_label_is_not_passed_over(tmp_path):
    with opened(tmp_path, evaluation_size=0.9) as labelling:
        first = labelling.next("", "one tab")
        assert first.stream == "evaluate"
        for _ in range(60):
            task = labelling.next("", "another tab")
            assert task.row != first.row
            labelling.answer(task.row, right(task.text))
        assert labelling.evaluated_rows() == []
        labelling.answer(first.row, "up")
        assert labelling.evaluated_rows()[0] == first.row and len(labelling.evaluated_rows()) > 40


def test_a_session_comes_back_as_it_was(tmp_path):
    with opened(tmp_path, goal=0.9) as labelling:
        label(labelling, 52)
        labelling.answer(labelling.next().row, None)
        labelling.undo()
        label(labelling, 1)
        labelling.wait()
        before, rows = labelling.status(), labelling.labels()
        assert before["error_upper"] < 1 and before["n_training"] == 25
    with opened(tmp_path, random_state=None, goal=0.9) as labelling:
        labelling.wait()
        assert labelling.status() == before and labelling.labels() == rows


def test_a_wrong_seed_is_refused_before_anything_is_written(tmp_path):
    for seed in (-1, 1.5, True, "x"):
        with pytest.raises(ValueError, match="random_state must be an integer of at least 0"):
            opened(tmp_path, random_state=seed)
    assert not list(tmp_path.iterdir())
    opened(tmp_path).close()


def test_an_unfinished_line_is_dropped_and_a_damaged_one_is_refused(tmp_path):
    with opened(tmp_path) as labelling:
        label(labelling, 3)
    journal = tmp_path / "journal.jsonl"
    whole = journal.read_bytes()
    journal.write_bytes(whole + b'{"row": 3, "lab')
    with opened(tmp_path) as labelling:
        assert len(labelling.labels()) == 3
    assert journal.read_bytes() == whole
    answer = r"Line 5 of .* must be an answer to one of the texts"
    for content, message in (
        (whole[:-20] + b"\n" + whole[-20:], r"Line 4 of .* must be a JSON object"),
        (whole + b'{"row": 999999, "label": "up"}\n', answer),
        (whole + b'{"row": 1}\n', answer),
        (whole + b'{"undo": 3, "who": "x"}\n', answer),
        (whole + b'{"row": "x"}\n', answer),
        (b'{"pacsent_labels": 1}\n', "must be as in"),
    ):
        journal.write_bytes(content)
        with pytest.raises(ValueError, match=message):
            opened(tmp_path)


@pytest.mark.parametrize("seed", [None, 7])
@pytest.mark.parametrize("content", [b"", b"{", b'{"pacsent_labels": 1, "cla'])
def test_half_a_first_line_and_nothing_else_is_a_new_journal(tmp_path, content, seed):
    (tmp_path / "journal.jsonl").write_bytes(content)
    with opened(tmp_path, random_state=seed) as labelling:
        label(labelling, 3)
        drawn = labelling.seed
    with opened(tmp_path, random_state=seed) as labelling:
        assert len(labelling.labels()) == 3
        assert labelling.seed == drawn and drawn == (drawn if seed is None else seed)


def test_a_full_disk_loses_the_last_answer_alone(tmp_path, monkeypatch):
    with closing(Journal(tmp_path / "j.jsonl", {"seed": 1})) as journal:
        journal.append({"row": 1})
        written = (tmp_path / "j.jsonl").read_bytes()
        monkeypatch.setattr(os, "fsync", lambda file: (_ for _ in ()).throw(OSError("full")))
        with pytest.raises(OSError, match="The last answer was not kept"):
            journal.append({"row": 2})
        assert (tmp_path / "j.jsonl").read_bytes() == written


def test_other_texts_other_classes_and_a_second_process_are_refused(tmp_path):
    with opened(tmp_path), pytest.raises(ValueError, match="one process at a time"):
        opened(tmp_path)
    for texts, classes, folder, message in (
        (TEXTS[1:], ["up", "down"], tmp_path, "texts must be as in"),
        (TEXTS, ["up", "down", "none"], tmp_path, "classes must be as in"),
        (TEXTS, ["up", "up"], tmp_path / "new", "at least two different names"),
    ):
        with pytest.raises(ValueError, match=message):
            Labelling(texts, classes, folder, encoder=None)


def test_agreement_as_published():
    # Krippendorff (2011), "Computing Krippendorff's alpha-reliability", example C, nominal
    units = ("111", "2232", "3333", "3333", "2222", "1234", "4444", "1121", "2222", "555", "11")
    answers = {row: dict(enumerate(labels)) for row, labels in enumerate((*units, "3"))}
    assert agreement(answers)["value"] == pytest.approx(0.743, abs=5e-4)
    assert agreement({1: {"ann": "x"}}) is None
    assert agreement({1: {"ann": "x", "ben": "x"}})["value"] is None  # chance explains everything
    pairs = {row: {"ann": a, "ben": b} for row, (a, b) in enumerate(zip("aabb", "aaba"))}
    assert agreement(pairs)["value"] == pytest.approx(1 - 7 * 2 / 30)


def test_annotators_share_a_tenth_of_the_texts_and_undo_their_own_answers(tmp_path):
    with opened(tmp_path) as labelling:
        first = labelling.next("ann").row
        labelling.answer(first, "up", "ann")
        other = labelling.next("ben", "x").row
        labelling.answer(other, "down", "ben")
        assert labelling.undo("ann") == first and labelling.undo("ann") is None
        assert labelling.labels() == {other: "down"} and labelling.next("ann").row == first
        labelling.undo("ben")
        label(labelling, 30, "ann")
        label(labelling, 30, "ben")
        shared = labelling.status()["agreement"]
    assert shared["measure"] == "Krippendorff's alpha" and shared["value"] == 1.0
    assert 3 <= shared["texts"] <= 5


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "films.csv"
    path.write_text("id,text\n" + "".join(f'{i},"{text}"\n' for i, text in enumerate(TEXTS)))
    return path


def start(table, *more, **how):
    """`pacsent label` as a process, with the key of its URL."""
    options = ["--labels", "up,down", "--encoder", "none", "--random-state", "5", "--port", "0"]
    server = Running("label", table, *options, "--no-browser", *more, **how)
    server.key = server.urls[0].partition("?key=")[2]
    return server


def test_the_end_of_labelling_writes_the_table_the_model_and_the_certificate(table):
    folder = table.with_name("films-labels")
    with opened(folder) as labelling:
        label(labelling, 60)
    server = start(table, "--json", stdout=subprocess.PIPE)
    other = start(table, "-o", table.with_name("other"))
    other.end(signal.SIGKILL)
    # the keys do not follow from the seed
    assert server.key != other.key and min(len(server.key), len(other.key)) >= 24
    assert server.post("/next", {})["status"]["n_labels"] == 60
    server.end(signal.SIGINT)
    status = json.loads(server.process.stdout.read())
    assert status["n_labels"] == 60 and status["error_upper"] < 1
    rows = (folder / "labels.csv").read_text().splitlines()
    assert rows[0] == "id,text,label,stream" and len(rows) == len(TEXTS) + 1
    assert sum(row.endswith((",evaluate", ",train")) for row in rows) == 60
    certificate = read_certificate((folder / "certificate.json").read_text())
    assert certificate.error_upper == status["error_upper"] and certificate.n_training == 25
    assert load(folder / "model").predict(["lovely sunrise"]).tolist() == ["up"]


def test_bad_input_is_one_line(table):
    for options, message in (
        (["up"], "labels must be at least two"),
        (["a,b", "--goal", "2"], "--goal"),
        (["a,b", "--text-column", "no"], "must include no"),
    ):
        done = invoke("label", table, "--encoder", "none", "--labels", *options)
        assert done.exit_code != 0 and message in done.stderr, done.output
        assert not table.with_name("films-labels").joinpath("labels.csv").exists()


@pytest.fixture
def client(tmp_path):
    pytest.importorskip("fastapi")
    from fastapi.testclient import TestClient

    from pacsent.web.label_server import label_app

    with opened(tmp_path) as labelling:
        app = label_app(labelling, {KEY: "", "k" * 16: "ann"})
        made = TestClient(app, headers={"authorization": f"Bearer {KEY}"})
        made.labelling = labelling
        yield made


def test_the_page_answers_skips_and_undoes(client):
    def post(path, tab, **body):
        content = client.post(path, json={"tab": tab, **body}).json()
        return content["task"]["row"], content["status"]

    assert "Labelling" in client.get("/").text and client.get("/page/label.js").status_code == 200
    first, _ = post("/next", "a")
    assert post("/next", "a")[0] == first != post("/next", "b")[0]
    client.post("/leave", json={"tab": "a"})  # a closed tab does not freeze the certificate
    assert post("/next", "c")[0] == first
    row, status = post("/answer", "c", row=first, label="up")
    assert status["n_labels"] == 1 and row != first
    assert post("/answer", "c", row=first, label=None)[1]["n_skipped"] == 1
    assert post("/undo", "c")[1]["n_labels"] == 1
    # the key says who answers
    answer, ann = {"row": row, "label": "up", "who": "ben"}, f"Bearer {'k' * 16}"
    content = client.post("/answer", json=answer, headers={"authorization": ann}).json()
    assert content["who"] == "ann"
    assert client.labelling._answers.by_row[row] == {"ann": "up"}


def test_the_last_texts_are_shown_although_another_tab_had_them(tmp_path):
    texts = ["warm sea light", "cold rain room", "sweet tea pot", "dim fox trail"]
    with Labelling(texts, ["up", "down"], tmp_path, encoder=None) as labelling:
        waiting = labelling.next("", "closed tab").row
        rows = []
        while (task := labelling.next()) is not None:
            rows.append(task.row)
            labelling.answer(task.row, "up")
        assert sorted(rows) == [0, 1, 2, 3] and rows[-1] == waiting
        assert labelling.evaluated_rows() == labelling.streams.evaluation


def test_accuracy_is_not_revealed_by_single_judging_labels(tmp_path):
    """Else an annotator would learn whether the hidden guess was right."""
    with opened(tmp_path) as labelling:
        label(labelling, 55)
        labelling.wait()
        revealed = []
        for _ in range(40):
            task = labelling.next()
            labelling.answer(task.row, right(task.text))
            if task.stream == "evaluate":
                revealed.append((labelling.status()["accuracy"], labelling.status()["n_evaluated"]))
        assert len(set(revealed)) <= 1 + len(revealed) // 10


def test_progress_fills_towards_the_goal(tmp_path):
    for goal in (0.01, 0.6, None):
        with opened(tmp_path / str(goal), goal=goal) as labelling:
            assert labelling.status()["progress"] == 0
            label(labelling, 60)
            labelling.wait()
            status = labelling.status()
        way = (1 - status["error_upper"]) / (1 - (goal or 0))
        assert 0 < status["progress"] == pytest.approx(min(1, way))
        assert (status["progress"] == 1) == status["reached"]


def test_the_page_refuses_what_is_wrong(client):
    assert client.post("/next", json={}, headers={"authorization": "Bearer no"}).status_code == 401
    for body in ({"row": "x"}, {"row": 10**9}, {"row": 0, "label": "other"}):
        response = client.post("/answer", json=body)
        assert response.status_code == 422 and response.json()["error"]["message"]
    assert client.post("/next", json={"tab": "x" * (1 << 17)}).status_code == 413
    assert client.get("/../../etc/passwd").status_code == 404
    assert client.labelling.labels() == {}


@pytest.mark.slow
def test_kill_9_loses_no_answer_that_was_acknowledged(table):
    for n_known in (0, 7):
        server = start(table)
        content = server.post("/next", {})
        assert content["status"]["n_labels"] == n_known
        for _ in range(7):
            content = server.post("/answer", {"row": content["task"]["row"], "label": "up"})
        server.end(signal.SIGKILL)


@pytest.mark.slow
def test_a_half_sent_header_does_not_keep_a_connection_of_the_page_open(table):
    server = start(table)
    address = urllib.parse.urlsplit(server.urls[0])
    with socket.create_connection((address.hostname, address.port), timeout=60) as connection:
        connection.sendall(b"GET / HTTP/1.1\r\nHo")
        assert connection.recv(1) == b""
    server.end(signal.SIGINT)
