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
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from pacsent.progress import bar
from pacsent.sentences.probe import MIN_PROBE_COSINE, PROBE, probe_cosines
from pacsent.sentences.vector_sources import VectorSource
from pacsent.storage import PUBLIC_PARAMETERS, public_url
from pacsent.text.texts import as_texts

_LOCAL_HOSTS = ("localhost", "127.0.0.1", "::1")
_DIGEST_BYTES = 16  # of a text's hash and of a vector's checksum in the cache
_MAX_WAIT = 60.0  # seconds between two attempts
_LOCK_TIMEOUT = 60.0  # seconds for another process to finish writing to the cache
_MAX_ANSWER_BYTES = 1_000_000  # for each text of the request: 40,000 numbers of 25 digits
_MAX_TIMEOUT = 86_400.0  # seconds: a day


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """A redirect is an error: following it would send the key to a host without consent."""

    def redirect_request(self, *arguments: Any) -> None:
        return None


class _FailedAttempt(Exception):
    """An attempt to get vectors that failed, for a reason that may pass unless it is final.

    `wait` are the seconds after which the server wants to be asked again.
    """

    def __init__(self, problem: str, *, is_final: bool = False, wait: float | None = None):
        super().__init__(problem)
        self.problem = problem
        self.is_final = is_final
        self.wait = wait


