"""What uploads and clean-ups do to stored pictures, and time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

from frontrow.review.v1 import intake_service_pb2 as intake
from frontrow.review.v1 import media_pb2

from libs.common.objects import ObjectStore, StoreUnavailable
from tests.integration.review.gallery import Gallery
from tests.soak.review.algebra import due, idle, referenced
from tests.soak.review.picture import Media, Picture
from tests.soak.review.rig import Rig, bytes_of, items_of
from tests.soak.review.step import Step, with_media


@dataclass
class Upload:
    """A job that stores pictures: what it was told when it announced them."""

    numbers: Sequence[int]
    stored: set[str] = field(default_factory=set)
    reservations: dict[str, str] = field(default_factory=dict)

    @property
    def items(self) -> list[media_pb2.MediaItem]:
        """Return the objects, thumbnails too."""
        return [item for number in self.numbers for item in items_of(number)]

    @property
    def absent(self) -> list[str]:
        """Return the keys that must be put and confirmed."""
        return [item.key for item in self.items if item.key not in self.stored]

    def learn(self, reply: intake.ReserveMediaResponse) -> None:
        """Keep what the announcement was answered."""
        self.stored = {item.key for item in reply.items if item.state == media_pb2.MEDIA_STATE_LIVE}
        self.reservations = {item.key: item.reservation for item in reply.items}

    def confirmation(self) -> intake.ConfirmMediaRequest:
        """Return the request that says all of it is stored."""
        reservations = [self.reservations[key] for key in self.absent]
        return intake.ConfirmMediaRequest(job_id="upload", keys=self.absent, reservations=reservations)

    async def put(self, store: ObjectStore) -> None:
        """Store what isn't stored yet."""
        for number in self.numbers:
            for small, item in enumerate(items_of(number)):
                if item.key not in self.stored:
                    await store.put_bytes(item.key, bytes_of(number, thumbnail=bool(small)))


@dataclass(frozen=True)
class Reserve(Step):
    """Announce pictures."""

    upload: Upload

    def refusal(self, before: Picture) -> str | None:
        """See Step."""
        states = [before.media[item.key].state for item in self.upload.items if item.key in before.media]
        return "MEDIA_BEING_DELETED" if "deleting" in states else None

    async def do(self, rig: Rig, client: Gallery) -> Any:
        """See Step."""
        request = intake.ReserveMediaRequest(job_id="upload", items=self.upload.items)
        reply = await client.intake.ReserveMedia(request)
        self.upload.learn(reply)
        return reply

    def after(self, before: Picture, reply: Any, ids: Mapping[str, int]) -> Picture:
        """See Step."""
        stored = {item.key for item in self.upload.items if _state(before, item.key) == "live"}
        assert self.upload.stored == stored, "told of other stored objects"
        return with_media(before, *(_touched(before, item) for item in self.upload.items))


@dataclass(frozen=True)
class Confirm(Step):
    """Say that what was announced (and put) is stored."""

    upload: Upload

    def refusal(self, before: Picture) -> str | None:
        """See Step."""
        for key in self.upload.absent:
            row = before.media.get(key)
            if row is None or str(row.id) != self.upload.reservations[key]:
                return "MEDIA_NOT_RESERVED"
            if row.state == "deleting":
                return "MEDIA_BEING_DELETED"
        return None

    async def do(self, rig: Rig, client: Gallery) -> Any:
        """See Step."""
        if self.upload.absent:
            await client.intake.ConfirmMedia(self.upload.confirmation())

    def after(self, before: Picture, reply: Any, ids: Mapping[str, int]) -> Picture:
        """See Step."""
        absent = [item for item in self.upload.items if item.key in self.upload.absent]
        return with_media(before, *(_touched(before, item, state="live") for item in absent))


def _state(picture: Picture, key: str) -> str | None:
    row = picture.media.get(key)
    return None if row is None else row.state


def _touched(picture: Picture, item: media_pb2.MediaItem, state: str | None = None) -> Media:
    """Return the row of an object as it is right after somebody had to do with it."""
    now = state or _state(picture, item.key) or "reserved"
    return Media(item.key, now, 0, None, item.parent_key, item.sha256, 0)


def taken(picture: Picture, numbers: Sequence[int]) -> Picture:
    """Return the picture after a draft took the originals."""
    originals = [items_of(number)[0] for number in numbers]
    return with_media(picture, *(_touched(picture, item) for item in originals))


@dataclass(frozen=True)
class PassTime(Step):
    """Let hours go by."""

    hours: int

    async def do(self, rig: Rig, client: Gallery) -> Any:
        """See Step."""
        await rig.pass_time(self.hours)

    def after(self, before: Picture, reply: Any, ids: Mapping[str, int]) -> Picture:
        """See Step."""
        rows = before.media.values()
        return with_media(
            before,
            *(
                replace(
                    row,
                    touched=row.touched + self.hours,
                    marked=None if row.marked is None else row.marked + self.hours,
                )
                for row in rows
            ),
        )


@dataclass(frozen=True)
class CleanUp(Step):
    """Run a whole clean-up."""

    grace_hours: int

    async def do(self, rig: Rig, client: Gallery) -> Any:
        """See Step."""
        return await rig.care(self.grace_hours).clean_up(actor="machine", apply=True)

    def after(self, before: Picture, reply: Any, ids: Mapping[str, int]) -> Picture:
        """See Step: rows that another call claimed less than its lease ago stay as they are."""
        grace, used = self.grace_hours, referenced(before)
        condemned = {row.key for row in before.media.values() if due(before, row, grace)}
        going = {
            key
            for key, row in before.media.items()
            if key in condemned
            or row.parent_key in condemned
            or (row.state == "deleting" and row.marked != 0)
        }
        # an original waits for its thumbnails
        held = {row.parent_key for key, row in before.media.items() if row.parent_key and key not in going}
        left = {key: row for key, row in before.media.items() if key not in going - held}
        for key, row in left.items():
            if key in going:
                left[key] = replace(row, state="deleting", marked=None)
            elif row.state == "deleting":
                continue
            elif row.marked is not None and row.id in used:
                left[key] = replace(row, marked=None)
            elif row.marked is None and idle(before, row, grace):
                left[key] = replace(row, marked=0)
        assert reply.deleted_count == len(before.media) - len(left), "reported another number"
        return replace(before, media=left)


class BreakingStore:
    """A store that goes away after some deletes, or dies right behind the last of them."""

    def __init__(self, store: ObjectStore, deletes: int, *, behind: bool) -> None:
        self._store = store
        self._left = deletes
        self._behind = behind

    async def delete(self, key: str) -> None:
        """Delete, as long as the store is there."""
        self._left -= 1
        if self._left < 0 and not self._behind:
            raise StoreUnavailable(key)
        await self._store.delete(key)
        if self._left < 0:
            raise StoreUnavailable(key)


async def break_off(rig: Rig, deletes: int, *, behind: bool) -> None:
    """Run a clean-up without grace whose store goes away; what it was at stays `deleting` for its lease."""
    store = BreakingStore(rig.store, deletes, behind=behind)
    with suppress(StoreUnavailable):
        await rig.care(0, store).clean_up(actor="machine", apply=True)
