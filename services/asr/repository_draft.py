"""Editing drafts: SQL for editors, and the save of a run. The run's fence is in `repository_run`."""

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from sqlalchemy import Row, Select, delete, func, insert, select
from sqlalchemy.ext.asyncio import AsyncSession

from libs.common.ids import uuid7
from services.asr.errors import ClipNotFound, EditingDraftNotFound
from services.asr.models import clips, video_projects
from services.asr.models_draft import editing_drafts
from services.asr.repository_material import doom
from services.asr.states_project import ProjectStatus

AnyRow = Row[*tuple[Any, ...]]


def draft_not_found(draft_id: UUID) -> EditingDraftNotFound:
    """Make the error for an id without a draft."""
    return EditingDraftNotFound(f"there is no editing draft {draft_id}", editing_draft_id=str(draft_id))


def drafts_prefix(project_id: UUID) -> str:
    """Return the folder of all stored drafts of a project."""
    return f"drafts/{project_id}/"


def draft_prefix(project_id: UUID, draft_id: UUID | None) -> str:
    """Return the folder of a draft's stored zip; None: the one that the project's own task makes."""
    return f"{drafts_prefix(project_id)}{draft_id or 'own'}/"


async def project_for_draft(session: AsyncSession, project_id: UUID) -> AnyRow | None:
    """Return a project's status, names and trace; keep it from being deleted meanwhile. None: no such one."""
    columns = video_projects.c
    statement = (
        select(columns.id, columns.name, columns.live_material_name, columns.status, columns.trace_parent)
        .where(columns.id == project_id)
        .with_for_update(read=True)
    )
    return (await session.execute(statement)).one_or_none()


async def insert_draft(session: AsyncSession, values: dict[str, Any]) -> None:
    """Add a draft in state pending.

    Raises:
        IntegrityError: on editing_drafts_request_key, the request_id was seen before.
    """
    await session.execute(insert(editing_drafts).values(**values, draft_status=ProjectStatus.PENDING))


async def draft_of_request(session: AsyncSession, request_id: str) -> AnyRow | None:
    """Return the draft that was made under a request id that isn't empty, or None."""
    statement = select(editing_drafts).where(editing_drafts.c.request_id == request_id)
    return (await session.execute(statement)).one_or_none()


async def get_draft(session: AsyncSession, draft_id: UUID, *, for_update: bool = False) -> AnyRow:
    """Return one draft.

    Raises:
        EditingDraftNotFound: there is none with this id.
    """
    statement = select(editing_drafts).where(editing_drafts.c.id == draft_id)
    if for_update:
        statement = statement.with_for_update()
    row = (await session.execute(statement)).one_or_none()
    if row is None:
        raise draft_not_found(draft_id)
    return row


async def list_drafts(
    session: AsyncSession, project_id: UUID | None, *, before: UUID | None, limit: int
) -> Sequence[AnyRow]:
    """Return up to `limit` drafts older than `before`, newest first; ids are made in order of time."""
    columns = editing_drafts.c
    statement: Select[*tuple[Any, ...]] = select(editing_drafts).order_by(columns.id.desc()).limit(limit)
    if project_id is not None:
        statement = statement.where(columns.video_project_id == project_id)
    if before is not None:
        statement = statement.where(columns.id < before)
    return (await session.execute(statement)).all()


async def unfinished_drafts(session: AsyncSession, project_ids: Sequence[UUID]) -> Sequence[AnyRow]:
    """Return id, project, status and task of the projects' drafts that wait or run, and hold their rows."""
    columns = editing_drafts.c
    statement = (
        select(columns.id, columns.video_project_id, columns.draft_status, columns.draft_task_id)
        .where(
            columns.video_project_id.in_(project_ids),
            columns.draft_status.in_([ProjectStatus.PENDING, ProjectStatus.PROCESSING]),
        )
        .with_for_update()
    )
    return (await session.execute(statement)).all()


async def delete_draft(session: AsyncSession, row: AnyRow) -> None:
    """Remove a draft's row; its stored file is doomed in the same transaction.

    Precondition: the caller holds the row's lock and no run is on.
    """
    folder = draft_prefix(row.video_project_id, row.id)
    if row.media_key:
        folder = row.media_key.rpartition("/")[0] + "/"
    await doom(session, [folder])
    await session.execute(delete(editing_drafts).where(editing_drafts.c.id == row.id))


async def clips_of_draft(
    session: AsyncSession, project_id: UUID, clip_ids: Sequence[str]
) -> Sequence[AnyRow]:
    """Return the project's clips in the order of `clip_ids`; without any, all of them by their position.

    Raises:
        ClipNotFound: one isn't the project's.
    """
    statement = select(clips).where(clips.c.video_project_id == project_id).order_by(clips.c.position)
    rows = (await session.execute(statement)).all()
    if not clip_ids:
        return rows
    by_id = {str(row.id): row for row in rows}
    for clip_id in clip_ids:
        if clip_id not in by_id:
            raise ClipNotFound(f"the project has no clip {clip_id}", clip_id=clip_id)
    return [by_id[clip_id] for clip_id in clip_ids]


async def add_own_draft(session: AsyncSession, project_id: UUID, values: dict[str, Any]) -> None:
    """Add the row of the draft that the project's own task has made.

    Precondition: the transaction holds the project's row, which its run has just completed.
    """
    columns = video_projects.c
    project = (
        await session.execute(
            select(
                columns.draft_format, columns.draft_root, columns.slice_task_id, columns.seen_task_version
            ).where(columns.id == project_id)
        )
    ).one()
    await session.execute(
        insert(editing_drafts).values(
            id=uuid7(),
            video_project_id=project_id,
            format=project.draft_format,
            draft_root=project.draft_root,
            draft_status=ProjectStatus.COMPLETED,
            draft_task_id=project.slice_task_id,
            draft_seen_version=project.seen_task_version,
            completed_at=func.now(),
            **values,
        )
    )


async def own_draft_key(session: AsyncSession, project_id: UUID, task_id: UUID) -> str:
    """Return the object key of the draft that the project's own task has made; empty: none (any more)."""
    columns = editing_drafts.c
    mine = (columns.video_project_id == project_id) & (columns.draft_task_id == task_id)
    return str(await session.scalar(select(columns.media_key).where(mine)) or "")
