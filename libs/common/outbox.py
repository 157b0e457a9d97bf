"""Relay the calls to another context that must follow a commit, from the rows that were written with it.

A servicer enqueues in its own transaction (`libs.common.outbox_table`); the relay sends each row when that
has committed. A crash anywhere leaves the row, so a call may be made more than once and the receiver must
take a repeat.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

import grpc
import grpc.aio
import structlog
from sqlalchemy import (
    ARRAY,
    BigInteger,
    ColumnElement,
    Table,
    any_,
    bindparam,
    delete,
    func,
    literal_column,
    select,
    update,
)

from libs.common.client import reason_of
from libs.common.coalesce import Coalescer
from libs.common.db import Database
from libs.common.loops import Periodic, backoff_seconds, is_cancelled
from libs.common.tally import Tally
from libs.common.tracing import continuing

log = structlog.get_logger(__name__)

Sender = Callable[[bytes], Awaitable[None]]
OnRejected = Callable[[str, str, bytes, str], Awaitable[None]]

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


class _Row(NamedTuple):
    id: int
    subject: str
    kind: str
    body: bytes
    attempts: int
    trace_parent: str


class OutboxRelay:
    """A loop that sends the outbox of one context; any number may run at once."""

    def __init__(
        self,
        database: Database,
        table: Table,
        senders: Mapping[str, Sender],
        *,
        on_rejected: OnRejected,
        interval_seconds: float = 1.0,
        batch: int = 50,
        lease_seconds: float = 10.0,
        longest_backoff_seconds: float = 60.0,
    ) -> None:
        """Relay the rows of ``table`` by the sender of their kind.

        ``on_rejected(subject, kind, body, reason)`` records in the context that a call was refused for
        good; ``reason`` is ``REASON: message``. It must take a repeat, and when it fails the row is tried
        again. ``lease_seconds`` is how long a row stays with a relay that was killed; a call has half of
        it, so that it has ended before another relay may begin.
        """
        self._database = database
        self._table = table
        self._senders = dict(senders)
        self._on_rejected = on_rejected
        self._batch = batch
        self._lease_seconds = lease_seconds
        self._longest_backoff_seconds = longest_backoff_seconds
        self._calls: set[asyncio.Task[None]] = set()
        self._sent = Coalescer[int, None](self._forget)
        self._ended_calls = Tally.of(
            None, "outbox.calls", ("context", "kind", "outcome"),
            unit="{call}", description="calls of an outbox: sent, postponed, or refused for good",
        )  # fmt: skip
        self._loop = Periodic("outbox", interval_seconds, self.relay)

    def wake(self) -> None:
        """Ask for a pass now: something was enqueued and committed."""
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
        """Begin the calls that are due, up to ``batch`` at once; a slow one holds up its subject alone."""
        while free := self._batch - len(self._calls):
            rows = await self._claim(free)
            if not rows:
                return
            for row in rows:
                call = asyncio.create_task(self._deliver(row), name=f"outbox:{row.id}")
                self._calls.add(call)
                call.add_done_callback(self._ended)

    def _ended(self, call: asyncio.Task[None]) -> None:
        self._calls.discard(call)
        if not call.cancelled() and (error := call.exception()) is not None:
            # what became of the call could not be written down: it is made again when the lease is over
            log.error("outbox.not_noted", call=call.get_name(), error=repr(error)[:500])
        self._loop.wake()  # the subject's next row may go now

    async def _claim(self, limit: int) -> list[_Row]:
        """Lease the oldest live row of each subject that is due, in a transaction of its own."""
        row, earlier = self._table.alias("o"), self._table.alias("earlier")
        # a subject whose oldest row waits for its next try has nothing due: that keeps the order
        head = (
            select(row.c.id)
            .where(
                row.c.dead_at.is_(None),
                row.c.next_attempt_at <= func.now(),
                func.coalesce(row.c.locked_until, func.now()) <= func.now(),
                ~select(literal_column("1"))
                .select_from(earlier)
                .where(
                    earlier.c.subject == row.c.subject, earlier.c.id < row.c.id, earlier.c.dead_at.is_(None)
                )
                .exists(),
            )
            .order_by(row.c.id)
            .limit(limit)
            .with_for_update(of=row, skip_locked=True)
            .cte("head")
            .prefix_with("MATERIALIZED")
        )
        table = self._table
        claim = (
            update(table)
            .where(table.c.id == head.c.id)
            .values(attempts=table.c.attempts + 1, locked_until=_in_seconds(self._lease_seconds))
            .returning(*(table.c[name] for name in _Row._fields))
        )
        async with self._database.begin() as session:
            return [_Row(*found) for found in (await session.execute(claim)).all()]

    async def _deliver(self, row: _Row) -> None:
        """Make one call with no transaction open, then write down what became of it."""
        try:
            await self._send(row)
        except Rejected as rejected:
            await self._reject(row, str(rejected))
        except asyncio.CancelledError:
            if is_cancelled():
                await self._note(row, last_error="stopped while the call was made")
                raise
            await self._postpone(row, ConnectionError("the channel was closed while the call was made"))
        except Exception as error:  # noqa: BLE001 - whatever it is, it is logged and the row tried again
            await self._postpone(row, error)
        else:
            self._count(row, "sent")
            await self._sent.submit(row.id)

    def _count(self, row: _Row, outcome: str) -> None:
        self._ended_calls.add(str(self._table.schema), row.kind, outcome)

    async def _send(self, row: _Row) -> None:
        sender = self._senders.get(row.kind)
        if sender is None:  # written by a newer release; one of its relays will take it
            raise LookupError(f"no sender for outbox rows of kind {row.kind!r}")
        try:
            async with asyncio.timeout(self._lease_seconds / 2):
                with continuing(row.trace_parent):
                    await sender(row.body)
        except grpc.aio.AioRpcError as error:
            if error.code() in _PERMANENT:
                raise Rejected(f"{reason_of(error) or error.code().name}: {error.details()}") from error
            raise

    async def _forget(self, row_ids: Sequence[int]) -> Sequence[None]:
        """Delete the rows of calls that were made; calls that end together share one transaction."""
        async with self._database.begin() as session:
            # one text, whatever the number: it is prepared once
            ids = bindparam("ids", list(row_ids), type_=ARRAY(BigInteger))
            await session.execute(delete(self._table).where(self._table.c.id == any_(ids)))
        return [None] * len(row_ids)

    async def _reject(self, row: _Row, reason: str) -> None:
        try:
            # before the row is dead: a crash between the two repeats the call and this
            await self._on_rejected(row.subject, row.kind, row.body, reason)
        except Exception as error:  # noqa: BLE001 - logged, and the row tried again
            await self._postpone(row, error)
            return
        self._count(row, "rejected")
        log.error("outbox.rejected", subject=row.subject, kind=row.kind, outbox_id=row.id, reason=reason)
        await self._note(row, last_error=reason, dead=True)

    async def _postpone(self, row: _Row, error: Exception) -> None:
        self._count(row, "postponed")
        delay = backoff_seconds(row.attempts, longest=self._longest_backoff_seconds)
        log.warning(
            "outbox.postponed",
            subject=row.subject,
            kind=row.kind,
            outbox_id=row.id,
            attempts=row.attempts,
            delay_seconds=round(delay, 3),
            error=repr(error)[:500],
        )
        await self._note(row, last_error=repr(error), delay_seconds=delay)

    async def _note(
        self, row: _Row, *, last_error: str, delay_seconds: float = 0.0, dead: bool = False
    ) -> None:
        """Give the row back, unless another relay has leased it since (its attempts have risen)."""
        change = (
            update(self._table)
            .where(self._table.c.id == row.id, self._table.c.attempts == row.attempts)
            .values(
                locked_until=None,
                last_error=last_error[:4000].replace("\x00", ""),
                next_attempt_at=_in_seconds(delay_seconds),
                **({"dead_at": func.now()} if dead else {}),
            )
        )
        async with self._database.begin() as session:
            await session.execute(change)


def _in_seconds(seconds: float) -> ColumnElement[datetime]:
    return func.now() + timedelta(seconds=seconds)
