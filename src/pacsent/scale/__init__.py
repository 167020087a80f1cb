"""Files to files: embed or classify many files on all cores of a machine, or on Ray."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submod_attrs={
        "engines": ["Embedder", "embed", "on_ray"],
        "jobs": ["Embed", "Predict"],
        "shard_runner": ["Manifest", "embed_shards", "predict_shards"],
    },
)
