"""A spider for street-style articles, in the shape of a blog whose pictures load when they are scrolled to.

scrapy runspider samples/spiders/street_snap.py -a site=http://127.0.0.1:8765
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterator
from typing import Any

import scrapy
from frontrow.client.scrapy import PictureItem, StreetSnapGallery
from parsel import Selector
from scrapy.http import Response, TextResponse

CATEGORY = "/category/street-style/"


class StreetSnapSpider(scrapy.Spider):
    """Follows a category to its articles, and takes each article's pictures."""

    name = "street_snap"
    custom_settings = {  # noqa: RUF012 - Scrapy reads it from the class
        "ITEM_PIPELINES": {"frontrow.client.scrapy.FrontrowPipeline": 500}
    }

    def __init__(self, site: str = "http://127.0.0.1:8765", **arguments: Any) -> None:
        """Crawl the recorded pages at `site`."""
        super().__init__(**arguments)
        self._site = site

    async def start(self) -> AsyncIterator[Any]:
        """Begin with the category."""
        yield scrapy.Request(self._site + CATEGORY, callback=self.parse)

    def parse(self, response: Response, **_: Any) -> Iterator[Any]:
        """Follow the category to its articles."""
        assert isinstance(response, TextResponse)
        yield from response.follow_all(css="h2.entry-title a", callback=self.parse_article)

    def parse_article(self, response: Response) -> Iterator[StreetSnapGallery]:
        """Take one article. It says no year that can be trusted: the pipeline fills in the crawl's own."""
        title = response.css("h1.entry-title::text").get("").strip()
        city = re.search(r"From (?P<city>.+?) Fashion Week", title)
        yield StreetSnapGallery(
            title=title,
            source="theimpression",
            source_url=response.css("link[rel=canonical]::attr(href)").get(response.url),
            city=city["city"] if city else "",
            images=[
                PictureItem(response.urljoin(_address(figure)), _caption(figure))
                for figure in response.css("figure.wp-block-image")
            ],
        )


def _address(figure: Selector) -> str:
    """Return the largest address: the last of a set, else the one to load later, else the one there is."""
    candidates = figure.css("img::attr(data-srcset)").get("").split(",")
    largest = candidates[-1].split()
    if largest:
        return largest[0]
    return figure.css("img::attr(data-src)").get() or figure.css("img::attr(src)").get("")


def _caption(figure: Selector) -> str:
    return figure.css("figcaption::text").get() or figure.css("img::attr(alt)").get("")
