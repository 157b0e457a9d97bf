"""RPCs of IngestService for spiders and for people who ask about jobs."""

from __future__ import annotations

from uuid import UUID

from frontrow.ingest.v1 import gallery_pb2, ingest_service_pb2

from libs.common.errors import InvalidArgument
from libs.common.ids import uuid7
from libs.common.interceptors.call import ServicerContext
from libs.common.interceptors.raw import checked_request, raw_request
from libs.common.paging import decode_token, encode_token, page_size, within_budget
from libs.common.source import normalise_source
from libs.common.tracing import present_trace
from services.ingest import convert, repository_job
from services.ingest.errors import JobNotFound, NonceReplayed
from services.ingest.repository_job import JobFilter
from services.ingest.repository_submit import Entry, NewJob
from services.ingest.servicer_purge import PurgeRpcs
from services.ingest.servicer_rerun import RerunRpcs
from services.ingest.servicer_spider import SpiderRpcs
from services.ingest.signature import Credentials
from services.ingest.tasks import task_order

SUBMIT_METHOD = "/frontrow.ingest.v1.IngestService/SubmitGallery"


class IngestServicer(SpiderRpcs, RerunRpcs, PurgeRpcs):
    """Serve IngestService."""

    async def SubmitGallery(
        self, request: ingest_service_pb2.SubmitGalleryRequest, context: ServicerContext
    ) -> ingest_service_pb2.SubmitGalleryResponse:
        """Take a gallery (domain.md 3.1): nonce, job and the order for its task in one transaction.

        The message is looked at behind the signature (`Mounted.checks_late`): before, its sender is unknown.
        """
        credentials = Credentials.from_metadata(context.invocation_metadata() or ())
        await self._parts.keys.check(SUBMIT_METHOD, credentials, raw_request())
        entry = Entry(credentials.key_id, credentials.nonce, int(credentials.timestamp), None)
        try:
            request = checked_request()
            gallery = convert.normalised(request.gallery)
        except InvalidArgument:
            # a bad gallery counts against the key's budget, and a key that may not submit learns that first
            await self._parts.desk.submit(entry)
            raise
        job = self._new_job(request, gallery)
        try:
            entered = await self._parts.desk.submit(entry._replace(job=job))
        except NonceReplayed:
            self._parts.metrics.hits.transport()
            raise
        assert entered is not None
        if entered.accepted:
            self._parts.wake_relay()
            self._parts.metrics.accepted(str(entered.job_id), gallery)
        else:
            self._parts.metrics.hits.transport()
        return ingest_service_pb2.SubmitGalleryResponse(job_id=str(entered.job_id), accepted=entered.accepted)

    def _new_job(
        self, request: ingest_service_pb2.SubmitGalleryRequest, gallery: gallery_pb2.Gallery
    ) -> NewJob:
        job_id, task_id = uuid7(), uuid7()
        order = task_order(job_id, task_id, max_attempts=self._parts.max_attempts)
        return NewJob(
            job_id=job_id,
            task_id=task_id,
            request_id=request.request_id,
            request_digest=convert.digest(request.gallery),
            kind=convert.kind_name(gallery.kind),
            title=gallery.title,
            source=gallery.source,
            source_url=gallery.source_url,
            gallery=gallery.SerializeToString(),
            image_count=len(gallery.images),
            task_order=order.SerializeToString(),
            trace_parent=present_trace(),
        )

    async def GetIngestJob(
        self, request: ingest_service_pb2.GetIngestJobRequest, context: ServicerContext
    ) -> ingest_service_pb2.GetIngestJobResponse:
        """Read one job with each image's outcome."""
        async with self._database.begin() as session:
            row = await repository_job.get(session, UUID(request.job_id))
            if row is None:
                raise JobNotFound(f"no ingest job {request.job_id}")
            images = await repository_job.images_of(session, row.id)
        job = convert.job_message(row)
        job.images.extend(convert.image_messages(gallery_pb2.Gallery.FromString(row.gallery), images))
        return ingest_service_pb2.GetIngestJobResponse(job=job)

    async def ListIngestJobs(
        self, request: ingest_service_pb2.ListIngestJobsRequest, context: ServicerContext
    ) -> ingest_service_pb2.ListIngestJobsResponse:
        """List jobs newest first."""
        size = page_size(request.page_size)
        position = decode_token(request.page_token, request, UUID)
        before = position[0] if position else None
        async with self._database.begin() as session:
            rows = await repository_job.listed(session, _filter(request), before=before, limit=size + 1)
        jobs = within_budget(convert.job_message(row) for row in rows[:size])
        more = len(rows) > len(jobs)
        token = encode_token([UUID(jobs[-1].job_id)], request) if more else ""
        return ingest_service_pb2.ListIngestJobsResponse(jobs=jobs, next_page_token=token)


def _filter(request: ingest_service_pb2.ListIngestJobsRequest) -> JobFilter:
    after, before = request.created_after, request.created_before
    return JobFilter(
        statuses=[name for name in map(convert.status_name, request.statuses) if name],
        done_reasons=[name for name in map(convert.done_reason_name, request.done_reasons) if name],
        failure_reasons=list(request.failure_reasons),
        source=normalise_source(request.source),
        created_after=convert.time_of(after, "created_after") if request.HasField("created_after") else None,
        created_before=convert.time_of(before, "created_before")
        if request.HasField("created_before")
        else None,
    )
