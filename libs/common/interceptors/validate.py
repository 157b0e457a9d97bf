"""Check every request against the rules its proto states, and its texts for NUL, before its handler runs."""

from __future__ import annotations

from typing import Any

import protovalidate
from google.protobuf.message import Message

from libs.common.errors import FieldViolation, InvalidArgument
from libs.common.interceptors.text import fields_with_nul, has_nul


class RequestValidator:
    """Refuse messages that break a protovalidate rule; compiled rules are kept for the validator's life."""

    def __init__(self) -> None:
        self._validator = protovalidate.Validator()

    def check(self, message: Any, raw: bytes) -> None:
        """Accept `message`, whose serialised form is `raw`, or refuse it with every field at fault.

        Raises:
            InvalidArgument: a rule is broken or a text contains NUL; violations carry field paths.
        """
        if not isinstance(message, Message):
            return
        violations: list[FieldViolation] = []
        if b"\0" in raw and has_nul(message):  # no text has a NUL when the bytes have none
            violations += [FieldViolation(path, "must not contain NUL") for path in fields_with_nul(message)]
        violations += [
            FieldViolation(_path(found), found.proto.message or found.proto.rule_id)
            for found in self._validator.collect_violations(message)
        ]
        if violations:
            raise InvalidArgument(_summary(violations), violations=violations)


def _summary(violations: list[FieldViolation]) -> str:
    first = violations[0]
    rest = f" (and {len(violations) - 1} more)" if len(violations) > 1 else ""
    return f"{first.field}: {first.description}{rest}" if first.field else f"{first.description}{rest}"


def _path(violation: protovalidate.Violation) -> str:
    """Write a violation's FieldPath as people do: `images[3].url`, `labels["a"]`."""
    field = violation.proto.field
    if field is None:
        return ""
    parts: list[str] = []
    for element in field.elements:
        name = element.field_name or str(element.field_number)
        parts.append(f"{name}{_subscript(element.subscript)}")
    return ".".join(parts)


def _subscript(subscript: Any) -> str:
    if subscript is None:
        return ""
    value = subscript.value
    return f'["{value}"]' if isinstance(value, str) else f"[{value}]"
