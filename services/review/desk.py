"""Change a draft and what the public sees of it, in one transaction (domain.md 4.2 to 4.4)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from sqlalchemy.ext.asyncio import AsyncSession

from libs.common.db import Database
from services.review import edits, promotion, repository_draft, repository_vocabulary
from services.review.drafts import Draft, DraftImage, locks_of, require, require_key, revision_of
from services.review.edits import Edit
from services.review.errors import ActorRequired, DraftNotFound, EtagMismatch, ReviewBusy
from services.review.models import GalleryTables
from services.review.places import Place
from services.review.promotion import Locks, Official
from services.review.repository_draft import Entry
from services.review.states import TRANSITIONS, Action
from services.review.turns import Turns

MAX_RESTARTS = 10


@dataclass(frozen=True)
class Wanted:
    """What is to be done to a draft. An empty etag fits any revision; `edit` comes before the action."""

    action: Action
    actor: str
    etag: str = ""
    reason: str = ""
    edit: Edit | None = None


@dataclass(frozen=True)
class Outcome:
    """The draft and its images after the change (before it, for a purge), and the row that shows it."""

    draft: Draft
    images: Sequence[DraftImage]
    official: Official | None


@dataclass(frozen=True)
class _Seen:
    """The draft and its images before any lock, and where an edit of key texts moves it to."""

    draft: Draft
    images: Sequence[DraftImage]
    target: Place | None

    @property
    def locks(self) -> Locks:
        """Return the locks of the draft's key and of the one it moves to."""
        places = [self.draft.place]
        return locks_of(places if self.target is None else [*places, self.target])


class _KeyMoved(Exception):
    """The draft's key isn't under the locks that were taken."""


class Desk:
    """Runs changes; safe to use from any number of servers and calls at once.

    `room` is how many changes may hold a connection at once.
    """

    def __init__(self, database: Database, *, room: int) -> None:
        self._database = database
        self._turns = Turns(room)

    async def change(self, tables: GalleryTables, draft_id: int, wanted: Wanted) -> Outcome:
        """Do what is wanted and recompute the official rows of all keys concerned.

        Raises:
            DraftNotFound, EtagMismatch, and the refusals of `drafts.require` and `drafts.require_key`.
            UnknownBrand, InvalidArgument: the edit is wrong.
            ReviewBusy: the draft's key was moved by others again and again, or too many are at its key.
        """
        if wanted.action is Action.PURGED and not wanted.actor:
            raise ActorRequired("a purge can't be undone: say who you are in the metadata x-frontrow-actor")
        for _ in range(MAX_RESTARTS):
            seen = await self._look(tables, draft_id, wanted)
            try:
                async with self._turns.at(seen.locks.keys), self._database.begin() as session:
                    return await _attempt(session, tables, seen, wanted)
            except _KeyMoved:
                continue  # rolled back; the next attempt sees where the key is now
        raise ReviewBusy(f"draft {draft_id} is being moved by others; try again")

    async def _look(self, tables: GalleryTables, draft_id: int, wanted: Wanted) -> _Seen:
        """Read what the locks are chosen by, and what can be read before they are held.

        The draft comes first: images that are newer than it are told by its revision.
        """
        async with self._database.statements() as session:
            draft = await _found(session, tables, draft_id)
            images: Sequence[DraftImage] = ()
            if wanted.action is not Action.PURGED:
                images = await repository_draft.images_of(session, tables, draft_id)
        return _Seen(draft, images, await self._target(tables, draft_id, wanted))

    async def _target(self, tables: GalleryTables, draft_id: int, wanted: Wanted) -> Place | None:
        """Return where an edit of key texts moves the draft to, None when it has no such edit.

        New names are added here, in a transaction of their own (see `repository_vocabulary`). The etag makes
        sure that the texts it starts from are still there when the edit is done.
        """
        if wanted.edit is None or not wanted.edit.texts:
            return None
        async with self._database.begin() as session:
            draft = await _found(session, tables, draft_id)
            require(draft, wanted.action)
            await check_etag(session, draft, wanted.etag)
            texts = edits.edited_texts(draft.place.texts, wanted.edit)
            return await repository_vocabulary.resolve(session, texts, create=True)


async def _found(session: AsyncSession, tables: GalleryTables, draft_id: int) -> Draft:
    draft = await repository_draft.find(session, tables, draft_id)
    if draft is None:
        raise not_found(tables, draft_id)
    return draft


