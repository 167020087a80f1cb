"""The calibration set: held-out rows that prediction sets, abstention and thresholds are set by."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, NamedTuple

import numpy as np

from pacsent.certify import coverage, independence
from pacsent.certify.drift_monitor import MONITORS, monitors_of
from pacsent.certify.error_certificate import HeldOutCertificate
from pacsent.certify.labels import Labels
from pacsent.certify.repeats import (
    COPIES,
    SAME,
    TRAFFIC,
    divide_rows,
    draw_samples,
    one_row_per_cluster,
)
from pacsent.certify.samples import is_texts, select_rows
from pacsent.storage import checked_tensor

# Of the calibration set of a fitted model: plans which thresholds of abstention are tested.
_PLANNING_FRACTION = 0.25


@dataclass(frozen=True)
class Calibration:
    """Log-probabilities and labels of rows that nothing was fitted or chosen on.

    Where texts repeat, there are two samples, by the names of `repeats`: one of rows and one of
    clusters, of which each has one row. A row may be in both.
    """

    log_proba: Any  # (n, n_classes), or None for a classifier that gives labels alone
    labels: np.ndarray  # (n,); multi-label (n, n_labels) of bool
    # Whether a row is in each sample, (n,) of bool; empty if all are in the only one.
    members: dict[str, np.ndarray] = field(default_factory=dict)
    # The same for the rows that abstention is tested on; None if they are all of the samples.
    tested_members: dict[str, np.ndarray] | None = None
    monitors: np.ndarray | None = None  # (n, 4) of `drift_monitor.MONITORS`, where these are texts
    covered: np.ndarray | None = None  # (n,) of bool: whether the classifier knows enough words
    # Randomises the tests of thresholds; with 1 they are not randomised. It is drawn once for a
    # calibration set: whoever draws again has tried several.
    uniform: float = 1.0

    @property
    def wrong(self) -> np.ndarray:
        """True where a row's likeliest class is not its label, (n,)."""
        return self.log_proba.argmax(axis=1) != self.labels

    def select(self, rows: np.ndarray) -> "Calibration":
        """The calibration set of some rows, in their order, which are one sample."""
        selected = {}
        for item in fields(self):
            value = getattr(self, item.name)
            if isinstance(value, np.ndarray):
                selected[item.name] = value[rows]
        return replace(self, **selected, members={}, tested_members=None)

    def samples(self, *, tested: bool = False) -> dict[str, "Calibration"]:
        """The calibration set of each sample, by its name; "" where there is only one.

        With `tested`, the rows that abstention is tested on: those that did not plan it.
        """
        members = self.members
        if not members:
            members = {SAME: np.ones(len(self.labels), bool)}
        if tested and self.tested_members is not None:
            members = self.tested_members

        samples = {}
        for name, is_member in members.items():
            rows = np.flatnonzero(is_member)
            samples[name] = self.select(rows)
        return samples

    def sample(self, name: str) -> "Calibration":
        """The calibration set of one sample, "traffic" or "copies", or the only one."""
        samples = self.samples()
        only_sample = next(iter(samples.values()))
        return samples.get(name, only_sample)

    def check_equal(self, other: "Calibration") -> None:
        """Refuse a calibration set other than this one, up to rounding of sums."""
        own_members = {name: is_member.tolist() for name, is_member in self.members.items()}
        other_members = {name: is_member.tolist() for name, is_member in other.members.items()}
        if own_members != other_members:
            raise ValueError(
                "The calibration set must be that of the certified texts. Got other samples "
                "instead: it was changed. Calibrate again."
            )

        for name in ("labels", "log_proba", "monitors", "covered"):
            own_value = getattr(self, name)
            value = getattr(other, name)
            if value is own_value:  # both may be None
                continue
            # machines round sums differently
            if not np.allclose(value, own_value, rtol=1e-4, atol=1e-6):
                raise ValueError(
                    f"The calibration set must be that of the certified texts. Got other {name} "
                    "instead: it was changed. Calibrate again."
                )

    def to_arrays(self, *, randomized: bool) -> dict[str, np.ndarray]:
        """The arrays to save, by the names of tensors, of a TextClassifier's calibration set."""
        assert self.monitors is not None and self.covered is not None
        arrays = {
            "log_proba": self.log_proba,
            "labels": self.labels.astype(np.int64),
            "monitors": self.monitors,
            "covered": self.covered.astype(np.uint8),
        }
        for name, is_member in self.members.items():
            arrays[f"in_{name}"] = is_member.astype(np.uint8)
        if randomized:
            arrays["uniform"] = np.array(self.uniform)
        return {f"calibration.{name}": array for name, array in arrays.items()}

    @classmethod
    def from_arrays(
        cls,
        tensors: Mapping[str, np.ndarray],
        certificate: HeldOutCertificate,
        kind: type[Labels],
        n_classes: int,
        *,
        randomized: bool,
    ) -> "Calibration":
        """The inverse of `to_arrays`, for arrays that anybody may have written: all are checked."""

        def read(name: str, dtype: Any, shape: tuple[int | None, ...], **limits: int) -> np.ndarray:
            return checked_tensor(tensors, f"calibration.{name}", dtype, shape, **limits)

        n = certificate.n
        members = {}
        if certificate.other:
            for name, parts in certificate.samples.items():
                is_member = read(f"in_{name}", np.uint8, (None,), low=0, below=2)
                n_members = parts["n"]
                if int(is_member.sum()) != n_members:
                    raise ValueError(f"its calibration set must have {n_members} rows of {name}")
                members[name] = is_member.astype(bool)
            n = next(iter(members.values())).size

        label_shape, n_values = kind.encoded_shape(n, n_classes)
        labels = read("labels", np.int64, label_shape, low=0, below=n_values)
        log_proba = read("log_proba", np.float64, (n, n_classes))
        monitors = read("monitors", np.float64, (n, len(MONITORS)), low=-1)
        covered = read("covered", np.uint8, (n,), low=0, below=2)
        uniform = 1.0
        if randomized:
            uniform = float(read("uniform", np.float64, (), low=0, below=1))

        return cls(
            log_proba=log_proba,
            labels=labels.astype(kind.dtype),
            members=members,
            monitors=monitors,
            covered=covered.astype(bool),
            uniform=uniform,
        )


