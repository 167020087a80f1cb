"""Reading word vectors: word2vec text and binary beside gensim, and opening our own folder.

    python benchmarks/formats.py [--words 100000] [--dims 300] [--save] [--name NAME]

The files are made up, in a temporary folder. Both read the same bytes and must end with the same
numbers. Floor: the file's bytes once through memory and the table's once into it.
"""

import tempfile
import time
from pathlib import Path

import numpy as np

from harness import finish, parser_for
from pacsent import Vocabulary, WordVectors, load, save
from pacsent.words import formats


def best(function, repeats):
    """(wall seconds, processor seconds, result) of the fastest of a few runs."""
    runs = []
    for _ in range(repeats):
        wall, processor = time.perf_counter(), time.process_time()
        result = function()
        runs.append((time.perf_counter() - wall, time.process_time() - processor))
    return *min(runs), result


def made(n_words, n_dims):
    rng = np.random.default_rng(0)
    table = rng.normal(size=(n_words, n_dims)).astype(np.float32) * np.float32(0.3)
    counts = np.arange(n_words, 0, -1)
    return WordVectors(Vocabulary([f"word{i}" for i in range(n_words)], counts), table)


def main():
    parser = parser_for(__doc__)
    parser.add_argument("--words", type=int, default=100_000)
    parser.add_argument("--dims", type=int, default=300)
    parser.add_argument("--open-words", type=int, default=2_500_000)
    parser.add_argument("--repeats", type=int, default=2)
    arguments = parser.parse_args()

    from gensim.models import KeyedVectors

    words = made(arguments.words, arguments.dims)
    rows, ratios = [], {}
    with tempfile.TemporaryDirectory() as folder:
        for name in ("v.txt", "v.bin"):
            path = Path(folder) / name
            [path] = formats.write(words, path)
            binary = name == "v.bin"
            kind = formats.FORMATS["word2vec-binary" if binary else "word2vec-text"]
            megabytes = path.stat().st_size / 1e6
            formats.read(path)  # compiled code is loaded
            ours = best(lambda path=path: formats.read(path), arguments.repeats + 1)
            theirs = best(
                lambda path=path, binary=binary: KeyedVectors.load_word2vec_format(
                    str(path), binary=binary
                ),
                arguments.repeats,
            )
            assert (ours[2].input_vectors == theirs[2].vectors).all()
            assert (ours[2].input_vectors == words.input_vectors).all()
            for who, (wall, processor, _) in (("pacsent", ours), ("gensim", theirs)):
                rows.append(
                    {
                        "format": kind,
                        "reader": who,
                        "seconds": wall,
                        "processor seconds": processor,
                        "MB/s": megabytes / wall,
                    }
                )
            ratios[name] = theirs[0] / ours[0]
        save(made(arguments.open_words, 8).astype(np.float16), Path(folder) / "model")
        wall, processor, opened = best(lambda: load(Path(folder) / "model"), 5)
        assert opened.n_words == arguments.open_words
        rows.append(
            {
                "format": f"our folder, {arguments.open_words:,} words",
                "reader": "pacsent",
                "seconds": wall,
                "processor seconds": processor,
                "MB/s": None,
            }
        )
    finish(
        "formats",
        rows,
        title=f"Reading {arguments.words:,} x {arguments.dims} word vectors",
        summary={
            "ratio": min(ratios.values()),
            "ratio_text": ratios["v.txt"],
            "ratio_binary": ratios["v.bin"],
            "open_milliseconds": 1e3 * wall,
        },
        save=arguments.save,
        name=arguments.name,
    )


if __name__ == "__main__":
    main()
