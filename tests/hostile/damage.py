"""Ways to damage bytes, JSON and safetensors files, and to change saved folders on purpose.

Checksums find accidents. A folder of somebody else can contain anything, with right checksums: it
is refused in one line or used, and never sends compiled code out of its arrays.
"""

import json
import random
import re
import struct
import tempfile
from pathlib import Path

import numpy as np

from hostile.material import Tree
from pacsent import storage
from pacsent.storage.checksums import file_record
from pacsent.storage.model_folder import write_config

CONFIG, TENSORS = "config.json", "model.safetensors"
ODD_INTEGERS = (0, 1, -1, 2, 7, 127, 128, 255, 2**15, 2**16, 2**31 - 1, 2**31, 2**32, 2**40, 2**62)
ODD_NUMBERS = (0, 1, -1, 2, 10**18, -(10**9), 1e308, -1e-308, float("nan"), float("inf"))
ODD_TEXTS = ("", "x", "paper", "\x00", "a" * 5000, "../..", "0")
ODD_VALUES = (None, True, False, *ODD_NUMBERS, *ODD_TEXTS, [], {}, [1], [[0, 8]], {"a": 1}, [None])
ODD_PIECES = (
    *(b"", b"\0", b"\n", b"\r\n", b"\t", b" ", b"\xff", b"\xef\xbb\xbf", b"nan", b"inf", b"-1"),
    *(b"1e999", b"9" * 25, b"\xe2\x80\xa8", b"\xc3", b'"', b"[[[[[[[[[[", b"{", b"</page>"),
    *(b"&lt;", b"0x10"),
)


def damage(name: str, content: bytes, other: bytes, rng: random.Random) -> bytes:
    """`content` of the file `name` with one to three changes; `other` is a file to splice from."""
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        if name.endswith(".json") and rng.random() < 0.67:
            content = edit_json(content, rng)
        elif name.endswith(".safetensors") and rng.random() < 0.5:
            content = edit_header(content, rng)
        else:
            content = damage_bytes(rng.choice(list(BYTE_WAYS)), content, other, rng)
    return content


# How a place of a file is damaged: what takes the place of `n` bytes there.
BYTE_WAYS = {
    "flip": lambda piece, rng: (1, bytes([(piece or b"\0")[0] ^ 1 << rng.randrange(8)])),
    "set": lambda piece, rng: (1, rng.randbytes(1)),
    "delete": lambda piece, rng: (rng.choice((1, 2, 4, 16, 100)), b""),
    "repeat": lambda piece, rng: (0, piece[: rng.choice((1, 4, 16, 200))] * rng.choice((1, 2, 49))),
    "insert": lambda piece, rng: (0, rng.choice(ODD_PIECES)),
    "overwrite": lambda piece, rng: (len(odd := rng.choice(ODD_PIECES)), odd),
    "integer": lambda piece, rng: (4, struct.pack("<q", rng.choice(ODD_INTEGERS))[:4]),
    "long": lambda piece, rng: (8, struct.pack("<q", rng.choice(ODD_INTEGERS))),
    "digits": None,
    "truncate": None,
    "splice": None,
    "noise": None,
}


def damage_bytes(way: str, content: bytes, other: bytes, rng: random.Random) -> bytes:
    if way == "truncate":
        return content[: rng.randrange(len(content) + 1)]
    if way == "splice":
        return content[: rng.randrange(len(content) + 1)] + other[rng.randrange(len(other) + 1) :]
    if way == "noise":
        return rng.randbytes(rng.choice((0, 1, 3, 16, 300)))
    if way == "digits":
        numbers = list(re.finditer(rb"\d+", content[:20_000]))
        if not numbers:
            return content
        number = rng.choice(numbers[:8] if rng.random() < 0.5 else numbers)
        odd = str(rng.choice(ODD_INTEGERS)).encode()
        return content[: number.start()] + odd + content[number.end() :]
    # Headers are short and matter most: one place in two is among the first 64 bytes.
    end = min(len(content), 64) if rng.random() < 0.5 else len(content)
    place = rng.randrange(end) if end else 0
    n_replaced, piece = BYTE_WAYS[way](content[place:], rng)
    return content[:place] + piece + content[place + n_replaced :]


