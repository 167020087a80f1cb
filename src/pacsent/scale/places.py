"""Files on this machine, or on any file system that fsspec supports.

A place is a path, or an address such as s3://bucket/folder, gs://..., hf://.... Local files need no
fsspec.
"""

import contextlib
import glob
import os
import posixpath
import secrets
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, NamedTuple

from pacsent.files import replacing
from pacsent.optional import import_optional, install_hint
from pacsent.text.tables import KINDS, kind_of

_WHOLE_OBJECTS = {"s3", "s3a", "gs", "gcs"}  # an object is there when its upload ends, or not


@dataclass(frozen=True)
class Shard:
    """One input file."""

    source: str  # path or address
    name: str  # its path below the folder that was named, without suffixes; that of the output
    kind: str  # "parquet", "jsonl", "csv", "tsv" or "text"
    size: int  # bytes
    version: str  # changes with the file: its times and inode, or the tag that the store gives


class Found(NamedTuple):
    """What sources hold: shards, and files that are of no kind which can be read."""

    shards: list[Shard]
    ignored: list[str]


def is_address(place: Any) -> bool:
    """Whether a place is an address (s3://...) and no path of this machine."""
    return "://" in str(place) and not str(place).startswith("file://")


def local(place: Any) -> str:
    """The path of a place of this machine."""
    return str(place).removeprefix("file://")


def filesystem(place: Any) -> tuple[Any, str]:
    """fsspec's file system of an address, and the path there."""
    fsspec = import_optional("fsspec.core", f"{place} is reached through fsspec", "scale")
    try:
        return fsspec.url_to_fs(str(place))
    except ImportError as error:
        raise ImportError(
            f"{place} needs a package that is not installed ({error}). For s3://: "
            f"{install_hint('s3')}"
        ) from None


# ---- finding -------------------------------------------------------------------------------------


def find(sources: Iterable) -> Found:
    """The files of sources: files, folders (all below them) and globs, each in order of its name.

    In folders, names that begin with a dot or an underscore are passed over, as Spark and Hadoop
    mean them; files of another kind are named in `ignored`. A file that is named itself is lines
    of text where its suffix says nothing else.
    """
    shards: list[Shard] = []
    ignored: list[str] = []
    for source in sources:
        named, files = _listed(source)
        for full, below, size, version in files:
            kind, name = kind_of(below)
            if kind is None and not named:
                ignored.append(full)
                continue
            shards.append(Shard(full, name, kind or "text", size, version))
    if not shards:
        more = f"; {len(ignored):,} files are of another kind" if ignored else ""
        raise FileNotFoundError(
            f"The sources must hold files of {', '.join(KINDS)}. Got none in "
            f"{', '.join(map(str, sources))}{more}. Check the names."
        )
    by_name: dict[str, str] = {}
    for shard in shards:
        if shard.name in by_name:
            raise ValueError(
                f"Every source must have its own name in the target. Got {by_name[shard.name]} and "
                f"{shard.source}, both {shard.name}, instead. Embed them into two targets."
            )
        by_name[shard.name] = shard.source
    return Found(shards, ignored)


def _listed(source) -> tuple[bool, list[tuple[str, str, int, str]]]:
    """Whether the source is one file, and (place, path below the source, size, version) of each."""
    if is_address(source):
        return _listed_there(source)
    place = local(source)
    if os.path.isfile(place):
        return True, [_here(place, os.path.basename(place))]
    if os.path.isdir(place):
        found = sorted(path for path in Path(place).rglob("*") if path.is_file())
        below = [path.relative_to(place).as_posix() for path in found]
    else:
        found = sorted(Path(path) for path in glob.glob(place, recursive=True))
        found = [path for path in found if path.is_file()]
        root = _fixed_part(place)
        below = [os.path.relpath(path, root).replace(os.sep, "/") for path in found]
        if not found:
            raise FileNotFoundError(
                f"The source must be a file, a folder or a glob that finds files. Got {source} "
                "instead. Check its name."
            )
    return False, [_here(str(path), name) for path, name in zip(found, below) if _shown(name)]


def _here(path: str, name: str) -> tuple[str, str, int, str]:
    about = os.stat(path)
    # a program can set the time of a change back, but not the time of the last change of the inode
    return path, name, about.st_size, f"{about.st_mtime_ns}-{about.st_ctime_ns}-{about.st_ino}"


def _shown(name: str) -> bool:
    return not any(part.startswith((".", "_")) for part in name.split("/"))


