"""Labelling: two streams of texts, the models they make, and the error certified so far.

Texts drawn at random judge: no model learns from them. The other texts teach: `next_to_label`
chooses among them. The classifier that the bound is about is the last one fitted at a size that was
fixed beforehand (20, 30, 45, ... teaching labels), on teaching labels alone. Theorem 30 of the
theory page: the bound holds for all of them at all times at once.
"""

import hashlib
import json
import os
import secrets
import threading
import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone

from pacsent import files
from pacsent.classify import TextClassifier, next_to_label
from pacsent.classify.label_curve import MOST, LearningCurve, parts_of
from pacsent.guarantees.anytime_certificate import (
    N_MODELS,
    AnytimeCertificate,
    anytime_error,
    certify_stream,
)
from pacsent.guarantees.evidence import digests
from pacsent.maths.checks import check_probability
from pacsent.storage import save
from pacsent.text.near_duplicates import text_units
from pacsent.text.texts import as_texts
from pacsent.web.annotators import agreement
from pacsent.web.label_journal import Journal

SIZES = tuple(int(20 * 1.5**j) for j in range(N_MODELS))  # teaching labels of certified models
_AHEAD = 40  # texts chosen at once, at least
_HELD = 120.0  # seconds for which a text that a tab shows is offered to no other
_FEWEST = 20  # judging labels from which it is said how many more are needed
_OVERLAP = 0.1  # of the answers of an annotator are to texts that others have labelled
JUDGE, TEACH, AGAIN = "judge", "teach", "agreement"


class Task(NamedTuple):
    """A text to label. The guess is shown for texts that teach, and hidden for all others."""

    row: int
    text: str
    stream: str
    guess: Any = None
    probability: float | None = None
    pieces: tuple[tuple[str, float], ...] = ()


class _Certified(NamedTuple):
    """A model that the bound is about, and its answers to judging texts by row."""

    model: Any
    n_taught: int
    answers: dict[int, Any]


