"""Read and write word vectors of other programs.

`read` recognises a file by its contents, not by its name, and never runs code from it: pickles are
rejected. docs/formats.md lists the formats.
"""

from pacsent import registry
from pacsent.words.formats.reading import detect, read
from pacsent.words.formats.writing import write

__all__ = ["detect", "read", "write"]

registry.register("file", "word vectors", read)
