"""Datasets with several labels per text (GoEmotions)."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from pacsent.paper import benchmark_datasets as datasets
from pacsent.paper.benchmark_datasets import Entry, Member, lines_of


@dataclass(frozen=True, eq=False)
class Targets:
    """Texts by part, and their labels: (n, n_classes) of bool."""

    name: str
    texts: dict[str, list[str]]
    targets: dict[str, np.ndarray]
    classes: tuple[str, ...]
    digest: str


def _read_goemotions(members):
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
    return texts, targets, classes


TARGETS: dict[str, Entry] = {
    "goemotions": Entry(
        ("goemotions",), r"goemotions/((train|dev|test)\.tsv|labels\.txt)$", _read_goemotions,
        {"train": 43_410, "dev": 5_426, "test": 5_427, "classes": 28},
        "github.com/google-research/google-research (goemotions)",
        "7d10a50a6b980624c0dc0ab20c73bfc1bc9a7eca12e7bf69925b3c233b86d3d1",
    ),
}  # fmt: skip


def load_targets(name: str, data: str | Path | None = None, *, verify: bool = True) -> Targets:
    """Read a dataset, a key of `TARGETS`, as `datasets.load` does."""
    entry = TARGETS[name]
    path, (texts, targets, classes), digest = datasets.read_entry(name, entry, data)
    found = {part: len(some) for part, some in texts.items()} | {"classes": len(classes)}
    datasets.check_known(path, entry, found, digest, verify)
    return Targets(name, texts, targets, classes, digest)
