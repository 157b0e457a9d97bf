"""Hosts that asked for a pause (429 or 503 with Retry-After) of any worker, for all galleries of this one."""

from __future__ import annotations

import asyncio
import time

from libs.common.fetch_problems import HostPaused


class HostPauses:
    """Remember until when a host is left alone."""

    def __init__(self, longest_wait_seconds: float) -> None:
        self._longest_wait_seconds = longest_wait_seconds
        self._until: dict[str, float] = {}

    def pause(self, host: str, seconds: float) -> None:
        """Leave a host alone for some seconds; a pause that ends later stays."""
        until = time.monotonic() + seconds
        self._until[host] = max(until, self._until.get(host, 0.0))

    def are_on(self, host: str) -> bool:
        """Tell whether a host is to be left alone now."""
        return self._until.get(host, 0.0) > time.monotonic()

    async def wait(self, host: str) -> None:
        """Wait till the host's pause is over. Raises HostPaused when that takes too long."""
        left = self._until.get(host, 0.0) - time.monotonic()
        if left <= 0:
            self._until.pop(host, None)
            return
        if left > self._longest_wait_seconds:
            raise HostPaused(host, left)
        await asyncio.sleep(left)
