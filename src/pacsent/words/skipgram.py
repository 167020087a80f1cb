"""SkipGram: word vectors by Skip-gram with negative sampling, as an estimator.

`fit` turns the text into a `Corpus`, makes a plan that can be stored, and trains by it, on the CPU
(`skipgram_training`) or on a GPU (`gpu.skipgram`).
"""

import contextlib
import os
import tempfile
import warnings
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from numbers import Integral, Real
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state

from pacsent.arrays import unit_rows
from pacsent.parameter_checks import (
    DeviceName,
    Interval,
    StrOptions,
    check_before,
    check_parameters,
)
from pacsent.text.normalize import TOKENISERS
from pacsent.threads import n_threads
from pacsent.words.checkpoint import (
    CORPUS,
    GPU_CHECKPOINT,
    Progress,
    TrainingPlan,
    TrainingSettings,
    check_no_checkpoint,
    read_checkpoint,
    write_checkpoint,
)
from pacsent.words.corpus import Corpus
from pacsent.words.fingerprint import Fingerprint
from pacsent.words.pieces import Pieces
from pacsent.words.skipgram_training import TrainedVectors, train_on_cpu
from pacsent.words.vectors import WordVectors

# Words that n_epochs="auto" trains on, and the limits of the number of epochs. On 67,000 and on
# 172,000 words of novels, words separate after 3 million; neighbours are good from 8 million on.
_AUTO_WORDS = 10_000_000
_MIN_AUTO_EPOCHS = 5
_MAX_AUTO_EPOCHS = 200

