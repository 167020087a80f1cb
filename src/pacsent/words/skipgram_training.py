"""Skip-gram on the CPU: chunks of the corpus, threads, checkpoints.

The corpus is cut into chunks of some thousand tokens; a thread takes the next chunk, draws which
tokens to keep, and passes them to a kernel. The draws depend on the seed and the place in the
corpus only, so a run can stop after any chunk and be resumed as if it had never stopped. Threads
change the vectors without locks ("Hogwild"): with several threads the result depends on which of
them is faster, with one it does not.
"""

import contextlib
import errno
import logging
import mmap
import threading
import time
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from pacsent.arrays import GOLDEN, splitmix64
from pacsent.kernels.skipgram import BlockShape, Span, train_blocks
from pacsent.progress import Bar, bar
from pacsent.words.checkpoint import (
    CHECKPOINT,
    Progress,
    TrainingPlan,
    TrainingSettings,
    read_tables,
    write_checkpoint,
)
from pacsent.words.corpus import Corpus
from pacsent.words.noise import alias_thresholds
from pacsent.words.vector_table import row_blocks
from pacsent.words.vocabulary import Vocabulary

logger = logging.getLogger(__name__)

# Smallest learning rate, as a fraction of `learning_rate`: where the linear decrease ends in
# word2vec too.
_MIN_RATE = 1e-4

# Consecutive centre words that share their negative samples, and how many samples such a block
# draws for each of `n_negatives`. Chosen for speed at equal quality (benchmarks/train.py).
_CENTRES_PER_BLOCK = 8
_SAMPLES_PER_NEGATIVE = 40 / 15

# Probability that two words of a block are the same from which on blocks have one centre.
_MAX_REPEAT_PROBABILITY = 1 / 50

# Tokens that a thread takes at a time: a 64th of the corpus, within these limits.
_MIN_CHUNK_TOKENS = 1_024
_MAX_CHUNK_TOKENS = 16_384

# Tokens read beyond a chunk, per word of the window, to find kept neighbours; more where needed.
_MARGIN_PER_WORD = 16

_COLUMN_MULTIPLE = 16  # numbers: rows are padded to whole lines of the cache
_BLOCK_NUMBERS = 1 << 20  # copied at once when vectors are initialized, checked or written


class TrainedVectors(NamedTuple):
    """The result of a training, on any device."""

    input_vectors: np.ndarray  # (n_words, n_dims) float32
    output_vectors: np.ndarray  # (n_words, n_dims) float32
    losses: list[float]  # mean loss of a pair for each epoch; nan if there was no pair


def train_on_cpu(
    corpus: Corpus,
    plan: TrainingPlan,
    progress: Progress | None,
    *,
    n_workers: int,
    checkpoint_dir: Path | None,
    verbose: bool,
) -> TrainedVectors:
    """Train to the end: from the beginning, or from the checkpoint with this `progress`."""
    training = ChunkTraining(corpus, plan.settings, n_workers)
    if checkpoint_dir is not None:
        training.keep_checkpoints(checkpoint_dir, plan)
        if progress is not None:
            training.resume_from(progress)

    training.run(verbose)
    input_vectors, output_vectors = training.vectors()
    return TrainedVectors(input_vectors, output_vectors, training.losses())


# ---- What is trained when -----------------------------------------------------------------------


class Chunk(NamedTuple):
    """Tokens of the corpus that one thread trains in one epoch: [start, stop)."""

    epoch: int
    start: int
    stop: int


