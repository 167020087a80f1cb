"""Models that several files serve."""

import json
import logging

import pytest

from pacsent import CertifiedClassifier, TextClassifier, make_encoder


@pytest.fixture(scope="session")
def vectorizer():
    """Sentence vectors of the English model."""
    return make_encoder("SIF-sum", "english", on_empty="ignore").fit([])


@pytest.fixture(scope="session")
def classifier():
    """A classifier of reviews by their words: "yes" if they are good and lovely."""
    texts = []
    for i in range(150):
        topic = "wine" if i % 3 else "cat"
        for adjectives in ("good and lovely", "bad and boring"):
            prefix = adjectives[:3]  # makes words that keep texts from being near-duplicates
            texts.append(f"a {adjectives} film number {i} {topic} x{prefix}{i} y{prefix}{i}")
    unigrams = TextClassifier(None, ngrams=(1, 1))
    model = CertifiedClassifier(unigrams, calibration_size=0.4, random_state=0)
    return model.fit(texts, ["yes", "no"] * 150)


@pytest.fixture
def log_lines(monkeypatch):
    """The lines that the server writes, as dictionaries."""
    from pacsent.web.logs import LOGGER, JsonFormatter

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
