"""The clients that people use, unchanged, against the server; OpenTelemetry by its variables."""

import numpy as np
import pytest

pytest.importorskip("fastapi")

from pacsent import Index, load
from pacsent.web import Served, create_app
from pacsent.web.telemetry import Telemetry, telemetry_from
from test_serve import TEXTS, Running, ask, post, unit, vectorizer  # noqa: F401

DOCUMENTS = ["shares fell again", "the cat slept on the sofa", "a glass of red wine"]


def letters(texts):
    """An encoder of a user."""
    return [[text.lower().count(c) for c in "aeiou"] for text in texts]


@pytest.fixture(scope="module")
def app(vectorizer):  # noqa: F811 - a fixture
    index = Index(vectorizer, lexical=True)
    index.add(DOCUMENTS, metadata=[{"year": 2020 + i} for i in range(3)])
    from pacsent.encoders import as_encoder

    models = [Served("english", vectorizer, index=index), Served("letters", as_encoder(letters))]
    return create_app(models)


def test_tei_gets_plain_vectors_and_tokens(app, vectorizer):  # noqa: F811
    status, found = post(app, "/embed", {"inputs": TEXTS[:2], "truncate": True})
    assert status == 200 and np.allclose(found, unit(vectorizer, TEXTS[:2]), atol=1e-6)
    _, raw = post(app, "/embed", {"inputs": TEXTS[0], "normalize": False})
    assert np.allclose(raw, vectorizer.transform(TEXTS[:1]), atol=1e-6)
    _, [tokens] = post(app, "/tokenize", {"inputs": "The CAT, 東京!"})
    assert [t["text"] for t in tokens] == ["the", "cat", "東京"]
    assert [t["start"] for t in tokens] == [0, 4, 9] and tokens[2]["id"] == -1
    status, _, body = ask(app, "GET", "/info")
    assert status == 200 and b'"model_id":"english"' in body and b"max_client_batch_size" in body
    _, ranked = post(app, "/rerank", {"query": "kitten", "texts": DOCUMENTS, "return_text": True})
    assert ranked[0]["index"] == 1 and ranked[0]["text"] == DOCUMENTS[1] and len(ranked) == 3


def test_ollama_gets_its_form(app, vectorizer):  # noqa: F811
    asked = {"model": "english:latest", "input": TEXTS[:2], "truncate": True, "options": {}}
    status, found = post(app, "/api/embed", asked)
    assert status == 200 and np.allclose(
        found["embeddings"], unit(vectorizer, TEXTS[:2]), atol=1e-6
    )
    assert {"model", "total_duration", "load_duration", "prompt_eval_count"} <= set(found)
    assert b'"name":"letters"' in ask(app, "GET", "/api/tags")[2]


@pytest.mark.parametrize("path", ["/rerank", "/v1/rerank", "/v2/rerank"])
def test_rerank_in_the_form_of_cohere_and_jina(app, path):
    asked = {"model": "english", "query": "a kitten", "documents": DOCUMENTS, "top_n": 2}
    status, found = post(app, path, {**asked, "return_documents": True, "max_chunks_per_doc": 3})
    assert status == 200 and next(r["index"] for r in found["results"]) == 1
    assert len(found["results"]) == 2
    assert found["results"][0]["document"] == {"text": DOCUMENTS[1]}
    scores = [r["relevance_score"] for r in found["results"]]
    assert 1 >= scores[0] >= scores[1] >= 0
    as_objects = [{"text": text} for text in DOCUMENTS]
    assert post(app, path, {**asked, "documents": as_objects})[1]["results"][0]["index"] == 1
    for wrong in ({"query": "x"}, {"query": "x", "documents": []}, {"documents": ["a"]},
                  {**asked, "top_n": 0}, {**asked, "documents": [3]}):  # fmt: skip
        status, problem = post(app, path, wrong)
        assert status == 422 and "must be" in problem["error"]["message"]


