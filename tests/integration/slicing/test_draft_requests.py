"""Editing drafts as editors see them: asked for, listed, deleted; and what is refused."""

import asyncio
import uuid
from collections.abc import Awaitable

import grpc
import grpc.aio
import pytest
from frontrow.asr.v1 import (
    editing_draft_pb2,
    live_material_service_pb2,
    video_project_pb2,
    video_project_service_pb2,
)
from frontrow.task.v1 import task_service_pb2
from sqlalchemy import select

from libs.common.client import error_info, reading, reason_of
from libs.common.db import Database
from services.asr.models import doomed_objects, outbox
from tests.integration.slicing.asr_server import Asr
from tests.integration.slicing.draft_runs import (
    JIANYING,
    OTIO,
    ask,
    begin_draft,
    completed_project,
    reread,
    save_draft,
    stored,
)


async def refused(call: Awaitable[object]) -> grpc.aio.AioRpcError:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call
    return caught.value


async def kinds_of(database: Database, draft_id: str) -> list[str]:
    async with database.begin() as session:
        mine = outbox.c.subject == f"editing_draft:{draft_id}"
        return list(
            (await session.execute(select(outbox.c.kind).where(mine).order_by(outbox.c.id))).scalars()
        )


async def clip_ids(asr: Asr, project: video_project_pb2.VideoProject) -> list[str]:
    request = video_project_service_pb2.ListClipsRequest(video_project_id=project.id)
    return [clip.id for clip in (await asr.projects.ListClips(request)).clips]


async def test_a_draft_is_made_with_its_task_in_the_outbox(asr: Asr, database: Database) -> None:
    project = await completed_project(asr, "draft-outbox")
    draft = await ask(asr, project)
    assert (draft.format, draft.draft_status) == (OTIO, editing_draft_pb2.EDITING_DRAFT_STATUS_PENDING)
    async with database.begin() as session:
        subject = f"editing_draft:{draft.id}"
        row = (await session.execute(select(outbox).where(outbox.c.subject == subject))).one()
    task = task_service_pb2.CreateTaskRequest.FromString(row.body)
    assert (row.kind, task.type, task.task_id) == ("create_task", "draft", draft.draft_task_id)
    assert task.payload["video_project_id"] == project.id
    assert task.payload["editing_draft_id"] == draft.id
    assert (task.live_material_name, task.video_project_name) == ("draft-outbox", project.name)


async def test_a_draft_needs_a_completed_project(asr: Asr) -> None:
    project = await asr.project((await asr.transcribed("draft-too-early")).id)
    error = await refused(ask(asr, project))
    assert (error.code(), reason_of(error)) == (
        grpc.StatusCode.FAILED_PRECONDITION,
        "VIDEO_PROJECT_NOT_COMPLETED",
    )
    project.id = str(uuid.uuid4())
    assert reason_of(await refused(ask(asr, project))) == "VIDEO_PROJECT_NOT_FOUND"


async def test_clips_of_the_project_only_each_once(asr: Asr) -> None:
    project = await completed_project(asr, "draft-clips")
    first, second = await clip_ids(asr, project)
    draft = await ask(asr, project, clip_ids=[second, first])
    assert list(draft.clip_ids) == [second, first]
    error = await refused(ask(asr, project, clip_ids=[first, first]))
    assert [violation.field for violation in error_info(error).violations] == ["clip_ids"]
    assert reason_of(await refused(ask(asr, project, clip_ids=[str(uuid.uuid4())]))) == "CLIP_NOT_FOUND"


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"draft_root": "C:/drafts"}, "draft_root"),
        ({"draft_root": "drafts", "format": JIANYING}, "draft_root"),
        ({"draft_root": "/a\nb", "format": JIANYING}, "draft_root"),
    ],
)
async def test_a_folder_of_drafts_is_a_whole_path_and_for_jianying_only(
    asr: Asr, fields: dict[str, object], field: str
) -> None:
    project = await completed_project(asr, f"draft-root-{uuid.uuid4()}")
    error = await refused(ask(asr, project, **fields))
    assert [violation.field for violation in error_info(error).violations] == [field]


async def test_the_same_request_id_gives_the_first_draft_to_all_callers(asr: Asr) -> None:
    project = await completed_project(asr, "draft-idempotent")
    made = await asyncio.gather(*(ask(asr, project, request_id="d-1") for _ in range(6)))
    assert len({draft.id for draft in made}) == 1
    error = await refused(ask(asr, project, request_id="d-1", format=JIANYING))
    assert reason_of(error) == "REQUEST_ID_REUSED"


async def test_drafts_are_listed_by_pages_newest_first(asr: Asr) -> None:
    project = await completed_project(asr, "draft-list")
    made = [(await ask(asr, project)).id for _ in range(3)]
    seen: list[str] = []
    token = ""
    while True:
        request = video_project_service_pb2.ListEditingDraftsRequest(
            video_project_id=project.id, page_size=2, page_token=token
        )
        page = await asr.projects.ListEditingDrafts(request)
        seen += [draft.id for draft in page.editing_drafts]
        token = page.next_page_token
        if not token:
            break
    assert seen == made[::-1]


