"""Hosts that asked for a pause are left alone, whichever hop leads to them."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest
from aiohttp import web

from libs.common.fetch_problems import HostPaused
from services.ingest.worker.problems import ImageProblem
from tests.integration.ingest.downloads import answering, downloader, settings
from tests.integration.ingest.site import Site


async def test_retry_after_pauses_the_host_for_every_image(site: Site, tmp_path: Path) -> None:
    busy = site.put("busy", b"", status=429, Retry_After="30")
    fine = site.picture("fine.jpg")
    told: list[tuple[str, float]] = []
    async with downloader(settings(), told) as opened:
        with pytest.raises(HostPaused):
            await opened.fetch(busy, referer="", target=tmp_path / "a")
        with pytest.raises(HostPaused) as paused:
            await opened.fetch(fine, referer="", target=tmp_path / "b")
    assert 25 < paused.value.seconds <= 30
    assert (site.hits["busy"], site.hits["fine.jpg"]) == (1, 0)
    assert told == [("127.0.0.1", 30.0)]


async def test_of_answers_that_come_together_one_is_told(site: Site, tmp_path: Path) -> None:
    together, told = asyncio.Barrier(3), list[tuple[str, float]]()

    async def busy(request: web.Request) -> web.StreamResponse:
        await together.wait()
        return web.Response(status=429, headers={"Retry-After": "30"})

    urls = [site.answer(f"busy/{number}", busy) for number in range(3)]
    async with downloader(settings(downloads_per_host=3), told) as opened:
        asked = [opened.fetch(url, referer="", target=tmp_path / url[-1]) for url in urls]
        answers = await asyncio.gather(*asked, return_exceptions=True)
    assert [isinstance(answer, HostPaused) and answer.asked for answer in answers] == [True] * 3
    assert told == [("127.0.0.1", 30.0)]


async def test_a_short_pause_is_waited_for(site: Site, tmp_path: Path) -> None:
    async with downloader(settings(longest_host_wait_seconds=5)) as opened:
        busy = site.put("busy", b"", status=503, Retry_After="1")
        with pytest.raises(ImageProblem):
            await opened.fetch(busy, referer="", target=tmp_path / "a")
        started = time.monotonic()
        await opened.fetch(site.picture("fine.jpg"), referer="", target=tmp_path / "b")
    assert site.hits["busy"] == 2
    assert time.monotonic() - started > 0.8


async def test_the_pause_of_a_host_behind_a_redirect_is_kept_too(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answering(monkeypatch, ["127.0.0.1"])
    cdn = f"http://cdn.example:{site.address.rpartition(':')[2]}"
    site.put("busy", b"", status=429, Retry_After="30")
    own = site.picture("fine.jpg")
    first, second = site.redirect("one", f"{cdn}/busy"), site.redirect("two", f"{cdn}/fine.jpg")
    async with downloader(settings()) as opened:
        for url, asked in ((first, True), (second, False)):
            with pytest.raises(HostPaused) as paused:
                await opened.fetch(url, referer="", target=tmp_path / "a")
            assert (paused.value.host, paused.value.asked) == ("cdn.example", asked)
        assert site.hits["fine.jpg"] == 0
        await opened.fetch(own, referer="", target=tmp_path / "b")  # its own host asked for nothing
    assert dict(site.hits) == {"one": 1, "busy": 1, "two": 1, "fine.jpg": 1}


async def test_a_short_pause_behind_a_redirect_is_waited_for(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answering(monkeypatch, ["127.0.0.1"])
    cdn = f"http://cdn.example:{site.address.rpartition(':')[2]}"
    site.put("busy", b"", status=503, Retry_After="1")
    site.picture("fine.jpg")
    # less than the pause: waiting spends nothing of an image's own time
    async with downloader(settings(longest_host_wait_seconds=5, total_timeout_seconds=0.9)) as opened:
        with pytest.raises(ImageProblem):
            await opened.fetch(site.redirect("one", f"{cdn}/busy"), referer="", target=tmp_path / "a")
        started = time.monotonic()
        url = site.redirect("two", f"{cdn}/fine.jpg")
        await opened.fetch(url, referer="", target=tmp_path / "b")
    assert time.monotonic() - started > 0.8
