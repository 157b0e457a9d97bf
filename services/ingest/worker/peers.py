"""What the ingest worker asks of the ingest context and of review's intake."""

from __future__ import annotations

from collections.abc import Awaitable, Iterable, Mapping, Sequence
from datetime import timedelta
from typing import TypeVar

import grpc
import structlog
from frontrow.ingest.v1 import (
    gallery_pb2,
    ingest_job_pb2,
    ingest_work_service_pb2,
    ingest_work_service_pb2_grpc,
)
from frontrow.review.v1 import intake_service_pb2, intake_service_pb2_grpc, media_pb2
from frontrow.worker import Infrastructure, Run

from libs.common.client import error_info, is_outage
from libs.common.redaction import redacted
from services.ingest.peers import CALL_SECONDS, Found, IntakeChecks, runway_texts, street_texts
from services.ingest.worker.hosts import HostPauses

log = structlog.get_logger(__name__)
T = TypeVar("T")


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
        if is_outage(error) and found.reason != "MEDIA_BEING_DELETED":
            raise Infrastructure(f"{error.code().name}: {found.message}") from error
        raise PeerRefused(found.reason or error.code().name, found.message, found.metadata) from error


class IngestPeer:
    """IngestWorkService, for one run after another; `pauses` learn what other workers were asked by hosts."""

    def __init__(self, channel: grpc.aio.Channel, pauses: HostPauses) -> None:
        self._stub = ingest_work_service_pb2_grpc.IngestWorkServiceStub(channel)
        self._pauses = pauses

    async def begin(self, run: Run, job_id: str) -> ingest_work_service_pb2.BeginJobResponse:
        """Take the job for a run."""
        request = ingest_work_service_pb2.BeginJobRequest(
            job_id=job_id, task_id=run.task_id, task_version=run.version, attempt=run.attempt
        )
        begun = await _asked(self._stub.BeginJob(request, timeout=CALL_SECONDS))
        self._heed(begun.host_pauses)
        return begun

    async def record(self, run: Run, job_id: str, images: Sequence[ingest_job_pb2.ImageOutcome]) -> None:
        """Keep what became of some images."""
        if images:
            request = ingest_work_service_pb2.RecordImagesRequest(
                job_id=job_id, task_id=run.task_id, task_version=run.version, images=images
            )
            recorded = await _asked(self._stub.RecordImages(request, timeout=CALL_SECONDS))
            self._heed(recorded.host_pauses)

    def _heed(self, pauses: Iterable[ingest_work_service_pb2.HostPause]) -> None:
        for told in pauses:
            self._pauses.pause(told.host, told.pause.ToTimedelta().total_seconds())

    async def pause_host(self, host: str, seconds: float) -> None:
        """Tell other workers what a host asked for; what isn't told costs it a request of each of them."""
        request = ingest_work_service_pb2.PauseHostRequest()
        request.host_pause.host = host
        request.host_pause.pause.FromTimedelta(timedelta(seconds=seconds))
        try:
            await _asked(self._stub.PauseHost(request, timeout=CALL_SECONDS))
        except (Infrastructure, PeerRefused) as error:
            log.warning("ingest.pause_not_told", error=str(error))

    async def done(self, run: Run, job_id: str, done: ingest_work_service_pb2.JobDone) -> None:
        """End the job well."""
        request = ingest_work_service_pb2.FinishJobRequest(
            job_id=job_id, task_id=run.task_id, task_version=run.version, done=done
        )
        await _asked(self._stub.FinishJob(request, timeout=CALL_SECONDS))

    async def failed(self, run: Run, job_id: str, reason: str, message: str) -> None:
        """End the job badly."""
        failed = ingest_work_service_pb2.JobFailed(reason=reason[:64], message=redacted(message)[:4000])
        request = ingest_work_service_pb2.FinishJobRequest(
            job_id=job_id, task_id=run.task_id, task_version=run.version, failed=failed
        )
        await _asked(self._stub.FinishJob(request, timeout=CALL_SECONDS))


class IntakePeer:
    """Review's IntakeService."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self._stub = intake_service_pb2_grpc.IntakeServiceStub(channel)
        self._checks = IntakeChecks(channel)

    async def check_source(self, job_id: str, gallery: gallery_pb2.Gallery) -> Found:
        """Look for the job's own draft, and for any draft that has the source key."""
        return await _asked(self._checks.check_source(job_id, gallery))

    async def find_official(self, job_id: str, gallery: gallery_pb2.Gallery) -> Found:
        """Look up the brand, then a visible official row of the same key."""
        return await _asked(self._checks.find_official(job_id, gallery))

    async def reserve(self, job_id: str, items: Sequence[media_pb2.MediaItem]) -> dict[str, str]:
        """Announce objects and return the reservations of those that aren't stored yet, by key."""
        if not items:
            return {}
        request = intake_service_pb2.ReserveMediaRequest(job_id=job_id, items=items)
        answer = await _asked(self._stub.ReserveMedia(request, timeout=CALL_SECONDS))
        absent = (item for item in answer.items if item.state != media_pb2.MEDIA_STATE_LIVE)
        return {item.key: item.reservation for item in absent}

    async def confirm(self, job_id: str, reservations: Mapping[str, str]) -> None:
        """Say that what was announced is stored; `reservations` are those that `reserve` returned, by key."""
        if reservations:
            request = intake_service_pb2.ConfirmMediaRequest(
                job_id=job_id, keys=reservations.keys(), reservations=reservations.values()
            )
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
                **common, runway=runway_texts(gallery), images=images
            )
            return (await _asked(self._stub.CreateRunwayDraft(runway, timeout=CALL_SECONDS))).draft_id
        street = intake_service_pb2.CreateStreetSnapDraftRequest(
            **common, street_snap=street_texts(gallery), images=images
        )
        return (await _asked(self._stub.CreateStreetSnapDraft(street, timeout=CALL_SECONDS))).draft_id


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
