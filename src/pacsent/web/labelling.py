"""Labelling: two streams of texts, the models they make, and the error certified so far.

Texts drawn at random judge: no model learns from them. The other texts teach: `next_to_label`
selects among them. The classifier that the bound is about is the last one fitted at a size that was
fixed beforehand (25, 50, 100, ... teaching labels), on teaching labels alone. By Theorem 19 of the
theory page the bound is valid for all of them at all times at once.
"""

import hashlib
import itertools
import json
import os
import threading
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from pacsent import files
from pacsent.guarantees.count_certificates import AnytimeCertificate, certify_stream
from pacsent.guarantees.independence import as_seed
from pacsent.guarantees.samples import digests
from pacsent.maths.checks import check_probability, is_count
from pacsent.storage import save
from pacsent.text.texts import as_texts
from pacsent.web.annotators import agreement
from pacsent.web.label_answers import SIZES, LabelAnswers, draw_streams, text_clusters
from pacsent.web.label_journal import Journal
from pacsent.web.label_models import LabelModels

_RESERVED_SECONDS = 120.0  # for which a text that a tab shows is offered to no other
_OVERLAP = 0.1  # fraction of an annotator's texts that others have labelled before
JUDGE, TEACH, AGREEMENT = "judge", "teach", "agreement"


class Task(NamedTuple):
    """A text to label. The guess is shown for texts that teach, and hidden for all others."""

    row: int
    text: str
    stream: str
    guess: Any = None
    probability: float | None = None
    pieces: tuple[tuple[str, float], ...] = ()


