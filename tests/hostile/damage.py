"""Ways to damage bytes, JSON and safetensors files, and to change saved folders on purpose.

Checksums find accidents. A folder of somebody else can contain anything, with right checksums: it
is refused in one line or used, and never sends compiled code out of its arrays.
"""

import json
import random
import re
import struct
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from hostile.material import Tree
from pacsent import storage
from pacsent.storage.checksums import file_record
from pacsent.storage.model_folder import write_config

CONFIG = "config.json"
TENSORS = "model.safetensors"
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
    n_changes = rng.choice((1, 1, 1, 2, 3))
    for _ in range(n_changes):
        if name.endswith(".json") and rng.random() < 0.67:
            content = edit_json(content, rng)
        elif name.endswith(".safetensors") and rng.random() < 0.5:
            content = edit_header(content, rng)
        else:
            way = rng.choice(list(BYTE_WAYS))
            content = damage_bytes(way, content, other, rng)
    return content


# ---- bytes --------------------------------------------------------------------------------------

# A function of the bytes from a place on: how many of them are replaced, and by which bytes.
Replacement = Callable[[bytes, random.Random], tuple[int, bytes]]


def _flip_bit(tail: bytes, rng: random.Random) -> tuple[int, bytes]:
    byte = tail[0] if tail else 0
    return 1, bytes([byte ^ 1 << rng.randrange(8)])


def _set_byte(tail: bytes, rng: random.Random) -> tuple[int, bytes]:
    return 1, rng.randbytes(1)


def _delete(tail: bytes, rng: random.Random) -> tuple[int, bytes]:
    return rng.choice((1, 2, 4, 16, 100)), b""


def _repeat(tail: bytes, rng: random.Random) -> tuple[int, bytes]:
    size = rng.choice((1, 4, 16, 200))
    n_times = rng.choice((1, 2, 49))
    return 0, tail[:size] * n_times


def _insert(tail: bytes, rng: random.Random) -> tuple[int, bytes]:
    return 0, rng.choice(ODD_PIECES)


def _overwrite(tail: bytes, rng: random.Random) -> tuple[int, bytes]:
    piece = rng.choice(ODD_PIECES)
    return len(piece), piece


def _set_integer(size: int, tail: bytes, rng: random.Random) -> tuple[int, bytes]:
    number = struct.pack("<q", rng.choice(ODD_INTEGERS))
    return size, number[:size]


def _replace_at_place(change: Replacement, content: bytes, other: bytes, rng: random.Random):
    # Headers are short and matter most: one place in two is among the first 64 bytes.
    end = min(len(content), 64) if rng.random() < 0.5 else len(content)
    place = rng.randrange(end) if end else 0
    n_replaced, piece = change(content[place:], rng)
    return content[:place] + piece + content[place + n_replaced :]


def _change_digits(content: bytes, other: bytes, rng: random.Random) -> bytes:
    numbers = list(re.finditer(rb"\d+", content[:20_000]))
    if not numbers:
        return content
    choices = numbers[:8] if rng.random() < 0.5 else numbers
    number = rng.choice(choices)
    digits = str(rng.choice(ODD_INTEGERS)).encode()
    return content[: number.start()] + digits + content[number.end() :]


def _truncate(content: bytes, other: bytes, rng: random.Random) -> bytes:
    return content[: rng.randrange(len(content) + 1)]


def _splice(content: bytes, other: bytes, rng: random.Random) -> bytes:
    end = rng.randrange(len(content) + 1)
    start = rng.randrange(len(other) + 1)
    return content[:end] + other[start:]


def _replace_by_noise(content: bytes, other: bytes, rng: random.Random) -> bytes:
    n_bytes = rng.choice((0, 1, 3, 16, 300))
    return rng.randbytes(n_bytes)


