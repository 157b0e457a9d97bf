"""Places for fetches: so many at one host, so many in all; waiting for one is no time of the fetch's own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager


class HostPlaces:
    """Hands out places in the order in which they are asked for.

    A host's place is taken first: fetches that wait at a slow host keep none of the places of all.
    """

    def __init__(self, per_host: int, in_all: int) -> None:
        self._per_host = per_host
        self._all = asyncio.Semaphore(in_all)
        self._hosts: dict[str, asyncio.Semaphore] = {}
        self._users: dict[str, int] = {}

    @asynccontextmanager
    async def one(self, host: str, limit: asyncio.Timeout | None = None) -> AsyncIterator[None]:
        """Lend a place at `host`; while it is waited for, `limit` stands still."""
        places = self._hosts.setdefault(host, asyncio.Semaphore(self._per_host))
        self._users[host] = self._users.get(host, 0) + 1
        try:
            with standing_still(limit):
                await places.acquire()
            try:
                with standing_still(limit):
                    await self._all.acquire()
                try:
                    yield
                finally:
                    self._all.release()
            finally:
                places.release()
        finally:
            self._users[host] -= 1
            if not self._users[host]:
                del self._users[host], self._hosts[host]


@contextmanager
def standing_still(limit: asyncio.Timeout | None) -> Iterator[None]:
    """Let no time of `limit` pass inside the block; what was left of it is left afterwards."""
    ends = None if limit is None else limit.when()
    if limit is None or ends is None:
        yield
        return
    loop = asyncio.get_running_loop()
    left = ends - loop.time()
    limit.reschedule(None)
    try:
        yield
    finally:
        limit.reschedule(loop.time() + left)
