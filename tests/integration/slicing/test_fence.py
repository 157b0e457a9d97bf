"""A run of the slicing worker takes effect only while it is the project's current one (domain.md 2.10)."""

import uuid
from collections.abc import Coroutine

import grpc
import grpc.aio
import pytest
from frontrow.asr.v1 import clip_pb2, slicing_service_pb2, video_project_pb2, video_project_service_pb2

from libs.common.client import reason_of
from libs.common.db import Database
from services.asr.repository_run import PROJECTS, RunFollowSource, rejected
from tests.integration.slicing.asr_server import Asr
from tests.integration.slicing.runs import begin, clip, fail, save

PENDING = video_project_pb2.VIDEO_PROJECT_STATUS_PENDING
PROCESSING = video_project_pb2.VIDEO_PROJECT_STATUS_PROCESSING
COMPLETED = video_project_pb2.VIDEO_PROJECT_STATUS_COMPLETED
FAILED = video_project_pb2.VIDEO_PROJECT_STATUS_FAILED


async def reason(call: Coroutine[object, object, object]) -> str | None:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call
    return reason_of(caught.value)


async def clips_of(asr: Asr, project: video_project_pb2.VideoProject) -> list[clip_pb2.Clip]:
    request = video_project_service_pb2.ListClipsRequest(video_project_id=project.id)
    return list((await asr.projects.ListClips(request)).clips)


@pytest.fixture
async def project(asr: Asr) -> video_project_pb2.VideoProject:
    return await asr.project((await asr.transcribed(f"fence-{uuid.uuid4()}")).id)


async def test_a_begin_gives_the_selection_and_the_same_begin_gives_it_again(
    asr: Asr, project: video_project_pb2.VideoProject
) -> None:
    first = await begin(asr, project)
    assert first[0].header.state == slicing_service_pb2.SLICING_STATE_BEGUN
    assert first[0].header.canonical_key.endswith("canonical-1.mp4")
    said = [u for answer in first for u in answer.batch.utterances]
    assert [u.index for u in said] == list(range(57))
    assert len([t for answer in first for t in answer.batch.topics]) == 4
    assert len([p for answer in first for p in answer.batch.paragraphs]) == 15
    assert (await asr.reread(project)).status == PROCESSING
    assert await begin(asr, project) == first


async def test_a_begin_of_a_span_gives_what_touches_it_and_where_the_speech_beside_it_is(asr: Asr) -> None:
    material = await asr.transcribed("span-input")
    project = await asr.project(material.id, span_start_ms=36_500, span_end_ms=65_700)
    answers = await begin(asr, project)
    said = [u.index for answer in answers for u in answer.batch.utterances]
    assert said == list(range(17, 31))
    assert [t.title for answer in answers for t in answer.batch.topics] == ["三层钢不粘锅"]
    header = answers[0].header
    assert (header.speech_before_end_ms, header.speech_after_start_ms) == (36_463, 67_000)


async def test_saving_completes_the_project_and_a_repeat_changes_nothing(
    asr: Asr, project: video_project_pb2.VideoProject
) -> None:
    await begin(asr, project)
    made = [clip(project, 0, title="第一"), clip(project, 1, title="第二")]
    await save(asr, project, made)
    await save(asr, project, made[:1])
    assert [c.title for c in await clips_of(asr, project)] == ["第一", "第二"]
    done = await asr.reread(project)
    assert (done.status, done.clip_count, done.clips_source) == (COMPLETED, 2, "topics")
    again = await begin(asr, project, version=9)
    assert [a.header.state for a in again] == [slicing_service_pb2.SLICING_STATE_ALREADY_COMPLETED]


async def test_an_older_run_is_refused_whatever_it_does(
    asr: Asr, project: video_project_pb2.VideoProject
) -> None:
    await begin(asr, project, version=1)
    await begin(asr, project, version=3)
    assert await reason(begin(asr, project, version=1)) == "LEASE_LOST"
    assert await reason(save(asr, project, [clip(project, 0)], version=1)) == "LEASE_LOST"
    assert await reason(fail(asr, project, "ZOMBIE", version=1)) == "LEASE_LOST"
    untouched = await asr.reread(project)
    assert (untouched.status, untouched.error_reason) == (PROCESSING, "")
    await save(asr, project, [clip(project, 0)], version=3)
    assert await reason(save(asr, project, [clip(project, 5)], version=1)) == "LEASE_LOST"
    assert [c.position for c in await clips_of(asr, project)] == [0]


