"""Files to files: embed or classify many files on all cores of a machine, or on Ray."""

import lazy_loader

__getattr__, __dir__, _ = lazy_loader.attach(
    __name__,
    submod_attrs={
        "jobs": ["Embed", "Predict"],
        "manifest": ["Manifest"],
        "ray_engine": ["Embedder", "on_ray"],
        "shard_runner": ["embed_shards", "predict_shards"],
        "stores": ["is_url"],
    },
)

# The other names are for the packages of pacsent.
__all__ = ["Embedder", "Manifest", "embed_shards", "on_ray", "predict_shards"]
