"""The hot statements of the queue. Each is driven by arrays and finds its rows by index alone.

A run is matched by id, version, `claimed_by IS NOT NULL` and `completed_at IS NULL`, never by `status`: with
it the planner may walk the whole index of running rows (domain.md 1.3).
"""

# ruff: noqa: S608 - the parts put together here are constants, every value is a parameter

from __future__ import annotations

from services.task.models import DELAYED, FRESH, RETURNED

LIVE = "t.id = g.id AND t.version = g.version AND t.claimed_by IS NOT NULL AND t.completed_at IS NULL"

TASK_COLUMNS = (
    "id, type, status, version, attempts, max_attempts, priority, progress, payload, ext, error_message, "
    "status_reason, subject, live_material_name, video_project_name, draft_url, video_url, clips_url, "
    "claimed_by, created_at, queued_at, run_after, started_at, heartbeat_at, progress_at, "
    "cancel_requested_at, completed_at, trace_parent"
)
OF_T = ", ".join(f"t.{name}" for name in TASK_COLUMNS.split(", "))

# $1 types, $2 ids of tasks whose types count, too. Claims, ends and sweeps change several policies and tasks
# in one transaction: the policies come first, by type, or two of them wait for each other in a circle.
LOCK_POLICIES = """
SELECT FROM task.queue_policies
WHERE type = ANY($1::text[]) OR type IN (SELECT t.type FROM task.tasks t WHERE t.id = ANY($2::uuid[]))
ORDER BY type FOR UPDATE
"""

LOCK_ALL_POLICIES = "SELECT FROM task.queue_policies ORDER BY type FOR UPDATE"

# $1 type, $2 how many, $3 the mark below which no fresh row is looked for, $4 the worker of each slot,
# $5 whether to look behind the edge, too. `room` is what pause and limit leave; the lock on the policy makes
# claims of a limited type take turns over all servers. `edge` is the order of the last row wanted of both
# kinds together, fresh and returned: what lies behind it must wait, so that the oldest are taken and no more
# rows are locked than taken (a locked row looks like none to others).
CLAIM = f"""
WITH policy AS MATERIALIZED (
    SELECT paused, concurrency_limit, running FROM task.queue_policies WHERE type = $1 FOR UPDATE
), room AS MATERIALIZED (
    SELECT coalesce((SELECT CASE WHEN paused THEN 0
        WHEN concurrency_limit > 0 THEN least($2::int8, greatest(0, concurrency_limit - running))
        ELSE $2::int8 END FROM policy), $2::int8) AS n
), edge AS MATERIALIZED (
    SELECT CASE WHEN NOT $5::bool AND EXISTS (SELECT FROM task.tasks WHERE type = $1 AND {RETURNED}) THEN (
        SELECT max(o.claim_order) FROM (
            SELECT u.claim_order FROM (
                (SELECT claim_order, id FROM task.tasks WHERE type = $1 AND {FRESH} AND claim_order >= $3
                 ORDER BY claim_order, id LIMIT (SELECT n FROM room))
                UNION ALL
                (SELECT claim_order, id FROM task.tasks WHERE type = $1 AND {RETURNED}
                 ORDER BY claim_order, id LIMIT (SELECT n FROM room))
            ) u ORDER BY u.claim_order, u.id LIMIT (SELECT n FROM room)) o
        HAVING count(*) >= (SELECT n FROM room)) END AS at
), returned AS MATERIALIZED (
    SELECT id, claim_order FROM task.tasks
    WHERE type = $1 AND {RETURNED} AND claim_order <= coalesce((SELECT at FROM edge), 'infinity'::timestamptz)
    ORDER BY claim_order, id LIMIT (SELECT n FROM room) FOR UPDATE SKIP LOCKED
), fresh AS MATERIALIZED (
    SELECT id, claim_order FROM task.tasks WHERE type = $1 AND {FRESH} AND claim_order >= $3
        AND claim_order <= coalesce((SELECT at FROM edge), 'infinity'::timestamptz)
    ORDER BY claim_order, id
    LIMIT (SELECT n FROM room) - (SELECT count(*) FROM returned) FOR UPDATE SKIP LOCKED
), picked AS MATERIALIZED (
    SELECT id, row_number() OVER (ORDER BY claim_order, id) AS slot
    FROM (SELECT id, claim_order FROM returned UNION ALL SELECT id, claim_order FROM fresh) u
), claimed AS (
UPDATE task.tasks t SET
    status = 'processing', version = t.version + 1, attempts = t.attempts + 1,
    claimed_by = ($4::text[])[p.slot], last_worker = ($4::text[])[p.slot], absent_beats = 0,
    started_at = now(), heartbeat_at = now(), progress_at = now(),
    error_message = '', status_reason = '', progress = 0, completed_at = NULL, ext = ''
FROM picked p WHERE t.id = p.id
RETURNING p.slot, t.claim_order, {OF_T}
), counted AS (
    INSERT INTO task.queue_deltas (type, pending, processing)
    SELECT $1, -count(*), count(*) FROM claimed HAVING count(*) > 0
), taken AS (
    UPDATE task.queue_policies q SET running = q.running + c.n
    FROM (SELECT count(*) AS n FROM claimed HAVING count(*) > 0) c WHERE q.type = $1
)
SELECT * FROM claimed
"""

