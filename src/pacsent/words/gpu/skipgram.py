"""Skip-gram with negative sampling on a GPU: the corpus in chunks, a warp for each.

`train_skipgram` is what `SkipGram(device="cuda")` calls. The kernel is skipgram.cu in this folder;
tests/reference/gpu_skipgram_reference.py repeats its work tile by tile in plain torch, draws
included, and the tests compare both.

A corpus that does not fit into GPU memory is streamed: while the GPU trains on one segment, the
next one is copied from the id file through page-locked memory.
"""

import ctypes
import itertools
import json
import logging
import os
import shutil
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from pacsent.files import replacing_folder
from pacsent.words.gpu.device import free_memory, kernel, memory_error, mix, require, torch
from pacsent.words.noise import alias

if TYPE_CHECKING:
    from pacsent.words.corpus import Corpus

log = logging.getLogger(__name__)

CHUNK_TOKENS = 512  # tokens whose windows one warp trains in a row

# Tokens of a streamed segment (256 MB), and of one launch: about a second, between which there are
# progress and checkpoints.
SEGMENT_TOKENS = 1 << 26
LAUNCH_TOKENS = 1 << 27

# Tokens read across the border of a chunk, per word of the window, to find kept context words.
CONTEXT_TOKENS_PER_WORD = 64

# Numbers of output rows that a lane holds; the other 85 of its 255 registers are for the work.
REGISTER_ROWS = 170
N_CENTRES = 2  # neighbouring centre words that share their negative samples

# More warps do not help: the additions to the vectors are the limit (benchmarks/train_gpu.py).
WARPS_PER_PROCESSOR = 8
MIN_RATE = 1e-4  # smallest learning rate, as a fraction of `learning_rate`, as in word2vec
SPARE_BYTES = 512 << 20  # memory that is left free for the driver and the launches

# Shared memory that a block may use on every GPU since compute capability 7.5, with some reserve.
MAX_SHARED_BYTES = 99 << 10


