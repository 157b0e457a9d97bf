"""End the HTTP servers of tests without leaving a connection behind."""

from __future__ import annotations

import asyncio

from aiohttp import web


async def stop(runner: web.BaseRunner) -> None:
    """End a server: it takes no connections first, so that one that is just being taken is closed, too."""
    for site in list(runner.sites):
        await site.stop()
    await asyncio.sleep(0.02)
    await runner.cleanup()
