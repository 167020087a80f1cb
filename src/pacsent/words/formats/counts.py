"""Files with a word and its count per line: word2vec's -save-vocab, GloVe's vocab.txt."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from pacsent.words.formats.table_parts import Stream, decoded


def read_counts(path: Path, words: Sequence[str], encoding_errors: str) -> np.ndarray:
    """The counts in a file with a word and its count per line, in the order of `words`."""
    if not path.exists():
        raise FileNotFoundError(f"There is no file {path}. Check the spelling.")
    with Stream(path) as stream:
        *lines, last = b"".join(stream.blocks()).split(b"\n")
    if last:
        raise ValueError(
            f"{path} must end with a line break. It does not, so it may be cut off. Copy it again; "
            "if it is complete, add a line break at its end."
        )
    separator = b"\t" if lines and b"\t" in lines[0] else b" "
    raw_words, counts = [], []
    for number, line in enumerate(lines, 1):
        word, _, count = line.rstrip(b"\r").rpartition(separator)
        if not word or not count.isdigit() or len(count) > 18:
            raise ValueError(
                f"Line {number:,} of {path} must be a word and its count. Got "
                f"{line[:60].decode('utf-8', 'replace')!r} instead."
            )
        raw_words.append(word)
        counts.append(int(count))
    listed = decoded(path, raw_words, encoding_errors)
    if listed == words:
        return np.array(counts, dtype=np.int64)
    count_of = dict(zip(listed, counts))
    if missing := [word for word in words if word not in count_of]:
        raise ValueError(
            f"{path} must hold a count for every word of the vectors. {len(missing):,} have none, "
            f"the first is {missing[0]!r}. Use the list that belongs to these vectors."
        )
    return np.array([count_of[word] for word in words], dtype=np.int64)
