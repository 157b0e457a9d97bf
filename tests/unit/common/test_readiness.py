"""Health follows what a server stands on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import structlog
from grpc_health.v1 import health_pb2

from libs.common import readiness
from libs.common.health import Health
from libs.common.readiness import DATABASE, DatabaseAnswers, Readiness
from libs.common.settings import DatabaseSettings
from libs.common.testing import eventually

SERVING = health_pb2.HealthCheckResponse.SERVING


class Thing:
    """Something that can be broken, silent, or both in turn."""

    def __init__(self) -> None:
        self.broken = self.silent = False
        self.looks = 0
        self.failures_left = 0

    async def check(self) -> None:
        """Return if it works."""
        self.looks += 1
        if self.silent:
            await asyncio.Event().wait()
        if self.failures_left:
            self.failures_left -= 1
            raise OSError("a hiccup")
        if self.broken:
            raise OSError("broken on purpose")


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look again soon."""
    monkeypatch.setattr(readiness, "TROUBLED_SECONDS", 0.01)


@asynccontextmanager
async def watched(*things: Thing) -> AsyncIterator[Health]:
    """Watch some things; give the health that follows them."""
    health = Health()
    checks = {f"thing {index}": thing.check for index, thing in enumerate(things)}
    loop = Readiness("probe", health, checks, interval_seconds=0.01, patience_seconds=0.1)
    await loop.start()
    health.start()
    try:
        yield health
    finally:
        await loop.stop()


async def serves(health: Health) -> bool:
    """Tell whether it reports SERVING."""
    return (await health.Check(health_pb2.HealthCheckRequest(), None)).status == SERVING


async def unserving(health: Health) -> bool:
    """Tell whether it reports anything else."""
    return not await serves(health)


@pytest.mark.parametrize("fault", ["broken", "silent"])
async def test_what_is_broken_or_silent_is_told_and_what_is_back_too(fault: str) -> None:
    database, store = Thing(), Thing()
    async with watched(database, store) as health:
        assert await serves(health)
        with structlog.testing.capture_logs() as logs:
            setattr(store, fault, True)
            await eventually(lambda: unserving(health))
            setattr(store, fault, False)
            await eventually(lambda: serves(health))
    told = [(entry["event"], entry["check"]) for entry in logs]
    assert told == [("server.not_ready", "thing 1"), ("server.works_again", "thing 1")]


async def test_it_serves_again_only_when_all_of_it_works() -> None:
    database, store = Thing(), Thing()
    database.broken = store.broken = True
    async with watched(database, store) as health:
        assert await unserving(health), "nothing works from the start"
        database.broken = False
        looks = store.looks
        await eventually(lambda: store.looks > looks + 3)
        assert await unserving(health)
        store.broken = False
        await eventually(lambda: serves(health))


async def test_a_hiccup_is_no_outage() -> None:
    thing = Thing()
    async with watched(thing) as health:
        watch = health.Watch(health_pb2.HealthCheckRequest(), None)
        assert (await anext(watch)).status == SERVING
        with structlog.testing.capture_logs() as logs:
            thing.failures_left = 1
            looks = thing.looks
            await eventually(lambda: thing.looks > looks + 5)
        assert (logs, await serves(health)) == ([], True)
        await watch.aclose()


async def test_a_database_that_says_nothing_is_silent_however_short_the_wait_for_a_connection(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(readiness, "SILENT_SECONDS", 0.0)
    over = asyncio.Event()

    async def say_nothing(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await over.wait()
        writer.close()

    server = await asyncio.start_server(say_nothing, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    settings = DatabaseSettings(url=f"postgresql://u@127.0.0.1:{port}/d", pool_timeout_seconds=0.1)
    answers = DatabaseAnswers(settings, "probe")
    loop = Readiness("probe", Health(), {DATABASE: answers.check}, patience_seconds=60)
    await loop.start()
    assert loop.is_silent(DATABASE)
    over.set()
    server.close()
    await server.wait_closed()
    await loop._look(DATABASE)
    assert not loop.is_silent(DATABASE), "a port that refuses is an answer"
    await loop.stop()