@dataclass(frozen=True)
class Schedule:
    """All chunks of a training, one epoch after the other, and their learning rates."""

    n_tokens: int  # of the corpus
    n_epochs: int
    chunk_tokens: int
    learning_rate: float

    @property
    def chunks_per_epoch(self) -> int:
        return -(-self.n_tokens // self.chunk_tokens)

    @property
    def n_chunks(self) -> int:
        return self.chunks_per_epoch * self.n_epochs

    @property
    def n_words(self) -> int:
        """Words of all epochs."""
        return self.n_tokens * self.n_epochs

    def chunk(self, number: int) -> Chunk:
        """The chunk with this number, counted over all epochs."""
        epoch, part = divmod(number, self.chunks_per_epoch)
        start = part * self.chunk_tokens
        return Chunk(epoch, start, min(start + self.chunk_tokens, self.n_tokens))

    def rate(self, n_words: int) -> float:
        """The learning rate after `n_words` words: falls linearly."""
        return self.learning_rate * max(_MIN_RATE, 1.0 - n_words / self.n_words)


def default_chunk_tokens(n_tokens: int) -> int:
    """Tokens of a chunk: a 64th of all, within limits."""
    return max(_MIN_CHUNK_TOKENS, min(n_tokens // 64, _MAX_CHUNK_TOKENS))


def block_shape(
    vocabulary: Vocabulary, keep: np.ndarray, window: int, n_negatives: int
) -> BlockShape:
    """Sizes of a block; `keep` are the probabilities to keep each word, (n_words,).

    All pairs of a block are scored before any row moves. If the same word is often twice in a
    block, both move by the same old scores and overshoot, so blocks have one centre then.
    """
    kept_counts = vocabulary.counts * keep
    repeat_probability = np.square(kept_counts / kept_counts.sum()).sum()

    n_centres = 1
    n_samples = n_negatives
    if repeat_probability < _MAX_REPEAT_PROBABILITY:
        n_centres = _CENTRES_PER_BLOCK
        n_samples = round(n_negatives * _SAMPLES_PER_NEGATIVE)

    n_samples += -(n_centres + n_samples) % 4  # the kernels work on four columns at a time
    return BlockShape(window, n_negatives, n_centres, n_samples)


# ---- Vectors ------------------------------------------------------------------------------------


def initial_vectors(n_words: int, n_dims: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Input and output vectors, as word2vec begins: uniform in +-1/(2 n_dims), and 0.

    Both have shape (n_words, n_columns): rows are padded with zeros.
    """
    n_columns = -(-n_dims // _COLUMN_MULTIPLE) * _COLUMN_MULTIPLE
    I = _allocate(n_words, n_columns)
    O = _allocate(n_words, n_columns)

    rng = np.random.default_rng([seed, 0])
    for rows in row_blocks(I, _BLOCK_NUMBERS):
        values = rng.random((rows.stop - rows.start, n_dims), dtype=np.float32)
        values -= np.float32(0.5)
        values /= np.float32(n_dims)
        I[rows, :n_dims] = values
    return I, O


def _allocate(n_rows: int, n_columns: int) -> np.ndarray:
    """A float32 matrix on large pages if the system has them: rows are read in random order."""
    n_bytes = max(1, 4 * n_rows * n_columns)
    if hasattr(mmap, "MAP_PRIVATE"):
        # Memory that could be shared with a child process gets no large pages.
        memory = mmap.mmap(-1, n_bytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    else:
        memory = mmap.mmap(-1, n_bytes)

    if hasattr(mmap, "MADV_HUGEPAGE"):
        with contextlib.suppress(OSError):
            memory.madvise(mmap.MADV_HUGEPAGE)
    return np.frombuffer(memory, dtype=np.float32).reshape(n_rows, n_columns)


def _is_finite(table: np.ndarray) -> bool:
    """True if all numbers are finite; block by block, as a mask of all may not fit."""
    return all(np.isfinite(table[rows]).all() for rows in row_blocks(table, _BLOCK_NUMBERS))


def _without_padding(padded: np.ndarray, n_dims: int, learning_rate: float) -> np.ndarray:
    """The first `n_dims` columns, contiguous, in the memory of `padded`; checked to be finite.

    Rows move together within the memory they have: a second copy may not fit.
    """
    n_words = len(padded)
    flat = padded.reshape(-1)
    for rows in row_blocks(padded, _BLOCK_NUMBERS):
        values = padded[rows, :n_dims].copy()
        if not np.isfinite(values).all():
            raise ValueError(
                "The trained vectors must be finite. Got inf or nan instead. Lower "
                f"learning_rate (now {learning_rate})."
            )
        flat[rows.start * n_dims : rows.stop * n_dims] = values.reshape(-1)

    return flat[: n_words * n_dims].reshape(n_words, n_dims)


# ---- The training loop --------------------------------------------------------------------------


class ChunkTokens(NamedTuple):
    """Kept tokens of a chunk, and the neighbours that their windows reach."""

    ids: np.ndarray  # (n_kept,) int32
    documents: np.ndarray  # (n_kept,): which of them are of the same document
    begin: int  # ids[begin:end] are the chunk's own
    end: int


def kept_places(ids: np.ndarray, first: int, keep_below: np.ndarray, key: np.uint64) -> np.ndarray:
    """Places of the tokens, from `first` on in the corpus, that an epoch keeps.

    A token's fate depends on `key` (seed and epoch) and its place in the corpus only, so that
    every worker that looks at it, from either side of a border, finds the same.
    """
    places = np.arange(first, first + ids.size, dtype=np.uint64)
    draws = splitmix64(key + places * GOLDEN) >> np.uint64(32)
    return np.flatnonzero(draws < keep_below[ids])


class ChunkTraining:
    """A run on the CPU: input vectors `I`, output vectors `O`, and how far it has come."""

    def __init__(self, corpus: Corpus, settings: TrainingSettings, n_workers: int):
        self.corpus = corpus
        self.settings = settings
        self.n_workers = n_workers
        self.schedule = self._schedule(default_chunk_tokens(int(corpus.n_tokens)))

        vocabulary = corpus.vocabulary
        keep = vocabulary.keep_probabilities(settings.subsample)  # (n_words,)
        self.keep_below = np.minimum(keep * 2.0**32, 2.0**32).astype(np.uint64)
        self.noise = alias_thresholds(vocabulary.noise_probabilities(settings.noise_power))
        self.shape = block_shape(vocabulary, keep, settings.window, settings.n_negatives)
        self.I, self.O = initial_vectors(len(vocabulary), settings.n_dims, settings.seed)

        self.next_chunk = 0
        self.words_done = 0
        self.sums = np.zeros((settings.n_epochs, 2))  # losses, pairs
        self.folder: Path | None = None
        self.plan: TrainingPlan | None = None
        self.lock = threading.Lock()
        self.stop = False
        self.error: BaseException | None = None

    def _schedule(self, chunk_tokens: int) -> Schedule:
        return Schedule(
            n_tokens=int(self.corpus.n_tokens),
            n_epochs=self.settings.n_epochs,
            chunk_tokens=chunk_tokens,
            learning_rate=self.settings.learning_rate,
        )

    def keep_checkpoints(self, folder: Path, plan: TrainingPlan) -> None:
        """Write checkpoints to `folder` from now on."""
        self.folder = folder
        self.plan = plan

    def resume_from(self, progress: Progress) -> None:
        """Continue with the checkpoint in the folder."""
        assert self.folder is not None
        # Chunks of the size that they had then: `next_chunk` counts these.
        self.schedule = self._schedule(progress.chunk)
        self.next_chunk = progress.next_chunk
        self.words_done = progress.words_done
        self.sums = np.array(progress.sums)

        n_bytes = read_tables(self.folder, (self.I, self.O))
        n_expected = 2 * self.I.nbytes
        is_finite = _is_finite(self.I) and _is_finite(self.O)
        if n_bytes != n_expected or not is_finite:
            raise ValueError(
                f"{self.folder / CHECKPOINT} must have {n_expected:,} bytes of "
                f"finite numbers. Got {n_bytes:,}, or others, instead. Start anew."
            )

    def save(self) -> None:
        """Write a checkpoint; on a full disk the one before stays, and training goes on."""
        assert self.folder is not None and self.plan is not None
        progress = Progress(
            next_chunk=self.next_chunk,
            chunk=self.schedule.chunk_tokens,
            words_done=self.words_done,
            sums=self.sums.tolist(),
        )

        try:
            write_checkpoint(self.folder, self.plan, progress, (self.I, self.O))
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                raise
            warnings.warn(
                f"The disk that holds {self.folder} is full, so this checkpoint was not written "
                "and the one before stays. Training goes on; free some space.",
                stacklevel=2,
            )

    def run(self, verbose: bool) -> None:
        """Train to the end, with a checkpoint every some seconds if a folder is kept."""
        schedule = self.schedule
        with bar("Training", total=schedule.n_words, unit="words", enabled=verbose) as shown:
            while self.next_chunk < schedule.n_chunks:
                self._run_threads(shown)
                if self.error is not None:
                    raise self.error
                if self.next_chunk < schedule.n_chunks:
                    self.save()

    def _run_threads(self, shown: Bar) -> None:
        """Train on all threads until a checkpoint is due, or to the end."""
        self.stop = False
        deadline = float("inf")
        if self.plan is not None:
            deadline = time.monotonic() + self.plan.checkpoint_every

        # Events, not Thread.join: a Ctrl-C inside join can mark a running thread as ended
        ended = [threading.Event() for _ in range(self.n_workers)]
        for event in ended:
            threading.Thread(target=self._work, args=(event,), daemon=True).start()

        try:
            for event in ended:
                while not event.wait(0.1):
                    shown.update(self.words_done, self._note())
                    self.stop = self.stop or time.monotonic() >= deadline
        except BaseException:  # Ctrl-C: end between chunks, keep what was done
            self.stop = True
            for event in ended:
                event.wait()
            if self.folder is not None and self.error is None:
                self.save()
            raise

    def _work(self, ended: threading.Event) -> None:
        """One thread: train the next chunk until `stop` is set."""
        schedule = self.schedule
        try:
            while not self.stop:
                with self.lock:
                    number = self.next_chunk
                    if number >= schedule.n_chunks:
                        return
                    self.next_chunk += 1

                self.train_chunk(number)
                if (number + 1) % schedule.chunks_per_epoch == 0:
                    epoch = (number + 1) // schedule.chunks_per_epoch
                    logger.info("epoch %d done, %s", epoch, self._note())
        except BaseException as error:
            self.error = error
            self.stop = True
        finally:
            ended.set()

    def train_chunk(self, number: int) -> None:
        """Train one chunk, whose number counts over all epochs."""
        schedule = self.schedule
        chunk = schedule.chunk(number)
        tokens = self._draw_tokens(chunk)

        n_before = chunk.epoch * schedule.n_tokens  # words of the epochs before
        first_rate = schedule.rate(n_before + chunk.start)
        last_rate = schedule.rate(n_before + chunk.stop)
        chunk_seed = np.random.SeedSequence([self.settings.seed, 2, number])
        key = chunk_seed.generate_state(1, np.uint64)[0]
        sums = train_blocks(
            self.I,
            self.O,
            tokens.ids,
            tokens.documents,
            Span(tokens.begin, tokens.end, first_rate, last_rate),
            self.shape,
            self.noise,
            int(key),
        )

        with self.lock:
            self.sums[chunk.epoch] += sums
            self.words_done += chunk.stop - chunk.start

    def _draw_tokens(self, chunk: Chunk) -> ChunkTokens:
        """Draw the tokens of a chunk that its epoch keeps, and its kept neighbours."""
        offsets = self.corpus.offsets
        window = self.settings.window
        epoch_seed = np.random.SeedSequence([self.settings.seed, 1, chunk.epoch])
        key = epoch_seed.generate_state(1, np.uint64)[0]

        # Windows end where the first and the last document of the chunk do.
        document = int(np.searchsorted(offsets, chunk.start, side="right"))
        last_document = int(np.searchsorted(offsets, chunk.stop - 1, side="right"))
        floor = int(offsets[document - 1])
        ceiling = int(offsets[last_document])

        margin = _MARGIN_PER_WORD * window
        while True:
            low = max(floor, chunk.start - margin)
            high = min(ceiling, chunk.stop + margin)
            ids = np.ascontiguousarray(self.corpus.ids[low:high], dtype=np.int32)
            kept = kept_places(ids, low, self.keep_below, key)  # in ids
            begin, end = np.searchsorted(kept, [chunk.start - low, chunk.stop - low])
            has_left = begin >= window or low == floor
            has_right = kept.size - end >= window or high == ceiling
            if has_left and has_right:
                break
            margin *= 4

        first_kept = max(0, begin - window)
        places = kept[first_kept : end + window]
        document_ends = np.asarray(offsets[document:last_document])
        return ChunkTokens(
            ids=ids[places],
            documents=np.searchsorted(document_ends, places + low, side="right"),
            begin=int(begin - first_kept),
            end=int(end - first_kept),
        )

    def _note(self) -> str:
        """The loss of the last epoch that has pairs, for the progress bar."""
        epochs = np.flatnonzero(self.sums[:, 1])
        if epochs.size == 0:
            return ""
        loss, n_pairs = self.sums[epochs[-1]]
        return f"epoch {epochs[-1] + 1}, loss {loss / n_pairs:.4f}"

    def losses(self) -> list[float]:
        """Mean loss of a pair, one number for each epoch; nan if there was no pair."""
        with np.errstate(invalid="ignore"):
            return (self.sums[:, 0] / self.sums[:, 1]).tolist()

    def vectors(self) -> tuple[np.ndarray, np.ndarray]:
        """Input and output vectors without padding; `I` and `O` are used up."""
        n_dims = self.settings.n_dims
        learning_rate = self.settings.learning_rate
        input_vectors = _without_padding(self.I, n_dims, learning_rate)
        output_vectors = _without_padding(self.O, n_dims, learning_rate)
        return input_vectors, output_vectors
