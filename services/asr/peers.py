"""Typed calls of the asr context to the task service: what goes into the outbox, and who sends it."""

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from frontrow.task.v1 import task_service_pb2
from sqlalchemy import Row
from sqlalchemy.ext.asyncio import AsyncSession

from libs.common.outbox_table import enqueue
from services.asr.models import outbox
from services.asr.states_project import DRAFT

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


def project_subject(project_id: UUID | str) -> str:
    """Name a video project as the subject of tasks and outbox rows."""
    return f"video_project:{project_id}"


def draft_subject(draft_id: UUID | str) -> str:
    """Name an editing draft as the subject of tasks and outbox rows."""
    return f"editing_draft:{draft_id}"


async def enqueue_slicing(session: AsyncSession, project: Mapping[str, Any]) -> None:
    """Have the task created that makes a project's clips, of its columns; its type is the project's mode."""
    request = task_service_pb2.CreateTaskRequest(
        task_id=str(project["slice_task_id"]),
        type=project["mode"],
        subject=project_subject(project["id"]),
        live_material_name=project["live_material_name"],
        video_project_name=project["name"],
    )
    request.payload["video_project_id"] = str(project["id"])
    body = request.SerializeToString()
    await enqueue(session, outbox, subject=project_subject(project["id"]), kind=CREATE_TASK, body=body)


async def enqueue_draft(session: AsyncSession, draft: Mapping[str, Any], project: Row[Any]) -> None:
    """Have the task created that makes a draft, of its columns and its project's names."""
    request = task_service_pb2.CreateTaskRequest(
        task_id=str(draft["draft_task_id"]),
        type=DRAFT,
        subject=draft_subject(draft["id"]),
        live_material_name=project.live_material_name,
        video_project_name=project.name,
    )
    request.payload["video_project_id"] = str(draft["video_project_id"])
    request.payload["editing_draft_id"] = str(draft["id"])
    body = request.SerializeToString()
    await enqueue(session, outbox, subject=draft_subject(draft["id"]), kind=CREATE_TASK, body=body)


async def enqueue_cancel(session: AsyncSession, subject: str, task_id: UUID) -> None:
    """Have a task cancelled, after all that was enqueued for the same subject before."""
    body = task_service_pb2.CancelTaskRequest(task_id=str(task_id)).SerializeToString()
    await enqueue(session, outbox, subject=subject, kind=CANCEL_TASK, body=body)


def created_task_id(body: bytes) -> str:
    """Read the task's id of a create_task row."""
    return task_service_pb2.CreateTaskRequest.FromString(body).task_id
