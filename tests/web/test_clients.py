"""Clients of other programs against the server, several models, and OpenTelemetry."""

import numpy as np
import pytest

pytest.importorskip("fastapi")

from test_serve import TEXTS, client_of, post, vectorizer  # noqa: F401

from helpers import serve
from pacsent import Index, load
from pacsent.sentences import as_encoder
from pacsent.web import ServedModel, create_app
from pacsent.web.telemetry import instrument, instrument_from_environment

DOCUMENTS = ["shares fell again", "the cat slept on the sofa", "a glass of red wine"]
NAMES = "wine cat bank tree river king sword train bread moon horse doctor music ship coffee snow"
WORDS = [*NAMES.split(), "window", "garden", "teacher", "fire", "letter", "market", "bridge"]


def letters(texts):
    """An encoder of a user."""
    return [[text.lower().count(c) for c in "aeiou"] for text in texts]


@pytest.fixture(scope="module")
def client(vectorizer):  # noqa: F811 - a fixture
    index = Index(vectorizer, lexical=True)
    index.add(DOCUMENTS, metadata=[{"year": 2020 + i} for i in range(3)])
    english = ServedModel("english", vectorizer, index=index)
    return client_of([english, ServedModel("letters", as_encoder(letters))])


def test_rerank_in_the_form_of_cohere_and_jina(client):
    body = {"model": "english", "query": "a kitten", "documents": DOCUMENTS, "top_n": 2}
    extra = {"return_documents": True, "max_chunks_per_doc": 3}
    status, content = post(client, "/v1/rerank", body | extra)
    results = content["results"]
    assert status == 200 and len(results) == 2 and results[0]["index"] == 1
    assert results[0]["document"] == {"text": DOCUMENTS[1]}
    assert 1 >= results[0]["relevance_score"] >= results[1]["relevance_score"] >= 0
    objects = [{"text": text} for text in DOCUMENTS]
    _, content = post(client, "/v1/rerank", {**body, "documents": objects})
    assert content["results"][0]["index"] == 1


def test_wrong_rerank_requests_name_the_field(client):
    for change, field in (
        ({"documents": None}, "documents"),
        ({"documents": []}, "documents"),
        ({"query": 1}, "query"),
        ({"top_n": 0}, "top_n"),
        ({"documents": [3]}, "documents[0]"),
    ):
        status, content = post(client, "/v1/rerank", {"query": "x", "documents": ["a"], **change})
        assert status == 422 and content["error"]["param"] == field


def test_several_models_are_selected_by_name(client):
    _, content = post(client, "/v1/embeddings", {"input": "abe", "model": "letters"})
    assert np.allclose(content["data"][0]["embedding"], np.array([1, 1, 0, 0, 0]) / 2**0.5)
    assert content["model"] == "letters" and content["usage"]["total_tokens"] == 1
    assert len(post(client, "/embed", {"texts": "abe"})[1]["results"][0]["mean"]) == 256
    _, content = post(client, "/embed", {"texts": "abe abe", "model": "letters", "words": True})
    assert [w["known"] for w in content["results"][0]["words"]] == [True, True]
    both = "'english', 'letters'"
    for path, body, status, message in (
        ("/v1/embeddings", {"input": "a", "model": "other"}, 404, both),
        ("/similarity", {"a": "a", "b": "b", "model": "other"}, 404, both),
        ("/v1/rerank", {"query": "a", "documents": ["b"], "model": "other"}, 404, both),
        ("/search", {"query": "a", "model": "letters"}, 404, "has no index"),
        ("/v1/embeddings", {"input": "a", "model": "letters", "dimensions": 9}, 422, "1 to 5"),
    ):
        code, content = post(client, path, body)
        assert code == status and message in content["error"]["message"]
    models = client.get("/v1/models").json()["data"]
    assert [model["id"] for model in models] == ["english", "letters"]
    assert client.get("/v1/models/letters").json()["pacsent"]["dimensions"] == 5


