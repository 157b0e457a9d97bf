"""The most memory that the worker and its decoders ever hold, whatever they are given.

The images come from as many hosts as it takes to have all downloads of all galleries at once, and go into a
local folder, then into S3.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path

from tests.bench import processes
from tests.bench.bed import Bed
from tests.bench.ingest.chain import chain, folder_of
from tests.bench.ingest.images import WIDTHS
from tests.bench.ingest.worst_images import make
from tests.bench.report import Figure
from tests.integration.objects.servers import seaweedfs_endpoint, store_url

WORKER_BYTES, DECODER_BYTES = 400_000_000, 800_000_000
LOOK_SECONDS = 0.02
# A worker opens 8 connections to a host, for 4 galleries of 8 downloads each.
HOSTS = ("127.0.0.1", "127.0.0.2", "127.0.0.3", "127.0.0.4")


async def measure(bed: Bed) -> list[Figure]:
    """Bring in the worst images, several galleries at once, and note the largest size of each process."""
    names = await asyncio.to_thread(make, bed.folder / "worst")
    async with _site(bed) as sites:
        figures = await _into(bed, sites, names)
        with seaweedfs_endpoint(folder_of(bed, "weed")) as endpoint:
            figures += await _into(bed, sites, names, store=store_url(endpoint, "images"), where=", into S3")
    return figures


async def _into(
    bed: Bed, sites: Sequence[str], names: Sequence[str], *, store: str = "", where: str = ""
) -> list[Figure]:
    async with chain(bed, WIDTHS, store=store) as running:
        await running.bring_in([[f"http://{sites[0]}/warm/turned.jpg"]])
        watch = Watch(running.pids["worker"])
        watching = asyncio.create_task(watch.run())
        for turn in range(bed.amount(3, 1)):
            # each kind in a gallery of its own beside all in one: decoders meet every order
            site_of = dict(zip(names, itertools.cycle(sites), strict=False))
            apart = [[f"http://{site_of[name]}/{turn}/{name}"] for name in names]
            together = [[f"http://{site}/{turn}/all/{name}" for name in names] for site in sites]
            await running.bring_in([*apart, *together], may_fail=True)
        watching.cancel()
        rows = await running.connection.fetch(
            "SELECT split_part(i.message || ' ' || i.reason, ':', 1) AS said, count(*) AS n"
            " FROM ingest.job_images i GROUP BY 1"
        )
    return watch.figures({row["said"].strip() or "stored": row["n"] for row in rows}, where)


class Watch:
    """Looks at a worker and its children again and again; the kernel keeps the highest size of each."""

    def __init__(self, worker_pid: int) -> None:
        self._worker = worker_pid
        self._peaks: dict[int, int] = {}

    async def run(self) -> None:
        """Look until cancelled."""
        while True:
            for pid in (self._worker, *_children(self._worker)):
                with contextlib.suppress(OSError, ValueError):
                    self._peaks[pid] = _peak_bytes(pid)
            await asyncio.sleep(LOOK_SECONDS)

    def figures(self, outcomes: Mapping[str, int], where: str) -> list[Figure]:
        """Return both figures; `where` ends their names."""
        worker = self._peaks[self._worker]
        decoders = sorted((size for pid, size in self._peaks.items() if pid != self._worker), reverse=True)
        details = {"outcomes": dict(outcomes), "decoders": decoders}
        return [
            _figure(f"worker, worst images{where}", [worker], WORKER_BYTES, details),
            _figure(
                f"the largest of {len(decoders)} decoders, worst images{where}",
                decoders,
                DECODER_BYTES,
                details,
            ),
        ]


def _figure(name: str, sizes: Sequence[int], most: int, details: dict[str, object]) -> Figure:
    return Figure(
        name, f"{sizes[0] / 1e6:.0f} MB", f"≤ {most / 1e6:.0f} MB", sizes[0] <= most, details=details
    )


def _children(pid: int) -> list[int]:
    text = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    return [int(child) for child in text.split()]


def _peak_bytes(pid: int) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    raise ValueError(f"process {pid} is a zombie")


@contextlib.asynccontextmanager
async def _site(bed: Bed) -> AsyncIterator[list[str]]:
    address = processes.free_address()
    host, _, port = address.rpartition(":")
    arguments = (port, str(bed.folder / "worst"), *HOSTS)
    log = bed.folder / "site.log"
    async with processes.program("tests.bench.ingest.worst_images", *arguments, environment={}, log=log):
        for _ in range(300):
            with contextlib.suppress(OSError):
                _, writer = await asyncio.open_connection(host, int(port))
                writer.close()
                break
            await asyncio.sleep(0.1)
        yield [f"{each}:{port}" for each in HOSTS]
