"""Fixtures of the slicing tests: an asr server alone, and one with a task server beside it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from frontrow.task.v1 import task_service_pb2_grpc

from libs.common.client import connect
from libs.common.objects import open_store
from services.asr.mount import mount as mount_asr
from services.asr.settings import AsrSettings
from services.task.mount import mount as mount_task
from services.task.settings import TaskSettings
from tests.conftest import Serve
from tests.integration.slicing.asr_server import Asr, common_settings
from tests.integration.slicing.chain import Chain


@pytest.fixture
async def asr(serve: Serve, database_url: str, tmp_path: Path) -> AsyncIterator[Asr]:
    """Give an asr server alone: its task service is out of reach, its outbox waits."""
    common = common_settings(database_url, tmp_path / "objects", task_address="127.0.0.1:9")
    opened = Asr(await serve("asr", await mount_asr(AsrSettings(), common)), open_store(common.store))
    yield opened
    await opened.channel.close()


@pytest.fixture
async def chain(serve: Serve, database_url: str, tmp_path: Path) -> AsyncIterator[Chain]:
    """Give a task server with a short lease, and an asr server that follows it."""
    common = common_settings(database_url, tmp_path / "objects")
    task_settings = TaskSettings(
        lease_seconds_by_type={"ai_slice": 3.0, "ai_slice_draft": 3.0, "draft": 3.0},
        sweep_interval_seconds=0.2,
    )
    task_address = await serve("task", await mount_task(task_settings, common))
    common = common_settings(database_url, tmp_path / "objects", task_address=task_address)
    asr_settings = AsrSettings(follow_interval_seconds=0.2)
    asr_address = await serve("asr", await mount_asr(asr_settings, common))
    common = common_settings(
        database_url, tmp_path / "objects", task_address=task_address, asr_address=asr_address
    )
    channel = connect(task_address)
    asr = Asr(asr_address, open_store(common.store))
    yield Chain(asr, task_service_pb2_grpc.TaskServiceStub(channel), common, tmp_path / "scratch")
    await channel.close()
    await asr.channel.close()
