"""The states of a draft and the changes between them (domain.md 4.2)."""

from __future__ import annotations

import enum
from typing import Final


class Status(enum.StrEnum):
    """What an editor has decided; deletion stands beside it."""

    PENDING = "pending"
    APPROVED = "approved"
    REJECTED = "rejected"


class Action(enum.StrEnum):
    """What happens to a draft, as the history keeps it."""

    CREATED = "created"
    EDITED = "edited"
    APPROVED = "approved"
    REJECTED = "rejected"
    REOPENED = "reopened"
    DELETED = "deleted"
    UNDELETED = "undeleted"
    PURGED = "purged"


# action -> (statuses it starts from, status it ends in). Deletion and purge keep the status.
TRANSITIONS: Final[dict[Action, tuple[frozenset[Status], Status]]] = {
    Action.APPROVED: (frozenset({Status.PENDING}), Status.APPROVED),
    Action.REJECTED: (frozenset({Status.PENDING}), Status.REJECTED),
    Action.REOPENED: (frozenset({Status.APPROVED, Status.REJECTED}), Status.PENDING),
}
EDITABLE: Final = frozenset({Status.PENDING, Status.APPROVED})


class MediaState(enum.StrEnum):
    """Where a media row stands (domain.md 4.9)."""

    RESERVED = "reserved"
    LIVE = "live"
    DELETING = "deleting"
