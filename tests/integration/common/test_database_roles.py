"""One role for each schema: what it owns, and that everything of the others' is closed to it."""

import asyncio
from collections.abc import AsyncIterator, Sequence

import asyncpg
import pytest

from libs.common import database_roles
from libs.common.settings import role_of
from libs.common.testing import Template, TestCluster, contexts

LATER = "archive"
"""A schema that no release has yet."""
SCHEMAS = (*contexts(), LATER)

# Of every kind that a migration may make, by whoever runs it.
KINDS = """
CREATE TABLE {0}.added (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, old serial, note text);
CREATE TABLE {0}.parted (day date NOT NULL) PARTITION BY RANGE (day);
CREATE TABLE {0}.part PARTITION OF {0}.parted FOR VALUES FROM ('2026-01-01') TO ('2027-01-01');
CREATE VIEW {0}.seen AS SELECT id FROM {0}.added;
CREATE MATERIALIZED VIEW {0}.kept AS SELECT id FROM {0}.added;
CREATE SEQUENCE {0}.numbers;
CREATE TYPE {0}.mood AS ENUM ('good', 'bad');
CREATE TYPE {0}.pair AS (a int, b int);
CREATE TYPE {0}.span AS RANGE (subtype = int);
CREATE DOMAIN {0}.short AS text CHECK (length(VALUE) < 9);
CREATE FUNCTION {0}.reads() RETURNS bigint LANGUAGE sql SECURITY DEFINER AS 'SELECT count(*) FROM {0}.added';
CREATE PROCEDURE {0}.writes() LANGUAGE sql AS 'INSERT INTO {0}.added (note) VALUES (NULL)';
CREATE AGGREGATE {0}.total(int) (SFUNC = int4pl, STYPE = int);
"""
TABLE_STATEMENTS = (
    "SELECT FROM {0}",
    "INSERT INTO {0} DEFAULT VALUES",
    "DELETE FROM {0}",
    "TRUNCATE {0}",
    "BEGIN; LOCK TABLE {0}; COMMIT",
    "DROP TABLE {0}",
    "COMMENT ON TABLE {0} IS 'mine'",
)
SCHEMA_STATEMENTS = (
    "CREATE TABLE {0}.intruder ()",
    "SELECT {0}.reads()",
    "CALL {0}.writes()",
    "SELECT nextval('{0}.numbers')",
    "ALTER SEQUENCE {0}.numbers RESTART",
    "SELECT 'good'::{0}.mood",
    "DROP SCHEMA {0} CASCADE",
    "GRANT USAGE ON SCHEMA {0} TO PUBLIC",
)
ELSEWHERE = (
    "CREATE TABLE public.intruder ()",
    "CREATE SCHEMA intruder",
    "CREATE TEMPORARY TABLE intruder ()",
    "CREATE EXTENSION pg_trgm",
    "CREATE ROLE intruder",
    "CREATE DATABASE intruder",
    "COPY (SELECT 1) TO PROGRAM 'true'",
    "SELECT pg_read_file('PG_VERSION')",
)

Connection = asyncpg.Connection


@pytest.fixture(scope="module")
async def url(postgres: TestCluster, migrated_template: Template) -> AsyncIterator[str]:
    """A database of every context that the superuser migrated, with later tables, then given its roles."""
    async with postgres.database(migrated_template) as url:
        connection = await asyncpg.connect(url)
        await connection.execute(f"CREATE SCHEMA {LATER}")
        for schema in SCHEMAS:
            await connection.execute(KINDS.format(schema))
        await database_roles.apply(url, SCHEMAS)
        await connection.close()
        yield url


@pytest.fixture
async def connection(url: str) -> AsyncIterator["Connection[asyncpg.Record]"]:
    opened = await asyncpg.connect(url)
    yield opened
    await opened.close()


async def _become(connection: "Connection[asyncpg.Record]", schema: str) -> None:
    """Be the role from here on; only `_superuser` goes back."""
    await connection.execute(f"SET SESSION AUTHORIZATION {role_of(schema)}")


async def _relations(connection: "Connection[asyncpg.Record]", schema: str, kinds: str) -> list[str]:
    rows = await connection.fetch(
        "SELECT oid::regclass::text FROM pg_class WHERE relnamespace = $1::text::regnamespace"
        " AND position(relkind::text in $2) > 0",
        schema,
        kinds,
    )
    return [row[0] for row in rows]


async def _allowed(connection: "Connection[asyncpg.Record]", statements: Sequence[str]) -> list[str]:
    """Return the statements that the session isn't refused."""
    allowed = []
    for statement in statements:
        try:
            await connection.execute(statement)
        except asyncpg.InsufficientPrivilegeError:
            await connection.execute("ROLLBACK")
        except asyncpg.PostgresError as error:  # not refused: wrong otherwise
            allowed.append(f"{statement}: {error}")
        else:
            allowed.append(statement)
    return allowed


