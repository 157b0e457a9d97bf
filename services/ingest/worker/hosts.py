"""Hosts that asked for a pause (429 or 503 with Retry-After), for all galleries of a worker."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from services.ingest.worker.problems import HostPaused

LONGEST_PAUSE_SECONDS = 3600.0


def retry_after_seconds(value: str | None, now: datetime | None = None) -> float | None:
    """Return the pause a Retry-After header asks for, None when it is absent or says nothing."""
    if not value:
        return None
    if value.strip().isdigit():
        return min(float(value.strip()), LONGEST_PAUSE_SECONDS)
    try:
        when = parsedate_to_datetime(value)
    except ValueError:
        return None
    if when.tzinfo is None:
        when = when.replace(tzinfo=UTC)
    seconds = (when - (now or datetime.now(UTC))).total_seconds()
    return max(0.0, min(seconds, LONGEST_PAUSE_SECONDS))


class HostPauses:
    """Remember until when a host is left alone."""

    def __init__(self, longest_wait_seconds: float) -> None:
        self._longest_wait_seconds = longest_wait_seconds
        self._until: dict[str, float] = {}

    def pause(self, host: str, seconds: float) -> None:
        """Leave a host alone for some seconds; a longer pause that is on stays."""
        until = time.monotonic() + seconds
        self._until[host] = max(until, self._until.get(host, 0.0))

    async def wait(self, host: str) -> None:
        """Wait till the host's pause is over. Raises HostPaused when that takes too long."""
        left = self._until.get(host, 0.0) - time.monotonic()
        if left <= 0:
            self._until.pop(host, None)
            return
        if left > self._longest_wait_seconds:
            raise HostPaused(host, left)
        await asyncio.sleep(left)
