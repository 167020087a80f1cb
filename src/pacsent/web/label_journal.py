"""The journal of labelling: one JSON object per line, append-only, on disk at once.

The first line describes what is labelled; every other line is an answer, a skip or an undo. A line
that a killed process did not finish was never acknowledged, and is dropped; a file with half a
first line and nothing else is a new journal.
"""

import fcntl
import json
import os
from pathlib import Path
from typing import Any

from pacsent.bounds.checks import is_count

FORMAT = 1


class Journal:
    """An append-only file of records, open in one process at a time.

    A file without a complete line is new, and begins with `head`; keys that are None take their
    value from `defaults`. The head of an existing file must equal `head`, except for keys that are
    None: they take the integer of the file. `records` are those that the file contained.
    """

    def __init__(
        self, path: str | os.PathLike, head: dict[str, Any], defaults: dict[str, int] | None = None
    ) -> None:
        self.path = Path(path)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            lines = self._read()
            if lines:
                self.head = lines[0]
                self._check_head(head)
            else:
                self._begin(head, defaults or {})
            self.records = lines[1:]
        except BlockingIOError:
            self.close()
            raise ValueError(
                f"{self.path} must be open in one process at a time. Got a second one instead. "
                "Open the page of the first in another tab, or end it."
            ) from None
        except BaseException:
            self.close()
            raise

    def _begin(self, head: dict[str, Any], defaults: dict[str, int]) -> None:
        """Write the first line of a new journal."""
        self.head = {"pacsent_labels": FORMAT, **head}
        for name, value in defaults.items():
            if head.get(name) is None:
                self.head[name] = value
        self.append(self.head)

        # The entry of the new file is in the folder, which is written to the disk as well.
        folder = os.open(self.path.parent, os.O_RDONLY)
        os.fsync(folder)
        os.close(folder)

    def append(self, record: dict[str, Any]) -> None:
        """Write one record; it is on disk when this returns."""
        line = (json.dumps(record) + "\n").encode()
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
        """Release the file for another process."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def _read(self) -> list[dict[str, Any]]:
        data = self.path.read_bytes()
        end = data.rfind(b"\n") + 1
        if end < len(data):  # a killed process was writing the last line
            os.ftruncate(self._file, end)

        records = []
        for number, line in enumerate(data[:end].splitlines(), 1):
            try:
                record = json.loads(line)
            except (ValueError, RecursionError):
                record = None
            if not isinstance(record, dict):
                shown_line = line[:40].decode(errors="replace")
                raise ValueError(
                    f"Line {number:,} of {self.path} must be a JSON object. Got "
                    f"{shown_line!r} instead. Restore the file."
                )
            records.append(record)
        return records

    def _check_head(self, head: dict[str, Any]) -> None:
        for name, value in {"pacsent_labels": FORMAT, **head}.items():
            stored = self.head.get(name)
            is_same = is_count(stored) if value is None else stored == value
            if not is_same:
                new = json.dumps(value)[:60]
                old = json.dumps(stored)[:60]
                raise ValueError(
                    f"{name} must be as in {self.path}, which contains labels already. Got {new} "
                    f"instead of {old}. Choose another folder, or give the same."
                )
