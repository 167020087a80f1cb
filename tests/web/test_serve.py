"""The server: what clients send and get, what is rejected, and how it starts, reloads and ends."""

import base64
import dataclasses
import hmac
import json
import logging
import os
import re
import signal
import socket
import threading
import time
import urllib.error
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("fastapi")

import uvicorn
from fastapi.testclient import TestClient

from helpers import KEY, all_commands, invoke, serve
from pacsent import CertifiedClassifier, Index, TextClassifier, make_encoder, save
from pacsent.certify import DriftMonitor
from pacsent.paper import certify_words
from pacsent.predict.abstaining import AnswerRule
from pacsent.web import ServedModel, ServerSettings, create_app, drift, metrics, read_keys
from pacsent.web import server as server_module
from pacsent.web.drift import ClientMonitors
from pacsent.web.logs import LOGGER, JsonFormatter

ROOT = Path(__file__).parents[2]
TEXTS = ["a glass of wine", "the cat slept", "shares fell again", "zzqx", ""]


@pytest.fixture(scope="module")
def vectorizer():
    return make_encoder("SIF-sum", "english", on_empty="ignore").fit([])


@pytest.fixture(scope="module")
def classifier():
    texts = [
        f"a {kind} film number {i} {'wine' if i % 3 else 'cat'} x{kind[:3]}{i} y{kind[:3]}{i}"
        for i in range(150)
        for kind in ("good and lovely", "bad and boring")
    ]  # none is near another
    return CertifiedClassifier(
        TextClassifier(None, ngrams=(1, 1)), calibration_size=0.4, random_state=0
    ).fit(texts, ["yes", "no"] * 150)


@pytest.fixture(scope="module")
def model(vectorizer, classifier):
    index = Index(vectorizer)
    index.add(TEXTS[:3])
    words = [f"a film {i} of wine and cats" for i in range(200)]
    certificate = certify_words(make_encoder("Average", "english").fit([]), words)
    return ServedModel("english", vectorizer, classifier, index, [certificate])


def client_of(models, **settings):
    return TestClient(create_app(models, ServerSettings(**settings)))


def post(client, path, body, **headers):
    response = client.post(path, json=body, headers=headers)
    return response.status_code, response.json()


@pytest.fixture(scope="module")
def client(model):
    return client_of(model)


def unit(vectorizer, texts):
    means = vectorizer.transform(texts)
    return means / np.maximum(np.linalg.norm(means, axis=1, keepdims=True), 1e-30)


def test_embeddings_are_those_of_the_library_at_length_one(client, vectorizer):
    status, content = post(client, "/v1/embeddings", {"input": TEXTS, "model": "english"})
    vectors = np.array([item["embedding"] for item in content["data"]], np.float32)
    assert status == 200
    assert np.allclose(vectors, unit(vectorizer, TEXTS), atol=1e-7)
    assert [item["index"] for item in content["data"]] == [0, 1, 2, 3, 4]
    assert content["usage"] == {"prompt_tokens": 11, "total_tokens": 11}
    assert content["zero_vectors"] == [i for i, v in enumerate(vectors) if not v.any()]
    content = post(client, "/v1/embeddings", {"input": ["wine", "\N{GRINNING FACE}", ""]})[1]
    assert content["zero_vectors"] == [1, 2]


def test_base64_contains_the_same_numbers_and_dimensions_the_first_ones(client):
    body = {"input": TEXTS[:2]}
    full = post(client, "/v1/embeddings", body)[1]["data"][1]["embedding"]
    coded = post(client, "/v1/embeddings", {**body, "encoding_format": "base64"})[1]["data"][1]
    decoded = np.frombuffer(base64.b64decode(coded["embedding"]), "<f4")
    assert decoded.tolist() == np.array(full, np.float32).tolist()
    short = post(client, "/v1/embeddings", {**body, "dimensions": 7})[1]["data"][1]["embedding"]
    assert np.allclose(short, np.array(full[:7]) / np.linalg.norm(full[:7]), atol=1e-6)


def test_embed_reports_what_the_model_does_not_know(client, vectorizer):
    text = "a glass of zzqx wine"
    status, content = post(client, "/embed", {"texts": [text, "", "zzqx"]})
    first, empty, unknown = content["results"]
    assert status == 200
    assert np.allclose(first["mean"], vectorizer.transform([text])[0], atol=1e-7)
    assert (first["coverage"], first["unknown"], first["tokens"]) == (0.8, ["zzqx"], 5)
    assert (empty["coverage"], empty["variance"]) == (None, None) and not any(empty["mean"])
    assert empty["note"] == "The text is empty. Its vector is all zeros."
    assert unknown["note"] == "No word of the text is known. Its vector is all zeros."
    assert "note" not in first


