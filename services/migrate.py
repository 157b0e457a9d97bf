"""Bring the schemas of all contexts up to date, or of those named: `python -m services.migrate task asr`.

The database is FRONTROW_DATABASE_URL. Any number may run at once; each takes a lock for its schema. The one
process of `python -m services` does this by itself; split servers expect that it was done.
"""

import asyncio
import sys

from pydantic import ValidationError

from libs.common import migrate, telemetry
from libs.common.settings import DatabaseSettings, TelemetrySettings
from libs.common.settings_error import explain

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
    asyncio.run(_upgrade(database.url, names or list(CONTEXTS)))
    return 0


async def _upgrade(url: str, names: list[str]) -> None:
    for name in names:
        await migrate.upgrade(url, name)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
