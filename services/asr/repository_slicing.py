"""What the slicing worker reads and saves: SQL, fenced by task and version (domain.md 2.10)."""

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from sqlalchemy import case, delete, func, insert, select
from sqlalchemy.ext.asyncio import AsyncSession

from services.asr.models import (
    clips,
    live_materials,
    transcript_paragraphs,
    transcripts,
    video_projects,
)
from services.asr.repository_draft import add_own_draft
from services.asr.repository_project import AnyRow
from services.asr.repository_run import DRAFTS, PROJECTS, Fence, write
from services.asr.states_project import AI_SLICE_DRAFT, ProjectStatus


async def save_clips(
    session: AsyncSession,
    project_id: UUID,
    fence: Fence,
    values: Sequence[dict[str, Any]],
    source: str,
) -> None:
    """Replace the project's clips as a whole.

    What was stored for a clip that is replaced stays as long as the project: a clip's keys are made of what
    it is, so a later save of the run may want them again, and a removal under way couldn't be called back.

    Completes the project, unless its task goes on to make a draft of them. Takes effect only while the run
    `fence` (task, version) is the one that began last. A repeat after it has completed the project changes
    nothing.

    Raises:
        VideoProjectNotFound, Superseded, LeaseLost: nothing was written.
    """
    goes_on = video_projects.c.mode == AI_SLICE_DRAFT
    done = {
        "status": case((goes_on, ProjectStatus.PROCESSING), else_=ProjectStatus.COMPLETED),
        "completed_at": case((goes_on, None), else_=func.now()),
        "clips_source": source,
    }
    if not await write(session, PROJECTS, project_id, fence, done):
        return
    await session.execute(delete(clips).where(clips.c.video_project_id == project_id))
    await session.execute(insert(clips), list(values))


async def save_draft(
    session: AsyncSession, project_id: UUID, draft_id: UUID | None, fence: Fence, values: dict[str, Any]
) -> None:
    """Store a draft and complete what its run works on: the draft, or (None) the project with its own draft.

    Fenced and repeatable as `save_clips`.

    Raises:
        VideoProjectNotFound, EditingDraftNotFound, Superseded, LeaseLost: nothing was written.
    """
    done = {"completed_at": func.now()}
    if draft_id is not None:
        changes = {**values, **done, "draft_status": ProjectStatus.COMPLETED}
        await write(session, DRAFTS, draft_id, fence, changes)
    elif await write(session, PROJECTS, project_id, fence, {**done, "status": ProjectStatus.COMPLETED}):
        await add_own_draft(session, project_id, values)


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
