"""`save`, `load` and `check` for everything that implements `Saveable`."""

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from pkgutil import resolve_name
from typing import Any, NamedTuple, Protocol, runtime_checkable
from weakref import WeakKeyDictionary

import numpy as np

import pacsent
from pacsent.storage.checksums import checksum
from pacsent.storage.model_folder import (
    CONFIG,
    check_place,
    from_json,
    is_model,
    place,
    read_config,
    to_json,
    write_config,
    write_folder,
)
from pacsent.storage.tensor_files import TENSORS, Tensors, read_tensors, write_tensors

# what a saved folder may name as its kind, and the function that makes the object of its state;
# imported when such a folder is opened. Nothing else in a folder selects code.
KINDS = {
    "WordVectors": "pacsent.words.vectors:WordVectors.from_state",
    "SentenceVectorizer": "pacsent.encoders.methods:from_state",
    "ExternalEncoder": "pacsent.encoders.external_encoders:ExternalEncoder.from_state",
    "ConcatenatedEncoder": "pacsent.encoders.external_encoders:ConcatenatedEncoder.from_state",
    "StaticEncoder": "pacsent.encoders.static_encoder:StaticEncoder.from_state",
    "Index": "pacsent.search.index:Index.from_state",
    "TextClassifier": "pacsent.classify.classifier:TextClassifier.from_state",
    "CertifiedClassifier": (
        "pacsent.guarantees.certified_classifier:CertifiedClassifier.from_state"
    ),
}
_OTHER_FORMATS = "pacsent.words.formats:read"
_DEEPEST = 5  # folders: guarantees, a classifier, its encoders, one of them, its word vectors
# where an object was saved to or opened from, for save(..., words="reference")
_PLACES: WeakKeyDictionary[Any, Path] = WeakKeyDictionary()
_MISTAKES = (
    ValueError, KeyError, TypeError, AttributeError, IndexError, OverflowError, RecursionError,
)  # fmt: skip


@dataclass(frozen=True)
class State:
    """What is saved of an object."""

    config: dict  # plain values; `parameters` are those of a constructor
    tensors: Tensors  # memory-mapped when they are read; `verify` compares them with checksums
    parts: Mapping[str, Any] = field(default_factory=dict)  # saved as folders inside the folder
    files: Mapping[str, Iterable[bytes]] = field(default_factory=dict)  # for people; not read again


@runtime_checkable
class Saveable(Protocol):
    """What a class implements to be saved: its kind, a key of `KINDS`, and its state.

    The function that `KINDS` names takes a `State` and raises ValueError, with what is wrong, for
    one that it cannot use. It takes every array through `checked_tensor`.
    """

    kind: str

    def state(self) -> State: ...


# ---- save ----------------------------------------------------------------------------------------


def save(
    obj: Any, path: str | os.PathLike, *, words: str = "copy", overwrite: bool = False
) -> Path:
    """Save word vectors, a fitted estimator or an index, as a folder; its path.

    Parameters
    ----------
    obj : WordVectors, a fitted estimator of pacsent, or an Index
    path : str or path
        The folder. A model of pacsent that is already there is replaced, in one step, where
        `overwrite` allows it; anything else that is there is left alone and the call refused.
    words : {"copy", "reference"}, default="copy"
        For an estimator: keep a copy of its word vectors in the folder, or only the path of the
        folder they were loaded from and their digest, which `load` checks.
    overwrite : bool, default=False
        Replace a model that is there. The word vectors an estimator was made from are never
        replaced by it.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from pacsent import load, make, save
    >>> vectorizer = make("Average", "english").fit(["a quiet film"])
    >>> folder = save(vectorizer, Path(tempfile.mkdtemp()) / "model")
    >>> type(load(folder)).__name__
    'AverageVectorizer'
    """
    if words not in ("copy", "reference"):
        raise ValueError(f"words must be 'copy' or 'reference'. Got {words!r} instead.")
    if not isinstance(obj, Saveable):
        raise TypeError(
            "save() takes WordVectors or a fitted estimator of pacsent. Got "
            f"{type(obj).__name__} instead."
        )
    check_place(path, overwrite=overwrite)
    plan, target = _planned(obj), Path(os.path.realpath(path))
    sources = [_PLACES[part.obj] for part in plan.all_parts() if part.obj in _PLACES]
    kept = [source for source in sources if words == "reference" or source == target]
    check_place(path, kept, overwrite=overwrite)
    needed = sum(
        part.state.tensors.n_bytes
        for part in (plan, *plan.all_parts())
        if words == "copy" or part.obj.kind != "WordVectors"
    )
    write_folder(
        path, lambda folder: _write(plan, folder, target, words), needed, overwrite=overwrite
    )
    if obj.kind == "WordVectors":
        _PLACES[obj] = target
    return Path(path)


