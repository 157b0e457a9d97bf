"""Statements that end runs. One statement for all that end at once, guarded by each run's version."""

# ruff: noqa: S608 - the parts put together here are constants, every value is a parameter

from __future__ import annotations

from services.task.statements import LIVE

# The same decision as states.status_after.
_NEXT = """(CASE WHEN t.cancel_requested_at IS NOT NULL THEN 'cancelled'
    WHEN g.ended_as = 'completed' THEN 'completed'
    WHEN g.ended_as = 'released' THEN 'pending'
    WHEN (g.retryable OR g.ended_as = 'lost') AND t.attempts < t.max_attempts THEN 'pending'
    ELSE 'failed' END)"""

# The pause before a task that is given back may be claimed, in seconds; full jitter by `draw`, 0 to 1.
_PAUSE = """(CASE WHEN g.ended_as = 'failed'
    THEN g.draw * least(g.longest, g.base * 2 ^ least(t.attempts - 1, 30)) ELSE g.pause END)"""


_ENDED = f"""
    UPDATE task.tasks t SET
        status = {_NEXT}, version = t.version + 1, claimed_by = NULL, absent_beats = 0,
        attempts = t.attempts - (CASE WHEN g.ended_as = 'released' AND {_NEXT} = 'pending' THEN 1 ELSE 0 END),
        progress = CASE {_NEXT} WHEN 'pending' THEN 0
            WHEN 'completed' THEN greatest(t.progress, coalesce(g.progress, 100))
            ELSE greatest(t.progress, g.progress) END,
        ext = CASE {_NEXT} WHEN 'completed' THEN g.ext ELSE '' END,
        error_message = left(g.message, 4000),
        status_reason = CASE {_NEXT} WHEN 'completed' THEN '' WHEN 'cancelled' THEN 'CANCELLED'
            WHEN 'pending' THEN g.reason
            ELSE (CASE g.ended_as WHEN 'lost' THEN 'ABANDONED' ELSE 'FAILED' END) END,
        run_after = CASE WHEN {_NEXT} = 'pending' AND {_PAUSE} > 0
            THEN now() + make_interval(secs => {_PAUSE}) ELSE t.run_after END,
        due_at = CASE WHEN {_NEXT} = 'pending' AND {_PAUSE} > 0
            THEN now() + make_interval(secs => {_PAUSE}) END,
        completed_at = CASE WHEN {_NEXT} <> 'pending' THEN now() END
    FROM given g WHERE {LIVE}
    RETURNING g.n, g.ended_as, g.reason AS given_reason, t.id, t.version - 1 AS run, t.type, t.status,
        t.due_at, t.last_worker, t.started_at, t.status_reason
"""

# The record of each run that ended, and the change of the counters.
_NOTED = """
runs AS (
    INSERT INTO task.task_runs (task_id, version, worker_id, started_at, ended_at, ended_as, outcome, reason)
    SELECT id, run, last_worker, started_at, now(), ended_as,
        CASE status WHEN 'completed' THEN 'applied' WHEN 'pending' THEN 'requeued' ELSE status END,
        CASE WHEN ended_as = 'lost' OR given_reason = 'REPLY_LOST' THEN given_reason ELSE status_reason END
    FROM ended
), counted AS (
    INSERT INTO task.queue_deltas (type, pending, processing, completed, failed, cancelled, ended)
    SELECT type, count(*) FILTER (WHERE status = 'pending'), -count(*),
        count(*) FILTER (WHERE status = 'completed'), count(*) FILTER (WHERE status = 'failed'),
        count(*) FILTER (WHERE status = 'cancelled'), count(*) FILTER (WHERE status <> 'pending')
    FROM ended GROUP BY type
)"""


def ending(given: str) -> str:
    """Return the parts of a statement that end the runs the query `given` names; they are then in `ended`.

    The policies' counts are left to the statement.
    """
    return f"given AS MATERIALIZED ({given}), ended AS ({_ENDED}), {_NOTED}"


_FREED = """
freed AS (
    UPDATE task.queue_policies q SET running = q.running - e.n
    FROM (SELECT type, count(*) AS n FROM ended GROUP BY type) e WHERE q.type = e.type
)
"""


def _end(given: str, more: str = "") -> str:
    return f"WITH {ending(given)}, {_FREED} SELECT n, id, type, status, due_at{more} FROM ended"


# $1..$9 one array each: id, version, ended_as, progress, ext, message, retryable, pause, reason;
# $10 and $11 bound the back-off, in seconds.
GIVEN = """
    SELECT u.*, random() AS draw, $10::float8 AS base, $11::float8 AS longest
    FROM unnest($1::uuid[], $2::int8[], $3::text[], $4::int2[], $5::bytea[], $6::text[], $7::bool[],
        $8::float8[], $9::text[])
        WITH ORDINALITY AS u(id, version, ended_as, progress, ext, message, retryable, pause, reason, n)"""
END_GIVEN = _end(GIVEN)

_LOST_COLUMNS = """t.id, t.version, 'lost' AS ended_as, NULL::int2 AS progress, ''::bytea AS ext,
        false AS retryable, 0::float8 AS pause, 0::float8 AS draw, 0::float8 AS base, 0::float8 AS longest,
        0::int8 AS n"""

# $1 types with limits of their own, $2 their leases, $3 their stall limits, $4 and $5 those of all other
# types; all in seconds, NULL: nobody is lost, or stuck, by that now. $6 how many at most, $7 types to leave
# alone.
END_LOST = _end(
    f"""
    SELECT {_LOST_COLUMNS}, x.reason,
        CASE x.reason WHEN 'STALE' THEN format('worker %s was not heard of for %s s', t.claimed_by,
            round(extract(epoch FROM now() - t.heartbeat_at)))
        ELSE format('no progress for %s s', round(extract(epoch FROM now() - t.progress_at))) END AS message
    FROM task.tasks t
    LEFT JOIN unnest($1::text[], $2::float8[], $3::float8[]) AS p(type, lease, stall) ON p.type = t.type
    CROSS JOIN LATERAL (SELECT
        CASE WHEN p.type IS NULL THEN $4::float8 ELSE p.lease END AS lease,
        CASE WHEN p.type IS NULL THEN $5::float8 ELSE p.stall END AS stall) l
    CROSS JOIN LATERAL (SELECT CASE
        WHEN t.heartbeat_at < now() - make_interval(secs => l.lease) THEN 'STALE'
        WHEN t.progress_at < now() - make_interval(secs => l.stall) THEN 'STALLED' END AS reason) x
    WHERE t.status = 'processing' AND x.reason IS NOT NULL AND t.type <> ALL($7::text[])
    ORDER BY t.claimed_by, t.id LIMIT $6::int8 FOR UPDATE OF t SKIP LOCKED""",
    ", given_reason",
)

# $1 type, $2 silence in seconds, $3 how many at most.
END_OLDER = _end(
    f"""
    SELECT {_LOST_COLUMNS}, 'STALE' AS reason,
        format('worker %s was not heard of for %s s', t.claimed_by,
            round(extract(epoch FROM now() - t.heartbeat_at))) AS message
    FROM task.tasks t
    WHERE t.status = 'processing' AND t.type = $1 AND t.heartbeat_at < now() - make_interval(secs => $2)
    ORDER BY t.claimed_by, t.id LIMIT $3::int8 FOR UPDATE SKIP LOCKED""",
    ", given_reason",
)
