"""Room in memory, shared by all who need some for a while."""

from __future__ import annotations

import asyncio


class NoRoom(Exception):
    """Say that none came free in time."""


class Room:
    """So many bytes. Whoever takes some waits for them a little, and gives them back."""

    def __init__(self, size_bytes: int, *, patience_seconds: float) -> None:
        self._free = self._size_bytes = size_bytes
        self._patience_seconds = patience_seconds
        self._freed = asyncio.Event()

    async def take(self, size_bytes: int) -> int:
        """Return how many bytes were taken: all there are where more are wanted. Raises NoRoom."""
        wanted = min(size_bytes, self._size_bytes)
        try:
            async with asyncio.timeout(self._patience_seconds):
                while self._free < wanted:
                    await self._freed.wait()
        except TimeoutError:
            raise NoRoom from None
        self._free -= wanted
        return wanted

    def give_back(self, size_bytes: int) -> None:
        """Let others have what was taken."""
        self._free += size_bytes
        freed, self._freed = self._freed, asyncio.Event()
        freed.set()
