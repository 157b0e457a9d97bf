"""A spider for runway shows, in the shape of a site whose galleries are JSON within the page.

scrapy runspider samples/spiders/runway_show.py -a site=http://127.0.0.1:8765
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from typing import Any

import scrapy
from frontrow.client.scrapy import PictureItem, RunwayGallery
from scrapy.http import Response, TextResponse

SEASON = "/fashion-shows/fall-2026-ready-to-wear"


class RunwayShowSpider(scrapy.Spider):
    """Follows a season's list to its shows, and takes each show's collection."""

    name = "runway_show"
    custom_settings = {  # noqa: RUF012 - Scrapy reads it from the class
        "ITEM_PIPELINES": {"frontrow.client.scrapy.FrontrowPipeline": 500}
    }

    def __init__(self, site: str = "http://127.0.0.1:8765", **arguments: Any) -> None:
        """Crawl the recorded pages at `site`."""
        super().__init__(**arguments)
        self._site = site

    async def start(self) -> AsyncIterator[Any]:
        """Begin with the season's list."""
        yield scrapy.Request(self._site + SEASON, callback=self.parse)

    def parse(self, response: Response, **_: Any) -> Iterator[Any]:
        """Follow the list to its shows."""
        assert isinstance(response, TextResponse)
        yield from response.follow_all(css=".season-shows a.navigation__link", callback=self.parse_show)

    def parse_show(self, response: Response) -> Iterator[RunwayGallery]:
        """Take one show: its looks in their largest size, not the guests."""
        state = response.xpath("//script/text()").re_first(r"(?s)__PRELOADED_STATE__ = (\{.*\});")
        if state is None:
            self.logger.error("%s holds no show: has the page another shape now?", response.url)
            return
        show = json.loads(state)["transformed"]["runwayShowGalleries"]
        looks = next(each["items"] for each in show["galleries"] if each["title"] == "Collection")
        yield RunwayGallery(
            title=f"{show['brand']['name']} {show['season']['name']}",
            source="vogue",
            source_url=response.css("link[rel=canonical]::attr(href)").get(response.url),
            brand=show["brand"]["name"],
            season_code=show["season"]["name"],
            images=[PictureItem(response.urljoin(_largest(look)), look["caption"]) for look in looks],
        )


def _largest(look: dict[str, Any]) -> str:
    sources = look["image"]["sources"].values()
    url: str = max(sources, key=lambda source: source["width"])["url"]
    return url
