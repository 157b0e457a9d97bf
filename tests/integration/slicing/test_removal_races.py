"""Removal of stored objects against what begins at the same moment: nothing that a row refers to goes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import grpc
import grpc.aio
import pytest
from frontrow.asr.v1 import clip_pb2, live_material_service_pb2, video_project_pb2
from sqlalchemy import func, select, text, update

from libs.common.client import reason_of
from libs.common.db import Database
from libs.common.objects import ObjectStore, open_store
from libs.common.settings import StoreSettings
from services.asr import repository_material, repository_upload
from services.asr.loops.removal import ObjectRemoval
from services.asr.models import doomed_objects
from tests.integration.slicing.asr_server import Asr
from tests.integration.slicing.runs import begin, clip, save


class HaltingStore:
    """A store in which deleting halts until it is told to go on; everything else is the store's own."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store
        self.deleting = asyncio.Event()
        self.go_on = asyncio.Event()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def delete(self, key: str) -> None:
        """Remove an object, once that is allowed."""
        self.deleting.set()
        await self.go_on.wait()
        await self._store.delete(key)


@pytest.fixture
def store(tmp_path: Path) -> ObjectStore:
    """Give a store that no server removes anything from."""
    return open_store(StoreSettings(object_store=str(tmp_path / "own")))


def removal(database: Database, store: object, *, keep_hours: float = 1000.0) -> ObjectRemoval:
    return ObjectRemoval(
        database,
        store,  # type: ignore[arg-type] # it hands on what it doesn't do itself
        interval_seconds=30.0,
        upload_keep_hours=keep_hours,
    )


async def doomed(database: Database, prefix: str) -> list[Any]:
    async with database.begin() as session:
        below = select(doomed_objects).where(doomed_objects.c.key.startswith(prefix))
        return list((await session.execute(below)).all())


async def doom(database: Database, folder: str) -> None:
    async with database.begin() as session:
        await repository_material.doom(session, [folder])


@asynccontextmanager
async def halted(database: Database, store: ObjectStore) -> AsyncIterator[None]:
    """Have a removal halt at its first deletion for as long as the block takes, and end then."""
    slow = HaltingStore(store)
    removing = asyncio.create_task(removal(database, slow).step())
    await slow.deleting.wait()
    yield
    slow.go_on.set()
    await removing


async def now(database: Database) -> datetime:
    async with database.begin() as session:
        return (await session.execute(select(func.now()))).scalar_one()


async def make_due(database: Database, key: str) -> None:
    async with database.begin() as session:
        mine = update(doomed_objects).where(doomed_objects.c.key == key)
        await session.execute(mine.values(not_before=func.now() - timedelta(seconds=1)))


async def stored(asr: Asr, project: video_project_pb2.VideoProject, position: int) -> clip_pb2.Clip:
    """Store a clip's files and return it as a worker would save it."""
    made = clip(project, position)
    for key in (made.media_key, made.thumbnail_key):
        await asr.store.put_bytes(key, b"a clip's")
    return made


async def test_a_clip_that_is_chosen_again_while_removal_is_at_work_keeps_its_files(
    asr: Asr, database: Database
) -> None:
    material = await asr.transcribed("chosen-again")
    project = await asr.project(material.id, mode=video_project_pb2.VIDEO_PROJECT_MODE_AI_SLICE_DRAFT)
    await begin(asr, project)
    first, second = await stored(asr, project, 0), await stored(asr, project, 1)
    await save(asr, project, [first])
    await save(asr, project, [second])
    store = HaltingStore(asr.store)
    removing = asyncio.create_task(removal(database, store).step())
    halted = asyncio.create_task(store.deleting.wait())
    await asyncio.wait({removing, halted}, return_when=asyncio.FIRST_COMPLETED)
    await save(asr, project, [first])
    store.go_on.set()
    await removing
    halted.cancel()
    for key in (first.media_key, first.thumbnail_key):
        assert await asr.store.head(key) is not None, key


