"""The certificate of a classifier, or of anybody's predictions: how often they are wrong."""

from abc import abstractmethod
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from pacsent.bounds.binomial import batch_limit, upper_limit
from pacsent.bounds.checks import are_counts, check_count, check_probability, is_count
from pacsent.bounds.delta import divide_delta
from pacsent.bounds.means import betting
from pacsent.bounds.rounding import interval, rounded_down, rounded_up
from pacsent.certify import independence, samples
from pacsent.certify.certificate import CountCertificate, RepeatsCertificate, Verified, theorem_1
from pacsent.certify.columns import as_groups, quote
from pacsent.certify.judges import (
    CONDITION,
    as_judged,
    count_judged,
    judge_bounds,
    judge_warnings,
    n_judge_statements,
)
from pacsent.certify.labels import as_labels, classes_of
from pacsent.certify.repeats import COPIES, NEW_TEXTS, SAME, TRAFFIC, check_repeats
from pacsent.storage.tensor_files import pack_losses, unpack_losses
from pacsent.text.rows import rows_with_text, select_values

SCOPES = ("texts", "groups", "same groups")
_STATEMENTS = "statements"  # in `corrections`: all that a certificate with a judge states
_MAX_BATCH_SIZE = 10**9  # of more texts the bound is that for new ones, to nine digits


