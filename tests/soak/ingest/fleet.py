"""The ingest chain as processes to kill: PostgreSQL, three servers, workers, a store."""

from __future__ import annotations

import asyncio
import contextlib
import json
import shutil
import sys
import tempfile
import time
from pathlib import Path

import grpc.aio
from frontrow.client import AsyncSpiderClient
from frontrow.ingest.v1 import ingest_service_pb2, ingest_service_pb2_grpc
from frontrow.review.v1 import media_service_pb2, media_service_pb2_grpc
from frontrow.task.v1 import task_service_pb2, task_service_pb2_grpc

from libs.common import migrate
from libs.common.client import connect
from libs.common.testing import eventually
from tests.bench.processes import free_address
from tests.soak.ingest.stores import store_of
from tests.soak.task.fleet import Machine, Postgres

SUBMIT_SECONDS = 180.0
ACTOR = (("x-frontrow-actor", "campaign"),)
_FIXED = {
    "FRONTROW_LOG_LEVEL": "WARNING",
    "FRONTROW_TASK_SWEEP_INTERVAL_SECONDS": "0.5",
    "FRONTROW_TASK_RETRY_BASE_SECONDS": "0.2",
    "FRONTROW_INGEST_SEALING_KEY": "5e" * 32,
    "FRONTROW_INGEST_FOLLOW_INTERVAL_SECONDS": "0.5",
    "FRONTROW_REVIEW_CLEAN_UP_GRACE_SECONDS": "0",
    "FRONTROW_REVIEW_CLEAN_UP_SHARE": "1",
    "FRONTROW_INGEST_WORKER_ALLOW_LOOPBACK": "true",
    "FRONTROW_INGEST_WORKER_DECODERS": "1",
    "FRONTROW_INGEST_WORKER_LISTEN": "127.0.0.1:0",
    "FRONTROW_INGEST_WORKER_THUMBNAIL_WIDTHS": json.dumps([24]),
}


class Fleet:
    """All of it, in a folder of its own. Close it at the end."""

    CONTEXTS: tuple[str, ...] = ("task", "review", "ingest")

    def __init__(self, *, store: str, workers: int, lease_seconds: float) -> None:
        # Not below a test's folder: the path of a socket is short, and PostgreSQL may run as another user.
        self.folder = folder = Path(tempfile.mkdtemp(prefix="frontrow-soak-"))
        folder.chmod(0o755)
        self.scratch = folder / "scratch"
        self.postgres = Postgres(folder)
        self.store = store_of(store, folder)
        self.listens = {name: free_address() for name in self.CONTEXTS}
        self.addresses = dict(self.listens)
        """Where servers and workers call one another."""
        self.servers: list[Machine] = []
        self.workers: list[Machine] = []
        self._worker_count = workers
        self._lease = {"FRONTROW_TASK_LEASE_SECONDS": str(lease_seconds)}
        self._guardian: asyncio.Task[None] | None = None
        self._stack = contextlib.AsyncExitStack()

    async def start(self) -> None:
        """Start everything, and a spider; returns when a job can be submitted."""
        await self.start_surroundings()
        for name, address in self.listens.items():
            await migrate.upgrade(self.postgres.direct_url, name)
            listen = {f"FRONTROW_{name.upper()}_LISTEN": address}
            self.servers.append(await self.run(f"services.{name}", name, **listen))
        for _ in range(self._worker_count):
            await self.add_worker()
        channels = self.channels = {name: connect(address) for name, address in self.listens.items()}
        for channel in channels.values():
            self._stack.push_async_callback(channel.close)
        self.ingest = ingest_service_pb2_grpc.IngestServiceStub(channels["ingest"])
        self.tasks = task_service_pb2_grpc.TaskServiceStub(channels["task"])
        self.media = media_service_pb2_grpc.MediaServiceStub(channels["review"])
        await self.serving(60)
        made = await self.ingest.CreateSpider(
            ingest_service_pb2.CreateSpiderRequest(name="campaign"), metadata=ACTOR
        )
        self.spider = AsyncSpiderClient(
            self.addresses["ingest"], key_id=made.key_id, secret=made.secret, deadline_seconds=SUBMIT_SECONDS
        )
        self._stack.push_async_callback(self.spider.close)
        self._guardian = asyncio.create_task(self._keep_alive())

    async def start_surroundings(self) -> None:
        """Start what the programs stand on."""
        await asyncio.gather(self.postgres.start(), self.store.start())

    async def stop_surroundings(self) -> None:
        """End what the programs stand on."""
        await self.store.stop()
        await self.postgres.stop()

    async def add_worker(self, module: str = "services.ingest.worker") -> None:
        """Start one more worker."""
        self.workers.append(await self.run(module, f"worker-{len(self.workers)}"))

    async def run(self, module: str, name: str, *arguments: str, **settings: str) -> Machine:
        """Start a program of ours; keywords are settings in its environment."""
        environment = {
            **_FIXED,
            **self._lease,
            **self.more_settings(),
            **settings,
            **{f"FRONTROW_{peer.upper()}_ADDRESS": address for peer, address in self.addresses.items()},
            "FRONTROW_DATABASE_URL": self.postgres.url,
            "FRONTROW_OBJECT_STORE": self.store.url,
            "FRONTROW_INGEST_WORKER_SCRATCH": str(self.scratch),
        }
        machine = Machine(
            [sys.executable, "-m", module, *arguments], self.folder / f"{name}.log", environment
        )
        await machine.start()
        return machine

    def more_settings(self) -> dict[str, str]:
        """Return settings beyond those of this chain."""
        return {}

    async def _keep_alive(self) -> None:
        """Start again what ended, as a service manager does: a server without its database gives up."""
        while True:
            for machine in (*self.servers, *self.workers):
                if not machine.alive:
                    await machine.start()
            await asyncio.sleep(0.3)

    async def serving(self, timeout_seconds: float) -> float:
        """Wait until every server answers from its database; return how long that took."""
        began = time.monotonic()

        async def answers() -> bool:
            try:
                await self.tasks.ListTasks(task_service_pb2.ListTasksRequest(page_size=1), timeout=5)
                await self.ingest.ListIngestJobs(
                    ingest_service_pb2.ListIngestJobsRequest(page_size=1), timeout=5
                )
                await self.media.CleanUpMedia(media_service_pb2.CleanUpMediaRequest(), timeout=5)
            except grpc.aio.AioRpcError:
                return False
            return True

        await eventually(answers, timeout_seconds)
        return time.monotonic() - began

    def logs(self) -> dict[str, str]:
        """Return what the programs said, by name."""
        return {path.stem: path.read_text(errors="replace") for path in self.folder.glob("*.log")}

    async def close(self) -> None:
        """End everything."""
        if self._guardian is not None:
            self._guardian.cancel()
            await asyncio.gather(self._guardian, return_exceptions=True)
        await self._stack.aclose()
        for machine in (*self.workers, *self.servers):
            await machine.kill()
        await self.stop_surroundings()
        shutil.rmtree(self.folder)
