"""How many submissions a key may make: a bucket of tokens beside the key, shared by all servers.

A server takes tokens from the bucket by slices, in the statement that takes the submissions, and uses them up
before it asks again: the bucket's row is written some ten times a second at most, however many calls come.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

SLICE_SECONDS = 0.1
# A slice that nobody used meanwhile is given up, so that an idle server holds nothing back for later.
KEEP_SECONDS = 1.0


class Wish(NamedTuple):
    """What a flush needs of one key's budget: tokens held here, and those wanted from the bucket."""

    key_id: str
    held: int
    wanted: int


class Slices:
    """The tokens that this server holds, by key."""

    def __init__(self, per_second: float, burst: int) -> None:
        self._size = max(1, min(burst, int(per_second * SLICE_SECONDS)))
        self._held: dict[str, tuple[int, float]] = {}

    def wishes(self, calls: Mapping[str, int], now: float) -> list[Wish]:
        """Return what so many calls of each key need; `now` is the server's monotonic time in seconds."""
        self._held = {key: slice_ for key, slice_ in self._held.items() if slice_[1] > now}
        found = []
        for key_id, count in calls.items():
            held, _ = self._held.get(key_id, (0, 0.0))
            found.append(Wish(key_id, held, 0 if held >= count else max(count - held, self._size)))
        return found

    def settle(self, wish: Wish, *, granted: int, calls: int, now: float) -> None:
        """Note what is left of a key's tokens after a flush with so many calls of it."""
        left = wish.held + granted - calls
        if left <= 0:
            self._held.pop(wish.key_id, None)
            return
        until = now + KEEP_SECONDS if granted else self._held[wish.key_id][1]
        self._held[wish.key_id] = (left, until)
