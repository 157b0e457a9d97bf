"""Video projects and clips: SQL for editors. The run of a worker is in `repository_slicing`."""

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from sqlalchemy import Row, Select, case, cast, delete, func, insert, select, update
from sqlalchemy.dialects.postgresql import JSONPATH
from sqlalchemy.ext.asyncio import AsyncSession

from libs.common.db import Database
from libs.common.follow import Followed
from services.asr.errors import VideoProjectNotFound
from services.asr.models import clips, live_materials, transcripts, video_projects
from services.asr.repository_material import doom
from services.asr.repository_material import not_found as material_not_found
from services.asr.states import cut_message
from services.asr.states_project import ProjectStatus

AnyRow = Row[*tuple[Any, ...]]
"""A row of whatever columns were asked for."""

# A failed project whose task a person retries must be seen pending again; only recent ones are looked at, so
# that the poll stays bounded. An older one is caught up by the begin of the retried task itself.
_FAILED_FOLLOWED = 200

COLUMNS = (
    *video_projects.c,
    select(func.count())
    .where(clips.c.video_project_id == video_projects.c.id)
    .correlate(video_projects)
    .scalar_subquery()
    .label("clip_count"),
)


async def material_for_project(session: AsyncSession, material_id: UUID) -> AnyRow:
    """Return the material's id, name, status and length, and keep it from being reset or deleted meanwhile.

    Raises:
        MaterialNotFound: there is none with this id.
    """
    columns = live_materials.c
    statement = (
        select(columns.id, columns.name, columns.asr_status, columns.duration_ms)
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
    """Remove the project with its clips' rows; the stored clips are doomed in the same transaction.

    Precondition: the caller holds the row's lock (`lock_project`) and no run is on.
    """
    await doom(session, [clips_prefix(project_id)])
    await session.execute(delete(video_projects).where(video_projects.c.id == project_id))


def clips_prefix(project_id: UUID) -> str:
    """Return the folder of a project's stored clips."""
    return f"clips/{project_id}/"


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


async def task_rejected(session: AsyncSession, project_id: UUID, reason: str) -> None:
    """Fail a project whose task the task service refused for good; a project that is gone is ignored.

    Takes effect only on a pending project: nothing else can be waiting for the task to be made.
    """
    await session.execute(
        update(video_projects)
        .where(video_projects.c.id == project_id, video_projects.c.status == ProjectStatus.PENDING)
        .values(
            status=ProjectStatus.FAILED,
            error_reason="TASK_REJECTED",
            error_message=cut_message(reason),
            updated_at=func.now(),
        )
    )


class ProjectFollowSource:
    """What the follower of tasks sees of video projects and does to them (domain.md 2.2)."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def current(self) -> Sequence[Followed]:
        """Return the projects that are pending or running, and those that failed lately."""
        columns = video_projects.c
        wanted = select(columns.id, columns.slice_task_id, columns.seen_task_version)
        active = wanted.where(columns.status.in_([ProjectStatus.PENDING, ProjectStatus.PROCESSING]))
        failed = wanted.where(columns.status == ProjectStatus.FAILED).order_by(columns.updated_at.desc())
        async with self._database.begin() as session:
            rows = [*await session.execute(active), *await session.execute(failed.limit(_FAILED_FOLLOWED))]
        return [Followed(str(row.id), str(row.slice_task_id), row.seen_task_version) for row in rows]

    async def requeued(self, owner_id: str, task_id: str, version: int) -> None:
        """Set the project to pending and raise the fence, so that the run before is refused at once."""
        await self._update_newer(
            owner_id, task_id, version, {"status": ProjectStatus.PENDING, "updated_at": func.now()}
        )

    async def ended(self, owner_id: str, task_id: str, version: int, reason: str, message: str) -> None:
        """Set the project to failed; a reason that its worker has given says more, and stays."""
        columns = video_projects.c
        told = columns.status == ProjectStatus.FAILED
        changes = {
            "status": ProjectStatus.FAILED,
            "error_reason": case((told, columns.error_reason), else_=reason),
            "error_message": case((told, columns.error_message), else_=cut_message(message)),
            "updated_at": func.now(),
        }
        await self._update_newer(owner_id, task_id, version, changes)

    async def _update_newer(self, owner_id: str, task_id: str, version: int, changes: dict[str, Any]) -> None:
        columns = video_projects.c
        statement = (
            update(video_projects)
            .where(
                columns.id == UUID(owner_id),
                columns.slice_task_id == UUID(task_id),
                columns.seen_task_version < version,
                columns.status != ProjectStatus.COMPLETED,
            )
            .values(**changes, seen_task_version=version)
        )
        async with self._database.begin() as session:
            await session.execute(statement)
