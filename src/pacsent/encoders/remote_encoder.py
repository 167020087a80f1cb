"""Vectors from a server with OpenAI's embeddings interface: batched, retried, cached on disk."""

import contextlib
import hashlib
import http.client
import json
import os
import sqlite3
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from pacsent.progress import bar
from pacsent.text.texts import as_texts

_LOCAL_HOSTS = ("localhost", "127.0.0.1", "::1")
_DIGEST_BYTES = 16  # of a text's hash and of a vector's checksum in the cache
_MAX_WAIT = 60.0  # seconds between two attempts
_LOCK_TIMEOUT = 60.0  # seconds for another process to finish writing to the cache
_MAX_ANSWER_BYTES = 1_000_000  # for each text of the request: 40,000 numbers of 25 digits


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """A redirect is an error: following it would send the key to a host without consent."""

    def redirect_request(self, *arguments):
        return None


class RemoteEncoder:
    """An encoder behind a URL that answers `POST /embeddings` as OpenAI's servers do.

    Every vector is stored on disk when it arrives, by the hash of its text. A text is therefore
    requested once, and a run that was interrupted resumes where it stopped.

    Parameters
    ----------
    url : str
        The URL that `/embeddings` is appended to, such as "http://localhost:8000/v1". The name
        of the model may follow a "#". Redirects are not followed.
    model : str, optional
        The name of the model in requests.
    key : str, optional
        Sent as a bearer token. By default the variable PACSENT_API_KEY; for openai.com (https)
        and servers on this machine also OPENAI_API_KEY.
    cache : path, optional
        The folder of the vectors that have been received; `~/.cache/pacsent/vectors` by default.
    batch_size : int, default=64
        Texts in one request.
    n_retries : int, default=6
        Attempts after a request that failed for a reason that may pass (no connection, status 429
        or 5xx), with pauses that double from one second on.
    timeout : float, default=60
        Seconds for one answer.

    Examples
    --------
    >>> RemoteEncoder("http://localhost:8000/v1#small").model
    'small'
    """

    def __init__(
        self,
        url: str,
        model: str | None = None,
        *,
        key: str | None = None,
        cache: str | os.PathLike | None = None,
        batch_size: int = 64,
        n_retries: int = 6,
        timeout: float = 60.0,
    ):
        endpoint, _, named = url.partition("#")
        host = None
        with contextlib.suppress(ValueError):  # no URL at all
            host = urllib.parse.urlsplit(endpoint).hostname
        if not (host and endpoint.startswith(("http://", "https://"))):
            raise ValueError(f"url must begin with http:// or https://. Got {url!r} instead.")
        for name, value, least in (("batch_size", batch_size, 1), ("n_retries", n_retries, 0)):
            if value < least:
                raise ValueError(f"{name} must be at least {least}. Got {value} instead.")
        self.url = endpoint.rstrip("/").removesuffix("/embeddings")
        self.model = model or named or "default"
        self.batch_size, self.n_retries, self.timeout = batch_size, n_retries, timeout
        is_openai = f".{host}".endswith(".openai.com") and endpoint.startswith("https://")
        variables = ["PACSENT_API_KEY"] + ["OPENAI_API_KEY"] * (is_openai or host in _LOCAL_HOSTS)
        self._key = key or next(filter(None, map(os.environ.get, variables)), None)
        if self._key and not (self._key.isascii() and self._key.isprintable()):
            raise ValueError("key must be one line of ASCII characters. Remove its line breaks.")
        if cache is None:
            home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
            cache = Path(home) / "pacsent" / "vectors"
        self._cache = VectorCache(cache, self.source)

    @property
    def source(self) -> str:
        """The URL and the model, as `url` takes them."""
        return f"{self.url}#{self.model}"

    def encode(self, texts: Iterable[str]) -> np.ndarray:
        """Vectors of the texts, (n, n_dims), float32; only those not in the cache are requested."""
        texts = as_texts(texts)
        missing = self._cache.missing(texts)
        n = len(missing)
        with bar("requesting vectors", total=n, unit="texts", enabled=n > 0) as shown:
            for start in range(0, len(missing), self.batch_size):
                batch = missing[start : start + self.batch_size]
                self._cache.add(batch, self.request(batch))
                shown.advance(len(batch))
        return self._cache.get(texts)

    def request(self, texts: list[str]) -> np.ndarray:
        """Vectors of the texts from the server, in one request that is repeated if it fails."""
        body = {"model": self.model, "input": texts, "encoding_format": "float"}
        headers = {"Content-Type": "application/json"}
        if self._key:
            headers["Authorization"] = f"Bearer {self._key}"
        data = json.dumps(body).encode()
        request = urllib.request.Request(f"{self.url}/embeddings", data, headers)
        opener = urllib.request.build_opener(_NoRedirects)
        limit = _MAX_ANSWER_BYTES * len(texts)
        for attempt in range(self.n_retries + 1):
            wait = 2.0**attempt
            try:
                deadline, content = time.monotonic() + self.timeout, bytearray()
                with opener.open(request, timeout=self.timeout) as response:
                    while len(content) <= limit and (piece := response.read1()):
                        content += piece
                        if time.monotonic() > deadline:  # a byte now and then is no answer
                            raise TimeoutError(f"incomplete after {self.timeout:g} s")
                if len(content) > limit:
                    problem = f"more than {limit:,} bytes"
                    break
                answer = json.loads(content)
            except urllib.error.HTTPError as error:
                text = error.read(500).decode("utf-8", "replace")
                problem = f"status {error.code} ({_one_line(text) or error.reason})"
                if error.code != 429 and error.code < 500:
                    break
                with contextlib.suppress(ValueError):  # a date
                    wait = float(error.headers.get("Retry-After") or wait)
            except (OSError, http.client.HTTPException, ValueError, RecursionError) as error:
                problem = f"nothing that can be read ({_one_line(str(error))})"
            else:
                return self._parse(answer, len(texts))
            if attempt < self.n_retries:
                time.sleep(min(max(0.0, wait), _MAX_WAIT))  # 0 if it is nan
        raise ConnectionError(
            f"{self.url}/embeddings must answer with vectors. It answered {problem}. "
            f"{len(self._cache):,} vectors that were received before are kept in "
            f"{self._cache.path}: run the same again to resume."
        )

    def _parse(self, answer, n) -> np.ndarray:
        """The vectors in the order of the texts; rows without any index are in that order."""
        try:
            rows = answer["data"]
            places = [row.get("index") for row in rows]
            if places != [None] * n:
                if sorted(places) != list(range(n)) or {type(place) for place in places} != {int}:
                    raise ValueError
                rows = [rows[places.index(i)] for i in range(n)]
            vectors = np.array([row["embedding"] for row in rows], np.float32)
        except (KeyError, TypeError, ValueError, AttributeError):
            vectors = np.zeros(0, np.float32)
        if vectors.ndim != 2 or not vectors.size or not np.isfinite(vectors).all():
            raise ValueError(
                f"{self.url}/embeddings must answer {n:,} texts with as many vectors of finite "
                f"numbers, each with the index of its text. Got {vectors.shape} instead. Check the "
                "URL and the model's name."
            )
        return vectors