def test_words_are_weighted_by_how_far_the_vector_turns_without_them(client, vectorizer):
    body = {"texts": ["the wine zzqx", "wine 你好 Привет"], "words": True, "mean": False}
    first, second = post(client, "/embed", body)[1]["results"]
    a, b = unit(vectorizer, ["the wine", "the"])
    words = first["words"]
    assert [w["known"] for w in words] == [True, True, False] and "mean" not in first
    assert words[1]["weight"] == pytest.approx(1 - a @ b, abs=1e-5)
    assert words[1]["weight"] > words[0]["weight"] and words[2]["weight"] == 0
    known = {w["word"]: w["known"] for w in second["words"]}
    assert known["wine"] and not known["你好"] and not known["Привет"]
    assert set(second["unknown"]) == set(known) - {"wine"}


def test_similarity_of_pairs_and_of_all(client):
    _, pairs = post(client, "/similarity", {"a": ["good wine", "cat"], "b": ["fine wine", "stock"]})
    assert pairs["cosines"][0] > 0.5 > pairs["cosines"][1]
    _, matrix = post(client, "/similarity", {"a": ["good wine", "fine wine"]})
    assert matrix["matrix"][0][1] == pytest.approx(pairs["cosines"][0], abs=1e-5)


def test_classes_come_with_set_abstention_and_words(client, classifier):
    texts = ["a good and lovely film", "unrelated", " \n"]
    status, content = post(client, "/classify", {"texts": texts, "explain": True})
    first, _, blank = content["results"]
    assert status == 200 and first["label"] == "yes" and "note" not in first
    assert first["probability"] == pytest.approx(classifier.predict_proba(texts[:1]).max())
    assert first["set"] == classifier.predict_set(texts[:1])[0]
    assert max(first["explanation"]["words"], key=lambda w: w[1])[0] in ("good", "lovely")
    assert blank["label"] is None and blank["set"] is None and "empty" in blank["note"]


@pytest.mark.parametrize("error", [None, 0.05, 0.3])
def test_a_request_and_the_server_may_choose_the_error(model, classifier, error):
    client, texts = client_of(model, error=0.2), ["a good and lovely film", "unrelated"]
    _, content = post(client, "/classify", {"texts": texts, "error": error})
    expected = error or 0.2
    answers = classifier.abstain(error=expected, delta=0.05).predict(texts)
    assert content["guarantee"]["error"] == content["guarantee"]["set_error"] == expected
    assert [r["abstained"] for r in content["results"]] == [a is None for a in answers]


def test_an_error_that_cannot_be_guaranteed_is_explained(client):
    _, content = post(client, "/classify", {"texts": "a good film", "error": 0.001})
    assert content["results"][0]["abstained"] is True
    assert re.search(r"0\.1 ?%|0\.001", content["guarantee"]["no_answers"])
    plain = TextClassifier(None).fit(["good film", "bad film"] * 10, ["yes", "no"] * 10)
    client = client_of(ServedModel("plain", classifier=plain))
    status, content = post(client, "/classify", {"texts": ["good"], "error": 0.1})
    assert status == 422 and "without a calibration set" in content["error"]["message"]
    assert post(client, "/classify", {"texts": ["good"]})[0] == 200


def test_search_and_certificates(client, vectorizer, classifier):
    status, content = post(client, "/search", {"query": "a sleeping kitten", "k": 1})
    assert status == 200 and content["results"][0][0]["text"] == "the cat slept"
    assert client.get("/v1/models/english").json()["pacsent"]["texts"] == 3
    certificates = client.get("/certificates").json()["certificates"]
    assert [c["about"] for c in certificates] == ["encoder", "classifier"]
    assert "Average" in certificates[0]["subject"] and "no, yes" in certificates[1]["subject"]
    assert all("confidence" in c["in_words"] for c in certificates)
    forged = dataclasses.replace(classifier.certificate_, error_upper=1e-6)
    with pytest.raises(ValueError, match="computed from its parts"):
        ServedModel("english", vectorizer, certificates=[forged])


def test_serving_does_not_change_the_models(classifier):
    vectorizer = make_encoder("SIF-sum", "english")
    before = vectorizer.get_params(), classifier.get_params()
    ServedModel("english", vectorizer, classifier).warm_up()
    assert (vectorizer.get_params(), classifier.get_params()) == before
    assert not hasattr(vectorizer, "n_sentences_")


def test_openapi_lists_every_endpoint_and_docs_show_it(client):
    schema = client.get("/openapi.json").json()
    paths = {"/v1/embeddings", "/v1/models", "/v1/rerank", "/embed", "/similarity", "/classify"}
    assert paths | {"/search", "/certificates", "/metrics", "/drift/reset"} <= set(schema["paths"])
    content = schema["paths"]["/classify"]["post"]["requestBody"]["content"]
    fields = content["application/json"]["schema"]["properties"]
    assert set(fields) == {"texts", "explain", "error", "model"} and fields["texts"]["anyOf"]
    page = client.get("/docs")
    assert "docs.js" in page.text and "//" not in page.text
    assert "default-src 'none'" in page.headers["content-security-policy"]


