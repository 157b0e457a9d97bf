"""Bring a context's schema up to date at the start of its server, as soon as the database is there."""

from __future__ import annotations

import asyncio

import structlog

from libs.common import lane, migrate
from libs.common.db import is_transient
from libs.common.loops import backoff_seconds
from libs.common.settings import DatabaseSettings

log = structlog.get_logger(__name__)

LONGEST_PAUSE_SECONDS = 5.0


async def upgrade_when_there(settings: DatabaseSettings, ctx: str) -> None:
    """Run the revisions of `ctx`; wait for a database that is away, starts, or has no connection free.

    A machine that starts everything at once, or a database that restarts meanwhile, ends no server. Nobody
    listens until then: callers are told UNAVAILABLE at once.

    Raises what no wait mends: a wrong login, a database that there isn't, a revision that fails.
    """
    failures = 0
    while True:
        try:
            connection = await lane.connect(settings, f"frontrow-{ctx}-start")
            await connection.close()
            await migrate.upgrade(settings.url, ctx)
        except Exception as error:
            if not is_transient(error):
                raise
            failures += 1
            log.warning(
                "server.waits_for_database", server=ctx, error=f"{type(error).__name__}: {error}"[:300]
            )
        else:
            return
        await asyncio.sleep(backoff_seconds(failures, longest=LONGEST_PAUSE_SECONDS))
