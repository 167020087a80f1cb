"""SkipGram: trains both tables of word vectors on a text. The inner loops are in `_kernels`.

The corpus is cut into chunks of some thousand tokens; a worker takes the next chunk, draws which
tokens to keep, and hands the rest to a kernel. What is drawn depends on the seed and the place in
the corpus only, so a run can stop after any chunk and go on later as if it had never stopped.
"""

import contextlib
import errno
import json
import logging
import mmap
import os
import shutil
import tempfile
import threading
import time
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from numbers import Integral, Real
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state

from pacsent.files import replacing
from pacsent.maths.noise import parts_of_noise
from pacsent.parameter_checks import DeviceName, Interval, StrOptions, fit_context
from pacsent.progress import bar
from pacsent.storage.checksums import checksum_of_json
from pacsent.text.normalise import TOKENISERS
from pacsent.threads import n_threads
from pacsent.words.corpus import Corpus
from pacsent.words.reading_ids import reader
from pacsent.words.vectors import trained_words

logger = logging.getLogger(__name__)

SMALLEST_RATE = 1e-4  # of learning_rate: where the linear fall ends, as in word2vec
CENTRES_PER_BLOCK = 8  # consecutive centre words that share their noise words
NOISE_PER_NEGATIVE = 40 / 15  # noise words drawn for such a block, over n_negatives
# if deterministic: blocks that all workers train before changes are added up; where each can have
# a part of the vocabulary to draw noise from, as many as hold a given centre word _SAME times
_BLOCKS_PER_ROUND, _SAME, _MOST_OF_A_WORKER, _LEAST_PART = 64, 0.875, 64, 256
_LARGEST_CHUNK = 16_384  # tokens a worker takes at a time, four times as many if deterministic
_SMALLEST_CHUNK = 1_024
_ROWS = 4_096  # rows copied at once where a table is initialised, checked or written
_STATE, _CORPUS = "state.json", "corpus"


