"""Images a second from a site into the store, beside a bare download loop and Scrapy's pipeline.

The site, the servers, the database, the worker and its decoders share the same processors.
"""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from tests.bench.bed import Bed
from tests.bench.ingest.chain import chain, folder_of, image_site
from tests.bench.load import Meter
from tests.bench.report import Figure, worst_load

WIDTHS = (320, 960)
IMAGES_EACH = 20
ROUNDS = 3
RATE, RATE_WITH_THUMBNAILS = 30, 10
OF_BARE, OF_SCRAPY = 0.8, 1.5

Results = Mapping[str, Sequence[dict[str, Any]]]


async def measure(bed: Bed) -> list[Figure]:
    """Measure all four in turn, a few rounds, against one site."""
    galleries = bed.amount(12, 2)
    results: dict[str, list[dict[str, Any]]] = defaultdict(list)
    async with image_site(bed) as site:
        for _ in range(bed.amount(ROUNDS, 1)):
            results["ours"].append(await _ours(bed, site, galleries, ()))
            results["bare"].append(await _bare(bed, site, galleries))
            results["thumbnails"].append(await _ours(bed, site, galleries // 2, WIDTHS))
            results["scrapy"].append(await _scrapy(bed, site, galleries // 2))
    return _figures(results)


async def _ours(bed: Bed, site: str, galleries: int, widths: Sequence[int]) -> dict[str, Any]:
    async with chain(bed, widths) as running:
        warm = [[f"http://{site}/warm-{g}-{n}.jpg" for n in range(8)] for g in range(2)]
        await running.bring_in(warm)
        wanted = [[f"http://{site}/ours-{g}-{n}.jpg" for n in range(IMAGES_EACH)] for g in range(galleries)]
        busy = bed.wait_quiet()
        with Meter({**bed.pids(), **running.pids}) as measured:
            await running.bring_in(wanted)
    rate = galleries * IMAGES_EACH / measured.seconds
    return {"rate": rate, "busy_before": busy, **measured.facts()}


async def _bare(bed: Bed, site: str, galleries: int) -> dict[str, Any]:
    return await bed.client(
        "tests.bench.ingest.bare_loop", None,
        site=site, images=galleries * IMAGES_EACH, widths=[], folder=str(folder_of(bed, "bare")),
    )  # fmt: skip


async def _scrapy(bed: Bed, site: str, galleries: int) -> dict[str, Any]:
    return await bed.peer(
        "scrapy", "images",
        site=site, galleries=galleries, images_each=IMAGES_EACH, widths=list(WIDTHS),
        folder=str(folder_of(bed, "scrapy")),
    )  # fmt: skip


def _figures(results: Results) -> list[Figure]:
    rate = {name: statistics.median(r["rate"] for r in measured) for name, measured in results.items()}

    def figure(name: str, value: float, unit: str, least: float, *of: str) -> Figure:
        load = worst_load([result for each in of for result in results[each]])
        details = {each: list(results[each]) for each in of}
        return Figure(name, f"{value:.2f}{unit}", f"≥ {least}{unit}", value >= least, load, details)

    peer = results["scrapy"][0]["peer"]
    return [
        figure("2.6 MB JPEGs: download, decode, hashes, fsynced store", rate["ours"], "/s", RATE, "ours"),
        figure("the same with two thumbnails", rate["thumbnails"], "/s", RATE_WITH_THUMBNAILS, "thumbnails"),
        figure(
            f"against a bare loop with the same decode: {rate['bare']:.1f}/s",
            rate["ours"] / rate["bare"], " ×", OF_BARE, "bare",
        ),
        figure(
            f"against the images pipeline of {peer}, same thumbnails: {rate['scrapy']:.1f}/s",
            rate["thumbnails"] / rate["scrapy"], " ×", OF_SCRAPY, "scrapy",
        ),
    ]  # fmt: skip
