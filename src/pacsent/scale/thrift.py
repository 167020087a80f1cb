"""Thrift's compact protocol, as much of it as the footer of a Parquet file needs.

A struct is a dict from field number to (type, value); a list is (type of its elements, values).
What is read is written back byte for byte, whether its meaning is known here or not.
"""

import struct
from typing import Any

TRUE, FALSE, BYTE, I16, I32, I64, DOUBLE, BINARY, LIST, SET, MAP, STRUCT = range(1, 13)
Struct = dict[int, tuple[int, Any]]


def zigzag(number: int) -> int:
    """0, -1, 1, -2 ... as 0, 1, 2, 3 ...

    Examples
    --------
    >>> [zigzag(n) for n in (0, 1, 2, 3)]
    [0, 2, 4, 6]
    """
    return number << 1 if number >= 0 else (-number << 1) - 1


def varint(number: int) -> bytes:
    """Seven bits a byte, the lowest first.

    >>> varint(300)
    b'\\xac\\x02'
    """
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


class Reader:
    """Reads structs from bytes, one after the other."""

    def __init__(self, data: bytes, at: int = 0):
        self.data, self.at = data, at

    def struct(self) -> Struct:
        found: Struct = {}
        number = 0
        while head := self._byte():
            kind, step = head & 15, head >> 4
            number = number + step if step else self._signed()
            found[number] = kind, self._value(kind)
        return found

    def _byte(self) -> int:
        self.at += 1
        return self.data[self.at - 1]

    def _varint(self) -> int:
        number = shift = 0
        while (byte := self._byte()) & 0x80:
            number |= (byte & 0x7F) << shift
            shift += 7
        return number | byte << shift

    def _signed(self) -> int:
        number = self._varint()
        return number >> 1 if not number & 1 else -(number >> 1) - 1

    def _taken(self, n: int) -> bytes:
        self.at += n
        return self.data[self.at - n : self.at]

    def _value(self, kind: int):
        if kind in (TRUE, FALSE):
            return kind == TRUE
        if kind in (I16, I32, I64):
            return self._signed()
        if kind == BINARY:
            return self._taken(self._varint())
        if kind in (LIST, SET):
            head = self._byte()
            size = head >> 4 if head >> 4 != 15 else self._varint()
            inner = head & 15
            return inner, [self._element(inner) for _ in range(size)]
        if kind == STRUCT:
            return self.struct()
        if kind == BYTE:
            return self._byte()
        if kind == DOUBLE:
            return struct.unpack("<d", self._taken(8))[0]
        raise ValueError(f"thrift type {kind} is none of those in a Parquet footer")

    def _element(self, kind: int):
        return self._byte() == TRUE if kind in (TRUE, FALSE) else self._value(kind)


def encoded(fields: Struct) -> bytes:
    """A struct as bytes.

    >>> Reader(encoded({1: (I32, -7), 20: (BINARY, b"ab")})).struct()
    {1: (5, -7), 20: (8, b'ab')}
    """
    out = bytearray()
    before = 0
    for number, (kind, value) in sorted(fields.items()):
        if kind in (TRUE, FALSE):
            kind = TRUE if value else FALSE
        step = number - before
        out += bytes([step << 4 | kind]) if 0 < step < 16 else bytes([kind]) + _signed(number)
        before = number
        if kind not in (TRUE, FALSE):
            out += _bytes_of(kind, value)
    return bytes(out) + b"\0"


def _signed(number: int) -> bytes:
    return varint(zigzag(number))


def _bytes_of(kind: int, value) -> bytes:
    if kind in (I16, I32, I64):
        return _signed(value)
    if kind == BINARY:
        return varint(len(value)) + value
    if kind in (LIST, SET):
        inner, values = value
        size = len(values)
        head = bytes([size << 4 | inner]) if size < 15 else bytes([0xF0 | inner]) + varint(size)
        return head + b"".join(_element_bytes(inner, one) for one in values)
    if kind == STRUCT:
        return encoded(value)
    if kind == BYTE:
        return bytes([value])
    return struct.pack("<d", value)


def _element_bytes(kind: int, value) -> bytes:
    return bytes([TRUE if value else FALSE]) if kind in (TRUE, FALSE) else _bytes_of(kind, value)
