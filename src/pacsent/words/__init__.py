"""Words: vocabulary, corpora, vectors with both tables, training, foreign formats, word tasks."""

from pacsent.lazy import offer

__getattr__, __dir__ = offer(
    __name__,
    {
        "Vocabulary": "vocabulary", "Corpus": "corpus", "WordVectors": "vectors",
        "Subwords": "subwords", "SkipGram": "skipgram", "evaluate_words": "tasks",
        "formats": "formats", "Pieces": "pieces", "train_pieces": "pieces",
    },
)  # fmt: skip
