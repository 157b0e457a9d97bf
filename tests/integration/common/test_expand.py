"""Migrations since the release before: what they run leaves that release and its traffic alone."""

import asyncio
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from alembic.config import Config
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, Engine, event

from libs.common import migrate
from libs.common.testing import TestCluster, contexts
from tools.released import ROOT, extract, reference

_DDL = re.compile(r"\s*(ALTER|CREATE|DROP|TRUNCATE|REINDEX|CLUSTER|LOCK|VACUUM)\b", re.IGNORECASE)


@pytest.fixture(scope="module")
def released(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give the services of the release before."""
    folder = tmp_path_factory.mktemp("released")
    extract(reference(), folder, ["services"])
    return folder


def _versions(root: Path, ctx: str) -> dict[str, str]:
    folder = root / "services" / ctx / "migrations" / "versions"
    return {path.name: path.read_text(encoding="utf-8") for path in sorted(folder.glob("*.py"))}


@pytest.mark.parametrize("ctx", contexts())
def test_revisions_that_were_released_stay_as_they_are(released: Path, ctx: str) -> None:
    assert _versions(released, ctx).items() <= _versions(ROOT, ctx).items()


@pytest.mark.parametrize("ctx", contexts())
async def test_new_revisions_take_nothing_away_and_block_nobody(
    released: Path, postgres: TestCluster, ctx: str
) -> None:
    config = Config()
    config.set_main_option("script_location", str(migrate.migrations_folder(ctx)))
    config.set_main_option("path_separator", "os")
    revisions = [*ScriptDirectory.from_config(config).walk_revisions()][::-1]
    known = len(_versions(released, ctx))
    async with postgres.database(None) as url:
        await migrate.upgrade(url, ctx, revision=revisions[known - 1].revision)
        for revision in revisions[known:]:
            with _statements() as ran:
                await migrate.upgrade(url, ctx, revision=revision.revision)
            allowed = getattr(revision.module, "allowed", {})
            found = await asyncio.to_thread(squawk, ran, tuple(allowed))
            assert not found, f"{ctx} {revision.revision}:\n{found}"


@contextmanager
def _statements() -> Iterator[list[str]]:
    """Collect what changes a schema, with the transactions around it, from all engines of this process."""
    ran: list[str] = []
    inside = False

    def note(connection: Connection, _cursor: Any, statement: str, *_: Any) -> None:
        nonlocal inside
        if not _DDL.match(statement):
            return
        alone = connection.get_execution_options().get("isolation_level") == "AUTOCOMMIT"
        if inside == alone:
            ran.append("COMMIT" if inside else "BEGIN")
            inside = not alone
        ran.append(statement.strip().rstrip(";"))

    event.listen(Engine, "before_cursor_execute", note)
    try:
        yield ran
    finally:
        event.remove(Engine, "before_cursor_execute", note)
        if inside:
            ran.append("COMMIT")


def squawk(statements: list[str], allowed: tuple[str, ...] = ()) -> str:
    """Return what squawk has against statements, empty for nothing."""
    config = ROOT / ".squawk.toml"
    # what the command line excludes takes the place of the file's
    excluded = [*tomllib.loads(config.read_text(encoding="utf-8"))["excluded_rules"], *allowed]
    done = subprocess.run(
        [
            Path(sys.executable).parent / "squawk",
            "--config",
            config,
            "--exclude",
            ",".join(excluded),
            "--reporter",
            "gcc",
        ],
        input="".join(f"{statement};\n" for statement in statements),
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout + done.stderr if done.returncode else ""


@pytest.mark.parametrize(
    ("statement", "rule"),
    [
        ("ALTER TABLE task.tasks DROP COLUMN ext", "ban-drop-column"),
        ("DROP TABLE task.workers", "ban-drop-table"),
        ("ALTER TABLE task.tasks RENAME COLUMN ext TO extra", "renaming-column"),
        ("ALTER TABLE task.tasks RENAME TO work", "renaming-table"),
        ("ALTER TABLE task.tasks ALTER COLUMN priority TYPE bigint", "changing-column-type"),
        ("ALTER TABLE task.tasks ADD COLUMN shard int NOT NULL", "adding-required-field"),
        ("ALTER TABLE task.tasks ALTER COLUMN lease_until SET NOT NULL", "adding-not-nullable-field"),
        ("ALTER TABLE task.tasks ADD CONSTRAINT c CHECK (priority > 0)", "constraint-missing-not-valid"),
        ("CREATE INDEX i ON task.tasks (type)", "require-concurrent-index-creation"),
        ("DROP INDEX task.ix_tasks_created", "require-concurrent-index-deletion"),
    ],
)
def test_what_would_break_or_block_the_release_before_is_refused(statement: str, rule: str) -> None:
    assert rule in squawk([statement])


def test_what_only_adds_is_let_through() -> None:
    expanding = [
        "BEGIN",
        "ALTER TABLE task.tasks ADD COLUMN shard int NOT NULL DEFAULT 0",
        "ALTER TABLE task.tasks ADD CONSTRAINT c CHECK (shard >= 0) NOT VALID",
        "CREATE TABLE task.shards (id int PRIMARY KEY)",
        "CREATE INDEX j ON task.shards (id)",
        "COMMIT",
        "ALTER TABLE task.tasks VALIDATE CONSTRAINT c",
        "CREATE INDEX CONCURRENTLY i ON task.tasks (shard)",
        "DROP INDEX CONCURRENTLY task.ix_tasks_created",
    ]
    assert squawk(expanding) == ""
