"""A context as a process: signals, exit status, what it logs."""

import asyncio
import json
import signal
import sys
from contextlib import asynccontextmanager

import pytest

from libs.common.client import connect
from tests.wire.common.probe import Probe, Request, stub_on


@asynccontextmanager
async def process(address: str = "127.0.0.1:0"):
    """Start a probe process; kill it at the end if it still runs."""
    started = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "tests.wire.common.probe_process",
        address,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={"PYTHONPATH": ".:libs/client", "PATH": "/usr/bin:/bin"},
    )
    try:
        yield started
    finally:
        if started.returncode is None:
            started.kill()
        await started.wait()


async def logged_event(started, name: str) -> dict:
    """Read the process's log until the event comes."""
    async with asyncio.timeout(30):
        while True:
            event = json.loads(await started.stderr.readline())
            if event["event"] == name:
                return event


async def line(started) -> str:
    """Read the next line the process prints."""
    return (await asyncio.wait_for(started.stdout.readline(), 30)).decode().strip()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_ends_watches_then_calls_then_the_mount(number):
    async with process() as started:
        address = (await logged_event(started, "server.started"))["address"]
        channel = connect(address)
        call = stub_on(channel).Ask(Request(), timeout=30)
        assert await line(started) == "asked"
        started.send_signal(number)
        assert (await call).text == "finished"
        rest = (await asyncio.wait_for(started.stdout.read(), 30)).decode().split("\n")
        log = (await started.stderr.read()).decode()
        assert await asyncio.wait_for(started.wait(), 30) == 0
        await channel.close()
    assert rest == ["stopping", "answering", "closed", ""]
    events = [json.loads(entry)["event"] for entry in log.splitlines()]
    assert events == ["server.stopping", "server.stopped"]


async def test_a_taken_port_ends_the_process_with_a_clear_word():
    async with Probe().serving() as stub, process(stub.address) as started:
        log = (await asyncio.wait_for(started.stderr.read(), 30)).decode()
        assert await started.wait() == 1
    assert f"can't listen on {stub.address}: another process has the port" in log


async def test_wrong_settings_end_the_process_with_the_name_of_what_is_wrong(monkeypatch):
    started = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "tests.wire.common.probe_process",
        "127.0.0.1:0",
        stderr=asyncio.subprocess.PIPE,
        env={"PYTHONPATH": ".:libs/client", "PATH": "/usr/bin:/bin", "FRONTROW_MAX_CONCURRENT_RPCS": "0"},
    )
    log = (await asyncio.wait_for(started.stderr.read(), 30)).decode()
    assert await started.wait() == 2
    assert "FRONTROW_MAX_CONCURRENT_RPCS" in log
