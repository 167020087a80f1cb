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
from labelled_films import FILMS, right_label
from pacsent import load
from pacsent.certify import certify_stream, read_certificate
from pacsent.web import Labelling, agreement
from pacsent.web.label_journal import Journal


def opened(folder, random_state=5, **options):
    """Labelling of the films in this folder."""
    return Labelling(
        FILMS, ["up", "down"], folder, encoder=None, random_state=random_state, **options
    )


def label(labelling, n, who=""):
    """Give n right labels."""
    for _ in range(n):
        task = labelling.next(who)
        labelling.answer(task.row, right_label(task.text), who)


@pytest.mark.parametrize(
    ("n_draws", "n_allowed"),
    [(10, 2), pytest.param(25, 4, marks=pytest.mark.slow)],
)
def test_the_bound_is_false_no_more_often_than_it_may_be_in_labelling_that_may_stop_at_any_time(
    n_draws, n_allowed
):
    """At 5%, more are false with probability 1%. A thousand: benchmarks/labels.py --part stop."""
    stream = benchmark.STREAMS[0]
    is_false = [benchmark.stop_draw((stream, seed))[0] for seed in range(n_draws)]
    assert sum(is_false) <= n_allowed


def test_what_active_selection_leaves_over_is_no_evaluation_sample():
    runs = [benchmark.stop_draw((benchmark.STREAMS[1], seed)) for seed in range(4)]
    is_false, biases = zip(*runs)
    assert sum(is_false) >= 3
    assert np.mean(biases) < -0.02


def test_what_active_selection_chooses_is_no_evaluation_sample():
    """They are the difficult ones: nothing follows for other texts."""
    biases = [benchmark.stop_draw((benchmark.STREAMS[2], seed))[1] for seed in range(4)]
    assert min(biases) > 0.04


LOSSES = np.arange(500) % 10 == 3  # a tenth is wrong


@pytest.mark.parametrize(
    ("n", "n_training", "bound_of_sixteen_models"),
    [(50, 50, 0.309), (100, 100, 0.232), (200, 200, 0.186), (400, 200, 0.160)],
)
def test_the_bound_by_a_second_route(n, n_training, bound_of_sixteen_models):
    certificate = certify_stream(LOSSES[:n], n_training=n_training)

    n_errors = np.count_nonzero(LOSSES[:n])
    assert certificate.n == n
    assert certificate.n_errors == n_errors
    # one of eight models, each evaluated three times
    p_value = stats.binom.cdf(n_errors, n, certificate.error_upper)
    assert p_value == pytest.approx(0.05 / 24)
    # sixteen models that may be looked at after every label had larger bounds
    assert certificate.error_upper < bound_of_sixteen_models


def test_a_bound_is_stated_when_it_was_planned():
    assert certify_stream(LOSSES[:99], n_training=100) is None  # planned for 100
    assert certify_stream(LOSSES, n_training=30, evaluation_size=0.75).n == 2 * 90


def test_a_certificate_of_labelling_is_read_as_it_was_written():
    certificate = certify_stream(LOSSES[:400], n_training=200)
    assert read_certificate(certificate.to_json()) == certificate


def test_a_certificate_with_other_corrections_is_rejected():
    certificate = certify_stream(LOSSES[:400], n_training=200)
    changed = dataclasses.replace(certificate, corrections={"models": 8})
    with pytest.raises(ValueError, match="error_upper must be"):
        changed.verify()


def label_and_fit(folder, label_of_evaluation):
    """The rows chosen for training, and the probabilities of the model fitted on them."""
    training_rows = []
    with opened(folder) as labelling:
        for _ in range(62):
            task = labelling.next()
            if task.stream == "evaluate":
                labelling.answer(task.row, label_of_evaluation(task.text))
            else:
                training_rows.append(task.row)
                labelling.answer(task.row, right_label(task.text))
        labelling.wait()
        certified = labelling._models.certified
        assert certified.n_training == 25
        return training_rows, certified.model.predict_proba(FILMS).tolist()


