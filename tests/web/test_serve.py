"""The server: what clients send and get, and what is rejected."""

import base64
import dataclasses
import hmac
import json
import re
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

pytest.importorskip("fastapi")

from helpers import KEY, wait_until
from pacsent import Index, TextClassifier, make_encoder
from pacsent.paper import certify_words
from pacsent.predict.abstaining import AnswerRule
from pacsent.web import ServedModel, ServerSettings, metrics, read_keys
from serving import TEXTS, client_of, encode_at_length_one, post


@pytest.fixture(scope="module")
def model(vectorizer, classifier):
    """All that a server can serve: vectors, classes, search and a certificate of the encoder."""
    index = Index(vectorizer)
    index.add(TEXTS[:3])
    average = make_encoder("Average", "english").fit([])
    certificate = certify_words(average, [f"a film {i} of wine and cats" for i in range(200)])
    return ServedModel("english", vectorizer, classifier, index, [certificate])


@pytest.fixture(scope="module")
def client(model):
    return client_of(model)


def embed(client, texts, **options):
    """The vectors of /v1/embeddings as an array."""
    status, content = post(client, "/v1/embeddings", {"input": texts, **options})
    assert status == 200
    return np.array([item["embedding"] for item in content["data"]], np.float32)


def test_embeddings_are_those_of_the_library_at_length_one(client, vectorizer):
    vectors = embed(client, TEXTS)
    assert np.allclose(vectors, encode_at_length_one(vectorizer, TEXTS), atol=1e-7)


def test_embeddings_come_with_their_place_and_the_number_of_words(client):
    _, content = post(client, "/v1/embeddings", {"input": TEXTS, "model": "english"})

    assert [item["index"] for item in content["data"]] == [0, 1, 2, 3, 4]
    assert content["usage"] == {"prompt_tokens": 11, "total_tokens": 11}


def test_embeddings_that_are_zero_are_listed(client):
    texts = [*TEXTS, "wine", "\N{GRINNING FACE}", ""]

    _, content = post(client, "/v1/embeddings", {"input": texts})

    is_zero = [not any(item["embedding"]) for item in content["data"]]
    assert content["zero_vectors"] == np.flatnonzero(is_zero).tolist()
    assert set(content["zero_vectors"]) >= {6, 7}
    assert 5 not in content["zero_vectors"]


def test_base64_contains_the_same_numbers(client):
    vectors = embed(client, TEXTS[:2])

    body = {"input": TEXTS[:2], "encoding_format": "base64"}
    _, content = post(client, "/v1/embeddings", body)

    decoded = base64.b64decode(content["data"][1]["embedding"])
    assert np.frombuffer(decoded, "<f4").tolist() == vectors[1].tolist()


def test_dimensions_are_the_first_ones_at_length_one(client):
    beginning = embed(client, TEXTS[:2])[1, :7]
    shortened = embed(client, TEXTS[:2], dimensions=7)[1]
    assert np.allclose(shortened, beginning / np.linalg.norm(beginning), atol=1e-6)


def test_embed_reports_what_the_model_does_not_know(client, vectorizer):
    text = "a glass of zzqx wine"

    status, content = post(client, "/embed", {"texts": text})

    result = content["results"][0]
    assert status == 200
    assert np.allclose(result["mean"], vectorizer.transform([text])[0], atol=1e-7)
    assert result["coverage"] == 0.8
    assert result["unknown"] == ["zzqx"]
    assert result["tokens"] == 5
    assert "note" not in result


def test_embed_says_why_a_vector_is_zero(client):
    _, content = post(client, "/embed", {"texts": ["", "zzqx"]})

    empty, unknown = content["results"]
    assert empty["note"] == "The text is empty. Its vector is all zeros."
    assert unknown["note"] == "No word of the text is known. Its vector is all zeros."
    assert not any(empty["mean"])
    assert empty["coverage"] is None
    assert empty["variance"] is None


