"""The memory of a process tree while something runs: shared pages are divided among those who share them."""

from __future__ import annotations

import asyncio
import contextlib
from collections import defaultdict
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

LOOK_SECONDS = 0.25


@dataclass
class Peak:
    """The most that was seen."""

    bytes: int = 0


@asynccontextmanager
async def watching(roots: Iterable[int]) -> AsyncIterator[Peak]:
    """Look at the trees below some processes every quarter of a second for the length of the block."""
    peak, roots = Peak(), tuple(roots)

    async def look() -> None:
        while True:
            peak.bytes = max(peak.bytes, await asyncio.to_thread(tree_bytes, roots))
            await asyncio.sleep(LOOK_SECONDS)

    looking = asyncio.create_task(look())
    try:
        yield peak
    finally:
        looking.cancel()
        await asyncio.gather(looking, return_exceptions=True)


def tree_bytes(roots: Iterable[int]) -> int:
    """Return the proportional memory of processes and all their descendants."""
    children: dict[int, list[int]] = defaultdict(list)
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                stat = (entry / "stat").read_text()
                children[int(stat[stat.rindex(")") + 2 :].split()[1])].append(int(entry.name))
    total, pending = 0, list(roots)
    while pending:
        pid = pending.pop()
        pending += children[pid]
        total += _bytes(pid)
    return total


def _bytes(pid: int) -> int:
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    return 0
