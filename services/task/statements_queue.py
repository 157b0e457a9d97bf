"""Statements about queues as a whole: why a claim came back empty, counters, policies."""

from __future__ import annotations

from services.task.models import DELAYED, FRESH, LEVELS, RETURNED

# ruff: noqa: S608 - the parts put together here are constants, every value is a parameter

_ALL = (*LEVELS, "created", "ended")

# :types: what is pending of each, claimable or later, and what holds it back.
IDLE = f"""
SELECT w.type,
    EXISTS (SELECT FROM task.tasks WHERE type = w.type AND {FRESH})
        OR EXISTS (SELECT FROM task.tasks WHERE type = w.type AND {RETURNED}) AS claimable,
    EXISTS (SELECT FROM task.tasks WHERE type = w.type AND {DELAYED}) AS later,
    coalesce(p.paused, false) AS paused, coalesce(p.running, 0) AS running,
    coalesce(p.concurrency_limit, 0) AS concurrency_limit,
    coalesce(p.concurrency_limit > 0 AND p.running >= p.concurrency_limit, false) AS full
FROM unnest(cast(:types AS text[])) AS w(type) LEFT JOIN task.queue_policies p ON p.type = w.type
"""

# $1 how many deltas at most. Several servers may fold at once; each takes rows of its own.
FOLD = f"""
WITH taken AS MATERIALIZED (
    SELECT id FROM task.queue_deltas ORDER BY id LIMIT $1::int8 FOR UPDATE SKIP LOCKED
), gone AS (
    DELETE FROM task.queue_deltas d USING taken t WHERE d.id = t.id RETURNING d.*
), levels AS (
    INSERT INTO task.queue_counts AS c (type, {", ".join(LEVELS)})
    SELECT type, {", ".join(f"sum({name})" for name in LEVELS)} FROM gone GROUP BY type ORDER BY type
    ON CONFLICT (type) DO UPDATE SET {", ".join(f"{name} = c.{name} + excluded.{name}" for name in LEVELS)}
), flows AS (
    INSERT INTO task.queue_minutes AS m (type, minute, created, ended)
    SELECT type, date_trunc('minute', at), sum(created), sum(ended) FROM gone
    GROUP BY 1, 2 HAVING sum(created) <> 0 OR sum(ended) <> 0 ORDER BY 1, 2
    ON CONFLICT (type, minute) DO UPDATE SET created = m.created + excluded.created,
        ended = m.ended + excluded.ended
)
SELECT count(*) FROM gone
"""

DROP_MINUTES = "DELETE FROM task.queue_minutes WHERE minute < now() - interval '1 hour'"

# :types (empty: all), :after and :limit (a page by type), :minutes: each queue with its counters (folded and
# not yet folded), policy, rates, oldest pending task and live workers. A type is there for its tasks, or
# for a policy that holds: a typo that was taken back is gone.
QUEUES = f"""
SELECT q.*, now() - q.oldest_queued_at AS oldest_age FROM (
WITH unfolded AS (
    SELECT type, {", ".join(f"sum({name}) AS {name}" for name in _ALL)}
    FROM task.queue_deltas GROUP BY type
), flows AS (
    SELECT type, sum(created) AS created, sum(ended) AS ended FROM (
        SELECT type, created, ended FROM task.queue_minutes
        WHERE minute > now() - make_interval(mins => cast(:minutes AS int))
        UNION ALL
        SELECT type, created, ended FROM unfolded) f
    GROUP BY type
), names AS (
    SELECT type FROM (
        SELECT type FROM task.queue_counts
        UNION SELECT type FROM task.queue_policies
            WHERE paused OR concurrency_limit > 0 OR lease_seconds > 0 OR stall_seconds > 0
                OR max_attempts > 0
        UNION SELECT type FROM unfolded) every
    WHERE (cardinality(cast(:types AS text[])) = 0 OR type = ANY(cast(:types AS text[])))
        AND type > cast(:after AS text)
    ORDER BY type LIMIT cast(:limit AS int8)
)
SELECT n.type,
    {", ".join(f"coalesce(c.{name}, 0) + coalesce(u.{name}, 0) AS {name}" for name in LEVELS)},
    coalesce(f.created, 0) AS created, coalesce(f.ended, 0) AS ended,
    coalesce(p.paused, false) AS paused, coalesce(p.concurrency_limit, 0) AS concurrency_limit,
    coalesce(p.lease_seconds, 0) AS lease_seconds, coalesce(p.stall_seconds, 0) AS stall_seconds,
    coalesce(p.max_attempts, 0) AS max_attempts,
    least(
        (SELECT queued_at FROM task.tasks WHERE type = n.type AND {FRESH}
         ORDER BY claim_order, id LIMIT 1),
        (SELECT queued_at FROM task.tasks WHERE type = n.type AND {RETURNED}
         ORDER BY claim_order, id LIMIT 1)) AS oldest_queued_at,
    (SELECT count(*) FROM task.workers w WHERE n.type = ANY(w.types)
     AND w.last_seen_at > now() - interval '3 minutes' AND w.left_at IS NULL) AS workers
FROM names n
LEFT JOIN task.queue_counts c ON c.type = n.type
LEFT JOIN unfolded u ON u.type = n.type
LEFT JOIN flows f ON f.type = n.type
LEFT JOIN task.queue_policies p ON p.type = n.type
) q ORDER BY q.type
"""

