"""What the ingest worker asks of the ingest context and of review's intake."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import grpc
from frontrow.ingest.v1 import (
    gallery_pb2,
    ingest_job_pb2,
    ingest_work_service_pb2,
    ingest_work_service_pb2_grpc,
)
from frontrow.review.v1 import draft_pb2, intake_service_pb2, intake_service_pb2_grpc, media_pb2
from frontrow.worker import Infrastructure, Run

from libs.common.client import error_info

T = TypeVar("T")

CALL_SECONDS = 20.0

# The peer or the way to it is in trouble, not the job.
_OUTAGE = frozenset(
    {
        grpc.StatusCode.UNAVAILABLE,
        grpc.StatusCode.DEADLINE_EXCEEDED,
        grpc.StatusCode.RESOURCE_EXHAUSTED,
        grpc.StatusCode.UNIMPLEMENTED,
        grpc.StatusCode.PERMISSION_DENIED,
        grpc.StatusCode.UNAUTHENTICATED,
    }
)


class PeerRefused(Exception):
    """A peer refused a call; `reason` is its stable reason."""

    def __init__(self, reason: str, message: str, metadata: dict[str, str]) -> None:
        super().__init__(f"{reason}: {message}")
        self.reason = reason
        self.message = message
        self.metadata = metadata


async def _asked(call: Awaitable[T]) -> T:
    """Await a call. Raises Infrastructure when the peer is in trouble, else PeerRefused."""
    try:
        return await call
    except grpc.aio.AioRpcError as error:
        found = error_info(error)
        if error.code() in _OUTAGE and found.reason != "MEDIA_BEING_DELETED":
            raise Infrastructure(f"{error.code().name}: {found.message}") from error
        raise PeerRefused(found.reason or error.code().name, found.message, found.metadata) from error


class IngestPeer:
    """IngestWorkService, for one run after another."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self._stub = ingest_work_service_pb2_grpc.IngestWorkServiceStub(channel)

    async def begin(self, run: Run, job_id: str) -> ingest_work_service_pb2.BeginJobResponse:
        """Take the job for a run."""
        request = ingest_work_service_pb2.BeginJobRequest(
            job_id=job_id, task_id=run.task_id, task_version=run.version, attempt=run.attempt
        )
        return await _asked(self._stub.BeginJob(request, timeout=CALL_SECONDS))

    async def record(self, run: Run, job_id: str, images: Sequence[ingest_job_pb2.ImageOutcome]) -> None:
        """Keep what became of some images."""
        if images:
            request = ingest_work_service_pb2.RecordImagesRequest(
                job_id=job_id, task_id=run.task_id, task_version=run.version, images=images
            )
            await _asked(self._stub.RecordImages(request, timeout=CALL_SECONDS))

    async def done(self, run: Run, job_id: str, done: ingest_work_service_pb2.JobDone) -> None:
        """End the job well."""
        request = ingest_work_service_pb2.FinishJobRequest(
            job_id=job_id, task_id=run.task_id, task_version=run.version, done=done
        )
        await _asked(self._stub.FinishJob(request, timeout=CALL_SECONDS))

    async def failed(self, run: Run, job_id: str, reason: str, message: str) -> None:
        """End the job badly."""
        failed = ingest_work_service_pb2.JobFailed(reason=reason[:64], message=message[:4000])
        request = ingest_work_service_pb2.FinishJobRequest(
            job_id=job_id, task_id=run.task_id, task_version=run.version, failed=failed
        )
        await _asked(self._stub.FinishJob(request, timeout=CALL_SECONDS))


@dataclass(frozen=True, slots=True)
class Found:
    """What a dedupe check found: the job's own draft, a blocker, or nothing."""

    own_draft_id: str = ""
    blocker: ingest_job_pb2.Blocker | None = None


