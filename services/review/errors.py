"""What review refuses, one class per fact."""

from __future__ import annotations

from libs.common.errors import DomainError, Kind


class DraftNotFound(DomainError):
    """No draft of that kind has the id."""

    kind, reason = Kind.NOT_FOUND, "DRAFT_NOT_FOUND"


class DraftDeleted(DomainError):
    """The draft is deleted: it can only be undeleted or purged."""

    kind, reason = Kind.FAILED_PRECONDITION, "DRAFT_DELETED"


class DraftNotDeleted(DomainError):
    """The draft isn't deleted, so there is nothing to take back."""

    kind, reason = Kind.FAILED_PRECONDITION, "DRAFT_NOT_DELETED"


class DraftNotPending(DomainError):
    """The draft was decided already."""

    kind, reason = Kind.FAILED_PRECONDITION, "DRAFT_NOT_PENDING"


class DraftNotDecided(DomainError):
    """The draft is pending, so there is no decision to take back."""

    kind, reason = Kind.FAILED_PRECONDITION, "DRAFT_NOT_DECIDED"


class DraftNotEditable(DomainError):
    """Only pending and approved drafts can be edited."""

    kind, reason = Kind.FAILED_PRECONDITION, "DRAFT_NOT_EDITABLE"


class EtagMismatch(DomainError):
    """Somebody else changed the draft meanwhile."""

    kind, reason = Kind.ABORTED, "ETAG_MISMATCH"


class ReviewBusy(DomainError):
    """The draft's key kept moving while the change was tried; the same call may succeed."""

    kind, reason = Kind.ABORTED, "REVIEW_BUSY"


class PublicBusy(DomainError):
    """As many images as may be are on their way to the public, to slow readers perhaps."""

    kind, reason = Kind.RESOURCE_EXHAUSTED, "SERVER_BUSY"


class KeyIncomplete(DomainError):
    """The draft lacks a part of its key."""

    kind, reason = Kind.FAILED_PRECONDITION, "KEY_INCOMPLETE"


class UnknownBrand(DomainError):
    """No brand has that spelling."""

    kind, reason = Kind.FAILED_PRECONDITION, "UNKNOWN_BRAND"


class SourceExists(DomainError):
    """Another draft has the source key."""

    kind, reason = Kind.ALREADY_EXISTS, "SOURCE_EXISTS"


class ContentMismatch(DomainError):
    """The same object key was announced with other bytes."""

    kind, reason = Kind.FAILED_PRECONDITION, "CONTENT_MISMATCH"


class MediaNotLive(DomainError):
    """A draft may only refer to stored objects."""

    kind, reason = Kind.FAILED_PRECONDITION, "MEDIA_NOT_LIVE"


class MediaNotReserved(DomainError):
    """An object must be announced before it is confirmed."""

    kind, reason = Kind.FAILED_PRECONDITION, "MEDIA_NOT_RESERVED"


class MediaBeingDeleted(DomainError):
    """The clean-up is deleting the object; try again shortly."""

    kind, reason = Kind.UNAVAILABLE, "MEDIA_BEING_DELETED"


class ParentNotFound(DomainError):
    """A thumbnail's original must be announced before it, or with it."""

    kind, reason = Kind.FAILED_PRECONDITION, "PARENT_NOT_FOUND"


class MediaNotFound(DomainError):
    """Nothing that the caller may see has that object."""

    kind, reason = Kind.NOT_FOUND, "MEDIA_NOT_FOUND"


class MediaLost(DomainError):
    """The row is live and the object is gone or damaged."""

    kind, reason = Kind.DATA_LOSS, "MEDIA_LOST"


class RunwayNotFound(DomainError):
    """No visible runway has the id."""

    kind, reason = Kind.NOT_FOUND, "RUNWAY_NOT_FOUND"


class StreetSnapNotFound(DomainError):
    """No visible street-snap album has the id."""

    kind, reason = Kind.NOT_FOUND, "STREET_SNAP_NOT_FOUND"


class KeyNotFound(DomainError):
    """No brand, city or season has the id."""

    kind, reason = Kind.NOT_FOUND, "KEY_NOT_FOUND"


class KeyExists(DomainError):
    """The spelling names a brand, city or season already."""

    kind, reason = Kind.ALREADY_EXISTS, "KEY_EXISTS"


class ActorRequired(DomainError):
    """What can't be undone needs a name in `x-frontrow-actor`."""

    kind, reason = Kind.INVALID_ARGUMENT, "ACTOR_REQUIRED"


class MediaUnpublishable(DomainError):
    """The image's format can't be freed of its metadata, so it isn't shown to the public."""

    kind, reason = Kind.FAILED_PRECONDITION, "MEDIA_UNPUBLISHABLE"


class KeyMerged(DomainError):
    """The key points at another one already."""

    kind, reason = Kind.FAILED_PRECONDITION, "KEY_MERGED"


class KeyNotMerged(DomainError):
    """The key points nowhere, so there is nothing to undo."""

    kind, reason = Kind.FAILED_PRECONDITION, "KEY_NOT_MERGED"


class MergeCycle(DomainError):
    """The target stands for the source, or is the source."""

    kind, reason = Kind.FAILED_PRECONDITION, "MERGE_CYCLE"


class ImplausibleShare(DomainError):
    """So many images without references look like a mistake elsewhere."""

    kind, reason = Kind.FAILED_PRECONDITION, "IMPLAUSIBLE_SHARE"
