"""How many submissions a key may make: a bucket of tokens for each, on each server."""

from __future__ import annotations

import time
from collections import OrderedDict

from services.ingest.errors import RateLimited

MAX_KEYS = 10_000


class KeyBudgets:
    """Buckets that fill at `per_second` up to `burst`; those used longest ago are forgotten, that is full."""

    def __init__(self, per_second: float, burst: int) -> None:
        self._per_second = per_second
        self._burst = float(burst)
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def spend(self, key_id: str, now: float | None = None) -> None:
        """Take a token of a key; call it once the key has proved itself by its signature.

        Raises:
            RateLimited: there is none; it says when there will be.
        """
        now = time.monotonic() if now is None else now
        tokens, at = self._buckets.pop(key_id, (self._burst, now))
        tokens = min(self._burst, tokens + (now - at) * self._per_second)
        allowed = tokens >= 1
        self._buckets[key_id] = (tokens - 1 if allowed else tokens, now)
        if len(self._buckets) > MAX_KEYS:
            self._buckets.popitem(last=False)
        if not allowed:
            raise RateLimited(
                f"this key makes more than {self._per_second:g} calls a second: slow down",
                retry_delay_seconds=(1 - tokens) / self._per_second,
            )