class IntakePeer:
    """Review's IntakeService."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self._stub = intake_service_pb2_grpc.IntakeServiceStub(channel)

    async def check_source(self, job_id: str, gallery: gallery_pb2.Gallery) -> Found:
        """Look for the job's own draft, and for any draft that has the source key."""
        request = intake_service_pb2.CheckSourceRequest(
            job_id=job_id,
            kind=draft_pb2.GalleryKind.ValueType(_KINDS[gallery.kind]),
            source=gallery.source,
            source_url=gallery.source_url,
        )
        answer = await _asked(self._stub.CheckSource(request, timeout=CALL_SECONDS))
        if answer.verdict == intake_service_pb2.INTAKE_VERDICT_OWN_DRAFT:
            return Found(own_draft_id=answer.draft.draft_id)
        if answer.verdict == intake_service_pb2.INTAKE_VERDICT_SOURCE_EXISTS:
            draft = answer.draft
            blocker = ingest_job_pb2.Blocker(
                kind=ingest_job_pb2.BLOCKER_KIND_DRAFT,
                id=draft.draft_id,
                status=draft_pb2.DraftStatus.Name(draft.status).removeprefix("DRAFT_STATUS_").lower(),
                deleted=draft.deleted,
                decided_by=draft.decided_by,
                decision_reason=draft.reject_reason,
            )
            return Found(blocker=blocker)
        return Found()

    async def find_official(self, job_id: str, gallery: gallery_pb2.Gallery) -> Found:
        """Look for a visible official row of the same key. Raises PeerRefused(UNKNOWN_BRAND)."""
        request = intake_service_pb2.FindOfficialRequest(job_id=job_id)
        if gallery.kind == gallery_pb2.GALLERY_KIND_RUNWAY:
            request.runway.CopyFrom(_runway(gallery))
        else:
            request.street_snap.CopyFrom(_street(gallery))
        answer = await _asked(self._stub.FindOfficial(request, timeout=CALL_SECONDS))
        if answer.verdict == intake_service_pb2.INTAKE_VERDICT_OWN_DRAFT:
            return Found(own_draft_id=answer.draft_id)
        if answer.verdict == intake_service_pb2.INTAKE_VERDICT_OFFICIAL_EXISTS:
            kind = ingest_job_pb2.BLOCKER_KIND_OFFICIAL
            return Found(blocker=ingest_job_pb2.Blocker(kind=kind, id=answer.official_id))
        return Found()

    async def reserve(self, job_id: str, items: Sequence[media_pb2.MediaItem]) -> set[str]:
        """Announce objects and return the keys of those that are stored already."""
        if not items:
            return set()
        request = intake_service_pb2.ReserveMediaRequest(job_id=job_id, items=items)
        answer = await _asked(self._stub.ReserveMedia(request, timeout=CALL_SECONDS))
        return {item.key for item in answer.items if item.state == media_pb2.MEDIA_STATE_LIVE}

    async def confirm(self, job_id: str, keys: Sequence[str]) -> None:
        """Say that announced objects are stored."""
        if keys:
            request = intake_service_pb2.ConfirmMediaRequest(job_id=job_id, keys=keys)
            await _asked(self._stub.ConfirmMedia(request, timeout=CALL_SECONDS))

    async def create_draft(
        self, job_id: str, gallery: gallery_pb2.Gallery, images: Sequence[intake_service_pb2.IntakeImage]
    ) -> str:
        """Make the draft with all its images and return its id. Raises PeerRefused(SOURCE_EXISTS)."""
        common = {
            "job_id": job_id,
            "title": gallery.title,
            "source": gallery.source,
            "source_url": gallery.source_url,
        }
        if gallery.kind == gallery_pb2.GALLERY_KIND_RUNWAY:
            runway = intake_service_pb2.CreateRunwayDraftRequest(
                **common, runway=_runway(gallery), images=images
            )
            return (await _asked(self._stub.CreateRunwayDraft(runway, timeout=CALL_SECONDS))).draft_id
        street = intake_service_pb2.CreateStreetSnapDraftRequest(
            **common, street_snap=_street(gallery), images=images
        )
        return (await _asked(self._stub.CreateStreetSnapDraft(street, timeout=CALL_SECONDS))).draft_id


_KINDS = {
    gallery_pb2.GALLERY_KIND_RUNWAY: draft_pb2.GALLERY_KIND_RUNWAY,
    gallery_pb2.GALLERY_KIND_STREET_SNAP: draft_pb2.GALLERY_KIND_STREET_SNAP,
}


def _runway(gallery: gallery_pb2.Gallery) -> intake_service_pb2.RunwayTexts:
    return intake_service_pb2.RunwayTexts(
        brand=gallery.brand, season_code=gallery.season_code, collection=gallery.collection
    )


def _street(gallery: gallery_pb2.Gallery) -> intake_service_pb2.StreetSnapTexts:
    return intake_service_pb2.StreetSnapTexts(city=gallery.city, year=gallery.year, month=gallery.month)


def conflict_of(refused: PeerRefused) -> ingest_job_pb2.Blocker:
    """Make the blocker that a SOURCE_EXISTS refusal names."""
    told = refused.metadata
    return ingest_job_pb2.Blocker(
        kind=ingest_job_pb2.BLOCKER_KIND_DRAFT,
        id=told.get("draft_id", ""),
        status=told.get("status", ""),
        deleted=told.get("deleted", "") == "true",
        decided_by=told.get("decided_by", ""),
        decision_reason=told.get("reject_reason", ""),
    )
