"""Reranking: documents that another search found, in the order in which they answer a query."""

from collections.abc import Iterable
from typing import Any

import numpy as np

from pacsent.maths.checks import check_count
from pacsent.search.index import Index
from pacsent.search.snapshot import Hit
from pacsent.text.texts import as_texts


def rerank(
    query: str, documents: Iterable[str], encoder: Any = "english", top_n: int | None = None
) -> list[Hit]:
    """Order documents by how well they answer a query, by meaning and by words.

    The `id` of a hit is the position of its document. The score is the logistic function of the sum
    of the standardised cosine and BM25; it is no probability, and 0 for a document that shares
    nothing with the query.

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
    >>> [hit.id for hit in rerank("a sleeping kitten", ["red wine", "the cat slept"])]
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
    ranked = [Hit(hit.id, float(1 / (1 + np.exp(-hit.score))), hit.text) for hit in hits]
    others = set(range(len(documents))) - {hit.id for hit in hits}
    ranked += [Hit(i, 0.0, documents[i]) for i in sorted(others)]
    return ranked[:top_n]
