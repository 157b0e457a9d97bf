"""Cut lists into pages: opaque keyset tokens bound to the arguments, and the size rules (AIP-158)."""

from __future__ import annotations

import base64
import hashlib
import json
import uuid
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any, TypeVar, overload

from google.protobuf.message import Message

from libs.common.errors import InvalidArgument

DEFAULT_PAGE_SIZE = 50
MAX_PAGE_SIZE = 1000
MAX_PAGE_BYTES = 3 * 1024 * 1024
_MAX_TOKEN_LENGTH = 4096

Position = str | int | float | bool | None | datetime | uuid.UUID
M = TypeVar("M", bound=Message)
A = TypeVar("A")
B = TypeVar("B")


def page_size(requested: int) -> int:
    """Return the rows of a page: 0 means 50, more than 1000 is 1000, less than 0 is refused (domain.md 5)."""
    if requested < 0:
        raise InvalidArgument.of_field("page_size", "must be 0 (the default, 50) or a positive number")
    return min(requested or DEFAULT_PAGE_SIZE, MAX_PAGE_SIZE)


def encode_token(position: Sequence[Position], request: Message) -> str:
    """Return the token that continues after `position`, the sort key of the last row of the page.

    It only fits a request with the same arguments as `request`; `page_size` and `page_token` may differ.
    """
    body = json.dumps([_digest(request), [_pack(value) for value in position]], separators=(",", ":"))
    return base64.urlsafe_b64encode(body.encode()).decode().rstrip("=")


@overload
def decode_token(token: str, request: Message, first: type[A], /) -> tuple[A] | None: ...


@overload
def decode_token(token: str, request: Message, first: type[A], second: type[B], /) -> tuple[A, B] | None: ...


def decode_token(token: str, request: Message, *kinds: type[Any]) -> tuple[Any, ...] | None:
    """Return the position a token stands for, None for the empty token (the first page).

    `kinds` are the types of the position's values. Anybody can make up a token, since it is bound to the
    request and not signed: what comes out is of these types and can be stored, whatever was in it.

    Raises:
        InvalidArgument: the token isn't one of this list, or was made for other arguments.
    """
    if not token:
        return None
    try:
        digest, position = _read(token)
        if len(position) != len(kinds) or not all(map(_fits, position, kinds)):
            raise ValueError("a position of another list")  # noqa: TRY301 - one refusal for all of it
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise InvalidArgument.of_field(
            "page_token", "is not a token of this list; take next_page_token unchanged, or leave it empty"
        ) from error
    if digest != _digest(request):
        raise InvalidArgument.of_field(
            "page_token", "was made for other arguments; repeat the filters of the first page"
        )
    return tuple(position)


def within_budget(messages: Iterable[M], limit_bytes: int = MAX_PAGE_BYTES) -> list[M]:
    """Return the messages that fit into one reply: at most 3 MiB, at least one message (domain.md 5)."""
    taken: list[M] = []
    used = 0
    for message in messages:
        used += message.ByteSize()
        if taken and used > limit_bytes:
            break
        taken.append(message)
    return taken


def _read(token: str) -> tuple[str, list[Position]]:
    if len(token) > _MAX_TOKEN_LENGTH:
        raise ValueError("longer than any token of ours")
    body = base64.b64decode(token + "=" * (-len(token) % 4), altchars=b"-_", validate=True)
    digest, packed = json.loads(body)
    return digest, [_unpack(value) for value in packed]


def _digest(request: Message) -> str:
    bound = type(request)()
    bound.CopyFrom(request)
    for name in ("page_size", "page_token"):
        if name in bound.DESCRIPTOR.fields_by_name:
            bound.ClearField(name)
    content = request.DESCRIPTOR.full_name.encode() + bound.SerializeToString(deterministic=True)
    return hashlib.sha256(content).hexdigest()[:16]


def _pack(value: Position) -> object:
    if isinstance(value, datetime):
        return {"t": value.astimezone(UTC).isoformat()}
    if isinstance(value, uuid.UUID):
        return {"u": str(value)}
    return value


def _fits(value: Position, kind: type[Any]) -> bool:
    """Tell whether a value is of this very type, and one that the database can compare with."""
    if type(value) is not kind:
        return False
    if isinstance(value, str):
        value.encode()  # raises a ValueError for a lone surrogate
        return "\0" not in value
    if isinstance(value, datetime):
        return value.tzinfo is not None
    return not isinstance(value, int) or -(2**63) <= value < 2**63


def _unpack(value: object) -> Position:
    if isinstance(value, dict):
        return datetime.fromisoformat(value["t"]) if "t" in value else uuid.UUID(value["u"])
    if value is None or isinstance(value, str | int | float):
        return value
    raise ValueError(f"no position value: {value!r}")
