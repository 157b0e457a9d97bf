"""The ASR worker with a scripted engine: `python -m tests.integration.asr.scripted_worker`."""

import asyncio

from libs.common.surroundings import WorkerSurroundings
from services.asr.worker.mount import AsrWorker
from services.asr.worker.settings import AsrWorkerSettings
from tests.integration.asr.scripted_engine import Scripted


async def main() -> None:
    """Work until killed."""
    surroundings = WorkerSurroundings.from_environment()
    await AsrWorker(AsrWorkerSettings(), surroundings, engine=Scripted()).start()
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main())
