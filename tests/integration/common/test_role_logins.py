"""Roles that log in: on an embedded cluster of the time before them, and by password as elsewhere."""

import asyncio
import json
import shutil
import stat
import subprocess
import tempfile
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path

import asyncpg
import pytest

from libs.common import database_passwords, database_roles, migrate
from libs.common.db import Database
from libs.common.lane import connect
from libs.common.postgres import EmbeddedPostgres
from libs.common.postgres_place import choose_account, place_data
from libs.common.settings import DatabaseSettings, role_of
from services.migrate import CONTEXTS, upgrade
from tests.e2e.process import frontrow

_OPTIONS = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}
_ROLES = [role_of(name) for name in CONTEXTS]


@dataclass
class Cluster:
    """A cluster whose every file may be changed by a test."""

    data_dir: Path
    server: EmbeddedPostgres
    url: str

    async def start(self, *, roles: list[str]) -> None:
        """Start it, or start it again."""
        self.server = EmbeddedPostgres(self.data_dir, options=_OPTIONS, roles=roles)
        self.url = await self.server.start()

    async def run(self, *statements: str, database: str = "frontrow") -> None:
        """Run statements as the cluster's owner."""
        connection = await asyncpg.connect(self.server.url(database))
        for statement in statements:
            await connection.execute(statement)
        await connection.close()

    def as_user(self, user: str, database: str = "frontrow") -> str:
        """Return the URL of a database for somebody else."""
        return self.server.url(database).replace("//frontrow@", f"//{user}@")


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    """Give a folder that any user can enter (pytest's own tmp_path is closed to PostgreSQL's user)."""
    made = Path(tempfile.mkdtemp(prefix="frontrow-test-"))
    made.chmod(0o755)
    yield made
    shutil.rmtree(made)


@pytest.fixture(scope="module")
async def cluster(folder: Path) -> AsyncIterator[Cluster]:
    """Give a running cluster without roles: one of an earlier release."""
    made = Cluster(folder / "postgres", EmbeddedPostgres(folder), "")
    await made.start(roles=[])
    yield made
    await made.server.stop()


async def _who_is_it(settings: DatabaseSettings) -> str:
    """Return the user that a pool connects as."""
    database = Database(settings, "frontrow-test")
    try:
        async with database.statements() as session:
            answer = await session.connection()
            return str((await answer.exec_driver_sql("SELECT current_user")).scalar_one())
    finally:
        await database.close()


async def test_an_embedded_cluster_of_an_earlier_release_is_handed_over_and_goes_on(cluster: Cluster) -> None:
    await upgrade(DatabaseSettings(url=cluster.url))
    await cluster.run("INSERT INTO review.brands (name, root_id) VALUES ('Maison', 0)")
    with pytest.raises(asyncpg.InvalidAuthorizationSpecificationError):
        await asyncpg.connect(cluster.as_user("frontrow_review"))
    await cluster.server.stop()

    await cluster.start(roles=_ROLES)
    await database_roles.apply(cluster.url, CONTEXTS)
    settings = DatabaseSettings(url=cluster.url, roles=True)
    await upgrade(settings)
    for name in CONTEXTS:
        assert await _who_is_it(settings.of(name)) == role_of(name)
        await migrate.check(settings.of(name).url, name)
    lane = await connect(settings.of("review"), "frontrow-test")
    assert await lane.fetchval("SELECT count(*) FROM review.brands WHERE name = 'Maison'") == 1
    with pytest.raises(asyncpg.InsufficientPrivilegeError):
        await lane.fetchval("SELECT count(*) FROM task.tasks")
    await lane.close()


async def _demand_passwords(cluster: Cluster) -> None:
    rules = "local all frontrow peer map=frontrow\nlocal all all scram-sha-256\n"
    (place_data(cluster.data_dir, choose_account(cluster.data_dir)) / "pg_hba.conf").write_text(rules)
    await cluster.run("SELECT pg_reload_conf()", database="postgres")


async def _frontrow(*arguments: str, url: str) -> "subprocess.CompletedProcess[str]":
    return await asyncio.to_thread(frontrow, *arguments, FRONTROW_DATABASE_URL=url)


