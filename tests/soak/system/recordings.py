"""Recordings on their way from an upload or an address to clips, as editors bring them."""

from __future__ import annotations

import asyncio
import random
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import grpc.aio
from frontrow.asr.v1 import live_material_pb2, video_project_pb2
from frontrow.asr.v1 import live_material_service_pb2 as pb
from frontrow.asr.v1 import video_project_service_pb2 as projects
from frontrow.task.v1 import task_service_pb2

from libs.common.client import error_info, reading
from tests.integration.asr.bed import messages
from tests.soak.ingest.fleet import ACTOR
from tests.soak.system.fleet import SystemFleet

T = TypeVar("T")
SECONDS = 8
CALL_SECONDS, PAUSE_SECONDS = 10.0, 0.5
PASSING = {
    grpc.StatusCode.UNAVAILABLE,
    grpc.StatusCode.DEADLINE_EXCEEDED,
    grpc.StatusCode.CANCELLED,
    grpc.StatusCode.RESOURCE_EXHAUSTED,
}
OPEN = {live_material_pb2.ASR_STATUS_PENDING, live_material_pb2.ASR_STATUS_PROCESSING}
WITH_DRAFT = video_project_pb2.VIDEO_PROJECT_MODE_AI_SLICE_DRAFT


@dataclass
class Recording:
    """One recording: what it came to so far, and how often a person had to start it again."""

    name: str
    url: str
    with_draft: bool
    material_id: str = ""
    project_id: str = ""
    run_again: int = 0


