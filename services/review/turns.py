"""Wait for one's turn at a key inside the process, before a connection is taken.

The locks of keys are the database's. A call that waits for one of those holds a connection meanwhile: some
dozens of editors at one key would take the whole pool from everybody else.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field

from libs.common import deadline
from services.review.errors import ReviewBusy

# One works and one stands behind it in the database, which hands the lock over at once.
AT_ONCE = 2
# Time to work, once it is one's turn.
MARGIN_SECONDS = 0.5


@dataclass
class _Key:
    """The place at one key. `interested` counts who holds it or waits for it."""

    free: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(AT_ONCE))
    interested: int = 0


class Turns:
    """Lets few at a time to each key, first come, first served, and no more than `room` in all."""

    def __init__(self, room: int) -> None:
        self._keys: dict[int, _Key] = {}
        self._room = asyncio.Semaphore(room)

    @asynccontextmanager
    async def at(self, keys: Collection[int]) -> AsyncIterator[None]:
        """Wait until it is the caller's turn at all the keys; the block is that turn.

        Keys are taken in sorted order, so that two callers never wait for each other.

        Raises:
            ReviewBusy: the call's time is nearly over and others are still at it.
        """
        async with AsyncExitStack() as held:
            left = deadline.remaining_seconds()
            limit = asyncio.timeout(None if left is None else max(0.0, left - MARGIN_SECONDS))
            try:
                async with limit:
                    for key in sorted(keys):
                        await held.enter_async_context(self._turn(key))
                    await held.enter_async_context(self._room)
            except TimeoutError as error:
                if not limit.expired():
                    raise
                raise ReviewBusy("others are changing drafts of the same key; try again") from error
            yield

    @asynccontextmanager
    async def _turn(self, key: int) -> AsyncIterator[None]:
        place = self._keys.setdefault(key, _Key())
        place.interested += 1
        try:
            async with place.free:
                yield
        finally:
            place.interested -= 1
            if not place.interested:
                del self._keys[key]
