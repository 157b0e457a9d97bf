"""The statement that ends runs and hands out tasks in one go: one round trip for a whole transaction."""

# ruff: noqa: S608 - the parts put together here are constants, every value is a parameter

from __future__ import annotations

from services.task.statements_claim import LOOK, claiming
from services.task.statements_end import GIVEN, ending

# $1..$11 as END_GIVEN, $12..$16 as CLAIM's $1..$5. Both parts see the tasks as they were before: not for
# endings after which a task may be claimed at once, nor for types with a policy, whose room they would
# change. A policy set this very moment is kept in step all the same. Rows of both kinds: `slot` is NULL in
# those that tell of an end.
END_AND_CLAIM = f"""
WITH {ending(GIVEN)}, {claiming(kind="$12", count="$13", mark="$14", workers="$15", everywhere="$16")},
settled AS (
    UPDATE task.queue_policies q SET running = q.running + d.n
    FROM (SELECT type, sum(n) AS n FROM (
        SELECT type, -1 AS n FROM ended UNION ALL SELECT type, 1 FROM claimed) u GROUP BY type) d
    WHERE q.type = d.type
), told AS MATERIALIZED (
    SELECT n, id AS ended_id, type AS ended_type, status AS ended_status, due_at AS ended_due FROM ended
)
SELECT {LOOK}, e.*, c.* FROM told e LEFT JOIN claimed c ON false
UNION ALL
SELECT {LOOK}, e.*, c.* FROM claimed c LEFT JOIN told e ON false
"""
