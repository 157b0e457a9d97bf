"""The test bed itself: copies of one template, broken migrations, patience."""

import asyncio
from pathlib import Path
from uuid import uuid4

import asyncpg
import pytest

import services
from libs.common import migrate, testing
from libs.common.testing import Template, TestCluster, eventually


async def _schemas(url: str) -> set[str]:
    connection = await asyncpg.connect(url)
    rows = await connection.fetch("SELECT nspname FROM pg_namespace")
    await connection.close()
    return {row[0] for row in rows}


async def test_each_copy_has_what_the_template_has_and_nothing_of_the_others(
    postgres: TestCluster, migrated_template: Template
) -> None:
    working = set(testing.contexts()) - set(migrated_template.failures)
    async with postgres.database(migrated_template) as one, postgres.database(migrated_template) as other:
        connection = await asyncpg.connect(one)
        await connection.execute("CREATE SCHEMA only_here")
        await connection.close()
        assert working | {"only_here"} <= await _schemas(one)
        assert working <= await _schemas(other)
        assert "only_here" not in await _schemas(other)
    with pytest.raises(asyncpg.InvalidCatalogNameError):
        await asyncpg.connect(one)


async def test_workers_that_ask_at_once_get_one_template(postgres: TestCluster) -> None:
    cluster = TestCluster(postgres.url("postgres"), f"test{uuid4().hex[:8]}")
    templates = await asyncio.gather(*(cluster.template() for _ in range(3)))
    assert templates[0] == templates[1] == templates[2]
    await cluster.drop_template()


async def test_broken_migrations_of_one_context_are_named_and_the_others_are_there(
    postgres: TestCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "broken" / "migrations").mkdir(parents=True)
    (tmp_path / "broken" / "__init__.py").touch()
    (tmp_path / "broken" / "migrations" / "env.py").write_text("raise RuntimeError('on purpose')")
    monkeypatch.setattr(services, "__path__", [*services.__path__, str(tmp_path)])
    monkeypatch.setattr(testing, "contexts", lambda: ("broken", "task", "missing"))
    cluster = TestCluster(postgres.url("postgres"), f"test{uuid4().hex[:8]}")
    template = await cluster.template()
    async with cluster.database(template) as url:
        assert "task" in await _schemas(url)
        await migrate.check(url, "task")
    await cluster.drop_template()
    assert set(template.failures) == {"broken", "missing"}
    assert "on purpose" in template.failures["broken"]
    assert "services/missing/migrations/env.py" in template.failures["missing"]


async def test_patience_ends_with_the_last_answer_and_an_assertion_is_not_yet() -> None:
    with pytest.raises(AssertionError, match="last: 0"):
        await eventually(lambda: 0, timeout_seconds=0.05)
    tries: list[int] = []

    async def third() -> str:
        tries.append(1)
        assert len(tries) == 3
        return "found"

    assert await eventually(third) == "found"
    with pytest.raises(ZeroDivisionError):
        await eventually(lambda: 1 / 0)
