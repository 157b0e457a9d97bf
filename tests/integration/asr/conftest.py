"""Fixtures of the asr tests: servers that live as long as a module."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from services.asr.mount import mount as mount_asr
from services.asr.settings import AsrSettings
from services.asr.worker.engine import FasterWhisper
from services.asr.worker.mount import AsrWorker
from services.task.mount import mount as mount_task
from services.task.settings import TaskSettings
from tests.conftest import Serve
from tests.integration.asr.bed import Bed, common_settings
from tests.integration.asr.workers import Counting, first_seconds, worker_settings

# Short, so that a test sees a lost run within seconds; long enough for a run that lives on a busy machine.
TASKS = TaskSettings(lease_seconds=5, sweep_interval_seconds=0.2, poll_seconds=0.5, retry_base_seconds=0.0)
ASR = AsrSettings(follow_interval_seconds=0.5, upload_part_bytes=1 << 16, removal_interval_seconds=0.3)


@pytest.fixture(scope="module")
async def bed(
    database_url: str, serve_module: Serve, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Bed]:
    """Give task and asr servers over the module's database."""
    store: Path = tmp_path_factory.mktemp("objects")
    task = await serve_module("task", await mount_task(TASKS, common_settings(database_url, store)))
    common = common_settings(database_url, store, task=task)
    asr = await serve_module("asr", await mount_asr(ASR, common))
    opened = Bed.over(common_settings(database_url, store, task=task, asr=asr), asr)
    yield opened
    await opened.close()


@pytest.fixture(scope="session")
async def engine() -> AsyncIterator[FasterWhisper]:
    opened = FasterWhisper(worker_settings(Path("unused")))
    yield opened
    await opened.close()


@pytest.fixture(scope="module")
async def short(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """Give the first 16 s of the sample: two chunks."""
    return await first_seconds(tmp_path_factory.mktemp("short"), 16)


@pytest.fixture(scope="module")
async def shortest(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """Give the first 8 s of the sample: one chunk."""
    return await first_seconds(tmp_path_factory.mktemp("shortest"), 8)


@pytest.fixture
async def counting(bed: Bed, engine: FasterWhisper, tmp_path: Path) -> AsyncIterator[Counting]:
    """Give a running worker's counted engine."""
    counted = Counting(engine)
    worker = AsrWorker(worker_settings(tmp_path / "scratch"), bed.common, engine=counted)
    await worker.start()
    yield counted
    await worker.stop()
    assert list((tmp_path / "scratch").glob("*")) == []
