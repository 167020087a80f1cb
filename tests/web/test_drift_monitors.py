"""The server compares texts with those of calibration, for each client by itself."""

import json
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

pytest.importorskip("fastapi")

from helpers import KEY, wait_until
from pacsent.certify import DriftMonitor
from pacsent.web import ServedModel, drift, metrics, read_keys
from pacsent.web.drift import ClientMonitors
from serving import client_of, post

FILMS = [f"a good and lovely film with wine, take {i} of number{7 * i}" for i in range(40)]


def foreign_texts(number):
    """Sixty texts of another kind, none near another."""
    return [f"qa{60 * number + j}x zb{7 * j + number}y wc{number * j}z" for j in range(60)]


def observe(monitors, texts, client="me"):
    log_proba = monitors._first.classifier.predict_log_proba(texts)
    monitors.observe(client, texts, log_proba)


@pytest.fixture
def model(vectorizer, classifier):
    """A model whose clients have sent nothing yet."""
    return ServedModel("mine", vectorizer, classifier)


@pytest.fixture
def monitors(classifier):
    """The monitors of clients who have sent nothing yet."""
    return ClientMonitors(classifier)


def classify(client, texts, **headers):
    """What the answer states about its guarantee."""
    _, content = post(client, "/classify", {"texts": texts}, **headers)
    return content["guarantee"]


def send_foreign_texts(client, model, **headers):
    """The guarantee after texts of another kind were sent and compared."""
    for number in range(8):
        classify(client, foreign_texts(number), **headers)
    model.drift.flush()
    return classify(client, foreign_texts(8), **headers)


def test_an_alarm_withdraws_the_statement(model):
    guarantee = send_foreign_texts(client_of(model), model)

    assert guarantee["comparison"]["differs"] is True
    assert "Guarantees do not apply" in guarantee["comparison"]["message"]
    assert guarantee["statement"] is None


def test_alarms_are_counted(model):
    def n_alarms():
        lines = metrics.exposition()[0].decode().splitlines()
        values = [line.split()[-1] for line in lines if line.startswith("pacsent_alarms_total ")]
        return float(values[0]) if values else 0.0

    n_before = n_alarms()
    send_foreign_texts(client_of(model), model)
    assert n_alarms() == n_before + 1


@pytest.fixture
def client(model, tmp_path):
    """A client that has two keys."""
    (tmp_path / "keys").write_text(f"{KEY}\n{KEY[::-1]}")
    return client_of(model, keys=read_keys(tmp_path / "keys"))


FIRST = {"authorization": f"Bearer {KEY}"}
SECOND = {"authorization": f"Bearer {KEY[::-1]}"}


def test_a_client_withdraws_nobody_elses_guarantee(client, model):
    send_foreign_texts(client, model, **FIRST)

    assert classify(client, "a good film", **FIRST)["statement"] is None
    statement = classify(client, "a good film", **SECOND)["statement"]
    assert statement.startswith("With 95% confidence")


def test_a_client_can_reset_its_comparison(client, model):
    send_foreign_texts(client, model, **FIRST)

    status, content = post(client, "/drift/reset", {}, **FIRST)

    assert status == 200
    assert content["comparison"]["differs"] is None
    statement = classify(client, "a good film", **FIRST)["statement"]
    assert statement.startswith("With 95% confidence")


def test_workers_share_alarms_and_resets(classifier, tmp_path, monkeypatch):
    monkeypatch.setenv(metrics.FOLDER_VARIABLE, str(tmp_path))
    first, second = (ClientMonitors(classifier, n_workers=2) for _ in range(2))

    for number in range(12):
        observe(first, foreign_texts(number))
    first.flush()
    assert second.comparison("me")["differs"] is True
    assert second.comparison("you")["differs"] is None

    second.reset("me")
    assert first.comparison("me")["differs"] is None


def test_an_alarm_outlives_the_worker_that_raised_it_and_what_was_seen_does_not(
    classifier, tmp_path, monkeypatch
):
    monkeypatch.setenv(metrics.FOLDER_VARIABLE, str(tmp_path))
    killed = ClientMonitors(classifier)
    for number in range(12):
        observe(killed, foreign_texts(number), client="alarmed")
    observe(killed, FILMS, client="quiet")
    killed.flush()

    replacing = ClientMonitors(classifier)

    assert replacing.comparison("alarmed")["differs"] is True
    assert replacing.comparison("quiet")["counts"] is None
    assert "no row has been compared yet" in replacing.comparison("quiet")["message"]


