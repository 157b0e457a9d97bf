"""Start what is measured: servers and clients, each a process of its own."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from frontrow.worker import Dial

from libs.common.child import command

ROOT = Path(__file__).resolve().parents[2]
READY_SECONDS = 60.0
STOP_SECONDS = 20.0


@dataclass(frozen=True)
class Server:
    """A server that runs."""

    address: str
    pid: int


def free_address() -> str:
    """Return a loopback address that nobody uses just now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{probe.getsockname()[1]}"


@contextlib.asynccontextmanager
async def program(
    module: str, *arguments: str, environment: Mapping[str, str], log: Path
) -> AsyncIterator[asyncio.subprocess.Process]:
    """Run `python -m module` for the length of the block; what it says goes to `log`."""
    with log.open("ab") as output:
        process = await asyncio.create_subprocess_exec(
            *command([sys.executable, "-m", module, *arguments]),
            cwd=ROOT, env={**os.environ, **environment}, stdout=output, stderr=output,
            stdin=asyncio.subprocess.DEVNULL,
        )  # fmt: skip
    try:
        yield process
    finally:
        if process.returncode is None:
            process.send_signal(signal.SIGTERM)
            try:
                await asyncio.wait_for(process.wait(), STOP_SECONDS)
            except TimeoutError:
                process.kill()
                await process.wait()


@contextlib.asynccontextmanager
async def context_server(
    database_url: str, *, log: Path, module: str, context: str, **environment: str
) -> AsyncIterator[Server]:
    """Run a context's server on a database for the length of the block."""
    address = free_address()
    settings = {
        "FRONTROW_DATABASE_URL": database_url,
        f"FRONTROW_{context.upper()}_LISTEN": address,
        "FRONTROW_LOG_LEVEL": "WARNING",
        **environment,
    }
    async with program(module, environment=settings, log=log) as process:
        await _ready(process, address, log)
        yield Server(address, process.pid)


async def _ready(process: asyncio.subprocess.Process, address: str, log: Path) -> None:
    async with Dial(address).aio() as channel:
        connected = asyncio.ensure_future(channel.channel_ready())
        ended = asyncio.ensure_future(process.wait())
        await asyncio.wait({connected, ended}, timeout=READY_SECONDS, return_when=asyncio.FIRST_COMPLETED)
        up = connected.done() and not ended.done()
        for waiting in (connected, ended):
            waiting.cancel()
        await asyncio.gather(connected, ended, return_exceptions=True)
    if not up:
        raise RuntimeError(f"the server on {address} did not come up, see {log}")


def _last_line(log: Path) -> str:
    return log.read_text(errors="replace").strip().rsplit("\n", 1)[-1]


async def child(
    module: str, arguments: Mapping[str, Any], *, log: Path, python: str = sys.executable
) -> dict[str, Any]:
    """Run a measurement (see `child.py`) in a process and return its result."""
    with log.open("ab") as errors:
        process = await asyncio.create_subprocess_exec(
            *command([python, "-m", module]),
            cwd=ROOT, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=errors,
        )  # fmt: skip
    try:
        printed, _ = await process.communicate(json.dumps(arguments).encode())
    except asyncio.CancelledError:
        process.kill()
        await process.wait()
        raise
    if process.returncode:
        raise RuntimeError(f"{module} ended with {process.returncode}: {_last_line(log)} (in {log.name})")
    result: dict[str, Any] = json.loads(printed.decode().strip().rsplit("\n", 1)[-1])
    return result
