"""Servers and workers of the asr context, each a process of its own, and an editor who waits for results."""

from __future__ import annotations

import asyncio
import hashlib
import os
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from uuid import uuid4

import grpc.aio
from frontrow.asr.v1 import (
    live_material_pb2,
    live_material_service_pb2,
    live_material_service_pb2_grpc,
    video_project_pb2,
    video_project_service_pb2,
    video_project_service_pb2_grpc,
)
from frontrow.task.v1 import task_service_pb2, task_service_pb2_grpc
from frontrow.worker import Dial

from libs.common import migrate
from tests.bench import processes
from tests.bench.bed import Bed

MODELS = processes.ROOT / "var" / "models"
LOOK_SECONDS = 0.1
CHUNK_SECONDS = 600
_CHUNK_BYTES = 1 << 20


@dataclass
class Rig:
    """What runs; `servers` and `workers` are processes by name, `channels` lead to asr and task."""

    channels: tuple[grpc.aio.Channel, grpc.aio.Channel]
    servers: dict[str, int] = field(default_factory=dict)
    workers: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        asr, task = self.channels
        self._materials = live_material_service_pb2_grpc.LiveMaterialServiceStub(asr)
        self._projects = video_project_service_pb2_grpc.VideoProjectServiceStub(asr)
        self._tasks = task_service_pb2_grpc.TaskServiceStub(task)

    async def upload(self, path: Path) -> str:
        """Upload a recording; returns the upload's id."""
        content = await asyncio.to_thread(path.read_bytes)
        sha1 = hashlib.sha1(content, usedforsecurity=False).hexdigest()

        async def stream() -> AsyncIterator[live_material_service_pb2.UploadMediaRequest]:
            yield live_material_service_pb2.UploadMediaRequest(
                metadata=live_material_service_pb2.UploadMetadata(
                    size_bytes=len(content), file_name=path.name, sha1=sha1
                )
            )
            for start in range(0, len(content), _CHUNK_BYTES):
                yield live_material_service_pb2.UploadMediaRequest(
                    chunk=content[start : start + _CHUNK_BYTES]
                )

        answer = await self._materials.UploadMedia(stream(), timeout=600)
        return str(answer.upload.upload_id)

    async def material(self, upload_id: str) -> str:
        """Make a material of an upload, which asks for its transcription; returns its id."""
        request = live_material_service_pb2.CreateLiveMaterialRequest(name=f"{uuid4()}", upload_id=upload_id)
        return str((await self._materials.CreateLiveMaterial(request, timeout=30)).live_material.id)

    async def transcribed(
        self, material_id: str, progress: Progress, *, look_seconds: float = LOOK_SECONDS
    ) -> live_material_pb2.LiveMaterial:
        """Wait for a material's transcript and note its progress meanwhile."""
        request = live_material_service_pb2.GetLiveMaterialRequest(live_material_id=material_id)
        while True:
            material = (await self._materials.GetLiveMaterial(request, timeout=30)).live_material
            progress.saw(material.asr_progress)
            if material.asr_status == live_material_pb2.ASR_STATUS_COMPLETED:
                return material
            if material.asr_status == live_material_pb2.ASR_STATUS_FAILED:
                raise RuntimeError(f"{material.asr_error_reason}: {material.asr_error}")
            await asyncio.sleep(look_seconds)

    async def sliced(self, material_id: str, progress: Progress) -> int:
        """Have clips made of all topics and note the progress meanwhile; returns how many."""
        created = await self._projects.CreateVideoProject(
            video_project_service_pb2.CreateVideoProjectRequest(
                live_material_id=material_id, name="clips", mode=video_project_pb2.VIDEO_PROJECT_MODE_AI_SLICE
            ),
            timeout=30,
        )
        request = video_project_service_pb2.GetVideoProjectRequest(video_project_id=created.video_project.id)
        by_id = task_service_pb2.BatchGetTasksRequest(task_ids=[created.video_project.slice_task_id])
        while True:
            for task in (await self._tasks.BatchGetTasks(by_id, timeout=30)).tasks:
                progress.saw(task.progress)
            project = (await self._projects.GetVideoProject(request, timeout=30)).video_project
            if project.status == video_project_pb2.VIDEO_PROJECT_STATUS_COMPLETED:
                return int(project.clip_count)
            if project.status == video_project_pb2.VIDEO_PROJECT_STATUS_FAILED:
                raise RuntimeError(f"{project.error_reason}: {project.error_message}")
            await asyncio.sleep(LOOK_SECONDS)


class Progress:
    """When progress was seen to rise."""

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self._clock = clock
        self._began = clock()
        self._last_at = self._began
        self._percent = 0
        self.first_seconds: float | None = None
        self.gaps: list[tuple[float, int]] = []
        """Seconds without a rise, and the percentage that ended them."""

    def saw(self, percent: int) -> None:
        """Note what is shown now."""
        if percent <= self._percent:
            return
        now = self._clock()
        if self.first_seconds is None:
            self.first_seconds = now - self._began
        else:
            self.gaps.append((now - self._last_at, percent))
        self._percent, self._last_at = percent, now


@asynccontextmanager
async def rig(
    bed: Bed, name: str, *, slicing: bool = False, concurrency: int = 0, chunk_seconds: int = CHUNK_SECONDS
) -> AsyncIterator[Rig]:
    """Run a task server, an asr server and the workers over a fresh database for the length of the block."""
    url = await bed.cluster.make_database(name)
    for context in ("task", "asr"):
        await migrate.upgrade(url, context)
    folder = bed.folder / f"asr-{name}"
    shared = {
        "FRONTROW_OBJECT_STORE": str(folder / "objects"),
        "FRONTROW_ASR_WORKER_SCRATCH_DIR": str(folder / "scratch"),
        "FRONTROW_SLICING_SCRATCH": str(folder / "scratch"),
        "FRONTROW_ASR_WORKER_MODEL_CACHE": str(MODELS),
        "FRONTROW_ASR_WORKER_CONCURRENCY": str(concurrency or os.cpu_count()),
        "FRONTROW_ASR_WORKER_CHUNK_SECONDS": str(chunk_seconds),
        "FRONTROW_ASR_WORKER_LISTEN": processes.free_address(),
        "FRONTROW_SLICING_LISTEN": processes.free_address(),
        "FRONTROW_LOG_LEVEL": "WARNING",
    }
    async with AsyncExitStack() as stack:
        task = await stack.enter_async_context(bed.server(url))
        peers = {"FRONTROW_TASK_ADDRESS": task.address}
        asr = await stack.enter_async_context(bed.server(url, context="asr", **shared, **peers))
        peers["FRONTROW_ASR_ADDRESS"] = asr.address
        channels = [await stack.enter_async_context(Dial(one.address).aio()) for one in (asr, task)]
        made = Rig((channels[0], channels[1]), {"task": task.pid, "asr": asr.pid})
        modules = {"asr-worker": "services.asr.worker"}
        if slicing:
            modules["slicing-worker"] = "services.asr.slicing"
        for worker, module in modules.items():
            process = await stack.enter_async_context(
                processes.program(module, environment={**shared, **peers}, log=bed.folder / f"{worker}.log")
            )
            made.workers[worker] = process.pid
        yield made
