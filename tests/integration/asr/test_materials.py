"""Live materials: created once, listed, renamed, deleted with everything below them."""

import asyncio
from functools import partial
from uuid import UUID, uuid4

import grpc
from frontrow.asr.v1 import live_material_pb2
from frontrow.asr.v1 import live_material_service_pb2 as pb
from frontrow.task.v1 import task_pb2, task_service_pb2
from sqlalchemy import func, insert, select

from libs.common.db import Database
from libs.common.ids import uuid7
from libs.common.testing import eventually
from services.asr.models import clips, live_materials, transcript_paragraphs, uploads, video_projects
from tests.integration.asr.bed import MATERIAL_NOT_FOUND, Bed, refusal


async def test_the_same_request_id_makes_one_material_also_when_calls_race(
    bed: Bed, database: Database
) -> None:
    upload_id, request_id = await bed.upload(), str(uuid4())
    request = pb.CreateLiveMaterialRequest(
        name=f"同 {request_id}", upload_id=upload_id, request_id=request_id
    )
    answers = await asyncio.gather(*(bed.materials.CreateLiveMaterial(request) for _ in range(8)))
    assert len({answer.live_material.id for answer in answers}) == 1
    assert sum(answer.created for answer in answers) == 1
    other = pb.CreateLiveMaterialRequest(name="另", upload_id=upload_id, request_id=request_id)
    assert (await refusal(bed.materials.CreateLiveMaterial(other)))[1] == "REQUEST_ID_REUSED"
    async with database.begin() as session:
        count = select(func.count()).where(live_materials.c.request_id == request_id)
        assert (await session.execute(count)).scalar_one() == 1


async def test_a_name_and_an_upload_belong_to_one_material(bed: Bed) -> None:
    material = await bed.material()
    upload_id = await bed.upload()
    taken = pb.CreateLiveMaterialRequest(name=material.name, upload_id=upload_id)
    assert (await refusal(bed.materials.CreateLiveMaterial(taken)))[1] == "NAME_TAKEN"
    await bed.materials.CreateLiveMaterial(
        pb.CreateLiveMaterialRequest(name=str(uuid4()), upload_id=upload_id)
    )
    again = pb.CreateLiveMaterialRequest(name=str(uuid4()), upload_id=upload_id)
    assert (await refusal(bed.materials.CreateLiveMaterial(again)))[1] == "UPLOAD_TAKEN"
    unknown = pb.CreateLiveMaterialRequest(name=str(uuid4()), upload_id=str(uuid7()))
    assert await refusal(bed.materials.CreateLiveMaterial(unknown)) == (
        grpc.StatusCode.NOT_FOUND,
        "UPLOAD_NOT_FOUND",
    )


async def test_the_task_of_a_new_material_carries_the_id_that_asr_chose(bed: Bed) -> None:
    material = await bed.material(name=f"任务 {uuid4()}")

    async def created() -> task_pb2.Task:
        request = task_service_pb2.BatchGetTasksRequest(task_ids=[material.asr_task_id])
        (task,) = (await bed.tasks.BatchGetTasks(request)).tasks or [None]
        assert task is not None
        return task

    task = await eventually(created)
    assert (task.type, task.subject) == ("asr", f"live_material:{material.id}")
    assert task.live_material_name == material.name


async def test_a_material_that_skips_transcription_has_no_task_until_it_is_reset(bed: Bed) -> None:
    material = await bed.material(skip=True)
    assert (material.asr_status, material.asr_task_id) == (live_material_pb2.ASR_STATUS_NONE, "")
    request = pb.ResetASRToPendingRequest(live_material_id=material.id)
    reset = (await bed.materials.ResetASRToPending(request)).live_material
    assert reset.asr_status == live_material_pb2.ASR_STATUS_PENDING
    await bed.claim(reset.asr_task_id)


async def test_update_writes_what_the_mask_names_and_nothing_else(bed: Bed) -> None:
    material = await bed.material()
    request = pb.UpdateLiveMaterialRequest(live_material_id=material.id, name="不写", remark="备注")
    request.update_mask.paths.append("remark")
    written = (await bed.materials.UpdateLiveMaterial(request)).live_material
    assert (written.name, written.remark) == (material.name, "备注")
    request.update_mask.paths[:] = ["asr_status"]
    assert (await refusal(bed.materials.UpdateLiveMaterial(request)))[0] is grpc.StatusCode.INVALID_ARGUMENT
    request.update_mask.paths[:] = ["name"]
    request.name = ""
    assert (await refusal(bed.materials.UpdateLiveMaterial(request)))[0] is grpc.StatusCode.INVALID_ARGUMENT
    request.name = (await bed.material()).name
    assert (await refusal(bed.materials.UpdateLiveMaterial(request)))[1] == "NAME_TAKEN"
    request.live_material_id = str(uuid7())
    request.name = str(uuid4())
    assert await refusal(bed.materials.UpdateLiveMaterial(request)) == MATERIAL_NOT_FOUND


