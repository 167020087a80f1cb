"""Sentence vectors to files, batch by batch: .npy, .npz, .tsv, .jsonl and .parquet.

The keys are the same wherever there are keys: `mean`, `variance`, and `id` and `text` where they
are carried along.

Memory does not grow with the number of sentences. A file is written beside its place and moved
there when whole.
"""

import io
import json
import os
import shutil
import tempfile
import zipfile
from collections import deque
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO

import numpy as np

from pacsent import files
from pacsent.lazy import install_hint

_SEEKING = (".npy", ".npz", ".parquet")  # their beginning or end is written last


def write(
    batches: Iterable,
    path: str | os.PathLike | None,
    n_dims: int,
    *,
    overwrite: bool = False,
    lines: bool = False,
) -> int:
    """Write batches of (means, variances); the number of rows.

    Parameters
    ----------
    batches : iterable of (means, variances) or (means, variances, carried)
        Shapes (n_sentences, n_dims) and (n_sentences,), as `SentenceVectorizer.stream` yields.
        `carried` has a list of strings under "id", "text" or both (`Carried.take`).
    path : str, path or None
        The suffix decides: `.npy` and `.tsv` hold the means, `.npz`, `.jsonl` and `.parquet` the
        means and variances. None or '-' writes tab-separated means to stdout. In tab-separated
        files the id is the first column and the text the last.
    n_dims : int
        Width of the means, for a file without rows.
    overwrite : bool, default=False
        Replace a file that exists.
    lines : bool, default=False
        What stdout gets is JSON lines, with the variances, instead of tab-separated means.
    """
    files.check_output(path, overwrite=overwrite)
    if path is None or str(path) == "-":
        writer = _jsonl if lines else _tsv
    else:
        writer = WRITERS[check_name(path)]
    with files.replacing(path) as file:
        return sum(writer(_triples(batches), file, n_dims))


def _triples(batches):
    for means, variances, *carried in batches:
        yield means, variances, carried[0] if carried else {}


class Carried:
    """Ids and texts on their way beside the vectors, a few batches at a time.

    Parameters
    ----------
    ids : bool
        Whether lines are ID<TAB>TEXT.
    texts : bool
        Whether the text is kept.

    Examples
    --------
    >>> carried = Carried(ids=True, texts=True)
    >>> list(carried.read(["7\\ta good film"]))
    ['a good film']
    >>> carried.take(1)
    {'id': ['7'], 'text': ['a good film']}
    """

    def __init__(self, *, ids: bool = False, texts: bool = False):
        self._waiting: dict[str, deque] = {
            name: deque() for name, wanted in (("id", ids), ("text", texts)) if wanted
        }

    def read(self, lines: Iterable[str]) -> Iterator[str]:
        """The texts of the lines; what goes with them waits for `take`."""
        for number, line in enumerate(lines, start=1):
            text = line
            if "id" in self._waiting:
                name, tab, text = line.partition("\t")
                if not tab:
                    raise ValueError(
                        f"Line {number:,} must be ID<TAB>TEXT. Got {line[:40]!r} without a tab "
                        "instead."
                    )
                self._waiting["id"].append(name)
            if "text" in self._waiting:
                self._waiting["text"].append(text)
            yield text

    def take(self, n: int) -> dict[str, list[str]]:
        """What goes with the next n vectors."""
        return {
            name: [waiting.popleft() for _ in range(n)] for name, waiting in self._waiting.items()
        }


def check_name(path: str | os.PathLike, *, ids: bool = False, texts: bool = False) -> str:
    """The suffix of a file that can be written; an error before any work is done.

    Examples
    --------
    >>> check_name('vectors.jsonl', ids=True)
    '.jsonl'
    """
    suffix = Path(path).suffix.lower()
    if suffix not in WRITERS:
        raise ValueError(
            f"The output must end in {', '.join(WRITERS)}. Got {str(path)!r} instead. Leave it "
            "out for tab-separated numbers on stdout."
        )
    if (ids and suffix == ".npy") or (texts and suffix in (".npy", ".npz")):
        what = "texts" if texts else "ids"
        raise ValueError(
            f"The output must end in .tsv, .jsonl or .parquet to hold {what}. Got {str(path)!r} "
            "instead: it holds numbers only."
        )
    if suffix == ".parquet":
        _pyarrow()
    if suffix in _SEEKING and files.is_stream(path):
        raise ValueError(
            f"A pipe or a device takes .tsv or .jsonl, which are written front to back. Got "
            f"{str(path)!r} instead. Write {suffix} to a file."
        )
    return suffix


