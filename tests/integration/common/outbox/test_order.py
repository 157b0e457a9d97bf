"""The outbox's order, leases and crashes, on a real server."""

import asyncio
import contextlib
import signal
import sys
from pathlib import Path

import grpc
import pytest
from sqlalchemy import select, text

from libs.common.db import Database
from libs.common.outbox import OutboxRelay
from libs.common.outbox_table import enqueue
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
from tests.statements import statements

ROOT = Path(__file__).resolve().parents[4]


async def test_what_is_enqueued_is_sent_after_the_commit_and_deleted(
    database: Database, relay: OutboxRelay, receiver: Receiver
) -> None:
    await relay.start()
    async with database.begin() as session:
        await enqueue(session, OUTBOX, subject="a", kind="call", body=b"a1")
        await relay.relay()
        assert receiver.calls == []
    relay.wake()
    await eventually(lambda: sent_all(database))
    assert receiver.calls == ["a1"]


async def test_calls_that_were_made_are_forgotten_by_one_statement_whatever_their_number(
    database: Database, relay: OutboxRelay, receiver: Receiver
) -> None:
    with statements(database) as seen:
        for bodies in (["a1"], ["a2", "b2", "c2"], ["a3", "b3", "c3", "d3", "e3"]):
            receiver.held = {body: asyncio.Event() for body in bodies}
            await enqueue_all(database, *bodies)
            await relay.relay()
            await eventually(lambda wanted=bodies: set(wanted) <= set(receiver.calls))
            for gate in receiver.held.values():
                gate.set()
            await eventually(lambda: sent_all(database))
    assert len({statement for statement, _ in seen if statement.startswith("DELETE")}) == 1


async def test_a_rolled_back_transaction_sends_nothing(
    database: Database, relay: OutboxRelay, receiver: Receiver
) -> None:
    with contextlib.suppress(RuntimeError):
        async with database.begin() as session:
            await enqueue(session, OUTBOX, subject="a", kind="call", body=b"a1")
            raise RuntimeError("on purpose")
    await relay.relay()
    assert receiver.calls == []


async def test_a_wake_sends_long_before_the_interval(
    database: Database, receiver: Receiver, refusals: Refusals
) -> None:
    relay = make_relay(database, receiver, refusals, interval_seconds=3600)
    await relay.start()
    await enqueue_all(database, "a1", "a2", "b1")
    relay.wake()
    await eventually(lambda: sent_all(database))
    await relay.stop()


async def test_the_rows_of_a_subject_keep_their_order_when_one_fails(
    database: Database, relay: OutboxRelay, receiver: Receiver
) -> None:
    receiver.failing["a1"] = rpc_error(grpc.StatusCode.UNAVAILABLE)
    await enqueue_all(database, "a1", "a2", "a3", "b1", "b2")
    await relay.start()
    await eventually(lambda: receiver.calls.count("a1") >= 3)
    # the other subject is not held up, and nothing of this one overtakes
    await eventually(lambda: "b2" in receiver.calls)
    assert "a2" not in receiver.calls
    del receiver.failing["a1"]
    await eventually(lambda: sent_all(database))
    assert [each for each in receiver.calls if each[0] == "a" and each != "a1"] == ["a2", "a3"]
    assert receiver.calls.index("b1") < receiver.calls.index("b2")


async def test_a_call_that_hangs_holds_up_its_own_subject_alone(
    database: Database, relay: OutboxRelay, receiver: Receiver
) -> None:
    receiver.held["a1"] = asyncio.Event()
    await enqueue_all(database, "a1", "a2")
    await relay.start()
    await eventually(lambda: receiver.calls == ["a1"])
    await enqueue_all(database, "b1")
    await eventually(lambda: "b1" in receiver.calls)
    assert "a2" not in receiver.calls
    receiver.held["a1"].set()
    await eventually(lambda: sent_all(database))


