"""Pages of 50 cards beside a million drafts of each kind: each filter alone, each status with each other."""

from __future__ import annotations

import time
from collections import defaultdict
from typing import Any

from frontrow.review.v1 import draft_pb2, draft_service_pb2_grpc
from frontrow.review.v1 import draft_service_pb2 as pb
from frontrow.worker import Dial

from libs.common import paging
from tests.bench import child
from tests.bench.bed import Bed
from tests.bench.cluster import STATISTICS_SECONDS
from tests.bench.report import Figure
from tests.bench.review import archive

MODULE = "tests.bench.review.lists"
CALL_SECONDS = 30.0
KINDS = {
    "brand_runway_drafts": draft_pb2.GALLERY_KIND_RUNWAY,
    "street_snap_drafts": draft_pb2.GALLERY_KIND_STREET_SNAP,
}
STATUSES = (
    draft_pb2.DRAFT_STATUS_PENDING, draft_pb2.DRAFT_STATUS_APPROVED, draft_pb2.DRAFT_STATUS_REJECTED,
)  # fmt: skip
# Pages begin below these shares of the newest id.
DEPTHS = (1.0, 0.7, 0.3, 0.03)

_NAMES = """
SELECT (array_agg(name ORDER BY drafts DESC))[1] AS common, (array_agg(name ORDER BY drafts))[1] AS rare
FROM (
    SELECT n.name, count(*) AS drafts
    FROM review.{drafts} d JOIN review.{names} n ON n.id = d.{column} GROUP BY 1
) g
"""
_SCANS = """
SELECT sum(seq_scan)::int FROM pg_stat_user_tables
WHERE schemaname = 'review' AND (relname LIKE '%draft%' OR relname = 'media')
"""


async def measure(bed: Bed) -> list[Figure]:
    """List every filter from the newest on and at several depths."""
    url, count = await archive.opened(bed), archive.size(bed)
    shapes = await _shapes(bed)
    given = {"shapes": shapes, "newest": count}
    async with bed.server(url, context="review") as server:
        shown = await bed.client(MODULE, server, calls=1, **given)
    for table, drafts in shown["listed"].items():
        await archive.give_images(bed, table, drafts)
    await bed.cluster.settle(archive.DATABASE)
    before = await _scans(bed)
    async with bed.server(url, context="review") as server:
        ours = await bed.client(MODULE, server, calls=bed.amount(20, 5), **given)
    scans = await _scans(bed) - before
    dear, cheap = await archive.cost_of_indexes(bed)
    slowest = max(ours["shapes"].items(), key=lambda shape: shape[1]["p99_ms"])
    all_together, load = ours["all"], ours["foreign_cores"]
    return [
        Figure(
            f"page of 50 cards at {count:,} drafts of each kind, {len(shapes)} filters and pairs, "
            f"p50 {all_together['p50_ms']:.1f} ms, p99",
            f"{all_together['p99_ms']:.1f} ms", "≤ 15 ms", all_together["p99_ms"] <= 15, load,
            {name: value for name, value in ours.items() if name != "listed"},
        ),
        Figure(
            f"the slowest of them ({slowest[0]}), p99",
            f"{slowest[1]['p99_ms']:.1f} ms", "≤ 15 ms", slowest[1]["p99_ms"] <= 15, load,
        ),
        Figure(
            f"10,000 more drafts in {dear * 1e3:.0f} ms, without the lists' indexes in {cheap * 1e3:.0f} ms: "
            "each draft",
            f"{(dear - cheap) * 100:.0f} µs more",
        ),
        Figure("sequential scans of drafts, images and media meanwhile", f"{scans}", "0", scans == 0, load),
    ]  # fmt: skip


async def _shapes(bed: Bed) -> list[dict[str, Any]]:
    """Return the arguments of the lists: no filter, each filter, and each status with each of the others."""
    connection = await bed.cluster.connect(archive.DATABASE)
    [city] = await connection.fetch(
        _NAMES.format(drafts="street_snap_drafts", names="cities", column="city_id")
    )
    [brand] = await connection.fetch(
        _NAMES.format(drafts="brand_runway_drafts", names="brands", column="brand_id")
    )
    await connection.close()
    common: list[dict[str, Any]] = [
        {},
        {"source": "vogue"},
        {"source": archive.RARE_SOURCE},
        {"show_deleted": True},
    ]
    filters = {
        "brand_runway_drafts": [
            *common, {"brand": brand["common"]}, {"brand": brand["rare"]}, {"season": "FW20"},
        ],
        "street_snap_drafts": [
            *common, {"city": city["common"]}, {"city": city["rare"]}, {"year": 2019}, {"month": 2},
            {"year": 2019, "month": 2},
        ],
    }  # fmt: skip
    return [
        {"kind": kind, **one, **status}
        for table, kind in KINDS.items()
        for one in filters[table]
        for status in ({}, *({"statuses": [status]} for status in STATUSES))
    ]


async def _scans(bed: Bed) -> int:
    """Return the sequential scans so far; the server has stopped, so that all of its are counted."""
    connection = await bed.cluster.connect(archive.DATABASE)
    await connection.execute("SELECT pg_sleep($1)", STATISTICS_SECONDS)
    scans = await connection.fetchval(_SCANS)
    await connection.close()
    return int(scans)


def _requests(shape: dict[str, Any], newest: int) -> list[pb.ListDraftsRequest]:
    requests = []
    for depth in DEPTHS:
        request = pb.ListDraftsRequest(**shape)
        if depth < 1:
            request.page_token = paging.encode_token([int(newest * depth)], request)
        requests.append(request)
    return requests


async def _client(arguments: child.Arguments) -> dict[str, Any]:
    spans: dict[str, list[float]] = defaultdict(list)
    listed: dict[str, set[int]] = defaultdict(set)
    tables = {kind: table for table, kind in KINDS.items()}
    async with Dial(arguments["address"]).aio() as channel:
        stub = draft_service_pb2_grpc.DraftServiceStub(channel)
        plan = [
            (str(shape), request)
            for shape in arguments["shapes"]
            for request in _requests(shape, arguments["newest"])
        ]
        for _, request in plan:  # caches, and the drafts that the pages show
            reply = await stub.ListDrafts(request, timeout=CALL_SECONDS)
            listed[tables[request.kind]].update(int(draft.draft_id) for draft in reply.drafts)
        busy = child.quiet(arguments)
        with child.meter(arguments) as measured:
            for _ in range(arguments["calls"]):
                for name, request in plan:
                    began = time.perf_counter()
                    await stub.ListDrafts(request, timeout=CALL_SECONDS)
                    spans[name].append(time.perf_counter() - began)
    return {
        "shapes": {name: child.spread(values) for name, values in spans.items()},
        "all": child.spread([span for values in spans.values() for span in values]),
        "listed": {table: sorted(ids) for table, ids in listed.items()},
        "busy_before": busy,
        **measured.facts(),
    }


if __name__ == "__main__":
    child.serve(_client)
