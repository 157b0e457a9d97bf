"""Count the handlers that still run, so that what they stand on is closed after them.

`grpc.aio.Server.stop` returns while handlers still run their `finally` blocks.
"""

from __future__ import annotations

import asyncio
from typing import Any

from libs.common.interceptors.call import Serve, ServedCall


class InFlight:
    """Know the calls in progress; `tracked` is the step."""

    def __init__(self) -> None:
        self._methods: dict[int, str] = {}
        self._idle = asyncio.Event()
        self._idle.set()

    @property
    def methods(self) -> list[str]:
        """Return the full names of the methods that run now, one a call."""
        return sorted(self._methods.values())

    def tracked(self, proceed: Serve) -> Serve:
        """Count each call while it lasts, what runs after its answer included."""

        async def serve(call: ServedCall) -> Any:
            key = id(call)
            self._methods[key] = call.method
            self._idle.clear()
            try:
                return await proceed(call)
            finally:
                del self._methods[key]
                if not self._methods:
                    self._idle.set()

        return serve

    async def drained(self, timeout_seconds: float) -> bool:
        """Wait until nothing runs; tell whether that came to pass in time."""
        try:
            async with asyncio.timeout(timeout_seconds):
                await self._idle.wait()
        except TimeoutError:
            return False
        return True