class RemoteEncoder(VectorSource):
    """An encoder behind a URL that answers `POST /embeddings` as OpenAI's servers do.

    Every vector is stored on disk when it arrives, by the hash of its text. A text is therefore
    requested once, and a run that was interrupted resumes where it stopped.

    Its first request to a server has ten fixed sentences. Their vectors are stored as well, and
    compared with those in the cache: the vectors of two models are never mixed.

    Parameters
    ----------
    url : str
        The URL that `/embeddings` is appended to, such as "http://localhost:8000/v1". Parameters
        after a "?" are sent with every request. The name of the model may follow a "#". A URL with
        a user name or a password is rejected. Redirects are not followed.
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
        Seconds for one answer, at most 86,400.

    Notes
    -----
    Neither the key nor the parameters of the URL are printed, saved or pickled, except
    `api-version` and `version`, which decide what a server answers and are no secrets. A pickled
    encoder reads the key from the environment again; one whose URL had other parameters must be
    made again.

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
        endpoint = _parse_url(url)

        for name, value, least in (("batch_size", batch_size, 1), ("n_retries", n_retries, 0)):
            if not isinstance(value, int) or value < least:
                raise ValueError(f"{name} must be at least {least}. Got {value!r} instead.")
        if not 0 < timeout <= _MAX_TIMEOUT:
            limit = f"above 0 and at most {_MAX_TIMEOUT:,.0f} seconds"
            raise ValueError(f"timeout must be {limit}. Got {timeout!r} instead.")
        if key is not None and not isinstance(key, str):
            raise TypeError(f"key must be a str. Got {type(key).__name__} instead.")

        self.url = endpoint.base
        self.model = model or endpoint.model or "default"
        self.batch_size = batch_size
        self.n_retries = n_retries
        self.timeout = timeout

        self._host = endpoint.host
        self._public_query = endpoint.public_query
        self._private_query = endpoint.private_query
        self._key = key or self._key_of_environment()
        self._omitted = ""  # what a pickle left out
        self._is_compared = False  # the server with the cache

        if self._key and not (self._key.isascii() and self._key.isprintable()):
            raise ValueError("key must be one line of ASCII characters. Remove its line breaks.")

        if cache is None:
            home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
            cache = Path(home) / "pacsent" / "vectors"
        self._cache = VectorCache(cache, self.source)

    @property
    def source(self) -> str:
        """The URL and the model, as `url` takes them, without keys and passwords."""
        query = f"?{urllib.parse.urlencode(self._public_query)}" if self._public_query else ""
        return f"{self.url}{query}#{self.model}"

    def __repr__(self) -> str:
        return f"RemoteEncoder({self.source!r})"

    def __getstate__(self) -> dict[str, Any]:
        omitted = []
        if self._key:
            omitted.append("key")
        if self._private_query:
            names = ", ".join(name for name, _ in self._private_query)
            omitted.append(f"parameters of its URL ({names})")
        secrets = {"_key": None, "_private_query": ()}
        return self.__dict__ | secrets | {"_omitted": " and ".join(omitted), "_is_compared": False}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._key = self._key_of_environment()
        if self._omitted == "key" and self._key:
            self._omitted = ""

    def __copy__(self) -> "RemoteEncoder":
        return self

    def __deepcopy__(self, memo: dict) -> "RemoteEncoder":
        return self  # a copy within the process keeps the key, which a pickle does not

    def encode(self, texts: Iterable[str]) -> np.ndarray:
        """Vectors of the texts; only those that are not in the cache are requested.

        Parameters
        ----------
        texts : iterable of str

        Returns
        -------
        vectors : array, shape (n_texts, n_dims), float32
        """
        texts = as_texts(texts)
        missing = self._cache.missing(texts)
        if missing and not self._is_compared:
            self.accept_probe(self.current_probe())
            missing = self._cache.missing(texts)

        n = len(missing)
        with bar("requesting vectors", total=n, unit="texts", enabled=n > 0) as progress:
            for start in range(0, n, self.batch_size):
                batch = missing[start : start + self.batch_size]
                vectors = self.request(batch)
                self._cache.add(batch, vectors)
                progress.advance(len(batch))
        return self._cache.get(texts)

    @property
    def name(self) -> str:
        """Name in messages and saved models: the URL and the model."""
        return self.source

    def current_probe(self) -> np.ndarray:
        """The server's vectors of the ten sentences now, not those in the cache.

        Returns
        -------
        vectors : array, shape (10, n_dims)
        """
        return self.request(list(PROBE))

    def accept_probe(self, vectors: np.ndarray) -> None:
        """Raise ValueError if these vectors of the ten sentences are not those in the cache.

        Parameters
        ----------
        vectors : array, shape (10, n_dims)
        """
        self._cache.compare(vectors, self.source)
        self._is_compared = True

    def request(self, texts: list[str]) -> np.ndarray:
        """Vectors of the texts from the server, in one request that is repeated if it fails.

        Parameters
        ----------
        texts : list of str

        Returns
        -------
        vectors : array, shape (n_texts, n_dims)
        """
        if self._omitted:
            raise ValueError(
                f"The encoder of {self.source} was pickled, without its {self._omitted}. Set "
                "PACSENT_API_KEY before it is unpickled, or make it again: RemoteEncoder(url)."
            )

        request = self._http_request(texts)
        max_bytes = _MAX_ANSWER_BYTES * len(texts)
        problem = ""
        for attempt in range(self.n_retries + 1):
            try:
                answer = self._attempt(request, max_bytes)
            except _FailedAttempt as failure:
                problem = failure.problem
                if failure.is_final:
                    break
                wait = 2.0**attempt if failure.wait is None else failure.wait
            else:
                return self._parse(answer, len(texts))
            if attempt < self.n_retries:
                time.sleep(min(max(0.0, wait), _MAX_WAIT))  # 0 if it is nan

        raise ConnectionError(
            f"{self.url}/embeddings must answer with vectors. It answered {problem}. "
            f"{len(self._cache):,} vectors that were received before are kept in "
            f"{self._cache.path}: run the same again to resume."
        )

    def _http_request(self, texts: list[str]) -> urllib.request.Request:
        """The request for the vectors of some texts."""
        body = {"model": self.model, "input": texts, "encoding_format": "float"}
        headers = {"Content-Type": "application/json"}
        if self._key:
            headers["Authorization"] = f"Bearer {self._key}"
        query = urllib.parse.urlencode([*self._public_query, *self._private_query])
        url = f"{self.url}/embeddings" + (f"?{query}" if query else "")
        return urllib.request.Request(url, json.dumps(body).encode(), headers)

    def _attempt(self, request: urllib.request.Request, max_bytes: int) -> Any:
        """The JSON that the server answers, or `_FailedAttempt`."""
        try:
            content = self._read_answer(request, max_bytes)
            if len(content) > max_bytes:
                raise _FailedAttempt(f"more than {max_bytes:,} bytes", is_final=True)
            return json.loads(content)

        except urllib.error.HTTPError as error:
            text = error.read(500).decode("utf-8", "replace")
            reason = self._without_secrets(_one_line(text)) or error.reason
            wait = None
            with contextlib.suppress(ValueError):  # none, or a date
                wait = float(error.headers.get("Retry-After", ""))
            raise _FailedAttempt(
                f"status {error.code} ({reason})",
                is_final=error.code != 429 and error.code < 500,
                wait=wait,
            ) from None

        except (OSError, http.client.HTTPException, ValueError, RecursionError) as error:
            reason = self._without_secrets(_one_line(str(error)))
            raise _FailedAttempt(f"nothing that can be read ({reason})") from None

    def _read_answer(self, request: urllib.request.Request, max_bytes: int) -> bytearray:
        """The body of the answer; of a longer one at least a byte more than `max_bytes`."""
        opener = urllib.request.build_opener(_NoRedirects)
        deadline = time.monotonic() + self.timeout
        content = bytearray()
        with opener.open(request, timeout=self.timeout) as response:
            while len(content) <= max_bytes and (piece := response.read1()):
                content += piece
                if time.monotonic() > deadline:  # a byte now and then is no answer
                    raise TimeoutError(f"incomplete after {self.timeout:g} s")
        return content

    def _parse(self, answer: Any, n: int) -> np.ndarray:
        """The vectors in the order of the texts; rows without any index are in that order."""
        try:
            rows = answer["data"]
            places = [row.get("index") for row in rows]
            if places != [None] * n:
                if sorted(places) != list(range(n)) or {type(place) for place in places} != {int}:
                    raise ValueError
                rows = [rows[places.index(i)] for i in range(n)]

            embeddings = [row["embedding"] for row in rows]
            if not set(map(type, chain.from_iterable(embeddings))) <= {int, float}:
                raise ValueError  # strings and booleans would be read as numbers
            vectors = np.array(embeddings, np.float32)
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError):
            vectors = np.zeros(0, np.float32)

        if vectors.ndim != 2 or not vectors.size or not np.isfinite(vectors).all():
            raise ValueError(
                f"{self.url}/embeddings must answer {n:,} texts with as many vectors of finite "
                f"numbers, each with the index of its text. Got {vectors.shape} instead. Check the "
                "URL and the model's name."
            )
        return vectors

    def _key_of_environment(self) -> str | None:
        is_openai = f".{self._host}".endswith(".openai.com") and self.url.startswith("https://")
        variables = ["PACSENT_API_KEY"]
        if is_openai or self._host in _LOCAL_HOSTS:
            variables.append("OPENAI_API_KEY")
        return next(filter(None, map(os.environ.get, variables)), None)

    def _without_secrets(self, text: str) -> str:
        """A server's words, in case they repeat the key or a parameter."""
        for secret in (self._key, *(value for _, value in self._private_query)):
            if secret:
                text = text.replace(secret, "...")
        return text


