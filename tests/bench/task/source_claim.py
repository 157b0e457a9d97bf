"""The claim that SELECTs the oldest row and takes it by compare-and-set, against ours; 32 claimers each.

As SQL, without RPC: once with a connection for each claimer, and once through the desk, where the claimers of
a server share one statement.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections import Counter
from typing import Any

from libs.common.lane import Lane
from libs.common.settings import DatabaseSettings
from services.task import statements_claim
from services.task.limits import TypeLimits
from services.task.repository_end import Backoff
from services.task.settings import TaskSettings
from services.task.waiters import Waiter
from services.task.work import WorkDesk
from tests.bench import child
from tests.bench.bed import Bed
from tests.bench.report import Figure, worst_load
from tests.bench.task.rows import Rows

MODULE = "tests.bench.task.source_claim"
CLAIMERS = 32
MOST_TRIES = 64
TYPE = "claims"

_SOURCE_TABLE = """
CREATE TABLE source_tasks (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    type text NOT NULL, status text NOT NULL DEFAULT 'pending', version bigint NOT NULL DEFAULT 0,
    progress smallint NOT NULL DEFAULT 0, payload jsonb NOT NULL DEFAULT '{"material_id": 42}',
    created_at timestamptz NOT NULL, updated_at timestamptz NOT NULL,
    started_at timestamptz, completed_at timestamptz
);
CREATE INDEX ON source_tasks (type, created_at, id) WHERE status = 'pending';
CREATE INDEX ON source_tasks (type, updated_at) WHERE status = 'processing';
"""

_SOURCE_ROWS = """
INSERT INTO source_tasks (type, created_at, updated_at)
SELECT $1, at, at FROM generate_series(1, $2::int8) n,
    LATERAL (SELECT now() - interval '1 day' + n * interval '1 ms' AS at) o
