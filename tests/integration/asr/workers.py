"""Workers of the asr tests: the real engine, counted, and a process that dies where a test wants it to."""

import asyncio
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

from frontrow.asr.v1 import live_material_pb2
from frontrow.task.v1 import task_pb2, task_service_pb2

from libs.common.child import command
from services.asr.media import ffmpeg
from services.asr.worker.engine import Engine
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


RUN_UNTIL_KILLED = """
import asyncio, sys
from pathlib import Path
from libs.common.settings import PeerSettings, StoreSettings, TransportSettings
from services.asr.worker import peers
from libs.common.surroundings import WorkerSurroundings
from services.asr.worker.mount import AsrWorker
from services.asr.worker.settings import AsrWorkerSettings

task, asr, store, models, scratch, hang_after = sys.argv[1:]

def hang(original):
    async def then_hang(*arguments, **named):
        await original(*arguments, **named)
        print("HANGING", flush=True)
        await asyncio.Event().wait()
    return then_hang

setattr(peers.AsrPeer, hang_after, hang(getattr(peers.AsrPeer, hang_after)))
common = WorkerSurroundings(TransportSettings(), PeerSettings(task_address=task, asr_address=asr),
                            StoreSettings(object_store=store))
settings = AsrWorkerSettings(concurrency=1, model_cache=Path(models), scratch_dir=Path(scratch),
                             chunk_seconds=10, cut_window_seconds=5, beam_size=1)

async def main():
    await AsrWorker(settings, common).start()
    await asyncio.Event().wait()

asyncio.run(main())
"""


async def kill_after(bed: Bed, material_id: str, scratch: Path, hang_after: str) -> None:
    """Run a worker process that stops dead after one call, and kill it with SIGKILL there."""
    peers, store = bed.common.peers, bed.common.store.object_store
    places = [peers.task_address, peers.asr_address, store, str(MODELS), str(scratch), hang_after]
    process = await asyncio.create_subprocess_exec(
        *command([sys.executable, "-c", RUN_UNTIL_KILLED, *places]),
        stdout=asyncio.subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
    )
    assert process.stdout is not None
    async with asyncio.timeout(ENGINE_SECONDS):
        while b"HANGING" not in await process.stdout.readline():
            pass
    process.send_signal(signal.SIGKILL)
    await process.wait()
