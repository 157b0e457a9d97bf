"""Approvals of drafts with 60 images at keys with five approved siblings, beside the same SQL by pgbench."""

from __future__ import annotations

import asyncio
import shutil
import time
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from frontrow.review.v1 import draft_pb2, draft_service_pb2_grpc
from frontrow.review.v1 import draft_service_pb2 as pb
from frontrow.worker import Dial

from libs.common.interceptors.context import ACTOR_KEY, encode_actor
from tests.bench import child
from tests.bench.bed import Bed
from tests.bench.report import Figure, worst_load
from tests.bench.review import galleries, scripts

MODULE = "tests.bench.review.approve"
DATABASE = "approve"
EDITORS = 16
CALL_SECONDS = 30.0
WARM_TURNS = 8
GAP_MS = 700


async def one_editor(bed: Bed) -> list[Figure]:
    """Approve at one key after the other."""
    count = bed.amount(500, 100)
    url, waiting = await _fill(bed, keys=WARM_TURNS * 4 + count, waiting=1)
    async with bed.server(url, context="review") as server:
        ours = await bed.client(MODULE, server, warm=waiting[:-count], turns=waiting[-count:])
    return [
        Figure(
            f"approve {galleries.IMAGES} images beside {galleries.SIBLINGS} siblings, one editor, p50 / p99",
            f"{ours['p50_ms']:.1f} / {ours['p99_ms']:.1f} ms", "≤ 15 / 60 ms",
            ours["p50_ms"] <= 15 and ours["p99_ms"] <= 60, ours["foreign_cores"], ours,
        )
    ]  # fmt: skip


async def hot(bed: Bed) -> list[Figure]:
    """Let 16 editors approve at one key at the same moment, at key after key."""
    turns = WARM_TURNS + bed.amount(40, 10)
    url, waiting = await _fill(bed, keys=2 * turns, waiting=EDITORS)
    theirs = await _pgbench(bed, scripts.one_key_together(), first_key=turns, turns=turns, waiting=EDITORS)
    async with bed.server(url, context="review") as server:
        ours = await bed.client(
            MODULE, server, warm=waiting[:WARM_TURNS], turns=waiting[WARM_TURNS:turns]
        )  # fmt: skip
    ratio = ours["p50_ms"] / theirs["p50_ms"]
    return [
        Figure(
            f"{EDITORS} editors at one key: p50 {ours['p50_ms']:.0f} ms, "
            f"the same SQL by pgbench {theirs['p50_ms']:.0f} ms",
            f"{ratio:.2f} ×", "≤ 2.00 ×", ratio <= 2.0, worst_load([ours, theirs]),
            {"ours": ours, "pgbench": theirs},
        )
    ]  # fmt: skip


async def many(bed: Bed) -> list[Figure]:
    """Let 16 callers approve, each at keys of its own."""
    turns = WARM_TURNS + bed.amount(40, 20)
    url, waiting = await _fill(bed, keys=2 * turns * EDITORS, waiting=1)
    drafts = [ids[0] for ids in waiting[: turns * EDITORS]]
    warm, measured = drafts[: WARM_TURNS * EDITORS], drafts[WARM_TURNS * EDITORS :]
    theirs = await _pgbench(bed, scripts.distinct_keys(), first_key=len(drafts), turns=turns, waiting=1)
    async with bed.server(url, context="review") as server:
        ours = await bed.client(
            MODULE, server, warm=[warm[i::WARM_TURNS] for i in range(WARM_TURNS)],
            callers=[measured[i::EDITORS] for i in range(EDITORS)],
        )  # fmt: skip
    ratio = ours["rate"] / theirs["rate"]
    return [
        Figure(
            f"approvals a second on distinct keys, {EDITORS} callers: {ours['rate']:.0f}, "
            f"the same SQL by pgbench: {theirs['rate']:.0f}",
            f"{ratio:.2f} ×", "≥ 0.30 ×", ratio >= 0.3, worst_load([ours, theirs]),
            {"ours": ours, "pgbench": theirs},
        )
    ]  # fmt: skip


