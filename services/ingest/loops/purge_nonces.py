"""Forget nonces whose signatures are too old to be replayed (domain.md 3.1)."""

from __future__ import annotations

import structlog

from libs.common.db import Database
from libs.common.loops import Periodic
from services.ingest import repository_submit

MARGIN_SECONDS = 60.0

log = structlog.get_logger(__name__)


class NoncePurge(Periodic):
    """Delete nonces signed longer ago than the window and a margin; any number may run at once."""

    def __init__(self, database: Database, *, window_seconds: float, interval_seconds: float) -> None:
        super().__init__("purge_nonces", interval_seconds, self.purge)
        self._database = database
        self._keep_seconds = window_seconds + MARGIN_SECONDS

    async def purge(self) -> None:
        """Delete batch by batch, each in its own transaction, until none is left."""
        while True:
            async with self._database.begin() as session:
                gone = await repository_submit.purge_nonces(session, self._keep_seconds)
            if gone < repository_submit.PURGE_BATCH:
                break
        log.debug("nonces.purged", last_batch=gone)
