"""The fences between a material and the runs of its task (domain.md 2.1, 2.2, 2.3, 2.8)."""

from pathlib import Path

import grpc
from frontrow.asr.v1 import live_material_service_pb2 as material_pb
from frontrow.asr.v1 import transcription_service_pb2 as run_pb
from frontrow.task.v1 import task_pb2, task_service_pb2, work_pb2

from libs.common.client import reading
from libs.common.ids import uuid7
from libs.common.testing import eventually
from services.asr.mount import mount
from services.asr.settings import AsrSettings
from tests.conftest import Serve
from tests.integration.asr.bed import (
    COMPLETED,
    FAILED,
    LEASE_LOST,
    MATERIAL_NOT_FOUND,
    PENDING,
    PROCESSING,
    SUPERSEDED,
    Bed,
    common_settings,
    refusal,
)
from tests.integration.asr.made_transcripts import results


async def test_a_stale_run_is_requeued_and_its_progress_completion_and_failure_are_refused(bed: Bed) -> None:
    material = await bed.material()
    old = await bed.claim(material.asr_task_id, worker="old")
    old_version = (await bed.begin(material, old.version)).asr_version
    await bed.progress(material.id, old_version, 60)

    # nobody beats for it: the lease ends, and the material is pending before anyone claims again
    requeued = await bed.until(material.id, PENDING, seconds=30)
    assert requeued.asr_version > old_version
    assert await refusal(bed.progress(material.id, old_version, 70)) == LEASE_LOST

    new = await bed.claim(material.asr_task_id, worker="new")
    new_version = (await bed.begin(material, new.version)).asr_version
    await bed.progress(material.id, new_version, 10)
    before = await bed.read(material.id)
    assert await refusal(bed.progress(material.id, old_version, 80)) == LEASE_LOST
    assert await refusal(bed.save_part(material.id, old_version, 0, ["旧"])) == LEASE_LOST
    assert await refusal(bed.complete(material.id, old_version, ["旧"])) == LEASE_LOST
    assert await refusal(bed.fail(material.id, old_version, "OLD")) == LEASE_LOST
    assert await refusal(bed.begin(material, old.version)) == LEASE_LOST
    assert await bed.finish(old, worker="old") == work_pb2.FINISH_OUTCOME_LEASE_LOST
    assert await bed.read(material.id) == before

    await bed.complete(material.id, new_version, ["新的结果"])
    assert await bed.finish(new, worker="new") == work_pb2.FINISH_OUTCOME_APPLIED
    assert await bed.texts(material.id) == ["新的结果"]


async def test_the_same_begin_again_returns_the_same_with_the_parts_kept(bed: Bed) -> None:
    material = await bed.material()
    task = await bed.claim(material.asr_task_id)
    first = await bed.begin(material, task.version)
    assert first.state == run_pb.BEGIN_STATE_BEGUN
    assert await bed.begin(material, task.version) == first
    await bed.save_part(material.id, first.asr_version, 0, ["一", "二"])
    await bed.save_part(material.id, first.asr_version, 2, [])
    again = await bed.begin(material, task.version)
    assert (again.asr_version, list(again.part_indices)) == (first.asr_version, [0, 2])
    request = run_pb.GetTranscriptPartsRequest(material_id=material.id, asr_version=first.asr_version)
    async with reading(bed.runs.GetTranscriptParts(request)) as stream:
        parts = [answer.part async for answer in stream]
    assert [(part.index, [item.text for item in part.utterances]) for part in parts] == [
        (0, ["一", "二"]),
        (2, []),
    ]
    assert parts[0].utterances[1].words[0].start_ms == 1000


async def test_another_task_is_superseded_and_a_deleted_material_is_not_found(bed: Bed) -> None:
    material = await bed.material()
    assert await refusal(bed.begin(material, 1, task_id=str(uuid7()))) == SUPERSEDED
    request = material_pb.DeleteLiveMaterialRequest(live_material_id=material.id)
    await bed.materials.DeleteLiveMaterial(request)
    assert await refusal(bed.begin(material, 1)) == MATERIAL_NOT_FOUND
    assert await refusal(bed.progress(material.id, 1, 5)) == MATERIAL_NOT_FOUND


async def test_a_worker_that_claims_before_the_relay_has_its_reply_finds_its_material(
    bed: Bed, serve: Serve, database_url: str
) -> None:
    # an asr server whose relay can't reach the task service: the create call's reply never comes back
    mute = await serve("asr", await mount(AsrSettings(), common_settings(database_url, _folder(bed))))
    alone = Bed.over(bed.common, mute)
    material = await alone.material()
    # the call itself has arrived, as a relay that dies before it reads the reply would leave it
    request = task_service_pb2.CreateTaskRequest(task_id=material.asr_task_id, type="asr")
    request.payload["material_id"] = material.id
    await bed.tasks.CreateTask(request)
    task = await bed.claim(material.asr_task_id)
    begun = await bed.begin(material, task.version)
    assert begun.state == run_pb.BEGIN_STATE_BEGUN
    # the other server's relay sends the row again: still the one task, and the run goes on
    await bed.complete(material.id, begun.asr_version, ["好"])
    assert await bed.finish(task) == work_pb2.FINISH_OUTCOME_APPLIED
    assert (await bed.read(material.id)).asr_status == COMPLETED
    await alone.close()


