"""Saved folders written on purpose: one array or one setting changed, every checksum made anew.

Checksums find accidents. A folder of somebody else can hold anything, with right checksums: it is
refused in one line or used, and never sends compiled code out of its arrays.
"""

import json
import random
import tempfile
from pathlib import Path

import numpy as np

from fuzz.mutations import _dumped, _edit, _json
from pacsent import storage
from pacsent.storage.checksums import file_record
from pacsent.storage.model_folder import write_config

Tree = dict[str, bytes]
CONFIG, TENSORS = "config.json", "model.safetensors"


def _filled(array, value):
    changed = array.copy()
    changed.reshape(-1)[array.size // 2] = value
    return changed


# name -> (kinds of dtype it is for, change)
WAYS = {
    "cut": ("biuf", lambda a: a[: len(a) // 2]),
    "one short": ("biuf", lambda a: a[:-1]),
    "empty": ("biuf", lambda a: a[:0]),
    "longer": ("biuf", lambda a: np.concatenate([a, a[-1:]])),
    "narrower": ("biuf", lambda a: a[..., :-1]),
    "one axis more": ("biuf", lambda a: a[None]),
    "flat": ("biuf", lambda a: a.reshape(-1)),
    "reversed": ("biuf", lambda a: a[::-1]),
    "nan": ("f", lambda a: _filled(a, np.nan)),
    "inf": ("f", lambda a: np.full_like(a, np.inf)),
    "negative numbers": ("f", lambda a: -np.abs(a) - 1),
    "zeros": ("biuf", np.zeros_like),
    "as integers": ("f", lambda a: a.astype(np.int64)),
    "as floats": ("biu", lambda a: a.astype(np.float32)),
    "as bytes": ("iuf", lambda a: np.frombuffer(a.tobytes(), np.uint8)),
    "negative": ("i", lambda a: _filled(a, -1)),
    "very negative": ("i", lambda a: _filled(a, np.iinfo(a.dtype).min)),
    "huge": ("iu", lambda a: _filled(a, np.iinfo(a.dtype).max)),
    "a million": ("iu", lambda a: _filled(a, min(10**6, np.iinfo(a.dtype).max))),
}


def changed(array: np.ndarray, way: str) -> np.ndarray | None:
    """The array changed in one way; None where the way does not apply or changes nothing."""
    kinds, change = WAYS[way]
    if array.dtype.kind not in kinds or array.size == 0:
        return None
    if array.ndim == 0 and way not in ("nan", "one axis more", "zeros", "as bytes"):
        return None
    with np.errstate(all="ignore"):
        found = np.asarray(change(array))
    same = found.shape == array.shape and found.dtype == array.dtype
    return None if same and found.tobytes() == array.tobytes() else found


def arrays_of(tree: Tree, folder: str = "m") -> dict[str, np.ndarray]:
    """The arrays that lie in one folder of a saved model."""
    with tempfile.TemporaryDirectory() as place:
        file = Path(place) / TENSORS
        file.write_bytes(tree[f"{folder}/{TENSORS}"])
        return {name: np.array(array) for name, array in storage.read_tensors(file).items()}


def folders_of(tree: Tree) -> list[str]:
    """The folders of a saved model, the innermost first."""
    found = [name.rpartition("/")[0] for name in tree if name.endswith(f"/{CONFIG}")]
    return sorted(found, key=lambda name: -name.count("/"))


def signed(tree: Tree, folder: str, arrays: dict[str, np.ndarray] | None = None, config=None):
    """The tree with other arrays or another description in one folder, and right checksums."""
    tree = dict(tree)
    with tempfile.TemporaryDirectory() as place:
        records = {}
        if arrays is not None:
            storage.write_tensors(Path(place) / TENSORS, arrays)
            records = {TENSORS: file_record(Path(place) / TENSORS)}
            tree[f"{folder}/{TENSORS}"] = (Path(place) / TENSORS).read_bytes()
        if config is not None:
            tree[f"{folder}/{CONFIG}"] = _dumped(config).encode()
        digests: dict[str, str] = {}
        for name in folders_of(tree):
            try:
                described = json.loads(tree[f"{name}/{CONFIG}"])
                if name == folder and records:
                    described["files"] = described["files"] | records
                for part, record in described.get("parts", {}).items():
                    record["digest"] = digests[f"{name}/{part}"]
                described.pop("digest", None)
                digests[name] = write_config(Path(place), described)
                tree[f"{name}/{CONFIG}"] = (Path(place) / CONFIG).read_bytes()
            except (KeyError, TypeError, AttributeError, ValueError, RecursionError):
                pass  # a description that is none any more: refused as it is
    return tree


def crafted_tree(tree: Tree, rng: random.Random) -> Tree:
    """One array or one setting of a saved model changed, at random."""
    folder = rng.choice(folders_of(tree))
    arrays = arrays_of(tree, folder)
    if rng.random() < 0.3:
        config = json.loads(tree[f"{folder}/{CONFIG}"])
        return signed(tree, folder, config=_edit(config, rng))
    name = rng.choice(list(arrays))
    if name == "description" and rng.random() < 0.8:
        text = _json(arrays[name].tobytes(), b"", rng)
        return signed(tree, folder, arrays | {name: np.frombuffer(text, np.uint8)})
    ways = [way for way in WAYS if changed(arrays[name], way) is not None]
    if not ways:
        del arrays[name]
        return signed(tree, folder, arrays)
    return signed(tree, folder, arrays | {name: changed(arrays[name], rng.choice(ways))})
