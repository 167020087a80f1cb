"""Ways to damage bytes, JSON and safetensors files, at random."""

import json
import random
import re
import struct
from collections.abc import Callable
from functools import partial
from typing import Any

INTEGERS_AT_LIMITS = (127, 128, 255, 2**15, 2**16, 2**31 - 1, 2**31, 2**32, 2**40, 2**62)
ODD_INTEGERS = (0, 1, -1, 2, 7, *INTEGERS_AT_LIMITS)
ODD_NUMBERS = (0, 1, -1, 2, 10**18, -(10**9), 1e308, -1e-308, float("nan"), float("inf"))
ODD_TEXTS = ("", "x", "paper", "\x00", "a" * 5000, "../..", "0")
ODD_PARENTS = ([], {}, [1], [[0, 8]], {"a": 1}, [None])
ODD_VALUES = (None, True, False, *ODD_NUMBERS, *ODD_TEXTS, *ODD_PARENTS)
ODD_BYTES = (b"", b"\0", b"\n", b"\r\n", b"\t", b" ", b"\xff", b"\xef\xbb\xbf")
ODD_DIGITS = (b"nan", b"inf", b"-1", b"1e999", b"9" * 25)
ODD_SYNTAX = (b"\xe2\x80\xa8", b"\xc3", b'"', b"[[[[[[[[[[", b"{", b"</page>", b"&lt;", b"0x10")
ODD_PIECES = (*ODD_BYTES, *ODD_DIGITS, *ODD_SYNTAX)


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

# A function of a file, another file to splice from, and a random generator: the damaged file.
ByteWay = Callable[[bytes, bytes, random.Random], bytes]
# A function of the bytes from a place on: how many of them are replaced, and by which bytes.
Replacement = Callable[[bytes, random.Random], tuple[int, bytes]]

# The order is part of what the number of a damaged file means.
BYTE_WAYS: dict[str, ByteWay] = {}


def byte_way(name: str):
    """Adds a function to BYTE_WAYS."""

    def add(change: ByteWay):
        BYTE_WAYS[name] = change
        return change

    return add


def replacement(name: str):
    """Adds to BYTE_WAYS the replacement of bytes at a random place."""

    def add(replace: Replacement):
        BYTE_WAYS[name] = partial(_replace_at_place, replace)
        return replace

    return add


def damage_bytes(way: str, content: bytes, other: bytes, rng: random.Random) -> bytes:
    return BYTE_WAYS[way](content, other, rng)


def _replace_at_place(replace: Replacement, content, other, rng) -> bytes:
    # Headers are short and matter most: one place in two is among the first 64 bytes.
    end = len(content)
    if rng.random() < 0.5:
        end = min(end, 64)
    place = rng.randrange(end) if end else 0

    head = content[:place]
    tail = content[place:]
    n_replaced, piece = replace(tail, rng)
    return head + piece + tail[n_replaced:]


@replacement("flip")
def _flip_bit(tail, rng):
    byte = tail[0] if tail else 0
    bit = 1 << rng.randrange(8)
    return 1, bytes([byte ^ bit])


@replacement("set")
def _set_byte(tail, rng):
    return 1, rng.randbytes(1)


@replacement("delete")
def _delete(tail, rng):
    return rng.choice((1, 2, 4, 16, 100)), b""


@replacement("repeat")
def _repeat(tail, rng):
    size = rng.choice((1, 4, 16, 200))
    n_times = rng.choice((1, 2, 49))
    return 0, tail[:size] * n_times


@replacement("insert")
def _insert(tail, rng):
    return 0, rng.choice(ODD_PIECES)


@replacement("overwrite")
def _overwrite(tail, rng):
    piece = rng.choice(ODD_PIECES)
    return len(piece), piece


@replacement("integer")
def _set_integer(tail, rng):
    number = struct.pack("<q", rng.choice(ODD_INTEGERS))
    return 4, number[:4]


@replacement("long")
def _set_long_integer(tail, rng):
    number = struct.pack("<q", rng.choice(ODD_INTEGERS))
    return 8, number


@byte_way("digits")
def _change_digits(content, other, rng):
    numbers = list(re.finditer(rb"\d+", content[:20_000]))
    if not numbers:
        return content

    choices = numbers[:8] if rng.random() < 0.5 else numbers
    number = rng.choice(choices)
    digits = str(rng.choice(ODD_INTEGERS)).encode()
    start, end = number.span()
    return content[:start] + digits + content[end:]


@byte_way("truncate")
def _truncate(content, other, rng):
    end = rng.randrange(len(content) + 1)
    return content[:end]


@byte_way("splice")
def _splice(content, other, rng):
    end = rng.randrange(len(content) + 1)
    start = rng.randrange(len(other) + 1)
    return content[:end] + other[start:]


@byte_way("noise")
def _replace_by_noise(content, other, rng):
    n_bytes = rng.choice((0, 1, 3, 16, 300))
    return rng.randbytes(n_bytes)


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
        step = rng.choice((0, 1, -1))
        parent[key] = parent[key] * factor + step
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
        end = 8 + size
        header = edit_json(content[8:end], rng)
    except (struct.error, OverflowError):
        return damage_bytes("flip", content, b"", rng)

    n_spaces = -len(header) % 8
    header += b" " * n_spaces
    return struct.pack("<Q", len(header)) + header + content[end:]
