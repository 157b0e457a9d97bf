"""`frontrow db` on the embedded PostgreSQL, running and not, and on one of one's own; its roles."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import asyncpg
import pytest

from libs.common.postgres import url_of_running
from libs.common.testing import TestCluster
from tests.e2e.process import Process, frontrow

pytestmark = pytest.mark.timeout(300)


@pytest.fixture(scope="module")
def embedded(data_dir: Path) -> Iterator[Process]:
    """Give an instance on its own PostgreSQL, without workers."""
    running = Process(data_dir, {"FRONTROW_WORKERS": "false"}).start()
    yield running
    assert running.stop() == 0


def _json(*arguments: str, **settings: str) -> object:
    done = frontrow(*arguments, "--json", **settings)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


async def test_each_connection_of_a_context_is_its_own_roles(embedded: Process) -> None:
    await asyncio.to_thread(embedded.cli_json, "brands", "list")  # review connects when it is asked
    connection = await asyncpg.connect(url_of_running(embedded.data_dir / "postgres"))
    rows = await connection.fetch(
        "SELECT DISTINCT split_part(application_name, '-', 2) AS context, usename FROM pg_stat_activity"
        " WHERE application_name LIKE 'frontrow-%'"
    )
    await connection.close()
    found = {(row["context"], row["usename"]) for row in rows}
    assert {context for context, _ in found} == {"task", "review", "asr", "ingest"}
    assert found == {(context, f"frontrow_{context}") for context, _ in found}


def test_a_running_instance_is_up_to_date_and_says_so(embedded: Process) -> None:
    found = embedded.cli_json("db", "migrate", "--dry-run")
    assert {one["context"]: one["pending"] for one in found} == {
        name: [] for name in ("task", "review", "asr", "ingest")
    }
    assert all(one["revision"] == one["head"] for one in found)
    assert "nothing" in embedded.cli("db", "migrate").stdout


def test_a_backup_is_restored_elsewhere_alone_and_backed_up_from_there(
    embedded: Process, new_data_dir: Path, tmp_path: Path
) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    before = embedded.cli_json("db", "backup", str(first))
    refused = embedded.cli("db", "restore", str(first))
    assert (refused.returncode, "another Frontrow runs" in refused.stderr) == (1, True)

    restored = _json("--data-dir", str(new_data_dir), "db", "restore", str(first))
    again = _json("--data-dir", str(new_data_dir), "db", "backup", str(second))
    assert restored == before
    assert isinstance(again, dict)
    assert again["contexts"] == before["contexts"]
    assert again["objects"] == before["objects"]
    refused = frontrow("--data-dir", str(new_data_dir), "db", "restore", str(first))
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