def test_a_wrong_request_is_answered_with_what_is_wrong_in_json(model):
    client = client_of(model, max_texts=8, max_tokens=50, max_body=1000)
    for body, status, message in (
        (b"{", 400, "must be JSON"),
        (b'{"input": "\xff"}', 400, "must be JSON"),
        (b"[1]", 422, "The body: Input should be an object"),
        (b'{"input": "\\ud800"}', 400, "must be JSON"),
        ({}, 422, "input: Field required"),
        ({"input": None}, 422, "input: Input should be a valid array. Got null."),
        ({"input": "x", "user": 3}, 422, "user: Input should be a valid string. Got 3."),
        ({"input": "x", "top": 1}, 422, "top is not a field of this request."),
        ({"input": []}, 422, "at least 1 item"),
        ({"input": ["x", 3]}, 422, "input[1]: Input should be a valid string"),
        ({"input": [[1, 2]]}, 422, "Token numbers are not accepted"),
        ({"input": "x", "encoding_format": "int8"}, 422, "'float' or 'base64'"),
        ({"input": "x", "dimensions": 257}, 422, "from 1 to 256"),
        ({"input": "x", "dimensions": True}, 422, "dimensions: Input should be a valid integer"),
        ({"input": "x", "model": "gpt"}, 404, "model must be one of 'english'"),
        ({"input": ["x"] * 9}, 422, "at most 8 texts"),
        ({"input": "wine " * 60}, 422, "at most 50 words"),
        ({"input": "x" * 2000}, 413, "at most 1,000 bytes"),
    ):
        content = body if isinstance(body, bytes) else json.dumps(body)
        headers = {"content-type": "application/json"}
        response = client.post("/v1/embeddings", content=content, headers=headers)
        error = response.json()["error"]
        assert (response.status_code, error["code"]) == (status, status)
        assert message in error["message"] and response.json()["request_id"]


def test_bodies_that_browsers_send_to_other_sites_without_asking_are_rejected(client):
    def answer(kind):
        body = json.dumps({"texts": "a good film"})
        return client.post("/classify", content=body, headers={"content-type": kind})

    form = "application/x-www-form-urlencoded"
    for kind in ("text/plain", form, "text/plain; x=application/json", ""):
        response = answer(kind)
        assert response.status_code == 415
        assert "application/json" in response.json()["error"]["message"]
    assert answer("Application/JSON; charset=utf-8").status_code == 200


def test_every_endpoint_limits_the_words_of_a_request(model, classifier):
    texts = ["wine " * 6, "cat " * 6]
    plain = ServedModel("plain", classifier=classifier)  # without a vectorizer and an index
    for served, path, body in (
        (model, "/embed", {"texts": texts}),
        (model, "/classify", {"texts": texts}),
        (model, "/search", {"query": texts}),
        (model, "/v1/rerank", {"query": "", "documents": texts}),
        (plain, "/classify", {"texts": texts}),
    ):
        status, content = post(client_of(served, max_tokens=10), path, body)
        message = content["error"]["message"]
        assert status == 422 and "at most 10 words in all" in message and "Got 12" in message
    for path in ("/embed", "/search"):
        assert post(client_of(plain), path, {"texts": "x"})[0] == 404


def test_long_texts_are_classified_but_not_explained(model):
    client = client_of(model, max_explained_tokens=20, max_explained=2)
    _, content = post(client, "/classify", {"texts": ["good film " * 11], "explain": True})
    result = content["results"][0]
    assert result["label"] == "yes" and result["explanation"] is None
    assert "up to 20 words are explained. This one has 22" in result["note"]
    _, content = post(client, "/embed", {"texts": "good film " * 11, "words": True, "mean": False})
    assert content["results"][0]["words"] is None
    status, content = post(client, "/classify", {"texts": ["a"] * 3, "explain": True})
    assert status == 422 and "at most 2 texts" in content["error"]["message"]


def test_work_stops_at_the_timeout(model, monkeypatch):
    calls = []

    def slow(texts):
        calls.append(len(texts))
        time.sleep(0.1)
        return np.log(np.full((len(texts), 2), 0.5))

    monkeypatch.setattr(model.classifier, "predict_log_proba", slow)
    monkeypatch.setattr(model, "posteriors", slow)
    with client_of(model, timeout=0.35, max_texts=10_000) as client:
        status, content = post(client, "/classify", {"texts": ["a film"] * 2000})
        assert status == 504 and "0.35 seconds" in content["error"]["message"]
        assert post(client, "/similarity", {"a": ["x"] * 4000, "b": ["x"] * 4000})[0] == 504
        time.sleep(0.5)
    assert len(calls) <= 12  # of 32 and 16 chunks


def test_a_long_request_does_not_delay_short_ones(vectorizer):
    model = ServedModel("english", vectorizer)
    posteriors, started, go = model.posteriors, threading.Event(), threading.Event()

    def slow(texts):
        if len(texts) > 100:
            started.set()
            assert go.wait(10)
        return posteriors(texts)

    model.posteriors = slow
    with client_of(model) as client, ThreadPoolExecutor() as pool:
        answer = pool.submit(post, client, "/v1/embeddings", {"input": ["wine"] * 500})
        assert started.wait(10)
        assert post(client, "/v1/embeddings", {"input": "cat"})[0] == 200 and not answer.done()
        go.set()
        assert answer.result()[0] == 200


