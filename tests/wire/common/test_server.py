"""How a server starts, what it tells about itself, and in which order it stops."""

import asyncio
import gc
import json
import sys
from pathlib import Path

import grpc
import pytest
from frontrow.worker import dial
from grpc._cython import cygrpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

from libs.common import client, context_server
from libs.common import health as health_module
from libs.common.client import connect, reading
from libs.common.server import AddressInUse, Stopping
from libs.common.testing import eventually
from tests.wire.common.probe import SERVICE, Part, Probe, Request, Response, failure, stub_on

Serving = health_pb2.HealthCheckResponse


class Recorded:
    """A loop that writes down when it starts and stops."""

    def __init__(self, events: list[str], name: str = "loop") -> None:
        self.events, self.name = events, name

    async def start(self) -> None:
        self.events.append(f"{self.name} started")

    async def stop(self) -> None:
        self.events.append(f"{self.name} stopped")


async def check(channel: grpc.aio.Channel, service: str) -> int:
    """Ask for the health of a service."""
    stub = health_pb2_grpc.HealthStub(channel)
    return (await stub.Check(health_pb2.HealthCheckRequest(service=service), timeout=5)).status


async def test_a_second_server_on_the_port_is_told_so():
    async with Probe().serving() as stub:
        second = Probe()
        with pytest.raises(AddressInUse, match="another process has the port"):
            await second.server(stub.address).start()
        assert second.events == ["closed"]
        assert (await stub.Ask(Request(text="still"), timeout=5)).text == "still"


async def test_health_is_told_for_the_server_and_for_each_service():
    async with Probe().serving() as stub:
        assert await check(stub.channel, "") == Serving.SERVING
        assert await check(stub.channel, SERVICE) == Serving.SERVING
        error = await failure(check(stub.channel, "nobody.v1.Nothing"))
        assert error.code() is grpc.StatusCode.NOT_FOUND


async def test_health_watch_tells_each_change_and_ends_when_the_server_stops():
    async with Probe().serving() as stub:
        watcher = health_pb2_grpc.HealthStub(stub.channel)
        told = []
        async with reading(watcher.Watch(health_pb2.HealthCheckRequest(service=SERVICE))) as answers:
            told.append((await anext(answers)).status)
            stub.server.health.set_serving(False, SERVICE)
            told.append((await anext(answers)).status)
            stub.server.health.set_serving(True)
            told.append((await anext(answers)).status)
            await asyncio.wait_for(stub.server.stop(grace_seconds=30), 5)
            told += [answer.status async for answer in answers]
    assert told == [Serving.SERVING, Serving.NOT_SERVING, Serving.SERVING, Serving.NOT_SERVING]


async def test_watches_of_health_which_anybody_may_open_take_no_places_of_streams(monkeypatch):
    monkeypatch.setattr(health_module, "MOST_WATCHES", 3)

    async def part(_request, _context):
        yield Part()

    async with Probe(watch=part).serving(max_concurrent_rpcs=5) as stub:
        watch = health_pb2_grpc.HealthStub(stub.channel).Watch
        watches = [watch(health_pb2.HealthCheckRequest()) for _ in range(9)]
        told = [await asyncio.gather(one.read(), return_exceptions=True) for one in watches]
        refused = [one for (one,) in told if isinstance(one, grpc.aio.AioRpcError)]
        assert [one.code() for one in refused] == [grpc.StatusCode.RESOURCE_EXHAUSTED] * 6
        assert len([one async for one in stub.Watch(Request(), timeout=5)]) == 1
        for one in watches:
            one.cancel()

        async def has_room() -> bool:
            async with reading(watch(health_pb2.HealthCheckRequest())) as answers:
                try:
                    return (await anext(answers)).status == Serving.SERVING
                except grpc.aio.AioRpcError:
                    return False

        await eventually(has_room)


async def test_what_a_mount_says_of_its_health_before_the_start_holds_after_it():
    probe = Probe()
    probe.health.set_serving(False)
    async with probe.serving() as stub:
        assert await check(stub.channel, "") == Serving.NOT_SERVING
        assert await check(stub.channel, SERVICE) == Serving.SERVING
        probe.health.set_serving(True)
        assert await check(stub.channel, "") == Serving.SERVING


async def test_nothing_is_serving_before_the_loops_run():
    said = []

    class Asking(Recorded):
        async def start(self) -> None:
            async with grpc.aio.insecure_channel(server.bound) as channel:
                said.append(await check(channel, SERVICE))

    server = Probe(loops=[Asking([])]).server()
    await server.start()
    await server.stop()
    assert said == [Serving.NOT_SERVING]


async def test_health_lists_every_service_with_its_status():
    async with Probe().serving() as stub:
        stub.server.health.set_serving(False, SERVICE)
        listed = await health_pb2_grpc.HealthStub(stub.channel).List(
            health_pb2.HealthListRequest(), timeout=5
        )
        statuses = {name: answer.status for name, answer in listed.statuses.items()}
    assert statuses == {"": Serving.SERVING, SERVICE: Serving.NOT_SERVING}


async def test_health_watch_of_an_unknown_service_says_so_and_stays():
    async with Probe().serving() as stub:
        watcher = health_pb2_grpc.HealthStub(stub.channel)
        async with reading(watcher.Watch(health_pb2.HealthCheckRequest(service="x"))) as answers:
            assert (await anext(answers)).status == Serving.SERVICE_UNKNOWN


