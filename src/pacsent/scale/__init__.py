"""Beyond one file: shards on any store, all cores, clusters."""

from pacsent.lazy import offer

__getattr__, __dir__ = offer(
    __name__,
    {
        "embed_shards": "shards",
        "predict_shards": "shards",
        "Manifest": "shards",
        "Embed": "jobs",
        "Embedder": "engines",
        "embed": "engines",
        "on_ray": "engines",
        "Predict": "jobs",
        "VectorWriter": "parquet",
        "count_words": "corpora",
        "build_corpus": "corpora",
        "Counts": "corpora",
        "Schedule": "training",
        "train_worker": "training",
        "train_words": "training",
        "Alone": "groups",
        "Threads": "groups",
        "Distributed": "groups",
    },
)