def _folder(bed: Bed) -> Path:
    return Path(bed.common.store.object_store)


async def test_completing_and_failing_again_answers_ok_and_changes_nothing(bed: Bed) -> None:
    material = await bed.material()
    task = await bed.claim(material.asr_task_id)
    version = (await bed.begin(material, task.version)).asr_version
    await bed.complete(material.id, version, ["一"])
    stored = await bed.read(material.id)
    await bed.complete(material.id, version, ["二"])
    assert await bed.texts(material.id) == ["一"]
    assert await bed.read(material.id) == stored
    assert await refusal(bed.fail(material.id, version, "LATE")) == LEASE_LOST
    again = await bed.begin(material, task.version)
    assert again.state == run_pb.BEGIN_STATE_ALREADY_COMPLETED

    other = await bed.material()
    other_task = await bed.claim(other.asr_task_id)
    other_version = (await bed.begin(other, other_task.version)).asr_version
    await bed.fail(other.id, other_version, "NO_SPEECH")
    failed = await bed.read(other.id)
    await bed.fail(other.id, other_version, "NO_SPEECH")
    assert await bed.read(other.id) == failed
    assert (failed.asr_status, failed.asr_error_reason, failed.asr_progress) == (FAILED, "NO_SPEECH", 42)
    assert await refusal(bed.complete(other.id, other_version, ["一"])) == LEASE_LOST


async def test_the_workers_own_reason_outlives_the_end_of_its_task(bed: Bed) -> None:
    material = await bed.material()
    task = await bed.claim(material.asr_task_id)
    version = (await bed.begin(material, task.version)).asr_version
    await bed.fail(material.id, version, "NO_AUDIO_TRACK")
    await bed.finish(task, failed="NO_AUDIO_TRACK: what went wrong")

    # a later failure's follow proves that the follower has looked at this one too
    marker = await bed.material()
    marker_task = await bed.claim(marker.asr_task_id)
    await bed.begin(marker, marker_task.version)
    await bed.finish(marker_task, failed="gone wrong")
    assert (await bed.until(marker.id, FAILED)).asr_error == "gone wrong"
    assert (await bed.read(material.id)).asr_error_reason == "NO_AUDIO_TRACK"


async def test_a_retryable_failure_notes_its_error_and_the_task_brings_the_material_back(bed: Bed) -> None:
    material = await bed.material()
    task = await bed.claim(material.asr_task_id)
    version = (await bed.begin(material, task.version)).asr_version
    await bed.save_part(material.id, version, 0, ["留下"])
    await bed.fail(material.id, version, "ENGINE_FAILED", retryable=True)
    assert (await bed.read(material.id)).asr_status == PROCESSING
    await bed.finish(task, failed="ENGINE_FAILED", retryable=True)
    pending = await bed.until(material.id, PENDING)
    assert pending.asr_error_reason == "ENGINE_FAILED"
    second = await bed.claim(material.asr_task_id)
    begun = await bed.begin(material, second.version)
    assert list(begun.part_indices) == [0]
    assert (await bed.read(material.id)).asr_error_reason == ""


async def test_progress_never_goes_back(bed: Bed) -> None:
    material = await bed.material()
    task = await bed.claim(material.asr_task_id)
    version = (await bed.begin(material, task.version)).asr_version
    for percent in (5, 40, 20):
        await bed.progress(material.id, version, percent)
    assert (await bed.read(material.id)).asr_progress == 40


async def test_cancelling_a_pending_transcription_fails_it_as_cancelled(bed: Bed) -> None:
    material = await bed.material()
    request = material_pb.CancelTranscriptionRequest(live_material_id=material.id)
    answer = await bed.materials.CancelTranscription(request)
    assert answer.live_material.cancel_requested
    cancelled = await bed.until(material.id, FAILED)
    assert (cancelled.asr_error_reason, cancelled.cancel_requested) == ("CANCELLED", False)
    code, reason = await refusal(bed.materials.CancelTranscription(request))
    assert (code, reason) == (grpc.StatusCode.FAILED_PRECONDITION, "ASR_NOT_CANCELLABLE")


