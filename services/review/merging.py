"""Merge keys and undo it: names locked alone, then all keys concerned, then recomputed (domain.md 4.4)."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import asdict, dataclass

from sqlalchemy import insert
from sqlalchemy.ext.asyncio import AsyncSession

from libs.common.db import Database, driver_of
from services.review import promotion, repository_merge
from services.review.errors import ActorRequired, KeyMerged, KeyNotMerged, MergeCycle, ReviewBusy
from services.review.keys import PromotionKey, vocabulary_lock_id
from services.review.models_audit import audit_log
from services.review.promotion import Locks
from services.review.repository_merge import Identity, Pointer, Pointers, moved

MAX_RESTARTS = 10


@dataclass(frozen=True)
class Report:
    """What a merge or its undo concerns, as the proto's MergeReport."""

    draft_count: int
    shown_draft_count: int
    hidden_official_count: int
    gaining_official_count: int


@dataclass(frozen=True)
class _Plan:
    """A move of keys from one root to another, and what must be locked for it."""

    source: Pointer
    canonical: Identity | None
    root: Identity
    members: frozenset[Identity]
    losing: dict[PromotionKey, int]
    gaining: frozenset[PromotionKey]
    locks: Locks


class Merger:
    """Runs merges; safe beside approvals and other merges on any number of servers."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def merge(
        self, pointers: Pointers, source: Identity, target: Identity, *, actor: str, apply: bool
    ) -> Report:
        """Point `source` at `target` and recompute the official rows; without `apply` only report.

        Raises:
            KeyNotFound, KeyMerged, MergeCycle, ActorRequired, ReviewBusy
        """
        return await self._run(pointers, source, target, actor=actor, apply=apply)

    async def unmerge(self, pointers: Pointers, source: Identity, *, actor: str, apply: bool) -> Report:
        """Clear where `source` points and recompute the official rows; without `apply` only report.

        Raises:
            KeyNotFound, KeyNotMerged, ActorRequired, ReviewBusy
        """
        return await self._run(pointers, source, None, actor=actor, apply=apply)

    async def _run(
        self, pointers: Pointers, source: Identity, target: Identity | None, *, actor: str, apply: bool
    ) -> Report:
        if apply and not actor:
            raise ActorRequired("say who you are in the metadata x-frontrow-actor")
        for _ in range(MAX_RESTARTS):
            async with self._database.begin() as session:
                plan = await _plan(session, pointers, source, target)
                if not apply:
                    return await _report(session, pointers, plan)
                driver = await driver_of(session)
                await driver.execute(promotion.locking(plan.locks, exclusive_names=True))
                settled = await _plan(session, pointers, source, target)
                if plan.locks.covers(settled.locks):
                    return await _move(session, pointers, settled, actor)
        raise ReviewBusy(f"{pointers.noun} {source} is being changed by others; try again")


async def _plan(
    session: AsyncSession, pointers: Pointers, source_id: Identity, target_id: Identity | None
) -> _Plan:
    """Return what the move concerns as things are now; refuse one that makes no sense."""
    source = await repository_merge.find(session, pointers, source_id)
    if target_id is None:
        if source.canonical is None:
            raise KeyNotMerged(f"{pointers.noun} {source_id} points nowhere", id=str(source_id))
        root, names = source.identity, {source.identity, source.canonical, source.root}
    else:
        target = await repository_merge.find(session, pointers, target_id)
        _refuse(pointers, source, target)
        root, names = target.root, {source.identity, target.identity, target.root}
    members = frozenset(await repository_merge.subtree(session, pointers, source_id))
    losing = await repository_merge.shown_keys(session, pointers, members)
    gaining = frozenset(moved(pointers, key, root) for key in losing)
    locks = Locks(
        frozenset(vocabulary_lock_id(pointers.table.name, name) for name in names),
        frozenset(key.lock_id for key in (*losing, *gaining)),
    )
    return _Plan(source, target_id, root, members, losing, gaining, locks)


def _refuse(pointers: Pointers, source: Pointer, target: Pointer) -> None:
    if source.canonical is not None:
        raise KeyMerged(
            f"{pointers.noun} {source.identity} points at {source.canonical} already; undo that first",
            id=str(source.identity),
            canonical_id=str(source.canonical),
        )
    if target.root == source.identity:
        raise MergeCycle(
            f"{pointers.noun} {target.identity} stands for {source.identity} itself",
            id=str(source.identity),
        )


async def _report(session: AsyncSession, pointers: Pointers, plan: _Plan) -> Report:
    everybody = await repository_merge.subtree(session, pointers, plan.source.root)
    shown = await repository_merge.shown_keys(session, pointers, everybody)
    # a key that has no shown drafts but those that leave it
    hidden = sum(shown.get(key) == count for key, count in plan.losing.items())
    return Report(
        draft_count=await repository_merge.count_drafts(session, pointers, plan.members),
        shown_draft_count=sum(plan.losing.values()),
        hidden_official_count=hidden,
        gaining_official_count=len(plan.gaining),
    )


async def _move(session: AsyncSession, pointers: Pointers, plan: _Plan, actor: str) -> Report:
    report = await _report(session, pointers, plan)
    await repository_merge.point(session, pointers, plan.source.identity, plan.canonical)
    await repository_merge.reroot(session, pointers, plan.members, plan.root)
    await promotion.recompute_all(await driver_of(session), _distinct(plan.losing, plan.gaining))
    action = "keys.unmerged" if plan.canonical is None else "keys.merged"
    details = {
        "vocabulary": pointers.noun,
        "source": plan.source.identity,
        "target": plan.source.canonical if plan.canonical is None else plan.canonical,
        **asdict(report),
    }
    await session.execute(insert(audit_log).values(action=action, actor=actor, details=details))
    return report


def _distinct(*groups: Collection[PromotionKey]) -> set[PromotionKey]:
    return {key for group in groups for key in group}
