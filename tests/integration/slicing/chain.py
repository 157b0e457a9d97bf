"""A task server, an asr server and slicing workers, together."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path

import grpc.aio
from frontrow.asr.v1 import clip_pb2, video_project_pb2, video_project_service_pb2
from frontrow.task.v1 import task_pb2, task_service_pb2, task_service_pb2_grpc

from libs.common.client import reading
from libs.common.loops import Loop
from libs.common.settings import CommonSettings
from libs.common.testing import eventually
from services.asr.slicing.mount import build_worker
from services.asr.slicing.settings import SlicingWorkerSettings
from tests.integration.slicing.asr_server import Asr


@dataclass
class Chain:
    """A task server, an asr server, and what a worker needs to find them."""

    asr: Asr
    tasks: task_service_pb2_grpc.TaskServiceStub
    common: CommonSettings
    scratch: Path

    def worker(self) -> SlicingLoop:
        return SlicingLoop(build_worker(SlicingWorkerSettings(scratch=self.scratch), self.common))

    def environment(self) -> dict[str, str]:
        """Return the settings of a worker in a process of its own."""
        return {
            "FRONTROW_TASK_ADDRESS": self.common.peers.task_address,
            "FRONTROW_ASR_ADDRESS": self.common.peers.asr_address,
            "FRONTROW_OBJECT_STORE": self.common.store.object_store,
            "FRONTROW_SLICING_SCRATCH": str(self.scratch),
            "FRONTROW_SLICING_LISTEN": "127.0.0.1:0",
        }

    async def finished(self, project: video_project_pb2.VideoProject) -> video_project_pb2.VideoProject:
        ended = (
            video_project_pb2.VIDEO_PROJECT_STATUS_COMPLETED,
            video_project_pb2.VIDEO_PROJECT_STATUS_FAILED,
        )

        async def look() -> video_project_pb2.VideoProject | None:
            found = await self.asr.reread(project)
            return found if found.status in ended else None

        found = await eventually(look, timeout_seconds=60)
        assert found is not None
        return found

    async def task(self, project: video_project_pb2.VideoProject) -> task_pb2.Task:
        request = task_service_pb2.GetTaskRequest(task_id=project.slice_task_id)
        return (await self.tasks.GetTask(request)).task

    async def task_in(self, project: video_project_pb2.VideoProject, *statuses: int) -> None:
        async def look() -> bool:
            try:
                return (await self.task(project)).status in statuses
            except grpc.aio.AioRpcError:
                return False  # the relay hasn't brought it yet

        await eventually(look, timeout_seconds=20)

    async def clips(self, project: video_project_pb2.VideoProject) -> list[clip_pb2.Clip]:
        request = video_project_service_pb2.ListClipsRequest(video_project_id=project.id)
        return list((await self.asr.projects.ListClips(request)).clips)

    async def stored(self, project: video_project_pb2.VideoProject) -> list[str]:
        return sorted([key async for key in self.asr.store.list(f"clips/{project.id}/")])

    async def drafts(self, project: video_project_pb2.VideoProject) -> list[str]:
        return sorted([key async for key in self.asr.store.list(f"drafts/{project.id}/")])

    async def download(self, path: Path, **target: object) -> Path:
        request = video_project_service_pb2.DownloadMediaRequest(**target)
        async with reading(self.asr.projects.DownloadMedia(request)) as answers:
            content = b"".join([answer.chunk async for answer in answers])
        await asyncio.to_thread(path.write_bytes, content)
        return path


class SlicingLoop:
    """A worker that runs inside a block."""

    def __init__(self, loop: Loop) -> None:
        self._loop = loop

    async def __aenter__(self) -> None:
        await self._loop.start()

    async def __aexit__(self, *exc: object) -> None:
        await self._loop.stop()