async def test_each_role_owns_everything_of_its_schema(connection: "Connection[asyncpg.Record]") -> None:
    owners = await connection.fetch("""
        SELECT DISTINCT n.nspname AS schema, a.owner::regrole::text AS owner
        FROM pg_namespace n, LATERAL (
            SELECT nspowner FROM pg_namespace WHERE oid = n.oid
            UNION ALL SELECT relowner FROM pg_class WHERE relnamespace = n.oid
            UNION ALL SELECT proowner FROM pg_proc WHERE pronamespace = n.oid
            UNION ALL SELECT typowner FROM pg_type WHERE typnamespace = n.oid) AS a (owner)
        WHERE n.nspname !~ '^pg_' AND n.nspname NOT IN ('information_schema', 'public')""")
    assert {(row["schema"], row["owner"]) for row in owners} == {(name, role_of(name)) for name in SCHEMAS}


@pytest.mark.parametrize("mine", SCHEMAS)
async def test_a_role_does_all_it_needs_in_its_own_schema(
    connection: "Connection[asyncpg.Record]", mine: str
) -> None:
    tables = await _relations(connection, mine, "rpvm")
    assert len(tables) > 4
    await _become(connection, mine)
    for table in tables:
        await connection.execute(f"SELECT * FROM {table} LIMIT 1")
    for statement in (
        f"CREATE TABLE {mine}.another (id serial PRIMARY KEY)",
        f"INSERT INTO {mine}.another DEFAULT VALUES",
        f"ALTER TABLE {mine}.added ADD COLUMN more int",
        f"CREATE INDEX CONCURRENTLY ON {mine}.added (note)",
        f"CALL {mine}.writes()",
        f"SELECT {mine}.reads(), nextval('{mine}.numbers'), {mine}.total(1), 'good'::{mine}.mood",
    ):
        await connection.execute(statement)


@pytest.mark.parametrize("mine", SCHEMAS)
async def test_nothing_of_another_schema_is_open_to_a_role(
    connection: "Connection[asyncpg.Record]", mine: str
) -> None:
    statements: list[str] = []
    for other in sorted(set(SCHEMAS) - {mine}):
        tables = await _relations(connection, other, "rp")
        sequences = await _relations(connection, other, "S")
        views = await _relations(connection, other, "vm")
        assert tables
        assert sequences
        statements += [statement.format(table) for table in tables for statement in TABLE_STATEMENTS]
        statements += [f"SELECT last_value FROM {name}" for name in sequences]
        statements += [f"SELECT FROM {name}" for name in views]
        statements += [statement.format(other) for statement in SCHEMA_STATEMENTS]
        statements.append(f"SET ROLE {role_of(other)}")
    await _become(connection, mine)
    assert await _allowed(connection, [*statements, *ELSEWHERE]) == []


async def test_what_a_role_adds_later_is_its_own_and_closed_to_the_others_without_any_grant(
    connection: "Connection[asyncpg.Record]",
) -> None:
    mine, other = contexts()[:2]
    await _become(connection, mine)
    await connection.execute(f"CREATE TABLE {mine}.tomorrow (id serial PRIMARY KEY)")
    await connection.execute(f"CREATE FUNCTION {mine}.answer() RETURNS int LANGUAGE sql AS 'SELECT 42'")
    await connection.execute("RESET SESSION AUTHORIZATION")
    await _become(connection, other)
    reads = [f"SELECT FROM {mine}.tomorrow", f"SELECT {mine}.answer()"]
    assert await _allowed(connection, [*reads, f"SELECT last_value FROM {mine}.tomorrow_id_seq"]) == []


async def test_the_script_may_run_again_beside_itself_and_beside_another_databases(
    url: str, postgres: TestCluster
) -> None:
    async with postgres.database(None) as other:
        await asyncio.gather(*(database_roles.apply(one, SCHEMAS) for one in (url, other) * 3))


async def test_a_role_that_can_do_too_much_already_is_named_and_nothing_is_changed(
    postgres: TestCluster,
) -> None:
    async with postgres.database(None) as url:
        connection = await asyncpg.connect(url)
        try:
            for role, spoil, mend in (
                ("frontrow_mighty", "ALTER ROLE {0} CREATEROLE", "ALTER ROLE {0} NOCREATEROLE"),
                ("frontrow_member", "GRANT pg_read_all_data TO {0}", "REVOKE pg_read_all_data FROM {0}"),
            ):
                schema = role.removeprefix("frontrow_")
                await connection.execute(f"DROP ROLE IF EXISTS {role}")
                await connection.execute(f"CREATE ROLE {role}")
                await connection.execute(spoil.format(role))
                with pytest.raises(asyncpg.RaiseError, match=f"too much: {role} ") as refused:
                    await database_roles.apply(url, [schema])
                assert "REVOKE" in (refused.value.hint or "")
                assert await connection.fetchval("SELECT to_regnamespace($1)", schema) is None
                await connection.execute(mend.format(role))
                await database_roles.apply(url, [schema])
                await connection.execute(f"DROP OWNED BY {role}")
                await connection.execute(f"DROP ROLE {role}")
        finally:
            await connection.close()
