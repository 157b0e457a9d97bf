"""The ASR worker as a process of its own, as people run it: started, killed, started again."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from libs.common.child import command
from tests.integration.asr.bed import Bed
from tests.integration.asr.workers import environment

CHUNK_SECONDS = 15


@asynccontextmanager
async def worker_process(bed: Bed, scratch: Path, log: Path) -> AsyncIterator[asyncio.subprocess.Process]:
    """Run `python -m services.asr.worker` for the length of the block; SIGKILL ends it."""
    settings = {
        **environment(bed, scratch),
        "FRONTROW_ASR_WORKER_CHUNK_SECONDS": str(CHUNK_SECONDS),
    }
    with log.open("ab") as output:
        process = await asyncio.create_subprocess_exec(
            *command([sys.executable, "-m", "services.asr.worker"]),
            env={**os.environ, **settings},
            stdout=output,
            stderr=output,
        )
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(signal.SIGKILL)
        await process.wait()
