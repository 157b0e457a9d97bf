"""Look at a draft and write what a change makes of it, on the driver's own connection. SQL only.

A change is decided by what was seen before any lock was taken. Under the locks it takes effect only while the
draft is still so: nothing is read twice where nobody else is at the same draft.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace

import asyncpg

from libs.common.lane import Connection
from services.review import statements_draft
from services.review.changes import Plan, Seen
from services.review.drafts import Change, Draft, DraftImage, Event, card_of
from services.review.models import GalleryTables
from services.review.places import Place
from services.review.repository_draft import to_draft
from services.review.states import Action

_DECISIONS = frozenset({Action.APPROVED, Action.REJECTED})


async def look(
    connection: Connection, tables: GalleryTables, draft_id: int, *, locked: bool = False
) -> Seen | None:
    """Return the draft, deleted or not, with its images; None when there is none. `locked` locks its row.

    The lock is a statement of its own: one that has to wait for the row would join what the row is now with
    the images that were there before.
    """
    if locked:
        await statements_draft.lock(tables).row(connection, draft_id=draft_id)
    row = await statements_draft.look(tables).row(connection, draft_id=draft_id)
    if row is None:
        return None
    images = [DraftImage(*image) for image in row["images"] or ()]
    count, cover = card_of(images, row["cover_media_id"])
    return Seen(to_draft(tables, row, image_count=count, cover_key=cover), images)


async def write(connection: Connection, tables: GalleryTables, plan: Plan, actor: str) -> Seen | None:
    """Write the draft, its images and the entries of the history; return them with the database's times.

    Takes effect only while the draft's revision and the roots of its names are as they were seen; None
    otherwise.
    """
    if plan.after is None:
        return plan.before if await _purge(connection, tables, plan, actor) else None
    draft, done = plan.after.draft, {entry.action for entry in plan.entries}
    row = await statements_draft.write(tables).row(
        connection,
        **_as_seen(plan, actor),
        **draft.place.columns(),
        **_arranged(plan.before.images, plan.after.images),
        title=draft.title,
        cover_media_id=draft.cover_media_id,
        status=draft.status.value,
        is_deleted=draft.is_deleted,
        decided_by=draft.decided_by,
        decided_at=draft.decided_at,
        reject_reason=draft.reject_reason,
        deleted_at=draft.deleted_at,
        decides=bool(done & _DECISIONS),
        deletes=Action.DELETED in done,
        new_revision=draft.revision,
    )
    return None if row is None else Seen(replace(draft, **row), plan.after.images)


async def _purge(connection: Connection, tables: GalleryTables, plan: Plan, actor: str) -> bool:
    """Remove the draft and its images for good; False when it isn't as it was seen."""
    row = await statements_draft.purge(tables).row(connection, **_as_seen(plan, actor))
    return row is not None


async def history(connection: Connection, draft: Draft, *, after_revision: int = 0) -> list[Event]:
    """Return the newest events after a revision, oldest first; at most 500."""
    rows = await statements_draft.HISTORY.rows(
        connection, kind=draft.kind, draft_id=draft.id, after_revision=after_revision
    )
    return [_event(row) for row in reversed(rows)]


def _event(row: asyncpg.Record) -> Event:
    changes = [Change(*change) for change in json.loads(row["changes"])]
    return Event(**{**row, "action": Action(row["action"]), "changes": changes})


def _as_seen(plan: Plan, actor: str) -> dict[str, object]:
    """Return the condition of the plan, and what it tells."""
    seen, entries = plan.before.draft, plan.entries
    return {
        **{"draft_id": seen.id, "revision": seen.revision, **_roots([draft.place for draft in plan.drafts])},
        **{"actor": actor, "actions": [entry.action.value for entry in entries]},
        **{"reasons": [entry.reason for entry in entries]},
        **{"changes": [json.dumps(entry.changes) for entry in entries]},
    }


def _roots(places: Sequence[Place]) -> dict[str, object]:
    """Return the names of the places in order, by table, and whom they stand for.

    A name that was seen to stand for one, then for another, is in it twice: the database will not find it so.
    """
    found: dict[str, object] = {}
    for table in places[0].names():
        pairs = sorted({place.names()[table] for place in places if None not in place.names()[table]})
        found[table] = [name for name, _ in pairs]
        found[f"roots_of_{table}"] = [root for _, root in pairs]
    return found


def _arranged(before: Sequence[DraftImage], after: Sequence[DraftImage]) -> dict[str, object]:
    """Return what may differ of images, by column; all empty when the images are as before."""
    changed = [] if before == after else after
    return {
        "image_ids": [image.id for image in changed],
        "positions": [image.position for image in changed],
        "hidden": [image.hidden for image in changed],
        "captions": [image.caption for image in changed],
    }