def _fixed_part(pattern: str) -> str:
    """The folder before the first part that has a wildcard."""
    parts = pattern.split("/")
    for number, part in enumerate(parts[:-1]):
        if any(letter in part for letter in "*?["):
            return "/".join(parts[:number]) or "/"
    return "/".join(parts[:-1]) or "."


def _listed_there(address) -> tuple[bool, list[tuple[str, str, int, str]]]:
    files, path = filesystem(address)
    try:
        if any(letter in path for letter in "*?["):
            found, root, named = files.glob(path, detail=True), _fixed_part(path), False
        else:
            found = files.find(path, detail=True)
            named = list(found) == [path.rstrip("/")]
            root = posixpath.dirname(path) if named else path.rstrip("/")
    except OSError as error:
        raise type(error)(
            f"The source must be a place that can be listed. Got {address} instead ({error})."
        ) from None
    rows = []
    for full, about in sorted(found.items()):
        below = full[len(root) :].lstrip("/")
        if about.get("type") != "directory" and (named or _shown(below)):
            rows.append((files.unstrip_protocol(full), below, int(about["size"] or 0),
                         _version(about)))  # fmt: skip
    return named, rows


def _version(about: dict) -> str:
    for key in ("ETag", "etag", "md5Hash", "mtime", "LastModified", "created", "blob_id"):
        if about.get(key):
            return str(about[key]).strip('"')
    return ""


# ---- reading and writing -------------------------------------------------------------------------


def opened(place: Any) -> IO[bytes]:
    """A file to read bytes from, that can seek."""
    if not is_address(place):
        return open(local(place), "rb")
    files, path = filesystem(place)
    return files.open(path, "rb", block_size=8 << 20)


def read_bytes(place: Any) -> bytes | None:
    """All of a small file; None where there is none."""
    try:
        with opened(place) as file:
            return file.read()
    except FileNotFoundError:
        return None


def size_of(place: Any) -> int | None:
    """Bytes of a file; None where there is none."""
    if not is_address(place):
        try:
            return os.stat(local(place)).st_size
        except OSError:
            return None
    files, path = filesystem(place)
    files.invalidate_cache(posixpath.dirname(path))
    try:
        return files.size(path)
    except FileNotFoundError:
        return None


def join(folder: Any, name: str) -> str:
    """A name inside a folder or an address."""
    return f"{str(folder).rstrip('/')}/{name}"


def check_free(folder: Any, overwrite: bool) -> None:
    """Refuse a target that holds files which no manifest explains."""
    if overwrite:
        return
    if is_address(folder):
        files, path = filesystem(folder)
        full = files.exists(path) and any(True for _ in files.find(path, maxdepth=1))
    else:
        check_folder(local(folder))
        full = os.path.isdir(local(folder)) and any(os.scandir(local(folder)))
    if full:
        raise FileExistsError(
            f"{folder} exists and holds files without a manifest. Choose another folder, or pass "
            "overwrite=True to write among them."
        )


def check_folder(path: str) -> None:
    """Refuse a target that is a file."""
    if os.path.exists(path) and not os.path.isdir(path):
        raise NotADirectoryError(
            f"The target must be a folder. Got the file {path} instead. Choose another name."
        )


@contextlib.contextmanager
def whole_file(place: Any) -> Iterator[IO[bytes]]:
    """A file to write bytes to, there when the block ends well and not before.

    Local files and most stores: a temporary file that is moved. Object stores show an object only
    when its upload ends, so it is uploaded under its own name, and discarded if the block fails.
    """
    if not is_address(place):
        with replacing(local(place), parents=True) as file:
            yield file
        return
    files, path = filesystem(place)
    protocols = {files.protocol} if isinstance(files.protocol, str) else set(files.protocol)
    if protocols & _WHOLE_OBJECTS:
        file = files.open(path, "wb", block_size=16 << 20, autocommit=False)
        try:
            yield file
            file.close()
            file.commit()
        except BaseException:
            with contextlib.suppress(Exception):
                file.discard()
            raise
        return
    folder, name = posixpath.split(path)
    temporary = f"{folder}/.{name}.saving-{secrets.token_hex(4)}"
    files.makedirs(folder, exist_ok=True)
    try:
        with files.open(temporary, "wb") as file:
            yield file
        files.mv(temporary, path)
    except BaseException:
        with contextlib.suppress(Exception):
            files.rm(temporary)
        raise
