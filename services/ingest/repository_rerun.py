"""SQL of running jobs again. No function commits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from sqlalchemy import and_, func, or_, select, update
from sqlalchemy.ext.asyncio import AsyncSession

from services.ingest.models import AnyRow, job_images, jobs
from services.ingest.states import JobStatus


@dataclass(frozen=True, slots=True)
class RerunFilter:
    """Which ended jobs: failed for one reason or done for another, of a source (empty: any), in a time."""

    failure_reasons: Sequence[str]
    done_reasons: Sequence[str]
    source: str = ""
    created_after: datetime | None = None
    created_before: datetime | None = None


async def matching(
    session: AsyncSession, wanted: RerunFilter, *, before: UUID | None, limit: int
) -> Sequence[AnyRow]:
    """Return (id, status) of jobs that match, newest first, those older than `before`."""
    query = (
        select(jobs.c.id, jobs.c.status)
        .where(
            or_(
                and_(jobs.c.status == JobStatus.FAILED, jobs.c.failure_reason.in_(wanted.failure_reasons)),
                and_(jobs.c.status == JobStatus.DONE, jobs.c.done_reason.in_(wanted.done_reasons)),
            )
        )
        .order_by(jobs.c.id.desc())
        .limit(limit)
    )
    if wanted.source:
        query = query.where(jobs.c.source == wanted.source)
    if wanted.created_after is not None:
        query = query.where(jobs.c.created_at >= wanted.created_after)
    if wanted.created_before is not None:
        query = query.where(jobs.c.created_at < wanted.created_before)
    if before is not None:
        query = query.where(jobs.c.id < before)
    return (await session.execute(query)).all()


async def rerun(session: AsyncSession, job_id: UUID, old_task_id: UUID, new_task_id: UUID) -> bool:
    """Put an ended job under a new task; False when it has not ended, or has another task already.

    The images it has stored stay; the version seen and the pauses of hosts start anew with the task.
    """
    change = (
        update(jobs)
        .where(
            jobs.c.id == job_id,
            jobs.c.task_id == old_task_id,
            jobs.c.status.in_((JobStatus.FAILED, JobStatus.DONE)),
        )
        .values(
            status=JobStatus.PENDING,
            task_id=new_task_id,
            seen_task_version=0,
            run_attempt=0,
            attempts=0,
            done_reason="",
            failure_reason="",
            error_message="",
            draft_id="",
            blocker=None,
            started_at=None,
            finished_at=None,
        )
        .returning(jobs.c.id)
    )
    if (await session.execute(change)).one_or_none() is None:
        return False
    await session.execute(update(job_images).where(job_images.c.job_id == job_id).values(pauses=0))
    return True


async def of_url(session: AsyncSession, source_url: str, limit: int) -> Sequence[AnyRow]:
    """Return the newest jobs of an address, of any kind and source, with their galleries."""
    query = (
        select(jobs)
        .where(jobs.c.source_url == source_url, jobs.c.source_url != "")
        .order_by(jobs.c.id.desc())
        .limit(limit)
    )
    return (await session.execute(query)).all()


async def submissions_of(session: AsyncSession, source_url: str) -> int:
    """Count the jobs of an address."""
    query = select(func.count()).where(jobs.c.source_url == source_url, jobs.c.source_url != "")
    return (await session.execute(query)).scalar_one()
