"""Statements that hand out tasks. Each is driven by arrays and finds its rows by index alone."""

# ruff: noqa: S608 - the parts put together here are constants, every value is a parameter

from __future__ import annotations

from services.task.models import FRESH, RETURNED

# What a worker is told of its task, and what the marks need.
CLAIMED = ", ".join(
    f"t.{name}"
    for name in (
        "id", "type", "version", "attempts", "max_attempts", "priority", "payload", "subject",
        "live_material_name", "video_project_name", "draft_url", "video_url", "clips_url", "claimed_by",
        "created_at", "queued_at", "run_after", "started_at", "trace_parent",
    )
)  # fmt: skip


# `room` is what pause and limit leave; the lock on the policy makes claims of a limited type take turns over
# all servers. `edge` is the order of the last row wanted of both kinds together, fresh and returned: what
# lies behind it must wait, so that the oldest are taken and no more rows are locked than taken (a locked row
# looks like none to others). `walk` is how long the rows were looked for, without the wait for the policy.
_CLAIMING = f"""
policy AS MATERIALIZED (
    SELECT paused, concurrency_limit, running FROM task.queue_policies WHERE type = {{kind}} FOR UPDATE
), room AS MATERIALIZED (
    SELECT n, clock_timestamp() AS since FROM (
        SELECT coalesce((SELECT CASE WHEN paused THEN 0
            WHEN concurrency_limit > 0 THEN least({{count}}::int8, greatest(0, concurrency_limit - running))
            ELSE {{count}}::int8 END FROM policy), {{count}}::int8) AS n OFFSET 0) locked
), edge AS MATERIALIZED (
    SELECT CASE WHEN NOT {{everywhere}}::bool
        AND EXISTS (SELECT FROM task.tasks WHERE type = {{kind}} AND {RETURNED}) THEN (
        SELECT max(o.claim_order) FROM (
            SELECT u.claim_order FROM (
                (SELECT claim_order, id FROM task.tasks
                 WHERE type = {{kind}} AND {FRESH} AND claim_order >= {{mark}}
                 ORDER BY claim_order, id LIMIT (SELECT n FROM room))
                UNION ALL
                (SELECT claim_order, id FROM task.tasks WHERE type = {{kind}} AND {RETURNED}
                 ORDER BY claim_order, id LIMIT (SELECT n FROM room))
            ) u ORDER BY u.claim_order, u.id LIMIT (SELECT n FROM room)) o
        HAVING count(*) >= (SELECT n FROM room)) END AS at
), returned AS MATERIALIZED (
    SELECT id, claim_order FROM task.tasks
    WHERE type = {{kind}} AND {RETURNED}
        AND claim_order <= coalesce((SELECT at FROM edge), 'infinity'::timestamptz)
    ORDER BY claim_order, id LIMIT (SELECT n FROM room) FOR UPDATE SKIP LOCKED
), fresh AS MATERIALIZED (
    SELECT id, claim_order FROM task.tasks
    WHERE type = {{kind}} AND {FRESH} AND claim_order >= {{mark}}
        AND claim_order <= coalesce((SELECT at FROM edge), 'infinity'::timestamptz)
    ORDER BY claim_order, id
    LIMIT (SELECT n FROM room) - (SELECT count(*) FROM returned) FOR UPDATE SKIP LOCKED
), picked AS MATERIALIZED (
    SELECT id, row_number() OVER (ORDER BY claim_order, id) AS slot
    FROM (SELECT id, claim_order FROM returned UNION ALL SELECT id, claim_order FROM fresh) u
), walk AS MATERIALIZED (
    SELECT extract(epoch FROM clock_timestamp() - (SELECT since FROM room))::float8 AS seconds
    FROM (SELECT count(*) FROM picked) done
), claimed AS (
    UPDATE task.tasks t SET
        status = 'processing', version = t.version + 1, attempts = t.attempts + 1,
        claimed_by = ({{workers}}::text[])[p.slot], last_worker = ({{workers}}::text[])[p.slot],
        absent_beats = 0, started_at = now(), heartbeat_at = now(), progress_at = now(),
        error_message = '', status_reason = '', progress = 0, progress_hundredths = 0,
        completed_at = NULL, ext = ''
    FROM picked p WHERE t.id = p.id
    RETURNING p.slot, t.claim_order, {CLAIMED}
), handed_out AS (
    INSERT INTO task.queue_deltas (type, pending, processing)
    SELECT {{kind}}, -count(*), count(*) FROM claimed HAVING count(*) > 0
)"""


def claiming(*, kind: str, count: str, mark: str, workers: str, everywhere: str) -> str:
    """Return the parts of a statement that claim tasks; what is claimed is in `claimed`.

    The arguments name parameters: the type, how many, the mark below which no fresh row is looked for, the
    worker of each slot, whether to look behind the edge, too. The policy's count is left to the statement.
    """
    return _CLAIMING.format(kind=kind, count=count, mark=mark, workers=workers, everywhere=everywhere)


# Whether there may be more behind the edge, and how long the look took. Told in every answer, also when
# nothing was claimed: a row whose `slot` is NULL.
LOOK = "(SELECT at FROM edge) IS NOT NULL AS edged, (SELECT seconds FROM walk) AS seconds"

_TAKEN = """
taken AS (
    UPDATE task.queue_policies q SET running = q.running + c.n
    FROM (SELECT count(*) AS n FROM claimed HAVING count(*) > 0) c WHERE q.type = $1
)
"""

# $1 type, $2 how many, $3 mark, $4 workers, $5 everywhere: see `claiming`.
CLAIM = f"""
WITH {claiming(kind="$1", count="$2", mark="$3", workers="$4", everywhere="$5")}, {_TAKEN}
SELECT {LOOK}, c.* FROM (VALUES (1)) AS always(one) LEFT JOIN claimed c ON true
"""

# $1 types, $2 how many, $3 of each type the mark below which no fresh row is looked for: how many of each are
# among the first of all, by the one order.
SHARES = f"""
SELECT c.type, count(*) AS share FROM (
    SELECT w.type FROM unnest($1::text[], $3::timestamptz[]) AS w(type, mark) CROSS JOIN LATERAL (
        (SELECT claim_order, id FROM task.tasks WHERE type = w.type AND {FRESH} AND claim_order >= w.mark
         ORDER BY claim_order, id LIMIT $2::int8)
        UNION ALL
        (SELECT claim_order, id FROM task.tasks WHERE type = w.type AND {RETURNED}
         ORDER BY claim_order, id LIMIT $2::int8)
    ) o ORDER BY o.claim_order, o.id LIMIT $2::int8
) c GROUP BY c.type
"""
