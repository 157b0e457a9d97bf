"""Real crawls for tests: `scrapy runspider` in a process of its own, and what came of it."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aiohttp import web

from libs.common.child import command

ROOT = Path(__file__).resolve().parents[3]
PROBE = "tests/integration/ingest/probe_spider.py"


@dataclass(frozen=True)
class Crawled:
    """What a crawl came to: its exit code, what it logged, the items that got through, its statistics."""

    code: int
    log: str
    items: list[dict[str, Any]]
    stats: dict[str, Any]


async def crawl(spider: str, folder: Path, *arguments: str, **environment: str) -> Crawled:
    """Run a spider's file to its end; the environment holds address and key."""
    await asyncio.to_thread(folder.mkdir, parents=True, exist_ok=True)
    feed, stats = folder / "items.jsonl", folder / "stats.json"
    argv = [
        sys.executable, "-m", "scrapy", "runspider", spider, "-O", str(feed),
        "-s", "LOG_LEVEL=INFO", "-s", "TELNETCONSOLE_ENABLED=False",
        "-s", "EXTENSIONS={\"tests.integration.ingest.probe_spider.StatsFile\": 1}", *arguments,
    ]  # fmt: skip
    process = await asyncio.create_subprocess_exec(
        *command(argv),
        cwd=ROOT,
        env={
            **os.environ,
            "PYTHONPATH": f"{ROOT}:{ROOT / 'libs/client'}",
            "STATS_FILE": str(stats),
            **environment,
        },
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    try:
        said, _ = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    lines = feed.read_text().splitlines() if feed.exists() else []
    counted = json.loads(stats.read_text()) if stats.exists() else {}
    assert process.returncode is not None
    return Crawled(process.returncode, said.decode(), [json.loads(line) for line in lines], counted)


@asynccontextmanager
async def served(application: web.Application) -> AsyncIterator[str]:
    """Serve an application on a free port of the loopback; yield its origin."""
    runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    host, port = runner.addresses[0][:2]
    try:
        yield f"http://{host}:{port}"
    finally:
        await runner.cleanup()
