"""Remove the debug records that nobody needs any more, bounded in number and in bytes (domain.md 2.6)."""

import structlog

from libs.common.db import Database
from libs.common.loops import Periodic
from libs.common.objects import ObjectStore
from services.asr import repository_debug, repository_leftovers
from services.asr.debug_records import record_prefix
from services.asr.debug_runs import KeptRun, to_remove

log = structlog.get_logger(__name__)


class DebugCleanup(Periodic):
    """Weighs the runs' records and removes what is too old or too much."""

    def __init__(
        self,
        database: Database,
        store: ObjectStore,
        *,
        interval_seconds: float,
        newest: int,
        total_bytes: int,
    ) -> None:
        super().__init__("asr.debug_cleanup", interval_seconds, self.step)
        self._database = database
        self._store = store
        self._newest = newest
        self._total_bytes = total_bytes
        # a run's record never changes after its end, so it is weighed once
        self._weights: dict[str, int] = {}

    async def step(self) -> None:
        """Decide and remove; no transaction is open while the store works."""
        async with self._database.begin() as session:
            rows = await repository_debug.all_runs(session)
        if not rows:
            return
        runs = [
            KeptRun(
                material_id=row.material_id,
                asr_version=row.asr_version,
                outcome=row.outcome,
                pinned=row.pinned,
                started_at=row.started_at,
                size_bytes=await self._weigh(
                    record_prefix(row.material_id, row.asr_version), ended=row.outcome != "running"
                ),
            )
            for row in rows
        ]
        for run in to_remove(runs, rows[0].now, newest=self._newest, total_bytes=self._total_bytes):
            await self._remove(run)

    async def _weigh(self, prefix: str, *, ended: bool) -> int:
        if prefix in self._weights:
            return self._weights[prefix]
        total = 0
        async for key in self._store.list(prefix):
            info = await self._store.head(key)
            total += 0 if info is None else info.size
        if ended:
            self._weights[prefix] = total
        return total

    async def _remove(self, run: KeptRun) -> None:
        # the row first: a record that was pinned in this moment stays, and a crash leaves objects that go
        # with their material
        async with self._database.begin() as session:
            if not await repository_debug.forget(session, run.material_id, run.asr_version):
                return
            if run.outcome != "completed":
                # the next run no more learns of it
                await repository_leftovers.doom_of_runs(session, run.material_id, [run.asr_version])
        prefix = record_prefix(run.material_id, run.asr_version)
        for key in [key async for key in self._store.list(prefix)]:
            await self._store.delete(key)
        self._weights.pop(prefix, None)
        log.info("asr.debug_record_removed", material_id=str(run.material_id), asr_version=run.asr_version)
