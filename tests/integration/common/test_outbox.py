"""The outbox on a real server: order, leases, back-off, refusals, crashes."""

import asyncio
import contextlib
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import grpc
import grpc.aio
import pytest
from sqlalchemy import MetaData, select, text, update

from libs.common.db import Database
from libs.common.outbox import OutboxRelay, Rejected, enqueue, outbox_table
from libs.common.testing import eventually

ROOT = Path(__file__).resolve().parents[3]
METADATA = MetaData(schema="shop")
OUTBOX = outbox_table(METADATA)


class Receiver:
    """Take the calls of one kind, in memory; refuse or hold what it is told to."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.failing: dict[str, Exception] = {}
        self.held: dict[str, asyncio.Event] = {}

    async def __call__(self, body: bytes) -> None:
        words = body.decode()
        self.calls.append(words)
        if words in self.held:
            await self.held[words].wait()
        if words in self.failing:
            raise self.failing[words]


class Refusals:
    """Note what was refused for good; fail first when told to."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, str, bytes, str]] = []
        self.failures = 0

    async def __call__(self, subject: str, kind: str, body: bytes, reason: str) -> None:
        if self.failures:
            self.failures -= 1
            raise RuntimeError("on purpose")
        self.seen.append((subject, kind, body, reason))


@pytest.fixture(scope="module")
async def table(database: Database) -> None:
    async with database.begin() as session:
        await session.execute(text("CREATE SCHEMA shop"))
        await (await session.connection()).run_sync(METADATA.create_all)


@pytest.fixture(autouse=True)
async def empty(database: Database, table: None) -> None:
    async with database.begin() as session:
        await session.execute(text("TRUNCATE shop.outbox"))


@pytest.fixture
def receiver() -> Receiver:
    return Receiver()


@pytest.fixture
def refusals() -> Refusals:
    return Refusals()


@pytest.fixture
async def relay(database: Database, receiver: Receiver, refusals: Refusals) -> AsyncIterator[OutboxRelay]:
    made = _relay(database, receiver, refusals)
    yield made
    await made.stop()


def _relay(database: Database, receiver: Receiver, refusals: Refusals, **options: float) -> OutboxRelay:
    settings: dict[str, float] = {"interval_seconds": 0.05, "longest_backoff_seconds": 0.05, **options}
    return OutboxRelay(database, OUTBOX, {"call": receiver}, on_rejected=refusals, **settings)  # type: ignore[arg-type]


async def _enqueue(database: Database, *bodies: str, kind: str = "call") -> None:
    """Enqueue bodies like ``a1``, whose letter is the subject, in one transaction."""
    async with database.begin() as session:
        for body in bodies:
            await enqueue(session, OUTBOX, subject=body[0], kind=kind, body=body.encode())


async def _left(database: Database) -> list[str]:
    async with database.begin() as session:
        bodies = await session.scalars(select(OUTBOX.c.body).order_by(OUTBOX.c.id))
        return [body.decode() for body in bodies]


async def _sent_all(database: Database) -> bool:
    return not await _left(database)


def _error(code: grpc.StatusCode, details: str = "because") -> grpc.aio.AioRpcError:
    return grpc.aio.AioRpcError(code, grpc.aio.Metadata(), grpc.aio.Metadata(), details=details)


async def test_what_is_enqueued_is_sent_after_the_commit_and_deleted(
    database: Database, relay: OutboxRelay, receiver: Receiver
) -> None:
    await relay.start()
    async with database.begin() as session:
        await enqueue(session, OUTBOX, subject="a", kind="call", body=b"a1")
        await relay.relay()
        assert receiver.calls == []
    relay.wake()
    await eventually(lambda: _sent_all(database))
    assert receiver.calls == ["a1"]


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
    relay = _relay(database, receiver, refusals, interval_seconds=3600)
    await relay.start()
    await _enqueue(database, "a1", "a2", "b1")
    relay.wake()
    await eventually(lambda: _sent_all(database))
    await relay.stop()


async def test_the_rows_of_a_subject_keep_their_order_when_one_fails(
    database: Database, relay: OutboxRelay, receiver: Receiver
) -> None:
    receiver.failing["a1"] = _error(grpc.StatusCode.UNAVAILABLE)
    await _enqueue(database, "a1", "a2", "a3", "b1", "b2")
    await relay.start()
    await eventually(lambda: receiver.calls.count("a1") >= 3)
    # the other subject is not held up, and nothing of this one overtakes
    await eventually(lambda: "b2" in receiver.calls)
    assert "a2" not in receiver.calls
    del receiver.failing["a1"]
    await eventually(lambda: _sent_all(database))
    assert [each for each in receiver.calls if each[0] == "a" and each != "a1"] == ["a2", "a3"]
    assert receiver.calls.index("b1") < receiver.calls.index("b2")


async def test_a_call_that_hangs_holds_up_its_own_subject_alone(
    database: Database, relay: OutboxRelay, receiver: Receiver
) -> None:
    receiver.held["a1"] = asyncio.Event()
    await _enqueue(database, "a1", "a2")
    await relay.start()
    await eventually(lambda: receiver.calls == ["a1"])
    await _enqueue(database, "b1")
    await eventually(lambda: "b1" in receiver.calls)
    assert "a2" not in receiver.calls
    receiver.held["a1"].set()
    await eventually(lambda: _sent_all(database))


