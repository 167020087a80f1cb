"""`report`: how good a classifier is on labelled texts, as numbers and as one HTML page."""

import importlib.util
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pacsent.bounds.binomial import two_sided_limits
from pacsent.certify.columns import materialize
from pacsent.certify.labels import ClassLabels, as_classes, as_labels, class_indices, is_multilabel
from pacsent.classify.label_reports import Audit, LearningCurve
from pacsent.optional import install_hint
from pacsent.text.pages import render
from pacsent.text.texts import as_texts

_BINS = 10
_DELTA = 0.05
_MAX_MATRIX_CLASSES = 20  # beyond, the most frequent confusions are listed instead
_MAX_LISTED = 500  # rows of each list on the page
_ERROR_FIELDS = "row", "label", "prediction", "probability", "text"


@dataclass(frozen=True, eq=False)
class Diagnostics:
    """How a classifier does on labelled texts.

    A notebook shows it as a page, `to_html` returns that page, and `to_dict` the numbers. Intervals
    are Clopper-Pearson's, 95% each.

    Attributes
    ----------
    classes : list
    confusion : array
        Texts of each class (row) that got each answer (column).
    proba : array or None
        Probabilities of all classes, (n, n_classes); None of predictions without a model.
    labels : array
        Positions of the right classes, (n,).
    curve, audit, certificate : LearningCurve, Audit, Certificate; or None
    top_words : dict
        Of each class, the n-grams that support it most.
    errors : list of dict
        Row, label, prediction, probability and text of wrong answers, the surest first.

    Examples
    --------
    >>> proba = np.array([[0.9, 0.1], [0.4, 0.6], [0.7, 0.3]])
    >>> found = Diagnostics(
    ...     ["no", "yes"], np.array([[1, 0], [1, 1]]), proba, np.array([0, 1, 1]), None, {}
    ... )
    >>> round(found.accuracy, 3), round(found.brier, 3)
    (0.667, 0.44)
    """

    classes: list
    confusion: np.ndarray
    proba: np.ndarray | None
    labels: np.ndarray
    curve: LearningCurve | None
    top_words: dict[str, list[tuple[str, float]]]
    audit: Audit | None = None
    errors: Sequence[dict[str, Any]] = ()
    certificate: Any = None

    @property
    def n(self) -> int:
        return int(self.labels.size)

    @property
    def accuracy(self) -> float:
        return float(np.trace(self.confusion) / self.n)

    def per_class(self) -> list[dict[str, Any]]:
        """Precision, recall and F1 of each class, with 95% intervals.

        That of F1 follows from those of errors among the texts that are of the class or predicted
        to be: F1 = 2s / (1 + s), s the share of them that is right, which grows with s.
        """
        rows = []
        for c, name in enumerate(self.classes):
            right = int(self.confusion[c, c])
            predicted, are = int(self.confusion[:, c].sum()), int(self.confusion[c].sum())
            either = predicted + are - right
            row = {
                "class": name,
                "texts": are,
                "precision": right / predicted if predicted else math.nan,
                "precision_interval": _limits(right, predicted),
                "recall": right / are if are else math.nan,
                "recall_interval": _limits(right, are),
                "f1": 2 * right / (predicted + are) if predicted + are else math.nan,
                "f1_interval": tuple(2 * s / (1 + s) for s in _limits(right, either)),
            }
            rows.append(row)
        return rows

    def _known_proba(self) -> np.ndarray:
        if self.proba is None:
            raise ValueError("This needs probabilities. The predictions were given without any.")
        return self.proba

    def reliability(self) -> list[tuple[float, float, int]]:
        """(mean probability of the answer, share right, texts) in ten bins of equal width."""
        proba = self._known_proba()
        top = proba.max(axis=1)
        right = proba.argmax(axis=1) == self.labels
        of = np.minimum((top * _BINS).astype(int), _BINS - 1)
        bins = [np.flatnonzero(of == b) for b in range(_BINS)]
        return [(float(top[b].mean()), float(right[b].mean()), int(b.size)) for b in bins if b.size]

    @property
    def ece(self) -> float:
        """Expected calibration error: mean distance of probability and share right, by bins."""
        return sum(n * abs(p - right) for p, right, n in self.reliability()) / self.n

    @property
    def brier(self) -> float:
        """Mean squared distance of the probabilities from the right class, over all classes."""
        hit = np.eye(len(self.classes))[self.labels]
        return float(np.square(self._known_proba() - hit).sum(axis=1).mean())

    def risk_coverage(self) -> tuple[np.ndarray, np.ndarray]:
        """Share of the texts that are answered, the surest first, and the errors among them."""
        proba = self._known_proba()
        order = np.argsort(-proba.max(axis=1), kind="stable")
        wrong = (proba.argmax(axis=1) != self.labels)[order]
        n = np.arange(1, self.n + 1)
        return n / self.n, np.cumsum(wrong) / n

    def to_dict(self) -> dict[str, Any]:
        """The numbers."""
        return {
            "n": self.n,
            "accuracy": self.accuracy,
            "accuracy_interval": _limits(round(self.accuracy * self.n), self.n),
            "ece": None if self.proba is None else self.ece,
            "brier": None if self.proba is None else self.brier,
            "classes": self.classes,
            "confusion": self.confusion.tolist(),
            "per_class": self.per_class(),
            "learning_curve": None if self.curve is None else str(self.curve),
            "audit": None if self.audit is None else self.audit.to_dict(),
        }

    def figures(self) -> list[str]:
        """Reliability diagram, risk against coverage, and the learning curve, as SVG.

        None of them without Altair (the extra `report`).
        """
        if not all(importlib.util.find_spec(name) for name in ("altair", "vl_convert")):
            return []
        import altair as alt
        import vl_convert

        def line(x, y, **more):
            data = alt.Data(values=[{"x": float(a), "y": float(b)} for a, b in zip(x, y)])
            return alt.Chart(data).mark_line(**more)

        p, right, _ = zip(*self.reliability())
        covered, risk = self.risk_coverage()
        shown = np.unique(np.linspace(0, covered.size - 1, 200).astype(int))
        square = alt.Scale(domain=[0, 1])
        charts = [
            (line([0, 1], [0, 1], strokeDash=[4, 4]) + line(p, right, point=True)).encode(
                alt.X("x:Q", title="probability of the predicted class", scale=square),
                alt.Y("y:Q", title="accuracy", scale=square),
            ),
            line(covered[shown], risk[shown]).encode(
                alt.X("x:Q", title="fraction answered"), alt.Y("y:Q", title="error rate")
            ),
        ]
        if self.curve is not None:
            ticks = alt.Axis(format="~s", tickCount=4)
            x = alt.X("labels:Q", scale=alt.Scale(type="log"), axis=ticks)
            base = alt.Chart(alt.Data(values=self.curve.points())).encode(x)
            charts.append(
                base.mark_area(opacity=0.3).encode(alt.Y("low:Q", title="error"), alt.Y2("high:Q"))
                + base.mark_line().encode(alt.Y("error:Q"))
                + base.mark_point().encode(alt.Y("measured:Q"))
            )
        specs = [chart.properties(width=260, height=200).to_dict() for chart in charts]
        return [vl_convert.vegalite_to_svg(spec) for spec in specs]

    def to_html(self, title: str = "Report of a classifier") -> str:
        """One page, without script and without other files."""
        confusions = cell_rows = None
        if len(self.classes) > _MAX_MATRIX_CLASSES:
            off = self.confusion - np.diag(np.diag(self.confusion))
            pairs = np.dstack(np.unravel_index(np.argsort(-off, axis=None)[:40], off.shape))[0]
            names = self.classes
            confusions = [(names[a], names[b], off[a, b]) for a, b in pairs if off[a, b]]
        else:
            shares = self.confusion / np.maximum(self.confusion.sum(axis=1, keepdims=True), 1)
            cell_rows = [
                (name, zip(counts.tolist(), (0.7 * row).tolist()))
                for name, counts, row in zip(self.classes, self.confusion, shares)
            ]
        class_rows = []
        for row in self.per_class():
            values = [(row[key], *row[f"{key}_interval"]) for key in ("precision", "recall", "f1")]
            form = "{:.3f} ({:.3f} to {:.3f})".format
            shown = ["-" if math.isnan(value[0]) else form(*value) for value in values]
            class_rows.append((row["class"], f"{row['texts']:,}", *shown))
        page = render(
            "classifier_report.html",
            title=title,
            report=self,
            interval=_limits(round(self.accuracy * self.n), self.n),
            figures=self.figures(),
            install_hint=install_hint("report"),
            class_rows=class_rows,
            confusions=confusions,
            cell_rows=cell_rows,
            word_rows=[(c, ", ".join(w for w, _ in words)) for c, words in self.top_words.items()],
            n_shown=_MAX_LISTED,
        )
        return page.encode("utf-8", "replace").decode()  # a lone surrogate cannot be written

    _repr_html_ = to_html

    def __str__(self) -> str:
        low, high = _limits(round(self.accuracy * self.n), self.n)
        head = (
            f"accuracy {self.accuracy:.4f} (95% interval {low:.4f} to {high:.4f}) on {self.n:,} "
            "texts"
        )
        if self.proba is not None:
            head += f", calibration error (ECE) {self.ece:.4f}, Brier score {self.brier:.4f}"
        lines = []
        for row in self.per_class():
            scores = (row[key] for key in ("precision", "recall", "f1"))
            shown = ("-" if math.isnan(score) else f"{score:.3f}" for score in scores)
            form = f"{{}}: precision {{}}, recall {{}}, F1 {{}}, {row['texts']:,} texts"
            lines.append(form.format(row["class"], *shown))
        return "\n".join([head, *lines])


