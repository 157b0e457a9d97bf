"""Identical bytes uploaded while the clean-up deletes them: loops of it, on any kind of store."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from datetime import timedelta
from functools import partial

import grpc
from frontrow.review.v1 import intake_service_pb2 as intake
from frontrow.review.v1 import media_pb2
from sqlalchemy import text

from libs.common.client import reason_of
from libs.common.db import Database
from libs.common.objects import ObjectStore
from libs.common.testing import eventually
from services.review.cleanup import CleanUpLimits, MediaCare
from tests.integration.review.gallery import Gallery, item_of, unique

UPLOADERS = 2
CLEANERS = 2
# How often an upload may be refused before it counts as starved.
TRIES = 200
# What a clean-up has made of a row's bytes so far: nothing, marked it, begun to delete them.
MOMENTS = ("true", "marked_at IS NOT NULL OR state = 'deleting'", "state = 'deleting'")
TOLD = {"MEDIA_BEING_DELETED", "MEDIA_NOT_RESERVED", "MEDIA_NOT_LIVE"}


class Loops:
    """Uploaders of the same bytes against clean-ups without any grace, so that every step meets every other.

    Each loop begins with the bytes stored and unused, and the uploads come when a clean-up has them at one of
    `MOMENTS`, each in its turn; where they come too late the bytes are gone.
    """

    def __init__(self, gallery: Gallery, database: Database, store: ObjectStore) -> None:
        self._gallery = gallery
        self._database = database
        self._store = store
        limits = CleanUpLimits(timedelta(0), share=1, plausible=10**6)
        self._care = MediaCare(database, store, limits)
        self.refusals: Counter[str | None] = Counter()
        self.deleted = 0

    async def run(self, loops: int) -> None:
        """Run them, three or more; after each the object must exist, byte for byte, and some were deleted.

        Raises:
            AssertionError: one of that isn't so, or an upload was refused for another reason than `TOLD`.
        """
        done = asyncio.Event()
        cleaning = [asyncio.create_task(self._clean(done)) for _ in range(CLEANERS)]
        try:
            for loop in range(loops):
                data = unique("same bytes ").encode()
                await self._patiently(self._put, data)
                await eventually(partial(self._is_at, MOMENTS[loop % len(MOMENTS)], data), 60)
                await asyncio.gather(*(self._patiently(self._bring, data) for _ in range(UPLOADERS)))
                assert await self._store.get_bytes(item_of(data).key) == data
        finally:
            done.set()
            await asyncio.gather(*cleaning)
        assert set(self.refusals) <= TOLD, self.refusals
        assert self.deleted > 0

    async def _is_at(self, moment: str, data: bytes) -> bool:
        query = text(f"SELECT bool_and({moment}) FROM review.media WHERE key = :key")
        async with self._database.begin() as session:
            return await session.scalar(query, {"key": item_of(data).key}) is not False

    async def _clean(self, done: asyncio.Event) -> None:
        while not done.is_set():
            self.deleted += (await self._care.clean_up(actor="ops", apply=True)).deleted_count

    async def _patiently(self, work: Callable[[bytes], Awaitable[None]], data: bytes) -> None:
        for _ in range(TRIES):
            try:
                return await work(data)
            except grpc.aio.AioRpcError as error:
                self.refusals[reason_of(error)] += 1
        raise AssertionError(f"never came through: {self.refusals}")

    async def _put(self, data: bytes) -> None:
        """Announce, put unless it is stored, confirm: as the ingest worker does."""
        item = item_of(data)
        request = intake.ReserveMediaRequest(job_id="job", items=[item])
        state = (await self._gallery.intake.ReserveMedia(request)).items[0]
        if state.state != media_pb2.MEDIA_STATE_LIVE:
            await self._store.put_bytes(item.key, data)
            await self._gallery.intake.ConfirmMedia(
                intake.ConfirmMediaRequest(job_id="job", keys=[item.key], reservations=[state.reservation])
            )

    async def _bring(self, data: bytes) -> None:
        """Do that, and make a draft of it."""
        await self._put(data)
        request = await self._gallery.street_request(unique("Same Bytes"), 2026, 2, [])
        request.images.add(media_key=item_of(data).key)
        await self._gallery.intake.CreateStreetSnapDraft(request)
