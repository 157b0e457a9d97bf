"""Part two: a recording is uploaded, transcribed, split into topics, and cut into clips."""

import difflib
import re
from collections.abc import Sequence
from pathlib import Path

from frontrow.asr.v1 import (
    clip_pb2,
    live_material_pb2,
    live_material_service_pb2,
    live_material_service_pb2_grpc,
    transcript_pb2,
    video_project_pb2,
    video_project_service_pb2,
    video_project_service_pb2_grpc,
)
from frontrow.task.v1 import task_pb2
from rich.progress import Progress

from cli.upload import upload_recording
from demo.instance import ROOT, Instance
from demo.report import Deviation, Report
from demo.watching import wait_for_task
from libs.common.client import reading

SAMPLE = ROOT / "samples" / "live_zh.mp4"
SCRIPT = ROOT / "samples" / "speech" / "zh_live_script.txt"
_SECONDS = 20.0
_LEAST_LIKENESS = 0.75  # of the characters; the small model on this machine reaches about 0.9
_NOT_SPOKEN = re.compile(r"[\W_]+")


async def upload(instance: Instance, report: Report, progress: Progress) -> live_material_pb2.LiveMaterial:
    """Upload the sample as an editor does and create the material, which asks for its transcription."""
    bar = progress.add_task("upload", total=SAMPLE.stat().st_size)
    with report.timed("recording: uploaded"):
        channel = instance.channel("asr")
        upload_id = await upload_recording(channel, SAMPLE, lambda sent: progress.update(bar, completed=sent))
        stub = live_material_service_pb2_grpc.LiveMaterialServiceStub(channel)
        request = live_material_service_pb2.CreateLiveMaterialRequest(
            name="财经直播 demo", upload_id=upload_id, request_id=upload_id
        )
        return (await stub.CreateLiveMaterial(request, timeout=_SECONDS)).live_material


async def transcribed(
    instance: Instance, material_id: str, report: Report, progress: Progress
) -> live_material_pb2.LiveMaterial:
    """Wait for the transcription's task; check the task, the material and the transcript."""
    stub = live_material_service_pb2_grpc.LiveMaterialServiceStub(instance.channel("asr"))
    asked = live_material_service_pb2.GetLiveMaterialRequest(live_material_id=material_id)
    material = (await stub.GetLiveMaterial(asked, timeout=_SECONDS)).live_material
    with report.timed("recording: transcribed, topics and paragraphs made"):
        task = await wait_for_task(instance, material.asr_task_id, progress)
    report.check(
        "the transcription's task was claimed and completed",
        ("asr", task_pb2.TASK_STATUS_COMPLETED, 100, ""),
        (task.type, task.status, task.progress, task.error_message),
    )
    material = (await stub.GetLiveMaterial(asked, timeout=_SECONDS)).live_material
    report.check("the material is transcribed", live_material_pb2.ASR_STATUS_COMPLETED, material.asr_status)
    report.check_that(
        "its length is that of the sample (119.7 s)",
        abs(material.duration_ms - 119_700) < 300,
        material.duration_ms,
    )
    await check_transcript(instance, material_id, report)
    return material


async def check_transcript(instance: Instance, material_id: str, report: Report) -> None:
    """Compare the transcript with what was really said, and check topics and paragraphs."""
    header, topics, paragraphs, utterances = await _transcript(instance, material_id)
    said = _NOT_SPOKEN.sub("", SCRIPT.read_text(encoding="utf-8"))
    heard = _NOT_SPOKEN.sub("", "".join(utterance.text for utterance in utterances))
    likeness = difflib.SequenceMatcher(None, said, heard, autojunk=False).ratio()
    report.check_that(
        f"at least {_LEAST_LIKENESS:.0%} of what was said was understood",
        likeness >= _LEAST_LIKENESS,
        likeness,
    )
    in_paragraphs = [
        index
        for paragraph in paragraphs
        for index in range(paragraph.first_utterance, paragraph.first_utterance + paragraph.utterance_count)
    ]
    report.check(
        "every utterance is in exactly one paragraph", [u.index for u in utterances], sorted(in_paragraphs)
    )
    longest = max((len(paragraph.text) for paragraph in paragraphs), default=0)
    report.check_that("no paragraph is longer than 200 characters", 0 < longest <= 200, longest)
    report.check_that("the four subjects make 3 to 6 topics", 3 <= len(topics) <= 6, len(topics))
    report.check_that("every topic has a title", all(topic.title for topic in topics), len(topics))
    report.note(
        "transcript",
        f"{len(utterances)} utterances, {len(paragraphs)} paragraphs, {likeness:.0%} like the script, "
        f"by {header.engine}",
    )
    report.note("topics", f"{' · '.join(topic.title for topic in topics)} (by {header.summaries_source})")


