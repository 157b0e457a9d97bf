"""Lanes of one kind for several callers at once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import asyncpg

from libs.common.lane import Connection, Lane
from libs.common.settings import DatabaseSettings


class Lanes:
    """So many lanes; each caller has one for itself. Those that are never needed never connect.

    `server_settings` are settings of the sessions, as for a `Lane`.
    """

    def __init__(self, settings: DatabaseSettings, name: str, *, count: int, **server_settings: str) -> None:
        self._lanes = [Lane(settings, name, **server_settings) for _ in range(count)]
        self._idle = list(self._lanes)
        self._unused = count
        self._free = asyncio.Semaphore(count)
        self._patience_seconds = settings.pool_timeout_seconds

    @asynccontextmanager
    async def transaction(self, opening: str = "") -> AsyncIterator[Connection]:
        """Give a connection inside a transaction, see `Lane.transaction`.

        Raises:
            TooManyConnectionsError: none came free within pool_timeout_seconds; a later call may succeed.
        """
        async with self._one() as lane, lane.transaction(opening) as connection:
            yield connection

    @asynccontextmanager
    async def statements(self) -> AsyncIterator[Connection]:
        """Give a connection without a transaction, see `Lane.statements`. Raises as `transaction` does."""
        async with self._one() as lane, lane.statements() as connection:
            yield connection

    @asynccontextmanager
    async def _one(self) -> AsyncIterator[Lane]:
        limit = asyncio.timeout(self._patience_seconds)
        try:
            async with limit:
                await self._free.acquire()
        except TimeoutError as error:
            if not limit.expired():
                raise
            raise asyncpg.TooManyConnectionsError("all connections kept for this are in use") from error
        lane = self._idle.pop()  # the one used last: few connections stay warm, the others unopened or unused
        self._unused = min(self._unused, len(self._idle))
        try:
            yield lane
        finally:
            self._idle.append(lane)
            self._free.release()

    async def close_unused(self) -> None:
        """Close the connections that nobody has needed since the last call; those of a burst, for example."""
        unused, self._unused = self._idle[: self._unused], len(self._idle)
        for lane in unused:
            await lane.close()

    async def close(self) -> None:
        """Close all connections when nobody uses them any more."""
        for lane in self._lanes:
            await lane.close()