def test_requests_that_come_while_one_is_classified_are_classified_in_one_pass(model, monkeypatch):
    served = ServedModel("mine", classifier=model.classifier)
    rule = served.answer_rule(None, None)
    passes, go = [], threading.Event()
    answer_each = AnswerRule.answer_each

    def slow(rule, groups):
        passes.append(len(groups))
        assert go.wait(10)
        return answer_each(rule, groups)

    monkeypatch.setattr(AnswerRule, "answer_each", slow)
    together = served._together(rule)
    with client_of(served) as client, ThreadPoolExecutor(16) as pool:
        body = {"texts": ["a good film", "a bad film"]}
        answers = [pool.submit(post, client, "/classify", body) for _ in range(16)]
        wait_until(lambda: len(together._waiting) == 15)
        go.set()
        assert {answer.result()[0] for answer in answers} == {200}

    assert passes == [1, 15]


def test_unknown_addresses_and_methods_are_rejected_in_json(client):
    for method, path, status in (
        ("GET", "/nothing", 404),
        ("DELETE", "/embed", 405),
        ("GET", "/page/%2e%2e/server.py", 404),
        ("GET", "/v1/models/x", 404),
    ):
        response = client.request(method, path)
        assert response.headers["content-type"] == "application/json"
        assert response.status_code == response.json()["error"]["code"] == status


@pytest.fixture
def log_lines(monkeypatch):
    """The lines that the server writes, as dictionaries."""
    lines = []

    class Handler(logging.Handler):
        def emit(self, record):
            lines.append(json.loads(self.format(record)))

    handler = Handler()
    handler.setFormatter(JsonFormatter())
    monkeypatch.setattr(LOGGER, "handlers", [handler])
    monkeypatch.setattr(LOGGER, "level", logging.INFO)
    LOGGER.manager._clear_cache()
    yield lines
    LOGGER.manager._clear_cache()


def test_a_defect_of_the_server_is_no_traceback(model, monkeypatch, log_lines):
    monkeypatch.setattr(model, "posteriors", lambda texts: 1 / 0)
    status, content = post(client_of(model), "/v1/embeddings", {"input": "secret words"})
    assert status == 500 and "request_id" in content["error"]["message"]
    assert "ZeroDivision" not in json.dumps(content) and "secret" not in json.dumps(log_lines)
    line = log_lines[0]
    assert line["exception"] == "ZeroDivisionError" and "test_serve" in line["place"]


def test_the_log_has_a_line_per_request_and_never_the_text(client, log_lines):
    body, requests = {"texts": ["hush secret wine"]}, []
    for number in ("mine-1", '"}{ bad'):
        response = client.post("/embed", json=body, headers={"x-request-id": number})
        requests.append(response.headers["x-request-id"])
    for path in ("/secret-path", "/", "/v1/models/english", "/openapi.json"):
        client.get(path)
    assert [(x["path"], x["status"], x["texts"]) for x in log_lines[1:]] == [
        ("/embed", 200, 1),
        ("other", 404, 0),
        ("/", 200, 0),
        ("/v1/models/{name}", 200, 0),
        ("other", 200, 0),
    ]
    assert [line["request_id"] for line in log_lines[:2]] == requests
    assert requests[0] == "mine-1" and "bad" not in requests[1] and len(requests[1]) > 8
    assert "secret" not in json.dumps(log_lines)


def test_keys_are_required_except_for_health_and_pages(model, tmp_path):
    file = tmp_path / "keys"
    for text in ("", "# none\n", "short\n", "with a space inside it\n"):
        file.write_text(text)
        with pytest.raises(ValueError, match="API key"):
            read_keys(file)
    file.write_text(f"# of the tests\n{KEY}\n")
    client = client_of(model, keys=read_keys(file))
    body = {"input": "x"}
    assert post(client, "/v1/embeddings", body, authorization=f"Bearer {KEY}")[0] == 200
    for headers in ({}, {"authorization": f"Bearer {KEY[:-1]}"}, {"authorization": f"Basic {KEY}"}):
        response = client.post("/v1/embeddings", json=body, headers=headers)
        assert response.status_code == 401 and response.headers["www-authenticate"] == "Bearer"
        assert "Bearer KEY" in response.json()["error"]["message"]
    for path, status in (("/v1/models", 401), ("/metrics", 401), ("/health", 200), ("/", 200)):
        assert client.get(path).status_code == status


def test_every_key_is_compared_in_constant_time(monkeypatch, tmp_path):
    keys = [f"key-number-{i}-of-three" for i in range(3)]
    (tmp_path / "keys").write_text("\n".join(keys))
    settings = ServerSettings(keys=read_keys(tmp_path / "keys"))
    compared, real = [], hmac.compare_digest
    monkeypatch.setattr(hmac, "compare_digest", lambda a, b: compared.append(b) or real(a, b))
    assert settings.accepts_key(f"Bearer {keys[0]}".encode())
    assert sorted(compared) == sorted(settings.keys)  # the first one ends nothing


