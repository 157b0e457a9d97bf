"""Work one ingest job off, stage by stage, in the order of domain.md 3.8."""

from __future__ import annotations

import time
from collections.abc import Sequence
from uuid import UUID

import structlog
from frontrow.ingest.v1 import gallery_pb2, ingest_job_pb2, ingest_work_service_pb2
from frontrow.review.v1 import intake_service_pb2
from frontrow.worker import Completed, Failed, Outcome, Released, Run

from services.ingest.peers import Found
from services.ingest.worker.gathered import Gathered, Job
from services.ingest.worker.images import GalleryImages
from services.ingest.worker.peers import IngestPeer, IntakePeer, PeerRefused, conflict_of
from services.ingest.worker.problems import ImageProblem

log = structlog.get_logger(__name__)

# Review is busy, or its clean-up was at work on an object: seconds after which it looks otherwise. Uncharged.
_PAUSES = {
    "MEDIA_BEING_DELETED": 30.0,
    "MEDIA_NOT_RESERVED": 1.0,
    "MEDIA_NOT_LIVE": 1.0,
    "REVIEW_BUSY": 1.0,
}
_NAMED_IMAGES = 10
# Reasons that another try can't change.
_PERMANENT = frozenset({"UNKNOWN_BRAND", "INVALID_ARGUMENT", "CONTENT_MISMATCH"})
_GONE = frozenset({"SUPERSEDED", "JOB_NOT_FOUND"})


