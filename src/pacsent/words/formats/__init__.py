"""Read and write word vectors of other programs.

`read` recognises a file by its contents, not by its name, and never runs code from it: pickles are
rejected. docs/formats.md lists the formats and what each reader was checked against.
"""

from itertools import islice

from pacsent import registry
from pacsent.words.formats.detection import detect
from pacsent.words.formats.reading import ENCODING_ERRORS, read
from pacsent.words.formats.table_parts import CONTEXT, FORMATS
from pacsent.words.formats.writing import WRITABLE, check_targets, format_of_name, write
from pacsent.words.vectors import WordVectors

__all__ = [
    "CONTEXT", "ENCODING_ERRORS", "FORMATS", "WRITABLE", "check_targets", "describe", "detect",
    "format_of_name", "read", "write",
]  # fmt: skip

registry.register("reader", "word vectors", read)


def describe(words: WordVectors) -> dict:
    """What there is, for people and scripts: words, dimensions, tables, counts."""
    packed = words.packed.get("input")
    tables = ["input"] + ["output"] * (words.output_vectors is not None)
    return {
        "n_words": words.n_words,
        "n_dims": words.n_dims,
        "dtype": str(words.input_vectors.dtype) if packed is None else f"{packed.bits} bits",
        "tables": tables,
        "counts_known": words.counts is not None,
        "subwords": None if words.subwords is None else len(words.subwords.vectors),
        "first_words": list(islice(words.words, 5)),
    }
