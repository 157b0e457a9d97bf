"""Servers whose database or store is away: they say so, refuse quickly, and are well again by themselves."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import asyncpg
import grpc
import grpc.aio
import pytest
from frontrow.asr.v1 import live_material_service_pb2, live_material_service_pb2_grpc
from frontrow.ingest.v1 import ingest_service_pb2, ingest_service_pb2_grpc
from frontrow.review.v1 import (
    catalog_service_pb2,
    catalog_service_pb2_grpc,
    key_service_pb2,
    key_service_pb2_grpc,
)
from frontrow.task.v1 import task_service_pb2, task_service_pb2_grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

from libs.common import migrate
from libs.common.client import connect, reason_of
from libs.common.mounted import Mounted
from libs.common.postgres import EmbeddedPostgres
from libs.common.settings import CommonSettings, StoreSettings
from libs.common.testing import contexts, eventually, serving
from services.asr.mount import mount as mount_asr
from services.asr.settings import AsrSettings
from services.ingest.mount import mount as mount_ingest
from services.ingest.settings import IngestSettings
from services.review.mount import mount as mount_review
from services.review.settings import ReviewSettings
from services.task.mount import mount as mount_task
from services.task.settings import TaskSettings
from tests.integration.task.service import common_settings
from tests.soak.proxy import Proxy

pytestmark = pytest.mark.timeout(180)

QUICKLY_SECONDS = 2.0
"""What a refusal may take on a machine that is busy with other tests."""


@dataclass
class System:
    """All four servers over a PostgreSQL and a store that can go away."""

    postgres: EmbeddedPostgres
    way: Proxy
    folder: Path
    health: dict[str, Any]
    calls: dict[str, Callable[[], Awaitable[Any]]]
    writes: dict[str, Callable[[], Awaitable[Any]]]

    async def set_read_only(self, read_only: bool) -> None:
        """Let PostgreSQL take no writes from anybody, as a standby, or a managed one whose disk is full."""
        connection = await asyncpg.connect(self.postgres.url("postgres"))
        await connection.execute(f"ALTER SYSTEM SET default_transaction_read_only = {read_only:d}")
        await connection.execute("SELECT pg_reload_conf()")
        await connection.close()

    async def end_postgres(self) -> None:
        """Shut PostgreSQL down, as from outside: its socket's place stays the same."""
        pid = await asyncio.to_thread((self.folder / "data" / "postmaster.pid").read_text)
        os.kill(int(pid.split()[0]), signal.SIGINT)
        await self.postgres.wait()

    async def serving(self) -> set[str]:
        """Return the servers that report SERVING."""
        request = health_pb2.HealthCheckRequest()
        answers = {name: await stub.Check(request, timeout=5) for name, stub in self.health.items()}
        serving = health_pb2.HealthCheckResponse.SERVING
        return {name for name, answer in answers.items() if answer.status == serving}

    async def all_answer(self) -> None:
        """Wait until each server answers a call; a connection of before may cost one of them a retry."""

        async def answers() -> bool:
            try:
                for call in self.calls.values():
                    await call()
            except grpc.aio.AioRpcError:
                return False
            return True

        await eventually(answers)

    async def serve_exactly(self, *names: str) -> None:
        """Wait until these servers report SERVING and no other."""

        async def look() -> bool:
            return await self.serving() == set(names)

        await eventually(look, timeout_seconds=30)


ALL = ("asr", "ingest", "review", "task")


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    """Give a folder that PostgreSQL's user can enter."""
    made = Path(tempfile.mkdtemp(prefix="frontrow-outages-"))
    made.chmod(0o755)
    yield made
    shutil.rmtree(made, ignore_errors=True)


@pytest.fixture(scope="module")
async def system(folder: Path) -> AsyncIterator[System]:
    """Give running servers over a cluster of the module's own."""
    async with AsyncExitStack() as stack:
        postgres = EmbeddedPostgres(folder / "data", options={"fsync": "off"})
        stack.push_async_callback(postgres.stop)
        url = await postgres.start()
        for ctx in contexts():
            await migrate.upgrade(url, ctx)
        behind = Path(parse_qs(urlsplit(url).query)["host"][0])
        way = Proxy(behind / ".s.PGSQL.5432", path=folder / ".s.PGSQL.5432")
        await way.start()
        stack.push_async_callback(way.stop)
        url = f"postgresql://frontrow@/frontrow?host={folder}&port=5432"
        common = replace(common_settings(url), store=StoreSettings(object_store=str(folder / "objects")))
        addresses = {
            name: await stack.enter_async_context(serving(name, mounted))
            for name, mounted in (await _mounts(common, folder)).items()
        }
        channels = {}
        for name, address in addresses.items():
            channels[name] = connect(address, actor="ops")
            stack.push_async_callback(channels[name].close)
        yield System(
            postgres,
            way,
            folder,
            {name: health_pb2_grpc.HealthStub(channel) for name, channel in channels.items()},
            _calls(channels),
            _writes(channels),
        )