async def test_two_relays_at_once_send_each_row_once_and_in_order(
    database: Database, receiver: Receiver, refusals: Refusals
) -> None:
    relays = [_relay(database, receiver, refusals, batch=3) for _ in range(2)]
    bodies = [f"{subject}{number}" for number in range(1, 6) for subject in "abcdefgh"]
    await _enqueue(database, *bodies)
    for relay in relays:
        await relay.start()
    await eventually(lambda: _sent_all(database))
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
    await _enqueue(database, "a1")
    await relay.start()
    await eventually(lambda: receiver.calls == ["a1"])
    async with database.begin() as session:
        open_elsewhere = await session.scalar(
            text(
                "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
                " AND xact_start IS NOT NULL AND pid <> pg_backend_pid() AND backend_type = 'client backend'"
            )
        )
    assert open_elsewhere == 0
    receiver.held["a1"].set()
    await eventually(lambda: _sent_all(database))


@pytest.mark.parametrize(
    ("refusal", "reason"),
    [
        (_error(grpc.StatusCode.INVALID_ARGUMENT, "too long"), "INVALID_ARGUMENT: too long"),
        (_error(grpc.StatusCode.ALREADY_EXISTS, "other content"), "ALREADY_EXISTS: other content"),
        (_error(grpc.StatusCode.FAILED_PRECONDITION), "FAILED_PRECONDITION: because"),
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
    await _enqueue(database, "a1", "a2")
    await relay.start()
    await eventually(lambda: "a2" in receiver.calls)
    assert receiver.calls == ["a1", "a2"]
    assert refusals.seen == [("a", "call", b"a1", reason)]

    async def only_the_dead_one_is_left() -> bool:
        return await _left(database) == ["a1"]

    await eventually(only_the_dead_one_is_left)
    async with database.begin() as session:
        row = (await session.execute(select(OUTBOX))).one()
    assert (row.body, row.last_error, row.dead_at is not None) == (b"a1", reason, True)


async def test_a_refusal_that_cannot_be_recorded_is_tried_again(
    database: Database, relay: OutboxRelay, receiver: Receiver, refusals: Refusals
) -> None:
    refusals.failures = 2
    receiver.failing["a1"] = Rejected("NO_USE: never")
    await _enqueue(database, "a1")
    await relay.start()
    await eventually(lambda: len(refusals.seen) == 1)
    assert receiver.calls == ["a1"] * 3


@pytest.mark.parametrize(
    "failure",
    [
        _error(grpc.StatusCode.UNAVAILABLE),
        _error(grpc.StatusCode.DEADLINE_EXCEEDED),
        _error(grpc.StatusCode.INTERNAL),
        _error(grpc.StatusCode.RESOURCE_EXHAUSTED),
        _error(grpc.StatusCode.UNAUTHENTICATED),
        ConnectionResetError("broken"),
        RuntimeError("a NUL \x00 in the text"),
        asyncio.CancelledError("the channel was closed"),
    ],
)
async def test_any_other_failure_is_tried_again_until_it_works(
    database: Database, relay: OutboxRelay, receiver: Receiver, refusals: Refusals, failure: Exception
) -> None:
    receiver.failing["a1"] = failure
    await _enqueue(database, "a1")
    await relay.start()
    await eventually(lambda: len(receiver.calls) >= 2)
    async with database.begin() as session:
        row = (await session.execute(select(OUTBOX))).one()
    assert row.attempts >= 1
    assert row.dead_at is None
    receiver.failing.clear()
    await eventually(lambda: _sent_all(database))
    assert refusals.seen == []


async def test_the_wait_between_tries_grows(
    database: Database, receiver: Receiver, refusals: Refusals
) -> None:
    relay = _relay(database, receiver, refusals, longest_backoff_seconds=1000)
    receiver.failing["a1"] = _error(grpc.StatusCode.UNAVAILABLE)
    await _enqueue(database, "a1")
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


async def test_a_kind_nobody_here_can_send_waits_for_somebody_who_can(
    database: Database, relay: OutboxRelay, receiver: Receiver
) -> None:
    await _enqueue(database, "a1", kind="of_a_newer_release")
    await _enqueue(database, "a2")
    await relay.start()

    async def tried() -> bool:
        async with database.begin() as session:
            return (await session.scalar(select(OUTBOX.c.attempts).where(OUTBOX.c.body == b"a1")) or 0) >= 2

    await eventually(tried)
    assert receiver.calls == []
    assert await _left(database) == ["a1", "a2"]


async def test_stopping_gives_the_rows_of_cut_calls_back_at_once(
    database: Database, receiver: Receiver, refusals: Refusals, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("libs.common.outbox._GRACE_SECONDS", 0.05)
    receiver.held["a1"] = asyncio.Event()
    await _enqueue(database, "a1")
    first = _relay(database, receiver, refusals)
    await first.start()
    await eventually(lambda: receiver.calls == ["a1"])
    await first.stop()
    receiver.held.clear()
    second = _relay(database, receiver, refusals)
    await second.start()
    await eventually(lambda: _sent_all(database))
    await second.stop()
    assert receiver.calls == ["a1", "a1"]


CRASHING = """
import asyncio, os, signal, sys
from sqlalchemy import MetaData
from libs.common.db import Database
from libs.common.outbox import OutboxRelay, outbox_table
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
    await _enqueue(database, "a1", "a2", "a3")
    killed = await asyncio.create_subprocess_exec(
        sys.executable, "-c", CRASHING, database_url, cwd=ROOT, stdout=asyncio.subprocess.PIPE
    )
    said, _ = await killed.communicate()
    assert killed.returncode == -signal.SIGKILL
    assert said.decode().split() == ["a1", "a2"]
    assert await _left(database) == ["a2", "a3"]
    relay = _relay(database, receiver, refusals)
    await relay.start()
    await eventually(lambda: _sent_all(database))
    await relay.stop()
    assert receiver.calls == ["a2", "a3"]