async def test_a_requeued_task_fences_its_old_run_before_anyone_claims_it_again(
    asr: Asr, database: Database, project: video_project_pb2.VideoProject
) -> None:
    await begin(asr, project, version=1)
    await RunFollowSource(database, PROJECTS).requeued(project.id, project.slice_task_id, 2)
    assert (await asr.reread(project)).status == PENDING
    assert await reason(save(asr, project, [clip(project, 0)], version=1)) == "LEASE_LOST"
    assert await reason(begin(asr, project, version=2)) == "LEASE_LOST"
    await begin(asr, project, version=3)
    await save(asr, project, [clip(project, 0)], version=3)


async def test_another_task_is_superseded_and_an_unknown_project_is_not_found(
    asr: Asr, project: video_project_pb2.VideoProject
) -> None:
    other = str(uuid.uuid4())
    assert await reason(begin(asr, project, task_id=other)) == "SUPERSEDED"
    await begin(asr, project)
    assert await reason(save(asr, project, [clip(project, 0)], task_id=other)) == "SUPERSEDED"
    project.id = str(uuid.uuid4())
    assert await reason(begin(asr, project)) == "VIDEO_PROJECT_NOT_FOUND"
    assert await reason(save(asr, project, [clip(project, 0)])) == "VIDEO_PROJECT_NOT_FOUND"


async def test_a_failure_fails_the_project_with_its_reason_and_the_tasks_end_keeps_that(
    asr: Asr, database: Database, project: video_project_pb2.VideoProject
) -> None:
    await begin(asr, project)
    await fail(asr, project, "NO_MATCH")
    await fail(asr, project, "NO_MATCH")
    source = RunFollowSource(database, PROJECTS)
    await source.ended(project.id, project.slice_task_id, 2, "FAILED", "NO_MATCH: because of NO_MATCH")
    failed = await asr.reread(project)
    assert (failed.status, failed.error_reason) == (FAILED, "NO_MATCH")
    assert failed.error_message == "because of NO_MATCH"


async def test_a_retryable_failure_is_noted_and_the_state_is_the_tasks(
    asr: Asr, database: Database, project: video_project_pb2.VideoProject
) -> None:
    await begin(asr, project)
    await fail(asr, project, "DISK_FULL", retryable=True)
    noted = await asr.reread(project)
    assert (noted.status, noted.error_reason) == (PROCESSING, "DISK_FULL")
    await RunFollowSource(database, PROJECTS).ended(
        project.id, project.slice_task_id, 2, "ABANDONED", "5 attempts"
    )
    ended = await asr.reread(project)
    assert (ended.status, ended.error_reason, ended.error_message) == (FAILED, "ABANDONED", "5 attempts")


async def test_a_retried_task_revives_a_failed_project(
    asr: Asr, database: Database, project: video_project_pb2.VideoProject
) -> None:
    await begin(asr, project)
    await fail(asr, project, "NO_MATCH")
    source = RunFollowSource(database, PROJECTS)
    assert project.id in [followed.owner_id for followed in await source.current()]
    await source.requeued(project.id, project.slice_task_id, 3)
    assert (await asr.reread(project)).status == PENDING
    await begin(asr, project, version=4)
    assert (await asr.reread(project)).error_reason == ""


async def test_what_a_task_does_after_completion_changes_nothing(
    asr: Asr, database: Database, project: video_project_pb2.VideoProject
) -> None:
    await begin(asr, project)
    await save(asr, project, [clip(project, 0)])
    source = RunFollowSource(database, PROJECTS)
    await source.requeued(project.id, project.slice_task_id, 2)
    await source.ended(project.id, project.slice_task_id, 3, "CANCELLED", "")
    assert (await asr.reread(project)).status == COMPLETED
    assert project.id not in [followed.owner_id for followed in await source.current()]


async def test_a_task_that_can_never_be_made_fails_its_project(
    asr: Asr, database: Database, project: video_project_pb2.VideoProject
) -> None:
    async with database.begin() as session:
        await rejected(session, PROJECTS, uuid.UUID(project.id), "INVALID_ARGUMENT: too long")
    failed = await asr.reread(project)
    assert (failed.status, failed.error_reason) == (FAILED, "TASK_REJECTED")


async def test_clips_outside_the_projects_folder_or_without_length_are_refused(
    asr: Asr, project: video_project_pb2.VideoProject
) -> None:
    await begin(asr, project)
    foreign, empty, first = clip(project, 0), clip(project, 0), clip(project, 0)
    foreign.media_key = "recordings/other/canonical.mp4"
    empty.end_ms = empty.start_ms
    for clips in ([foreign], [empty], [first, first], []):
        assert await reason(save(asr, project, clips)) == "INVALID_ARGUMENT"
    assert (await asr.reread(project)).status == PROCESSING
