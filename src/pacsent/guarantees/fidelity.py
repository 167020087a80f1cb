"""How well a student imitates its teacher on new texts, with a guarantee."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from pacsent.guarantees.certificate import Certificate
from pacsent.guarantees.certificate_page import ChartBar
from pacsent.guarantees.encoder_certificate import packed_losses, unpacked_losses
from pacsent.maths.arrays import unit_rows
from pacsent.maths.means import betting
from pacsent.maths.rounding import rounded_down

N_NEIGHBOURS = 10
_QUERIES = 1024  # compared with the collection at once


@dataclass(frozen=True, kw_only=True)
class FidelityCertificate(Certificate):
    """A lower bound on the average cosine to the teacher, and on the neighbours that are found.

    Both hold together with probability 1 - delta; each has half of delta.

    Attributes
    ----------
    bound : float
        Upper bound on the mean of (1 - cosine) / 2.
    losses : str
        (1 - cosine) / 2 of each held-out text, rounded up to 16 bits (`unpacked_losses`).
    neighbour_bound : float or None
        Upper bound on the share of the teacher's nearest neighbours that the student misses.
    neighbour_losses : str
        That share for each query, rounded up to 16 bits.
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
        "losses", "neighbour_losses", "n_collection", "n_neighbours", "teacher", "n_duplicates",
        "provenance",
    )  # fmt: skip

    losses: str
    neighbour_losses: str = ""
    neighbour_bound: float | None = None
    n_neighbours: int = N_NEIGHBOURS
    n_collection: int = 0
    teacher: str = "the teacher"
    provenance: str = "held out from teaching"

    @property
    def mean_cosine(self) -> float:
        """Average cosine to the teacher on the held-out texts."""
        return 1.0 - 2.0 * float(unpacked_losses(self.losses).mean())

    @property
    def cosine_bound(self) -> float:
        """With probability 1 - delta the average cosine on new texts is at least this."""
        return 1.0 - 2.0 * self.bound

    @property
    def recall(self) -> float | None:
        """Share of the teacher's neighbours that were found for the held-out queries."""
        if self.neighbour_bound is None:
            return None
        return 1.0 - float(unpacked_losses(self.neighbour_losses).mean())

    @property
    def recall_bound(self) -> float | None:
        """With probability 1 - delta the expected share that is found is at least this."""
        return None if self.neighbour_bound is None else 1.0 - self.neighbour_bound

    def recompute(self) -> dict[str, Any]:
        return _bounds(self.losses, self.neighbour_losses, self.delta_each)

    def _check(self) -> None:
        size, asked = (unpacked_losses(x).size for x in (self.losses, self.neighbour_losses))
        if self.n != size:
            self._refuse("n", f"{size}, the number of losses")
        if asked > size or (asked > 0) != (self.n_collection >= self.n_neighbours > 0):
            self._refuse("n_collection", "a number of texts that fits the neighbours' losses")

    def sentence(self) -> str:
        found = (
            f"With {self.confidence} confidence, on new texts from the same distribution the "
            f"average cosine to the teacher is at least {rounded_down(self.cosine_bound)}"
        )
        if self.recall_bound is None:
            return found + "."
        return (
            f"{found}, and of the teacher's {self.n_neighbours} nearest neighbours among "
            f"{self.n_collection:,} texts at least {rounded_down(self.recall_bound)} are found."
        )

    def rows(self) -> list[tuple[str, str]]:
        seen = f"average cosine {self.mean_cosine:.4f} on {self.n:,} held-out texts"
        if self.recall is not None:
            n_queries = unpacked_losses(self.neighbour_losses).size
            seen += f"; {self.recall:.4f} of the neighbours of {n_queries:,} queries"
        rows = [("Teacher", f"{self.teacher}."), ("Observed", f"{seen}.")]
        if self.n_duplicates:
            copies = f"{self.n_duplicates:,} texts repeat earlier ones; copies count once."
            rows.append(("Duplicates", copies))
        return [
            *rows,
            ("Assumption", self.assumption),
            ("Held-out texts", f"{self.provenance}."),
            ("Corrections", self.corrected_for()),
        ]

    def bars(self) -> list[ChartBar]:
        bars = [
            ChartBar("cosine, observed", max(0.0, self.mean_cosine), "#2a9d63"),
            ChartBar("cosine, certified", max(0.0, self.cosine_bound), "#1b6e9c"),
        ]
        if self.recall is not None and self.recall_bound is not None:
            bars += [
                ChartBar("neighbours, observed", self.recall, "#2a9d63"),
                ChartBar("neighbours, certified", self.recall_bound, "#1b6e9c"),
            ]
        return bars


def _bounds(losses: str, neighbour_losses: str, delta: float) -> dict[str, Any]:
    """Betting bounds on both means, with half of delta each where there are two."""
    if not neighbour_losses:
        return {"bound": betting(unpacked_losses(losses), delta), "neighbour_bound": None}
    return {
        "bound": betting(unpacked_losses(losses), delta / 2),
        "neighbour_bound": betting(unpacked_losses(neighbour_losses), delta / 2),
    }


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
    taught, teacher = (unit_rows(np.asarray(x, dtype=np.float32)) for x in (taught, teacher))
    cosines = np.einsum("ij,ij->i", taught, teacher, dtype=float)
    losses = packed_losses((1.0 - np.clip(cosines, -1.0, 1.0)) / 2)
    n_collection = len(taught) // 2
    missed = ""
    if n_collection > N_NEIGHBOURS:
        missed = packed_losses(missed_neighbours(taught, teacher, n_collection))
    else:
        n_collection = 0
    return FidelityCertificate(
        **_bounds(losses, missed, delta),
        delta=delta,
        n=len(taught),
        losses=losses,
        neighbour_losses=missed,
        n_collection=n_collection,
        teacher=name,
        n_duplicates=n_duplicates,
    )


def missed_neighbours(taught: np.ndarray, teacher: np.ndarray, n_collection: int) -> np.ndarray:
    """Share of the teacher's nearest neighbours that are not among the student's, per query.

    The first `n_collection` unit vectors are the collection, the others the queries.
    """
    missed = []
    for start in range(n_collection, len(taught), _QUERIES):
        queries = slice(start, start + _QUERIES)
        near = [_nearest(x[queries] @ x[:n_collection].T) for x in (taught, teacher)]
        found = (near[0][:, :, None] == near[1][:, None, :]).any(axis=1).mean(axis=1)
        missed.append(1.0 - found)
    return np.concatenate(missed)


def _nearest(cosines: np.ndarray) -> np.ndarray:
    """The largest of each row, (n, N_NEIGHBOURS); of equal ones the earlier."""
    return np.argsort(-cosines, axis=1, kind="stable")[:, :N_NEIGHBOURS]
