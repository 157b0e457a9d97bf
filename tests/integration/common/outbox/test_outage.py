"""A peer's outage is one fact: all its rows wait together, one call probes, and then everything goes on."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

import grpc
import grpc.aio
import pytest
from sqlalchemy import func, select
from structlog.testing import capture_logs

from libs.common import statuses
from libs.common.db import Database
from libs.common.errors import DomainError, Kind
from libs.common.outbox import MOST_TOGETHER, OutboxRelay
from libs.common.testing import eventually
from tests.integration.common.outbox.bed import (
    OUTBOX,
    Receiver,
    Refusals,
    SharedReceiver,
    enqueue_all,
    left,
    make_relay,
    rpc_error,
    sent_all,
)

SUBJECTS = [chr(0x4E00 + number) for number in range(250)]
BODIES = [f"{subject}{number}" for number in (1, 2) for subject in SUBJECTS]


class Peer:
    """Take calls for one row or for several; refuse all of them while it is away."""

    def __init__(self) -> None:
        self.away: Exception | None = None
        self.calls: list[list[str]] = []
        self.taken: list[str] = []
        self.refused = 0

    async def one(self, body: bytes) -> None:
        await self.together([(body, "")])

    async def together(self, orders: Sequence[tuple[bytes, str]]) -> None:
        words = [body.decode() for body, _ in orders]
        self.calls.append(words)
        if self.away is not None:
            self.refused += 1
            raise self.away
        self.taken += words

    def relay(self, database: Database, refusals: Refusals, *, together: bool, batch: int) -> OutboxRelay:
        return OutboxRelay(
            database, OUTBOX, {"call": self.one}, together={"call": self.together} if together else None,
            on_rejected=refusals, interval_seconds=0.05, longest_backoff_seconds=0.1, batch=batch,
        )  # fmt: skip

    def kept_order(self) -> bool:
        """Tell whether each body came once, and those of a subject in their order."""
        firsts = {body[0]: at for at, body in enumerate(self.taken) if body[1] == "1"}
        seconds = {body[0]: at for at, body in enumerate(self.taken) if body[1] == "2"}
        return sorted(self.taken) == sorted(BODIES) and all(firsts[s] < seconds[s] for s in SUBJECTS)


class ServerBusy(DomainError):
    kind = Kind.RESOURCE_EXHAUSTED
    reason = "SERVER_BUSY"


def busy(retry_delay_seconds: float) -> grpc.aio.AioRpcError:
    refusal = ServerBusy("too many", retry_delay_seconds=retry_delay_seconds)
    status = statuses.to_status(refusal, "shop")
    details = ("grpc-status-details-bin", status.SerializeToString())
    trailing = grpc.aio.Metadata(details)
    return grpc.aio.AioRpcError(
        grpc.StatusCode.RESOURCE_EXHAUSTED, grpc.aio.Metadata(), trailing, details=status.message
    )


@pytest.fixture
def peer() -> Peer:
    made = Peer()
    made.away = rpc_error(grpc.StatusCode.UNAVAILABLE, "connection refused")
    return made


@pytest.fixture
async def relays(database: Database, refusals: Refusals, peer: Peer) -> AsyncIterator[list[OutboxRelay]]:
    made = [peer.relay(database, refusals, together=True, batch=MOST_TOGETHER) for _ in range(2)]
    yield made
    for relay in made:
        await relay.stop()


async def counted(database: Database) -> tuple[int, int]:
    """Return how many tries are counted, and how many rows wait for a moment of their own."""
    waiting = func.count().filter(OUTBOX.c.next_attempt_at > func.now())
    async with database.begin() as session:
        row = (await session.execute(select(func.sum(OUTBOX.c.attempts), waiting))).one()
    return row[0], row[1]


async def test_all_rows_wait_for_one_probe_after_another_and_go_when_it_is_answered(
    database: Database, peer: Peer, relays: list[OutboxRelay]
) -> None:
    relay = relays[0]
    await enqueue_all(database, *BODIES)
    with capture_logs() as logged:
        await relay.start()
        await eventually(lambda: len(peer.calls) >= 5)
        for _ in range(100):  # what is submitted meanwhile asks for no call
            relay.wake()
        await eventually(lambda: len(peer.calls) >= 6)
        assert [len(call) for call in peer.calls] == [MOST_TOGETHER] + [1] * (len(peer.calls) - 1)
        # each probe is another row, none of those that failed together
        assert len({call[0] for call in peer.calls}) == len(peer.calls)
        tries, waiting = await counted(database)
        assert MOST_TOGETHER <= tries <= MOST_TOGETHER + 1
        assert waiting == 0
        peer.away = None
        await eventually(lambda: sent_all(database))
    assert peer.kept_order()
    told = [line for line in logged if line["event"] == "outbox.paused"]
    assert [line["failures"] for line in told] == list(range(1, len(told) + 1))
    assert len(told) == peer.refused
    assert {line["event"] for line in logged} == {"outbox.paused", "outbox.resumed"}
    assert sum(line["event"] == "outbox.resumed" for line in logged) == 1


async def test_calls_under_way_when_the_peer_goes_are_one_failure_of_it(
    database: Database, peer: Peer, refusals: Refusals
) -> None:
    relay = peer.relay(database, refusals, together=False, batch=20)
    await enqueue_all(database, *BODIES)
    with capture_logs() as logged:
        await relay.start()
        await eventually(lambda: len(peer.calls) >= 24)
        told = [line["failures"] for line in logged if line["event"] == "outbox.paused"]
        assert 0 <= len(peer.calls) - 19 - len(told) <= 1
        assert told == list(range(1, len(told) + 1))
        tries, waiting = await counted(database)
        assert 1 <= tries <= 2
        assert waiting == 0
        peer.away = None
        await eventually(lambda: sent_all(database))
    await relay.stop()
    assert peer.kept_order()


async def test_two_servers_on_one_table_wait_each_with_its_own_probe_and_send_each_row_once(
    database: Database, peer: Peer, relays: list[OutboxRelay]
) -> None:
    await enqueue_all(database, *BODIES)
    with capture_logs() as logged:
        for relay in relays:
            await relay.start()
        await eventually(lambda: len(peer.calls) >= 10)
        assert sorted(len(call) for call in peer.calls)[:-2] == [1] * (len(peer.calls) - 2)
        peer.away = None
        await eventually(lambda: sent_all(database))
    assert peer.kept_order()
    assert "outbox.postponed" not in {line["event"] for line in logged}


async def test_what_is_wrong_with_one_row_pauses_no_other(
    database: Database, relay: OutboxRelay, receiver: Receiver, refusals: Refusals
) -> None:
    receiver.failing["a1"] = rpc_error(grpc.StatusCode.INTERNAL)
    receiver.failing["b1"] = rpc_error(grpc.StatusCode.INVALID_ARGUMENT)
    too_large = "Received message larger than max (4209692 vs. 4194304)"
    receiver.failing["c1"] = rpc_error(grpc.StatusCode.RESOURCE_EXHAUSTED, too_large)
    await enqueue_all(database, "a1", "b1", "c1", "d1", "d2", "d3")
    with capture_logs() as logged:
        await relay.start()
        await eventually(lambda: receiver.calls.count("a1") > 2 and receiver.calls.count("c1") > 2)
        await eventually(lambda: "d3" in receiver.calls)
    assert refusals.seen == [("b", "call", b"b1", "INVALID_ARGUMENT: because")]
    assert {line["event"] for line in logged} == {"outbox.postponed", "outbox.rejected"}


@pytest.mark.parametrize("together", [True, False])
async def test_a_row_whose_own_trouble_looks_like_an_outage_holds_up_no_other(
    database: Database, receiver: Receiver, refusals: Refusals, *, together: bool
) -> None:
    shared = SharedReceiver()
    trouble = rpc_error(grpc.StatusCode.DEADLINE_EXCEEDED)
    shared.failing["a1"] = receiver.failing["a1"] = trouble
    relay = OutboxRelay(
        database, OUTBOX, {"call": receiver}, together={"call": shared} if together else None,
        on_rejected=refusals, interval_seconds=0.05, longest_backoff_seconds=0.05,
    )  # fmt: skip
    await enqueue_all(database, "a1", "a2", *(f"{subject}1" for subject in SUBJECTS))
    await relay.start()

    async def the_others_are_sent() -> bool:
        return await left(database) == ["a1", "a2"]

    await eventually(the_others_are_sent)
    await enqueue_all(database, "b1", "c1")
    await eventually(the_others_are_sent)
    del receiver.failing["a1"]
    await eventually(lambda: sent_all(database))
    await relay.stop()


async def test_a_kind_that_the_peer_does_not_allow_waits_alone(
    database: Database, receiver: Receiver, refusals: Refusals
) -> None:
    other = Receiver()
    relay = OutboxRelay(
        database, OUTBOX, {"call": receiver, "other": other}, on_rejected=refusals, interval_seconds=0.05
    )
    receiver.failing["a1"] = rpc_error(grpc.StatusCode.PERMISSION_DENIED)
    await enqueue_all(database, "a1")
    with capture_logs() as logged:
        await relay.start()
        await eventually(lambda: logged)
        await enqueue_all(database, "b1", "c1", kind="other")
        relay.wake()
        await eventually(lambda: sorted(other.calls) == ["b1", "c1"])
    await relay.stop()
    assert {(line["event"], line["kind"]) for line in logged} == {("outbox.paused", "call")}


async def test_a_call_for_several_that_an_older_release_does_not_know_is_made_for_each_at_once(
    database: Database, receiver: Receiver, refusals: Refusals
) -> None:
    shared = SharedReceiver()
    shared.failing["a1"] = rpc_error(grpc.StatusCode.UNIMPLEMENTED)
    relay = OutboxRelay(database, OUTBOX, {"call": receiver}, together={"call": shared}, on_rejected=refusals)
    await enqueue_all(database, "a1", "b1", "c1")
    with capture_logs() as logged:
        await relay.start()
        await eventually(lambda: sent_all(database))
    await relay.stop()
    assert (shared.calls, sorted(receiver.calls)) == ([["a1", "b1", "c1"]], ["a1", "b1", "c1"])
    assert logged == []


async def test_a_busy_peer_gets_the_pause_that_it_asks_for(
    database: Database, receiver: Receiver, refusals: Refusals
) -> None:
    relay = make_relay(database, receiver, refusals, longest_backoff_seconds=1.0)
    receiver.failing["a1"] = busy(0.4)
    await enqueue_all(database, "a1")
    with capture_logs() as logged:
        await relay.start()
        await eventually(lambda: len(receiver.calls) == 2)
        receiver.failing.clear()
        await eventually(lambda: sent_all(database))
    await relay.stop()
    pauses = [line["pause_seconds"] for line in logged if line["event"] == "outbox.paused"]
    assert min(pauses) > 0.4