async def test_lists_page_newest_first_and_filter_by_words_states_and_what_was_said(bed: Bed) -> None:
    mark = uuid4().hex
    made = [await bed.material(name=f"{mark} {number} 100%_利率") for number in range(5)]
    request = pb.ListLiveMaterialsRequest(keywords=f"{mark.upper()} 100%_", page_size=2)
    seen: list[str] = []
    while True:
        page = await bed.materials.ListLiveMaterials(request)
        seen += [material.id for material in page.live_materials]
        if not page.next_page_token:
            break
        request.page_token = page.next_page_token
    assert seen == [material.id for material in reversed(made)]
    request.keywords = f"{mark} 股票 | {mark} 债券"
    assert (await refusal(bed.materials.ListLiveMaterials(request)))[0] is grpc.StatusCode.INVALID_ARGUMENT
    request.page_token = ""
    assert list((await bed.materials.ListLiveMaterials(request)).live_materials) == []

    task = await bed.claim(made[0].asr_task_id)
    version = (await bed.begin(made[0], task.version)).asr_version
    await bed.complete(made[0].id, version, [f"利率{mark}下降", f"债券{mark}上涨"])
    spoken = pb.ListLiveMaterialsRequest(
        transcript_keywords=f"利率 {mark}", asr_statuses=[live_material_pb2.ASR_STATUS_COMPLETED]
    )
    (found,) = (await bed.materials.ListLiveMaterials(spoken)).live_materials
    assert (found.id, found.has_transcript) == (made[0].id, True)
    spoken.transcript_keywords = f"利率 上涨 {mark}"  # not in one paragraph
    assert list((await bed.materials.ListLiveMaterials(spoken)).live_materials) == []


async def test_deleting_while_a_run_is_on_is_refused_and_possible_after_it(bed: Bed) -> None:
    material = await bed.material()
    task = await bed.claim(material.asr_task_id)
    version = (await bed.begin(material, task.version)).asr_version
    request = pb.DeleteLiveMaterialRequest(live_material_id=material.id)
    code, reason = await refusal(bed.materials.DeleteLiveMaterial(request))
    assert (code, reason) == (grpc.StatusCode.FAILED_PRECONDITION, "MATERIAL_BUSY")
    await bed.fail(material.id, version, "STOPPED")
    await bed.materials.DeleteLiveMaterial(request)
    assert await refusal(bed.materials.DeleteLiveMaterial(request)) == MATERIAL_NOT_FOUND


async def test_deleting_a_pending_material_cancels_its_task(bed: Bed) -> None:
    material = await bed.material()
    await bed.materials.DeleteLiveMaterial(pb.DeleteLiveMaterialRequest(live_material_id=material.id))

    async def cancelled() -> bool:
        request = task_service_pb2.BatchGetTasksRequest(task_ids=[material.asr_task_id])
        tasks = (await bed.tasks.BatchGetTasks(request)).tasks
        return [task.status for task in tasks] == [task_pb2.TASK_STATUS_CANCELLED]

    await eventually(cancelled)


async def test_deleting_removes_transcript_projects_clips_and_then_the_objects(
    bed: Bed, database: Database
) -> None:
    material = await bed.material(b"the recording")
    task = await bed.claim(material.asr_task_id)
    version = (await bed.begin(material, task.version)).asr_version
    await bed.complete(material.id, version, ["好"])
    project = uuid7()
    async with database.begin() as session:
        values = {"id": project, "live_material_id": UUID(material.id), "name": "项目", "status": "completed"}
        await session.execute(insert(video_projects).values(**values, slice_task_id=uuid7()))
        clip = {"video_project_id": project, "position": 0, "title": "片段", "start_ms": 0, "end_ms": 9}
        await session.execute(insert(clips).values(**clip, id=uuid7(), media_key="k", size_bytes=1))
        columns = live_materials.c.upload_id, live_materials.c.media_key
        upload = select(*columns).where(live_materials.c.id == UUID(material.id))
        upload_id, recording = (await session.execute(upload)).one()
    assert not await _missing(bed, recording)
    mine = [
        f"clips/{project}/a.mp4",
        f"recordings/{material.id}/canonical-1.mp4",
        f"staging/asr/{material.id}/1/a.json",
    ]
    other = f"staging/asr/{uuid7()}/1/a.json"
    for key in [*mine, other]:
        await bed.store.put_bytes(key, b"x")

    await bed.materials.DeleteLiveMaterial(pb.DeleteLiveMaterialRequest(live_material_id=material.id))
    async with database.begin() as session:
        for column, owner in (
            (transcript_paragraphs.c.material_id, UUID(material.id)),
            (video_projects.c.id, project),
            (clips.c.video_project_id, project),
            (uploads.c.id, upload_id),
        ):
            left = await session.execute(select(func.count()).where(column == owner))
            assert left.scalar_one() == 0
    for key in [*mine, recording]:
        await eventually(partial(_missing, bed, key))
    assert not await _missing(bed, other)


async def _missing(bed: Bed, key: str) -> bool:
    return await bed.store.head(key) is None


async def test_a_transcript_of_many_megabytes_streams_and_an_empty_one_is_refused(bed: Bed) -> None:
    material = await bed.material()
    request = pb.GetTranscriptRequest(live_material_id=material.id)
    code, reason = await refusal(bed.transcript(material.id))
    assert (code, reason) == (grpc.StatusCode.FAILED_PRECONDITION, "NO_TRANSCRIPT")
    task = await bed.claim(material.asr_task_id)
    version = (await bed.begin(material, task.version)).asr_version
    texts = [f"{number}" + "长" * 190 for number in range(2500)]
    await bed.complete(material.id, version, texts[:1])
    request.live_material_id = material.id
    reset = pb.ResetASRToPendingRequest(live_material_id=material.id)
    again = (await bed.materials.ResetASRToPending(reset)).live_material
    second = await bed.claim(again.asr_task_id)
    await bed.complete(material.id, (await bed.begin(again, second.version)).asr_version, texts)
    answers = await bed.transcript(material.id)
    assert answers[0].header.utterance_count == 2500
    assert [item.text for answer in answers for item in answer.utterances.utterances] == texts
    assert [item.text for answer in answers for item in answer.paragraphs.paragraphs] == texts
    assert sum(answer.ByteSize() for answer in answers) > 4 << 20
    assert max(answer.ByteSize() for answer in answers) < 1 << 20
