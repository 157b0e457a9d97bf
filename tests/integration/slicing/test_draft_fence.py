"""A run on a draft is begun, fenced and followed alone; two phases of one task share a fence."""

import uuid
from collections.abc import Awaitable

import grpc
import grpc.aio
import pytest
from frontrow.asr.v1 import editing_draft_pb2, slicing_service_pb2, video_project_pb2

from libs.common.client import reason_of
from libs.common.db import Database
from services.asr.repository_run import DRAFTS, RunFollowSource, rejected
from tests.integration.slicing.asr_server import Asr
from tests.integration.slicing.draft_runs import (
    JIANYING,
    ask,
    begin_draft,
    completed_project,
    fail_draft,
    reread,
    save_draft,
    save_own_draft,
)
from tests.integration.slicing.runs import begin, clip, save

PENDING = editing_draft_pb2.EDITING_DRAFT_STATUS_PENDING
PROCESSING = editing_draft_pb2.EDITING_DRAFT_STATUS_PROCESSING
COMPLETED = editing_draft_pb2.EDITING_DRAFT_STATUS_COMPLETED
FAILED = editing_draft_pb2.EDITING_DRAFT_STATUS_FAILED


async def reason(call: Awaitable[object]) -> str | None:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call
    return reason_of(caught.value)


@pytest.fixture
async def draft(asr: Asr) -> editing_draft_pb2.EditingDraft:
    return await ask(asr, await completed_project(asr, f"draft-{uuid.uuid4()}"), format=JIANYING)


async def test_a_begin_gives_the_clips_in_the_drafts_order_and_leaves_the_project_alone(asr: Asr) -> None:
    project = await completed_project(asr, f"draft-order-{uuid.uuid4()}")
    whole = await begin_draft(asr, await ask(asr, project))
    ids = [c.id for answer in whole for c in answer.batch.clips]
    assert len(ids) == 2
    draft = await ask(asr, project, clip_ids=ids[::-1], format=JIANYING, draft_root="/me/drafts")
    answers = await begin_draft(asr, draft)
    header = answers[0].header
    assert (header.draft_format, header.draft_root) == (JIANYING, "/me/drafts")
    assert header.draft_prefix == f"drafts/{project.id}/{draft.id}/"
    assert [c.id for answer in answers for c in answer.batch.clips] == ids[::-1]
    assert len([u for answer in answers for u in answer.batch.utterances]) == 57
    assert await begin_draft(asr, draft) == answers
    assert await asr.reread(project) == project


async def test_saving_completes_the_draft_and_a_repeat_changes_nothing(
    asr: Asr, draft: editing_draft_pb2.EditingDraft
) -> None:
    await begin_draft(asr, draft)
    await save_draft(asr, draft)
    done = await reread(asr, draft.id)
    assert (done.draft_status, done.frame_rate, done.duration_ms) == (COMPLETED, "30000/1001", 4000)
    await save_draft(asr, draft)
    assert await reread(asr, draft.id) == done
    (again,) = await begin_draft(asr, draft, version=5)
    assert again.header.state == slicing_service_pb2.SLICING_STATE_ALREADY_COMPLETED
    assert again.header.draft_key == done.media_key


async def test_an_older_run_is_refused_whatever_it_does(
    asr: Asr, draft: editing_draft_pb2.EditingDraft
) -> None:
    await begin_draft(asr, draft, version=1)
    await begin_draft(asr, draft, version=3)
    assert await reason(begin_draft(asr, draft, version=1)) == "LEASE_LOST"
    assert await reason(save_draft(asr, draft, version=1)) == "LEASE_LOST"
    assert await reason(fail_draft(asr, draft, "ZOMBIE", version=1)) == "LEASE_LOST"
    assert await reason(begin_draft(asr, draft, task_id=str(uuid.uuid4()))) == "SUPERSEDED"
    untouched = await reread(asr, draft.id)
    assert (untouched.draft_status, untouched.error_reason) == (PROCESSING, "")
    await save_draft(asr, draft, version=3)
    assert await reason(save_draft(asr, draft, version=1)) == "LEASE_LOST"