def _limits(n_right: int, n: int) -> tuple[float, float]:
    """Two-sided confidence limits of a fraction; all of [0, 1] without texts."""
    return two_sided_limits(n_right, n, _DELTA) if n else (0.0, 1.0)


def report_predictions(
    labels: Sequence, predictions: Sequence, texts: Sequence[str] | None = None
) -> Diagnostics:
    """How predictions of any model do on labelled texts.

    Parameters
    ----------
    labels, predictions : one for each text
    texts : list of str, optional
        To be shown with the errors.

    Returns
    -------
    Diagnostics
        Without what needs probabilities.

    Examples
    --------
    >>> report_predictions(["no", "yes", "yes"], ["no", "yes", "no"]).confusion
    array([[1, 0],
           [1, 1]])
    """
    labels = as_labels(labels)
    predictions = as_labels(predictions, len(labels), "predictions")
    classes = as_classes(sorted({*labels, *predictions}))
    y = class_indices(classes, labels)
    answers = class_indices(classes, predictions)
    confusion = np.zeros((classes.size, classes.size), np.int64)
    np.add.at(confusion, (y, answers), 1)
    errors = [
        {
            "row": row,
            "label": labels[row],
            "prediction": predictions[row],
            "probability": None,
            "text": "" if texts is None else texts[row],
        }
        for row in np.flatnonzero(answers != y).tolist()
    ]
    return Diagnostics(classes.tolist(), confusion, None, y, None, {}, errors=errors)


