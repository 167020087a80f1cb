"""Distil an encoder into a table of word vectors.

`pacsent.distill` holds texts out, calls `fit_static_encoder`, and certifies the result. The table
is learned in two steps (`solvers.distillation`): an exact least-squares problem, then a few epochs
of gradient steps. A word outside the vocabulary is read as the longest word
that it begins with, followed by subwords (`Vocabulary(..., unknown="pieces")`).
"""

import hashlib
import json
import math
import os
import shutil
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from pacsent.arrays import unit_rows
from pacsent.files import replacing
from pacsent.kernels.text import subword_ids
from pacsent.progress import bar
from pacsent.sentences.encoder import Encoder
from pacsent.sentences.solvers.distillation import START_SCALE, Refinement, SolverOptions, fit_table
from pacsent.sentences.static_encoder import StaticEncoder
from pacsent.text.encoded import Encoded
from pacsent.text.normalize import choose_normalize
from pacsent.words.fingerprint import MAX_HASHES, Fingerprint
from pacsent.words.vectors import WordVectors
from pacsent.words.vocabulary import Vocabulary

MARK = "##"  # in front of a subword that continues a word
_MAX_SUBWORD_LETTERS = 8
_MAX_RARE_WORDS = 200_000  # the most frequent ones; more take long and change little
_MIN_COUNT = 2  # occurrences of a word that gets a vector of its own
_N_SAMPLED_TEXTS = 1000  # from which normalize="auto" is chosen
_BLOCK_ROWS = 65_536  # vectors validated at a time

# A word that is this fraction of all tokens has half the weight in the prior (SIF).
_SIF_FREQUENCY = 1e-3


