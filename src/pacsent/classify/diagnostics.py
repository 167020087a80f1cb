"""`report`: how good a classifier is on labelled texts, as numbers and as one HTML page."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from pacsent.classify import inputs
from pacsent.maths.binomial import two_sided_limits
from pacsent.text.drawing import Panel, sheet
from pacsent.text.html import escaped, fill
from pacsent.text.texts import as_texts

if TYPE_CHECKING:
    from pacsent.classify.label_curve import LearningCurve

_BINS = 10
_DELTA = 0.05
_CELLS = 20  # classes up to which the confusion matrix is shown as a table
_PAGE = """<!doctype html><html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1"><title>@TITLE@</title><style>
:root{color-scheme:light dark;--text:#1a1a1a;--page:#fff;--line:#8885;--tint:27 110 156}
@media(prefers-color-scheme:dark){:root{--text:#f0f0f0;--page:#14181f}}
body{font:16px/1.55 system-ui,sans-serif;max-width:62rem;margin:2rem auto;padding:0 1rem;
color:var(--text);background:var(--page)}table{border-collapse:collapse}
.wide{overflow-x:auto}th,td{padding:.25rem .6rem;border-bottom:1px solid var(--line);
text-align:right;font-variant-numeric:tabular-nums;vertical-align:top}
th:first-child,td:first-child,td.left,th.left{text-align:left;overflow-wrap:anywhere}
.figures{display:flex;flex-wrap:wrap;gap:1rem}.figures svg{max-width:100%;height:auto}
.quiet{opacity:.75;font-size:.9rem}td.cell{background:rgb(var(--tint)/var(--share))}
summary{cursor:pointer;padding:.3rem 0}details p{white-space:pre-wrap;overflow-wrap:anywhere}
</style></head><body><h1>@TITLE@</h1>@BODY@</body></html>
"""


def html_page(title: str, body: str) -> str:
    """A page of its own: no script, no other file."""
    return fill(_PAGE, TITLE=escaped(title), BODY=body)


def html_table(head: Sequence[str], rows: Iterable[Sequence[Any]], left: Sequence[int] = ()) -> str:
    """A table; cells are plain text, those of the columns `left` flush left."""
    kinds = [' class="left"' if at in left else "" for at in range(len(head))]
    top = "".join(f"<th{kind}>{escaped(name)}</th>" for name, kind in zip(head, kinds))
    body = "".join(
        "<tr>"
        + "".join(f"<td{k}><bdi>{escaped(cell)}</bdi></td>" for cell, k in zip(row, kinds))
        + "</tr>"
        for row in rows
    )
    return f'<div class="wide"><table><tr>{top}</tr>{body}</table></div>'


@dataclass(frozen=True, eq=False)
class Diagnostics:
    """How a classifier does on labelled texts.

    A notebook shows it as a page, `to_html` returns that page, and `to_dict` the numbers. Intervals
    are Clopper-Pearson's, 95 % each.

    Attributes
    ----------
    classes : list
    confusion : array
        Texts of each class (row) that got each answer (column).
    proba : array
        Probabilities of all classes, (n, n_classes).
    labels : array
        Positions of the right classes, (n,).
    curve : LearningCurve or None
    top_words : dict
        Of each class, the n-grams that speak most for it.

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
    proba: np.ndarray
    labels: np.ndarray
    curve: "LearningCurve | None"
    top_words: dict[str, list[tuple[str, float]]]

    @property
    def n(self) -> int:
        return int(self.labels.size)

    @property
    def accuracy(self) -> float:
        return float(np.trace(self.confusion) / self.n)

    def per_class(self) -> list[dict[str, Any]]:
        """Precision, recall and F1 of each class, with 95 % intervals.

        That of F1 follows from those of errors among the texts that are of the class or predicted
        to be: F1 = 2s / (1 + s), s the share of them that is right, which grows with s.
        """
        found = []
        for c, name in enumerate(self.classes):
            right = int(self.confusion[c, c])
            said, are = int(self.confusion[:, c].sum()), int(self.confusion[c].sum())
            either = said + are - right
            jaccard = two_sided_limits(right, either, _DELTA) if either else (0.0, 1.0)
            found.append({
                "class": name, "texts": are,
                "precision": right / said if said else math.nan,
                "precision_interval": two_sided_limits(right, said, _DELTA) if said else (0.0, 1.0),
                "recall": right / are if are else math.nan,
                "recall_interval": two_sided_limits(right, are, _DELTA) if are else (0.0, 1.0),
                "f1": 2 * right / (said + are) if said + are else math.nan,
                "f1_interval": tuple(2 * s / (1 + s) for s in jaccard),
            })  # fmt: skip
        return found

    def reliability(self) -> list[tuple[float, float, int]]:
        """(mean probability of the answer, share right, texts) in ten bins of equal width."""
        top = self.proba.max(axis=1)
        right = self.proba.argmax(axis=1) == self.labels
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
        return float(np.square(self.proba - hit).sum(axis=1).mean())

    def risk_coverage(self) -> tuple[np.ndarray, np.ndarray]:
        """Share of the texts that are answered, the surest first, and the errors among them."""
        order = np.argsort(-self.proba.max(axis=1), kind="stable")
        wrong = (self.proba.argmax(axis=1) != self.labels)[order]
        n = np.arange(1, self.n + 1)
        return n / self.n, np.cumsum(wrong) / n

    def to_dict(self) -> dict[str, Any]:
        """The numbers."""
        return {
            "n": self.n, "accuracy": self.accuracy,
            "accuracy_interval": two_sided_limits(round(self.accuracy * self.n), self.n, _DELTA),
            "ece": self.ece, "brier": self.brier, "classes": self.classes,
            "confusion": self.confusion.tolist(), "per_class": self.per_class(),
            "learning_curve": None if self.curve is None else str(self.curve),
        }  # fmt: skip

    def figures(self) -> dict[str, str]:
        """Reliability diagram, risk against coverage, and the learning curve, as SVG."""
        p, right, _ = zip(*self.reliability())
        even = Panel((45, 25, 300, 220), (0, 1), (0, 1))
        even.axes("probability of the answer", "share right")
        even.curve([0, 1], [0, 1], "d", "4 4", 1.2).curve(p, right, "a").dots(p, right, "a", 4)
        covered, risk = self.risk_coverage()
        some = np.unique(np.linspace(0, covered.size - 1, 200).astype(int))
        most = max(0.01, float(risk[some].max())) * 1.05
        falling = Panel((45, 25, 300, 220), (0, 1), (0, most))
        falling.axes("share answered", "errors among answers")
        falling.curve(covered[some], risk[some], "b")
        found = {"reliability": even, "risk against coverage": falling}
        if self.curve is not None:
            found["learning curve"] = self.curve.panel()
        return {name: sheet(365, 290, name, panel.parts) for name, panel in found.items()}

    def to_html(self, title: str = "Report of a classifier") -> str:
        """One page, without script and without other files."""
        low, high = two_sided_limits(round(self.accuracy * self.n), self.n, _DELTA)
        parts = [
            f"<p>{self.n:,} texts, {len(self.classes)} classes. Accuracy {self.accuracy:.3f} "
            f"({low:.3f} to {high:.3f}), ECE {self.ece:.3f}, Brier score {self.brier:.3f}. "
            "Intervals are 95 % each.</p>",
            f'<div class="figures">{"".join(self.figures().values())}</div>',
            "" if self.curve is None else f"<p>{escaped(self.curve)}</p>",
            "<h2>Classes</h2>", self._class_table(),
            "<h2>Confusion matrix</h2>", self._confusion_table(),
        ]  # fmt: skip
        if self.top_words:
            rows = [(name, ", ".join(word for word, _ in words))
                    for name, words in self.top_words.items()]  # fmt: skip
            parts += ["<h2>Words of each class</h2>", html_table(["class", "words"], rows, (1,))]
        return html_page(title, "".join(parts))

    def _repr_html_(self) -> str:
        return self.to_html()

    def __str__(self) -> str:
        lines = [f"accuracy {self.accuracy:.4f} on {self.n:,} texts, ECE {self.ece:.4f}, "
                 f"Brier {self.brier:.4f}"]  # fmt: skip
        for row in self.per_class():
            lines.append(
                f"{row['class']}: precision {row['precision']:.3f}, recall {row['recall']:.3f}, "
                f"F1 {row['f1']:.3f}, {row['texts']:,} texts"
            )
        return "\n".join(lines)

    def _class_table(self):
        rows = [
            (row["class"], f"{row['texts']:,}",
             *(f"{row[k]:.3f} ({row[k + '_interval'][0]:.3f} to {row[k + '_interval'][1]:.3f})"
               for k in ("precision", "recall", "f1")))
            for row in self.per_class()
        ]  # fmt: skip
        return html_table(["class", "texts", "precision", "recall", "F1"], rows)

    def _confusion_table(self):
        if len(self.classes) > _CELLS:
            off = self.confusion - np.diag(np.diag(self.confusion))
            pairs = np.dstack(np.unravel_index(np.argsort(-off, axis=None)[:40], off.shape))[0]
            rows = [(self.classes[a], self.classes[b], off[a, b]) for a, b in pairs if off[a, b]]
            return html_table(["right", "predicted", "texts"], rows, (0, 1))
        head = "".join(f"<th><bdi>{escaped(c)}</bdi></th>" for c in self.classes)
        shares = self.confusion / np.maximum(self.confusion.sum(axis=1, keepdims=True), 1)
        body = "".join(
            f"<tr><td><bdi>{escaped(name)}</bdi></td>" + "".join(
                f'<td class="cell" style="--share:{0.7 * share:.2f}">{count:,}</td>'
                for count, share in zip(row, of_row)) + "</tr>"
            for name, row, of_row in zip(self.classes, self.confusion, shares)
        )  # fmt: skip
        return (
            f'<div class="wide"><table><tr><th>right \\ predicted</th>{head}</tr>{body}</table>'
            "</div>"
        )


def report(
    model: Any, texts: Iterable[str], labels: Sequence, *, curve: "LearningCurve | None" = None
) -> Diagnostics:
    """How a fitted classifier does on labelled texts that it was not fitted on.

    Parameters
    ----------
    model : fitted TextClassifier or CertifiedClassifier
    texts : iterable of str
    labels : array of str or int, one for each text
    curve : LearningCurve, optional
        That of the training labels, to be shown as well.

    Examples
    --------
    >>> from pacsent import TextClassifier
    >>> from pacsent.classify.diagnostics import report
    >>> texts = [f"a {word} film, number {n}" for n in range(40) for word in ("good", "bad")]
    >>> model = TextClassifier().fit(texts[:60], ["up", "down"] * 30)
    >>> found = report(model, texts[60:], ["up", "down"] * 10)
    >>> found.accuracy, found.confusion.tolist()
    (1.0, [[10, 0], [0, 10]])
    """
    texts = as_texts(texts)
    if not texts:
        raise ValueError("texts must hold at least one text. Got none instead.")
    if getattr(model, "targets_", "classes") != "classes":
        raise ValueError("model must have one class a text. Got several labels a text instead.")
    y = inputs.positions(model.classes_, inputs.counted(labels), len(texts))
    proba = np.asarray(model.predict_proba(texts), np.float64)
    n_classes = model.classes_.size
    confusion = np.zeros((n_classes, n_classes), np.int64)
    np.add.at(confusion, (y, proba.argmax(axis=1)), 1)
    inner = getattr(model, "estimator_", model)
    words = {}
    if hasattr(inner, "top_features"):
        words = {str(c): inner.top_features(c, 12) for c in inner.classes_.tolist()}
    return Diagnostics(model.classes_.tolist(), confusion, proba, y, curve, words)