def test_labels_of_evaluation_texts_change_neither_the_models_nor_what_is_chosen(tmp_path):
    """The theorem rests on it: the model is independent of all evaluation labels."""
    with_right_labels = label_and_fit(tmp_path / "right", right_label)
    with_equal_labels = label_and_fit(tmp_path / "equal", lambda text: "up")
    assert with_right_labels == with_equal_labels


def test_streams_are_apart_and_near_duplicates_are_offered_once(tmp_path):
    near_duplicates = [f"{text}!" for text in FILMS[:40]]
    texts = [*FILMS, *near_duplicates, "", "..."]

    with Labelling(texts, ["up", "down"], tmp_path, encoder=None) as labelling:
        evaluation, training = labelling.streams

    offered = [texts[row].strip("!") for row in (*evaluation, *training)]
    assert not set(evaluation) & set(training)
    assert len(evaluation) == pytest.approx(len(training), abs=1)
    assert len(set(offered)) == len(offered) <= len(FILMS)


def test_a_text_that_waits_for_its_label_is_not_passed_over(tmp_path):
    with opened(tmp_path, evaluation_size=0.9) as labelling:
        waiting = labelling.next("", "one tab")
        assert waiting.stream == "evaluate"
        for _ in range(60):
            task = labelling.next("", "another tab")
            assert task.row != waiting.row
            labelling.answer(task.row, right_label(task.text))
        assert labelling.evaluated_rows() == []

        labelling.answer(waiting.row, "up")

        assert labelling.evaluated_rows()[0] == waiting.row
        assert len(labelling.evaluated_rows()) > 40


def test_a_session_comes_back_as_it_was(tmp_path):
    with opened(tmp_path, goal=0.9) as labelling:
        label(labelling, 52)
        labelling.answer(labelling.next().row, None)
        labelling.undo()
        label(labelling, 1)
        labelling.wait()
        status = labelling.status()
        labels = labelling.labels()
    assert status["error_upper"] < 1
    assert status["n_training"] == 25

    with opened(tmp_path, random_state=None, goal=0.9) as labelling:
        labelling.wait()
        assert labelling.status() == status
        assert labelling.labels() == labels


def test_a_wrong_seed_is_refused_before_anything_is_written(tmp_path):
    for seed in (-1, 1.5, True, "x"):
        with pytest.raises(ValueError, match="random_state must be an integer of at least 0"):
            opened(tmp_path, random_state=seed)
    assert not list(tmp_path.iterdir())
    opened(tmp_path).close()


@pytest.fixture
def journal(tmp_path):
    """The file of a session with three answers."""
    with opened(tmp_path) as labelling:
        label(labelling, 3)
    return tmp_path / "journal.jsonl"


def test_an_unfinished_line_is_dropped(journal):
    content = journal.read_bytes()
    journal.write_bytes(content + b'{"row": 3, "lab')

    with opened(journal.parent) as labelling:
        assert len(labelling.labels()) == 3

    assert journal.read_bytes() == content


@pytest.mark.parametrize(
    "line",
    [
        b'{"row": 999999, "label": "up"}\n',
        b'{"row": 1}\n',
        b'{"undo": 3, "who": "x"}\n',
        b'{"row": "x"}\n',
    ],
)
def test_a_line_that_is_no_answer_is_rejected(journal, line):
    journal.write_bytes(journal.read_bytes() + line)
    with pytest.raises(ValueError, match=r"Line 5 of .* must be an answer to one of the texts"):
        opened(journal.parent)


def test_a_line_broken_in_two_is_rejected(journal):
    content = journal.read_bytes()
    journal.write_bytes(content[:-20] + b"\n" + content[-20:])
    with pytest.raises(ValueError, match=r"Line 4 of .* must be a JSON object"):
        opened(journal.parent)


