"""Text: reading files of any packing, normalising, the filter for dumps, labelled files."""

import lazy_loader

__getattr__, __dir__, _ = lazy_loader.attach(
    __name__,
    submod_attrs={
        "cleaning": ["clean_files"],
        "encoded": ["Encoded", "LowCoverageWarning"],
        "normalize": ["TOKENISERS", "clean", "tokenise_paper", "tokenise_unicode"],
        "reading": ["Source"],
        "tables": ["read_labelled_texts", "stream_texts"],
        "texts": ["as_sentences", "as_texts"],
    },
)

# The other names are for the packages of pacsent.
__all__ = [
    "Encoded",
    "LowCoverageWarning",
    "clean_files",
    "read_labelled_texts",
    "stream_texts",
    "tokenise_paper",
    "tokenise_unicode",
]
