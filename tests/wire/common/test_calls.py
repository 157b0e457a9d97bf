"""Limits on calls: deadlines, sizes, concurrency; and streams that end when their reader leaves."""

import asyncio

import grpc
import pytest

from libs.common import deadline
from libs.common.client import connect, reading
from libs.common.testing import eventually
from tests.wire.common.probe import ASK, Probe, Request, Response, failure, stub_on

# Limits are told apart by hours: no machine is so slow.
HOUR = 3600.0


async def remaining(_request, _context):
    """Answer how many hours the handler believes it has left."""
    left = deadline.remaining_seconds()
    return Response(text="None" if left is None else f"{left / HOUR:.1f}")


async def test_a_handler_knows_the_clients_deadline():
    async with Probe(ask=remaining).serving() as stub:
        assert (await stub.Ask(Request(), timeout=5 * HOUR)).text == "5.0"


async def test_a_call_without_a_deadline_is_capped_on_both_sides(monkeypatch):
    assert deadline.DEFAULT_CAP_SECONDS == 30
    monkeypatch.setattr(deadline, "DEFAULT_CAP_SECONDS", 2 * HOUR)  # the client's
    async with Probe(ask=remaining).serving(cap_seconds=3 * HOUR) as stub:
        assert (await stub.Ask(Request())).text == "2.0"
        async with grpc.aio.insecure_channel(stub.address) as bare:
            assert (await stub_on(bare).Ask(Request())).text == "3.0"


async def test_a_handler_over_the_cap_is_ended_with_deadline_exceeded():
    ended = asyncio.Event()

    async def ask(_request, _context):
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    server = Probe(ask=ask).serving(cap_seconds=0.2)
    async with server as stub, grpc.aio.insecure_channel(stub.address) as bare:
        error = await failure(stub_on(bare).Ask(Request()))
        assert error.code() is grpc.StatusCode.DEADLINE_EXCEEDED
        assert ended.is_set()


async def test_streams_and_named_long_polls_have_no_cap():
    async def watch(_request, _context):
        yield await remaining(None, None)

    probe = Probe(ask=remaining, watch=watch, long_polls=(ASK,))
    async with probe.serving(cap_seconds=0.2) as stub, grpc.aio.insecure_channel(stub.address) as bare:
        assert (await stub_on(bare).Ask(Request())).text == "None"
        assert [answer.text async for answer in stub_on(bare).Watch(Request())] == ["None"]
        assert [answer.text async for answer in stub.Watch(Request())] == ["None"]


@pytest.fixture
def margin(monkeypatch):
    """Let nested calls end an hour before their callers, and nothing else limit them."""
    monkeypatch.setattr(deadline, "NESTED_MARGIN_SECONDS", HOUR)
    monkeypatch.setattr(deadline, "DEFAULT_CAP_SECONDS", 24 * HOUR)


@pytest.mark.usefixtures("margin")
async def test_a_nested_call_ends_before_its_caller():
    async with Probe(ask=remaining).serving() as inner:

        async def forward(request, _context):
            return await inner.Ask(request)

        async with Probe(ask=forward).serving() as stub:
            assert (await stub.Ask(Request(), timeout=3 * HOUR)).text == "2.0"


@pytest.mark.usefixtures("margin")
async def test_a_nested_calls_own_timeout_is_kept_when_it_is_shorter():
    async with Probe(ask=remaining).serving() as inner:

        async def forward(request, _context):
            return await inner.Ask(request, timeout=HOUR)

        async with Probe(ask=forward).serving() as stub:
            assert (await stub.Ask(Request(), timeout=5 * HOUR)).text == "1.0"


@pytest.mark.usefixtures("margin")
async def test_nested_streams_are_limited_too():
    async def watch(_request, _context):
        yield await remaining(None, None)

    async with Probe(watch=watch).serving() as inner:

        async def forward(request, _context):
            async with reading(inner.Watch(request)) as answers:
                return await anext(answers)

        async with Probe(ask=forward).serving() as stub:
            assert (await stub.Ask(Request(), timeout=3 * HOUR)).text == "2.0"


@pytest.mark.usefixtures("margin")
async def test_a_slow_nested_call_is_answered_by_its_caller_and_not_cut():
    async def never(_request, _context):
        await asyncio.Event().wait()

    async with Probe(ask=never).serving() as inner:

        async def forward(request, _context):
            with pytest.raises(grpc.aio.AioRpcError):
                await inner.Ask(request)
            return Response(text="partial")

        async with Probe(ask=forward).serving() as stub:
            assert (await stub.Ask(Request(), timeout=HOUR + 0.2)).text == "partial"


def _endless():
    """Return a handler that goes on until it is cancelled, and the events of its start and its end."""
    started, ended = asyncio.Event(), asyncio.Event()

    async def ask(_request, _context):
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    return ask, started, ended


async def test_the_handler_is_cancelled_when_the_client_gives_up_or_goes_away():
    ask, started, ended = _endless()
    async with Probe(ask=ask).serving() as stub:
        call = stub.Ask(Request(), timeout=HOUR)
        await started.wait()
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        await ended.wait()


