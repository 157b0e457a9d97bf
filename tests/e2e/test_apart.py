"""The contexts as processes of their own, on one database: migrated first, then a server alone."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import grpc
import pytest
from frontrow.task.v1 import task_service_pb2, task_service_pb2_grpc

from libs.common.child import command
from tests.e2e.process import ROOT, environment

pytestmark = pytest.mark.timeout(300)


def module(name: str, *arguments: str, **settings: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", name, *arguments],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env=environment(**settings),
        timeout=120,
        check=False,
    )


def test_migrating_names_what_is_wrong_with_its_arguments_and_settings() -> None:
    unknown = module("services.migrate", "billing", FRONTROW_DATABASE_URL="postgresql://nowhere/x")
    assert (unknown.returncode, "billing" in unknown.stderr) == (2, True)
    unset = module("services.migrate")
    assert (unset.returncode, "FRONTROW_DATABASE_URL" in unset.stderr) == (2, True)


def test_a_context_alone_serves_after_the_migration_answers_the_probe_and_stops_on_sigterm(
    database_url: str,
) -> None:
    settings = {"FRONTROW_DATABASE_URL": database_url, "FRONTROW_TASK_LISTEN": f"127.0.0.1:{free_port()}"}
    migrated = module("services.migrate", **settings)
    assert migrated.returncode == 0, migrated.stderr
    server = subprocess.Popen(
        command([sys.executable, "-m", "services.task"]),
        stderr=subprocess.DEVNULL,
        cwd=ROOT,
        env=environment(**settings),
    )
    try:
        address = settings["FRONTROW_TASK_LISTEN"]
        deadline = time.monotonic() + 90
        while module("libs.common.health_probe", address).returncode != 0:
            assert server.poll() is None
            assert time.monotonic() < deadline
        with grpc.insecure_channel(address) as channel:
            answer = task_service_pb2_grpc.TaskServiceStub(channel).ListTasks(
                task_service_pb2.ListTasksRequest(), timeout=10
            )
        assert not answer.tasks
    finally:
        os.kill(server.pid, signal.SIGTERM)
        assert server.wait(30) == 0
    assert module("libs.common.health_probe", address).returncode == 1


def test_a_server_whose_database_is_not_there_yet_waits_for_it_and_stops_on_sigterm(tmp_path: Path) -> None:
    log, port = tmp_path / "log", free_port()
    settings = {
        "FRONTROW_DATABASE_URL": f"postgresql://127.0.0.1:{free_port()}/x",
        "FRONTROW_TASK_LISTEN": f"127.0.0.1:{port}",
    }
    with log.open("wb") as written:
        server = subprocess.Popen(
            command([sys.executable, "-m", "services.task"]),
            stderr=written, cwd=ROOT, env=environment(**settings),
        )  # fmt: skip
    try:
        deadline = time.monotonic() + 60
        while log.read_text().count("server.waits_for_database") < 2:
            assert server.poll() is None, log.read_text()
            assert time.monotonic() < deadline
            time.sleep(0.05)
        with grpc.insecure_channel(f"127.0.0.1:{port}") as channel, pytest.raises(grpc.RpcError) as refused:
            task_service_pb2_grpc.TaskServiceStub(channel).ListTasks(
                task_service_pb2.ListTasksRequest(), timeout=10
            )
        assert refused.value.code() is grpc.StatusCode.UNAVAILABLE
    finally:
        os.kill(server.pid, signal.SIGTERM)
        assert server.wait(30) == 0


def test_a_migration_without_a_database_says_so_in_a_line() -> None:
    nowhere = module("services.migrate", FRONTROW_DATABASE_URL=f"postgresql://127.0.0.1:{free_port()}/x")
    assert nowhere.returncode == 1
    assert nowhere.stderr.splitlines()[-1].startswith("migrate: ")


def free_port() -> int:
    """Return a port that was free a moment ago."""
    import socket

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
