"""Start, stop, kill and start again: nothing is left behind and nothing is lost."""

import os
import signal
import time
from pathlib import Path

import pytest

from tests.e2e.process import Process, all_gone, descendants, eventually_runs

pytestmark = pytest.mark.timeout(300)  # whole processes, twice each

# Ready within 5 s on existing data. Processor time is compared, since tests share the machine with others.
READY_ON_DATA_SECONDS = 5.0


def test_sigterm_stops_everything_cleanly_and_the_next_start_finds_the_data(data_dir: Path) -> None:
    first = Process(data_dir).start()
    brand = first.cli_json("brands", "add", "Maison de Test")
    below = descendants(first.pid)
    assert first.stop(signal.SIGTERM) == 0
    assert all_gone(below)
    assert not (data_dir / "frontrow.json").exists()

    second = Process(data_dir).start()
    try:
        assert brand["name"] in [known["name"] for known in second.cli_json("brands", "list")]
        assert second.ready_cpu_seconds <= READY_ON_DATA_SECONDS
    finally:
        assert second.stop(signal.SIGINT) == 0


@pytest.mark.parametrize("below", ["initdb", "postgres"])
def test_sigterm_during_a_start_stops_it_at_once_and_leaves_nothing(
    data_dir: Path, new_data_dir: Path, below: str
) -> None:
    data_dir = new_data_dir if below == "initdb" else data_dir
    starting = Process(data_dir).launch()
    assert eventually_runs(starting.pid, below)
    family = descendants(starting.pid)
    assert starting.stop(signal.SIGTERM) == 0
    assert "ready" not in starting.said_at_last
    assert all_gone(family)
    assert [path for path in data_dir.glob("postgres*") if ".new-" in path.name] == []
    again = Process(data_dir).start()
    assert again.stop() == 0


def test_kill_9_leaves_no_process_and_the_next_start_works_on_the_same_data(data_dir: Path) -> None:
    first = Process(data_dir).start()
    brand = first.cli_json("brands", "add", "Maison du Soir")
    below = descendants(first.pid)
    assert below, "PostgreSQL at least runs below"
    first.stop(signal.SIGKILL)
    second = Process(data_dir).start()
    try:
        assert all_gone(below)
        assert brand["name"] in [known["name"] for known in second.cli_json("brands", "list")]
        assert second.ready_cpu_seconds <= READY_ON_DATA_SECONDS
        status = second.cli_json("status")
        assert status["pid"] == second.pid
    finally:
        assert second.stop() == 0


def test_a_killed_postgres_is_started_again_and_calls_recover(data_dir: Path) -> None:
    running = Process(data_dir).start()
    try:
        postmaster = int((data_dir / "postgres" / "postmaster.pid").read_text().split()[0])
        os.kill(postmaster, signal.SIGKILL)
        assert all_gone({postmaster})
        deadline = time.monotonic() + 30
        while (answer := running.cli("brands", "list", "--json")).returncode != 0:
            assert time.monotonic() < deadline, answer.stderr
    finally:
        assert running.stop() == 0


def test_a_second_instance_on_the_same_data_is_refused_with_what_to_do(instance: Process) -> None:
    again = instance.cli("up", "--ephemeral-ports")
    assert again.returncode == 1
    assert "FRONTROW_DATA_DIR" in again.stderr
    assert instance.cli("status").returncode == 0
