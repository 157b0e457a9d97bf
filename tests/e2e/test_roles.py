"""Everything in one process: each context is its own role in the database all the same."""

import asyncio

import asyncpg

from libs.common.postgres import url_of_running
from tests.e2e.process import Process


async def test_each_connection_of_a_context_is_its_own_roles(instance: Process) -> None:
    await asyncio.to_thread(instance.cli_json, "brands", "list")  # review connects when it is asked
    connection = await asyncpg.connect(url_of_running(instance.data_dir / "postgres"))
    rows = await connection.fetch(
        "SELECT DISTINCT split_part(application_name, '-', 2) AS context, usename FROM pg_stat_activity"
        " WHERE application_name LIKE 'frontrow-%'"
    )
    await connection.close()
    found = {(row["context"], row["usename"]) for row in rows}
    assert {context for context, _ in found} == {"task", "review", "asr", "ingest"}
    assert found == {(context, f"frontrow_{context}") for context, _ in found}
