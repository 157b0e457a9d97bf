"""Review's two dedupe checks, for the worker and for whoever explains or re-runs a job.

What gRPC raises passes through, but for the answers that are findings: the caller knows what an outage means
to it.
"""

from __future__ import annotations

from dataclasses import dataclass

import grpc
from frontrow.ingest.v1 import gallery_pb2, ingest_job_pb2
from frontrow.review.v1 import draft_pb2, intake_service_pb2, intake_service_pb2_grpc

from libs.common.client import error_info

CALL_SECONDS = 20.0

_KINDS = {
    gallery_pb2.GALLERY_KIND_RUNWAY: draft_pb2.GALLERY_KIND_RUNWAY,
    gallery_pb2.GALLERY_KIND_STREET_SNAP: draft_pb2.GALLERY_KIND_STREET_SNAP,
}


@dataclass(frozen=True, slots=True)
class Found:
    """What a check found: the own draft, a blocker, an unknown brand (and what to do then), or nothing."""

    own_draft_id: str = ""
    blocker: ingest_job_pb2.Blocker | None = None
    unknown_brand: str = ""


class IntakeChecks:
    """CheckSource and FindOfficial of review's IntakeService."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self._stub = intake_service_pb2_grpc.IntakeServiceStub(channel)

    async def check_source(self, job_id: str, gallery: gallery_pb2.Gallery) -> Found:
        """Look for the job's own draft, and for any draft that has the gallery's source key."""
        request = intake_service_pb2.CheckSourceRequest(
            job_id=job_id,
            kind=_KINDS[gallery.kind],
            source=gallery.source,
            source_url=gallery.source_url,
        )
        answer = await self._stub.CheckSource(request, timeout=CALL_SECONDS)
        if answer.verdict == intake_service_pb2.INTAKE_VERDICT_OWN_DRAFT:
            return Found(own_draft_id=answer.draft.draft_id)
        if answer.verdict == intake_service_pb2.INTAKE_VERDICT_SOURCE_EXISTS:
            return Found(blocker=_draft_blocker(answer.draft))
        return Found()

    async def find_official(self, job_id: str, gallery: gallery_pb2.Gallery) -> Found:
        """Look up the brand, then a visible official row of the gallery's key."""
        request = intake_service_pb2.FindOfficialRequest(job_id=job_id)
        if gallery.kind == gallery_pb2.GALLERY_KIND_RUNWAY:
            request.runway.CopyFrom(runway_texts(gallery))
        else:
            request.street_snap.CopyFrom(street_texts(gallery))
        try:
            answer = await self._stub.FindOfficial(request, timeout=CALL_SECONDS)
        except grpc.aio.AioRpcError as error:
            if (told := error_info(error)).reason != "UNKNOWN_BRAND":
                raise
            return Found(unknown_brand=told.message)
        if answer.verdict == intake_service_pb2.INTAKE_VERDICT_OWN_DRAFT:
            return Found(own_draft_id=answer.draft_id)
        if answer.verdict == intake_service_pb2.INTAKE_VERDICT_OFFICIAL_EXISTS:
            kind = ingest_job_pb2.BLOCKER_KIND_OFFICIAL
            return Found(blocker=ingest_job_pb2.Blocker(kind=kind, id=answer.official_id))
        return Found()


def runway_texts(gallery: gallery_pb2.Gallery) -> intake_service_pb2.RunwayTexts:
    """Return a runway's key texts, raw: review alone normalises them (domain.md 3.10)."""
    return intake_service_pb2.RunwayTexts(
        brand=gallery.brand, season_code=gallery.season_code, collection=gallery.collection
    )


def street_texts(gallery: gallery_pb2.Gallery) -> intake_service_pb2.StreetSnapTexts:
    """Return a street snap's key texts, raw: review alone normalises them (domain.md 3.10)."""
    return intake_service_pb2.StreetSnapTexts(city=gallery.city, year=gallery.year, month=gallery.month)


def _draft_blocker(draft: intake_service_pb2.DraftBlocker) -> ingest_job_pb2.Blocker:
    return ingest_job_pb2.Blocker(
        kind=ingest_job_pb2.BLOCKER_KIND_DRAFT,
        id=draft.draft_id,
        status=draft_pb2.DraftStatus.Name(draft.status).removeprefix("DRAFT_STATUS_").lower(),
        deleted=draft.deleted,
        decided_by=draft.decided_by,
        decision_reason=draft.reject_reason,
    )