def test_too_many_requests_at_once_are_asked_to_come_back(vectorizer):
    model, go, active = ServedModel("english", vectorizer), threading.Event(), []
    model.posteriors = lambda texts: active.append(texts) or go.wait(10)
    body = {"input": ["wine"] * 2}
    with client_of(model, max_concurrent=2) as client, ThreadPoolExecutor() as pool:
        for _ in range(2):
            pool.submit(post, client, "/v1/embeddings", body)
        while len(active) < 2:
            time.sleep(0.01)
        response = client.post("/v1/embeddings", json=body)
        go.set()
    assert response.status_code == 429 and response.headers["retry-after"] == "1"
    assert "at most 2 requests" in response.json()["error"]["message"]


def test_web_pages_of_others_are_let_in_only_where_configured(model):
    def allowed(client, origin):
        response = client.post("/embed", json={"texts": "x"}, headers={"origin": origin})
        return response.headers.get("access-control-allow-origin")

    origin = "https://example.org"
    client = client_of(model, origins=(origin,))
    assert allowed(client_of(model), origin) is None
    assert allowed(client, origin) == origin and allowed(client, "https://evil.example") is None
    asks = {"method": "POST", "headers": "content-type"}
    preflight = {f"access-control-request-{name}": value for name, value in asks.items()}
    response = client.options("/embed", headers={"origin": origin, **preflight})
    assert response.status_code == 200
    assert "POST" in response.headers["access-control-allow-methods"]


def counted(name):
    text = metrics.exposition()[0].decode()
    lines = [line.rpartition(" ") for line in text.splitlines() if not line.startswith("#")]
    return {key: float(value) for key, _, value in lines}.get(f"pacsent_{name}", 0.0)


def test_requests_texts_and_words_are_counted(client):
    names = [f'requests_total{{code="{code}",path="/embed"}}' for code in (200, 422)]
    names += ["texts_total", "known_words_total", "unknown_words_total", "empty_texts_total"]
    names += ['request_seconds_count{path="/embed"}']
    before = [counted(name) for name in names]
    for texts in (["good zzqx wine", ""], "the cat", 3):
        post(client, "/embed", {"texts": texts})
    assert [counted(n) - b for n, b in zip(names, before)] == [2, 1, 3, 4, 1, 1, 3]


def foreign_texts(number):
    """Texts of another kind, none near another."""
    return [f"qa{60 * number + j}x zb{7 * j + number}y wc{number * j}z" for j in range(60)]


def send_foreign(client, model, **headers):
    """The guarantee after texts of another kind were sent and compared."""
    for number in range(8):
        post(client, "/classify", {"texts": foreign_texts(number)}, **headers)
    model.drift.flush()
    return post(client, "/classify", {"texts": foreign_texts(8)}, **headers)[1]["guarantee"]


def test_alarms_are_counted_and_withdraw_the_statement(vectorizer, classifier):
    model = ServedModel("mine", vectorizer, classifier)
    before = counted("alarms_total")
    guarantee = send_foreign(client_of(model), model)
    assert counted("alarms_total") == before + 1
    assert guarantee["comparison"]["differs"] is True
    assert "Guarantees do not apply" in guarantee["comparison"]["message"]
    assert guarantee["statement"] is None


def test_a_client_withdraws_nobody_elses_guarantee_and_can_reset_its_own(
    vectorizer, classifier, tmp_path
):
    keys = [KEY, KEY[::-1]]
    (tmp_path / "keys").write_text("\n".join(keys))
    model = ServedModel("mine", vectorizer, classifier)
    client = client_of(model, keys=read_keys(tmp_path / "keys"))
    first, second = ({"authorization": f"Bearer {key}"} for key in keys)
    send_foreign(client, model, **first)

    def statement(headers):
        return post(client, "/classify", {"texts": "a good film"}, **headers)[1]["guarantee"]

    assert statement(first)["statement"] is None
    assert statement(second)["statement"].startswith("With 95% confidence")
    status, content = post(client, "/drift/reset", {}, **first)
    assert status == 200 and content["comparison"]["differs"] is None
    assert statement(first)["statement"].startswith("With 95% confidence")


def test_workers_share_alarms_and_resets(classifier, tmp_path, monkeypatch):
    monkeypatch.setenv(metrics.FOLDER_VARIABLE, str(tmp_path))
    workers = [ClientMonitors(classifier, n_workers=2) for _ in range(2)]
    for number in range(12):
        texts = foreign_texts(number)
        workers[0].observe("me", texts, classifier.predict_log_proba(texts))
    workers[0].flush()
    assert workers[1].comparison("me")["differs"] is True
    assert workers[1].comparison("you")["differs"] is None
    workers[1].reset("me")
    assert workers[0].comparison("me")["differs"] is None


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


FILMS = [f"a good and lovely film with wine, take {i} of number{7 * i}" for i in range(40)]


def observe(monitors, texts, client="me"):
    monitors.observe(client, texts, monitors._first.classifier.predict_log_proba(texts))


def wait_until(condition):
    for _ in range(1000):
        if condition():
            return
        time.sleep(0.01)
    raise AssertionError("not within ten seconds")


