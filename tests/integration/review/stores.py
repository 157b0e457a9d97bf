"""A review server for each kind of store: a local folder, moto's S3 and SeaweedFS."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from libs.common.client import connect
from libs.common.db import Database
from libs.common.objects import ObjectStore, open_store
from libs.common.settings import (
    CommonSettings,
    DatabaseSettings,
    PeerSettings,
    StoreSettings,
    TelemetrySettings,
    TransportSettings,
)
from libs.common.testing import serving
from services.review.mount import mount
from services.review.settings import ReviewSettings
from tests.integration.objects.servers import moto_endpoint, seaweedfs_endpoint, store_url
from tests.integration.review.gallery import Gallery

KINDS = ("folder", "moto", "seaweedfs")


@dataclass(frozen=True)
class Store:
    """One kind of store, and a review server over it."""

    name: str
    gallery: Gallery
    store: ObjectStore
    database: Database


@contextmanager
def url_of(kind: str, folder: Path) -> Iterator[str]:
    """Run a store of the kind; yield its URL."""
    if kind == "moto":
        with moto_endpoint() as endpoint:
            yield store_url(endpoint, "review")
    elif kind == "seaweedfs":
        with seaweedfs_endpoint(folder) as endpoint:
            yield store_url(endpoint, "review")
    else:
        yield str(folder)


@asynccontextmanager
async def review_over(kind: str, folder: Path, database_url: str) -> AsyncIterator[Store]:
    """Run a store and a review server over it."""
    with url_of(kind, folder) as url:
        settings = StoreSettings(object_store=url)
        common = CommonSettings(
            database=DatabaseSettings(
                url=database_url, pool_size=10, max_overflow=30, pool_timeout_seconds=30
            ),
            transport=TransportSettings(),
            peers=PeerSettings(),
            store=settings,
            telemetry=TelemetrySettings(),
        )
        database = Database(DatabaseSettings(url=database_url), "frontrow-test")
        async with serving("review", await mount(ReviewSettings(), common)) as address:
            channel = connect(address)
            yield Store(kind, Gallery(channel), open_store(settings), database)
            await channel.close()
        await database.close()


@pytest.fixture(params=KINDS)
async def any_store(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, database_url: str
) -> AsyncIterator[Store]:
    """Give a review server over one kind of store after the other."""
    async with review_over(request.param, tmp_path_factory.mktemp("store"), database_url) as store:
        yield store
