"""Search: texts found by meaning and by words, reranking, guarantees, groups of texts."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submod_attrs={
        "chunking": ["passages"],
        "index": ["Hit", "Hits", "Index"],
        "reranking": ["rerank"],
        "text_clusters": ["clusters"],
    },
)
