"""The certificate of a classifier, or of anybody's predictions: how often they are wrong."""

from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from pacsent.classify.inputs import as_labels
from pacsent.guarantees.any_estimator import asked, classes_of
from pacsent.guarantees.encoder_certificate import unpacked_losses
from pacsent.guarantees.evidence import BRIER, LARGEST, LEAST_PROBABILITY, LOG_LOSS, evidence_of
from pacsent.guarantees.held_out_certificate import HeldOutCertificate
from pacsent.maths.binomial import upper_limit
from pacsent.maths.checks import is_count
from pacsent.maths.means import BOLD, betting
from pacsent.maths.rounding import rounded_down, rounded_up


@dataclass(frozen=True, kw_only=True)
class ErrorCertificate(HeldOutCertificate):
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
    n_errors: int
    n_repeated_errors: int = 0
    class_counts: dict = field(default_factory=dict)
    class_bounds: dict = field(default_factory=dict)
    balanced_bound: float | None = None
    answer_counts: dict = field(default_factory=dict)
    answer_bounds: dict = field(default_factory=dict)
    losses: dict = field(default_factory=dict)
    loss_bounds: dict = field(default_factory=dict)
    provenance: str = "checked"

    # ---- the numbers -------------------------------------------------------------------------

    @property
    def error(self) -> float:
        """Share of the texts (or mean share in the groups) that have a wrong prediction."""
        if self.scope == "groups":
            return float(unpacked_losses(self.losses["error"]).mean())
        return self.n_errors / self.n

    observed = error

    def recompute(self) -> dict[str, Any]:
        return joint_bounds(vars(self), self.delta_each)

    def _true(self, model, y, n):
        return as_labels(y, n, "y")

    def _said(self, model, X, true):
        if isinstance(model, (list, tuple)) or hasattr(model, "tolist"):
            return as_labels(model, len(true), "predictions")
        classes = classes_of(getattr(model, "estimator_", model), None, true)
        return asked(model, X, classes).labels.tolist()

    def _counted(self, true, said, units, group_of):
        names = {str(name): name for name in [*true, *said]}
        recall, precision = (
            [names.get(name, name) for name in counts]
            for counts in (self.class_counts, self.answer_counts)
        )
        found = evidence_of(
            true, said, seed=self.seed or 0, units=units, group_of=group_of, recall=recall,
            precision=precision,
        )  # fmt: skip
        # losses of probabilities are not counted again
        found["losses"] = {**self.losses, **found["losses"]}
        return found

    def _beyond(self):
        return [name for name in (BRIER, LOG_LOSS) if name in self.losses]

    def _check(self) -> None:
        super()._check()
        n_texts = self.n + (self.n_duplicates if self.scope == "groups" else 0)
        if self.n_errors > n_texts:
            self._refuse("n_errors", f"at most {n_texts}, the number of texts")
        if self.n_repeated_errors > self.n_duplicates:
            self._refuse("n_repeated_errors", f"at most {self.n_duplicates}, the further texts")
        for name in ("class_counts", "answer_counts"):
            if not all(map(_is_counts, getattr(self, name).values())):
                self._refuse(name, "[texts, errors] for each class, errors <= texts")
        if (self.scope == "groups") != ("error" in self.losses):
            self._refuse("losses", "those of each group exactly where scope is 'groups'")
        for name in self.losses:
            size = unpacked_losses(self.losses[name]).size
            if name in ("error", BRIER, LOG_LOSS) and size != self.n:
                self._refuse("losses", f"{self.n} numbers for {name}, one for each of n")
        totals = self.n + self.n_duplicates, self.n_errors + self.n_repeated_errors
        for name in ("class_counts", "answer_counts"):
            for place, total in enumerate(totals):
                found, what = _total(getattr(self, name), place), ("texts", "errors")[place]
                if found > total:
                    self._refuse(name, f"at most {total} {what} in all")
                if self.balanced_bound is not None and name == "class_counts" and found != total:
                    self._refuse(name, f"{what} that add up to {total}")

    # ---- words -------------------------------------------------------------------------------

    def sentence(self) -> str:
        sure, most = f"With {self.confidence} confidence", rounded_up(self.bound)
        seen = f"({self.n_errors:,} of {self.n:,} held-out texts were wrong: {self.error:.4f})."
        if self.scope == "groups":
            n_texts = self.n + self.n_duplicates
            return (
                f"{sure}, the error rate on texts of new groups, as a mean over groups, is at most "
                f"{most} (the mean over {self.n:,} held-out groups is {self.error:.4f}; "
                f"{self.n_errors:,} of their {n_texts:,} texts were wrong)."
            )
        if self.scope == "same groups":
            return (
                f"{sure}, the error rate on new texts of the same {self.n_groups:,} groups is at "
                f"most {most} {seen} This is NOT a guarantee for new groups: there are too few "
                "groups to hold any of them out."
            )
        return f"{sure}, the error rate on new texts is at most {most} {seen}"

    def rows(self) -> list[tuple[str, str]]:
        rows = []
        if self.class_bounds:
            each = _listed(self.class_bounds, self.class_counts)
            mean = ""
            if self.balanced_bound is not None:
                mean = f" The mean over classes is at most {rounded_up(self.balanced_bound)}."
            rows.append(("Classes", f"{each}.{mean}"))
        if self.answer_bounds:
            each = "; ".join(
                f"{name} is right for at least {rounded_down(1 - bound)} ({_right(pair)})"
                for (name, bound), pair in zip(
                    self.answer_bounds.items(), self.answer_counts.values()
                )
            )
            rows.append(("Precision", f"{each}."))
        for name, bound in self.loss_bounds.items():
            if name in (BRIER, LOG_LOSS):
                largest = LARGEST.get(name, 1.0)
                seen = largest * float(unpacked_losses(self.losses[name]).mean())
                least = f" (probabilities below {LEAST_PROBABILITY:g} count as this)"
                rows.append((name, f"at most {rounded_up(bound)} (observed {seen:.4f})"
                             f"{least if name == LOG_LOSS else ''}."))  # fmt: skip
        n_bounds = 1 + sum(map(len, (self.class_bounds, self.answer_bounds, self.loss_bounds)))
        if n_bounds > 1:
            rows.append(("Joint", f"all of this holds together with {self.confidence} confidence; "
                         "half of delta is for the error rate, half for the rest."))  # fmt: skip
        if self.n_duplicates and self.scope != "groups":
            rows.append(("Duplicates", f"{self.n_duplicates:,} further texts repeat one of the "
                         f"{self.n:,}, almost or exactly. The bound holds for new texts that "
                         "repeat as often, and for new texts that do not."))  # fmt: skip
        return [*rows, *self.origin()]


