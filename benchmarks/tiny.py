"""Tiny generated data in the layout of the real folder, to see whether a benchmark runs at all.

    python benchmarks/tiny.py FOLDER
    PACSENT_TINY=1 python benchmarks/encode.py --data FOLDER

With PACSENT_TINY set, the benchmarks take the datasets from here. The numbers mean nothing.
"""

import json
import lzma
import sys
from itertools import pairwise
from pathlib import Path

import numpy as np

import pacsent
import target_data
from pacsent.datasets import load_books
from pacsent.paper import benchmark_datasets as datasets

CLASSES = {"subj": 2, "mr": 2, "imdb": 2, "trec": 6, "20news": 10}
WITHOUT_TEST_PART = ("subj", "mr")
N_TEXTS, N_TEST, N_PAIRS = 240, 80, 60
N_WORDS, N_DIMS = 4000, 300


def load(name: str, data=None, *, verify: bool = True):
    """A dataset of a few hundred beginnings of passages; the class is the author."""
    if name == "stsb":
        return _pairs()
    n_classes = CLASSES[name]
    found = [p for i, p in enumerate(load_books()) if i // 300 < n_classes]
    rng = np.random.default_rng(len(name))
    chosen = [found[i] for i in rng.permutation(len(found))[: N_TEXTS + N_TEST]]
    texts = [" ".join(p.text.split()[:25]) for p in chosen]
    classes = tuple(sorted({p.author for p in found}))
    labels = np.array([classes.index(p.author) for p in chosen])
    cut = len(texts) if name in WITHOUT_TEST_PART else N_TEXTS
    return datasets.Dataset(
        name, texts[:cut], labels[:cut], texts[cut:], labels[cut:], classes, f"tiny {name}"
    )


def _pairs():
    rng = np.random.default_rng(0)
    texts = [" ".join(p.text.split()[:12]) for p in load_books()]
    first, second, scores = {}, {}, {}
    for part in ("train", "dev", "test"):
        rows = rng.integers(len(texts), size=N_PAIRS)
        first[part], second[part] = ([texts[(i + by) % len(texts)] for i in rows] for by in (0, 1))
        scores[part] = rng.uniform(0, 5, N_PAIRS)
    return datasets.Pairs("stsb", first, second, scores, "tiny stsb")


def load_goemotions(data=None):
    """Beginnings of passages; labels are words that they hold."""
    words = ("the", "and", "of", "you", "was")
    texts, targets = {}, {}
    beginnings = [" ".join(p.text.split()[:25]) for p in load_books()]
    for i, part in enumerate(("train", "dev", "test")):
        texts[part] = beginnings[i * N_TEXTS :][:N_TEXTS]
        split = [text.lower().split() for text in texts[part]]
        targets[part] = np.array([[word in own for word in words] for own in split])
    return target_data.Targets(texts, targets, words)


def install() -> None:
    """Let every benchmark of this process load the tiny datasets."""
    datasets.load = load
    target_data.load_goemotions = load_goemotions


def write(folder: Path) -> None:
    """vectors/, english/, words/, corpora/ and books/ under a folder."""
    english = pacsent.load("english")
    words = english.words[:N_WORDS]
    rng = np.random.default_rng(0)
    noise = 0.1 * rng.standard_normal((2, N_WORDS, N_DIMS)).astype(np.float32)
    for table, own in zip(noise, (english.input_vectors, english.output_vectors)):
        table[:, : english.n_dims] += own[:N_WORDS]
    tables = dict(zip(("input", "output"), noise))
    vocabulary = "".join(f"{w}\t{n}\n" for w, n in zip(words, english.counts[:N_WORDS]))
    for place in ("vectors", "english", "words", "corpora", "books"):
        (folder / place).mkdir(parents=True)
    for place in ("vectors", "english"):
        (folder / place / "vocab.tsv").write_text(vocabulary)
        meta = {"rows": N_WORDS, "dim": N_DIMS, "hyperparameters": {}, "total_tokens": 10**6}
        (folder / place / "META.json").write_text(json.dumps(meta))
    for name, table in tables.items():
        np.save(folder / "vectors" / f"{name}.f16.npy", table.astype(np.float16))
        scale = np.abs(table).max(axis=1) / 127
        np.save(folder / "english" / f"{name}.scale.npy", scale.astype(np.float32))
        whole = np.round(table / scale[:, None]).astype(np.int8)
        np.save(folder / "english" / f"{name}.i8.npy", whole)
    pairs = "".join(f"{a}\t{b}\t{i % 10}\n" for i, (a, b) in enumerate(pairwise(words[:60])))
    for name in ("wordsim353.tsv", "simlex999.txt"):
        (folder / "words" / name).write_text(
            f"# test data\n# Word 1\tWord 2\tHuman (mean)\n{pairs}"
        )
    fours = "".join(f"{' '.join(words[i : i + 4])}\n" for i in range(0, 80, 4))
    (folder / "words" / "questions-words.txt").write_text(f": a section\n{fours}")
    passages = [p.text for p in load_books()[::5]]
    # some articles of many sentences: many_classes draws several from each
    articles = [" ".join(passages[i : i + 10]) for i in range(0, 400, 10)] + passages[400:]
    pages = "".join(
        f'  <page>\n    <title>P{i}</title>\n    <revision>\n      <text xml:space="preserve">'
        f"{text.replace('&', '').replace('<', '')}</text>\n    </revision>\n  </page>\n"
        for i, text in enumerate(articles)
    )
    with lzma.open(folder / "corpora" / "enwik8.xz", "wb") as file:
        file.write(f"<mediawiki>\n{pages}</mediawiki>\n".encode())
    books = "".join(f"{p.author}\t{p.book}\t{p.text}\n" for p in load_books()[::10])
    with lzma.open(folder / "books" / "passages.tsv.xz", "wb") as file:
        file.write(f"author\tbook\ttext\n{books}".encode())


if __name__ == "__main__":
    write(Path(sys.argv[1]))
