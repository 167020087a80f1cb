"""Skip-gram on many workers: each trains its shard of a corpus, rows are brought together.

The chunks of the text are dealt by a rule (`shard_of`) that knows the worker's number and nothing
else, and the state of a training is a number of rounds and the tables as they were then: a document
cannot be worked on twice, or never, whoever was lost and replaced in between.

After every round the changes of some rows are added up over the workers. A word that occurs often
takes part every time, one that occurs seldom only every 2nd, 4th, ... round (`periods`), so that
about as many occurrences lie between two meetings of either. Every so many rounds all rows meet;
then all workers have the same tables, and a checkpoint is one of them.
"""

import hashlib
import json
import multiprocessing
import os
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from pacsent.scale.groups import Alone, Distributed, Group
from pacsent.words.corpus import Corpus
from pacsent.words.skipgram import SkipGram, _read_state, _seed, _Training
from pacsent.words.vectors import WordVectors

MERGES = ("adaptive", "capped", "sum", "mean")
_ROWS_AT_ONCE = 1 << 14  # rows whose changes are added up in one message


@dataclass(frozen=True)
class Schedule:
    """When rows meet, and how changes become one.

    Parameters
    ----------
    every : int, default=16384
        Words that a worker trains in a round.
    touches : float, default=4.0
        A row meets the others once it is expected to have been met so often as a centre word by
        all workers together; 0 lets every row meet in every round.
    longest : int, default=16
        Rounds after which every row meets, a power of two; checkpoints are written there.
    merge : {"adaptive", "capped", "sum", "mean"}, default="adaptive"
        Changes are added up ("sum"), or their mean over the workers that changed the row is taken
        ("mean"), or something between. "adaptive": min(1, sum |d|^2 / |sum d|^2) of the sum, which
        is the sum where the changes are orthogonal and the mean where they are the same.
        "capped": the sum, of a row that is expected to have been met c > `cap` times by all
        workers since the last meeting only the part cap / c, but never less than the mean. "sum",
        and "capped" with a large cap, diverge where rounds are long.
    cap : float, default=1.0
    """

    every: int = 16_384
    touches: float = 4.0
    longest: int = 16
    merge: str = "adaptive"
    cap: float = 1.0

    def __post_init__(self):
        if self.merge not in MERGES:
            raise ValueError(
                f"merge must be one of {', '.join(MERGES)}. Got {self.merge!r} instead."
            )
        if self.longest < 1 or self.longest & (self.longest - 1):
            raise ValueError(
                f"longest must be a power of two. Got {self.longest!r} instead: 1, 2, 4, 8, ..."
            )
        if self.every < 1 or not self.touches >= 0:
            raise ValueError(
                f"every must be at least 1 and touches at least 0. Got {self.every!r} and "
                f"{self.touches!r} instead."
            )