def _ceil_div(number: int, divisor: int) -> int:
    """The smallest integer that is at least number / divisor."""
    return -(-number // divisor)


def _round_up(number: int, multiple: int) -> int:
    """The smallest multiple that is at least this number."""
    return _ceil_div(number, multiple) * multiple


class Shape(NamedTuple):
    """The constants a kernel is compiled for."""

    n_dims: int
    n_negatives: int
    window: int
    n_centres: int
    fence: bool = False

    @property
    def stride(self) -> int:
        """Numbers from one row to the next: whole 128-byte lines."""
        return _round_up(self.n_dims, 32)

    @property
    def n_outputs(self) -> int:
        """Output rows that a step needs: of centre words and of negative samples."""
        return self.n_centres + self.n_negatives

    @property
    def group(self) -> int:
        """Output rows held in registers at a time."""
        numbers_per_lane = self.stride // 32  # of one row
        n_groups_by_registers = _ceil_div(self.n_outputs * numbers_per_lane, REGISTER_ROWS)
        n_groups_by_lanes = _ceil_div(self.n_outputs, 32)
        n_groups = max(n_groups_by_registers, n_groups_by_lanes)
        return _ceil_div(self.n_outputs, n_groups)

    @property
    def shared_bytes(self) -> int:
        """Shared memory of a block: 4 bytes for each number."""
        n_rows = 2 * self.window + self.n_centres
        n_groups = _ceil_div(self.n_outputs, self.group)
        n_copies = 2 if n_groups > 1 else 1

        row_numbers = n_rows * self.stride * n_copies
        score_numbers = n_rows * _round_up(self.group, 4)
        output_numbers = _round_up(self.n_outputs, 4)
        token_numbers = 2 * CHUNK_TOKENS + 2 * self.window
        return 4 * (row_numbers + score_numbers + output_numbers + token_numbers)

    def constants(self) -> tuple:
        """Names and values of the macros in skipgram.cu."""
        return (
            ("DIMS", self.n_dims),
            ("NEGATIVES", self.n_negatives),
            ("WINDOW", self.window),
            ("CENTRES", self.n_centres),
            ("CHUNK", CHUNK_TOKENS),
            ("GROUP", self.group),
            ("FENCE", int(self.fence)),
        )


class Chunks(NamedTuple):
    """Pieces of documents: where each starts, how long it is, and what its document has around."""

    starts: np.ndarray  # (n_chunks,) int64
    lengths: np.ndarray  # (n_chunks,) int32
    before: np.ndarray  # (n_chunks,) int32
    after: np.ndarray  # (n_chunks,) int32


class Work(ctypes.Structure):
    """The kernel's argument; the same fields, in the same order, as in skipgram.cu."""

    _fields_ = [
        ("input", ctypes.c_void_p),
        ("output", ctypes.c_void_p),
        ("tokens", ctypes.c_void_p),
        ("starts", ctypes.c_void_p),
        ("lengths", ctypes.c_void_p),
        ("before", ctypes.c_void_p),
        ("after", ctypes.c_void_p),
        ("order", ctypes.c_void_p),
        ("keep", ctypes.c_void_p),
        ("noise", ctypes.c_void_p),
        ("next", ctypes.c_void_p),
        ("counts", ctypes.c_void_p),
        ("loss", ctypes.c_void_p),
        ("key", ctypes.c_uint64),
        ("place", ctypes.c_int64),
        ("n_chunks", ctypes.c_uint32),
        ("n_words", ctypes.c_uint32),
        ("rate", ctypes.c_float),
        ("rate_floor", ctypes.c_float),
        ("done", ctypes.c_float),
        ("span", ctypes.c_float),
    ]


# ---- what the kernel is handed ------------------------------------------------------------------


def keep_thresholds(probabilities: np.ndarray) -> np.ndarray:
    """A word is kept when a 32-bit draw is at most its threshold."""
    thresholds = np.asarray(probabilities) * 2.0**32
    return np.clip(thresholds, 0, 2.0**32 - 1).astype(np.uint32)


def alias_table(probabilities: np.ndarray) -> np.ndarray:
    """`noise.alias` as the kernel reads it: two draws choose a word with its probability.

    Row i is (threshold, other): word i when a 32-bit draw is at most the threshold, else `other`.
    """
    keep, other = alias(probabilities)
    return np.stack([keep_thresholds(keep), other.astype(np.uint32)], axis=1)


def cut_points(
    offsets: np.ndarray, n_tokens: int, segment_tokens: int, chunk_tokens: int = CHUNK_TOKENS
) -> list[int]:
    """Token positions between segments; each is a border between chunks."""
    cuts = [0]
    for target in range(segment_tokens, n_tokens, segment_tokens):
        document = int(np.searchsorted(offsets, target, side="right")) - 1
        start = int(offsets[document])
        length = int(offsets[document + 1]) - start

        # The border before the chunk of this document in which the target lies.
        n_chunks = max(1, _ceil_div(length, chunk_tokens))
        chunk_number = (target - start) * n_chunks // max(1, length)
        cut = start + chunk_number * length // n_chunks
        if cut > cuts[-1]:
            cuts.append(cut)
    return [*cuts, n_tokens]


def chunks_between(
    offsets: np.ndarray, low: int, high: int, reach: int, chunk_tokens: int = CHUNK_TOKENS
) -> Chunks:
    """The chunks that start in [low, high): documents cut evenly, none longer than chunk_tokens.

    Documents of fewer than two tokens have no pair and no chunk. `before` and `after` count the
    document's tokens around a chunk, at most `reach`: its windows reach across its borders.
    """
    # Documents that overlap [low, high): their ends, and the number of chunks of each.
    first = max(0, int(np.searchsorted(offsets, low, side="right")) - 1)
    last = int(np.searchsorted(offsets, high, side="left"))
    bounds = np.asarray(offsets[first : last + 1], dtype=np.int64)
    has_pairs = np.diff(bounds) >= 2
    document_begin = bounds[:-1][has_pairs]
    document_end = bounds[1:][has_pairs]
    chunks_of_document = -(-(document_end - document_begin) // chunk_tokens)

    # From here on an element is a chunk: its document, and its number in that document.
    document = np.repeat(np.arange(document_begin.size), chunks_of_document)
    first_chunk = np.cumsum(chunks_of_document) - chunks_of_document
    number = np.arange(document.size) - first_chunk[document]
    begin = document_begin[document]
    end = document_end[document]
    length = end - begin
    n_chunks = chunks_of_document[document]

    starts = begin + number * length // n_chunks
    stops = begin + (number + 1) * length // n_chunks
    before = np.minimum(starts - begin, reach)
    after = np.minimum(end - stops, reach)

    is_inside = (starts >= low) & (starts < high)
    return Chunks(
        starts=starts[is_inside],
        lengths=(stops - starts)[is_inside].astype(np.int32),
        before=before[is_inside].astype(np.int32),
        after=after[is_inside].astype(np.int32),
    )


def epoch_key(seed: int, epoch: int) -> int:
    """The key of all draws of an epoch."""
    mask = (1 << 64) - 1
    seed_key = int(mix(np.uint64(seed & mask)))
    key = (seed_key + epoch * 0xD1B54A32D192ED03) & mask
    return int(mix(np.uint64(key)))


# ---- training -----------------------------------------------------------------------------------


class Trainer:
    """The two matrices on the device, and launches over chunks of tokens that are there too."""

    def __init__(self, shape: Shape, keep: np.ndarray, noise: np.ndarray, device: "torch.device"):
        self.shape = shape
        self.device = device
        self.n_words = len(keep)

        needed_bytes = 2 * 4 * self.n_words * shape.stride + SPARE_BYTES
        free_bytes = free_memory(device)
        if needed_bytes > free_bytes:
            raise memory_error(
                f"Two float32 tables of {self.n_words:,} x {shape.n_dims}",
                needed_bytes,
                free_bytes,
                "Use fewer n_dims, raise min_count, or use device='cpu'.",
            )

        self.input = torch.zeros(self.n_words, shape.stride, device=device)
        self.output = torch.zeros(self.n_words, shape.stride, device=device)
        # Bits of uint32 travel as int32, a type that every version of torch has.
        keep_bits = keep_thresholds(keep).view(np.int32)
        noise_bits = alias_table(noise).view(np.int32)
        self.keep = torch.from_numpy(keep_bits).to(device)
        self.noise = torch.from_numpy(noise_bits).to(device)
        self.counts = torch.zeros(2, dtype=torch.int64, device=device)
        self.loss = torch.zeros(1, dtype=torch.float64, device=device)
        self.next = torch.zeros(1, dtype=torch.int32, device=device)

        self.kernel = kernel("skipgram.cu", "train", shape.constants(), device)
        self.kernel.allow_shared_memory(shape.shared_bytes)

        n_fitting = self.kernel.blocks_per_processor(32, shape.shared_bytes)
        n_processors = torch.cuda.get_device_properties(device).multi_processor_count
        n_useful = min(n_fitting, WARPS_PER_PROCESSOR) * n_processors
        # Steps of warps that work side by side are taken from the same old rows. Where the
        # vocabulary is small they would all be the same few rows.
        self.n_warps = max(1, min(n_useful, self.n_words // 8))

    def start_at_random(self, seed: int) -> None:
        """Input rows uniform in +-0.5 / n_dims, output rows zero, as word2vec starts."""
        generator = torch.Generator(device=self.device).manual_seed(seed)
        width = 0.5 / self.shape.n_dims
        for first in range(0, self.n_words, 1 << 20):
            rows = self.input[first : first + (1 << 20), : self.shape.n_dims]
            rows.uniform_(-width, width, generator=generator)
        self.output.zero_()

    def load(self, input_vectors: Any, output_vectors: Any) -> None:
        """Continue with these vectors, each (n_words, n_dims)."""
        n_dims = self.shape.n_dims
        self.input[:, :n_dims] = torch.as_tensor(input_vectors).to(self.device)
        self.output[:, :n_dims] = torch.as_tensor(output_vectors).to(self.device)

    def tables(self) -> tuple[np.ndarray, np.ndarray]:
        """Input and output vectors, without padding, in memory."""
        n_dims = self.shape.n_dims
        input_vectors = self.input[:, :n_dims].contiguous().cpu().numpy()
        output_vectors = self.output[:, :n_dims].contiguous().cpu().numpy()
        return input_vectors, output_vectors

    def launch(
        self,
        tokens: Any,
        chunks: Any,
        order: Any,
        *,
        place: int,
        key: Any,
        rate: float,
        done: float,
        span: float,
        n_warps: int | None = None,
    ) -> None:
        """Train on tokens[chunks[order]]; all three are on the device. Does not wait."""
        n_chunks = order.numel()
        if n_chunks == 0:
            return

        self.next.zero_()
        pointers = {
            "input": self.input,
            "output": self.output,
            "tokens": tokens,
            "order": order,
            "starts": chunks.starts,
            "lengths": chunks.lengths,
            "before": chunks.before,
            "after": chunks.after,
            "keep": self.keep,
            "noise": self.noise,
            "next": self.next,
            "counts": self.counts,
            "loss": self.loss,
        }

        work = Work(
            **{name: tensor.data_ptr() for name, tensor in pointers.items()},
            key=key,
            place=place,
            n_chunks=n_chunks,
            n_words=self.n_words,
            rate=rate,
            rate_floor=MIN_RATE,
            done=done,
            span=span,
        )

        grid = min(n_warps or self.n_warps, n_chunks)
        self.kernel.launch(grid, 32, [work], self.shape.shared_bytes)


def _chunks_to(chunks: Chunks, device: "torch.device") -> Chunks:
    """The same arrays as tensors on the device."""
    return Chunks(*[torch.from_numpy(np.ascontiguousarray(part)).to(device) for part in chunks])


class Resident:
    """A corpus that fits into GPU memory: one segment, copied once."""

    def __init__(self, ids: Any, offsets: np.ndarray, device: "torch.device", reach: int):
        if isinstance(ids, torch.Tensor):
            self.tokens = ids.to(device)
        else:
            self.tokens = torch.empty(len(ids), dtype=torch.int32, device=device)
            for first in range(0, len(ids), SEGMENT_TOKENS):
                part = np.array(ids[first : first + SEGMENT_TOKENS], dtype=np.int32)
                self.tokens[first : first + part.size] = torch.from_numpy(part).to(device)

        chunks = chunks_between(offsets, 0, len(ids), reach)
        self.n_tokens = [len(ids)]
        self.chunks = _chunks_to(chunks, device)

    def segment(self, number: int) -> Any:
        """(tokens, chunks, place of the first token in the corpus) of a segment."""
        return self.tokens, self.chunks, 0

    def used(self, number: int) -> None:
        """Nothing is copied again."""

    prepare = used


class Streamed:
    """A corpus that does not fit: segments pass through two buffers while the GPU works."""

    def __init__(
        self,
        ids: Any,
        offsets: np.ndarray,
        device: "torch.device",
        reach: int,
        segment_tokens: int = SEGMENT_TOKENS,
    ):
        self.ids = ids
        self.offsets = offsets
        self.device = device
        self.reach = reach
        self.cuts = cut_points(offsets, len(ids), segment_tokens)
        self.n_tokens = [high - low for low, high in itertools.pairwise(self.cuts)]

        size = max(self.n_tokens) + 2 * reach + 2 * CHUNK_TOKENS
        self.host = [torch.empty(size, dtype=torch.int32).pin_memory() for _ in range(2)]
        self.buffers = [torch.empty(size, dtype=torch.int32, device=device) for _ in range(2)]

        self.stream = torch.cuda.Stream(device)
        self.copied = [torch.cuda.Event() for _ in range(2)]
        self.trained = [None, None]
        self.ready: dict[int, tuple] = {}
        self.turn = 0

    def prepare(self, number: int) -> None:
        """Start copying a segment; returns while the copy runs."""
        if number in self.ready:
            return

        slot = self.turn
        self.turn = 1 - self.turn

        # The segment, with the neighbours that its windows reach.
        low = self.cuts[number]
        high = self.cuts[number + 1]
        first = max(0, low - self.reach)
        stop = min(len(self.ids), high + self.reach)
        chunks = chunks_between(self.offsets, low, high, self.reach)
        chunks = chunks._replace(starts=chunks.starts - first)

        self.copied[slot].synchronize()  # the page-locked buffer may still be being copied
        self.host[slot][: stop - first].numpy()[:] = self.ids[first:stop]
        with torch.cuda.stream(self.stream):
            if self.trained[slot] is not None:
                self.stream.wait_event(self.trained[slot])
            self.buffers[slot].copy_(self.host[slot], non_blocking=True)
            on_device = _chunks_to(chunks, self.device)
            self.copied[slot].record(self.stream)

        self.ready[number] = (slot, on_device, first)

    def segment(self, number: int) -> Any:
        """(tokens, chunks, place of the first token in the corpus) of a segment."""
        self.prepare(number)
        slot, chunks, place = self.ready[number]
        stream = torch.cuda.current_stream(self.device)
        stream.wait_event(self.copied[slot])
        for part in chunks:  # made on the copying stream: keep it until training is done with it
            part.record_stream(stream)
        return self.buffers[slot], chunks, place

    def used(self, number: int) -> None:
        """All launches on this segment have been queued: its buffer is free after them."""
        slot, _, _ = self.ready.pop(number)
        self.trained[slot] = torch.cuda.Event()
        self.trained[slot].record(torch.cuda.current_stream(self.device))


@dataclass(frozen=True)
class Training:
    """Settings of a run, with which a checkpoint must agree.

    Most settings are those of `SkipGram`. Sub-sampling is drawn anew every epoch, the window of
    each centre word uniformly from 1 to `window`; the rate falls linearly to learning_rate /
    10,000. One set of negatives serves all pairs of `n_centres` neighbouring centre words (1 is
    slower by half; 4 is not faster and scores 2 points less in analogies). Additions of parallel
    warps come in any order, so two runs of a `random_state` agree in their draws and not in their
    last digits.
    """

    n_dims: int = 300
    window: int = 5
    subsample: float = 1e-4
    n_epochs: int = 5
    n_negatives: int = 15
    noise_power: float = 0.75
    learning_rate: float = 0.025
    random_state: int = 0
    n_centres: int = N_CENTRES

    def shape(self) -> Shape:
        """The constants of the kernel; an error where it cannot be compiled for them."""
        shape = Shape(self.n_dims, self.n_negatives, self.window, self.n_centres)
        _check_shape(shape)
        return shape

    def record(self, corpus: Any, n_segments: int) -> dict:
        """The values that a checkpoint must have to be resumed."""
        return {
            **asdict(self),
            "digest": getattr(corpus, "digest", None),
            "n_centres": self.shape().n_centres,
            "random_state": int(self.random_state),
            "n_segments": n_segments,
        }


def train_skipgram(
    corpus: "Corpus",
    *,
    checkpoint: str | os.PathLike | None = None,
    checkpoint_seconds: float = 600.0,
    verbose: bool = False,
    device: str = "cuda",
    segment_tokens: int | None = None,
    report: Callable[[dict], object] | None = None,
    **settings: Any,
) -> tuple[np.ndarray, np.ndarray, list[float]]:
    """Train Skip-gram on a GPU: (input_vectors, output_vectors, mean loss by epoch).

    Documents of any length are trained whole, and windows do not cross their boundaries. The folder
    `checkpoint` is kept up to date every `checkpoint_seconds` and at the end of every epoch; if it
    holds an unfinished run of the same settings on the same corpus, that run is resumed.
    `segment_tokens` are those of a segment of a corpus that is streamed, for measurements and
    tests. `report` is called after the run with a dict: seconds, tokens_per_second, n_pairs,
    n_kept, peak_bytes. Settings are those of `Training`.
    """
    training = Training(**settings)
    shape = training.shape()
    gpu = require(device)
    if gpu.type == "cpu":
        raise ValueError(
            "device must be 'cuda' here. Got 'cpu' instead. SkipGram(device='cpu') is the trainer "
            "for processors."
        )

    with torch.cuda.device(gpu):
        torch.cuda.reset_peak_memory_stats(gpu)
        keep = corpus.vocabulary.keep_probabilities(training.subsample)
        noise = corpus.vocabulary.noise_probabilities(training.noise_power)
        trainer = Trainer(shape, keep, noise, gpu)
        source = _make_source(corpus, gpu, training.window, segment_tokens)

        record = training.record(corpus, len(source.n_tokens))
        saved = None if checkpoint is None else Checkpoint(checkpoint, record)
        content = saved.load() if saved else None
        if content is not None:
            state, vectors = content
            trainer.load(*vectors)
        else:
            trainer.start_at_random(record["random_state"])
            state = {"epoch": 0, "launch": 0, "totals": [0, 0, 0.0], "losses": []}

        run = _Run(trainer, source, record, state, saved, checkpoint_seconds)
        run.train(verbose)
        input_vectors, output_vectors = trainer.tables()
        if report is not None:
            report(run.summary())

    if saved:
        saved.remove()
    if not (np.isfinite(input_vectors).all() and np.isfinite(output_vectors).all()):
        raise ValueError(
            "The trained vectors must be finite. Got inf or nan instead. Lower learning_rate."
        )
    return input_vectors, output_vectors, run.losses


def _check_shape(shape: Shape) -> None:
    max_dims = 32 * REGISTER_ROWS
    if shape.stride > max_dims:
        raise ValueError(f"n_dims must be at most {max_dims} on a GPU. Got {shape.n_dims} instead.")

    n_products = shape.n_negatives * 2 * shape.window
    if n_products >= 1 << 16:
        raise ValueError(
            f"n_negatives * 2 * window must be below 65,536 on a GPU. Got {n_products:,} instead."
        )
    if shape.shared_bytes > MAX_SHARED_BYTES:
        raise ValueError(
            f"The rows of one window must fit into {MAX_SHARED_BYTES:,} bytes on a GPU. Got window="
            f"{shape.window} and n_dims={shape.n_dims}, which take {shape.shared_bytes:,} instead. "
            "Use a smaller window, fewer n_dims, or device='cpu'."
        )


def _make_source(
    corpus: "Corpus", device: "torch.device", window: int, segment_tokens: int | None
) -> Resident | Streamed:
    """The corpus on the device if it fits, streamed if it does not."""
    reach = CONTEXT_TOKENS_PER_WORD * window
    n_tokens = len(corpus.ids)
    offsets = np.asarray(corpus.offsets)
    if segment_tokens is not None:
        return Streamed(corpus.ids, offsets, device, reach, segment_tokens)

    token_bytes = 4 * n_tokens
    chunk_bytes = 24 * (n_tokens // CHUNK_TOKENS + offsets.size)
    if token_bytes + chunk_bytes + SPARE_BYTES < free_memory(device):
        return Resident(corpus.ids, offsets, device, reach)

    # 16 bytes a token: two buffers, and the chunks.
    n_fitting = (free_memory(device) - SPARE_BYTES) // 16
    if n_fitting < 1 << 20:
        raise memory_error(
            "Two segments of the corpus",
            SPARE_BYTES + (16 << 20),
            free_memory(device),
            "Close other programs on the GPU, or use device='cpu'.",
        )
    return Streamed(corpus.ids, offsets, device, reach, min(SEGMENT_TOKENS, n_fitting))


class _Launch(NamedTuple):
    """One of the equal parts in which a segment is trained."""

    segment: int
    part: int
    n_parts: int


class _InFlight(NamedTuple):
    """A launch that the GPU may still work on."""

    event: Any  # recorded when it ends
    totals: Any  # (3,) on the device: kept tokens, pairs, loss
    done_tokens: float  # of all epochs, after it


class _Run:
    """One training run: epochs, segments in random order, launches, running totals."""

    def __init__(
        self,
        trainer: Trainer,
        source: Resident | Streamed,
        settings: dict,
        state: dict,
        saved: "Checkpoint | None",
        checkpoint_seconds: float,
    ):
        self.trainer = trainer
        self.source = source
        self.settings = settings
        self.saved = saved
        self.checkpoint_seconds = checkpoint_seconds

        self.n_tokens = sum(source.n_tokens)
        self.n_all_tokens = self.n_tokens * settings["n_epochs"]
        self.first_epoch: int = state["epoch"]
        self.first_launch: int = state["launch"]  # of the first epoch
        self.losses = list(state["losses"])

        # Of the epoch: kept tokens, pairs, sum of the losses.
        self.epoch_totals = np.array(state["totals"], dtype=np.float64)
        self.in_flight: deque[_InFlight] = deque()
        self.n_kept = 0
        self.n_pairs = 0
        self.trained_tokens = 0.0
        self.seconds = 0.0
        self.started = 0.0
        self.last_saved = 0.0

    def plan_epoch(self, epoch: int) -> Iterator[_Launch]:
        """The launches of an epoch, in its order."""
        rng = np.random.default_rng([self.settings["random_state"], epoch])
        for segment in rng.permutation(len(self.source.n_tokens)):
            n_parts = max(1, _ceil_div(self.source.n_tokens[segment], LAUNCH_TOKENS))
            for part in range(n_parts):
                yield _Launch(int(segment), part, n_parts)

    def train(self, verbose: bool) -> None:
        """Train to the end, with checkpoints if there is a place for them."""
        from pacsent.progress import bar

        n_epochs = self.settings["n_epochs"]
        self.started = time.monotonic()
        self.last_saved = self.started
        with bar("train", total=self.n_all_tokens, unit="words", enabled=verbose) as progress:
            for epoch in range(self.first_epoch, n_epochs):
                self._train_epoch(epoch, progress)
                self._finish_epoch(epoch)
                if self.saved and epoch + 1 < n_epochs:
                    self._save(epoch + 1, 0)

        torch.cuda.synchronize(self.trainer.device)
        self.seconds = time.monotonic() - self.started

    def _train_epoch(self, epoch: int, progress: Any) -> None:
        """Train the launches of an epoch that were not trained before, and wait for them."""
        key = epoch_key(self.settings["random_state"], epoch)
        plan = list(self.plan_epoch(epoch))
        n_skipped = self.first_launch if epoch == self.first_epoch else 0
        done_tokens: float = epoch * self.n_tokens
        order = None

        for number, launch in enumerate(plan):
            n_tokens = self.source.n_tokens[launch.segment] / launch.n_parts
            if number < n_skipped:
                done_tokens += n_tokens
                continue

            # Chunks of a segment are trained in random order.
            tokens, chunks, place = self.source.segment(launch.segment)
            if order is None or launch.part == 0:
                order = self._draw_order(chunks.starts.numel(), key + launch.segment)
            low = order.numel() * launch.part // launch.n_parts
            high = order.numel() * (launch.part + 1) // launch.n_parts
            self.trainer.launch(
                tokens,
                chunks,
                order[low:high].contiguous(),
                place=place,
                key=key,
                rate=self.settings["learning_rate"],
                done=done_tokens / self.n_all_tokens,
                span=n_tokens / self.n_all_tokens,
            )

            if launch.part == launch.n_parts - 1:
                self.source.used(launch.segment)
            done_tokens += n_tokens
            self.trained_tokens += n_tokens
            self.in_flight.append(self._take_totals(done_tokens))

            # The next segment is copied while the GPU works on this one.
            is_last = number + 1 == len(plan)
            if not is_last and plan[number + 1].segment != launch.segment:
                self.source.prepare(plan[number + 1].segment)
            self._wait(2, progress)

            if self.saved and time.monotonic() - self.last_saved > self.checkpoint_seconds:
                self._wait(0, progress)
                self._save(epoch, number + 1)

        self._wait(0, progress)

    def _draw_order(self, n_chunks: int, seed: int) -> Any:
        """A random order of the chunks of a segment, on the device."""
        device = self.trainer.device
        generator = torch.Generator(device=device)
        generator.manual_seed(seed & ((1 << 63) - 1))
        return torch.randperm(n_chunks, generator=generator, device=device, dtype=torch.int32)

    def _take_totals(self, done_tokens: float) -> _InFlight:
        """The totals of the launch that was queued last; those of the next one begin at 0."""
        trainer = self.trainer
        totals = torch.cat([trainer.counts.double(), trainer.loss])
        trainer.counts.zero_()
        trainer.loss.zero_()

        event = torch.cuda.Event()
        event.record()
        return _InFlight(event, totals, done_tokens)

    def _wait(self, max_in_flight: int, progress: Any) -> None:
        """Wait until few launches are under way, and add the totals of the others up."""
        while len(self.in_flight) > max_in_flight:
            launch = self.in_flight.popleft()
            launch.event.synchronize()
            totals = launch.totals.cpu().numpy()

            if not np.isfinite(totals[2]):
                raise ValueError(
                    f"The loss must be finite. Got {totals[2]} instead after "
                    f"{launch.done_tokens:,.0f} words. Lower learning_rate."
                )

            self.epoch_totals += totals
            progress.update(int(launch.done_tokens), note=f"loss {self._mean_loss():.4f}")

    def _mean_loss(self) -> float:
        """Mean loss of a pair in this epoch."""
        _, n_pairs, loss = self.epoch_totals
        return float(loss / max(1.0, n_pairs))

    def _finish_epoch(self, epoch: int) -> None:
        """Record and log the totals of an epoch; those of the next one begin at 0."""
        self.losses.append(self._mean_loss())
        self.n_kept += int(self.epoch_totals[0])
        self.n_pairs += int(self.epoch_totals[1])
        self.epoch_totals[:] = 0

        tokens_per_second = self.trained_tokens / (time.monotonic() - self.started)
        log.info(
            "epoch %d: loss %.4f, %.1f M words/s",
            epoch + 1,
            self.losses[-1],
            tokens_per_second / 1e6,
        )

    def _save(self, epoch: int, launch: int) -> None:
        """Write a checkpoint from which the training continues at a launch of an epoch."""
        assert self.saved is not None
        state = {
            "epoch": epoch,
            "launch": launch,
            "totals": self.epoch_totals.tolist(),
            "losses": self.losses,
        }
        self.saved.save(state, self.trainer.tables())
        self.last_saved = time.monotonic()

    def summary(self) -> dict:
        """The measurements that `report` receives."""
        return {
            "seconds": self.seconds,
            "tokens_per_second": self.trained_tokens / max(self.seconds, 1e-9),
            "n_pairs": self.n_pairs,
            "n_kept": self.n_kept,
            "n_warps": self.trainer.n_warps,
            "peak_bytes": torch.cuda.max_memory_allocated(self.trainer.device),
            "streamed": isinstance(self.source, Streamed),
        }


class Checkpoint:
    """An unfinished run in a folder: settings, how far it is, and both matrices."""

    def __init__(self, folder: str | os.PathLike, settings: dict):
        self.folder = Path(folder)
        self.settings = settings

    def load(self) -> Any:
        """(state, (input vectors, output vectors)); None if there is no checkpoint."""
        path = self.folder / "state.json"
        if not path.exists():
            return None

        content = json.loads(path.read_text())
        self._check_settings(content["settings"])
        input_vectors = np.load(self.folder / "input.npy")
        output_vectors = np.load(self.folder / "output.npy")
        return content["state"], (input_vectors, output_vectors)

    def _check_settings(self, stored: dict) -> None:
        if stored == self.settings:
            return

        names = stored | self.settings
        changed = sorted(name for name in names if stored.get(name) != self.settings.get(name))
        raise ValueError(
            f"The checkpoint in {self.folder} must belong to this run. Got one with other "
            f"{', '.join(changed)} instead. Use another folder, or remove it to start anew."
        )

    def save(self, state: dict, tables: Any) -> None:
        """Replace the checkpoint; the one before stays valid until this one is complete."""
        input_vectors, output_vectors = tables
        content = json.dumps({"settings": self.settings, "state": state}, indent=1)
        with replacing_folder(self.folder) as folder:
            np.save(folder / "input.npy", input_vectors)
            np.save(folder / "output.npy", output_vectors)
            (folder / "state.json").write_text(content)

    def remove(self) -> None:
        """Delete the checkpoint, if there is one."""
        shutil.rmtree(self.folder, ignore_errors=True)
