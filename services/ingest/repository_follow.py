"""Let jobs follow their tasks (domain.md 2.2)."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from libs.common.db import Database
from libs.common.follow import Followed
from services.ingest import repository_job
from services.ingest.models import AnyRow
from services.ingest.repository_job import RunKey
from services.ingest.states import failure_of


class JobFollowSource:
    """Tell the follower which jobs are open, and do to them what it finds."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def current(self) -> Sequence[Followed]:
        """Return the jobs that have not ended, and the newest failed ones."""
        async with self._database.begin() as session:
            return _followed(await repository_job.followed(session))

    async def failed_of(self, task_ids: Sequence[str]) -> Sequence[Followed]:
        """Return the failed jobs whose current task is one of these."""
        async with self._database.begin() as session:
            return _followed(await repository_job.failed_of(session, [UUID(one) for one in task_ids]))

    async def failed_after(self, row: Followed | None) -> Sequence[Followed]:
        """Return the next failed jobs in the order of their ids."""
        after = UUID(row.owner_id) if row else None
        async with self._database.begin() as session:
            return _followed(await repository_job.failed_after(session, after))

    async def requeued(self, owner_id: str, task_id: str, version: int) -> None:
        """Put a job back to pending and fence its old run off."""
        async with self._database.begin() as session:
            await repository_job.requeued(session, RunKey(UUID(owner_id), UUID(task_id), version))

    async def ended(self, owner_id: str, task_id: str, version: int, reason: str, message: str) -> None:
        """Fail a job with its task's reason."""
        reason, message = failure_of(reason, message)
        async with self._database.begin() as session:
            await repository_job.ended(
                session, RunKey(UUID(owner_id), UUID(task_id), version), reason, message
            )


def _followed(rows: Sequence[AnyRow]) -> list[Followed]:
    return [Followed(str(row.id), str(row.task_id), row.seen_task_version) for row in rows]
