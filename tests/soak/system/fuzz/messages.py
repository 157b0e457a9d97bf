"""Requests made from a descriptor, as bytes: good ones, ones with a single fault, wild ones, and garbage.

A request that is wrong all over is refused at the door. What gets further has one field beyond all rules, or
none, and ids of what is really stored.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from google.protobuf.descriptor import Descriptor
from google.protobuf.descriptor import FieldDescriptor as Field
from hypothesis import strategies as st

from tests.soak.system.fuzz import values, wire

Draw = Callable[[st.SearchStrategy[Any]], Any]
DEEPEST = 3
_UNKNOWN = (
    wire.scalar(18_999, Field.TYPE_INT64, -1),
    wire.delimited(536_870_911, b"unknown"),
    wire.delimited(1_000, wire.nested(1_000, 200)),
)
_WILD_TIMES = (-(2**63), -62_135_596_801, 253_402_300_800, 2**63 - 1, 0)


def requests(descriptor: Descriptor, known: tuple[str, ...]) -> st.SearchStrategy[bytes]:
    """Return requests of a type; `known` are ids and keys of what is stored."""
    good = _message(descriptor, known, faulty=False)
    return st.one_of(
        good,
        _with_one_fault(descriptor, known),
        _with_one_fault(descriptor, known),
        _with_one_fault(descriptor, known),
        _message(descriptor, known, faulty=True),
        _garbage(good),
    )


@st.composite
def fault_in(draw: Draw, descriptor: Descriptor, known: tuple[str, ...], name: str) -> bytes:
    """Draw a good message whose field of this name is beyond all rules."""
    good: bytes = draw(_message(descriptor, known, faulty=False))
    return good + _field(draw, descriptor.fields_by_name[name], known, depth=0, faulty=True)


def deep() -> st.SearchStrategy[bytes]:
    """Return messages nested beyond protobuf's limit, of the fields where nesting is possible."""
    return st.tuples(st.integers(1, 20), st.sampled_from([50, 99, 101, 5_000])).map(
        lambda made: wire.nested(*made)
    )


def _garbage(good: st.SearchStrategy[bytes]) -> st.SearchStrategy[bytes]:
    cut = st.tuples(good, st.floats(0, 1)).map(lambda made: made[0][: int(len(made[0]) * made[1])])
    flipped = st.tuples(good, st.integers(0, 10_000), st.integers(1, 255)).map(_flip)
    groups = st.sampled_from([wire.tag(1, wire.GROUP), wire.tag(1, 4), wire.tag(1, 7), b"\0\0", b"\xff" * 11])
    return st.one_of(st.binary(max_size=60), cut, flipped, groups, deep())


def _flip(made: tuple[bytes, int, int]) -> bytes:
    raw, place, mask = made
    if not raw:
        return bytes([mask])
    place %= len(raw)
    return raw[:place] + bytes([raw[place] ^ mask]) + raw[place + 1 :]


@cache
@st.composite
def _with_one_fault(draw: Draw, descriptor: Descriptor, known: tuple[str, ...]) -> bytes:
    """Draw a message of which one field, at whatever depth, is beyond all rules."""
    good: bytes = draw(_message(descriptor, known, faulty=False))
    if not descriptor.fields:
        return good + draw(st.sampled_from(_UNKNOWN))
    fault = draw(st.sampled_from(list(descriptor.fields)))
    return good + _field(draw, fault, known, depth=0, faulty=True)  # the last one of a field counts


@cache
@st.composite
def _message(
    draw: Draw, descriptor: Descriptor, known: tuple[str, ...], faulty: bool, depth: int = 0
) -> bytes:
    special = _SPECIAL.get(descriptor.full_name)
    if special is not None:
        made: bytes = special(draw, faulty)
        return made
    out: list[bytes] = []
    chosen = {
        oneof.name: draw(st.sampled_from([f.name for f in oneof.fields])) for oneof in descriptor.oneofs
    }
    for field in descriptor.fields:
        oneof = field.containing_oneof
        if faulty or oneof is None:
            wanted = draw(st.booleans()) or (not faulty and values.is_required(field))
        else:
            wanted = chosen[oneof.name] == field.name
        if wanted:
            out.append(_field(draw, field, known, depth=depth, faulty=faulty))
    if draw(st.integers(0, 7)) == 7:
        out.append(draw(st.sampled_from(_UNKNOWN)))
    return b"".join(out)


