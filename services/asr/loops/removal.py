"""Remove stored objects that no row refers to any more, and uploads that nobody finished or used."""

from typing import Any

import structlog
from sqlalchemy import Row, delete, func, select, update

from libs.common.db import Database
from libs.common.loops import Periodic
from libs.common.objects import ObjectStore
from services.asr import repository_material, repository_upload
from services.asr.models import doomed_objects

log = structlog.get_logger(__name__)

_BATCH = 100
# What is doomed is looked for again so long after each pass: who doesn't know of it may still write, mostly
# for some moments, but a run that was cut off with a large file on its way until its limit of six hours
# (domain.md 2.5).
_AGAIN_SECONDS = (600.0, 24 * 3600.0)


class ObjectRemoval(Periodic):
    """Removes doomed objects; rows of the database alone say what is doomed."""

    def __init__(
        self, database: Database, store: ObjectStore, *, interval_seconds: float, upload_keep_hours: float
    ) -> None:
        super().__init__("asr.object_removal", interval_seconds, self.step)
        self._database = database
        self._store = store
        self._upload_keep_hours = upload_keep_hours

    async def step(self) -> None:
        """Expire old uploads, then remove what is due; no transaction is open while the store works."""
        async with self._database.begin() as session:
            expired = await repository_upload.remove_expired(
                session, keep_hours=self._upload_keep_hours, limit=_BATCH
            )
            keys = [f"{root}/{upload_id}/" for upload_id in expired for root in ("uploads", "recordings")]
            await repository_material.doom(session, keys)
        async with self._database.begin() as session:
            due = select(doomed_objects).where(doomed_objects.c.not_before <= func.now()).limit(_BATCH)
            rows = (await session.execute(due)).all()
        for row in rows:
            await self._remove(row)

    async def _remove(self, row: Row[Any]) -> None:
        keys = [key async for key in self._store.list(row.key)] if row.key.endswith("/") else [row.key]
        for key in keys:
            await self._store.delete(key)
        log.info("asr.objects_removed", key=row.key, objects=len(keys))
        # as this pass found it: doomed anew or passed by another server meanwhile, it stays as it is now
        mine = (
            (doomed_objects.c.key == row.key)
            & (doomed_objects.c.passes == row.passes)
            & (doomed_objects.c.created_at == row.created_at)
        )
        async with self._database.begin() as session:
            if row.passes == len(_AGAIN_SECONDS):
                await session.execute(delete(doomed_objects).where(mine))
                return
            later = func.now() + func.make_interval(0, 0, 0, 0, 0, 0, _AGAIN_SECONDS[row.passes])
            values = {"passes": row.passes + 1, "not_before": later}
            await session.execute(update(doomed_objects).where(mine).values(values))
