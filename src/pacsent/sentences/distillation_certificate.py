"""`distill`: a static copy (student) of an encoder (teacher), certified on held-out texts."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from pacsent.arrays import unit_rows
from pacsent.bounds.checks import check_count, check_probability
from pacsent.bounds.rounding import format_count, rounded_down
from pacsent.certify.certificate import MeanCertificate
from pacsent.certify.independence import as_seed
from pacsent.sentences import StaticEncoder, as_encoder
from pacsent.sentences.distillation import checked_vectors, fit_static_encoder
from pacsent.storage.tensor_files import pack_losses
from pacsent.text.texts import as_texts
from pacsent.words.gpu.device import require

_MIN_TEXTS = 10
_MAX_HELD_OUT = 4000  # texts; by default a tenth, and no more than this


@dataclass(frozen=True, kw_only=True)
class FidelityCertificate(MeanCertificate):
    """A lower bound on the average cosine between a student's vectors and its teacher's.

    The losses are (1 - cosine) / 2 of each held-out text, and `error_upper` bounds their mean.

    >>> vectors = np.eye(40)
    >>> certificate = measure_fidelity(vectors, vectors + 0.1)
    >>> certificate.cosine_lower < certificate.mean_cosine
    True
    """

    kind: ClassVar[str] = "fidelity"
    assumption: ClassVar[str] = (
        "the held-out texts and new texts are drawn independently from one distribution, and the "
        "student was neither distilled nor selected on the held-out texts."
    )
    needs_texts: ClassVar[tuple[str, ...]] = ("losses", "teacher", "n_duplicates", "provenance")

    teacher: str = "the teacher"
    provenance: str = (
        "held out from distillation; copies count once, near-duplicates are not searched for"
    )

    @property
    def mean_cosine(self) -> float:
        """Average cosine to the teacher on the held-out texts."""
        return 1.0 - 2.0 * self.observed

    @property
    def cosine_lower(self) -> float:
        """With probability 1 - delta the average cosine on new texts is at least this."""
        return 1.0 - 2.0 * self.error_upper

    def summary(self) -> str:
        distinct = "distinct " if self.n_duplicates else ""
        return (
            f"With {self.confidence} confidence, on new {distinct}texts from the same distribution "
            f"the average cosine to the teacher is at least {rounded_down(self.cosine_lower)}."
        )

    def repeated(self) -> str:
        if not self.n_duplicates:
            return ""
        copies = format_count(self.n_duplicates, "copy", "copies")
        return (
            f"{copies} not counted: valid if copies of texts were made, and not if frequent texts "
            "are drawn again, as in traffic."
        )

    def measurements(self) -> list[tuple[str, str]]:
        observed = f"average cosine {self.mean_cosine:.4f} on {self.n:,} held-out texts."
        return [("Teacher", f"{self.teacher}."), ("Observed", observed)]


def distill(
    teacher: Any,
    texts: Any,
    *,
    n_words: int = 60_000,
    n_subwords: int = 5_000,
    normalize: str | Callable[[str], list[str]] = "auto",
    n_epochs: int = 3,
    test_size: float | None = None,
    delta: float = 0.05,
    random_state: Any = None,
    checkpoint_dir: str | os.PathLike | None = None,
    device: str = "cpu",
    verbose: bool = False,
) -> StaticEncoder:
    """Distil an encoder into a table of word vectors.

    The student gives a text the direction of the sum of its words' vectors. The fidelity
    certificate bounds its average cosine to the teacher, measured on held-out texts.

    Parameters
    ----------
    teacher : encoder, or array of shape (n_texts, n_dims)
        Anything that `pacsent.sentences.as_encoder` takes, or the vectors of the texts. An encoder
        also gives the vectors of single words, from which the table starts.
    texts : iterable of str
        Texts like those that the student is for, best single sentences; copies are used once.
    n_words, n_subwords : int, default=60_000 and 5_000
        Words that have a vector of their own, the most frequent ones, and subwords that others are
        composed of; with 0 such words are omitted.
    normalize : "auto", a name or a callable, default="auto"
        How raw text becomes tokens (`Vocabulary`). "auto" chooses "paper" for texts in the letters
        a-z, else "unicode".
    n_epochs : int, default=3
        Passes over the texts after the exact step. More raise the fraction of neighbours found.
    test_size : float or None, default=None
        Fraction of the texts that the certificate is measured on: a tenth, at most 4,000 texts.
    delta, random_state : see `certify_predictions`
        The student depends on the seed and on nothing else but teacher and texts.
    checkpoint_dir : path or None
        A folder for the state after each epoch. The same call with the same folder and an int as
        `random_state` resumes after an interruption; the folder is removed at the end.
    device : str, default="cpu"
        "cuda" or "cuda:<number>" refines the table with PyTorch on a GPU (extra `[gpu]`).
    verbose : bool, default=False
        Show progress.

    Returns
    -------
    StaticEncoder
        The student. Its `certificate_` is the JSON of a `FidelityCertificate`.

    Examples
    --------
    >>> from pacsent import distill
    >>> from pacsent.certify import read_certificate
    >>> words = "red green small large quiet fast house river train song".split()
    >>> texts = [f"a {a} {b} and a {c}" for a in words for b in words for c in words[5:]]
    >>> student = distill("english", texts, n_subwords=50)
    >>> read_certificate(student.certificate_).cosine_lower > 0.5
    True
    >>> student.encode(["a large green house"]).shape
    (1, 256)
    """
    check_count("n_words", n_words)
    check_count("n_subwords", n_subwords, 0)
    check_count("n_epochs", n_epochs, 0)
    if checkpoint_dir is not None and random_state is None:
        raise ValueError("checkpoint_dir needs an int as random_state, to resume. Got None.")
    seed = as_seed(random_state)
    check_probability("delta", delta)
    if device != "cpu":
        require(device)

    texts = as_texts(texts)
    if len(texts) < _MIN_TEXTS:
        raise ValueError(
            f"texts must be at least {_MIN_TEXTS}, to learn from and to hold out. Got "
            f"{len(texts)} instead. Give more texts: ten thousand make a useful student."
        )

    encoder = None
    name = "stored vectors"
    if not isinstance(teacher, np.ndarray):
        encoder = as_encoder(teacher)
        name = encoder.method_name
        teacher = encoder.encode(texts)

    vectors = checked_vectors(teacher, len(texts))

    # Copies of a text are not independent of each other: only the first is used.
    first_row: dict[str, int] = {}
    for row, text in enumerate(texts):
        first_row.setdefault(text, row)
    rows = np.array(list(first_row.values()))  # increasing

    n_held_out = min(len(rows) // 10, _MAX_HELD_OUT)
    if test_size is not None:
        check_probability("test_size", test_size)
        n_held_out = round(test_size * len(rows))
    if not 1 <= n_held_out < len(rows):
        raise ValueError(
            f"test_size must leave different texts on both sides. Got {len(rows):,} of them and "
            f"test_size={test_size!r} instead. Give more texts, or another fraction."
        )

    order = np.random.default_rng([seed, 1]).permutation(rows)
    held_out = order[:n_held_out]
    training = np.sort(order[n_held_out:])
    student = fit_static_encoder(
        [texts[i] for i in training],
        vectors[training],
        encoder,
        teacher=name,
        n_words=n_words,
        n_subwords=n_subwords,
        normalize=normalize,
        n_epochs=n_epochs,
        random_state=seed,
        checkpoint_dir=checkpoint_dir,
        device=device,
        verbose=verbose,
    )

    certificate = certify_student(
        student,
        [texts[i] for i in held_out],
        vectors[held_out],
        delta=delta,
        n_duplicates=len(texts) - len(rows),
    )
    student.certificate_ = certificate.to_json()
    return student


def certify_student(
    student: StaticEncoder, texts: Any, vectors: Any, *, delta: float = 0.05, n_duplicates: int = 0
) -> FidelityCertificate:
    """Certify a student on texts that it was not distilled on, in random order.

    Parameters
    ----------
    student : StaticEncoder
    texts : iterable of str
        All different.
    vectors : array, shape (n_texts, n_dims)
        The teacher's.
    delta : float, default=0.05
        Probability that the bound does not hold.
    n_duplicates : int, default=0
        Copies of texts that were omitted, which the certificate states.

    Returns
    -------
    FidelityCertificate

    References
    ----------
    Theorem 23 (e) of docs/theory.md.

    Examples
    --------
    >>> from pacsent import load
    >>> student, texts = load("english").sentences, ["red wine", "old car", "big dog", "warm tea"]
    >>> bool(certify_student(student, texts, student.encode(texts)).verify())
    True
    """
    texts = as_texts(texts)
    vectors = checked_vectors(vectors, len(texts))
    encoded = student.word_vectors.vocabulary.encode(texts)
    solve = student.prepared()
    own, _ = solve(encoded)
    return measure_fidelity(
        own, vectors, delta=delta, teacher=student.teacher, n_duplicates=n_duplicates
    )


def measure_fidelity(
    own: np.ndarray, vectors: np.ndarray, *, delta: float = 0.05, **fields: Any
) -> FidelityCertificate:
    """Certify how near a student's own vectors are to its teacher's, of the same texts.

    They must be in an order that does not depend on the vectors, and the student must not have
    been distilled on them. A row of zeros has cosine 0.
    """
    unit_own = unit_rows(np.asarray(own, dtype=np.float32))
    unit_vectors = unit_rows(np.asarray(vectors, dtype=np.float32))
    cosines = np.einsum("ij,ij->i", unit_own, unit_vectors, dtype=float)
    cosines = np.clip(cosines, -1.0, 1.0)
    losses = pack_losses((1.0 - cosines) / 2)
    check_probability("delta", delta)
    return FidelityCertificate.from_parts(delta=delta, n=len(own), losses=losses, **fields)