@dataclass(frozen=True, kw_only=True)
class HeldOutCertificate(RepeatsCertificate):
    """A guarantee about one model, or one set of predictions, from rows that were held out.

    Attributes
    ----------
    scope : {"texts", "groups", "same groups"}
        What new texts are: of the same distribution; of new groups; or of the groups at hand only.
    n_groups : int
        Number of groups where scope is "same groups".
    random_state, calibration_size : int, float or None
        The seed that decides which texts were held out, and the order of losses; their fraction.
    digests : dict
        SHA-256 of the model, texts, labels and predictions, as far as they are known.
    """

    condition: ClassVar[str] = (
        "the model was neither fitted nor selected on these texts (corrections cover a selection)."
    )
    needs_texts: ClassVar[tuple[str, ...]] = (
        "n_duplicates",
        "random_state",
        "calibration_size",
        "digests",
        "provenance",
    )

    scope: str = "texts"
    n_groups: int = 0
    random_state: int | None = None
    calibration_size: float | None = None
    digests: dict = field(default_factory=dict)

    def verify(
        self,
        model: Any = None,
        X: Any = None,
        y: Any = None,
        *,
        groups: Any = None,
        judge: Any = (),
    ) -> Verified:
        """Check that the certificate fits itself, and the model and texts if they are given.

        Alone: that all fields are possible and that the bounds follow from the counts. With the
        model, the texts and the labels: that the counts, the digests and what was held out follow
        from them.

        Parameters
        ----------
        model : classifier, or predictions, optional
        X : sequence, optional
            The texts that were certified, or all that were given to `fit`, in their order.
        y : sequence, optional
            The right label, or set of labels, of each.
        groups : sequence, optional
            The group of each, if the certificate is about groups.
        judge : pair, optional
            (judge, unlabelled), those that `certify_predictions` was given.

        Returns
        -------
        Verified
            What was checked, and what could not be.

        Raises
        ------
        ValueError
            If something does not fit; the message names it.
        """
        verified = super().verify()
        is_missing = [value is None for value in (model, X, y)]
        if all(is_missing):
            return verified
        if any(is_missing):
            raise ValueError("model, X and y must be given together. Got some of them only.")

        X = samples.samples_for(model, X)
        n = samples.n_samples(X)
        labels = self._labels(model, y, n)
        group_of = as_groups(groups, n)
        with_text = rows_with_text(X)
        if with_text is not None:
            n = with_text.size
            X = samples.select_rows(X, with_text)
            labels = select_values(labels, with_text)
            group_of = select_values(group_of, with_text)
            if judge:
                judge = (select_values(judge[0], with_text), judge[1])
            if samples.are_predictions(model):
                model = select_values(model, with_text)

        rows, drawn = self._certified_rows(model, X, group_of)
        has_all_rows = len(rows) == n
        certified_X = X if has_all_rows else samples.select_rows(X, rows)
        labels = samples.select_rows(labels, rows)
        predictions = self._predictions(model, certified_X, labels)
        self._check_digests(model, certified_X, labels, predictions)

        new_groups = None
        if group_of is not None and self.scope == "groups":
            new_groups = group_of[rows]
        parts = self._count_again(labels, predictions, certified_X, new_groups, drawn)
        if self.scope == "same groups" and group_of is not None:
            parts |= {"scope": self.scope, "n_groups": np.unique(group_of).size}
        if judge:
            judged = as_judged(judge[0], judge[1], n)
            parts |= count_judged(labels, predictions, judged)
        for name, value in parts.items():
            self._must_equal(name, value)
        is_own = getattr(model, "certificate_", None) == self
        if is_own:
            model._check_calibration(certified_X, labels, new_groups, drawn)

        unchecked = self._unchecked(
            model,
            has_all_rows=has_all_rows,
            has_judge=bool(judge),
            has_own_calibration=is_own,
        )
        checked = "the counts follow from the texts and the model, and the bounds from the counts"
        return Verified(checked, ", ".join(unchecked))

    def _unchecked(
        self, model: Any, *, has_all_rows: bool, has_judge: bool, has_own_calibration: bool
    ) -> list[str]:
        """The fields and conditions that `verify` could not check with what it was given."""
        has_batch = getattr(self, "batch_size", None) is not None
        has_calibration = hasattr(model, "calibration_")

        unchecked = {
            "provenance, labels corrected after predictions, choices beyond corrections": True,
            "calibration_size": self.calibration_size is not None and has_all_rows,
            "batch_size": has_batch and not has_judge,
            "whether these texts were certified": self.digests.get("texts") is None,
            "the calibration set": has_calibration and not has_own_calibration,
            "the model beyond its predictions": "model" not in self.digests,
            "the labels beyond their counts": "labels" not in self.digests,
            "the predictions beyond their counts": "predictions" not in self.digests,
            "the random number of abstention": getattr(model, "randomized_tests", False) is True,
        }
        return [name for name, applies in unchecked.items() if applies]

    def _certified_rows(
        self, model: Any, X: Any, group_of: np.ndarray | None
    ) -> tuple[np.ndarray, dict[str, np.ndarray] | None]:
        """The rows of X that were certified, and those of each sample where not all are in it.

        X are these texts, or all that were given to `fit`; a ValueError where it is neither.
        """
        every_row = np.arange(samples.n_samples(X))
        texts_digest = self.digests.get("texts")
        if texts_digest is None or samples.digest(X) == texts_digest:
            if texts_digest is not None and self.other and self.calibration_size is not None:
                raise ValueError(
                    "X must be all texts that were given to fit, in their order, where texts "
                    "repeat: which of the held-out ones count follows from them. Got the held-out "
                    "ones instead."
                )
            return every_row, None

        drawn = None
        if self.calibration_size is not None and self.random_state is not None:
            split = independence.hold_out(
                independence.dependent_clusters(X),
                self.calibration_size,
                self.random_state,
                group_of,
                repeats=self.repeats,
                cluster_rows=independence.cluster_rows_of(X),
            )
            rows = split.held_out_rows
            drawn = split.positions() if self.other else None
        else:
            is_seen = np.logical_or(*samples.seen_before(model, X))
            rows = np.flatnonzero(~is_seen)
        own_digest = samples.digest(samples.select_rows(X, rows))
        if own_digest != texts_digest:
            raise ValueError(
                f"X must be the texts that were certified (SHA-256 {texts_digest[:12]}...), or "
                "those that were given to fit, in their order and with their groups. Got texts of "
                f"which {rows.size:,} of {every_row.size:,} are held out, with SHA-256 "
                f"{own_digest[:12]}..., instead."
            )
        return rows, drawn

    def _check_digests(self, model: Any, X: Any, labels: Any, predictions: Any) -> None:
        """Refuse what is not, byte for byte, what was certified, as far as this is recorded."""
        own_model = None if samples.are_predictions(model) else model
        own_digests = samples.digests(own_model, X, labels, predictions)
        for name, stated in self.digests.items():
            if stated != own_digests.get(name):
                raise ValueError(
                    f"The {name} must be what was certified (SHA-256 {stated[:12]}...). Got "
                    "something else instead: the certificate is not about this."
                )

    def _count_again(
        self,
        labels: Any,
        predictions: Any,
        X: Any,
        new_groups: np.ndarray | None,
        drawn: dict[str, np.ndarray] | None,
    ) -> dict[str, Any]:
        """The fields that follow from the certified rows, of all samples."""
        n = samples.n_samples(X)
        clusters = np.arange(n)
        if "texts" in self.digests and not getattr(self, "batch_size", None):
            clusters = independence.dependent_clusters(X)

        draws = independence.independent_draws(
            n, clusters, new_groups, self.random_state or 0, self.repeats, drawn
        )
        parts_of_samples = {
            name: self._measure(labels, predictions, draws, name) for name in draws.samples
        }
        if set(parts_of_samples) != set(self.samples):
            names = " and ".join(map(repr, parts_of_samples))
            self._refuse("sample", f"that of these texts: {names}")

        parts = parts_of_samples.pop(self.sample)
        for other_parts in parts_of_samples.values():
            parts["other"] = {name: other_parts[name] for name in self.counted}
        return parts

    @staticmethod
    @abstractmethod
    def count(*counted: Any, **options: Any) -> dict[str, Any]:
        """The fields that the bounds of one sample are computed from: `count_errors` and alike."""

    @abstractmethod
    def _labels(self, model: Any, y: Any, n: int) -> Any:
        """The right label or labels of each of n rows, as they were counted."""

    @abstractmethod
    def _predictions(self, model: Any, X: Any, labels: Any) -> Any:
        """The model's predictions for these rows; `model` may be the predictions themselves."""

    @abstractmethod
    def _measure(
        self, labels: Any, predictions: Any, draws: independence.Draws, sample: str
    ) -> dict[str, Any]:
        """The fields that the bounds of one sample are computed from."""

    def _check(self) -> None:
        super()._check()
        if self.scope not in SCOPES:
            self._refuse("scope", f"one of {SCOPES}")
        if (self.scope == "same groups") != (self.n_groups > 0):
            self._refuse("n_groups", "positive exactly where scope is 'same groups'")
        if not all(isinstance(digest, str) for digest in self.digests.values()):
            self._refuse("digests", "SHA-256 of each thing, as text")

    def repeated(self) -> str:
        return "" if self.scope == "groups" else super().repeated()

    def describe_search(self) -> str:
        """A sentence where only equal rows are known to repeat; empty elsewhere."""
        if independence.NOT_SEARCHED not in self.provenance:
            return ""
        return " Near-copies of rows were not looked for."

    def origin(self) -> str:
        seed = "" if self.random_state is None else f" The seed is {self.random_state}."
        if self.calibration_size is not None:
            seed = f" A fraction of {self.calibration_size:g} was held out.{seed}"
        return (
            f"{self.provenance}.{seed} Not checked: whether new texts come from the same "
            "distribution (DriftMonitor can detect a difference, not exclude one)."
        )