def test_a_first_line_without_the_settings_is_rejected(journal):
    journal.write_bytes(b'{"pacsent_labels": 1}\n')
    with pytest.raises(ValueError, match="must be as in"):
        opened(journal.parent)


@pytest.mark.parametrize("seed", [None, 7])
@pytest.mark.parametrize("content", [b"", b"{", b'{"pacsent_labels": 1, "cla'])
def test_half_a_first_line_and_nothing_else_is_a_new_journal(tmp_path, content, seed):
    (tmp_path / "journal.jsonl").write_bytes(content)

    with opened(tmp_path, random_state=seed) as labelling:
        label(labelling, 3)
        drawn_seed = labelling.seed

    assert seed is None or drawn_seed == seed
    with opened(tmp_path, random_state=seed) as labelling:
        assert len(labelling.labels()) == 3
        assert labelling.seed == drawn_seed


def test_a_full_disk_loses_the_last_answer_alone(tmp_path, monkeypatch):
    path = tmp_path / "j.jsonl"

    def fail(file):
        raise OSError("full")

    with closing(Journal(path, {"seed": 1})) as journal:
        journal.append({"row": 1})
        content = path.read_bytes()
        monkeypatch.setattr(os, "fsync", fail)

        with pytest.raises(OSError, match="The last answer was not kept"):
            journal.append({"row": 2})

        assert path.read_bytes() == content


def test_a_second_process_is_rejected(tmp_path):
    with opened(tmp_path), pytest.raises(ValueError, match="one process at a time"):
        opened(tmp_path)


def test_other_texts_are_rejected(journal):
    with pytest.raises(ValueError, match="texts must be as in"):
        Labelling(FILMS[1:], ["up", "down"], journal.parent, encoder=None)


def test_other_classes_are_rejected(journal):
    with pytest.raises(ValueError, match="classes must be as in"):
        Labelling(FILMS, ["up", "down", "none"], journal.parent, encoder=None)


def test_one_class_is_too_few(tmp_path):
    with pytest.raises(ValueError, match="at least two different names"):
        Labelling(FILMS, ["up", "up"], tmp_path / "new", encoder=None)


def test_agreement_as_published():
    # Krippendorff (2011), "Computing Krippendorff's alpha-reliability", example C, nominal
    units = ("111", "2232", "3333", "3333", "2222", "1234", "4444", "1121", "2222", "555", "11")
    answers = {row: dict(enumerate(labels)) for row, labels in enumerate((*units, "3"))}
    assert agreement(answers)["value"] == pytest.approx(0.743, abs=5e-4)


def test_agreement_of_two_annotators_by_hand():
    pairs = zip("aabb", "aaba")
    answers = {row: {"ann": ann, "ben": ben} for row, (ann, ben) in enumerate(pairs)}
    assert agreement(answers)["value"] == pytest.approx(1 - 7 * 2 / 30)


def test_there_is_no_agreement_of_one_annotator():
    assert agreement({1: {"ann": "x"}}) is None


def test_agreement_has_no_value_where_chance_explains_everything():
    assert agreement({1: {"ann": "x", "ben": "x"}})["value"] is None


def test_annotators_undo_their_own_answers(tmp_path):
    with opened(tmp_path) as labelling:
        row_of_ann = labelling.next("ann").row
        labelling.answer(row_of_ann, "up", "ann")
        row_of_ben = labelling.next("ben", "x").row
        labelling.answer(row_of_ben, "down", "ben")

        assert labelling.undo("ann") == row_of_ann
        assert labelling.undo("ann") is None

        assert labelling.labels() == {row_of_ben: "down"}
        assert labelling.next("ann").row == row_of_ann


def test_annotators_share_a_tenth_of_the_texts(tmp_path):
    with opened(tmp_path) as labelling:
        label(labelling, 30, "ann")
        label(labelling, 30, "ben")
        shared = labelling.status()["agreement"]

    assert shared["measure"] == "Krippendorff's alpha"
    assert shared["value"] == 1.0
    assert 3 <= shared["texts"] <= 5