async def _fill(bed: Bed, *, keys: int, waiting: int) -> tuple[str, list[list[int]]]:
    """Return the database's URL and, by key, the drafts that wait."""
    url = await bed.cluster.make_context_database(DATABASE, "review")
    connection = await bed.cluster.connect(DATABASE)
    await connection.execute(scripts.SPANS)
    drafts = await galleries.fill(connection, keys=keys, waiting=waiting)
    await connection.close()
    await bed.cluster.settle(DATABASE)
    return url, drafts


async def _pgbench(bed: Bed, script: str, *, first_key: int, turns: int, waiting: int) -> dict[str, Any]:
    """Run a script with all editors as its clients; return the rate, and the spans that the script notes.

    Both leave out the first turns, in which plans are made and caches fill, as they are left out of ours.
    """
    connection = await bed.cluster.connect(DATABASE)
    path, logs = bed.folder / "approve.sql", bed.folder / "pgbench"
    path.write_text(script)
    shutil.rmtree(logs, ignore_errors=True)
    logs.mkdir()
    quiet = await asyncio.to_thread(bed.wait_quiet)
    variables = {
        "turn": -1, "turns": turns, "start": int(time.time()) + 3, "gap_ms": GAP_MS, "first_key": first_key,
        "first": galleries.SIBLINGS + 1, "drafts": galleries.SIBLINGS + waiting,
        "city_id": await galleries.city_of(connection),
    }  # fmt: skip
    given = [part for name, value in variables.items() for part in ("-D", f"{name}={value}")]
    with bed.meter() as measured:
        await bed.cluster.pgbench(
            DATABASE, "-n", "-M", "prepared", "-c", str(EDITORS), "-j", "2", "-t", str(turns),
            *given, "-f", str(path), "-l", f"--log-prefix={logs / 'turns'}",
        )  # fmt: skip
    spans = await connection.fetch("SELECT seconds FROM spans WHERE turn >= $1", WARM_TURNS)
    await connection.close()
    facts = {"rate": _rate(logs), "busy_before": quiet, **measured.facts()}
    return {**facts, **(child.spread([row["seconds"] for row in spans]) if spans else {})}


def _rate(logs: Path) -> float:
    """Return the turns a second from where every client was warm to where the first had none left."""
    ends: dict[str, list[float]] = defaultdict(list)
    for line in "".join(path.read_text() for path in logs.iterdir()).splitlines():
        client, _turn, _took, _script, second, micros = line.split()[:6]
        ends[client].append(int(second) + int(micros) / 1e6)
    began = max(sorted(turns)[WARM_TURNS - 1] for turns in ends.values())
    ended = min(max(turns) for turns in ends.values())
    return round(sum(began < end <= ended for turns in ends.values() for end in turns) / (ended - began), 1)


async def _client(arguments: child.Arguments) -> dict[str, Any]:
    spans: list[float] = []
    metadata = ((ACTOR_KEY, encode_actor("Anna")),)
    async with Dial(arguments["address"]).aio() as channel:
        stub = draft_service_pb2_grpc.DraftServiceStub(channel)

        async def approve(draft_id: int) -> None:
            request = pb.ApproveDraftRequest(
                kind=draft_pb2.GALLERY_KIND_STREET_SNAP, draft_id=str(draft_id), etag=f"s{draft_id}-1"
            )
            began = time.perf_counter()
            reply = await stub.ApproveDraft(request, timeout=CALL_SECONDS, metadata=metadata)
            spans.append(time.perf_counter() - began)
            if len(reply.draft.images) != galleries.IMAGES or reply.published:
                raise RuntimeError(f"draft {draft_id} was not merged into the official row that was there")

        async def one_by_one(drafts: Sequence[int]) -> None:
            for draft_id in drafts:
                await approve(draft_id)

        for together in arguments["warm"]:
            await asyncio.gather(*map(approve, together))
        spans.clear()
        busy = child.quiet(arguments)
        with child.meter(arguments) as measured:
            for together in arguments.get("turns", ()):
                await asyncio.gather(*map(approve, together))
            await asyncio.gather(*map(one_by_one, arguments.get("callers", ())))
    return {
        "rate": round(len(spans) / measured.seconds, 1),
        **child.spread(spans),
        "busy_before": busy,
        **measured.facts(),
    }


if __name__ == "__main__":
    child.serve(_client)
