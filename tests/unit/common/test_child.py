"""Child processes: limits, kills, and no orphan."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from libs.common.child import ChildCrashed, ChildFailed, ChildTimeout, run
from libs.common.child_pool import ChildPool

ECHO = "tests.unit.common.echo_child"


def gone(pid: int) -> bool:
    """Tell whether a process has ended (a zombie has)."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return True
    return state in ("Z", "X")


def wait_gone(pid: int, timeout_seconds: float = 10.0) -> bool:
    deadline = time.monotonic() + timeout_seconds
    while not gone(pid) and time.monotonic() < deadline:
        time.sleep(0.02)
    return gone(pid)


async def test_a_program_runs_and_its_output_is_kept() -> None:
    done = await run(["cat"], timeout_seconds=10, stdin=b"a\x00b")
    assert (done.returncode, done.stdout) == (0, b"a\x00b")


async def test_lines_are_handed_out_as_they_come_and_a_last_line_without_newline_too() -> None:
    lines: list[str] = []
    await run(["printf", "frame=1\nframe=2\nend"], timeout_seconds=10, on_stdout_line=lines.append)
    assert lines == ["frame=1", "frame=2", "end"]


async def test_stderr_that_is_no_utf8_does_not_break_the_run() -> None:
    done = await run(["sh", "-c", r"printf '\377bad' >&2; exit 3"], timeout_seconds=10)
    assert (done.returncode, done.stderr_text) == (3, "�bad")


async def test_a_program_that_hangs_is_killed_with_its_children() -> None:
    pids: list[str] = []
    with pytest.raises(ChildTimeout):
        await run(["sh", "-c", "sleep 100 & echo $!; wait"], timeout_seconds=0.5, on_stdout_line=pids.append)
    assert wait_gone(int(pids[0]))


async def test_a_cancelled_call_kills_its_program() -> None:
    started = asyncio.Event()
    pids: list[int] = []

    def note(line: str) -> None:
        pids.append(int(line))
        started.set()

    task = asyncio.create_task(
        run(["sh", "-c", "echo $$; sleep 100"], timeout_seconds=60, on_stdout_line=note)
    )
    await asyncio.wait_for(started.wait(), 10)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert wait_gone(pids[0])


async def test_memory_beyond_the_limit_ends_the_child_and_not_us() -> None:
    done = await run([sys.executable, "-c", "bytearray(2 << 30)"], timeout_seconds=20, memory_bytes=512 << 20)
    assert done.returncode != 0
    assert "MemoryError" in done.stderr_text


async def test_a_missing_program_is_named() -> None:
    with pytest.raises(FileNotFoundError, match="no-such-program"):
        await run(["no-such-program"], timeout_seconds=1)


async def test_a_pool_answers_with_events_and_keeps_its_child_warm() -> None:
    pool = ChildPool(ECHO, size=1)
    events: list[dict[str, object]] = []
    first = await pool.call({"do": "echo", "value": "红"}, timeout_seconds=20, on_event=events.append)
    second = await pool.call({"do": "echo", "value": 2}, timeout_seconds=20)
    await pool.close()
    assert first["value"] == "红"
    assert events == [{"step": 1}, {"step": 2}]
    assert first["pid"] == second["pid"]


async def test_libraries_of_children_report_nothing_to_their_makers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ORT_DISABLE_TELEMETRY", raising=False)
    pool = ChildPool(ECHO, size=1)
    told = await pool.call({"do": "environment", "value": "ORT_DISABLE_TELEMETRY"}, timeout_seconds=20)
    await pool.close()
    assert told["value"] == "1"


async def test_an_error_in_the_handler_reaches_the_caller_and_the_child_lives_on() -> None:
    pool = ChildPool(ECHO, size=1)
    before = await pool.call({"do": "echo", "value": 1}, timeout_seconds=20)
    with pytest.raises(ChildFailed, match="ValueError: bad picture"):
        await pool.call({"do": "fail"}, timeout_seconds=20)
    with pytest.raises(ChildFailed, match=r"FileNotFoundError: No such file or directory$"):
        await pool.call({"do": "open", "value": "/nowhere/on/this/machine"}, timeout_seconds=20)
    after = await pool.call({"do": "echo", "value": 1}, timeout_seconds=20)
    await pool.close()
    assert before["pid"] == after["pid"]


async def test_a_call_that_hangs_costs_its_child_and_the_next_call_gets_a_new_one() -> None:
    pool = ChildPool(ECHO, size=1)
    before = await pool.call({"do": "echo", "value": 1}, timeout_seconds=20)
    with pytest.raises(ChildTimeout):
        await pool.call({"do": "hang"}, timeout_seconds=0.3)
    assert wait_gone(int(before["pid"]))
    after = await pool.call({"do": "echo", "value": 1}, timeout_seconds=20)
    await pool.close()
    assert before["pid"] != after["pid"]
    assert wait_gone(int(after["pid"]))


async def test_a_crash_is_told_apart_with_the_end_of_stderr() -> None:
    pool = ChildPool(ECHO, size=1)
    with pytest.raises(ChildCrashed) as crash:
        await pool.call({"do": "crash"}, timeout_seconds=20)
    await pool.close()
    assert crash.value.returncode == -signal.SIGABRT


async def test_what_a_library_prints_does_not_break_the_protocol() -> None:
    pool = ChildPool(ECHO, size=1)
    answer = await pool.call({"do": "print", "value": 5}, timeout_seconds=20)
    await pool.close()
    assert answer["value"] == 5


def test_kill_9_of_the_parent_leaves_no_child() -> None:
    program = (
        "import subprocess\n"
        "from libs.common.child import command\n"
        "child = subprocess.Popen(command(['sleep', '100']), start_new_session=True)\n"
        "print(child.pid, flush=True)\n"
        "child.wait()\n"
    )
    parent = subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, cwd=Path.cwd()
    )
    assert parent.stdout is not None
    with parent.stdout:
        child_pid = int(parent.stdout.readline())
    deadline = time.monotonic() + 10
    while b"launch.py" in Path(f"/proc/{child_pid}/cmdline").read_bytes() and time.monotonic() < deadline:
        time.sleep(0.02)  # still in the exec shim
    os.kill(parent.pid, signal.SIGKILL)
    parent.wait()
    assert wait_gone(child_pid)
