"""Obey SIGINT and SIGTERM, also while a process still starts."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable
from typing import TypeVar

T = TypeVar("T")

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class StopAsked(Exception):
    """A signal came while something was being started, which has been cancelled."""


class StopSignals:
    """The first SIGINT or SIGTERM asks for a stop; the next one does what it does by default.

    Make it in the running event loop of the main thread, before anything is started.
    """

    def __init__(self) -> None:
        self._asked = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        for number in _SIGNALS:
            self._loop.add_signal_handler(number, self._ask)

    def _ask(self) -> None:
        self._asked.set()
        for number in _SIGNALS:
            self._loop.remove_signal_handler(number)

    async def wait(self) -> None:
        """Return once a stop was asked for."""
        await self._asked.wait()

    async def unless_asked(self, starting: Awaitable[T]) -> T:
        """Return what `starting` returns.

        Raises:
            StopAsked: a signal came first; `starting` was cancelled, and has ended.
        """
        start = asyncio.ensure_future(starting)
        asked = asyncio.create_task(self._asked.wait())
        try:
            await asyncio.wait({start, asked}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            asked.cancel()
            if not start.done():
                start.cancel()
                await asyncio.wait({start})
        if start.cancelled():
            raise StopAsked
        return start.result()