# Trained for too short, the most frequent words have a mean cosine of .7 to 1; trained, below .25.
_MAX_MEAN_COSINE = 0.5
_MIN_COMPARED_WORDS = 100
_MAX_COMPARED_WORDS = 2_000


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
        self.n_dims = n_dims
        self.window = window
        self.subsample = subsample
        self.n_epochs = n_epochs
        self.n_negatives = n_negatives
        self.noise_power = noise_power
        self.learning_rate = learning_rate
        self.min_count = min_count
        self.normalize = normalize
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.device = device
        self.checkpoint_dir = checkpoint_dir
        self.checkpoint_every = checkpoint_every
        self.verbose = verbose

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.string = True
        tags.input_tags.two_d_array = False
        tags.target_tags.required = False
        return tags

    @check_before
    def fit(self, X: Any, y: Any = None) -> "SkipGram":
        """Train on a text.

        Parameters
        ----------
        X : Corpus, path, list of Path, or iterable of str or of token lists
            Of a file each line is a document, of an iterable each element.
        y : ignored

        Returns
        -------
        self : SkipGram
        """
        folder = None if self.checkpoint_dir is None else Path(self.checkpoint_dir)
        if folder is not None:
            check_no_checkpoint(folder)

        with self._open_corpus(X, folder) as corpus:
            plan = self._plan(corpus, folder)
            if folder is not None:
                write_checkpoint(folder, plan)
            fitted = fit_vectors(
                corpus,
                plan,
                n_jobs=self.n_jobs,
                checkpoint_dir=folder,
                verbose=bool(self.verbose),
            )
        return self._assign(fitted)

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
        verbose : bool, default=False
            Show progress, loss, words per second and time left on stderr.

        Returns
        -------
        trainer : SkipGram
            With all learned attributes.
        """
        folder = Path(checkpoint_dir)
        plan, progress = read_checkpoint(folder)
        settings = plan.settings

        corpus = Corpus.open(folder / plan.corpus)  # an absolute path stays what it is
        corpus.check()
        if corpus.digest != settings.digest:
            raise ValueError(
                f"The corpus must be the one that the training was started on. Got another text "
                f"in {corpus.directory} instead. Put the old corpus back, or start a new training."
            )

        trainer = cls(
            n_dims=settings.n_dims,
            window=settings.window,
            subsample=settings.subsample,
            n_epochs=settings.n_epochs,
            n_negatives=settings.n_negatives,
            noise_power=settings.noise_power,
            learning_rate=settings.learning_rate,
            min_count=settings.min_count,
            normalize=corpus.vocabulary.normalize,
            n_jobs=plan.n_jobs if n_jobs is None else n_jobs,
            random_state=plan.random_state,
            device=settings.device,
            checkpoint_dir=checkpoint_dir,
            checkpoint_every=plan.checkpoint_every,
            verbose=verbose,
        )

        check_parameters(trainer)
        fitted = fit_vectors(
            corpus,
            plan,
            progress,
            n_jobs=trainer.n_jobs,
            checkpoint_dir=folder,
            verbose=bool(verbose),
        )
        return trainer._assign(fitted)

    @contextlib.contextmanager
    def _open_corpus(self, X: Any, folder: Path | None) -> Iterator[Corpus]:
        """The text as a corpus: `X` itself, or built in `folder` or in a temporary folder."""
        if isinstance(X, Corpus):
            X.check()
            yield X
            return

        with contextlib.ExitStack() as stack:
            if folder is None:
                temporary = tempfile.TemporaryDirectory(prefix="pacsent-")
                folder = Path(stack.enter_context(temporary))
            yield Corpus.build(
                X,
                folder / CORPUS,
                min_count=self.min_count,
                normalize=self.normalize,
                n_jobs=self.n_jobs,
                verbose=bool(self.verbose),
                overwrite=True,  # an unfinished one of this training
            )

    def _plan(self, corpus: Corpus, folder: Path | None) -> TrainingPlan:
        """The settings, the text and the seed of this training."""
        random_state: Any = self.random_state
        is_seed = isinstance(random_state, Integral)
        if is_seed:
            seed = int(random_state)
        else:
            generator = check_random_state(random_state)
            seed = int(generator.randint(np.iinfo(np.int32).max))

        is_inside = folder is not None and corpus.directory.parent == folder.resolve()
        return TrainingPlan(
            settings=self._settings(corpus, seed),
            corpus=CORPUS if is_inside else str(corpus.directory.resolve()),
            n_jobs=self.n_jobs,
            random_state=seed if is_seed else None,
            checkpoint_every=float(self.checkpoint_every),
        )

    def _settings(self, corpus: Corpus, seed: int) -> TrainingSettings:
        n_epochs: Any = self.n_epochs
        if n_epochs == "auto":
            n_epochs = auto_epochs(corpus.n_tokens)

        return TrainingSettings(
            n_dims=self.n_dims,
            window=self.window,
            subsample=self.subsample,
            n_epochs=n_epochs,
            n_negatives=self.n_negatives,
            noise_power=self.noise_power,
            learning_rate=self.learning_rate,
            min_count=self.min_count,
            device=self.device,
            seed=seed,
            digest=corpus.digest,
        )

    def _assign(self, fitted: "FittedSkipGram") -> "SkipGram":
        self.word_vectors_ = fitted.word_vectors
        self.vocabulary_ = fitted.word_vectors.vocabulary
        self.loss_ = fitted.losses
        return self


@dataclass(frozen=True)
class FittedSkipGram:
    """All that `fit` learns."""

    word_vectors: WordVectors
    losses: list[float]  # one for each epoch


def fit_vectors(
    corpus: Corpus,
    plan: TrainingPlan,
    progress: Progress | None = None,
    *,
    n_jobs: int | None,
    checkpoint_dir: Path | None,
    verbose: bool,
) -> FittedSkipGram:
    """Train word vectors on a corpus, from the beginning or from a checkpoint of `progress`."""
    vocabulary = corpus.vocabulary
    settings = plan.settings
    if len(vocabulary) < 2:
        raise ValueError(
            "The text must have at least two different words. Got only "
            f"{vocabulary.words[0]!r} after min_count={corpus.min_count} instead. Lower "
            "min_count or train on more text."
        )

    training_record: dict[str, Any] = {"method": "skip-gram with negative sampling"}
    training_record |= _normalize_record(corpus)
    training_record |= asdict(settings)
    del training_record["digest"]  # which the word vectors have anyway

    if settings.device == "cpu":
        n_workers = n_threads(n_jobs)
        training_record["n_jobs"] = n_workers
        trained = train_on_cpu(
            corpus,
            plan,
            progress,
            n_workers=n_workers,
            checkpoint_dir=checkpoint_dir,
            verbose=verbose,
        )
    else:
        trained = _train_on_gpu(corpus, plan, checkpoint_dir, verbose)

    _check_losses(trained.losses, corpus, settings)
    _warn_if_undertrained(trained.input_vectors, corpus, settings)
    training_record["loss"] = trained.losses[-1]

    # The digest and the fingerprint tell a certificate whether its texts were trained on.
    word_vectors = WordVectors(
        vocabulary,
        trained.input_vectors,
        trained.output_vectors,
        corpus_digest=corpus.digest,
        fingerprint=Fingerprint.of(vocabulary, corpus),
        training=training_record,
    )
    return FittedSkipGram(word_vectors, trained.losses)


def auto_epochs(n_tokens: int) -> int:
    """The number of epochs that n_epochs="auto" takes."""
    n_epochs = -(-_AUTO_WORDS // max(1, n_tokens))
    return max(_MIN_AUTO_EPOCHS, min(n_epochs, _MAX_AUTO_EPOCHS))


def _train_on_gpu(
    corpus: Corpus, plan: TrainingPlan, checkpoint_dir: Path | None, verbose: bool
) -> TrainedVectors:
    from pacsent.words.gpu.skipgram import train_skipgram

    settings = plan.settings
    input_vectors, output_vectors, losses = train_skipgram(
        corpus,
        n_dims=settings.n_dims,
        window=settings.window,
        subsample=settings.subsample,
        n_epochs=settings.n_epochs,
        n_negatives=settings.n_negatives,
        noise_power=settings.noise_power,
        learning_rate=settings.learning_rate,
        random_state=settings.seed,
        device=settings.device,
        checkpoint=None if checkpoint_dir is None else checkpoint_dir / GPU_CHECKPOINT,
        checkpoint_seconds=plan.checkpoint_every,
        verbose=verbose,
    )
    return TrainedVectors(input_vectors, output_vectors, [float(loss) for loss in losses])


def _check_losses(losses: list[float], corpus: Corpus, settings: TrainingSettings) -> None:
    """Raise ValueError if an epoch had no pair of words."""
    is_finite = np.isfinite(losses)
    if not is_finite.all():
        epoch = int(np.argmin(is_finite)) + 1
        raise ValueError(
            f"The text must give pairs of neighbouring words. Got none in epoch {epoch} of "
            f"{corpus.n_tokens:,} words instead: its documents have one word each, or "
            f"subsample={settings.subsample:g} left too few. Train on more text, or use "
            "subsample=0."
        )


def _warn_if_undertrained(
    input_vectors: np.ndarray, corpus: Corpus, settings: TrainingSettings
) -> None:
    """Warn if the vectors of frequent words have not yet moved apart.

    All vectors first move in one direction, and later apart.
    """
    directions = unit_rows(input_vectors[:_MAX_COMPARED_WORDS])
    n_compared = len(directions)
    mean = directions.mean(axis=0)  # (n_dims,)
    # The square of the mean is the mean cosine of all pairs; a word has cosine 1 with itself.
    mean_cosine = (n_compared * (mean @ mean) - 1) / (n_compared - 1)

    if n_compared >= _MIN_COMPARED_WORDS and mean_cosine > _MAX_MEAN_COSINE:
        n_auto_epochs = auto_epochs(corpus.n_tokens)
        warnings.warn(
            f"The vectors of different words are nearly equal (mean cosine {mean_cosine:.2f}): "
            f"{settings.n_epochs} epochs of {corpus.n_tokens:,} words are too few updates. "
            f"Train on more text, or with more epochs (n_epochs='auto' takes {n_auto_epochs}).",
            stacklevel=4,
        )


def _normalize_record(corpus: Corpus) -> dict[str, str]:
    """The normalisation of the text, if it was not a parameter."""
    normalize = corpus.vocabulary.normalize
    if isinstance(normalize, Pieces):
        return {"normalize": f"subwords, {len(normalize.token_ids):,} learned"}
    if corpus.chosen:
        return {"normalize": corpus.chosen}
    return {}
