"""Video projects as editors see them, on a real server and database."""

import asyncio
import hashlib
import uuid

import grpc
import grpc.aio
import pytest
from frontrow.asr.v1 import video_project_pb2, video_project_service_pb2
from frontrow.task.v1 import task_service_pb2
from sqlalchemy import select

from libs.common.client import error_info, reading, reason_of
from libs.common.db import Database
from services.asr.models import doomed_objects, outbox
from tests.integration.slicing.asr_server import RECORDING, RECORDING_MS, Asr
from tests.integration.slicing.runs import begin, clip, save


async def refused(call: "grpc.aio.UnaryUnaryCall[object, object]") -> grpc.aio.AioRpcError:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call
    return caught.value


def create(asr: Asr, material_id: str, **fields: object) -> "grpc.aio.UnaryUnaryCall[object, object]":
    values = {"live_material_id": material_id, "name": "片段"} | fields
    return asr.projects.CreateVideoProject(video_project_service_pb2.CreateVideoProjectRequest(**values))


async def test_a_project_is_made_with_its_task_in_the_outbox(asr: Asr, database: Database) -> None:
    material = await asr.transcribed("task-in-outbox")
    project = await asr.project(material.id, keywords="债券 | 股票", name="债券")
    assert project.status == video_project_pb2.VIDEO_PROJECT_STATUS_PENDING
    assert (project.span_start_ms, project.span_end_ms) == (0, RECORDING_MS)
    assert project.live_material_name == "task-in-outbox"
    async with database.begin() as session:
        subject = f"video_project:{project.id}"
        row = (await session.execute(select(outbox).where(outbox.c.subject == subject))).one()
    task = task_service_pb2.CreateTaskRequest.FromString(row.body)
    assert (row.kind, task.type, task.task_id) == ("create_task", "ai_slice", project.slice_task_id)
    assert task.payload["video_project_id"] == project.id
    assert (task.live_material_name, task.video_project_name) == ("task-in-outbox", "债券")


async def test_a_project_needs_a_completed_transcription(asr: Asr) -> None:
    material = await asr.upload("not-yet", b"bytes")
    error = await refused(create(asr, material.id))
    assert error.code() == grpc.StatusCode.FAILED_PRECONDITION
    assert reason_of(error) == "ASR_NOT_COMPLETED"
    assert error_info(error).metadata["asr_status"] == "pending"


async def test_a_selection_without_speech_is_refused(asr: Asr) -> None:
    material = await asr.transcribed("silence")
    error = await refused(create(asr, material.id, span_start_ms=34_800, span_end_ms=36_000))
    assert reason_of(error) == "NO_SPEECH_IN_SELECTION"
    touching = await asr.project(material.id, span_start_ms=34_711, span_end_ms=36_000)
    assert touching.span_start_ms == 34_711


@pytest.mark.parametrize(
    ("start", "end", "field"),
    [(0, RECORDING_MS + 1, "span_end_ms"), (5000, 5000, "span_start_ms"), (RECORDING_MS, 0, "span_start_ms")],
)
async def test_a_span_outside_the_recording_is_refused_by_field(
    asr: Asr, start: int, end: int, field: str
) -> None:
    material = await asr.transcribed(f"span-{start}-{end}")
    error = await refused(create(asr, material.id, span_start_ms=start, span_end_ms=end))
    assert error.code() == grpc.StatusCode.INVALID_ARGUMENT
    assert [violation.field for violation in error_info(error).violations] == [field]


async def test_the_same_request_id_gives_the_first_project_to_all_callers(asr: Asr) -> None:
    material = await asr.transcribed("idempotent")
    answers = await asyncio.gather(*(create(asr, material.id, request_id="r-1") for _ in range(8)))
    assert len({answer.video_project.id for answer in answers}) == 1
    assert [answer.created for answer in answers].count(True) == 1
    error = await refused(create(asr, material.id, request_id="r-1", name="other"))
    assert reason_of(error) == "REQUEST_ID_REUSED"


async def test_unknown_ids_are_not_found_and_broken_ones_are_refused(asr: Asr) -> None:
    unknown = str(uuid.uuid4())
    error = await refused(create(asr, unknown))
    assert (error.code(), reason_of(error)) == (grpc.StatusCode.NOT_FOUND, "MATERIAL_NOT_FOUND")
    request = video_project_service_pb2.ListClipsRequest(video_project_id=unknown)
    assert reason_of(await refused(asr.projects.ListClips(request))) == "VIDEO_PROJECT_NOT_FOUND"
    broken = video_project_service_pb2.GetVideoProjectRequest(video_project_id="'; drop table")
    assert (await refused(asr.projects.GetVideoProject(broken))).code() == grpc.StatusCode.INVALID_ARGUMENT


