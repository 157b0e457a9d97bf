"""A spider, an ingest worker and editors in a few words: what the review tests do again and again."""

from __future__ import annotations

import asyncio
import hashlib
import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import grpc
from frontrow.review.v1 import (
    catalog_service_pb2,
    catalog_service_pb2_grpc,
    draft_pb2,
    draft_service_pb2,
    draft_service_pb2_grpc,
    intake_service_pb2,
    intake_service_pb2_grpc,
    key_service_pb2_grpc,
    media_pb2,
)
from google.protobuf.field_mask_pb2 import FieldMask

from libs.common.interceptors.context import ACTOR_KEY, encode_actor
from libs.common.objects import ObjectStore

RUNWAY = draft_pb2.GALLERY_KIND_RUNWAY
STREET = draft_pb2.GALLERY_KIND_STREET_SNAP
_serial = itertools.count(1)


def acting(actor: str) -> list[tuple[str, str]]:
    """Return the metadata that names the editor."""
    return [(ACTOR_KEY, encode_actor(actor))]


def unique(word: str) -> str:
    """Return a name that no other test of the module uses."""
    return f"{word}{next(_serial)}"


def item_of(data: bytes, *, extension: str = "jpg", **facts: Any) -> media_pb2.MediaItem:
    """Return the announcement of an object with these bytes."""
    sha1 = hashlib.sha1(data).hexdigest()
    return media_pb2.MediaItem(
        key=f"media/{sha1[:2]}/{sha1}.{extension}",
        **{
            "sha256": hashlib.sha256(data).hexdigest(),
            "size_bytes": len(data),
            "content_type": "image/jpeg",
            "width": 600,
            "height": 900,
            **facts,
        },
    )