def test_words_are_weighted_by_how_far_the_vector_turns_without_them(client, vectorizer):
    body = {"texts": ["the wine zzqx"], "words": True, "mean": False}

    _, content = post(client, "/embed", body)

    words = content["results"][0]["words"]
    the, wine, unknown = words
    with_wine, without_wine = encode_at_length_one(vectorizer, ["the wine", "the"])
    assert wine["weight"] == pytest.approx(1 - with_wine @ without_wine, abs=1e-5)
    assert wine["weight"] > the["weight"]
    assert unknown["weight"] == 0
    assert [word["known"] for word in words] == [True, True, False]
    assert "mean" not in content["results"][0]


def test_words_of_other_scripts_are_unknown(client):
    _, content = post(client, "/embed", {"texts": ["wine 你好 Привет zzqx"], "words": True})

    result = content["results"][0]
    is_known = {word["word"]: word["known"] for word in result["words"]}
    assert is_known["wine"]
    assert not is_known["你好"]
    assert not is_known["Привет"]
    assert not is_known["zzqx"]
    assert set(result["unknown"]) == set(is_known) - {"wine"}


def test_similarity_of_pairs_and_of_all(client):
    _, pairs = post(client, "/similarity", {"a": ["good wine", "cat"], "b": ["fine wine", "stock"]})
    _, matrix = post(client, "/similarity", {"a": ["good wine", "fine wine"]})

    assert pairs["cosines"][0] > 0.5 > pairs["cosines"][1]
    assert matrix["matrix"][0][1] == pytest.approx(pairs["cosines"][0], abs=1e-5)


def test_classes_come_with_set_abstention_and_words(client, classifier):
    text = "a good and lovely film"

    status, content = post(client, "/classify", {"texts": [text, "unrelated"], "explain": True})

    result = content["results"][0]
    strongest_word, _ = max(result["explanation"]["words"], key=lambda word: word[1])
    assert status == 200
    assert result["label"] == "yes"
    assert result["probability"] == pytest.approx(classifier.predict_proba([text]).max())
    assert result["set"] == classifier.predict_set([text])[0]
    assert strongest_word in ("good", "lovely")
    assert "note" not in result


def test_a_blank_text_has_no_class_and_a_note(client):
    _, content = post(client, "/classify", {"texts": [" \n"], "explain": True})

    result = content["results"][0]
    assert result["label"] is None
    assert result["set"] is None
    assert "empty" in result["note"]


@pytest.mark.parametrize("error", [None, 0.05, 0.3])
def test_a_request_and_the_server_may_choose_the_error(model, classifier, error):
    client = client_of(model, error=0.2)
    texts = ["a good and lovely film", "unrelated"]

    _, content = post(client, "/classify", {"texts": texts, "error": error})

    expected = error or 0.2
    answers = classifier.abstain(error=expected, delta=0.05).predict(texts)
    assert content["guarantee"]["error"] == content["guarantee"]["set_error"] == expected
    is_abstained = [result["abstained"] for result in content["results"]]
    assert is_abstained == [answer is None for answer in answers]


def test_an_error_that_cannot_be_guaranteed_is_explained(client):
    _, content = post(client, "/classify", {"texts": "a good film", "error": 0.001})

    assert content["results"][0]["abstained"] is True
    assert re.search(r"0\.1 ?%|0\.001", content["guarantee"]["no_answers"])


def test_without_a_calibration_set_no_error_is_guaranteed():
    plain = TextClassifier(None).fit(["good film", "bad film"] * 10, ["yes", "no"] * 10)
    client = client_of(ServedModel("plain", classifier=plain))

    status, content = post(client, "/classify", {"texts": ["good"], "error": 0.1})

    assert status == 422
    assert "without a calibration set" in content["error"]["message"]
    assert post(client, "/classify", {"texts": ["good"]})[0] == 200


def test_search(client):
    status, content = post(client, "/search", {"query": "a sleeping kitten", "k": 1})

    assert status == 200
    assert content["results"][0][0]["text"] == "the cat slept"
    assert client.get("/v1/models/english").json()["pacsent"]["texts"] == 3


def test_certificates_of_all_that_is_served(client):
    encoder, classifier = client.get("/certificates").json()["certificates"]

    assert encoder["about"] == "encoder"
    assert classifier["about"] == "classifier"
    assert "Average" in encoder["subject"]
    assert "no, yes" in classifier["subject"]
    assert "confidence" in encoder["in_words"]
    assert "confidence" in classifier["in_words"]


