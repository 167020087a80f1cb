"""The server: what clients send and get, what they may not, and how it starts, swaps and ends."""

import asyncio
import base64
import contextlib
import dataclasses
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path

import numpy as np
import pytest

fastapi = pytest.importorskip("fastapi")
pytest.importorskip("orjson")
pytest.importorskip("uvicorn")

from pacsent import CertifiedClassifier, Index, TextClassifier, load, make, save  # noqa: E402
from pacsent.paper import certify_words  # noqa: E402
from pacsent.web import Served, Settings, create_app, read_keys  # noqa: E402
from pacsent.web.batches import Batcher  # noqa: E402
from pacsent.web.logs import Log  # noqa: E402
from pacsent.web.metrics import Metrics  # noqa: E402
from pacsent.web.schemas import Problem  # noqa: E402

ROOT = Path(__file__).parents[1]
KEY = "the-key-of-the-tests"
TEXTS = ["a glass of wine", "the cat slept", "shares fell again", "zzqx", ""]


@pytest.fixture(scope="module")
def vectorizer():
    return make("SIF-sum", "english", on_empty="ignore").fit([])


@pytest.fixture(scope="module")
def classifier():
    good, bad = "a good and lovely film number", "a bad and boring film number"
    texts = [f"{kind} {i} {'wine' if i % 3 else 'cat'}" for i in range(150) for kind in (good, bad)]
    labels = ["yes", "no"] * 150
    return CertifiedClassifier(TextClassifier(ngrams=(1, 1)), holdout=0.4, random_state=0).fit(
        texts, labels
    )


@pytest.fixture(scope="module")
def served(vectorizer, classifier):
    index = Index(vectorizer)
    index.add(TEXTS[:3])
    words = [f"a film {i} of wine and cats" for i in range(200)]
    certificate = certify_words(make("Average", "english").fit([]), words)
    return Served("english", vectorizer, classifier, index, [certificate])


def ask(app, method, path, body=b"", headers=()):
    """One request to the application, without a socket: (status, headers, body)."""
    if not isinstance(body, bytes):
        body = json.dumps(body).encode()
    sent = []

    async def receive():
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message):
        sent.append(message)

    scope = {"type": "http", "http_version": "1.1", "method": method, "path": path,
             "raw_path": path.encode(), "query_string": b"", "root_path": "", "scheme": "http",
             "client": ("127.0.0.1", 1), "server": ("127.0.0.1", 2),
             "headers": [(b"host", b"x"), *headers]}  # fmt: skip
    if method == "POST" and not any(name == b"content-type" for name, _ in headers):
        scope["headers"].append((b"content-type", b"application/json"))
    asyncio.run(app(scope, receive, send))
    got = b"".join(message.get("body", b"") for message in sent[1:])
    return sent[0]["status"], dict(sent[0]["headers"]), got


def post(app, path, body, headers=()):
    status, _, found = ask(app, "POST", path, body, headers)
    return status, json.loads(found)


@pytest.fixture(scope="module")
def app(served):
    return create_app(served)


# ------------------------------------------------------------------------------------------------
# What it answers
# ------------------------------------------------------------------------------------------------


def test_embeddings_are_those_of_the_library_at_length_one(app, vectorizer):
    status, found = post(app, "/v1/embeddings", {"input": TEXTS, "model": "english"})
    vectors = np.array([item["embedding"] for item in found["data"]], np.float32)
    means = vectorizer.transform(TEXTS)
    lengths = np.linalg.norm(means, axis=1, keepdims=True)
    assert status == 200
    assert np.allclose(vectors, means / np.where(lengths > 0, lengths, 1), atol=1e-7)
    assert [item["index"] for item in found["data"]] == [0, 1, 2, 3, 4]
    assert found["usage"] == {"prompt_tokens": 11, "total_tokens": 11}


def test_base64_carries_the_same_numbers(app):
    _, plain = post(app, "/v1/embeddings", {"input": "a glass of wine"})
    _, coded = post(
        app, "/v1/embeddings", {"input": ["a glass of wine"], "encoding_format": "base64"}
    )
    decoded = np.frombuffer(base64.b64decode(coded["data"][0]["embedding"]), "<f4")
    assert decoded.tolist() == np.array(plain["data"][0]["embedding"], np.float32).tolist()


def test_dimensions_keeps_the_first_numbers_at_length_one(app):
    _, whole = post(app, "/v1/embeddings", {"input": TEXTS[:2]})
    _, short = post(app, "/v1/embeddings", {"input": TEXTS[:2], "dimensions": 7})
    first = np.array(whole["data"][1]["embedding"])[:7]
    assert np.allclose(short["data"][1]["embedding"], first / np.linalg.norm(first), atol=1e-6)


def test_raw_length_gives_the_means_themselves(served, vectorizer):
    raw = create_app(served, Settings(unit_length=False))
    _, found = post(raw, "/v1/embeddings", {"input": TEXTS[0]})
    assert np.allclose(found["data"][0]["embedding"], vectorizer.transform(TEXTS[:1])[0], atol=1e-7)


