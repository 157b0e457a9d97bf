"""Write a domain error as `google.rpc.Status`, and read one back."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import grpc
from google.protobuf import any_pb2, duration_pb2
from google.protobuf.message import DecodeError, Message
from google.rpc import error_details_pb2, status_pb2  # type: ignore[import-untyped]
from grpc_status import rpc_status

from libs.common.errors import DomainError, FieldViolation, Kind

MAX_VIOLATIONS = 20
"""Details travel in metadata, which has a limit: more would turn the refusal into a transport failure."""

STATUS_BUDGET_BYTES = 7_000
"""What a status may take of the 8 KiB of metadata that a client with default settings accepts."""


class _Cut(NamedTuple):
    violations: int
    message_length: int
    value_length: int


_CUTS = (
    _Cut(MAX_VIOLATIONS, 2000, 300),
    _Cut(MAX_VIOLATIONS, 1000, 100),
    _Cut(5, 500, 100),
    _Cut(1, 200, 50),
)

_CODES = {kind: grpc.StatusCode[kind.value] for kind in Kind}


@dataclass(frozen=True)
class ErrorDetail:
    """Hold what a failed call told: code, reason (empty when it gave none), message, metadata, violations."""

    code: grpc.StatusCode
    reason: str
    message: str
    metadata: dict[str, str] = field(default_factory=dict)
    violations: tuple[FieldViolation, ...] = ()
    retry_delay_seconds: float | None = None
    domain: str = ""


def to_status(error: DomainError, domain: str) -> status_pb2.Status:
    """Return the status of a refusal, cut only as far as it must be to fit into metadata."""
    for cut in _CUTS:
        status = _build(error, domain, cut)
        if carried_bytes(status) <= STATUS_BUDGET_BYTES:
            return status
    bare = error_details_pb2.ErrorInfo(reason=error.reason, domain=domain)
    del status.details[:]
    status.details.append(_pack(bare))
    return status


def from_error(error: grpc.RpcError) -> ErrorDetail:
    """Return what a failed call told. A status without details gives an empty reason."""
    assert isinstance(error, grpc.aio.AioRpcError | grpc.Call)
    try:
        status = rpc_status.from_call(error)  # type: ignore[arg-type]  # the sync reader takes an AioRpcError too
    except (ValueError, DecodeError):
        status = None  # details that contradict the status, or aren't a Status: not one of ours
    if status is None:
        return ErrorDetail(error.code(), "", error.details() or "")
    info, bad, retry = (
        error_details_pb2.ErrorInfo(),
        error_details_pb2.BadRequest(),
        error_details_pb2.RetryInfo(),
    )
    found: set[str] = set()
    for packed in status.details:
        for detail in (info, bad, retry):
            if packed.Is(detail.DESCRIPTOR):
                packed.Unpack(detail)
                found.add(detail.DESCRIPTOR.name)
    return ErrorDetail(
        code=error.code(),
        reason=info.reason,
        message=status.message,
        metadata=dict(info.metadata),
        violations=tuple(FieldViolation(v.field, v.description) for v in bad.field_violations),
        retry_delay_seconds=_seconds(retry.retry_delay) if "RetryInfo" in found else None,
        domain=info.domain,
    )


def _build(error: DomainError, domain: str, cut: _Cut) -> status_pb2.Status:
    metadata = {key: _shorten(value, cut.value_length) for key, value in error.metadata.items()}
    details: list[Message] = [
        error_details_pb2.ErrorInfo(reason=error.reason, domain=domain, metadata=metadata)
    ]
    if error.violations:
        bad = error_details_pb2.BadRequest()
        for violation in error.violations[: cut.violations]:
            bad.field_violations.add(
                field=_shorten(violation.field, cut.value_length),
                description=_shorten(violation.description, cut.value_length),
            )
        details.append(bad)
    if error.retry_delay_seconds is not None:
        delay = duration_pb2.Duration()
        delay.FromMilliseconds(round(error.retry_delay_seconds * 1000))
        details.append(error_details_pb2.RetryInfo(retry_delay=delay))
    return status_pb2.Status(
        code=_CODES[error.kind].value[0],
        message=_shorten(error.message, cut.message_length),
        details=[_pack(detail) for detail in details],
    )


def _shorten(text: str, length: int) -> str:
    return text if len(text) <= length else text[: length - 1] + "…"


def _pack(detail: Message) -> any_pb2.Any:
    packed = any_pb2.Any()
    packed.Pack(detail)
    return packed


def carried_bytes(status: status_pb2.Status) -> int:
    """Return the size on the wire: the message percent-encoded in one header, all in base64 in another."""
    text = sum(1 if 0x20 <= byte < 0x7F and byte != 0x25 else 3 for byte in status.message.encode())
    return text + int(status.ByteSize()) * 4 // 3


def _seconds(duration: duration_pb2.Duration) -> float:
    return duration.ToMilliseconds() / 1000
