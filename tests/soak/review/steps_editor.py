"""What editors do to drafts."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from frontrow.review.v1 import draft_pb2
from frontrow.review.v1 import draft_service_pb2 as pb

from tests.integration.review.gallery import RUNWAY, STREET, Gallery, acting, edit_message
from tests.soak.review.algebra import shown_cover
from tests.soak.review.picture import Draft, Image, Picture
from tests.soak.review.rig import Rig
from tests.soak.review.step import Step, with_draft

KINDS = {"runway": RUNWAY, "street_snap": STREET}
# Street: (year, month), the last one incomplete. Runway: the number of the season, None for none.
SLOTS: dict[str, tuple[Any, ...]] = {
    "street_snap": ((2026, 2), (2026, 8), (2026, 0), (0, 0)),
    "runway": (0, 1, 2, None),
}
FROM = {
    "approve": {"pending"},
    "reject": {"pending"},
    "reopen": {"approved", "rejected"},
    "edit": {"pending", "approved"},
}
_TO = {"approve": "approved", "reject": "rejected", "reopen": "pending"}


def allows(draft: Draft, action: str) -> bool:
    """Tell whether a draft's state allows an action (domain.md 4.2)."""
    if action == "undelete":
        return draft.deleted
    return action == "purge" or (not draft.deleted and draft.status in FROM.get(action, {draft.status}))


@dataclass(frozen=True)
class Edit:
    """A change of fields; None leaves one alone. `arrange` is a seed, `cover` a place (-1: none)."""

    title: str | None = None
    name: int | None = None
    slot: int | None = None
    arrange: int | None = None
    cover: int | None = None


def edited_images(draft: Draft, edit: Edit) -> tuple[Image, ...]:
    """Return the images as the edit arranges them."""
    if edit.arrange is None:
        return draft.images
    luck = random.Random(edit.arrange)
    images = [
        replace(image, hidden=luck.random() < 0.3, caption=luck.choice([image.caption, image.caption, "new"]))
        for image in draft.images
    ]
    luck.shuffle(images)
    return tuple(images)


def edited(rig: Rig, draft: Draft, edit: Edit) -> Draft | None:
    """Return the draft after the edit, None when the edit is wrong."""
    images, chosen = edited_images(draft, edit), draft.cover
    if edit.cover == -1:
        chosen = None
    elif edit.cover is not None:
        wanted = images[edit.cover % len(images)]
        if wanted.hidden:
            return None
        chosen = draft.cover if shown_cover(images, draft.cover) == wanted.media_id else wanted.media_id
    after = replace(
        draft,
        title=draft.title if edit.title is None else edit.title,
        images=images,
        cover=chosen,
        parts=edited_parts(rig, draft, edit),
    )
    return after if after == draft else replace(after, revision=draft.revision + 1)


def edited_parts(rig: Rig, draft: Draft, edit: Edit) -> tuple[Any, ...]:
    """Return the own key after the edit."""
    street = draft.kind == "street_snap"
    name, rest = draft.parts[0], draft.parts[1:]
    if edit.name is not None:
        name = rig.own["city" if street else "brand"][edit.name]
    if edit.slot is not None:
        slot = SLOTS[draft.kind][edit.slot]
        season = None if street or slot is None else rig.own["season"][slot]
        rest = slot if street else (season, "ready-to-wear" if season else "")
    return (name, *rest)


def message_of(draft: Draft, edit: Edit, keys: Mapping[int, str]) -> pb.DraftEdit:
    """Return the edit on the wire; `keys` are those of media by id."""
    values: dict[str, Any] = {}
    if edit.title is not None:
        values["title"] = edit.title
    if edit.name is not None:
        street = draft.kind == "street_snap"
        values["city" if street else "brand"] = f"Machine {'City' if street else 'House'} {edit.name}"
    if edit.slot is not None:
        slot = SLOTS[draft.kind][edit.slot]
        if draft.kind == "street_snap":
            values |= {"year": slot[0], "month": slot[1]}
        else:
            values["season"] = "" if slot is None else f"Machine Season {slot}"
    images = edited_images(draft, edit)
    if edit.arrange is not None:
        values["images"] = [
            draft_pb2.DraftImage(image_id=str(i.id), hidden=i.hidden, caption=i.caption) for i in images
        ]
    if edit.cover is not None:
        wanted = None if edit.cover == -1 else images[edit.cover % len(images)]
        values["cover_key"] = "" if wanted is None else keys[wanted.media_id]
    return edit_message(**values)


