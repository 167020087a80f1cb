"""Ways to damage bytes, JSON and safetensors files, each from a random generator alone."""

import json
import random
import struct

ODD_INTEGERS = (0, 1, -1, 2, 7, 127, 128, 255, 2**15, 2**16, 2**31 - 1, 2**31, 2**32, 2**40, 2**63)
ODD_VALUES = (
    None, True, False, 0, 1, -1, 2, 10**18, -(10**9), 1e308, -1e-308, float("nan"), float("inf"),
    "", "x", "paper", "\x00", "a" * 5000, "../..", "0", [], {}, [1], [[0, 8]], {"a": 1}, [None],
)  # fmt: skip
ODD_PIECES = (
    b"", b"\0", b"\n", b"\r\n", b"\t", b" ", b"\xff", b"\xef\xbb\xbf", b"nan", b"inf", b"-1",
    b"1e999", b"9" * 25, b"\xe2\x80\xa8", b"\xc3", b'"', b"[[[[[[[[[[", b"{", b"</page>", b"&lt;",
    b"0x10",
)  # fmt: skip


def damaged(name: str, content: bytes, other: bytes, rng: random.Random) -> bytes:
    """`content` of the file `name` with one to three changes; `other` is a file to splice from."""
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        ways = [*BYTE_WAYS]
        if name.endswith(".json"):
            ways = [*BYTE_WAYS, *[_json] * 2 * len(BYTE_WAYS)]
        elif name.endswith(".safetensors"):
            ways = [*BYTE_WAYS, *[_safetensors_header] * len(BYTE_WAYS)]
        content = rng.choice(ways)(content, other, rng)
    return content


# ------------------------------------------------------------------------------------------------
# Bytes
# ------------------------------------------------------------------------------------------------


def _place(content, rng) -> int:
    """Headers are short and matter most: one place in two is among the first 64 bytes."""
    end = min(len(content), 64) if rng.random() < 0.5 else len(content)
    return rng.randrange(end) if end else 0


def _flip(content, other, rng):
    if not content:
        return b"\x01"
    i = _place(content, rng)
    return content[:i] + bytes([content[i] ^ 1 << rng.randrange(8)]) + content[i + 1 :]


def _set_byte(content, other, rng):
    i = _place(content, rng)
    return content[:i] + bytes([rng.randrange(256)]) + content[i + 1 :]


def _truncate(content, other, rng):
    return content[: rng.randrange(len(content) + 1)]


def _delete(content, other, rng):
    i = _place(content, rng)
    return content[:i] + content[i + rng.choice((1, 2, 4, 16, 100)) :]


def _repeat(content, other, rng):
    i = _place(content, rng)
    piece = content[i : i + rng.choice((1, 4, 16, 200))]
    return content[:i] + piece * rng.choice((2, 3, 50)) + content[i + len(piece) :]


def _insert(content, other, rng):
    i = _place(content, rng)
    return content[:i] + rng.choice(ODD_PIECES) + content[i:]


def _overwrite(content, other, rng):
    i, piece = _place(content, rng), rng.choice(ODD_PIECES)
    return content[:i] + piece + content[i + len(piece) :]


def _binary_integer(content, other, rng):
    i, value = _place(content, rng), rng.choice(ODD_INTEGERS)
    size = rng.choice((4, 8))
    packed = struct.pack("<q", min(value, 2**63 - 1))[:size]
    return content[:i] + packed + content[i + size :]


def _written_integer(content, other, rng):
    """One of the numbers written in digits becomes another."""
    runs, i = [], 0
    while i < min(len(content), 20_000):
        j = i
        while j < len(content) and content[j] in b"0123456789":
            j += 1
        if j > i:
            runs.append((i, j))
        i = j + 1
    if not runs:
        return content
    i, j = rng.choice(runs[:8] if rng.random() < 0.5 else runs)
    return content[:i] + str(rng.choice(ODD_INTEGERS)).encode() + content[j:]


def _splice(content, other, rng):
    return content[: rng.randrange(len(content) + 1)] + other[rng.randrange(len(other) + 1) :]


def _noise(content, other, rng):
    return rng.randbytes(rng.choice((0, 1, 3, 16, 300)))


BYTE_WAYS = (
    _flip, _set_byte, _truncate, _delete, _repeat, _insert, _overwrite, _binary_integer,
    _written_integer, _splice, _noise,
)  # fmt: skip

# ------------------------------------------------------------------------------------------------
# JSON, and the header of safetensors
# ------------------------------------------------------------------------------------------------


def _edit(value, rng):
    """A JSON value with one of its nodes replaced, deleted, renamed or nested."""
    holder = {"root": value}
    nodes = [(holder, "root")]
    for parent, key in nodes:
        child = parent[key]
        if isinstance(child, dict):
            nodes += [(child, name) for name in child]
        elif isinstance(child, list):
            nodes += [(child, i) for i in range(min(len(child), 50))]
    parent, key = rng.choice(nodes)
    way = rng.randrange(8)
    if way == 0 and parent is not holder:
        del parent[key]
    elif way == 1 and isinstance(parent, dict) and parent is not holder:
        parent[rng.choice(("", "x", key + "_", "shape", "lam"))] = parent.pop(key)
    elif way == 2:
        for _ in range(rng.choice((1, 3, 3000))):
            parent[key] = [parent[key]]
    elif way == 3 and isinstance(parent[key], int | float) and not isinstance(parent[key], bool):
        parent[key] = parent[key] * rng.choice((-1, 2, 0.5, 1e6)) + rng.choice((0, 1, -1))
    elif way == 4:
        other, name = rng.choice(nodes)
        parent[key] = json.loads(_dumped(other[name])) if parent is not holder else other[name]
    else:
        parent[key] = rng.choice(ODD_VALUES)
    return holder["root"]


def _dumped(value) -> str:
    try:
        return json.dumps(value)
    except RecursionError:  # the encoder of the standard library has no such depth
        return "[" * 5000 + "]" * 5000


def _json(content, other, rng):
    try:
        value = json.loads(content)
    except (ValueError, RecursionError):
        return _flip(content, other, rng)
    return _dumped(_edit(value, rng)).encode()


def _safetensors_header(content, other, rng):
    try:
        (size,) = struct.unpack("<Q", content[:8])
        header = json.loads(content[8 : 8 + size])
    except (ValueError, RecursionError, struct.error, OverflowError):
        return _flip(content, other, rng)
    changed = _dumped(_edit(header, rng)).encode()
    changed += b" " * (-len(changed) % 8)
    return struct.pack("<Q", len(changed)) + changed + content[8 + size :]