@pytest.fixture
def seeded_monitors(classifier, monkeypatch):
    """Monitors of clients whose ties are those of seed 0."""

    def successor(monitor, alpha):
        return DriftMonitor(classifier, alpha=alpha, random_state=0)

    monkeypatch.setattr(DriftMonitor, "successor", successor)
    return ClientMonitors(classifier)


def observe_in_requests(monitors, texts):
    """Observe the texts in requests of 1, 3, 50, … texts."""
    sizes = [1, 3, 50, 2, 64, 7] * 20
    start = 0
    for size in sizes:
        if start < len(texts):
            observe(monitors, texts[start : start + size])
        start += size
    assert start >= len(texts)
    monitors.flush()


def test_rows_of_requests_are_compared_as_by_a_monitor_that_sees_them_at_once(
    classifier, seeded_monitors
):
    observe_in_requests(seeded_monitors, FILMS * 5)

    monitor = DriftMonitor(classifier, alpha=drift.alpha_of(1), random_state=0)
    monitor.update(FILMS * 5)
    comparison = seeded_monitors.comparison("me")
    assert comparison["differs"] is monitor.alarm is False
    assert comparison["message"] == str(monitor)
    assert comparison["counts"] == monitor.counts._asdict()


def test_the_alarm_is_at_the_row_where_a_monitor_that_sees_all_at_once_has_it(
    classifier, seeded_monitors
):
    texts = FILMS.copy()
    for number in range(6):
        texts += foreign_texts(number)

    observe_in_requests(seeded_monitors, texts)

    monitor = DriftMonitor(classifier, alpha=drift.alpha_of(1), random_state=0)
    monitor.update(texts)
    comparison = seeded_monitors.comparison("me")
    assert comparison["differs"] is monitor.alarm is True
    # what follows the batch of the alarm was not compared
    assert comparison["message"].partition(":")[0] == f"ALARM at row {monitor.alarm_at}"


def test_an_answer_states_how_many_rows_are_still_to_be_compared(model):
    comparison = classify(client_of(model), FILMS[:3])["comparison"]

    assert comparison["differs"] is None
    assert comparison["counts"] is None
    assert comparison["waiting"] == 3
    assert comparison["message"] == (
        "Not checked: no row has been compared yet. Still to be compared: 3 rows."
    )


def test_an_answer_states_what_was_compared_before(model):
    client = client_of(model)
    classify(client, FILMS[:3])
    model.drift.flush()

    comparison = classify(client, FILMS[:3])["comparison"]

    assert comparison["differs"] is False
    assert comparison["counts"]["n_rows"] == 3
    assert comparison["waiting"] == 3
    assert comparison["message"].startswith("No alarm in 3 rows")
    assert comparison["message"].endswith("Still to be compared: 3 rows.")


def test_rows_are_compared_beside_the_answers_once_there_are_enough(monitors):
    observe(monitors, FILMS[: drift.LEAST_AT_ONCE - 30])
    assert monitors.comparison("me")["waiting"] == drift.LEAST_AT_ONCE - 30

    observe(monitors, FILMS[:30])

    wait_until(lambda: monitors.comparison("me")["waiting"] == 0)
    assert monitors.comparison("me")["counts"]["n_rows"] == drift.LEAST_AT_ONCE
    monitors.close()


@pytest.fixture
def may_compare(monkeypatch):
    """Monitors compare nothing until this event is set."""
    may_compare = threading.Event()
    update = DriftMonitor.update

    def wait_and_update(*arguments, **options):
        assert may_compare.wait(10)
        return update(*arguments, **options)

    monkeypatch.setattr(DriftMonitor, "update", wait_and_update)
    yield may_compare
    may_compare.set()


def test_requests_wait_where_too_many_rows_are_to_be_compared_and_none_is_left_out(
    monitors, may_compare, monkeypatch
):
    monkeypatch.setattr(drift, "MAX_WAITING", 80)
    with ThreadPoolExecutor() as pool:
        observe(monitors, FILMS)
        observe(monitors, FILMS)
        third_request = pool.submit(observe, monitors, FILMS)
        time.sleep(0.2)
        assert not third_request.done()
        assert monitors.comparison("me")["waiting"] == 80

        may_compare.set()
        third_request.result(10)
    monitors.close()

    assert monitors.comparison("me")["counts"]["n_rows"] == 120


