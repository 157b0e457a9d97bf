"""Very many editors at one key wait for each other and for nobody's connections."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from frontrow.review.v1 import draft_service_pb2 as pb

from libs.common.client import connect
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
from tests.integration.review.conftest import Serve
from tests.integration.review.gallery import STREET, Gallery, unique

EDITORS = 64


@pytest.fixture(scope="module")
async def small(
    serve_module: Serve, database_url: str, store_settings: StoreSettings
) -> AsyncIterator[Gallery]:
    """Give a server with the few connections that it has by default."""
    common = CommonSettings(
        database=DatabaseSettings(url=database_url),
        transport=TransportSettings(),
        peers=PeerSettings(),
        store=store_settings,
        telemetry=TelemetrySettings(),
    )
    channel = connect(await serve_module("review", await mount(ReviewSettings(), common)))
    yield Gallery(channel)
    await channel.close()


async def test_64_approvals_of_one_key_all_come_through_and_others_do_not_wait_for_them(
    small: Gallery,
) -> None:
    city = unique("Hot")
    hot = [await small.street(city, 2026, 2, [unique("hot"), "all"]) for _ in range(EDITORS)]
    others = [await small.street(unique("Cool"), 2026, 2, [unique("cool")]) for _ in range(8)]
    etags = {draft: (await small.get(draft)).etag for draft in (*hot, *others)}
    crowd = [asyncio.create_task(small.approve(draft, etag=etags[draft])) for draft in hot]
    replies = [await small.approve(draft, etag=etags[draft]) for draft in others]
    assert all(reply.published for reply in replies)
    waiting = sum(not call.done() for call in crowd)
    await small.drafts.ListDrafts(pb.ListDraftsRequest(kind=STREET, page_size=5))
    merged = await asyncio.gather(*crowd)
    assert waiting > 0
    assert len({reply.official_id for reply in merged}) == 1
    captions = [image.caption for draft in hot for image in (await small.get(draft)).images]
    assert await small.album(merged[0].official_id) == list(dict.fromkeys(captions))
