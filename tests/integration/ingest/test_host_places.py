"""Images that wait for a connection of a slow host: the wait is none of an image's own time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest
from aiohttp import web

from services.ingest.worker.problems import ImageProblem
from tests.integration.ingest.downloads import answering, downloader, settings
from tests.integration.ingest.site import Site, picture

IMAGES = 6
SLOW_SECONDS = 0.4  # all of them one after the other: longer than the limit of one (1.5 s)


class SlowSite:
    """Answers an image after a while, and knows how many asked at once at most."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._here = 0
        self.most = 0

    def picture(self, path: str) -> str:
        """Serve a picture and return its address."""

        async def answer(request: web.Request) -> web.StreamResponse:
            self._here += 1
            self.most = max(self.most, self._here)
            await asyncio.sleep(SLOW_SECONDS)
            self._here -= 1
            return web.Response(body=picture())

        return self._site.answer(path, answer)


@pytest.fixture
def slow(site: Site) -> SlowSite:
    """Give the site of the test with slow pictures."""
    return SlowSite(site)


def direct(slow: SlowSite, site: Site, number: int) -> str:
    """Return the address of a slow picture."""
    return slow.picture(f"{number}.jpg")


def behind_a_redirect(slow: SlowSite, site: Site, number: int) -> str:
    """Return an address that leads to a slow picture at another host."""
    slow.picture(f"{number}.jpg")
    port = site.address.rpartition(":")[2]
    return site.redirect(f"hop{number}", f"http://cdn.example:{port}/{number}.jpg")


@pytest.mark.parametrize("address", [direct, behind_a_redirect])
async def test_images_that_wait_for_a_slow_hosts_only_connection_all_come(
    slow: SlowSite,
    site: Site,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    address: Callable[[SlowSite, Site, int], str],
) -> None:
    answering(monkeypatch, ["127.0.0.1"])
    urls = [address(slow, site, number) for number in range(IMAGES)]
    async with downloader(settings(downloads_per_host=1)) as opened:
        found = await asyncio.gather(
            *(opened.fetch(url, referer="", target=tmp_path / str(n)) for n, url in enumerate(urls))
        )
    assert len(found) == IMAGES
    assert slow.most == 1


async def test_a_host_that_never_answers_takes_the_whole_time_of_each_that_asks_it(
    site: Site, tmp_path: Path
) -> None:
    urls = [site.drip(f"{number}.jpg", b"x", 0.2) for number in range(2)]
    async with downloader(settings(downloads_per_host=1)) as opened:
        ends = await asyncio.gather(
            *(opened.fetch(url, referer="", target=tmp_path / str(n)) for n, url in enumerate(urls)),
            return_exceptions=True,
        )
    assert [end.reason for end in ends if isinstance(end, ImageProblem)] == ["TIMEOUT", "TIMEOUT"]
    assert site.hits == {"0.jpg": 1, "1.jpg": 1}  # the second had its own time once the first had gone


async def test_as_many_ask_one_host_at_once_as_the_setting_says_and_no_more(
    slow: SlowSite, site: Site, tmp_path: Path
) -> None:
    urls = [slow.picture(f"{number}.jpg") for number in range(IMAGES)]
    async with downloader(settings(downloads_per_host=3)) as opened:
        await asyncio.gather(
            *(opened.fetch(url, referer="", target=tmp_path / str(n)) for n, url in enumerate(urls))
        )
    assert slow.most == 3
