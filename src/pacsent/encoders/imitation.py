"""`teach`: a static student that imitates any encoder, and what is guaranteed about it."""

import hashlib
import json
import os
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from pacsent.encoders.external_encoders import as_encoder
from pacsent.encoders.student import Student
from pacsent.encoders.table_solver import SCALE, Refinement, SolverOptions, least_squares
from pacsent.encoders.word_pieces import MARK, learn_pieces
from pacsent.files import replacing
from pacsent.gpu.device import require
from pacsent.guarantees.fidelity import FidelityCertificate, measure_fidelity
from pacsent.maths.arrays import unit_rows
from pacsent.maths.checks import check_count, check_probability
from pacsent.progress import bar
from pacsent.text.normalise import choose_normalise
from pacsent.text.texts import as_texts
from pacsent.words.fingerprint import MOST, Fingerprint
from pacsent.words.vectors import WordVectors
from pacsent.words.vocabulary import Vocabulary

LEAST_TEXTS = 10
_MOST_HELD_OUT = 4000  # by default
_MIN_COUNT = 2  # of a word that has a vector of its own
_BLOCK = 65_536  # rows checked at once
_SAMPLED = 1000  # texts from which the normalisation is chosen
_SIF = 1e-3  # words this frequent have half the weight in the prior


def teach(
    teacher: Any,
    texts: Any,
    *,
    n_words: int = 60_000,
    n_pieces: int = 5_000,
    normalise: str | Callable[[str], list[str]] = "auto",
    n_epochs: int = 3,
    holdout: float | None = None,
    delta: float = 0.05,
    random_state: int = 0,
    checkpoint_dir: str | os.PathLike | None = None,
    device: str = "cpu",
    verbose: bool = False,
) -> Student:
    """Teach a table of word vectors to imitate an encoder.

    The student gives a text the direction of the sum of its words' vectors. It encodes about a
    hundred thousand texts a second and needs no other program. Texts are held out, on which the
    fidelity certificate is measured: the average cosine to the teacher, and how many of the
    teacher's ten nearest neighbours the student finds.

    Parameters
    ----------
    teacher : encoder, or array of shape (n_texts, n_dims)
        Anything that `pacsent.encoders.as_encoder` takes, or the vectors of the texts: of another
        program, only texts and their vectors are needed. An encoder is also asked for the vectors
        of single words, from which the table starts.
    texts : iterable of str
        Texts like those that the student is for, single sentences by preference. Copies are used
        once.
    n_words : int, default=60_000
        Words that have a vector of their own, the most frequent ones.
    n_pieces : int, default=5_000
        Pieces that other words are put together from; 0 for none, and such words are left out.
    normalise : "auto", a name or a callable, default="auto"
        How raw text becomes tokens (`Vocabulary`). "auto" chooses "paper" for texts in the letters
        a-z, else "unicode".
    n_epochs : int, default=3
        Passes over the texts after the exact step. More raise the share of neighbours found.
    holdout : float or None, default=None
        Share of the texts that the certificate is measured on; by default a tenth, at most 4,000.
    delta : float, default=0.05
        Probability that the certificate fails.
    random_state : int, default=0
        Seed. The student depends on it and on nothing else but teacher and texts.
    checkpoint_dir : path or None
        A folder for the state after each epoch. The same call with the same folder goes on after an
        interruption; the folder is removed at the end.
    device : str, default="cpu"
        "cuda" or "cuda:<number>" refines the table with PyTorch on a GPU (extra `[gpu]`).
    verbose : bool, default=False
        Show progress.

    Returns
    -------
    Student

    Examples
    --------
    >>> from pacsent import teach
    >>> words = "red green small large quiet fast house river train song".split()
    >>> texts = [f"a {a} {b} and a {c}" for a in words for b in words for c in words[5:]]
    >>> student = teach("english", texts, n_pieces=50)
    >>> student.certificate_.cosine_bound > 0.5
    True
    >>> student.encode(["a large green house"]).shape
    (1, 256)
    """
    _check_options(n_words, n_pieces, n_epochs, random_state)
    check_probability("delta", delta)
    if device != "cpu":
        require(device)
    texts = as_texts(texts)
    if len(texts) < LEAST_TEXTS:
        raise ValueError(
            f"texts must be at least {LEAST_TEXTS}, some to learn from and some to be held out. "
            f"Got {len(texts)} instead. Give more texts: some ten thousand make a useful student."
        )
    encoder = None
    if not isinstance(teacher, np.ndarray):
        encoder = as_encoder(teacher)
        teacher = encoder.encode(texts)
    name = "stored vectors" if encoder is None else _name_of(encoder)
    vectors = checked_vectors(teacher, len(texts))
    rows = np.fromiter({text: row for row, text in reversed(list(enumerate(texts)))}.values(), int)
    rows.sort()  # the first of each text
    taught_on, held_out = _split(rows, holdout, random_state)
    training = {"taught_by": name}
    if normalise == "auto":
        normalise, training["normalise"] = choose_normalise(" ".join(texts[:_SAMPLED]))
    vocabulary = make_vocabulary([texts[i] for i in taught_on], n_words, n_pieces, normalise)
    encoded = vocabulary.encode([texts[i] for i in taught_on])
    known = np.flatnonzero(np.diff(encoded.offsets))
    if not known.size:
        raise ValueError(
            "texts must have words that occur twice. Got none. Give more texts, or "
            "normalise='unicode' for texts in another alphabet."
        )
    encoded, targets = encoded.take(known), vectors[taught_on[known]]
    options = SolverOptions(n_epochs=n_epochs, random_state=random_state)
    with bar("teach", total=len(known) * n_epochs, unit="texts", enabled=verbose) as shown:
        solve = _Solving(encoded, targets, options, checkpoint_dir, shown.advance)
        table, variances = solve.run(lambda: _prior(vocabulary, encoder, vectors.shape[1]), device)
    words = WordVectors(
        vocabulary,
        table,
        training={**training, "n_texts": len(known), "n_epochs": n_epochs},
        fingerprint=Fingerprint.of(vocabulary, encoded, MOST // 4),
    )
    student = Student(words, teacher=name)
    student._word_variances = variances
    student.certificate_ = certify_student(
        student,
        [texts[i] for i in held_out],
        vectors[held_out],
        delta=delta,
        n_duplicates=len(texts) - len(rows),
    )
    solve.finish()
    return student


def certify_student(
    student: Student, texts: Any, vectors: Any, *, delta: float = 0.05, n_duplicates: int = 0
) -> FidelityCertificate:
    """Certify a student on texts that it was not taught on, in random order.

    The texts are all different; `vectors` are the teacher's, (n_texts, n_dims). The first half is
    the collection in which neighbours are looked for.

    >>> from pacsent import load
    >>> student = load("english").sentences
    >>> texts = [f"{a} {b}" for a in ("red", "old", "big", "warm") for b in ("wine", "car", "dog")]
    >>> certificate = certify_student(student, texts, student.encode(texts))
    >>> bool(certificate.verify())
    True
    """
    texts = as_texts(texts)
    vectors = checked_vectors(vectors, len(texts))
    encoded = student.word_vectors.vocabulary.encode(texts)
    taught = student.prepared()(encoded)[0]
    return measure_fidelity(
        taught, vectors, delta=delta, name=student.teacher, n_duplicates=n_duplicates
    )


def checked_vectors(vectors: Any, n_texts: int) -> np.ndarray:
    """A teacher's vectors, one for each text, if every row of them has a direction.

    >>> checked_vectors(np.array([[1.0, 0.0], [0.0, 0.0]]), 2)
    Traceback (most recent call last):
    ValueError: vectors must not be zero. Got zeros in 1 of 2 rows (first: row 1) instead. ...
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
            "rows instead. Give the vectors of these very texts, in their order."
        )
    for start in range(0, n_texts, _BLOCK):
        block = np.asarray(vectors[start : start + _BLOCK], dtype=np.float32)
        for wrong, rule, what in (
            (~np.isfinite(block).all(axis=1), "be finite numbers", "nan or infinity"),
            (~block.any(axis=1), "not be zero", "zeros"),
        ):
            if wrong.any():
                raise ValueError(
                    f"vectors must {rule}. Got {what} in {int(wrong.sum()):,} of {len(block):,} "
                    f"rows (first: row {start + int(np.argmax(wrong))}) instead. Leave these texts "
                    "and their vectors out."
                )
    return vectors


def make_vocabulary(
    texts: list[str], n_words: int, n_pieces: int, normalise: str | Callable[[str], list[str]]
) -> Vocabulary:
    """The most frequent words of texts, and pieces for the others.

    >>> make_vocabulary(["two films", "two tourists", "the films"], 9, 4, "paper").words[:2]
    ['films', 'two']
    """
    tokens = Vocabulary([], normalise=normalise).tokens
    counts: Counter[str] = Counter()
    for text in texts:
        counts.update(tokens(text))
    ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    words = [item for item in ranked if item[1] >= _MIN_COUNT][:n_words]
    if not n_pieces:
        return Vocabulary(*map(list, zip(*words)) if words else ([], []), normalise=normalise)
    known = {word for word, _ in words}
    rare = ranked[len(words) :]
    pieces = learn_pieces(rare, known, n_pieces)
    letters = sorted({word[0] for word, _ in rare} - known)  # that a rare word can begin with
    names = [word for word, _ in words] + letters + pieces
    found = Vocabulary(names, normalise=normalise, unknown="pieces")
    seen = np.bincount(found.encode(texts).ids, minlength=len(names))
    return Vocabulary(names, seen, normalise=normalise, unknown="pieces")


def _check_options(n_words, n_pieces, n_epochs, random_state):
    check_count("n_words", n_words)
    check_count("n_pieces", n_pieces, 0)
    check_count("n_epochs", n_epochs, 0)
    check_count("random_state", random_state, 0)


def _name_of(encoder) -> str:
    return str(getattr(encoder, "label", None) or getattr(encoder, "method_name", "an encoder"))


def _split(rows, holdout, random_state):
    """(rows to teach on, rows that are held out), the latter in random order."""
    n_held_out = min(len(rows) // 10, _MOST_HELD_OUT)
    if holdout is not None:
        check_probability("holdout", holdout)
        n_held_out = round(holdout * len(rows))
    if not 1 <= n_held_out < len(rows):
        raise ValueError(
            f"holdout must leave different texts on both sides. Got {len(rows):,} different texts "
            f"and holdout={holdout!r} instead. Give more texts, or another share."
        )
    order = np.random.default_rng([random_state, 1]).permutation(rows)
    return np.sort(order[n_held_out:]), order[:n_held_out]


def _prior(vocabulary, encoder, n_dims) -> np.ndarray:
    """Means of the words' priors: the teacher's vectors of single words, or zero.

    A word that a thousandth of all tokens are counts half (SIF).
    """
    prior = np.zeros((len(vocabulary), n_dims), dtype=np.float32)
    if encoder is None:
        return prior
    found = encoder.encode([word.removeprefix(MARK) for word in vocabulary.words])
    found = unit_rows(np.nan_to_num(np.asarray(found, dtype=np.float32)))
    share = vocabulary.counts / max(1, vocabulary.counts.sum())
    return found * (_SIF / (_SIF + share))[:, None].astype(np.float32)


class _Solving:
    """Both steps of the solver, with checkpoints after each."""

    def __init__(self, encoded, targets, options, checkpoint_dir, advance):
        self.encoded, self.targets, self.options = encoded, targets, options
        self.advance = advance
        self.folder = None if checkpoint_dir is None else Path(checkpoint_dir)

    def run(self, prior: Callable[[], np.ndarray], device: str):
        """(table, variances of words)."""
        kept = self._opened()
        if kept is None:
            means, variances = least_squares(self.encoded, self.targets, prior(), self.options)
            work = Refinement(np.float32(SCALE) * means, len(self.targets), self.options)
            variances = SCALE**2 * variances
        else:
            work, variances = kept
            self.advance(work.epoch * len(self.targets))
        while work.epoch < self.options.n_epochs:
            if device == "cpu":
                work.run_epoch(self.encoded, self.targets, self.advance)
            else:
                from pacsent.gpu import epoch_on_gpu

                epoch_on_gpu(work, self.encoded, self.targets, self.advance, device)
            self._keep(work, variances)
        return work.table, variances

    def finish(self):
        if self.folder is not None:
            shutil.rmtree(self.folder, ignore_errors=True)

    def _digest(self) -> str:
        """Of everything that decides the result."""
        found = hashlib.sha256(json.dumps(vars(self.options), sort_keys=True).encode())
        for array in (self.encoded.ids, self.encoded.offsets, self.targets):
            found.update(np.ascontiguousarray(array).data)
        return found.hexdigest()

    def _keep(self, work, variances):
        if self.folder is None:
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        with replacing(self.folder / "teaching.npz") as file:
            np.savez(
                file,
                digest=np.array(self._digest()),
                epoch=np.array(work.epoch),
                variances=variances,
                **{name: getattr(work, name) for name in ("table", "first", "second")},
            )

    def _opened(self):
        path = None if self.folder is None else self.folder / "teaching.npz"
        if path is None or not path.exists():
            return None
        with np.load(path, allow_pickle=False) as kept:
            if str(kept["digest"]) != self._digest():
                raise ValueError(
                    "checkpoint_dir must be a folder of the same teaching. Got "
                    f"{self.folder}, which holds one with other texts, vectors or options, "
                    "instead. Choose another folder, or delete it."
                )
            work = Refinement(kept["table"], len(self.targets), self.options)
            work.first, work.second, work.epoch = kept["first"], kept["second"], int(kept["epoch"])
            return work, kept["variances"]
