"""Files on this machine, or in any store that fsspec supports.

A location is a path or a URL such as s3://bucket/folder.
"""

import contextlib
import os
import posixpath
import secrets
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import IO, Any, NamedTuple

from pacsent.files import replacing
from pacsent.optional import import_optional, install_hint
from pacsent.storage import public_url
from pacsent.text.tables import KINDS, kind_of

# Stores that show an object only when its upload ends: nothing has to be written beside it.
_ATOMIC_UPLOADS = {"s3", "s3a", "gs", "gcs"}
_WILDCARDS = set("*?[")


@dataclass(frozen=True)
class Shard:
    """One input file."""

    source: str  # path or URL
    name: str  # path below the folder that the user named, without suffixes; that of the output
    kind: str  # "parquet", "jsonl", "csv", "tsv" or "text"
    size: int  # bytes
    version: str  # changes with the file: its times and inode, or the tag that the store gives

    @property
    def shown(self) -> str:
        """The source as it may be printed and saved, without passwords."""
        return public_url(self.source)


def is_url(location: Any) -> bool:
    """Return True for a URL (s3://...), and False for a path of this machine."""
    return "://" in str(location)


def filesystem(location: Any) -> tuple[Any, str]:
    """Return fsspec's file system of a location, and the path there."""
    needs = f"{public_url(location)} is reached through fsspec"
    fsspec = import_optional("fsspec.core", needs, "scale")
    try:
        return fsspec.url_to_fs(str(location))
    except ImportError as error:
        raise ImportError(
            f"{public_url(location)} needs a package that is not installed ({error}). For s3://: "
            f"{install_hint('s3')}"
        ) from None


def list_shards(sources: Iterable) -> tuple[list[Shard], list[str]]:
    """Return the files of sources that can be read, and the locations of files of other kinds.

    Sources are files, folders (with all below them) and globs, each sorted by name. In folders,
    names that begin with a dot or an underscore are skipped, as Spark and Hadoop do. A file that is
    named itself is read as lines of text if its suffix is unknown.
    """
    shards: dict[str, Shard] = {}
    ignored: list[str] = []
    for source in sources:
        for file in _list_files(source):
            kind, name = kind_of(file.below)
            if kind is None and not file.is_source:
                ignored.append(public_url(file.location))
                continue
            if name in shards:
                raise ValueError(
                    "Every source must have its own name in the target. Got "
                    f"{shards[name].shown} and {public_url(file.location)}, both {name}, instead. "
                    "Embed them into two targets."
                )
            shards[name] = Shard(file.location, name, kind or "text", file.size, file.version)

    if not shards:
        more = f"; {len(ignored):,} files are of another kind" if ignored else ""
        places = ", ".join(map(public_url, sources))
        raise FileNotFoundError(
            f"The sources must have files of {', '.join(KINDS)}. Got none in "
            f"{places}{more}. Check the names."
        )
    return list(shards.values()), ignored


class _File(NamedTuple):
    """A file of a source, or the source itself."""

    location: str
    below: str  # path below the folder that the user named
    size: int
    version: str
    is_source: bool


def _list_files(source: Any) -> Iterator[_File]:
    """The files of a source that are not hidden, sorted by name."""
    root, is_source, entries = _list_entries(source)
    for below, entry in sorted(entries.items()):
        is_hidden = any(part.startswith((".", "_")) for part in below.split("/"))
        if entry["type"] == "directory" or (is_hidden and not is_source):
            continue
        location = root if is_source else f"{root}/{below}"
        if is_url(source):
            size = int(entry["size"] or 0)
            yield _File(location, below, size, _version_in_store(entry), is_source)
        elif os.path.isfile(entry["name"]):  # else a link to a folder
            stat = os.stat(entry["name"])
            # A program can set the modification time back, but not that of the inode's change.
            version = f"{stat.st_mtime_ns}-{stat.st_ctime_ns}-{stat.st_ino}"
            yield _File(location, below, stat.st_size, version, is_source)


def _version_in_store(entry: dict[str, Any]) -> str:
    """The tag that a store gives to a file, or its time; empty if it has neither."""
    for key in ("ETag", "etag", "md5Hash", "mtime", "LastModified", "created", "blob_id"):
        if entry.get(key):
            return str(entry[key]).strip('"')
    return ""


def _list_entries(source: Any) -> tuple[str, bool, dict[str, dict]]:
    """Return the source's folder or file, whether it is a file, and entries by the path below."""
    store, store_path = filesystem(source)
    root = str(source).rstrip("/")
    path = store_path.rstrip("/")
    is_file = False
    if _WILDCARDS & set(path) and not store.exists(path):
        entries = store.glob(path, detail=True)
        root = _before_wildcards(root)
        path = _before_wildcards(path)
    else:
        entries = store.find(path, detail=True)
        is_file = list(entries) == [path]
    if not entries:
        raise FileNotFoundError(f"No file was found at {public_url(source)}. Check the name.")

    if is_file:
        return root, True, {posixpath.basename(path): entries[path]}
    entries_below = {}
    for full_path, entry in entries.items():
        below = full_path[len(path) :].lstrip("/")
        entries_below[below] = entry
    return root, False, entries_below


def _before_wildcards(pattern: str) -> str:
    parts = pattern.split("/")
    for number, part in enumerate(parts[:-1]):
        if _WILDCARDS & set(part):
            return "/".join(parts[:number]) or "/"
    return "/".join(parts[:-1]) or "."


def open_file(location: Any) -> IO[bytes]:
    """Open a file for reading bytes; it can seek."""
    if not is_url(location):
        return open(location, "rb")
    store, path = filesystem(location)
    return store.open(path, "rb", block_size=8 << 20)


def file_size(location: Any) -> int | None:
    """Return the size of a file in bytes, None if there is no such file."""
    try:
        if not is_url(location):
            return os.stat(location).st_size
        store, path = filesystem(location)
        store.invalidate_cache(posixpath.dirname(path))
        return store.size(path)
    except FileNotFoundError:
        return None


def check_target(folder: Any) -> None:
    """Raise an error if a new target is a file, or a folder with files that no manifest lists."""
    store, path = filesystem(folder)
    if store.isfile(path) or (store.exists(path) and store.ls(path, detail=False)):
        raise FileExistsError(
            f"{public_url(folder)} is a file or holds files without a manifest. Choose another "
            "folder, or pass overwrite=True to write among them."
        )


@contextlib.contextmanager
def write_complete(location: Any) -> Iterator[IO[bytes]]:
    """Open a file for writing bytes that appears when the block ends without an error.

    Local files and most stores: a temporary file that is moved. Object stores: an upload under its
    own name, discarded if the block fails.
    """
    if not is_url(location):
        with replacing(location, parents=True) as local_file:
            yield local_file
        return

    store, path = filesystem(location)
    protocols = {store.protocol} if isinstance(store.protocol, str) else set(store.protocol)
    if protocols & _ATOMIC_UPLOADS:
        file = store.open(path, "wb", block_size=16 << 20, autocommit=False)
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
    store.makedirs(folder, exist_ok=True)
    try:
        with store.open(temporary, "wb") as file:
            yield file
        store.mv(temporary, path)
    except BaseException:
        with contextlib.suppress(Exception):
            store.rm(temporary)
        raise
