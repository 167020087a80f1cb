"""SkipGram: trains input and output vectors of words on a text. The inner loops are in `kernels`.

The corpus is cut into chunks of some thousand tokens; a thread takes the next chunk, draws which
tokens to keep, and passes them to a kernel. The draws depend on the seed and the place in the
corpus only, so a run can stop after any chunk and be resumed as if it had never stopped. Threads
change the vectors without locks ("Hogwild"): with several threads the result depends on which of
them is faster, with one it does not.
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
from collections.abc import Callable, Iterable
from numbers import Integral, Real
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state

from pacsent.arrays import unit_rows
from pacsent.files import replacing
from pacsent.parameter_checks import DeviceName, Interval, StrOptions, check_parameters, fit_context
from pacsent.progress import bar
from pacsent.storage.checksums import checksum_of_json
from pacsent.text.normalize import TOKENISERS
from pacsent.threads import n_threads
from pacsent.words.corpus import Corpus, checked_json
from pacsent.words.fingerprint import Fingerprint
from pacsent.words.noise import alias_thresholds
from pacsent.words.pieces import Pieces
from pacsent.words.vector_table import row_blocks
from pacsent.words.vectors import WordVectors

logger = logging.getLogger(__name__)

# Smallest learning rate, as a fraction of `learning_rate`: where the linear decrease ends in
# word2vec too.
_MIN_RATE = 1e-4

# Consecutive centre words that share their negative samples, and how many samples such a block
# draws for each of `n_negatives`. Chosen for speed at equal quality (benchmarks/train.py).
_CENTRES_PER_BLOCK = 8
_SAMPLES_PER_NEGATIVE = 40 / 15

# Words that n_epochs="auto" trains on, and the limits of the number of epochs. On 67,000 and on
# 172,000 words of novels, words separate after 3 million; neighbours are good from 8 million on.
_AUTO_WORDS, _AUTO_EPOCHS = 10_000_000, (5, 200)

# Trained for too short, the most frequent words have a mean cosine of .7 to 1; trained, below .25.
_MAX_MEAN_COSINE = 0.5
_MIN_COMPARED_WORDS, _MAX_COMPARED_WORDS = 100, 2_000

# Tokens that a thread takes at a time: a 64th of the corpus, within these limits.
_MIN_CHUNK_TOKENS = 1_024
_MAX_CHUNK_TOKENS = 16_384
_SLAB = 1 << 20  # numbers copied at once when vectors are initialized, checked or written

# In a `checkpoint_dir`: settings and progress as a line of JSON, then both matrices; the text.
CHECKPOINT, _CORPUS = "checkpoint", "corpus"


class SkipGram(BaseEstimator):
    """Word vectors by Skip-gram with negative sampling; input and output vectors are kept.

        maximise, over pairs of a centre word c and a word i of its window,
        log sigmoid(I[i] @ O[c]) + sum over n_negatives samples n of log sigmoid(-I[i] @ O[n])

    As in word2vec, the input vector belongs to the context word and the output vector to the
    centre word; a negative sample that equals c is omitted. Windows do not cross documents, and
    documents of any length are trained completely.

    Parameters
    ----------
    n_dims : int, default=300
        Length of a vector.
    window : int, default=5
        Words on either side of the centre; reduced for each centre uniformly to 1..window.
    subsample : float, default=1e-4
        Frequent words are skipped at random, more often the smaller this is; 0 keeps all.
    n_epochs : int or "auto", default="auto"
        "auto" trains on ten million words, in 5 to 200 epochs: 5 for a large corpus.
    n_negatives : int, default=15
        Negative samples per pair of the text. A few consecutive centre words share them: see Notes.
    noise_power : float, default=0.75
        Negative samples are drawn in proportion to count ** noise_power.
    learning_rate : float, default=0.025
        Falls linearly with the words processed, to a ten-thousandth.
    min_count : int, default=5
        Rarer words are omitted (a `Corpus` brings its own).
    normalize : "auto", a name or a callable, default="auto"
        How text becomes tokens (a `Corpus` brings its own). "auto" chooses "paper" or "unicode" by
        the text, as `Corpus.build` does; `word_vectors_.training` says which and why. A `Pieces`
        trains vectors of subwords.
    n_jobs : int or None, default=None
        Threads that train at the same time without locks; None and -1 take all cores, -2 all but
        one. With one, the same seed gives the same vectors, bit for bit; with more it does not.
    random_state : int, RandomState or None, default=None
        An int is the seed; otherwise one is drawn. `word_vectors_.training` records it as "seed".
        With the same text and settings and `n_jobs=1` it gives the same vectors.
    device : "cpu", "cuda" or "cuda:<number>", default="cpu"
        "cuda" trains on a GPU (extra `[gpu]`).
    checkpoint_dir : path or None, default=None
        A folder to keep the state of the training in, from which `SkipGram.resume` continues.
        It is not deleted at the end.
    checkpoint_every : float, default=300.0
        Seconds between checkpoints.
    verbose : bool, default=False
        Show progress, loss, words per second and time left on stderr.

    Attributes
    ----------
    word_vectors_ : WordVectors
    vocabulary_ : Vocabulary
    loss_ : list of float, one for each epoch
        Mean over the pairs of an epoch of -log sigmoid(I[i] @ O[c]) - the sum over the samples,
        in nats, with the vectors as they were when the pair was trained.

    Notes
    -----
    K negative samples serve a block of consecutive centre words. A sample counts, against a context
    word, once for every pair which that word is in, times n_negatives / K: the expected loss and
    gradient are those of word2vec, which draws fresh samples for every pair. All pairs of a block
    are scored before any vector moves. If the vocabulary is so small that words of a block repeat,
    blocks are shorter.

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
        "n_epochs": [Interval(Integral, 1, 100_000, closed="both"), StrOptions({"auto"})],
        "n_negatives": [Interval(Integral, 1, 10_000, closed="both")],
        "noise_power": [Interval(Real, 0, None, closed="left")],
        "learning_rate": [Interval(Real, 0, None, closed="neither")],
        "min_count": [Interval(Integral, 1, None, closed="left")],
        "normalize": [StrOptions({"auto", *TOKENISERS}), callable],
        "n_jobs": [Integral, None],
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
        n_epochs: int | str = "auto",
        n_negatives: int = 15,
        noise_power: float = 0.75,
        learning_rate: float = 0.025,
        min_count: int = 5,
        normalize: str | Callable[[str], list[str]] = "auto",
        n_jobs: int | None = None,
        random_state: int | np.random.RandomState | None = None,
        device: str = "cpu",
        checkpoint_dir: str | os.PathLike | None = None,
        checkpoint_every: float = 300.0,
        verbose: bool | int = False,
    ):
        self.n_dims, self.window, self.subsample = n_dims, window, subsample
        self.n_epochs, self.n_negatives, self.noise_power = n_epochs, n_negatives, noise_power
        self.learning_rate, self.min_count = learning_rate, min_count
        self.normalize = normalize
        self.n_jobs, self.random_state, self.device = n_jobs, random_state, device
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
        seed = self.random_state
        if not isinstance(seed, Integral):
            seed = check_random_state(seed).randint(np.iinfo(np.int32).max)
        folder = None if self.checkpoint_dir is None else Path(self.checkpoint_dir)
        if folder is not None and (folder / CHECKPOINT).exists():
            raise ValueError(
                f"checkpoint_dir must be a folder without an unfinished training. Got {folder} "
                "instead. Continue with SkipGram.resume(checkpoint_dir), or delete the folder."
            )
        with contextlib.ExitStack() as stack:
            if isinstance(X, Corpus):
                corpus = X
                corpus.check()
            else:
                parent: Any = folder
                if folder is None:
                    parent = stack.enter_context(tempfile.TemporaryDirectory(prefix="pacsent-"))
                corpus = Corpus.build(
                    X,
                    Path(parent, _CORPUS),
                    min_count=self.min_count,
                    normalize=self.normalize,
                    n_jobs=self.n_jobs,
                    verbose=bool(self.verbose),
                    overwrite=True,  # an unfinished one of this training
                )
            settings = {name: getattr(self, name) for name in _SETTINGS}
            settings |= {"seed": int(seed), "digest": corpus.digest}
            if self.n_epochs == "auto":
                settings["n_epochs"] = _auto_epochs(corpus)
            is_inside = folder is not None and corpus.directory.parent == folder.resolve()
            is_seed = isinstance(self.random_state, Integral)
            state = {
                "format_version": 1,
                "settings": settings,
                "corpus": _CORPUS if is_inside else str(corpus.directory.resolve()),
                "n_jobs": self.n_jobs,
                "random_state": int(seed) if is_seed else None,
                "checkpoint_every": float(self.checkpoint_every),
            }
            if folder is not None:
                _write_checkpoint(folder, state)
            self._train(corpus, state)
        return self

    @classmethod
    def resume(
        cls,
        checkpoint_dir: str | os.PathLike,
        *,
        n_jobs: int | None = None,
        verbose: bool | int = False,
    ) -> "SkipGram":
        """Continue a training that was interrupted, to its end.

        With one thread the vectors are those of a training that was never interrupted.

        Parameters
        ----------
        checkpoint_dir : path
            The `checkpoint_dir` of that training.
        n_jobs : int or None
            Threads; None takes the number that the training was started with.
        """
        folder = Path(checkpoint_dir)
        path = folder / CHECKPOINT
        if not path.is_file():
            raise FileNotFoundError(
                f"{folder} must be the folder of an unfinished training. It holds no file "
                f"{CHECKPOINT}. Start the training anew."
            )
        with open(path, "rb") as file:
            state = checked_json(file.readline())
        if state is None:
            raise ValueError(f"{path} must be a complete checkpoint. It is damaged. Start anew.")
        settings = state["settings"]
        corpus = Corpus.open(folder / state["corpus"])  # an absolute path stays what it is
        corpus.check()
        if corpus.digest != settings["digest"]:
            raise ValueError(
                f"The corpus must be the one that the training was started on. Got another text "
                f"in {corpus.directory} instead. Put the old corpus back, or start a new training."
            )
        model = cls(
            **{name: settings[name] for name in _SETTINGS},
            normalize=corpus.vocabulary.normalize,
            n_jobs=state["n_jobs"] if n_jobs is None else n_jobs,
            random_state=state["random_state"],
            checkpoint_dir=checkpoint_dir,
            checkpoint_every=state["checkpoint_every"],
            verbose=verbose,
        )
        check_parameters(model)
        model._train(corpus, state)
        return model

    def _train(self, corpus: Corpus, state: dict) -> None:
        self.vocabulary_ = corpus.vocabulary
        if len(corpus.vocabulary) < 2:
            raise ValueError(
                "The text must have at least two different words. Got only "
                f"{corpus.vocabulary.words[0]!r} after min_count={corpus.min_count} instead. Lower "
                "min_count or train on more text."
            )
        settings = state["settings"]
        folder = None if self.checkpoint_dir is None else Path(self.checkpoint_dir)
        record = {name: value for name, value in settings.items() if name != "digest"}
        if self.device != "cpu":
            from pacsent.words.gpu.skipgram import train_skipgram

            other = ("min_count", "device", "seed", "digest")
            *vectors, losses = train_skipgram(
                corpus,
                **{name: value for name, value in settings.items() if name not in other},
                random_state=settings["seed"],
                device=self.device,
                checkpoint=None if folder is None else folder / "gpu",
                checkpoint_seconds=self.checkpoint_every,
                verbose=bool(self.verbose),
            )
            losses = [float(loss) for loss in losses]
        else:
            record["n_jobs"] = n_threads(self.n_jobs)
            training = ChunkTraining(corpus, settings, record["n_jobs"])
            if folder is not None:
                training.keep_in(folder, state)
            training.run(self.checkpoint_every, bool(self.verbose))
            vectors, losses = training.vectors(), training.losses()
        if not np.isfinite(losses).all():
            epoch = int(np.flatnonzero(~np.isfinite(losses))[0]) + 1
            raise ValueError(
                f"The text must give pairs of neighbouring words. Got none in epoch {epoch} of "
                f"{corpus.n_tokens:,} words instead: its documents have one word each, or "
                f"subsample={settings['subsample']:g} left too few. Train on more text, or use "
                "subsample=0."
            )
        self.loss_ = losses
        # All vectors first move in one direction, and later apart.
        directions = unit_rows(vectors[0][:_MAX_COMPARED_WORDS])
        n, mean = len(directions), directions.mean(axis=0)
        mean_cosine = (n * (mean @ mean) - 1) / (n - 1)  # of two different words
        if n >= _MIN_COMPARED_WORDS and mean_cosine > _MAX_MEAN_COSINE:
            warnings.warn(
                f"The vectors of different words are nearly equal (mean cosine {mean_cosine:.2f}): "
                f"{settings['n_epochs']} epochs of {corpus.n_tokens:,} words are too few updates. "
                f"Train on more text, or with more epochs (n_epochs='auto' takes "
                f"{_auto_epochs(corpus)}).",
                stacklevel=3,
            )
        about: dict = {"method": "skip-gram with negative sampling"}
        normalize = corpus.vocabulary.normalize
        if isinstance(normalize, Pieces):
            about["normalize"] = f"subwords, {len(normalize.token_ids):,} learned"
        elif corpus.chosen:
            about["normalize"] = corpus.chosen
        # The digest and the fingerprint tell a certificate whether its texts were trained on.
        self.word_vectors_ = WordVectors(
            corpus.vocabulary,
            *vectors,
            corpus_digest=corpus.digest,
            fingerprint=Fingerprint.of(corpus.vocabulary, corpus),
            training=about | record | {"loss": losses[-1]},
        )