@dataclass(frozen=True, kw_only=True)
class ErrorCertificate(HeldOutCertificate, CountCertificate):
    """Upper bounds on how often one classifier, or whoever predicted, is wrong on new texts.

    `n` counts independent examples: rows, repeats included; near-duplicate clusters, of each of
    which one text is drawn by the seed; or groups. All bounds hold together with probability 1 -
    delta: where there is more than `error_upper`, it has half of delta, and all others share the
    other half. Only what a judge adds holds each by itself, unless `corrections` names the number
    of statements.

    Attributes
    ----------
    n_errors : int
        Wrong predictions among the n texts; of groups, among all their texts.
    n_duplicates : int
        Texts that repeat another one, almost or exactly, or belong to the same group; of rows with
        repeats included they are among the n, else they are not.
    class_counts, class_error_upper : dict
        Per class: [texts of the class, errors] and the bound on its error rate, 1 - recall.
        `balanced_error_upper` is the mean of the bounds of all classes that occur, if each has one.
    prediction_counts, prediction_error_upper : dict
        Per predicted class: the same for the texts with this prediction, which is 1 - precision.
    guess_counts : dict
        The most frequent class: [texts, errors if it was always predicted].
    losses : dict
        Of groups: the fraction of errors in each, packed, for every bound.
    batch_size : int or None
        Number of texts of the batch from which the n were drawn: the bound is about these alone.
    judge_counts, judge_class_counts : dict
        Where a judge disagrees and agrees with the predictions: [rows, labelled rows, errors]. Per
        class: [rows judged so, labelled ones among them, labelled rows of it, both].
    judge_rates, new_error_upper : dict, float or None
        Intervals of the judge's rates and the classes' frequency; the bound for new texts.
    scope, n_groups, random_state, calibration_size, digests : see `HeldOutCertificate`

    >>> certificate = ErrorCertificate.from_parts(delta=0.05, n=80, n_errors=5)
    >>> certificate.error < certificate.error_upper < 0.13
    True
    """

    kind: ClassVar[str] = "error"
    counted: ClassVar[tuple[str, ...]] = (
        "n",
        "n_errors",
        "n_duplicates",
        "class_counts",
        "prediction_counts",
        "guess_counts",
    )
    needs_texts = (*HeldOutCertificate.needs_texts, "guess_counts", "batch_size")

    class_counts: dict = field(default_factory=dict)
    class_error_upper: dict = field(default_factory=dict)
    balanced_error_upper: float | None = None
    prediction_counts: dict = field(default_factory=dict)
    prediction_error_upper: dict = field(default_factory=dict)
    guess_counts: dict = field(default_factory=dict)
    losses: dict = field(default_factory=dict)
    batch_size: int | None = None
    judge_counts: dict = field(default_factory=dict)
    judge_class_counts: dict = field(default_factory=dict)
    judge_rates: dict = field(default_factory=dict)
    new_error_upper: float | None = None
    provenance: str = "checked"

    @property
    def assumption(self) -> str:  # type: ignore[override]
        """When the bound is valid: a batch must be sampled, new texts must be like those given."""
        if self.batch_size is None:
            return super().assumption
        judge = ", and no label of the judge was made with them" if self.judge_counts else ""
        return (
            "the labelled texts were drawn from the batch at random, and the model was neither "
            f"fitted nor selected on their labels (corrections cover a selection){judge}."
        )

    @property
    def error(self) -> float:
        """Fraction of the texts (or mean fraction in the groups) that have a wrong prediction."""
        if self.scope == "groups":
            losses = unpack_losses(self.losses["error"])  # (n_groups,)
            return float(losses.mean())
        return self.n_errors / self.n

    observed = error

    def recompute(self) -> dict[str, Any]:
        bounds = RepeatsCertificate.recompute(self)
        return bounds | judge_bounds(vars(self), self.delta_each)

    def _bounds(self, parts: Mapping[str, Any]) -> dict[str, Any]:
        return joint_bounds(parts, self.delta_each)

    @staticmethod
    def count(*counted: Any, **options: Any) -> dict[str, Any]:
        """Count texts and errors, in total, by class and by group.

        Parameters
        ----------
        *counted, **options
            As `count_errors` takes them.

        Returns
        -------
        dict
            Fields of the certificate that its bounds are computed from.
        """
        return count_errors(*counted, **options)

    def _labels(self, model: Any, y: Any, n: int) -> list:
        return as_labels(y, n, "y")

    def _predictions(self, model: Any, X: Any, labels: list) -> list:
        if samples.are_predictions(model):
            return as_labels(model, len(labels), "predictions")
        classes = getattr(model, "fitted_classes_", None)
        if classes is None:
            classes = classes_of(model, None, labels)
        return samples.predict_any(model, classes, X).labels.tolist()

    def _measure(
        self, labels: list, predictions: list, draws: independence.Draws, sample: str
    ) -> dict[str, Any]:
        # The certificate has the classes as text: the classes themselves are found by it.
        class_of_name = {str(label): label for label in [*labels, *predictions]}
        recall = [class_of_name.get(name, name) for name in self.class_counts]
        precision = [class_of_name.get(name, name) for name in self.prediction_counts]
        return self.count(
            labels,
            predictions,
            draws,
            sample,
            seed=self.random_state or 0,
            recall=recall,
            precision=precision,
        )

    def _check(self) -> None:
        HeldOutCertificate._check(self)
        self._check_totals()
        self._check_judge()
        self._check_losses()
        for name in ("class_counts", "prediction_counts", "guess_counts"):
            self._check_counts(name)

    @property
    def _n_texts(self) -> int:
        """Texts whose errors are counted: of groups, all of their texts."""
        if self.scope == "groups":
            return self.n + self.n_duplicates
        return self.n

    def _check_totals(self) -> None:
        if self.n_errors > self._n_texts:
            self._refuse("n_errors", f"at most {self._n_texts}, the number of texts")
        if self.batch_size is not None and not is_count(self.batch_size, least=self.n):
            self._refuse("batch_size", f"at least {self.n}, the number of labelled texts")

    def _check_judge(self) -> None:
        totals = [self.batch_size, self.n, self.n_errors]
        if not _are_judge_counts(list(self.judge_counts.values()), totals):
            self._refuse("judge_counts", f"possible counts of rows, {totals} in all")

        totals = [self.batch_size, self.n, self.n]
        if not _are_judge_class_counts(list(self.judge_class_counts.values()), totals):
            self._refuse("judge_class_counts", f"possible counts of rows, {totals} in all")

        if set(self.judge_counts) not in (set(), {"agree", "disagree"}):
            self._refuse("judge_counts", "those of rows that agree and disagree")

        n_statements = n_judge_statements(self.judge_class_counts)
        if self.corrections.get(_STATEMENTS, n_statements) != n_statements:
            self._refuse("corrections", f"for {n_statements} statements, as many as there are")

    def _check_losses(self) -> None:
        if (self.scope == "groups") != ("error" in self.losses):
            self._refuse("losses", "those of each group exactly where scope is 'groups'")
        if self.losses:
            losses = unpack_losses(self.losses["error"])
            if losses.size != self.n:
                self._refuse("losses", f"{self.n} numbers for the error, one for each group")

    def _check_counts(self, name: str) -> None:
        """Refuse impossible [texts, errors] of classes, of predictions, or of the guess."""
        counts = list(getattr(self, name).values())
        if not all(are_counts(pair, 2) and pair[1] <= pair[0] for pair in counts):
            self._refuse(name, "[texts, errors] for each class, errors <= texts")

        n = sum(n for n, _ in counts)
        n_errors = sum(n_errors for _, n_errors in counts)
        is_guess = name == "guess_counts"
        if n > self._n_texts or (n_errors > self.n_errors and not is_guess):
            self._refuse(name, f"at most {self._n_texts} texts and {self.n_errors} errors in all")
        if is_guess and counts and n != self._n_texts:
            self._refuse(name, f"of all {self._n_texts} texts")

        has_all_classes = name == "class_counts" and self.balanced_error_upper is not None
        if has_all_classes and n_errors != self.n_errors:
            self._refuse(name, f"errors that add up to {self.n_errors}")

    def summary(self) -> str:
        population = self._describe_population()
        counts = self._describe_counts()
        for name, (n, n_errors) in self.guess_counts.items():
            counts += f"; always answering {quote(name)}: {n_errors / n:.4f}"
        return (
            f"With {self.confidence} confidence, the error rate on {population} is at most "
            f"{rounded_up(self.error_upper)} ({counts}).{self._describe_conditions()}"
        )

    def _describe_population(self) -> str:
        """The texts that the bound is about."""
        if self.scope == "groups":
            population = "texts of new groups, as a mean over groups,"
        elif self.scope == "same groups":
            population = f"new texts of the same {self.n_groups:,} groups"
        else:
            population = NEW_TEXTS[self.repeats]
            if self.batch_size is not None:
                return f"this batch of {self.batch_size:,} texts"
        if self.provenance.startswith("omitted"):
            population += " that are not near-duplicates of texts it was fitted on"
        return population

    def _describe_counts(self) -> str:
        """The observed error, and the counts that it comes from."""
        is_checked = not self.provenance.startswith(("not checked", "given"))
        kind = "held-out" if is_checked else "given"
        if self.scope == "groups":
            return (
                f"the mean over {self.n:,} {kind} groups is {self.error:.4f}; {self.n_errors:,} of "
                f"their {self._n_texts:,} texts were wrong"
            )
        unit = {SAME: "texts", TRAFFIC: "rows", COPIES: "distinct texts"}[self.sample]
        return f"{self.n_errors:,} of {self.n:,} {kind} {unit} were wrong: {self.error:.4f}"

    def _describe_conditions(self) -> str:
        """Sentences about the conditions of the bound and its limits; each begins with a space."""
        note = ""
        if self.scope == "same groups":
            note = " This is NOT a guarantee for new groups: there are too few to hold any out."
        elif self.scope == "texts" and self.batch_size is not None:
            note = " This holds if the labelled texts were drawn from the batch at random"
            if self.judge_counts:
                note += (
                    " and no label of the judge, however bad it is, was made with their labels."
                    f"{judge_warnings(self.judge_counts, self.judge_class_counts)}"
                )
            else:
                note += "."

        note += self.describe_repeats()
        note += self.describe_search()
        if CONDITION in self.provenance:
            note += f" It is {CONDITION}."
        return note

    def statements(self) -> list[tuple[str, str]]:
        classes = self._class_statements()
        answers = self._precision_statements()
        are_joint = bool(classes or answers or _STATEMENTS in self.corrections)
        together = []
        if are_joint:
            together = [f"all of this holds together with {self.confidence} confidence"]

        lists = {"Classes": classes, "Precision": answers, "Joint": together}
        if self.judge_counts:
            by_itself = "" if are_joint else f" (by itself, with {self.confidence} confidence)"
            n_rows, n_labelled, n_wrong = self.judge_counts["disagree"]
            accuracy = interval(self.judge_rates["accuracy"])
            lists["Judge"] = [
                f"disagrees with {n_rows:,} predictions, {n_wrong:,} of {n_labelled:,} labelled "
                "ones wrong",
                f"right for {accuracy} of texts{by_itself}",
            ]
            new_error = rounded_up(self.new_error_upper or 1.0)
            lists["New texts"] = [
                f"at most {new_error} are wrong if the rows of the batch, repeats included, and "
                f"new rows are drawn independently from one distribution{by_itself}"
            ]
        return [(title, f"{'; '.join(texts)}.") for title, texts in lists.items() if texts]

    def _class_statements(self) -> list[str]:
        """A phrase about the error of each class, and one about their mean."""
        phrases = []
        for name in self.class_counts:
            n, n_wrong = self._counts_of("class", name)
            error = "has no text here"
            if n:
                limit = rounded_up(self.class_error_upper[name])
                error = f"at most {limit} ({n_wrong:,} of {n:,})"
            phrases.append(f"{name} {error}")

        if self.balanced_error_upper is not None:
            mean_error = rounded_up(self.balanced_error_upper)
            phrases.append(f"the mean over classes with texts at most {mean_error}")
        return phrases

    def _tables(self) -> dict[str, list[tuple[str, ...]]]:
        # Headers of two lines leave 54 of 80 characters for names.
        classes: list[tuple[str, ...]] = [
            ("", "error rate", "", ""),
            ("class", "at most", "wrong", "texts"),
        ]
        for name in self.class_counts:
            n, n_wrong = self._counts_of("class", name)
            limit = rounded_up(self.class_error_upper[name]) if n else "-"
            classes.append((name, limit, f"{n_wrong:,}", f"{n:,}"))
        if self.balanced_error_upper is not None:
            mean_error = rounded_up(self.balanced_error_upper)
            classes.append(("mean over classes with texts", mean_error, "", ""))

        predictions: list[tuple[str, ...]] = [
            ("", "precision", "", ""),
            ("prediction", "at least", "right", "texts"),
        ]
        for name in self.prediction_counts:
            n, n_wrong = self._counts_of("prediction", name)
            precision = rounded_down(1 - self.prediction_error_upper[name])
            predictions.append((name, precision, f"{n - n_wrong:,}", f"{n:,}"))

        tables = {}
        if self.class_counts:
            tables["Classes"] = classes
        if self.prediction_counts:
            tables["Precision"] = predictions
        return tables

    def _precision_statements(self) -> list[str]:
        """A phrase about the precision of each predicted class."""
        phrases = []
        for name in self.prediction_counts:
            n, n_wrong = self._counts_of("prediction", name)
            n_right = n - n_wrong
            precision = rounded_down(1 - self.prediction_error_upper[name])
            phrases.append(f"{name} is right for at least {precision} ({n_right:,} of {n:,})")
        return phrases

    def _counts_of(self, kind: str, name: str) -> list[int]:
        """[texts, errors] of a class or a prediction, in the sample with the larger bound."""
        bounds = {}
        for sample, bounds_of_sample in self.bounds_of_samples().items():
            bounds[sample] = bounds_of_sample[f"{kind}_error_upper"][name]
        weakest_sample = max(bounds, key=bounds.__getitem__)
        return self.samples[weakest_sample][f"{kind}_counts"][name]

    def measurements(self) -> list[tuple[str, str]]:
        are_joint = _STATEMENTS in self.corrections
        by_itself = "" if are_joint else f" (each by itself, with {self.confidence} confidence)"
        rows = []
        for name, limits in self.judge_rates.items():
            if name == "accuracy":  # among the statements
                continue
            intervals = [f"{label} {interval(pair)}" for label, pair in limits.items()]
            text = "; ".join(intervals)
            rows.append((name.capitalize(), f"{text}{by_itself}."))
        if self.batch_size is not None:
            return rows

        # where there are further bounds, the error has half of delta
        delta = self.delta_each
        if self.class_counts or self.prediction_counts:
            delta = divide_delta(delta, fraction=0.5)
        bound_name = "the betting bound" if self.losses else "the exact binomial bound"
        text = theorem_1(self.error, self.n, delta, self.error_upper, bound_name)
        rows.append(("Theorem 1 of Nozawa and Sato", text))
        return rows


