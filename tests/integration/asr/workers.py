"""Workers of the asr tests: the real engine, counted, and the settings of workers here and of processes."""

import asyncio
from collections.abc import Callable
from pathlib import Path

from frontrow.asr.v1 import live_material_pb2
from frontrow.task.v1 import task_pb2, task_service_pb2

from services.asr.media import ffmpeg
from services.asr.worker.engine import Engine
from services.asr.worker.fetch_settings import FetchSettings
from services.asr.worker.settings import AsrWorkerSettings
from services.asr.worker.speech import Segment, Span
from tests.integration.asr.bed import SAMPLES, Bed

# Seconds on a free machine; the limits are for one that tests run beside each other on.
ENGINE_SECONDS = 240.0
MODELS = Path(__file__).resolve().parents[3] / "var" / "models"


class Counting:
    """The real engine, counted."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.spans: list[Span] = []

    async def name(self) -> str:
        return await self._engine.name()

    async def transcribe(
        self, wav: Path, span: Span, on_position: Callable[[int], None]
    ) -> tuple[str, list[Segment]]:
        self.spans.append(span)
        return await self._engine.transcribe(wav, span, on_position)

    async def close(self) -> None:
        """Keep the engine warm for the next test."""


async def first_seconds(folder: Path, seconds: int) -> bytes:
    out = folder / "cut.mp4"
    cut = (*ffmpeg.source(SAMPLES / "live_zh.mp4"), "-t", str(seconds), "-c", "copy", ffmpeg.target(out))
    await ffmpeg.run(cut, timeout_seconds=60)
    return await asyncio.to_thread(out.read_bytes)


def worker_settings(scratch: Path) -> AsrWorkerSettings:
    return AsrWorkerSettings(
        concurrency=1,
        model_cache=MODELS,
        scratch_dir=scratch,
        chunk_seconds=10,
        cut_window_seconds=5,
        beam_size=1,
        fetch=FetchSettings(allow_loopback=True, piece_bytes=1 << 16),
    )


async def stages(bed: Bed, material_id: str) -> list[str]:
    return sorted(
        [key.partition(material_id)[2] async for key in bed.store.list(f"staging/asr/{material_id}/")]
    )


async def task_status(bed: Bed, material: live_material_pb2.LiveMaterial) -> task_pb2.TaskStatus.ValueType:
    request = task_service_pb2.BatchGetTasksRequest(task_ids=[material.asr_task_id])
    return next(task.status for task in (await bed.tasks.BatchGetTasks(request)).tasks)


async def has_stage(bed: Bed, material_id: str, stage: str) -> bool:
    return stage in await stages(bed, material_id)


async def has_status(
    bed: Bed, material: live_material_pb2.LiveMaterial, status: task_pb2.TaskStatus.ValueType
) -> bool:
    return await task_status(bed, material) == status


async def finished(bed: Bed, material: live_material_pb2.LiveMaterial) -> bool:
    return await task_status(bed, material) == task_pb2.TASK_STATUS_COMPLETED


def environment(bed: Bed, scratch: Path) -> dict[str, str]:
    """Return the settings of a worker process like `worker_settings`, and where its peers are."""
    settings, worker = worker_settings(scratch), "FRONTROW_ASR_WORKER"
    return {
        "FRONTROW_TASK_ADDRESS": bed.common.peers.task_address,
        "FRONTROW_ASR_ADDRESS": bed.common.peers.asr_address,
        "FRONTROW_OBJECT_STORE": bed.common.store.object_store,
        f"{worker}_LISTEN": "127.0.0.1:0",
        f"{worker}_CONCURRENCY": str(settings.concurrency),
        f"{worker}_MODEL_CACHE": str(settings.model_cache),
        f"{worker}_SCRATCH_DIR": str(settings.scratch_dir),
        f"{worker}_CHUNK_SECONDS": str(settings.chunk_seconds),
        f"{worker}_CUT_WINDOW_SECONDS": str(settings.cut_window_seconds),
        f"{worker}_BEAM_SIZE": str(settings.beam_size),
        "FRONTROW_ASR_FETCH_ALLOW_LOOPBACK": str(settings.fetch.allow_loopback),
        "FRONTROW_ASR_FETCH_PIECE_BYTES": str(settings.fetch.piece_bytes),
    }
