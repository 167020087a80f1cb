"""Reranking: documents that another search found, in the order in which they answer a query."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from pacsent.maths.checks import check_count
from pacsent.search.index import Index
from pacsent.text.texts import as_texts


@dataclass(frozen=True)
class Ranked:
    """A document: its place in what was given, its score in [0, 1], and its text."""

    index: int
    score: float
    text: str


def rerank(
    query: str, documents: Iterable[str], encoder: Any = "english", top_n: int | None = None
) -> list[Ranked]:
    """Order documents by how well they answer a query, by meaning and by words.

    The score is the logistic function of the sum of the standardised cosine and BM25. It orders
    the documents of one call; it is no probability. A document that shares nothing with the query
    has the score 0.

    Parameters
    ----------
    query : str
    documents : iterable of str
    encoder : encoder, default="english"
        What `Index` takes.
    top_n : int, optional
        How many to return; all by default.

    Examples
    --------
    >>> [document.index for document in rerank("a sleeping kitten", ["red wine", "the cat slept"])]
    [1, 0]
    """
    if not isinstance(query, str):
        raise TypeError(f"query must be a str. Got {type(query).__name__} instead.")
    if top_n is not None:
        check_count("top_n", top_n)
    documents = as_texts(documents, "documents")
    if not documents:
        return []
    index = Index(encoder, "exact")
    index.add(documents)
    hits = index.search(query, len(documents))
    ranked = [Ranked(hit.id, float(1 / (1 + np.exp(-hit.score))), hit.text) for hit in hits]
    others = set(range(len(documents))) - {document.index for document in ranked}
    ranked += [Ranked(i, 0.0, documents[i]) for i in sorted(others)]
    return ranked[:top_n]