def test_a_forged_certificate_is_not_served(vectorizer, classifier):
    forged = dataclasses.replace(classifier.certificate_, error_upper=1e-6)
    with pytest.raises(ValueError, match="computed from its parts"):
        ServedModel("english", vectorizer, certificates=[forged])


def test_serving_does_not_change_the_models(classifier):
    vectorizer = make_encoder("SIF-sum", "english")
    parameters = vectorizer.get_params(), classifier.get_params()

    ServedModel("english", vectorizer, classifier).warm_up()

    assert (vectorizer.get_params(), classifier.get_params()) == parameters
    assert not hasattr(vectorizer, "n_sentences_")


def test_openapi_lists_every_endpoint(client):
    paths = set(client.get("/openapi.json").json()["paths"])

    assert paths >= {"/v1/embeddings", "/v1/models", "/v1/rerank", "/embed", "/similarity"}
    assert paths >= {"/classify", "/search", "/certificates", "/metrics", "/drift/reset"}


def test_openapi_describes_the_fields_of_a_request(client):
    schema = client.get("/openapi.json").json()

    content = schema["paths"]["/classify"]["post"]["requestBody"]["content"]
    fields = content["application/json"]["schema"]["properties"]
    assert set(fields) == {"texts", "explain", "error", "model"}
    assert fields["texts"]["anyOf"]


def test_docs_need_nothing_from_elsewhere(client):
    page = client.get("/docs")

    assert "docs.js" in page.text
    assert "//" not in page.text
    assert "default-src 'none'" in page.headers["content-security-policy"]


@pytest.fixture(scope="module")
def limited_client(model):
    """A server that accepts little."""
    return client_of(model, max_texts=8, max_tokens=50, max_body=1000)


@pytest.mark.parametrize(
    ("body", "status", "message"),
    [
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
        pytest.param({"input": "wine " * 60}, 422, "at most 50 words", id="words"),
        pytest.param({"input": "x" * 2000}, 413, "at most 1,000 bytes", id="bytes"),
    ],
)
def test_a_wrong_request_is_answered_with_what_is_wrong_in_json(
    limited_client, body, status, message
):
    content = body if isinstance(body, bytes) else json.dumps(body)
    headers = {"content-type": "application/json"}

    response = limited_client.post("/v1/embeddings", content=content, headers=headers)

    error = response.json()["error"]
    assert response.status_code == error["code"] == status
    assert message in error["message"]
    assert response.json()["request_id"]


def classify_as(client, content_type):
    body = json.dumps({"texts": "a good film"})
    return client.post("/classify", content=body, headers={"content-type": content_type})


FORM = "application/x-www-form-urlencoded"


@pytest.mark.parametrize("kind", ["text/plain", FORM, "text/plain; x=application/json", ""])
def test_bodies_that_browsers_send_to_other_sites_without_asking_are_rejected(client, kind):
    response = classify_as(client, kind)

    assert response.status_code == 415
    assert "application/json" in response.json()["error"]["message"]


def test_json_is_recognised_in_any_case_and_with_its_character_set(client):
    assert classify_as(client, "Application/JSON; charset=utf-8").status_code == 200


SIX_WINES = "wine " * 6
SIX_CATS = "cat " * 6


def assert_too_many_words(served, path, body):
    status, content = post(client_of(served, max_tokens=10), path, body)

    message = content["error"]["message"]
    assert status == 422
    assert "at most 10 words in all" in message
    assert "Got 12" in message


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/embed", {"texts": [SIX_WINES, SIX_CATS]}),
        ("/classify", {"texts": [SIX_WINES, SIX_CATS]}),
        ("/search", {"query": [SIX_WINES, SIX_CATS]}),
        ("/v1/rerank", {"query": "", "documents": [SIX_WINES, SIX_CATS]}),
    ],
)
def test_every_endpoint_limits_the_words_of_a_request(model, path, body):
    assert_too_many_words(model, path, body)


def test_words_are_counted_without_a_vectorizer_too(classifier):
    plain = ServedModel("plain", classifier=classifier)
    assert_too_many_words(plain, "/classify", {"texts": [SIX_WINES, SIX_CATS]})