async def test_a_draft_outside_its_own_folder_is_refused(
    asr: Asr, draft: editing_draft_pb2.EditingDraft
) -> None:
    await begin_draft(asr, draft)
    for prefix in (f"drafts/{draft.video_project_id}/own/", "recordings/other/"):
        assert await reason(save_draft(asr, draft, prefix=prefix)) == "INVALID_ARGUMENT"


async def test_a_draft_follows_its_task(
    asr: Asr, database: Database, draft: editing_draft_pb2.EditingDraft
) -> None:
    source = RunFollowSource(database, DRAFTS)
    await begin_draft(asr, draft, version=1)
    assert draft.id in [followed.owner_id for followed in await source.current()]
    await source.requeued(draft.id, draft.draft_task_id, 2)
    assert (await reread(asr, draft.id)).draft_status == PENDING
    assert await reason(save_draft(asr, draft, version=1)) == "LEASE_LOST"
    await begin_draft(asr, draft, version=3)
    await fail_draft(asr, draft, "STORE_UNAVAILABLE", version=3, retryable=True)
    noted = await reread(asr, draft.id)
    assert (noted.draft_status, noted.error_reason) == (PROCESSING, "STORE_UNAVAILABLE")
    await source.ended(draft.id, draft.draft_task_id, 4, "FAILED", "tried too often")
    ended = await reread(asr, draft.id)
    assert (ended.draft_status, ended.error_reason) == (FAILED, "STORE_UNAVAILABLE")
    await source.requeued(draft.id, draft.draft_task_id, 5)
    await begin_draft(asr, draft, version=6)
    assert (await reread(asr, draft.id)).error_reason == ""
    await save_draft(asr, draft, version=6)
    await source.ended(draft.id, draft.draft_task_id, 7, "CANCELLED", "")
    assert (await reread(asr, draft.id)).draft_status == COMPLETED


async def test_a_cancelled_task_says_more_than_what_its_run_noted(
    asr: Asr, database: Database, draft: editing_draft_pb2.EditingDraft
) -> None:
    await begin_draft(asr, draft)
    await fail_draft(asr, draft, "STORE_UNAVAILABLE", retryable=True)
    await RunFollowSource(database, DRAFTS).ended(draft.id, draft.draft_task_id, 2, "CANCELLED", "")
    assert (await reread(asr, draft.id)).error_reason == "CANCELLED"


async def test_a_task_that_can_never_be_made_fails_its_draft(
    asr: Asr, database: Database, draft: editing_draft_pb2.EditingDraft
) -> None:
    async with database.begin() as session:
        await rejected(session, DRAFTS, uuid.UUID(draft.id), "INVALID_ARGUMENT: too long")
    failed = await reread(asr, draft.id)
    assert (failed.draft_status, failed.error_reason) == (FAILED, "TASK_REJECTED")


async def test_the_first_phase_of_two_does_not_complete_the_project(asr: Asr) -> None:
    mode = video_project_pb2.VIDEO_PROJECT_MODE_AI_SLICE_DRAFT
    material = await asr.transcribed(f"two-phases-{uuid.uuid4()}")
    project = await asr.project(material.id, mode=mode, draft_format=JIANYING)
    answers = await begin(asr, project)
    assert answers[0].header.draft_prefix == f"drafts/{project.id}/own/"
    await save(asr, project, [clip(project, 0), clip(project, 1)])
    half = await asr.reread(project)
    assert (half.status, half.clip_count) == (video_project_pb2.VIDEO_PROJECT_STATUS_PROCESSING, 2)
    assert not half.HasField("complete_time")
    # another run of the same task goes on with the clips that are there
    resumed = await begin(asr, project, version=3)
    assert len([c for answer in resumed for c in answer.batch.clips]) == 2
    assert await reason(save_own_draft(asr, project, version=1)) == "LEASE_LOST"
    await save_own_draft(asr, project, version=3)
    await save_own_draft(asr, project, version=3)
    done = await asr.reread(project)
    assert done.status == video_project_pb2.VIDEO_PROJECT_STATUS_COMPLETED
    own = await reread(asr, done.editing_draft_id)
    assert (own.draft_status, own.draft_task_id, own.format) == (COMPLETED, project.slice_task_id, JIANYING)
    (again,) = await begin(asr, project, version=5)
    assert again.header.draft_key == own.media_key
