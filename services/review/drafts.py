"""A draft as the rules see it, and the pure parts of those rules: guards, etags, edits (domain.md 4.2)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from services.review.errors import (
    DraftDeleted,
    DraftNotDecided,
    DraftNotDeleted,
    DraftNotEditable,
    DraftNotPending,
    KeyIncomplete,
)
from services.review.keys import PromotionKey
from services.review.places import Place, vocabulary_locks
from services.review.promotion import Locks
from services.review.states import EDITABLE, TRANSITIONS, Action, Status


@dataclass(frozen=True)
class Draft:
    """One draft without its images. `revision` rises with changes, `image_count` leaves out hidden ones.

    `trace_parent` is the trace that brought it in, empty when there was none.
    """

    id: int
    kind: str
    job_id: str
    source: str
    source_url: str
    title: str
    place: Place
    status: Status
    is_deleted: bool
    revision: int
    cover_media_id: int | None
    cover_key: str
    image_count: int
    reject_reason: str
    decided_by: str
    decided_at: datetime | None
    created_at: datetime
    updated_at: datetime
    deleted_at: datetime | None
    trace_parent: str = ""

    @property
    def etag(self) -> str:
        """Return the opaque version; it names the draft, so that another draft's etag never fits."""
        return f"{self.kind[0]}{self.id}-{self.revision}"

    @property
    def counted_key(self) -> PromotionKey | None:
        """Return the key whose official row shows the draft, None when none does."""
        return self.place.key if self.status is Status.APPROVED and not self.is_deleted else None


class DraftImage(NamedTuple):
    """One image of a draft. `id` is the image's, `media_key` the stored object's."""

    id: int
    media_id: int
    media_key: str
    position: int
    caption: str
    original_url: str
    hidden: bool
    content_type: str
    size_bytes: int
    width: int
    height: int


class Change(NamedTuple):
    """One changed field: its path as in an update mask, and its values as text."""

    field: str
    before: str
    after: str


@dataclass(frozen=True)
class Entry:
    """An entry of the history: what was done, why, and which fields it changed."""

    action: Action
    reason: str = ""
    changes: Sequence[Change] = ()


class Event(NamedTuple):
    """What the history keeps of an entry. `revision` is the draft's after it."""

    revision: int
    action: Action
    actor: str
    reason: str
    changes: Sequence[Change]
    created_at: datetime


def card_of(images: Sequence[DraftImage], cover_media_id: int | None) -> tuple[int, str]:
    """Return what a card shows of the images: how many aren't hidden, and the key of the cover.

    The cover is the chosen one unless that is hidden, else the first that shows; "" when none does.
    """
    visible = [image for image in images if not image.hidden]
    chosen = next((image for image in visible if image.media_id == cover_media_id), None)
    cover = chosen or next(iter(visible), None)
    return len(visible), "" if cover is None else cover.media_key


def locks_of(places: Sequence[Place]) -> Locks:
    """Return the locks of all keys that the places make."""
    names = frozenset(i for place in places for i in vocabulary_locks(place))
    return Locks(names, frozenset(place.key.lock_id for place in places if place.key is not None))


def revision_of(etag: str, draft: Draft) -> int | None:
    """Return the revision that an etag of this draft stands for, None when the draft never had it."""
    head, _, digits = etag.rpartition("-")
    if head != f"{draft.kind[0]}{draft.id}" or not digits.isascii() or not digits.isdigit():
        return None
    return revision if (revision := int(digits)) <= draft.revision else None


def require(draft: Draft, action: Action) -> None:
    """Refuse an action that the draft's state doesn't allow.

    Raises:
        DraftDeleted, DraftNotDeleted, DraftNotEditable, DraftNotPending, DraftNotDecided: as they say.
    """
    name, status, by = str(draft.id), draft.status.value, draft.decided_by
    if action is Action.UNDELETED:
        if not draft.is_deleted:
            raise DraftNotDeleted(f"draft {name} isn't deleted", draft_id=name, status=status)
        return
    if action is Action.PURGED:
        return
    if draft.is_deleted:
        raise DraftDeleted(f"draft {name} is deleted; undelete it first", draft_id=name, status=status)
    if action is Action.EDITED and draft.status not in EDITABLE:
        raise DraftNotEditable(f"draft {name} is {status}; reopen it first", draft_id=name, status=status)
    if action not in TRANSITIONS or draft.status in TRANSITIONS[action][0]:
        return
    if action is Action.REOPENED:
        raise DraftNotDecided(f"draft {name} is {status} already", draft_id=name, status=status)
    raise DraftNotPending(
        f"draft {name} was {status} already{f' by {by}' if by else ''}; reopen it first",
        draft_id=name,
        status=status,
        decided_by=by,
    )


def require_key(draft_id: int, place: Place) -> None:
    """Refuse to promote a draft whose key lacks a part (domain.md 3.7).

    Raises:
        KeyIncomplete: naming the missing fields.
    """
    if place.missing:
        fields = ", ".join(place.missing)
        raise KeyIncomplete(f"draft {draft_id} needs {fields} before it can be approved", missing=fields)