def test_embed_tells_what_the_model_does_not_know(app, vectorizer):
    status, found = post(app, "/embed", {"texts": ["a glass of zzqx wine", ""]})
    first, second = found["results"]
    assert status == 200
    assert np.allclose(first["mean"], vectorizer.transform(["a glass of zzqx wine"])[0], atol=1e-7)
    assert (first["coverage"], first["unknown"], first["tokens"]) == (0.8, ["zzqx"], 5)
    assert (second["coverage"], second["variance"]) == (None, None)


def test_words_are_weighed_by_how_far_the_vector_turns_without_them(app, vectorizer):
    _, found = post(app, "/embed", {"texts": "the wine zzqx", "words": True, "mean": False})
    words = found["results"][0]["words"]
    a, b = vectorizer.transform(["the wine", "the"])
    cosine = a @ b / np.linalg.norm(a) / np.linalg.norm(b)
    assert [w["known"] for w in words] == [True, True, False]
    assert words[1]["weight"] == pytest.approx(1 - cosine, abs=1e-5)
    assert words[1]["weight"] > words[0]["weight"] and words[2]["weight"] == 0
    assert "mean" not in found["results"][0]


def test_similarity_of_pairs_and_of_all(app):
    _, pairs = post(app, "/similarity", {"a": ["good wine", "cat"], "b": ["fine wine", "stock"]})
    assert pairs["cosines"][0] > 0.5 > pairs["cosines"][1]
    _, matrix = post(app, "/similarity", {"a": ["good wine", "fine wine"]})
    assert matrix["matrix"][0][1] == pytest.approx(pairs["cosines"][0], abs=1e-5)


def test_classes_come_with_set_abstention_and_words(app, classifier):
    text = "a good and lovely film"
    status, found = post(app, "/classify", {"texts": [text, "unrelated"], "explain": True})
    first = found["results"][0]
    assert status == 200
    assert first["label"] == "yes"
    assert first["probability"] == pytest.approx(classifier.predict_proba([text]).max())
    assert first["set"] == classifier.predict_set([text])[0]
    answers = classifier.abstain(error=0.05, delta=0.05).predict([text, "unrelated"])
    assert [r["abstained"] for r in found["results"]] == [a is None for a in answers]
    assert max(first["explanation"]["words"], key=lambda w: w[1])[0] in ("good", "lovely")


def test_search_finds_texts_of_the_index(app):
    status, found = post(app, "/search", {"query": "a sleeping kitten", "k": 1})
    assert status == 200 and found["results"][0][0]["text"] == "the cat slept"
    assert json.loads(ask(app, "GET", "/index")[2])["texts"] == 3


def test_certificates_name_what_they_are_about_in_plain_words(app):
    found = json.loads(ask(app, "GET", "/certificates")[2])["certificates"]
    assert [c["about"] for c in found] == ["encoder", "classifier"]
    assert "Average" in found[0]["subject"] and "no, yes" in found[1]["subject"]
    assert all("confidence" in c["in_words"] for c in found)


def test_a_certificate_that_does_not_follow_from_its_parts_is_not_served(vectorizer, classifier):
    forged = dataclasses.replace(classifier.certificate_, bound=1e-6)
    with pytest.raises(ValueError, match="computed from its parts"):
        Served("english", vectorizer, certificates=[forged])


def test_what_is_not_given_is_not_there(vectorizer):
    bare = create_app(Served("english", vectorizer))
    for path in ("/classify", "/search"):
        status, found = post(bare, path, {"texts": "x", "query": "x"})
        assert status == 404 and "nothing at this address" in found["error"]["message"]


def test_openapi_names_every_address_and_docs_show_it(app):
    schema = json.loads(ask(app, "GET", "/openapi.json")[2])
    named = {"/v1/embeddings", "/v1/models", "/embed", "/similarity", "/classify", "/search",
             "/index", "/certificates", "/health", "/ready", "/metrics"}  # fmt: skip
    assert named <= set(schema["paths"])
    fields = schema["components"]["schemas"]["ClassifyRequest"]["properties"]
    assert set(fields) == {"texts", "explain", "error", "model"} and fields["texts"]["anyOf"]
    page = ask(app, "GET", "/docs")[2].decode()
    assert "docs.js" in page and "//" not in page


