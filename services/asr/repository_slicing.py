"""The slicing worker's run on a video project: SQL, fenced by task and version (domain.md 2.10)."""

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from sqlalchemy import Update, delete, func, insert, or_, select, update
from sqlalchemy.ext.asyncio import AsyncSession

from services.asr.errors import LeaseLost, Superseded
from services.asr.models import (
    clips,
    doomed_objects,
    live_materials,
    transcript_paragraphs,
    transcripts,
    video_projects,
)
from services.asr.repository_material import doom
from services.asr.repository_project import AnyRow, not_found
from services.asr.states import cut_message
from services.asr.states_project import BEGINNABLE, ProjectStatus

Fence = tuple[UUID, int]
"""The run of a write: the task's id and its version."""


async def begin(session: AsyncSession, project_id: UUID, task_id: UUID, version: int) -> bool:
    """Begin the run `(task_id, version)`; False when this task has completed the project already.

    Takes effect only if the task is the project's current one and the version newer than the one seen; the
    same call again changes nothing and answers the same.

    Raises:
        VideoProjectNotFound, Superseded (another task is current), LeaseLost (an older version).
    """
    columns = video_projects.c
    newer = columns.seen_task_version < version
    repeat = (columns.seen_task_version == version) & (columns.status == ProjectStatus.PROCESSING)
    statement = (
        update(video_projects)
        .where(
            columns.id == project_id,
            columns.slice_task_id == task_id,
            columns.status.in_(BEGINNABLE),
            or_(newer, repeat),
        )
        .values(
            status=ProjectStatus.PROCESSING,
            seen_task_version=version,
            error_reason="",
            error_message="",
            updated_at=func.now(),
        )
    )
    if await _applied(session, statement):
        return True
    row = await _current(session, project_id, task_id)
    if row.status == ProjectStatus.COMPLETED:
        return False
    raise _lease_lost(version)


async def save_clips(
    session: AsyncSession,
    project_id: UUID,
    fence: Fence,
    values: Sequence[dict[str, Any]],
    source: str,
) -> None:
    """Replace the project's clips as a whole and complete it; the objects replaced are doomed.

    Takes effect only while the run `fence` (task, version) is the one that began last. A repeat after it has
    taken effect changes nothing.

    Raises:
        VideoProjectNotFound, Superseded, LeaseLost: nothing was written.
    """
    done = {"status": ProjectStatus.COMPLETED, "clips_source": source, "completed_at": func.now()}
    if not await _applied(session, _of_run(project_id, fence).values(**done, updated_at=func.now())):
        row = await _current(session, project_id, fence[0])
        if row.status == ProjectStatus.COMPLETED and row.seen_task_version == fence[1]:
            return
        raise _lease_lost(fence[1])
    removed = await session.execute(
        delete(clips)
        .where(clips.c.video_project_id == project_id)
        .returning(clips.c.media_key, clips.c.thumbnail_key)
    )
    kept = {v[name] for v in values for name in ("media_key", "thumbnail_key")}
    await doom(session, [key for row in removed for key in row if key and key not in kept])
    # a clip's keys are made of what it is, so one that was doomed may be wanted again
    await session.execute(delete(doomed_objects).where(doomed_objects.c.key.in_(kept)))
    await session.execute(insert(clips), list(values))


async def fail(
    session: AsyncSession,
    project_id: UUID,
    fence: Fence,
    *,
    reason: str,
    message: str,
    retryable: bool,
) -> None:
    """Note a failure; unless it is retryable the project is failed now.

    Fenced and repeatable as `save_clips`.

    Raises:
        VideoProjectNotFound, Superseded, LeaseLost: nothing was written.
    """
    changes: dict[str, Any] = {"error_reason": reason, "error_message": cut_message(message)}
    if not retryable:
        changes["status"] = ProjectStatus.FAILED
    if await _applied(session, _of_run(project_id, fence).values(**changes, updated_at=func.now())):
        return
    row = await _current(session, project_id, fence[0])
    if not (row.status == ProjectStatus.FAILED and row.seen_task_version == fence[1]):
        raise _lease_lost(fence[1])


async def slicing_input(session: AsyncSession, project_id: UUID) -> AnyRow:
    """Return the project with its material's recording and transcript; what is missing is None."""
    material = live_materials.c
    statement = (
        select(
            video_projects,
            material.canonical_key,
            material.duration_ms,
            material.width,
            material.height,
            transcripts.c.asr_raw,
            transcripts.c.asr_summaries,
        )
        .join(live_materials, material.id == video_projects.c.live_material_id)
        .outerjoin(transcripts, transcripts.c.material_id == video_projects.c.live_material_id)
        .where(video_projects.c.id == project_id)
    )
    return (await session.execute(statement)).one()


async def paragraphs(
    session: AsyncSession, material_id: UUID, start_ms: int, end_ms: int
) -> Sequence[AnyRow]:
    """Return the material's paragraphs that touch the span, in order."""
    columns = transcript_paragraphs.c
    statement = (
        select(transcript_paragraphs)
        .where(columns.material_id == material_id, columns.start_ms < end_ms, columns.end_ms > start_ms)
        .order_by(columns.paragraph)
    )
    return (await session.execute(statement)).all()


def _of_run(project_id: UUID, fence: Fence) -> Update:
    """Build an update that takes effect only while the run is the one that began last."""
    task_id, version = fence
    columns = video_projects.c
    return update(video_projects).where(
        columns.id == project_id,
        columns.slice_task_id == task_id,
        columns.seen_task_version == version,
        columns.status == ProjectStatus.PROCESSING,
    )


async def _applied(session: AsyncSession, statement: Update) -> bool:
    """Run a guarded update of one row; tell whether its guard held."""
    return (await session.execute(statement.returning(video_projects.c.id))).one_or_none() is not None


async def _current(session: AsyncSession, project_id: UUID, task_id: UUID) -> AnyRow:
    """Return the project's state, once a guard has not held, to say why.

    Raises:
        VideoProjectNotFound: it is gone.
        Superseded: another task is its current one.
    """
    columns = video_projects.c
    statement = select(columns.status, columns.slice_task_id, columns.seen_task_version)
    row = (await session.execute(statement.where(columns.id == project_id))).one_or_none()
    if row is None:
        raise not_found(project_id)
    if row.slice_task_id != task_id:
        raise Superseded(
            f"the project works with task {row.slice_task_id} now; this run's result isn't wanted any more",
            current_task_id=str(row.slice_task_id),
        )
    return row


def _lease_lost(version: int) -> LeaseLost:
    return LeaseLost(
        f"the run of version {version} isn't the project's current one: stop, nothing was written"
    )
