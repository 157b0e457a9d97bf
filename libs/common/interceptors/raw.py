"""Keep the bytes a request arrived as, and turn bytes that are no message into a refusal.

A signature covers the bytes as they came: serialising the parsed message again need not give the same ones.
gRPC answers UNKNOWN or INTERNAL when its deserialiser raises; here the fault is the client's, and says where.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, cast

from google.protobuf.descriptor import Descriptor
from google.protobuf.message import DecodeError, Message

from libs.common.errors import FieldViolation, InvalidArgument
from libs.common.interceptors.text import undecodable_fields

_raw_request: ContextVar[bytes] = ContextVar("raw_request")
_check: ContextVar[Callable[[], Any]] = ContextVar("check_of_the_request")


@dataclass(frozen=True, slots=True)
class Received:
    """Hold a request as bytes beside what became of them: the message, or the error it failed with."""

    raw: bytes
    message: Any
    error: Exception | None = None
    message_class: type[Message] | None = None


def raw_request() -> bytes:
    """Return the serialised request of the present call, byte by byte as the client sent it.

    In a handler of a client stream it is the message read last.

    Raises:
        LookupError: no call is being served here.
    """
    return _raw_request.get()


def checked_request() -> Any:
    """Check and return the message of the present call of a method that checks late (`Mounted.checks_late`).

    Raises:
        InvalidArgument: what every other method's caller is told before its handler runs.
        LookupError: no such call is being served here.
    """
    return _check.get()()


def postpone(received: Received, check: Callable[[Received], Any]) -> Any:
    """Keep the bytes, and the check for `checked_request`; return the message, None where there is none."""
    _raw_request.set(received.raw)
    _check.set(lambda: check(received))
    return received.message


def receiver(deserialise: Callable[[bytes], Any] | None) -> Callable[[bytes], Received]:
    """Return a deserialiser that keeps the bytes and never raises."""
    message_class = getattr(deserialise, "__self__", None)

    def receive_bytes(raw: bytes) -> Received:
        try:
            return Received(raw, raw if deserialise is None else deserialise(raw))
        except (DecodeError, UnicodeDecodeError, ValueError) as error:
            return Received(raw, None, error, message_class)

    return receive_bytes


def receive(received: Received) -> Any:
    """Return the message and make its bytes the present `raw_request`.

    Raises:
        InvalidArgument: the bytes are no such message, or a text in it isn't UTF-8 (domain.md 5).
    """
    if received.error is not None:
        raise _refusal(received) from received.error
    _raw_request.set(received.raw)
    return received.message


def _refusal(received: Received) -> InvalidArgument:
    name, paths = "the message", list[str]()
    if received.message_class is not None:
        name = received.message_class.DESCRIPTOR.full_name
        paths = undecodable_fields(received.raw, cast("Descriptor", received.message_class.DESCRIPTOR))
    if not paths:
        return InvalidArgument(f"the request is not a well-formed {name}; encode it with the published proto")
    return InvalidArgument(
        f"text must be valid UTF-8 without lone surrogates: {', '.join(paths[:5])}",
        violations=[FieldViolation(path, "must be valid UTF-8 without lone surrogates") for path in paths],
    )