# ------------------------------------------------------------------------------------------------
# What it refuses
# ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "status", "said"),
    [
        (b"{", 400, "must be JSON"),
        (b'{"input": "\xff"}', 400, "must be JSON"),
        (b"[1]", 422, "must be a JSON object"),
        ({}, 422, "input must be a text or a list"),
        ({"input": None}, 422, "input must be a text or a list of texts. Got null"),
        ({"input": "x", "user": 3}, 422, "user must be a text. Got 3"),
        ({"input": "x", "tokens": 3, "top": 1}, 422, "Got tokens, top."),
        ({"input": []}, 422, "at least one"),
        ({"input": ["x", 3]}, 422, r"input[1] must be a text"),
        ({"input": [[1, 2]]}, 422, "Token numbers are not accepted"),
        ({"input": "x", "encoding_format": "int8"}, 422, "float or base64"),
        ({"input": "x", "dimensions": 257}, 422, "from 1 to 256"),
        ({"input": "x", "dimensions": True}, 422, "from 1 to 256"),
        ({"input": "x", "model": "gpt"}, 404, "the model 'english' and no other"),
        ({"input": ["x"] * 9}, 422, "at most 8 texts"),
        ({"input": "wine " * 60}, 422, "at most 50 words"),
        ({"input": "x" * 2000}, 413, "at most 1,000 bytes"),
    ],
)
def test_a_wrong_request_is_answered_with_what_is_wrong_in_json(served, body, status, said):
    app = create_app(served, Settings(max_texts=8, max_tokens=50, max_body=1000))
    got, found = post(app, "/v1/embeddings", body)
    assert got == status
    assert said in found["error"]["message"]
    assert found["error"]["code"] == status and found["request_id"]


@pytest.mark.parametrize(
    "kind",
    [b"text/plain", b"application/x-www-form-urlencoded", b"multipart/form-data; boundary=x",
     b"text/plain; x=application/json", b""],
)  # fmt: skip
def test_bodies_that_browsers_send_to_other_sites_without_asking_are_refused(app, kind):
    status, found = post(app, "/classify", {"texts": "a good film"}, [(b"content-type", kind)])
    assert status == 415 and "application/json" in found["error"]["message"]
    json_ = [(b"content-type", b"Application/JSON; charset=utf-8")]
    assert post(app, "/classify", {"texts": "a good film"}, json_)[0] == 200


@pytest.mark.parametrize(
    ("path", "body", "names"),
    [
        ("/classify", {"texts": "x", "eror": 0.1}, "eror"),
        ("/search", {"query": "x", "top": 3}, "top"),
        ("/embed", {"text": "x"}, "text"),
        ("/similarity", {"a": "x", "c": "y", "d": "z"}, "c, d"),
    ],
)
def test_unknown_fields_are_refused_with_their_names(app, path, body, names):
    status, found = post(app, path, body)
    assert status == 422 and f"Got {names}." in found["error"]["message"]


@pytest.mark.parametrize("path", ["/embed", "/classify", "/search"])
def test_every_address_limits_the_words_of_a_request(served, path):
    app = create_app(served, Settings(max_tokens=10))
    field = "query" if path == "/search" else "texts"
    status, found = post(app, path, {field: ["wine " * 6, "cat " * 6]})
    assert status == 422 and "at most 10 words in all" in found["error"]["message"]
    assert "Got 12 instead" in found["error"]["message"]
    assert post(app, path, {field: ["wine " * 6, "cat " * 4]})[0] == 200


def test_the_words_of_a_classifier_without_vectors_are_limited_too(classifier):
    app = create_app(Served("plain", classifier=classifier), Settings(max_tokens=10))
    status, found = post(app, "/classify", {"texts": "good film " * 6})
    assert status == 422 and "Got 12 instead" in found["error"]["message"]


def test_an_empty_text_has_no_class_and_a_vector_of_zeros_that_is_noted(app):
    _, found = post(app, "/classify", {"texts": ["", " \n", "a good film"], "explain": True})
    empty, blank, film = found["results"]
    assert empty["label"] is None and empty["set"] is None and "empty" in empty["note"]
    assert blank == empty and film["label"] == "yes" and "note" not in film
    _, found = post(app, "/embed", {"texts": ["", "zzqx", "wine"]})
    notes = [result.get("note") for result in found["results"]]
    assert notes == ["The text is empty. Its vector is all zeros.",
                     "No word of the text is known. Its vector is all zeros.", None]  # fmt: skip
    assert not any(found["results"][0]["mean"])


def test_a_request_and_the_server_may_ask_for_an_error(served, classifier):
    app = create_app(served, Settings(error=0.2))
    body = {"texts": ["a good and lovely film", "unrelated"]}
    _, found = post(app, "/classify", body)
    assert found["guarantee"]["error"] == found["guarantee"]["set_error"] == 0.2
    for error in (0.05, 0.3):
        _, found = post(app, "/classify", {**body, "error": error})
        answers = classifier.abstain(error=error, delta=0.05).predict(body["texts"])
        assert found["guarantee"]["error"] == error
        assert [r["abstained"] for r in found["results"]] == [a is None for a in answers]
    for error in (0, 1, -0.1, "0.1", True):
        status, found = post(app, "/classify", {**body, "error": error})
        assert status == 422 and "error must be a number between 0 and 1" in str(found)


def test_an_error_rate_without_a_calibration_set_is_refused():
    plain = TextClassifier(None).fit(["good film", "bad film"] * 10, ["yes", "no"] * 10)
    app = create_app(Served("plain", classifier=plain), Settings())
    status, found = post(app, "/classify", {"texts": ["good"], "error": 0.1})
    assert status == 422 and "without a calibration set" in found["error"]["message"]
    assert post(app, "/classify", {"texts": ["good"]})[0] == 200


