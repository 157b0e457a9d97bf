"""What the processors were doing during a measurement, and who was using them. Standard library only.

The machine is often shared: a figure is worth little without the load of others beside it. `/proc` tells the
busy time of the machine and of every process; what the benchmark's own tree didn't use was foreign.
"""

from __future__ import annotations

import os
import time
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

_TICKS = os.sysconf("SC_CLK_TCK")
QUIET_CORES = 0.15
LOOK_SECONDS = 1.0


def machine_seconds() -> float:
    """Return the processor time spent since boot, all processors together, without idle and stolen time."""
    fields = [int(field) for field in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
    user, nice, system, _idle, _iowait, irq, softirq, _steal = fields
    return (user + nice + system + irq + softirq) / _TICKS


def _processes() -> dict[int, tuple[int, float]]:
    """Return parent and processor time, that of reaped children included, of every process."""
    found = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            stat = (entry / "stat").read_text()
        except OSError:
            continue  # it ended meanwhile
        fields = stat[stat.rindex(")") + 2 :].split()
        found[int(entry.name)] = (int(fields[1]), sum(map(int, fields[11:15])) / _TICKS)
    return found


def tree_seconds(*roots: int) -> list[float]:
    """Return the processor time that each process and its descendants have used."""
    processes = _processes()
    children: dict[int, list[int]] = defaultdict(list)
    for pid, (parent, _) in processes.items():
        children[parent].append(pid)
    totals = []
    for root in roots:
        total, pending = 0.0, [root]
        while pending:
            pid = pending.pop()
            total += processes.get(pid, (0, 0.0))[1]
            pending += children[pid]
        totals.append(total)
    return totals


def resident_bytes(pid: int) -> int:
    """Return the resident memory of one process."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    raise ProcessLookupError(pid)


def wait_quiet(root: int, *, patience_seconds: float) -> float:
    """Wait till others leave the processors alone, at most so long; return the cores they used last.

    `root` is the process whose descendants are not others.
    """
    give_up_at = time.monotonic() + patience_seconds
    while True:
        with Meter({"bench": root}) as meter:
            time.sleep(LOOK_SECONDS if patience_seconds else 0.2)
        if meter.foreign_cores < QUIET_CORES or time.monotonic() > give_up_at:
            return meter.foreign_cores


class Meter:
    """Measures a block: its seconds, the cores each named process tree used, and those others used.

    `roots` names process trees by their first process; the one named `bench` holds all of ours.
    """

    def __init__(self, roots: Mapping[str, int]) -> None:
        self._names = list(roots)
        self._roots = list(roots.values())
        self.seconds = 0.0
        self.cores: dict[str, float] = {}
        self.foreign_cores = 0.0

    def __enter__(self) -> Self:
        self._machine = machine_seconds()
        self._before = tree_seconds(*self._roots)
        self._began = time.perf_counter()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.seconds = time.perf_counter() - self._began
        after = tree_seconds(*self._roots)
        machine = (machine_seconds() - self._machine) / self.seconds
        used = [(now - then) / self.seconds for now, then in zip(after, self._before, strict=True)]
        self.cores = dict(zip(self._names, (round(value, 3) for value in used), strict=True))
        ours = self.cores.get("bench", 0.0)
        self.foreign_cores = round(max(0.0, machine - ours), 2)

    def facts(self) -> dict[str, object]:
        """Return what was measured, for a report."""
        return {"seconds": round(self.seconds, 3), "cores": self.cores, "foreign_cores": self.foreign_cores}
