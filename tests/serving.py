"""A server within the process of the tests, and what is sent to it."""

import numpy as np
from fastapi.testclient import TestClient

from pacsent.web import ServerSettings, create_app

TEXTS = ["a glass of wine", "the cat slept", "shares fell again", "zzqx", ""]


def client_of(models, **settings):
    """A client of a server with these models and settings."""
    return TestClient(create_app(models, ServerSettings(**settings)))


def post(client, path, body, **headers):
    """The status of the answer, and its content."""
    response = client.post(path, json=body, headers=headers)
    return response.status_code, response.json()


def encode_at_length_one(vectorizer, texts):
    """Vectors as /v1/embeddings returns them; zero vectors stay zero."""
    vectors = vectorizer.transform(texts)
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors / np.maximum(lengths, 1e-30)