def _field(draw: Draw, field: Field, known: tuple[str, ...], *, depth: int, faulty: bool) -> bytes:
    count = 1
    if field.is_repeated:
        count = draw(st.sampled_from([1, 2, 40])) if faulty else draw(values.few_items(field))
    return b"".join(_item(draw, field, known, depth=depth, faulty=faulty) for _ in range(count))


def _item(draw: Draw, field: Field, known: tuple[str, ...], *, depth: int, faulty: bool) -> bytes:
    number = field.number
    if field.message_type is not None:
        if depth >= DEEPEST:
            return b""
        inner = _message(field.message_type, known, faulty=faulty and draw(st.booleans()), depth=depth + 1)
        if faulty and draw(st.booleans()):
            inner = _with_one_fault(field.message_type, known)
        return wire.delimited(number, draw(inner))
    if field.type == Field.TYPE_STRING:
        texts = values.odd_text() if faulty else values.plain_text(field, known)
        return wire.delimited(number, draw(texts))
    if field.type == Field.TYPE_BYTES:
        return wire.delimited(number, draw(st.binary(max_size=64)))
    numbers = values.odd_number(field.type) if faulty else values.plain_number(field)
    return wire.scalar(number, field.type, draw(numbers))


def _time(draw: Draw, faulty: bool) -> bytes:
    """Draw a Timestamp or a Duration."""
    seconds = draw(st.sampled_from(_WILD_TIMES if faulty else (0, 1, 60, 1_796_000_000)))
    nanos = draw(st.sampled_from([-(2**31), -1, 0, 2**31 - 1] if faulty else [0, 999_999_999]))
    return wire.scalar(1, Field.TYPE_INT64, seconds) + wire.scalar(2, Field.TYPE_INT32, nanos)


def _struct(draw: Draw, faulty: bool) -> bytes:
    """Draw a Struct of a few entries."""
    out = b""
    for _ in range(draw(st.integers(0, 3))):
        key = draw(values.odd_text()) if faulty else draw(st.sampled_from([b"plan", b"a", "键".encode()]))
        value = _value(draw, faulty, 0)
        out += wire.delimited(1, wire.delimited(1, key) + wire.delimited(2, value))
    return out


def _value(draw: Draw, faulty: bool, depth: int) -> bytes:
    """Draw a Value: null, number, text, bool, struct, list; NaN and deep ones among the faulty."""
    kind = draw(st.integers(1, 6 if depth < DEEPEST else 4))
    if kind == 1:
        return wire.scalar(1, Field.TYPE_ENUM, 7 if faulty else 0)
    if kind == 2:
        numbers = values.odd_number(Field.TYPE_DOUBLE) if faulty else st.sampled_from([0.0, 1.5, 1e15])
        return wire.scalar(2, Field.TYPE_DOUBLE, draw(numbers))
    if kind == 3:
        return wire.delimited(3, draw(values.odd_text()) if faulty else b"text")
    if kind == 4:
        return wire.scalar(4, Field.TYPE_BOOL, draw(st.booleans()))
    if kind == 5:
        return wire.delimited(5, _struct(draw, faulty))
    inner = _value(draw, faulty, depth + 1)
    for _ in range(draw(st.sampled_from([0, 1, 30])) if faulty else 0):
        inner = wire.delimited(6, wire.delimited(1, inner))
    return wire.delimited(6, wire.delimited(1, inner))


def _mask(draw: Draw, faulty: bool) -> bytes:
    """Draw a FieldMask."""
    paths = [b"name", b"remark", b"title", b"paused", b"lease", b"concurrency_limit", b"draft_url", b"month"]
    odd = [b"*", b"", b".", b"a.b.c", b"id", b"etag", b"\0", b"\xff", b"x" * 5_000]
    chosen = draw(st.lists(st.sampled_from(paths + odd if faulty else paths), max_size=3))
    return b"".join(wire.delimited(1, path) for path in chosen)


_SPECIAL: dict[str, Callable[[Draw, bool], bytes]] = {
    "google.protobuf.Timestamp": _time,
    "google.protobuf.Duration": _time,
    "google.protobuf.Struct": _struct,
    "google.protobuf.FieldMask": _mask,
}