@pytest.fixture
def seeded(classifier, monkeypatch):
    """Monitors of clients whose ties are those of seed 0."""

    def successor(monitor, alpha):
        return DriftMonitor(classifier, alpha=alpha, random_state=0)

    monkeypatch.setattr(DriftMonitor, "successor", successor)
    return ClientMonitors(classifier)


@pytest.mark.parametrize("texts", [FILMS * 5, sum(map(foreign_texts, range(6)), FILMS)])
def test_rows_of_requests_are_compared_as_by_a_monitor_that_sees_them_at_once(
    classifier, seeded, texts
):
    sizes = iter([1, 3, 50, 2, 64, 7] * 20)
    rest = list(texts)
    while rest:
        n = next(sizes)
        observe(seeded, rest[:n])
        rest = rest[n:]
    seeded.flush()

    monitor = DriftMonitor(classifier, alpha=drift.alpha_of(1), random_state=0)
    monitor.update(texts)
    found = seeded.comparison("me")
    assert found["differs"] is monitor.alarm
    if monitor.alarm:  # what follows its batch was not compared
        assert found["message"].partition(":")[0] == f"ALARM at row {monitor.alarm_at}"
    else:
        assert found["message"] == str(monitor)
        assert found["counts"] == monitor.counts._asdict()


def test_an_answer_states_how_many_rows_are_still_to_be_compared(vectorizer, classifier):
    model = ServedModel("mine", vectorizer, classifier)
    client = client_of(model)

    def comparison():
        return post(client, "/classify", {"texts": FILMS[:3]})[1]["guarantee"]["comparison"]

    first = comparison()
    model.drift.flush()
    second = comparison()

    assert (first["differs"], first["counts"], first["waiting"]) == (None, None, 3)
    assert first["message"] == (
        "Not checked: no row has been compared yet. Still to be compared: 3 rows."
    )
    assert (second["differs"], second["counts"]["n_rows"], second["waiting"]) == (False, 3, 3)
    assert second["message"].startswith("No alarm in 3 rows")
    assert second["message"].endswith("Still to be compared: 3 rows.")


def test_rows_are_compared_beside_the_answers_once_there_are_enough(classifier):
    monitors = ClientMonitors(classifier)
    observe(monitors, FILMS[: drift.LEAST_AT_ONCE - 30])
    assert monitors.comparison("me")["waiting"] == drift.LEAST_AT_ONCE - 30

    observe(monitors, FILMS[:30])

    wait_until(lambda: monitors.comparison("me")["waiting"] == 0)
    assert monitors.comparison("me")["counts"]["n_rows"] == drift.LEAST_AT_ONCE
    monitors.close()


@pytest.fixture
def held_up(monkeypatch):
    """Monitors compare nothing until this event is set."""
    go, update = threading.Event(), DriftMonitor.update

    def wait_and_update(*arguments, **options):
        assert go.wait(10)
        return update(*arguments, **options)

    monkeypatch.setattr(DriftMonitor, "update", wait_and_update)
    yield go
    go.set()


def test_requests_wait_where_too_many_rows_are_to_be_compared_and_none_is_left_out(
    classifier, held_up, monkeypatch
):
    monkeypatch.setattr(drift, "MAX_WAITING", 80)
    monitors = ClientMonitors(classifier)
    with ThreadPoolExecutor() as pool:
        observe(monitors, FILMS)
        observe(monitors, FILMS)
        further = pool.submit(observe, monitors, FILMS)
        time.sleep(0.2)
        assert not further.done()
        assert monitors.comparison("me")["waiting"] == 80

        held_up.set()
        further.result(10)
    monitors.close()

    assert monitors.comparison("me")["counts"]["n_rows"] == 120


def test_what_was_being_compared_at_a_reset_is_forgotten(classifier, held_up):
    monitors = ClientMonitors(classifier)
    observe(monitors, FILMS + FILMS)
    wait_until(lambda: monitors._clients["me"].n_comparing)

    monitors.reset("me")
    observe(monitors, FILMS[:5])
    held_up.set()
    monitors.close()

    assert monitors.comparison("me")["counts"]["n_rows"] == 5


def test_a_comparison_that_fails_is_stated_and_others_follow(classifier, monkeypatch, log_lines):
    monitors = ClientMonitors(classifier)
    with monkeypatch.context() as patched:
        patched.setattr(DriftMonitor, "update", lambda *arguments, **options: 1 / 0)
        observe(monitors, FILMS)
        monitors.flush()
    assert "comparing the last rows failed" in monitors.comparison("me")["message"]
    assert log_lines[0]["exception"] == "ZeroDivisionError"

    observe(monitors, FILMS[:2])
    monitors.flush()
    assert monitors.comparison("me")["counts"]["n_rows"] == 2


def test_a_server_that_stops_compares_the_rows_that_wait(vectorizer, classifier):
    model = ServedModel("mine", vectorizer, classifier)
    with client_of(model) as client:
        post(client, "/classify", {"texts": FILMS[:3]})

    comparison = model.drift.comparison("")
    assert (comparison["counts"]["n_rows"], comparison["waiting"]) == (3, 0)


