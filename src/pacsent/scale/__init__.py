"""Files to files: embed or classify many files on all cores of a machine, or on Ray."""

from pacsent.lazy import offer

__getattr__, __dir__ = offer(
    __name__,
    {
        "embed_shards": "shard_runner",
        "predict_shards": "shard_runner",
        "Manifest": "shard_runner",
        "Embed": "jobs",
        "Embedder": "engines",
        "embed": "engines",
        "on_ray": "engines",
        "Predict": "jobs",
    },
)
