"""Let jobs follow their tasks (domain.md 2.2)."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from libs.common.db import Database
from libs.common.follow import Followed
from services.ingest import repository_job
from services.ingest.repository_job import RunKey
from services.ingest.states import failure_of


class JobFollowSource:
    """Tell the follower which jobs are open, and do to them what it finds."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def current(self) -> Sequence[Followed]:
        """Return the jobs that have not ended, and the newest failed ones."""
        async with self._database.begin() as session:
            rows = await repository_job.followed(session)
        return [Followed(str(row.id), str(row.task_id), row.seen_task_version) for row in rows]

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