def test_several_models_are_chosen_by_name(app):
    _, found = post(app, "/v1/embeddings", {"input": "abe", "model": "letters"})
    assert np.allclose(found["data"][0]["embedding"], np.array([1, 1, 0, 0, 0]) / 2**0.5)
    assert found["model"] == "letters" and found["usage"]["total_tokens"] == 1
    assert len(post(app, "/embed", {"inputs": "abe"})[1][0]) == 256
    _, found = post(app, "/embed", {"texts": "abe abe", "model": "letters", "words": True})
    assert [w["known"] for w in found["results"][0]["words"]] == [True, True]
    for path, body in (("/v1/embeddings", {"input": "a"}), ("/similarity", {"a": "a", "b": "b"}),
                       ("/rerank", {"query": "a", "texts": ["b"]})):  # fmt: skip
        status, found = post(app, path, {**body, "model": "other"})
        assert status == 404 and "'english', 'letters'" in found["error"]["message"]
    assert post(app, "/search", {"query": "a", "model": "letters"})[0] == 404
    status, found = post(app, "/v1/embeddings", {"input": "a", "model": "letters", "dimensions": 9})
    assert status == 422 and "from 1 to 5" in found["error"]["message"]
    assert [b'"id":"%b"' % name in ask(app, "GET", "/v1/models")[2] for name in (b"english", b"letters")] == [True, True]  # fmt: skip # noqa: E501


def test_search_with_filters_and_guarantees(app):
    _, found = post(app, "/search", {"query": "kitten", "where": {"year": 2021}})
    assert [hit["metadata"] for hit in found["results"][0]] == [{"year": 2021}]
    assert "score" in found["results"][0][0]
    for wrong in ({"where": {"year": {"~": 1}}}, {"guarantee": 0.9}, {"where": {"a": {}}}):
        status, problem = post(app, "/search", {"query": "kitten", **wrong})
        assert status == 422 and problem["error"]["param"] == next(iter(wrong))
    assert b'"metadata":{"year":2020}' in ask(app, "GET", "/index/0")[2]


def test_a_certified_index_says_so(vectorizer):  # noqa: F811
    index = Index(vectorizer)
    index.add([f"text about {w}" for w in WORDS])
    index.certify([f"a story of {w}" for w in WORDS], range(len(WORDS)), k=3)
    app = create_app(Served("english", vectorizer, index=index))
    found = post(app, "/search", {"query": "wine", "guarantee": 0.5})[1]
    assert "at least 50 %" in found["guarantee"] and found["nothing"] == [False]
    assert b"Search among 23 texts" in ask(app, "GET", "/certificates")[2]


NAMES = "wine cat bank tree river king sword train bread moon horse doctor music ship coffee snow"
WORDS = [*NAMES.split(" "), "window", "garden", "teacher", "fire", "letter", "market", "bridge"]


# ---- OpenTelemetry -----------------------------------------------------------------------------


@pytest.mark.extra
def test_spans_and_durations_are_exported_without_texts(vectorizer):  # noqa: F811
    pytest.importorskip("opentelemetry.sdk")
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.metrics.export import InMemoryMetricReader
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    exporter, reader, tracers = InMemorySpanExporter(), InMemoryMetricReader(), TracerProvider()
    tracers.add_span_processor(SimpleSpanProcessor(exporter))
    telemetry = Telemetry(tracers, MeterProvider([reader]))
    app = create_app(Served("english", vectorizer), telemetry=telemetry)
    parent = b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    post(app, "/embed", {"texts": "secret words"}, [(b"traceparent", parent)])
    post(app, "/embed", {"texts": 3})
    one, two = exporter.get_finished_spans()
    assert one.name == "POST /embed" and one.attributes["http.response.status_code"] == 200
    assert f"{one.context.trace_id:032x}" == "0af7651916cd43dd8448eb211c80319c"
    assert two.attributes["http.response.status_code"] == 422 and one.end_time > one.start_time
    assert "secret" not in one.to_json()
    [metric] = [
        m for r in reader.get_metrics_data().resource_metrics for s in r.scope_metrics
        for m in s.metrics
    ]  # fmt: skip
    assert metric.name == "http.server.request.duration"
    assert sum(point.count for point in metric.data.data_points) == 2


