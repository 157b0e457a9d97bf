"""Answer health checks, per service, with a Watch that ends when the server stops.

The library's servicer keeps its watches open for ever, so that a stop would wait out its whole grace, and
holds a lock while it writes to a watcher, so that one slow watcher delays everyone's news.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from typing import Any

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

from libs.common.errors import DomainError, Kind

_Response = health_pb2.HealthCheckResponse
SERVICE_NAME = health_pb2.DESCRIPTOR.services_by_name["Health"].full_name


class UnknownService(DomainError):
    """Refuse to check a service that isn't served here."""

    kind = Kind.NOT_FOUND
    reason = "UNKNOWN_SERVICE"


class Health(health_pb2_grpc.HealthServicer):
    """Know whether each service is served; the empty name stands for the whole server."""

    def __init__(self, service_names: Iterable[str]) -> None:
        self._serving = dict.fromkeys(["", *service_names], False)
        self._stopped = False
        self._changed = asyncio.Event()

    def register(self, server: grpc.aio.Server) -> None:
        """Add the health service to a server."""
        health_pb2_grpc.add_HealthServicer_to_server(self, server)

    def set_serving(self, serving: bool, service: str | None = None) -> None:
        """Say whether `service` (None: all of them and the server) is served; ignored once stopping."""
        if self._stopped:
            return
        for name in self._serving if service is None else (service,):
            self._serving[name] = serving
        self._tell()

    def stop(self) -> None:
        """Report NOT_SERVING for good and end every watch with that word."""
        for name in self._serving:
            self._serving[name] = False
        self._stopped = True
        self._tell()

    async def Check(
        self, request: health_pb2.HealthCheckRequest, context: Any
    ) -> health_pb2.HealthCheckResponse:
        """Answer at once; an unknown service is NOT_FOUND."""
        if request.service not in self._serving:
            raise UnknownService(f"no service {request.service!r} here", service=request.service)
        return _Response(status=self._status(request.service))

    async def Watch(
        self, request: health_pb2.HealthCheckRequest, context: Any
    ) -> AsyncIterator[health_pb2.HealthCheckResponse]:
        """Send the present status, then each change; an unknown service is SERVICE_UNKNOWN."""
        told: int | None = None
        while True:
            changed = self._changed
            status = self._status(request.service)
            if status != told:
                told = status
                yield _Response(status=status)
            if self._stopped:
                return
            await changed.wait()

    def _status(self, service: str) -> health_pb2.HealthCheckResponse.ServingStatus:  # type: ignore[valid-type]
        if service not in self._serving:
            return _Response.SERVICE_UNKNOWN
        return _Response.SERVING if self._serving[service] else _Response.NOT_SERVING

    def _tell(self) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()
