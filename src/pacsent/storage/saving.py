"""`save`, `load` and `check` for everything that implements `Saveable`."""

import glob
import json
import os
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, Protocol, runtime_checkable
from weakref import WeakKeyDictionary

import numpy as np

import pacsent
from pacsent import files, registry
from pacsent.storage.array_digests import hash_arrays
from pacsent.storage.checksums import file_record
from pacsent.storage.model_folder import (
    CONFIG,
    PACKAGED,
    SHIPPED,
    check_place,
    from_json,
    is_model,
    own_files,
    place,
    read_config,
    to_json,
    write_config,
)
from pacsent.storage.tensor_files import DERIVED, TENSORS, read_tensors, write_tensors

# Folders within folders: guarantees, a classifier, its encoders, one of them, its word vectors.
_MAX_DEPTH = 5
# Where word vectors were saved to or loaded from, for save(..., words="reference").
_PLACES: WeakKeyDictionary[Any, Path] = WeakKeyDictionary()
# While another process saves a model, its folder is missing for an instant, and a reader may have
# opened files of two versions.
_MAX_READS = 10
_SECONDS_BETWEEN_READS = 0.05
_NO_EFFECT = ("n_jobs", "batch_size", "verbose")  # parameters that decide nothing
# What a factory may raise for a state that another program made up.
_BAD_STATE = (ValueError, LookupError, TypeError, AttributeError, OverflowError, RecursionError)


@dataclass(frozen=True)
class State:
    """The parts of an object that are saved."""

    config: dict  # plain values; `parameters` are those of a constructor
    tensors: Mapping[str, np.ndarray]  # memory-mapped if they were loaded
    parts: Mapping[str, Any] = field(default_factory=dict)  # saved as folders inside the folder
    files: Mapping[str, Iterable[bytes]] = field(default_factory=dict)  # for people; not read again
    # Makes arrays that follow from the others and take long to compute; not part of the digest.
    derived: Callable[[], Mapping[str, np.ndarray]] = dict

    def digest(self, *, with_word_vectors: bool = True) -> str:
        """SHA-256 of the parameters that decide anything and of the arrays, also of the parts.

        Word vectors are many times larger than the rest; without them a digest takes milliseconds.
        """
        parameters = dict(self.config.get("parameters", {}))
        for name in _NO_EFFECT:
            parameters.pop(name, None)
        config = {**self.config, "parameters": parameters}
        header = json.dumps(config, sort_keys=True, default=repr)

        digests_of_parts = []
        for name, part in sorted(self.parts.items()):
            if not hasattr(part, "digest"):
                part_digest = part.state().digest(with_word_vectors=with_word_vectors)
            elif with_word_vectors:
                part_digest = part.digest()
            else:
                continue
            digests_of_parts.append(f"{name} {part_digest}".encode())
        return hash_arrays(header.encode(), self.tensors, b"".join(digests_of_parts))


@runtime_checkable
class Saveable(Protocol):
    """Protocol of a class that can be saved: the name of its kind, and its state.

    Its module registers the inverse of `state` by `registry.register("model", kind, from_state)`.
    That function raises ValueError for a state that it cannot use, and takes every array through
    `checked_tensor`. A state with a `vectors_digest` is one of word vectors, which models share.
    """

    kind: str

    def state(self) -> State: ...


# ---- save ----------------------------------------------------------------------------------------


