"""Call another server: one channel per peer for the process's life, and what a failed call told."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Protocol, TypeVar

import grpc

from libs.common import statuses
from libs.common.credentials import channel_credentials
from libs.common.interceptors.outgoing import Outgoing
from libs.common.settings import TransportSettings
from libs.common.statuses import ErrorDetail
from libs.common.telemetry import Telemetry

__all__ = ["ErrorDetail", "connect", "error_info", "is_outage", "reading", "reason_of"]

MAX_MESSAGE_BYTES = 4 * 1024 * 1024
MAX_METADATA_BYTES = 16 * 1024

OPTIONS: tuple[tuple[str, int], ...] = (
    ("grpc.keepalive_time_ms", 60_000),
    ("grpc.keepalive_timeout_ms", 20_000),
    ("grpc.enable_http_proxy", 0),  # peers are never behind the proxy a machine uses for the web
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
    ("grpc.max_send_message_length", MAX_MESSAGE_BYTES),
    ("grpc.max_metadata_size", MAX_METADATA_BYTES),
    ("grpc.initial_reconnect_backoff_ms", 250),
    ("grpc.max_reconnect_backoff_ms", 1_000),  # until it is over each call fails, though the peer is back
)

# The peer or the way to it is in trouble, a wrong token and a release older than ours included: somebody
# mends it, and the call is good. CANCELLED comes from a server that stops while it serves the call.
_OUTAGE = frozenset(
    {
        grpc.StatusCode.UNAVAILABLE,
        grpc.StatusCode.DEADLINE_EXCEEDED,
        grpc.StatusCode.RESOURCE_EXHAUSTED,
        grpc.StatusCode.CANCELLED,
        grpc.StatusCode.UNIMPLEMENTED,
        grpc.StatusCode.PERMISSION_DENIED,
        grpc.StatusCode.UNAUTHENTICATED,
    }
)

# What gRPC says of a message over the limit, with a code that else means trouble: the same call fails again.
_TOO_LARGE = "larger than max"

_SCHEMES = ("dns:", "ipv4:", "ipv6:", "unix:", "unix-abstract:", "xds:")

T_co = TypeVar("T_co", covariant=True)


def connect(
    target: str,
    *,
    transport: TransportSettings | None = None,
    actor: str = "",
    idempotent: Sequence[str] = (),
    telemetry: Telemetry | None = None,
) -> grpc.aio.Channel:
    """Open a channel to `target` (`host:port` or a gRPC target); it connects at its first call.

    Unary calls without `timeout=` get 30 s, and no call outlasts the call it is made for. Without `transport`
    only loopback can be called in plaintext. `actor` names the process where no caller is known. `idempotent`
    lists the methods (`package.Service/Method`) that gRPC may repeat when the server is UNAVAILABLE; nothing
    else is ever repeated. Calls are spread over all addresses the name resolves to. Close the channel after
    the loops and handlers that use it.
    """
    credentials = channel_credentials(target, transport or TransportSettings.loopback_only())
    address = target if target.startswith(_SCHEMES) else f"dns:///{target}"
    options = [*OPTIONS, ("grpc.service_config", _service_config(idempotent))]
    interceptors = Outgoing(telemetry or Telemetry(), actor).interceptors()
    if credentials is None:
        return grpc.aio.insecure_channel(address, options=options, interceptors=interceptors)
    return grpc.aio.secure_channel(address, credentials, options=options, interceptors=interceptors)


def error_info(error: grpc.RpcError) -> ErrorDetail:
    """Return what a failed call told: code, reason, message, metadata, violations."""
    return statuses.from_error(error)


def reason_of(error: grpc.RpcError) -> str | None:
    """Return the stable reason of a failed call, None when the answer carries none."""
    return statuses.from_error(error).reason or None


def is_outage(error: grpc.RpcError) -> bool:
    """Tell whether a failed call says nothing about what was asked: infrastructure failed (domain.md 2.4)."""
    found = statuses.from_error(error)
    return found.code in _OUTAGE and not (not found.reason and _TOO_LARGE in found.message)


class StreamCall(Protocol[T_co]):
    """Be a call whose answer is a stream."""

    def __aiter__(self) -> AsyncIterator[T_co]: ...

    async def initial_metadata(self) -> object: ...

    def cancel(self) -> bool: ...


@asynccontextmanager
async def reading(call: StreamCall[T_co]) -> AsyncIterator[AsyncIterator[T_co]]:
    """Read a server stream and end the call when the block is left, however that happens.

    Leaving `async for` by break or an error doesn't end a call; the server would go on sending.
    """
    try:
        yield call.__aiter__()
    finally:
        call.cancel()


def _service_config(idempotent: Sequence[str]) -> str:
    config: dict[str, object] = {"loadBalancingConfig": [{"round_robin": {}}]}
    if idempotent:
        parted = [name.partition("/") for name in idempotent]
        names = [{"service": service, "method": method} for service, _, method in parted]
        config["methodConfig"] = [
            {
                "name": names,
                "retryPolicy": {
                    "maxAttempts": 4,
                    "initialBackoff": "0.25s",
                    "maxBackoff": "3s",
                    "backoffMultiplier": 2,
                    "retryableStatusCodes": ["UNAVAILABLE"],
                },
            }
        ]
    return json.dumps(config)
