"""Which kinds of an outbox's rows wait for a peer that is away, and when one of them may probe."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

import grpc
import structlog

from libs.common.breaker import LONGEST_PAUSE_SECONDS, Breaker
from libs.common.client import error_info, is_outage

log = structlog.get_logger(__name__)


def says_peer_is_away(error: Exception) -> bool:
    """Tell whether the peer, or the way to it, is in trouble, and not what was asked."""
    if isinstance(error, grpc.RpcError):
        return is_outage(error)
    return isinstance(error, TimeoutError | ConnectionError)


class Pauses:
    """A breaker for each kind: what a peer doesn't know or doesn't allow is a kind of calls, not all."""

    def __init__(
        self, context: str, kinds: Iterable[str], *, wake: Callable[[], None], longest_seconds: float
    ) -> None:
        """Begin with all kinds going. ``wake`` is called when a pause is over, which lasts at most
        ``longest_seconds``, or 1 s beyond what the peer asked for.
        """
        self._context = context
        self._wake = wake
        self._longest_told_seconds = longest_seconds
        longest = min(LONGEST_PAUSE_SECONDS, longest_seconds)
        self._breakers = {kind: Breaker(longest_seconds=longest) for kind in kinds}
        self._last_failed = dict.fromkeys(self._breakers, 0)

    def paused(self) -> list[str]:
        """Return the kinds that wait."""
        return [kind for kind, breaker in self._breakers.items() if breaker.is_open]

    @property
    def all_paused(self) -> bool:
        """Tell whether nothing but probes may go."""
        return all(breaker.is_open for breaker in self._breakers.values())

    def due(self) -> list[tuple[str, int]]:
        """Return the kinds that may probe, each with the id of its row that failed last.

        Another row should probe: so one whose own trouble looks like an outage doesn't hold up the others.
        """
        now = _now()
        return [(k, self._last_failed[k]) for k, breaker in self._breakers.items() if breaker.probe_due(now)]

    def probing(self, kind: str) -> None:
        """Note that a call of this kind probes; ``failed`` or ``answered`` must be told how it ended."""
        self._breakers[kind].probing()

    def answered(self, kind: str, began: float) -> None:
        """Note that the peer answered a call, whatever it said; ``began`` is the event loop's time."""
        breaker = self._breakers.get(kind)
        if breaker is not None and breaker.answered(began):
            log.info("outbox.resumed", context=self._context, kind=kind)

    def failed(self, kind: str, row_id: int, error: Exception, began: float) -> bool:
        """Note that a call failed since the peer is away; tell whether it had served up to then."""
        breaker = self._breakers[kind]
        told = error_info(error).retry_delay_seconds if isinstance(error, grpc.RpcError) else None
        told_seconds = min(told or 0.0, self._longest_told_seconds)
        pause = breaker.failed(began, _now(), told_seconds=told_seconds)
        if pause is None:
            return False
        self._last_failed[kind] = row_id
        asyncio.get_running_loop().call_later(pause, self._wake)
        log.warning(
            "outbox.paused",
            context=self._context,
            kind=kind,
            failures=breaker.failures,
            pause_seconds=round(pause, 3),
            error=repr(error)[:500],
        )
        return breaker.failures == 1


def _now() -> float:
    return asyncio.get_running_loop().time()