@pytest.mark.extra
def test_the_variables_turn_telemetry_on_and_off():
    assert telemetry_from({}) is None
    pytest.importorskip("opentelemetry.sdk")
    made = telemetry_from({"OTEL_TRACES_EXPORTER": "console", "OTEL_METRICS_EXPORTER": "none"})
    assert made is not None
    made.close()
    with pytest.raises(ValueError, match="OTEL_TRACES_EXPORTER must be otlp, console or none"):
        telemetry_from({"OTEL_TRACES_EXPORTER": "zipkin"})


# ---- clients -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    found = Running("english", "--model", "second=english")
    yield found.url
    assert found.end() == 0


def english(texts):
    """What the server gives for its model "english": the taught table, of length one."""
    vectors = load("english").encode(texts)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


@pytest.mark.extra
def test_the_openai_client(url, vectorizer):  # noqa: F811
    openai = pytest.importorskip("openai")
    client = openai.OpenAI(base_url=url + "/v1", api_key="none")
    for model in ("english", "second"):
        found = client.embeddings.create(model=model, input=TEXTS[:2])
        assert np.allclose([one.embedding for one in found.data], english(TEXTS[:2]), atol=1e-6)  # fmt: skip # noqa: E501
    assert [model.id for model in client.models.list()] == ["english", "second"]


@pytest.mark.extra
def test_the_ollama_client(url, vectorizer):  # noqa: F811
    ollama = pytest.importorskip("ollama")
    client = ollama.Client(host=url)
    found = client.embed(model="english", input=TEXTS[:2])
    assert np.allclose(found.embeddings, english(TEXTS[:2]), atol=1e-6)
    assert [model.model for model in client.list().models] == ["english", "second"]


@pytest.mark.extra
@pytest.mark.parametrize("version", ["Client", "ClientV2"])
def test_the_cohere_client(url, version):
    cohere = pytest.importorskip("cohere")
    client = getattr(cohere, version)(api_key="none", base_url=url)
    found = client.rerank(model="english", query="a kitten", documents=DOCUMENTS, top_n=2)
    assert next(one.index for one in found.results) == 1 and len(found.results) == 2


@pytest.mark.extra
def test_langchain(url, vectorizer):  # noqa: F811
    openai = pytest.importorskip("langchain_openai")
    ollama = pytest.importorskip("langchain_ollama")
    for embeddings in (
        openai.OpenAIEmbeddings(model="english", base_url=url + "/v1", api_key="none",
                                check_embedding_ctx_length=False),
        ollama.OllamaEmbeddings(model="english", base_url=url),
    ):  # fmt: skip
        found = embeddings.embed_documents(TEXTS[:2])
        assert np.allclose(found, english(TEXTS[:2]), atol=1e-6)


@pytest.mark.extra
def test_llama_index(url, vectorizer):  # noqa: F811
    like = pytest.importorskip("llama_index.embeddings.openai_like")
    tei = pytest.importorskip("llama_index.embeddings.text_embeddings_inference")
    for embeddings in (
        like.OpenAILikeEmbedding(model_name="english", api_base=url + "/v1", api_key="none"),
        tei.TextEmbeddingsInference(model_name="english", base_url=url),
    ):
        found = embeddings.get_text_embedding_batch(TEXTS[:2])
        assert np.allclose(found, english(TEXTS[:2]), atol=1e-6)


@pytest.mark.extra
def test_haystack(url, vectorizer):  # noqa: F811
    embedders = pytest.importorskip("haystack.components.embedders")
    from haystack.utils import Secret

    embedder = embedders.OpenAITextEmbedder(
        model="english", api_base_url=url + "/v1", api_key=Secret.from_token("none")
    )
    found = embedder.run(text=TEXTS[0])["embedding"]
    assert np.allclose(found, english(TEXTS[:1])[0], atol=1e-6)


@pytest.mark.extra
def test_any_encoder_is_served_by_its_name(tmp_path, monkeypatch):
    (tmp_path / "own.py").write_text(
        "def letters(texts):\n    return [[len(t), 1] for t in texts]\n"
    )
    monkeypatch.chdir(tmp_path)
    found = Running("--encoder", "own:letters")
    answer = found.post("/embed", {"inputs": "abcd"})
    assert np.allclose(answer, np.array([[4, 1]]) / 17**0.5)
    assert found.end() == 0
