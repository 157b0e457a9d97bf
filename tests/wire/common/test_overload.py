"""A server under twice the load it can bear: quick refusals, bounded waits, nothing urgent lost."""

from __future__ import annotations

import asyncio
import statistics
import sys
import time
from contextlib import asynccontextmanager

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from libs.common.client import connect, error_info
from libs.common.interceptors import errors
from libs.common.interceptors.admission import ALWAYS_IN
from libs.common.interceptors.sojourn import CALM_SECONDS, LONG_SECONDS
from libs.common.testing import eventually
from tests.wire.common.busy_process import WORK_SECONDS
from tests.wire.common.callers import Seen, offer
from tests.wire.common.probe import ASK, Probe, Request, Response, failure, stub_on
from tests.wire.common.test_process import logged_event

A_SECOND = 250.0
AT_ONCE = 5


def busy_probe() -> Probe:
    """Return a probe that does `A_SECOND` calls in a second and no more; urgent ones at once."""
    free = asyncio.Semaphore(AT_ONCE)

    async def ask(request, _context):
        if request.text != "urgent":
            async with free:
                await asyncio.sleep(AT_ONCE / A_SECOND)
        return Response(text="done")

    return Probe(ask=ask, urgent={ASK: lambda request: request.text == "urgent"})


async def test_twice_the_load_is_shed_quickly_and_what_is_let_in_is_served_in_good_time():
    work, urgent, health = Seen(), Seen(), []

    async with busy_probe().serving() as stub:
        check = health_pb2_grpc.HealthStub(stub.channel).Check

        async def beat() -> None:
            while len(health) < 15:
                await check(health_pb2.HealthCheckRequest(), timeout=5)
                health.append(await urgent.call(stub, text="urgent"))
                await asyncio.sleep(0.2)

        began = time.monotonic()
        await asyncio.gather(offer(stub, work, a_second=2 * A_SECOND, seconds=3), beat())
        done_a_second = min(A_SECOND, len(work.answered) / (time.monotonic() - began))
        assert not work.others
        assert work.hints == {("SERVER_BUSY", 1.0)}
        assert len(work.refused) >= 0.2 * 2 * A_SECOND * 3, "half of the load is too much"
        assert len(work.answered) >= 0.6 * A_SECOND * 3, "what can be done is done"
        assert statistics.median(work.refused) < 0.3 * statistics.median(work.answered)
        assert max(work.answered) < 6 * ALWAYS_IN / done_a_second
        assert (len(urgent.answered), urgent.refused) == (15, []), "beats are never shed"

        after = Seen()
        await offer(stub, after, a_second=A_SECOND / 3, seconds=1)
        assert not after.refused


@asynccontextmanager
async def busy_server():
    """Run the probe that keeps its processor busy in a process of its own; yield a stub of it."""
    started = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.wire.common.busy_process"),
        stderr=asyncio.subprocess.PIPE,
        env={"PYTHONPATH": ".:libs/client", "PATH": "/usr/bin:/bin"},
    )
    try:
        address = (await logged_event(started, "server.started"))["address"]
        channel = connect(address)
        logs = asyncio.create_task(started.stderr.read())
        yield stub_on(channel)
        await channel.close()
        logs.cancel()
    finally:
        started.kill()
        await started.wait()


async def test_a_server_whose_processor_is_what_is_short_refuses_by_itself_and_grpc_drops_nothing():
    work, urgent, after = Seen(), Seen(), Seen()
    async with busy_server() as stub:

        async def beat() -> None:
            for _ in range(20):
                await urgent.call(stub, text="urgent")
                await asyncio.sleep(0.2)

        await asyncio.gather(offer(stub, work, a_second=2 / WORK_SECONDS, seconds=4), beat())
        await asyncio.sleep(CALM_SECONDS)
        await offer(stub, after, a_second=0.2 / WORK_SECONDS, seconds=1)
    assert work.others == []
    assert work.hints == {("SERVER_BUSY", 1.0)}
    assert work.answered
    assert (len(urgent.answered), urgent.refused) == (20, [])
    assert not after.refused