def save(
    obj: Any, path: str | os.PathLike, *, words: str = "copy", overwrite: bool = False
) -> Path:
    """Save word vectors, a fitted estimator or an index, as a folder.

    Parameters
    ----------
    obj : WordVectors, a fitted estimator of pacsent, or an Index
    path : str or path
        The folder. A model of pacsent that is already there is replaced, in one step, where
        `overwrite` allows it. Other files in the folder of a model stay. Anything else that is
        there is left alone and the call refused.
    words : {"copy", "reference"}, default="copy"
        For an estimator: keep a copy of its word vectors in the folder, or only the path of the
        folder they were loaded from and their digest, which `load` checks.
    overwrite : bool, default=False
        Replace a model that is there. The word vectors an estimator was made from are never
        replaced by it.

    Returns
    -------
    path : Path
        The folder.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from pacsent import load, make_encoder, save
    >>> vectorizer = make_encoder("Average", "english").fit(["a quiet film"])
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
    plan = _plan(obj)
    target = Path(os.path.realpath(path))

    # Folders of word vectors that this model refers to are not replaced by it.
    sources = [_PLACES[part.obj] for part in plan.all_parts() if part.obj in _PLACES]
    protected = [source for source in sources if words == "reference" or source == target]
    check_place(path, protected, overwrite=overwrite)

    with files.replacing_folder(path, own_files(target)) as folder:
        _write(plan, folder, target, words)

    if plan.is_shared:
        _PLACES[obj] = target
    return Path(path)


class _Plan(NamedTuple):
    """An object, its state, and the plans of its parts."""

    obj: Saveable
    state: State
    parts: dict[str, "_Plan"]

    @property
    def is_shared(self) -> bool:
        """True for word vectors, which models share."""
        return "vectors_digest" in self.state.config

    def all_parts(self) -> list["_Plan"]:
        """The parts, the parts of these, and so on."""
        all_parts = []
        for part in self.parts.values():
            all_parts.append(part)
            all_parts.extend(part.all_parts())
        return all_parts


def _plan(obj: Any, is_part: bool = False) -> _Plan:
    state = obj.state()
    is_shared = "vectors_digest" in state.config
    if is_part and is_shared:
        # Word vectors inside another model are saved without their own encoder of sentences.
        return _Plan(obj, state, {})

    plans = {name: _plan(part, is_part=True) for name, part in state.parts.items()}
    return _Plan(obj, state, plans)


def _write(plan: _Plan, folder: Path, target: Path, words: str) -> str:
    """Fill the folder; returns the checksum of its description."""
    parts = {}
    for name, part in plan.parts.items():
        if words == "reference" and part.is_shared:
            source = _referenced_folder(part.obj)
            record = {"path": os.path.relpath(source, target)}
        else:
            (folder / name).mkdir()
            digest = _write(part, folder / name, target / name, words)
            record = {"path": name, "digest": digest}

        if part.is_shared:
            record["vectors_digest"] = part.state.config["vectors_digest"]
        parts[name] = record

    write_tensors(folder / TENSORS, plan.state.tensors)
    for name, blocks in plan.state.files.items():
        with open(folder / name, "xb") as file:
            file.writelines(blocks)
    names = [TENSORS, *plan.state.files]
    derived = plan.state.derived()
    if derived:
        write_tensors(folder / DERIVED, derived)
        names.append(DERIVED)

    # A parameter that cannot be saved is named in the message.
    config = plan.state.config
    owner = config.get("class", plan.obj.kind)
    for name, value in config.get("parameters", {}).items():
        to_json(value, f"the parameter {name!r} of {owner}")

    records = {name: file_record(folder / name) for name in names}
    description = {"kind": plan.obj.kind, **config, "parts": parts, "files": records}
    return write_config(folder, description)


def _referenced_folder(words: Any) -> Path:
    """The folder that word vectors were saved to or loaded from."""
    folder = _PLACES.get(words)
    if folder is None or not is_model(folder):
        raise ValueError(
            "words='reference' needs word vectors that were saved to or loaded from a "
            "folder, and these were not. Save them first, or use words='copy'."
        )
    return folder


# ---- load ----------------------------------------------------------------------------------------


class _Options(NamedTuple):
    """Values that the caller of `load` wants in place of what the folder says."""

    normalize: Any
    word_vectors: Any
    encoder: Any


def load(
    path: str | os.PathLike,
    *,
    normalize: str | Callable[[str], list[str]] | None = None,
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
    normalize : {"paper", "unicode"} or callable, optional
        How raw text becomes tokens, in place of what the folder says (a function cannot be
        saved).
    word_vectors : WordVectors, optional
        For an estimator: use these instead of opening its own again. They must be the ones it was
        fitted with.
    encoder : object with `encode`, or callable, optional
        For a model that was made with an encoder of another program, which is not saved with it:
        that encoder. It must give the vectors that it gave when the model was made.

    Returns
    -------
    model : WordVectors, a fitted estimator or an Index
        As it was saved; of a file of another program, WordVectors.

    Examples
    --------
    >>> import pacsent
    >>> words = pacsent.load("english")
    >>> words
    WordVectors(n_words=65536, n_dims=256)
    >>> [word for word, _ in words.most_similar("bank", 3)]
    ['banks', 'banking', 'hsbc']

    A classifier, saved and opened again:

    >>> from tempfile import TemporaryDirectory
    >>> from pacsent.datasets import load_banking
    >>> texts, intents = load_banking(n_classes=3)
    >>> classifier = pacsent.TextClassifier().fit(texts, intents)
    >>> with TemporaryDirectory() as folder:
    ...     path = pacsent.save(classifier, folder + "/model")
    ...     opened = pacsent.load(folder + "/model")
    >>> opened.predict(["I was charged for my coffee"]).tolist()
    ['card_payment_fee_charged']
    """
    path = place(path)
    options = _Options(normalize, word_vectors, encoder)
    loaded = _read_again_if_replaced(path, partial(_load_once, path, options))

    if word_vectors is not None and isinstance(loaded, type(word_vectors)):
        raise ValueError(
            f"word_vectors is for loading an estimator. {path} holds word vectors itself: "
            "leave it out."
        )
    return loaded