class VectorCache:
    """Vectors on disk by the hash of their text, in an SQLite file that processes can share."""

    def __init__(self, folder: str | os.PathLike, source: str):
        self.path = Path(folder) / f"{_digest(source).hex()}.sqlite"
        if self.path.exists():
            len(self)  # raises if it is another file

    def __len__(self) -> int:
        with self._open() as database:
            return database.execute("SELECT count(*) FROM vectors").fetchone()[0]

    def missing(self, texts: list[str]) -> list[str]:
        """The different texts without an intact vector, in order."""
        with self._open() as database:
            return [text for text in dict.fromkeys(texts) if _lookup(database, text) is None]

    def get(self, texts: list[str]) -> np.ndarray:
        """The vectors of texts that all have one."""
        with self._open() as database:
            rows = [np.frombuffer(_lookup(database, text), "<f4") for text in texts]
        return np.stack(rows) if rows else np.zeros((0, 0), np.float32)

    def add(self, texts: list[str], vectors: np.ndarray) -> None:
        """Store the vectors of texts."""
        with self._open() as database:
            database.execute("BEGIN IMMEDIATE")  # no other process adds one of another size
            stored = database.execute("SELECT length(vector) / 4 FROM vectors LIMIT 1").fetchone()
            if stored is not None and stored[0] != vectors.shape[1]:
                raise ValueError(
                    f"The vectors must have {stored[0]} numbers, as those in {self.path}. Got "
                    f"{vectors.shape[1]} instead: the model behind the URL is another one now. "
                    "Name it (URL#NAME), or delete that file."
                )
            for text, vector in zip(texts, vectors.astype("<f4")):
                key, content = _digest(text), vector.tobytes()
                row = key, content, _digest(key + content)
                database.execute("INSERT OR REPLACE INTO vectors VALUES (?, ?, ?)", row)
            database.commit()

    @contextlib.contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with contextlib.closing(sqlite3.connect(self.path, timeout=_LOCK_TIMEOUT)) as database:
                database.execute(
                    "CREATE TABLE IF NOT EXISTS vectors "
                    "(digest BLOB PRIMARY KEY, vector BLOB, checksum BLOB)"
                )
                yield database
        except sqlite3.DatabaseError as error:
            raise ValueError(
                f"{self.path} must be a cache of vectors. It cannot be read ({error}). Delete it; "
                "the vectors are requested again."
            ) from None


def _one_line(text: str) -> str:
    """A server's words without line breaks and control characters."""
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())


def _digest(data: bytes | str) -> bytes:
    data = data.encode("utf-8", "surrogatepass") if isinstance(data, str) else data
    return hashlib.blake2b(data, digest_size=_DIGEST_BYTES).digest()


def _lookup(database: sqlite3.Connection, text: str) -> Any:
    """The vector of a text as bytes; None if there is none, or it has changed since."""
    key = _digest(text)
    query = "SELECT vector, checksum FROM vectors WHERE digest = ?"
    vector, checksum = database.execute(query, (key,)).fetchone() or (None, None)
    intact = isinstance(vector, bytes) and _digest(key + vector) == checksum
    return vector if intact else None