async def test_calls_that_waited_for_their_server_to_start_are_all_served():
    async def ask(_request, _context):
        until = time.thread_time() + WORK_SECONDS
        while time.thread_time() < until:
            pass
        return Response(text="done")

    before = Probe().server()
    address = await before.start()
    await before.stop(grace_seconds=0)
    async with connect(address) as channel:
        stub = stub_on(channel)
        calls = [stub.Ask(Request(text="early"), timeout=30, wait_for_ready=True) for _ in range(200)]
        waiting = asyncio.gather(*calls)
        await asyncio.wait({waiting}, timeout=2 * LONG_SECONDS)
        server = Probe(ask=ask).server(address)
        await server.start()
        try:
            assert {answer.text for answer in await waiting} == {"done"}
        finally:
            await server.stop(grace_seconds=0)


async def test_what_waits_and_what_works_never_take_each_others_places():
    release = asyncio.Event()

    async def wait(_request, _context):
        await release.wait()
        yield Response(text="late")

    async with Probe(watch=wait).serving(max_concurrent_rpcs=3) as stub:
        watches = [stub.Watch(Request(), timeout=20) for _ in range(3)]
        reads = [asyncio.ensure_future(watch.read()) for watch in watches]
        await eventually(lambda: len(stub.server.in_flight.methods) == 3)
        assert (await stub.Ask(Request(text="still"), timeout=5)).text == "still"
        error = await failure(stub.Watch(Request(), timeout=5).read())
        assert (error.code(), error_info(error).reason) == (grpc.StatusCode.RESOURCE_EXHAUSTED, "SERVER_BUSY")
        release.set()
        assert [answer.text for answer in await asyncio.gather(*reads)] == ["late"] * 3


async def test_a_refused_call_gives_back_no_place_that_it_never_had():
    release = asyncio.Event()

    async def ask(_request, _context):
        await release.wait()
        return Response(text="done")

    async with Probe(ask=ask).serving(max_concurrent_rpcs=2) as stub:
        calls = [asyncio.ensure_future(stub.Ask(Request(), timeout=20)) for _ in range(2)]
        await eventually(lambda: len(stub.server.in_flight.methods) == 2)
        for _ in range(5):
            with pytest.raises(grpc.aio.AioRpcError, match="in good time"):
                await stub.Ask(Request(), timeout=5)
        release.set()
        await asyncio.gather(*calls)
        assert (await stub.Ask(Request(), timeout=5)).text == "done"


async def test_a_client_that_reads_nothing_of_its_stream_keeps_its_place_for_a_while_only(monkeypatch):
    monkeypatch.setattr(errors, "TELL_SECONDS", 1.0)

    async def watch(_request, _context):
        for _ in range(50):
            yield Response(text="x" * 200_000)  # more than gRPC holds back for a client

    async with Probe(watch=watch).serving(max_concurrent_rpcs=1, silence_seconds=0.5) as stub:
        unread = stub.Watch(Request(), timeout=60)
        await eventually(lambda: len(stub.server.in_flight.methods) == 1)
        error = await failure(stub.Watch(Request(), timeout=5).read())
        assert error_info(error).reason == "SERVER_BUSY"
        await eventually(lambda: not stub.server.in_flight.methods, 10)
        assert (await stub.Watch(Request(), timeout=5).read()).text.startswith("x")
        unread.cancel()


async def test_calls_that_never_send_anything_keep_others_out_only_until_their_connection_ends():
    async def ask(_request, _context):
        return Response(text="done")

    async with Probe(ask=ask).serving(max_concurrent_rpcs=2) as stub:
        most = stub.server._admission.most_calls
        stranger = connect(stub.address)
        # a unary method gets no word of a call whose message hasn't come
        begin = stranger.stream_unary(ASK, request_serializer=Request.SerializeToString)
        calls = [begin(timeout=60) for _ in range(most)]

        async def is_full() -> bool:
            call = stub.Ask(Request(), timeout=5)
            code = await call.code()
            assert code in {grpc.StatusCode.OK, grpc.StatusCode.CANCELLED, grpc.StatusCode.RESOURCE_EXHAUSTED}
            return code is not grpc.StatusCode.OK

        await eventually(is_full, 10)
        assert stub.server.in_flight.methods == []
        assert not any(call.done() for call in calls)
        await stranger.close()

        async def is_served() -> bool:
            return not await is_full()

        await eventually(is_served, 10)