def _are_judge_counts(rows: list, totals: list) -> bool:
    """Test for possible [rows, labelled rows, errors], with these sums."""
    if not rows:
        return True
    for row in rows:
        if not are_counts(row, 3):
            return False
        n_rows, n_labelled, n_errors = row
        if not n_rows >= n_labelled >= n_errors:
            return False
    return [sum(column) for column in zip(*rows)] == totals


def _are_judge_class_counts(rows: list, totals: list) -> bool:
    """Test for possible [rows judged so, labelled among them, labelled of the class, both]."""
    if not rows:
        return True
    for row in rows:
        if not are_counts(row, 4):
            return False
        n_judged, n_labelled, n_of_class, n_both = row
        if not n_judged >= n_labelled >= n_both or n_of_class < n_both:
            return False
    sums = [sum(column) for column in zip(*rows)]
    return sums[:3] == totals


def joint_bounds(parts: Mapping[str, Any], delta: float) -> dict[str, Any]:
    """All bounds of an `ErrorCertificate`, from what `count_errors` returns."""
    class_counts = parts["class_counts"]
    prediction_counts = parts["prediction_counts"]
    losses = parts["losses"]
    batch_size = parts.get("batch_size")
    if batch_size and batch_size > _MAX_BATCH_SIZE:
        raise ValueError(f"batch_size must be at most {_MAX_BATCH_SIZE:,}. Leave it out.")

    n_others = len(class_counts) + len(prediction_counts)
    delta_of_error = divide_delta(delta, fraction=0.5) if n_others else delta
    delta_of_each_other = divide_delta(delta, 2, max(1, n_others))

    def error_limit(name: str, n: int, n_errors: int, delta_of_limit: float) -> float:
        if name in losses:
            return betting(unpack_losses(losses[name]), delta_of_limit)
        if batch_size:
            return batch_limit(n_errors, n, batch_size, delta_of_limit)
        return upper_limit(n_errors, n, delta_of_limit)

    class_error_upper = {
        name: error_limit(f"class {name}", n, n_errors, delta_of_each_other)
        for name, (n, n_errors) in class_counts.items()
    }
    prediction_error_upper = {
        name: error_limit(f"prediction {name}", n, n_errors, delta_of_each_other)
        for name, (n, n_errors) in prediction_counts.items()
    }

    # The mean over classes is stated if each text has one of the classes that were counted.
    n_texts = parts["n"]
    if losses:
        n_texts += parts["n_duplicates"]
    n_texts_of_classes = sum(n for n, _ in class_counts.values())
    limits_of_occurring = [class_error_upper[name] for name, (n, _) in class_counts.items() if n]
    balanced_error_upper = None
    if limits_of_occurring and n_texts_of_classes == n_texts:
        balanced_error_upper = float(np.mean(limits_of_occurring))

    return {
        "error_upper": error_limit("error", parts["n"], parts["n_errors"], delta_of_error),
        "class_error_upper": class_error_upper,
        "balanced_error_upper": balanced_error_upper,
        "prediction_error_upper": prediction_error_upper,
    }


