"""A step of the machine: what is called, when it must be refused, and what it must change."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from tests.integration.review.gallery import Gallery
from tests.soak.review.picture import Draft, Media, Picture
from tests.soak.review.rig import Rig

# What a step may be answered when others are at the same things; anything else is a fault.
REFUSALS = {
    *("DRAFT_NOT_FOUND", "DRAFT_DELETED", "DRAFT_NOT_DELETED", "DRAFT_NOT_PENDING", "DRAFT_NOT_DECIDED"),
    *("DRAFT_NOT_EDITABLE", "ETAG_MISMATCH", "REVIEW_BUSY", "KEY_INCOMPLETE", "SOURCE_EXISTS"),
    *("KEY_MERGED", "KEY_NOT_MERGED", "MERGE_CYCLE"),
    *("MEDIA_BEING_DELETED", "MEDIA_NOT_LIVE", "MEDIA_NOT_RESERVED", "INVALID_ARGUMENT"),
}


class Step:
    """One call, bound to what it is about."""

    @property
    def name(self) -> str:
        """Return what kind of step it is, for counting."""
        return type(self).__name__

    def refusal(self, before: Picture) -> str | None:
        """Return the reason it must be refused for, None when it must succeed."""
        return None

    async def do(self, rig: Rig, client: Gallery) -> Any:
        """Make the call; return what `after` needs of its answer."""
        raise NotImplementedError

    def after(self, before: Picture, reply: Any, ids: Mapping[str, int]) -> Picture:
        """Return the picture after it; `ids` are those of the media rows by key, as they are then."""
        return before


def with_draft(picture: Picture, draft: Draft) -> Picture:
    """Return the picture with one draft new or changed."""
    return replace(picture, drafts={**picture.drafts, (draft.kind, draft.id): draft})


def with_media(picture: Picture, *rows: Media) -> Picture:
    """Return the picture with some media rows new or changed."""
    return replace(picture, media={**picture.media, **{row.key: row for row in rows}})