def not_found(tables: GalleryTables, draft_id: int) -> DraftNotFound:
    """Return the refusal for an id that no draft of the kind has."""
    return DraftNotFound(f"no {tables.kind} draft has the id {draft_id}", draft_id=str(draft_id))


async def check_etag(session: AsyncSession, draft: Draft, etag: str) -> None:
    """Refuse a change that was made looking at an older draft.

    Raises:
        EtagMismatch: naming what changed since and who changed it.
    """
    if not etag or etag == draft.etag:
        return
    seen = revision_of(etag, draft)
    since = await repository_draft.history(
        session, draft.kind, draft.id, after_revision=draft.revision if seen is None else seen
    )
    # a change of state shows as `status`, an edit as its fields
    fields = {field for event in since for field, *_ in event.changes}
    fields |= {"status" for event in since if event.action != Action.EDITED.value}
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


async def _attempt(session: AsyncSession, tables: GalleryTables, seen: _Seen, wanted: Wanted) -> Outcome:
    """Do the change under the locks of the draft's key and of the one it moves to."""
    locks = seen.locks
    await promotion.lock(session, locks)
    before = await repository_draft.lock_and_find(session, tables, seen.draft)
    if before is None:
        raise not_found(tables, seen.draft.id)
    if not locks.covers(before.locks):
        raise _KeyMoved
    require(before, wanted.action)
    await check_etag(session, before, wanted.etag)
    after = await _apply(session, tables, before, seen.target, wanted)
    if after is not None and not locks.covers(after.locks):
        raise _KeyMoved
    counted = {draft.counted_key for draft in (before, after) if draft is not None}
    officials = await promotion.recompute_all(session, {key for key in counted if key is not None})
    if after is None:
        return Outcome(before, (), None)
    images = seen.images
    if wanted.edit is not None or before.revision != seen.draft.revision:
        images = await repository_draft.images_of(session, tables, after.id)
    key = after.counted_key
    return Outcome(after, images, None if key is None else officials.get(key))


async def _apply(
    session: AsyncSession, tables: GalleryTables, draft: Draft, target: Place | None, wanted: Wanted
) -> Draft | None:
    """Write the edit and the action; return the draft as it is then, None when it was purged."""
    if wanted.edit is not None:
        draft = await _edit(session, tables, draft, target, wanted)
    if wanted.action is Action.EDITED:
        if draft.counted_key is not None or draft.status in TRANSITIONS[Action.REOPENED][0]:
            require_key(draft.id, draft.place)
        return draft
    if wanted.action is Action.APPROVED:
        require_key(draft.id, draft.place)
    entry = Entry(wanted.action, wanted.actor, wanted.reason)
    if wanted.action is Action.PURGED:
        entry = replace(entry, changes=edits.changes_of_purge(draft))
        await repository_draft.record(session, tables, draft.id, draft.revision + 1, entry)
        if not await repository_draft.purge(session, tables, draft):
            raise _KeyMoved
        return None
    reason = wanted.reason if wanted.action is Action.REJECTED else ""
    after = await repository_draft.act(session, tables, draft, entry, reject_reason=reason)
    if after is None:  # somebody wrote without the locks
        raise _KeyMoved
    return after


async def _edit(
    session: AsyncSession, tables: GalleryTables, draft: Draft, target: Place | None, wanted: Wanted
) -> Draft:
    """Write the fields that differ; an edit that changes nothing leaves the draft and its etag alone."""
    edit = wanted.edit or Edit()
    images = await repository_draft.images_of(session, tables, draft.id)
    arranged = images if edit.images is None else edits.edited_images(images, edit.images)
    changes, values = edits.changes_of_fields(draft, edit, arranged)
    if arranged != images:
        changes += edits.changes_of_images(images, arranged)
        await repository_draft.write_images(session, tables, arranged)
    if target is not None and target.columns() != draft.place.columns():
        changes += edits.changes_of_place(draft.place, target)
        values |= target.columns()
    if not changes:
        return draft
    after = await repository_draft.write(session, tables, draft, values)
    if after is None:  # somebody wrote without the locks
        raise _KeyMoved
    entry = Entry(Action.EDITED, wanted.actor, changes=changes)
    await repository_draft.record(session, tables, draft.id, after.revision, entry)
    return await _found(session, tables, draft.id)
