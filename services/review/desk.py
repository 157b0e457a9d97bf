"""Change a draft and what the public sees of it, in one transaction (domain.md 4.2 to 4.4).

What a change does is decided by the draft as it is seen before any lock is taken. Under the locks of all
keys concerned the draft is written on the condition that it still is so, and the official rows are
recomputed: four round trips after the look.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from libs.common.db import Database
from libs.common.lane import Connection
from libs.common.lanes import Lanes
from services.review import edits, promotion, repository_change, repository_vocabulary
from services.review.changes import Plan, Seen, Wanted, decide
from services.review.drafts import Draft, DraftImage, require, revision_of
from services.review.errors import ActorRequired, DraftNotFound, EtagMismatch, ReviewBusy
from services.review.models import GalleryTables
from services.review.places import Place, Texts
from services.review.promotion import Official
from services.review.states import Action
from services.review.turns import Turns

MAX_RESTARTS = 10


@dataclass(frozen=True)
class Outcome:
    """The draft and its images after the change (before it, for a purge), and the row that shows it."""

    draft: Draft
    images: Sequence[DraftImage]
    official: Official | None


class Desk:
    """Runs changes; safe to use from any number of servers and calls at once.

    `room` is how many changes may hold a connection at once.
    """

    def __init__(self, database: Database, lanes: Lanes, *, room: int) -> None:
        self._database = database
        self._lanes = lanes
        self._turns = Turns(room)

    async def change(self, tables: GalleryTables, draft_id: int, wanted: Wanted) -> Outcome:
        """Do what is wanted and recompute the official rows of all keys concerned.

        Raises:
            DraftNotFound, EtagMismatch, and the refusals of `changes.decide`.
            UnknownBrand, InvalidArgument: the edit is wrong.
            ReviewBusy: the draft's key was moved by others again and again, or too many are at its key.
        """
        if wanted.action is Action.PURGED and not wanted.actor:
            raise ActorRequired("a purge can't be undone: say who you are in the metadata x-frontrow-actor")
        for _ in range(MAX_RESTARTS):
            async with self._lanes.statements() as connection:
                seen = await _examine(connection, tables, draft_id, wanted)
            target = await self._target(seen.draft, wanted)
            outcome = await self._carry_out(tables, decide(seen, target, wanted), target, wanted)
            if outcome is not None:
                return outcome
        raise ReviewBusy(f"draft {draft_id} is being moved by others; try again")

    async def _target(self, draft: Draft, wanted: Wanted) -> Place | None:
        """Return where an edit of key texts moves the draft to, None when it has no such edit.

        New names are added here, in a transaction of their own (see `repository_vocabulary`).
        """
        texts = _edited_texts(draft, wanted)
        if texts is None:
            return None
        async with self._database.begin() as session:
            return await repository_vocabulary.resolve(session, texts, create=True)

    async def _carry_out(
        self, tables: GalleryTables, plan: Plan, target: Place | None, wanted: Wanted
    ) -> Outcome | None:
        """Write the plan under the locks of its keys; None when others have moved a key meanwhile.

        A draft that was changed since it was seen is looked at once more: under the locks nobody changes it.
        """
        locks = plan.locks
        async with (
            self._turns.at(locks.keys),
            self._lanes.transaction(promotion.locking(locks)) as connection,
        ):
            outcome = await _write(connection, tables, plan, wanted)
            if outcome is not None:
                return outcome
            draft_id = plan.before.draft.id
            seen = await _examine(connection, tables, draft_id, wanted, locked=True)
            if _edited_texts(seen.draft, wanted) != (None if target is None else target.texts):
                return None
            plan = decide(seen, target, wanted)
            return await _write(connection, tables, plan, wanted) if locks.covers(plan.locks) else None


def _edited_texts(draft: Draft, wanted: Wanted) -> Texts | None:
    """Return the key texts that an edit gives the draft, None when it has no such edit."""
    if wanted.edit is None or not wanted.edit.texts:
        return None
    return edits.edited_texts(draft.place.texts, wanted.edit)


async def _examine(
    connection: Connection, tables: GalleryTables, draft_id: int, wanted: Wanted, *, locked: bool = False
) -> Seen:
    """Return the draft and its images; `locked` locks its row.

    Raises:
        DraftNotFound, EtagMismatch, and the refusals of `drafts.require`.
    """
    seen = await repository_change.look(connection, tables, draft_id, locked=locked)
    if seen is None:
        raise not_found(tables, draft_id)
    require(seen.draft, wanted.action)
    await _check_etag(connection, seen.draft, wanted.etag)
    return seen


async def _write(connection: Connection, tables: GalleryTables, plan: Plan, wanted: Wanted) -> Outcome | None:
    """Write the plan and recompute; None when the draft isn't as the plan has seen it."""
    written = await repository_change.write(connection, tables, plan, wanted.actor)
    if written is None:
        return None
    officials = await promotion.recompute_all(connection, plan.counted_keys)
    key = None if plan.after is None else plan.after.draft.counted_key
    return Outcome(written.draft, written.images, None if key is None else officials.get(key))


def not_found(tables: GalleryTables, draft_id: int) -> DraftNotFound:
    """Return the refusal for an id that no draft of the kind has."""
    return DraftNotFound(f"no {tables.kind} draft has the id {draft_id}", draft_id=str(draft_id))


async def _check_etag(connection: Connection, draft: Draft, etag: str) -> None:
    """Refuse a change that was made looking at an older draft.

    Raises:
        EtagMismatch: naming what changed since and who changed it.
    """
    if not etag or etag == draft.etag:
        return
    seen = revision_of(etag, draft)
    since = await repository_change.history(
        connection, draft, after_revision=draft.revision if seen is None else seen
    )
    # a change of state shows as `status`, an edit as its fields
    fields = {change.field for event in since for change in event.changes}
    fields |= {"status" for event in since if event.action is not Action.EDITED}
    actors = list(dict.fromkeys(event.actor for event in since if event.actor))
    what = ", ".join(sorted(fields)) or "unknown"
    raise EtagMismatch(
        f"draft {draft.id} was changed by {', '.join(actors) or 'somebody'} meanwhile ({what}); "
        "read it again and repeat your change",
        changed_fields=what,
        changed_by=", ".join(actors),
        current_etag=draft.etag,
        status=draft.status.value,
    )
