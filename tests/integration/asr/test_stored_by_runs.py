"""What runs store of a material: each its own, and what nobody refers to goes."""

import asyncio
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from frontrow.asr.v1 import live_material_pb2
from frontrow.asr.v1 import live_material_service_pb2 as pb
from sqlalchemy import func, select, update

from libs.common.db import Database
from libs.common.objects.local import LocalStore
from libs.common.testing import eventually
from services.asr import repository_leftovers
from services.asr.models import doomed_objects, live_materials
from services.asr.stored_names import canonical_key, fetched_key
from services.asr.worker.mount import AsrWorker
from tests.integration.asr.bed import COMPLETED, Bed
from tests.integration.asr.scripted_engine import Scripted
from tests.integration.asr.workers import finished, worker_settings

pytestmark = pytest.mark.timeout(120)


async def row_of(database: Database, material: live_material_pb2.LiveMaterial) -> Any:
    columns = live_materials.c.upload_id, live_materials.c.media_key, live_materials.c.canonical_key
    async with database.begin() as session:
        return (await session.execute(select(*columns).where(live_materials.c.id == UUID(material.id)))).one()


async def gone(bed: Bed, *keys: str) -> bool:
    return [key for key in keys if await bed.store.head(key) is not None] == []


async def begun(bed: Bed, material: live_material_pb2.LiveMaterial) -> tuple[int, Callable[..., Any]]:
    """Begin a run of the current task; returns its asr_version and what ends its task."""
    material = await bed.read(material.id)
    task = await bed.claim(material.asr_task_id)
    return (await bed.begin(material, task.version)).asr_version, partial(bed.finish, task)


async def reset(bed: Bed, material: live_material_pb2.LiveMaterial) -> None:
    await bed.materials.ResetASRToPending(pb.ResetASRToPendingRequest(live_material_id=material.id))


async def test_a_file_that_an_older_run_stores_late_is_not_the_one_that_the_newer_runs_result_names(
    bed: Bed, database: Database, shortest: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    late: list[str] = []
    put_file = LocalStore.put_file

    async def stuck_the_first_time(self: LocalStore, key: str, path: Path) -> None:
        if "/canonical" in key and not late:
            late.append(key)
            await asyncio.Event().wait()
        await put_file(self, key, path)

    monkeypatch.setattr(LocalStore, "put_file", stuck_the_first_time)
    settings = worker_settings(tmp_path).model_copy(update={"run_timeout_seconds": 4.0})
    worker = AsrWorker(settings, bed.common, engine=Scripted())
    await worker.start()
    material = await bed.material(shortest)
    await bed.until(material.id, COMPLETED, seconds=60)
    await eventually(partial(finished, bed, material))
    await worker.stop()
    key = (await row_of(database, material)).canonical_key
    stored = await bed.store.get_bytes(key)
    await bed.store.put_bytes(late[0], b"the older run's")
    assert await bed.store.get_bytes(key) == stored
    async with database.begin() as session:
        await session.execute(
            update(doomed_objects).where(doomed_objects.c.key == late[0]).values(not_before=func.now())
        )
    await eventually(partial(gone, bed, late[0]))


async def test_a_name_that_a_worker_of_an_older_release_comes_back_to_is_not_removed(
    bed: Bed, database: Database
) -> None:
    material = await bed.material()
    old, new = f"recordings/{material.id}/canonical.mp4", canonical_key(material.id, 2)
    for key in (old, new, old):
        async with database.begin() as session:
            before = (await row_of(database, material)).canonical_key
            await repository_leftovers.replaced(session, UUID(material.id), before, key)
            named = update(live_materials).where(live_materials.c.id == UUID(material.id))
            await session.execute(named.values(canonical_key=key))
    async with database.begin() as session:
        doomed = (await session.execute(select(doomed_objects.c.key))).scalars().all()
    assert (old in doomed, new in doomed) == (False, True)


async def test_what_a_dead_run_stored_goes_when_the_next_one_begins(bed: Bed, database: Database) -> None:
    material = await bed.material()
    row = await row_of(database, material)
    version, give_back = await begun(bed, material)
    left = [canonical_key(material.id, version), fetched_key(row.upload_id, version)]
    for key in left:
        await bed.store.put_bytes(key, b"x")
    await give_back(released=True)
    await begun(bed, material)
    await eventually(partial(gone, bed, *left))
    assert await bed.store.head(row.media_key) is not None


async def test_a_run_that_fails_leaves_the_file_of_the_result_before_alone(
    bed: Bed, database: Database
) -> None:
    material = await bed.material()
    version, finish = await begun(bed, material)
    kept = canonical_key(material.id, version)
    await bed.store.put_bytes(kept, b"the first")
    await bed.complete(material.id, version, ["第一次"])
    await finish()
    await reset(bed, material)
    version, finish = await begun(bed, material)
    left = canonical_key(material.id, version)
    await bed.store.put_bytes(left, b"the second")
    await bed.fail(material.id, version, "NO_SPEECH")
    await finish(failed="no")
    await eventually(partial(gone, bed, left))
    assert (await row_of(database, material)).canonical_key == kept
    assert await bed.store.get_bytes(kept) == b"the first"
    assert await bed.texts(material.id) == ["第一次"]


async def test_a_file_that_a_new_result_replaces_stays_a_day_for_who_still_reads_it(
    bed: Bed, database: Database
) -> None:
    material = await bed.material()
    keys = []
    for text in ("一", "二", "三"):
        version, finish = await begun(bed, material)
        keys.append(canonical_key(material.id, version))
        await bed.store.put_bytes(keys[-1], text.encode())
        await bed.complete(material.id, version, [text])
        await finish()
        await reset(bed, material)
    hours = func.extract("epoch", doomed_objects.c.not_before - func.now()) / 3600
    async with database.begin() as session:
        query = select(doomed_objects.c.key, hours).where(doomed_objects.c.key.in_(keys))
        doomed = {key: float(left) for key, left in (await session.execute(query)).all()}
    assert doomed == pytest.approx(dict.fromkeys(keys[:2], 24), abs=1)
    assert not await gone(bed, keys[0])
    assert (await row_of(database, material)).canonical_key == keys[2]
