"""`PlainEncoder`: what `WordVectors.encode` uses, without scikit-learn.

Importing scikit-learn takes longer than opening a model and encoding ten sentences.
"""

from functools import cached_property
from typing import Any

import numpy as np

from pacsent import registry
from pacsent.arrays import unit_rows
from pacsent.sentences.encoding import BatchPosterior, EncodingReport, stream_posteriors
from pacsent.sentences.pooling import PoolTable, pool, to_unit_length
from pacsent.storage import State
from pacsent.text.encoded import Encoded
from pacsent.text.texts import as_sentences
from pacsent.words.vectors import WordVectors


class PlainEncoder:
    """The vectors of `StaticEncoder` or of `AverageVectorizer(alpha=0)`, and nothing else of them.

    Parameters
    ----------
    word_vectors : WordVectors
    unit_length : bool
        Whether a vector is the direction of the sum of the words' vectors, or their mean.
    on_empty, batch_size, n_jobs
        As in AverageVectorizer.
    """

    def __init__(
        self,
        word_vectors: WordVectors,
        *,
        unit_length: bool,
        on_empty: str = "warn",
        batch_size: int = 1024,
        n_jobs: int | None = None,
    ):
        self.word_vectors = word_vectors
        self.unit_length = unit_length
        self.on_empty = on_empty
        self.batch_size = batch_size
        self.n_jobs = n_jobs

    @classmethod
    def from_static_encoder(cls, state: State) -> "PlainEncoder":
        """Make it from the saved state of a `StaticEncoder`."""
        parameters = dict(state.config["parameters"])
        parameters.pop("teacher", None)
        return cls(state.parts["words"], unit_length=True, **parameters)

    @property
    def n_dims(self) -> int:
        return self.word_vectors.n_dims

    def encode(self, texts: Any) -> np.ndarray:
        """Vectors of texts, (n, n_dims); zeros for a text without an in-vocabulary word."""
        if isinstance(texts, Encoded):
            texts = texts.checked(self.word_vectors.n_words)
        else:
            texts = list(as_sentences(texts))
        n_texts = texts.n_sentences if isinstance(texts, Encoded) else len(texts)
        means = np.empty((n_texts, self.n_dims), self._dtype)

        report = EncodingReport()
        for _ in stream_posteriors(self, texts, report, means):
            pass
        report.warn(self.on_empty, self.word_vectors.vocabulary, stacklevel=4)
        return means

    def similarity(self, a: Any, b: Any) -> np.ndarray:
        """Cosines of the vectors of sentences, (n_a, n_b), within [-1, 1]."""
        A = unit_rows(self.encode(a).astype(np.float32, copy=False))
        B = unit_rows(self.encode(b).astype(np.float32, copy=False))
        return np.clip(A @ B.T, -1.0, 1.0)

    # ---- what `stream_posteriors` asks for -----------------------------------------------------

    @property
    def _dtype(self) -> np.dtype:
        is_wide = any(table.is_double for table in self.word_vectors.tables.values())
        return np.dtype(np.float64 if is_wide else np.float32)

    def _batch_size(self, n_sentences: int, n_jobs: int) -> int:
        return batch_size(self.batch_size, n_sentences, n_jobs)

    def _record(self, reports: list) -> None:
        """Nothing."""

    def _prepared(self) -> BatchPosterior:
        def vectors(encoded: Encoded, means: np.ndarray) -> tuple[np.ndarray, Any]:
            n_tokens = np.diff(encoded.offsets)
            scale = np.ones(encoded.n_sentences)
            if not self.unit_length:
                scale /= np.maximum(n_tokens, 1)
            pool(encoded, [(self._table, None, scale)], means)
            if self.unit_length:
                to_unit_length(means)
            return np.zeros(encoded.n_sentences), None

        return vectors

    @cached_property
    def _table(self) -> PoolTable:
        return PoolTable(self.word_vectors.tables["input"], self._dtype)


def batch_size(size: int, n_sentences: int, n_jobs: int) -> int:
    """Sentences of a batch where a sentence takes microseconds, for a number of threads."""
    # Fewer texts are one batch: milliseconds of work, of which threads would double the CPU time.
    if n_sentences < 1024 or n_jobs == 1:  # or unknown
        return size
    # Several batches per thread, or all but one wait for the last.
    size_per_batch = max(64, n_sentences // (8 * n_jobs))
    return max(1, min(size, size_per_batch))


registry.register("plain encoder", "StaticEncoder", PlainEncoder.from_static_encoder)
registry.register("plain encoder", "unit", lambda words: PlainEncoder(words, unit_length=True))
registry.register("plain encoder", "mean", lambda words: PlainEncoder(words, unit_length=False))