def test_search_with_filters_and_guarantees(client):
    _, content = post(client, "/search", {"query": "kitten", "where": {"year": 2021}})
    assert [hit["metadata"] for hit in content["results"][0]] == [{"year": 2021}]
    assert "score" in content["results"][0][0]
    for wrong, message in (
        ({"where": {"year": list(range(2000))}}, "at most 1,000 values"),
        ({"where": {"year": {"~": 1}}}, ""),
        ({"where": {"a": {}}}, ""),
        ({"guarantee": 0.9}, ""),
    ):
        status, content = post(client, "/search", {"query": "kitten", **wrong})
        assert status == 422 and message in content["error"]["message"]
        assert message or content["error"]["param"] == next(iter(wrong))


def test_a_certified_index_reports_its_guarantee(vectorizer):  # noqa: F811
    index = Index(vectorizer)
    index.add([f"text about {w}" for w in WORDS])
    index.certify([f"{w} story" for w in WORDS], range(len(WORDS)), k=3)
    client = client_of(ServedModel("english", vectorizer, index=index))
    content = post(client, "/search", {"query": "wine", "guarantee": 0.5})[1]
    assert "at least 50%" in content["guarantee"] and content["no_answer"] == [False]
    assert "Search among 23 texts" in client.get("/certificates").text


@pytest.mark.extra(needs="clients")
def test_spans_and_durations_are_exported_without_texts(vectorizer):  # noqa: F811
    pytest.importorskip("opentelemetry.instrumentation.fastapi")
    from fastapi.testclient import TestClient
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.metrics.export import InMemoryMetricReader
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    exporter, reader, tracers = InMemorySpanExporter(), InMemoryMetricReader(), TracerProvider()
    tracers.add_span_processor(SimpleSpanProcessor(exporter))
    app = create_app(ServedModel("english", vectorizer))
    instrument(app, tracers, MeterProvider([reader]))
    client = TestClient(app)
    parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    post(client, "/embed", {"texts": "secret words"}, traceparent=parent)
    post(client, "/embed", {"texts": 3})
    first, second = exporter.get_finished_spans()
    assert first.name == "POST /embed" and second.name == "POST /embed"
    assert f"{first.context.trace_id:032x}" == "0af7651916cd43dd8448eb211c80319c"
    assert 422 in second.attributes.values() and "secret" not in first.to_json()
    data = reader.get_metrics_data().to_json()
    assert "duration" in data and "secret" not in data


def test_without_an_endpoint_nothing_is_instrumented(monkeypatch):
    monkeypatch.delenv("OTEL_EXPORTER_OTLP_ENDPOINT", raising=False)
    instrument_from_environment(None)


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    server = serve("english", "second=english")
    yield server.url
    assert server.end() == 0


def check_english(vectors):
    """They are the vectors of the server's model "english" for the first texts: length one."""
    expected = load("english").encode(TEXTS[: len(vectors)])
    expected /= np.linalg.norm(expected, axis=1, keepdims=True)
    assert np.allclose(vectors, expected, atol=1e-6)


@pytest.mark.extra(needs="clients")
def test_the_openai_client(url):
    openai = pytest.importorskip("openai")
    client = openai.OpenAI(base_url=url + "/v1", api_key="none")
    for model in ("english", "second"):
        answer = client.embeddings.create(model=model, input=TEXTS[:2])  # base64 by default
        check_english([item.embedding for item in answer.data])
    body = {"model": "english", "input": TEXTS[0], "encoding_format": "float", "dimensions": 16}
    assert len(client.embeddings.create(**body).data[0].embedding) == 16
    assert [model.id for model in client.models.list()] == ["english", "second"]
    assert client.models.retrieve("english").id == "english"
    with pytest.raises(openai.UnprocessableEntityError, match="at least 1 item"):
        client.embeddings.create(model="english", input=[])


@pytest.mark.extra(needs="clients")
def test_the_cohere_client(url):
    cohere = pytest.importorskip("cohere")
    client = cohere.Client(api_key="none", base_url=url)
    answer = client.rerank(model="english", query="a kitten", documents=DOCUMENTS, top_n=2)
    assert next(item.index for item in answer.results) == 1 and len(answer.results) == 2


@pytest.mark.extra(needs="clients")
def test_langchain(url):
    openai = pytest.importorskip("langchain_openai")
    embeddings = openai.OpenAIEmbeddings(
        model="english", base_url=url + "/v1", api_key="none", check_embedding_ctx_length=False
    )
    check_english(embeddings.embed_documents(TEXTS[:2]))
    check_english([embeddings.embed_query(TEXTS[0])])