class DrawnRows(NamedTuple):
    """The rows of a calibration set, a selection of those that were certified."""

    calibration: Calibration
    X: Any
    clusters: np.ndarray  # (n,) of near-duplicates, or groups

    def divide(self, certificate: HeldOutCertificate) -> tuple[Calibration, Calibration]:
        """The calibration set, and a part of it that abstention is planned on, not tested."""
        assert certificate.random_state is not None
        rng = np.random.default_rng([certificate.random_state, 2])
        n = self.clusters.size

        if np.unique(self.clusters).size == n:
            is_planning = rng.random(n) < _PLANNING_FRACTION
            members = self.calibration.members or {SAME: np.ones(n, bool)}
            tested_members = {name: is_member & ~is_planning for name, is_member in members.items()}
        else:
            is_planning, tested_members = self._divide_clusters(rng)

        planning_rows = np.flatnonzero(is_planning)
        planning = self.calibration.select(planning_rows)
        tested = replace(self.calibration, tested_members=tested_members)
        return tested, planning

    def _divide_clusters(
        self, rng: np.random.Generator
    ) -> tuple[np.ndarray, dict[str, np.ndarray]]:
        """The rows that plan, (n,) of bool, and those of each sample that are tested.

        No row of a cluster that is tested may plan, and the rows tested are a sample.
        """
        n = self.clusters.size
        find_clusters = independence.cluster_rows_of(self.X)
        division = divide_rows(self.clusters, 0.5, rng, cluster_rows=find_clusters)
        is_planning = division.is_free

        traffic_name = TRAFFIC if TRAFFIC in division.samples else SAME
        traffic_rows = division.samples[traffic_name]
        in_traffic = np.isin(np.arange(n), traffic_rows)
        planning_clusters = self.clusters[is_planning]
        in_other_cluster = ~np.isin(self.clusters, planning_clusters)

        members = self.calibration.members or {TRAFFIC: np.ones(n, bool)}
        tested_members = {}
        for name, is_member in members.items():
            may_be_tested = in_other_cluster if name == COPIES else in_traffic
            tested_members[name] = is_member & may_be_tested
        return is_planning, tested_members


def draw_calibration(
    model: Any,
    certificate: HeldOutCertificate,
    X: Any,
    labels: Labels,
    log_proba: np.ndarray | None,
    drawn: dict[str, np.ndarray] | None = None,
) -> DrawnRows:
    """The calibration set of certified rows.

    It has one row of each cluster, or of each group, or the rows of both samples.

    Parameters
    ----------
    model : FittedModel
    certificate : ErrorCertificate or MultilabelCertificate
        Of these rows.
    X : texts or other rows, (n,)
    labels : Labels
    log_proba : array, (n, n_classes), or None
        Log-probabilities that the model predicts, if it has any.
    drawn : dict of name to array, optional
        The rows of each sample, where not all rows may be in them.

    Returns
    -------
    DrawnRows
    """
    seed = certificate.random_state
    if certificate.scope == "groups":
        assert labels.groups is not None
        clusters = labels.groups
        drawn = {SAME: one_row_per_cluster(clusters, seed)}
    else:
        clusters = independence.dependent_clusters(X)
        if drawn is None:
            drawn = draw_samples(clusters, certificate.repeats, seed)

    if len(drawn) == 1:
        (kept,) = drawn.values()
        members = {}
    else:
        all_drawn = np.concatenate(list(drawn.values()))
        kept = np.unique(all_drawn)
        members = {name: np.isin(kept, rows) for name, rows in drawn.items()}

    monitors = monitors_of(model, X)[kept] if is_texts(X) else None
    covered = coverage.are_covered(model, X)
    calibration = Calibration(
        log_proba=None if log_proba is None else log_proba[kept],
        labels=labels.encoded[kept],
        members=members,
        monitors=monitors,
        covered=covered[kept],
    )
    return DrawnRows(calibration, select_rows(X, kept), clusters[kept])
