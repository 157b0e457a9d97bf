"""The Scrapy pipeline in real crawls: `scrapy runspider` against a real Frontrow server and a local site."""

from __future__ import annotations

import asyncio
import json
import socket
from collections import Counter
from pathlib import Path
from typing import Any

from aiohttp import web
from frontrow.ingest.v1 import ingest_job_pb2, ingest_service_pb2
from frontrow.review.v1 import draft_pb2

from libs.common.context_server import ContextServer
from libs.common.testing import eventually
from samples.spiders.site import application
from services.ingest.mount import mount
from tests.integration.ingest.chain import Chain
from tests.integration.ingest.conftest import Ingest, common_settings, ingest_settings
from tests.integration.ingest.crawl import PROBE, crawl, served

STREET = draft_pb2.GALLERY_KIND_STREET_SNAP


def show(number: int, **changes: Any) -> dict[str, Any]:
    url = f"https://probe.example/{number}"
    values = {"title": f"秀 {number}", "source": "probe", "source_url": url, "brand": "Gucci"}
    return {
        **values,
        "season_code": "FW26",
        "images": [{"url": f"{url}.jpg", "caption": "Look 1"}],
        **changes,
    }


def page() -> web.Application:
    async def answer(_: web.Request) -> web.Response:
        return web.Response(text="<html></html>", content_type="text/html")

    site = web.Application()
    site.router.add_get("/", answer)
    return site


def key(ingest: Ingest, **changes: str) -> dict[str, str]:
    return {
        "FRONTROW_INGEST_ADDRESS": ingest.address,
        "FRONTROW_SPIDER_KEY_ID": ingest.key_id,
        "FRONTROW_SPIDER_SECRET": ingest.secret,
        **changes,
    }


async def jobs_of(ingest: Ingest, source: str) -> list[ingest_job_pb2.IngestJob]:
    request = ingest_service_pb2.ListIngestJobsRequest(source=source, page_size=1000)
    return [j for j in (await ingest.stub.ListIngestJobs(request)).jobs if j.spider_id == ingest.spider_id]


Jobs = dict[str, ingest_job_pb2.IngestJob]


async def both_spiders(chain: Chain, site: str, folder: Path) -> Jobs:
    """Crawl the recorded pages by both example spiders at once; return the ended jobs by title."""
    crawls = [
        crawl(f"samples/spiders/{name}.py", folder / name, "-a", f"site={site}", **key(chain.ingest))
        for name in ("runway_show", "street_snap")
    ]
    found = await asyncio.gather(*crawls)
    accepted = [(each.code, each.stats.get("frontrow/accepted")) for each in found]
    assert accepted == [(0, 2), (0, 1)], [each.log for each in found]
    items = [item for each in found for item in each.items]
    return {item["title"]: await chain.ended(item["job_id"]) for item in items}


async def test_the_example_spiders_bring_their_articles_in_and_a_second_crawl_is_skipped(
    chain: Chain, tmp_path: Path
) -> None:
    hits: Counter[str] = Counter()
    await chain.work()
    async with served(application(hits)) as site:
        first = await both_spiders(chain, site, tmp_path / "first")
        fetched = {path: count for path, count in hits.items() if path.startswith("/photos/")}
        second = await both_spiders(chain, site, tmp_path / "second")
    assert {job.done_reason for job in first.values()} == {ingest_job_pb2.DONE_REASON_CREATED}, first
    assert {job.done_reason for job in second.values()} == {ingest_job_pb2.DONE_REASON_SOURCE_DUPLICATE}
    assert {t: job.blocker.id for t, job in second.items()} == {t: job.draft_id for t, job in first.items()}
    # the second crawl downloaded no picture
    assert {path: count for path, count in hits.items() if path.startswith("/photos/")} == fetched
    acne = await chain.draft(first["Acne Studios Fall 2026 Ready-to-Wear"].draft_id)
    assert [image.caption for image in acne.images] == ["Look 1", "Look 2", "Look 3 — finale"]
    assert acne.source_url == "https://runway.example/fashion-shows/fall-2026-ready-to-wear/acne-studios"
    article = first["The Best Street Style From Copenhagen Fashion Week"]
    street = await chain.draft(article.draft_id, STREET)
    submitted = article.create_time.ToDatetime()
    key_texts = (street.street_snap.city, street.street_snap.year, street.street_snap.month)
    assert key_texts == ("Copenhagen", submitted.year, submitted.month)
    captions = [image.caption for image in street.images]
    assert captions == ["Outside the first show", "Coffee between two shows", ""]


