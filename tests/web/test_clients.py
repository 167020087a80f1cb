"""Clients of other programs against the server, several models, and OpenTelemetry."""

import numpy as np
import pytest

pytest.importorskip("fastapi")

from helpers import serve
from pacsent import Index, load
from pacsent.sentences import as_encoder
from pacsent.web import ServedModel, create_app
from pacsent.web.telemetry import instrument, instrument_from_environment
from serving import TEXTS, client_of, post

DOCUMENTS = ["shares fell again", "the cat slept on the sofa", "a glass of red wine"]
NAMES = "wine cat bank tree river king sword train bread moon horse doctor music ship coffee snow"
WORDS = [*NAMES.split(), "window", "garden", "teacher", "fire", "letter", "market", "bridge"]


def letters(texts):
    """An encoder of a user."""
    return [[text.lower().count(c) for c in "aeiou"] for text in texts]


@pytest.fixture(scope="module")
def client(vectorizer):
    """A server of two models: the English one with three texts to search, and a user's own."""
    index = Index(vectorizer, lexical=True)
    index.add(DOCUMENTS, metadata=[{"year": 2020 + i} for i in range(3)])
    english = ServedModel("english", vectorizer, index=index)
    own = ServedModel("letters", as_encoder(letters))
    return client_of([english, own])


RERANK = {"model": "english", "query": "a kitten", "documents": DOCUMENTS, "top_n": 2}


def test_rerank_in_the_form_of_cohere_and_jina(client):
    extra_fields = {"return_documents": True, "max_chunks_per_doc": 3}

    status, content = post(client, "/v1/rerank", RERANK | extra_fields)

    first, second = content["results"]
    assert status == 200
    assert first["index"] == 1
    assert first["document"] == {"text": DOCUMENTS[1]}
    assert 1 >= first["relevance_score"] >= second["relevance_score"] >= 0


def test_documents_to_rerank_may_be_objects(client):
    objects = [{"text": text} for text in DOCUMENTS]
    _, content = post(client, "/v1/rerank", {**RERANK, "documents": objects})
    assert content["results"][0]["index"] == 1


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"documents": None}, "documents"),
        ({"documents": []}, "documents"),
        ({"query": 1}, "query"),
        ({"top_n": 0}, "top_n"),
        ({"documents": [3]}, "documents[0]"),
    ],
)
def test_wrong_rerank_requests_name_the_field(client, change, field):
    body = {"query": "x", "documents": ["a"], **change}

    status, content = post(client, "/v1/rerank", body)

    assert status == 422
    assert content["error"]["param"] == field


def test_embeddings_are_those_of_the_model_that_is_named(client):
    _, content = post(client, "/v1/embeddings", {"input": "abe", "model": "letters"})

    expected = np.array([1, 1, 0, 0, 0]) / 2**0.5
    assert np.allclose(content["data"][0]["embedding"], expected)
    assert content["model"] == "letters"
    assert content["usage"]["total_tokens"] == 1


def test_the_first_model_answers_where_none_is_named(client):
    _, content = post(client, "/embed", {"texts": "abe"})
    assert len(content["results"][0]["mean"]) == 256


def test_all_words_are_known_to_an_encoder_without_a_vocabulary(client):
    _, content = post(client, "/embed", {"texts": "abe abe", "model": "letters", "words": True})
    assert [word["known"] for word in content["results"][0]["words"]] == [True, True]


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/embeddings", {"input": "a"}),
        ("/similarity", {"a": "a", "b": "b"}),
        ("/v1/rerank", {"query": "a", "documents": ["b"]}),
    ],
)
def test_an_unknown_model_is_rejected_with_the_names_of_all(client, path, body):
    status, content = post(client, path, {**body, "model": "other"})

    assert status == 404
    assert "'english', 'letters'" in content["error"]["message"]


def test_a_model_without_an_index_cannot_be_searched(client):
    status, content = post(client, "/search", {"query": "a", "model": "letters"})

    assert status == 404
    assert "has no index" in content["error"]["message"]


def test_dimensions_are_those_of_the_model_that_is_named(client):
    body = {"input": "a", "model": "letters", "dimensions": 9}

    status, content = post(client, "/v1/embeddings", body)

    assert status == 422
    assert "1 to 5" in content["error"]["message"]


def test_all_models_are_listed(client):
    models = client.get("/v1/models").json()["data"]

    assert [model["id"] for model in models] == ["english", "letters"]
    assert client.get("/v1/models/letters").json()["pacsent"]["dimensions"] == 5


def test_search_with_a_filter_returns_hits_with_their_metadata(client):
    _, content = post(client, "/search", {"query": "kitten", "where": {"year": 2021}})

    (hit,) = content["results"][0]
    assert hit["metadata"] == {"year": 2021}
    assert "score" in hit


def test_the_values_of_a_filter_are_limited(client):
    body = {"query": "kitten", "where": {"year": list(range(2000))}}

    status, content = post(client, "/search", body)

    assert status == 422
    assert "at most 1,000 values" in content["error"]["message"]