"""

# One try a transaction; a claimer that lost 64 in a row reports "no task", though there are plenty.
_SOURCE_SCRIPT = f"""
\\set won 0
SELECT id AS candidate, version AS seen FROM source_tasks
WHERE type = '{TYPE}' AND status = 'pending' ORDER BY created_at, id LIMIT 1 \\gset
WITH taken AS (
    UPDATE source_tasks
    SET status = 'processing', version = version + 1, started_at = now(), updated_at = now()
    WHERE id = :candidate AND status = 'pending' AND version = :seen RETURNING 1
) SELECT count(*) AS won FROM taken \\gset
\\if :won
\\set tries 0
\\else
\\set tries :tries + 1
\\endif
\\if :tries >= {MOST_TRIES}
INSERT INTO false_empty DEFAULT VALUES;
\\set tries 0
\\endif
"""

# The planner settings of the service's own connections.
_PLAN = " ".join(
    f"-c {setting}"
    for setting in (
        "enable_hashjoin=off",
        "enable_mergejoin=off",
        "enable_seqscan=off",
        "plan_cache_mode=force_generic_plan",
        "jit=off",
    )
)


def _our_script() -> str:
    """Return our claim for one task a call, as a pgbench script."""
    given = {"1": f"'{TYPE}'", "2": "1", "3": "'-infinity'", "4": "'{claimer}'", "5": "false"}
    return re.sub(r"\$([1-5])", lambda found: given[found[1]], statements_claim.CLAIM) + ";\n"


async def measure(bed: Bed) -> list[Figure]:
    """Run each for the same time over as many rows."""
    rows, seconds = bed.amount(400_000, 100_000), bed.amount(10, 4)
    url = await bed.cluster.make_task_database("claims")
    connection = await bed.cluster.connect("claims")
    await connection.execute(_SOURCE_TABLE)
    await connection.execute("CREATE UNLOGGED TABLE false_empty (at timestamptz DEFAULT now())")
    await connection.execute(_SOURCE_ROWS, TYPE, rows)
    await Rows(connection).pending(TYPE, rows)
    source = await _run(bed, connection, _SOURCE_SCRIPT, seconds, table="source_tasks")
    alone = await _run(bed, connection, _our_script(), seconds, table="task.tasks", options=_PLAN)
    await connection.execute("TRUNCATE task.tasks")
    await Rows(connection).pending(TYPE, rows)
    await connection.close()
    await bed.cluster.settle("claims")
    desk = await bed.client(MODULE, None, database_url=url, seconds=seconds)
    theirs, load = max(source["rate"], 0.1), worst_load([source, alone, desk])
    details = {"source": source, "ours, a connection each": alone, "ours": desk}
    return [
        Figure(
            f"claims a second: {alone['rate']:,.0f}, the source's claim: {theirs:,.0f}",
            f"{alone['rate'] / theirs:.1f} ×", "≥ 5.0 ×", alone["rate"] >= 5 * theirs, load, details,
        ),
        Figure(
            f"false \"empty\" of ours; the source's claim gave {source['false_empty']}",
            f"{desk['false_empty'] + alone['false_empty']}", "0",
            desk["false_empty"] + alone["false_empty"] == 0, load,
        ),
        Figure(
            f"our claim as a server makes it, shared by the claimers of a moment: {desk['rate']:,.0f}/s",
            f"{desk['rate'] / theirs:.1f} ×", foreign_cores=worst_load([desk]),
        ),
    ]  # fmt: skip


async def _run(
    bed: Bed, connection: Any, script: str, seconds: int, *, table: str, options: str = ""
) -> dict[str, Any]:
    path = bed.folder / "claim.sql"
    path.write_text(script)
    await connection.execute("TRUNCATE false_empty")
    await bed.cluster.settle("claims")
    quiet = await asyncio.to_thread(bed.wait_quiet)
    with bed.meter() as measured:
        said = await bed.cluster.pgbench(
            "claims", "-n", "-M", "prepared", "-c", str(CLAIMERS), "-j", "2", "-T", str(seconds),
            "-D", "tries=0", "-f", str(path), options=options,
        )  # fmt: skip
    claims = await connection.fetchval(f"SELECT count(*) FROM {table} WHERE status = 'processing'")
    tries = int(re.findall(r"actually processed: (\d+)", said)[0])
    # Of ours each call counts; the source's claim has its own count, since it tries several times.
    empty = tries - claims
    if table == "source_tasks":
        empty = await connection.fetchval("SELECT count(*) FROM false_empty")
    if claims == await connection.fetchval(f"SELECT count(*) FROM {table}"):
        raise RuntimeError("there were too few rows for this machine")
    return {
        "rate": round(claims / seconds, 1),
        "won_share": round(claims / tries, 3),
        "false_empty": empty,
        "busy_before": quiet,
        **measured.facts(),
    }


async def _client(arguments: child.Arguments) -> dict[str, Any]:
    lane = Lane(DatabaseSettings(url=arguments["database_url"]), "bench")
    desk = WorkDesk(lane, TypeLimits(TaskSettings()), Backoff(0, 0), lambda ended, claimed: None)
    counts: Counter[str] = Counter()
    busy = child.quiet(arguments)

    async def claimer(number: int, until: float) -> None:
        while time.perf_counter() < until:
            _, claimed = await desk.end_and_claim((), Waiter(f"claimer-{number}", (TYPE,), 1))
            counts["claims" if claimed else "false_empty"] += 1

    with child.meter(arguments) as measured:
        until = time.perf_counter() + arguments["seconds"]
        await asyncio.gather(*(claimer(number, until) for number in range(CLAIMERS)))
    await desk.drained()
    await lane.close()
    return {
        "rate": round(counts["claims"] / measured.seconds, 1),
        "false_empty": counts["false_empty"],
        "busy_before": busy,
        **measured.facts(),
    }


if __name__ == "__main__":
    child.serve(_client)