class _Plan(NamedTuple):
    """An object, its state, and the plans of its parts."""

    obj: Saveable
    state: State
    parts: dict[str, "_Plan"]

    def all_parts(self) -> list["_Plan"]:
        return [p for part in self.parts.values() for p in (part, *part.all_parts())]


def _planned(obj, inside=False) -> _Plan:
    state = obj.state()
    # word vectors inside another model are saved without their encoder of sentences
    parts = {} if inside and obj.kind == "WordVectors" else state.parts
    return _Plan(obj, state, {name: _planned(part, True) for name, part in parts.items()})


def _write(plan: _Plan, folder: Path, target: Path, words: str) -> str:
    """Fill the folder; returns the checksum of its description."""
    parts = {}
    for name, part in plan.parts.items():
        if words == "reference" and part.obj.kind == "WordVectors":
            saved = _PLACES.get(part.obj)
            if saved is None or not is_model(saved):
                raise ValueError(
                    "words='reference' needs word vectors that were saved to or loaded from a "
                    "folder, and these were not. Save them first, or use words='copy'."
                )
            parts[name] = {"path": os.path.relpath(saved, target)}
        else:
            (folder / name).mkdir()
            digest = _write(part, folder / name, target / name, words)
            parts[name] = {"path": name, "digest": digest}
        if "vectors_digest" in part.state.config:
            parts[name]["vectors_digest"] = part.state.config["vectors_digest"]
    records = {TENSORS: write_tensors(folder / TENSORS, plan.state.tensors)}
    for name, blocks in plan.state.files.items():
        with open(folder / name, "xb") as file:
            file.writelines(blocks)
        written = (folder / name).read_bytes()
        records[name] = {"bytes": len(written), "digest": checksum(written)}
    config = dict(plan.state.config)
    owner = config.get("class", plan.obj.kind)
    for name, value in config.get("parameters", {}).items():
        to_json(value, f"the parameter {name!r} of {owner}")
    return write_config(folder, {"kind": plan.obj.kind, **config, "parts": parts, "files": records})


# ---- load ----------------------------------------------------------------------------------------


class _Given(NamedTuple):
    """What the caller of `load` wants in place of what the folder says."""

    normalise: Any
    word_vectors: Any
    encoder: Any


