"""The worker's calls are fenced by (task, version), and jobs follow their tasks (domain.md 2.1, 2.2, 3.2)."""

from __future__ import annotations

from uuid import UUID, uuid4

import pytest
from frontrow.ingest.v1 import ingest_job_pb2, ingest_service_pb2, ingest_work_service_pb2

from libs.common.db import Database
from services.ingest.refusals import TaskRefusals
from services.ingest.repository_follow import JobFollowSource
from tests.integration.ingest.conftest import Ingest, gallery
from tests.integration.ingest.runs import Run, reason, stored

BEGUN = ingest_work_service_pb2.BEGIN_STATE_BEGUN
PROCESSING = ingest_job_pb2.INGEST_JOB_STATUS_PROCESSING


CREATED = {"done": ingest_work_service_pb2.JobDone(reason=ingest_job_pb2.DONE_REASON_CREATED, draft_id="7")}
BROKEN = {"failed": ingest_work_service_pb2.JobFailed(reason="IMAGE_REJECTED", message="image 1")}


async def test_a_begin_may_be_repeated_and_gives_the_gallery_with_what_was_kept(run: Run) -> None:
    first = await run.begin(1)
    await run.record(1, stored("https://a/2.jpg"))
    again = await run.begin(1)
    assert (first.state, again.state, again.job.status) == (BEGUN, BEGUN, PROCESSING)
    assert [image.url for image in again.gallery.images] == ["https://a/1.jpg", "https://a/2.jpg"]
    assert [(image.position, image.media_key) for image in again.job.images] == [(2, "media/aa/aa.jpg")]


async def test_the_largest_gallery_can_be_begun_again_whatever_was_kept_of_it(ingest: Ingest) -> None:
    urls = [f"https://a.example/{number}/".ljust(2048, "x") for number in range(500)]
    message = gallery(*urls)
    for image in message.images:
        image.caption = "😀" * 1000
    made = await ingest.call(ingest_service_pb2.SubmitGalleryRequest(gallery=message))
    request = ingest_service_pb2.GetIngestJobRequest(job_id=made.job_id)
    run = Run(ingest, (await ingest.stub.GetIngestJob(request)).job)
    await run.begin(1)
    thumbnails = [f"media/aa/{'a' * 40}_{width}_{'a' * 8}.webp" for width in (320, 960)]
    kept = [
        ingest_job_pb2.ImageOutcome(
            url=url, result=ingest_job_pb2.IMAGE_RESULT_STORED, media_key=f"media/aa/{'a' * 40}.jpg",
            sha256="a" * 64, size_bytes=2_600_000, content_type="image/jpeg", width=4000, height=3000,
            dhash="a" * 16, thumbnail_keys=thumbnails,
        )
        for url in urls[:250]
    ]  # fmt: skip
    failed = ingest_job_pb2.IMAGE_RESULT_FAILED
    kept += [
        ingest_job_pb2.ImageOutcome(url=url, result=failed, reason="HTTP_STATUS", message="字" * 500)
        for url in urls[250:]
    ]
    await run.record(1, *kept)
    again = await run.begin(2, attempt=2)
    assert [image.url for image in again.gallery.images] == urls
    assert [image.position for image in again.job.images] == list(range(1, 501))
    assert sum(image.media_key != "" for image in again.job.images) == 250
    assert len((await run.job()).images) == 500


async def test_an_older_run_can_neither_begin_nor_record_nor_finish(run: Run) -> None:
    await run.begin(1)
    await run.begin(3, attempt=2)
    assert await reason(run.begin(1)) == "LEASE_LOST"
    assert await reason(run.begin(2)) == "LEASE_LOST"
    assert await reason(run.record(1, stored("https://a/1.jpg"))) == "LEASE_LOST"
    assert await reason(run.finish(1, **CREATED)) == "LEASE_LOST"
    assert await reason(run.finish(1, **BROKEN)) == "LEASE_LOST"
    job = await run.job()
    assert (job.status, job.task_version, job.attempts) == (PROCESSING, 3, 1)
    assert not any(image.media_key for image in job.images)


async def test_another_task_is_told_that_it_is_superseded_and_an_unknown_job_that_it_is_none(
    run: Run,
) -> None:
    assert await reason(run.begin(1, task_id=str(uuid4()))) == "SUPERSEDED"
    run.job_id = str(uuid4())
    assert await reason(run.begin(1)) == "JOB_NOT_FOUND"
    assert await reason(run.record(1, stored("https://a/1.jpg"))) == "JOB_NOT_FOUND"
    assert await reason(run.finish(1, **CREATED)) == "JOB_NOT_FOUND"


async def test_a_finish_may_be_repeated_by_its_own_run_alone(run: Run) -> None:
    await run.begin(1)
    first = await run.finish(1, **CREATED)
    again = await run.finish(1, **BROKEN)
    assert (first.draft_id, again.status, again.draft_id) == ("7", ingest_job_pb2.INGEST_JOB_STATUS_DONE, "7")
    assert await reason(run.finish(2, **CREATED)) == "LEASE_LOST"


async def test_a_run_after_the_one_that_finished_learns_that_the_job_is_done(run: Run) -> None:
    await run.begin(1)
    await run.finish(1, **CREATED)
    later = await run.begin(3, attempt=2)
    assert later.state == ingest_work_service_pb2.BEGIN_STATE_ALREADY_FINISHED
    assert (later.job.draft_id, later.job.attempts) == ("7", 0)