def count_errors(
    labels: list,
    predictions: list,
    draws: independence.Draws,
    sample: str,
    *,
    seed: int,
    recall: Sequence = (),
    precision: Sequence = (),
) -> dict[str, Any]:
    """The fields of `ErrorCertificate` that the bounds of one sample are computed from.

    Texts of the classes in `recall`, and predictions of those in `precision`, are counted apart.

    Parameters
    ----------
    labels, predictions : list
        Of all rows.
    draws : Draws
    sample : str
        The name of a sample of `draws`, whose rows are counted.
    seed : int
        Decides the order of the losses of groups.
    recall, precision : sequence of classes

    Returns
    -------
    dict
    """
    parts = draws.parts(sample)
    is_grouped = parts["scope"] == "groups"
    sampled_rows = draws.samples[sample]
    if is_grouped:  # all texts are counted: the bounds are from the losses of groups
        sampled_rows = np.arange(len(labels))
    true = [labels[row] for row in sampled_rows]
    answers = [predictions[row] for row in sampled_rows]
    differ = [label != answer for label, answer in zip(true, answers)]
    is_wrong = np.array(differ, bool)  # (n,)
    losses: dict[str, str] = {}

    def count(name: str, rows: np.ndarray) -> list[int]:
        """[texts, errors] of some rows; the losses of their groups are noted under the name."""
        if is_grouped and rows.size:
            groups = np.asarray(draws.group_of)[rows]
            _, group_number = np.unique(groups, return_inverse=True)
            n_wrong_of_group = np.bincount(group_number, is_wrong[rows])
            means = n_wrong_of_group / np.bincount(group_number)  # (n_groups,)
            # in an order that does not depend on the losses
            rng = np.random.default_rng([seed, 1])
            losses[name] = pack_losses(rng.permutation(means))
        return [rows.size, int(is_wrong[rows].sum())]

    _, n_errors = count("error", np.arange(is_wrong.size))
    class_counts = {}
    for name, rows in _rows_of_classes(true, recall):
        class_counts[name] = count(f"class {name}", rows)
    prediction_counts = {}
    for name, rows in _rows_of_classes(answers, precision):
        prediction_counts[name] = count(f"prediction {name}", rows)

    frequencies = Counter(true)
    guess = max(sorted(frequencies), key=frequencies.__getitem__)  # the first class of a tie
    n_guess_errors = is_wrong.size - frequencies[guess]
    return parts | {
        "n_errors": n_errors,
        "class_counts": class_counts,
        "prediction_counts": prediction_counts,
        "guess_counts": {str(guess): [is_wrong.size, n_guess_errors]},
        "losses": losses,
    }