def test_what_was_being_compared_at_a_reset_is_forgotten(monitors, may_compare):
    observe(monitors, FILMS + FILMS)
    wait_until(lambda: monitors._clients["me"].n_comparing)

    monitors.reset("me")
    observe(monitors, FILMS[:5])
    may_compare.set()
    monitors.close()

    assert monitors.comparison("me")["counts"]["n_rows"] == 5


@pytest.fixture
def failed_monitors(monitors, monkeypatch, log_lines):
    """Monitors whose first comparison has failed."""
    with monkeypatch.context() as patch:
        patch.setattr(DriftMonitor, "update", lambda *arguments, **options: 1 / 0)
        observe(monitors, FILMS)
        monitors.flush()
    return monitors


def test_a_comparison_that_fails_is_stated(failed_monitors, log_lines):
    assert "comparing the last rows failed" in failed_monitors.comparison("me")["message"]
    assert log_lines[0]["exception"] == "ZeroDivisionError"


def test_others_follow_a_comparison_that_fails(failed_monitors):
    observe(failed_monitors, FILMS[:2])
    failed_monitors.flush()
    assert failed_monitors.comparison("me")["counts"]["n_rows"] == 2


def test_a_server_that_stops_compares_the_rows_that_wait(model):
    with client_of(model) as client:
        classify(client, FILMS[:3])

    comparison = model.drift.comparison("")
    assert comparison["counts"]["n_rows"] == 3
    assert comparison["waiting"] == 0


def test_an_alarm_is_a_line_of_the_log_without_texts(monitors, log_lines):
    for number in range(12):
        observe(monitors, foreign_texts(number))
    monitors.flush()

    (line,) = log_lines
    assert line["event"] == "drift"
    assert line["level"] == "warning"
    assert "ALARM" in line["comparison"]
    assert "qa" not in json.dumps(line)


def test_texts_without_words_are_counted_by_the_monitor(model):
    body = {"texts": [""] * drift.LEAST_AT_ONCE}

    status, _ = post(client_of(model), "/classify", body)
    model.drift.flush()

    assert status == 200
    assert model.drift.comparison("")["counts"]["n_empty"] == drift.LEAST_AT_ONCE


def test_the_monitors_of_a_client_have_one_level_together():
    levels = [drift.alpha_of(number, n_workers=4) for number in range(1, 200_000)]

    assert 4 * sum(levels) == pytest.approx(drift.ALPHA, rel=1e-5)
    assert levels[0] > levels[1] > 0


def test_another_monitor_follows_after_so_many_texts(monitors, monkeypatch):
    monkeypatch.setattr(drift, "MAX_MONITORED", 1)

    for text in ("a good film", "a bad film", "a lovely film", "a boring film"):
        observe(monitors, [text])
        monitors.flush()

    assert monitors._clients["me"].n_monitors == 2


@pytest.fixture
def few_monitors(classifier, monkeypatch):
    """Monitors of which two are kept in memory; "alarmed" was the first client."""
    monkeypatch.setattr(drift, "_MAX_CLIENTS", 2)
    monitors = ClientMonitors(classifier)
    for number in range(12):
        observe(monitors, foreign_texts(number), client="alarmed")
    monitors.flush()
    return monitors


def test_the_client_that_was_idle_longest_is_forgotten(few_monitors):
    for client in ("first", "second", "third"):
        few_monitors.comparison(client)

    assert "first" not in few_monitors._clients
    assert "third" in few_monitors._clients


def test_an_alarm_is_not_forgotten_however_many_clients_follow(few_monitors):
    for number in range(5):
        few_monitors.comparison(f"other{number}")

    assert "alarmed" in few_monitors._clients
    assert few_monitors.comparison("alarmed")["differs"] is True


def test_rows_that_wait_are_not_forgotten(few_monitors):
    observe(few_monitors, FILMS[:5], client="waiting")

    for number in range(5):
        few_monitors.comparison(f"other{number}")

    assert few_monitors.comparison("waiting")["waiting"] == 5
