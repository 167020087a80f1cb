"""The options of a server: limits, API keys, times."""

import hashlib
import hmac
import re
from dataclasses import dataclass
from pathlib import Path

_LONGEST_KEY = 512
_LONGEST_TIMEOUT = 86_400
_ORIGIN = re.compile(r"[a-z][a-z0-9+.-]*://[^/\s?#@]+")


@dataclass(frozen=True)
class Settings:
    """Limits and options of one server."""

    keys: tuple[bytes, ...] = ()  # SHA-256 of each API key; empty: no key is required
    max_body: int = 8 << 20  # bytes of a request
    max_texts: int = 2048  # in a request
    max_tokens: int = 1_000_000  # words in all texts of a request
    max_explained: int = 32  # texts of a request whose words are weighted
    max_explained_tokens: int = 1000  # words of each of them
    max_concurrent: int = 256  # requests a worker answers at once; further ones are answered 429
    timeout: float = 30.0  # seconds from the first byte of a request to its answer
    grace: float = 10.0  # seconds for requests under way when the server stops
    origins: tuple[str, ...] = ()  # web origins whose pages may call the server; "*" for all
    error: float | None = None  # share of wrong answers that is allowed; None: by `AnswerRule`
    delta: float = 0.05  # probability with which that guarantee may fail
    unit_length: bool = True  # of the vectors of /v1/embeddings, as clients of OpenAI expect
    watch: bool = True  # whether classified texts are compared with the calibration set

    def __post_init__(self) -> None:
        for name in ("max_body", "max_texts", "max_tokens", "max_explained",
                     "max_explained_tokens", "max_concurrent"):  # fmt: skip
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be 1 or more. Got {getattr(self, name)} instead.")
        if not 0 < self.timeout <= _LONGEST_TIMEOUT:
            raise ValueError(
                f"timeout must be a number of seconds up to {_LONGEST_TIMEOUT:,} (a day). Got "
                f"{self.timeout:g} instead."
            )
        for name, value in (("error", self.error), ("delta", self.delta)):
            if value is not None and not 0 < value < 1:
                raise ValueError(f"{name} must be between 0 and 1. Got {value!r} instead.")
        for origin in self.origins:
            if origin != "*" and not _ORIGIN.fullmatch(origin):
                raise ValueError(
                    "An origin must be scheme, host and port as browsers send them, such as "
                    f"https://example.org, or * for all. Got {origin!r} instead."
                )

    def admits(self, header: bytes | None) -> bool:
        """Whether an Authorization header holds one of the keys; every key is compared."""
        if not self.keys:
            return True
        if header is None or header[:7].lower() != b"bearer " or len(header) > _LONGEST_KEY + 7:
            return False
        given = hashlib.sha256(header[7:].strip()).digest()
        found = False
        for key in self.keys:
            found |= hmac.compare_digest(given, key)
        return found


def read_keys(path: str | Path) -> tuple[bytes, ...]:
    """The digests of the keys in a file with one key a line; lines that begin with # are comments.

    >>> import tempfile
    >>> with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
    ...     _ = file.write("# of the team\\nsecret-one-of-sixteen\\n")
    ...     file.flush()
    ...     len(read_keys(file.name))
    1
    """
    lines = [line.strip() for line in Path(path).read_bytes().splitlines()]
    keys = [line for line in lines if line and not line.startswith(b"#")]
    if not keys:
        raise ValueError(
            f"{path} must hold at least one API key, one a line. It holds none. Make one: "
            'python -c "import secrets; print(secrets.token_urlsafe(32))"'
        )
    wrong = [n for n, line in enumerate(lines, 1) if line in keys and not _sound(line)]
    if wrong:
        raise ValueError(
            f"An API key must have 16 to {_LONGEST_KEY} ASCII characters without spaces. Line "
            f"{wrong[0]} of {path} has others."
        )
    return tuple(hashlib.sha256(key).digest() for key in keys)


def _sound(key: bytes) -> bool:
    return 16 <= len(key) <= _LONGEST_KEY and all(33 <= byte <= 126 for byte in key)
