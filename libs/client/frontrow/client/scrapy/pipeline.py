"""The item pipeline: submits each gallery, and drops those that Frontrow refuses."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, TypeVar

import grpc
from frontrow.client.aio import AsyncSpiderClient
from frontrow.client.refusal import Refused
from frontrow.client.retry import Submission
from frontrow.client.scrapy.batch import Batch, is_gallery
from frontrow.client.scrapy.configuration import Configuration
from frontrow.ingest.v1 import gallery_pb2
from itemadapter import ItemAdapter
from scrapy.exceptions import DropItem
from scrapy.utils.asyncio import is_asyncio_available

if TYPE_CHECKING:
    from scrapy import Spider
    from scrapy.crawler import Crawler

log = logging.getLogger(__name__)

Item = TypeVar("Item")

# Codes that are the item's own fault. Of anything else no item is to blame: it is an error, not a drop.
_ITEMS_FAULT = {grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.ALREADY_EXISTS}


class FrontrowPipeline:
    """Submits galleries, signed, while the crawl goes on. Other items pass through as they are.

    Counts `frontrow/accepted`, `frontrow/known` (this crawl submitted the article before), `frontrow/refused`
    with `frontrow/refused/REASON`, and `frontrow/failed` (no answer within the deadline, or a key that
    doesn't work). An item is tried for FRONTROW_DEADLINE_SECONDS (300), the same id each time.
    """

    def __init__(self, crawler: Crawler, configuration: Configuration) -> None:
        self._crawler = crawler
        self._configuration = configuration
        self._under_way: set[asyncio.Future[Submission]] = set()
        self._batch = Batch()
        self._client: AsyncSpiderClient | None = None

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> FrontrowPipeline:
        """Make the pipeline of a crawl. Raises ValueError when a setting is missing."""
        return cls(crawler, Configuration.read(crawler.settings))

    async def open_spider(self, spider: Spider | None = None) -> None:
        """Take the crawl's time, once, and connect. Raises RuntimeError on a reactor that isn't asyncio's."""
        if not is_asyncio_available():
            raise RuntimeError(
                "FrontrowPipeline needs the asyncio reactor: leave TWISTED_REACTOR as Scrapy has it"
            )
        given = self._configuration
        self._batch = Batch(given.batch) if given.batch else Batch()
        self._client = AsyncSpiderClient(
            given.dial, key_id=given.key_id, secret=given.secret, deadline_seconds=given.deadline_seconds
        )

    async def process_item(self, item: Item, spider: Spider | None = None) -> Item:
        """Submit a gallery and return the item, with its `job_id` where it has such a field.

        Raises:
            DropItem: Frontrow refuses the gallery; it says which field is wrong.
            Refused: no fault of the item's.
        """
        if not is_gallery(item):
            return item
        try:
            gallery = self._batch.gallery(item)
        except (ValueError, TypeError, KeyError) as error:
            self._count("refused", "MALFORMED")
            raise DropItem(f"no gallery can be made of the item: {error!r}") from error
        try:
            submission = await self._submit(gallery)
        except Refused as refused:
            if refused.code in _ITEMS_FAULT:
                self._count("refused", refused.reason or refused.code.name)
                raise DropItem(_words(gallery, refused)) from refused
            self._count("failed", refused.reason or refused.code.name)
            raise
        self._count("accepted" if submission.accepted else "known")
        log.debug("submitted %s as job %s", gallery.source_url, submission.job_id)
        adapter = ItemAdapter(item)
        if "job_id" in adapter.field_names():
            adapter["job_id"] = submission.job_id
        return item

    async def close_spider(self, spider: Spider | None = None) -> None:
        """Wait for what is still under way, then disconnect."""
        if self._under_way:
            await asyncio.wait(self._under_way)
        if self._client is not None:
            await self._client.close()

    async def _submit(self, gallery: gallery_pb2.Gallery) -> Submission:
        assert self._client is not None
        request_id = self._batch.request_id(gallery)
        submitting = asyncio.ensure_future(self._client.submit(gallery, request_id=request_id))
        self._under_way.add(submitting)
        submitting.add_done_callback(self._under_way.discard)
        return await submitting

    def _count(self, what: str, reason: str = "") -> None:
        stats = self._crawler.stats
        assert stats is not None
        stats.inc_value(f"frontrow/{what}")
        if reason:
            stats.inc_value(f"frontrow/{what}/{reason}")


def _words(gallery: gallery_pb2.Gallery, refused: Refused) -> str:
    """Say what was refused and why, with every field at fault."""
    faults = "; ".join(f"{fault.field}: {fault.description}" for fault in refused.violations)
    return f"Frontrow refused {gallery.source_url or gallery.title!r}: {faults or refused}"
