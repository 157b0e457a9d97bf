"""The followers' polls read indexes, however many materials have been completed and have failed."""

from uuid import uuid4

from sqlalchemy import insert, text

from libs.common.db import Database
from libs.common.ids import uuid7
from services.asr.models import live_materials, uploads
from services.asr.repository_follow import MaterialFollowSource
from tests.statements import statements

COUNT = 1_000


async def test_the_poll_of_materials_reads_two_small_indexes(database: Database) -> None:
    statuses = ["completed"] * COUNT + ["failed"] * COUNT + ["pending", "processing"]
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
    with statements(database) as seen:
        followed = await MaterialFollowSource(database).current()
    assert len(followed) == 202
    plans = []
    async with database.begin() as session:
        connection = await session.connection()
        for statement, parameters in seen:
            if "live_materials" in statement:
                plan = await connection.exec_driver_sql(f"EXPLAIN {statement}", parameters)
                plans.append("\n".join(plan.scalars()))
    assert ["live_materials_active" in plans[0], "live_materials_failed" in plans[1]] == [True, True]
    assert all("Seq Scan" not in plan and "Sort" not in plan for plan in plans)
