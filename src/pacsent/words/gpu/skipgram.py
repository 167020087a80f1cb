"""Skip-gram with negative sampling on a GPU: the corpus in chunks, a warp for each.

`train_skipgram` is what `SkipGram(device="cuda")` calls. The kernel is skipgram.cu in this folder;
tests/reference/gpu_skipgram_reference.py repeats its work tile by tile in plain torch, draws
included, and the tests compare both.

A corpus that does not fit into GPU memory is streamed: while the GPU trains on one segment, the
next one is copied from the id file through page-locked memory.
"""

import ctypes
import json
import logging
import os
import shutil
import time
from collections import deque
from collections.abc import Callable
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
        return -(-self.n_dims // 32) * 32

    @property
    def n_outputs(self) -> int:
        return self.n_centres + self.n_negatives

    @property
    def group(self) -> int:
        """Output rows held in registers at a time."""
        each = self.stride // 32
        n_groups = max(-(-self.n_outputs * each // REGISTER_ROWS), -(-self.n_outputs // 32))
        return -(-self.n_outputs // n_groups)

    @property
    def shared_bytes(self) -> int:
        rows = 2 * self.window + self.n_centres
        n_groups = -(-self.n_outputs // self.group)
        numbers = rows * self.stride * (2 if n_groups > 1 else 1)
        numbers += rows * (-(-self.group // 4) * 4) + -(-self.n_outputs // 4) * 4
        return 4 * (numbers + 2 * CHUNK_TOKENS + 2 * self.window)

    def constants(self) -> tuple:
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
        *[(name, ctypes.c_void_p) for name in ("input", "output", "tokens", "starts", "lengths")],
        *[(name, ctypes.c_void_p) for name in ("before", "after", "order", "keep", "noise")],
        *[(name, ctypes.c_void_p) for name in ("next", "counts", "loss")],
        ("key", ctypes.c_uint64),
        ("place", ctypes.c_int64),
        ("n_chunks", ctypes.c_uint32),
        ("n_words", ctypes.c_uint32),
        *[(name, ctypes.c_float) for name in ("rate", "rate_floor", "done", "span")],
    ]


# ---- what the kernel is handed ------------------------------------------------------------------


def keep_thresholds(probabilities: np.ndarray) -> np.ndarray:
    """A word is kept when a 32-bit draw is at most its threshold."""
    return np.clip(np.asarray(probabilities) * 2.0**32, 0, 2.0**32 - 1).astype(np.uint32)


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
        start, length = int(offsets[document]), int(offsets[document + 1] - offsets[document])
        n_chunks = max(1, -(-length // chunk_tokens))
        cut = start + (target - start) * n_chunks // max(1, length) * length // n_chunks
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
    first = max(0, int(np.searchsorted(offsets, low, side="right")) - 1)
    last = int(np.searchsorted(offsets, high, side="left"))
    begin = np.asarray(offsets[first:last], dtype=np.int64)
    end = np.asarray(offsets[first + 1 : last + 1], dtype=np.int64)
    long_enough = end - begin >= 2
    begin, end = begin[long_enough], end[long_enough]

    n_chunks = -(-(end - begin) // chunk_tokens)
    document = np.repeat(np.arange(begin.size), n_chunks)
    number = np.arange(document.size) - np.repeat(np.cumsum(n_chunks) - n_chunks, n_chunks)
    begin, length, n_chunks = begin[document], (end - begin)[document], n_chunks[document]

    starts = begin + number * length // n_chunks
    stops = begin + (number + 1) * length // n_chunks

    inside = (starts >= low) & (starts < high)
    starts, stops, begin, length = starts[inside], stops[inside], begin[inside], length[inside]
    return Chunks(
        starts,
        (stops - starts).astype(np.int32),
        np.minimum(starts - begin, reach).astype(np.int32),
        np.minimum(begin + length - stops, reach).astype(np.int32),
    )


def epoch_key(seed: int, epoch: int) -> int:
    """The key of all draws of an epoch."""
    mask = (1 << 64) - 1
    key = int(mix(np.uint64(seed & mask))) + epoch * 0xD1B54A32D192ED03
    return int(mix(np.uint64(key & mask)))


# ---- training -----------------------------------------------------------------------------------


class Trainer:
    """The two matrices on the device, and launches over chunks of tokens that are there too."""

    def __init__(self, shape: Shape, keep: np.ndarray, noise: np.ndarray, device: "torch.device"):
        self.shape, self.device = shape, device
        self.n_words = len(keep)

        n_bytes = 2 * 4 * self.n_words * shape.stride
        free = free_memory(device)
        if n_bytes + SPARE_BYTES > free:
            raise memory_error(
                f"Two float32 tables of {self.n_words:,} x {shape.n_dims}",
                n_bytes + SPARE_BYTES,
                free,
                "Use fewer n_dims, raise min_count, or use device='cpu'.",
            )

        self.input = torch.zeros(self.n_words, shape.stride, device=device)
        self.output = torch.zeros(self.n_words, shape.stride, device=device)
        self.keep = torch.from_numpy(keep_thresholds(keep).view(np.int32)).to(device)
        self.noise = torch.from_numpy(alias_table(noise).view(np.int32)).to(device)
        self.counts = torch.zeros(2, dtype=torch.int64, device=device)
        self.loss = torch.zeros(1, dtype=torch.float64, device=device)
        self.next = torch.zeros(1, dtype=torch.int32, device=device)

        self.kernel = kernel("skipgram.cu", "train", shape.constants(), device)
        self.kernel.allow_shared_memory(shape.shared_bytes)

        fit = self.kernel.blocks_per_processor(32, shape.shared_bytes)
        per_processor = min(fit, WARPS_PER_PROCESSOR)
        processors = torch.cuda.get_device_properties(device).multi_processor_count
        # Steps of warps that work side by side are taken from the same old rows. Where the
        # vocabulary is small they would all be the same few rows.
        self.n_warps = max(1, min(per_processor * processors, self.n_words // 8))

    def start_at_random(self, seed: int) -> None:
        """Input rows uniform in +-0.5 / n_dims, output rows zero, as word2vec starts."""
        generator = torch.Generator(device=self.device).manual_seed(seed)
        width = 0.5 / self.shape.n_dims
        for first in range(0, self.n_words, 1 << 20):
            rows = self.input[first : first + (1 << 20), : self.shape.n_dims]
            rows.uniform_(-width, width, generator=generator)
        self.output.zero_()

    def load(self, input_vectors: Any, output_vectors: Any) -> None:
        for table, vectors in ((self.input, input_vectors), (self.output, output_vectors)):
            table[:, : self.shape.n_dims] = torch.as_tensor(vectors).to(self.device)

    def tables(self) -> tuple[np.ndarray, np.ndarray]:
        n_dims = self.shape.n_dims
        return tuple(
            table[:, :n_dims].contiguous().cpu().numpy() for table in (self.input, self.output)
        )

    def launch(
        self,
        tokens: Any,
        chunks: Any,
        order: Any,
        *,
        place: int,
        key: Any,
        rate: float,
        done: int,
        span: int,
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


def _chunks_to(chunks: Chunks, device) -> Chunks:
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
        self.ids, self.offsets, self.device, self.reach = ids, offsets, device, reach
        self.cuts = cut_points(offsets, len(ids), segment_tokens)
        self.n_tokens = [high - low for low, high in zip(self.cuts[:-1], self.cuts[1:])]

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

        slot, self.turn = self.turn, 1 - self.turn
        low, high = self.cuts[number], self.cuts[number + 1]
        first, stop = max(0, low - self.reach), min(len(self.ids), high + self.reach)

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
    """What a run learns and how; what a checkpoint must agree with.

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
        """What a checkpoint is compared by."""
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
    used = require(device)
    if used.type == "cpu":
        raise ValueError(
            "device must be 'cuda' here. Got 'cpu' instead. SkipGram(device='cpu') is the trainer "
            "for processors."
        )

    with torch.cuda.device(used):
        torch.cuda.reset_peak_memory_stats(used)
        keep = corpus.vocabulary.keep_probabilities(training.subsample)
        noise = corpus.vocabulary.noise_probabilities(training.noise_power)
        trainer = Trainer(shape, keep, noise, used)
        source = _source(corpus, used, training.window, segment_tokens)

        record = training.record(corpus, len(source.n_tokens))
        saved = Checkpoint(checkpoint, record) if checkpoint is not None else None
        content = saved.load() if saved else None
        if content is not None:
            state, vectors = content
            trainer.load(*vectors)
        else:
            trainer.start_at_random(record["random_state"])
            state = {"epoch": 0, "launch": 0, "totals": [0, 0, 0.0], "losses": []}

        run = _Run(trainer, source, record, state, saved, checkpoint_seconds)
        run.train(verbose)
        tables = trainer.tables()
        if report is not None:
            report(run.summary())

    if saved:
        saved.remove()
    if not all(np.isfinite(table).all() for table in tables):
        raise ValueError(
            "The trained vectors must be finite. Got inf or nan instead. Lower learning_rate."
        )
    return (*tables, run.losses)


def _check_shape(shape: Shape):
    if shape.stride // 32 > REGISTER_ROWS:
        raise ValueError(
            f"n_dims must be at most {32 * REGISTER_ROWS} on a GPU. Got {shape.n_dims} instead."
        )
    if shape.n_negatives * 2 * shape.window >= 1 << 16:
        raise ValueError(
            "n_negatives * 2 * window must be below 65,536 on a GPU. Got "
            f"{shape.n_negatives * 2 * shape.window:,} instead."
        )
    if shape.shared_bytes > MAX_SHARED_BYTES:
        raise ValueError(
            f"The rows of one window must fit into {MAX_SHARED_BYTES:,} bytes on a GPU. Got window="
            f"{shape.window} and n_dims={shape.n_dims}, which take {shape.shared_bytes:,} instead. "
            "Use a smaller window, fewer n_dims, or device='cpu'."
        )


def _source(corpus, device, window, segment_tokens):
    """The corpus on the device where it fits, streamed where it does not."""
    reach = CONTEXT_TOKENS_PER_WORD * window
    n_tokens = len(corpus.ids)
    offsets = np.asarray(corpus.offsets)

    if segment_tokens is None:
        chunk_bytes = 24 * (n_tokens // CHUNK_TOKENS + offsets.size)
        if 4 * n_tokens + chunk_bytes + SPARE_BYTES < free_memory(device):
            return Resident(corpus.ids, offsets, device, reach)

        fit = (free_memory(device) - SPARE_BYTES) // 16
        if fit < 1 << 20:
            raise memory_error(
                "Two segments of the corpus",
                SPARE_BYTES + (16 << 20),
                free_memory(device),
                "Close other programs on the GPU, or use device='cpu'.",
            )
        segment_tokens = min(SEGMENT_TOKENS, fit)

    return Streamed(corpus.ids, offsets, device, reach, segment_tokens)


class _Run:
    """One training run: epochs, segments in random order, launches, running totals."""

    def __init__(self, trainer, source, settings, state, saved, checkpoint_seconds):
        self.trainer, self.source, self.settings, self.saved = trainer, source, settings, saved
        self.every = checkpoint_seconds
        self.n_tokens = sum(source.n_tokens)
        self.state = state
        self.losses = list(state["losses"])
        self.n_pairs = self.n_kept = self.trained_tokens = 0
        self.seconds = 0.0

    def launches(self, epoch):
        """(segment, part, n_parts) of an epoch, in its order."""
        rng = np.random.default_rng([self.settings["random_state"], epoch])
        for segment in rng.permutation(len(self.source.n_tokens)):
            n_parts = max(1, -(-self.source.n_tokens[segment] // LAUNCH_TOKENS))
            for part in range(n_parts):
                yield int(segment), part, n_parts

    def train(self, verbose):
        from pacsent.progress import bar

        trainer, source, settings = self.trainer, self.source, self.settings
        total = self.n_tokens * settings["n_epochs"]
        device = trainer.device
        in_flight: deque = deque()
        epoch_totals = np.array(self.state["totals"], dtype=np.float64)
        last_saved = started = time.monotonic()

        with bar("train", total=total, unit="words", enabled=verbose) as progress:
            for epoch in range(self.state["epoch"], settings["n_epochs"]):
                key = epoch_key(settings["random_state"], epoch)
                plan = list(self.launches(epoch))
                skip = self.state["launch"] if epoch == self.state["epoch"] else 0
                done_tokens = epoch * self.n_tokens
                order = None

                for number, (segment, part, n_parts) in enumerate(plan):
                    n_here = source.n_tokens[segment] / n_parts
                    if number < skip:
                        done_tokens += n_here
                        continue

                    tokens, chunks, place = source.segment(segment)
                    if order is None or part == 0:
                        generator = torch.Generator(device=device)
                        generator.manual_seed((key + segment) & ((1 << 63) - 1))
                        n_chunks = chunks.starts.numel()
                        kind = {"device": device, "dtype": torch.int32}
                        order = torch.randperm(n_chunks, generator=generator, **kind)

                    low = n_chunks * part // n_parts
                    high = n_chunks * (part + 1) // n_parts
                    trainer.launch(
                        tokens,
                        chunks,
                        order[low:high].contiguous(),
                        place=place,
                        key=key,
                        rate=settings["learning_rate"],
                        done=done_tokens / total,
                        span=n_here / total,
                    )

                    if part == n_parts - 1:
                        source.used(segment)
                    done_tokens += n_here
                    self.trained_tokens += n_here

                    totals = torch.cat([trainer.counts.double(), trainer.loss])
                    trainer.counts.zero_()
                    trainer.loss.zero_()
                    event = torch.cuda.Event()
                    event.record()
                    in_flight.append((event, totals, done_tokens))

                    if number + 1 < len(plan) and plan[number + 1][0] != segment:
                        source.prepare(plan[number + 1][0])
                    self._wait(in_flight, 2, epoch_totals, progress)

                    if self.saved and time.monotonic() - last_saved > self.every:
                        self._wait(in_flight, 0, epoch_totals, progress)
                        self._save(epoch, number + 1, epoch_totals)
                        last_saved = time.monotonic()

                self._wait(in_flight, 0, epoch_totals, progress)
                self.losses.append(float(epoch_totals[2] / max(1.0, epoch_totals[1])))
                self.n_kept += int(epoch_totals[0])
                self.n_pairs += int(epoch_totals[1])

                log.info(
                    "epoch %d: loss %.4f, %.1f M words/s",
                    epoch + 1,
                    self.losses[-1],
                    self.trained_tokens / (time.monotonic() - started) / 1e6,
                )

                epoch_totals[:] = 0
                if self.saved and epoch + 1 < settings["n_epochs"]:
                    self._save(epoch + 1, 0, epoch_totals)
                    last_saved = time.monotonic()

        torch.cuda.synchronize(device)
        self.seconds = time.monotonic() - started

    def _wait(self, in_flight, most, so_far, progress):
        """Wait until at most `most` launches are under way, their totals added up in place."""
        while len(in_flight) > most:
            event, totals, done_tokens = in_flight.popleft()
            event.synchronize()
            totals = totals.cpu().numpy()

            if not np.isfinite(totals[2]):
                raise ValueError(
                    f"The loss must be finite. Got {totals[2]} instead after {done_tokens:,.0f} "
                    "words. Lower learning_rate."
                )

            so_far += totals
            progress.update(int(done_tokens), note=f"loss {so_far[2] / max(1.0, so_far[1]):.4f}")

    def _save(self, epoch, launch, epoch_totals):
        state = {"epoch": epoch, "launch": launch, "totals": [float(x) for x in epoch_totals]}
        self.saved.save({**state, "losses": self.losses}, self.trainer.tables())

    def summary(self) -> dict:
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
        self.folder, self.settings = Path(folder), settings

    def load(self) -> Any:
        path = self.folder / "state.json"
        if not path.exists():
            return None

        content = json.loads(path.read_text())
        if content["settings"] != self.settings:
            theirs, ours = content["settings"], self.settings
            changed = sorted(key for key in theirs | ours if theirs.get(key) != ours.get(key))
            raise ValueError(
                f"The checkpoint in {self.folder} must belong to this run. Got one with other "
                f"{', '.join(changed)} instead. Use another folder, or remove it to start anew."
            )

        tables = tuple(np.load(self.folder / f"{name}.npy") for name in ("input", "output"))
        return content["state"], tables

    def save(self, state: dict, tables: Any) -> None:
        with replacing_folder(self.folder) as folder:
            for name, table in zip(("input", "output"), tables):
                np.save(folder / f"{name}.npy", table)
            (folder / "state.json").write_text(
                json.dumps({"settings": self.settings, "state": state}, indent=1)
            )

    def remove(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)
