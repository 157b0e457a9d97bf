"""Read what a failed call told, with grpcio and protobuf alone.

The few messages of google.rpc that matter here are declared in a pool of their own, so that they meet
nobody else's copy of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import grpc
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import DecodeError, Message

_KEY = "grpc-status-details-bin"
_STRING, _BYTES, _INT32, _INT64, _MESSAGE = 9, 12, 5, 3, 11


class Violation(NamedTuple):
    """A field at fault (`gallery.images[3].url`), and what is wrong with it."""

    field: str
    description: str


class Refused(Exception):
    """A call failed for good. `reason` is stable (BAD_SIGNATURE …), empty when the answer had none."""

    def __init__(
        self,
        code: grpc.StatusCode,
        reason: str,
        message: str,
        metadata: Mapping[str, str],
        *,
        retry_after_seconds: float | None = None,
        violations: Sequence[Violation] = (),
    ) -> None:
        super().__init__(f"{reason or code.name}: {message}")
        self.code = code
        self.reason = reason
        self.message = message
        self.metadata = dict(metadata)
        self.retry_after_seconds = retry_after_seconds
        self.violations = tuple(violations)


def read(error: grpc.RpcError) -> Refused:
    """Return what a failed call told."""
    assert isinstance(error, grpc.Call | grpc.aio.AioRpcError)
    code, message = error.code(), error.details() or ""
    reason, metadata, delay = "", dict[str, str](), None
    violations: list[Violation] = []
    for key, value in error.trailing_metadata() or ():
        if key != _KEY or not isinstance(value, bytes):
            continue
        for name, packed in _details(value):
            if name == "google.rpc.ErrorInfo":
                info: Any = _ERROR_INFO.FromString(packed)
                reason, metadata = info.reason, {entry.key: entry.value for entry in info.metadata}
            elif name == "google.rpc.RetryInfo":
                retry: Any = _RETRY_INFO.FromString(packed)
                delay = retry.retry_delay.seconds + retry.retry_delay.nanos / 1e9
            elif name == "google.rpc.BadRequest":
                bad: Any = _BAD_REQUEST.FromString(packed)
                violations += [Violation(each.field, each.description) for each in bad.field_violations]
    return Refused(code, reason, message, metadata, retry_after_seconds=delay, violations=violations)


def _details(raw: bytes) -> list[tuple[str, bytes]]:
    try:
        status: Any = _STATUS.FromString(raw)
    except DecodeError:
        return []
    return [(detail.type_url.rpartition("/")[2], detail.value) for detail in status.details]


def _declare() -> dict[str, type[Message]]:
    package = "frontrow.client.rpc"
    file = descriptor_pb2.FileDescriptorProto(
        name="frontrow/client/rpc.proto", package=package, syntax="proto3"
    )
    shapes: dict[str, list[tuple[str, int, int, str, bool]]] = {
        "Packed": [("type_url", 1, _STRING, "", False), ("value", 2, _BYTES, "", False)],
        "Status": [("code", 1, _INT32, "", False), ("details", 3, _MESSAGE, "Packed", True)],
        "Entry": [("key", 1, _STRING, "", False), ("value", 2, _STRING, "", False)],
        "ErrorInfo": [("reason", 1, _STRING, "", False), ("metadata", 3, _MESSAGE, "Entry", True)],
        "Span": [("seconds", 1, _INT64, "", False), ("nanos", 2, _INT32, "", False)],
        "RetryInfo": [("retry_delay", 1, _MESSAGE, "Span", False)],
        "Fault": [("field", 1, _STRING, "", False), ("description", 2, _STRING, "", False)],
        "BadRequest": [("field_violations", 1, _MESSAGE, "Fault", True)],
    }
    for name, fields in shapes.items():
        message = file.message_type.add(name=name)
        for field, number, kind, of, repeated in fields:
            added = message.field.add(name=field, number=number, label=3 if repeated else 1)
            added.type = descriptor_pb2.FieldDescriptorProto.Type.ValueType(kind)
            if of:
                added.type_name = f".{package}.{of}"
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {
        name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{package}.{name}"))
        for name in shapes
    }


_CLASSES = _declare()
_STATUS, _ERROR_INFO = _CLASSES["Status"], _CLASSES["ErrorInfo"]
_RETRY_INFO, _BAD_REQUEST = _CLASSES["RetryInfo"], _CLASSES["BadRequest"]
