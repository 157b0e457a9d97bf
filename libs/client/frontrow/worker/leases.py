"""The runs a worker holds, shared between its event loop and its beat thread."""

from __future__ import annotations

import threading

from frontrow.task.v1 import work_pb2
from frontrow.worker.run import Run


class LeaseBook:
    """Every run from its claim until its finish has been answered. Safe to use from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._runs: dict[tuple[str, int], Run] = {}

    def add(self, run: Run) -> None:
        """Note a run that has just been claimed."""
        with self._lock:
            self._runs[run.task_id, run.version] = run

    def drop(self, task_id: str, version: int) -> None:
        """Forget a run whose finish has been answered."""
        with self._lock:
            self._runs.pop((task_id, version), None)

    def get(self, task_id: str, version: int) -> Run | None:
        """Return the run while it is held, else None."""
        with self._lock:
            return self._runs.get((task_id, version))

    def runs(self) -> list[Run]:
        """Return the runs held now."""
        with self._lock:
            return list(self._runs.values())

    def __len__(self) -> int:
        return len(self._runs)


def lease_of(run: Run) -> work_pb2.Lease:
    """Return the line that names `run` in a beat."""
    lease = work_pb2.Lease(task_id=run.task_id, version=run.version)
    # read once: the handler's thread goes on
    if hundredths := run.hundredths:
        lease.progress, lease.progress_hundredths = divmod(hundredths, 100)
    return lease
