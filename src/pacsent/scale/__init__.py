"""Many files on any store, on all cores or on a cluster; training on several machines."""

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
        "count_words": "corpora",
        "build_corpus": "corpora",
        "Counts": "corpora",
        "Schedule": "distributed_training",
        "train_worker": "distributed_training",
        "train_words": "distributed_training",
        "Alone": "groups",
        "Threads": "groups",
        "Distributed": "groups",
    },
)