def test_clients_ping_no_more_often_than_servers_allow():
    client_ms = dict(client.OPTIONS)["grpc.keepalive_time_ms"]
    assert client_ms == 60_000
    assert dict(context_server.OPTIONS)["grpc.http2.min_ping_interval_without_data_ms"] < client_ms


def test_every_channel_option_is_one_that_grpc_knows():
    """An option that gRPC doesn't know is ignored in silence, and the default holds instead."""
    binary = Path(cygrpc.__file__).read_bytes()
    for name, _ in (*client.OPTIONS, *context_server.OPTIONS, *dial.OPTIONS):
        assert name.encode() in binary, name


async def test_everything_stops_in_order():
    events: list[str] = []
    stopping = Stopping()

    async def ask(_request, _context):
        await stopping.wait()
        events.append(f"handler told, loops {'on' if 'loop stopped' not in events else 'off'}")
        return Response(text="finished")

    def on_stopping() -> None:
        events.append("stopping")
        stopping.set()

    probe = Probe(ask=ask, on_stopping=on_stopping, loops=[Recorded(events)], events=events)
    server = probe.server()
    channel = connect(await server.start())
    call = stub_on(channel).Ask(Request(), timeout=20)
    await eventually(lambda: server.in_flight.methods)
    await asyncio.wait_for(server.stop(grace_seconds=30), 5)
    assert (await call).text == "finished"
    assert events == ["loop started", "stopping", "handler told, loops on", "loop stopped", "closed"]
    await channel.close()


async def test_handlers_that_outlast_the_grace_are_cancelled_and_awaited_before_close():
    events: list[str] = []

    async def ask(_request, _context):
        try:
            await asyncio.Event().wait()
        finally:
            for _ in range(20):
                await asyncio.sleep(0.01)
            events.append("session closed")

    server = Probe(ask=ask, events=events).server()
    channel = connect(await server.start())
    call = stub_on(channel).Ask(Request(), timeout=20)
    await eventually(lambda: server.in_flight.methods)
    await server.stop(grace_seconds=0.1)
    assert events == ["session closed", "closed"]
    with pytest.raises((grpc.aio.AioRpcError, asyncio.CancelledError)):
        await call
    await channel.close()


async def test_what_runs_after_the_answer_of_a_failed_call_is_awaited_too():
    """`abort` answers the client; the handler's frame may still have work to do when the stop begins."""
    events: list[str] = []
    release = asyncio.Event()

    async def watch(_request, _context):
        try:
            yield Response(text="one")
        finally:
            await release.wait()
            events.append("cleaned up")

    server = Probe(watch=watch, events=events).server()
    channel = connect(await server.start())
    call = stub_on(channel).Watch(Request())
    assert (await call.read()).text == "one"
    call.cancel()
    stop = asyncio.create_task(server.stop(grace_seconds=0))
    await eventually(lambda: server.in_flight.methods)
    assert "closed" not in events
    release.set()
    await stop
    assert events == ["cleaned up", "closed"]
    await channel.close()


async def test_a_loop_that_fails_to_start_undoes_the_start():
    events: list[str] = []

    class Broken(Recorded):
        async def start(self) -> None:
            raise RuntimeError("no table")

    server = Probe(loops=[Recorded(events), Broken(events, "broken")], events=events).server()
    with pytest.raises(RuntimeError, match="no table"):
        await server.start()
    assert events == ["loop started", "broken stopped", "loop stopped", "closed"]


async def test_a_loop_that_fails_to_stop_does_not_keep_the_rest_from_closing():
    events: list[str] = []

    class Broken(Recorded):
        async def stop(self) -> None:
            raise RuntimeError("stuck")

    server = Probe(loops=[Recorded(events), Broken(events)], events=events).server()
    await server.start()
    await server.stop()
    await server.stop()
    assert events == ["loop started", "loop started", "loop stopped", "closed"]


async def test_a_server_nobody_refers_to_goes_on_serving():
    address = await Probe().server().start()
    gc.collect()
    channel = connect(address)
    assert (await stub_on(channel).Ask(Request(text="here"), timeout=5)).text == "here"
    await channel.close()
    (server,) = [server for server in context_server._running if server.bound == address]
    await server.stop(grace_seconds=0)


async def buf_curl(*arguments: str) -> str:
    """Run `buf curl` over plaintext HTTP/2 and return what it prints."""
    buf = Path(sys.executable).parent / "buf"
    command = [str(buf), "curl", "--protocol", "grpc", "--http2-prior-knowledge", *arguments]
    process = await asyncio.create_subprocess_exec(
        *command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    output, _ = await asyncio.wait_for(process.communicate(), 30)
    return output.decode()


async def test_buf_curl_lists_and_calls_by_reflection():
    async with Probe().serving() as stub:
        url = f"http://{stub.address}"
        listed = await buf_curl("--list-methods", url)
        answer = await buf_curl("--data", '{"text": "你好"}', f"{url}/{SERVICE}/Ask")
        refused = await buf_curl("--data", '{"text": "far too long for it"}', f"{url}/{SERVICE}/Ask")
    assert {f"{SERVICE}/Ask", f"{SERVICE}/Watch", "grpc.health.v1.Health/Check"} <= set(listed.split())
    assert json.loads(answer) == {"text": "你好"}
    assert "invalid_argument" in refused
