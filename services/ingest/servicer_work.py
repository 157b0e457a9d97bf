"""RPCs of IngestWorkService, for the ingest worker."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from frontrow.ingest.v1 import (
    gallery_pb2,
    ingest_job_pb2,
    ingest_work_service_pb2,
    ingest_work_service_pb2_grpc,
)
from sqlalchemy.ext.asyncio import AsyncSession

from libs.common.db import Database
from libs.common.errors import InvalidArgument
from libs.common.interceptors.call import ServicerContext
from services.ingest import convert, repository_job, repository_pause
from services.ingest.errors import JobNotFound, LeaseLost, Superseded
from services.ingest.metrics import IngestMetrics
from services.ingest.models import AnyRow
from services.ingest.repository_job import RunKey
from services.ingest.states import Begin, DoneReason, JobStatus, decide_begin


class IngestWorkServicer(ingest_work_service_pb2_grpc.IngestWorkServiceServicer):
    """Serve IngestWorkService; every write is fenced by (task, version)."""

    def __init__(self, database: Database, measured: IngestMetrics) -> None:
        self._database = database
        self._metrics = measured

    async def BeginJob(
        self, request: ingest_work_service_pb2.BeginJobRequest, context: ServicerContext
    ) -> ingest_work_service_pb2.BeginJobResponse:
        """Take a job for a run (domain.md 2.1, 3.2)."""
        run = _run(request)
        async with self._database.begin() as session:
            row = await repository_job.begin(session, run, request.attempt)
            if row is None:
                row = await self._decided(session, run)
            images = await repository_job.images_of(session, row.id)
            pauses = await repository_pause.pauses(session)
        state = ingest_work_service_pb2.BEGIN_STATE_BEGUN
        if row.status == JobStatus.DONE:
            state = ingest_work_service_pb2.BEGIN_STATE_ALREADY_FINISHED
        gallery = gallery_pb2.Gallery.FromString(row.gallery)
        job = convert.job_message(row)
        job.images.extend(convert.kept_messages(images))
        return ingest_work_service_pb2.BeginJobResponse(
            state=state, gallery=gallery, job=job, host_pauses=convert.pause_messages(pauses)
        )

    async def _decided(self, session: AsyncSession, run: RunKey) -> AnyRow:
        """Return the job of a begin that changed nothing, when that is a repeat or the job is done."""
        row = await repository_job.get(session, run.job_id)
        if row is None:
            raise JobNotFound(f"no ingest job {run.job_id}")
        decision = decide_begin(row, run.task_id, run.version)
        if decision is Begin.SUPERSEDED:
            raise Superseded(f"job {run.job_id} is worked on by another task now", task_id=str(row.task_id))
        if decision in {Begin.REPEAT, Begin.ALREADY_FINISHED}:
            return row
        raise _lease_lost(run)

    async def RecordImages(
        self, request: ingest_work_service_pb2.RecordImagesRequest, context: ServicerContext
    ) -> ingest_work_service_pb2.RecordImagesResponse:
        """Keep what became of some images."""
        run = _run(request)
        async with self._database.begin() as session:
            row = await repository_job.lock_live(session, run)
            if row is None:
                raise await self._why_not(session, run)
            values = convert.image_values(gallery_pb2.Gallery.FromString(row.gallery), request.images)
            await repository_job.record_images(session, run.job_id, values)
            pauses = await repository_pause.pauses(session)
        return ingest_work_service_pb2.RecordImagesResponse(host_pauses=convert.pause_messages(pauses))

    async def FinishJob(
        self, request: ingest_work_service_pb2.FinishJobRequest, context: ServicerContext
    ) -> ingest_work_service_pb2.FinishJobResponse:
        """End a job; a repeat by the run that ended it changes nothing."""
        run = _run(request)
        done = _done_values(request.done) if request.WhichOneof("outcome") == "done" else None
        async with self._database.begin() as session:
            if done is not None:
                row = await repository_job.finish_done(session, run, done)
            else:
                failed = request.failed
                row = await repository_job.finish_failed(session, run, failed.reason, failed.message)
            ended_now = row is not None
            if row is None:
                row = await self._ended_by(session, run)
        if ended_now:
            self._metrics.ended(None if done is None else DoneReason(done["done_reason"]))
        return ingest_work_service_pb2.FinishJobResponse(job=convert.job_message(row))

    async def PauseHost(
        self, request: ingest_work_service_pb2.PauseHostRequest, context: ServicerContext
    ) -> ingest_work_service_pb2.PauseHostResponse:
        """Let all workers leave a host alone (domain.md 3.9)."""
        asked = request.host_pause
        async with self._database.begin() as session:
            await repository_pause.pause(session, asked.host, asked.pause.ToTimedelta())
            await repository_pause.forget_past(session)
        return ingest_work_service_pb2.PauseHostResponse()

    async def _ended_by(self, session: AsyncSession, run: RunKey) -> AnyRow:
        row = await repository_job.get(session, run.job_id)
        mine = row is not None and (row.task_id, row.seen_task_version) == (run.task_id, run.version)
        if row is not None and mine and row.status in {JobStatus.DONE, JobStatus.FAILED}:
            return row
        raise await self._why_not(session, run)

    async def _why_not(self, session: AsyncSession, run: RunKey) -> JobNotFound | LeaseLost:
        if await repository_job.get(session, run.job_id) is None:
            return JobNotFound(f"no ingest job {run.job_id}")
        return _lease_lost(run)


def _run(
    request: ingest_work_service_pb2.BeginJobRequest
    | ingest_work_service_pb2.RecordImagesRequest
    | ingest_work_service_pb2.FinishJobRequest,
) -> RunKey:
    return RunKey(UUID(request.job_id), UUID(request.task_id), request.task_version)


def _lease_lost(run: RunKey) -> LeaseLost:
    return LeaseLost(f"version {run.version} of task {run.task_id} may no longer write to job {run.job_id}")


def _done_values(done: ingest_work_service_pb2.JobDone) -> dict[str, Any]:
    reason = convert.done_reason_name(done.reason)
    created = reason == DoneReason.CREATED
    if created != bool(done.draft_id):
        raise InvalidArgument.of_field("done.draft_id", "is required for CREATED, and for nothing else")
    blocked = done.blocker.kind != ingest_job_pb2.BLOCKER_KIND_UNSPECIFIED
    if created == blocked:
        raise InvalidArgument.of_field("done.blocker", "is required unless the reason is CREATED")
    blocker = convert.blocker_values(done.blocker) if blocked else None
    return {"done_reason": reason, "draft_id": done.draft_id, "blocker": blocker}