def test_an_error_that_cannot_be_guaranteed_is_answered_with_what_can(app):
    _, found = post(app, "/classify", {"texts": "a good film", "error": 0.001})
    assert found["results"][0]["abstained"] is True
    assert (
        "0.1 %" in found["guarantee"]["no_answers"] or "0.001" in found["guarantee"]["no_answers"]
    )


def test_words_of_other_scripts_are_unknown_words(app):
    _, found = post(app, "/embed", {"texts": "wine 你好 naïve Привет", "words": True})
    result = found["results"][0]
    unknown = [w["word"] for w in result["words"] if not w["known"]]
    assert {"你好", "Привет"} <= set(unknown) and set(unknown) == set(result["unknown"])
    assert result["words"][0] == {
        "word": "wine",
        "known": True,
        "weight": result["words"][0]["weight"],
    }


def test_long_texts_are_classified_but_not_explained(served):
    app = create_app(served, Settings(max_explained_tokens=20))
    _, found = post(app, "/classify", {"texts": ["good film " * 11], "explain": True})
    result = found["results"][0]
    assert result["label"] == "yes" and result["explanation"] is None
    assert "up to 20 words are explained. This one has 22" in result["note"]
    _, found = post(app, "/embed", {"texts": "good film " * 11, "words": True, "mean": False})
    assert found["results"][0]["words"] is None


def test_work_stops_at_the_timeout(served, monkeypatch):
    classified = []

    def slow(texts):
        classified.append(len(texts))
        time.sleep(0.1)
        return np.log(np.full((len(texts), 2), 0.5))

    monkeypatch.setattr(served.classifier, "predict_log_proba", slow)
    app = create_app(served, Settings(timeout=0.35))
    started = time.monotonic()
    status, found = post(app, "/classify", {"texts": ["a film"] * 2000})
    assert status == 504 and "0.35 seconds" in found["error"]["message"]
    assert time.monotonic() - started < 2
    time.sleep(0.5)
    assert len(classified) <= 6  # of 32 chunks


def test_embedding_stops_when_nobody_waits_for_it(vectorizer):
    served = Served("english", vectorizer)
    solve, solved = served.solve, []

    def slow(encoded, texts):
        solved.append(encoded.n_sentences)
        time.sleep(0.1)
        return solve(encoded, texts)

    served.solve = slow
    app = create_app(served, Settings(timeout=0.25, max_texts=10_000))
    status, _ = post(app, "/embed", {"texts": ["a glass of wine and a cat"] * 10_000})
    time.sleep(0.3)
    assert status == 504 and len(solved) <= 5


def test_unknown_addresses_and_methods_are_refused_in_json(app):
    for method, path, status in (("GET", "/nothing", 404), ("DELETE", "/embed", 405),
                                 ("GET", "/page/../served.py", 404),
                                 ("GET", "/page/%2e%2e%2fserved.py", 404)):  # fmt: skip
        got, headers, body = ask(app, method, path)
        assert got == status and headers[b"content-type"] == b"application/json"
        assert json.loads(body)["error"]["code"] == status


def test_a_fault_of_ours_is_no_traceback(served, monkeypatch, capsys):
    app = create_app(served, log=Log())
    monkeypatch.setattr(app.endpoints.served, "solve", lambda *given: 1 / 0)
    status, found = post(app, "/v1/embeddings", {"input": "secret words"})
    assert status == 500 and "request_id" in found["error"]["message"]
    assert "Traceback" not in json.dumps(found) and "ZeroDivision" not in json.dumps(found)
    logged = capsys.readouterr().err
    assert '"kind": "ZeroDivisionError"' in logged and "secret" not in logged


def test_keys_are_asked_for_except_for_health(served, tmp_path):
    file = tmp_path / "keys"
    file.write_text(f"# of the tests\n{KEY}\n")
    app = create_app(served, Settings(keys=read_keys(file)))
    body = {"input": "x"}
    right = [(b"authorization", b"Bearer " + KEY.encode())]
    wrong = [(b"authorization", b"Bearer " + KEY[:-1].encode())]
    assert post(app, "/v1/embeddings", body, right)[0] == 200
    for headers in ([], wrong, [(b"authorization", b"Basic " + KEY.encode())]):
        status, sent, found = ask(app, "POST", "/v1/embeddings", body, headers)
        assert status == 401 and sent[b"www-authenticate"] == b"Bearer"
        assert "Bearer KEY" in json.loads(found)["error"]["message"]
    assert ask(app, "GET", "/v1/models")[0] == 401 and ask(app, "GET", "/metrics")[0] == 401
    assert ask(app, "GET", "/health")[0] == 200 and ask(app, "GET", "/ready")[0] == 200


def test_every_key_is_compared_in_constant_time(monkeypatch, tmp_path):
    import hmac

    file = tmp_path / "keys"
    file.write_text("first-key-of-three\nsecond-key-of-three\nthird-key-of-three\n")
    compared = []
    real = hmac.compare_digest
    monkeypatch.setattr(hmac, "compare_digest", lambda a, b: compared.append(b) or real(a, b))
    assert Settings(keys=read_keys(file)).admits(b"Bearer first-key-of-three")
    assert len(compared) == 3


