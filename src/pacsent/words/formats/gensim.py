"""Models that gensim holds in memory."""

from collections.abc import Callable
from typing import Any

import numpy as np

from pacsent.words.subwords import Subwords
from pacsent.words.vectors import WordVectors
from pacsent.words.vocabulary import Vocabulary


def from_gensim(
    model: Any, *, normalise: str | Callable[[str], list[str]] = "paper"
) -> WordVectors:
    """Word vectors of a gensim model in memory: Word2Vec, FastText, Doc2Vec or KeyedVectors.

    The tables are copied, so that further training of the model changes nothing here. The output
    table is there for models trained with negative sampling; KeyedVectors have none. The counts
    that gensim makes up for a file without counts (n_words, n_words - 1, ..., 1) are not taken.
    """
    vectors = getattr(model, "wv", model)
    words = getattr(vectors, "index_to_key", None)
    table = getattr(vectors, "vectors", None)
    if words is None or table is None:
        raise TypeError(
            "model must be a gensim (4 or newer) Word2Vec, FastText, Doc2Vec or KeyedVectors. Got "
            f"{type(model).__name__} instead."
        )
    n_words = len(words)
    counts = getattr(vectors, "expandos", {}).get("count")
    if counts is not None:
        counts = np.array(counts, dtype=np.int64)
        made_up = np.arange(n_words, 0, -1)
        if counts.shape != (n_words,) or (vectors is model and (counts == made_up).all()):
            counts = None
    training: dict = {"format": f"gensim {type(model).__name__}"}
    output = getattr(model, "syn1neg", None) if getattr(model, "negative", 0) else None
    if vectors is not model:
        for ours, theirs in (
            ("window", "window"), ("n_epochs", "epochs"), ("n_negatives", "negative"),
            ("subsample", "sample"), ("min_count", "min_count"), ("noise_power", "ns_exponent"),
        ):  # fmt: skip
            value = getattr(model, theirs, None)
            if isinstance(value, (int, float)):
                training[ours] = value
    subwords = None
    ngrams = getattr(vectors, "vectors_ngrams", None)
    if ngrams is not None and len(ngrams) and vectors.max_n > 0:
        ngrams = np.array(ngrams, dtype=np.float32)
        subwords = Subwords(ngrams, max(1, vectors.min_n), vectors.max_n)
    return WordVectors(
        Vocabulary(list(words), counts, normalise=normalise),
        np.array(table[:n_words], dtype=np.float32),
        None if output is None else np.array(output, dtype=np.float32),
        training=training,
        subwords=subwords,
    )
