"""`report`: how good a classifier is on labelled texts, as numbers and as one HTML page."""

import datetime
import importlib.util
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import pacsent
from pacsent.bounds.binomial import two_sided_limits
from pacsent.bounds.rounding import rounded_up
from pacsent.certify.columns import materialize
from pacsent.certify.labels import ClassLabels, as_classes, as_labels, class_indices, is_multilabel
from pacsent.certify.samples import find_fitted, recorded, row_fingerprints
from pacsent.classify.label_reports import Audit, LearningCurve
from pacsent.optional import install_hint
from pacsent.text.pages import render
from pacsent.text.printable import format_columns
from pacsent.text.texts import as_texts

_N_BINS = 10
_DELTA = 0.05
# With more classes, the most frequent confusions are listed instead of the matrix.
_MAX_MATRIX_CLASSES = 20
_MAX_CONFUSIONS = 40
# Rows of each list on the page.
_MAX_LISTED = 500
# Points of the curve of risk against coverage.
_MAX_RISK_POINTS = 200
# Words of each class.
_N_TOP_WORDS = 12
# Scores of each class, and their names on the page.
_SCORE_TITLES = {"precision": "precision", "recall": "recall", "f1": "F1"}


@dataclass(frozen=True, eq=False)
class Diagnostics:
    """Evaluation of a classifier on labelled texts.

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
    n_fitted : int
        How many of the texts the classifier is known to be fitted on: with some, the accuracy is
        too high.
    n_left_out : int
        How many other texts were left out because the classifier was fitted on them.
    correctable : list of int, or None
        Positions in the file of the suspicious labels whose texts the classifier was fitted on, and
        of which no copy may have been held out; None if that is not known.

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
    n_fitted: int = 0
    n_left_out: int = 0
    correctable: Sequence[int] | None = None

    @property
    def n(self) -> int:
        """Number of texts."""
        return int(self.labels.size)

    @property
    def accuracy(self) -> float:
        """Fraction of the texts that got their class."""
        return float(np.trace(self.confusion) / self.n)

    def per_class(self) -> list[dict[str, Any]]:
        """Precision, recall and F1 of each class, with 95% intervals.

        The interval of F1 follows from that of s, the right fraction of the texts that are of the
        class or predicted to be: F1 = 2s / (1 + s), which grows with s.

        Returns
        -------
        list of dict
            `class`, `texts`, each score, and each interval as `precision_interval` and so on.
        """
        n_of_class = self.confusion.sum(axis=1).tolist()  # (n_classes,)
        n_predicted = self.confusion.sum(axis=0).tolist()  # (n_classes,)
        n_right = np.diag(self.confusion).tolist()  # (n_classes,)
        return list(map(_class_scores, self.classes, n_of_class, n_predicted, n_right))

    def describe_overlap(self) -> str:
        """Sentence about texts that the classifier was fitted on; empty if there were none.

        Returns
        -------
        str
        """
        if self.n_fitted:
            return (
                f"This accuracy is too high: {self.n_fitted:,} of the {self.n:,} texts equal one "
                "that the model was fitted on. Results on new texts are worse."
            )
        if not self.n_left_out:
            return ""
        n_given = self.n + self.n_left_out
        fitted = "were left out: the model was fitted on them"
        if self.n_left_out == 1:
            fitted = "was left out: the model was fitted on it"
        return (
            f"{self.n_left_out:,} of {n_given:,} rows {fitted}. Measured on the other {self.n:,}."
        )

    def _require_proba(self) -> np.ndarray:
        if self.proba is None:
            raise ValueError("This needs probabilities. The predictions were given without any.")
        return self.proba

    def reliability(self) -> list[tuple[float, float, int]]:
        """Accuracy by the probability of the answer, in ten bins of equal width.

        Returns
        -------
        list of (float, float, int)
            Mean probability of the answer, accuracy and number of texts of each bin with texts.
        """
        proba = self._require_proba()
        confidence = proba.max(axis=1)  # (n,)
        is_right = proba.argmax(axis=1) == self.labels  # (n,)
        bin_of_text = (confidence * _N_BINS).astype(int)  # (n,)
        bin_of_text = np.minimum(bin_of_text, _N_BINS - 1)

        points = []
        for number in np.unique(bin_of_text):
            rows = np.flatnonzero(bin_of_text == number)
            mean_confidence = float(confidence[rows].mean())
            accuracy = float(is_right[rows].mean())
            points.append((mean_confidence, accuracy, int(rows.size)))
        return points

    @property
    def ece(self) -> float:
        """Expected calibration error: mean distance of probability and accuracy, by bins."""
        total = 0.0
        for confidence, accuracy, n in self.reliability():
            total += n * abs(confidence - accuracy)
        return total / self.n

    @property
    def brier(self) -> float:
        """Mean squared distance of the probabilities from the right class, over all classes."""
        targets = np.eye(len(self.classes))[self.labels]  # (n, n_classes)
        differences = self._require_proba() - targets
        distances = np.square(differences).sum(axis=1)  # (n,)
        return float(distances.mean())

    def risk_coverage(self) -> tuple[np.ndarray, np.ndarray]:
        """Fraction of the texts that are answered, surest first, and the error rate among them.

        Returns
        -------
        (array of shape (n,), array of shape (n,))
        """
        proba = self._require_proba()
        is_wrong = proba.argmax(axis=1) != self.labels  # (n,)
        surest_first = np.argsort(-proba.max(axis=1), kind="stable")
        n_wrong = np.cumsum(is_wrong[surest_first])  # (n,)
        n_answered = np.arange(1, self.n + 1)
        return n_answered / self.n, n_wrong / n_answered

    def _accuracy_interval(self) -> tuple[float, float]:
        n_right = round(self.accuracy * self.n)
        return _limits(n_right, self.n)

    def to_dict(self) -> dict[str, Any]:
        """The numbers, as JSON can contain them.

        Returns
        -------
        dict
        """
        has_proba = self.proba is not None
        learning_curve = None if self.curve is None else str(self.curve)
        audit = None if self.audit is None else self.audit.to_dict()

        return {
            "n": self.n,
            "n_fitted": self.n_fitted,
            "n_left_out": self.n_left_out,
            "accuracy": self.accuracy,
            "accuracy_interval": self._accuracy_interval(),
            "ece": self.ece if has_proba else None,
            "brier": self.brier if has_proba else None,
            "classes": self.classes,
            "confusion": self.confusion.tolist(),
            "per_class": self.per_class(),
            "learning_curve": learning_curve,
            "audit": audit,
        }

    def figures(self) -> list[str]:
        """Reliability diagram, risk against coverage, and the learning curve, as SVG.

        The first two need probabilities. There are none without Altair (the extra `report`).

        Returns
        -------
        list of str
        """
        if not all(map(importlib.util.find_spec, ("altair", "vl_convert"))):
            return []
        import vl_convert

        charts = []
        if self.proba is not None:
            charts = [self._reliability_chart(), self._risk_chart()]
        if self.curve is not None:
            charts.append(_learning_curve_chart(self.curve))

        figures = []
        for chart in charts:
            # The size is that of the whole figure: axes of any width leave figures of one height.
            autosize = {"type": "fit", "contains": "padding"}
            sized_chart = chart.properties(width=320, height=250, autosize=autosize)
            figures.append(vl_convert.vegalite_to_svg(sized_chart.to_dict()))
        return figures

    def _reliability_chart(self) -> Any:
        import altair as alt

        confidence, accuracy, _ = zip(*self.reliability())
        diagonal = _line_chart([0, 1], [0, 1], strokeDash=[4, 4])
        measured = _line_chart(confidence, accuracy, point=True)
        chart = diagonal + measured

        unit_scale = alt.Scale(domain=[0, 1])
        x = alt.X("x:Q", title="probability of the predicted class", scale=unit_scale)
        y = alt.Y("y:Q", title="accuracy", scale=unit_scale)
        return chart.encode(x, y)

    def _risk_chart(self) -> Any:
        import altair as alt

        coverage, risk = self.risk_coverage()
        positions = np.linspace(0, coverage.size - 1, _MAX_RISK_POINTS)
        shown = np.unique(positions.astype(int))
        chart = _line_chart(coverage[shown], risk[shown])

        x = alt.X("x:Q", title="fraction answered")
        y = alt.Y("y:Q", title="error rate")
        return chart.encode(x, y)

    def to_html(self, title: str = "Report of a classifier") -> str:
        """One page, without script and without other files.

        Parameters
        ----------
        title : str

        Returns
        -------
        str
            HTML.
        """
        has_matrix = len(self.classes) <= _MAX_MATRIX_CLASSES
        certificate = self.certificate
        word_rows = []
        for name, words in self.top_words.items():
            listed_words = ", ".join(word for word, _ in words)
            word_rows.append((name, listed_words))

        page = render(
            "classifier_report.html",
            title=title,
            report=self,
            interval=self._accuracy_interval(),
            figures=self.figures(),
            install_hint=install_hint("report"),
            certified=certificate and rounded_up(certificate.error_upper),
            version=pacsent.__version__,
            date=datetime.date.today().isoformat(),
            class_rows=self._class_rows(),
            confusions=None if has_matrix else self._frequent_confusions(),
            cell_rows=self._matrix_rows() if has_matrix else None,
            word_rows=word_rows,
            n_shown=_MAX_LISTED,
            correctable=self._describe_correctable(),
        )
        return page.encode("utf-8", "replace").decode()  # a lone surrogate cannot be written

    _repr_html_ = to_html

    def _class_rows(self) -> list[tuple]:
        """The name and texts of each class, and (score, value, low, high) of its scores."""
        rows = []
        for scores in self.per_class():
            cells = []
            for name, title in _SCORE_TITLES.items():
                value = scores[name]
                interval = (None, None)
                if not math.isnan(value):
                    interval = scores[f"{name}_interval"]
                cells.append((title, _format_score(value), *interval))
            rows.append((scores["class"], f"{scores['texts']:,}", cells))
        return rows

    def _describe_correctable(self) -> str:
        """Sentence about which suspicious labels may be corrected."""
        if self.correctable is None:
            return "Correct training labels only."
        if not self.correctable:
            return "Correct training labels only: none of these is one."
        numbers = [f"{row + 1:,}" for row in self.correctable]
        noun = "row" if len(numbers) == 1 else "rows"
        return f"Correct training labels only: {noun} {', '.join(numbers)}."

    def _frequent_confusions(self) -> list[tuple]:
        """The most frequent errors: class, prediction, number of texts."""
        n_errors = self.confusion.copy()  # (n_classes, n_classes)
        np.fill_diagonal(n_errors, 0)
        order = np.argsort(-n_errors, axis=None)
        cells = np.unravel_index(order[:_MAX_CONFUSIONS], n_errors.shape)
        rows = []
        for row, column in zip(*cells):
            n = n_errors[row, column]
            if n:
                rows.append((self.classes[row], self.classes[column], n))
        return rows

    def _matrix_rows(self) -> list[tuple]:
        """Rows of the confusion matrix: the class, and a count and a shade for each cell."""
        n_of_class = self.confusion.sum(axis=1, keepdims=True)  # (n_classes, 1)
        fractions = self.confusion / np.maximum(n_of_class, 1)
        shades = (0.7 * fractions).tolist()
        rows = []
        for i, counts in enumerate(self.confusion.tolist()):
            cells = list(zip(counts, shades[i]))
            rows.append((self.classes[i], cells))
        return rows

    def __str__(self) -> str:
        low, high = self._accuracy_interval()
        head = (
            f"accuracy {self.accuracy:.4f} (95% interval {low:.4f} to {high:.4f}) on {self.n:,} "
            "texts"
        )
        if self.proba is not None:
            head += f", calibration error (ECE) {self.ece:.4f}, Brier score {self.brier:.4f}"

        rows: list[tuple[str, ...]] = [("class", "precision", "recall", "F1", "texts")]
        for scores in self.per_class():
            precision = _format_score(scores["precision"])
            recall = _format_score(scores["recall"])
            f1 = _format_score(scores["f1"])
            rows.append((str(scores["class"]), precision, recall, f1, f"{scores['texts']:,}"))
        return "\n".join([head, *format_columns(rows, gap=1)])


def _format_score(value: float) -> str:
    """Three decimals, or a dash for nan."""
    return "-" if math.isnan(value) else f"{value:.3f}"


def _class_scores(name: Any, n_of_class: int, n_predicted: int, n_right: int) -> dict[str, Any]:
    """Precision, recall and F1 of one class, nan where there are no texts, with intervals."""
    n_either = n_predicted + n_of_class - n_right
    low, high = _limits(n_right, n_either)
    f1_interval = (_jaccard_to_f1(low), _jaccard_to_f1(high))
    return {
        "class": name,
        "texts": n_of_class,
        "precision": _divide(n_right, n_predicted),
        "precision_interval": _limits(n_right, n_predicted),
        "recall": _divide(n_right, n_of_class),
        "recall_interval": _limits(n_right, n_of_class),
        "f1": _divide(2 * n_right, n_predicted + n_of_class),
        "f1_interval": f1_interval,
    }


def _divide(numerator: int, denominator: int) -> float:
    return numerator / denominator if denominator else math.nan


def _jaccard_to_f1(fraction: float) -> float:
    """F1 from the right fraction of the texts that are of a class or predicted to be."""
    return 2 * fraction / (1 + fraction)


def _line_chart(x: Iterable, y: Iterable, **line: Any) -> Any:
    """An Altair line through these points."""
    import altair as alt

    points = []
    for x_value, y_value in zip(x, y):
        points.append({"x": float(x_value), "y": float(y_value)})
    data = alt.Data(values=points)
    return alt.Chart(data).mark_line(**line)


def _learning_curve_chart(curve: LearningCurve) -> Any:
    """Error rate by the number of labels: the curve, its interval, and what was measured."""
    import altair as alt

    log_scale = alt.Scale(type="log")
    axis = alt.Axis(format="~s", tickCount=4)
    labels = alt.X("labels:Q", scale=log_scale, axis=axis)
    points = curve.points()
    # In two tables: in one, the measured points would be gaps of the line, which is sorted by x.
    fitted = alt.Data(values=[point for point in points if "error" in point])
    measured = alt.Data(values=[point for point in points if "measured" in point])
    base = alt.Chart(fitted).encode(labels)

    low = alt.Y("low:Q", title="error")
    high = alt.Y2("high:Q")
    interval = base.mark_area(opacity=0.3).encode(low, high)
    line = base.mark_line().encode(alt.Y("error:Q"))
    marks = alt.Chart(measured).mark_point().encode(labels, alt.Y("measured:Q"))
    return interval + line + marks


def count_confusions(y: np.ndarray, predictions: np.ndarray, n_classes: int) -> np.ndarray:
    """Texts of each class (row) that got each prediction (column), (n_classes, n_classes)."""
    confusion = np.zeros((n_classes, n_classes), np.int64)
    np.add.at(confusion, (y, predictions), 1)
    return confusion


def _limits(n_right: int, n: int) -> tuple[float, float]:
    """Two-sided confidence limits of a fraction; all of [0, 1] without texts."""
    return two_sided_limits(n_right, n, _DELTA) if n else (0.0, 1.0)


def _error(
    row: int, label: Any, prediction: Any, probability: float | None, text: str
) -> dict[str, Any]:
    """A wrong answer, as `Diagnostics.errors` lists it."""
    return {
        "row": row,
        "label": label,
        "prediction": prediction,
        "probability": probability,
        "text": text,
    }


def report_predictions(
    labels: Sequence, predictions: Sequence, texts: Sequence[str] | None = None
) -> Diagnostics:
    """Evaluate the predictions of any model on labelled texts.

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

    errors = []
    for row in np.flatnonzero(predicted != y).tolist():
        text = "" if texts is None else texts[row]
        errors.append(_error(row, labels[row], predictions[row], None, text))
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
    """Evaluate a fitted classifier on labelled texts that it was not fitted on.

    Parameters
    ----------
    model : fitted TextClassifier or CertifiedClassifier
    texts : iterable of str
    labels : array of str or int, one for each text; others than the model's classes are errors
    curve, audit : LearningCurve, Audit, optional
        From `fit_learning_curve` and `audit`, for sections of the page.

    Returns
    -------
    Diagnostics
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
    known_proba = np.asarray(model.predict_proba(texts), np.float64)
    n_unknown = n_classes - model.classes_.size
    unknown_proba = np.zeros((len(texts), n_unknown))
    proba = np.hstack([known_proba, unknown_proba])  # (n, n_classes)
    predicted = proba.argmax(axis=1)  # (n,)
    confidence = proba.max(axis=1)  # (n,)

    names = parsed.classes.tolist()
    wrong_rows = np.flatnonzero(predicted != y)
    surest_first = np.argsort(-confidence[wrong_rows], kind="stable")
    errors = []
    for row in wrong_rows[surest_first].tolist():
        label = names[y[row]]
        prediction = names[predicted[row]]
        errors.append(_error(row, label, prediction, confidence[row], texts[row]))

    # Of a classifier with guarantees, the one inside it; not every one can name features.
    estimator = getattr(model, "estimator_", model)
    top_words = {}
    if hasattr(estimator, "top_features"):
        for name in estimator.classes_.tolist():
            top_words[str(name)] = estimator.top_features(name, _N_TOP_WORDS)
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
        n_fitted=int(find_fitted(model, texts).sum()),
        correctable=None if audit is None else _correctable_rows(model, audit),
    )


def _correctable_rows(model: Any, audit: Audit) -> list[int] | None:
    """Rows of suspicious labels that the model was fitted on, in order; None if not known.

    Of texts that occur more than once there are none: another copy may have been held out.
    """
    if recorded(model, "fingerprints") is None:
        return None
    hashes = row_fingerprints(audit.texts)  # (n_texts,)
    _, number, n_copies = np.unique(hashes, return_inverse=True, return_counts=True)
    occurs_once = n_copies[number] == 1
    is_correctable = find_fitted(model, audit.texts) & occurs_once

    rows = sorted(suspicion.row for suspicion in audit.suspicious)
    return [audit.position(row) for row in rows if is_correctable[row]]
