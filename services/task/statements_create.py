"""Statements that add tasks: one for all callers of a moment."""

from __future__ import annotations

from services.task.models import FRESH, RETURNED
from services.task.statements import OF_T

# ruff: noqa: S608 - the parts put together here are constants, every value is a parameter

# $1..$12 one array each, a column of the new tasks; $13 the worker that waits for each (NULL: none), $14 the
# order below which no fresh task of its type waits. A task that somebody waits for, and before which nothing
# of its type comes, begins at once, as if it had been claimed: one commit less between its creation and its
# run. A type with a policy goes the long way, where pause and limit are kept.
INSERT = f"""
WITH given AS MATERIALIZED (
    SELECT u.*, CASE WHEN u.run_after > now() THEN u.run_after END AS due_at,
        u.worker IS NOT NULL AND coalesce(u.run_after <= now(), true)
            AND (SELECT 1 FROM task.tasks t WHERE t.type = u.type AND {FRESH} AND t.claim_order >= u.mark
                 ORDER BY t.claim_order, t.id LIMIT 1) IS NULL
            AND (SELECT 1 FROM task.tasks t WHERE t.type = u.type AND {RETURNED}
                 ORDER BY t.claim_order, t.id LIMIT 1) IS NULL
            AND (SELECT 1 FROM task.queue_policies p WHERE p.type = u.type) IS NULL AS begins
    FROM unnest($1::uuid[], $2::text[], $3::text[], $4::int4[], $5::bytea[], $6::bytea[], $7::text[],
        $8::text[], $9::text[], $10::int4[], $11::timestamptz[], $12::text[], $13::text[], $14::timestamptz[])
        AS u(id, request_id, type, priority, payload, content_sha256, subject, live_material_name,
             video_project_name, max_attempts, run_after, trace_parent, worker, mark)
), made AS (
INSERT INTO task.tasks AS t (id, request_id, type, priority, payload, content_sha256, subject,
    live_material_name, video_project_name, max_attempts, run_after, trace_parent, due_at, claim_order,
    status, version, attempts, claimed_by, last_worker, started_at, heartbeat_at, progress_at)
SELECT g.id, g.request_id, g.type, g.priority, g.payload, g.content_sha256, g.subject, g.live_material_name,
    g.video_project_name, g.max_attempts, g.run_after, g.trace_parent, g.due_at,
    now() - make_interval(secs => g.priority * 60.0),
    CASE WHEN g.begins THEN 'processing' ELSE 'pending' END, g.begins::int, g.begins::int,
    CASE WHEN g.begins THEN g.worker END, CASE WHEN g.begins THEN g.worker ELSE '' END,
    CASE WHEN g.begins THEN now() END, CASE WHEN g.begins THEN now() END, CASE WHEN g.begins THEN now() END
FROM given g
ON CONFLICT DO NOTHING
RETURNING t.due_at, t.claim_order, {OF_T}
), counted AS (
    INSERT INTO task.queue_deltas (type, pending, processing, created)
    SELECT type, count(*) FILTER (WHERE status = 'pending'), count(*) FILTER (WHERE status = 'processing'),
        count(*)
    FROM made GROUP BY type
)
SELECT * FROM made
"""

# $1 ids, $2 request ids (empty: none): the tasks that stand under them.
EXISTING = f"""
SELECT g.n, t.request_id, t.content_sha256, {OF_T}
FROM unnest($1::uuid[], $2::text[]) WITH ORDINALITY AS g(id, request_id, n)
CROSS JOIN LATERAL (
    (SELECT * FROM task.tasks WHERE id = g.id)
    UNION
    (SELECT * FROM task.tasks WHERE request_id = g.request_id AND request_id <> '')
) t
"""
