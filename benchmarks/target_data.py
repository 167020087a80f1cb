"""GoEmotions: texts with several labels each."""

from pathlib import Path
from typing import NamedTuple

import numpy as np

from pacsent.paper import benchmark_datasets as datasets
from pacsent.paper.benchmark_datasets import Entry, Member, lines_of


class Targets(NamedTuple):
    """Texts by part, and their labels: (n, n_classes) of bool."""

    texts: dict[str, list[str]]
    targets: dict[str, np.ndarray]
    classes: tuple[str, ...]


def _read(members) -> Targets:
    contents = {path.rsplit("/")[-1]: Member(path, content) for path, content in members}
    classes = tuple(lines_of(contents.pop("labels.txt"), "utf-8"))
    texts: dict[str, list[str]] = {}
    targets: dict[str, np.ndarray] = {}
    for file, member in contents.items():
        rows = [line.split("\t") for line in lines_of(member, "utf-8")[1:]]
        part = file.removesuffix(".tsv")
        texts[part] = [row[0] for row in rows]
        targets[part] = np.zeros((len(rows), len(classes)), bool)
        for row, (_, labels, _) in enumerate(rows):
            targets[part][row, [int(label) for label in labels.split(",")]] = True
    return Targets(texts, targets, classes)


_ENTRY = Entry(
    ("goemotions",), r"goemotions/((train|dev|test)\.tsv|labels\.txt)$", _read,
    {"train": 43_410, "dev": 5_426, "test": 5_427, "classes": 28},
    "github.com/google-research/google-research (goemotions)",
    "7d10a50a6b980624c0dc0ab20c73bfc1bc9a7eca12e7bf69925b3c233b86d3d1",
)  # fmt: skip


def load_goemotions(data: str | Path | None = None) -> Targets:
    """Read GoEmotions, as `datasets.load` reads other datasets."""
    path, content, digest = datasets.read_entry("goemotions", _ENTRY, data)
    sizes = {part: len(texts) for part, texts in content.texts.items()}
    datasets.check_known(path, _ENTRY, sizes | {"classes": len(content.classes)}, digest, True)
    return content