async def _mounts(common: CommonSettings, folder: Path) -> dict[str, Mounted]:
    ingest = IngestSettings(sealing_key_file=folder / "sealing.key")
    return {
        "task": await mount_task(TaskSettings(), common),
        "review": await mount_review(ReviewSettings(), common),
        "asr": await mount_asr(AsrSettings(), common),
        "ingest": await mount_ingest(ingest, common),
    }


def _calls(channels: dict[str, grpc.aio.Channel]) -> dict[str, Callable[[], Awaitable[Any]]]:
    task = task_service_pb2_grpc.TaskServiceStub(channels["task"])
    catalog = catalog_service_pb2_grpc.CatalogServiceStub(channels["review"])
    materials = live_material_service_pb2_grpc.LiveMaterialServiceStub(channels["asr"])
    ingest = ingest_service_pb2_grpc.IngestServiceStub(channels["ingest"])
    return {
        "task": lambda: task.ListQueues(task_service_pb2.ListQueuesRequest()),
        "review": lambda: catalog.ListBrands(catalog_service_pb2.ListBrandsRequest()),
        "asr": lambda: materials.ListLiveMaterials(live_material_service_pb2.ListLiveMaterialsRequest()),
        "ingest": lambda: ingest.ListIngestJobs(ingest_service_pb2.ListIngestJobsRequest()),
    }


def _writes(channels: dict[str, grpc.aio.Channel]) -> dict[str, Callable[[], Awaitable[Any]]]:
    numbers = count()
    task = task_service_pb2_grpc.TaskServiceStub(channels["task"])
    keys = key_service_pb2_grpc.KeyServiceStub(channels["review"])
    materials = live_material_service_pb2_grpc.LiveMaterialServiceStub(channels["asr"])
    ingest = ingest_service_pb2_grpc.IngestServiceStub(channels["ingest"])
    made = live_material_service_pb2.CreateLiveMaterialRequest
    return {
        "task": lambda: task.CreateTask(task_service_pb2.CreateTaskRequest(type="outage")),
        "review": lambda: keys.CreateBrand(
            key_service_pb2.CreateBrandRequest(name=f"Maison {next(numbers)}")
        ),
        "asr": lambda: materials.CreateLiveMaterial(
            made(name=f"录播 {next(numbers)}", media_url="https://example.com/a.mp4", skip_transcription=True)
        ),
        "ingest": lambda: ingest.CreateSpider(
            ingest_service_pb2.CreateSpiderRequest(name=f"spider {next(numbers)}")
        ),
    }


async def test_a_database_that_takes_no_writes_is_no_fault_of_the_caller_and_all_write_again_afterwards(
    system: System,
) -> None:
    await system.serve_exactly(*ALL)
    for write in system.writes.values():
        await write()
    await system.set_read_only(True)
    await system.serve_exactly()
    for name, write in system.writes.items():
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await write()
        assert refused.value.code() is grpc.StatusCode.UNAVAILABLE, (name, refused.value.details())
        assert reason_of(refused.value) == "DATABASE_UNAVAILABLE", name
    await system.set_read_only(False)
    await system.serve_exactly(*ALL)
    for write in system.writes.values():
        await write()


async def test_without_its_database_a_server_says_so_refuses_quickly_and_recovers(system: System) -> None:
    await system.serve_exactly(*ALL)
    await system.all_answer()
    await system.end_postgres()
    await system.serve_exactly()
    for name, call in system.calls.items():
        began = time.monotonic()
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await call()
        assert refused.value.code() is grpc.StatusCode.UNAVAILABLE, name
        assert reason_of(refused.value) == "DATABASE_UNAVAILABLE", name
        assert time.monotonic() - began < QUICKLY_SECONDS, name
    await system.postgres.start()
    await system.serve_exactly(*ALL)
    await system.all_answer()


async def test_a_database_that_is_silent_makes_nobody_wait_for_long(system: System) -> None:
    await system.serve_exactly(*ALL)
    system.way.hold()
    await system.serve_exactly()

    async def refuses_quickly() -> bool:
        for name, call in system.calls.items():
            began = time.monotonic()
            with pytest.raises(grpc.aio.AioRpcError) as refused:
                await asyncio.wait_for(call(), QUICKLY_SECONDS)
            assert reason_of(refused.value) == "DATABASE_UNAVAILABLE", name
            assert time.monotonic() - began < QUICKLY_SECONDS, name
        return True

    async def patiently() -> bool:
        try:
            return await refuses_quickly()
        except (TimeoutError, AssertionError):
            return False

    await eventually(patiently, timeout_seconds=30)
    assert await refuses_quickly(), "and so it stays"
    system.way.flow()
    await system.serve_exactly(*ALL)
    await system.all_answer()


async def test_only_servers_that_stand_on_the_store_follow_it(system: System) -> None:
    await system.serve_exactly(*ALL)
    objects = system.folder / "objects"
    aside = objects.with_name("objects-aside")
    objects.rename(aside)
    objects.write_text("a file where the store's folder was")
    await system.serve_exactly("ingest", "task")
    objects.unlink()
    aside.rename(objects)
    await system.serve_exactly(*ALL)