async def test_two_relays_at_once_send_each_row_once_and_in_order(
    database: Database, receiver: Receiver, refusals: Refusals
) -> None:
    relays = [make_relay(database, receiver, refusals, batch=3) for _ in range(2)]
    bodies = [f"{subject}{number}" for number in range(1, 6) for subject in "abcdefgh"]
    await enqueue_all(database, *bodies)
    for relay in relays:
        await relay.start()
    await eventually(lambda: sent_all(database))
    for relay in relays:
        await relay.stop()
    assert sorted(receiver.calls) == sorted(bodies)
    for subject in "abcdefgh":
        assert [each for each in receiver.calls if each[0] == subject] == [
            f"{subject}{n}" for n in range(1, 6)
        ]


async def test_no_transaction_is_open_while_a_call_is_made(
    database: Database, relay: OutboxRelay, receiver: Receiver
) -> None:
    receiver.held["a1"] = asyncio.Event()
    await enqueue_all(database, "a1")
    await relay.start()
    await eventually(lambda: receiver.calls == ["a1"])

    async def none_is_open() -> bool:
        """Between two looks of the relay for more, that is: one held open would stay for ever."""
        async with database.begin() as session:
            return not await session.scalar(
                text(
                    "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
                    " AND xact_start IS NOT NULL AND pid <> pg_backend_pid()"
                    " AND backend_type = 'client backend'"
                )
            )

    await eventually(none_is_open)
    assert not receiver.held["a1"].is_set()
    receiver.held["a1"].set()
    await eventually(lambda: sent_all(database))


async def test_a_kind_nobody_here_can_send_waits_for_somebody_who_can(
    database: Database, relay: OutboxRelay, receiver: Receiver
) -> None:
    await enqueue_all(database, "a1", kind="of_a_newer_release")
    await enqueue_all(database, "a2")
    await relay.start()

    async def tried() -> bool:
        async with database.begin() as session:
            return (await session.scalar(select(OUTBOX.c.attempts).where(OUTBOX.c.body == b"a1")) or 0) >= 2

    await eventually(tried)
    assert receiver.calls == []
    assert await left(database) == ["a1", "a2"]


async def test_stopping_gives_the_rows_of_cut_calls_back_at_once(
    database: Database, receiver: Receiver, refusals: Refusals, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("libs.common.outbox._GRACE_SECONDS", 0.05)
    receiver.held["a1"] = asyncio.Event()
    await enqueue_all(database, "a1")
    first = make_relay(database, receiver, refusals)
    await first.start()
    await eventually(lambda: receiver.calls == ["a1"])
    await first.stop()
    receiver.held.clear()
    second = make_relay(database, receiver, refusals)
    await second.start()
    await eventually(lambda: sent_all(database))
    await second.stop()
    assert receiver.calls == ["a1", "a1"]


CRASHING = """
import asyncio, os, signal, sys
from sqlalchemy import MetaData
from libs.common.db import Database
from libs.common.outbox import OutboxRelay
from libs.common.outbox_table import outbox_table
from libs.common.settings import DatabaseSettings

async def send(body):
    print(body.decode(), flush=True)
    if body == b"a2":
        os.kill(os.getpid(), signal.SIGKILL)

async def main():
    relay = OutboxRelay(Database(DatabaseSettings(url=sys.argv[1]), "crashing"),
                        outbox_table(MetaData(schema="shop")), {"call": send}, on_rejected=None,
                        interval_seconds=0.05, lease_seconds=0.5)
    await relay.start()
    await asyncio.Event().wait()

asyncio.run(main())
"""


async def test_a_relay_killed_between_the_call_and_its_note_has_the_call_repeated_in_order(
    database: Database, database_url: str, receiver: Receiver, refusals: Refusals
) -> None:
    await enqueue_all(database, "a1", "a2", "a3")
    killed = await asyncio.create_subprocess_exec(
        sys.executable, "-c", CRASHING, database_url, cwd=ROOT, stdout=asyncio.subprocess.PIPE
    )
    said, _ = await killed.communicate()
    assert killed.returncode == -signal.SIGKILL
    assert said.decode().split() == ["a1", "a2"]
    assert await left(database) == ["a2", "a3"]
    relay = make_relay(database, receiver, refusals)
    await relay.start()
    await eventually(lambda: sent_all(database))
    await relay.stop()
    assert receiver.calls == ["a2", "a3"]
