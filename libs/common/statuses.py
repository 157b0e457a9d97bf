"""Write a domain error as `google.rpc.Status`, and read one back."""

from __future__ import annotations

from dataclasses import dataclass, field

import grpc
from google.protobuf import any_pb2, duration_pb2
from google.protobuf.message import Message
from google.rpc import error_details_pb2, status_pb2  # type: ignore[import-untyped]
from grpc_status import rpc_status

from libs.common.errors import DomainError, FieldViolation, Kind

MAX_VIOLATIONS = 20
"""Details travel in metadata, which has a limit: more would turn the refusal into a transport failure."""

STATUS_BUDGET_BYTES = 7_000
"""What a status may take of the 8 KiB of metadata that a client with default settings accepts."""

_MAX_VALUE = 300

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
    """Return the status of a refusal, cut so that it fits into metadata: violations first, then texts."""
    violations = error.violations[:MAX_VIOLATIONS]
    message = error.message
    status = _build(error, domain, message, violations)
    while _carried_bytes(status) > STATUS_BUDGET_BYTES:
        if len(violations) > 1:
            violations = violations[: len(violations) // 2]
        elif len(message) > _MAX_VALUE:
            message = message[: len(message) // 2] + "…"
        else:
            status.ClearField("details")
            status.details.append(_pack(error_details_pb2.ErrorInfo(reason=error.reason, domain=domain)))
            break
        status = _build(error, domain, message, violations)
    return status


def from_error(error: grpc.RpcError) -> ErrorDetail:
    """Return what a failed call told. A status without details gives an empty reason."""
    assert isinstance(error, grpc.aio.AioRpcError | grpc.Call)
    status = rpc_status.from_call(error)  # type: ignore[arg-type]  # the sync reader takes an AioRpcError too
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


def _build(
    error: DomainError, domain: str, message: str, violations: tuple[FieldViolation, ...]
) -> status_pb2.Status:
    metadata = {key: value[:_MAX_VALUE] for key, value in error.metadata.items()}
    details: list[Message] = [
        error_details_pb2.ErrorInfo(reason=error.reason, domain=domain, metadata=metadata)
    ]
    if violations:
        bad = error_details_pb2.BadRequest()
        for violation in violations:
            bad.field_violations.add(
                field=violation.field[:_MAX_VALUE], description=violation.description[:_MAX_VALUE]
            )
        details.append(bad)
    if error.retry_delay_seconds is not None:
        delay = duration_pb2.Duration()
        delay.FromMilliseconds(round(error.retry_delay_seconds * 1000))
        details.append(error_details_pb2.RetryInfo(retry_delay=delay))
    code = _CODES[error.kind].value[0]
    return status_pb2.Status(code=code, message=message, details=[_pack(detail) for detail in details])


def _pack(detail: Message) -> any_pb2.Any:
    packed = any_pb2.Any()
    packed.Pack(detail)
    return packed


def _carried_bytes(status: status_pb2.Status) -> int:
    """Return the size on the wire: the message percent-encoded in one header, all in base64 in another."""
    text = sum(1 if 0x20 <= byte < 0x7F and byte != 0x25 else 3 for byte in status.message.encode())
    return text + int(status.ByteSize()) * 4 // 3


def _seconds(duration: duration_pb2.Duration) -> float:
    return duration.ToMilliseconds() / 1000