@pytest.mark.parametrize(
    ("field", "value"),
    [("where", {"year": {"~": 1}}), ("where", {"a": {}}), ("guarantee", 0.9)],
)
def test_a_wrong_search_names_the_field(client, field, value):
    status, content = post(client, "/search", {"query": "kitten", field: value})

    assert status == 422
    assert content["error"]["param"] == field


def test_a_certified_index_reports_its_guarantee(vectorizer):
    index = Index(vectorizer)
    index.add([f"text about {word}" for word in WORDS])
    index.certify([f"{word} story" for word in WORDS], range(len(WORDS)), k=3)
    client = client_of(ServedModel("english", vectorizer, index=index))

    _, content = post(client, "/search", {"query": "wine", "guarantee": 0.5})

    assert "at least 50%" in content["guarantee"]
    assert content["no_answer"] == [False]
    assert "Search among 23 texts" in client.get("/certificates").text


@pytest.fixture
def telemetry(vectorizer):
    """What is exported of two requests, one of a caller with a trace and a wrong one.

    A pair: the spans, and the metrics as JSON.
    """
    pytest.importorskip("opentelemetry.instrumentation.fastapi")
    from fastapi.testclient import TestClient
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.metrics.export import InMemoryMetricReader
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    exporter = InMemorySpanExporter()
    tracers = TracerProvider()
    tracers.add_span_processor(SimpleSpanProcessor(exporter))
    reader = InMemoryMetricReader()
    app = create_app(ServedModel("english", vectorizer))
    instrument(app, tracers, MeterProvider([reader]))
    client = TestClient(app)
    post(client, "/embed", {"texts": "secret words"}, traceparent=f"00-{TRACE}-b7ad6b7169203331-01")
    post(client, "/embed", {"texts": 3})
    return exporter.get_finished_spans(), reader.get_metrics_data().to_json()


TRACE = "0af7651916cd43dd8448eb211c80319c"


@pytest.mark.extra(needs="clients")
def test_spans_are_exported_with_the_trace_of_the_caller(telemetry):
    (first, second), _ = telemetry

    assert first.name == second.name == "POST /embed"
    assert f"{first.context.trace_id:032x}" == TRACE
    assert 422 in second.attributes.values()


@pytest.mark.extra(needs="clients")
def test_durations_are_exported(telemetry):
    _, metrics = telemetry
    assert "duration" in metrics


@pytest.mark.extra(needs="clients")
def test_texts_are_not_exported(telemetry):
    spans, metrics = telemetry
    assert "secret" not in spans[0].to_json()
    assert "secret" not in metrics


def test_without_an_endpoint_nothing_is_instrumented(monkeypatch):
    monkeypatch.delenv("OTEL_EXPORTER_OTLP_ENDPOINT", raising=False)
    instrument_from_environment(None)


@pytest.fixture(scope="module")
def url():
    """The address of a server of the same model under two names."""
    server = serve("english", "second=english")
    yield server.url
    assert server.end() == 0


def check_english(vectors):
    """They are the vectors of the server's model "english" for the first texts: length one."""
    expected = load("english").encode(TEXTS[: len(vectors)])
    expected /= np.linalg.norm(expected, axis=1, keepdims=True)
    assert np.allclose(vectors, expected, atol=1e-6)


@pytest.fixture
def openai_client(url):
    openai = pytest.importorskip("openai")
    return openai.OpenAI(base_url=url + "/v1", api_key="none")


@pytest.mark.extra(needs="clients")
@pytest.mark.parametrize("model", ["english", "second"])
def test_the_openai_client_gets_vectors(openai_client, model):
    answer = openai_client.embeddings.create(model=model, input=TEXTS[:2])  # base64 by default
    check_english([item.embedding for item in answer.data])


@pytest.mark.extra(needs="clients")
def test_the_openai_client_gets_shorter_vectors_as_numbers(openai_client):
    answer = openai_client.embeddings.create(
        model="english", input=TEXTS[0], encoding_format="float", dimensions=16
    )
    assert len(answer.data[0].embedding) == 16


@pytest.mark.extra(needs="clients")
def test_the_openai_client_lists_models(openai_client):
    assert [model.id for model in openai_client.models.list()] == ["english", "second"]
    assert openai_client.models.retrieve("english").id == "english"


@pytest.mark.extra(needs="clients")
def test_the_openai_client_raises_its_error(openai_client):
    openai = pytest.importorskip("openai")
    with pytest.raises(openai.UnprocessableEntityError, match="at least 1 item"):
        openai_client.embeddings.create(model="english", input=[])


@pytest.mark.extra(needs="clients")
def test_the_cohere_client(url):
    cohere = pytest.importorskip("cohere")
    client = cohere.Client(api_key="none", base_url=url)

    answer = client.rerank(model="english", query="a kitten", documents=DOCUMENTS, top_n=2)

    assert len(answer.results) == 2
    assert answer.results[0].index == 1


@pytest.mark.extra(needs="clients")
def test_langchain(url):
    openai = pytest.importorskip("langchain_openai")
    embeddings = openai.OpenAIEmbeddings(
        model="english", base_url=url + "/v1", api_key="none", check_embedding_ctx_length=False
    )
    check_english(embeddings.embed_documents(TEXTS[:2]))
    check_english([embeddings.embed_query(TEXTS[0])])
