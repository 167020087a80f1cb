"""How near a distilled encoder (student) is to its teacher on new texts, with a guarantee."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from pacsent.guarantees.certificate import (
    MeanCertificate,
    mean_bound,
    pack_losses,
    unpack_losses,
)
from pacsent.guarantees.delta import divide_delta
from pacsent.maths.arrays import unit_rows
from pacsent.maths.checks import check_probability
from pacsent.maths.rounding import rounded_down

N_NEIGHBOURS = 10
_QUERIES_PER_BLOCK = 1024  # compared with the collection at once


@dataclass(frozen=True, kw_only=True)
class FidelityCertificate(MeanCertificate):
    """A lower bound on the average cosine to the teacher, and on the neighbours that are found.

    Both hold together with probability 1 - delta; each has half of delta.

    Attributes
    ----------
    bound : float
        Upper bound on the mean of (1 - cosine) / 2.
    losses : str
        (1 - cosine) / 2 of each held-out text, rounded up to 16 bits (`unpack_losses`).
    neighbour_bound : float or None
        Upper bound on the fraction of the teacher's nearest neighbours that the student misses.
    neighbour_losses : str
        That fraction for each query, rounded up to 16 bits.
    n_neighbours : int
        Neighbours of a query; 10.
    n_collection : int
        Held-out texts among which neighbours are looked for, fixed before the queries are read.
        0 where there were too few: then nothing is guaranteed about neighbours.
    teacher : str
        What the teacher is called.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> taught = rng.normal(size=(400, 8))
    >>> certificate = measure_fidelity(taught, taught + rng.normal(size=(400, 8)) / 4)
    >>> certificate.cosine_bound < certificate.mean_cosine
    True
    >>> print(certificate.sentence())
    With 95 % confidence, on new texts from the same distribution the average cosine to the ...
    """

    kind: ClassVar[str] = "fidelity"
    assumption: ClassVar[str] = (
        "the held-out texts and the new texts are drawn independently from one distribution, and "
        "the student was neither taught nor chosen on the held-out texts. The guarantee on "
        "neighbours is for the collection that was fixed."
    )
    needs_texts: ClassVar[tuple[str, ...]] = (
        "losses",
        "neighbour_losses",
        "n_collection",
        "n_neighbours",
        "teacher",
        "n_duplicates",
        "provenance",
    )

    neighbour_losses: str = ""
    neighbour_bound: float | None = None
    n_neighbours: int = N_NEIGHBOURS
    n_collection: int = 0
    teacher: str = "the teacher"
    provenance: str = "held out from teaching"

    @property
    def mean_cosine(self) -> float:
        """Average cosine to the teacher on the held-out texts."""
        return 1.0 - 2.0 * self.observed

    @property
    def cosine_bound(self) -> float:
        """With probability 1 - delta the average cosine on new texts is at least this."""
        return 1.0 - 2.0 * self.bound

    @property
    def recall(self) -> float | None:
        """Fraction of the teacher's neighbours that were found for the held-out queries."""
        if self.neighbour_bound is None:
            return None
        return 1.0 - float(unpack_losses(self.neighbour_losses).mean())

    @property
    def recall_bound(self) -> float | None:
        """With probability 1 - delta the expected fraction that is found is at least this."""
        return None if self.neighbour_bound is None else 1.0 - self.neighbour_bound

    def recompute(self) -> dict[str, Any]:
        if not self.neighbour_losses:
            return {**super().recompute(), "neighbour_bound": None}
        each = divide_delta(self.delta_each, 2)
        return {
            "bound": mean_bound(self.losses, each),
            "neighbour_bound": mean_bound(self.neighbour_losses, each),
        }

    def _check(self) -> None:
        super()._check()
        n_queries = unpack_losses(self.neighbour_losses).size
        has_collection = self.n_collection >= self.n_neighbours > 0
        if n_queries > self.n or (n_queries > 0) != has_collection:
            self._refuse("n_collection", "a number of texts that fits the neighbours' losses")

    def sentence(self) -> str:
        cosine = (
            f"With {self.confidence} confidence, on new texts from the same distribution the "
            f"average cosine to the teacher is at least {rounded_down(self.cosine_bound)}"
        )
        if self.recall_bound is None:
            return f"{cosine}."
        return (
            f"{cosine}, and of the teacher's {self.n_neighbours} nearest neighbours among "
            f"{self.n_collection:,} texts at least {rounded_down(self.recall_bound)} are found."
        )

    def details(self) -> list[tuple[str, str]]:
        observed = f"average cosine {self.mean_cosine:.4f} on {self.n:,} held-out texts"
        if self.recall is not None:
            n_queries = unpack_losses(self.neighbour_losses).size
            observed += f"; {self.recall:.4f} of the neighbours of {n_queries:,} queries"
        return [("Teacher", f"{self.teacher}."), ("Observed", f"{observed}.")]

    def bars(self) -> list[tuple[str, float, str]]:
        return [
            ("cosine", max(0.0, self.mean_cosine), f"{self.mean_cosine:.4f}"),
            ("certified", max(0.0, self.cosine_bound), rounded_down(self.cosine_bound)),
        ]


def measure_fidelity(
    taught: np.ndarray,
    teacher: np.ndarray,
    *,
    delta: float = 0.05,
    name: str = "the teacher",
    n_duplicates: int = 0,
) -> FidelityCertificate:
    """Certify how near a student's vectors are to its teacher's, of the same texts.

    The first half of the texts are the collection in which neighbours are looked for, the second
    half the queries. They must be in an order that does not depend on the vectors, and the student
    must not have been taught on them. A row of zeros has cosine 0. `name` is what the teacher is
    called, `n_duplicates` the number of copies that were left out.
    """
    check_probability("delta", delta)
    taught, teacher = (unit_rows(np.asarray(x, dtype=np.float32)) for x in (taught, teacher))
    cosines = np.einsum("ij,ij->i", taught, teacher, dtype=float)
    n_collection, missed = len(taught) // 2, ""
    if n_collection > N_NEIGHBOURS:
        missed = pack_losses(missed_neighbours(taught, teacher, n_collection))
    return FidelityCertificate.from_parts(
        delta=delta,
        n=len(taught),
        losses=pack_losses((1.0 - np.clip(cosines, -1.0, 1.0)) / 2),
        neighbour_losses=missed,
        n_collection=n_collection if missed else 0,
        teacher=name,
        n_duplicates=n_duplicates,
    )


def missed_neighbours(taught: np.ndarray, teacher: np.ndarray, n_collection: int) -> np.ndarray:
    """Fraction of the teacher's nearest neighbours that are not among the student's, per query.

    The first `n_collection` unit vectors are the collection, the others the queries.
    """
    missed = []
    for start in range(n_collection, len(taught), _QUERIES_PER_BLOCK):
        queries = slice(start, start + _QUERIES_PER_BLOCK)
        nearest = []
        for vectors in (taught, teacher):
            cosines = vectors[queries] @ vectors[:n_collection].T
            # of equal ones the earlier
            nearest.append(np.argsort(-cosines, axis=1, kind="stable")[:, :N_NEIGHBOURS])
        shared = (nearest[0][:, :, None] == nearest[1][:, None, :]).any(axis=1).mean(axis=1)
        missed.append(1.0 - shared)
    return np.concatenate(missed)
