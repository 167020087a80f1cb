"""The journal of labelling: one JSON object a line, only appended to, on the disk at once.

The first line says what is labelled. Every further one is an answer, a skip or an undo. A line that
a killed process did not finish was never acknowledged, and is dropped when the journal is opened.
"""

import fcntl
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

FORMAT = 1


class Journal:
    """An append-only file of records, held by one process at a time.

    Parameters
    ----------
    path : path
        Made with `head` where it is not there. Where it is, its own head must equal `head`, except
        for the keys that are None there: they take the value of the file.
    head : dict

    Attributes
    ----------
    head : dict
    records : list of dict
        What was found when it was opened.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "journal.jsonl"
    >>> with Journal(path, {"classes": ["no", "yes"], "seed": 7}) as journal:
    ...     journal.append({"row": 3, "label": "yes"})
    >>> with Journal(path, {"classes": ["no", "yes"], "seed": None}) as journal:
    ...     journal.head["seed"], journal.records
    (7, [{'row': 3, 'label': 'yes'}])
    """

    def __init__(self, path: str | os.PathLike, head: dict[str, Any]):
        self.path = Path(path)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
        try:
            self._lock()
            lines = list(self._lines())
            if lines:
                self.head = self._same_head(lines[0], head)
            else:
                self.head = {"pacsent_labels": FORMAT, **head}
                self.append(self.head)
                self._sync_folder()
            self.records = lines[1:]
        except BaseException:
            self.close()
            raise

    def append(self, record: dict[str, Any]) -> None:
        """Write one record; it is on the disk when this returns."""
        line = (json.dumps(record, ensure_ascii=True) + "\n").encode()
        start = os.fstat(self._file).st_size
        try:
            if os.write(self._file, line) != len(line):
                raise OSError("The disk is full.")
            os.fsync(self._file)
        except OSError as error:
            os.ftruncate(self._file, start)
            raise OSError(
                f"{self.path} could not be written ({error}). The last answer was not kept; the "
                "ones before it were."
            ) from None

    def close(self) -> None:
        """Let another process have it."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def __enter__(self) -> "Journal":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _lock(self):
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise ValueError(
                f"{self.path} must be open in one process at a time. Got a second one instead. "
                "Open the page of the first in another tab, or end it."
            ) from None

    def _lines(self) -> Iterator[dict[str, Any]]:
        data = self.path.read_bytes()
        whole = data.rfind(b"\n") + 1
        if whole < len(data):  # a killed process was writing it
            os.ftruncate(self._file, whole)
        for number, line in enumerate(data[:whole].splitlines(), 1):
            try:
                record = json.loads(line)
            except ValueError:
                record = None
            if not isinstance(record, dict):
                raise ValueError(
                    f"Line {number:,} of {self.path} must be a JSON object. Got "
                    f"{line[:40].decode(errors='replace')!r} instead. Restore the file."
                )
            yield record

    def _same_head(self, found, head):
        if found.get("pacsent_labels") != FORMAT:
            raise ValueError(
                f"{self.path} must be a journal of labels in format {FORMAT}. Got something else "
                "instead. Choose another folder."
            )
        for name, value in head.items():
            if value is not None and found.get(name) != value:
                raise ValueError(
                    f"{name} must be as in {self.path}, which holds labels already. Got "
                    f"{_short(value)} instead of {_short(found.get(name))}. Choose another folder, "
                    "or give the same."
                )
        return found

    def _sync_folder(self):
        folder = os.open(self.path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def _short(value):
    text = json.dumps(value)
    return text if len(text) <= 60 else text[:57] + "..."