# $1 types, $2 how many: how many of each type are among the first of all, by the one order.
SHARES = f"""
SELECT c.type, count(*) AS share FROM (
    SELECT w.type FROM unnest($1::text[]) AS w(type) CROSS JOIN LATERAL (
        (SELECT claim_order, id FROM task.tasks WHERE type = w.type AND {FRESH}
         ORDER BY claim_order, id LIMIT $2::int8)
        UNION ALL
        (SELECT claim_order, id FROM task.tasks WHERE type = w.type AND {RETURNED}
         ORDER BY claim_order, id LIMIT $2::int8)
    ) o ORDER BY o.claim_order, o.id LIMIT $2::int8
) c GROUP BY c.type
"""

# The same decision as states.status_after.
_NEXT = """(CASE WHEN t.cancel_requested_at IS NOT NULL THEN 'cancelled'
    WHEN g.ended_as = 'completed' THEN 'completed'
    WHEN g.ended_as = 'released' THEN 'pending'
    WHEN (g.retryable OR g.ended_as = 'lost') AND t.attempts < t.max_attempts THEN 'pending'
    ELSE 'failed' END)"""

# The pause before a task that is given back may be claimed, in seconds; full jitter by `draw`, 0 to 1.
_PAUSE = """(CASE WHEN g.ended_as = 'failed'
    THEN g.draw * least(g.longest, g.base * 2 ^ least(t.attempts - 1, 30)) ELSE g.pause END)"""


def _end(given: str) -> str:
    return f"""
WITH given AS MATERIALIZED ({given}),
ended AS (
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
), runs AS (
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
), freed AS (
    UPDATE task.queue_policies q SET running = q.running - e.n
    FROM (SELECT type, count(*) AS n FROM ended GROUP BY type) e WHERE q.type = e.type
)
SELECT n, id, run, type, status, due_at FROM ended
"""


# $1..$9 one array each: id, version, ended_as, progress, ext, message, retryable, pause, reason;
# $10 and $11 bound the back-off, in seconds.
END_GIVEN = _end("""
    SELECT u.*, random() AS draw, $10::float8 AS base, $11::float8 AS longest
    FROM unnest($1::uuid[], $2::int8[], $3::text[], $4::int2[], $5::bytea[], $6::text[], $7::bool[],
        $8::float8[], $9::text[])
        WITH ORDINALITY AS u(id, version, ended_as, progress, ext, message, retryable, pause, reason, n)""")

_LOST_COLUMNS = """t.id, t.version, 'lost' AS ended_as, NULL::int2 AS progress, ''::bytea AS ext,
        false AS retryable, 0::float8 AS pause, 0::float8 AS draw, 0::float8 AS base, 0::float8 AS longest,
        0::int8 AS n"""

# $1 types with limits of their own, $2 their leases, $3 their stall limits, $4 and $5 those of all other
# types; all in seconds, NULL: not to be swept now. $6 how many at most, $7 types to leave alone.
END_LOST = _end(f"""
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
    ORDER BY t.id LIMIT $6::int8 FOR UPDATE OF t SKIP LOCKED""")

