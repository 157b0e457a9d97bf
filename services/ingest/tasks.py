"""Order the task that runs a job, in the transaction that needs it (domain.md 2.3)."""

from __future__ import annotations

from uuid import UUID

from frontrow.task.v1 import task_service_pb2
from sqlalchemy.ext.asyncio import AsyncSession

from libs.common.outbox_table import enqueue
from services.ingest.models import outbox
from services.ingest.states import TASK_TYPE

CREATE_TASK = "create_task"


def task_order(job_id: UUID, task_id: UUID, *, max_attempts: int) -> task_service_pb2.CreateTaskRequest:
    """Return the call that makes a job's task with the id that the job has."""
    order = task_service_pb2.CreateTaskRequest(
        task_id=str(task_id),
        type=TASK_TYPE,
        subject=f"ingest_job:{job_id}",
        max_attempts=max_attempts,
    )
    order.payload.update({"job_id": str(job_id)})
    return order


async def order_task(session: AsyncSession, job_id: UUID, task_id: UUID, *, max_attempts: int) -> None:
    """Write the outbox row that makes the task of a job that is run again."""
    order = task_order(job_id, task_id, max_attempts=max_attempts)
    await enqueue(session, outbox, subject=order.subject, kind=CREATE_TASK, body=order.SerializeToString())