def shard_of(n_chunks: int, n_workers: int, worker: int) -> range:
    """The chunks of an epoch that a worker trains: a contiguous part of the text.

    >>> [list(shard_of(7, 3, worker)) for worker in range(3)]
    [[0, 1, 2], [3, 4, 5], [6]]
    """
    size = -(-n_chunks // n_workers)
    return range(min(n_chunks, worker * size), min(n_chunks, (worker + 1) * size))


def periods(kept_per_round: np.ndarray, touches: float, longest: int) -> np.ndarray:
    """After how many rounds each row meets: the power of two that gives it `touches` occurrences.

    >>> periods(np.array([100.0, 4.0, 1.0, 0.001]), 4.0, 16).tolist()
    [1, 1, 4, 16]
    """
    need = touches / np.maximum(kept_per_round, 1e-12)
    power = np.ceil(np.log2(np.clip(need, 1.0, longest)))
    return np.minimum(2 ** power.astype(np.int64), longest)


class _Worker(_Training):
    """One worker: its tables, the tables as they were when the rows last met, its group."""

    def __init__(self, corpus, settings, group: Group, schedule: Schedule, n_threads: int = 1):
        super().__init__(corpus, settings, 1)
        self.group, self.schedule, self.n_threads = group, schedule, n_threads
        self._cut(min(self.chunk, schedule.every))
        self.chunks_per_round = max(1, schedule.every // self.chunk)
        self.met_I, self.met_O = self.I.copy(), self.O.copy()
        self.n_bytes = 0  # that this worker handed to the group
        self.round = 0
        shard = shard_of(self.chunks_per_epoch, group.size, 0)  # the longest
        self.rounds_per_epoch = -(-len(shard) // self.chunks_per_round)
        self.n_rounds = self.rounds_per_epoch * settings["n_epochs"]
        vocabulary = corpus.vocabulary
        share = vocabulary.counts / vocabulary.counts.sum()
        kept = share * vocabulary.keep_probabilities(settings["subsample"])
        tokens = min(self.n_tokens, self.chunk * self.chunks_per_round * group.size)
        self.periods = periods(kept * tokens, schedule.touches, schedule.longest)
        occurrences = np.maximum(kept * tokens * self.periods, 1e-12)
        self.parts = np.clip(schedule.cap / occurrences, 1.0 / group.size, 1.0)

    # -- one round

    def chunks(self) -> list[int]:
        """Numbers of the chunks that this worker trains in this round; those of the whole text."""
        epoch, part = divmod(self.round, self.rounds_per_epoch)
        shard = shard_of(self.chunks_per_epoch, self.group.size, self.group.rank)
        some = shard[part * self.chunks_per_round : (part + 1) * self.chunks_per_round]
        return [epoch * self.chunks_per_epoch + chunk for chunk in some]

    def _rate(self, n_words):
        """By how far all workers are together; the place in the text says nothing about it."""
        return self.settings["learning_rate"] * max(1e-4, 1.0 - self.round / self.n_rounds)

    def train_round(self) -> None:
        """Train this round's chunks, then bring together the rows whose turn it is."""
        chunks = self.chunks()
        if self.n_threads > 1:
            with ThreadPoolExecutor(self.n_threads) as pool:
                list(pool.map(self._train_chunk, chunks))
        else:
            for chunk in chunks:
                self._train_chunk(chunk)
        self.round += 1
        if self.round == self.n_rounds or self.round % self.schedule.longest == 0:
            rows = np.arange(len(self.I))
        else:
            rows = np.flatnonzero(self.round % self.periods == 0)
        if self.group.size > 1:
            self._meet(self.I, self.met_I, rows)
            self._meet(self.O, self.met_O, rows)

    def _meet(self, table, met, rows) -> None:
        """Bring rows together: everywhere the same afterwards."""
        n_dims = self.settings["n_dims"]
        for start in range(0, rows.size, _ROWS_AT_ONCE):
            some = rows[start : start + _ROWS_AT_ONCE]
            # the changes, and beside them what the merge needs to know of each worker's own
            sent = np.zeros((some.size, n_dims + 1), np.float32)
            change = sent[:, :n_dims]
            np.subtract(table[some, :n_dims], met[some, :n_dims], out=change)
            squares = np.einsum("ij,ij->i", change, change)
            sent[:, n_dims] = squares if self.schedule.merge == "adaptive" else squares > 0
            self.group.total(sent)
            self.n_bytes += sent.nbytes
            if self.schedule.merge == "capped":
                factor = self.parts[some]
            else:
                factor = _factor(self.schedule.merge, sent)
            merged = sent[:, :n_dims] * factor[:, None].astype(np.float32)
            met[some, :n_dims] += merged
            table[some, :n_dims] = met[some, :n_dims]

    # -- all rounds

    def run_rounds(self, advance: Callable[[int], None] = lambda n: None) -> None:
        """To the end; checkpoints where all rows have met."""
        while self.round < self.n_rounds:
            before = self.words_done
            self.train_round()
            advance(self.words_done - before)
            met = self.round % self.schedule.longest == 0
            if self.folder is not None and met and self.round < self.n_rounds:
                self._checkpoint()

    def _checkpoint(self) -> None:
        own, words = self.sums, self.words_done
        sums = own.copy()
        self.group.total(sums)
        if self.group.rank == 0:
            self.sums, self.next_chunk = sums, self.round
            self.save()
            self.sums, self.words_done = own, words
        self.group.total(np.zeros(1, np.float32))  # nobody goes on before it is written

    def keep_in_folder(self, folder: Path) -> None:
        """Keep checkpoints in a folder; go on from what is there."""
        self.folder, self.tables_file = folder, None
        self.about = {
            "format_version": 1,
            "settings": self.settings,
            "workers": self.group.size,
            "schedule": vars(self.schedule),
        }
        folder.mkdir(parents=True, exist_ok=True)
        if not (folder / "state.json").exists():
            return
        state = _read_state(folder)
        for name, value in self.about.items():
            if state.get(name) != json.loads(json.dumps(value)):
                raise ValueError(
                    f"{folder} holds a training with other {name}. Go on with the same, or choose "
                    "another folder."
                )
        self.restore(folder, state)
        self.round = self.next_chunk
        self.met_I[...], self.met_O[...] = self.I, self.O
        if self.group.rank:  # the first worker carries what all have lost and seen so far
            self.sums, self.words_done = np.zeros_like(self.sums), 0


def _factor(merge: str, sent: np.ndarray) -> np.ndarray:
    """What the sum of the changes of each row is multiplied by."""
    if merge == "sum":
        return np.ones(len(sent), np.float32)
    beside = sent[:, -1]
    if merge == "mean":
        return 1.0 / np.maximum(beside, 1.0)
    total = sent[:, :-1]
    squared = np.einsum("ij,ij->i", total, total)
    return np.minimum(1.0, beside / np.maximum(squared, 1e-30))


def train_worker(
    corpus: Corpus,
    group: Group | None = None,
    *,
    schedule: Schedule | None = None,
    checkpoint_dir: str | os.PathLike | None = None,
    n_threads: int = 1,
    advance: Callable[[int], None] = lambda n: None,
    **parameters: Any,
) -> tuple[WordVectors, dict]:
    """Train as one worker of a group; the word vectors, the same in every worker, and a report.

    Parameters
    ----------
    corpus : Corpus
        The same on every machine; a worker reads only its shard of it.
    group : Group or None
        None is a group of one.
    schedule : Schedule, optional
    checkpoint_dir : path or None
        A folder that all workers see. Where it holds a checkpoint the training goes on from it.
    n_threads : int, default=1
        Threads of this worker; with one there is one possible result.
    **parameters
        Of `SkipGram`: n_dims, window, n_epochs, ...

    Returns
    -------
    words : WordVectors
    report : dict
        rounds, bytes (that this worker handed to the group), pairs and loss of each epoch.
    """
    group = group or Alone()
    model = SkipGram(**parameters)
    model._validate_params()
    if model.device != "cpu" or model.deterministic:
        raise ValueError(
            "Workers train on the CPU, each with one possible result where n_threads=1. Leave out "
            "device and deterministic."
        )
    settings = model.get_params()
    names = ("n_dims", "window", "subsample", "n_epochs", "n_negatives", "noise_power",
             "learning_rate", "min_count", "negatives", "deterministic", "device")  # fmt: skip
    settings = {name: settings[name] for name in names}
    settings |= {"seed": _seed(model.random_state), "digest": corpus.digest}
    _check_same(group, settings)
    worker = _Worker(corpus, settings, group, schedule or Schedule(), n_threads)
    if checkpoint_dir is not None:
        worker.keep_in_folder(Path(checkpoint_dir))
    worker.run_rounds(advance)
    sums = worker.sums
    group.total(sums)
    input_vectors, output_vectors = worker.finish()
    losses = [float(loss / pairs) for loss, pairs in sums]
    told = {name: settings[name] for name in names if name not in ("deterministic", "device")}
    words = WordVectors(
        corpus.vocabulary,
        input_vectors,
        output_vectors,
        corpus_digest=corpus.digest,
        training={
            "method": "skip-gram with negative sampling", **told, "seed": settings["seed"],
            "workers": group.size, "schedule": vars(worker.schedule), "loss": losses[-1],
        },
    )  # fmt: skip
    report = {
        "rounds": worker.n_rounds,
        "bytes": worker.n_bytes,
        "pairs": sums[:, 1].tolist(),
        "loss": losses,
    }
    return words, report


def _check_same(group: Group, settings: dict) -> None:
    """All workers must train the same text with the same settings and seed."""
    own = hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).digest()
    numbers = np.frombuffer(own[:8], np.uint8).astype(np.float64)
    total = np.concatenate([numbers, numbers**2])
    group.total(total)
    mean, square = total[:8] / group.size, total[8:] / group.size
    if not np.allclose(square - mean**2, 0.0, atol=1e-6):
        raise ValueError(
            "All workers must have the same corpus and the same parameters, random_state included. "
            f"Got others than worker {group.rank} has. Start them with the same command."
        )


# ------------------------------------------------------------------------------------------------
# the workers of one machine, watched over
# ------------------------------------------------------------------------------------------------


def train_words(
    corpus_dir: str | os.PathLike,
    n_workers: int,
    checkpoint_dir: str | os.PathLike,
    *,
    restarts: int = 3,
    schedule: Schedule | None = None,
    timeout: float = 300.0,
    **parameters: Any,
) -> tuple[WordVectors, dict]:
    """Train with so many worker processes of this machine; a lost one is replaced.

    When a worker is lost the others are ended as well, and all begin again from the last
    checkpoint. On several machines torchrun does the same: see docs/scale.md.

    Returns
    -------
    words, report
        As `train_worker`; the report also says how often workers were lost.
    """
    from pacsent.loading import load

    folder = Path(checkpoint_dir)
    folder.mkdir(parents=True, exist_ok=True)
    if parameters.get("random_state") is None:
        parameters["random_state"] = 0  # the same in every worker
    for lost in range(restarts + 1):
        with tempfile.TemporaryDirectory() as meeting:
            meet = {"size": n_workers, "meet": f"file://{meeting}/meet", "timeout": timeout}
            given = {"schedule": schedule, **parameters}
            if _all_ended_well(n_workers, (meet, os.fspath(corpus_dir), folder, given)):
                report = json.loads((folder / "report.json").read_text())
                return load(folder / "words"), {**report, "lost": lost}
    raise RuntimeError(
        f"Workers were lost {restarts + 1} times. The last checkpoint is in {folder}: call again "
        "to go on from it."
    )


def _all_ended_well(n_workers: int, given: tuple) -> bool:
    context = multiprocessing.get_context("spawn")
    workers = [context.Process(target=_process, args=(rank, *given)) for rank in range(n_workers)]
    for worker in workers:
        worker.start()
    try:
        while any(worker.is_alive() for worker in workers):
            if any(worker.exitcode not in (None, 0) for worker in workers):
                break
            time.sleep(0.1)
    finally:
        for worker in workers:
            if worker.is_alive() and any(other.exitcode not in (None, 0) for other in workers):
                worker.kill()
            worker.join()
    return all(worker.exitcode == 0 for worker in workers)


def _process(rank: int, meet: dict, corpus_dir: str, folder: Path, given: dict) -> None:
    group = Distributed(rank, **meet)
    try:
        run_worker(corpus_dir, group, folder, **given)
    finally:
        group.close()


def run_worker(corpus_dir: str | os.PathLike, group: Group, folder: Path, **given: Any) -> None:
    """Train as one worker; the first one saves what came of it in `folder`."""
    from pacsent.loading import save

    corpus = Corpus.open(corpus_dir)
    words, report = train_worker(corpus, group, checkpoint_dir=folder, **given)
    if group.rank == 0:
        save(words, folder / "words", overwrite=True)
        (folder / "report.json").write_text(json.dumps(report))
    group.total(np.zeros(1, np.float32))  # the others stay until it is saved
