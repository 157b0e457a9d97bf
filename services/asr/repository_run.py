"""A worker's run on a row that a task works for: begun, fenced and followed (domain.md 2.1, 2.2, 2.10).

Video projects and editing drafts are such rows; what holds for one holds for the other.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from sqlalchemy import Column, Row, Table, Update, case, func, or_, select, update
from sqlalchemy.ext.asyncio import AsyncSession

from libs.common.db import Database
from libs.common.errors import DomainError
from services.asr.errors import LeaseLost, Superseded
from services.asr.models import video_projects
from services.asr.models_draft import editing_drafts
from services.asr.repository_draft import draft_not_found
from services.asr.repository_followed import FollowedRows
from services.asr.repository_project import not_found
from services.asr.states import CANCELLED_REASON, cut_message
from services.asr.states_project import BEGINNABLE, ProjectStatus

Fence = tuple[UUID, int]
"""The run of a write: the task's id and its version."""

# Reasons that say more than what the failed run noted about itself.
_TELLING = frozenset({CANCELLED_REASON, "ABANDONED"})


@dataclass(frozen=True)
class Owner:
    """The rows of a table that tasks work for, and the columns that say by which and how far."""

    noun: str
    table: Table
    task_id: "Column[Any]"
    seen_version: "Column[Any]"
    status: "Column[Any]"
    not_found: Callable[[UUID], DomainError]

    def newer(self, owner_id: UUID, task_id: UUID, version: int) -> Update:
        """Build an update that takes effect only for a version of the current task that is newer."""
        return update(self.table).where(
            self.table.c.id == owner_id, self.task_id == task_id, self.seen_version < version
        )

    def of_run(self, owner_id: UUID, fence: Fence) -> Update:
        """Build an update that takes effect only while the run is the one that began last."""
        return update(self.table).where(
            self.table.c.id == owner_id,
            self.task_id == fence[0],
            self.seen_version == fence[1],
            self.status == ProjectStatus.PROCESSING,
        )


PROJECTS = Owner(
    "project",
    video_projects,
    video_projects.c.slice_task_id,
    video_projects.c.seen_task_version,
    video_projects.c.status,
    not_found,
)
DRAFTS = Owner(
    "draft",
    editing_drafts,
    editing_drafts.c.draft_task_id,
    editing_drafts.c.draft_seen_version,
    editing_drafts.c.draft_status,
    draft_not_found,
)


async def begin(session: AsyncSession, owner: Owner, owner_id: UUID, fence: Fence) -> bool:
    """Begin the run `fence`; False when its task has completed the row already.

    Takes effect only if the task is the row's current one and the version newer than the one seen; the same
    call again changes nothing and answers the same.

    Raises:
        VideoProjectNotFound or EditingDraftNotFound, Superseded (another task is current), LeaseLost (an
        older version).
    """
    task_id, version = fence
    repeat = (owner.seen_version == version) & (owner.status == ProjectStatus.PROCESSING)
    statement = (
        update(owner.table)
        .where(
            owner.table.c.id == owner_id,
            owner.task_id == task_id,
            owner.status.in_(BEGINNABLE),
            or_(owner.seen_version < version, repeat),
        )
        .values(
            {
                owner.status: ProjectStatus.PROCESSING,
                owner.seen_version: version,
                owner.table.c.error_reason: "",
                owner.table.c.error_message: "",
                owner.table.c.updated_at: func.now(),
            }
        )
    )
    if await _applied(session, owner, statement):
        return True
    row = await _current(session, owner, owner_id, task_id)
    if row.status == ProjectStatus.COMPLETED:
        return False
    raise _lease_lost(owner, version)


async def write(
    session: AsyncSession, owner: Owner, owner_id: UUID, fence: Fence, values: dict[str, Any]
) -> bool:
    """Set columns of the row; False when this very run has completed the row before: nothing is left to do.

    Takes effect only while the run `fence` (task, version) is the one that began last.

    Raises:
        VideoProjectNotFound or EditingDraftNotFound, Superseded, LeaseLost: nothing was written.
    """
    if await _applied(session, owner, owner.of_run(owner_id, fence).values(**values, updated_at=func.now())):
        return True
    row = await _current(session, owner, owner_id, fence[0])
    if row.status == ProjectStatus.COMPLETED and row.seen_version == fence[1]:
        return False
    raise _lease_lost(owner, fence[1])


