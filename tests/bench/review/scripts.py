"""The statements of an approval as a script of pgbench: the same texts in the same order, and no server."""

from __future__ import annotations

import re

from libs.common.named import Statement
from services.review import statements_draft, statements_promotion
from services.review.models import STREET
from tests.bench.review.galleries import FIRST_YEAR

# The parameters that are the same in every approval; the others are variables of the script.
_ALWAYS = {
    **{"status": "'approved'", "decides": "true", "deletes": "false", "is_deleted": "false"},
    **{"revision": "1", "new_revision": "2", "decided_by": "'Anna'", "actor": "'Anna'"},
    **{"reject_reason": "''", "decided_at": "NULL", "deleted_at": "NULL", "cover_media_id": "NULL"},
    **{"actions": "ARRAY['approved']", "reasons": "ARRAY['']", "changes": "ARRAY['[]']"},
    **{"image_ids": "'{}'", "positions": "'{}'", "hidden": "'{}'", "captions": "'{}'"},
    **{"title": "'The best street style of the week, part ' || :draft_id", "city": "'Copenhagen'"},
    **{"cities": "ARRAY[:city_id]", "roots_of_cities": "ARRAY[:city_id]"},
}
# Any number is as good a lock as another: the city's, then the key's.
_LOCKS = "SELECT pg_advisory_xact_lock_shared(-1);\nSELECT pg_advisory_xact_lock(:key);\n"

SPANS = "CREATE UNLOGGED TABLE spans (turn int, seconds float8)"

# All clients begin a turn at the same moment.
_TOGETHER = """
\\set at_ms :start * 1000 + :turn * :gap_ms
SELECT greatest(0, CAST(:at_ms AS float8) * 1000 - extract(epoch FROM clock_timestamp()) * 1e6)::int
    AS pause \\gset
\\sleep :pause us
SELECT clock_timestamp() AS began \\gset
"""
_NOTE = """
INSERT INTO spans
SELECT CAST(:turn AS int), extract(epoch FROM clock_timestamp() - CAST(:began AS timestamptz));
"""


def _filled(statement: Statement) -> str:
    return re.sub(r"(?<!:):(\w+)", lambda found: _ALWAYS.get(found[1], found[0]), statement.text) + ";\n"


def _approval() -> str:
    look = _filled(statements_draft.look(STREET))
    changed = _filled(statements_draft.write(STREET)) + _filled(statements_promotion.recompute(STREET))
    return f"{look}BEGIN;\n{_LOCKS}{changed}COMMIT;\n"


def _variables(key: str, draft: str) -> str:
    return (
        f"\\set turn :turn + 1\n\\set key {key}\n\\set draft_id {draft}\n"
        f"\\set year {FIRST_YEAR} + :key / 12\n\\set month :key % 12 + 1\n"
    )


def one_key_together() -> str:
    """Return the script in which all clients approve at one key, then all at the next.

    Variables to give: `turn` (-1), `start` (Unix seconds), `gap_ms`, `first_key`, `first` (the number of the
    first draft that waits in its key, from 1), `drafts` (in a key), `city_id`. Needs the table `SPANS`.
    """
    variables = _variables(":first_key + :turn", ":key * :drafts + :first + :client_id")
    return variables + _TOGETHER + _approval() + _NOTE


def distinct_keys() -> str:
    """Return the script in which each client has its own keys.

    Variables as above, without those of time, and `turns`: how many approvals each client makes.
    """
    variables = _variables(":first_key + :client_id * :turns + :turn", ":key * :drafts + :first")
    return variables + _approval()