@dataclass(frozen=True)
class Act(Step):
    """Approve (with an edit, if one is given), reject, reopen, delete, undelete, purge, or edit alone."""

    action: str
    draft: Draft
    edit: Edit | None
    message: pb.DraftEdit | None
    stale: bool
    rig: Rig

    @property
    def name(self) -> str:
        """See Step."""
        return f"{self.action} with an edit" if self.edit and self.action != "edit" else self.action

    def refusal(self, before: Picture) -> str | None:
        """See Step."""
        draft = before.drafts[self.draft.kind, self.draft.id]
        if self.action == "undelete":
            if not draft.deleted:
                return "DRAFT_NOT_DELETED"
        elif self.action != "purge":
            if draft.deleted:
                return "DRAFT_DELETED"
            if draft.status not in FROM.get(self.action, {draft.status}):
                words = {"reopen": "DRAFT_NOT_DECIDED", "edit": "DRAFT_NOT_EDITABLE"}
                return words.get(self.action, "DRAFT_NOT_PENDING")
        if self.stale:
            return "ETAG_MISMATCH"
        after = edited(self.rig, draft, self.edit) if self.edit else draft
        if after is None:
            return "INVALID_ARGUMENT"
        # of an edit that changes nothing nothing is asked
        promoted = self.action == "approve" or (self.action == "edit" and draft.status == "approved")
        return None if after.complete or not promoted else "KEY_INCOMPLETE"

    @property
    def etag(self) -> str:
        """Return the etag to give: the present one, or one that never was."""
        return f"{self.draft.kind[0]}{self.draft.id}-0" if self.stale else self.draft.etag

    async def do(self, rig: Rig, client: Gallery) -> Any:
        """See Step."""
        stub, common = client.drafts, {"kind": KINDS[self.draft.kind], "draft_id": str(self.draft.id)}
        calls: dict[str, Any] = {
            "approve": (stub.ApproveDraft, pb.ApproveDraftRequest, {"edit": self.message}),
            "edit": (stub.UpdateDraft, pb.UpdateDraftRequest, {"edit": self.message}),
            "reject": (stub.RejectDraft, pb.RejectDraftRequest, {"reason": "no"}),
            "reopen": (stub.ReopenDraft, pb.ReopenDraftRequest, {}),
            "delete": (stub.DeleteDraft, pb.DeleteDraftRequest, {}),
            "undelete": (stub.UndeleteDraft, pb.UndeleteDraftRequest, {}),
            "purge": (stub.PurgeDraft, pb.PurgeDraftRequest, {"reason": "again"}),
        }
        call, request, more = calls[self.action]
        return await call(request(**common, etag=self.etag, **more), metadata=acting("machine"))

    def after(self, before: Picture, reply: Any, ids: Mapping[str, int]) -> Picture:
        """See Step."""
        draft = before.drafts[self.draft.kind, self.draft.id]
        if self.edit is not None:
            draft = edited(self.rig, draft, self.edit) or draft
        if self.action == "purge":
            left = {key: other for key, other in before.drafts.items() if key != (draft.kind, draft.id)}
            return replace(before, drafts=left)
        if self.action != "edit":
            draft = replace(
                draft,
                status=_TO.get(self.action, draft.status),
                deleted=self.action == "delete",
                revision=draft.revision + 1,
            )
        changed = reply.draft
        assert changed.etag == draft.etag, "the answer has another etag"
        return with_draft(before, draft)
