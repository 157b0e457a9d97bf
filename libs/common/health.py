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
from libs.common.interceptors.admission import ServerBusy

_Response = health_pb2.HealthCheckResponse
_ListResponse = health_pb2.HealthListResponse  # type: ignore[attr-defined]  # newer than its types
MOST_WATCHES = 100
"""Anybody may watch, and watches last: more of them would take the places of streams that do the work."""
SERVICE_NAME = health_pb2.DESCRIPTOR.services_by_name["Health"].full_name


class UnknownService(DomainError):
    """Refuse to check a service that isn't served here."""

    kind = Kind.NOT_FOUND
    reason = "UNKNOWN_SERVICE"


class Health(health_pb2_grpc.HealthServicer):
    """Know whether each service is served; the empty name stands for the whole server.

    Nothing is SERVING before `start` and after `stop`, whatever `set_serving` says. A mount that reports a
    state of its own (a worker that cannot reach what it needs) makes the object and gives it to `Mounted`.
    """

    def __init__(self) -> None:
        self._able = {"": True}
        self._running = self._stopped = False
        self._watches = 0
        self._changed = asyncio.Event()

    def register(self, server: grpc.aio.Server, service_names: Iterable[str]) -> None:
        """Add the health service to a server that has these services."""
        for name in service_names:
            self._able.setdefault(name, True)
        health_pb2_grpc.add_HealthServicer_to_server(self, server)

    def set_serving(self, serving: bool, service: str | None = None) -> None:
        """Say whether `service` (None: all of them and the server) can serve."""
        for name in self._able if service is None else (service,):
            self._able[name] = serving
        self._tell()

    def start(self) -> None:
        """Report from now on what `set_serving` says; SERVING when it said nothing."""
        self._running = True
        self._tell()

    def stop(self) -> None:
        """Report NOT_SERVING for good and end every watch with that word."""
        self._running, self._stopped = False, True
        self._tell()

    async def Check(
        self, request: health_pb2.HealthCheckRequest, context: Any
    ) -> health_pb2.HealthCheckResponse:
        """Answer at once; an unknown service is NOT_FOUND."""
        if request.service not in self._able:
            raise UnknownService(f"no service {request.service!r} here", service=request.service)
        return _Response(status=self._status(request.service))

    async def List(self, request: Any, context: Any) -> Any:
        """Tell the status of every service, and of the whole server under the empty name."""
        statuses = {name: _Response(status=self._status(name)) for name in self._able}
        return _ListResponse(statuses=statuses)

    async def Watch(
        self, request: health_pb2.HealthCheckRequest, context: Any
    ) -> AsyncIterator[health_pb2.HealthCheckResponse]:
        """Send the present status, then each change; an unknown service is SERVICE_UNKNOWN.

        Raises ServerBusy while there are as many watches as there may be.
        """
        if self._watches >= MOST_WATCHES:
            raise ServerBusy(f"{MOST_WATCHES} watch already, as many as may: ask by Check now and then")
        self._watches += 1
        try:
            async for status in self._changes(request.service):
                yield _Response(status=status)
        finally:
            self._watches -= 1

    async def _changes(self, service: str) -> AsyncIterator[health_pb2.HealthCheckResponse.ServingStatus]:  # type: ignore[valid-type]
        told: int | None = None
        while True:
            changed = self._changed
            status = self._status(service)
            if status != told:
                told = status
                yield status
            if self._stopped:
                return
            await changed.wait()

    def _status(self, service: str) -> health_pb2.HealthCheckResponse.ServingStatus:  # type: ignore[valid-type]
        if service not in self._able:
            return _Response.SERVICE_UNKNOWN
        return _Response.SERVING if self._running and self._able[service] else _Response.NOT_SERVING

    def _tell(self) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()
