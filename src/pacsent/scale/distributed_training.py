"""Skip-gram on many workers: each trains its shard of a corpus, rows are brought together.

The chunks of the text are dealt by a rule (`shard_of`) that knows the worker's number and nothing
else, and the state of a training is a number of rounds and the tables as they were then: a document
cannot be worked on twice, or never, whoever was lost and replaced in between.

After every round the changes of rows are added up over the workers: of all that changed, or of
those of frequent words every time and of others only every 2nd, 4th, ... round (`periods`), so that
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
from pacsent.words.skipgram import SMALLEST_RATE, SkipGram, _read_state, _seed, _Training
from pacsent.words.vectors import WordVectors

DEALS = ("in turn", "in parts")
MERGES = ("curved", "adaptive", "sum", "mean")
_ROWS_AT_ONCE = 1 << 14  # rows whose changes are added up in one message
_ROUNDS_TO_SAVE = 16
_FIRST = 4096  # words of the first rounds
_DIRECTIONS = 16
_MOST_FREQUENT = 8192  # rows that are looked at for the curvature
_LOOKED_AT = 16  # numbers of a row that tell whether it was changed


@dataclass(frozen=True)
class Schedule:
    """When rows meet, and how changes become one.

    Parameters
    ----------
    every : int, default=65536
        Words that a worker trains in a round.
    touches : float, default=0.0
        A row meets the others once it is expected to have been met so often as a centre word by
        all workers together; 0 lets every row meet in every round.
    longest : int, default=1
        Rounds after which every row meets, a power of two. Checkpoints are written every 16 rounds,
        or every `longest`.
    warm_up : int, default=8
        No round is longer than one such part of what was trained before it, so the first ones are
        short: from vectors that are nearly zero, what is learned grows with what was learned. 0
        makes all rounds equal.
    merge : {"curved", "adaptive", "sum", "mean"}, default="curved"
        How the changes of all workers become one. "curved": their sum, shortened in the directions
        in which the loss is so curved that every worker has come most of the way alone; there the
        mean is right. "adaptive": min(1, sum |d|^2 / |sum d|^2) of the sum. "mean": over the
        workers that changed the row. "sum" diverges.
    deal : {"in turn", "in parts"}, default="in turn"
        Which text a worker trains: every so many-th piece, so that all workers are at the same
        place of the text as one would be, or a part of it from one end to the other.
    damping : float, default=1.0
        What the curvature is multiplied by in "curved"; 1 is what the theory says.

    Examples
    --------
    >>> Schedule(every=32_768).merge
    'curved'
    """

    every: int = 65_536
    touches: float = 0.0
    longest: int = 1
    warm_up: int = 8
    merge: str = "curved"
    deal: str = "in turn"
    damping: float = 1.0

    def __post_init__(self):
        if self.merge not in MERGES:
            raise ValueError(
                f"merge must be one of {', '.join(MERGES)}. Got {self.merge!r} instead."
            )
        if self.deal not in DEALS:
            raise ValueError(f"deal must be one of {', '.join(DEALS)}. Got {self.deal!r} instead.")
        if self.longest < 1 or self.longest & (self.longest - 1):
            raise ValueError(
                f"longest must be a power of two. Got {self.longest!r} instead: 1, 2, 4, 8, ..."
            )
        for name, least in (("every", 1), ("touches", 0), ("warm_up", 0), ("damping", 0)):
            if not getattr(self, name) >= least:
                raise ValueError(
                    f"{name} must be at least {least}. Got {getattr(self, name)!r} instead."
                )


def shard_of(n_chunks: int, n_workers: int, worker: int, deal: str = "in turn") -> range:
    """The chunks of an epoch that a worker trains.

    >>> [list(shard_of(7, 3, worker)) for worker in range(3)]
    [[0, 3, 6], [1, 4], [2, 5]]
    >>> [list(shard_of(7, 3, worker, "in parts")) for worker in range(3)]
    [[0, 1, 2], [3, 4, 5], [6]]
    """
    if deal == "in turn":
        return range(worker, n_chunks, n_workers)
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


def rounds_of(
    n_chunks: int, n_epochs: int, per_round: int, warm_up: int = 0
) -> list[tuple[int, int, int]]:
    """(epoch, first chunk, end) of every round, in chunks of a worker's shard.

    With `warm_up`, no round is longer than that part of what was trained before it, so that the
    first ones are short.

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