@pytest.fixture
def table(tmp_path):
    """The films as a table with numbers."""
    path = tmp_path / "films.csv"
    rows = [f'{i},"{text}"\n' for i, text in enumerate(FILMS)]
    path.write_text("id,text\n" + "".join(rows))
    return path


def start(table, *arguments, **options):
    """`pacsent label` as a process, with the key of its URL."""
    command = ["label", table, "--labels", "up,down", "--encoder", "none", "--random-state", "5"]
    server = Running(*command, "--port", "0", "--no-browser", *arguments, **options)
    server.key = server.urls[0].partition("?key=")[2]
    return server


def test_the_end_of_labelling_writes_the_table_the_model_and_the_certificate(table):
    folder = table.with_name("films-labels")
    with opened(folder) as labelling:
        label(labelling, 60)

    server = start(table, "--json", stdout=subprocess.PIPE)
    assert server.post("/next", {})["status"]["n_labels"] == 60
    server.end(signal.SIGINT)

    status = json.loads(server.process.stdout.read())
    assert status["n_labels"] == 60
    assert status["error_upper"] < 1
    header, *rows = (folder / "labels.csv").read_text().splitlines()
    assert header == "id,text,label,stream"
    assert len(rows) == len(FILMS)
    assert sum(row.endswith((",evaluate", ",train")) for row in rows) == 60
    certificate = read_certificate((folder / "certificate.json").read_text())
    assert certificate.error_upper == status["error_upper"]
    assert certificate.n_training == 25
    assert load(folder / "model").predict(["lovely sunrise"]).tolist() == ["up"]


@pytest.mark.slow
def test_keys_do_not_follow_from_the_seed(table):
    first, second = (start(table, "-o", table.with_name(name)) for name in ("first", "second"))
    for server in (first, second):
        server.end(signal.SIGKILL)

    assert first.key != second.key
    assert min(len(first.key), len(second.key)) >= 24


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["up"], "labels must be at least two"),
        (["a,b", "--error", "2"], "--error"),
        (["a,b", "--text-column", "no"], "must include no"),
    ],
)
def test_bad_input_is_one_line(table, options, message):
    done = invoke("label", table, "--encoder", "none", "--labels", *options)

    assert done.exit_code != 0
    assert message in done.stderr, done.output
    assert not table.with_name("films-labels").joinpath("labels.csv").exists()


@pytest.fixture
def labelling(tmp_path):
    with opened(tmp_path) as labelling:
        yield labelling


@pytest.fixture
def client(labelling):
    """A client with a key without a name; the other key is that of "ann"."""
    pytest.importorskip("fastapi")
    from fastapi.testclient import TestClient

    from pacsent.web.label_server import label_app

    app = label_app(labelling, {KEY: "", KEY_OF_ANN: "ann"})
    return TestClient(app, headers={"authorization": f"Bearer {KEY}"})


KEY_OF_ANN = "k" * 16


@pytest.fixture
def post(client):
    """A function that sends a request of a tab and returns the next row and the status."""

    def post(path, tab, **body):
        content = client.post(path, json={"tab": tab, **body}).json()
        return content["task"]["row"], content["status"]

    return post


def test_the_page_and_its_script_are_there(client):
    assert "Labelling" in client.get("/").text
    assert client.get("/page/label.js").status_code == 200


def test_tabs_have_different_texts(post):
    row, _ = post("/next", "a")
    assert post("/next", "a")[0] == row
    assert post("/next", "b")[0] != row


def test_a_closed_tab_does_not_freeze_the_certificate(client, post):
    row, _ = post("/next", "a")
    client.post("/leave", json={"tab": "a"})
    assert post("/next", "b")[0] == row


