"""A body has time according to its size, on a server that takes it slowly."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pytest
from aiohttp import web

from libs.common.objects import StoreUnavailable, open_url, s3
from tests import http_server
from tests.integration.objects.servers import store_url

TAKES_SECONDS = 1.0


@pytest.fixture
async def slow_endpoint() -> AsyncIterator[str]:
    """Run a server that answers each PUT after a while."""

    async def put(request: web.Request) -> web.StreamResponse:
        async for _ in request.content.iter_any():
            pass
        await asyncio.sleep(TAKES_SECONDS)
        return web.Response(headers={"ETag": '"0"'})

    runner = web.ServerRunner(web.Server(put, access_log=None), shutdown_timeout=0.1)
    await runner.setup()
    tcp = web.TCPSite(runner, "127.0.0.1", 0)
    await tcp.start()
    host, port = runner.addresses[0][:2]
    yield f"http://{host}:{port}"
    await http_server.stop(runner)


async def test_an_image_may_take_as_long_as_its_parts_would_and_a_small_body_as_one_part(
    slow_endpoint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(s3, "REQUEST_TIMEOUT", timedelta(seconds=0.6 * TAKES_SECONDS))
    monkeypatch.setattr(s3, "MAX_RETRIES", 0)
    store = open_url(store_url(slow_endpoint, "slow"))
    image = tmp_path / "image"
    image.write_bytes(bytes(20_000_000))
    await store.put_file("image", image)
    await store.put_bytes("image", bytes(s3.PART_BYTES + 1))
    with pytest.raises(StoreUnavailable):
        await store.put_bytes("small", b"small")