class SkipGram(BaseEstimator):
    """Word vectors by Skip-gram with negative sampling, both tables kept.

        maximise, over pairs of a centre word c and a word i of its window,
        log sigmoid(I[i] @ O[c]) + sum over n_negatives noise words n of log sigmoid(-I[i] @ O[n])

    As in word2vec, the input vector belongs to the context word and the output vector to the
    centre word; a noise word that equals c is left out. Windows do not cross documents, and
    documents of any length are trained whole.

    Parameters
    ----------
    n_dims : int, default=300
    window : int, default=5
        Words on either side of the centre; reduced for each centre uniformly to 1..window.
    subsample : float, default=1e-4
        Frequent words are skipped at random, more often the smaller this is; 0 keeps all.
    n_epochs : int, default=5
    n_negatives : int, default=15
        Weight of the noise: noise words for each pair of the text.
    noise_power : float, default=0.75
        Noise words are drawn in proportion to count ** noise_power.
    learning_rate : float, default=0.025
        Falls linearly with the words processed, to a ten-thousandth.
    min_count : int, default=5
        Rarer words are left out (a `Corpus` brings its own).
    negatives : {"shared", "pair"}, default="shared"
        "pair" draws `n_negatives` fresh noise words for every pair, as word2vec. "shared" draws
        noise words once for a few consecutive centre words and weighs them so that the loss is
        the same in expectation: several times as fast. See Notes.
    normalise : "auto", a name or a callable, default="auto"
        How text becomes tokens (a `Corpus` brings its own). "auto" chooses "paper" or "unicode" by
        the text, as `Corpus.build` does; `word_vectors_.training` says which and why. A `Pieces`
        trains vectors of pieces of words.
    n_jobs : int or None, default=None
        Threads that train at the same time without locks; None and -1 take all cores, -2 all but
        one. With one, the same seed gives the same vectors, bit for bit; with more it does not,
        unless `deterministic`.
    deterministic : bool, default=False
        Same seed and same n_jobs give the same vectors, bit for bit, with several threads too
        ("shared" only). Threads then meet every few hundred centre words; until then each draws
        its noise from a part of the vocabulary of its own. See docs/words.md for what it costs.
    random_state : int, RandomState or None, default=None
        An int is the seed itself; otherwise one is drawn. `word_vectors_.training` records it as
        "seed": the same number here, with the same text and settings and one thread (or
        `deterministic` and the recorded "n_jobs"), gives the same vectors.
    device : "cpu", "cuda" or "cuda:<number>", default="cpu"
        "cuda" trains on a GPU (extra `[gpu]`).
    checkpoint_dir : path or None, default=None
        A folder to keep the state of the training in, from which `SkipGram.resume` goes on.
        Left there at the end.
    checkpoint_every : float, default=300.0
        Seconds between checkpoints.
    verbose : bool, default=False
        Show progress, loss, words per second and time left on stderr.

    Attributes
    ----------
    word_vectors_ : WordVectors
    vocabulary_ : Vocabulary
    loss_ : list of float, one for each epoch
        Mean over the pairs of an epoch of -log sigmoid(I[i] @ O[c]) - the sum over the noise, in
        nats, with the vectors as they were when the pair was trained.

    Notes
    -----
    With "shared", K noise words serve a block of consecutive centre words. A noise word counts,
    against a context word, once for every pair which that word is in, times n_negatives / K: the
    expected loss and gradient are those of "pair". All pairs of a block are scored before any row
    moves. In a small vocabulary, where the words of a block repeat, the blocks are shorter.

    Examples
    --------
    >>> texts = ["the cat sat on the mat", "the dog sat on the rug"] * 50
    >>> trainer = SkipGram(8, n_epochs=1, min_count=1, subsample=0, n_jobs=1, random_state=0)
    >>> words = trainer.fit(texts).word_vectors_
    >>> words.n_words, words.input_vectors.shape, words.output_vectors.shape
    (7, (7, 8), (7, 8))
    """

    _parameter_constraints: ClassVar[dict] = {
        "n_dims": [Interval(Integral, 1, None, closed="left")],
        "window": [Interval(Integral, 1, 1000, closed="both")],
        "subsample": [Interval(Real, 0, None, closed="left")],
        "n_epochs": [Interval(Integral, 1, 100_000, closed="both")],
        "n_negatives": [Interval(Integral, 1, 10_000, closed="both")],
        "noise_power": [Interval(Real, 0, None, closed="left")],
        "learning_rate": [Interval(Real, 0, None, closed="neither")],
        "min_count": [Interval(Integral, 1, None, closed="left")],
        "negatives": [StrOptions({"shared", "pair"})],
        "normalise": [StrOptions({"auto", *TOKENISERS}), callable],
        "n_jobs": [Integral, None],
        "deterministic": ["boolean"],
        "random_state": ["random_state"],
        "device": [DeviceName()],
        "checkpoint_dir": [str, os.PathLike, None],
        "checkpoint_every": [Interval(Real, 0, None, closed="left")],
        "verbose": ["verbose"],
    }

    def __init__(
        self,
        n_dims: int = 300,
        *,
        window: int = 5,
        subsample: float = 1e-4,
        n_epochs: int = 5,
        n_negatives: int = 15,
        noise_power: float = 0.75,
        learning_rate: float = 0.025,
        min_count: int = 5,
        negatives: str = "shared",
        normalise: str | Callable[[str], list[str]] = "auto",
        n_jobs: int | None = None,
        deterministic: bool = False,
        random_state: int | np.random.RandomState | None = None,
        device: str = "cpu",
        checkpoint_dir: str | os.PathLike | None = None,
        checkpoint_every: float = 300.0,
        verbose: bool | int = False,
    ):
        self.n_dims, self.window, self.subsample = n_dims, window, subsample
        self.n_epochs, self.n_negatives, self.noise_power = n_epochs, n_negatives, noise_power
        self.learning_rate, self.min_count = learning_rate, min_count
        self.negatives, self.normalise = negatives, normalise
        self.n_jobs, self.deterministic = n_jobs, deterministic
        self.random_state, self.device = random_state, device
        self.checkpoint_dir, self.checkpoint_every = checkpoint_dir, checkpoint_every
        self.verbose = verbose

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.string = True
        tags.input_tags.two_d_array = False
        tags.target_tags.required = False
        return tags

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any = None) -> "SkipGram":
        """Train on a text.

        Parameters
        ----------
        X : Corpus, path, list of Path, or iterable of str or of token lists
            Of a file each line is a document, of an iterable each element.
        y : ignored
        """
        seed = _seed(self.random_state)
        folder = None if self.checkpoint_dir is None else Path(self.checkpoint_dir)
        if folder is not None and (folder / _STATE).exists():
            raise ValueError(
                f"checkpoint_dir must be a folder without an unfinished training. Got {folder} "
                "instead. Go on with SkipGram.resume(checkpoint_dir), or delete the folder."
            )
        with contextlib.ExitStack() as stack:
            if isinstance(X, Corpus):
                corpus = X
                corpus.check()
            else:
                place = folder
                if place is None:
                    made = tempfile.TemporaryDirectory(prefix="pacsent-")
                    place = Path(stack.enter_context(made))
                place.mkdir(parents=True, exist_ok=True)
                corpus = Corpus.build(
                    X, place / _CORPUS, min_count=self.min_count, normalise=self.normalise,
                    n_jobs=self.n_jobs, verbose=bool(self.verbose),
                    overwrite=True,  # an unfinished one of this training
                )  # fmt: skip
            self._train(corpus, settings_of(self, corpus, seed), folder, done=None)
        return self

    @classmethod
    def resume(
        cls,
        checkpoint_dir: str | os.PathLike,
        *,
        n_jobs: int | None = None,
        verbose: bool | int = False,
    ) -> "SkipGram":
        """Go on with a training that was interrupted, to its end.

        With one worker the vectors are those of a training that was never interrupted.

        Parameters
        ----------
        checkpoint_dir : path
            The `checkpoint_dir` of that training.
        n_jobs : int or None
            Threads; None takes the number that the training was started with.

        Returns
        -------
        SkipGram
            Fitted.
        """
        folder = Path(checkpoint_dir)
        done = read_state(folder)
        settings = done["settings"]
        place = Path(done["corpus"])
        corpus = Corpus.open(place if place.is_absolute() else folder / place)
        corpus.check()
        if corpus.digest != settings["digest"]:
            raise ValueError(
                f"The corpus must be the one that the training was started on. Got another text "
                f"in {place} instead. Put the old corpus back, or start a new training."
            )
        parameters = {name: value for name, value in settings.items() if name in _KEPT}
        model = cls(
            **parameters, normalise=corpus.vocabulary.normalise, verbose=verbose,
            n_jobs=done["n_jobs"] if n_jobs is None else n_jobs,
            random_state=done["random_state"], checkpoint_dir=checkpoint_dir,
            checkpoint_every=done["checkpoint_every"],
        )  # fmt: skip
        model._validate_params()
        model._train(corpus, settings, folder, done)
        return model

    def _train(self, corpus, settings, folder, done):
        self.vocabulary_ = corpus.vocabulary
        if len(corpus.vocabulary) < 2:
            raise ValueError(
                "The text must hold at least two different words. Got only "
                f"{corpus.vocabulary.words[0]!r} after min_count={corpus.min_count} instead. Lower "
                "min_count or train on more text."
            )
        recorded = {name: settings[name] for name in _RECORDED} | {"seed": settings["seed"]}
        if self.device != "cpu":
            tables, losses = self._train_on_gpu(corpus, settings, folder)
        else:
            n_workers = n_threads(self.n_jobs)
            recorded |= {"n_jobs": n_workers, "deterministic": settings["deterministic"]}
            if self.deterministic and n_workers > 1 and self.negatives == "pair":
                raise ValueError(
                    "deterministic=True must be used with negatives='shared' or n_jobs=1. Got "
                    f"negatives='pair' and n_jobs={n_workers} instead."
                )
            training = ChunkTraining(corpus, settings, n_workers)
            if done is not None:
                training.restore(folder, done)
            if folder is not None:
                training.keep_in(folder, self)
            training.run(self.checkpoint_every, bool(self.verbose))
            tables, losses = training.finish(), training.losses()
        if not np.isfinite(losses).all():
            epoch = int(np.flatnonzero(~np.isfinite(losses))[0]) + 1
            raise ValueError(
                f"The text must give pairs of neighbouring words. Got none in epoch {epoch} of "
                f"{corpus.n_tokens:,} words instead: its documents have one word each, or "
                f"subsample={settings['subsample']:g} left too few. Train on more text, or use "
                "subsample=0."
            )
        self.loss_ = losses
        self.word_vectors_ = trained_words(corpus, *tables, {**recorded, "loss": losses[-1]})

    def _train_on_gpu(self, corpus, settings, folder):
        from pacsent.gpu import train_skipgram

        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)
            _write_state(folder, _state_of(self, corpus, folder, settings))
        names = _RECORDED[: _RECORDED.index("min_count")] + ("negatives",)
        *tables, losses = train_skipgram(
            corpus, **{name: settings[name] for name in names}, random_state=settings["seed"],
            checkpoint=None if folder is None else folder / "gpu", device=self.device,
            checkpoint_seconds=self.checkpoint_every, verbose=bool(self.verbose),
        )  # fmt: skip
        return tables, [float(loss) for loss in losses]


