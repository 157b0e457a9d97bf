"""RPCs of IngestService that run jobs again and explain what keeps an article out (domain.md 3.9, 3.6)."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from uuid import UUID

import structlog
from frontrow.ingest.v1 import gallery_pb2, ingest_service_pb2

from libs.common.deadline import remaining_seconds
from libs.common.errors import InvalidArgument
from libs.common.ids import uuid7
from libs.common.interceptors.call import ServicerContext
from libs.common.interceptors.context import current_actor
from libs.common.paging import decode_token, encode_token, page_size
from libs.common.source import normalise_source, normalise_url, source_violations
from services.ingest import convert, explain, repository_job, repository_rerun
from services.ingest.errors import ArticleUnknown
from services.ingest.models import AnyRow
from services.ingest.parts import Rpcs
from services.ingest.repository_rerun import RerunFilter
from services.ingest.states import JobStatus
from services.ingest.tasks import order_task

log = structlog.get_logger(__name__)

SHOWN_JOBS = 20
# Each job asks review, so a call does what it can in its time and names where to go on.
PAGE_SECONDS = 15.0
AT_ONCE = 8

RetryRequest = ingest_service_pb2.RetryIngestJobsRequest
RetryResponse = ingest_service_pb2.RetryIngestJobsResponse
Skip = ingest_service_pb2.RetrySkip


class RerunRpcs(Rpcs):
    """Run jobs again, and explain."""

    async def RetryIngestJobs(self, request: RetryRequest, context: ServicerContext) -> RetryResponse:
        """Run jobs again by id or by reason, each in a transaction of its own."""
        job_ids, token = await self._wanted(request)
        left = remaining_seconds()
        until = time.monotonic() + (PAGE_SECONDS if left is None else min(PAGE_SECONDS, left / 2))
        response = RetryResponse(next_page_token=token)
        failure: BaseException | None = None
        for first in range(0, len(job_ids), AT_ONCE):
            if first and time.monotonic() > until:  # the rest is another call's
                response.next_page_token = _token_after(request, job_ids, first)
                break
            failure = await self._retry_several(job_ids[first : first + AT_ONCE], response)
            if failure is not None:
                break
        if response.retried_job_ids:
            self._parts.wake_relay()
            log.info("ingest.retried", jobs=len(response.retried_job_ids), actor=current_actor())
        if failure is not None:
            raise failure
        return response

    async def _retry_several(self, job_ids: Sequence[UUID], response: RetryResponse) -> BaseException | None:
        """Run jobs again at once, note what became of each when all have ended, return the first failure."""
        outcomes = await asyncio.gather(*map(self._retry, job_ids), return_exceptions=True)
        failures: list[BaseException] = []
        for job_id, outcome in zip(job_ids, outcomes, strict=True):
            if isinstance(outcome, BaseException):
                failures.append(outcome)
            elif outcome is None:
                response.retried_job_ids.append(str(job_id))
            else:
                response.skipped.append(outcome)
        return next(iter(failures), None)

    async def _wanted(self, request: RetryRequest) -> tuple[list[UUID], str]:
        wanted = request.filter
        reasons = bool(wanted.failure_reasons or wanted.done_reasons)
        if bool(request.job_ids) == reasons:
            raise InvalidArgument.of_field(
                "job_ids", "give either ids, or a filter with failure_reasons or done_reasons"
            )
        if request.job_ids:
            done = decode_token(request.page_token, request, int)
            named = list(dict.fromkeys(UUID(job_id) for job_id in request.job_ids))
            return named[max(0, done[0]) if done else 0 :], ""
        size = page_size(request.page_size)
        position = decode_token(request.page_token, request, UUID)
        before = position[0] if position else None
        async with self._database.begin() as session:
            rows = await repository_rerun.matching(session, _filter(wanted), before=before, limit=size + 1)
        found = [row.id for row in rows[:size]]
        return found, encode_token([found[-1]], request) if len(rows) > size else ""

    async def _retry(self, job_id: UUID) -> Skip | None:
        """Run one job again, or say why not. Review is asked before the transaction, which is guarded."""
        async with self._database.begin() as session:
            row = await repository_job.get(session, job_id)
        if row is None:
            return Skip(job_id=str(job_id), reason="JOB_NOT_FOUND", message="there is no such job")
        if row.status not in {JobStatus.DONE, JobStatus.FAILED}:
            return _open(job_id)
        if row.status == JobStatus.DONE and (skip := await self._in_the_way(row)) is not None:
            return skip
        task_id = uuid7()
        async with self._database.begin() as session:
            if not await repository_rerun.rerun(session, job_id, row.task_id, task_id):
                return _open(job_id)
            await order_task(session, job_id, task_id, max_attempts=self._parts.max_attempts)
        return None

    async def _in_the_way(self, row: AnyRow) -> Skip | None:
        """Say what still stands in the way of a done job."""
        gallery = gallery_pb2.Gallery.FromString(row.gallery)
        found = await explain.ask(self._parts.checks, str(row.id), gallery)
        if found.own_draft_id:
            message = f"its own draft {found.own_draft_id} exists: purge that first"
            return Skip(job_id=str(row.id), reason="OWN_DRAFT", message=message)
        if found.blocker is not None:
            message = f"it would meet {explain.blocker_words(found.blocker)} again"
            return Skip(job_id=str(row.id), reason="STILL_BLOCKED", message=message, blocker=found.blocker)
        return None

    async def ExplainSource(
        self, request: ingest_service_pb2.ExplainSourceRequest, context: ServicerContext
    ) -> ingest_service_pb2.ExplainSourceResponse:
        """Say what each layer makes of an article now."""
        url = normalise_url(request.source_url)
        convert.refuse_if_any(source_violations(normalise_source(request.source), url))
        async with self._database.begin() as session:
            rows = await repository_rerun.of_url(session, url, SHOWN_JOBS)
            submissions = await repository_rerun.submissions_of(session, url)
        gallery = _article(request, url, rows)
        layers = await explain.layers(self._parts.checks, gallery, submissions)
        blocked = any(layer.verdict == ingest_service_pb2.LAYER_VERDICT_BLOCKS for layer in layers)
        return ingest_service_pb2.ExplainSourceResponse(
            kind=gallery.kind,
            source=gallery.source,
            source_url=url,
            would_come_in=not blocked,
            layers=layers,
            jobs=[convert.job_message(row) for row in rows],
        )


def _article(
    request: ingest_service_pb2.ExplainSourceRequest, url: str, rows: Sequence[AnyRow]
) -> gallery_pb2.Gallery:
    """Return the newest gallery of the article, or one with its identity alone when there is none."""
    galleries = [gallery_pb2.Gallery.FromString(row.gallery) for row in rows]
    if request.kind == gallery_pb2.GALLERY_KIND_UNSPECIFIED:
        if not galleries:
            raise ArticleUnknown("no job has this address: say the article's kind and source as well")
        return galleries[0]
    source = normalise_source(request.source)
    for gallery in galleries:
        if (gallery.kind, gallery.source) == (request.kind, source):
            return gallery
    return gallery_pb2.Gallery(kind=request.kind, source=source, source_url=url)


def _token_after(request: RetryRequest, job_ids: Sequence[UUID], done: int) -> str:
    """Return where to go on when only so many of a call's jobs were done."""
    if not request.job_ids:
        return encode_token([job_ids[done - 1]], request)
    named = len({UUID(job_id) for job_id in request.job_ids})
    return encode_token([named - len(job_ids) + done], request)


def _open(job_id: UUID) -> Skip:
    return Skip(job_id=str(job_id), reason="STILL_OPEN", message="it waits or runs already")


def _filter(wanted: ingest_service_pb2.RetryFilter) -> RerunFilter:
    after, before = wanted.created_after, wanted.created_before
    return RerunFilter(
        failure_reasons=list(wanted.failure_reasons),
        done_reasons=[convert.done_reason_name(reason) for reason in wanted.done_reasons],
        source=normalise_source(wanted.source),
        created_after=convert.time_of(after, "filter.created_after")
        if wanted.HasField("created_after")
        else None,
        created_before=convert.time_of(before, "filter.created_before")
        if wanted.HasField("created_before")
        else None,
    )
