"""Words: vocabulary, corpora, vectors with both matrices, training."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submodules=["formats"],
    submod_attrs={
        "corpus": ["Corpus"],
        "pieces": ["Pieces", "train_pieces"],
        "skipgram": ["SkipGram"],
        "vector_table": ["compress"],
        "vectors": ["WordVectors"],
        "vocabulary": ["Vocabulary"],
    },
)