def _auto_epochs(corpus: Corpus) -> int:
    n_epochs = -(-_AUTO_WORDS // max(1, corpus.n_tokens))
    return max(_AUTO_EPOCHS[0], min(n_epochs, _AUTO_EPOCHS[1]))


# What decides the vectors, besides text, seed and threads: kept in a checkpoint and recorded.
_SETTINGS = ["n_dims", "window", "subsample", "n_epochs", "n_negatives", "noise_power"]
_SETTINGS += ["learning_rate", "min_count", "device"]


class ChunkTraining:
    """A run on the CPU: input vectors `I`, output vectors `O`, and how far it has come.

    `settings` are those of `_SETTINGS`, "seed" and "digest", the corpus's.
    """

    def __init__(self, corpus: Corpus, settings: dict, n_workers: int):
        from pacsent.kernels import skipgram_kernels

        self.kernels, self.corpus, self.settings = skipgram_kernels, corpus, settings
        self.n_workers = n_workers
        self.n_tokens = int(corpus.n_tokens)
        self._set_chunk(max(_MIN_CHUNK_TOKENS, min(self.n_tokens // 64, _MAX_CHUNK_TOKENS)))
        self.next_chunk = self.words_done = 0
        self.sums = np.zeros((settings["n_epochs"], 2))  # losses, pairs
        self.folder: Path | None = None
        self.lock = threading.Lock()
        self.stop = False
        self.error: BaseException | None = None

        vocabulary, n_dims = corpus.vocabulary, settings["n_dims"]
        self.noise = alias_thresholds(vocabulary.noise_probabilities(settings["noise_power"]))
        keep = vocabulary.keep_probabilities(settings["subsample"])
        self.keep_below = np.minimum(keep * 2.0**32, 2.0**32).astype(np.uint64)
        # All pairs of a block are scored before any row moves. If the same word is often twice in
        # a block, both move by the same old scores and overshoot, so blocks have one centre then.
        kept = vocabulary.counts * keep
        chance_of_same = np.square(kept / kept.sum()).sum()
        n_centres, n_samples = 1, settings["n_negatives"]
        if chance_of_same < 1 / 50:
            n_centres, n_samples = _CENTRES_PER_BLOCK, round(n_samples * _SAMPLES_PER_NEGATIVE)
        n_samples += -(n_centres + n_samples) % 4  # the kernels work on four columns at a time
        self.shape = settings["window"], settings["n_negatives"], n_centres, n_samples
        # Input vectors begin uniform in +-1/(2 n_dims), output vectors at 0, as in word2vec.
        n_columns = -(-n_dims // 16) * 16
        self.I, self.O = (_allocate(len(vocabulary), n_columns) for _ in range(2))
        rng = np.random.default_rng([settings["seed"], 0])
        for rows in row_blocks(self.I, _SLAB):
            values = rng.random((rows.stop - rows.start, n_dims), dtype=np.float32)
            values -= np.float32(0.5)
            values /= np.float32(n_dims)
            self.I[rows, :n_dims] = values

    def _set_chunk(self, n_tokens: int) -> None:
        self.chunk = n_tokens
        self.chunks_per_epoch = -(-self.n_tokens // n_tokens)
        self.n_chunks = self.chunks_per_epoch * self.settings["n_epochs"]

    def _rate(self, n_words: int) -> float:
        done = n_words / (self.n_tokens * self.settings["n_epochs"])
        return self.settings["learning_rate"] * max(_MIN_RATE, 1.0 - done)

    def _tokens(self, epoch: int, start: int, stop: int):
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
            ids = np.ascontiguousarray(self.corpus.ids[low:high], dtype=np.int32)
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
        tokens, documents, begin, end = self._tokens(epoch, start, stop)
        rates = (self._rate(epoch * self.n_tokens + place) for place in (start, stop))
        bits = np.random.SeedSequence([self.settings["seed"], 2, number])
        span, state = (begin, end, *rates), bits.generate_state(1, np.uint64)
        sums = self.kernels.train_blocks(
            self.I, self.O, tokens, documents, span, self.shape, self.noise, state
        )
        with self.lock:
            self.sums[epoch] += sums
            self.words_done += stop - start

    def run(self, checkpoint_every: float, verbose: bool) -> None:
        """Train to the end, with a checkpoint every some seconds if a folder is kept."""
        total = self.n_tokens * self.settings["n_epochs"]
        every = checkpoint_every if self.folder is not None else float("inf")
        with bar("Training", total=total, unit="words", enabled=verbose) as shown:
            while self.next_chunk < self.n_chunks:
                deadline, self.stop = time.monotonic() + every, False
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
                if self.error is not None:
                    raise self.error
                if self.next_chunk < self.n_chunks:
                    self.save()

    def _work(self, ended: threading.Event) -> None:
        try:
            while not self.stop:
                with self.lock:
                    number = self.next_chunk
                    if number >= self.n_chunks:
                        return
                    self.next_chunk += 1
                self.train_chunk(number)
                if (number + 1) % self.chunks_per_epoch == 0:
                    epoch = (number + 1) // self.chunks_per_epoch
                    logger.info("epoch %d done, %s", epoch, self._note())
        except BaseException as error:
            self.error, self.stop = error, True
        finally:
            ended.set()

    def _note(self) -> str:
        epochs = np.flatnonzero(self.sums[:, 1])
        if epochs.size == 0:
            return ""
        loss, pairs = self.sums[epochs[-1]]
        return f"epoch {epochs[-1] + 1}, loss {loss / pairs:.4f}"

    def losses(self) -> list[float]:
        """Mean loss of a pair, one number for each epoch; nan if there was no pair."""
        with np.errstate(invalid="ignore"):
            return (self.sums[:, 0] / self.sums[:, 1]).tolist()

    def vectors(self) -> list[np.ndarray]:
        """Input and output vectors, the padding of their rows removed without a copy."""
        n_words, n_dims = len(self.I), self.settings["n_dims"]
        vectors = []
        for padded in (self.I, self.O):
            # Rows move together within the memory they have: a second copy may not fit.
            flat = padded.reshape(-1)
            for rows in row_blocks(padded, _SLAB):
                values = padded[rows, :n_dims].copy()
                if not np.isfinite(values).all():
                    raise ValueError(
                        "The trained vectors must be finite. Got inf or nan instead. Lower "
                        f"learning_rate (now {self.settings['learning_rate']})."
                    )
                flat[rows.start * n_dims : rows.stop * n_dims] = values.reshape(-1)
            vectors.append(flat[: n_words * n_dims].reshape(n_words, n_dims))
        return vectors

    def keep_in(self, folder: Path, state: dict) -> None:
        """Keep checkpoints in `folder` from now on, and continue with the one in `state`."""
        self.folder, self.state = folder, state
        if "next_chunk" not in state:  # none was written yet
            return
        self._set_chunk(state["chunk"])  # as it was then: its number counts chunks of that size
        self.next_chunk = state["next_chunk"]
        self.words_done, self.sums = state["words_done"], np.array(state["sums"])
        tables = self.I, self.O
        with open(folder / CHECKPOINT, "rb") as file:
            file.readline()
            n_bytes = sum(file.readinto(table.data.cast("B")) for table in tables)
        slabs = row_blocks(self.I, _SLAB)
        is_finite = all(np.isfinite(table[rows]).all() for rows in slabs for table in tables)
        if n_bytes != 2 * self.I.nbytes or not is_finite:
            raise ValueError(
                f"{folder / CHECKPOINT} must have {2 * self.I.nbytes:,} bytes of "
                f"finite numbers. Got {n_bytes:,}, or others, instead. Start anew."
            )

    def save(self) -> None:
        """Write a checkpoint; the one before stays valid until this one is complete."""
        assert self.folder is not None
        progress = {"next_chunk": self.next_chunk, "chunk": self.chunk}
        progress |= {"words_done": self.words_done, "sums": self.sums.tolist()}
        try:
            _write_checkpoint(self.folder, self.state | progress, (self.I, self.O))
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                raise
            warnings.warn(
                f"The disk that holds {self.folder} is full, so this checkpoint was not written "
                "and the one before stays. Training goes on; free some space.",
                stacklevel=2,
            )


def _write_checkpoint(folder: Path, state: dict, tables: Iterable[np.ndarray] = ()) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    with replacing(folder / CHECKPOINT) as file:
        header = {**state, "checksum": checksum_of_json(state)}
        file.write(json.dumps(header).encode() + b"\n")
        for table in tables:
            file.write(table.data)


def forget(checkpoint_dir: str | os.PathLike) -> None:
    """Delete what a finished training left in its `checkpoint_dir`; nothing else that is there."""
    folder = Path(checkpoint_dir)
    (folder / CHECKPOINT).unlink(missing_ok=True)
    for part in (_CORPUS, "gpu"):
        shutil.rmtree(folder / part, ignore_errors=True)
    with contextlib.suppress(OSError):
        folder.rmdir()


def _allocate(n_rows: int, n_columns: int) -> np.ndarray:
    """A float32 matrix on large pages if the system has them: rows are read in random order."""
    # private: memory that could be shared with a child process gets no large pages
    own = {"flags": mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS} if hasattr(mmap, "MAP_PRIVATE") else {}
    memory = mmap.mmap(-1, max(1, 4 * n_rows * n_columns), **own)
    if hasattr(mmap, "MADV_HUGEPAGE"):
        with contextlib.suppress(OSError):
            memory.madvise(mmap.MADV_HUGEPAGE)
    return np.frombuffer(memory, dtype=np.float32).reshape(n_rows, n_columns)