def test_the_page_answers_skips_and_undoes(post):
    row, _ = post("/next", "a")

    next_row, status = post("/answer", "a", row=row, label="up")
    assert next_row != row
    assert status["n_labels"] == 1

    _, status = post("/answer", "a", row=row, label=None)
    assert status["n_skipped"] == 1

    _, status = post("/undo", "a")
    assert status["n_labels"] == 1


def test_the_key_says_who_answers(client, labelling, post):
    row, _ = post("/next", "a")
    answer = {"row": row, "label": "up", "who": "ben"}
    headers = {"authorization": f"Bearer {KEY_OF_ANN}"}

    content = client.post("/answer", json=answer, headers=headers).json()

    assert content["who"] == "ann"
    assert labelling._answers.by_row[row] == {"ann": "up"}


def test_the_last_texts_are_shown_although_another_tab_had_them(tmp_path):
    texts = ["warm sea light", "cold rain room", "sweet tea pot", "dim fox trail"]
    with Labelling(texts, ["up", "down"], tmp_path, encoder=None) as labelling:
        waiting_row = labelling.next("", "closed tab").row
        rows = []
        while (task := labelling.next()) is not None:
            rows.append(task.row)
            labelling.answer(task.row, "up")

        assert sorted(rows) == [0, 1, 2, 3]
        assert rows[-1] == waiting_row
        assert labelling.evaluated_rows() == labelling.streams.evaluation


def test_accuracy_is_not_revealed_by_single_evaluation_labels(tmp_path):
    """Else an annotator would learn whether the hidden guess was right."""
    revealed = []
    with opened(tmp_path) as labelling:
        label(labelling, 55)
        labelling.wait()
        for _ in range(40):
            task = labelling.next()
            labelling.answer(task.row, right_label(task.text))
            if task.stream == "evaluate":
                status = labelling.status()
                revealed.append((status["accuracy"], status["n_evaluated"]))
    assert len(set(revealed)) <= 1 + len(revealed) // 10


@pytest.mark.parametrize("goal", [0.01, 0.6, None])
def test_progress_fills_towards_the_goal(tmp_path, goal):
    with opened(tmp_path, goal=goal) as labelling:
        assert labelling.status()["progress"] == 0
        label(labelling, 60)
        labelling.wait()
        status = labelling.status()

    fraction = (1 - status["error_upper"]) / (1 - (goal or 0))
    assert 0 < status["progress"] == pytest.approx(min(1, fraction))
    assert (status["progress"] == 1) == status["reached"]


def test_a_wrong_key_is_rejected(client):
    response = client.post("/next", json={}, headers={"authorization": "Bearer no"})
    assert response.status_code == 401


@pytest.mark.parametrize("body", [{"row": "x"}, {"row": 10**9}, {"row": 0, "label": "other"}])
def test_a_wrong_answer_is_rejected_with_a_message(client, labelling, body):
    response = client.post("/answer", json=body)

    assert response.status_code == 422
    assert response.json()["error"]["message"]
    assert labelling.labels() == {}


def test_a_long_body_is_rejected(client):
    assert client.post("/next", json={"tab": "x" * (1 << 17)}).status_code == 413


def test_no_other_file_is_served(client):
    assert client.get("/../../etc/passwd").status_code == 404


@pytest.mark.slow
def test_kill_9_loses_no_answer_that_was_acknowledged(table):
    for n_saved in (0, 7):
        server = start(table)
        content = server.post("/next", {})
        assert content["status"]["n_labels"] == n_saved
        for _ in range(7):
            row = content["task"]["row"]
            content = server.post("/answer", {"row": row, "label": "up"})
        server.end(signal.SIGKILL)


@pytest.mark.slow
def test_a_half_sent_header_does_not_keep_a_connection_of_the_page_open(table):
    server = start(table)
    address = urllib.parse.urlsplit(server.urls[0])
    with socket.create_connection((address.hostname, address.port), timeout=60) as connection:
        connection.sendall(b"GET / HTTP/1.1\r\nHo")
        assert connection.recv(1) == b""
    server.end(signal.SIGINT)
