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
_MAX_CONFUSIONS = 40
_MAX_RISK_POINTS = 200  # of the curve of risk against coverage
_N_TOP_WORDS = 12  # of each class


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
        n_of_class = self.confusion.sum(axis=1).tolist()  # (n_classes,)
        n_predicted = self.confusion.sum(axis=0).tolist()  # (n_classes,)
        n_right = np.diag(self.confusion).tolist()  # (n_classes,)
        return [
            _class_scores(name, *counts)
            for name, *counts in zip(self.classes, n_of_class, n_predicted, n_right)
        ]

    def _known_proba(self) -> np.ndarray:
        if self.proba is None:
            raise ValueError("This needs probabilities. The predictions were given without any.")
        return self.proba

    def reliability(self) -> list[tuple[float, float, int]]:
        """(mean probability of the answer, share right, texts) in ten bins of equal width."""
        proba = self._known_proba()
        confidence = proba.max(axis=1)  # (n,)
        is_right = proba.argmax(axis=1) == self.labels  # (n,)
        bin_of_text = np.minimum((confidence * _BINS).astype(int), _BINS - 1)  # (n,)
        points = []
        for b in np.unique(bin_of_text):
            rows = np.flatnonzero(bin_of_text == b)
            point = float(confidence[rows].mean()), float(is_right[rows].mean()), int(rows.size)
            points.append(point)
        return points

    @property
    def ece(self) -> float:
        """Expected calibration error: mean distance of probability and share right, by bins."""
        return sum(n * abs(p - right) for p, right, n in self.reliability()) / self.n

    @property
    def brier(self) -> float:
        """Mean squared distance of the probabilities from the right class, over all classes."""
        targets = np.eye(len(self.classes))[self.labels]  # (n, n_classes)
        return float(np.square(self._known_proba() - targets).sum(axis=1).mean())

    def risk_coverage(self) -> tuple[np.ndarray, np.ndarray]:
        """Share of the texts that are answered, the surest first, and the errors among them."""
        proba = self._known_proba()
        is_wrong = proba.argmax(axis=1) != self.labels  # (n,)
        surest_first = np.argsort(-proba.max(axis=1), kind="stable")
        n_answered = np.arange(1, self.n + 1)
        return n_answered / self.n, np.cumsum(is_wrong[surest_first]) / n_answered

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
        import vl_convert

        charts = [self._reliability_chart(), self._risk_chart()]
        if self.curve is not None:
            charts.append(_learning_curve_chart(self.curve))
        specs = [chart.properties(width=260, height=200).to_dict() for chart in charts]
        return [vl_convert.vegalite_to_svg(spec) for spec in specs]

    def _reliability_chart(self) -> Any:
        import altair as alt

        confidence, accuracy, _ = zip(*self.reliability())
        diagonal = _line_chart([0, 1], [0, 1], strokeDash=[4, 4])
        square = alt.Scale(domain=[0, 1])
        return (diagonal + _line_chart(confidence, accuracy, point=True)).encode(
            alt.X("x:Q", title="probability of the predicted class", scale=square),
            alt.Y("y:Q", title="accuracy", scale=square),
        )

    def _risk_chart(self) -> Any:
        import altair as alt

        coverage, risk = self.risk_coverage()
        shown = np.unique(np.linspace(0, coverage.size - 1, _MAX_RISK_POINTS).astype(int))
        return _line_chart(coverage[shown], risk[shown]).encode(
            alt.X("x:Q", title="fraction answered"), alt.Y("y:Q", title="error rate")
        )

    def to_html(self, title: str = "Report of a classifier") -> str:
        """One page, without script and without other files."""
        has_matrix = len(self.classes) <= _MAX_MATRIX_CLASSES
        page = render(
            "classifier_report.html",
            title=title,
            report=self,
            interval=_limits(round(self.accuracy * self.n), self.n),
            figures=self.figures(),
            install_hint=install_hint("report"),
            class_rows=self._class_rows(),
            confusions=None if has_matrix else self._frequent_confusions(),
            cell_rows=self._matrix_rows() if has_matrix else None,
            word_rows=[(c, ", ".join(w for w, _ in words)) for c, words in self.top_words.items()],
            n_shown=_MAX_LISTED,
        )
        return page.encode("utf-8", "replace").decode()  # a lone surrogate cannot be written

    _repr_html_ = to_html

    def _class_rows(self) -> list[tuple]:
        """Cells of the table of classes: name, texts, precision, recall and F1."""
        rows = []
        for scores in self.per_class():
            cells = [scores["class"], f"{scores['texts']:,}"]
            for name in ("precision", "recall", "f1"):
                low, high = scores[f"{name}_interval"]
                is_known = not math.isnan(scores[name])
                cells.append(f"{scores[name]:.3f} ({low:.3f} to {high:.3f})" if is_known else "-")
            rows.append(tuple(cells))
        return rows

    def _frequent_confusions(self) -> list[tuple]:
        """The most frequent errors: class, prediction, number of texts."""
        n_errors = self.confusion - np.diag(np.diag(self.confusion))
        largest = np.argsort(-n_errors, axis=None)[:_MAX_CONFUSIONS]
        return [
            (self.classes[row], self.classes[column], n_errors[row, column])
            for row, column in zip(*np.unravel_index(largest, n_errors.shape))
            if n_errors[row, column]
        ]

    def _matrix_rows(self) -> list[tuple]:
        """Rows of the confusion matrix: the class, and a count and a shade for each cell."""
        n_of_class = np.maximum(self.confusion.sum(axis=1, keepdims=True), 1)
        shades = 0.7 * (self.confusion / n_of_class)
        return [
            (name, list(zip(counts, of_cells)))
            for name, counts, of_cells in zip(
                self.classes, self.confusion.tolist(), shades.tolist()
            )
        ]

    def __str__(self) -> str:
        low, high = _limits(round(self.accuracy * self.n), self.n)
        head = (
            f"accuracy {self.accuracy:.4f} (95% interval {low:.4f} to {high:.4f}) on {self.n:,} "
            "texts"
        )
        if self.proba is not None:
            head += f", calibration error (ECE) {self.ece:.4f}, Brier score {self.brier:.4f}"
        lines = [head]
        for scores in self.per_class():
            precision, recall, f1 = (
                "-" if math.isnan(scores[name]) else f"{scores[name]:.3f}"
                for name in ("precision", "recall", "f1")
            )
            lines.append(
                f"{scores['class']}: precision {precision}, recall {recall}, F1 {f1}, "
                f"{scores['texts']:,} texts"
            )
        return "\n".join(lines)