@pytest.mark.parametrize("path", ["/embed", "/search"])
def test_without_vectorizer_and_index_their_endpoints_are_not_there(classifier, path):
    plain = ServedModel("plain", classifier=classifier)
    assert post(client_of(plain), path, {"texts": "x"})[0] == 404


@pytest.fixture(scope="module")
def explaining_client(model):
    """A server that explains at most two texts of at most twenty words."""
    return client_of(model, max_explained_tokens=20, max_explained=2)


def test_long_texts_are_classified_but_not_explained(explaining_client):
    body = {"texts": ["good film " * 11], "explain": True}

    _, content = post(explaining_client, "/classify", body)

    result = content["results"][0]
    assert result["label"] == "yes"
    assert result["explanation"] is None
    assert "up to 20 words are explained. This one has 22" in result["note"]


def test_words_of_long_texts_are_not_weighted(explaining_client):
    body = {"texts": "good film " * 11, "words": True, "mean": False}
    _, content = post(explaining_client, "/embed", body)
    assert content["results"][0]["words"] is None


def test_the_number_of_explained_texts_is_limited(explaining_client):
    status, content = post(explaining_client, "/classify", {"texts": ["a"] * 3, "explain": True})

    assert status == 422
    assert "at most 2 texts" in content["error"]["message"]


def test_work_stops_at_the_timeout(model, monkeypatch):
    chunk_sizes = []

    def compute_slowly(texts):
        chunk_sizes.append(len(texts))
        time.sleep(0.1)
        return np.log(np.full((len(texts), 2), 0.5))

    monkeypatch.setattr(model.classifier, "predict_log_proba", compute_slowly)
    monkeypatch.setattr(model, "posteriors", compute_slowly)
    with client_of(model, timeout=0.35, max_texts=10_000) as client:
        status, content = post(client, "/classify", {"texts": ["a film"] * 2000})
        assert status == 504
        assert "0.35 seconds" in content["error"]["message"]

        status, _ = post(client, "/similarity", {"a": ["x"] * 4000, "b": ["x"] * 4000})
        assert status == 504
        time.sleep(0.5)
    assert len(chunk_sizes) <= 12  # of 32 and 16 chunks


def test_a_long_request_does_not_delay_short_ones(vectorizer):
    model = ServedModel("english", vectorizer)
    posteriors = model.posteriors
    is_started = threading.Event()
    may_finish = threading.Event()

    def wait_with_long_requests(texts):
        if len(texts) > 100:
            is_started.set()
            assert may_finish.wait(10)
        return posteriors(texts)

    model.posteriors = wait_with_long_requests
    with client_of(model) as client, ThreadPoolExecutor() as pool:
        long_request = pool.submit(post, client, "/v1/embeddings", {"input": ["wine"] * 500})
        assert is_started.wait(10)

        status, _ = post(client, "/v1/embeddings", {"input": "cat"})

        assert status == 200
        assert not long_request.done()
        may_finish.set()
        assert long_request.result()[0] == 200


def test_requests_that_come_while_one_is_classified_are_classified_in_one_pass(model, monkeypatch):
    n_requests_of_passes = []
    may_finish = threading.Event()
    answer_each = AnswerRule.answer_each

    def wait_and_answer(rule, groups):
        n_requests_of_passes.append(len(groups))
        assert may_finish.wait(10)
        return answer_each(rule, groups)

    monkeypatch.setattr(AnswerRule, "answer_each", wait_and_answer)
    served = ServedModel("mine", classifier=model.classifier)
    together = served._together(served.answer_rule(None, None))
    body = {"texts": ["a good film", "a bad film"]}
    with client_of(served) as client, ThreadPoolExecutor(16) as pool:
        answers = [pool.submit(post, client, "/classify", body) for _ in range(16)]
        wait_until(lambda: len(together._waiting) == 15)
        may_finish.set()
        assert {answer.result()[0] for answer in answers} == {200}

    assert n_requests_of_passes == [1, 15]


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/nothing", 404),
        ("DELETE", "/embed", 405),
        ("GET", "/page/%2e%2e/server.py", 404),
        ("GET", "/v1/models/x", 404),
    ],
)
def test_unknown_addresses_and_methods_are_rejected_in_json(client, method, path, status):
    response = client.request(method, path)

    assert response.headers["content-type"] == "application/json"
    assert response.status_code == response.json()["error"]["code"] == status


