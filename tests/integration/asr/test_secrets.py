"""What a server throws back at us, keys and signed addresses, is in no row, no task and no record."""

import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import pytest
from aiohttp import web
from frontrow.asr.v1 import live_material_service_pb2 as pb
from frontrow.task.v1 import task_pb2, task_service_pb2
from pydantic import SecretStr

from libs.common.testing import eventually
from services.asr.worker.debug_record import DebugRecord
from services.asr.worker.engine import Engine, EngineFailed
from services.asr.worker.engine_settings import RemoteEngineSettings
from services.asr.worker.mount import AsrWorker
from services.asr.worker.remote_engine import RemoteEngine
from services.asr.worker.speech import Segment, Span
from tests import http_server
from tests.integration.asr.bed import FAILED, Bed
from tests.integration.asr.workers import has_stage, stages, worker_settings

KEY = "canary-key-of-the-engine"
SIGNED = "http://host/live.mp4?X-Amz-Signature=TOPSECRET"


class Chained:
    """An engine whose failure has a cause that names a signed address."""

    async def name(self) -> str:
        return "chained"

    async def transcribe(
        self, wav: Path, span: Span, on_position: Callable[[int], None]
    ) -> tuple[str, list[Segment]]:
        raise EngineFailed(f"no answer of {SIGNED}") from TimeoutError(f"timeout to host {SIGNED}")

    async def close(self) -> None:
        """Leave nothing."""


@asynccontextmanager
async def echoing(status: int) -> AsyncIterator[RemoteEngine]:
    """Give an engine whose server says with every refusal what it was sent."""

    async def refuse(request: web.Request) -> web.Response:
        await request.read()
        return web.Response(
            status=status, text=f"{'x' * 170} {request.headers['Authorization']} is too short"
        )

    application = web.Application(client_max_size=1 << 26)
    application.router.add_post("/v1/audio/transcriptions", refuse)
    runner = web.AppRunner(application)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    url = f"http://127.0.0.1:{runner.addresses[0][1]}/v1"
    try:
        yield RemoteEngine(RemoteEngineSettings(url=url, api_key=SecretStr(KEY)))
    finally:
        await http_server.stop(runner)


@pytest.mark.timeout(120)
async def test_a_wrong_key_charges_nobody_and_the_editor_reads_what_is_wrong(
    bed: Bed, shortest: bytes, tmp_path: Path
) -> None:
    async with echoing(401) as engine:
        worker = AsrWorker(worker_settings(tmp_path), bed.common, engine=engine)
        await worker.start()
        material = await bed.material(shortest)

        async def denied() -> bool:
            row = await bed.read(material.id)
            assert row.asr_error_reason == "ENGINE_DENIED"
            assert "check its address and its key" in row.asr_error
            assert "canary" not in row.asr_error
            # a version is skipped where nobody looked between a run's end and the next claim
            failures = [key for key in await stages(bed, material.id) if key.endswith("/999_fail.json")]
            assert len(failures) > 1, "it is tried again"
            return True

        try:
            await eventually(denied, 60)
            request = task_service_pb2.GetTaskRequest(task_id=material.asr_task_id)
            assert (await bed.tasks.GetTask(request)).task.attempt <= 1
        finally:
            await worker.stop()
            await engine.close()
    await bed.materials.CancelTranscription(pb.CancelTranscriptionRequest(live_material_id=material.id))


async def failed(bed: Bed, engine: Engine, content: bytes, scratch: Path) -> str:
    """Let a recording fail for good; return all that is kept of it."""
    worker = AsrWorker(worker_settings(scratch), bed.common, engine=engine)
    await worker.start()
    try:
        material = await bed.material(content)
        row = await bed.until(material.id, FAILED, seconds=60)
        assert row.asr_error_reason == "ENGINE_FAILED"
        await eventually(partial(has_stage, bed, material.id, "/1/999_fail.json"), 30)

        async def noted() -> task_pb2.Task:
            request = task_service_pb2.BatchGetTasksRequest(task_ids=[material.asr_task_id])
            (task,) = (await bed.tasks.BatchGetTasks(request)).tasks
            assert task.error_message
            return task

        task = await eventually(noted, 30)
    finally:
        await worker.stop()
    keys = [key async for key in bed.store.list(f"staging/asr/{material.id}/")]
    kept = [(await bed.store.get_bytes(key)).decode() for key in keys]
    return "\n".join([str(row), str(task), *kept])


@pytest.mark.timeout(300)
async def test_neither_key_nor_signature_is_kept_with_a_failure(
    bed: Bed, shortest: bytes, tmp_path: Path
) -> None:
    chained = await failed(bed, Chained(), shortest, tmp_path / "one")
    assert "host/live.mp4" in chained
    assert "TOPSECRET" not in chained
    async with echoing(400) as engine:
        echoed = await failed(bed, engine, shortest, tmp_path / "two")
        await engine.close()
    assert "refused with 400" in echoed
    assert "canary" not in echoed


async def test_a_record_holds_no_secret_wherever_it_stands(bed: Bed) -> None:
    record = DebugRecord(bed.store, "m", 7, enabled=True)
    await record.write("003_llm_summaries", {"llm_error": SIGNED, "spans": [Span(1, 2, 3)]})
    content = json.loads(await bed.store.get_bytes("staging/asr/m/7/003_llm_summaries.json"))
    assert content["llm_error"] == "http://host/live.mp4?[redacted]"
    assert content["spans"] == [{"index": 1, "start_ms": 2, "end_ms": 3}]