def _load_once(path: Path, options: _Options) -> Any:
    if path.exists() and not is_model(path):
        read = registry.find_reader("file", "word vectors")
        assert read is not None
        return read(path, normalize=options.normalize)
    return _open(path, read_config(path), options)


def _read_again_if_replaced(path: Path, read: Callable[[], Any]) -> Any:
    """The result of `read`, from one version of a folder that another process may be saving."""
    for _ in range(_MAX_READS - 1):
        version = _version_of(path)
        try:
            loaded = read()
        except (ValueError, OSError):
            is_unchanged = _version_of(path) == version
            is_being_saved = any(path.parent.glob(f".{glob.escape(path.name)}.old-*"))
            if is_unchanged and not (version is None and is_being_saved):
                raise
            time.sleep(_SECONDS_BETWEEN_READS)
            continue

        if _version_of(path) == version:
            return loaded
    return read()


def _version_of(path: Path) -> tuple[int, ...] | None:
    """A value that changes if a folder is replaced; None if there is none."""
    try:
        stat = os.stat(path)
    except (OSError, ValueError):
        return None
    return stat.st_dev, stat.st_ino, stat.st_mtime_ns


def _open(
    folder: Path, config: dict, options: _Options, depth: int = 1, *, reader: str = "model"
) -> Any:
    """The object of a folder whose description was read; None if it has no such reader."""
    from_state = registry.find_reader(reader, config["kind"])
    if from_state is None:
        if reader != "model":
            return None
        raise ValueError(
            f"{folder} holds a {config['kind']!r}, which this pacsent ({pacsent.__version__}) does "
            f"not have. Install the version that wrote it, {config.get('pacsent_version', '?')}."
        )
    if depth > _MAX_DEPTH:
        raise ValueError(_damaged(folder, "it has parts within parts without end"))

    is_shared = "vectors_digest" in config
    parts: dict[str, Any] = {}
    for name, record in config.get("parts", {}).items():
        part = UnopenedPart(folder, name, record, options, depth)
        # Word vectors open their encoder of sentences when it is first used.
        parts[name] = part if is_shared else part()

    if TENSORS not in config["files"]:
        raise ValueError(_damaged(folder, f"its description does not name {TENSORS}"))
    tensors = read_tensors(folder / TENSORS)
    derived = _read_derived(folder, config)

    try:
        settings = from_json(config)
        if is_shared and options.normalize is not None:
            settings["parameters"]["normalize"] = options.normalize
        loaded = from_state(State(settings, tensors, parts, derived=lambda: derived))
    except _BAD_STATE as error:
        raise ValueError(_damaged(folder, error)) from None

    if options.encoder is not None and hasattr(loaded, "attach"):
        loaded.attach(options.encoder)
    if is_shared:
        _register_words(loaded, folder, config)
    return loaded