@dataclass
class Gallery:
    """Stubs of one review server, and the usual steps over them."""

    channel: grpc.aio.Channel
    drafts: draft_service_pb2_grpc.DraftServiceAsyncStub = field(init=False)
    intake: intake_service_pb2_grpc.IntakeServiceAsyncStub = field(init=False)
    catalog: catalog_service_pb2_grpc.CatalogServiceAsyncStub = field(init=False)
    keys: key_service_pb2_grpc.KeyServiceAsyncStub = field(init=False)

    def __post_init__(self) -> None:
        self.drafts = draft_service_pb2_grpc.DraftServiceStub(self.channel)
        self.intake = intake_service_pb2_grpc.IntakeServiceStub(self.channel)
        self.catalog = catalog_service_pb2_grpc.CatalogServiceStub(self.channel)
        self.keys = key_service_pb2_grpc.KeyServiceStub(self.channel)

    async def store(self, *names: str) -> list[str]:
        """Announce and confirm one object for each name; return the keys."""
        items = [item_of(name.encode()) for name in dict.fromkeys(names)]
        if not items:
            return []
        await self.intake.ReserveMedia(intake_service_pb2.ReserveMediaRequest(job_id="store", items=items))
        await self.intake.ConfirmMedia(
            intake_service_pb2.ConfirmMediaRequest(job_id="store", keys=[item.key for item in items])
        )
        return [item_of(name.encode()).key for name in names]

    async def street(self, city: str, year: int, month: int, images: Sequence[str], **more: Any) -> str:
        """Create a street-snap draft of images that are stored on the way; return its id."""
        reply = await self.intake.CreateStreetSnapDraft(
            await self.street_request(city, year, month, images, **more)
        )
        return reply.draft_id

    async def street_request(
        self, city: str, year: int, month: int, images: Sequence[str], **more: Any
    ) -> intake_service_pb2.CreateStreetSnapDraftRequest:
        """Return the request of a street-snap draft whose images are stored."""
        return intake_service_pb2.CreateStreetSnapDraftRequest(
            street_snap=intake_service_pb2.StreetSnapTexts(city=city, year=year, month=month),
            images=await self._images(images),
            **_article(more),
        )

    async def runway(
        self, brand: str, season: str, collection: str, images: Sequence[str], **more: Any
    ) -> str:
        """Create a runway draft of images that are stored on the way; return its id."""
        texts = intake_service_pb2.RunwayTexts(brand=brand, season_code=season, collection=collection)
        request = intake_service_pb2.CreateRunwayDraftRequest(
            runway=texts, images=await self._images(images), **_article(more)
        )
        return (await self.intake.CreateRunwayDraft(request)).draft_id

    async def _images(self, names: Sequence[str]) -> list[intake_service_pb2.IntakeImage]:
        keys = await self.store(*names)
        return [
            intake_service_pb2.IntakeImage(
                media_key=key, caption=name, original_url=f"https://img.test/{name}"
            )
            for key, name in zip(keys, names, strict=True)
        ]

    async def get(self, draft_id: str, kind: Any = STREET) -> draft_pb2.Draft:
        """Return a draft with its images."""
        request = draft_service_pb2.GetDraftRequest(kind=kind, draft_id=draft_id)
        return (await self.drafts.GetDraft(request)).draft

    async def history(self, draft_id: str, kind: Any = STREET) -> Sequence[draft_pb2.DraftEvent]:
        """Return a draft's history."""
        request = draft_service_pb2.GetDraftRequest(kind=kind, draft_id=draft_id)
        return (await self.drafts.GetDraft(request)).history

    async def approve(
        self,
        draft_id: str,
        kind: Any = STREET,
        *,
        etag: str | None = None,
        edit: Any = None,
        actor: str = "ed",
    ) -> draft_service_pb2.ApproveDraftResponse:
        """Approve as it is now, or with the given etag."""
        seen = (await self.get(draft_id, kind)).etag if etag is None else etag
        request = draft_service_pb2.ApproveDraftRequest(kind=kind, draft_id=draft_id, etag=seen, edit=edit)
        return await self.drafts.ApproveDraft(request, metadata=acting(actor))

    async def edit(
        self, draft_id: str, kind: Any = STREET, *, etag: str | None = None, actor: str = "ed", **values: Any
    ) -> draft_pb2.Draft:
        """Change the named fields, as in `edit_message`."""
        seen = (await self.get(draft_id, kind)).etag if etag is None else etag
        request = draft_service_pb2.UpdateDraftRequest(
            kind=kind, draft_id=draft_id, etag=seen, edit=edit_message(**values)
        )
        return (await self.drafts.UpdateDraft(request, metadata=acting(actor))).draft

    async def reject(
        self, draft_id: str, kind: Any = STREET, *, reason: str = "", actor: str = "ed"
    ) -> draft_pb2.Draft:
        """Reject a draft."""
        request = draft_service_pb2.RejectDraftRequest(kind=kind, draft_id=draft_id, reason=reason)
        return (await self.drafts.RejectDraft(request, metadata=acting(actor))).draft

    async def reopen(self, draft_id: str, kind: Any = STREET) -> draft_pb2.Draft:
        """Take a decision back."""
        request = draft_service_pb2.ReopenDraftRequest(kind=kind, draft_id=draft_id)
        return (await self.drafts.ReopenDraft(request)).draft

    async def delete(self, draft_id: str, kind: Any = STREET) -> draft_pb2.Draft:
        """Delete softly."""
        request = draft_service_pb2.DeleteDraftRequest(kind=kind, draft_id=draft_id)
        return (await self.drafts.DeleteDraft(request)).draft

    async def undelete(self, draft_id: str, kind: Any = STREET) -> draft_pb2.Draft:
        """Take a deletion back."""
        request = draft_service_pb2.UndeleteDraftRequest(kind=kind, draft_id=draft_id)
        return (await self.drafts.UndeleteDraft(request)).draft

    async def purge(
        self, draft_id: str, kind: Any = STREET, *, actor: str = "admin", reason: str = "again"
    ) -> None:
        """Remove for good."""
        request = draft_service_pb2.PurgeDraftRequest(
            kind=kind, draft_id=draft_id, etag=(await self.get(draft_id, kind)).etag, reason=reason
        )
        await self.drafts.PurgeDraft(request, metadata=acting(actor))

    async def album(self, official_id: str) -> list[str]:
        """Return the captions of a published album's images, in order."""
        request = catalog_service_pb2.GetStreetSnapRequest(street_snap_id=official_id)
        return [image.caption for image in (await self.catalog.GetStreetSnap(request)).street_snap.images]

    async def show(self, official_id: str) -> list[str]:
        """Return the captions of a published runway's images, in order."""
        request = catalog_service_pb2.GetRunwayRequest(runway_id=official_id)
        return [image.caption for image in (await self.catalog.GetRunway(request)).runway.images]


def edit_message(**values: Any) -> draft_service_pb2.DraftEdit:
    """Return an edit of the named fields."""
    draft, paths = draft_pb2.Draft(), []
    for name, value in values.items():
        if name in {"city", "year", "month"}:
            setattr(draft.street_snap, name, value)
            paths.append(f"street_snap.{name}")
        elif name in {"brand", "season", "collection"}:
            setattr(draft.runway, name, value)
            paths.append(f"runway.{name}")
        else:
            if name == "images":
                draft.images.extend(value)
            else:
                setattr(draft, name, value)
            paths.append(name)
    return draft_service_pb2.DraftEdit(draft=draft, update_mask=FieldMask(paths=paths))


def _article(more: dict[str, Any]) -> dict[str, Any]:
    name = unique("article")
    usual = {
        "job_id": f"job-{name}",
        "title": name,
        "source": "vogue",
        "source_url": f"https://site.test/{name}",
    }
    return {**usual, **more}


async def outcomes(*calls: Any) -> list[Any]:
    """Run calls at once; return replies and errors."""
    return await asyncio.gather(*calls, return_exceptions=True)


async def stored(gallery: Gallery, store: ObjectStore, name: str, *, parent_key: str = "") -> str:
    """Announce, put and confirm an object; return its key."""
    item = item_of(name.encode(), parent_key=parent_key)
    await gallery.intake.ReserveMedia(intake_service_pb2.ReserveMediaRequest(job_id="job", items=[item]))
    await store.put_bytes(item.key, name.encode())
    await gallery.intake.ConfirmMedia(intake_service_pb2.ConfirmMediaRequest(job_id="job", keys=[item.key]))
    return item.key