def edit_value(value, rng):
    """A JSON value with one of its nodes replaced, deleted, renamed or nested."""
    root = {"root": value}
    nodes = [(root, "root")]
    for parent, key in nodes:
        child = parent[key]
        if isinstance(child, dict):
            nodes += [(child, name) for name in child]
        elif isinstance(child, list):
            nodes += [(child, i) for i in range(min(len(child), 50))]
    parent, key = rng.choice(nodes)
    way = rng.randrange(8)
    if way == 0 and parent is not root:
        del parent[key]
    elif way == 1 and isinstance(parent, dict) and parent is not root:
        parent[rng.choice(("", "x", key + "_", "shape", "lam"))] = parent.pop(key)
    elif way == 2:
        for _ in range(rng.choice((1, 3, 3000))):
            parent[key] = [parent[key]]
    elif way == 3 and isinstance(parent[key], int | float) and not isinstance(parent[key], bool):
        parent[key] = parent[key] * rng.choice((-1, 2, 0.5, 1e6)) + rng.choice((0, 1, -1))
    elif way == 4:
        other, name = rng.choice(nodes)
        parent[key] = json.loads(dump(other[name])) if parent is not root else other[name]
    else:
        parent[key] = rng.choice(ODD_VALUES)
    return root["root"]


def dump(value) -> str:
    try:
        return json.dumps(value)
    except RecursionError:  # the encoder of the standard library has no such depth
        return "[" * 5000 + "]" * 5000


def edit_json(content: bytes, rng) -> bytes:
    try:
        return dump(edit_value(json.loads(content), rng)).encode()
    except (ValueError, RecursionError):  # damaged before
        return damage_bytes("flip", content, b"", rng)


def edit_header(content: bytes, rng) -> bytes:
    """A safetensors file with another header."""
    try:
        (size,) = struct.unpack("<Q", content[:8])
        header = edit_json(content[8 : 8 + size], rng)
    except (struct.error, OverflowError):
        return damage_bytes("flip", content, b"", rng)
    header += b" " * (-len(header) % 8)
    return struct.pack("<Q", len(header)) + header + content[8 + size :]


# ---- saved folders, with right checksums --------------------------------------------------------


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
        other = np.asarray(change(array))
    same = other.shape == array.shape and other.dtype == array.dtype
    return None if same and other.tobytes() == array.tobytes() else other


def arrays_of(tree: Tree, folder: str = "m") -> dict[str, np.ndarray]:
    """The arrays that lie in one folder of a saved model."""
    with tempfile.TemporaryDirectory() as place:
        file = Path(place) / TENSORS
        file.write_bytes(tree[f"{folder}/{TENSORS}"])
        return {name: np.array(array) for name, array in storage.read_tensors(file).items()}


def folders_of(tree: Tree) -> list[str]:
    """The folders of a saved model, the innermost first."""
    names = [name.rpartition("/")[0] for name in tree if name.endswith(f"/{CONFIG}")]
    return sorted(names, key=lambda name: -name.count("/"))


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
            tree[f"{folder}/{CONFIG}"] = dump(config).encode()
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
        return signed(tree, folder, config=edit_value(config, rng))
    name = rng.choice(list(arrays))
    if name == "description" and rng.random() < 0.8:
        text = edit_json(arrays[name].tobytes(), rng)
        return signed(tree, folder, arrays | {name: np.frombuffer(text, np.uint8)})
    ways = [way for way in WAYS if changed(arrays[name], way) is not None]
    if not ways:
        del arrays[name]
        return signed(tree, folder, arrays)
    return signed(tree, folder, arrays | {name: changed(arrays[name], rng.choice(ways))})
