"""The outbox's failures: those tried again and those that are for good, on a real server."""

import asyncio

import grpc
import pytest
from sqlalchemy import select, text, update

from libs.common.db import Database
from libs.common.outbox import OutboxRelay, Rejected
from libs.common.testing import eventually
from tests.integration.common.outbox.bed import (
    OUTBOX,
    Receiver,
    Refusals,
    enqueue_all,
    left,
    make_relay,
    rpc_error,
    sent_all,
)


@pytest.mark.parametrize(
    ("refusal", "reason"),
    [
        (rpc_error(grpc.StatusCode.INVALID_ARGUMENT, "too long"), "INVALID_ARGUMENT: too long"),
        (rpc_error(grpc.StatusCode.ALREADY_EXISTS, "other content"), "ALREADY_EXISTS: other content"),
        (rpc_error(grpc.StatusCode.FAILED_PRECONDITION), "FAILED_PRECONDITION: because"),
        (Rejected("NO_USE: never"), "NO_USE: never"),
    ],
)
async def test_a_refusal_for_good_is_reported_kept_as_dead_and_lets_the_next_row_go(
    database: Database,
    relay: OutboxRelay,
    receiver: Receiver,
    refusals: Refusals,
    refusal: Exception,
    reason: str,
) -> None:
    receiver.failing["a1"] = refusal
    await enqueue_all(database, "a1", "a2")
    await relay.start()
    await eventually(lambda: "a2" in receiver.calls)
    assert receiver.calls == ["a1", "a2"]
    assert refusals.seen == [("a", "call", b"a1", reason)]

    async def only_the_dead_one_is_left() -> bool:
        return await left(database) == ["a1"]

    await eventually(only_the_dead_one_is_left)
    async with database.begin() as session:
        row = (await session.execute(select(OUTBOX))).one()
    assert (row.body, row.last_error, row.dead_at is not None) == (b"a1", reason, True)


async def test_a_refusal_that_cannot_be_recorded_is_tried_again(
    database: Database, relay: OutboxRelay, receiver: Receiver, refusals: Refusals
) -> None:
    refusals.failures = 2
    receiver.failing["a1"] = Rejected("NO_USE: never")
    await enqueue_all(database, "a1")
    await relay.start()
    await eventually(lambda: len(refusals.seen) == 1)
    assert receiver.calls == ["a1"] * 3


@pytest.mark.parametrize(
    "failure",
    [
        rpc_error(grpc.StatusCode.UNAVAILABLE),
        rpc_error(grpc.StatusCode.DEADLINE_EXCEEDED),
        rpc_error(grpc.StatusCode.INTERNAL),
        rpc_error(grpc.StatusCode.RESOURCE_EXHAUSTED),
        rpc_error(grpc.StatusCode.UNAUTHENTICATED),
        ConnectionResetError("broken"),
        RuntimeError("a NUL \x00 in the text"),
        asyncio.CancelledError("the channel was closed"),
    ],
)
async def test_any_other_failure_is_tried_again_until_it_works(
    database: Database, relay: OutboxRelay, receiver: Receiver, refusals: Refusals, failure: Exception
) -> None:
    receiver.failing["a1"] = failure
    await enqueue_all(database, "a1")
    await relay.start()
    await eventually(lambda: len(receiver.calls) >= 2)
    async with database.begin() as session:
        row = (await session.execute(select(OUTBOX))).one()
    assert row.attempts >= 1
    assert row.dead_at is None
    receiver.failing.clear()
    await eventually(lambda: sent_all(database))
    assert refusals.seen == []


async def test_the_wait_between_tries_of_a_row_grows(
    database: Database, receiver: Receiver, refusals: Refusals
) -> None:
    relay = make_relay(database, receiver, refusals, longest_backoff_seconds=1000)
    receiver.failing["a1"] = rpc_error(grpc.StatusCode.INTERNAL)
    await enqueue_all(database, "a1")
    for attempts in range(1, 9):
        async with database.begin() as session:  # as if the wait were over
            await session.execute(update(OUTBOX).values(next_attempt_at=text("now()")))
        await relay.relay()

        async def noted(tries: int = attempts) -> bool:
            async with database.begin() as session:
                row = (await session.execute(select(OUTBOX.c.attempts, OUTBOX.c.locked_until))).one()
            return row.attempts == tries and row.locked_until is None

        await eventually(noted)
        async with database.begin() as session:
            wait = await session.scalar(text("SELECT next_attempt_at - now() FROM shop.outbox"))
        most = 0.25 * 2 ** (attempts - 1)
        assert most / 2 - 0.5 <= wait.total_seconds() <= most
    await relay.stop()
