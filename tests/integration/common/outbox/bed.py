"""What the tests of the outbox share: its table, a receiver, and short ways to say things."""

import asyncio
from collections.abc import Sequence

import grpc
import grpc.aio
from sqlalchemy import MetaData, select

from libs.common.db import Database
from libs.common.outbox import OutboxRelay
from libs.common.outbox_table import enqueue, outbox_table

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


class SharedReceiver:
    """Take several calls at once, in memory, all or none; a shared call fails as its first failing part."""

    def __init__(self) -> None:
        self.calls: list[list[str]] = []
        self.traces: list[str] = []
        self.failing: dict[str, Exception] = {}
        self.held: dict[str, asyncio.Event] = {}

    async def __call__(self, orders: Sequence[tuple[bytes, str]]) -> None:
        words = [body.decode() for body, _ in orders]
        self.calls.append(words)
        self.traces += [trace_parent for _, trace_parent in orders]
        for word in words:
            if word in self.held:
                await self.held[word].wait()
            if word in self.failing:
                raise self.failing[word]


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


def make_relay(database: Database, receiver: Receiver, refusals: Refusals, **options: float) -> OutboxRelay:
    settings: dict[str, float] = {"interval_seconds": 0.05, "longest_backoff_seconds": 0.05, **options}
    return OutboxRelay(database, OUTBOX, {"call": receiver}, on_rejected=refusals, **settings)  # type: ignore[arg-type]


async def enqueue_all(database: Database, *bodies: str, kind: str = "call") -> None:
    """Enqueue bodies like ``a1``, whose letter is the subject, in one transaction."""
    async with database.begin() as session:
        for body in bodies:
            await enqueue(session, OUTBOX, subject=body[0], kind=kind, body=body.encode())


async def left(database: Database) -> list[str]:
    async with database.begin() as session:
        bodies = await session.scalars(select(OUTBOX.c.body).order_by(OUTBOX.c.id))
        return [body.decode() for body in bodies]


async def sent_all(database: Database) -> bool:
    return not await left(database)


def rpc_error(code: grpc.StatusCode, details: str = "because") -> grpc.aio.AioRpcError:
    return grpc.aio.AioRpcError(code, grpc.aio.Metadata(), grpc.aio.Metadata(), details=details)