# $1 type, $2 silence in seconds, $3 how many at most.
END_OLDER = _end(f"""
    SELECT {_LOST_COLUMNS}, 'STALE' AS reason,
        format('worker %s was not heard of for %s s', t.claimed_by,
            round(extract(epoch FROM now() - t.heartbeat_at))) AS message
    FROM task.tasks t
    WHERE t.status = 'processing' AND t.type = $1 AND t.heartbeat_at < now() - make_interval(secs => $2)
    ORDER BY t.id LIMIT $3::int8 FOR UPDATE SKIP LOCKED""")

# $1 ids, $2 versions: what is known of runs that a finish did not end.
RUN_RECORDS = """
SELECT g.n, t.id IS NOT NULL AS known, r.ended_as, r.outcome, r.reason
FROM unnest($1::uuid[], $2::int8[]) WITH ORDINALITY AS g(id, version, n)
LEFT JOIN task.tasks t ON t.id = g.id
LEFT JOIN task.task_runs r ON r.task_id = g.id AND r.version = g.version
"""

COUNT_LATE = """
UPDATE task.task_runs r SET late_writes = r.late_writes + g.count
FROM (SELECT id, version, count(*) AS count FROM unnest($1::uuid[], $2::int8[]) AS u(id, version)
      GROUP BY id, version) g
WHERE r.task_id = g.id AND r.version = g.version
"""

# $1 ids, $2 versions, $3 progress (NULL: none).
BEAT = f"""
WITH given AS MATERIALIZED (
    SELECT * FROM unnest($1::uuid[], $2::int8[], $3::int2[]) WITH ORDINALITY AS u(id, version, progress, n)
)
UPDATE task.tasks t SET
    heartbeat_at = now(), absent_beats = 0, progress = greatest(t.progress, g.progress),
    progress_at = CASE WHEN g.progress > t.progress THEN now() ELSE t.progress_at END
FROM given g WHERE {LIVE}
RETURNING g.n, t.type, t.cancel_requested_at IS NOT NULL AS cancel_requested, now() AS beaten_at,
    t.progress_at = now() AS rose
"""

KNOWN_IDS = "SELECT id FROM task.tasks WHERE id = ANY($1::uuid[])"

# $1 workers that beat, $2 ids and $3 versions they named, $4 age in seconds. SKIP LOCKED: a row that is being
# written is not lost.
COUNT_ABSENT = """
WITH absent AS MATERIALIZED (
    SELECT id FROM task.tasks
    WHERE status = 'processing' AND claimed_by = ANY($1::text[])
        AND started_at < now() - make_interval(secs => $4)
        AND (id, version) NOT IN (SELECT * FROM unnest($2::uuid[], $3::int8[]))
    ORDER BY id LIMIT 1000 FOR UPDATE SKIP LOCKED
)
UPDATE task.tasks t SET absent_beats = t.absent_beats + 1 FROM absent a WHERE t.id = a.id
RETURNING t.id, t.version, t.absent_beats
"""

# $1 how many: tasks whose time has come enter the claim's index.
MAKE_DUE = f"""
WITH due AS MATERIALIZED (
    SELECT id FROM task.tasks WHERE {DELAYED} AND due_at <= now()
    ORDER BY due_at LIMIT $1::int8 FOR UPDATE SKIP LOCKED
)
UPDATE task.tasks t SET due_at = NULL FROM due d WHERE t.id = d.id RETURNING t.type
"""

NEXT_DUE = f"SELECT min(due_at) - now() AS pause FROM task.tasks WHERE {DELAYED}"

# $1 age in days, $2 how many.
DELETE_OLD = """
WITH old AS MATERIALIZED (
    SELECT id FROM task.tasks WHERE completed_at < now() - make_interval(secs => $1 * 86400.0)
    ORDER BY completed_at LIMIT $2::int8 FOR UPDATE SKIP LOCKED
), runs AS (
    DELETE FROM task.task_runs r USING old o WHERE r.task_id = o.id
), deleted AS (
    DELETE FROM task.tasks t USING old o WHERE t.id = o.id RETURNING t.id, t.type, t.status
), counted AS (
    INSERT INTO task.queue_deltas (type, completed, failed, cancelled)
    SELECT type, -count(*) FILTER (WHERE status = 'completed'), -count(*) FILTER (WHERE status = 'failed'),
        -count(*) FILTER (WHERE status = 'cancelled')
    FROM deleted GROUP BY type
)
SELECT id FROM deleted
"""
