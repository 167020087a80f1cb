"""Text: reading files of any packing, normalising, the filter for dumps, labelled files."""

from pacsent.lazy import offer

__getattr__, __dir__ = offer(
    __name__,
    {
        "Source": "reading", "check_input": "reading",
        "total_size": "reading", "iter_chunks": "reading", "not_utf8": "reading",
        "empty_file": "reading", "cut_after_letters": "reading", "cut_at_newline": "reading",
        "cut_at_space": "reading", "Encoded": "encoded", "LowCoverageWarning": "encoded",
        "as_sentences": "texts", "as_texts": "texts", "clean": "normalise",
        "tokenise_paper": "normalise", "tokenise_unicode": "normalise", "TOKENISERS": "normalise",
        "clean_files": "cleaning", "Dataset": "labelled", "read_labelled": "labelled",
        "read_labelled_texts": "tables", "stream_texts": "tables",
    },
)  # fmt: skip