# The row of a type's first policy, which limits nothing until its runs are counted. Opened anew by each call
# that finds it uncounted.
OPEN_POLICY = """
INSERT INTO task.queue_policies AS p (type, counted) VALUES (:type, false)
ON CONFLICT (type) DO UPDATE SET updated_at = now() WHERE NOT p.counted
"""

# Rows opened by calls that were refused or died before they could count: no call lasts for minutes.
DROP_UNCOUNTED = """
DELETE FROM task.queue_policies WHERE type IN (
    SELECT type FROM task.queue_policies WHERE NOT counted AND updated_at < now() - interval '3 minutes'
    ORDER BY type FOR UPDATE SKIP LOCKED)
"""

# Who writes tasks: a statement takes this lock before its snapshot, so who isn't here sees what is committed.
WRITERS = """
SELECT virtualtransaction FROM pg_locks
WHERE locktype = 'relation' AND relation = 'task.tasks'::regclass AND mode = 'RowExclusiveLock' AND granted
    AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
"""

# How many tasks of a type are ahead of one with this order and id, counted up to a bound.
AHEAD = f"""
SELECT count(*) FROM (
    (SELECT FROM task.tasks WHERE type = :type AND {FRESH} AND (claim_order, id) < (:claim_order, :id)
     LIMIT :most)
    UNION ALL
    (SELECT FROM task.tasks WHERE type = :type AND {RETURNED} AND (claim_order, id) < (:claim_order, :id)
     LIMIT :most)
) a
"""

# $1 worker ids, $2 their types, each a JSON array. One that left has left, also when it was seen before that.
SEEN = """
INSERT INTO task.workers AS w (worker_id, types)
SELECT u.id, ARRAY(SELECT jsonb_array_elements_text(u.types::jsonb))
FROM unnest($1::text[], $2::text[]) AS u(id, types) ORDER BY u.id
ON CONFLICT (worker_id) DO UPDATE SET last_seen_at = now(),
    types = CASE WHEN cardinality(excluded.types) > 0 THEN excluded.types ELSE w.types END
"""

DROP_WORKERS = "DELETE FROM task.workers WHERE last_seen_at < now() - interval '1 day'"

# $1 workers that have gone, perhaps before anybody wrote down that they were there.
LEFT = """
INSERT INTO task.workers (worker_id, types, left_at)
SELECT u.id, '{}'::text[], now() FROM unnest($1::text[]) AS u(id) ORDER BY u.id
ON CONFLICT (worker_id) DO UPDATE SET last_seen_at = now(), left_at = now()
"""

# $1 workers, $2, $3 the runs they name.
LEFT_BEHIND = """
SELECT id, version FROM task.tasks
WHERE status = 'processing' AND claimed_by = ANY($1::text[])
    AND (id, version) NOT IN (SELECT * FROM unnest($2::uuid[], $3::int8[]))
ORDER BY claimed_by, id LIMIT 1000
"""