def _class_scores(name: Any, n_of_class: int, n_predicted: int, n_right: int) -> dict[str, Any]:
    """Precision, recall and F1 of one class, nan where there are no texts, with intervals."""
    n_either = n_predicted + n_of_class - n_right
    n_both = n_predicted + n_of_class
    return {
        "class": name,
        "texts": n_of_class,
        "precision": n_right / n_predicted if n_predicted else math.nan,
        "precision_interval": _limits(n_right, n_predicted),
        "recall": n_right / n_of_class if n_of_class else math.nan,
        "recall_interval": _limits(n_right, n_of_class),
        "f1": 2 * n_right / n_both if n_both else math.nan,
        "f1_interval": tuple(2 * s / (1 + s) for s in _limits(n_right, n_either)),
    }


def _line_chart(x: Iterable, y: Iterable, **line: Any) -> Any:
    """An Altair line through these points."""
    import altair as alt

    points = [{"x": float(a), "y": float(b)} for a, b in zip(x, y)]
    return alt.Chart(alt.Data(values=points)).mark_line(**line)


def _learning_curve_chart(curve: LearningCurve) -> Any:
    """Error rate by the number of labels: the curve, its interval, and what was measured."""
    import altair as alt

    labels = alt.X("labels:Q", scale=alt.Scale(type="log"), axis=alt.Axis(format="~s", tickCount=4))
    base = alt.Chart(alt.Data(values=curve.points())).encode(labels)
    interval = base.mark_area(opacity=0.3).encode(alt.Y("low:Q", title="error"), alt.Y2("high:Q"))
    line = base.mark_line().encode(alt.Y("error:Q"))
    points = base.mark_point().encode(alt.Y("measured:Q"))
    return interval + line + points


def count_confusions(y: np.ndarray, predictions: np.ndarray, n_classes: int) -> np.ndarray:
    """Texts of each class (row) that got each prediction (column), (n_classes, n_classes)."""
    confusion = np.zeros((n_classes, n_classes), np.int64)
    np.add.at(confusion, (y, predictions), 1)
    return confusion


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
    predicted = class_indices(classes, predictions)
    errors = [
        {
            "row": row,
            "label": labels[row],
            "prediction": predictions[row],
            "probability": None,
            "text": "" if texts is None else texts[row],
        }
        for row in np.flatnonzero(predicted != y).tolist()
    ]
    return Diagnostics(
        classes=classes.tolist(),
        confusion=count_confusions(y, predicted, classes.size),
        proba=None,
        labels=y,
        curve=None,
        top_words={},
        errors=errors,
    )


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
    y = parsed.encoded
    n_classes = parsed.classes.size

    # Labels that are none of the model's classes come after these, and have probability 0.
    proba = np.asarray(model.predict_proba(texts), np.float64)
    proba = np.pad(proba, ((0, 0), (0, n_classes - model.classes_.size)))  # (n, n_classes)
    predicted = proba.argmax(axis=1)  # (n,)
    confidence = proba.max(axis=1)  # (n,)

    names = parsed.classes.tolist()
    wrong_rows = np.flatnonzero(predicted != y)
    surest_first = np.argsort(-confidence[wrong_rows], kind="stable")
    errors = [
        {
            "row": row,
            "label": names[y[row]],
            "prediction": names[predicted[row]],
            "probability": confidence[row],
            "text": texts[row],
        }
        for row in wrong_rows[surest_first].tolist()
    ]

    # Of a classifier with guarantees, the one inside it; not every one can name features.
    estimator = getattr(model, "estimator_", model)
    top_words = {}
    if hasattr(estimator, "top_features"):
        top_words = {
            str(name): estimator.top_features(name, _N_TOP_WORDS)
            for name in estimator.classes_.tolist()
        }
    return Diagnostics(
        classes=names,
        confusion=count_confusions(y, predicted, n_classes),
        proba=proba,
        labels=y,
        curve=curve,
        top_words=top_words,
        audit=audit,
        errors=errors,
        certificate=getattr(model, "certificate_", None),
    )