@pytest.mark.parametrize("text", ["", "# none\n", "short\n", "with a space inside it\n"])
def test_a_file_without_sound_keys_is_refused(tmp_path, text):
    file = tmp_path / "keys"
    file.write_text(text)
    with pytest.raises(ValueError, match="API key"):
        read_keys(file)


def test_too_many_requests_at_once_are_asked_to_come_back(served):
    app = create_app(served, Settings(max_concurrent=2))
    app._n = 2
    status, headers, found = ask(app, "POST", "/v1/embeddings", {"input": "x"})
    assert status == 429 and headers[b"retry-after"] == b"1"
    assert "at most 2 requests" in json.loads(found)["error"]["message"]


def test_what_takes_too_long_is_given_up(served, monkeypatch):
    app = create_app(served, Settings(timeout=0.2))

    async def never(asked):
        await asyncio.sleep(60)

    monkeypatch.setitem(app._posts, "/embed", (app._posts["/embed"][0], never))
    status, found = post(app, "/embed", {"texts": "x"})
    assert status == 504 and "0.2 seconds" in found["error"]["message"]


def test_web_pages_of_others_are_let_in_only_where_asked_for(served):
    origin = [(b"origin", b"https://example.org")]
    shut = create_app(served)
    assert (
        b"access-control-allow-origin" not in ask(shut, "POST", "/embed", {"texts": "x"}, origin)[1]
    )
    open_ = create_app(served, Settings(origins=("https://example.org",)))
    headers = ask(open_, "POST", "/embed", {"texts": "x"}, origin)[1]
    assert headers[b"access-control-allow-origin"] == b"https://example.org"
    asked = [*origin, (b"access-control-request-method", b"POST"),
             (b"access-control-request-headers", b"content-type")]  # fmt: skip
    status, headers, _ = ask(open_, "OPTIONS", "/embed", b"", asked)
    assert status == 200 and b"POST" in headers[b"access-control-allow-methods"]
    other = ask(open_, "POST", "/embed", {"texts": "x"}, [(b"origin", b"https://evil.example")])[1]
    assert b"access-control-allow-origin" not in other


def test_the_log_has_a_line_a_request_and_never_the_text(served, capsys):
    app = create_app(served, log=Log())
    ask(app, "POST", "/embed", {"texts": ["hush secret wine"]}, [(b"x-request-id", b"mine-1")])
    ask(app, "GET", "/secret-path")
    for path in ("/", "/docs", "/page/page.js", "/index/1", "/openapi.json"):
        ask(app, "GET", path)
    app.log.flush()
    text = capsys.readouterr().err
    lines = [json.loads(line) for line in text.splitlines()]
    assert [(x["path"], x["status"], x["texts"]) for x in lines] == [
        ("/embed", 200, 1),
        ("other", 404, 0),
        ("/", 200, 0),
        ("/docs", 200, 0),
        ("/page/{name}", 200, 0),
        ("/index/{number}", 200, 0),
        ("/openapi.json", 200, 0),
    ]
    assert lines[0]["request_id"] == "mine-1" and "secret" not in text


def test_a_request_id_is_given_back_or_made(app):
    assert (
        ask(app, "GET", "/health", b"", [(b"x-request-id", b"a.b-1")])[1][b"x-request-id"]
        == b"a.b-1"
    )
    bad = ask(app, "GET", "/health", b"", [(b"x-request-id", b'"}{ bad')])[1][b"x-request-id"]
    assert b"bad" not in bad and len(bad) > 8


# ------------------------------------------------------------------------------------------------
# Together, and alone
# ------------------------------------------------------------------------------------------------


class CountingMetrics(Metrics):
    def __init__(self):
        super().__init__()
        self.batches = []

    def add_batch(self, n_requests):
        self.batches.append(n_requests)


def test_requests_that_come_together_are_solved_together_in_order(served, vectorizer):
    metrics = CountingMetrics()
    texts = [[f"wine {i}", "cat"] if i % 2 else [f"glass {i} of wine"] for i in range(20)]

    async def all_at_once():
        batcher = Batcher(served, 10_000, metrics)
        return await asyncio.gather(*(batcher.solve(some) for some in texts))

    found = asyncio.run(all_at_once())
    assert metrics.batches == [20]
    for some, solved in zip(texts, found):
        assert np.array_equal(solved.means, vectorizer.transform(some))


def test_one_bad_request_of_a_batch_fails_alone(served, vectorizer):
    async def all_at_once():
        batcher = Batcher(served, 10, CountingMetrics())
        jobs = (batcher.solve([t]) for t in ("good wine", "wine " * 11, "the cat slept"))
        return await asyncio.gather(*jobs, return_exceptions=True)

    first, second, third = asyncio.run(all_at_once())
    assert isinstance(second, Problem) and "at most 10 words" in second.message
    assert np.array_equal(first.means, vectorizer.transform(["good wine"]))
    assert np.array_equal(third.means, vectorizer.transform(["the cat slept"]))