def test_an_alarm_is_a_line_of_the_log_without_texts(classifier, log_lines):
    monitors = ClientMonitors(classifier)
    for number in range(12):
        observe(monitors, foreign_texts(number))
    monitors.flush()

    (line,) = log_lines
    assert (line["event"], line["level"]) == ("drift", "warning")
    assert "ALARM" in line["comparison"] and "qa" not in json.dumps(line)


def test_texts_without_words_are_counted_by_the_monitor(vectorizer, classifier):
    model = ServedModel("mine", vectorizer, classifier)
    status, _ = post(client_of(model), "/classify", {"texts": [""] * drift.LEAST_AT_ONCE})
    model.drift.flush()
    assert status == 200
    assert model.drift.comparison("")["counts"]["n_empty"] == drift.LEAST_AT_ONCE


def test_the_monitors_of_a_client_have_one_level_together():
    levels = [drift.alpha_of(number, n_workers=4) for number in range(1, 200_000)]
    assert 4 * sum(levels) == pytest.approx(drift.ALPHA, rel=1e-5)
    assert levels[0] > levels[1] > 0


def test_another_monitor_follows_after_so_many_texts(classifier, monkeypatch):
    monkeypatch.setattr(drift, "MAX_MONITORED", 1)
    monitors = ClientMonitors(classifier)
    for text in ("a good film", "a bad film", "a lovely film", "a boring film"):
        monitors.observe("me", [text], classifier.predict_log_proba([text]))
        monitors.flush()
    assert monitors._clients["me"].n_monitors == 2


def test_a_text_in_an_unknown_language_is_not_answered_and_says_why(client):
    texts = ["你好,世界", "a good and lovely film"]
    foreign, known = post(client, "/classify", {"texts": texts})[1]["results"]
    assert foreign["abstained"] is True and foreign["set"] == ["no", "yes"]
    assert "too few of its words are known" in foreign["note"]
    assert "note" not in known


def test_settings_without_a_meaning_are_rejected():
    for settings, message in (
        ({"timeout": float("nan")}, r"timeout must be .* Got nan"),
        ({"timeout": float("inf")}, r"timeout must be .* Got inf"),
        ({"timeout": 0}, r"timeout must be .* Got 0"),
        ({"max_texts": 0}, r"max_texts must be 1 or more. Got 0"),
        ({"max_concurrent": -1}, r"max_concurrent must be 1 or more. Got -1"),
        ({"error": 1.5}, r"error must be between 0 and 1. Got 1.5"),
        ({"origins": ("nonsense",)}, r"An origin must be .* Got 'nonsense'"),
        ({"origins": ("https://example.org/page",)}, r"Got 'https://example.org/page'"),
    ):
        with pytest.raises(ValueError, match=message):
            ServerSettings(**settings)
    assert ServerSettings(origins=("*", "http://localhost:3000"), timeout=0.5).timeout == 0.5


@pytest.fixture(scope="module")
def running(tmp_path_factory):
    keys = tmp_path_factory.mktemp("serve") / "keys"
    keys.write_text(KEY + "\n")
    server = serve("english", "--workers", "2", "--api-key-file", keys, "--max-body", "100000")
    yield server
    assert server.end() == 0


def test_an_oversized_body_receives_the_reason(running):
    with pytest.raises(urllib.error.HTTPError) as caught:
        running.post("/embed", {"texts": "x" * 150_000})
    assert caught.value.code == 413
    assert "100,000 bytes" in json.load(caught.value)["error"]["message"]


@pytest.mark.skipif(not Path("/proc/self/smaps_rollup").exists(), reason="no /proc")
def test_workers_share_the_memory_of_one_model(running):
    running.post("/embed", {"texts": "x"})
    for pid in running.workers():
        maps = Path(f"/proc/{pid}/smaps").read_text()  # all workers answer from the start
        tables = re.findall(r"\.safetensors\nSize: .*?Private_Dirty: *(\d+)", maps, re.DOTALL)
        assert tables and sum(map(int, tables)) == 0  # mapped, and no page of its own


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="no /proc")
def test_a_killed_worker_is_replaced_and_counters_continue(running):
    running.post("/embed", {"texts": "x"})
    before = set(running.workers())
    os.kill(min(before), signal.SIGKILL)
    for _ in range(1200):
        time.sleep(0.05)
        now = set(running.workers())
        if len(now) == 2 and now != before:
            break
    assert len(now) == 2 and min(before) not in now
    assert all(running.post("/embed", {"texts": "x"})["results"] for _ in range(10))
    text = running.get("/metrics").decode()
    assert float(re.search(r'code="200",path="/embed"} ([\d.]+)', text)[1]) >= 11


