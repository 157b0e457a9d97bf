"""`frontrow db` on the embedded PostgreSQL, running and not, and on one of one's own."""

import json
from pathlib import Path

import pytest

from libs.common.testing import TestCluster
from tests.e2e.process import Process, frontrow

pytestmark = pytest.mark.timeout(300)


def _json(*arguments: str, **settings: str) -> object:
    done = frontrow(*arguments, "--json", **settings)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_a_running_instance_is_up_to_date_and_says_so(instance: Process) -> None:
    found = instance.cli_json("db", "migrate", "--dry-run")
    assert {one["context"]: one["pending"] for one in found} == {
        name: [] for name in ("task", "review", "asr", "ingest")
    }
    assert all(one["revision"] == one["head"] for one in found)
    assert "nothing" in instance.cli("db", "migrate").stdout


def test_a_restore_beside_a_running_instance_is_refused(instance: Process, tmp_path: Path) -> None:
    backup = tmp_path / "backup"
    assert instance.cli_json("db", "backup", str(backup))["lost"] == []
    refused = instance.cli("db", "restore", str(backup))
    assert (refused.returncode, "another Frontrow runs" in refused.stderr) == (1, True)


def test_what_is_stopped_is_backed_up_and_restored_elsewhere(
    instance: Process, data_dir: Path, tmp_path: Path
) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    before = instance.cli_json("db", "backup", str(first))
    restored = _json("--data-dir", str(data_dir), "db", "restore", str(first))
    again = _json("--data-dir", str(data_dir), "db", "backup", str(second))
    assert restored == before
    assert isinstance(again, dict)
    assert again["contexts"] == before["contexts"]
    assert again["objects"] == before["objects"]
    refused = frontrow("--data-dir", str(data_dir), "db", "restore", str(first))
    assert (refused.returncode, "has tables already" in refused.stderr) == (1, True)


async def test_a_database_of_ones_own_is_migrated_by_hand(postgres: TestCluster) -> None:
    async with postgres.database(None) as url:
        before = _json("db", "migrate", "--dry-run", FRONTROW_DATABASE_URL=url)
        assert isinstance(before, list)
        assert {one["revision"] for one in before} == {""}
        after = _json("db", "migrate", FRONTROW_DATABASE_URL=url)
        assert isinstance(after, list)
        assert {len(one["pending"]) for one in after} == {0}


def test_where_there_is_no_database_nothing_is_made(tmp_path: Path) -> None:
    done = frontrow("--data-dir", str(tmp_path / "data"), "db", "backup", str(tmp_path / "backup"))
    assert (done.returncode, "there is no database" in done.stderr) == (1, True)
    assert list(tmp_path.iterdir()) == []


def test_a_database_that_can_not_be_reached_is_told_without_the_password(tmp_path: Path) -> None:
    done = frontrow(
        "db", "backup", str(tmp_path / "b"), FRONTROW_DATABASE_URL="postgresql://u:secret@127.0.0.1:1/db"
    )
    assert done.returncode == 1
    assert "secret" not in done.stdout + done.stderr
    assert "Traceback" not in done.stderr
