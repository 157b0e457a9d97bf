"""The care of stored images: clean-up in two passes, comparing objects with rows (domain.md 4.9)."""

from __future__ import annotations

import asyncio
import enum
import hashlib
import math
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from datetime import timedelta
from typing import Any

from sqlalchemy import insert

from libs.common.db import Database
from libs.common.objects import ObjectMissing, ObjectStore
from services.review import errors, repository_cleanup
from services.review.models_audit import audit_log

WINDOW_ROWS = 1000
# A claim waits for the disk with its locks held: few rows make a short wait.
DELETE_BATCH = 25
DELETERS = 8
# Each row that goes is looked for in every table that may refer to it; few at a time keep the locks short.
REMOVE_ROWS = 10
# How long rows are one clean-up's own; it begins no delete in the second half of that.
CLAIM_LEASE = timedelta(minutes=10)
SHOWN_KEYS = 100


@dataclass(frozen=True)
class CleanUpLimits:
    """Say what a clean-up may do.

    `grace` is how long a row stays untouched, and then marked. More than `share` of all originals is never
    deleted, unless it is no more than `plausible` of them.
    """

    grace: timedelta
    share: float
    plausible: int


@dataclass(frozen=True)
class Progress:
    """Where a clean-up goes on: after which id it looks, or that it has looked and only deletes."""

    after: int = 0
    looked: bool = False


@dataclass
class CleanUpResult:
    """What a clean-up did, or would do. `rest` is where to go on, None when it is done."""

    total_count: int = 0
    marked_count: int = 0
    deleted_count: int = 0
    deleted_bytes: int = 0
    deleted_keys: list[str] = field(default_factory=list)
    rest: Progress | None = None


class Damage(enum.Enum):
    """What is wrong with a stored object."""

    MISSING = "missing"
    LENGTH = "length"
    CONTENT = "content"