def _tsv(batches, file: IO[bytes], n_dims) -> Iterator[int]:
    line = ""
    for means, _, carried in batches:
        # nine digits bring a float32 back exactly, seventeen a float64
        digits = 17 if means.dtype == np.float64 else 9
        line = line or "\t".join([f"%.{digits}g"] * means.shape[1])
        rows = [line % tuple(row) for row in means.tolist()]
        columns = [column for column in (carried.get("id"), rows, carried.get("text")) if column]
        file.write("".join("\t".join(row) + "\n" for row in zip(*columns)).encode("utf-8"))
        yield len(means)


def _jsonl(batches, file: IO[bytes], n_dims) -> Iterator[int]:
    for means, variances, carried in batches:
        for row, (mean, variance) in enumerate(zip(means, variances)):
            # str of a float32 is the shortest text that brings it back; JSON has no nan
            numbers = ", ".join(map(str, mean))
            spread = "null" if np.isnan(variance) else json.dumps(float(variance))
            beside = "".join(
                f'"{name}": {json.dumps(values[row])}, ' for name, values in carried.items()
            )
            line = f'{{{beside}"mean": [{numbers}], "variance": {spread}}}\n'
            file.write(line.encode("ascii"))
        yield len(means)


def _npy(batches, file: IO[bytes], n_dims) -> Iterator[int]:
    table = _NpyFile(file, (n_dims,))
    for means, _, _ in batches:
        table.append(means)
        yield len(means)
    table.finish()


def _npz(batches, file: IO[bytes], n_dims) -> Iterator[int]:
    beside = os.path.dirname(file.name) or None  # /tmp may be memory
    ids: list[str] = []  # the only thing that is held: a width for all is known at the end
    with (
        tempfile.TemporaryFile(dir=beside) as means_file,
        tempfile.TemporaryFile(dir=beside) as variances_file,
    ):
        parts = {"mean": _NpyFile(means_file, (n_dims,)), "variance": _NpyFile(variances_file, ())}
        for means, variances, carried in batches:
            parts["mean"].append(means)
            parts["variance"].append(variances)
            ids += carried.get("id", [])
            yield len(means)
        with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED, allowZip64=True) as archive:
            if ids:
                with archive.open("id.npy", "w", force_zip64=True) as member:
                    np.save(member, np.array(ids, dtype=str), allow_pickle=False)
            for name, part in parts.items():
                part.finish()
                part.file.seek(0)
                with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                    shutil.copyfileobj(part.file, member, 1 << 20)


class _NpyFile:
    """A .npy file that grows; its header, which holds the length, is written last."""

    def __init__(self, file: IO[bytes], row_shape):
        self.file = file
        self.row_shape, self.n_rows, self.dtype = row_shape, 0, np.dtype("<f4")
        self.file.write(self._header())

    def append(self, rows):
        self.dtype = rows.dtype.newbyteorder("<")
        self.file.write(np.ascontiguousarray(rows, dtype=self.dtype).data)
        self.n_rows += len(rows)

    def finish(self):
        self.file.seek(0)
        self.file.write(self._header())

    def _header(self) -> bytes:
        """NumPy's own, which leaves room for any number of rows: always of the same length."""
        shape = (self.n_rows, *self.row_shape)
        header = {"descr": self.dtype.str, "fortran_order": False, "shape": shape}
        written = io.BytesIO()
        np.lib.format.write_array_header_1_0(written, header)
        return written.getvalue()


def _parquet(batches, file: IO[bytes], n_dims) -> Iterator[int]:
    pa = _pyarrow()
    import pyarrow.parquet as pq

    writer = None
    try:
        for means, variances, carried in batches:
            numbers = pa.array(means.reshape(-1))
            columns = {
                **{name: pa.array(values, pa.string()) for name, values in carried.items()},
                "mean": pa.FixedSizeListArray.from_arrays(numbers, means.shape[1]),
                "variance": pa.array(variances, from_pandas=True),  # nan becomes null
            }
            table = pa.table(columns)
            writer = writer or pq.ParquetWriter(file, table.schema)
            writer.write_table(table)
            yield len(means)
        if writer is None:
            schema = pa.schema(
                [("mean", pa.list_(pa.float32(), n_dims)), ("variance", pa.float64())]
            )
            writer = pq.ParquetWriter(file, schema)
    finally:
        if writer is not None:
            writer.close()


def _pyarrow():
    try:
        import pyarrow
    except ImportError:
        raise ImportError(
            f"Parquet files need pyarrow, which is not installed. {install_hint('parquet')}"
        ) from None
    return pyarrow


WRITERS = {".npy": _npy, ".npz": _npz, ".tsv": _tsv, ".jsonl": _jsonl, ".parquet": _parquet}