# The order is part of what the number of a damaged file means.
BYTE_WAYS = {
    "flip": partial(_replace_at_place, _flip_bit),
    "set": partial(_replace_at_place, _set_byte),
    "delete": partial(_replace_at_place, _delete),
    "repeat": partial(_replace_at_place, _repeat),
    "insert": partial(_replace_at_place, _insert),
    "overwrite": partial(_replace_at_place, _overwrite),
    "integer": partial(_replace_at_place, partial(_set_integer, 4)),
    "long": partial(_replace_at_place, partial(_set_integer, 8)),
    "digits": _change_digits,
    "truncate": _truncate,
    "splice": _splice,
    "noise": _replace_by_noise,
}


def damage_bytes(way: str, content: bytes, other: bytes, rng: random.Random) -> bytes:
    return BYTE_WAYS[way](content, other, rng)


# ---- JSON and the headers of safetensors --------------------------------------------------------


def _list_nodes(root: dict) -> list[tuple[Any, Any]]:
    """(parent, key) of the nodes of a JSON value, of long lists the first fifty."""
    nodes: list[tuple[Any, Any]] = [(root, "root")]
    for parent, key in nodes:
        child = parent[key]
        if isinstance(child, dict):
            nodes += [(child, name) for name in child]
        elif isinstance(child, list):
            n_children = min(len(child), 50)
            nodes += [(child, i) for i in range(n_children)]
    return nodes


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def edit_value(value, rng):
    """A JSON value with one of its nodes replaced, deleted, renamed or nested."""
    root = {"root": value}
    nodes = _list_nodes(root)
    parent, key = rng.choice(nodes)
    is_root = parent is root
    way = rng.randrange(8)

    if way == 0 and not is_root:
        del parent[key]
    elif way == 1 and isinstance(parent, dict) and not is_root:
        child = parent.pop(key)
        new_key = rng.choice(("", "x", key + "_", "shape", "lam"))
        parent[new_key] = child
    elif way == 2:
        for _ in range(rng.choice((1, 3, 3000))):
            parent[key] = [parent[key]]
    elif way == 3 and _is_number(parent[key]):
        factor = rng.choice((-1, 2, 0.5, 1e6))
        parent[key] = parent[key] * factor + rng.choice((0, 1, -1))
    elif way == 4:
        other_parent, other_key = rng.choice(nodes)
        other = other_parent[other_key]
        parent[key] = other if is_root else json.loads(dump(other))
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
        result = np.asarray(change(array))

    has_same_type = result.shape == array.shape and result.dtype == array.dtype
    if has_same_type and result.tobytes() == array.tobytes():
        return None
    return result


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
    records = {}
    with tempfile.TemporaryDirectory() as temporary:
        place = Path(temporary)
        if arrays is not None:
            storage.write_tensors(place / TENSORS, arrays)
            records = {TENSORS: file_record(place / TENSORS)}
            tree[f"{folder}/{TENSORS}"] = (place / TENSORS).read_bytes()
        if config is not None:
            tree[f"{folder}/{CONFIG}"] = dump(config).encode()

        # The innermost folders first: a folder states the digests of its parts.
        digests: dict[str, str] = {}
        for name in folders_of(tree):
            new_records = records if name == folder else {}
            try:
                description = json.loads(tree[f"{name}/{CONFIG}"])
                _update_digests(description, name, new_records, digests)
                digests[name] = write_config(place, description)
                tree[f"{name}/{CONFIG}"] = (place / CONFIG).read_bytes()
            except (KeyError, TypeError, AttributeError, ValueError, RecursionError):
                pass  # a description that is none any more: refused as it is
    return tree


def _update_digests(description, folder: str, records: dict, digests: dict[str, str]) -> None:
    """Write the records of new files and the digests of the parts into a description."""
    if records:
        description["files"] = description["files"] | records
    for part, record in description.get("parts", {}).items():
        record["digest"] = digests[f"{folder}/{part}"]
    description.pop("digest", None)


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
        arrays[name] = np.frombuffer(text, np.uint8)
        return signed(tree, folder, arrays)

    ways = [way for way in WAYS if changed(arrays[name], way) is not None]
    if ways:
        arrays[name] = changed(arrays[name], rng.choice(ways))
    else:
        del arrays[name]
    return signed(tree, folder, arrays)
