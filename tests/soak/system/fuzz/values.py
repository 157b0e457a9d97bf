"""Values of single fields: within the rules that the proto states, and beyond all of them."""

from __future__ import annotations

import math
from functools import cache
from typing import Any

from buf.validate import validate_pb2
from google.protobuf.descriptor import FieldDescriptor as Field
from hypothesis import strategies as st

BITS = {
    Field.TYPE_INT32: (-(2**31), 2**31 - 1), Field.TYPE_SINT32: (-(2**31), 2**31 - 1),
    Field.TYPE_SFIXED32: (-(2**31), 2**31 - 1), Field.TYPE_UINT32: (0, 2**32 - 1),
    Field.TYPE_FIXED32: (0, 2**32 - 1), Field.TYPE_INT64: (-(2**63), 2**63 - 1),
    Field.TYPE_SINT64: (-(2**63), 2**63 - 1), Field.TYPE_SFIXED64: (-(2**63), 2**63 - 1),
    Field.TYPE_UINT64: (0, 2**64 - 1), Field.TYPE_FIXED64: (0, 2**64 - 1),
}  # fmt: skip
_RULES_OF = {
    Field.CPPTYPE_INT32: "int32", Field.CPPTYPE_UINT32: "uint32",
    Field.CPPTYPE_INT64: "int64", Field.CPPTYPE_UINT64: "uint64",
}  # fmt: skip
FLOATS = frozenset({Field.TYPE_DOUBLE, Field.TYPE_FLOAT})
HUGE_CHARACTERS = 300_000

_ODD_TEXTS = (
    b"", b" ", b"\0", b"a\0b", b"\xff", b"\xed\xa0\x80", b"\xc3", b"\xf0\x9f\x92\x85", b"\xe2\x80\xae",
    b"'; DROP TABLE task.tasks; --", b"%s%n%(x)s{0}", b"%", b"_", b"\\", b"|", b" , | \xef\xbd\x9c ",
    b"../../etc/passwd", b"-rf", b"https://[", b"file:///etc/passwd", b"http://169.254.169.254/",
    b"data:image/png;base64,AA", b"2026-13-45T99:99:99Z", b"NaN", b"1e999", b"null", b"AAAA", b"W10",
    b"00000000-0000-0000-0000-000000000000", b"{00000000-0000-0000-0000-000000000000}",
    "利率 债券 | 股票".encode(), "İstanbul".encode(), b"\r\n\r\nGET / HTTP/1.1", b"\x1b[31m",
)  # fmt: skip
_PLAIN_TEXTS = ("a", "2026", "Fuzz", "利率 债券 | 股票", "https://fuzz.example/1", "FW26", "Copenhagen")
_TYPES = ("fuzz", "ingest", "asr", "nothing")


@cache
def odd_text() -> st.SearchStrategy[bytes]:
    """Return texts that a field should not hold, bytes that are no text included."""
    return st.one_of(
        st.sampled_from(_ODD_TEXTS),
        st.binary(max_size=40),
        st.sampled_from([255, 513, 4_001, 70_000, HUGE_CHARACTERS]).map(lambda length: b"x" * length),
        st.text(max_size=20).map(lambda text: text.encode("utf-8", "surrogatepass")),
    )


@cache
def plain_text(field: Field, known: tuple[str, ...]) -> st.SearchStrategy[bytes]:
    """Return texts that the rules of a field allow, ids of what is stored for choice."""
    rules = _rules(field).string
    if rules.pattern and field.name not in {"type", "types"}:
        chosen: st.SearchStrategy[str] = st.from_regex(rules.pattern, fullmatch=True)
    elif field.name in {"type", "types"}:
        chosen = st.sampled_from(_TYPES)
    elif rules.uuid or field.name in {"id", "etag"} or field.name.endswith(("_id", "_ids", "key", "keys")):
        chosen = st.sampled_from(known)
    else:
        chosen = st.one_of(st.sampled_from(_PLAIN_TEXTS), st.sampled_from(("", *known)), st.text(max_size=8))
    least, most = rules.min_len, rules.max_len or 1_000
    fitting = chosen.map(lambda text: text[:most].ljust(least, "x"))
    at_limit = st.just("x" * most) if 0 < most <= 4_000 and not (rules.pattern or rules.uuid) else fitting
    return st.one_of(fitting, fitting, fitting, at_limit).map(lambda text: text.encode("utf-8", "replace"))


@cache
def odd_number(kind: int) -> st.SearchStrategy[Any]:
    """Return the ends of what a type can hold, and what lies around them."""
    if kind in FLOATS:
        return st.sampled_from([math.nan, math.inf, -math.inf, -0.0, 1e30, -1e30, 5e-324])
    if kind == Field.TYPE_BOOL:
        return st.sampled_from([0, 1, 2, 2**63])
    low, high = BITS.get(kind, BITS[Field.TYPE_INT32])
    ends = {low, low + 1, -1, 0, 1, 99, 2**31 - 1, 2**31, high - 1, high}
    return st.sampled_from(sorted(value for value in ends if low <= value <= high))


@cache
def plain_number(field: Field) -> st.SearchStrategy[Any]:
    """Return numbers that the rules of a field allow; an enum's own values."""
    if field.enum_type is not None:
        return st.sampled_from([value.number for value in field.enum_type.values])
    if field.type == Field.TYPE_BOOL:
        return st.booleans()
    if field.type in FLOATS:
        return st.sampled_from([0.0, 0.5, 1.0, 100.0])
    rules = getattr(_rules(field), _RULES_OF[field.cpp_type])
    low, high = BITS[field.type]
    least = rules.gte if rules.HasField("gte") else rules.gt + 1 if rules.HasField("gt") else low
    most = rules.lte if rules.HasField("lte") else rules.lt - 1 if rules.HasField("lt") else high
    few = [value for value in (0, 1, 2, 8, 2026, least, most) if least <= value <= most]
    return st.sampled_from(few)


@cache
def few_items(field: Field) -> st.SearchStrategy[int]:
    """Return how many items a repeated field has, mostly within its rules."""
    rules = _rules(field).repeated
    least, most = rules.min_items, rules.max_items or 1_000
    return st.sampled_from([max(1, least), max(1, least), min(most, least + 1), min(most, 3)])


def is_required(field: Field) -> bool:
    """Tell whether the rules want a value here."""
    rules = _rules(field)
    return bool(
        rules.required
        or (rules.ignore == validate_pb2.IGNORE_UNSPECIFIED and (rules.string.uuid or rules.string.min_len))
        or rules.string.pattern
        or rules.repeated.min_items
        or rules.enum.not_in
        or rules.int64.gte > 0
    )


def _rules(field: Field) -> Any:
    return field.GetOptions().Extensions[validate_pb2.field]
