"""Skip-gram on several workers: each trains a share of a corpus, and their changes are merged.

The chunks of the text are dealt to the workers in turn (`shard_of`). Which chunks a round holds
follows from the number of the round alone, and the state of a training is a number of rounds and
the tables at that time, so a worker that is lost and replaced neither repeats nor omits a document.

After every round the changes of all rows that any worker changed are added up over the workers and
shortened by the curvature of the loss (`_Curvature`). All workers then have the same tables, and a
checkpoint is one of them.
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
from pacsent.words.skipgram import SMALLEST_RATE, ChunkTraining, SkipGram, read_state, settings_of
from pacsent.words.vectors import WordVectors, trained_words

_ROWS_AT_ONCE = 1 << 14  # rows whose changes are added up in one message
_ROUNDS_TO_SAVE = 16  # rounds between two checkpoints
_FIRST = 4096  # words of the first rounds
_DIRECTIONS = 16
_MOST_FREQUENT = 8192  # rows from which the curvature is estimated
_COMPARED = 16  # numbers of a row that show whether it was changed


@dataclass(frozen=True)
class Schedule:
    """How many words a worker trains between two merges: `every`, in a round.

    A round is at most 1 / warm_up of the words that were trained before it, so the first rounds are
    short: vectors that begin near zero learn from each other. 0 makes all rounds equally long.

    Examples
    --------
    >>> Schedule(every=32_768).warm_up
    8
    """

    every: int = 65_536
    warm_up: int = 8

    def __post_init__(self):
        for name, least in (("every", 1), ("warm_up", 0)):
            if not getattr(self, name) >= least:
                raise ValueError(
                    f"{name} must be at least {least}. Got {getattr(self, name)!r} instead."
                )


def shard_of(n_chunks: int, n_workers: int, worker: int) -> range:
    """The chunks of an epoch that a worker trains: every n_workers-th, so that all workers are at
    the same place of the text.

    >>> [list(shard_of(7, 3, worker)) for worker in range(3)]
    [[0, 3, 6], [1, 4], [2, 5]]
    """
    return range(worker, n_chunks, n_workers)


def rounds_of(
    n_chunks: int, n_epochs: int, per_round: int, warm_up: int = 0
) -> list[tuple[int, int, int]]:
    """(epoch, first chunk, end) of every round, in chunks of a worker's shard.

    >>> rounds_of(5, 2, 2)
    [(0, 0, 2), (0, 2, 4), (0, 4, 5), (1, 0, 2), (1, 2, 4), (1, 4, 5)]
    >>> rounds_of(9, 1, 4, warm_up=2)
    [(0, 0, 1), (0, 1, 2), (0, 2, 3), (0, 3, 4), (0, 4, 6), (0, 6, 9)]
    """
    found = []
    for epoch in range(n_epochs):
        start = 0
        while start < n_chunks:
            done = epoch * n_chunks + start
            size = min(per_round, max(1, done // warm_up)) if warm_up else per_round
            stop = min(n_chunks, start + size)
            found.append((epoch, start, stop))
            start = stop
    return found


class _Worker:
    """One worker: its training, the tables after the last merge, its group."""

    def __init__(self, corpus, settings, group: Group, schedule: Schedule, n_threads: int = 1):
        self.training = training = ChunkTraining(corpus, settings, 1)
        self.settings, self.group, self.schedule = settings, group, schedule
        self.n_threads = n_threads
        first = _FIRST if schedule.warm_up else training.chunk
        training.cut(min(training.chunk, schedule.every, first))
        self.merged = {"I": training.I.copy(), "O": training.O.copy()}
        self.n_bytes = 0  # that this worker handed to the group
        self.round = 0
        per_round = max(1, schedule.every // training.chunk)
        self.shard = shard_of(training.chunks_per_epoch, group.size, group.rank)
        longest = -(-training.chunks_per_epoch // group.size)  # of the shards, in chunks
        self.rounds = rounds_of(longest, settings["n_epochs"], per_round, schedule.warm_up)
        self.n_rounds = len(self.rounds)
        sizes = [stop - start for _, start, stop in self.rounds]
        self.chunks_before = np.concatenate([[0], np.cumsum(sizes)])
        vocabulary = corpus.vocabulary
        share = vocabulary.counts / vocabulary.counts.sum()
        kept = share * vocabulary.keep_probabilities(settings["subsample"])
        noise = vocabulary.noise_probabilities(settings["noise_power"])
        self.frequency = {
            "I": kept,
            "O": kept + kept.sum() * noise,
        }  # updates per token of the text
        n_dims = settings["n_dims"]
        self.curvatures = {
            "I": _Curvature(group, n_dims, noise), "O": _Curvature(group, n_dims, kept)
        }  # fmt: skip

    def chunks(self) -> list[int]:
        """Numbers of the chunks, counted over all epochs, that this worker trains in this round."""
        epoch, start, stop = self.rounds[self.round]
        before = epoch * self.training.chunks_per_epoch
        return [before + chunk for chunk in self.shard[start:stop]]

    def train_round(self) -> None:
        """Train the chunks of this round, then merge the changes of all workers."""
        chunks = self.chunks()
        if self.n_threads > 1:
            with ThreadPoolExecutor(self.n_threads) as pool:
                list(pool.map(self.training.train_chunk, chunks))
        else:
            for chunk in chunks:
                self.training.train_chunk(chunk)
        self.round += 1
        if self.group.size > 1:
            tables = {"I": self.training.I, "O": self.training.O}
            self.n_bytes += self.curvatures["I"].follow(tables["O"])
            self.n_bytes += self.curvatures["O"].follow(tables["I"])
            for name, table in tables.items():
                self._merge(name, table, self.merged[name])
        if self._at_checkpoint():
            for curvature in self.curvatures.values():
                curvature.forget()

    def _merge(self, name, table, merged) -> None:
        """Merge the rows that any worker changed; they are the same in all workers afterwards."""
        rows = np.flatnonzero(self._changed(table, merged))
        n_dims = self.settings["n_dims"]
        for start in range(0, rows.size, _ROWS_AT_ONCE):
            some = rows[start : start + _ROWS_AT_ONCE]
            change = table[some, :n_dims] - merged[some, :n_dims]
            self.group.total(change)
            self.n_bytes += change.nbytes
            self.curvatures[name].shorten(change, self._steps(name, some))
            change += merged[some, :n_dims]
            merged[some, :n_dims] = table[some, :n_dims] = change

    def _steps(self, name, rows) -> np.ndarray:
        """Learning rate times expected pairs of each row, of all workers in this round."""
        now = self.round
        left = max(SMALLEST_RATE, 1.0 - self.chunks_before[now - 1] / self.chunks_before[-1])
        chunks = self.chunks_before[now] - self.chunks_before[now - 1]
        tokens = chunks * self.training.chunk * self.group.size
        pairs = (self.settings["window"] + 1) * tokens * self.frequency[name][rows]
        return self.settings["learning_rate"] * left * pairs

    def _changed(self, table, merged) -> np.ndarray:
        """Which rows any worker changed.

        A change that leaves the first numbers of a row as they are is not lost: it stays in the
        worker's table, and is found later; in the last round all rows are merged.
        """
        if self.round == self.n_rounds:
            return np.ones(len(table), dtype=bool)
        own = (table[:, :_COMPARED] != merged[:, :_COMPARED]).any(axis=1)
        counts = own.astype(np.uint8 if self.group.size < 256 else np.int32)
        self.group.total(counts)
        self.n_bytes += counts.nbytes
        return counts > 0

    def run(self, advance: Callable[[int], None] = lambda n: None) -> None:
        """Train all rounds that are left, with checkpoints in between where a folder is kept."""
        while self.round < self.n_rounds:
            before = self.training.words_done
            self.train_round()
            advance(self.training.words_done - before)
            if self.training.folder is not None and self._at_checkpoint():
                self._checkpoint()

    def _at_checkpoint(self) -> bool:
        return self.round % _ROUNDS_TO_SAVE == 0 and self.round < self.n_rounds

    def _checkpoint(self) -> None:
        training = self.training
        own, words = training.sums, training.words_done
        sums = own.copy()
        self.group.total(sums)
        if self.group.rank == 0:
            training.sums, training.next_chunk = sums, self.round
            training.save()
            training.sums, training.words_done = own, words
        self.group.total(np.zeros(1, np.float32))  # all workers wait until it is written

    def keep_in(self, folder: Path) -> None:
        """Keep checkpoints in a folder; continue from the one that is there."""
        training = self.training
        training.folder, training.tables_file = folder, None
        training.about = {
            "format_version": 1,
            "settings": self.settings,
            "workers": self.group.size,
            "schedule": vars(self.schedule),
        }
        folder.mkdir(parents=True, exist_ok=True)
        if not (folder / "state.json").exists():
            return
        state = read_state(folder)
        for name, value in training.about.items():
            if state.get(name) != json.loads(json.dumps(value)):
                raise ValueError(
                    f"The {name} must be those of the training in {folder}. Got others instead. "
                    "Continue with the same, or choose another folder."
                )
        training.restore(folder, state)
        self.round = training.next_chunk
        self.merged["I"][...], self.merged["O"][...] = training.I, training.O
        if self.group.rank:  # the first worker holds the sums of all workers so far
            training.sums, training.words_done = np.zeros_like(training.sums), 0


class _Curvature:
    """The directions in which the loss of some rows is curved most, and the curvature.

    The loss of a row that occurs with the rows of another table, each as often as `weights` says,
    has the Hessian sum of weight * row row^T, up to a factor. Its first eigenvalue is ten times the
    second (all rows of a table have a component in common) and a hundred times the mean. Workers
    learn the same in the first directions, where steps are large, and different things in others.
    Only the most frequent rows are used.
    """

    def __init__(self, group: Group, n_dims: int, weights: np.ndarray):
        self.group, self.n_dims = group, n_dims
        weights = weights[:_MOST_FREQUENT].astype(np.float32)
        self.weights = weights / weights.sum()
        self.forget()

    def forget(self) -> None:
        """Start again, as a worker does that continues from a checkpoint."""
        shape = self.n_dims, min(_DIRECTIONS, self.n_dims)
        random = np.random.default_rng(0).standard_normal(shape)
        self.basis = np.linalg.qr(random)[0].astype(np.float32)
        self.n_steps = 8  # of subspace iteration; one is enough once the basis is good

    def follow(self, table: np.ndarray) -> int:
        """Update by the tables of all workers, which must call it together; the bytes sent."""
        rows = table[: self.weights.size, : self.n_dims]
        n_bytes = 0
        for _ in range(self.n_steps):
            product = rows.T @ ((rows @ self.basis) * self.weights[:, None])
            self.group.total(product)
            n_bytes += product.nbytes
            product /= self.group.size
            values, turn = np.linalg.eigh(self.basis.T @ product)
            self.values = np.maximum(values[::-1], 0.0)
            self.directions = self.basis @ turn[:, ::-1]
            self.basis, _ = np.linalg.qr(product)
        self.n_steps = 1
        return n_bytes

    def shorten(self, total: np.ndarray, steps: np.ndarray) -> None:
        """Turn the sums of all workers' changes into what one worker would have learned, in place.

        Steps s towards a minimum of curvature h cover 1 - exp(-h s) of the way. The sum over `size`
        workers that each take s / size of these steps covers size times 1 - exp(-h s / size) of it.
        All further directions are taken to be as curved as the last of the first ones.
        """
        size = self.group.size
        x = np.maximum(steps[:, None] * self.values, 1e-9)
        factor = (np.expm1(-x) / (size * np.expm1(-x / size))).astype(np.float32)
        rest = factor[:, -1:].copy()
        along = total @ self.directions
        along *= factor - rest
        total *= rest
        total += along @ self.directions.T


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

    The report has rounds, bytes (that this worker sent to the group), pairs and loss of each epoch.

    Parameters
    ----------
    corpus : Corpus
        The same on every machine; a worker reads only its shard of it.
    group : Group or None
        None is a group of one.
    schedule : Schedule, optional
    checkpoint_dir : path or None
        A folder that all workers see. A training that has a checkpoint there is continued.
    n_threads : int, default=1
        Threads of this worker; with one thread the result is reproducible.
    **parameters
        Of `SkipGram`: n_dims, window, n_epochs, ...

    Examples
    --------
    >>> import tempfile
    >>> from pacsent.scale import Threads
    >>> corpus = Corpus.build(["a glass of wine"] * 200, tempfile.mkdtemp() + "/c")
    >>> options = {"n_dims": 4, "n_epochs": 1, "subsample": 0, "random_state": 0}
    >>> found = Threads.run(2, lambda group: train_worker(corpus, group, **options))
    >>> bool((found[0][0].input_vectors == found[1][0].input_vectors).all())
    True
    """
    group = group or Alone()
    model = SkipGram(**parameters)
    model._validate_params()
    if model.device != "cpu" or model.deterministic:
        raise ValueError(
            "device and deterministic must be left out: workers train on the CPU, and with "
            f"n_threads=1 the result is reproducible. Got device={model.device!r}, "
            f"deterministic={model.deterministic!r} instead."
        )
    settings = settings_of(model, corpus)
    _check_same(group, settings)
    worker = _Worker(corpus, settings, group, schedule or Schedule(), n_threads)
    if checkpoint_dir is not None:
        worker.keep_in(Path(checkpoint_dir))
    worker.run(advance)
    sums = worker.training.sums
    group.total(sums)
    losses = worker.training.losses()
    training = {
        **settings, "workers": group.size, "schedule": vars(worker.schedule), "loss": losses[-1],
    }  # fmt: skip
    for name in ("deterministic", "device", "digest"):
        del training[name]
    words = trained_words(corpus, *worker.training.finish(), training)
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
            f"Got others than worker {group.rank} has instead. Start them with the same command."
        )


# ---- the workers of one machine ------------------------------------------------------------------


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
    """Train with `n_workers` processes of this machine; a process that is lost is replaced.

    When a worker is lost the others are ended as well, and all continue from the last checkpoint;
    "lost" in the report, which else is that of `train_worker`, counts how often. On several
    machines torchrun does the same: see docs/scale.md.

    >>> import tempfile
    >>> folder = tempfile.mkdtemp()
    >>> corpus = Corpus.build(["a glass of wine"] * 200, folder + "/corpus")
    >>> words, report = train_words(folder + "/corpus", 8, folder + "/run")  # doctest: +SKIP
    """
    from pacsent.storage import load

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
        "to continue from it."
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
    """Train as one worker; the first one saves the word vectors and the report in `folder`."""
    from pacsent.storage import save

    corpus = Corpus.open(corpus_dir)
    words, report = train_worker(corpus, group, checkpoint_dir=folder, **given)
    if group.rank == 0:
        save(words, folder / "words", overwrite=True)
        (folder / "report.json").write_text(json.dumps(report))
    group.total(np.zeros(1, np.float32))  # the others wait until it is saved