@pytest.mark.slow
def test_a_new_model_is_swapped_in_under_load_and_a_broken_one_rejected(tmp_path, vectorizer):
    folder = tmp_path / "model"
    save(vectorizer, folder)
    keys = tmp_path / "keys"
    keys.write_text(KEY + "\n")
    server = serve(folder, "--api-key-file", keys)
    other = make_encoder("Average", "english", on_empty="ignore").fit([])
    old, new = (unit(v, TEXTS[:1])[0] for v in (vectorizer, other))
    seen, stop, wrong = [], threading.Event(), []

    def load():
        while not stop.is_set():
            try:
                vector = server.post("/v1/embeddings", {"input": TEXTS[0]})["data"][0]["embedding"]
            except ConnectionError:  # the worker ended before it read the request: sent again
                continue
            except urllib.error.URLError as error:
                wrong.append(error)
                continue
            which = [np.allclose(vector, v, atol=1e-6) for v in (old, new)]
            seen.append(which.index(True) if any(which) else -1)

    pool = ThreadPoolExecutor()
    try:
        for _ in range(3):
            pool.submit(load)
        time.sleep(1)
        save(other, folder, overwrite=True)
        server.process.send_signal(signal.SIGHUP)
        assert server.wait_for("Terminated child process")
        time.sleep(0.5)
        (folder / "config.json").write_text("{}")
        server.process.send_signal(signal.SIGHUP)
        assert server.wait_for("models cannot be opened") and server.wait_for("keeping worker")
        time.sleep(0.5)
    finally:
        stop.set()
        pool.shutdown()
        status = server.end()
    assert not wrong and status == 0
    assert set(seen) == {0, 1} and seen[0] == 0 and seen[-1] == 1


def test_a_connection_without_the_headers_of_a_request_is_closed(client, monkeypatch):
    monkeypatch.setattr(server_module, "_HEADER_SECONDS", 0.5)
    how = {"http": server_module.HeaderTimeoutProtocol, "lifespan": "off", "log_level": "error"}
    server = uvicorn.Server(uvicorn.Config(client.app, **how))
    listener = socket.create_server(("127.0.0.1", 0))
    thread = threading.Thread(target=server.run, args=([listener],))
    thread.start()
    request = b"GET /health HTTP/1.1\r\nhost: x\r\n\r\n"
    try:
        for n_requests, beginning in ((0, b""), (0, b"POST /cla"), (2, request[:-2])):
            with socket.create_connection(listener.getsockname(), timeout=30) as connection:
                for _ in range(n_requests):  # the connection is kept between requests
                    connection.sendall(request)
                    assert connection.recv(65536).startswith(b"HTTP/1.1 200")
                    time.sleep(1)
                connection.sendall(beginning)
                assert connection.recv(1) == b""  # closed by the server
        with socket.create_connection(listener.getsockname(), timeout=30) as connection:
            connection.sendall(request)
            connection.recv(65536)
            with pytest.raises(OSError):  # line breaks are no beginning of a request
                for _ in range(100):
                    connection.sendall(b"\r\n")
                    time.sleep(0.1)
    finally:
        server.should_exit = True
        thread.join(30)


def test_sigterm_finishes_what_is_under_way_and_rejects_what_is_new():
    server = serve("english")
    texts = ["a long text of many words about wine and cats " * 40] * 400
    with ThreadPoolExecutor() as pool:
        answer = pool.submit(server.post, "/v1/embeddings", {"input": texts})
        time.sleep(0.03)
        server.process.terminate()
        assert len(answer.result(30)["data"]) == 400
    assert server.process.wait(30) == 0
    with pytest.raises(urllib.error.URLError):
        server.get("/health")
    assert any('"stopped"' in line for line in server.lines)


def test_a_port_in_use_is_one_clear_line():
    with socket.create_server(("127.0.0.1", 0)) as busy:
        port = busy.getsockname()[1]
        result = invoke("serve", "english", "--port", port, status=1)
    assert "Traceback" not in result.stderr
    assert f"127.0.0.1:{port} cannot be used" in result.stderr


def test_the_container_is_slim_runs_an_existing_command_and_nobody_in_it_is_root():
    lines = (ROOT / "docker" / "Dockerfile").read_text().splitlines()
    steps = [line.split(maxsplit=1) for line in lines if line[:1].isalpha()]
    names = [step for step, _ in steps]
    assert all("-slim" in image for step, image in steps if step == "FROM")
    users = [user for step, user in steps if step == "USER"]
    assert users and users[-1] not in ("root", "0")
    assert names.index("USER") < names.index("ENTRYPOINT")
    for step, files in steps:
        if step == "COPY" and "--from" not in files:
            assert all((ROOT / source).exists() for source in files.split()[:-1]), files
    program, command, *options = json.loads(dict(steps)["ENTRYPOINT"])
    known = {name for option in all_commands()["serve"].params for name in option.opts}
    assert program == "pacsent" and command == "serve"
    assert {word for word in options if word.startswith("--")} <= known


def test_compose_names_files_that_exist_and_addresses_that_answer(client):
    folder = ROOT / "docker"
    names = ("compose.yaml", "prometheus.yml", "Dockerfile")
    compose, prometheus, container = ((folder / name).read_text() for name in names)
    for name in re.findall(r"\./([\w.-]+)[:\s]", compose):
        assert (folder / name).exists() or name in ("models", "keys"), name
    assert "metrics_path: /metrics" in prometheus and "pacsent:8000" in prometheus
    assert "  pacsent:" in compose and "read_only: true" in compose
    for path in ("/metrics", re.search(r"8000(/\w+)'", container)[1]):
        assert client.get(path).status_code == 200