async def test_projects_are_listed_by_pages_newest_first(asr: Asr) -> None:
    material = await asr.transcribed("listed")
    made = [await asr.project(material.id, name=f"p{i}") for i in range(5)]
    seen: list[str] = []
    token = ""
    while True:
        request = video_project_service_pb2.ListVideoProjectsRequest(
            live_material_id=material.id, page_size=2, page_token=token
        )
        page = await asr.projects.ListVideoProjects(request)
        seen += [project.id for project in page.video_projects]
        token = page.next_page_token
        if not token:
            break
    assert seen == [project.id for project in reversed(made)]


async def test_deleting_a_pending_project_cancels_its_task_and_dooms_its_folder(
    asr: Asr, database: Database
) -> None:
    project = await asr.project((await asr.transcribed("deleted")).id)
    request = video_project_service_pb2.DeleteVideoProjectRequest(video_project_id=project.id)
    await asr.projects.DeleteVideoProject(request)
    async with database.begin() as session:
        subject = outbox.c.subject == f"video_project:{project.id}"
        kinds = (await session.execute(select(outbox.c.kind).where(subject).order_by(outbox.c.id))).scalars()
        assert list(kinds) == ["create_task", "cancel_task"]
        doomed = doomed_objects.c.key == f"clips/{project.id}/"
        assert (await session.execute(select(doomed_objects).where(doomed))).one_or_none() is not None
    assert reason_of(await refused(asr.projects.DeleteVideoProject(request))) == "VIDEO_PROJECT_NOT_FOUND"


async def test_a_project_whose_run_is_on_is_not_deleted(asr: Asr) -> None:
    project = await asr.project((await asr.transcribed("busy")).id)
    await begin(asr, project)
    request = video_project_service_pb2.DeleteVideoProjectRequest(video_project_id=project.id)
    error = await refused(asr.projects.DeleteVideoProject(request))
    assert reason_of(error) == "VIDEO_PROJECT_BUSY"
    assert error_info(error).metadata["task_id"] == project.slice_task_id


async def download(asr: Asr, **target: object) -> tuple[video_project_service_pb2.MediaInfo, bytes]:
    request = video_project_service_pb2.DownloadMediaRequest(**target)
    info, content = video_project_service_pb2.MediaInfo(), b""
    async with reading(asr.projects.DownloadMedia(request)) as answers:
        async for answer in answers:
            if answer.WhichOneof("item") == "info":
                info = answer.info
            content += answer.chunk
    return info, content


async def test_a_recording_is_downloaded_whole_or_from_an_offset(asr: Asr) -> None:
    material = await asr.transcribed("downloaded / 下载")
    target = video_project_service_pb2.RecordingTarget(
        live_material_id=material.id, file=video_project_service_pb2.RECORDING_FILE_CANONICAL
    )
    info, content = await download(asr, recording=target)
    assert (info.size_bytes, info.content_type) == (RECORDING.stat().st_size, "video/mp4")
    assert info.file_name == "downloaded _ 下载.mp4"
    assert hashlib.sha256(content).digest() == hashlib.sha256(RECORDING.read_bytes()).digest()
    assert (await download(asr, recording=target, offset=1_600_000))[1] == content[1_600_000:]
    assert (await download(asr, recording=target, offset=len(content)))[1] == b""
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await download(asr, recording=target, offset=len(content) + 1)
    assert caught.value.code() == grpc.StatusCode.INVALID_ARGUMENT


async def test_a_clip_and_its_still_picture_are_downloaded_and_a_lost_object_is_named(asr: Asr) -> None:
    project = await asr.project((await asr.transcribed("clips")).id)
    await begin(asr, project)
    made = clip(project, 0)
    await asr.store.put_bytes(made.media_key, b"the clip")
    await save(asr, project, [made])
    info, content = await download(asr, clip_id=made.id)
    assert (content, info.file_name) == (b"the clip", f"001 {made.title}.mp4")
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await download(asr, thumbnail_clip_id=made.id)
    assert (caught.value.code(), reason_of(caught.value)) == (grpc.StatusCode.DATA_LOSS, "OBJECT_LOST")
