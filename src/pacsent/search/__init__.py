"""Search by meaning and by words, reranking, guarantees, clusters of texts."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submod_attrs={
        "certificate": ["SearchCertificate"],
        "chunking": ["split_passages"],
        "index": ["Hits", "Index", "rerank"],
        "snapshot": ["Hit"],
        "text_clusters": ["clusters"],
    },
)
