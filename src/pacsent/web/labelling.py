"""Sessions of the labelling page: labelling texts, and checking the labels of a machine.

Labelling has two streams. Texts drawn at random evaluate: no model is trained on them. The others
train: `next_to_label` selects among them. The bound is about the last classifier that was fitted at
a size fixed beforehand (25, 50, 100, ... training labels): Theorem 19 of the theory page.
"""

import itertools
import json
import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np

from pacsent import files
from pacsent.bounds.checks import check_probability, is_count
from pacsent.certify.count_certificates import AnytimeCertificate, certify_stream
from pacsent.certify.independence import as_seed
from pacsent.certify.samples import digest, digests
from pacsent.classify.label_checking import LabelCheckCertificate, LabelChecker, label_scores
from pacsent.storage import save
from pacsent.text.ngrams import nonempty_rows
from pacsent.text.texts import as_texts
from pacsent.web.label_answers import SIZES, LabelAnswers, agreement, draw_streams, text_clusters
from pacsent.web.label_journal import Journal
from pacsent.web.label_models import LabelModels

_RESERVED_SECONDS = 120.0  # for which a text that a tab shows is offered to no other
_OVERLAP = 0.1  # fraction of an annotator's texts that others have labelled before
EVALUATE, TRAIN, READ, AGREEMENT = "evaluate", "train", "read", "agreement"


class Task(NamedTuple):
    """A text to label. The guess is shown for training texts, and hidden for all others."""

    row: int
    text: str
    stream: str
    guess: Any = None
    probability: float | None = None
    pieces: tuple[tuple[str, float], ...] = ()


