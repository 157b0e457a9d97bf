"""kill -9 of the worker at random moments: the transcript is an unbroken run's, no kept chunk is redone."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from functools import partial
from pathlib import Path
from uuid import UUID, uuid4

import grpc.aio
import pytest
from frontrow.asr.v1 import live_material_service_pb2 as pb
from frontrow.task.v1 import task_service_pb2
from sqlalchemy import select

from libs.common.client import reason_of
from libs.common.db import Database
from libs.common.testing import eventually
from services.asr.models import transcript_parts
from tests.integration.asr.bed import COMPLETED, FAILED, SAMPLES, Bed
from tests.integration.asr.test_killed_stages import hash_of
from tests.integration.asr.web import site
from tests.soak.asr.worker_process import CHUNK_SECONDS, worker_process

RECORDINGS, KILLS_EACH = 10, 6
SECONDS = 119.7
LONGEST_LIFE_SECONDS = 14.0
LEASE_SECONDS = 5.0


async def kept(database: Database, material_id: str) -> dict[int, tuple[int, object]]:
    """Return which run kept each part, and when."""
    columns = transcript_parts.c
    query = select(columns.part, columns.asr_version, columns.created_at)
    async with database.begin() as session:
        rows = (await session.execute(query.where(columns.material_id == UUID(material_id)))).all()
    return {row.part: (row.asr_version, row.created_at) for row in rows}


async def again_if_abandoned(bed: Bed, material_id: str) -> bool:
    """Retry a task that was given up for its many kills, as a person does; tells whether it is done."""
    material = await bed.read(material_id)
    if material.asr_status == FAILED:
        assert material.asr_error_reason == "ABANDONED", material
        try:
            await bed.tasks.RetryTask(task_service_pb2.RetryTaskRequest(task_id=material.asr_task_id))
        except grpc.aio.AioRpcError as error:
            if reason_of(error) != "TASK_NOT_RETRYABLE":  # retried already, and the material hasn't heard yet
                raise
    return material.asr_status == COMPLETED


@pytest.mark.timeout(7200)
async def test_a_transcript_survives_any_number_of_kills(
    bed: Bed, database: Database, share: float, tmp_path: Path, tell: Callable[[object], None]
) -> None:
    content = await asyncio.to_thread((SAMPLES / "live_zh.mp4").read_bytes)
    chance = random.Random(4)
    log, scratch = tmp_path / "worker.log", tmp_path / "scratch"
    async with site(content) as served:

        async def created() -> str:
            request = pb.CreateLiveMaterialRequest(name=f"{uuid4()}", media_url=served.url)
            return (await bed.materials.CreateLiveMaterial(request)).live_material.id

        unbroken = await created()
        async with worker_process(bed, scratch, log):
            await bed.until(unbroken, COMPLETED, seconds=600)
        wanted, kills, redone = await hash_of(bed, unbroken), 0, 0
        for _ in range(max(1, round(RECORDINGS * share))):
            material_id = await created()
            before: dict[int, tuple[int, object]] = {}
            for _ in range(KILLS_EACH):
                async with worker_process(bed, scratch, log):
                    await asyncio.sleep(chance.uniform(1.0, LONGEST_LIFE_SECONDS))
                kills += 1
                now = await kept(database, material_id)
                redone += sum(now.get(part) != run for part, run in before.items())
                before = now
                await asyncio.sleep(LEASE_SECONDS + 1.0)
                await again_if_abandoned(bed, material_id)
            async with worker_process(bed, scratch, log):
                await eventually(partial(again_if_abandoned, bed, material_id), 600)
            assert await hash_of(bed, material_id) == wanted
    chunks = round(SECONDS / CHUNK_SECONDS)
    tell(f"{kills} kills, {redone} kept chunks done again, about {chunks} chunks a recording")
    assert redone == 0
