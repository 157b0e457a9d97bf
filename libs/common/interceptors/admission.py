"""Let in what can be done in good time, refuse the rest at once: a server under too much load stays quick.

Three kinds of calls have places of their own, so that none takes those of another. *Work* is what ends by
itself: its places follow what the server gets done. *Waits* (long polls and streams) last as long as their
caller likes: their number is fixed. *Urgent* calls keep what was done already, beats and ends of runs among
them: refusing those would lose work and make more of it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from typing import Any

import grpc
import structlog
from grpc_status import rpc_status

from libs.common import statuses
from libs.common.errors import DomainError, Kind
from libs.common.interceptors.call import Serve, ServedCall, Shape
from libs.common.interceptors.sojourn import Sojourn, SojournTimes
from libs.common.telemetry import Telemetry

log = structlog.get_logger(__name__)

IsUrgent = Callable[[Any], bool]
"""Tell of a request message (None where it isn't one, or is a stream) whether the call is urgent."""

ALWAYS_IN = 128
"""So many calls work at once whatever the server gets done: as many come together by chance, or wait for
one another at a key."""
GOOD_SECONDS = 0.5
"""How long a call may take on a server that has as many as it lets in."""
WINDOW_SECONDS = 0.5
RETRY_SECONDS = 1.0
_TELL_SECONDS = 1.0


class ServerBusy(DomainError):
    """Refuse a call because those that are here already are as many as can be served in good time."""

    kind = Kind.RESOURCE_EXHAUSTED
    reason = "SERVER_BUSY"


def always(_request: Any) -> bool:
    """Call every request of a method urgent."""
    return True


def all_of(service: str, *methods: str) -> dict[str, IsUrgent]:
    """Return that all calls of some methods of a service are urgent."""
    return {f"/{service}/{method}": always for method in methods}


class WorkPlaces:
    """How many calls may work at once: no more than the server gets done in `GOOD_SECONDS`.

    What waits in front of a server that does `n` a second waits `places / n` seconds, whatever holds it up:
    the processor or the database. `n` is what was done lately, from the moment when more than `ALWAYS_IN`
    were here until half as many are; at other times there is no telling, and `most` may come.
    """

    def __init__(self, most: int, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._most = most
        self._least = min(ALWAYS_IN, most)
        self._monotonic = monotonic
        self._crowded_since: float | None = None
        self._done = 0
        self.places = most
        self.taken = 0

    def enter(self) -> bool:
        """Take a place; return False when there is none."""
        if self.taken >= self.places:
            self._measure()
            if self.taken >= self.places:
                return False
        self.taken += 1
        if self._crowded_since is None and self.taken > self._least:
            self._crowded_since, self._done = self._monotonic(), 0
        return True

    def leave(self) -> None:
        """Give the place back."""
        self.taken -= 1
        self._done += 1
        if self.taken <= self._least // 2:
            self._crowded_since, self.places = None, self._most
        else:
            self._measure()

    def _measure(self) -> None:
        now = self._monotonic()
        if self._crowded_since is None or now - self._crowded_since < WINDOW_SECONDS:
            return
        a_second = self._done / (now - self._crowded_since)
        self.places = max(self._least, min(self._most, round(a_second * GOOD_SECONDS)))
        self._crowded_since, self._done = now, 0


class FixedPlaces:
    """A number of places that stays the same."""

    def __init__(self, places: int) -> None:
        self.places = places
        self.taken = 0

    def enter(self) -> bool:
        """Take a place; return False when there is none."""
        if self.taken >= self.places:
            return False
        self.taken += 1
        return True

    def leave(self) -> None:
        """Give the place back."""
        self.taken -= 1


class Admission:
    """Give each call of a server its place; `limited` is the step.

    `most` is how many calls of each kind may be here at most, waits by `room_for_waits` more. `long_polls`
    are the unary methods that wait, `urgent` says which calls of which methods are.
    """

    def __init__(
        self,
        domain: str,
        most: int,
        telemetry: Telemetry,
        *,
        room_for_waits: int,
        long_polls: Collection[str],
        urgent: Mapping[str, IsUrgent],
    ) -> None:
        self._work = WorkPlaces(most)
        self._waits = FixedPlaces(most + room_for_waits)
        self._urgent = FixedPlaces(most)
        self._long_polls = frozenset(long_polls)
        self._is_urgent = urgent
        self._telemetry = telemetry
        self._sojourn_times = SojournTimes()
        # as the queues inside of gRPC are: those methods have their own, all others share one (own_queues.py)
        self._sojourns = {method: Sojourn() for method in urgent}
        self._shared_sojourn = Sojourn()
        self._told_at, self._refused = 0.0, 0
        busy = ServerBusy(
            f"the server has as much to do as it can in good time; try again in {RETRY_SECONDS:g} s",
            retry_delay_seconds=RETRY_SECONDS,
        )
        # Made once: a refusal must cost next to nothing.
        self._busy = rpc_status.to_status(statuses.to_status(busy, domain))

    @property
    def most_calls(self) -> int:
        """How many calls there may be in all."""
        return self._work.places + self._waits.places + self._urgent.places

    def limited(self, proceed: Serve) -> Serve:
        """Serve a call at a place of its kind, or refuse it."""

        async def serve(call: ServedCall) -> Any:
            places = self._places_for(call)
            if self._waited_too_long(call, places) or not places.enter():
                await self._refuse(call)
            try:
                return await proceed(call)
            finally:
                places.leave()

        return serve

    def _places_for(self, call: ServedCall) -> WorkPlaces | FixedPlaces:
        is_urgent = self._is_urgent.get(call.method)
        if is_urgent is not None and is_urgent(getattr(call.request, "message", None)):
            return self._urgent
        ends_by_itself = call.shape is Shape.UNARY_UNARY and call.method not in self._long_polls
        return self._work if ends_by_itself else self._waits

    def _waited_too_long(self, call: ServedCall, places: WorkPlaces | FixedPlaces) -> bool:
        if places is not self._work:
            return False
        sojourn = self._sojourns.get(call.method, self._shared_sojourn)
        return sojourn.is_too_long(self._sojourn_times.of(call))

    async def _refuse(self, call: ServedCall) -> None:
        self._refused += 1
        self._telemetry.refused(call.method, ServerBusy.reason)
        self._telemetry.record("server", call.method, grpc.StatusCode.RESOURCE_EXHAUSTED.name, 0.0)
        now = time.monotonic()
        if now - self._told_at >= _TELL_SECONDS:
            log.warning("server.busy", refused=self._refused, places=self._work.places, method=call.method)
            self._told_at, self._refused = now, 0
        await call.context.abort(self._busy.code, self._busy.details, self._busy.trailing_metadata)
