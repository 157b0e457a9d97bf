"""Serve one context by gRPC: how it starts, and in which order it stops."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import cast

import grpc
import structlog
from grpc_reflection.v1alpha import reflection

from libs.common.access import Access, Rules, TokenFile
from libs.common.client import MAX_MESSAGE_BYTES, MAX_METADATA_BYTES
from libs.common.credentials import InsecureTransport, is_loopback, server_credentials
from libs.common.deadline import DEFAULT_CAP_SECONDS
from libs.common.health import SERVICE_NAME as HEALTH_NAME
from libs.common.interceptors import access, context, deadline, errors, outage, telemetry
from libs.common.interceptors.admission import Admission, all_of
from libs.common.interceptors.call import Step
from libs.common.interceptors.inflight import InFlight
from libs.common.interceptors.pipeline import SILENCE_SECONDS, Pipeline
from libs.common.interceptors.validate import RequestValidator
from libs.common.loops import Loop
from libs.common.mounted import Mounted
from libs.common.own_queues import OwnQueues
from libs.common.readiness import DATABASE, Readiness
from libs.common.settings import TransportSettings
from libs.common.telemetry import Telemetry

log = structlog.get_logger(__name__)

MOST_PENDING, MOST_PENDING_SECONDS = 2_000, 5

OPTIONS: tuple[tuple[str, int], ...] = (
    ("grpc.so_reuseport", 0),  # else a second server shares the port in silence and takes half of the calls
    ("grpc.http2.min_ping_interval_without_data_ms", 30_000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.keepalive_time_ms", 120_000),
    ("grpc.keepalive_timeout_ms", 20_000),
    ("grpc.max_connection_age_ms", 600_000),  # clients come back and find new servers
    ("grpc.max_connection_age_grace_ms", 6 * 3_600_000),  # a long upload or watch isn't cut for it
    ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
    ("grpc.max_send_message_length", MAX_MESSAGE_BYTES),
    ("grpc.max_metadata_size", MAX_METADATA_BYTES),
    # What gRPC itself lets wait in each queue (own_queues.py); the rest it drops at once, as CANCELLED.
    ("grpc.server.max_pending_requests", MOST_PENDING),
    ("grpc.server.max_pending_requests_hard_limit", MOST_PENDING + 1),
    ("grpc.server_max_unrequested_time_in_server", MOST_PENDING_SECONDS),
)


_UNGUARDED = (
    "{address} is not a loopback address, and whoever reaches it may call everything: set "
    "FRONTROW_TOKENS_FILE, or FRONTROW_INSECURE_PLAINTEXT=1 on a network you trust"
)

_DRAIN_SECONDS = 10.0
"""How long handlers may take to leave once cancelled, before what they use is closed all the same."""

_running: set[ContextServer] = set()
"""Servers between start and stop: gRPC shuts down a server that nobody refers to."""


class AddressInUse(OSError):
    """Refuse to start on an address that can't be bound."""