class Editors:
    """Bring recordings in at an even pace and follow each to its clips, through whatever happens."""

    def __init__(self, fleet: SystemFleet, content: bytes, site_url: str, chance: random.Random) -> None:
        self._fleet = fleet
        self._content = content
        self._site_url = site_url
        self._chance = chance
        self.recordings: list[Recording] = []

    async def bring_first(self) -> None:
        """Bring the one that nothing befalls: what becomes of it is the model of all others."""
        await self._follow(self._next())

    async def bring(self, count: int, every_seconds: float) -> None:
        """Bring so many recordings; return when each has its clips."""
        brought = []
        for _ in range(count):
            brought.append(asyncio.create_task(self._follow(self._next())))
            await asyncio.sleep(every_seconds)
        await asyncio.gather(*brought)

    def _next(self) -> Recording:
        url = self._site_url if self._chance.random() < 0.5 else ""
        draft = self._chance.random() < 0.5
        recording = Recording(f"录播 {len(self.recordings)}", url, with_draft=draft)
        self.recordings.append(recording)
        return recording

    async def _follow(self, recording: Recording) -> None:
        await self._create(recording)
        material = await self._transcribed(recording)
        assert material.duration_ms > (SECONDS - 2) * 1_000, material
        request = projects.CreateVideoProjectRequest(
            live_material_id=recording.material_id, name=recording.name, request_id=str(uuid.uuid4()),
            mode=WITH_DRAFT if recording.with_draft else video_project_pb2.VIDEO_PROJECT_MODE_AI_SLICE,
        )  # fmt: skip
        made = await self.answered(lambda: self._fleet.projects.CreateVideoProject(request, **_CALL))
        recording.project_id = made.video_project.id
        await self._sliced(recording)

    async def _create(self, recording: Recording) -> None:
        request = pb.CreateLiveMaterialRequest(name=recording.name, request_id=str(uuid.uuid4()))
        if recording.url:
            request.media_url = recording.url
        else:
            request.upload_id = await self.answered(self._upload)
        made = await self.answered(lambda: self._fleet.materials.CreateLiveMaterial(request, **_CALL))
        recording.material_id = made.live_material.id

    async def _upload(self) -> str:
        answer = await self._fleet.materials.UploadMedia(messages(self._content), **_CALL)
        assert answer.upload.finished, answer
        return str(answer.upload.upload_id)

    async def _transcribed(self, recording: Recording) -> live_material_pb2.LiveMaterial:
        request = pb.GetLiveMaterialRequest(live_material_id=recording.material_id)
        while True:
            answer = await self.answered(lambda: self._fleet.materials.GetLiveMaterial(request, **_CALL))
            material = answer.live_material
            if material.asr_status == live_material_pb2.ASR_STATUS_COMPLETED:
                return material
            if material.asr_status not in OPEN:
                assert material.asr_error_reason == "ABANDONED", f"nothing is wrong with it: {material}"
                await self._again(recording, material.asr_task_id)
            await asyncio.sleep(PAUSE_SECONDS)

    async def _sliced(self, recording: Recording) -> None:
        request = projects.GetVideoProjectRequest(video_project_id=recording.project_id)
        while True:
            answer = await self.answered(lambda: self._fleet.projects.GetVideoProject(request, **_CALL))
            project = answer.video_project
            if project.status == video_project_pb2.VIDEO_PROJECT_STATUS_COMPLETED:
                assert project.clip_count > 0, project
                return
            if project.status == video_project_pb2.VIDEO_PROJECT_STATUS_FAILED:
                assert project.error_reason == "ABANDONED", f"nothing is wrong with it: {project}"
                await self._again(recording, project.slice_task_id)
            await asyncio.sleep(PAUSE_SECONDS)

    async def _again(self, recording: Recording, task_id: str) -> None:
        """Let a run begin again that was given up as killed too often, as a person does."""
        recording.run_again += 1
        request = task_service_pb2.RetryTaskRequest(task_id=task_id)
        try:
            await self.answered(lambda: self._fleet.tasks.RetryTask(request, **_CALL))
        except grpc.aio.AioRpcError as error:
            if error_info(error).reason != "TASK_NOT_RETRYABLE":  # an earlier try was heard
                raise

    async def answered(self, call: Callable[[], Awaitable[T]]) -> T:
        """Make a call until it is answered; a refusal that waiting won't mend is raised."""
        while True:
            try:
                return await call()
            except grpc.aio.AioRpcError as error:
                if error.code() not in PASSING:
                    raise
            await asyncio.sleep(PAUSE_SECONDS)

    async def check(self) -> int:
        """Check every transcript, clip and draft by its bytes; return how many clips there are."""
        clips, wanted = 0, await self._heard(self.recordings[0])
        assert len("".join(wanted)) >= 4 * (SECONDS - 2)
        for recording in self.recordings:
            assert await self._heard(recording) == wanted, recording
            clips += await self._check_clips(recording)
        names = [recording.name for recording in self.recordings]
        listed = [material.name async for material in self._all_materials()]
        assert sorted(listed) == sorted(names), "recordings were lost or came twice"
        return clips

    async def _heard(self, recording: Recording) -> list[str]:
        request = pb.GetTranscriptRequest(live_material_id=recording.material_id)
        async with reading(self._fleet.materials.GetTranscript(request, **_CALL)) as answers:
            return [item.text async for answer in answers for item in answer.utterances.utterances]

    async def _check_clips(self, recording: Recording) -> int:
        asked = projects.ListClipsRequest(video_project_id=recording.project_id)
        found = (await self._fleet.projects.ListClips(asked, **_CALL)).clips
        assert found, recording
        for clip in found:
            assert clip.end_ms > clip.start_ms, clip
            assert await self._downloaded(clip_id=clip.id) == clip.size_bytes, clip
        if recording.with_draft:
            one = projects.GetVideoProjectRequest(video_project_id=recording.project_id)
            project = (await self._fleet.projects.GetVideoProject(one, **_CALL)).video_project
            assert await self._downloaded(editing_draft_id=project.editing_draft_id) > 0
        return len(found)

    async def _downloaded(self, **target: str) -> int:
        request = projects.DownloadMediaRequest(**target)
        async with reading(self._fleet.projects.DownloadMedia(request, **_CALL)) as answers:
            return sum([len(answer.chunk) async for answer in answers])

    async def _all_materials(self) -> AsyncIterator[live_material_pb2.LiveMaterial]:
        request = pb.ListLiveMaterialsRequest(page_size=200)
        while True:
            page = await self._fleet.materials.ListLiveMaterials(request, **_CALL)
            for material in page.live_materials:
                yield material
            if not page.next_page_token:
                return
            request.page_token = page.next_page_token


_CALL: dict[str, Any] = {"timeout": CALL_SECONDS, "metadata": ACTOR}