async def test_files_that_came_after_a_pass_began_are_removed_when_they_are_doomed_meanwhile(
    store: ObjectStore, database: Database
) -> None:
    """A second dooming of a folder is a new one, although the first isn't done."""
    folder = f"clips/{uuid4()}/"
    await store.put_bytes(f"{folder}early", b"early")
    await doom(database, folder)
    await removal(database, store).step()
    await make_due(database, folder)
    await store.put_bytes(f"{folder}between", b"between")
    async with halted(database, store):
        await store.put_bytes(f"{folder}late", b"late")
        await doom(database, folder)
    await removal(database, store).step()
    assert [key async for key in store.list(folder)] == []
    assert [row.passes for row in await doomed(database, folder)] == [1], "the second pass is still to come"


async def test_what_is_stored_under_a_doomed_name_goes_as_long_as_a_run_may_last(
    store: ObjectStore, database: Database
) -> None:
    """A worker that was cut off while it stored a large file doesn't hear that its run is over."""
    folder = f"recordings/{uuid4()}/"
    key = f"{folder}canonical-1.mp4"
    for doomed_key in (folder, key):
        await doom(database, doomed_key)
        for hours in (0, 1 / 6, 24):
            [row] = await doomed(database, doomed_key)
            waits = (row.not_before - await now(database)).total_seconds() / 3600
            assert waits == pytest.approx(hours, abs=0.02)
            await store.put_bytes(key, b"the dead run's")
            await make_due(database, doomed_key)
            await removal(database, store).step()
            assert await store.head(key) is None
        assert await doomed(database, doomed_key) == [], "nothing is looked for without end"


async def test_two_servers_that_remove_the_same_folder_make_one_pass_of_it(
    store: ObjectStore, database: Database
) -> None:
    folder = f"clips/{uuid4()}/"
    await store.put_bytes(f"{folder}one", b"one")
    await doom(database, folder)
    async with halted(database, store):
        await removal(database, store).step()
        [after] = await doomed(database, folder)
    assert await doomed(database, folder) == [after]


async def test_an_old_upload_that_becomes_a_material_while_old_ones_expire_stays(
    asr: Asr, database: Database
) -> None:
    """The look for old uploads takes a while; the last of them is used meanwhile."""
    async with database.begin() as session:
        await session.execute(text(OLD_UPLOADS), {"count": 30_000})
        last = (await session.execute(text(LAST_UPLOAD))).scalar_one()
    expiring = asyncio.create_task(expire(database))
    while not expiring.done():
        async with database.begin() as session:
            if await session.scalar(text(EXPIRY_RUNS)):
                break
    request = live_material_service_pb2.CreateLiveMaterialRequest(name="used-late", upload_id=str(last))
    refused = None
    try:
        await asr.materials.CreateLiveMaterial(request)
    except grpc.aio.AioRpcError as error:
        refused = reason_of(error)
    # either was first, and the other knows
    assert (last in await expiring, refused) in {(False, None), (True, "UPLOAD_NOT_FOUND")}


async def expire(database: Database) -> set[UUID]:
    async with database.begin() as session:
        return set(await repository_upload.remove_expired(session, keep_hours=1000.0, limit=50_000))


OLD_UPLOADS = """
INSERT INTO asr.uploads (id, file_name, size_bytes, committed_bytes, sha1, media_key, updated_at)
SELECT gen_random_uuid(), 'old.mp4', 1, 1, repeat('0', 40), 'recordings/old', '2020-01-01'
FROM generate_series(1, :count)
"""
LAST_UPLOAD = "SELECT id FROM asr.uploads WHERE file_name = 'old.mp4' ORDER BY ctid DESC LIMIT 1"
EXPIRY_RUNS = """
SELECT count(*) FROM pg_stat_activity
WHERE state = 'active' AND query LIKE '%uploads%SKIP LOCKED%' AND pid <> pg_backend_pid()
"""
