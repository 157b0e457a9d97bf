"""Relay the calls to another context that must follow a commit, from the rows that were written with it.

A servicer enqueues in its own transaction (`libs.common.outbox_table`); the relay sends each row when that
has committed. A crash anywhere leaves the row, so a call may be made more than once and the receiver must
take a repeat. What fails for the row itself is the row's alone; while its peer is away, a kind of rows waits
as a whole.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence

import grpc
import grpc.aio
import structlog
from sqlalchemy import Table

from libs.common.client import reason_of
from libs.common.coalesce import Coalescer
from libs.common.db import Database
from libs.common.loops import Periodic, backoff_seconds, is_cancelled
from libs.common.outbox_pauses import Pauses, says_peer_is_away
from libs.common.outbox_rows import OutboxRows, Row
from libs.common.tally import Tally
from libs.common.tracing import continuing

log = structlog.get_logger(__name__)

Sender = Callable[[bytes], Awaitable[None]]
SendTogether = Callable[[Sequence[tuple[bytes, str]]], Awaitable[None]]
"""Send several rows by one call, which takes all of them or none; each is its body and its trace."""
OnRejected = Callable[[str, str, bytes, str], Awaitable[None]]

MOST_TOGETHER = 100
"""So many rows one call may carry."""
GATHER_SECONDS = 0.05
"""How long a pass that found several rows, but no full call, lets others come: one call for them costs a
tenth of as many calls. A row that comes alone never waits."""

# A call refused with one of these is refused for ever. The rest is the peer's or the network's trouble,
# a release that is older than ours (UNIMPLEMENTED) or a wrong token included: somebody mends it.
_PERMANENT = frozenset(
    {
        grpc.StatusCode.INVALID_ARGUMENT,
        grpc.StatusCode.NOT_FOUND,
        grpc.StatusCode.ALREADY_EXISTS,
        grpc.StatusCode.FAILED_PRECONDITION,
        grpc.StatusCode.OUT_OF_RANGE,
    }
)

_GRACE_SECONDS = 5.0


class Rejected(Exception):
    """Raised by a sender whose call can never succeed. The text says why, ``REASON: message``."""


class OutboxRelay:
    """A loop that sends the outbox of one context; any number may run at once."""

    def __init__(
        self,
        database: Database,
        table: Table,
        senders: Mapping[str, Sender],
        *,
        on_rejected: OnRejected,
        together: Mapping[str, SendTogether] | None = None,
        interval_seconds: float = 1.0,
        batch: int = 100,
        lease_seconds: float = 10.0,
        longest_backoff_seconds: float = 60.0,
    ) -> None:
        """Relay the rows of ``table`` by the sender of their kind.

        Rows whose kind is in ``together``, too, share a call when several are due. One that was tried before
        goes by itself: whatever is wrong with it spoils no other's call again.

        ``on_rejected(subject, kind, body, reason)`` records in the context that a call was refused for
        good; ``reason`` is ``REASON: message``. It must take a repeat, and when it fails the row is tried
        again. ``lease_seconds`` is how long a row stays with a relay that was killed; its calls have half of
        it, so that they have ended before another relay may begin.
        """
        self._senders = dict(senders)
        self._together = dict(together or {})
        self._on_rejected = on_rejected
        self._batch = batch
        self._lease_seconds = lease_seconds
        self._longest_backoff_seconds = longest_backoff_seconds
        self._rows = OutboxRows(database, table, lease_seconds=lease_seconds)
        self._context = str(table.schema)
        self._calls: dict[asyncio.Task[None], int] = {}
        self._sent = Coalescer[Sequence[Row], None](self._rows.forget)
        self._ended_calls = Tally.of(
            None, "outbox.calls", ("context", "kind", "outcome"),
            unit="{call}", description="calls of an outbox: sent, postponed, or refused for good",
        )  # fmt: skip
        for kind in self._senders:
            for outcome in ("sent", "postponed", "rejected"):  # a rise from nothing is no rise
                self._ended_calls.add(self._context, kind, outcome, count=0)
        self._loop = Periodic("outbox", interval_seconds, self.relay)
        self._pauses = Pauses(
            self._context, senders, wake=self._loop.wake, longest_seconds=longest_backoff_seconds
        )

    def wake(self) -> None:
        """Ask for a pass now: something was enqueued and committed. It waits while every peer is away."""
        if not self._pauses.all_paused or self._pauses.due():
            self._loop.wake()

    async def start(self) -> None:
        """Relay what is there, then at each wake and each interval."""
        await self._loop.start()

    async def stop(self) -> None:
        """Let the calls in hand end within the grace. What is left stays in the table."""
        await self._loop.stop()
        if self._calls:
            _, slow = await asyncio.wait(self._calls, timeout=_GRACE_SECONDS)
            for call in slow:
                call.cancel()
            await asyncio.gather(*slow, return_exceptions=True)
        await self._sent.drained()

    async def relay(self) -> None:
        """Begin the calls that are due, for ``batch`` rows at once; a slow one holds up its own subjects."""
        await self._probe()
        while (free := self._batch - sum(self._calls.values())) > 0:
            if self._pauses.all_paused:
                return  # a long backlog isn't looked through for nothing
            began = asyncio.get_running_loop().time()
            rows = await self._rows.claim(free, paused=self._pauses.paused())
            if not rows:
                return
            groups = self._groups(rows)
            for group in groups:
                self._begin(group, began)
            if 1 < max(map(len, groups)) < MOST_TOGETHER:
                await asyncio.sleep(GATHER_SECONDS)

    async def _probe(self) -> None:
        """Begin one call of each kind whose pause is over."""
        for kind, failed in self._pauses.due():
            began = asyncio.get_running_loop().time()
            rows = await self._rows.claim_next(kind, failed)
            if rows:
                self._pauses.probing(kind)
                self._begin(rows, began)

    def _begin(self, rows: Sequence[Row], began: float) -> None:
        call = asyncio.create_task(self._deliver(rows, began), name=f"outbox:{rows[0].id}")
        self._calls[call] = len(rows)
        call.add_done_callback(self._ended)

    def _groups(self, rows: Sequence[Row]) -> list[list[Row]]:
        """Return which rows share a call."""
        groups: list[list[Row]] = []
        growing: dict[str, list[Row]] = {}
        for row in rows:
            if row.kind not in self._together or row.attempts > 1:
                groups.append([row])
                continue
            group = growing.get(row.kind)
            if group is None or len(group) == MOST_TOGETHER:
                group = growing[row.kind] = []
                groups.append(group)
            group.append(row)
        return groups

    def _ended(self, call: asyncio.Task[None]) -> None:
        del self._calls[call]
        if not call.cancelled() and (error := call.exception()) is not None:
            # what became of the call could not be written down: it is made again when the lease is over
            log.error("outbox.not_noted", call=call.get_name(), error=repr(error)[:500])
        self.wake()  # the subject's next row may go now

    async def _deliver(self, rows: Sequence[Row], began: float) -> None:
        """Make one call with no transaction open, then write down what became of it."""
        try:
            await self._send(rows, began + self._lease_seconds / 2)
        except asyncio.CancelledError:
            if is_cancelled():
                await self._rows.give_back(rows, last_error="stopped while the call was made")
                raise
            closed = ConnectionError("the channel was closed while the call was made")
            await self._wait_for_peer(rows, closed, began)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is logged and the rows tried again
            if says_peer_is_away(error):
                await self._wait_for_peer(rows, error, began)
                return
            self._pauses.answered(rows[0].kind, began)
            if not isinstance(error, Rejected):
                await self._postpone(rows, error)
            elif len(rows) == 1:
                await self._reject(rows[0], str(error))
            else:
                await self._deliver_apart(rows, began)
        else:
            self._pauses.answered(rows[0].kind, began)
            self._count(rows, "sent")
            await self._sent.submit(rows)

    async def _deliver_apart(self, rows: Sequence[Row], began: float) -> None:
        """Make a call for each row: one of them was refused, and nothing tells which."""
        ends = await asyncio.gather(*(self._deliver([row], began) for row in rows), return_exceptions=True)
        for error in ends:
            if error is not None:
                raise error

    def _count(self, rows: Sequence[Row], outcome: str) -> None:
        self._ended_calls.add(self._context, rows[0].kind, outcome, count=len(rows))

    async def _send(self, rows: Sequence[Row], until: float) -> None:
        try:
            async with asyncio.timeout_at(until):
                if len(rows) > 1:
                    with continuing(""):
                        await self._together[rows[0].kind]([(row.body, row.trace_parent) for row in rows])
                else:
                    await self._send_one(rows[0])
        except grpc.aio.AioRpcError as error:
            # an older release that doesn't know the call for several is no outage: it knows that for one
            unknown = len(rows) > 1 and error.code() is grpc.StatusCode.UNIMPLEMENTED
            if unknown or error.code() in _PERMANENT:
                raise Rejected(f"{reason_of(error) or error.code().name}: {error.details()}") from error
            raise

    async def _send_one(self, row: Row) -> None:
        sender = self._senders.get(row.kind)
        if sender is None:  # written by a newer release; one of its relays will take it
            raise LookupError(f"no sender for outbox rows of kind {row.kind!r}")
        with continuing(row.trace_parent):
            await sender(row.body)

    async def _reject(self, row: Row, reason: str) -> None:
        try:
            # before the row is dead: a crash between the two repeats the call and this
            await self._on_rejected(row.subject, row.kind, row.body, reason)
        except Exception as error:  # noqa: BLE001 - logged, and the row tried again
            await self._postpone([row], error)
            return
        self._count([row], "rejected")
        log.error("outbox.rejected", subject=row.subject, kind=row.kind, outbox_id=row.id, reason=reason)
        await self._rows.give_back([row], last_error=reason, dead=True)

    async def _postpone(self, rows: Sequence[Row], error: Exception) -> None:
        first = rows[0]
        self._count(rows, "postponed")
        delay = backoff_seconds(first.attempts, longest=self._longest_backoff_seconds)
        log.warning(
            "outbox.postponed",
            subject=first.subject,
            kind=first.kind,
            outbox_id=first.id,
            rows=len(rows),
            attempts=first.attempts,
            delay_seconds=round(delay, 3),
            error=repr(error)[:500],
        )
        await self._rows.give_back(rows, last_error=repr(error), delay_seconds=delay)

    async def _wait_for_peer(self, rows: Sequence[Row], error: Exception, began: float) -> None:
        """Give rows back whose peer is away: their kind waits for it as a whole.

        Only a call that failed while the peer had served is counted as a try of its rows: what is wrong
        with one of them may look like an outage, so they go on singly, and one that does it again waits.
        """
        self._count(rows, "postponed")
        first = rows[0]
        counted = self._pauses.failed(first.kind, rows[-1].id, error, began)
        again = first.attempts - 1 if counted else 0
        delay = backoff_seconds(again, longest=self._longest_backoff_seconds) if again else 0.0
        await self._rows.give_back(rows, last_error=repr(error), delay_seconds=delay, counted=counted)
