"""The care of stored images: clean-up in two passes, comparing objects with rows (domain.md 4.9)."""

from __future__ import annotations

import asyncio
import enum
import hashlib
import time
from dataclasses import asdict, dataclass, field
from datetime import timedelta
from typing import Any

from sqlalchemy import insert

from libs.common.db import Database
from libs.common.objects import ObjectMissing, ObjectStore, StoreUnavailable
from services.review import errors, repository_cleanup
from services.review.models_audit import audit_log
from services.review.repository_cleanup import Counts

WINDOW_ROWS = 2000
DELETE_BATCH = 100
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


@dataclass
class CleanUpResult:
    """What a clean-up did, or would do."""

    total_count: int = 0
    marked_count: int = 0
    deleted_count: int = 0
    deleted_bytes: int = 0
    deleted_keys: list[str] = field(default_factory=list)


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

    async def clean_up(self, *, actor: str, apply: bool) -> CleanUpResult:
        """Delete what was marked a grace ago, mark what is idle now; without `apply` write nothing.

        Raises:
            ActorRequired: `apply` without a name.
            ImplausibleShare: so much would be deleted that a mistake elsewhere is likelier.
            StoreUnavailable: what is still `deleting` is resumed by a call after the claim's lease.
        """
        if apply and not actor:
            raise errors.ActorRequired("say who you are in the metadata x-frontrow-actor")
        counts = await self._count()
        self._refuse_implausible(counts)
        if not apply:
            return await self._reported(counts)
        result = CleanUpResult(total_count=counts.total)
        after = 0
        while (last := await self._step(after, result)) is not None:
            after = last
        try:
            await self._delete_objects(result)
        finally:
            await self._audit(actor, result)
        return result

    async def _count(self) -> Counts:
        after, counts = 0, Counts()
        while True:
            async with self._database.begin() as session:
                last = await repository_cleanup.window(session, after, WINDOW_ROWS)
                if last is None:
                    return counts
                counts = counts.plus(await repository_cleanup.count(session, after, last, self._limits.grace))
            after = last

    def _refuse_implausible(self, counts: Counts) -> None:
        limit = self._limits
        if counts.to_delete > max(limit.plausible, limit.share * counts.total):
            share = counts.to_delete / max(counts.total, 1)
            raise errors.ImplausibleShare(
                f"{counts.to_delete} of {counts.total} images have no reference ({share:.0%}); "
                "that looks like a wrong database: nothing was changed",
                share=f"{share:.4f}",
                limit=f"{limit.share:.4f}",
            )

    async def _reported(self, counts: Counts) -> CleanUpResult:
        async with self._database.begin() as session:
            due = await repository_cleanup.due_keys(session, self._limits.grace, SHOWN_KEYS)
        keys = [row.key for row in due]
        return CleanUpResult(counts.total, counts.to_mark, counts.to_delete, counts.bytes_to_delete, keys)

    async def _step(self, after: int, result: CleanUpResult) -> int | None:
        """Condemn and mark one window in a short transaction; return its last id, None at the end."""
        grace = self._limits.grace
        async with self._database.begin() as session:
            last = await repository_cleanup.window(session, after, WINDOW_ROWS)
            if last is not None:
                await repository_cleanup.condemn(session, after, last, grace)
                result.marked_count += await repository_cleanup.mark(session, after, last, grace)
        return last

    async def _delete_objects(self, result: CleanUpResult) -> None:
        """Delete objects, then their rows; also those that a call that broke off has left behind."""
        while True:
            async with self._database.begin() as session:
                batch = await repository_cleanup.claim_condemned(session, DELETE_BATCH, CLAIM_LEASE)
            if not batch:
                return
            gone = []
            until = time.monotonic() + CLAIM_LEASE.total_seconds() / 2
            try:
                for row in batch:  # no transaction is open here
                    if time.monotonic() > until:
                        break
                    await self._store.delete(row.key)
                    gone.append(row)
            except StoreUnavailable as error:
                raise unavailable() from error
            async with self._database.begin() as session:
                await repository_cleanup.remove(session, [row.id for row in gone])
            result.deleted_count += len(gone)
            result.deleted_bytes += sum(row.size_bytes for row in gone)
            result.deleted_keys += [row.key for row in gone][: SHOWN_KEYS - len(result.deleted_keys)]

    async def _audit(self, actor: str, result: CleanUpResult) -> None:
        async with self._database.begin() as session:
            entry = {"action": "media.cleaned_up", "actor": actor, "details": asdict(result)}
            await session.execute(insert(audit_log).values(**entry))

    async def verify(self, after: int, limit: int) -> tuple[list[tuple[str, Damage]], int, int | None]:
        """Compare live rows after an id with their objects; writes nothing.

        Returns:
            The damaged keys, how many rows were compared, and the last id (None at the end).
        """
        async with self._database.begin() as session:
            rows = await repository_cleanup.live_rows(session, after, limit + 1)
        found = []
        for row in rows[:limit]:
            damage = await self._damage(row)
            if damage is not None:
                found.append((row.key, damage))
        return found, min(len(rows), limit), rows[limit - 1].id if len(rows) > limit else None

    async def _damage(self, row: Any) -> Damage | None:
        try:
            data = await self._store.get_bytes(row.key)
        except ObjectMissing:
            return Damage.MISSING
        except StoreUnavailable as error:
            raise unavailable() from error
        if len(data) != row.size_bytes:
            return Damage.LENGTH
        digest = await asyncio.to_thread(lambda: hashlib.sha256(data).hexdigest())
        return None if digest == row.sha256 else Damage.CONTENT


def unavailable() -> errors.StoreUnavailable:
    """Return the refusal for a store that can't be reached now."""
    return errors.StoreUnavailable(
        "the object store can't be reached now; try again", retry_delay_seconds=5.0
    )