class MediaCare:
    """Runs clean-ups and comparisons; safe beside uploads, drafts and other clean-ups."""

    def __init__(self, database: Database, store: ObjectStore, limits: CleanUpLimits) -> None:
        self._database = database
        self._store = store
        self._limits = limits

    async def clean_up(
        self, *, actor: str, apply: bool, start: Progress = Progress(), seconds: float = math.inf
    ) -> CleanUpResult:
        """Delete what was marked a grace ago, mark what is idle now; without `apply` write nothing.

        Stops after so many seconds and says in the result's `rest` where to go on.

        Raises:
            ActorRequired: `apply` without a name.
            ImplausibleShare: so much would be deleted that a mistake elsewhere is likelier.
            StoreUnavailable: what is still `deleting` is resumed by a call after the claim's lease.
        """
        if apply and not actor:
            raise errors.ActorRequired("say who you are in the metadata x-frontrow-actor")
        until = time.monotonic() + seconds
        result = CleanUpResult(total_count=await self._plausible_total())
        try:
            result.rest = await self._look(result, start, until, apply=apply)
            if apply and result.rest is None:
                result.rest = await self._delete_objects(result, until)
        finally:
            if apply:
                await self._audit(actor, result)
        if not apply and not start.after:
            await self._name_some(result)
        return result

    async def _plausible_total(self) -> int:
        """Return the number of originals. Raises ImplausibleShare."""
        limit = self._limits
        async with self._database.begin() as session:
            total = await repository_cleanup.count_originals(session)
            allowed = max(limit.plausible, int(limit.share * total))
            due = await repository_cleanup.count_due(session, limit.grace, allowed + 1)
        if due > allowed:
            share = due / max(total, 1)
            raise errors.ImplausibleShare(
                f"{due} or more of {total} images have no reference ({share:.0%}); "
                "that looks like a wrong database: nothing was changed",
                share=f"{share:.4f}",
                limit=f"{limit.share:.4f}",
            )
        return total

    async def _name_some(self, result: CleanUpResult) -> None:
        async with self._database.begin() as session:
            due = await repository_cleanup.due_keys(session, self._limits.grace, SHOWN_KEYS)
        result.deleted_keys = [row.key for row in due]

    async def _look(
        self, result: CleanUpResult, start: Progress, until: float, *, apply: bool
    ) -> Progress | None:
        """Go through windows of rows till the time is up; None when all were looked at."""
        after = start.after
        while not start.looked:
            last = await self._step(after, result, apply=apply)
            if last is None:
                break
            after = last
            if time.monotonic() > until:
                return Progress(after)
        return None

    async def _step(self, after: int, result: CleanUpResult, *, apply: bool) -> int | None:
        """Look at one window and, with `apply`, condemn and mark; return its last id, None at the end.

        No lock outlives the few statements that need it.
        """
        grace = self._limits.grace
        async with self._database.statements() as session:
            window = await repository_cleanup.next_window(session, after, WINDOW_ROWS)
        if window is None:
            return None
        if not apply:
            async with self._database.statements() as session:
                counts = await repository_cleanup.count(session, window, grace)
            result.marked_count += counts.to_mark
            result.deleted_count += counts.to_delete
            result.deleted_bytes += counts.bytes_to_delete
            return window.last
        async with self._database.begin() as session:
            await repository_cleanup.commit_later(session)
            await repository_cleanup.condemn(session, window, grace)
        async with self._database.begin() as session:
            await repository_cleanup.commit_later(session)
            result.marked_count += await repository_cleanup.mark(session, window, grace)
        return window.last

    async def _delete_objects(self, result: CleanUpResult, until: float) -> Progress | None:
        """Delete objects, then their rows; also those that a call that broke off has left behind.

        The claim alone waits till it is on disk: all that led to it is then, too, and no file is deleted for
        a claim that a crash of the database could take back.
        """
        while True:
            async with self._database.begin() as session:
                batch = await repository_cleanup.claim_condemned(session, DELETE_BATCH, CLAIM_LEASE)
            if not batch:
                return None
            gone = await self._delete_batch(batch)
            for first in range(0, len(gone), REMOVE_ROWS):
                async with self._database.begin() as session:
                    await repository_cleanup.commit_later(session)
                    ids = [row.id for row in gone[first : first + REMOVE_ROWS]]
                    await repository_cleanup.remove(session, ids)
            result.deleted_count += len(gone)
            result.deleted_bytes += sum(row.size_bytes for row in gone)
            result.deleted_keys += [row.key for row in gone][: SHOWN_KEYS - len(result.deleted_keys)]
            if time.monotonic() > until:
                return Progress(looked=True)

    async def _delete_batch(self, batch: Sequence[Any]) -> list[Any]:
        """Delete the objects of rows, a few at a time, outside of any transaction; return the rows done."""
        gone: list[Any] = []
        waiting = iter(batch)
        until = time.monotonic() + CLAIM_LEASE.total_seconds() / 2

        async def deleter() -> None:
            for row in waiting:
                if time.monotonic() > until:
                    return
                await self._store.delete(row.key)
                gone.append(row)

        ends = await asyncio.gather(*(deleter() for _ in range(DELETERS)), return_exceptions=True)
        if failed := next((end for end in ends if end is not None), None):
            raise failed
        return gone

    async def _audit(self, actor: str, result: CleanUpResult) -> None:
        details = {name: value for name, value in asdict(result).items() if name != "rest"}
        async with self._database.begin() as session:
            entry = {"action": "media.cleaned_up", "actor": actor, "details": details}
            await session.execute(insert(audit_log).values(**entry))

    async def verify(
        self, after: int, limit: int, *, seconds: float = math.inf
    ) -> tuple[list[tuple[str, Damage]], int, int | None]:
        """Compare live rows after an id with their objects, for so many seconds at most; writes nothing.

        Returns:
            The damaged keys, how many rows were compared, and the last id (None at the end).

        Raises:
            StoreUnavailable: an object can't be read now.
        """
        until = time.monotonic() + seconds
        async with self._database.begin() as session:
            rows = await repository_cleanup.live_rows(session, after, limit + 1)
        found, checked = [], 0
        for row in rows[:limit]:
            damage = await self._damage(row)
            checked += 1
            if damage is not None and await self._still_live(row.id):
                found.append((row.key, damage))
            if time.monotonic() > until:
                break
        return found, checked, rows[checked - 1].id if len(rows) > checked else None

    async def _still_live(self, media_id: int) -> bool:
        """Tell whether a row is live now: one that a clean-up removed meanwhile isn't damaged."""
        async with self._database.begin() as session:
            return await repository_cleanup.is_live(session, media_id)

    async def _damage(self, row: Any) -> Damage | None:
        try:
            data = await self._store.get_bytes(row.key)
        except ObjectMissing:
            return Damage.MISSING
        if len(data) != row.size_bytes:
            return Damage.LENGTH
        digest = await asyncio.to_thread(lambda: hashlib.sha256(data).hexdigest())
        return None if digest == row.sha256 else Damage.CONTENT