def _register_words(words: Any, folder: Path, config: dict) -> None:
    """Remember where word vectors were opened; take what the package brings for its own."""
    _PLACES[words] = Path(os.path.realpath(folder))
    if PACKAGED in folder.parents:  # files of this very package, compared by its tests
        lookup = read_tensors(folder / SHIPPED)
        words.accept_shipped(config["vectors_digest"], lookup)


def _read_derived(folder: Path, config: dict) -> Mapping[str, np.ndarray]:
    """Arrays that were computed before the model was saved, if they are those that were saved.

    No digest of the model is about them: their file is read to the end.
    """
    if DERIVED not in config["files"]:
        return {}
    derived = read_tensors(folder / DERIVED)
    if file_record(folder / DERIVED) != config["files"][DERIVED]:
        raise ValueError(_damaged(folder, f"{DERIVED} is not what was saved"))
    return derived


@dataclass(frozen=True)
class UnopenedPart:
    """A part of a saved object, which is opened when this is called."""

    folder: Path  # of the object
    name: str
    record: dict  # what the object's description says about it
    options: _Options
    depth: int

    def __call__(self) -> Any:
        return _open_part(self.folder, self.name, self.record, self.options, self.depth)

    def open_as(self, what: str) -> Any:
        """As another reader of the part's kind makes it; None if there is no such reader."""
        return _open_part(
            self.folder, self.name, self.record, self.options, self.depth, reader=what
        )


def _open_part(
    folder: Path, name: str, record: dict, options: _Options, depth: int, *, reader: str = "model"
) -> Any:
    """A part of a saved object, if it is the one that was saved with it."""
    what = "word vectors" if name == "words" else name
    path = record.get("path")
    digest = record.get("vectors_digest")
    if not isinstance(path, str) or "\0" in path:
        raise ValueError(_damaged(folder, f"the place of its {what} is {path!r}"))

    if options.word_vectors is not None and name == "words":
        actual_digest = options.word_vectors.digest()
        if actual_digest != digest:
            raise ValueError(_other_words(folder, digest, actual_digest))
        return options.word_vectors

    inner = folder / path
    if not os.path.exists(inner):  # False for a name that is too long
        advice = "save it again"
        if name == "words":
            advice = "load them from where they are: load(path, word_vectors=load(...))"
        raise FileNotFoundError(
            f"The {what} of {folder} must be at {inner}. Nothing is there. Put it back or {advice}."
        )

    config = read_config(inner)
    if "digest" in record and record["digest"] != config["digest"]:
        raise ValueError(
            f"{inner} must have the {what} that were saved with {folder}. It holds others, or was "
            "changed. Copy or save the model again."
        )
    if "digest" not in record and digest != config.get("vectors_digest"):
        raise ValueError(_other_words(folder, digest, config.get("vectors_digest")))
    return _open(inner, config, options, depth + 1, reader=reader)


def _other_words(path: Path, expected: object, actual: object) -> str:
    return (
        f"The word vectors of {path} must be the ones it was fitted with (digest "
        f"{str(expected)[:8]}…). Got digest {str(actual)[:8]}… instead. Fit again, or use the "
        "right ones."
    )


def _damaged(path: Path, error: Exception | str) -> str:
    """The message for a model that cannot be read; the problem is on one line."""
    problem = " ".join(str(error).split())
    if isinstance(error, KeyError):
        problem = f"it has no {problem}"
    elif not problem:
        problem = type(error).__name__
    problem = problem.rstrip(".")
    return f"{path} is damaged: {problem}. Copy or save the model again."