class ContextServer:
    """Serve one context. `name` is the last part of its ErrorInfo domain, `frontrow.<name>`.

    `rules` say who may call what, once `transport` names a file of tokens; without it everybody may call
    everything. `cap_seconds` limits unary calls whose client set no deadline, long polls excepted;
    `silence_seconds` the wait for a message of a client's stream.
    """

    def __init__(
        self,
        name: str,
        address: str,
        mounted: Mounted,
        *,
        transport: TransportSettings | None = None,
        rules: Rules | None = None,
        max_concurrent_rpcs: int | None = None,
        telemetry: Telemetry | None = None,
        cap_seconds: float = DEFAULT_CAP_SECONDS,
        silence_seconds: float = SILENCE_SECONDS,
    ) -> None:
        self.name = name
        self.bound = ""
        """The address with its real port, from the start on."""
        self.bound_for_processes = ""
        """The address that demands a certificate, where there is one beside `bound`."""
        self.health = mounted.health
        self._address = address
        self._mounted = mounted
        self._transport = transport or TransportSettings.loopback_only()
        self._telemetry = telemetry or Telemetry()
        self._urgent = {**all_of(HEALTH_NAME, "Check", "List"), **mounted.urgent}
        self._admission = Admission(
            f"frontrow.{name}",
            max_concurrent_rpcs or self._transport.max_concurrent_rpcs,
            self._telemetry,
            room_for_waits=mounted.room_for_waits,
            long_polls=mounted.long_polls,
            urgent=self._urgent,
        )
        self._rules = rules or Rules({})
        self._cap_seconds = cap_seconds
        self._silence_seconds = silence_seconds
        self.in_flight = InFlight()
        self._readiness = Readiness(name, mounted.health, mounted.checks)
        self._server: grpc.aio.Server | None = None
        self._started: list[Loop] = []
        self._stopped: asyncio.Task[None] | None = None

    async def start(self) -> str:
        """Bind, serve, start the loops, then report SERVING; return the address with the port that was bound.

        Raises:
            AddressInUse: another process has the port.
            InsecureTransport: the address needs TLS or a permission.
        """
        self._server = self._build()
        try:
            self.bound = self._bind(self._server)
            await self._server.start()
            _running.add(self)
            # Readiness comes last: it looks at what the others need, too.
            for loop in (*self._mounted.loops, self._readiness):
                self._started.append(loop)
                await loop.start()
        except BaseException:
            await self.stop(grace_seconds=0)
            raise
        self.health.start()
        log.info("server.started", server=self.name, address=self.bound)
        return self.bound

    async def stop(self, grace_seconds: float = 5.0) -> None:
        """Stop in order: health, watches, calls (within the grace), their handlers, loops, then `close`.

        A second call waits for the first; a cancelled caller doesn't interrupt it.
        """
        if self._stopped is None:
            self._stopped = asyncio.create_task(self._stop(grace_seconds), name=f"stop-{self.name}")
        await asyncio.shield(self._stopped)

    async def _stop(self, grace_seconds: float) -> None:
        log.info("server.stopping", server=self.name, calls=len(self.in_flight.methods))
        try:
            self.health.stop()
            self._mounted.on_stopping()
            if self._server is not None:
                await self._server.stop(grace_seconds)
            if not await self.in_flight.drained(_DRAIN_SECONDS):
                log.error("server.handlers_stuck", server=self.name, methods=self.in_flight.methods)
            for loop in reversed(self._started):
                await self._stop_loop(loop)
        finally:
            await self._mounted.close()
            _running.discard(self)
        log.info("server.stopped", server=self.name)

    async def _stop_loop(self, loop: Loop) -> None:
        try:
            await loop.stop()
        except Exception:
            log.exception("loop.stop_failed", server=self.name, loop=type(loop).__name__)

    def _build(self) -> grpc.aio.Server:
        steps = [
            self._admission.limited,  # first: a refusal must cost next to nothing
            self.in_flight.tracked,
            telemetry.observing(self._telemetry),
            context.identified,
            errors.mapping(f"frontrow.{self.name}", self._telemetry),
            *self._identification(),
            outage.refusing_while(partial(self._readiness.is_silent, DATABASE)),
            deadline.limiting(self._mounted.long_polls, cap_seconds=self._cap_seconds),
        ]
        pipeline = Pipeline(
            steps,
            RequestValidator(),
            silence_seconds=self._silence_seconds,
            checks_late=self._mounted.checks_late,
        )
        server = grpc.aio.server(
            interceptors=[pipeline],
            options=OPTIONS,
            maximum_concurrent_rpcs=self._admission.most_calls,
        )
        queues = cast("grpc.aio.Server", OwnQueues(server, self._urgent))
        self._mounted.register(queues)
        self.health.register(queues, self._mounted.service_names)
        names = (*self._mounted.service_names, HEALTH_NAME, reflection.SERVICE_NAME)
        reflection.enable_server_reflection(names, server)
        return server

    def _identification(self) -> list[Step]:
        """Return the step that asks who calls; none where everybody may call everything."""
        transport = self._transport
        if transport.tokens_file is None:
            for address in filter(None, (self._address, transport.process_listen)):
                if not is_loopback(address) and not transport.insecure_plaintext:
                    raise InsecureTransport(_UNGUARDED.format(address=address))
            return []
        guard = Access(self._rules, TokenFile(transport.tokens_file))
        listening = (
            address.rpartition(":")[0].strip("[]") for address in (self._address, transport.process_listen)
        )
        step = access.authorised(
            guard,
            certified=transport.tls_client_ca is not None,
            here=None if transport.insecure_plaintext else frozenset(listening),
            long_polls=self._mounted.long_polls,
        )
        return [step]

    def _bind(self, server: grpc.aio.Server) -> str:
        transport = self._transport
        if transport.process_listen:
            self.bound_for_processes = self._listen(server, transport.process_listen, certified=True)
            return self._listen(server, self._address, certified=False)
        return self._listen(server, self._address, certified=transport.tls_client_ca is not None)

    def _listen(self, server: grpc.aio.Server, address: str, *, certified: bool) -> str:
        credentials = server_credentials(address, self._transport, certified=certified)
        try:
            if credentials is None:
                port = server.add_insecure_port(address)
            else:
                port = server.add_secure_port(address, credentials)
        except RuntimeError as error:
            raise AddressInUse(
                f"can't listen on {address}: another process has the port, "
                "or the address isn't this machine's"
            ) from error
        host, colon, _ = address.rpartition(":")
        return address if address.startswith("unix:") else f"{host}{colon}{port}"