async def test_each_item_of_a_crawl_gets_its_own_answer_and_only_the_refused_one_is_dropped(
    ingest: Ingest, tmp_path: Path
) -> None:
    items = tmp_path / "items.json"
    as_dict = {
        **show(3),
        "kind": "runway",
        "dict": True,
        "images": ["https://probe.example/3.jpg"],
        "job_id": "",
    }
    bad = show(4, images=[{"url": "https://probe.example/4.jpg"}, {"url": "ftp://probe.example/5.jpg"}])
    malformed = show(5, images=[17])
    items.write_text(
        json.dumps([show(1), show(2), show(1), as_dict, {"plain": "no gallery"}, bad, malformed])
    )
    async with served(page()) as site:
        found = await crawl(PROBE, tmp_path, "-a", f"items={items}", "-a", f"page={site}/", **key(ingest))
    assert found.code == 0, found.log
    counted = {name: value for name, value in found.stats.items() if name.startswith("frontrow/")}
    assert counted == {
        "frontrow/accepted": 3,
        "frontrow/known": 1,
        "frontrow/refused": 2,
        "frontrow/refused/INVALID_ARGUMENT": 1,
        "frontrow/refused/MALFORMED": 1,
    }, found.log
    assert "gallery.images[1].url: must be an http or https address" in found.log
    assert found.stats["item_dropped_count"] == 2
    jobs = {job.source_url: job.job_id for job in await jobs_of(ingest, "probe")}
    got_through = [
        (item.get("source_url"), item.get("job_id")) for item in found.items if "plain" not in item
    ]
    assert sorted(got_through) == sorted(
        [*jobs.items(), (show(1)["source_url"], jobs[show(1)["source_url"]])]
    )
    assert {"plain": "no gallery"} in found.items


async def test_nothing_is_lost_when_the_server_comes_up_after_the_crawl_has_found_everything(
    ingest: Ingest, database_url: str, tmp_path: Path
) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{probe.getsockname()[1]}"
    items, begun = tmp_path / "items.json", tmp_path / "begun"
    items.write_text(json.dumps([show(n) for n in range(150)]))
    async with served(page()) as site:
        arguments = ("-a", f"items={items}", "-a", f"page={site}/", "-a", f"begun={begun}")
        environment = key(ingest, FRONTROW_INGEST_ADDRESS=address)
        crawling = asyncio.ensure_future(crawl(PROBE, tmp_path, *arguments, **environment))

        async def has_begun() -> bool:
            return begun.exists()

        await eventually(has_begun, 30.0)
        common = common_settings(database_url, task_address="127.0.0.1:9")
        server = ContextServer("ingest", address, await mount(ingest_settings(), common))
        await server.start()
        try:
            found = await crawling
        finally:
            await server.stop(grace_seconds=1.0)
    assert found.stats["frontrow/accepted"] == 150, found.log
    assert found.stats["response_received_count"] == 6  # it went on crawling meanwhile
    assert "frontrow/failed" not in found.stats
    assert len(await jobs_of(ingest, "probe")) == 150


async def test_a_key_that_does_not_work_is_an_error_of_no_items_and_a_missing_one_stops_the_crawl(
    ingest: Ingest, tmp_path: Path
) -> None:
    items = tmp_path / "items.json"
    items.write_text(json.dumps([show(1)]))
    async with served(page()) as site:
        arguments = ("-a", f"items={items}", "-a", f"page={site}/")
        wrong, missing = await asyncio.gather(
            crawl(PROBE, tmp_path / "wrong", *arguments, **key(ingest, FRONTROW_SPIDER_KEY_ID="fk_none")),
            crawl(PROBE, tmp_path / "missing", *arguments, **key(ingest, FRONTROW_SPIDER_SECRET="")),
        )
    assert wrong.stats["frontrow/failed/UNKNOWN_KEY"] == 1, wrong.log
    assert "item_dropped_count" not in wrong.stats
    assert wrong.items == []
    assert "FRONTROW_SPIDER_SECRET: not set" in missing.log
    assert missing.stats.get("response_received_count", 0) == 0
    assert ingest.secret not in wrong.log