def test_a_defect_of_the_server_is_no_traceback(model, monkeypatch, log_lines):
    monkeypatch.setattr(model, "posteriors", lambda texts: 1 / 0)

    status, content = post(client_of(model), "/v1/embeddings", {"input": "secret words"})

    assert status == 500
    assert "request_id" in content["error"]["message"]
    assert "ZeroDivision" not in json.dumps(content)
    assert log_lines[0]["exception"] == "ZeroDivisionError"
    assert "test_serve" in log_lines[0]["place"]
    assert "secret" not in json.dumps(log_lines)


def test_the_log_has_a_line_per_request(client, log_lines):
    client.post("/embed", json={"texts": ["wine"]})
    for path in ("/secret-path", "/", "/v1/models/english", "/openapi.json"):
        client.get(path)

    assert [(line["path"], line["status"], line["texts"]) for line in log_lines] == [
        ("/embed", 200, 1),
        ("other", 404, 0),
        ("/", 200, 0),
        ("/v1/models/{name}", 200, 0),
        ("other", 200, 0),
    ]


def test_the_log_never_contains_the_text(client, log_lines):
    client.post("/embed", json={"texts": ["hush secret wine"]})
    client.get("/secret-path")

    assert len(log_lines) == 2
    assert "secret" not in json.dumps(log_lines)


@pytest.mark.parametrize(("number", "is_kept"), [("mine-1", True), ('"}{ bad', False)])
def test_the_number_of_a_request_is_in_the_log_and_the_answer(client, log_lines, number, is_kept):
    response = client.post("/embed", json={"texts": "x"}, headers={"x-request-id": number})

    answered_number = response.headers["x-request-id"]
    assert log_lines[0]["request_id"] == answered_number
    if is_kept:
        assert answered_number == number
    else:
        assert "bad" not in answered_number
        assert len(answered_number) > 8


@pytest.mark.parametrize("content", ["", "# none\n", "short\n", "with a space inside it\n"])
def test_a_file_without_a_usable_key_is_rejected(tmp_path, content):
    path = tmp_path / "keys"
    path.write_text(content)
    with pytest.raises(ValueError, match="API key"):
        read_keys(path)


@pytest.fixture
def client_with_key(model, tmp_path):
    path = tmp_path / "keys"
    path.write_text(f"# of the tests\n{KEY}\n")
    return client_of(model, keys=read_keys(path))


def test_a_request_with_the_key_is_answered(client_with_key):
    headers = {"authorization": f"Bearer {KEY}"}
    assert post(client_with_key, "/v1/embeddings", {"input": "x"}, **headers)[0] == 200


@pytest.mark.parametrize(
    "headers",
    [{}, {"authorization": f"Bearer {KEY[:-1]}"}, {"authorization": f"Basic {KEY}"}],
    ids=["no key", "a wrong key", "another scheme"],
)
def test_a_request_without_the_key_is_rejected(client_with_key, headers):
    response = client_with_key.post("/v1/embeddings", json={"input": "x"}, headers=headers)

    assert response.status_code == 401
    assert response.headers["www-authenticate"] == "Bearer"
    assert "Bearer KEY" in response.json()["error"]["message"]


@pytest.mark.parametrize(
    ("path", "status"), [("/v1/models", 401), ("/metrics", 401), ("/health", 200), ("/", 200)]
)
def test_keys_are_required_except_for_health_and_pages(client_with_key, path, status):
    assert client_with_key.get(path).status_code == status


def test_every_key_is_compared_in_constant_time(monkeypatch, tmp_path):
    keys = [f"key-number-{i}-of-three" for i in range(3)]
    (tmp_path / "keys").write_text("\n".join(keys))
    settings = ServerSettings(keys=read_keys(tmp_path / "keys"))
    compare_digest = hmac.compare_digest
    compared = []

    def record_and_compare(first, second):
        compared.append(second)
        return compare_digest(first, second)

    monkeypatch.setattr(hmac, "compare_digest", record_and_compare)

    assert settings.accepts_key(f"Bearer {keys[0]}".encode())
    assert sorted(compared) == sorted(settings.keys)  # the first one ends nothing


