"""The RPC of IngestService that removes jobs for good."""

from __future__ import annotations

import time

import structlog
from frontrow.ingest.v1 import ingest_service_pb2

from libs.common.deadline import remaining_seconds
from libs.common.interceptors.call import ServicerContext
from libs.common.interceptors.context import current_actor
from libs.common.source import normalise_source
from services.ingest import convert, repository_purge
from services.ingest.errors import ActorRequired
from services.ingest.parts import Rpcs

log = structlog.get_logger(__name__)

PAGE_SECONDS = 15.0

Request = ingest_service_pb2.PurgeIngestJobsRequest
Response = ingest_service_pb2.PurgeIngestJobsResponse


class PurgeRpcs(Rpcs):
    """Remove test data; the part of IngestService that administrators use seldom."""

    async def PurgeIngestJobs(self, request: Request, context: ServicerContext) -> Response:
        """Count the ended jobs of a source, or remove them batch by batch."""
        source, actor = normalise_source(request.source), current_actor()
        before = (
            convert.time_of(request.created_before, "created_before")
            if request.HasField("created_before")
            else None
        )
        if request.apply and not actor:
            raise ActorRequired("a purge can't be undone: say who you are in the metadata x-frontrow-actor")
        async with self._database.begin() as session:
            found = await repository_purge.count(session, source, before)
        response = Response(job_count=found.ended, open_job_count=found.still_open, applied=request.apply)
        if not request.apply:
            return response
        left = remaining_seconds()
        until = time.monotonic() + (PAGE_SECONDS if left is None else min(PAGE_SECONDS, left / 2))
        response.job_count, gone = 0, 1
        while gone and not response.more:
            async with self._database.begin() as session:
                gone = await repository_purge.purge(session, source, before)
                if gone:
                    details = {
                        "source": source,
                        "jobs": gone,
                        "created_before": before and before.isoformat(),
                    }
                    await repository_purge.note(session, "jobs.purged", actor, details)
            response.job_count += gone
            response.more = gone == repository_purge.PURGE_BATCH and time.monotonic() > until
        log.info("ingest.jobs_purged", source=source, jobs=response.job_count, actor=actor)
        return response
