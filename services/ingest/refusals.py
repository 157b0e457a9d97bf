"""What happens to a job whose task the task service refuses for good."""

from __future__ import annotations

from uuid import UUID

from frontrow.task.v1 import task_service_pb2

from libs.common.db import Database
from services.ingest import repository_job


class TaskRefusals:
    """Record that the task service refused a job's task for good."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def __call__(self, subject: str, kind: str, body: bytes, reason: str) -> None:
        """Fail the job whose task could not be made."""
        order = task_service_pb2.CreateTaskRequest.FromString(body)
        job_id = UUID(subject.removeprefix("ingest_job:"))
        async with self._database.begin() as session:
            await repository_job.refused(
                session, job_id, UUID(order.task_id), f"its task was refused: {reason}"
            )