def test_too_many_requests_at_once_are_asked_to_come_back(vectorizer):
    model = ServedModel("english", vectorizer)
    may_finish = threading.Event()
    active = []

    def wait_for_the_end(texts):
        active.append(texts)
        may_finish.wait(10)

    model.posteriors = wait_for_the_end
    body = {"input": ["wine"] * 2}
    with client_of(model, max_concurrent=2) as client, ThreadPoolExecutor() as pool:
        for _ in range(2):
            pool.submit(post, client, "/v1/embeddings", body)
        wait_until(lambda: len(active) == 2)
        response = client.post("/v1/embeddings", json=body)
        may_finish.set()

    assert response.status_code == 429
    assert response.headers["retry-after"] == "1"
    assert "at most 2 requests" in response.json()["error"]["message"]


def allowed_origin(client, origin):
    """The origin whose pages may read the answer; None: no other than the server's own."""
    response = client.post("/embed", json={"texts": "x"}, headers={"origin": origin})
    return response.headers.get("access-control-allow-origin")


def test_web_pages_of_others_are_let_in_only_where_configured(model):
    origin = "https://example.org"
    client = client_of(model, origins=(origin,))

    assert allowed_origin(client, origin) == origin
    assert allowed_origin(client, "https://evil.example") is None
    assert allowed_origin(client_of(model), origin) is None


def test_a_browser_may_ask_before_it_sends_a_request(model):
    client = client_of(model, origins=("https://example.org",))
    headers = {
        "origin": "https://example.org",
        "access-control-request-method": "POST",
        "access-control-request-headers": "content-type",
    }

    response = client.options("/embed", headers=headers)

    assert response.status_code == 200
    assert "POST" in response.headers["access-control-allow-methods"]


def read_metric(name):
    """A value of /metrics; 0 while it is not there."""
    for line in metrics.exposition()[0].decode().splitlines():
        key, _, value = line.rpartition(" ")
        if key == f"pacsent_{name}":
            return float(value)
    return 0.0


def test_requests_texts_and_words_are_counted(client):
    expected_increases = {
        'requests_total{code="200",path="/embed"}': 2,
        'requests_total{code="422",path="/embed"}': 1,
        "texts_total": 3,
        "known_words_total": 4,
        "unknown_words_total": 1,
        "empty_texts_total": 1,
        'request_seconds_count{path="/embed"}': 3,
    }
    before = {name: read_metric(name) for name in expected_increases}

    for texts in (["good zzqx wine", ""], "the cat", 3):
        post(client, "/embed", {"texts": texts})

    increases = {name: read_metric(name) - before[name] for name in expected_increases}
    assert increases == expected_increases


def test_a_text_in_an_unknown_language_is_not_answered_and_says_why(client):
    texts = ["你好,世界", "a good and lovely film"]

    _, content = post(client, "/classify", {"texts": texts})

    foreign, known = content["results"]
    assert foreign["abstained"] is True
    assert foreign["set"] == ["no", "yes"]
    assert "too few of its words are known" in foreign["note"]
    assert "note" not in known


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"timeout": float("nan")}, r"timeout must be .* Got nan"),
        ({"timeout": float("inf")}, r"timeout must be .* Got inf"),
        ({"timeout": 0}, r"timeout must be .* Got 0"),
        ({"max_texts": 0}, r"max_texts must be 1 or more. Got 0"),
        ({"max_concurrent": -1}, r"max_concurrent must be 1 or more. Got -1"),
        ({"error": 1.5}, r"error must be between 0 and 1. Got 1.5"),
        ({"origins": ("nonsense",)}, r"An origin must be .* Got 'nonsense'"),
        ({"origins": ("https://example.org/page",)}, r"Got 'https://example.org/page'"),
    ],
)
def test_settings_without_a_meaning_are_rejected(settings, message):
    with pytest.raises(ValueError, match=message):
        ServerSettings(**settings)


def test_any_origin_and_fractions_of_seconds_are_settings():
    settings = ServerSettings(origins=("*", "http://localhost:3000"), timeout=0.5)
    assert settings.timeout == 0.5
