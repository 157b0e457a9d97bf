"""kill -9 at every stage of a run: the next one ends as an unbroken run does, and no chunk is done twice."""

import asyncio
import hashlib
from functools import partial
from pathlib import Path

import pytest
from frontrow.asr.v1 import live_material_service_pb2 as pb

from libs.common.testing import eventually
from services.asr.worker.mount import AsrWorker
from tests.integration.asr.bed import COMPLETED, Bed
from tests.integration.asr.scripted_engine import Scripted
from tests.integration.asr.web import site
from tests.integration.asr.workers import environment, finished, worker_settings
from tests.integration.hanging import hung, kill

pytestmark = pytest.mark.timeout(300)

WORKER = "tests.integration.asr.scripted_worker"

# Where the worker stops dead: after so many calls of a method; and the chunks (of two) that are left then.
STAGES = {
    "services.asr.worker.peers:AsrPeer.begin:1": 2,
    "services.asr.worker.peers:AsrPeer.save_piece:1": 2,
    # the recording is stored, but nobody knows of it
    "libs.common.objects.local:LocalStore.put_file:1": 2,
    "services.asr.worker.peers:AsrPeer.finish_fetch:1": 2,
    "services.asr.media.canonical:make:1": 2,
    "services.asr.media.audio:extract:1": 2,
    # the canonical file is stored
    "libs.common.objects.local:LocalStore.put_file:2": 2,
    "services.asr.worker.debug_record:DebugRecord.write:1": 2,
    "services.asr.worker.peers:AsrPeer.save_part:1": 1,
    "services.asr.worker.peers:AsrPeer.save_part:2": 0,
    "services.asr.worker.summaries:Summarizer.summarize:1": 0,
    "services.asr.worker.peers:AsrPeer.complete:1": 0,
}


async def hash_of(bed: Bed, material_id: str) -> str:
    """Hash what a transcript says, whoever's it is and whenever it was made."""
    digest = hashlib.sha256()
    for answer in await bed.transcript(material_id):
        if answer.WhichOneof("item") != "header":
            digest.update(answer.SerializeToString(deterministic=True))
    return digest.hexdigest()


async def keeps_nothing_twice(bed: Bed, material_id: str) -> bool:
    """Tell whether of all runs' canonical files one is left, and of all originals one each material."""
    keys = [key async for key in bed.store.list("recordings/")]
    canonical = [key for key in keys if key.startswith(f"recordings/{material_id}/")]
    return len(canonical) == 1 and len([key for key in keys if "/original-" in key]) == len(STAGES) + 1


async def test_a_run_that_was_killed_anywhere_is_ended_by_the_next_one_as_if_nothing_had_happened(
    bed: Bed, short: bytes, tmp_path: Path
) -> None:
    async with site(short) as served:
        killed = {}
        for place in STAGES:
            request = pb.CreateLiveMaterialRequest(name=place, media_url=served.url)
            killed[place] = (await bed.materials.CreateLiveMaterial(request)).live_material
        # each takes one of the tasks, whichever
        settings = environment(bed, tmp_path)
        for process in await asyncio.gather(*(hung(WORKER, place, settings) for place in STAGES)):
            await kill(process)
        engine, unbroken = Scripted(), await bed.material(short)
        worker = AsrWorker(worker_settings(tmp_path), bed.common, engine=engine)
        await worker.start()
        for material in [*killed.values(), unbroken]:
            await bed.until(material.id, COMPLETED, seconds=60)
            await eventually(partial(finished, bed, material))
        await worker.stop()
    for material in [*killed.values(), unbroken]:
        await eventually(partial(keeps_nothing_twice, bed, material.id), 30)
    wanted = await hash_of(bed, unbroken.id)
    assert {await hash_of(bed, material.id) for material in killed.values()} == {wanted}
    assert engine.calls == sum(STAGES.values()) + 2
    assert await asyncio.to_thread(lambda: list(tmp_path.glob("asr-*"))) == []