def load(
    path: str | os.PathLike,
    *,
    normalise: str | Callable[[str], list[str]] | None = None,
    word_vectors: Any = None,
    encoder: Any = None,
) -> Any:
    """Open a saved model, or word vectors of another program.

    Parameters
    ----------
    path : str or path
        A folder written by `save`, whose tables are memory-mapped; "english", the model that comes
        with the package; "hf://owner/name", a model on the Hugging Face hub (extra `[hub]`), with
        "@revision" for one that stays the same; or a file or folder of word vectors in one of the
        formats that `pacsent.words.formats.read` recognises (word2vec, GloVe, fastText, ...).
    normalise : {"paper", "unicode"} or callable, optional
        How raw text becomes tokens, in place of what the folder says (a function cannot be
        saved).
    word_vectors : WordVectors, optional
        For an estimator: use these instead of opening its own again. They must be the ones it was
        fitted with.
    encoder : object with `encode`, or callable, optional
        For a model that was made with an encoder of another program, which is not saved with it:
        that encoder. It must give the vectors that it gave when the model was made.

    Examples
    --------
    >>> import pacsent
    >>> words = pacsent.load("english")
    >>> words
    WordVectors(n_words=65536, n_dims=256)
    >>> "unhappy" in [word for word, _ in words.most_similar("happy", 5)]
    True
    """
    path = place(path)
    given = _Given(normalise, word_vectors, encoder)
    if path.exists() and not is_model(path):
        found = resolve_name(_OTHER_FORMATS)(path, normalise=normalise)
    else:
        found = _open(path, read_config(path), given)
    if word_vectors is not None and getattr(found, "kind", "") == "WordVectors":
        raise ValueError(
            f"word_vectors is for loading an estimator. {path} holds word vectors itself: "
            "leave it out."
        )
    return found


def _open(folder: Path, config: dict, given: _Given, depth: int = 1) -> Any:
    """The object that a folder holds."""
    kind = config["kind"]
    if kind not in KINDS:
        raise ValueError(
            f"{folder} holds a {kind!r}, which this pacsent ({pacsent.__version__}) does not have. "
            f"Install the version that wrote it, {config.get('pacsent_version', '?')}."
        )
    if depth > _DEEPEST:
        raise ValueError(_damaged(folder, "it has parts within parts without end"))
    parts = {
        name: partial(_open_part, folder, name, record, given, depth)
        for name, record in config.get("parts", {}).items()
    }
    if kind != "WordVectors":  # which open their encoder of sentences when it is first used
        parts = {name: opened() for name, opened in parts.items()}
    if TENSORS not in config["files"]:
        raise ValueError(_damaged(folder, f"its description does not name {TENSORS}"))
    tensors = read_tensors(folder / TENSORS, config["files"][TENSORS])
    try:
        settings = from_json(config)
        if kind == "WordVectors" and given.normalise is not None:
            settings["parameters"]["normalise"] = given.normalise
        found = resolve_name(KINDS[kind])(State(settings, tensors, parts))
    except _MISTAKES as error:
        raise ValueError(_damaged(folder, error)) from None
    if kind == "ExternalEncoder" and given.encoder is not None:
        found.attach(given.encoder)
    if kind == "WordVectors":
        _PLACES[found] = Path(os.path.realpath(folder))
    return found


def encoder_of(kind: str, words: Any) -> Any:
    """The mean of word vectors ("SentenceVectorizer"), or that at unit length ("StaticEncoder").

    What word vectors with sentences="mean" or "unit" use, in layers below the methods.
    """
    config: dict[str, dict] = {
        "StaticEncoder": {"parameters": {"teacher": "static"}},
        "SentenceVectorizer": {"class": "AverageVectorizer", "parameters": {"alpha": 0.0}},
    }
    learned = {"word_variances": np.zeros(words.n_words, np.float32), "fit_report": np.zeros(3)}
    return resolve_name(KINDS[kind])(State(config[kind], Tensors(learned), {"words": words}))


def _open_part(folder, name, record, given, depth) -> Any:
    """A part of a saved object, if it is the one that was saved with it."""
    what = {"words": "word vectors"}.get(name, name)
    path, digest = record.get("path"), record.get("vectors_digest")
    if not isinstance(path, str) or "\0" in path:
        raise ValueError(_damaged(folder, f"the place of its {what} is {path!r}"))
    if given.word_vectors is not None and name == "words":
        if given.word_vectors.digest() != digest:
            raise ValueError(_other_words(folder, digest, given.word_vectors.digest()))
        return given.word_vectors
    inner = folder / path
    if not inner.exists():
        advice = "or load them from where they are: load(path, word_vectors=load(...))"
        raise FileNotFoundError(
            f"The {what} of {folder} are not at {inner}. Put them back there, {advice}."
            if name == "words"
            else f"The {what} of {folder} is not at {inner}. Put it back there, or save it again."
        )
    config = read_config(inner)
    if "digest" in record and record["digest"] != config["digest"]:
        raise ValueError(
            f"{inner} must hold the {what} that were saved with {folder}. It holds others, or was "
            "changed. Copy or save the model again."
        )
    if "digest" not in record and digest != config.get("vectors_digest"):
        raise ValueError(_other_words(folder, digest, config.get("vectors_digest")))
    return _open(inner, config, given, depth + 1)


