"""Recomputing a key inside the database gives what a few lines of Python give, whatever was there before."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncSession

from libs.common.db import Database, driver_of
from services.review import promotion
from services.review.keys import PromotionKey, RunwayKey, StreetKey
from services.review.models import RUNWAY, STREET, GalleryTables

MEDIA = 9


@dataclass
class Draft:
    """A draft: its images with whether they are hidden."""

    images: list[tuple[int, bool]]
    status: str
    deleted: bool
    cover: int | None


drafts = st.builds(
    Draft,
    st.lists(st.tuples(st.integers(1, MEDIA), st.booleans()), max_size=5, unique_by=lambda image: image[0]),
    st.sampled_from(["approved", "approved", "approved", "pending", "rejected"]),
    st.sampled_from([False, False, False, True]),
    st.none() | st.integers(1, MEDIA),
)


@dataclass
class Shown:
    """What an official row should be."""

    images: list[tuple[int, int]]
    title: str
    cover: int | None


def union_of(all_drafts: Sequence[Draft]) -> Shown | None:
    """Return the ordered union: each object once at its first place, with the number of its draft."""
    counted = [(n, d) for n, d in enumerate(all_drafts) if d.status == "approved" and not d.deleted]
    if not counted:
        return None
    first: dict[int, int] = {}
    for number, draft in counted:
        for media_id, hidden in draft.images:
            if not hidden:
                first.setdefault(media_id, number)
    number, leading = counted[0]
    own = [media_id for media_id, hidden in leading.images if not hidden]
    cover = leading.cover if leading.cover in own else next(iter([*own, *first]), None)
    return Shown(list(first.items()), f"title {number}", cover)


class Desk:
    """Writes the drafts of one key and reads its official row; nothing is committed."""

    def __init__(self, session: AsyncSession, key: PromotionKey) -> None:
        self._session = session
        self._key = key
        self._tables = promotion.tables_of(key)
        self._media: list[int] = []
        self._drafts: list[int] = []

    async def prepare(self) -> None:
        """Make the images that drafts are made of."""
        made = text(
            "INSERT INTO review.media (key, sha256, size_bytes, content_type, width, height, state) "
            "SELECT 'recompute/' || n, '', 1, 'image/jpeg', 1, 1, 'live' FROM generate_series(0, :last) n "
            "RETURNING id"
        )
        self._media = sorted(await self._session.scalars(made, {"last": MEDIA}))

    async def become(self, all_drafts: Sequence[Draft]) -> promotion.Official | None:
        """Make the key's drafts these, recompute it twice, and return what the first time said."""
        for number, draft in enumerate(all_drafts):
            await self._write(number, draft)
        for row_id in self._drafts[len(all_drafts) :]:
            await self._session.execute(text(f"DELETE FROM {self._tables.drafts} WHERE id = {row_id}"))
        del self._drafts[len(all_drafts) :]
        first = await promotion.recompute(await driver_of(self._session), self._key)
        before = await self._versions()
        again = await promotion.recompute(await driver_of(self._session), self._key)
        assert await self._versions() == before  # nothing was written the second time
        assert (first is None, first and first.id) == (again is None, again and again.id)
        return first

    async def _versions(self) -> list[Any]:
        images, officials = self._tables.official_images, self._tables.officials
        query = text(
            f"SELECT ctid::text FROM {images} UNION ALL SELECT ctid::text FROM {officials} ORDER BY 1"
        )
        return list(await self._session.scalars(query))

    async def _write(self, number: int, draft: Draft) -> None:
        cover = None if draft.cover is None else self._media[draft.cover]
        values = {
            **{"title": f"title {number}", "status": draft.status, "is_deleted": draft.deleted},
            **{"cover_media_id": cover, **self._key.columns()},
        }
        table, images = self._tables.drafts, self._tables.draft_images
        if number == len(self._drafts):
            made = await self._session.scalar(table.insert().values(**values).returning(table.c.id))
            self._drafts.append(made)
        row_id = self._drafts[number]
        await self._session.execute(table.update().where(table.c.id == row_id).values(**values))
        await self._session.execute(images.delete().where(images.c.draft_id == row_id))
        rows = [
            {"draft_id": row_id, "position": at, "media_id": self._media[media], "hidden": hidden}
            for at, (media, hidden) in enumerate(draft.images)
        ]
        if rows:
            await self._session.execute(images.insert(), rows)

    async def shown(self) -> Shown | None:
        """Return the official row as it is; None when it is hidden or isn't there."""
        row = await promotion.find_official(self._session, self._key)
        if row is None:
            return None
        images = self._tables.official_images
        query = images.select().where(images.c.official_id == row.id).order_by(images.c.position)
        found = (await self._session.execute(query)).all()
        assert [image.position for image in found] == list(range(len(found)))
        assert row.image_count == len(found)
        if row.is_hidden:
            assert not found
            return None
        placed = [(self._media.index(i.media_id), self._drafts.index(i.draft_id)) for i in found]
        cover = None if row.cover_media_id is None else self._media.index(row.cover_media_id)
        return Shown(placed, row.title, cover)


async def key_of(session: AsyncSession, tables: GalleryTables) -> PromotionKey:
    """Return a key that no other test uses."""
    if tables is RUNWAY:
        code = "recompute"
        await session.execute(
            text("INSERT INTO review.seasons (code, name, known, root_code) VALUES (:c, :c, true, :c)"),
            {"c": code},
        )
        return RunwayKey(await session.scalar(text("SELECT min(root_id) FROM review.brands")), code, "line")
    return StreetKey(await session.scalar(text("SELECT min(root_id) FROM review.cities")), 1999, 3)


@pytest.mark.parametrize("kind", ["runway", "street_snap"])
@settings(
    max_examples=40,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(states=st.lists(st.lists(drafts, max_size=4), min_size=1, max_size=4))
async def test_an_official_row_is_the_ordered_union_of_its_approved_drafts_after_every_change(
    database: Database, kind: str, states: list[list[Draft]]
) -> None:
    tables = RUNWAY if kind == "runway" else STREET
    async with database.engine.connect() as connection:
        session = AsyncSession(bind=connection)
        desk = Desk(session, await key_of(session, tables))
        await desk.prepare()
        before, ids = None, set()
        for state in states:
            official = await desk.become(state)
            wanted = union_of(state)
            assert await desk.shown() == wanted
            if official is None:
                assert wanted is None
                continue
            ids.add(official.id)
            assert official.published == (wanted is not None and before is None)
            before = wanted
        assert len(ids) <= 1
        await session.rollback()
