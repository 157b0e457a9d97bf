"""Transcripts found by words and written as files; debug records read, pinned and cleaned up."""

import json
from uuid import uuid4

import grpc
from frontrow.asr.v1 import debug_record_pb2, live_material_pb2
from frontrow.asr.v1 import live_material_service_pb2 as pb

from libs.common.client import reading
from libs.common.db import Database
from services.asr.loops.debug_cleanup import DebugCleanup
from tests.integration.asr.bed import MATERIAL_NOT_FOUND, Bed, refusal


async def transcribed(bed: Bed, texts: list[str], *, name: str = "") -> live_material_pb2.LiveMaterial:
    material = await bed.material(name=name)
    task = await bed.claim(material.asr_task_id)
    version = (await bed.begin(material, task.version)).asr_version
    await bed.complete(material.id, version, texts)
    await bed.finish(task)
    return material


async def exported(
    bed: Bed, material_id: str, format_: pb.ExportFormat.ValueType
) -> tuple[pb.ExportInfo, str]:
    request = pb.ExportTranscriptRequest(live_material_id=material_id, format=format_)
    async with reading(bed.materials.ExportTranscript(request)) as stream:
        answers = [answer async for answer in stream]
    return answers[0].info, b"".join(answer.chunk for answer in answers[1:]).decode()


async def test_paragraphs_are_found_by_groups_with_their_times_newest_material_first(bed: Bed) -> None:
    mark = uuid4().hex
    first = await transcribed(bed, [f"{mark} 利率下降", f"{mark} 债券上涨", f"{mark} 利率和债券"])
    second = await transcribed(bed, [f"{mark} Bonds 100%"])
    request = pb.SearchTranscriptsRequest(keywords=f"{mark} 利率 债券 | {mark} bonds")
    hits = (await bed.materials.SearchTranscripts(request)).hits
    assert [(hit.live_material_id, hit.paragraph.index, hit.start_ms) for hit in hits] == [
        (second.id, 0, 0),
        (first.id, 2, 2000),
    ]
    assert hits[1].live_material_name == first.name
    request.live_material_id = first.id
    assert len((await bed.materials.SearchTranscripts(request)).hits) == 1


async def test_a_search_pages_and_refuses_keywords_without_a_word(bed: Bed) -> None:
    mark = uuid4().hex
    made = [await transcribed(bed, [f"{mark} {number}" for number in range(3)]) for _ in range(2)]
    request = pb.SearchTranscriptsRequest(keywords=mark, page_size=2)
    seen: list[tuple[str, int]] = []
    while True:
        page = await bed.materials.SearchTranscripts(request)
        seen += [(hit.live_material_id, hit.paragraph.index) for hit in page.hits]
        if not page.next_page_token:
            break
        request.page_token = page.next_page_token
    assert seen == [(material.id, number) for material in reversed(made) for number in range(3)]
    empty = pb.SearchTranscriptsRequest(keywords=" ，| ")
    assert (await refusal(bed.materials.SearchTranscripts(empty)))[0] is grpc.StatusCode.INVALID_ARGUMENT


async def test_a_transcript_is_exported_in_each_format_under_a_safe_name(bed: Bed) -> None:
    material = await transcribed(bed, ["利率下降", "债券上涨"], name=f"-a/b:{uuid4().hex}")
    info, text = await exported(bed, material.id, pb.EXPORT_FORMAT_SRT)
    assert info.file_name == f"a_b_{material.name[-32:]}.srt"
    assert "2\n00:00:01,000 --> 00:00:01,900\n债券上涨\n" in text
    info, text = await exported(bed, material.id, pb.EXPORT_FORMAT_UNSPECIFIED)
    assert (info.content_type, text.splitlines()[2]) == ("text/plain; charset=utf-8", "## 话题")
    _, text = await exported(bed, material.id, pb.EXPORT_FORMAT_JSON)
    assert [item["raw_text"] for item in json.loads(text)["utterances"]] == ["raw 利率下降", "raw 债券上涨"]
    _, text = await exported(bed, material.id, pb.EXPORT_FORMAT_VTT)
    assert text.startswith("WEBVTT")
    plain = await bed.material(skip=True)
    call = exported(bed, plain.id, pb.EXPORT_FORMAT_SRT)
    assert await refusal(call) == (grpc.StatusCode.FAILED_PRECONDITION, "NO_TRANSCRIPT")


