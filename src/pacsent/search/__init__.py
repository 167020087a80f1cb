"""Search: texts found by meaning and by words, reranking, guarantees, groups of texts."""

from pacsent.lazy import offer

__getattr__, __dir__ = offer(
    __name__,
    {
        "Index": "index",
        "Hit": "index",
        "Hits": "index",
        "SearchCertificate": "search_certificate",
        "passages": "chunking",
        "rerank": "reranking",
        "clusters": "text_clusters",
    },
)
