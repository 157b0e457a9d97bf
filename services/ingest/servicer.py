"""RPCs of IngestService for spiders and for people who ask about jobs."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from frontrow.ingest.v1 import gallery_pb2, ingest_service_pb2
from sqlalchemy.ext.asyncio import AsyncSession

from libs.common.ids import uuid7
from libs.common.interceptors.call import ServicerContext
from libs.common.interceptors.raw import raw_request
from libs.common.paging import decode_token, encode_token, page_size, within_budget
from services.ingest import convert, repository_job, repository_submit
from services.ingest.errors import JobNotFound, NonceReplayed, RequestIdReused, UnknownKey
from services.ingest.repository_job import JobFilter
from services.ingest.servicer_rerun import RerunRpcs
from services.ingest.servicer_spider import SpiderRpcs
from services.ingest.signature import Credentials, check_signature, check_window
from services.ingest.source import normalise_source
from services.ingest.tasks import order_task

SUBMIT_METHOD = "/frontrow.ingest.v1.IngestService/SubmitGallery"


class IngestServicer(SpiderRpcs, RerunRpcs):
    """Serve IngestService."""

    async def SubmitGallery(
        self, request: ingest_service_pb2.SubmitGalleryRequest, context: ServicerContext
    ) -> ingest_service_pb2.SubmitGalleryResponse:
        """Take a gallery (domain.md 3.1): nonce, job and the order for its task in one transaction."""
        credentials = Credentials.from_metadata(context.invocation_metadata() or ())
        async with self._database.begin() as session:
            spider_id = await self._authenticate(session, credentials, raw_request())
            gallery = convert.normalised(request.gallery)
            job_id, accepted = await self._add_job(session, spider_id, request, gallery)
        if accepted:
            self._parts.wake_relay()
            self._parts.metrics.accepted(str(job_id), gallery)
        return ingest_service_pb2.SubmitGalleryResponse(job_id=str(job_id), accepted=accepted)

    async def _authenticate(self, session: AsyncSession, credentials: Credentials, request: bytes) -> UUID:
        """Check key, signature, window and nonce, in this order, and return the spider's id."""
        key = await repository_submit.working_key(session, credentials.key_id)
        if key is None:
            raise UnknownKey(f"no key {credentials.key_id[:64]!r} works: it was never made, or is revoked")
        secret = self._parts.sealer.open(credentials.key_id, key.sealed_secret)
        check_signature(secret, SUBMIT_METHOD, credentials, request)
        self._parts.budgets.spend(credentials.key_id)
        signed_at = int(credentials.timestamp)
        check_window(signed_at, key.now, self._parts.window_seconds)
        if not await repository_submit.use_nonce(session, key.spider_id, credentials.nonce, signed_at):
            raise NonceReplayed("this nonce was used before: sign again with a fresh one, same request_id")
        return key.spider_id

    async def _add_job(
        self,
        session: AsyncSession,
        spider_id: UUID,
        request: ingest_service_pb2.SubmitGalleryRequest,
        gallery: gallery_pb2.Gallery,
    ) -> tuple[UUID, bool]:
        job_id, task_id = uuid7(), uuid7()
        digest = convert.digest(request.gallery)
        values: dict[str, Any] = {
            "id": job_id,
            "spider_id": spider_id,
            "request_id": request.request_id,
            "request_digest": digest,
            "kind": convert.kind_name(gallery.kind),
            "title": gallery.title,
            "source": gallery.source,
            "source_url": gallery.source_url,
            "gallery": gallery.SerializeToString(),
            "image_count": len(gallery.images),
            "task_id": task_id,
        }
        if not await repository_submit.add_job(session, values):
            first = await repository_submit.job_of_request(session, spider_id, request.request_id)
            if first.request_digest != digest:
                raise RequestIdReused(
                    "this request_id is known with another gallery: use a new one for each submission",
                    job_id=str(first.id),
                )
            return first.id, False
        await order_task(session, job_id, task_id, max_attempts=self._parts.max_attempts)
        return job_id, True

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
        position = decode_token(request.page_token, request)
        before = UUID(str(position[0])) if position else None
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
