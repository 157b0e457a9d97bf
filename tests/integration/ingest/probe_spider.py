"""A spider that yields the items of a file, and an extension that keeps a crawl's statistics.

Its first response is asked for again and again while the items are submitted: the count of these shows that
the reactor went on.
"""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import scrapy
from frontrow.client.scrapy import RunwayGallery
from scrapy import signals
from scrapy.crawler import Crawler


class StatsFile:
    """Writes the statistics when the spider has closed."""

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> StatsFile:
        """Listen to the crawl's end."""
        extension = cls()
        extension._crawler = crawler
        crawler.signals.connect(extension.closed, signal=signals.spider_closed)
        return extension

    _crawler: Crawler

    def closed(self) -> None:
        """Write them."""
        assert self._crawler.stats is not None
        stats = json.dumps(self._crawler.stats.get_stats(), default=str)
        Path(os.environ["STATS_FILE"]).write_text(stats)


class ProbeSpider(scrapy.Spider):
    """Yields what it is given."""

    name = "probe"
    custom_settings = {  # noqa: RUF012
        "ITEM_PIPELINES": {"frontrow.client.scrapy.FrontrowPipeline": 500}
    }

    def __init__(self, items: str, page: str, begun: str = "", **arguments: Any) -> None:
        super().__init__(**arguments)
        self._items = json.loads(Path(items).read_text())
        self._page, self._begun = page, begun

    async def start(self) -> AsyncIterator[Any]:
        """Ask for a page, so that items come from a callback."""
        yield scrapy.Request(self._page, callback=self.parse)

    def parse(self, response: Any, **_: Any) -> Iterator[Any]:
        """Yield all items, then go on crawling."""
        for item in self._items:
            yield item if "plain" in item or "dict" in item else RunwayGallery(**item)
        if self._begun:
            Path(self._begun).touch()
        for turn in range(5):
            yield scrapy.Request(f"{self._page}?{turn}", callback=self.more)

    def more(self, response: Any) -> None:
        """Take a page for nothing."""