class _Worker(_Training):
    """One worker: its tables, the tables as they were when the rows last met, its group."""

    def __init__(self, corpus, settings, group: Group, schedule: Schedule, n_threads: int = 1):
        super().__init__(corpus, settings, 1)
        self.group, self.schedule, self.n_threads = group, schedule, n_threads
        self._cut(min(self.chunk, schedule.every, _FIRST if schedule.warm_up else self.chunk))
        self.met_I, self.met_O = self.I.copy(), self.O.copy()
        self.n_bytes = 0  # that this worker handed to the group
        self.round = 0
        per_round = max(1, schedule.every // self.chunk)
        self.shard = shard_of(self.chunks_per_epoch, group.size, group.rank, schedule.deal)
        self.longest = -(-self.chunks_per_epoch // group.size)  # of the shards, in chunks
        self.rounds = rounds_of(self.longest, settings["n_epochs"], per_round, schedule.warm_up)
        self.n_rounds = len(self.rounds)
        sizes = [stop - start for _, start, stop in self.rounds]
        self.chunks_before = np.concatenate([[0], np.cumsum(sizes)])
        vocabulary = corpus.vocabulary
        share = vocabulary.counts / vocabulary.counts.sum()
        self.kept = share * vocabulary.keep_probabilities(settings["subsample"])
        tokens = min(self.n_tokens, self.chunk * per_round * group.size)
        self.periods = periods(self.kept * tokens, schedule.touches, schedule.longest)
        noise = vocabulary.noise_probabilities(settings["noise_power"])
        self.met_as = {"I": self.kept, "O": self.kept + self.kept.sum() * noise}
        n_dims = settings["n_dims"]
        self.curvatures = {
            "I": _Curvature(group, n_dims, noise), "O": _Curvature(group, n_dims, self.kept)
        }  # fmt: skip

    # -- one round

    def chunks(self) -> list[int]:
        """Numbers of the chunks that this worker trains in this round; those of the whole text."""
        epoch, start, stop = self.rounds[self.round]
        return [epoch * self.chunks_per_epoch + chunk for chunk in self.shard[start:stop]]

    def _rate(self, n_words):
        """By how far the workers are, which for parts is not the place in the text."""
        if self.schedule.deal == "in parts" and self.group.size > 1:
            epoch = self.rounds[self.round][0]
            place = n_words - epoch * self.n_tokens - self.shard.start * self.chunk
            n_words = (epoch + place / (self.longest * self.chunk)) * self.n_tokens
        return super()._rate(n_words)

    def _steps(self, name, rows) -> np.ndarray:
        """Learning rate times expected pairs of each row, of all workers since it last met."""
        now = self.round
        left = max(SMALLEST_RATE, 1.0 - self.chunks_before[now - 1] / self.chunks_before[-1])
        before = (now - 1) // self.periods[rows] * self.periods[rows]
        tokens = (self.chunks_before[now] - self.chunks_before[before]) * self.chunk
        pairs = (self.settings["window"] + 1) * tokens * self.group.size * self.met_as[name][rows]
        return self.settings["learning_rate"] * left * pairs

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
            if self.schedule.merge == "curved":
                self.n_bytes += self.curvatures["I"].follow(self.O)
                self.n_bytes += self.curvatures["O"].follow(self.I)
            self._meet("I", self.I, self.met_I, rows)
            self._meet("O", self.O, self.met_O, rows)
        if self._at_checkpoint():
            for curvature in self.curvatures.values():
                curvature.forget()

    def _meet(self, name, table, met, rows) -> None:
        """Bring rows together that anybody changed: everywhere the same afterwards."""
        rows = rows[self._changed(table, met, rows)]
        n_dims = self.settings["n_dims"]
        curved = self.schedule.merge == "curved"
        for start in range(0, rows.size, _ROWS_AT_ONCE):
            some = rows[start : start + _ROWS_AT_ONCE]
            # the changes, and beside them what the merge needs to know of each worker's own
            sent = np.empty((some.size, n_dims + (not curved)), np.float32)
            change = sent[:, :n_dims]
            np.subtract(table[some, :n_dims], met[some, :n_dims], out=change)
            if not curved:
                squares = np.einsum("ij,ij->i", change, change)
                sent[:, n_dims] = squares if self.schedule.merge == "adaptive" else squares > 0
            self.group.total(sent)
            self.n_bytes += sent.nbytes
            if curved:
                steps = self.schedule.damping * self._steps(name, some)
                self.curvatures[name].shorten(change, steps)
            else:
                change *= _factor(self.schedule.merge, sent)[:, None]
            change += met[some, :n_dims]
            met[some, :n_dims] = table[some, :n_dims] = change

    def _changed(self, table, met, rows) -> np.ndarray:
        """Which rows anybody changed.

        A change that leaves the first numbers of a row as they are is not lost: it stays in the
        worker's table, and is found later; at the end all rows meet.
        """
        if self.round == self.n_rounds:
            return np.ones(rows.size, dtype=bool)
        own = (table[rows, :_LOOKED_AT] != met[rows, :_LOOKED_AT]).any(axis=1)
        counts = own.astype(np.uint8 if self.group.size < 256 else np.int32)
        self.group.total(counts)
        self.n_bytes += counts.nbytes
        return counts > 0

    # -- all rounds

    def run_rounds(self, advance: Callable[[int], None] = lambda n: None) -> None:
        """To the end; checkpoints where all rows have met."""
        while self.round < self.n_rounds:
            before = self.words_done
            self.train_round()
            advance(self.words_done - before)
            if self.folder is not None and self._at_checkpoint():
                self._checkpoint()

    def _at_checkpoint(self) -> bool:
        """All rows have met, and it is time to write them down."""
        every = max(self.schedule.longest, _ROUNDS_TO_SAVE)
        return self.round % every == 0 and self.round < self.n_rounds

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


class _Curvature:
    """In which directions the loss of some rows is curved, and how much.

    A row that is met with the rows of a table, each as often as `weights` says, has the Hessian
    sum of weight * row row^T, but for a factor. Its first eigenvalue is ten times the second (all
    rows of a table have a part in common) and a hundred times the mean. Workers that learn apart
    learn the same in the first directions, where steps are large, and different things in others.

    Parameters
    ----------
    group : Group
    n_dims : int
    weights : ndarray
        How often the rows of that table are met; only the most frequent are looked at.
    """

    def __init__(self, group: Group, n_dims: int, weights: np.ndarray):
        self.group, self.n_dims = group, n_dims
        weights = weights[:_MOST_FREQUENT].astype(np.float32)
        self.weights = weights / weights.sum()
        self.forget()

    def forget(self) -> None:
        """Begin anew, as a worker does that starts from a checkpoint."""
        shape = self.n_dims, min(_DIRECTIONS, self.n_dims)
        random = np.random.default_rng(0).standard_normal(shape)
        self.basis = np.linalg.qr(random)[0].astype(np.float32)
        self.n_steps = 8  # of subspace iteration; one is enough once the basis is good

    def follow(self, table: np.ndarray) -> int:
        """Look at the tables of all workers, which must call it together; the bytes it took."""
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

        A worker that goes steps s towards a minimum of curvature h comes 1 - exp(-h s) of the way.
        Of `size` workers that each go s / size of these steps, the sum comes size times
        1 - exp(-h s / size) of it. What is not among the first directions is taken for as curved
        as the last of these.
        """
        size = self.group.size
        x = np.maximum(steps[:, None] * self.values, 1e-9)
        factor = (np.expm1(-x) / (size * np.expm1(-x / size))).astype(np.float32)
        rest = factor[:, -1:].copy()
        along = total @ self.directions
        along *= factor - rest
        total *= rest
        total += along @ self.directions.T


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

    Examples
    --------
    >>> import tempfile
    >>> from pacsent.scale import Threads
    >>> corpus = Corpus.build(["a glass of wine"] * 200, tempfile.mkdtemp() + "/c")
    >>> how = {"n_dims": 4, "n_epochs": 1, "subsample": 0, "random_state": 0}
    >>> found = Threads.run(2, lambda group: train_worker(corpus, group, **how))
    >>> bool((found[0][0].input_vectors == found[1][0].input_vectors).all())
    True
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

    Examples
    --------
    >>> import tempfile
    >>> folder = tempfile.mkdtemp()
    >>> corpus = Corpus.build(["a glass of wine"] * 200, folder + "/corpus")
    >>> words, report = train_words(folder + "/corpus", 1, folder + "/run", n_dims=4, n_epochs=1)
    >>> words.input_vectors.shape, report["lost"]
    ((4, 4), 0)
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
