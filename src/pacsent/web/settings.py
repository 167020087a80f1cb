"""Options of a server: limits, API keys, times."""

import hashlib
import hmac
import re
from dataclasses import dataclass
from pathlib import Path

PAGE_FOLDER = Path(__file__).parent / "page"  # styles and scripts of the pages
_MAX_KEY_LENGTH = 512  # characters
_MAX_TIMEOUT = 86_400  # seconds: a day
_KEY = re.compile(rb"[\x21-\x7e]{16,%d}" % _MAX_KEY_LENGTH)
_ORIGIN = re.compile(r"[a-z][a-z0-9+.-]*://[^/\s?#@]+")


@dataclass(frozen=True)
class ServerSettings:
    """Limits and options of one server.

    Parameters
    ----------
    keys : tuple of bytes
        SHA-256 of each API key, as `read_keys` returns them; empty: no key is required.
    max_body : int
        Bytes of a request.
    max_texts : int
        Texts of a request.
    max_tokens : int
        Words in all texts of a request.
    max_explained : int
        Texts of a request with explanations.
    max_explained_tokens : int
        Words of each text that is explained.
    max_concurrent : int
        Requests that a worker answers at once; others get status 429.
    timeout : float
        Seconds from the start of a request to its response.
    origins : tuple of str
        Web origins whose pages may call the server; "*" for all.
    error : float, optional
        Maximum error rate of answers; None takes the smallest of ten rates with which at least
        half of the calibration texts are answered.
    delta : float, optional
        Probability that this guarantee fails; None is that of the model.

    Examples
    --------
    >>> settings = ServerSettings(max_texts=100, origins=("https://example.org",))
    >>> settings.timeout
    30.0
    """

    keys: tuple[bytes, ...] = ()
    max_body: int = 8 << 20
    max_texts: int = 2048
    max_tokens: int = 1_000_000
    max_explained: int = 32
    max_explained_tokens: int = 1000
    max_concurrent: int = 256
    timeout: float = 30.0
    origins: tuple[str, ...] = ()
    error: float | None = None
    delta: float | None = None

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if name.startswith("max_") and value < 1:
                raise ValueError(f"{name} must be 1 or more. Got {value} instead.")

        if not 0 < self.timeout <= _MAX_TIMEOUT:
            raise ValueError(
                f"timeout must be a number of seconds up to {_MAX_TIMEOUT:,} (a day). Got "
                f"{self.timeout:g} instead."
            )

        for name in ("error", "delta"):
            value = getattr(self, name)
            if value is not None and not 0 < value < 1:
                raise ValueError(f"{name} must be between 0 and 1. Got {value!r} instead.")

        for origin in self.origins:
            if origin != "*" and not _ORIGIN.fullmatch(origin):
                raise ValueError(
                    "An origin must be scheme, host and port as browsers send them, such as "
                    f"https://example.org, or * for all. Got {origin!r} instead."
                )

    def accepts_key(self, authorization: bytes | None) -> bool:
        """Return True if an Authorization header contains one of the keys.

        Every key is compared, so that the time does not tell which one is alike.

        Parameters
        ----------
        authorization : bytes or None
            The header's value; None if the request has none.

        Returns
        -------
        bool
            True for every request if the server has no keys.
        """
        if not self.keys:
            return True
        scheme, _, key = (authorization or b"").partition(b" ")
        if scheme.lower() != b"bearer" or len(key) > _MAX_KEY_LENGTH:
            return False
        digest = hashlib.sha256(key.strip()).digest()
        n_equal = sum(hmac.compare_digest(digest, expected) for expected in self.keys)
        return n_equal > 0

    def client_of(self, authorization: str | None) -> str:
        """Return the digest of the API key in an Authorization header.

        Parameters
        ----------
        authorization : str or None
            The header's value; None if the request has none.

        Returns
        -------
        str
            SHA-256 in hexadecimal digits; "" without keys.
        """
        if not self.keys:
            return ""
        _, _, key = (authorization or "").partition(" ")
        key_bytes = key.strip().encode("latin-1", "replace")
        return hashlib.sha256(key_bytes).hexdigest()


def read_keys(path: str | Path) -> tuple[bytes, ...]:
    """Read the API keys of a file.

    Parameters
    ----------
    path : path
        One key per line; lines that begin with # are comments.

    Returns
    -------
    keys : tuple of bytes
        Their SHA-256 digests, for `ServerSettings`.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "keys.txt"
    >>> _ = path.write_text("# of the test server\\nk-0123456789abcdef\\n")
    >>> ServerSettings(keys=read_keys(path)).accepts_key(b"Bearer k-0123456789abcdef")
    True
    """
    keys = []
    lines = Path(path).read_bytes().splitlines()
    for number, line in enumerate(lines, 1):
        key = line.strip()
        if not key or key.startswith(b"#"):
            continue
        if not _KEY.fullmatch(key):
            raise ValueError(
                f"An API key must have 16 to {_MAX_KEY_LENGTH} ASCII characters without spaces. "
                f"Line {number} of {path} has others."
            )
        keys.append(hashlib.sha256(key).digest())

    if not keys:
        raise ValueError(
            f"{path} must contain at least one API key, one per line. It contains none. Make one: "
            'python -c "import secrets; print(secrets.token_urlsafe(32))"'
        )
    return tuple(keys)