async def record(bed: Bed, material_id: str, version: int = 0) -> list[pb.GetDebugRecordResponse]:
    request = pb.GetDebugRecordRequest(live_material_id=material_id, asr_version=version)
    async with reading(bed.materials.GetDebugRecord(request)) as stream:
        return [answer async for answer in stream]


async def test_a_debug_record_is_read_by_run_and_the_newest_is_the_default(bed: Bed) -> None:
    material = await bed.material()
    task = await bed.claim(material.asr_task_id)
    version = (await bed.begin(material, task.version)).asr_version
    await bed.fail(material.id, version, "ENGINE_FAILED", retryable=True)
    await bed.finish(task, failed="x", retryable=True)
    again = await bed.claim(material.asr_task_id)
    second = (await bed.begin(material, again.version)).asr_version
    for stage in ("002_asr_raw", "001_prepare"):
        await bed.store.put_bytes(f"staging/asr/{material.id}/{second}/{stage}.json", f'"{stage}"'.encode())
    answers = await record(bed, material.id)
    runs = answers[0].runs
    assert [run.asr_version for run in runs.runs] == [second, version]
    assert runs.asr_version == second
    assert runs.runs[1].outcome == debug_record_pb2.DEBUG_OUTCOME_FAILED
    assert [(answer.stage.name, answer.stage.chunk) for answer in answers[1:]] == [
        ("001_prepare", b'"001_prepare"'),
        ("002_asr_raw", b'"002_asr_raw"'),
    ]
    assert len(await record(bed, material.id, version)) == 1
    assert (await refusal(record(bed, material.id, 99)))[1] == "DEBUG_RUN_NOT_FOUND"
    assert await refusal(record(bed, str(uuid4()))) == MATERIAL_NOT_FOUND


async def test_a_run_that_died_is_shown_failed_and_only_the_current_one_running(bed: Bed) -> None:
    running, failed = debug_record_pb2.DEBUG_OUTCOME_RUNNING, debug_record_pb2.DEBUG_OUTCOME_FAILED
    material = await bed.material()
    task = await bed.claim(material.asr_task_id)
    dead = (await bed.begin(material, task.version)).asr_version
    pin = pb.PinDebugRecordRequest(live_material_id=material.id, asr_version=dead)
    assert (await bed.materials.PinDebugRecord(pin)).run.outcome == running
    await bed.finish(task, released=True)
    again = await bed.claim(material.asr_task_id)
    current = (await bed.begin(material, again.version)).asr_version
    shown = {run.asr_version: run.outcome for run in (await record(bed, material.id))[0].runs.runs}
    assert shown == {current: running, dead: failed}
    assert (await bed.materials.PinDebugRecord(pin)).run.outcome == failed


async def test_the_clean_up_removes_old_records_and_leaves_pinned_ones(bed: Bed, database: Database) -> None:
    old, pinned, newest = [await transcribed(bed, ["好"]) for _ in range(3)]
    for material in (old, pinned, newest):
        await bed.store.put_bytes(f"staging/asr/{material.id}/1/005_result.json", b"{}" * 100)
    pin = pb.PinDebugRecordRequest(live_material_id=pinned.id, asr_version=1)
    assert (await bed.materials.PinDebugRecord(pin)).run.pinned

    cleanup = DebugCleanup(database, bed.store, interval_seconds=60, newest=1, total_bytes=1 << 30)
    await cleanup.step()
    assert [await _exists(bed, material.id) for material in (old, pinned, newest)] == [False, True, True]

    pin.unpin = True
    assert not (await bed.materials.PinDebugRecord(pin)).run.pinned
    await cleanup.step()
    assert [await _exists(bed, material.id) for material in (pinned, newest)] == [False, True]
    pin.live_material_id = old.id
    assert (await refusal(bed.materials.PinDebugRecord(pin)))[1] == "DEBUG_RUN_NOT_FOUND"


async def _exists(bed: Bed, material_id: str) -> bool:
    return await bed.store.head(f"staging/asr/{material_id}/1/005_result.json") is not None