class _Endpoint(NamedTuple):
    """A URL that `/embeddings` is appended to, in parts."""

    base: str  # scheme, host and path
    host: str
    public_query: tuple[tuple[str, str], ...]  # parameters that may be printed and saved
    private_query: tuple[tuple[str, str], ...]
    model: str


def _parse_url(url: str) -> _Endpoint:
    """The parts of a URL; ValueError, without its password, if a server cannot be reached so."""
    shown = f"Got {public_url(url)!r} instead."
    address, _, model = url.partition("#")
    if not url.isprintable() or " " in address:
        raise ValueError(f"url must have no spaces and control characters. {shown}")

    try:
        parts = urllib.parse.urlsplit(address)
        host = parts.hostname
        parts.port  # noqa: B018 - raises if it is no number
    except ValueError:
        host = None
    if not (host and address.startswith(("http://", "https://"))):
        raise ValueError(f"url must begin with http:// or https:// and a host. {shown}")

    if "@" in parts.netloc:
        raise ValueError(
            f"url must have no user name and no password, which messages would show. {shown} Pass "
            "key=, or set PACSENT_API_KEY."
        )

    query = urllib.parse.parse_qsl(parts.query, keep_blank_values=True)
    path = parts.path.rstrip("/").removesuffix("/embeddings")
    return _Endpoint(
        base=f"{parts.scheme}://{parts.netloc}{path}",
        host=host,
        public_query=tuple(pair for pair in query if pair[0] in PUBLIC_PARAMETERS),
        private_query=tuple(pair for pair in query if pair[0] not in PUBLIC_PARAMETERS),
        model=model,
    )


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

    def compare(self, probe: np.ndarray, source: str) -> None:
        """Check that the probe's vectors are those stored here; store them if there are none."""
        with self._open() as database:
            stored = [_lookup(database, text) for text in PROBE]

        if any(stored):
            rows = [row for row, vector in enumerate(stored) if vector is not None]
            expected = np.stack([np.frombuffer(stored[row], "<f4") for row in rows])
            self._check_size(expected.shape[1], probe)
            cosines = probe_cosines(probe[rows], expected)
            if cosines.min() < MIN_PROBE_COSINE:
                raise ValueError(
                    f"{source} must be the model whose vectors are in {self.path}. It is another "
                    f"one now: the cosine of its vectors with those is {cosines.min():.3f} for "
                    f"{PROBE[rows[int(cosines.argmin())]]!r}. Name it (URL#NAME), or delete that "
                    "file."
                )
        elif len(self):
            raise ValueError(
                f"{self.path} has {len(self):,} vectors, and none of the ten sentences by which "
                f"{source} is recognised. Delete it; the vectors are requested again."
            )

        self.add(list(PROBE), probe)

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
            if stored is not None:
                self._check_size(stored[0], vectors)
            for text, vector in zip(texts, vectors.astype("<f4")):
                key = _digest(text)
                content = vector.tobytes()
                row = (key, content, _digest(key + content))
                database.execute("INSERT OR REPLACE INTO vectors VALUES (?, ?, ?)", row)
            database.commit()

    def _check_size(self, n_dims: int, vectors: np.ndarray) -> None:
        if n_dims != vectors.shape[1]:
            raise ValueError(
                f"The vectors must have {n_dims} numbers, as those in {self.path}. Got "
                f"{vectors.shape[1]} instead: the model behind the URL is another one now. Name "
                "it (URL#NAME), or delete that file."
            )

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
