"""The most memory that the worker and its decoders ever hold, whatever they are given."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path

from tests.bench import processes
from tests.bench.bed import Bed
from tests.bench.ingest.chain import chain
from tests.bench.ingest.images import WIDTHS
from tests.bench.ingest.worst_images import make
from tests.bench.report import Figure

WORKER_BYTES, DECODER_BYTES = 400_000_000, 800_000_000
LOOK_SECONDS = 0.02


async def measure(bed: Bed) -> list[Figure]:
    """Bring in the worst images, several galleries at once, and note the largest size of each process."""
    names = await asyncio.to_thread(make, bed.folder / "worst")
    rounds = bed.amount(3, 1)
    async with _site(bed) as site, chain(bed, WIDTHS) as running:
        await running.bring_in([[f"http://{site}/warm/turned.jpg"]])
        watch = Watch(running.worker_pid)
        watching = asyncio.create_task(watch.run())
        for turn in range(rounds):
            # each kind in a gallery of its own beside all in one: decoders meet every order
            apart = [[f"http://{site}/{turn}/{name}"] for name in names]
            together = [[f"http://{site}/{turn}-{g}/{name}" for name in names] for g in range(2)]
            await running.bring_in([*apart, *together], may_fail=True)
        watching.cancel()
        rows = await running.connection.fetch(
            "SELECT split_part(i.message || ' ' || i.reason, ':', 1) AS said, count(*) AS n"
            " FROM ingest.job_images i GROUP BY 1"
        )
    return watch.figures({row["said"].strip() or "stored": row["n"] for row in rows})


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

    def figures(self, outcomes: Mapping[str, int]) -> list[Figure]:
        """Return both figures."""
        worker = self._peaks[self._worker]
        decoders = sorted((size for pid, size in self._peaks.items() if pid != self._worker), reverse=True)
        details = {"outcomes": dict(outcomes), "decoders": decoders}
        return [
            _figure("worker, worst images", [worker], WORKER_BYTES, details),
            _figure(
                f"the largest of {len(decoders)} decoders, worst images", decoders, DECODER_BYTES, details
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
async def _site(bed: Bed) -> AsyncIterator[str]:
    address = processes.free_address()
    arguments = (address, str(bed.folder / "worst"))
    log = bed.folder / "site.log"
    async with processes.program("tests.bench.ingest.worst_images", *arguments, environment={}, log=log):
        host, _, port = address.rpartition(":")
        for _ in range(300):
            with contextlib.suppress(OSError):
                _, writer = await asyncio.open_connection(host, int(port))
                writer.close()
                break
            await asyncio.sleep(0.1)
        yield address
