"""Vectors from a server with OpenAI's embeddings interface: batched, retried, cached on disk."""

import contextlib
import hashlib
import http.client
import json
import os
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterable
from pathlib import Path
from typing import IO, Any

import numpy as np

from pacsent.progress import bar
from pacsent.text.texts import as_texts

_KEYS = ("PACSENT_API_KEY", "OPENAI_API_KEY")  # variables that may hold the key of the server
_DIGEST = 16  # bytes of a text's hash in the cache
_LONGEST_WAIT = 60.0  # seconds between two attempts


class RemoteEncoder:
    """An encoder behind a URL that answers `POST /embeddings` as OpenAI's servers do.

    Every vector is appended to a file on disk when it arrives, by the hash of its text. A text is
    therefore requested once, and a run that was interrupted goes on where it stopped.

    Parameters
    ----------
    url : str
        The address that `/embeddings` is appended to, such as "http://localhost:8000/v1". The name
        of the model may follow a "#".
    model : str, optional
        The name of the model in requests.
    key : str, optional
        Sent as a bearer token. By default the variable PACSENT_API_KEY, or OPENAI_API_KEY.
    cache : path, optional
        The folder of the vectors that have been received; `~/.cache/pacsent/vectors` by default.
    batch_size : int, default=64
        Texts in one request.
    n_retries : int, default=6
        Attempts after a request that failed for a reason that may pass (no connection, status 429
        or 5xx), with pauses that double from one second on.

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
        address, _, named = url.partition("#")
        if not address.startswith(("http://", "https://")):
            raise ValueError(f"url must begin with http:// or https://. Got {url!r} instead.")
        self.url = address.rstrip("/").removesuffix("/embeddings")
        self.model = model or named or "default"
        self.batch_size, self.n_retries, self.timeout = batch_size, n_retries, timeout
        self._key = key or next(filter(None, map(os.environ.get, _KEYS)), None)
        self._cache = VectorCache(cache or _cache_folder(), f"{self.url}#{self.model}")

    @property
    def source(self) -> str:
        """The address and the model, as `url` takes them."""
        return f"{self.url}#{self.model}"

    def encode(self, texts: Iterable[str]) -> np.ndarray:
        """Vectors of the texts, (n, n_dims), float32; only those not in the cache are requested."""
        texts = as_texts(texts)
        missing = self._cache.missing(texts)
        with bar(
            "requesting vectors", total=len(missing), unit="texts", enabled=bool(missing)
        ) as shown:
            for at in range(0, len(missing), self.batch_size):
                batch = missing[at : at + self.batch_size]
                self._cache.add(batch, self._request(batch))
                shown.advance(len(batch))
        return self._cache.get(texts)

    def _request(self, texts) -> np.ndarray:
        body = {"model": self.model, "input": texts, "encoding_format": "float"}
        for attempt in range(self.n_retries + 1):
            wait, problem = self._attempt(json.dumps(body).encode())
            if wait is None:
                return self._vectors(problem, len(texts))
            if wait < 0 or attempt == self.n_retries:
                break
            time.sleep(min(wait or 2.0**attempt, _LONGEST_WAIT))
        raise ConnectionError(
            f"{self.url}/embeddings must answer with vectors. It answered {problem}. "
            f"{len(self._cache):,} vectors that were received before are kept in "
            f"{self._cache.path}: run the same again to go on from there."
        )

    def _attempt(self, body: bytes) -> tuple[float | None, Any]:
        """(None, answer), or (seconds to wait, problem); negative where waiting does not help."""
        headers = {"Content-Type": "application/json"}
        if self._key:
            headers["Authorization"] = f"Bearer {self._key}"
        request = urllib.request.Request(f"{self.url}/embeddings", body, headers)
        try:
            with urllib.request.urlopen(request, timeout=self.timeout) as answer:
                return None, json.load(answer)
        except urllib.error.HTTPError as error:
            said = error.read(500).decode("utf-8", "replace").replace("\n", " ")
            problem = f"status {error.code} ({said.strip() or error.reason})"
            if error.code != 429 and error.code < 500:
                return -1.0, problem
            return _seconds(error.headers.get("Retry-After")), problem
        except (OSError, http.client.HTTPException, ValueError) as error:
            return 0.0, f"nothing that can be read ({error})"

    def _vectors(self, answer, n) -> np.ndarray:
        try:
            rows = sorted(answer["data"], key=lambda row: row.get("index", 0))
            vectors = np.array([row["embedding"] for row in rows], np.float32)
        except (KeyError, TypeError, ValueError, AttributeError):
            vectors = np.zeros(0, np.float32)
        if vectors.ndim != 2 or len(vectors) != n or not np.isfinite(vectors).all():
            raise ValueError(
                f"{self.url}/embeddings must answer {n:,} texts with as many vectors of finite "
                f"numbers. Got {vectors.shape} instead. Check the address and the model's name."
            )
        return vectors


class VectorCache:
    """Vectors on disk by the hash of their text: a file that is only appended to.

    A process that is killed leaves at most one incomplete record at the end, which is cut off
    before the next is written.
    """

    def __init__(self, folder: str | os.PathLike, source: str):
        name = hashlib.blake2b(source.encode(), digest_size=_DIGEST).hexdigest()
        self.path = Path(folder) / f"{name}.vectors"
        self._source = source
        self._rows: dict[bytes, np.ndarray] = {}
        self._n_dims: int | None = None
        self._lock = threading.Lock()
        if self.path.exists():
            self._read()

    def __len__(self) -> int:
        return len(self._rows)

    def missing(self, texts: list[str]) -> list[str]:
        """The different texts without a vector, in order."""
        new = dict.fromkeys(texts)
        return [text for text in new if _digest(text) not in self._rows]

    def get(self, texts: list[str]) -> np.ndarray:
        """The vectors of texts that all have one."""
        rows = [self._rows[_digest(text)] for text in texts]
        return np.stack(rows) if rows else np.zeros((0, self._n_dims or 0), np.float32)

    def add(self, texts: list[str], vectors: np.ndarray) -> None:
        """Append vectors to the file, and keep them."""
        n_dims = vectors.shape[1]
        if self._n_dims not in (None, n_dims):
            raise ValueError(
                f"The vectors must have {self._n_dims} numbers, as those in {self.path}. Got "
                f"{n_dims} instead: the model behind the address is another one now. Name it "
                "(URL#NAME), or delete that file."
            )
        digests = [_digest(text) for text in texts]
        records = b"".join(d + v.tobytes() for d, v in zip(digests, vectors.astype("<f4")))
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self._lock, open(self.path, "ab") as file, _locked(file):
            if file.tell() == 0:
                head = {"source": self._source, "n_dims": n_dims}
                file.write(json.dumps(head).encode() + b"\n")
            else:
                file.truncate(self._whole(file.tell(), n_dims))
            file.write(records)
            file.flush()
            os.fsync(file.fileno())
        self._n_dims = n_dims
        self._rows.update(zip(digests, vectors.astype(np.float32)))

    def _head(self) -> tuple[dict, int]:
        with open(self.path, "rb") as file:
            line = file.readline(100_000)
        try:
            head = json.loads(line)
            assert isinstance(head["n_dims"], int)
        except (ValueError, KeyError, TypeError, AssertionError):
            raise ValueError(
                f"{self.path} must be a cache of vectors. It is something else, or damaged. Delete "
                "it; the vectors are requested again."
            ) from None
        return head, len(line)

    def _whole(self, size, n_dims) -> int:
        """Bytes of the file without an incomplete record at its end."""
        start = self._head()[1]
        return size - (size - start) % (_DIGEST + 4 * n_dims)

    def _read(self):
        head, start = self._head()
        self._n_dims = n_dims = head["n_dims"]
        data = self.path.read_bytes()
        size = _DIGEST + 4 * n_dims
        record = np.dtype([("digest", f"V{_DIGEST}"), ("vector", "<f4", (n_dims,))])
        rows = np.frombuffer(data, record, (len(data) - start) // size, start)
        self._rows = {row["digest"].tobytes(): row["vector"] for row in rows}


def _digest(text: str) -> bytes:
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=_DIGEST).digest()


def _seconds(text: str | None) -> float:
    try:
        return max(0.0, float(text or 0))
    except ValueError:
        return 0.0


def _cache_folder() -> Path:
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home) / "pacsent" / "vectors"


@contextlib.contextmanager
def _locked(file: IO):
    """Only one process appends at a time, where the system has locks of files."""
    if sys.platform == "win32":
        yield
        return
    import fcntl

    fcntl.flock(file, fcntl.LOCK_EX)
    file.seek(0, os.SEEK_END)
    yield
