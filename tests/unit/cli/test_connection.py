"""Where the command line looks for the servers."""

import os
import pwd
from pathlib import Path

import grpc
import grpc.aio
import pytest
from frontrow.client import Refused
from frontrow.client.refusal import Violation

from cli.commands.submit import refusal
from cli.connection import Connection, actor, explain
from services.state import DataFolderInUse, InstanceState, lock, remove_state, write_state


@pytest.fixture(autouse=True)
def plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("FRONTROW_")]:
        monkeypatch.delenv(name)


def noted(data_dir: Path, pid: int) -> None:
    write_state(
        data_dir, InstanceState(pid, {"task": "127.0.0.1:4711"}, "embedded", str(data_dir / "objects"))
    )


def test_a_running_instances_note_beats_the_default(tmp_path: Path) -> None:
    connection = Connection(tmp_path)
    assert connection.address("task") == "127.0.0.1:7104"
    noted(tmp_path, os.getpid())
    assert connection.address("task") == "127.0.0.1:4711"
    remove_state(tmp_path)
    assert connection.address("task") == "127.0.0.1:7104"


def test_an_explicit_setting_beats_the_note(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    noted(tmp_path, os.getpid())
    monkeypatch.setenv("FRONTROW_TASK_ADDRESS", "task.example:443")
    assert Connection(tmp_path).address("task") == "task.example:443"


def test_the_note_of_a_killed_instance_is_not_believed(tmp_path: Path) -> None:
    noted(tmp_path, 2**22 + 1)  # beyond the kernel's largest process id
    assert Connection(tmp_path).running() is None
    assert Connection(tmp_path).address("task") == "127.0.0.1:7104"


def test_a_note_that_is_no_note_is_not_believed(tmp_path: Path) -> None:
    (tmp_path / "frontrow.json").write_text('{"pid": "x"')
    assert Connection(tmp_path).running() is None


def test_a_data_folder_is_one_processes_own_until_it_ends(tmp_path: Path) -> None:
    with lock(tmp_path / "data"), pytest.raises(DataFolderInUse, match="FRONTROW_DATA_DIR"):
        lock(tmp_path / "data")
    lock(tmp_path / "data").close()


@pytest.mark.parametrize(
    ("code", "said", "shown"),
    [
        (grpc.StatusCode.UNIMPLEMENTED, "Method not found!", "older than this command"),
        (grpc.StatusCode.DEADLINE_EXCEEDED, "", "took too long"),
        (grpc.StatusCode.UNAVAILABLE, "", "frontrow up"),
        (grpc.StatusCode.INTERNAL, "internal error 7", "INTERNAL: internal error 7"),
    ],
)
def test_a_failed_call_is_told_with_what_to_do(code: grpc.StatusCode, said: str, shown: str) -> None:
    error = grpc.aio.AioRpcError(code, grpc.aio.Metadata(), grpc.aio.Metadata(), details=said)
    assert shown in explain(error, "task", "127.0.0.1:7104")


def test_a_refused_submission_is_told_as_every_other_call_with_its_fields_at_fault_and_its_cure() -> None:
    fault = Violation("gallery.title", "must not be empty")
    wrong = Refused(grpc.StatusCode.INVALID_ARGUMENT, "INVALID_ARGUMENT", "no", {}, violations=[fault])
    assert refusal(wrong, "h:1").splitlines()[1:] == ["  gallery.title: must not be empty"]
    unsigned = Refused(grpc.StatusCode.UNAUTHENTICATED, "BAD_SIGNATURE", "it doesn't fit", {"key_id": "k"})
    lines = refusal(unsigned, "h:1").splitlines()
    assert lines[:2] == ["BAD_SIGNATURE: it doesn't fit", "  key_id: k"]
    assert "clock" in lines[2]
    nobody = Refused(grpc.StatusCode.UNAVAILABLE, "", "failed to connect", {})
    assert "no ingest server answers at h:1" in refusal(nobody, "h:1")


def test_who_acts_is_named_by_the_environment_or_by_the_login(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("FRONTROW_ACTOR", "LOGNAME", "USER", "LNAME", "USERNAME"):
        monkeypatch.delenv(name, raising=False)
    assert actor() == pwd.getpwuid(os.getuid()).pw_name
    monkeypatch.setenv("FRONTROW_ACTOR", "mia")
    assert actor() == "mia"