class LabelSession:
    """Texts being labelled by one or several people; every answer is in the journal at once.

    The journal in `folder` begins with `head`; the session continues where it ended. Subclasses
    have `next`, and `_candidates`: the rows to label when some are shown already.
    """

    next: Callable[..., Task | None]
    _candidates: Callable[[set[int]], Iterable[int]]

    def __init__(self, texts: Any, classes: Any, folder: Any, random_state: Any, head: dict):
        self.texts = as_texts(texts)
        self.classes = [str(name).strip() for name in classes]
        if len(set(self.classes)) < max(2, len(self.classes)) or not all(self.classes):
            raise ValueError(
                f"labels must be at least two different names. Got {self.classes} instead, such "
                "as yes,no."
            )
        self.folder = Path(folder)
        path = self.folder / "journal.jsonl"
        seed = as_seed(random_state)
        known_seed = None if random_state is None else seed
        head = {"texts": digest(self.texts), "classes": self.classes, **head, "seed": known_seed}
        self._journal = Journal(path, head, {"seed": seed})
        self.seed = self._journal.head["seed"]
        self._lock = threading.RLock()
        self._reserved: dict[str, tuple[int, float]] = {}  # tab -> row that it shows, since when

    def _replay(self, evaluation_rows: frozenset[int] = frozenset()) -> None:
        """Restore the answers of the journal."""
        self._answers = LabelAnswers(evaluation_rows)
        for number, record in enumerate(self._journal.records, 2):
            try:
                if "undo" not in record:
                    self._check_answer(record["row"], record["label"])
                self._answers.apply(record)
            except (ValueError, KeyError, IndexError, TypeError):
                self._journal.close()
                raise ValueError(
                    f"Line {number:,} of {self._journal.path} must be an answer to one of the "
                    f"texts. Got {json.dumps(record)[:60]} instead. Restore the file, or delete "
                    "the line."
                ) from None

    def _select_row(self, who: str, tab: str) -> int | None:
        """The row that this tab shows, or the next one if its annotator has answered it."""
        by_row = self._answers.by_row
        row = self._reserved.get(tab, (None, 0.0))[0]
        if row is not None and who not in by_row.get(row, {}):
            return row
        self._reserved.pop(tab, None)
        now = time.monotonic()
        shown = {r for r, since in self._reserved.values() if now - since < _RESERVED_SECONDS}
        own = [row for row, answers in by_row.items() if who in answers]
        if sum(len(by_row[row]) > 1 for row in own) < _OVERLAP * (len(own) + 1):
            for row, answers in by_row.items():  # a text that somebody else has labelled
                is_labelled = any(label is not None for label in answers.values())
                if is_labelled and who not in answers and row not in shown:
                    return row
        return next(iter(self._candidates(shown)), None)

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

    def labels(self) -> dict[int, Any]:
        """The label of each row that has one; of several annotators the majority."""
        with self._lock:
            return self._answers.labels()

    def status(self) -> dict[str, Any]:
        """Counts of answers, and the agreement of annotators."""
        with self._lock:
            labels, by_row = self._answers.labels(), self._answers.by_row
            counts = Counter(labels.values())
            return {
                "n_labels": len(labels),
                "n_skipped": len(by_row) - len(labels),
                "classes": self.classes,
                "counts": [counts[name] for name in self.classes],
                "agreement": agreement(by_row),
            }

    def close(self) -> None:
        """Release the journal."""
        self._journal.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Labelling(LabelSession):
    """Texts labelled by one or several people, and a classifier whose error is certified.

    Parameters
    ----------
    texts, classes : iterable of str
        One text of each near-duplicate cluster is offered; empty texts never are.
    folder : path
        Contains the journal; labelling continues where it ended.
    delta : float, default=0.05
        Probability that the certified error is false at some time.
    goal, evaluation_size : float
        Certified error at which labels are enough, and the fraction of texts for evaluation.
    encoder, random_state
        For `TextClassifier`, and for the evaluation texts and their order; kept in the journal.

    Examples
    --------
    >>> import tempfile
    >>> texts = [f"{w} {c * 3} {c * 4}" for c in "abcdefgh" for w in ("good", "bad")]
    >>> with Labelling(texts, ["up", "down"], tempfile.mkdtemp(), encoder=None) as labelling:
    ...     labelling.answer(labelling.next("ann").row, "up", "ann")
    ...     labelling.status()["n_labels"]
    1
    """

    def __init__(
        self,
        texts: Iterable[str],
        classes: Sequence[str],
        folder: str | os.PathLike,
        *,
        delta: float = 0.05,
        goal: float | None = None,
        evaluation_size: float = 0.5,
        encoder: Any = "english",
        random_state: int | None = None,
    ):
        self.delta = check_probability("delta", delta)
        self.goal = None if goal is None else check_probability("goal", goal)
        self._evaluation_size = check_probability("evaluation_size", evaluation_size)
        texts = as_texts(texts)
        clusters = text_clusters(texts)
        head = {"evaluation_size": evaluation_size, "delta": delta}
        super().__init__(texts, classes, folder, random_state, head)
        self.streams = draw_streams(clusters, evaluation_size, self.seed)
        clusters_with_words = clusters[clusters >= 0]
        self._n_duplicates = clusters_with_words.size - np.unique(clusters_with_words).size
        self._evaluation_rows = frozenset(self.streams.evaluation)
        self._replay(self._evaluation_rows)
        self._models = LabelModels(self.texts, self.streams, self._answers, self._lock, encoder)

    def next(self, who: str = "", tab: str = "") -> Task | None:
        """The text that this tab of this annotator shows; None if there are no more."""
        tab = f"{who}/{tab}"
        while True:
            with self._lock:
                row = self._select_row(who, tab)
                if row is None:
                    return None
                stream = EVALUATE if row in self._evaluation_rows else TRAIN
                if any(other != who for other in self._answers.by_row.get(row, {})):
                    stream = AGREEMENT
                model, fitting = self._models.working, self._models.fitting
                if stream != TRAIN or fitting.done():
                    self._reserved[tab] = row, time.monotonic()
                    break
            # Which texts train depends on training labels, not on how long answers took.
            fitting.result()
        if stream != TRAIN or model is None:
            return Task(row, self.texts[row], stream)
        why = model.explain(self.texts[row])
        pieces = tuple(
            (piece, share if value > 0 else 0.0) for piece, value, share in why.segments()
        )
        return Task(row, self.texts[row], stream, why.label, why.probability, pieces)

    def _candidates(self, shown: set[int]) -> Iterable[int]:
        by_row = self._answers.by_row
        busy = set(by_row) | shown
        evaluation = (row for row in self.streams.evaluation if row not in busy)
        candidates = (*self._models.queue, *self.streams.training)
        training = (row for row in candidates if row not in busy)
        n_evaluation = len(busy & self._evaluation_rows)
        evaluation_first = n_evaluation < self._evaluation_size * (len(busy) + 1) - 1e-9
        in_order = (evaluation, training) if evaluation_first else (training, evaluation)
        # The last texts may be shown by a tab that was closed: they are offered twice.
        waiting = (row for row in shown if row not in by_row)
        return itertools.chain(*in_order, waiting)

    def _keep(self, record: dict[str, Any]) -> None:
        with self._lock:
            super()._keep(record)
            self._models.update()

    def evaluated_rows(self) -> list[int]:
        """Rows of the evaluation texts that the certificate counts."""
        with self._lock:
            return self._answers.evaluated_rows(self.streams.evaluation)

    def certificate(self) -> AnytimeCertificate | None:
        """The error of the present classifier on new texts; None before there is one."""
        with self._lock:
            certified, rows, labels = self._models.certified, self.evaluated_rows(), self.labels()
        if certified is None or not rows:
            return None
        new = [row for row in rows if row not in certified.predictions]
        if new:
            predictions = certified.model.predict([self.texts[row] for row in new]).tolist()
            certified.predictions.update(zip(new, predictions))
        losses = [certified.predictions[row] != labels[row] for row in rows]
        n, size = certified.n_training, self._evaluation_size
        return certify_stream(
            losses,
            self.delta,
            n_training=n,
            evaluation_size=size,
            n_duplicates=self._n_duplicates,
        )

    def status(self) -> dict[str, Any]:
        """Counts, the certified error, and the agreement of annotators."""
        certificate, labels = self.certificate(), self.labels()
        n_evaluation = len(self._evaluation_rows.intersection(labels))
        n_texts = len(self.streams.evaluation) + len(self.streams.training)
        bound = None if certificate is None else certificate.error_upper
        return super().status() | {
            "n_evaluation": n_evaluation,
            "n_texts": n_texts,
            "n_omitted": len(self.texts) - n_texts,  # copies, and empty texts
            "goal": self.goal,
            "delta": self.delta,
            "first_model": SIZES[0] - (len(labels) - n_evaluation),
            "accuracy": None if certificate is None else 1 - certificate.observed,
            "error_upper": bound,
            "n_evaluated": 0 if certificate is None else certificate.n,
            "n_training": 0 if certificate is None else certificate.n_training,
            # labels behind an evaluation text that another tab shows
            "n_waiting": 0 if certificate is None else n_evaluation - len(self.evaluated_rows()),
            # the part of the way from an error of 1 to the goal, or to 0 without one
            "progress": 0 if bound is None else min(1, (1 - bound) / (1 - (self.goal or 0))),
            "reached": bool(self.goal and bound is not None and bound <= self.goal),
        }

    def save(self) -> AnytimeCertificate | None:
        """Write the classifier (`model`) and its certificate into the folder, if there are any."""
        self.wait()
        with self._lock:  # no answer, no model and no other tab may come in between
            certificate, certified = self.certificate(), self._models.certified
            if certificate is None or certified is None:
                return None
            rows, labels = self.evaluated_rows()[: certificate.n], self.labels()
            judged = [(self.texts[row], labels[row], certified.predictions[row]) for row in rows]
            evidence = digests(certified.model, *map(list, zip(*judged)))
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
        super().close()


