"""`frontrow top` against real servers, through a restart."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from cli.connection import Connection
from cli.top.look import Lookout
from libs.common.child import command
from libs.common.context_server import ContextServer
from services.task.mount import mount
from services.task.settings import TaskSettings
from tests.e2e.process import ROOT, Process, environment, frontrow
from tests.integration.task.service import Tasks, common_settings, new_type

pytestmark = pytest.mark.timeout(300)  # whole processes


def test_one_look_has_servers_queues_and_workers_for_people_and_programs(instance: Process) -> None:
    instance.cli("tasks", "--once")
    found = instance.cli_json("top")
    told = {server["server"]: server["health"] for server in found["servers"]}
    assert told == dict.fromkeys(("ingest", "review", "asr", "task"), "serving")
    assert found["trouble"] == ""
    assert {kind for worker in found["workers"] for kind in worker["types"]} >= {"ingest", "asr", "ai_slice"}
    for queue in found["queues"]:
        assert queue["pending"] >= 0
        assert queue["rate_seconds"] == 600.0
    text = instance.cli("top", "--once").stdout
    assert "serving" in text
    assert "heard of" in text


def test_without_servers_it_says_so_and_fails(tmp_path: Path) -> None:
    ports = {f"FRONTROW_{name}_ADDRESS": "127.0.0.1:1" for name in ("INGEST", "REVIEW", "ASR", "TASK")}
    done = frontrow("--data-dir", str(tmp_path), "top", "--json", **ports)
    assert done.returncode == 1
    found = json.loads(done.stdout)
    assert {server["health"] for server in found["servers"]} == {"unreachable"}
    assert found["known_time"] is None
    assert "no task server answers" in found["trouble"]
    text = frontrow("--data-dir", str(tmp_path), "top", "--once", **ports).stdout
    assert "no task server answers" in text
    assert "No queues" not in text
    assert "No worker" not in text


async def _serve(database_url: str, address: str) -> ContextServer:
    mounted = await mount(TaskSettings(), common_settings(database_url))
    server = ContextServer("task", address, mounted)
    await server.start()
    return server


async def test_a_restart_of_the_server_shows_since_when_and_then_goes_on(
    database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = await _serve(database_url, "127.0.0.1:0")
    address = server.bound
    monkeypatch.setenv("FRONTROW_TASK_ADDRESS", address)
    for name in ("INGEST", "REVIEW", "ASR"):
        monkeypatch.setenv(f"FRONTROW_{name}_ADDRESS", "127.0.0.1:1")
    tasks, kind = Tasks(address), new_type()
    async with Lookout(Connection(tmp_path)) as lookout:
        await tasks.create(kind)
        before = await lookout.look()
        await tasks.create(kind)
        await asyncio.sleep(0.2)
        measured = await lookout.look()
        [queue] = [queue for queue in measured.queues if queue["type"] == kind]
        assert (queue["pending"], queue["rate_seconds"] < 600) == (2, True)
        assert queue["created_per_second"] > 0

        await server.stop(0)
        away = await lookout.look()
        [task] = [server for server in away.servers if server["server"] == "task"]
        assert task["health"] == "unreachable"
        assert away.at - 10 < task["since"] <= away.at
        assert (away.queues, away.known_at) == (measured.queues, measured.known_at)
        assert "no task server answers" in away.trouble
        later = await lookout.look()
        assert [s["since"] for s in later.servers if s["server"] == "task"] == [task["since"]]

        server = await _serve(database_url, address)
        deadline = time.monotonic() + 20
        while (again := await lookout.look()).trouble:
            assert time.monotonic() < deadline, again.trouble
        assert again.known_at > away.at > before.at
        assert [q["pending"] for q in again.queues if q["type"] == kind] == [2]
    await tasks.close()
    await server.stop(0)


# Ctrl-C counts, also where the tests themselves were started in the background, which ignores it.
_TOP = """
import signal
from cli.main import main

signal.signal(signal.SIGINT, signal.default_int_handler)
main(prog_name="frontrow")
"""


class Terminal:
    """A command in a terminal of its own, and what it has drawn."""

    def __init__(self, *arguments: str) -> None:
        self._own, theirs = pty.openpty()
        program = [sys.executable, "-c", _TOP, *arguments]
        self.process = subprocess.Popen(
            command(program, signal=signal.SIGTERM),
            stdin=theirs, stdout=theirs, stderr=theirs, cwd=ROOT,
            env=environment(TERM="xterm-256color", COLUMNS="140", LINES="60"), start_new_session=True,
        )  # fmt: skip
        os.close(theirs)

    def shows(self, pattern: str, timeout_seconds: float = 60.0) -> None:
        """Wait until something that it draws from now on matches."""
        drawn, deadline = "", time.monotonic() + timeout_seconds
        while not re.search(pattern, drawn):
            assert time.monotonic() < deadline, f"{pattern} isn't in {drawn[-3000:]}"
            if select.select([self._own], [], [], 0.2)[0]:
                drawn += re.sub(
                    r"\x1b\[[0-9;?]*[A-Za-z]", "", os.read(self._own, 1 << 16).decode(errors="replace")
                )

    def interrupt(self) -> int:
        """Press Ctrl-C; return the exit status."""
        os.killpg(self.process.pid, signal.SIGINT)
        deadline = time.monotonic() + 30
        while self.process.poll() is None and time.monotonic() < deadline:
            with contextlib.suppress(OSError):
                if select.select([self._own], [], [], 0.1)[0]:
                    os.read(self._own, 1 << 16)
        return self.process.wait(1)

    def close(self) -> None:
        """End it, whatever it does."""
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self._own)


@pytest.fixture
def restartable(data_dir: Path, database_url: str) -> Iterator[Process]:
    """Give an instance of the test's own."""
    running = Process(data_dir, {"FRONTROW_DATABASE_URL": database_url}).start()
    yield running
    assert running.stop() == 0


def test_live_it_lasts_through_a_kill_of_everything_and_a_start_on_other_ports(restartable: Process) -> None:
    terminal = Terminal("--data-dir", str(restartable.data_dir), "top", "--interval", "0.3")
    try:
        terminal.shows(r"task +127\.0\.0\.1:\d+ +serving")
        terminal.shows(r"heard of")
        restartable.stop(signal.SIGKILL)
        terminal.shows(r"unreachable since \d\d:\d\d:\d\d")
        restartable.start()
        terminal.shows(r"task +127\.0\.0\.1:\d+ +serving")
        assert terminal.interrupt() == 0
    finally:
        terminal.close()