async def test_cancelling_a_run_reaches_its_worker_and_every_end_of_it_is_cancelled(bed: Bed) -> None:
    material = await bed.material()
    task = await bed.claim(material.asr_task_id)
    version = (await bed.begin(material, task.version)).asr_version
    request = material_pb.CancelTranscriptionRequest(live_material_id=material.id)
    await bed.materials.CancelTranscription(request)

    async def told() -> bool:
        lease = work_pb2.Lease(task_id=task.id, version=task.version)
        beat = task_service_pb2.HeartbeatRequest(worker_id="w", leases=[lease])
        return (await bed.tasks.Heartbeat(beat)).results[0].cancel_requested

    await eventually(told)
    assert (await bed.read(material.id)).asr_status == PROCESSING
    assert await bed.finish(task, failed="stopped", retryable=True) == work_pb2.FINISH_OUTCOME_CANCELLED
    assert (await bed.until(material.id, FAILED)).asr_error_reason == "CANCELLED"
    assert await refusal(bed.progress(material.id, version, 50)) == LEASE_LOST


async def test_a_reset_from_completed_keeps_the_old_result_readable_and_drops_the_parts(bed: Bed) -> None:
    material = await bed.material()
    task = await bed.claim(material.asr_task_id)
    version = (await bed.begin(material, task.version)).asr_version
    await bed.save_part(material.id, version, 0, ["旧"])
    await bed.complete(material.id, version, ["旧"])
    await bed.finish(task)

    request = material_pb.ResetASRToPendingRequest(live_material_id=material.id)
    reset = (await bed.materials.ResetASRToPending(request)).live_material
    assert reset.asr_status == PENDING
    assert reset.asr_task_id != material.asr_task_id
    assert await bed.texts(material.id) == ["旧"]
    assert await refusal(bed.begin(material, task.version)) == SUPERSEDED
    code, reason = await refusal(bed.materials.ResetASRToPending(request))
    assert (code, reason) == (grpc.StatusCode.FAILED_PRECONDITION, "ASR_NOT_RESETTABLE")

    second = await bed.claim(reset.asr_task_id)
    begun = await bed.begin(reset, second.version)
    assert list(begun.part_indices) == []
    assert begun.asr_version > version
    assert await bed.texts(material.id) == ["旧"]
    await bed.complete(material.id, begun.asr_version, ["新"])
    assert await bed.texts(material.id) == ["新"]


async def test_a_reset_from_failed_keeps_the_parts(bed: Bed) -> None:
    material = await bed.material()
    task = await bed.claim(material.asr_task_id)
    version = (await bed.begin(material, task.version)).asr_version
    await bed.save_part(material.id, version, 0, ["留下"])
    await bed.fail(material.id, version, "POST_PROCESSING_FAILED")
    await bed.finish(task, failed="x")
    request = material_pb.ResetASRToPendingRequest(live_material_id=material.id)
    reset = (await bed.materials.ResetASRToPending(request)).live_material
    assert (reset.asr_error, reset.asr_error_reason, reset.asr_progress) == ("", "", 0)
    second = await bed.claim(reset.asr_task_id)
    assert list((await bed.begin(reset, second.version)).part_indices) == [0]


async def test_a_task_that_a_person_retries_makes_its_failed_material_pending_again(bed: Bed) -> None:
    material = await bed.material()
    task = await bed.claim(material.asr_task_id)
    await bed.begin(material, task.version)
    await bed.finish(task, failed="the engine says no")
    assert (await bed.until(material.id, FAILED)).asr_error == "the engine says no"
    await bed.tasks.RetryTask(task_service_pb2.RetryTaskRequest(task_id=task.id))
    await bed.until(material.id, PENDING)


async def test_a_result_that_lost_something_on_its_way_is_refused(bed: Bed) -> None:
    material = await bed.material()
    task = await bed.claim(material.asr_task_id)
    version = (await bed.begin(material, task.version)).asr_version
    call = bed.runs.CompleteTranscription(results(material.id, version, ["一", "二"], count=3))
    assert (await refusal(call))[0] is grpc.StatusCode.INVALID_ARGUMENT
    assert (await bed.read(material.id)).asr_status == PROCESSING


async def test_a_task_that_ends_elsewhere_never_touches_a_completed_material(bed: Bed) -> None:
    material = await bed.material()
    task = await bed.claim(material.asr_task_id)
    version = (await bed.begin(material, task.version)).asr_version
    await bed.complete(material.id, version, ["好"])

    async def requeued() -> bool:
        answer = await bed.tasks.GetTask(task_service_pb2.GetTaskRequest(task_id=task.id))
        return bool(answer.task.status == task_pb2.TASK_STATUS_PENDING)

    await eventually(requeued, 30)  # its worker died before it finished the task
    second = await bed.claim(material.asr_task_id)
    assert (await bed.begin(material, second.version)).state == run_pb.BEGIN_STATE_ALREADY_COMPLETED
    assert (await bed.read(material.id)).asr_version == version
