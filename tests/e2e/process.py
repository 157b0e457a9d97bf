"""Start the real process as a user does, look at what runs below it, and call its command line."""

import json
import os
import re
import select
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from libs.common.child import command
from tests.e2e.command import run

ROOT = Path(__file__).resolve().parents[2]
READY = re.compile(r"^Frontrow is ready in ([\d.]+) s: ")
_READY_SECONDS = 100.0
_STOP_SECONDS = 30.0


def environment(**extra: str) -> dict[str, str]:
    """Return the environment of a child of ours, without settings of whoever runs the tests."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("FRONTROW_")}
    return {**inherited, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'libs' / 'client'}", **extra}


@dataclass
class Process:
    """One `python -m services` on a data folder of its own."""

    data_dir: Path
    settings: dict[str, str] = field(default_factory=dict)
    process: "subprocess.Popen[str] | None" = None
    ready_line: str = ""
    ready_cpu_seconds: float = 0.0
    said_at_last: str = ""

    def launch(self) -> "Process":
        """Start it, and wait for nothing."""
        self.process = subprocess.Popen(
            command([sys.executable, "-m", "services"], signal=signal.SIGTERM),  # not to outlive the tests
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            start_new_session=True,
            env=environment(
                FRONTROW_DATA_DIR=str(self.data_dir),
                FRONTROW_EPHEMERAL_PORTS="true",
                FRONTROW_LOG_FILE=str(self.log_file),
                FRONTROW_ASR_WORKER_MODEL_CACHE=str(ROOT / "var" / "models"),
                **self.settings,
            ),
        )
        return self

    def start(self) -> "Process":
        """Start it and wait for the ready line; fail with the end of its log."""
        self.launch()
        assert self.process is not None
        assert self.process.stdout is not None
        ready, _, _ = select.select([self.process.stdout], [], [], _READY_SECONDS)
        self.ready_line = self.process.stdout.readline() if ready else ""
        self.ready_cpu_seconds = cpu_seconds(self.process.pid)
        assert READY.match(self.ready_line), f"{self.ready_line!r}; log: {self.last_words()}"
        return self

    @property
    def log_file(self) -> Path:
        """Where it logs."""
        return self.data_dir.parent / "frontrow.log"

    @property
    def pid(self) -> int:
        """Return the process id."""
        assert self.process is not None
        return self.process.pid

    def last_words(self) -> str:
        """Return the end of its log."""
        return self.log_file.read_text()[-3000:] if self.log_file.exists() else "none"

    def addresses(self) -> dict[str, str]:
        """Return what it noted in its data folder."""
        noted: dict[str, Any] = json.loads((self.data_dir / "frontrow.json").read_text())
        addresses: dict[str, str] = noted["addresses"]
        return addresses

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Send a signal, wait for the end, and return the exit status."""
        assert self.process is not None
        if self.process.poll() is None:
            os.kill(self.process.pid, number)
        status = self.process.wait(_STOP_SECONDS)
        if self.process.stdout is not None:
            self.said_at_last = self.process.stdout.read()
            self.process.stdout.close()
        return status

    def cli(
        self, *arguments: str, stdin: str | None = None, **extra: str
    ) -> "subprocess.CompletedProcess[str]":
        """Run `frontrow …` against it."""
        return frontrow("--data-dir", str(self.data_dir), *arguments, stdin=stdin, **extra)

    def cli_json(self, *arguments: str, **extra: str) -> Any:
        """Run `frontrow … --json` and return what it printed."""
        done = self.cli(*arguments, "--json", **extra)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)


def frontrow(*arguments: str, stdin: str | None = None, **extra: str) -> "subprocess.CompletedProcess[str]":
    """Run the command line."""
    return run(arguments, folder=ROOT, environment=environment(**extra), stdin=stdin)


def cpu_seconds(pid: int) -> float:
    """Return the processor time of a process: what its start costs, however busy the machine is."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def descendants(pid: int) -> set[int]:
    """Return all living processes below one."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and (parent := parent_of(int(entry.name))) is not None:
            children.setdefault(parent, []).append(int(entry.name))
    found: set[int] = set()
    waiting = [pid]
    while waiting:
        for child in children.get(waiting.pop(), []):
            found.add(child)
            waiting.append(child)
    return found


def eventually_runs(pid: int, program: str, timeout_seconds: float = 60.0) -> bool:
    """Wait till a process runs a program of this name somewhere below."""
    deadline = time.monotonic() + timeout_seconds
    while program not in {name_of(child) for child in descendants(pid)}:
        if time.monotonic() > deadline or parent_of(pid) is None:
            return False
        time.sleep(0.01)
    return True


def name_of(pid: int) -> str:
    """Return the name of a process's program; empty when it has ended."""
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""


def parent_of(pid: int) -> int | None:
    """Return a process's parent; None when it has ended (a zombie has)."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in ("Z", "X") else int(fields[1])


def all_gone(pids: set[int], timeout_seconds: float = 10.0) -> bool:
    """Wait till none of the processes lives."""
    deadline = time.monotonic() + timeout_seconds
    while any(parent_of(pid) is not None for pid in pids):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True