class LabelCheck(LabelSession):
    """Labels of a machine that people check until few wrong ones remain, as in `check_labels`.

    The rows of the random sample are shown without the machine's label, as people agree too often
    with one that they see; all other rows with it.

    Parameters
    ----------
    texts, labels : one label of the machine for each text
    folder : path
        Contains the journal; checking continues where it ended.
    scores : list of float, or None
        Larger for labels that can be trusted more; None: by a classifier, as in `check_labels`.
    classes : iterable of str
        Classes that the machine never gives.
    known : dict, optional
        Labels that people gave before, by row: these rows are not shown.
    known_are_random : bool
        Whether the known rows were drawn at random from the table: the sample begins with them.
    error, delta, n_candidates, random_state : see `check_labels`
    """

    def __init__(
        self,
        texts: Any,
        labels: Any,
        folder: Any,
        scores: Any,
        classes: Any,
        *,
        error: float,
        delta: float,
        n_candidates: int = 1,
        random_state: int | None = None,
        known: Mapping[int, Any] | None = None,
        known_are_random: bool = False,
    ):
        texts = as_texts(texts)
        self.machine = list(labels)
        self.known = dict(known or {})
        self._how = {"error": error, "delta": delta}
        if n_candidates > 1:  # journals that began without it do not name it
            self._how["n_candidates"] = n_candidates
        # Empty texts are not shown and not counted: position in the checker -> row of the table.
        self._rows = nonempty_rows(texts).tolist()
        self._position = {row: position for position, row in enumerate(self._rows)}
        self.known = {row: label for row, label in self.known.items() if row in self._position}
        kept_labels = [self.machine[row] for row in self._rows]
        classes = sorted({*kept_labels, *classes})

        head = {"labels": digest(self.machine), "scores": digest(scores or []), **self._how}
        if self.known:
            names = [self.known.get(row, "") for row in range(len(texts))]
            head["known"] = digest([*names, str(known_are_random)])
        path = Path(folder) / "scores.npy"
        if scores is not None:
            kept_scores = np.array([scores[row] for row in self._rows])
        elif path.exists() and path.with_name("journal.jsonl").exists():
            kept_scores = np.load(path)
        else:
            kept_scores = label_scores([texts[row] for row in self._rows], kept_labels)
        random_rows = [self._position[row] for row in self.known] if known_are_random else []
        how: dict[str, Any] = {"labels": kept_labels, "random_rows": random_rows, **self._how}
        LabelChecker(kept_scores, random_state=0, **how)  # raises before a journal begins
        super().__init__(texts, classes, folder, random_state, head)
        with files.replacing(path) as file:
            np.save(file, kept_scores)
        self._checker = LabelChecker(kept_scores, random_state=self.seed, **how)
        self._replay()

    def labels(self) -> dict[int, Any]:
        """The label of each row that has one by a person."""
        return self.known | super().labels()

    def _check_answer(self, row: int, label: str | None) -> None:
        super()._check_answer(row, label)
        if row not in self._position:
            raise ValueError(f"row must have a text. Row {row:,} is empty.")

    def _read_answers(self) -> dict[int, bool | None]:
        """For each position that was shown whether the machine is wrong; None: skipped."""
        labels = self.known | self._answers.labels()
        is_wrong = {row: label != self.machine[row] for row, label in labels.items()}
        skipped = {row: None for row in self._answers.by_row if row not in labels}
        return {self._position[row]: wrong for row, wrong in (is_wrong | skipped).items()}

    def progress(self) -> tuple[list[int], LabelCheckCertificate | None]:
        """The rows still to be read, which the bound so far counts as wrong."""
        with self._lock:
            positions, certificate = self._checker.next(self._read_answers())
            return [self._rows[position] for position in positions], certificate

    def _candidates(self, shown: set[int]) -> Iterable[int]:
        rows = self.progress()[0]
        return [*(row for row in rows if row not in shown), *rows]

    def next(self, who: str = "", tab: str = "") -> Task | None:
        """The text that this tab of this annotator shows; None if few wrong labels remain."""
        with self._lock:
            rows, certificate = self.progress()
            row = self._select_row(who, f"{who}/{tab}") if rows else None
            if row is None:
                return None
            self._reserved[f"{who}/{tab}"] = row, time.monotonic()
            if self._answers.by_row.get(row):
                return Task(row, self.texts[row], AGREEMENT)
            guess = (EVALUATE, None) if certificate is None else (READ, self.machine[row])
            return Task(row, self.texts[row], *guess)

    def results(self) -> dict[str, list]:
        """The columns to write: the final label of each row, and who gave it.

        `labelled_by` is "person" or "machine", and `sampled` is "yes" for the rows that were drawn
        at random and that a person labelled: these alone tell how good a classifier is. Empty texts
        and skipped rows have no label.
        """
        with self._lock:
            labels, by_row = self.labels(), self._answers.by_row
            sampled = self._checker.sampled_rows(self._read_answers())
            sampled_rows = {self._rows[position] for position in sampled} & labels.keys()
            annotators = {row: ", ".join(answers) for row, answers in by_row.items()}
        final: list = []
        labelled_by: list = []
        for row, label in enumerate(self.machine):
            is_read = row in labels or row in annotators
            is_text = row in self._position
            final.append(labels.get(row) if is_read or not is_text else label)
            labelled_by.append(("person" if is_read else "machine") if is_text else None)
        rows = range(len(self.machine))
        columns = {
            "final_label": final,
            "labelled_by": labelled_by,
            "sampled": ["yes" if row in sampled_rows else "no" for row in rows],
        }
        if any(who != "person" for who in annotators.values()):
            columns["annotators"] = [annotators.get(row) for row in rows]
        return columns

    def status(self) -> dict[str, Any]:
        """Counts, the bound so far, and the agreement of annotators."""
        with self._lock:
            status, (rows, certificate) = super().status() | self._how, self.progress()
            by_row = self._answers.by_row.items()
            n_read = len(self._read_answers())
            sample_least, sample_most = self._checker.sample_forecast(self._read_answers())
            apart = {row: dict(who) for row, who in by_row if len(set(who.values())) > 1}
        bound = None if certificate is None else certificate.error_upper
        return status | {
            "n_unread": len(rows),
            "n_sample_least": sample_least,
            "n_sample_most": sample_most,
            "n_texts": len(self._rows),
            "n_omitted": len(self.texts) - len(self._rows),
            "n_read": n_read,
            "goal": status["error"],
            "error_upper": bound,
            "progress": n_read / max(n_read + len(rows), 1),
            "reached": not rows and bound is not None and bound <= status["error"] + 1e-12,
            "ended": not rows,
            "disagreements": apart,
        }
