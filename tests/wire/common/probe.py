"""A tiny service whose behaviour each test gives: its stubs are compiled into a temporary folder."""

import sys
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc
import grpc_tools
import pytest
from grpc_tools import protoc

from libs.common.client import connect
from libs.common.context_server import ContextServer
from libs.common.health import Health
from libs.common.mounted import Mounted
from libs.common.telemetry import Telemetry

_ROOT = Path(__file__).resolve().parents[3]
SERVICE = "probe.v1.Probe"
ASK, WATCH = f"/{SERVICE}/Ask", f"/{SERVICE}/Watch"


def _compile() -> None:
    out = tempfile.mkdtemp(prefix="frontrow-probe-")
    well_known = Path(grpc_tools.__file__).parent / "_proto"
    includes = [f"-I{folder}" for folder in (Path(__file__).parent, _ROOT / "third_party/protos", well_known)]
    outputs = [f"--python_out={out}", f"--grpc_python_out={out}"]
    assert protoc.main(["protoc", *includes, *outputs, "probe.proto"]) == 0
    sys.path.insert(0, out)


_compile()

import probe_pb2  # noqa: E402
import probe_pb2_grpc  # noqa: E402

Request, Response, Part = probe_pb2.AskRequest, probe_pb2.AskResponse, probe_pb2.Part


async def _echo(request: Any, _context: Any) -> Any:
    return Response(text=request.text)


async def _echo_each(requests: Any, _context: Any) -> AsyncIterator[Any]:
    async for request in requests:
        yield Response(text=request.text)


@dataclass
class Probe:
    """A server in the making: set the behaviour, then enter `serving`."""

    ask: Callable[..., Any] = _echo
    watch: Callable[..., Any] = _echo
    upload: Callable[..., Any] = _echo
    chat: Callable[..., Any] = _echo_each
    on_stopping: Callable[[], None] = lambda: None
    loops: list[Any] = field(default_factory=list)
    long_polls: tuple[str, ...] = ()
    urgent: dict[str, Callable[[Any], bool]] = field(default_factory=dict)
    events: list[str] = field(default_factory=list)
    """What happened, in order; `closed` is added when the mount is closed."""
    health: Health = field(default_factory=Health)

    def mounted(self) -> Mounted:
        """Return what a context would: this servicer, and the loops and hooks of the test."""
        servicer = probe_pb2_grpc.ProbeServicer()
        servicer.Ask, servicer.Watch = self.ask, self.watch
        servicer.Upload, servicer.Chat = self.upload, self.chat

        async def close() -> None:
            self.events.append("closed")

        return Mounted(
            register=lambda server: probe_pb2_grpc.add_ProbeServicer_to_server(servicer, server),
            service_names=(SERVICE,),
            loops=self.loops,
            close=close,
            on_stopping=self.on_stopping,
            long_polls=self.long_polls,
            urgent=self.urgent,
            health=self.health,
        )

    def server(self, address: str = "127.0.0.1:0", **options: Any) -> ContextServer:
        """Return the server, not yet started."""
        return ContextServer("probe", address, self.mounted(), **options)

    @asynccontextmanager
    async def serving(self, *, client: Telemetry | None = None, **options: Any) -> AsyncIterator[Any]:
        """Serve, connect and yield a stub with `.server` and `.address`; stop at the end."""
        server = self.server(**options)
        address = await server.start()
        channel = connect(address, telemetry=client)
        stub = probe_pb2_grpc.ProbeStub(channel)
        stub.server, stub.address, stub.channel = server, address, channel
        try:
            yield stub
        finally:
            await channel.close()
            await server.stop(grace_seconds=1.0)


def stub_on(channel: grpc.aio.Channel) -> Any:
    """Return a stub on a channel of the test's own."""
    return probe_pb2_grpc.ProbeStub(channel)


async def failure(call) -> grpc.aio.AioRpcError:
    """Await a call that must fail and return its error."""
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call
    return caught.value
