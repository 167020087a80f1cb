"""Text to token ids, the hot path of every encoder, against Python's split and a dict.

The baseline is the fastest loop in plain Python: `split` and a dict on text that is already clean.
Ours is measured on the same text, and on the raw text, where it cleans on the way. The text: the
training reviews of IMDb; the vocabulary: vocab.tsv of the provided vectors.

    python benchmarks/tokenise.py [--data FOLDER] [--save] [--name NAME]
"""

import itertools
import os
import tarfile
import time
from pathlib import Path

import numpy as np

from harness import finish, parser_for
from pacsent import Vocabulary
from pacsent.text.normalise import clean, tokenise_paper


def reviews(archive: Path, n_bytes: int) -> list[str]:
    """Texts of the archive until there are n_bytes of them."""
    texts, size = [], 0
    with tarfile.open(archive) as members:
        for member in members:
            if not member.isfile() or not member.name.endswith(".txt") or "urls" in member.name:
                continue
            texts.append(members.extractfile(member).read().decode("utf-8"))
            size += len(texts[-1])
            if size >= n_bytes:
                break
    return texts


def split_and_dict(index: dict, texts: list[str]):
    ids: list[int] = []
    offsets = [0]
    for one in texts:
        ids += [index[token] for token in one.split() if token in index]
        offsets.append(len(ids))
    return np.array(ids, dtype=np.int32), np.array(offsets)


def split_and_get(index: dict, texts: list[str]):
    """The same with as little bytecode as possible: one map over all tokens."""
    lists = [one.split() for one in texts]
    ids = np.fromiter(
        map(index.get, itertools.chain.from_iterable(lists), itertools.repeat(-1)), dtype=np.int32
    )
    ends = np.cumsum([0, *map(len, lists)])
    known = np.concatenate([[0], np.cumsum(ids >= 0)])
    return ids[ids >= 0], known[ends]


def reference(index: dict, texts: list[str]):
    ids: list[int] = []
    offsets = [0]
    for one in texts:
        ids += [index[token] for token in tokenise_paper(one) if token in index]
        offsets.append(len(ids))
    return np.array(ids, dtype=np.int32), np.array(offsets)


def best_of(n: int, function, *arguments):
    seconds, result = [], None
    for _ in range(n):
        start = time.perf_counter()
        result = function(*arguments)
        seconds.append(time.perf_counter() - start)
    return min(seconds), result


def main():
    parser = parser_for(__doc__)
    parser.add_argument("--megabytes", type=float, default=30)
    parser.add_argument("--repeats", type=int, default=5)
    arguments = parser.parse_args()

    raw = reviews(arguments.data / "datasets" / "aclImdb.tar.xz", int(arguments.megabytes * 1e6))
    cleaned = [clean(one) for one in raw]
    with open(arguments.data / "vectors" / "vocab.tsv", encoding="utf-8") as file:
        vocabulary = Vocabulary([line.split("\t")[0] for line in file])
    index = vocabulary.index
    vocabulary.encode(["compile"])

    def ours(n_jobs):
        return lambda _, texts: vocabulary.encode(texts, n_jobs=n_jobs)[:2]

    n_cores = os.cpu_count() or 1
    contenders = [
        ("cleaned", "Python split + dict", split_and_dict),
        ("cleaned", "Python split + map(dict.get)", split_and_get),
        ("cleaned", "pacsent, 1 thread", ours(1)),
        ("cleaned", f"pacsent, {n_cores} threads", ours(n_cores)),
        ("raw", "Python re + split + dict", reference),
        ("raw", "pacsent, 1 thread", ours(1)),
        ("raw", f"pacsent, {n_cores} threads", ours(n_cores)),
    ]
    rows, expected = [], None
    for kind, name, function in contenders:
        texts = cleaned if kind == "cleaned" else raw
        n_bytes = sum(len(one.encode()) for one in texts)
        seconds, (ids, offsets) = best_of(arguments.repeats, function, index, texts)
        if expected is None:
            expected = ids, offsets
        assert np.array_equal(ids, expected[0])
        assert np.array_equal(offsets, expected[1])
        rows.append(
            {
                "text": kind,
                "who": name,
                "MB/s": n_bytes / seconds / 1e6,
                "tokens/s": ids.size / seconds,
                "seconds": seconds,
            }
        )
    # the floor: every byte read once
    data = np.frombuffer("".join(cleaned).encode(), dtype=np.uint8)
    words = data[: data.size // 8 * 8].view(np.uint64)
    seconds, _ = best_of(arguments.repeats, np.bitwise_or.reduce, words)
    floor = data.size / seconds / 1e6
    speed = {(row["text"], row["who"]): row["MB/s"] for row in rows}
    one = speed["cleaned", "pacsent, 1 thread"]
    baseline = max(v for (kind, who), v in speed.items() if kind == "cleaned" and "Python" in who)
    summary = {
        "ratio": one / baseline,
        "ratio_raw": speed["raw", "pacsent, 1 thread"] / speed["raw", "Python re + split + dict"],
        "ratio_all_cores": speed["cleaned", f"pacsent, {n_cores} threads"] / baseline,
        "mb_per_s_one_core": one,
        "mb_per_s_one_core_raw": speed["raw", "pacsent, 1 thread"],
        "floor_mb_per_s_reading_once": floor,
        "times_the_floor": floor / one,
    }
    title = f"Text to token ids, {len(raw):,} reviews, {len(vocabulary):,} words"
    finish("tokenise", rows, summary=summary, title=title, save=arguments.save, name=arguments.name)


if __name__ == "__main__":
    main()
