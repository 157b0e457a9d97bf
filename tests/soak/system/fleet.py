"""The whole product as processes to kill, on disks that fill up, behind networks that break."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import grpc.aio
from frontrow.asr.v1 import live_material_service_pb2_grpc, video_project_service_pb2_grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

from libs.common import migrate
from tests.integration.asr.workers import MODELS
from tests.soak.ingest.fleet import Fleet
from tests.soak.proxy import Proxy
from tests.soak.system import clock
from tests.soak.system.disk import FolderOnDisk, SmallDisk
from tests.soak.task.fleet import Machine, Postgres

LEASE_SECONDS = 6.0
OBJECTS_BYTES, DATABASE_BYTES = 600_000_000, 500_000_000
WORKERS = (
    "services.ingest.worker", "services.ingest.worker", "services.asr.worker", "services.asr.worker",
    "services.asr.slicing",
)  # fmt: skip


@dataclass(frozen=True)
class Sample:
    """What a program took of the machine, at a second of the campaign."""

    at: float
    name: str
    pid: int
    bytes: int


class SystemFleet(Fleet):
    """Four servers, workers of all kinds, PostgreSQL and a store, each behind a proxy of its own."""

    CONTEXTS = ("task", "review", "ingest", "asr")

    def __init__(self, speech_url: str) -> None:
        super().__init__(store="folder", workers=0, lease_seconds=LEASE_SECONDS)
        self._speech_url = speech_url
        self.objects_disk = SmallDisk(self.folder / "o", OBJECTS_BYTES)
        self.database_disk = SmallDisk(self.folder / "d", DATABASE_BYTES)
        self.store = FolderOnDisk(self.objects_disk)
        self.scratch = self.objects_disk.place / "scratch"
        self.postgres = Postgres(self.database_disk.place, max_wal_size="96MB", min_wal_size="32MB")
        self.proxies = {
            name: Proxy((address.partition(":")[0], int(address.partition(":")[2])))
            for name, address in self.listens.items()
        }

    async def start_surroundings(self) -> None:
        """See Fleet; the ways between programs, and the database's clock, beside it."""
        await self.database_disk.start()
        await super().start_surroundings()
        for name in self.CONTEXTS:
            await migrate.upgrade(self.postgres.direct_url, name)
        await clock.install(self.postgres.direct_url)
        for name, proxy in self.proxies.items():
            self.addresses[name] = await proxy.start()

    async def start(self) -> None:
        """See Fleet."""
        await super().start()
        for module in WORKERS:
            await self.add_worker(module)
        self.materials = live_material_service_pb2_grpc.LiveMaterialServiceStub(self.channels["asr"])
        self.projects = video_project_service_pb2_grpc.VideoProjectServiceStub(self.channels["asr"])

    def more_settings(self) -> dict[str, str]:
        """See Fleet."""
        return {
            "FRONTROW_TASK_LEASE_SECONDS_BY_TYPE": json.dumps({}),
            "FRONTROW_ASR_FOLLOW_INTERVAL_SECONDS": "0.5",
            "FRONTROW_ASR_WORKER_LISTEN": "127.0.0.1:0",
            "FRONTROW_ASR_WORKER_CONCURRENCY": "1",
            "FRONTROW_ASR_WORKER_MODEL_CACHE": str(MODELS),
            "FRONTROW_ASR_WORKER_SCRATCH_DIR": str(self.scratch),
            "FRONTROW_ASR_ENGINE_URL": self._speech_url,
            "FRONTROW_ASR_FETCH_ALLOW_LOOPBACK": "true",
            "FRONTROW_SLICING_LISTEN": "127.0.0.1:0",
            "FRONTROW_SLICING_SCRATCH": str(self.scratch),
            "FRONTROW_REVIEW_CLEAN_UP_GRACE_SECONDS": "0",
        }

    @property
    def machines(self) -> dict[str, Machine]:
        """Return every program of ours by name."""
        workers = {
            f"{module}-{n}": m for n, (module, m) in enumerate(zip(WORKERS, self.workers, strict=True))
        }
        return dict(zip(self.CONTEXTS, self.servers, strict=True)) | workers

    def sample(self, at: float) -> list[Sample]:
        """Return what each program that lives takes now."""
        samples = []
        for name, machine in self.machines.items():
            if machine.process is not None and machine.alive:
                pid = machine.process.pid
                samples.append(Sample(at, name, pid, _resident_bytes(pid)))
        return samples

    async def healthy(self) -> bool:
        """Tell whether all servers say that they serve."""
        for channel in self.channels.values():
            check = health_pb2_grpc.HealthStub(channel).Check  # type: ignore[no-untyped-call]
            try:
                answer = await check(health_pb2.HealthCheckRequest(), timeout=5)
            except grpc.aio.AioRpcError:
                return False
            if answer.status != health_pb2.HealthCheckResponse.SERVING:
                return False
        return True

    async def stop_surroundings(self) -> None:
        """See Fleet."""
        for proxy in self.proxies.values():
            await proxy.stop()
        await super().stop_surroundings()
        await self.objects_disk.stop()
        await self.database_disk.stop()


def _resident_bytes(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * 4096
    except (OSError, IndexError):
        return 0
