"""A server under twice the load it can bear: quick refusals, bounded waits, nothing urgent lost."""

from __future__ import annotations

import asyncio
import statistics
import time
from dataclasses import dataclass, field

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from libs.common.client import connect, error_info
from libs.common.interceptors import errors
from libs.common.interceptors.admission import ALWAYS_IN
from libs.common.testing import eventually
from tests.wire.common.probe import ASK, Probe, Request, Response, failure

A_SECOND = 250.0
AT_ONCE = 5


@dataclass
class Seen:
    """What the callers saw: how long each answer and each refusal took, in seconds."""

    answered: list[float] = field(default_factory=list)
    refused: list[float] = field(default_factory=list)
    others: list[grpc.aio.AioRpcError] = field(default_factory=list)
    hints: set[tuple[str, float | None]] = field(default_factory=set)

    async def call(self, stub, **fields) -> None:
        """Make a call and note what came of it."""
        began = time.monotonic()
        try:
            await stub.Ask(Request(**fields), timeout=20)
        except grpc.aio.AioRpcError as error:
            if error.code() is not grpc.StatusCode.RESOURCE_EXHAUSTED:
                self.others.append(error)
            detail = error_info(error)
            self.hints.add((detail.reason, detail.retry_delay_seconds))
            self.refused.append(time.monotonic() - began)
        else:
            self.answered.append(time.monotonic() - began)


async def offer(stub, seen: Seen, *, a_second: float, seconds: float, **fields) -> None:
    """Call at an even pace, whatever becomes of the calls; return when all have ended."""
    calls = []
    began = time.monotonic()
    for number in range(round(a_second * seconds)):
        await asyncio.sleep(began + number / a_second - time.monotonic())
        calls.append(asyncio.create_task(seen.call(stub, **fields)))
    await asyncio.gather(*calls)


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