async def _awaited(call):
    return await call


async def test_cancelling_the_task_that_awaits_a_call_cancels_the_call():
    ask, started, ended = _endless()
    async with Probe(ask=ask).serving() as stub:
        asking = asyncio.create_task(_awaited(stub.Ask(Request(), timeout=HOUR)))
        await started.wait()
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        await ended.wait()


async def test_reading_ends_the_call_when_its_reader_breaks_off():
    ended = asyncio.Event()

    async def watch(_request, _context):
        try:
            while True:
                yield Response(text="again")
                await asyncio.sleep(0.01)
        finally:
            ended.set()

    async with Probe(watch=watch).serving() as stub:
        async with reading(stub.Watch(Request())) as answers:
            async for answer in answers:
                assert answer.text == "again"
                break
        await ended.wait()


async def test_a_stream_handler_is_closed_before_its_call_counts_as_over():
    """A client that leaves while the server is blocked in a write: gRPC itself would drop the generator."""
    events = []

    async def watch(_request, _context):
        try:
            while True:
                yield Response(text="x" * 100_000)
        finally:
            for _ in range(20):
                await asyncio.sleep(0.01)
            events.append("released")

    probe = Probe(watch=watch, events=events)
    async with probe.serving() as stub:
        call = stub.Watch(Request())
        assert await call.read()
        await eventually(lambda: stub.server.in_flight.methods)
    assert events == ["released", "closed"]


async def test_handlers_written_with_context_write_work_too():
    async def watch(request, context):
        await context.write(Response(text=request.text))
        await context.write(Response(text="2"))

    async with Probe(watch=watch).serving() as stub:
        assert [answer.text async for answer in stub.Watch(Request(text="1"))] == ["1", "2"]


async def test_both_directions_can_be_streams():
    async with Probe().serving() as stub:
        call = stub.Chat(timeout=5)
        for text in ("a", "b"):
            await call.write(Request(text=text))
            assert (await call.read()).text == text
        await call.done_writing()
        assert await call.read() == grpc.aio.EOF
        assert await call.code() is grpc.StatusCode.OK


async def test_a_client_stream_can_be_written_by_hand():
    async def upload(requests, _context):
        return Response(text="".join([request.text async for request in requests]))

    async with Probe(upload=upload).serving() as stub:
        call = stub.Upload(timeout=5)
        await call.write(Request(text="a"))
        await call.write(Request(text="b"))
        await call.done_writing()
        assert (await call).text == "ab"


async def test_messages_over_four_mebibytes_are_refused_and_those_below_pass():
    async def ask(request, _context):
        return Response(text=str(len(request.blob)))

    async with Probe(ask=ask).serving() as stub:
        almost = 4 * 1024 * 1024 - 100
        assert (await stub.Ask(Request(blob=bytes(almost)), timeout=10)).text == str(almost)
        error = await failure(stub.Ask(Request(blob=bytes(almost + 200)), timeout=10))
    assert error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED


async def test_calls_beyond_the_limit_are_refused_at_once():
    release = asyncio.Event()

    async def ask(_request, _context):
        await release.wait()
        return Response(text="done")

    async with Probe(ask=ask).serving(max_concurrent_rpcs=2) as stub:
        calls = [asyncio.create_task(_awaited(stub.Ask(Request(), timeout=HOUR))) for _ in range(2)]
        await eventually(lambda: len(stub.server.in_flight.methods) == 2)
        error = await failure(stub.Ask(Request(), timeout=HOUR))
        assert error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        release.set()
        assert [answer.text for answer in await asyncio.gather(*calls)] == ["done", "done"]


async def test_only_the_methods_named_idempotent_are_repeated():
    tries = {"Ask": 0}

    async def flaky(_request, context):
        tries["Ask"] += 1
        if tries["Ask"] % 3:
            await context.abort(grpc.StatusCode.UNAVAILABLE, "not now")
        return Response(text="third")

    async with Probe(ask=flaky).serving() as stub:
        channel = connect(stub.address, idempotent=["probe.v1.Probe/Ask"])
        assert (await stub_on(channel).Ask(Request(), timeout=10)).text == "third"
        assert tries["Ask"] == 3
        await channel.close()
        assert (await failure(stub.Ask(Request(), timeout=10))).code() is grpc.StatusCode.UNAVAILABLE
        assert tries["Ask"] == 4


async def test_a_client_that_stops_in_the_middle_of_a_stream_is_told_so():
    ended = asyncio.Event()

    async def upload(requests, _context):
        try:
            return Response(text="".join([request.text async for request in requests]))
        finally:
            ended.set()

    async with Probe(upload=upload).serving(silence_seconds=0.2) as stub:
        call = stub.Upload(timeout=20)
        await call.write(Request(text="a"))
        error = await failure(call)
        assert error.code() is grpc.StatusCode.DEADLINE_EXCEEDED
        assert "no message came" in (error.details() or "")
        assert ended.is_set()