def _other_words(path, expected, found) -> str:
    return (
        f"The word vectors of {path} must be the ones it was fitted with (digest "
        f"{str(expected)[:8]}…). Got others instead (digest {str(found)[:8]}…). Fit again, or use "
        "the right ones."
    )


def _damaged(path, error) -> str:
    text = " ".join(str(error).split())
    text = f"it has no {text}" if isinstance(error, KeyError) else text or type(error).__name__
    return f"{path} is damaged: {text.rstrip('.')}. Copy or save the model again."


# ---- check ---------------------------------------------------------------------------------------


def check(path: str | os.PathLike) -> list[dict]:
    """Check a saved model to the last byte: what was read, and whether it is as it was saved.

    Gives a dict for each thing that was checked: `what`, `ok`, and `found`, a sentence. Checksums
    find accidental damage, not a person who writes new ones. Whatever the checksums, the arrays
    must have the types, shapes and ranges that their class relies on, and a certificate inside a
    model must follow from its numbers.

    >>> from pacsent.storage import check
    >>> all(step["ok"] for step in check("english"))
    True
    """
    path = place(path)
    found: list[dict] = []

    def step(what, look):
        try:
            found.append({"what": what, "ok": True, "found": look()})
        except (ValueError, OSError) as error:
            found.append({"what": what, "ok": False, "found": str(error)})

    if not path.is_dir():
        read_config(path)  # raises, with what is missing
    tables = []
    for folder in _folders(path):
        name = "" if folder == path else f"{os.path.relpath(folder, path)}/"
        step(f"{name}{CONFIG}", lambda f=folder: f"{_class(read_config(f))}, as it was saved")
        if not found[-1]["ok"]:
            continue
        config = read_config(folder)
        for file in sorted({TENSORS, *config["files"]}):
            step(f"{name}{file}", lambda f=folder, n=file, c=config: _check_file(f, n, c))
        tables += [folder] * (config["kind"] == "WordVectors")
    step("the model", lambda: _check_contents(path, tables))
    return found


def _folders(path: Path, depth: int = 1) -> list[Path]:
    """A saved folder and those of its parts."""
    try:
        records = read_config(path).get("parts", {}).values()
    except (ValueError, OSError):
        records = []  # the step that reads it says why
        inner = [f for f in (path / "vectorizer", path / "words") if f.is_dir()]
    else:
        inner = [path / str(record.get("path")) for record in records]
    if depth >= _DEEPEST:
        return [path]
    return [path, *(folder for part in inner for folder in _folders(part, depth + 1))]


def _class(config) -> str:
    return config.get("class", config["kind"])


def _check_file(folder, name, config) -> str:
    record = config["files"].get(name)
    if name == TENSORS:
        tensors = read_tensors(folder / name, record or {})
        tensors.verify()
        return f"{len(tensors)} arrays, as they were saved"
    data = (folder / name).read_bytes()
    if record != {"bytes": len(data), "digest": checksum(data)}:
        raise ValueError(f"{folder / name} is damaged: it is not what was saved. Copy it again.")
    return f"{len(data):,} bytes, as they were saved"


def _check_contents(path, tables) -> str:
    """Open the model, and read every number and word of its word vectors."""
    load(path)
    found = [load(folder).check_contents() for folder in tables]
    return "; ".join(["opens", *found])
