"""An encoder that `mteb` (2.x) accepts, so that any of its benchmarks runs with our vectors.

import mteb
from pacsent.paper.mteb import Encoder

mteb.evaluate(Encoder("english"), mteb.get_benchmark("MTEB(eng, v2)"))
"""

from collections.abc import Iterable
from typing import Any

import numpy as np

import pacsent
from pacsent.encoders import as_encoder
from pacsent.encoders.methods import ready
from pacsent.maths.arrays import unit_rows


class Encoder:
    """Sentence vectors as mteb's EncoderProtocol asks for them.

    `model` is a name, path, WordVectors, or any encoder. For word vectors, `method` is one that
    learns nothing from text; by default the encoder of sentences that they come with, or SIF-sum.
    mteb keeps the results under `name`, owner/name.

    >>> from pacsent.paper.mteb import Encoder
    >>> encoder = Encoder("english")
    >>> encoder.encode([{"text": ["a glass of wine", "the cat slept"]}]).shape
    (2, 256)
    >>> encoder.similarity_pairwise(np.eye(2), np.ones((2, 2))).round(3)
    array([0.707, 0.707])
    """

    def __init__(self, model: Any, method: str | None = None, *, name: str | None = None):
        self.vectorizer = as_encoder(model) if method is None else ready(method, model)
        if "on_empty" in self.vectorizer.get_params():
            self.vectorizer.set_params(on_empty="ignore")
        shown = type(self.vectorizer).__name__.removesuffix("Vectorizer")
        self.name = name or f"pacsent/{model if isinstance(model, str) else 'words'}-{shown}"

    def encode(self, inputs: Iterable[dict], **context: Any) -> np.ndarray:
        """The vectors of batches of texts, {"text": [...]}; what mteb says about the task is not
        used: there are no prompts."""
        texts = [text for batch in inputs for text in batch["text"]]
        return np.asarray(self.vectorizer.transform(texts), dtype=np.float32)

    def similarity(self, embeddings1: Any, embeddings2: Any) -> np.ndarray:
        """Cosines of all pairs, (n_1, n_2); 0 with a text that has no known word."""
        return _rows(embeddings1) @ _rows(embeddings2).T

    def similarity_pairwise(self, embeddings1: Any, embeddings2: Any) -> np.ndarray:
        """Cosines of the rows with the same number, (n,)."""
        return np.einsum("ij,ij->i", _rows(embeddings1), _rows(embeddings2))

    @property
    def mteb_model_meta(self) -> Any:
        """What mteb writes with the results."""
        from mteb.models.model_meta import ModelMeta, ScoringFunction

        words = self.vectorizer.word_vectors
        return ModelMeta.create_empty(
            {
                "name": self.name,
                "revision": words.digest()[:16],
                "languages": ["eng-Latn"],
                "n_parameters": 2 * words.n_words * words.n_dims,
                "embed_dim": int(self.vectorizer._n_features_out),
                "framework": ["NumPy"],
                "similarity_fn_name": ScoringFunction.COSINE,
                "use_instructions": False,
                "open_weights": True,
                "training_datasets": set(),
                "release_date": None,
                "public_training_code": f"pacsent {pacsent.__version__}",
            }
        )


def _rows(vectors) -> np.ndarray:
    """Unit rows of one vector or of many."""
    return unit_rows(np.atleast_2d(np.asarray(vectors, dtype=float)))