async def test_drafts_of_a_project_that_there_is_not_are_refused_and_not_none(asr: Asr) -> None:
    nobody = video_project_service_pb2.ListEditingDraftsRequest(video_project_id=str(uuid.uuid4()))
    assert reason_of(await refused(asr.projects.ListEditingDrafts(nobody))) == "VIDEO_PROJECT_NOT_FOUND"
    project = await completed_project(asr, "draft-none-so-far")
    nothing = video_project_service_pb2.ListEditingDraftsRequest(video_project_id=project.id)
    assert list((await asr.projects.ListEditingDrafts(nothing)).editing_drafts) == []


async def test_deleting_a_pending_draft_cancels_its_task_and_dooms_its_folder(
    asr: Asr, database: Database
) -> None:
    draft = await ask(asr, await completed_project(asr, "draft-deleted"))
    request = video_project_service_pb2.DeleteEditingDraftRequest(editing_draft_id=draft.id)
    await asr.projects.DeleteEditingDraft(request)
    assert await kinds_of(database, draft.id) == ["create_task", "cancel_task"]
    async with database.begin() as session:
        folder = doomed_objects.c.key == f"drafts/{draft.video_project_id}/{draft.id}/"
        assert (await session.execute(select(doomed_objects).where(folder))).one_or_none() is not None
    assert reason_of(await refused(reread(asr, draft.id))) == "EDITING_DRAFT_NOT_FOUND"


async def test_what_a_run_works_on_is_not_deleted_nor_what_holds_it(asr: Asr) -> None:
    project = await completed_project(asr, "draft-busy")
    draft = await ask(asr, project)
    await begin_draft(asr, draft)
    one = video_project_service_pb2.DeleteEditingDraftRequest(editing_draft_id=draft.id)
    error = await refused(asr.projects.DeleteEditingDraft(one))
    assert (reason_of(error), error_info(error).metadata["task_id"]) == (
        "EDITING_DRAFT_BUSY",
        draft.draft_task_id,
    )
    whole = video_project_service_pb2.DeleteVideoProjectRequest(video_project_id=project.id)
    assert reason_of(await refused(asr.projects.DeleteVideoProject(whole))) == "VIDEO_PROJECT_BUSY"
    material = live_material_service_pb2.DeleteLiveMaterialRequest(live_material_id=project.live_material_id)
    assert reason_of(await refused(asr.materials.DeleteLiveMaterial(material))) == "MATERIAL_BUSY"
    await save_draft(asr, draft)
    await asr.projects.DeleteVideoProject(whole)
    assert reason_of(await refused(reread(asr, draft.id))) == "EDITING_DRAFT_NOT_FOUND"


async def test_deleting_a_material_cancels_the_tasks_of_its_drafts(asr: Asr, database: Database) -> None:
    project = await completed_project(asr, "draft-material-deleted")
    draft = await ask(asr, project)
    material = live_material_service_pb2.DeleteLiveMaterialRequest(live_material_id=project.live_material_id)
    await asr.materials.DeleteLiveMaterial(material)
    assert await kinds_of(database, draft.id) == ["create_task", "cancel_task"]


async def test_a_draft_is_downloaded_once_it_is_completed(asr: Asr) -> None:
    draft = await ask(asr, await completed_project(asr, "draft-download"))
    request = video_project_service_pb2.DownloadMediaRequest(editing_draft_id=draft.id)

    async def download() -> list[video_project_service_pb2.DownloadMediaResponse]:
        async with reading(asr.projects.DownloadMedia(request)) as answers:
            return [answer async for answer in answers]

    assert reason_of(await refused(download())) == "EDITING_DRAFT_NOT_COMPLETED"
    await begin_draft(asr, draft)
    await asr.store.put_bytes(stored(f"drafts/{draft.video_project_id}/{draft.id}/").media_key, b"a zip")
    await save_draft(asr, draft)
    info, chunk = await download()
    assert (info.info.content_type, info.info.file_name) == ("application/zip", "draft.zip")
    assert chunk.chunk == b"a zip"


async def test_a_format_without_a_draft_is_refused_at_a_project(asr: Asr) -> None:
    material = await asr.transcribed("draft-format-alone")
    error = await refused(asr.project(material.id, draft_format=JIANYING))
    assert [violation.field for violation in error_info(error).violations] == ["draft_format"]
    error = await refused(asr.project(material.id, draft_root="/drafts"))
    assert [violation.field for violation in error_info(error).violations] == ["draft_root"]
    mode = video_project_pb2.VIDEO_PROJECT_MODE_AI_SLICE_DRAFT
    project = await asr.project(material.id, mode=mode)
    assert (project.mode, project.draft_format) == (mode, OTIO)
    assert project.cut_mode == video_project_pb2.CUT_MODE_EXACT