class Labelling:
    """Texts being labelled by one or several people; every answer is in the journal at once.

    Parameters
    ----------
    texts : iterable of str
        One text of each near-duplicate cluster is offered; texts without a word never are.
    classes : sequence of str
        At least two.
    folder : path
        Contains the journal; labelling continues where it ended.
    delta : float, default=0.05
        Probability that the certified error is false at some time.
    goal : float, optional
        Certified error at which `status` reports that labels are enough.
    judging : float, default=0.5
        Fraction of the texts, and of the labels, that judge.
    encoder : encoder, name or None, default="english"
        For `TextClassifier`.
    random_state : int, optional
        Decides which texts judge, and their order; drawn if omitted, and kept in the journal.

    Examples
    --------
    >>> import tempfile
    >>> texts = [f"{w} {c * 3} {c * 4}" for c in "abcdefgh" for w in ("good", "bad")]
    >>> with Labelling(texts, ["up", "down"], tempfile.mkdtemp(), encoder=None) as labelling:
    ...     for _ in range(6):
    ...         task = labelling.next("ann")
    ...         labelling.answer(task.row, "up" if task.text[0] == "g" else "down", "ann")
    ...     labelling.status()["n_labels"]
    6
    """

    def __init__(
        self,
        texts: Iterable[str],
        classes: Sequence[str],
        folder: str | os.PathLike,
        *,
        delta: float = 0.05,
        goal: float | None = None,
        judging: float = 0.5,
        encoder: Any = "english",
        random_state: int | None = None,
    ):
        self.texts = as_texts(texts)
        self.classes = [str(name).strip() for name in classes]
        if len(set(self.classes)) < max(2, len(self.classes)) or not all(self.classes):
            raise ValueError(
                f"labels must be at least two different names. Got {self.classes} instead, such "
                "as yes,no."
            )
        self.delta = check_probability("delta", delta)
        self.goal = None if goal is None else check_probability("goal", goal)
        self.folder = Path(folder)
        path = self.folder / "journal.jsonl"
        if random_state is not None or not (path.exists() and path.stat().st_size):
            random_state = as_seed(random_state)
        head = {
            "texts": hashlib.sha256(json.dumps(self.texts).encode()).hexdigest(),
            "classes": self.classes,
            "judging": check_probability("judging", judging),
            "delta": self.delta,
            "seed": random_state,
        }
        clusters = text_clusters(self.texts)
        self._journal = Journal(path, head)
        self.streams = draw_streams(clusters, judging, self._journal.head["seed"])
        self._judging_fraction = judging
        self._judging_rows = frozenset(self.streams.judging)
        self._lock = threading.RLock()
        self._reserved: dict[str, tuple[int, float]] = {}  # tab -> row that it shows, since when
        self._answers = LabelAnswers(self._judging_rows)
        for number, record in enumerate(self._journal.records, 2):
            try:
                if "undo" not in record:
                    self._check_answer(record["row"], record["label"])
                self._answers.apply(record)
            except (ValueError, KeyError, IndexError, TypeError):
                self._journal.close()
                raise ValueError(
                    f"Line {number:,} of {path} must be an answer to one of the texts. Got "
                    f"{json.dumps(record)[:60]} instead. Restore the file, or delete the line."
                ) from None
        self._models = LabelModels(self.texts, self.streams, self._answers, self._lock, encoder)

    # ---- texts ---------------------------------------------------------------------------------

    def next(self, who: str = "", tab: str = "") -> Task | None:
        """The text that this tab of this annotator shows; None if there are no more."""
        tab = f"{who}/{tab}"
        while True:
            with self._lock:
                row: int | None = self._reserved.get(tab, (None, 0.0))[0]
                if row is None or who in self._answers.by_row.get(row, {}):
                    self._reserved.pop(tab, None)
                    row = self._select_row(who)
                    if row is None:
                        return None
                stream = JUDGE if row in self._judging_rows else TEACH
                if any(other != who for other in self._answers.by_row.get(row, {})):
                    stream = AGREEMENT
                model, fitting = self._models.working, self._models.fitting
                if stream != TEACH or fitting.done():
                    self._reserved[tab] = row, time.monotonic()
                    break
            # Which texts teach depends on labels that teach, not on how long answers took.
            fitting.result()
        if stream != TEACH or model is None:
            return Task(row, self.texts[row], stream)
        why = model.explain(self.texts[row])
        pieces = tuple((piece, share if value > 0 else 0.0) for piece, value, share in why.pieces())
        return Task(row, self.texts[row], stream, why.label, why.probability, pieces)

    def _select_row(self, who: str) -> int | None:
        now, by_row = time.monotonic(), self._answers.by_row
        shown = {r for r, since in self._reserved.values() if now - since < _RESERVED_SECONDS}
        own = [row for row, answers in by_row.items() if who in answers]
        if sum(len(by_row[row]) > 1 for row in own) < _OVERLAP * (len(own) + 1):
            for row, answers in by_row.items():  # a text that somebody else has labelled
                is_labelled = any(label is not None for label in answers.values())
                if is_labelled and who not in answers and row not in shown:
                    return row
        busy = set(by_row) | shown
        judging = (row for row in self.streams.judging if row not in busy)
        candidates = (*self._models.queue, *self.streams.teaching)
        teaching = (row for row in candidates if row not in busy)
        n_judging = len(busy & self._judging_rows)
        judging_first = n_judging < self._judging_fraction * (len(busy) + 1) - 1e-9
        in_order = (judging, teaching) if judging_first else (teaching, judging)
        # The last texts may be shown by a tab that was closed: they are offered twice.
        waiting = (row for row in shown if row not in by_row)
        return next(itertools.chain(*in_order, waiting), None)

    # ---- answers -------------------------------------------------------------------------------

    def answer(self, row: int, label: str | None, who: str = "") -> None:
        """Keep an answer, None for a skip; it is on disk when this returns."""
        self._check_answer(row, label)
        self._keep({"row": int(row), "label": label, "who": who, "time": round(time.time(), 3)})

    def _check_answer(self, row: int, label: str | None) -> None:
        if label is not None and label not in self.classes:
            raise ValueError(f"label must be one of {self.classes}. Got {label!r} instead.")
        if not is_count(row) or row >= len(self.texts):
            raise ValueError(f"row must be from 0 to {len(self.texts) - 1:,}. Got {row} instead.")

    def leave(self, who: str = "", tab: str = "") -> None:
        """The tab was closed: its text is offered to others at once."""
        with self._lock:
            self._reserved.pop(f"{who}/{tab}", None)

    def undo(self, who: str = "", tab: str = "") -> int | None:
        """Take back the last answer of an annotator; its row, which this tab shows next."""
        with self._lock:
            row = self._answers.last_row(who)
            if row is not None:
                self._keep({"undo": row, "who": who, "time": round(time.time(), 3)})
                self._reserved[f"{who}/{tab}"] = row, time.monotonic()
            return row

    def _keep(self, record: dict[str, Any]) -> None:
        with self._lock:
            self._journal.append(record)
            self._answers.apply(record)
            self._models.update()

    def labels(self) -> dict[int, Any]:
        """The label of each row that has one; of several annotators the majority."""
        with self._lock:
            return self._answers.labels()

    # ---- the guarantee -------------------------------------------------------------------------

    def judged_rows(self) -> list[int]:
        """Rows of the judging texts that the certificate counts."""
        with self._lock:
            return self._answers.judged_rows(self.streams.judging)

    def certificate(self) -> AnytimeCertificate | None:
        """The error of the present classifier on new texts; None before there is one."""
        with self._lock:
            certified, rows, labels = self._models.certified, self.judged_rows(), self.labels()
        if certified is None or not rows:
            return None
        new = [row for row in rows if row not in certified.predictions]
        if new:
            predictions = certified.model.predict([self.texts[row] for row in new]).tolist()
            certified.predictions.update(zip(new, predictions))
        losses = [certified.predictions[row] != labels[row] for row in rows]
        taught, judging = certified.n_taught, self._judging_fraction
        return certify_stream(losses, self.delta, n_taught=taught, judging=judging)

    def status(self) -> dict[str, Any]:
        """Counts, the certified error, and the agreement of annotators."""
        certificate = self.certificate()
        with self._lock:
            labels, by_row = self._answers.labels(), self._answers.by_row
            counts = Counter(labels.values())
            n_judge = len(self._judging_rows.intersection(labels))
            shared = {
                row: {who: label for who, label in answers.items() if label is not None}
                for row, answers in by_row.items()
            }
            status: dict[str, Any] = {
                "n_labels": len(labels),
                "n_judge": n_judge,
                "n_skipped": len(by_row) - len(labels),
                "n_texts": (n := len(self.streams.judging) + len(self.streams.teaching)),
                "n_omitted": len(self.texts) - n,  # copies, and texts without a word
                "classes": self.classes,
                "counts": [counts[name] for name in self.classes],
                "goal": self.goal,
                "delta": self.delta,
                "agreement": agreement(shared),
                "first_model": SIZES[0] - (len(labels) - n_judge),
            }
        bound = None if certificate is None else certificate.error_upper
        return status | {
            "accuracy": None if certificate is None else 1 - certificate.observed,
            "error_upper": bound,
            "n_judged": 0 if certificate is None else certificate.n,
            "n_taught": 0 if certificate is None else certificate.n_taught,
            # labels behind a judging text that another tab shows
            "n_waiting": 0 if certificate is None else n_judge - len(self.judged_rows()),
            # the part of the way from an error of 1 to the goal, or to 0 without one
            "progress": 0 if bound is None else min(1, (1 - bound) / (1 - (self.goal or 0))),
            "reached": bool(self.goal and bound is not None and bound <= self.goal),
        }

    def save(self) -> AnytimeCertificate | None:
        """Write the classifier (`model`) and its certificate into the folder, if there are any."""
        self.wait()
        certificate, certified = self.certificate(), self._models.certified
        if certificate is None or certified is None:
            return None
        rows, labels = self.judged_rows()[: certificate.n], self.labels()
        evidence = digests(
            certified.model,
            [self.texts[row] for row in rows],
            [labels[row] for row in rows],
            [certified.predictions[row] for row in rows],
        )
        certificate = replace(certificate, digests=evidence)
        save(certified.model, self.folder / "model", overwrite=True)
        with files.replacing(self.folder / "certificate.json") as file:
            file.write(certificate.to_json().encode())
        return certificate

    def wait(self) -> None:
        """Wait until the models are those of the labels at hand."""
        self._models.wait()

    def close(self) -> None:
        """End the thread and release the journal."""
        self._models.close()
        self._journal.close()

    def __enter__(self) -> "Labelling":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
