"""Typed calls of the asr context to the task service: what goes into the outbox, and who sends it."""

from uuid import UUID

from frontrow.task.v1 import task_service_pb2
from sqlalchemy.ext.asyncio import AsyncSession

from libs.common.outbox import enqueue
from services.asr.models import outbox

ASR_TASK = "asr"
CREATE_TASK = "create_task"
CANCEL_TASK = "cancel_task"


def material_subject(material_id: UUID | str) -> str:
    """Name a material as the subject of tasks and outbox rows."""
    return f"live_material:{material_id}"


async def enqueue_transcription(session: AsyncSession, material_id: UUID, task_id: UUID, name: str) -> None:
    """Have the task created that transcribes a material; its id was chosen here (domain.md 2.3)."""
    request = task_service_pb2.CreateTaskRequest(
        task_id=str(task_id),
        type=ASR_TASK,
        subject=material_subject(material_id),
        live_material_name=name,
    )
    request.payload["material_id"] = str(material_id)
    body = request.SerializeToString()
    await enqueue(session, outbox, subject=material_subject(material_id), kind=CREATE_TASK, body=body)


async def enqueue_cancel(session: AsyncSession, subject: str, task_id: UUID) -> None:
    """Have a task cancelled, after all that was enqueued for the same subject before."""
    body = task_service_pb2.CancelTaskRequest(task_id=str(task_id)).SerializeToString()
    await enqueue(session, outbox, subject=subject, kind=CANCEL_TASK, body=body)


def created_task_id(body: bytes) -> str:
    """Read the task's id of a create_task row."""
    return task_service_pb2.CreateTaskRequest.FromString(body).task_id
