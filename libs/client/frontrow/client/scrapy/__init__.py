"""Let a Scrapy spider submit what it finds to Frontrow (install `frontrow-client[scrapy]`).

    ITEM_PIPELINES = {"frontrow.client.scrapy.FrontrowPipeline": 500}
    FRONTROW_INGEST_ADDRESS = "ingest.example:7101"
    FRONTROW_SPIDER_KEY_ID, FRONTROW_SPIDER_SECRET = "fk_…", "…"

and then, in the spider,

    yield RunwayGallery(title=…, source="vogue", source_url=response.url, images=[…], brand=…, season_code=…)
"""

from frontrow.client.scrapy.items import PictureItem, RunwayGallery, StreetSnapGallery
from frontrow.client.scrapy.pipeline import FrontrowPipeline

__all__ = ["FrontrowPipeline", "PictureItem", "RunwayGallery", "StreetSnapGallery"]
