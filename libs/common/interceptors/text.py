"""Find the text in a request that no database column could hold: NUL, and bytes that are no UTF-8.

PostgreSQL refuses NUL in text, and Python strings with a lone surrogate can't be encoded; both would show up
as a failure deep inside. They are refused at the door, with the path of the field (domain.md 5).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message

MAX_DEPTH = 100
"""Protobuf's own limit on nesting."""

_VARINT, _FIXED64, _LENGTH, _GROUP, _END_GROUP, _FIXED32 = range(6)


def has_nul(message: Message) -> bool:
    """Tell whether `fields_with_nul` finds any, at a fraction of its price: large batches pass here.

    In protobuf's text format a NUL is `\\000`. Where other text looks so, too, each field is looked at.
    """
    return r"\000" in str(message) and any(True for _ in fields_with_nul(message))


def fields_with_nul(message: Message, prefix: str = "") -> Iterator[str]:
    """Yield the path of every text, map keys and the texts of a Struct included, that contains NUL."""
    for field, value in message.ListFields():
        path = f"{prefix}{field.name}"
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            yield from _map_with_nul(field, value, path)
        elif field.is_repeated:
            for index, item in enumerate(value):
                yield from _value_with_nul(item, f"{path}[{index}]")
        else:
            yield from _value_with_nul(value, path)


def undecodable_fields(raw: bytes, descriptor: Descriptor) -> list[str]:
    """Return the paths of texts in serialised bytes that aren't UTF-8; none when the fault is another."""
    try:
        return list(_undecodable(memoryview(raw), descriptor, "", 0))
    except (IndexError, ValueError):
        return []  # malformed beyond its texts


def _map_with_nul(field: FieldDescriptor, entries: Mapping[Any, Any], path: str) -> Iterator[str]:
    for key in entries:
        shown = f'"{key}"' if isinstance(key, str) else str(key)
        entry = f"{path}[{shown}]".replace("\0", "\\0")
        if isinstance(key, str) and "\0" in key:
            yield entry
        yield from _value_with_nul(entries[key], entry)


def _value_with_nul(value: Any, path: str) -> Iterator[str]:
    if isinstance(value, str):
        if "\0" in value:
            yield path
    elif isinstance(value, Message):
        yield from fields_with_nul(value, f"{path}.")


def _undecodable(raw: memoryview, descriptor: Descriptor, prefix: str, depth: int) -> Iterator[str]:
    if depth > MAX_DEPTH:
        raise ValueError("nested too deep")
    seen: dict[int, int] = {}
    for number, content in _length_delimited(raw):
        field = descriptor.fields_by_number.get(number)
        if field is None or field.type not in {FieldDescriptor.TYPE_STRING, FieldDescriptor.TYPE_MESSAGE}:
            continue
        index = seen[number] = seen.get(number, -1) + 1
        path = f"{prefix}{field.name}[{index}]" if field.is_repeated else f"{prefix}{field.name}"
        if field.message_type is not None:
            yield from _undecodable(content, field.message_type, f"{path}.", depth + 1)
        elif not _is_utf8(content):
            yield path


def _is_utf8(content: memoryview) -> bool:
    try:
        str(content, "utf-8")
    except UnicodeDecodeError:
        return False
    return True


def _length_delimited(raw: memoryview) -> Iterator[tuple[int, memoryview]]:
    position = 0
    while position < len(raw):
        tag, position = _varint(raw, position)
        number, wire_type = tag >> 3, tag & 7
        if wire_type == _VARINT:
            _, position = _varint(raw, position)
        elif wire_type in {_FIXED64, _FIXED32}:
            position += 8 if wire_type == _FIXED64 else 4
        elif wire_type == _LENGTH:
            length, position = _varint(raw, position)
            if position + length > len(raw):
                raise ValueError("truncated")
            yield number, raw[position : position + length]
            position += length
        else:
            raise ValueError("groups are not used")


def _varint(raw: memoryview, position: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = raw[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7
        if shift > 63:
            raise ValueError("varint too long")