async def test_a_job_that_failed_is_begun_again_by_a_newer_run_and_keeps_its_images(run: Run) -> None:
    await run.begin(1)
    await run.record(1, stored("https://a/1.jpg"))
    failed = await run.finish(1, **BROKEN)
    assert (failed.attempts, failed.failure_reason) == (1, "IMAGE_REJECTED")
    again = await run.begin(3)
    assert (again.state, again.job.status, again.job.failure_reason) == (BEGUN, PROCESSING, "")
    assert again.job.images[0].media_key == "media/aa/aa.jpg"


async def test_the_last_word_on_an_image_counts(run: Run) -> None:
    await run.begin(1)
    problem = ingest_job_pb2.ImageOutcome(
        url="https://a/1.jpg", result=ingest_job_pb2.IMAGE_RESULT_FAILED, reason="TIMEOUT", message="slow"
    )
    await run.record(1, problem)
    assert (await run.job()).images[0].reason == "TIMEOUT"
    await run.record(1, problem, stored("https://a/1.jpg"))
    image = (await run.job()).images[0]
    assert (image.reason, image.message, image.media_key) == ("", "", "media/aa/aa.jpg")


async def test_an_outcome_of_an_image_that_is_not_in_the_gallery_is_refused(run: Run) -> None:
    await run.begin(1)
    assert await reason(run.record(1, stored("https://a/9.jpg"))) == "INVALID_ARGUMENT"


@pytest.mark.parametrize(
    "done",
    [
        ingest_work_service_pb2.JobDone(reason=ingest_job_pb2.DONE_REASON_CREATED),
        ingest_work_service_pb2.JobDone(reason=ingest_job_pb2.DONE_REASON_SOURCE_CONFLICT),
        ingest_work_service_pb2.JobDone(reason=ingest_job_pb2.DONE_REASON_SOURCE_CONFLICT, draft_id="7"),
        ingest_work_service_pb2.JobDone(),
    ],
)
async def test_a_done_job_names_its_draft_or_its_blocker(
    run: Run, done: ingest_work_service_pb2.JobDone
) -> None:
    await run.begin(1)
    assert await reason(run.finish(1, done=done)) == "INVALID_ARGUMENT"


async def test_a_task_that_is_pending_again_fences_the_old_run_off_at_once(
    run: Run, database: Database
) -> None:
    await run.begin(1)
    source = JobFollowSource(database)
    await source.requeued(run.job_id, run.task_id, 2)
    assert (await run.job()).status == ingest_job_pb2.INGEST_JOB_STATUS_PENDING
    assert await reason(run.finish(1, **CREATED)) == "LEASE_LOST"
    assert (await run.begin(3)).state == BEGUN
    # news that is older than what was seen changes nothing
    await source.requeued(run.job_id, run.task_id, 2)
    await source.ended(run.job_id, run.task_id, 3, "ABANDONED", "old news")
    assert (await run.job()).status == PROCESSING


async def test_a_task_that_ended_badly_fails_its_job_but_never_a_done_one(
    run: Run, database: Database
) -> None:
    source = JobFollowSource(database)
    await run.begin(1, attempt=3)
    await source.ended(run.job_id, run.task_id, 2, "ABANDONED", "three tries")
    job = await run.job()
    assert (job.failure_reason, job.error_message, job.attempts) == ("ABANDONED", "three tries", 3)
    await run.begin(3)
    await run.finish(3, **CREATED)
    await source.ended(run.job_id, run.task_id, 4, "ABANDONED", "late")
    await source.requeued(run.job_id, run.task_id, 5)
    assert (await run.job()).status == ingest_job_pb2.INGEST_JOB_STATUS_DONE
    assert run.job_id not in {followed.owner_id for followed in await source.current()}


async def test_another_tasks_news_changes_nothing(run: Run, database: Database) -> None:
    source = JobFollowSource(database)
    await source.ended(run.job_id, str(uuid4()), 9, "FAILED", "not mine")
    assert (await run.job()).status == ingest_job_pb2.INGEST_JOB_STATUS_PENDING


async def test_a_task_that_could_not_be_made_fails_its_job(run: Run, database: Database) -> None:
    from frontrow.task.v1 import task_service_pb2

    body = task_service_pb2.CreateTaskRequest(task_id=run.task_id).SerializeToString()
    subject = f"ingest_job:{UUID(run.job_id)}"
    await TaskRefusals(database)(subject, "create_task", body, "INVALID_ARGUMENT: no")
    job = await run.job()
    assert (job.failure_reason, "INVALID_ARGUMENT: no" in job.error_message) == ("TASK_REFUSED", True)


async def test_the_end_of_the_task_leaves_the_reason_that_the_run_gave(run: Run, database: Database) -> None:
    await run.begin(1)
    await run.finish(1, **BROKEN)
    source = JobFollowSource(database)
    assert run.job_id in {followed.owner_id for followed in await source.current()}
    await source.ended(run.job_id, run.task_id, 2, "FAILED", "IMAGE_REJECTED: image 1")
    job = await run.job()
    assert (job.failure_reason, job.error_message, job.task_version) == ("IMAGE_REJECTED", "image 1", 2)


async def test_a_failed_job_whose_task_a_person_retried_is_seen_pending(run: Run, database: Database) -> None:
    await run.begin(1)
    await run.finish(1, **BROKEN)
    await JobFollowSource(database).requeued(run.job_id, run.task_id, 3)
    job = await run.job()
    assert (job.status, job.failure_reason) == (ingest_job_pb2.INGEST_JOB_STATUS_PENDING, "")
    assert not job.HasField("finish_time")
