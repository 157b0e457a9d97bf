"""Run the ingest worker alone: `python -m services.ingest.worker`."""

from __future__ import annotations

import sys

import grpc.aio

from libs.common.health import Health
from libs.common.server import Mounted, run
from libs.common.surroundings import WorkerSurroundings
from services.access import RULES
from services.ingest.worker.mount import build_worker
from services.ingest.worker.settings import IngestWorkerSettings


def _register(server: grpc.aio.Server) -> None:
    """Serve nothing but health: the worker is called by nobody."""


async def _close() -> None:
    """Leave nothing to close: the worker closes what it opened."""


async def _mount() -> tuple[str, Mounted]:
    settings = IngestWorkerSettings()
    common = WorkerSurroundings.from_environment()
    health = Health()
    worker = build_worker(settings, common, on_serving=health.set_serving)
    return settings.listen, Mounted(
        register=_register, service_names=(), loops=[worker], close=_close, health=health
    )


if __name__ == "__main__":
    sys.exit(run("ingest-worker", _mount, RULES))
