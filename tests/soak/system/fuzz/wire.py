"""Write protobuf's wire format by hand: what a message object refuses to hold must be sent all the same."""

from __future__ import annotations

import struct

from google.protobuf.descriptor import FieldDescriptor as Field

VARINT, FIXED64, LENGTH, GROUP, FIXED32 = 0, 1, 2, 3, 5
_FIXED = {
    Field.TYPE_DOUBLE: "<d", Field.TYPE_FLOAT: "<f",
    Field.TYPE_FIXED64: "<Q", Field.TYPE_SFIXED64: "<q", Field.TYPE_FIXED32: "<I", Field.TYPE_SFIXED32: "<i",
}  # fmt: skip
_ZIGZAG = frozenset({Field.TYPE_SINT32, Field.TYPE_SINT64})


def varint(value: int) -> bytes:
    """Return a varint; negative numbers take ten bytes, as protobuf has it."""
    value &= (1 << 64) - 1
    out = bytearray()
    while value > 0x7F:
        out.append((value & 0x7F) | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def tag(number: int, wire_type: int) -> bytes:
    """Return what stands before a field."""
    return varint(number << 3 | wire_type)


def delimited(number: int, content: bytes) -> bytes:
    """Return a field of text, bytes or a message."""
    return tag(number, LENGTH) + varint(len(content)) + content


def scalar(number: int, kind: int, value: int | float | bool) -> bytes:
    """Return a field of a number, an enum or a bool."""
    if kind in _FIXED:
        packed = struct.pack(_FIXED[kind], value)
        return tag(number, FIXED64 if len(packed) == 8 else FIXED32) + packed
    whole = int(value)
    if kind in _ZIGZAG:
        whole = (whole << 1) ^ (whole >> 63)
    return tag(number, VARINT) + varint(whole)


def nested(number: int, depth: int) -> bytes:
    """Return a message in a message in a message."""
    content = b""
    for _ in range(depth):
        content = delimited(number, content)
    return content
