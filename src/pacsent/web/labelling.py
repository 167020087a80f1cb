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
from functools import partial
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

# The streams of a `Task`.
EVALUATE = "evaluate"
TRAIN = "train"
READ = "read"
AGREEMENT = "agreement"


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

    def __init__(
        self, texts: Any, classes: Any, folder: Any, random_state: Any, head: dict
    ) -> None:
        self.texts = as_texts(texts)
        self.classes = [str(name).strip() for name in classes]
        self._check_classes()

        # A seed that was not chosen by the user is that of the journal, if there is one.
        seed = as_seed(random_state)
        head = {
            "texts": digest(self.texts),
            "classes": self.classes,
            **head,
            "seed": None if random_state is None else seed,
        }
        self.folder = Path(folder)
        self._journal = Journal(self.folder / "journal.jsonl", head, {"seed": seed})
        self.seed = self._journal.head["seed"]

        self._lock = threading.RLock()
        self._reserved: dict[str, tuple[int, float]] = {}  # tab -> row that it shows, since when

    def _check_classes(self) -> None:
        has_duplicates = len(set(self.classes)) < len(self.classes)
        has_empty_name = not all(self.classes)
        if len(self.classes) < 2 or has_duplicates or has_empty_name:
            raise ValueError(
                f"labels must be at least two different names. Got {self.classes} instead, such "
                "as yes,no."
            )

    def _replay(self, evaluation_rows: frozenset[int] = frozenset()) -> None:
        """Restore the answers of the journal."""
        self._answers = LabelAnswers(evaluation_rows)

        # The first line of the journal is its head.
        for number, record in enumerate(self._journal.records, 2):
            try:
                if "undo" not in record:
                    self._check_answer(record["row"], record["label"])
                self._answers.apply(record)
            except (ValueError, KeyError, IndexError, TypeError):
                self._journal.close()
                shown_record = json.dumps(record)[:60]
                raise ValueError(
                    f"Line {number:,} of {self._journal.path} must be an answer to one of the "
                    f"texts. Got {shown_record} instead. Restore the file, or delete the line."
                ) from None

    def _select_row(self, who: str, tab: str) -> int | None:
        """The row that this tab shows, or the next one if its annotator has answered it."""
        by_row = self._answers.by_row
        if tab in self._reserved:
            row_of_tab, _ = self._reserved[tab]
            if who not in by_row.get(row_of_tab, {}):
                return row_of_tab
            del self._reserved[tab]

        now = time.monotonic()
        shown_rows: set[int] = set()
        for row, since in self._reserved.values():
            if now - since < _RESERVED_SECONDS:
                shown_rows.add(row)

        own_rows = [row for row, answers in by_row.items() if who in answers]
        n_shared = sum(len(by_row[row]) > 1 for row in own_rows)
        if n_shared < _OVERLAP * (len(own_rows) + 1):
            row_of_others = self._find_row_of_others(who, shown_rows)
            if row_of_others is not None:
                return row_of_others

        return next(iter(self._candidates(shown_rows)), None)

    def _find_row_of_others(self, who: str, shown_rows: set[int]) -> int | None:
        """The first text that somebody else has labelled, to measure agreement."""
        for row, answers in self._answers.by_row.items():
            is_labelled = any(label is not None for label in answers.values())
            if is_labelled and who not in answers and row not in shown_rows:
                return row
        return None

    def answer(self, row: int, label: str | None, who: str = "") -> None:
        """Keep an answer; it is on disk when this returns.

        Parameters
        ----------
        row : int
            The text that was labelled.
        label : str or None
            One of `classes`; None skips the text.
        who : str
            The annotator.
        """
        self._check_answer(row, label)
        now = round(time.time(), 3)
        self._keep({"row": int(row), "label": label, "who": who, "time": now})

    def _check_answer(self, row: int, label: str | None) -> None:
        if label is not None and label not in self.classes:
            raise ValueError(f"label must be one of {self.classes}. Got {label!r} instead.")
        if not is_count(row) or row >= len(self.texts):
            raise ValueError(f"row must be from 0 to {len(self.texts) - 1:,}. Got {row} instead.")

    def leave(self, who: str = "", tab: str = "") -> None:
        """Offer the text of a closed tab to others at once.

        Parameters
        ----------
        who, tab : str
            The annotator, and the tab of the browser that was closed.
        """
        with self._lock:
            self._reserved.pop(f"{who}/{tab}", None)

    def undo(self, who: str = "", tab: str = "") -> int | None:
        """Take back the last answer of an annotator.

        Parameters
        ----------
        who, tab : str
            The annotator, and the tab that shows the text again.

        Returns
        -------
        row : int or None
            The row of the answer; None if there was no answer.
        """
        with self._lock:
            row = self._answers.last_row(who)
            if row is None:
                return None
            now = round(time.time(), 3)
            self._keep({"undo": row, "who": who, "time": now})
            self._reserve(row, who, tab)
            return row

    def _reserve(self, row: int, who: str, tab: str) -> None:
        """Offer a row, which this tab shows, to no other tab."""
        self._reserved[f"{who}/{tab}"] = row, time.monotonic()

    def _keep(self, record: dict[str, Any]) -> None:
        with self._lock:
            self._journal.append(record)
            self._answers.apply(record)

    def labels(self) -> dict[int, Any]:
        """Return the label of each row that has one.

        Returns
        -------
        labels : dict
            Row -> label; of several annotators the majority.
        """
        with self._lock:
            return self._answers.labels()

    def status(self) -> dict[str, Any]:
        """Return counts of answers, and the agreement of annotators.

        Returns
        -------
        status : dict
            As the page shows it.
        """
        with self._lock:
            labels = self._answers.labels()
            by_row = self._answers.by_row
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
    ) -> None:
        self.delta = check_probability("delta", delta)
        self.goal = None if goal is None else check_probability("goal", goal)
        self._evaluation_size = check_probability("evaluation_size", evaluation_size)
        texts = as_texts(texts)
        clusters = text_clusters(texts)  # (n_texts,)
        clusters_with_words = clusters[clusters >= 0]
        n_clusters = np.unique(clusters_with_words).size
        self._n_duplicates = clusters_with_words.size - n_clusters

        head = {"evaluation_size": evaluation_size, "delta": delta}
        super().__init__(texts, classes, folder, random_state, head)
        self.streams = draw_streams(clusters, evaluation_size, self.seed)
        self._evaluation_rows = frozenset(self.streams.evaluation)
        self._replay(self._evaluation_rows)
        self._models = LabelModels(self.texts, self.streams, self._answers, self._lock, encoder)

    def next(self, who: str = "", tab: str = "") -> Task | None:
        """Return the text that a tab of an annotator shows.

        Parameters
        ----------
        who, tab : str
            The annotator, and the tab of the browser.

        Returns
        -------
        task : Task or None
            None if there are no more texts.
        """
        while True:
            with self._lock:
                row = self._select_row(who, f"{who}/{tab}")
                if row is None:
                    return None
                stream = self._stream_of(row, who)
                model = self._models.working
                fitting = self._models.fitting
                if stream != TRAIN or fitting.done():
                    self._reserve(row, who, tab)
                    break
            # Which texts train depends on training labels, not on how long answers took.
            fitting.result()

        text = self.texts[row]
        if stream != TRAIN or model is None:
            return Task(row, text, stream)

        why = model.explain(text)
        pieces: list[tuple[str, float]] = []
        for piece, value, share in why.segments():
            pieces.append((piece, share if value > 0 else 0.0))
        return Task(row, text, stream, why.label, why.probability, tuple(pieces))

    def _stream_of(self, row: int, who: str) -> str:
        answers = self._answers.by_row.get(row, {})
        if any(other != who for other in answers):
            return AGREEMENT
        return EVALUATE if row in self._evaluation_rows else TRAIN

    def _candidates(self, shown: set[int]) -> Iterable[int]:
        by_row = self._answers.by_row
        busy = set(by_row) | shown
        evaluation = (row for row in self.streams.evaluation if row not in busy)
        training_candidates = (*self._models.queue, *self.streams.training)
        training = (row for row in training_candidates if row not in busy)
        # The last texts may be shown by a tab that was closed: they are offered twice.
        waiting = (row for row in shown if row not in by_row)

        n_evaluation = len(busy & self._evaluation_rows)
        if n_evaluation < self._evaluation_size * (len(busy) + 1) - 1e-9:
            return itertools.chain(evaluation, training, waiting)
        return itertools.chain(training, evaluation, waiting)

    def _keep(self, record: dict[str, Any]) -> None:
        with self._lock:
            super()._keep(record)
            self._models.update()

    def evaluated_rows(self) -> list[int]:
        """Return the rows of the evaluation texts that the certificate counts.

        Returns
        -------
        rows : list of int
            In the order in which they were drawn.
        """
        with self._lock:
            return self._answers.evaluated_rows(self.streams.evaluation)

    def certificate(self) -> AnytimeCertificate | None:
        """Certify the error of the present classifier on new texts.

        Returns
        -------
        certificate : AnytimeCertificate or None
            None before there is a classifier, or an evaluation text with a label.

        References
        ----------
        Theorem 19 of the theory page.
        """
        with self._lock:
            certified = self._models.certified
            rows = self.evaluated_rows()
            labels = self.labels()
        if certified is None or not rows:
            return None

        new_rows = [row for row in rows if row not in certified.predictions]
        if new_rows:
            new_texts = [self.texts[row] for row in new_rows]
            predictions = certified.model.predict(new_texts).tolist()
            certified.predictions.update(zip(new_rows, predictions))

        losses = [certified.predictions[row] != labels[row] for row in rows]
        return certify_stream(
            losses,
            self.delta,
            n_training=certified.n_training,
            evaluation_size=self._evaluation_size,
            n_duplicates=self._n_duplicates,
        )

    def status(self) -> dict[str, Any]:
        """Return counts, the certified error, and the agreement of annotators.

        Returns
        -------
        status : dict
            As the page shows it.
        """
        certificate = self.certificate()
        labels = self.labels()
        n_evaluation = len(self._evaluation_rows.intersection(labels))
        n_texts = len(self.streams.evaluation) + len(self.streams.training)
        status = super().status() | {
            "n_evaluation": n_evaluation,
            "n_texts": n_texts,
            "n_omitted": len(self.texts) - n_texts,  # copies, and empty texts
            "goal": self.goal,
            "delta": self.delta,
            "first_model": SIZES[0] - (len(labels) - n_evaluation),
        }
        if certificate is None:
            return status | {
                "accuracy": None,
                "error_upper": None,
                "n_evaluated": 0,
                "n_training": 0,
                "n_waiting": 0,
                "progress": 0,
                "reached": False,
            }

        bound = certificate.error_upper
        goal = self.goal or 0
        return status | {
            "accuracy": 1 - certificate.observed,
            "error_upper": bound,
            "n_evaluated": certificate.n,
            "n_training": certificate.n_training,
            # labels behind an evaluation text that another tab shows
            "n_waiting": n_evaluation - len(self.evaluated_rows()),
            # the part of the way from an error of 1 to the goal, or to 0 without one
            "progress": min(1, (1 - bound) / (1 - goal)),
            "reached": bool(self.goal and bound <= self.goal),
        }

    def save(self) -> AnytimeCertificate | None:
        """Write the classifier (`model`) and its certificate into the folder, if there are any.

        Returns
        -------
        certificate : AnytimeCertificate or None
            What was written, with digests of its evidence.
        """
        self.wait()
        with self._lock:  # no answer, no model and no other tab may come in between
            certificate = self.certificate()
            certified = self._models.certified
            if certificate is None or certified is None:
                return None

            rows = self.evaluated_rows()[: certificate.n]
            all_labels = self.labels()
            texts = [self.texts[row] for row in rows]
            labels = [all_labels[row] for row in rows]
            predictions = [certified.predictions[row] for row in rows]
            evidence = digests(certified.model, texts, labels, predictions)

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
    ) -> None:
        texts = as_texts(texts)
        self.machine = list(labels)
        self._how: dict[str, Any] = {"error": error, "delta": delta}
        if n_candidates > 1:  # journals that began without it do not name it
            self._how["n_candidates"] = n_candidates

        # Empty texts are not shown and not counted: position in the checker -> row of the table.
        self._rows = nonempty_rows(texts).tolist()
        self._position = {row: position for position, row in enumerate(self._rows)}
        self.known: dict[int, Any] = {}
        for row, label in dict(known or {}).items():
            if row in self._position:
                self.known[row] = label
        kept_labels = [self.machine[row] for row in self._rows]

        head = {"labels": digest(self.machine), "scores": digest(scores or []), **self._how}
        if self.known:
            names = [self.known.get(row, "") for row in range(len(texts))]
            head["known"] = digest([*names, str(known_are_random)])

        path = Path(folder) / "scores.npy"
        kept_scores = self._score_labels(texts, kept_labels, scores, path)
        random_rows: list[int] = []
        if known_are_random:
            random_rows = [self._position[row] for row in self.known]
        make_checker = partial(
            LabelChecker, kept_scores, labels=kept_labels, random_rows=random_rows, **self._how
        )
        make_checker(random_state=0)  # raises before a journal begins

        all_classes = sorted({*kept_labels, *classes})
        super().__init__(texts, all_classes, folder, random_state, head)
        with files.replacing(path) as file:
            np.save(file, kept_scores)
        self._checker = make_checker(random_state=self.seed)
        self._replay()

    def _score_labels(
        self, texts: Sequence[str], kept_labels: list, scores: Any, path: Path
    ) -> np.ndarray:
        """Scores of the rows with a text: the given ones, those of the folder, or new ones."""
        if scores is not None:
            return np.array([scores[row] for row in self._rows])
        if path.exists() and path.with_name("journal.jsonl").exists():
            return np.load(path)
        kept_texts = [texts[row] for row in self._rows]
        return label_scores(kept_texts, kept_labels)

    def labels(self) -> dict[int, Any]:
        """Return the label of each row that has one by a person."""
        return self.known | super().labels()

    def _check_answer(self, row: int, label: str | None) -> None:
        super()._check_answer(row, label)
        if row not in self._position:
            raise ValueError(f"row must have a text. Row {row:,} is empty.")

    def _read_answers(self) -> dict[int, bool | None]:
        """For each position that was shown, True if the machine is wrong; None: skipped."""
        labels = self.known | self._answers.labels()
        is_wrong: dict[int, bool | None] = {}
        for row, label in labels.items():
            is_wrong[self._position[row]] = label != self.machine[row]
        for row in self._answers.by_row:
            if row not in labels:
                is_wrong[self._position[row]] = None
        return is_wrong

    def progress(self) -> tuple[list[int], LabelCheckCertificate | None]:
        """Return the rows still to be read, and the certificate so far.

        Returns
        -------
        rows : list of int
            The bound so far counts them as wrong.
        certificate : LabelCheckCertificate or None
            None while the random sample is read.
        """
        with self._lock:
            positions, certificate = self._checker.next(self._read_answers())
            return [self._rows[position] for position in positions], certificate

    def _candidates(self, shown: set[int]) -> Iterable[int]:
        rows, _ = self.progress()
        hidden = [row for row in rows if row not in shown]
        return [*hidden, *rows]

    def next(self, who: str = "", tab: str = "") -> Task | None:
        """Return the text that a tab of an annotator shows.

        Parameters
        ----------
        who, tab : str
            The annotator, and the tab of the browser.

        Returns
        -------
        task : Task or None
            None if few wrong labels remain.
        """
        with self._lock:
            rows, certificate = self.progress()
            if not rows:
                return None
            row = self._select_row(who, f"{who}/{tab}")
            if row is None:
                return None
            self._reserve(row, who, tab)

            text = self.texts[row]
            if self._answers.by_row.get(row):
                return Task(row, text, AGREEMENT)
            if certificate is None:
                return Task(row, text, EVALUATE)
            return Task(row, text, READ, self.machine[row])

    def results(self) -> dict[str, list]:
        """Return the columns to write: the final label of each row, and who gave it.

        Returns
        -------
        columns : dict of lists
            `labelled_by` is "person" or "machine", and `sampled` is "yes" for the rows that were
            drawn at random and that a person labelled: these alone tell how good a classifier is.
            Empty texts and skipped rows have no label.
        """
        with self._lock:
            labels = self.labels()
            sampled_positions = self._checker.sampled_rows(self._read_answers())
            annotators: dict[int, str] = {}
            for row, answers in self._answers.by_row.items():
                annotators[row] = ", ".join(answers)

        sampled_rows = {self._rows[position] for position in sampled_positions}
        final: list = []
        labelled_by: list = []
        sampled: list = []
        for row, machine_label in enumerate(self.machine):
            is_read = row in labels or row in annotators
            is_empty = row not in self._position
            if is_empty:
                final.append(labels.get(row))
                labelled_by.append(None)
            elif is_read:
                final.append(labels.get(row))
                labelled_by.append("person")
            else:
                final.append(machine_label)
                labelled_by.append("machine")
            sampled.append("yes" if row in sampled_rows and row in labels else "no")

        columns = {"final_label": final, "labelled_by": labelled_by, "sampled": sampled}
        if any(names != "person" for names in annotators.values()):
            columns["annotators"] = [annotators.get(row) for row in range(len(self.machine))]
        return columns

    def status(self) -> dict[str, Any]:
        """Return counts, the bound so far, and the agreement of annotators.

        Returns
        -------
        status : dict
            As the page shows it.
        """
        with self._lock:
            status = super().status() | self._how
            unread_rows, certificate = self.progress()
            read_answers = self._read_answers()
            sample_least, sample_most = self._checker.sample_forecast(read_answers)
            disagreements: dict[int, dict[str, Any]] = {}
            for row, answers in self._answers.by_row.items():
                if len(set(answers.values())) > 1:
                    disagreements[row] = dict(answers)

        n_read = len(read_answers)
        bound = None
        is_reached = False
        if certificate is not None:
            bound = certificate.error_upper
            is_reached = not unread_rows and bound <= status["error"] + 1e-12
        return status | {
            "n_unread": len(unread_rows),
            "n_sample_least": sample_least,
            "n_sample_most": sample_most,
            "n_texts": len(self._rows),
            "n_omitted": len(self.texts) - len(self._rows),
            "n_read": n_read,
            "goal": status["error"],
            "error_upper": bound,
            "progress": n_read / max(n_read + len(unread_rows), 1),
            "reached": is_reached,
            "ended": not unread_rows,
            "disagreements": disagreements,
        }
