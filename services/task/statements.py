"""Hot statements of the queue: beats, records, upkeep. Each finds its rows by index alone.

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

POLICY_TYPES = "SELECT type FROM task.queue_policies ORDER BY type"

# $1 types to leave out.
LOCK_OTHER_POLICIES = """
SELECT FROM task.queue_policies WHERE type <> ALL($1::text[]) ORDER BY type FOR UPDATE
"""

# $1 types: those of them whose policies somebody holds; the others' are locked. Waits for nobody, so it may
# come behind policies of whatever type.
LOCK_FREE_POLICIES = """
WITH free AS MATERIALIZED (
    SELECT type FROM task.queue_policies WHERE type = ANY($1::text[]) FOR UPDATE SKIP LOCKED
)
SELECT type FROM task.queue_policies WHERE type = ANY($1::text[]) AND type NOT IN (SELECT type FROM free)
"""

# $1 ids, $2 versions: what is known of runs that a finish did not end.
RUN_RECORDS = """
SELECT g.n, t.id IS NOT NULL AS known, r.ended_as, r.outcome, r.reason
FROM unnest($1::uuid[], $2::int8[]) WITH ORDINALITY AS g(id, version, n)
LEFT JOIN task.tasks t ON t.id = g.id
LEFT JOIN task.task_runs r ON r.task_id = g.id AND r.version = g.version
"""

# $1 ids, $2 versions. Rows are locked in one order, or two servers wait for each other in a circle.
COUNT_LATE = """
WITH given AS MATERIALIZED (
    SELECT id, version, count(*) AS count FROM unnest($1::uuid[], $2::int8[]) AS u(id, version)
    GROUP BY id, version
), locked AS MATERIALIZED (
    SELECT r.task_id, r.version, g.count
    FROM given g JOIN task.task_runs r ON r.task_id = g.id AND r.version = g.version
    ORDER BY r.task_id, r.version FOR UPDATE OF r
)
UPDATE task.task_runs r SET late_writes = r.late_writes + l.count
FROM locked l WHERE r.task_id = l.task_id AND r.version = l.version
"""

_ROSE = "l.hundredths > t.progress * 100 + t.progress_hundredths"
_BEAT = f"""
WITH given AS MATERIALIZED (
    SELECT * FROM unnest($1::uuid[], $2::int8[], $3::int2[]) WITH ORDINALITY AS u(id, version, hundredths, n)
), locked AS MATERIALIZED (
    SELECT t.id, g.hundredths, g.n FROM given g JOIN task.tasks t ON {LIVE}
    ORDER BY t.id FOR NO KEY UPDATE OF t {{waiting}}
)
UPDATE task.tasks t SET
    heartbeat_at = now(), absent_beats = 0, progress = greatest(t.progress, l.hundredths / 100),
    progress_hundredths = CASE WHEN {_ROSE} THEN l.hundredths % 100 ELSE t.progress_hundredths END,
    progress_at = CASE WHEN {_ROSE} THEN now() ELSE t.progress_at END
FROM locked l WHERE t.id = l.id
RETURNING l.n, t.type, t.cancel_requested_at IS NOT NULL AS cancel_requested, now() AS beaten_at,
    t.progress_at = now() AS rose
"""

# $1 ids, $2 versions, $3 progress in hundredths of a per cent (NULL: none). A wait for a row that somebody
# holds would cost every other run its lease: those rows are passed over, and tried once more by themselves.
BEAT = _BEAT.format(waiting="SKIP LOCKED")
BEAT_AGAIN = _BEAT.format(waiting="")

# $1 ids, $2 versions of runs that weren't renewed: those whose task is there, and whether they are live.
STANDING = f"""
SELECT g.n, t.type, t.cancel_requested_at IS NOT NULL AS cancel_requested, t.heartbeat_at AS beaten_at,
    {LIVE} AS live
FROM unnest($1::uuid[], $2::int8[]) WITH ORDINALITY AS g(id, version, n) JOIN task.tasks t ON t.id = g.id
"""

# $1 workers that beat, $2 ids and $3 versions they named, $4 age in seconds. SKIP LOCKED: a row that is being
# written is not lost. Ordered as the index of running rows is: by id alone, a planner that thinks many rows
# run would walk all tasks by their ids until it has its thousand.
COUNT_ABSENT = """
WITH absent AS MATERIALIZED (
    SELECT id FROM task.tasks
    WHERE status = 'processing' AND claimed_by = ANY($1::text[])
        AND started_at < now() - make_interval(secs => $4)
        AND (id, version) NOT IN (SELECT * FROM unnest($2::uuid[], $3::int8[]))
    ORDER BY claimed_by, id LIMIT 1000 FOR UPDATE SKIP LOCKED
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

# $1 types: whether anything of theirs may be claimed.
HAS_WORK = f"""
SELECT EXISTS (SELECT FROM unnest($1::text[]) AS w(type)
    WHERE EXISTS (SELECT FROM task.tasks t WHERE t.type = w.type AND {FRESH})
        OR EXISTS (SELECT FROM task.tasks t WHERE t.type = w.type AND {RETURNED}))
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