async def _transcript(
    instance: Instance, material_id: str
) -> tuple[
    live_material_service_pb2.TranscriptHeader,
    list[transcript_pb2.Topic],
    list[transcript_pb2.Paragraph],
    list[transcript_pb2.Utterance],
]:
    """Read the whole stream."""
    header = live_material_service_pb2.TranscriptHeader()
    topics: list[transcript_pb2.Topic] = []
    paragraphs: list[transcript_pb2.Paragraph] = []
    utterances: list[transcript_pb2.Utterance] = []
    stub = live_material_service_pb2_grpc.LiveMaterialServiceStub(instance.channel("asr"))
    request = live_material_service_pb2.GetTranscriptRequest(live_material_id=material_id, skip_words=True)
    async with reading(stub.GetTranscript(request, timeout=_SECONDS)) as answers:
        async for answer in answers:
            if answer.HasField("header"):
                header = answer.header
            topics += answer.topics.topics
            paragraphs += answer.paragraphs.paragraphs
            utterances += answer.utterances.utterances
    return header, topics, paragraphs, utterances


async def sliced(
    instance: Instance, material: live_material_pb2.LiveMaterial, report: Report, progress: Progress
) -> Sequence[clip_pb2.Clip]:
    """Create a project over the whole recording and wait for its clips."""
    stub = video_project_service_pb2_grpc.VideoProjectServiceStub(instance.channel("asr"))
    request = video_project_service_pb2.CreateVideoProjectRequest(
        live_material_id=material.id,
        name="demo clips",
        mode=video_project_pb2.VIDEO_PROJECT_MODE_AI_SLICE,
        request_id=f"demo-{material.id}",
    )
    project = (await stub.CreateVideoProject(request, timeout=_SECONDS)).video_project
    with report.timed("recording: sliced into clips"):
        task = await wait_for_task(instance, project.slice_task_id, progress)
    report.check(
        "the slicing task was claimed and completed",
        ("ai_slice", task_pb2.TASK_STATUS_COMPLETED, ""),
        (task.type, task.status, task.error_message),
    )
    asked = video_project_service_pb2.GetVideoProjectRequest(video_project_id=project.id)
    project = (await stub.GetVideoProject(asked, timeout=_SECONDS)).video_project
    report.check("the project is completed", video_project_pb2.VIDEO_PROJECT_STATUS_COMPLETED, project.status)
    query = video_project_service_pb2.ListClipsRequest(video_project_id=project.id, page_size=100)
    clips = (await stub.ListClips(query, timeout=_SECONDS)).clips
    report.check("the project counts its clips", len(clips), project.clip_count)
    if not clips:
        raise Deviation("the project completed without clips")
    return clips


async def download(instance: Instance, clip_id: str, target: Path) -> None:
    """Download one clip into a file."""
    stub = video_project_service_pb2_grpc.VideoProjectServiceStub(instance.channel("asr"))
    request = video_project_service_pb2.DownloadMediaRequest(clip_id=clip_id)
    target.parent.mkdir(parents=True, exist_ok=True)
    with target.open("wb") as file:
        async with reading(stub.DownloadMedia(request, timeout=60.0)) as answers:
            async for answer in answers:
                file.write(answer.chunk)
