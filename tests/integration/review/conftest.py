"""A review server over the module's database and a store of its own."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from libs.common.client import connect
from libs.common.mounted import Mounted
from libs.common.objects import ObjectStore, open_store
from libs.common.settings import (
    CommonSettings,
    DatabaseSettings,
    PeerSettings,
    StoreSettings,
    TelemetrySettings,
    TransportSettings,
)
from services.review.mount import mount
from services.review.settings import ReviewSettings
from tests.integration.review.gallery import Gallery
from tests.integration.review.stores import any_store

__all__ = ["any_store"]

Serve = Callable[[str, Mounted], Awaitable[str]]


@pytest.fixture(scope="module")
def store_settings(tmp_path_factory: pytest.TempPathFactory) -> StoreSettings:
    folder: Path = tmp_path_factory.mktemp("objects")
    return StoreSettings(object_store=str(folder))


@pytest.fixture(scope="module")
def store(store_settings: StoreSettings) -> ObjectStore:
    return open_store(store_settings)


@pytest.fixture(scope="module")
async def gallery(
    serve_module: Serve, database_url: str, store_settings: StoreSettings
) -> AsyncIterator[Gallery]:
    common = CommonSettings(
        database=DatabaseSettings(url=database_url, pool_size=10, max_overflow=30, pool_timeout_seconds=30),
        transport=TransportSettings(),
        peers=PeerSettings(),
        store=store_settings,
        telemetry=TelemetrySettings(),
    )
    address = await serve_module("review", await mount(ReviewSettings(), common))
    channel = connect(address)
    yield Gallery(channel)
    await channel.close()
