"""The folder of a saved model and its description, `config.json`."""

import contextlib
import glob
import json
import math
import os
import urllib.parse
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

import pacsent
from pacsent import files
from pacsent.storage import hub
from pacsent.storage.checksums import checksum_of_json

# Parameters of a URL that may be printed and saved. Any other may be a password.
PUBLIC_PARAMETERS = ("api-version", "api_version", "version")
FORMAT_VERSION = 3
CONFIG = "config.json"
PACKAGED = Path(pacsent.__file__).parent / "models"  # what comes with the package
SHIPPED = "lookup.safetensors"  # in these models only: what others compute when it is first needed


def place(path: str | os.PathLike) -> Path:
    """The path itself; for the bare name of a model that comes with the package, its folder.

    Such a name has precedence over a folder of the working directory: write ./english for that.
    `hf://owner/name` is fetched from the Hugging Face hub, and stands for the folder in its cache.
    """
    if isinstance(path, str) and path.startswith(hub.SCHEME):
        return hub.fetch(path)
    if isinstance(path, str) and path.isidentifier() and (PACKAGED / path / CONFIG).is_file():
        return PACKAGED / path
    return Path(path)


def is_url(place: str | os.PathLike) -> bool:
    """True if this is the address of a server."""
    return str(place).startswith(("http://", "https://"))


def public_url(url: str) -> str:
    """A URL that may be printed and saved: without user, password and the values of parameters.

    Anything that is no URL is returned as it is.

    >>> public_url("https://user:pw@host/v1?api-version=2&api_key=pw#small")
    'https://host/v1?api-version=2#small'
    """
    scheme, separator, rest = str(url).partition("://")
    if not separator:
        return str(url)

    rest, hash_sign, model = rest.partition("#")
    rest, _, query = rest.partition("?")
    host, slash, path = rest.partition("/")
    if "@" in path:  # a password may have a slash in it
        host = path.rpartition("@")[2]
        slash = ""
        path = ""

    parameters = urllib.parse.parse_qsl(query, keep_blank_values=True)
    public_parameters = [pair for pair in parameters if pair[0] in PUBLIC_PARAMETERS]
    query = "?" + urllib.parse.urlencode(public_parameters) if public_parameters else ""

    host = host.rpartition("@")[2]
    name, colon, port = host.partition(":")
    if colon and not host.startswith("[") and not port.isdigit():
        host = name  # half a password that has a "?" or a "#" in it
    return f"{scheme}://{host}{slash}{path}{query}{hash_sign}{model}"


_STATIC = (["StaticEmbedding"], ["StaticEmbedding", "Normalize"])


def is_model_name(place: str | os.PathLike) -> bool:
    """True if `pacsent.load` opens this, and not a server or sentence-transformers."""
    return not is_url(place) and static_modules(Path(place)) != []


def static_modules(folder: Path) -> list[str] | None:
    """The modules of a folder of sentence-transformers, if static embeddings are all it holds.

    None where the folder has no modules; empty where only sentence-transformers can open it.
    """
    contents = []
    for name in ("modules.json", "config_sentence_transformers.json"):
        try:
            contents.append(json.loads((folder / name).read_bytes()))
        except (FileNotFoundError, NotADirectoryError):
            contents.append(None)
        except (OSError, ValueError, RecursionError):
            return []

    modules, settings = contents
    if modules is None:
        return None

    with contextlib.suppress(TypeError, KeyError, AttributeError):
        kinds = [module["type"].rpartition(".")[2] for module in modules]
        prompted = (settings or {}).get("default_prompt_name") is not None
        if kinds in _STATIC and not prompted:
            return kinds
    return []


def is_model(folder: Path) -> bool:
    """True if a folder holds something that pacsent saved."""
    try:
        config = json.loads((folder / CONFIG).read_bytes())
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(config, dict) and "format_version" in config and "pacsent_version" in config


def own_files(folder: Path) -> set[str]:
    """The files of a saved model and of its parts, by their paths below the folder."""
    try:
        config = json.loads((folder / CONFIG).read_bytes())
        names = {CONFIG, *config["files"]}
        parts = [record["path"] for record in config.get("parts", {}).values()]
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return {CONFIG}

    for part in parts:
        is_inside = isinstance(part, str) and part.isidentifier()
        if is_inside and (folder / part).is_dir() and not (folder / part).is_symlink():
            names |= {f"{part}/{name}" for name in own_files(folder / part)}
    return names


def check_place(path: str | os.PathLike, inputs: Iterable = (), *, overwrite: bool = False) -> None:
    """Refuse a target that is not ours, or is an input, or exists and may not be replaced."""
    target = Path(os.path.realpath(path))
    obstacle = None
    if target.is_dir():
        if not is_model(target) and any(target.iterdir()):
            obstacle = "a folder that is not a pacsent model"
    elif target.exists():
        obstacle = "a file"

    if obstacle is not None:
        raise ValueError(
            f"{path} must be a new folder or a pacsent model. It exists and is {obstacle}. "
            "Choose another name, or move it away first."
        )
    files.check_output(path, inputs, overwrite=overwrite, folder=True)


# ---- config.json ---------------------------------------------------------------------------------


