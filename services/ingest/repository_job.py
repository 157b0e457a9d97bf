"""SQL of jobs: begin, record, finish, follow, read. No function commits.

The writes of a run carry (task, version) and stand in guarded UPDATEs: they take effect only for the job's
current task and the run that was begun last (domain.md 2.1).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from sqlalchemy import ColumnElement, Select, and_, case, func, select, true, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncSession

from services.ingest.models import AnyRow, job_images, jobs
from services.ingest.states import BEGINNABLE, FOLLOWED, JobStatus, cut_message

_FAILED_FOLLOWED = 200
_FOLLOWED_COLUMNS = (jobs.c.id, jobs.c.task_id, jobs.c.seen_task_version)
_SUMMARY = tuple(c for c in jobs.c if c.name not in {"gallery", "request_digest"})


class RunKey(NamedTuple):
    """The run that writes: its job, task and version."""

    job_id: UUID
    task_id: UUID
    version: int


@dataclass(frozen=True, slots=True)
class JobFilter:
    """Which jobs a list shows; what is empty or None matches everything."""

    statuses: Sequence[str] = ()
    done_reasons: Sequence[str] = ()
    failure_reasons: Sequence[str] = ()
    source: str = ""
    created_after: datetime | None = None
    created_before: datetime | None = None


def _live(run: RunKey) -> ColumnElement[bool]:
    return and_(
        jobs.c.id == run.job_id,
        jobs.c.task_id == run.task_id,
        jobs.c.seen_task_version == run.version,
        jobs.c.status == JobStatus.PROCESSING,
    )


async def get(session: AsyncSession, job_id: UUID) -> AnyRow | None:
    """Return a job with its gallery, None when there is none."""
    return (await session.execute(select(jobs).where(jobs.c.id == job_id))).one_or_none()


async def images_of(session: AsyncSession, job_id: UUID) -> Sequence[AnyRow]:
    """Return the image outcomes kept so far, by position."""
    query = select(job_images).where(job_images.c.job_id == job_id).order_by(job_images.c.position)
    return (await session.execute(query)).all()


async def begin(session: AsyncSession, run: RunKey, attempt: int) -> AnyRow | None:
    """Take the job for a run of its current task that is newer than what was seen; None when it is not."""
    change = (
        update(jobs)
        .where(
            jobs.c.id == run.job_id,
            jobs.c.task_id == run.task_id,
            jobs.c.seen_task_version < run.version,
            jobs.c.status.in_(BEGINNABLE),
        )
        .values(
            status=JobStatus.PROCESSING,
            seen_task_version=run.version,
            run_attempt=attempt,
            attempts=max(attempt - 1, 0),
            failure_reason="",
            error_message="",
            started_at=func.now(),
            finished_at=None,
        )
        .returning(*jobs.c)
    )
    return (await session.execute(change)).one_or_none()


async def lock_live(session: AsyncSession, run: RunKey) -> AnyRow | None:
    """Lock the job if the run may still write to it, else return None."""
    return (await session.execute(select(jobs).where(_live(run)).with_for_update())).one_or_none()


async def record_images(session: AsyncSession, job_id: UUID, outcomes: Sequence[Mapping[str, Any]]) -> None:
    """Keep outcomes by position; call it under `lock_live`. The last word on an image counts."""
    added = insert(job_images).values([{**outcome, "job_id": job_id} for outcome in outcomes])
    kept = {c.name: added.excluded[c.name] for c in job_images.c if not c.primary_key}
    await session.execute(
        added.on_conflict_do_update(index_elements=[job_images.c.job_id, job_images.c.position], set_=kept)
    )


async def finish_done(session: AsyncSession, run: RunKey, values: Mapping[str, Any]) -> AnyRow | None:
    """End a live run well with `done_reason`, `draft_id` and `blocker`; None when the run is not live."""
    change = update(jobs).where(_live(run)).values(status=JobStatus.DONE, finished_at=func.now(), **values)
    return (await session.execute(change.returning(*_SUMMARY))).one_or_none()


async def finish_failed(session: AsyncSession, run: RunKey, reason: str, message: str) -> AnyRow | None:
    """End a live run badly; None when the run is not live."""
    change = (
        update(jobs)
        .where(_live(run))
        .values(
            status=JobStatus.FAILED,
            failure_reason=reason,
            error_message=cut_message(message),
            attempts=jobs.c.run_attempt,
            finished_at=func.now(),
        )
        .returning(*_SUMMARY)
    )
    return (await session.execute(change)).one_or_none()


async def followed(session: AsyncSession) -> Sequence[AnyRow]:
    """Return (id, task_id, seen_task_version) of the jobs that have not ended, and of the newest failed ones.

    A person may retry the task of a failed job. Only some are looked at each time, so that the poll stays
    bounded.
    """
    still_open = select(*_FOLLOWED_COLUMNS).where(jobs.c.status.in_(FOLLOWED))
    newest = _failed().order_by(jobs.c.id.desc()).limit(_FAILED_FOLLOWED)
    return [*(await session.execute(still_open)).all(), *(await session.execute(newest)).all()]


async def failed_of(session: AsyncSession, task_ids: Sequence[UUID]) -> Sequence[AnyRow]:
    """Return, as `followed` does, the failed jobs whose current task is one of these."""
    return (await session.execute(_failed().where(jobs.c.task_id.in_(task_ids)))).all()


async def failed_after(session: AsyncSession, job_id: UUID | None) -> Sequence[AnyRow]:
    """Return, as `followed` does, the next failed jobs behind one, by id; None: the first."""
    later = true() if job_id is None else jobs.c.id > job_id
    turn = _failed().where(later).order_by(jobs.c.id).limit(_FAILED_FOLLOWED)
    return (await session.execute(turn)).all()


def _failed() -> Select[*tuple[Any, ...]]:
    return select(*_FOLLOWED_COLUMNS).where(jobs.c.status == JobStatus.FAILED)


async def requeued(session: AsyncSession, run: RunKey) -> bool:
    """Put the job back to pending, its task being pending again; False when that is old news."""
    change = (
        update(jobs)
        .where(_newer(run))
        .values(
            status=JobStatus.PENDING,
            seen_task_version=run.version,
            failure_reason="",
            error_message="",
            finished_at=None,
        )
    )
    return (await session.execute(change.returning(jobs.c.id))).one_or_none() is not None


async def ended(session: AsyncSession, run: RunKey, reason: str, message: str) -> bool:
    """Fail the job, its task having failed or been cancelled; False when that is old news.

    A job whose run said itself why it failed keeps that: its task's end adds nothing.
    """
    failed = jobs.c.status == JobStatus.FAILED
    change = (
        update(jobs)
        .where(_newer(run))
        .values(
            status=JobStatus.FAILED,
            seen_task_version=run.version,
            failure_reason=case((failed, jobs.c.failure_reason), else_=reason),
            error_message=case((failed, jobs.c.error_message), else_=cut_message(message)),
            attempts=jobs.c.run_attempt,
            finished_at=case((failed, jobs.c.finished_at), else_=func.now()),
        )
    )
    return (await session.execute(change.returning(jobs.c.id))).one_or_none() is not None


async def refused(session: AsyncSession, job_id: UUID, task_id: UUID, message: str) -> None:
    """Fail a job whose task could not be made; does nothing once the job has another task or was begun."""
    await session.execute(
        update(jobs)
        .where(
            jobs.c.id == job_id,
            jobs.c.task_id == task_id,
            jobs.c.seen_task_version == 0,
            jobs.c.status == JobStatus.PENDING,
        )
        .values(
            status=JobStatus.FAILED,
            failure_reason="TASK_REFUSED",
            error_message=cut_message(message),
            finished_at=func.now(),
        )
    )


def _newer(run: RunKey) -> ColumnElement[bool]:
    return and_(
        jobs.c.id == run.job_id,
        jobs.c.task_id == run.task_id,
        jobs.c.seen_task_version < run.version,
        jobs.c.status != JobStatus.DONE,
    )


async def listed(
    session: AsyncSession, wanted: JobFilter, *, before: UUID | None, limit: int
) -> Sequence[AnyRow]:
    """Return jobs newest first (ids are UUIDv7), those older than `before`, without their galleries."""
    query = select(*_SUMMARY).where(*_conditions(wanted)).order_by(jobs.c.id.desc()).limit(limit)
    if before is not None:
        query = query.where(jobs.c.id < before)
    return (await session.execute(query)).all()


def _conditions(wanted: JobFilter) -> list[ColumnElement[bool]]:
    found: list[ColumnElement[bool]] = []
    for column, values in (
        (jobs.c.status, wanted.statuses),
        (jobs.c.done_reason, wanted.done_reasons),
        (jobs.c.failure_reason, wanted.failure_reasons),
    ):
        if values:
            found.append(column.in_(values))
    if wanted.source:
        found.append(jobs.c.source == wanted.source)
    if wanted.created_after is not None:
        found.append(jobs.c.created_at >= wanted.created_after)
    if wanted.created_before is not None:
        found.append(jobs.c.created_at < wanted.created_before)
    return found