# ---- check ---------------------------------------------------------------------------------------


def check(path: str | os.PathLike) -> list[dict]:
    """Read every byte of a saved model, and open it.

    Parameters
    ----------
    path : str or path
        As for `load`, but a folder of pacsent.

    Returns
    -------
    steps : list of dict
        One entry per file with the keys `what`, `ok` and `found`, which for damage is its
        description, and a last one for the model: it must open, and its contents must have the
        types, shapes and ranges that their class relies on.

    Examples
    --------
    >>> from pacsent.storage import check
    >>> all(step["ok"] for step in check("english"))
    True
    """
    path = place(path)
    if not path.is_dir():
        read_config(path)  # raises, with what is missing

    model_check = _ModelCheck(path)
    model_check.check_folder(path, 1)
    model_check.add_step("the model", model_check.open_model)
    return model_check.steps


class _ModelCheck:
    """The steps of `check`."""

    def __init__(self, path: Path):
        self.path = path
        self.steps: list[dict] = []
        self.word_folders: list[Path] = []  # of word vectors, within the model

    def add_step(self, what: str, look: Callable[[], str]) -> bool:
        """Record what `look` returns, or the error that it raises; whether it raised none."""
        try:
            result = look()
            ok = True
        except (ValueError, OSError) as error:
            result = str(error)
            ok = False

        self.steps.append({"what": _printable(what), "ok": ok, "found": _printable(result)})
        return ok

    def check_folder(self, folder: Path, depth: int) -> None:
        """Check a description, the files that it names, and the parts."""
        prefix = "" if folder == self.path else f"{os.path.relpath(folder, self.path)}/"
        config: dict = {}
        if self.add_step(f"{prefix}{CONFIG}", partial(_check_config, folder, config)):
            for name in sorted({TENSORS, *config["files"]}):
                self.add_step(f"{prefix}{name}", partial(_check_file, folder, name, config))
            parts = self._check_parts(folder, prefix, config)
            if "vectors_digest" in config:
                self.word_folders.append(folder)
        else:
            # Look into the parts all the same.
            parts = [part for part in sorted(folder.iterdir()) if is_model(part)]

        if depth < _MAX_DEPTH:
            for part in parts:
                self.check_folder(part, depth + 1)

    def _check_parts(self, folder: Path, prefix: str, config: dict) -> list[Path]:
        """The folders of the parts; a step for each that is none."""
        parts = []
        for name, record in config.get("parts", {}).items():
            part = record.get("path")
            if isinstance(part, str) and os.path.isdir(folder / part):
                parts.append(folder / part)
            else:
                self.add_step(f"{prefix}{name}", partial(_reject_part, folder / CONFIG, part))
        return parts

    def open_model(self) -> str:
        """Open the model and read its word vectors."""
        load(self.path)
        summaries = [load(folder).check_contents() for folder in self.word_folders]
        return "; ".join(["opens", *summaries])


def _check_config(folder: Path, config: dict) -> str:
    """Read the description of a folder into `config`."""
    config.update(read_config(folder))
    return f"{config.get('class', config['kind'])}, as it was saved"


def _check_file(folder: Path, name: str, config: dict) -> str:
    """Compare a file with the description."""
    path = folder / name
    if not path.is_file():
        raise FileNotFoundError(f"{path} is missing. Copy or save it again.")

    record = file_record(path)
    if record != config["files"].get(name):
        raise ValueError(f"{path} is damaged: it is not what was saved. Copy it again.")
    return f"{record['bytes']:,} bytes, as they were saved"


def _reject_part(config_path: Path, part: object) -> str:
    shown = f"{part!a:.80}"
    raise ValueError(
        f"{config_path} must name the folder of each part. Got {shown}, which is none, instead. "
        "Copy or save the model again."
    )


def _printable(text: str) -> str:
    """The text without characters that cannot be printed; names in a folder may have some."""
    return text.encode(errors="backslashreplace").decode()
