"""kill -9 at every stage of a run: the next one ends as an unbroken run does, and no chunk is done twice."""

import asyncio
import hashlib
import importlib
from functools import partial
from multiprocessing.process import BaseProcess
from multiprocessing.synchronize import Event
from pathlib import Path

import pytest
from frontrow.asr.v1 import live_material_service_pb2 as pb

from libs.common.surroundings import WorkerSurroundings
from libs.common.testing import eventually
from services.asr.worker.mount import AsrWorker
from services.asr.worker.settings import AsrWorkerSettings
from tests import forked
from tests.integration.asr.bed import COMPLETED, Bed
from tests.integration.asr.scripted_engine import Scripted
from tests.integration.asr.web import site
from tests.integration.asr.workers import finished, worker_settings

pytestmark = pytest.mark.timeout(300)

# Where the worker stops dead: after so many calls of a method; and the chunks (of two) that are left then.
STAGES = {
    "services.asr.worker.peers:AsrPeer.begin:1": 2,
    "services.asr.worker.peers:AsrPeer.save_piece:1": 2,
    "services.asr.worker.peers:AsrPeer.finish_fetch:1": 2,
    "services.asr.worker.debug_record:DebugRecord.write:1": 2,
    "services.asr.worker.peers:AsrPeer.save_part:1": 1,
    "services.asr.worker.peers:AsrPeer.save_part:2": 0,
    "services.asr.worker.summaries:Summarizer.summarize:1": 0,
    "services.asr.worker.peers:AsrPeer.complete:1": 0,
}


def run_until_killed(common: WorkerSurroundings, scratch: Path, place: str, hanging: Event) -> None:
    """Work until the place is reached, then hang for ever."""
    module, name, count = place.split(":")
    class_name, method = name.split(".")
    owner = getattr(importlib.import_module(module), class_name)
    original, left = getattr(owner, method), [int(count)]

    async def then_hang(*arguments: object, **named: object) -> object:
        answer = await original(*arguments, **named)
        left[0] -= 1
        if left[0] == 0:
            hanging.set()
            await asyncio.Event().wait()
        return answer

    setattr(owner, method, then_hang)

    async def main() -> None:
        await AsrWorker(_settings(scratch), common, engine=Scripted()).start()
        await asyncio.Event().wait()

    asyncio.run(main())


async def hung(bed: Bed, scratch: Path, place: str) -> BaseProcess:
    """Start a worker process and wait until it hangs at the place."""
    hanging = forked.context().Event()
    common = WorkerSurroundings(bed.common.transport, bed.common.peers, bed.common.store)
    process = forked.start(run_until_killed, common, scratch, place, hanging)
    await eventually(lambda: hanging.is_set() or not process.is_alive(), 120)
    assert process.is_alive()
    return process


async def hash_of(bed: Bed, material_id: str) -> str:
    """Hash what a transcript says, whoever's it is and whenever it was made."""
    digest = hashlib.sha256()
    for answer in await bed.transcript(material_id):
        if answer.WhichOneof("item") != "header":
            digest.update(answer.SerializeToString(deterministic=True))
    return digest.hexdigest()


async def test_a_run_that_was_killed_anywhere_is_ended_by_the_next_one_as_if_nothing_had_happened(
    bed: Bed, short: bytes, tmp_path: Path
) -> None:
    async with site(short) as served:
        killed = {}
        for place in STAGES:
            request = pb.CreateLiveMaterialRequest(name=place, media_url=served.url)
            killed[place] = (await bed.materials.CreateLiveMaterial(request)).live_material
        # each takes one of the tasks, whichever
        processes = await asyncio.gather(*(hung(bed, tmp_path, place) for place in STAGES))
        for process in processes:
            process.kill()
            await asyncio.to_thread(process.join)
        engine, unbroken = Scripted(), await bed.material(short)
        worker = AsrWorker(_settings(tmp_path), bed.common, engine=engine)
        await worker.start()
        for material in [*killed.values(), unbroken]:
            await bed.until(material.id, COMPLETED, seconds=60)
            await eventually(partial(finished, bed, material))
        await worker.stop()
    wanted = await hash_of(bed, unbroken.id)
    assert {await hash_of(bed, material.id) for material in killed.values()} == {wanted}
    assert engine.calls == sum(STAGES.values()) + 2
    assert await asyncio.to_thread(lambda: list(tmp_path.glob("asr-*"))) == []


def _settings(scratch: Path) -> AsrWorkerSettings:
    settings = worker_settings(scratch)
    return settings.model_copy(
        update={"fetch": settings.fetch.model_copy(update={"allow_loopback": True, "piece_bytes": 1 << 16})}
    )
