"""The desk for submissions: calls that come together enter by one statement (domain.md 3.1)."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple
from uuid import UUID

import structlog

from libs.common.coalesce import Coalescer
from libs.common.lane import Connection, Lane
from services.ingest.budget import Slices, Wish
from services.ingest.errors import ClockSkew, FirstJobGone, NonceReplayed, RateLimited, RequestIdReused
from services.ingest.keyring import unknown
from services.ingest.repository_submit import Entry, FirstJob, Limits, Verdict, enter, first_jobs

log = structlog.get_logger(__name__)

# A flush holds so many bytes of galleries, counting what each call costs beside them.
MOST_BYTES = 8 << 20
CALL_BYTES = 32 << 10


class Entered(NamedTuple):
    """The job of a call that was let in, and whether this call made it."""

    job_id: UUID
    accepted: bool


class _Answer(NamedTuple):
    verdict: Verdict
    first: FirstJob | None = None
    retry_seconds: float = 0.0


class SubmitDesk:
    """Takes calls whose signatures are good."""

    def __init__(self, lane: Lane, limits: Limits) -> None:
        self._lane = lane
        self._limits = limits
        self._slices = Slices(limits.per_second, limits.burst)
        self._calls = Coalescer[Entry, _Answer](self._flush, most=MOST_BYTES, weigh=_weight)

    async def submit(self, entry: Entry) -> Entered | None:
        """Let a call in; None when it brings no job.

        Raises:
            UnknownKey, RateLimited, ClockSkew, NonceReplayed, RequestIdReused, FirstJobGone: it isn't let
                in; nothing of it was stored, but in the last two cases the nonce.
        """
        answer = await self._calls.submit(entry)
        if answer.verdict.name == "known" and answer.first is None:
            raise FirstJobGone("the first job of this request_id can't be read just now: submit again")
        refuse(entry, answer.verdict, self._limits, answer.retry_seconds)
        if entry.job is None:
            return None
        if answer.first is None:
            return Entered(entry.job.job_id, accepted=True)
        if answer.first.request_digest != entry.job.request_digest:
            raise RequestIdReused(
                "this request_id is known with another gallery: use a new one for each submission",
                job_id=str(answer.first.job_id),
            )
        return Entered(answer.first.job_id, accepted=False)

    async def drained(self) -> None:
        """Wait until no flush is in flight."""
        await self._calls.drained()

    async def _flush(self, entries: Sequence[Entry]) -> list[_Answer]:
        calls = Counter(entry.key_id for entry in entries)
        wishes = self._slices.wishes(calls, time.monotonic())
        async with self._lane.statements() as connection:
            verdicts = await enter(connection, entries, wishes, self._limits)
            self._settle(entries, verdicts, wishes, calls)
            known = [
                (verdict.spider_id, entry.job.request_id)
                for entry, verdict in zip(entries, verdicts, strict=True)
                if verdict.name == "known" and verdict.spider_id is not None and entry.job is not None
            ]
            firsts = iter(await _firsts(connection, known))
        delays = _delays(entries, verdicts, self._limits.per_second)
        return [
            _Answer(verdict, next(firsts) if verdict.name == "known" else None, delay)
            for verdict, delay in zip(verdicts, delays, strict=True)
        ]

    def _settle(
        self, entries: Sequence[Entry], verdicts: Sequence[Verdict], wishes: Sequence[Wish],
        calls: Counter[str],
    ) -> None:  # fmt: skip
        granted = {entry.key_id: verdict.tokens for entry, verdict in zip(entries, verdicts, strict=True)}
        now = time.monotonic()
        for wish in wishes:
            key_id = wish.key_id
            self._slices.settle(wish, granted=granted[key_id], calls=calls[key_id], now=now)


async def _firsts(connection: Connection, known: Sequence[tuple[UUID, str]]) -> list[FirstJob | None]:
    """Read the first jobs of known request ids. The flush is committed: no other call fails for it."""
    try:
        return await first_jobs(connection, known) if known else []
    except Exception as error:  # noqa: BLE001 - whatever it is, these callers are told to try again
        log.warning("ingest.first_jobs_unread", calls=len(known), error=repr(error)[:500])
        return [None] * len(known)


def _weight(entry: Entry) -> int:
    return CALL_BYTES + (len(entry.job.gallery) if entry.job else 0)


def _delays(entries: Sequence[Entry], verdicts: Sequence[Verdict], per_second: float) -> list[float]:
    """Return for each limited call when its turn comes, were the key to make no other calls; else 0."""
    behind: Counter[str] = Counter()
    delays = []
    for entry, verdict in zip(entries, verdicts, strict=True):
        if verdict.name != "limited":
            delays.append(0.0)
            continue
        behind[entry.key_id] += 1
        delays.append((behind[entry.key_id] - (verdict.available - verdict.tokens)) / per_second)
    return delays


def refuse(entry: Entry, verdict: Verdict, limits: Limits, retry_seconds: float) -> None:
    """Return for a call that was let in. Raises what the verdict says otherwise."""
    match verdict.name:
        case "unknown_key":
            raise unknown(entry.key_id)
        case "limited":
            raise RateLimited(
                f"this key makes more than {limits.per_second:g} calls a second: slow down",
                retry_delay_seconds=max(retry_seconds, 0.001),
            )
        case "skewed":
            raise ClockSkew(
                f"the signature's time is {entry.signed_at - verdict.now:+.0f} s off, at most"
                f" {limits.window_seconds} s are allowed: set the spider's clock and sign again",
                server_time=f"{verdict.now:.0f}",
            )
        case "replayed":
            raise NonceReplayed("this nonce was used before: sign again with a fresh one, same request_id")