async def fail(
    session: AsyncSession,
    owner: Owner,
    owner_id: UUID,
    fence: Fence,
    *,
    reason: str,
    message: str,
    retryable: bool,
) -> None:
    """Note a failure; unless it is retryable the row is failed now. Fenced and repeatable as `write`.

    Raises:
        VideoProjectNotFound or EditingDraftNotFound, Superseded, LeaseLost: nothing was written.
    """
    changes: dict[str, Any] = {"error_reason": reason, "error_message": cut_message(message)}
    if not retryable:
        changes[owner.status.name] = ProjectStatus.FAILED
    changes["updated_at"] = func.now()
    if await _applied(session, owner, owner.of_run(owner_id, fence).values(**changes)):
        return
    row = await _current(session, owner, owner_id, fence[0])
    if not (row.status == ProjectStatus.FAILED and row.seen_version == fence[1]):
        raise _lease_lost(owner, fence[1])


async def rejected(session: AsyncSession, owner: Owner, owner_id: UUID, reason: str) -> None:
    """Fail a row whose task the task service refused for good; a row that is gone is ignored.

    Takes effect only on a pending row: nothing else can be waiting for the task to be made.
    """
    await session.execute(
        update(owner.table)
        .where(owner.table.c.id == owner_id, owner.status == ProjectStatus.PENDING)
        .values(
            {
                owner.status: ProjectStatus.FAILED,
                owner.table.c.error_reason: "TASK_REJECTED",
                owner.table.c.error_message: cut_message(reason),
                owner.table.c.updated_at: func.now(),
            }
        )
    )


class RunFollowSource(FollowedRows):
    """What the follower of tasks sees of an owner's rows and does to them (domain.md 2.2)."""

    def __init__(self, database: Database, owner: Owner) -> None:
        super().__init__(
            database,
            owner.table,
            task_id=owner.task_id,
            seen_version=owner.seen_version,
            status=owner.status,
        )
        self._owner = owner

    async def requeued(self, owner_id: str, task_id: str, version: int) -> None:
        """Set the row to pending and raise the fence, so that the run before is refused at once."""
        status: dict[Any, Any] = {self._owner.status: ProjectStatus.PENDING}
        await self._update_newer(owner_id, task_id, version, status)

    async def ended(self, owner_id: str, task_id: str, version: int, reason: str, message: str) -> None:
        """Set the row to failed; a reason that its run has given says more than `FAILED`, and stays."""
        columns = self._owner.table.c
        noted = columns.error_reason
        keep = or_(
            self._owner.status == ProjectStatus.FAILED,
            (noted != "") if reason not in _TELLING else noted == reason,
        )
        changes: dict[Any, Any] = {
            self._owner.status: ProjectStatus.FAILED,
            noted: case((keep, noted), else_=reason),
            columns.error_message: case((keep, columns.error_message), else_=cut_message(message)),
        }
        await self._update_newer(owner_id, task_id, version, changes)

    async def _update_newer(self, owner_id: str, task_id: str, version: int, changes: dict[Any, Any]) -> None:
        owner = self._owner
        statement = (
            owner.newer(UUID(owner_id), UUID(task_id), version)
            .where(owner.status != ProjectStatus.COMPLETED)
            .values({**changes, owner.seen_version: version, owner.table.c.updated_at: func.now()})
        )
        async with self._database.begin() as session:
            await session.execute(statement)


async def _applied(session: AsyncSession, owner: Owner, statement: Update) -> bool:
    """Run a guarded update of one row; tell whether its guard held."""
    return (await session.execute(statement.returning(owner.table.c.id))).one_or_none() is not None


async def _current(
    session: AsyncSession, owner: Owner, owner_id: UUID, task_id: UUID
) -> Row[*tuple[Any, ...]]:
    """Return the row's `status` and `seen_version`, once a guard has not held, to say why.

    Raises:
        VideoProjectNotFound or EditingDraftNotFound: it is gone.
        Superseded: another task is its current one.
    """
    statement = select(
        owner.status.label("status"), owner.task_id.label("task_id"), owner.seen_version.label("seen_version")
    )
    row = (await session.execute(statement.where(owner.table.c.id == owner_id))).one_or_none()
    if row is None:
        raise owner.not_found(owner_id)
    if row.task_id != task_id:
        raise Superseded(
            f"the {owner.noun} works with task {row.task_id} now; this run's result isn't wanted any more",
            current_task_id=str(row.task_id),
        )
    return row


def _lease_lost(owner: Owner, version: int) -> LeaseLost:
    return LeaseLost(
        f"the run of version {version} isn't the {owner.noun}'s current one: stop, nothing was written"
    )