def fit_static_encoder(
    texts: list[str],
    vectors: np.ndarray,
    encoder: Encoder | None = None,
    *,
    teacher: str,
    n_words: int = 60_000,
    n_subwords: int = 5_000,
    normalize: str | Callable[[str], list[str]] = "auto",
    n_epochs: int = 3,
    random_state: int = 0,
    checkpoint_dir: str | os.PathLike | None = None,
    device: str = "cpu",
    verbose: bool = False,
) -> StaticEncoder:
    """Fit a `StaticEncoder` to the vectors of texts; the parameters are those of `distill`.

    `encoder` gives the vectors of single words, from which the table starts; without it the table
    starts at zero.
    """
    training: dict[str, Any] = {"distilled_from": teacher, "random_state": random_state}
    if normalize == "auto":
        sample = " ".join(texts[:_N_SAMPLED_TEXTS])
        normalize, training["normalize"] = choose_normalize(sample)
    vocabulary = make_vocabulary(texts, n_words, n_subwords, normalize)

    encoded = vocabulary.encode(texts)
    known = np.flatnonzero(np.diff(encoded.offsets))  # texts with a word of the vocabulary
    if not known.size:
        raise ValueError(
            "texts must have words that occur twice. Got none. Give more texts, or "
            "normalize='unicode' for texts in another alphabet."
        )
    targets = vectors
    if known.size < len(texts):
        encoded = encoded.take(known)
        targets = vectors[known]

    options = SolverOptions(n_epochs=n_epochs, random_state=random_state)
    checkpoint = None
    if checkpoint_dir is not None:
        path = Path(checkpoint_dir) / "distillation.npz"
        checkpoint = _Checkpoint(path, _digest(encoded, targets, options))

    n_passes = len(known) * n_epochs
    with bar("distil", total=n_passes, unit="texts", enabled=verbose) as progress:
        if checkpoint is not None and checkpoint.path.exists():
            refinement, variances = checkpoint.read(len(targets), options)
            progress.advance(refinement.epoch * len(targets))
        else:
            prior = _prior_table(vocabulary, encoded, vectors.shape[1], encoder)
            means, variances = fit_table(encoded, targets, prior, options)
            table = np.float32(START_SCALE) * means
            refinement = Refinement(table, len(targets), options)
            variances = START_SCALE**2 * variances

        while refinement.epoch < n_epochs:
            if device == "cpu":
                refinement.run_epoch(encoded, targets, progress.advance)
            else:
                from pacsent.sentences.solvers.distillation_gpu import epoch_on_gpu

                epoch_on_gpu(refinement, encoded, targets, progress.advance, device)
            if checkpoint is not None:
                checkpoint.write(refinement, variances)

    training["n_texts"] = len(known)
    training["n_epochs"] = n_epochs
    word_vectors = WordVectors(
        vocabulary,
        refinement.table,
        training=training,
        fingerprint=Fingerprint.of(vocabulary, encoded, MAX_HASHES // 4),
    )
    if checkpoint is not None:
        shutil.rmtree(checkpoint.path.parent, ignore_errors=True)
    student = StaticEncoder(word_vectors, teacher=teacher)
    student.word_variances_ = variances
    return student


def _prior_table(
    vocabulary: Vocabulary, encoded: Encoded, n_dims: int, encoder: Encoder | None
) -> np.ndarray:
    """The encoder's vectors of single words, weighted by SIF, (n_words, n_dims); else zeros."""
    if encoder is None:
        return np.zeros((len(vocabulary), n_dims), dtype=np.float32)

    words = [word.removeprefix(MARK) for word in vocabulary.words]
    word_vectors = np.asarray(encoder.encode(words), dtype=np.float32)
    table = unit_rows(np.nan_to_num(word_vectors))

    p = vocabulary.require_counts("distillation") / max(1, encoded.ids.size)
    weights = _SIF_FREQUENCY / (_SIF_FREQUENCY + p)  # (n_words,)
    table *= weights[:, None].astype(np.float32)
    return table


@dataclass(frozen=True)
class _Checkpoint:
    """The file in which a distillation of these texts, vectors and options is stored."""

    path: Path
    digest: str

    def read(self, n_texts: int, options: SolverOptions) -> tuple[Refinement, np.ndarray]:
        """The refinement, and the variances of words; ValueError if it is of another one."""
        with np.load(self.path, allow_pickle=False) as saved:
            if str(saved["digest"]) != self.digest:
                raise ValueError(
                    "checkpoint_dir must be a folder of the same distillation. Got "
                    f"{self.path.parent}, which contains one with other texts, vectors or "
                    "options, instead. Choose another folder, or delete it."
                )

            refinement = Refinement(saved["table"], n_texts, options)
            refinement.first = saved["first"]
            refinement.second = saved["second"]
            refinement.epoch = int(saved["epoch"])
            return refinement, saved["variances"]

    def write(self, refinement: Refinement, variances: np.ndarray) -> None:
        """Store the refinement as it is now."""
        with replacing(self.path, parents=True) as file:
            np.savez(
                file,
                digest=self.digest,
                variances=variances,
                table=refinement.table,
                first=refinement.first,
                second=refinement.second,
                epoch=refinement.epoch,
            )


def checked_vectors(vectors: Any, n_texts: int) -> np.ndarray:
    """Return a teacher's vectors, one finite nonzero row per text, or raise ValueError.

    >>> checked_vectors(np.array([[1.0, 0.0], [0.0, 0.0]]), 2)
    Traceback (most recent call last):
    ValueError: vectors must not be zero. Got zeros in 1 of 2 rows (first: row 1, ...
    """
    vectors = vectors if isinstance(vectors, np.ndarray) else np.asarray(vectors)
    if vectors.ndim != 2 or vectors.dtype.kind != "f" or not vectors.size:
        raise ValueError(
            "vectors must be an array of floats of shape (n_texts, n_dims). Got "
            f"{vectors.dtype} of shape {vectors.shape} instead."
        )
    if len(vectors) != n_texts:
        raise ValueError(
            f"vectors must have one row for each of the {n_texts:,} texts. Got {len(vectors):,} "
            "rows instead. Give the vectors of these texts, in their order."
        )

    for start in range(0, n_texts, _BLOCK_ROWS):
        block = np.asarray(vectors[start : start + _BLOCK_ROWS], dtype=np.float32)
        is_infinite = ~np.isfinite(block).all(axis=1)
        _reject_rows(is_infinite, start, rule="be finite numbers", value="nan or infinity")
        _reject_rows(~block.any(axis=1), start, rule="not be zero", value="zeros")
    return vectors


def _reject_rows(is_wrong: Any, start: int, *, rule: str, value: str) -> None:
    """Raise ValueError if `is_wrong`, one bool per row of a block, is true anywhere."""
    if not is_wrong.any():
        return
    n_wrong = int(is_wrong.sum())
    first = start + int(np.argmax(is_wrong))
    raise ValueError(
        f"vectors must {rule}. Got {value} in {n_wrong:,} of {len(is_wrong):,} rows (first: row "
        f"{first}, counted from 0) instead. Omit these texts and their vectors."
    )


def make_vocabulary(
    texts: list[str], n_words: int, n_subwords: int, normalize: str | Callable[[str], list[str]]
) -> Vocabulary:
    """The most frequent words of texts, and subwords for the others.

    >>> make_vocabulary(["two films", "two tourists", "the films"], 9, 4, "paper").words[:2]
    ['films', 'two']
    """
    tokens = Vocabulary([], normalize=normalize).tokens
    counts: Counter[str] = Counter()
    for text in texts:
        counts.update(tokens(text))

    ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    frequent = [item for item in ranked if item[1] >= _MIN_COUNT][:n_words]
    frequent_words = [word for word, _ in frequent]
    if not n_subwords:
        frequent_counts = [count for _, count in frequent]
        return Vocabulary(frequent_words, frequent_counts, normalize=normalize)

    rare = ranked[len(frequent) :]
    subwords = learn_subwords(rare, frequent_words, n_subwords)
    first_letters = {word[0] for word, _ in rare}  # a rare word may begin with any of them
    letters = sorted(first_letters - set(frequent_words))
    words = frequent_words + letters + subwords

    uncounted = Vocabulary(words, normalize=normalize, unknown="pieces")
    occurrences = np.bincount(uncounted.encode(texts).ids, minlength=len(words))
    return Vocabulary(words, occurrences, normalize=normalize, unknown="pieces")


def learn_subwords(
    rare: Iterable[tuple[str, int]], known: Iterable[str], n_subwords: int
) -> list[str]:
    """Subwords for words outside the vocabulary, most used first, with their mark.

    Learned from `rare`, words outside the vocabulary with their counts, most frequent first: those
    that a longest-match segmentation of these words uses most. Besides `n_subwords`, every letter
    that continues a rare word is kept.

    >>> learn_subwords([("tourism", 2), ("tourists", 2), ("artists", 1)], {"tour", "art"}, 20)[:2]
    ['##ists', '##ism']
    """
    weighted = [(word, 1.0 + math.log(count)) for word, count in list(rare)[:_MAX_RARE_WORDS]]

    # A single letter begins a word that no in-vocabulary word begins.
    starts = set(known) | {word[0] for word, _ in weighted}

    weights: defaultdict[str, float] = defaultdict(float)
    for word, weight in weighted:
        for begin in range(1, len(word)):
            last_end = min(len(word), begin + _MAX_SUBWORD_LETTERS)
            for end in range(begin + 1, last_end + 1):
                weights[word[begin:end]] += weight

    letters = [s for s in weights if len(s) == 1]
    longer = [s for s in weights if len(s) > 1]
    longer.sort(key=lambda s: (-weights[s] * (len(s) - 1), s))
    subwords = set(longer[: 6 * n_subwords]) | set(letters)

    # Candidates overlap, so that their frequency overstates their use. Two rounds keep those that
    # the segmentation uses.
    for n_kept in (3 * n_subwords, n_subwords):
        used: defaultdict[str, float] = defaultdict(float)
        names = [*starts, *(MARK + s for s in subwords)]
        index = {name: i for i, name in enumerate(names)}
        for word, weight in weighted:
            for i in subword_ids(word, index)[1:]:
                used[names[i].removeprefix(MARK)] += weight

        longer = [s for s in used if len(s) > 1]
        longer.sort(key=lambda s: (-used[s] * len(s), s))
        subwords = set(longer[:n_kept]) | set(letters)

    letters.sort(key=lambda s: (-weights[s], s))
    return [MARK + s for s in longer[:n_subwords] + letters]


def _digest(encoded: Encoded, targets: np.ndarray, options: SolverOptions) -> str:
    """SHA-256 of everything that determines the result."""
    digest = hashlib.sha256(json.dumps(vars(options), sort_keys=True).encode())
    for array in (encoded.ids, encoded.offsets, targets):
        digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()