def _is_counts(pair) -> bool:
    if (
        not isinstance(pair, list | tuple)
        or len(pair) not in (2, 4)
        or not all(map(is_count, pair))
    ):
        return False
    return all(wrong <= n for n, wrong in zip(pair[::2], pair[1::2]))


def _four(pair) -> list[int]:
    """[texts, errors, further texts, further errors] of a pair without the latter."""
    return [*pair, 0, 0][:4]


def _total(counts, place) -> int:
    """All texts (place 0) or all errors (place 1) of these counts."""
    return sum(pair[place] + pair[place + 2] for pair in map(_four, counts.values()))


def _listed(bounds, counts):
    return "; ".join(
        f"{name} at most {rounded_up(bound)} ({pair[1]:,} of {pair[0]:,})"
        for (name, bound), pair in zip(bounds.items(), counts.values())
    )


def _right(pair):
    return f"{pair[0] - pair[1]:,} of {pair[0]:,}"


def share_bound(counts: Any, delta: float) -> float:
    """Clopper-Pearson's upper limit on an error rate, where some texts may repeat others.

    `counts` are [texts, errors], or [different texts, those with an error, further texts, further
    errors]. The larger of two limits: that of all texts holds where texts are drawn independently,
    repetitions included; that of different texts where these are, and repeat by accident.

    Examples
    --------
    >>> round(share_bound([200, 20], 0.05), 4)
    0.142
    >>> share_bound([100, 10, 100, 10], 0.05) > share_bound([200, 20], 0.05)
    True
    """
    n, wrong, more, more_wrong = _four(counts)
    return max(upper_limit(wrong, n, delta), upper_limit(wrong + more_wrong, n + more, delta))


def joint_bounds(evidence: Any, delta: float) -> dict[str, Any]:
    """All bounds of an `ErrorCertificate`; they hold together with probability 1 - delta.

    Where there is more than the error rate, that has half of delta and the others share the other
    half. Where there are losses of groups, they take the place of counts. `evidence` is what
    `evidence_of` returns; what is left out of it is empty.

    >>> found = joint_bounds({"n": 200, "n_errors": 20}, 0.05)
    >>> round(found["bound"], 4), found["class_bounds"], found["balanced_bound"]
    (0.142, {}, None)
    """
    names = ("n", "n_errors", "n_duplicates", "n_repeated_errors")
    counts = [evidence.get(name, 0) for name in names]
    kept = ("class_counts", "answer_counts", "losses")
    class_counts, answer_counts, losses = (evidence.get(name, {}) for name in kept)
    means = [name for name in losses if name in (BRIER, LOG_LOSS)]
    n_others = len(class_counts) + len(answer_counts) + len(means)
    first, share = (delta / 2, delta / (2 * n_others)) if n_others else (delta, delta)

    def bound(name, pair, delta):
        if name in losses:
            return betting(unpacked_losses(losses[name]), delta, cap=BOLD)
        return share_bound(pair, delta)

    of_classes = {c: bound(f"class {c}", pair, share) for c, pair in class_counts.items()}
    of_answers = {c: bound(f"answer {c}", pair, share) for c, pair in answer_counts.items()}
    all_classes = of_classes and _total(class_counts, 0) == counts[0] + counts[2]
    return {
        "bound": bound("error", counts, first),
        "class_bounds": of_classes,
        "balanced_bound": float(np.mean(list(of_classes.values()))) if all_classes else None,
        "answer_bounds": of_answers,
        "loss_bounds": {m: LARGEST.get(m, 1.0) * bound(m, None, share) for m in means},
    }