class IngestHandler:
    """The handler of `ingest` tasks."""

    def __init__(
        self, ingest: IngestPeer, intake: IntakePeer, images: GalleryImages, *, free_host_pauses: int
    ) -> None:
        """Prepare; from the pause after `free_host_pauses` on each that a host asks for costs an attempt."""
        self._ingest = ingest
        self._intake = intake
        self._images = images
        self._free_host_pauses = free_host_pauses

    async def __call__(self, run: Run) -> Outcome:
        """Work a task's job off.

        Raises:
            Infrastructure: a peer or the store is in trouble; the task is given back uncharged.
        """
        job_id = str(run.payload.get("job_id", ""))
        try:
            UUID(job_id)
        except ValueError:
            return Failed("the task's payload names no ingest job")
        try:
            try:
                return await self._work(run, job_id)
            except PeerRefused as refused:
                if refused.reason not in _PERMANENT:
                    raise
                return await self._fail(run, job_id, refused.reason, refused.message)
        except PeerRefused as refused:
            return _outcome_of(refused)

    async def _work(self, run: Run, job_id: str) -> Outcome:
        began = time.monotonic()
        begun = await self._ingest.begin(run, job_id)
        if begun.state == ingest_work_service_pb2.BEGIN_STATE_ALREADY_FINISHED:
            return Completed({"done_reason": _name(begun.job.done_reason), "draft_id": begun.job.draft_id})
        gallery = begun.gallery
        found = await self._intake.check_source(job_id, gallery)
        if found.blocker is None and not found.own_draft_id:
            reason = ingest_job_pb2.DONE_REASON_ENTITY_DUPLICATE
            found = await self._intake.find_official(job_id, gallery)
        else:
            reason = ingest_job_pb2.DONE_REASON_SOURCE_DUPLICATE
        if found.unknown_brand:
            return await self._fail(run, job_id, "UNKNOWN_BRAND", found.unknown_brand)
        if found.own_draft_id:
            return await self._created(run, job_id, found.own_draft_id)
        if found.blocker is not None:
            return await self._skip(run, begun, reason, found, began)
        return await self._bring_in(run, begun, began)

    async def _bring_in(
        self, run: Run, begun: ingest_work_service_pb2.BeginJobResponse, began: float
    ) -> Outcome:
        addresses = {image.position: image.url for image in begun.gallery.images}
        kept = {addresses[outcome.position]: outcome for outcome in begun.job.images}
        job = Job(run, begun.job.job_id, begun.gallery, kept)
        found = await self._images.gather(job, lambda share: run.progress(5 + int(share * 90)))
        if found.problems:
            return await self._not_whole(job, found)
        try:
            draft_id = await self._intake.create_draft(job.job_id, job.gallery, _draft_images(job, found))
        except PeerRefused as refused:
            if refused.reason != "SOURCE_EXISTS":
                raise
            # Another job of the article was quicker: a skip, not a failure. What was stored stays: the same
            # addresses gave the same bytes, so the other draft refers to these very objects.
            conflict = Found(blocker=conflict_of(refused))
            return await self._skip(run, begun, ingest_job_pb2.DONE_REASON_SOURCE_CONFLICT, conflict, began)
        log.info("ingest.created", job_id=job.job_id, draft_id=draft_id, images=len(job.gallery.images))
        return await self._created(run, job.job_id, draft_id)

    async def _created(self, run: Run, job_id: str, draft_id: str) -> Outcome:
        done = ingest_work_service_pb2.JobDone(reason=ingest_job_pb2.DONE_REASON_CREATED, draft_id=draft_id)
        await self._ingest.done(run, job_id, done)
        return Completed({"done_reason": "created", "draft_id": draft_id})

    async def _skip(
        self,
        run: Run,
        begun: ingest_work_service_pb2.BeginJobResponse,
        reason: ingest_job_pb2.DoneReason.ValueType,
        found: Found,
        began: float,
    ) -> Outcome:
        """End a job as a duplicate: a success of its own kind (domain.md 3.4, 3.5)."""
        job, gallery, name = begun.job, begun.gallery, _name(reason)
        done = ingest_work_service_pb2.JobDone(reason=reason, blocker=found.blocker)
        await self._ingest.done(run, job.job_id, done)
        log.info(
            f"ingest.{name}",
            job_id=job.job_id,
            kind=gallery_pb2.GalleryKind.Name(gallery.kind).removeprefix("GALLERY_KIND_").lower(),
            source=gallery.source,
            url=gallery.source_url,
            blocker_id=done.blocker.id,
            elapsed_seconds=round(time.monotonic() - began, 3),
        )
        return Completed({"done_reason": name, "blocker_id": done.blocker.id})

    async def _not_whole(self, job: Job, found: Gathered) -> Outcome:
        """Decide on a gallery some of whose images can't be had: all or nothing (domain.md 3.8).

        A host that asks for pause after pause is asked no sooner for being charged: the next run finds its
        pause still on and is given back for the rest of it, uncharged.
        """
        permanent = [each for each in found.problems if not each[1].transient]
        if permanent:
            message = describe(permanent, len(job.gallery.images))
            return await self._fail(job.run, job.job_id, "IMAGE_REJECTED", message)
        if found.paused_seconds and found.most_pauses <= self._free_host_pauses:
            log.info("ingest.host_paused", job_id=job.job_id, seconds=round(found.paused_seconds))
            return Released(found.paused_seconds)
        return Failed(describe(found.problems, len(job.gallery.images)), retryable=True)

    async def _fail(self, run: Run, job_id: str, reason: str, message: str) -> Outcome:
        await self._ingest.failed(run, job_id, reason, message)
        log.info("ingest.failed", job_id=job_id, reason=reason)
        return Failed(f"{reason}: {message}")


def _outcome_of(refused: PeerRefused) -> Outcome:
    """Return how a run ends that a peer refused something."""
    if refused.reason == "LEASE_LOST":
        return Released()  # which is too late as well: another run has the job
    if refused.reason in _GONE:
        return Failed(refused.message)
    if refused.reason in _PAUSES:
        return Released(_PAUSES[refused.reason])
    return Failed(str(refused), retryable=True)


def describe(problems: Sequence[tuple[gallery_pb2.GalleryImage, ImageProblem]], total: int) -> str:
    """Name the images that can't be had, at most ten of them, and say what is wrong with each."""
    lines = [
        f"image {image.position} of {total} ({image.url[:300]}): {problem.reason}: {problem.message}"
        for image, problem in problems[:_NAMED_IMAGES]
    ]
    more = len(problems) - len(lines)
    return "; ".join(lines) + (f"; and {more} more" if more else "")


def _draft_images(job: Job, found: Gathered) -> list[intake_service_pb2.IntakeImage]:
    return [
        intake_service_pb2.IntakeImage(
            media_key=found.keys[image.url], caption=image.caption, original_url=image.url
        )
        for image in job.gallery.images
    ]


def _name(reason: ingest_job_pb2.DoneReason.ValueType) -> str:
    return ingest_job_pb2.DoneReason.Name(reason).removeprefix("DONE_REASON_").lower()
