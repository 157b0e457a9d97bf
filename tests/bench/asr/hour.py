"""An hour of Mandarin from the upload to clips, and what four hours need beside one."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from tests.bench.asr.memory import watching
from tests.bench.asr.recordings import recording
from tests.bench.asr.rig import CHUNK_SECONDS, Progress, rig
from tests.bench.bed import Bed
from tests.bench.report import Figure

MOST_SECONDS, MOST_BYTES = 360.0, 1.5 * (1 << 30)
FIRST_SECONDS, GAP_SECONDS = 3.0, 5.0
MOST_GROWTH = 1.1


async def one(bed: Bed) -> list[Figure]:
    """Upload, transcribe and slice an hour; an hour is made of the sample again and again."""
    seconds = bed.amount(3600, 320)
    facts = await _through(bed, seconds, slicing=True)
    scale = seconds / 3600
    load = facts["foreign_cores"]
    steps = {"transcribing": facts["longest_gap"], "cutting": facts["longest_cutting_gap"]}
    return [
        Figure(
            f"{seconds} s of Mandarin, upload to clips", f"{facts['seconds']:.0f} s",
            f"≤ {MOST_SECONDS * scale:.0f} s", facts["seconds"] <= MOST_SECONDS * scale, load, facts,
        ),
        Figure(
            "peak of the workers' process trees", f"{facts['peak_bytes'] / (1 << 20):.0f} MiB",
            "≤ 1,536 MiB", facts["peak_bytes"] <= MOST_BYTES, load,
        ),
        Figure(
            "first progress after the request", f"{facts['first_progress_seconds']:.1f} s", "≤ 3 s",
            facts["first_progress_seconds"] <= FIRST_SECONDS, load,
        ),
        *(
            Figure(
                f"longest time without progress, {step}", f"{gap:.1f} s (before {percent} %)", "≤ 5 s",
                gap <= GAP_SECONDS, load,
            )
            for step, (gap, percent) in steps.items()
        ),
    ]  # fmt: skip


async def four(bed: Bed) -> list[Figure]:
    """Compare the memory of transcribing one hour and four."""
    hour = bed.amount(3600, 60)
    # memory is a chunk's, so the short "hour" of a quick run has several, too
    chunk = bed.amount(CHUNK_SECONDS, 20)
    single = await _through(bed, hour, slicing=False, chunk_seconds=chunk)
    four_times = await _through(bed, 4 * hour, slicing=False, chunk_seconds=chunk)
    growth = four_times["peak_bytes"] / single["peak_bytes"]
    return [
        Figure(
            f"memory of {4 * hour} s against {hour} s", f"{growth:.2f} ×", f"≤ {MOST_GROWTH} ×",
            growth <= MOST_GROWTH, four_times["foreign_cores"], {"one": single, "four": four_times},
        )
    ]  # fmt: skip


async def _through(
    bed: Bed, seconds: int, *, slicing: bool, chunk_seconds: int = CHUNK_SECONDS
) -> dict[str, Any]:
    path, short = await recording(bed.folder, seconds), await recording(bed.folder, 20)
    running = rig(bed, f"hour_{seconds}", slicing=slicing, chunk_seconds=chunk_seconds)
    async with running as made:
        # the worker is up and has its model, as it has in the middle of a day
        await made.transcribed(await made.material(await made.upload(short)), Progress())
        busy = await asyncio.to_thread(bed.wait_quiet)
        with bed.meter() as measured:
            async with watching(made.workers.values()) as peak:
                began = time.perf_counter()
                upload_id = await made.upload(path)
                progress = Progress()
                material_id = await made.material(upload_id)
                await made.transcribed(material_id, progress)
                transcribed = time.perf_counter() - began
                cutting = Progress()
                clips = await made.sliced(material_id, cutting) if slicing else 0
                took = time.perf_counter() - began
    return {
        **measured.facts(),
        "busy_before": busy,
        "seconds": round(took, 1),
        "transcribed_seconds": round(transcribed, 1),
        "clips": clips,
        "peak_bytes": peak.bytes,
        "first_progress_seconds": round(progress.first_seconds or took, 2),
        "longest_gap": _longest(progress),
        "long_gaps": [(round(gap, 2), to) for gap, to in progress.gaps if gap > GAP_SECONDS / 2],
        "first_cutting_seconds": round(cutting.first_seconds or 0.0, 2),
        "longest_cutting_gap": _longest(cutting),
    }


def _longest(progress: Progress) -> tuple[float, int]:
    """Return the longest time without a rise, in seconds, and the percentage that ended it."""
    return max(((round(gap, 2), percent) for gap, percent in progress.gaps), default=(0.0, 0))