def test_a_text_that_breaks_the_solver_breaks_no_other(vectorizer):
    served = Served("english", vectorizer)
    solve = served.solve

    def fragile(encoded, texts):
        if 0 in np.diff(encoded.offsets):
            raise ValueError("an empty text")
        return solve(encoded, texts)

    served.solve = fragile

    async def all_at_once():
        batcher = Batcher(served, 1000, CountingMetrics())
        jobs = (batcher.solve([t]) for t in ("good wine", "", "the cat slept"))
        return await asyncio.gather(*jobs, return_exceptions=True)

    first, second, third = asyncio.run(all_at_once())
    assert isinstance(second, ValueError)
    assert np.array_equal(third.means, vectorizer.transform(["the cat slept"]))
    assert np.array_equal(first.means, vectorizer.transform(["good wine"]))


def test_a_long_request_is_solved_beside_and_quick_ones_do_not_wait(vectorizer):
    served = Served("english", vectorizer)
    solve, started, go = served.solve, threading.Event(), threading.Event()

    def slow(encoded, texts):
        if encoded.n_sentences > 100:
            started.set()
            assert go.wait(10)
        return solve(encoded, texts)

    served.solve = slow

    async def both():
        batcher = Batcher(served, 10**6, CountingMetrics())
        long = batcher.solve(["wine"] * 500)
        await asyncio.to_thread(started.wait, 10)
        quick = await asyncio.wait_for(batcher.solve(["cat"]), 5)
        go.set()
        return quick, await long

    quick, long = asyncio.run(both())
    assert quick.means.shape == (1, 256) and long.means.shape == (500, 256)


def test_counters_add_up_over_workers_and_survive_them(served):
    metrics = Metrics(3)
    metrics.in_slot(1)
    app = create_app(served, metrics=metrics)
    post(app, "/embed", {"texts": ["good zzqx wine", ""]})
    metrics.in_slot(2)
    app = create_app(served, metrics=metrics)
    post(app, "/embed", {"texts": "the cat"})
    post(app, "/embed", {"texts": 3})
    text = metrics.text("english")[0].decode()
    for line in ('pacsent_requests_total{code="200",path="/embed"} 2.0',
                 'pacsent_requests_total{code="422",path="/embed"} 1.0', "pacsent_texts_total 3.0",
                 "pacsent_known_words_total 4.0", "pacsent_unknown_words_total 1.0",
                 "pacsent_empty_texts_total 1.0", "pacsent_coverage 0.8",
                 'pacsent_request_seconds_count{path="/embed"} 3.0'):  # fmt: skip
        assert line + "\n" in text


def test_alarms_are_counted_when_texts_change(served):
    app = create_app(served)
    for _ in range(8):
        post(app, "/classify", {"texts": ["nothing like the films at all", "zzqx"] * 30})
    text = app.metrics.text("english")[0].decode()
    assert float(text.partition("\npacsent_alarms_total ")[2].split()[0]) >= 1


# ------------------------------------------------------------------------------------------------
# A real server
# ------------------------------------------------------------------------------------------------


