"""However many materials have been completed and have failed: polls read indexes, and none is forgotten."""

from uuid import uuid4

from frontrow.asr.v1 import live_material_service_pb2 as pb
from frontrow.task.v1 import task_service_pb2
from sqlalchemy import insert, text

from libs.common.db import Database
from libs.common.ids import uuid7
from services.asr.models import live_materials, uploads
from services.asr.repository_follow import MaterialFollowSource
from services.asr.repository_followed import FAILED_FOLLOWED
from tests.integration.asr.bed import FAILED, PENDING, Bed
from tests.statements import statements

COUNT = 1_000


async def add_materials(database: Database, statuses: list[str]) -> None:
    """Add materials that have these statuses and tasks that nobody knows."""
    rows = [{"id": uuid7(), "upload_id": uuid7(), "asr_status": status} for status in statuses]
    recording = {"media_key": "k", "size_bytes": 1, "sha1": "a"}
    async with database.begin() as session:
        await session.execute(
            insert(uploads),
            [{"id": row["upload_id"], "file_name": "f", "committed_bytes": 1, **recording} for row in rows],
        )
        await session.execute(
            insert(live_materials),
            [{**row, "name": f"{uuid4()}", "asr_task_id": uuid4(), **recording} for row in rows],
        )
        await session.execute(text("ANALYZE asr.live_materials"))


async def test_the_polls_of_materials_read_small_indexes(database: Database) -> None:
    await add_materials(database, ["completed"] * COUNT + ["failed"] * COUNT + ["pending", "processing"])
    with statements(database) as seen:
        source = MaterialFollowSource(database)
        followed = await source.current()
        turn = await source.failed_after(min(followed, key=lambda row: row.task_id))
        await source.failed_of([row.task_id for row in turn[:10]])
    assert (len(followed), len(turn)) == (202, 200)
    plans = []
    async with database.begin() as session:
        connection = await session.connection()
        for statement, parameters in seen:
            if "live_materials" in statement:
                plan = await connection.exec_driver_sql(f"EXPLAIN {statement}", parameters)
                plans.append("\n".join(plan.scalars()))
    indexes = ("active", "failed", "failed_task", "failed_task")
    wanted = [f"live_materials_{index}" for index in indexes]
    assert [index for index, plan in zip(wanted, plans, strict=True) if f"{index} " in plan] == wanted
    assert all("Seq Scan" not in plan and "Sort" not in plan for plan in plans)


async def test_a_task_that_a_person_retries_is_seen_however_many_materials_have_failed_since(
    bed: Bed, database: Database
) -> None:
    material = await bed.material()
    task = await bed.claim(material.asr_task_id)
    await bed.fail(material.id, (await bed.begin(material, task.version)).asr_version, "NO_SPEECH")
    await bed.finish(task, failed="nobody speaks")
    await bed.until(material.id, FAILED)
    await add_materials(database, ["failed"] * FAILED_FOLLOWED)
    await bed.tasks.RetryTask(task_service_pb2.RetryTaskRequest(task_id=material.asr_task_id))
    # no worker takes it
    await bed.until(material.id, PENDING)
    await bed.materials.CancelTranscription(pb.CancelTranscriptionRequest(live_material_id=material.id))
