"""Saved folders that were changed on purpose, with right checksums.

Checksums find accidents. A folder of somebody else can contain anything, with right checksums: it
is refused in one line or used, and never sends compiled code out of its arrays.
"""

import json
import random
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np

from hostile.damage import dump, edit_json, edit_value
from hostile.material import Tree
from pacsent import storage
from pacsent.storage.checksums import file_record
from pacsent.storage.model_folder import write_config

CONFIG = "config.json"
TENSORS = "model.safetensors"

# ---- arrays -------------------------------------------------------------------------------------

Change = Callable[[np.ndarray], np.ndarray]
ALL_KINDS = "biuf"  # truth values, integers with and without sign, floats

# name -> (kinds of dtype it is for, change); the order is part of what a number of a case means
WAYS: dict[str, tuple[str, Change]] = {}


def way(name: str, kinds: str = ALL_KINDS):
    """Adds a function of an array to WAYS."""

    def add(change: Change):
        WAYS[name] = (kinds, change)
        return change

    return add


def _with_middle(array, value):
    copy = array.copy()
    middle = array.size // 2
    copy.reshape(-1)[middle] = value
    return copy


@way("cut")
def _cut(array):
    half = len(array) // 2
    return array[:half]


@way("one short")
def _one_short(array):
    return array[:-1]


@way("empty")
def _empty(array):
    return array[:0]


@way("longer")
def _longer(array):
    return np.concatenate([array, array[-1:]])


@way("narrower")
def _narrower(array):
    return array[..., :-1]


@way("one axis more")
def _one_axis_more(array):
    return array[None]


@way("flat")
def _flat(array):
    return array.reshape(-1)


@way("reversed")
def _reversed(array):
    return array[::-1]


@way("nan", "f")
def _nan(array):
    return _with_middle(array, np.nan)


@way("inf", "f")
def _inf(array):
    return np.full_like(array, np.inf)


@way("negative numbers", "f")
def _negative_numbers(array):
    return -np.abs(array) - 1


@way("zeros")
def _zeros(array):
    return np.zeros_like(array)


@way("as integers", "f")
def _as_integers(array):
    return array.astype(np.int64)


@way("as floats", "biu")
def _as_floats(array):
    return array.astype(np.float32)


@way("as bytes", "iuf")
def _as_bytes(array):
    return np.frombuffer(array.tobytes(), np.uint8)


@way("negative", "i")
def _negative(array):
    return _with_middle(array, -1)


@way("very negative", "i")
def _very_negative(array):
    least = np.iinfo(array.dtype).min
    return _with_middle(array, least)


@way("huge", "iu")
def _huge(array):
    most = np.iinfo(array.dtype).max
    return _with_middle(array, most)


@way("a million", "iu")
def _a_million(array):
    most = np.iinfo(array.dtype).max
    return _with_middle(array, min(10**6, most))


# Ways that apply to an array without axes.
WAYS_OF_SCALARS = {"nan", "one axis more", "zeros", "as bytes"}


def changed(array: np.ndarray, way: str) -> np.ndarray | None:
    """The array changed in one way; None where the way does not apply or changes nothing."""
    kinds, change = WAYS[way]
    if array.dtype.kind not in kinds or array.size == 0:
        return None
    if array.ndim == 0 and way not in WAYS_OF_SCALARS:
        return None

    with np.errstate(all="ignore"):
        result = np.asarray(change(array))

    has_same_type = result.shape == array.shape and result.dtype == array.dtype
    if has_same_type and result.tobytes() == array.tobytes():
        return None
    return result


# ---- folders ------------------------------------------------------------------------------------


def arrays_of(tree: Tree, folder: str = "m") -> dict[str, np.ndarray]:
    """The arrays that lie in one folder of a saved model."""
    with tempfile.TemporaryDirectory() as place:
        file = Path(place) / TENSORS
        file.write_bytes(tree[f"{folder}/{TENSORS}"])
        arrays = storage.read_tensors(file)
        return {name: np.array(array) for name, array in arrays.items()}


def folders_of(tree: Tree) -> list[str]:
    """The folders of a saved model, the innermost first."""
    configs = [name for name in tree if name.endswith(f"/{CONFIG}")]
    folders = [name.removesuffix(f"/{CONFIG}") for name in configs]
    return sorted(folders, key=lambda folder: -folder.count("/"))


def signed(tree: Tree, folder: str, arrays=None, config=None) -> Tree:
    """The tree with other arrays or another description in one folder, and right checksums."""
    tree = dict(tree)
    records = {}
    if arrays is not None:
        content, record = _stored(arrays)
        tree[f"{folder}/{TENSORS}"] = content
        records[folder] = {TENSORS: record}
    if config is not None:
        tree[f"{folder}/{CONFIG}"] = dump(config).encode()

    _sign(tree, records)
    return tree


def _stored(arrays: dict[str, np.ndarray]) -> tuple[bytes, dict]:
    """A file of arrays and the record of it in a description."""
    with tempfile.TemporaryDirectory() as place:
        file = Path(place) / TENSORS
        storage.write_tensors(file, arrays)
        return file.read_bytes(), file_record(file)


def _sign(tree: Tree, records: dict[str, dict]) -> None:
    """Write right checksums in every folder of the tree."""
    # The innermost folders first: a folder states the digests of its parts.
    digests: dict[str, str] = {}
    for folder in folders_of(tree):
        name = f"{folder}/{CONFIG}"
        try:
            description = json.loads(tree[name])
            if folder in records:
                description["files"] = description["files"] | records[folder]
            _update_digests(description, folder, digests)
            digests[folder], tree[name] = _written(description)
        except (KeyError, TypeError, AttributeError, ValueError, RecursionError):
            pass  # a description that is none any more: refused as it is


def _update_digests(description, folder: str, digests: dict[str, str]) -> None:
    """Write the digests of the parts into a description."""
    for part, record in description.get("parts", {}).items():
        record["digest"] = digests[f"{folder}/{part}"]
    description.pop("digest", None)


def _written(description) -> tuple[str, bytes]:
    """The digest and the content of the file of a description."""
    with tempfile.TemporaryDirectory() as place:
        digest = write_config(Path(place), description)
        return digest, Path(place, CONFIG).read_bytes()


def crafted_tree(tree: Tree, rng: random.Random) -> Tree:
    """One array or one setting of a saved model changed, at random."""
    folder = rng.choice(folders_of(tree))
    arrays = arrays_of(tree, folder)
    if rng.random() < 0.3:
        config = json.loads(tree[f"{folder}/{CONFIG}"])
        changed_config = edit_value(config, rng)
        return signed(tree, folder, config=changed_config)

    name = rng.choice(list(arrays))
    if name == "description" and rng.random() < 0.8:
        text = edit_json(arrays[name].tobytes(), rng)
        arrays[name] = np.frombuffer(text, np.uint8)
        return signed(tree, folder, arrays)

    ways = [way for way in WAYS if changed(arrays[name], way) is not None]
    if ways:
        arrays[name] = changed(arrays[name], rng.choice(ways))
    else:
        del arrays[name]
    return signed(tree, folder, arrays)
