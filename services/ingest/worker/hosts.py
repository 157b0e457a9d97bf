"""Hosts that asked for a pause (429 or 503 with Retry-After) of any worker, for all galleries of this one."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from libs.common.fetch_problems import HostPaused

NEWS_SECONDS = 1.0
FORGET_SECONDS = 60.0
"""Between looks for pauses that are over."""


class HostPauses:
    """Remember until when a host is left alone, and forget it then."""

    def __init__(
        self, longest_wait_seconds: float, *, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._longest_wait_seconds = longest_wait_seconds
        self._monotonic = monotonic
        self._until: dict[str, float] = {}
        self._forgot_at = monotonic()

    def __len__(self) -> int:
        """Return how many hosts are remembered."""
        return len(self._until)

    def pause(self, host: str, seconds: float) -> bool:
        """Leave a host alone for some seconds; a pause that ends later stays.

        Tell whether that is news: answers that came together ask for about the same.
        """
        now = self._monotonic()
        self._forget_past(now)
        before = self._until.get(host, 0.0)
        self._until[host] = max(now + seconds, before)
        return before <= now or now + seconds > before + NEWS_SECONDS

    def _forget_past(self, now: float) -> None:
        if now - self._forgot_at >= FORGET_SECONDS:
            self._forgot_at = now
            self._until = {host: until for host, until in self._until.items() if until > now}

    def are_on(self, host: str) -> bool:
        """Tell whether a host is to be left alone now."""
        return self._until.get(host, 0.0) > self._monotonic()

    async def wait(self, host: str) -> None:
        """Wait till the host's pause is over. Raises HostPaused when that takes too long."""
        left = self._until.get(host, 0.0) - self._monotonic()
        if left <= 0:
            return
        if left > self._longest_wait_seconds:
            raise HostPaused(host, left)
        await asyncio.sleep(left)
