"""Bring the schemas of all contexts up to date, or of those named: `python -m services.migrate task asr`.

The database is FRONTROW_DATABASE_URL; with FRONTROW_DATABASE_ROLES each context's role makes its own tables.
Any number may run at once; each takes a lock for its schema. The one process of `python -m services` does
this by itself; each of the split servers does it for its own context.
"""

import asyncio
import sys
from collections.abc import Sequence

import structlog
from pydantic import ValidationError

from libs.common import migrate, telemetry
from libs.common.redaction import redacted
from libs.common.settings import DatabaseSettings, TelemetrySettings
from libs.common.settings_error import explain

log = structlog.get_logger(__name__)

CONTEXTS = ("task", "review", "asr", "ingest")
"""In start order: each context calls only those before it."""


def main(names: list[str]) -> int:
    """Migrate; return the exit status."""
    unknown = sorted(set(names) - set(CONTEXTS))
    if unknown:
        sys.stderr.write(f"no such context: {', '.join(unknown)}; there are {', '.join(CONTEXTS)}\n")
        return 2
    try:
        telemetry.configure(TelemetrySettings(), "frontrow-migrate")
        database = DatabaseSettings()  # type: ignore[call-arg]  # the url comes from the environment
    except ValidationError as error:
        sys.stderr.write(f"settings are wrong:\n{explain(error)}\n")
        return 2
    try:
        asyncio.run(upgrade(database, names or CONTEXTS))
    except Exception as error:
        log.exception("migrate.failed")
        sys.stderr.write(f"migrate: {redacted(str(error))}\n")
        return 1
    return 0


async def upgrade(database: DatabaseSettings, names: Sequence[str] = CONTEXTS) -> None:
    """Bring the named contexts' schemas up to date, each as the role that owns it."""
    for name in names:
        await migrate.upgrade(database.of(name).url, name)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