def write_config(folder: Path, config: dict) -> str:
    """Write the description of a model; returns its checksum, which stands in it as well."""
    versions = {"format_version": FORMAT_VERSION, "pacsent_version": pacsent.__version__}
    content = to_json({**versions, **config}, "the description of the model")
    content["digest"] = checksum_of_json(content)
    text = json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
    (folder / CONFIG).write_bytes(text.encode())
    return content["digest"]


def read_config(path: Path) -> dict:
    """The contents of the config.json of a saved folder, checked."""
    if not path.exists():
        advice = "Check the spelling; the model of the package is called english."
        older_versions = _interrupted_saves(path)
        if older_versions:
            advice = (
                f"A save was interrupted and left the model in {older_versions[-1]}: rename it "
                "back, unless another process is saving it now."
            )
        raise FileNotFoundError(f"There is no folder {path}. {advice}")

    if not path.is_dir():
        raise ValueError(
            f"{path} must be a folder written by pacsent. It is a file. Read files of other "
            "programs with pacsent.words.formats.read or `pacsent model convert`."
        )

    try:
        raw = (path / CONFIG).read_bytes()
    except FileNotFoundError:
        raise FileNotFoundError(
            f"{path} is not a model of pacsent: it has no {CONFIG}. Read vectors of other programs "
            "with pacsent.words.formats.read or `pacsent model convert`."
        ) from None

    damaged = (
        f"{path / CONFIG} must be the description of a pacsent model (JSON with format_version and "
        "kind). It is damaged or of another program"
    )
    try:
        config = json.loads(raw)
        version = config["format_version"]
    except (ValueError, KeyError, TypeError, RecursionError):
        raise ValueError(f"{damaged}. Copy or save the model again.") from None

    if type(version) is not int or version != FORMAT_VERSION:
        raise ValueError(
            f"{path} must have format_version {FORMAT_VERSION}. Got {version!r} instead, written "
            f"by pacsent {config.get('pacsent_version', '?')}. Install that version to read it; "
            f"this is pacsent {pacsent.__version__}."
        )

    problem = _config_problem(config)
    if problem:
        raise ValueError(f"{damaged} ({problem}). Copy or save the model again.")
    return config


def _interrupted_saves(path: Path) -> list[Path]:
    """Folders to which a save that was interrupted moved the model of this path."""
    if not path.parent.is_dir():
        return []
    pattern = f".{glob.escape(path.name)}.old-*"
    return sorted(path.parent.glob(pattern))


_FIELDS_OF_TYPE: dict[Any, tuple[str, ...]] = {
    str: ("kind", "digest", "class", "pacsent_version", "vectors_digest"),
    dict: ("files", "parameters", "parts"),
    int: ("n_words", "n_dims"),
    (str, type(None)): ("corpus_digest",),
    (dict, type(None)): ("training",),
}


def _config_problem(config: dict) -> str:
    """Description of a fault of the description of a model; "" if there is none."""
    for name in ("kind", "files", "digest"):
        if name not in config:
            return f"it has no {name}"

    for kind, names in _FIELDS_OF_TYPE.items():
        for name in names:
            if name in config and not isinstance(config[name], kind):
                return f"{name} is a {type(config[name]).__name__}"

    records = [*config["files"].values(), *config.get("parts", {}).values()]
    if not all(isinstance(record, dict) for record in records):
        return "its files or parts are not described"

    content = {name: value for name, value in config.items() if name != "digest"}
    try:
        digest = checksum_of_json(content)
    except (ValueError, RecursionError):
        return "it is nested too deeply"
    return "" if digest == config["digest"] else "it was changed after it was saved"


def to_json(value: Any, what: str) -> Any:
    """Plain JSON; infinity, NaN and tuples are written so that they come back as they were."""
    if isinstance(value, (np.bool_, np.integer, np.floating)):
        value = value.item()

    if value is None or isinstance(value, (bool, str, int)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else {"__float__": repr(value)}
    if isinstance(value, tuple):
        return {"__tuple__": [to_json(item, what) for item in value]}
    if isinstance(value, list):
        return [to_json(item, what) for item in value]
    if isinstance(value, dict) and all(isinstance(key, str) for key in value):
        return {key: to_json(item, what) for key, item in value.items()}

    advice = ""
    if callable(value):
        advice = " Give a function when it is loaded: load(path, normalize=...)."
    raise ValueError(
        f"{what} must be numbers, strings, lists or None to be saved. Got "
        f"{type(value).__name__} instead, which only pickle could keep.{advice}"
    )


def from_json(value: Any) -> Any:
    """The inverse of `to_json`; ValueError for what that never writes."""
    if isinstance(value, list):
        return [from_json(item) for item in value]
    if not isinstance(value, dict):
        return value

    if set(value) == {"__float__"}:
        name = value["__float__"]
        if name not in ("inf", "-inf", "nan"):
            raise ValueError(f"no number is written {name!r}")
        return float(name)
    if set(value) == {"__tuple__"}:
        items = value["__tuple__"]
        if not isinstance(items, list):
            raise ValueError("a tuple must be written as a list")
        return tuple(from_json(item) for item in items)
    return {key: from_json(item) for key, item in value.items()}