class Labelling:
    """Texts being labelled by one or several people; everything is in the journal at once.

    Parameters
    ----------
    texts : iterable of str
        Of copies and near-duplicates one is offered; texts without a word never are.
    classes : sequence of str
        At least two.
    folder : path
        Holds the journal; labelling goes on where it ended.
    delta : float, default=0.05
        Probability that the certified error is false at some time.
    goal : float, optional
        Certified error at which `status` says that labels are enough.
    judging : float, default=0.5
        Share of the texts, and of the labels, that judge.
    words : word vectors, name or None, default="english"
        For `TextClassifier`.
    random_state : int, optional
        Decides which texts judge, and their order; drawn if omitted, and kept in the journal.

    Examples
    --------
    >>> import tempfile
    >>> texts = [f"{w} {c * 3} {c * 4}" for c in "abcdefgh" for w in ("good", "bad")]
    >>> with Labelling(texts, ["up", "down"], tempfile.mkdtemp(), words=None) as labelling:
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
        words: Any = "english",
        random_state: int | None = None,
    ):
        self.texts = as_texts(texts)
        self.classes = _checked_classes(classes)
        self.delta = check_probability("delta", delta)
        self.goal = None if goal is None else check_probability("goal", goal)
        self._model = TextClassifier(words)
        head = {
            "texts": hashlib.sha256(json.dumps(self.texts).encode()).hexdigest(),
            "classes": self.classes, "judging": check_probability("judging", judging),
            "delta": self.delta, "seed": random_state,
        }  # fmt: skip
        units = _units(self.texts)
        self.folder = Path(folder)
        self._journal = _opened(self.folder / "journal.jsonl", head)
        seed = self._journal.head["seed"]
        self.key = hashlib.sha256(f"key {seed}".encode()).hexdigest()[:24]
        self.judging, self.teaching = _streams(units, judging, seed)
        self._judges = frozenset(self.judging)
        self._lock = threading.RLock()
        self._answers: dict[int, dict[str, Any]] = {}  # row -> annotator -> label, None: skipped
        self._history: dict[str, list[tuple[int, Any]]] = {}  # annotator -> rows, and what was
        self._held: dict[str, tuple[int, float]] = {}  # tab -> row that it shows, and since when
        self._reached = 0  # sizes of models that have been reached
        self._snapshot: dict[int, Any] = {}  # teaching labels at the last of them
        self._queue: list[int] = []
        self._certified: _Certified | None = None
        self._working: Any = None
        self._n_worked = 0  # teaching labels of the working model
        self._n_tried = 0  # teaching labels of the last certified model that was to be fitted
        self._n_teach = 0  # teaching texts that were answered
        self._outlook = ""  # how many more labels the goal needs
        for record in self._journal.records:
            self._apply(record)
        self._worker = ThreadPoolExecutor(1)
        self._looking: Future = self._worker.submit(int)
        self._fitting: Future = self._worker.submit(self._refit)

    # ---- what is next --------------------------------------------------------------------------

    def next(self, who: str = "", tab: str = "") -> Task | None:
        """The text that this tab of this annotator shows; None where there are no more."""
        tab = f"{who}/{tab}"
        while True:
            with self._lock:
                row: int | None = self._held.get(tab, (None, 0.0))[0]
                if row is None or who in self._answers.get(row, {}):
                    now = time.monotonic()
                    self._held.pop(tab, None)
                    taken = {r for r, since in self._held.values() if now - since < _HELD}
                    row = self._chosen(who, taken)
                    if row is None:
                        return None
                stream, model, fitting = self._stream(row, who), self._working, self._fitting
                if stream != TEACH or fitting.done():
                    self._held[tab] = row, time.monotonic()
                    break
            # which texts teach depends on labels that teach, not on how long answers took
            fitting.result()
        if stream != TEACH or model is None:
            return Task(row, self.texts[row], stream)
        said = model.explain(self.texts[row])
        pieces = tuple(
            (piece, share if value > 0 else 0.0) for piece, value, share in said.pieces()
        )
        return Task(row, self.texts[row], stream, said.label, said.probability, pieces)

    def _chosen(self, who, taken) -> int | None:
        again = self._overlapping(who, taken)
        if again is not None:
            return again
        open_ = {
            JUDGE: (r for r in self.judging if r not in self._answers and r not in taken),
            TEACH: (r for r in (*self._queue, *self.teaching)
                    if r not in self._answers and r not in taken),
        }  # fmt: skip
        busy = set(self._answers) | taken
        n_judge = len(busy & self._judges)
        share = self._journal.head["judging"]
        first = JUDGE if n_judge < share * (len(busy) + 1) - 1e-9 else TEACH
        for stream in (first, TEACH if first == JUDGE else JUDGE):
            row = next(open_[stream], None)
            if row is not None:
                return row
        return None

    def _overlapping(self, who, taken) -> int | None:
        """A text that others have labelled, where this annotator has too few of these."""
        mine = [row for row, some in self._answers.items() if who in some]
        shared = sum(len(self._answers[row]) > 1 for row in mine)
        if shared >= _OVERLAP * (len(mine) + 1):
            return None
        others = (r for r, some in self._answers.items() if who not in some and r not in taken
                  and any(label is not None for label in some.values()))  # fmt: skip
        return next(others, None)

    def _stream(self, row, who) -> str:
        if any(other != who for other in self._answers.get(row, {})):
            return AGAIN
        return JUDGE if row in self._judges else TEACH

    # ---- answers -------------------------------------------------------------------------------

    def answer(self, row: int, label: str | None, who: str = "") -> None:
        """Keep an answer, None for a skip; it is on the disk when this returns."""
        if label is not None and label not in self.classes:
            raise ValueError(f"label must be one of {self.classes}. Got {label!r} instead.")
        if not 0 <= row < len(self.texts):
            raise ValueError(f"row must be from 0 to {len(self.texts) - 1:,}. Got {row} instead.")
        self._keep({"row": int(row), "label": label, "who": who, "time": round(time.time(), 3)})

    def undo(self, who: str = "", tab: str = "") -> int | None:
        """Take back the last answer of an annotator; its row, which this tab shows next."""
        with self._lock:
            if not self._history.get(who):
                return None
            row = self._history[who][-1][0]
            self._keep({"undo": row, "who": who, "time": round(time.time(), 3)})
            self._held[f"{who}/{tab}"] = row, time.monotonic()
            return row

    def _keep(self, record):
        with self._lock:
            self._journal.append(record)
            self._apply(record)
            n = len(self._taught())
            grown = n >= max(SIZES[0], self._n_worked + 5, 1.1 * self._n_worked)
            if self._fitting.done() and (grown or self._n_tried < len(self._snapshot)):
                self._n_worked = n
                self._fitting = self._worker.submit(self._refit)

    def _apply(self, record):
        """What a record of the journal changes; a killed session comes back by these alone."""
        who = record.get("who", "")
        if "undo" in record:
            row, before = self._history[who].pop()
            if before is _NOTHING:
                self._answers[row].pop(who, None)
            else:
                self._answers[row][who] = before
            if not self._answers[row]:
                del self._answers[row]
                self._n_teach -= row not in self._judges
            return
        row, label = record["row"], record["label"]
        self._n_teach += row not in self._answers and row not in self._judges
        some = self._answers.setdefault(row, {})
        self._history.setdefault(who, []).append((row, some.get(who, _NOTHING)))
        some[who] = label
        if self._reached < len(SIZES) and self._n_teach >= SIZES[self._reached]:
            taught = self._taught()
            if len(taught) >= SIZES[self._reached]:
                self._reached += 1
                self._snapshot = taught

    def labels(self) -> dict[int, Any]:
        """The label of each row that has one: of several annotators the majority, or the first."""
        found = {}
        with self._lock:
            for row, some in self._answers.items():
                counts = Counter(label for label in some.values() if label is not None)
                if counts:
                    found[row] = counts.most_common(1)[0][0]  # ties: the first that was given
        return found

    def _taught(self):
        return {row: label for row, label in self.labels().items() if row not in self._judges}

    # ---- models --------------------------------------------------------------------------------

    def _refit(self):
        """Fit what is due, then choose the texts that teach next; runs beside the answers."""
        with self._lock:
            snapshot, taught = dict(self._snapshot), self._taught()
            self._n_worked = len(taught)
        if self._n_tried < len(snapshot):
            model = self._fitted(snapshot)
            with self._lock:
                self._n_tried = len(snapshot)
                if model is not None:
                    self._certified = _Certified(model, len(snapshot), {})
        working = self._fitted(taught)
        with self._lock:
            self._working = working or self._working
            open_ = [row for row in self.teaching if row not in self._answers]
        chosen = next_to_label(
            self._working or self._model, [self.texts[r] for r in open_],
            max(_AHEAD, len(taught) // 5),
            labelled=[self.texts[r] for r in taught], random_state=len(taught),
        ) if open_ else []  # fmt: skip
        with self._lock:
            self._queue = [open_[i] for i in chosen]
        if self.goal is not None and working is not None:
            with suppress(RuntimeError):  # closed meanwhile
                self._looking = self._worker.submit(self._look_ahead, working, taught)

    def _look_ahead(self, model, taught):
        """Say how many more labels the goal needs: models of the first teaching labels, judged."""
        with self._lock:
            labels = self.labels()
            judged = [row for row in self._judged() if row in labels]
        if len(judged) < _FEWEST:
            return
        rows, texts = list(taught), [self.texts[row] for row in judged]
        parts = parts_of(len(rows), len(self.classes), 0.25, 3)[:-1]
        sizes = [round(part * len(rows)) for part in parts.tolist()]
        models = [self._fitted({row: taught[row] for row in rows[:size]}) for size in sizes]
        found = [(size, one) for size, one in zip([*sizes, len(rows)], [*models, model]) if one]
        wrong = [sum(said != labels[row] for said, row in zip(one.predict(texts), judged))
                 for _, one in found]  # fmt: skip
        curve = LearningCurve.of(
            len(rows), np.array([float(size) for size, _ in found]),
            np.full(len(found), len(judged)), np.array(wrong), np.random.default_rng(len(rows)),
        )  # fmt: skip
        share = self._journal.head["judging"]
        needed = labels_to_goal(curve, self.goal, self.delta, share, len(judged))
        self._outlook = (
            curve.hardly_helps() if needed[1] == np.inf
            else f"About {curve.range_of(*needed)} for the goal."
        )  # fmt: skip

    def _fitted(self, labels):
        """A classifier of the classes that have two texts; None where fewer than two have."""
        counts = Counter(labels.values())
        rows = sorted(row for row, label in labels.items() if counts[label] >= 2)
        if len({labels[row] for row in rows}) < 2:
            return None
        texts = [self.texts[row] for row in rows]
        return clone(self._model).fit(texts, [labels[row] for row in rows])

    def wait(self) -> None:
        """Wait until the models are those of the labels at hand."""
        self._fitting.result()
        with self._lock:
            if self._n_tried < len(self._snapshot):
                self._fitting = self._worker.submit(self._refit)
        self._fitting.result()
        self._looking.result()

    # ---- the guarantee -------------------------------------------------------------------------

    def _judged(self) -> list[int]:
        """Judging texts with a label, up to the first that waits for one.

        A text that waits is not passed over: texts that take long may be the difficult ones.
        """
        found, labels = [], self.labels()
        for row in self.judging:
            if row not in self._answers:
                break
            if row in labels:  # else it was skipped
                found.append(row)
        return found

    def certificate(self) -> AnytimeCertificate | None:
        """The error of the present classifier on new texts; None before there is one."""
        with self._lock:
            certified, rows, labels = self._certified, self._judged(), self.labels()
        if certified is None or not rows:
            return None
        new = [row for row in rows if row not in certified.answers]
        if new:
            said = certified.model.predict([self.texts[row] for row in new]).tolist()
            certified.answers.update(zip(new, said))
        losses = [float(certified.answers[row] != labels[row]) for row in rows]
        return certify_stream(losses, self.delta, n_taught=certified.n_taught)

    def status(self) -> dict[str, Any]:
        """Where labelling stands: counts, the certified error, agreement."""
        certificate = self.certificate()
        with self._lock:
            labels = self.labels()
            n_offered = len(self.judging) + len(self.teaching)
            counts = Counter(labels.values())
            answers = {row: {w: label for w, label in some.items() if label is not None}
                       for row, some in self._answers.items()}  # fmt: skip
            found: dict[str, Any] = {
                "n_labels": len(labels), "n_judge": sum(row in self._judges for row in labels),
                "n_skipped": len(self._answers) - len(labels), "n_texts": n_offered,
                "n_left_out": len(self.texts) - n_offered, "classes": self.classes,
                "counts": [counts[c] for c in self.classes], "goal": self.goal,
                "agreement": agreement(answers), "delta": self.delta,
                "first_model": SIZES[0] - len(self._taught()),
            }  # fmt: skip
        found |= {"accuracy": None, "certified_error": None, "n_judged": 0, "n_taught": 0}
        if certificate is not None:
            found |= {"accuracy": 1 - certificate.error, "certified_error": certificate.bound,
                      "n_judged": certificate.n, "n_taught": certificate.n_taught}  # fmt: skip
        # labels behind a judging text that another tab shows
        found["n_waiting"] = 0 if certificate is None else found["n_judge"] - certificate.n
        bound = found["certified_error"]
        found["reached"] = bool(self.goal and bound is not None and bound <= self.goal)
        found["outlook"] = "" if found["reached"] else self._outlook
        return found

    def save(self) -> AnytimeCertificate | None:
        """Write the classifier (`model`) and its certificate into the folder, where there are any.

        The classifier is the one that the certificate is about.
        """
        self.wait()
        certificate = self.certificate()
        if certificate is None or self._certified is None:
            return None
        rows, labels, model = self._judged(), self.labels(), self._certified.model
        about = digests(
            model, [self.texts[r] for r in rows], [labels[r] for r in rows],
            [self._certified.answers[r] for r in rows],
        )  # fmt: skip
        certificate = AnytimeCertificate.from_dict({**certificate.to_dict(), "digests": about})
        save(model, self.folder / "model", overwrite=True)
        with files.replacing(self.folder / "certificate.json") as file:
            file.write(certificate.to_json().encode())
        return certificate

    def close(self) -> None:
        """End the worker and let go of the journal."""
        self._worker.shutdown(wait=True, cancel_futures=True)
        self._journal.close()

    def __enter__(self) -> "Labelling":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def labels_to_goal(
    curve: LearningCurve, goal: float, delta: float, judging: float, n_judged: int
) -> tuple[float, float, float]:
    """Further labels until the certified error is the goal, for a low, a likely and a high error.

    Both streams grow: the error falls by the curve, and more texts judge it. inf: more than 20
    times the labels at hand.

    >>> one = np.array([[0.12, 0.5, 0.02]])  # an error of 0.12 with 100 labels that teach
    >>> curve = LearningCurve(100, np.ones(1), np.ones(1), np.ones(1), one)
    >>> labels_to_goal(curve, 0.15, 0.05, 0.5, n_judged=100)[1]
    492.0
    """
    steps = np.unique(np.geomspace(1, MOST * (curve.n + n_judged), 100).astype(int)).tolist()

    def reached(at: int, more: int) -> bool:
        taught = curve.n + (1 - judging) * more
        error = curve.error_at(max((size for size in SIZES if size <= taught), default=SIZES[0]))
        losses = np.zeros(n_judged + round(judging * more))
        losses[np.linspace(0, losses.size - 1, round(error[at] * losses.size)).astype(int)] = 1.0
        return anytime_error(losses, delta) <= goal

    first = [bisect_left(steps, True, key=partial(reached, at)) for at in range(3)]
    low, middle, high = (float(steps[i]) if i < len(steps) else np.inf for i in first)
    return low, middle, high


_NOTHING = object()  # where an annotator had given no answer before


def _checked_classes(classes) -> list[str]:
    found = [str(one).strip() for one in classes]
    if len(found) < 2 or len(set(found)) < len(found) or not all(found):
        raise ValueError(
            f"labels must be at least two different names. Got {found} instead, such as yes,no."
        )
    return found


def _opened(path, head) -> Journal:
    """The journal; a new one gets a seed."""
    if not path.exists() or not path.stat().st_size:
        head = {**head, "seed": secrets.randbits(40) if head["seed"] is None else head["seed"]}
    return Journal(path, head)


def _units(texts) -> np.ndarray:
    """The unit of near-duplicates of each text, -1 for texts without a word."""
    words = np.array([any(c.isalnum() for c in text) for text in texts], bool)
    units = np.full(len(texts), -1)
    units[words] = text_units([text for text, has in zip(texts, words) if has])
    if (n := np.unique(units[words]).size) < 4:
        raise ValueError(
            f"texts must hold at least four different texts with words. Got {n} instead."
        )
    return units


def _streams(units, judging, seed) -> tuple[list[int], list[int]]:
    """Rows that judge, in a random order, and rows that teach: one of each unit.

    Which text judges is drawn before any label is known, and does not depend on the model.
    """
    order = np.random.default_rng([seed, 1]).permutation(units.size)
    order = order[units[order] >= 0]
    firsts = order[np.sort(np.unique(units[order], return_index=True)[1])].tolist()
    n_judge = min(max(1, round(judging * len(firsts))), len(firsts) - 2)
    return firsts[:n_judge], firsts[n_judge:]
