"""Run the slicing worker alone: `python -m services.asr.slicing`; its address answers health checks."""

import sys
from dataclasses import dataclass, field

from libs.common.health import Health
from libs.common.server import Mounted, run
from libs.common.settings import PeerSettings, StoreSettings, TransportSettings
from services.access import RULES
from services.asr.slicing.mount import build_worker
from services.asr.slicing.settings import SlicingWorkerSettings


@dataclass(frozen=True)
class _Environment:
    transport: TransportSettings = field(default_factory=TransportSettings)
    peers: PeerSettings = field(default_factory=PeerSettings)
    store: StoreSettings = field(default_factory=StoreSettings)


async def _mount() -> tuple[str, Mounted]:
    settings = SlicingWorkerSettings()
    health = Health()
    worker = build_worker(settings, _Environment(), health.set_serving)

    async def close() -> None:
        await worker.stop()

    return settings.listen, Mounted(lambda server: None, (), [worker], close, health=health)


if __name__ == "__main__":
    sys.exit(run("asr-slicing", _mount, RULES))
