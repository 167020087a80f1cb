"""The server against its own OpenAPI description, by requests that schemathesis generates."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("fastapi")

from fastapi.testclient import TestClient

import pacsent
from helpers import serve
from pacsent import CertifiedClassifier, Index, TextClassifier
from pacsent.sentences import as_encoder
from pacsent.web import ServedModel, create_app

ROOT = Path(__file__).parents[2]
NOUNS = ["wine", "cat", "bank", "tree", "river", "king", "sword", "train"]


def count_vowels(texts):
    """An encoder of a user."""
    return [[text.lower().count(vowel) for vowel in "aeiou"] for text in texts]


@pytest.fixture(scope="module")
def index():
    """A certified index with metadata."""
    made = Index("english")
    ids = made.add(NOUNS, metadata=[{"year": 2020 + number} for number in range(len(NOUNS))])
    made.certify(NOUNS, ids, k=3)
    return made


@pytest.fixture(scope="module")
def classifier():
    """A certified classifier, of texts that are no near-duplicates."""
    rng = np.random.default_rng(0)
    words = np.array([f"word{number}" for number in range(300)])
    texts = [" ".join(rng.choice(words, 8)) for _ in range(120)]
    return CertifiedClassifier(TextClassifier(None), random_state=0).fit(texts, ["a", "b"] * 60)


@pytest.fixture(scope="module")
def client(index, classifier):
    models = [
        ServedModel("vowels", as_encoder(count_vowels)),
        ServedModel("nouns", index.encoder, index=index),
        ServedModel("classes", None, classifier),
    ]
    return TestClient(create_app(models))


@pytest.mark.extra(needs="clients")
@pytest.mark.parametrize("seed", [1, 2])
def test_the_server_answers_as_its_description_says(index, classifier, tmp_path, seed):
    pytest.importorskip("schemathesis")
    pacsent.save(index, tmp_path / "nouns")
    pacsent.save(classifier, tmp_path / "classes")
    server = serve(tmp_path / "nouns", tmp_path / "classes")

    address = f"{server.url}/openapi.json"
    options = ["--seed", str(seed), "--max-examples", "30", "--no-color"]
    command = [sys.executable, "-m", "schemathesis.cli", "run", address, *options]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)

    assert server.end() == 0
    assert done.returncode == 0, done.stdout
    assert "generated" in done.stdout


@pytest.mark.parametrize("error", [5e-324, 1e-300, 1 - 2**-53])
def test_an_extreme_error_rate_is_answered(client, error):
    response = client.post("/classify", json={"texts": "word1 word2", "error": error})
    assert response.status_code == 200


@pytest.mark.parametrize("path", ["/health", "/metrics", "/certificates", "/v1/models", "/"])
def test_a_post_to_what_only_answers_get_is_not_allowed(client, path):
    response = client.post(path, content=b"anything")
    assert response.status_code == 405 and "GET" in response.headers["allow"]


def test_the_description_says_what_metrics_are_and_that_a_model_may_be_missing(client):
    paths = client.get("/openapi.json").json()["paths"]
    assert list(paths["/metrics"]["get"]["responses"]["200"]["content"]) == ["text/plain"]
    assert "4XX" in paths["/v1/models/{name}"]["get"]["responses"]


def test_the_most_dimensions_are_described_for_each_model(client):
    jsonschema = pytest.importorskip("jsonschema")
    post = client.get("/openapi.json").json()["paths"]["/v1/embeddings"]["post"]
    schema = post["requestBody"]["content"]["application/json"]["schema"]
    n_nouns = client.get("/v1/models/nouns").json()["pacsent"]["dimensions"]

    for model, n_dims in (("vowels", 5), (None, 5), ("nouns", n_nouns)):
        for dimensions in (n_dims, n_dims + 1):
            body = {"input": "a", "dimensions": dimensions}
            if model is not None:
                body["model"] = model
            is_described = jsonschema.Draft202012Validator(schema).is_valid(body)
            status = client.post("/v1/embeddings", json=body).status_code
            assert is_described == (status == 200) == (dimensions == n_dims)


def test_what_no_served_model_can_do_is_described_as_null():
    plain = Index("english")
    plain.add(NOUNS)
    uncertified = TextClassifier(None).fit(["good film", "bad film"] * 9, ["a", "b"] * 9)
    models = [ServedModel("a", plain.encoder, index=plain), ServedModel("b", None, uncertified)]
    paths = TestClient(create_app(models)).get("/openapi.json").json()["paths"]

    for path, field in (("/search", "guarantee"), ("/classify", "error")):
        content = paths[path]["post"]["requestBody"]["content"]["application/json"]
        assert content["schema"]["properties"][field]["type"] == "null"


@pytest.mark.parametrize(
    ("path", "field", "message"),
    [
        ("/classify", "text", "text is not a field of this request. Did you mean texts?"),
        ("/search", "querys", "querys is not a field of this request. Did you mean query?"),
        ("/classify", "zzz", "zzz is not a field of this request."),
    ],
)
def test_a_wrong_name_of_a_field_is_answered_with_the_right_one(client, path, field, message):
    response = client.post(path, json={field: "a"})
    assert response.status_code == 422
    assert response.json()["error"]["message"] == message


def test_documents_that_are_objects_are_described(client):
    post = client.get("/openapi.json").json()["paths"]["/v1/rerank"]["post"]
    schema = post["requestBody"]["content"]["application/json"]["schema"]
    kinds = [kind["type"] for kind in schema["properties"]["documents"]["items"]["anyOf"]]
    assert kinds == ["string", "object"]
