"""Beyond one file: shards on any store, all cores, clusters."""

from pacsent.lazy import offer

__getattr__, __dir__ = offer(
    __name__,
    {
        "embed_shards": "shards",
        "predict_shards": "shards",
        "Manifest": "shards",
        "Embed": "jobs",
        "Predict": "jobs",
        "VectorWriter": "parquet",
    },
)
