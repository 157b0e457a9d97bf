"""Video projects and clips: SQL for editors. The run of a worker is in `repository_slicing`."""

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from sqlalchemy import Row, Select, Text, cast, delete, func, insert, select
from sqlalchemy.dialects.postgresql import JSONPATH
from sqlalchemy.ext.asyncio import AsyncSession

from services.asr.errors import VideoProjectNotFound
from services.asr.models import clips, live_materials, transcripts, video_projects
from services.asr.models_draft import editing_drafts
from services.asr.repository_material import doom
from services.asr.repository_material import not_found as material_not_found
from services.asr.states_project import ProjectStatus

AnyRow = Row[*tuple[Any, ...]]
"""A row of whatever columns were asked for."""

COLUMNS = (
    *video_projects.c,
    select(func.count())
    .where(clips.c.video_project_id == video_projects.c.id)
    .correlate(video_projects)
    .scalar_subquery()
    .label("clip_count"),
    select(func.max(editing_drafts.c.id.cast(Text)))
    .where(
        editing_drafts.c.video_project_id == video_projects.c.id,
        editing_drafts.c.draft_task_id == video_projects.c.slice_task_id,
    )
    .correlate(video_projects)
    .scalar_subquery()
    .label("editing_draft_id"),
)


async def material_for_project(session: AsyncSession, material_id: UUID) -> AnyRow:
    """Return a material's id, name, status, length and trace; keep it from being reset or deleted.

    Raises:
        MaterialNotFound: there is none with this id.
    """
    columns = live_materials.c
    statement = (
        select(columns.id, columns.name, columns.asr_status, columns.duration_ms, columns.trace_parent)
        .where(columns.id == material_id)
        .with_for_update(read=True)
    )
    row = (await session.execute(statement)).one_or_none()
    if row is None:
        raise material_not_found(material_id)
    return row


async def has_speech(session: AsyncSession, material_id: UUID, start_ms: int, end_ms: int) -> bool:
    """Tell whether an utterance of the material's transcript touches `[start_ms, end_ms)`."""
    spoken = func.jsonb_path_exists(
        transcripts.c.asr_raw,
        cast("$[*] ? (@.s < $end && @.e > $start)", JSONPATH),
        func.jsonb_build_object("start", start_ms, "end", end_ms),
    )
    found = await session.scalar(select(spoken).where(transcripts.c.material_id == material_id))
    return bool(found)


async def insert_project(session: AsyncSession, values: dict[str, Any]) -> None:
    """Add a project in state pending.

    Raises:
        IntegrityError: on video_projects_request_key, the request_id was seen before.
    """
    await session.execute(insert(video_projects).values(**values, status=ProjectStatus.PENDING))


async def project_of_request(session: AsyncSession, request_id: str) -> AnyRow | None:
    """Return the project that was made under a request id that isn't empty, or None."""
    statement = select(*COLUMNS).where(video_projects.c.request_id == request_id)
    return (await session.execute(statement)).one_or_none()


async def get_project(session: AsyncSession, project_id: UUID) -> AnyRow:
    """Return one project.

    Raises:
        VideoProjectNotFound: there is none with this id.
    """
    row = (await session.execute(select(*COLUMNS).where(video_projects.c.id == project_id))).one_or_none()
    if row is None:
        raise not_found(project_id)
    return row


def not_found(project_id: UUID) -> VideoProjectNotFound:
    """Make the error for an id without a project."""
    return VideoProjectNotFound(f"there is no video project {project_id}", video_project_id=str(project_id))


async def list_projects(
    session: AsyncSession, material_id: UUID | None, *, before: UUID | None, limit: int
) -> Sequence[AnyRow]:
    """Return up to `limit` projects older than `before`, newest first; ids are made in order of time."""
    statement: Select[*tuple[Any, ...]] = select(*COLUMNS).order_by(video_projects.c.id.desc()).limit(limit)
    if material_id is not None:
        statement = statement.where(video_projects.c.live_material_id == material_id)
    if before is not None:
        statement = statement.where(video_projects.c.id < before)
    return (await session.execute(statement)).all()


async def lock_project(session: AsyncSession, project_id: UUID) -> AnyRow:
    """Return the project's status and task, and hold its row until the transaction ends.

    Raises:
        VideoProjectNotFound: there is none with this id.
    """
    statement = (
        select(video_projects.c.status, video_projects.c.slice_task_id)
        .where(video_projects.c.id == project_id)
        .with_for_update()
    )
    row = (await session.execute(statement)).one_or_none()
    if row is None:
        raise not_found(project_id)
    return row


async def delete_project(session: AsyncSession, project_id: UUID) -> None:
    """Remove the project with its clips' and drafts' rows; stored files are doomed in the same transaction.

    Precondition: the caller holds the row's lock (`lock_project`) and no run is on.
    """
    await doom(session, stored_prefixes(project_id))
    await session.execute(delete(video_projects).where(video_projects.c.id == project_id))


def clips_prefix(project_id: UUID) -> str:
    """Return the folder of a project's stored clips."""
    return f"clips/{project_id}/"


def stored_prefixes(project_id: UUID) -> list[str]:
    """Return the folders of everything that is stored for a project: clips, drafts, what runs keep."""
    return [clips_prefix(project_id), f"drafts/{project_id}/", f"staging/slicing/{project_id}/"]


async def list_clips(session: AsyncSession, project_id: UUID, *, after: int, limit: int) -> Sequence[AnyRow]:
    """Return up to `limit` clips of the project behind position `after`, in order."""
    statement = (
        select(clips)
        .where(clips.c.video_project_id == project_id, clips.c.position > after)
        .order_by(clips.c.position)
        .limit(limit)
    )
    return (await session.execute(statement)).all()


async def get_clip(session: AsyncSession, clip_id: UUID) -> AnyRow | None:
    """Return one clip, or None."""
    return (await session.execute(select(clips).where(clips.c.id == clip_id))).one_or_none()


async def recording_keys(session: AsyncSession, material_id: UUID) -> AnyRow:
    """Return the keys and the name of a material's recording.

    Raises:
        MaterialNotFound: there is none with this id.
    """
    columns = live_materials.c
    statement = select(columns.media_key, columns.canonical_key, columns.file_name, columns.name)
    row = (await session.execute(statement.where(columns.id == material_id))).one_or_none()
    if row is None:
        raise material_not_found(material_id)
    return row
