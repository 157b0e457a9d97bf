"""What a change makes of a draft: the pure part of every action (domain.md 4.2 to 4.4)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from services.review import edits
from services.review.drafts import Draft, DraftImage, Entry, locks_of, require_key
from services.review.edits import Edit
from services.review.keys import PromotionKey
from services.review.places import Place
from services.review.promotion import Locks
from services.review.states import TRANSITIONS, Action, Status


@dataclass(frozen=True)
class Wanted:
    """What is to be done to a draft. An empty etag fits any revision; `edit` comes before the action."""

    action: Action
    actor: str
    etag: str = ""
    reason: str = ""
    edit: Edit | None = None


@dataclass(frozen=True)
class Seen:
    """A draft and its images, as one statement read them."""

    draft: Draft
    images: Sequence[DraftImage]


@dataclass(frozen=True)
class Plan:
    """What was seen, what becomes of it (None: a purge), and what the history tells.

    An edit that changes nothing has no entries: it leaves the draft and its etag alone.
    """

    before: Seen
    after: Seen | None
    entries: tuple[Entry, ...]

    @property
    def drafts(self) -> list[Draft]:
        """Return the draft as it was and as it becomes."""
        return [seen.draft for seen in (self.before, self.after) if seen is not None]

    @property
    def locks(self) -> Locks:
        """Return the locks under which the change may be made."""
        return locks_of([draft.place for draft in self.drafts])

    @property
    def counted_keys(self) -> set[PromotionKey]:
        """Return the keys whose official rows the change may concern."""
        return {key for draft in self.drafts if (key := draft.counted_key) is not None}


def decide(seen: Seen, target: Place | None, wanted: Wanted) -> Plan:
    """Return what the wanted makes of the draft; `target` is where the edit's key texts move it to.

    The draft's state allows the action, see `drafts.require`.

    Raises:
        InvalidArgument: the edit is wrong.
        KeyIncomplete: the draft would be promoted without a key.
    """
    if wanted.action is Action.PURGED:
        entry = Entry(wanted.action, wanted.reason, edits.changes_of_purge(seen.draft))
        return Plan(seen, None, (entry,))
    draft, images = seen.draft, seen.images
    entries: list[Entry] = []
    if wanted.edit is not None:
        draft, images, changes = edits.edited(draft, images, wanted.edit, target)
        if changes:
            entries.append(Entry(Action.EDITED, changes=changes))
    if wanted.action is not Action.EDITED:
        draft = _acted(draft, wanted)
        entries.append(Entry(wanted.action, wanted.reason))
    if draft.status is Status.APPROVED and wanted.action in (Action.EDITED, Action.APPROVED):
        require_key(draft.id, draft.place)
    draft = replace(draft, revision=draft.revision + len(entries))
    return Plan(seen, Seen(draft, images), tuple(entries))


def _acted(draft: Draft, wanted: Wanted) -> Draft:
    """Return the draft after an action that is no edit; the times of it are the database's."""
    if wanted.action is Action.DELETED:
        return replace(draft, is_deleted=True)
    if wanted.action is Action.UNDELETED:
        return replace(draft, is_deleted=False, deleted_at=None)
    status = TRANSITIONS[wanted.action][1]
    return replace(
        draft,
        status=status,
        decided_by="" if status is Status.PENDING else wanted.actor,
        decided_at=None,
        reject_reason=wanted.reason if status is Status.REJECTED else "",
    )
