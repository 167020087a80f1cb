"""Read and write word vectors of other programs.

`read` recognises a file by its contents, not by its name, and never runs code from it: pickles are
rejected. docs/formats.md lists the formats.
"""

from pacsent import registry
from pacsent.words.formats.reading import CONTEXT, FORMATS, detect, read
from pacsent.words.formats.writing import WRITABLE, check_targets, format_of_name, write

__all__ = ["CONTEXT", "FORMATS", "WRITABLE", "check_targets", "detect", "format_of_name", "read"]
__all__ += ["write"]

registry.register("file", "word vectors", read)
