"""Run the ASR worker alone: `python -m services.asr.worker`."""

import sys

import grpc.aio

from libs.common.health import Health
from libs.common.server import Mounted, run
from libs.common.surroundings import WorkerSurroundings
from services.access import RULES
from services.asr.worker.mount import build_worker
from services.asr.worker.settings import AsrWorkerSettings


def _register(server: grpc.aio.Server) -> None:
    """Serve nothing but health: the worker is called by nobody."""


async def _close() -> None:
    """Leave nothing to close: the worker closes what it opened."""


async def _mount() -> tuple[str, Mounted]:
    settings = AsrWorkerSettings()
    health = Health()
    worker = build_worker(settings, WorkerSurroundings.from_environment(), on_serving=health.set_serving)
    return settings.listen, Mounted(
        register=_register, service_names=(), loops=[worker], close=_close, health=health
    )


if __name__ == "__main__":
    sys.exit(run("asr-worker", _mount, RULES))