def report(
    model: Any,
    texts: Iterable[str],
    labels: Sequence,
    *,
    curve: LearningCurve | None = None,
    audit: Audit | None = None,
) -> Diagnostics:
    """How a fitted classifier does on labelled texts that it was not fitted on.

    Parameters
    ----------
    model : fitted TextClassifier or CertifiedClassifier
    texts : iterable of str
    labels : array of str or int, one for each text; others than the model's classes are errors
    curve, audit : LearningCurve, Audit, optional
        From `fit_learning_curve` and `audit`, for sections of the page.
    """
    texts = as_texts(texts)
    if not texts:
        raise ValueError("texts must have at least one text. Got none instead.")
    if is_multilabel(model):
        raise ValueError("model must have one class a text. Got several labels per text instead.")
    parsed = ClassLabels.of_classes(model.classes_, materialize(labels), len(texts))
    classes, y = parsed.classes, parsed.encoded
    proba = np.asarray(model.predict_proba(texts), np.float64)
    proba = np.pad(proba, ((0, 0), (0, classes.size - model.classes_.size)))
    confusion = np.zeros((classes.size, classes.size), np.int64)
    answers, top = proba.argmax(axis=1), proba.max(axis=1)
    np.add.at(confusion, (y, answers), 1)
    names, wrong = classes.tolist(), np.flatnonzero(answers != y)
    errors = [
        dict(zip(_ERROR_FIELDS, (row, names[y[row]], names[answers[row]], top[row], texts[row])))
        for row in wrong[np.argsort(-top[wrong], kind="stable")].tolist()
    ]
    inner = getattr(model, "estimator_", model)
    words = {}
    if hasattr(inner, "top_features"):
        words = {str(c): inner.top_features(c, 12) for c in inner.classes_.tolist()}
    certificate = getattr(model, "certificate_", None)
    return Diagnostics(names, confusion, proba, y, curve, words, audit, errors, certificate)
