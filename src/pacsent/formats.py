"""Word vectors of other programs: read, write, and say clearly what cannot be read.

`read` recognises a file by what is in it. Nothing here runs code from a file: pickles are named
and refused. Our own folder is in `storage`.
"""

from pathlib import Path

import numpy as np

from pacsent import storage
from pacsent.vocabulary import Vocabulary
from pacsent.word_vectors import WordVectors


def read(path, *, normalise="paper") -> WordVectors:
    """Read word vectors in any known format."""
    path = Path(path)
    if not path.exists():
        raise FileNotFoundError(f"There is no file or folder {path}. Check the spelling.")
    if (path / storage.CONFIG).exists():
        return storage.load(path)
    return _read_npy_pair(path, normalise)


def _read_npy_pair(folder, normalise) -> WordVectors:
    tables = {}
    for name in ("input", "output"):
        found = sorted(folder.glob(f"{name}*.npy"))
        if len(found) == 1:
            tables[name] = np.load(found[0], mmap_mode="r", allow_pickle=False)
    words, counts = [], []
    with open(folder / "vocab.tsv", encoding="utf-8", newline="\n") as lines:
        for line in lines:
            word, count = line.rstrip("\n").split("\t")
            words.append(word)
            counts.append(int(count))
    vocabulary = Vocabulary(words, counts, normalise=normalise)
    return WordVectors(vocabulary, tables["input"], tables.get("output"))
