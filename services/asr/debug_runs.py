"""Decide which runs' debug records are kept: pure functions (domain.md 2.6)."""

import datetime as dt
from collections.abc import Iterable
from dataclasses import dataclass
from uuid import UUID

FAILED_KEPT = dt.timedelta(days=30)


@dataclass(frozen=True, slots=True)
class KeptRun:
    """A run that has a record; `outcome` is running, completed or failed."""

    material_id: UUID
    asr_version: int
    outcome: str
    pinned: bool
    started_at: dt.datetime
    size_bytes: int


def to_remove(
    runs: Iterable[KeptRun], now: dt.datetime, *, newest: int = 20, total_bytes: int = 2 << 30
) -> list[KeptRun]:
    """Return the runs whose records go.

    Kept whatever they weigh: pinned ones, running ones, and each material's last failed run for 30 days. Of
    the others the `newest` newest are kept, as long as all that is kept weighs at most `total_bytes`.
    """
    ordered = sorted(runs, key=lambda run: (run.started_at, run.asr_version), reverse=True)
    protected: set[tuple[UUID, int]] = set()
    failed_seen: set[UUID] = set()
    for run in ordered:
        last_failed = run.outcome == "failed" and run.material_id not in failed_seen
        if run.outcome == "failed":
            failed_seen.add(run.material_id)
        if run.pinned or run.outcome == "running" or (last_failed and now - run.started_at <= FAILED_KEPT):
            protected.add((run.material_id, run.asr_version))
    weight = sum(run.size_bytes for run in ordered if (run.material_id, run.asr_version) in protected)
    removed: list[KeptRun] = []
    kept = 0
    full = False
    for run in ordered:
        if (run.material_id, run.asr_version) in protected:
            continue
        # the first that doesn't fit ends it: an older record is never kept in place of a newer one
        full = full or kept >= newest or weight + run.size_bytes > total_bytes
        if full:
            removed.append(run)
        else:
            kept += 1
            weight += run.size_bytes
    return removed
