"""Scrapy: a spider whose items' images its own pipeline downloads, converts and thumbnails."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import AsyncIterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

from scrapy import Request, Spider
from scrapy.crawler import CrawlerProcess

from tests.bench.child import Arguments, meter, quiet

ABREAST = 16


class Galleries(Spider):
    """Yields items with addresses of images, as a spider that has read its pages does."""

    name = "galleries"
    arguments: Arguments

    async def start(self) -> AsyncIterator[Any]:
        """Ask for one small page an item, so that items come as they do in a crawl."""
        site = self.arguments["site"]
        for number in range(self.arguments["galleries"]):
            yield Request(f"data:,{number}", callback=self.item, cb_kwargs={"site": site, "number": number})

    def item(self, _response: Any, site: str, number: int) -> Any:
        """Make the item of a gallery."""
        count = self.arguments["images_each"]
        return {"image_urls": [f"http://{site}/scrapy-{number}-{n}.jpg" for n in range(count)]}


def main() -> None:
    """Crawl, and print what it took as the last line."""
    arguments = json.load(sys.stdin)
    logging.getLogger("scrapy").setLevel(logging.ERROR)
    Galleries.arguments = arguments
    process = CrawlerProcess(
        {
            "ITEM_PIPELINES": {"scrapy.pipelines.images.ImagesPipeline": 1},
            "IMAGES_STORE": arguments["folder"],
            "IMAGES_THUMBS": {str(width): (width, 10_000) for width in arguments["widths"]},
            "CONCURRENT_REQUESTS": ABREAST,
            "CONCURRENT_REQUESTS_PER_DOMAIN": ABREAST,
            "DOWNLOAD_DELAY": 0,
            "ROBOTSTXT_OBEY": False,
            "TELNETCONSOLE_ENABLED": False,
            "LOG_LEVEL": "ERROR",
        }
    )
    busy = quiet(arguments)
    crawler = process.create_crawler(Galleries)
    with meter(arguments) as measured:
        process.crawl(crawler)
        process.start()
    wanted = arguments["galleries"] * arguments["images_each"]
    stored = sum(1 for path in (Path(arguments["folder"]) / "full").iterdir() if path.suffix == ".jpg")
    if stored != wanted:
        raise RuntimeError(f"{stored} of {wanted} images were stored")
    result = {
        "peer": f"Scrapy {version('scrapy')}",
        "rate": wanted / measured.seconds,
        "busy_before": busy,
        **measured.facts(),
    }
    sys.stdout.write(f"\n{json.dumps(result)}\n")


if __name__ == "__main__":
    main()
