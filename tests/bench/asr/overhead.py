"""What is spent around the engine: preparing, saving, topics, servers and all, beside the engine alone."""

from __future__ import annotations

import asyncio
from pathlib import Path
from statistics import median
from typing import Any

from services.asr.worker.chunks import plan
from services.asr.worker.engine import pieces
from services.asr.worker.model import model_folder
from services.asr.worker.settings import AsrWorkerSettings
from tests.bench.asr.recordings import recording, sound
from tests.bench.asr.rig import MODELS, Progress, Rig, rig
from tests.bench.bed import Bed
from tests.bench.load import tree_seconds
from tests.bench.report import Figure, worst_load

MODULE = "tests.bench.asr.bare"
# As often as a person's page would ask: each question costs the servers something, and isn't the worker's.
_LOOK_SECONDS = 1.0


async def measure(bed: Bed) -> list[Figure]:
    """Compare processor seconds on the same recording; the median of three, one after the other in turns."""
    seconds, rounds = bed.amount(600, 60), bed.amount(3, 1)
    settings = AsrWorkerSettings(model_cache=MODELS)
    folder, _ = await asyncio.to_thread(model_folder, settings)
    path, wav = await recording(bed.folder, seconds), await sound(bed.folder, seconds)
    chunks = plan(wav, chunk_seconds=settings.chunk_seconds, cut_window_seconds=settings.cut_window_seconds)
    spans = [piece for chunk in chunks for piece in pieces(wav, chunk)]
    bare: list[dict[str, Any]] = []
    ours: list[dict[str, Any]] = []
    async with rig(bed, "overhead", concurrency=1) as made:
        # the first one loads the model and imports what all later ones use
        await _spent(bed, made, await recording(bed.folder, 20))
        for _ in range(rounds):
            ours.append(await _spent(bed, made, path))
            bare.append(
                await bed.client(
                    MODULE, None, wav=str(wav), model_dir=str(folder.resolve()),
                    spans=[(span.start_ms, span.end_ms) for span in spans],
                )
            )  # fmt: skip
    alone, whole = (median(one["cpu_seconds"] for one in kind) for kind in (bare, ours))
    share = whole / alone - 1
    details = {"ours": ours, "bare": bare, "audio_seconds": seconds}
    return [
        Figure(
            f"processor time around the engine, {seconds} s of speech",
            f"{share:+.1%} ({whole:.1f} s, the engine alone {alone:.1f} s)",
            "≤ 5 %", share <= 0.05, worst_load([*ours, *bare]), details,
        )
    ]  # fmt: skip


async def _spent(bed: Bed, made: Rig, path: Path) -> dict[str, Any]:
    """Return the processor seconds of worker, children, servers and database from request to transcript."""
    upload_id = await made.upload(path)
    busy = await asyncio.to_thread(bed.wait_quiet)
    parts = {**made.workers, **made.servers, "postgres": bed.cluster.pid}
    with bed.meter() as measured:
        before = tree_seconds(*parts.values())
        material_id = await made.material(upload_id)
        await made.transcribed(material_id, Progress(), look_seconds=_LOOK_SECONDS)
        used = [now - then for now, then in zip(tree_seconds(*parts.values()), before, strict=True)]
    each = dict(zip(parts, (round(seconds, 2) for seconds in used), strict=True))
    return {**measured.facts(), "cpu_seconds": sum(used), "each": each, "busy_before": busy}
