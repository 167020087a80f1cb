"""Models on the Hugging Face hub, through huggingface_hub (extra `[hub]`).

`hf://owner/name` stands for a folder: it is downloaded once into the library's cache and opened
there like any other. Only data files are downloaded, and nothing in them is executed.
"""

import re
from pathlib import Path
from typing import Any

from pacsent.optional import import_optional

SCHEME = "hf://"
_ADDRESS = re.compile(r"hf://([\w.-]+/[\w.-]+)(?:@([\w./-]+))?")
_FILES = ["*.json", "*.safetensors", "*.tsv", "README.md"]


def require() -> Any:
    """huggingface_hub, or an error that says how to get it."""
    return import_optional("huggingface_hub", "hf:// needs huggingface_hub", "hub")


def fetch(address: str) -> Path:
    """The folder of `hf://owner/name` or `hf://owner/name@revision`, fetched if it is not here.

    Where the hub cannot be reached, what was fetched before is used.
    """
    parts = _ADDRESS.fullmatch(address)
    if parts is None:
        raise ValueError(
            f"The address must be hf://owner/name, with @revision if wanted. Got {address!r} "
            "instead."
        )

    hub = require()
    repo, revision = parts.groups()
    try:
        folder = hub.snapshot_download(
            repo, revision=revision, allow_patterns=_FILES, library_name="pacsent"
        )
    except hub.errors.RepositoryNotFoundError:
        raise FileNotFoundError(
            f"{address} is not on the hub, or it is private. Check the name; for a private one run "
            "`hf auth login`."
        ) from None
    except hub.errors.RevisionNotFoundError:
        raise FileNotFoundError(f"{address}: there is no such revision. Check the name.") from None
    except (hub.errors.HfHubHTTPError, hub.errors.LocalEntryNotFoundError, OSError) as error:
        raise OSError(
            f"{address} could not be fetched ({_first_line(error)}) and is not in the cache. Check "
            "the connection and try again."
        ) from None

    return Path(folder)


def _first_line(error: Exception) -> str:
    text = str(error).strip() or type(error).__name__
    return text.splitlines()[0].rstrip(".")
