"""Rows of one kind that are due together share a call, on a real server."""

import asyncio
from collections.abc import AsyncIterator

import grpc
import pytest
from opentelemetry.sdk.trace import TracerProvider
from sqlalchemy import select

from libs.common.db import Database
from libs.common.outbox import MOST_TOGETHER, OutboxRelay
from libs.common.testing import eventually
from libs.common.tracing import present_trace
from tests.integration.common.outbox.bed import (
    OUTBOX,
    Receiver,
    Refusals,
    SharedReceiver,
    enqueue_all,
    left,
    rpc_error,
    sent_all,
)


@pytest.fixture
def shared() -> SharedReceiver:
    return SharedReceiver()


@pytest.fixture
async def relay(
    database: Database, receiver: Receiver, shared: SharedReceiver, refusals: Refusals
) -> AsyncIterator[OutboxRelay]:
    made = OutboxRelay(
        database, OUTBOX, {"call": receiver, "other": receiver}, together={"call": shared},
        on_rejected=refusals, interval_seconds=0.05, longest_backoff_seconds=0.05, batch=3 * MOST_TOGETHER,
    )  # fmt: skip
    yield made
    await made.stop()


async def test_several_share_a_call_and_one_alone_has_its_own(
    database: Database, relay: OutboxRelay, receiver: Receiver, shared: SharedReceiver
) -> None:
    await enqueue_all(database, "a1", "a2", "b1", "c1")
    await relay.start()
    await eventually(lambda: sent_all(database))
    assert shared.calls == [["a1", "b1", "c1"]]
    assert receiver.calls == ["a2"]


async def test_each_part_of_a_shared_call_has_its_own_trace(
    database: Database, relay: OutboxRelay, shared: SharedReceiver
) -> None:
    tracer = TracerProvider().get_tracer("test")
    with tracer.start_as_current_span("one"):
        one = present_trace()
        await enqueue_all(database, "a1")
    with tracer.start_as_current_span("other"):
        other = present_trace()
        await enqueue_all(database, "b1")
    await enqueue_all(database, "c1")
    await relay.start()
    await eventually(lambda: sent_all(database))
    assert shared.traces == [one, other, ""]


async def test_no_call_is_larger_than_what_one_may_carry_and_kinds_stay_apart(
    database: Database, relay: OutboxRelay, receiver: Receiver, shared: SharedReceiver
) -> None:
    subjects = [chr(0x4E00 + number) for number in range(MOST_TOGETHER + 20)]
    await enqueue_all(database, *subjects)
    await enqueue_all(database, "x1", "y1", kind="other")
    await relay.start()
    await eventually(lambda: sent_all(database))
    assert shared.calls == [subjects[:MOST_TOGETHER], subjects[MOST_TOGETHER:]]
    assert receiver.calls == ["x1", "y1"]


async def test_what_is_refused_for_good_costs_those_that_came_with_it_nothing(
    database: Database, relay: OutboxRelay, receiver: Receiver, shared: SharedReceiver, refusals: Refusals
) -> None:
    refusal = rpc_error(grpc.StatusCode.INVALID_ARGUMENT, "too long")
    shared.failing["b1"] = receiver.failing["b1"] = refusal
    await enqueue_all(database, "a1", "b1", "c1")
    await relay.start()

    async def only_the_dead_one_is_left() -> bool:
        async with database.begin() as session:
            rows = (await session.execute(select(OUTBOX))).all()
        return [(row.subject, row.attempts, row.dead_at is not None) for row in rows] == [("b", 1, True)]

    # Those that were sent are forgotten in a transaction of their own, before or after it.
    await eventually(only_the_dead_one_is_left)
    assert shared.calls == [["a1", "b1", "c1"]]
    assert sorted(receiver.calls) == ["a1", "b1", "c1"]
    await eventually(lambda: refusals.seen == [("b", "call", b"b1", "INVALID_ARGUMENT: too long")])


@pytest.mark.parametrize(
    "failure",
    [
        rpc_error(grpc.StatusCode.UNAVAILABLE),
        rpc_error(grpc.StatusCode.INTERNAL),
        rpc_error(grpc.StatusCode.UNIMPLEMENTED),
        asyncio.CancelledError("the channel was closed"),
    ],
)
async def test_after_any_other_failure_each_is_tried_again_by_itself(
    database: Database, relay: OutboxRelay, receiver: Receiver, shared: SharedReceiver, failure: Exception
) -> None:
    shared.failing["b1"] = failure
    receiver.failing["b1"] = rpc_error(grpc.StatusCode.INTERNAL)
    await enqueue_all(database, "a1", "b1", "c1")
    await relay.start()
    await eventually(lambda: receiver.calls.count("b1") > 1)

    async def the_others_are_sent() -> bool:
        return await left(database) == ["b1"]

    await eventually(the_others_are_sent)
    assert shared.calls == [["a1", "b1", "c1"]]
    receiver.failing.clear()
    await eventually(lambda: sent_all(database))


async def test_a_shared_call_that_hangs_holds_up_its_own_subjects_alone(
    database: Database, relay: OutboxRelay, shared: SharedReceiver
) -> None:
    shared.held["a1"] = asyncio.Event()
    await enqueue_all(database, "a1", "b1", "a2", "b2")
    await relay.start()
    await eventually(lambda: shared.calls == [["a1", "b1"]])
    await enqueue_all(database, "c1", "d1")
    await eventually(lambda: shared.calls[1:] == [["c1", "d1"]])
    shared.held["a1"].set()
    await eventually(lambda: sent_all(database))
    assert shared.calls[2:] == [["a2", "b2"]]


async def test_stopping_gives_all_rows_of_a_cut_call_back_at_once(
    database: Database, relay: OutboxRelay, shared: SharedReceiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("libs.common.outbox._GRACE_SECONDS", 0.05)
    shared.held["a1"] = asyncio.Event()
    await enqueue_all(database, "a1", "b1")
    await relay.start()
    await eventually(lambda: shared.calls == [["a1", "b1"]])
    await relay.stop()
    async with database.begin() as session:
        rows = (await session.execute(select(OUTBOX.c.locked_until, OUTBOX.c.attempts))).all()
    assert [tuple(row) for row in rows] == [(None, 1)] * 2