class Running:
    """`pacsent serve` as a process; its log is read to its end."""

    def __init__(self, *arguments):
        self.process = subprocess.Popen(
            [sys.executable, "-m", "pacsent", "serve", *map(str, arguments), "--port", "0"],
            stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        self.lines = []
        self._serving = threading.Event()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        assert self._serving.wait(90), "".join(self.lines)
        found = next(json.loads(x) for x in self.lines if '"serving"' in x)
        self.url = found["address"]

    def _read(self):
        for line in self.process.stderr:
            self.lines.append(line)
            if '"serving"' in line:
                self._serving.set()
        self._serving.set()

    def workers(self):
        path = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        return [int(pid) for pid in path.read_text().split()]

    def waited_for(self, said, seconds=60):
        for _ in range(seconds * 20):
            if any(said in line for line in self.lines):
                return True
            time.sleep(0.05)
        return False

    def get(self, path):
        with urllib.request.urlopen(self.url + path, timeout=30) as answer:
            return answer.read()

    def post(self, path, body):
        request = urllib.request.Request(self.url + path, json.dumps(body).encode())
        request.add_header("authorization", f"Bearer {KEY}")
        request.add_header("content-type", "application/json")
        with urllib.request.urlopen(request, timeout=30) as answer:
            return json.load(answer)

    def end(self):
        if self.process.poll() is None:
            self.process.terminate()
        return self.process.wait(30)


@pytest.fixture(scope="module")
def running(tmp_path_factory):
    keys = tmp_path_factory.mktemp("serve") / "keys"
    keys.write_text(KEY + "\n")
    found = Running("english", "--workers", "2", "--api-key-file", keys, "--max-body", "100000")
    yield found
    assert found.end() == 0


def unit(vectorizer, texts):
    means = vectorizer.transform(texts)
    return means / np.linalg.norm(means, axis=1, keepdims=True)


@pytest.mark.extra
def test_the_openai_client_works_unchanged(running):
    openai = pytest.importorskip("openai")
    client = openai.OpenAI(base_url=running.url + "/v1", api_key=KEY)
    answer = client.embeddings.create(model="english", input=TEXTS[:3])  # base64 by default
    vectors = np.array([item.embedding for item in answer.data])
    assert np.allclose(vectors, unit(load("english").sentences, TEXTS[:3]), atol=1e-6)
    assert answer.usage.total_tokens == 10
    one = client.embeddings.create(
        model="english", input=TEXTS[0], encoding_format="float", dimensions=16
    )
    assert len(one.data[0].embedding) == 16
    assert [model.id for model in client.models.list()] == ["english"]
    assert client.models.retrieve("english").id == "english"
    with pytest.raises(openai.AuthenticationError, match="API key"):
        openai.OpenAI(base_url=running.url + "/v1", api_key="x").models.list()
    with pytest.raises(openai.UnprocessableEntityError, match="at least one text"):
        client.embeddings.create(model="english", input=[])


@pytest.mark.extra
def test_langchain_works_unchanged(running):
    langchain_openai = pytest.importorskip("langchain_openai")
    embeddings = langchain_openai.OpenAIEmbeddings(
        model="english", base_url=running.url + "/v1", api_key=KEY, check_embedding_ctx_length=False
    )
    assert np.allclose(
        embeddings.embed_documents(TEXTS[:3]), unit(load("english").sentences, TEXTS[:3]), atol=1e-6
    )
    assert np.allclose(
        embeddings.embed_query(TEXTS[0]), unit(load("english").sentences, TEXTS[:1])[0], atol=1e-6
    )


def test_an_oversized_body_hears_why(running):
    with pytest.raises(urllib.error.HTTPError) as caught:
        running.post("/embed", {"texts": "x" * 150_000})
    assert caught.value.code == 413
    assert "100,000 bytes" in json.load(caught.value)["error"]["message"]


def test_what_is_not_http_is_refused_in_json(running):
    port = int(running.url.rpartition(":")[2])
    for raw in (b"nonsense\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"\x16\x03\x01\x02\x00"):
        with socket.create_connection(("127.0.0.1", port), timeout=10) as connection:
            connection.sendall(raw)
            answer = b"".join(iter(lambda c=connection: c.recv(65536), b""))
        head, _, body = answer.partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 400") and b"application/json" in head
        assert "valid HTTP" in json.loads(body)["error"]["message"]


@pytest.mark.slow
def test_a_long_text_with_an_explanation_holds_nobody_up(tmp_path, classifier):
    """2 MB of text, which took 22 seconds during which /health did not answer."""
    save(classifier, tmp_path / "classifier")
    found = Running(tmp_path / "classifier", "--timeout", "5")
    try:
        found.post("/classify", {"texts": "a good film", "explain": True})
        took, waits = [], []

        def ask_for_much():
            started = time.monotonic()
            answer = found.post("/classify", {"texts": "good film " * 200_000, "explain": True})
            assert answer["results"][0]["explanation"] is None
            texts = ["good film " * 450] * 32  # as much as is explained
            with contextlib.suppress(urllib.error.HTTPError):
                found.post("/classify", {"texts": texts, "explain": True})
            took.append(time.monotonic() - started)

        thread = threading.Thread(target=ask_for_much)
        thread.start()
        while thread.is_alive():
            started = time.monotonic()
            found.get("/health")
            waits.append(time.monotonic() - started)
        thread.join()
        assert max(waits) < 1 and took[0] < 12
    finally:
        assert found.end() == 0


def held(pid):
    """Memory in MB that one process has for itself, and that it shares with others."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]
    pages = {line.split(":")[0]: int(line.split()[1]) / 1024 for line in lines}
    return tuple(pages[f"{kind}_Dirty"] + pages[f"{kind}_Clean"] for kind in ("Private", "Shared"))


@pytest.mark.skipif(not Path("/proc/self/smaps_rollup").exists(), reason="no /proc")
def test_workers_share_the_memory_of_one_model(running):
    for _ in range(200):  # a loaded machine may still be starting them
        amounts = [held(pid) for pid in running.workers()]
        # a worker that opened the model itself would have its two tables of 64 MB for itself, and
        # what a Python with its modules takes (35 to 75 MB) beside them
        if len(amounts) == 2 and all(private < 128 for private, _ in amounts):
            break
        time.sleep(0.1)
    else:
        pytest.fail(f"(own, shared) megabytes of the workers: {amounts}")


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="no /proc")
def test_a_killed_worker_is_replaced_and_counters_go_on(running):
    running.post("/embed", {"texts": "x"})
    before = set(running.workers())
    os.kill(min(before), signal.SIGKILL)
    for _ in range(200):
        time.sleep(0.05)
        now = set(running.workers())
        if len(now) == 2 and now != before:
            break
    assert len(now) == 2 and min(before) not in now
    for _ in range(10):
        assert running.post("/embed", {"texts": "x"})["results"]


@pytest.mark.slow
def test_a_new_model_is_swapped_in_under_load_and_a_broken_one_refused(tmp_path, vectorizer):
    folder = tmp_path / "model"
    save(vectorizer, folder)
    keys = tmp_path / "keys"
    keys.write_text(KEY + "\n")
    running = Running(folder, "--api-key-file", keys, "--reload-model", "--name", "m")
    other = make("Average", "english", on_empty="ignore").fit([])
    old, new = (unit(v, TEXTS[:1])[0] for v in (vectorizer, other))
    seen, stop, wrong = [], threading.Event(), []

    def load():
        while not stop.is_set():
            try:
                vector = running.post("/v1/embeddings", {"input": TEXTS[0]})["data"][0]["embedding"]
            except (urllib.error.URLError, ConnectionError) as error:
                wrong.append(error)
                continue
            which = [np.allclose(vector, v, atol=1e-6) for v in (old, new)]
            seen.append(which.index(True) if any(which) else -1)

    threads = [threading.Thread(target=load) for _ in range(3)]
    for thread in threads:
        thread.start()
    try:
        time.sleep(1)
        save(other, folder, overwrite=True)
        assert running.waited_for('"swapped"')
        time.sleep(0.5)
        (folder / "config.json").write_text("{}")
        assert running.waited_for('"swap refused"')
        time.sleep(0.5)
    finally:
        stop.set()
        for thread in threads:
            thread.join()
        status = running.end()
    assert not wrong and status == 0
    assert set(seen) == {0, 1} and seen[0] == 0 and seen[-1] == 1


def test_sigterm_finishes_what_is_under_way_and_refuses_what_is_new(tmp_path):
    keys = tmp_path / "keys"
    keys.write_text(KEY + "\n")
    running = Running("english", "--api-key-file", keys)
    texts = ["a long text of many words about wine and cats " * 40] * 400
    answers = []
    thread = threading.Thread(
        target=lambda: answers.append(running.post("/v1/embeddings", {"input": texts}))
    )
    thread.start()
    time.sleep(0.03)
    running.process.terminate()
    thread.join(30)
    assert running.process.wait(30) == 0
    assert len(answers[0]["data"]) == 400
    with pytest.raises(urllib.error.URLError):
        running.get("/health")
    assert any('"stopped"' in line for line in running.lines)


def test_a_taken_port_is_one_clear_line():
    from click.testing import CliRunner

    from pacsent.cli import cli

    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        found = CliRunner().invoke(cli, ["serve", "english", "--port", str(port)])
    assert found.exit_code == 1
    assert f"127.0.0.1:{port} cannot be used" in found.stderr
    assert "Traceback" not in found.stderr


# ------------------------------------------------------------------------------------------------
# In a container
# ------------------------------------------------------------------------------------------------


def test_the_container_is_slim_and_nobody_in_it_is_root():
    lines = (ROOT / "docker" / "Dockerfile").read_text().splitlines()
    steps = [line.split(maxsplit=1) for line in lines if line[:1].isalpha()]
    assert all("-slim" in rest for step, rest in steps if step == "FROM")
    users = [rest for step, rest in steps if step == "USER"]
    assert users and users[-1] not in ("root", "0")
    last = [step for step, _ in steps]
    assert last.index("USER") < last.index("ENTRYPOINT")
    for step, rest in steps:
        if step == "COPY" and "--from" not in rest:
            *sources, _ = rest.split()
            assert all((ROOT / source).exists() for source in sources), rest


def test_compose_names_files_that_exist_and_addresses_that_answer(app):
    folder = ROOT / "docker"
    compose = (folder / "compose.yaml").read_text()
    prometheus = (folder / "prometheus.yml").read_text()
    for found in re.findall(r"\./([\w.-]+)[:\s]", compose):
        assert (folder / found).exists() or found in ("models", "keys"), found
    assert "metrics_path: /metrics" in prometheus and "pacsent:8000" in prometheus
    assert "  pacsent:" in compose and "read_only: true" in compose
    assert ask(app, "GET", "/metrics")[0] == 200 and ask(app, "GET", "/ready")[0] == 200


def test_the_command_of_the_container_is_one_that_exists():
    from pacsent.cli import cli

    entry = re.search(r"ENTRYPOINT (\[.*\])", (ROOT / "docker" / "Dockerfile").read_text())[1]
    program, command, *rest = json.loads(entry)
    known = {name for option in cli.commands["serve"].params for name in option.opts}
    assert program == "pacsent" and command == "serve"
    assert {word for word in rest if word.startswith("--")} <= known


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"timeout": float("nan")}, r"timeout must be .* Got nan"),
        ({"timeout": float("inf")}, r"timeout must be .* Got inf"),
        ({"timeout": 0}, r"timeout must be .* Got 0"),
        ({"max_texts": 0}, r"max_texts must be 1 or more. Got 0"),
        ({"max_concurrent": -1}, r"max_concurrent must be 1 or more. Got -1"),
        ({"origins": ("nonsense",)}, r"An origin must be .* Got 'nonsense'"),
        ({"origins": ("https://example.org/page",)}, r"Got 'https://example.org/page'"),
    ],
)
def test_limits_and_origins_that_mean_nothing_are_refused(given, message):
    with pytest.raises(ValueError, match=message):
        Settings(**given)
    assert Settings(origins=("*", "http://localhost:3000"), timeout=0.5).timeout == 0.5
