"""A training as a plan that can be stored, and its checkpoints.

A checkpoint is one file: plan and progress as a line of JSON, then input and output vectors as they
are in memory. The text is in a folder beside it, unless it was a `Corpus` already.
"""

import contextlib
import json
import os
import shutil
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from pacsent.files import replacing
from pacsent.storage.checksums import checked_json, checksum_of_json

CHECKPOINT = "checkpoint"
CORPUS = "corpus"
GPU_CHECKPOINT = "gpu"  # a folder: a training on a GPU has its own format


@dataclass(frozen=True)
class TrainingSettings:
    """All that decides the vectors but for threads: parameters of `SkipGram`, seed and text."""

    n_dims: int
    window: int
    subsample: float
    n_epochs: int
    n_negatives: int
    noise_power: float
    learning_rate: float
    min_count: int
    device: str
    seed: int
    digest: str  # of the corpus


@dataclass(frozen=True)
class TrainingPlan:
    """A training that can be started, and be continued by another process."""

    settings: TrainingSettings
    corpus: str  # its folder: absolute, or in the folder of the checkpoint
    n_jobs: int | None
    random_state: int | None
    checkpoint_every: float  # seconds


@dataclass(frozen=True)
class Progress:
    """Progress of a training on the CPU."""

    next_chunk: int  # the first one that is not trained, counted over all epochs
    chunk: int  # tokens of a chunk
    words_done: int
    sums: list[list[float]]  # (n_epochs, 2): loss, pairs


def check_no_checkpoint(folder: Path) -> None:
    """Raise ValueError if an unfinished training would be overwritten."""
    if (folder / CHECKPOINT).exists():
        raise ValueError(
            f"checkpoint_dir must be a folder without an unfinished training. Got {folder} "
            "instead. Continue with SkipGram.resume(checkpoint_dir), or delete the folder."
        )


def write_checkpoint(
    folder: Path,
    plan: TrainingPlan,
    progress: Progress | None = None,
    tables: Sequence[np.ndarray] = (),
) -> None:
    """Write a checkpoint; the one before stays valid until this one is complete.

    Before the first chunk there is no `progress` and `tables` are empty.
    """
    content = {"format_version": 1, **asdict(plan)}
    if progress is not None:
        content |= asdict(progress)
    header = {**content, "checksum": checksum_of_json(content)}

    folder.mkdir(parents=True, exist_ok=True)
    with replacing(folder / CHECKPOINT) as file:
        file.write(json.dumps(header).encode() + b"\n")
        for table in tables:
            file.write(table.data)


def read_checkpoint(folder: Path) -> tuple[TrainingPlan, Progress | None]:
    """The plan of an unfinished training, and its progress if a chunk was trained."""
    path = folder / CHECKPOINT
    if not path.is_file():
        raise FileNotFoundError(
            f"{folder} must be the folder of an unfinished training. It holds no file "
            f"{CHECKPOINT}. Start the training anew."
        )

    with open(path, "rb") as file:
        content = checked_json(file.readline())
    if content is None:
        raise ValueError(f"{path} must be a complete checkpoint. It is damaged. Start anew.")

    plan = TrainingPlan(
        settings=TrainingSettings(**content["settings"]),
        corpus=content["corpus"],
        n_jobs=content["n_jobs"],
        random_state=content["random_state"],
        checkpoint_every=content["checkpoint_every"],
    )
    if "next_chunk" not in content:
        return plan, None

    progress = Progress(
        next_chunk=content["next_chunk"],
        chunk=content["chunk"],
        words_done=content["words_done"],
        sums=content["sums"],
    )
    return plan, progress


def read_tables(folder: Path, tables: Sequence[np.ndarray]) -> int:
    """Fill tables from a checkpoint, in place; the number of bytes that it had for them."""
    with open(folder / CHECKPOINT, "rb") as file:
        file.readline()  # the plan
        return sum(file.readinto(table.data.cast("B")) for table in tables)


def delete_checkpoint(checkpoint_dir: str | os.PathLike) -> None:
    """Delete what a finished training left in its `checkpoint_dir`; nothing else that is there."""
    folder = Path(checkpoint_dir)
    (folder / CHECKPOINT).unlink(missing_ok=True)
    for part in (CORPUS, GPU_CHECKPOINT):
        shutil.rmtree(folder / part, ignore_errors=True)
    with contextlib.suppress(OSError):
        folder.rmdir()
