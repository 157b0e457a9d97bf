"""The least that brings images in: an aiohttp loop and the same decode, nothing hashed, stored or told."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import aiohttp

from services.ingest.worker.decode import Decoder
from services.ingest.worker.settings import IngestWorkerSettings
from tests.bench import child

ABREAST = 16


async def measure(arguments: child.Arguments) -> dict[str, Any]:
    """Download and decode images of a site, as many at once as the worker does."""
    folder = Path(arguments["folder"])
    decoder = Decoder(IngestWorkerSettings(thumbnail_widths=tuple(arguments["widths"])))
    numbers = iter(range(arguments["images"]))
    async with aiohttp.ClientSession() as session:

        async def one(name: str) -> None:
            async with session.get(f"http://{arguments['site']}/{name}.jpg") as response:
                body = await response.read()
            path = folder / name
            await asyncio.to_thread(path.write_bytes, body)
            await decoder.decode(path)
            path.unlink()

        async def worker() -> None:
            for number in numbers:
                await one(f"bare-{number}")

        await asyncio.gather(*(one(f"warm-{n}") for n in range(4)))
        busy = child.quiet(arguments)
        with child.meter(arguments) as measured:
            await asyncio.gather(*(worker() for _ in range(ABREAST)))
    await decoder.close()
    return {
        "rate": arguments["images"] / measured.seconds,
        "busy_before": busy,
        **measured.facts(),
    }


if __name__ == "__main__":
    child.serve(measure)
