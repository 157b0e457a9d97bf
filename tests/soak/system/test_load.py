"""Twice the load that a server can bear, for a minute: what is let in stays quick, the rest is refused."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.bench import processes

OVERLOAD_SECONDS, MEASURE_SECONDS = 60.0, 8.0
CLIENTS = 2
# Bounded, not quick: callers and server share two processors with the database.
LONGEST_ANSWER_MS, LONGEST_REFUSAL_P50_MS, LONGEST_BEAT_P99_MS = 3_000.0, 500.0, 1_500.0

# A refusal is the server's own, whichever is short: what it waits for (tests/wire/common/test_overload.py) or
# the processor, as here. Where a call costs little more than its refusal, callers on the same processors may
# leave less than the refusals take: then gRPC drops some.
REFUSED = "RESOURCE_EXHAUSTED SERVER_BUSY 1.0"
MOST_DROPPED = 0.1
# The budget of a key is not what is tried.
SETTINGS = {
    "ingest": {
        "FRONTROW_INGEST_SEALING_KEY": "5e" * 32,
        "FRONTROW_INGEST_KEY_CALLS_PER_SECOND": "100000",
        "FRONTROW_INGEST_KEY_BURST": "100000",
    }
}


async def offer(log: Path, **arguments: Any) -> list[dict[str, Any]]:
    """Let some processes call at once; return what each saw."""
    made = [processes.child("tests.soak.system.load", arguments, log=log) for _ in range(CLIENTS)]
    return list(await asyncio.gather(*made))


def total(seen: list[dict[str, Any]], outcome: str) -> float:
    """Return how many calls a second had an outcome, all clients together."""
    return float(sum(each["work"].get(outcome, {}).get("a_second", 0.0) for each in seen))


def worst(seen: list[dict[str, Any]], part: str, outcome: str, figure: str) -> float:
    """Return the worst figure that any client saw of an outcome; 0 where nobody saw it."""
    return float(max(each[part].get(outcome, {}).get(figure, 0.0) for each in seen))


@pytest.mark.timeout(600)
@pytest.mark.parametrize("context", ["task", "review", "ingest"])
async def test_twice_the_load_for_a_minute_is_shed_and_soon_forgotten(
    context: str, database_url: str, tmp_path: Path, share: float, tell: Callable[[object], None]
) -> None:
    module, log = f"services.{context}", tmp_path / "client.log"
    async with processes.context_server(
        database_url, log=tmp_path / "server.log", module=module, context=context,
        **SETTINGS.get(context, {}),
    ) as server:  # fmt: skip
        facts: dict[str, Any] = {"address": server.address, "what": context}
        alone = await offer(log, a_second=0, seconds=MEASURE_SECONDS, **facts)
        capacity = total(alone, "answered")
        seconds = max(5.0, OVERLOAD_SECONDS * share)
        seen = await offer(log, a_second=2 * capacity / CLIENTS, seconds=seconds, **facts)
        after = await offer(log, a_second=capacity / 3 / CLIENTS, seconds=MEASURE_SECONDS, **facts)
    tell(f"{context}: {capacity:.0f} calls/s at most; at twice that for {seconds:g} s:")
    tell(seen)
    tell(f"afterwards, at a third: {after}")
    assert total(seen, "refused") > 0
    assert total(seen, "failed") == 0, seen
    told = set().union(*(each["work"]["told"] for each in seen))
    assert REFUSED in told
    assert total(seen, "dropped") <= MOST_DROPPED * total(seen, "refused"), seen
    assert worst(seen, "work", "answered", "max_ms") <= LONGEST_ANSWER_MS
    assert worst(seen, "work", "refused", "p50_ms") <= LONGEST_REFUSAL_P50_MS
    assert worst(seen, "beats", "answered", "p99_ms") <= LONGEST_BEAT_P99_MS
    assert not any(set(each["beats"]) - {"answered", "told"} for each in seen), seen
    assert not any(total(after, bad) for bad in ("refused", "dropped", "failed")), after