def _rows_of_classes(values: list, classes: Sequence) -> Iterator[tuple[str, np.ndarray]]:
    """The name of each class and the positions at which it is the value."""
    position = {name: at for at, name in enumerate(classes)}
    positions = [position.get(value, len(classes)) for value in values]
    column = np.array(positions)  # (n,)
    for name in classes:
        yield str(name), np.flatnonzero(column == position[name])


def error_certificate(
    labels: Any,
    predictions: Any,
    *,
    kind: type[HeldOutCertificate] = ErrorCertificate,
    clusters: np.ndarray | None = None,
    group_of: np.ndarray | None = None,
    repeats: str | None = None,
    drawn: dict[str, np.ndarray] | None = None,
    delta: float = 0.05,
    n_candidates: int = 1,
    n_statements: int = 1,
    random_state: Any = None,
    fields: dict[str, Any] | None = None,
    **counted: Any,
) -> Any:
    """The certificate of predictions.

    Parameters
    ----------
    labels, predictions : list, or indicator matrix
        Of all rows.
    kind : type
        The class of the certificate.
    clusters, group_of : array of int, shape (n,), optional
        The near-duplicate cluster, and the group, of each row.
    repeats, delta, n_candidates, random_state : see `certify_predictions`
    drawn : dict, optional
        The rows of each sample, where not all rows may be in them.
    n_statements : int, default=1
        Statements that hold together: delta is divided among them.
    fields : dict, optional
        Further fields of the certificate.
    **counted
        Further arguments of `kind.count`.

    Returns
    -------
    HeldOutCertificate
        Of this kind.
    """
    seed = independence.as_seed(random_state)
    draws = independence.independent_draws(
        len(labels), clusters, group_of, seed, check_repeats(repeats), drawn
    )
    parts = {
        name: kind.count(labels, predictions, draws, name, seed=seed, **counted)
        for name in draws.samples
    }

    corrections = candidates(n_candidates)
    if n_statements > 1:
        corrections[_STATEMENTS] = n_statements
    return kind.from_samples(
        parts,
        **(fields or {}),
        repeats=repeats,
        delta=check_probability("delta", delta),
        random_state=seed,
        corrections=corrections,
    )


def candidates(n_candidates: int) -> dict[str, int]:
    """The corrections of a certificate for a choice among this many candidates."""
    check_count("n_candidates", n_candidates)
    return {"candidates": int(n_candidates)} if n_candidates > 1 else {}
