"""Run the slicing worker alone: `python -m services.asr.slicing`; its address answers health checks."""

import sys

from libs.common.health import Health
from libs.common.server import Mounted, run
from libs.common.surroundings import WorkerSurroundings
from services.access import RULES
from services.asr.slicing.mount import build_worker
from services.asr.slicing.settings import SlicingWorkerSettings


async def _mount() -> tuple[str, Mounted]:
    settings = SlicingWorkerSettings()
    health = Health()
    worker = build_worker(settings, WorkerSurroundings.from_environment(), health.set_serving)

    async def close() -> None:
        await worker.stop()

    return settings.listen, Mounted(lambda server: None, (), [worker], close, health=health)


if __name__ == "__main__":
    sys.exit(run("asr-slicing", _mount, RULES))
