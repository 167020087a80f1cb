"""The certificate of a classifier, or of anybody's predictions: how often they are wrong."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from pacsent.classify.inputs import as_labels
from pacsent.guarantees.certificate import CountCertificate, pack_losses, unpack_losses
from pacsent.guarantees.delta import divide_delta
from pacsent.guarantees.estimators import are_predictions, classes_of, predict_any
from pacsent.guarantees.held_out_certificate import HeldOutCertificate
from pacsent.guarantees.independence import as_seed, cluster_means, population
from pacsent.maths.binomial import upper_limit
from pacsent.maths.checks import check_count, check_probability, is_count
from pacsent.maths.means import BOLD, betting
from pacsent.maths.rounding import rounded_down, rounded_up

BRIER, LOG_LOSS = "Brier score", "log-loss"
MIN_PROBABILITY = 0.001  # smaller ones count as this in the log-loss, which is unbounded
LARGEST_LOSS = {BRIER: 1.0, LOG_LOSS: float(-np.log(MIN_PROBABILITY))}


@dataclass(frozen=True, kw_only=True)
class ErrorCertificate(HeldOutCertificate, CountCertificate):
    """Upper bounds on how often one classifier, or whoever predicted, is wrong on new texts.

    `n` is the number of independent examples: different texts, where near-duplicates are one, or
    groups. All bounds of a certificate hold together with probability 1 - delta: where there is
    more than `bound`, it has half of delta, and all others share the other half.

    Attributes
    ----------
    n_errors : int
        Texts with a wrong prediction, where duplicates are one text, wrong if one of them is.
    n_duplicates, n_repeated_errors : int
        Further texts that repeat one of the n, almost or exactly (or belong to the same group), and
        how many further wrong predictions they have. The bound is the larger of two, with and
        without them: it holds whether new texts repeat as often or not at all.
    class_counts, class_bounds : dict
        Per class: [texts of the class, errors] and the bound on its error rate, 1 - recall; where
        texts repeat, also [further texts, further errors].
    balanced_bound : float or None
        Mean of the class bounds, where all classes have one.
    answer_counts, answer_bounds : dict
        Per predicted class: the same for the texts with this prediction, which is 1 - precision.
    losses, loss_bounds : dict
        Losses in [0, 1], one for each of the n (packed), and the betting bound on their mean: of
        the Brier score and the log-loss, and of every error rate where n are groups.
    scope, n_groups, seed, holdout, digests : see `HeldOutCertificate`

    Examples
    --------
    >>> from pacsent.guarantees import certify_predictions
    >>> certificate = certify_predictions(["up", "down"] * 40, ["up"] * 10 + ["up", "down"] * 35)
    >>> certificate.n, certificate.n_errors
    (80, 5)
    >>> certificate.error < certificate.bound < 0.13
    True
    """

    kind: ClassVar[str] = "error"
    assumption: ClassVar[str] = (
        "the held-out texts (different ones, or whole groups) and the new ones are drawn "
        "independently from one distribution, and the predictions come from something that was "
        "neither fitted nor chosen on the held-out texts, except for the choices listed under "
        "corrections."
    )
    needs_texts: ClassVar[tuple[str, ...]] = HeldOutCertificate.needs_texts

    n_repeated_errors: int = 0
    class_counts: dict = field(default_factory=dict)
    class_bounds: dict = field(default_factory=dict)
    balanced_bound: float | None = None
    answer_counts: dict = field(default_factory=dict)
    answer_bounds: dict = field(default_factory=dict)
    losses: dict = field(default_factory=dict)
    loss_bounds: dict = field(default_factory=dict)
    provenance: str = "checked"

    @property
    def error(self) -> float:
        """Fraction of the texts (or mean fraction in the groups) that have a wrong prediction."""
        if self.scope == "groups":
            return float(unpack_losses(self.losses["error"]).mean())
        return self.n_errors / self.n

    @property
    def observed(self) -> float:
        return self.error

    def recompute(self) -> dict[str, Any]:
        return joint_bounds(vars(self), self.delta_each)

    # ---- checks ------------------------------------------------------------------------------

    def _labels(self, model, y, n):
        return as_labels(y, n, "y")

    def _predictions(self, model, X, labels):
        if are_predictions(model):
            return as_labels(model, len(labels), "predictions")
        classes = classes_of(getattr(model, "estimator_", model), None, labels)
        return predict_any(model, classes, X).labels.tolist()

    def _measure(self, labels, predictions, clusters, group_of):
        names = {str(name): name for name in [*labels, *predictions]}
        recall, precision = (
            [names.get(name, name) for name in counts]
            for counts in (self.class_counts, self.answer_counts)
        )
        of_rows = {"clusters": clusters, "group_of": group_of}
        of_classes = {"recall": recall, "precision": precision}
        seed = self.seed or 0
        parts = count_errors(labels, predictions, seed=seed, **of_rows, **of_classes)
        # losses of probabilities are not measured again
        parts["losses"] = {**self.losses, **parts["losses"]}
        return parts

    def _never_checked(self):
        return [name for name in LARGEST_LOSS if name in self.losses]

    def _check(self) -> None:
        HeldOutCertificate._check(self)
        n_texts = self.n + (self.n_duplicates if self.scope == "groups" else 0)
        if self.n_errors > n_texts:
            self._refuse("n_errors", f"at most {n_texts}, the number of texts")
        if self.n_repeated_errors > self.n_duplicates:
            self._refuse("n_repeated_errors", f"at most {self.n_duplicates}, the further texts")
        if (self.scope == "groups") != ("error" in self.losses):
            self._refuse("losses", "those of each group exactly where scope is 'groups'")
        for name in self.losses:
            size = unpack_losses(self.losses[name]).size
            if name in ("error", *LARGEST_LOSS) and size != self.n:
                self._refuse("losses", f"{self.n} numbers for {name}, one for each of n")
        totals = self.n + self.n_duplicates, self.n_errors + self.n_repeated_errors
        for name in ("class_counts", "answer_counts"):
            counts = getattr(self, name)
            if not all(map(_are_counts, counts.values())):
                self._refuse(name, "[texts, errors] for each class, errors <= texts")
            for place, what in enumerate(("texts", "errors")):
                counted, total = _total(counts, place), totals[place]
                if counted > total:
                    self._refuse(name, f"at most {total} {what} in all")
                if self.balanced_bound is not None and name == "class_counts" and counted != total:
                    self._refuse(name, f"{what} that add up to {total}")

    # ---- words -------------------------------------------------------------------------------

    def sentence(self) -> str:
        confidence, bound = f"With {self.confidence} confidence", rounded_up(self.bound)
        counts = f"({self.n_errors:,} of {self.n:,} held-out texts were wrong: {self.error:.4f})."
        if self.scope == "groups":
            n_texts = self.n + self.n_duplicates
            return (
                f"{confidence}, the error rate on texts of new groups, as a mean over groups, is "
                f"at most {bound} (the mean over {self.n:,} held-out groups is {self.error:.4f}; "
                f"{self.n_errors:,} of their {n_texts:,} texts were wrong)."
            )
        if self.scope == "same groups":
            return (
                f"{confidence}, the error rate on new texts of the same {self.n_groups:,} groups "
                f"is at most {bound} {counts} This is NOT a guarantee for new groups: there are "
                "too few groups to hold any of them out."
            )
        return f"{confidence}, the error rate on new texts is at most {bound} {counts}"

    def repeated(self) -> str:
        if not self.n_duplicates or self.scope == "groups":
            return ""
        return (
            f"{self.n_duplicates:,} further texts repeat one of the {self.n:,}, almost or exactly. "
            "The bound holds for new texts that repeat as often, and for new texts that do not."
        )

    def details(self) -> list[tuple[str, str]]:
        rows = []
        if self.class_bounds:
            each = "; ".join(
                f"{name} at most {rounded_up(bound)} ({wrong:,} of {n:,})"
                for (name, bound), (n, wrong, *_) in zip(
                    self.class_bounds.items(), self.class_counts.values()
                )
            )
            mean = ""
            if self.balanced_bound is not None:
                mean = f" The mean over classes is at most {rounded_up(self.balanced_bound)}."
            rows.append(("Classes", f"{each}.{mean}"))
        if self.answer_bounds:
            each = "; ".join(
                f"{name} is right for at least {rounded_down(1 - bound)} ({n - wrong:,} of {n:,})"
                for (name, bound), (n, wrong, *_) in zip(
                    self.answer_bounds.items(), self.answer_counts.values()
                )
            )
            rows.append(("Precision", f"{each}."))
        for name in self._never_checked():
            observed = LARGEST_LOSS[name] * float(unpack_losses(self.losses[name]).mean())
            least = f" (probabilities below {MIN_PROBABILITY:g} count as this)"
            text = f"at most {rounded_up(self.loss_bounds[name])} (observed {observed:.4f})"
            rows.append((name, f"{text}{least if name == LOG_LOSS else ''}."))
        if rows:
            text = (
                f"all of this holds together with {self.confidence} confidence; half of delta is "
                "for the error rate, half for the rest."
            )
            rows.append(("Joint", text))
        return rows


def _are_counts(counts) -> bool:
    if not isinstance(counts, list | tuple) or len(counts) not in (2, 4):
        return False
    return all(map(is_count, counts)) and all(
        wrong <= n for n, wrong in zip(counts[::2], counts[1::2])
    )


def _total(counts, place) -> int:
    """All texts (place 0) or all errors (place 1) of these counts."""
    return sum(sum(each[place::2]) for each in counts.values())


def joint_bounds(parts: dict[str, Any], delta: float) -> dict[str, Any]:
    """All bounds of an `ErrorCertificate`; they hold together with probability 1 - delta.

    Where there is more than the error rate, that has half of delta and the others share the other
    half. Where there are losses of groups, they take the place of counts. `parts` is what
    `count_errors` returns; what is left out of it is empty.
    """
    totals = ("n", "n_errors", "n_duplicates", "n_repeated_errors")
    counts = [parts.get(name, 0) for name in totals]
    class_counts, answer_counts = parts.get("class_counts", {}), parts.get("answer_counts", {})
    losses = parts.get("losses", {})
    scores = [name for name in losses if name in LARGEST_LOSS]
    n_others = len(class_counts) + len(answer_counts) + len(scores)
    first = divide_delta(delta, fraction=0.5) if n_others else delta
    each = divide_delta(delta, 2, max(1, n_others))

    def bound(name, counts, delta):
        if name in losses:
            return betting(unpack_losses(losses[name]), delta, cap=BOLD)
        # [texts, errors], or [different texts, those with an error, further texts, further errors].
        # The limit of all texts holds where they are drawn independently, repetitions included,
        # that of different texts where these are, and repeat by accident: the larger one.
        n, wrong = sum(counts[::2]), sum(counts[1::2])
        return max(upper_limit(counts[1], counts[0], delta), upper_limit(wrong, n, delta))

    class_bounds = {c: bound(f"class {c}", pair, each) for c, pair in class_counts.items()}
    answer_bounds = {c: bound(f"answer {c}", pair, each) for c, pair in answer_counts.items()}
    all_classes = class_bounds and _total(class_counts, 0) == counts[0] + counts[2]
    return {
        "bound": bound("error", counts, first),
        "class_bounds": class_bounds,
        "balanced_bound": float(np.mean(list(class_bounds.values()))) if all_classes else None,
        "answer_bounds": answer_bounds,
        "loss_bounds": {name: LARGEST_LOSS[name] * bound(name, None, each) for name in scores},
    }


def count_errors(
    labels: list,
    predictions: list,
    *,
    seed: int,
    clusters: np.ndarray | None = None,
    group_of: np.ndarray | None = None,
    recall: Sequence = (),
    precision: Sequence = (),
    row_losses: dict[str, np.ndarray] | None = None,
) -> dict[str, Any]:
    """Counts and losses: the fields of `ErrorCertificate` that its bounds are computed from.

    Parameters
    ----------
    labels, predictions : list
    seed : int
        Of the order of losses.
    clusters, group_of : array of int, optional
        Of each text: `independence.dependent_clusters`, and the number of its group.
    recall, precision : classes
        Those whose texts, and whose predictions, are counted by themselves.
    row_losses : dict, optional
        Further losses in [0, 1] of each text, by name.
    """
    wrong = np.array([label != answer for label, answer in zip(labels, predictions)], bool)
    clusters = np.arange(wrong.size) if clusters is None else np.asarray(clusters)
    scope, n_groups = population(group_of)
    grouped = scope == "groups"
    if grouped:
        clusters = np.asarray(group_of)

    def counts(rows):
        """[clusters, those with an error, further texts, further errors]; of groups the texts."""
        if grouped:  # the bound is from the losses of groups
            return [int(rows.sum()), int(wrong[rows].sum())]
        _, cluster = np.unique(clusters[rows], return_inverse=True)
        n = int(cluster.max(initial=-1)) + 1
        n_wrong = int((np.bincount(cluster, wrong[rows], n) > 0).sum())
        n_further, n_further_wrong = int(rows.sum()) - n, int(wrong[rows].sum()) - n_wrong
        return [n, n_wrong, n_further, n_further_wrong] if n_further else [n, n_wrong]

    losses = {
        name: pack_losses(cluster_means(clusters, values, seed))
        for name, values in (row_losses or {}).items()
    }
    if grouped:
        losses["error"] = pack_losses(cluster_means(clusters, wrong, seed))
    of_class: dict[str, dict] = {"class": {}, "answer": {}}
    for kind, values, names in (("class", labels, recall), ("answer", predictions, precision)):
        for name in names:
            rows = np.array([value == name for value in values], bool)
            of_class[kind][str(name)] = counts(rows)
            if grouped and rows.any():
                means = cluster_means(clusters[rows], wrong[rows], seed)
                losses[f"{kind} {name}"] = pack_losses(means)
    n = np.unique(clusters).size
    total = [*counts(np.ones(wrong.size, bool)), 0, 0]
    return {
        "n": n,
        "n_errors": total[1],
        "n_duplicates": wrong.size - n,
        "n_repeated_errors": total[3],
        "class_counts": of_class["class"],
        "answer_counts": of_class["answer"],
        "losses": losses,
        "scope": scope,
        "n_groups": n_groups,
    }


def error_certificate(
    labels: list,
    predictions: list,
    *,
    delta: float = 0.05,
    n_candidates: int = 1,
    seed: int | None = None,
    fields: dict[str, Any] | None = None,
    **counted: Any,
) -> ErrorCertificate:
    """The certificate of predictions: `counted` are arguments of `count_errors`.

    `fields` are further ones: provenance, holdout, digests, scope and n_groups. Without a seed one
    is drawn.
    """
    seed = as_seed(seed)
    parts = count_errors(labels, predictions, seed=seed, **counted)
    return ErrorCertificate.from_parts(
        **{**parts, **(fields or {})},
        delta=check_probability("delta", delta),
        seed=seed,
        corrections=candidates(n_candidates),
    )


def candidates(n_candidates: int) -> dict[str, int]:
    """The corrections of a certificate for a choice among this many candidates."""
    check_count("n_candidates", n_candidates)
    return {"candidates": int(n_candidates)} if n_candidates > 1 else {}