async def test_a_server_of_yours_gets_roles_with_passwords_from_an_owner_who_is_no_superuser(
    cluster: Cluster, tmp_path: Path
) -> None:
    await _demand_passwords(cluster)
    await cluster.run(
        *[f"DROP OWNED BY {role} CASCADE" for role in _ROLES if await _exists(cluster, role)],
        "CREATE ROLE olga LOGIN CREATEROLE PASSWORD 'olga'",
        "CREATE DATABASE yours OWNER olga",
    )
    await cluster.run(*(f"DROP ROLE IF EXISTS {role}" for role in _ROLES), database="postgres")
    file = tmp_path / "roles.pgpass"
    file.touch(mode=0o600)
    file.write_text("# ours\n*:*:*:frontrow_asr:chosen:by-us")
    url = cluster.as_user("olga:olga", "yours")
    # the tables are there already: an owner of old times made them
    await upgrade(DatabaseSettings(url=url))

    done = await _frontrow("db", "roles", "--passwords", str(file), "--apply", url=url)
    assert done.returncode == 0, done.stderr
    assert "frontrow_ingest owns ingest" in done.stdout
    passwords = database_passwords.passwords_in(file, CONTEXTS)
    assert passwords["frontrow_asr"] == "chosen:by-us"
    assert len({*passwords.values()}) == 4

    settings = DatabaseSettings(url=f"{url}&passfile={file}", roles=True)
    await upgrade(settings)
    for name in CONTEXTS:
        assert await _who_is_it(settings.of(name)) == role_of(name)
    lane = await connect(settings.of("task"), "frontrow-test")
    with pytest.raises(asyncpg.InsufficientPrivilegeError):
        await lane.fetchval("SELECT count(*) FROM review.media")
    await lane.close()
    with pytest.raises(asyncpg.InvalidPasswordError):
        await asyncpg.connect(cluster.as_user("frontrow_task:wrong", "yours"))

    again = await _frontrow("db", "roles", "--passwords", str(file), "--apply", "--json", url=url)
    assert json.loads(again.stdout)["applied"] is True
    assert database_passwords.passwords_in(file, CONTEXTS) == passwords


async def _exists(cluster: Cluster, role: str) -> bool:
    connection = await asyncpg.connect(cluster.url)
    found = await connection.fetchval("SELECT to_regrole($1) IS NOT NULL", role)
    await connection.close()
    return bool(found)


async def test_who_may_not_make_roles_is_told_so(cluster: Cluster, tmp_path: Path) -> None:
    await _demand_passwords(cluster)
    await cluster.run("CREATE ROLE ann LOGIN PASSWORD 'ann'")
    refused = await _frontrow("db", "roles", "--apply", url=cluster.as_user("ann:ann"))
    assert refused.returncode == 1
    assert "PostgreSQL refused: permission denied" in refused.stderr


async def test_passwords_are_made_once_for_their_owner_alone_and_none_can_be_read_from_what_is_printed(
    tmp_path: Path,
) -> None:
    file = tmp_path / "roles.pgpass"
    identities = str(tmp_path / "pki")
    printed = await _frontrow("db", "roles", "--passwords", str(file), url="")
    assert printed.returncode == 0, printed.stderr
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    passwords = database_passwords.passwords_in(file, CONTEXTS)
    assert all(len(password) >= 43 for password in passwords.values())
    assert printed.stdout.count("SCRAM-SHA-256$4096:") == len(passwords)
    assert not [password for password in passwords.values() if password in printed.stdout]
    handed = await _frontrow("db", "roles", "--passwords", str(file), "--identities", identities, url="")
    assert handed.returncode == 0, handed.stderr
    for name in CONTEXTS:
        own = tmp_path / "pki" / name / database_passwords.OWN_FILE
        assert own.read_text() == f"*:*:*:{role_of(name)}:{passwords[role_of(name)]}\n"
        assert stat.S_IMODE(own.stat().st_mode) == 0o600
    refused = await _frontrow("db", "roles", "--identities", identities, url="")
    assert (refused.returncode, "--identities needs --passwords" in refused.stderr) == (2, True)
    file.write_text("*:*:*:frontrow_asr:with\\backslash\n")
    refused = await _frontrow("db", "roles", "--passwords", str(file), url="")
    assert (refused.returncode, "without spaces and backslashes" in refused.stderr) == (1, True)
    file.chmod(0o640)
    refused = await _frontrow("db", "roles", "--passwords", str(file), url="")
    assert (refused.returncode, "chmod 600" in refused.stderr) == (1, True)


async def test_without_a_server_of_yours_there_is_nothing_to_apply() -> None:
    refused = await _frontrow("db", "roles", "--apply", url="")
    assert refused.returncode == 1
    assert "FRONTROW_DATABASE_URL" in refused.stderr
