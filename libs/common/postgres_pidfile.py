"""Read ``postmaster.pid``: who uses a cluster, and whether that process is what it seems."""

import asyncio
import os
import time
from pathlib import Path

from libs.common.postgres_place import PostgresUnavailable

_POLL_SECONDS = 0.02


def pid_file_lines(cluster: Path) -> list[str]:
    """Return the lines of ``postmaster.pid``, none when there is no such file."""
    try:
        return (cluster / "postmaster.pid").read_text().splitlines()
    except FileNotFoundError:
        return []


async def wait_for_predecessor(cluster: Path, deadline: float) -> None:
    """Wait till no server uses the cluster; drop a pid file whose process is no PostgreSQL.

    A server whose owner was killed needs a moment to stop, and one that was killed itself leaves a pid that
    may be unreaped or taken by another program: PostgreSQL would call either "already exists".
    Raises PostgresUnavailable when it still runs at the deadline.
    """
    while lines := pid_file_lines(cluster):
        pid = int(lines[0]) if lines[0].strip().isdigit() else 0
        if not _is_running_postgres(pid):
            (cluster / "postmaster.pid").unlink(missing_ok=True)
            return
        if time.monotonic() > deadline:
            raise PostgresUnavailable(
                f"another PostgreSQL (process {pid}) uses {cluster}: stop that Frontrow first, or choose "
                "another folder with FRONTROW_DATA_DIR"
            )
        await asyncio.sleep(_POLL_SECONDS)


def _is_running_postgres(pid: int) -> bool:
    """Tell whether the process exists, isn't a zombie and is a PostgreSQL."""
    if pid <= 0:
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass  # it exists, as another user's
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return not Path("/proc/self").exists()  # no procfs: believe the signal
    name, _, rest = status.partition("(")[2].rpartition(")")
    return name.startswith("postgres") and rest.split()[0] not in ("Z", "X")