def _seed(random_state) -> int:
    """The number that decides all draws; an int decides them itself, so that it can be recorded."""
    if isinstance(random_state, Integral):
        return int(random_state)
    return int(check_random_state(random_state).randint(np.iinfo(np.int32).max))


# what decides the vectors, besides text, seed and workers: kept in a checkpoint
_KEPT = (
    "n_dims", "window", "subsample", "n_epochs", "n_negatives", "noise_power", "learning_rate",
    "min_count", "negatives", "deterministic", "device",
)  # fmt: skip
_RECORDED = tuple(name for name in _KEPT if name != "deterministic")


def settings_of(model: SkipGram, corpus: Corpus, seed: int | None = None) -> dict:
    """What decides the vectors that a model trains on a corpus; without a seed, one is drawn."""
    settings = {name: value for name, value in model.get_params().items() if name in _KEPT}
    seed = _seed(model.random_state) if seed is None else seed
    return {**settings, "seed": seed, "digest": corpus.digest}


class ChunkTraining:
    """One run on the CPU: the tables, how far it has come, the workers, the checkpoints."""

    def __init__(self, corpus: Corpus, settings: dict, n_workers: int):
        from pacsent._kernels import skipgram_kernels as kernels

        self.kernels, self.corpus, self.settings = kernels, corpus, settings
        # deterministic: one thread hands out chunks, of which every shard trains a piece
        self.n_shards = n_workers if settings["deterministic"] else 1
        self.n_workers = 1 if settings["deterministic"] else n_workers
        vocabulary = corpus.vocabulary
        self.n_tokens = int(corpus.n_tokens)
        piece = min(self.n_tokens // 64, _LARGEST_CHUNK * (1 if self.n_shards == 1 else 4))
        self.cut(max(_SMALLEST_CHUNK, self.n_shards * piece))
        self.next_chunk = 0
        self.sums = np.zeros((settings["n_epochs"], 2))  # losses, pairs
        self.words_done = 0
        n_parts = self.n_shards if len(vocabulary) >= _LEAST_PART * self.n_shards else 1
        p_noise = vocabulary.noise_probabilities(settings["noise_power"])
        self.noise = parts_of_noise(p_noise, n_parts)
        keep = vocabulary.keep_probabilities(settings["subsample"])
        self.keep_below = np.minimum(keep * 2.0**32, 2.0**32).astype(np.uint64)
        self.read = reader(corpus.ids)
        self.shape = self._shape(vocabulary)
        self.blocks_per_round = _BLOCKS_PER_ROUND // self.n_shards
        if n_parts > 1:
            same = _chance_of_the_same(vocabulary, settings["subsample"])
            n_blocks = max(_BLOCKS_PER_ROUND, int(_SAME / (same * self.shape[2])))
            self.blocks_per_round = min(_MOST_OF_A_WORKER, n_blocks // self.n_shards)
        self.blocks_per_round = max(1, self.blocks_per_round)
        self._make_tables(len(vocabulary))
        self.memory = None  # of the shards
        self.folder: Path | None = None
        self.about: dict = {}
        self.tables_file: str | None = None
        self.lock = threading.Lock()
        self.stop = False
        self.error = None

    def cut(self, chunk: int) -> None:
        """Cut the text into chunks of `chunk` tokens."""
        self.chunk = chunk
        self.chunks_per_epoch = -(-self.n_tokens // chunk)
        self.n_chunks = self.chunks_per_epoch * self.settings["n_epochs"]

    def _shape(self, vocabulary):
        window, n_negatives = self.settings["window"], self.settings["n_negatives"]
        if self.settings["negatives"] == "pair":
            return window, n_negatives
        n_block = _block_length(vocabulary, self.settings["subsample"])
        n_noise = n_negatives if n_block == 1 else round(n_negatives * NOISE_PER_NEGATIVE)
        n_noise += -(n_block + n_noise) % 4  # the kernels work on four columns at a time
        return window, n_negatives, n_block, n_noise

    def _make_tables(self, n_words):
        n_dims = self.settings["n_dims"]
        n_columns = -(-n_dims // 16) * 16
        n_copies = [0, 0]
        if self.n_shards > 1:
            n_copies = self.kernels.n_copies(n_words, self.shape, self.blocks_per_round)
        self.with_copies = tuple(_zeros(n_words + self.n_shards * n, n_columns) for n in n_copies)
        self.I, self.O = (table[:n_words] for table in self.with_copies)
        rng = np.random.default_rng([self.settings["seed"], 0])
        for rows in _slabs(n_words):
            values = rng.random((rows.stop - rows.start, n_dims), dtype=np.float32)
            values -= np.float32(0.5)
            values /= np.float32(n_dims)
            self.I[rows, :n_dims] = values

    # -- one chunk

    def _rate(self, n_words):
        done = n_words / (self.n_tokens * self.settings["n_epochs"])
        return self.settings["learning_rate"] * max(SMALLEST_RATE, 1.0 - done)

    def _tokens(self, epoch, start, stop):
        """Tokens that this epoch keeps from [start, stop), with the neighbours that their windows
        reach; the documents they are in; where the chunk's own tokens begin and end."""
        offsets, window = self.corpus.offsets, self.settings["window"]
        key = np.random.SeedSequence([self.settings["seed"], 1, epoch]).generate_state(1, np.uint64)
        document = int(np.searchsorted(offsets, start, side="right"))
        last_document = int(np.searchsorted(offsets, stop - 1, side="right"))
        floor, ceiling = int(offsets[document - 1]), int(offsets[last_document])
        margin = 16 * window
        while True:
            low, high = max(floor, start - margin), min(ceiling, stop + margin)
            ids = self.read(low, high)
            kept = np.empty(ids.size, dtype=np.int64)
            n_kept = self.kernels.subsample(ids, low, self.keep_below, key[0], kept)
            kept = kept[:n_kept]
            begin, end = np.searchsorted(kept, [start - low, stop - low])
            enough_before = begin >= window or low == floor
            if enough_before and (n_kept - end >= window or high == ceiling):
                break
            margin *= 4
        first_kept, last_kept = max(0, begin - window), end + window
        kept, begin, end = kept[first_kept:last_kept], begin - first_kept, end - first_kept
        ends = np.asarray(offsets[document:last_document])
        return ids[kept], np.searchsorted(ends, kept + low, side="right"), int(begin), int(end)

    def train_chunk(self, number: int) -> None:
        """Train one chunk, whose number counts over all epochs."""
        epoch, part = divmod(number, self.chunks_per_epoch)
        start = part * self.chunk
        stop = min(start + self.chunk, self.n_tokens)
        bits = np.random.SeedSequence([self.settings["seed"], 2, number])
        if self.n_shards > 1:
            sums = self._train_in_shards(epoch, start, stop, bits)
        else:
            (tokens, documents), own = self._text(epoch, start, stop)
            span = (*own, *self._rates(epoch, start, stop))
            kernel = self.kernels.train_blocks if len(self.shape) > 2 else self.kernels.train_pairs
            sums = kernel(
                self.I, self.O, tokens, documents, span, self.shape, self.noise[:2],
                bits.generate_state(1, np.uint64),
            )  # fmt: skip
        with self.lock:
            self.sums[epoch] += sums
            self.words_done += stop - start

    def _text(self, epoch, start, stop):
        """((tokens, documents), (first, end))."""
        if start == stop:  # a short chunk has nothing for some shards
            return (np.zeros(0, np.int32), np.zeros(0, np.int64)), (0, 0)
        tokens, documents, begin, end = self._tokens(epoch, start, stop)
        return (tokens, documents), (begin, end)

    def _rates(self, epoch, start, stop):
        """The learning rate at both ends."""
        return (self._rate(epoch * self.n_tokens + place) for place in (start, stop))

    def _train_in_shards(self, epoch, start, stop, bits):
        """One chunk by all shards at once, a piece of it for each; see the kernels."""
        if self.memory is None:
            size = self.n_shards, len(self.I), self.shape, self.blocks_per_round
            self.memory = self.kernels.shard_memory(*size)
        memory, rates = self.memory, tuple(self._rates(epoch, start, stop))
        *states, part = np.split(
            bits.generate_state(self.n_shards + 1, np.uint64), self.n_shards + 1
        )
        borders = np.linspace(start, stop, self.n_shards + 1).astype(np.int64)

        def work(s):
            try:
                text, own = self._text(epoch, int(borders[s]), int(borders[s + 1]))
                drawing = (self.shape, self.noise, states[s], int(part[0] % self.noise[3].size))
                return self.kernels.train_shard(
                    self.with_copies, text, (*own, *rates), drawing, memory, s,
                    self.blocks_per_round,
                )  # fmt: skip
            except BaseException:
                self.kernels.give_up(memory[2], s)  # else the others wait for ever
                raise

        return np.sum(list(self.pool.map(work, range(self.n_shards))), axis=0)

    # -- all chunks

    def run(self, checkpoint_every: float, verbose: bool) -> None:
        """Train to the end, with a checkpoint every some seconds where a folder is kept."""
        total = self.n_tokens * self.settings["n_epochs"]
        every = checkpoint_every if self.folder is not None else float("inf")
        shards = ThreadPoolExecutor(self.n_shards)  # starts a thread when it is given work
        with (
            shards as self.pool,
            bar("Training", total=total, unit="words", enabled=verbose) as shown,
        ):
            while self.next_chunk < self.n_chunks:
                self._leg(time.monotonic() + every, shown)
                if self.next_chunk < self.n_chunks:
                    self.save()

    def _leg(self, until, shown):
        """Let the workers run until all is done or the time has come; they end between chunks."""
        self.stop = False
        # Events, not Thread.join: a Ctrl-C inside join can mark a running thread as ended
        ended = [threading.Event() for _ in range(self.n_workers)]
        for event in ended:
            threading.Thread(target=self._work, args=(event,), daemon=True).start()
        try:
            for event in ended:
                while not event.wait(0.1):
                    shown.update(self.words_done, self._note())
                    self.stop = self.stop or time.monotonic() >= until
        except BaseException:  # Ctrl-C: end between chunks, keep what was done
            self.stop = True
            for event in ended:
                event.wait()
            if self.folder is not None and self.error is None:
                self.save()
            raise
        if self.error is not None:
            raise self.error

    def _work(self, ended):
        try:
            while not self.stop:
                with self.lock:
                    number = self.next_chunk
                    if number >= self.n_chunks:
                        return
                    self.next_chunk += 1
                self.train_chunk(number)
                if (number + 1) % self.chunks_per_epoch == 0:
                    logger.info(
                        "epoch %d done, %s", (number + 1) // self.chunks_per_epoch, self._note()
                    )
        except BaseException as error:
            self.error, self.stop = error, True
        finally:
            ended.set()

    def _note(self):
        begun = np.flatnonzero(self.sums[:, 1])
        if begun.size == 0:
            return ""
        loss, pairs = self.sums[begun[-1]]
        return f"epoch {begun[-1] + 1}, loss {loss / pairs:.4f}"

    def losses(self) -> list[float]:
        """Mean loss of a pair, one number for each epoch; nan where there was no pair."""
        with np.errstate(invalid="ignore"):
            return [float(loss) for loss in self.sums[:, 0] / self.sums[:, 1]]

    def finish(self) -> tuple[np.ndarray, np.ndarray]:
        """The two tables, without the padding of their rows; no copy is made of them."""
        tables = []
        for table in (self.I, self.O):
            for rows in _slabs(len(table)):
                if not np.isfinite(table[rows]).all():
                    raise ValueError(
                        "The trained vectors must be finite. Got inf or nan instead. Lower "
                        f"learning_rate (now {self.settings['learning_rate']})."
                    )
            tables.append(_without_padding(table, self.settings["n_dims"]))
        return tables[0], tables[1]

    # -- checkpoints

    def keep_in(self, folder: Path, model: SkipGram) -> None:
        """Keep checkpoints in `folder`, from now on."""
        self.folder = folder
        self.about = _state_of(model, self.corpus, folder, self.settings)
        folder.mkdir(parents=True, exist_ok=True)
        if not (folder / _STATE).exists():
            _write_state(folder, self.about)

    def save(self) -> None:
        """Write a checkpoint; the one before stays valid until this one is whole."""
        assert self.folder is not None
        name = f"tables-{self.next_chunk}.f32"
        n_dims = self.settings["n_dims"]
        try:
            with replacing(self.folder / name) as file:
                for table in (self.I, self.O):
                    for rows in _slabs(len(table)):
                        file.write(np.ascontiguousarray(table[rows, :n_dims]).data)
            how_far = {"next_chunk": self.next_chunk, "chunk": self.chunk, "tables": name}
            how_far |= {"words_done": self.words_done, "sums": self.sums.tolist()}
            _write_state(self.folder, self.about | how_far)
        except OSError as error:
            if name != self.tables_file:
                (self.folder / name).unlink(missing_ok=True)
            if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                raise
            warnings.warn(
                f"The disk that holds {self.folder} is full, so this checkpoint was not written "
                "and the one before stays. Training goes on; free some space.",
                stacklevel=2,
            )
            return
        if self.tables_file not in (None, name):
            (self.folder / self.tables_file).unlink(missing_ok=True)
        self.tables_file = name

    def restore(self, folder: Path, state: dict) -> None:
        """Go back to a checkpoint."""
        if "tables" not in state:  # interrupted before the first one: begin at the beginning
            return
        self.cut(state["chunk"])  # as it was then: its number counts chunks of that size
        self.next_chunk = state["next_chunk"]
        self.words_done, self.sums = state["words_done"], np.array(state["sums"])
        self.tables_file = state["tables"]
        path, n_dims = folder / self.tables_file, self.settings["n_dims"]
        expected = 2 * len(self.I) * n_dims * 4
        if not path.is_file() or path.stat().st_size != expected:
            raise ValueError(
                f"{path} must be a checkpoint of {expected:,} bytes. Got "
                f"{path.stat().st_size if path.is_file() else 0:,} bytes instead. Start anew."
            )
        with open(path, "rb") as file:
            for table in (self.I, self.O):
                for rows in _slabs(len(table)):
                    n_rows = rows.stop - rows.start
                    values = np.fromfile(file, dtype="<f4", count=n_rows * n_dims)
                    if not np.isfinite(values).all():
                        raise ValueError(
                            f"{path} must hold finite numbers. Got inf or nan instead. The "
                            "checkpoint is damaged: start anew."
                        )
                    table[rows, :n_dims] = values.reshape(n_rows, n_dims)


def _state_of(model, corpus, folder, settings):
    inside = corpus.directory.resolve().parent == folder.resolve()
    random_state = model.random_state if isinstance(model.random_state, Integral) else None
    return {
        "format_version": 1,
        "settings": settings,
        "corpus": _CORPUS if inside else str(corpus.directory.resolve()),
        "n_jobs": model.n_jobs,
        "random_state": None if random_state is None else int(random_state),
        "checkpoint_every": float(model.checkpoint_every),
    }


def _write_state(folder, state):
    written = {**state, "checksum": checksum_of_json(state)}
    with replacing(folder / _STATE) as file:
        file.write(json.dumps(written, indent=1).encode())


def read_state(folder: Path) -> dict:
    """The state of an unfinished training, its checksum verified."""
    path = folder / _STATE
    if not path.is_file():
        raise FileNotFoundError(
            f"{folder} must be the folder of an unfinished training. It holds no {_STATE}. "
            "Start the training anew."
        )
    try:
        state = json.loads(path.read_text(encoding="utf-8"))
        known = state["format_version"] == 1 and state.pop("checksum") == checksum_of_json(state)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        known = False
    if not known:
        raise ValueError(
            f"{path} must be the whole state of a training, format 1. Got something else instead. "
            "Start the training anew."
        )
    return state


def forget(checkpoint_dir: str | os.PathLike) -> None:
    """Delete what a finished training left in its `checkpoint_dir`; nothing else that is there."""
    folder = Path(checkpoint_dir)
    for path in [folder / _STATE, *folder.glob("tables-*.f32")]:
        path.unlink(missing_ok=True)
    for part in (_CORPUS, "gpu"):
        shutil.rmtree(folder / part, ignore_errors=True)
    with contextlib.suppress(OSError):
        folder.rmdir()


def _chance_of_the_same(vocabulary, subsample) -> float:
    """The chance that two centre words are the same."""
    kept = vocabulary.counts * vocabulary.keep_probabilities(subsample)
    return float(np.square(kept / kept.sum()).sum())


def _block_length(vocabulary, subsample) -> int:
    """Centre words that may share their noise: fewer where the same word would often be twice in
    a block, since both would move by the same old scores."""
    return CENTRES_PER_BLOCK if _chance_of_the_same(vocabulary, subsample) < 1 / 50 else 1


def _zeros(n_rows, n_columns):
    """A float32 table on large pages where the system has them: rows are read in random order."""
    # private: memory that could be shared with a child process gets no large pages
    own = {"flags": mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS} if hasattr(mmap, "MAP_PRIVATE") else {}
    memory = mmap.mmap(-1, max(1, 4 * n_rows * n_columns), **own)
    if hasattr(mmap, "MADV_HUGEPAGE"):
        with contextlib.suppress(OSError):
            memory.madvise(mmap.MADV_HUGEPAGE)
    return np.frombuffer(memory, dtype=np.float32).reshape(n_rows, n_columns)


def _slabs(n_rows):
    for start in range(0, n_rows, _ROWS):
        yield slice(start, min(start + _ROWS, n_rows))


def _without_padding(table, n_dims):
    """The rows moved together within the memory they have."""
    n_rows, n_columns = table.shape
    if n_columns == n_dims:
        return table
    flat = table.reshape(-1)
    for rows in _slabs(n_rows):
        flat[rows.start * n_dims : rows.stop * n_dims] = table[rows, :n_dims].copy().reshape(-1)
    return flat[: n_rows * n_dims].reshape(n_rows, n_dims)
