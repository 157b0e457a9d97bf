"""Two recordings at once on two cores: how much audio goes through in a second."""

from __future__ import annotations

import asyncio
import time

from tests.bench.asr.recordings import recording
from tests.bench.asr.rig import Progress, rig
from tests.bench.bed import Bed
from tests.bench.report import Figure

MOST_RTF = 0.06


async def measure(bed: Bed) -> list[Figure]:
    """Transcribe two recordings of ten minutes at once, after a short one has loaded both engines."""
    seconds = bed.amount(600, 60)
    path, short = await recording(bed.folder, seconds), await recording(bed.folder, 20)
    async with rig(bed, "together", concurrency=2) as made:
        warm = [await made.material(await made.upload(short)) for _ in range(2)]
        await asyncio.gather(*(made.transcribed(one, Progress()) for one in warm))
        uploads = [await made.upload(path) for _ in range(2)]
        await asyncio.to_thread(bed.wait_quiet)
        with bed.meter() as measured:
            began = time.perf_counter()
            materials = [await made.material(upload) for upload in uploads]
            await asyncio.gather(*(made.transcribed(one, Progress()) for one in materials))
            took = time.perf_counter() - began
    rtf = took / (2 * seconds)
    return [
        Figure(
            f"two recordings of {seconds} s at once, real-time factor together", f"{rtf:.3f}",
            f"≤ {MOST_RTF}", rtf <= MOST_RTF, measured.foreign_cores, measured.facts(),
        )
    ]  # fmt: skip
